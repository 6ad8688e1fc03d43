//! DFTL: page mapping whose table lies on flash, with the entries in use cached.
//!
//! Source: Gupta, Kim and Urgaonkar, "DFTL: a flash translation layer employing demand-based selective
//! caching of page-level address mappings", ASPLOS 2009, with the realisation in the FlashSim of Pennsylvania
//! State University. Data path: high confidence. Recovery, trim and groups are ours; the original defines
//! none.
//!
//! # State
//!
//! - The table on flash (`ftl::table`): *translation pages*, found by the *GTD*, its directory in RAM.
//! - The *CMT* (`ftl::cmt`): entries in use, in a segmented LRU order, as many as the budget has room for. A
//!   dirty entry is one that its translation page does not say yet.
//! - *Untold* entries: dirty ones for which the CMT has no room. There are some while a block is collected,
//!   after a group, and after a mount that followed a cut; they go to the flash before the next page is
//!   written.
//! - Two frontiers: one for data, whether written by the host or moved, one for translation pages.
//!
//! # Operations
//!
//! - *Look up*: the CMT; else the least recently used entry is evicted, the translation page read, the entry
//!   cached.
//! - *Evict*: a clean entry is dropped. For a dirty one its translation page is rewritten, with all other
//!   dirty entries that belong there (*batch update*).
//! - *Write*: make room, look up, program at the frontier, invalidate the old page; the entry is dirty then.
//! - *Trim*: the entry becomes none, and dirty.
//! - *Collect* while fewer than 5 blocks are free, those of the next base apart. Of the victim's valid pages,
//!   those whose entry is cached change it (*lazy copying*); the others become untold. The victim is erased,
//!   and each translation page that an untold entry belongs to is rewritten once. A victim of translation
//!   pages has them copied.
//!
//! # Counted
//!
//! With [`Validity::Counts`] there is a number for each block in place of a bit for each page (`ftl::told`).
//! Which pages of a victim are valid is asked of the map, by a walk over the translation pages that answers
//! for the next victims too; of a victim of translation pages the GTD tells. Each base and note says what the
//! map is: the GTD, and the dirty and untold entries. A mount after a cut walks over the map of the newest
//! record, or over newer translation pages where there are some, and counts what it names.
//!
//! # Invariants
//!
//! - D1: a clean entry equals that of its translation page.
//! - D2: no logical page is both in the CMT and untold.
//! - T4: where valid pages are counted, as many of each block count as map and GTD name.
//!
//! # Why collection always makes progress
//!
//! `Np` pages to a block; the chip has the blocks of the full store, `Kd`, those of the full table, `Kt`, and
//! 7 more.
//! (1) A write starts with 5 free blocks, and takes at most one for data and one for the table before it
//!     ends.
//! (2) When no full block of the table has an invalid page, the table takes at most two blocks more than it
//!     did when
//! the last write began, and data at most one, since collecting never adds a data block: it frees the victim
//! and takes one at most, and after a cut the election keeps no more. So at least 2 blocks are free then. (3)
//! A data victim takes one block before it is erased and its untold entries one after, so 2 suffice; a victim
//! of the table gives back what it takes. So while 1 is free the victim is one of the table, and there is one
//! by (2). (4) Each collection removes invalid pages, and when none are left at least 7 - 2 blocks are free.
//!
//! # Recovery and deviations
//!
//! A clean base holds the dirty entries, and mounting reads the translation pages' spare areas. After a cut
//! the versions in the spare areas say which pages are valid (as in [`crate::ftl::mapping`]); the whole table
//! is read and compared with the pages, a part of the chip at a time, and what differs is untold: no more
//! than was dirty. The eviction order is not kept. A read that
//! misses may evict a dirty entry, and so program; where there is no room for that, it goes on without
//! caching.

use crate::bits;
use crate::blocks::spare::{Header, PageKind};
use crate::blocks::victim::VictimPolicy;
use crate::blocks::{BlockState, Validity, Wear};
use crate::check::CheckReport;
use crate::fault::StoreFault;
pub use crate::ftl::cached::CacheCounters;
use crate::ftl::cached::CachedTable;
pub use crate::ftl::cmt::ENTRY_BYTES;
use crate::ftl::cmt::Run;
use crate::ftl::collecting::{self, Collecting, Room};
use crate::ftl::mapping::{Flash, FlashSettings, HostPage, Mounted, Rules, Scheme, SchemeFtl};
use crate::ftl::table::{Frontier, from_raw, to_raw};
use crate::nand::{Cause, Geometry, Nand};
use crate::units::{Lpn, Pbn, Ppn};
use alloc::vec::Vec;

/// A translation layer that caches its map.
pub type DftlFtl<N> = SchemeFtl<N, Dftl>;

/// The settings of DFTL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DftlSettings {
    /// The settings that every mapping scheme has.
    pub common: FlashSettings,
    /// Bytes of RAM for cached entries, [`ENTRY_BYTES`] each, at least two of them; `None`: 1/64 of what a
    /// map of all pages in RAM takes, and room for 16 entries at least. Fixed at format.
    pub cache_bytes: Option<u32>,
    /// Which block is collected next.
    pub victim: VictimPolicy,
    /// How it is known which pages are valid. Fixed at format.
    pub validity: Validity,
}

/// Tables of DFTL.
#[derive(Debug)]
pub struct Dftl {
    cached: CachedTable,
    data: Frontier,
    room: Room,
}

impl Scheme for Dftl {
    type Settings = DftlSettings;

    const RULES: Rules = Rules {
        magic: *b"DFTL",
        one_data_block: false,
        old_may_stay_valid: false,
        has_owners: false,
        fills_in_order: true,
        has_map: false,
        record_percent: 100,
        counts: true,
    };

    fn common(settings: &DftlSettings) -> FlashSettings {
        settings.common
    }

    fn require_built(settings: &DftlSettings) -> Result<(), StoreFault> {
        settings.victim.require_built()?;
        settings.common.wear_levelling.require_built()
    }

    fn validity(settings: &DftlSettings) -> Validity {
        settings.validity
    }

    fn setup(settings: &DftlSettings, geometry: Geometry, good_blocks: u32) -> [u32; 4] {
        let kept = (settings.cache_bytes, settings.validity);
        collecting::setup(kept, 2, geometry, good_blocks)
    }

    fn blocks_needed(setup: [u32; 4]) -> u32 {
        collecting::blocks_needed(setup)
    }

    fn blocks_per_write(_: [u32; 4]) -> u32 {
        // Collection starts with the free blocks there are, and refuses a write itself if it needs more.
        1
    }

    fn extra_bytes_max(setup: [u32; 4]) -> usize {
        collecting::extra_bytes_max(setup)
    }

    fn open<N: Nand>(
        flash: &mut Flash<N>,
        settings: &DftlSettings,
        mut mounted: Mounted,
    ) -> Result<Dftl, StoreFault> {
        let (g, setup) = (flash.geometry(), flash.setup());
        flash.blocks_mut().follow(settings.victim);
        let mut data = Frontier::new(PageKind::Host, Wear::Least);
        data.resume(flash);
        Ok(Dftl {
            cached: CachedTable::open(flash, &mut mounted, setup[0], (false, |_: &Flash<N>, _| false))?,
            data,
            room: Room::new(g, setup, settings.victim),
        })
    }

    fn locate<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        lpn: u32,
        cause: Cause,
    ) -> Result<Option<Ppn>, StoreFault> {
        if cause != Cause::Check {
            return self.look_up(flash, lpn);
        }
        match self.cached.known(lpn) {
            Some(ppn) => Ok(from_raw(ppn)),
            None => self.cached.table.entry(flash, lpn, cause),
        }
    }

    fn write<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        lpn: u32,
        cause: Cause,
        data: &[u8],
    ) -> Result<(), StoreFault> {
        self.make_room(flash)?;
        let old = self.look_up(flash, lpn)?;
        let ppn = self.data.write(flash, HostPage { kind: PageKind::Host, lpn }, cause, data)?;
        self.remap(flash, lpn, old, Some(ppn));
        Ok(())
    }

    const RENEWS: bool = true;

    fn renew<N: Nand>(&mut self, flash: &mut Flash<N>, lpn: u32) -> Result<(), StoreFault> {
        self.make_room(flash)?;
        let from = self.look_up(flash, lpn)?;
        self.move_weak(flash, lpn, from)
    }

    fn trim<N: Nand>(&mut self, flash: &mut Flash<N>, lpn: u32) -> Result<Option<Ppn>, StoreFault> {
        let old = self.look_up(flash, lpn)?;
        if old.is_some() {
            self.remap(flash, lpn, old, None);
        }
        Ok(old)
    }

    fn evacuate<N: Nand>(&mut self, flash: &mut Flash<N>, pbn: Pbn) -> Result<bool, StoreFault> {
        self.make_room(flash)?;
        // Making room may have moved the pages already.
        if flash.blocks().state(pbn) != BlockState::Full || flash.blocks().valid_count(pbn) == 0 {
            return Ok(false);
        }
        if flash.tag(pbn).role == Some(PageKind::Map) {
            self.cached.collect(flash, pbn)?;
            return Ok(true);
        }
        self.level(flash, pbn)?;
        Ok(true)
    }

    fn settle<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<(), StoreFault> {
        self.tell_all(flash)
    }

    fn encode(&self) -> Vec<u8> {
        self.cached.encode()
    }

    fn atomic_pages_max(&self) -> usize {
        self.room.block_pages as usize
    }

    fn write_group<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        pages: &[(Lpn, &[u8])],
        cause: Cause,
    ) -> Result<(), StoreFault> {
        self.make_room(flash)?;
        for (lpn, _) in pages {
            self.look_up(flash, lpn.0)?;
        }
        // Looking up one page may have moved another, or evicted its entry.
        let mut old = Vec::with_capacity(pages.len());
        for (lpn, _) in pages {
            old.push(match self.cached.known(lpn.0) {
                Some(ppn) => ppn,
                None => to_raw(self.cached.table.entry(flash, lpn.0, cause)?),
            });
        }
        let new = self.data.write_group(flash, pages, cause)?;
        for (i, (lpn, _)) in pages.iter().enumerate() {
            self.remap(flash, lpn.0, from_raw(old[i]), Some(new[i]));
        }
        Ok(())
    }

    fn mapping_bytes(&self) -> usize {
        self.cached.mapping_bytes()
    }

    fn mapping_bytes_max(&self, _: Geometry) -> usize {
        self.cached.mapping_bytes_max()
    }

    fn known_pages_max(&self) -> usize {
        self.cached.table.pages() as usize
    }

    fn mount_bytes(&self, _: Geometry, pages: usize, scan: usize) -> usize {
        let CachedTable { table, untold, .. } = &self.cached;
        if self.cached.is_told() {
            let marks = bits::clear(table.pages() as usize).len() * size_of::<bits::Word>();
            return pages + marks + scan.max(table.directory_bytes() + untold.ram_bytes());
        }
        // The cache is made only after the table has been compared.
        pages + scan.max(table.compared_bytes() + untold.ram_bytes())
    }

    fn other_bytes(&self) -> usize {
        self.room.lists_bytes()
    }

    fn cache_counts(&self) -> (u64, u64) {
        (self.cached.counters.hits, self.cached.counters.misses)
    }

    fn check<N: Nand>(&self, flash: &mut Flash<N>, report: &mut CheckReport) -> Result<u32, StoreFault> {
        self.cached.check(flash, report)
    }
}

impl Dftl {
    /// Counters of the cache since format or mount.
    pub fn cache_counters(&self) -> CacheCounters {
        self.cached.counters
    }

    /// Bytes of RAM that the cached entries take.
    pub fn cache_bytes(&self) -> usize {
        self.cached.cmt.ram_bytes()
    }

    /// Number of entries in the cache.
    pub fn cached_entries(&self) -> usize {
        self.cached.cmt.len()
    }

    /// Number of dirty entries that wait outside the cache.
    pub fn untold_entries(&self) -> usize {
        self.cached.untold.len()
    }

    /// Place of a logical page, looked up in the cache first.
    fn look_up<N: Nand>(&mut self, flash: &mut Flash<N>, lpn: u32) -> Result<Option<Ppn>, StoreFault> {
        if let Some(ppn) = self.cached.touch(lpn) {
            self.cached.counters.hits += 1;
            return Ok(from_raw(ppn));
        }
        self.cached.counters.misses += 1;
        let has_room = match self.evict(flash) {
            Ok(()) => true,
            Err(error) if error.is_full() => false,
            Err(error) => return Err(error),
        };
        // Making room for the rewritten page may have moved the requested page.
        let ppn = match self.cached.untold.get(lpn) {
            Some(ppn) => return Ok(from_raw(ppn)),
            None => self.cached.table.entry(flash, lpn, Cause::Mapping)?,
        };
        if has_room {
            self.cached.cmt.insert(Run { lpn, ppn: to_raw(ppn), count: 1 }, false);
        }
        Ok(ppn)
    }

    /// Evicts an entry if the cache is full.
    fn evict<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<(), StoreFault> {
        let Some((_, is_dirty)) = self.cached.cmt.victim().filter(|_| self.cached.cmt.is_full()) else {
            return Ok(());
        };
        if is_dirty {
            flash.begin(|| self.cached.encode())?;
            self.make_room(flash)?;
        }
        self.cached.evict(flash)
    }

    /// Gives a logical page another place.
    fn remap<N: Nand>(&mut self, flash: &mut Flash<N>, lpn: u32, old: Option<Ppn>, new: Option<Ppn>) {
        if let Some(old) = old {
            flash.invalidate(old);
        }
        self.cached.update(lpn, to_raw(new));
    }
}

impl Collecting for Dftl {
    fn room(&self) -> Room {
        self.room
    }

    fn cached(&mut self) -> &mut CachedTable {
        &mut self.cached
    }

    fn data(&mut self) -> &mut Frontier {
        &mut self.data
    }

    fn move_out<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        victim: Pbn,
        to: &mut Frontier,
        cause: Cause,
    ) -> Result<(), StoreFault> {
        self.cached.know_pages(flash, victim)?;
        while let Some(from) = flash.blocks().next_valid(victim, 0) {
            let header = flash.load(from, cause)?.filter(|h| h.number < flash.page_count());
            let Some(header) = header else {
                self.cached.lose(flash, from, |_, _| false)?;
                continue;
            };
            let copy = Header { kind: PageKind::Copy, ..header };
            let ppn = to.store(flash, from, copy, cause)?;
            self.cached.update(header.number, ppn.0);
        }
        flash.free(victim, cause, || self.cached.encode())
    }
}

#[cfg(test)]
mod tests;
