//! Operation records, sorted runs of them, and the merge, in which the newer record of a key wins.
//!
//! ```text
//! kind (1) | key | value, of which a removal has zeros |
//! ```

use alloc::vec::Vec;
use core::cmp::Ordering;
use core::ops::Range;
use nandex::ordered::change::Change;
use nandex::ordered::{Bounds, Direction, RecordFormat, entries_within};

/// The kind of a record that gives its key a value.
pub(in crate::ordered) const PUT: u8 = 1;
/// The kind of a record that removes its key: a tombstone.
pub(in crate::ordered) const REMOVE: u8 = 2;

/// The widths of a record's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ordered) struct Shape {
    pub(in crate::ordered) key: usize,
    pub(in crate::ordered) value: usize,
}

impl Shape {
    pub(in crate::ordered) const fn of(record: RecordFormat) -> Shape {
        Shape { key: record.key_bytes as usize, value: record.value_bytes as usize }
    }

    pub(in crate::ordered) const fn bytes(&self) -> usize {
        1 + self.key + self.value
    }
}

/// Encoded records, one after the other.
#[derive(Clone, Copy, Debug)]
pub(in crate::ordered) struct Records<'a> {
    pub(in crate::ordered) shape: Shape,
    pub(in crate::ordered) bytes: &'a [u8],
}

impl<'a> Records<'a> {
    pub(in crate::ordered) fn len(&self) -> usize {
        self.bytes.len() / self.shape.bytes()
    }

    pub(in crate::ordered) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(in crate::ordered) fn at(&self, i: usize) -> &'a [u8] {
        debug_assert!(i < self.len(), "record {i} of {}", self.len());
        let width = self.shape.bytes();
        &self.bytes[i * width..(i + 1) * width]
    }

    pub(in crate::ordered) fn kind(&self, i: usize) -> u8 {
        debug_assert!(i < self.len(), "record {i} of {}", self.len());
        self.bytes[i * self.shape.bytes()]
    }

    pub(in crate::ordered) fn key(&self, i: usize) -> &'a [u8] {
        &self.at(i)[1..=self.shape.key]
    }

    pub(in crate::ordered) fn value(&self, i: usize) -> &'a [u8] {
        &self.at(i)[1 + self.shape.key..]
    }

    pub(in crate::ordered) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.key(middle).cmp(key) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(middle),
            }
        }
        debug_assert!(low == 0 || self.key(low - 1) < key, "the record before place {low} is not below");
        debug_assert!(low == self.len() || self.key(low) > key, "the record at place {low} is not above");
        Err(low)
    }

    pub(in crate::ordered) fn find(&self, key: &[u8]) -> Option<(u8, &'a [u8])> {
        self.search(key).ok().map(|i| (self.kind(i), self.value(i)))
    }

    pub(in crate::ordered) fn lower_bound(&self, key: &[u8]) -> usize {
        self.search(key).unwrap_or_else(|at| at)
    }

    pub(in crate::ordered) fn within(&self, bounds: Bounds<'_>) -> Range<usize> {
        entries_within(bounds, self.len(), |key| self.search(key))
    }

    pub(in crate::ordered) fn slice(&self, range: Range<usize>) -> Records<'a> {
        debug_assert!(range.end <= self.len(), "records {range:?} of {}", self.len());
        let width = self.shape.bytes();
        Records { bytes: &self.bytes[range.start * width..range.end * width], ..*self }
    }

    /// Number of records with a value.
    pub(in crate::ordered) fn puts(&self) -> usize {
        (0..self.len()).filter(|&i| self.kind(i) == PUT).count()
    }

    /// Whether keys ascend strictly and all kinds are among these.
    pub(in crate::ordered) fn are_sorted_of(&self, kinds: &[u8]) -> bool {
        (0..self.len()).all(|i| kinds.contains(&self.kind(i)) && (i == 0 || self.key(i - 1) < self.key(i)))
    }

    /// Shows two sorted sequences as one, in this direction. Of two records with the same key only the
    /// newer one, in `self`, is shown. Ends when `show` returns false.
    pub(in crate::ordered) fn merge(
        &self,
        older: Records<'_>,
        direction: Direction,
        show: &mut dyn FnMut(&[u8]) -> bool,
    ) {
        debug_assert_eq!(self.shape.bytes(), older.shape.bytes(), "records of other sizes are merged");
        let place = |i: usize, len: usize| if direction == Direction::Ascending { i } else { len - 1 - i };
        let (news, olds) = (self.len(), older.len());
        let (mut i, mut j) = (0, 0);
        while i < news || j < olds {
            let order = match (i < news, j < olds) {
                (true, true) => {
                    let order = self.key(place(i, news)).cmp(older.key(place(j, olds)));
                    if direction == Direction::Ascending { order } else { order.reverse() }
                }
                (true, false) => Ordering::Less,
                _ => Ordering::Greater,
            };
            let record =
                if order == Ordering::Greater { older.at(place(j, olds)) } else { self.at(place(i, news)) };
            if !show(record) {
                return;
            }
            i += usize::from(order != Ordering::Greater);
            j += usize::from(order != Ordering::Less);
        }
    }
}

/// Owned records, sorted by key, one for each key.
#[derive(Clone, Debug)]
pub(in crate::ordered) struct Run {
    pub(in crate::ordered) shape: Shape,
    pub(in crate::ordered) bytes: Vec<u8>,
}

impl Run {
    pub(in crate::ordered) const fn new(shape: Shape) -> Run {
        Run { shape, bytes: Vec::new() }
    }

    pub(in crate::ordered) fn all(&self) -> Records<'_> {
        Records { shape: self.shape, bytes: &self.bytes }
    }

    pub(in crate::ordered) fn len(&self) -> usize {
        self.all().len()
    }

    pub(in crate::ordered) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Appends a record. Its key must be above all others.
    pub(in crate::ordered) fn push(&mut self, record: &[u8]) {
        debug_assert!(record.len().is_multiple_of(self.shape.bytes()), "a record is cut short");
        self.bytes.extend_from_slice(record);
    }

    /// Appends a record made of these fields. Its key must be above all others; a removal has an empty
    /// value.
    pub(in crate::ordered) fn push_fields(&mut self, kind: u8, key: &[u8], value: &[u8]) {
        debug_assert!(
            key.len() == self.shape.key && value.len() <= self.shape.value,
            "a record of another size"
        );
        let end = self.bytes.len() + self.shape.bytes();
        self.bytes.push(kind);
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.bytes.resize(end, 0);
    }

    /// Adds a change, or replaces the older record of its key.
    pub(in crate::ordered) fn put(&mut self, change: Change<'_>) {
        debug_assert_eq!(change.key.len(), self.shape.key, "a key of another width");
        let width = self.shape.bytes();
        let (at, found) = match self.all().search(change.key) {
            Ok(at) => (at * width, true),
            Err(at) => (at * width, false),
        };
        if !found {
            let end = self.bytes.len();
            self.bytes.resize(end + width, 0);
            self.bytes.copy_within(at..end, at + width);
        }
        let record = &mut self.bytes[at..at + width];
        record[0] = if change.value.is_some() { PUT } else { REMOVE };
        record[1..=self.shape.key].copy_from_slice(change.key);
        let value = &mut record[1 + self.shape.key..];
        value.fill(0);
        if let Some(given) = change.value {
            value[..given.len()].copy_from_slice(given);
        }
    }

    pub(in crate::ordered) fn remove(&mut self, key: &[u8]) -> bool {
        match self.all().search(key) {
            Ok(at) => drop(self.take(at..at + 1)),
            Err(_) => return false,
        }
        true
    }

    pub(in crate::ordered) fn take(&mut self, range: Range<usize>) -> Run {
        debug_assert!(range.end <= self.len(), "records {range:?} of {}", self.len());
        let width = self.shape.bytes();
        Run { bytes: self.bytes.drain(range.start * width..range.end * width).collect(), ..*self }
    }

    /// Merges this run with newer records above it. Without `keeps_tombstones` no tombstone stays, as if
    /// nothing older were left.
    pub(in crate::ordered) fn under(&self, newer: Records<'_>, keeps_tombstones: bool) -> Run {
        let mut merged = Run::new(self.shape);
        merged.bytes.reserve_exact(self.bytes.len() + newer.bytes.len());
        newer.merge(self.all(), Direction::Ascending, &mut |record| {
            if keeps_tombstones || record[0] != REMOVE {
                merged.push(record);
            }
            true
        });
        debug_assert!(merged.len() <= self.len() + newer.len(), "T1: a merge made records");
        merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use core::ops::Bound;
    use nandex::rng::Rng;

    const SHAPE: Shape = Shape { key: 2, value: 1 };

    #[test]
    fn newer_records_speak_for_their_keys() {
        let mut rng = Rng::new(4);
        for _ in 0..200 {
            let (mut older, mut newer, mut model) = (Run::new(SHAPE), Run::new(SHAPE), BTreeMap::new());
            for _ in 0..40 {
                let (key, value) = ([0, rng.below(30) as u8], [rng.next_u64() as u8]);
                older.put(Change { key: &key, value: Some(&value) });
                model.insert(key, value);
            }
            for _ in 0..20 {
                let (key, value) = ([0, rng.below(40) as u8], [rng.next_u64() as u8]);
                let value = rng.chance(1, 2).then_some(value);
                newer.put(Change { key: &key, value: value.as_ref().map(|v| &v[..]) });
                model.remove(&key);
                model.extend(value.map(|value| (key, value)));
            }
            let merged = older.under(newer.all(), false);
            assert!(merged.all().are_sorted_of(&[PUT]));
            let mut down = Run::new(SHAPE);
            newer.all().merge(older.all(), Direction::Descending, &mut |record| {
                down.bytes.splice(0..0, record.iter().copied());
                true
            });
            assert_eq!(down.bytes, older.under(newer.all(), true).bytes);
            let found: Vec<_> =
                (0..merged.len()).map(|i| (merged.all().key(i), merged.all().value(i))).collect();
            let expected: Vec<_> = model.iter().map(|(k, v)| (&k[..], &v[..])).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn bounds_choose_records() {
        let mut run = Run::new(SHAPE);
        for n in [3, 5, 9] {
            run.push_fields(PUT, &[0, n], &[n]);
        }
        let key = |n: u8| [0, n];
        let count = |low: Bound<u8>, high: Bound<u8>| {
            let (low, high) = (low.map(key), high.map(key));
            run.all().within((low.as_ref().map(|k| &k[..]), high.as_ref().map(|k| &k[..]))).len()
        };
        assert_eq!(count(Bound::Included(3), Bound::Excluded(9)), 2);
        assert_eq!(count(Bound::Excluded(3), Bound::Included(9)), 2);
        assert_eq!(count(Bound::Included(6), Bound::Excluded(4)), 0);
        assert_eq!(count(Bound::Unbounded, Bound::Unbounded), 3);
        assert!(run.remove(&key(5)) && !run.remove(&key(5)) && run.len() == 2);
    }
}
