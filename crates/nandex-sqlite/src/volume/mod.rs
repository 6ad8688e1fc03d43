//! Files on a [`PageStore`]: named ones that survive, and nameless ones that do not.
//!
//! What is written to a file waits in *slots*, in RAM, until [`Volume::commit`]; a commit is whole or absent
//! after a power cut. A file's pages keep their place in the store, so that a commit writes the changed pages
//! and nothing else; the directory is among them only when a file appears, goes, or outgrows its room. Reads
//! see what was written, committed or not.
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
mod files;
mod journal;
mod kept_back;
mod list;
mod log_tail;
mod look;
mod mount;
mod packed;
mod redo;
mod slots;
mod space;
mod spill;
#[cfg(test)]
mod tests;
mod unchanged;

pub(crate) use files::FileId;
pub(crate) use files::Purpose;
pub(crate) use look::look;

use crate::locks::Locks;
use crate::settings::VolumeConfig;
use crate::stats::{ChipCounts, VolumeStats};
use journal::Pieces;
use list::Record;
use log_tail::LogTail;
use nandex::{Geometry, PageStore};
use redo::Moved;
use slots::{Room, Slot, Slots};
use space::{Run, Space};
use std::collections::{BTreeMap, BTreeSet};
use unchanged::Known;

/// Pages in RAM that a database with a write-ahead log may have where RAM is short.
const LOGGED_PAGES: usize = 32;

/// Tells what the chip below did so far.
type Watch = Box<dyn Fn() -> ChipCounts + Send>;

/// A page store with files.
pub struct Volume {
    store: Box<dyn PageStore>,
    page_bytes: usize,
    settings: VolumeConfig,
    space: Space,
    sequence: u64,
    /// Pages of a large commit that are not in their places yet.
    moved: Option<Moved>,
    files: BTreeMap<FileId, File>,
    names: BTreeMap<String, FileId>,
    next: u32,
    /// Bytes of RAM that slots take, all together.
    ram_used: usize,
    stats: VolumeStats,
    watch: Option<Watch>,
    /// The shape of the chip, where a device was named.
    geometry: Option<Geometry>,
    last_error: String,
    /// A directory may be on the flash that was not acknowledged: the next commit replaces it.
    is_unsure: bool,
    known: Known,
}

/// A file, open or not.
#[derive(Debug, Default)]
struct File {
    /// The name by which the file is found; none once it was deleted.
    name: Option<String>,
    purpose: Purpose,
    /// The directory on the flash has it.
    is_listed: bool,
    runs: Vec<Run>,
    /// Pages taken for the file to grow by, before a commit lists them: what is spilled of it goes there.
    ahead: Vec<Run>,
    /// Pages of the runs that may hold something: those beyond are zeros.
    filled: u32,
    /// The visible pages: as `filled`, where the file was shortened since the last commit.
    visible: u32,
    /// Bytes, as the directory on the flash has it.
    kept_size: u64,
    /// Bytes, as those who have it open see it.
    size: u64,
    slots: Slots,
    /// The pieces of a journal in RAM, which has no slots.
    journal: Pieces,
    /// The pages written since an atomic batch began.
    batch: Option<Batch>,
    /// Bytes and visible pages, as the last commit left them.
    settled: (u64, u32),
    /// The last commit failed, and nobody knows how: what waits is not what anybody wants.
    is_failed: bool,
    /// A write or a commit was refused since the last commit, and what waited was dropped.
    is_reverted: bool,
    log: LogTail,
    /// Pages that a checkpoint of this log takes for the database.
    owed: u32,
    /// Whether the file is written in units larger than a page of the store.
    is_wide: bool,
    /// The super-journal whose end commits it.
    held_by: Option<String>,
    locks: Locks,
    handles: u32,
}

/// The pages written since an atomic batch began, and the state before.
#[derive(Debug, Default)]
struct Batch {
    slots: Slots,
    size: u64,
    visible: u32,
    /// Earlier slots from this page on were cut off since.
    cut: u32,
    /// Earlier slots before this page were packed, where that was worth while.
    tried: u32,
}

impl File {
    /// Pages of the store that it has.
    fn capacity(&self) -> u32 {
        self.runs.iter().map(|run| run.pages).sum()
    }

    /// The page of the store where one of its pages has its place.
    fn home(&self, page: u32) -> Option<u32> {
        home(&self.runs, page)
    }

    fn slot(&self, page: u32) -> Option<&Slot> {
        let Some(batch) = &self.batch else { return self.slots.get(page) };
        batch.slots.get(page).or_else(|| self.slots.get(page).filter(|_| page < batch.cut))
    }

    fn has_slots(&self) -> bool {
        !self.slots.is_empty() || self.batch.as_ref().is_some_and(|batch| !batch.slots.is_empty())
    }

    /// The slots of the batch that is open.
    fn batch_slots(&self) -> Option<&Slots> {
        self.batch.as_ref().map(|batch| &batch.slots)
    }

    /// The slots that take what is written now.
    fn open_slots(&mut self) -> &mut Slots {
        self.batch.as_mut().map_or(&mut self.slots, |batch| &mut batch.slots)
    }

    /// The slots that have a page, as [`File::slot`] finds it.
    fn slots_with(&mut self, page: u32) -> &mut Slots {
        let batch = self.batch.as_mut().map(|batch| &mut batch.slots);
        batch.filter(|slots| slots.get(page).is_some()).unwrap_or(&mut self.slots)
    }

    /// The record that makes a page that is packed, and its checksum.
    fn record(&self, page: u32) -> Option<(Record, u32)> {
        let of_batch = self.batch.as_ref().map(|batch| &batch.slots);
        of_batch.filter(|slots| slots.get(page).is_some()).unwrap_or(&self.slots).record(page)
    }

    /// The next page in RAM from before the batch that is open, each of them once.
    fn next_before_batch(&mut self) -> Option<u32> {
        let batch = self.batch.as_mut()?;
        let page = self.slots.unpacked_from(batch.tried)?;
        batch.tried = page + 1;
        Some(page)
    }

    /// Pages in slots, each once.
    fn slot_pages(&self) -> BTreeSet<u32> {
        let cut = self.batch.as_ref().map_or(u32::MAX, |batch| batch.cut);
        let earlier = self.slots.iter().filter(|(page, _)| *page < cut);
        let batch = self.batch.iter().flat_map(|batch| batch.slots.iter());
        earlier.chain(batch).map(|(page, _)| page).collect()
    }
}

/// The page of the store where this page of some runs is.
fn home(runs: &[Run], page: u32) -> Option<u32> {
    let mut before = page;
    for run in runs {
        if before < run.pages {
            return Some(run.first + before);
        }
        before -= run.pages;
    }
    None
}

impl Volume {
    /// Bytes of a page of the store: the best `page_size` of a database on it.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// How the volume works.
    pub fn settings(&self) -> VolumeConfig {
        self.settings
    }

    /// Pages by which files may grow: those that no file has, but for the ones kept back.
    pub fn free_pages(&self) -> u32 {
        self.space.room()
    }

    /// The counters of the volume since it was opened.
    pub fn stats(&self) -> VolumeStats {
        VolumeStats {
            free_pages: self.space.room().into(),
            kept_back_pages: self.space.kept_back().min(self.space.pages()).into(),
            group_pages_max: self.group_pages_max() as u64,
            store: self.store.stats(),
            chip: self.watch.as_ref().map(|watch| watch()),
            ..self.stats
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
        self.stats.mount_page_reads = Some(page_reads);
        self
    }

    /// The most pages that one group takes, those of the directory included.
    pub fn group_pages_max(&self) -> usize {
        if self.store.prefix_consistent() { self.store.atomic_pages_max() } else { 0 }
    }

    /// The last error in words.
    pub fn last_error(&self) -> &str {
        &self.last_error
    }

    /// A file and what its slots need.
    fn parts(&mut self, id: FileId) -> (Option<&mut File>, Room<'_>) {
        let least = self.store.atomic_pages_max().max(16);
        // A database with a log puts nothing out: what it has goes to its place.
        let logged = if self.log_of(id).is_some() { LOGGED_PAGES } else { 0 };
        let most = self.settings.ram_bytes.max(least * self.page_bytes) + logged * self.page_bytes;
        let room = Room {
            store: &mut self.store,
            space: &mut self.space,
            used: &mut self.ram_used,
            most,
            spilled: &mut self.stats.spilled_pages,
        };
        (self.files.get_mut(&id), room)
    }
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut it = f.debug_struct("Volume");
        it.field("settings", &self.settings).field("files", &self.names).field("stats", &self.stats).finish()
    }
}
