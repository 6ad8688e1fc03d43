//! FB-tree: a B+-tree written out of place in runs of free pages, which arise without garbage collection.
//!
//! M. V. Jorgensen, R. B. Rasmussen, S. Saltenis, C. Schonning, "FB-tree: A B+-tree for Flash-Based SSDs",
//! IDEAS 2011. A B+-tree, a buffer manager and a storage manager. Modified nodes are written out of place,
//! together in relatively large blocks. That frees pages all the time, so there is no garbage collection:
//! with twice the space there are always free runs of some length, and a batch goes to the next of them.
//!
//! # Deviations and confidence
//!
//! The description above: high, from the abstract. The rest is our reading. 64 modified nodes wait, including
//! ancestors of leaves. The 16 least recently used leave together; no node remains waiting whose parent is
//! written. A next-fit search over a bitmap finds runs of s_min = 16 pages. The length is halved after a full
//! round without success, and doubled again after each superblock. Recovery uses two superblocks, written
//! alternately, that name the root. One is written after a batch with all waiting nodes, at every sync, after
//! 64 batches, and if free pages are few.

use super::{ClusteredConfig, FlushPolicy};
use nandex::ordered::RecordFormat;

/// Least pages in a run that a batch is written to, as long as there are such runs.
const RUN_PAGES: u32 = 16;

/// Settings of the FB-tree, by our reading of the paper.
pub const fn config(record: RecordFormat) -> ClusteredConfig {
    ClusteredConfig::new(record, FlushPolicy::LeastRecent, 64, Some(RUN_PAGES))
}
