//! Pages of a file that are not in their place on the flash: what was written since the last commit, or all
//! of a temporary file.

use super::space::{Run, Space};
use nandex::{Cause, Lpn, PageStore, StoreError};
use std::collections::{BTreeMap, BTreeSet};

/// Where such a page is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Slot {
    /// In RAM.
    Ram(Box<[u8]>),
    /// In a page of the store, because RAM ran short: one that no file has, or its own place where nothing
    /// committed is there yet.
    Spilled { lpn: u32, crc: u32, is_placed: bool },
}

/// Pages by their number in the file.
#[derive(Debug, Default)]
pub(super) struct Slots {
    pages: BTreeMap<u32, Slot>,
    /// The slots in RAM.
    ram: BTreeSet<u32>,
}

/// The room that slots need of the volume: where to spill, and how much RAM all of them may take.
pub(super) struct Room<'a> {
    pub(super) store: &'a mut Box<dyn PageStore>,
    pub(super) space: &'a mut Space,
    /// Pages in RAM now.
    pub(super) used: &'a mut usize,
    /// Pages in RAM at most.
    pub(super) most: usize,
    /// Pages spilled so far.
    pub(super) spilled: &'a mut u64,
}

impl Room<'_> {
    /// Whether another page in RAM puts one of them out.
    pub(super) const fn is_short(&self) -> bool {
        *self.used >= self.most
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
    pub(super) fn put(&mut self, page: u32, bytes: Box<[u8]>, mut room: Room<'_>) -> Result<(), StoreError> {
        let forgotten = self.forget(page, &mut room);
        self.pages.insert(page, Slot::Ram(bytes));
        self.ram.insert(page);
        *room.used += 1;
        forgotten
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
        room: Room<'_>,
    ) -> Result<(), StoreError> {
        let Some(Slot::Ram(bytes)) = self.pages.get(&page) else { return Ok(()) };
        let crc = crc32fast::hash(bytes);
        room.store.write(Lpn(lpn), Cause::CacheEviction, bytes)?;
        self.pages.insert(page, Slot::Spilled { lpn, crc, is_placed });
        self.ram.remove(&page);
        *room.used -= 1;
        *room.spilled += 1;
        Ok(())
    }

    fn forget(&mut self, page: u32, room: &mut Room<'_>) -> Result<(), StoreError> {
        match self.pages.remove(&page) {
            Some(Slot::Ram(_)) => {
                self.ram.remove(&page);
                *room.used -= 1;
                Ok(())
            }
            Some(Slot::Spilled { lpn, is_placed: false, .. }) => {
                room.space.give(Run { first: lpn, pages: 1 });
                room.store.trim(Lpn(lpn))
            }
            Some(Slot::Spilled { .. }) | None => Ok(()),
        }
    }

    /// Drops a page.
    pub(super) fn drop_page(&mut self, page: u32, mut room: Room<'_>) -> Result<(), StoreError> {
        self.forget(page, &mut room)
    }

    /// Forgets all pages and returns where spilled ones are that are not in their places: whoever asks has
    /// them now.
    pub(super) fn take_spilled(&mut self, used: &mut usize) -> Vec<u32> {
        *used -= self.ram.len();
        self.ram.clear();
        let pages = std::mem::take(&mut self.pages).into_values();
        let spilled = pages.filter_map(|slot| match slot {
            Slot::Spilled { lpn, is_placed: false, .. } => Some(lpn),
            Slot::Spilled { .. } | Slot::Ram(_) => None,
        });
        spilled.collect()
    }

    /// Drops the pages from this one on.
    pub(super) fn drop_from(&mut self, first: u32, mut room: Room<'_>) -> Result<(), StoreError> {
        let pages: Vec<u32> = self.pages.range(first..).map(|(&page, _)| page).collect();
        // Every page is dropped, whatever becomes of a trim.
        pages.into_iter().map(|page| self.forget(page, &mut room)).fold(Ok(()), Result::and)
    }
}
