//! Numbers of programs, which grow and are never used twice, and come to an end.

use super::cost::LEVELS_MAX;
use super::medium::Medium;
use crate::check::IndexError;
use crate::codec::{first_number, numbers};
use crate::fault::IndexFault;
use crate::nand::Nand;

/// Programs that a change takes at most, where there is room.
const CHANGE_PROGRAMS: u64 = 8;
/// Bits of the number of a program.
const BITS: u32 = 48;
const LAST: u64 = (1 << BITS) - 1;

/// The number before the first program of a chip.
pub(super) fn none() -> u64 {
    first_number(BITS, 0)
}

impl<N: Nand> Medium<N> {
    /// Numbers newer than those that a mount sees which programs may have taken.
    ///
    /// Of each block begun after the newest commit page the last whole page is read, and so is that of each
    /// block which the root calls open. A block takes no page any more once another one is begun in its
    /// place. So what is not seen lies in blocks that were open: of each level, of commit pages and of sealed
    /// ones. The pages there may be sealed behind the newest commit page, torn, or damaged since. A program
    /// that fails ends its block, so there are no more of them than blocks.
    fn unseen(&self) -> u64 {
        let open = LEVELS_MAX as u64 + 2;
        open * u64::from(self.geometry.pages_per_block) + u64::from(self.geometry.blocks)
    }

    /// Goes on behind all programs that there may have been, of which a mount saw this one as the newest.
    pub(super) fn number_behind(&mut self, newest: u64) {
        self.sequence = (newest + self.unseen()).min(LAST);
    }

    /// Refuses a program for which there is no number.
    pub(super) fn require_number(&self) -> Result<(), IndexFault> {
        if self.sequence < LAST { Ok(()) } else { Err(IndexError::WornOut.into()) }
    }

    /// Changes for which there are numbers.
    pub(super) fn changes_numbered(&self) -> u64 {
        numbers(BITS).saturating_sub(self.sequence) / CHANGE_PROGRAMS
    }

    /// Whether there are numbers for changes. The last ones are for commits of what was acknowledged, and
    /// for mounts.
    pub(super) fn has_numbers(&self) -> bool {
        self.sequence < numbers(BITS)
    }

    /// Refuses a change for which there are none.
    pub(super) fn require_numbers(&self) -> Result<(), IndexFault> {
        if self.has_numbers() { Ok(()) } else { Err(IndexError::WornOut.into()) }
    }
}
