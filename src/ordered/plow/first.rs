//! Facts about the first pages of blocks, kept during a mount so that few of them are read twice.
//!
//! They are in the output buffer, which a mount does not otherwise use until the levels are read. Each block
//! has two bits: whether its first page is whole, and whether it is blank. The program numbers of the whole
//! first pages follow, the lowest 5 bytes of each, as many as there is room for. The numbers of all blocks
//! would not fit, but a chip of many blocks is mostly blank.

use super::medium::{Found, Medium};
use super::page::{low, widened};
use crate::codec::{get_u40, put_u40};
use crate::nand::Nand;
use crate::units::Pbn;

/// Bytes kept of a program number.
const PROGRAM_BYTES: usize = 5;

impl<N: Nand> Medium<N> {
    /// Bytes that one bit for each block takes.
    fn bit_bytes(&self) -> usize {
        self.nand.geometry().blocks.div_ceil(8) as usize
    }

    /// True if the buffer has room for the bits.
    fn has_bits(&self) -> bool {
        2 * self.bit_bytes() <= self.output.len()
    }

    pub(super) fn keep_none(&mut self) {
        self.output.fill(0);
    }

    /// Offset of a block's program number. One number precedes it for each earlier block with a whole first
    /// page.
    fn place(&self, block: Pbn) -> usize {
        let (at, bit) = (block.index() / 8, block.0 % 8);
        let before = self.output[..at].iter().map(|byte| byte.count_ones()).sum::<u32>()
            + (self.output[at] & ((1 << bit) - 1)).count_ones();
        2 * self.bit_bytes() + before as usize * PROGRAM_BYTES
    }

    /// Keeps the finding about the first page of a block. Blocks must come in order.
    pub(super) fn keep_first(&mut self, block: Pbn, found: Found) {
        if !self.has_bits() {
            return;
        }
        let (at, mask) = (block.index() / 8, 1 << (block.0 % 8));
        match found {
            Found::Whole(header) => {
                self.output[at] |= mask;
                let place = self.place(block);
                if let Some(bytes) = self.output.get_mut(place..place + PROGRAM_BYTES) {
                    put_u40(bytes, 0, low(header.sequence));
                }
            }
            Found::Blank => {
                let at = self.bit_bytes() + at;
                self.output[at] |= mask;
            }
            Found::Broken => {}
        }
    }

    /// The finding about the first page of a block: its program number, 0 if the page is not whole, and
    /// whether it is blank. `None` if the page must be read again. No program is newer than `newest`.
    pub(super) fn kept_first(&self, block: Pbn, newest: u64) -> Option<(u64, bool)> {
        if !self.has_bits() {
            return None;
        }
        let (at, mask) = (block.index() / 8, 1 << (block.0 % 8));
        if self.output[at] & mask == 0 {
            return Some((0, self.output[self.bit_bytes() + at] & mask != 0));
        }
        let place = self.place(block);
        Some((widened(get_u40(self.output.get(place..place + PROGRAM_BYTES)?, 0), newest), false))
    }
}
