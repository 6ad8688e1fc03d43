//! FAST: data blocks in place, one log block for sequential writes, the other log blocks shared by all.
//!
//! Source: Lee, Park, Chung, Lee, Park and Song, "A log buffer-based flash translation layer using
//! fully-associative sector translation", ACM TECS 6(3), 2007, as realised in the FlashSim of Pennsylvania
//! State University. Data path: high confidence. Recovery and trim are ours; the original defines none.
//!
//! # State
//!
//! - `data[lbn]`: the data block of a logical block; page `n` of it can hold only page `n` of the logical
//!   block.
//! - SW, the sequential log block: pages `0..fill` hold pages `0..fill` of its owner.
//! - RW, the random log blocks: a queue of at most `log_blocks - 1`; any logical page may be in any of them.
//!
//! # Write
//!
//! 1. The page's place in the data block can be programmed, and no log block has the page: in place. (Where
//!    the chip wants ascending order, places below a programmed one count as programmed.)
//! 2. It is the first page of its logical block: SW is merged (a *switch* if it is full, else a *partial
//!    merge*: the rest of the owner is copied to it), and a new SW starts with this page.
//! 3. SW belongs to the logical block: the next page in sequence is appended; a page above it goes to its
//!    place while the rest is copied (partial merge); a page written again makes a *full merge* of the owner,
//!    the new contents included.
//! 4. Any other page is appended to the last RW block. When all are full, the oldest is the victim: each
//!    logical block with a live page in it gets a full merge (or, as the owner of SW, a partial one), whose
//!    sources are all log blocks.
//!
//! # Invariants
//!
//! - A1: no first page of a logical block is written to an RW block, except one that a mount left there.
//! - A2: a live page is in the RW map, or else in SW, or else in its data block.
//!
//! # Recovery and deviations
//!
//! As in [`nandex::ftl::mapping`]. A log block or data block that was open takes no more pages; SW is then
//! merged in full. An old copy is dropped only after the new one is programmed; the simulators' option to
//! drop it before the victim is chosen saves a merge now and then and loses data at a power cut, so there is
//! none.

use crate::ftl::block_map::BlockMap;
use crate::ftl::log_map::{LogMap, log_blocks_of, sources};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use nandex::blocks::Wear;
use nandex::blocks::spare::PageKind;
use nandex::check::{CheckReport, Invariant, message};
use nandex::fault::StoreFault;
use nandex::ftl::mapping::{Flash, FlashConfig, HostPage, Live, Mounted, NOBODY, Rules, Scheme, SchemeFtl};
use nandex::nand::{Cause, Geometry};
use nandex::units::{Lbn, Pbn, Ppn};

/// A FAST translation layer: all logical blocks share the random log blocks.
pub type FastFtl<N> = SchemeFtl<N, Fast>;

/// The settings of FAST.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FastConfig {
    /// The settings that every mapping scheme has.
    pub common: FlashConfig,
    /// Number of log blocks, the sequential one included, at least 2. `None` means 3 % of the chip. Fixed
    /// at format.
    pub log_blocks: Option<u32>,
    /// Whether a full SW block becomes a data block before one of its pages is written again. If not, a
    /// page written again leads to a full merge.
    pub eager_switch: bool,
}

/// Counters of FAST besides [`nandex::ftl::mapping::FlashCounters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FastCounters {
    /// Full merges of the owner of SW, because a page of SW was written again or SW could not be continued.
    pub full_sw_merges: u64,
    /// Full merges of logical blocks found in an RW victim.
    pub full_rw_merges: u64,
    /// RW blocks erased after their pages were merged.
    pub rw_victims: u64,
}

/// A random log block with the logical page in each of its pages.
#[derive(Debug)]
struct Random {
    pbn: Pbn,
    lpns: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Sequential {
    pbn: Pbn,
    owner: Lbn,
    fill: u32,
}

/// The tables of FAST.
#[derive(Debug)]
pub struct Fast {
    data: BlockMap,
    sw: Option<Sequential>,
    rw: VecDeque<Random>,
    rw_map: LogMap,
    log_blocks: u32,
    eager_switch: bool,
    /// Counters since format or mount.
    pub counters: FastCounters,
}

impl Scheme for Fast {
    type Config = FastConfig;

    const RULES: Rules = Rules { one_data_block: true, has_owners: true, ..Rules::of(*b"FAST") };

    fn common(settings: &FastConfig) -> FlashConfig {
        settings.common
    }

    fn setup(settings: &FastConfig, _: Geometry, good_blocks: u32) -> [u32; 4] {
        [settings.log_blocks.unwrap_or(log_blocks_of(good_blocks)).max(2), 0, 0, 0]
    }

    fn blocks_needed(setup: [u32; 4]) -> u32 {
        setup[0].saturating_add(Fast::blocks_per_write(setup))
    }

    fn blocks_per_write(_: [u32; 4]) -> u32 {
        // A new data block; what its merge gathers into, for the block frees two; and one that fails.
        3
    }

    fn open(flash: &mut Flash<'_>, settings: &FastConfig, mounted: Mounted) -> Result<Fast, StoreFault> {
        let log_blocks = flash.setup()[0];
        let mut fast = Fast {
            data: BlockMap::open(flash)?,
            sw: None,
            rw: VecDeque::new(),
            rw_map: LogMap::default(),
            log_blocks,
            eager_switch: settings.eager_switch,
            counters: FastCounters::default(),
        };
        fast.adopt(flash, &mounted.live)?;
        Ok(fast)
    }

    fn locate(&mut self, flash: &mut Flash<'_>, lpn: u32, _: Cause) -> Result<Option<Ppn>, StoreFault> {
        Ok(self.find(flash, lpn))
    }

    fn write(&mut self, flash: &mut Flash<'_>, host: HostPage<'_>) -> Result<(), StoreFault> {
        if self.write_in_place(flash, host)? {
            return Ok(());
        }
        let (lbn, page) = flash.split(host.lpn);
        let sw = self.sw.filter(|sw| sw.owner == lbn);
        if page == 0 {
            return self.start_sequence(flash, host);
        }
        match sw {
            Some(sw) if page == sw.fill && flash.is_open(sw.pbn, page) => {
                let old = self.find(flash, host.lpn);
                if flash.write(flash.geometry().page_at(sw.pbn, page), PageKind::Sequential, host)? {
                    self.sw = Some(Sequential { fill: page + 1, ..sw });
                    self.rw_map.drop_copy(flash, host.lpn, old);
                    return Ok(());
                }
                self.merge_owner(flash, Some(host))
            }
            Some(sw) if self.eager_switch && sw.fill == flash.geometry().pages_per_block => {
                self.merge_owner(flash, None)?;
                self.append(flash, host)
            }
            Some(_) => self.merge_owner(flash, Some(host)),
            None => self.append(flash, host),
        }
    }

    fn trim(&mut self, flash: &mut Flash<'_>, lpn: u32) -> Result<Option<Ppn>, StoreFault> {
        let old = self.find(flash, lpn);
        self.rw_map.drop_copy(flash, lpn, old);
        Ok(old)
    }

    fn evacuate(&mut self, flash: &mut Flash<'_>, pbn: Pbn) -> Result<bool, StoreFault> {
        let tag = flash.tag(pbn);
        if tag.role != Some(PageKind::Data) {
            return Ok(false);
        }
        if self.sw.is_some_and(|sw| sw.owner.0 == tag.owner) {
            self.merge_owner(flash, None)?;
        } else {
            self.merge_in_full(flash, Lbn(tag.owner), None)?;
        }
        Ok(true)
    }

    fn log_blocks(&self) -> u32 {
        self.log_blocks
    }

    fn mapping_bytes(&self) -> usize {
        self.data.ram_bytes() + self.log_bytes()
    }

    fn mapping_bytes_max(&self, geometry: Geometry) -> usize {
        let log = size_of::<Random>() + geometry.pages_per_block as usize * LOG_PAGE_BYTES;
        // Where blocks have few pages, the row of blocks that grows by doubling is more than those.
        let least = 3 * size_of::<Random>() + geometry.pages_per_block as usize * 2 * size_of::<(u32, Ppn)>();
        self.data.ram_bytes() + self.log_blocks as usize * log.max(least)
    }

    fn check(&self, flash: &mut Flash<'_>, report: &mut CheckReport) -> Result<u32, StoreFault> {
        let is_log = |_, pbn: Pbn| self.rw.iter().any(|block| block.pbn == pbn);
        for (lpn, ppn) in self.rw_map.strays(flash, is_log) {
            let what = message!("lpn {lpn} is mapped to {ppn}, in no log block");
            report.violation(Invariant::A2, u64::from(lpn), what);
        }
        Ok(0)
    }
}

/// Bytes of RAM for each page of a random log block: its logical page number and its entry in the map.
const LOG_PAGE_BYTES: usize = size_of::<u32>() + LogMap::PAGE_BYTES;

impl Fast {
    fn log_bytes(&self) -> usize {
        let blocks = self.rw.iter().map(|block| size_of::<Random>() + block.lpns.capacity() * 4);
        blocks.sum::<usize>() + self.rw_map.ram_bytes()
    }

    /// The owner of the sequential log block, and the number of pages in it.
    pub fn sequential(&self) -> Option<(Lbn, u32)> {
        self.sw.map(|sw| (sw.owner, sw.fill))
    }

    /// The logical pages whose newest copy is in a random log block.
    pub fn random_pages(&self) -> impl Iterator<Item = u32> + '_ {
        self.rw_map.lpns()
    }

    fn adopt(&mut self, flash: &mut Flash<'_>, live: &[Live]) -> Result<(), StoreFault> {
        let g = flash.geometry();
        for pbn in (0..g.blocks).map(Pbn) {
            if flash.live_role(pbn) != Some(PageKind::Sequential) {
                continue;
            }
            for (number, ppn) in flash.live_in(pbn, live)? {
                let (lbn, place) = flash.split(number);
                match (self.data.get(lbn), self.sw) {
                    (Some(data), _) if data == pbn => {}
                    // The merge was completed but for its last step; or the old data block has no live page
                    // any more.
                    (None, _) => self.data.adopt(flash, lbn, pbn),
                    (Some(_), Some(sw)) if sw.pbn == pbn => {
                        self.sw = Some(Sequential { fill: sw.fill.max(place + 1), ..sw });
                    }
                    (Some(_), None) => self.sw = Some(Sequential { pbn, owner: lbn, fill: place + 1 }),
                    (Some(_), Some(_)) => self.adopt_random(flash, number, ppn),
                }
            }
        }
        for pbn in (0..g.blocks).map(Pbn) {
            if flash.live_role(pbn) == Some(PageKind::Log) {
                let pages = flash.live_in(pbn, live)?;
                pages.into_iter().for_each(|(number, ppn)| self.adopt_random(flash, number, ppn));
            }
        }
        if let Some(sw) = &mut self.sw {
            sw.fill = sw.fill.max(flash.next_page(sw.pbn).min(g.pages_per_block));
        }
        Ok(())
    }

    fn adopt_random(&mut self, flash: &Flash<'_>, number: u32, ppn: Ppn) {
        let g = flash.geometry();
        let (pbn, place) = (g.block_of(ppn), g.page_in_block(ppn));
        if self.rw.back().is_none_or(|block| block.pbn != pbn) {
            self.rw.push_back(Random { pbn, lpns: Vec::with_capacity(g.pages_per_block as usize) });
        }
        if let Some(block) = self.rw.back_mut() {
            block.lpns.resize(place as usize, NOBODY);
            block.lpns.push(number);
        }
        self.rw_map.insert(number, ppn);
    }

    fn find(&self, flash: &Flash<'_>, lpn: u32) -> Option<Ppn> {
        let (lbn, page) = flash.split(lpn);
        let at = |pbn: Pbn| Some(flash.geometry().page_at(pbn, page)).filter(|&ppn| flash.is_valid(ppn));
        let in_sw = || self.sw.filter(|sw| sw.owner == lbn).and_then(|sw| at(sw.pbn));
        self.rw_map.get(lpn).or_else(in_sw).or_else(|| self.data.find(flash, lpn))
    }

    /// Case 1 of a write (see the module). Returns false if the case does not apply or the program failed.
    fn write_in_place(&mut self, flash: &mut Flash<'_>, host: HostPage<'_>) -> Result<bool, StoreFault> {
        if self.find(flash, host.lpn).is_some() {
            return Ok(false);
        }
        let (lbn, page) = flash.split(host.lpn);
        if self.sw.is_some_and(|sw| sw.owner == lbn && page < sw.fill) {
            return Ok(false);
        }
        self.data.write_in_place(flash, host)
    }

    /// Case 2 of a write: starts a new SW block.
    fn start_sequence(&mut self, flash: &mut Flash<'_>, host: HostPage<'_>) -> Result<(), StoreFault> {
        if self.sw.is_some() {
            self.merge_owner(flash, None)?;
        }
        let (owner, _) = flash.split(host.lpn);
        loop {
            let pbn = flash.take(PageKind::Sequential, owner.0, Wear::Least)?;
            let old = self.find(flash, host.lpn);
            if flash.write(flash.geometry().page_at(pbn, 0), PageKind::Sequential, host)? {
                self.sw = Some(Sequential { pbn, owner, fill: 1 });
                self.rw_map.drop_copy(flash, host.lpn, old);
                return Ok(());
            }
            flash.free(pbn, Cause::Merge, Vec::new)?;
        }
    }

    /// Ends the sequential log block by the cheapest merge that is possible. `host` is a page of its
    /// owner that the host writes now.
    fn merge_owner(&mut self, flash: &mut Flash<'_>, host: Option<HostPage<'_>>) -> Result<(), StoreFault> {
        let Some(sw) = self.sw else { return Ok(()) };
        let (old, pages) = (self.data.get(sw.owner), flash.geometry().pages_per_block);
        let place = host.map_or(pages, |page| flash.split(page.lpn).1);
        let is_open = sw.fill < pages && flash.is_open(sw.pbn, sw.fill);
        // After a mount the data block may hold the copy that counts of a page in SW.
        let below = |flash: &Flash<'_>, pbn: Pbn| {
            flash.blocks().next_valid(pbn, 0).is_some_and(|p| flash.geometry().page_in_block(p) < sw.fill)
        };
        let covers = !old.is_some_and(|pbn| below(flash, pbn));
        if sw.fill == pages && host.is_none() && covers {
            flash.counters.switch_merges += 1;
        } else if !(is_open && place >= sw.fill && covers && self.complete(flash, sw, host)?) {
            return self.merge_owner_in_full(flash, sw, host);
        }
        self.sw = None;
        self.data.switch(flash, sw.owner, sw.pbn)
    }

    /// Partial merge: copies the rest of the owner to SW. Returns false if a program failed.
    fn complete(
        &mut self,
        flash: &mut Flash<'_>,
        sw: Sequential,
        host: Option<HostPage<'_>>,
    ) -> Result<bool, StoreFault> {
        let sources = sources(flash, sw.owner, host, |lpn| self.find(flash, lpn));
        let old = host.and_then(|page| Some((page.lpn, self.find(flash, page.lpn)?)));
        if !flash.fill(sw.pbn, sw.owner, sw.fill, &sources[sw.fill as usize..])? {
            return Ok(false);
        }
        if let Some((lpn, ppn)) = old {
            self.rw_map.drop_copy(flash, lpn, Some(ppn));
        }
        self.rw_map.forget(flash, sw.owner, sw.fill, |ppn| !flash.is_valid(ppn));
        Ok(true)
    }

    fn merge_owner_in_full(
        &mut self,
        flash: &mut Flash<'_>,
        sw: Sequential,
        host: Option<HostPage<'_>>,
    ) -> Result<(), StoreFault> {
        self.merge_in_full(flash, sw.owner, host)?;
        self.counters.full_sw_merges += 1;
        self.sw = None;
        flash.free(sw.pbn, Cause::Merge, Vec::new)
    }

    fn merge_in_full(
        &mut self,
        flash: &mut Flash<'_>,
        lbn: Lbn,
        host: Option<HostPage<'_>>,
    ) -> Result<(), StoreFault> {
        let sources = sources(flash, lbn, host, |lpn| self.find(flash, lpn));
        let old = host.and_then(|page| Some((page.lpn, self.find(flash, page.lpn)?)));
        let pbn = flash.gather(lbn, &sources)?;
        if let Some((lpn, ppn)) = old {
            self.rw_map.drop_copy(flash, lpn, Some(ppn));
        }
        self.rw_map.forget(flash, lbn, 0, |ppn| !flash.is_valid(ppn));
        self.data.switch(flash, lbn, pbn)
    }

    /// Case 4 of a write: appends to the last RW block.
    fn append(&mut self, flash: &mut Flash<'_>, host: HostPage<'_>) -> Result<(), StoreFault> {
        loop {
            self.make_tail(flash)?;
            let Some(tail) = self.rw.back_mut() else { continue };
            let place = flash.next_page(tail.pbn);
            let ppn = flash.geometry().page_at(tail.pbn, place);
            tail.lpns.resize(place as usize, NOBODY);
            tail.lpns.push(host.lpn);
            let old = self.find(flash, host.lpn);
            if flash.write(ppn, PageKind::Log, host)? {
                self.rw_map.drop_copy(flash, host.lpn, old);
                self.rw_map.insert(host.lpn, ppn);
                return Ok(());
            }
        }
    }

    fn make_tail(&mut self, flash: &mut Flash<'_>) -> Result<(), StoreFault> {
        let pages = flash.geometry().pages_per_block;
        if self.rw.back().is_some_and(|block| flash.next_page(block.pbn) < pages) {
            return Ok(());
        }
        while self.rw.len() + 1 >= self.log_blocks as usize {
            self.merge_victim(flash)?;
        }
        let pbn = flash.take(PageKind::Log, NOBODY, Wear::Least)?;
        self.rw.push_back(Random { pbn, lpns: Vec::with_capacity(pages as usize) });
        Ok(())
    }

    fn merge_victim(&mut self, flash: &mut Flash<'_>) -> Result<(), StoreFault> {
        let Some(victim) = self.rw.front().map(|block| block.pbn) else { return Ok(()) };
        while let Some(ppn) = flash.blocks().next_valid(victim, 0) {
            let lpn = self.rw[0].lpns[flash.geometry().page_in_block(ppn) as usize];
            let (lbn, _) = flash.split(lpn);
            if self.sw.is_some_and(|sw| sw.owner == lbn) {
                self.merge_owner(flash, None)?;
            } else {
                self.merge_in_full(flash, lbn, None)?;
                self.counters.full_rw_merges += 1;
            }
        }
        self.rw.pop_front();
        self.counters.rw_victims += 1;
        flash.free(victim, Cause::Merge, Vec::new)
    }
}

#[cfg(test)]
mod tests;
