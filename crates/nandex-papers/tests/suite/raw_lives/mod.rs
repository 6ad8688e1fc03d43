//! Lives of the trees on raw NAND where the chip is full, cut, dying or damaged.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod damage;
mod death;
mod edge;
mod kinds;
mod model;
