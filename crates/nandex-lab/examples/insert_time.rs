//! Wall time and memory of random inserts into every index, without a cache, each on one core:
//! `insert_time [RECORDS [CHIP [INDEX...]]]`, by default 1,000,000 on k9f1g08u0f into all of them.
//!
//! `declared` is what the index says it holds; `grown` is how much more memory the process had at the end than half-way.

#![allow(clippy::print_stdout)]

use nandex::nand::sim::SimChip;
use nandex::ordered::{Durability, OrderedIndex, RecordFormat, Settings};
use nandex::rng::split_mix;
use nandex_lab::registry::{self, IndexEntry};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

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
        let chip = Rc::new(RefCell::new(SimChip::new(&index.suited(part.clone()))?));
        let mut tree = open(index, &chip)?;
        let start = Instant::now();
        let mut half_way = 0;
        for record in 0..records {
            if record == records / 2 {
                half_way = resident_bytes();
            }
            tree.insert(&(split_mix(record) as u32).to_be_bytes(), &(record as u32).to_be_bytes())?;
        }
        let seconds = start.elapsed().as_secs_f64();
        let grown = resident_bytes().saturating_sub(half_way);
        let counters = chip.borrow().counters();
        println!(
            "{:12} {seconds:6.2} s, {} page reads, {} page programs, {} block erases, declared {} KiB, grown {} KiB",
            index.name,
            counters.page_reads_total(),
            counters.page_programs_total(),
            counters.block_erases_total(),
            tree.ram_bytes() / 1024,
            grown / 1024
        );
    }
    Ok(())
}

/// In the class that the index is published with; with RAM for a buffer where it has one.
fn open(
    index: &IndexEntry,
    chip: &Rc<RefCell<SimChip>>,
) -> Result<Box<dyn OrderedIndex>, Box<dyn std::error::Error>> {
    let settings = Settings::new(RecordFormat::new(4, 4));
    match (index.format)(Box::new(Rc::clone(chip)), &settings) {
        Ok(tree) => Ok(tree),
        Err(_) => {
            let buffered =
                Settings { durability: Durability::None, ram_bytes: Some(BUFFER_BYTES), ..settings };
            Ok((index.format)(Box::new(Rc::clone(chip)), &buffered)?)
        }
    }
}

/// Memory of this process; 0 where the system does not tell.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
