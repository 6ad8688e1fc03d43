//! Trees on raw NAND that rewrite the path from a leaf to the root: their common ground, and the trees.

pub(crate) mod ground;
pub mod mu;
#[cfg(test)]
mod tests;
pub mod vm;
pub mod wandering;
