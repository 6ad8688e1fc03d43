//! The MB-tree: updates wait in RAM by leaf, and a leaf of several pages takes all that wait for it at once.
//!
//! H. Roh, W.-C. Kim, S. Kim, S. Park, "A B-Tree Index Extension to Enhance Response Time and the Life Cycle
//! of Flash Memory", Information Sciences 179(18), 2009.
//!
//! # State
//!
//! On the medium: a B+-tree of one-page nodes, the *directory*, whose records name leaves; and the leaves, 1
//! to n pages each, the first with a header that lists the pages, their first keys and their entries
//! (`page.rs`). In RAM: the *batch process buffer*, which is the pool of the [lazy-update
//! tree](crate::ordered::lazy_update) with its policy *biggest*: requests by leaf, the leaf with the most
//! goes first, of equals the one hit least recently.
//!
//! # Operations
//!
//! - *insert, remove*: as in the lazy-update tree. A full buffer gives the batch of one leaf to it
//!   (`batch.rs`).
//! - *get*: the buffer, then the directory, the header page, and one page more unless the key belongs to the
//!   first.
//! - *range*: the header of each leaf and its pages that may have keys of the range, with what waits in
//!   between.
//! - *leaf size* (`size.rs`): with each batch a leaf says how many pages it may have, from means of the
//!   changes of its batches and of its reads, which its header keeps. A leaf with more pages is split. Reads
//!   are counted while a group waits for the leaf.
//!
//! # Durability
//!
//! As published the buffer is lost at a power cut: the class is *none*, with the clean mark of the directory.
//! A batch writes the pages that change in place, as one atomic group with the nodes of the directory, where
//! the store takes such groups: the tree is then whole at any time,
//! [`mount_after_cut`](MbTree::mount_after_cut) opens what a cut left, and an update
//! [`journal`](crate::ordered::journal) makes it durable. Writing in place costs no trims, and the pages of a
//! leaf keep their place on FTLs that map blocks.
//!
//! # Invariants
//!
//! P1 to P6 of the pool and B1 to B8 of the directory, and
//!
//! - M1 A page of a leaf carries a right checksum, its own number, its place and the mark.
//! - M2 The header says of each page its number, entries and first key; no page is empty but the only one of
//!   a leaf.
//! - M3 Keys ascend strictly in a page, from page to page, and within the bounds that the directory has for
//!   the leaf.
//! - M4 The pages of leaves and the nodes of the directory are different pages, and all that are in use.
//!
//! # Deviations and confidence
//!
//! Concept: high, from the abstract. Layout, the controller of the size and all numbers: our reading (medium
//! to low). The pages of a leaf need not be consecutive: the header tells their numbers, at 4 bytes each, so
//! that no space is kept for leaves that may grow. A mount reads all headers to know which pages are in use.
//! The last leaf below a parent merges with its left neighbour.

mod batch;
mod page;
mod settings;
mod size;
#[cfg(test)]
mod tests;
mod tree;

pub use settings::MbConfig;
pub use tree::WideTree;

use crate::ordered::lazy_update::{Pooled, pooled_over_directory};
use nandex::check::{IndexError, Invariant};
use nandex::units::Lpn;

/// The MB-tree: a pool of waiting updates above a tree with leaves of several pages.
pub type MbTree<S> = Pooled<WideTree<S>>;

fn corrupted(invariant: Invariant, what: &'static str, at: Lpn) -> IndexError {
    IndexError::broken(invariant, what, u64::from(at.0))
}

pooled_over_directory!(MbTree, WideTree, MbConfig);
