//! Blocks: taken, filled, erased, given up, and what each is used for.

use super::{BlockTag, ERASES_PER_BASE_MAX, Flash, Mark, UNUSED};
use crate::blocks::spare::PageKind;
use crate::blocks::{BlockState, Wear};
use crate::fault::StoreFault;
use crate::nand::{Cause, Nand};
use crate::store::StoreError;
use crate::units::Pbn;
use alloc::vec::Vec;

impl<N: Nand> Flash<N> {
    /// Takes an erased block for a purpose. What must still be erased held a checkpoint, or was left by a
    /// power cut.
    pub fn take(&mut self, role: PageKind, owner: u32, wear: Wear) -> Result<Pbn, StoreFault> {
        loop {
            let worn = self.worn.take_if(|pbn| wear == Wear::Most && self.blocks.state(*pbn).is_free());
            let (pbn, needs_erase) = match worn {
                Some(pbn) => (pbn, self.blocks.claim(pbn)),
                None => self.blocks.take_free(wear).ok_or(StoreError::Full)?,
            };
            self.opened_blocks = true;
            if needs_erase && !self.erase(pbn, Cause::Checkpoint)? {
                continue;
            }
            debug_assert_eq!(self.blocks.valid_count(pbn), 0, "F2: {pbn} was free and has valid pages");
            debug_assert_eq!(self.slots.next(pbn), 0, "{pbn} was free and has spent pages");
            debug_assert!(!self.doomed.contains(&pbn), "{pbn} failed and is taken");
            self.retag(pbn, role, owner);
            if role == PageKind::Data {
                // It may never become full; wear levelling is to see it nevertheless.
                self.blocks.close(pbn);
            }
            return Ok(pbn);
        }
    }

    /// Erases a block that is Open; false when it failed and was retired.
    pub(super) fn erase(&mut self, pbn: Pbn, cause: Cause) -> Result<bool, StoreFault> {
        let cause = self.charged(cause);
        match self.blocks.erase(&mut self.nand, pbn, cause) {
            Ok(true) => {}
            Ok(false) => {
                self.counters.retired_blocks += 1;
                return Ok(false);
            }
            Err(error) => {
                self.blocks.discard(pbn);
                return Err(error);
            }
        }
        self.slots.clear(pbn);
        self.touch(pbn);
        // There are none yet where a base is due anyway.
        if let Some(erases) = self.erases_since_base.get_mut(pbn.index()) {
            *erases = erases.saturating_add(1);
            if *erases >= ERASES_PER_BASE_MAX {
                self.mark = Mark::Base;
            }
        }
        Ok(true)
    }

    /// Whether blocks were taken since this was asked last.
    pub(super) fn opened_blocks(&mut self) -> bool {
        core::mem::take(&mut self.opened_blocks)
    }

    /// Begins to level wear, which [`Flash::end_levelling`] ends; `worn` is the block to take for cold data.
    pub(super) fn begin_levelling(&mut self, worn: Option<Pbn>) {
        (self.is_levelling, self.worn) = (true, worn);
    }

    pub(super) fn end_levelling(&mut self) {
        (self.is_levelling, self.worn) = (false, None);
    }

    /// Who pays for an operation.
    pub(super) fn charged(&self, cause: Cause) -> Cause {
        match cause {
            Cause::Merge | Cause::GarbageCollection if self.is_levelling => Cause::WearLevelling,
            cause => cause,
        }
    }

    /// Changes what a block is used for.
    pub fn retag(&mut self, pbn: Pbn, role: PageKind, owner: u32) {
        debug_assert!(!self.blocks.state(pbn).is_free(), "T1: {pbn} is free and given a role");
        self.touch(pbn);
        self.tags.set(pbn.index(), BlockTag { role: Some(role), owner });
    }

    /// Nothing more is programmed in a block before its next erase.
    pub fn seal(&mut self, pbn: Pbn) {
        self.touch(pbn);
        self.slots.seal(pbn);
        if self.blocks.state(pbn) == BlockState::Open {
            self.blocks.close(pbn);
        }
    }

    /// Erases a block without valid pages and gives it back; a block in which a program failed is retired
    /// instead. `extra` are the scheme's own bytes, should a base be due. Where no record can be written that
    /// says that the block is empty (F5), because too many blocks have failed: `Full`, and it is left as it
    /// is until there is one.
    pub fn free(
        &mut self,
        pbn: Pbn,
        cause: Cause,
        extra: impl FnOnce() -> Vec<u8>,
    ) -> Result<(), StoreFault> {
        assert!(self.blocks.valid_count(pbn) == 0, "F2: {pbn} still has valid pages");
        let recorded = self.record_before_erase(pbn, extra);
        self.tags.set(pbn.index(), UNUSED);
        if recorded.as_ref().is_err_and(|fault| fault.is_full()) && !self.unfreed.contains(&pbn) {
            self.unfreed.push(pbn);
        }
        recorded?;
        self.unfreed.retain(|&other| other != pbn);
        self.free_recorded(pbn, cause)?;
        while let Some(i) = self.unfreed.iter().position(|&pbn| !self.has_changed(pbn)) {
            let pbn = self.unfreed.swap_remove(i);
            self.free_recorded(pbn, cause)?;
        }
        Ok(())
    }

    fn free_recorded(&mut self, pbn: Pbn, cause: Cause) -> Result<(), StoreFault> {
        debug_assert_eq!(self.blocks.valid_count(pbn), 0, "F2: {pbn} still has valid pages");
        if self.doomed.remove(&pbn) {
            self.counters.retired_blocks += 1;
            return self.blocks.give_up(&mut self.nand, pbn);
        }
        if self.erase(pbn, cause)? {
            self.blocks.release(pbn);
        }
        Ok(())
    }
}
