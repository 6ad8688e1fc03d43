//! The R*-tree: an R-tree that looks at overlaps and margins, and inserts the outermost entries of a full
//! node again.
//!
//! N. Beckmann, H.-P. Kriegel, R. Schneider, B. Seeger, "The R*-tree: an efficient and robust access method
//! for points and rectangles", SIGMOD 1990.
//!
//! - *choose subtree*: above the leaves the child whose overlap with its neighbours grows least (of the 32
//!   whose boxes grow least), then whose box grows least, then the smallest; higher up the child whose box
//!   grows least, then the smallest.
//! - *split*: along the axis where the margins of all distributions add up to least; of these the
//!   distribution with the least overlap, then the least area.
//! - *forced reinsertion*: a node that overflows for the first time in its level during an insertion hands
//!   over the 30 % of its entries whose centres are farthest from its own, and they are inserted again, the
//!   nearest first. The root never.
//!
//! Deviation: where reinsertion would change more nodes than the store takes atomically, the node is split at
//! once.

use alloc::vec::Vec;
use core::cmp::Ordering;
use nandex::sort;
use nandex::spatial::coordinate::Coordinate;
use nandex::spatial::geometry::{Rect, distance2};
use nandex::spatial::measure::Measure;
use nandex::spatial::node::{Entry, Node, OPTION_BYTES};
use nandex::spatial::paged::PagedNodes;
use nandex::spatial::r_tree::least_enlargement;
use nandex::spatial::tree::update::{Grouped, Grouping, Groups};
use nandex::spatial::tree::{SpatialConfig, Tree, by_measure};

/// Largest percentage of entries that may be inserted again: the rest must still fill the node to its
/// least.
pub const REINSERTED_PERCENT_MAX: u8 = 45;

/// The order in which entries are inserted again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reinsertion {
    /// The entry nearest to the node's centre first.
    Close,
    /// The entry farthest from the node's centre first.
    Far,
}

/// The rules of the R*-tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RStarRules {
    /// Number of children compared by overlap. 0 means none.
    pub overlap_candidates: u16,
    /// Percentage of a full node's entries that are inserted again, at most [`REINSERTED_PERCENT_MAX`]. 0
    /// means none.
    pub reinserted_percent: u8,
    /// Order in which entries are inserted again.
    pub order: Reinsertion,
}

impl RStarRules {
    /// The published rules: 32 candidates, 30 % of the entries inserted again, the nearest first.
    pub const PUBLISHED: RStarRules =
        RStarRules { overlap_candidates: 32, reinserted_percent: 30, order: Reinsertion::Close };
}

/// The published rules in the form that [`Tree`] takes.
pub type Published = Grouped<RStarRules>;

/// An R*-tree whose nodes are pages.
pub type RStarTree<S, C, const D: usize> = Tree<C, D, PagedNodes<S, C, D>, Published>;

/// The default settings: the published rules, nodes that fill a page and are at least 40 % full, and every
/// operation durable.
pub fn config() -> SpatialConfig<Published> {
    SpatialConfig::new(Grouped(RStarRules::PUBLISHED))
}

impl<C: Coordinate, const D: usize> Grouping<C, D> for RStarRules {
    const KIND: [u8; 8] = *b"R*-tree ";

    fn put_options(&self, options: &mut [u8; OPTION_BYTES]) {
        options[..2].copy_from_slice(&self.overlap_candidates.to_le_bytes());
        options[2] = self.reinserted_percent;
        options[3] = self.order as u8;
    }

    fn of_options(options: &[u8; OPTION_BYTES]) -> Option<RStarRules> {
        let order = match options[3] {
            0 => Reinsertion::Close,
            1 => Reinsertion::Far,
            _ => return None,
        };
        let overlap_candidates = u16::from_le_bytes([options[0], options[1]]);
        let rules = RStarRules { overlap_candidates, reinserted_percent: options[2], order };
        (rules.reinserted_percent <= REINSERTED_PERCENT_MAX).then_some(rules)
    }

    fn choose(&self, node: &Node<C, D>, rect: &Rect<C, D>) -> usize {
        if node.level == 2 && self.overlap_candidates > 0 {
            least_overlap(node, rect, usize::from(self.overlap_candidates))
        } else {
            least_enlargement(node, rect)
        }
    }

    fn split(&self, entries: Vec<Entry<C, D>>, least: usize) -> Groups<C, D> {
        let axis =
            (0..D).min_by(|a, b| by_measure(&margins(&entries, *a, least), &margins(&entries, *b, least)));
        let axis = axis.unwrap_or(0);
        let sorts = [Side::Low, Side::High].map(|side| sorted(&entries, axis, side));
        let costs = sorts.iter().enumerate().flat_map(|(sort, entries)| {
            distributions(entries, least)
                .map(move |(count, a, b)| (a.overlap(&b), a.area().plus(b.area()), sort, count))
        });
        let best = costs.min_by(|a, b| by_measure(&a.0, &b.0).then_with(|| by_measure(&a.1, &b.1)));
        let (sort, count) = best.map_or((0, least), |(_, _, sort, count)| (sort, count));
        let [by_low, by_high] = sorts;
        let mut left = if sort == 0 { by_low } else { by_high };
        let right = left.split_off(count);
        (left, right)
    }

    fn reinserted(&self, capacity: usize) -> usize {
        let share = capacity * usize::from(self.reinserted_percent) / 100;
        if self.reinserted_percent == 0 { 0 } else { share.max(1) }
    }

    fn part_with(&self, entries: Vec<Entry<C, D>>, count: usize) -> Groups<C, D> {
        let Some(all) = Rect::around(entries.iter().map(|entry| &entry.rect)) else {
            return (entries, Vec::new());
        };
        let centre = all.centre();
        let mut order: Vec<(usize, C::Measure)> =
            entries.iter().map(|entry| distance2(&entry.rect.centre(), &centre)).enumerate().collect();
        sort::by(&mut order, |a, b| by_measure(&a.1, &b.1));
        let away = &order[entries.len() - count..];
        let mut away: Vec<usize> = away.iter().map(|(at, _)| *at).collect();
        if self.order == Reinsertion::Far {
            away.reverse();
        }
        let stay = entries.iter().enumerate().filter(|(at, _)| !away.contains(at));
        (stay.map(|(_, entry)| *entry).collect(), away.iter().map(|&at| entries[at]).collect())
    }
}

/// The child whose overlap with the others grows least, among the `candidates` whose boxes grow least.
fn least_overlap<C: Coordinate, const D: usize>(
    node: &Node<C, D>,
    rect: &Rect<C, D>,
    candidates: usize,
) -> usize {
    let entries = &node.entries;
    // A child that covers the rectangle grows in nothing.
    let covering = entries.iter().enumerate().filter(|(_, entry)| entry.rect.contains(rect));
    let smallest = covering.min_by(|(_, a), (_, b)| by_measure(&a.rect.area(), &b.rect.area()));
    if let Some((slot, _)) = smallest {
        return slot;
    }
    let mut growth: Vec<(C::Measure, C::Measure, usize)> = entries
        .iter()
        .enumerate()
        .map(|(slot, entry)| (entry.rect.enlargement(rect), entry.rect.area(), slot))
        .collect();
    let by_growth = |a: &(C::Measure, C::Measure, usize), b: &(C::Measure, C::Measure, usize)| -> Ordering {
        by_measure(&a.0, &b.0).then_with(|| by_measure(&a.1, &b.1)).then_with(|| a.2.cmp(&b.2))
    };
    sort::unstable_by(&mut growth, by_growth);
    growth.truncate(candidates);
    let overlap_growth = |slot: usize| {
        let (before, after) = (entries[slot].rect, entries[slot].rect.union(rect));
        let others = entries.iter().enumerate().filter(|(other, _)| *other != slot);
        others.fold(C::Measure::ZERO, |sum, (_, other)| {
            sum.plus(after.overlap(&other.rect).minus(before.overlap(&other.rect)))
        })
    };
    // Of equals the first, which grows less.
    let costs = growth.iter().map(|(_, _, slot)| (overlap_growth(*slot), *slot));
    costs.min_by(|a, b| by_measure(&a.0, &b.0)).map_or(0, |(_, slot)| slot)
}

#[derive(Clone, Copy)]
enum Side {
    Low,
    High,
}

fn sorted<C: Coordinate, const D: usize>(
    entries: &[Entry<C, D>],
    axis: usize,
    side: Side,
) -> Vec<Entry<C, D>> {
    let mut sorted = entries.to_vec();
    sort::by(&mut sorted, |a, b| {
        let low = a.rect.low()[axis].order(&b.rect.low()[axis]);
        let high = a.rect.high()[axis].order(&b.rect.high()[axis]);
        match side {
            Side::Low => low.then(high),
            Side::High => high.then(low),
        }
    });
    sorted
}

/// All ways to divide sorted entries in two with at least `least` on each side: the number in the first
/// part, and the boxes of both.
fn distributions<C: Coordinate, const D: usize>(
    entries: &[Entry<C, D>],
    least: usize,
) -> impl Iterator<Item = (usize, Rect<C, D>, Rect<C, D>)> {
    let boxes = |rects: &mut dyn Iterator<Item = Rect<C, D>>| -> Vec<Rect<C, D>> {
        let mut all: Option<Rect<C, D>> = None;
        rects.map(|rect| *all.insert(all.map_or(rect, |all| all.union(&rect)))).collect()
    };
    let first = boxes(&mut entries.iter().map(|entry| entry.rect));
    let last = boxes(&mut entries.iter().rev().map(|entry| entry.rect));
    let count = entries.len();
    (least..=count - least).map(move |cut| (cut, first[cut - 1], last[count - cut - 1]))
}

/// Sum of the margins of all distributions along an axis.
fn margins<C: Coordinate, const D: usize>(entries: &[Entry<C, D>], axis: usize, least: usize) -> C::Measure {
    [Side::Low, Side::High].into_iter().fold(C::Measure::ZERO, |sum, side| {
        let entries = sorted(entries, axis, side);
        distributions(&entries, least).fold(sum, |sum, (_, a, b)| sum.plus(a.margin()).plus(b.margin()))
    })
}
