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

/// The results of an experiment, with all that is needed to repeat it. They do not depend on the number of
/// threads and, without processor time, not on the machine.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ExperimentResults {
    /// Version of this layout, raised if a field changes its meaning.
    pub schema: u32,
    /// Version of Nandex.
    pub nandex_version: Cow<'static, str>,
    /// The commit that the program was built from, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The command that gives the same results again.
    pub command: String,
    /// Whether the small size ran, which only shows that everything works.
    pub smoke: bool,
    /// Seeds of the generated workloads.
    pub seeds: Vec<u64>,
    /// The definition in full.
    pub definition: Definition,
    /// The cells: one for each combination of input, variant and contender, then the computed ones.
    pub cells: Vec<CellResult>,
    /// Contenders compared with the baseline, seed by seed. Empty with one seed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<Pair>,
    /// Claims and notes of a user's own experiment.
    #[serde(skip)]
    pub(crate) own: Option<Own>,
}

/// Files in the folder of a user's own experiment.
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

/// The results of one cell: one configuration.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct CellResult {
    /// `input/variant/contender`, `traces/input/contender`, or the name of a computed cell.
    pub name: String,
    /// Name of the input or page trace. Empty for a computed cell.
    pub input: String,
    /// Name of the variant. Empty for a page trace or a computed cell.
    pub variant: String,
    /// Name of the contender or device. Empty for a computed cell.
    pub contender: String,
    /// Name of the index, or of the FTL under a page trace. Empty for a computed cell.
    pub index: String,
    /// The chip. Absent for a computed cell.
    pub chip: Option<ChipFacts>,
    /// The workload. Absent for a computed cell and if the input is missing.
    pub workload: Option<WorkloadFacts>,
    /// Largest number of log blocks of the FTL. Absent if it has none or there is no FTL.
    pub log_blocks: Option<u64>,
    /// The stand-in for a missing input: a part of it. Such a cell is not judged.
    pub stand_in: Option<String>,
    /// The substitute for a missing input: other data of the same kind and number. Such a cell can be
    /// judged.
    pub substitute: Option<String>,
    /// The reason why the cell did not run at all.
    pub missing: Option<String>,
    /// The runs, one for each seed.
    pub runs: Vec<Run>,
    /// Figures over the seeds, with units in their names.
    pub figures: BTreeMap<String, Summary>,
}

impl ExperimentResults {
    /// Claims that judge the experiment: the user's own, or the built-in ones.
    pub fn claims(&self) -> &[Claim] {
        let built_in = || find(&self.definition.name).map_or(&[][..], |found| &found.claims);
        self.own.as_ref().map_or_else(built_in, |own| &own.claims)
    }

    /// The notes of the experiment, in Markdown: its own, or the built-in ones.
    pub fn notes(&self) -> &str {
        let built_in = || find(&self.definition.name).map_or("", |found| &found.notes);
        self.own.as_ref().map_or_else(built_in, |own| &own.notes)
    }

    /// Figures that plots or comparisons name and no cell has, each with the nearest existing one.
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

    /// The runs that stopped early, with their cells and the reasons.
    pub fn failures(&self) -> impl Iterator<Item = (&CellResult, &str)> {
        self.cells.iter().flat_map(|cell| cell.failures().map(move |why| (cell, why)))
    }
}

impl CellResult {
    /// The reasons why runs stopped early.
    pub fn failures(&self) -> impl Iterator<Item = &str> {
        self.runs.iter().filter_map(|run| run.error.as_deref())
    }
}
