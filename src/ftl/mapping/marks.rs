//! A mark for each block, a bit each.

use crate::units::Pbn;
use alloc::vec;
use alloc::vec::Vec;

/// Marks of blocks.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    words: Vec<u64>,
}

impl Marks {
    /// No block of so many has one.
    pub(super) fn none(blocks: u32) -> Marks {
        Marks { words: vec![0; (blocks as usize).div_ceil(64)] }
    }

    pub(super) fn has(&self, pbn: Pbn) -> bool {
        self.words[pbn.index() / 64] >> (pbn.0 % 64) & 1 == 1
    }

    pub(super) fn set(&mut self, pbn: Pbn) {
        self.words[pbn.index() / 64] |= 1 << (pbn.0 % 64);
    }

    /// Takes all marks away.
    pub(super) fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Blocks that have a mark.
    pub(super) fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// Bytes of RAM held.
    pub(super) fn ram_bytes(&self) -> usize {
        self.words.len() * 8
    }
}
