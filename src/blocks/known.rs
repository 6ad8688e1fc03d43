//! Blocks whose valid pages are known, in a table that counts valid pages
//! ([`Validity::Counts`](super::Validity)): questions about them, and changes of the counts.

use super::{BlockState, BlockTable};
use crate::units::{Pbn, Ppn};
use alloc::vec::Vec;

impl BlockTable {
    /// True if valid pages are counted by block, and known page by page only in a few blocks.
    #[inline]
    pub fn is_counted(&self) -> bool {
        self.valid.counts().is_some()
    }

    /// Makes all pages of a block invalid.
    pub fn clear_valid(&mut self, pbn: Pbn) {
        if let Some(counts) = self.valid.counts_mut() {
            counts.forget(pbn);
            return self.set_valid_count(pbn, 0);
        }
        while let Some(ppn) = self.next_valid(pbn, 0) {
            self.invalidate(ppn);
        }
    }

    /// Sets the number of pages of a block that may be valid, in a table that counts valid pages.
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

    /// Makes a page valid, whether it counted as valid or not. In a table of counts its block has been
    /// misjudged, so all its pages count.
    pub fn keep(&mut self, ppn: Ppn) {
        if self.is_counted() {
            self.set_valid_count(self.geometry.block_of(ppn), self.geometry.pages_per_block);
        } else {
            self.mark_valid(ppn);
        }
    }

    /// Notes that a block was opened to be filled: its valid pages will be known.
    pub fn follow_pages_of(&mut self, pbn: Pbn) {
        if let Some(counts) = self.valid.counts_mut() {
            counts.open(pbn);
        }
    }

    /// Tells whether it is known which pages of a block are valid.
    pub fn knows_pages_of(&self, pbn: Pbn) -> bool {
        self.valid.counts().is_none_or(|counts| counts.knows(pbn))
    }

    /// Starts to find out which pages are valid, in this block and in those likely to be collected next.
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

    /// Full block with the fewest valid pages, among those asked about.
    pub fn fewest_valid_known(&self) -> Option<Pbn> {
        let known = self.valid.counts()?.asked_about();
        let full = known.filter(|&pbn| self.state(pbn) == BlockState::Full);
        full.min_by_key(|&pbn| self.valid_count(pbn))
    }

    /// True if the valid pages of this block are being asked for.
    pub fn is_asked_about(&self, pbn: Pbn) -> bool {
        self.valid.counts().is_some_and(|counts| counts.asks_about(pbn))
    }

    /// Sets state, erases and number of valid pages of a block from a record later than the table, in a table
    /// that counts valid pages. False if that makes no sense.
    pub fn restore_count(&mut self, pbn: Pbn, (state, erases): (BlockState, u32), count: u32) -> bool {
        let takes_pages = matches!(state, BlockState::Open | BlockState::Full);
        if !takes_pages && count > 0 || count > self.geometry.pages_per_block {
            return false;
        }
        let is_restored = self.restore(pbn, (state, erases), &[]);
        self.set_valid_count(pbn, count);
        is_restored
    }

    /// Starts a new count of the valid pages of all blocks.
    pub fn begin_count(&mut self) {
        if let Some(counts) = self.valid.counts_mut() {
            counts.begin_anew();
        }
    }

    /// Ends a count of all valid pages; without `is_whole` the count is dropped. True if some block has more
    /// valid pages than were counted before.
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

    /// Notes a valid page of any block, once each.
    pub fn note_valid(&mut self, ppn: Ppn) {
        if let Some(counts) = self.valid.counts_mut() {
            counts.note(ppn);
        }
    }

    /// Ends the search for valid pages. The counts found for the blocks asked about are taken over if
    /// `is_whole`, else dropped.
    pub fn end_asking(&mut self, is_whole: bool) {
        let Some(counts) = self.valid.counts_mut() else { return };
        for (pbn, count) in counts.end(is_whole) {
            debug_assert!(count <= self.valid_count(pbn), "T4: {count} pages of {pbn} are valid");
            self.set_valid_count(pbn, count);
        }
    }
}
