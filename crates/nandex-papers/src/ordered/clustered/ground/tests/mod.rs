//! The three trees against `BTreeMap`, cut power on stores of any order, costs in counts, RAM, damaged pages,
//! full stores.

mod small;

use super::super::{as_btree, cb_tree, fb_tree};
use super::*;
use crate::inputs::sized;
use crate::ordered::journal::{Below, JournalConfig, Journaled};
use crate::ordered::tests::*;
use alloc::vec::Vec;
use nandex::nand::NandError;
use nandex::ordered::buffered::Answers;
use nandex::rng::Rng;
use nandex::store::StoreError;
use nandex::testing::{Call, Mix, ORDERED, SINGLE, Store, UNORDERED};

pub(super) fn members(record: RecordFormat) -> [ClusteredConfig; 3] {
    [as_btree::config(record), cb_tree::config(record), fb_tree::config(record)]
}

/// Small settings, so that all parts are exercised on pages of 128 bytes.
fn small(config: ClusteredConfig) -> ClusteredConfig {
    ClusteredConfig { batch_nodes: Some(10), segment_pages: Some(8), checkpoint_flushes: 5, ..config }
}

fn any_config(rng: &mut Rng) -> ClusteredConfig {
    let config = members(SMALL)[rng.below(3) as usize];
    let order = rng.chance(1, 2).then(|| 3 + rng.below(6) as usize);
    let batch_nodes = if rng.chance(1, 2) { 1 + rng.below(5) } else { 6 + rng.below(54) };
    ClusteredConfig {
        tree: order.map_or(config.tree, |order| config.tree.with_order(order)),
        batch_nodes: Some(batch_nodes as u32),
        segment_pages: Some(4 + rng.below(26) as u32),
        checkpoint_flushes: 1 + rng.below(19) as u32,
        recycle_percent: rng.below(100) as u8,
        ..config
    }
}

#[test]
fn the_index_is_a_sorted_map() {
    crate::inputs::cases(200, |seed| {
        let rng = &mut Rng::new(seed);
        let (config, frames) = (any_config(rng), rng.below(20) as usize);
        let store = Store::new(128, 1_500);
        let most = config.ram_bytes_max(&store).unwrap();
        let index = ClusteredTree::format(store.with_cache(frames), &config).unwrap();
        let remount = |mut index: ClusteredTree<Store>| {
            index.close().unwrap();
            ClusteredTree::mount(index.into_store().with_cache(frames), &config).unwrap()
        };
        let (index, _) = live(index, &any_ops(rng), Answers::Exact, &remount, &mut |index, op| {
            assert!(*op != Op::Sync || index.layer().waiting_nodes() == 0);
        });
        let own = index.ram_bytes() - index.layer().store().ram_bytes();
        assert!(own <= most, "{own} of {most} bytes");
    });
}

/// Works until the power fails. The last update may or may not have happened. Returns the number of refused
/// updates.
fn work(index: &mut dyn OrderedIndex, rng: &mut Rng, history: &mut History) -> usize {
    let mut refused = 0;
    loop {
        let error = history.work(index, rng, Mix::updates(500, [89, 60], 1));
        if !error.is_refusal() {
            assert_eq!(error, IndexError::Store(StoreError::Nand(NandError::PowerLost)));
            return refused;
        }
        refused += 1;
        assert_eq!(contents(index).as_ref(), Ok(history.now()));
    }
}

#[test]
fn a_cut_leaves_a_state_since_the_last_sync_on_every_store() {
    let (cuts_with_progress, _) = cut_again_and_again(None);
    assert!(cuts_with_progress > sized(12, 100), "{cuts_with_progress}");
}

/// A page refused by the store ends nothing: reads give the same contents, the next operation goes on, and
/// a cut leaves the same state.
#[test]
fn a_refusal_changes_nothing_wherever_it_comes() {
    for most in [4, 40] {
        let (_, refused) = cut_again_and_again(Some(most));
        assert!(refused > sized(45, 400), "{refused}");
    }
}

/// Makes a store refuse one change in `one_in`.
fn refuse_at_times(store: &Store, seed: u64, one_in: u64) {
    let mut rng = Rng::new(seed);
    store.on_call(move |call| match call {
        Call::Read(..) => Ok(()),
        _ if rng.chance(1, one_in) => Err(StoreError::WornOut),
        _ => Ok(()),
    });
}

/// Runs trees on stores that refuse now and then, through many cuts. Returns the number of cuts that left
/// more than the last sync, and the number of refused updates.
fn cut_again_and_again(refuses: Option<u64>) -> (usize, usize) {
    let (mut cuts_with_progress, mut refused) = (0, 0);
    for (config, order) in members(SMALL)
        .into_iter()
        .flat_map(|config| [SINGLE, ORDERED.single(), UNORDERED.single()].map(|order| (config, order)))
    {
        for seed in 0..sized(1, 8) {
            let mut rng = Rng::new(seed);
            let config = ClusteredConfig {
                batch_nodes: Some(1 + rng.below(12) as u32),
                segment_pages: Some(4 + rng.below(12) as u32),
                recycle_percent: 10 * rng.below(11) as u8,
                checkpoint_flushes: if rng.chance(1, 2) { 3 } else { 200 },
                space_percent: 75,
                ..config
            };
            let smallest =
                (60..).find(|pages| config.published().on(128, *pages).is_ok_and(|plan| plan.nodes_max > 18));
            let store = Store::new(128, smallest.unwrap()).with_promise(order);
            let mut index = ClusteredTree::format(store.handle(), &config).unwrap();
            let mut state = Model::new();
            for _ in 0..8 {
                let most = if rng.chance(1, 2) { 40 } else { 1_500 };
                let left = 1 + rng.below(most);
                store.fail_after(left);
                if let Some(most) = refuses {
                    refuse_at_times(&store, left, most);
                }
                let mut history = History::new(state);
                refused += work(&mut index, &mut rng, &mut history);
                store.refuse_nothing();
                store.cut(&mut rng);
                index = ClusteredTree::mount_after_cut(store.handle(), &config).unwrap();
                state = contents(&mut index).unwrap();
                assert_sound(&mut index, &state);
                assert!(history.had(&state, 0), "{:?} {order:?} seed {seed}", config.policy);
                cuts_with_progress += usize::from(*history.synced() != state);
            }
        }
    }
    (cuts_with_progress, refused)
}

#[test]
fn with_a_journal_a_cut_leaves_a_prefix_that_has_the_last_sync() {
    type Index = Journaled<Store, ClusteredTree<Below>>;
    let classes = [(Durability::EveryOperation, SINGLE), (Durability::EverySync, ORDERED.single())];
    for (config, (durability, order)) in
        members(SMALL).into_iter().flat_map(|config| classes.map(|class| (config, class)))
    {
        let config = small(config);
        for seed in 0..10 {
            let (mut rng, journal) = (Rng::new(seed), JournalConfig::new(durability));
            let store = Store::new(128, 500).with_promise(order);
            drop(Index::format(store.handle(), &(config, journal)).unwrap());
            for round in 0..4 {
                let mut index = Index::mount(store.handle(), &(config, journal)).unwrap();
                assert_eq!(index.durability(), durability);
                let state = contents(&mut index).unwrap();
                assert_sound(&mut index, &state);
                store.fail_after(1 + rng.below([40, 900][round % 2]));
                let mut history = History::new(state);
                assert_eq!(work(&mut index, &mut rng, &mut history), 0);
                drop(index);
                store.cut(&mut rng);
                let mut index = Index::mount(store.handle(), &(config, journal)).unwrap();
                let found = contents(&mut index).unwrap();
                let least = if order.durable { history.acknowledged() } else { 0 };
                assert!(history.had(&found, least), "{:?} seed {seed}", config.policy);
                assert_sound(&mut index, &found);
            }
        }
    }
}

fn number(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

const WORDS: RecordFormat = RecordFormat::new(4, 4);

/// A tree of `records` records inserted in random order on pages of 512 bytes, and then `updates` updates
/// of them.
fn worked(config: ClusteredConfig, records: u32, updates: u32) -> ClusteredTree<Store> {
    let store = Store::new(512, 4_000).with_promise(SINGLE);
    let mut index = ClusteredTree::format(store, &config).unwrap();
    let mut keys: Vec<u32> = (0..records).collect();
    let mut rng = Rng::new(3);
    for i in (1..keys.len()).rev() {
        keys.swap(i, rng.below(i as u64 + 1) as usize);
    }
    for key in &keys {
        index.insert(&number(*key), &[1; 4]).unwrap();
    }
    index.layer().store().note_changes();
    for _ in 0..updates {
        let key = keys[rng.below(keys.len() as u64) as usize];
        assert!(index.insert(&number(key), &number(rng.next_u64() as u32)).unwrap());
    }
    index
}

/// The pages that a tree wrote for its updates, or copied.
fn written_by(index: &ClusteredTree<Store>) -> Vec<u32> {
    index.layer().store().written(&[Cause::Host, Cause::GarbageCollection])
}

/// Lengths of the runs of consecutive pages.
fn runs(written: &[u32]) -> Vec<usize> {
    written.chunk_by(|a, b| a + 1 == *b).map(<[u32]>::len).collect()
}

#[test]
fn the_as_btree_writes_to_the_end_of_its_file_alone() {
    let index = worked(as_btree::config(WORDS), 30_000, 30_000);
    let (written, ring) = (written_by(&index), index.layer().ring);
    let runs = runs(&written);
    // A run ends where the ring begins again, or a page is left over at the end of a segment.
    let rounds = written.len() / ring.pages_possible().len() + 1;
    let segments = written.len() / ring.segment(0).len() + 1;
    assert!(runs.len() <= rounds + segments, "{} runs of {} pages", runs.len(), written.len());
    let leaps = written.windows(2).filter(|two| two[0] + 1 != two[1]).filter(|two| two[0] + 2 != two[1]);
    assert!(leaps.count() <= rounds);
    let counts = index.layer().counts();
    assert!(counts.recycled_segments > 3 && counts.checkpoints > 3, "{counts:?}");
}

#[test]
fn the_fb_tree_writes_runs_of_free_pages_that_come_about_by_themselves() {
    // Half of the pages are live at most, so most runs are long; next to none is as short as one page.
    let config = ClusteredConfig { space_percent: 50, ..fb_tree::config(WORDS) };
    let index = worked(config, 30_000, 30_000);
    let runs = runs(&written_by(&index));
    let pages: usize = runs.iter().sum();
    let long: usize = runs.iter().filter(|length| **length >= 4).sum();
    assert!(long * 10 >= pages * 9, "{long} of {pages} pages in runs of four and more");
    assert_eq!(index.layer().counts().copied_nodes, 0, "nothing is collected");
}

#[test]
fn the_cb_tree_writes_each_level_in_batches() {
    let index = worked(cb_tree::config(WORDS), 30_000, 10_000);
    let counts = index.layer().counts();
    let mean = written_by(&index).len() / runs(&written_by(&index)).len();
    assert!(mean >= 8, "{mean} pages in a run");
    assert!(counts.flushed_nodes >= counts.flushes * 12, "{counts:?}");
    // Ascending keys leave full leaves behind.
    let store = Store::new(512, 4_000);
    let mut index = ClusteredTree::format(store, &cb_tree::config(WORDS)).unwrap();
    (0..20_000).for_each(|n| assert!(!index.insert(&number(n), &[0; 4]).unwrap()));
    let metrics = index.stats().metrics;
    assert_eq!(metrics.iter().find(|m| m.name == "splits").map(|m| m.value < 20), Some(true));
    let leaf = index.tree_config().leaf_capacity.unwrap() as u64;
    assert!(index.check().unwrap().nodes < 20_000 / leaf * 21 / 20 + 3);
}

#[test]
fn a_node_is_read_once_for_each_level_and_written_once_for_many_updates() {
    for config in members(WORDS) {
        let mut index = worked(config, 20_000, 0);
        index.sync().unwrap();
        let reads = |index: &ClusteredTree<Store>| index.layer().store().page_reads();
        let before = reads(&index);
        (0..1_000).for_each(|n| assert!(index.get(&number(n), &mut [0; 4]).unwrap()));
        assert_eq!(reads(&index) - before, 1_000 * u64::from(index.stats().height));
        index.layer().store().note_changes();
        for round in 0..200u8 {
            (0..40).for_each(|n| assert!(index.insert(&number(n), &[round; 4]).unwrap()));
        }
        assert!(written_by(&index).is_empty(), "two leaves and what is above them wait");
    }
}

#[test]
fn a_load_writes_each_page_once_and_all_or_nothing_survives() {
    for config in members(WORDS) {
        let store = Store::new(512, 4_000).with_promise(SINGLE);
        let mut index = ClusteredTree::format(store, &config).unwrap();
        let records: Vec<([u8; 4], [u8; 4])> = (0..50_000).map(|n| (number(n), number(!n))).collect();
        let mut all = records.iter().map(|(key, value)| (&key[..], &value[..]));
        assert_eq!(index.load(&mut all), Ok(50_000));
        index.close().unwrap();
        let report = index.check().unwrap();
        assert!(report.is_sound() && report.records == 50_000, "{:?}", report.violations);
        let headers = index.layer().counts().header_pages;
        let written = written_by(&index).len() as u64;
        assert!(written <= report.nodes + headers + 2, "{written} writes, {} nodes", report.nodes);
        let mut index = ClusteredTree::mount(index.into_store(), &config).unwrap();
        for n in (0..50_000).step_by(97) {
            let mut value = [0; 4];
            assert!(index.get(&number(n), &mut value).unwrap() && value == number(!n));
        }
        // One that fails leaves an empty tree, which takes another.
        let store = Store::new(128, 700).with_promise(ORDERED.single());
        let mut index =
            ClusteredTree::format(store, &ClusteredConfig { tree: members(SMALL)[0].tree, ..config })
                .unwrap();
        let unsorted = [[0, 1], [0, 2], [0, 1]];
        let mut twice = (0..300u16).map(u16::to_be_bytes).chain(unsorted).collect::<Vec<_>>();
        let mut failing = twice.iter().map(|key| (&key[..], &key[..]));
        assert!(matches!(index.load(&mut failing), Err(IndexError::NotSorted { .. })));
        assert_sound(&mut index, &Model::new());
        twice.truncate(300);
        let mut right = twice.iter().map(|key| (&key[..], &key[..]));
        assert_eq!(index.load(&mut right), Ok(300));
        index.sync().unwrap();
        let model: Model = twice.iter().map(|key| (key.to_vec(), key.to_vec())).collect();
        assert_sound(&mut index, &model);
        let store = index.into_store();
        store.cut(&mut Rng::new(1));
        let config = ClusteredConfig { tree: members(SMALL)[0].tree, ..config };
        let mut index = ClusteredTree::mount_after_cut(store, &config).unwrap();
        assert_eq!(contents(&mut index).unwrap(), model);
    }
}

#[test]
fn a_flipped_bit_is_an_error_or_changes_nothing() {
    for config in members(SMALL).map(small) {
        let mut index = ClusteredTree::format(Store::new(128, 300), &config).unwrap();
        let mut model = Model::new();
        let mut rng = Rng::new(1);
        for i in 0..900 {
            let n = key(rng.below(300) as u16);
            put(&mut index, &mut model, &n, &n).unwrap();
            if i == 700 {
                index.close().unwrap();
            }
        }
        index.sync().unwrap();
        let store = index.into_store();
        let mount =
            |store| ClusteredTree::mount_after_cut(store, &config).and_then(|mut index| contents(&mut index));
        let (refused, right) = flip_bits((&store, 300), (&model, &mut rng), mount);
        assert!(refused > 60 && refused + right > 80, "{refused} and {right}: {:?}", config.policy);
    }
}

#[test]
fn a_forged_page_is_no_panic() {
    for config in members(SMALL).map(small) {
        let mut index = ClusteredTree::format(Store::new(128, 300), &config).unwrap();
        let mut rng = Rng::new(4);
        (0..300).for_each(|_| assert!(index.insert(&key(rng.below(200) as u16), &[1; 2]).is_ok()));
        index.sync().unwrap();
        let store = index.into_store();
        for seed in 0..1_000 {
            let mut store = store.copy();
            let mut page = [0; 128];
            for _ in 0..1 + rng.below(3) {
                let most = if rng.chance(1, 3) { 4 } else { 300 };
                let lpn = Lpn(rng.below(most) as u32);
                store.read(lpn, Cause::Check, &mut page).unwrap();
                page[4 + rng.below(124) as usize] = rng.below(40) as u8;
                let crc = nandex::codec::crc32(&[&page[4..]]);
                nandex::codec::put_u32(&mut page, 0, crc);
                store.write(lpn, Cause::Check, &page).unwrap();
            }
            if let Ok(mut index) = ClusteredTree::mount_after_cut(store, &config) {
                use_forged(&mut index, seed);
            }
        }
    }
}

#[test]
fn a_full_store_loses_nothing_and_takes_records_again_once_some_are_gone() {
    for config in members(SMALL).map(small) {
        fill_and_drain(&mut ClusteredTree::format(Store::new(128, 250), &config).unwrap(), true);
    }
}

#[test]
fn what_cannot_work_is_refused() {
    let refused = |config: ClusteredConfig, pages| {
        let Err(IndexError::Unsupported(why)) = ClusteredTree::format(Store::new(128, pages), &config) else {
            panic!("{config:?} was taken");
        };
        assert!(why.len() > 20, "{why}");
    };
    for config in members(SMALL) {
        refused(config, 20);
        refused(ClusteredConfig { batch_nodes: Some(60_000), ..config }, 2_000);
        refused(ClusteredConfig { tree: BPlusConfig::new(SMALL), ..config }, 2_000);
        let mut store = Store::new(128, 2_000);
        ClusteredTree::format(&mut store, &config).unwrap();
        let others = members(SMALL).into_iter().filter(|other| other.policy != config.policy);
        for other in others.chain([ClusteredConfig { tree: config.tree.with_order(5), ..config }]) {
            let mounted = ClusteredTree::mount(&mut store, &other).err();
            assert!(matches!(mounted, Some(IndexError::NotFormatted(_))), "{mounted:?}");
        }
        // The batch is no part of the format.
        ClusteredTree::mount(&mut store, &ClusteredConfig { batch_nodes: Some(3), ..config }).unwrap();
    }
}
