//! A mark for each block, a bit each.

use crate::bits::{self, Word};
use crate::units::Pbn;
use alloc::vec::Vec;

/// Marks of blocks.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    words: Vec<Word>,
}

impl Marks {
    /// No block of so many has one.
    pub(super) fn none(blocks: u32) -> Marks {
        Marks { words: bits::clear(blocks as usize) }
    }

    pub(super) fn has(&self, pbn: Pbn) -> bool {
        bits::is_set(&self.words, pbn.index())
    }

    pub(super) fn set(&mut self, pbn: Pbn) {
        let (word, bit) = bits::place(pbn.index());
        self.words[word] |= bit;
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
        self.words.len() * size_of::<Word>()
    }
}
