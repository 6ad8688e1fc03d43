//! `nandex compare`: indexes over a workload, as table, files and report.

use crate::Status;
use crate::args::Compare;
use crate::output;
use crate::parse::{self, CLASSES, Choice, knows};
use crate::progress::{Progress, stop_on_interrupt};
use anyhow::Result;
use nandex::ordered::Durability;
use nandex_lab::compare::{BUNDLES, Bundle, Class, Comparison, Contest, Ordered, Source};
use nandex_lab::names;
use nandex_lab::options::{Options, Settings};
use nandex_lab::registry::INDEXES;
use nandex_lab::results::{Results, Run};
use nandex_lab::runner::{Control, RunOptions};
use nandex_lab::trace::TraceOptions;
use nandex_lab::{LabError, parallel, record};
use nandex_report::summary::conclusion::conclude;
use nandex_report::{html, table};
use std::error::Error;
use std::sync::Arc;

pub(crate) fn run(args: &Compare) -> Result<Status> {
    let report = |results: &Results, _: Vec<()>| html::render(results);
    carry_out(args, || Ok(comparison(args)?), report)
}

/// Does the comparison, and writes table, files and report.
pub(super) fn carry_out<C: Contest, E: Error + Send + Sync + 'static>(
    args: &Compare,
    comparison: impl FnOnce() -> Result<Comparison<C>>,
    report: impl FnOnce(&Results, Vec<C::Kept>) -> Result<String, E>,
) -> Result<Status> {
    args.files.prepare()?;
    args.report.as_deref().map_or(Ok(()), output::prepare)?;
    let control = Arc::new(Control::default());
    stop_on_interrupt(&control)?;
    let comparison = comparison()?;
    let progress = Progress::new(Arc::clone(&control));
    let (mut results, kept) =
        progress.follow(|| comparison.run_and_keep(&control, &progress)).map_err(named)?;
    results.commit = output::commit();
    conclude(&mut results);
    output::write_report(args.report.as_deref(), || report(&results, kept))?;
    args.files.write(
        |out| record::write_json(&results, out),
        |out| record::write_csv(&results, out),
        |width| table::render(&results, width),
    )?;
    Ok(status(&results))
}

/// An option is refused where it is dealt, and by then nobody knows which flag it came with.
pub(super) fn named(error: LabError) -> anyhow::Error {
    let is_option = matches!(
        error,
        LabError::UnknownName(names::UnknownName { what: "option", .. }) | LabError::BadOption { .. }
    );
    let error = anyhow::Error::new(error);
    if is_option { error.context("--set") } else { error }
}

/// RAM of the comparison that needs no arguments: enough for the tables of every index.
const STANDARD_RAM: usize = 640 << 10;

/// Changes between two syncs there, in the class whose syncs count.
const STANDARD_SYNCS: u64 = 100;

fn comparison(args: &Compare) -> Result<Comparison<Ordered>, LabError> {
    let mut options = parse::options(&args.set);
    let is_standard = args.workload.is_none() && args.trace.is_none();
    let settings = Settings {
        ram_bytes: args.ram.or(is_standard.then_some(STANDARD_RAM)),
        ..Settings::new(args.record)
    };
    let source = source(args, &mut options)?;
    let takes_all = args.index.iter().all(|choice| matches!(choice, Choice::All));
    let indexes = match args.index.is_empty() {
        true => INDEXES.iter().collect(),
        false => parse::chosen(&args.index, INDEXES),
    };
    Ok(Comparison {
        part: args.chip.clone(),
        contest: Ordered { source, indexes, suits_chip: takes_all },
        classes: classes(args, is_standard),
        settings: Settings { options, ..settings },
        seeds: (0..args.seeds).map(|i| args.seed.wrapping_add(i)).collect(),
        run: RunOptions { sync_at_end: true, ..RunOptions::default() },
        threads: args.threads.map_or_else(parallel::cores, usize::from),
        command: output::command(),
    })
}

fn source(args: &Compare, options: &mut Options) -> Result<Source, LabError> {
    if let Some(workload) = args.workload {
        if let Some(ops) = args.ops {
            if !knows(workload.options, "operations") {
                let reason = format!("cannot be set for the workload {}", workload.name);
                return Err(LabError::bad_option("--ops", &ops.to_string(), reason));
            }
            options.set("operations", &ops.to_string());
        }
        return Ok(Source::Generator(workload));
    }
    let options = TraceOptions { strict: args.strict, operations: args.ops, ..TraceOptions::default() };
    let bundled = match &args.trace {
        None => Some(&BUNDLES[0]),
        Some(path) => path.to_str().and_then(Bundle::named).filter(|_| !path.exists()),
    };
    Ok(match (bundled, &args.trace) {
        (None, Some(path)) => Source::Trace(path.clone(), options),
        (bundled, _) => Source::Bundled(bundled.unwrap_or(&BUNDLES[0]), options),
    })
}

fn classes(args: &Compare, is_standard: bool) -> Vec<Class> {
    let durabilities = match (args.durability.is_empty(), is_standard) {
        (true, true) => CLASSES.to_vec(),
        (true, false) => vec![Durability::EveryOperation],
        _ => parse::chosen(&args.durability, &CLASSES).into_iter().copied().collect(),
    };
    let class = |durability| {
        let standard = (is_standard && durability == Durability::EverySync).then_some(STANDARD_SYNCS);
        Class { durability, sync_every: args.sync_every.or(standard) }
    };
    durabilities.into_iter().map(class).collect()
}

/// Bad when a run stopped half-way, or none could be started. An index that cannot run on this chip or within
/// this RAM is a result.
fn status(results: &Results) -> Status {
    let stopped = |run: &Run| run.error.is_some() && !run.phases.is_empty();
    match results.runs.iter().any(stopped) || results.runs.iter().all(|run| run.error.is_some()) {
        true => Status::Bad,
        false => Status::Done,
    }
}
