//! `nandex compare`: indexes over a workload, as table, files and report.

use crate::Status;
use crate::args::Compare;
use crate::output;
use crate::parse::{self, CLASSES, Choice, knows};
use crate::progress::{Progress, stop_on_interrupt};
use anyhow::Result;
use nandex::ordered::Durability;
use nandex_lab::compare::{BUNDLES, Bundle, Class, Comparison, Contest, Ordered, Source, Watch};
use nandex_lab::names;
use nandex_lab::options::{Options, Settings};
use nandex_lab::registry::{Holds, INDEXES, IndexEntry, subjects};
use nandex_lab::results::{Results, Run};
use nandex_lab::runner::{Control, RunOptions};
use nandex_lab::trace::TraceOptions;
use nandex_lab::workload::{self, WorkloadEntry};
use nandex_lab::{LabError, parallel, record};
use nandex_report::summary::conclusion::conclude;
use nandex_report::summary::over_ram::Sets;
use nandex_report::{html, table};
use std::error::Error;
use std::sync::Arc;

pub(crate) fn run(args: &Compare) -> Result<Status> {
    match &rams(args)[..] {
        [ram] if !is_standard(args) => {
            let report = |results: &Results, _: Vec<()>| html::render(results);
            carry_out(args, || Ok(comparison(args, *ram)?), report)
        }
        rams => over_ram(args, rams),
    }
}

/// Whether the comparison is the default one, which has two workloads.
fn is_standard(args: &Compare) -> bool {
    args.workload.is_none() && args.trace.is_none()
}

/// The amounts of RAM, ascending.
fn rams(args: &Compare) -> Vec<Option<usize>> {
    match &args.ram {
        Some(rams) => rams.0.iter().map(|bytes| Some(*bytes)).collect(),
        None if is_standard(args) => STANDARD_RAM_KIB.iter().map(|kib| Some(kib << 10)).collect(),
        None => vec![None],
    }
}

/// Compares with each amount of RAM. The default comparison also runs a workload with scattered keys.
fn over_ram(args: &Compare, rams: &[Option<usize>]) -> Result<Status> {
    args.files.prepare()?;
    args.report.as_deref().map_or(Ok(()), output::prepare)?;
    let mut comparisons: Vec<Comparison<Ordered>> =
        rams.iter().map(|ram| comparison(args, *ram)).collect::<Result<_, _>>()?;
    if is_standard(args) {
        let scattered: Vec<_> = comparisons.iter().map(|of_trace| scattered(args, of_trace)).collect();
        comparisons.extend(scattered.into_iter().collect::<Result<Vec<_>, _>>()?);
    }
    let control = Arc::new(Control::default());
    stop_on_interrupt(&control)?;
    let several = Several { control: &control, progress: Progress::new(Arc::clone(&control)) };
    let done = several.progress.follow(|| {
        comparisons.iter().map(|comparison| comparison.run(&control, &several)).collect::<Result<Vec<_>, _>>()
    });
    let mut done = done.map_err(named)?;
    done.iter_mut().for_each(|results| {
        results.commit = output::commit();
        conclude(results);
    });
    let sets = Sets::of(output::command(), done);
    output::write_report(args.report.as_deref(), || html::render_sets(&sets))?;
    args.files.write(
        |out| {
            serde_json::to_writer_pretty(&mut *out, &sets)?;
            writeln!(out)
        },
        |out| record::write_csv_of(&sets.sets, out),
        |width| table::render_sets(&sets, width),
    )?;
    let good = sets.sets.iter().any(|results| status(results) == Status::Done);
    Ok(if good { Status::Done } else { Status::Bad })
}

/// The comparison of the same indexes on a workload with scattered keys, because a trace may gather its
/// keys.
fn scattered(args: &Compare, of_trace: &Comparison<Ordered>) -> Result<Comparison<Ordered>, LabError> {
    let mut other = of_trace.clone();
    other.contest.source = Source::Generator(workload::workload(SCATTERED)?);
    other.settings.options.set("operations", &args.ops.unwrap_or(STANDARD_OPS).to_string());
    Ok(other)
}

/// Watches several comparisons, one after the other, with a single bar.
struct Several<'a> {
    control: &'a Control,
    progress: Progress,
}

impl Watch for Several<'_> {
    fn start(&self, operations: u64) {
        self.control.plan(operations);
    }

    fn finished(&self, run: &Run) {
        // Of hundreds of runs only those are told that stopped half-way.
        if run.error.is_some() && !run.phases.is_empty() {
            self.progress.finished(run);
        }
    }
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

/// Names the flag in the error of an option, which was found where the flag is no longer known.
pub(super) fn named(error: LabError) -> anyhow::Error {
    let is_option = matches!(
        error,
        LabError::UnknownName(names::UnknownName { what: "option", .. }) | LabError::BadOption { .. }
    );
    let error = anyhow::Error::new(error);
    if is_option { error.context("--set") } else { error }
}

/// RAM of the default comparison in KiB: from a small microcontroller's to enough for the tables of every
/// index.
const STANDARD_RAM_KIB: [usize; 6] = [16, 32, 64, 128, 256, 640];

/// Operations of the default comparison after a sorted load. They take about two minutes.
const STANDARD_OPS: u64 = 20_000;

/// The second workload of the default comparison, besides the trace.
const SCATTERED: &str = "uniform";

/// Changes between two syncs in the class *every sync*, for the default comparison and for readings.
const STANDARD_SYNCS: u64 = 100;

fn comparison(args: &Compare, ram_bytes: Option<usize>) -> Result<Comparison<Ordered>, LabError> {
    let mut options = parse::options(&args.set);
    let is_standard = is_standard(args);
    let settings = Settings { ram_bytes, ..Settings::new(args.record) };
    let source = source(args, &mut options)?;
    let takes_all = args.index.iter().all(|choice| matches!(choice, Choice::All));
    let all = all_for(args.workload);
    let indexes = match args.index.is_empty() {
        true => all,
        false => parse::chosen(&args.index, all),
    };
    Ok(Comparison {
        part: args.chip.clone(),
        contest: Ordered { source, indexes, suits_chip: takes_all, loads_at_once: is_standard },
        classes: classes(args, is_standard),
        settings: Settings { options, ..settings },
        seeds: (0..args.seeds).map(|i| args.seed.wrapping_add(i)).collect(),
        // Of many comparisons only the leading rows are shown.
        run: RunOptions { sync_at_end: true, mount: rams(args).len() == 1, ..RunOptions::default() },
        threads: args.threads.map_or_else(parallel::cores, usize::from),
        command: output::command(),
    })
}

/// All indexes that can hold the values of the workload.
fn all_for(workload: Option<&WorkloadEntry>) -> Vec<&'static IndexEntry> {
    match workload {
        Some(workload) if workload.has_long_values() => {
            subjects().filter(|entry| entry.holds.any_length()).collect()
        }
        Some(workload) if workload.has_readings() => {
            let holds = |entry: &&IndexEntry| matches!(entry.holds, Holds::Records | Holds::Readings);
            subjects().filter(holds).collect()
        }
        _ => INDEXES.iter().collect(),
    }
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
    let operations = args.ops.or(is_standard(args).then_some(STANDARD_OPS));
    let options = TraceOptions { strict: args.strict, operations, ..TraceOptions::default() };
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
    // A log of readings gives no more.
    let are_readings = args.workload.is_some_and(WorkloadEntry::has_readings);
    let durabilities = match (args.durability.is_empty(), is_standard) {
        (true, true) => vec![Durability::EveryOperation, Durability::EverySync],
        (true, false) if are_readings => vec![Durability::EverySync],
        (true, false) => vec![Durability::EveryOperation],
        _ => parse::chosen(&args.durability, &CLASSES).into_iter().copied().collect(),
    };
    let class = |durability| {
        let has_syncs = (is_standard || are_readings) && durability == Durability::EverySync;
        let standard = has_syncs.then_some(STANDARD_SYNCS);
        Class { durability, sync_every: args.sync_every.or(standard) }
    };
    durabilities.into_iter().map(class).collect()
}

/// The status: bad if a run stopped half-way or if none could start. An index that cannot run on this chip
/// or in this RAM is a regular result.
fn status(results: &Results) -> Status {
    let stopped = |run: &Run| run.error.is_some() && !run.phases.is_empty();
    match results.runs.iter().any(stopped) || results.runs.iter().all(|run| run.error.is_some()) {
        true => Status::Bad,
        false => Status::Done,
    }
}
