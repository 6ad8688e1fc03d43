//! A chip whose memory does not count as the index's.

use crate::heap::uncounted;
use nandex::nand::{Geometry, Nand, NandError, ReadOutcome};
use nandex::{Cause, Pbn, Ppn};

/// A simulated chip whose bytes are kept out of the count of the heap.
#[derive(Debug)]
pub struct Apart<N> {
    // `None` only while it is dropped.
    chip: Option<N>,
}

impl<N> Apart<N> {
    /// Wraps a chip whose memory is not counted. Make the chip itself outside of the measured code.
    pub fn new(chip: N) -> Apart<N> {
        Apart { chip: Some(chip) }
    }

    fn with<T>(&mut self, run: impl FnOnce(&mut N) -> T) -> T {
        uncounted(|| run(self.chip.as_mut().expect("a chip until it is dropped")))
    }
}

impl<N> Drop for Apart<N> {
    fn drop(&mut self) {
        uncounted(|| drop(self.chip.take()));
    }
}

impl<N: Nand> Nand for Apart<N> {
    fn geometry(&self) -> Geometry {
        self.chip.as_ref().expect("a chip until it is dropped").geometry()
    }

    fn read(
        &mut self,
        ppn: Ppn,
        cause: Cause,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadOutcome, NandError> {
        self.with(|chip| chip.read(ppn, cause, data, spare))
    }

    fn program(&mut self, ppn: Ppn, cause: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        self.with(|chip| chip.program(ppn, cause, data, spare))
    }

    fn erase(&mut self, pbn: Pbn, cause: Cause) -> Result<(), NandError> {
        self.with(|chip| chip.erase(pbn, cause))
    }

    fn is_bad(&mut self, pbn: Pbn) -> Result<bool, NandError> {
        self.with(|chip| chip.is_bad(pbn))
    }

    fn mark_bad(&mut self, pbn: Pbn) -> Result<(), NandError> {
        self.with(|chip| chip.mark_bad(pbn))
    }

    fn tears(&self) -> bool {
        self.chip.as_ref().expect("a chip until it is dropped").tears()
    }

    fn replaces(&self) -> bool {
        self.chip.as_ref().expect("a chip until it is dropped").replaces()
    }

    fn begin_batch(&mut self) {
        self.with(Nand::begin_batch);
    }

    fn end_batch(&mut self) {
        self.with(Nand::end_batch);
    }

    fn barrier(&mut self) -> Result<(), NandError> {
        self.with(Nand::barrier)
    }

    fn waits(&self) -> bool {
        self.chip.as_ref().expect("a chip until it is dropped").waits()
    }
}
