//! Commits too large for a group: whole or not at all all the same.
//!
//! 1. The pages go to free pages of the store (those that were spilled are there already), but for those of
//!    which nearly all is in their places; and a list of them: where each belongs, its checksum, and where it
//!    is or the pieces of what lies in its place that make it.
//! 2. The directory that names the list is written: **the commit**. Pages that fit its group go to their
//!    places with it, and not to the list. A mount from here on finishes what follows.
//! 3. The pages go to their places.
//! 4. The directory without the list is written, and the free pages are free again.
//!
//! Where 3 or 4 fails, the commit holds: reads find the pages where they are, and the next commit tries again
//! before it begins.
//!
//! ```text
//! a page of the list   magic 4 | crc 4 of all that follows | next page 4 | entries 4 | sequence of the directory 8 |
//!                      entries of (place 4, page 4, crc 4), and where the page is none: bytes 2 | pieces
//! ```
//!
//! A page of the list with pieces has another magic. What a cut of step 3 leaves in a place is the page or
//! the one before, so that its checksum tells whether the pieces are still to be put together.

use super::Volume;
use super::commit::Change;
use super::directory::{Directory, NO_PAGE};
use super::packed::restore;
use super::slots::Slot;
use super::space::Run;
use nandex::{Cause, Lpn, StoreError};
use std::collections::{BTreeMap, BTreeSet};

const MAGIC: &[u8; 4] = b"NDXR";
const MAGIC_PIECES: &[u8; 4] = b"NDXP";
const HEADER_BYTES: usize = 24;
const ENTRY_BYTES: usize = 12;

/// The page of the store where a page is that is not in its place, or the page of the list with its pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    lpn: u32,
    /// Where the pieces are in the page of the list, if there are any.
    pieces: Option<(u32, u32)>,
    crc: u32,
}

/// Pages that are committed and not in their places.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Moved {
    /// By their places.
    pages: BTreeMap<u32, Place>,
    /// Pages of the list.
    list: Vec<u32>,
}

impl Moved {
    /// Every page of the store that it takes.
    pub(super) fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        self.aside().chain(self.list.iter().copied()).map(|first| Run { first, pages: 1 })
    }

    /// How many pages are kept as pieces.
    fn packed(&self) -> usize {
        self.pages.values().filter(|place| place.pieces.is_some()).count()
    }

    /// The pages of the store where whole pages are.
    fn aside(&self) -> impl Iterator<Item = u32> + '_ {
        self.pages.values().filter(|place| place.pieces.is_none()).map(|place| place.lpn)
    }
}

/// A page of the list while it is filled.
#[derive(Debug, Default)]
struct ListPage {
    lpn: u32,
    entries: u32,
    body: Vec<u8>,
    has_pieces: bool,
}

impl ListPage {
    /// Adds the entry of a page that is aside at `lpn`, or made of pieces.
    fn add(&mut self, home: u32, lpn: u32, pieces: Option<&[u8]>, crc: u32) -> Place {
        self.entries += 1;
        for number in [home, pieces.map_or(lpn, |_| NO_PAGE), crc] {
            self.body.extend(number.to_le_bytes());
        }
        let Some(pieces) = pieces else { return Place { lpn, pieces: None, crc } };
        self.has_pieces = true;
        self.body.extend((pieces.len() as u16).to_le_bytes());
        let at = HEADER_BYTES + self.body.len();
        self.body.extend(pieces);
        Place { lpn: self.lpn, pieces: Some((at as u32, pieces.len() as u32)), crc }
    }

    fn encode(&self, next: u32, sequence: u64, page_bytes: usize) -> Vec<u8> {
        let mut body = Vec::with_capacity(page_bytes);
        body.extend(next.to_le_bytes());
        body.extend(self.entries.to_le_bytes());
        body.extend(sequence.to_le_bytes());
        body.extend(&self.body);
        body.resize(page_bytes - 8, 0);
        let mut page = Vec::from(if self.has_pieces { MAGIC_PIECES } else { MAGIC }.as_slice());
        page.extend(crc32fast::hash(&body).to_le_bytes());
        page.extend(body);
        page
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
        let own = directory.encode(self.page_bytes)?.len() / self.page_bytes;
        let (direct, others) = self.share_out(changes, self.group_pages_max().saturating_sub(own));
        let mut taken = Vec::new();
        let moved = match self.put_aside(&others, directory.sequence, &mut taken) {
            Ok(moved) => moved,
            Err(error) => {
                self.release_pages(taken);
                return Err(error);
            }
        };
        let entries = moved.pages.len() as u32;
        let aside = moved.aside().collect();
        let redo = moved.list.first().map(|&first| (first, entries));
        let begun = Directory { redo, ..directory };
        if let Err(error) = self.write_directory(&begun, &direct) {
            // A list that is on the flash after all must stay what it is until another directory is.
            if error.is_refusal() {
                self.release_pages(taken);
            }
            return Err(error);
        }
        self.stats.large_commits += 1;
        self.stats.large_commit_pages += u64::from(entries) + direct.len() as u64;
        self.stats.packed_pages += moved.packed() as u64;
        self.moved = Some(moved);
        let ended = Directory { sequence: begun.sequence + 1, redo: None, ..begun };
        match self.put_in_place().and_then(|()| self.write_directory(&ended, &[])) {
            Ok(()) => self.drop_moved(),
            Err(error) => self.last_error = error.to_string(),
        }
        Ok(aside)
    }

    /// The changes that go to their places with the directory, so many at most, and the others. Those that
    /// take most room aside are the first.
    fn share_out(&mut self, changes: &[Change], direct: usize) -> (Vec<Change>, Vec<Change>) {
        let mut sorted = Vec::with_capacity(changes.len());
        for &change in changes {
            self.pack(change.file, change.page);
            let slot = self.files.get(&change.file).and_then(|file| file.slot(change.page));
            sorted.push((slot.map_or(0, Slot::aside_bytes), change));
        }
        sorted.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        let mut sorted: Vec<Change> = sorted.into_iter().map(|(_, change)| change).collect();
        let mut others = sorted.split_off(direct.min(sorted.len()));
        others.sort_unstable_by_key(|change| change.home);
        (sorted, others)
    }

    /// Step 1.
    fn put_aside(
        &mut self,
        changes: &[Change],
        sequence: u64,
        taken: &mut Vec<u32>,
    ) -> Result<Moved, StoreError> {
        let mut moved = Moved::default();
        if changes.is_empty() {
            return Ok(moved);
        }
        let mut list = ListPage { lpn: self.take_aside(taken)?, ..ListPage::default() };
        for &change in changes {
            let slot = self.files.get(&change.file).and_then(|file| file.slot(change.page));
            let packed = match slot {
                Some(Slot::Packed { pieces, crc }) => Some((pieces.clone(), *crc)),
                _ => None,
            };
            let bytes = ENTRY_BYTES + packed.as_ref().map_or(0, |(pieces, _)| 2 + pieces.len());
            if HEADER_BYTES + list.body.len() + bytes > self.page_bytes {
                let next = self.take_aside(taken)?;
                self.write_list(&mut moved, &list, next, sequence)?;
                list = ListPage { lpn: next, ..ListPage::default() };
            }
            let place = match packed {
                Some((pieces, crc)) => list.add(change.home, NO_PAGE, Some(&pieces), crc),
                None => {
                    let (lpn, crc) = self.whole_aside(change, taken)?;
                    list.add(change.home, lpn, None, crc)
                }
            };
            moved.pages.insert(change.home, place);
        }
        self.write_list(&mut moved, &list, NO_PAGE, sequence)?;
        if !self.store.durable_writes() {
            self.store.sync()?;
        }
        Ok(moved)
    }

    /// A page for what is put aside, one of those kept back if need be.
    fn take_aside(&mut self, taken: &mut Vec<u32>) -> Result<u32, StoreError> {
        let lpn = self.space.take_any(1, None)?[0].first;
        taken.push(lpn);
        Ok(lpn)
    }

    fn write_list(
        &mut self,
        moved: &mut Moved,
        list: &ListPage,
        next: u32,
        sequence: u64,
    ) -> Result<(), StoreError> {
        moved.list.push(list.lpn);
        self.store.write(Lpn(list.lpn), Cause::Host, &list.encode(next, sequence, self.page_bytes))
    }

    /// Puts a page aside, unless it was spilled; where it is, and its checksum.
    fn whole_aside(&mut self, change: Change, taken: &mut Vec<u32>) -> Result<(u32, u32), StoreError> {
        let slot = self.files.get(&change.file).and_then(|file| file.slot(change.page));
        if let Some(&Slot::Spilled { lpn, crc, .. }) = slot {
            return Ok((lpn, crc));
        }
        let mut bytes = vec![0; self.page_bytes];
        self.load(change.file, change.page, &mut bytes)?;
        let lpn = self.take_aside(taken)?;
        self.store.write(Lpn(lpn), Cause::Host, &bytes)?;
        Ok((lpn, crc32fast::hash(&bytes)))
    }

    /// Step 3.
    fn put_in_place(&mut self) -> Result<(), StoreError> {
        let Some(moved) = &self.moved else { return Ok(()) };
        let places: Vec<(u32, Place)> = moved.pages.iter().map(|(&home, &place)| (home, place)).collect();
        let (mut bytes, mut list) = (vec![0; self.page_bytes], (NO_PAGE, Vec::new()));
        for (home, place) in places {
            self.read_moved(home, place, &mut list, &mut bytes)?;
            self.store.write(Lpn(home), Cause::Host, &bytes)?;
        }
        if self.store.durable_writes() { Ok(()) } else { self.store.sync() }
    }

    /// Reads a page that is committed and may not be in its place yet. `list` is the page of the list that
    /// was read last, and its number.
    fn read_moved(
        &mut self,
        home: u32,
        place: Place,
        list: &mut (u32, Vec<u8>),
        data: &mut [u8],
    ) -> Result<(), StoreError> {
        let Some((at, bytes)) = place.pieces else { return self.read_checked(place.lpn, place.crc, data) };
        if list.0 != place.lpn {
            *list = (NO_PAGE, vec![0; self.page_bytes]);
            self.store.read(Lpn(place.lpn), Cause::Host, &mut list.1)?;
            if decode(place.lpn, &list.1, &mut BTreeMap::new()).is_none() {
                return Err(torn_list(place.lpn));
            }
            list.0 = place.lpn;
        }
        self.store.read(Lpn(home), Cause::Host, data)?;
        let pieces = list.1.get(at as usize..(at + bytes) as usize).ok_or(torn_list(place.lpn))?;
        restore(data, pieces, place.crc, home)
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
        self.write_directory(&directory, &[])?;
        self.drop_moved();
        Ok(())
    }

    /// Reads the page that belongs to a place.
    pub(super) fn read_home(&mut self, home: u32, data: &mut [u8]) -> Result<(), StoreError> {
        match self.moved.as_ref().and_then(|moved| moved.pages.get(&home)).copied() {
            Some(place) => self.read_moved(home, place, &mut (NO_PAGE, Vec::new()), data),
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
            if next >= self.store.page_count() || moved.list.len() > entries as usize {
                return Err(torn_list(next));
            }
            self.store.read(Lpn(next), Cause::Recovery, &mut page)?;
            moved.list.push(next);
            next = decode(next, &page, &mut moved.pages).ok_or(torn_list(next))?;
        }
        Ok(moved)
    }
}

/// Adds the entries of a page of the list, which lies there, and returns the next page.
fn decode(lpn: u32, page: &[u8], pages: &mut BTreeMap<u32, Place>) -> Option<u32> {
    let number = |at: usize| Some(u32::from_le_bytes(page.get(at..at + 4)?.try_into().ok()?));
    let has_pieces = page.get(..4)? == MAGIC_PIECES;
    if page.get(..4)? != MAGIC && !has_pieces || number(4)? != crc32fast::hash(page.get(8..)?) {
        return None;
    }
    let count = number(12)?;
    if count == 0 {
        return None;
    }
    let mut at = HEADER_BYTES;
    for _ in 0..count {
        let (home, aside, crc) = (number(at)?, number(at + 4)?, number(at + 8)?);
        at += ENTRY_BYTES;
        let place = if has_pieces && aside == NO_PAGE {
            let bytes = u16::from_le_bytes(page.get(at..at + 2)?.try_into().ok()?);
            let from = at + 2;
            at = from + usize::from(bytes);
            Place { lpn, pieces: Some((from as u32, bytes.into())), crc }
        } else {
            Place { lpn: aside, pieces: None, crc }
        };
        pages.insert(home, place);
    }
    (at <= page.len()).then_some(number(8)?)
}

fn torn_list(lpn: u32) -> StoreError {
    StoreError::Corrupted { what: "the list of a large commit is damaged", at: lpn.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_the_list_is_read_as_written_or_not_at_all() {
        for pieces in [None, Some([1, 2, 3].as_slice())] {
            let mut list = ListPage { lpn: 54, ..ListPage::default() };
            let added = [list.add(7, 100, None, 0xdead), list.add(9, 101, pieces, 0xbeef)];
            let page = list.encode(55, 3, 512);
            let mut pages = BTreeMap::new();
            assert_eq!(decode(54, &page, &mut pages), Some(55));
            assert_eq!(pages, BTreeMap::from([(7, added[0]), (9, added[1])]));
            if let Some((at, bytes)) = added[1].pieces {
                assert_eq!(page[at as usize..(at + bytes) as usize], [1, 2, 3]);
            }
            for place in 0..512 {
                let mut torn = page.clone();
                torn[place] ^= 1;
                assert_eq!(decode(54, &torn, &mut BTreeMap::new()), None, "byte {place}");
            }
        }
    }
}
