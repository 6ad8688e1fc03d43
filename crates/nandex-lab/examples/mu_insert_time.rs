//! Wall time of random inserts into the mu-Tree on the MLC part of the paper, without a cache, on one core:
//! `mu_insert_time [RECORDS]`, 1,000,000 by default.

#![allow(clippy::print_stdout)]

use nandex::nand::catalogue::mlc_64m;
use nandex::nand::sim::SimChip;
use nandex::ordered::mu::MuTree;
use nandex::ordered::{OrderedIndex, RecordFormat, Settings};
use nandex::rng::split_mix;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let records: u64 = std::env::args().nth(1).map_or(Ok(1_000_000), |text| text.parse())?;
    let chip = SimChip::new(&mlc_64m())?;
    let mut tree = MuTree::format_with(chip, &Settings::new(RecordFormat::new(4, 4)))?;
    let start = Instant::now();
    for record in 0..records {
        let key = (split_mix(record) as u32).to_be_bytes();
        tree.insert(&key, &(record as u32).to_be_bytes())?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let nand = tree.into_nand();
    let counters = nand.counters();
    println!(
        "{records} random inserts in {seconds:.2} s of wall time: {} page reads, {} page programs, {} block erases",
        counters.page_reads_total(),
        counters.page_programs_total(),
        counters.block_erases_total()
    );
    Ok(())
}
