//! The index compared with `BTreeMap`; costs of batches and searches, leaf sizes, full stores, power cuts,
//! damage.

use super::*;
use crate::ordered::journal::{Below, JournalConfig, Journaled};
use crate::ordered::tests::*;
use alloc::vec::Vec;
use nandex::nand::{Cause, NandError};
use nandex::ordered::OrderedIndex;
use nandex::ordered::buffered::Answers;
use nandex::ordered::{Durability, RecordFormat};
use nandex::rng::Rng;
use nandex::store::PageStore;
use nandex::store::StoreError;
use nandex::testing::{Mix, Store};

fn config(leaf_pages: usize, pool_requests: u32) -> MbConfig {
    MbConfig { order: Some(5), leaf_pages, ..MbConfig::new(SMALL, pool_requests) }
}

fn any_config(rng: &mut Rng) -> MbConfig {
    let pool = [1 + rng.below(5), 1 + rng.below(59), 1_000][rng.below(3) as usize] as u32;
    MbConfig {
        answers: if rng.chance(1, 2) { Answers::Exact } else { Answers::Pool },
        write_cost: rng.chance(1, 2).then_some(3),
        ..config(1 + rng.below(6) as usize, pool)
    }
}

#[test]
fn the_index_is_a_sorted_map() {
    crate::inputs::cases(200, |seed| {
        let rng = &mut Rng::new(seed);
        let (config, frames) = (any_config(rng), rng.below(20) as usize);
        let index = MbTree::format(Store::new(128, 900).with_cache(frames), &config).unwrap();
        let remount = |mut index: MbTree<Store>| {
            index.close().unwrap();
            MbTree::mount(index.into_store().with_cache(frames), &config).unwrap()
        };
        live(index, &any_ops(rng), config.answers, &remount, &mut |index, op| {
            assert!(*op != Op::Sync || index.pooled_requests() == 0);
        });
    });
}

fn metric(index: &dyn OrderedIndex, name: &str) -> u64 {
    index.stats().metrics.iter().find(|m| m.name == name).unwrap().value
}

fn host(index: &MbTree<Store>) -> (u64, u64) {
    let counters = index.tree().store().counters();
    (counters.page_reads[0], counters.page_writes[0])
}

/// A loaded tree with 14 entries in the first page of a leaf and 29 in the others.
fn loaded(config: MbConfig, records: u16) -> MbTree<Store> {
    let mut index = MbTree::format(Store::new(128, 900), &config).unwrap();
    let records: Vec<_> = (0..records).map(|n| (key(4 * n), key(n))).collect();
    let count = records.len() as u64;
    assert_eq!(index.load(&mut records.iter().map(|(k, v)| (&k[..], &v[..]))), Ok(count));
    index
}

#[test]
fn a_search_reads_the_header_and_one_page_more() {
    let mut index = loaded(config(6, 10), 150);
    assert_eq!((metric(&index, "leaves"), metric(&index, "leaf_pages"), index.stats().height), (1, 6, 2));
    for (n, pages) in [(0u16, 2), (12 * 4, 2), (13 * 4, 3), (599, 3)] {
        let before = host(&index).0;
        assert_eq!(index.get(&key(n), &mut [0; 2]), Ok(n % 4 == 0), "{n}");
        // The root of the directory, the header, and the page of the key.
        assert_eq!(host(&index).0 - before, pages, "{n}");
    }
}

#[test]
fn a_batch_writes_the_pages_that_it_meets_and_the_header() {
    let fixed = MbConfig { write_cost: None, answers: Answers::Pool, ..config(6, 10) };
    let mut index = loaded(fixed, 130);
    for n in 49..60u16 {
        index.remove(&key(4 * n)).unwrap();
        index.remove(&key(4 * n + 200)).unwrap();
    }
    index.sync().unwrap();
    let batches = metric(&index, "batches");
    // Three new keys for one page, one for another.
    for n in [200u16, 208, 212, 400] {
        index.insert(&key(n + 1), &[7; 2]).unwrap();
    }
    let before = host(&index);
    index.sync().unwrap();
    let after = host(&index);
    assert_eq!(
        (after.0 - before.0, after.1 - before.1),
        (1 + 3, 3),
        "root and three pages read, three written"
    );
    assert_eq!((metric(&index, "repacks"), metric(&index, "batches")), (0, batches + 1));
}

#[test]
fn the_victim_has_the_most_requests() {
    let mut index = loaded(MbConfig { write_cost: None, ..config(2, 6) }, 300);
    // Leaves of 51: two requests for the first, four for the third.
    for n in [0u16, 4, 420, 424, 428, 432] {
        index.insert(&key(n + 1), &[7; 2]).unwrap();
    }
    assert_eq!((metric(&index, "pool_groups"), index.pooled_requests()), (2, 6));
    index.insert(&key(1000), &[7; 2]).unwrap();
    assert_eq!((metric(&index, "committed_requests"), index.pooled_requests()), (4, 3));
}

#[test]
fn leaves_grow_page_by_page_and_split_at_their_limit() {
    let mut index =
        MbTree::format(Store::new(128, 900), &MbConfig { write_cost: None, ..config(6, 20) }).unwrap();
    let mut pages = 0;
    for n in 0..2_000u16 {
        index.insert(&key(n.wrapping_mul(7919)), &key(n)).unwrap();
        let now = metric(&index, "leaf_pages");
        assert!(now <= pages + 4, "{now} after {pages}");
        pages = now;
    }
    index.sync().unwrap();
    let (leaves, pages) = (metric(&index, "leaves"), metric(&index, "leaf_pages"));
    assert!(leaves >= 13 && pages >= 4 * leaves && pages * 29 < 2_000 * 3 / 2, "{leaves} {pages}");
    assert!(metric(&index, "leaf_splits") + 1 >= leaves && metric(&index, "splits") > 0);
    assert!(index.check().unwrap().is_sound());
}

#[test]
fn searches_make_leaves_small() {
    let pages = |reads: usize| {
        let mut index = loaded(config(6, 40), 1_000);
        let mut rng = Rng::new(5);
        for _ in 0..4_000 {
            index.insert(&key(rng.below(4_000) as u16), &[1; 2]).unwrap();
            for _ in 0..reads {
                index.get(&key(rng.below(4_000) as u16), &mut [0; 2]).unwrap();
            }
        }
        metric(&index, "leaf_pages") as f64 / metric(&index, "leaves") as f64
    };
    let (few, many) = (pages(0), pages(20));
    assert!(many < 1.3 && few > 1.5 * many, "{few} {many}");
}

#[test]
fn what_waits_longer_is_written_less() {
    let writes = |leaf_pages, pool| {
        let fixed = MbConfig { write_cost: None, answers: Answers::Pool, ..config(leaf_pages, pool) };
        let mut index = loaded(fixed, 4_000);
        let (before, mut rng) = (host(&index).1, Rng::new(5));
        for _ in 0..3_000 {
            index.insert(&key(4 * rng.below(4_000) as u16), &key(rng.below(999) as u16)).unwrap();
        }
        host(&index).1 - before
    };
    for leaf_pages in [1, 6] {
        let [short, long] = [1, 120].map(|pool| writes(leaf_pages, pool));
        assert!(2 * long < short, "{leaf_pages}: {long} {short}");
    }
}

#[test]
fn a_full_store_refuses_and_keeps_what_it_has() {
    for pages in [12, 40, 61] {
        let mut index = MbTree::format(Store::new(128, pages), &config(6, 25)).unwrap();
        let (mut model, mut rng) = (Model::new(), Rng::new(u64::from(pages)));
        let mut refused = 0;
        for _ in 0..6_000 {
            let n = key(rng.below(3_000) as u16);
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
        assert!(refused > 100 && model.len() as u32 > pages * 8, "{refused} {}", model.len());
        assert_holds(&mut index, &model);
        model.keys().for_each(|n| assert_eq!(index.remove(n), Ok(true)));
        index.sync().unwrap();
        assert_sound(&mut index, &Model::new());
    }
}

#[test]
fn a_full_store_takes_records_again_once_some_are_gone() {
    for gone in [Gone::LowerHalf, Gone::UpperHalf, Gone::Scattered] {
        for (pages, leaf_pages, pool) in [(12, 2, 1), (20, 1, 9), (40, 6, 25), (61, 8, 7), (150, 3, 60)] {
            let store = Store::new(128, pages);
            let mut index = MbTree::format(store, &config(leaf_pages, pool)).unwrap();
            assert_takes_again(&mut index, gone, u64::from(pages));
        }
    }
}

#[test]
fn a_power_cut_leaves_each_key_at_its_last_sync_or_later() {
    for writes in 3..160 {
        let config = MbConfig { leaf_pages: 3, ..config(3, 8) };
        let store = Store::new(128, 300);
        let mut index = MbTree::format(store.handle(), &config).unwrap();
        store.fail_after(writes);
        let history = work_until_the_cut(&mut index);
        let store = index.into_store().copy();
        let mut index = MbTree::mount_after_cut(store.copy(), &config).unwrap();
        assert!(index.check().unwrap().is_sound());
        history.assert_each_key(&contents(&mut index).unwrap());
        match MbTree::mount(store, &config) {
            Ok(mut index) => assert_eq!(contents(&mut index).unwrap(), *history.synced()),
            Err(error) => assert_eq!(error, IndexError::NotCleanlyClosed),
        }
    }
}

#[test]
fn without_atomic_groups_a_cut_is_reported() {
    let store = Store::new(128, 300).with_atomic_pages(4);
    let mut index = MbTree::format(store, &config(6, 8)).unwrap();
    (0..100u16).for_each(|n| assert_eq!(index.insert(&key(n), &[0; 2]), Ok(false)));
    let store = index.into_store();
    assert_eq!(MbTree::mount_after_cut(store, &config(6, 8)).err(), Some(IndexError::NotCleanlyClosed));
}

#[test]
fn a_journal_loses_nothing() {
    for writes in 12..200 {
        let config = MbConfig { leaf_pages: 3, ..config(3, 8) };
        let journal = JournalConfig::new(Durability::EveryOperation);
        type Tree<S> = Journaled<S, MbTree<Below>>;
        let store = Store::new(128, 300);
        let mut index = Tree::format(store.handle(), &(config, journal)).unwrap();
        store.fail_after(writes);
        let mut history = History::new(Model::new());
        let error = history.work(&mut index, &mut Rng::new(writes), Mix::updates(200, [2, 1], 0));
        assert_eq!(error, IndexError::Store(StoreError::Nand(NandError::PowerLost)));
        let store = index.into_store().copy();
        let mut index = Tree::mount(store, &(config, journal)).unwrap();
        let found = contents(&mut index).unwrap();
        assert!(history.had(&found, history.acknowledged()), "after {writes} writes");
        assert!(index.check().unwrap().is_sound());
    }
}

#[test]
fn forged_pages_never_make_it_panic() {
    crate::inputs::cases(150, |seed| {
        let rng = &mut Rng::new(seed);
        let config = MbConfig { order: Some(4), leaf_pages: 2, ..MbConfig::new(SMALL, 6) };
        let mut index = MbTree::format(Store::new(64, 60), &config).unwrap();
        for n in 0..70u16 {
            index.insert(&key(n), &[2; 2]).unwrap();
        }
        index.close().unwrap();
        let store = index.into_store();
        forge(&store, any_forgeries(rng, (40, 64), 6));
        if let Ok(mut index) = MbTree::mount(store, &config) {
            use_forged(&mut index, rng.next_u64());
        }
    });
}

#[test]
fn a_flipped_bit_is_an_error_and_no_other_answer() {
    let mut index = loaded(config(6, 10), 400);
    index.close().unwrap();
    let store = index.into_store();
    for lpn in 0..store.page_count() {
        let mut damaged = store.copy();
        let mut page = [0; 128];
        damaged.read(Lpn(lpn), Cause::Check, &mut page).unwrap();
        page[(lpn as usize * 37) % 128] ^= 4;
        damaged.write(Lpn(lpn), Cause::Check, &page).unwrap();
        let Ok(mut index) = MbTree::mount(damaged, &config(6, 10)) else { continue };
        for n in 0..400u16 {
            let mut value = [0; 2];
            match index.get(&key(4 * n), &mut value) {
                Ok(found) => assert!(found && value == key(n)),
                Err(error) => assert!(matches!(error, IndexError::Corrupted { .. }), "{error}"),
            }
        }
    }
}

#[test]
fn what_cannot_work_is_refused_and_the_ram_is_told() {
    let store = || Store::new(128, 300);
    let refused = |config| matches!(MbTree::format(store(), &config).err(), Some(IndexError::Unsupported(_)));
    assert!(refused(config(6, 0)));
    assert!(refused(MbConfig { durability: Durability::EverySync, ..config(6, 5) }));
    assert!(refused(MbConfig::new(RecordFormat::new(60, 60), 5)));
    let mut index = MbTree::format(store(), &config(6, 50)).unwrap();
    for n in 0..1_500u16 {
        index.insert(&key(n.wrapping_mul(7919)), &[0; 2]).unwrap();
    }
    index.sync().unwrap();
    let most = config(6, 50).ram_bytes_max(&store()).unwrap()
        + config(6, 50).pool_bytes(crate::ordered::lazy_update::PoolCount::Held);
    let held = index.ram_bytes() - index.tree().store().ram_bytes();
    assert!(held <= most && held > most / 2, "{held} {most}");
    let store = index.into_store();
    assert!(matches!(MbTree::mount(store.copy(), &config(5, 50)).err(), Some(IndexError::NotFormatted(_))));
    assert!(MbTree::mount(store, &config(6, 9)).is_ok());
}
