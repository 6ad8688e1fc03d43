//! Files on a [`PageStore`]: named files survive a power cut, nameless ones do not.
//!
//! Words used in this module, each in this one sense:
//!
//! - A *page* is a page of a file, counted from 0 in its file. It is as large as a page of the store.
//! - A *store page* is a page of the store below, named by its logical page number, `lpn`. A *run* is a range
//!   of consecutive store pages.
//! - The *home* of a page is the store page where its committed contents are. A page keeps its home from
//!   commit to commit.
//! - A page *waits* from when it is written until [`Volume::commit`]. A *slot* has its contents meanwhile: in
//!   RAM, or *spilled* to a store page if RAM is short.
//! - A *packed* page is kept as *pieces*: ranges of bytes to copy from its home and from other homes, ranges
//!   of zeros, and new bytes. A *record* is the encoded pieces of one page. A *bundle* is many records
//!   compressed together.
//! - A *group* is the pages that one atomic write of the store takes. A *large commit* does not fit a group:
//!   its pages are first put *aside*, in free store pages, and a *list* names them.
//! - The *directory* names the files and their runs. It is in one of two *directory slots*.
//! - The *room* is the free store pages that files may take. The other free store pages are *kept back* for
//!   large commits.
//!
//! A commit is whole or absent after a power cut. It writes the changed pages, and the directory only if a
//! file appears, goes or gets more runs. Reads see the newest contents, committed or not.
//!
//! `Medium` is the store and the facts known of its pages; it knows no files. A `File` knows its homes and
//! its waiting pages. `Files` has the names and counts RAM. `Pages` is one file, borrowed for changes.
//!
//! Invariants
//! - V1: each store page belongs to the directory, to one file, to one slot, to a large commit, or is free.
//! - V2: at every moment the flash holds the state after some commit that is not older than the last
//!   acknowledged one.
//! - V3: a free store page was trimmed, and is trimmed again at a mount.

mod bundles;
mod commit;
mod delta;
mod directory;
mod file;
mod files;
mod journal;
mod kept_back;
mod list;
mod log_tail;
mod look;
mod medium;
mod mount;
mod packed;
mod pages;
mod placed;
mod plan;
mod redo;
mod slots;
mod space;
mod spill;
mod table;
#[cfg(test)]
mod tests;
mod unchanged;
mod waiting;

pub(crate) use file::Purpose;
pub(crate) use look::look;
pub(crate) use table::FileId;

use crate::settings::VolumeConfig;
use crate::stats::{ChipCounts, VolumeStats};
use file::File;
use medium::Medium;
use nandex::Geometry;
use pages::Pages;
use plan::Plan;
use slots::Slot;
use space::Run;
use table::{Change, Files};

/// Returns the counters of the chip below.
type Watch = Box<dyn Fn() -> ChipCounts + Send>;

/// A page store with files.
pub struct Volume {
    medium: Medium,
    files: Files,
    settings: VolumeConfig,
    watch: Option<Watch>,
    /// Shape of the chip, known if a device was named.
    geometry: Option<Geometry>,
}

impl Volume {
    /// Bytes of a store page: the best `page_size` of a database on this volume.
    pub fn page_bytes(&self) -> usize {
        self.medium.page_bytes
    }

    /// The settings with which the volume was opened.
    pub fn settings(&self) -> VolumeConfig {
        self.settings
    }

    /// Store pages by which files may grow: the free ones without those kept back.
    pub fn free_pages(&self) -> u32 {
        self.medium.space.room()
    }

    /// The counters of the volume since it was opened.
    pub fn stats(&self) -> VolumeStats {
        VolumeStats {
            free_pages: self.medium.space.room().into(),
            kept_back_pages: self.medium.space.kept_back().min(self.medium.space.pages()).into(),
            group_pages_max: self.group_pages_max() as u64,
            store: self.medium.store.stats(),
            chip: self.watch.as_ref().map(|watch| watch()),
            ..self.medium.stats
        }
    }

    /// Sets the function that reads the chip's counters for [`Volume::stats`].
    #[must_use]
    pub fn watching(mut self, watch: impl Fn() -> ChipCounts + Send + 'static) -> Volume {
        self.watch = Some(Box::new(watch));
        self
    }

    /// Sets the shape of the chip below.
    pub(crate) fn on_chip(mut self, geometry: Geometry) -> Volume {
        self.geometry = Some(geometry);
        self
    }

    pub(crate) fn chip_geometry(&self) -> Option<Geometry> {
        self.geometry
    }

    /// Sets the pages read by the mount, for [`Volume::stats`].
    pub(crate) fn mounted_in(mut self, page_reads: u64) -> Volume {
        self.medium.stats.mount_page_reads = Some(page_reads);
        self
    }

    /// The most store pages of a group, those of the directory included.
    pub fn group_pages_max(&self) -> usize {
        self.medium.group_pages_max()
    }

    /// Message of the last error.
    pub fn last_error(&self) -> &str {
        &self.medium.last_error
    }
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut it = f.debug_struct("Volume");
        it.field("settings", &self.settings)
            .field("files", &self.files.names)
            .field("stats", &self.medium.stats)
            .finish()
    }
}
