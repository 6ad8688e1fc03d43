//! Computed cells of the VMTree: what the authors' program counted, `vmtree/TABLE-LOG` in bytes of the table
//! and pages of the log buffer, and `vmtree-ow/LOG`.

use super::RunPlan;
use super::results::CellResult;
use crate::LabError;
use crate::stats::Summary;
use nandex::nand::catalogue::{mlc_64m, nor_2m};
use nandex::nand::sim::{Counters, SimChip};
use nandex::nand::{Cause, Geometry, Part};
use nandex::ordered::buffered::Answers;
use nandex::ordered::vm::overwrite::{Marks, OverwriteConfig, OverwriteTree};
use nandex::ordered::vm::{Duplicates, Keep, TableConfig, VmConfig, VmTree};
use nandex::ordered::{Durability, OrderedIndex, RawConfig, RecordFormat};
use nandex::rng::Rng;

/// The orders of keys that a cell is the mean of; the authors' counts are of one run each.
const SEEDS: [u64; 3] = [1, 2, 3];

/// Figures of a run with their names.
type Figures = Vec<(&'static str, u64)>;

/// The cell of this name, if it is one of these.
pub(super) fn cell(name: &str, plan: &RunPlan) -> Result<Option<CellResult>, LabError> {
    let seeds = if plan.smoke { &SEEDS[..1] } else { &SEEDS };
    let of_seeds = |counts: &dyn Fn(u64) -> Result<Figures, LabError>| {
        let runs = seeds.iter().map(|&seed| counts(seed)).collect::<Result<Vec<_>, _>>()?;
        Ok(Some(CellResult { name: name.to_string(), figures: means(&runs), ..CellResult::default() }))
    };
    if let Some(Ok(log)) = name.strip_prefix("vmtree-ow/").map(str::parse) {
        return of_seeds(&|seed| overwrite_counts(log, seed));
    }
    let sizes = name.strip_prefix("vmtree/").and_then(|sizes| sizes.split_once('-'));
    match sizes.map(|(table, log)| (table.parse(), log.parse())) {
        Some((Ok(table), Ok(log))) => of_seeds(&|seed| counts(table, log, seed)),
        _ => Ok(None),
    }
}

/// Each figure over all runs.
fn means(runs: &[Figures]) -> std::collections::BTreeMap<String, Summary> {
    let names = runs.first().into_iter().flatten().enumerate();
    let summaries = names.filter_map(|(i, (name, _))| {
        let values: Vec<f64> = runs.iter().map(|figures| figures[i].1 as f64).collect();
        Summary::of(&values).map(|summary| (name.to_string(), summary))
    });
    summaries.collect()
}

/// The authors' records.
const RECORD: RecordFormat = RecordFormat::new(4, 12);

/// The class of a tree with a log buffer of so many pages.
fn class(log_pages: u32) -> Durability {
    if log_pages > 0 { Durability::EverySync } else { Durability::EveryOperation }
}

fn chip(part: &Part) -> Result<SimChip, LabError> {
    SimChip::new(part)
        .map_err(|error| LabError::Chip { file: part.name.to_string(), reason: error.to_string() })
}

/// Enters 100,000 records in random order.
fn fill(tree: &mut dyn OrderedIndex, seed: u64) -> Result<(), LabError> {
    let mut keys: Vec<u32> = (0..100_000).collect();
    Rng::new(seed).shuffle(&mut keys);
    for key in keys {
        tree.insert(&key.to_be_bytes(), &[7; 12])?;
    }
    Ok(tree.sync()?)
}

fn host(counters: &Counters) -> (u64, u64) {
    (counters.page_reads[Cause::Host as usize], counters.page_programs[Cause::Host as usize])
}

/// Page reads and programs of 100,000 random insertions in the set-up of the authors' program: records of 4 +
/// 12 bytes, 20,000 pages of 512 bytes, erase unit of 8, three page buffers, their table of moves as it is.
fn counts(mapping_bytes: usize, log_pages: u32, seed: u64) -> Result<Figures, LabError> {
    let scheme = TableConfig {
        bytes: Some(mapping_bytes),
        keep: Keep::ThreeBuffers,
        duplicates: Duplicates::AsPublished,
    };
    let tree =
        RawConfig { durability: class(log_pages), checkpoint_blocks: 300, scheme, ..RawConfig::new(RECORD) };
    let part = Part { geometry: Geometry::new(512, 64, 8, 2500), ..mlc_64m() };
    let config = VmConfig { tree, log_pages, answers: Answers::Pool };
    let mut tree = VmTree::format(chip(&part)?, &config)?;
    fill(&mut tree, seed)?;
    let (reads, programs) = host(&tree.into_nand().counters());
    Ok(vec![("page_reads", reads), ("page_programs", programs)])
}

/// The costs of a VMTree-OW with its published page: reads, new pages, and overwrites, of which each is
/// counted once.
fn overwrite_counts(log_pages: u32, seed: u64) -> Result<Figures, LabError> {
    let config = OverwriteConfig {
        durability: class(log_pages),
        marks: Marks::Bare,
        keep: Keep::ThreeBuffers,
        log_pages,
        answers: Answers::Pool,
        ..OverwriteConfig::new(RECORD)
    };
    let mut tree = OverwriteTree::format(chip(&nor_2m().with_blocks(2500))?, &config)?;
    fill(&mut tree, seed)?;
    let metrics = tree.stats().metrics;
    let metric = |name| metrics.iter().find(|metric| metric.name == name).map_or(0, |metric| metric.value);
    let (new_pages, overwrites) = (metric("new_pages"), metric("overwrites"));
    let (reads, _) = host(&tree.into_nand().counters());
    Ok(vec![("page_reads", reads), ("new_pages", new_pages), ("overwrites", overwrites)])
}
