//! The study of access times: the B+-tree and spatial trees under one profile of operations, on flash and on a hard disk.
//!
//! Each cell is `profile/medium/tree`. All trees do the same operations on the same entries, small rectangles anywhere in a square; to
//! the B+-tree an entry is a record with a key drawn from the entry's number.

use super::definition::{Access, Definition};
use super::figures;
use super::results::CellResult;
use super::{Conduct, RunPlan, Sum};
use crate::LabError;
use crate::chip;
use crate::parallel;
use crate::registry;
use crate::replay;
use crate::results::{ChipFacts, Run};
use crate::runner::{Control, RunOptions};
use crate::spatial;
use crate::spatial::compare::facts;
use crate::spatial::data::uniform;
use crate::spatial::runner::{self, Contestant, Medium, SpatialJob};
use crate::spatial::workload::{Profile, SpatialWorkload};
use nandex::nand::Part;
use nandex::ordered::{Durability, Settings};
use std::collections::BTreeMap;

/// The square that the entries lie in.
const SIDE: f64 = 1_000_000.0;

/// The medium that is the chip; every other one is a disk.
const FLASH: &str = "flash";

/// Every cell of the study.
pub(super) fn cells(
    definition: &Definition,
    access: &Access,
    (plan, control): (&RunPlan, &Control),
    seeds: &[u64],
) -> Result<Vec<CellResult>, LabError> {
    let part = chip::find(&definition.chip)?;
    let operations = if plan.smoke { access.smoke_operations } else { access.operations };
    let mut cells = Vec::new();
    for letter in &access.profiles {
        let profile = Profile::of_letter(letter)?;
        let build =
            |&seed: &u64| profile.workload(uniform::<i32, 2>(operations, SIDE, seed), operations, seed);
        let workloads: Vec<SpatialWorkload<i32, 2>> = seeds.iter().map(build).collect();
        let mut jobs = Vec::new();
        for medium in &access.media {
            for tree in &access.trees {
                for workload in &workloads {
                    jobs.push(job((&definition.run, &part), (medium, tree), workload)?);
                }
            }
        }
        control.plan(jobs.iter().map(|job| job.workload.operations()).sum());
        let runs = parallel::map(&jobs, plan.threads, |job| runner::run(job, control).run);
        let mut runs = jobs.iter().zip(runs);
        for medium in &access.media {
            for tree in &access.trees {
                let done: Vec<_> = runs.by_ref().take(seeds.len()).collect();
                cells.push(cell(definition, [letter, medium, tree], done));
            }
        }
    }
    Ok(cells)
}

/// The run of a tree on a medium.
fn job<'a>(
    (conduct, part): (&Conduct, &'a Part),
    (medium, tree): (&str, &str),
    workload: &'a SpatialWorkload<i32, 2>,
) -> Result<SpatialJob<'a, i32, 2>, LabError> {
    let contestant = match tree {
        "bplus" => Contestant::BPlus(registry::index(tree)?),
        _ => Contestant::Spatial(spatial::spatial(tree)?),
    };
    let medium = match medium {
        FLASH => Medium::Chip(part),
        disk => Medium::Disk(replay::disk(disk)?, part),
    };
    let mut settings = Settings::new(runner::record_format::<i32, 2>());
    // The paper's trees promise nothing after a power cut, and a disk writes one page at a time.
    settings.durability = Durability::None;
    let options = RunOptions { cpu_time: conduct.cpu_time, ..RunOptions::default() };
    Ok(SpatialJob { contestant, medium, workload, settings, options, wants_map: false })
}

fn cell(
    definition: &Definition,
    [profile, medium, tree]: [&String; 3],
    done: Vec<(&SpatialJob<'_, i32, 2>, Run)>,
) -> CellResult {
    let chip = done.first().map(|(job, _)| match job.medium {
        Medium::Chip(part) => ChipFacts::of(part),
        Medium::Disk(disk, part) => ChipFacts { name: disk.name.to_string(), ..ChipFacts::of(part) },
    });
    let each: Vec<BTreeMap<String, f64>> =
        done.iter().map(|(job, run)| of_run(run, chip.as_ref(), definition, job.workload)).collect();
    CellResult {
        name: format!("{profile}/{medium}/{tree}"),
        input: profile.clone(),
        variant: medium.clone(),
        contender: tree.clone(),
        index: tree.clone(),
        workload: done.first().map(|(job, _)| facts(job.workload, &job.settings)),
        chip,
        figures: figures::over_seeds(&each, definition.trimmed),
        runs: done.into_iter().map(|(_, run)| run).collect(),
        ..CellResult::default()
    }
}

/// The usual figures, those of all phases together as `all`, and how steep the accumulated time is from phase to phase.
fn of_run(
    run: &Run,
    chip: Option<&ChipFacts>,
    definition: &Definition,
    workload: &SpatialWorkload<i32, 2>,
) -> BTreeMap<String, f64> {
    let Some(chip) = chip else { return BTreeMap::new() };
    let names = workload.phases.iter().map(|phase| phase.name.clone()).collect();
    let all = Sum { name: String::from("all"), phases: names };
    let with_all = Definition { sums: vec![all], ..definition.clone() };
    let mut figures = figures::of_run(run, chip, &with_all);
    let slope = |phase: &str| figures.get(&format!("{phase}.flash_time_ms_per_op")).copied();
    let flatter = slope("insert").zip(slope("mix")).map(|(insert, mix)| 100.0 * (1.0 - mix / insert));
    let steeper =
        slope("insert").zip(slope("remove")).map(|(insert, remove)| 100.0 * (remove / insert - 1.0));
    figures.extend(flatter.map(|percent| (String::from("mix_flatter_than_insert_percent"), percent)));
    figures.extend(steeper.map(|percent| (String::from("remove_steeper_than_insert_percent"), percent)));
    figures
}
