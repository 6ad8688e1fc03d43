//! The study of access times: the B+-tree and spatial trees under one profile of operations, on flash and on
//! a hard disk.
//!
//! Each cell is `profile/medium/contender`. All trees do the same operations on the same entries, small
//! rectangles anywhere in a square; to the B+-tree an entry is a record with a key drawn from the entry's
//! number. The cells `growth/flash/contender` follow the height of a tree from its first entry on.

use super::contender::Contender;
use super::definition::{Access, Definition, Durable};
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
use crate::spatial::growth::{self, growth_of};
use crate::spatial::runner::{self, Contestant, Medium, SpatialJob};
use crate::spatial::workload::{Profile, SpatialWorkload};
use nandex::nand::Part;
use nandex_stacks::options::Settings;
use std::collections::BTreeMap;

/// Side of the square that contains the entries.
const SIDE: f64 = 1_000_000.0;

/// Name of the medium that is the chip. All others are disks.
const FLASH: &str = "flash";

/// Name of the input in cells that follow the height.
const GROWTH: &str = "growth";

/// A contender of the study: its index in the registry of ordered or of spatial ones, with its options.
struct Entrant {
    contender: Contender,
    contestant: Contestant,
    settings: Settings,
}

impl Entrant {
    fn of(contender: Contender) -> Result<Entrant, LabError> {
        let mut settings = Settings::new(runner::record_format::<i32, 2>());
        contender.options.iter().for_each(|(name, value)| settings.options.set(name, value));
        // The paper's trees promise nothing after a power cut, and a disk writes one page at a time.
        settings.durability = contender.durable.unwrap_or(Durable::Never).class();
        let contestant = match contender.index.as_str() {
            "bplus" => {
                let entry = registry::index("bplus")?;
                entry.check_options(&settings.options)?;
                Contestant::BPlus(entry)
            }
            name => {
                let entry = spatial::spatial(name)?;
                entry.check_options(&settings.options)?;
                Contestant::Spatial(entry)
            }
        };
        Ok(Entrant { contender, contestant, settings })
    }
}

pub(super) fn cells(
    definition: &Definition,
    access: &Access,
    plan: &RunPlan,
    control: &Control,
    seeds: &[u64],
) -> Result<Vec<CellResult>, LabError> {
    let part = chip::find(&definition.chip)?;
    let entrants =
        Contender::all(definition).into_iter().map(Entrant::of).collect::<Result<Vec<_>, LabError>>()?;
    let operations = if plan.smoke { access.smoke_operations } else { access.operations };
    let mut cells = Vec::new();
    for letter in &access.profiles {
        let profile = Profile::of_letter(letter)?;
        let build =
            |&seed: &u64| profile.workload(uniform::<i32, 2>(operations, SIDE, seed), operations, seed);
        let workloads: Vec<SpatialWorkload<i32, 2>> = seeds.iter().map(build).collect();
        let mut jobs = Vec::new();
        for medium in &access.media {
            for entrant in &entrants {
                for workload in &workloads {
                    jobs.push(job(&definition.run, &part, medium, entrant, workload)?);
                }
            }
        }
        control.plan(jobs.iter().map(|job| job.workload.operations()).sum());
        let runs = parallel::map(&jobs, plan.threads, |job| runner::run(job, control).run);
        let mut runs = jobs.iter().zip(runs);
        for medium in &access.media {
            for entrant in &entrants {
                let done: Vec<_> = runs.by_ref().take(seeds.len()).collect();
                cells.push(cell(definition, letter, medium, entrant, done));
            }
        }
    }
    let growth = if plan.smoke { access.smoke_growth } else { access.growth };
    if growth > 0 {
        cells.extend(growing(definition, (&part, &entrants), plan, growth, seeds)?);
    }
    Ok(cells)
}

fn job<'a>(
    conduct: &Conduct,
    part: &'a Part,
    medium: &str,
    entrant: &Entrant,
    workload: &'a SpatialWorkload<i32, 2>,
) -> Result<SpatialJob<'a, i32, 2>, LabError> {
    let medium = match medium {
        FLASH => Medium::Chip(part),
        disk => Medium::Disk(replay::disk(disk)?, part),
    };
    let (contestant, settings) = (entrant.contestant, entrant.settings.clone());
    let options = RunOptions { cpu_time: conduct.cpu_time, ..RunOptions::default() };
    Ok(SpatialJob { contestant, medium, workload, settings, options, wants_map: false })
}

/// Computes a cell for each contender: the mean over all tree sizes from one entry to `entries`, and the
/// sizes at which the height changes.
fn growing(
    definition: &Definition,
    (part, entrants): (&Part, &[Entrant]),
    plan: &RunPlan,
    entries: usize,
    seeds: &[u64],
) -> Result<Vec<CellResult>, LabError> {
    let workloads: Vec<SpatialWorkload<i32, 2>> =
        seeds.iter().map(|&seed| growth_of(uniform::<i32, 2>(entries, SIDE, seed), seed)).collect();
    let mut jobs = Vec::new();
    for entrant in entrants {
        for workload in &workloads {
            jobs.push(job(&definition.run, part, FLASH, entrant, workload)?);
        }
    }
    let mut heights = parallel::map(&jobs, plan.threads, growth::heights).into_iter();
    let mut cells = Vec::new();
    for entrant in entrants {
        let each = heights.by_ref().take(seeds.len()).collect::<Result<Vec<Vec<u32>>, LabError>>()?;
        let each: Vec<BTreeMap<String, f64>> = each.iter().map(|heights| of_growth(heights)).collect();
        cells.push(CellResult {
            name: format!("{GROWTH}/{FLASH}/{}", entrant.contender.name),
            input: GROWTH.to_string(),
            variant: FLASH.to_string(),
            contender: entrant.contender.name.clone(),
            index: entrant.contender.index.clone(),
            chip: Some(ChipFacts::of(part)),
            figures: figures::over_seeds(&each, definition.trimmed),
            ..CellResult::default()
        });
    }
    Ok(cells)
}

/// The mean of the heights after each insertion, and the insertions that added a level.
fn of_growth(heights: &[u32]) -> BTreeMap<String, f64> {
    let sum: f64 = heights.iter().map(|&height| f64::from(height)).sum();
    let mut figures = BTreeMap::from([("mean_height_levels".to_string(), sum / heights.len().max(1) as f64)]);
    let mut height = 0;
    for (at, &now) in heights.iter().enumerate().filter(|(_, now)| **now > 1) {
        if now > height {
            figures.insert(format!("entries_at_level_{now}"), (at + 1) as f64);
            height = now;
        }
    }
    figures
}

fn cell(
    definition: &Definition,
    profile: &str,
    medium: &str,
    entrant: &Entrant,
    done: Vec<(&SpatialJob<'_, i32, 2>, Run)>,
) -> CellResult {
    let chip = done.first().map(|(job, _)| match job.medium {
        Medium::Chip(part) => ChipFacts::of(part),
        Medium::Disk(disk, part) => ChipFacts { name: disk.name.to_string(), ..ChipFacts::of(part) },
    });
    let each: Vec<BTreeMap<String, f64>> =
        done.iter().map(|(job, run)| of_run(run, chip.as_ref(), definition, job.workload)).collect();
    let contender = &entrant.contender;
    CellResult {
        name: format!("{profile}/{medium}/{}", contender.name),
        input: profile.to_string(),
        variant: medium.to_string(),
        contender: contender.name.clone(),
        index: contender.index.clone(),
        workload: done.first().map(|(job, _)| facts(job.workload, &job.settings)),
        chip,
        figures: figures::over_seeds(&each, definition.trimmed),
        runs: done.into_iter().map(|(_, run)| run).collect(),
        ..CellResult::default()
    }
}

/// The usual figures, those of all phases together as `all`, and the slope of the accumulated time from
/// phase to phase.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_height_is_averaged_over_all_sizes() {
        let figures = of_growth(&[1, 1, 2, 2, 2, 3, 3, 3]);
        let expected =
            [("entries_at_level_2", 3.0), ("entries_at_level_3", 6.0), ("mean_height_levels", 17.0 / 8.0)];
        assert_eq!(figures, expected.map(|(name, value)| (name.to_string(), value)).into());
    }

    #[test]
    fn an_entrant_is_found_in_either_registry_and_its_options_are_known() {
        let entrant = |index: &str, option: &str| {
            let options = [(option.to_string(), "yes".to_string())].into();
            Entrant::of(Contender { name: "X".into(), index: index.into(), options, ..Contender::default() })
        };
        let selective = entrant("mr-tree", "selective").unwrap();
        assert_eq!(
            (selective.contestant.name(), selective.settings.options.text("selective")),
            ("mr-tree", Some("yes"))
        );
        assert_eq!(selective.settings.durability, nandex::ordered::Durability::None);
        for (index, refused) in [("bplus", "selective"), ("mr-tree", "selectiv"), ("mr-treee", "selective")] {
            assert!(entrant(index, refused).is_err(), "{index} {refused}");
        }
    }
}
