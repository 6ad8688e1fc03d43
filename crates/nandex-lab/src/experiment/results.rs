//! The results of an experiment: cells with their runs, and figures over the seeds.

use super::claim::Claim;
use super::definition::{Definition, Experiment};
use super::find;
use super::pairs::Pair;
use crate::names::nearest;
use crate::results::{ChipFacts, Run, WorkloadFacts};
use crate::stats::Summary;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Version of the layout of [`ExperimentResults`].
pub const EXPERIMENT_SCHEMA: u32 = 1;

/// Everything an experiment measured, with what is needed to repeat it. The same for every number of threads,
/// and without processor time the same on every machine.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ExperimentResults {
    /// Version of this layout; it rises when a field changes its meaning.
    pub schema: u32,
    /// Version of Nandex.
    pub nandex_version: Cow<'static, str>,
    /// The commit that the program was built from; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The command that yields the same results again.
    pub command: String,
    /// Whether this is the small size that only shows that everything works.
    pub smoke: bool,
    /// Seeds of the generated workloads.
    pub seeds: Vec<u64>,
    /// The definition in full.
    pub definition: Definition,
    /// The cells: one for each combination of input, variant and contender, then the computed ones.
    pub cells: Vec<CellResult>,
    /// Contenders against the baseline, seed by seed; none with one seed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<Pair>,
    /// The claims and notes of an experiment of one's own.
    #[serde(skip)]
    pub(crate) own: Option<Own>,
}

/// Files beside that of an experiment of one's own.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    claims: Vec<Claim>,
    notes: String,
}

impl Own {
    pub(super) fn of(experiment: &Experiment) -> Own {
        Own { claims: experiment.claims.clone(), notes: experiment.notes.to_string() }
    }
}

/// One configuration.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct CellResult {
    /// `input/variant/contender`, `traces/input/contender`, or the name of a computed cell.
    pub name: String,
    /// Name of the input or of the page trace; empty for a computed cell.
    pub input: String,
    /// Name of the variant; empty for a page trace and a computed cell.
    pub variant: String,
    /// Name of the contender or of the device; empty for a computed cell.
    pub contender: String,
    /// Name of its index, or of its FTL under a page trace; empty for a computed cell.
    pub index: String,
    /// The chip; absent for a computed cell.
    pub chip: Option<ChipFacts>,
    /// The workload; absent for a computed cell and where the input is missing.
    pub workload: Option<WorkloadFacts>,
    /// Log blocks that its FTL may have at most; absent where it has no such, or none is below the tree.
    pub log_blocks: Option<u64>,
    /// The stand-in for the input named, when it is not there: a part of it, which is not judged.
    pub stand_in: Option<String>,
    /// The substitute for the input named, which can be judged like it: others of the same kind and number.
    pub substitute: Option<String>,
    /// Why the cell did not run at all.
    pub missing: Option<String>,
    /// One run for each seed.
    pub runs: Vec<Run>,
    /// Figures over the seeds, units in their names.
    pub figures: BTreeMap<String, Summary>,
}

impl ExperimentResults {
    /// The claims that the experiment is judged by: its own, or those that come with the program.
    pub fn claims(&self) -> &[Claim] {
        let built_in = || find(&self.definition.name).map_or(&[][..], |found| &found.claims);
        self.own.as_ref().map_or_else(built_in, |own| &own.claims)
    }

    /// The notes of the experiment, in Markdown: its own, or those that come with the program.
    pub fn notes(&self) -> &str {
        let built_in = || find(&self.definition.name).map_or("", |found| &found.notes);
        self.own.as_ref().map_or_else(built_in, |own| &own.notes)
    }

    /// Figures that plots or comparisons ask for and no cell has, each with the nearest that there is.
    pub fn unknown_figures(&self) -> Vec<String> {
        let plots = self.definition.plots.iter().filter(|plot| plot.series_of(&self.cells).is_empty());
        let of_plots = plots.map(|plot| (format!("plot '{}'", plot.title), &plot.figure));
        let has = |figure: &str| self.cells.iter().any(|cell| cell.figures.contains_key(figure));
        let compared = self.definition.compared.iter().filter(|figure| !has(figure));
        let all = of_plots.chain(compared.map(|figure| (String::from("compared"), figure)));
        let known = || self.cells.iter().flat_map(|cell| cell.figures.keys().map(String::as_str));
        all.map(|(what, figure)| match nearest(figure, known()) {
            Some(near) => format!("{what}: no cell has the figure '{figure}'; did you mean '{near}'?"),
            None => format!("{what}: no cell has the figure '{figure}'"),
        })
        .collect()
    }

    /// The cell of this name.
    pub fn cell(&self, name: &str) -> Option<&CellResult> {
        self.cells.iter().find(|cell| cell.name == name)
    }

    /// Every run that stopped early, with why.
    pub fn failures(&self) -> impl Iterator<Item = (&CellResult, &str)> {
        self.cells.iter().flat_map(|cell| cell.failures().map(move |why| (cell, why)))
    }
}

impl CellResult {
    /// Why runs stopped early.
    pub fn failures(&self) -> impl Iterator<Item = &str> {
        self.runs.iter().filter_map(|run| run.error.as_deref())
    }
}
