//! Bloom filters of the pages of the first level, one for each page, and the position of each page's first
//! key.

use super::fences::position;
use crate::codec::get_u32;
use crate::rng::split_mix;
use crate::units::Ppn;
use alloc::vec::Vec;

/// Answer of a filter about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The key is before the page's first key.
    Before,
    /// The page does not hold the key.
    No,
    /// The page may hold the key.
    Maybe,
}

/// The filters of pages, one behind the other in a buffer as large as the RAM budget.
#[derive(Debug)]
pub(super) struct Filters {
    bytes: Vec<u8>,
}

/// True if this build has filters. Without them a look-up may read a page of the first level that lacks the
/// key.
pub(super) const FILTERS: bool = cfg!(feature = "full");

/// Bytes of a filter before its bits: the page, the position of its first key, the number of bits set for
/// each key, and the length of the bits in bytes.
pub(super) const FILTER_BYTES: usize = 4 + 8 + 1 + 3;

/// The keys of a page, for its filter.
pub(super) trait Keys {
    fn count(&self) -> usize;

    /// Calls `see` with each key, in order.
    fn tell(&self, see: &mut dyn FnMut(&[u8]));
}

#[derive(Clone, Copy, Debug)]
struct Filter<'a> {
    page: Ppn,
    low: u64,
    probes: u8,
    bits: &'a [u8],
}

impl<'a> Filter<'a> {
    fn read(bytes: &'a [u8]) -> Option<Filter<'a>> {
        let (head, rest) = bytes.split_at_checked(FILTER_BYTES)?;
        let low = head[4..12].iter().rev().fold(0, |low: u64, &byte| low << 8 | u64::from(byte));
        let bits = rest.get(..(get_u32(head, 12) >> 8) as usize)?;
        Some(Filter { page: Ppn(get_u32(head, 0)), low, probes: head[12], bits })
    }
}

/// Bits of a key among `bits` bits, by enhanced double hashing.
fn places(key: &[u8], probes: u8, bits: usize) -> impl Iterator<Item = usize> + use<> {
    let hash = hash(key);
    let (one, other) = (hash as u32, (hash >> 32) as u32 | 1);
    // The high half of a product stands in for a remainder, which would take a division.
    let place = move |i: u32| {
        let spread = one.wrapping_add(i.wrapping_mul(other)).wrapping_add(i * i);
        ((u64::from(spread) * bits as u64) >> 32) as usize
    };
    (0..u32::from(probes)).map(place)
}

fn hash(key: &[u8]) -> u64 {
    key.chunks(8).fold(0x706c_6f77, |hash, chunk| {
        let word = chunk.iter().fold(0, |word: u64, &byte| word << 8 | u64::from(byte));
        split_mix(hash ^ word)
    })
}

impl Filters {
    pub(super) fn new(budget: usize) -> Filters {
        Filters { bytes: Vec::with_capacity(if FILTERS { budget } else { 0 }) }
    }

    /// Bytes for the filter of a page with `keys` of the `of` keys that lie on `pages` pages.
    pub(super) fn share(&self, keys: usize, of: usize, pages: usize) -> usize {
        self.bytes.capacity().saturating_sub(pages * FILTER_BYTES) * keys / of.max(1)
    }

    /// Adds a filter of `bytes` bytes for the keys of a page, if the budget allows. An older filter of the
    /// page is removed.
    pub(super) fn insert(&mut self, page: Ppn, bytes: usize, keys: &dyn Keys) {
        if !FILTERS {
            return;
        }
        self.remove(page);
        let count = keys.count();
        let left = (self.bytes.capacity() - self.bytes.len()).saturating_sub(FILTER_BYTES);
        let bytes = bytes.min(left).min(0xff_ffff);
        // Below one bit a key the filter would hardly ever say no.
        if count == 0 || bytes * 8 < count {
            return;
        }
        // More than sixteen bits a key are not needed.
        let bytes = bytes.min(count * 2);
        // The best number of probes is ln 2 times the bits a key has.
        let probes = (bytes * 8 * 7 / (10 * count)).clamp(1, 8) as u8;
        self.bytes.extend_from_slice(&page.0.to_le_bytes());
        self.bytes.extend_from_slice(&[0; 8]);
        self.bytes.extend_from_slice(&((bytes as u32) << 8 | u32::from(probes)).to_le_bytes());
        let at = self.bytes.len();
        self.bytes.resize(at + bytes, 0);
        let (head, bits) = self.bytes.split_at_mut(at);
        let mut low = None;
        keys.tell(&mut |key| {
            low.get_or_insert_with(|| position(key));
            places(key, probes, bytes * 8).for_each(|bit| bits[bit / 8] |= 1 << (bit % 8));
        });
        head[at - 12..at - 4].copy_from_slice(&low.unwrap_or_default().to_le_bytes());
    }

    /// Offset of the filter of a page, and the filter.
    fn find(&self, page: Ppn) -> Option<(usize, Filter<'_>)> {
        let mut at = if FILTERS { 0 } else { return None };
        loop {
            let filter = Filter::read(&self.bytes[at..])?;
            if filter.page == page {
                return Some((at, filter));
            }
            at += FILTER_BYTES + filter.bits.len();
        }
    }

    pub(super) fn remove(&mut self, page: Ppn) {
        if let Some((at, filter)) = self.find(page) {
            let end = at + FILTER_BYTES + filter.bits.len();
            self.bytes.drain(at..end);
        }
    }

    /// The buffer, all of it, for other bytes.
    pub(super) fn into_buffer(self) -> Vec<u8> {
        let Filters { mut bytes } = self;
        bytes.resize(bytes.capacity(), 0);
        bytes
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Answer of the filter of a page about a key. `None` for a page without a filter.
    pub(super) fn ask(&self, page: Ppn, key: &[u8]) -> Option<Answer> {
        let (_, filter) = self.find(page)?;
        let at = position(key);
        if at < filter.low {
            return Some(Answer::Before);
        }
        // Keys with the same position may lie on either side of the first one.
        let is_certain = at > filter.low || key.len() <= 8;
        let is_set = |bit: usize| filter.bits[bit / 8] >> (bit % 8) & 1 == 1;
        let no = is_certain && !places(key, filter.probes, filter.bits.len() * 8).all(is_set);
        Some(if no { Answer::No } else { Answer::Maybe })
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

#[cfg(test)]
#[cfg(feature = "full")]
mod tests {
    use super::*;

    fn nth_key(i: usize) -> [u8; 4] {
        ((100 + i as u32) * 3).to_be_bytes()
    }

    /// A page of so many keys.
    struct Nth(usize);

    impl Keys for Nth {
        fn count(&self) -> usize {
            self.0
        }

        fn tell(&self, see: &mut dyn FnMut(&[u8])) {
            (0..self.0).for_each(|i| see(&nth_key(i)));
        }
    }

    #[test]
    fn a_filter_says_no_to_most_keys_that_are_not_there_and_to_none_that_is() {
        for (bytes, wrong_max) in [(160, 60), (400, 22), (1000, 3)] {
            let mut filters = Filters::new(10_000);
            filters.insert(Ppn(5), bytes, &Nth(400));
            assert!((0..400).all(|i| filters.ask(Ppn(5), &nth_key(i)) == Some(Answer::Maybe)));
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
        (0..20).for_each(|page| filters.insert(Ppn(page), 150, &Nth(300)));
        assert!(filters.ram_bytes() <= 1000 && filters.ask(Ppn(0), &[0; 4]).is_some());
        assert_eq!(filters.ask(Ppn(19), &[0; 4]), None);
        filters.remove(Ppn(0));
        filters.insert(Ppn(19), 150, &Nth(300));
        assert!(filters.ask(Ppn(19), &[0; 4]).is_some() && filters.ask(Ppn(0), &[0; 4]).is_none());
    }
}
