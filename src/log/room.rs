//! How many pages can still be written, and how many may live: what makes a full tree shrink again.
//!
//! Collection gains as long as some full block has few enough valid pages: moving `v` pages of a block of `P`
//! programs `v * c` pages, where `c` is what a move takes, and must leave a gain. With `L` valid pages in `U`
//! full blocks, one has at most `L / U` of them. So insertions are refused while the pages that live exceed
//! `U` times the most valid pages that leave a gain ([`Log::live_limit`]), where `U` is what remains when
//! everything that may be kept free is kept free. Then a collection that gains is always to be found, and
//! because a removal never has more pages live, every removal finds its room.
//!
//! What is kept free besides, in this order: the blocks of the next checkpoint, which only a checkpoint
//! takes; one block's worth of pages, which only collection takes, and gives back; the pages of a removal,
//! which an insertion leaves.

use crate::blocks::checkpoint::CheckpointArea;
use crate::blocks::{BlockState, BlockTable};
use crate::check::IndexError;
use crate::codec::numbers;
use crate::fault::IndexFault;
use crate::log::Log;
use crate::log::state::{FIXED_BYTES, HAS_NOTES, PAIR_BYTES};
use crate::log::tag::{BLOCK_BITS, SEQUENCE_BITS};
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
}

impl<N: Nand> Log<N> {
    /// Numbers of pages left for changes.
    pub fn numbers_left(&self) -> u64 {
        let blocks = numbers(BLOCK_BITS).saturating_sub(self.frontier.block_sequence.into());
        numbers(SEQUENCE_BITS).saturating_sub(self.sequence).min(blocks)
    }

    /// Refuses what changes a log that has given nearly all its numbers: it can be read, closed and mounted.
    pub fn require_numbers(&self) -> Result<(), IndexFault> {
        let has_numbers = self.numbers_left() > 0 && self.area.has_numbers();
        if has_numbers { Ok(()) } else { Err(IndexError::WornOut.into()) }
    }

    /// Counts blocks anew, after some were taken, given back or lost.
    pub(super) fn recount(&mut self) {
        self.recount_held();
        let (bad, reserved) = (BlockState::Bad, BlockState::Reserved);
        let bad = self.blocks.in_state(bad).count() as u32;
        let reserved = self.blocks.in_state(reserved).count() as u32;
        let pairs = (self.replaced.len() + 1) * PAIR_BYTES;
        let note = if HAS_NOTES { self.note_bound.max(self.note.len()) } else { 0 };
        let payload =
            FIXED_BYTES + self.owner.len() + pairs + note + BlockTable::encoded_bytes(self.geometry);
        let pages = CheckpointArea::pages_needed(self.geometry, payload) as u32;
        debug_assert!(bad + reserved <= self.geometry.blocks, "more blocks are out of use than there are");
        self.capacity = Capacity {
            usable: self.geometry.blocks - bad - reserved,
            for_checkpoint: pages.div_ceil(self.geometry.pages_per_block),
            failed: bad.saturating_sub(self.bad_at_format),
        };
    }

    /// Says how long the notes that checkpoints keep may become, so that their room is kept.
    pub fn expect_note(&mut self, bytes: usize) {
        self.note_bound = bytes;
        self.recount();
    }

    /// Pages kept for the next checkpoint.
    pub fn checkpoint_pages(&self) -> u32 {
        self.capacity.for_checkpoint * self.geometry.pages_per_block
    }

    /// Pages kept for the next checkpoint and for collection; who writes for other reasons leaves them.
    pub fn kept_pages(&self) -> u32 {
        self.checkpoint_pages() + self.geometry.pages_per_block
    }

    /// Valid pages at most, if so many pages must always be found free and a move takes so many programs.
    pub fn live_limit(&self, free_pages: u32, programs_per_move: u32) -> u32 {
        self.limit_with(self.capacity.usable, free_pages, programs_per_move)
    }

    fn limit_with(&self, usable: u32, free_pages: u32, programs_per_move: u32) -> u32 {
        // Blocks that are free or open when one page is missing.
        let not_full = free_pages.div_ceil(self.geometry.pages_per_block) + 1;
        let pages = self.geometry.pages_per_block;
        usable.saturating_sub(not_full) * (pages - (pages / GAIN).max(1)) / programs_per_move.max(1)
    }

    /// The answer to who finds no room for so many pages that live: `WornOut` if blocks that failed would
    /// have had it.
    pub fn refusal(&self, live: u32, free_pages: u32, programs_per_move: u32) -> IndexFault {
        let unworn = self.capacity.usable + self.capacity.failed;
        let had_room = live <= self.limit_with(unworn, free_pages, programs_per_move);
        if self.capacity.failed > 0 && had_room {
            IndexError::WornOut.into()
        } else {
            IndexError::Full.into()
        }
    }

    /// Whether blocks have failed since the chip was formatted.
    pub(super) fn has_failed_blocks(&self) -> bool {
        self.capacity.failed > 0
    }

    /// Erases the blocks that so many pages will take: an operation of which pages wait in RAM cannot be
    /// undone, so it must not begin where an erase that fails might stop it.
    pub(super) fn secure(&mut self, pages: u32) -> Result<(), IndexFault> {
        let open = self.frontier.block.map_or(0, |_| self.geometry.pages_per_block - self.frontier.next_page);
        let wanted = pages.saturating_sub(open).div_ceil(self.geometry.pages_per_block);
        // The pages are a bound; what the operation must find was made free before.
        let wanted = wanted.min(self.blocks.free_count());
        if wanted == 0 {
            return Ok(());
        }
        let good_before = self.blocks.good_count();
        let erased = self.blocks.erase_ahead(&mut self.nand, wanted, Cause::GarbageCollection);
        if self.blocks.good_count() != good_before {
            self.recount();
        }
        erased.map_err(|error| self.worn_or(error.into()))
    }

    /// The error of the chip as the log tells it: no free block where some failed is the end of writing.
    pub(super) fn worn_or(&self, error: StoreError) -> IndexFault {
        match error {
            StoreError::Full if self.capacity.failed > 0 => IndexError::WornOut.into(),
            other => other.into(),
        }
    }

    /// Whether so few blocks are free that the rest of an open one is worth a page skipped.
    pub(super) fn is_tight(&self) -> bool {
        self.blocks.free_count() <= self.config.collect_at_blocks + self.capacity.for_checkpoint
    }
}
