//! A chip that its owner changes no more once nobody knows what became of a change.

use super::{Cause, Geometry, Nand, NandError, ReadOutcome, forward_nand};
use crate::units::{Pbn, Ppn};

/// A chip until a program or an erase ends in an error that leaves open whether it took place: the power
/// went, or bus, controller or driver failed. From then on every program and erase is
/// [`NandError::Interrupted`], also where the chip is back, and pages can be read. A mount finds what such an
/// end left as it finds what a power cut left; behind one it would meet pages that no cut leaves.
#[derive(Debug)]
pub(crate) struct UntilLost<N: ?Sized> {
    is_lost: bool,
    nand: N,
}

impl<N> UntilLost<N> {
    /// A chip that answers.
    pub(crate) const fn new(nand: N) -> UntilLost<N> {
        UntilLost { nand, is_lost: false }
    }

    /// The chip.
    pub(crate) fn into_inner(self) -> N {
        self.nand
    }

    /// The chip.
    pub(crate) const fn inner(&self) -> &N {
        &self.nand
    }

    /// The chip, to be changed.
    pub(crate) const fn inner_mut(&mut self) -> &mut N {
        &mut self.nand
    }
}

impl<N: Nand + ?Sized> UntilLost<N> {
    fn change(&mut self, change: impl FnOnce(&mut N) -> Result<(), NandError>) -> Result<(), NandError> {
        if self.is_lost {
            return Err(NandError::Interrupted);
        }
        let changed = change(&mut self.nand);
        self.is_lost = matches!(changed, Err(NandError::PowerLost | NandError::Device(_)));
        changed
    }
}

impl<N: Nand + ?Sized> Nand for UntilLost<N> {
    forward_nand!(self => self.nand; pages rules);

    fn program(&mut self, ppn: Ppn, cause: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        self.change(|nand| nand.program(ppn, cause, data, spare))
    }

    fn erase(&mut self, pbn: Pbn, cause: Cause) -> Result<(), NandError> {
        self.change(|nand| nand.erase(pbn, cause))
    }

    fn is_bad(&mut self, pbn: Pbn) -> Result<bool, NandError> {
        self.nand.is_bad(pbn)
    }

    fn mark_bad(&mut self, pbn: Pbn) -> Result<(), NandError> {
        self.change(|nand| nand.mark_bad(pbn))
    }

    fn barrier(&mut self) -> Result<(), NandError> {
        let done = self.nand.barrier();
        // Where there is nothing to wait for, nothing is left of this.
        if done.is_err() {
            self.is_lost = true;
        }
        done
    }
}
