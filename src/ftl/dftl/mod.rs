//! DFTL: page mapping with the table on flash and the entries in use cached in RAM.
//!
//! Source: Gupta, Kim and Urgaonkar, "DFTL: a flash translation layer employing demand-based selective
//! caching of page-level address mappings", ASPLOS 2009, with the realisation in the FlashSim of Pennsylvania
//! State University. Data path: high confidence. Recovery, trim and groups are ours; the original defines
//! none.
//!
//! # State
//!
//! - The table on flash (`ftl::table`): *translation pages*, found through the *GTD*, the directory in RAM.
//! - The *CMT* (`ftl::cmt`): the entries in use, in segmented LRU order, as many as the budget allows. An
//!   entry is dirty if its translation page has an older one.
//! - *Untold* entries: dirty entries for which the CMT has no room. They exist while a block is collected,
//!   after a group, and after a mount that followed a cut. They are written to flash before the next page is
//!   written.
//! - Two frontiers: one for data, both written by the host and moved, and one for translation pages.
//!
//! # Operations
//!
//! - *Look up*: from the CMT. On a miss the least recently used entry is evicted, the translation page is
//!   read and the entry is cached.
//! - *Evict*: a clean entry is dropped. For a dirty one its translation page is rewritten, with all other
//!   dirty entries of that page (*batch update*).
//! - *Write*: make room, look up, program at the frontier, invalidate the old page. The entry is then dirty.
//! - *Trim*: the entry becomes empty, and dirty.
//! - *Collect* while fewer than 5 blocks are free, not counting those of the next base. For each valid page
//!   of the victim a cached entry is changed (*lazy copying*); the other entries become untold. The victim is
//!   erased, and each translation page with untold entries is rewritten once. If the victim holds translation
//!   pages, they are copied.
//!
//! # Counted
//!
//! With [`Validity::Counts`] there is a number of valid pages for each block in place of a bit for each page
//! (`ftl::told`). A walk over the translation pages then finds the valid pages of a victim, and of the next
//! victims too. For a victim of translation pages the GTD has the answer. Each base and note holds the state
//! of the map: the GTD, and the dirty and untold entries. A mount after a cut walks over the map of the
//! newest record, or over newer translation pages if there are any, and counts the pages that it names.
//!
//! # Invariants
//!
//! - D1: a clean entry equals that of its translation page.
//! - D2: no logical page is both in the CMT and untold.
//! - T4: if valid pages are counted, the count of each block is the number of its pages that map and GTD
//!   name.
//!
//! # Why collection always makes progress
//!
//! A block has `Np` pages. The chip has the blocks of the full store, `Kd`, those of the full table, `Kt`,
//! and 7 more.
//!
//! - (1) A write starts with 5 free blocks, and takes at most one for data and one for the table before it
//!   ends.
//! - (2) If no full block of the table has an invalid page, the table takes at most two blocks more than when
//!   the last write began, and data at most one: collection never adds a data block, since it frees the
//!   victim and takes one at most, and after a cut the election keeps no more. So at least 2 blocks are free
//!   then.
//! - (3) A data victim takes one block before it is erased, and its untold entries one block after, so 2 are
//!   enough. A victim of the table gives back the block that it takes. So while only 1 block is free the
//!   victim is one of the table, and (2) says that there is one.
//! - (4) Each collection removes invalid pages, and if none are left at least 7 - 2 blocks are free.
//!
//! # Recovery and deviations
//!
//! A clean base holds the dirty entries, and the mount reads the spare areas of the translation pages. After
//! a cut the versions in the spare areas tell which pages are valid (as in [`crate::ftl::mapping`]). The
//! whole table is read and compared with the pages, a part of the chip at a time. The entries that differ
//! become untold; they are no more than were dirty before. The eviction order is not kept. A read with a miss
//! may evict a dirty entry, and so program. If there is no room for this, the read goes on without caching.

use crate::bits;
use crate::blocks::spare::{Header, PageKind};
use crate::blocks::victim::VictimPolicy;
use crate::blocks::{BlockState, Validity, Wear};
use crate::check::CheckReport;
use crate::fault::StoreFault;
#[cfg(feature = "unstable")]
pub use crate::ftl::cached::CacheCounters;
use crate::ftl::cached::CachedTable;
#[cfg(feature = "unstable")]
pub use crate::ftl::cmt::ENTRY_BYTES;
#[cfg(not(feature = "unstable"))]
pub(crate) use crate::ftl::cmt::ENTRY_BYTES;
use crate::ftl::cmt::Run;
use crate::ftl::collecting::{self, Collecting, Room};
use crate::ftl::mapping::{Flash, FlashConfig, FlashCounters, HostPage, Mounted, Rules, Scheme, SchemeFtl};
use crate::ftl::table::{Frontier, from_raw, to_raw};
use crate::nand::{Cause, Geometry, Nand};
use crate::shared::open_ground;
use crate::store::{PageStore, StoreError};
use crate::units::{Lpn, Pbn, Ppn};
use alloc::vec::Vec;

/// A translation layer that caches its map.
///
/// ```
/// # use nandex::nand::{catalogue::mlc_64m, sim::SimChip};
/// # let chip = SimChip::new(&mlc_64m().with_blocks(64))?;
/// use nandex::{Cause, DftlConfig, DftlFtl, Lpn, PageStore};
///
/// let config = DftlConfig::default().with_cache_bytes(Some(4096));
/// let mut store = DftlFtl::format(chip, &config)?;
/// let mut page = vec![7; store.page_bytes()];
/// store.write(Lpn(3), Cause::Host, &page)?;
/// let mut store = DftlFtl::mount(store.close()?, &config)?;
/// store.read(Lpn(3), Cause::Host, &mut page)?;
/// assert_eq!(page[0], 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DftlFtl<N> {
    ground: SchemeFtl<N, Dftl>,
}

impl<N: Nand> DftlFtl<N> {
    /// Erases the chip and starts an empty store on it.
    pub fn format(nand: N, config: &DftlConfig) -> Result<DftlFtl<N>, StoreError> {
        SchemeFtl::format(nand, config).map(|ground| DftlFtl { ground })
    }

    /// Mounts the store. Nothing is programmed or erased. Settings fixed at format come from the chip,
    /// whatever the configuration says.
    pub fn mount(nand: N, config: &DftlConfig) -> Result<DftlFtl<N>, StoreError> {
        SchemeFtl::mount(nand, config).map(|ground| DftlFtl { ground })
    }

    /// Writes a base, so that the next mount need not look for what came before, and gives the chip back.
    pub fn close(self) -> Result<N, StoreError> {
        self.ground.close()
    }

    /// Gives the chip back as if the power were cut.
    pub fn into_nand(self) -> N {
        self.ground.into_nand()
    }

    /// The chip.
    pub fn nand(&self) -> &N {
        self.ground.nand()
    }

    /// The chip, for measuring and for faults. Programming or erasing it breaks the store.
    pub fn nand_mut(&mut self) -> &mut N {
        self.ground.nand_mut()
    }

    /// The counters since the store was formatted or mounted.
    pub fn counters(&self) -> FlashCounters {
        self.ground.counters()
    }
}

impl<N: Nand> PageStore for DftlFtl<N> {
    crate::forward_store!(self => self.ground);
}

open_ground!([N] DftlFtl<N> = SchemeFtl<N, Dftl>);

/// The settings of DFTL.
///
/// An example stands at [`DftlFtl`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct DftlConfig {
    /// The settings that every mapping scheme has.
    pub common: FlashConfig,
    /// Bytes of RAM for cached entries, [`ENTRY_BYTES`] each, at least two entries. `None` means 1/64 of a
    /// map of all pages, and at least 16 entries. Fixed at format.
    pub cache_bytes: Option<u32>,
    /// Which block is collected next.
    pub victim: VictimPolicy,
    /// How it is known which pages are valid. Fixed at format.
    pub validity: Validity,
}

/// Tables of DFTL.
#[derive(Debug)]
#[cfg_attr(not(feature = "unstable"), doc(hidden))]
pub struct Dftl {
    cached: CachedTable,
    data: Frontier,
    room: Room,
}

impl Scheme for Dftl {
    type Config = DftlConfig;

    const RULES: Rules = Rules { fills_in_order: true, counts: true, ..Rules::of(*b"DFTL") };

    fn common(settings: &DftlConfig) -> FlashConfig {
        settings.common
    }

    fn require_built(settings: &DftlConfig) -> Result<(), StoreFault> {
        settings.victim.require_built()?;
        settings.common.wear_levelling.require_built()
    }

    fn validity(settings: &DftlConfig) -> Validity {
        settings.validity
    }

    fn setup(settings: &DftlConfig, geometry: Geometry, good_blocks: u32) -> [u32; 4] {
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

    fn open(flash: &mut Flash<'_>, settings: &DftlConfig, mut mounted: Mounted) -> Result<Dftl, StoreFault> {
        let (g, setup) = (flash.geometry(), flash.setup());
        flash.blocks_mut().follow(settings.victim);
        let mut data = Frontier::new(PageKind::Host, Wear::Least);
        data.resume(flash);
        Ok(Dftl {
            cached: CachedTable::open(flash, &mut mounted, setup[0], (false, |_: &Flash<'_>, _| false))?,
            data,
            room: Room::new(g, setup, settings.victim),
        })
    }

    fn locate(&mut self, flash: &mut Flash<'_>, lpn: u32, cause: Cause) -> Result<Option<Ppn>, StoreFault> {
        if cause != Cause::Check {
            return self.look_up(flash, lpn);
        }
        match self.cached.known(lpn) {
            Some(ppn) => Ok(from_raw(ppn)),
            None => self.cached.table.entry(flash, lpn, cause),
        }
    }

    fn write(&mut self, flash: &mut Flash<'_>, host: HostPage<'_>) -> Result<(), StoreFault> {
        self.make_room(flash)?;
        let old = self.look_up(flash, host.lpn)?;
        let ppn = self.data.write(flash, PageKind::Host, host)?;
        self.remap(flash, host.lpn, old, Some(ppn));
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
        let old = self.look_up(flash, lpn)?;
        if old.is_some() {
            self.remap(flash, lpn, old, None);
        }
        Ok(old)
    }

    fn evacuate(&mut self, flash: &mut Flash<'_>, pbn: Pbn) -> Result<bool, StoreFault> {
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

    fn check(&self, flash: &mut Flash<'_>, report: &mut CheckReport) -> Result<u32, StoreFault> {
        self.cached.check(flash, report)
    }
}

impl Dftl {
    /// Returns the table with its cache, for measurements.
    pub fn cache(&self) -> &CachedTable {
        &self.cached
    }

    /// Place of a logical page, looked up in the cache first.
    fn look_up(&mut self, flash: &mut Flash<'_>, lpn: u32) -> Result<Option<Ppn>, StoreFault> {
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
    fn evict(&mut self, flash: &mut Flash<'_>) -> Result<(), StoreFault> {
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
    fn remap(&mut self, flash: &mut Flash<'_>, lpn: u32, old: Option<Ppn>, new: Option<Ppn>) {
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

    fn move_out(
        &mut self,
        flash: &mut Flash<'_>,
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
