//! SQLite on raw flash: each commit is one atomic group of pages, written once, without a journal.
//!
//! A [`Volume`] holds files on any [`PageStore`](nandex::PageStore), for example the page-mapping FTL on a
//! chip, simulated or in an image file ([`Device`]). A [`Vfs`] shows the volume to SQLite. After a power cut,
//! each committed transaction is whole and every other one is absent. This holds in every journal mode and at
//! every `synchronous` setting, since the VFS itself makes each commit one group.
//!
//! ```
//! # #[cfg(feature = "bundled")] {
//! use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
//! use nandex::nand::{catalogue, sim::SimChip};
//! use nandex_sqlite::{Vfs, Volume, VolumeConfig};
//!
//! let chip = SimChip::new(catalogue::find("k9f1g08u0f").unwrap()).unwrap();
//! let store = PageMapFtl::format(chip, &FtlConfig { atomic_pages: 256, ..FtlConfig::default() }).unwrap();
//! let vfs = Vfs::register("flash", Volume::open(store, VolumeConfig::default()).unwrap()).unwrap();
//! let database = vfs.open("notes.db").unwrap();
//! database.execute_batch("CREATE TABLE note(text); INSERT INTO note VALUES('kept')").unwrap();
//! assert_eq!(vfs.stats().unwrap().large_commits, 0, "every commit fitted a group");
//! # }
//! ```
//!
//! Without the feature `bundled` the crate links no SQLite, and any SQLite of the process can use a volume:
//! see [`routines!`] and [`Vfs::register_with`]. The feature `extension` builds the library that SQLite
//! loads.
#![deny(missing_docs)]
#![cfg(unix)]

mod device;
mod errors;
#[allow(unsafe_code)]
mod ffi;
mod locks;
mod look;
mod open;
mod router;
mod settings;
mod stats;
mod volume;

pub use device::{Device, MountProgress, OnProgress, Stated, chip_of_image};
pub use errors::OpenError;
pub use ffi::Routines;
pub use look::{FileFault, FileKind, FileStats, Header, Look};
pub use open::Vfs;
pub use settings::{Commits, Journals, VolumeConfig};
pub use stats::{ChipCounts, VolumeStats};
pub use volume::Volume;

/// The examples of the page on this crate, compiled and run.
#[cfg(all(doctest, feature = "bundled"))]
#[doc = include_str!("../../../docs/sqlite.md")]
pub struct Page;
