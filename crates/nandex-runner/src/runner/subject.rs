//! The subject of a run: an index with the operations that it is to do and the model that knows the answers.
//!
//! The [session](super::session) drives any subject through its phases. [`Records`](super::records::Records)
//! is the one of the ordered indexes, `Boxes` of [`crate::spatial`] the one of the spatial ones.

use super::session::Desk;
use super::{Done, Failure};
use nandex::ordered::{Durability, IndexStats};
use nandex::{CheckReport, IndexError};

/// Operations that belong together.
pub(crate) struct PhaseOf<'a> {
    pub(crate) name: &'a str,
    /// Whether the figures of the phase count.
    pub(crate) measured: bool,
    /// Whether all its operations are insertions that are handed over at once.
    pub(crate) is_bulk: bool,
    /// The number of operations.
    pub(crate) operations: usize,
}

/// An operation: the phase, and its place there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) phase: usize,
    pub(crate) op: usize,
}

/// An index with its operations and its model.
pub(crate) trait Subject {
    /// The number of phases.
    fn phases(&self) -> usize;

    /// A phase.
    fn phase(&self, place: usize) -> PhaseOf<'_>;

    /// Whether an operation changes records.
    fn changes(&self, at: At) -> bool;

    /// An operation in words.
    fn describe(&self, at: At) -> String;

    /// Does an operation and compares the answer.
    fn apply(&mut self, desk: &mut Desk<'_>, at: At) -> Result<(), Failure>;

    /// Hands all insertions of a phase over at once; returns how many.
    fn load(&mut self, desk: &mut Desk<'_>, phase: usize) -> Result<u64, Failure>;

    /// Syncs the index.
    fn sync(&mut self, desk: &mut Desk<'_>) -> Result<(), Failure>;

    /// Called after each phase.
    fn phase_done(&mut self, _phase: usize) -> Result<(), Failure> {
        Ok(())
    }

    /// The figures of the index.
    fn stats(&self) -> IndexStats;

    /// The class that the index gives.
    fn durability(&self) -> Durability;

    /// Bytes of RAM that the index holds.
    fn ram_bytes(&self) -> usize;

    /// Bytes of RAM that the index may hold, where there is a bound.
    fn ram_given(&self) -> Option<usize>;

    /// The check of the index.
    fn check(&mut self) -> Result<CheckReport, IndexError>;

    /// Records of the model.
    fn records(&self) -> u64;

    /// The word for a record.
    fn noun(&self) -> &'static str;
}

/// A sync, as it is booked.
pub(crate) const SYNC: Done = Done { kind: "sync", operations: 1, written: 0 };
