//! CPU time of the B+-tree itself on a store that is an array: per record, and per page it touches.
//!
//! `cargo bench --bench bplus`. A tree of 100,000 records of 8 + 8 bytes on pages of 4 KiB is three levels
//! high, so a get touches 3 pages and an insertion 4. Each touch copies the page and computes its checksum.
#![allow(clippy::unwrap_used)]

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use nandex::ordered::bplus::{BPlusConfig, BPlusTree, Fill};
use nandex::ordered::{Direction, OrderedIndex, RecordFormat};
use nandex::rng::Rng;
use nandex::{Cause, Lpn, PageStore, StoreError};
use std::ops::{Bound, ControlFlow};

const RECORDS: u64 = 100_000;
const BATCH: u64 = 1_000;
const PAGE_BYTES: usize = 4096;

fn main() {
    divan::main();
}

/// Pages in an array.
#[derive(Clone)]
struct Ram(Vec<u8>);

impl Ram {
    fn page(&mut self, lpn: Lpn) -> &mut [u8] {
        &mut self.0[lpn.index() * PAGE_BYTES..][..PAGE_BYTES]
    }
}

impl PageStore for Ram {
    fn page_bytes(&self) -> usize {
        PAGE_BYTES
    }
    fn page_count(&self) -> u32 {
        (self.0.len() / PAGE_BYTES) as u32
    }
    fn read(&mut self, lpn: Lpn, _: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        data.copy_from_slice(self.page(lpn));
        Ok(())
    }
    fn write(&mut self, lpn: Lpn, _: Cause, data: &[u8]) -> Result<(), StoreError> {
        self.page(lpn).copy_from_slice(data);
        Ok(())
    }
    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        self.page(lpn).fill(0);
        Ok(())
    }
    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
    fn atomic_pages_max(&self) -> usize {
        64
    }
    fn write_atomic(&mut self, pages: &[(Lpn, &[u8])], cause: Cause) -> Result<(), StoreError> {
        pages.iter().try_for_each(|(lpn, data)| self.write(*lpn, cause, data))
    }
    fn durable_writes(&self) -> bool {
        true
    }
    fn prefix_consistent(&self) -> bool {
        true
    }
    fn ram_bytes(&self) -> usize {
        0
    }
}

/// The even keys below `2 * RECORDS`, in nodes filled to 70 percent.
fn tree() -> BPlusTree<Ram> {
    let config = BPlusConfig::new(RecordFormat::new(8, 8));
    let mut tree = BPlusTree::format(Ram(vec![0; 2048 * PAGE_BYTES]), &config).unwrap();
    let records = (0..RECORDS).map(|n| ((2 * n).to_be_bytes(), n.to_be_bytes()));
    tree.bulk_load(records, Fill::percent(70).unwrap()).unwrap();
    tree
}

/// `BATCH` different numbers below `RECORDS`, in random order.
fn sample() -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..RECORDS).collect();
    Rng::new(1).shuffle(&mut numbers);
    numbers.truncate(BATCH as usize);
    numbers
}

#[divan::bench]
fn get(bencher: Bencher<'_, '_>) {
    let (mut tree, keys, mut value) = (tree(), sample(), [0; 8]);
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        keys.iter().filter(|&n| tree.get(&(2 * n).to_be_bytes(), &mut value).unwrap()).count()
    });
}

#[divan::bench]
fn insert_new(bencher: Bencher<'_, '_>) {
    let keys = sample();
    bencher.counter(ItemsCount::new(BATCH)).with_inputs(tree).bench_local_values(|mut tree| {
        for n in &keys {
            tree.insert(&(2 * n + 1).to_be_bytes(), &n.to_be_bytes()).unwrap();
        }
        tree
    });
}

#[divan::bench]
fn overwrite(bencher: Bencher<'_, '_>) {
    let (mut tree, keys) = (tree(), sample());
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        for n in &keys {
            tree.insert(&(2 * n).to_be_bytes(), &n.to_be_bytes()).unwrap();
        }
    });
}

#[divan::bench]
fn remove(bencher: Bencher<'_, '_>) {
    let keys = sample();
    bencher.counter(ItemsCount::new(BATCH)).with_inputs(tree).bench_local_values(|mut tree| {
        for n in &keys {
            tree.remove(&(2 * n).to_be_bytes()).unwrap();
        }
        tree
    });
}

#[divan::bench(args = [Direction::Ascending, Direction::Descending])]
fn range_all(bencher: Bencher<'_, '_>, direction: Direction) {
    let mut tree = tree();
    bencher.counter(ItemsCount::new(RECORDS)).bench_local(|| {
        let visit = &mut |key: &[u8], _: &[u8]| {
            black_box(key);
            ControlFlow::Continue(())
        };
        tree.range(Bound::Unbounded, Bound::Unbounded, direction, visit).unwrap();
    });
}

#[divan::bench]
fn bulk_load() -> BPlusTree<Ram> {
    tree()
}

#[divan::bench]
fn mount(bencher: Bencher<'_, '_>) {
    let store = tree().into_store();
    bencher.with_inputs(|| store.clone()).bench_local_values(|store| BPlusTree::mount_found(store).unwrap());
}
