//! Trees whose nodes are pages of a store, written in place: the B+-tree, and the B-tree over the
//! write-pattern-converting FTL.

pub mod bplus;
pub mod wpcb;
