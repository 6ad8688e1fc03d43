//! The literature on the grounds of [`nandex`]: indexes, flash translation layers, replacement policies and
//! spatial trees, each as its paper has it.
//!
//! A product links [`nandex`]. This crate is for comparison and research: it stands on the grounds that the
//! feature `unstable` of [`nandex`] opens, and may change with any release.
//!
//! | to | take |
//! |---|---|
//! | have a store of the literature | the FTLs of [`ftl`], [`ftl::tbm::Tbm`] |
//! | keep records in key order | [`IplTree`], [`LazyUpdateTree`], [`LsLruTree`] and the others of [`ordered`] |
//! | keep rectangles or points | [`RStarTree`], [`MrTree`], [`ForTree`], the layers of [`spatial`] |
//! | keep readings of a sensor | [`MicroHash`](sensor::microhash::MicroHash) |
//! | choose what leaves a cache | the policies of [`cache`] |
#![no_std]
#![deny(missing_docs)]

extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

pub mod cache;
pub mod ftl;
#[cfg(test)]
#[path = "../../../src/inputs.rs"]
mod inputs;
pub mod ordered;
pub mod sensor;
pub mod spatial;
pub mod unit_layer;

pub use ordered::ipl::{IplConfig, IplTree};
pub use ordered::journal::{JournalConfig, Journaled};
pub use ordered::lazy_update::{LazyUpdateConfig, LazyUpdateTree};
pub use ordered::ls_lru::LsLruTree;
pub use sensor::SensorLog;
pub use spatial::for_tree::ForTree;
pub use spatial::mr_tree::MrTree;
pub use spatial::r_star::RStarTree;
