//! Power cuts as a computed cell: the crash test of one index in one durability class, see [`crate::crash`].

use super::RunPlan;
use super::definition::Durable;
use super::results::CellResult;
use crate::LabError;
use crate::crash::{CrashPlan, Cuts, Rehearsal, Target};
use crate::registry;
use crate::runner::Control;
use crate::stats::Summary;
use nandex::ordered::RecordFormat;
use nandex_stacks::options::Settings;

/// Power cuts in a smoke run.
const SMOKE_CUTS: u64 = 40;

/// The cell `cuts/INDEX`, or `cuts/INDEX/CLASS` for another class than every operation.
pub(super) fn cell(name: &str, plan: &RunPlan, control: &Control) -> Result<CellResult, LabError> {
    let index = name.strip_prefix("cuts/").unwrap_or(name);
    let (index, durable) = match index.split_once('/') {
        Some((index, class)) => (index, Durable::named(class)?),
        None => (index, Durable::Always),
    };
    let settings = Settings { durability: durable.class(), ..Settings::new(RecordFormat::new(4, 4)) };
    let mut crash = CrashPlan::new(Target::Index(registry::index(index)?), settings);
    if plan.smoke {
        crash.operations /= 10;
        crash.cuts = Cuts::Sample(SMOKE_CUTS);
    }
    let rehearsal = Rehearsal::record(crash)?;
    control.plan(rehearsal.cuts());
    let report = rehearsal.run(plan.threads, control);
    if report.cancelled {
        let missing = Some(String::from("cancelled"));
        return Ok(CellResult { name: name.to_string(), missing, ..CellResult::default() });
    }
    let tally = &report.tally;
    let figures = [
        ("operations", report.work.operations),
        ("physical_operations", report.work.physical_operations),
        ("cuts_tried", tally.cuts_tried),
        ("cuts_recovered_exactly", tally.recovered_exact),
        ("cuts_recovered_with_the_operation_in_flight", tally.recovered_in_flight),
        ("cuts_refused", tally.refused),
        ("cuts_with_a_loss", tally.cuts_with_a_loss),
        ("operations_lost_most", tally.operations_lost_most),
        ("loses_operations", u64::from(tally.cuts_with_a_loss > 0)),
        ("cuts_with_a_bad_end", tally.failures() + u64::from(report.stopped.is_some())),
    ];
    let exact = |(figure, count): (&str, u64)| (figure.to_string(), Summary::exact(count as f64));
    Ok(CellResult {
        name: name.to_string(),
        figures: figures.into_iter().map(exact).collect(),
        ..CellResult::default()
    })
}
