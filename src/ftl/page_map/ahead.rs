//! Work ahead of time: groups written without waiting for them, collection before blocks run short, and moves
//! of pages that a patrol found weak.

use super::{PageMapFtl, Work, note};
use crate::check::message;
use crate::fault::StoreFault;
use crate::nand::{Cause, Nand};
use crate::store::patrol::Patrol;
use crate::store::{PageStore, StoreError};
use crate::units::Lpn;

/// Blocks to have free beyond the number at which a write would begin to collect.
const BLOCKS_AHEAD: u32 = 2;

impl<N: Nand> PageMapFtl<N> {
    /// Writes an atomic group and does not wait for it. On a chip in an image ([`Nand::waits`]) a power cut
    /// may undo the whole group, until the next write that waits, or the next sync. If the group is
    /// undone, so is every later write.
    ///
    /// # Errors
    ///
    /// Those of [`write_atomic`](crate::PageStore::write_atomic).
    pub fn write_ahead(&mut self, pages: &[(Lpn, &[u8])], cause: Cause) -> Result<(), StoreError> {
        Ok(self.work().write_pages(pages, cause, false)?)
    }

    /// Best number of pages to write ahead at once: larger groups need notes of more than a page.
    pub fn pages_ahead(&self) -> usize {
        note::told_at_once(self.core.geometry, self.core.limits.atomic_pages)
    }
}

impl<N: Nand + ?Sized> Work<'_, N> {
    pub(super) fn write_pages(
        &mut self,
        pages: &[(Lpn, &[u8])],
        cause: Cause,
        waits: bool,
    ) -> Result<(), StoreFault> {
        let most = self.core.limits.atomic_pages;
        if pages.len() > most as usize {
            let what = message!("{} pages at once, this store takes {most}", pages.len());
            return Err(StoreError::Unsupported(what.into()).into());
        }
        if pages.is_empty() { Ok(()) } else { self.write_group(pages, cause, waits) }
    }

    /// Moves pages of the block of a weak page.
    fn tend_weak(&mut self, budget: u32) -> Result<(), StoreFault> {
        self.prepare(&[])?;
        self.outside_batch(|work| work.empty_weak(budget))
    }

    /// Collects as long as there are blocks of which half of the pages or fewer are valid.
    pub(super) fn collect_ahead(&mut self, budget: u32) -> Result<u32, StoreFault> {
        self.wait_for_group()?;
        self.tend_weak(budget)?;
        let weak = self.core.weak.due();
        if weak > 0 {
            return Ok(weak);
        }
        let wanted = self.core.limits.floor_blocks + BLOCKS_AHEAD;
        let mut done = 0;
        while self.core.state.blocks.free_count() < wanted {
            let Some(victim) = self.core.state.blocks.victim(self.core.settings.victim) else { return Ok(0) };
            let valid = self.core.state.blocks.valid_count(victim);
            if 2 * valid > self.core.geometry.pages_per_block {
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
        &mut self.core.scrubbed
    }

    fn look_at(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        let mut page = core::mem::take(&mut self.core.page);
        let read = self.read(lpn, Cause::Scrubbing, &mut page);
        self.core.page = page;
        read
    }

    fn move_weak(&mut self, budget: u32) -> Result<u32, StoreError> {
        if self.core.weak.is_due() {
            self.work().tend_weak(budget)?;
        }
        Ok(self.core.weak.due())
    }
}
