//! Carries experiments out: cells over inputs and seeds, in parallel, each distinct run once.
//!
//! Inputs are taken one after the other, so that only one trace is in memory; the cells of an input go in parallel over the
//! cores. Two experiments often share cells (Figures 8 and 9 of the mu-Tree paper do): a bench keeps the runs it did, by
//! everything that influences them, and answers from there.

use super::definition::{Definition, Experiment, Input, Variant};
use super::input::{self, Found};
use super::results::{CellResult, EXPERIMENT_SCHEMA, ExperimentResults};
use super::{RunPlan, derived, figures};
use crate::LabError;
use crate::chip;
use crate::parallel::run_all;
use crate::registry::{self, IndexEntry};
use crate::results::{ChipFacts, Run, WorkloadFacts};
use crate::runner::{Control, Job, Prepared, RunOptions};
use crate::workload::Workload;
use nandex::nand::Part;
use nandex::ordered::{RecordFormat, Settings};
use std::collections::BTreeMap;

/// Runs experiments of one plan.
pub struct Bench<'a> {
    plan: &'a RunPlan,
    control: &'a Control,
    done: BTreeMap<String, Done>,
}

/// One configuration of an experiment.
struct Cell<'a> {
    name: String,
    input: &'a Input,
    variant: &'a Variant,
    index: &'static IndexEntry,
    part: Part,
    settings: Settings,
}

/// A run that was done.
struct Done {
    run: Run,
    workload: WorkloadFacts,
    stand_in: Option<String>,
}

impl<'a> Bench<'a> {
    /// A bench that has run nothing yet.
    pub fn new(plan: &'a RunPlan, control: &'a Control) -> Bench<'a> {
        Bench { plan, control, done: BTreeMap::new() }
    }

    /// Runs an experiment. What stops a run is told in its row; an error here is something wrong with the request.
    pub fn run(&mut self, experiment: &Experiment) -> Result<ExperimentResults, LabError> {
        let definition = &experiment.definition;
        let seeds: Vec<u64> = (1..=u64::from(self.seeds(definition))).collect();
        let mut results: Vec<CellResult> = Vec::new();
        for input in &definition.inputs {
            let cells = self.cells(definition, input)?;
            results.extend(self.run_input(definition, &cells, &seeds)?);
        }
        for name in &definition.derived {
            results.push(derived::cell(name, self.plan, self.control)?);
        }
        Ok(ExperimentResults {
            schema: EXPERIMENT_SCHEMA,
            nandex_version: env!("CARGO_PKG_VERSION"),
            command: self.plan.command(&definition.name),
            smoke: self.plan.smoke,
            seeds,
            definition: definition.clone(),
            cells: results,
        })
    }

    fn seeds(&self, definition: &Definition) -> u32 {
        let usual = if self.plan.smoke { 1 } else { definition.seeds };
        self.plan.seeds.unwrap_or(usual).max(1)
    }

    fn cells<'d>(&self, definition: &'d Definition, input: &'d Input) -> Result<Vec<Cell<'d>>, LabError> {
        let mut cells = Vec::new();
        for variant in &definition.variants {
            for index in &definition.indexes {
                cells.push(self.cell(definition, input, variant, index)?);
            }
        }
        Ok(cells)
    }

    fn cell<'d>(
        &self,
        definition: &'d Definition,
        input: &'d Input,
        variant: &'d Variant,
        index: &str,
    ) -> Result<Cell<'d>, LabError> {
        let mut part = chip::find(&definition.chip)?;
        let smaller = definition.smoke.blocks.filter(|_| self.plan.smoke);
        if let Some(blocks) = variant.blocks.or(smaller) {
            part = part.with_blocks(blocks);
        }
        let key_bytes = variant.key_bytes.unwrap_or(definition.key_bytes);
        let mut settings = Settings::new(RecordFormat::new(key_bytes, definition.value_bytes));
        settings.durability = variant.durable.class();
        variant.options.iter().for_each(|(name, value)| settings.options.set(name, value));
        let name = format!("{}/{}/{index}", input.name, variant.name);
        Ok(Cell { name, input, variant, index: registry::index(index)?, part, settings })
    }

    /// The cells of one input, every seed.
    fn run_input(
        &mut self,
        definition: &Definition,
        cells: &[Cell<'_>],
        seeds: &[u64],
    ) -> Result<Vec<CellResult>, LabError> {
        let Some(first) = cells.first() else { return Ok(Vec::new()) };
        let seeds = input::seeds(first.input, seeds);
        for &seed in &seeds {
            let fresh = |cell: &&Cell<'_>| !self.done.contains_key(&cell.key(seed));
            let cells: Vec<&Cell<'_>> = cells.iter().filter(fresh).collect();
            if cells.is_empty() {
                continue;
            }
            let smoke = self.plan.smoke.then_some(&definition.smoke);
            match input::find(first.input, seed, smoke, self.plan.data.as_deref())? {
                Found::Workload { workload, stand_in } => {
                    self.run_cells(&cells, seed, &workload, stand_in.as_deref())?;
                }
                Found::Missing(reason) => {
                    let missing = |cell| CellResult { missing: Some(reason.clone()), ..result_of(cell) };
                    return Ok(cells.into_iter().map(missing).collect());
                }
            }
        }
        Ok(cells.iter().map(|cell| self.result(cell, &seeds)).collect())
    }

    fn run_cells(
        &mut self,
        cells: &[&Cell<'_>],
        seed: u64,
        workload: &Workload,
        stand_in: Option<&str>,
    ) -> Result<(), LabError> {
        let mut prepared: BTreeMap<u8, Prepared<'_>> = BTreeMap::new();
        for width in cells.iter().map(|cell| cell.settings.record.key_bytes) {
            if let std::collections::btree_map::Entry::Vacant(free) = prepared.entry(width) {
                free.insert(Prepared::new(workload, width)?);
            }
        }
        let options = RunOptions { cpu_time: false, ..RunOptions::default() };
        let jobs = cells.iter().map(|cell| Job {
            index: cell.index,
            part: &cell.part,
            prepared: &prepared[&cell.settings.record.key_bytes],
            settings: cell.settings.clone(),
            options,
        });
        let jobs: Vec<Job<'_>> = jobs.collect();
        self.control.plan(workload.operations() * jobs.len() as u64);
        let runs = run_all(&jobs, self.plan.threads, self.control, |_, _| ());
        for (cell, run) in cells.iter().zip(runs) {
            let workload = WorkloadFacts::of(workload, &cell.settings);
            self.done.insert(cell.key(seed), Done { run, workload, stand_in: stand_in.map(String::from) });
        }
        Ok(())
    }

    fn result(&self, cell: &Cell<'_>, seeds: &[u64]) -> CellResult {
        let done: Vec<&Done> = seeds.iter().filter_map(|&seed| self.done.get(&cell.key(seed))).collect();
        let each: Vec<_> =
            done.iter().map(|done| figures::of_run(&done.run, &ChipFacts::of(&cell.part))).collect();
        CellResult {
            workload: done.first().map(|done| done.workload.clone()),
            stand_in: done.first().and_then(|done| done.stand_in.clone()),
            runs: done.iter().map(|done| done.run.clone()).collect(),
            figures: figures::over_seeds(&each),
            ..result_of(cell)
        }
    }
}

/// The cell without what is measured.
fn result_of(cell: &Cell<'_>) -> CellResult {
    CellResult {
        name: cell.name.clone(),
        input: cell.input.name.clone(),
        variant: cell.variant.name.clone(),
        index: cell.index.name.to_string(),
        chip: Some(ChipFacts::of(&cell.part)),
        ..CellResult::default()
    }
}

impl Cell<'_> {
    /// Everything that influences a run, as text.
    fn key(&self, seed: u64) -> String {
        let Input { workload, options, trace, .. } = self.input;
        let source = format!("{workload:?} {options:?} {trace:?} {seed}");
        let geometry = self.part.geometry;
        format!("{} {source} {} {geometry:?} {:?}", self.index.name, self.part.name, self.settings)
    }
}
