//! The LSB-tree against `BTreeMap`, cut power, switches and costs, damaged pages, full stores.

use super::*;
use crate::inputs::{sized, stride};
use crate::ordered::journal::{Below, JournalConfig, Journaled};
use crate::ordered::tests::*;
use nandex::ordered::bplus::BPlusConfig;
use nandex::ordered::buffered::Answers;
use nandex::rng::Rng;
use nandex::shared::Shared;
use nandex::store::StoreError;
use nandex::testing::{Call, Mix, Store};

fn config(log_nodes: u32, order: Option<usize>, log_pages: u32) -> LsbConfig {
    let small = LsbConfig::new(SMALL);
    let tree = order.map_or(small.tree, |order| small.tree.with_order(order));
    LsbConfig { tree, log_nodes, log_pages: Some(log_pages), merge_ram: Some(0) }
}

fn any_config(rng: &mut Rng) -> LsbConfig {
    let order = rng.chance(1, 2).then(|| 3 + rng.below(6) as usize);
    let log_pages = if rng.chance(1, 2) { 1 + rng.below(5) as u32 } else { 300 };
    config(1 + rng.below(8) as u32, order, log_pages)
}

#[test]
fn the_index_is_a_sorted_map() {
    crate::inputs::cases(200, |seed| {
        let rng = &mut Rng::new(seed);
        let (config, frames) = (any_config(rng), rng.below(20) as usize);
        let store = Store::new(128, 1_200);
        let most = config.ram_bytes_max(&store).unwrap();
        let index = LsbTree::format(store.with_cache(frames), &config).unwrap();
        let remount = |mut index: LsbTree<Store>| {
            index.close().unwrap();
            LsbTree::mount(index.into_store().with_cache(frames), &config).unwrap()
        };
        let (index, _) = live(index, &any_ops(rng), Answers::Exact, &remount, &mut |index, _| {
            assert!(index.open_logs() <= config.log_nodes as usize);
        });
        let own = index.ram_bytes() - index.tree().store().look(PageStore::ram_bytes);
        assert!(own <= most, "{own} of {most} bytes");
    });
}

#[test]
fn after_a_cut_every_key_is_as_synced_or_later() {
    for config in [config(3, Some(5), 200), config(1, Some(4), 200), config(4, Some(6), 3)] {
        for writes in (4..400).step_by(3) {
            let store = LsbTree::format(Store::new(128, 1_000), &config).unwrap().into_store();
            let mut index = LsbTree::mount(store.failing_after(writes), &config).unwrap();
            let history = work_until_the_cut(&mut index);
            let mut store = index.into_store().copy();
            match LsbTree::mount(store.copy(), &config) {
                Ok(mut index) => assert_eq!(contents(&mut index).unwrap(), *history.synced()),
                Err(error) => assert_eq!(error, IndexError::NotCleanlyClosed),
            }
            for _ in 0..2 {
                let mut index = LsbTree::mount_after_cut(store, &config).unwrap();
                let found = contents(&mut index).unwrap();
                history.assert_each_key(&found);
                assert_sound(&mut index, &found);
                index.insert(&key(500), &[1; 2]).unwrap();
                index.remove(&key(500)).unwrap();
                assert_sound(&mut index, &found);
                store = index.into_store();
            }
        }
    }
}

#[test]
fn with_a_journal_a_cut_leaves_a_prefix_that_has_the_last_sync() {
    type Index = Journaled<Store, LsbTree<Below>>;
    let config = config(3, Some(5), 100);
    for (durability, writes) in [Durability::EveryOperation, Durability::EverySync]
        .into_iter()
        .flat_map(|class| (3..400).step_by(5).map(move |writes| (class, writes)))
    {
        let journal = JournalConfig { pages: Some(3), ..JournalConfig::new(durability) };
        let store = Index::format(Store::new(128, 1_000), &(config, journal)).unwrap().into_store();
        let mut index = Index::mount(store.failing_after(writes), &(config, journal)).unwrap();
        let mut history = History::new(Model::new());
        history.work(&mut index, &mut Rng::new(writes), Mix::updates(120, [24, 15], 1));
        // A cut in the recovery, and then a whole one.
        let store = index.into_store().copy();
        store.fail_after(writes % 7);
        drop(Journaled::<_, LsbTree<Below>>::mount(store.copy(), &(config, journal)));
        store.fail_after(u64::MAX);
        let mut index = Index::mount(store, &(config, journal)).unwrap();
        let found = contents(&mut index).unwrap();
        let least = if durability == Durability::EveryOperation { history.acknowledged() } else { 0 };
        assert!(history.had(&found, least), "after {writes} writes");
        assert_sound(&mut index, &found);
    }
}

/// Makes a store refuse checkpoints, and writes and trims after the given numbers of them. Returns the
/// number of trims left.
fn wear_out(store: &Store, writes: Option<u64>, trims: u64) -> Shared<u64> {
    let left = Shared::new(trims);
    let (mut writes, counted) = (writes.unwrap_or(u64::MAX), left.clone());
    store.on_call(move |call| {
        let worn_out = StoreError::WornOut;
        match call {
            Call::Write(..) => writes = writes.checked_sub(1).ok_or(worn_out)?,
            Call::Trim(_) => {
                let mut left = counted.lock();
                *left = left.checked_sub(1).ok_or(worn_out)?;
            }
            Call::Checkpoint => return Err(worn_out),
            Call::Read(..) | Call::Sync => {}
        }
        Ok(())
    });
    left
}

#[test]
fn log_pages_that_come_back_bring_nothing_older_than_the_last_sync() {
    let mut came_back = 0;
    for (config, writes) in [config(3, Some(5), 200), config(4, Some(6), 3)]
        .into_iter()
        .flat_map(|config| (10..500).step_by(stride(3)).map(move |writes| (config, writes)))
    {
        let store = Store::new(128, 1_000);
        let mut index = LsbTree::format(store.handle(), &config).unwrap();
        index.sync().unwrap();
        drop(index);
        store.fail_after(writes);
        let history = work_until_the_cut(&mut LsbTree::mount(store.handle(), &config).unwrap());
        let mut rng = Rng::new(writes);
        came_back += store.cut(&mut rng);
        // Cuts in the recovery, and then a whole one.
        for writes in [writes % 5, writes % 11, u64::MAX] {
            store.fail_after(writes);
            let recovered = LsbTree::mount_after_cut(store.handle(), &config);
            assert!(recovered.is_ok() || writes < 11);
            drop(recovered);
            came_back += store.cut(&mut rng);
        }
        let mut index = LsbTree::mount_after_cut(store.handle(), &config).unwrap();
        let found = contents(&mut index).unwrap();
        history.assert_each_key(&found);
        assert_sound(&mut index, &found);
        index.sync().unwrap();
        drop(index);
        store.cut(&mut rng);
        let mut index = LsbTree::mount(store.handle(), &config).unwrap();
        assert_eq!(contents(&mut index).unwrap(), found);
    }
    // Few: what a mount merged stays away.
    assert!(came_back > sized(20, 60), "{came_back}");
}

#[test]
fn log_pages_that_a_worn_out_store_trims_in_part_bring_nothing_back() {
    let mut refused = 0;
    for (writes, trims) in
        (60..400).step_by(stride(3)).flat_map(|writes| (0..4).map(move |trims| (writes, trims)))
    {
        let store = Store::new(128, 1_000);
        let mut index = LsbTree::format(store.handle(), &config(3, Some(5), 200)).unwrap();
        index.sync().unwrap();
        drop(index);
        store.fail_after(writes);
        work_until_the_cut(&mut LsbTree::mount(store.handle(), &config(3, Some(5), 200)).unwrap());
        store.cut(&mut Rng::new(writes));
        let left = wear_out(&store, None, trims);
        let mut index = LsbTree::mount_after_cut(store.handle(), &config(3, Some(5), 200)).unwrap();
        let found = contents(&mut index).unwrap();
        assert_sound(&mut index, &found);
        refused += u64::from(index.insert(&key(500), &[1; 2]) == Err(IndexError::WornOut));
        drop(index);
        if *left.lock() == 0 {
            store.refuse_nothing();
            let mut index = LsbTree::mount_after_cut(store.handle(), &config(3, Some(5), 200)).unwrap();
            let again = contents(&mut index).unwrap();
            assert!(again.iter().filter(|(n, _)| **n != key(500)).eq(&found), "{writes} {trims}");
        }
    }
    assert!(refused > sized(33, 100), "{refused}");
}

#[test]
fn a_log_page_does_not_go_before_the_clean_mark() {
    let (store, config) = (Store::new(128, 1_000), config(1, Some(4), 20));
    let mut index = LsbTree::format(store.handle(), &config).unwrap();
    (0..3).for_each(|n| assert!(!index.insert(&key(n), &[1; 2]).unwrap()));
    index.sync().unwrap();
    let synced = contents(&mut index).unwrap();
    drop(index);
    wear_out(&store, Some(0), u64::MAX);
    let mut index = LsbTree::mount(store.handle(), &config).unwrap();
    // The mark goes before the first change that waits.
    assert_eq!(index.insert(&key(3), &[1; 2]), Err(IndexError::WornOut));
    (0..3).for_each(|n| assert_eq!(index.remove(&key(n)), Err(IndexError::WornOut)));
    assert_eq!(contents(&mut index).unwrap(), synced);
    drop(index);
    assert_eq!(contents(&mut LsbTree::mount(store.handle(), &config).unwrap()).unwrap(), synced);
}

#[test]
fn a_close_that_a_worn_out_store_refuses_leaves_what_can_be_mounted() {
    type Index = Journaled<Store, LsbTree<Below>>;
    let (config, journal) = (config(3, Some(5), 100), JournalConfig::new(Durability::EveryOperation));
    let mut index = Index::format(Store::new(128, 1_000), &(config, journal)).unwrap();
    let mut model = Model::new();
    for n in 0..60 {
        put(&mut index, &mut model, &key(n * 7 % 60), &key(n)).unwrap();
    }
    let store = index.into_store();
    wear_out(&store, None, u64::MAX);
    let mut index = Index::mount(store, &(config, journal)).unwrap();
    assert_eq!(index.close(), Err(IndexError::WornOut));
    assert_eq!(contents(&mut index).unwrap(), model);
    let mut index = Index::mount(index.into_store(), &(config, journal)).unwrap();
    assert_eq!(contents(&mut index).unwrap(), model);
    assert_sound(&mut index, &model);
}

/// A tree with pages of 2 KiB and records of 4 + 4 bytes.
fn large(log_nodes: u32) -> LsbTree<Store> {
    let config = LsbConfig { log_nodes, ..LsbConfig::new(RecordFormat::new(4, 4)) };
    LsbTree::format(Store::new(2048, 2_000), &config).unwrap()
}

fn accesses(index: &LsbTree<Store>) -> (u64, u64) {
    index.tree().store().look(|store| {
        let counters = store.counters();
        (counters.page_reads.iter().sum(), counters.page_writes.iter().sum())
    })
}

#[test]
fn ascending_keys_fill_leaves_that_are_switched_and_never_split() {
    let mut index = large(8);
    let full = index.tree().config().leaf_capacity.unwrap() as u32;
    assert!(full > 240, "a log page has nearly as many entries as a leaf: {full}");
    let before = accesses(&index).1;
    for n in 0..20 * full {
        assert!(!index.insert(&n.to_be_bytes(), &[1; 4]).unwrap());
    }
    // The first log makes the first leaf; each other is a leaf, of which the parent is told. The last is
    // open.
    assert_eq!((index.counts.merges, index.counts.switches), (1, 18));
    let writes = accesses(&index).1 - before;
    assert!(writes <= 1 + 1 + 2 * 18 + 2, "{writes} writes");
    let report = index.check().unwrap();
    assert!(report.is_sound() && report.records == u64::from(20 * full), "{report:?}");
    index.merge_all().unwrap();
    // L3: every leaf is full, all but what the last log was merged into.
    let mut counts = Vec::new();
    let unbounded = (Bound::Unbounded, Bound::Unbounded);
    index
        .tree
        .walk_leaves(unbounded, Direction::Ascending, &mut |_, leaf| {
            let mut count = 0;
            let _all = leaf.visit_records(Direction::Ascending, &mut |_, _| {
                count += 1;
                ControlFlow::Continue(())
            });
            counts.push(count);
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(counts.iter().all(|count| *count == full), "{counts:?}");
}

#[test]
fn a_random_insertion_costs_fewer_writes_than_the_tree_alone_and_a_search_one_read_more_at_most() {
    let mut index = large(8);
    let (mut rng, mut keys) = (Rng::new(5), Vec::new());
    while keys.len() < 3_000 {
        let key = (rng.next_u64() as u32).to_be_bytes();
        if !index.insert(&key, &[7; 4]).unwrap() {
            keys.push(key);
        }
    }
    // Some twenty leaves, eight logs at a time: a log is written at most once for each insertion, and merged
    // rarely.
    let writes = accesses(&index).1;
    assert!(writes < 2_500 && index.counts.merges < 60, "{writes} writes, {:?}", index.counts);
    let (height, before) = (u64::from(index.stats().height), accesses(&index).0);
    for key in &keys {
        assert!(index.get(key, &mut [0; 4]).unwrap());
    }
    let reads = accesses(&index).0 - before;
    assert!(reads <= keys.len() as u64 * (height + 1), "{reads}");
    // All logs open: an update is in RAM until its log is full.
    let mut open = large(64);
    for key in &keys {
        open.insert(key, &[7; 4]).unwrap();
    }
    let writes = accesses(&open).1;
    assert!(writes < 90, "{writes} writes, {:?}", open.counts);
}

#[test]
fn a_flipped_bit_is_an_error_or_changes_nothing() {
    let config = config(3, None, 60);
    let (mut index, mut rng) = (LsbTree::format(Store::new(128, 240), &config).unwrap(), Rng::new(1));
    let model = put_some(&mut index, &mut rng);
    let store = index.into_store();
    let mount = |store| LsbTree::mount(store, &config).and_then(|mut index| contents(&mut index));
    let (refused, right) = flip_bits((&store, 240), (&model, &mut rng), mount);
    assert!(refused > 200, "{refused} and {right}");
}

#[test]
fn a_full_store_loses_nothing_and_takes_records_again_once_some_are_gone() {
    for config in [config(3, Some(6), 20), config(2, Some(4), 60)] {
        fill_and_drain(&mut LsbTree::format(Store::new(128, 120), &config).unwrap(), false);
    }
}

#[test]
fn what_cannot_work_is_refused() {
    let refused = |config: LsbConfig, pages| {
        let Err(IndexError::Unsupported(why)) = LsbTree::format(Store::new(128, pages), &config) else {
            panic!("{config:?} was taken");
        };
        assert!(why.len() > 20, "{why}");
    };
    let small = LsbConfig::new(SMALL);
    refused(LsbConfig { log_nodes: 0, ..small }, 200);
    refused(LsbConfig { log_pages: Some(199), ..small }, 200);
    refused(LsbConfig { tree: small.tree.with_order(28), ..small }, 200);
    refused(LsbConfig { tree: BPlusConfig::new(SMALL), ..small }, 200);
    let mut store = Store::new(128, 200);
    LsbTree::format(store.handle(), &small).unwrap();
    let other = LsbConfig { log_pages: Some(10), ..small };
    assert!(matches!(LsbTree::mount(store.handle(), &other), Err(IndexError::NotFormatted(_))));
    let plain = BPlusTree::mount(&mut store, &small.tree);
    assert!(matches!(plain, Err(IndexError::NotFormatted(_))), "its records are not all in the tree");
}
