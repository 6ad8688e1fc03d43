//! Spatial indexes from outside: their answers compared with the `rstar` crate, and the pages read by a query
//! compared with the prediction for packed trees.
#![allow(clippy::unwrap_used)]

use nandex::index::Fill;
use nandex::rng::Rng;
use nandex::spatial::hilbert::{self, HilbertRTree};
use nandex::spatial::paged::PagedNodes;
use nandex::spatial::r_tree::{self, RTree, Split};
use nandex::spatial::tree::{Rules, SpatialConfig, packed_nodes};
use nandex::spatial::{Measure, Nodes, Packing, Rect, Relation, SpatialIndex};
use nandex::store::ram::RamStore;
use nandex::{IndexError, PageStore};
use nandex_papers::spatial::r_star::{self, RStarTree};
use rstar::primitives::{GeomWithData, Rectangle};
use rstar::{AABB, PointDistance, RTreeObject};
use std::ops::ControlFlow;

type Theirs<const D: usize> = rstar::RTree<GeomWithData<Rectangle<[f64; D]>, u64>>;

fn random_rect<const D: usize>(rng: &mut Rng) -> Rect<f64, D> {
    let size = if rng.chance(1, 3) { 1 } else { 500 };
    let low: [i32; D] = std::array::from_fn(|_| rng.below(20_000) as i32 - 10_000);
    let high = std::array::from_fn(|axis| f64::from(low[axis] + rng.below(size) as i32) / 8.0);
    Rect::new(low.map(|x| f64::from(x) / 8.0), high).unwrap()
}

fn as_theirs<const D: usize>(rect: &Rect<f64, D>, id: u64) -> GeomWithData<Rectangle<[f64; D]>, u64> {
    GeomWithData::new(Rectangle::from_corners(rect.low(), rect.high()), id)
}

fn window<const D: usize>(
    tree: &mut dyn SpatialIndex<f64, D>,
    query: &Rect<f64, D>,
    relation: Relation,
) -> Vec<u64> {
    let mut found = Vec::new();
    let visit = &mut |_: &Rect<f64, D>, id| {
        found.push(id);
        ControlFlow::Continue(())
    };
    tree.window(query, relation, visit).unwrap();
    found.sort_unstable();
    found
}

fn assert_same_answers<const D: usize>(ours: &mut dyn SpatialIndex<f64, D>, theirs: &Theirs<D>, rng: &mut Rng)
where
    Rectangle<[f64; D]>: RTreeObject<Envelope = AABB<[f64; D]>> + PointDistance,
{
    for _ in 0..40 {
        let query = random_rect::<D>(rng).union(&random_rect(rng));
        let envelope = AABB::from_corners(query.low(), query.high());
        let mut intersecting: Vec<u64> =
            theirs.locate_in_envelope_intersecting(envelope).map(|found| found.data).collect();
        intersecting.sort_unstable();
        assert_eq!(window(ours, &query, Relation::Intersects), intersecting);
        let mut within: Vec<u64> = theirs.locate_in_envelope(envelope).map(|found| found.data).collect();
        within.sort_unstable();
        assert_eq!(window(ours, &query, Relation::Within), within);
        let point = query.low();
        let nearest = theirs.nearest_neighbor_iter_with_distance_2(point).take(20);
        let mut distances = nearest.map(|(_, distance2)| distance2);
        ours.nearest(&point, 20, &mut |rect, _, distance2| {
            assert_eq!((Some(distance2), distance2), (distances.next(), rect.distance2(&point)));
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(distances.next(), None);
    }
}

fn compare_with_rstar<const D: usize>(mut ours: Box<dyn SpatialIndex<f64, D>>, seed: u64)
where
    Rectangle<[f64; D]>: RTreeObject<Envelope = AABB<[f64; D]>> + PointDistance,
{
    let (mut theirs, mut rng, mut entries) = (Theirs::<D>::new(), Rng::new(seed), Vec::new());
    for id in 0..3_000 {
        let rect = random_rect::<D>(&mut rng);
        ours.insert(&rect, id).unwrap();
        theirs.insert(as_theirs(&rect, id));
        entries.push((rect, id));
    }
    assert_same_answers(&mut *ours, &theirs, &mut rng);
    rng.shuffle(&mut entries);
    for (rect, id) in &entries[..2_000] {
        assert_eq!(ours.remove(rect, *id), Ok(true));
        assert!(theirs.remove(&as_theirs(rect, *id)).is_some());
    }
    assert_same_answers(&mut *ours, &theirs, &mut rng);
    assert!(ours.check().unwrap().is_sound());
}

#[test]
fn every_tree_answers_as_rstar_does() {
    let store = || RamStore::new(512, 2_000);
    compare_with_rstar::<2>(Box::new(RTree::format(store(), &r_tree::config(Split::Linear)).unwrap()), 1);
    compare_with_rstar::<3>(Box::new(RTree::format(store(), &r_tree::config(Split::Quadratic)).unwrap()), 2);
    compare_with_rstar::<2>(Box::new(RStarTree::format(store(), &r_star::config()).unwrap()), 3);
    compare_with_rstar::<3>(Box::new(RStarTree::format(store(), &r_star::config()).unwrap()), 4);
    let domain = Rect::new([-1250.0; 2], [1250.0; 2]).unwrap();
    compare_with_rstar::<2>(
        Box::new(HilbertRTree::format(store(), &hilbert::config(Some(domain))).unwrap()),
        5,
    );
    compare_with_rstar::<3>(Box::new(HilbertRTree::format(store(), &hilbert::config(None)).unwrap()), 6);
}

/// Points spread evenly over a square of side 1.
fn even_points(count: u64) -> Vec<(Rect<f64, 2>, u64)> {
    let mut rng = Rng::new(9);
    let unit = |bits: u64| (bits >> 11) as f64 / (1u64 << 53) as f64;
    (0..count).map(|id| (Rect::point([unit(rng.next_u64()), unit(rng.next_u64())]).unwrap(), id)).collect()
}

/// Pages that a window of this side reads in the mean, in a tree packed into squares: a node of P on its
/// level has the side 1 / sqrt(P), and a window meets it when their centres are close enough on both axes.
fn predicted_reads(levels: &[u64], side: f64) -> f64 {
    levels
        .iter()
        .map(|&nodes| if nodes == 1 { 1.0 } else { (side * (nodes as f64).sqrt() + 1.0).powi(2) })
        .sum()
}

#[test]
fn windows_read_no_more_pages_than_packing_predicts() {
    let points = even_points(60_000);
    let mut tree = RStarTree::format(RamStore::new(4096, 3_000), &r_star::config()).unwrap();
    tree.load(&mut points.iter().copied(), Packing::SortTileRecursive, Fill::FULL).unwrap();
    let levels = packed_nodes(tree.nodes().format(), Fill::FULL, points.len() as u64);
    assert_eq!(levels[0], points.len().div_ceil(102) as u64, "a leaf holds 4,080 / 40 entries");
    for side in [0.01, 0.05, 0.2] {
        let (mut rng, windows) = (Rng::new(4), 400);
        let before = tree.store().counters().page_reads[0];
        for _ in 0..windows {
            let mut corner = || (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64 * (1.0 - side);
            let low = [corner(), corner()];
            let query = Rect::new(low, low.map(|x| x + side)).unwrap();
            tree.window(&query, Relation::Intersects, &mut |_, _| ControlFlow::Continue(())).unwrap();
        }
        let reads = (tree.store().counters().page_reads[0] - before) as f64 / f64::from(windows);
        let predicted = predicted_reads(&levels, side);
        assert!(reads < predicted * 1.1, "{reads} pages, predicted {predicted} for windows of side {side}");
    }
}

#[test]
fn the_nearest_reads_only_nodes_that_are_near() {
    let points = even_points(20_000);
    let mut tree = RStarTree::format(RamStore::new(4096, 1_000), &r_star::config()).unwrap();
    tree.load(&mut points.iter().copied(), Packing::SortTileRecursive, Fill::FULL).unwrap();
    for at in 0..50 {
        let point = [f64::from(at) / 50.0, f64::from(at * 7 % 50) / 50.0];
        let before = tree.store().counters().page_reads[0];
        let mut farthest = 0.0;
        tree.nearest(&point, 10, &mut |_, _, distance2| {
            farthest = distance2;
            ControlFlow::Continue(())
        })
        .unwrap();
        let reads = tree.store().counters().page_reads[0] - before;
        let mut near = 0;
        tree.regions(&mut |region| {
            near += u64::from(region.rect.distance2(&point).order(&farthest).is_le());
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(reads, near, "no more nodes are read than reach within the distance of the tenth");
    }
}

/// With the least RAM every operation is done, and no more is held than was said.
fn little_ram<R: Rules<i32, 2>>(config: &SpatialConfig<R>) -> u64 {
    let new =
        || nandex::spatial::tree::Tree::<i32, 2, _, R>::format(RamStore::new(4096, 100), config).unwrap();
    let least = PagedNodes::<RamStore, i32, 2>::ram_bytes_min(true, new().nodes().format());
    let refused = new().with_ram(least - 1).err();
    assert!(matches!(refused, Some(IndexError::TooLittleRam { given, needed, .. }) if given + 1 == needed));
    let mut tree = new().with_ram(least).unwrap();
    let mut rng = Rng::new(4);
    let mut entries: Vec<(Rect<i32, 2>, u64)> = Vec::new();
    let mut held_max = 0;
    for id in 0..5_000 {
        let low = [rng.below(4_000) as i32, rng.below(4_000) as i32];
        let high = low.map(|x| if rng.chance(1, 3) { i32::MAX } else { x + rng.below(300) as i32 });
        entries.push((Rect::new(low, high).unwrap(), id));
        tree.insert(&entries[id as usize].0, id).unwrap();
        held_max = held_max.max(tree.ram_bytes() - tree.store().ram_bytes());
    }
    assert!(tree.check().unwrap().is_sound());
    while let Some((rect, id)) = entries.pop() {
        assert_eq!(tree.remove(&rect, id), Ok(true));
        held_max = held_max.max(tree.ram_bytes() - tree.store().ram_bytes());
    }
    assert!(held_max <= least, "{held_max} of {least} bytes");
    tree.counts().narrow_operations
}

#[test]
fn little_ram_makes_operations_narrow_but_not_impossible() {
    assert_eq!(little_ram(&hilbert::config(None)), 0);
    assert!(little_ram(&r_star::config()) > 0);
    little_ram(&r_tree::config(Split::Linear));
}
