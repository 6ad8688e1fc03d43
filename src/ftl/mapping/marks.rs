//! Marks of blocks, one bit each.

use crate::bits::{self, Word};
use crate::units::Pbn;
use alloc::vec::Vec;

/// Set of marked blocks.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    words: Vec<Word>,
}

impl Marks {
    /// Makes a set without marks for `blocks` blocks.
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

    pub(super) fn clear(&mut self) {
        self.words.fill(0);
    }

    pub(super) fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.words.len() * size_of::<Word>()
    }
}
