//! Page stores on what an operating system offers.
//!
//! [`FilePageStore`] keeps pages in a file or on a block device of a Unix system, so that a tree, a cache or
//! a trace that runs on the simulated chip runs on real hardware too. Its time is that of the wall clock.
//! [`open_chip`] makes a chip of such pages. A [`Lock`] keeps a file or device to one owner.
#![deny(missing_docs)]

#[cfg(unix)]
mod aligned;
#[cfg(unix)]
mod chip;
#[cfg(unix)]
mod file;
#[cfg(all(test, unix))]
#[path = "../../../src/inputs.rs"]
mod inputs;
mod lock;

#[cfg(unix)]
pub use chip::open_chip;
#[cfg(unix)]
pub use file::{FileOptions, FilePageStore, Punching};
pub use lock::{Access, Lock, LockError};
