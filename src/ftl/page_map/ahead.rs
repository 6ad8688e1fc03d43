//! Work ahead of time: collection before blocks are short, and moving the pages that a patrol found weak.

use super::PageMapFtl;
use super::state::NONE;
use crate::fault::StoreFault;
use crate::nand::Nand;
use crate::store::StoreError;
use crate::store::patrol::Patrol;

/// Blocks beyond those at which a write would begin to collect.
const BLOCKS_AHEAD: u32 = 2;

impl<N: Nand> PageMapFtl<N> {
    /// Collects while blocks that hold half of their pages or less can be had.
    pub(super) fn collect_ahead(&mut self, budget: u32) -> Result<u32, StoreFault> {
        self.wait_for_group()?;
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
}

impl<N: Nand> Patrol for PageMapFtl<N> {
    fn at(&mut self) -> &mut u32 {
        &mut self.scrubbed
    }

    fn move_weak(&mut self) -> Result<(), StoreError> {
        if self.weak == NONE { Ok(()) } else { Ok(self.prepare(&[])?) }
    }
}
