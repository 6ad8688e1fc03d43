//! Processor time of every index per operation, with the pages that an operation touches.
//!
//! `cargo bench -p nandex-lab --bench indexes` prints pages read and programmed per operation (the simulated
//! chip counts them), then divan's times per operation. The index holds 20,000 records of 8 + 8 bytes on the
//! MLC part, with no cache.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use nandex::OrderedIndex;
use nandex::Shared;
use nandex::nand::catalogue::mlc_64m;
use nandex::nand::sim::SimChip;
use nandex::ordered::{Direction, RecordFormat};
use nandex::rng::Rng;
use nandex_lab::registry::{INDEXES, index};
use nandex_stacks::options::Settings;
use std::ops::{Bound, ControlFlow};

const RECORDS: u64 = 20_000;
/// Operations in one measurement.
const OPERATIONS: u64 = 200;
const KINDS: [Kind; 4] = [Kind::Get, Kind::Insert, Kind::Remove, Kind::Range];

#[derive(Clone, Copy, Debug)]
enum Kind {
    Get,
    Insert,
    Remove,
    /// A range of 100 records.
    Range,
}

struct Loaded {
    chip: Shared<SimChip>,
    index: Box<dyn OrderedIndex>,
    rng: Rng,
}

fn key(number: u64) -> [u8; 8] {
    nandex::rng::split_mix(number).to_be_bytes()
}

impl Loaded {
    fn new(name: &str) -> Loaded {
        let entry = index(name).unwrap();
        let chip = Shared::new(SimChip::new(&entry.suited(mlc_64m())).unwrap());
        let settings = Settings::new(RecordFormat::new(8, 8));
        let mut index = (entry.format)(Box::new(chip.clone()), &settings).unwrap();
        for number in 0..RECORDS {
            index.insert(&key(number), &[1; 8]).unwrap();
        }
        Loaded { chip, index, rng: Rng::new(1) }
    }

    fn touched(&self) -> (u64, u64) {
        let counters = self.chip.lock().counters();
        (counters.page_reads.iter().sum(), counters.page_programs.iter().sum())
    }

    /// Does one operation. A removed key comes back when it is next inserted.
    fn operate(&mut self, kind: Kind) {
        let number = self.rng.below(RECORDS);
        match kind {
            Kind::Get => {
                let mut value = [0; 8];
                black_box(self.index.get(&key(number), &mut value).unwrap());
            }
            Kind::Insert => {
                black_box(self.index.insert(&key(RECORDS + number), &[2; 8]).unwrap());
            }
            Kind::Remove => {
                black_box(self.index.remove(&key(number)).unwrap());
            }
            Kind::Range => {
                let mut left = 100;
                let low = key(number);
                let visit = &mut |key: &[u8], _: &[u8]| {
                    black_box(key);
                    left -= 1;
                    if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                };
                self.index
                    .range(Bound::Included(&low), Bound::Unbounded, Direction::Ascending, visit)
                    .unwrap();
            }
        }
    }
}

fn main() {
    println!("{:<12} {:<8} {:>16} {:>20}", "index", "kind", "reads/operation", "programs/operation");
    for entry in INDEXES.iter().filter(|entry| entry.takes_any_key()) {
        for kind in KINDS {
            let mut loaded = Loaded::new(entry.name);
            let before = loaded.touched();
            (0..OPERATIONS).for_each(|_| loaded.operate(kind));
            let after = loaded.touched();
            let per_operation = |count: u64| count as f64 / OPERATIONS as f64;
            let (reads, programs) = (per_operation(after.0 - before.0), per_operation(after.1 - before.1));
            println!(
                "{:<12} {:<8} {reads:>16.2} {programs:>20.2}",
                entry.name,
                format!("{kind:?}").to_lowercase()
            );
        }
    }
    divan::main();
}

fn names() -> impl Iterator<Item = &'static str> {
    INDEXES.iter().filter(|entry| entry.takes_any_key()).map(|entry| entry.name)
}

fn measure(bencher: Bencher<'_, '_>, name: &str, kind: Kind) {
    let bencher = bencher.counter(ItemsCount::new(OPERATIONS));
    bencher.with_inputs(|| Loaded::new(name)).bench_local_refs(|loaded| {
        (0..OPERATIONS).for_each(|_| loaded.operate(kind));
    });
}

#[divan::bench(args = names(), sample_count = 10)]
fn get(bencher: Bencher<'_, '_>, name: &str) {
    measure(bencher, name, Kind::Get);
}

#[divan::bench(args = names(), sample_count = 10)]
fn insert(bencher: Bencher<'_, '_>, name: &str) {
    measure(bencher, name, Kind::Insert);
}

#[divan::bench(args = names(), sample_count = 10)]
fn remove(bencher: Bencher<'_, '_>, name: &str) {
    measure(bencher, name, Kind::Remove);
}

#[divan::bench(args = names(), sample_count = 10)]
fn range(bencher: Bencher<'_, '_>, name: &str) {
    measure(bencher, name, Kind::Range);
}
