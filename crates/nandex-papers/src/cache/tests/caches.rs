//! Caches under every policy return the written contents, and some policies equal LRU under certain settings.

use crate::cache::PolicyConfig;
use crate::cache::catalogue::{POLICIES, PolicyEntry, policy};
use alloc::boxed::Box;
use alloc::vec::Vec;
use nandex::cache::Replacement;
use nandex::cache::{CacheConfig, CacheCounters, PageCache, WriteMode};
use nandex::nand::Cause;
use nandex::rng::Rng;
use nandex::store::{PageStore, StoreError};
use nandex::testing::{Call, Store};
use nandex::units::Lpn;

type AnyCache<S> = PageCache<S, Box<dyn Replacement>>;

const EVICTION: usize = Cause::CacheEviction as usize;

fn store() -> Store {
    Store::new(8, 32)
}

fn write(cache: &mut impl PageStore, lpn: u32, tag: u8) {
    cache.write(Lpn(lpn), Cause::Host, &[tag; 8]).unwrap();
}

fn read(cache: &mut impl PageStore, lpn: u32) -> u8 {
    let mut data = [0; 8];
    cache.read(Lpn(lpn), Cause::Host, &mut data).unwrap();
    assert_eq!(data, [data[0]; 8]);
    data[0]
}

fn any<S: PageStore>(store: S, entry: &PolicyEntry, frames: usize, mode: WriteMode) -> AnyCache<S> {
    let settings = PolicyConfig { block_pages: 4, cluster_pages: 4, ..PolicyConfig::new(frames) };
    PageCache::new(store, (entry.make)(&settings), CacheConfig { frames, mode, dirty_frames_max: None })
}

/// Makes the store refuse one write in `one_in`, as if it were full or worn out.
fn refuse_at_times(store: &Store, mut rng: Rng, one_in: u64) {
    store.on_call(move |call| match call {
        Call::Write(..) if rng.chance(1, one_in) => {
            Err(if rng.chance(1, 2) { StoreError::WornOut } else { StoreError::Full })
        }
        _ => Ok(()),
    });
}

/// Compares random operations with an array of pages, on a store that refuses some of them.
fn run_any(cache: &mut AnyCache<Store>, rng: &mut Rng, note: &str) {
    let mut model = [0u8; 32];
    for step in 0..3000u32 {
        let lpn = (rng.below(32) * rng.below(3) / 2) as u32;
        let at = lpn as usize;
        match rng.below(20) {
            0 => {
                let _ = cache.sync();
            }
            1 if cache.trim(Lpn(lpn)).is_ok() => model[at] = 0,
            // A refused flush comes after the trim was noted.
            1 => model[at] = 0,
            2..9 => match cache.write(Lpn(lpn), Cause::Host, &[step as u8; 8]) {
                Ok(()) => model[at] = step as u8,
                Err(error) => {
                    assert!(matches!(error, StoreError::Full | StoreError::WornOut), "{note}: {error}");
                }
            },
            _ => assert_eq!(read(cache, lpn), model[at], "{note}: page {lpn} at step {step}"),
        }
    }
    while cache.sync().is_err() {}
    let below: Vec<u8> = (0..32).map(|lpn| read(cache.store_mut(), lpn)).collect();
    assert_eq!(below, model, "{note}");
}

#[test]
fn pages_are_kept_under_every_policy() {
    for entry in POLICIES {
        for (mode, atomic) in [(WriteMode::Through, 1), (WriteMode::Back, 1), (WriteMode::Back, 5)] {
            for (frames, one_in) in [(0, 40), (1, 40), (5, u64::MAX), (7, 40), (24, 20), (40, 40)] {
                let note = alloc::format!("{} {mode:?} {atomic} {frames}", entry.name);
                let pages = store().with_atomic_pages(atomic);
                refuse_at_times(&pages, Rng::new(3), one_in);
                let mut cache = any(pages, entry, frames, mode);
                run_any(&mut cache, &mut Rng::new(frames as u64), &note);
                let counted = cache.counters();
                let written = cache.store().counters().page_writes[EVICTION];
                let told = counted.dirty_evictions + counted.flushed_pages + counted.padding_writes;
                assert!(one_in < u64::MAX || written == told, "{note}: {written} {counted:?}");
                assert!(cache.dirty_frames() == 0);
            }
        }
    }
}

/// Counters after a fixed run of reads, with writes among them if `writes` is set.
fn counters_of(entry: &PolicyEntry, window_percent: u32, writes: bool) -> CacheCounters {
    let settings = PolicyConfig { window_percent: Some(window_percent), ..PolicyConfig::new(9) };
    let config = CacheConfig { frames: 9, mode: WriteMode::Back, dirty_frames_max: None };
    let pages = store().with_atomic_pages(1);
    let mut cache = PageCache::new(pages, (entry.make)(&settings), config);
    let mut rng = Rng::new(12);
    for _ in 0..2000 {
        let lpn = (rng.below(32) * rng.below(3) / 2) as u32;
        if rng.chance(1, 3) && writes {
            write(&mut cache, lpn, 1);
        } else {
            let _ = read(&mut cache, lpn);
        }
    }
    cache.counters()
}

#[test]
fn where_they_should_be_lru_they_are() {
    let entry = |name: &str| policy(name).unwrap();
    let (reads, both) = (counters_of(entry("lru"), 50, false), counters_of(entry("lru"), 50, true));
    for name in ["cflru", "cflru-dynamic", "lru-wsr", "cfdc", "ref"] {
        assert_eq!(counters_of(entry(name), 50, false), reads, "{name} with reads only");
    }
    for name in ["cflru", "cfdc", "ref"] {
        assert_eq!(counters_of(entry(name), 0, true), both, "{name} without a region of its own");
    }
    for name in ["cflru", "cflru-dynamic", "lru-wsr", "ccf-lru", "ad-lru", "cfdc", "acr"] {
        let counted = counters_of(entry(name), 50, true);
        assert!(counted.dirty_evictions < both.dirty_evictions, "{name}: {counted:?}, LRU {both:?}");
    }
}

#[test]
fn a_block_leaves_whole_and_padded() {
    let entry = policy("bplru").unwrap();
    let mut cache = any(store().with_atomic_pages(1), entry, 4, WriteMode::Back);
    write(&mut cache, 30, 1);
    assert_eq!(read(&mut cache, 5), 0);
    for lpn in [5, 6, 9] {
        write(&mut cache, lpn, 2);
    }
    write(&mut cache, 30, 3);
    write(&mut cache, 20, 4);
    let counted = cache.counters();
    assert_eq!((counted.read_hits, counted.read_misses, counted.write_hits), (0, 1, 1));
    assert_eq!((counted.dirty_evictions, counted.padding_reads, counted.padding_writes), (2, 2, 2));
    cache.sync().unwrap();
    assert_eq!(cache.store().counters().page_writes[EVICTION], 4 + 3);
    // A page that came back as a clean one is not read again to pad its block.
    write(&mut cache, 10, 5);
    write(&mut cache, 25, 6);
    let counted = cache.counters();
    assert_eq!((counted.padding_reads, counted.padding_writes), (2, 2), "block 7 is clean: dropped");
    write(&mut cache, 13, 7);
    let counted = cache.counters();
    assert_eq!((counted.clean_evictions, counted.dirty_evictions), (2, 2), "so is block 5");
    write(&mut cache, 1, 8);
    let counted = cache.counters();
    assert_eq!((counted.dirty_evictions, counted.padding_reads, counted.padding_writes), (3, 4, 5));
    assert_eq!((read(&mut cache, 9), read(&mut cache, 10), read(&mut cache, 30)), (2, 5, 3));
}
