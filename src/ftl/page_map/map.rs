//! Map from logical to physical pages: two bytes each on a chip of at most 65,536 pages, else four.

use super::state::{LOST, NONE};
use alloc::vec;
use alloc::vec::Vec;

/// Most pages of a chip whose page numbers take two bytes. The first block is an anchor or bad and never has
/// a logical page, so its first two numbers can stand for *none* and *lost*.
const NARROW_MAX: u32 = 1 << 16;

/// Physical page of each logical one, or [`NONE`] or [`LOST`].
#[derive(Clone, Debug)]
pub(super) enum PageMap {
    /// Map of a small chip: 0 for none, 1 for lost.
    Narrow(Vec<u16>),
    /// Map of a larger chip.
    Wide(Vec<u32>),
}

impl PageMap {
    /// Makes a map of `page_count` logical pages on a chip of `chip_pages` pages. None is mapped.
    pub(super) fn empty(page_count: u32, chip_pages: u32) -> PageMap {
        match chip_pages {
            0..=NARROW_MAX => PageMap::Narrow(vec![0; page_count as usize]),
            _ => PageMap::Wide(vec![NONE; page_count as usize]),
        }
    }

    /// Bytes of RAM for each logical page, on a chip of `chip_pages` pages.
    pub(super) const fn bytes_each(chip_pages: u32) -> usize {
        if chip_pages <= NARROW_MAX { 2 } else { 4 }
    }

    /// Place as two bytes.
    pub(super) const fn narrowed(ppn: u32) -> u16 {
        match ppn {
            NONE => 0,
            LOST => 1,
            ppn => ppn as u16,
        }
    }

    /// Place from two bytes.
    pub(super) const fn widened(ppn: u16) -> u32 {
        match ppn {
            0 => NONE,
            1 => LOST,
            ppn => ppn as u32,
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            PageMap::Narrow(map) => map.len(),
            PageMap::Wide(map) => map.len(),
        }
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> u32 {
        match self {
            PageMap::Narrow(map) => PageMap::widened(map[at]),
            PageMap::Wide(map) => map[at],
        }
    }

    #[inline]
    pub(super) fn set(&mut self, at: usize, ppn: u32) {
        debug_assert!(ppn > 1, "page {ppn} is an anchor's");
        match self {
            PageMap::Narrow(map) => map[at] = PageMap::narrowed(ppn),
            PageMap::Wide(map) => map[at] = ppn,
        }
    }

    /// Sets the place of a logical page, and returns the old one.
    pub(super) fn replace(&mut self, at: usize, ppn: u32) -> u32 {
        let old = self.get(at);
        self.set(at, ppn);
        old
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.len()).map(|at| self.get(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_none_and_lost_come_back_at_either_width() {
        for chip_pages in [1 << 16, (1 << 16) + 64] {
            let mut map = PageMap::empty(3, chip_pages);
            assert_eq!((map.get(2), map.len()), (NONE, 3));
            map.set(0, chip_pages - 1);
            map.set(1, LOST);
            assert_eq!(map.replace(2, 2), NONE);
            assert!(map.iter().eq([chip_pages - 1, LOST, 2]));
            assert_eq!(map.replace(2, NONE), 2);
            let is_narrow = matches!(map, PageMap::Narrow(_));
            assert_eq!((map.get(2), PageMap::bytes_each(chip_pages)), (NONE, if is_narrow { 2 } else { 4 }));
        }
    }
}
