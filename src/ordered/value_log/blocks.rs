//! Blocks of the log: the live bytes in each, the empty ones, and the choice of the next one to clean.

use super::chunk::{Place, chunk_bytes};
use crate::nand::Geometry;
use crate::units::Pbn;
use alloc::vec::Vec;

/// Live bytes of a block, with marks in the highest bits.
#[derive(Clone, Copy, Debug, Default)]
struct Block(u32);

/// Mark: something in the block died since the last sync of the index, so the index on the chip may still
/// name it.
const TOUCHED: u32 = 1 << 31;
/// Mark: a program failed in the block. It is emptied, and then marked bad.
const FAILING: u32 = 1 << 30;
/// Mark: a page of the block was hard to read. The block is emptied.
const WEAK: u32 = 1 << 29;
/// Mark: all pages of the block were looked at, and their live chunks were moved, or could not be read.
const CLEANED: u32 = 1 << 28;
/// Value of a block that is marked bad.
const BAD: u32 = u32::MAX;
const MARKS: u32 = TOUCHED | FAILING | WEAK | CLEANED;

/// After this many victims chosen by their live bytes, the block filled longest ago is chosen. So blocks of
/// unchanged values wear like the others.
const TURN: u32 = 32;

impl Block {
    const fn live(self) -> u32 {
        if self.0 == BAD { 0 } else { self.0 & !MARKS }
    }

    const fn has(self, mark: u32) -> bool {
        self.0 != BAD && self.0 & mark != 0
    }
}

#[derive(Debug)]
pub(super) struct Blocks {
    geometry: Geometry,
    blocks: Vec<Block>,
    /// Round in which each block was filled last since the mount: the number of fills divided by the number
    /// of blocks. `fills` counts the blocks filled so far.
    filled: Vec<u16>,
    fills: u64,
    /// Block being filled.
    pub(super) open: Option<Pbn>,
    /// Block from which the search for an empty block continues.
    next: u32,
    /// Block from which the search for the next victim by age continues, and the number of other victims
    /// until then.
    turn: (u32, u32),
    live: u64,
    /// Block being cleaned, and its next page.
    pub(super) cleaning: Option<(Pbn, u32)>,
    /// True if the block being filled is one that was half filled at the mount.
    pub(super) is_resumed: bool,
    /// True if blocks may have to be emptied even though there is room.
    may_be_urgent: bool,
}

impl Blocks {
    /// Number of empty blocks that are kept for cleaning.
    pub(super) const KEPT: u32 = 3;

    pub(super) fn new(geometry: Geometry) -> Blocks {
        let blocks = alloc::vec![Block::default(); geometry.blocks as usize];
        let filled = alloc::vec![0; geometry.blocks as usize];
        Blocks {
            geometry,
            blocks,
            filled,
            fills: 0,
            open: None,
            next: 0,
            turn: (0, TURN),
            live: 0,
            cleaning: None,
            is_resumed: false,
            may_be_urgent: false,
        }
    }

    /// Bytes of all live chunks.
    pub(super) const fn live(&self) -> u64 {
        self.live
    }

    pub(super) fn live_of(&self, block: Pbn) -> u32 {
        self.blocks[block.index()].live()
    }

    /// Live bytes of each block; 0 for a bad one.
    pub(super) fn all_live(&self) -> impl Iterator<Item = u32> + '_ {
        self.blocks.iter().map(|block| block.live())
    }

    pub(super) fn good(&self) -> u32 {
        self.blocks.iter().filter(|block| block.0 != BAD).count() as u32
    }

    /// Counts a chunk that the index names, or will name.
    pub(super) fn add(&mut self, place: Place, key: usize) {
        let (block, bytes) = self.share(place, key);
        self.blocks[block].0 += bytes;
        self.live += u64::from(bytes);
    }

    /// Counts off a chunk that the index no longer names. `durably` tells whether that is on the chip.
    pub(super) fn release(&mut self, place: Place, key: usize, durably: bool) {
        let (at, bytes) = self.share(place, key);
        let block = &mut self.blocks[at];
        block.0 -= bytes;
        self.live -= u64::from(bytes);
        if !durably {
            block.0 |= TOUCHED;
        }
        if block.live() == 0 {
            block.0 &= !(CLEANED | WEAK);
        }
    }

    fn share(&self, place: Place, key: usize) -> (usize, u32) {
        let block = self.geometry.block_of(place.page).index();
        debug_assert!(self.blocks[block].0 != BAD, "no chunk lies in a bad block");
        (block, chunk_bytes(key, place.bytes.into()) as u32)
    }

    /// Notes that the index was synced: dead chunks are dead on the chip, too.
    pub(super) fn synced(&mut self) {
        for block in self.blocks.iter_mut().filter(|block| block.0 != BAD) {
            block.0 &= !TOUCHED;
        }
    }

    pub(super) fn bad(&mut self, block: Pbn) {
        self.blocks[block.index()].0 = BAD;
    }

    pub(super) fn is_bad(&self, block: Pbn) -> bool {
        self.blocks[block.index()].0 == BAD
    }

    pub(super) fn failed(&mut self, block: Pbn) {
        self.mark(block, FAILING);
        self.may_be_urgent = true;
    }

    pub(super) fn is_failing(&self, block: Pbn) -> bool {
        self.blocks[block.index()].has(FAILING)
    }

    pub(super) fn weak(&mut self, block: Pbn) {
        if self.live_of(block) > 0 {
            self.mark(block, WEAK);
            self.may_be_urgent = true;
        }
    }

    pub(super) fn cleaned(&mut self, block: Pbn) {
        if self.live_of(block) > 0 {
            self.mark(block, CLEANED);
        }
    }

    /// Notes that a chunk to be moved stays in its block.
    pub(super) fn not_cleaned(&mut self, place: Place) {
        let block = self.geometry.block_of(place.page).index();
        if self.blocks[block].0 != BAD {
            self.blocks[block].0 &= !CLEANED;
        }
    }

    fn mark(&mut self, block: Pbn, mark: u32) {
        self.blocks[block.index()].0 |= mark;
    }

    fn is_empty(&self, block: usize) -> bool {
        let state = self.blocks[block];
        state.0 != BAD && state.live() == 0 && self.open.is_none_or(|open| open.index() != block)
    }

    /// Number of empty blocks, some of which may be filled only after a sync.
    pub(super) fn empty(&self) -> u32 {
        (0..self.blocks.len()).filter(|&block| self.is_empty(block)).count() as u32
    }

    /// Takes the next empty block, in turn, that nothing on the chip names.
    pub(super) fn take_empty(&mut self) -> Option<Pbn> {
        let blocks = self.blocks.len() as u32;
        let in_turn = (0..blocks).map(|i| (self.next + i) % blocks);
        let found = in_turn
            .map(Pbn)
            .find(|block| self.is_empty(block.index()) && !self.blocks[block.index()].has(TOUCHED))?;
        self.next = found.0 + 1;
        self.fills += 1;
        self.is_resumed = false;
        self.note_filled(found);
        Some(found)
    }

    fn note_filled(&mut self, block: Pbn) {
        let round = self.fills / self.blocks.len() as u64 + 1;
        self.filled[block.index()] = round.min(u16::MAX.into()) as u16;
    }

    /// Takes a block with live chunks that was not filled since the mount, so that pages at its end may be
    /// erased. Each is taken once; those that are to be emptied come last.
    pub(super) fn take_unfinished(&mut self) -> Option<Pbn> {
        let may_be_unfinished = |block: &Pbn| {
            let state = self.blocks[block.index()];
            self.filled[block.index()] == 0 && state.live() > 0 && !state.has(FAILING)
        };
        let found = (0..self.blocks.len() as u32).map(Pbn).filter(may_be_unfinished).min_by_key(|block| {
            let is_cleaned = self.cleaning.is_some_and(|(cleaned, _)| cleaned == *block);
            is_cleaned || self.blocks[block.index()].has(WEAK | CLEANED)
        })?;
        self.note_filled(found);
        Some(found)
    }

    /// Notes that a block is filled further.
    pub(super) fn resume(&mut self, block: Pbn) {
        self.is_resumed = true;
        self.blocks[block.index()].0 &= !CLEANED;
    }

    fn may_be_cleaned(&self, block: Pbn) -> bool {
        let state = self.blocks[block.index()];
        state.live() > 0 && !state.has(CLEANED) && self.open != Some(block)
    }

    fn to_be_cleaned(&self) -> impl Iterator<Item = Pbn> + '_ {
        (0..self.blocks.len() as u32).map(Pbn).filter(|&block| self.may_be_cleaned(block))
    }

    /// A block that is failing or weak, if there is any.
    fn urgent(&self) -> Option<Pbn> {
        self.to_be_cleaned().find(|block| self.blocks[block.index()].has(FAILING | WEAK))
    }

    /// Chooses the block to clean: one that is failing or weak, at times the one filled longest ago, and else
    /// the one with the fewest live bytes. `None` if no block would give room.
    pub(super) fn victim(&mut self, block_bytes: u32) -> Option<Pbn> {
        if let Some(urgent) = self.urgent() {
            return Some(urgent);
        }
        let emptiest = self.to_be_cleaned().min_by_key(|block| self.live_of(*block))?;
        if self.live_of(emptiest) > block_bytes / 32 * 31 {
            return None;
        }
        let (at, left) = self.turn;
        if left > 0 {
            self.turn.1 -= 1;
            return Some(emptiest);
        }
        let blocks = self.blocks.len() as u32;
        let in_turn = (0..blocks).map(|i| Pbn((at + i) % blocks)).filter(|&block| self.may_be_cleaned(block));
        let found = in_turn.min_by_key(|block| self.filled[block.index()]).unwrap_or(emptiest);
        self.turn = (found.0 + 1, TURN);
        Some(found)
    }

    /// Smallest number of live bytes of a block that can be cleaned.
    pub(super) fn emptiest(&self) -> Option<u32> {
        self.to_be_cleaned().map(|block| self.live_of(block)).min()
    }

    /// Number of blocks to clean with less than `bytes` live bytes.
    pub(super) fn below(&self, bytes: u32) -> u32 {
        self.to_be_cleaned().filter(|&block| self.live_of(block) < bytes).count() as u32
    }

    /// True if a block must be emptied even though there is room.
    pub(super) fn is_urgent(&mut self) -> bool {
        self.may_be_urgent = self.may_be_urgent && self.urgent().is_some();
        self.may_be_urgent
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>() + self.filled.capacity() * size_of::<u16>()
    }
}
