//! SAST, the N:K scheme: data blocks in place; N logical blocks share up to K log blocks.
//!
//! Source: Park, Cheon, Kang, Roh, Cho and Kim, "A reconfigurable FTL (flash translation layer) architecture
//! for NAND flash-based applications", ACM TECS 7(4), 2008, as realised in the simulator wiscsee. High
//! confidence as far as that code goes; recovery and trim are ours.
//!
//! # State
//!
//! - `data[lbn]`: the data block of a logical block; page `n` of it can hold only page `n` of the logical
//!   block.
//! - Groups of `group_blocks` (N) logical blocks, each with a queue of at most `logs_per_group` (K) log
//!   blocks, any page of the group in any of them; `log_map` says where the newest copy of a page is. All
//!   groups together have at most `log_blocks`.
//!
//! # Write
//!
//! 1. The page's place in the data block can be programmed: in place. (Where the chip wants ascending order,
//!    places below a programmed one count as programmed.)
//! 2. The last log block of the group has room: appended.
//! 3. The group has K log blocks: it is cleaned. All log blocks are in use: the group not written for longest
//!    is cleaned. Then the group gets a log block, which takes the page.
//!
//! # Cleaning
//!
//! Log block by log block, the oldest first; all of the group, or only the oldest one, by a setting. Each by
//! the cheapest way there is:
//! - No page is live: erased.
//! - *Switch*: full, and page `n` holds the newest copy of page `n` of one logical block. It becomes the data
//!   block.
//! - *Partial*: the same of the pages programmed so far, the rest is erased. The rest is copied from wherever
//!   it is.
//! - *Full*: every logical block with a live page in it is gathered in a new block.
//!
//! With N = K = 1 this is BAST with its oldest rule for victims (LRU), merge for merge. With one group and
//! any number of log blocks to it, cleaning only the oldest, it is FAST without the sequential log block.
//!
//! # Blocks
//!
//! One for each logical block, `log_blocks`, and three: one that a full merge takes before it gives any back,
//! and two in place of blocks that fail in it or before it.
//!
//! # Invariants
//!
//! - S1: a live page is in the log map, in a log block of its group; or else in its place in the data block.
//! - S2: no group has more than K log blocks, and all have at most `log_blocks`.
//!
//! # Recovery and deviations
//!
//! As in [`nandex::ftl::mapping`], and as in [`crate::ftl::bast`] what concerns blocks of log pages all in
//! place. The original cleans in the background between two marks of used blocks; here cleaning happens when
//! a log block is needed. The order of log blocks and of the use of groups is not kept over a mount.

use crate::ftl::block_map::BlockMap;
use crate::ftl::log_map::{LogMap, log_blocks_of, sources};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use nandex::blocks::Wear;
use nandex::blocks::spare::PageKind;
use nandex::check::{CheckReport, Invariant, message, words};
use nandex::fault::StoreFault;
use nandex::ftl::mapping::{Flash, FlashConfig, HostPage, Live, Mounted, NOBODY, Rules, Scheme, SchemeFtl};
use nandex::nand::{Cause, Geometry};
use nandex::store::StoreError;
use nandex::units::{Lbn, Pbn, Ppn};

/// An N:K translation layer: N logical blocks share up to K log blocks.
pub type SastFtl<N> = SchemeFtl<N, Sast>;

/// The settings of SAST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SastConfig {
    /// The settings that every mapping scheme has.
    pub common: FlashConfig,
    /// N: logical blocks in a group, at least 1. Fixed at format.
    pub group_blocks: u32,
    /// K: log blocks that a group may have, at least 1. Fixed at format.
    pub logs_per_group: u32,
    /// Log blocks of all groups together, at least 1. `None` means 3 % of the chip. Fixed at format.
    pub log_blocks: Option<u32>,
    /// Whether cleaning a group cleans all its log blocks, as in the original, or only the oldest.
    pub whole_group: bool,
}

impl Default for SastConfig {
    fn default() -> SastConfig {
        SastConfig {
            common: FlashConfig::default(),
            group_blocks: 4,
            logs_per_group: 2,
            log_blocks: None,
            whole_group: true,
        }
    }
}

/// Counters of SAST besides [`nandex::ftl::mapping::FlashCounters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SastCounters {
    /// Groups cleaned because they had reached K log blocks.
    pub full_groups: u64,
    /// Groups cleaned because all log blocks of the store were in use.
    pub victim_groups: u64,
    /// Log blocks erased because no page in them was live.
    pub empty_logs: u64,
}

/// A log block with the logical page in each of its pages.
#[derive(Clone, Debug)]
struct Log {
    pbn: Pbn,
    lpns: Vec<u32>,
}

#[derive(Clone, Debug, Default)]
struct Group {
    /// The log blocks of the group, the oldest first. Only the last one may have room.
    logs: VecDeque<Log>,
    written: u64,
}

/// The tables of SAST.
#[derive(Debug)]
pub struct Sast {
    data: BlockMap,
    groups: BTreeMap<u32, Group>,
    log_map: LogMap,
    logs_in_use: u32,
    group_blocks: u32,
    logs_per_group: u32,
    log_blocks: u32,
    whole_group: bool,
    clock: u64,
    /// Counters since format or mount.
    pub counters: SastCounters,
}

impl Scheme for Sast {
    type Config = SastConfig;

    const RULES: Rules = Rules { one_data_block: true, has_owners: true, ..Rules::of(*b"SAST") };

    fn common(settings: &SastConfig) -> FlashConfig {
        settings.common
    }

    fn setup(settings: &SastConfig, _: Geometry, good_blocks: u32) -> [u32; 4] {
        let log_blocks = settings.log_blocks.unwrap_or(log_blocks_of(good_blocks));
        [log_blocks.max(1), settings.group_blocks.max(1), settings.logs_per_group.max(1), 0]
    }

    fn blocks_needed(setup: [u32; 4]) -> u32 {
        setup[0].saturating_add(Sast::blocks_per_write(setup))
    }

    fn blocks_per_write(_: [u32; 4]) -> u32 {
        // A new data block; what a merge gathers into before it gives any back; and one that fails.
        3
    }

    fn open(flash: &mut Flash<'_>, settings: &SastConfig, mounted: Mounted) -> Result<Sast, StoreFault> {
        let [log_blocks, group_blocks, logs_per_group, _] = flash.setup();
        if group_blocks == 0 {
            return Err(StoreError::Corrupted { what: words("groups of no logical block"), at: 0 }.into());
        }
        let mut sast = Sast {
            data: BlockMap::open(flash)?,
            groups: BTreeMap::new(),
            log_map: LogMap::default(),
            logs_in_use: 0,
            group_blocks,
            logs_per_group,
            log_blocks,
            whole_group: settings.whole_group,
            clock: 0,
            counters: SastCounters::default(),
        };
        sast.adopt(flash, &mounted.live)?;
        Ok(sast)
    }

    fn locate(&mut self, flash: &mut Flash<'_>, lpn: u32, _: Cause) -> Result<Option<Ppn>, StoreFault> {
        Ok(self.find(flash, lpn))
    }

    fn write(&mut self, flash: &mut Flash<'_>, host: HostPage<'_>) -> Result<(), StoreFault> {
        let old = self.find(flash, host.lpn);
        if self.data.write_in_place(flash, host)? {
            self.log_map.drop_copy(flash, host.lpn, old);
            return Ok(());
        }
        // A program that fails seals its log block, and the next one is tried.
        while !self.append(flash, host)? {}
        Ok(())
    }

    fn trim(&mut self, flash: &mut Flash<'_>, lpn: u32) -> Result<Option<Ppn>, StoreFault> {
        let old = self.find(flash, lpn);
        self.log_map.drop_copy(flash, lpn, old);
        Ok(old)
    }

    fn evacuate(&mut self, flash: &mut Flash<'_>, pbn: Pbn) -> Result<bool, StoreFault> {
        let tag = flash.tag(pbn);
        if tag.role == Some(PageKind::Data) {
            self.merge_in_full(flash, Lbn(tag.owner))?;
            return Ok(true);
        }
        let mut places = self.groups.iter().flat_map(|(&group, g)| {
            g.logs.iter().enumerate().map(move |(index, log)| (group, index, log.pbn))
        });
        let Some((group, index, _)) = places.find(|&(.., log)| log == pbn) else { return Ok(false) };
        self.merge_all_in(flash, group, index)?;
        self.erase_log(flash, group, index)?;
        Ok(true)
    }

    fn log_blocks(&self) -> u32 {
        self.log_blocks
    }

    fn mapping_bytes(&self) -> usize {
        let logs = self.groups.values().flat_map(|group| &group.logs);
        self.data.ram_bytes()
            + self.groups.len() * size_of::<(u32, Group)>()
            + logs.map(|log| size_of::<Log>() + log.lpns.capacity() * 4).sum::<usize>()
            + self.log_map.ram_bytes()
    }

    fn mapping_bytes_max(&self, geometry: Geometry) -> usize {
        let page = size_of::<u32>() + LogMap::PAGE_BYTES;
        let log = size_of::<(u32, Group)>() + size_of::<Log>() + geometry.pages_per_block as usize * page;
        // Where blocks have few pages, rows that grow by doubling are more than those.
        let pages = geometry.pages_per_block as usize * (size_of::<u32>() + size_of::<(u32, Ppn)>());
        let least = 2 * size_of::<(u32, Group)>() + 4 * size_of::<Log>() + pages;
        self.data.ram_bytes() + self.log_blocks as usize * log.max(least)
    }

    fn check(&self, flash: &mut Flash<'_>, report: &mut CheckReport) -> Result<u32, StoreFault> {
        let is_log = |lpn: u32, pbn: Pbn| {
            let group = self.groups.get(&self.group_of(flash.split(lpn).0));
            group.is_some_and(|g| g.logs.iter().any(|log| log.pbn == pbn))
        };
        for (lpn, ppn) in self.log_map.strays(flash, is_log) {
            let what = message!("lpn {lpn} is mapped to {ppn}, in no log block of its group");
            report.violation(Invariant::S1, u64::from(lpn), what);
        }
        let counts = self.groups.values().map(|group| group.logs.len() as u32);
        if counts.clone().sum::<u32>() != self.logs_in_use
            || self.logs_in_use > self.log_blocks
            || counts.max().unwrap_or(0) > self.logs_per_group
        {
            let (found, most) = (self.logs_in_use, self.log_blocks);
            let found = message!("{found} log blocks in {:?}, {most} allowed", self.groups);
            report.violation(Invariant::S2, 0, found);
        }
        Ok(0)
    }
}

impl Sast {
    /// Log blocks with their group, and the logical page in each of their pages.
    pub fn logs(&self) -> impl Iterator<Item = (u32, &[u32])> + '_ {
        self.groups.iter().flat_map(|(&group, g)| g.logs.iter().map(move |log| (group, &log.lpns[..])))
    }

    fn group_of(&self, lbn: Lbn) -> u32 {
        lbn.0 / self.group_blocks
    }

    fn adopt(&mut self, flash: &mut Flash<'_>, live: &[Live]) -> Result<(), StoreFault> {
        let g = flash.geometry();
        for pbn in (0..g.blocks).map(Pbn) {
            if matches!(flash.live_role(pbn), None | Some(PageKind::Data)) {
                continue;
            }
            let pages = flash.live_in(pbn, live)?;
            let lbn = flash.split(pages[0].0).0;
            let in_place = |&(page, ppn): &(u32, Ppn)| flash.split(page) == (lbn, g.page_in_block(ppn));
            if self.data.get(lbn).is_none() && pages.iter().all(in_place) {
                self.data.adopt(flash, lbn, pbn);
                continue;
            }
            let number = self.group_of(lbn);
            if pages.iter().any(|&(page, _)| self.group_of(flash.split(page).0) != number) {
                let what = "a log block holds pages that do not belong there";
                return Err(StoreFault::corrupted(what, pages[0].1.0));
            }
            let mut lpns: Vec<u32> = Vec::with_capacity(g.pages_per_block as usize);
            for (page, ppn) in pages {
                lpns.resize(g.page_in_block(ppn) as usize, NOBODY);
                lpns.push(page);
                self.log_map.insert(page, ppn);
            }
            let logs = &mut self.groups.entry(number).or_default().logs;
            self.logs_in_use += 1;
            // The one with room comes last.
            match logs.back().is_some_and(|last| flash.next_page(last.pbn) < g.pages_per_block) {
                true => logs.push_front(Log { pbn, lpns }),
                false => logs.push_back(Log { pbn, lpns }),
            }
        }
        Ok(())
    }

    fn find(&self, flash: &Flash<'_>, lpn: u32) -> Option<Ppn> {
        self.log_map.get(lpn).or_else(|| self.data.find(flash, lpn))
    }

    /// Cases 2 and 3 of a write (see the module). Returns false if the program failed.
    fn append(&mut self, flash: &mut Flash<'_>, host: HostPage<'_>) -> Result<bool, StoreFault> {
        let number = self.group_of(flash.split(host.lpn).0);
        self.make_room(flash, number)?;
        let old = self.find(flash, host.lpn);
        let Some(group) = self.groups.get_mut(&number) else { return Ok(false) };
        let Some(log) = group.logs.back_mut() else { return Ok(false) };
        let page = flash.next_page(log.pbn);
        let ppn = flash.geometry().page_at(log.pbn, page);
        log.lpns.resize(page as usize, NOBODY);
        if !flash.write(ppn, PageKind::Log, host)? {
            return Ok(false);
        }
        log.lpns.push(host.lpn);
        group.written = self.clock;
        self.clock += 1;
        self.log_map.drop_copy(flash, host.lpn, old);
        self.log_map.insert(host.lpn, ppn);
        Ok(true)
    }

    fn make_room(&mut self, flash: &mut Flash<'_>, number: u32) -> Result<(), StoreFault> {
        let pages = flash.geometry().pages_per_block;
        let logs = self.groups.get(&number).map(|group| &group.logs);
        if logs.and_then(|logs| logs.back()).is_some_and(|log| flash.next_page(log.pbn) < pages) {
            return Ok(());
        }
        if logs.map_or(0, VecDeque::len) >= self.logs_per_group as usize {
            self.clean(flash, number)?;
            self.counters.full_groups += 1;
        }
        while self.logs_in_use >= self.log_blocks {
            let victim = self.groups.iter().min_by_key(|(_, group)| group.written);
            let Some((&victim, _)) = victim else { break };
            self.clean(flash, victim)?;
            self.counters.victim_groups += 1;
        }
        let pbn = flash.take(PageKind::Log, NOBODY, Wear::Least)?;
        let group = self.groups.entry(number).or_default();
        group.logs.push_back(Log { pbn, lpns: Vec::with_capacity(pages as usize) });
        group.written = self.clock;
        self.clock += 1;
        self.logs_in_use += 1;
        Ok(())
    }

    fn clean(&mut self, flash: &mut Flash<'_>, number: u32) -> Result<(), StoreFault> {
        let count = self.groups.get(&number).map_or(0, |group| group.logs.len());
        for _ in 0..if self.whole_group { count } else { count.min(1) } {
            self.clean_oldest(flash, number)?;
        }
        Ok(())
    }

    fn clean_oldest(&mut self, flash: &mut Flash<'_>, number: u32) -> Result<(), StoreFault> {
        let Some(log) = self.groups.get(&number).and_then(|group| group.logs.front()) else { return Ok(()) };
        let pbn = log.pbn;
        if flash.blocks().valid_count(pbn) == 0 {
            self.counters.empty_logs += 1;
            return self.erase_log(flash, number, 0);
        }
        let Some(owner) = self.owner_in_place(flash, log) else {
            self.merge_all_in(flash, number, 0)?;
            return self.erase_log(flash, number, 0);
        };
        let fill = flash.next_page(pbn);
        if fill == flash.geometry().pages_per_block {
            flash.counters.switch_merges += 1;
        } else {
            let sources = sources(flash, owner, None, |lpn| self.find(flash, lpn));
            if !flash.fill(pbn, owner, fill, &sources[fill as usize..])? {
                self.merge_all_in(flash, number, 0)?;
                return self.erase_log(flash, number, 0);
            }
        }
        self.remove_log(number, 0);
        // All of it is in the data block by now.
        self.log_map.forget(flash, owner, 0, |_| true);
        self.data.switch(flash, owner, pbn)
    }

    /// The logical block whose newest pages are in a log block, in order from its first page on; `None` if
    /// there is none.
    fn owner_in_place(&self, flash: &Flash<'_>, log: &Log) -> Option<Lbn> {
        let owner = flash.split(*log.lpns.iter().find(|&&lpn| lpn != NOBODY)?).0;
        let in_place = |(page, &lpn): (u32, &u32)| lpn == NOBODY || lpn == flash.lpn_at(owner, page);
        let here = |page: u32| {
            let newest = self.find(flash, flash.lpn_at(owner, page));
            newest.is_none_or(|ppn| ppn == flash.geometry().page_at(log.pbn, page))
        };
        let all = (0..).zip(&log.lpns).all(in_place) && (0..flash.next_page(log.pbn)).all(here);
        all.then_some(owner)
    }

    /// Gathers every logical block with a live page in a log block.
    fn merge_all_in(&mut self, flash: &mut Flash<'_>, number: u32, index: usize) -> Result<(), StoreFault> {
        while let Some(log) = self.groups.get(&number).and_then(|group| group.logs.get(index)) {
            let Some(ppn) = flash.blocks().next_valid(log.pbn, 0) else { break };
            let lbn = flash.split(log.lpns[flash.geometry().page_in_block(ppn) as usize]).0;
            self.merge_in_full(flash, lbn)?;
        }
        Ok(())
    }

    fn merge_in_full(&mut self, flash: &mut Flash<'_>, lbn: Lbn) -> Result<(), StoreFault> {
        let sources = sources(flash, lbn, None, |lpn| self.find(flash, lpn));
        let old = self.data.gather(flash, lbn, &sources)?;
        // All of it is in the data block by now.
        self.log_map.forget(flash, lbn, 0, |_| true);
        match old {
            Some(old) => flash.free(old, Cause::Merge, Vec::new),
            None => Ok(()),
        }
    }

    fn remove_log(&mut self, number: u32, index: usize) -> Option<Pbn> {
        let group = self.groups.get_mut(&number)?;
        let log = group.logs.remove(index)?;
        if group.logs.is_empty() {
            self.groups.remove(&number);
        }
        self.logs_in_use -= 1;
        Some(log.pbn)
    }

    /// Gives back a log block without live pages.
    fn erase_log(&mut self, flash: &mut Flash<'_>, number: u32, index: usize) -> Result<(), StoreFault> {
        match self.remove_log(number, index) {
            Some(pbn) => flash.free(pbn, Cause::Merge, Vec::new),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
