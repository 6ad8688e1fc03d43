//! A run of blocks of a chip, shown as a chip of its own. With it an FTL and another store divide one chip.
//!
//! Blocks and pages are numbered from 0 within the range, in errors too. The chip below counts, times and
//! fails as before. Two ranges of one chip share it through [`Shared`] ([`BlockRange::divide`]).

use super::{Cause, Geometry, Nand, NandError, ReadOutcome, forward_nand};
use crate::shared::Shared;
use crate::units::{Pbn, Ppn};

/// A run of blocks of a chip, shown as a chip.
///
/// ```
/// # use nandex::nand::{catalogue::mlc_64m, sim::SimChip};
/// # let chip = SimChip::new(&mlc_64m().with_blocks(64))?;
/// use nandex::nand::BlockRange;
/// use nandex::{Nand, Pbn};
///
/// let log = BlockRange::new(chip, Pbn(48), 16);
/// assert_eq!(log.geometry().blocks, 16);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct BlockRange<N> {
    nand: N,
    first_block: u32,
    geometry: Geometry,
}

impl<N: Nand> BlockRange<N> {
    /// Returns the range of `blocks` blocks from `first_block` on.
    ///
    /// # Panics
    ///
    /// Panics if the chip has fewer blocks.
    pub fn new(nand: N, first_block: Pbn, blocks: u32) -> BlockRange<N> {
        let chip = nand.geometry();
        let end = first_block.0.checked_add(blocks);
        assert!(end.is_some_and(|end| end <= chip.blocks), "the range ends beyond the chip");
        BlockRange { nand, first_block: first_block.0, geometry: Geometry { blocks, ..chip } }
    }

    /// Divides a chip in two: its first `blocks` blocks, and all others.
    ///
    /// # Panics
    ///
    /// Panics if the chip has fewer blocks.
    pub fn divide(nand: N, blocks: u32) -> [BlockRange<Shared<N>>; 2] {
        let others = nand.geometry().blocks.saturating_sub(blocks);
        let nand = Shared::new(nand);
        [BlockRange::new(nand.clone(), Pbn(0), blocks), BlockRange::new(nand, Pbn(blocks), others)]
    }

    /// The whole chip.
    pub fn nand(&self) -> &N {
        &self.nand
    }

    /// The whole chip, for measuring and for injecting faults.
    pub fn nand_mut(&mut self) -> &mut N {
        &mut self.nand
    }

    /// Returns the whole chip.
    pub fn into_nand(self) -> N {
        self.nand
    }

    /// Returns the number within the range of a page of the chip; `None` if the page lies outside.
    pub fn page_of_chip(&self, ppn: Ppn) -> Option<Ppn> {
        let page = ppn.0.checked_sub(self.first_page())?;
        (page < self.geometry.pages()).then_some(Ppn(page))
    }

    fn first_page(&self) -> u32 {
        self.first_block * self.geometry.pages_per_block
    }

    fn page(&self, ppn: Ppn) -> Result<Ppn, NandError> {
        if ppn.0 < self.geometry.pages() {
            Ok(Ppn(ppn.0 + self.first_page()))
        } else {
            Err(NandError::PageOutOfRange(ppn))
        }
    }

    fn block(&self, pbn: Pbn) -> Result<Pbn, NandError> {
        if pbn.0 < self.geometry.blocks {
            Ok(Pbn(pbn.0 + self.first_block))
        } else {
            Err(NandError::BlockOutOfRange(pbn))
        }
    }

    fn within(&self, error: NandError) -> NandError {
        // Only pages and blocks of the range were asked for, so the error can name no others.
        let page = |ppn: Ppn| {
            assert!(ppn.0 >= self.first_page(), "{ppn} is not in the range");
            Ppn(ppn.0 - self.first_page())
        };
        let block = |pbn: Pbn| {
            assert!(pbn.0 >= self.first_block, "{pbn} is not in the range");
            Pbn(pbn.0 - self.first_block)
        };
        error.renumbered(page, block)
    }
}

impl<N: Nand> Nand for BlockRange<N> {
    forward_nand!(self => self.nand; rules);

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
        let page = self.page(ppn)?;
        self.nand.read(page, cause, data, spare).map_err(|error| self.within(error))
    }

    fn read_at(
        &mut self,
        ppn: Ppn,
        cause: Cause,
        from: u32,
        data: &mut [u8],
    ) -> Result<ReadOutcome, NandError> {
        let page = self.page(ppn)?;
        self.nand.read_at(page, cause, from, data).map_err(|error| self.within(error))
    }

    /// Only the range that begins at block 0 counts the RAM of the shared chip.
    fn ram_bytes(&self) -> usize {
        if self.first_block == 0 { self.nand.ram_bytes() } else { 0 }
    }

    fn barrier(&mut self) -> Result<(), NandError> {
        self.nand.barrier().map_err(|error| self.within(error))
    }

    fn program(&mut self, ppn: Ppn, cause: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        let page = self.page(ppn)?;
        self.nand.program(page, cause, data, spare).map_err(|error| self.within(error))
    }

    fn erase(&mut self, pbn: Pbn, cause: Cause) -> Result<(), NandError> {
        let block = self.block(pbn)?;
        self.nand.erase(block, cause).map_err(|error| self.within(error))
    }

    fn is_bad(&mut self, pbn: Pbn) -> Result<bool, NandError> {
        let block = self.block(pbn)?;
        self.nand.is_bad(block).map_err(|error| self.within(error))
    }

    fn mark_bad(&mut self, pbn: Pbn) -> Result<(), NandError> {
        let block = self.block(pbn)?;
        self.nand.mark_bad(block).map_err(|error| self.within(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nand::sim::SimChip;
    use crate::nand::{Part, Timing};

    #[test]
    fn two_ranges_do_not_meet_and_number_their_own_blocks() {
        let timing = Timing { read_ns: 1, program_ns: 1, erase_ns: 1, transfer_ps_per_byte: 1 };
        let chip = SimChip::new(&Part::new("test", Geometry::new(64, 16, 4, 12), timing)).unwrap();
        let [mut low, mut high] = BlockRange::divide(chip, 8);
        assert_eq!((low.geometry().blocks, high.geometry().blocks), (8, 4));
        for (tag, range) in [(1, &mut low), (2, &mut high)] {
            for page in (0..range.geometry().pages()).map(Ppn) {
                range.program(page, Cause::Host, &[tag; 64], &[]).unwrap();
            }
            let end = Ppn(range.geometry().pages());
            let refused = range.program(end, Cause::Host, &[tag; 64], &[]);
            assert_eq!(refused, Err(NandError::PageOutOfRange(end)));
            assert!(range.erase(Pbn(8), Cause::Host).is_err());
        }
        assert_eq!(high.program(Ppn(3), Cause::Host, &[0; 64], &[]), Err(NandError::NotErased(Ppn(3))));
        high.erase(Pbn(1), Cause::Host).unwrap();
        high.mark_bad(Pbn(2)).unwrap();
        assert_eq!(high.erase(Pbn(2), Cause::Host), Err(NandError::BadBlock(Pbn(2))));
        let mut data = [0; 64];
        for ppn in (0..40).map(Ppn) {
            low.nand_mut().read(ppn, Cause::Host, &mut data, &mut []).unwrap();
            let expected = [1, 2, 0xff][usize::from(ppn.0 >= 32) + usize::from((36..40).contains(&ppn.0))];
            assert_eq!(data, [expected; 64], "{ppn}");
        }
        assert_eq!((high.page_of_chip(Ppn(31)), high.page_of_chip(Ppn(33))), (None, Some(Ppn(1))));
        assert_eq!(low.page_of_chip(Ppn(32)), None);
    }
}
