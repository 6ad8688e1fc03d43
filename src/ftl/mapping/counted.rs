//! A mount where valid pages are counted by block ([`Validity::Counts`]).
//!
//! Records say how many pages of each block are valid, and what the map was ([`Told`]): so the map tells
//! which they are, and no page of data is asked whose it is. Of each page of the mapping table the newest
//! version counts, which may have been written since the record; it says all that was known then. A page
//! programmed since that record is elected as ever (`elect`), and what the map names beside it is held as
//! well.

use super::elect::{Key, Live};
use super::scan::{Scan, reserve};
use super::{Flash, Told};
use crate::blocks::spare::PageKind;
use crate::blocks::{BlockState, BlockTable, Validity};
use crate::check::words;
use crate::codec::{get_u32, put_u32};
use crate::fault::StoreFault;
use crate::nand::{Cause, Nand};
use crate::sort;
use crate::store::StoreError;
use crate::units::Ppn;
use alloc::vec::Vec;

/// Whether valid pages are counted by block: that may be left out when the engine is built (feature
/// `full`).
pub(super) fn is_counted(blocks: &BlockTable) -> bool {
    cfg!(feature = "full") && blocks.is_counted()
}

/// How it is known which pages are valid; refuses what was left out.
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

/// The page of the mapping table that counts.
struct Newest {
    ppn: Ppn,
    /// Whether it says what the record does not.
    is_new: bool,
}

impl<N: Nand> Flash<N> {
    /// The map of the record that a mount started from.
    pub(crate) fn told<'a>(&self, own: &'a [u8]) -> Result<Told<'a>, StoreFault> {
        let what = "the map in a record makes no sense";
        Told::new(own, self.geometry, self.page_count)
            .ok_or_else(|| StoreFault::corrupted_at(what, self.area.version()))
    }

    /// After a clean end: the pages of the mapping table. Counts all blocks anew.
    pub(super) fn list_told(&mut self, own: &[u8]) -> Result<Vec<Live>, StoreFault> {
        let mut scan = self.no_scan()?;
        self.scan_told(own, &mut scan)?;
        scan.pages.iter().for_each(|page| self.blocks.mark_valid(page.ppn));
        Ok(scan.pages)
    }

    /// Holds what may lose among the pages that the map names, and counts the others.
    pub(super) fn scan_told(&mut self, own: &[u8], scan: &mut Scan) -> Result<(), StoreFault> {
        let told = self.told(own)?;
        sort::unstable_by_key(&mut scan.pages, |page| (page.key, page.version, page.ppn));
        let since = scan.pages.len();
        scan.since = Some(since);
        reserve(&mut scan.pages, told.pages() as usize)?;
        self.blocks.begin_count();
        for page in 0..told.pages() {
            let newest = self.newest_told(&told, page, &scan.pages[..since]);
            if told.place(page) != u32::MAX {
                let place = Ppn(told.place(page));
                self.require_in_use(place)?;
                let old = Live { key: Key::of(PageKind::Map, page), ppn: place, version: 0 };
                if !self.has_lost(scan, &scan.pages[..since], &old) {
                    self.hold(old, scan)?;
                }
            }
            match &newest {
                Some(newest) => self.read_here(newest.ppn, page, Cause::Recovery)?,
                None => self.page_mut().fill(0xff),
            }
            let lpns = told.range(page);
            if newest.is_none_or(|newest| !newest.is_new) {
                for (lpn, ppn) in told.entries_of(page) {
                    put_u32(self.page_mut(), (lpn - lpns.start) as usize * 4, ppn);
                }
            }
            for lpn in lpns.clone() {
                let entry = get_u32(&self.page, (lpn - lpns.start) as usize * 4);
                if entry != u32::MAX {
                    self.take_told(lpn, Ppn(entry), since, scan)?;
                }
            }
        }
        if self.blocks.end_count(true) {
            let what = "more pages are named by the map than the newest record that can be found counts";
            return Err(StoreFault::corrupted_at(what, self.area.version()));
        }
        Ok(())
    }

    /// The newest version of a page of the mapping table, given what was programmed since the record.
    fn newest_told(&self, told: &Told<'_>, page: u32, since: &[Live]) -> Option<Newest> {
        let key = Key::of(PageKind::Map, page);
        let end = since.partition_point(|other| other.key <= key);
        let last = since[..end].last().filter(|last| last.key == key);
        let new = last.map(|last| Newest { ppn: last.ppn, is_new: last.version >= self.next_version });
        let old = Some(told.place(page)).filter(|&place| place != u32::MAX);
        new.or_else(|| old.map(|place| Newest { ppn: Ppn(place), is_new: false }))
    }

    /// The map has a logical page here.
    fn take_told(&mut self, lpn: u32, ppn: Ppn, since: usize, scan: &mut Scan) -> Result<(), StoreFault> {
        let key = Key::of(PageKind::Data, lpn);
        let found = &scan.pages[..since];
        let first = found.partition_point(|other| other.key < key);
        if found[first..].iter().take_while(|other| other.key == key).any(|other| other.ppn == ppn) {
            return Ok(());
        }
        if scan.rotten.iter().any(|rotten| rotten.ppn == ppn) {
            reserve(&mut scan.named, 1)?;
            scan.named.push(lpn);
            return Ok(());
        }
        self.require_in_use(ppn)?;
        let old = Live { key, ppn, version: 0 };
        if self.has_lost(scan, &scan.pages[..since], &old) {
            return Ok(());
        }
        if self.is_contested(scan, &scan.pages[..since], key) {
            return self.hold(old, scan);
        }
        self.blocks.note_valid(ppn);
        Ok(())
    }

    /// Refuses a map that names a page where none can be live.
    fn require_in_use(&self, ppn: Ppn) -> Result<(), StoreFault> {
        let is_on_chip = ppn.0 < self.geometry.pages();
        let state = is_on_chip.then(|| self.blocks.state(self.geometry.block_of(ppn)));
        match state {
            Some(BlockState::Open | BlockState::Full) => Ok(()),
            _ => Err(StoreFault::corrupted("the mapping table names a page that is not live", ppn.0)),
        }
    }

    /// Logical pages that the map has where nothing can be read, and of which nothing else was found, are
    /// lost.
    pub(super) fn lose_named(&mut self, scan: &Scan, live: &[Live]) {
        for &lpn in &scan.named {
            if !live.iter().any(|page| !page.is_map() && page.number() == lpn) {
                self.lost.insert(lpn);
            }
        }
    }

    /// Logical pages whose newest version cannot be read, among these.
    pub(crate) fn lost_among(&self, lpns: core::ops::Range<u32>) -> impl Iterator<Item = u32> + '_ {
        self.lost.range(lpns).copied()
    }
}
