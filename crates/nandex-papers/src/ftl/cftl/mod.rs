//! A CFTL-like scheme: pages are mapped one by one while they are written, and by the block once they have
//! cooled.
//!
//! Source: Park, Debnath and Du, "CFTL: an adaptive hybrid flash translation layer with efficient caching
//! strategies", MASCOTS 2011 (poster at SIGMETRICS 2010), of which we know the abstracts only: **our
//! reading**, low confidence. From there: page mapping in flash for what is written, block mapping for what
//! is cold, a filter that tells them apart, conversion to block mapping while collecting garbage, conversion
//! back for nothing, and cached entries that speak for consecutive pages. The thresholds, and everything
//! about room, power cuts and trim, are ours.
//!
//! # State
//!
//! - The page map on flash with its cache, the *CPMT* (`ftl::cached`), whose entries are runs: one entry for
//!   pages in sequence that lie in sequence. No run reaches beyond its translation page.
//! - The block map: for a logical block, the *data block* that holds pages of it, each in its place. The
//!   original caches this map (CBMT); here it is in RAM whole, 8 bytes for each logical block.
//! - The filter ([`nandex::blocks::hot`]), which counts the host's writes.
//! - Two frontiers: one for data, whether written or moved, one for translation pages.
//!
//! A page is *in place* when it is valid in the data block of its logical block. The page map does not matter
//! for it then and may say anything; the CPMT has no entry for it.
//!
//! # Operations
//!
//! - *Read*: the CPMT; else in place; else the translation page is read, and the run around the page is
//!   cached.
//! - *Write*: program at the frontier; the entry goes to the CPMT, dirty, and lengthens the run before it
//!   where it can. A page that was in place is not any more: that is all the conversion back takes.
//! - *Evict, collect*: as in [`nandex::ftl::dftl`]. What is moved out of a data block is mapped page by page
//!   from then on.
//! - *Convert*: of each data victim, the logical block with most cold pages moved is noted. When there is
//!   room again, and of that logical block at least 90 % of the pages of a block exist and are cold, all its
//!   pages are gathered in a new data block, and their entries dropped.
//!
//! # Invariants
//!
//! - B1: a data block in the block map holds pages of its logical block only, each in its place.
//! - B2: no page in place has an entry in the CPMT, or untold.
//! - D1, D2 as in `ftl::cached`.
//!
//! # Why collection always makes progress
//!
//! As in [`nandex::ftl::dftl`]: a conversion starts with 5 free blocks like a write, takes one for data as a
//! write does, and there is one for each write at most. A data block with pages missing counts as one with
//! invalid pages.
//!
//! # Recovery
//!
//! As in [`nandex::ftl::dftl`]. The block map follows from what blocks are used for, which a base says, and
//! after a cut the kind of their pages. If a cut left two data blocks of a logical block, the one with more
//! pages stays one.

mod place;

use crate::ftl::block_map::BlockMap;
use alloc::vec::Vec;
use nandex::blocks::hot::{HotConfig, HotFilter};
use nandex::blocks::spare::PageKind;
use nandex::blocks::victim::VictimPolicy;
use nandex::blocks::{BlockState, Validity, Wear};
use nandex::check::CheckReport;
use nandex::fault::StoreFault;
use nandex::ftl::cached::CachedTable;
use nandex::ftl::cmt::Run;
use nandex::ftl::collecting::{self, Collecting, Room};
use nandex::ftl::mapping::{Flash, FlashConfig, HostPage, Mounted, Rules, Scheme, SchemeFtl};
use nandex::ftl::table::{Frontier, from_raw, to_raw};
use nandex::nand::{Cause, Geometry};
use nandex::units::{Lbn, Lpn, Pbn, Ppn};

/// Cached entries that one write may add: its own, and the end of a run that it divides.
const ENTRIES_PER_WRITE: usize = 2;

/// A CFTL-like translation layer: cold logical blocks are converted from page mapping to block mapping.
pub type CftlFtl<N> = SchemeFtl<N, Cftl>;

/// The settings of CFTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CftlConfig {
    /// The settings that every mapping scheme has.
    pub common: FlashConfig,
    /// Bytes of RAM for cached entries, [`nandex::ftl::dftl::ENTRY_BYTES`] for each; at least 4 entries.
    /// `None` means as much as DFTL takes. Fixed at format.
    pub cache_bytes: Option<u32>,
    /// The rule that picks the block to collect.
    pub victim: VictimPolicy,
    /// Settings of the filter that tells hot pages from cold ones.
    pub hot: HotConfig,
    /// Percentage of the pages of a logical block that must exist and be cold before it is converted. Above
    /// 100, no logical block is ever converted.
    pub convert_percent: u32,
}

impl Default for CftlConfig {
    fn default() -> CftlConfig {
        CftlConfig {
            common: FlashConfig::default(),
            cache_bytes: None,
            victim: VictimPolicy::default(),
            hot: HotConfig { threshold: 2, ..HotConfig::DEFAULT },
            convert_percent: 90,
        }
    }
}

/// Counters of CFTL besides [`nandex::ftl::mapping::FlashCounters`] and those of its cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CftlCounters {
    /// Look-ups that the block map answered.
    pub in_place: u64,
    /// Logical blocks converted to block mapping.
    pub conversions: u64,
    /// Data blocks whose pages are mapped one by one again because they were collected.
    pub dissolved_blocks: u64,
}

/// The tables of CFTL.
#[derive(Debug)]
pub struct Cftl {
    cached: CachedTable,
    in_place: BlockMap,
    data: Frontier,
    hot: HotFilter,
    /// The logical block that a later write may convert to block mapping.
    candidate: Option<Lbn>,
    room: Room,
    convert_percent: u32,
    /// Counters since format or mount.
    pub counters: CftlCounters,
}

impl Scheme for Cftl {
    type Config = CftlConfig;

    const RULES: Rules = Rules { has_owners: true, record_percent: 125, ..Rules::of(*b"CFTL") };

    fn common(settings: &CftlConfig) -> FlashConfig {
        settings.common
    }

    fn require_built(settings: &CftlConfig) -> Result<(), StoreFault> {
        settings.victim.require_built()?;
        settings.common.wear_levelling.require_built()
    }

    fn setup(settings: &CftlConfig, geometry: Geometry, good_blocks: u32) -> [u32; 4] {
        collecting::setup((settings.cache_bytes, Validity::Bits), 4, geometry, good_blocks)
    }

    fn blocks_needed(setup: [u32; 4]) -> u32 {
        collecting::blocks_needed(setup)
    }

    fn blocks_per_write(_: [u32; 4]) -> u32 {
        1
    }

    fn extra_bytes_max(setup: [u32; 4]) -> usize {
        collecting::extra_bytes_max(setup)
    }

    fn open(flash: &mut Flash<'_>, settings: &CftlConfig, mut mounted: Mounted) -> Result<Cftl, StoreFault> {
        let (g, setup) = (flash.geometry(), flash.setup());
        flash.blocks_mut().follow(settings.victim);
        let in_place = place::block_map(flash, &mounted)?;
        let elsewhere = |flash: &Flash<'_>, lpn: u32| in_place.find(flash, lpn).is_some();
        let cached = CachedTable::open(flash, &mut mounted, setup[0], (true, elsewhere))?;
        let mut data = Frontier::new(PageKind::Host, Wear::Least);
        data.resume(flash);
        Ok(Cftl {
            cached,
            in_place,
            data,
            hot: HotFilter::new(settings.hot),
            candidate: None,
            room: Room::new(g, setup, settings.victim),
            convert_percent: settings.convert_percent,
            counters: CftlCounters::default(),
        })
    }

    fn locate(&mut self, flash: &mut Flash<'_>, lpn: u32, cause: Cause) -> Result<Option<Ppn>, StoreFault> {
        if cause == Cause::Check {
            return self.find(flash, lpn, cause);
        }
        if let Some(found) = self.in_ram(flash, lpn) {
            return Ok(found);
        }
        self.cached.counters.misses += 1;
        match self.reserve(flash, 1) {
            Ok(()) => {}
            Err(error) if error.is_full() => return self.find(flash, lpn, cause),
            Err(error) => return Err(error),
        }
        // Making room may have moved the page.
        if self.cached.known(lpn).is_some() || self.in_place.find(flash, lpn).is_some() {
            return self.find(flash, lpn, cause);
        }
        let ppn = self.cached.table.entry(flash, lpn, cause)?;
        self.cache_run(flash, lpn, ppn);
        Ok(ppn)
    }

    fn write(&mut self, flash: &mut Flash<'_>, host: HostPage<'_>) -> Result<(), StoreFault> {
        self.make_room(flash)?;
        self.convert_candidate(flash)?;
        self.reserve(flash, ENTRIES_PER_WRITE)?;
        let old = self.look_up(flash, host.lpn)?;
        let ppn = self.data.write(flash, PageKind::Host, host)?;
        self.supersede(flash, host.lpn, old, Some(ppn));
        self.hot.note_write(Lpn(host.lpn));
        Ok(())
    }

    const RENEWS: bool = true;

    fn renew(&mut self, flash: &mut Flash<'_>, lpn: u32) -> Result<(), StoreFault> {
        self.make_room(flash)?;
        let from = self.look_up(flash, lpn)?;
        self.move_weak(flash, lpn, from)
    }

    fn renew_map(&mut self, flash: &mut Flash<'_>, at: Ppn, page: u32) -> Result<(), StoreFault> {
        self.make_room(flash)?;
        if self.cached.table.is_at(page, at) { self.cached.rewrite(flash, page) } else { Ok(()) }
    }

    fn trim(&mut self, flash: &mut Flash<'_>, lpn: u32) -> Result<Option<Ppn>, StoreFault> {
        self.reserve(flash, ENTRIES_PER_WRITE)?;
        let old = self.look_up(flash, lpn)?;
        if old.is_some() {
            self.supersede(flash, lpn, old, None);
        }
        Ok(old)
    }

    fn evacuate(&mut self, flash: &mut Flash<'_>, pbn: Pbn) -> Result<bool, StoreFault> {
        self.make_room(flash)?;
        if flash.blocks().state(pbn) != BlockState::Full || flash.blocks().valid_count(pbn) == 0 {
            return Ok(false);
        }
        let tag = flash.tag(pbn);
        let is_in_place = self.in_place.entry(Lbn(tag.owner)).is_some_and(|held| *held == Some(pbn));
        match tag.role {
            Some(PageKind::Map) => self.cached.collect(flash, pbn)?,
            Some(PageKind::Data) if is_in_place => {
                self.gather(flash, Lbn(tag.owner))?;
            }
            _ => {
                self.level(flash, pbn)?;
            }
        }
        Ok(true)
    }

    fn settle(&mut self, flash: &mut Flash<'_>) -> Result<(), StoreFault> {
        self.tell_all(flash)
    }

    fn encode(&self) -> Vec<u8> {
        self.cached.encode()
    }

    fn atomic_pages_max(&self) -> usize {
        self.room.block_pages as usize
    }

    fn write_group(
        &mut self,
        flash: &mut Flash<'_>,
        pages: &[(Lpn, &[u8])],
        cause: Cause,
    ) -> Result<(), StoreFault> {
        self.make_room(flash)?;
        self.convert_candidate(flash)?;
        let mut old = Vec::with_capacity(pages.len());
        for (lpn, _) in pages {
            old.push(to_raw(self.look_up(flash, lpn.0)?));
        }
        let new = self.data.write_group(flash, pages, cause)?;
        for (i, (lpn, _)) in pages.iter().enumerate() {
            // There may be no room for it in the cache; then it is untold until the next write.
            self.supersede(flash, lpn.0, from_raw(old[i]), Some(new[i]));
            self.hot.note_write(*lpn);
        }
        Ok(())
    }

    fn mapping_bytes(&self) -> usize {
        self.cached.mapping_bytes() + self.in_place.ram_bytes()
    }

    fn mapping_bytes_max(&self, _: Geometry) -> usize {
        self.cached.mapping_bytes_max() + self.in_place.ram_bytes()
    }

    fn known_pages_max(&self) -> usize {
        self.cached.table.pages() as usize
    }

    fn mount_bytes(&self, geometry: Geometry, pages: usize, scan: usize) -> usize {
        let tables = self.mapping_bytes_max(geometry) + self.other_bytes();
        pages + scan.max(tables + self.cached.table.compared_bytes())
    }

    fn other_bytes(&self) -> usize {
        self.cached.compared_bytes() + self.hot.ram_bytes() + self.room.lists_bytes()
    }

    fn cache_counts(&self) -> (u64, u64) {
        (self.cached.counters.hits + self.counters.in_place, self.cached.counters.misses)
    }

    fn check(&self, flash: &mut Flash<'_>, report: &mut CheckReport) -> Result<u32, StoreFault> {
        self.check_places(flash, report);
        self.cached.check(flash, report)
    }
}

/// Methods that use the maps.
impl Cftl {
    /// The table with its cache, for measurements.
    pub fn cache(&self) -> &CachedTable {
        &self.cached
    }

    /// Number of logical blocks that have a data block.
    pub fn blocks_in_place(&self) -> usize {
        self.in_place.iter().count()
    }

    /// Looks a page up in the cache and the block map only. `None` means that neither knows it.
    fn in_ram(&mut self, flash: &Flash<'_>, lpn: u32) -> Option<Option<Ppn>> {
        if let Some(ppn) = self.cached.touch(lpn) {
            self.cached.counters.hits += 1;
            return Some(from_raw(ppn));
        }
        let ppn = self.in_place.find(flash, lpn)?;
        self.counters.in_place += 1;
        Some(Some(ppn))
    }

    /// The physical page of any logical page, without a trace in the cache.
    fn find(&mut self, flash: &mut Flash<'_>, lpn: u32, cause: Cause) -> Result<Option<Ppn>, StoreFault> {
        if let Some(ppn) = self.cached.known(lpn) {
            return Ok(from_raw(ppn));
        }
        match self.in_place.find(flash, lpn) {
            Some(ppn) => Ok(Some(ppn)),
            None => self.cached.table.entry(flash, lpn, cause),
        }
    }

    /// Finds the copy of a page that is about to be superseded.
    fn look_up(&mut self, flash: &mut Flash<'_>, lpn: u32) -> Result<Option<Ppn>, StoreFault> {
        if let Some(found) = self.in_ram(flash, lpn) {
            return Ok(found);
        }
        self.cached.counters.misses += 1;
        self.cached.table.entry(flash, lpn, Cause::Mapping)
    }

    /// Caches the run around a logical page. The caller has loaded its translation page.
    fn cache_run(&mut self, flash: &Flash<'_>, lpn: u32, ppn: Option<Ppn>) {
        let mut run = Run { lpn, ppn: to_raw(ppn), count: 1 };
        if let Some(ppn) = ppn {
            let table = &self.cached.table;
            let lpns = table.range(table.page_of(lpn));
            let follows = |other: u32, place: u32| {
                table.get(flash, other) == Some(Ppn(place))
                    && self.cached.known(other).is_none()
                    && self.in_place.find(flash, other).is_none()
            };
            while run.lpn > lpns.start && run.ppn > 0 && follows(run.lpn - 1, run.ppn - 1) {
                (run.lpn, run.ppn, run.count) = (run.lpn - 1, run.ppn - 1, run.count + 1);
            }
            for next in lpn + 1..lpns.end {
                if !follows(next, ppn.0 + (next - lpn)) {
                    break;
                }
                run.count += 1;
            }
        }
        self.cached.cmt.insert(run, false);
    }

    fn supersede(&mut self, flash: &mut Flash<'_>, lpn: u32, old: Option<Ppn>, new: Option<Ppn>) {
        if let Some(old) = old {
            flash.invalidate(old);
        }
        let ppn = to_raw(new);
        let is_first = self.cached.table.range(self.cached.table.page_of(lpn)).start == lpn;
        self.cached.admit(lpn, ppn, new.is_some() && !is_first);
    }
}

/// Methods that make room.
impl Cftl {
    /// Evicts until `entries` more entries fit in the cache.
    fn reserve(&mut self, flash: &mut Flash<'_>, entries: usize) -> Result<(), StoreFault> {
        while !self.cached.cmt.has_room(entries) {
            if self.cached.cmt.victim().is_some_and(|(_, is_dirty)| is_dirty) {
                flash.begin(|| self.cached.encode())?;
                self.make_room(flash)?;
            }
            self.cached.evict(flash)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
