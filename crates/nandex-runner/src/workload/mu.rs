//! The microbenchmark of the mu-Tree paper (Kang et al. 2007, Section 6.2): random inserts, then a sample of
//! each operation.
//!
//! 1,000,000 records with random keys are inserted; then come 10,000 retrievals, 10,000 deletions and 10,000
//! insertions of random keys. The paper does not say from where the keys of the last three phases come.
//! Assumed: retrieved keys are present and may repeat, deleted keys are present and differ, inserted keys
//! were never present before.

use super::{Op, OpKind, Parameters, PhaseOps, RECORDS_MAX, WorkloadEntry};
use crate::error::LabError;
use crate::names::option;

pub(super) const ENTRY: WorkloadEntry = WorkloadEntry {
    name: "mu",
    summary: "the mu-Tree paper's microbenchmark: random inserts, then retrievals, deletions, insertions",
    options: &[
        option("records", "1000000", "records inserted by the load"),
        option("operations", "10000", "operations of each of the three measured phases"),
    ],
    generate,
};

fn generate(parameters: &Parameters) -> Result<Vec<PhaseOps>, LabError> {
    let records = parameters.number_in("records", 1, RECORDS_MAX)?;
    let operations = parameters.number_in("operations", 0, RECORDS_MAX)?;
    if operations > records {
        let reason = format!("exceeds the {records} records there are to delete");
        return Err(LabError::bad_option("operations", &operations.to_string(), reason));
    }
    let keys = parameters.keys();
    let load = (0..records).map(|r| Op::new(OpKind::Insert, keys.key(r)));
    let mut rng = parameters.rng(1);
    let retrievals = (0..operations).map(|_| Op::new(OpKind::Get, keys.key(rng.below(records))));
    let retrievals = retrievals.collect();
    let mut rng = parameters.rng(2);
    let mut present: Vec<u64> = (0..records).collect();
    let deletions = (0..operations).map(|_| {
        let chosen = rng.below(present.len() as u64) as usize;
        Op::new(OpKind::Remove, keys.key(present.swap_remove(chosen)))
    });
    let deletions = deletions.collect();
    let insertions = (records..records + operations).map(|r| Op::new(OpKind::Insert, keys.key(r)));
    Ok(vec![
        PhaseOps::unmeasured("load", load.collect()),
        PhaseOps::measured("retrievals", retrievals),
        PhaseOps::measured("deletions", deletions),
        PhaseOps::measured("insertions", insertions.collect()),
    ])
}
