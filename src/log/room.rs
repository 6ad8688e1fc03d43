//! Number of pages that can still be written, and number of pages that may be valid: this guarantees that a
//! full tree can shrink again.
//!
//! Collection gains as long as some full block has few enough valid pages: moving `v` pages of a block of `P`
//! programs `v * c` pages, where `c` is the cost of a move, and must leave a gain. With `L` valid pages in
//! `U` full blocks, one has at most `L / U` of them. So insertions are refused while the number of valid
//! pages exceeds `U` times the most valid pages that leave a gain ([`Tape::live_limit`]), where `U` is the
//! number of blocks that remain if everything that may be kept free is kept free. Then a collection that
//! gains can always be found, and because a removal never adds valid pages, every removal finds its room.
//!
//! Besides, these are kept free, in this order: the blocks of the next checkpoint, which only a checkpoint
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

/// A collection must gain at least an eighth of a block, so that one that is cut again and again gains as
/// well.
const GAIN: u32 = 8;

/// Numbers of blocks for log pages and for checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Capacity {
    /// Blocks that may hold log pages: all but bad and reserved ones.
    usable: u32,
    /// Blocks that the next checkpoint takes before it frees those of the last one.
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

    /// Counts all blocks again. `payload` is the number of bytes of the next checkpoint.
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

    /// True if blocks have failed since the chip was formatted.
    pub(super) fn has_failed_blocks(&self) -> bool {
        self.failed > 0
    }

    /// Error of the chip as the log reports it: if there is no free block and some failed, the chip is worn
    /// out.
    pub(super) fn worn_or(&self, error: StoreError) -> IndexFault {
        match error {
            StoreError::Full if self.failed > 0 => IndexError::WornOut.into(),
            other => other.into(),
        }
    }
}

impl<N: Nand> Tape<N> {
    /// Refuses a change if the log has given out nearly all its numbers. It can still be read, closed and
    /// mounted.
    pub(crate) fn require_numbers(&self) -> Result<(), IndexFault> {
        let has_numbers = self.numbers_left() > 0 && self.checkpoints.area.has_numbers();
        if has_numbers { Ok(()) } else { Err(IndexError::WornOut.into()) }
    }

    /// Counts all blocks again, after some were taken, freed or lost.
    pub(super) fn recount(&mut self) {
        self.addresses.held.recount(self.medium.geometry, |ppn| self.head.is_ahead(&self.blocks, ppn));
        let pairs = (self.addresses.replaced.len() + 1) * PAIR_BYTES;
        let note = if HAS_NOTES { self.checkpoints.note_bytes() } else { 0 };
        let table = BlockTable::encoded_bytes(self.medium.geometry);
        let payload = FIXED_BYTES + self.medium.owner.len() + pairs + note + table;
        self.capacity.recount(&self.blocks, payload);
    }

    /// Tells how long the notes of checkpoints may become, so that room for them is kept.
    pub(crate) fn expect_note(&mut self, bytes: usize) {
        self.checkpoints.note_bound = bytes;
        self.recount();
    }

    /// Number of pages that can still be written before a block must be reclaimed.
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

    /// Pages kept for the next checkpoint and for collection. Other writers must leave them.
    pub(crate) fn kept_pages(&self) -> u32 {
        self.checkpoint_pages() + self.medium.geometry.pages_per_block
    }

    /// Largest number of valid pages, if `free_pages` pages must always be found free and a move takes
    /// `programs_per_move` programs.
    pub(crate) fn live_limit(&self, free_pages: u32, programs_per_move: u32) -> u32 {
        self.limit_with(self.capacity.usable, free_pages, programs_per_move)
    }

    fn limit_with(&self, usable: u32, free_pages: u32, programs_per_move: u32) -> u32 {
        let pages = self.medium.geometry.pages_per_block;
        // Blocks that are free or open when one page is missing.
        let not_full = free_pages.div_ceil(pages) + 1;
        usable.saturating_sub(not_full) * (pages - (pages / GAIN).max(1)) / programs_per_move.max(1)
    }

    /// Error if there is no room for `live` valid pages: `WornOut` if the failed blocks would have given the
    /// room, else `Full`.
    pub(crate) fn refusal(&self, live: u32, free_pages: u32, programs_per_move: u32) -> IndexFault {
        let unworn = self.capacity.usable + self.capacity.failed;
        let had_room = live <= self.limit_with(unworn, free_pages, programs_per_move);
        if self.capacity.failed > 0 && had_room {
            IndexError::WornOut.into()
        } else {
            IndexError::NO_BLOCK.into()
        }
    }

    /// Erases the blocks that `pages` pages will take. An operation whose pages wait in RAM cannot be undone,
    /// so it must not begin if a failing erase might stop it.
    pub(super) fn secure(&mut self, pages: u32) -> Result<(), IndexFault> {
        let pages_per_block = self.medium.geometry.pages_per_block;
        let open = self.head.open_pages(pages_per_block);
        let wanted = pages.saturating_sub(open).div_ceil(pages_per_block);
        // The number of pages is a bound; the pages that the operation must find were made free before.
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

    /// True if so few blocks are free that garbage should be collected.
    pub(crate) fn wants_collection(&self) -> bool {
        self.is_short_of_blocks(0)
    }

    /// True if garbage should be collected so that `more` more blocks are free.
    pub(super) fn is_short_of_blocks(&self, more: u32) -> bool {
        let held_blocks = self.addresses.held.ahead().div_ceil(self.medium.geometry.pages_per_block);
        self.blocks.free_count() <= self.config.collect_at_blocks + held_blocks + more
    }

    /// True if so few blocks are free that the rest of an open block is worth a page skipped.
    pub(super) fn is_tight(&self) -> bool {
        self.blocks.free_count() <= self.config.collect_at_blocks + self.capacity.for_checkpoint
    }
}
