//! Every tree behind every policy against a list, room, damage, refusals and costs.

mod cuts;
mod damage;
mod policies;

use super::*;
use crate::spatial::r_star;
use crate::spatial::tests::model::{Kind, Model, Sample, assert_same, random_rect};
use alloc::string::ToString;
use core::ops::ControlFlow;
use nandex::check::IndexError;
use nandex::index::{Durability, Fill};
use nandex::rng::Rng;
use nandex::spatial::r_tree::Split;
use nandex::spatial::{Nodes, Packing, Relation, SpatialIndex, hilbert, r_tree};
use nandex::store::StoreError;
use nandex::testing::{ORDERED, Promise, SINGLE, Store, UNORDERED, WRITE_THROUGH};

const PAGE_BYTES: usize = 512;

type Small<R> = BufferedTree<Store, i32, 2, R>;

fn fast(policy: FlushPolicy) -> BufferedConfig {
    BufferedConfig::fast(Durability::EverySync, 4000, policy)
}

fn efind(worth: Worth, read_order: ReadOrder) -> BufferedConfig {
    let config = BufferedConfig::efind(Durability::EverySync, 6000, PAGE_BYTES, Efind::new(worth));
    BufferedConfig { read_pages: 3, read_order, unit_nodes: 3, ..config }
}

fn new_tree<C: Coordinate, const D: usize, R: Rules<C, D>>(
    store: Store,
    tree: &SpatialConfig<R>,
    config: BufferedConfig,
) -> BufferedTree<Store, C, D, R> {
    Tree::over(BufferedNodes::format(store, tree, config).unwrap()).unwrap()
}

fn remount<C: Coordinate, const D: usize, R: Rules<C, D>>(
    tree: BufferedTree<Store, C, D, R>,
    config: BufferedConfig,
) -> BufferedTree<Store, C, D, R> {
    Tree::over(BufferedNodes::mount_found(tree.into_nodes().into_store(), config).unwrap()).unwrap()
}

/// Makes waves of insertions and removals with remounts in between, some of them after a close.
fn churn<C: Sample, const D: usize, R: Rules<C, D>>(
    tree_config: &SpatialConfig<R>,
    config: BufferedConfig,
    (kind, promise): (Kind, Promise),
    seed: u64,
) -> u64 {
    let tree_config = tree_config.clone().with_capacity(7);
    let mut tree: BufferedTree<Store, C, D, R> =
        new_tree(Store::new(PAGE_BYTES, 900).with_promise(promise), &tree_config, config);
    let (mut model, mut rng) = (Model::<C, D>::random(kind, 0, 0), Rng::new(seed));
    let mut flushes = 0;
    let flushed = |tree: &BufferedTree<Store, C, D, R>| tree.nodes().counts.flushes;
    for i in 0..700 {
        let grows = if (i / 250) % 2 == 0 { 5 } else { 1 };
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
        assert!(tree.nodes().buffer.bytes() <= config.buffer_bytes + 8000, "but for one operation");
        if i % 110 == 0 {
            assert_same(&mut tree, &model, i as u64);
        }
        if i % 150 == 0 {
            flushes += flushed(&tree);
            if rng.chance(1, 2) {
                tree.close().unwrap();
                tree = remount(tree, config);
                assert!(tree.nodes().buffer.is_empty());
            } else {
                tree.sync().unwrap();
                tree = remount(tree, config);
            }
        }
    }
    while let Some((rect, id)) = model.entries.pop() {
        assert_eq!(tree.remove(&rect, id), Ok(true));
    }
    assert_same(&mut tree, &model, seed);
    assert_eq!((tree.stats().height, tree.nodes().space.used_pages()), (1, 2));
    flushes + flushed(&tree)
}

#[test]
fn every_tree_behind_the_policies_of_fast_answers_as_a_list_does() {
    let policies = [
        FlushPolicy::All,
        FlushPolicy::Random { seed: 3 },
        FlushPolicy::MostModified,
        FlushPolicy::MostModifiedOldest { tick_operations: 10 },
    ];
    for (seed, policy) in policies.into_iter().enumerate() {
        let (seed, config) = (seed as u64, fast(policy));
        let synced = (Kind::Rects, ORDERED);
        assert!(churn::<i32, 2, _>(&r_tree::config(Split::Linear), config, synced, seed) > 20);
        let each = BufferedConfig { durability: Durability::EveryOperation, ..config };
        assert!(churn::<f64, 3, _>(&r_star::config(), each, (Kind::Points, SINGLE), seed) > 20);
        let through = (Kind::Few, WRITE_THROUGH);
        assert!(churn::<i64, 3, _>(&hilbert::config(None), config, through, seed) > 20);
    }
}

#[test]
fn every_tree_behind_the_policies_of_efind_answers_as_a_list_does() {
    for (seed, worth) in Worth::ALL.into_iter().enumerate() {
        let seed = seed as u64;
        let config = |order: usize| efind(worth, ReadOrder::ALL[(seed as usize + order) % 4]);
        assert!(
            churn::<i32, 2, _>(&r_tree::config(Split::Quadratic), config(0), (Kind::Wide, ORDERED), seed)
                > 20
        );
        assert!(churn::<f64, 3, _>(&r_star::config(), config(1), (Kind::Rects, SINGLE), seed) > 20);
        let each = BufferedConfig { durability: Durability::EveryOperation, ..config(2) };
        assert!(churn::<i64, 3, _>(&hilbert::config(None), each, (Kind::Few, WRITE_THROUGH), seed) > 20);
    }
}

#[test]
fn a_bulk_loaded_tree_goes_on_behind_a_buffer() {
    for config in [fast(FlushPolicy::MostModified), efind(Worth::Mthao, ReadOrder::TwoQ)] {
        let store = Store::new(PAGE_BYTES, 900).with_promise(ORDERED);
        let mut tree: Small<_> = new_tree(store, &r_star::config().with_capacity(7), config);
        let first = Model::<i32, 2>::random(Kind::Rects, 40, 9);
        for (rect, id) in &first.entries {
            tree.insert(rect, *id).unwrap();
        }
        for (rect, id) in &first.entries {
            assert_eq!(tree.remove(rect, *id), Ok(true));
        }
        let mut model = Model::<i32, 2>::random(Kind::Rects, 500, 5);
        tree.load(&mut model.entries.iter().copied(), Packing::SortTileRecursive, Fill::FULL).unwrap();
        assert_same(&mut tree, &model, 1);
        for entry in Model::random(Kind::Points, 100, 6).entries {
            tree.insert(&entry.0, entry.1).unwrap();
            model.entries.push(entry);
        }
        tree.sync().unwrap();
        let mut tree = remount(tree, config);
        assert_same(&mut tree, &model, 2);
        tree.close().unwrap();
        assert_same(&mut remount(tree, config), &model, 3);
    }
}

#[test]
fn a_full_store_loses_nothing_and_can_always_be_emptied() {
    for config in [fast(FlushPolicy::All), efind(Worth::Mt, ReadOrder::Lru)] {
        let store = Store::new(PAGE_BYTES, 150);
        let mut tree: Small<_> = new_tree(store, &r_star::config().with_capacity(5), config);
        let (mut model, mut rng) = (Model::random(Kind::Few, 0, 0), Rng::new(8));
        let mut refusals = 0;
        while refusals < 30 {
            let (rect, id) = (random_rect(Kind::Rects, &mut rng), rng.next_u64());
            match tree.insert(&rect, id) {
                Ok(()) => model.entries.push((rect, id)),
                Err(error) => {
                    assert!(error.is_full(), "{error}");
                    refusals += 1;
                }
            }
        }
        assert_same(&mut tree, &model, 1);
        tree.sync().unwrap();
        let mut tree = remount(tree, config);
        while let Some((rect, id)) = model.entries.pop() {
            assert_eq!(tree.remove(&rect, id), Ok(true), "a removal needs no page");
        }
        assert_same(&mut tree, &model, 2);
    }
}

#[test]
fn what_is_refused_for_want_of_room_below_changes_nothing() {
    let config = efind(Worth::M, ReadOrder::Lru);
    let mut tree: Small<_> = new_tree(
        Store::new(PAGE_BYTES, 400).with_promise(SINGLE),
        &r_tree::config(Split::Linear).with_capacity(5),
        config,
    );
    let (mut model, mut rng) = (Model::random(Kind::Few, 0, 0), Rng::new(8));
    let mut refusals = 0;
    for i in 0..900 {
        // A store that is full now and then, in the middle of a flush or of a compaction.
        let store = tree.into_nodes().into_store();
        if rng.chance(1, 2) {
            store.refuse_after(rng.below(5) as usize, StoreError::Full);
        }
        tree = Tree::over(BufferedNodes::mount_found(store, config).unwrap()).unwrap();
        for _ in 0..12 {
            let entry = (random_rect(Kind::Rects, &mut rng), i);
            match tree.insert(&entry.0, entry.1) {
                Ok(()) => model.entries.push(entry),
                Err(error) => {
                    assert!(error.is_full(), "{error}");
                    refusals += 1;
                }
            }
        }
        if i % 60 == 0 {
            assert_same(&mut tree, &model, i);
        }
        let store = tree.into_nodes().into_store();
        store.refuse_nothing();
        // What was not synced is lost, so here is a new store of the same contents.
        tree = Tree::over(BufferedNodes::mount_found(store, config).unwrap()).unwrap();
        let found = crate::spatial::tests::model::window(
            &mut tree,
            &crate::spatial::tests::model::everything(),
            Relation::Intersects,
        );
        model.entries = found;
        if model.entries.len() > 300 {
            break;
        }
    }
    assert!(refusals > 20, "{refusals}");
    assert_same(&mut tree, &model, 7);
}

#[test]
fn a_failed_write_interrupts_until_the_next_mount() {
    let config = fast(FlushPolicy::MostModified);
    let config = BufferedConfig { durability: Durability::EveryOperation, ..config };
    let mut tree: Small<_> = new_tree(
        Store::new(PAGE_BYTES, 400).with_promise(SINGLE),
        &r_star::config().with_capacity(5),
        config,
    );
    let model = Model::<i32, 2>::random(Kind::Rects, 100, 4);
    for (rect, id) in &model.entries {
        tree.insert(rect, *id).unwrap();
    }
    for room in 0..30 {
        let store = tree.into_nodes().into_store();
        let pages = store.pages();
        store.refuse_after(room, StoreError::Nand(nandex::nand::NandError::PowerLost));
        let mut failing: Small<r_star::Published> =
            Tree::over(BufferedNodes::mount_found(store, config).unwrap()).unwrap();
        let (mut rng, mut done) = (Rng::new(1), model.clone());
        let failed = (0..80).find_map(|id| {
            let rect = random_rect(Kind::Rects, &mut rng);
            let error = failing.insert(&rect, id).err();
            if error.is_none() {
                done.entries.push((rect, id));
            }
            error
        });
        assert!(failed.is_some());
        assert_eq!(failing.sync(), Err(IndexError::Interrupted));
        assert_eq!(failing.insert(&done.entries[0].0, 7), Err(IndexError::Interrupted));
        let all = crate::spatial::tests::model::everything();
        let answer = failing.window(&all, Relation::Within, &mut |_, _| ControlFlow::Continue(()));
        assert_eq!(answer, Err(IndexError::Interrupted));
        let store = failing.into_nodes().into_store();
        store.refuse_nothing();
        let mut again: Small<r_star::Published> =
            Tree::over(BufferedNodes::mount_found(store, config).unwrap()).unwrap();
        assert_same(&mut again, &done, 5);
        tree = Tree::over(
            BufferedNodes::mount_found(Store::holding(&pages).with_promise(SINGLE), config).unwrap(),
        )
        .unwrap();
    }
}

#[test]
fn what_cannot_work_is_refused_with_the_reason() {
    let tree = r_tree::config(Split::Linear).with_capacity(5);
    let config = fast(FlushPolicy::All);
    let refusal = |promise, config| {
        let made = BufferedNodes::<_, i32, 2>::format(
            Store::new(PAGE_BYTES, 400).with_promise(promise),
            &tree,
            config,
        );
        made.err().unwrap().to_string()
    };
    let class = |durability| BufferedConfig { durability, ..config };
    assert!(refusal(ORDERED, class(Durability::EveryOperation)).contains("gives 'every sync'"));
    assert!(refusal(UNORDERED, config).contains("gives 'none'"));
    assert!(refusal(SINGLE, class(Durability::None)).contains("'none' is wanted"));
    assert!(refusal(SINGLE, BufferedConfig { buffer_bytes: 1000, ..config }).contains("1024 are needed"));
    assert!(refusal(SINGLE, BufferedConfig { unit_nodes: 0, ..config }).contains("1 to 4096"));
    assert!(refusal(SINGLE, BufferedConfig { log_pages: Some(3), ..config }).contains("two logs of 3 pages"));
    assert!(
        refusal(SINGLE, BufferedConfig { log_pages: Some(101), ..config }).contains("to 100 are possible")
    );
    let star = FlushPolicy::MostModifiedOldest { tick_operations: 0 };
    assert!(refusal(SINGLE, BufferedConfig { policy: star, ..config }).contains("fast-star"));
    let store =
        BufferedNodes::<_, i32, 2>::format(Store::new(PAGE_BYTES, 400).with_promise(SINGLE), &tree, config)
            .unwrap()
            .into_store();
    let plain = nandex::spatial::paged::PagedNodes::<_, i32, 2>::mount_found(
        Store::holding(&store.pages()).with_promise(SINGLE),
    );
    assert!(matches!(plain, Err(IndexError::NotFormatted(_))), "without its log");
    let blank =
        BufferedNodes::<_, i32, 2>::mount_found(Store::new(PAGE_BYTES, 400).with_promise(SINGLE), config);
    assert!(matches!(blank, Err(IndexError::NotFormatted(_))));
    let plain = r_tree::RTree::<_, i32, 2>::format(Store::new(PAGE_BYTES, 400), &tree).unwrap();
    let mounted = BufferedNodes::<_, i32, 2>::mount_found(plain.into_store(), config);
    assert!(matches!(mounted, Err(IndexError::NotFormatted(_))), "no log");
}

fn fill(tree: &mut dyn SpatialIndex<i32, 2>, count: usize) {
    for (rect, id) in &Model::<i32, 2>::random(Kind::Points, count, 3).entries {
        tree.insert(rect, *id).unwrap();
    }
}

#[test]
fn an_insertion_costs_far_less_than_in_the_plain_tree() {
    let tree_config = r_tree::config(Split::Quadratic).with_durability(Durability::EverySync);
    let count = 6000;
    let mut plain = r_tree::RTree::format(Store::new(2048, 2000), &tree_config).unwrap();
    fill(&mut plain, count);
    let plain_writes = plain.store().page_writes();
    assert!(plain_writes > 6000);
    for policy in [FlushPolicy::MostModified, FlushPolicy::Efind(Efind::new(Worth::Mth))] {
        let config = BufferedConfig::fast(Durability::EverySync, 64 << 10, policy);
        let mut tree: Small<_> = new_tree(Store::new(2048, 2000).with_promise(SINGLE), &tree_config, config);
        let formatted = tree.nodes().look(|mem| mem.page_writes());
        fill(&mut tree, count);
        let most = BufferedNodes::<Store, i32, 2>::ram_bytes_max(&config, 2048, 2000);
        let ram = tree.nodes().ram_bytes();
        assert!(ram < most + (64 << 10), "{ram} bytes of {most}, and what an operation holds");
        let all = tree.into_nodes().into_store().page_writes() - formatted;
        assert!(3 * all < plain_writes, "{policy:?}: {all} of {plain_writes}");
    }
}

#[test]
fn a_tree_of_linked_nodes_is_refused() {
    let refused = BufferedNodes::<_, i32, 2>::format(
        Store::new(PAGE_BYTES, 400).with_promise(ORDERED),
        &crate::spatial::for_tree::config(),
        fast(FlushPolicy::All),
    );
    assert!(matches!(refused, Err(IndexError::Unsupported(what)) if what.contains("FOR-tree")));
}
