//! Pages that a mount cannot read.
//!
//! Where a cut tears programs, such a page was being programmed when the power failed, and what it was to
//! hold was not acknowledged; or its block was being erased. On a chip whose programs no cut tears (an FTL's
//! pages) it is damaged, and may have held anything: also a commit page that is newer than every other. The
//! two that a close writes in different blocks may lie in one block of the chip below. So the mount is
//! refused, unless a page behind it in its block is no newer than the commit page that was found: what is
//! damaged is older still then, and who needs it is told.
//!
//! No cut of any chip leaves a whole page in the place of another. One that is newer than the commit page
//! that was found refuses the mount: where two blocks are exchanged, both may have held what tells of a
//! newer one.

use super::Plow;
use super::mount::{Found, Seen};
use super::page::displaced;
use crate::check::Invariant;
use crate::fault::IndexFault;
use crate::nand::Nand;
use crate::units::Ppn;

impl<N: Nand> Plow<N> {
    /// Reads any page into the input buffer, and keeps in mind that it is damaged.
    pub(super) fn see(&mut self, ppn: Ppn, seen: &mut Seen) -> Result<Found, IndexFault> {
        let found = self.examine(ppn)?;
        if found != Found::Broken {
            return Ok(found);
        }
        if let Some(header) = displaced(&self.input, self.geometry.pages()) {
            seen.displaced = seen.displaced.max((header.sequence, ppn.0));
        }
        if !self.nand.tears() {
            let block = self.geometry.block_of(ppn);
            let of_block = seen.damaged.iter_mut().find(|other| self.geometry.block_of(**other) == block);
            match of_block {
                Some(last) => *last = ppn.max(*last),
                None => seen.damaged.push(ppn),
            }
        }
        Ok(found)
    }

    /// Refuses a damaged page that may have been newer than the newest commit page.
    pub(super) fn require_older(&mut self, seen: &Seen) -> Result<(), IndexFault> {
        if seen.displaced.0 > self.commits.sequence {
            let what = "a page of another place is newer than the newest commit page";
            return Err(IndexFault::broken(Invariant::I1, what, seen.displaced.1));
        }
        for &damaged in &seen.damaged {
            let end =
                self.geometry.page_at(self.geometry.block_of(damaged), 0).0 + self.geometry.pages_per_block;
            let mut is_older = false;
            for ppn in (damaged.0 + 1..end).map(Ppn) {
                if let Found::Whole(header) = self.examine(ppn)? {
                    is_older = header.sequence <= self.commits.sequence;
                    break;
                }
            }
            if !is_older {
                let what = "a page is damaged that may be newer than the newest commit page";
                return Err(IndexFault::broken(Invariant::I1, what, damaged.0));
            }
        }
        Ok(())
    }
}
