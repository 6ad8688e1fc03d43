//! The counts that the VMTree's authors' program prints, beside ours: `cargo run --release --example vmtree_counts [seed]`.
//!
//! 100,000 inserts of random distinct keys, records of 4 + 12 bytes, pages of 512 bytes, 20,000 pages, erase unit of 8
//! pages, three page buffers. Three runs of ours for each row: the authors' table as it is, entries left behind and all; the
//! same without such entries; and that with the whole path kept instead of three buffers.

#![allow(clippy::print_stdout)]

use nandex::nand::catalogue::{mlc_64m, nor_2m};
use nandex::nand::sim::SimChip;
use nandex::nand::{Cause, Geometry, Part};
use nandex::ordered::vm::VmTree;
use nandex::ordered::vm::overwrite::OverwriteTree;
use nandex::ordered::{Durability, OrderedIndex, RecordFormat, Settings};
use nandex::rng::Rng;

/// Bytes of the table, pages of the log buffer, the authors' reads and writes of new pages.
const PUBLISHED: [(u64, u64, u64, u64); 8] = [
    (512, 0, 399_126, 238_059),
    (1024, 0, 354_337, 203_955),
    (4096, 0, 276_943, 136_180),
    (16_384, 0, 250_342, 110_097),
    (32_768, 0, 249_781, 109_536),
    (1024, 1, 332_614, 197_530),
    (1024, 4, 285_671, 170_431),
    (1024, 16, 217_290, 127_401),
];

fn counts(mapping_bytes: u64, log_pages: u64, options: [&str; 2], seed: u64) -> (u64, u64) {
    let durability = if log_pages > 0 { Durability::EverySync } else { Durability::EveryOperation };
    let settings = Settings { durability, ..Settings::new(RecordFormat::new(4, 12)) }
        .with("mapping_bytes", mapping_bytes)
        .with("log_pages", log_pages)
        .with("kept_nodes", options[0])
        .with("mapping_duplicates", options[1])
        .with("answers", "pool")
        .with("checkpoint_blocks", 300);
    let part = Part { geometry: Geometry::new(512, 64, 8, 2500), ..mlc_64m() };
    let chip = SimChip::new(&part).expect("a valid part");
    let mut tree = VmTree::format_with(chip, &settings).expect("the chip is large enough");
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
const PUBLISHED_OVERWRITING: [(u64, [u64; 3]); 2] =
    [(0, [283_598, 9_944, 99_997]), (4, [262_868, 9_864, 94_106])];

/// Page reads, new pages and overwrites of the VMTree-OW.
fn overwrite_counts(log_pages: u64, [slots, kept]: [&str; 2], seed: u64) -> [u64; 3] {
    let durability = if log_pages > 0 { Durability::EverySync } else { Durability::EveryOperation };
    let settings = Settings { durability, ..Settings::new(RecordFormat::new(4, 12)) }
        .with("slots", slots)
        .with("kept_nodes", kept)
        .with("log_pages", log_pages)
        .with("answers", "pool");
    let chip = SimChip::new(&nor_2m().with_blocks(2500)).expect("a valid part");
    let mut tree = OverwriteTree::format_with(chip, &settings).expect("the chip is large enough");
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
        let variants = [["three-buffers", "as-published"], ["three-buffers", "never"], ["path", "never"]];
        for options in variants {
            let (r, w) = counts(mapping_bytes, log_pages, options, seed);
            print!("    {r:>9} {w:>9}");
        }
        println!();
    }
    println!("VMTree-OW: reads, new pages, overwrites");
    for (log_pages, published) in PUBLISHED_OVERWRITING {
        println!("{log_pages:>5} log pages, the authors' {published:?}");
        for options in [["bare", "three-buffers"], ["checked", "three-buffers"], ["checked", "path"]] {
            let counts = overwrite_counts(log_pages, options, seed);
            println!("{:>8} {:<14} {counts:?}", options[0], options[1]);
        }
    }
}
