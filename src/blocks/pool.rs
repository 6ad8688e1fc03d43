//! The blocks that may be taken, in the order of their wear.

use super::numbers::Numbers;
use super::rows::Rows;
use crate::units::Pbn;
use core::cmp::Ordering;

/// A sorted row that has room for every block from the beginning, so that it never asks for memory. The most
/// worn block is first: the least worn one, which is taken most often, goes from the end. Erases are looked
/// up in the rows of the table.
#[derive(Clone, Debug)]
pub(super) struct Pool(Numbers);

impl Pool {
    /// All blocks of a chip, none of them erased so far.
    pub(super) fn unworn(blocks: u32) -> Pool {
        let mut row = Numbers::with_room(blocks);
        (0..blocks).rev().for_each(|pbn| row.push(pbn));
        Pool(row)
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
        (0..self.len()).rev().map(|at| Pbn(self.0.get(at)))
    }

    pub(super) fn by_most_wear(&self) -> impl Iterator<Item = Pbn> + '_ {
        (0..self.len()).map(|at| Pbn(self.0.get(at)))
    }

    /// Where a block is, or would be.
    fn place(&self, rows: &Rows, pbn: Pbn) -> Result<usize, usize> {
        let wear = (rows.erases(pbn.index()), pbn.0);
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            let other = self.0.get(middle);
            match wear.cmp(&(rows.erases(other as usize), other)) {
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => high = middle,
                Ordering::Less => low = middle + 1,
            }
        }
        Err(low)
    }

    pub(super) fn contains(&self, rows: &Rows, pbn: Pbn) -> bool {
        self.place(rows, pbn).is_ok()
    }

    pub(super) fn insert(&mut self, rows: &Rows, pbn: Pbn) {
        if let Err(place) = self.place(rows, pbn) {
            self.0.insert(place, pbn.0);
        }
    }

    /// Whether the block was there.
    pub(super) fn remove(&mut self, rows: &Rows, pbn: Pbn) -> bool {
        let place = self.place(rows, pbn);
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
        let mut rows = Rows::unclean(40);
        let room = pool.0.capacity();
        let mut model: BTreeSet<(u32, u32)> = (0..40).map(|pbn| (0, pbn)).collect();
        for _ in 0..2_000 {
            let (erases, pbn) = (rng.below(4) as u32, rng.below(40) as u32);
            let is_there = model.remove(&(rows.erases(pbn as usize), pbn));
            assert_eq!(pool.contains(&rows, Pbn(pbn)), is_there);
            assert_eq!(pool.remove(&rows, Pbn(pbn)), is_there);
            if !is_there {
                rows.set_erases(pbn as usize, erases);
                pool.insert(&rows, Pbn(pbn));
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
