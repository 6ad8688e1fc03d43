//! Slots: the waiting pages of a file, or all pages of a temporary file.

use super::bundles::Bundles;
use super::list::{Made, Record};
use super::{Medium, Run};
use nandex::{Cause, Lpn, StoreError};
use std::collections::{BTreeMap, BTreeSet};

/// Where a waiting page is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Slot {
    /// In RAM, whole.
    Ram(Box<[u8]>),
    /// In RAM as a record, because RAM ran short. `crc` is the checksum of the page.
    Packed { record: Record, crc: u32 },
    /// In RAM as a record in a bundle.
    Bundled { bundle: u32, made: Made, crc: u32 },
    /// In a store page, because RAM ran short. `is_placed`: this is the home of the page, which has no
    /// committed contents yet.
    Spilled { lpn: u32, crc: u32, is_placed: bool },
}

impl Slot {
    /// Bytes that the page takes aside in a large commit, not counting its entry in the list.
    pub(super) fn aside_bytes(&self) -> usize {
        match self {
            Slot::Ram(bytes) => bytes.len(),
            Slot::Packed { record, .. } => record.bytes().len(),
            Slot::Bundled { made, .. } => made.bytes(),
            Slot::Spilled { .. } => 0,
        }
    }

    /// Bytes of RAM of the slot, not counting its bundle.
    fn ram_bytes(&self) -> usize {
        match self {
            Slot::Ram(bytes) => bytes.len(),
            Slot::Packed { record, .. } => record.bytes().len() + PACKED_BYTES,
            Slot::Bundled { .. } => BUNDLED_BYTES,
            Slot::Spilled { .. } => 0,
        }
    }
}

/// Bytes of RAM of a packed slot, then of a bundled one, not counting the record.
const PACKED_BYTES: usize = 72;
const BUNDLED_BYTES: usize = 56;

/// Number of records in no bundle from which on bundles are made.
const LOOSE_MIN: usize = 64;

/// Slots by page.
#[derive(Debug, Default)]
pub(super) struct Slots {
    pages: BTreeMap<u32, Slot>,
    /// Pages whose slot is in RAM and not packed.
    ram: BTreeSet<u32>,
    /// Pages whose slot is packed and in no bundle.
    loose: BTreeSet<u32>,
    /// Number of the `loose` pages for which a bundle saved nothing.
    left_loose: usize,
    bundles: Bundles,
    /// Bytes of RAM of all slots and bundles.
    ram_bytes: usize,
}

/// The volume's store and RAM, as far as slots use them.
pub(super) struct Room<'a> {
    pub(super) medium: &'a mut Medium,
    /// Bytes of RAM in use.
    pub(super) used: &'a mut usize,
    /// Most bytes of RAM.
    pub(super) most: usize,
}

impl Room<'_> {
    /// True if one more page in RAM exceeds the limit.
    pub(super) fn is_short(&self) -> bool {
        *self.used + self.medium.page_bytes > self.most
    }

    /// True if the limit is exceeded.
    pub(super) const fn is_over(&self) -> bool {
        *self.used > self.most
    }
}

impl Slots {
    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }

    pub(super) fn get(&self, page: u32) -> Option<&Slot> {
        self.pages.get(&page)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Slot)> {
        self.pages.iter().map(|(&page, slot)| (page, slot))
    }

    /// The bytes of a page in RAM, mutable.
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
    /// The store failed a trim. The page was put all the same.
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

    /// Removes a slot from the indexes and its bundle. Returns the bytes of RAM freed.
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

    /// The first page, from `page` on, that is in RAM and not packed.
    pub(super) fn unpacked_from(&self, page: u32) -> Option<u32> {
        self.ram.range(page..).next().copied()
    }

    /// Bytes of RAM of the pages that are not packed.
    pub(super) fn unpacked_bytes(&self) -> usize {
        let page = self.ram.first().and_then(|first| self.pages.get(first));
        page.map_or(0, Slot::ram_bytes) * self.ram.len()
    }

    /// Replaces a page in RAM by its record.
    pub(super) fn pack(&mut self, page: u32, record: Record, used: &mut usize) {
        let Some(Slot::Ram(bytes)) = self.pages.get(&page) else { return };
        let crc = crc32fast::hash(bytes);
        self.insert(page, Slot::Packed { record, crc }, used);
        self.ram.remove(&page);
        self.loose.insert(page);
    }

    /// Record and checksum of a packed page.
    pub(super) fn record(&self, page: u32) -> Option<(Record, u32)> {
        match self.pages.get(&page)? {
            Slot::Packed { record, crc } => Some((record.clone(), *crc)),
            &Slot::Bundled { bundle, made, crc } => Some((self.bundles.record(bundle, made)?, crc)),
            _ => None,
        }
    }

    /// Makes bundles if many packed pages are in none.
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

    /// The page to spill next: the lowest in RAM, except `at_hand` and page 0. The first page of a database
    /// changes in every transaction.
    pub(super) fn victim(&self, at_hand: u32) -> Option<u32> {
        self.ram.iter().copied().find(|&other| other != at_hand && other != 0)
    }

    /// Spills a page to a store page.
    ///
    /// # Errors
    ///
    /// Those of the store. The page is then still in RAM.
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

    /// Drops the slot of a page.
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

    /// Forgets all slots. Returns the store pages of spilled ones that are not homes; they now belong to the
    /// caller.
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

    /// Drops the slots from page `first` on.
    pub(super) fn drop_from(&mut self, first: u32, room: &mut Room<'_>) -> Result<(), StoreError> {
        let pages: Vec<u32> = self.pages.range(first..).map(|(&page, _)| page).collect();
        // Every page is dropped, whatever becomes of a trim.
        pages.into_iter().map(|page| self.forget(page, room)).fold(Ok(()), Result::and)
    }
}
