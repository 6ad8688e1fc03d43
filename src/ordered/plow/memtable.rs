//! The memtable: the records that wait in RAM, sorted, with two flags for each ([`Row`]).
//! Records that are trimmed on pages are held without their zeros as well ([`Narrow`]).

use super::clean::Clean;
use super::coder::{TRIMS, is_trimmed};
use super::commit::SEALS;
use super::narrow::Narrow;
use super::row::{Row, UNSEALED};
use crate::ordered::RecordFormat;
use crate::sort;
use alloc::boxed::Box;
use alloc::vec::Vec;

const TOMBSTONE: u8 = 1;
/// Bytes before each record while the memtable is made anew.
const POURED_BYTES: usize = 2;
/// True if this build lends RAM to clean records.
pub(super) const LENDS: bool = cfg!(feature = "full");
/// A memtable lends only if it has this many records: an eighth of fewer would be next to nothing.
const LENDER_MIN: u32 = 64;

/// Flags of an entry that was not there.
const NO_ENTRY: u8 = u8::MAX;

/// Bytes that take note of the entry of a key before a change: its value, and behind it its flags.
pub(super) fn before_bytes(record: RecordFormat) -> usize {
    usize::from(record.value_bytes) + 1
}

/// Sorted records: keys with values, and their flags.
#[derive(Debug)]
pub(super) struct Memtable {
    pub(super) record: RecordFormat,
    /// The records, or their flags alone if they are narrow, and behind the places the room that is lent to
    /// clean records.
    row: Row,
    #[cfg(feature = "full")]
    narrow: Option<Box<Narrow>>,
    capacity: u32,
    /// Number of records whose room is lent to clean records.
    lent: u32,
}

impl Memtable {
    /// A memtable with room for `capacity` records, and for the one more that a change may bring before a
    /// step makes room. If records are held without zeros, more may fit.
    pub(super) fn new(record: RecordFormat, capacity: usize) -> Memtable {
        let records = capacity + 1;
        let (stride, places) = Memtable::row_of(record, records);
        Memtable {
            record,
            row: Row::new(stride, places),
            #[cfg(feature = "full")]
            narrow: is_trimmed(record).then(|| Box::new(Narrow::new(record, records))),
            capacity: capacity as u32,
            lent: 0,
        }
    }

    /// Bytes of a record in the row, and its places.
    fn row_of(record: RecordFormat, records: usize) -> (usize, usize) {
        if is_trimmed(record) { (0, Narrow::most(record, records)) } else { (record.entry_bytes(), records) }
    }

    /// Bytes for a memtable of `capacity` records.
    pub(super) fn bytes_of(record: RecordFormat, capacity: usize) -> usize {
        let records = capacity + 1;
        let besides =
            if is_trimmed(record) { Narrow::most(record, records) + size_of::<Narrow>() } else { 0 };
        let (stride, places) = Memtable::row_of(record, records);
        records * record.entry_bytes() + besides + Row::besides(stride, places)
    }

    #[cfg(feature = "full")]
    fn narrow(&self) -> Option<&Narrow> {
        self.narrow.as_deref()
    }

    #[cfg(not(feature = "full"))]
    fn narrow(&self) -> Option<&Narrow> {
        None
    }

    #[cfg(feature = "full")]
    fn narrow_mut(&mut self) -> Option<&mut Narrow> {
        self.narrow.as_deref_mut()
    }

    #[cfg(not(feature = "full"))]
    fn narrow_mut(&mut self) -> Option<&mut Narrow> {
        None
    }

    fn stride(&self) -> usize {
        self.record.entry_bytes()
    }

    fn flags(&self, i: usize) -> u8 {
        self.row.flags(i)
    }

    pub(super) fn len(&self) -> usize {
        self.row.len()
    }

    /// Number of records for which there is room, whatever their values are.
    pub(super) fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// Number of records for which there is room if new ones are like those present.
    pub(super) fn likely_capacity(&self) -> usize {
        match self.narrow() {
            Some(narrow) if narrow.len() > 0 => {
                let all = (self.capacity() + 1) * self.stride();
                (all * narrow.len() / narrow.bytes())
                    .clamp(self.capacity(), Narrow::most(self.record, self.capacity()))
            }
            _ => self.capacity() - self.lent(),
        }
    }

    pub(super) fn lent(&self) -> usize {
        if LENDS { self.lent as usize } else { 0 }
    }

    /// Number of records in `eighths` eighths of the memtable. 0 for a small memtable, and for one that
    /// stores records without trailing zeros, whose values use the room to be lent.
    pub(super) fn lendable(&self, eighths: u32) -> usize {
        if self.narrow().is_some() || self.capacity < LENDER_MIN {
            return 0;
        }
        (self.capacity * eighths / 8) as usize
    }

    /// Lends the room of `records` records, cleared, if the memtable holds few enough; 0 takes all back. True
    /// if that was done.
    pub(super) fn lend(&mut self, records: usize) -> bool {
        let fits = self.len() + 2 + records <= self.capacity() + 1;
        if fits {
            self.row.set_places(self.row.places() + self.lent() - records);
            self.lent = records as u32;
            if records > 0 {
                self.clean().clear();
            }
        }
        fits
    }

    fn clean(&mut self) -> Clean<'_> {
        let stride = self.stride();
        let from = self.row.places() * stride;
        Clean { key_bytes: self.record.key_bytes.into(), stride, bytes: &mut self.row.bytes[from..] }
    }

    pub(super) fn clean_value(&mut self, key: &[u8], value: Option<&mut [u8]>) -> bool {
        if self.lent() == 0 {
            return false;
        }
        let mut clean = self.clean();
        let found = clean.get(key);
        if let (Some(found), Some(value)) = (found, value) {
            value.copy_from_slice(found);
        }
        found.is_some()
    }

    /// Keeps a clean copy of a record found on flash. There must be no copy yet.
    pub(super) fn keep_clean(&mut self, key: &[u8], value: &[u8]) {
        if self.lent() > 0 {
            self.clean().keep(key, value);
        }
    }

    /// Keys and values of all clean records.
    pub(super) fn clean_records(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut records = Vec::new();
        if self.lent() > 0 {
            self.clean().for_each(&mut |key, value| records.push((key.to_vec(), value.to_vec())));
        }
        records
    }

    /// True if there is room for `more` records. A change that is entered before a step makes room counts as
    /// one of them.
    pub(super) fn takes(&self, more: usize) -> bool {
        match self.narrow() {
            Some(narrow) => narrow.takes(more, self.stride(), (0, 0)),
            None => self.len() + more + self.lent() <= self.capacity() + 1,
        }
    }

    /// True if one record more fits once the `gone` records from `from` up to `to` are removed.
    pub(super) fn takes_without(&self, from: &[u8], to: Option<&[u8]>, gone: usize) -> bool {
        let Some(narrow) = self.narrow() else {
            return self.len() - gone + self.lent() < self.capacity();
        };
        let low = self.lower_bound(from);
        let high = to.map_or(self.len(), |to| self.lower_bound(to)).max(low);
        narrow.takes(2, self.stride(), (high - low, narrow.bytes_of(low..high)))
    }

    pub(super) fn is_full(&self) -> bool {
        !self.takes(2)
    }

    /// True if the memtable is full after a few records more, or after lending the room of `besides` records.
    pub(super) fn is_nearly_full(&self, besides: usize) -> bool {
        !self.takes(2 + (self.capacity() / 16).min(2) + besides)
    }

    /// Upper bound of the bytes in pages for `records` records: those present, or some of them and others.
    /// The bound does not grow when the others are added.
    pub(super) fn packed_bytes_max(&self, records: usize) -> usize {
        let of_any = records * (self.stride() + 1);
        let Some(narrow) = self.narrow() else { return of_any };
        // Three bytes a record: the flag, the lengths, and what the key's number may take above its bytes.
        let with = |records: usize, bytes: usize| records * 3 + bytes;
        let others = records.saturating_sub(narrow.len());
        let of_these = with(narrow.len(), narrow.bytes());
        of_any.min(of_these + with(others, others * self.stride()))
    }

    pub(super) fn key(&self, i: usize) -> &[u8] {
        match self.narrow() {
            Some(narrow) => narrow.key(i),
            None => &self.row.entry(i)[..usize::from(self.record.key_bytes)],
        }
    }

    /// Bytes of value `i`, perhaps without zeros at its end. For a tombstone they mean nothing.
    fn value_or_none(&self, i: usize) -> &[u8] {
        match self.narrow() {
            Some(narrow) => narrow.value(i),
            None => &self.row.entry(i)[usize::from(self.record.key_bytes)..],
        }
    }

    /// Value `i`, `None` for a tombstone. Zeros at its end may be missing.
    pub(super) fn value(&self, i: usize) -> Option<&[u8]> {
        let is_tombstone = self.flags(i) & TOMBSTONE != 0;
        (!is_tombstone).then(|| self.value_or_none(i))
    }

    /// Key and value `i`, as [`value`](Memtable::value) gives it.
    pub(super) fn get(&self, i: usize) -> (&[u8], Option<&[u8]>) {
        if self.narrow().is_some() {
            return (self.key(i), self.value(i));
        }
        let (entry, flags) = self.row.get(i);
        let (key, value) = entry.split_at(self.record.key_bytes.into());
        (key, (flags & TOMBSTONE == 0).then_some(value))
    }

    /// Copies value `i` with all its zeros; false for a tombstone.
    pub(super) fn copy_value(&self, i: usize, to: &mut [u8]) -> bool {
        let Some(value) = self.value(i) else { return false };
        if !TRIMS {
            to.copy_from_slice(value);
            return true;
        }
        let (there, left_out) = to.split_at_mut(value.len());
        there.copy_from_slice(value);
        left_out.fill(0);
        true
    }

    /// True if no sealed page holds record `i`.
    pub(super) fn is_unsealed(&self, i: usize) -> bool {
        !SEALS || self.flags(i) & UNSEALED != 0
    }

    /// Index of the first record from number `from` on that no sealed page holds.
    pub(super) fn next_unsealed(&self, from: usize) -> Option<usize> {
        if !SEALS {
            return (from < self.len()).then_some(from);
        }
        self.row.next_unsealed(from)
    }

    /// Index of the last record that no sealed page holds.
    pub(super) fn last_unsealed(&self) -> Option<usize> {
        if SEALS { self.row.last_unsealed() } else { self.len().checked_sub(1) }
    }

    pub(super) fn unsealed(&self) -> usize {
        if SEALS { self.row.unsealed() } else { self.len() }
    }

    /// Notes that a sealed page holds record `i`.
    pub(super) fn seal(&mut self, i: usize) {
        self.row.set_flags(i, self.flags(i) & !UNSEALED);
    }

    /// Notes that no sealed page holds any record.
    pub(super) fn unseal_all(&mut self) {
        if SEALS {
            (0..self.len()).for_each(|i| self.row.set_flags(i, self.flags(i) | UNSEALED));
        }
    }

    /// Index of the first record whose key is not below `key`.
    pub(super) fn lower_bound(&self, key: &[u8]) -> usize {
        sort::search(0..self.len(), |i| self.key(i).cmp(key)).unwrap_or_else(|above| above)
    }

    /// Index of the record of a key. `Err` has the index at which it would be inserted.
    pub(super) fn find(&self, key: &[u8]) -> Result<usize, usize> {
        let at = self.lower_bound(key);
        if at < self.len() && self.key(at) == key { Ok(at) } else { Err(at) }
    }

    /// Gives a key a value, or a tombstone.
    pub(super) fn put(&mut self, key: &[u8], value: Option<&[u8]>, is_sealed: bool) {
        let found = self.find(key);
        self.put_at(found, key, (value, is_sealed));
    }

    /// Does as `put`, and notes the entry before in `before` ([`before_bytes`] long), to undo this. Returns
    /// false if there was none.
    pub(super) fn change(&mut self, key: &[u8], value: Option<&[u8]>, before: &mut [u8]) -> bool {
        let found = self.find(key);
        if let Some((flags, of_value)) = before.split_last_mut() {
            *flags = NO_ENTRY;
            if let Ok(i) = found {
                let held = self.value_or_none(i);
                of_value[..held.len()].copy_from_slice(held);
                of_value[held.len()..].fill(0);
                *flags = self.flags(i);
            }
        }
        self.put_at(found, key, (value, false));
        found.is_ok()
    }

    fn put_at(&mut self, found: Result<usize, usize>, key: &[u8], (value, is_sealed): (Option<&[u8]>, bool)) {
        if self.lent() > 0 {
            self.clean().forget(key);
        }
        let is_new = found.is_err();
        let i = found.unwrap_or_else(|above| above);
        if is_new {
            self.row.insert(i);
        }
        match self.narrow_mut() {
            Some(narrow) if is_new => narrow.insert(i, key, value.unwrap_or(&[])),
            Some(narrow) => narrow.replace(i, value.unwrap_or(&[])),
            None => {
                let (of_key, of_value) = self.row.entry_mut(i).split_at_mut(key.len());
                of_key.copy_from_slice(key);
                match value {
                    Some(value) => of_value.copy_from_slice(value),
                    None => of_value.fill(0),
                }
            }
        }
        let is_tombstone = if value.is_none() { TOMBSTONE } else { 0 };
        self.row.set_flags(i, is_tombstone | if is_sealed { 0 } else { UNSEALED });
    }

    /// Undoes the change of a key, unless its record was moved to a level since.
    pub(super) fn restore(&mut self, key: &[u8], before: &[u8]) {
        let (Ok(i), Some((&flags, value))) = (self.find(key), before.split_last()) else { return };
        if flags == NO_ENTRY {
            self.drain(i, i + 1);
            return;
        }
        match self.narrow_mut() {
            Some(narrow) => narrow.replace(i, value),
            None => self.row.entry_mut(i)[key.len()..].copy_from_slice(value),
        }
        self.row.set_flags(i, flags);
    }

    /// True if all records fit into a buffer of so many bytes (`pour`).
    pub(super) fn fits_poured(&self, bytes: usize) -> bool {
        let of_records = match self.narrow() {
            Some(narrow) => narrow.bytes(),
            None => self.len() * self.stride(),
        };
        self.len() * POURED_BYTES + of_records <= bytes
    }

    /// Copies all records into a buffer, which must have room: flags, bytes of the value, key, value.
    pub(super) fn pour(&self, to: &mut [u8]) {
        let mut at = 0;
        for i in 0..self.len() {
            let (key, value) = (self.key(i), self.value_or_none(i));
            to[at] = self.flags(i);
            to[at + 1] = value.len() as u8;
            at += POURED_BYTES;
            for bytes in [key, value] {
                to[at..at + bytes.len()].copy_from_slice(bytes);
                at += bytes.len();
            }
        }
    }

    /// Takes `records` records from such a buffer into an empty memtable.
    pub(super) fn fill(&mut self, from: &[u8], records: usize) {
        let (mut at, key_bytes) = (0, usize::from(self.record.key_bytes));
        for _ in 0..records {
            let (flags, length) = (from[at], usize::from(from[at + 1]));
            let key = at + POURED_BYTES;
            let value = key + key_bytes;
            at = value + length;
            let is_value = flags & TOMBSTONE == 0;
            self.put(&from[key..value], is_value.then_some(&from[value..at]), flags & UNSEALED == 0);
        }
    }

    /// Removes records by their numbers.
    pub(super) fn drain(&mut self, low: usize, high: usize) {
        self.row.remove(low..high);
        if let Some(narrow) = self.narrow_mut() {
            narrow.remove(low..high);
        }
    }

    /// Removes the records with keys from `from` up to `to`, or to the end.
    pub(super) fn remove_range(&mut self, from: &[u8], to: Option<&[u8]>) {
        let low = self.lower_bound(from);
        let high = to.map_or(self.len(), |to| self.lower_bound(to));
        self.drain(low, high.max(low));
    }

    pub(super) fn ram_bytes(&self) -> usize {
        let narrow = self.narrow().map_or(0, |narrow| narrow.ram_bytes() + size_of::<Narrow>());
        self.row.ram_bytes() + narrow
    }

    /// State of a key in the memtable: `None` if it has no entry, else whether the entry is a value.
    pub(super) fn pooled(&self, key: &[u8]) -> Option<bool> {
        self.find(key).ok().map(|i| self.value(i).is_some())
    }
}

#[cfg(test)]
#[cfg(feature = "full")]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::collections::BTreeMap;

    #[test]
    fn it_is_a_map() {
        let mut rng = Rng::new(2);
        let mut table = Memtable::new(RecordFormat::new(2, 1), 300);
        let mut model: BTreeMap<[u8; 2], Option<u8>> = BTreeMap::new();
        for round in 0..4000u32 {
            let key = (rng.below(300) as u16).to_be_bytes();
            let value = rng.chance(3, 4).then_some(round as u8);
            let before = &mut [0; 2];
            table.change(&key, value.as_ref().map(core::slice::from_ref), before);
            if rng.chance(1, 5) {
                table.restore(&key, before);
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

    #[test]
    fn flags_move_with_their_records() {
        let mut rng = Rng::new(4);
        let mut table = Memtable::new(RecordFormat::new(2, 1), 600);
        let mut model: Vec<([u8; 2], bool, bool)> = Vec::new();
        for round in 0..6_000u32 {
            let key = (rng.below(700) as u16).to_be_bytes();
            let (is_value, is_sealed) = (rng.chance(1, 2), rng.chance(1, 2));
            let found = model.binary_search_by_key(&key, |(key, ..)| *key);
            if model.len() < 600 || found.is_ok() {
                table.put(&key, is_value.then_some(&[7]), is_sealed);
                match found {
                    Ok(i) => model[i] = (key, is_value, !is_sealed),
                    Err(i) => model.insert(i, (key, is_value, !is_sealed)),
                }
            }
            if rng.chance(1, 40) {
                let low = rng.below(model.len() as u64) as usize;
                let high = (low + rng.below(90) as usize).min(model.len() - 1);
                table.remove_range(&model[low].0, (round % 3 > 0).then_some(&model[high].0));
                drop(model.drain(low..if round % 3 > 0 { high } else { model.len() }));
            }
            let held =
                (0..table.len()).map(|i| (table.key(i), table.value(i).is_some(), table.is_unsealed(i)));
            assert!(held.eq(model.iter().map(|(key, is_value, unsealed)| (&key[..], *is_value, *unsealed))));
            let from = rng.below(model.len() as u64 + 1) as usize;
            let next = (from..model.len()).find(|&i| model[i].2);
            assert_eq!(table.next_unsealed(from), next, "from {from} of {}", model.len());
        }
    }
}
