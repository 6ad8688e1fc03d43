//! Records of any length in one array of bytes: keys from its front on, values from its end, each value
//! without the zeros at its end.
//!
//! ```text
//! | key 0 | key 1 | key 2 |            free            | value 2 | value 1 | value 0 |
//! ```
//!
//! Both are in key order. The length of each value is a byte of its own, so the place of a value is the sum
//! of the lengths before it.

use crate::ordered::RecordFormat;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// At most this many times as many records as fit with the longest values: each possible record takes a byte
/// of RAM.
const MORE: usize = 4;

/// Sorted keys and their values, without the zeros at the values' ends.
#[derive(Debug)]
pub(super) struct Narrow {
    key_bytes: usize,
    bytes: Vec<u8>,
    lengths: Vec<u8>,
    /// Bytes of all values.
    used: usize,
    most: usize,
}

impl Narrow {
    /// A table for `records` records whose values have no trailing zeros, or for more records with them.
    pub(super) fn new(record: RecordFormat, records: usize) -> Narrow {
        let most = Narrow::most(record, records);
        let bytes = vec![0; records * record.entry_bytes()];
        Narrow { key_bytes: record.key_bytes.into(), bytes, lengths: Vec::with_capacity(most), used: 0, most }
    }

    /// Largest number of records in the room of `records` records with the longest values. One more byte is
    /// held for each record.
    pub(super) fn most(record: RecordFormat, records: usize) -> usize {
        records * (record.entry_bytes() / (usize::from(record.key_bytes) + 1)).clamp(1, MORE)
    }

    pub(super) fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Bytes of all keys and values.
    pub(super) fn bytes(&self) -> usize {
        self.len() * self.key_bytes + self.used
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.bytes.capacity() + self.lengths.capacity()
    }

    /// True if `more` records of `bytes` bytes each fit once `gone` records of `gone_bytes` bytes are
    /// removed.
    pub(super) fn takes(&self, more: usize, bytes: usize, (gone, gone_bytes): (usize, usize)) -> bool {
        self.len() + more <= self.most + gone && self.bytes() + more * bytes <= self.bytes.len() + gone_bytes
    }

    pub(super) fn key(&self, i: usize) -> &[u8] {
        &self.bytes[i * self.key_bytes..(i + 1) * self.key_bytes]
    }

    pub(super) fn value(&self, i: usize) -> &[u8] {
        let end = self.end(i);
        &self.bytes[end - usize::from(self.lengths[i])..end]
    }

    /// Bytes of the keys and values of some records.
    pub(super) fn bytes_of(&self, records: Range<usize>) -> usize {
        records.len() * self.key_bytes + self.sum(records)
    }

    fn sum(&self, records: Range<usize>) -> usize {
        self.lengths[records].iter().map(|&length| usize::from(length)).sum()
    }

    /// Place behind value `i`.
    fn end(&self, i: usize) -> usize {
        self.bytes.len() - self.sum(0..i)
    }

    /// Moves the values from number `i` on, to make room for `bytes` bytes. Returns the end of that room.
    fn open(&mut self, i: usize, bytes: usize) -> usize {
        let (from, end) = (self.bytes.len() - self.used, self.end(i));
        self.bytes.copy_within(from..end, from - bytes);
        self.used += bytes;
        end
    }

    /// Removes the values of these records by moving later values over them.
    fn close(&mut self, records: Range<usize>) {
        let (from, end, gone) = (self.bytes.len() - self.used, self.end(records.start), self.sum(records));
        self.bytes.copy_within(from..end - gone, from + gone);
        self.used -= gone;
    }

    /// Inserts a record. There must be room.
    pub(super) fn insert(&mut self, i: usize, key: &[u8], value: &[u8]) {
        let keys = self.len() * self.key_bytes;
        let at = i * self.key_bytes;
        self.put_value(i, value, true);
        self.bytes.copy_within(at..keys, at + self.key_bytes);
        self.bytes[at..at + self.key_bytes].copy_from_slice(key);
    }

    /// Replaces the value of a record. There must be room.
    pub(super) fn replace(&mut self, i: usize, value: &[u8]) {
        self.close(i..i + 1);
        self.put_value(i, value, false);
    }

    fn put_value(&mut self, i: usize, value: &[u8], is_new: bool) {
        let end = value.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        // A record that is replaced has no bytes now.
        if is_new {
            self.lengths.insert(i, 0);
        } else {
            self.lengths[i] = 0;
        }
        let to = self.open(i, end);
        self.bytes[to - end..to].copy_from_slice(&value[..end]);
        self.lengths[i] = end as u8;
    }

    pub(super) fn remove(&mut self, records: Range<usize>) {
        let keys = self.len() * self.key_bytes;
        self.close(records.clone());
        self.bytes.copy_within(records.end * self.key_bytes..keys, records.start * self.key_bytes);
        self.lengths.drain(records);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn it_is_a_list() {
        let record = RecordFormat::new(3, 40);
        let (mut rng, mut model) = (Rng::new(3), Vec::<(Vec<u8>, Vec<u8>)>::new());
        let mut narrow = Narrow::new(record, 20);
        let mut held = 0;
        for round in 0..6000u32 {
            let key = vec![round as u8, (round >> 8) as u8, 1];
            let mut value = vec![0; rng.below(41) as usize];
            rng.fill(&mut value);
            // Some end with zeros.
            value.truncate(rng.below(41) as usize);
            while value.last() == Some(&0) {
                value.pop();
            }
            let i = rng.below(model.len() as u64 + 1) as usize;
            if narrow.takes(1, 43, (0, 0)) && rng.chance(2, 3) {
                let mut padded = value.clone();
                padded.resize(40, 0);
                narrow.insert(i, &key, &padded);
                model.insert(i, (key, value));
            } else if i < model.len() && rng.chance(1, 2) {
                // What a record takes at most is free once it is gone.
                if narrow.takes(1, 43, (1, narrow.bytes_of(i..i + 1))) {
                    narrow.replace(i, &value);
                    model[i].1 = value;
                }
            } else {
                let end = (i + rng.below(4) as usize).min(model.len());
                narrow.remove(i..end);
                model.drain(i..end);
            }
            held = held.max(model.len());
            assert_eq!(narrow.len(), model.len());
            assert_eq!(narrow.bytes(), model.iter().map(|(_, value)| 3 + value.len()).sum::<usize>());
            let same = |(i, (key, value)): (usize, &(Vec<u8>, Vec<u8>))| {
                narrow.key(i) == key && narrow.value(i) == value
            };
            assert!(model.iter().enumerate().all(same), "round {round}");
        }
        // Twice as many as with values of 40 bytes.
        assert!(held > 30, "{held}");
        assert_eq!(narrow.ram_bytes(), 20 * 43 + Narrow::most(record, 20));
    }
}
