//! Golden results: the rows of small runs of every index, byte for byte as they were recorded.
//!
//! A difference means that published figures change. If that is meant, `NANDEX_BLESS=1 cargo test -p
//! nandex-lab --test suite golden::` records them anew; say why in the commit. Processor time is left out.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use crate::inputs::{sized, stride};
use nandex::nand::catalogue::mlc_64m;
use nandex::ordered::RecordFormat;
use nandex_lab::parallel::run_all;
use nandex_lab::record::write_csv;
use nandex_lab::registry::INDEXES;
use nandex_lab::results::{ChipFacts, Results, WorkloadFacts};
use nandex_lab::runner::{Control, Job, Prepared, RunOptions};
use nandex_lab::trace::{Trace, TraceOptions};
use nandex_lab::workload::{Workload, workload};
use nandex_stacks::options::{Options, Settings};
use std::collections::BTreeSet;
use std::path::Path;

fn generated(name: &str) -> Workload {
    let entry = workload(name).unwrap();
    let mut options = Options::default();
    for (option, value) in [("records", "3000"), ("operations", "1500")] {
        if entry.options.iter().any(|known| known.name == option) {
            options.set(option, value);
        }
    }
    entry.build(7, &options).unwrap()
}

fn traced() -> Workload {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/kernel_compile.ops.zst");
    let options = TraceOptions { operations: Some(4000), ..TraceOptions::default() };
    Trace::read(&file, &options).unwrap().workload(&options)
}

/// Rows of every `step`-th index, beginning with number `from`.
fn rows(workload: &Workload, settings: &Settings, (from, step): (usize, usize)) -> String {
    let part = mlc_64m();
    let prepared = Prepared::new(workload, settings.record.key_bytes).unwrap();
    let options = RunOptions { cpu_time: false, ..RunOptions::default() };
    let job = |index| Job { index, part: &part, prepared: &prepared, settings: settings.clone(), options };
    let jobs: Vec<Job<'_>> = INDEXES.iter().skip(from).step_by(step).map(job).collect();
    let runs = run_all(&jobs, 2, &Control::default(), |_, _| {});
    let results = Results {
        chip: ChipFacts::of(&part),
        workload: WorkloadFacts::of(workload, settings),
        runs,
        ..Results::default()
    };
    let mut csv = Vec::new();
    write_csv(&results.without_cpu_time(), &mut csv).unwrap();
    String::from_utf8(csv).unwrap()
}

/// Compares rows with the recorded ones: all, or those of every `step`-th index.
pub(crate) fn compare(name: &str, rows: &str, step: usize) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.csv"));
    if is_blessed() {
        std::fs::write(&file, rows).unwrap();
    }
    let recorded = std::fs::read_to_string(&file).unwrap();
    let of = |row: &str| row.split(',').nth(5).map(String::from);
    let shown: BTreeSet<_> = rows.lines().map(of).collect();
    let is_asked = |row: &&str| step == 1 || shown.contains(&of(row));
    let expected: Vec<&str> = recorded.lines().filter(is_asked).collect();
    let found: Vec<&str> = rows.lines().collect();
    let difference = expected.iter().zip(&found).find(|(then, now)| then != now);
    assert!(shown.len() > sized(2, 3), "{name}: rows of {shown:?} only");
    assert!(expected == found, "{name}: recorded and found, first difference: {difference:?}");
}

fn is_blessed() -> bool {
    std::env::var_os("NANDEX_BLESS").is_some()
}

/// Every how many indexes are measured: `gate` in the gate, 1 in the nightly run and when recording.
pub(crate) fn step(gate: usize) -> usize {
    if is_blessed() { 1 } else { stride(gate) }
}

#[test]
fn small_runs_cost_what_they_did() {
    let plain = Settings::new(RecordFormat::new(8, 8));
    let little = Settings { ram_bytes: Some(64 << 10), ..plain.clone() };
    // Each index is in the rows of two files in the gate.
    let step = step(3);
    let files = ["mu", "uniform", "zipfian", "ycsb-e", "ascending", "uniform-64k"];
    for (number, name) in files.into_iter().enumerate() {
        let (workload, settings) = match name {
            "uniform-64k" => ("uniform", &little),
            _ => (name, &plain),
        };
        compare(name, &rows(&generated(workload), settings, (number % step, step)), step);
    }
}

#[test]
fn the_bundled_trace_costs_what_it_did() {
    let step = step(14);
    compare(
        "kernel-compile",
        &rows(&traced(), &Settings::new(RecordFormat::new(4, 4)), (8 % step, step)),
        step,
    );
}
