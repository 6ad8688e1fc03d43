//! Pages in use as bits, and the search for runs of pages that are not.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

const WORD_BITS: u32 = u64::BITS;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PageMap {
    words: Vec<u64>,
    count: u32,
}

impl PageMap {
    pub(super) fn new(pages: u32) -> PageMap {
        PageMap { words: vec![0; pages.div_ceil(WORD_BITS) as usize], count: 0 }
    }

    pub(super) const fn ram_bytes_for(pages: u32) -> usize {
        pages.div_ceil(WORD_BITS) as usize * size_of::<u64>()
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.words.len() * size_of::<u64>()
    }

    pub(super) fn len(&self) -> u32 {
        self.count
    }

    pub(super) fn contains(&self, page: u32) -> bool {
        self.words[(page / WORD_BITS) as usize] >> (page % WORD_BITS) & 1 == 1
    }

    /// Adds a page. Returns whether it was not in the set.
    pub(super) fn insert(&mut self, page: u32) -> bool {
        let is_new = !self.contains(page);
        self.words[(page / WORD_BITS) as usize] |= 1 << (page % WORD_BITS);
        self.count += u32::from(is_new);
        debug_assert!(
            self.count as usize <= self.words.len() * WORD_BITS as usize,
            "{} pages are in the set",
            self.count
        );
        is_new
    }

    /// Removes a page. Returns whether it was in the set.
    pub(super) fn remove(&mut self, page: u32) -> bool {
        let was_there = self.contains(page);
        self.words[(page / WORD_BITS) as usize] &= !(1 << (page % WORD_BITS));
        self.count -= u32::from(was_there);
        was_there
    }

    /// The pages of the set in a range.
    pub(super) fn of(&self, pages: Range<u32>) -> impl Iterator<Item = u32> + '_ {
        pages.filter(|page| self.contains(*page))
    }

    /// The first page of the set at `page` or after it.
    pub(super) fn next(&self, page: u32) -> Option<u32> {
        let mut at = (page / WORD_BITS) as usize;
        let mut word = self.words.get(at)? & (u64::MAX << (page % WORD_BITS));
        while word == 0 {
            at += 1;
            word = *self.words.get(at)?;
        }
        Some(at as u32 * WORD_BITS + word.trailing_zeros())
    }

    /// The first run of at least `least` pages of a range that are neither in the set nor withheld. A
    /// longer run is cut to `most` pages.
    pub(super) fn free_run(
        &self,
        range: Range<u32>,
        least: u32,
        most: u32,
        is_withheld: impl Fn(u32) -> bool,
    ) -> Option<Range<u32>> {
        let (mut start, mut page) = (range.start, range.start);
        while page < range.end && page - start < most {
            let is_full =
                page.is_multiple_of(WORD_BITS) && self.words[(page / WORD_BITS) as usize] == u64::MAX;
            if !is_full && !self.contains(page) && !is_withheld(page) {
                page += 1;
                continue;
            }
            if page - start >= least {
                break;
            }
            page += if is_full { WORD_BITS } else { 1 };
            start = page;
        }
        debug_assert!(
            page == start || (page - start <= most && page <= range.end),
            "a run {start}..{page} of {most} pages at most in {range:?}"
        );
        (page > start && page - start >= least).then_some(start..page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_the_first_that_is_long_enough() {
        let mut map = PageMap::new(300);
        (0..64).for_each(|page| assert!(map.insert(page)));
        [66, 70, 75, 200].into_iter().for_each(|page| assert!(map.insert(page)));
        let run = |range, least, most| map.free_run(range, least, most, |page| page == 68);
        assert_eq!(run(0..300, 1, 9), Some(64..66));
        assert_eq!(run(0..300, 3, 9), Some(71..75));
        assert_eq!(run(0..300, 5, 9), Some(76..85));
        assert_eq!(run(0..300, 125, 200), None);
        assert_eq!(run(0..300, 124, 200), Some(76..200));
        assert_eq!(run(295..300, 3, 9), Some(295..300));
        assert_eq!((run(0..64, 1, 1), run(69..70, 1, 4)), (None, Some(69..70)));
        assert_eq!((map.next(0), map.next(64), map.next(201)), (Some(0), Some(66), None));
        assert!(map.remove(66) && !map.remove(66) && map.len() == 67 && map.of(60..80).count() == 6);
    }
}
