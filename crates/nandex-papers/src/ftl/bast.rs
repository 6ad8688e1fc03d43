//! BAST: data blocks in place, and for some logical blocks a log block of their own.
//!
//! Source: Kim, Kim, Noh, Min and Cho, "A space-efficient flash translation layer for CompactFlash systems",
//! IEEE Transactions on Consumer Electronics 48(2), 2002, as realised in flashsim and described in notes on
//! the paper. Data path: high confidence. Choice of the victim: medium. Recovery and trim are ours.
//!
//! # State
//!
//! - `data[lbn]`: the data block of a logical block; page `n` of it can hold only page `n` of the logical
//!   block.
//! - `logs[lbn]`: its log block, if it has one, and which page of the logical block each page of it holds.
//!   There are at most `log_blocks` of them.
//!
//! # Write
//!
//! 1. The page's place in the data block can be programmed: in place. (Where the chip wants ascending order,
//!    places below a programmed one count as programmed.)
//! 2. The logical block has a log block with room: appended.
//! 3. It has one that is full: that one is merged, and a new one takes the page.
//! 4. It has none: when all log blocks are in use, a victim is merged; then a new one takes the page.
//!
//! # Merge of a logical block with its log block
//!
//! - *Switch*: the log block is full, and page `n` of it holds page `n` for all `n`. It becomes the data
//!   block.
//! - *Partial*: so far page `n` holds page `n`, and the rest is erased. The rest is copied from the data
//!   block, then as above.
//! - *Full*: all pages are gathered in a new block, and both old ones are erased.
//! - A log block all of whose pages were trimmed is erased.
//!
//! # Blocks
//!
//! One for each logical block, `log_blocks`, and three: one that a full merge takes before it gives any back,
//! and two in place of blocks that fail in it or before it.
//!
//! # Invariants
//!
//! - B1: a live page is in the log block of its logical block or in its place in the data block.
//! - B2: there are at most `log_blocks` log blocks.
//!
//! # Recovery and deviations
//!
//! As in [`nandex::ftl::mapping`]: the table of blocks is found by the spare areas and the base, not in map
//! blocks of the scheme's own. After an unclean end no block takes more pages, so a log block then ends in a
//! full merge, or in a switch when it is complete. A log block that was switched and not yet known to a base
//! is found as a log block; it is a data block again if all its live pages are in their places and there is
//! no other. A merge that was cut may leave the new block as data block and the old data block as log block,
//! which is as good. The order of use of log blocks is not kept.

use crate::ftl::block_map::BlockMap;
use crate::ftl::log_map::{log_blocks_of, sources};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use nandex::blocks::Wear;
use nandex::blocks::spare::PageKind;
use nandex::check::{CheckReport, Invariant, message};
use nandex::fault::StoreFault;
use nandex::ftl::mapping::{Flash, FlashConfig, HostPage, Live, Mounted, Rules, Scheme, SchemeFtl};
use nandex::nand::{Cause, Geometry};
use nandex::rng::Rng;
use nandex::units::{Lbn, Pbn, Ppn};

/// A BAST translation layer: a store of pages in which each log block belongs to one logical block.
pub type BastFtl<N> = SchemeFtl<N, Bast>;

/// The rule that picks the log block to merge when all log blocks are in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogVictim {
    /// The log block not written for longest.
    #[default]
    LeastRecent,
    /// The log block used for longest.
    Oldest,
    /// Any log block, drawn by [`BastConfig::seed`].
    Random,
}

impl LogVictim {
    /// All rules.
    pub const ALL: [LogVictim; 3] = [LogVictim::LeastRecent, LogVictim::Oldest, LogVictim::Random];

    /// The name used in settings and results.
    pub const fn name(self) -> &'static str {
        match self {
            LogVictim::LeastRecent => "lru",
            LogVictim::Oldest => "fifo",
            LogVictim::Random => "random",
        }
    }
}

/// The settings of BAST.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BastConfig {
    /// The settings that every mapping scheme has.
    pub common: FlashConfig,
    /// Number of log blocks, at least 1. `None` means 3 % of the chip. Fixed at format.
    pub log_blocks: Option<u32>,
    /// The rule that picks the log block to merge when all are in use.
    pub victim: LogVictim,
    /// Seed of the draw of [`LogVictim::Random`]; the other rules do not use it.
    pub seed: u64,
}

/// Counters of BAST besides [`nandex::ftl::mapping::FlashCounters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BastCounters {
    /// Merges done because all log blocks were in use.
    pub victims: u64,
    /// Log blocks erased because all their pages were trimmed.
    pub trimmed_logs: u64,
}

/// In [`Log::places`]: the page's contents are unknown, and it is not live.
const UNKNOWN: u16 = u16::MAX;

#[derive(Clone, Debug)]
struct Log {
    pbn: Pbn,
    /// For each page of the log block: the page of the logical block that it holds.
    places: Vec<u16>,
    /// Age by the rule in force. The log block with the lowest stamp is the victim.
    stamp: u64,
}

/// The tables of BAST.
#[derive(Debug)]
pub struct Bast {
    data: BlockMap,
    logs: BTreeMap<Lbn, Log>,
    log_blocks: u32,
    victim: LogVictim,
    rng: Rng,
    clock: u64,
    /// Counters since format or mount.
    pub counters: BastCounters,
}

impl Scheme for Bast {
    type Config = BastConfig;

    const RULES: Rules = Rules { one_data_block: true, has_owners: true, ..Rules::of(*b"BAST") };

    fn common(settings: &BastConfig) -> FlashConfig {
        settings.common
    }

    fn setup(settings: &BastConfig, _: Geometry, good_blocks: u32) -> [u32; 4] {
        [settings.log_blocks.unwrap_or(log_blocks_of(good_blocks)).max(1), 0, 0, 0]
    }

    fn blocks_needed(setup: [u32; 4]) -> u32 {
        setup[0].saturating_add(Bast::blocks_per_write(setup))
    }

    fn blocks_per_write(_: [u32; 4]) -> u32 {
        // A new data block; what a merge gathers into before it gives any back; and one that fails.
        3
    }

    fn open(flash: &mut Flash<'_>, settings: &BastConfig, mounted: Mounted) -> Result<Bast, StoreFault> {
        let mut bast = Bast {
            data: BlockMap::open(flash)?,
            logs: BTreeMap::new(),
            log_blocks: flash.setup()[0],
            victim: settings.victim,
            rng: Rng::new(settings.seed),
            clock: 0,
            counters: BastCounters::default(),
        };
        bast.adopt(flash, &mounted.live)?;
        Ok(bast)
    }

    fn locate(&mut self, flash: &mut Flash<'_>, lpn: u32, _: Cause) -> Result<Option<Ppn>, StoreFault> {
        Ok(self.find(flash, lpn))
    }

    fn write(&mut self, flash: &mut Flash<'_>, host: HostPage<'_>) -> Result<(), StoreFault> {
        let old = self.find(flash, host.lpn);
        if self.data.write_in_place(flash, host)? {
            old.into_iter().for_each(|ppn| flash.invalidate(ppn));
            return Ok(());
        }
        // A program that fails seals its block, which is merged in the next round.
        while !self.append(flash, host)? {}
        Ok(())
    }

    fn trim(&mut self, flash: &mut Flash<'_>, lpn: u32) -> Result<Option<Ppn>, StoreFault> {
        let old = self.find(flash, lpn);
        old.into_iter().for_each(|ppn| flash.invalidate(ppn));
        Ok(old)
    }

    fn evacuate(&mut self, flash: &mut Flash<'_>, pbn: Pbn) -> Result<bool, StoreFault> {
        let by_log = self.logs.iter().find(|(_, log)| log.pbn == pbn).map(|(&lbn, _)| lbn);
        let is_data = flash.tag(pbn).role == Some(PageKind::Data);
        let Some(lbn) = by_log.or(is_data.then_some(Lbn(flash.tag(pbn).owner))) else { return Ok(false) };
        self.merge_in_full(flash, lbn)?;
        Ok(true)
    }

    fn log_blocks(&self) -> u32 {
        self.log_blocks
    }

    fn mapping_bytes(&self) -> usize {
        self.data.ram_bytes()
            + self.logs.values().map(|log| size_of::<(Lbn, Log)>() + log.places.capacity() * 2).sum::<usize>()
    }

    fn mapping_bytes_max(&self, geometry: Geometry) -> usize {
        // Twice for the tree's own.
        let log = 2 * size_of::<(Lbn, Log)>() + geometry.pages_per_block as usize * size_of::<u16>();
        self.data.ram_bytes() + self.log_blocks as usize * log
    }

    fn check(&self, _: &mut Flash<'_>, report: &mut CheckReport) -> Result<u32, StoreFault> {
        if self.logs.len() > self.log_blocks as usize {
            let (found, most) = (self.logs.len(), self.log_blocks);
            report.violation(Invariant::B2, 0, message!("{found} log blocks, there may be {most}"));
        }
        Ok(0)
    }
}

impl Bast {
    /// The logical blocks that have a log block. With each: for every page of its log block, the page of
    /// the logical block that it holds.
    pub fn logs(&self) -> impl Iterator<Item = (Lbn, &[u16])> + '_ {
        self.logs.iter().map(|(&lbn, log)| (lbn, &log.places[..]))
    }

    fn adopt(&mut self, flash: &mut Flash<'_>, live: &[Live]) -> Result<(), StoreFault> {
        let g = flash.geometry();
        for pbn in (0..g.blocks).map(Pbn) {
            if matches!(flash.live_role(pbn), None | Some(PageKind::Data)) {
                continue;
            }
            let pages = flash.live_in(pbn, live)?;
            let lbn = flash.split(pages[0].0).0;
            let mut places: Vec<u16> = Vec::with_capacity(g.pages_per_block as usize);
            for &(number, ppn) in &pages {
                places.resize(g.page_in_block(ppn) as usize, UNKNOWN);
                places.push(flash.split(number).1 as u16);
            }
            let strays = pages.iter().any(|&(number, _)| flash.split(number).0 != lbn);
            if self.data.get(lbn).is_none() && are_in_place(&places) && !strays {
                self.data.adopt(flash, lbn, pbn);
                continue;
            }
            let log = Log { pbn, places, stamp: self.clock };
            self.clock += 1;
            if strays || self.logs.insert(lbn, log).is_some() {
                let what = "a log block holds pages that do not belong there";
                return Err(StoreFault::corrupted(what, pages[0].1.0));
            }
        }
        Ok(())
    }

    fn find(&self, flash: &Flash<'_>, lpn: u32) -> Option<Ppn> {
        let (lbn, place) = flash.split(lpn);
        let in_log = || {
            let log = self.logs.get(&lbn)?;
            let page = log.places.iter().rposition(|&p| u32::from(p) == place)?;
            Some(flash.geometry().page_at(log.pbn, page as u32)).filter(|&ppn| flash.is_valid(ppn))
        };
        in_log().or_else(|| self.data.find(flash, lpn))
    }

    /// Cases 2 to 4 of a write (see the module). Returns false if the program failed.
    fn append(&mut self, flash: &mut Flash<'_>, host: HostPage<'_>) -> Result<bool, StoreFault> {
        let (lbn, place) = flash.split(host.lpn);
        let pages = flash.geometry().pages_per_block;
        if self.logs.get(&lbn).is_some_and(|log| flash.next_page(log.pbn) == pages) {
            self.merge(flash, lbn)?;
        }
        if !self.logs.contains_key(&lbn) {
            self.start_log(flash, lbn)?;
        }
        let old = self.find(flash, host.lpn);
        let Some(log) = self.logs.get_mut(&lbn) else { return Ok(false) };
        let page = flash.next_page(log.pbn);
        log.places.resize(page as usize, UNKNOWN);
        if !flash.write(flash.geometry().page_at(log.pbn, page), PageKind::Log, host)? {
            return Ok(false);
        }
        log.places.push(place as u16);
        if self.victim == LogVictim::LeastRecent {
            log.stamp = self.clock;
            self.clock += 1;
        }
        old.into_iter().for_each(|ppn| flash.invalidate(ppn));
        Ok(true)
    }

    fn start_log(&mut self, flash: &mut Flash<'_>, lbn: Lbn) -> Result<(), StoreFault> {
        while self.logs.len() >= self.log_blocks as usize {
            let Some(victim) = self.choose() else { break };
            self.merge(flash, victim)?;
            self.counters.victims += 1;
        }
        let pbn = flash.take(PageKind::Log, lbn.0, Wear::Least)?;
        let places = Vec::with_capacity(flash.geometry().pages_per_block as usize);
        self.logs.insert(lbn, Log { pbn, places, stamp: self.clock });
        self.clock += 1;
        Ok(())
    }

    fn choose(&mut self) -> Option<Lbn> {
        if self.victim == LogVictim::Random && !self.logs.is_empty() {
            let nth = self.rng.below(self.logs.len() as u64) as usize;
            return self.logs.keys().nth(nth).copied();
        }
        self.logs.iter().min_by_key(|(_, log)| log.stamp).map(|(&lbn, _)| lbn)
    }

    fn merge(&mut self, flash: &mut Flash<'_>, lbn: Lbn) -> Result<(), StoreFault> {
        let Some(log) = self.logs.get(&lbn) else { return Ok(()) };
        let (pbn, pages) = (log.pbn, flash.geometry().pages_per_block);
        if flash.blocks().valid_count(pbn) == 0 {
            self.logs.remove(&lbn);
            self.counters.trimmed_logs += 1;
            return flash.free(pbn, Cause::Merge, Vec::new);
        }
        let fill = flash.next_page(pbn);
        // After a mount the copy that counts may be the one in the data block.
        let first_in_data = self.data.get(lbn).and_then(|data| flash.blocks().next_valid(data, 0));
        let below = first_in_data.is_some_and(|ppn| flash.geometry().page_in_block(ppn) < fill);
        if below || !are_in_place(&log.places) {
            return self.merge_in_full(flash, lbn);
        }
        if fill == pages {
            flash.counters.switch_merges += 1;
        } else {
            let sources = sources(flash, lbn, None, |lpn| self.find(flash, lpn));
            if !flash.fill(pbn, lbn, fill, &sources[fill as usize..])? {
                return self.merge_in_full(flash, lbn);
            }
        }
        self.logs.remove(&lbn);
        self.data.switch(flash, lbn, pbn)
    }

    fn merge_in_full(&mut self, flash: &mut Flash<'_>, lbn: Lbn) -> Result<(), StoreFault> {
        let sources = sources(flash, lbn, None, |lpn| self.find(flash, lpn));
        let old = self.data.gather(flash, lbn, &sources)?;
        let log = self.logs.remove(&lbn).map(|log| log.pbn);
        for pbn in old.into_iter().chain(log) {
            flash.free(pbn, Cause::Merge, Vec::new)?;
        }
        Ok(())
    }
}

fn are_in_place(places: &[u16]) -> bool {
    places.iter().enumerate().all(|(page, &place)| place == UNKNOWN || usize::from(place) == page)
}

#[cfg(test)]
mod tests;
