//! The policies of eFIND: which nodes are old enough, which of them suit what was written last, which unit is
//! worth most.
//!
//! 1. The nodes that were touched last the longest ago: so many percent of all, as many as a unit has at
//!    least. The policy M takes all.
//! 2. Of these, those *in sequence* with a node written recently (no more than a distance away), or else a
//!    *stride* away from one (at least so far); the larger set, or both together, if there are as many as a
//!    unit has; else all.
//! 3. In the order of their pages they are cut into units; the unit that is worth most is flushed, of equal
//!    ones the first.
//!
//! The worth of a unit is a sum over its nodes: of their modifications (M, MT), times the height with leaves
//! at 1 (MTH), times the share that the area around the buffered entries has of the largest in the buffer
//! (MTHA), times the same share of the overlap among them (MTHAO). Shares are in parts of 65,536, rounded
//! down. A node of which nothing can be measured has the whole.

use crate::spatial::buffered::buffer::{NodeBuffer, Spread, Waiting};
use crate::spatial::buffered::control::TemporalControl;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use nandex::spatial::coordinate::Coordinate;
use nandex::spatial::measure::Measure;
use nandex::spatial::node::NodeId;

/// Measure of the worth of flushing a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Worth {
    /// Number of modifications. All nodes are considered, whatever their age.
    M,
    /// Number of modifications. As in the rest, only old nodes are considered.
    Mt,
    /// Number of modifications times the height of the node.
    Mth,
    /// Number of modifications times height times area.
    Mtha,
    /// Number of modifications times height times area times overlap.
    Mthao,
}

impl Worth {
    /// All measures, the simplest first.
    pub const ALL: [Worth; 5] = [Worth::M, Worth::Mt, Worth::Mth, Worth::Mtha, Worth::Mthao];

    /// The name used in settings and results.
    pub const fn name(self) -> &'static str {
        match self {
            Worth::M => "m",
            Worth::Mt => "mt",
            Worth::Mth => "mth",
            Worth::Mtha => "mtha",
            Worth::Mthao => "mthao",
        }
    }
}

/// The settings of an eFIND policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Efind {
    /// Measure of the worth of flushing a node.
    pub worth: Worth,
    /// Percentage of the buffered nodes that count as old.
    pub oldest_percent: u8,
    /// Largest distance in pages of two nodes in sequence.
    pub sequence_distance: u32,
    /// Least distance in pages of two nodes a stride apart.
    pub stride_distance: u32,
}

impl Efind {
    /// Our defaults for this measure. The values of the publications are not known to us.
    pub const fn new(worth: Worth) -> Efind {
        Efind { worth, oldest_percent: 60, sequence_distance: 1, stride_distance: 8 }
    }

    /// Chooses the unit to flush. The nodes are looked through several times instead of being listed,
    /// because the buffer has all the RAM.
    pub(super) fn choose<C: Coordinate, const D: usize>(
        &self,
        buffer: &mut NodeBuffer<C, D>,
        unit_nodes: usize,
        control: &TemporalControl,
    ) -> Vec<NodeId> {
        if self.worth >= Worth::Mtha {
            buffer.measure_spreads();
        }
        let nodes = buffer.nodes();
        let youngest = self.youngest_of_old(nodes, unit_nodes);
        let old = || nodes.iter().filter(|(id, waiting)| (waiting.touched, **id) <= youngest);
        let wanted = self.wanted(old().map(|(id, _)| *id), unit_nodes, control);
        let greatest = |part: fn(&Spread<C::Measure>) -> Option<C::Measure>| {
            nodes.values().filter_map(|waiting| part(&waiting.spread())).max_by(|a, b| a.order(b))
        };
        let greatest = match self.worth {
            Worth::Mtha | Worth::Mthao => (greatest(|spread| spread.0), greatest(|spread| spread.1)),
            _ => (None, None),
        };
        let mut candidates = old().filter(|(id, _)| wanted.has(self.fit(**id, control))).peekable();
        let (mut best, mut best_worth) = (Vec::new(), 0);
        let mut unit = Vec::new();
        while candidates.peek().is_some() {
            let mut worth: u128 = 0;
            unit.clear();
            for (id, waiting) in candidates.by_ref().take(unit_nodes) {
                worth = worth.saturating_add(self.worth(waiting, greatest));
                unit.push(*id);
            }
            if worth > best_worth || best.is_empty() {
                best_worth = worth;
                core::mem::swap(&mut best, &mut unit);
            }
        }
        best
    }

    /// Step 1: the last touch of the youngest old node, and the node.
    fn youngest_of_old<M>(&self, nodes: &BTreeMap<NodeId, Waiting<M>>, unit_nodes: usize) -> (u64, NodeId) {
        let old = (nodes.len() * usize::from(self.oldest_percent)).div_ceil(100).max(unit_nodes);
        if self.worth == Worth::M || old >= nodes.len() {
            return (u64::MAX, NodeId(u32::MAX));
        }
        let touched_to = |most: u64| nodes.values().filter(|waiting| waiting.touched <= most).count();
        let (mut low, mut high) = (0, nodes.values().map(|waiting| waiting.touched).max().unwrap_or(0));
        while low < high {
            let middle = low.midpoint(high);
            if touched_to(middle) < old { low = middle + 1 } else { high = middle }
        }
        let before = if low == 0 { 0 } else { touched_to(low - 1) };
        let mut then = nodes.iter().filter(|(_, waiting)| waiting.touched == low).map(|(id, _)| *id);
        (low, then.nth(old - before - 1).unwrap_or(NodeId(u32::MAX)))
    }

    /// Step 2: the set of old nodes to choose from.
    fn wanted(
        &self,
        old: impl Iterator<Item = NodeId>,
        unit_nodes: usize,
        control: &TemporalControl,
    ) -> Wanted {
        let (mut sequence, mut stride) = (0, 0);
        for id in old {
            match self.fit(id, control) {
                Fit::Sequence => sequence += 1,
                Fit::Stride => stride += 1,
                Fit::Neither => {}
            }
        }
        if sequence > stride && sequence >= unit_nodes {
            Wanted::Sequence
        } else if stride >= unit_nodes {
            Wanted::Stride
        } else if sequence + stride >= unit_nodes {
            Wanted::Either
        } else {
            Wanted::All
        }
    }

    fn fit(&self, id: NodeId, control: &TemporalControl) -> Fit {
        let distances = || control.written().filter(|other| *other != id).map(|other| other.0.abs_diff(id.0));
        if distances().any(|distance| distance <= self.sequence_distance) {
            Fit::Sequence
        } else if distances().any(|distance| distance >= self.stride_distance) {
            Fit::Stride
        } else {
            Fit::Neither
        }
    }

    /// The worth of a node. `area_max` and `overlap_max` are the largest in the buffer.
    fn worth<M: Measure>(&self, waiting: &Waiting<M>, (area_max, overlap_max): Spread<M>) -> u128 {
        let mut worth = u128::from(waiting.modifications);
        if self.worth >= Worth::Mth {
            worth *= u128::from(waiting.level);
        }
        let (area, overlap) = waiting.spread();
        if self.worth >= Worth::Mtha {
            worth *= share(area, area_max);
        }
        if self.worth >= Worth::Mthao {
            worth *= share(overlap, overlap_max);
        }
        worth
    }
}

/// The position of a node relative to the nodes written last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    Sequence,
    Stride,
    Neither,
}

/// The set of old nodes to choose from.
#[derive(Clone, Copy)]
enum Wanted {
    Sequence,
    Stride,
    Either,
    All,
}

impl Wanted {
    fn has(self, fit: Fit) -> bool {
        match self {
            Wanted::Sequence => fit == Fit::Sequence,
            Wanted::Stride => fit == Fit::Stride,
            Wanted::Either => fit != Fit::Neither,
            Wanted::All => true,
        }
    }
}

const SHARE_BITS: u32 = 16;

/// The share of `part` in `whole`, in parts of 65,536. It is the full share if either was not measured.
fn share<M: Measure>(part: Option<M>, whole: Option<M>) -> u128 {
    let all = 1 << SHARE_BITS;
    let (Some(mut rest), Some(whole)) = (part, whole) else { return all };
    if !M::ZERO.is_below(&whole) || !rest.is_below(&whole) {
        return all;
    }
    // Long division, one bit at a time: the rest stays below the whole.
    let mut share = 0;
    for _ in 0..SHARE_BITS {
        (rest, share) = (rest.plus(rest), share << 1);
        if !rest.is_below(&whole) {
            (rest, share) = (rest.minus(whole), share | 1);
        }
    }
    share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_parts_of_the_whole() {
        assert_eq!(share(Some(1i128), Some(2)), 32_768);
        assert_eq!(share(Some(1i128), Some(3)), 21_845);
        assert_eq!(share(Some(0i128), Some(3)), 0);
        assert_eq!(
            [share(Some(3i128), Some(3)), share(None, Some(3i128)), share(Some(0i128), Some(0))],
            [65_536; 3]
        );
        assert_eq!(share(Some(0.25), Some(1.0)), 16_384);
    }
}
