//! The model of an index: for each slot of a workload, whether its key is present, and the version of its
//! value.
//!
//! A value follows from slot and version, so no values are stored. Every write of a key gives it the next
//! version, even after a removal. So the bytes show if a value is lost, stale or belongs to another key.

use crate::workload::{Values, reading};
use nandex::rng::split_mix;

#[derive(Clone, Debug)]
pub struct Model {
    versions: Vec<u32>,
    present: Bits,
    records: u64,
    values: Values,
}

impl Model {
    /// Makes a model of `slots` keys, none of them present.
    pub fn new(slots: usize) -> Model {
        Model::of(slots, Values::default())
    }

    /// Makes a model of `slots` keys with these values, none of them present.
    pub fn of(slots: usize, values: Values) -> Model {
        Model { versions: vec![0; slots], present: Bits::new(slots), records: 0, values }
    }

    /// Number of present keys.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Whether the key is present.
    pub fn contains(&self, slot: u32) -> bool {
        self.present.get(slot as usize)
    }

    /// Writes the value that the next write of this key stores to `out`.
    pub fn next_value(&self, slot: u32, out: &mut [u8]) {
        self.fill(slot, self.versions[slot as usize].wrapping_add(1), out);
    }

    /// Records that the next value of the key was written.
    pub fn write(&mut self, slot: u32) {
        let version = &mut self.versions[slot as usize];
        *version = version.wrapping_add(1);
        self.records += u64::from(self.present.set(slot as usize, true));
    }

    /// Records that the key was removed.
    pub fn remove(&mut self, slot: u32) {
        self.records -= u64::from(self.present.set(slot as usize, false));
    }

    /// Writes the value of a present key to `out`.
    pub fn value(&self, slot: u32, out: &mut [u8]) {
        self.fill(slot, self.versions[slot as usize], out);
    }

    fn fill(&self, slot: u32, version: u32, out: &mut [u8]) {
        match self.values {
            Values::Walk(step) => {
                let (of_time, rest) = out.split_at_mut(out.len().min(4));
                of_time.copy_from_slice(&reading(slot, step).to_be_bytes()[..of_time.len()]);
                fill_value(slot, version, rest);
            }
            Values::Random | Values::Long(_) => fill_value(slot, version, out),
        }
    }

    pub fn first_in(&self, slots: std::ops::Range<u32>) -> Option<u32> {
        self.present.first_from(slots.start as usize).filter(|&s| s < slots.end as usize).map(|s| s as u32)
    }

    pub fn last_in(&self, slots: std::ops::Range<u32>) -> Option<u32> {
        self.present.last_below(slots.end as usize).filter(|&s| s >= slots.start as usize).map(|s| s as u32)
    }
}

/// Fills `out` with a value that follows from slot and version. With 8 bytes or more, each pair has a
/// different value.
pub(crate) fn fill_value(slot: u32, version: u32, out: &mut [u8]) {
    let mut word = (u64::from(version) << 32) | u64::from(slot);
    for chunk in out.chunks_mut(8) {
        word = split_mix(word);
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
}

/// Whether values of this size end with zeros, of varying number, as records of any length do. One in four
/// sizes above 8 bytes does.
pub(crate) fn ends_with_zeros(value_bytes: usize) -> bool {
    value_bytes > 8 && value_bytes % 4 == 1
}

/// The value that tests of power cuts and whole lives write and expect, for a record or a whole page.
pub(crate) fn written(slot: u32, version: u32, bytes: usize) -> Vec<u8> {
    let mut value = vec![0; bytes];
    fill_value(slot, version, &mut value);
    if ends_with_zeros(bytes) {
        // What is left tells slots and versions apart.
        let more = u64::from(value[0]) * (bytes as u64 - 8) / 256;
        value[8 + more as usize..].fill(0);
    }
    value
}

/// A set of small numbers with a summary above it: one step of a search skips up to 4,096 absent numbers.
#[derive(Clone, Debug)]
struct Bits {
    words: Vec<u64>,
    /// Bit `i` says whether word `i` has any bit set.
    summary: Vec<u64>,
}

impl Bits {
    fn new(bits: usize) -> Bits {
        let words = bits.div_ceil(64).max(1);
        Bits { words: vec![0; words], summary: vec![0; words.div_ceil(64)] }
    }

    fn get(&self, bit: usize) -> bool {
        self.words[bit / 64] >> (bit % 64) & 1 == 1
    }

    /// Sets or clears a bit; returns whether the bit changed.
    fn set(&mut self, bit: usize, on: bool) -> bool {
        let (word, mask) = (bit / 64, 1 << (bit % 64));
        let changed = (self.words[word] & mask != 0) != on;
        self.words[word] = if on { self.words[word] | mask } else { self.words[word] & !mask };
        let above = 1 << (word % 64);
        let any = self.words[word] != 0;
        let summary = &mut self.summary[word / 64];
        *summary = if any { *summary | above } else { *summary & !above };
        changed
    }

    fn first_from(&self, bit: usize) -> Option<usize> {
        let word = bit / 64;
        let here = self.words.get(word)? & (u64::MAX << (bit % 64));
        if here != 0 {
            return Some(word * 64 + here.trailing_zeros() as usize);
        }
        let next = first_from(&self.summary, word + 1)?;
        Some(next * 64 + self.words[next].trailing_zeros() as usize)
    }

    fn last_below(&self, bit: usize) -> Option<usize> {
        let word = bit / 64;
        let here = self.words.get(word).map_or(0, |w| w & ((1 << (bit % 64)) - 1));
        if here != 0 {
            return Some(word * 64 + here.ilog2() as usize);
        }
        let previous = last_below(&self.summary, word.min(self.words.len()))?;
        Some(previous * 64 + self.words[previous].ilog2() as usize)
    }
}

fn first_from(words: &[u64], bit: usize) -> Option<usize> {
    let masked = |i: usize| if i == bit / 64 { words[i] & (u64::MAX << (bit % 64)) } else { words[i] };
    let found = (bit / 64..words.len()).find(|&i| masked(i) != 0)?;
    Some(found * 64 + masked(found).trailing_zeros() as usize)
}

fn last_below(words: &[u64], bit: usize) -> Option<usize> {
    let masked = |i: usize| if i == bit / 64 { words[i] & ((1 << (bit % 64)) - 1) } else { words[i] };
    let found = (0..words.len().min(bit / 64 + 1)).rev().find(|&i| masked(i) != 0)?;
    Some(found * 64 + masked(found).ilog2() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex::rng::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn bits_are_a_set_of_numbers() {
        let size = 20_000u64;
        let (mut model, mut truth, mut rng) = (Model::new(size as usize), BTreeSet::new(), Rng::new(4));
        for step in 0..40_000 {
            let slot = rng.below(size) as u32;
            // Dense at first, then ever sparser, so that gaps longer than a word of the summary occur.
            if rng.chance(40_000 - step, 40_000) {
                model.write(slot);
                truth.insert(slot);
            } else {
                let gone = slot..slot.saturating_add(50).min(size as u32);
                gone.for_each(|s| {
                    model.remove(s);
                    truth.remove(&s);
                });
            }
            let (low, high) = (rng.below(size) as u32, rng.below(size + 1) as u32);
            let span = low.min(high)..high.max(low);
            assert_eq!(model.contains(slot), truth.contains(&slot));
            assert_eq!(model.records(), truth.len() as u64);
            assert_eq!(model.first_in(span.clone()), truth.range(span.clone()).next().copied());
            assert_eq!(model.last_in(span.clone()), truth.range(span).next_back().copied());
        }
    }

    #[test]
    fn every_write_has_another_value() {
        let mut model = Model::new(3);
        let (mut seen, mut value) = (BTreeSet::new(), [0; 12]);
        for slot in [0, 1, 0, 2, 1] {
            model.next_value(slot, &mut value);
            model.write(slot);
            model.remove(slot);
            assert!(seen.insert(value));
        }
        model.value(1, &mut value);
        assert!(seen.contains(&value));
    }
}
