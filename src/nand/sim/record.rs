//! A chip's diary: every change of its state in order, to be repeated on another chip up to any point.
//!
//! A power-cut test runs its workload once while recording, then walks a fresh chip along the recording with
//! `SimChip::replay`; at each operation it clones the chip and lets the clone see the operation not at all,
//! torn, or whole, before it mounts what it finds.

use super::faults::TornModel;
use crate::nand::Cause;
use crate::units::{Pbn, Ppn};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A change of the chip's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PhysicalOp {
    /// A page was programmed.
    Program {
        /// The page.
        ppn: Ppn,
        /// Bytes for the data area, as given.
        data: Box<[u8]>,
        /// Bytes for the spare area, as given.
        spare: Box<[u8]>,
    },
    /// A block was erased.
    Erase {
        /// The block.
        pbn: Pbn,
    },
    /// A block was marked bad.
    MarkBad {
        /// The block.
        pbn: Pbn,
    },
}

/// An operation as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The operation asked of the chip.
    pub op: PhysicalOp,
    /// How it was torn by a failure or a power cut, and the seed; `None` when it was done whole.
    pub torn: Option<(TornModel, u64)>,
    /// Who asked; nobody is named for a bad-block mark.
    pub cause: Option<Cause>,
    /// The last mark set before it.
    pub mark: u64,
}

/// Everything that changed a chip since the recording began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// The operations in order.
    pub operations: Vec<Recorded>,
    /// The mark that the next operation gets.
    pub mark: u64,
}

/// The diary of a chip, if it keeps one; a clone of the chip keeps none.
#[derive(Debug, Default)]
pub(super) struct Diary(pub(super) Option<Box<Recording>>);

impl Clone for Diary {
    fn clone(&self) -> Diary {
        Diary(None)
    }
}

impl Diary {
    #[inline]
    pub(super) fn note(
        &mut self,
        cause: Option<Cause>,
        torn: Option<(TornModel, u64)>,
        op: impl FnOnce() -> PhysicalOp,
    ) {
        if let Some(recording) = &mut self.0 {
            let mark = recording.mark;
            recording.operations.push(Recorded { op: op(), torn, cause, mark });
        }
    }
}
