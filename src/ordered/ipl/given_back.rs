//! Which blocks were given back: each log unit names one, so that a mount takes no node from there again.
//!
//! A block keeps its pages until it is taken again. Should the block be lost that has the newer versions of
//! its nodes, they would be found there, as old as they are. So all blocks that are not erased yet are named
//! in turn, in units of many blocks; those that no unit has named yet come first.

use super::layout::NO_GENERATION;
use super::store::{Block, Store};
use crate::blocks::BlockState;
use crate::nand::Nand;
use crate::units::Pbn;

/// Blocks that come first; where more are given back at once, the others wait for their turn.
const FIRST: usize = 4;

/// Rows of blocks that a unit looks at for one to name.
const ROWS: u32 = 64;

/// The blocks to be named.
#[derive(Clone, Debug)]
pub(super) struct GivenBack {
    /// Generations that no unit has named, the newest first.
    unnamed: [u32; FIRST],
    /// The block whose turn was last.
    turn: u32,
}

impl Default for GivenBack {
    fn default() -> GivenBack {
        GivenBack { unnamed: [NO_GENERATION; FIRST], turn: 0 }
    }
}

impl<N: Nand> Store<N> {
    /// Notes that a block of this generation is given back.
    pub(super) fn note_given_back(&mut self, pbn: Pbn, generation: u32) {
        if self.is_placed() {
            return;
        }
        let unnamed = &mut self.given_back.unnamed;
        unnamed.rotate_right(1);
        unnamed[0] = generation;
        *self.block(pbn) = Block { generation, ..Block::default() };
    }

    /// The generation that the next unit names, or none.
    pub(super) fn name_given_back(&mut self) -> u32 {
        if let Some(next) = self.given_back.unnamed.iter_mut().find(|next| **next != NO_GENERATION) {
            return core::mem::replace(next, NO_GENERATION);
        }
        for _ in 0..ROWS.min(self.geometry.blocks) {
            let turn = (self.given_back.turn + 1) % self.geometry.blocks;
            self.given_back.turn = turn;
            let row = self.blocks[turn as usize];
            if row.generation > 0 && row.live == 0 && self.table.state(Pbn(turn)) == BlockState::Unclean {
                return row.generation;
            }
        }
        NO_GENERATION
    }
}
