//! The page-mapping FTL in steady state: host writes per second on one core, as the chip grows; a mount.
//!
//! `cargo bench --bench ftl`. Pages of 512 bytes, 32 to a block, 12.5 % over-provisioning. The store is full
//! and every write overwrites a page chosen evenly at random, so each costs about two and a half moved pages
//! besides.
#![allow(clippy::unwrap_used)]

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use nandex::blocks::victim::VictimPolicy;
use nandex::cache::{CacheConfig, Lru, PageCache, WriteMode};
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::sim::SimChip;
use nandex::nand::{Part, Timing};
use nandex::rng::Rng;
use nandex::{Cause, Geometry, Lpn, PageStore};

const TIMING: Timing =
    Timing { read_ns: 12_000, program_ns: 200_000, erase_ns: 2_000_000, transfer_ps_per_byte: 25_000 };
const WRITES: u32 = 20_000;
const PAGE_BYTES: u32 = 512;

/// Chip sizes; the largest has 2^21 pages.
const MIB: [u32; 4] = [16, 64, 256, 1024];

fn main() {
    divan::main();
}

fn settings() -> FtlConfig {
    FtlConfig { victim: VictimPolicy::Greedy, ..FtlConfig::default() }
}

/// A store written once over and then at random for half its size.
fn aged(mib: u32) -> PageMapFtl<SimChip> {
    let geometry = Geometry::new(PAGE_BYTES, 16, 32, mib << 6);
    let chip = SimChip::new(&Part::new("bench", geometry, TIMING)).unwrap();
    let mut ftl = PageMapFtl::format(chip, &settings()).unwrap();
    for lpn in 0..ftl.page_count() {
        ftl.write(Lpn(lpn), Cause::Host, &[7; 512]).unwrap();
    }
    let half = ftl.page_count() / 2;
    write_randomly(&mut ftl, half, &mut Rng::new(1));
    ftl
}

fn write_randomly(store: &mut impl PageStore, writes: u32, rng: &mut Rng) {
    let pages = u64::from(store.page_count());
    for i in 0..writes {
        let lpn = Lpn(rng.below(pages) as u32);
        store.write(lpn, Cause::Host, &[i as u8; 512]).unwrap();
    }
}

#[divan::bench(args = MIB, sample_count = 10, sample_size = 1)]
fn overwrite_at_random(bencher: Bencher<'_, '_>, mib: u32) {
    let (mut ftl, mut rng) = (aged(mib), Rng::new(2));
    bencher.counter(ItemsCount::new(WRITES)).bench_local(|| write_randomly(&mut ftl, WRITES, &mut rng));
}

#[divan::bench(args = MIB, sample_count = 10, sample_size = 1)]
fn overwrite_in_turn(bencher: Bencher<'_, '_>, mib: u32) {
    let (mut ftl, mut next) = (aged(mib), 0);
    bencher.counter(ItemsCount::new(WRITES)).bench_local(|| {
        for _ in 0..WRITES {
            next = (next + 1) % ftl.page_count();
            ftl.write(Lpn(next), Cause::Host, &[next as u8; 512]).unwrap();
        }
    });
}

#[divan::bench(args = MIB, sample_count = 10, sample_size = 1)]
fn read_at_random(bencher: Bencher<'_, '_>, mib: u32) {
    let (mut ftl, mut rng) = (aged(mib), Rng::new(2));
    let pages = u64::from(ftl.page_count());
    let mut data = [0; 512];
    bencher.counter(ItemsCount::new(WRITES)).bench_local(|| {
        for _ in 0..WRITES {
            ftl.read(Lpn(rng.below(pages) as u32), Cause::Host, &mut data).unwrap();
        }
        black_box(data[0])
    });
}

#[divan::bench(args = [16, 256], sample_count = 10, sample_size = 1)]
fn mount_after_a_cut(bencher: Bencher<'_, '_>, mib: u32) {
    let chip = aged(mib).into_nand();
    bencher
        .with_inputs(|| chip.clone())
        .bench_local_values(|chip| PageMapFtl::mount(chip, &settings()).unwrap().page_count());
}

/// Reads in a cache of 4,096 frames, half of them hits.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn cached_read(bencher: Bencher<'_, '_>) {
    let config = CacheConfig { frames: 4096, mode: WriteMode::Back, dirty_frames_max: None };
    let mut cache = PageCache::new(aged(16), Lru::new(config.frames), config);
    let (mut rng, mut data) = (Rng::new(2), [0; 512]);
    bencher.counter(ItemsCount::new(WRITES)).bench_local(|| {
        for _ in 0..WRITES {
            cache.read(Lpn(rng.below(8192) as u32), Cause::Host, &mut data).unwrap();
        }
        black_box(data[0])
    });
}
