//! Keys in ascending order, as time series and logs bring them, then look-ups of random ones.

use super::{Op, OpKind, Parameters, PhaseOps, RECORDS_MAX, WorkloadEntry};
use crate::error::LabError;
use crate::names::option;

pub(super) const ENTRY: WorkloadEntry = WorkloadEntry {
    name: "ascending",
    summary: "keys inserted in ascending order (time series), then look-ups of random ones",
    options: &[
        option("records", "100000", "records inserted, with the keys 1 to this number"),
        option("operations", "10000", "look-ups after that"),
    ],
    generate,
};

fn generate(parameters: &Parameters) -> Result<Vec<PhaseOps>, LabError> {
    let records = parameters.number_in("records", 1, RECORDS_MAX)?;
    let operations = parameters.number_in("operations", 0, RECORDS_MAX)?;
    let mut rng = parameters.rng(1);
    let inserts = (1..=records).map(|key| Op::new(OpKind::Insert, key));
    let gets = (0..operations).map(|_| Op::new(OpKind::Get, rng.below(records) + 1));
    Ok(vec![
        PhaseOps::measured("inserts", inserts.collect()),
        PhaseOps::measured("retrievals", gets.collect()),
    ])
}
