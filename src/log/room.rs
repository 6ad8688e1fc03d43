//! How many pages can still be written, and how many may live: what makes a full tree shrink again.
//!
//! Collection gains as long as some full block has few enough valid pages: moving `v` pages of a block of `P`
//! programs `v * c` pages, where `c` is what a move takes, and must leave a gain. With `L` valid pages in `U`
//! full blocks, one has at most `L / U` of them. So insertions are refused while the pages that live exceed
//! `U` times the most valid pages that leave a gain ([`Tape::live_limit`]), where `U` is what remains when
//! everything that may be kept free is kept free. Then a collection that gains is always to be found, and
//! because a removal never has more pages live, every removal finds its room.
//!
//! What is kept free besides, in this order: the blocks of the next checkpoint, which only a checkpoint
//! takes; one block's worth of pages, which only collection takes, and gives back; the pages of a removal,
//! which an insertion leaves.

use super::state::{FIXED_BYTES, HAS_NOTES, PAIR_BYTES};
use super::tape::Tape;
use crate::blocks::checkpoint::CheckpointArea;
use crate::blocks::{BlockState, BlockTable};
use crate::check::IndexError;
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand};
use crate::store::StoreError;

/// A collection is to gain an eighth of a block at least, so that one that is cut again and again gains as
/// well.
const GAIN: u32 = 8;

/// Blocks for log pages and for checkpoints, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Capacity {
    /// Blocks that may hold log pages: all but bad and reserved ones.
    usable: u32,
    /// Blocks that the next checkpoint takes before it gives the last one's back.
    for_checkpoint: u32,
    /// Blocks that failed since the chip was formatted.
    failed: u32,
    /// Blocks marked bad when the chip was formatted.
    pub(super) bad_at_format: u32,
}

impl Capacity {
    pub(super) fn new(bad_at_format: u32) -> Capacity {
        Capacity { bad_at_format, ..Capacity::default() }
    }

    /// Counts blocks anew; the next checkpoint has so many bytes.
    fn recount(&mut self, blocks: &BlockTable, payload: usize) {
        let geometry = blocks.geometry();
        let bad = blocks.in_state(BlockState::Bad).count() as u32;
        let reserved = blocks.in_state(BlockState::Reserved).count() as u32;
        let pages = CheckpointArea::pages_needed(geometry, payload) as u32;
        debug_assert!(bad + reserved <= geometry.blocks, "more blocks are out of use than there are");
        self.usable = geometry.blocks - bad - reserved;
        self.for_checkpoint = pages.div_ceil(geometry.pages_per_block);
        self.failed = bad.saturating_sub(self.bad_at_format);
    }

    /// Whether blocks have failed since the chip was formatted.
    pub(super) fn has_failed_blocks(&self) -> bool {
        self.failed > 0
    }

    /// The error of the chip as the log tells it: no free block where some failed is the end of writing.
    pub(super) fn worn_or(&self, error: StoreError) -> IndexFault {
        match error {
            StoreError::Full if self.failed > 0 => IndexError::WornOut.into(),
            other => other.into(),
        }
    }
}

impl<N: Nand> Tape<N> {
    /// Refuses what changes a log that has given nearly all its numbers: it can be read, closed and mounted.
    pub(crate) fn require_numbers(&self) -> Result<(), IndexFault> {
        let has_numbers = self.numbers_left() > 0 && self.checkpoints.area.has_numbers();
        if has_numbers { Ok(()) } else { Err(IndexError::WornOut.into()) }
    }

    /// Counts blocks anew, after some were taken, given back or lost.
    pub(super) fn recount(&mut self) {
        self.addresses.held.recount(self.medium.geometry, |ppn| self.head.is_ahead(&self.blocks, ppn));
        let pairs = (self.addresses.replaced.len() + 1) * PAIR_BYTES;
        let note = if HAS_NOTES { self.checkpoints.note_bytes() } else { 0 };
        let table = BlockTable::encoded_bytes(self.medium.geometry);
        let payload = FIXED_BYTES + self.medium.owner.len() + pairs + note + table;
        self.capacity.recount(&self.blocks, payload);
    }

    /// Says how long the notes that checkpoints keep may become, so that their room is kept.
    pub(crate) fn expect_note(&mut self, bytes: usize) {
        self.checkpoints.note_bound = bytes;
        self.recount();
    }

    /// Pages that can still be written before a block must be reclaimed.
    pub(crate) fn free_pages(&self) -> u32 {
        let g = self.medium.geometry;
        if self.config.is_placed() {
            return g.pages() - self.blocks.live_pages();
        }
        let open = self.head.open_pages(g.pages_per_block);
        (self.blocks.free_count() * g.pages_per_block + open).saturating_sub(self.addresses.held.ahead())
    }

    /// Pages kept for the next checkpoint.
    pub(crate) fn checkpoint_pages(&self) -> u32 {
        self.capacity.for_checkpoint * self.medium.geometry.pages_per_block
    }

    /// Pages kept for the next checkpoint and for collection; who writes for other reasons leaves them.
    pub(crate) fn kept_pages(&self) -> u32 {
        self.checkpoint_pages() + self.medium.geometry.pages_per_block
    }

    /// Valid pages at most, if so many pages must always be found free and a move takes so many programs.
    pub(crate) fn live_limit(&self, free_pages: u32, programs_per_move: u32) -> u32 {
        self.limit_with(self.capacity.usable, free_pages, programs_per_move)
    }

    fn limit_with(&self, usable: u32, free_pages: u32, programs_per_move: u32) -> u32 {
        let pages = self.medium.geometry.pages_per_block;
        // Blocks that are free or open when one page is missing.
        let not_full = free_pages.div_ceil(pages) + 1;
        usable.saturating_sub(not_full) * (pages - (pages / GAIN).max(1)) / programs_per_move.max(1)
    }

    /// The answer to who finds no room for so many pages that live: `WornOut` if blocks that failed would
    /// have had it.
    pub(crate) fn refusal(&self, live: u32, free_pages: u32, programs_per_move: u32) -> IndexFault {
        let unworn = self.capacity.usable + self.capacity.failed;
        let had_room = live <= self.limit_with(unworn, free_pages, programs_per_move);
        if self.capacity.failed > 0 && had_room {
            IndexError::WornOut.into()
        } else {
            IndexError::Full.into()
        }
    }

    /// Erases the blocks that so many pages will take: an operation of which pages wait in RAM cannot be
    /// undone, so it must not begin where an erase that fails might stop it.
    pub(super) fn secure(&mut self, pages: u32) -> Result<(), IndexFault> {
        let pages_per_block = self.medium.geometry.pages_per_block;
        let open = self.head.open_pages(pages_per_block);
        let wanted = pages.saturating_sub(open).div_ceil(pages_per_block);
        // The pages are a bound; what the operation must find was made free before.
        let wanted = wanted.min(self.blocks.free_count());
        if wanted == 0 {
            return Ok(());
        }
        let good_before = self.blocks.good_count();
        let erased = self.blocks.erase_ahead(&mut self.medium.nand, wanted, Cause::GarbageCollection);
        if self.blocks.good_count() != good_before {
            self.recount();
        }
        erased.map_err(|error| self.capacity.worn_or(error.into()))
    }

    /// Whether so few blocks are free that garbage should be collected.
    pub(crate) fn wants_collection(&self) -> bool {
        self.is_short_of_blocks(0)
    }

    /// Whether garbage should be collected if so many blocks more were to be free.
    pub(super) fn is_short_of_blocks(&self, more: u32) -> bool {
        let held_blocks = self.addresses.held.ahead().div_ceil(self.medium.geometry.pages_per_block);
        self.blocks.free_count() <= self.config.collect_at_blocks + held_blocks + more
    }

    /// Whether so few blocks are free that the rest of an open one is worth a page skipped.
    pub(super) fn is_tight(&self) -> bool {
        self.blocks.free_count() <= self.config.collect_at_blocks + self.capacity.for_checkpoint
    }
}
