//! Page stores on what an operating system offers.
//!
//! [`FilePageStore`] keeps pages in a file or on a block device of a Unix system, so that a tree, a cache or
//! a trace that runs on the simulated chip runs on real hardware too. Its time is that of the wall clock.
//! [`open_chip`] makes a chip of such pages.
#![deny(missing_docs)]
#![cfg(unix)]

mod aligned;
mod chip;
mod file;
#[cfg(test)]
#[path = "../../../src/inputs.rs"]
mod inputs;

pub use chip::open_chip;
pub use file::{FileOptions, FilePageStore, Punching};
