//! Page stores on files and devices of an operating system.
//!
//! [`FilePageStore`] keeps pages in a file or on a block device of a Unix system. So a tree, a cache or a
//! trace that runs on the simulated chip runs on real hardware too, timed by the wall clock. [`open_chip`]
//! makes a chip of such pages. A [`Lock`] keeps a file or device to one owner.
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
