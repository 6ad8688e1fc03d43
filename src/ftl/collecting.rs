//! Collection in the schemes whose mapping table is cached. DFTL and CFTL collect data and translation pages
//! by the same rules; they differ in how data leaves a victim.

use crate::blocks::spare::{Header, PageKind};
use crate::blocks::victim::VictimPolicy;
use crate::blocks::{Validity, Wear};
use crate::fault::StoreFault;
use crate::ftl::cached::{CachedTable, ENCODED_BYTES};
use crate::ftl::cmt::ENTRY_BYTES;
use crate::ftl::mapping::{COUNTED, ChipPlan, Flash};
use crate::ftl::table::{Frontier, blocks_for};
use crate::ftl::told::told_bytes_max;
use crate::nand::{Cause, Geometry};
use crate::store::StoreError;
use crate::units::{Pbn, Ppn};
use alloc::vec::Vec;

/// Collection ends when this many blocks are free.
const FREE_BLOCKS: u32 = 5;

/// A block whose valid pages are known may replace the emptiest one as victim if it has at most 1/32 of its
/// pages more valid.
const MORE_VALID: u32 = 32;

/// Bytes of the lists that a collection or a record makes for a moment.
const LISTS_BYTES: usize = 256;

/// The limits that control collection.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Policy that chooses the next block to collect.
    victim: VictimPolicy,
    /// Number of blocks kept for the next base.
    kept_blocks: u32,
    /// Number of pages of a block.
    pub block_pages: u32,
}

impl Room {
    /// Makes the numbers for a chip and the setup of its FTL.
    pub fn new(geometry: Geometry, setup: [u32; 4], victim: VictimPolicy) -> Room {
        let validity = if setup[2] == COUNTED { Validity::Counts } else { Validity::Bits };
        let kept_blocks = ChipPlan::base_blocks_with(geometry, validity, extra_bytes_max(setup));
        Room { victim, kept_blocks, block_pages: geometry.pages_per_block }
    }

    /// Bytes of RAM for the old and new places of a group's pages, and for lists of a few blocks.
    pub const fn lists_bytes(self) -> usize {
        self.block_pages as usize * 2 * size_of::<u32>() + LISTS_BYTES
    }

    /// True if enough blocks are free for a write to begin.
    pub fn is_enough(self, flash: &Flash<'_>) -> bool {
        self.free_blocks(flash) >= FREE_BLOCKS
    }

    /// Replaces the emptiest block as victim by one with hardly more valid pages whose valid pages are known:
    /// moving these costs less than asking for the others.
    fn known_or(self, flash: &Flash<'_>, victim: Pbn) -> Pbn {
        let blocks = flash.blocks();
        let is_of_table = flash.tag(victim).role == Some(PageKind::Map);
        if !flash.state.is_counted()
            || is_of_table
            || self.victim != VictimPolicy::Greedy
            || blocks.knows_pages_of(victim)
        {
            return victim;
        }
        // Each victim must gain at least a page.
        let most = (blocks.valid_count(victim) + self.block_pages / MORE_VALID).min(self.block_pages - 1);
        blocks.fewest_valid_known().filter(|&pbn| blocks.valid_count(pbn) <= most).unwrap_or(victim)
    }

    /// Number of free blocks without those of the next base.
    fn free_blocks(self, flash: &Flash<'_>) -> u32 {
        flash.blocks().free_count().saturating_sub(self.kept_blocks)
    }
}

/// Makes the numbers that a format fixes: the number of entries that may be cached (at least `entries_min`),
/// the blocks of the table, whether valid pages are counted, and if so the bytes of the map in a record.
pub fn setup(
    (cache_bytes, validity): (Option<u32>, Validity),
    entries_min: u32,
    geometry: Geometry,
    good_blocks: u32,
) -> [u32; 4] {
    let pages = good_blocks * geometry.pages_per_block;
    let entries = match cache_bytes {
        Some(bytes) => bytes / ENTRY_BYTES as u32,
        None => (pages / 16 / ENTRY_BYTES as u32).max(16),
    };
    let entries = entries.clamp(entries_min, pages.max(entries_min));
    let (is_counted, told_bytes) = match validity {
        Validity::Bits => (0, 0),
        Validity::Counts => (COUNTED, told_bytes_max(geometry, good_blocks, entries) as u32),
    };
    [entries, blocks_for(geometry, good_blocks), is_counted, told_bytes]
}

/// Number of blocks needed besides the data.
pub fn blocks_needed(setup: [u32; 4]) -> u32 {
    setup[1].saturating_add(FREE_BLOCKS + 2)
}

/// Bytes in a base for the dirty entries, or for the map.
pub const fn extra_bytes_max(setup: [u32; 4]) -> usize {
    if setup[2] == COUNTED { setup[3] as usize } else { setup[0] as usize * ENCODED_BYTES }
}

/// Scheme that makes room by collecting blocks of data and of the table.
pub trait Collecting {
    /// The limits that control collection.
    fn room(&self) -> Room;

    /// Returns the table and its cache.
    fn cached(&mut self) -> &mut CachedTable;

    /// The frontier for logical pages, both written and moved.
    fn data(&mut self) -> &mut Frontier;

    /// Moves the logical pages out of a block, and frees it.
    fn move_out(
        &mut self,
        flash: &mut Flash<'_>,
        victim: Pbn,
        to: &mut Frontier,
        cause: Cause,
    ) -> Result<(), StoreFault>;

    /// Makes room: afterwards no entry is untold, and enough blocks are free for a write.
    fn make_room(&mut self, flash: &mut Flash<'_>) -> Result<(), StoreFault> {
        let room = self.room();
        loop {
            while !room.is_enough(flash) {
                self.collect(flash)?;
            }
            if self.cached().untold.is_empty() {
                return Ok(());
            }
            self.cached().tell(flash, room.block_pages)?;
        }
    }

    /// Collects a victim. If hardly any block is free, it is a block of the mapping table.
    fn collect(&mut self, flash: &mut Flash<'_>) -> Result<(), StoreFault> {
        let room = self.room();
        let of_table = if room.free_blocks(flash) < 2 { self.cached().table.victim(flash) } else { None };
        let victim = match of_table {
            Some(pbn) => pbn,
            None => {
                let victim = flash.blocks_mut().victim(room.victim).ok_or(StoreError::Full)?;
                room.known_or(flash, victim)
            }
        };
        flash.counters.collections += 1;
        if flash.tag(victim).role == Some(PageKind::Map) {
            self.cached().counters.table_victims += 1;
            return self.cached().collect(flash, victim);
        }
        let mut frontier = *self.data();
        let moved = self.move_out(flash, victim, &mut frontier, Cause::GarbageCollection);
        *self.data() = frontier;
        moved?;
        self.cached().tell(flash, u32::MAX)
    }

    /// Empties a block for wear levelling, into a block of its own.
    fn level(&mut self, flash: &mut Flash<'_>, pbn: Pbn) -> Result<(), StoreFault> {
        let mut target = Frontier::new(PageKind::Copy, Wear::Most);
        let moved = self.move_out(flash, pbn, &mut target, Cause::WearLevelling);
        if let Some(target) = target.block(flash) {
            flash.seal(target);
        }
        moved?;
        self.cached().tell(flash, u32::MAX)
    }

    /// Moves a weak logical page from its place.
    fn move_weak(&mut self, flash: &mut Flash<'_>, lpn: u32, from: Option<Ppn>) -> Result<(), StoreFault> {
        let Some(from) = from else { return Ok(()) };
        // If the page cannot be read any more, its reader is told.
        let header = flash.load(from, Cause::Scrubbing)?.filter(|header| header.number == lpn);
        let Some(header) = header else { return Ok(()) };
        let copy = Header { kind: PageKind::Copy, ..header };
        let to = self.data().store(flash, from, copy, Cause::Scrubbing)?;
        self.cached().update(lpn, to.0);
        Ok(())
    }

    /// Writes all untold entries to the table, before a base on which a mount may rely alone.
    fn tell_all(&mut self, flash: &mut Flash<'_>) -> Result<(), StoreFault> {
        if self.cached().untold.is_empty() {
            return Ok(());
        }
        let is_counted = flash.state.is_counted();
        flash.begin(|| if is_counted { self.cached().encode() } else { Vec::new() })?;
        self.make_room(flash)
    }
}
