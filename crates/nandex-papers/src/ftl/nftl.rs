//! NFTL: every page in its place, in the first block of a chain that still has the place free.
//!
//! Source: the Linux driver `nftl` (`drivers/mtd/nftlcore.c`, `nftlmount.c`), after the patent of A. Ban,
//! "Flash file system", 1995. High confidence for writing and folding; versions, mounting and trim are ours.
//!
//! # State
//!
//! - For each virtual unit (logical block) a chain of blocks: the primary one, then replacement blocks from
//!   the oldest to the newest. `first[unit]` and `next[block]` are its links. Page `n` of each of them can
//!   hold only page `n` of the unit, and at most one of these pages is live.
//!
//! # Read
//!
//! The block of the chain whose page is live, if any. The original reads the spare areas along the chain to
//! find it.
//!
//! # Write
//!
//! 1. Along the chain: the first block whose page can be programmed takes it. (Where the chip wants ascending
//!    order, places below a programmed one count as programmed, so that chains grow faster.)
//! 2. The chain is as long as it may be: it is folded, and the new block takes the page too.
//! 3. A replacement block is appended. When there is no free block to take, the longest chain is folded
//!    first.
//!
//! # Fold
//!
//! - *In place*, if every live page is in the last block or its place there can be programmed: the others are
//!   copied there. Counted as a partial merge.
//! - *Out of place*: all live pages are gathered in a new block. Counted as a full merge.
//!
//! The other blocks of the chain are erased, in its order.
//!
//! # Blocks
//!
//! One for each unit; four that only folding may take (one for the copies, three in place of blocks that fail
//! in it) and as many as a base takes stay free; and two replacement blocks. So when no more may be taken,
//! some chain has two blocks, and folding it gives back at least one more than it takes.
//!
//! # Invariants
//!
//! - C1: a block is in at most one chain; all its live pages belong to that unit, each in its place.
//! - C2: a fold that makes room only copies: cut short, it leaves no more blocks in use than before it. One
//!   that takes a page of the host as well may leave one more, and is done only while blocks are free
//!   besides.
//!
//! # Recovery and deviations
//!
//! As in [`nandex::ftl::mapping`]. The original programs spare areas again, to mark a sector as deleted or a
//! unit as being folded; the parts meant here take one program per page, so what is live is known in RAM and
//! by versions after a mount. It formats a whole chain when one header in it cannot be read; here the
//! readable pages of a damaged unit are kept. It drops the old copy of a page before the new one is written
//! when that write makes it fold; here the old one counts until the new one is programmed. After an unclean
//! end no block takes more pages, and the order of a chain is that of the block numbers; after a clean one it
//! is kept in the base.

use crate::ftl::log_map::sources;
use alloc::vec;
use alloc::vec::Vec;
use nandex::blocks::Wear;
use nandex::blocks::spare::PageKind;
use nandex::check::{CheckReport, Invariant, message};
use nandex::fault::StoreFault;
use nandex::ftl::mapping::{
    ChipPlan, Flash, FlashConfig, HostPage, Mounted, Rules, Scheme, SchemeFtl, Source,
};
use nandex::nand::{Cause, Geometry};
use nandex::store::StoreError;
use nandex::units::{Lbn, Pbn, Ppn};

/// An NFTL translation layer: each virtual unit is a chain of blocks.
pub type NftlFtl<N> = SchemeFtl<N, Nftl>;

/// The settings of NFTL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NftlConfig {
    /// The settings that every mapping scheme has.
    pub common: FlashConfig,
    /// Most blocks of a chain, at least 2. `None` means no limit except the number of blocks.
    pub chain_blocks_max: Option<u32>,
}

/// Counters of NFTL besides [`nandex::ftl::mapping::FlashCounters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NftlCounters {
    /// Replacement blocks appended to chains.
    pub replacements: u64,
    /// Folds done because no block was free to take.
    pub folds_for_room: u64,
    /// Folds done because a chain had reached its greatest length.
    pub folds_of_long_chains: u64,
    /// The greatest length that a chain has had, in blocks.
    pub longest_chain: u64,
}

/// In the links: the end of a chain.
const NONE: u32 = u32::MAX;

/// Free blocks that only folding may take, in addition to those of a base.
const FOLD_BLOCKS: u32 = 4;

/// Bytes of a base for each block: its rank in its chain.
const RANK_BYTES: u32 = 1;

/// The tables of NFTL.
#[derive(Debug)]
pub struct Nftl {
    first: Vec<u32>,
    next: Vec<u32>,
    chain_blocks_max: u32,
    floor: u32,
    /// Counters since format or mount.
    pub counters: NftlCounters,
}

impl Scheme for Nftl {
    type Config = NftlConfig;

    const RULES: Rules = Rules { has_owners: true, ..Rules::of(*b"NFTL") };

    fn common(settings: &NftlConfig) -> FlashConfig {
        settings.common
    }

    fn setup(_: &NftlConfig, geometry: Geometry, _: u32) -> [u32; 4] {
        [geometry.blocks, 0, 0, 0]
    }

    fn blocks_needed(_: [u32; 4]) -> u32 {
        FOLD_BLOCKS + 2
    }

    fn blocks_per_write(_: [u32; 4]) -> u32 {
        // What a fold gathers into before it gives any back, and one that fails.
        2
    }

    fn extra_bytes_max(setup: [u32; 4]) -> usize {
        (setup[0] * RANK_BYTES) as usize
    }

    fn open(flash: &mut Flash<'_>, settings: &NftlConfig, mounted: Mounted) -> Result<Nftl, StoreFault> {
        let g = flash.geometry();
        let units = flash.page_count().div_ceil(g.pages_per_block);
        let mut nftl = Nftl {
            first: vec![NONE; units as usize],
            next: vec![NONE; g.blocks as usize],
            chain_blocks_max: settings.chain_blocks_max.unwrap_or(u32::MAX).max(2),
            floor: ChipPlan::base_blocks(g, (g.blocks * RANK_BYTES) as usize) + FOLD_BLOCKS,
            counters: NftlCounters::default(),
        };
        for page in &mounted.live {
            let owner = flash.tag(g.block_of(page.ppn())).owner;
            if flash.split(page.number()) != (Lbn(owner), g.page_in_block(page.ppn())) {
                let what = "a page of a chain is out of its place";
                return Err(StoreFault::corrupted(what, page.ppn().0));
            }
        }
        let ranks = if mounted.is_clean { &mounted.extra[..] } else { &[] };
        for pbn in (0..g.blocks).map(Pbn).filter(|&pbn| flash.live_role(pbn).is_some()) {
            let unit = Lbn(flash.tag(pbn).owner);
            if unit.0 >= units {
                let what = "a block of a chain belongs to no unit";
                return Err(StoreFault::corrupted(what, pbn.0));
            }
            nftl.enter(unit, pbn, ranks);
        }
        Ok(nftl)
    }

    fn locate(&mut self, flash: &mut Flash<'_>, lpn: u32, _: Cause) -> Result<Option<Ppn>, StoreFault> {
        Ok(self.find(flash, lpn))
    }

    fn write(&mut self, flash: &mut Flash<'_>, host: HostPage<'_>) -> Result<(), StoreFault> {
        let (unit, page) = flash.split(host.lpn);
        // Blocks that failed came out of the reserve.
        while flash.blocks().free_count() < self.floor && self.fold_longest(flash)? {}
        loop {
            if let Some(pbn) = self.chain(unit).find(|&pbn| flash.is_open(pbn, page)) {
                let (old, ppn) = (self.find(flash, host.lpn), flash.geometry().page_at(pbn, page));
                if flash.write(ppn, PageKind::Data, host)? {
                    old.into_iter().for_each(|ppn| flash.invalidate(ppn));
                    return Ok(());
                }
                // The block is sealed now.
                continue;
            }
            let has_room = flash.blocks().free_count() > self.floor;
            if self.chain(unit).count() >= self.chain_blocks_max as usize {
                self.counters.folds_of_long_chains += 1;
                if has_room {
                    return self.fold_out(flash, unit, Some(host));
                }
                self.fold(flash, unit)?;
            } else if has_room {
                self.append(flash, unit)?;
            } else if !self.fold_longest(flash)? {
                return Err(StoreError::Full.into());
            }
        }
    }

    fn trim(&mut self, flash: &mut Flash<'_>, lpn: u32) -> Result<Option<Ppn>, StoreFault> {
        let old = self.find(flash, lpn);
        old.into_iter().for_each(|ppn| flash.invalidate(ppn));
        Ok(old)
    }

    fn evacuate(&mut self, flash: &mut Flash<'_>, pbn: Pbn) -> Result<bool, StoreFault> {
        let unit = flash.tag(pbn).owner;
        let is_member = (unit as usize) < self.first.len() && self.chain(Lbn(unit)).any(|block| block == pbn);
        if flash.blocks().free_count() < self.floor || !is_member {
            return Ok(false);
        }
        self.fold_out(flash, Lbn(unit), None)?;
        Ok(true)
    }

    /// Encodes the rank of each block in its chain.
    fn encode(&self) -> Vec<u8> {
        let mut ranks = vec![0; self.next.len() * RANK_BYTES as usize];
        for unit in 0..self.first.len() as u32 {
            for (rank, pbn) in self.chain(Lbn(unit)).enumerate() {
                ranks[pbn.index()] = rank.min(usize::from(u8::MAX)) as u8;
            }
        }
        ranks
    }

    fn mapping_bytes(&self) -> usize {
        (self.first.len() + self.next.len()) * size_of::<u32>()
    }

    fn other_bytes(&self) -> usize {
        // The ranks, while a base is written.
        self.next.len() * RANK_BYTES as usize
    }

    fn check(&self, flash: &mut Flash<'_>, report: &mut CheckReport) -> Result<u32, StoreFault> {
        let mut seen = vec![false; self.next.len()];
        for unit in (0..self.first.len() as u32).map(Lbn) {
            for pbn in self.chain(unit).take(self.next.len()) {
                if core::mem::replace(&mut seen[pbn.index()], true) || flash.tag(pbn).owner != unit.0 {
                    let what = message!("{pbn} is in the chain of {unit} and belongs elsewhere");
                    report.violation(Invariant::C1, u64::from(pbn.0), what);
                }
            }
        }
        Ok(0)
    }
}

impl Nftl {
    /// The blocks of a virtual unit, the oldest first.
    pub fn chain(&self, unit: Lbn) -> impl Iterator<Item = Pbn> + '_ {
        let link = |at: u32| Some(at).filter(|&at| at != NONE);
        core::iter::successors(link(self.first[unit.index()]), move |&at| link(self.next[at as usize]))
            .map(Pbn)
    }

    /// The number of free blocks at or below which chains are folded.
    pub fn floor(&self) -> u32 {
        self.floor
    }

    /// Makes `blocks` the chain of a unit. Blocks that were in it and are not in `blocks` belong to no
    /// chain then.
    fn link(&mut self, unit: Lbn, blocks: impl Iterator<Item = Pbn>) {
        let mut former = core::mem::replace(&mut self.first[unit.index()], NONE);
        while former != NONE {
            former = core::mem::replace(&mut self.next[former as usize], NONE);
        }
        let (mut last, mut count) = (None::<Pbn>, 0);
        for pbn in blocks {
            match last.replace(pbn) {
                None => self.first[unit.index()] = pbn.0,
                Some(before) => self.next[before.index()] = pbn.0,
            }
            count += 1;
        }
        self.counters.longest_chain = self.counters.longest_chain.max(count);
    }

    /// Inserts a block into the chain of a unit, in the order of ranks, then of block numbers.
    fn enter(&mut self, unit: Lbn, pbn: Pbn, ranks: &[u8]) {
        let order = |pbn: Pbn| (ranks.get(pbn.index()).copied().unwrap_or(0), pbn);
        let before = self.chain(unit).take_while(|&member| order(member) < order(pbn)).last();
        let link = match before {
            None => &mut self.first[unit.index()],
            Some(before) => &mut self.next[before.index()],
        };
        let after = core::mem::replace(link, pbn.0);
        self.next[pbn.index()] = after;
        self.counters.longest_chain = self.counters.longest_chain.max(self.chain(unit).count() as u64);
    }

    fn find(&self, flash: &Flash<'_>, lpn: u32) -> Option<Ppn> {
        let (unit, page) = flash.split(lpn);
        self.chain(unit).map(|pbn| flash.geometry().page_at(pbn, page)).find(|&ppn| flash.is_valid(ppn))
    }

    fn append(&mut self, flash: &mut Flash<'_>, unit: Lbn) -> Result<(), StoreFault> {
        let pbn = flash.take(PageKind::Data, unit.0, Wear::Least)?;
        let last = self.chain(unit).last();
        self.counters.replacements += u64::from(last.is_some());
        match last {
            None => self.first[unit.index()] = pbn.0,
            Some(last) => self.next[last.index()] = pbn.0,
        }
        self.next[pbn.index()] = NONE;
        self.counters.longest_chain = self.counters.longest_chain.max(self.chain(unit).count() as u64);
        Ok(())
    }

    /// Folds the longest chain. Returns false if no chain has a block to give back.
    fn fold_longest(&mut self, flash: &mut Flash<'_>) -> Result<bool, StoreFault> {
        let Some(unit) = self.longest(flash) else { return Ok(false) };
        self.counters.folds_for_room += 1;
        self.fold(flash, unit)?;
        Ok(true)
    }

    /// The longest chain if it has at least two blocks, else a chain without live pages.
    fn longest(&self, flash: &Flash<'_>) -> Option<Lbn> {
        let units = || (0..self.first.len() as u32).map(Lbn);
        // The first of equals.
        let longest = units().rev().max_by_key(|&unit| self.chain(unit).count())?;
        if self.chain(longest).count() >= 2 {
            return Some(longest);
        }
        let is_dead = |unit: &Lbn| self.chain(*unit).any(|pbn| flash.blocks().valid_count(pbn) == 0);
        units().find(is_dead)
    }

    fn fold(&mut self, flash: &mut Flash<'_>, unit: Lbn) -> Result<(), StoreFault> {
        let Some(last) = self.chain(unit).last() else { return Ok(()) };
        let mut sources = sources(flash, unit, None, |lpn| self.find(flash, lpn));
        let mut is_in_place = true;
        for (page, source) in (0..).zip(&mut sources) {
            match source {
                Some(Source::Page(ppn)) if flash.geometry().block_of(*ppn) == last => *source = None,
                Some(_) => is_in_place &= flash.is_open(last, page),
                None => {}
            }
        }
        is_in_place &= flash.blocks().valid_count(last) > 0 || sources.iter().any(Option::is_some);
        let is_filled = is_in_place && flash.fill(last, unit, 0, &sources)?;
        drop(sources);
        if !is_filled {
            return self.fold_out(flash, unit, None);
        }
        self.replace(flash, unit, Some(last))
    }

    /// Folds out of place. `host` is a page of the unit that the host writes now.
    fn fold_out(
        &mut self,
        flash: &mut Flash<'_>,
        unit: Lbn,
        host: Option<HostPage<'_>>,
    ) -> Result<(), StoreFault> {
        let sources = sources(flash, unit, host, |lpn| self.find(flash, lpn));
        if sources.iter().all(Option::is_none) {
            return self.replace(flash, unit, None);
        }
        let old = host.and_then(|page| self.find(flash, page.lpn));
        let pbn = flash.gather(unit, &sources)?;
        drop(sources);
        old.into_iter().for_each(|ppn| flash.invalidate(ppn));
        self.replace(flash, unit, Some(pbn))
    }

    /// Makes one block the whole chain of a unit and frees the former blocks.
    fn replace(&mut self, flash: &mut Flash<'_>, unit: Lbn, only: Option<Pbn>) -> Result<(), StoreFault> {
        let former: Vec<Pbn> = self.chain(unit).filter(|&pbn| Some(pbn) != only).collect();
        self.link(unit, only.into_iter());
        for pbn in former {
            flash.free(pbn, Cause::Merge, || self.encode())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
