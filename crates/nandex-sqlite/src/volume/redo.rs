//! Large commits: they do not fit a group, and are still whole or absent after a power cut.
//!
//! 1. The pages are put aside in free store pages; spilled ones are there already. Packed pages are kept as
//!    records instead. A list is written with the home, the checksum, and the store page or record of each.
//! 2. The directory that names the list is written: **the commit**. Pages that fit the group of the directory
//!    go to their homes with it and are not in the list. A mount from here on finishes the next steps.
//! 3. The pages go to their homes.
//! 4. The directory without the list is written, and the store pages aside are free again.
//!
//! If step 3 or 4 fails, the commit holds: reads find the pages aside, and the next commit tries again before
//! it begins.
//!
//! A cut of step 3 leaves each home with the old page or the new one. The checksum tells which, and so
//! whether the record must still be applied. Pages go to their homes in the order of the list. A record
//! copies from another home only if that home comes later in the list, while it still has its old contents.

use super::directory::{Directory, NO_PAGE};
use super::list::{Aside, Effort, Entry, Filled, ListPage, Place, RAW_BYTES_MAX};
use super::packed::Of;
use super::{Change, FileId, Files, Medium, Run, Slot};
use nandex::{Cause, Lpn, StoreError};
use std::collections::{BTreeMap, BTreeSet};

/// Pages of a large commit that are not all at their homes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Moved {
    /// Where each page is, by its home.
    pages: BTreeMap<u32, Place>,
    /// Homes in the order in which they are written.
    order: Vec<u32>,
    /// Store pages of the list.
    list: Vec<u32>,
}

impl Moved {
    /// Every store page that the large commit uses.
    pub(super) fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        self.aside().chain(self.list.iter().copied()).map(|first| Run { first, pages: 1 })
    }

    /// Where the page of a home is, if it may not be at its home yet.
    pub(super) fn place(&self, home: u32) -> Option<Place> {
        self.pages.get(&home).copied()
    }

    /// Adds the entries of the list page `lpn`.
    fn add(&mut self, lpn: u32, list: &ListPage) -> Result<(), StoreError> {
        let places = list.places(lpn).ok_or(torn_list(lpn))?;
        self.order.extend(places.iter().map(|(home, _)| home));
        self.pages.extend(places);
        self.list.push(lpn);
        Ok(())
    }

    /// Number of pages kept as records.
    fn packed(&self) -> usize {
        self.pages.values().filter(|place| place.made.is_some()).count()
    }

    /// Store pages where whole pages are aside.
    fn aside(&self) -> impl Iterator<Item = u32> + '_ {
        self.pages.values().filter(|place| place.made.is_none()).map(|place| place.lpn)
    }
}

/// A large commit while its pages are put aside.
pub(super) struct Large<'a> {
    files: &'a mut Files,
    medium: &'a mut Medium,
    /// Store page and checksum of each page that is aside whole, by its home.
    whole: BTreeMap<u32, (u32, u32)>,
    /// Store pages taken for pages aside and for the list.
    taken: Vec<u32>,
    /// True if the free store pages are too few to put all pages aside whole.
    is_tight: bool,
}

impl<'a> Large<'a> {
    pub(super) const fn new(files: &'a mut Files, medium: &'a mut Medium) -> Large<'a> {
        Large { files, medium, whole: BTreeMap::new(), taken: Vec::new(), is_tight: false }
    }

    /// Writes the large commit. Returns the store pages where its pages are aside; spilled ones among them no
    /// longer belong to their slots.
    pub(super) fn write(
        mut self,
        changes: &[Change],
        directory: Directory,
    ) -> Result<BTreeSet<u32>, StoreError> {
        let own = directory.encode(self.medium.page_bytes)?.len() / self.medium.page_bytes;
        let most = self.medium.group_pages_max().saturating_sub(own);
        let (direct, others) = self.share_out(changes, most)?;
        let moved = match self.put_aside(&others, &direct, directory.sequence) {
            Ok(moved) => moved,
            Err(error) => {
                self.medium.free_pages(self.taken);
                return Err(error);
            }
        };
        let (entries, aside) = (moved.pages.len() as u32, moved.aside().collect());
        let begun = Directory { redo: moved.list.first().map(|&first| (first, entries)), ..directory };
        let group = self.files.gather(&direct, self.medium);
        if let Err(error) = group.and_then(|group| self.medium.write_directory(&begun, &group)) {
            // A list that is on the flash after all must stay what it is until another directory is.
            if error.is_refusal() {
                self.medium.free_pages(self.taken);
            }
            return Err(error);
        }
        let medium = self.medium;
        medium.stats.large_commits += 1;
        medium.stats.large_commit_pages += u64::from(entries) + direct.len() as u64;
        medium.stats.packed_pages += moved.packed() as u64;
        medium.moved = Some(moved);
        let ended = Directory { sequence: begun.sequence + 1, redo: None, ..begun };
        match medium.put_in_place().and_then(|()| medium.write_directory(&ended, &Vec::new())) {
            Ok(()) => medium.drop_moved(),
            Err(error) => medium.last_error = error.to_string(),
        }
        Ok(aside)
    }

    fn pack(&mut self, change: Change, of: Of<'_>) {
        if let Some(mut pages) = self.files.pages(change.file, self.medium) {
            pages.pack(change.page, of);
        }
    }

    /// Replaces the record of a packed page by the page.
    fn unpack(&mut self, change: Change) -> Result<(), StoreError> {
        self.files.pages(change.file, self.medium).map_or(Ok(()), |mut pages| pages.unpack(change.page))
    }

    /// Homes, other than its own, from which a packed page copies.
    fn others_of(&self, change: &Change) -> Vec<u32> {
        self.files.get(change.file).map(|file| file.others_of(change.page)).unwrap_or_default()
    }

    /// Homes, other than their own, from which the changed pages copy. A page that copies from a home which
    /// the commit frees is unpacked.
    fn cited(&mut self, changes: &[Change]) -> Result<BTreeSet<u32>, StoreError> {
        let mut cited = BTreeSet::new();
        let mut stay: Option<(FileId, BTreeSet<u32>)> = None;
        for &change in changes {
            let (id, others) = (change.file, self.others_of(&change));
            let Some(file) = self.files.get(id).filter(|_| !others.is_empty()) else { continue };
            if stay.as_ref().is_none_or(|(of, _)| *of != id) {
                let staying = file.staying(0..u32::MAX, self.medium.page_bytes);
                stay = Some((id, staying.map(|(_, home)| home).collect()));
            }
            if others.iter().all(|other| stay.as_ref().is_some_and(|(_, stay)| stay.contains(other))) {
                cited.extend(others);
            } else {
                self.unpack(change)?;
            }
        }
        Ok(cited)
    }

    /// Divides the changes into at most `direct` that go to their homes with the directory, and the others.
    /// The direct ones are those that would take most bytes aside. Homes from which other changes copy are
    /// not among them.
    fn share_out(
        &mut self,
        changes: &[Change],
        direct: usize,
    ) -> Result<(Vec<Change>, Vec<Change>), StoreError> {
        let cited = self.cited(changes)?;
        let mut sorted = Vec::with_capacity(changes.len());
        for &change in changes {
            self.pack(change, Of::Its);
            let slot = self.files.slot(&change);
            sorted.push((slot.map_or(0, Slot::aside_bytes), change));
        }
        sorted.sort_by_key(|(bytes, change)| (cited.contains(&change.home), std::cmp::Reverse(*bytes)));
        let may = sorted.partition_point(|(_, change)| !cited.contains(&change.home));
        let mut sorted: Vec<Change> = sorted.into_iter().map(|(_, change)| change).collect();
        let mut others = sorted.split_off(direct.min(may));
        others.sort_unstable_by_key(|change| change.home);
        Ok((sorted, others))
    }

    /// Does step 1. `direct` are the changes that the group of the directory writes.
    fn put_aside(
        &mut self,
        changes: &[Change],
        direct: &[Change],
        sequence: u64,
    ) -> Result<Moved, StoreError> {
        let direct: BTreeSet<u32> = direct.iter().map(|change| change.home).collect();
        let bytes: usize =
            changes.iter().filter_map(|change| self.files.slot(change)).map(Slot::aside_bytes).sum();
        self.is_tight = bytes / self.medium.page_bytes > self.medium.space.pages() as usize;
        for &change in changes {
            if self.is_tight {
                self.pack(change, Of::Several(&direct));
            }
            self.whole_aside(change)?;
        }
        let ordered = self.in_order(changes)?;
        self.write_list(&ordered, sequence)
    }

    /// Orders the changes so that no page copies from the home of an earlier one. If pages copy from each
    /// other, one of them is put aside whole.
    fn in_order(&mut self, changes: &[Change]) -> Result<Vec<Change>, StoreError> {
        let mut left: BTreeMap<u32, Change> = changes.iter().map(|&change| (change.home, change)).collect();
        let mut made_of: BTreeMap<u32, Vec<u32>> =
            changes.iter().map(|change| (change.home, self.others_of(change))).collect();
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
                    self.unpack(change)?;
                    self.pack(change, Of::Its);
                    self.whole_aside(change)?;
                }
            }
        }
        debug_assert_eq!(ordered.len(), changes.len(), "a page has no place in the list");
        Ok(ordered)
    }

    /// Writes the list of the changes.
    fn write_list(&mut self, changes: &[Change], sequence: u64) -> Result<Moved, StoreError> {
        let effort = if self.is_tight { Effort::Much } else { Effort::Little };
        let (mut moved, mut next) = (Moved::default(), None);
        let (mut rest, mut entries, mut bytes) = (changes, Vec::new(), 0);
        while !rest.is_empty() || !entries.is_empty() {
            while bytes < RAW_BYTES_MAX
                && let Some(change) = rest.split_off_first()
            {
                let entry = self.entry(*change)?;
                bytes += entry.bytes();
                entries.push(entry);
            }
            let filled = Filled::with(&entries, self.medium.page_bytes, effort);
            bytes -= entries.drain(..filled.entries).map(|entry| entry.bytes()).sum::<usize>();
            let lpn = next.take().map_or_else(|| self.take_aside(), Ok)?;
            if !rest.is_empty() || !entries.is_empty() {
                next = Some(self.take_aside()?);
            }
            let page = filled.encode(next.unwrap_or(NO_PAGE), sequence, self.medium.page_bytes);
            self.medium.store.write(Lpn(lpn), Cause::Host, &page)?;
            moved.add(lpn, &ListPage::decode(&page).ok_or(torn_list(lpn))?)?;
        }
        if !moved.list.is_empty() {
            self.medium.settle()?;
        }
        Ok(moved)
    }

    /// The list entry of a page that is aside whole or packed.
    fn entry(&self, change: Change) -> Result<Entry, StoreError> {
        let Change { file, page, home } = change;
        if let Some(&(lpn, crc)) = self.whole.get(&home) {
            return Ok(Entry { home, crc, aside: Aside::Page(lpn) });
        }
        let record = self.files.get(file).and_then(|file| file.waiting.record(page));
        let what = "a page of a large commit is nowhere";
        let (record, crc) = record.ok_or(StoreError::Corrupted { what, at: page.into() })?;
        Ok(Entry { home, crc, aside: Aside::Made(record) })
    }

    /// Takes a store page for a page aside or for the list, kept back or not.
    fn take_aside(&mut self) -> Result<u32, StoreError> {
        let lpn = self.medium.space.take_any(1, None)?[0].first;
        self.taken.push(lpn);
        Ok(lpn)
    }

    /// Puts a page aside unless it is packed or spilled, and notes its store page and checksum.
    fn whole_aside(&mut self, change: Change) -> Result<(), StoreError> {
        let place = match self.files.slot(&change) {
            Some(Slot::Packed { .. } | Slot::Bundled { .. }) => return Ok(()),
            Some(&Slot::Spilled { lpn, crc, .. }) => (lpn, crc),
            _ => {
                let mut bytes = vec![0; self.medium.page_bytes];
                self.files.load(&change, &mut bytes, self.medium)?;
                let lpn = self.take_aside()?;
                self.medium.store.write(Lpn(lpn), Cause::Host, &bytes)?;
                (lpn, crc32fast::hash(&bytes))
            }
        };
        self.whole.insert(change.home, place);
        Ok(())
    }
}

impl Medium {
    /// Writes the pages of a large commit to their homes.
    pub(super) fn put_in_place(&mut self) -> Result<(), StoreError> {
        let Some(moved) = &self.moved else { return Ok(()) };
        let places: Vec<(u32, Place)> =
            moved.order.iter().filter_map(|&home| Some((home, *moved.pages.get(&home)?))).collect();
        let (mut bytes, mut list) = (vec![0; self.page_bytes], None);
        for (home, place) in places {
            self.read_moved(home, place, &mut list, &mut bytes)?;
            self.store.write(Lpn(home), Cause::Host, &bytes)?;
        }
        self.settle()
    }

    /// Reads a page of a large commit, which may not be at its home yet. `list` is the page of the list read
    /// last, with its store page.
    pub(super) fn read_moved(
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
        self.restore(home, (&record, place.crc), data, |medium, home, data| {
            medium.store.read(Lpn(home), Cause::Host, data)
        })
    }

    /// Frees the store pages of a large commit whose pages are all at their homes.
    pub(super) fn drop_moved(&mut self) {
        let Some(moved) = self.moved.take() else { return };
        let runs: Vec<Run> = moved.runs().collect();
        self.free(&runs);
    }

    /// Reads the list that a directory names.
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
