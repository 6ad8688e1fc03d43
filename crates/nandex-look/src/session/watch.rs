//! A chip that notes all its operations, reads included, which a recording lacks.

use nandex::nand::ReadOutcome;
use nandex::nand::sim::SimChip;
use nandex::{Cause, Geometry, Nand, NandError, Pbn, Ppn, Shared};
use serde::Serialize;

/// An operation of the chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// The kind of the operation.
    pub what: What,
    /// The page; for an erase, the block.
    pub at: u32,
    /// The cause of the operation.
    pub cause: &'static str,
    /// Whether the chip refused the operation or it failed.
    pub failed: bool,
}

/// The kind of a chip operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A page was read.
    Read,
    /// A page was programmed.
    Program,
    /// A block was erased.
    Erase,
    /// A block was marked bad.
    Mark,
}

impl What {
    /// Whether the operation changes the chip.
    pub fn changes(self) -> bool {
        self != What::Read
    }
}

/// A chip with the events on it. The index and its observer share both.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) chip: Shared<SimChip>,
    pub(crate) events: Shared<Vec<Event>>,
}

impl Watched {
    pub(crate) fn new(chip: SimChip) -> Watched {
        Watched { chip: Shared::new(chip), events: Shared::new(Vec::new()) }
    }

    fn note(&self, what: What, at: u32, cause: &'static str, outcome: &Result<(), NandError>) {
        // What was refused because the power is off did not happen.
        if *outcome != Err(NandError::PowerLost) {
            self.events.lock().push(Event { what, at, cause, failed: outcome.is_err() });
        }
    }
}

impl Nand for Watched {
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
        let outcome = self.chip.read(ppn, cause, data, spare);
        if cause != Cause::Check {
            self.note(What::Read, ppn.0, cause.name(), &outcome.map(drop));
        }
        outcome
    }

    fn program(&mut self, ppn: Ppn, cause: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        let outcome = self.chip.program(ppn, cause, data, spare);
        self.note(What::Program, ppn.0, cause.name(), &outcome);
        outcome
    }

    fn erase(&mut self, pbn: Pbn, cause: Cause) -> Result<(), NandError> {
        let outcome = self.chip.erase(pbn, cause);
        self.note(What::Erase, pbn.0, cause.name(), &outcome);
        outcome
    }

    fn is_bad(&mut self, pbn: Pbn) -> Result<bool, NandError> {
        self.chip.is_bad(pbn)
    }

    fn mark_bad(&mut self, pbn: Pbn) -> Result<(), NandError> {
        let outcome = self.chip.mark_bad(pbn);
        self.note(What::Mark, pbn.0, "", &outcome);
        outcome
    }

    fn begin_batch(&mut self) {
        self.chip.begin_batch();
    }

    fn end_batch(&mut self) {
        self.chip.end_batch();
    }
}
