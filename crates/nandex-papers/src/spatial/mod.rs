//! Spatial indexes of the literature: kinds of tree, and layers below any tree.
//!
//! Kinds: [`r_star`], [`mr_tree`], [`for_tree`]. Layers: [`buffered`] (FAST, eFIND), [`rftl`].

pub mod buffered;
pub mod for_tree;
pub mod mr_tree;
pub mod r_star;
pub mod rftl;
#[cfg(test)]
mod tests;
