//! Which blocks were given back: each log unit names one, so that a mount takes no node from there again.
//!
//! A block keeps its pages until it is taken again. Should the block be lost that has the newer versions of
//! its nodes, they would be found there, as old as they are. Therefore all blocks that are not erased yet are
//! named in turn, in units of many blocks. Those given back last come first, until units of two blocks name
//! them: one may be the block that is lost.

use super::layout::NO_GENERATION;
use super::store::{Block, Store};
use nandex::blocks::BlockState;
use nandex::nand::Nand;
use nandex::units::Pbn;

/// Blocks that come first; where more are given back at once, the others wait for their turn.
const FIRST: usize = 4;

/// Rows of blocks that a unit looks at for one to name.
const ROWS: u32 = 64;

/// A block given back that too few units name.
#[derive(Clone, Copy, Debug)]
struct Recent {
    generation: u32,
    /// The block of the unit that names it.
    named_in: Option<Pbn>,
}

/// The blocks to be named.
#[derive(Clone, Debug, Default)]
pub(super) struct GivenBack {
    /// The newest first.
    recent: [Option<Recent>; FIRST],
    /// The block whose turn was last.
    turn: u32,
}

impl GivenBack {
    /// A block given back lately that no unit of this block names.
    fn name_recent(&mut self, pbn: Pbn) -> Option<u32> {
        let is_to_be_named = |recent: &Recent| recent.named_in != Some(pbn);
        let place = self.recent.iter_mut().find(|place| place.as_ref().is_some_and(is_to_be_named))?;
        let Recent { generation, named_in } = place.take()?;
        if named_in.is_none() {
            *place = Some(Recent { generation, named_in: Some(pbn) });
        }
        Some(generation)
    }
}

impl<N: Nand> Store<N> {
    /// Notes that a block of this generation is given back.
    pub(super) fn note_given_back(&mut self, pbn: Pbn, generation: u32) {
        if self.is_placed() {
            return;
        }
        let recent = &mut self.given_back.recent;
        recent.rotate_right(1);
        recent[0] = Some(Recent { generation, named_in: None });
        *self.block(pbn) = Block { generation, ..Block::default() };
    }

    /// The generation that the next unit of a block names, or none.
    pub(super) fn name_given_back(&mut self, pbn: Pbn) -> u32 {
        if self.is_placed() {
            return NO_GENERATION;
        }
        if let Some(generation) = self.given_back.name_recent(pbn) {
            return generation;
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
