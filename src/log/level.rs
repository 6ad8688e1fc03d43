//! Wear levelling: data that nobody changes leave a block that lags far behind the most worn one, so that the
//! block wears, too.
//!
//! One block is looked for whenever a sixteenth of the blocks has been opened. Its pages move a few with each
//! operation, side by side, so that few short-lived pages come between them.

use super::collect::{Need, Relocate, has_free};
use super::counted::know_pages;
use super::tape::Tape;
use crate::blocks::BlockState;
use crate::fault::IndexFault;
use crate::nand::Nand;
use crate::units::Pbn;

/// Erases by which a block may lag, at least. It may lag by a quarter of the erases of the most worn block.
const LAG_MIN: u32 = 16;

/// Pages that an operation moves.
const MOVES: u32 = 4;

impl<N: Nand> Tape<N> {
    /// Full block whose data should move. A search is due once for each sixteenth of the blocks opened.
    fn laggard(&mut self) -> Option<Pbn> {
        let scrubbing = &mut self.medium.scrubbing;
        if scrubbing.cold.is_some() {
            return scrubbing.cold.filter(|&cold| self.blocks.state(cold) == BlockState::Full);
        }
        let (blocks, sequence) = (self.medium.geometry.blocks, self.head.frontier.block_sequence);
        let opened = sequence.saturating_sub(scrubbing.levelled_at);
        if !self.config.levels_wear || opened <= blocks / 16 {
            return None;
        }
        // A mount looks for none, so that its first change is a cheap one.
        let is_first = core::mem::replace(&mut scrubbing.levelled_at, sequence) == 0;
        let erases = |pbn: Pbn| self.blocks.erase_count(pbn);
        let most = (0..blocks).map(|block| erases(Pbn(block))).max()?;
        let cold = self.blocks.in_state(BlockState::Full).min_by_key(|&pbn| erases(pbn))?;
        (!is_first && erases(cold) + LAG_MIN.max(most / 4) < most).then_some(cold)
    }
}

/// Moves pages of a block that lags behind, if there is room in addition to `need`.
pub(super) fn level_wear<N: Nand, T: Relocate<N>>(tree: &mut T, need: Need) -> Result<(), IndexFault> {
    let cold = tree.log().tape.laggard();
    tree.log().tape.medium.scrubbing.cold = cold;
    let Some(cold) = cold else { return Ok(()) };
    let cost = tree.move_cost();
    let programs = MOVES * cost.programs + cost.slack;
    if !has_free(tree, need.wanted + programs + tree.log().tape.checkpoint_pages()) {
        return Ok(());
    }
    tree.log().ready_to_collect(Some(cold))?;
    tree.log().tape.medium.scrubbing.levels = true;
    let moved = move_pages(tree, cold);
    tree.log().tape.medium.scrubbing.levels = false;
    moved
}

fn move_pages<N: Nand, T: Relocate<N>>(tree: &mut T, cold: Pbn) -> Result<(), IndexFault> {
    know_pages(tree, cold)?;
    for _ in 0..MOVES {
        let Some(ppn) = tree.log().tape.blocks.next_valid(cold, 0) else { break };
        tree.relocate(ppn)?;
    }
    let tape = &tree.log().tape;
    if tape.valid_in(cold) > 0 || tape.checkpoints.is_closed() {
        return Ok(());
    }
    tree.log().tape.medium.scrubbing.cold = None;
    if tree.let_go(cold)? { tree.log().reclaim(cold) } else { Ok(()) }
}
