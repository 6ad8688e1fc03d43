//! Ordered and spatial indexes for flash memory.
//!
//! The crate is the *engine*: chips, flash translation layers, caches and indexes. It is `no_std` with `alloc`,
//! deterministic, and reads no clock, spawns no thread, opens no file and prints nothing.
//!
//! The rooms, each using only those to its right:
//!
//! ```text
//! ordered, spatial, sensor -> unit_layer -> log, record_log -> cache -> ftl -> blocks -> store -> nand -> units, shared, codec, rng
//! ```
#![no_std]
#![deny(missing_docs)]

extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

pub mod blocks;
pub mod cache;
pub mod check;
pub mod codec;
pub mod ftl;
pub mod index;
#[cfg(test)]
mod inputs;
pub mod log;
pub mod nand;
pub mod ordered;
pub mod record_log;
pub mod rng;
pub mod sensor;
pub mod shared;
pub mod spatial;
pub mod store;
pub mod unit_layer;
pub mod units;

pub use check::{CheckReport, IndexError};
pub use nand::{Cause, Geometry, Nand, NandError};
pub use ordered::OrderedIndex;
pub use sensor::SensorLog;
pub use shared::Shared;
pub use spatial::SpatialIndex;
pub use store::{PageStore, StoreError};
pub use units::{Lpn, Nanos, Pbn, Ppn};

/// The example of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
