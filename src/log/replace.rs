//! The replacement of a block in which a program failed: another block takes its pages and answers to its
//! addresses.
//!
//! Marking the failed block bad is the switch: before it, a mount drops the unfinished copy; after it, the
//! copy counts.

use crate::blocks::mark_bad;
use crate::fault::IndexFault;
use crate::log::tag::Seal;
use crate::log::{Log, PageBuffer, tag};
use crate::nand::{Cause, Nand, NandError, read_again};
use crate::units::{Pbn, Ppn};
use alloc::vec;

impl<N: Nand> Log<N> {
    /// Copies the block of a page that could not be programmed to another block, with that page.
    pub(super) fn replace_block(&mut self, ppn: Ppn, data: &[u8], spare: &[u8]) -> Result<(), IndexFault> {
        let home = self.geometry.block_of(ppn);
        let failed = self.physical_block(home);
        let last = self.geometry.page_in_block(ppn);
        if self.page.data.is_empty() {
            // It has the page that is to be programmed: see `pass_over`.
            self.page.data = vec![0; data.len()];
        }
        debug_assert_eq!(
            failed == home,
            self.replaced.iter().all(|pair| pair.0 != home),
            "the block of {home}"
        );
        loop {
            let target = self.take_erased_block(Cause::Recovery)?;
            debug_assert_ne!(target, failed, "a failed block is to replace itself");
            if self.copy_block(failed, target, last, (data, spare))? {
                mark_bad(&mut self.nand, failed).map_err(|error| self.worn_or(error.into()))?;
                self.blocks.reserve(target);
                self.stand_in(home, target);
                if failed != home {
                    self.blocks.retire(failed);
                }
                self.counters.blocks_replaced += 1;
                self.recount();
                debug_assert_eq!(self.physical_block(home), target, "{home} is not where it was copied to");
                return Ok(());
            }
            let given_up = self.blocks.give_up(&mut self.nand, target);
            given_up.map_err(|error| self.worn_or(error.into()))?;
        }
    }

    /// Has a block answer to the addresses of another from now on.
    pub(super) fn stand_in(&mut self, home: Pbn, block: Pbn) {
        match self.replaced.binary_search_by_key(&home, |pair| pair.0) {
            Ok(at) => self.replaced[at].1 = block,
            Err(at) => self.replaced.insert(at, (home, block)),
        }
    }

    fn copy_block(
        &mut self,
        from: Pbn,
        to: Pbn,
        last: u32,
        page: (&[u8], &[u8]),
    ) -> Result<bool, IndexFault> {
        let g = self.geometry;
        debug_assert!(from != to && last < g.pages_per_block, "{from} is copied to {to} up to page {last}");
        let mut copy = PageBuffer::new(&g);
        for i in 0..last {
            let source = g.page_at(from, i);
            let seal = Seal { owner: &self.owner, page: i };
            let is_whole = |data: &[u8], spare: &[u8]| {
                tag::looks_erased(spare, data) || tag::is_whole(spare, data, seal)
            };
            let (data, spare) = (&mut copy.data, &mut copy.spare);
            match read_again(&mut self.nand, (source, Cause::Recovery), data, spare, is_whole) {
                Ok(_) if tag::looks_erased(&copy.spare, &copy.data) => continue,
                Ok(_) => {}
                Err(NandError::Uncorrectable(_)) => continue,
                Err(error) => return Err(error.into()),
            }
            match self.nand.program(g.page_at(to, i), Cause::Recovery, &copy.data, &copy.spare) {
                Ok(()) => {}
                Err(NandError::ProgramFailed(_)) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        match self.nand.program(g.page_at(to, last), Cause::Recovery, page.0, page.1) {
            Ok(()) => Ok(true),
            Err(NandError::ProgramFailed(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
