//! The blocks: those of the log from the oldest to the newest, then the free ones in the order of their use.

use crate::units::Pbn;
use alloc::vec::Vec;

/// Mark of a block in which a program failed: it is retired once its records are copied.
const FAILED: u32 = 1 << 31;
/// Mark of a block of the log of which no page counts.
const EMPTY: u32 = 1 << 30;

pub(super) struct Ring {
    blocks: Vec<u32>,
    /// Blocks of the log.
    used: usize,
    /// Number of the oldest block of the log.
    pub(super) oldest: u32,
}

impl Ring {
    pub(super) fn with_capacity(blocks: usize) -> Ring {
        Ring { blocks: Vec::with_capacity(blocks), used: 0, oldest: 0 }
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<u32>()
    }

    pub(super) fn good(&self) -> usize {
        self.blocks.len()
    }

    pub(super) fn used(&self) -> usize {
        self.used
    }

    pub(super) fn free(&self) -> usize {
        self.blocks.len() - self.used
    }

    pub(super) fn next_free(&self) -> Option<Pbn> {
        self.blocks.get(self.used).map(|&block| Pbn(block))
    }

    /// The block of the log at this place from the oldest one on.
    pub(super) fn block(&self, at: usize) -> Pbn {
        Pbn(self.blocks[at] & !(FAILED | EMPTY))
    }

    /// True if pages of the block of the log at this place may count.
    pub(super) fn counts(&self, at: usize) -> bool {
        self.blocks[at] & EMPTY == 0
    }

    /// No page of the block of the log at this place counts.
    pub(super) fn set_empty(&mut self, at: usize) {
        self.blocks[at] |= EMPTY;
    }

    pub(super) fn next_number(&self) -> u32 {
        self.oldest + self.used as u32
    }

    /// Blocks that are kept free.
    pub(super) fn reserve(&self) -> usize {
        if self.good() < 8 { 1 } else { 2 }
    }

    /// True if no more blocks are free than are kept so.
    pub(super) fn is_short(&self) -> bool {
        self.free() <= self.reserve()
    }

    /// Number of a block of the log.
    pub(super) fn number_of(&self, block: Pbn) -> Option<u32> {
        let at = (0..self.used).position(|at| self.block(at) == block)?;
        Some(self.oldest + at as u32)
    }

    /// Adds a free block behind the others.
    pub(super) fn add_free(&mut self, block: Pbn) {
        self.blocks.push(block.0);
    }

    /// Adds a free block that is used before the others.
    pub(super) fn add_next(&mut self, block: Pbn) {
        self.blocks.insert(self.used, block.0);
    }

    /// Adds a block to the log while a mount lists it.
    pub(super) fn add_used(&mut self, block: Pbn) {
        self.blocks.insert(self.used, block.0);
        self.used += 1;
    }

    /// A free block takes the place of one of the log that is not found while a mount lists it.
    pub(super) fn add_stand_in(&mut self) -> bool {
        let last = if self.free() > 0 { self.blocks.pop() } else { None };
        last.inspect(|&block| self.add_used(Pbn(block))).is_some()
    }

    /// The next free block becomes the newest of the log.
    pub(super) fn open(&mut self) {
        self.used += 1;
    }

    /// The next free block failed.
    pub(super) fn drop_free(&mut self) {
        self.blocks.remove(self.used);
    }

    /// A program in the newest block failed.
    pub(super) fn fail_newest(&mut self) {
        if let Some(newest) = self.used.checked_sub(1) {
            self.blocks[newest] |= FAILED;
        }
    }

    /// The oldest block leaves the log. Returns it if it has to be retired.
    pub(super) fn release(&mut self) -> Option<Pbn> {
        let block = self.blocks.remove(0) & !EMPTY;
        self.used -= 1;
        self.oldest += 1;
        if block & FAILED > 0 {
            return Some(Pbn(block & !FAILED));
        }
        self.blocks.push(block);
        None
    }
}
