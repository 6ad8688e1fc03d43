//! Readings of a sensor: ascending times, values that wander slowly, then look-ups by time.

use super::{Op, OpKind, Parameters, PhaseOps, RECORDS_MAX, WorkloadEntry, values};
use crate::error::LabError;
use crate::names::option;

pub(super) const ENTRY: WorkloadEntry = WorkloadEntry {
    name: "readings",
    summary: "a sensor's readings appended in time, values wander; then look-ups of times and stretches of time",
    options: &[
        option("records", "100000", "readings appended"),
        option("interval", "60", "time from one reading to the next, in the mean"),
        option("jitter", "5", "by which a reading comes early or late at most, below half the interval"),
        option(values::WALK, "1", "by which a reading differs from the one before at most"),
        option("operations", "10000", "look-ups of the time of a reading"),
        option("stretches", "1000", "stretches of time that are read after that"),
        option("range_records", "100", "readings of a stretch at most (1 to this)"),
    ],
    generate,
};

fn generate(parameters: &Parameters) -> Result<Vec<PhaseOps>, LabError> {
    let records = parameters.number_in("records", 1, RECORDS_MAX)?;
    let interval = parameters.number_in("interval", 1, 1 << 20)?;
    let jitter = parameters.number_in("jitter", 0, (interval - 1) / 2)?;
    let looks = parameters.number_in("operations", 0, RECORDS_MAX)?;
    let stretches = parameters.number_in("stretches", 0, RECORDS_MAX)?;
    let scan_max = parameters.number_in("range_records", 1, 1 << 20)?;
    let mut rng = parameters.rng(1);
    let times: Vec<u64> =
        (1..=records).map(|number| number * interval - jitter + rng.below(2 * jitter + 1)).collect();
    let appends = times.iter().map(|&time| Op::new(OpKind::Insert, time)).collect();
    let looks = (0..looks).map(|_| Op::new(OpKind::Get, times[rng.below(records) as usize])).collect();
    let stretches = (0..stretches)
        .map(|_| Op::range(times[rng.below(records) as usize], 1 + rng.below(scan_max) as u32))
        .collect();
    Ok(vec![
        PhaseOps::measured("appends", appends),
        PhaseOps::measured("look-ups", looks),
        PhaseOps::measured("stretches", stretches),
    ])
}
