//! The traces, words and map data that come with Nandex, packed by zstd. What each is, where it is from and
//! its licence stand in `README.md` beside this file.
//!
//! They are a crate of their own, so that a package of the lab has them inside.

#![no_std]

/// A trace of an index: its operations, and the keys that are there before the first.
#[derive(Clone, Copy, Debug)]
pub struct IndexTrace {
    /// The operations, packed.
    pub operations: &'static [u8],
    /// The keys that are loaded first, packed.
    pub init: &'static [u8],
}

macro_rules! index_trace {
    ($name:literal) => {
        IndexTrace {
            operations: include_bytes!(concat!($name, ".ops.zst")),
            init: include_bytes!(concat!($name, ".init.ops.zst")),
        }
    };
}

/// ReiserFS's B+-tree under a kernel build, the first 240,000 operations.
pub const KERNEL_COMPILE: IndexTrace = index_trace!("kernel_compile");
/// The indexes of a database under OLTP, the first 400,000 operations.
#[cfg(feature = "large")]
pub const OLTP_A: IndexTrace = index_trace!("oltp_a");
/// The indexes of a database under OLAP, all 689,486 operations.
#[cfg(feature = "large")]
pub const OLAP_B: IndexTrace = index_trace!("olap_b");

/// Page accesses of a B-tree, random keys: the beginning.
pub const BTREE_IO_RS0: &[u8] = include_bytes!("btree_io_rs0_cut.csv.zst");
/// Page accesses of a B-tree, half of the keys ascending: the beginning.
pub const BTREE_IO_RS05: &[u8] = include_bytes!("btree_io_rs05_cut.csv.zst");
/// Page accesses of a B-tree, ascending keys: all of them.
pub const BTREE_IO_RS1: &[u8] = include_bytes!("btree_io_rs1.csv.zst");
/// Page accesses of a B-tree, random insertions and deletions: the beginning.
pub const BTREE_IO_RS0_MIXED: &[u8] = include_bytes!("btree_io_rs0_mixed_cut.csv.zst");

/// Places of GeoNames as points.
pub const PLACES: &[u8] = include_bytes!("places.csv.zst");
/// Runs of rivers and borders as rectangles.
pub const RIVERS: &[u8] = include_bytes!("rivers.csv.zst");
/// English words, one a line.
#[cfg(feature = "large")]
pub const WORDS: &[u8] = include_bytes!("words.txt.zst");
