//! Carries experiments out: cells over inputs and seeds, in parallel, each distinct run once.
//!
//! Inputs are taken one after the other, so that only one trace is in memory; the cells of an input go in
//! parallel over the cores. Two experiments often share cells (Figures 8 and 9 of the mu-Tree paper do): a
//! bench keeps the runs it did, by everything that influences them, and answers from there.

use super::contender::{Contender, Memory};
use super::definition::{Conduct, Definition, Experiment, Input, Variant};
use super::input::{self, Found, Origin, Places};
use super::results::{CellResult, EXPERIMENT_SCHEMA, ExperimentResults, Own};
use super::{RunPlan, access, derived, figures, find_chip, pairs, replays};
use crate::LabError;
use crate::parallel::run_all;
use crate::registry::IndexEntry;
use crate::results::{ChipFacts, Run, WorkloadFacts};
use crate::runner::{Control, Job, Prepared, RunOptions};
use crate::workload::Workload;
use nandex::nand::Part;
use nandex::ordered::RecordFormat;
use nandex_stacks::options::{Options, Settings};
use std::collections::{BTreeMap, BTreeSet};

/// Runs experiments under one plan, and never the same run twice.
pub struct Bench<'a> {
    plan: &'a RunPlan,
    control: &'a Control,
    done: BTreeMap<String, Done>,
}

struct Cell<'a> {
    name: String,
    input: &'a Input,
    variant: &'a Variant,
    contender: String,
    index: &'static IndexEntry,
    part: Part,
    settings: Settings,
    memory: Option<Memory>,
    conduct: Conduct,
}

struct Done {
    run: Run,
    workload: WorkloadFacts,
    origin: Origin,
}

impl<'a> Bench<'a> {
    /// A bench without any runs yet.
    pub fn new(plan: &'a RunPlan, control: &'a Control) -> Bench<'a> {
        Bench { plan, control, done: BTreeMap::new() }
    }

    /// Runs an experiment. If a run stops early, its row says why; an error means that the request is
    /// wrong.
    pub fn run(&mut self, experiment: &Experiment) -> Result<ExperimentResults, LabError> {
        let definition = &experiment.definition;
        let seeds: Vec<u64> = (1..=u64::from(self.seeds(definition))).collect();
        let mut results: Vec<CellResult> = Vec::new();
        for input in &definition.inputs {
            let cells = self.cells(definition, input)?;
            results.extend(self.run_input(definition, &cells, &seeds)?);
        }
        if let Some(study) = &definition.access {
            results.extend(access::cells(definition, study, self.plan, self.control, &seeds)?);
        }
        for name in &definition.derived {
            results.push(derived::cell(name, self.plan, self.control, &seeds)?);
        }
        results.extend(replays::cells(definition, self.plan, self.control)?);
        Ok(ExperimentResults {
            schema: EXPERIMENT_SCHEMA,
            nandex_version: env!("CARGO_PKG_VERSION").into(),
            commit: self.plan.commit.clone(),
            command: self.plan.command(definition),
            pairs: pairs::of(definition, &results),
            own: definition.source.folder.is_some().then(|| Own::of(experiment)),
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
            if let Some(name) =
                variant.inputs.iter().find(|&name| !inputs(definition).any(|known| known == name))
            {
                return Err(LabError::unknown("input", name, inputs(definition)));
            }
            if !variant.inputs.is_empty() && !variant.inputs.contains(&input.name) {
                continue;
            }
            for contender in variant.cast(definition)? {
                cells.push(self.cell(definition, input, variant, contender)?);
            }
        }
        Ok(cells)
    }

    fn cell<'d>(
        &self,
        definition: &'d Definition,
        input: &'d Input,
        variant: &'d Variant,
        (contender, options): (Contender, Options),
    ) -> Result<Cell<'d>, LabError> {
        let mut part = find_chip(definition)?;
        let smaller = definition.smoke.blocks.filter(|_| self.plan.smoke);
        let own = variant.blocks_of.get(&contender.name).copied();
        if let Some(blocks) = own.or(variant.blocks).or(smaller) {
            part = part.with_blocks(blocks);
        }
        let key_bytes = variant.key_bytes.unwrap_or(definition.key_bytes);
        let mut settings = Settings::new(RecordFormat::new(key_bytes, definition.value_bytes));
        settings.durability = contender.durable.unwrap_or(variant.durable).class();
        settings.options = options;
        Ok(Cell {
            name: format!("{}/{}/{}", input.name, variant.name, contender.name),
            input,
            variant,
            index: contender.entry()?,
            contender: contender.name,
            part,
            settings,
            memory: variant.memory,
            conduct: definition.run,
        })
    }

    /// Runs the cells of one input with every seed.
    fn run_input(
        &mut self,
        definition: &Definition,
        cells: &[Cell<'_>],
        seeds: &[u64],
    ) -> Result<Vec<CellResult>, LabError> {
        let Some(first) = cells.first() else { return Ok(Vec::new()) };
        let seeds = input::seeds(first.input, seeds);
        for &seed in &seeds {
            let mut keys = BTreeSet::new();
            let mut fresh = |cell: &&Cell<'_>| {
                let key = cell.key(seed);
                !self.done.contains_key(&key) && keys.insert(key)
            };
            let cells: Vec<&Cell<'_>> = cells.iter().filter(&mut fresh).collect();
            if cells.is_empty() {
                continue;
            }
            let smoke = self.plan.smoke.then_some(&definition.smoke);
            let places = Places::of(definition, self.plan.data.as_deref());
            match input::find(first.input, seed, smoke, &places)? {
                Found::Workload { workload, origin } => self.run_cells(&cells, seed, &workload, &origin)?,
                Found::Missing(reason) => {
                    let missing = |cell| CellResult { missing: Some(reason.clone()), ..result_of(cell) };
                    return Ok(cells.into_iter().map(missing).collect());
                }
            }
        }
        Ok(cells.iter().map(|cell| self.result(definition, cell, &seeds)).collect())
    }

    fn run_cells(
        &mut self,
        cells: &[&Cell<'_>],
        seed: u64,
        workload: &Workload,
        origin: &Origin,
    ) -> Result<(), LabError> {
        let mut prepared: BTreeMap<u8, Prepared<'_>> = BTreeMap::new();
        for cell in cells {
            if let std::collections::btree_map::Entry::Vacant(free) = prepared.entry(cell.key_bytes()) {
                free.insert(Prepared::with_trees(workload, cell.key_bytes(), cell.input.trees)?);
            }
        }
        let job = |cell: &&Cell<'_>| cell.job_parts(&prepared[&cell.key_bytes()]);
        let parts = cells.iter().map(job).collect::<Result<Vec<_>, LabError>>()?;
        let jobs = cells.iter().zip(parts).map(|(cell, (settings, options))| Job {
            index: cell.index,
            part: &cell.part,
            prepared: &prepared[&cell.key_bytes()],
            settings,
            options,
        });
        let jobs: Vec<Job<'_>> = jobs.collect();
        self.control.plan(workload.operations() * jobs.len() as u64);
        let runs = run_all(&jobs, self.plan.threads, self.control, |_, _| ());
        for ((cell, job), run) in cells.iter().zip(&jobs).zip(runs) {
            let workload = WorkloadFacts::of(workload, &job.settings);
            self.done.insert(cell.key(seed), Done { run, workload, origin: origin.clone() });
        }
        Ok(())
    }

    fn result(&self, definition: &Definition, cell: &Cell<'_>, seeds: &[u64]) -> CellResult {
        let done: Vec<&Done> = seeds.iter().filter_map(|&seed| self.done.get(&cell.key(seed))).collect();
        let chip = ChipFacts::of(&cell.part);
        let each: Vec<_> = done.iter().map(|done| figures::of_run(&done.run, &chip, definition)).collect();
        CellResult {
            workload: done.first().map(|done| done.workload.clone()),
            log_blocks: done.iter().find_map(|done| done.run.metrics.get("log_blocks").copied()),
            stand_in: done.first().and_then(|done| done.origin.stand_in.clone()),
            substitute: done.first().and_then(|done| done.origin.substitute.clone()),
            runs: done.iter().map(|done| done.run.clone()).collect(),
            figures: figures::over_seeds(&each, definition.trimmed),
            ..result_of(cell)
        }
    }
}

fn inputs(definition: &Definition) -> impl Iterator<Item = &str> {
    definition.inputs.iter().map(|input| input.name.as_str())
}

/// The result of a cell before its runs.
fn result_of(cell: &Cell<'_>) -> CellResult {
    CellResult {
        name: cell.name.clone(),
        input: cell.input.name.clone(),
        variant: cell.variant.name.clone(),
        contender: cell.contender.clone(),
        index: cell.index.name.to_string(),
        chip: Some(ChipFacts::of(&cell.part)),
        ..CellResult::default()
    }
}

impl Cell<'_> {
    fn key_bytes(&self) -> u8 {
        self.settings.record.key_bytes
    }

    /// The settings and run options of a cell. The RAM depends on the number of keys, so they need the
    /// workload.
    fn job_parts(&self, prepared: &Prepared<'_>) -> Result<(Settings, RunOptions), LabError> {
        let mut settings = self.settings.clone();
        if let Some(memory) = self.memory {
            settings.ram_bytes = Some(memory.ram_bytes(self.index, &self.part, &settings, prepared)?);
        }
        let Conduct { cpu_time, sync_after_load, sync_at_end, .. } = self.conduct;
        let patterns = self.conduct.pattern_prices.is_some();
        let options =
            RunOptions { cpu_time, patterns, sync_after_load, sync_at_end, ..RunOptions::default() };
        Ok((settings, options))
    }

    /// All that influences a run, as text. Equal texts mean equal runs.
    fn key(&self, seed: u64) -> String {
        let Input { workload, options, trace, trees, .. } = self.input;
        let source = format!("{workload:?} {options:?} {trace:?} {trees:?} {seed}");
        let Conduct { cpu_time, sync_after_load, sync_at_end, .. } = self.conduct;
        let patterns = self.conduct.pattern_prices.is_some();
        let conduct = format!("{cpu_time} {patterns} {sync_after_load} {sync_at_end} {:?}", self.memory);
        let geometry = self.part.geometry;
        format!("{} {source} {} {geometry:?} {:?} {conduct}", self.index.name, self.part.name, self.settings)
    }
}
