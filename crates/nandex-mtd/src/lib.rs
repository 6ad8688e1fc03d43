//! Raw NAND under Linux, as a chip for the engine.
//!
//! [`Mtd`] is a chip behind `/dev/mtdN`. It reads and programs pages with their spare areas in one request
//! each, so that a tree or an FTL runs on a real part as on the simulated one. [`RawDump`] is a dump of such
//! a device as `nanddump -o -n --bb=dumpbad` writes it, so that an image taken from a product can be opened
//! elsewhere. [`Unchanged`] wraps any chip and keeps programs in RAM: looking at a device never changes it.
//! [`transfer`] writes dumps and restores them.
//!
//! An error of the engine names a page or block of the part of the chip that it was given. The [`Events`]
//! that a device shares with its owner name the device, the block and page of the whole chip, and the
//! system's own message.
#![deny(missing_docs)]

mod error;
mod geometry;
#[cfg(target_os = "linux")]
mod io;
mod layout;
#[cfg(all(test, target_os = "linux"))]
mod model;
#[cfg(target_os = "linux")]
mod mtd;
mod raw_dump;
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod sys;
#[cfg(target_os = "linux")]
mod sysfs;
pub mod transfer;
mod unchanged;

pub use error::{Counts, Events, Fault, MtdError};
pub use geometry::{RawGeometry, range};
#[cfg(target_os = "linux")]
pub use io::{Facts, MtdIo, OobMode, ReadStats};
pub use layout::SpareLayout;
#[cfg(target_os = "linux")]
pub use mtd::{Mtd, MtdOptions};
pub use raw_dump::RawDump;
#[cfg(target_os = "linux")]
pub use sys::Device;
pub use unchanged::Unchanged;
