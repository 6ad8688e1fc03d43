//! A mapping table on flash with a cache for the entries in use: the common part of DFTL and the schemes
//! after it.
//!
//! It consists of the table ([`crate::ftl::table`]), the cache ([`crate::ftl::cmt`]), and *untold* entries:
//! dirty ones for which the cache has no room. There are untold entries while a block is collected, after a
//! group, and after a mount that followed a cut.
//!
//! Invariants
//! - D1: a clean entry equals that of the table.
//! - D2: no logical page is both cached and untold.

use crate::bits::{self, WORD_BITS, Word};
use crate::check::{CheckReport, Invariant, message};
use crate::codec::{get_u16, get_u32};
use crate::fault::StoreFault;
use crate::ftl::cmt::{Cmt, Run};
use crate::ftl::mapping::{Flash, Live, Mounted};
use crate::ftl::table::{MapTable, NONE, entries_per_page};
use crate::ftl::untold::{self, Untold};
use crate::nand::{Cause, Geometry};
use crate::store::StoreError;
use crate::units::{Pbn, Ppn};
use alloc::vec::Vec;

/// Bytes of a dirty entry in a base: logical page u32, physical page u32, pages u16.
pub(crate) const ENCODED_BYTES: usize = 10;

/// Counters of a cache of entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Look-ups that the cache answered.
    pub hits: u64,
    /// Look-ups that the cache did not answer.
    pub misses: u64,
    /// Translation pages rewritten for a dirty entry that was evicted.
    pub evictions: u64,
    /// Translation pages rewritten because their entries had no room in the cache: mostly entries of moved
    /// pages.
    pub batch_updates: u64,
    /// Victims that held translation pages.
    pub table_victims: u64,
}

/// Table and its cache.
#[derive(Debug)]
pub struct CachedTable {
    /// Table on the chip.
    pub table: MapTable,
    /// Entries in RAM.
    pub cmt: Cmt,
    /// Entries newer than the table on the chip, and not in the cache.
    pub untold: Untold,
    /// Hits, misses and their costs.
    pub counters: CacheCounters,
}

impl CachedTable {
    /// Opens the table with the state that a mount found. The table is not used for logical pages that are
    /// `elsewhere`. If it `has_runs`, an entry may be a run of pages.
    pub fn open(
        flash: &mut Flash<'_>,
        mounted: &mut Mounted,
        entries: u32,
        (has_runs, elsewhere): (bool, impl Fn(&Flash<'_>, u32) -> bool),
    ) -> Result<CachedTable, StoreFault> {
        if entries < 2 || entries > flash.geometry().pages().max(2) {
            let what = "the size of the cached mapping table makes no sense";
            return Err(StoreFault::corrupted(what, entries));
        }
        if flash.state.is_counted() {
            return CachedTable::open_told(flash, mounted, entries as usize);
        }
        let mut table = MapTable::open(flash, &mut mounted.live)?;
        let mut untold = Untold::new(untold_planned(flash.geometry(), entries as usize));
        if !mounted.is_clean && !has_runs {
            table.differences(
                flash,
                &mounted.live,
                &mut |_: &Flash<'_>, lpn, ppn: Option<Ppn>| match ppn {
                    Some(ppn) => untold.insert(lpn, ppn.0),
                    None if !untold.has(lpn) => untold.insert(lpn, NONE),
                    None => {}
                },
            )?;
            mounted.live = Vec::new();
        }
        let (cmt, counters) = (Cmt::new(entries as usize), CacheCounters::default());
        let mut cached = CachedTable { table, cmt, untold, counters };
        if mounted.is_clean {
            cached.adopt_dirty(flash, &mounted.extra)?;
        } else if has_runs {
            cached.adopt_runs(flash, &mounted.live, elsewhere)?;
        }
        Ok(cached)
    }

    /// Finds the entries that the table lacks after a cut; they may be runs of very many pages. They were
    /// dirty entries in the cache before the cut, and are again. Takes a bit of RAM for each logical page.
    fn adopt_runs(
        &mut self,
        flash: &mut Flash<'_>,
        live: &[Live],
        elsewhere: impl Fn(&Flash<'_>, u32) -> bool,
    ) -> Result<(), StoreFault> {
        let mut nowhere: Vec<Word> = Vec::new();
        let words = (flash.page_count() as usize).div_ceil(WORD_BITS);
        let what = "there is too little RAM to compare the mapping table with the chip";
        nowhere.try_reserve_exact(words).map_err(|_| StoreError::Unsupported(what.into()))?;
        nowhere.resize(words, 0);
        let per_page = entries_per_page(flash.geometry());
        let CachedTable { table, cmt, untold, .. } = self;
        table.differences(flash, live, &mut |flash: &Flash<'_>, lpn, ppn: Option<Ppn>| {
            let is_known = cmt.get(lpn).is_some() || untold.has(lpn);
            if is_known || elsewhere(flash, lpn) {
                return;
            }
            let (word, bit) = bits::place(lpn as usize);
            let Some(ppn) = ppn else {
                nowhere[word] |= bit;
                return;
            };
            nowhere[word] &= !bit;
            if lpn % per_page == 0 || !cmt.extend(lpn, ppn.0) {
                admit_dirty(cmt, untold, (lpn, ppn.0));
            }
        })?;
        for lpn in (0..flash.page_count()).filter(|&lpn| bits::is_set(&nowhere, lpn as usize)) {
            admit_dirty(cmt, untold, (lpn, NONE));
        }
        Ok(())
    }

    /// Bytes of RAM besides the entries, for comparing the table with the chip in a scheme with runs.
    pub fn compared_bytes(&self) -> usize {
        (self.table.range(self.table.pages() - 1).end as usize).div_ceil(64) * 8
    }

    fn adopt_dirty(&mut self, flash: &Flash<'_>, extra: &[u8]) -> Result<(), StoreFault> {
        for entry in extra.chunks(ENCODED_BYTES) {
            let is_whole = entry.len() == ENCODED_BYTES && !self.cmt.is_full();
            let run = match is_whole {
                true => Run { lpn: get_u32(entry, 0), ppn: get_u32(entry, 4), count: get_u16(entry, 8) },
                false => Run { lpn: NONE, ppn: NONE, count: 0 },
            };
            if !self.is_sound(flash, run) {
                let what = "a cached entry in a base makes no sense";
                return Err(StoreFault::corrupted(what, run.lpn));
            }
            self.cmt.insert(run, true);
        }
        Ok(())
    }

    fn is_sound(&self, flash: &Flash<'_>, run: Run) -> bool {
        let count = u32::from(run.count);
        let in_table = run.lpn < flash.page_count() && {
            let lpns = self.table.range(self.table.page_of(run.lpn));
            count > 0 && count <= lpns.end - run.lpn
        };
        let on_chip = match run.ppn {
            NONE => count == 1,
            ppn => ppn.checked_add(count).is_some_and(|end| end <= flash.geometry().pages()),
        };
        let holds =
            |(lpn, ppn): (u32, u32)| (ppn == NONE || flash.is_valid(Ppn(ppn))) && self.cmt.get(lpn).is_none();
        in_table && on_chip && run.pages().all(holds)
    }

    /// Encodes the dirty entries for a clean base, when there are no untold ones. If valid pages are counted,
    /// it encodes the map, for any record.
    pub fn encode(&self) -> Vec<u8> {
        if self.is_told() { self.encode_told() } else { encode(&self.cmt) }
    }

    /// Entry of a logical page, if it is in RAM.
    pub fn known(&self, lpn: u32) -> Option<u32> {
        self.cmt.get(lpn).or_else(|| self.untold.get(lpn))
    }

    /// Entry of a logical page that is used now, if it is in RAM.
    pub fn touch(&mut self, lpn: u32) -> Option<u32> {
        self.cmt.touch(lpn).or_else(|| self.untold.get(lpn))
    }

    /// Changes the place of a logical page: in its cached entry, or else in an untold entry.
    pub fn update(&mut self, lpn: u32, ppn: u32) {
        if self.cmt.set(lpn, ppn) {
            return;
        }
        let was_cached = self.cmt.get(lpn).is_some();
        self.forget(lpn);
        if was_cached && !self.cmt.is_full() {
            self.cmt.insert(Run { lpn, ppn, count: 1 }, true);
        } else {
            self.untold.insert(lpn, ppn);
        }
    }

    /// Admits an entry to the cache if there is room. It may extend the run before it if `may_extend`.
    pub fn admit(&mut self, lpn: u32, ppn: u32, may_extend: bool) {
        if self.cmt.set(lpn, ppn) {
            return;
        }
        self.forget(lpn);
        if may_extend && self.cmt.extend(lpn, ppn) {
            return;
        }
        admit_dirty(&mut self.cmt, &mut self.untold, (lpn, ppn));
    }

    /// Drops the entry of a logical page.
    pub fn forget(&mut self, lpn: u32) {
        self.untold.remove(lpn);
        let without_room = self.cmt.carve(lpn);
        for (lpn, ppn) in without_room.into_iter().flat_map(Run::pages) {
            self.untold.insert(lpn, ppn);
        }
    }

    /// Rewrites a translation page with the newest entries.
    pub fn rewrite(&mut self, flash: &mut Flash<'_>, page: u32) -> Result<(), StoreFault> {
        self.load_known(flash, page)?;
        let lpns = self.table.range(page);
        self.table.save(flash, page)?;
        self.cmt.cleaned(lpns.clone());
        self.untold.told(lpns);
        Ok(())
    }

    /// Rewrites the translation pages of untold entries, at most `pages_max` pages.
    pub(crate) fn tell(&mut self, flash: &mut Flash<'_>, pages_max: u32) -> Result<(), StoreFault> {
        for _ in 0..pages_max {
            let Some(lpn) = self.untold.first() else { break };
            self.rewrite(flash, self.table.page_of(lpn))?;
            self.counters.batch_updates += 1;
        }
        Ok(())
    }

    /// Evicts the next entry. If it is dirty, its translation page is rewritten first.
    pub fn evict(&mut self, flash: &mut Flash<'_>) -> Result<(), StoreFault> {
        let Some((lpn, is_dirty)) = self.cmt.victim() else { return Ok(()) };
        if is_dirty {
            self.rewrite(flash, self.table.page_of(lpn))?;
            self.counters.evictions += 1;
        }
        self.cmt.remove(lpn);
        Ok(())
    }

    /// Moves translation pages out of a block, and frees it.
    pub fn collect(&mut self, flash: &mut Flash<'_>, victim: Pbn) -> Result<(), StoreFault> {
        self.table.move_out(flash, victim)?;
        flash.free(victim, Cause::Mapping, || self.encode())
    }

    /// Drops a valid page that cannot be read. The whole table is searched for its logical page, which is
    /// then lost.
    pub fn lose(
        &mut self,
        flash: &mut Flash<'_>,
        ppn: Ppn,
        elsewhere: impl Fn(&Flash<'_>, u32) -> bool,
    ) -> Result<(), StoreFault> {
        for page in 0..self.table.pages() {
            self.table.load(flash, page, Cause::Mapping)?;
            let is_it = |lpn: &u32| match self.known(*lpn) {
                Some(known) => known == ppn.0,
                None => self.table.get(flash, *lpn) == Some(ppn) && !elsewhere(flash, *lpn),
            };
            let Some(lpn) = self.table.range(page).find(is_it) else { continue };
            flash.lose(ppn, lpn);
            self.update(lpn, NONE);
            return Ok(());
        }
        Err(StoreFault::corrupted("a valid page belongs to no logical page", ppn.0))
    }

    /// Bytes of RAM of the mapping: directory, cache and untold entries.
    pub fn mapping_bytes(&self) -> usize {
        let untold = self.untold.len() * untold::ENTRY_BYTES;
        self.table.directory_bytes() + self.cmt.ram_bytes() + untold
    }

    /// Upper bound of the bytes of [`mapping_bytes`](Self::mapping_bytes), without untold entries beyond the
    /// plan, which a power cut may leave.
    pub fn mapping_bytes_max(&self) -> usize {
        self.table.directory_bytes() + self.cmt.ram_bytes_max() + self.untold.ram_bytes()
    }

    /// Checks D1, D2 and the table. Returns the number of the table's pages.
    pub fn check(&self, flash: &mut Flash<'_>, report: &mut CheckReport) -> Result<u32, StoreFault> {
        for lpn in self.untold.lpns().filter(|&lpn| self.cmt.get(lpn).is_some()) {
            report.violation(Invariant::D2, u64::from(lpn), message!("lpn {lpn} is cached and untold"));
        }
        for page in 0..self.table.pages() {
            let lpns = self.table.range(page);
            let runs = self.cmt.runs(lpns.clone());
            let clean: Vec<Run> = runs.filter(|(_, dirty)| !dirty).map(|(run, _)| run).collect();
            if clean.is_empty() {
                continue;
            }
            let bytes = self.table.peek(flash, page)?;
            for (lpn, ppn) in clean.into_iter().flat_map(Run::pages) {
                let told = get_u32(&bytes, (lpn - lpns.start) as usize * 4);
                if told != ppn {
                    let found = message!("lpn {lpn}: {ppn} cached, {told} told");
                    report.violation(Invariant::D1, u64::from(lpn), found);
                }
            }
        }
        if self.is_told() {
            self.check_counts(flash, report)?;
        }
        Ok(self.table.check(flash, report))
    }
}

/// Adds a dirty entry for one page, to the cache if there is room, else to the untold ones.
pub(crate) fn admit_dirty(cmt: &mut Cmt, untold: &mut Untold, (lpn, ppn): (u32, u32)) {
    if cmt.is_full() {
        untold.insert(lpn, ppn);
    } else {
        cmt.insert(Run { lpn, ppn, count: 1 }, true);
    }
}

/// Planned number of untold entries: a write and a collection leave at most two blocks' worth, and a cut
/// leaves the entries that were dirty, at most two blocks' worth again.
pub(crate) fn untold_planned(geometry: Geometry, entries: usize) -> usize {
    let two_blocks = 2 * geometry.pages_per_block as usize;
    two_blocks + entries.min(two_blocks)
}

fn encode(cmt: &Cmt) -> Vec<u8> {
    let dirty = || cmt.runs(0..NONE).filter(|(_, dirty)| *dirty);
    let mut bytes = Vec::with_capacity(dirty().count() * ENCODED_BYTES);
    for (run, _) in dirty() {
        bytes.extend(run.lpn.to_le_bytes());
        bytes.extend(run.ppn.to_le_bytes());
        bytes.extend(run.count.to_le_bytes());
    }
    bytes
}
