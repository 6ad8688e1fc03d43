//! The chip as an index under measurement sees it, with a stopwatch on every call.

use nandex::nand::sim::SimChip;
use nandex::nand::{Cause, Geometry, Nand, NandError};
use nandex::units::{Pbn, Ppn};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

/// A simulated chip shared with its observer; the time spent simulating it is summed up.
pub(crate) struct TimedChip {
    chip: Rc<RefCell<SimChip>>,
    spent_ns: Rc<Cell<u64>>,
}

impl TimedChip {
    pub(crate) fn new(chip: Rc<RefCell<SimChip>>, spent_ns: Rc<Cell<u64>>) -> TimedChip {
        TimedChip { chip, spent_ns }
    }

    fn timed<T>(&self, call: impl FnOnce(&mut SimChip) -> T) -> T {
        let start = Instant::now();
        let answer = call(&mut self.chip.borrow_mut());
        self.spent_ns.set(self.spent_ns.get() + start.elapsed().as_nanos() as u64);
        answer
    }
}

impl Nand for TimedChip {
    fn geometry(&self) -> Geometry {
        self.chip.borrow().geometry()
    }
    fn read(&mut self, ppn: Ppn, cause: Cause, data: &mut [u8], spare: &mut [u8]) -> Result<(), NandError> {
        self.timed(|chip| chip.read(ppn, cause, data, spare))
    }
    fn program(&mut self, ppn: Ppn, cause: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        self.timed(|chip| chip.program(ppn, cause, data, spare))
    }
    fn erase(&mut self, pbn: Pbn, cause: Cause) -> Result<(), NandError> {
        self.timed(|chip| chip.erase(pbn, cause))
    }
    fn is_bad(&mut self, pbn: Pbn) -> Result<bool, NandError> {
        self.chip.borrow_mut().is_bad(pbn)
    }
    fn mark_bad(&mut self, pbn: Pbn) -> Result<(), NandError> {
        self.chip.borrow_mut().mark_bad(pbn)
    }
    fn begin_batch(&mut self) {
        self.chip.borrow_mut().begin_batch();
    }
    fn end_batch(&mut self) {
        self.chip.borrow_mut().end_batch();
    }
}
