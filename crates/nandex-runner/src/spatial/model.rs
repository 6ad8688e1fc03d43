//! The model of a spatial index, and its answers by looking at every entry: as independent of any tree as
//! can be.

use nandex::spatial::{Coordinate, Measure, Rect, Relation};
use std::cmp::Ordering;

/// The entries that answer a query, as rectangle and number.
pub type Answer<C, const D: usize> = Vec<(Rect<C, D>, u64)>;

/// The square of an entry's distance from a point, and the entry.
type Distant<C, const D: usize> = (<C as Coordinate>::Measure, (Rect<C, D>, u64));

/// The set of present entries among those of a table.
pub(super) struct SpatialModel<'a, C, const D: usize> {
    entries: &'a [(Rect<C, D>, u64)],
    present: Vec<bool>,
    records: u64,
}

impl<'a, C: Coordinate, const D: usize> SpatialModel<'a, C, D> {
    /// Makes a model without any present entries.
    pub(super) fn new(entries: &'a [(Rect<C, D>, u64)]) -> SpatialModel<'a, C, D> {
        SpatialModel { entries, present: vec![false; entries.len()], records: 0 }
    }

    pub(super) fn records(&self) -> u64 {
        self.records
    }

    pub(super) fn entry(&self, at: u32) -> &'a (Rect<C, D>, u64) {
        &self.entries[at as usize]
    }

    pub(super) fn contains(&self, at: u32) -> bool {
        self.present[at as usize]
    }

    pub(super) fn set(&mut self, at: u32, is_present: bool) {
        let before = std::mem::replace(&mut self.present[at as usize], is_present);
        self.records = self.records + u64::from(is_present) - u64::from(before);
    }

    fn all(&self) -> impl Iterator<Item = &'a (Rect<C, D>, u64)> {
        self.entries.iter().zip(&self.present).filter(|(_, present)| **present).map(|(entry, _)| entry)
    }

    /// The entries that a window query finds, in the order of [`in_order`].
    pub(super) fn window(&self, window: &Rect<C, D>, relation: Relation) -> Answer<C, D> {
        in_order(self.all().filter(|(rect, _)| relation.holds(rect, window)).copied().collect())
    }

    /// The entries nearest to a point, nearest first. Equally near entries come by number and then by
    /// corners.
    pub(super) fn nearest(&self, point: &[C; D], count: usize) -> Answer<C, D> {
        let mut all: Vec<Distant<C, D>> =
            self.all().map(|entry| (entry.0.distance2(point), *entry)).collect();
        let by_distance = |a: &Distant<C, D>, b: &Distant<C, D>| {
            let nearer = if a.0.is_below(&b.0) {
                Ordering::Less
            } else if b.0.is_below(&a.0) {
                Ordering::Greater
            } else {
                Ordering::Equal
            };
            nearer.then_with(|| a.1.1.cmp(&b.1.1)).then_with(|| a.1.0.order(&b.1.0))
        };
        if count < all.len() {
            all.select_nth_unstable_by(count, by_distance);
            all.truncate(count);
        }
        all.sort_by(by_distance);
        all.into_iter().map(|(_, entry)| entry).collect()
    }
}

/// Sorts an answer without defined order by number and corners, so that two answers can be compared.
pub(super) fn in_order<C: Coordinate, const D: usize>(mut answer: Answer<C, D>) -> Answer<C, D> {
    answer.sort_by(|a, b| a.1.cmp(&b.1).then_with(|| a.0.order(&b.0)));
    answer
}
