//! The rows of the table, one for each block: use and valid pages in two bytes, erases in three.

use super::BlockState;
use alloc::vec;
use alloc::vec::Vec;

/// Erases that can be told apart; a block that has more keeps to them. No part is specified for a fiftieth.
pub(super) const ERASES_MAX: u32 = (1 << 24) - 1;

/// Valid pages have 13 bits, for 4,096 pages a block, and the use the rest.
const STATE_SHIFT: u32 = 13;
/// A block that is Free and was erased before it was taken.
const AHEAD: u16 = 6;

/// Use, valid pages and erases of all blocks.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    uses: Vec<u16>,
    erases: Vec<[u8; 3]>,
}

impl Rows {
    /// Bytes of RAM for each block.
    pub(super) const BYTES_EACH: usize = 5;

    /// Blocks of which nothing is known.
    pub(super) fn unclean(blocks: u32) -> Rows {
        let unclean = (BlockState::Unclean as u16) << STATE_SHIFT;
        Rows { uses: vec![unclean; blocks as usize], erases: vec![[0; 3]; blocks as usize] }
    }

    pub(super) fn len(&self) -> usize {
        self.uses.len()
    }

    #[inline]
    pub(super) fn state(&self, at: usize) -> BlockState {
        match self.uses[at] >> STATE_SHIFT {
            0 | AHEAD => BlockState::Free,
            1 => BlockState::Unclean,
            2 => BlockState::Open,
            3 => BlockState::Full,
            4 => BlockState::Reserved,
            _ => BlockState::Bad,
        }
    }

    #[inline]
    pub(super) fn set_state(&mut self, at: usize, state: BlockState) {
        self.uses[at] = self.uses[at] & ((1 << STATE_SHIFT) - 1) | (state as u16) << STATE_SHIFT;
    }

    /// Erased before it was taken: that is counted then, and it keeps its turn.
    pub(super) fn set_ahead(&mut self, at: usize) {
        self.uses[at] = AHEAD << STATE_SHIFT;
    }

    /// Whether a block was erased before it was taken, which is then forgotten.
    pub(super) fn take_ahead(&mut self, at: usize) -> bool {
        let is_ahead = self.uses[at] >> STATE_SHIFT == AHEAD;
        if is_ahead {
            self.set_state(at, BlockState::Free);
        }
        is_ahead
    }

    #[inline]
    pub(super) fn valid(&self, at: usize) -> u32 {
        u32::from(self.uses[at] & ((1 << STATE_SHIFT) - 1))
    }

    /// A page more or less is valid.
    #[inline]
    pub(super) fn change_valid(&mut self, at: usize, more: bool) {
        if more {
            self.uses[at] += 1;
        } else {
            self.uses[at] -= 1;
        }
    }

    #[inline]
    pub(super) fn erases(&self, at: usize) -> u32 {
        let [low, middle, high] = self.erases[at];
        u32::from_le_bytes([low, middle, high, 0])
    }

    pub(super) fn set_erases(&mut self, at: usize, erases: u32) {
        let [low, middle, high, _] = erases.min(ERASES_MAX).to_le_bytes();
        self.erases[at] = [low, middle, high];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_pages_and_erases_do_not_touch_each_other() {
        use BlockState::{Bad, Free, Full, Open, Reserved, Unclean};
        let mut rows = Rows::unclean(3);
        assert_eq!((rows.state(1), rows.valid(1), rows.erases(1)), (Unclean, 0, 0));
        for state in [Free, Unclean, Open, Full, Reserved, Bad] {
            rows.set_state(1, state);
            (0..4096).for_each(|_| rows.change_valid(1, true));
            rows.set_erases(1, 0x12_3456);
            assert_eq!((rows.state(1), rows.valid(1), rows.erases(1)), (state, 4096, 0x12_3456));
            (0..4096).for_each(|_| rows.change_valid(1, false));
            assert_eq!((rows.state(1), rows.valid(1)), (state, 0));
        }
        rows.set_ahead(1);
        assert_eq!(rows.state(1), Free);
        assert!(rows.take_ahead(1) && !rows.take_ahead(1));
        rows.set_erases(1, u32::MAX);
        assert_eq!(rows.erases(1), ERASES_MAX);
        assert_eq!((rows.state(0), rows.state(2), rows.erases(0)), (Unclean, Unclean, 0));
    }
}
