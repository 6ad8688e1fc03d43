//! Work ahead of time: garbage collected before a block is short, and pages looked at before anybody asks.

use crate::fault::IndexFault;
use crate::log::Log;
use crate::log::collect::{Relocate, collect_one};
use crate::nand::{Cause, Nand};
use crate::units::Ppn;

/// Weak pages that are kept in mind.
pub(super) const WEAK_MAX: usize = 8;

/// Blocks beyond those at which an operation would begin to collect.
const BLOCKS_AHEAD: u32 = 2;

/// Collects garbage until some blocks more are free than an operation asks for, or nothing is gained; about
/// so many pages are read or programmed. Returns the pages of such work that are left.
pub fn collect_ahead<N: Nand, T: Relocate<N>>(tree: &mut T, budget: u32) -> Result<u32, IndexFault> {
    if tree.log().is_placed() {
        return Ok(0);
    }
    if tree.log().needs_checkpoint() || (tree.log().lacks_blocks() && tree.log().is_closed()) {
        tree.checkpoint()?;
        if tree.log().needs_checkpoint() || tree.log().is_closed() {
            return Ok(0);
        }
    }
    let mut done = 0;
    while tree.log().lacks_blocks() {
        let log = tree.log();
        let pages = log.geometry().pages_per_block;
        let Some(valid) = log.valid_in_victim()?.filter(|valid| 2 * valid <= pages) else { return Ok(0) };
        if done >= budget {
            return Ok(valid + 1);
        }
        if !collect_one(tree)? {
            return Ok(0);
        }
        done += 2 * valid + 1;
    }
    Ok(0)
}

impl<N: Nand> Log<N> {
    /// A page was whole at a later read only, or only just.
    pub(super) fn note_weak(&mut self, ppn: Ppn) {
        if self.weak.len() < WEAK_MAX && !self.weak.contains(&ppn) {
            self.weak.push(ppn);
        }
    }

    /// A page that should be written elsewhere soon; it counts as dealt with.
    pub(super) fn take_weak(&mut self) -> Option<Ppn> {
        while let Some(weak) = self.weak.pop() {
            if self.is_valid(weak) {
                return Some(weak);
            }
        }
        None
    }

    fn lacks_blocks(&self) -> bool {
        self.is_short_of_blocks(BLOCKS_AHEAD)
    }

    /// Looks at the next valid page of a round over the chip, so that it is noted where it is weak; none at
    /// the end of the round. A page that is lost already is told to whoever asks for it.
    pub fn look_on(&mut self) -> Result<Option<Ppn>, IndexFault> {
        let pages = self.geometry().pages();
        while self.scrubbed < pages {
            let ppn = Ppn(self.scrubbed);
            self.scrubbed += 1;
            // What waits to be written is not on the chip yet.
            if !self.is_valid(ppn) || self.writes.find(ppn).is_some() {
                continue;
            }
            match self.load(ppn, Cause::Scrubbing) {
                Err(error) if !error.is_loss() => return Err(error),
                _ => {}
            }
            return Ok(Some(ppn));
        }
        self.scrubbed = 0;
        Ok(None)
    }

    /// Pages of the chip that the round has yet to look at; 0 where none is under way.
    pub fn left_to_look_at(&self) -> u32 {
        if self.scrubbed == 0 { 0 } else { self.geometry().pages() - self.scrubbed }
    }

    /// Whether pages were found that should be written elsewhere.
    pub fn has_weak(&self) -> bool {
        !self.weak.is_empty()
    }

    /// Who pays for what is done for this cause now: moving a weak page is no collection.
    pub(super) fn charged(&self, cause: Cause) -> Cause {
        if self.moves_weak && cause == Cause::GarbageCollection { Cause::Scrubbing } else { cause }
    }
}
