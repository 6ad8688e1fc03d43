//! The power is cut at every write, and the store keeps as little as it promised to.
//!
//! A run is recorded once. For each place in the recording every state that the store's promise allows is
//! built, mounted, checked, and compared with the contents before or after the operation that was under way.

use super::*;

/// A recorded run: the store's steps, and after each operation how many there were, with the contents then.
pub(super) struct Recorded {
    empty: Pages,
    pub(super) steps: Vec<Change>,
    done: Vec<(usize, Model)>,
}

fn record(promise: Promise, ops: usize, seed: u64) -> Recorded {
    record_on(small_tree(promise, 80), 80, ops, seed)
}

pub(super) fn record_on(mut tree: BPlusTree<Store>, keys: u64, ops: usize, seed: u64) -> Recorded {
    let empty = tree.store.0.pages();
    tree.store.0.note_changes();
    let (mut rng, mut model, mut done) = (Rng::new(seed), Model::new(), vec![(0, Model::new())]);
    for i in 0..ops {
        let key = key(rng.below(keys) as u16, SMALL);
        // Waves of insertion and removal, so that the tree rises and falls through its heights.
        let grows = if (i as u64 / (2 * keys - 10)).is_multiple_of(2) { 4 } else { 1 };
        match rng.below(6) {
            5 if rng.chance(1, 4) => tree.sync().unwrap(),
            n if n < grows => {
                let value = value(i as u64, SMALL);
                tree.insert(&key, &value).unwrap();
                model.insert(key, value);
            }
            _ => {
                tree.remove(&key).unwrap();
                model.remove(&key);
            }
        }
        done.push((tree.store.0.change_count(), model.clone()));
    }
    assert!(tree.counts().merges > 10 && tree.counts().redistributions > 10);
    Recorded { empty, steps: tree.into_store().changes(), done }
}

impl Recorded {
    /// The steps before the last sync among the first `cut`.
    fn synced(&self, cut: usize) -> usize {
        self.steps[..cut].iter().rposition(|step| matches!(step, Change::Sync)).map_or(0, |i| i + 1)
    }

    /// Pages on the medium if the first `writes` steps survive, and all or none of the trims after the last
    /// sync before `cut`.
    pub(super) fn pages(&self, writes: usize, cut: usize, trims: bool) -> Pages {
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

    /// The contents before and after the operation to which step `cut` belongs.
    fn around(&self, cut: usize) -> (&Model, &Model) {
        let after = self.done.partition_point(|(steps, _)| *steps < cut);
        let before = self.done.partition_point(|(steps, _)| *steps <= cut) - 1;
        (&self.done[before.min(after)].1, &self.done[after.max(before)].1)
    }

    pub(super) fn assert_survives(&self, pages: Pages, writes: usize, promise: Promise) {
        let mut tree = BPlusTree::mount_found(Store::holding(&pages).with_promise(promise)).unwrap();
        let found = contents(&mut tree).unwrap();
        let (before, after) = self.around(writes);
        assert!(found == *before || found == *after, "after {writes} steps");
        assert_sound(&mut tree, &found);
    }
}

#[test]
fn every_operation_survives_where_writes_are_durable() {
    let run = record(WRITE_THROUGH, 900, 1);
    for cut in 0..=run.steps.len() {
        for trims in [false, true] {
            run.assert_survives(run.pages(cut, cut, trims), cut, WRITE_THROUGH);
        }
    }
}

#[test]
fn a_prefix_survives_where_writes_are_in_order() {
    let run = record(ORDERED, 900, 2);
    assert!(run.steps.iter().any(|step| matches!(step, Change::Trim(_))));
    for cut in 0..=run.steps.len() {
        let synced = run.synced(cut);
        for writes in [synced, synced.midpoint(cut), cut] {
            for trims in [false, true] {
                run.assert_survives(run.pages(writes, cut, trims), writes, ORDERED);
            }
        }
    }
}

/// The outcome where nothing is promised: refused, or exactly the contents at some sync.
fn assert_refused_or_synced(run: &Recorded, cut: usize, pages: Pages, promise: Promise) -> bool {
    match BPlusTree::mount_found(Store::holding(&pages).with_promise(promise)) {
        Err(IndexError::NotCleanlyClosed) => true,
        Err(error) => panic!("{error} after {cut} steps"),
        Ok(mut tree) => {
            let found = contents(&mut tree).unwrap();
            let (before, after) = run.around(cut);
            assert!(found == *before || found == *after, "after {cut} steps");
            assert_sound(&mut tree, &found);
            false
        }
    }
}

#[test]
fn a_cut_is_noticed_where_nothing_is_promised() {
    let run = record(UNORDERED, 600, 3);
    let mut rng = Rng::new(3);
    let mut refused = 0;
    for cut in 0..=run.steps.len() {
        for _ in 0..3 {
            let mut pages = run.pages(run.synced(cut), cut, rng.chance(1, 2));
            for step in &run.steps[run.synced(cut)..cut] {
                let Change::Write(group, _) = step else { continue };
                for (lpn, data) in group.iter().filter(|_| rng.chance(1, 2)) {
                    pages[lpn.index()].copy_from_slice(data);
                }
            }
            refused += u32::from(assert_refused_or_synced(&run, cut, pages, UNORDERED));
        }
    }
    assert!(refused > 100);
}

#[test]
fn a_cut_is_noticed_where_pages_are_written_one_by_one() {
    let run = record(SINGLE, 600, 4);
    let refused = (0..=run.steps.len())
        .filter(|&cut| assert_refused_or_synced(&run, cut, run.pages(cut, cut, true), SINGLE));
    assert!(refused.count() > 100);
}

#[test]
fn a_bulk_load_is_all_or_nothing() {
    for promise in [WRITE_THROUGH, ORDERED, UNORDERED] {
        let mut tree = small_tree(promise, 80);
        let empty = tree.store.0.pages();
        tree.store.0.note_changes();
        let model: Model = (0..100).map(|n| (key(n, SMALL), value(u64::from(n), SMALL))).collect();
        tree.bulk_load(&model, Fill::FULL).unwrap();
        let steps = tree.into_store().changes();
        let done = vec![(0, Model::new()), (steps.len(), model)];
        let run = Recorded { empty, steps, done };
        for cut in 0..=run.steps.len() {
            assert_refused_or_synced(&run, cut, run.pages(cut, cut, true), promise);
        }
    }
}

#[test]
fn a_format_leaves_the_old_tree_the_new_one_or_none() {
    let (mut tree, mut model) = (small_tree(WRITE_THROUGH, 80), Model::new());
    fill(&mut tree, &mut model, 0..60);
    let store = tree.into_store();
    store.note_changes();
    let empty = store.pages();
    let config = BPlusConfig::new(SMALL);
    let steps = BPlusTree::format(store, &config).unwrap().into_store().changes();
    let run = Recorded { empty, steps, done: vec![] };
    for cut in 0..=run.steps.len() {
        match BPlusTree::mount_found(Store::holding(&run.pages(cut, cut, true))) {
            Ok(mut tree) if cut == 0 => assert_eq!(contents(&mut tree).unwrap(), model),
            Ok(mut tree) => assert_sound(&mut tree, &Model::new()),
            Err(error) => assert!(matches!(error, IndexError::NotFormatted(_)), "{error} after {cut} steps"),
        }
    }
}
