//! CPU time of each replacement policy per access, as the cache grows from a thousand to a million frames.
//!
//! `cargo bench --bench cache`; `-- hit` or `-- 1000000` for a part. The store below answers at once and
//! pages have 16 bytes, so what is left is the cache: look-up, policy, eviction. A time that stays the same
//! from size to size but for misses of the processor's own caches shows that no eviction looks at the whole
//! cache.
#![allow(clippy::unwrap_used)]

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use nandex::cache::{CacheConfig, PageCache, Replacement, WriteMode};
use nandex::rng::Rng;
use nandex::{Cause, Lpn, PageStore, StoreError};
use nandex_papers::cache::PolicyConfig;
use nandex_papers::cache::catalogue::POLICIES;

const PAGE_BYTES: usize = 16;
const ACCESSES: u64 = 20_000;
const FRAMES: [u32; 4] = [1_000, 10_000, 100_000, 1_000_000];

fn main() {
    divan::main();
}

/// Takes every write and answers zeros.
struct Sink;

impl PageStore for Sink {
    fn page_bytes(&self) -> usize {
        PAGE_BYTES
    }
    fn page_count(&self) -> u32 {
        u32::MAX
    }
    fn read(&mut self, _: Lpn, _: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        data.fill(0);
        Ok(())
    }
    fn write(&mut self, _: Lpn, _: Cause, data: &[u8]) -> Result<(), StoreError> {
        black_box(data);
        Ok(())
    }
    fn trim(&mut self, _: Lpn) -> Result<(), StoreError> {
        Ok(())
    }
    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
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

type Cache = PageCache<Sink, Box<dyn Replacement>>;

/// Every policy at every size, as `policy/frames`.
fn cases() -> impl Iterator<Item = Case> {
    POLICIES.iter().flat_map(|entry| FRAMES.map(|frames| Case { policy: entry.name, frames }))
}

#[derive(Clone, Copy)]
struct Case {
    policy: &'static str,
    frames: u32,
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.policy, self.frames)
    }
}

impl Case {
    /// A full cache of pages `0..frames`, all of them written if they are to be dirty, else every second one.
    fn full(self, mode: WriteMode, all_written: bool) -> Cache {
        let frames = self.frames as usize;
        let entry = POLICIES.iter().find(|entry| entry.name == self.policy).unwrap();
        let config = CacheConfig { frames, mode, dirty_frames_max: None };
        let mut cache = PageCache::new(Sink, (entry.make)(&PolicyConfig::new(frames)), config);
        for lpn in 0..self.frames {
            access(&mut cache, lpn, all_written || lpn % 2 == 0);
        }
        cache
    }
}

fn access(cache: &mut Cache, lpn: u32, write: bool) {
    if write {
        cache.write(Lpn(lpn), Cause::Host, &[1; PAGE_BYTES]).unwrap();
    } else {
        cache.read(Lpn(lpn), Cause::Host, black_box(&mut [0; PAGE_BYTES])).unwrap();
    }
}

fn run(bencher: Bencher<'_, '_>, cache: &mut Cache, mut next: impl FnMut(&mut Rng) -> (u32, bool)) {
    let mut rng = Rng::new(5);
    bencher.counter(ItemsCount::new(ACCESSES)).bench_local(|| {
        for _ in 0..ACCESSES {
            let (lpn, write) = next(&mut rng);
            access(cache, lpn, write);
        }
    });
}

/// Reads and writes of pages in the cache.
#[divan::bench(args = cases(), sample_count = 5, sample_size = 1)]
fn hit(bencher: Bencher<'_, '_>, case: Case) {
    let mut cache = case.full(WriteMode::Back, false);
    let pairs = u64::from(case.frames / 2);
    run(bencher, &mut cache, |rng| (2 * rng.below(pairs) as u32, rng.chance(1, 4)));
}

/// Reads of pages that are not in the cache; each puts a clean page out.
#[divan::bench(args = cases(), sample_count = 5, sample_size = 1)]
fn miss_and_clean_eviction(bencher: Bencher<'_, '_>, case: Case) {
    let mut cache = case.full(WriteMode::Through, false);
    run(bencher, &mut cache, |rng| (1 << 30 | rng.below(1 << 30) as u32, false));
}

/// Writes of pages that are not in the cache; each puts a dirty page out.
#[divan::bench(args = cases(), sample_count = 5, sample_size = 1)]
fn miss_and_dirty_eviction(bencher: Bencher<'_, '_>, case: Case) {
    let mut cache = case.full(WriteMode::Back, true);
    run(bencher, &mut cache, |rng| (1 << 30 | rng.below(1 << 30) as u32, true));
}

/// Reads and writes of twice as many pages as the cache holds.
#[divan::bench(args = cases(), sample_count = 5, sample_size = 1)]
fn mixed(bencher: Bencher<'_, '_>, case: Case) {
    let mut cache = case.full(WriteMode::Back, false);
    let pages = 2 * u64::from(case.frames);
    run(bencher, &mut cache, |rng| (rng.below(pages) as u32, rng.chance(1, 2)));
}
