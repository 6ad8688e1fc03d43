//! Blocks: taking, filling, erasing and retiring them, and the use of each.

use super::{BlockTag, Chip, NOBODY, UNUSED};
use crate::blocks::spare::PageKind;
use crate::blocks::{BlockState, Wear};
use crate::fault::StoreFault;
use crate::nand::{Cause, Nand};
use crate::store::StoreError;
use crate::units::Pbn;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Blocks that wait for an erase or retirement, and the state of wear levelling.
pub(super) struct Upkeep {
    /// Blocks in which a program failed, to be retired once they are empty.
    pub(super) doomed: BTreeSet<Pbn>,
    /// Blocks without valid pages that could not be erased because no record could be written that says so.
    unfreed: Vec<Pbn>,
    /// Block to take for cold data if it is still free, or [`NOBODY`].
    worn: u32,
    is_levelling: bool,
    /// True if blocks were taken since this flag was last read.
    pub(super) has_opened: bool,
}

impl Upkeep {
    pub(super) fn none() -> Upkeep {
        let (doomed, unfreed) = (BTreeSet::new(), Vec::new());
        Upkeep { doomed, unfreed, worn: NOBODY, is_levelling: false, has_opened: false }
    }

    /// Begins or ends wear levelling. `worn` is the block to take for cold data.
    pub(super) fn set_levelling(&mut self, is_levelling: bool, worn: Option<Pbn>) {
        (self.is_levelling, self.worn) = (is_levelling, worn.map_or(NOBODY, |pbn| pbn.0));
    }

    /// Cause to which an operation is booked.
    pub(super) fn charged(&self, cause: Cause) -> Cause {
        match cause {
            Cause::Merge | Cause::GarbageCollection if self.is_levelling => Cause::WearLevelling,
            cause => cause,
        }
    }
}

impl<N: Nand + ?Sized> Chip<N> {
    /// Takes an erased block for a purpose. Only blocks that held a checkpoint, or were left by a power cut,
    /// must still be erased here.
    pub fn take(&mut self, role: PageKind, owner: u32, wear: Wear) -> Result<Pbn, StoreFault> {
        loop {
            let worn = Pbn(self.upkeep.worn);
            let takes_worn = wear == Wear::Most && worn.0 != NOBODY;
            let (pbn, needs_erase) = if takes_worn && self.state.blocks.state(worn).is_free() {
                self.upkeep.worn = NOBODY;
                (worn, self.state.blocks.claim(worn))
            } else {
                self.state.blocks.take_free(wear).ok_or(StoreError::Full)?
            };
            self.upkeep.has_opened = true;
            if needs_erase && !self.erase(pbn, Cause::Checkpoint)? {
                continue;
            }
            debug_assert_eq!(self.state.blocks.valid_count(pbn), 0, "F2: {pbn} was free and has valid pages");
            debug_assert_eq!(self.state.slots.next(pbn), 0, "{pbn} was free and has spent pages");
            debug_assert!(!self.upkeep.doomed.contains(&pbn), "{pbn} failed and is taken");
            self.retag(pbn, role, owner);
            if role == PageKind::Data {
                // The block may never become full; wear levelling is to see it nevertheless.
                self.state.blocks.close(pbn);
            }
            return Ok(pbn);
        }
    }

    /// Erases an Open block. False if the erase failed and the block was retired.
    pub(super) fn erase(&mut self, pbn: Pbn, cause: Cause) -> Result<bool, StoreFault> {
        let cause = self.upkeep.charged(cause);
        match self.state.blocks.erase(&mut self.nand, pbn, cause) {
            Ok(true) => {}
            Ok(false) => {
                self.counters.retired_blocks += 1;
                return Ok(false);
            }
            Err(error) => {
                self.state.blocks.discard(pbn);
                return Err(error);
            }
        }
        self.state.slots.clear(pbn);
        self.records.note_erase(pbn);
        Ok(true)
    }

    /// Changes the use of a block.
    pub fn retag(&mut self, pbn: Pbn, role: PageKind, owner: u32) {
        debug_assert!(!self.state.blocks.state(pbn).is_free(), "T1: {pbn} is free and given a role");
        self.records.changed.set(pbn);
        self.state.tags.set(pbn.index(), BlockTag { role: Some(role), owner });
    }

    /// Seals a block: nothing is programmed in it before its next erase.
    pub fn seal(&mut self, pbn: Pbn) {
        self.records.changed.set(pbn);
        self.state.slots.seal(pbn);
        if self.state.blocks.state(pbn) == BlockState::Open {
            self.state.blocks.close(pbn);
        }
    }

    /// Erases a block without valid pages and gives it back. A block in which a program failed is retired
    /// instead. `extra` makes the scheme's own bytes, in case a base is due. `Full` if too many blocks have
    /// failed to write the record that says the block is empty (F5): then it is left as it is until there is
    /// such a record.
    pub fn free(
        &mut self,
        pbn: Pbn,
        cause: Cause,
        extra: impl FnOnce() -> Vec<u8>,
    ) -> Result<(), StoreFault> {
        assert!(self.state.blocks.valid_count(pbn) == 0, "F2: {pbn} still has valid pages");
        let recorded = self.record_before_erase(pbn, extra);
        self.state.tags.set(pbn.index(), UNUSED);
        if recorded.as_ref().is_err_and(|fault| fault.is_full()) && !self.upkeep.unfreed.contains(&pbn) {
            self.upkeep.unfreed.push(pbn);
        }
        recorded?;
        self.upkeep.unfreed.retain(|&other| other != pbn);
        self.free_recorded(pbn, cause)?;
        while let Some(i) = self.upkeep.unfreed.iter().position(|&pbn| !self.records.changed.has(pbn)) {
            let pbn = self.upkeep.unfreed.swap_remove(i);
            self.free_recorded(pbn, cause)?;
        }
        Ok(())
    }

    fn free_recorded(&mut self, pbn: Pbn, cause: Cause) -> Result<(), StoreFault> {
        debug_assert_eq!(self.state.blocks.valid_count(pbn), 0, "F2: {pbn} still has valid pages");
        if self.upkeep.doomed.remove(&pbn) {
            self.counters.retired_blocks += 1;
            return self.state.blocks.give_up(&mut self.nand, pbn);
        }
        if self.erase(pbn, cause)? {
            self.state.blocks.release(pbn);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_levelling_of_wear_pays_for_what_it_moves() {
        let mut upkeep = Upkeep::none();
        let charged = |upkeep: &Upkeep| [Cause::Merge, Cause::Host].map(|cause| upkeep.charged(cause));
        upkeep.set_levelling(true, Some(Pbn(3)));
        assert_eq!((charged(&upkeep), upkeep.worn), ([Cause::WearLevelling, Cause::Host], 3));
        upkeep.set_levelling(false, None);
        assert_eq!((charged(&upkeep), upkeep.worn), ([Cause::Merge, Cause::Host], NOBODY));
    }
}
