//! LazyFTL: page mapping whose table on flash is told late, by turning whole blocks of updates into data
//! blocks.
//!
//! Source: Ma, Feng and Li, "LazyFTL: a page-level flash translation layer optimized for NAND flash memory",
//! SIGMOD 2011, known to us by its abstract and by detailed notes of others. Data path: medium confidence.
//! The quota, groups, trim and recovery are ours.
//!
//! # State
//!
//! - Four areas. DBA: data blocks. MBA: pages of the table (`ftl::table`), the *GMT*, found by the *GMD*, its
//!   directory in RAM. UBA: update blocks, which the host's writes fill. CBA: cold blocks, filled with what
//!   is moved out of data blocks. UBA and CBA together have a quota; one block of each is open.
//! - The *UMT* (`umt`), in RAM: each logical page whose newest copy is in UBA or CBA, and where. *Update
//!   flag*: the GMT does not say so yet. *Invalidate flag*: the older copy that the GMT names still counts as
//!   valid.
//! - A cache of pages of the GMT (`gmt`).
//!
//! # Operations
//!
//! - *Read*: the UMT, else the GMT.
//! - *Write*: program in the open update block. Was the page in the UMT, that copy is invalid and its
//!   invalidate flag is inherited; else the flag is set, since finding the older copy would take a look at
//!   the GMT.
//! - *Convert*, when UBA and CBA are at their quota: of their full blocks, the one whose pages with update
//!   flag belong to the fewest pages of the GMT. Each such page is rewritten with all entries of the UMT that
//!   belong there and have the flag, also those of other blocks; the older copies it names become invalid
//!   where the invalidate flag is set. The block is a data block now, without a copy, and its pages leave the
//!   UMT.
//! - *Collect*, while fewer than 4 blocks are free, those of the next base apart: the block of DBA or MBA
//!   with the fewest pages that count as valid. Of a data block, a page that is in the UMT has been
//!   superseded: it is dropped and its invalidate flag cleared. Any other moves to the open cold block, and
//!   into the UMT with the update flag.
//! - *Trim*: looks at the GMT and invalidates all copies; the UMT keeps a tombstone until the GMT is told.
//!
//! # Invariants
//!
//! - L1: the page of an entry of the UMT is valid and in a block of UBA or CBA; a tombstone has the update
//!   flag only.
//! - L2: a page that counts as valid is in the GMT, the UMT, or both; if both, and they differ, the
//!   invalidate flag is set.
//! - L3: an entry without update flag equals that of the GMT.
//!
//! # Why collection always makes progress
//!
//! One block is free at least. A data victim takes one block at most and gives itself back, and so does one
//! of the table. Converting takes one, and is done while 3 are free, else the quota is overdrawn for a while.
//! A write starts with 4. When no block of DBA or MBA has an invalid page, all but the quota, two open blocks
//! and the table's blocks hold valid pages only, of which there are no more than logical pages: a page counts
//! as valid twice only if one copy is in UBA or CBA. 6 blocks beyond are planned for, so 4 are free then.
//!
//! # Recovery and deviations
//!
//! The original scans as many of the newest blocks as an age threshold allows, and takes the newest block for
//! the one with the newest copies. That is not so: the cheapest block is converted, not the oldest, and a
//! cold copy may be older or newer than an update. Here versions decide (as in [`nandex::ftl::mapping`]), and
//! there is no age threshold. A clean base holds the UMT. After a cut the whole table is read, and what it
//! says wrongly enters the UMT, which may take more RAM than planned until the next write. Reading a page to
//! be moved shows its spare area as well: there is no cheaper way here to learn whose it is.

mod gmt;
mod room;
mod umt;

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use gmt::Gmt;
use nandex::blocks::Wear;
use nandex::blocks::spare::PageKind;
use nandex::check::{CheckReport, Invariant, message, words};
use nandex::codec::get_u32;
use nandex::fault::StoreFault;
use nandex::ftl::mapping::{
    ChipPlan, Flash, FlashConfig, HostPage, Mounted, NOBODY, Rules, Scheme, SchemeFtl,
};
use nandex::ftl::table::{Frontier, MapTable, NONE, blocks_for, from_raw};
use nandex::nand::{Cause, Geometry};
use nandex::store::StoreError;
use nandex::units::{Lpn, Pbn, Ppn};
pub use umt::ENTRY_BYTES;
use umt::{ENCODED_BYTES, Entry, Umt};

/// Number of free blocks at which collection stops.
const FREE_BLOCKS: u32 = 4;

/// Fewest blocks of UBA and CBA together: two are open, and one can be converted.
const AREA_BLOCKS_MIN: u32 = 3;

/// Room of the UMT beyond the quota of UBA and CBA, in blocks: one for a group that runs over, and one for
/// as many tombstones as a block has pages.
const SPARE_BLOCKS: u32 = 2;

/// A LazyFTL translation layer: the table on flash is updated block by block.
pub type LazyFtl<N> = SchemeFtl<N, Lazy>;

/// Settings of LazyFTL. All but the victim policy are fixed at format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LazyConfig {
    /// The settings that every mapping scheme has.
    pub common: FlashConfig,
    /// Bytes of RAM for the UMT and the cache of the GMT. `None` means a quarter of a map of all pages in
    /// RAM, but at least what three blocks of UBA and CBA need.
    pub ram_bytes: Option<u32>,
    /// Blocks of UBA and CBA together, at least 3. `None` means as many as half of the RAM has entries for,
    /// but at most a sixteenth of the chip.
    pub area_blocks: Option<u32>,
}

/// Counters of LazyFTL besides [`nandex::ftl::mapping::FlashCounters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LazyCounters {
    /// Blocks of UBA and CBA turned into data blocks.
    pub conversions: u64,
    /// Pages of the GMT rewritten.
    pub updates: u64,
    /// Pages dropped because they were found superseded when their block was collected.
    pub dropped_pages: u64,
    /// Victims of collection that held pages of the GMT.
    pub table_victims: u64,
    /// Look-ups answered by the UMT.
    pub umt_hits: u64,
}

/// The tables of LazyFTL.
#[derive(Debug)]
pub struct Lazy {
    umt: Umt,
    gmt: Gmt,
    update: Frontier,
    cold: Frontier,
    area: BTreeSet<Pbn>,
    area_blocks: u32,
    /// Entries of the UMT at most that a base has room for.
    entries_max: usize,
    block_pages: u32,
    /// Free blocks kept for the next base.
    kept_blocks: u32,
    /// Counters since format or mount.
    pub counters: LazyCounters,
}

impl Scheme for Lazy {
    type Config = LazyConfig;

    const RULES: Rules =
        Rules { old_may_stay_valid: true, fills_in_order: true, record_percent: 200, ..Rules::of(*b"LAZY") };

    fn common(settings: &LazyConfig) -> FlashConfig {
        settings.common
    }

    fn setup(settings: &LazyConfig, geometry: Geometry, good_blocks: u32) -> [u32; 4] {
        let block_bytes = geometry.pages_per_block * ENTRY_BYTES as u32;
        let least = (AREA_BLOCKS_MIN + SPARE_BLOCKS) * block_bytes;
        let ram_bytes = settings.ram_bytes.unwrap_or(good_blocks * geometry.pages_per_block);
        let affordable = |bytes: u32| (bytes / block_bytes).saturating_sub(SPARE_BLOCKS);
        let wanted = settings.area_blocks.unwrap_or(affordable(ram_bytes / 2).min(good_blocks / 16));
        let most = affordable(ram_bytes).min(good_blocks / 4).max(AREA_BLOCKS_MIN);
        let area_blocks = wanted.clamp(AREA_BLOCKS_MIN, most);
        [area_blocks, blocks_for(geometry, good_blocks), ram_bytes.max(least), 0]
    }

    fn blocks_needed([area_blocks, table_blocks, ..]: [u32; 4]) -> u32 {
        area_blocks.saturating_add(table_blocks).saturating_add(FREE_BLOCKS + 2)
    }

    fn blocks_per_write(_: [u32; 4]) -> u32 {
        1
    }

    fn extra_bytes_max([.., ram_bytes, _]: [u32; 4]) -> usize {
        // The UMT may take all of the RAM, and is smaller in a base.
        ram_bytes as usize / ENTRY_BYTES * ENCODED_BYTES
    }

    fn open(flash: &mut Flash<'_>, _: &LazyConfig, mut mounted: Mounted) -> Result<Lazy, StoreFault> {
        let (g, setup) = (flash.geometry(), flash.setup());
        let [area_blocks, _, ram_bytes, _] = setup;
        if !(AREA_BLOCKS_MIN..=g.blocks.max(AREA_BLOCKS_MIN)).contains(&area_blocks) {
            let what = "the quota of update and cold blocks makes no sense";
            return Err(StoreFault::corrupted(what, area_blocks));
        }
        let entries_max = ((area_blocks + SPARE_BLOCKS) * g.pages_per_block) as usize;
        let cache_bytes = (ram_bytes as usize).saturating_sub(entries_max * ENTRY_BYTES);
        let cached_pages = cache_bytes / (gmt::OVERHEAD_BYTES + g.page_bytes as usize);
        let mut lazy = Lazy {
            umt: Umt::default(),
            gmt: Gmt::new(MapTable::open(flash, &mut mounted.live)?, cached_pages),
            update: Frontier::new(PageKind::Host, Wear::Least),
            cold: Frontier::new(PageKind::Copy, Wear::Most),
            area: BTreeSet::new(),
            area_blocks,
            entries_max,
            block_pages: g.pages_per_block,
            kept_blocks: ChipPlan::base_blocks(g, Lazy::extra_bytes_max(setup)),
            counters: LazyCounters::default(),
        };
        if mounted.is_clean {
            lazy.umt = Umt::decode(&mounted.extra).filter(|umt| is_sound(umt, flash)).ok_or(
                StoreError::Corrupted { what: words("the update map table of a base makes no sense"), at: 0 },
            )?;
            lazy.update.resume(flash);
            lazy.cold.resume(flash);
        } else {
            let umt = &mut lazy.umt;
            let entry = |ppn| Entry { ppn, update: true, invalidate: false };
            lazy.gmt.table.differences(
                flash,
                &mounted.live,
                &mut |_: &Flash<'_>, lpn, ppn: Option<Ppn>| match ppn {
                    Some(ppn) => umt.insert(lpn, entry(ppn.0)),
                    None if umt.get(lpn).is_none() => umt.insert(lpn, entry(NONE)),
                    None => {}
                },
            )?;
            drop(mounted.live);
        }
        let pages = lazy.umt.iter().filter_map(|(_, entry)| from_raw(entry.ppn));
        lazy.area.extend(pages.map(|ppn| g.block_of(ppn)));
        lazy.area.extend([lazy.update, lazy.cold].iter().filter_map(|frontier| frontier.block(flash)));
        for pbn in (0..g.blocks).map(Pbn) {
            if !matches!(flash.live_role(pbn), None | Some(PageKind::Map)) && !lazy.area.contains(&pbn) {
                flash.retag(pbn, DATA_BLOCK, NOBODY);
            }
        }
        Ok(lazy)
    }

    fn locate(&mut self, flash: &mut Flash<'_>, lpn: u32, cause: Cause) -> Result<Option<Ppn>, StoreFault> {
        match self.umt.get(lpn) {
            Some(entry) => {
                self.counters.umt_hits += u64::from(cause != Cause::Check);
                Ok(from_raw(entry.ppn))
            }
            None if cause == Cause::Check => self.gmt.table.entry(flash, lpn, cause),
            None => self.gmt.entry(flash, lpn),
        }
    }

    fn write(&mut self, flash: &mut Flash<'_>, host: HostPage<'_>) -> Result<(), StoreFault> {
        self.make_room(flash, 1)?;
        let ppn = self.update.write(flash, PageKind::Host, host)?;
        self.supersede(flash, host.lpn, ppn);
        Ok(())
    }

    fn renew_map(&mut self, flash: &mut Flash<'_>, at: Ppn, page: u32) -> Result<(), StoreFault> {
        self.make_room(flash, 1)?;
        if !self.gmt.table.is_at(page, at) {
            return Ok(());
        }
        self.gmt.bring(flash, page)?;
        self.gmt.save(flash, page)
    }

    fn trim(&mut self, flash: &mut Flash<'_>, lpn: u32) -> Result<Option<Ppn>, StoreFault> {
        if self.umt.get(lpn).is_some_and(|entry| entry.ppn == NONE) {
            return Ok(None);
        }
        if self.umt.trimmed() >= flash.geometry().pages_per_block {
            flash.begin(|| self.encode())?;
            self.make_room(flash, 1)?;
            self.tell_of_first_trim(flash)?;
        }
        let page = self.gmt.table.page_of(lpn);
        self.gmt.bring(flash, page)?;
        let entry = self.umt.get(lpn);
        let is_live = entry.is_none_or(|entry| entry.invalidate);
        let told = if is_live { self.gmt.table.live(flash, lpn)? } else { self.gmt.table.get(flash, lpn) };
        let Some(entry) = entry else {
            if let Some(ppn) = told {
                flash.invalidate(ppn);
                self.umt.insert(lpn, TOMBSTONE);
            }
            return Ok(told);
        };
        flash.invalidate(Ppn(entry.ppn));
        if let Some(older) = told.filter(|_| entry.invalidate) {
            flash.invalidate(older);
        }
        if told.is_some() {
            self.umt.insert(lpn, TOMBSTONE);
        } else {
            self.umt.remove(lpn);
        }
        Ok(Some(Ppn(entry.ppn)))
    }

    fn evacuate(&mut self, flash: &mut Flash<'_>, pbn: Pbn) -> Result<bool, StoreFault> {
        self.level(flash, pbn)
    }

    fn settle(&mut self, flash: &mut Flash<'_>) -> Result<(), StoreFault> {
        if self.umt.len() <= self.entries_max {
            return Ok(());
        }
        flash.begin(Vec::new)?;
        self.make_room(flash, 1)?;
        if self.umt.len() <= self.entries_max { Ok(()) } else { Err(StoreError::Full.into()) }
    }

    fn encode(&self) -> Vec<u8> {
        // More may be there between a cut and the next write only, when no clean base is written.
        if self.umt.len() <= self.entries_max { self.umt.encode() } else { Vec::new() }
    }

    fn atomic_pages_max(&self) -> usize {
        self.block_pages as usize
    }

    fn write_group(
        &mut self,
        flash: &mut Flash<'_>,
        pages: &[(Lpn, &[u8])],
        cause: Cause,
    ) -> Result<(), StoreFault> {
        self.make_room(flash, pages.len() as u32)?;
        let written = self.update.write_group(flash, pages, cause)?;
        for ((lpn, _), ppn) in pages.iter().zip(written) {
            self.supersede(flash, lpn.0, ppn);
        }
        Ok(())
    }

    fn mapping_bytes(&self) -> usize {
        self.gmt.table.directory_bytes() + self.map_bytes() + self.area.len() * 2 * size_of::<Pbn>()
    }

    fn mapping_bytes_max(&self, geometry: Geometry) -> usize {
        let cache = self.gmt.cache_bytes_max();
        let area = self.entries_max.div_ceil(geometry.pages_per_block as usize) * 2 * size_of::<Pbn>();
        self.gmt.table.directory_bytes() + self.entries_max * ENTRY_BYTES + cache + area
    }

    fn known_pages_max(&self) -> usize {
        self.gmt.table.pages() as usize + self.entries_max
    }

    fn mount_bytes(&self, _: Geometry, pages: usize, scan: usize) -> usize {
        // The cache is empty then.
        let umt = self.entries_max * ENTRY_BYTES;
        pages + scan.max(self.gmt.table.compared_bytes() + umt)
    }

    fn other_bytes(&self) -> usize {
        // The UMT as bytes, while a base is written.
        self.entries_max * ENCODED_BYTES
    }

    fn cache_counts(&self) -> (u64, u64) {
        (self.counters.umt_hits + self.gmt.hits, self.gmt.misses)
    }

    fn check(&self, flash: &mut Flash<'_>, report: &mut CheckReport) -> Result<u32, StoreFault> {
        let older = self.check_entries(flash, report)?;
        Ok(older + self.gmt.table.check(flash, report))
    }
}

/// The role of a DBA block. Blocks of UBA and CBA have the roles Host and Copy, so a mount can tell them
/// from data blocks: in UBA and CBA a newer version may stand beside an older valid one.
const DATA_BLOCK: PageKind = PageKind::Log;

const TOMBSTONE: Entry = Entry { ppn: NONE, update: true, invalidate: false };

/// Whether the entries of a UMT read from a base are possible on this chip.
fn is_sound(umt: &Umt, flash: &Flash<'_>) -> bool {
    let fits = |(lpn, entry): (u32, Entry)| {
        let is_there = entry.ppn < flash.geometry().pages() && flash.is_valid(Ppn(entry.ppn));
        lpn < flash.page_count() && (is_there || entry == TOMBSTONE)
    };
    umt.iter().all(fits)
}

impl Lazy {
    /// Bytes of RAM that the UMT and the cache of the GMT take now.
    pub fn map_bytes(&self) -> usize {
        self.umt.ram_bytes() + self.gmt.cache_bytes()
    }

    /// The blocks of UBA and CBA.
    pub fn area(&self) -> impl Iterator<Item = Pbn> + '_ {
        self.area.iter().copied()
    }

    /// The update flag and the invalidate flag of a logical page, if it is in the UMT.
    pub fn flags(&self, lpn: u32) -> Option<(bool, bool)> {
        self.umt.get(lpn).map(|entry| (entry.update, entry.invalidate))
    }

    /// Notes in the UMT that a logical page was written to an update block.
    fn supersede(&mut self, flash: &mut Flash<'_>, lpn: u32, ppn: Ppn) {
        self.area.insert(flash.geometry().block_of(ppn));
        let old = self.umt.get(lpn);
        if let Some(old) = old.and_then(|entry| from_raw(entry.ppn)) {
            flash.invalidate(old);
        }
        let invalidate = old.is_none_or(|entry| entry.invalidate);
        self.umt.insert(lpn, Entry { ppn: ppn.0, update: true, invalidate });
    }

    /// Checks L1 to L3. The number of pages that count as valid and are superseded.
    fn check_entries(&self, flash: &mut Flash<'_>, report: &mut CheckReport) -> Result<u32, StoreFault> {
        let mut older = 0;
        let mut held: Option<(u32, Vec<u8>)> = None;
        for (lpn, entry) in self.umt.iter() {
            let page = self.gmt.table.page_of(lpn);
            if held.as_ref().is_none_or(|(number, _)| *number != page) {
                held = Some((page, self.gmt.table.peek(flash, page)?));
            }
            let place = (lpn - self.gmt.table.range(page).start) as usize * 4;
            let told = held.as_ref().map_or(NONE, |(_, bytes)| get_u32(bytes, place));
            let is_in_area = entry.ppn != NONE
                && flash.is_valid(Ppn(entry.ppn))
                && self.area.contains(&flash.geometry().block_of(Ppn(entry.ppn)));
            if !is_in_area && entry != TOMBSTONE {
                let found = message!("lpn {lpn}: {entry:?} in no update block");
                report.violation(Invariant::L1, u64::from(lpn), found);
            }
            if !entry.update && (told != entry.ppn || entry.invalidate) {
                let found = message!("lpn {lpn}: {entry:?}, {told} is told");
                report.violation(Invariant::L3, u64::from(lpn), found);
            }
            if let Some(ppn) = from_raw(told).filter(|_| entry.invalidate) {
                older += 1;
                if !flash.is_valid(ppn) || ppn.0 == entry.ppn {
                    let found = message!("lpn {lpn}: {ppn} is not valid");
                    report.violation(Invariant::L2, u64::from(lpn), found);
                }
            }
        }
        Ok(older)
    }
}

#[cfg(test)]
mod tests;
