//! The blocks of the log: the bytes that live in each, which is empty, and which is cleaned next.

use super::chunk::{Place, chunk_bytes};
use crate::nand::Geometry;
use crate::units::Pbn;
use alloc::vec::Vec;

/// Bytes that live in a block, and marks in the highest bits.
#[derive(Clone, Copy, Debug, Default)]
struct Block(u32);

/// Something in it died since the index was synced last: what is on the chip may still name it.
const TOUCHED: u32 = 1 << 31;
/// A program of it failed: it is emptied, and marked bad.
const FAILING: u32 = 1 << 30;
/// A page of it was hard to read: it is emptied.
const WEAK: u32 = 1 << 29;
/// All of its pages were looked at, and what lives was moved, or could not be read.
const CLEANED: u32 = 1 << 28;
/// Marked bad.
const BAD: u32 = u32::MAX;
const MARKS: u32 = TOUCHED | FAILING | WEAK | CLEANED;

/// One of so many victims is the block that was filled longest ago, whatever lives in it: so blocks of values
/// that nobody changes wear like the others.
const TURN: u32 = 32;

impl Block {
    const fn live(self) -> u32 {
        if self.0 == BAD { 0 } else { self.0 & !MARKS }
    }

    const fn has(self, mark: u32) -> bool {
        self.0 != BAD && self.0 & mark != 0
    }
}

/// The blocks.
#[derive(Debug)]
pub(super) struct Blocks {
    geometry: Geometry,
    blocks: Vec<Block>,
    /// The round of filling all blocks in which each was filled since the mount, and blocks filled so far.
    filled: Vec<u16>,
    fills: u64,
    /// The block being filled.
    pub(super) open: Option<Pbn>,
    /// Where the search for an empty block goes on.
    next: u32,
    /// Where the search for the block whose turn it is goes on, and victims until then.
    turn: (u32, u32),
    live: u64,
    /// Whether blocks may have to be emptied whatever room there is.
    may_be_urgent: bool,
}

impl Blocks {
    /// Blocks of which as many as this are kept for cleaning.
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
            may_be_urgent: false,
        }
    }

    /// The bytes of all chunks that live.
    pub(super) const fn live(&self) -> u64 {
        self.live
    }

    pub(super) fn live_of(&self, block: Pbn) -> u32 {
        self.blocks[block.index()].live()
    }

    /// The bytes that live in each block, bad ones as 0.
    pub(super) fn all_live(&self) -> impl Iterator<Item = u32> + '_ {
        self.blocks.iter().map(|block| block.live())
    }

    pub(super) fn good(&self) -> u32 {
        self.blocks.iter().filter(|block| block.0 != BAD).count() as u32
    }

    /// Counts a chunk that the index names, or will.
    pub(super) fn add(&mut self, place: Place, key: usize) {
        let (block, bytes) = self.share(place, key);
        self.blocks[block].0 += bytes;
        self.live += u64::from(bytes);
    }

    /// Counts a chunk that the index names no more; `durably` if that is on the chip.
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

    /// The index was synced: what died is dead on the chip, too.
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

    /// A chunk that was to be moved stays in its block.
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

    /// Blocks that may be filled next, some of them after a sync.
    pub(super) fn empty(&self) -> u32 {
        (0..self.blocks.len()).filter(|&block| self.is_empty(block)).count() as u32
    }

    /// The next empty block that nothing on the chip names, in turn.
    pub(super) fn take_empty(&mut self) -> Option<Pbn> {
        let blocks = self.blocks.len() as u32;
        let in_turn = (0..blocks).map(|i| (self.next + i) % blocks);
        let found = in_turn
            .map(Pbn)
            .find(|block| self.is_empty(block.index()) && !self.blocks[block.index()].has(TOUCHED))?;
        self.next = found.0 + 1;
        self.fills += 1;
        self.filled[found.index()] = (self.fills / u64::from(blocks) + 1).min(u16::MAX.into()) as u16;
        Some(found)
    }

    fn may_be_cleaned(&self, block: Pbn) -> bool {
        let state = self.blocks[block.index()];
        state.live() > 0 && !state.has(CLEANED) && self.open != Some(block)
    }

    fn to_be_cleaned(&self) -> impl Iterator<Item = Pbn> + '_ {
        (0..self.blocks.len() as u32).map(Pbn).filter(|&block| self.may_be_cleaned(block))
    }

    /// A block that is failing or weak.
    fn urgent(&self) -> Option<Pbn> {
        self.to_be_cleaned().find(|block| self.blocks[block.index()].has(FAILING | WEAK))
    }

    /// The block to be cleaned that least lives in; before others one that is failing or weak, and now and
    /// then the one that was filled longest ago. None where no block would give room.
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

    /// Bytes that live in the block to be cleaned that least lives in.
    pub(super) fn emptiest(&self) -> Option<u32> {
        self.to_be_cleaned().map(|block| self.live_of(block)).min()
    }

    /// Blocks to be cleaned in which less than so many bytes live.
    pub(super) fn below(&self, bytes: u32) -> u32 {
        self.to_be_cleaned().filter(|&block| self.live_of(block) < bytes).count() as u32
    }

    /// Whether blocks are to be emptied whatever room there is.
    pub(super) fn is_urgent(&mut self) -> bool {
        self.may_be_urgent = self.may_be_urgent && self.urgent().is_some();
        self.may_be_urgent
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>() + self.filled.capacity() * size_of::<u16>()
    }
}
