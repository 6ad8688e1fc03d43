//! Paired pages. In MLC flash two pages of a block share their cells. If a power cut tears the program of the
//! later page, the earlier one may be destroyed, though it was whole before.
//!
//! [`Pairing`] says which pages are pairs. [`LowerPages`] shows a chip without the later pages: half of the
//! pages remain, and no program destroys another of them.

use super::{Cause, Geometry, Nand, NandError, ReadOutcome, forward_nand};
use crate::units::{Pbn, Ppn};

/// Scheme by which the pages of a block share their cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub enum Pairing {
    /// No pages share cells.
    #[default]
    None,
    /// Pages 0 and 2 are a pair; every odd page is one with the even page three behind it; the last page is
    /// one with the page two before it. Many MLC parts are made in this way; Linux calls it `dist3`. A block
    /// has an even number of pages, at least 4.
    Three,
}

impl Pairing {
    /// All schemes.
    pub const ALL: [Pairing; 2] = [Pairing::None, Pairing::Three];

    /// Name in options and chip files.
    pub const fn name(self) -> &'static str {
        match self {
            Pairing::None => "none",
            Pairing::Three => "dist3",
        }
    }

    /// Returns the page of a block that a torn program of `page` may destroy; `None` if there is none.
    pub const fn lower_of(self, page: u32, pages_per_block: u32) -> Option<u32> {
        match self {
            Pairing::None => None,
            Pairing::Three if page == 2 || page + 1 == pages_per_block => Some(page - 2),
            Pairing::Three if page > 2 && page.is_multiple_of(2) => Some(page - 3),
            Pairing::Three => None,
        }
    }

    /// Returns the first page of pair `number`.
    const fn lower(self, number: u32) -> u32 {
        match self {
            Pairing::Three if number > 0 => 2 * number - 1,
            Pairing::Three | Pairing::None => number,
        }
    }
}

/// A chip of which only the first page of each pair is used. No program destroys another of these pages. If
/// pages are paired, half of the pages remain. The remaining pages are numbered from 0 on, in errors too.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct LowerPages<N> {
    nand: N,
    pairing: Pairing,
    chip: Geometry,
    geometry: Geometry,
}

impl<N: Nand> LowerPages<N> {
    /// Shows the chip without the second page of each pair.
    pub fn new(nand: N, pairing: Pairing) -> LowerPages<N> {
        let chip = nand.geometry();
        let pages_per_block = match pairing {
            Pairing::None => chip.pages_per_block,
            Pairing::Three => chip.pages_per_block / 2,
        };
        LowerPages { nand, pairing, chip, geometry: Geometry { pages_per_block, ..chip } }
    }

    /// The chip, for injecting faults.
    pub fn nand_mut(&mut self) -> &mut N {
        &mut self.nand
    }

    /// Returns the chip.
    pub fn into_nand(self) -> N {
        self.nand
    }

    fn page_of_chip(&self, ppn: Ppn) -> Result<Ppn, NandError> {
        if ppn.0 >= self.geometry.pages() {
            return Err(NandError::PageOutOfRange(ppn));
        }
        let page = self.pairing.lower(self.geometry.page_in_block(ppn));
        Ok(self.chip.page_at(self.geometry.block_of(ppn), page))
    }
}

fn renamed(error: NandError, page: Ppn) -> NandError {
    error.renumbered(|_| page, |block| block)
}

impl<N: Nand> Nand for LowerPages<N> {
    forward_nand!(self => self.nand; blocks rules);

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(
        &mut self,
        ppn: Ppn,
        cause: Cause,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadOutcome, NandError> {
        let page = self.page_of_chip(ppn)?;
        self.nand.read(page, cause, data, spare).map_err(|error| renamed(error, ppn))
    }

    fn read_at(
        &mut self,
        ppn: Ppn,
        cause: Cause,
        from: u32,
        data: &mut [u8],
    ) -> Result<ReadOutcome, NandError> {
        let page = self.page_of_chip(ppn)?;
        self.nand.read_at(page, cause, from, data).map_err(|error| renamed(error, ppn))
    }

    fn program(&mut self, ppn: Ppn, cause: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        let page = self.page_of_chip(ppn)?;
        self.nand.program(page, cause, data, spare).map_err(|error| renamed(error, ppn))
    }

    fn ram_bytes(&self) -> usize {
        self.nand.ram_bytes() + size_of::<LowerPages<N>>() - size_of::<N>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_is_in_one_pair_and_the_later_one_destroys() {
        for pages in [4, 8, 64, 128] {
            let mut seen = alloc::vec![0; pages as usize];
            for page in 0..pages {
                if let Some(lower) = Pairing::Three.lower_of(page, pages) {
                    assert!(lower < page && page - lower <= 3);
                    seen[page as usize] += 1;
                    seen[lower as usize] += 1;
                }
                assert_eq!(Pairing::None.lower_of(page, pages), None);
            }
            assert!(seen.iter().all(|&pairs| pairs == 1), "{pages}: {seen:?}");
            let lower: alloc::vec::Vec<u32> = (0..pages / 2).map(|i| Pairing::Three.lower(i)).collect();
            assert!(lower.is_sorted_by(|a, b| a < b));
            assert!(lower.iter().all(|&page| Pairing::Three.lower_of(page, pages).is_none()), "{lower:?}");
        }
    }
}
