//! The counts that the VMTree's authors' program prints, beside ours: `cargo run --release --example
//! vmtree_counts [seed]`.
//!
//! 100,000 inserts of random distinct keys, records of 4 + 12 bytes, pages of 512 bytes, 20,000 pages, erase
//! unit of 8 pages, three page buffers. Three runs of ours for each row: the authors' table as it is, entries
//! left behind and all; the same without such entries; and that with the whole path kept instead of three
//! buffers.

#![allow(clippy::print_stdout)]

use nandex::nand::catalogue::{mlc_64m, nor_2m};
use nandex::nand::sim::SimChip;
use nandex::nand::{Cause, Geometry, Part};
use nandex::ordered::Answers;
use nandex::ordered::vm::overwrite::{Marks, OverwriteConfig, OverwriteTree};
use nandex::ordered::vm::{Duplicates, Keep, TableConfig, VmConfig, VmTree};
use nandex::ordered::{Durability, OrderedIndex, RawConfig, RecordFormat};
use nandex::rng::Rng;

/// Bytes of the table, pages of the log buffer, the authors' reads and writes of new pages.
const PUBLISHED: [(usize, u32, u64, u64); 8] = [
    (512, 0, 399_126, 238_059),
    (1024, 0, 354_337, 203_955),
    (4096, 0, 276_943, 136_180),
    (16_384, 0, 250_342, 110_097),
    (32_768, 0, 249_781, 109_536),
    (1024, 1, 332_614, 197_530),
    (1024, 4, 285_671, 170_431),
    (1024, 16, 217_290, 127_401),
];

/// The authors' records.
const RECORD: RecordFormat = RecordFormat::new(4, 12);

/// The class of a tree with a log buffer of so many pages.
fn class(log_pages: u32) -> Durability {
    if log_pages > 0 { Durability::EverySync } else { Durability::EveryOperation }
}

fn counts(mapping_bytes: usize, log_pages: u32, keeping: (Keep, Duplicates), seed: u64) -> (u64, u64) {
    let scheme = TableConfig { bytes: Some(mapping_bytes), keep: keeping.0, duplicates: keeping.1 };
    let tree = RawConfig::new(RECORD)
        .with_durability(class(log_pages))
        .with_checkpoint_blocks(300)
        .with_scheme(scheme);
    let config = VmConfig { tree, log_pages, answers: Answers::Pool };
    let part = Part { geometry: Geometry::new(512, 64, 8, 2500), ..mlc_64m() };
    let chip = SimChip::new(&part).expect("a valid part");
    let mut tree = VmTree::format(chip, &config).expect("the chip is large enough");
    let mut keys: Vec<u32> = (0..100_000).collect();
    Rng::new(seed).shuffle(&mut keys);
    for key in keys {
        tree.insert(&key.to_be_bytes(), &[7; 12]).expect("there is room");
    }
    tree.sync().expect("there is room");
    let counters = tree.into_nand().counters();
    (counters.page_reads[Cause::Host as usize], counters.page_programs[Cause::Host as usize])
}

/// The VMTree-OW: pages of the log buffer, the authors' reads, writes of new pages and overwrites.
const PUBLISHED_OVERWRITING: [(u32, [u64; 3]); 2] =
    [(0, [283_598, 9_944, 99_997]), (4, [262_868, 9_864, 94_106])];

/// Page reads, new pages and overwrites of the VMTree-OW.
fn overwrite_counts(log_pages: u32, (marks, keep): (Marks, Keep), seed: u64) -> [u64; 3] {
    let config = OverwriteConfig::new(RECORD)
        .with_durability(class(log_pages))
        .with_marks(marks)
        .with_keep(keep)
        .with_log_pages(log_pages)
        .with_answers(Answers::Pool);
    let chip = SimChip::new(&nor_2m().with_blocks(2500)).expect("a valid part");
    let mut tree = OverwriteTree::format(chip, &config).expect("the chip is large enough");
    let mut keys: Vec<u32> = (0..100_000).collect();
    Rng::new(seed).shuffle(&mut keys);
    for key in keys {
        tree.insert(&key.to_be_bytes(), &[7; 12]).expect("there is room");
    }
    tree.sync().expect("there is room");
    let stats = tree.stats();
    let metric =
        |name| stats.metrics.iter().find(|metric| metric.name == name).map_or(0, |metric| metric.value);
    let reads = tree.into_nand().counters().page_reads[Cause::Host as usize];
    [reads, metric("new_pages"), metric("overwrites")]
}

fn main() {
    let seed = std::env::args().nth(1).map_or(1, |text| text.parse().expect("a seed"));
    println!(
        "table  log    authors' reads, writes   entries left behind     none left behind        path kept"
    );
    for (mapping_bytes, log_pages, reads, writes) in PUBLISHED {
        print!("{mapping_bytes:>5} {log_pages:>4}    {reads:>10} {writes:>10}");
        let variants = [
            (Keep::ThreeBuffers, Duplicates::AsPublished),
            (Keep::ThreeBuffers, Duplicates::Never),
            (Keep::Path, Duplicates::Never),
        ];
        for keeping in variants {
            let (r, w) = counts(mapping_bytes, log_pages, keeping, seed);
            print!("    {r:>9} {w:>9}");
        }
        println!();
    }
    println!("VMTree-OW: reads, new pages, overwrites");
    for (log_pages, published) in PUBLISHED_OVERWRITING {
        println!("{log_pages:>5} log pages, the authors' {published:?}");
        let variants = [
            ("bare", "three-buffers", (Marks::Bare, Keep::ThreeBuffers)),
            ("checked", "three-buffers", (Marks::Checked, Keep::ThreeBuffers)),
            ("checked", "path", (Marks::Checked, Keep::Path)),
        ];
        for (slots, kept, setup) in variants {
            let counts = overwrite_counts(log_pages, setup, seed);
            println!("{slots:>8} {kept:<14} {counts:?}");
        }
    }
}
