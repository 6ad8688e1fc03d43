//! A recording: every change of a chip's state in order. It can be repeated on another chip up to any point.
//!
//! A power-cut test runs its workload once while recording. Then it walks a fresh chip along the recording
//! with `SimChip::replay`. Before each operation it clones the chip; the clone gets the operation not at all,
//! torn, or whole, and the test mounts the clone.

use super::faults::TornModel;
use crate::nand::Cause;
use crate::units::{Pbn, Ppn};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Change of the chip's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PhysicalOp {
    /// Program of a page.
    Program {
        /// Page that is programmed.
        ppn: Ppn,
        /// Bytes for the data area, as given.
        data: Box<[u8]>,
        /// Bytes for the spare area, as given.
        spare: Box<[u8]>,
    },
    /// Erase of a block.
    Erase {
        /// Block that is erased.
        pbn: Pbn,
    },
    /// Bad-block mark.
    MarkBad {
        /// Block that is marked.
        pbn: Pbn,
    },
}

/// How an operation is torn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn {
    /// Model of the torn operation.
    pub model: TornModel,
    /// Seed of the random choices.
    pub seed: u64,
}

/// Operation of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Operation asked of the chip.
    pub op: PhysicalOp,
    /// How a failure or a power cut tore the operation; `None` if it was done whole.
    pub torn: Option<Torn>,
    /// Cause of the operation; `None` for a bad-block mark.
    pub cause: Option<Cause>,
    /// Label set last before the operation.
    pub mark: u64,
}

/// All changes of a chip since the recording began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Operations in order.
    pub operations: Vec<Recorded>,
    /// Label of the next operation.
    pub mark: u64,
}

/// Recording of a chip, if one was started. A clone of the chip has none.
#[derive(Debug, Default)]
pub(super) struct Diary(pub(super) Option<Box<Recording>>);

impl Clone for Diary {
    fn clone(&self) -> Diary {
        Diary(None)
    }
}

impl Diary {
    #[inline]
    pub(super) fn note(&mut self, cause: Option<Cause>, torn: Option<Torn>, op: impl FnOnce() -> PhysicalOp) {
        if let Some(recording) = &mut self.0 {
            let mark = recording.mark;
            recording.operations.push(Recorded { op: op(), torn, cause, mark });
        }
    }
}
