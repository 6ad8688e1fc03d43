//! Room: blocks are emptied by writing their live pages anew. The place of a page is named by its parent
//! alone, which is overwritten, or written anew when it is full.

use super::update::Anew;
use super::{InPlace, NONE, SEQUENCE_BITS};
use crate::blocks::weak::LOOKS;
use crate::check::{IndexError, Invariant, words};
use crate::codec::numbers;
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand, Reading, is_done};
use crate::units::{Pbn, Ppn};

impl<N: Nand> InPlace<N> {
    /// Free pages needed before an operation that takes `pages` pages.
    pub(super) fn wanted_for(&self, pages: u32) -> u32 {
        pages + self.path.pages_per_operation() + self.pages.space.geometry.pages_per_block
    }

    /// Makes room for a change that takes `pages` more pages than one of a record. A removal alone writes a
    /// page only if a program fails.
    pub(super) fn make_room_for_change(&mut self, pages: u32, only_removes: bool) -> Result<(), IndexFault> {
        match self.make_room_for(pages) {
            Err(error) if only_removes && error.is_full() && !self.pages.interrupted => {
                self.require_spare_pages()
            }
            made => made,
        }
    }

    /// Sees to it that an operation finds the pages it may need, `pages` more, and a block to move pages to.
    pub(super) fn make_room_for(&mut self, pages: u32) -> Result<(), IndexFault> {
        self.pages.writable()?;
        if u64::from(self.pages.sequence) >= numbers(SEQUENCE_BITS) {
            return Err(IndexError::WornOut.into());
        }
        self.retire_failing()?;
        self.renew_weak(LOOKS)?;
        let wanted = self.wanted_for(pages);
        if self.pages.space.has_free(wanted) {
            return Ok(());
        }
        // Each move frees the page it moves, and a parent written anew its own: what is won is lost again
        // only where all parents are full, and then the chip is.
        for _ in 0..2 * self.pages.space.geometry.blocks {
            let Some(block) = self.pages.space.victim() else { return Err(IndexError::NO_BLOCK.into()) };
            self.counters.collections += 1;
            self.empty(block, Cause::GarbageCollection)?;
            if self.pages.space.has_free(wanted) {
                return Ok(());
            }
        }
        Err(IndexError::NO_BLOCK.into())
    }

    /// Refuses a removal if programs fail and no page is left.
    fn require_spare_pages(&self) -> Result<(), IndexFault> {
        let may_take = 2 * u32::from(self.path.height) + 2;
        let has_room = self.pages.space.failing.is_empty() || self.pages.space.has_free(may_take);
        if has_room { Ok(()) } else { Err(IndexError::WornOut.into()) }
    }

    /// Looks at pages of the block of a weak page, and rewrites those that needed a correction, while there
    /// is plenty of room. Returns the number of pages that are left.
    pub(super) fn renew_weak(&mut self, budget: u32) -> Result<u32, IndexFault> {
        for _ in 0..budget {
            let Some(ppn) = self.pages.weak.take() else { break };
            let moved = self.look_at_weak(ppn);
            self.pages.weak.rest();
            moved?;
        }
        Ok(self.pages.weak.due())
    }

    /// Makes room, and moves pages that are hard to read; `scrubs` reads up to `budget` pages to find them.
    /// Returns the number of pages that are left.
    pub(super) fn ahead(&mut self, budget: u32, scrubs: bool) -> Result<u32, IndexFault> {
        let pages = self.pages.space.geometry.pages();
        let mut looked = 0;
        while scrubs && looked < budget && self.pages.scrubbed < pages {
            let ppn = self.pages.scrubbed;
            self.pages.scrubbed += 1;
            if self.pages.space.is_live(ppn) {
                looked += 1;
                self.pages.look_on(Ppn(ppn))?;
            }
        }
        let left = if scrubs { pages - self.pages.scrubbed } else { 0 };
        if left == 0 && scrubs {
            self.pages.scrubbed = 0;
        }
        match self.make_room_for(0) {
            Err(error) if error.is_refusal() => Ok(left),
            made => made.and_then(|()| Ok(left.max(self.renew_weak(budget)?))),
        }
    }

    fn look_at_weak(&mut self, ppn: Ppn) -> Result<(), IndexFault> {
        let space = &self.pages.space;
        let wanted = 2 * self.path.pages_per_operation() + space.geometry.pages_per_block;
        if !space.is_live(ppn.0) || !space.pinned.is_empty() || !space.has_free(wanted) {
            return Ok(());
        }
        if matches!(self.pages.look_on(ppn)?, Reading::Whole | Reading::Broken) {
            return Ok(());
        }
        self.move_page(ppn.0, Cause::Scrubbing)
    }

    /// Rewrites the live pages of a block elsewhere.
    fn empty(&mut self, block: u32, cause: Cause) -> Result<(), IndexFault> {
        let per_block = self.pages.space.geometry.pages_per_block;
        for ppn in block * per_block..(block + 1) * per_block {
            if !self.pages.space.is_live(ppn) {
                continue;
            }
            if !self.pages.space.has_free(2 * u32::from(self.path.height) + 2) {
                return Err(IndexError::NO_BLOCK.into());
            }
            self.move_page(ppn, cause)?;
        }
        debug_assert_eq!(self.pages.space.live_of(block), 0, "O5: block {block} still holds live pages");
        Ok(())
    }

    fn move_page(&mut self, ppn: u32, cause: Cause) -> Result<(), IndexFault> {
        self.counters.moved_pages += 1;
        self.pages.interrupted = true;
        if ppn == self.settings_page {
            self.settings_page = self.pages.write_settings(cause)?;
            self.replaced.push(ppn);
        } else {
            let level = self.find(ppn, cause)?;
            let entries = self.entries_with(level, &[], &[]);
            self.replace(level, &entries, Anew::AsIs, cause)?;
        }
        self.free_replaced();
        self.pages.interrupted = false;
        Ok(())
    }

    /// Loads the path to a page of the tree and returns the page's level.
    fn find(&mut self, ppn: u32, cause: Cause) -> Result<u8, IndexFault> {
        if ppn == self.path.root {
            let level = self.path.height;
            self.path.load(&mut self.pages, level, ppn)?;
            return Ok(level);
        }
        let (level, key) = self.pages.read_key(ppn, self.path.height, cause)?;
        if let Some(key) = key {
            self.path.descend(&mut self.pages, &key, false, level)?;
            if self.path.node(level).ppn == ppn {
                return Ok(level);
            }
            return Err(IndexFault::broken(Invariant::O5, "a live page is not in the tree", ppn));
        }
        // An empty leaf says nothing of its place.
        self.path.descend(&mut self.pages, &[], false, 1)?;
        while self.path.node(1).ppn != ppn {
            let bound = self.path.leaf_bound(&self.pages.shapes.inner);
            let what = "a live leaf is not in the tree";
            let bound = bound.ok_or_else(|| IndexFault::broken(Invariant::O5, what, ppn))?;
            self.path.descend(&mut self.pages, &bound, true, 1)?;
        }
        Ok(1)
    }

    /// Empties blocks in which a program failed, and marks them bad.
    fn retire_failing(&mut self) -> Result<(), IndexFault> {
        while let Some(&block) = self.pages.space.failing.first() {
            if self.pages.space.pinned.contains(&block) {
                return Ok(());
            }
            match self.empty(block, Cause::GarbageCollection) {
                Ok(()) => {}
                // It has to wait until there is room.
                Err(error) if error.is_full() && !self.pages.interrupted => return Ok(()),
                Err(error) => return Err(error),
            }
            self.pages.space.failing.retain(|&failing| failing != block);
            self.pages.discard(block)?;
        }
        Ok(())
    }

    /// See [`OverwriteTree::format`](super::OverwriteTree::format).
    pub(super) fn format(&mut self) -> Result<(), IndexFault> {
        let per_block = self.pages.space.geometry.pages_per_block;
        self.require_blocks()?;
        for block in 0..self.pages.space.geometry.blocks {
            if !self.pages.space.is_bad(block)
                && self.pages.is_written(block, per_block)?
                && !is_done(self.pages.nand.erase(Pbn(block), Cause::Checkpoint))?
            {
                self.pages.discard(block)?;
            }
        }
        self.require_blocks()?;
        self.path.root = self.write_node(1, true, &[], Cause::Checkpoint)?;
        self.settings_page = self.pages.write_settings(Cause::Checkpoint)?;
        debug_assert!(self.path.root != NONE);
        Ok(())
    }

    /// Refuses a chip that is too small for a single record: root, settings, and the free blocks that an
    /// insertion needs.
    fn require_blocks(&self) -> Result<(), IndexFault> {
        let geometry = self.pages.space.geometry;
        let pages = 2 + self.path.pages_per_operation() + geometry.pages_per_block;
        // Fewer than four were never tried by power cuts.
        let needs = if geometry.blocks < 4 { 4 } else { pages.div_ceil(geometry.pages_per_block) };
        let has = (0..geometry.blocks).filter(|&block| !self.pages.space.is_bad(block)).count() as u32;
        if has >= needs {
            return Ok(());
        }
        Err(IndexError::ChipTooSmall { who: words("a VMTree-OW"), needs, has }.into())
    }
}
