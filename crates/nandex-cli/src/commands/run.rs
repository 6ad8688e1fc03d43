//! `nandex run`: an experiment of a paper.

use crate::Status;
use crate::args::{Plan, Run};
use crate::output;
use crate::progress::{Progress, stop_on_interrupt};
use anyhow::Result;
use nandex_lab::experiment::{self, ExperimentResults, RunPlan};
use nandex_lab::parallel;
use nandex_lab::report::{experiment as report, html};
use nandex_lab::runner::Control;
use std::sync::Arc;

pub(crate) fn run(args: &Run) -> Result<Status> {
    args.files.prepare()?;
    args.report.as_deref().map_or(Ok(()), output::prepare)?;
    let control = Arc::new(Control::default());
    stop_on_interrupt(&control)?;
    let progress = Progress::new(Arc::clone(&control));
    let name = &args.experiment.definition.name;
    let results = progress.follow(|| experiment::run(name, &plan(&args.plan), &control))?;
    if let Some(folder) = &args.out {
        experiment::write_folder(&results, folder)?;
    }
    output::write_report(args.report.as_deref(), || html::render_experiment(&results))?;
    args.files.write(
        |out| experiment::write_json(&results, out),
        |out| experiment::write_summary_csv(&results, out),
        |width| report::render(&results, width),
    )?;
    Ok(status(&results))
}

/// The plan that the flags describe.
pub(super) fn plan(args: &Plan) -> RunPlan {
    RunPlan {
        smoke: args.smoke,
        seeds: args.seeds,
        threads: args.threads.map_or_else(parallel::cores, usize::from),
        data: args.data.clone(),
    }
}

fn status(results: &ExperimentResults) -> Status {
    if results.failures().next().is_some() { Status::Bad } else { Status::Done }
}
