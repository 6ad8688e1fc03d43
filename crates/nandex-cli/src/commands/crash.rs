//! `nandex crash`: cuts the power and compares the contents after a mount with the promise.

use crate::Status;
use crate::args::Crash;
use crate::parse;
use crate::progress::{Progress, stop_on_interrupt};
use anyhow::Result;
use nandex_lab::crash::{CrashPlan, CrashReport, Cuts, Rehearsal, SMALL_CHIP, Target};
use nandex_lab::options::Settings;
use nandex_lab::runner::Control;
use nandex_lab::{LabError, machine, parallel};
use nandex_report::crash as report;
use serde_json::Value;
use std::io::{self, Write};
use std::sync::Arc;

pub(crate) fn run(args: &Crash) -> Result<Status> {
    args.files.prepare()?;
    let control = Arc::new(Control::default());
    stop_on_interrupt(&control)?;
    let plan = plan(args)?;
    let threads = args.threads.map_or_else(parallel::cores, usize::from);
    let progress = Progress::new(Arc::clone(&control));
    let found = progress.follow(|| {
        let rehearsal = Rehearsal::record(plan)?;
        progress.count(rehearsal.cuts(), "cuts");
        Ok::<CrashReport, LabError>(rehearsal.run(threads, &control))
    })?;
    args.files.write(
        |out| write_json(&found, out),
        |out| write_csv(&found, out),
        |width| report::render(&found, width),
    )?;
    Ok(if found.is_clean() && !found.cancelled { Status::Done } else { Status::Bad })
}

fn plan(args: &Crash) -> Result<CrashPlan> {
    let options = parse::options(&args.set);
    let (target, known) = match (args.index, args.spatial, args.ftl) {
        (Some(entry), ..) => (Target::Index(entry), entry.known(&options)),
        (None, Some(entry), _) => (Target::Spatial(entry), entry.options),
        (None, None, Some(entry)) => (Target::Store(entry), entry.options),
        (None, None, None) => unreachable!("the parser asks for one of them"),
    };
    nandex_lab::options::sharing::resolve(known, &options)
        .map_err(|error| anyhow::Error::new(error).context("--set"))?;
    // What an operation does to the chip is kept: some pages each.
    let kept = u128::from(args.ops) * args.chip.geometry.raw_page_bytes() as u128 * 2;
    machine::require("--ops", &args.ops.to_string(), kept)?;
    let durability = args.durability.unwrap_or(target.strongest_class());
    let settings = Settings { record: args.record, ram_bytes: args.ram, durability, options };
    // The small chip is whatever the target needs; one that was named is taken as it is.
    let part =
        if args.chip.name == SMALL_CHIP { target.suited(args.chip.clone()) } else { args.chip.clone() };
    Ok(CrashPlan {
        part,
        operations: args.ops,
        seed: args.seed,
        cuts: args.at.map_or(args.cuts, Cuts::At),
        slots: args.keys.unwrap_or(target.usual_slots()),
        failures: args.faults.unwrap_or_default(),
        ..CrashPlan::new(target, settings)
    })
}

fn write_json(report: &CrashReport, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, report)?;
    writeln!(out)
}

/// Writes the report as one row. The column of a nested field has both names.
fn write_csv(report: &CrashReport, out: &mut dyn Write) -> io::Result<()> {
    let cells = cells(&serde_json::to_value(report)?);
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(cells.iter().map(|(name, _)| name))?;
    csv.write_record(cells.iter().map(|(_, value)| value))?;
    csv.flush()
}

/// The fields of a row as text, by name.
pub(super) fn cells(row: &Value) -> Vec<(String, String)> {
    let mut cells = Vec::new();
    flatten("", row, &mut cells);
    cells
}

fn flatten(name: &str, value: &Value, cells: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                let name = if name.is_empty() { field.clone() } else { format!("{name}_{field}") };
                flatten(&name, value, cells);
            }
        }
        Value::Null => cells.push((name.to_string(), String::new())),
        Value::String(text) => cells.push((name.to_string(), text.clone())),
        other => cells.push((name.to_string(), other.to_string())),
    }
}
