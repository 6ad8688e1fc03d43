//! Blocks of which it is known which pages are valid, where valid pages are counted
//! ([`Validity::Counts`](super::Validity)): who asks about them, and what becomes of the counts.

use super::{BlockState, BlockTable};
use crate::units::{Pbn, Ppn};
use alloc::vec::Vec;

impl BlockTable {
    /// Whether valid pages are counted by block, and the pages of few blocks known.
    #[inline]
    pub fn is_counted(&self) -> bool {
        self.valid.counts().is_some()
    }

    /// No page of a block is valid any more.
    pub fn clear_valid(&mut self, pbn: Pbn) {
        if let Some(counts) = self.valid.counts_mut() {
            counts.forget(pbn);
            return self.set_valid_count(pbn, 0);
        }
        while let Some(ppn) = self.next_valid(pbn, 0) {
            self.invalidate(ppn);
        }
    }

    /// Where valid pages are counted: so many of a block may be valid.
    pub fn set_valid_count(&mut self, pbn: Pbn, count: u32) {
        let (state, before) = (self.state(pbn), self.valid_count(pbn));
        let Some(counts) = self.valid.counts_mut().filter(|_| count != before) else { return };
        assert!(matches!(state, BlockState::Open | BlockState::Full), "T2: {pbn} is {state:?}");
        counts.set_count(pbn, count);
        let now = counts.count(pbn);
        self.live_pages = self.live_pages + now - before;
        if state == BlockState::Full {
            self.uses.places.remove(pbn, before);
            self.uses.places.add(pbn, now);
        }
    }

    /// A page is valid, whether it was counted or not. Where it was not, its block has been misjudged, and
    /// all pages of it count.
    pub fn keep(&mut self, ppn: Ppn) {
        if self.is_counted() {
            self.set_valid_count(self.geometry.block_of(ppn), self.geometry.pages_per_block);
        } else {
            self.mark_valid(ppn);
        }
    }

    /// A block was opened to be filled: which of its pages are valid will be known.
    pub fn follow_pages_of(&mut self, pbn: Pbn) {
        if let Some(counts) = self.valid.counts_mut() {
            counts.open(pbn);
        }
    }

    /// Whether it is known which pages of a block are valid.
    pub fn knows_pages_of(&self, pbn: Pbn) -> bool {
        self.valid.counts().is_none_or(|counts| counts.knows(pbn))
    }

    /// Begins to ask which pages are valid of this block, and of those that are likely to be collected next.
    pub fn ask_about(&mut self, victim: Pbn) {
        let Some(at_once) = self.valid.counts().map(|counts| counts.asked_at_once()) else { return };
        let mut blocks = Vec::with_capacity(at_once);
        blocks.push(victim);
        let others = self.full_by_fewest_valid().filter(|&pbn| pbn != victim && self.valid_count(pbn) > 0);
        blocks.extend(others.take(at_once - 1));
        if let Some(counts) = self.valid.counts_mut() {
            counts.ask(&blocks);
        }
    }

    /// The full block with the fewest valid pages among those that were asked about.
    pub fn fewest_valid_known(&self) -> Option<Pbn> {
        let known = self.valid.counts()?.asked_about();
        let full = known.filter(|&pbn| self.state(pbn) == BlockState::Full);
        full.min_by_key(|&pbn| self.valid_count(pbn))
    }

    /// Whether it is asked which pages of a block are valid.
    pub fn is_asked_about(&self, pbn: Pbn) -> bool {
        self.valid.counts().is_some_and(|counts| counts.asks_about(pbn))
    }

    /// Where valid pages are counted: makes a block what a later record than the table's says of it. False:
    /// that makes no sense.
    pub fn restore_count(&mut self, pbn: Pbn, (state, erases): (BlockState, u32), count: u32) -> bool {
        let takes_pages = matches!(state, BlockState::Open | BlockState::Full);
        if !takes_pages && count > 0 || count > self.geometry.pages_per_block {
            return false;
        }
        let is_restored = self.restore(pbn, (state, erases), &[]);
        self.set_valid_count(pbn, count);
        is_restored
    }

    /// Begins to count the valid pages of all blocks anew.
    pub fn begin_count(&mut self) {
        if let Some(counts) = self.valid.counts_mut() {
            counts.begin_anew();
        }
    }

    /// All pages that are valid were noted, or, if not `is_whole`, nobody can tell. Whether some block has
    /// more of them than were counted before.
    pub fn end_count(&mut self, is_whole: bool) -> bool {
        let mut is_more = false;
        let Some(anew) = self.valid.counts_mut().map(|counts| counts.take_anew()) else { return false };
        for pbn in (0..self.geometry.blocks).map(Pbn).filter(|_| is_whole) {
            let now = self.valid.counts().map_or(0, |counts| counts.new_count(&anew, pbn));
            is_more |= now > self.valid_count(pbn);
            if matches!(self.state(pbn), BlockState::Open | BlockState::Full) {
                self.set_valid_count(pbn, now);
            }
        }
        is_more
    }

    /// A page that is valid, of whatever block: each once.
    pub fn note_valid(&mut self, ppn: Ppn) {
        if let Some(counts) = self.valid.counts_mut() {
            counts.note(ppn);
        }
    }

    /// All pages that are valid were noted, or, if not `is_whole`, nobody can tell.
    pub fn end_asking(&mut self, is_whole: bool) {
        let Some(counts) = self.valid.counts_mut() else { return };
        for (pbn, count) in counts.end(is_whole) {
            debug_assert!(count <= self.valid_count(pbn), "T4: {count} pages of {pbn} are valid");
            self.set_valid_count(pbn, count);
        }
    }
}
