//! Work ahead of time: garbage is collected before blocks run short, and pages are read before anybody asks.

use crate::blocks::weak::WeakBlock;
use crate::fault::IndexFault;
use crate::log::Log;
use crate::log::collect::{Relocate, checkpoint, collect_one};
use crate::log::level::Levelling;
use crate::nand::{Cause, Geometry, Nand, Reading};
use crate::units::Ppn;

/// Blocks to have free beyond the number at which an operation would begin to collect.
const BLOCKS_AHEAD: u32 = 2;

/// Block of a page that was hard to read, and the round of reads that finds others.
#[derive(Default)]
pub(super) struct Scrubbing {
    /// Block whose pages are to be written elsewhere.
    pub(super) weak: WeakBlock,
    /// True if the page read last needed a correction.
    was_corrected: bool,
    pub(super) levelling: Levelling,
    /// Number of pages that the round has passed.
    passed: u32,
}

impl Scrubbing {
    /// Notes how a page was read: the pages of the block of a weak one are looked at by the next operations.
    pub(super) fn note_reading(&mut self, ppn: Ppn, reading: Reading, geometry: Geometry) {
        self.was_corrected = reading != Reading::Whole;
        let first = geometry.page_at(geometry.block_of(ppn), 0).0;
        self.weak.note(ppn, reading, first..first + geometry.pages_per_block);
    }

    /// Cause to which work is booked now: the move of a weak page, or of a cold block, counts as such, not as
    /// collection.
    pub(super) fn charged(&self, cause: Cause) -> Cause {
        match cause {
            Cause::GarbageCollection if self.weak.is_at_work() => Cause::Scrubbing,
            Cause::GarbageCollection if self.levelling.is_at_work => Cause::WearLevelling,
            _ => cause,
        }
    }

    /// Next page of a round over a chip of `pages` pages. `None` at its end.
    fn next(&mut self, pages: u32) -> Option<Ppn> {
        let next = (self.passed < pages).then_some(Ppn(self.passed));
        self.passed = if next.is_some() { self.passed + 1 } else { 0 };
        next
    }
}

/// Collects garbage until some more blocks are free than an operation asks for, or until nothing is gained.
/// About `budget` pages are read or programmed. Returns the pages of such work that are left.
pub fn collect_ahead<N: Nand, T: Relocate<N>>(tree: &mut T, budget: u32) -> Result<u32, IndexFault> {
    if tree.log().is_placed() {
        return Ok(0);
    }
    let tape = &tree.log().tape;
    let is_closed = tape.checkpoints.is_closed();
    if tape.needs_checkpoint() || (tape.is_short_of_blocks(BLOCKS_AHEAD) && is_closed) {
        checkpoint(tree)?;
        let tape = &tree.log().tape;
        if tape.needs_checkpoint() || tape.checkpoints.is_closed() {
            return Ok(0);
        }
    }
    let mut done = 0;
    while tree.log().tape.is_short_of_blocks(BLOCKS_AHEAD) {
        let log = tree.log();
        let pages = log.geometry().pages_per_block;
        let Some(victim) = log.victim()? else { return Ok(0) };
        let valid = log.tape.valid_in(victim);
        if 2 * valid > pages {
            return Ok(0);
        }
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
    /// Reads the next valid page of a round over the chip, and notes it if it is weak. `None` at the end of
    /// the round. A lost page is not reported here but to its next reader.
    pub fn look_on(&mut self) -> Result<Option<Ppn>, IndexFault> {
        let pages = self.geometry().pages();
        while let Some(ppn) = self.tape.medium.scrubbing.next(pages) {
            // A waiting page is not on the chip yet.
            if !self.is_valid(ppn) || self.writes.find(ppn).is_some() {
                continue;
            }
            match self.tape.load(ppn, Cause::Scrubbing) {
                Err(error) if !error.is_loss() => return Err(error),
                _ => {}
            }
            return Ok(Some(ppn));
        }
        Ok(None)
    }

    /// Number of pages that the round has yet to look at; 0 if no round is under way.
    pub fn left_to_look_at(&self) -> u32 {
        let passed = self.tape.medium.scrubbing.passed;
        if passed == 0 { 0 } else { self.geometry().pages() - passed }
    }

    /// Number of pages to look at, of the block of one that was hard to read.
    pub fn weak_pages(&self) -> u32 {
        self.tape.medium.scrubbing.weak.due()
    }

    /// True if a page of such a block is valid on the chip and needs a correction. A page that is lost is
    /// reported to its next reader.
    pub(super) fn is_worn(&mut self, ppn: Ppn) -> Result<bool, IndexFault> {
        if !self.is_valid(ppn) || self.writes.find(ppn).is_some() {
            return Ok(false);
        }
        match self.tape.load(ppn, Cause::Scrubbing) {
            Err(error) if error.is_loss() => Ok(false),
            loaded => loaded.map(|()| self.tape.medium.scrubbing.was_corrected),
        }
    }
}
