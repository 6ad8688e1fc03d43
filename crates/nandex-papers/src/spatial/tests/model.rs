//! The list that every tree is compared with, and random rectangles of every sort.

use alloc::vec::Vec;
use core::ops::ControlFlow;
use nandex::rng::Rng;
use nandex::spatial::tree::{Rules, SpatialConfig, Tree};
use nandex::spatial::{Coordinate, Measure, Rect, Relation, SpatialIndex};
use nandex::testing::Store;

/// A coordinate that tests can draw.
pub(crate) trait Sample: Coordinate {
    /// The coordinate of a small whole number.
    fn of(n: i32) -> Self;

    /// The least or the largest value of the type.
    fn extreme(is_low: bool) -> Self;
}

macro_rules! sample {
    ($($t:ident),*) => {$(
        impl Sample for $t {
            fn of(n: i32) -> $t {
                <$t>::from(n as i16) / <$t>::from(4i8)
            }

            fn extreme(is_low: bool) -> $t {
                if is_low { $t::MIN } else { $t::MAX }
            }
        }
    )*};
}
sample!(i32, i64, f32, f64);

/// The kind of rectangles in a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Points.
    Points,
    /// Rectangles, a few of them flat.
    Rects,
    /// Very few different rectangles, so that there are duplicates and ties.
    Few,
    /// Rectangles up to the extremes of the type.
    Wide,
}

pub(crate) fn random_rect<C: Sample, const D: usize>(kind: Kind, rng: &mut Rng) -> Rect<C, D> {
    let (span, size) = match kind {
        Kind::Points => (4000, 1),
        Kind::Few => (16, 8),
        Kind::Rects | Kind::Wide => (4000, 300),
    };
    let low: [i32; D] = core::array::from_fn(|_| rng.below(span) as i32 - span as i32 / 2);
    let flat = rng.chance(1, 4).then(|| rng.below(D as u64) as usize);
    let high =
        core::array::from_fn(|axis| low[axis] + if flat == Some(axis) { 0 } else { rng.below(size) as i32 });
    let (mut low, mut high) = (low.map(C::of), high.map(C::of));
    for axis in 0..D {
        if kind == Kind::Wide && rng.chance(1, 3) {
            let is_low = rng.chance(1, 2);
            let side = if is_low { &mut low } else { &mut high };
            side[axis] = C::extreme(is_low);
        }
    }
    Rect::new(low, high).unwrap()
}

/// The entries of a tree as a plain list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Model<C, const D: usize> {
    pub(crate) entries: Vec<(Rect<C, D>, u64)>,
}

fn sorted<C: Coordinate, const D: usize>(mut entries: Vec<(Rect<C, D>, u64)>) -> Vec<(Rect<C, D>, u64)> {
    entries.sort_by(|a, b| a.1.cmp(&b.1).then_with(|| a.0.order(&b.0)));
    entries
}

impl<C: Sample, const D: usize> Model<C, D> {
    pub(crate) fn random(kind: Kind, count: usize, seed: u64) -> Model<C, D> {
        let mut rng = Rng::new(seed);
        let entries = (0..count).map(|n| (random_rect(kind, &mut rng), n as u64 / 2));
        Model { entries: entries.collect() }
    }

    pub(crate) fn sorted(&self) -> Vec<(Rect<C, D>, u64)> {
        sorted(self.entries.clone())
    }

    fn window(&self, query: &Rect<C, D>, relation: Relation) -> Vec<(Rect<C, D>, u64)> {
        let found = self.entries.iter().filter(|(rect, _)| match relation {
            Relation::Intersects => {
                (0..D).all(|i| rect.low()[i] <= query.high()[i] && rect.high()[i] >= query.low()[i])
            }
            Relation::Within => {
                (0..D).all(|i| rect.low()[i] >= query.low()[i] && rect.high()[i] <= query.high()[i])
            }
            Relation::Covers => {
                (0..D).all(|i| rect.low()[i] <= query.low()[i] && rect.high()[i] >= query.high()[i])
            }
        });
        sorted(found.copied().collect())
    }

    fn nearest(&self, point: &[C; D], count: usize) -> Vec<(Rect<C, D>, u64)> {
        let mut all = self.sorted();
        all.sort_by(|a, b| a.0.distance2(point).order(&b.0.distance2(point)));
        all.truncate(count);
        all
    }

    /// Removes one entry, as a tree does.
    pub(crate) fn remove(&mut self, rect: &Rect<C, D>, id: u64) -> bool {
        let found = self.entries.iter().position(|entry| *entry == (*rect, id));
        found.map(|at| self.entries.swap_remove(at)).is_some()
    }
}

pub(crate) fn window<C: Coordinate, const D: usize>(
    tree: &mut dyn SpatialIndex<C, D>,
    query: &Rect<C, D>,
    relation: Relation,
) -> Vec<(Rect<C, D>, u64)> {
    let mut found = Vec::new();
    tree.window(query, relation, &mut |rect, id| {
        found.push((*rect, id));
        ControlFlow::Continue(())
    })
    .unwrap();
    sorted(found)
}

pub(crate) fn everything<C: Sample, const D: usize>() -> Rect<C, D> {
    Rect::new([C::extreme(true); D], [C::extreme(false); D]).unwrap()
}

fn nearest<C: Coordinate, const D: usize>(
    tree: &mut dyn SpatialIndex<C, D>,
    point: &[C; D],
    count: usize,
) -> Vec<(Rect<C, D>, u64)> {
    let mut found = Vec::new();
    tree.nearest(point, count, &mut |rect, id, distance2| {
        assert_eq!(distance2, rect.distance2(point));
        found.push((*rect, id));
        ControlFlow::Continue(())
    })
    .unwrap();
    found
}

/// Makes the same queries to a tree and to the list, and checks the tree.
pub(crate) fn assert_same<C: Sample, const D: usize>(
    tree: &mut dyn SpatialIndex<C, D>,
    model: &Model<C, D>,
    seed: u64,
) {
    let mut rng = Rng::new(seed);
    assert_eq!(window(tree, &everything(), Relation::Intersects), model.sorted());
    let report = tree.check().unwrap();
    assert!(report.is_sound(), "{:?}", report.violations);
    assert_eq!(report.records, model.entries.len() as u64);
    for kind in [Kind::Points, Kind::Rects, Kind::Few, Kind::Wide] {
        let mut queries = Vec::from([random_rect::<C, D>(kind, &mut rng), random_rect(kind, &mut rng)]);
        if !model.entries.is_empty() {
            queries.push(model.entries[rng.below(model.entries.len() as u64) as usize].0);
        }
        for query in queries {
            for relation in [Relation::Intersects, Relation::Within, Relation::Covers] {
                assert_eq!(window(tree, &query, relation), model.window(&query, relation), "{query:?}");
            }
            for count in [0, 1, 2, 7, 40, usize::MAX] {
                let point = query.low();
                assert_eq!(nearest(tree, &point, count), model.nearest(&point, count), "{point:?}");
            }
        }
    }
}

/// Makes waves of insertions and removals, with remounts in between.
pub(crate) fn churn<C: Sample, const D: usize, R: Rules<C, D>>(
    config: &SpatialConfig<R>,
    kind: Kind,
    ops: usize,
    seed: u64,
) {
    let mut tree: Tree<C, D, _, R> = Tree::format(Store::new(1024, 600), config).unwrap();
    let (mut model, mut rng) = (Model::<C, D>::random(kind, 0, 0), Rng::new(seed));
    for i in 0..ops {
        let grows = if (i / 250).is_multiple_of(2) { 5 } else { 1 };
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
        if i % 90 == 0 {
            assert_same(&mut tree, &model, i as u64);
        }
        if i % 200 == 0 {
            tree.close().unwrap();
            tree = Tree::mount(tree.into_store(), config).unwrap();
        }
    }
    while let Some((rect, id)) = model.entries.pop() {
        assert_eq!(tree.remove(&rect, id), Ok(true));
    }
    assert_same(&mut tree, &model, seed);
    assert_eq!((tree.stats().height, tree.stats().live_pages), (1, 2));
}
