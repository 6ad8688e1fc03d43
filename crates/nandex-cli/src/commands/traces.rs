//! `nandex capture`, `nandex import` and `nandex trace`: traces made and looked at.

use crate::Status;
use crate::output;
use crate::trace_args::{Action, Capture, Import, Numbers, Trace};
use anyhow::Result;
use nandex_lab::compare::Bundle;
use nandex_lab::import::{self, ImportOptions};
use nandex_lab::trace::build::Numbering;
use nandex_lab::trace::stats::TraceStats;
use nandex_lab::trace::{self, TraceOptions};
use nandex_report::trace as report;
use std::path::Path;

fn numbering(numbers: &Numbers) -> Numbering {
    numbers.hash_keys.map_or(Numbering::Keep, Numbering::Hashed)
}

/// Writes a trace and prints a description of it.
fn write(path: &Path, made: &trace::Trace) -> Result<()> {
    trace::write(path, made)?;
    let stats = TraceStats::of(made);
    output::tell(&format!("{}: {}", path.display(), report::sentence(&stats)));
    Ok(())
}

#[cfg(unix)]
pub(crate) fn capture(args: &Capture) -> Result<Status> {
    output::prepare(&args.out)?;
    let captured = nandex_lab::capture::capture(&args.command, &args.tree, numbering(&args.numbers))?;
    write(&args.out, &captured.trace)?;
    if !captured.status.success() {
        output::tell(&format!("! the command ended with {}", captured.status));
    }
    Ok(if captured.status.success() { Status::Done } else { Status::Bad })
}

#[cfg(not(unix))]
pub(crate) fn capture(_: &Capture) -> Result<Status> {
    anyhow::bail!("capturing needs strace, which is a program of Linux")
}

pub(crate) fn import(args: &Import) -> Result<Status> {
    output::prepare(&args.out)?;
    let options = ImportOptions {
        format: args.format,
        keys: args.key.clone(),
        columns: args.columns.clone(),
        numbering: numbering(&args.numbers),
        starts_empty: args.starts_empty,
        without_syncs: args.without_syncs,
    };
    let imported = import::import(&args.log, &options)?;
    for (number, (table, column)) in imported.tables.iter().enumerate() {
        let by = if column.is_empty() { String::new() } else { format!(" by {column}") };
        output::tell(&format!("index {number}: {table}{by}"));
    }
    if let Some((line, text)) = &imported.first_passed {
        output::tell(&format!(
            "! {} of {} passed over, the first on line {line}: {text}",
            imported.passed_over,
            imported.passed_over + imported.followed
        ));
    }
    write(&args.out, &imported.trace)?;
    Ok(Status::Done)
}

pub(crate) fn trace(args: &Trace) -> Result<Status> {
    let Action::Stats(args) = &args.action;
    let options = TraceOptions { operations: args.ops, ..TraceOptions::default() };
    let bundled = args.trace.to_str().and_then(Bundle::named).filter(|_| !args.trace.exists());
    let trace = match bundled {
        Some(bundle) => bundle.trace(args.ops)?,
        None => trace::Trace::read(&args.trace, &options)?,
    };
    let stats = TraceStats::of(&trace);
    output::write_report(args.report.as_deref(), || Ok::<_, std::fmt::Error>(report::page(&stats)))?;
    match &args.json {
        Some(target) => target.write(|out| {
            serde_json::to_writer_pretty(&mut *out, &stats)?;
            writeln!(out)
        })?,
        None => output::print(&report::render(&stats))?,
    }
    Ok(Status::Done)
}
