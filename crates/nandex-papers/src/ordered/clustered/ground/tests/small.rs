//! Stores of few pages and RAM of few bytes: default values adapt to them.

use super::super::*;
use super::members;
use crate::inputs::stride;
use crate::ordered::journal::{Below, JournalConfig, Journaled};
use alloc::vec::Vec;
use nandex::rng::Rng;
use nandex::testing::{Model, Store, assert_holds, fill, take};

const RECORD: RecordFormat = RecordFormat::new(8, 8);

type Plain = ClusteredTree<Store>;
type Safe = Journaled<Store, ClusteredTree<Below>>;

fn journal() -> JournalConfig {
    JournalConfig::new(Durability::EveryOperation)
}

/// Inserts until the index is full and removes the lower half, again and again. The index is reopened in
/// between.
fn fill_and_drain<I: OrderedIndex>(mut index: I, reopen: impl Fn(I) -> I, what: &str) {
    let (mut model, mut rng) = (Model::new(), Rng::new(1));
    let mut reopen = Some(reopen);
    for round in 0..3u64 {
        let mut next = || (rng.next_u64().to_be_bytes().to_vec(), round.to_be_bytes().to_vec());
        let inserted = fill(&mut index, &mut model, &mut next);
        assert!(inserted > 60, "{what}, round {round}: only {inserted} inserts");
        assert_holds(&mut index, &model);
        let gone: Vec<Vec<u8>> = model.keys().take(model.len() / 2).cloned().collect();
        for key in gone {
            assert_eq!(take(&mut index, &mut model, &key), Ok(true), "{what}");
        }
        assert_holds(&mut index, &model);
        if round == 1 {
            index.close().unwrap();
            index = reopen.take().unwrap()(index);
            assert_holds(&mut index, &model);
        }
    }
}

fn figures(layer: &Layer<impl PageStore>) -> (u32, u32, u32, u32) {
    let plan = &layer.plan;
    (plan.batch_nodes, plan.segment_pages, plan.table_pages, plan.nodes_max)
}

fn sweep(page_bytes: usize, pages: u32) {
    for config in members(RECORD) {
        let what = alloc::format!("{:?} on {pages} pages of {page_bytes} bytes", config.policy);
        let index = Plain::format(Store::new(page_bytes, pages), &config).unwrap();
        let remount = |index: Plain| {
            let before = figures(index.layer());
            let index = Plain::mount(index.into_store(), &config).unwrap();
            assert_eq!(figures(index.layer()), before, "{what}");
            index
        };
        fill_and_drain(index, remount, &what);
    }
}

fn sweep_journaled(page_bytes: usize, pages: u32) {
    for config in members(RECORD) {
        let what = alloc::format!("{:?}, journaled, on {pages} pages of {page_bytes} bytes", config.policy);
        let index = Safe::format(Store::new(page_bytes, pages), &(config, journal())).unwrap();
        let remount = |index: Safe| {
            let before = figures(index.inner().layer());
            let index = Safe::mount(index.into_store(), &(config, journal())).unwrap();
            assert_eq!(figures(index.inner().layer()), before, "{what}");
            index
        };
        fill_and_drain(index, remount, &what);
    }
}

#[test]
fn defaults_suit_a_store_of_few_pages() {
    let step = stride(2);
    for (number, pages) in [60, 100, 128, 233, 320].into_iter().enumerate() {
        for page_bytes in [1024, 2048].into_iter().skip(number % step).step_by(step) {
            sweep(page_bytes, pages);
        }
    }
}

#[test]
fn defaults_leave_room_for_a_journal() {
    for pages in [80, 100, 128, 233, 320] {
        sweep_journaled(1024, pages);
    }
}

/// Settings for an index in `ram_bytes` bytes of RAM, divided as for a store of this size: tables first,
/// then the batch.
fn in_ram(config: ClusteredConfig, ram_bytes: usize, store: Store) -> Option<ClusteredConfig> {
    let with = |bytes: usize| config.with_batch_in(bytes / 100 * 50, store.page_bytes());
    let least = with(0);
    let tables = least.ram_bytes_max(&store).unwrap() - least.batch_bytes(&store).unwrap();
    let left = ram_bytes.checked_sub(tables)?;
    let config = with(left);
    (config.batch_bytes(&store).unwrap() <= left).then_some(config)
}

#[test]
fn no_index_holds_more_ram_than_it_was_given() {
    for config in members(RECORD) {
        let (mut taken, mut batches) = (0, Vec::new());
        for ram_bytes in (20_000..200_000).step_by(7_777) {
            let store = Store::new(2048, 4_096);
            let Some(config) = in_ram(config, ram_bytes, store.copy()) else { continue };
            let mut index = Plain::format(store, &config).unwrap();
            taken += 1;
            batches.push(index.layer().plan.batch_nodes);
            let mut rng = Rng::new(ram_bytes as u64);
            for _ in 0..1_000 {
                let key = rng.below(8_000).to_be_bytes();
                index.insert(&key, &key).unwrap();
                assert!(!index.remove(&rng.next_u64().to_be_bytes()).unwrap());
                let held = index.ram_bytes() - index.layer().store().ram_bytes();
                assert!(held <= ram_bytes, "{:?}: {held} of {ram_bytes} bytes", config.policy);
            }
        }
        assert!(taken > 10, "{:?}: {taken} budgets", config.policy);
        assert!(batches.is_sorted() && batches.first() < batches.last(), "{batches:?}");
    }
}

#[test]
fn what_is_too_small_for_a_tree_is_refused_in_numbers() {
    let refused = |config: ClusteredConfig, pages| {
        let Err(IndexError::Unsupported(why)) = Plain::format(Store::new(1024, pages), &config) else {
            panic!("{config:?} was taken");
        };
        let numbers = why.split_whitespace().filter(|word| word.parse::<u32>().is_ok()).count();
        assert!(numbers >= 5, "{why}");
    };
    for config in members(RECORD) {
        refused(config, 24);
        // What is asked for is not made smaller.
        refused(ClusteredConfig { batch_nodes: Some(64), ..config }, 100);
        let plan = config.on(1024, 4_000).unwrap();
        assert_eq!(plan.batch_nodes, config.batch_nodes_max);
        let fewer = config.on(1024, 100).unwrap().batch_nodes;
        assert!((1..config.batch_nodes_max).contains(&fewer), "{fewer}");
    }
    refused(ClusteredConfig { segment_pages: Some(30), ..members(RECORD)[0] }, 160);
}
