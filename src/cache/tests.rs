//! Tests of the cache over pages in memory: its pages, counts and promises.

use super::*;
use crate::nand::Cause;
use crate::rng::Rng;
use crate::store::{PageStore, StoreError};
use crate::testing::Store;
use crate::units::Lpn;
use alloc::vec::Vec;

const EVICTION: usize = Cause::CacheEviction as usize;
const HOST: usize = Cause::Host as usize;

fn cache(store: Store, frames: usize, mode: WriteMode) -> PageCache<Store, Lru> {
    PageCache::new(store, Lru::new(frames), CacheConfig { frames, mode, dirty_frames_max: None })
}

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

#[test]
fn hits_misses_and_victims_are_those_of_lru() {
    for mode in [WriteMode::Through, WriteMode::Back] {
        let mut rng = Rng::new(8);
        let mut cache = cache(store().with_atomic_pages(1), 5, mode);
        // Least recently used first: page, dirty.
        let mut model: Vec<(u32, bool)> = Vec::new();
        let mut expected = CacheCounters::default();
        for step in 0..5000u32 {
            let lpn = (rng.below(12) * rng.below(3)) as u32;
            let is_write = rng.chance(1, 3);
            let found = model.iter().position(|&(other, _)| other == lpn);
            let was_dirty = found.is_some_and(|i| model.remove(i).1);
            let counter = match (is_write, found.is_some()) {
                (false, true) => &mut expected.read_hits,
                (false, false) => &mut expected.read_misses,
                (true, true) => &mut expected.write_hits,
                (true, false) => &mut expected.write_misses,
            };
            *counter += 1;
            if model.len() == 5 {
                let (_, dirty) = model.remove(0);
                expected.dirty_evictions += u64::from(dirty);
                expected.clean_evictions += u64::from(!dirty);
            }
            model.push((lpn, mode == WriteMode::Back && (is_write || was_dirty)));
            if is_write {
                write(&mut cache, lpn, step as u8);
            } else {
                let _ = read(&mut cache, lpn);
            }
            assert_eq!(cache.counters(), expected, "step {step}");
        }
        let counted = cache.store().counters();
        assert_eq!(counted.page_reads[HOST], expected.read_misses);
        assert_eq!(counted.page_writes[EVICTION], expected.dirty_evictions);
        let through = expected.write_hits + expected.write_misses;
        assert_eq!(counted.page_writes[HOST], if mode == WriteMode::Through { through } else { 0 });
    }
}

#[test]
fn dirty_pages_leave_together() {
    let mut cache = cache(store(), 4, WriteMode::Back);
    assert!(cache.prefix_consistent() && !cache.durable_writes());
    (0..4).for_each(|lpn| write(&mut cache, lpn, lpn as u8 + 1));
    assert_eq!(cache.store().counters().page_writes[EVICTION], 0);
    write(&mut cache, 1, 9);
    write(&mut cache, 7, 8);
    assert_eq!((cache.store().counters().page_writes[EVICTION], cache.dirty_frames()), (4, 1));
    assert_eq!(read(&mut cache, 20), 0);
    assert_eq!(cache.counters().dirty_evictions, 0, "the least recently used page is clean by now");
    cache.sync().unwrap();
    let mut store = cache.into_store();
    let left: Vec<u8> = [0, 1, 2, 3, 7].map(|lpn| read(&mut store, lpn)).to_vec();
    assert_eq!(left, [1, 9, 3, 4, 8]);
}

#[test]
fn a_group_is_never_divided() {
    let group =
        |tag: u8, lpns: &[u32]| -> Vec<(Lpn, [u8; 8])> { lpns.iter().map(|&l| (Lpn(l), [tag; 8])).collect() };
    for limit in 2..7 {
        let mut rng = Rng::new(limit as u64);
        let mut cache = PageCache::new(
            store(),
            Lru::new(6),
            CacheConfig { frames: 6, mode: WriteMode::Back, dirty_frames_max: Some(limit) },
        );
        for tag in 1..200u8 {
            // Pages 0..3 always carry the same tag; others make the cache flush at odd moments.
            let pages = group(tag, &[0, 1, 2, 3]);
            let pages: Vec<(Lpn, &[u8])> = pages.iter().map(|(lpn, d)| (*lpn, &d[..])).collect();
            cache.write_atomic(&pages, Cause::Host).unwrap();
            for _ in 0..rng.below(4) {
                write(&mut cache, 8 + rng.below(8) as u32, tag);
                let _ = read(&mut cache, rng.below(20) as u32);
            }
            let mut below = cache.store().copy();
            let tags: Vec<u8> = (0..4).map(|lpn| read(&mut below, lpn)).collect();
            assert!(tags.iter().all(|&t| t == tags[0]), "{tags:?} under a limit of {limit}");
            assert!(cache.dirty_frames() <= limit);
        }
    }
}

#[test]
fn a_trim_waits_for_what_was_written_before() {
    let mut cache = cache(store(), 4, WriteMode::Back);
    write(&mut cache, 5, 1);
    cache.sync().unwrap();
    write(&mut cache, 6, 2);
    cache.trim(Lpn(5)).unwrap();
    assert_eq!((read(&mut cache, 5), cache.store().counters().trims), (0, 0));
    cache.sync().unwrap();
    assert_eq!((read(&mut cache, 5), cache.store().counters().trims), (0, 1));
    write(&mut cache, 6, 3);
    cache.trim(Lpn(5)).unwrap();
    write(&mut cache, 5, 4);
    cache.sync().unwrap();
    assert_eq!((read(&mut cache, 5), read(&mut cache.into_store(), 5)), (4, 4));
}

#[test]
fn looking_on_changes_nothing() {
    let mut cache = cache(store(), 2, WriteMode::Back);
    write(&mut cache, 1, 1);
    write(&mut cache, 2, 2);
    let before = cache.counters();
    let mut data = [0; 8];
    for lpn in [1, 3, 1, 4] {
        cache.read(Lpn(lpn), Cause::Check, &mut data).unwrap();
    }
    assert_eq!((cache.counters(), cache.dirty_frames()), (before, 2));
    assert_eq!(cache.store().counters().page_reads.iter().sum::<u64>(), 0);
}

#[test]
fn without_frames_everything_passes_through() {
    for mode in [WriteMode::Through, WriteMode::Back] {
        let mut cache = cache(store(), 0, mode);
        assert!(cache.durable_writes() && cache.prefix_consistent());
        write(&mut cache, 3, 7);
        assert_eq!(read(&mut cache, 3), 7);
        assert_eq!(cache.store().counters().page_writes.iter().sum::<u64>(), 1);
    }
}

#[test]
fn over_single_pages_it_says_that_a_cut_mixes() {
    for mut cache in [
        cache(store().with_atomic_pages(1), 4, WriteMode::Back),
        cache(store().with_atomic_pages(8), 4, WriteMode::BackAlone),
    ] {
        assert!(!cache.prefix_consistent() && !cache.durable_writes());
        let group: [(Lpn, &[u8]); 2] = [(Lpn(0), &[1; 8]), (Lpn(1), &[1; 8])];
        assert!(matches!(cache.write_atomic(&group, Cause::Host), Err(StoreError::Unsupported(_))));
        assert_eq!(cache.write(Lpn(32), Cause::Host, &[0; 8]), Err(StoreError::OutOfRange(Lpn(32))));
        assert!(cache.read(Lpn(0), Cause::Host, &mut [0; 7]).is_err());
    }
}
