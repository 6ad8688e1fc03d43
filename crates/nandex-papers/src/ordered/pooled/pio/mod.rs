//! The PIO B-tree: page requests go out many at a time, so that the channels of the medium all have work.
//!
//! H. Roh, S. Park, S. Kim, M. Shin, S.-W. Lee, "B+-tree Index Optimization by Exploiting Internal
//! Parallelism of Flash-based Solid State Drives", PVLDB 5(4), 2011.
//!
//! # State
//!
//! On the medium: a B+-tree of one-page nodes, the *directory*, and leaves of L pages in a row, their
//! segments (`page.rs`), to which updates are appended as records. In RAM: the *operation queue* (OPQ), which
//! is the pool of the [lazy-update tree](crate::ordered::lazy_update) as a single group, sorted at all times;
//! and a byte for each leaf, how many of its segments are used.
//!
//! # Operations
//!
//! - *psync*: page requests that do not depend on each other are one batch of the store
//!   ([`batch`](nandex::store::batch)), at most `requests` of them; reads and writes are not mixed.
//! - *insert, remove*: into the queue. A full queue makes a *bupdate* (`update.rs`): it empties the queue in
//!   key order.
//! - *get*: the queue, the path, then all used segments of the leaf as one batch.
//! - *range*: leaves are read several at a time, ever more while the walk goes on.
//! - *mount*: the directory only. The used segments of a leaf are learnt when it is first read.
//!
//! # Durability
//!
//! As published without its log the queue is lost at a power cut: the class is *none*, with the clean mark of
//! the directory. An appended page is written in place, old or new after a cut; what writes several pages of
//! a leaf, or a node of the directory, is one atomic group where the store takes such. So
//! [`mount_after_cut`](PioTree::mount_after_cut) opens what a cut left, and an update
//! [`journal`](crate::ordered::journal) in place of the paper's log makes it durable.
//!
//! # Invariants
//!
//! P1 to P5 of the pool and B1 to B8 of the directory, and
//!
//! - O1 A segment carries a right checksum, its own number, its place and the mark.
//! - O2 Segments of a leaf follow each other without a gap: each but the last is full, and the next one
//!   carries its checksum.
//! - O3 The pages of leaves and the nodes of the directory are different pages, and all that are in use.
//! - O4 The sorted records of a leaf come first, ascending, and all lie within the bounds that the directory
//!   has for it.
//!
//! # Deviations and confidence
//!
//! Concept: high, from abstract and digest; append in the leaf, thresholds and numbers: our reading (medium
//! to low). A bupdate empties the whole queue; the queue is always sorted, so there is no sort period. Splits
//! are not gathered: a leaf without room is consolidated alone; where the store has no room for another it
//! stays as full as it can be. Sparse leaves are joined, and neighbours share their records, only when an
//! insertion would be refused. Inner nodes are one page, and the leaves of a range are found along the
//! directory one path at a time; the choice of node sizes by measured latencies is left to whoever sets
//! `leaf_pages`.

mod join;
mod page;
mod settings;
#[cfg(test)]
mod tests;
mod tree;
mod update;

pub use settings::PioConfig;
pub use tree::SegmentTree;

use crate::ordered::lazy_update::{Pooled, pooled_over_directory};
use nandex::check::{IndexError, Invariant};
use nandex::units::Lpn;

/// The PIO B-tree: a queue of waiting operations above a tree whose leaves are several pages in a row.
pub type PioTree<S> = Pooled<SegmentTree<S>>;

fn corrupted(invariant: Invariant, what: &'static str, at: Lpn) -> IndexError {
    IndexError::broken(invariant, what, u64::from(at.0))
}

pooled_over_directory!(PioTree, SegmentTree, PioConfig);
