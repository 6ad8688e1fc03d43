//! The tree against `BTreeMap`, on full stores, on damaged pages, and cut off at every write.

#[cfg(feature = "full")]
mod apart;
mod cuts;
#[cfg(feature = "in-parts")]
mod least;

use super::page::SUPERBLOCK;
use super::{BPlusConfig, BPlusTree, Fill, Overflow, Underflow};
use crate::check::IndexError;
use crate::codec::{crc32, put_u32};
use crate::nand::NandError;
use crate::ordered::buffered::Answers;
use crate::ordered::{Direction, Durability, OrderedIndex, RecordFormat};
use crate::rng::Rng;
use crate::store::{PageStore, StoreError};
use crate::testing::{
    self, Change, Model, ORDERED, Promise, SINGLE, Store, UNORDERED, WRITE_THROUGH, apply, assert_holds,
    assert_sound, contents, live, ops, put, take, value,
};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Bound, ControlFlow};

type Pages = Vec<Vec<u8>>;

/// The nodes of some configurations are too small; others are drawn then.
fn any_config(rng: &mut Rng) -> (usize, BPlusConfig) {
    const PAGES: [usize; 7] = [64, 64, 96, 128, 256, 1024, 4096];
    const KEYS: [u8; 6] = [1, 2, 4, 8, 16, 255];
    const RULES: [(Overflow, Underflow); 7] = [
        (Overflow::Split, Underflow::Merge),
        (Overflow::Split, Underflow::Merge),
        (Overflow::Split, Underflow::Merge),
        (Overflow::Split, Underflow::Expel),
        (Overflow::Split, Underflow::ExpelLeaves),
        (Overflow::KeepContiguous, Underflow::Expel),
        (Overflow::KeepAscending, Underflow::Expel),
    ];
    loop {
        let page_bytes = PAGES[rng.below(7) as usize];
        let record = RecordFormat::new(KEYS[rng.below(6) as usize], rng.below(40) as u8);
        let (overflow, underflow) = RULES[rng.below(7) as usize];
        let capacities = [2 + rng.below(7) as usize, 3 + rng.below(6) as usize];
        let [leaf, internal] = if rng.chance(1, 2) { capacities.map(Some) } else { [None; 2] };
        let base = BPlusConfig::new(record);
        let config =
            BPlusConfig { leaf_capacity: leaf, internal_capacity: internal, overflow, underflow, ..base };
        if super::Layout::new(&config, page_bytes, 4000).is_ok() {
            return (page_bytes, config);
        }
    }
}

#[test]
fn the_tree_is_a_sorted_map() {
    crate::inputs::cases(600, |seed| {
        let rng = &mut Rng::new(seed);
        let (page_bytes, config) = any_config(rng);
        let tree = BPlusTree::format(Store::new(page_bytes, 4000), &config).unwrap();
        let ram_bytes_max = config.ram_bytes_max(&tree.store.0).unwrap();
        let remount = |tree: BPlusTree<Store>| BPlusTree::mount(tree.into_store(), &config).unwrap();
        live(tree, &ops(rng, 600, 600, config.record), Answers::Exact, &remount, &mut |tree, _| {
            assert!(tree.ram_bytes() <= ram_bytes_max);
        });
    });
}

#[test]
fn a_bulk_load_is_the_same_as_insertions() {
    crate::inputs::cases(600, |seed| {
        let rng = &mut Rng::new(seed);
        let (page_bytes, config) = any_config(rng);
        let record = config.record;
        let loaded = 0..rng.below(1200);
        let mut model: Model =
            loaded.map(|n| (testing::key(n * 3, record), testing::value(n, record))).collect();
        let mut tree = BPlusTree::format(Store::new(page_bytes, 4000), &config).unwrap();
        let fill = Fill::percent(50 + rng.below(51) as u8).unwrap();
        assert_eq!(tree.bulk_load(&model, fill), Ok(model.len() as u64));
        assert_holds(&mut tree, &model);
        assert!(tree.ram_bytes() <= config.ram_bytes_max(&tree.store.0).unwrap());
        // The loaded tree goes on like any other.
        let mut tree = BPlusTree::mount_found(tree.into_store()).unwrap();
        for op in ops(rng, 600, 600, record) {
            apply(&mut tree, &mut model, &op, Answers::Exact);
        }
        assert_holds(&mut tree, &model);
    });
}

fn key(n: u16, record: RecordFormat) -> Vec<u8> {
    testing::key(n.into(), record)
}

const SMALL: RecordFormat = RecordFormat::new(2, 2);

/// Leaves of 4 and internal nodes of 4: a tree that splits and merges at every turn.
fn small_tree(promise: Promise, pages: u32) -> BPlusTree<Store> {
    let is_ordered = promise.prefix && !promise.durable;
    let class = if is_ordered { Durability::EverySync } else { Durability::None };
    let config = BPlusConfig::new(SMALL).with_order(4).with_durability(class);
    BPlusTree::format(Store::new(64, pages).with_promise(promise), &config).unwrap()
}

fn fill(tree: &mut BPlusTree<Store>, model: &mut Model, keys: impl Iterator<Item = u16>) {
    for n in keys {
        assert_eq!(put(tree, model, &key(n, SMALL), &value(u64::from(n), SMALL)), Ok(false));
    }
}

#[test]
fn a_plain_insertion_writes_one_page_and_a_search_reads_one_per_level() {
    let store = Store::new(512, 400);
    store.note_changes();
    let mut tree = BPlusTree::format(store, &BPlusConfig::new(RecordFormat::new(4, 4))).unwrap();
    let mut rng = Rng::new(5);
    for _ in 0..5_000 {
        let key = (rng.next_u64() as u32).to_be_bytes();
        let (reads, writes, before) =
            (tree.store.0.page_reads(), tree.store.0.page_writes(), tree.counts().splits);
        tree.insert(&key, &key).unwrap();
        if tree.counts().splits == before {
            assert_eq!(tree.store.0.page_writes() - writes, 1);
            assert_eq!(tree.store.0.page_reads() - reads, tree.height() as u64);
        }
        let reads = tree.store.0.page_reads();
        assert!(tree.get(&key, &mut [0; 4]).unwrap());
        assert_eq!(tree.store.0.page_reads() - reads, tree.height() as u64);
    }
    assert_eq!(tree.height(), 3);
    let superblock_writes = |step: &&Change| matches!(step, Change::Write(w, _) if w[0].0 == SUPERBLOCK);
    assert_eq!(tree.store.0.changes().iter().filter(superblock_writes).count(), 1);
}

#[test]
fn a_range_reads_only_leaves_with_records_in_it() {
    let mut tree = small_tree(WRITE_THROUGH, 80);
    tree.bulk_load((0..64).map(|n| (key(n, SMALL), [0; 2])), Fill::FULL).unwrap();
    assert_eq!((tree.height(), tree.store.0.page_count()), (3, 80));
    let (low, high) = (key(16, SMALL), key(24, SMALL));
    let bounds = [
        (Bound::Included(&low[..]), Bound::Excluded(&high[..]), 2 + 2),
        (Bound::Excluded(&low), Bound::Included(&high), 2 + 3),
        (Bound::Included(&low), Bound::Included(&low), 2 + 1),
        (Bound::Unbounded, Bound::Excluded(&low), 2 + 4),
        (Bound::Unbounded, Bound::Unbounded, 5 + 16),
        (Bound::Included(&high), Bound::Excluded(&low), 0),
    ];
    for (direction, (low, high, pages)) in
        [Direction::Ascending, Direction::Descending].into_iter().flat_map(|d| bounds.map(|b| (d, b)))
    {
        let reads = tree.store.0.page_reads();
        tree.range(low, high, direction, &mut |_, _| ControlFlow::Continue(())).unwrap();
        assert_eq!(tree.store.0.page_reads() - reads, pages, "{low:?} {high:?} {direction:?}");
    }
}

#[test]
fn no_operation_writes_more_pages_than_declared() {
    let mut tree = small_tree(WRITE_THROUGH, 300);
    let group_pages_max = tree.core.nodes.layout.group_pages_max();
    let mut rng = Rng::new(8);
    for round in 0..6_000 {
        let n = rng.below(400) as u16;
        let writes = tree.store.0.page_writes();
        if (round / 1_000_u32).is_multiple_of(2) {
            tree.insert(&key(n, SMALL), &[0; 2]).unwrap();
        } else {
            tree.remove(&key(n, SMALL)).unwrap();
        }
        assert!(tree.store.0.page_writes() - writes <= group_pages_max as u64);
        assert!(tree.height() <= tree.core.nodes.layout.height_max());
    }
    assert!(tree.counts().merges > 100 && tree.counts().redistributions > 100);
}

#[test]
fn an_emptied_tree_gives_every_page_back() {
    let (mut tree, mut model) = (small_tree(ORDERED, 200), Model::new());
    fill(&mut tree, &mut model, 0..200);
    for n in (0..200).rev() {
        assert_eq!(tree.remove(&key(n, SMALL)), Ok(true));
    }
    assert_eq!((tree.height(), tree.space().used_pages()), (1, 2));
    tree.sync().unwrap();
    assert!(tree.store.0.pages()[2..].iter().flatten().all(|&byte| byte == 0), "every free page is trimmed");
}

#[test]
fn a_full_store_changes_nothing() {
    let (mut tree, mut model) = (small_tree(WRITE_THROUGH, 30), Model::new());
    let mut full = 0;
    for n in (0..1_000u16).map(|n| n * 17 % 1_000) {
        let before = tree.store.0.pages();
        if let Err(error) = put(&mut tree, &mut model, &key(n, SMALL), &[1; 2]) {
            assert_eq!((error, &before), (IndexError::NO_BLOCK, &tree.store.0.pages()));
            full += 1;
        }
    }
    assert!(full > 500 && model.len() > 50);
    assert_sound(&mut tree, &model);
    while let Some((key, _)) = model.pop_first() {
        assert_eq!(tree.remove(&key), Ok(true));
        assert_sound(&mut tree, &model);
    }
}

#[test]
fn a_store_below_that_is_full_changes_nothing() {
    let (mut tree, mut model) = (small_tree(WRITE_THROUGH, 300), Model::new());
    for n in (0..400u16).map(|n| n * 7 % 400) {
        for room in 0.. {
            tree.store.0.refuse_after(room, StoreError::Full);
            match tree.insert(&key(n, SMALL), &[1; 2]) {
                Ok(_) => break,
                Err(error) => assert!(error.is_full()),
            }
        }
        model.insert(key(n, SMALL), vec![1; 2]);
        tree.store.0.refuse_nothing();
        assert_sound(&mut tree, &model);
    }
}

#[test]
fn a_group_written_in_part_ends_the_work_until_the_next_mount() {
    let (mut tree, mut model) = (small_tree(SINGLE, 300), Model::new());
    fill(&mut tree, &mut model, 0..4);
    tree.store.0.refuse_after(1, StoreError::Full);
    assert_eq!(tree.insert(&key(4, SMALL), &[0; 2]), Err(IndexError::Interrupted));
    assert_eq!(tree.get(&key(0, SMALL), &mut [0; 2]), Err(IndexError::Interrupted));
    assert_eq!(BPlusTree::mount_found(tree.into_store()).err(), Some(IndexError::NotCleanlyClosed));
}

#[test]
fn a_write_of_unknown_effect_ends_the_work_until_the_next_mount() {
    let (mut tree, mut model) = (small_tree(WRITE_THROUGH, 300), Model::new());
    fill(&mut tree, &mut model, 0..9);
    tree.store.0.refuse_after(0, StoreError::Nand(NandError::PowerLost));
    let refused = tree.insert(&key(9, SMALL), &[0; 2]);
    assert_eq!(refused, Err(IndexError::Store(StoreError::Nand(NandError::PowerLost))));
    assert_eq!(tree.remove(&key(0, SMALL)), Err(IndexError::Interrupted));
    assert_eq!(tree.sync(), Err(IndexError::Interrupted));
    let mut tree = BPlusTree::mount_found(tree.into_store()).unwrap();
    assert_eq!(contents(&mut tree), Ok(model));
}

#[test]
fn no_room_for_the_mark_changes_nothing() {
    for room in 0..3 {
        let (mut tree, mut model) = (small_tree(SINGLE, 300), Model::new());
        fill(&mut tree, &mut model, 0..3);
        tree.sync().unwrap();
        tree.store.0.refuse_after(room, StoreError::Full);
        let inserted = tree.insert(&key(3, SMALL), &[0; 2]);
        assert_eq!(inserted, if room < 2 { Err(IndexError::NO_BLOCK) } else { Ok(false) });
        tree.store.0.refuse_nothing();
        fill(&mut tree, &mut model, 10..40);
        model.extend((room == 2).then(|| (key(3, SMALL), vec![0; 2])));
        assert_sound(&mut tree, &model);
        tree.close().unwrap();
        assert_eq!(contents(&mut BPlusTree::mount_found(tree.into_store()).unwrap()), Ok(model));
    }
}

#[test]
fn a_mark_that_is_refused_is_a_refusal_and_no_more() {
    let (mut tree, mut model) = (small_tree(SINGLE, 300), Model::new());
    fill(&mut tree, &mut model, 0..9);
    tree.store.0.refuse_after(0, StoreError::WornOut);
    assert_eq!((tree.sync(), tree.close()), (Err(IndexError::WornOut), Err(IndexError::WornOut)));
    assert_eq!(contents(&mut tree), Ok(model.clone()));
    tree.store.0.refuse_nothing();
    tree.close().unwrap();
    let tree = BPlusTree::mount_found(tree.into_store()).unwrap();
    assert_eq!(contents(&mut { tree }), Ok(model));
}

/// A mark whose sync fails may be on the medium all the same. It must be removed before the next change.
#[test]
fn a_mark_whose_sync_is_refused_goes_before_the_next_change() {
    let (mut tree, mut model) = (small_tree(SINGLE, 300), Model::new());
    fill(&mut tree, &mut model, 0..3);
    let mark =
        |tree: &BPlusTree<Store>| crate::ordered::bplus::page::is_marked_clean(&tree.store.0.pages()[0]);
    // The sync before the mark is done, the one after it is not.
    tree.store.0.refuse_syncs_after(1, StoreError::Full);
    assert_eq!((tree.sync(), mark(&tree)), (Err(IndexError::NO_BLOCK), Some(true)));
    tree.store.0.refuse_nothing();
    fill(&mut tree, &mut model, 3..4);
    assert_eq!(mark(&tree), Some(false));
    assert_sound(&mut tree, &model);
}

/// The mark may be gone all the same: the next sync writes another, though nothing was changed.
#[test]
fn a_mark_whose_removal_is_not_synced_is_written_again() {
    let (mut tree, mut model) = (small_tree(SINGLE, 300), Model::new());
    fill(&mut tree, &mut model, 0..3);
    tree.sync().unwrap();
    tree.store.0.refuse_syncs_after(0, StoreError::Full);
    let (n, v) = (key(9, SMALL), value(9, SMALL));
    assert_eq!(tree.insert(&n, &v), Err(IndexError::NO_BLOCK));
    tree.store.0.refuse_nothing();
    tree.sync().unwrap();
    assert_eq!(contents(&mut BPlusTree::mount_found(tree.into_store()).unwrap()), Ok(model));
}

#[test]
fn a_bulk_load_refuses_what_it_cannot_do_and_leaves_the_tree_empty() {
    let mut tree = small_tree(WRITE_THROUGH, 30);
    let record = |n: u16| (key(n, SMALL), [0; 2]);
    let ascending = (0..60).map(record);
    let fill = Fill::FULL;
    for last in [0, 58, 59] {
        let twisted = ascending.clone().chain([record(last)]);
        assert_eq!(tree.bulk_load(twisted, fill), Err(IndexError::NotSorted { position: 60 }));
        assert_sound(&mut tree, &Model::new());
    }
    let wrong = [(vec![0; 3], [0; 2])];
    assert!(matches!(tree.bulk_load(wrong, fill), Err(IndexError::WrongLength { what: "key", .. })));
    assert_eq!(tree.bulk_load((0..5_000).map(record), fill), Err(IndexError::NO_BLOCK));
    assert_eq!((tree.space().used_pages(), contents(&mut tree)), (2, Ok(Model::new())));
    assert_eq!(tree.bulk_load(ascending.clone(), fill), Ok(60));
    assert!(matches!(tree.bulk_load(ascending, fill), Err(IndexError::Unsupported(_))));
    assert!(Fill::percent(49).is_err() && Fill::percent(101).is_err());
}

#[test]
fn what_cannot_work_is_refused_with_the_reason() {
    let refusal =
        |config: BPlusConfig, store: Store| BPlusTree::format(store, &config).err().unwrap().to_string();
    let config = BPlusConfig::new(RecordFormat::new(8, 8));
    assert!(refusal(config, Store::new(32, 9)).contains("2 to 1 entries"));
    assert!(refusal(config.with_order(9), Store::new(64, 9)).contains("a leaf of 9 entries"));
    assert!(refusal(config, Store::new(64, 1)).contains("2 pages"));
    assert!(refusal(config, Store::new(128, 90).with_promise(SINGLE)).contains("takes 1 atomically"));
    assert!(
        refusal(config, Store::new(128, 90).with_promise(ORDERED)).contains("'every operation' is wanted")
    );
    let uneven = BPlusConfig { overflow: Overflow::KeepAscending, ..config };
    assert!(refusal(uneven, Store::new(128, 90)).contains("expelled, not merged"));
    let mut tree = small_tree(WRITE_THROUGH, 20);
    assert!(matches!(tree.insert(&[0; 3], &[0; 2]), Err(IndexError::WrongLength { what: "key", .. })));
    assert!(matches!(tree.get(&[0; 2], &mut [0; 3]), Err(IndexError::WrongLength { what: "value", .. })));
    let unbounded = Bound::Unbounded;
    let ranged = tree
        .range(Bound::Included(&[1]), unbounded, Direction::Ascending, &mut |_, _| ControlFlow::Continue(()));
    assert!(ranged.is_err());
}

#[test]
fn a_mount_refuses_what_is_not_its_tree() {
    let blank = Store::new(64, 20);
    assert!(matches!(BPlusTree::mount_found(blank), Err(IndexError::NotFormatted(_))));
    let tree = small_tree(WRITE_THROUGH, 20);
    let other = BPlusConfig::new(RecordFormat::new(2, 3)).with_order(4);
    assert!(matches!(BPlusTree::mount(tree.into_store(), &other), Err(IndexError::NotFormatted(_))));
    let mut cut_short = small_tree(WRITE_THROUGH, 20).into_store().pages();
    cut_short.pop();
    assert!(matches!(BPlusTree::mount_found(Store::holding(&cut_short)), Err(IndexError::NotFormatted(_))));
}

/// A tree of three levels and its contents.
fn some_tree() -> (Pages, Model) {
    let (mut tree, mut model) = (small_tree(WRITE_THROUGH, 24), Model::new());
    fill(&mut tree, &mut model, (0..30).map(|n| n * 11 % 30));
    assert_eq!(tree.height(), 3);
    (tree.into_store().pages(), model)
}

/// Everything one can ask, on pages that may be damaged: an error, or the right answer.
fn ask_everything(pages: Pages, model: &Model) -> Result<(), IndexError> {
    let mut tree = BPlusTree::mount_found(Store::holding(&pages))?;
    for n in 0..32 {
        let (key, mut found) = (key(n, SMALL), [0; 2]);
        if let Ok(is_present) = tree.get(&key, &mut found) {
            assert_eq!(is_present.then_some(&found[..]), model.get(&key).map(|value| &value[..]));
        }
    }
    assert_eq!(&contents(&mut tree)?, model);
    assert!(tree.check()?.is_sound());
    Ok(())
}

/// Operations of every kind, whatever they answer.
fn use_everything(pages: Pages, seed: u64) {
    let Ok(mut tree) = BPlusTree::mount_found(Store::holding(&pages)) else { return };
    let mut rng = Rng::new(seed);
    for _ in 0..40 {
        let key = key(rng.below(40) as u16, SMALL);
        let _ = match rng.below(3) {
            0 => tree.insert(&key, &[0; 2]),
            1 => tree.remove(&key),
            _ => tree.get(&key, &mut [0; 2]),
        };
    }
    for direction in [Direction::Ascending, Direction::Descending] {
        let high = key(20, SMALL);
        let _ = tree.range(Bound::Unbounded, Bound::Excluded(&high), direction, &mut |_, _| {
            ControlFlow::Continue(())
        });
    }
    let _ = tree.check();
}

#[test]
fn any_flipped_bit_is_an_error_or_harmless() {
    let (pages, model) = some_tree();
    let mut errors = 0;
    for (page, bit) in (0..pages.len()).flat_map(|page| (0..64 * 8).map(move |bit| (page, bit))) {
        let mut damaged = pages.clone();
        damaged[page][bit / 8] ^= 1 << (bit % 8);
        errors += u32::from(ask_everything(damaged.clone(), &model).is_err());
        use_everything(damaged, bit as u64);
    }
    let used = pages.iter().filter(|page| page.iter().any(|&byte| byte != 0)).count();
    assert_eq!(errors as usize, used * 64 * 8, "every bit of a page in use is covered by a checksum");
}

#[test]
fn pages_in_each_others_place_are_noticed() {
    let (pages, model) = some_tree();
    for (a, b) in (0..12).flat_map(|a| (0..12).map(move |b| (a, b))).filter(|(a, b)| a != b) {
        let mut damaged = pages.clone();
        damaged[a] = pages[b].clone();
        assert!(ask_everything(damaged, &model).is_err(), "page {b} in the place of {a}");
    }
}

/// A forger who knows the checksum may mislead the tree, but not crash it or make it run on for ever.
#[test]
fn forged_pages_never_panic() {
    crate::inputs::cases(2_000, |seed| {
        let (mut rng, (mut pages, _)) = (Rng::new(seed), some_tree());
        for _ in 0..1 + rng.below(7) {
            let page = &mut pages[rng.below(24) as usize];
            page[4 + rng.below(60) as usize] = rng.next_u64() as u8;
            let crc = crc32(&[&page[4..]]);
            put_u32(page, 0, crc);
        }
        use_everything(pages, rng.next_u64());
    });
}

/// Upkeep and numbers are asked of the store itself, not of [`super::Below`], which has none of them.
#[test]
fn upkeep_and_numbers_are_those_of_the_store() {
    let chip = testing::schemes::chip(crate::nand::Geometry::new(512, 16, 8, 40));
    let store = crate::PageMapFtl::<crate::nand::sim::SimChip>::format(chip, &Default::default()).unwrap();
    let mut tree = BPlusTree::format(store, &BPlusConfig::new(RecordFormat::new(4, 8))).unwrap();
    assert!(tree.ram_bytes() > tree.store().ram_bytes());
    for key in 0..3000_u32 {
        tree.insert(&(key % 600 * 7919 % 600).to_be_bytes(), &[1; 8]).unwrap();
    }
    assert!(tree.stats().collections > 0, "the numbers of the store are told");
    let checkpoints = tree.store().counters().checkpoints;
    tree.close().unwrap();
    assert!(tree.store().counters().checkpoints > checkpoints, "a close ends in one of the store");
    let free = |tree: &BPlusTree<_>| crate::PageMapFtl::blocks(tree.store()).free_count();
    let before = free(&tree);
    while tree.maintain(8).unwrap() > 0 {}
    assert!(free(&tree) > before, "blocks are collected ahead");
    assert_eq!(tree.scrub(10).unwrap(), tree.store().page_count() - 10);
}
