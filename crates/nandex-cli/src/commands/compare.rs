//! `nandex compare`: indexes over a workload, as table, files and report.

use crate::Status;
use crate::args::Compare;
use crate::output;
use crate::parse::{self, knows};
use crate::progress::{Progress, stop_on_interrupt};
use anyhow::Result;
use nandex::ordered::Settings;
use nandex_lab::compare::{Comparison, Source};
use nandex_lab::registry::INDEXES;
use nandex_lab::report::{html, table};
use nandex_lab::results::{Results, Run};
use nandex_lab::runner::{Control, RunOptions};
use nandex_lab::trace::TraceOptions;
use nandex_lab::{LabError, parallel, record};
use std::sync::Arc;

pub(crate) fn run(args: &Compare) -> Result<Status> {
    args.files.prepare()?;
    args.report.as_deref().map_or(Ok(()), output::prepare)?;
    let control = Arc::new(Control::default());
    stop_on_interrupt(&control)?;
    let comparison = comparison(args)?;
    let progress = Progress::new(Arc::clone(&control));
    let results = progress.follow(|| comparison.run(&control, &progress)).map_err(named)?;
    write(args, &results)?;
    Ok(status(&results))
}

/// An option is refused where it is dealt, and by then nobody knows which flag it came with.
pub(super) fn named(error: LabError) -> anyhow::Error {
    let is_option =
        matches!(error, LabError::UnknownName { what: "option", .. } | LabError::BadOption { .. });
    let error = anyhow::Error::new(error);
    if is_option { error.context("--set") } else { error }
}

fn comparison(args: &Compare) -> Result<Comparison, LabError> {
    let mut options = parse::options(&args.set);
    let source = match &args.trace {
        Some(path) => {
            let options =
                TraceOptions { strict: args.strict, operations: args.ops, ..TraceOptions::default() };
            Source::Trace(path.clone(), options)
        }
        None => {
            if let Some(ops) = args.ops {
                if !knows(args.workload.options, "operations") {
                    let reason = format!("cannot be set for the workload {}", args.workload.name);
                    return Err(LabError::bad_option("--ops", &ops.to_string(), reason));
                }
                options.set("operations", &ops.to_string());
            }
            Source::Generator(args.workload)
        }
    };
    let settings =
        Settings { record: args.record, ram_bytes: args.ram, durability: args.durability, options };
    Ok(Comparison {
        part: args.chip.clone(),
        source,
        indexes: if args.index.is_empty() {
            INDEXES.iter().collect()
        } else {
            parse::chosen(&args.index, INDEXES)
        },
        settings,
        seeds: (0..args.seeds).map(|i| args.seed.wrapping_add(i)).collect(),
        run: RunOptions { sync_every: args.sync_every, sync_at_end: true, ..RunOptions::default() },
        threads: args.threads.map_or_else(parallel::cores, usize::from),
        command: output::command(),
    })
}

fn write(args: &Compare, results: &Results) -> Result<()> {
    output::write_report(args.report.as_deref(), || html::render(results))?;
    args.files.write(
        |out| record::write_json(results, out),
        |out| record::write_csv(results, out),
        |width| table::render(results, width),
    )
}

/// Bad when a run stopped half-way, or none could be started. An index that cannot run on this chip or within this RAM
/// is a result.
pub(super) fn status(results: &Results) -> Status {
    let stopped = |run: &Run| run.error.is_some() && !run.phases.is_empty();
    match results.runs.iter().any(stopped) || results.runs.iter().all(|run| run.error.is_some()) {
        true => Status::Bad,
        false => Status::Done,
    }
}
