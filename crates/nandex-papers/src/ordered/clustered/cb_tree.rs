//! CB-tree: memory nodes in levels; each level is written as a batch when it is full.
//!
//! B.-K. Kim, G.-W. Kim, D.-H. Lee, "A Novel B-Tree Index with Cascade Memory Nodes for Improving Sequential
//! Write Performance on Flash Storage Devices", Applied Sciences 10(3):747, 2020. Modified leaves gather in
//! memory nodes. When W of them wait, they are written as one sequential batch. Their new pages change their
//! parents, which wait in the memory nodes of the next level until that has W, and so on: a cascade. If keys
//! come in unbroken ascending order, a full leaf is not split: it stays whole, and the new key begins a new
//! leaf.
//!
//! # Deviations and confidence
//!
//! Medium for the concept, low for the rest: this is our reading of the abstract. The rule on ascending keys,
//! and that an empty node is removed, are from the WPCB-tree by the same authors. W = 16 for each level, but
//! all levels together never hold more than 3 W nodes: then they are written although they are not full. The
//! abstract does not tell where batches go. Here it is the next run of W free pages, or shorter runs if there
//! is none, as in the FB-tree, and with its space factor of two and its superblocks.

use super::{ClusteredConfig, FlushPolicy};
use nandex::ordered::RecordFormat;
use nandex::ordered::bplus::{BPlusConfig, Overflow, Underflow};

/// Settings of the CB-tree, by our reading of the paper.
pub const fn config(record: RecordFormat) -> ClusteredConfig {
    let config = ClusteredConfig::new(record, FlushPolicy::Cascade, 16, None);
    let tree = BPlusConfig { overflow: Overflow::KeepContiguous, underflow: Underflow::Expel, ..config.tree };
    ClusteredConfig { tree, ..config }
}
