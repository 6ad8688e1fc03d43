//! CB-tree: memory nodes in levels, each level written as a batch when it is full.
//!
//! B.-K. Kim, G.-W. Kim, D.-H. Lee, "A Novel B-Tree Index with Cascade Memory Nodes for Improving Sequential
//! Write Performance on Flash Storage Devices", Applied Sciences 10(3):747, 2020. Modified leaves gather in
//! memory nodes; when W of them wait they are written as one sequential batch. Their new pages change their
//! parents, which wait in the memory nodes of the next level until that has W, and so on: a cascade. Where
//! keys come in unbroken ascending order a full leaf is not split but stays whole, and the new key begins a
//! leaf of its own.
//!
//! # Deviations and confidence
//!
//! Our reading of the abstract, and of the WPCB-tree by the same school for the rule on ascending keys and
//! for what an empty node does (it is expelled): medium for the concept, low for the rest. W = 16 for each
//! level, but the levels together never hold more than 3 W nodes: then they are written though they are not
//! full. Where batches go the abstract does not say: to the next run of W free pages, or shorter ones where
//! there is none, as in the FB-tree; with it come the space factor of two and the superblocks.

use super::{ClusteredConfig, FlushPolicy};
use nandex::ordered::RecordFormat;
use nandex::ordered::bplus::{BPlusConfig, Overflow, Underflow};

/// Settings of the CB-tree, by our reading of the paper.
pub const fn config(record: RecordFormat) -> ClusteredConfig {
    let config = ClusteredConfig::new(record, FlushPolicy::Cascade, 16, None);
    let tree = BPlusConfig { overflow: Overflow::KeepContiguous, underflow: Underflow::Expel, ..config.tree };
    ClusteredConfig { tree, ..config }
}
