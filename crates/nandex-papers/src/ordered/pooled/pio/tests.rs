//! The index compared with `BTreeMap`; searches for many keys compared with single ones; costs of batches,
//! channels, cuts, damage.

use super::*;
use crate::ftl::lazy::{LazyConfig, LazyFtl};
use crate::ordered::journal::{Below, JournalConfig, Journaled};
use crate::ordered::lazy_update::PoolCount;
use crate::ordered::tests::*;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Bound, ControlFlow};
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::sim::SimChip;
use nandex::nand::{Cause, Geometry, NandError, catalogue};
use nandex::ordered::buffered::Answers;
use nandex::ordered::{Direction, Durability, OrderedIndex, RecordFormat};
use nandex::rng::Rng;
use nandex::store::{PageStore, StoreError};
use nandex::testing::{Mix, Store, fill};

fn config(leaf_pages: usize, pool_requests: u32) -> PioConfig {
    PioConfig { order: Some(5), leaf_pages, requests: 6, ..PioConfig::new(SMALL, pool_requests) }
}

fn any_config(rng: &mut Rng) -> PioConfig {
    let pool = [1 + rng.below(5), 1 + rng.below(59), 1_000][rng.below(3) as usize] as u32;
    PioConfig {
        answers: if rng.chance(1, 2) { Answers::Exact } else { Answers::Pool },
        requests: 1 + rng.below(19) as usize,
        ..config(2 + rng.below(3) as usize, pool)
    }
}

#[test]
fn the_index_is_a_sorted_map() {
    crate::inputs::cases(200, |seed| {
        let rng = &mut Rng::new(seed);
        let (config, frames) = (any_config(rng), rng.below(20) as usize);
        let index = PioTree::format(Store::new(64, 1_500).with_cache(frames), &config).unwrap();
        let remount = |mut index: PioTree<Store>| {
            index.close().unwrap();
            PioTree::mount(index.into_store().with_cache(frames), &config).unwrap()
        };
        live(index, &any_ops(rng), config.answers, &remount, &mut |index, op| {
            assert!(*op != Op::Sync || index.pooled_requests() == 0);
        });
    });
}

#[test]
fn a_search_for_many_keys_finds_what_single_ones_do() {
    crate::inputs::cases(200, |seed| {
        let rng = &mut Rng::new(seed);
        let mut index = loaded(config(2, 10), 1_500);
        let count = 1 + rng.below(199);
        let keys: BTreeSet<u16> = (0..count).map(|_| rng.below(9_000) as u16).chain([0]).collect();
        let frames = 1 + rng.below(29) as usize;
        let keys: Vec<_> = keys.into_iter().map(key).collect();
        let some: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let directory = &mut index.tree.directory;
        let together = directory.names_of(&some, frames).unwrap();
        let one_by_one = together.iter().flat_map(|&(page, count)| core::iter::repeat_n(page, count));
        let found: Vec<Lpn> = one_by_one.collect();
        for (key, found) in keys.iter().zip(&found) {
            assert_eq!(directory.name_of(key, Cause::Host).unwrap().unwrap().page, *found);
        }
        assert_eq!(found.len(), keys.len());
    });
}

fn metric(index: &dyn OrderedIndex, name: &str) -> u64 {
    index.stats().metrics.iter().find(|m| m.name == name).unwrap().value
}

fn host(index: &PioTree<Store>) -> (u64, u64, u64) {
    let counters = index.tree().store().counters();
    (counters.page_reads[0], counters.page_writes[0], counters.batches)
}

/// A loaded tree with 20 records to a page of 128 bytes.
fn loaded(config: PioConfig, records: u16) -> PioTree<Store> {
    let mut index = PioTree::format(Store::new(128, 1_200), &config).unwrap();
    let records: Vec<_> = (0..records).map(|n| (key(6 * n), key(n))).collect();
    let count = records.len() as u64;
    assert_eq!(index.load(&mut records.iter().map(|(k, v)| (&k[..], &v[..]))), Ok(count));
    index
}

#[test]
fn a_leaf_update_writes_one_page_and_the_queue_is_sorted() {
    let mut index = loaded(PioConfig { answers: Answers::Pool, ..config(4, 30) }, 600);
    assert_eq!(metric(&index, "leaves"), 10, "60 of 80 records each");
    // Three leaves, and as far as they are known nothing but their last segments is read.
    for n in [1_000u16, 1, 2_000, 2_002, 7, 9] {
        index.insert(&key(n | 1), &[7; 2]).unwrap();
    }
    let queue: Vec<_> = index.pool_keys().collect();
    assert!(queue.is_sorted() && queue.len() == 6, "{queue:?}");
    let before = host(&index);
    index.sync().unwrap();
    let after = host(&index);
    assert_eq!(after.1 - before.1, 3, "a segment more for each of three leaves");
    // Three full segments are read to append after them, the root of the directory and two nodes below it.
    assert_eq!(metric(&index, "rounds"), 1);
    assert!(after.0 - before.0 <= 3 + 4, "{} reads", after.0 - before.0);
}

#[test]
fn a_search_reads_the_used_segments_as_one_batch() {
    let mut index = loaded(config(4, 30), 60);
    let before = host(&index);
    assert_eq!(index.get(&key(12), &mut [0; 2]), Ok(true));
    let after = host(&index);
    assert_eq!((after.0 - before.0, after.2 - before.2), (1 + 3, 1), "the root, three segments");
}

/// Makes random insertions and then searches in an index on chips. Returns time, page reads and page
/// programs of each.
fn on_channels(channels: u32) -> [(u64, u64, u64); 2] {
    let mut part = catalogue::find("slc-array-8").unwrap().clone().with_blocks(64);
    part.geometry.channels = channels;
    let ftl = PageMapFtl::format(SimChip::new(&part).unwrap(), &FtlConfig::default()).unwrap();
    let config = PioConfig { answers: Answers::Pool, ..PioConfig::new(RecordFormat::new(4, 4), 2_000) };
    let mut index = PioTree::format(ftl, &config).unwrap();
    let records: Vec<_> = (0..100_000u32).map(|n| ((n * 10).to_be_bytes(), [0; 4])).collect();
    index.load(&mut records.iter().map(|(k, v)| (&k[..], &v[..]))).unwrap();
    let mut rng = Rng::new(4);
    let mut measured = |index: &mut PioTree<PageMapFtl<SimChip>>, get: bool| {
        let facts = |index: &PioTree<PageMapFtl<SimChip>>| {
            let chip = index.tree().store().nand();
            let counters = chip.counters();
            (chip.time().0, counters.page_reads_total(), counters.page_programs_total())
        };
        let before = facts(index);
        for _ in 0..if get { 500 } else { 6_000 } {
            let key = (rng.below(1_000_000) as u32).to_be_bytes();
            if get {
                index.get(&key, &mut [0; 4]).unwrap();
            } else {
                index.insert(&key, &[1; 4]).unwrap();
            }
        }
        let after = facts(index);
        (after.0 - before.0, after.1 - before.1, after.2 - before.2)
    };
    [measured(&mut index, false), measured(&mut index, true)]
}

#[test]
fn eight_channels_save_time_and_nothing_else() {
    let ([one, one_get], [eight, eight_get]) = (on_channels(1), on_channels(8));
    assert_eq!((one.1, one.2, one_get.1), (eight.1, eight.2, eight_get.1), "every page is counted");
    let (update, search) = (one.0 as f64 / eight.0 as f64, one_get.0 as f64 / eight_get.0 as f64);
    assert!(update > 4.0 && update <= 8.0, "{update}");
    assert!(search > 1.3 && search <= 8.0, "{search}");
}

#[test]
fn the_first_records_of_a_range_cost_one_leaf() {
    let mut index = loaded(PioConfig { requests: 40, ..config(4, 30) }, 1_200);
    let before = host(&index).0;
    let mut seen = 0;
    let low = key(1_000);
    index
        .range(Bound::Included(&low), Bound::Unbounded, Direction::Ascending, &mut |_, _| {
            seen += 1;
            ControlFlow::Break(())
        })
        .unwrap();
    assert!(seen == 1 && host(&index).0 - before <= 3 + 3);
    let all = host(&index);
    assert_eq!(contents(&mut index).unwrap().len(), 1_200);
    assert_eq!(metric(&index, "leaves"), 20);
    assert_eq!(host(&index).2 - all.2, 5, "1, 2, 4, 8 and 5 leaves");
}

#[test]
fn a_full_store_refuses_and_keeps_what_it_has() {
    for pages in [30, 80, 150] {
        let mut index = PioTree::format(Store::new(128, pages), &config(3, 25)).unwrap();
        let (mut model, mut rng) = (Model::new(), Rng::new(u64::from(pages)));
        let mut refused = 0;
        for _ in 0..8_000 {
            let n = key(rng.below(4_000) as u16);
            if rng.below(20) == 0 {
                take(&mut index, &mut model, &n).unwrap();
                continue;
            }
            match put(&mut index, &mut model, &n, &[3; 2]) {
                Ok(_) => {}
                Err(IndexError::Full(_)) => refused += 1,
                Err(error) => panic!("{error}"),
            }
            if rng.below(50) == 0 {
                index.sync().unwrap();
            }
        }
        assert!(refused > 100 && model.len() as u32 > pages * 4, "{refused} {}", model.len());
        assert_holds(&mut index, &model);
        index.sync().unwrap();
    }
}

#[test]
fn a_full_store_takes_records_again_once_some_are_gone() {
    for gone in [Gone::LowerHalf, Gone::UpperHalf, Gone::Scattered] {
        for (pages, leaf_pages, pool) in [(20, 2, 1), (40, 3, 25), (90, 4, 7), (150, 2, 60), (300, 3, 25)] {
            let store = Store::new(128, pages);
            let mut index = PioTree::format(store, &config(leaf_pages, pool)).unwrap();
            assert_takes_again(&mut index, gone, u64::from(pages));
        }
    }
}

#[test]
fn leaves_that_get_empty_leave_the_directory() {
    let mut index = loaded(PioConfig { requests: 40, ..config(2, 100) }, 1_500);
    let leaves = metric(&index, "leaves");
    for round in 0..3 {
        for n in 0..1_500u16 {
            assert_eq!(index.remove(&key(6 * n)), Ok(true));
        }
        index.sync().unwrap();
        assert_sound(&mut index, &Model::new());
        if round < 2 {
            (0..1_500u16).for_each(|n| assert_eq!(index.insert(&key(6 * n), &[1; 2]), Ok(false)));
        }
    }
    assert!(metric(&index, "emptied_leaves") > leaves / 2 && metric(&index, "leaves") < leaves);
}

#[test]
fn a_power_cut_leaves_each_key_at_its_last_sync_or_later() {
    for writes in 3..160 {
        let config = config(2, 8);
        let store = Store::new(64, 400);
        let mut index = PioTree::format(store.handle(), &config).unwrap();
        store.fail_after(writes);
        let history = work_until_the_cut(&mut index);
        let store = index.into_store().copy();
        let mut index = PioTree::mount_after_cut(store.copy(), &config).unwrap();
        history.assert_each_key(&contents(&mut index).unwrap());
        assert!(index.check().unwrap().is_sound());
        match PioTree::mount(store, &config) {
            Ok(mut index) => assert_eq!(contents(&mut index).unwrap(), *history.synced()),
            Err(error) => assert_eq!(error, IndexError::NotCleanlyClosed),
        }
    }
}

#[test]
fn a_power_cut_while_leaves_are_joined_loses_nothing() {
    let config = config(3, 4);
    let mut index = PioTree::format(Store::new(128, 40), &config).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(5));
    fill(&mut index, &mut model, &mut || (key(rng.below(60_000) as u16).to_vec(), vec![3; 2]));
    let gone: Vec<_> = model.keys().filter(|n| n[0] < 150 && n[1] % 8 > 0).cloned().collect();
    for n in gone {
        assert_eq!(take(&mut index, &mut model, &n), Ok(true));
    }
    index.close().unwrap();
    let synced = index.into_store();
    // Until no power is missed: the store is full again.
    for writes in 0.. {
        let mut index = PioTree::mount(synced.copy().failing_after(writes), &config).unwrap();
        let (mut tried, mut rng) = (BTreeSet::new(), Rng::new(6));
        let error = loop {
            let n = key(rng.below(60_000) as u16);
            tried.insert(n.to_vec());
            if let Err(error) = index.insert(&n, &[4; 2]) {
                break error;
            }
        };
        let joins = metric(&index, "leaf_joins");
        let mut index = PioTree::mount_after_cut(index.into_store().copy(), &config).unwrap();
        assert!(index.check().unwrap().is_sound());
        let found = contents(&mut index).unwrap();
        assert!(model.keys().all(|n| found.contains_key(n)), "{writes}");
        let is_known =
            |n: &Vec<u8>, v: &Vec<u8>| model.get(n) == Some(v) || *v == [4; 2] && tried.contains(n);
        assert!(found.iter().all(|(n, v)| is_known(n, v)), "{writes}");
        if error.is_full() {
            assert!(joins > 2 && writes > 50, "{joins} joins, {writes} writes");
            return;
        }
        assert_eq!(error, IndexError::Store(StoreError::Nand(NandError::PowerLost)));
    }
}

#[test]
fn a_journal_loses_nothing() {
    type Tree<S> = Journaled<S, PioTree<Below>>;
    for writes in 12..200 {
        let (config, journal) = (config(2, 8), JournalConfig::new(Durability::EveryOperation));
        let store = Store::new(64, 500);
        let mut index = Tree::format(store.handle(), &(config, journal)).unwrap();
        store.fail_after(writes);
        let mut history = History::new(Model::new());
        let error = history.work(&mut index, &mut Rng::new(writes), Mix::updates(200, [2, 1], 0));
        assert_eq!(error, IndexError::Store(StoreError::Nand(NandError::PowerLost)));
        let mut index = Tree::mount(index.into_store().copy(), &(config, journal)).unwrap();
        let found = contents(&mut index).unwrap();
        assert!(history.had(&found, history.acknowledged()), "after {writes} writes");
        assert!(index.check().unwrap().is_sound());
    }
}

#[test]
fn forged_pages_never_make_it_panic() {
    crate::inputs::cases(150, |seed| {
        let rng = &mut Rng::new(seed);
        let config = PioConfig { order: Some(4), ..config(2, 6) };
        let mut index = PioTree::format(Store::new(64, 120), &config).unwrap();
        for n in 0..70u16 {
            index.insert(&key(n), &[2; 2]).unwrap();
        }
        index.close().unwrap();
        let store = index.into_store();
        forge(&store, any_forgeries(rng, (120, 64), 9));
        if let Ok(mut index) = PioTree::mount(store, &config) {
            use_forged(&mut index, rng.next_u64());
        }
    });
}

#[test]
fn a_flipped_bit_is_an_error_and_no_other_answer() {
    let mut index = loaded(config(4, 10), 400);
    for n in 0..100u16 {
        index.insert(&key(24 * n), &key(4 * n)).unwrap();
    }
    index.close().unwrap();
    let store = index.into_store();
    for lpn in 0..store.page_count() {
        let mut damaged = store.copy();
        let mut page = [0; 128];
        damaged.read(Lpn(lpn), Cause::Check, &mut page).unwrap();
        if page == [0; 128] {
            continue;
        }
        page[(lpn as usize * 37) % 128] ^= 4;
        damaged.write(Lpn(lpn), Cause::Check, &page).unwrap();
        let Ok(mut index) = PioTree::mount(damaged, &config(4, 10)) else { continue };
        for n in 0..400u16 {
            let mut value = [0; 2];
            match index.get(&key(6 * n), &mut value) {
                Ok(found) => assert!(found && value == key(n)),
                Err(error) => assert!(matches!(error, IndexError::Corrupted { .. }), "{error}"),
            }
        }
    }
}

#[test]
fn what_cannot_work_is_refused_and_the_ram_is_told() {
    let store = || Store::new(128, 600);
    let refused =
        |config| matches!(PioTree::format(store(), &config).err(), Some(IndexError::Unsupported(_)));
    assert!(refused(config(1, 5)) && refused(config(17, 5)) && refused(config(4, 0)));
    assert!(refused(PioConfig { durability: Durability::EverySync, ..config(4, 5) }));
    assert!(refused(PioConfig { requests: 0, ..config(4, 5) }));
    assert!(refused(PioConfig::new(RecordFormat::new(60, 60), 5)));
    let mut index = PioTree::format(store(), &config(4, 50)).unwrap();
    for n in 0..1_500u16 {
        index.insert(&key(n.wrapping_mul(7919)), &[0; 2]).unwrap();
    }
    index.sync().unwrap();
    let most = config(4, 50).ram_bytes_max(&store()).unwrap() + config(4, 50).pool_bytes(PoolCount::Held);
    let held = index.ram_bytes() - index.tree().store().ram_bytes();
    assert!(held <= most && held > most / 2, "{held} {most}");
    let store = index.into_store();
    assert!(matches!(PioTree::mount(store.copy(), &config(3, 50)).err(), Some(IndexError::NotFormatted(_))));
    assert!(PioTree::mount(store, &config(4, 9)).is_ok());
}

#[test]
fn a_full_chip_takes_records_again_below_a_journal() {
    for blocks in [16, 20, 24] {
        let mut part = catalogue::find("slc-array-8").unwrap().clone().with_blocks(blocks);
        (part.geometry.channels, part.geometry.page_bytes, part.geometry.pages_per_block) = (1, 2_048, 8);
        let ftl = PageMapFtl::format(SimChip::new(&part).unwrap(), &FtlConfig::default()).unwrap();
        let config = PioConfig::new(RecordFormat::new(8, 8), 500);
        type Tree<S> = Journaled<S, PioTree<Below>>;
        let mut index = Tree::format(ftl, &(config, JournalConfig::new(Durability::EverySync))).unwrap();
        let (mut model, mut rng) = (Model::new(), Rng::new(1));
        for round in 0..4 {
            let inserted =
                fill(&mut index, &mut model, &mut || (rng.next_u64().to_be_bytes().to_vec(), vec![round; 8]));
            assert!(inserted > 60, "{blocks} blocks, round {round}: {inserted} of {}", model.len());
            assert_sound(&mut index, &model);
            for n in model.keys().take(model.len() / 2).cloned().collect::<Vec<_>>() {
                assert_eq!(take(&mut index, &mut model, &n), Ok(true));
            }
        }
    }
}

/// A full store of two leaves refuses a record of a full leaf only if the other is more than half full. So
/// it holds more than 3/2 of a leaf (356 records here) and at most 2 leaves (476). If half of these are
/// removed, it takes back at least the difference, 118.
#[test]
fn a_store_of_two_leaves_takes_records_again_once_some_are_gone() {
    for blocks in [16, 20] {
        let mut part = catalogue::mlc_64m();
        part.geometry = Geometry::new(2048, 64, 8, blocks);
        let ftl = LazyFtl::format(SimChip::new(&part).unwrap(), &LazyConfig::default()).unwrap();
        let config = PioConfig::new(RecordFormat::new(8, 8), 64);
        let journal = JournalConfig::new(Durability::EveryOperation);
        let mut index = Journaled::<_, PioTree<Below>>::format(ftl, &(config, journal)).unwrap();
        let (mut model, mut rng) = (Model::new(), Rng::new(1));
        for round in 0..6u64 {
            let mut next = || (rng.next_u64().to_be_bytes().to_vec(), round.to_be_bytes().to_vec());
            let inserted = fill(&mut index, &mut model, &mut next);
            let leaves = metric(&index, "leaves");
            assert!(inserted > 110, "{blocks} blocks, {leaves} leaves, round {round}: {inserted} inserts");
            assert_holds(&mut index, &model);
            let gone: Vec<Vec<u8>> = model.keys().take(model.len() / 2).cloned().collect();
            gone.iter().for_each(|key| assert_eq!(take(&mut index, &mut model, key), Ok(true)));
        }
        assert!(metric(&index, "leaf_shares") > 0 || blocks > 16, "the smaller one has two leaves");
    }
}
