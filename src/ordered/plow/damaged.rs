//! Pages that a mount cannot read.
//!
//! If a power cut can tear programs on this chip, such a page was being programmed when the power failed, and
//! its contents were not acknowledged, or its block was being erased. On a chip whose programs no cut tears
//! (the pages of an FTL) the page is damaged, and may have held anything: even a commit page newer than every
//! other. The two that a close writes in different blocks may lie in one block of the chip below. So the
//! mount is refused, unless a page behind the damaged one in its block is no newer than the commit page that
//! was found: then the damaged page is older still, and whoever needs it is told.
//!
//! No power cut leaves a whole page in the place of another one. A displaced page newer than the commit page
//! that was found refuses the mount: if two blocks were exchanged, both may have held pages that tell of a
//! newer commit page.

use super::medium::Found;
use super::page::displaced;
use super::survey::Survey;
use crate::check::Invariant;
use crate::fault::IndexFault;
use crate::nand::Nand;
use crate::units::Ppn;

impl<N: Nand> Survey<'_, N> {
    /// Reads any page into the input buffer, and remembers it if it is damaged.
    pub(super) fn see(&mut self, ppn: Ppn) -> Result<Found, IndexFault> {
        let found = self.medium.examine(ppn)?;
        if found != Found::Broken {
            return Ok(found);
        }
        if let Some(header) = displaced(&self.medium.input, self.geometry.pages()) {
            self.seen.displaced = self.seen.displaced.max((header.sequence, ppn.0));
        }
        if !self.medium.nand.tears() {
            let block = self.geometry.block_of(ppn);
            let of_block =
                self.seen.damaged.iter_mut().find(|other| self.geometry.block_of(**other) == block);
            match of_block {
                Some(last) => *last = ppn.max(*last),
                None => self.seen.damaged.push(ppn),
            }
        }
        Ok(found)
    }

    /// Refuses the mount if a damaged page may have been newer than the newest commit page, whose program
    /// number is `newest`.
    pub(super) fn require_older(&mut self, newest: u64) -> Result<(), IndexFault> {
        if self.seen.displaced.0 > newest {
            let what = "a page of another place is newer than the newest commit page";
            return Err(IndexFault::broken(Invariant::I1, what, self.seen.displaced.1));
        }
        for damaged in core::mem::take(&mut self.seen.damaged) {
            // Nobody needs an anchor.
            let block = self.geometry.block_of(damaged);
            if self.blocks.anchor.as_ref().is_some_and(|anchor| anchor.is_place(block)) {
                continue;
            }
            let pages = self.geometry.pages_per_block;
            let end = (self.geometry.block_of(damaged).0 + 1) * pages;
            let mut is_older = false;
            for ppn in (damaged.0 + 1..end).map(Ppn) {
                if let Found::Whole(header) = self.medium.examine(ppn)? {
                    is_older = header.sequence <= newest;
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
