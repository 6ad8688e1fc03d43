//! Mapping table with cached entries in a store that counts valid pages by block: the map tells which pages
//! of a block are valid, and every record tells the map ([`crate::ftl::mapping::Told`]).

use crate::bits;
use crate::check::{CheckReport, Invariant, message};
use crate::codec::get_u32;
use crate::fault::StoreFault;
use crate::ftl::cached::{CacheCounters, CachedTable, admit_dirty, untold_planned};
use crate::ftl::cmt::Cmt;
use crate::ftl::mapping::{Flash, Live, Mounted, Told, entries_per_page};
use crate::ftl::table::{MapTable, NONE, from_raw};
use crate::ftl::untold::Untold;
use crate::nand::{Cause, Geometry};
use crate::sort;
use crate::units::{Pbn, Ppn};
use alloc::vec;
use alloc::vec::Vec;

/// Number of marks, one bit for several blocks each. By the marks most pages of other blocks are skipped.
const MARKS: usize = 512;

/// Largest number of bytes of the map in a record, on a chip with `good_blocks` good blocks. Entries outside
/// the table are those in the cache, untold ones (at most two blocks' worth), and those of a victim.
pub(super) fn told_bytes_max(geometry: Geometry, good_blocks: u32, entries: u32) -> usize {
    let pages = (good_blocks * geometry.pages_per_block).div_ceil(entries_per_page(geometry));
    Told::bytes(pages as usize, entries as usize + 3 * geometry.pages_per_block as usize)
}

impl CachedTable {
    /// True if every record tells the map.
    pub(super) fn is_told(&self) -> bool {
        cfg!(feature = "full") && self.untold.in_records
    }

    /// Opens the table after a mount that counted valid pages.
    pub(super) fn open_told(
        flash: &mut Flash<'_>,
        mounted: &mut Mounted,
        entries: usize,
    ) -> Result<CachedTable, StoreFault> {
        let geometry = flash.geometry();
        if flash.setup()[3] as usize > told_bytes_max(geometry, geometry.blocks, entries as u32) {
            let what = "the size of the map in records makes no sense";
            return Err(StoreFault::corrupted(what, flash.setup()[3]));
        }
        let mut rewritten = bits::clear(flash.page_count().div_ceil(entries_per_page(geometry)) as usize);
        for page in mounted.live.iter().filter(|page| page.is_map() && page.is_new()) {
            bits::set(&mut rewritten, page.number() as usize);
        }
        let table = MapTable::open(flash, &mut mounted.live)?;
        let mut untold = Untold::new(untold_planned(geometry, entries));
        untold.in_records = true;
        let (cmt, counters) = (Cmt::new(2), CacheCounters::default());
        let mut cached = CachedTable { table, cmt, untold, counters };
        // A store without a record is new.
        if !mounted.extra.is_empty() && !mounted.is_clean {
            let is_rewritten = |page: u32| bits::is_set(&rewritten, page as usize);
            cached.adopt_told(flash, (&mounted.extra, &mut mounted.live), is_rewritten)?;
        }
        mounted.live = Vec::new();
        cached.cmt = Cmt::new(entries);
        if !mounted.extra.is_empty() && mounted.is_clean {
            let CachedTable { cmt, untold, .. } = &mut cached;
            for entry in flash.told(&mounted.extra)?.entries() {
                if cmt.get(entry.0).is_none() {
                    admit_dirty(cmt, untold, entry);
                }
            }
        }
        mounted.extra = Vec::new();
        Ok(cached)
    }

    /// Finds the untold entries after a cut: those that the table lacks.
    fn adopt_told(
        &mut self,
        flash: &mut Flash<'_>,
        (own, live): (&[u8], &mut [Live]),
        is_rewritten: impl Fn(u32) -> bool,
    ) -> Result<(), StoreFault> {
        let told = flash.told(own)?;
        sort::unstable_by_key(live, |page| page.number());
        for page in 0..told.pages() {
            let lpns = self.table.range(page);
            let first = live.partition_point(|found| found.number() < lpns.start);
            let end = live.partition_point(|found| found.number() < lpns.end);
            let found = &live[first..end];
            let lost: Vec<u32> = flash.lost_among(lpns).collect();
            let dirty = || told.entries_of(page).filter(|_| !is_rewritten(page));
            if found.is_empty() && lost.is_empty() && dirty().next().is_none() {
                continue;
            }
            self.table.load(flash, page, Cause::Recovery)?;
            for (lpn, ppn) in dirty().chain(found.iter().map(|found| (found.number(), found.ppn().0))) {
                self.untold.insert(lpn, ppn);
            }
            for lpn in lost {
                self.untold.insert(lpn, NONE);
            }
            // Entries that the table has as well need not be untold.
            let (table, flash) = (&self.table, &*flash);
            self.untold.retain(self.table.range(page), |lpn, ppn| table.get(flash, lpn) != from_raw(ppn));
        }
        Ok(())
    }

    /// Encodes the map for a record.
    pub(super) fn encode_told(&self) -> Vec<u8> {
        let (places, untold) = (self.table.places(), self.untold.of(0..NONE));
        let dirty = || self.cmt.dirty(0..NONE);
        let mut bytes = Vec::with_capacity(Told::bytes(places.len(), dirty().count() + untold.len()));
        Told::put(&mut bytes, places, dirty().chain(untold.iter().copied()));
        bytes
    }

    /// Finds out which pages of a victim are valid. The whole table is read for that, which tells the same
    /// about the likeliest next victims.
    pub(super) fn know_pages(&mut self, flash: &mut Flash<'_>, victim: Pbn) -> Result<(), StoreFault> {
        if flash.blocks().knows_pages_of(victim) {
            return Ok(());
        }
        flash.blocks_mut().ask_about(victim);
        let answered = self.note_valid(flash);
        flash.blocks_mut().end_asking(answered.is_ok());
        answered
    }

    /// Notes each page that the map names in a block that is asked about.
    fn note_valid(&mut self, flash: &mut Flash<'_>) -> Result<(), StoreFault> {
        let geometry = flash.geometry();
        let mut marks = [0u32; MARKS / 32];
        let mark_of = |pbn: Pbn| (pbn.index() % MARKS / 32, 1 << (pbn.0 % 32));
        for pbn in (0..geometry.blocks).map(Pbn).filter(|&pbn| flash.blocks().is_asked_about(pbn)) {
            let (word, bit) = mark_of(pbn);
            marks[word] |= bit;
        }
        let note = |flash: &mut Flash<'_>, ppn: Ppn| {
            let (word, bit) = mark_of(geometry.block_of(ppn));
            if marks[word] & bit != 0 {
                flash.blocks_mut().note_valid(ppn);
            }
        };
        for page in 0..self.table.pages() {
            if let Some(&place) = self.table.places().get(page as usize).filter(|&&place| place != NONE) {
                note(flash, Ppn(place));
            }
            self.load_known(flash, page)?;
            for lpn in self.table.range(page) {
                if let Some(ppn) = self.table.get(flash, lpn) {
                    note(flash, ppn);
                }
            }
        }
        Ok(())
    }

    /// Loads a page of the table into the buffer, and applies the newer entries in RAM.
    pub(super) fn load_known(&mut self, flash: &mut Flash<'_>, page: u32) -> Result<(), StoreFault> {
        self.table.load(flash, page, Cause::Mapping)?;
        let lpns = self.table.range(page);
        for (lpn, ppn) in self.cmt.dirty(lpns.clone()) {
            self.table.set(flash, lpn, from_raw(ppn));
        }
        for &(lpn, ppn) in self.untold.of(lpns) {
            self.table.set(flash, lpn, from_raw(ppn));
        }
        Ok(())
    }

    /// Checks T4: the number of valid pages of each block is the number that the map names.
    pub(super) fn check_counts(
        &self,
        flash: &mut Flash<'_>,
        report: &mut CheckReport,
    ) -> Result<(), StoreFault> {
        let geometry = flash.geometry();
        let mut counts = vec![0; geometry.blocks as usize];
        let mut count = |raw: u32| {
            if let Some(place) = from_raw(raw).and_then(|ppn| counts.get_mut(geometry.block_of(ppn).index()))
            {
                *place += 1;
            }
        };
        self.table.places().iter().for_each(|&place| count(place));
        for page in 0..self.table.pages() {
            let (bytes, lpns) = (self.table.peek(flash, page)?, self.table.range(page));
            for lpn in lpns.clone() {
                let told = || get_u32(&bytes, (lpn - lpns.start) as usize * 4);
                count(self.known(lpn).unwrap_or_else(told));
            }
        }
        for (pbn, count) in (0..).map(Pbn).zip(counts) {
            let counted = flash.blocks().valid_count(pbn);
            if counted != count {
                let found = message!("{pbn}: {counted} valid pages, {count} named");
                report.violation(Invariant::T4, u64::from(pbn.0), found);
            }
        }
        Ok(())
    }
}
