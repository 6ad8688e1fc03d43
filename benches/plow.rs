//! Processor time of plow by its RAM, the simulated chip included.
//!
//! `cargo bench --bench plow` puts 100,000 records of 8 + 8 bytes with keys in no order, on pages of 4 KiB,
//! then looks up each key. `durable` commits each put, `1,000 a sync` a thousand at once. The counts of the
//! chip stand beside the times: if they differ, so does the work. Arguments are RAM
//! sizes in KiB, to measure these alone.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use nandex::nand::catalogue;
use nandex::nand::sim::SimChip;
use nandex::ordered::{Durability, OrderedIndex, RecordFormat};
use nandex::rng::Rng;
use nandex::{Plow, PlowConfig};
use std::fs;
use std::time::Instant;

const RECORDS: u64 = 100_000;
const RAM_KIB: [usize; 5] = [16, 64, 512, 4 << 10, 64 << 10];

fn main() {
    let given: Vec<usize> = std::env::args().filter_map(|arg| arg.parse().ok()).collect();
    let of_ram = if given.is_empty() { RAM_KIB.to_vec() } else { given };
    let mut keys: Vec<u64> = (0..RECORDS).collect();
    Rng::new(1).shuffle(&mut keys);
    println!("us of processor time an operation, {RECORDS} records of 8 + 8 bytes");
    println!("      RAM  commits         put     get    reads programs erases");
    for kib in of_ram {
        for (durability, each, named) in [
            (Durability::EveryOperation, u64::MAX, "durable"),
            (Durability::EverySync, 1_000, "1,000 a sync"),
        ] {
            let config = PlowConfig {
                durability,
                ram_bytes: Some(kib << 10),
                ..PlowConfig::new(RecordFormat::new(8, 8))
            };
            let ([put, get], [reads, programs, erases]) = measured(&config, &keys, each);
            println!("{kib:>5} KiB  {named:12} {put:6.2} {get:6.2} {reads:>9} {programs:>8} {erases:>6}");
        }
    }
}

/// Times of a put and of a look-up, and the reads, programs and erases of all.
fn measured(config: &PlowConfig, keys: &[u64], each: u64) -> ([f64; 2], [u64; 3]) {
    let mut plow = Plow::format(SimChip::new(&catalogue::mlc_64m()).unwrap(), config).unwrap();
    let before = processor_nanos();
    for (n, key) in (1..).zip(keys) {
        plow.put(&key.to_be_bytes(), &key.to_le_bytes()).unwrap();
        if n % each == 0 {
            plow.sync().unwrap();
        }
    }
    let put = processor_nanos();
    let mut value = [0; 8];
    assert!(keys.iter().all(|key| plow.get(&key.to_be_bytes(), &mut value).unwrap()));
    let got = processor_nanos();
    let done = plow.into_nand().counters();
    let of_one = |nanos: u64| nanos as f64 / 1000.0 / keys.len() as f64;
    let counts = [done.page_reads_total(), done.page_programs_total(), done.block_erases_total()];
    ([of_one(put - before), of_one(got - put)], counts)
}

/// Processor time of this program. Where the system does not tell it, the time of day, which other work
/// lengthens.
fn processor_nanos() -> u64 {
    let told = fs::read_to_string("/proc/thread-self/schedstat").ok();
    let told = told.and_then(|told| told.split(' ').next()?.parse().ok());
    told.unwrap_or_else(|| START.elapsed().as_nanos() as u64)
}

static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
