//! The live pages, and the place of the next one: blocks without live pages are filled in turn, erased just
//! before.

use super::NONE;
use super::page::Shape;
use super::pages::Pages;
use crate::blocks::mark_bad;
use crate::check::IndexError;
use crate::fault::IndexFault;
use crate::nand::{Cause, Geometry, Nand, is_done};
use crate::units::{Pbn, Ppn};
use alloc::vec;
use alloc::vec::Vec;

#[derive(Clone, Debug)]
pub(super) struct Space {
    pub(super) geometry: Geometry,
    /// A bit a page.
    live: Vec<u8>,
    live_of_block: Vec<u16>,
    bad: Vec<bool>,
    /// Blocks in which a program failed. They get no new pages, and are retired once they are empty.
    pub(super) failing: Vec<u32>,
    /// Blocks that hold the changes of a batch: they are left alone until it is entered.
    pub(super) pinned: Vec<u32>,
    /// The block being filled, or [`NONE`]; then its next page.
    open: u32,
    next: u32,
    /// The block after which the next one is looked for.
    turn: u32,
}

impl Space {
    pub(super) fn new(geometry: Geometry, bad: Vec<bool>) -> Space {
        Space {
            geometry,
            live: vec![0; (geometry.pages() as usize).div_ceil(8)],
            live_of_block: vec![0; geometry.blocks as usize],
            bad,
            failing: Vec::new(),
            pinned: Vec::new(),
            open: NONE,
            next: 0,
            turn: geometry.blocks - 1,
        }
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.live.len() + self.live_of_block.len() * 2 + self.bad.len() + self.failing.capacity() * 4
    }

    pub(super) fn is_bad(&self, block: u32) -> bool {
        self.bad[block as usize]
    }

    pub(super) fn is_live(&self, ppn: u32) -> bool {
        self.live[ppn as usize / 8] & (1 << (ppn % 8)) != 0
    }

    pub(super) fn live_of(&self, block: u32) -> u32 {
        u32::from(self.live_of_block[block as usize])
    }

    pub(super) fn live_pages(&self) -> u64 {
        self.live_of_block.iter().map(|&live| u64::from(live)).sum()
    }

    pub(super) fn set_live(&mut self, ppn: u32) {
        assert!(!self.is_live(ppn), "page {ppn} is live already");
        self.live[ppn as usize / 8] |= 1 << (ppn % 8);
        self.live_of_block[self.geometry.block_of(Ppn(ppn)).index()] += 1;
        debug_assert!(
            self.live_of(self.geometry.block_of(Ppn(ppn)).0) <= self.geometry.pages_per_block,
            "O5: too many live pages"
        );
    }

    /// Goes on filling a block from this page on.
    pub(super) fn resume(&mut self, block: u32, next: u32) {
        debug_assert!(next <= self.geometry.pages_per_block, "a page of the block, or none");
        if self.is_usable(block) && next < self.geometry.pages_per_block {
            (self.open, self.next, self.turn) = (block, next, block);
        }
    }

    /// Takes every page for dead.
    pub(super) fn forget_live(&mut self) {
        self.live.fill(0);
        self.live_of_block.fill(0);
        debug_assert_eq!(self.live_pages(), 0, "O5: pages are live that were forgotten");
    }

    pub(super) fn set_dead(&mut self, ppn: u32) {
        assert!(self.is_live(ppn), "page {ppn} is not live");
        self.live[ppn as usize / 8] &= !(1 << (ppn % 8));
        self.live_of_block[self.geometry.block_of(Ppn(ppn)).index()] -= 1;
    }

    /// Whether a block may be used once it is empty.
    fn is_usable(&self, block: u32) -> bool {
        !self.is_bad(block) && !self.failing.contains(&block)
    }

    fn is_free(&self, block: u32) -> bool {
        block != self.open && self.live_of(block) == 0 && self.is_usable(block)
    }

    /// Pages that may be written before anything is collected.
    pub(super) fn free_pages(&self) -> u32 {
        let blocks = (0..self.geometry.blocks).filter(|&block| self.is_free(block)).count() as u32;
        let open = if self.open == NONE { 0 } else { self.geometry.pages_per_block - self.next };
        blocks * self.geometry.pages_per_block + open
    }

    /// Pages of the blocks that may hold nodes.
    pub(super) fn usable_pages(&self) -> u64 {
        let blocks = (0..self.geometry.blocks).filter(|&block| self.is_usable(block)).count() as u64;
        blocks * u64::from(self.geometry.pages_per_block)
    }

    /// True if at least `pages` pages are free. Stops counting there.
    pub(super) fn has_free(&self, pages: u32) -> bool {
        let per_block = self.geometry.pages_per_block;
        let open = if self.open == NONE { 0 } else { per_block - self.next };
        let blocks = pages.saturating_sub(open).div_ceil(per_block) as usize;
        self.in_turn().filter(|&block| self.is_free(block)).take(blocks).count() == blocks
    }

    /// All blocks, from the one in turn on.
    fn in_turn(&self) -> impl Iterator<Item = u32> {
        let (turn, blocks) = (self.turn, self.geometry.blocks);
        (1..=blocks).map(move |i| (turn + i) % blocks)
    }

    /// The block with the fewest live pages, if that leaves anything to be won; the next one in turn among
    /// equals.
    pub(super) fn victim(&self) -> Option<u32> {
        let closed = self.in_turn().filter(|&block| {
            let live = self.live_of(block);
            let is_left_alone = block == self.open || self.pinned.contains(&block);
            !is_left_alone && self.is_usable(block) && live > 0 && live < self.geometry.pages_per_block
        });
        closed.min_by_key(|&block| self.live_of(block))
    }

    /// Whether a program failed in the block, or the block is bad.
    pub(super) fn has_failed(&self, block: u32) -> bool {
        !self.is_usable(block)
    }

    /// Stops using a block after a failed program. If it is the block being filled, its remaining pages stay
    /// unused.
    fn fail(&mut self, block: u32) {
        if self.open == block {
            self.open = NONE;
        }
        if !self.failing.contains(&block) {
            self.failing.push(block);
        }
    }
}

impl<N: Nand> Pages<N> {
    /// Takes the next page to be written.
    fn allocate(&mut self, cause: Cause) -> Result<u32, IndexFault> {
        let per_block = self.space.geometry.pages_per_block;
        loop {
            if self.space.open != NONE && self.space.next < per_block {
                debug_assert!(
                    !self.space.has_failed(self.space.open),
                    "a page of a block that failed is given out"
                );
                let ppn = self.space.open * per_block + self.space.next;
                self.space.next += 1;
                return Ok(ppn);
            }
            self.space.open = NONE;
            let free = self.space.in_turn().find(|&block| self.space.is_free(block));
            let block = free.ok_or(IndexError::NO_BLOCK)?;
            debug_assert_eq!(
                self.space.live_of(block),
                0,
                "O5: block {block} is erased and holds live pages"
            );
            debug_assert!(
                !self.space.pinned.contains(&block),
                "O7: block {block} is erased and holds a batch"
            );
            self.space.turn = block;
            let cause = if cause == Cause::Host { Cause::GarbageCollection } else { cause };
            if is_done(self.nand.erase(Pbn(block), cause))? {
                (self.space.open, self.space.next) = (block, 0);
            } else {
                self.discard(block)?;
            }
        }
    }

    pub(super) fn discard(&mut self, block: u32) -> Result<(), IndexFault> {
        debug_assert_eq!(self.space.live_of(block), 0, "O5: block {block} is retired and holds live pages");
        self.space.bad[block as usize] = true;
        self.retired += 1;
        Ok(mark_bad(&mut self.nand, Pbn(block))?)
    }

    /// Notes that a program failed in the block of this page.
    pub(super) fn program_failed(&mut self, ppn: u32) {
        self.space.fail(self.space.geometry.block_of(Ppn(ppn)).0);
    }

    /// Programs the page that was put together to a new place.
    pub(super) fn write_birth(&mut self, shape: Shape, cause: Cause) -> Result<u32, IndexFault> {
        loop {
            let ppn = self.allocate(cause)?;
            shape.seal(&mut self.birth, ppn);
            self.weak.credit.note_program();
            if Self::program(&mut self.nand, ppn, cause, &self.birth)? {
                self.space.set_live(ppn);
                return Ok(ppn);
            }
            self.program_failed(ppn);
        }
    }

    /// A number above those of all pages so far.
    pub(super) fn next_sequence(&mut self) -> u32 {
        self.sequence = self.sequence.saturating_add(1);
        self.sequence
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn as_many_pages_are_free_as_are_counted() {
        let mut rng = Rng::new(4);
        for _ in 0..2_000 {
            let geometry = Geometry::new(256, 16, 1 + rng.below(9) as u32, 1 + rng.below(20) as u32);
            let mut space = Space::new(geometry, (0..geometry.blocks).map(|_| rng.below(6) == 0).collect());
            (0..geometry.pages()).filter(|_| rng.below(5) == 0).for_each(|ppn| space.set_live(ppn));
            let block = rng.below(geometry.blocks.into()) as u32;
            space.resume(block, rng.below(geometry.pages_per_block.into()) as u32);
            space.turn = rng.below(geometry.blocks.into()) as u32;
            if rng.below(3) == 0 {
                space.fail(rng.below(geometry.blocks.into()) as u32);
            }
            let free = space.free_pages();
            for pages in 0..=geometry.pages() + 1 {
                assert_eq!(space.has_free(pages), free >= pages, "{pages} of {free}: {space:?}");
            }
            let emptiest = space.victim().map(|block| space.live_of(block));
            assert!(emptiest.is_none_or(|live| 0 < live && live < geometry.pages_per_block));
        }
    }
}
