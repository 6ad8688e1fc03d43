//! Work ahead of need: blocks with pages that are hard to read are moved.

use super::Sbits;
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand};

impl<N: Nand> Sbits<N> {
    /// Moves the block of a page that was hard to read, if there is one.
    pub(super) fn move_weak(&mut self) -> Result<(), IndexFault> {
        let Some(ppn) = self.blocks.weak.take() else { return Ok(()) };
        let block = self.blocks.geometry.block_of(ppn);
        let moved = self.blocks.move_weak(&mut self.nand, block, &mut self.read);
        self.blocks.weak.rest();
        match moved {
            // Whoever asks for a page that is lost is told, and an insertion misses a block.
            Err(error) if error.is_loss() || error.is_refusal() => Ok(()),
            done => done,
        }
    }

    /// Reads up to `budget` pages of a round, and moves the blocks of those that are hard to read. Returns
    /// the number of pages left; 0 at the end of the round.
    pub(super) fn look_on(&mut self, budget: u32) -> Result<u32, IndexFault> {
        let first = self.blocks.first_page();
        for _ in 0..budget {
            let number = self.scrubbed.max(first);
            if number >= self.blocks.full_pages {
                self.scrubbed = 0;
                return Ok(0);
            }
            self.scrubbed = number + 1;
            match self.read_page(number, Cause::Scrubbing) {
                Err(error) if !error.is_loss() => return Err(error),
                _ => self.move_weak()?,
            }
        }
        Ok((self.blocks.full_pages - self.scrubbed) as u32)
    }
}
