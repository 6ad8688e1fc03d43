//! Wear levelling: data that nobody changes leave a block that lags far behind the open one, so that the
//! block wears, too.
//!
//! A block is looked for each time another one has been opened, and moves only into one that is worn. Its
//! pages move a few with each operation, so that none waits long, and nearly side by side.
//!
//! [`WearLevelling::laggard`] tells how far a block may lag.
//!
//! [`WearLevelling::laggard`]: crate::blocks::wear::WearLevelling::laggard

use super::collect::{MoveCost, Need, Relocate, dig, has_free, let_go};
use super::counted::know_pages;
use super::tape::Tape;
use crate::blocks::BlockState;
use crate::blocks::wear::WearLevelling;
use crate::fault::IndexFault;
use crate::nand::Nand;
use crate::units::Pbn;

/// Pages that an operation moves.
const MOVES: u32 = 8;

/// The block that is being emptied to even out wear.
#[derive(Default)]
pub(super) struct Levelling {
    cold: Option<Pbn>,
    /// True while pages of that block move.
    pub(super) is_at_work: bool,
    /// Number of the block that was open when one that lags behind was last looked for.
    looked_at: u32,
}

impl<N: Nand> Tape<N> {
    /// Full block whose data should move, if a move of a page takes so many programs.
    fn laggard(&mut self, programs: u32) -> Option<Pbn> {
        let (frontier, levelling) = (self.head.frontier, &mut self.medium.scrubbing.levelling);
        if self.config.wear_levelling == WearLevelling::None {
            return None;
        }
        if levelling.cold.is_some_and(|cold| self.blocks.state(cold) == BlockState::Full) {
            return levelling.cold;
        }
        let looked_at = core::mem::replace(&mut levelling.looked_at, frontier.block_sequence);
        let open = frontier.block.filter(|_| looked_at != frontier.block_sequence)?;
        let pages = self.medium.geometry.pages_per_block;
        if 2 * frontier.next_page > pages {
            return None;
        }
        let full = self.blocks.in_state(BlockState::Full);
        let costs = full.map(|pbn| (pbn, programs * self.blocks.valid_count(pbn)));
        self.config.wear_levelling.laggard(&self.blocks, open, costs)
    }
}

/// Moves pages of a block that lags behind, if there is room in addition to `need`.
pub(super) fn level_wear<N: Nand, T: Relocate<N>>(tree: &mut T, need: Need) -> Result<(), IndexFault> {
    let MoveCost { programs, slack, .. } = tree.move_cost();
    let cold = tree.log().tape.laggard(programs);
    tree.log().tape.medium.scrubbing.levelling.cold = cold;
    let Some(cold) = cold else { return Ok(()) };
    dig(tree, need.pages + MOVES * programs + slack)?;
    if tree.log().tape.blocks.state(cold) != BlockState::Full {
        return Ok(());
    }
    tree.log().ready_to_collect(Some(cold))?;
    tree.log().tape.medium.scrubbing.levelling.is_at_work = true;
    let moved = move_pages(tree, cold, need.pages + programs + slack);
    let tape = &mut tree.log().tape;
    tape.medium.scrubbing.levelling.is_at_work = false;
    match moved {
        // Only who asks for a lost page is to know of it.
        Err(error) if error.is_loss() && !tape.half_done => tape.medium.scrubbing.levelling.cold = None,
        moved => moved?,
    }
    Ok(())
}

/// Moves pages of the block as long as so many pages are free, and reclaims it once it is empty.
fn move_pages<N: Nand, T: Relocate<N>>(tree: &mut T, cold: Pbn, free: u32) -> Result<(), IndexFault> {
    know_pages(tree, cold)?;
    for _ in 0..MOVES {
        let Some(ppn) = tree.log().tape.blocks.next_valid(cold, 0).filter(|_| has_free(tree, free)) else {
            break;
        };
        tree.relocate(ppn)?;
    }
    let tape = &tree.log().tape;
    if tape.valid_in(cold) > 0 || tape.checkpoints.is_closed() || !has_free(tree, free) {
        return Ok(());
    }
    tree.log().tape.medium.scrubbing.levelling.cold = None;
    // Addresses of a block that wears again must not be held for nodes that may never move.
    if tree.log().config().holds {
        tree.write_owed()?;
    }
    if let_go(tree, cold)? { tree.log().reclaim(cold) } else { Ok(()) }
}
