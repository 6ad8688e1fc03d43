//! The children of an inner node: a bound and a unit each.

use super::record::Records;
use alloc::vec::Vec;
use core::ops::Range;
use nandex::codec::get_u32;

pub(super) const CHILD_BYTES: usize = 4;

/// The children of an inner node, a bound and a unit for each.
#[derive(Clone, Debug)]
pub(in crate::ordered) struct Children {
    pub(super) key: usize,
    pub(super) bytes: Vec<u8>,
}

impl Children {
    pub(in crate::ordered) const fn new(key: usize) -> Children {
        Children { key, bytes: Vec::new() }
    }

    pub(super) fn width(&self) -> usize {
        self.key + CHILD_BYTES
    }

    pub(in crate::ordered) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(in crate::ordered) fn len(&self) -> usize {
        self.bytes.len() / self.width()
    }

    pub(in crate::ordered) fn key(&self, i: usize) -> &[u8] {
        debug_assert!(i < self.len(), "child {i} of {}", self.len());
        &self.bytes[i * self.width()..][..self.key]
    }

    pub(in crate::ordered) fn unit(&self, i: usize) -> u32 {
        debug_assert!(i < self.len(), "child {i} of {}", self.len());
        get_u32(&self.bytes, i * self.width() + self.key)
    }

    pub(in crate::ordered) fn push(&mut self, key: &[u8], unit: u32) {
        debug_assert_eq!(key.len(), self.key, "a bound of another width");
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(&unit.to_le_bytes());
    }

    /// The child that a key belongs to.
    pub(in crate::ordered) fn slot(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (1, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.key(middle) <= key { low = middle + 1 } else { high = middle }
        }
        debug_assert!(low <= 1 || self.key(low - 1) <= key, "T1: the bound of child {} is above", low - 1);
        debug_assert!(low >= self.len() || self.key(low) > key, "T1: the bound of child {low} is not above");
        low.saturating_sub(1)
    }

    /// Replaces a child by several. The first of them gets the bound of the old child.
    pub(super) fn replace(&mut self, i: usize, by: &Children) {
        debug_assert!(i < self.len() && by.width() == self.width(), "child {i} of {}", self.len());
        let (at, width) = (i * self.width(), self.width());
        let bound: Vec<u8> = self.key(i).into();
        self.bytes.splice(at..at + width, by.bytes.iter().copied());
        if by.len() > 0 {
            self.bytes[at..at + self.key].copy_from_slice(&bound);
        }
    }

    pub(in crate::ordered) fn remove(&mut self, range: Range<usize>) {
        debug_assert!(range.end <= self.len(), "children {range:?} of {}", self.len());
        let width = self.width();
        self.bytes.drain(range.start * width..range.end * width);
    }

    /// The range of records that belong to child `i`.
    pub(in crate::ordered) fn records_of(&self, i: usize, records: Records<'_>) -> Range<usize> {
        debug_assert!(i < self.len(), "child {i} of {}", self.len());
        let from = if i == 0 { 0 } else { records.lower_bound(self.key(i)) };
        let to = if i + 1 == self.len() { records.len() } else { records.lower_bound(self.key(i + 1)) };
        from..to.max(from)
    }

    pub(super) fn slice(&self, range: Range<usize>) -> Children {
        let width = self.width();
        Children { bytes: self.bytes[range.start * width..range.end * width].to_vec(), ..*self }
    }
}
