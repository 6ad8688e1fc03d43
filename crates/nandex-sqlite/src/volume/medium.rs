//! The store below a volume: reads the committed page of a home, and writes groups and directories.

use super::directory::{Directory, slot_pages};
use super::list::Record;
use super::redo::Moved;
use super::space::Space;
use super::unchanged::Known;
use super::{Run, delta};
use crate::settings::Commits;
use crate::stats::VolumeStats;
use nandex::{Cause, Lpn, PageStore, StoreError};
use std::borrow::Cow;

/// Pages to be written as a group, each with its store page.
pub(super) type Group<'a> = Vec<(Lpn, Cow<'a, [u8]>)>;

/// The store, and the facts known of its pages; it knows no files.
pub(super) struct Medium {
    pub(super) store: Box<dyn PageStore>,
    pub(super) page_bytes: usize,
    pub(super) commits: Commits,
    pub(super) space: Space,
    /// Sequence number of the newest directory on the flash.
    pub(super) sequence: u64,
    /// True if writing a directory failed and it may be on the flash all the same. The next commit replaces
    /// it.
    pub(super) is_unsure: bool,
    /// The large commit whose pages are not all at their homes yet.
    pub(super) moved: Option<Moved>,
    pub(super) known: Known,
    pub(super) stats: VolumeStats,
    pub(super) last_error: String,
}

impl Medium {
    /// A store whose pages are all free except those of the directory.
    pub(super) fn new(store: Box<dyn PageStore>, commits: Commits) -> Medium {
        let page_bytes = store.page_bytes();
        Medium {
            space: Space::new(2 * slot_pages(page_bytes), store.page_count()),
            store,
            page_bytes,
            commits,
            sequence: 0,
            is_unsure: false,
            moved: None,
            known: Known::default(),
            stats: VolumeStats::default(),
            last_error: String::new(),
        }
    }

    /// Most pages of a group; 0 if the store promises no order of writes.
    pub(super) fn group_pages_max(&self) -> usize {
        if self.store.prefix_consistent() { self.store.atomic_pages_max() } else { 0 }
    }

    /// True if a home keeps its contents until a commit replaces them, power cuts included.
    pub(super) fn is_stable(&self) -> bool {
        self.store.prefix_consistent() && self.commits == Commits::Grouped
    }

    /// Reads the committed page of a home, which a large commit may still have aside.
    pub(super) fn read(&mut self, home: u32, data: &mut [u8]) -> Result<(), StoreError> {
        match self.moved.as_ref().and_then(|moved| moved.place(home)) {
            Some(place) => self.read_moved(home, place, &mut None, data),
            None => self.store.read(Lpn(home), Cause::Host, data),
        }
    }

    /// Reads a store page and checks its checksum.
    pub(super) fn read_checked(&mut self, lpn: u32, crc: u32, data: &mut [u8]) -> Result<(), StoreError> {
        self.store.read(Lpn(lpn), Cause::Host, data)?;
        if crc32fast::hash(data) == crc {
            return Ok(());
        }
        Err(StoreError::Corrupted { what: "a page put aside is not what it was", at: u64::from(lpn) })
    }

    /// Makes a page from its record and reads the homes with `read`. If the page is at its home already, with
    /// this checksum, it is returned as it is.
    pub(super) fn restore(
        &mut self,
        home: u32,
        (record, crc): (&Record, u32),
        data: &mut [u8],
        read: fn(&mut Medium, u32, &mut [u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        read(self, home, data)?;
        if crc32fast::hash(data) == crc {
            return Ok(());
        }
        let wrong = StoreError::Corrupted {
            what: "a page is not what it was when pieces of it were kept",
            at: home.into(),
        };
        let Some((others, pieces)) = record.parts(home) else { return Err(wrong) };
        let mut old = data.to_vec();
        for other in others {
            let at = old.len();
            old.resize(at + self.page_bytes, 0);
            read(self, other, &mut old[at..])?;
        }
        let new = delta::unpack(&old, pieces, data.len()).filter(|new| crc32fast::hash(new) == crc);
        data.copy_from_slice(&new.ok_or(wrong)?);
        Ok(())
    }

    /// Takes the store pages that a directory names.
    pub(super) fn take_exactly(&mut self, run: Run) -> Result<(), StoreError> {
        if run.pages == 0 || self.space.take_exactly(run) {
            return Ok(());
        }
        let what = "a page is of two owners, or of none that the store has";
        Err(StoreError::Corrupted { what, at: u64::from(run.first) })
    }

    /// Trims store pages. Nobody reads one that could not be trimmed.
    pub(super) fn trim(&mut self, runs: &[Run]) {
        for lpn in runs.iter().flat_map(|run| run.first..run.end()) {
            if self.store.trim(Lpn(lpn)).is_ok() {
                self.stats.trimmed_pages += 1;
            }
        }
    }

    /// Trims store pages and frees them.
    pub(super) fn free(&mut self, runs: &[Run]) {
        self.trim(runs);
        runs.iter().for_each(|&run| self.space.give(run));
    }

    /// Trims single store pages and frees them.
    pub(super) fn free_pages(&mut self, pages: impl IntoIterator<Item = u32>) {
        let runs: Vec<Run> = pages.into_iter().map(|first| Run { first, pages: 1 }).collect();
        self.free(&runs);
    }

    /// Makes all writes durable.
    pub(super) fn settle(&mut self) -> Result<(), StoreError> {
        if self.store.durable_writes() { Ok(()) } else { self.store.sync() }
    }

    pub(super) fn write_group(&mut self, group: &Group<'_>) -> Result<(), StoreError> {
        if group.is_empty() {
            return Ok(());
        }
        let pages: Vec<(Lpn, &[u8])> = group.iter().map(|(lpn, bytes)| (*lpn, &**bytes)).collect();
        match self.commits {
            Commits::Grouped => self.store.write_atomic(&pages, Cause::Host)?,
            Commits::PageByPage => {
                pages.iter().try_for_each(|(lpn, bytes)| self.store.write(*lpn, Cause::Host, bytes))?;
            }
        }
        self.settle()?;
        let pages = pages.len() as u64;
        self.stats.groups += 1;
        self.stats.group_pages += pages;
        self.stats.largest_group = self.stats.largest_group.max(pages);
        Ok(())
    }

    /// Writes a directory, in one atomic write with `group` if the store takes so many pages.
    pub(super) fn write_directory(
        &mut self,
        directory: &Directory,
        group: &Group<'_>,
    ) -> Result<(), StoreError> {
        let bytes = directory.encode(self.page_bytes)?;
        let own = directory_pages(directory.sequence, &bytes, self.page_bytes);
        let pages: Vec<(Lpn, &[u8])> =
            group.iter().chain(&own).map(|(lpn, bytes)| (*lpn, &**bytes)).collect();
        let done = self.write_slot(&pages);
        match &done {
            Ok(()) => (self.sequence, self.is_unsure) = (directory.sequence, false),
            Err(error) => self.is_unsure |= !error.is_refusal(),
        }
        done
    }

    /// Writes the pages of a directory: as a group if they fit one, otherwise the page with the checksum
    /// last.
    fn write_slot(&mut self, pages: &[(Lpn, &[u8])]) -> Result<(), StoreError> {
        if pages.len() <= self.group_pages_max() {
            self.store.write_atomic(pages, Cause::Host)?;
        } else if let Some((head, tail)) = pages.split_first() {
            tail.iter().try_for_each(|(lpn, bytes)| self.store.write(*lpn, Cause::Host, bytes))?;
            if !tail.is_empty() {
                self.settle()?;
            }
            self.store.write(head.0, Cause::Host, head.1)?;
        }
        self.settle()
    }
}

/// Pages of an encoded directory, each with its store page.
pub(super) fn directory_pages(sequence: u64, bytes: &[u8], page_bytes: usize) -> Group<'_> {
    let first = (sequence % 2) as u32 * slot_pages(page_bytes);
    (first..).map(Lpn).zip(bytes.chunks(page_bytes).map(Cow::Borrowed)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::medium;
    use super::*;

    #[test]
    fn a_directory_and_its_group_are_written_and_pages_come_back() {
        let mut medium = medium();
        let (free, mut page) = (medium.space.pages(), vec![0; medium.page_bytes]);
        let home = medium.space.take(1, None).unwrap()[0].first;
        medium.is_unsure = true;
        let directory = Directory { sequence: 7, redo: None, files: Vec::new() };
        let bytes = vec![3; page.len()];
        medium.write_directory(&directory, &vec![(Lpn(home), Cow::Borrowed(&bytes))]).unwrap();
        assert_eq!((medium.sequence, medium.is_unsure), (7, false));
        medium.read_checked(home, crc32fast::hash(&bytes), &mut page).unwrap();
        assert_eq!(page, bytes);
        assert!(medium.read_checked(home, 0, &mut page).is_err());
        medium.free_pages([home]);
        medium.read(home, &mut page).unwrap();
        assert!(page.iter().all(|&byte| byte == 0));
        assert_eq!((medium.space.pages(), medium.stats.trimmed_pages), (free, 1));
    }
}
