//! Keys with the same first bytes, added in front of an index that does not know about them.

use crate::crash::subject::{Subject, write_key};
use nandex::ordered::{Change, Direction, Durability, RecordFormat, Records, Visit};
use nandex::{IndexError, OrderedIndex, forward_index};
use std::ops::{Bound, ControlFlow};

/// The position of the bytes in which keys differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Keys {
    /// The first four bytes differ; the following ones are random.
    #[default]
    Leading,
    /// The last four bytes differ; all bytes before them are equal.
    Trailing,
}

/// Number of bytes in which keys differ.
const NUMBER_BYTES: usize = 4;
const COMMON: u8 = 0x5a;

impl Keys {
    /// Wraps the subject so that its callers still use keys that differ in their first bytes.
    pub(crate) fn before(self, subject: Subject) -> Subject {
        match subject {
            Subject::Index(index) if self == Keys::Trailing => {
                Subject::Index(Box::new(SharedStart { record: index.record(), index }))
            }
            other => other,
        }
    }
}

/// An index whose stored keys have the same first bytes.
struct SharedStart {
    record: RecordFormat,
    index: Box<dyn OrderedIndex>,
}

/// The key as it is stored, with its number at the end.
fn stored(key: &[u8]) -> Vec<u8> {
    let number = key.len().min(NUMBER_BYTES);
    let mut stored = vec![COMMON; key.len()];
    stored[key.len() - number..].copy_from_slice(&key[..number]);
    stored
}

fn stored_bound(bound: Bound<&[u8]>) -> Bound<Vec<u8>> {
    bound.map(stored)
}

fn borrowed(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

impl OrderedIndex for SharedStart {
    forward_index!(index: maintain, scrub, free, records_max, sync, close, check, stats, ram_bytes);

    fn record(&self) -> RecordFormat {
        self.record
    }

    fn durability(&self) -> Durability {
        self.index.durability()
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        self.index.get(&stored(key), value)
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        self.index.insert(&stored(key), value)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), IndexError> {
        self.index.put(&stored(key), value)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        self.index.remove(&stored(key))
    }

    fn batch_max(&self) -> usize {
        self.index.batch_max()
    }

    fn apply(&mut self, batch: &[Change<'_>]) -> Result<(), IndexError> {
        let keys: Vec<Vec<u8>> = batch.iter().map(|change| stored(change.key())).collect();
        let changes = batch.iter().zip(&keys).map(|(change, key)| match change.value() {
            Some(value) => Change::put(key, value),
            None => Change::remove(key),
        });
        self.index.apply(&changes.collect::<Vec<_>>())
    }

    fn load(&mut self, records: Records<'_, '_>) -> Result<u64, IndexError> {
        let all: Vec<(Vec<u8>, Vec<u8>)> =
            records.map(|(key, value)| (stored(key), value.to_vec())).collect();
        self.index.load(&mut all.iter().map(|(key, value)| (&key[..], &value[..])))
    }

    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        let (low, high) = (stored_bound(low), stored_bound(high));
        let (mut shown, mut is_foreign) = (vec![0; self.record.key_bytes.into()], false);
        self.index.range(borrowed(&low), borrowed(&high), direction, &mut |key, value| {
            let (common, number) = key.split_at(key.len().saturating_sub(NUMBER_BYTES));
            is_foreign |= common.iter().any(|&byte| byte != COMMON);
            let slot = number.iter().fold(0, |slot, &byte| slot << 8 | u32::from(byte));
            write_key(slot, &mut shown);
            if is_foreign { ControlFlow::Break(()) } else { visit(&shown, value) }
        })?;
        let what = "a key that was never put";
        if is_foreign { Err(IndexError::corrupted(what, 0)) } else { Ok(()) }
    }
}
