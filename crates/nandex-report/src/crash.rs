//! A crash test for a terminal: the cuts, their outcomes, the losses, and the command that repeats the first
//! failure.

use super::table::wrap;
use crate::summary::scale::show_count;
use nandex_lab::ASSERTIONS;
use nandex_lab::crash::CrashReport;
use std::fmt::Write as _;

/// Renders the report for a terminal with `width` columns.
pub fn render(report: &CrashReport, width: usize) -> String {
    let mut out = wrap(&settings(report), width);
    out.push('\n');
    for (count, words) in counts(report).into_iter().filter(|(count, _)| *count > 0) {
        let _ = writeln!(out, "{:>12}  {words}", show_count(count));
    }
    out.push('\n');
    if let Some(why) = &report.stopped {
        out += &wrap(&format!("! the workload itself stopped: {why}"), width);
    }
    if let Some(failure) = &report.first_failure {
        let (kind, at, done) = (failure.kind.replace('_', " "), &failure.at, failure.acknowledged);
        out += &wrap(&format!("! {kind} at {at}, {done} operations acknowledged: {}", failure.what), width);
        let _ = writeln!(out, "replay: {}", failure.replay);
    }
    out + &wrap(&verdict(report), width)
}

fn settings(report: &CrashReport) -> String {
    let (setup, work) = (&report.setup, &report.work);
    let mut out = format!(
        "{} {}, durability {}; chip {}; records of {}/{} bytes; {}; seed {}",
        setup.kind,
        setup.name,
        setup.durability,
        setup.chip,
        setup.key_bytes,
        setup.value_bytes,
        super::table::ram(setup.ram_bytes),
        setup.seed
    );
    for (name, value) in &setup.options {
        let _ = write!(out, "; {name}={value}");
    }
    let _ = write!(
        out,
        "\n{} operations ({} refused on a full chip) made {} programs, erases and bad-block marks, {} of them for \
         garbage collection and {} for checkpoints; {} failed; {ASSERTIONS}",
        show_count(work.operations),
        show_count(work.operations_refused),
        show_count(work.physical_operations),
        show_count(work.collection_operations),
        show_count(work.checkpoint_operations),
        show_count(work.physical_failures)
    );
    out
}

fn counts(report: &CrashReport) -> [(u64, &'static str); 15] {
    let tally = &report.tally;
    [
        (tally.cuts_tried, "cuts tried"),
        (tally.second_cuts_tried, "of them second cuts, during or after a recovery"),
        (tally.recovered_exact, "came back with what was acknowledged"),
        (tally.recovered_in_flight, "came back with the operation in flight done"),
        (tally.recovered_prefix, "came back with an earlier state since the last sync, as promised"),
        (tally.refused, "refused to mount, as what promises nothing may"),
        (tally.salvaged, "of them opened all the same, each key as at the last sync or later"),
        (tally.cuts_with_a_loss, "had lost operations that were acknowledged"),
        (tally.operations_lost_most, "operations were lost at most"),
        (tally.continued, "went on working after the recovery"),
        (tally.lost, "LOST something promised"),
        (tally.unmountable, "could NOT be mounted or read"),
        (tally.unsound, "came back with a BROKEN invariant"),
        (tally.went_wrong, "gave a WRONG answer or an error when they went on"),
        (tally.panicked, "PANICKED"),
    ]
}

fn verdict(report: &CrashReport) -> String {
    let name = &report.setup.name;
    let after = if report.cancelled { " before it was cancelled" } else { "" };
    match (report.is_clean(), report.tally.failures()) {
        (true, _) => {
            let cuts = show_count(report.tally.cuts_tried);
            format!("{name}: nothing lost at any of {cuts} cuts{after}.")
        }
        (false, 0) => format!("{name}: the workload stopped; no cut went wrong{after}."),
        (false, 1) => format!("{name}: 1 cut ended badly{after}."),
        (false, failures) => format!("{name}: {} cuts ended badly{after}.", show_count(failures)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex_lab::crash::{CrashFailure, CrashSetup, Tally};

    fn mu() -> CrashSetup {
        CrashSetup { name: "mu".to_string(), ..CrashSetup::default() }
    }

    #[test]
    fn a_clean_test_says_so() {
        let tally = Tally { cuts_tried: 12_000, recovered_exact: 12_000, ..Tally::default() };
        let report = CrashReport { setup: mu(), tally, ..CrashReport::default() };
        let text = render(&report, 80);
        assert!(text.contains("12,000  cuts tried"), "{text}");
        assert!(text.ends_with("mu: nothing lost at any of 12,000 cuts.\n"), "{text}");
        assert!(!text.contains("LOST"));
    }

    #[test]
    fn a_loss_is_told_with_its_replay() {
        let failure = CrashFailure {
            at: "17:prefix".to_string(),
            acknowledged: 9,
            kind: "lost",
            what: "key 3 is gone".to_string(),
            replay: "nandex crash --index mu --at 17:prefix".to_string(),
        };
        let tally = Tally { cuts_tried: 5, lost: 1, ..Tally::default() };
        let report =
            CrashReport { setup: mu(), tally, first_failure: Some(failure), ..CrashReport::default() };
        let text = render(&report, 80);
        assert!(text.contains("! lost at 17:prefix, 9 operations acknowledged: key 3 is gone"), "{text}");
        assert!(text.contains("replay: nandex crash --index mu --at 17:prefix\n"), "{text}");
        assert!(text.ends_with("mu: 1 cut ended badly.\n"), "{text}");
    }
}
