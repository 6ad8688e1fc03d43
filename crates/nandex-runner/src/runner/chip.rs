//! The chip as an index under measurement sees it, with a stopwatch on every call.

use super::stopwatch::thread_ns;
use nandex::Shared;
use nandex::nand::sim::SimChip;
use nandex::nand::{Cause, Geometry, Nand, NandError, ReadOutcome};
use nandex::units::{Pbn, Ppn};

/// A simulated chip that sums up the processor time of its simulation. The observer shares it.
pub(crate) struct TimedChip {
    chip: Shared<SimChip>,
    spent_ns: Shared<u64>,
}

impl TimedChip {
    pub(crate) fn new(chip: Shared<SimChip>, spent_ns: Shared<u64>) -> TimedChip {
        TimedChip { chip, spent_ns }
    }

    fn timed<T>(&self, call: impl FnOnce(&mut SimChip) -> T) -> T {
        let start = thread_ns();
        let answer = call(&mut self.chip.lock());
        *self.spent_ns.lock() += thread_ns() - start;
        answer
    }
}

impl Nand for TimedChip {
    fn geometry(&self) -> Geometry {
        self.chip.lock().geometry()
    }
    fn read(
        &mut self,
        ppn: Ppn,
        cause: Cause,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadOutcome, NandError> {
        self.timed(|chip| chip.read(ppn, cause, data, spare))
    }
    fn program(&mut self, ppn: Ppn, cause: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        self.timed(|chip| chip.program(ppn, cause, data, spare))
    }
    fn erase(&mut self, pbn: Pbn, cause: Cause) -> Result<(), NandError> {
        self.timed(|chip| chip.erase(pbn, cause))
    }
    fn is_bad(&mut self, pbn: Pbn) -> Result<bool, NandError> {
        self.chip.lock().is_bad(pbn)
    }
    fn mark_bad(&mut self, pbn: Pbn) -> Result<(), NandError> {
        self.chip.lock().mark_bad(pbn)
    }
    fn begin_batch(&mut self) {
        self.chip.lock().begin_batch();
    }
    fn end_batch(&mut self) {
        self.chip.lock().end_batch();
    }
}
