//! A chip that is no longer changed once the effect of a change is unknown.

use super::{Cause, Geometry, Nand, NandError, ReadOutcome, forward_nand};
use crate::units::{Pbn, Ppn};

/// A chip, until a program or an erase ends in an error that leaves its effect unknown: the power failed, or
/// bus, controller or driver did. From then on every program and erase returns [`NandError::Interrupted`],
/// even if the chip works again; pages can be read. A mount handles the remains of such an operation as those
/// of a power cut. If further operations followed it, the mount would meet pages that no power cut leaves.
#[derive(Debug)]
pub(crate) struct UntilLost<N: ?Sized> {
    is_lost: bool,
    nand: N,
}

impl<N> UntilLost<N> {
    pub(crate) const fn new(nand: N) -> UntilLost<N> {
        UntilLost { nand, is_lost: false }
    }

    pub(crate) fn into_inner(self) -> N {
        self.nand
    }

    pub(crate) const fn inner(&self) -> &N {
        &self.nand
    }

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
        // A chip whose barrier does nothing returns no error, and the compiler drops this branch.
        if done.is_err() {
            self.is_lost = true;
        }
        done
    }
}
