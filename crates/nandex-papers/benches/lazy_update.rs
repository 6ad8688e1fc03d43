//! CPU time of the choice of a victim: an insertion into a full pool of 1,000 to 1,000,000 requests, by
//! commit policy.
//!
//! `cargo bench --bench lazy_update`. The store is an array, so the time is that of pool, groups and tree.
//! The tree below is packed full of every other key, twice as many records as the pool has requests and
//! 100,000 at least.
#![allow(clippy::unwrap_used)]

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use nandex::ordered::bplus::Fill;
use nandex::ordered::{OrderedIndex, RecordFormat};
use nandex::rng::Rng;
use nandex::store::ram::RamStore;
use nandex_papers::ordered::lazy_update::{CommitPolicy, LazyUpdateConfig, LazyUpdateTree};

const BATCH: u64 = 1_000;

fn main() {
    divan::main();
}

const REQUESTS: [u32; 4] = [1_000, 10_000, 100_000, 1_000_000];

#[divan::bench(args = REQUESTS, sample_count = 20, sample_size = 1)]
fn biggest(bencher: Bencher<'_, '_>, requests: u32) {
    insert(bencher, requests, CommitPolicy::BiggestSize);
}

#[divan::bench(args = REQUESTS, sample_count = 20, sample_size = 1)]
fn cost(bencher: Bencher<'_, '_>, requests: u32) {
    insert(bencher, requests, CommitPolicy::CostBased);
}

#[divan::bench(args = REQUESTS, sample_count = 20, sample_size = 1)]
fn lru(bencher: Bencher<'_, '_>, requests: u32) {
    insert(bencher, requests, CommitPolicy::Lru);
}

#[divan::bench(args = REQUESTS, sample_count = 20, sample_size = 1)]
fn fifo(bencher: Bencher<'_, '_>, requests: u32) {
    insert(bencher, requests, CommitPolicy::Fifo);
}

fn insert(bencher: Bencher<'_, '_>, requests: u32, policy: CommitPolicy) {
    let record = RecordFormat::new(8, 4);
    let records = u64::from(requests).max(50_000) * 2;
    // Room for the records, twice over, at some 80 a page.
    let store = RamStore::new(2048, (records / 40 + 1_000) as u32);
    let config = LazyUpdateConfig { policy, ..LazyUpdateConfig::new(record, requests) };
    let mut index = LazyUpdateTree::format(store, &config).unwrap();
    index.bulk_load((0..records).map(|n| ((2 * n).to_be_bytes(), [0; 4])), Fill::FULL).unwrap();
    let mut rng = Rng::new(1);
    let mut key = move || (2 * rng.below(records) + 1).to_be_bytes();
    while index.pooled_requests() < requests as usize {
        index.insert(&key(), &[1; 4]).unwrap();
    }
    bencher.counter(ItemsCount::new(BATCH)).bench_local(move || {
        for _ in 0..BATCH {
            black_box(index.insert(&key(), &[2; 4]).unwrap());
        }
    });
}
