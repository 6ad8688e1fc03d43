//! Which pages of a store are in use: one bit per page, and a second bit if trims must wait for a sync.
//!
//! A trim must not reach the medium before the write that made the page free. Otherwise a power cut would
//! leave an older tree with a hole. If writes are durable at once, the trim follows at once. Else the page is
//! noted, and the next sync trims it unless it was taken again.
//!
//! If RAM is short, only one part of the store at a time has its bits in RAM. Of the other parts only the
//! number of free pages is known. Whoever looks at another part marks the pages in use there.

use crate::bits::{self, WORD_BITS, Word};
use crate::units::Lpn;
use alloc::vec;
use alloc::vec::Vec;

/// The pages of a store, in use or free.
#[derive(Clone, Debug)]
pub struct Space {
    /// One bit for each page of the part in RAM, set if the page is in use.
    used: Vec<Word>,
    start: u32,
    part: u32,
    /// Number of free pages of each part; empty if there is one part.
    free_in: Vec<u32>,
    /// One bit for each free page whose trim waits for a sync; empty if trims need not wait.
    untrimmed: Vec<Word>,
    page_count: u32,
    free: u32,
    /// No word of `used` before this one has a free page.
    first_word: usize,
}

impl Space {
    /// Returns the state in which all pages are free.
    pub fn new(page_count: u32, trims_wait: bool) -> Space {
        let words = Space::words(page_count);
        Space {
            used: vec![0; words],
            start: 0,
            part: page_count,
            free_in: Vec::new(),
            untrimmed: vec![0; if trims_wait { words } else { 0 }],
            page_count,
            free: page_count,
            first_word: 0,
        }
    }

    /// Returns the state in which all pages are free, with the bits of `part` pages at a time in RAM. Trims
    /// do not wait.
    pub(crate) fn windowed(page_count: u32, part: u32) -> Space {
        let pages_of = |first: u32| part.min(page_count - first);
        Space {
            used: vec![0; Space::words(part)],
            start: 0,
            part,
            free_in: (0..page_count).step_by(part as usize).map(pages_of).collect(),
            untrimmed: Vec::new(),
            page_count,
            free: page_count,
            first_word: 0,
        }
    }

    /// Bytes of RAM for a store of `page_count` pages with the bits of `part` pages in RAM.
    pub(crate) const fn windowed_bytes(page_count: u32, part: u32) -> usize {
        Space::words(part) * size_of::<Word>() + page_count.div_ceil(part) as usize * size_of::<u32>()
    }

    pub(crate) fn held_bytes(&self) -> usize {
        (self.used.len() + self.untrimmed.len()) * size_of::<Word>() + self.free_in.len() * size_of::<u32>()
    }

    const fn words(page_count: u32) -> usize {
        (page_count as usize).div_ceil(WORD_BITS)
    }

    /// Bytes of RAM for a store of `page_count` pages.
    pub const fn ram_bytes(page_count: u32, trims_wait: bool) -> usize {
        Space::words(page_count) * size_of::<Word>() * if trims_wait { 2 } else { 1 }
    }

    /// Number of pages of the store.
    pub fn page_count(&self) -> u32 {
        self.page_count
    }

    /// Number of free pages.
    pub fn free_pages(&self) -> u32 {
        self.free
    }

    /// Number of pages in use.
    pub fn used_pages(&self) -> u32 {
        self.page_count - self.free
    }

    /// Returns true if a page is in use, or lies in a part whose bits are not in RAM.
    pub fn is_used(&self, lpn: Lpn) -> bool {
        self.place(lpn).is_none_or(|place| bits::is_set(&self.used, place.index()))
    }

    /// Returns the number of a page within the part in RAM; `None` if it lies in another part.
    fn place(&self, lpn: Lpn) -> Option<Lpn> {
        if !cfg!(feature = "in-parts") {
            return Some(lpn);
        }
        lpn.0.checked_sub(self.start).filter(|&place| place < self.part).map(Lpn)
    }

    /// Counts a page that becomes free, or that is taken.
    fn count(&mut self, lpn: Lpn, is_free: bool) {
        let step = |count: u32| if is_free { count + 1 } else { count - 1 };
        self.free = step(self.free);
        if cfg!(feature = "in-parts")
            && let Some(free) = self.free_in.get_mut((lpn.0 / self.part) as usize)
        {
            *free = step(*free);
        }
    }

    /// Number of free pages that can be taken: the free ones in the part whose bits are in RAM.
    pub(crate) fn room(&self) -> u32 {
        if !cfg!(feature = "in-parts") {
            return self.free;
        }
        self.free_in.get((self.start / self.part.max(1)) as usize).copied().unwrap_or(self.free)
    }

    /// Returns the part with the most free pages, if it has at least `pages` of them.
    pub(crate) fn roomiest(&self, pages: u32) -> Option<u32> {
        let (part, &free) = self.free_in.iter().enumerate().max_by_key(|&(_, &free)| free)?;
        (free >= pages).then_some(part as u32)
    }

    /// Loads no bits: the caller marks the pages in use in `part`.
    pub(crate) fn look_at(&mut self, part: u32) {
        self.start = part * self.part;
        self.used.fill(0);
        self.first_word = 0;
    }

    /// Marks a page that is in use and counted as such. Returns false if it was marked before.
    pub(crate) fn mark(&mut self, lpn: Lpn) -> bool {
        let Some(place) = self.place(lpn) else { return true };
        let is_new = !bits::is_set(&self.used, place.index());
        set(&mut self.used, place, true);
        is_new
    }

    /// Takes the page `lpn`. Returns false if it is in use.
    pub fn claim(&mut self, lpn: Lpn) -> bool {
        assert!(lpn.0 < self.page_count, "{lpn} is beyond the store");
        if !self.mark(lpn) {
            return false;
        }
        if !self.untrimmed.is_empty() {
            set(&mut self.untrimmed, lpn, false);
        }
        self.count(lpn, false);
        true
    }

    /// Takes the first free page. Returns `None` if no page is free.
    pub fn allocate(&mut self) -> Option<Lpn> {
        if self.room() == 0 {
            return None;
        }
        let word = (self.first_word..self.used.len()).find(|&w| self.used[w] != Word::MAX)?;
        self.first_word = word;
        let lpn = Lpn(self.start + (word * WORD_BITS) as u32 + self.used[word].trailing_ones());
        self.claim(lpn);
        Some(lpn)
    }

    /// Frees a page that was never written, or that the caller trims at once.
    pub fn release(&mut self, lpn: Lpn) {
        assert!(self.is_used(lpn), "{lpn} is freed twice");
        self.count(lpn, true);
        let Some(place) = self.place(lpn) else { return };
        set(&mut self.used, place, false);
        self.first_word = self.first_word.min(place.index() / WORD_BITS);
    }

    /// Frees a page. Returns true if the caller must trim it at once; otherwise the next sync does.
    pub fn release_written(&mut self, lpn: Lpn) -> bool {
        self.release(lpn);
        if self.untrimmed.is_empty() {
            return true;
        }
        set(&mut self.untrimmed, lpn, true);
        false
    }

    /// Trims need not wait from now on.
    pub(crate) fn trim_at_once(&mut self) {
        self.untrimmed = Vec::new();
    }

    /// Returns the first page from `start` on whose trim waited for the sync that was just done. The page
    /// waits no longer.
    pub fn next_untrimmed(&mut self, start: Lpn) -> Option<Lpn> {
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

    #[cfg(feature = "in-parts")]
    #[test]
    fn one_part_is_looked_at_at_a_time() {
        let mut space = Space::windowed(150, 64);
        assert!((0..150).all(|n| space.claim(Lpn(n))) && space.room() == 0 && space.used_pages() == 150);
        [3, 70, 71, 149].into_iter().for_each(|n| space.release(Lpn(n)));
        assert_eq!((space.room(), space.free_pages()), (1, 4));
        assert_eq!((space.allocate(), space.allocate(), space.roomiest(3)), (Some(Lpn(3)), None, None));
        assert_eq!(space.roomiest(2), Some(1));
        space.look_at(1);
        (0..150).filter(|n| ![70, 71, 149].contains(n)).for_each(|n| assert!(space.mark(Lpn(n))));
        assert!(!space.mark(Lpn(69)) && space.is_used(Lpn(149)) && !space.is_used(Lpn(71)));
        assert_eq!(
            (space.allocate(), space.allocate(), space.allocate()),
            (Some(Lpn(70)), Some(Lpn(71)), None)
        );
        assert_eq!((space.roomiest(1), space.free_pages()), (Some(2), 1));
        assert_eq!(space.held_bytes(), Space::windowed_bytes(150, 64));
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
