//! Work ahead of time: collection before blocks are short, and pages looked at before anybody asks.

use super::PageMapFtl;
use super::state::NONE;
use crate::nand::{Cause, Nand, NandError};
use crate::store::{PageStore, StoreError};
use crate::units::Lpn;

/// Blocks beyond those at which a write would begin to collect.
const BLOCKS_AHEAD: u32 = 2;

impl<N: Nand> PageMapFtl<N> {
    /// Collects while blocks that hold half of their pages or less can be had.
    pub(super) fn collect_ahead(&mut self, budget: u32) -> Result<u32, StoreError> {
        self.prepare(&[])?;
        let wanted = self.limits.floor_blocks + BLOCKS_AHEAD;
        let mut done = 0;
        while self.state.blocks.free_count() < wanted {
            let Some(victim) = self.state.blocks.victim(self.settings.victim) else { return Ok(0) };
            let valid = self.state.blocks.valid_count(victim);
            if 2 * valid > self.geometry.pages_per_block {
                return Ok(0);
            }
            if done >= budget {
                return Ok(valid + 1);
            }
            self.collect()?;
            done += 2 * valid + 1;
        }
        Ok(0)
    }

    /// Reads logical pages and moves those that are weak.
    pub(super) fn look_on(&mut self, budget: u32) -> Result<u32, StoreError> {
        let mut page = alloc::vec![0; self.page_bytes()];
        for _ in 0..budget {
            if self.scrubbed >= self.page_count() {
                self.scrubbed = 0;
                return Ok(0);
            }
            let lpn = Lpn(self.scrubbed);
            self.scrubbed += 1;
            match self.read(lpn, Cause::Scrubbing, &mut page) {
                // What is lost already is told to whoever asks for it.
                Ok(())
                | Err(StoreError::Corrupted { .. } | StoreError::Nand(NandError::Uncorrectable(_))) => {}
                Err(error) => return Err(error),
            }
            if self.weak != NONE {
                self.prepare(&[])?;
            }
        }
        Ok(self.page_count() - self.scrubbed)
    }
}
