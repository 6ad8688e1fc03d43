//! The bytes of a log page: changes of one leaf's records since the leaf was written.
//!
//! ```text
//! bytes  0..4   CRC-32 of the page's number in the log area and the rest of the page
//!        4..8   the characters "NXLG"
//!        8..12  page of the leaf
//!       12..20  number of the page: a newer one has a higher number
//!       20..22  entries in use
//!       22      1 = the keys came in ascending order, and none is removed
//!       23      0
//!       24..    a bit for each entry, set where the key is removed; then keys and values as in a leaf, the keys ascending
//! ```

use nandex::check::{IndexError, Invariant};
use nandex::codec::{crc32, get_u16, get_u32, get_u64, put_u16, put_u32, put_u64};
use nandex::ordered::RecordFormat;
use nandex::ordered::change::Change;
use nandex::ordered::node::NodeShape;
use nandex::units::Lpn;

const MAGIC: &[u8; 4] = b"NXLG";
const HEADER_BYTES: usize = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogShape {
    entries: NodeShape,
}

impl LogShape {
    /// Number of entries that fit into a page of this size.
    pub(super) fn entries_max(record: RecordFormat, page_bytes: usize) -> usize {
        let bits = 8 * record.entry_bytes() + 1;
        let entries = 8 * page_bytes.saturating_sub(HEADER_BYTES) / bits;
        // The bits are whole bytes.
        let fits = |entries: usize| {
            HEADER_BYTES + entries.div_ceil(8) + entries * record.entry_bytes() <= page_bytes
        };
        let entries = if fits(entries) { entries } else { entries.saturating_sub(1) };
        entries.min(usize::from(u16::MAX))
    }

    pub(super) fn new(record: RecordFormat, entries: usize) -> LogShape {
        let (key_bytes, value_bytes) = (record.key_bytes.into(), record.value_bytes.into());
        LogShape { entries: NodeShape { key_bytes, value_bytes, capacity: entries } }
    }

    pub(super) fn capacity(&self) -> usize {
        self.entries.capacity
    }

    fn area<'a>(&self, page: &'a [u8]) -> &'a [u8] {
        &page[HEADER_BYTES + self.capacity().div_ceil(8)..]
    }

    fn area_mut<'a>(&self, page: &'a mut [u8]) -> &'a mut [u8] {
        &mut page[HEADER_BYTES + self.capacity().div_ceil(8)..]
    }

    /// Makes a page the empty log of a leaf.
    pub(super) fn reset(&self, page: &mut [u8], leaf: Lpn) {
        page.fill(0);
        page[4..8].copy_from_slice(MAGIC);
        put_u32(page, 8, leaf.0);
        page[22] = 1;
    }

    /// Checks a page and returns its leaf and number. `None` if the page is blank.
    pub(super) fn verify(&self, page: &[u8], at: Lpn) -> Result<Option<(Lpn, u64)>, IndexError> {
        if page[..HEADER_BYTES].iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let damaged = |what| IndexError::broken(Invariant::L1, what, at.0.into());
        if page[4..8] != *MAGIC || get_u32(page, 0) != checksum(page, at) {
            return Err(damaged("the log page is damaged"));
        }
        if self.count(page) > self.capacity()
            || self.entries.first_unsorted(self.area(page), self.count(page)).is_some()
        {
            return Err(damaged("the entries of the log page are out of order"));
        }
        Ok(Some((self.leaf(page), get_u64(page, 12))))
    }

    /// Completes a page for the write: leaf, number and checksum.
    pub(super) fn seal(&self, page: &mut [u8], at: Lpn, leaf: Lpn, number: u64) {
        put_u32(page, 8, leaf.0);
        put_u64(page, 12, number);
        let crc = checksum(page, at);
        put_u32(page, 0, crc);
    }

    fn leaf(&self, page: &[u8]) -> Lpn {
        Lpn(get_u32(page, 8))
    }

    pub(super) fn count(&self, page: &[u8]) -> usize {
        get_u16(page, 20).into()
    }

    /// Whether the keys came in ascending order and none is removed.
    pub(super) fn is_ascending(&self, page: &[u8]) -> bool {
        page[22] == 1
    }

    pub(super) fn search(&self, page: &[u8], key: &[u8]) -> Result<usize, usize> {
        self.entries.search(self.area(page), self.count(page), key)
    }

    fn is_removed(&self, page: &[u8], i: usize) -> bool {
        page[HEADER_BYTES + i / 8] & 1 << (i % 8) != 0
    }

    fn set_removed(&self, page: &mut [u8], i: usize, is_removed: bool) {
        let (byte, bit) = (&mut page[HEADER_BYTES + i / 8], 1 << (i % 8));
        *byte = if is_removed { *byte | bit } else { *byte & !bit };
    }

    pub(super) fn change<'a>(&self, page: &'a [u8], i: usize) -> Change<'a> {
        let value = self.entries.value(self.area(page), i);
        Change {
            key: self.entries.key(self.area(page), i),
            value: (!self.is_removed(page, i)).then_some(value),
        }
    }

    pub(super) fn changes<'a>(&self, page: &'a [u8]) -> impl Iterator<Item = Change<'a>> + Clone + use<'a> {
        let shape = *self;
        (0..self.count(page)).map(move |i| shape.change(page, i))
    }

    /// Changes the value of entry `i`, or makes it a removal.
    pub(super) fn amend(&self, page: &mut [u8], i: usize, value: Option<&[u8]>) {
        self.set_removed(page, i, value.is_none());
        if let Some(value) = value {
            self.entries.set_value(self.area_mut(page), i, value);
        } else {
            page[22] = 0;
        }
    }

    /// Adds a change as entry `i`. The log must not be full.
    pub(super) fn add(&self, page: &mut [u8], i: usize, change: Change<'_>) {
        const NO_VALUE: [u8; 255] = [0; 255];
        let count = self.count(page);
        assert!(count < self.capacity(), "a full log takes no entry");
        let none = &NO_VALUE[..self.entries.value_bytes];
        self.entries.insert(self.area_mut(page), count, i, (change.key, change.value.unwrap_or(none)));
        for at in (i..count).rev() {
            let is_removed = self.is_removed(page, at);
            self.set_removed(page, at + 1, is_removed);
        }
        self.set_removed(page, i, change.value.is_none());
        put_u16(page, 20, count as u16 + 1);
        if i < count || change.value.is_none() {
            page[22] = 0;
        }
    }
}

fn checksum(page: &[u8], at: Lpn) -> u32 {
    crc32(&[&at.0.to_le_bytes(), &page[4..]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::vec;
    use alloc::vec::Vec;
    use nandex::rng::Rng;

    #[test]
    fn a_log_is_a_sorted_map_of_changes() {
        let record = RecordFormat::new(2, 3);
        let entries = LogShape::entries_max(record, 128);
        assert_eq!(entries, 20);
        let (shape, mut page, mut rng) = (LogShape::new(record, entries), vec![0; 128], Rng::new(4));
        for round in 0..50u64 {
            shape.reset(&mut page, Lpn(7));
            let mut model: BTreeMap<[u8; 2], Option<[u8; 3]>> = BTreeMap::new();
            let (mut last, mut ascends) = ([0; 2], true);
            while shape.count(&page) < shape.capacity() {
                let key = if round % 2 == 0 { [0, model.len() as u8 + 1] } else { [0, rng.below(40) as u8] };
                let value = (round % 4 == 0 || rng.chance(4, 5)).then(|| [rng.below(9) as u8; 3]);
                let change = Change { key: &key, value: value.as_ref().map(|value| &value[..]) };
                match shape.search(&page, &key) {
                    Ok(i) => shape.amend(&mut page, i, change.value),
                    Err(i) => {
                        ascends &= model.is_empty() || key > last;
                        last = last.max(key);
                        shape.add(&mut page, i, change);
                    }
                }
                ascends &= value.is_some();
                model.insert(key, value);
            }
            shape.seal(&mut page, Lpn(3), Lpn(7), round);
            assert_eq!(shape.verify(&page, Lpn(3)), Ok(Some((Lpn(7), round))));
            assert!(shape.verify(&page, Lpn(2)).is_err());
            assert_eq!(shape.is_ascending(&page), ascends);
            let found: Vec<(Vec<u8>, Option<Vec<u8>>)> =
                shape.changes(&page).map(|c| (c.key.to_vec(), c.value.map(<[u8]>::to_vec))).collect();
            let expected: Vec<(Vec<u8>, Option<Vec<u8>>)> =
                model.iter().map(|(k, v)| (k.to_vec(), v.map(|v| v.to_vec()))).collect();
            assert_eq!(found, expected);
        }
        assert_eq!(shape.verify(&[0; 128], Lpn(0)), Ok(None));
    }
}
