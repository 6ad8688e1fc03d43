//! A file of a volume: its state, and reading its pages from slots or homes.

use super::journal::Pieces;
use super::log_tail::LogTail;
use super::placed::Placed;
use super::waiting::Waiting;
use super::{Medium, Slot};
use crate::locks::Locks;
use nandex::StoreError;
use std::ops::Range;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A database. SQLite's header has its exact size.
    Main,
    /// A rollback journal.
    Journal,
    /// A write-ahead log, or another file that must survive.
    Kept,
    /// A file that nobody needs once it is closed.
    #[default]
    Temporary,
    /// A rollback journal in RAM: only the process that wrote it can need it.
    RamJournal,
}

impl Purpose {
    /// True if the flash has the file after a commit.
    pub(crate) fn is_kept(self) -> bool {
        matches!(self, Purpose::Main | Purpose::Journal | Purpose::Kept)
    }
}

/// Size of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// Size in bytes.
    pub(super) size: u64,
    /// Pages, from the first, whose homes may be read. Fewer than have homes if the file was shortened since
    /// the last commit.
    pub(super) visible: u32,
}

#[derive(Debug, Default)]
pub(super) struct File {
    /// Name of the file; `None` once it was deleted.
    pub(super) name: Option<String>,
    pub(super) purpose: Purpose,
    pub(super) placed: Placed,
    /// Extent that users of the file see now.
    pub(super) now: Extent,
    /// Extent after the last commit.
    pub(super) settled: Extent,
    pub(super) waiting: Waiting,
    /// Contents of a rollback journal in RAM; such a file has no waiting pages.
    pub(super) journal: Pieces,
    /// True if the last commit failed with an error that leaves its outcome open. Then closing the file drops
    /// what waits.
    pub(super) is_failed: bool,
    /// True if a write or commit was refused since the last commit, and the waiting pages were dropped.
    pub(super) is_reverted: bool,
    pub(super) log: LogTail,
    /// Store pages that the database will take when this log is checkpointed.
    pub(super) owed: u32,
    /// True if the file is written in units larger than a store page.
    pub(super) is_wide: bool,
    /// Super-journal whose deletion commits this file; `None` if no commit is held back.
    pub(super) held_by: Option<String>,
    pub(super) locks: Locks,
    pub(super) handles: u32,
}

impl File {
    /// Number of pages for the size of the file.
    pub(super) fn pages(&self, page_bytes: usize) -> u32 {
        self.now.size.div_ceil(page_bytes as u64) as u32
    }

    /// Pages that must read as zeros but were not written, because the file was written beyond its end or was
    /// shortened and grew again. A commit writes zeros there: a trim may be undone by a power cut.
    pub(super) fn hollow(&self, page_bytes: usize) -> Vec<u32> {
        let pages = self.now.visible..self.pages(page_bytes);
        pages.filter(|&page| self.waiting.slot(page).is_none()).collect()
    }

    /// True if a commit of the file would write anything.
    pub(super) fn waits(&self, page_bytes: usize) -> bool {
        let is_kept = self.purpose.is_kept() && self.name.is_some() && self.held_by.is_none();
        let changes = !self.waiting.is_empty() || self.now.size != self.placed.kept_size;
        is_kept && (changes || !self.hollow(page_bytes).is_empty())
    }

    /// Pages of a range that have a committed home and keep it in the next commit, each with its home.
    pub(super) fn staying(&self, pages: Range<u32>, page_bytes: usize) -> impl Iterator<Item = (u32, u32)> {
        let end = pages.end.min(self.placed.filled).min(self.pages(page_bytes));
        (pages.start..end).filter_map(|page| Some((page, self.placed.home(page)?)))
    }

    /// Homes, other than its own, from which a packed page copies.
    pub(super) fn others_of(&self, page: u32) -> Vec<u32> {
        let found = self.placed.home(page).zip(self.waiting.record(page));
        found.and_then(|(home, (record, _))| Some(record.parts(home)?.0)).unwrap_or_default()
    }

    /// Reads `there` bytes from an offset on. After a read larger than a page, `medium` remembers the
    /// checksums of its committed pages.
    pub(super) fn read(
        &self,
        offset: u64,
        data: &mut [u8],
        there: usize,
        medium: &mut Medium,
    ) -> Result<(), StoreError> {
        let is_wide = data.len() > medium.page_bytes;
        for (page, within, range) in pages_of(offset, there, medium.page_bytes) {
            let target = &mut data[range];
            if target.len() < medium.page_bytes {
                let mut whole = vec![0; medium.page_bytes];
                self.load(page, &mut whole, medium)?;
                target.copy_from_slice(&whole[within..within + target.len()]);
                continue;
            }
            self.load(page, target, medium)?;
            if is_wide
                && self.waiting.slot(page).is_none()
                && let Some(home) = self.visible_home(page)
            {
                medium.known.learn(home, target);
            }
        }
        Ok(())
    }

    /// Home of a page, if the page is visible there.
    pub(super) fn visible_home(&self, page: u32) -> Option<u32> {
        self.placed.home(page).filter(|_| page < self.now.visible)
    }

    /// Reads a page from its slot or its home. A page never written is zeros.
    pub(super) fn load(&self, page: u32, data: &mut [u8], medium: &mut Medium) -> Result<(), StoreError> {
        match self.waiting.slot(page) {
            Some(Slot::Ram(bytes)) => {
                data.copy_from_slice(bytes);
                Ok(())
            }
            Some(&Slot::Spilled { lpn, crc, .. }) => medium.read_checked(lpn, crc, data),
            Some(Slot::Packed { .. } | Slot::Bundled { .. }) => {
                let found = self.placed.home(page).zip(self.waiting.record(page));
                let what = "a page that waits has no place";
                let (home, (record, crc)) = found.ok_or(StoreError::Corrupted { what, at: page.into() })?;
                medium.restore(home, (&record, crc), data, Medium::read)
            }
            None => load_from(self.visible_home(page), data, medium),
        }
    }

    /// Reads from the state after the last commit.
    pub(super) fn read_committed(
        &self,
        offset: u64,
        data: &mut [u8],
        medium: &mut Medium,
    ) -> Result<(), StoreError> {
        let mut whole = vec![0; medium.page_bytes];
        for (page, within, range) in pages_of(offset, data.len(), medium.page_bytes) {
            let home = self.placed.home(page).filter(|_| page < self.settled.visible);
            load_from(home, &mut whole, medium)?;
            let bytes = range.len();
            data[range].copy_from_slice(&whole[within..within + bytes]);
        }
        Ok(())
    }
}

/// Reads a home, or zeros if there is none.
fn load_from(home: Option<u32>, data: &mut [u8], medium: &mut Medium) -> Result<(), StoreError> {
    match home {
        Some(home) => medium.read(home, data),
        None => {
            data.fill(0);
            Ok(())
        }
    }
}

/// Splits a range of a file into pages. Yields for each the page, the offset within it, and the range of the
/// caller's bytes.
pub(super) fn pages_of(
    offset: u64,
    bytes: usize,
    page_bytes: usize,
) -> impl Iterator<Item = (u32, usize, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let (place, page_bytes) = (offset + done as u64, page_bytes as u64);
        let (page, within) = ((place / page_bytes) as u32, (place % page_bytes) as usize);
        let range = done..bytes.min(done + page_bytes as usize - within);
        done = range.end;
        (!range.is_empty()).then_some((page, within, range))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_of_pages() {
        let pages: Vec<_> = pages_of(1000, 700, 512).collect();
        assert_eq!(pages, [(1, 488, 0..24), (2, 0, 24..536), (3, 0, 536..700)]);
        assert_eq!(pages_of(512, 0, 512).next(), None);
    }

    #[test]
    fn a_file_waits_where_its_end_is_not_as_listed_or_a_page_is_hollow() {
        let mut file = File { name: Some(String::from("a")), purpose: Purpose::Kept, ..File::default() };
        assert!(!file.waits(512));
        file.now.size = 1025;
        assert_eq!((file.waits(512), file.hollow(512)), (true, vec![0, 1, 2]));
        file.placed.kept_size = 1025;
        file.now.visible = 2;
        assert_eq!((file.waits(512), file.hollow(512)), (true, vec![2]));
        file.held_by = Some(String::from("b"));
        assert!(!file.waits(512));
    }
}
