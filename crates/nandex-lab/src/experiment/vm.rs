//! Computed cells of the VMTree: what the authors' program counted, `vmtree/TABLE-LOG` in bytes of the table and pages of the log buffer.

use super::RunPlan;
use super::results::CellResult;
use crate::LabError;
use crate::stats::Summary;
use nandex::nand::catalogue::mlc_64m;
use nandex::nand::sim::SimChip;
use nandex::nand::{Cause, Geometry, Part};
use nandex::ordered::vm::VmTree;
use nandex::ordered::{Durability, OrderedIndex, RecordFormat, Settings};
use nandex::rng::Rng;

/// The orders of keys that a cell is the mean of; the authors' counts are of one run each.
const SEEDS: [u64; 3] = [1, 2, 3];

/// The cell of this name, if it is one of these.
pub(super) fn cell(name: &str, plan: &RunPlan) -> Result<Option<CellResult>, LabError> {
    let sizes = name.strip_prefix("vmtree/").and_then(|sizes| sizes.split_once('-'));
    let Some((Ok(table), Ok(log))) = sizes.map(|(table, log)| (table.parse(), log.parse())) else {
        return Ok(None);
    };
    let seeds = if plan.smoke { &SEEDS[..1] } else { &SEEDS };
    let counts = seeds.iter().map(|&seed| counts(table, log, seed)).collect::<Result<Vec<_>, _>>()?;
    let figure = |name: &str, of: fn(&(u64, u64)) -> u64| {
        let values: Vec<f64> = counts.iter().map(|count| of(count) as f64).collect();
        Summary::of(&values).map(|summary| (name.to_string(), summary))
    };
    let figures = [figure("page_reads", |count| count.0), figure("page_programs", |count| count.1)];
    Ok(Some(CellResult {
        name: name.to_string(),
        figures: figures.into_iter().flatten().collect(),
        ..CellResult::default()
    }))
}

/// Page reads and programs of 100,000 random insertions in the set-up of the authors' program: records of 4 + 12 bytes, 20,000
/// pages of 512 bytes, erase unit of 8, three page buffers, their table of moves as it is.
fn counts(mapping_bytes: u64, log_pages: u64, seed: u64) -> Result<(u64, u64), LabError> {
    let durability = if log_pages > 0 { Durability::EverySync } else { Durability::EveryOperation };
    let settings = Settings { durability, ..Settings::new(RecordFormat::new(4, 12)) }
        .with("mapping_bytes", mapping_bytes)
        .with("log_pages", log_pages)
        .with("kept_nodes", "three-buffers")
        .with("mapping_duplicates", "as-published")
        .with("answers", "pool")
        .with("checkpoint_blocks", 300);
    let part = Part { geometry: Geometry::new(512, 64, 8, 2500), ..mlc_64m() };
    let chip = SimChip::new(&part)
        .map_err(|error| LabError::Chip { file: part.name.to_string(), reason: error.to_string() })?;
    let mut tree = VmTree::format_with(chip, &settings)?;
    let mut keys: Vec<u32> = (0..100_000).collect();
    Rng::new(seed).shuffle(&mut keys);
    for key in keys {
        tree.insert(&key.to_be_bytes(), &[7; 12])?;
    }
    tree.sync()?;
    let counters = tree.into_nand().counters();
    Ok((counters.page_reads[Cause::Host as usize], counters.page_programs[Cause::Host as usize]))
}
