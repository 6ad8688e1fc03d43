//! Ordered and spatial indexes for flash memory: those that a product links. The indexes, FTLs and policies
//! of the literature stand on the same grounds in `nandex-papers`.
//!
//! The crate is the *engine*: chips, flash translation layers, caches and indexes. It is `no_std` with
//! `alloc`, deterministic, and reads no clock, spawns no thread, opens no file and prints nothing.
//!
//! The rooms, each using only those to its right:
//!
//! ```text
//! ordered, spatial -> log, record_log -> cache -> ftl -> blocks -> store -> nand -> units, shared, codec, rng
//! ```
//!
//! # What is where
//!
//! | to | take |
//! |---|---|
//! | mount what is there, or format a blank chip | [`open`](fn@open) |
//! | describe a chip, or drive one | [`Nand`], [`Geometry`]; a simulated one: [`nand::sim::SimChip`] of a part of [`nand::catalogue`] |
//! | have pages that may be overwritten | [`PageStore`]; on a chip: [`PageMapFtl`], [`DftlFtl`] |
//! | keep records in key order on a chip | [`MuTree`], [`WanderingTree`], [`VmTree`], [`Plow`], [`Sbits`] |
//! | keep them on a store | [`BPlusTree`] |
//! | keep records of any length in one of these | [`Variable`](ordered::variable::Variable); long values: [`ValueLog`](ordered::value_log::ValueLog) |
//! | keep rectangles or points | [`RTree`], [`HilbertRTree`] |
//!
//! A configuration comes from its `new` or `default` and is changed by its methods `with_..`, one for each
//! field; configurations, counters and errors may get more fields and variants with any release, so they are
//! `non_exhaustive` (not where `unstable` is on).
//!
//! What the indexes stand on (block tables, logs, mapping tables) is private. The feature `unstable` opens
//! it to those who build an index or an FTL of their own; it may change with any release.
#![no_std]
#![deny(missing_docs)]
// The grounds offer more than a tier uses of them; `unstable` opens them to other crates.
#![cfg_attr(
    not(all(feature = "unstable", feature = "full", feature = "std")),
    allow(dead_code, unused_imports)
)]
#![cfg_attr(not(feature = "unstable"), allow(unreachable_pub))]
#![cfg_attr(not(feature = "unstable"), allow(rustdoc::private_intra_doc_links))]

extern crate alloc;
#[cfg(any(feature = "std", feature = "testing", test))]
extern crate std;

// Rooms that are open to others only with the feature `unstable`.
#[cfg(not(feature = "unstable"))]
mod bits;
#[cfg(feature = "unstable")]
pub mod bits;
#[cfg(not(feature = "unstable"))]
mod blocks;
#[cfg(feature = "unstable")]
pub mod blocks;
#[cfg(not(feature = "unstable"))]
mod codec;
#[cfg(feature = "unstable")]
pub mod codec;
#[cfg(not(feature = "unstable"))]
mod fault;
#[cfg(feature = "unstable")]
pub mod fault;
#[cfg(not(feature = "unstable"))]
mod log;
#[cfg(feature = "unstable")]
pub mod log;
#[cfg(not(feature = "unstable"))]
mod record_log;
#[cfg(feature = "unstable")]
pub mod record_log;
#[cfg(not(feature = "unstable"))]
mod rng;
#[cfg(feature = "unstable")]
pub mod rng;
#[cfg(not(feature = "unstable"))]
mod sort;
#[cfg(feature = "unstable")]
pub mod sort;

pub mod cache;
pub mod check;
pub mod ftl;
pub mod index;
#[cfg(test)]
mod inputs;
mod invariant;
pub mod nand;
mod open;
pub mod ordered;
mod queue;
mod ratio;
pub mod shared;
mod sorted;
pub mod spatial;
pub mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod units;
mod with;

pub use blocks::Validity;
pub use blocks::hot::HotConfig;
pub use blocks::victim::VictimPolicy;
pub use blocks::wear::WearLevelling;
pub use check::{CheckReport, IndexError, Invariant, Limit};
pub use ftl::dftl::{DftlConfig, DftlFtl};
pub use ftl::page_map::{FtlConfig, PageMapFtl};
#[cfg(feature = "unstable")]
pub use log::LogConfig;
pub use log::{Placement, SamePage, WritePartLimit};
pub use nand::{Cause, Geometry, Nand, NandError};
pub use open::{Unopened, format, open};
#[doc(no_inline)]
pub use ordered::bplus::{BPlusConfig, BPlusTree};
pub use ordered::furrow::{Furrow, FurrowConfig};
#[doc(no_inline)]
pub use ordered::mu::{MuStarTree, MuTree};
pub use ordered::plow::{Plow, PlowConfig};
pub use ordered::sbits::{Sbits, SbitsConfig};
#[doc(no_inline)]
pub use ordered::vm::{VmConfig, VmTree};
#[doc(no_inline)]
pub use ordered::wandering::WanderingTree;
pub use ordered::{Direction, Durability, IndexStats, OrderedIndex, RawConfig, RecordFormat, Visit};
pub use shared::Shared;
pub use spatial::SpatialIndex;
pub use spatial::hilbert::HilbertRTree;
pub use spatial::r_tree::RTree;
pub use store::{PageStore, StoreError};
pub use units::{Lpn, Nanos, Pbn, Ppn};

/// The example of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
