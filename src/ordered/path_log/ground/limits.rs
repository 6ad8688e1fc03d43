//! Number of leaves and records that the height of a tree allows, whatever the chip.
//!
//! A tree of the greatest height is full once a full root has a full child on the path of a new key. Random
//! keys fill nodes to ln 2 of their capacity on average, and nodes just split to a half. Simulated trees of
//! two to six levels, with nodes of 2 to 25 entries, had 1.2 to 2 times the leaves then that they have if
//! each inner node is two thirds full.

use super::Shapes;

/// Entries of an inner node of this capacity, as random keys fill it before a tree is full.
fn usual(capacity: usize) -> usize {
    (2 * capacity / 3).max(capacity.div_ceil(2))
}

/// Leaves of a tree of this height, if the root is full and each other inner node holds as many entries as
/// `filled` makes of its capacity.
fn leaves<S: Shapes>(scheme: &S, layout: u8, height: u8, filled: impl Fn(usize) -> usize) -> u64 {
    let root = if height > 1 { scheme.root_entries_max(layout, height) as u64 } else { 1 };
    let inner = (2..height).map(|level| filled(scheme.shape(layout, level, height).capacity) as u64);
    inner.fold(root, u64::saturating_mul)
}

/// Leaves that random keys make before the tree would have to be higher than it can be. If pages have several
/// layouts, the one with the largest inner nodes counts: a higher tree takes it.
pub(super) fn usual_leaves<S: Shapes>(scheme: &S) -> u64 {
    let of = |layout| leaves(scheme, layout, scheme.height_max(layout), usual);
    (0..scheme.layouts()).map(of).max().unwrap_or(0)
}

/// Most records of a tree of full nodes, if one of a height has at most `leaves_max` leaves.
pub(super) fn records_max<S: Shapes>(scheme: &S, leaves_max: impl Fn(u8) -> u64) -> u64 {
    let records = |layout: u8, height: u8| {
        let leaf = scheme.shape(layout, 1, height.max(2)).capacity as u64;
        leaves(scheme, layout, height, |capacity| capacity).min(leaves_max(height)).saturating_mul(leaf)
    };
    let of = |layout: u8| (1..=scheme.height_max(layout)).map(move |height| records(layout, height)).max();
    (0..scheme.layouts()).filter_map(of).max().unwrap_or(0)
}
