//! Blocks given back: each log unit names one of them, so that a mount takes no nodes from it again.
//!
//! A block keeps its contents until it is used again. If the block with the newer versions of its nodes is
//! lost, a mount would find the old versions. Therefore all blocks that are not erased yet are named in turn,
//! in units of many blocks. Blocks given back last come first, until units of two blocks name them: one of
//! the two may be the lost block.

use super::layout::NO_GENERATION;
use super::places::Block;
use nandex::blocks::{BlockState, BlockTable};
use nandex::units::Pbn;

/// Most recently given back blocks that are named first. Further ones wait for their turn.
const FIRST: usize = 4;

/// Rows of blocks that a unit looks at for one to name.
const ROWS: u32 = 64;

/// A recently given back block that too few units name.
#[derive(Clone, Copy, Debug)]
struct Recent {
    generation: u32,
    /// Block of the unit that names it.
    named_in: Option<Pbn>,
}

/// The blocks that units must name.
#[derive(Clone, Debug, Default)]
pub(super) struct GivenBack {
    /// Blocks given back last, the newest first.
    recent: [Option<Recent>; FIRST],
    /// Block named last in turn.
    turn: u32,
}

impl GivenBack {
    /// Notes that a block of this generation is given back.
    pub(super) fn note(&mut self, generation: u32) {
        self.recent.rotate_right(1);
        self.recent[0] = Some(Recent { generation, named_in: None });
    }

    /// Generation for the next unit of block `pbn` to name, or none.
    pub(super) fn name(&mut self, pbn: Pbn, blocks: &[Block], table: &BlockTable) -> u32 {
        // A block given back lately that no unit of this block names.
        let is_to_be_named =
            |recent: &Option<Recent>| recent.is_some_and(|recent| recent.named_in != Some(pbn));
        if let Some(place) = self.recent.iter_mut().find(|recent| is_to_be_named(recent))
            && let Some(Recent { generation, named_in }) = place.take()
        {
            *place = named_in.is_none().then_some(Recent { generation, named_in: Some(pbn) });
            return generation;
        }
        let count = blocks.len() as u32;
        for _ in 0..ROWS.min(count) {
            self.turn = (self.turn + 1) % count;
            let row = blocks[self.turn as usize];
            if row.generation > 0 && row.live == 0 && table.state(Pbn(self.turn)) == BlockState::Unclean {
                return row.generation;
            }
        }
        NO_GENERATION
    }
}
