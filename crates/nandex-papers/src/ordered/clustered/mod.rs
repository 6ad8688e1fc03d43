//! Trees that write changed nodes together, in runs of pages: their common ground, and the policy of each for
//! a full buffer.

pub mod as_btree;
pub mod cb_tree;
pub mod fb_tree;
mod ground;

pub use ground::{ClusterCounts, ClusteredConfig, ClusteredTree, FlushPolicy, Layer};
