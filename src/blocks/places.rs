//! Places of the free blocks and of the full ones, all in one row.
//!
//! ```text
//! +---------------+------------------+----+-----------------+------------+----------------------------+
//! | full, 0 valid | full, 1 valid .. |    | full, all valid |  no block  | free, the least worn first |
//! +---------------+------------------+----+-----------------+------------+----------------------------+
//! 0            ends[0]            ends[1]             ends[pages]       pool
//! ```
//!
//! A block is full, or free, or neither, so one place for each is enough, and memory is allocated only once.
//! Full blocks with equally many valid pages stand in the order in which they came to that number. Free
//! blocks stand by their erase counts, which are looked up in the rows of the table, and then by number.
//!
//! Costs: a page that becomes invalid moves its block to the neighbouring group, for which the group it
//! leaves is searched. The next victim and the next free block are at the ends.

use super::numbers::Numbers;
use super::rows::Rows;
use crate::units::Pbn;
use core::cmp::Ordering;

/// Row of the full and the free blocks of a chip.
#[derive(Clone, Debug)]
pub(super) struct Places {
    row: Numbers,
    /// For each number of valid pages, the end of the full blocks with that number.
    ends: Numbers,
    /// Beginning of the free blocks.
    pool: usize,
}

impl Places {
    /// All blocks of a chip, free and never erased.
    pub(super) fn unworn(blocks: u32, pages_per_block: u32) -> Places {
        let mut row = Numbers::zeros(blocks as usize, blocks);
        (0..blocks).for_each(|pbn| row.set(pbn as usize, pbn));
        Places { row, ends: Numbers::zeros(pages_per_block as usize + 1, blocks), pool: 0 }
    }

    /// Bytes of RAM for the places of a chip.
    pub(super) const fn ram_bytes(blocks: u32, pages_per_block: u32) -> usize {
        (blocks as usize + pages_per_block as usize + 1) * Numbers::bytes_each(blocks)
    }

    /// Empties the row: no block is full or free.
    pub(super) fn clear(&mut self) {
        self.pool = self.row.len();
        (0..self.ends.len()).for_each(|valid| self.ends.set(valid, 0));
    }
}

impl Places {
    fn start(&self, valid: usize) -> usize {
        if valid == 0 { 0 } else { self.ends.get(valid - 1) as usize }
    }

    fn end(&self, valid: usize) -> usize {
        self.ends.get(valid) as usize
    }

    fn full(&self) -> usize {
        self.end(self.ends.len() - 1)
    }

    /// One of the full blocks with the fewest valid pages.
    pub(super) fn emptiest(&self) -> Option<Pbn> {
        (self.full() > 0).then(|| Pbn(self.row.get(0)))
    }

    /// All full blocks, those with the fewest valid pages first.
    pub(super) fn by_fewest_valid(&self) -> impl Iterator<Item = Pbn> + '_ {
        (0..self.full()).map(|at| Pbn(self.row.get(at)))
    }

    /// Full blocks with `valid` valid pages. The one that has had that number for longest comes first.
    pub(super) fn with_valid(&self, valid: u32) -> impl Iterator<Item = Pbn> + '_ {
        (self.start(valid as usize)..self.end(valid as usize)).map(|at| Pbn(self.row.get(at)))
    }

    /// Adds a full block with `valid` valid pages.
    pub(super) fn add(&mut self, pbn: Pbn, valid: u32) {
        let (at, full) = (self.end(valid as usize), self.full());
        debug_assert!(full < self.pool, "T1: {pbn} is full and has no place");
        self.row.shift(at..full, at + 1);
        self.row.set(at, pbn.0);
        self.ends.step(valid as usize..self.ends.len(), true);
    }

    /// Removes a block that is no longer full.
    pub(super) fn remove(&mut self, pbn: Pbn, valid: u32) {
        let at = self.place_of_full(pbn, valid);
        self.row.shift(at + 1..self.full(), at);
        self.ends.step(valid as usize..self.ends.len(), false);
    }

    /// Moves a full block that had `valid` valid pages, and now has one more or one less.
    pub(super) fn regroup(&mut self, pbn: Pbn, valid: u32, more: bool) {
        let at = self.place_of_full(pbn, valid);
        let valid = valid as usize;
        if more {
            let end = self.end(valid + 1);
            self.row.shift(at + 1..end, at);
            self.row.set(end - 1, pbn.0);
            self.ends.step(valid..valid + 1, false);
        } else {
            let start = self.start(valid);
            self.row.shift(start..at, start + 1);
            self.row.set(start, pbn.0);
            self.ends.step(valid - 1..valid, true);
        }
    }

    fn place_of_full(&self, pbn: Pbn, valid: u32) -> usize {
        let found = self.row.find(self.start(valid as usize)..self.end(valid as usize), pbn.0);
        assert!(found.is_some(), "T1: {pbn} is missing from the full blocks with {valid} valid pages");
        found.unwrap_or(0)
    }
}

impl Places {
    pub(super) fn free(&self) -> usize {
        self.row.len() - self.pool
    }

    /// Free block with the fewest erases; among equals the one with the lowest number.
    pub(super) fn least_worn(&self) -> Option<Pbn> {
        self.by_least_wear().next()
    }

    /// Free block with the most erases; among equals the one with the highest number.
    pub(super) fn most_worn(&self) -> Option<Pbn> {
        self.by_most_wear().next()
    }

    pub(super) fn by_least_wear(&self) -> impl Iterator<Item = Pbn> + '_ {
        (self.pool..self.row.len()).map(|at| Pbn(self.row.get(at)))
    }

    pub(super) fn by_most_wear(&self) -> impl Iterator<Item = Pbn> + '_ {
        (self.pool..self.row.len()).rev().map(|at| Pbn(self.row.get(at)))
    }

    /// Place of a free block. `Err` has the place at which it would be inserted.
    fn place_of_free(&self, rows: &Rows, pbn: Pbn) -> Result<usize, usize> {
        let wear = (rows.erases(pbn.index()), pbn.0);
        let (mut low, mut high) = (self.pool, self.row.len());
        while low < high {
            let middle = low.midpoint(high);
            let other = self.row.get(middle);
            match wear.cmp(&(rows.erases(other as usize), other)) {
                Ordering::Equal => return Ok(middle),
                Ordering::Less => high = middle,
                Ordering::Greater => low = middle + 1,
            }
        }
        Err(low)
    }

    pub(super) fn is_free(&self, rows: &Rows, pbn: Pbn) -> bool {
        self.place_of_free(rows, pbn).is_ok()
    }

    pub(super) fn add_free(&mut self, rows: &Rows, pbn: Pbn) {
        if let Err(place) = self.place_of_free(rows, pbn) {
            debug_assert!(self.full() < self.pool, "T1: {pbn} is free and has no place");
            self.row.shift(self.pool..place, self.pool - 1);
            self.row.set(place - 1, pbn.0);
            self.pool -= 1;
        }
    }

    /// Removes a free block. False if it was not free.
    pub(super) fn remove_free(&mut self, rows: &Rows, pbn: Pbn) -> bool {
        let place = self.place_of_free(rows, pbn);
        if let Ok(place) = place {
            self.row.shift(self.pool..place, self.pool + 1);
            self.pool += 1;
        }
        place.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    #[test]
    fn free_blocks_are_ordered_by_wear_and_then_by_number() {
        let (mut places, mut rng) = (Places::unworn(40, 8), Rng::new(3));
        let mut rows = Rows::unclean(40);
        let mut model: BTreeSet<(u32, u32)> = (0..40).map(|pbn| (0, pbn)).collect();
        for _ in 0..2_000 {
            let (erases, pbn) = (rng.below(4) as u32, rng.below(40) as u32);
            let is_there = model.remove(&(rows.erases(pbn as usize), pbn));
            assert_eq!(places.is_free(&rows, Pbn(pbn)), is_there);
            assert_eq!(places.remove_free(&rows, Pbn(pbn)), is_there);
            if !is_there {
                rows.set_erases(pbn as usize, erases);
                places.add_free(&rows, Pbn(pbn));
                model.insert((erases, pbn));
            }
            assert!(places.by_least_wear().eq(model.iter().map(|entry| Pbn(entry.1))));
            assert!(places.by_most_wear().eq(model.iter().rev().map(|entry| Pbn(entry.1))));
            assert_eq!(places.least_worn(), model.first().map(|entry| Pbn(entry.1)));
            assert_eq!(places.most_worn(), model.last().map(|entry| Pbn(entry.1)));
            assert_eq!(places.free(), model.len());
        }
    }

    #[test]
    fn full_blocks_stand_by_valid_pages_and_then_by_age() {
        let (mut places, mut rng) = (Places::unworn(24, 8), Rng::new(5));
        places.clear();
        // What was added first in front, for each count of valid pages.
        let mut model: [Vec<u32>; 9] = Default::default();
        for _ in 0..4_000 {
            let pbn = rng.below(24) as u32;
            match model.iter().position(|group| group.contains(&pbn)) {
                None => {
                    let valid = rng.below(9) as u32;
                    places.add(Pbn(pbn), valid);
                    model[valid as usize].push(pbn);
                }
                Some(valid) => {
                    model[valid].retain(|&other| other != pbn);
                    match rng.below(5) {
                        0 => places.remove(Pbn(pbn), valid as u32),
                        step => {
                            let more = valid == 0 || step > 2 && valid < 8;
                            places.regroup(Pbn(pbn), valid as u32, more);
                            model[if more { valid + 1 } else { valid - 1 }].push(pbn);
                        }
                    }
                }
            }
            for (valid, group) in model.iter().enumerate() {
                assert!(places.with_valid(valid as u32).eq(group.iter().map(|&pbn| Pbn(pbn))));
            }
            assert_eq!(places.emptiest(), model.iter().flatten().next().map(|&pbn| Pbn(pbn)));
        }
    }
}
