//! The subject of a run: an index, the operations for it, and the model that knows the answers.
//!
//! The [session](super::session) drives any subject through its phases. [`Records`](super::records::Records)
//! is the subject of ordered indexes, `Boxes` of [`crate::spatial`] that of spatial ones.

use super::session::Desk;
use super::{Done, Failure};
use nandex::ordered::{Durability, IndexStats};
use nandex::{CheckReport, IndexError};

/// The properties of a phase.
pub(crate) struct PhaseOf<'a> {
    pub(crate) name: &'a str,
    /// Whether the phase counts in the totals.
    pub(crate) measured: bool,
    /// Whether all operations are insertions that the index gets at once.
    pub(crate) is_bulk: bool,
    pub(crate) operations: usize,
}

/// Position of an operation: its phase, and its number in the phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) phase: usize,
    pub(crate) op: usize,
}

pub(crate) trait Subject {
    fn phases(&self) -> usize;

    fn phase(&self, place: usize) -> PhaseOf<'_>;

    fn changes(&self, at: At) -> bool;

    fn describe(&self, at: At) -> String;

    /// Does an operation and compares its answer with the model.
    fn apply(&mut self, desk: &mut Desk<'_>, at: At) -> Result<(), Failure>;

    /// Loads all insertions of a phase at once; returns their number.
    fn load(&mut self, desk: &mut Desk<'_>, phase: usize) -> Result<u64, Failure>;

    fn sync(&mut self, desk: &mut Desk<'_>) -> Result<(), Failure>;

    /// Called after each phase.
    fn phase_done(&mut self, _phase: usize) -> Result<(), Failure> {
        Ok(())
    }

    fn stats(&self) -> IndexStats;

    /// The durability class that the index has.
    fn durability(&self) -> Durability;

    /// RAM of the index, in bytes.
    fn ram_bytes(&self) -> usize;

    /// Bound of the RAM in bytes; `None` without a bound.
    fn ram_given(&self) -> Option<usize>;

    /// Checks the invariants of the index.
    fn check(&mut self) -> Result<CheckReport, IndexError>;

    /// Number of records in the model.
    fn records(&self) -> u64;

    /// The word for a record in messages.
    fn noun(&self) -> &'static str;
}

/// One sync, for booking.
pub(crate) const SYNC: Done = Done { kind: "sync", operations: 1, written: 0 };
