//! Which dirty units a write-minimized commit takes: those that free the entries wanted with the fewest
//! writes.
//!
//! The statistical table lists the dirty units of the cold region with #B, the entries a unit gives free, and
//! #W, the nodes that committing it writes. Wanted is a set with at least L entries and the least sum of
//! writes: a 0/1 covering knapsack, which the paper solves by dynamic programming over units and entries,
//! O(units * L).
//!
//! The number #W takes few values: 1 where the entries fit the node, 3 and more where they do not. Of units
//! with the same #W a set of
//! least writes has the largest ones, for a larger one could take the place of a smaller. So the choice is
//! only *how many* of each class, largest first, and of a class no more can be needed than come to L entries.
//! The table is kept in that order all the time. The program runs over classes and writes, with f(W) the most
//! entries that W writes free: O(classes * W^2) steps with W writes at most, whatever the buffer holds. A
//! choice of a page's worth of entries has W of a few tens.

use super::units::Units;
use alloc::vec;
use alloc::vec::Vec;
use nandex::sort;

/// Number of nodes written when `b` entries (#B) go to a node of `n` entries (#N). By formula 3.11 if the
/// node overflows, else 1.
pub(super) const fn writes(b: u32, n: u32, capacity: u32) -> u32 {
    if b + n <= capacity { 1 } else { (b + n) / capacity + 2 }
}

/// Number of nodes written if leaves are split two at a time: two nodes and their parent for each node
/// beyond the first.
pub(super) const fn writes_by_two(b: u32, n: u32, capacity: u32) -> u32 {
    if b + n <= capacity { 1 } else { 3 * ((b + n).div_ceil(capacity) - 1) }
}

/// The units that cost the same number of writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Class {
    pub(super) writes: u32,
    /// Sums of the entries freed: by the largest unit, by the two largest, and so on.
    pub(super) freed: Vec<u64>,
}

/// The part of the statistical table that a choice of `least` entries can need.
pub(super) fn classes(units: &Units, least: u64) -> Vec<Class> {
    let mut classes = Vec::new();
    let mut next = units.first_dirty(0);
    while let Some(first) = next {
        let mut class = Class { writes: units.writes(first), freed: Vec::new() };
        let mut freed = 0;
        while let Some(unit) = next.filter(|&unit| units.writes(unit) == class.writes && freed < least) {
            freed += u64::from(units.part(unit).len);
            class.freed.push(freed);
            next = units.next_dirty(unit);
        }
        next = units.first_dirty(class.writes + 1);
        classes.push(class);
    }
    classes
}

/// The number of units of each class, the largest first, that free at least `least` entries with the fewest
/// writes. Of choices with equal writes, one that frees the most. If all units free less, all are chosen.
pub(super) fn choose(classes: &[Class], least: u64) -> Vec<usize> {
    let all: Vec<usize> = classes.iter().map(|class| class.freed.len()).collect();
    let Some(writes_max) = writes_enough(classes, least) else { return all };
    // The most entries that so many writes free with the classes seen so far, and how many of the last are
    // among them.
    let mut freed = vec![0u64; writes_max + 1];
    let mut counts: Vec<Vec<u32>> = Vec::with_capacity(classes.len());
    for class in classes {
        let price = class.writes as usize;
        let mut count = vec![0u32; writes_max + 1];
        for writes in (price..=writes_max).rev() {
            let (mut best, mut most) = (0, freed[writes]);
            for (i, more) in class.freed.iter().enumerate().take(writes / price) {
                let together = freed[writes - (i + 1) * price] + more;
                if together > most {
                    (best, most) = (i as u32 + 1, together);
                }
            }
            (count[writes], freed[writes]) = (best, most);
        }
        counts.push(count);
    }
    let Some(mut writes) = freed.iter().position(|&freed| freed >= least) else { return all };
    let mut chosen = vec![0; classes.len()];
    for (i, class) in classes.iter().enumerate().rev() {
        chosen[i] = counts[i][writes] as usize;
        writes -= chosen[i] * class.writes as usize;
    }
    chosen
}

/// The choice among units given as pairs: entries freed, nodes written. Returns indexes into `units`. If
/// all units free less than `least`, all are chosen.
pub fn write_minimized(units: &[(u64, u32)], least: u64) -> Vec<usize> {
    let mut places: Vec<usize> = (0..units.len()).collect();
    sort::unstable_by_key(&mut places, |&place| (units[place].1, core::cmp::Reverse(units[place].0), place));
    let same = places.chunk_by(|&a, &b| units[a].1 == units[b].1);
    let class = |places: &[usize]| {
        let freed = places.iter().scan(0, |sum, &place| {
            *sum += units[place].0;
            Some(*sum)
        });
        Class { writes: units[places[0]].1, freed: freed.collect() }
    };
    let classes: Vec<Class> = same.clone().map(class).collect();
    let counts = choose(&classes, least);
    same.zip(counts).flat_map(|(places, count)| places[..count].iter().copied()).collect()
}

/// A number of writes that certainly frees `least` entries, by taking cheap classes first. `None` if all
/// classes free less.
fn writes_enough(classes: &[Class], least: u64) -> Option<usize> {
    let (mut writes, mut freed) = (0, 0);
    for class in classes {
        let enough = class.freed.iter().position(|more| freed + more >= least);
        let units = enough.map_or(class.freed.len(), |last| last + 1);
        writes += units * class.writes as usize;
        if enough.is_some() {
            return Some(writes);
        }
        freed += class.freed.last().copied().unwrap_or_default();
    }
    None
}
