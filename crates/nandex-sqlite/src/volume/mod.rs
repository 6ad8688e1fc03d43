//! Files on a [`PageStore`]: named ones that survive, and nameless ones that do not.
//!
//! What is written to a file waits in *slots*, in RAM, until [`Volume::commit`]; a commit is whole or absent
//! after a power cut. A file's pages keep their place in the store, so that a commit writes the changed pages
//! and nothing else; the directory is among them only when a file appears, goes, or outgrows its room. Reads
//! see what was written, committed or not.
//!
//! The store and what is known of its pages are a `Medium`, which knows no files. A `File` knows its places
//! and what waits of it. `Files` has their names and the count of RAM; `Pages` is one of them, to be changed.
//!
//! Invariants
//! - V1: a page of the store belongs to the directory, to one file, to one slot, to a large commit, or is
//!   free.
//! - V2: what the flash holds is at every moment the state after some commit, and after the last one that was
//!   acknowledged.
//! - V3: a free page was trimmed, and is again after a mount.

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

/// Tells what the chip below did so far.
type Watch = Box<dyn Fn() -> ChipCounts + Send>;

/// A page store with files.
pub struct Volume {
    medium: Medium,
    files: Files,
    settings: VolumeConfig,
    watch: Option<Watch>,
    /// The shape of the chip, where a device was named.
    geometry: Option<Geometry>,
}

impl Volume {
    /// Bytes of a page of the store: the best `page_size` of a database on it.
    pub fn page_bytes(&self) -> usize {
        self.medium.page_bytes
    }

    /// How the volume works.
    pub fn settings(&self) -> VolumeConfig {
        self.settings
    }

    /// Pages by which files may grow: those that no file has, but for the ones kept back.
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

    /// Lets [`Volume::stats`] tell what the chip below did as well.
    #[must_use]
    pub fn watching(mut self, watch: impl Fn() -> ChipCounts + Send + 'static) -> Volume {
        self.watch = Some(Box::new(watch));
        self
    }

    /// Lets the volume know the chip below it.
    pub(crate) fn on_chip(mut self, geometry: Geometry) -> Volume {
        self.geometry = Some(geometry);
        self
    }

    /// The shape of the chip below, where it is known.
    pub(crate) fn chip_geometry(&self) -> Option<Geometry> {
        self.geometry
    }

    /// Lets [`Volume::stats`] tell what the mount read.
    pub(crate) fn mounted_in(mut self, page_reads: u64) -> Volume {
        self.medium.stats.mount_page_reads = Some(page_reads);
        self
    }

    /// The most pages that one group takes, those of the directory included.
    pub fn group_pages_max(&self) -> usize {
        self.medium.group_pages_max()
    }

    /// The last error in words.
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
