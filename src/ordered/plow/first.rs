//! Findings about the first pages of blocks, kept while an index is mounted, so that few of them are read
//! twice.
//!
//! They lie in the output buffer, which a mount has no other use for until the levels are read: two bits for
//! each block, whether its first page is whole and whether it is blank, and then the programs of the whole
//! ones, the lowest 5 bytes of each, as many as there is room for. A chip of many blocks is mostly blank, or
//! as full as its buffer allows; programs for all of its blocks would not fit.

use super::medium::{Found, Medium};
use super::page::{low, widened};
use crate::codec::{get_u40, put_u40};
use crate::nand::Nand;
use crate::units::Pbn;

/// Bytes of a program number.
const PROGRAM_BYTES: usize = 5;

impl<N: Nand> Medium<N> {
    /// Bytes of the bits of all blocks, of one kind.
    fn bit_bytes(&self) -> usize {
        self.geometry.blocks.div_ceil(8) as usize
    }

    /// Whether there is room for the bits.
    fn has_bits(&self) -> bool {
        2 * self.bit_bytes() <= self.output.len()
    }

    /// Begins with nothing.
    pub(super) fn keep_none(&mut self) {
        self.output.fill(0);
    }

    /// The place of a block's program, by the whole ones before it.
    fn place(&self, block: Pbn) -> usize {
        let (at, bit) = (block.index() / 8, block.0 % 8);
        let before = self.output[..at].iter().map(|byte| byte.count_ones()).sum::<u32>()
            + (self.output[at] & ((1 << bit) - 1)).count_ones();
        2 * self.bit_bytes() + before as usize * PROGRAM_BYTES
    }

    /// Keeps what the first page of a block is. Blocks come in order.
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

    /// The program of the first page of a block, 0 if it is not whole, and whether it is blank; none if the
    /// page is to be read again. None is newer than this one.
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
