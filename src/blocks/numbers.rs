//! Rows of numbers below the number of a chip's blocks: two bytes each if they fit.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// Row of numbers, two or four bytes each.
#[derive(Clone, Debug)]
pub(super) enum Numbers {
    /// Row for a chip with fewer than 65,536 blocks.
    Narrow(Vec<u16>),
    /// Row for a larger chip.
    Wide(Vec<u32>),
}

impl Numbers {
    /// Makes a row of `places` zeros, for numbers up to `most`.
    pub(super) fn zeros(places: usize, most: u32) -> Numbers {
        match most {
            0..=0xffff => Numbers::Narrow(vec![0; places]),
            _ => Numbers::Wide(vec![0; places]),
        }
    }

    /// Bytes of RAM that a number up to `most` takes.
    pub(super) const fn bytes_each(most: u32) -> usize {
        if most <= 0xffff { 2 } else { 4 }
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
            Numbers::Narrow(row) => u32::from(row[at]),
            Numbers::Wide(row) => row[at],
        }
    }

    #[inline]
    pub(super) fn set(&mut self, at: usize, number: u32) {
        match self {
            // The number is below the bound for which the row was made.
            Numbers::Narrow(row) => row[at] = number as u16,
            Numbers::Wide(row) => row[at] = number,
        }
    }

    /// Adds one to every number of a part of the row, or subtracts one.
    pub(super) fn step(&mut self, part: Range<usize>, up: bool) {
        match self {
            Numbers::Narrow(row) if up => row[part].iter_mut().for_each(|number| *number += 1),
            Numbers::Narrow(row) => row[part].iter_mut().for_each(|number| *number -= 1),
            Numbers::Wide(row) if up => row[part].iter_mut().for_each(|number| *number += 1),
            Numbers::Wide(row) => row[part].iter_mut().for_each(|number| *number -= 1),
        }
    }

    /// Moves a part of the row to another place.
    pub(super) fn shift(&mut self, part: Range<usize>, to: usize) {
        match self {
            Numbers::Narrow(row) => row.copy_within(part, to),
            Numbers::Wide(row) => row.copy_within(part, to),
        }
    }

    /// Place of a number in a part of the row.
    pub(super) fn find(&self, part: Range<usize>, number: u32) -> Option<usize> {
        let first = part.start;
        let found = match self {
            Numbers::Narrow(row) => row[part].iter().position(|&other| u32::from(other) == number),
            Numbers::Wide(row) => row[part].iter().position(|&other| other == number),
        };
        found.map(|at| first + at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_comes_back_at_either_width() {
        for most in [40, 0xffff, 0x1_0000] {
            let mut row = Numbers::zeros(9, most);
            row.set(8, most);
            row.set(3, 5);
            row.shift(3..9, 2);
            assert_eq!((row.get(2), row.get(7), row.find(1..8, most)), (5, most, Some(7)));
            row.step(1..4, true);
            row.step(2..3, false);
            assert_eq!([1, 2, 3, 4].map(|at| row.get(at)), [1, 5, 1, 0]);
            assert_eq!((row.find(3..7, most), row.len()), (None, 9));
            assert_eq!(Numbers::bytes_each(most), if matches!(row, Numbers::Narrow(_)) { 2 } else { 4 });
        }
    }
}
