//! `nandex run`: an experiment of one's own, or of a paper.

use crate::Status;
use crate::args::{Format, Plan, Run};
use crate::output::{self, Target};
use crate::parquet;
use crate::progress::{Progress, stop_on_interrupt};
use anyhow::{Context, Result};
use nandex_lab::experiment::{self, Bench, ExperimentResults, RunPlan};
use nandex_lab::parallel;
use nandex_lab::runner::Control;
use nandex_report::{experiment as report, html};
use std::io::Write;
use std::sync::Arc;

pub(crate) fn run(args: &Run) -> Result<Status> {
    args.files.prepare()?;
    if args.format == Format::Parquet {
        parquet::prepare("--format")?;
    }
    let experiment = experiment::load(&args.experiment, &args.set)?;
    args.report.as_deref().map_or(Ok(()), output::prepare)?;
    let control = Arc::new(Control::default());
    stop_on_interrupt(&control)?;
    let progress = Progress::new(Arc::clone(&control));
    let plan = plan(&args.plan);
    let measured = progress.follow(|| Bench::new(&plan, &control).run(&experiment));
    let results = measured.with_context(|| args.experiment.clone())?;
    results.unknown_figures().iter().for_each(|what| output::tell(&format!("! {what}")));
    if let Some(folder) = &args.out {
        experiment::write_folder(&results, folder)?;
    }
    output::write_report(args.report.as_deref(), || html::render_experiment(&results))?;
    let json = |out: &mut dyn Write| experiment::write_json(&results, out);
    let csv = |out: &mut dyn Write| experiment::write_summary_csv(&results, out);
    match args.format {
        Format::Table => {
            let table = |width| report::render(&results, width) + &nandex_report::pairs::render(&results);
            args.files.write(json, csv, table)?;
        }
        format => {
            args.files.write(json, csv, |_| String::new())?;
            Target::Stdout.write(|out| match format {
                Format::Json => json(out),
                Format::Parquet => parquet::write(csv, out),
                Format::Csv | Format::Table => csv(out),
            })?;
        }
    }
    Ok(status(&results))
}

/// The plan from the flags.
pub(super) fn plan(args: &Plan) -> RunPlan {
    RunPlan {
        smoke: args.smoke,
        seeds: args.seeds,
        threads: args.threads.map_or_else(parallel::cores, usize::from),
        data: args.data.clone(),
        commit: output::commit(),
    }
}

fn status(results: &ExperimentResults) -> Status {
    if results.failures().next().is_some() { Status::Bad } else { Status::Done }
}
