//! The journaled index against `BTreeMap`, cuts at every write and cuts during the recovery, damage to every
//! byte, full stores.

mod owed;

use super::page::HEADER_BYTES;
use super::*;
use crate::inputs::{sized, stride};
use crate::ordered::lazy_update::{CommitPolicy, LazyUpdateConfig, LazyUpdateTree, Pairs};
use nandex::nand::{Cause, NandError};
use nandex::ordered::buffered::Answers;
use nandex::rng::Rng;
use nandex::store::StoreError;
use nandex::testing::{History, Mix, Model, Op, Store, apply, assert_holds, contents, put, take};

type Bytes = [u8; 2];
type Index<S> = Journaled<S, LazyUpdateTree<Below>>;

const RECORD: RecordFormat = RecordFormat::new(2, 2);
const PAGE_BYTES: usize = 128;
/// Records in a page of the journal.
const PAGE_RECORDS: usize = (PAGE_BYTES - HEADER_BYTES) / 5;

fn key(n: u16) -> Bytes {
    n.to_be_bytes()
}

fn inner(pool_requests: u32) -> LazyUpdateConfig {
    let mut config = LazyUpdateConfig::new(RECORD, pool_requests);
    config.tree = config.tree.with_order(4);
    config
}

fn any_class(rng: &mut Rng) -> JournalConfig {
    let every_sync = JournalConfig::new(Durability::EverySync);
    let class = match rng.below(3) {
        0 => JournalConfig::new(Durability::EveryOperation),
        1 => every_sync,
        _ => JournalConfig { group: 2 + rng.below(28) as u32, ..every_sync },
    };
    // With little RAM a mount reads the journal several times.
    JournalConfig { replay_ram: rng.chance(1, 2).then_some(0), ..class }
}

fn metric<S: PageStore>(index: &Index<S>, name: &str) -> u64 {
    index.stats().metrics.into_iter().find(|m| m.name == name).unwrap().value
}

fn any_inner(rng: &mut Rng) -> LazyUpdateConfig {
    let policy = CommitPolicy::ALL[rng.below(4) as usize];
    LazyUpdateConfig { policy, ..inner(1 + rng.below(59) as u32) }
}

/// The fewest updates that the index must have after a cut.
fn least(history: &History, config: JournalConfig) -> usize {
    let last = history.acknowledged();
    match (config.durability, config.group as usize) {
        (Durability::EveryOperation, _) => last,
        (_, 0) => last.saturating_sub(PAGE_RECORDS),
        (_, group) => last.saturating_sub(group.min(PAGE_RECORDS + 1) - 1),
    }
}

#[test]
fn pairs_that_cancel_unseen_are_refused_below_a_journal() {
    let config = LazyUpdateConfig { pairs: Pairs::Published, ..inner(10) };
    let refused = |error: Option<IndexError>| match error {
        Some(IndexError::Unsupported(what)) => assert!(what.contains("pairs 'published'"), "{what}"),
        other => panic!("{other:?}"),
    };
    for class in [Durability::EverySync, Durability::EveryOperation] {
        let store = Store::new(PAGE_BYTES, 600);
        refused(Index::format(store, &(config, JournalConfig::new(class))).err());
    }
}

#[test]
fn a_journaled_index_is_a_sorted_map_that_may_lose_its_last_group() {
    crate::inputs::cases(250, |seed| {
        let rng = &mut Rng::new(seed);
        let (inner, pages) = (any_inner(rng), Some(1 + rng.below(4) as u32));
        let config = JournalConfig { pages, ..any_class(rng) };
        let mut index = Index::format(Store::new(PAGE_BYTES, 600), &(inner, config)).unwrap();
        assert_eq!(index.durability(), config.durability);
        let (mut history, mut model) = (History::new(Model::new()), Model::new());
        let mix = Mix { reads: [5, 0], syncs: 3, remounts: 3, ..Mix::any(rng, 300) };
        for i in 0..=rng.below(700) {
            let op = mix.draw(rng, RECORD);
            apply(&mut index, &mut model, &op, Answers::Exact);
            history.note(&op);
            if op == Op::Remount {
                // After a close or after nothing at all.
                let is_closed = rng.chance(1, 2);
                if is_closed {
                    index.close().unwrap();
                    history.sync();
                }
                index = Index::mount(index.into_store(), &(inner, config)).unwrap();
                model = contents(&mut index).unwrap();
                assert!(history.had(&model, least(&history, config)));
                assert!(!is_closed || metric(&index, "journal_replayed_records") == 0);
                history = History::new(model.clone());
            }
            if i % 16 == 0 {
                assert_holds(&mut index, &model);
            }
        }
        assert_holds(&mut index, &model);
    });
}

/// Works until the power fails. Returns the store, and the history without its last, unacknowledged update.
fn work_until_the_cut(
    store: Store,
    writes: u64,
    setup: (LazyUpdateConfig, JournalConfig),
) -> (Store, History) {
    let mut index = Index::mount(store.failing_after(writes), &(setup.0, setup.1)).unwrap();
    let (mut history, mut rng) = (History::new(Model::new()), Rng::new(3));
    let mix = Mix { remounts: 1, ..Mix::updates(120, [32, 34], 3) };
    loop {
        let op = mix.draw(&mut rng, RECORD);
        let done = match op {
            Op::Remount => index.close().map(|()| history.sync()),
            op => history.apply(&mut index, &op),
        };
        if let Err(error) = done {
            assert_eq!(error, IndexError::Store(StoreError::Nand(NandError::PowerLost)));
            return (index.into_store().copy(), history);
        }
    }
}

#[test]
fn a_cut_at_any_write_leaves_a_prefix_that_has_all_that_was_promised() {
    let setups = [
        JournalConfig::new(Durability::EveryOperation),
        JournalConfig::new(Durability::EverySync),
        JournalConfig { group: 5, ..JournalConfig::new(Durability::EverySync) },
    ];
    let (mut replayed, mut cut_again) = (0, 0);
    for writes in (0..600).step_by(stride(7)) {
        let inner = LazyUpdateConfig { policy: CommitPolicy::ALL[writes as usize % 4], ..inner(16) };
        let replay_ram = (writes % 5 < 3).then_some(0);
        let pages = Some(1 + writes as u32 % 4);
        let config = JournalConfig { pages, replay_ram, ..setups[writes as usize % 3] };
        let store = Index::format(Store::new(PAGE_BYTES, 400), &(inner, config)).unwrap().into_store();
        let (mut store, history) = work_until_the_cut(store, writes, (inner, config));
        let least = least(&history, config);
        // The recovery is cut as well, at every one of its writes; at times with a pool too small for what
        // was lost.
        let inner = if writes % 2 == 0 { inner } else { LazyUpdateConfig { pool_requests: 3, ..inner } };
        let mut recovered = None;
        for writes in 0.. {
            match Index::mount(store.copy().failing_after(writes), &(inner, config)) {
                Ok(mut index) => {
                    let found = contents(&mut index).unwrap();
                    assert!(history.had(&found, least), "after {writes} writes of the recovery");
                    assert_holds(&mut index, &found);
                    replayed += metric(&index, "journal_replayed_records");
                    recovered = Some(found);
                    break;
                }
                Err(error) => {
                    assert_eq!(error, IndexError::Store(StoreError::Nand(NandError::PowerLost)));
                    store = store.failing_after(writes);
                    drop(Index::mount(store.handle(), &(inner, config)).err());
                    store = store.copy();
                    cut_again += 1;
                }
            }
        }
        let mut index = Index::mount(store, &(inner, config)).unwrap();
        let mut model = recovered.unwrap();
        assert_eq!(contents(&mut index).unwrap(), model);
        put(&mut index, &mut model, &key(5), &[0; 2]).unwrap();
        index.close().unwrap();
        let mut index = Index::mount(index.into_store(), &(inner, config)).unwrap();
        assert_eq!(metric(&index, "journal_replayed_records"), 0);
        assert_holds(&mut index, &model);
    }
    let (few, again) = sized((400, 70), (3_000, 500));
    assert!(replayed > few && cut_again > again, "{replayed} {cut_again}");
}

/// An index in use whose journal has three pages of records, and its contents.
fn used(config: JournalConfig) -> (Store, Model) {
    let mut index = Index::format(Store::new(PAGE_BYTES, 300), &(inner(20), config)).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(5));
    while index.stats().metrics.iter().all(|m| m.name != "journal_cut_offs" || m.value < 2)
        || index.journal.lock().used_pages() < 3
    {
        let (n, v) = (key(rng.below(100) as u16), key(rng.below(9_999) as u16));
        put(&mut index, &mut model, &n, &v).unwrap();
    }
    index.sync().unwrap();
    (index.into_store(), model)
}

fn config_of(pages: u32) -> JournalConfig {
    let replay_ram = pages.is_multiple_of(2).then_some(0);
    JournalConfig { pages: Some(pages), replay_ram, ..JournalConfig::new(Durability::EveryOperation) }
}

#[test]
fn damage_in_the_run_is_an_error_and_behind_it_is_none() {
    let config = config_of(6);
    let (store, model) = used(config);
    let mut rng = Rng::new(8);
    let (mut refused, mut right) = (0, 0);
    for number in 0..6u32 {
        for _ in 0..200 {
            let mut harmed = store.copy();
            let mut page = [0; PAGE_BYTES];
            harmed.read(Lpn(299 - number), Cause::Check, &mut page).unwrap();
            let bit = rng.below(PAGE_BYTES as u64 * 8) as usize;
            page[bit / 8] ^= 1 << (bit % 8);
            harmed.write(Lpn(299 - number), Cause::Check, &page).unwrap();
            match Index::mount(harmed, &(inner(20), config)) {
                Ok(mut index) => {
                    assert!(number > 2, "page {number}");
                    assert_holds(&mut index, &model);
                    right += 1;
                }
                Err(IndexError::Corrupted { at, .. }) => {
                    assert_eq!(at, u64::from(number));
                    refused += 1;
                }
                // Without its magic the first page is nobody's.
                Err(error) => assert_eq!((number, matches!(error, IndexError::NotFormatted(_))), (0, true)),
            }
        }
    }
    assert!(refused > 500 && right == 600, "{refused} {right}");
}

#[test]
fn a_missing_page_is_noticed_and_so_is_an_older_one_amid_the_run() {
    let config = config_of(6);
    let (store, _) = used(config);
    let mount = |store| Index::mount(store, &(inner(20), config)).err();
    let page = |number: u32| {
        let mut page = [0; PAGE_BYTES];
        store.copy().read(Lpn(299 - number), Cause::Check, &mut page).unwrap();
        page
    };
    for number in [0, 1] {
        let mut harmed = store.copy();
        harmed.trim(Lpn(299 - number)).unwrap();
        let refused = mount(harmed);
        assert!(
            matches!(refused, Some(IndexError::Corrupted { .. } | IndexError::NotFormatted(_))),
            "{refused:?}"
        );
    }
    // As a store would that lost the newest version of a page.
    for (number, epoch, records) in [(0, 2, PAGE_RECORDS), (1, 3, PAGE_RECORDS - 1), (1, 2, PAGE_RECORDS)] {
        let mut harmed = store.copy();
        let mut older = page(number);
        let layout = super::page::layout(RECORD, 6, PAGE_BYTES).unwrap();
        layout.seal::<Updates>(
            &mut older,
            nandex::record_log::Header { number, epoch, records, is_closed: false, goes_on: false },
        );
        harmed.write(Lpn(299 - number), Cause::Check, &older).unwrap();
        assert!(
            matches!(mount(harmed), Some(IndexError::Corrupted { .. })),
            "page {number} of epoch {epoch}"
        );
    }
    let mut swapped = store.copy();
    swapped.write(Lpn(298), Cause::Check, &page(2)).unwrap();
    assert!(matches!(mount(swapped), Some(IndexError::Corrupted { at: 1, .. })));
}

#[test]
fn a_full_store_refuses_updates_and_takes_them_again_after_removals() {
    for config in
        [config_of(2), JournalConfig { pages: Some(3), ..JournalConfig::new(Durability::EverySync) }]
    {
        let mut index = Index::format(Store::new(PAGE_BYTES, 43), &(inner(20), config)).unwrap();
        let (mut model, mut refused) = (Model::new(), 0);
        for round in 0..3u16 {
            for n in (0..400u16).map(|n| n * 17 % 400) {
                if let Err(error) = put(&mut index, &mut model, &key(n), &key(round)) {
                    assert!(error.is_full(), "{error}");
                    refused += 1;
                }
            }
            assert!(model.len() > 60, "{}", model.len());
            index.sync().unwrap();
            index = Index::mount(index.into_store(), &(inner(20), config)).unwrap();
            assert_holds(&mut index, &model);
            for n in (0..400u16).step_by(3) {
                take(&mut index, &mut model, &key(n)).unwrap();
            }
            index.close().unwrap();
            index = Index::mount(index.into_store(), &(inner(20), config)).unwrap();
            assert_holds(&mut index, &model);
        }
        assert!(refused > 300, "{refused}");
    }
}

#[test]
fn groups_cost_what_they_say() {
    let writes = |index: &Index<Store>| metric(index, "journal_page_writes");
    for (group, expected) in [(1, 60), (7, 60 / 7), (0, 60 / PAGE_RECORDS as u64)] {
        let every_sync = JournalConfig { group, ..JournalConfig::new(Durability::EverySync) };
        let config = JournalConfig { pages: Some(10), ..every_sync };
        let mut index = Index::format(Store::new(PAGE_BYTES, 300), &(inner(100), config)).unwrap();
        let before = writes(&index);
        for n in 0..60 {
            index.insert(&key(n), &key(n)).unwrap();
        }
        let grouped = writes(&index) - before;
        assert!((expected..=expected + 3).contains(&grouped), "{grouped} in groups of {group}");
        index.sync().unwrap();
        index.sync().unwrap();
        assert!(writes(&index) - before <= grouped + 1, "a sync writes a page at most");
        assert_eq!(
            (metric(&index, "commits"), index.inner().pooled_requests()),
            (0, 60),
            "nothing else was written"
        );
        let held = index.ram_bytes() - index.inner().ram_bytes();
        assert!(held <= JournalConfig::ram_bytes(PAGE_BYTES), "{held} bytes of RAM");
    }
}

#[test]
fn a_cut_after_a_cut_off_loses_no_more_than_the_last_records() {
    let config = JournalConfig { pages: Some(1), ..JournalConfig::new(Durability::EverySync) };
    let mut index = Index::format(Store::new(PAGE_BYTES, 300), &(inner(60), config)).unwrap();
    index.insert(&key(7), &key(1)).unwrap();
    index.sync().unwrap();
    // The removal cancels the insertion that is on the medium already, and a cut-off finds nothing to commit.
    while metric(&index, "journal_cut_offs") == 0 {
        index.remove(&key(7)).unwrap();
    }
    let mut index = Index::mount(index.into_store(), &(inner(60), config)).unwrap();
    assert_holds(&mut index, &Model::new());
}

#[test]
fn a_cut_during_a_load_leaves_all_of_it_or_nothing() {
    let config = config_of(2);
    let mut index = Index::format(Store::new(PAGE_BYTES, 300), &(inner(20), config)).unwrap();
    // The journal has a record that must not come back.
    index.insert(&key(3), &key(9)).unwrap();
    index.remove(&key(3)).unwrap();
    let store = index.into_store();
    let model: Model = (0..100).map(|n| (key(n).to_vec(), key(n).to_vec())).collect();
    let (mut empty, mut loaded) = (0, 0);
    for writes in 0..80 {
        let mut index = Index::mount(store.copy().failing_after(writes), &(inner(20), config)).unwrap();
        let done = index.load(&mut model.iter().map(|(key, value)| (&key[..], &value[..])));
        let mut index = Index::mount(index.into_store().copy(), &(inner(20), config)).unwrap();
        let found = contents(&mut index).unwrap();
        assert!(found == model || done.is_err() && found.is_empty(), "after {writes} writes");
        assert_holds(&mut index, &found);
        empty += u32::from(found.is_empty());
        loaded += u32::from(done.is_ok());
    }
    assert!(empty > 20 && loaded > 20, "{empty} {loaded}");
}

#[test]
fn the_journal_is_not_written_for_updates_that_a_commit_does_not_show() {
    let forced = |policy| {
        let config = JournalConfig { pages: Some(9), ..JournalConfig::new(Durability::EverySync) };
        let setup = LazyUpdateConfig { policy, ..inner(80) };
        let mut index = Index::format(Store::new(PAGE_BYTES, 2_000), &(setup, config)).unwrap();
        let mut rng = Rng::new(4);
        for n in 0..3_000 {
            index.insert(&key(rng.below(1_000) as u16), &key(n)).unwrap();
        }
        (metric(&index, "journal_forced_writes"), metric(&index, "commits"))
    };
    // The group hit least recently is older than a page of records, unless all go at a cut-off.
    let (lru, commits) = forced(CommitPolicy::Lru);
    assert!(commits > 1_000 && lru * 20 < commits, "{lru} of {commits}");
    let (biggest, commits) = forced(CommitPolicy::BiggestSize);
    assert!(commits > 1_000 && biggest * 4 < commits * 3, "{biggest} of {commits}");
    let (fifo, commits) = forced(CommitPolicy::Fifo);
    assert!(fifo * 10 > commits * 4, "{fifo} of {commits}: nobody knows what is newest in a group");
}

#[test]
fn what_cannot_work_is_refused() {
    let unsupported = |error: Option<IndexError>| {
        let Some(IndexError::Unsupported(why)) = error else { panic!("{error:?}") };
        assert!(why.len() > 15, "{why}");
    };
    let format = |store, config| Index::format(store, &(inner(9), config)).err();
    let store = || Store::new(PAGE_BYTES, 40);
    unsupported(format(store().with_atomic_pages(1), config_of(2)));
    unsupported(format(store(), JournalConfig { group: 2, ..config_of(2) }));
    unsupported(format(store(), config_of(39)));
    unsupported(format(store(), config_of(0)));
    unsupported(format(Store::new(40, 40), config_of(2)));
    unsupported(format(Store::new(PAGE_BYTES, 0), config_of(2)));
    let index = Index::format(store(), &(inner(9), config_of(2))).unwrap();
    let mut made = index.into_store();
    let other = LazyUpdateConfig::new(RecordFormat::new(2, 3), 9);
    assert!(matches!(
        Index::mount(made.copy(), &(other, config_of(2))).err(),
        Some(IndexError::NotFormatted(_))
    ));
    assert!(matches!(
        Index::mount(made.copy(), &(inner(9), config_of(3))).err(),
        Some(IndexError::NotFormatted(_))
    ));
    assert!(matches!(refuse_journaled(&mut made), Err(IndexError::NotFormatted(_))));
    let mut published = LazyUpdateTree::format(made, &inner(9)).unwrap().into_store();
    assert_eq!(refuse_journaled(&mut published), Ok(()));
    let refused = Index::mount(published, &(inner(9), config_of(2))).err();
    assert!(matches!(refused, Some(IndexError::NotFormatted(_))));
}

/// A forger who knows the checksum may mislead the index. It must not panic.
#[test]
fn forged_pages_never_panic() {
    crate::inputs::cases(1_500, |seed| {
        let (mut rng, config) = (Rng::new(seed), config_of(6));
        let (mut store, _) = used(config);
        let mut page = [0; PAGE_BYTES];
        for _ in 0..1 + rng.below(5) {
            let lpn = Lpn(280 + rng.below(20) as u32);
            store.read(lpn, Cause::Check, &mut page).unwrap();
            page[4 + rng.below(PAGE_BYTES as u64 - 4) as usize] = rng.next_u64() as u8;
            let crc = nandex::codec::crc32(&[&page[4..]]);
            nandex::codec::put_u32(&mut page, 0, crc);
            store.write(lpn, Cause::Check, &page).unwrap();
        }
        let Ok(mut index) = Index::mount(store, &(inner(20), config)) else { return };
        for _ in 0..120 {
            let n = key(rng.below(120) as u16);
            let _ = if rng.chance(1, 2) { index.insert(&n, &[1; 2]) } else { index.remove(&n) };
        }
        let _ = index.sync();
        let _ = index.check();
        let _ = index.close();
    });
}
