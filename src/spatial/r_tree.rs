//! The R-tree with the linear or the quadratic split.
//!
//! A. Guttman, "R-trees: a dynamic index structure for spatial searching", SIGMOD 1984.
//!
//! - ChooseLeaf takes the child whose box grows least, among equals the smallest, among equals the first.
//! - The quadratic split starts its groups with the two entries that would waste most area together. Then it
//!   repeatedly takes the entry that prefers one group most.
//! - The linear split starts its groups with the two entries that lie farthest apart along some axis. Then it
//!   takes the entries in their order.

use super::coordinate::Coordinate;
use super::geometry::Rect;
use super::measure::Measure;
pub use super::named::RTree;
use super::node::{Entry, Node, OPTION_BYTES};
use super::tree::update::{Grouped, Grouping, Groups};
use super::tree::{SpatialConfig, by_measure};
use alloc::vec;
use alloc::vec::Vec;

/// Method to divide a full node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub enum Split {
    /// Linear split: one pass over the entries.
    Linear,
    /// Quadratic split: all pairs are compared.
    Quadratic,
}

/// Rules of the R-tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), doc(hidden))]
pub struct Guttman {
    /// Method to divide a full node.
    pub split: Split,
}

/// Full pages, 40 % full at least, every operation durable.
pub fn config(split: Split) -> SpatialConfig<Grouped<Guttman>> {
    SpatialConfig::new(Grouped(Guttman { split }))
}

impl<C: Coordinate, const D: usize> Grouping<C, D> for Guttman {
    const KIND: [u8; 8] = *b"R-tree  ";

    fn put_options(&self, options: &mut [u8; OPTION_BYTES]) {
        options[0] = self.split as u8;
    }

    fn of_options(options: &[u8; OPTION_BYTES]) -> Option<Guttman> {
        let split = match options[0] {
            0 => Split::Linear,
            1 => Split::Quadratic,
            _ => return None,
        };
        Some(Guttman { split })
    }

    fn choose(&self, node: &Node<C, D>, rect: &Rect<C, D>) -> usize {
        least_enlargement(node, rect)
    }

    fn split(&self, entries: Vec<Entry<C, D>>, least: usize) -> Groups<C, D> {
        match self.split {
            Split::Linear => {
                let seeds = linear_seeds(&entries);
                share_out(entries, seeds, least, |rest, _| rest.len() - 1)
            }
            Split::Quadratic => {
                let seeds = quadratic_seeds(&entries);
                share_out(entries, seeds, least, most_decided)
            }
        }
    }
}

/// Returns the entry whose box grows least to take in `rect`; among equals the smallest, among equals the
/// first.
#[doc(hidden)]
#[cfg_attr(not(feature = "unstable"), doc(hidden))]
pub fn least_enlargement<C: Coordinate, const D: usize>(node: &Node<C, D>, rect: &Rect<C, D>) -> usize {
    let cost = |entry: &Entry<C, D>| {
        let area = entry.rect.area();
        (entry.rect.union(rect).area().minus(area), area)
    };
    let costs = node.entries.iter().map(cost).enumerate();
    let best = costs.min_by(|(_, a), (_, b)| by_measure(&a.0, &b.0).then_with(|| by_measure(&a.1, &b.1)));
    best.map_or(0, |(slot, _)| slot)
}

struct Group<C, const D: usize> {
    rect: Rect<C, D>,
    entries: Vec<Entry<C, D>>,
}

impl<C: Coordinate, const D: usize> Group<C, D> {
    fn take(&mut self, entry: Entry<C, D>) {
        self.rect = self.rect.union(&entry.rect);
        self.entries.push(entry);
    }
}

/// Divides the entries into two groups, which begin with the seeds. `pick` chooses the next of the remaining
/// entries.
fn share_out<C: Coordinate, const D: usize>(
    mut rest: Vec<Entry<C, D>>,
    (first, second): (usize, usize),
    least: usize,
    pick: impl Fn(&[Entry<C, D>], [&Rect<C, D>; 2]) -> usize,
) -> Groups<C, D> {
    // The later seed is removed first, so that the place of the earlier one stays right. The rest is
    // reversed, since entries are taken from its end.
    let (low, high) = (first.min(second), first.max(second));
    let (b, a) = (rest.remove(high), rest.remove(low));
    rest.reverse();
    let seeds = if first < second { [a, b] } else { [b, a] };
    let mut groups = seeds.map(|seed| Group { rect: seed.rect, entries: vec![seed] });
    while !rest.is_empty() {
        let short = groups.iter().position(|group| group.entries.len() + rest.len() <= least);
        if let Some(short) = short {
            rest.drain(..).rev().for_each(|entry| groups[short].take(entry));
            break;
        }
        let next = pick(&rest, [&groups[0].rect, &groups[1].rect]);
        let entry = rest.remove(next);
        let to = preferred(&groups, &entry.rect);
        groups[to].take(entry);
    }
    let [a, b] = groups;
    (a.entries, b.entries)
}

/// Returns the group whose box grows less; among equals the one with the smaller box, then the one with fewer
/// entries, then the first.
fn preferred<C: Coordinate, const D: usize>(groups: &[Group<C, D>; 2], rect: &Rect<C, D>) -> usize {
    let [a, b] = groups;
    let order = by_measure(&a.rect.enlargement(rect), &b.rect.enlargement(rect))
        .then_with(|| by_measure(&a.rect.area(), &b.rect.area()))
        .then_with(|| a.entries.len().cmp(&b.entries.len()));
    usize::from(order.is_gt())
}

/// Returns the entry for which the growth of the two boxes differs most; among equals the first in the node.
fn most_decided<C: Coordinate, const D: usize>(rest: &[Entry<C, D>], rects: [&Rect<C, D>; 2]) -> usize {
    let difference = |entry: &Entry<C, D>| {
        let [a, b] = rects.map(|rect| rect.enlargement(&entry.rect));
        if a.is_below(&b) { b.minus(a) } else { a.minus(b) }
    };
    // The rest is reversed, so the last maximum is the first in the node.
    let greatest = rest.iter().map(difference).enumerate().max_by(|(_, a), (_, b)| by_measure(a, b));
    greatest.map_or(0, |(at, _)| at)
}

/// Returns the pair that wastes most area in one group; among equals the first.
fn quadratic_seeds<C: Coordinate, const D: usize>(entries: &[Entry<C, D>]) -> (usize, usize) {
    let areas: Vec<C::Measure> = entries.iter().map(|entry| entry.rect.area()).collect();
    let (mut seeds, mut most) = ((0, 1), None);
    for first in 0..entries.len() {
        for second in first + 1..entries.len() {
            let together = entries[first].rect.union(&entries[second].rect).area();
            let waste = together.minus(areas[first]).minus(areas[second]);
            if most.is_none_or(|most: C::Measure| most.is_below(&waste)) {
                (seeds, most) = ((first, second), Some(waste));
            }
        }
    }
    seeds
}

/// Returns the entry with the highest lower side and the one with the lowest upper side, along the axis where
/// they lie farthest apart in proportion to the extent of all entries; among equals the first axis.
fn linear_seeds<C: Coordinate, const D: usize>(entries: &[Entry<C, D>]) -> (usize, usize) {
    let Some(all) = Rect::around(entries.iter().map(|entry| &entry.rect)) else { return (0, 1) };
    let (mut seeds, mut best) = ((0, 1), None);
    for axis in 0..D {
        let lows = entries.iter().map(|entry| entry.rect.low()[axis]).enumerate();
        let Some((highest_low, from)) = lows.reduce(|a, b| if b.1 > a.1 { b } else { a }) else { continue };
        let highs = entries.iter().map(|entry| entry.rect.high()[axis]).enumerate();
        let others = highs.filter(|(at, _)| *at != highest_low);
        let Some((lowest_high, to)) = others.reduce(|a, b| if b.1 < a.1 { b } else { a }) else { continue };
        let apart = if from > to { from.above(to) } else { C::Measure::ZERO.minus(to.above(from)) };
        let extent = all.extent(axis);
        if extent == C::Measure::ZERO {
            continue;
        }
        // Compares apart / extent without a division.
        let is_better = best.is_none_or(|(most, width): (C::Measure, C::Measure)| {
            most.times(extent).is_below(&apart.times(width))
        });
        if is_better {
            (seeds, best) = ((lowest_high, highest_low), Some((apart, extent)));
        }
    }
    seeds
}
