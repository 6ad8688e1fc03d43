//! The rule of the corpus: the operations that a history consists of, given its seed.
//!
//! Recorded images depend on the rule, so it never changes. Another rule gets another name in the list.

use std::collections::BTreeMap;

/// The records of a subject, or its pages, entries or readings.
pub(crate) type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// An operation of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Put(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>),
    Sync,
}

/// The lengths and the order of the keys of a history, and the lengths of its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Keys of a length in any order, values of a length.
    Fixed(usize, usize),
    /// Lengths as in `Varied`. Each key is above all earlier ones, and none is removed.
    Ascending(usize, usize),
    /// Records with keys of 1 to this many bytes and values of 0 to this many.
    Varied(usize, usize),
    /// Pages of a store, of this many bytes, by number.
    Pages(usize),
    /// Points of two coordinates, each with a number of its own.
    Places,
}

/// A history: operation `n` follows from the seed, `n` and the number of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct History {
    pub(crate) shape: Shape,
    pub(crate) seed: u64,
    pub(crate) keys: u64,
}

/// Number of operations from one sync to the next.
const SYNC_EACH: u64 = 24;

/// A number made of another: SplitMix64.
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Bytes that follow from a number.
fn bytes_of(number: u64, length: usize) -> Vec<u8> {
    let numbers = (0..).map(|place| mixed(number.wrapping_add(place << 32)));
    numbers.flat_map(u64::to_be_bytes).take(length).collect()
}

/// A big-endian number in `length` bytes: filled with zeros in front, or its last bytes.
pub(crate) fn padded(number: u64, length: usize) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    let zeros = length.saturating_sub(bytes.len());
    [vec![0; zeros], bytes[bytes.len() - (length - zeros)..].to_vec()].concat()
}

/// A value of `length` bytes: a few that follow from a number, then zeros.
fn value_of(number: u64, length: usize) -> Vec<u8> {
    let mut value = bytes_of(number, length.min(2 + (number >> 20) as usize % 7));
    value.resize(length, 0);
    value
}

impl History {
    /// The key of a number below `keys`.
    pub(crate) fn key(&self, number: u64) -> Vec<u8> {
        match self.shape {
            Shape::Fixed(key, _) => bytes_of(number, key),
            Shape::Ascending(key, _) => padded(7 * number + 1, key),
            Shape::Varied(key, _) => bytes_of(number, 1 + mixed(!number) as usize % key),
            Shape::Pages(_) => padded(number, 4),
            Shape::Places => {
                let place = mixed(number);
                [place % 100_000, (place >> 32) % 100_000].map(|c| padded(c, 4)).concat()
            }
        }
    }

    fn value(&self, drawn: u64) -> Vec<u8> {
        match self.shape {
            Shape::Fixed(_, value) | Shape::Ascending(_, value) => value_of(drawn, value),
            Shape::Varied(_, value) => value_of(drawn, (drawn >> 32) as usize % (value + 1)),
            Shape::Pages(bytes) => value_of(drawn, bytes),
            Shape::Places => bytes_of(drawn, 8),
        }
    }

    /// Operation `n`, from 0 on.
    pub(crate) fn op(&self, n: u64) -> Op {
        if n % SYNC_EACH == SYNC_EACH - 1 {
            return Op::Sync;
        }
        if let Shape::Ascending(..) = self.shape {
            return Op::Put(self.key(n), self.value(mixed(n ^ self.seed << 40)));
        }
        let drawn = mixed(n ^ self.seed << 40);
        let key = self.key((drawn >> 8) % self.keys);
        if drawn.is_multiple_of(4) { Op::Remove(key) } else { Op::Put(key, self.value(drawn)) }
    }

    /// Every key that may exist after `ops` operations.
    pub(crate) fn all_keys(&self, ops: u64) -> Vec<Vec<u8>> {
        let is_ascending = matches!(self.shape, Shape::Ascending(..));
        (0..if is_ascending { ops } else { self.keys }).map(|number| self.key(number)).collect()
    }

    /// The records after the first `n` operations.
    pub(crate) fn state(&self, n: u64) -> Records {
        let mut records = Records::new();
        (0..n).for_each(|n| self.apply(&mut records, self.op(n)));
        records
    }

    /// Does an operation to records.
    pub(crate) fn apply(&self, records: &mut Records, op: Op) {
        match op {
            Op::Put(key, _) if self.shape == Shape::Places && records.contains_key(&key) => {}
            Op::Put(key, value) => drop(records.insert(key, value)),
            Op::Remove(key) => drop(records.remove(&key)),
            Op::Sync => {}
        }
    }

    /// Number of operations up to the newest sync among the first `n`.
    pub(crate) fn synced(&self, n: u64) -> u64 {
        n / SYNC_EACH * SYNC_EACH
    }
}
