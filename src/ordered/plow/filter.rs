//! Bloom filters of the pages of the first level, one for each page, and where each page begins.

use super::fences::position;
use crate::rng::split_mix;
use crate::units::Ppn;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// The filter of a page.
#[derive(Clone, Debug)]
struct Filter {
    page: Ppn,
    /// The position of its first key.
    low: u64,
    /// Bits set for each key.
    probes: u8,
    bits: Box<[u8]>,
}

/// What a filter says of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The key is before the page's first.
    Before,
    /// The page does not hold it.
    No,
    /// The page may hold it.
    Maybe,
}

/// The filters of pages, within a budget of RAM.
#[derive(Debug)]
pub(super) struct Filters {
    filters: Vec<Filter>,
    budget: usize,
    used: usize,
}

/// Bytes of a filter besides its bits.
const FILTER_BYTES: usize = size_of::<Filter>();

fn hash(key: &[u8]) -> u64 {
    key.chunks(8).fold(0x706c_6f77, |hash, chunk| {
        let word = chunk.iter().fold(0, |word: u64, &byte| word << 8 | u64::from(byte));
        split_mix(hash ^ word)
    })
}

impl Filter {
    /// The bits of a key, by enhanced double hashing.
    fn places(&self, key: &[u8]) -> impl Iterator<Item = usize> + use<> {
        let (hash, bits) = (hash(key), self.bits.len() as u64 * 8);
        let (one, other) = (hash & 0xffff_ffff, hash >> 32 | 1);
        (0..u64::from(self.probes)).map(move |i| ((one + i * other + i * i) % bits) as usize)
    }
}

impl Filters {
    pub(super) fn new(budget: usize) -> Filters {
        Filters { filters: Vec::new(), budget, used: 0 }
    }

    /// Bytes that a page with so many of these keys on these pages may have for its filter.
    pub(super) fn share(&self, keys: usize, of: usize, pages: usize) -> usize {
        self.budget.saturating_sub(pages * FILTER_BYTES) * keys / of.max(1)
    }

    /// Notes the keys of a page, ascending, in a filter of so many bytes, if the budget allows. One key is held at a time. What was
    /// noted of the page before is forgotten.
    pub(super) fn insert(
        &mut self,
        page: Ppn,
        bytes: usize,
        keys: &mut dyn ExactSizeIterator<Item = Vec<u8>>,
    ) {
        self.remove(page);
        let (count, bytes) = (keys.len(), bytes.min(self.budget.saturating_sub(self.used + FILTER_BYTES)));
        // Below a bit a key it would hardly say no.
        if bytes * 8 < count {
            return;
        }
        // More than sixteen bits a key are not needed.
        let bytes = bytes.min(count * 2);
        let Some(first) = keys.next() else { return };
        // ln 2 probes for each bit a key has.
        let probes = (bytes * 8 * 7 / (10 * count)).clamp(1, 8) as u8;
        let mut filter = Filter { page, low: position(&first), probes, bits: vec![0; bytes].into() };
        for key in [first].into_iter().chain(keys) {
            filter.places(&key).for_each(|bit| filter.bits[bit / 8] |= 1 << (bit % 8));
        }
        self.used += FILTER_BYTES + bytes;
        if self.filters.len() == self.filters.capacity() {
            self.filters.reserve_exact(1);
        }
        self.filters.push(filter);
    }

    /// Forgets a page.
    pub(super) fn remove(&mut self, page: Ppn) {
        if let Some(at) = self.filters.iter().position(|filter| filter.page == page) {
            self.used -= FILTER_BYTES + self.filters[at].bits.len();
            self.filters.swap_remove(at);
        }
    }

    /// Forgets every page.
    pub(super) fn clear(&mut self) {
        (self.filters, self.used) = (Vec::new(), 0);
    }

    /// What the filter of a page says of a key; nothing for a page that has none.
    pub(super) fn ask(&self, page: Ppn, key: &[u8]) -> Option<Answer> {
        let filter = self.filters.iter().find(|filter| filter.page == page)?;
        let at = position(key);
        if at < filter.low {
            return Some(Answer::Before);
        }
        // Keys of the same position may be on either side of the first one.
        let is_certain = at > filter.low || key.len() <= 8;
        let is_set = |bit: usize| filter.bits[bit / 8] >> (bit % 8) & 1 == 1;
        let no = is_certain && !filter.places(key).all(is_set);
        Some(if no { Answer::No } else { Answer::Maybe })
    }

    /// Bytes held.
    pub(super) fn ram_bytes(&self) -> usize {
        let spare = self.filters.capacity() - self.filters.len();
        self.used + spare * FILTER_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(from: u32, count: u32) -> impl ExactSizeIterator<Item = Vec<u8>> {
        (from..from + count).map(|key| (key * 3).to_be_bytes().to_vec())
    }

    #[test]
    fn a_filter_says_no_to_most_keys_that_are_not_there_and_to_none_that_is() {
        for (bytes, wrong_max) in [(160, 60), (400, 22), (1000, 3)] {
            let mut filters = Filters::new(10_000);
            filters.insert(Ppn(5), bytes, &mut keys(100, 400));
            assert!(keys(100, 400).all(|key| filters.ask(Ppn(5), &key) == Some(Answer::Maybe)));
            let others = (0..1000u32).map(|i| (301 + i * 3).to_be_bytes());
            let wrong = others.filter(|key| filters.ask(Ppn(5), key) == Some(Answer::Maybe)).count();
            assert!(wrong <= wrong_max * 10, "{bytes} bytes: {wrong} of 1000");
            assert_eq!(filters.ask(Ppn(5), &7u32.to_be_bytes()), Some(Answer::Before));
            assert_eq!(filters.ask(Ppn(6), &7u32.to_be_bytes()), None);
        }
    }

    #[test]
    fn the_budget_is_kept() {
        let mut filters = Filters::new(1000);
        (0..20).for_each(|page| filters.insert(Ppn(page), 150, &mut keys(100, 300)));
        assert!(filters.ram_bytes() <= 1000 && filters.ask(Ppn(0), &[0; 4]).is_some());
        assert_eq!(filters.ask(Ppn(19), &[0; 4]), None);
        filters.remove(Ppn(0));
        filters.insert(Ppn(19), 150, &mut keys(100, 300));
        assert!(filters.ask(Ppn(19), &[0; 4]).is_some() && filters.ask(Ppn(0), &[0; 4]).is_none());
    }
}
