//! HFTL-like: FAST for what is cold, an area mapped by pages for what is hot.
//!
//! Source: Lee, Yun and Lee, "HFTL: hybrid flash translation layer based on hot data identification for flash
//! memory", IEEE Transactions on Consumer Electronics 55(4), 2009. Title and abstract only were at hand, so
//! this is **our reading**, with low confidence: that hot data is told by multi-hash filters for blocks and
//! for pages, that hot pages are mapped one by one and the rest by blocks with logs. Quotas, cleaning and
//! eviction are ours.
//!
//! # State
//!
//! - [`crate::ftl::fast`], for the cold pages, with all of its rules.
//! - The hot area: at most `hot_blocks` blocks, filled one after the other; a map from logical pages to
//!   places in it.
//! - Two filters ([`nandex::blocks::hot`]), of logical pages and of logical blocks.
//!
//! # Operations
//!
//! - *Write*: both filters count it. A hot page of a hot block is appended to the hot area, if it is there
//!   already or less than three quarters of the area is live; any other goes to FAST. The copy that is
//!   superseded, in whichever part, becomes invalid.
//! - *Cleaning*: when the area is full, the block with the fewest live pages is the victim. Its pages that
//!   are still hot move to a new block of the area, the others go to FAST as cold writes. If all pages are
//!   live, all of them go to FAST, so that the area always gains room.
//! - *Read*: the hot area, then as FAST.
//!
//! # Invariants and recovery
//!
//! - A1 and A2 of FAST, for pages that are not in the hot area.
//! - A3: a page in the hot map is live there, and nowhere else.
//!
//! Recovery as in [`nandex::ftl::mapping`]: the kind of a block tells the hot area from logs and data. The
//! filters start empty.

use crate::ftl::fast::{Fast, FastConfig};
use crate::ftl::log_map::log_blocks_of;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use nandex::blocks::Wear;
use nandex::blocks::hot::{HotConfig, HotFilter};
use nandex::blocks::spare::PageKind;
use nandex::check::{CheckReport, Invariant, message};
use nandex::fault::StoreFault;
use nandex::ftl::mapping::{Flash, FlashConfig, HostPage, Mounted, NOBODY, Rules, Scheme, SchemeFtl, Way};
use nandex::nand::{Cause, Geometry};
use nandex::sort;
use nandex::units::{Lpn, Pbn, Ppn};

/// An HFTL-like translation layer: hot pages are mapped one by one, cold ones go to FAST.
pub type HftlFtl<N> = SchemeFtl<N, Hftl>;

/// The settings of HFTL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HftlConfig {
    /// The settings that every mapping scheme has.
    pub common: FlashConfig,
    /// Number of log blocks of FAST. `None` means 3 % of the chip. Fixed at format.
    pub log_blocks: Option<u32>,
    /// Blocks of the hot area, at least 2. `None` means 5 % of the chip. Fixed at format.
    pub hot_blocks: Option<u32>,
    /// Settings of the two filters that tell hot pages and hot blocks.
    pub hot: HotConfig,
}

/// The tables of HFTL: those of FAST, the map of the hot area, and the filters.
#[derive(Debug)]
pub struct Hftl {
    cold: Fast,
    hot_map: BTreeMap<u32, Ppn>,
    /// The blocks of the hot area. The open block is the last.
    area: Vec<Pbn>,
    hot_blocks: usize,
    hot_pages: HotFilter,
    hot_lbns: HotFilter,
    page: Vec<u8>,
    /// Pages moved from the hot area to FAST, since format or mount.
    pub evicted_pages: u64,
}

impl Scheme for Hftl {
    type Config = HftlConfig;

    const RULES: Rules = Rules { one_data_block: true, has_owners: true, ..Rules::of(*b"HFTL") };

    fn common(settings: &HftlConfig) -> FlashConfig {
        settings.common
    }

    fn setup(settings: &HftlConfig, _: Geometry, good_blocks: u32) -> [u32; 4] {
        let logs = settings.log_blocks.unwrap_or(log_blocks_of(good_blocks)).max(2);
        let hot = settings.hot_blocks.unwrap_or(good_blocks / 20).max(2);
        [logs, hot, 0, 0]
    }

    fn blocks_needed(setup: [u32; 4]) -> u32 {
        setup[0].saturating_add(setup[1]).saturating_add(Hftl::blocks_per_write(setup))
    }

    fn blocks_per_write(setup: [u32; 4]) -> u32 {
        // Those of FAST, and the block that hot pages of a victim move to before it is erased.
        Fast::blocks_per_write(setup) + 1
    }

    fn open(flash: &mut Flash<'_>, settings: &HftlConfig, mounted: Mounted) -> Result<Hftl, StoreFault> {
        let mut area: Vec<Pbn> = Vec::new();
        let mut hot_map = BTreeMap::new();
        for pbn in (0..flash.geometry().blocks).map(Pbn) {
            if flash.live_role(pbn) == Some(PageKind::Host) {
                area.push(pbn);
                hot_map.extend(flash.live_in(pbn, &mounted.live)?);
            }
        }
        // The block that still has room, if any, is to be the last.
        sort::by_key(&mut area, |&pbn| flash.next_page(pbn) < flash.geometry().pages_per_block);
        let fast = FastConfig { common: settings.common, log_blocks: None, eager_switch: false };
        Ok(Hftl {
            cold: Fast::open(flash, &fast, mounted)?,
            hot_map,
            area,
            hot_blocks: flash.setup()[1] as usize,
            hot_pages: HotFilter::new(settings.hot),
            hot_lbns: HotFilter::new(settings.hot),
            page: alloc::vec![0; flash.geometry().page_bytes as usize],
            evicted_pages: 0,
        })
    }

    fn locate(&mut self, flash: &mut Flash<'_>, lpn: u32, cause: Cause) -> Result<Option<Ppn>, StoreFault> {
        match self.hot_map.get(&lpn) {
            Some(&ppn) => Ok(Some(ppn)),
            None => self.cold.locate(flash, lpn, cause),
        }
    }

    fn write(&mut self, flash: &mut Flash<'_>, host: HostPage<'_>) -> Result<(), StoreFault> {
        let (page, block) = (Lpn(host.lpn), Lpn(flash.split(host.lpn).0.0));
        self.hot_pages.note_write(page);
        self.hot_lbns.note_write(block);
        let is_hot = self.hot_lbns.is_hot(block) && self.hot_pages.is_hot(page);
        if is_hot && (self.hot_map.contains_key(&host.lpn) || self.has_room(flash)) {
            self.write_hot(flash, host)
        } else {
            self.write_cold(flash, host)
        }
    }

    fn trim(&mut self, flash: &mut Flash<'_>, lpn: u32) -> Result<Option<Ppn>, StoreFault> {
        match self.hot_map.remove(&lpn) {
            None => self.cold.trim(flash, lpn),
            Some(ppn) => {
                flash.invalidate(ppn);
                Ok(Some(ppn))
            }
        }
    }

    fn evacuate(&mut self, flash: &mut Flash<'_>, pbn: Pbn) -> Result<bool, StoreFault> {
        self.cold.evacuate(flash, pbn)
    }

    fn log_blocks(&self) -> u32 {
        self.cold.log_blocks()
    }

    fn mapping_bytes(&self) -> usize {
        self.cold.mapping_bytes()
            + self.hot_map.len() * 2 * size_of::<(u32, Ppn)>()
            + self.area.len() * size_of::<Pbn>()
            + self.hot_pages.ram_bytes()
            + self.hot_lbns.ram_bytes()
    }

    fn mapping_bytes_max(&self, geometry: Geometry) -> usize {
        // The area is evicted to what it may have before one block more is taken.
        let pages = (self.hot_blocks + 1) * geometry.pages_per_block as usize;
        self.cold.mapping_bytes_max(geometry)
            + pages * 2 * size_of::<(u32, Ppn)>()
            + (self.hot_blocks + 1) * size_of::<Pbn>()
            + self.hot_pages.ram_bytes()
            + self.hot_lbns.ram_bytes()
    }

    fn other_bytes(&self) -> usize {
        self.page.len()
    }

    fn check(&self, flash: &mut Flash<'_>, report: &mut CheckReport) -> Result<u32, StoreFault> {
        for (&lpn, &ppn) in &self.hot_map {
            if !self.area.contains(&flash.geometry().block_of(ppn)) {
                let found = message!("lpn {lpn} is mapped to {ppn}, not in the hot area");
                report.violation(Invariant::A3, u64::from(lpn), found);
            }
        }
        self.cold.check(flash, report)
    }
}

impl Hftl {
    /// Number of logical pages in the hot area.
    pub fn hot_page_count(&self) -> usize {
        self.hot_map.len()
    }

    /// Whether the hot area takes another page. It is refused if three quarters of the area are live:
    /// cleaning would then push out pages that are still hot.
    fn has_room(&self, flash: &Flash<'_>) -> bool {
        let places = self.hot_blocks * flash.geometry().pages_per_block as usize;
        4 * self.hot_map.len() < 3 * places
    }

    fn write_cold(&mut self, flash: &mut Flash<'_>, host: HostPage<'_>) -> Result<(), StoreFault> {
        let old = self.hot_map.get(&host.lpn).copied();
        flash.replaces(old);
        let written = self.cold.write(flash, host);
        flash.replaces(None);
        if old.is_some_and(|old| !flash.is_valid(old)) {
            self.hot_map.remove(&host.lpn);
        }
        written
    }

    fn write_hot(&mut self, flash: &mut Flash<'_>, host: HostPage<'_>) -> Result<(), StoreFault> {
        loop {
            let ppn = self.hot_place(flash)?;
            let old = self.locate(flash, host.lpn, host.cause)?;
            if !flash.write(ppn, PageKind::Host, host)? {
                continue;
            }
            match (self.hot_map.insert(host.lpn, ppn), old) {
                (Some(old), _) => flash.invalidate(old),
                (None, Some(_)) => drop(self.cold.trim(flash, host.lpn)?),
                (None, None) => {}
            }
            return Ok(());
        }
    }

    fn hot_place(&mut self, flash: &mut Flash<'_>) -> Result<Ppn, StoreFault> {
        loop {
            if let Some(ppn) = self.area.last().and_then(|&pbn| flash.next_ppn(pbn)) {
                return Ok(ppn);
            }
            if self.area.len() >= self.hot_blocks {
                self.clean(flash)?;
            } else {
                self.area.push(flash.take(PageKind::Host, NOBODY, Wear::Least)?);
            }
        }
    }

    fn clean(&mut self, flash: &mut Flash<'_>) -> Result<(), StoreFault> {
        let live = |pbn: &Pbn| flash.blocks().valid_count(*pbn);
        let Some(victim) = self.area.iter().copied().min_by_key(live) else { return Ok(()) };
        let keeps = flash.blocks().valid_count(victim) < flash.geometry().pages_per_block;
        let mut target = None;
        while let Some(ppn) = flash.blocks().next_valid(victim, 0) {
            let mut page = core::mem::take(&mut self.page);
            let moved = self.move_out(flash, ppn, (keeps, &mut target), &mut page);
            self.page = page;
            moved?;
        }
        self.area.retain(|&pbn| pbn != victim);
        flash.counters.collections += 1;
        flash.free(victim, Cause::GarbageCollection, Vec::new)
    }

    /// Moves a page out of a victim: to another block of the area if it is still hot, else to FAST.
    fn move_out(
        &mut self,
        flash: &mut Flash<'_>,
        ppn: Ppn,
        (keeps, target): (bool, &mut Option<Pbn>),
        page: &mut [u8],
    ) -> Result<(), StoreFault> {
        const CAUSE: Cause = Cause::GarbageCollection;
        let Some(header) = flash.load_into(ppn, CAUSE, page)? else {
            let lost = self.hot_map.iter().find(|(_, at)| **at == ppn).map(|(&lpn, _)| lpn);
            let Some(lpn) = lost else {
                let what = "A3: a live page of the hot area is not in its map";
                return Err(StoreFault::corrupted(what, ppn.0));
            };
            self.hot_map.remove(&lpn);
            flash.lose(ppn, lpn);
            return Ok(());
        };
        let lpn = header.number;
        if keeps && self.hot_pages.is_hot(Lpn(lpn)) {
            let to = match target.and_then(|pbn| flash.next_ppn(pbn)) {
                Some(to) => to,
                None => {
                    let pbn = *target.insert(flash.take(PageKind::Host, NOBODY, Wear::Least)?);
                    self.area.push(pbn);
                    flash.geometry().page_at(pbn, 0)
                }
            };
            if flash.store_from(Way { from: ppn, to }, header, CAUSE, page)? {
                self.hot_map.insert(lpn, to);
                return Ok(());
            }
        }
        self.evicted_pages += 1;
        flash.counters.moved_pages += 1;
        self.write_cold(flash, HostPage { lpn, cause: CAUSE, data: page })?;
        // It was the FTL that wrote, not the host.
        flash.note_last_written(None);
        flash.counters.host_writes -= 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
