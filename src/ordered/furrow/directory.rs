//! The directory: the place of each record, in the order of their keys, with the first bytes of the keys.

use alloc::vec::Vec;
use core::ops::Range;

const PLACE_BYTES: usize = 4;

pub(super) struct Directory {
    rows: Vec<u8>,
    prefix: usize,
    /// Most rows.
    most: usize,
}

impl Directory {
    /// Bytes of a row.
    pub(super) const fn row_bytes(prefix: usize) -> usize {
        PLACE_BYTES + prefix
    }

    /// A directory that takes `most` rows; their memory is taken now if `at_once`.
    pub(super) fn new(prefix: usize, most: usize, at_once: bool) -> Directory {
        let bytes = if at_once { most * Directory::row_bytes(prefix) } else { 0 };
        Directory { rows: Vec::with_capacity(bytes), prefix, most }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len() / Directory::row_bytes(self.prefix)
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }

    pub(super) fn prefix_bytes(&self) -> usize {
        self.prefix
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.rows.capacity()
    }

    fn range(&self, at: usize) -> Range<usize> {
        let bytes = Directory::row_bytes(self.prefix);
        at * bytes..(at + 1) * bytes
    }

    pub(super) fn place(&self, at: usize) -> u32 {
        place_of(&self.rows[self.range(at)])
    }

    pub(super) fn prefix(&self, at: usize) -> &[u8] {
        &self.rows[self.range(at)][PLACE_BYTES..]
    }

    pub(super) fn set(&mut self, at: usize, place: u32) {
        let range = self.range(at);
        self.rows[range][..PLACE_BYTES].copy_from_slice(&place.to_le_bytes());
    }

    /// Adds a row; there is room for it.
    pub(super) fn insert(&mut self, at: usize, key: &[u8], place: u32) {
        let (range, end) = (self.range(at), self.rows.len());
        let bytes = range.len();
        if end + bytes > self.rows.capacity() {
            let more = (self.len() / 4).max(16).min((self.most - self.len()).max(1));
            self.rows.reserve_exact(more * bytes);
        }
        self.rows.resize(end + bytes, 0);
        self.rows.copy_within(range.start..end, range.end);
        self.rows[range.start + PLACE_BYTES..range.end].copy_from_slice(&key[..self.prefix]);
        self.set(at, place);
    }

    pub(super) fn remove(&mut self, at: usize) {
        let range = self.range(at);
        let end = self.rows.len();
        self.rows.copy_within(range.end..end, range.start);
        self.rows.truncate(end - range.len());
    }

    pub(super) fn places(&self) -> impl Iterator<Item = u32> + '_ {
        self.rows.chunks_exact(Directory::row_bytes(self.prefix)).map(place_of)
    }

    /// Gives records other places.
    pub(super) fn relocate(&mut self, mut new: impl FnMut(u32) -> Option<u32>) {
        for row in self.rows.chunks_exact_mut(Directory::row_bytes(self.prefix)) {
            if let Some(place) = new(place_of(row)) {
                row[..PLACE_BYTES].copy_from_slice(&place.to_le_bytes());
            }
        }
    }
}

fn place_of(row: &[u8]) -> u32 {
    let mut place = [0; PLACE_BYTES];
    place.copy_from_slice(&row[..PLACE_BYTES]);
    u32::from_le_bytes(place)
}

/// The records of a block that are to be copied, a bit each.
pub(super) struct Live {
    bits: Vec<u8>,
    /// Records before those of each page.
    before: Vec<u32>,
    slots: u32,
}

impl Live {
    pub(super) const fn ram_needed(slots: u32, pages: u32) -> usize {
        (slots.div_ceil(8) * pages + pages * 4) as usize
    }

    pub(super) fn new(slots: u32, pages: u32) -> Live {
        let bits = alloc::vec![0; (slots.div_ceil(8) * pages) as usize];
        Live { bits, before: alloc::vec![0; pages as usize], slots }
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.bits.capacity() + self.before.capacity() * 4
    }

    fn bit(&self, at: u32) -> (usize, u8) {
        let (page, slot) = (at / self.slots, at % self.slots);
        ((page * self.slots.div_ceil(8) + slot / 8) as usize, 1 << (slot % 8))
    }

    /// Takes the places within a block, and returns their number.
    pub(super) fn take(&mut self, places: impl Iterator<Item = u32>) -> u32 {
        self.bits.fill(0);
        for at in places {
            let (byte, mask) = self.bit(at);
            self.bits[byte] |= mask;
        }
        let bytes = self.slots.div_ceil(8) as usize;
        let mut sum = 0;
        for (page, before) in self.before.iter_mut().enumerate() {
            *before = sum;
            sum +=
                self.bits[page * bytes..(page + 1) * bytes].iter().map(|byte| byte.count_ones()).sum::<u32>();
        }
        sum
    }

    pub(super) fn has(&self, at: u32) -> bool {
        let (byte, mask) = self.bit(at);
        self.bits[byte] & mask != 0
    }

    /// Records before a place.
    pub(super) fn rank(&self, at: u32) -> u32 {
        let page = at / self.slots;
        let first = (page * self.slots.div_ceil(8)) as usize;
        let (byte, mask) = self.bit(at);
        let whole: u32 = self.bits[first..byte].iter().map(|byte| byte.count_ones()).sum();
        self.before[page as usize] + whole + (self.bits[byte] & (mask - 1)).count_ones()
    }
}
