//! Wall time and memory of random inserts into every index, without a cache, each on one core:
//! `insert_time [RECORDS [CHIP [INDEX...]]]`, by default 1,000,000 on k9f1g08u0f into all of them.
//!
//! `declared` is what the index says it holds, FTL included; `peak` is the most memory on the heap during the
//! insertions, beyond the simulated chip's own.

#![allow(clippy::print_stdout)]

use nandex::Shared;
use nandex::nand::sim::SimChip;
use nandex::ordered::{Durability, OrderedIndex, RecordFormat};
use nandex::rng::split_mix;
use nandex::{Cause, Nand, Pbn};
use nandex_lab::registry::{self, IndexEntry};
use nandex_stacks::options::Settings;
use peak_alloc::PeakAlloc;
use std::time::Instant;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// RAM of an index that keeps updates back.
const BUFFER_BYTES: usize = 2 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let records: u64 = arguments.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let part = nandex_lab::chip::find(&arguments.next().unwrap_or_else(|| "k9f1g08u0f".to_string()))?;
    let named = arguments.map(|name| registry::index(&name)).collect::<Result<Vec<_>, _>>()?;
    let indexes = if named.is_empty() {
        registry::INDEXES.iter().filter(|entry| entry.takes_any_key()).collect()
    } else {
        named
    };
    println!("{records} random inserts of 4 + 4 bytes, {}", part.name);
    for index in indexes {
        let chip = Shared::new(SimChip::new(&index.suited(part.clone()))?);
        take_memory(&mut chip.lock())?;
        let before = chip.lock().counters();
        let of_chip = HEAP.current_usage();
        let mut tree = open(index, &chip)?;
        HEAP.reset_peak_usage();
        let start = Instant::now();
        for record in 0..records {
            tree.insert(&(split_mix(record) as u32).to_be_bytes(), &(record as u32).to_be_bytes())?;
        }
        let seconds = start.elapsed().as_secs_f64();
        let counters = chip.lock().counters().since(&before);
        println!(
            "{:12} {seconds:6.2} s, {:6.0} ns an insert, {} page reads, {} page programs, {} block erases, declared {} KiB, \
             peak {} KiB",
            index.name,
            seconds * 1e9 / records as f64,
            counters.page_reads_total(),
            counters.page_programs_total(),
            counters.block_erases_total(),
            tree.ram_bytes().div_ceil(1024),
            (HEAP.peak_usage() - of_chip).div_ceil(1024)
        );
    }
    Ok(())
}

/// Lets a chip allocate the memory of all its blocks: the simulator allocates a block at its first program.
fn take_memory(chip: &mut SimChip) -> Result<(), nandex::NandError> {
    let geometry = chip.geometry();
    for block in (0..geometry.blocks).map(Pbn) {
        chip.program(geometry.page_at(block, 0), Cause::Host, &[0], &[])?;
        chip.erase(block, Cause::Host)?;
    }
    Ok(())
}

/// Opens the index in the class in which it was published, with RAM for its buffer if it has one.
fn open(
    index: &IndexEntry,
    chip: &Shared<SimChip>,
) -> Result<Box<dyn OrderedIndex>, Box<dyn std::error::Error>> {
    let settings = Settings::new(RecordFormat::new(4, 4));
    match (index.format)(Box::new(chip.clone()), &settings) {
        Ok(tree) => Ok(tree),
        Err(_) => {
            let buffered =
                Settings { durability: Durability::None, ram_bytes: Some(BUFFER_BYTES), ..settings };
            Ok((index.format)(Box::new(chip.clone()), &buffered)?)
        }
    }
}
