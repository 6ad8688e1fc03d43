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

use crate::sort;
use crate::spatial::buffered::buffer::{NodeBuffer, Spread};
use crate::spatial::buffered::control::TemporalControl;
use crate::spatial::coordinate::Coordinate;
use crate::spatial::measure::Measure;
use crate::spatial::node::NodeId;
use alloc::vec::Vec;

/// The measure of the worth of a node to be flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Worth {
    /// The number of the node's modifications, whatever its age.
    M,
    /// The number of the node's modifications.
    Mt,
    /// The number of the node's modifications, and its height.
    Mth,
    /// The number of the node's modifications, its height and area.
    Mtha,
    /// The number of the node's modifications, its height, area and overlap.
    Mthao,
}

impl Worth {
    /// All, the simplest first.
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

/// The settings of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Efind {
    /// The measure of the worth of a node.
    pub worth: Worth,
    /// How many of the nodes count as old, in percent.
    pub oldest_percent: u8,
    /// Pages that two nodes in sequence are apart at most.
    pub sequence_distance: u32,
    /// Pages that two nodes a stride apart are apart at least.
    pub stride_distance: u32,
}

impl Efind {
    /// The defaults; those of the publications are not known.
    pub const fn new(worth: Worth) -> Efind {
        Efind { worth, oldest_percent: 60, sequence_distance: 1, stride_distance: 8 }
    }

    pub(super) fn choose<C: Coordinate, const D: usize>(
        &self,
        buffer: &mut NodeBuffer<C, D>,
        unit_nodes: usize,
        control: &TemporalControl,
    ) -> Vec<NodeId> {
        let mut candidates = self.filter(self.oldest(buffer, unit_nodes), unit_nodes, control);
        sort::total(&mut candidates);
        let worths = self.worths(buffer, &candidates);
        let mut best: (u128, &[NodeId]) = (0, &[]);
        for (unit, worths) in candidates.chunks(unit_nodes).zip(worths.chunks(unit_nodes)) {
            let worth = worths.iter().fold(0, |sum: u128, worth| sum.saturating_add(*worth));
            if worth > best.0 || best.1.is_empty() {
                best = (worth, unit);
            }
        }
        best.1.to_vec()
    }

    /// Step 1.
    fn oldest<C: Coordinate, const D: usize>(
        &self,
        buffer: &NodeBuffer<C, D>,
        unit_nodes: usize,
    ) -> Vec<NodeId> {
        let mut nodes: Vec<(u64, NodeId)> =
            buffer.nodes().iter().map(|(id, waiting)| (waiting.touched, *id)).collect();
        sort::total(&mut nodes);
        if self.worth != Worth::M {
            let old = (nodes.len() * usize::from(self.oldest_percent)).div_ceil(100);
            nodes.truncate(old.max(unit_nodes));
        }
        nodes.into_iter().map(|(_, id)| id).collect()
    }

    /// Step 2.
    fn filter(&self, candidates: Vec<NodeId>, unit_nodes: usize, control: &TemporalControl) -> Vec<NodeId> {
        if control.written().next().is_none() {
            return candidates;
        }
        let (mut sequence, mut stride) = (Vec::new(), Vec::new());
        for &id in &candidates {
            let distances =
                || control.written().filter(|other| *other != id).map(|other| other.0.abs_diff(id.0));
            if distances().any(|distance| distance <= self.sequence_distance) {
                sequence.push(id);
            } else if distances().any(|distance| distance >= self.stride_distance) {
                stride.push(id);
            }
        }
        if sequence.len() > stride.len() && sequence.len() >= unit_nodes {
            sequence
        } else if stride.len() >= unit_nodes {
            stride
        } else if sequence.len() + stride.len() >= unit_nodes {
            sequence.append(&mut stride);
            sequence
        } else {
            candidates
        }
    }

    /// The worth of each candidate.
    fn worths<C: Coordinate, const D: usize>(
        &self,
        buffer: &mut NodeBuffer<C, D>,
        candidates: &[NodeId],
    ) -> Vec<u128> {
        let spreads = if self.worth >= Worth::Mtha { Some(buffer.spreads()) } else { None };
        let greatest = |part: fn(&Spread<C::Measure>) -> Option<C::Measure>| {
            let all = spreads.iter().flat_map(|spreads| spreads.values().filter_map(part));
            all.max_by(|a, b| a.order(b))
        };
        let (area_max, overlap_max) = (greatest(|spread| spread.0), greatest(|spread| spread.1));
        let worth = |id: &NodeId| {
            let Some(waiting) = buffer.nodes().get(id) else { return 0 };
            let mut worth = u128::from(waiting.modifications);
            if self.worth >= Worth::Mth {
                worth *= u128::from(waiting.level);
            }
            let (area, overlap) = spreads.as_ref().and_then(|all| all.get(id).copied()).unwrap_or_default();
            if self.worth >= Worth::Mtha {
                worth *= share(area, area_max);
            }
            if self.worth >= Worth::Mthao {
                worth *= share(overlap, overlap_max);
            }
            worth
        };
        candidates.iter().map(worth).collect()
    }
}

const SHARE_BITS: u32 = 16;

/// The share of the whole that a part is, in parts of 65,536; all of it when there is nothing to measure.
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
