//! Experiments: the figures and tables of the papers, each from one command.
//!
//! An experiment is data (`definition`): one folder under `experiments/`, built into the program, so that it
//! needs no files. Its cells (input x variant x contender) are runs of the [`crate::runner`] on chips of
//! their own, in parallel over the cores; besides there are computed cells (`derived`): the papers' equations
//! and the power-cut tests; and page traces on FTLs (`replays`). The results are the same for every number of
//! threads. [`crate::repro`] holds them against what the paper claims.

mod access;
mod bench;
mod check;
pub(crate) mod claim;
mod contender;
mod cuts;
pub mod definition;
mod derived;
mod figures;
mod file;
mod input;
mod locate;
mod pairs;
mod plot;
mod plow;
mod replays;
mod results;
pub(crate) mod set;
#[cfg(test)]
mod tests;
pub(crate) mod text;
mod vm;
mod write;

pub use bench::Bench;
pub use contender::{Contender, Memory};
pub use definition::{
    Access, Conduct, Definition, Device, Durable, Experiment, Follows, Input, PageTrace, PatternPrices,
    Replays, Smoke, Source, Sum, TraceInput, Variant, list,
};
pub use file::load;
pub use pairs::{Pair, Verdict};
pub use plot::{Plot, PlotKind, Point, Series, Stated};
pub use results::{CellResult, EXPERIMENT_SCHEMA, ExperimentResults};
pub use write::{write_folder, write_json, write_pairs_csv, write_raw_csv, write_summary_csv};

use crate::parallel::cores;
use crate::runner::Control;
use crate::{LabError, chip};
use nandex::nand::Part;
use std::path::PathBuf;

/// How experiments are run.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// Whether to run the small size, which only shows that everything works.
    pub smoke: bool,
    /// Number of seeds of generated workloads. Absent means the number in the experiment.
    pub seeds: Option<u32>,
    /// Number of runs at the same time.
    pub threads: usize,
    /// Folder of the full traces. Absent means the places where [`crate::data`] looks.
    pub data: Option<PathBuf>,
    /// The commit of the program, for the results.
    pub commit: Option<String>,
}

impl Default for RunPlan {
    fn default() -> RunPlan {
        RunPlan { smoke: false, seeds: None, threads: cores(), data: None, commit: None }
    }
}

impl RunPlan {
    /// Command line that runs an experiment under this plan.
    pub fn command(&self, experiment: &Definition) -> String {
        let experiment = experiment.source.called.as_ref().unwrap_or(&experiment.name);
        let smoke = if self.smoke { " --smoke" } else { "" };
        let seeds = self.seeds.map_or_else(String::new, |seeds| format!(" --seeds {seeds}"));
        format!("nandex run {experiment}{smoke}{seeds}")
    }
}

/// Finds a built-in experiment. The error for an unknown name suggests the nearest one.
pub fn find(name: &str) -> Result<&'static Experiment, LabError> {
    list().iter().find(|experiment| experiment.definition.name == name).ok_or_else(|| {
        LabError::unknown("experiment", name, list().iter().map(|e| e.definition.name.as_str()))
    })
}

/// The chip of an experiment: a chip file in its folder, or else as [`chip::find`] finds it.
fn find_chip(definition: &Definition) -> Result<Part, LabError> {
    match definition.source.beside(&definition.chip) {
        Some(path) => chip::load(&path),
        None => chip::find(&definition.chip),
    }
}

/// Runs the built-in experiment of this name.
pub fn run(name: &str, plan: &RunPlan, control: &Control) -> Result<ExperimentResults, LabError> {
    Bench::new(plan, control).run(find(name)?)
}
