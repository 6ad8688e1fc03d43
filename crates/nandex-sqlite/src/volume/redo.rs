//! Commits too large for a group: written twice, whole or not at all all the same.
//!
//! 1. The pages go to free pages of the store (those that were spilled are there already), then a list of
//!    them: where each belongs, where it is, its checksum.
//! 2. The directory that names the list is written: **the commit**. A mount from here on finishes what
//!    follows.
//! 3. The pages go to their places.
//! 4. The directory without the list is written, and the free pages are free again.
//!
//! Where 3 or 4 fails, the commit holds: reads find the pages where they are, and the next commit tries again
//! before it begins.
//!
//! ```text
//! a page of the list   magic 4 | crc 4 of all that follows | next page 4 | entries 4 | sequence of the directory 8 |
//!                      entries of (place 4, page 4, crc 4)
//! ```

use super::Volume;
use super::commit::Change;
use super::directory::{Directory, NO_PAGE};
use super::slots::Slot;
use super::space::Run;
use nandex::{Cause, Lpn, StoreError};
use std::collections::{BTreeMap, BTreeSet};

const MAGIC: &[u8; 4] = b"NDXR";
const HEADER_BYTES: usize = 24;
const ENTRY_BYTES: usize = 12;

/// Pages that are committed and not in their places.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Moved {
    /// By its place: the page where it is, and its checksum.
    pages: BTreeMap<u32, (u32, u32)>,
    /// Pages of the list.
    list: Vec<u32>,
}

impl Moved {
    /// Every page of the store that it takes.
    pub(super) fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        let pages = self.pages.values().map(|&(lpn, _)| lpn).chain(self.list.iter().copied());
        pages.map(|first| Run { first, pages: 1 })
    }
}

impl Volume {
    /// Commits the long way. Returns every page where one of the commit was put aside: spilled ones among
    /// them are no longer the slots'.
    pub(super) fn write_large(
        &mut self,
        changes: &[Change],
        directory: Directory,
    ) -> Result<BTreeSet<u32>, StoreError> {
        let mut taken = Vec::new();
        let moved = match self.put_aside(changes, directory.sequence, &mut taken) {
            Ok(moved) => moved,
            Err(error) => {
                self.release_pages(taken);
                return Err(error);
            }
        };
        let entries = moved.pages.len() as u32;
        let aside = moved.pages.values().map(|&(lpn, _)| lpn).collect();
        let redo = moved.list.first().map(|&first| (first, entries));
        let begun = Directory { redo, ..directory };
        if let Err(error) = self.write_directory(&begun) {
            // A list that is on the flash after all must stay what it is until another directory is.
            if error.is_refusal() {
                self.release_pages(taken);
            }
            return Err(error);
        }
        self.stats.large_commits += 1;
        self.stats.large_commit_pages += u64::from(entries);
        self.moved = Some(moved);
        let ended = Directory { sequence: begun.sequence + 1, redo: None, ..begun };
        match self.put_in_place().and_then(|()| self.write_directory(&ended)) {
            Ok(()) => self.drop_moved(),
            Err(error) => self.last_error = error.to_string(),
        }
        Ok(aside)
    }

    /// Step 1.
    fn put_aside(
        &mut self,
        changes: &[Change],
        sequence: u64,
        taken: &mut Vec<u32>,
    ) -> Result<Moved, StoreError> {
        let mut moved = Moved::default();
        for change in changes {
            let slot = self.files.get(&change.file).and_then(|file| file.slot(change.page));
            let place = match slot {
                Some(&Slot::Spilled { lpn, crc, .. }) => (lpn, crc),
                Some(Slot::Ram(bytes)) => {
                    let lpn = self.space.take(1, None)?[0].first;
                    taken.push(lpn);
                    self.store.write(Lpn(lpn), Cause::Host, bytes)?;
                    (lpn, crc32fast::hash(bytes))
                }
                None => continue,
            };
            moved.pages.insert(change.home, place);
        }
        let each = (self.page_bytes - HEADER_BYTES) / ENTRY_BYTES;
        let entries: Vec<(u32, u32, u32)> =
            moved.pages.iter().map(|(&home, &(lpn, crc))| (home, lpn, crc)).collect();
        for _ in 0..entries.len().div_ceil(each) {
            let lpn = self.space.take(1, None)?[0].first;
            taken.push(lpn);
            moved.list.push(lpn);
        }
        for (i, part) in entries.chunks(each).enumerate() {
            let next = moved.list.get(i + 1).copied().unwrap_or(NO_PAGE);
            let page = encode(part, next, sequence, self.page_bytes);
            self.store.write(Lpn(moved.list[i]), Cause::Host, &page)?;
        }
        if !self.store.durable_writes() {
            self.store.sync()?;
        }
        Ok(moved)
    }

    /// Step 3.
    fn put_in_place(&mut self) -> Result<(), StoreError> {
        let Some(moved) = &self.moved else { return Ok(()) };
        let places: Vec<(u32, (u32, u32))> =
            moved.pages.iter().map(|(&home, &place)| (home, place)).collect();
        let mut bytes = vec![0; self.page_bytes];
        for (home, (lpn, crc)) in places {
            self.read_checked(lpn, crc, &mut bytes)?;
            self.store.write(Lpn(home), Cause::Host, &bytes)?;
        }
        if self.store.durable_writes() { Ok(()) } else { self.store.sync() }
    }

    fn drop_moved(&mut self) {
        let Some(moved) = self.moved.take() else { return };
        let runs: Vec<Run> = moved.runs().collect();
        self.trim(&runs);
        runs.into_iter().for_each(|run| self.space.give(run));
    }

    /// Finishes a large commit that could not be finished when it was made.
    pub(super) fn finish_moved(&mut self) -> Result<(), StoreError> {
        if self.moved.is_none() {
            return Ok(());
        }
        self.put_in_place()?;
        let directory = self.same_directory();
        self.write_directory(&directory)?;
        self.drop_moved();
        Ok(())
    }

    /// Reads the page that belongs to a place.
    pub(super) fn read_home(&mut self, home: u32, data: &mut [u8]) -> Result<(), StoreError> {
        match self.moved.as_ref().and_then(|moved| moved.pages.get(&home)).copied() {
            Some((lpn, crc)) => self.read_checked(lpn, crc, data),
            None => self.store.read(Lpn(home), Cause::Host, data),
        }
    }

    /// Trims pages and gives them back.
    pub(super) fn release_pages(&mut self, pages: Vec<u32>) {
        let runs: Vec<Run> = pages.into_iter().map(|first| Run { first, pages: 1 }).collect();
        self.trim(&runs);
        runs.into_iter().for_each(|run| self.space.give(run));
    }

    /// Reads the list that a directory names.
    ///
    /// # Errors
    ///
    /// [`StoreError::Corrupted`] where it is not what was written.
    pub(super) fn read_list(&mut self, first: u32, entries: u32) -> Result<Moved, StoreError> {
        let mut moved = Moved::default();
        let mut next = first;
        let mut page = vec![0; self.page_bytes];
        while moved.pages.len() < entries as usize {
            let torn =
                StoreError::Corrupted { what: "the list of a large commit is damaged", at: u64::from(next) };
            if next >= self.store.page_count() || moved.list.len() > entries as usize {
                return Err(torn);
            }
            self.store.read(Lpn(next), Cause::Recovery, &mut page)?;
            moved.list.push(next);
            next = decode(&page, &mut moved.pages).ok_or(torn)?;
        }
        Ok(moved)
    }
}

fn encode(entries: &[(u32, u32, u32)], next: u32, sequence: u64, page_bytes: usize) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(next.to_le_bytes());
    body.extend((entries.len() as u32).to_le_bytes());
    body.extend(sequence.to_le_bytes());
    for (home, lpn, crc) in entries {
        body.extend([home, lpn, crc].into_iter().flat_map(|number| number.to_le_bytes()));
    }
    body.resize(page_bytes - 8, 0);
    let mut page = Vec::from(MAGIC.as_slice());
    page.extend(crc32fast::hash(&body).to_le_bytes());
    page.extend(body);
    page
}

/// Adds the entries of a page of the list, and returns the next page.
fn decode(page: &[u8], pages: &mut BTreeMap<u32, (u32, u32)>) -> Option<u32> {
    let number = |at: usize| Some(u32::from_le_bytes(page.get(at..at + 4)?.try_into().ok()?));
    if page.get(..4)? != MAGIC || number(4)? != crc32fast::hash(page.get(8..)?) {
        return None;
    }
    let count = number(12)? as usize;
    if count == 0 {
        return None;
    }
    for entry in 0..count {
        let at = HEADER_BYTES + entry * ENTRY_BYTES;
        pages.insert(number(at)?, (number(at + 4)?, number(at + 8)?));
    }
    number(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_the_list_is_read_as_written_or_not_at_all() {
        let entries = [(7, 100, 0xdead), (9, 101, 0xbeef)];
        let page = encode(&entries, 55, 3, 512);
        let mut pages = BTreeMap::new();
        assert_eq!(decode(&page, &mut pages), Some(55));
        assert_eq!(pages, BTreeMap::from([(7, (100, 0xdead)), (9, (101, 0xbeef))]));
        for place in 0..512 {
            let mut torn = page.clone();
            torn[place] ^= 1;
            assert_eq!(decode(&torn, &mut BTreeMap::new()), None, "byte {place}");
        }
    }
}
