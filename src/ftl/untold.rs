//! Entries of the mapping table that neither the table on flash nor its cache has, in a sorted row.
//!
//! Except after a power cut there are hardly more than two blocks' worth of pages. So a row takes half the
//! RAM of a tree, and little is moved when an entry comes or goes.

use alloc::vec::Vec;
use core::ops::Range;

/// Bytes of RAM for each entry.
pub(crate) const ENTRY_BYTES: usize = size_of::<(u32, u32)>();

/// Map from logical to physical pages.
#[derive(Debug)]
pub struct Untold {
    row: Vec<(u32, u32)>,
    /// Number of entries for which there is always room.
    planned: u32,
    /// True if records tell the entries, and the whole map.
    pub(crate) in_records: bool,
}

impl Untold {
    /// Makes an empty row with room for `planned` entries.
    pub(crate) fn new(planned: usize) -> Untold {
        Untold { row: Vec::with_capacity(planned), planned: planned as u32, in_records: false }
    }

    fn find(&self, lpn: u32) -> Result<usize, usize> {
        // Mostly the entry that follows the last one is asked for.
        match self.row.last() {
            Some(last) if last.0 < lpn => Err(self.row.len()),
            _ => self.row.binary_search_by_key(&lpn, |entry| entry.0),
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.row.len()
    }

    /// True if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.row.is_empty()
    }

    pub(crate) fn has(&self, lpn: u32) -> bool {
        self.find(lpn).is_ok()
    }

    pub(crate) fn get(&self, lpn: u32) -> Option<u32> {
        self.find(lpn).ok().map(|at| self.row[at].1)
    }

    /// Logical page of the first entry.
    pub(crate) fn first(&self) -> Option<u32> {
        self.row.first().map(|entry| entry.0)
    }

    /// Logical pages with entries, in ascending order.
    pub(crate) fn lpns(&self) -> impl Iterator<Item = u32> + '_ {
        self.row.iter().map(|entry| entry.0)
    }

    pub(crate) fn insert(&mut self, lpn: u32, ppn: u32) {
        match self.find(lpn) {
            Ok(at) => self.row[at].1 = ppn,
            Err(at) => {
                if self.row.len() == self.row.capacity() {
                    self.row.reserve_exact(self.row.len() / 2 + 1);
                }
                self.row.insert(at, (lpn, ppn));
            }
        }
    }

    pub(crate) fn remove(&mut self, lpn: u32) {
        if let Ok(at) = self.find(lpn) {
            self.row.remove(at);
        }
    }

    fn places(&self, lpns: Range<u32>) -> Range<usize> {
        let place = |lpn| self.row.partition_point(|entry| entry.0 < lpn);
        place(lpns.start)..place(lpns.end)
    }

    /// Entries of these logical pages.
    pub(crate) fn of(&self, lpns: Range<u32>) -> &[(u32, u32)] {
        &self.row[self.places(lpns)]
    }

    /// Drops the entries of these logical pages. Once no entry is left, RAM beyond the plan is freed.
    pub(crate) fn told(&mut self, lpns: Range<u32>) {
        self.row.drain(self.places(lpns));
        if self.row.is_empty() && self.row.capacity() > self.planned as usize {
            self.row = Vec::new();
            self.row.reserve_exact(self.planned as usize);
        }
    }

    /// Drops those entries of these logical pages for which `stays` is false.
    pub(crate) fn retain(&mut self, lpns: Range<u32>, stays: impl Fn(u32, u32) -> bool) {
        self.row.retain(|&(lpn, ppn)| !lpns.contains(&lpn) || stays(lpn, ppn));
    }

    /// Bytes of RAM, without those beyond the plan that a power cut may need.
    pub(crate) fn ram_bytes(&self) -> usize {
        self.planned as usize * ENTRY_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::collections::BTreeMap;

    #[test]
    fn entries_are_as_in_a_map() {
        let (mut untold, mut model, mut rng) = (Untold::new(4), BTreeMap::new(), Rng::new(4));
        for step in 0..5_000 {
            let lpn = rng.below(60) as u32;
            match rng.below(8) {
                0 => {
                    untold.remove(lpn);
                    model.remove(&lpn);
                }
                1 => {
                    let lpns = lpn..lpn + rng.below(30) as u32;
                    assert!(
                        untold
                            .of(lpns.clone())
                            .iter()
                            .copied()
                            .eq(model.range(lpns.clone()).map(|(&lpn, &ppn)| (lpn, ppn)))
                    );
                    untold.told(lpns.clone());
                    model.retain(|lpn, _| !lpns.contains(lpn));
                }
                _ => {
                    untold.insert(lpn, step);
                    model.insert(lpn, step);
                }
            }
            assert_eq!((untold.len(), untold.first()), (model.len(), model.keys().next().copied()));
            assert_eq!(
                (untold.get(lpn), untold.has(lpn)),
                (model.get(&lpn).copied(), model.contains_key(&lpn))
            );
            assert!(untold.lpns().eq(model.keys().copied()) && untold.is_empty() == model.is_empty());
        }
        untold.told(0..100);
        assert_eq!((untold.row.capacity(), untold.ram_bytes()), (4, 32));
    }
}
