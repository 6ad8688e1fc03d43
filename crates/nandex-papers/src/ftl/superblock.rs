//! Superblock FTL: N logical blocks share up to N + M blocks, in which their pages may lie anywhere.
//!
//! Source: Kang, Jo, Kim and Lee, "A superblock-based flash translation layer for NAND flash memory", EMSOFT
//! 2006; Jung, Kang, Jo, Kim and Lee, ACM TECS 9(4), 2010. Of these only abstracts and lecture notes were at
//! hand: this is **our reading**, with medium to low confidence in the choice of victims, in what is hot, and
//! in the reclaiming of others.
//!
//! # State
//!
//! - Superblocks of `group_blocks` (N) logical blocks next to each other, each with a list of blocks.
//! - `map[lpn]`: where each page is, in RAM. (The original keeps a table in three levels in the spare areas
//!   of the pages it programs, and the maps of a few superblocks in RAM.)
//! - Of each superblock up to two blocks take pages: U, the update block, for pages of the host and for hot
//!   copies; C for cold copies. All others are D-blocks. A page is hot if it was written again since it was
//!   last copied.
//!
//! # Write
//!
//! 1. The page is appended to U.
//! 2. U is full: it becomes a D-block; if it holds one logical block whole and in order, that is a switch
//!    merge. A new U is taken while the superblock has fewer than N + M blocks; else the superblock is
//!    collected first.
//! 3. There is no free block to take: the superblock not written for longest, of those that have more blocks
//!    than their live pages need, gives one back.
//!
//! # Collection
//!
//! 1. A block without live pages is erased.
//! 2. Otherwise the D-block with the fewest live pages: hot pages are copied to U, cold ones to C, and it is
//!    erased. A block that holds a logical block whole is never worth taking, and stays as it is.
//!
//! Repeated until the superblock has room. When free blocks are short, and to give a block back, all pages go
//! to C (or to U, where there is no C), and the other one may be the victim. Each victim then takes at most
//! one block and gives one back, and ends with fewer pages wasted.
//!
//! # Blocks
//!
//! One for each logical block; four that only collection may take (one for the copies, three in place of
//! blocks that fail) and as many as a base takes stay free; and two more. So when none may be taken, some
//! superblock has more blocks than its live pages need.
//!
//! # Invariants
//!
//! - U1: the live pages of a block belong to the superblock that has it.
//! - U2: a superblock whose blocks are more than N + M - 1 and which has no U, or more than N + M, has a
//!   block without live pages or a D-block with room to gain, because its live pages fill at most N blocks.
//!
//! # Recovery and deviations
//!
//! As in [`nandex::ftl::mapping`]: the spare area of each page names the logical page and its version, from
//! which the map is found again. After an unclean end no block takes more pages. What is hot is forgotten by
//! a mount.

mod mount;

use alloc::vec;
use alloc::vec::Vec;
use nandex::blocks::Wear;
use nandex::blocks::spare::PageKind;
use nandex::check::{CheckReport, Invariant, message, words};
use nandex::fault::StoreFault;
use nandex::ftl::mapping::{ChipPlan, Flash, FlashConfig, HostPage, Mounted, Rules, Scheme, SchemeFtl, Way};
use nandex::nand::{Cause, Geometry};
use nandex::store::StoreError;
use nandex::units::{Lbn, Pbn, Ppn};

/// A superblock translation layer: N logical blocks share up to N + M blocks.
pub type SuperblockFtl<N> = SchemeFtl<N, Superblock>;

/// The settings of the superblock scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuperblockConfig {
    /// The settings that every mapping scheme has.
    pub common: FlashConfig,
    /// N: logical blocks in a superblock, at least 1. Fixed at format.
    pub group_blocks: u32,
    /// M: blocks that a superblock may have beyond N, at least 1.
    pub extra_blocks: u32,
}

impl Default for SuperblockConfig {
    fn default() -> SuperblockConfig {
        SuperblockConfig { common: FlashConfig::default(), group_blocks: 8, extra_blocks: 4 }
    }
}

/// Counters of the superblock FTL besides [`nandex::ftl::mapping::FlashCounters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SuperblockCounters {
    /// Blocks erased because none of their pages was live.
    pub empty_blocks: u64,
    /// Pages copied to U because they were hot.
    pub hot_copies: u64,
    /// Blocks that a superblock gave back because another needed one.
    pub reclaimed_blocks: u64,
}

/// In the map: the logical page has no copy.
const NONE: u32 = u32::MAX;

/// Free blocks that only collection may take, in addition to those of a base.
const COLLECTION_BLOCKS: u32 = 4;

/// The update block U of a superblock.
#[derive(Clone, Copy, Debug)]
struct Update {
    pbn: Pbn,
    /// The logical block whose pages the block holds in order, if any.
    in_order: Option<Lbn>,
    /// Whether a page in it has replaced an older copy.
    has_rewritten: bool,
}

#[derive(Clone, Debug, Default)]
struct Super {
    blocks: Vec<Pbn>,
    update: Option<Update>,
    cold: Option<Pbn>,
    live: u32,
    written: u64,
}

/// The tables of the superblock scheme.
#[derive(Debug)]
pub struct Superblock {
    map: Vec<u32>,
    hot: Vec<u64>,
    supers: Vec<Super>,
    group_blocks: u32,
    blocks_max: usize,
    floor: u32,
    clock: u64,
    /// Counters since format or mount.
    pub counters: SuperblockCounters,
}

/// The open block that takes the live pages of a victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copies {
    /// Hot pages go to U and cold ones to C.
    Apart,
    /// All pages go to C. A new C is taken from the worn blocks.
    Cold,
    /// Pages go to whichever of U and C has room.
    Together,
}

impl Scheme for Superblock {
    type Config = SuperblockConfig;

    const RULES: Rules =
        Rules { has_owners: true, fills_in_order: true, has_map: true, ..Rules::of(*b"SUPR") };

    fn common(settings: &SuperblockConfig) -> FlashConfig {
        settings.common
    }

    fn setup(settings: &SuperblockConfig, _: Geometry, _: u32) -> [u32; 4] {
        [settings.group_blocks.max(1), 0, 0, 0]
    }

    fn blocks_needed(_: [u32; 4]) -> u32 {
        COLLECTION_BLOCKS + 2
    }

    fn blocks_per_write(_: [u32; 4]) -> u32 {
        // What a victim is copied to before it is given back, and one that fails.
        2
    }

    fn open(
        flash: &mut Flash<'_>,
        settings: &SuperblockConfig,
        mounted: Mounted,
    ) -> Result<Superblock, StoreFault> {
        let (g, group_blocks) = (flash.geometry(), flash.setup()[0]);
        if group_blocks == 0 {
            return Err(
                StoreError::Corrupted { what: words("superblocks of no logical block"), at: 0 }.into()
            );
        }
        let Mounted { map, live, .. } = mounted;
        drop(live);
        let pages = flash.page_count();
        let supers = pages.div_ceil(g.pages_per_block).div_ceil(group_blocks) as usize;
        let mut superblock = Superblock {
            map,
            hot: vec![0; (pages as usize).div_ceil(64)],
            supers: vec![Super::default(); supers],
            group_blocks,
            blocks_max: group_blocks.saturating_add(settings.extra_blocks.max(1)) as usize,
            floor: ChipPlan::base_blocks(g, 0) + COLLECTION_BLOCKS,
            clock: 1,
            counters: SuperblockCounters::default(),
        };
        superblock.map.resize(pages as usize, NONE);
        superblock.adopt_map(flash)?;
        Ok(superblock)
    }

    fn locate(&mut self, _: &mut Flash<'_>, lpn: u32, _: Cause) -> Result<Option<Ppn>, StoreFault> {
        Ok(self.find(lpn))
    }

    fn write(&mut self, flash: &mut Flash<'_>, host: HostPage<'_>) -> Result<(), StoreFault> {
        let number = self.super_of(flash, host.lpn);
        // Blocks that failed came out of the reserve.
        while flash.blocks().free_count() < self.floor && self.reclaim_any(flash)? {}
        loop {
            let (mut update, ppn) = self.make_room(flash, number)?;
            if !flash.write(ppn, PageKind::Log, host)? {
                self.supers[number].update = None;
                continue;
            }
            let ((lbn, place), page) = (flash.split(host.lpn), flash.geometry().page_in_block(ppn));
            update.in_order = (place == page && (page == 0 || update.in_order == Some(lbn))).then_some(lbn);
            match self.find(host.lpn) {
                Some(old) => {
                    flash.invalidate(old);
                    self.set_hot(host.lpn, true);
                    update.has_rewritten = true;
                }
                None => self.supers[number].live += 1,
            }
            self.map[host.lpn as usize] = ppn.0;
            self.supers[number].written = self.clock;
            self.clock += 1;
            self.end_update(flash, number, update);
            return Ok(());
        }
    }

    fn trim(&mut self, flash: &mut Flash<'_>, lpn: u32) -> Result<Option<Ppn>, StoreFault> {
        let old = self.find(lpn);
        if let Some(old) = old {
            flash.invalidate(old);
            self.forget(flash, lpn);
        }
        Ok(old)
    }

    fn evacuate(&mut self, flash: &mut Flash<'_>, pbn: Pbn) -> Result<bool, StoreFault> {
        let number = flash.tag(pbn).owner as usize;
        let is_closed = |s: &Super| s.blocks.contains(&pbn) && !s.is_open(pbn);
        if flash.blocks().free_count() < self.floor || !self.supers.get(number).is_some_and(is_closed) {
            return Ok(false);
        }
        self.move_pages(flash, pbn, Copies::Cold, Cause::WearLevelling)?;
        self.release(flash, number, pbn, Cause::WearLevelling)?;
        Ok(true)
    }

    fn mapping_bytes(&self) -> usize {
        self.map.len() * size_of::<u32>()
            + self.hot.len() * 8
            + self
                .supers
                .iter()
                .map(|s| size_of::<Super>() + s.blocks.len() * size_of::<Pbn>())
                .sum::<usize>()
    }

    fn mapping_bytes_max(&self, geometry: Geometry) -> usize {
        let blocks = (self.supers.len() * (self.blocks_max + 1)).min(geometry.blocks as usize);
        self.map.len() * size_of::<u32>()
            + self.hot.len() * 8
            + self.supers.len() * size_of::<Super>()
            + blocks * size_of::<Pbn>()
    }

    fn mount_bytes(&self, geometry: Geometry, pages: usize, scan: usize) -> usize {
        // The map comes of the scan; the pages that it held are let go before the rest is made.
        (pages + scan + self.map.len() * size_of::<u32>()).max(self.mapping_bytes_max(geometry))
    }

    fn check(&self, flash: &mut Flash<'_>, report: &mut CheckReport) -> Result<u32, StoreFault> {
        let mut live = vec![0; self.supers.len()];
        for lpn in 0..self.map.len() as u32 {
            let Some(ppn) = self.find(lpn) else { continue };
            let number = self.super_of(flash, lpn);
            live[number] += 1;
            if !self.supers[number].blocks.contains(&flash.geometry().block_of(ppn)) {
                let found = message!("lpn {lpn} is in a block of others");
                report.violation(Invariant::U1, u64::from(lpn), found);
            }
        }
        let differs = |&number: &usize| live[number] != self.supers[number].live;
        for number in (0..live.len()).filter(differs) {
            let found = message!("superblock {number} has {} live pages", live[number]);
            report.violation(Invariant::U1, 0, found);
        }
        Ok(0)
    }
}

impl Super {
    /// Adds a block and reserves no more room than it needs, since there are many superblocks.
    fn enter(&mut self, pbn: Pbn) {
        self.blocks.reserve_exact(1);
        self.blocks.push(pbn);
    }

    fn is_open(&self, pbn: Pbn) -> bool {
        self.cold == Some(pbn) || self.update.is_some_and(|u| u.pbn == pbn)
    }

    /// Number of blocks that the live pages fill at least.
    fn needs(&self, pages_per_block: u32) -> usize {
        self.live.div_ceil(pages_per_block) as usize
    }
}

impl Superblock {
    /// The blocks of the superblock with this number.
    pub fn blocks(&self, number: usize) -> &[Pbn] {
        &self.supers[number].blocks
    }

    /// The number of free blocks at or below which superblocks must give some back.
    pub fn floor(&self) -> u32 {
        self.floor
    }

    fn super_of(&self, flash: &Flash<'_>, lpn: u32) -> usize {
        (flash.split(lpn).0.0 / self.group_blocks) as usize
    }

    fn find(&self, lpn: u32) -> Option<Ppn> {
        Some(self.map[lpn as usize]).filter(|&at| at != NONE).map(Ppn)
    }

    fn forget(&mut self, flash: &Flash<'_>, lpn: u32) {
        self.map[lpn as usize] = NONE;
        self.set_hot(lpn, false);
        let number = self.super_of(flash, lpn);
        self.supers[number].live -= 1;
    }

    fn set_hot(&mut self, lpn: u32, hot: bool) {
        let bit = 1u64 << (lpn % 64);
        let word = &mut self.hot[lpn as usize / 64];
        *word = if hot { *word | bit } else { *word & !bit };
    }

    fn is_hot(&self, lpn: u32) -> bool {
        self.hot[lpn as usize / 64] >> (lpn % 64) & 1 == 1
    }

    /// Updates U after a program in it. A full block that holds a logical block in order counts as a switch
    /// merge.
    fn end_update(&mut self, flash: &mut Flash<'_>, number: usize, update: Update) {
        let pages = flash.geometry().pages_per_block;
        let is_full = flash.next_page(update.pbn) == pages;
        self.supers[number].update = (!is_full).then_some(update);
        let is_whole = update.in_order.is_some() && flash.blocks().valid_count(update.pbn) == pages;
        if is_full && is_whole && update.has_rewritten {
            flash.counters.switch_merges += 1;
        }
    }

    /// Makes sure that a superblock has an update block with room. Returns it and its next page.
    fn make_room(&mut self, flash: &mut Flash<'_>, number: usize) -> Result<(Update, Ppn), StoreFault> {
        loop {
            self.close_full(flash, number);
            let group = &self.supers[number];
            let most = self.blocks_max - usize::from(group.update.is_none());
            if group.blocks.len() > most {
                self.collect(flash, number)?;
            } else if let Some(update) = group.update
                && let Some(ppn) = flash.next_ppn(update.pbn)
            {
                return Ok((update, ppn));
            } else if flash.blocks().free_count() > self.floor {
                self.take_update(flash, number)?;
            } else if !self.reclaim_any(flash)? {
                return Err(StoreError::Full.into());
            }
        }
    }

    /// Frees a block of the superblock not written for longest, of those with more blocks than they need.
    /// Returns false if there is none.
    fn reclaim_any(&mut self, flash: &mut Flash<'_>) -> Result<bool, StoreFault> {
        let pages = flash.geometry().pages_per_block;
        let has_slack = |s: &(usize, &Super)| s.1.blocks.len() > s.1.needs(pages);
        let oldest = self.supers.iter().enumerate().filter(has_slack).min_by_key(|(_, s)| s.written);
        let Some((oldest, _)) = oldest else { return Ok(false) };
        self.reclaim(flash, oldest)?;
        Ok(true)
    }

    fn take_update(&mut self, flash: &mut Flash<'_>, number: usize) -> Result<Pbn, StoreFault> {
        let pbn = flash.take(PageKind::Log, number as u32, Wear::Least)?;
        let group = &mut self.supers[number];
        group.enter(pbn);
        group.update = Some(Update { pbn, in_order: None, has_rewritten: false });
        Ok(pbn)
    }

    fn take_cold(&mut self, flash: &mut Flash<'_>, number: usize) -> Result<Pbn, StoreFault> {
        let pbn = flash.take(PageKind::Log, number as u32, Wear::Most)?;
        let group = &mut self.supers[number];
        group.enter(pbn);
        group.cold = Some(pbn);
        Ok(pbn)
    }

    fn collect(&mut self, flash: &mut Flash<'_>, number: usize) -> Result<(), StoreFault> {
        // Both U and C may have to be taken, and blocks may fail.
        let is_ample = flash.blocks().free_count() > self.floor + 1;
        let (copies, group) = (if is_ample { Copies::Apart } else { Copies::Together }, &self.supers[number]);
        let update = group.update.map(|u| u.pbn);
        let free_of_pages = |pbn: &Pbn| Some(*pbn) != update && flash.blocks().valid_count(*pbn) == 0;
        let has_gain = |pbn: &Pbn| {
            !group.is_open(*pbn) && flash.blocks().valid_count(*pbn) < flash.geometry().pages_per_block
        };
        let empty = group.blocks.iter().copied().find(free_of_pages);
        let fewest = || {
            let blocks = group.blocks.iter().copied().filter(has_gain);
            blocks.min_by_key(|&pbn| flash.blocks().valid_count(pbn))
        };
        let victim = empty.or_else(fewest);
        assert!(victim.is_some(), "U2: superblock {number} has too many blocks and nothing to gain");
        victim.map_or(Ok(()), |victim| self.collect_block(flash, number, victim, copies))
    }

    /// Collects a superblock that has more blocks than its live pages need, until it has one block less.
    fn reclaim(&mut self, flash: &mut Flash<'_>, number: usize) -> Result<(), StoreFault> {
        let before = self.supers[number].blocks.len();
        while self.supers[number].blocks.len() >= before {
            let group = &self.supers[number];
            let target = group.cold.or(group.update.map(|u| u.pbn));
            let valid = |pbn: Pbn| flash.blocks().valid_count(pbn);
            let empty = group.blocks.iter().copied().find(|&pbn| valid(pbn) == 0);
            let others = group.blocks.iter().copied().filter(|&pbn| Some(pbn) != target);
            let victim = empty.or_else(|| others.min_by_key(|&pbn| valid(pbn)));
            let Some(victim) = victim.filter(|&pbn| valid(pbn) < flash.geometry().pages_per_block) else {
                return Err(StoreError::Full.into());
            };
            self.collect_block(flash, number, victim, Copies::Together)?;
        }
        self.counters.reclaimed_blocks += 1;
        Ok(())
    }

    fn collect_block(
        &mut self,
        flash: &mut Flash<'_>,
        number: usize,
        victim: Pbn,
        copies: Copies,
    ) -> Result<(), StoreFault> {
        if flash.blocks().valid_count(victim) == 0 {
            self.counters.empty_blocks += 1;
        } else {
            self.close(flash, number, victim);
            self.move_pages(flash, victim, copies, Cause::GarbageCollection)?;
            flash.counters.collections += 1;
        }
        self.release(flash, number, victim, Cause::GarbageCollection)
    }

    fn move_pages(
        &mut self,
        flash: &mut Flash<'_>,
        from: Pbn,
        copies: Copies,
        cause: Cause,
    ) -> Result<(), StoreFault> {
        let number = flash.tag(from).owner as usize;
        while let Some(ppn) = flash.blocks().next_valid(from, 0) {
            let Some(header) = flash.load(ppn, cause)? else {
                self.lose(flash, number, ppn)?;
                continue;
            };
            let lpn = header.number;
            if self.map.get(lpn as usize) != Some(&ppn.0) {
                let what = "a page holds another logical page";
                return Err(StoreFault::corrupted(what, ppn.0));
            }
            loop {
                let is_hot = copies == Copies::Apart && self.is_hot(lpn);
                let target = self.target(flash, number, copies, is_hot)?;
                let Some(to) = flash.next_ppn(target) else { continue };
                let is_done = flash.store(Way { from: ppn, to }, header, cause)?;
                if is_done {
                    self.map[lpn as usize] = to.0;
                    self.set_hot(lpn, false);
                    self.counters.hot_copies += u64::from(is_hot);
                }
                self.close_full(flash, number);
                if is_done {
                    break;
                }
            }
        }
        Ok(())
    }

    /// The open block that takes the next copy.
    fn target(
        &mut self,
        flash: &mut Flash<'_>,
        number: usize,
        copies: Copies,
        is_hot: bool,
    ) -> Result<Pbn, StoreFault> {
        self.close_full(flash, number);
        let group = &mut self.supers[number];
        let into_update = |update: &mut Update| {
            update.in_order = None;
            update.pbn
        };
        let update = group.update.as_mut();
        match copies {
            Copies::Apart if is_hot => match update.map(into_update) {
                Some(pbn) => Ok(pbn),
                None => self.take_update(flash, number),
            },
            Copies::Apart | Copies::Cold => group.cold.map_or_else(|| self.take_cold(flash, number), Ok),
            Copies::Together => match group.cold.or(update.map(into_update)) {
                Some(pbn) => Ok(pbn),
                None => self.take_cold(flash, number),
            },
        }
    }

    /// Handles a live page that cannot be read: the logical page mapped to it is lost.
    fn lose(&mut self, flash: &mut Flash<'_>, number: usize, ppn: Ppn) -> Result<(), StoreFault> {
        let pages = self.group_blocks.saturating_mul(flash.geometry().pages_per_block);
        let first = number as u32 * pages;
        let mut lpns = first..first.saturating_add(pages).min(self.map.len() as u32);
        let Some(lpn) = lpns.find(|&lpn| self.map[lpn as usize] == ppn.0) else {
            return Err(StoreFault::corrupted("a live page is not mapped", ppn.0));
        };
        flash.lose(ppn, lpn);
        self.forget(flash, lpn);
        Ok(())
    }

    /// Closes the open blocks that have no page left to program.
    fn close_full(&mut self, flash: &mut Flash<'_>, number: usize) {
        let Super { update, cold, .. } = self.supers[number];
        let open = [update.map(|update| update.pbn), cold];
        for pbn in open.into_iter().flatten() {
            if flash.next_ppn(pbn).is_none() {
                self.close(flash, number, pbn);
            }
        }
    }

    fn close(&mut self, flash: &mut Flash<'_>, number: usize, pbn: Pbn) {
        let group = &mut self.supers[number];
        if group.is_open(pbn) {
            group.cold = group.cold.filter(|&cold| cold != pbn);
            group.update = group.update.filter(|update| update.pbn != pbn);
            flash.seal(pbn);
        }
    }

    fn release(
        &mut self,
        flash: &mut Flash<'_>,
        number: usize,
        pbn: Pbn,
        cause: Cause,
    ) -> Result<(), StoreFault> {
        self.close(flash, number, pbn);
        self.supers[number].blocks.retain(|&block| block != pbn);
        flash.free(pbn, cause, Vec::new)
    }
}

#[cfg(test)]
mod tests;
