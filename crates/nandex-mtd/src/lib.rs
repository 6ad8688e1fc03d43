//! Raw NAND under Linux, as a chip for the engine.
//!
//! [`Mtd`] is a chip behind `/dev/mtdN`: pages with their spare areas are read and programmed by one request
//! each, so that a tree or an FTL stands on a real part as on the simulated one. [`RawDump`] is a dump of
//! such a device as `nanddump -o -n --bb=dumpbad` writes it, so that an image taken from a product is opened
//! on a desk. [`Unchanged`] shows any chip so that what is programmed stays in RAM: looking at a device never
//! changes it. [`transfer`] writes dumps and puts them back.
//!
//! An error of the engine names a page or a block of what it was given; the [`Events`] that a device shares
//! with its owner have the device, the block and page of the whole chip, and the system's own words.
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
