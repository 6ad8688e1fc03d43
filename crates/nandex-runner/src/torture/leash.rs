//! A chip that notices when one call never ends.

use crate::crash::subject::SharedChip;
use nandex::Shared;
use nandex::nand::ReadOutcome;
use nandex::{Cause, Geometry, Nand, NandError, Pbn, Ppn};

/// Number of chip operations left for the current call.
pub(super) type Left = Shared<u64>;

/// Most physical operations of a call. No call of a small life needs nearly as many, so a call that reaches
/// this number never ends.
pub(super) const CALL_MAX: u64 = 4_000_000;

/// The chip as the victim sees it, which fails when no operations are left.
pub(super) struct Leash {
    pub(super) chip: SharedChip,
    pub(super) left: Left,
}

impl Leash {
    fn pull(&self) {
        let mut left = self.left.lock();
        assert!(*left > 0, "a call that did as many operations of the chip as it was given does not end");
        *left -= 1;
    }
}

impl Nand for Leash {
    fn geometry(&self) -> Geometry {
        self.chip.geometry()
    }

    fn read(
        &mut self,
        ppn: Ppn,
        cause: Cause,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadOutcome, NandError> {
        self.pull();
        self.chip.read(ppn, cause, data, spare)
    }

    fn program(&mut self, ppn: Ppn, cause: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        self.pull();
        self.chip.program(ppn, cause, data, spare)
    }

    fn erase(&mut self, pbn: Pbn, cause: Cause) -> Result<(), NandError> {
        self.pull();
        self.chip.erase(pbn, cause)
    }

    fn is_bad(&mut self, pbn: Pbn) -> Result<bool, NandError> {
        self.chip.is_bad(pbn)
    }

    fn mark_bad(&mut self, pbn: Pbn) -> Result<(), NandError> {
        self.pull();
        self.chip.mark_bad(pbn)
    }

    fn tears(&self) -> bool {
        self.chip.tears()
    }

    fn begin_batch(&mut self) {
        self.chip.begin_batch();
    }

    fn end_batch(&mut self) {
        self.chip.end_batch();
    }
}
