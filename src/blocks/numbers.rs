//! Rows of block numbers: two bytes each where a chip has so few blocks that they fit.

use alloc::vec;
use alloc::vec::Vec;

/// No block.
pub(super) const NONE: u32 = u32::MAX;

/// A row of block numbers, some of which may be [`NONE`].
#[derive(Clone, Debug)]
pub(super) enum Numbers {
    /// The row of a chip with fewer than 65,535 blocks.
    Narrow(Vec<u16>),
    /// The row of a larger chip.
    Wide(Vec<u32>),
}

impl Numbers {
    /// A row with as many places as a chip has blocks, each without one.
    pub(super) fn none(blocks: u32) -> Numbers {
        match blocks {
            0..0xffff => Numbers::Narrow(vec![u16::MAX; blocks as usize]),
            _ => Numbers::Wide(vec![NONE; blocks as usize]),
        }
    }

    /// An empty row with room for every block of a chip.
    pub(super) fn with_room(blocks: u32) -> Numbers {
        match blocks {
            0..0xffff => Numbers::Narrow(Vec::with_capacity(blocks as usize)),
            _ => Numbers::Wide(Vec::with_capacity(blocks as usize)),
        }
    }

    /// Bytes of RAM that a number takes on a chip with so many blocks.
    pub(super) const fn bytes_each(blocks: u32) -> usize {
        if blocks < 0xffff { 2 } else { 4 }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Numbers::Narrow(row) => row.len(),
            Numbers::Wide(row) => row.len(),
        }
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> u32 {
        match self {
            Numbers::Narrow(row) if row[at] == u16::MAX => NONE,
            Numbers::Narrow(row) => u32::from(row[at]),
            Numbers::Wide(row) => row[at],
        }
    }

    /// Puts a number, or [`NONE`], into a place.
    #[inline]
    pub(super) fn set(&mut self, at: usize, number: u32) {
        match self {
            // NONE keeps its meaning when it is cut.
            Numbers::Narrow(row) => row[at] = number as u16,
            Numbers::Wide(row) => row[at] = number,
        }
    }

    pub(super) fn push(&mut self, number: u32) {
        self.insert(self.len(), number);
    }

    pub(super) fn insert(&mut self, at: usize, number: u32) {
        match self {
            Numbers::Narrow(row) => row.insert(at, number as u16),
            Numbers::Wide(row) => row.insert(at, number),
        }
    }

    pub(super) fn remove(&mut self, at: usize) {
        match self {
            Numbers::Narrow(row) => drop(row.remove(at)),
            Numbers::Wide(row) => drop(row.remove(at)),
        }
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        match self {
            Numbers::Narrow(row) => row.capacity(),
            Numbers::Wide(row) => row.capacity(),
        }
    }

    pub(super) fn clear(&mut self) {
        match self {
            Numbers::Narrow(row) => row.clear(),
            Numbers::Wide(row) => row.clear(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_none_come_back_at_either_width() {
        for blocks in [40, 0xfffe, 0xffff, 0x1_0001] {
            let mut row = Numbers::none(blocks);
            assert_eq!((row.get(0), row.get(blocks as usize - 1)), (NONE, NONE));
            row.set(0, blocks - 1);
            row.set(1, 0);
            assert_eq!((row.get(0), row.get(1)), (blocks - 1, 0), "of {blocks}");
            row.set(0, NONE);
            assert_eq!(row.get(0), NONE);
            assert_eq!(Numbers::bytes_each(blocks), if matches!(row, Numbers::Narrow(_)) { 2 } else { 4 });
        }
    }
}
