//! The media of the tests: one store and one chip, with every fault that a test can wish for; and the model
//! that an ordered index is compared with. Only with the feature `testing`, and never in a program.
//!
//! Store and chip are handles: the index owns one, the test keeps another and looks at the medium, damages
//! it, or lets its power fail. So a test of any index instantiates it for [`Store`] or [`Chip`] alone,
//! however the medium is to behave.
//!
//! ```
//! use nandex::testing::Store;
//! use nandex::{BPlusConfig, BPlusTree, OrderedIndex, RecordFormat};
//!
//! let store = Store::new(512, 100);
//! let mut index = BPlusTree::format(store.handle(), &BPlusConfig::new(RecordFormat::new(4, 4)))?;
//! store.fail_after(0);
//! assert!(index.insert(&[1; 4], &[2; 4]).is_err());
//! assert_eq!(store.page_of(nandex::Lpn(7)), [0; 512]);
//! # Ok::<(), nandex::IndexError>(())
//! ```
//!
//! A [`Model`] is a map of what an index must hold: [`Mix`] draws operations, [`apply`] and [`live`] do them
//! with both, [`assert_holds`] compares them. A [`History`] knows which states a power cut may leave.
//! Model and operations of stores are in [`pages`].

mod chip;
pub mod damaged;
mod history;
pub mod levelled;
mod model;
pub mod pages;
pub mod schemes;
#[path = "../sizes.rs"]
mod sizes;
mod store;
#[cfg(test)]
mod tests;

pub use chip::{Access, Chip, Wrong};
pub use history::History;
pub use model::{
    ALL, Bounds, Mix, Model, Op, Pairs, apply, assert_holds, assert_sound, contents, fill, get, key, live,
    ops, put, take, value, walk,
};
pub use store::{Call, Change, ORDERED, Promise, SINGLE, Store, UNORDERED, WRITE_THROUGH};
