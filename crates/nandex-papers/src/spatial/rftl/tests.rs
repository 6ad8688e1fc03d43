//! RFTL compared with a list, under power cuts and on damaged pages; its costs; and the units from two images
//! of a node.

use super::*;
use crate::inputs::sized;
use crate::spatial::r_star;
use crate::spatial::tests::Pages;
use crate::spatial::tests::model::{Kind, Model, Sample, assert_same, everything, random_rect, window};
use alloc::vec;
use core::ops::ControlFlow;
use nandex::rng::Rng;
use nandex::spatial::r_tree::Split;
use nandex::spatial::tree::Tree;
use nandex::spatial::{Packing, Relation, SpatialIndex, hilbert, r_tree};
use nandex::store::StoreError;
use nandex::testing::{Change, ORDERED, Promise, SINGLE, Store, UNORDERED};

const SMALL: RftlConfig = RftlConfig { reservation_units: 25, list_length: 3 };

type Rftl<C, const D: usize, R> = RftlTree<Store, C, D, R>;

/// Opens nodes as a tree with the rules of the settings given.
fn over_as<C: Coordinate, const D: usize, R: Rules<C, D>>(
    _: &SpatialConfig<R>,
    nodes: RftlNodes<Store, C, D>,
) -> Rftl<C, D, R> {
    Tree::over(nodes).unwrap()
}

fn every_sync<R: Clone>(config: &SpatialConfig<R>, entries: usize) -> SpatialConfig<R> {
    config.clone().with_capacity(entries).with_durability(Durability::EverySync)
}

fn churn<C: Sample, const D: usize, R: Rules<C, D>>(
    config: &SpatialConfig<R>,
    kind: Kind,
    promise: Promise,
    seed: u64,
) {
    let config = every_sync(config, 7);
    let open = |store| over_as(&config, RftlNodes::mount(store, &config, SMALL).unwrap());
    let nodes =
        RftlNodes::<_, C, D>::format(Store::new(1024, 900).with_promise(promise), &config, SMALL).unwrap();
    let mut tree = over_as(&config, nodes);
    let (mut model, mut rng, mut compactions) = (Model::<C, D>::random(kind, 0, 0), Rng::new(seed), 0);
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
        if i % 110 == 0 {
            assert_same(&mut tree, &model, i as u64);
        }
        if i % 150 == 0 {
            compactions += tree.nodes().layer().counts().compactions;
            if rng.chance(1, 2) {
                tree.close().unwrap();
            } else {
                tree.sync().unwrap();
            }
            tree = open(tree.into_nodes().into_store());
        }
    }
    assert!(compactions + tree.nodes().layer().counts().compactions > 10);
    while let Some((rect, id)) = model.entries.pop() {
        assert_eq!(tree.remove(&rect, id), Ok(true));
    }
    assert_same(&mut tree, &model, seed);
    assert_eq!(tree.stats().height, 1);
}

#[test]
fn every_tree_over_rftl_answers_as_a_list_does() {
    for (seed, kind) in [Kind::Points, Kind::Rects, Kind::Few, Kind::Wide].into_iter().enumerate() {
        let seed = seed as u64;
        churn::<i32, 2, _>(&r_tree::config(Split::Linear), kind, ORDERED, seed);
        churn::<f64, 3, _>(&r_star::config(), kind, SINGLE, seed);
        churn::<f64, 3, _>(&r_star::config(), kind, ORDERED, seed);
        churn::<i32, 2, _>(&r_tree::config(Split::Quadratic), kind, SINGLE, seed);
    }
}

#[test]
fn a_bulk_loaded_tree_goes_on_over_rftl() {
    let config = every_sync(&r_star::config(), 7);
    let store = Store::new(1024, 900).with_promise(SINGLE);
    let mut tree = over_as(&config, RftlNodes::<_, i32, 2>::format(store, &config, SMALL).unwrap());
    let mut model = Model::<i32, 2>::random(Kind::Rects, 500, 5);
    let fill = nandex::index::Fill::FULL;
    tree.load(&mut model.entries.iter().copied(), Packing::SortTileRecursive, fill).unwrap();
    for entry in Model::random(Kind::Points, 100, 6).entries {
        tree.insert(&entry.0, entry.1).unwrap();
        model.entries.push(entry);
    }
    assert_same(&mut tree, &model, 1);
    tree.close().unwrap();
    let nodes = RftlNodes::mount(tree.into_nodes().into_store(), &config, SMALL).unwrap();
    assert_same(&mut over_as(&config, nodes), &model, 2);
}

/// If each operation is durable, its commit is part of it: a store without room for the commit refuses the
/// operation.
#[test]
fn an_operation_that_is_refused_is_not_done() {
    for (promise, refusal) in [(SINGLE, StoreError::WornOut), (ORDERED, StoreError::Full)] {
        let config = r_star::config().with_capacity(5).with_durability(Durability::EveryOperation);
        let open = |store| over_as(&config, RftlNodes::mount(store, &config, SMALL).unwrap());
        let nodes =
            RftlNodes::<_, i32, 2>::format(Store::new(512, 400).with_promise(promise), &config, SMALL)
                .unwrap();
        let mut tree = over_as(&config, nodes);
        let (mut rng, mut model) = (Rng::new(8), Model::random(Kind::Few, 0, 0));
        let (mut refused, mut done) = (0, 0);
        for i in 0..sized(100, 240u64) {
            let store = tree.into_nodes().into_store();
            store.refuse_after(rng.below(5) as usize, refusal.clone());
            tree = open(store);
            let entry = (random_rect(Kind::Rects, &mut rng), i);
            let inserts = rng.chance(2, 3) || model.entries.is_empty();
            let outcome = if inserts {
                tree.insert(&entry.0, entry.1).map(|()| model.entries.push(entry))
            } else {
                let (rect, id) = model.entries[rng.below(model.entries.len() as u64) as usize];
                tree.remove(&rect, id).map(|_| assert!(model.remove(&rect, id)))
            };
            match outcome {
                Ok(()) => done += 1,
                Err(IndexError::Full(_) | IndexError::WornOut) => refused += 1,
                Err(other) => panic!("{other}"),
            }
            assert_same(&mut tree, &model, i);
            let store = tree.into_nodes().into_store();
            store.refuse_nothing();
            tree = open(store);
            assert_same(&mut tree, &model, i);
        }
        let few = sized(16, 40);
        assert!(refused > few && done > few, "{refused} refused, {done} done");
    }
}

/// The pages after the first `writes` steps. Of the trims after the last sync before `cut`, all survive or
/// none.
fn replayed(empty: &Pages, steps: &[Change], (writes, cut): (usize, usize), trims: bool) -> Pages {
    let synced = steps[..cut].iter().rposition(|step| matches!(step, Change::Sync)).map_or(0, |i| i + 1);
    let mut pages = empty.clone();
    for (i, step) in steps[..cut].iter().enumerate() {
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

#[test]
fn a_prefix_with_all_that_was_synced_survives_a_cut_at_any_write() {
    for promise in [ORDERED, SINGLE] {
        let config = every_sync(&r_star::config(), 4);
        let open = |store| over_as(&config, RftlNodes::mount(store, &config, SMALL).unwrap());
        let nodes =
            RftlNodes::<_, i32, 2>::format(Store::new(512, 400).with_promise(promise), &config, SMALL)
                .unwrap();
        let store = nodes.into_store();
        let empty = store.pages();
        store.note_changes();
        let mut tree = open(store);
        let steps = |tree: &Rftl<i32, 2, r_star::Published>| tree.nodes().layer().store().change_count();
        let (mut rng, mut model) = (Rng::new(4), Model::random(Kind::Few, 0, 0));
        let (mut done, mut syncs) = (vec![(0, model.clone())], Vec::new());
        for i in 0..330u64 {
            let grows = if (i / 100).is_multiple_of(2) { 4 } else { 1 };
            match rng.below(6) {
                5 if rng.chance(1, 3) => {
                    tree.sync().unwrap();
                    syncs.push((steps(&tree), done.len()));
                }
                n if n < grows || model.entries.is_empty() => {
                    let entry = (random_rect(Kind::Rects, &mut rng), i);
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
        assert!(tree.nodes().layer().counts().commits > 20);
        let all = tree.into_nodes().into_store().changes();
        for cut in 0..=all.len() {
            let durable =
                all[..cut].iter().rposition(|step| matches!(step, Change::Sync)).map_or(0, |i| i + 1);
            let lost = if promise.durable { vec![cut] } else { vec![durable, durable.midpoint(cut), cut] };
            for writes in lost {
                let pages = replayed(&empty, &all, (writes, cut), cut % 2 == 0);
                let mut tree = open(Store::holding(&pages).with_promise(promise));
                let found = window(&mut tree, &everything(), Relation::Intersects);
                assert!(tree.check().unwrap().is_sound());
                let synced = syncs.iter().rev().find(|(steps, _)| *steps <= writes).map_or(0, |(_, at)| *at);
                let last = done.partition_point(|(after, _)| *after <= writes).min(done.len() - 1);
                let is_known = (synced.min(last)..=last).any(|at| done[at].1.sorted() == found);
                assert!(is_known, "{} entries after {writes} of {cut} steps", found.len());
            }
        }
    }
}

#[test]
fn where_nothing_can_be_promised_a_cut_is_noticed() {
    let config = r_tree::config(Split::Quadratic).with_capacity(4);
    let refused = RftlNodes::<_, i32, 2>::format(
        Store::new(512, 400).with_promise(UNORDERED),
        &every_sync(&config, 4),
        SMALL,
    );
    assert!(matches!(refused, Err(IndexError::Unsupported(_))));
    let ordered = RftlNodes::<_, i32, 2>::format(
        Store::new(512, 400).with_promise(SINGLE),
        &hilbert::config(None),
        SMALL,
    );
    assert!(matches!(ordered, Err(IndexError::Unsupported(_))), "units have no place");
    let config = config.with_durability(Durability::None);
    let store = Store::new(512, 400).with_promise(UNORDERED);
    let mut tree = over_as(&config, RftlNodes::<_, i32, 2>::format(store, &config, SMALL).unwrap());
    let model = Model::<i32, 2>::random(Kind::Rects, 90, 5);
    for (rect, id) in &model.entries {
        tree.insert(rect, *id).unwrap();
    }
    let pages = tree.nodes().layer().store().pages();
    let cut = RftlNodes::<_, i32, 2>::mount(Store::holding(&pages).with_promise(UNORDERED), &config, SMALL);
    assert_eq!(cut.err(), Some(IndexError::NotCleanlyClosed));
    tree.close().unwrap();
    let nodes = RftlNodes::mount(tree.into_nodes().into_store(), &config, SMALL).unwrap();
    assert_same(&mut over_as(&config, nodes), &model, 3);
}

#[test]
fn any_flipped_byte_is_an_error_or_harmless() {
    let config = every_sync(&r_star::config(), 4);
    let store = Store::new(512, 300).with_promise(SINGLE);
    let mut tree = over_as(&config, RftlNodes::<_, i32, 2>::format(store, &config, SMALL).unwrap());
    let model = Model::<i32, 2>::random(Kind::Rects, 40, 3);
    for (rect, id) in &model.entries {
        tree.insert(rect, *id).unwrap();
    }
    tree.close().unwrap();
    let pages = tree.into_nodes().into_store().pages();
    let ask = |pages: Pages| -> Result<usize, IndexError> {
        let mut tree = Tree::<i32, 2, _, r_star::Published>::over(RftlNodes::mount(
            Store::holding(&pages).with_promise(SINGLE),
            &config,
            SMALL,
        )?)?;
        let mut found = Vec::new();
        tree.window(&everything(), Relation::Intersects, &mut |rect, id| {
            found.push((*rect, id));
            ControlFlow::Continue(())
        })?;
        let count = found.len();
        // The pages of the newest commit count only if all are there, so damage there takes it back.
        assert!(found.iter().all(|entry| model.entries.contains(entry)));
        let _ = tree.remove(&model.entries[0].0, model.entries[0].1)?;
        let _ = tree.check()?;
        Ok(count)
    };
    assert_eq!(ask(pages.clone()), Ok(40));
    let (mut rng, mut errors, mut flips) = (Rng::new(3), 0, 0);
    for page in (0..pages.len()).filter(|page| pages[*page].iter().any(|&byte| byte != 0)) {
        for at in (0..512).step_by(3) {
            let mut damaged = pages.clone();
            damaged[page][at] ^= 1 << rng.below(8);
            flips += 1;
            errors += u32::from(ask(damaged).is_err());
        }
    }
    assert!(errors * 2 > flips, "{errors} errors of {flips}");
}

#[test]
fn an_insertion_costs_far_less_than_in_the_plain_tree() {
    let config = r_tree::config(Split::Quadratic).with_durability(Durability::EverySync);
    let model = Model::<i32, 2>::random(Kind::Points, 6000, 3);
    let big = RftlConfig { reservation_units: 1000, list_length: 4 };
    let store = Store::new(2048, 2000).with_promise(SINGLE);
    let mut tree = over_as(&config, RftlNodes::<_, i32, 2>::format(store, &config, big).unwrap());
    for (rect, id) in &model.entries {
        tree.insert(rect, *id).unwrap();
    }
    let counts = tree.nodes().layer().counts();
    let writes = counts.commit_pages + counts.compaction_pages;
    assert!(writes < 3000, "{counts:?}; the plain tree writes more than 6000");
}

/// A node with random entries, some of them twice.
fn image(codec: &RectNodes<i32, 2>, level: u8, rng: &mut Rng) -> Vec<u8> {
    use nandex::spatial::node::Entry;
    let mut node = Node::<i32, 2>::new(level);
    for child in 2..20 {
        if rng.chance(1, 2) && node.entries.len() + 2 < codec.format.capacity(level) {
            let rect = random_rect(Kind::Few, rng);
            let entry =
                if level == 1 { Entry::data(rect, rng.below(3)) } else { Entry::child(rect, NodeId(child)) };
            node.entries.push(entry);
            if level == 1 && rng.chance(1, 4) {
                node.entries.push(entry);
            }
        }
    }
    rng.shuffle(&mut node.entries);
    let mut page = vec![0; 1024];
    codec.format.encode(NodeId(9), &node, &mut page);
    page
}

#[test]
fn the_differences_of_two_images_lead_from_one_to_the_other() {
    let format = r_star::config().node_format::<i32, 2>(1024, 300).unwrap();
    let codec = RectNodes { format, coordinates: PhantomData };
    let mut rng = Rng::new(6);
    for _ in 0..2_000 {
        let level = 1 + rng.below(2) as u8;
        let (old, new) = (image(&codec, level, &mut rng), image(&codec, level, &mut rng));
        let mut units = Vec::new();
        codec.differences(Some(&old), &new, &mut |op, body| units.push((op, body.to_vec())));
        let mut page = old.clone();
        for (op, body) in &units {
            assert_eq!(body.len(), codec.body_bytes());
            codec.apply(&mut page, *op, body).unwrap();
        }
        codec.seal(&mut page);
        assert_eq!(codec.sorted(&page), codec.sorted(&new));
        assert_eq!(codec.mark(&page), Some(level));
        assert_eq!(units.is_empty(), codec.sorted(&old) == codec.sorted(&new));
    }
    let mut page = vec![0; 1024];
    assert_eq!(codec.mark(&page), None);
    codec.reset(&mut page, Lpn(3), 2);
    let body = vec![1; codec.body_bytes()];
    assert!(codec.apply(&mut page, Op::Delete, &body).is_err());
    codec.apply(&mut page, Op::Insert, &body).unwrap();
    assert!(codec.apply(&mut page, Op::Insert, &body).is_err(), "a child is there once");
}
