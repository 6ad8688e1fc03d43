//! Entries of the mapping table that neither the table on flash nor the cache of it has: a sorted row.
//!
//! There are hardly more than two blocks have pages, but after a power cut; so a row takes half of what a
//! tree would, and what is moved in it when one comes or goes is little.

use alloc::vec::Vec;
use core::ops::Range;

/// Bytes of RAM for each entry.
pub(crate) const ENTRY_BYTES: usize = size_of::<(u32, u32)>();

/// Physical pages by logical page.
#[derive(Debug)]
pub struct Untold {
    row: Vec<(u32, u32)>,
    /// Entries for which there is always room.
    planned: u32,
    /// Records say the entries, and the whole map.
    pub(crate) in_records: bool,
}

impl Untold {
    /// An empty row with room for so many.
    pub(crate) fn new(planned: usize) -> Untold {
        Untold { row: Vec::with_capacity(planned), planned: planned as u32, in_records: false }
    }

    fn find(&self, lpn: u32) -> Result<usize, usize> {
        // Mostly the one that follows is asked for.
        match self.row.last() {
            Some(last) if last.0 < lpn => Err(self.row.len()),
            _ => self.row.binary_search_by_key(&lpn, |entry| entry.0),
        }
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.row.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.row.is_empty()
    }

    /// Whether a logical page has an entry.
    pub(crate) fn has(&self, lpn: u32) -> bool {
        self.find(lpn).is_ok()
    }

    /// The entry of a logical page.
    pub(crate) fn get(&self, lpn: u32) -> Option<u32> {
        self.find(lpn).ok().map(|at| self.row[at].1)
    }

    /// The entry with the lowest number.
    pub(crate) fn first(&self) -> Option<u32> {
        self.row.first().map(|entry| entry.0)
    }

    /// The logical pages, ascending.
    pub(crate) fn lpns(&self) -> impl Iterator<Item = u32> + '_ {
        self.row.iter().map(|entry| entry.0)
    }

    /// Adds or replaces an entry.
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

    /// Drops the entry of a logical page.
    pub(crate) fn remove(&mut self, lpn: u32) {
        if let Ok(at) = self.find(lpn) {
            self.row.remove(at);
        }
    }

    fn places(&self, lpns: Range<u32>) -> Range<usize> {
        let place = |lpn| self.row.partition_point(|entry| entry.0 < lpn);
        place(lpns.start)..place(lpns.end)
    }

    /// The entries of these logical pages.
    pub(crate) fn of(&self, lpns: Range<u32>) -> &[(u32, u32)] {
        &self.row[self.places(lpns)]
    }

    /// Drops the entries of these logical pages; and with the last one the room beyond what is planned.
    pub(crate) fn told(&mut self, lpns: Range<u32>) {
        self.row.drain(self.places(lpns));
        if self.row.is_empty() && self.row.capacity() > self.planned as usize {
            self.row = Vec::new();
            self.row.reserve_exact(self.planned as usize);
        }
    }

    /// Drops those of the entries of these logical pages that do not stay.
    pub(crate) fn retain(&mut self, lpns: Range<u32>, stays: impl Fn(u32, u32) -> bool) {
        self.row.retain(|&(lpn, ppn)| !lpns.contains(&lpn) || stays(lpn, ppn));
    }

    /// Bytes of RAM that it takes, but for what a power cut leaves beyond what is planned.
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
