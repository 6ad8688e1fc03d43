//! Trees on raw NAND that write the path from a leaf to the root anew: the ground they share, and what each
//! makes of it.

pub(crate) mod ground;
pub mod mu;
#[cfg(test)]
mod tests;
pub mod vm;
pub mod wandering;
