//! A VMTree in the set-up of its authors' program, with the counts of that program.

use crate::LabError;
use nandex::nand::catalogue::{mlc_64m, nor_2m};
use nandex::nand::sim::{Counters, SimChip};
use nandex::nand::{Cause, Geometry, Part};
use nandex::ordered::buffered::Answers;
use nandex::ordered::vm::overwrite::{Marks, OverwriteConfig, OverwriteTree};
use nandex::ordered::vm::{Duplicates, Keep, TableConfig, VmConfig, VmTree};
use nandex::ordered::{Durability, OrderedIndex, RawConfig, RecordFormat};
use nandex::rng::Rng;

/// The sizes of a record in the authors' program.
const RECORD: RecordFormat = RecordFormat::new(4, 12);

/// The durability class of a tree whose log buffer has `log_pages` pages.
fn class(log_pages: u32) -> Durability {
    if log_pages > 0 { Durability::EverySync } else { Durability::EveryOperation }
}

fn chip(part: &Part) -> Result<SimChip, LabError> {
    SimChip::new(part)
        .map_err(|error| LabError::Chip { file: part.name.to_string(), reason: error.to_string() })
}

/// Inserts 100,000 records in random order.
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

/// Page reads and programs of 100,000 random insertions with the settings of the authors' program: records
/// of 4 + 12 bytes, 20,000 pages of 512 bytes, an erase unit of 8 pages, three page buffers, and the
/// authors' table of moves.
pub fn counts(mapping_bytes: usize, log_pages: u32, seed: u64) -> Result<Vec<(&'static str, u64)>, LabError> {
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

/// The costs of a VMTree-OW with its published page: reads, new pages and overwrites, each counted once.
pub fn overwrite_counts(log_pages: u32, seed: u64) -> Result<Vec<(&'static str, u64)>, LabError> {
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
