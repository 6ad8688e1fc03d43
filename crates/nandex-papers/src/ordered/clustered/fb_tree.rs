//! FB-tree: a B+-tree written out of place in runs of free pages that come about by themselves.
//!
//! M. V. Jorgensen, R. B. Rasmussen, S. Saltenis, C. Schonning, "FB-tree: A B+-tree for Flash-Based SSDs",
//! IDEAS 2011. A B+-tree, a buffer manager and a storage manager. Every modified node is written out of
//! place, together with others in relatively large blocks. That frees pages all the time, and there is no
//! garbage collection: with twice the space there are always free runs of some length, and a batch goes to
//! the next of them.
//!
//! # Deviations and confidence
//!
//! What is said above: high, from the abstract. The rest is our reading: 64 modified nodes wait, ancestors of
//! leaves among them; the 16 used least recently leave together, which never leaves a node behind whose
//! parent is written; a next-fit search over a bitmap for runs of s_min = 16 pages, half as many after a
//! round in vain, and twice as many again after each superblock. Recovery: two superblocks in turns that name
//! the root, after a batch that has all nodes that wait, at every sync, after 64 batches, and where free
//! pages are few.

use super::{ClusteredConfig, FlushPolicy};
use nandex::ordered::RecordFormat;

/// Least pages in a run that a batch is written to, as long as there are such runs.
const RUN_PAGES: u32 = 16;

/// Settings of the FB-tree, by our reading of the paper.
pub const fn config(record: RecordFormat) -> ClusteredConfig {
    ClusteredConfig::new(record, FlushPolicy::LeastRecent, 64, Some(RUN_PAGES))
}
