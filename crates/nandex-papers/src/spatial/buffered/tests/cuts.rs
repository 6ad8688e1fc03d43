//! The power is cut at every write. The promise must hold, and the tree must go on working.

use super::*;
use crate::inputs::stride;
use crate::spatial::tests::Pages;
use crate::spatial::tests::model::{everything, window};
use alloc::vec;
use nandex::testing::Change;

/// A recorded run: the store's steps. `done` has the number of steps and the contents after each operation.
struct Recorded {
    empty: Pages,
    steps: Vec<Change>,
    done: Vec<(usize, Model<i32, 2>)>,
    /// For each sync: the number of steps by then, and the number of the operation.
    syncs: Vec<(usize, usize)>,
}

/// A tree with at least two records to a page and a log that is compacted often.
fn small(
    promise: Promise,
    tree: &SpatialConfig<r_star::Published>,
    config: BufferedConfig,
) -> Small<r_star::Published> {
    new_tree(Store::new(256, 600).with_promise(promise), tree, config)
}

fn record(
    config: BufferedConfig,
    promise: Promise,
    ops: usize,
    seed: u64,
) -> (Recorded, Small<r_star::Published>) {
    let mut tree = small(promise, &r_star::config().with_capacity(4), config);
    let store = tree.into_nodes().into_store();
    let empty = store.pages();
    store.note_changes();
    tree = Tree::over(BufferedNodes::mount_found(store, config).unwrap()).unwrap();
    let (mut rng, mut model) = (Rng::new(seed), Model::random(Kind::Few, 0, 0));
    let steps = |tree: &Small<r_star::Published>| tree.nodes().steps();
    let (mut done, mut syncs) = (vec![(0, model.clone())], Vec::new());
    for i in 0..ops {
        let grows = if (i / 100).is_multiple_of(2) { 4 } else { 1 };
        match rng.below(6) {
            5 if rng.chance(1, 3) => {
                if rng.chance(1, 6) {
                    tree.close().unwrap();
                } else {
                    tree.sync().unwrap();
                }
                syncs.push((steps(&tree), done.len()));
            }
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
        done.push((steps(&tree), model.clone()));
    }
    let counts = tree.nodes().log.counts;
    assert!(counts.compactions > 1, "{counts:?}");
    let store = tree.into_nodes().into_store();
    let steps = store.changes();
    tree = Tree::over(BufferedNodes::mount_found(store, config).unwrap()).unwrap();
    (Recorded { empty, steps, done, syncs }, tree)
}

impl BufferedNodes<Store, i32, 2> {
    fn steps(&self) -> usize {
        self.look(|mem| mem.change_count())
    }
}

impl Recorded {
    fn pages(&self, writes: usize, cut: usize, trims: bool) -> Pages {
        let is_sync = |step: &Change| matches!(step, Change::Sync);
        let synced = self.steps[..cut].iter().rposition(is_sync).map_or(0, |i| i + 1);
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

    /// The last operation that ended within the first `steps` steps.
    fn last_done(&self, steps: usize) -> usize {
        self.done.partition_point(|(after, _)| *after <= steps) - 1
    }

    /// Checks that the tree has the contents after one of the operations `from` to `to`. Returns which.
    fn assert_is_among(&self, tree: &mut Small<r_star::Published>, from: usize, to: usize) -> usize {
        let found = window(tree, &everything(), Relation::Intersects);
        let report = tree.check().unwrap();
        assert!(report.is_sound(), "{:?}", report.violations);
        let at = (from..=to.min(self.done.len() - 1)).rev().find(|&at| self.done[at].1.sorted() == found);
        at.unwrap_or_else(|| panic!("{} entries are none of the contents {from} to {to}", found.len()))
    }

    /// Goes on with random operations and cuts the power again.
    fn assert_goes_on(&self, mut tree: Small<r_star::Published>, at: usize, config: BufferedConfig) {
        let (mut model, mut rng) = (self.done[at].1.clone(), Rng::new(at as u64));
        for id in 0..25 {
            let entry = (random_rect(Kind::Rects, &mut rng), id);
            tree.insert(&entry.0, entry.1).unwrap();
            model.entries.push(entry);
            let (rect, id) = model.entries[rng.below(model.entries.len() as u64) as usize];
            assert_eq!(tree.remove(&rect, id), Ok(true));
            assert!(model.remove(&rect, id));
        }
        tree.sync().unwrap();
        let store = tree.into_nodes().into_store();
        store.note_changes();
        let mut tree: Small<r_star::Published> =
            Tree::over(BufferedNodes::mount_found(store, config).unwrap()).unwrap();
        assert_eq!(tree.nodes().steps(), 0, "a mount writes nothing");
        assert_eq!(window(&mut tree, &everything(), Relation::Intersects), model.sorted());
        assert!(tree.check().unwrap().is_sound());
    }
}

fn mount(pages: Pages, promise: Promise, config: BufferedConfig) -> Small<r_star::Published> {
    Tree::over(BufferedNodes::mount_found(Store::holding(&pages).with_promise(promise), config).unwrap())
        .unwrap()
}

fn configs(durability: Durability) -> [BufferedConfig; 2] {
    let efind = BufferedConfig::efind(durability, 4000, 256, Efind::new(Worth::Mthao));
    [
        BufferedConfig::fast(durability, 3000, FlushPolicy::MostModified),
        BufferedConfig { read_pages: 2, unit_nodes: 3, ..efind },
    ]
}

#[test]
fn every_operation_survives_where_writes_are_durable() {
    for (config, promise) in configs(Durability::EveryOperation).into_iter().zip([SINGLE, WRITE_THROUGH]) {
        let (run, tree) = record(config, promise, 330, 1);
        assert_eq!(tree.durability(), Durability::EveryOperation);
        for cut in (0..=run.steps.len()).step_by(stride(3)) {
            let mut tree = mount(run.pages(cut, cut, true), promise, config);
            let last = run.last_done(cut);
            let at = run.assert_is_among(&mut tree, last, last + 1);
            if cut % 4 == 0 {
                run.assert_goes_on(tree, at, config);
            }
        }
    }
}

#[test]
fn a_prefix_with_all_that_was_synced_survives_where_writes_are_in_order() {
    for (config, promise) in configs(Durability::EverySync).into_iter().zip([ORDERED, SINGLE]) {
        let (run, tree) = record(config, promise, 400, 2);
        assert_eq!(tree.durability(), Durability::EverySync);
        for cut in (0..=run.steps.len()).step_by(stride(3)) {
            let is_sync = |step: &Change| matches!(step, Change::Sync);
            let durable = run.steps[..cut].iter().rposition(is_sync).map_or(0, |i| i + 1);
            let lost = if promise.durable { vec![cut] } else { vec![durable, durable.midpoint(cut), cut] };
            for writes in lost {
                let mut tree = mount(run.pages(writes, cut, cut % 2 == 0), promise, config);
                let synced = run.syncs.iter().rev().find(|(steps, _)| *steps <= writes);
                let (from, to) = (synced.map_or(0, |(_, at)| *at), run.last_done(writes) + 1);
                let at = run.assert_is_among(&mut tree, from.min(to), to);
                if cut % 5 == 0 {
                    run.assert_goes_on(tree, at, config);
                }
            }
        }
    }
}

#[test]
fn a_bulk_load_is_all_or_nothing() {
    for (config, promise) in configs(Durability::EverySync).into_iter().zip([ORDERED, SINGLE]) {
        let mut tree = small(promise, &r_star::config().with_capacity(4), config);
        let before = Model::<i32, 2>::random(Kind::Rects, 0, 1);
        for turn in 0..2 {
            // The second time there is something in the log.
            for (rect, id) in &Model::<i32, 2>::random(Kind::Rects, 20 * turn, 1).entries {
                tree.insert(rect, *id).unwrap();
                assert_eq!(tree.remove(rect, *id), Ok(true));
            }
            tree.sync().unwrap();
            let store = tree.into_nodes().into_store();
            let empty = store.pages();
            store.note_changes();
            tree = Tree::over(BufferedNodes::mount_found(store, config).unwrap()).unwrap();
            let model = Model::random(Kind::Rects, 100, 1);
            tree.load(&mut model.entries.iter().copied(), Packing::SortTileRecursive, Fill::FULL).unwrap();
            tree.sync().unwrap();
            let store = tree.into_nodes().into_store();
            let steps = store.changes();
            let run = Recorded {
                empty: empty.clone(),
                steps,
                done: vec![(0, before.clone()), (0, model)],
                syncs: vec![],
            };
            let mut loaded = 0;
            for cut in 0..=run.steps.len() {
                let mut tree = mount(run.pages(cut, cut, true), promise, config);
                loaded += run.assert_is_among(&mut tree, 0, 1);
            }
            assert!((1..run.steps.len()).contains(&loaded));
            tree = mount(empty, promise, config);
        }
    }
}

#[test]
fn a_format_leaves_the_old_tree_the_new_one_or_none() {
    let config = configs(Durability::EveryOperation)[0];
    let (run, tree) = record(config, SINGLE, 200, 5);
    let model = &run.done[run.done.len() - 1].1;
    let store = tree.into_nodes().into_store();
    store.note_changes();
    let empty = store.pages();
    let tree_config = r_star::config().with_capacity(4);
    let steps =
        BufferedNodes::<_, i32, 2>::format(store, &tree_config, config).unwrap().into_store().changes();
    let again = Recorded { empty, steps, done: vec![], syncs: vec![] };
    for cut in 0..=again.steps.len() {
        match BufferedNodes::<_, i32, 2>::mount_found(
            Store::holding(&again.pages(cut, cut, true)).with_promise(SINGLE),
            config,
        ) {
            Ok(nodes) => {
                let mut tree: Small<r_star::Published> = Tree::over(nodes).unwrap();
                let found = window(&mut tree, &everything(), Relation::Intersects);
                assert!(found.is_empty() || cut == 0 && found == model.sorted(), "after {cut} steps");
                assert!(tree.check().unwrap().is_sound());
            }
            Err(error) => assert!(matches!(error, IndexError::NotFormatted(_)), "{error} after {cut} steps"),
        }
    }
}
