//! Ordered and spatial indexes for flash memory.
//!
//! The crate is the *engine*: chips, flash translation layers, caches and indexes. It is `no_std` with `alloc`,
//! deterministic, and reads no clock, spawns no thread, opens no file and prints nothing.
//!
//! The rooms, each using only those to its right:
//!
//! ```text
//! ordered, spatial, sensor -> nodes -> log -> cache -> ftl -> nand -> units, shared, codec, rng
//! ```
#![no_std]
#![deny(missing_docs)]

extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

pub mod cache;
pub mod check;
pub mod codec;
pub mod ftl;
pub mod index;
#[cfg(test)]
mod inputs;
pub mod log;
pub mod nand;
pub mod nodes;
pub mod ordered;
pub mod rng;
pub mod sensor;
pub mod shared;
pub mod spatial;
pub mod units;

pub use check::{CheckReport, IndexError};
pub use ftl::{PageStore, StoreError};
pub use nand::{Cause, Geometry, Nand, NandError};
pub use ordered::OrderedIndex;
pub use sensor::SensorLog;
pub use shared::Shared;
pub use spatial::SpatialIndex;
pub use units::{Lpn, Nanos, Pbn, Ppn};

/// The example of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
