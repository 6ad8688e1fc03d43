//! Trees whose pages keep their places on a store: what is written where, and what a mount finds.

#![allow(clippy::unwrap_used)]

mod ipl;

use nandex::Shared;
use nandex::log::Placement;
use nandex::ordered::mu::{MuStarTree, MuTree};
use nandex::ordered::wandering::WanderingTree;
use nandex::ordered::{Direction, Durability, OrderedIndex, RawConfig, RecordFormat};
use nandex::rng::Rng;
use nandex::store::ram::RamStore;
use nandex::store::store_nand::StoreNand;
use nandex::store::{PageStore, StoreError};
use nandex::units::Lpn;
use nandex::{Cause, IndexError, Nand};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

const RECORD: RecordFormat = RecordFormat::new(4, 4);

/// A call to a store.
#[derive(Debug, Default)]
struct Log {
    writes: Vec<u32>,
    trims: u64,
    reads: u64,
    /// Writes before the store loses power.
    power: Option<u64>,
}

/// A store that tells what is done to it.
struct Watched {
    store: Shared<RamStore>,
    log: Shared<Log>,
}

impl PageStore for Watched {
    fn page_bytes(&self) -> usize {
        self.store.lock().page_bytes()
    }
    fn page_count(&self) -> u32 {
        self.store.lock().page_count()
    }
    fn read(&mut self, lpn: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        self.log.lock().reads += u64::from(cause != Cause::Check);
        self.store.lock().read(lpn, cause, data)
    }
    fn write(&mut self, lpn: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreError> {
        let mut log = self.log.lock();
        if log.power.is_some_and(|writes| log.writes.len() as u64 >= writes) {
            return Err(StoreError::Nand(nandex::NandError::PowerLost));
        }
        log.writes.push(lpn.0);
        self.store.lock().write(lpn, cause, data)
    }
    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        self.log.lock().trims += 1;
        self.store.lock().trim(lpn)
    }
    fn sync(&mut self) -> Result<(), StoreError> {
        self.store.lock().sync()
    }
    fn durable_writes(&self) -> bool {
        true
    }
    fn prefix_consistent(&self) -> bool {
        true
    }
    fn ram_bytes(&self) -> usize {
        self.store.lock().ram_bytes()
    }
}

/// A store that outlasts the tree on it.
struct Shelf {
    store: Shared<RamStore>,
    log: Shared<Log>,
}

impl Shelf {
    fn new(page_bytes: usize, blocks: u32) -> Shelf {
        let store = Shared::new(RamStore::new(page_bytes, blocks * 16));
        Shelf { store, log: Shared::default() }
    }

    fn chip(&self) -> StoreNand<Watched> {
        let watched = Watched { store: self.store.clone(), log: self.log.clone() };
        StoreNand::new(watched, 16, 63).unwrap().replacing()
    }

    /// Changes what a page holds.
    fn change(&self, place: u32, change: impl FnOnce(&mut [u8])) {
        let mut store = self.store.lock();
        let mut page = vec![0; store.page_bytes()];
        store.read(Lpn(place), Cause::Host, &mut page).unwrap();
        change(&mut page);
        store.write(Lpn(place), Cause::Host, &page).unwrap();
    }
}

fn settings<C: Copy + Default>() -> RawConfig<C> {
    RawConfig { placement: Placement::InPlace, ..RawConfig::new(RECORD) }
}

fn contents(tree: &mut dyn OrderedIndex) -> BTreeMap<[u8; 4], [u8; 4]> {
    let mut all = BTreeMap::new();
    tree.range(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, &mut |key, value| {
        all.insert(key.try_into().unwrap(), value.try_into().unwrap());
        ControlFlow::Continue(())
    })
    .unwrap();
    all
}

type Open = fn(StoreNand<Watched>, &RawConfig, bool) -> Result<Box<dyn OrderedIndex>, IndexError>;

fn mu(
    chip: StoreNand<Watched>,
    config: &RawConfig,
    fresh: bool,
) -> Result<Box<dyn OrderedIndex>, IndexError> {
    Ok(if fresh { Box::new(MuTree::format(chip, config)?) } else { Box::new(MuTree::mount(chip, config)?) })
}

fn star(
    chip: StoreNand<Watched>,
    config: &RawConfig,
    fresh: bool,
) -> Result<Box<dyn OrderedIndex>, IndexError> {
    let config = RawConfig { read_pages: config.read_pages, ..settings() };
    Ok(if fresh {
        Box::new(MuStarTree::format(chip, &config)?)
    } else {
        Box::new(MuStarTree::mount(chip, &config)?)
    })
}

const TREES: [Open; 2] = [mu, star];

#[test]
fn an_update_writes_over_the_page_of_its_leaf() {
    for open in TREES {
        let shelf = Shelf::new(576, 128);
        let mut tree = open(shelf.chip(), &settings(), true).unwrap();
        let mut rng = Rng::new(5);
        let keys: Vec<[u8; 4]> = (0..3000).map(|_| (rng.below(1 << 20) as u32).to_be_bytes()).collect();
        for key in &keys {
            tree.insert(key, key).unwrap();
        }
        // The path settles in the layout at hand.
        keys.iter().for_each(|key| assert!(tree.insert(key, key).unwrap()));
        assert!(tree.stats().height >= 3);
        let (live, trims) = (tree.stats().live_pages, shelf.log.lock().trims);
        let place_of = |tree: &mut Box<dyn OrderedIndex>, key: &[u8]| {
            let before = shelf.log.lock().writes.len();
            assert!(tree.insert(key, &[7; 4]).unwrap());
            let log = shelf.log.lock();
            assert_eq!(log.writes.len(), before + 1, "one page an update");
            log.writes[before]
        };
        for key in &keys {
            let place = place_of(&mut tree, key);
            let other = keys[rng.below(3000) as usize];
            place_of(&mut tree, &other);
            assert_eq!(place_of(&mut tree, key), place, "the leaf moved");
        }
        assert_eq!((tree.stats().live_pages, shelf.log.lock().trims), (live, trims));
        assert!(tree.check().unwrap().is_sound());
    }
}

#[test]
fn it_is_a_map_over_mounts() {
    for open in TREES {
        for (page_bytes, keys) in [(576, 3000), (1088, 6000)] {
            let shelf = Shelf::new(page_bytes, 96);
            let settings = RawConfig { read_pages: Some(3), ..settings() };
            let mut tree = open(shelf.chip(), &settings, true).unwrap();
            assert_eq!(tree.durability(), Durability::EveryOperation);
            let (mut model, mut rng) = (BTreeMap::new(), Rng::new(keys));
            for op in 0..24_000u32 {
                let key = (rng.below(keys) as u32).to_be_bytes();
                // Grows, shrinks to nothing nearly, and grows again.
                if rng.below(100) < if op / 6000 == 1 { 10 } else { 60 } {
                    let value = op.to_be_bytes();
                    assert_eq!(tree.insert(&key, &value).unwrap(), model.insert(key, value).is_some());
                } else {
                    assert_eq!(tree.remove(&key).unwrap(), model.remove(&key).is_some());
                }
                if op % 1000 == 999 {
                    let report = tree.check().unwrap();
                    assert!(report.is_sound(), "operation {op}: {:?}", report.violations);
                    if op % 2000 == 999 {
                        tree.close().unwrap();
                    }
                    drop(tree);
                    tree = open(shelf.chip(), &settings, false).unwrap();
                    assert_eq!(contents(&mut *tree), model, "operation {op}");
                }
            }
            for key in model.keys() {
                assert!(tree.remove(key).unwrap());
            }
            assert_eq!((tree.stats().height, tree.stats().live_pages), (1, 1));
        }
    }
}

#[test]
fn a_cut_leaves_the_tree_before_the_operation_or_after_it() {
    for open in TREES {
        let run = |power: Option<u64>| {
            let shelf = Shelf::new(576, 24);
            let mut tree = open(shelf.chip(), &settings(), true).unwrap();
            shelf.log.lock().power = power;
            let (mut model, mut rng) = (BTreeMap::<[u8; 4], [u8; 4]>::new(), Rng::new(3));
            for op in 0..1500u32 {
                let key = (rng.below(900) as u32).to_be_bytes();
                let old = model.get(&key).copied();
                let outcome = if rng.below(10) < if op < 1000 { 8 } else { 2 } {
                    model.insert(key, op.to_be_bytes());
                    tree.insert(&key, &op.to_be_bytes())
                } else {
                    model.remove(&key);
                    tree.remove(&key)
                };
                if let Err(error) = outcome {
                    assert_eq!(error, IndexError::Store(StoreError::Nand(nandex::NandError::PowerLost)));
                    let mut before = model.clone();
                    before.remove(&key);
                    before.extend(old.map(|value| (key, value)));
                    return (shelf, [before, model]);
                }
            }
            (shelf, [model.clone(), model])
        };
        let writes = run(None).0.log.lock().writes.len() as u64;
        for power in (1..writes).step_by(3) {
            let (shelf, states) = run(Some(power));
            shelf.log.lock().power = None;
            let mut tree = open(shelf.chip(), &settings(), false).unwrap();
            let report = tree.check().unwrap();
            assert!(report.is_sound(), "after {power} writes: {:?}", report.violations);
            // Every write but an operation's last leaves the tree as it was.
            assert_eq!(contents(&mut *tree), states[0], "after {power} writes");
            tree.insert(&[0; 4], &[9; 4]).unwrap();
            let mut value = [0; 4];
            assert!(tree.get(&[0; 4], &mut value).unwrap() && value == [9; 4]);
        }
    }
}

#[test]
fn a_page_that_cannot_be_read_refuses_the_mount() {
    let shelf = Shelf::new(576, 24);
    let mut tree = star(shelf.chip(), &settings(), true).unwrap();
    for key in 0..500u32 {
        tree.insert(&key.to_be_bytes(), &[1; 4]).unwrap();
    }
    drop(tree);
    let place = *shelf.log.lock().writes.last().unwrap();
    shelf.change(place, |page| page[9] ^= 4);
    assert!(matches!(star(shelf.chip(), &settings(), false), Err(IndexError::Corrupted { .. })));
}

#[test]
fn what_cannot_keep_its_places_is_refused() {
    let shelf = Shelf::new(576, 24);
    let refused = |outcome: Result<(), IndexError>| matches!(outcome, Err(IndexError::Unsupported(_)));
    let plain = || StoreNand::new(RamStore::new(576, 24 * 16), 16, 63).unwrap();
    assert!(!plain().replaces() && shelf.chip().replaces());
    assert!(refused(MuTree::format(plain(), &settings()).map(drop)));
    assert!(refused(WanderingTree::format(shelf.chip(), &settings()).map(drop)));
    let cached = RawConfig { durability: Durability::EverySync, write_pages: Some(2), ..settings() };
    assert!(refused(MuTree::format(shelf.chip(), &cached).map(drop)));
    let log_structured = StoreNand::new(RamStore::new(576, 24 * 16), 16, 63).unwrap();
    let store = MuTree::format(log_structured, &RawConfig::new(RECORD)).unwrap().into_nand().into_store();
    let chip = StoreNand::new(store, 16, 63).unwrap().replacing();
    assert!(matches!(MuTree::mount(chip, &settings()), Err(IndexError::NotFormatted(_))));
    let other = RawConfig { record: RecordFormat::new(8, 4), ..settings() };
    drop(MuTree::format(shelf.chip(), &settings()).unwrap());
    assert!(matches!(MuTree::mount(shelf.chip(), &other), Err(IndexError::NotFormatted(_))));
    assert!(matches!(MuStarTree::mount(shelf.chip(), &settings()), Err(IndexError::NotFormatted(_))));
}
