//! The policies of the FAST framework: a random unit, the most modified one, and FAST*. Units are examined
//! from the oldest on; of equal ones the oldest is taken.

use crate::spatial::buffered::buffer::Unit;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use nandex::rng::Rng;
use nandex::spatial::node::NodeId;

type Units = BTreeMap<u64, Unit>;

/// Chooses a unit by chance.
pub(in crate::spatial::buffered) fn random(units: &Units, rng: &mut Rng) -> Vec<NodeId> {
    if units.is_empty() {
        return Vec::new();
    }
    let at = rng.below(units.len() as u64) as usize;
    units.values().nth(at).map(|unit| unit.nodes.clone()).unwrap_or_default()
}

/// Chooses the unit with the most modifications.
pub(in crate::spatial::buffered) fn most_modified(units: &Units) -> Vec<NodeId> {
    best(units, |unit| i128::from(unit.modifications))
}

/// Chooses the unit with the largest difference: modifications minus time of last touch. Time is counted in
/// operations, `tick_operations` to a tick.
pub(in crate::spatial::buffered) fn most_modified_oldest(units: &Units, tick_operations: u64) -> Vec<NodeId> {
    best(units, |unit| i128::from(unit.modifications) - i128::from(unit.touched / tick_operations))
}

fn best(units: &Units, key: impl Fn(&Unit) -> i128) -> Vec<NodeId> {
    let best = units.iter().max_by_key(|(number, unit)| (key(unit), Reverse(**number)));
    best.map(|(_, unit)| unit.nodes.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(rows: &[(u32, u64, u64)]) -> Units {
        let unit = |&(node, modifications, touched): &(u32, u64, u64)| Unit {
            nodes: Vec::from([NodeId(node)]),
            modifications,
            touched,
        };
        rows.iter().enumerate().map(|(at, row)| (at as u64, unit(row))).collect()
    }

    #[test]
    fn the_most_modified_unit_leaves_and_of_equal_ones_the_oldest() {
        let units = units(&[(9, 3, 90), (7, 8, 70), (5, 8, 10)]);
        assert_eq!(most_modified(&units), [NodeId(7)]);
        assert_eq!(most_modified_oldest(&units, 1), [NodeId(5)], "8 - 10 is more than 3 - 90 and 8 - 70");
        assert_eq!(most_modified_oldest(&units, 1000), [NodeId(7)], "a slow clock tells no difference");
    }

    #[test]
    fn chance_takes_every_unit_sooner_or_later() {
        let (units, mut rng) = (units(&[(1, 1, 1), (2, 1, 1), (3, 1, 1)]), Rng::new(1));
        let mut taken: Vec<NodeId> = (0..50).flat_map(|_| random(&units, &mut rng)).collect();
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken, [1, 2, 3].map(NodeId));
        assert!(random(&Units::new(), &mut rng).is_empty());
    }
}
