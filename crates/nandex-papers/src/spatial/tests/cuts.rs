//! The power is cut at every write, and the store keeps as little as it promised to.
//!
//! A run is recorded once. For each place in the recording every state that the store's promise allows is
//! built, mounted, checked, and compared with the contents before or after the operation that was under way.

use super::Pages;
use super::model::{Kind, Model, everything, random_rect, window};
use crate::spatial::{mr_tree, r_star};
use alloc::vec;
use alloc::vec::Vec;
use nandex::check::IndexError;
use nandex::index::{Durability, Fill};
use nandex::rng::Rng;
use nandex::spatial::paged::PagedNodes;
use nandex::spatial::r_tree::Split;
use nandex::spatial::tree::{Rules, SpatialConfig, Tree};
use nandex::spatial::{Nodes, Packing, Relation, SpatialIndex, hilbert, r_tree};
use nandex::store::PageStore;
use nandex::testing::{Change, ORDERED, Promise, SINGLE, Store, UNORDERED, WRITE_THROUGH};

type Small<R> = Tree<i32, 2, PagedNodes<Store, i32, 2>, R>;

/// A recorded run: the store's steps. `done` has the number of steps and the contents after each operation.
struct Recorded {
    empty: Pages,
    steps: Vec<Change>,
    done: Vec<(usize, Model<i32, 2>)>,
}

/// A tree with four entries to a node.
fn small_tree<R: Rules<i32, 2>>(config: &SpatialConfig<R>, promise: Promise) -> Small<R> {
    let is_ordered = promise.prefix && !promise.durable;
    let class = if is_ordered { Durability::EverySync } else { Durability::None };
    let config = config.clone().with_capacity(4).with_durability(class);
    Tree::format(Store::new(128, 150).with_promise(promise), &config).unwrap()
}

fn record<R: Rules<i32, 2>>(
    config: &SpatialConfig<R>,
    promise: Promise,
    ops: usize,
    seed: u64,
) -> (Recorded, Small<R>) {
    let mut tree = small_tree(config, promise);
    let empty = tree.store().pages();
    tree.store().note_changes();
    let (mut rng, mut model) = (Rng::new(seed), Model::random(Kind::Few, 0, 0));
    let mut done = vec![(0, model.clone())];
    for i in 0..ops {
        // Waves of insertion and removal, so that the tree rises and falls through its heights.
        let grows = if (i / 100).is_multiple_of(2) { 4 } else { 1 };
        match rng.below(6) {
            5 if rng.chance(1, 3) => tree.sync().unwrap(),
            n if n < grows || model.entries.is_empty() => {
                let entry = (random_rect(Kind::Rects, &mut rng), i as u64);
                tree.insert(&entry.0, entry.1).unwrap();
                model.entries.push(entry);
            }
            _ => {
                let (rect, id) = model.entries[rng.below(model.entries.len() as u64) as usize];
                assert_eq!(tree.remove(&rect, id), Ok(true));
                assert!(model.remove(&rect, id));
            }
        }
        done.push((tree.store().change_count(), model.clone()));
    }
    let steps = tree.store().changes();
    (Recorded { empty, steps, done }, tree)
}

impl Recorded {
    /// Number of steps up to the last sync among the first `cut`.
    fn synced(&self, cut: usize) -> usize {
        self.steps[..cut].iter().rposition(|step| matches!(step, Change::Sync)).map_or(0, |i| i + 1)
    }

    /// The pages on the medium if the first `writes` steps survive. Of the trims after the last sync before
    /// `cut`, all survive or none.
    fn pages(&self, writes: usize, cut: usize, trims: bool) -> Pages {
        let synced = self.synced(cut);
        let mut pages = self.empty.clone();
        for (i, step) in self.steps[..cut].iter().enumerate() {
            match step {
                Change::Write(group, _) if i < writes => {
                    group.iter().for_each(|(lpn, data)| pages[lpn.index()].copy_from_slice(data));
                }
                Change::Trim(lpn) if i < synced || trims => pages[lpn.index()].fill(0),
                _ => {}
            }
        }
        pages
    }

    /// The contents before and after the operation of step `cut`.
    fn around(&self, cut: usize) -> (&Model<i32, 2>, &Model<i32, 2>) {
        let after = self.done.partition_point(|(steps, _)| *steps < cut);
        let before = self.done.partition_point(|(steps, _)| *steps <= cut) - 1;
        (&self.done[before.min(after)].1, &self.done[after.max(before)].1)
    }

    fn assert_is_around<R: Rules<i32, 2>>(&self, mut tree: Small<R>, cut: usize) {
        let found = window(&mut tree, &everything(), Relation::Intersects);
        let (before, after) = self.around(cut);
        assert!(found == before.sorted() || found == after.sorted(), "after {cut} steps");
        let report = tree.check().unwrap();
        assert!(report.is_sound(), "{:?}", report.violations);
    }

    fn assert_survives<R: Rules<i32, 2>>(&self, pages: Pages, writes: usize, promise: Promise) {
        let tree: Small<R> = Tree::mount_found(Store::holding(&pages).with_promise(promise)).unwrap();
        self.assert_is_around(tree, writes);
    }

    /// Opens a tree that promises nothing. It must be refused or have the contents at some sync. Returns
    /// whether it was refused.
    fn is_refused_or_synced<R: Rules<i32, 2>>(&self, cut: usize, pages: Pages, promise: Promise) -> bool {
        match Small::<R>::mount_found(Store::holding(&pages).with_promise(promise)) {
            Err(IndexError::NotCleanlyClosed) => true,
            Err(error) => panic!("{error} after {cut} steps"),
            Ok(tree) => {
                self.assert_is_around(tree, cut);
                false
            }
        }
    }
}

/// A store whose atomic groups are the smallest that the class *every operation* allows, so that many
/// operations must take their narrow form.
fn tight<R: Rules<i32, 2>>(config: &SpatialConfig<R>) -> Promise {
    let atomic_pages = small_tree(config, WRITE_THROUGH).nodes().format().group_nodes_max();
    Promise { atomic_pages, ..WRITE_THROUGH }
}

fn assert_every_operation_survives<R: Rules<i32, 2>>(
    config: &SpatialConfig<R>,
    promise: Promise,
) -> Small<R> {
    let (run, tree) = record(config, promise, 420, 1);
    assert_eq!(tree.durability(), Durability::EveryOperation);
    assert!(tree.counts().merges > 10 && tree.counts().splits > 10);
    for cut in 0..=run.steps.len() {
        for trims in [false, true] {
            run.assert_survives::<R>(run.pages(cut, cut, trims), cut, promise);
        }
    }
    tree
}

#[test]
fn every_operation_survives_where_writes_are_durable() {
    let tree = assert_every_operation_survives(&r_tree::config(Split::Quadratic), WRITE_THROUGH);
    assert_eq!(tree.counts().narrow_operations, 0);
    let tree = assert_every_operation_survives(&r_star::config(), WRITE_THROUGH);
    assert!(tree.counts().reinsertions > 100);
    let tree = assert_every_operation_survives(&hilbert::config(None), WRITE_THROUGH);
    assert!(tree.counts().redistributions > 10);
    assert_every_operation_survives(&mr_tree::config(), WRITE_THROUGH);
}

#[test]
fn every_operation_survives_in_the_smallest_groups() {
    // With four entries a node is mended by few reinsertions: groups are made still tighter by a lower tree.
    for linear in [Split::Linear, Split::Quadratic] {
        let config = r_tree::config(linear);
        let tree = assert_every_operation_survives(&config, tight(&config));
        assert!(tree.store().largest_group() <= tree.nodes().format().group_nodes_max());
    }
    let config = r_star::config();
    let tree = assert_every_operation_survives(&config, tight(&config));
    assert!(tree.store().largest_group() <= tree.nodes().format().group_nodes_max());
    let config = mr_tree::config();
    let tree = assert_every_operation_survives(&config, tight(&config));
    assert!(tree.store().largest_group() <= tree.nodes().format().group_nodes_max());
}

#[test]
fn a_prefix_survives_where_writes_are_in_order() {
    let (run, tree) = record(&r_star::config(), ORDERED, 420, 2);
    assert_eq!(tree.durability(), Durability::EverySync);
    assert!(run.steps.iter().any(|step| matches!(step, Change::Trim(_))));
    for cut in 0..=run.steps.len() {
        let synced = run.synced(cut);
        for writes in [synced, synced.midpoint(cut), cut] {
            for trims in [false, true] {
                run.assert_survives::<r_star::Published>(run.pages(writes, cut, trims), writes, ORDERED);
            }
        }
    }
}

#[test]
fn a_cut_is_noticed_where_nothing_is_promised() {
    let config = hilbert::config(None);
    let (run, tree) = record(&config, UNORDERED, 300, 3);
    assert_eq!(tree.durability(), Durability::None);
    let (mut rng, mut refused) = (Rng::new(3), 0);
    for cut in 0..=run.steps.len() {
        let mut pages = run.pages(run.synced(cut), cut, rng.chance(1, 2));
        for step in &run.steps[run.synced(cut)..cut] {
            let Change::Write(group, _) = step else { continue };
            for (lpn, data) in group.iter().filter(|_| rng.chance(1, 2)) {
                pages[lpn.index()].copy_from_slice(data);
            }
        }
        refused +=
            u32::from(run.is_refused_or_synced::<hilbert::HilbertRules<i32, 2>>(cut, pages, UNORDERED));
    }
    assert!(refused > 100);
}

#[test]
fn a_cut_is_noticed_where_pages_are_written_one_by_one() {
    let (run, tree) = record(&r_star::config(), SINGLE, 300, 4);
    assert_eq!(tree.durability(), Durability::None);
    let refused = (0..=run.steps.len())
        .filter(|&cut| run.is_refused_or_synced::<r_star::Published>(cut, run.pages(cut, cut, true), SINGLE));
    assert!(refused.count() > 100);
}

#[test]
fn a_bulk_load_is_all_or_nothing() {
    for promise in [WRITE_THROUGH, ORDERED, UNORDERED] {
        let mut tree = small_tree(&r_star::config(), promise);
        let empty = tree.store().pages();
        tree.store().note_changes();
        let model = Model::random(Kind::Rects, 100, 1);
        tree.load(&mut model.entries.iter().copied(), Packing::SortTileRecursive, Fill::FULL).unwrap();
        let steps = tree.into_store().changes();
        let done = vec![(0, Model::random(Kind::Few, 0, 0)), (steps.len(), model)];
        let run = Recorded { empty, steps, done };
        for cut in 0..=run.steps.len() {
            run.is_refused_or_synced::<r_star::Published>(cut, run.pages(cut, cut, true), promise);
        }
    }
}

#[test]
fn a_format_leaves_the_old_tree_the_new_one_or_none() {
    let (run, tree) = record(&r_star::config(), WRITE_THROUGH, 60, 5);
    let model = &run.done[run.done.len() - 1].1;
    let store = tree.into_store();
    store.note_changes();
    let empty = store.pages();
    let config = r_star::config().with_capacity(4);
    let steps = r_star::RStarTree::<_, i32, 2>::format(store, &config).unwrap().into_store().changes();
    let again = Recorded { empty, steps, done: vec![] };
    for cut in 0..=again.steps.len() {
        let pages = again.pages(cut, cut, true);
        assert_eq!(pages[0].len(), Store::holding(&pages).with_promise(SINGLE).page_bytes());
        match Small::<r_star::Published>::mount_found(Store::holding(&pages)) {
            Ok(mut tree) => {
                let found = window(&mut tree, &everything(), Relation::Intersects);
                assert!(found.is_empty() || cut == 0 && found == model.sorted(), "after {cut} steps");
                assert!(tree.check().unwrap().is_sound());
            }
            Err(error) => assert!(matches!(error, IndexError::NotFormatted(_)), "{error} after {cut} steps"),
        }
    }
}
