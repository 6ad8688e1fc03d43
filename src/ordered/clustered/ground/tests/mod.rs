//! The three trees against `BTreeMap`, cut power on stores of any order, costs in counts, RAM, damaged pages,
//! full stores.

mod small;

use super::super::{as_btree, cb_tree, fb_tree};
use super::*;
use crate::nand::NandError;
use crate::ordered::buffered::Answers;
use crate::ordered::buffered::tests::*;
use crate::ordered::journal::{Below, JournalConfig, Journaled};
use crate::rng::Rng;
use crate::shared::Shared;
use crate::store::StoreError;
use crate::store::ram::RamStore;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use proptest::prelude::*;

pub(super) fn members(record: RecordFormat) -> [ClusteredConfig; 3] {
    [as_btree::config(record), cb_tree::config(record), fb_tree::config(record)]
}

/// Small enough for everything to happen on 128-byte pages.
fn small(config: ClusteredConfig) -> ClusteredConfig {
    ClusteredConfig { batch_nodes: Some(10), segment_pages: Some(8), checkpoint_flushes: 5, ..config }
}

fn any_config() -> impl Strategy<Value = ClusteredConfig> {
    let order = prop_oneof![Just(None), (3..9usize).prop_map(Some)];
    let batch = prop_oneof![1..6u32, 6..60u32];
    (0..3usize, order, batch, 4..30u32, 1..20u32, 0..100u8).prop_map(
        |(member, order, batch_nodes, segment_pages, checkpoint_flushes, recycle_percent)| {
            let config = members(SMALL)[member];
            let tree = order.map_or(config.tree, |order| config.tree.with_order(order));
            let segment_pages = Some(segment_pages);
            ClusteredConfig {
                tree,
                batch_nodes: Some(batch_nodes),
                segment_pages,
                checkpoint_flushes,
                recycle_percent,
                ..config
            }
        },
    )
}

proptest! {
    #![proptest_config(crate::inputs::fixed(200))]

    #[test]
    fn the_index_is_a_sorted_map(config in any_config(), ops in any_ops(), frames in 0..20usize) {
        let store = RamStore::new(128, 1_500);
        let most = config.ram_bytes_max(&store).unwrap();
        let mut index = ClusteredTree::format(cached(store, frames), config).unwrap();
        let mut model = Model::new();
        for (i, op) in ops.iter().enumerate() {
            run_op(&mut index, op, &mut model, Answers::Exact);
            prop_assert!(!matches!(op, Op::Sync) || index.layer().waiting_nodes() == 0);
            if let Op::Remount = op {
                index.close().unwrap();
                let store = index.into_store().close().unwrap();
                index = ClusteredTree::mount(cached(store, frames), config).unwrap();
            }
            if i % 16 == 0 {
                assert_sound(&mut index, &model);
            }
        }
        assert_sound(&mut index, &model);
        prop_assert_eq!(contents(&mut index).unwrap(), model);
        let own = index.ram_bytes() - index.layer().store().ram_bytes();
        prop_assert!(own <= most, "{} of {} bytes", own, most);
    }
}

const CUT_SEEDS: u64 = 8;

/// The part left of unsynced writes and trims after a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// All: a write is durable at once.
    Durable,
    /// The writes and trims up to some point.
    Prefix,
    /// For each page those up to some point: pages are written in any order.
    Any,
}

/// A store without atomic groups whose power fails after some writes and trims.
struct Fickle {
    order: Order,
    durable: RamStore,
    now: RamStore,
    /// The writes and trims since the last sync: pages, or none for a trim.
    since: Vec<(Lpn, Option<Vec<u8>>)>,
    left: u64,
    /// The random refusals of calls, and once in how many times they come.
    refuses: Option<(Rng, u64)>,
}

impl Fickle {
    fn new(order: Order, pages: u32) -> Fickle {
        let store = RamStore::new(128, pages).with_atomic_pages(1);
        Fickle { order, durable: store.clone(), now: store, since: Vec::new(), left: u64::MAX, refuses: None }
    }

    fn refuse(&mut self) -> Result<(), StoreError> {
        let is_refused = self.refuses.as_mut().is_some_and(|(rng, most)| rng.below(*most) == 0);
        if is_refused { Err(StoreError::WornOut) } else { Ok(()) }
    }

    fn happen(&mut self, lpn: Lpn, data: Option<&[u8]>, cause: Cause) -> Result<(), StoreError> {
        self.left = self.left.checked_sub(1).ok_or(StoreError::Nand(NandError::PowerLost))?;
        self.refuse()?;
        self.since.push((lpn, data.map(<[u8]>::to_vec)));
        apply(&mut self.now, lpn, data, cause)?;
        if self.order == Order::Durable {
            self.make_durable()?;
        }
        Ok(())
    }

    fn make_durable(&mut self) -> Result<(), StoreError> {
        let mut since = self.since.drain(..);
        since.try_for_each(|(lpn, data)| apply(&mut self.durable, lpn, data.as_deref(), Cause::Host))
    }

    /// The store as the power comes back.
    fn after_cut(mut self, rng: &mut Rng) -> Fickle {
        let length = self.since.len();
        let point = rng.below(length as u64 + 1) as usize;
        let mut points = BTreeMap::new();
        for (i, (lpn, data)) in self.since.iter().enumerate() {
            let until = match self.order {
                Order::Any if rng.chance(1, 3) => *points.entry(*lpn).or_insert(i),
                Order::Any => *points.get(lpn).unwrap_or(&length),
                _ => point,
            };
            if i < until {
                apply(&mut self.durable, *lpn, data.as_deref(), Cause::Host).unwrap();
            }
        }
        Fickle { now: self.durable.clone(), since: Vec::new(), left: u64::MAX, refuses: None, ..self }
    }
}

fn apply(store: &mut RamStore, lpn: Lpn, data: Option<&[u8]>, cause: Cause) -> Result<(), StoreError> {
    match data {
        Some(data) => store.write(lpn, cause, data),
        None => store.trim(lpn),
    }
}

impl PageStore for Fickle {
    fn page_bytes(&self) -> usize {
        self.now.page_bytes()
    }
    fn page_count(&self) -> u32 {
        self.now.page_count()
    }
    fn read(&mut self, lpn: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        self.now.read(lpn, cause, data)
    }
    fn write(&mut self, lpn: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreError> {
        self.happen(lpn, Some(data), cause)
    }
    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        self.happen(lpn, None, Cause::Host)
    }
    fn sync(&mut self) -> Result<(), StoreError> {
        self.left = self.left.checked_sub(1).ok_or(StoreError::Nand(NandError::PowerLost))?;
        self.refuse()?;
        self.make_durable()
    }
    fn durable_writes(&self) -> bool {
        self.order == Order::Durable
    }
    fn prefix_consistent(&self) -> bool {
        self.order != Order::Any
    }
    fn ram_bytes(&self) -> usize {
        0
    }
}

/// The history of an index: its state after each update, and which of them was the last at a sync.
struct History {
    states: Vec<Model>,
    synced: usize,
    refused: usize,
}

/// Works until the power fails; an update in flight may have happened.
fn work(index: &mut impl OrderedIndex, rng: &mut Rng, history: &mut History) {
    loop {
        let (n, v) = (key(rng.below(500) as u16), key(rng.next_u64() as u16));
        let mut state = history.states[history.states.len() - 1].clone();
        let done = match rng.below(150) {
            0 => index.sync().map(|()| history.synced = history.states.len() - 1),
            1..90 => {
                state.insert(n, v);
                index.insert(&n, &v).map(drop)
            }
            _ => {
                state.remove(&n);
                index.remove(&n).map(drop)
            }
        };
        if done.as_ref().is_err_and(IndexError::is_refusal) {
            history.refused += 1;
            assert_eq!(contents(index).as_ref(), Ok(&history.states[history.states.len() - 1]));
            continue;
        }
        history.states.push(state);
        if let Err(error) = done {
            assert_eq!(error, IndexError::Store(StoreError::Nand(NandError::PowerLost)));
            return;
        }
    }
}

#[test]
fn a_cut_leaves_a_state_since_the_last_sync_on_every_store() {
    let (cuts_with_progress, _) = cut_again_and_again(None);
    assert!(cuts_with_progress > 100, "{cuts_with_progress}");
}

/// A refused page ends nothing: the contents read, the next operation goes on, and a cut finds what was
/// there.
#[test]
fn a_refusal_changes_nothing_wherever_it_comes() {
    for most in [4, 40] {
        let (_, refused) = cut_again_and_again(Some(most));
        assert!(refused > 400, "{refused}");
    }
}

/// Trees on stores that refuse once in so many times; how many cuts left more than the last sync, and how
/// many updates were refused.
fn cut_again_and_again(refuses: Option<u64>) -> (usize, usize) {
    let (mut cuts_with_progress, mut refused) = (0, 0);
    for (config, order) in members(SMALL)
        .into_iter()
        .flat_map(|config| [Order::Durable, Order::Prefix, Order::Any].map(|order| (config, order)))
    {
        for seed in 0..CUT_SEEDS {
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
            let mut index = ClusteredTree::format(Fickle::new(order, smallest.unwrap()), config).unwrap();
            let mut state = Model::new();
            for _ in 0..8 {
                let most = if rng.chance(1, 2) { 40 } else { 1_500 };
                let left = 1 + rng.below(most);
                let refuses = refuses.map(|most| (Rng::new(left), most));
                index.tree.with_store(|layer, _| {
                    (layer.store_mut().left, layer.store_mut().refuses) = (left, refuses);
                });
                let mut history = History { states: vec![state], synced: 0, refused: 0 };
                work(&mut index, &mut rng, &mut history);
                let store = index.into_store().after_cut(&mut rng);
                index = ClusteredTree::mount_after_cut(store, config).unwrap();
                state = contents(&mut index).unwrap();
                assert_sound(&mut index, &state);
                let found = history.states[history.synced..].contains(&state);
                assert!(found, "{:?} {order:?} seed {seed}", config.policy);
                cuts_with_progress += usize::from(history.states[history.synced] != state);
                refused += history.refused;
            }
        }
    }
    (cuts_with_progress, refused)
}

#[test]
fn with_a_journal_a_cut_leaves_a_prefix_that_has_the_last_sync() {
    type Index = Journaled<Shared<Fickle>, ClusteredTree<Below>>;
    let classes = [(Durability::EveryOperation, Order::Durable), (Durability::EverySync, Order::Prefix)];
    for (config, (durability, order)) in
        members(SMALL).into_iter().flat_map(|config| classes.map(|class| (config, class)))
    {
        let config = small(config);
        for seed in 0..10 {
            let (mut rng, journal) = (Rng::new(seed), JournalConfig::new(durability));
            let mut store = Fickle::new(order, 500);
            let formatted = Index::format(Shared::new(store), config, journal).unwrap();
            store = formatted.into_store().into_inner().unwrap();
            for round in 0..4 {
                let shared = Shared::new(store);
                let mut index = Index::mount(shared.clone(), config, journal).unwrap();
                assert_eq!(index.durability(), durability);
                let state = contents(&mut index).unwrap();
                assert_sound(&mut index, &state);
                shared.lock().left = 1 + rng.below([40, 900][round % 2]);
                let mut history = History { states: alloc::vec![state], synced: 0, refused: 0 };
                work(&mut index, &mut rng, &mut history);
                drop(index);
                store = shared.into_inner().unwrap().after_cut(&mut rng);
                let shared = Shared::new(store);
                let mut index = Index::mount(shared.clone(), config, journal).unwrap();
                let found = contents(&mut index).unwrap();
                let last = history.states.len() - 1;
                let least = if order == Order::Durable { last - 1 } else { history.synced };
                assert!(history.states[least..].contains(&found), "{:?} seed {seed}", config.policy);
                assert_sound(&mut index, &found);
                drop(index);
                store = shared.into_inner().unwrap();
            }
        }
    }
}

fn number(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

const WORDS: RecordFormat = RecordFormat::new(4, 4);

/// A store that notes which pages are written for the host, or copied.
struct Noted {
    store: RamStore,
    written: Vec<u32>,
}

impl PageStore for Noted {
    fn page_bytes(&self) -> usize {
        self.store.page_bytes()
    }
    fn page_count(&self) -> u32 {
        self.store.page_count()
    }
    fn read(&mut self, lpn: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        self.store.read(lpn, cause, data)
    }
    fn write(&mut self, lpn: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreError> {
        if matches!(cause, Cause::Host | Cause::GarbageCollection) {
            self.written.push(lpn.0);
        }
        self.store.write(lpn, cause, data)
    }
    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        self.store.trim(lpn)
    }
    fn sync(&mut self) -> Result<(), StoreError> {
        self.store.sync()
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

/// A tree of so many records in random order on pages of 512 bytes, and then as many updates of them.
fn worked(config: ClusteredConfig, records: u32, updates: u32) -> ClusteredTree<Noted> {
    let store = Noted { store: RamStore::new(512, 4_000), written: Vec::new() };
    let mut index = ClusteredTree::format(store, config).unwrap();
    let mut keys: Vec<u32> = (0..records).collect();
    let mut rng = Rng::new(3);
    for i in (1..keys.len()).rev() {
        keys.swap(i, rng.below(i as u64 + 1) as usize);
    }
    for key in &keys {
        index.insert(&number(*key), &[1; 4]).unwrap();
    }
    index.tree.with_store(|layer, _| layer.store_mut().written.clear());
    for _ in 0..updates {
        let key = keys[rng.below(keys.len() as u64) as usize];
        assert!(index.insert(&number(key), &number(rng.next_u64() as u32)).unwrap());
    }
    index
}

/// Lengths of the runs of pages that follow each other.
fn runs(written: &[u32]) -> Vec<usize> {
    written.chunk_by(|a, b| a + 1 == *b).map(<[u32]>::len).collect()
}

#[test]
fn the_as_btree_writes_to_the_end_of_its_file_alone() {
    let index = worked(as_btree::config(WORDS), 30_000, 30_000);
    let (written, ring) = (&index.layer().store().written, index.layer().ring);
    let runs = runs(written);
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
    let runs = runs(&index.layer().store().written);
    let pages: usize = runs.iter().sum();
    let long: usize = runs.iter().filter(|length| **length >= 4).sum();
    assert!(long * 10 >= pages * 9, "{long} of {pages} pages in runs of four and more");
    assert_eq!(index.layer().counts().copied_nodes, 0, "nothing is collected");
}

#[test]
fn the_cb_tree_writes_each_level_in_batches() {
    let index = worked(cb_tree::config(WORDS), 30_000, 10_000);
    let counts = index.layer().counts();
    let mean = index.layer().store().written.len() / runs(&index.layer().store().written).len();
    assert!(mean >= 8, "{mean} pages in a run");
    assert!(counts.flushed_nodes >= counts.flushes * 12, "{counts:?}");
    // Ascending keys leave full leaves behind.
    let store = RamStore::new(512, 4_000);
    let mut index = ClusteredTree::format(store, cb_tree::config(WORDS)).unwrap();
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
        let reads = |index: &ClusteredTree<Noted>| {
            index.layer().store().store.counters().page_reads.iter().sum::<u64>()
        };
        let before = reads(&index);
        (0..1_000).for_each(|n| assert!(index.get(&number(n), &mut [0; 4]).unwrap()));
        assert_eq!(reads(&index) - before, 1_000 * u64::from(index.stats().height));
        index.tree.with_store(|layer, _| layer.store_mut().written.clear());
        for round in 0..200u8 {
            (0..40).for_each(|n| assert!(index.insert(&number(n), &[round; 4]).unwrap()));
        }
        assert!(index.layer().store().written.is_empty(), "two leaves and what is above them wait");
    }
}

#[test]
fn a_load_writes_each_page_once_and_all_or_nothing_survives() {
    for config in members(WORDS) {
        let store = Noted { store: RamStore::new(512, 4_000), written: Vec::new() };
        let mut index = ClusteredTree::format(store, config).unwrap();
        let records: Vec<([u8; 4], [u8; 4])> = (0..50_000).map(|n| (number(n), number(!n))).collect();
        let mut all = records.iter().map(|(key, value)| (&key[..], &value[..]));
        assert_eq!(index.load(&mut all), Ok(50_000));
        index.close().unwrap();
        let report = index.check().unwrap();
        assert!(report.is_sound() && report.records == 50_000, "{:?}", report.violations);
        let headers = index.layer().counts().header_pages;
        let written = index.layer().store().written.len() as u64;
        assert!(written <= report.nodes + headers + 2, "{written} writes, {} nodes", report.nodes);
        let mut index = ClusteredTree::mount(index.into_store(), config).unwrap();
        for n in (0..50_000).step_by(97) {
            let mut value = [0; 4];
            assert!(index.get(&number(n), &mut value).unwrap() && value == number(!n));
        }
        // One that fails leaves an empty tree, which takes another.
        let store = Fickle::new(Order::Prefix, 700);
        let mut index =
            ClusteredTree::format(store, ClusteredConfig { tree: members(SMALL)[0].tree, ..config }).unwrap();
        let unsorted = [[0, 1], [0, 2], [0, 1]];
        let mut twice = (0..300u16).map(u16::to_be_bytes).chain(unsorted).collect::<Vec<_>>();
        let mut failing = twice.iter().map(|key| (&key[..], &key[..]));
        assert!(matches!(index.load(&mut failing), Err(IndexError::NotSorted { .. })));
        assert_sound(&mut index, &Model::new());
        twice.truncate(300);
        let mut right = twice.iter().map(|key| (&key[..], &key[..]));
        assert_eq!(index.load(&mut right), Ok(300));
        index.sync().unwrap();
        let model: Model = twice.iter().map(|key| (*key, *key)).collect();
        assert_sound(&mut index, &model);
        let store = index.into_store().after_cut(&mut Rng::new(1));
        let config = ClusteredConfig { tree: members(SMALL)[0].tree, ..config };
        let mut index = ClusteredTree::mount_after_cut(store, config).unwrap();
        assert_eq!(contents(&mut index).unwrap(), model);
    }
}

#[test]
fn a_flipped_bit_is_an_error_or_changes_nothing() {
    for config in members(SMALL).map(small) {
        let mut index = ClusteredTree::format(RamStore::new(128, 300), config).unwrap();
        let mut model = Model::new();
        let mut rng = Rng::new(1);
        for i in 0..900 {
            let n = key(rng.below(300) as u16);
            index.insert(&n, &n).unwrap();
            model.insert(n, n);
            if i == 700 {
                index.close().unwrap();
            }
        }
        index.sync().unwrap();
        let store = index.into_store();
        let mount =
            |store| ClusteredTree::mount_after_cut(store, config).and_then(|mut index| contents(&mut index));
        let (refused, right) = flip_bits((&store, 300), (&model, &mut rng), mount);
        assert!(refused > 60 && refused + right > 80, "{refused} and {right}: {:?}", config.policy);
    }
}

#[test]
fn a_forged_page_is_no_panic() {
    for config in members(SMALL).map(small) {
        let mut index = ClusteredTree::format(RamStore::new(128, 300), config).unwrap();
        let mut rng = Rng::new(4);
        (0..300).for_each(|_| assert!(index.insert(&key(rng.below(200) as u16), &[1; 2]).is_ok()));
        index.sync().unwrap();
        let store = index.into_store();
        for seed in 0..1_000 {
            let mut store = store.clone();
            let mut page = [0; 128];
            for _ in 0..1 + rng.below(3) {
                let most = if rng.chance(1, 3) { 4 } else { 300 };
                let lpn = Lpn(rng.below(most) as u32);
                store.read(lpn, Cause::Check, &mut page).unwrap();
                page[4 + rng.below(124) as usize] = rng.below(40) as u8;
                let crc = crate::codec::crc32(&[&page[4..]]);
                crate::codec::put_u32(&mut page, 0, crc);
                store.write(lpn, Cause::Check, &page).unwrap();
            }
            if let Ok(mut index) = ClusteredTree::mount_after_cut(store, config) {
                use_forged(&mut index, seed);
            }
        }
    }
}

#[test]
fn a_full_store_loses_nothing_and_takes_records_again_once_some_are_gone() {
    for config in members(SMALL).map(small) {
        fill_and_drain(&mut ClusteredTree::format(RamStore::new(128, 250), config).unwrap(), true);
    }
}

#[test]
fn what_cannot_work_is_refused() {
    let refused = |config: ClusteredConfig, pages| {
        let Err(IndexError::Unsupported(why)) = ClusteredTree::format(RamStore::new(128, pages), config)
        else {
            panic!("{config:?} was taken");
        };
        assert!(why.len() > 20, "{why}");
    };
    for config in members(SMALL) {
        refused(config, 20);
        refused(ClusteredConfig { batch_nodes: Some(60_000), ..config }, 2_000);
        refused(ClusteredConfig { tree: BPlusConfig::new(SMALL), ..config }, 2_000);
        let mut store = RamStore::new(128, 2_000);
        ClusteredTree::format(&mut store, config).unwrap();
        let others = members(SMALL).into_iter().filter(|other| other.policy != config.policy);
        for other in others.chain([ClusteredConfig { tree: config.tree.with_order(5), ..config }]) {
            let mounted = ClusteredTree::mount(&mut store, other).err();
            assert!(matches!(mounted, Some(IndexError::NotFormatted(_))), "{mounted:?}");
        }
        // The batch is no part of the format.
        ClusteredTree::mount(&mut store, ClusteredConfig { batch_nodes: Some(3), ..config }).unwrap();
    }
}
