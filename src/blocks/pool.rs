//! The blocks that may be taken, in the order of their wear.

use crate::units::Pbn;
use alloc::vec::Vec;

/// Erases and number of a block.
type Entry = (u32, u32);

/// A sorted row that has room for every block from the beginning, so that it never asks for memory. The most worn block is first:
/// the least worn one, which is taken most often, goes from the end.
#[derive(Clone, Debug)]
pub(super) struct Pool(Vec<Entry>);

impl Pool {
    /// All blocks of a chip, none of them erased so far.
    pub(super) fn unworn(blocks: u32) -> Pool {
        Pool((0..blocks).rev().map(|pbn| (0, pbn)).collect())
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The block with the fewest erases, of several the one with the lowest number.
    pub(super) fn least_worn(&self) -> Option<Pbn> {
        self.by_least_wear().next()
    }

    /// The block with the most erases, of several the one with the highest number.
    pub(super) fn most_worn(&self) -> Option<Pbn> {
        self.by_most_wear().next()
    }

    pub(super) fn by_least_wear(&self) -> impl Iterator<Item = Pbn> + '_ {
        self.0.iter().rev().map(|&(_, pbn)| Pbn(pbn))
    }

    pub(super) fn by_most_wear(&self) -> impl Iterator<Item = Pbn> + '_ {
        self.0.iter().map(|&(_, pbn)| Pbn(pbn))
    }

    fn place(&self, entry: Entry) -> Result<usize, usize> {
        self.0.binary_search_by(|other| entry.cmp(other))
    }

    pub(super) fn contains(&self, erases: u32, pbn: Pbn) -> bool {
        self.place((erases, pbn.0)).is_ok()
    }

    pub(super) fn insert(&mut self, erases: u32, pbn: Pbn) {
        if let Err(place) = self.place((erases, pbn.0)) {
            self.0.insert(place, (erases, pbn.0));
        }
    }

    /// Whether the block was there.
    pub(super) fn remove(&mut self, erases: u32, pbn: Pbn) -> bool {
        let place = self.place((erases, pbn.0));
        if let Ok(place) = place {
            self.0.remove(place);
        }
        place.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::collections::BTreeSet;

    #[test]
    fn blocks_are_ordered_by_wear_and_then_by_number() {
        let (mut pool, mut rng) = (Pool::unworn(40), Rng::new(3));
        let room = pool.0.capacity();
        let mut model: BTreeSet<Entry> = (0..40).map(|pbn| (0, pbn)).collect();
        for _ in 0..2_000 {
            let (erases, pbn) = (rng.below(4) as u32, rng.below(40) as u32);
            assert_eq!(pool.contains(erases, Pbn(pbn)), model.contains(&(erases, pbn)));
            if model.iter().any(|entry| entry.1 == pbn) {
                assert_eq!(pool.remove(erases, Pbn(pbn)), model.remove(&(erases, pbn)));
            } else {
                pool.insert(erases, Pbn(pbn));
                model.insert((erases, pbn));
            }
            assert!(pool.by_least_wear().eq(model.iter().map(|entry| Pbn(entry.1))));
            assert!(pool.by_most_wear().eq(model.iter().rev().map(|entry| Pbn(entry.1))));
            assert_eq!(pool.least_worn(), model.first().map(|entry| Pbn(entry.1)));
            assert_eq!(pool.most_worn(), model.last().map(|entry| Pbn(entry.1)));
            assert_eq!((pool.len(), pool.0.capacity()), (model.len(), room), "no memory is asked for");
        }
    }
}
