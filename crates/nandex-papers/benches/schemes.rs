//! Every FTL at 1 GiB: host writes per second on one core, in turn and at random.
//!
//! `cargo bench --bench schemes`. Pages of 2,048 bytes, 64 to a block, 8,192 blocks, default settings. The
//! store is full; so a write at random costs the schemes with log blocks a merge of up to 64 pages, and page
//! mapping about two and a half moved pages. What counts is the time of our code: the simulated chip takes
//! none.
#![allow(clippy::unwrap_used)]

use divan::Bencher;
use divan::counter::ItemsCount;
use nandex::ftl::dftl::Dftl;
use nandex::ftl::mapping::{Scheme, SchemeFtl};
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::sim::SimChip;
use nandex::nand::{Part, Timing};
use nandex::rng::Rng;
use nandex::{Cause, Geometry, Lpn, PageStore};
use nandex_papers::ftl::bast::Bast;
use nandex_papers::ftl::cftl::Cftl;
use nandex_papers::ftl::fast::Fast;
use nandex_papers::ftl::hftl::Hftl;
use nandex_papers::ftl::lazy::Lazy;
use nandex_papers::ftl::nftl::Nftl;
use nandex_papers::ftl::sast::Sast;
use nandex_papers::ftl::superblock::Superblock;

const TIMING: Timing =
    Timing { read_ns: 25_000, program_ns: 200_000, erase_ns: 1_500_000, transfer_ps_per_byte: 25_000 };
const PAGE_BYTES: usize = 2048;
const WRITES: u32 = 4_000;

fn main() {
    divan::main();
}

fn chip() -> SimChip {
    SimChip::new(&Part::new("bench", Geometry::new(PAGE_BYTES as u32, 64, 64, 8192), TIMING)).unwrap()
}

fn filled(mut store: impl PageStore) -> impl PageStore {
    for lpn in 0..store.page_count() {
        store.write(Lpn(lpn), Cause::Host, &[7; PAGE_BYTES]).unwrap();
    }
    store
}

fn in_turn(bencher: Bencher<'_, '_>, store: impl PageStore) {
    let (mut store, mut next) = (filled(store), 0);
    bencher.counter(ItemsCount::new(WRITES)).bench_local(|| {
        for _ in 0..WRITES {
            next = (next + 1) % store.page_count();
            store.write(Lpn(next), Cause::Host, &[next as u8; PAGE_BYTES]).unwrap();
        }
    });
}

fn at_random(bencher: Bencher<'_, '_>, store: impl PageStore) {
    let (mut store, mut rng) = (filled(store), Rng::new(2));
    let pages = u64::from(store.page_count());
    let mut write = |writes: u32| {
        for i in 0..writes {
            let lpn = Lpn(rng.below(pages) as u32);
            store.write(lpn, Cause::Host, &[i as u8; PAGE_BYTES]).unwrap();
        }
    };
    // Until the logs are full, or a good part of what page mapping keeps free.
    write(60_000);
    bencher.counter(ItemsCount::new(WRITES)).bench_local(|| write(WRITES));
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn page_map_in_turn(bencher: Bencher<'_, '_>) {
    in_turn(bencher, PageMapFtl::format(chip(), &FtlConfig::default()).unwrap());
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn page_map_at_random(bencher: Bencher<'_, '_>) {
    at_random(bencher, PageMapFtl::format(chip(), &FtlConfig::default()).unwrap());
}

fn store<S: Scheme>() -> SchemeFtl<SimChip, S>
where
    S::Config: Default,
{
    SchemeFtl::format(chip(), &S::Config::default()).unwrap()
}

#[divan::bench(types = [Nftl, Bast, Sast, Fast, Superblock, Dftl, Lazy, Cftl, Hftl], sample_count = 5, sample_size = 1)]
fn scheme_in_turn<S: Scheme>(bencher: Bencher<'_, '_>)
where
    S::Config: Default,
{
    in_turn(bencher, store::<S>());
}

#[divan::bench(types = [Nftl, Bast, Sast, Fast, Superblock, Dftl, Lazy, Cftl, Hftl], sample_count = 5, sample_size = 1)]
fn scheme_at_random<S: Scheme>(bencher: Bencher<'_, '_>)
where
    S::Config: Default,
{
    at_random(bencher, store::<S>());
}
