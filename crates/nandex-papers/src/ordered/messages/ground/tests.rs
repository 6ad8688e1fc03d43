//! Tests of every tree of this module: equal to a map over remounts, power cuts, damage, on a full store, and
//! with its journal.

use super::*;
use crate::ordered::journal::{Below, JournalConfig, Journaled};
use crate::ordered::tests::*;
use nandex::rng::Rng;
use nandex::testing::{Mix, Store, fill};
use nandex::units::Lpn;

type Tree<S, T> = MessageTree<S, T>;

pub(in crate::ordered) const PAGE_BYTES: usize = 128;

pub(in crate::ordered) fn is_a_sorted_map<T: MessageScheme>(config: &T::Config, rng: &mut Rng, pages: u32) {
    let (store, frames) = (Store::new(PAGE_BYTES, pages), rng.below(20) as usize);
    let index = Tree::<_, T>::format(store.with_cache(frames), &config.clone()).unwrap();
    let remount = |mut index: Tree<Store, T>| {
        index.close().unwrap();
        Tree::mount(index.into_store().with_cache(frames), &config.clone()).unwrap()
    };
    live(index, &any_ops(rng), T::common(config).answers, &remount, &mut |_, _| {});
}

fn history_until_the_cut(index: &mut dyn OrderedIndex, seed: u64) -> History {
    let mut history = History::new(Model::new());
    history.work(index, &mut Rng::new(seed), Mix::updates(300, [59, 30], 1));
    history
}

/// A cut after any write leaves a prefix of the history that includes the last sync, on a store without
/// atomic groups.
pub(in crate::ordered) fn cuts_leave_a_prefix<T: MessageScheme>(
    config: &T::Config,
    writes: impl Iterator<Item = u64>,
) {
    for writes in writes {
        let store = Store::new(PAGE_BYTES, 700).with_atomic_pages(1);
        let store = Tree::<_, T>::format(store, &config.clone()).unwrap().into_store();
        let mut index = Tree::<_, T>::mount(store.failing_after(writes), &config.clone()).unwrap();
        assert_eq!(index.durability(), Durability::EverySync);
        let history = history_until_the_cut(&mut index, writes);
        let mut index = Tree::<_, T>::mount(index.into_store().copy(), &config.clone()).unwrap();
        let found = contents(&mut index).unwrap();
        assert!(history.had(&found, 0), "after {writes} writes");
        assert_sound(&mut index, &found);
        index.insert(&key(500), &[1; 2]).unwrap();
        index.sync().unwrap();
    }
}

pub(in crate::ordered) fn a_journal_keeps_every_operation<T: MessageScheme>(
    config: &T::Config,
    writes: impl Iterator<Item = u64>,
) {
    for writes in writes {
        let class = if writes % 2 == 0 { Durability::EveryOperation } else { Durability::EverySync };
        let journal = JournalConfig { pages: Some(3), ..JournalConfig::new(class) };
        let store = Store::new(PAGE_BYTES, 700).with_atomic_pages(1);
        type Index<T> = Journaled<Store, MessageTree<Below, T>>;
        let store = Index::<T>::format(store, &(config.clone(), journal)).unwrap().into_store();
        store.fail_after(writes);
        let mut index = Index::<T>::mount(store, &(config.clone(), journal)).unwrap();
        assert_eq!(index.durability(), class);
        let history = history_until_the_cut(&mut index, writes);
        let least = if class == Durability::EveryOperation { history.acknowledged() } else { 0 };
        let store = index.into_store().copy();
        let mut index = Index::<T>::mount(store, &(config.clone(), journal)).unwrap();
        let found = contents(&mut index).unwrap();
        assert!(history.had(&found, least), "{class:?} after {writes} writes");
        assert_sound(&mut index, &found);
    }
}

/// A used tree on its store, and its contents.
fn used<T: MessageScheme>(config: &T::Config) -> (Store, Model) {
    let mut index = Tree::<_, T>::format(Store::new(PAGE_BYTES, 600), &config.clone()).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(1));
    for i in 0..1_500u16 {
        let n = key(rng.below(500) as u16);
        if rng.chance(3, 4) {
            index.insert(&n, &key(i)).unwrap();
            model.insert(n.to_vec(), key(i).to_vec());
        } else {
            index.remove(&n).unwrap();
            model.remove(&n[..]);
        }
    }
    index.close().unwrap();
    (index.into_store(), model)
}

pub(in crate::ordered) fn a_flipped_bit_is_an_error_or_changes_nothing<T: MessageScheme>(config: &T::Config) {
    let (store, model) = used::<T>(config);
    let (mut refused, mut right, mut rng) = (0, 0, Rng::new(3));
    for _ in 0..3_000 {
        let mut store = store.copy();
        let (lpn, bit) = (Lpn(rng.below(600) as u32), rng.below(1024) as usize);
        let mut page = [0; PAGE_BYTES];
        store.read(lpn, nandex::nand::Cause::Check, &mut page).unwrap();
        if page == [0; PAGE_BYTES] {
            continue;
        }
        page[bit / 8] ^= 1 << (bit % 8);
        store.write(lpn, nandex::nand::Cause::Check, &page).unwrap();
        match Tree::<_, T>::mount(store, &config.clone()).and_then(|mut index| contents(&mut index)) {
            Ok(found) => {
                assert_eq!(found, model);
                right += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 50 && refused + right > 100, "{refused} {right}");
}

/// A forger who knows the checksum may mislead the tree. It must neither panic nor run for ever.
pub(in crate::ordered) fn forged_pages_never_panic<T: MessageScheme>(config: &T::Config) {
    let (store, _) = used::<T>(config);
    for seed in 0..400 {
        let (mut store, mut rng) = (store.copy(), Rng::new(seed));
        for _ in 0..1 + rng.below(40) {
            let lpn = Lpn(if rng.chance(1, 4) { 0 } else { rng.below(600) as u32 });
            let mut page = [0; PAGE_BYTES];
            store.read(lpn, nandex::nand::Cause::Check, &mut page).unwrap();
            if page == [0; PAGE_BYTES] {
                continue;
            }
            let at = if rng.chance(1, 2) { 8 + rng.below(24) } else { 8 + rng.below(120) };
            page[at as usize] = if rng.chance(1, 2) { rng.next_u64() as u8 } else { rng.below(4) as u8 };
            let crc = nandex::codec::crc32(&[&page[4..]]);
            nandex::codec::put_u32(&mut page, 0, crc);
            store.write(lpn, nandex::nand::Cause::Check, &page).unwrap();
        }
        let Ok(mut index) = Tree::<_, T>::mount(store, &config.clone()) else { continue };
        use_forged(&mut index, seed);
    }
}

pub(in crate::ordered) fn a_full_store_loses_nothing<T: MessageScheme>(
    config: &T::Config,
    pages: u32,
    least: usize,
) {
    let mut index = Tree::<_, T>::format(Store::new(PAGE_BYTES, pages), &config.clone()).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(2));
    for round in 0..4u16 {
        let mut next = || (key(rng.next_u64() as u16).to_vec(), key(round).to_vec());
        let inserted = fill(&mut index, &mut model, &mut next);
        assert!(
            inserted >= least,
            "round {round}: {inserted} insertions, {} records: {:?}",
            model.len(),
            index.stats()
        );
        assert_sound(&mut index, &model);
        let half = model.len() / 2;
        let gone: Vec<Vec<u8>> = match round % 2 {
            0 => model.keys().take(half).cloned().collect(),
            _ => model.keys().step_by(2).cloned().collect(),
        };
        for n in gone {
            assert_eq!(take(&mut index, &mut model, &n), Ok(true));
        }
        index.sync().unwrap();
        assert_holds(&mut index, &model);
        index = Tree::mount(index.into_store(), &config.clone()).unwrap();
    }
}

pub(in crate::ordered) fn loads<T: MessageScheme>(config: &T::Config) {
    for count in [0, 1, 30, 400, 2_000u16] {
        let mut index = Tree::<_, T>::format(Store::new(PAGE_BYTES, 1_500), &config.clone()).unwrap();
        let mut model: Model = (0..count).map(|n| (key(n * 3).to_vec(), key(n).to_vec())).collect();
        let unsorted = [(key(3), key(1)), (key(2), key(1))];
        let mut pairs = unsorted.iter().map(|(k, v)| (&k[..], &v[..]));
        assert_eq!(index.load(&mut pairs), Err(IndexError::NotSorted { position: 1 }));
        let loaded = index.load(&mut model.iter().map(|(k, v)| (&k[..], &v[..])));
        assert_eq!(loaded, Ok(u64::from(count)));
        assert_sound(&mut index, &model);
        index = Tree::mount(index.into_store(), &config.clone()).unwrap();
        for n in 0..300 {
            index.insert(&key(n * 7), &key(n)).unwrap();
            model.insert(key(n * 7).to_vec(), key(n).to_vec());
            take(&mut index, &mut model, &key(n * 5)).unwrap();
        }
        assert_holds(&mut index, &model);
    }
    let mut index = Tree::<_, T>::format(Store::new(PAGE_BYTES, 80), &config.clone()).unwrap();
    let many: Model = (0..9_000).map(|n| (key(n).to_vec(), key(n).to_vec())).collect();
    assert_eq!(index.load(&mut many.iter().map(|(k, v)| (&k[..], &v[..]))), Err(IndexError::NO_BLOCK));
    assert_sound(&mut index, &Model::new());
    index.insert(&key(1), &key(1)).unwrap();
}

pub(in crate::ordered) fn accesses<T: MessageScheme>(index: &Tree<Store, T>) -> (u64, u64) {
    let counters = index.store().counters();
    (counters.page_reads.iter().sum(), counters.page_writes.iter().sum())
}
