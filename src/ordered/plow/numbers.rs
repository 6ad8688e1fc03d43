//! Numbers of programs. They grow, are never used twice, and come to an end.

use super::cost::LEVELS_MAX;
use super::medium::Medium;
use crate::check::IndexError;
use crate::codec::{first_number, numbers};
use crate::fault::IndexFault;
use crate::nand::Nand;

/// Upper bound of the programs for a change, if there is room.
const CHANGE_PROGRAMS: u64 = 8;
/// Bits of a program's number.
const BITS: u32 = 48;
const LAST: u64 = (1 << BITS) - 1;

/// Number before the first program of a chip.
pub(super) fn none() -> u64 {
    first_number(BITS, 0)
}

impl<N: Nand> Medium<N> {
    /// Upper bound of the program numbers used after the newest one that a mount sees.
    ///
    /// A mount reads the last whole page of each block begun after the newest commit page, and of each block
    /// that the root calls open. A block gets no more pages once another is begun in its place. So unseen
    /// pages are in blocks that were open: one per level, one of commit pages and one of sealed pages. Unseen
    /// pages are sealed ones behind the newest commit page, torn ones, and ones damaged since. A failed
    /// program ends its block, so there are at most as many of them as blocks.
    fn unseen(&self) -> u64 {
        let (open, geometry) = (LEVELS_MAX as u64 + 2, self.nand.geometry());
        open * u64::from(geometry.pages_per_block) + u64::from(geometry.blocks)
    }

    /// Continues behind all numbers that may have been used. `newest` is the newest that the mount saw.
    pub(super) fn number_behind(&mut self, newest: u64) {
        self.sequence = (newest + self.unseen()).min(LAST);
    }

    pub(super) fn require_number(&self) -> Result<(), IndexFault> {
        if self.sequence < LAST { Ok(()) } else { Err(IndexError::WornOut.into()) }
    }

    /// Number of changes for which program numbers are left.
    pub(super) fn changes_numbered(&self) -> u64 {
        numbers(BITS).saturating_sub(self.sequence) / CHANGE_PROGRAMS
    }

    /// True if there are numbers left for changes. The last numbers are reserved for mounts and for commits
    /// of acknowledged changes.
    pub(super) fn has_numbers(&self) -> bool {
        self.sequence < numbers(BITS)
    }

    /// Refuses a change if there are no numbers for changes.
    pub(super) fn require_numbers(&self) -> Result<(), IndexFault> {
        if self.has_numbers() { Ok(()) } else { Err(IndexError::WornOut.into()) }
    }
}
