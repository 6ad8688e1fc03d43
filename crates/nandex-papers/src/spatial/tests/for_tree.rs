//! The FOR-tree: its table, its merging back, and the tests of all trees.

use super::Pages;
use super::model::{Kind, Model, Sample, assert_same, everything, random_rect, window};
use crate::inputs::sized;
use crate::spatial::for_tree::{self, ForRules, ForTree, OverflowNodes, Sharing};
use alloc::vec::Vec;
use core::ops::ControlFlow;
use nandex::check::IndexError;
use nandex::codec::{crc32, put_u32};
use nandex::index::{Durability, Fill};
use nandex::rng::Rng;
use nandex::spatial::node::{NodeId, ROOT};
use nandex::spatial::paged::PagedNodes;
use nandex::spatial::tree::SpatialConfig;
use nandex::spatial::{Coordinate, Nodes, Packing, Rect, Relation, SpatialIndex};
use nandex::store::PageStore;
use nandex::testing::Store;
use nandex::testing::{Change, Promise, WRITE_THROUGH};
use proptest::prelude::*;

fn rules(overflow_max: u8, table_max: u32, sharing: Sharing) -> ForRules {
    ForRules { overflow_max, table_max, sharing, ..for_tree::config().rules }
}

fn figure<S: PageStore, C: Coordinate, const D: usize>(tree: &ForTree<S, C, D>, name: &str) -> u64 {
    tree.stats().metrics.iter().find(|metric| metric.name == name).unwrap().value
}

/// Makes waves of insertions and removals, with searches and remounts in between.
fn churn<C: Sample, const D: usize>(rules: ForRules, kind: Kind, capacity: usize, seed: u64) {
    let config = SpatialConfig::new(rules).with_capacity(capacity);
    let mut tree: ForTree<_, C, D> = for_tree::format(Store::new(1024, 600), &config).unwrap();
    let (mut model, mut rng) = (Model::<C, D>::random(kind, 0, 0), Rng::new(seed));
    for i in 0..sized(350, 700u64) {
        let grows = if (i / sized(125, 250)).is_multiple_of(2) { 5 } else { 1 };
        if rng.below(6) < grows || model.entries.is_empty() {
            let (rect, id) = (random_rect(kind, &mut rng), rng.below(50));
            tree.insert(&rect, id).unwrap();
            model.entries.push((rect, id));
        } else {
            let (rect, id) = model.entries[rng.below(model.entries.len() as u64) as usize];
            assert_eq!(tree.remove(&rect, id), Ok(true));
            assert!(model.remove(&rect, id));
            assert_eq!(tree.remove(&rect, 99), Ok(false));
        }
        let report = tree.check().unwrap();
        assert!(report.is_sound(), "{:?}", report.violations);
        if i % 90 == 0 {
            assert_same(&mut tree, &model, i);
        }
        if i % 200 == 0 {
            tree.close().unwrap();
            tree = for_tree::mount(tree.into_nodes().into_inner().into_store(), &config).unwrap();
        }
    }
    while let Some((rect, id)) = model.entries.pop() {
        assert_eq!(tree.remove(&rect, id), Ok(true));
    }
    assert_same(&mut tree, &model, seed);
    assert_eq!((tree.stats().height, tree.stats().live_pages), (1, 2));
    assert_eq!(figure(&tree, "overflow_nodes"), 0);
}

#[test]
fn the_for_tree_answers_as_a_list_does() {
    for (seed, kind) in super::KINDS.into_iter().enumerate() {
        let seed = seed as u64;
        churn::<i32, 2>(rules(4, 4096, Sharing::Sorted), kind, 4, seed);
        churn::<f64, 3>(rules(4, 4096, Sharing::Stored), kind, 9, seed);
        churn::<i32, 2>(rules(1, 5, Sharing::Sorted), kind, 5, seed);
        churn::<f64, 3>(rules(40, 90, Sharing::Stored), kind, 4, seed);
        churn::<f64, 3>(rules(0, 0, Sharing::Stored), kind, 6, seed);
    }
}

/// A tree of one leaf with room for four entries, and `more` entries in overflow nodes.
fn leaf_and(rules: ForRules, more: i32) -> ForTree<Store, i32, 2> {
    let config = SpatialConfig::new(rules).with_capacity(4);
    let mut tree = for_tree::format(Store::new(512, 60), &config).unwrap();
    for i in 0..4 + more {
        tree.insert(&Rect::point([i, i]).unwrap(), i as u64).unwrap();
    }
    tree
}

fn accesses(tree: &ForTree<Store, i32, 2>) -> u64 {
    tree.nodes().row(ROOT).map_or(0, |row| row.accesses)
}

#[test]
fn a_node_is_merged_back_on_the_insertion_after_enough_accesses() {
    let mut tree = leaf_and(rules(4, 4096, Sharing::Stored), 1);
    assert_eq!((tree.nodes().overflow_nodes(), accesses(&tree)), (1, 0));
    let search = |tree: &mut ForTree<Store, i32, 2>| {
        window(tree, &Rect::point([0, 0]).unwrap(), Relation::Covers);
    };
    (0..15).for_each(|_| search(&mut tree));
    assert_eq!((accesses(&tree), figure(&tree, "merge_backs"), tree.stats().height), (15, 0, 1));
    // The insertion reads the leaf, which is the sixteenth access, and merges back at once.
    tree.insert(&Rect::point([9, 9]).unwrap(), 9).unwrap();
    assert_eq!((figure(&tree, "merge_backs"), figure(&tree, "merged_pages")), (1, 2));
    assert_eq!((tree.nodes().overflow_nodes(), tree.stats().height, tree.stats().live_pages), (0, 2, 4));
    assert!(tree.check().unwrap().is_sound());
    // Checks and maps are no accesses.
    let mut tree = leaf_and(rules(4, 4096, Sharing::Stored), 1);
    tree.check().unwrap();
    tree.regions(&mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(accesses(&tree), 0);
}

#[test]
fn entries_go_into_the_first_page_with_room() {
    let mut tree = leaf_and(rules(4, 4096, Sharing::Stored), 6);
    let row = tree.nodes().row(ROOT).unwrap().clone();
    assert_eq!(row.overflow, [NodeId(2), NodeId(3)]);
    let pages = |tree: &ForTree<Store, i32, 2>| tree.stats().live_pages;
    assert_eq!(pages(&tree), 4);
    let remove = |tree: &mut ForTree<Store, i32, 2>, i: i32| {
        assert_eq!(tree.remove(&Rect::point([i, i]).unwrap(), i as u64), Ok(true));
    };
    remove(&mut tree, 2);
    remove(&mut tree, 5);
    tree.insert(&Rect::point([50, 50]).unwrap(), 50).unwrap();
    tree.insert(&Rect::point([51, 51]).unwrap(), 51).unwrap();
    assert_eq!(tree.nodes().row(ROOT).unwrap().overflow, row.overflow);
    // The second overflow node loses its two entries and is unlinked.
    remove(&mut tree, 8);
    remove(&mut tree, 9);
    assert_eq!((tree.nodes().row(ROOT).unwrap().overflow.len(), pages(&tree)), (1, 3));
    // What fits one page goes back into it.
    (4..8).filter(|i| *i != 5).for_each(|i| remove(&mut tree, i));
    remove(&mut tree, 0);
    assert_eq!((tree.nodes().overflow_nodes(), pages(&tree)), (0, 2));
    assert!(tree.check().unwrap().is_sound());
}

#[test]
fn a_node_without_leave_to_overflow_is_divided() {
    let tree = leaf_and(rules(0, 4096, Sharing::Stored), 1);
    assert_eq!((tree.stats().height, tree.counts().splits), (2, 1));
    let tree = leaf_and(rules(4, 1, Sharing::Stored), 4);
    assert_eq!((tree.stats().height, tree.nodes().overflow_nodes()), (1, 1));
    let tree = leaf_and(rules(4, 1, Sharing::Stored), 5);
    assert_eq!((tree.stats().height, figure(&tree, "merge_backs")), (2, 1));
    assert_eq!(tree.stats().live_pages, 2 + 3, "nine entries need three nodes of four");
}

#[test]
fn the_table_is_found_again_at_mount() {
    let mut tree = leaf_and(rules(4, 4096, Sharing::Stored), 6);
    let row = tree.nodes().row(ROOT).unwrap().clone();
    tree.close().unwrap();
    let store = tree.into_nodes().into_inner().into_store();
    let config = SpatialConfig::new(rules(4, 4096, Sharing::Stored));
    let mut tree: ForTree<_, i32, 2> = for_tree::mount(store, &config).unwrap();
    assert_eq!(tree.nodes().row(ROOT).unwrap().overflow, row.overflow);
    assert_eq!(accesses(&tree), 0);
    assert!(tree.check().unwrap().is_sound());
    let free = ForRules { read_cost: 0, ..*tree.rules() };
    let refused = for_tree::format::<_, i32, 2>(Store::new(512, 60), &SpatialConfig::new(free));
    assert!(matches!(refused, Err(IndexError::Unsupported(_))));
}

#[test]
fn a_loaded_tree_has_no_overflow_nodes_and_goes_on() {
    let model = Model::<i32, 2>::random(Kind::Rects, 400, 5);
    let mut tree = for_tree::format(Store::new(512, 400), &for_tree::config()).unwrap();
    tree.load(&mut model.entries.iter().copied(), Packing::SortTileRecursive, Fill::FULL).unwrap();
    assert_eq!(tree.nodes().overflow_nodes(), 0);
    let mut all = model;
    for entry in Model::random(Kind::Rects, 300, 6).entries {
        tree.insert(&entry.0, entry.1).unwrap();
        all.entries.push(entry);
    }
    assert!(figure(&tree, "overflows") > 10);
    assert_same(&mut tree, &all, 5);
}

type Small = ForTree<Store, i32, 2>;

fn store(tree: &Small) -> &Store {
    tree.nodes().inner().store()
}

fn into_store(tree: Small) -> Store {
    tree.into_nodes().into_inner().into_store()
}

fn small_config() -> SpatialConfig<ForRules> {
    let config = SpatialConfig::new(rules(3, 20, Sharing::Sorted)).with_capacity(4);
    config.with_durability(Durability::None)
}

fn small(pages: u32, promise: Promise) -> Small {
    for_tree::format(Store::new(128, pages).with_promise(promise), &small_config()).unwrap()
}

/// Runs operations. Returns for each the number of steps that the store has seen, and the contents.
fn run(tree: &mut Small, ops: u64, seed: u64) -> Vec<(usize, Model<i32, 2>)> {
    let (mut rng, mut model) = (Rng::new(seed), Model::random(Kind::Few, 0, 0));
    store(tree).note_changes();
    let mut done = Vec::from([(0, model.clone())]);
    for i in 0..ops {
        let grows = if (i / 100).is_multiple_of(2) { 4 } else { 1 };
        if rng.below(6) < grows || model.entries.is_empty() {
            let entry = (random_rect(Kind::Rects, &mut rng), i);
            tree.insert(&entry.0, entry.1).unwrap();
            model.entries.push(entry);
        } else {
            let (rect, id) = model.entries[rng.below(model.entries.len() as u64) as usize];
            assert_eq!(tree.remove(&rect, id), Ok(true));
            assert!(model.remove(&rect, id));
        }
        done.push((store(tree).change_count(), model.clone()));
    }
    done
}

#[test]
fn every_operation_survives_a_power_cut() {
    let group = small(150, WRITE_THROUGH).nodes().format().group_nodes_max();
    for (atomic_pages, seed) in [(200, 1), (group, 2), (group, 3)] {
        let promise = Promise { atomic_pages, ..WRITE_THROUGH };
        let mut tree = small(150, promise);
        assert_eq!(tree.durability(), Durability::EveryOperation);
        let mut pages = store(&tree).pages();
        let done = run(&mut tree, 420, seed);
        assert!(store(&tree).largest_group() <= atomic_pages);
        assert!(figure(&tree, "merge_backs") > 10 && figure(&tree, "overflows") > 20);
        let steps = into_store(tree).changes();
        for cut in 0..=steps.len() {
            let mut found: Small =
                for_tree::mount(Store::holding(&pages.clone()).with_promise(promise), &small_config())
                    .unwrap();
            let after = done.partition_point(|(steps, _)| *steps < cut);
            let before = done.partition_point(|(steps, _)| *steps <= cut) - 1;
            let contents = window(&mut found, &everything(), Relation::Intersects);
            let is_either = [before.min(after), after.max(before)].map(|i| done[i].1.sorted() == contents);
            assert!(is_either.contains(&true), "after {cut} steps");
            assert!(found.check().unwrap().is_sound());
            match steps.get(cut) {
                Some(Change::Write(group, _)) => {
                    group.iter().for_each(|(lpn, data)| pages[lpn.index()].copy_from_slice(data));
                }
                Some(Change::Trim(lpn)) => pages[lpn.index()].fill(0),
                _ => {}
            }
        }
    }
}

#[test]
fn a_full_store_loses_nothing_and_can_always_be_emptied() {
    let mut tree = small(40, WRITE_THROUGH);
    let (mut model, mut rng) = (Model::random(Kind::Few, 0, 0), Rng::new(8));
    let mut refusals = 0;
    while refusals < 40 {
        let (rect, id) = (random_rect(Kind::Rects, &mut rng), rng.next_u64());
        let before = store(&tree).pages();
        match tree.insert(&rect, id) {
            Ok(()) => model.entries.push((rect, id)),
            Err(error) => {
                assert!(error.is_full(), "{error}");
                assert_eq!(store(&tree).pages(), before, "nothing was changed");
                assert!(tree.check().unwrap().is_sound());
                refusals += 1;
            }
        }
    }
    assert_same(&mut tree, &model, 1);
    while let Some((rect, id)) = model.entries.pop() {
        assert_eq!(tree.remove(&rect, id), Ok(true), "a removal needs no page");
        if model.entries.len().is_multiple_of(20) {
            assert_same(&mut tree, &model, 2);
        }
    }
}

/// Makes operations of every kind. An error means that the first query failed or differs from the model.
fn use_everything(pages: Pages, model: &Model<i32, 2>, seed: u64) -> Result<(), IndexError> {
    let mut tree: Small = for_tree::mount(Store::holding(&pages), &small_config())?;
    let mut found = Vec::new();
    let asked = tree.window(&everything(), Relation::Intersects, &mut |rect, id| {
        found.push((*rect, id));
        ControlFlow::Continue(())
    });
    let mut rng = Rng::new(seed);
    for i in 0..40 {
        let (rect, id) = model.entries[rng.below(model.entries.len() as u64) as usize];
        let _ = match rng.below(4) {
            0 | 1 => tree.insert(&random_rect(Kind::Rects, &mut rng), i).map(|()| true),
            2 => tree.remove(&rect, id),
            _ => tree.nearest(&rect.low(), 5, &mut |_, _, _| ControlFlow::Continue(())).map(|()| true),
        };
    }
    let _ = tree.check();
    asked?;
    if (Model { entries: found }).sorted() == model.sorted() { Ok(()) } else { Err(IndexError::NO_BLOCK) }
}

fn some_pages() -> (Pages, Model<i32, 2>) {
    let mut tree = small(30, WRITE_THROUGH);
    let model = Model::random(Kind::Rects, 40, 3);
    model.entries.iter().for_each(|(rect, id)| tree.insert(rect, *id).unwrap());
    assert!(tree.stats().height >= 2 && tree.nodes().overflow_nodes() > 2);
    (into_store(tree).pages(), model)
}

#[test]
fn any_flipped_byte_is_an_error_or_harmless() {
    let (pages, model) = some_pages();
    let mut rng = Rng::new(7);
    for (page, at) in (0..pages.len()).flat_map(|page| (0..128).map(move |at| (page, at))) {
        let is_used = pages[page].iter().any(|&byte| byte != 0);
        let mut damaged = pages.clone();
        damaged[page][at] ^= 1 << rng.below(8);
        assert_eq!(use_everything(damaged, &model, at as u64).is_err(), is_used, "byte {at} of page {page}");
    }
}

proptest! {
    #![proptest_config(crate::inputs::fixed(1_000))]

    #[test]
    fn forged_pages_never_panic(
        forgeries in proptest::collection::vec((0..24usize, 4..128usize, any::<u8>()), 1..8),
        seed: u64,
    ) {
        let (mut pages, model) = some_pages();
        for (page, at, byte) in forgeries {
            pages[page][at] = byte;
            let crc = crc32(&[&pages[page][4..]]);
            put_u32(&mut pages[page], 0, crc);
        }
        let _ = use_everything(pages, &model, seed);
    }
}

/// The layer can stand on any node store whose format has links.
#[test]
fn a_layer_needs_a_format_with_links() {
    let config = super::r_tree::config(super::Split::Linear);
    let format = config.node_format::<i32, 2>(512, 20).unwrap();
    let nodes = PagedNodes::<_, i32, 2>::format(Store::new(512, 20), format, config.durability).unwrap();
    assert!(OverflowNodes::over(nodes).is_err());
}
