//! Mount of a store that counts valid pages by block ([`Validity::Counts`]).
//!
//! Records tell how many pages of each block are valid, and the map at that time ([`Told`]). So the map tells
//! which pages these are, and no page of data needs to be read for its number. Each page of the mapping table
//! counts in its newest version, which may have been written since the record; it holds all entries known
//! then. Pages programmed since that record go through the election (`elect`) as usual, and the pages that
//! the map names instead are held as well.

use super::elect::{Key, Live};
use super::scan::{Recovery, Scan, reserve};
use super::state::State;
use super::{Chip, Told};
use crate::blocks::spare::{PageKind, read_page};
use crate::blocks::{BlockState, Validity};
use crate::check::words;
use crate::codec::{get_u32, put_u32};
use crate::fault::StoreFault;
use crate::nand::{Cause, Nand};
use crate::sort;
use crate::store::StoreError;
use crate::units::Ppn;
use alloc::vec::Vec;

/// Refuses a form of validity that was left out when the engine was built.
pub(super) fn built(validity: Validity) -> Result<Validity, StoreFault> {
    if cfg!(feature = "full") {
        return Ok(validity);
    }
    match validity {
        Validity::Bits => Ok(Validity::Bits),
        Validity::Counts => Err(StoreError::Unsupported(words(LEFT_OUT).into()).into()),
    }
}

const LEFT_OUT: &str = "valid pages counted by block: left out when the engine was built, feature 'full'";

/// Newest page of the mapping table.
struct Newest {
    ppn: Ppn,
    /// True if there are entries that the record lacks.
    is_new: bool,
}

impl<N: Nand + ?Sized> Chip<N> {
    /// Map in the record from which a mount started.
    pub(crate) fn told<'a>(&self, own: &'a [u8]) -> Result<Told<'a>, StoreFault> {
        self.state.told(own, self.records.area.version())
    }

    /// Logical pages in a range whose newest version cannot be read.
    pub(crate) fn lost_among(&self, lpns: core::ops::Range<u32>) -> impl Iterator<Item = u32> + '_ {
        self.state.lost.range(lpns).copied()
    }
}

impl State {
    fn told<'a>(&self, own: &'a [u8], record: u64) -> Result<Told<'a>, StoreFault> {
        let what = "the map in a record makes no sense";
        Told::new(own, self.geometry, self.page_count).ok_or_else(|| StoreFault::corrupted_at(what, record))
    }

    /// Refuses a map that names a page which cannot be valid.
    fn require_in_use(&self, ppn: Ppn) -> Result<(), StoreFault> {
        let is_on_chip = ppn.0 < self.geometry.pages();
        let state = is_on_chip.then(|| self.blocks.state(self.geometry.block_of(ppn)));
        match state {
            Some(BlockState::Open | BlockState::Full) => Ok(()),
            _ => Err(StoreFault::corrupted("the mapping table names a page that is not live", ppn.0)),
        }
    }
}

impl Recovery<'_> {
    /// Lists the pages of the mapping table after a clean end. Starts a new count of all blocks.
    pub(super) fn list_told(&mut self, own: &[u8]) -> Result<Vec<Live>, StoreFault> {
        self.scan_told(own)?;
        self.scan.pages.iter().for_each(|page| self.state.blocks.mark_valid(page.ppn));
        Ok(core::mem::take(&mut self.scan.pages))
    }

    /// Visits the pages named by the map: holds those that may lose, and counts the others.
    pub(super) fn scan_told(&mut self, own: &[u8]) -> Result<(), StoreFault> {
        let told = self.state.told(own, self.records.area.version())?;
        sort::unstable_by_key(&mut self.scan.pages, |page| (page.key, page.version, page.ppn));
        self.scan.since = Some(self.scan.pages.len());
        reserve(&mut self.scan.pages, told.pages() as usize)?;
        self.state.blocks.begin_count();
        for page in 0..told.pages() {
            let newest = self.scan.newest_told(self.state, &told, page);
            if told.place(page) != u32::MAX {
                let place = Ppn(told.place(page));
                self.state.require_in_use(place)?;
                let old = Live { key: Key::of(PageKind::Map, page), ppn: place, version: 0 };
                if !self.scan.has_lost(self.state, &old) {
                    self.scan.hold(self.state, old)?;
                }
            }
            match &newest {
                Some(newest) => {
                    let found = read_page(self.nand, newest.ppn, Cause::Recovery, self.page)?;
                    self.state.require(newest.ppn, page, found)?;
                }
                None => self.page.fill(0xff),
            }
            let lpns = told.range(page);
            if newest.is_none_or(|newest| !newest.is_new) {
                for (lpn, ppn) in told.entries_of(page) {
                    put_u32(self.page, (lpn - lpns.start) as usize * 4, ppn);
                }
            }
            for lpn in lpns.clone() {
                let entry = get_u32(self.page, (lpn - lpns.start) as usize * 4);
                if entry != u32::MAX {
                    self.take_told(lpn, Ppn(entry))?;
                }
            }
        }
        if self.state.blocks.end_count(true) {
            let what = "more pages are named by the map than the newest record that can be found counts";
            return Err(StoreFault::corrupted_at(what, self.records.area.version()));
        }
        Ok(())
    }

    /// Takes the place that the map has for a logical page.
    fn take_told(&mut self, lpn: u32, ppn: Ppn) -> Result<(), StoreFault> {
        let key = Key::of(PageKind::Data, lpn);
        let found = self.scan.since();
        let first = found.partition_point(|other| other.key < key);
        if found[first..].iter().take_while(|other| other.key == key).any(|other| other.ppn == ppn) {
            return Ok(());
        }
        if self.scan.rotten.iter().any(|rotten| rotten.ppn == ppn) {
            reserve(&mut self.scan.named, 1)?;
            self.scan.named.push(lpn);
            return Ok(());
        }
        self.state.require_in_use(ppn)?;
        let old = Live { key, ppn, version: 0 };
        if self.scan.has_lost(self.state, &old) {
            return Ok(());
        }
        if self.scan.is_contested(self.state, key) {
            return self.scan.hold(self.state, old);
        }
        self.state.blocks.note_valid(ppn);
        Ok(())
    }

    /// Marks logical pages as lost if the map has them at an unreadable page and nothing else of them was
    /// found.
    pub(super) fn lose_named(&mut self, live: &[Live]) {
        for &lpn in &self.scan.named {
            if !live.iter().any(|page| !page.is_map() && page.number() == lpn) {
                self.state.lost.insert(lpn);
            }
        }
    }
}

impl Scan {
    /// Newest version of a page of the mapping table, from the record and the pages programmed since.
    fn newest_told(&self, state: &State, told: &Told<'_>, page: u32) -> Option<Newest> {
        let key = Key::of(PageKind::Map, page);
        let since = self.since();
        let end = since.partition_point(|other| other.key <= key);
        let last = since[..end].last().filter(|last| last.key == key);
        let new = last.map(|last| Newest { ppn: last.ppn, is_new: last.version >= state.next_version });
        let old = Some(told.place(page)).filter(|&place| place != u32::MAX);
        new.or_else(|| old.map(|place| Newest { ppn: Ppn(place), is_new: false }))
    }
}
