//! The height of a tree as it grows: entries are inserted into an empty tree, and its levels noted after
//! each.

use super::registry::Space;
use super::runner::{Medium, SpatialJob};
use super::subject::open_subject;
use super::workload::{SpatialOp, SpatialPhase, SpatialWorkload};
use crate::error::LabError;
use crate::registry::Ground;
use nandex::IndexError;
use nandex::nand::sim::SimChip;
use nandex::spatial::Rect;

/// A workload that inserts all entries in their order.
pub fn growth_of<C, const D: usize>(entries: Vec<(Rect<C, D>, u64)>, seed: u64) -> SpatialWorkload<C, D> {
    let ops = (0..entries.len() as u32).map(SpatialOp::Insert).collect();
    let phase = SpatialPhase { name: "insert".into(), measured: true, is_bulk: false, ops };
    SpatialWorkload { name: "growth".into(), seed, options: Default::default(), entries, phases: vec![phase] }
}

/// Inserts all entries of the workload in their order into the job's index on a new chip, whatever the
/// job's medium. Returns the height of the tree after each entry.
pub fn heights<C: Space<D>, const D: usize>(job: &SpatialJob<'_, C, D>) -> Result<Vec<u32>, LabError> {
    let (Medium::Chip(part) | Medium::Disk(_, part)) = job.medium;
    let refused = |error: nandex::nand::PartError| LabError::Chip {
        file: part.name.to_string(),
        reason: error.to_string(),
    };
    let ground = Ground::Chip(Box::new(SimChip::new(part).map_err(refused)?));
    let mut subject = open_subject(job, ground)?;
    let insert = |entry| -> Result<u32, IndexError> {
        subject.insert(entry)?;
        Ok(subject.stats().height)
    };
    Ok(job.workload.entries.iter().map(insert).collect::<Result<Vec<_>, IndexError>>()?)
}
