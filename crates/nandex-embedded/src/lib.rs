//! Nandex and the traits of embedded Rust.
//!
//! | you have | you want | take |
//! |---|---|---|
//! | a NOR part behind [`embedded_storage::nor_flash::NorFlash`] | an index or an FTL on it | [`NorChip`] |
//! | a page store of Nandex (an FTL, say) | [`embedded_storage::Storage`], or a stream of [`embedded_io`] | [`StoreBytes`] |
//!
//! ```
//! # use nandex_embedded::ram::RamFlash;
//! use nandex::ordered::{OrderedIndex, RawConfig, RecordFormat, mu::MuTree};
//! use nandex_embedded::{NorChip, Shape};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let flash = RamFlash::<4, 4096>::new(64 * 4096);
//! let shape = Shape::new(448, 64);  // eight pages in an erase unit of 4 KiB
//! let chip = NorChip::new(flash, shape)?;                  // any driver of a NOR part
//! let mut tree = MuTree::format(chip, &RawConfig::new(RecordFormat::new(4, 4)))?;
//! tree.insert(b"key1", b"1234")?;
//! # Ok(())
//! # }
//! ```

#![cfg_attr(not(any(feature = "std", test, doctest)), no_std)]

extern crate alloc;

mod bytes;
mod nor;
#[doc(hidden)]
pub mod ram;

pub use bytes::{BytesError, StoreBytes};
pub use nor::{NorChip, Shape};
