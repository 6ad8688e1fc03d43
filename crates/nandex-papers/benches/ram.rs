//! CPU time of trees that hold updates back in RAM, as their RAM grows from 64 KiB to 16 MiB: insertions of
//! scattered keys into an empty tree, look-ups, and syncs.
//!
//! `cargo bench --bench ram`; `-- load` or `-- ls-lru` for a part. The store is an array, so the time is that
//! of the tree and its RAM. A time that grows a little is that of misses of the processor's caches and of
//! deeper searches; one that grows with the RAM says that something walks over all of it.
#![allow(clippy::unwrap_used)]

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use nandex::ordered::{OrderedIndex, RecordFormat};
use nandex::rng::Rng;
use nandex::store::ram::RamStore;
use nandex_papers::ordered::fd::{FdConfig, FdTree};
use nandex_papers::ordered::lazy_update::{CommitPolicy, LazyUpdateConfig, LazyUpdateTree, PoolCount};
use nandex_papers::ordered::ls_lru::{LsLruConfig, LsLruTree};

const RECORD: RecordFormat = RecordFormat::new(4, 4);
const RECORDS: u64 = 300_000;
const BATCH: u64 = 20_000;
const RAM: [usize; 3] = [64 << 10, 1 << 20, 16 << 20];
const TREES: [&str; 3] = ["lazy-update", "ls-lru", "fd"];

fn main() {
    divan::main();
}

#[derive(Clone, Copy)]
struct Case {
    tree: &'static str,
    ram: usize,
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{} KiB", self.tree, self.ram >> 10)
    }
}

/// Every tree with every RAM.
fn cases() -> impl Iterator<Item = Case> {
    TREES.iter().flat_map(|tree| RAM.map(|ram| Case { tree, ram }))
}

impl Case {
    fn empty(self) -> Box<dyn OrderedIndex> {
        let store = RamStore::new(4096, 16_384);
        match self.tree {
            "lazy-update" => {
                let policy = CommitPolicy::BiggestSize;
                let requests = LazyUpdateConfig::requests_in(RECORD, policy, self.ram, PoolCount::Held);
                Box::new(LazyUpdateTree::format(store, &LazyUpdateConfig::new(RECORD, requests)).unwrap())
            }
            "ls-lru" => Box::new(LsLruTree::format(store, &LsLruConfig::new(RECORD, self.ram)).unwrap()),
            _ => {
                let head_entries = FdConfig::head_entries_in(RECORD, self.ram);
                Box::new(FdTree::format(store, &FdConfig { head_entries, ..FdConfig::new(RECORD) }).unwrap())
            }
        }
    }

    fn full(self, rng: &mut Rng) -> Box<dyn OrderedIndex> {
        let mut index = self.empty();
        insert(&mut *index, rng, RECORDS);
        index
    }
}

fn key(n: u64) -> [u8; 4] {
    (n as u32).wrapping_mul(0x9e37_79b9).to_be_bytes()
}

fn insert(index: &mut dyn OrderedIndex, rng: &mut Rng, count: u64) {
    for _ in 0..count {
        black_box(index.insert(&key(rng.below(RECORDS)), &[1; 4]).unwrap());
    }
}

/// Insertions, beginning with an empty tree.
#[divan::bench(args = cases(), sample_count = 3, sample_size = 1)]
fn load(bencher: Bencher<'_, '_>, case: Case) {
    bencher.counter(ItemsCount::new(RECORDS)).bench_local(|| case.full(&mut Rng::new(1)));
}

/// Look-ups, each after an insertion.
#[divan::bench(args = cases(), sample_count = 5, sample_size = 1)]
fn get_and_insert(bencher: Bencher<'_, '_>, case: Case) {
    let mut rng = Rng::new(1);
    let mut index = case.full(&mut rng);
    bencher.counter(ItemsCount::new(2 * BATCH)).bench_local(move || {
        for _ in 0..BATCH {
            insert(&mut *index, &mut rng, 1);
            black_box(index.get(&key(rng.below(RECORDS)), &mut [0; 4]).unwrap());
        }
    });
}

/// A sync after so many insertions: what waits has to go to the store, all of it.
#[divan::bench(args = cases(), sample_count = 5, sample_size = 1)]
fn insert_and_sync(bencher: Bencher<'_, '_>, case: Case) {
    let mut rng = Rng::new(1);
    let mut index = case.full(&mut rng);
    index.sync().unwrap();
    bencher.counter(ItemsCount::new(BATCH)).bench_local(move || {
        insert(&mut *index, &mut rng, BATCH);
        index.sync().unwrap();
    });
}
