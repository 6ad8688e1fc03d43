//! Programming a page, its tag and checksum in the spare area.

use crate::check::IndexError;
use crate::fault::IndexFault;
use crate::log::held::HAS_HOLDS;
use crate::log::tag::{self, Gaps, Seal, Tag};
use crate::log::{HAS_WRITE_PART, Log};
use crate::nand::{Cause, Geometry, Nand, NandError};
use crate::units::{Pbn, Ppn};

/// Bytes of the valid bits of the largest block that a log takes.
const BITS_BYTES_MAX: usize = (Geometry::PAGES_PER_BLOCK_MAX as usize).div_ceil(8);

impl<N: Nand> Log<N> {
    /// How many addresses are passed over in a row.
    pub(super) fn gaps(&self) -> Gaps {
        match (self.config.holds, self.config.write_pages) {
            (true, _) if HAS_HOLDS => Gaps::Any,
            (_, 0) => Gaps::None,
            _ if HAS_WRITE_PART => Gaps::Narrow,
            _ => Gaps::None,
        }
    }

    pub(super) fn program(
        &mut self,
        ppn: Ppn,
        (tag, place): (&Tag, &tag::Place),
        data: &[u8],
        cause: Cause,
    ) -> Result<(), IndexFault> {
        let home = self.geometry.block_of(ppn);
        let last = self.geometry.page_in_block(ppn) + 1 == self.geometry.pages_per_block;
        debug_assert_eq!(
            data.len(),
            self.geometry.page_bytes as usize,
            "a page of another size is programmed"
        );
        let mut bits = [0; BITS_BYTES_MAX];
        let valid = if last { self.valid_bits(home, &mut bits) } else { &[] };
        let seal = Seal { owner: &self.owner, page: self.geometry.page_in_block(ppn) };
        tag::encode(&mut self.page.spare, data, (tag, place), valid, seal);
        let physical = self.physical(ppn);
        let cause = self.charged(cause);
        match self.nand.program(physical, cause, data, &self.page.spare) {
            // The store below takes no more.
            Err(NandError::ProgramFailed(_)) if self.is_placed() => Err(IndexError::WornOut.into()),
            Err(NandError::ProgramFailed(_)) => {
                let spare = self.page.spare.clone();
                self.replace_block(ppn, data, &spare)
            }
            other => Ok(other?),
        }
    }

    /// One bit for each page of a block, 1 = valid.
    fn valid_bits<'b>(&self, home: Pbn, bits: &'b mut [u8; BITS_BYTES_MAX]) -> &'b [u8] {
        for ppn in self.blocks.valid_pages(home) {
            let page = self.geometry.page_in_block(ppn) as usize;
            bits[page / 8] |= 1 << (page % 8);
        }
        &bits[..(self.geometry.pages_per_block as usize).div_ceil(8)]
    }
}
