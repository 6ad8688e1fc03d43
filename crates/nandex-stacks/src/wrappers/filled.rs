//! Records of one size in an index of keys and values of any length: each is filled up.

use super::long::Long;
use super::opposite;
use crate::lengths::Lengths;
use nandex::ordered::{Change, Direction, Durability, RecordFormat, Visit};
use nandex::rng::split_mix;
use nandex::{IndexError, OrderedIndex, forward_index};
use std::ops::Bound;

/// The rule by which keys or values are filled up.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fill {
    /// Adds up to this many bytes; half of the fillings are short.
    Up(usize),
    /// Fills up to a length drawn from these lengths.
    To(Lengths),
}

impl Fill {
    fn more(self, bytes: usize, seed: u64) -> usize {
        match self {
            Fill::Up(fill) => {
                // Half of them are short.
                let most = if seed.is_multiple_of(2) { fill / 8 } else { fill };
                (seed >> 8) as usize % (most + 1)
            }
            Fill::To(lengths) => lengths.drawn(seed).saturating_sub(bytes),
        }
    }

    fn filled(self, bytes: &[u8]) -> Vec<u8> {
        let seed = seed_of(bytes);
        let more = self.more(bytes.len(), seed);
        let mut long = bytes.to_vec();
        long.extend((0..more).map(|at| (seed >> (at % 7 * 8)) as u8));
        long
    }

    /// The bytes without their filling. If `long` is not a filled value, the result is bytes that nobody
    /// wrote. An error instead would seem to come from the index below.
    fn unfilled(self, long: &[u8], bytes: u8) -> Vec<u8> {
        let kept = &long[..long.len().min(bytes.into())];
        if self.filled(kept) == long {
            kept.to_vec()
        } else {
            opposite(&[kept, &[0; 255]].concat()[..bytes.into()])
        }
    }
}

fn seed_of(bytes: &[u8]) -> u64 {
    bytes.iter().fold(bytes.len() as u64, |seed, &byte| split_mix(seed ^ u64::from(byte)))
}

impl Lengths {
    /// The length that a value is filled up to, in bytes.
    pub fn of(self, value: &[u8]) -> usize {
        value.len() + Fill::To(self).more(value.len(), seed_of(value))
    }
}

/// Records of one size in an index of any length.
pub(super) struct Filled<L> {
    long: L,
    record: RecordFormat,
    key: Fill,
    value: Fill,
    held: Vec<u8>,
}

impl<L: Long> Filled<L> {
    pub(super) fn new(long: L, record: RecordFormat, [key, value]: [Fill; 2]) -> Filled<L> {
        Filled { long, record, key, value, held: Vec::new() }
    }
}

impl<L: Long> OrderedIndex for Filled<L> {
    forward_index!(long: maintain, scrub, sync, close, check, stats, ram_bytes);

    fn record(&self) -> RecordFormat {
        self.record
    }

    fn durability(&self) -> Durability {
        self.long.below().durability()
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        if !self.long.get(&self.key.filled(key), &mut self.held)? {
            return Ok(false);
        }
        value.copy_from_slice(&self.value.unfilled(&self.held, self.record.value_bytes));
        Ok(true)
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        self.long.insert(&self.key.filled(key), &self.value.filled(value))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), IndexError> {
        self.apply(&[Change::put(key, value)])
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        self.long.remove(&self.key.filled(key))
    }

    fn batch_max(&self) -> usize {
        self.long.below().batch_max().min(8)
    }

    fn apply(&mut self, batch: &[Change<'_>]) -> Result<(), IndexError> {
        let (key, value) = (self.key, self.value);
        let records: Vec<(Vec<u8>, Option<Vec<u8>>)> = batch
            .iter()
            .map(|change| (key.filled(change.key()), change.value().map(|bytes| value.filled(bytes))))
            .collect();
        let batch: Vec<Change<'_>> = records
            .iter()
            .map(|(key, value)| match value {
                Some(value) => Change::put(key, value),
                None => Change::remove(key),
            })
            .collect();
        self.long.apply(&batch)
    }

    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        let (record, of_key, of_value) = (self.record, self.key, self.value);
        let (low, high) = (low.map(|key| of_key.filled(key)), high.map(|key| of_key.filled(key)));
        let bounds = (low.as_ref().map(Vec::as_slice), high.as_ref().map(Vec::as_slice));
        self.long.range(bounds, direction, &mut |key, value| {
            visit(&of_key.unfilled(key, record.key_bytes), &of_value.unfilled(value, record.value_bytes))
        })
    }
}
