//! Trees whose changed nodes are written together, in runs of pages: the ground they share, and what each
//! does with a full buffer.

pub mod as_btree;
pub mod cb_tree;
pub mod fb_tree;
mod ground;

pub use ground::{ClusterCounts, ClusteredConfig, ClusteredTree, FlushPolicy, Layer};
