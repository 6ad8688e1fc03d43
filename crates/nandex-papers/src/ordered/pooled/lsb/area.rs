//! The log area: pages at the end of the store, and the leaf of each log page.
//!
//! A freed page is trimmed at once if writes are durable at once, otherwise at the next sync: before that,
//! the leaf that took its entries may not be on the medium. The page may be reused in the meantime.

use super::page::LogShape;
use alloc::vec;
use alloc::vec::Vec;
use nandex::check::{IndexError, Invariant};
use nandex::nand::Cause;
use nandex::sort;
use nandex::store::{PageStore, StoreError, unfit};
use nandex::units::Lpn;

/// The log pages and the directory of their leaves.
pub(super) struct LogArea<S> {
    store: S,
    pub(super) shape: LogShape,
    /// Pairs of leaf and log page, sorted by leaf.
    directory: Vec<(Lpn, Lpn)>,
    free: Vec<Lpn>,
    /// Freed pages that are not trimmed yet.
    dead: Vec<Lpn>,
    /// Number of pages freed since the last sync. After a cut they may be back.
    gone: usize,
    /// Number of the next page written. Later pages have higher numbers.
    number: u64,
    pub(super) writes: u64,
}

/// A log page found by a scan: its number minus that of the first one found, its leaf, and its place.
pub(super) type FoundLog = (i32, Lpn, Lpn);

/// The log pages found by a scan, the oldest first.
pub(super) struct Found {
    pub(super) logs: Vec<FoundLog>,
    /// The number from which the numbers in `logs` are counted.
    base: u64,
}

impl Found {
    /// The number of the next page, after all of these.
    fn next_number(&self) -> u64 {
        let newest = self.logs.iter().map(|(number, _, _)| *number).max();
        newest.map_or(1, |number| self.base.saturating_add_signed(number.into()).saturating_add(1))
    }
}

/// Bytes of RAM for `pages` log pages.
pub(super) const fn ram_bytes(pages: usize) -> usize {
    pages * 4 * size_of::<Lpn>()
}

/// Most bytes of RAM for `pages` log pages. During a mount the pages found take RAM in addition to the
/// directory.
pub(super) const fn ram_bytes_max(pages: usize) -> usize {
    pages * (2 * size_of::<Lpn>() + size_of::<FoundLog>())
}

impl<S: PageStore> LogArea<S> {
    /// An area without its lists. Call [`LogArea::open`] before the first write.
    pub(super) fn closed(store: S, shape: LogShape) -> LogArea<S> {
        let (directory, free, dead) = (Vec::new(), Vec::new(), Vec::new());
        LogArea { store, shape, directory, free, dead, gone: 0, number: 1, writes: 0 }
    }

    /// Makes the lists. A mount needs them only after it has dealt with the pages found.
    pub(super) fn open(&mut self) {
        let pages = self.pages() as usize;
        self.directory.reserve_exact(pages - self.directory.len());
        self.dead.reserve_exact(pages - self.dead.len());
        self.free = Vec::with_capacity(pages);
        let logs = &self.directory;
        let is_free = |page: &Lpn| logs.iter().all(|(_, at)| at != page);
        self.free.extend((0..pages as u32).rev().map(Lpn).filter(is_free));
    }

    /// The error for a mount that found no tree. The store counts as blank only if this area is blank as
    /// well.
    pub(super) fn explain(&mut self, error: IndexError) -> Result<IndexError, IndexError> {
        if !error.is_blank() {
            return Ok(error);
        }
        let what = "logs of an LSB-tree, and no tree";
        Ok(IndexError::NotFormatted(unfit(&mut self.store, what)?))
    }

    pub(super) fn store(&self) -> &S {
        &self.store
    }

    pub(super) fn pages(&self) -> u32 {
        self.store.page_count()
    }

    pub(super) fn trim_all(&mut self) -> Result<(), IndexError> {
        (0..self.pages()).try_for_each(|page| Ok(self.store.trim(Lpn(page))?))
    }

    /// Reads all pages and returns those with logs.
    pub(super) fn scan(&mut self, page: &mut [u8], cause: Cause) -> Result<Found, IndexError> {
        let mut found = Found { logs: Vec::with_capacity(self.pages() as usize), base: 0 };
        for at in (0..self.pages()).map(Lpn) {
            self.store.read(at, cause, page)?;
            let Some((leaf, number)) = self.shape.verify(page, at)? else { continue };
            if found.logs.is_empty() {
                found.base = number;
            }
            let Ok(number) = i32::try_from(i128::from(number) - i128::from(found.base)) else {
                let what = "the number of a log is far from those of others";
                return Err(IndexError::broken(Invariant::L2, what, at.0.into()));
            };
            found.logs.push((number, leaf, at));
        }
        sort::total(&mut found.logs);
        Ok(found)
    }

    /// Takes over the pages that a scan found. Two logs of one leaf are an error.
    pub(super) fn adopt(&mut self, found: &Found) -> Result<(), IndexError> {
        self.directory.reserve_exact(self.pages() as usize);
        for (_, leaf, at) in &found.logs {
            let place = self.directory.binary_search_by_key(leaf, |(leaf, _)| *leaf);
            let Err(place) = place else {
                return Err(IndexError::broken(Invariant::L2, "two logs of one leaf", at.0.into()));
            };
            self.directory.insert(place, (*leaf, *at));
        }
        self.number = self.number.max(found.next_number());
        Ok(())
    }

    pub(super) fn page_of(&self, leaf: Lpn) -> Option<Lpn> {
        let place = self.directory.binary_search_by_key(&leaf, |(leaf, _)| *leaf).ok()?;
        Some(self.directory[place].1)
    }

    pub(super) fn leaves(&self) -> impl Iterator<Item = Lpn> + '_ {
        self.directory.iter().map(|(leaf, _)| *leaf)
    }

    pub(super) fn len(&self) -> usize {
        self.directory.len()
    }

    /// Reads the log page of a leaf. Returns false if the leaf has none.
    pub(super) fn read(&mut self, leaf: Lpn, cause: Cause, page: &mut [u8]) -> Result<bool, IndexError> {
        let Some(at) = self.page_of(leaf) else { return Ok(false) };
        self.store.read(at, cause, page)?;
        match self.shape.verify(page, at)? {
            Some(_) => Ok(true),
            None => Err(IndexError::broken(Invariant::L2, "the log of a leaf is gone", at.0.into())),
        }
    }

    /// Reads a page that a scan found.
    pub(super) fn read_at(&mut self, at: Lpn, cause: Cause, page: &mut [u8]) -> Result<(), IndexError> {
        self.store.read(at, cause, page)?;
        self.shape.verify(page, at).map(drop)
    }

    /// Gives up all pages that a scan found. They are trimmed from the oldest on, so that the newest remain
    /// if the store refuses one.
    pub(super) fn bury(&mut self, found: &Found) {
        self.dead.clear();
        self.dead.reserve_exact(self.pages() as usize);
        self.dead.extend(found.logs.iter().rev().map(|(_, _, at)| *at));
        self.number = self.number.max(found.next_number());
    }

    /// Writes the log page of a leaf. [`StoreError::Full`] if the area has no free page.
    pub(super) fn write(&mut self, leaf: Lpn, page: &mut [u8]) -> Result<(), StoreError> {
        let old = self.page_of(leaf);
        let Some(at) = old.or_else(|| self.free.last().copied()) else { return Err(StoreError::Full) };
        self.shape.seal(page, at, leaf, self.number);
        self.store.write(at, Cause::Host, page)?;
        (self.number, self.writes) = (self.number + 1, self.writes + 1);
        if old.is_none() {
            self.free.pop();
            self.dead.retain(|dead| *dead != at);
            let place = self.directory.partition_point(|(other, _)| *other < leaf);
            self.directory.insert(place, (leaf, at));
        }
        Ok(())
    }

    /// Frees the log page of a leaf, if it has one. If the store refuses the trim, the next sync repeats it.
    /// The entries are in the tree, as they were after the last sync.
    pub(super) fn give_up(&mut self, leaf: Lpn) -> Result<(), IndexError> {
        let Ok(place) = self.directory.binary_search_by_key(&leaf, |(leaf, _)| *leaf) else { return Ok(()) };
        let (_, at) = self.directory.remove(place);
        self.free.push(at);
        self.dead.push(at);
        self.gone = (self.gone + 1).min(self.pages() as usize);
        let trimmed = if self.store.durable_writes() { self.trim_dead() } else { Ok(()) };
        trimmed.or_else(|error| if error.is_refusal() { Ok(()) } else { Err(error) })
    }

    /// Renames the leaf of the only log, because the leaf moved to another page.
    pub(super) fn rename_only(&mut self, leaf: Lpn) {
        self.directory.iter_mut().for_each(|(other, _)| *other = leaf);
    }

    /// Trims the freed pages.
    pub(super) fn trim_dead(&mut self) -> Result<(), IndexError> {
        while let Some(at) = self.dead.last().copied() {
            match self.store.trim(at) {
                // No room for the note of it: a blank page does as well, for the old one must be gone.
                Err(StoreError::Full) => {
                    self.store.write(at, Cause::Host, &vec![0; self.store.page_bytes()])?;
                }
                done => done?,
            }
            self.dead.pop();
        }
        Ok(())
    }

    /// Makes the writes durable, and then trims the freed pages.
    pub(super) fn sync(&mut self) -> Result<(), IndexError> {
        if self.dead.is_empty() {
            return Ok(());
        }
        self.store.sync()?;
        self.trim_dead()
    }

    /// Syncs the store, so that trimmed pages stay away after a cut.
    pub(super) fn sync_store(&mut self) -> Result<(), IndexError> {
        self.store.sync()?;
        self.stays_away();
        Ok(())
    }

    /// Notes that the store was synced. Pages trimmed before stay away.
    pub(super) fn stays_away(&mut self) {
        if self.dead.is_empty() {
            self.gone = 0;
        }
    }

    /// Number of freed pages that a cut may bring back.
    pub(super) fn gone(&self) -> usize {
        self.gone
    }
}
