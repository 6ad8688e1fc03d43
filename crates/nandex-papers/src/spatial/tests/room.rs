//! Stores that become full or fail: nothing is lost, and a tree in an unknown state says so.

use super::model::{Kind, Model, assert_same, random_rect};
use crate::spatial::{mr_tree, r_star};
use core::ops::ControlFlow;
use nandex::check::IndexError;
use nandex::index::{Durability, Fill};
use nandex::nand::NandError;
use nandex::rng::Rng;
use nandex::spatial::r_tree::Split;
use nandex::spatial::tree::{Rules, SpatialConfig, Tree};
use nandex::spatial::{Nodes, Packing, Relation, SpatialIndex, hilbert, r_tree};
use nandex::store::StoreError;
use nandex::testing::{Promise, SINGLE, Store, WRITE_THROUGH};

/// Fills a small store to its last page, then removes all entries.
fn fill_and_empty<R: Rules<i32, 2>>(config: &SpatialConfig<R>) {
    let config = config.clone().with_capacity(8);
    let mut tree: Tree<i32, 2, _, R> = Tree::format(Store::new(256, 40), &config).unwrap();
    let (mut model, mut rng) = (Model::random(Kind::Few, 0, 0), Rng::new(8));
    let mut refusals = 0;
    while refusals < 60 {
        let (rect, id) = (random_rect(Kind::Rects, &mut rng), rng.next_u64());
        let before = tree.store().pages();
        match tree.insert(&rect, id) {
            Ok(()) => model.entries.push((rect, id)),
            Err(error) => {
                assert!(error.is_full(), "{error}");
                assert_eq!(tree.store().pages(), before, "nothing was changed");
                refusals += 1;
            }
        }
    }
    assert_same(&mut tree, &model, 1);
    while let Some((rect, id)) = model.entries.pop() {
        assert_eq!(tree.remove(&rect, id), Ok(true), "a removal needs no page");
        if model.entries.len() % 20 == 0 {
            assert_same(&mut tree, &model, 2);
        }
    }
}

#[test]
fn a_full_store_loses_nothing_and_can_always_be_emptied() {
    fill_and_empty(&r_tree::config(Split::Linear));
    fill_and_empty(&r_tree::config(Split::Quadratic));
    fill_and_empty(&r_star::config());
    fill_and_empty(&hilbert::config(None));
    fill_and_empty(&mr_tree::config());
}

#[test]
fn operations_are_done_narrow_where_groups_are_small() {
    let config = r_star::config();
    let store = Store::new(4096, 100);
    let tree = r_star::RStarTree::<_, i32, 2>::format(store, &config).unwrap();
    let atomic_pages = tree.nodes().format().group_nodes_max();
    let tight = Promise { atomic_pages, ..WRITE_THROUGH };
    let mut tree = r_star::RStarTree::format(Store::new(4096, 100).with_promise(tight), &config).unwrap();
    assert_eq!(tree.durability(), Durability::EveryOperation);
    let mut model = Model::<i32, 2>::random(Kind::Rects, 4000, 4);
    for (rect, id) in &model.entries {
        tree.insert(rect, *id).unwrap();
    }
    assert_same(&mut tree, &model, 3);
    for _ in 0..3800 {
        let (rect, id) = model.entries.pop().unwrap();
        assert_eq!(tree.remove(&rect, id), Ok(true));
    }
    assert_same(&mut tree, &model, 4);
    assert!(tree.counts().narrow_operations > 5);
    assert!(tree.store().largest_group() <= atomic_pages);
}

#[test]
fn a_failed_write_interrupts_until_the_next_mount() {
    let config = r_tree::config(Split::Quadratic).with_capacity(4).with_durability(Durability::None);
    let refusal = StoreError::Nand(NandError::PowerLost);
    for (promise, refused) in
        [(WRITE_THROUGH, refusal.clone()), (SINGLE, refusal), (SINGLE, StoreError::Full)]
    {
        let mut tree =
            r_tree::RTree::<_, i32, 2>::format(Store::new(128, 90).with_promise(promise), &config).unwrap();
        let model = Model::<i32, 2>::random(Kind::Rects, 40, 4);
        for (rect, id) in &model.entries {
            tree.insert(rect, *id).unwrap();
        }
        tree.sync().unwrap();
        let store = tree.into_store();
        let is_partial = promise.atomic_pages == 1;
        // The clean mark, one node, and then no more; or nothing at all.
        store.refuse_after(if is_partial { 2 } else { 0 }, refused);
        let mut tree = r_tree::RTree::<_, i32, 2>::mount_found(store).unwrap();
        let mut rng = Rng::new(1);
        let failed = (0..40).find_map(|i| tree.insert(&random_rect(Kind::Wide, &mut rng), i).err());
        assert!(failed.is_some());
        if is_partial || tree.insert(&random_rect(Kind::Wide, &mut rng), 7) == Err(IndexError::Interrupted) {
            assert_eq!(tree.sync(), Err(IndexError::Interrupted));
            let window = tree.window(&random_rect(Kind::Wide, &mut rng), Relation::Within, &mut |_, _| {
                ControlFlow::Continue(())
            });
            assert_eq!(window, Err(IndexError::Interrupted));
        }
        let store = tree.into_store();
        store.refuse_nothing();
        match r_tree::RTree::<_, i32, 2>::mount_found(store) {
            Err(error) => assert!(is_partial && error == IndexError::NotCleanlyClosed),
            Ok(mut tree) => assert_same(&mut tree, &model, 5),
        }
    }
}

/// The clean mark may be gone although its removal was not synced. So the next sync writes another, even if
/// nothing was changed.
#[test]
fn a_mark_whose_removal_is_not_synced_is_written_again() {
    let config = r_star::config().with_durability(Durability::None);
    let mut tree =
        r_star::RStarTree::<_, i32, 2>::format(Store::new(256, 40).with_promise(SINGLE), &config).unwrap();
    tree.sync().unwrap();
    let store = tree.into_store();
    store.refuse_syncs_after(0, StoreError::Full);
    let mut tree = r_star::RStarTree::<_, i32, 2>::mount_found(store.handle()).unwrap();
    let rect = random_rect(Kind::Rects, &mut Rng::new(8));
    assert!(tree.insert(&rect, 1).unwrap_err().is_full());
    store.refuse_nothing();
    tree.sync().unwrap();
    let mut tree = r_star::RStarTree::<_, i32, 2>::mount_found(tree.into_store()).unwrap();
    assert_same(&mut tree, &Model::random(Kind::Few, 0, 0), 1);
}

#[test]
fn a_bulk_load_that_fails_leaves_the_tree_empty() {
    let config = r_star::config().with_capacity(4);
    let mut tree = r_star::RStarTree::<_, i32, 2>::format(Store::new(128, 30), &config).unwrap();
    let empty = Model::<i32, 2>::random(Kind::Rects, 0, 4);
    for count in [5000, 200, 130] {
        let model = Model::<i32, 2>::random(Kind::Rects, count, 4);
        let loaded = tree.load(&mut model.entries.iter().copied(), Packing::SortTileRecursive, Fill::FULL);
        assert!(loaded.unwrap_err().is_full());
        assert_same(&mut tree, &empty, 6);
        assert_eq!(tree.stats().live_pages, 2);
    }
    let model = Model::<i32, 2>::random(Kind::Rects, 60, 4);
    tree.load(&mut model.entries.iter().copied(), Packing::Hilbert, Fill::FULL).unwrap();
    assert_same(&mut tree, &model, 7);
}

#[test]
fn operations_cost_what_the_documentation_says() {
    let config = r_tree::config(Split::Quadratic);
    let mut tree = r_tree::RTree::<_, i32, 2>::format(Store::new(512, 900), &config).unwrap();
    let model = Model::<i32, 2>::random(Kind::Points, 3000, 9);
    let fill = Fill::percent(70).unwrap();
    tree.load(&mut model.entries.iter().copied(), Packing::SortTileRecursive, fill).unwrap();
    let height = u64::from(tree.stats().height);
    let (mut plain, mut rng) = (0, Rng::new(3));
    for id in 0..100 {
        let (reads, writes, splits) =
            (tree.store().page_reads(), tree.store().page_writes(), tree.counts().splits);
        tree.insert(&random_rect(Kind::Points, &mut rng), id).unwrap();
        assert_eq!(tree.store().page_reads() - reads, height);
        let written = tree.store().page_writes() - writes;
        if tree.counts().splits == splits {
            assert!((1..=height).contains(&written));
            plain += 1;
        }
    }
    assert!(plain > 80);
    let reads = tree.store().page_reads();
    tree.check().unwrap();
    tree.regions(&mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(tree.store().page_reads(), reads, "looking on costs nothing");
}
