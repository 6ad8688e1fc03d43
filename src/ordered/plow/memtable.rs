//! The records that wait in RAM: sorted, in one array, each with two flags.

use crate::ordered::RecordFormat;
use alloc::vec::Vec;

const TOMBSTONE: u8 = 1;
const UNSEALED: u8 = 2;

/// What the memtable held of a key before a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Before {
    key: Vec<u8>,
    /// Its record with flags; none if there was none.
    record: Option<Vec<u8>>,
}

/// Sorted records: key, value, flags.
#[derive(Debug)]
pub(super) struct Memtable {
    record: RecordFormat,
    bytes: Vec<u8>,
    capacity: u32,
    /// Records that no sealed page holds.
    unsealed: u32,
}

impl Memtable {
    /// Room for so many records, and for one more that a change may bring before a step makes room.
    pub(super) fn new(record: RecordFormat, capacity: usize) -> Memtable {
        let bytes = Vec::with_capacity((capacity + 1) * (record.entry_bytes() + 1));
        Memtable { record, bytes, capacity: capacity as u32, unsealed: 0 }
    }

    fn stride(&self) -> usize {
        self.record.entry_bytes() + 1
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len() / self.stride()
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity as usize
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= self.capacity()
    }

    fn entry(&self, i: usize) -> &[u8] {
        &self.bytes[i * self.stride()..(i + 1) * self.stride()]
    }

    /// Key `i`.
    pub(super) fn key(&self, i: usize) -> &[u8] {
        &self.entry(i)[..usize::from(self.record.key_bytes)]
    }

    /// Value `i`, none for a tombstone.
    pub(super) fn value(&self, i: usize) -> Option<&[u8]> {
        let entry = self.entry(i);
        let is_tombstone = entry[entry.len() - 1] & TOMBSTONE != 0;
        (!is_tombstone).then(|| &entry[usize::from(self.record.key_bytes)..entry.len() - 1])
    }

    /// Whether no sealed page holds record `i`.
    pub(super) fn is_unsealed(&self, i: usize) -> bool {
        self.entry(i)[self.stride() - 1] & UNSEALED != 0
    }

    /// Records that no sealed page holds.
    pub(super) fn unsealed(&self) -> usize {
        self.unsealed as usize
    }

    /// Notes that a sealed page holds record `i`.
    pub(super) fn seal(&mut self, i: usize) {
        self.unsealed -= u32::from(self.is_unsealed(i));
        let at = (i + 1) * self.stride() - 1;
        self.bytes[at] &= !UNSEALED;
    }

    /// Forgets what sealed pages hold.
    pub(super) fn unseal_all(&mut self) {
        let stride = self.stride();
        self.bytes.chunks_mut(stride).for_each(|entry| entry[stride - 1] |= UNSEALED);
        self.unsealed = self.len() as u32;
    }

    /// The first record whose key is not below this one.
    pub(super) fn lower_bound(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            if self.key(middle) < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The record of a key: where it is, or where it belongs.
    pub(super) fn find(&self, key: &[u8]) -> Result<usize, usize> {
        let at = self.lower_bound(key);
        if at < self.len() && self.key(at) == key { Ok(at) } else { Err(at) }
    }

    /// Puts a value, or a tombstone; returns what was there.
    pub(super) fn put(&mut self, key: &[u8], value: Option<&[u8]>, is_sealed: bool) -> Before {
        let found = self.find(key);
        let stride = self.stride();
        let (at, record) = match found {
            Ok(i) => {
                self.unsealed -= u32::from(self.is_unsealed(i));
                (i * stride, Some(self.entry(i).to_vec()))
            }
            Err(i) => {
                let at = i * stride;
                let end = self.bytes.len();
                self.bytes.resize(end + stride, 0);
                self.bytes.copy_within(at..end, at + stride);
                (at, None)
            }
        };
        let entry = &mut self.bytes[at..at + stride];
        let (body, flags) = entry.split_at_mut(stride - 1);
        body[..key.len()].copy_from_slice(key);
        match value {
            Some(value) => body[key.len()..].copy_from_slice(value),
            None => body[key.len()..].fill(0),
        }
        flags[0] = if value.is_none() { TOMBSTONE } else { 0 } | if is_sealed { 0 } else { UNSEALED };
        self.unsealed += u32::from(!is_sealed);
        Before { key: key.to_vec(), record }
    }

    /// Takes a change back, unless the key went to a level since.
    pub(super) fn restore(&mut self, before: &Before) {
        let stride = self.stride();
        let Ok(i) = self.find(&before.key) else { return };
        let place = i * stride..(i + 1) * stride;
        self.unsealed -= u32::from(self.is_unsealed(i));
        match &before.record {
            Some(record) => {
                self.bytes[place].copy_from_slice(record);
                self.unsealed += u32::from(self.is_unsealed(i));
            }
            None => drop(self.bytes.drain(place)),
        }
    }

    /// Removes the records from one key on to another, to the end if there is none.
    pub(super) fn remove_range(&mut self, from: &[u8], to: Option<&[u8]>) {
        let low = self.lower_bound(from);
        let high = to.map_or(self.len(), |to| self.lower_bound(to));
        let (stride, high) = (self.stride(), high.max(low));
        self.unsealed -= (low..high).filter(|&i| self.is_unsealed(i)).count() as u32;
        self.bytes.drain(low * stride..high * stride);
    }

    /// Bytes held.
    pub(super) fn ram_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::collections::BTreeMap;

    #[test]
    fn it_is_a_map() {
        let mut rng = Rng::new(2);
        let mut table = Memtable::new(RecordFormat::new(2, 1), 200);
        let mut model: BTreeMap<[u8; 2], Option<u8>> = BTreeMap::new();
        for round in 0..4000u32 {
            let key = (rng.below(300) as u16).to_be_bytes();
            let value = rng.chance(3, 4).then_some(round as u8);
            let before = table.put(&key, value.as_ref().map(core::slice::from_ref), false);
            if rng.chance(1, 5) {
                table.restore(&before);
            } else {
                model.insert(key, value);
            }
            if round % 100 == 99 {
                let low = (rng.below(300) as u16).to_be_bytes();
                let high = (u16::from_be_bytes(low) + 40).to_be_bytes();
                table.remove_range(&low, Some(&high));
                model.retain(|key, _| !(low..high).contains(key));
            }
            assert_eq!(table.len(), model.len());
            let at = rng.below(300) as usize;
            if round % 10 == 9 && at < table.len() {
                table.seal(at);
            }
            assert_eq!(table.unsealed(), (0..table.len()).filter(|&i| table.is_unsealed(i)).count());
        }
        for (i, (key, value)) in model.iter().enumerate() {
            assert_eq!((table.key(i), table.value(i).map(|value| value[0])), (&key[..], *value));
        }
        table.remove_range(&[], None);
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn a_change_breaks_the_seal() {
        let mut table = Memtable::new(RecordFormat::new(2, 1), 10);
        table.put(&[1, 1], Some(&[1]), false);
        table.put(&[1, 2], Some(&[1]), false);
        (0..2).for_each(|i| table.seal(i));
        table.put(&[1, 2], None, false);
        assert!(!table.is_unsealed(0) && table.is_unsealed(1));
        table.unseal_all();
        assert!(table.is_unsealed(0));
    }
}
