//! Trees whose pages keep their places on a store: where pages are written, and what a mount finds.

#![allow(clippy::unwrap_used)]

mod ipl;

use crate::inputs::{sized, stride};
use nandex::log::Placement;
use nandex::ordered::buffered::Answers;
use nandex::ordered::mu::{MuStarTree, MuTree};
use nandex::ordered::wandering::WanderingTree;
use nandex::ordered::{Durability, OrderedIndex, RawConfig, RecordFormat};
use nandex::rng::Rng;
use nandex::store::StoreError;
use nandex::store::store_nand::StoreNand;
use nandex::testing::{
    Call, History, Mix, Model, SINGLE, Store, apply, assert_holds, assert_sound, contents, put, take,
};
use nandex::units::Lpn;
use nandex::{Cause, IndexError, Nand};
use std::collections::BTreeMap;

const RECORD: RecordFormat = RecordFormat::new(4, 4);

/// A store that outlasts the tree on it.
struct Shelf {
    store: Store,
}

impl Shelf {
    fn new(page_bytes: usize, blocks: u32) -> Shelf {
        let store = Store::new(page_bytes, blocks * 16).with_promise(SINGLE);
        store.note_changes();
        Shelf { store }
    }

    /// The pages written so far, in order.
    fn writes(&self) -> Vec<u32> {
        self.store.written(&Cause::COUNTED)
    }

    fn trims(&self) -> u64 {
        self.store.counters().trims
    }

    /// Lets the power fail once so many pages were written since the beginning.
    fn fail_after(&self, writes: u64) {
        let mut left = writes.saturating_sub(self.writes().len() as u64);
        self.store.on_call(move |call| {
            if let Call::Write(..) = call {
                left = left.checked_sub(1).ok_or(StoreError::Nand(nandex::NandError::PowerLost))?;
            }
            Ok(())
        });
    }

    /// On any chip, so that each tree is compiled for one.
    fn chip(&self) -> Box<dyn Nand> {
        Box::new(shown(&self.store).replacing())
    }

    /// Changes what a page holds.
    fn change(&self, place: u32, change: impl FnOnce(&mut [u8])) {
        let mut page = self.store.page_of(Lpn(place));
        change(&mut page);
        self.store.put(Lpn(place), &page);
    }
}

/// A store as a chip that writes each page once.
fn shown(store: &Store) -> StoreNand<Store> {
    StoreNand::new(store.handle(), 16, 63).unwrap()
}

fn settings<C: Copy + Default>() -> RawConfig<C> {
    RawConfig { placement: Placement::InPlace, ..RawConfig::new(RECORD) }
}

type Open = fn(Box<dyn Nand>, &RawConfig, bool) -> Result<Box<dyn OrderedIndex>, IndexError>;

fn mu(chip: Box<dyn Nand>, config: &RawConfig, fresh: bool) -> Result<Box<dyn OrderedIndex>, IndexError> {
    Ok(if fresh { Box::new(MuTree::format(chip, config)?) } else { Box::new(MuTree::mount(chip, config)?) })
}

fn star(chip: Box<dyn Nand>, config: &RawConfig, fresh: bool) -> Result<Box<dyn OrderedIndex>, IndexError> {
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
        let keys: Vec<[u8; 4]> =
            (0..sized(1500, 3000)).map(|_| (rng.below(1 << 20) as u32).to_be_bytes()).collect();
        for key in &keys {
            tree.insert(key, key).unwrap();
        }
        // The path settles in the layout at hand.
        keys.iter().for_each(|key| assert!(tree.insert(key, key).unwrap()));
        assert!(tree.stats().height >= 3);
        let (live, trims) = (tree.stats().live_pages, shelf.trims());
        let place_of = |tree: &mut Box<dyn OrderedIndex>, key: &[u8]| {
            let before = shelf.writes().len();
            assert!(tree.insert(key, &[7; 4]).unwrap());
            let writes = shelf.writes();
            assert_eq!(writes.len(), before + 1, "one page an update");
            writes[before]
        };
        for key in &keys {
            let place = place_of(&mut tree, key);
            let other = keys[rng.below(keys.len() as u64) as usize];
            place_of(&mut tree, &other);
            assert_eq!(place_of(&mut tree, key), place, "the leaf moved");
        }
        assert_eq!((tree.stats().live_pages, shelf.trims()), (live, trims));
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
            let (mut model, mut rng) = (Model::new(), Rng::new(keys));
            for op in 0..24_000u32 {
                // Grows, shrinks to nothing nearly, and grows again.
                let updates = if op / 6000 == 1 { [10, 90] } else { [60, 40] };
                let op_drawn = Mix::updates(keys, updates, 0).draw(&mut rng, RECORD);
                apply(&mut *tree, &mut model, &op_drawn, Answers::Exact);
                if op % 1000 == 999 {
                    assert_sound(&mut *tree, &model);
                    if op % 2000 == 999 {
                        tree.close().unwrap();
                    }
                    drop(tree);
                    tree = open(shelf.chip(), &settings, false).unwrap();
                    assert_holds(&mut *tree, &model);
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
            power.into_iter().for_each(|writes| shelf.fail_after(writes));
            let (mut history, mut rng) = (History::new(Model::new()), Rng::new(3));
            for op in 0..1500u32 {
                let before = history.now().clone();
                let mix = Mix::updates(900, if op < 1000 { [8, 2] } else { [2, 8] }, 0);
                if let Err(error) = history.apply(&mut *tree, &mix.draw(&mut rng, RECORD)) {
                    assert_eq!(error, IndexError::Store(StoreError::Nand(nandex::NandError::PowerLost)));
                    return (shelf, before);
                }
            }
            (shelf, history.now().clone())
        };
        let writes = run(None).0.writes().len() as u64;
        for power in (1..writes).step_by(3 * stride(13)) {
            let (shelf, before) = run(Some(power));
            shelf.store.refuse_nothing();
            let mut tree = open(shelf.chip(), &settings(), false).unwrap();
            // Every write but an operation's last leaves the tree as it was.
            assert_eq!(contents(&mut *tree).as_ref(), Ok(&before), "after {power} writes");
            assert_holds(&mut *tree, &before);
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
    let place = *shelf.writes().last().unwrap();
    shelf.change(place, |page| page[9] ^= 4);
    assert!(matches!(star(shelf.chip(), &settings(), false), Err(IndexError::Corrupted { .. })));
}

#[test]
fn what_cannot_keep_its_places_is_refused() {
    let shelf = Shelf::new(576, 24);
    let refused = |outcome: Result<(), IndexError>| matches!(outcome, Err(IndexError::Unsupported(_)));
    let plain = || -> Box<dyn Nand> { Box::new(shown(&Store::new(576, 24 * 16))) };
    assert!(!plain().replaces() && shelf.chip().replaces());
    assert!(refused(MuTree::format(plain(), &settings()).map(drop)));
    assert!(refused(WanderingTree::format(shelf.chip(), &settings()).map(drop)));
    let cached = RawConfig { durability: Durability::EverySync, write_pages: Some(2), ..settings() };
    assert!(refused(MuTree::format(shelf.chip(), &cached).map(drop)));
    let other = Shelf::new(576, 24);
    let log_structured: Box<dyn Nand> = Box::new(shown(&other.store));
    drop(MuTree::format(log_structured, &RawConfig::new(RECORD)).unwrap());
    assert!(matches!(MuTree::mount(other.chip(), &settings()), Err(IndexError::NotFormatted(_))));
    let other = RawConfig { record: RecordFormat::new(8, 4), ..settings() };
    drop(MuTree::format(shelf.chip(), &settings()).unwrap());
    assert!(matches!(MuTree::mount(shelf.chip(), &other), Err(IndexError::NotFormatted(_))));
    assert!(matches!(MuStarTree::mount(shelf.chip(), &settings()), Err(IndexError::NotFormatted(_))));
}
