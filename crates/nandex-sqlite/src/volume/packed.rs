//! Pages to be written that are nearly what lies in their places: as pieces of it.
//!
//! What lies there is the same until a commit replaces it, a power cut included. A page of zeros may have
//! been trimmed, and then a cut brings back what was there before: nothing is made of pieces of such a page.

use super::commit::Change;
use super::list::{Record, record_bytes_max};
use super::slots::{Slot, Slots};
use super::{File, FileId, Volume, delta};
use crate::settings::Commits;
use nandex::StoreError;
use std::collections::BTreeSet;

/// The share of a page that its pieces may take: one in so many.
const SHARE: usize = 3;

/// The part of a page that its pieces of several may take, in quarters: they come where nothing else helps.
const QUARTERS: usize = 3;

/// Pages before and behind one that may have what it is made of, and the most that do.
const BEFORE: u32 = 12;
const BEHIND: u32 = 24;
const OTHERS_MAX: usize = 8;

/// The places that a page is made of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Of<'a> {
    /// The place of the page.
    Its,
    /// The place of the page and those around, but for these.
    Several(&'a BTreeSet<u32>),
}

impl Volume {
    /// Packs a page that waits in RAM, where RAM is short; whether that was worth while. A quarter of the RAM
    /// is left for pages as they are.
    pub(super) fn pack_for_room(&mut self, id: FileId, page: u32, of: Of<'_>) -> bool {
        if !self.may_pack(id) {
            let (file, room) = self.parts(id);
            let Some(file) = file else { return false };
            file.slots.bundle(room.used);
            if let Some(batch) = &mut file.batch {
                batch.slots.bundle(room.used);
            }
        }
        self.may_pack(id) && self.pack(id, page, of)
    }

    pub(super) fn may_pack(&mut self, id: FileId) -> bool {
        let (file, room) = self.parts(id);
        let unpacked = file.map_or(0, |file| {
            file.slots.unpacked_bytes() + file.batch_slots().map_or(0, Slots::unpacked_bytes)
        });
        room.used.saturating_sub(unpacked) <= room.most / 4 * 3
    }

    /// Keeps a page that waits in RAM as pieces of what lies in places, where those are few and nothing
    /// changes what lies there before the commit; whether it does.
    pub(super) fn pack(&mut self, id: FileId, page: u32, of: Of<'_>) -> bool {
        let is_stable = self.store.prefix_consistent() && self.settings.commits == Commits::Grouped;
        if !is_stable || self.log_of(id).is_some() {
            return false;
        }
        let in_ram = |file: &&File| page < file.filled && matches!(file.slot(page), Some(Slot::Ram(_)));
        let Some(file) = self.files.get(&id).filter(in_ram) else { return false };
        let Some(home) = file.home(page) else { return false };
        let mut homes = vec![home];
        if let Of::Several(but) = of {
            // A page that the commit frees, or that was not there before it, may hold anything.
            let end = file.filled.min(file.size.div_ceil(self.page_bytes as u64) as u32);
            let around = page.saturating_sub(BEFORE)..end.min(page.saturating_add(1 + BEHIND));
            let others = around.filter(|&other| other != page).filter_map(|other| file.home(other));
            homes.extend(others.filter(|other| !but.contains(other)));
        }
        let record = self.record_of(id, page, homes);
        let (file, room) = self.parts(id);
        let slots = file.map(|file| file.slots_with(page));
        slots.zip(record).map(|(slots, record)| slots.pack(page, record, room.used)).is_some()
    }

    /// The record that makes a page in RAM of what lies in these places, the first of which is its own.
    fn record_of(&mut self, id: FileId, page: u32, mut homes: Vec<u32>) -> Option<Record> {
        let mut old = self.read_places(&mut homes)?;
        let mut most = self.page_bytes / SHARE;
        if homes.len() > 1 {
            most = self.page_bytes / 4 * QUARTERS;
            let rough = delta::pack(&old, self.in_ram(id, page)?, self.page_bytes)?;
            // Once more, of those that it has pieces of, and of its own place.
            let mut used = delta::used(&rough, self.page_bytes)?;
            used.insert(0);
            if used.len() > 1 + OTHERS_MAX {
                return None;
            }
            homes = used.iter().filter_map(|&at| homes.get(at).copied()).collect();
            old = self.read_places(&mut homes)?;
        }
        let new = self.in_ram(id, page)?;
        // Another page with its checksum would be taken for the page.
        let there = &old[..self.page_bytes];
        let is_told_apart = there == new || crc32fast::hash(new) != crc32fast::hash(there);
        let most = most.min(record_bytes_max(self.page_bytes));
        let most = most.checked_sub(Record::bytes_beside(homes.len() - 1)).filter(|_| is_told_apart)?;
        delta::pack(&old, new, most).map(|pieces| Record::new(homes[0], &homes[1..], &pieces))
    }

    fn in_ram(&self, id: FileId, page: u32) -> Option<&[u8]> {
        match self.files.get(&id)?.slot(page)? {
            Slot::Ram(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Reads what lies in places, one behind the other. Those of zeros go: a cut may bring back what was
    /// there before they were trimmed. `None` where the first one has to.
    fn read_places(&mut self, homes: &mut Vec<u32>) -> Option<Vec<u8>> {
        let (mut old, mut page, mut kept) = (Vec::new(), vec![0; self.page_bytes], Vec::new());
        for &home in homes.iter() {
            let is_read = self.read_home(home, &mut page).is_ok() && page.iter().any(|&byte| byte != 0);
            if is_read {
                kept.push(home);
                old.extend_from_slice(&page);
            } else if kept.is_empty() {
                return None;
            }
        }
        *homes = kept;
        Some(old)
    }

    /// The places that pages of these changes are made of, beside their own. What is made of a place that the
    /// commit frees is unpacked.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub(super) fn cited(&mut self, changes: &[Change]) -> Result<BTreeSet<u32>, StoreError> {
        let mut cited = BTreeSet::new();
        let mut stay: Option<(FileId, BTreeSet<u32>)> = None;
        for &Change { file: id, page, .. } in changes {
            let others = self.others_of(id, page);
            let Some(file) = self.files.get(&id).filter(|_| !others.is_empty()) else { continue };
            if stay.as_ref().is_none_or(|(of, _)| *of != id) {
                let end = file.filled.min(file.size.div_ceil(self.page_bytes as u64) as u32);
                stay = Some((id, (0..end).filter_map(|page| file.home(page)).collect()));
            }
            if others.iter().all(|other| stay.as_ref().is_some_and(|(_, stay)| stay.contains(other))) {
                cited.extend(others);
            } else {
                self.unpack(id, page)?;
            }
        }
        Ok(cited)
    }

    /// The places beside its own that a packed page is made of.
    pub(super) fn others_of(&self, id: FileId, page: u32) -> Vec<u32> {
        let found = self.files.get(&id).and_then(|file| file.home(page).zip(file.record(page)));
        found.and_then(|(home, (record, _))| Some(record.parts(home)?.0)).unwrap_or_default()
    }

    /// Keeps a packed page as it is.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub(super) fn unpack(&mut self, id: FileId, page: u32) -> Result<(), StoreError> {
        let mut bytes = vec![0; self.page_bytes];
        self.load(id, page, &mut bytes)?;
        let (file, room) = self.parts(id);
        file.map_or(Ok(()), |file| file.slots_with(page).put(page, bytes.into(), room))
    }

    /// Reads a page that waits packed.
    pub(super) fn load_packed(&mut self, id: FileId, page: u32, data: &mut [u8]) -> Result<(), StoreError> {
        let found = self.files.get(&id).and_then(|file| file.home(page).zip(file.record(page)));
        let what = "a page that waits has no place";
        let (home, (record, crc)) = found.ok_or(StoreError::Corrupted { what, at: page.into() })?;
        self.restore(home, (&record, crc), data, Volume::read_home)
    }

    /// Reads a page that a record makes, and that has this checksum, with `read` for what lies in places.
    /// Where it is in its place already, as it is.
    ///
    /// # Errors
    ///
    /// [`StoreError::Corrupted`] where the place has neither the page nor the one that the record is of.
    pub(super) fn restore(
        &mut self,
        home: u32,
        (record, crc): (&Record, u32),
        data: &mut [u8],
        read: fn(&mut Volume, u32, &mut [u8]) -> Result<(), StoreError>,
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
}
