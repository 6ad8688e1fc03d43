//! Queries over any tree whose nodes are [`Nodes`]: window, nearest, and the regions of all nodes.
//!
//! A query reads a node once. It holds one node, the numbers of the nodes still to visit and, for nearest,
//! the best entries so far. Nodes may mix data and child entries.

use super::region;
use crate::check::IndexError;
use crate::nand::Cause;
use crate::spatial::coordinate::Coordinate;
use crate::spatial::geometry::Rect;
use crate::spatial::measure::Measure;
use crate::spatial::node::{NodeId, Pointer, ROOT};
use crate::spatial::nodes::{Nodes, read_child, read_root};
use crate::spatial::{Relation, VisitNearest, VisitRect, VisitRegion};
use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::{Ordering, Reverse};

/// Node to visit and the level of its parent; no level for the root.
type Open = (NodeId, Option<u8>);

macro_rules! read {
    ($nodes:expr, $open:expr, $cause:expr) => {
        match $open {
            (_, None) => read_root($nodes, $cause)?,
            (id, Some(above)) => read_child($nodes, id, above, $cause)?,
        }
    };
}

/// Visits every entry that stands in `relation` to the window `query`.
pub fn window<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    nodes: &mut N,
    query: &Rect<C, D>,
    relation: Relation,
    visit: VisitRect<'_, C, D>,
) -> Result<(), IndexError> {
    let mut open: Vec<Open> = vec![(ROOT, None)];
    while let Some(next) = open.pop() {
        let node = read!(nodes, next, Cause::Host);
        for entry in &node.entries {
            match entry.pointer {
                Pointer::Child(child) if relation.may_hold_below(&entry.rect, query) => {
                    open.push((child, Some(node.level)));
                }
                Pointer::Data(id)
                    if relation.holds(&entry.rect, query) && visit(&entry.rect, id).is_break() =>
                {
                    return Ok(());
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// A node or object at a distance. Ordered by distance, and at equal distances by `what`.
struct At<M, T> {
    distance2: M,
    what: T,
}

impl<M: Measure, T: Ord> PartialEq for At<M, T> {
    fn eq(&self, other: &At<M, T>) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<M: Measure, T: Ord> Eq for At<M, T> {}

impl<M: Measure, T: Ord> PartialOrd for At<M, T> {
    fn partial_cmp(&self, other: &At<M, T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<M: Measure, T: Ord> Ord for At<M, T> {
    fn cmp(&self, other: &At<M, T>) -> Ordering {
        self.distance2.order(&other.distance2).then_with(|| self.what.cmp(&other.what))
    }
}

/// An object. Compares by identifier, then by rectangle.
struct Object<C, const D: usize> {
    id: u64,
    rect: Rect<C, D>,
}

impl<C: Coordinate, const D: usize> PartialEq for Object<C, D> {
    fn eq(&self, other: &Object<C, D>) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<C: Coordinate, const D: usize> Eq for Object<C, D> {}

impl<C: Coordinate, const D: usize> PartialOrd for Object<C, D> {
    fn partial_cmp(&self, other: &Object<C, D>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<C: Coordinate, const D: usize> Ord for Object<C, D> {
    fn cmp(&self, other: &Object<C, D>) -> Ordering {
        self.id.cmp(&other.id).then_with(|| self.rect.order(&other.rect))
    }
}

/// The best entries so far; the worst of them is on top.
type Best<C, const D: usize> = BinaryHeap<At<<C as Coordinate>::Measure, Object<C, D>>>;

/// Returns true if nothing at this distance can be among the best.
fn is_beyond<C: Coordinate, const D: usize>(best: &Best<C, D>, count: usize, distance2: &C::Measure) -> bool {
    best.len() == count && best.peek().is_some_and(|last| last.distance2.is_below(distance2))
}

/// Visits the entries nearest to a point, nearest first. Entries at the same distance are ordered by
/// identifier, then by corners.
///
/// Best first (Hjaltason and Samet 1999): of all known nodes the nearest one is read next, until none is
/// nearer than the last entry wanted. So no node is read whose box is farther away than this entry.
pub fn nearest<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    nodes: &mut N,
    point: &[C; D],
    count: usize,
    visit: VisitNearest<'_, C, D>,
) -> Result<(), IndexError> {
    let mut open: BinaryHeap<Reverse<At<C::Measure, Open>>> = BinaryHeap::new();
    let mut best: Best<C, D> = BinaryHeap::new();
    if count > 0 {
        open.push(Reverse(At { distance2: C::Measure::ZERO, what: (ROOT, None) }));
    }
    while let Some(Reverse(next)) = open.pop() {
        if is_beyond(&best, count, &next.distance2) {
            break;
        }
        let node = read!(nodes, next.what, Cause::Host);
        for entry in &node.entries {
            let distance2 = entry.rect.distance2(point);
            if is_beyond(&best, count, &distance2) {
                continue;
            }
            match entry.pointer {
                Pointer::Child(child) => {
                    open.push(Reverse(At { distance2, what: (child, Some(node.level)) }));
                }
                Pointer::Data(id) => {
                    best.push(At { distance2, what: Object { id, rect: entry.rect } });
                    if best.len() > count {
                        best.pop();
                    }
                }
            }
        }
    }
    for At { distance2, what } in best.into_sorted_vec() {
        if visit(&what.rect, what.id, distance2).is_break() {
            break;
        }
    }
    Ok(())
}

/// Visits every node that has entries, the root first. The walk is neither counted nor timed.
pub fn regions<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    nodes: &mut N,
    visit: VisitRegion<'_, C, D>,
) -> Result<(), IndexError> {
    let mut open: Vec<Open> = vec![(ROOT, None)];
    while let Some(next) = open.pop() {
        let node = read!(nodes, next, Cause::Check);
        let children = node.entries.iter().rev().filter_map(|entry| entry.child_id());
        open.extend(children.map(|child| (child, Some(node.level))));
        if region(next.0, node).is_some_and(|region| visit(&region).is_break()) {
            return Ok(());
        }
    }
    Ok(())
}
