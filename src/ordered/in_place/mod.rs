//! Trees whose nodes are pages of a store, written in place: the B+-tree.

pub mod bplus;
