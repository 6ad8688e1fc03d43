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
//! What a cut of step 3 leaves in a place is the page or the one before, so that its checksum tells whether
//! the pieces are still to be put together. Pages go to their places in the order of the list, and a page is
//! made of pieces of others only where those come later: they are still as they were.

use super::Volume;
use super::commit::Change;
use super::directory::{Directory, NO_PAGE};
use super::list::{Aside, Effort, Entry, Filled, ListPage, Place, RAW_BYTES_MAX};
use super::packed::Of;
use super::slots::Slot;
use super::space::Run;
use nandex::{Cause, Lpn, StoreError};
use std::collections::{BTreeMap, BTreeSet};

/// Pages that are committed and not in their places.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Moved {
    /// By their places.
    pages: BTreeMap<u32, Place>,
    /// The places, in the order in which they are written.
    order: Vec<u32>,
    /// Pages of the list.
    list: Vec<u32>,
}

impl Moved {
    /// Every page of the store that it takes.
    pub(super) fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        self.aside().chain(self.list.iter().copied()).map(|first| Run { first, pages: 1 })
    }

    /// Adds what a page of the list says, which is there.
    fn add(&mut self, lpn: u32, list: &ListPage) -> Result<(), StoreError> {
        let places = list.places(lpn).ok_or(torn_list(lpn))?;
        self.order.extend(places.iter().map(|(home, _)| home));
        self.pages.extend(places);
        self.list.push(lpn);
        Ok(())
    }

    /// How many pages are kept as pieces.
    fn packed(&self) -> usize {
        self.pages.values().filter(|place| place.made.is_some()).count()
    }

    /// The pages of the store where whole pages are.
    fn aside(&self) -> impl Iterator<Item = u32> + '_ {
        self.pages.values().filter(|place| place.made.is_none()).map(|place| place.lpn)
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
        let (direct, others) = self.share_out(changes, self.group_pages_max().saturating_sub(own))?;
        let mut taken = Vec::new();
        let moved = match self.put_aside(&others, &direct, directory.sequence, &mut taken) {
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
    /// take most room aside are the first; the places of which others are made stay as they are.
    fn share_out(
        &mut self,
        changes: &[Change],
        direct: usize,
    ) -> Result<(Vec<Change>, Vec<Change>), StoreError> {
        let cited = self.cited(changes)?;
        let mut sorted = Vec::with_capacity(changes.len());
        for &change in changes {
            self.pack(change.file, change.page, Of::Its);
            let slot = self.files.get(&change.file).and_then(|file| file.slot(change.page));
            sorted.push((slot.map_or(0, Slot::aside_bytes), change));
        }
        sorted.sort_by_key(|(bytes, change)| (cited.contains(&change.home), std::cmp::Reverse(*bytes)));
        let may = sorted.partition_point(|(_, change)| !cited.contains(&change.home));
        let mut sorted: Vec<Change> = sorted.into_iter().map(|(_, change)| change).collect();
        let mut others = sorted.split_off(direct.min(may));
        others.sort_unstable_by_key(|change| change.home);
        Ok((sorted, others))
    }

    /// Step 1. `direct` are the changes that the directory's group writes.
    fn put_aside(
        &mut self,
        changes: &[Change],
        direct: &[Change],
        sequence: u64,
        taken: &mut Vec<u32>,
    ) -> Result<Moved, StoreError> {
        let direct: BTreeSet<u32> = direct.iter().map(|change| change.home).collect();
        let is_tight = self.is_tight(changes);
        let mut whole = BTreeMap::new();
        for &change in changes {
            if is_tight {
                self.pack(change.file, change.page, Of::Several(&direct));
            }
            self.whole_aside(change, &mut whole, taken)?;
        }
        let ordered = self.in_order(changes, &mut whole, taken)?;
        let effort = if is_tight { Effort::Much } else { Effort::Little };
        self.write_list(&ordered, &whole, (sequence, effort), taken)
    }

    /// The changes in an order in which none is made of one before it. Where there is none, because pages
    /// are made of each other, one of them is put aside.
    fn in_order(
        &mut self,
        changes: &[Change],
        whole: &mut BTreeMap<u32, (u32, u32)>,
        taken: &mut Vec<u32>,
    ) -> Result<Vec<Change>, StoreError> {
        let mut left: BTreeMap<u32, Change> = changes.iter().map(|&change| (change.home, change)).collect();
        let mut made_of: BTreeMap<u32, Vec<u32>> =
            changes.iter().map(|change| (change.home, self.others_of(change.file, change.page))).collect();
        made_of.retain(|_, others| !others.is_empty());
        // How many of those left are made of a page.
        let mut citing = BTreeMap::<u32, u32>::new();
        made_of.values().flatten().for_each(|&other| *citing.entry(other).or_default() += 1);
        let mut ready: BTreeSet<u32> =
            left.keys().copied().filter(|home| !citing.contains_key(home)).collect();
        let mut ordered = Vec::with_capacity(changes.len());
        while !left.is_empty() {
            let next = ready.pop_first();
            let Some(home) = next.or_else(|| made_of.keys().next().copied()) else { break };
            for other in made_of.remove(&home).unwrap_or_default() {
                let by = citing.entry(other).or_default();
                *by = by.saturating_sub(1);
                if *by == 0 && left.contains_key(&other) {
                    ready.insert(other);
                }
            }
            match next {
                Some(_) => ordered.extend(left.remove(&home)),
                None => {
                    let change = left[&home];
                    self.unpack(change.file, change.page)?;
                    self.pack(change.file, change.page, Of::Its);
                    self.whole_aside(change, whole, taken)?;
                }
            }
        }
        debug_assert_eq!(ordered.len(), changes.len(), "a page has no place in the list");
        Ok(ordered)
    }

    /// Writes the list of changes, of which these are aside as they are.
    fn write_list(
        &mut self,
        changes: &[Change],
        whole: &BTreeMap<u32, (u32, u32)>,
        (sequence, effort): (u64, Effort),
        taken: &mut Vec<u32>,
    ) -> Result<Moved, StoreError> {
        let (mut moved, mut next) = (Moved::default(), None);
        let (mut rest, mut entries, mut bytes) = (changes, Vec::new(), 0);
        while !rest.is_empty() || !entries.is_empty() {
            while bytes < RAW_BYTES_MAX
                && let Some(change) = rest.split_off_first()
            {
                let entry = self.entry(*change, whole)?;
                bytes += entry.bytes();
                entries.push(entry);
            }
            let filled = Filled::with(&entries, self.page_bytes, effort);
            bytes -= entries.drain(..filled.entries).map(|entry| entry.bytes()).sum::<usize>();
            let lpn = next.take().map_or_else(|| self.take_aside(taken), Ok)?;
            if !rest.is_empty() || !entries.is_empty() {
                next = Some(self.take_aside(taken)?);
            }
            let page = filled.encode(next.unwrap_or(NO_PAGE), sequence, self.page_bytes);
            self.store.write(Lpn(lpn), Cause::Host, &page)?;
            moved.add(lpn, &ListPage::decode(&page).ok_or(torn_list(lpn))?)?;
        }
        if !moved.list.is_empty() && !self.store.durable_writes() {
            self.store.sync()?;
        }
        Ok(moved)
    }

    /// The entry of a page that is aside as it is, or packed.
    fn entry(&self, change: Change, whole: &BTreeMap<u32, (u32, u32)>) -> Result<Entry, StoreError> {
        let Change { file, page, home } = change;
        if let Some(&(lpn, crc)) = whole.get(&home) {
            return Ok(Entry { home, crc, aside: Aside::Page(lpn) });
        }
        let record = self.files.get(&file).and_then(|file| file.record(page));
        let what = "a page of a large commit is nowhere";
        let (record, crc) = record.ok_or(StoreError::Corrupted { what, at: page.into() })?;
        Ok(Entry { home, crc, aside: Aside::Made(record) })
    }

    /// A page for what is put aside, one of those kept back if need be.
    fn take_aside(&mut self, taken: &mut Vec<u32>) -> Result<u32, StoreError> {
        let lpn = self.space.take_any(1, None)?[0].first;
        taken.push(lpn);
        Ok(lpn)
    }

    /// Whether pages that are put aside as they are take more room than there is.
    fn is_tight(&self, changes: &[Change]) -> bool {
        let slot = |change: &Change| self.files.get(&change.file).and_then(|file| file.slot(change.page));
        let bytes: usize = changes.iter().filter_map(slot).map(Slot::aside_bytes).sum();
        bytes / self.page_bytes > self.space.pages() as usize
    }

    /// Puts a page aside that is not packed, unless it was spilled, and notes where it is with its checksum.
    fn whole_aside(
        &mut self,
        change: Change,
        whole: &mut BTreeMap<u32, (u32, u32)>,
        taken: &mut Vec<u32>,
    ) -> Result<(), StoreError> {
        let place = match self.files.get(&change.file).and_then(|file| file.slot(change.page)) {
            Some(Slot::Packed { .. } | Slot::Bundled { .. }) => return Ok(()),
            Some(&Slot::Spilled { lpn, crc, .. }) => (lpn, crc),
            _ => {
                let mut bytes = vec![0; self.page_bytes];
                self.load(change.file, change.page, &mut bytes)?;
                let lpn = self.take_aside(taken)?;
                self.store.write(Lpn(lpn), Cause::Host, &bytes)?;
                (lpn, crc32fast::hash(&bytes))
            }
        };
        whole.insert(change.home, place);
        Ok(())
    }

    /// Step 3.
    fn put_in_place(&mut self) -> Result<(), StoreError> {
        let Some(moved) = &self.moved else { return Ok(()) };
        let places: Vec<(u32, Place)> =
            moved.order.iter().filter_map(|&home| Some((home, *moved.pages.get(&home)?))).collect();
        let (mut bytes, mut list) = (vec![0; self.page_bytes], None);
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
        list: &mut Option<(u32, ListPage)>,
        data: &mut [u8],
    ) -> Result<(), StoreError> {
        let Some(made) = place.made else { return self.read_checked(place.lpn, place.crc, data) };
        if list.as_ref().is_none_or(|(lpn, _)| *lpn != place.lpn) {
            let mut page = vec![0; self.page_bytes];
            self.store.read(Lpn(place.lpn), Cause::Host, &mut page)?;
            *list = Some((place.lpn, ListPage::decode(&page).ok_or(torn_list(place.lpn))?));
        }
        let (_, list) = list.as_ref().ok_or(torn_list(place.lpn))?;
        let record = made.of(&list.entries).ok_or(torn_list(place.lpn))?;
        self.restore(home, (&record, place.crc), data, |volume, home, data| {
            volume.store.read(Lpn(home), Cause::Host, data)
        })
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
            Some(place) => self.read_moved(home, place, &mut None, data),
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
            let list = ListPage::decode(&page).ok_or(torn_list(next))?;
            moved.add(next, &list)?;
            next = list.next;
        }
        Ok(moved)
    }
}

fn torn_list(lpn: u32) -> StoreError {
    StoreError::Corrupted { what: "the list of a large commit is damaged", at: lpn.into() }
}
