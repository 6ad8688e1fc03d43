//! Pages of a file that are not in their place on the flash: what was written since the last commit, or all
//! of a temporary file.

use super::bundles::Bundles;
use super::list::{Made, Record};
use super::{Medium, Run};
use nandex::{Cause, Lpn, StoreError};
use std::collections::{BTreeMap, BTreeSet};

/// Where such a page is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Slot {
    /// In RAM.
    Ram(Box<[u8]>),
    /// In RAM as what makes it of the page in its place, and of others, because RAM ran short.
    Packed { record: Record, crc: u32 },
    /// In RAM so, and packed together with others.
    Bundled { bundle: u32, made: Made, crc: u32 },
    /// In a page of the store, because RAM ran short: one that no file has, or its own place where nothing
    /// committed is there yet.
    Spilled { lpn: u32, crc: u32, is_placed: bool },
}

impl Slot {
    /// Bytes that its page takes beside an entry in the list of a large commit.
    pub(super) fn aside_bytes(&self) -> usize {
        match self {
            Slot::Ram(bytes) => bytes.len(),
            Slot::Packed { record, .. } => record.bytes().len(),
            Slot::Bundled { made, .. } => made.bytes(),
            Slot::Spilled { .. } => 0,
        }
    }

    /// Bytes of RAM that it takes, its bundle not among them.
    fn ram_bytes(&self) -> usize {
        match self {
            Slot::Ram(bytes) => bytes.len(),
            Slot::Packed { record, .. } => record.bytes().len() + PACKED_BYTES,
            Slot::Bundled { .. } => BUNDLED_BYTES,
            Slot::Spilled { .. } => 0,
        }
    }
}

/// Bytes that a packed page takes beside its record: its entry among the slots.
const PACKED_BYTES: usize = 72;
const BUNDLED_BYTES: usize = 56;

/// Packed pages in no bundle before any are made.
const LOOSE_MIN: usize = 64;

/// Pages by their number in the file.
#[derive(Debug, Default)]
pub(super) struct Slots {
    pages: BTreeMap<u32, Slot>,
    /// The slots in RAM that are not packed.
    ram: BTreeSet<u32>,
    /// The slots that are packed and in no bundle.
    loose: BTreeSet<u32>,
    /// How many of them are not worth a bundle.
    left_loose: usize,
    bundles: Bundles,
    /// Bytes of RAM that all slots take.
    ram_bytes: usize,
}

/// The room that slots need of the volume: where to spill, and how much RAM all of them may take.
pub(super) struct Room<'a> {
    pub(super) medium: &'a mut Medium,
    /// Bytes of RAM taken now.
    pub(super) used: &'a mut usize,
    /// Bytes of RAM at most.
    pub(super) most: usize,
}

impl Room<'_> {
    /// Whether another page in RAM puts one of them out.
    pub(super) fn is_short(&self) -> bool {
        *self.used + self.medium.page_bytes > self.most
    }

    /// Whether one of them is to be put out.
    pub(super) const fn is_over(&self) -> bool {
        *self.used > self.most
    }
}

impl Slots {
    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// How many pages there are.
    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }

    pub(super) fn get(&self, page: u32) -> Option<&Slot> {
        self.pages.get(&page)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Slot)> {
        self.pages.iter().map(|(&page, slot)| (page, slot))
    }

    /// The bytes of a page that is in RAM, to be changed.
    pub(super) fn ram_mut(&mut self, page: u32) -> Option<&mut [u8]> {
        match self.pages.get_mut(&page) {
            Some(Slot::Ram(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// Puts a page in RAM.
    ///
    /// # Errors
    ///
    /// Where the store fails a trim. The page was put.
    pub(super) fn put(&mut self, page: u32, bytes: Box<[u8]>, room: &mut Room<'_>) -> Result<(), StoreError> {
        let forgotten = self.forget(page, room);
        self.insert(page, Slot::Ram(bytes), room.used);
        self.ram.insert(page);
        forgotten
    }

    fn insert(&mut self, page: u32, slot: Slot, used: &mut usize) {
        let bytes = slot.ram_bytes();
        self.ram_bytes += bytes;
        *used += bytes;
        let old = self.pages.insert(page, slot).map_or(0, |old| self.let_go(page, &old));
        self.ram_bytes -= old;
        *used -= old;
    }

    /// The bytes of RAM that are free without a slot.
    fn let_go(&mut self, page: u32, slot: &Slot) -> usize {
        let bundle = match slot {
            Slot::Ram(_) => return slot.ram_bytes(),
            Slot::Packed { .. } => {
                self.loose.remove(&page);
                0
            }
            Slot::Bundled { bundle, .. } => self.bundles.forget(*bundle),
            Slot::Spilled { .. } => 0,
        };
        slot.ram_bytes() + bundle
    }

    /// The first page from there on that is in RAM and not packed.
    pub(super) fn unpacked_from(&self, page: u32) -> Option<u32> {
        self.ram.range(page..).next().copied()
    }

    /// Bytes of RAM of the pages that are as they are.
    pub(super) fn unpacked_bytes(&self) -> usize {
        let page = self.ram.first().and_then(|first| self.pages.get(first));
        page.map_or(0, Slot::ram_bytes) * self.ram.len()
    }

    /// Keeps what makes a page in place of the page.
    pub(super) fn pack(&mut self, page: u32, record: Record, used: &mut usize) {
        let Some(Slot::Ram(bytes)) = self.pages.get(&page) else { return };
        let crc = crc32fast::hash(bytes);
        self.insert(page, Slot::Packed { record, crc }, used);
        self.ram.remove(&page);
        self.loose.insert(page);
    }

    /// The record that makes a packed page, and its checksum.
    pub(super) fn record(&self, page: u32) -> Option<(Record, u32)> {
        match self.pages.get(&page)? {
            Slot::Packed { record, crc } => Some((record.clone(), *crc)),
            &Slot::Bundled { bundle, made, crc } => Some((self.bundles.record(bundle, made)?, crc)),
            _ => None,
        }
    }

    /// Packs together what makes packed pages, where many of them are in no bundle.
    pub(super) fn bundle(&mut self, used: &mut usize) {
        if self.loose.len() < LOOSE_MIN + 2 * self.left_loose {
            return;
        }
        let loose = std::mem::take(&mut self.loose);
        let mut rest: Vec<u32> = loose.into_iter().collect();
        let mut left = BTreeSet::new();
        while !rest.is_empty() {
            let records = rest.iter().filter_map(|page| match self.pages.get(page) {
                Some(Slot::Packed { record, .. }) => Some(record),
                _ => None,
            });
            let Some((bundle, made, bytes)) = self.bundles.add(records, PACKED_BYTES - BUNDLED_BYTES) else {
                left.extend(rest.drain(..rest.len().min(LOOSE_MIN)));
                continue;
            };
            self.ram_bytes += bytes;
            *used += bytes;
            for (page, made) in rest.drain(..made.len()).zip(made) {
                if let Some(&Slot::Packed { crc, .. }) = self.pages.get(&page) {
                    self.insert(page, Slot::Bundled { bundle, made, crc }, used);
                }
            }
        }
        (self.left_loose, self.loose) = (left.len(), left);
    }

    /// The page in RAM that is spilled next: the lowest but the one at hand; the first page of a database
    /// changes in every transaction.
    pub(super) fn victim(&self, at_hand: u32) -> Option<u32> {
        self.ram.iter().copied().find(|&other| other != at_hand && other != 0)
    }

    /// Spills a page to this one of the store.
    ///
    /// # Errors
    ///
    /// Those of the store: the page is still in RAM.
    pub(super) fn spill(
        &mut self,
        page: u32,
        (lpn, is_placed): (u32, bool),
        room: &mut Room<'_>,
    ) -> Result<(), StoreError> {
        let Some(Slot::Ram(bytes)) = self.pages.get(&page) else { return Ok(()) };
        let crc = crc32fast::hash(bytes);
        room.medium.store.write(Lpn(lpn), Cause::CacheEviction, bytes)?;
        self.insert(page, Slot::Spilled { lpn, crc, is_placed }, room.used);
        self.ram.remove(&page);
        room.medium.stats.spilled_pages += 1;
        Ok(())
    }

    /// Drops a page.
    pub(super) fn forget(&mut self, page: u32, room: &mut Room<'_>) -> Result<(), StoreError> {
        let Some(slot) = self.pages.remove(&page) else { return Ok(()) };
        self.ram.remove(&page);
        let bytes = self.let_go(page, &slot);
        self.ram_bytes -= bytes;
        *room.used -= bytes;
        match slot {
            Slot::Spilled { lpn, is_placed: false, .. } => {
                room.medium.space.give(Run { first: lpn, pages: 1 });
                room.medium.store.trim(Lpn(lpn))
            }
            _ => Ok(()),
        }
    }

    /// Forgets all pages and returns where spilled ones are that are not in their places: whoever asks has
    /// them now.
    pub(super) fn take_spilled(&mut self, used: &mut usize) -> Vec<u32> {
        *used -= std::mem::take(&mut self.ram_bytes);
        self.ram.clear();
        self.loose.clear();
        self.bundles.clear();
        let pages = std::mem::take(&mut self.pages).into_values();
        let spilled = pages.filter_map(|slot| match slot {
            Slot::Spilled { lpn, is_placed: false, .. } => Some(lpn),
            _ => None,
        });
        spilled.collect()
    }

    /// Drops the pages from this one on.
    pub(super) fn drop_from(&mut self, first: u32, room: &mut Room<'_>) -> Result<(), StoreError> {
        let pages: Vec<u32> = self.pages.range(first..).map(|(&page, _)| page).collect();
        // Every page is dropped, whatever becomes of a trim.
        pages.into_iter().map(|page| self.forget(page, room)).fold(Ok(()), Result::and)
    }
}
