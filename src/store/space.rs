//! Which pages of the store are in use: one bit per page, and one more where trims must wait for a sync.
//!
//! A trim may not reach the medium before the write that made the page free does, or a power cut would leave
//! an older tree with a hole. Where writes are durable at once the trim follows at once; elsewhere the page
//! is noted and trimmed by the next sync, unless it was taken again before.

use crate::bits::{self, WORD_BITS, Word};
use crate::units::Lpn;
use alloc::vec;
use alloc::vec::Vec;

/// The pages of the store: in use or free.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    used: Vec<Word>,
    /// Free pages that the store has not been told of; empty where trims need not wait.
    untrimmed: Vec<Word>,
    page_count: u32,
    free: u32,
    /// No word before this one has a free page.
    first_word: usize,
}

impl Space {
    /// All pages free.
    pub(crate) fn new(page_count: u32, trims_wait: bool) -> Space {
        let words = Space::words(page_count);
        Space {
            used: vec![0; words],
            untrimmed: vec![0; if trims_wait { words } else { 0 }],
            page_count,
            free: page_count,
            first_word: 0,
        }
    }

    const fn words(page_count: u32) -> usize {
        (page_count as usize).div_ceil(WORD_BITS)
    }

    /// Bytes of RAM for this many pages.
    pub(crate) const fn ram_bytes(page_count: u32, trims_wait: bool) -> usize {
        Space::words(page_count) * size_of::<Word>() * if trims_wait { 2 } else { 1 }
    }

    pub(crate) fn page_count(&self) -> u32 {
        self.page_count
    }

    pub(crate) fn free_pages(&self) -> u32 {
        self.free
    }

    pub(crate) fn used_pages(&self) -> u32 {
        self.page_count - self.free
    }

    pub(crate) fn is_used(&self, lpn: Lpn) -> bool {
        bits::is_set(&self.used, lpn.index())
    }

    /// Takes a certain page; false when it is in use already.
    pub(crate) fn claim(&mut self, lpn: Lpn) -> bool {
        assert!(lpn.0 < self.page_count, "{lpn} is beyond the store");
        if self.is_used(lpn) {
            return false;
        }
        set(&mut self.used, lpn, true);
        if !self.untrimmed.is_empty() {
            set(&mut self.untrimmed, lpn, false);
        }
        self.free -= 1;
        true
    }

    /// Takes the first free page.
    pub(crate) fn allocate(&mut self) -> Option<Lpn> {
        if self.free == 0 {
            return None;
        }
        let word = (self.first_word..self.used.len()).find(|&w| self.used[w] != Word::MAX)?;
        self.first_word = word;
        let lpn = Lpn((word * WORD_BITS) as u32 + self.used[word].trailing_ones());
        self.claim(lpn);
        Some(lpn)
    }

    /// Gives back a page that was never written, or is to be trimmed at once.
    pub(crate) fn release(&mut self, lpn: Lpn) {
        assert!(self.is_used(lpn), "{lpn} is freed twice");
        set(&mut self.used, lpn, false);
        self.free += 1;
        self.first_word = self.first_word.min(lpn.index() / WORD_BITS);
    }

    /// Gives a page back; returns whether it is to be trimmed at once.
    pub(crate) fn release_written(&mut self, lpn: Lpn) -> bool {
        self.release(lpn);
        if self.untrimmed.is_empty() {
            return true;
        }
        set(&mut self.untrimmed, lpn, true);
        false
    }

    /// From now on trims need not wait.
    pub(crate) fn trim_at_once(&mut self) {
        self.untrimmed = Vec::new();
    }

    /// The first page from `start` on whose trim waited for the sync that is just done.
    pub(crate) fn next_untrimmed(&mut self, start: Lpn) -> Option<Lpn> {
        let first = start.index() / WORD_BITS;
        let word = (first..self.untrimmed.len()).find(|&w| self.untrimmed[w] != 0)?;
        let lpn = Lpn((word * WORD_BITS) as u32 + self.untrimmed[word].trailing_zeros());
        set(&mut self.untrimmed, lpn, false);
        Some(lpn)
    }
}

fn set(row: &mut [Word], lpn: Lpn, on: bool) {
    let (word, bit) = bits::place(lpn.index());
    let word = &mut row[word];
    *word = if on { *word | bit } else { *word & !bit };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_handed_out_once_lowest_first() {
        let mut space = Space::new(130, false);
        assert!(space.claim(Lpn(0)) && !space.claim(Lpn(0)));
        assert!((1..130).all(|n| space.allocate() == Some(Lpn(n))));
        assert_eq!((space.allocate(), space.free_pages()), (None, 0));
        space.release(Lpn(70));
        space.release(Lpn(7));
        assert_eq!(
            (space.allocate(), space.allocate(), space.allocate()),
            (Some(Lpn(7)), Some(Lpn(70)), None)
        );
    }

    #[test]
    fn a_page_taken_again_is_not_trimmed() {
        let mut space = Space::new(64, true);
        let (a, b) = (space.allocate().unwrap(), space.allocate().unwrap());
        assert!(!space.release_written(a) && !space.release_written(b));
        assert_eq!(space.allocate(), Some(a));
        assert_eq!((space.next_untrimmed(Lpn(0)), space.next_untrimmed(b)), (Some(b), None));
    }
}
