//! The bytes of a step: a few keys, values and records, in bytes that are there once. So a step asks the heap
//! for nothing.

use super::above::Above;
use super::level::Part;
use super::merge::{Below, Bounds, Step};
use crate::ordered::RecordFormat;
use crate::units::Ppn;
use alloc::vec::Vec;
use core::mem;
use core::ops::Deref;

/// Makes a step of a level that holds its records in `bytes`, and lists pages in `passed`.
pub(super) fn step<'b>(
    (level, bounds): (usize, Bounds<'b>),
    (mut bytes, passed): (&'b mut [u8], &'b mut Vec<(Part, Ppn)>),
    record: RecordFormat,
) -> Step<'b> {
    let (key, value) = (usize::from(record.key_bytes), usize::from(record.value_bytes));
    let mut part = |some| Held::part(&mut bytes, some);
    let below = Below::of([part(key), part(key), part(key)], part(value));
    let above = Above::of(part(key + value + 1), passed);
    Step::of((level, bounds), (below, above), [part(key), part(key), part(key)])
}

/// A piece of those bytes, of which so many are in use.
#[derive(Debug, Default)]
pub(super) struct Held<'b> {
    bytes: &'b mut [u8],
    len: usize,
}

impl<'b> Held<'b> {
    fn part(rest: &mut &'b mut [u8], bytes: usize) -> Held<'b> {
        let (bytes, behind) = mem::take(rest).split_at_mut(bytes);
        *rest = behind;
        Held { bytes, len: 0 }
    }

    pub(super) fn set(&mut self, bytes: &[u8]) {
        self.len = bytes.len();
        self.bytes[..self.len].copy_from_slice(bytes);
    }

    /// All of the piece, which is in use from now on.
    pub(super) fn whole(&mut self) -> &mut [u8] {
        self.len = self.bytes.len();
        self.bytes
    }

    /// False if the piece was taken away.
    pub(super) fn is_there(&self) -> bool {
        !self.bytes.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// Makes a key the next higher one of the same length; empty if there is none.
    pub(super) fn raise(&mut self) {
        let key = &mut self.bytes[..self.len];
        match key.iter().rposition(|&byte| byte != 0xff) {
            Some(place) => {
                key[place] += 1;
                key[place + 1..].fill(0);
            }
            None => self.len = 0,
        }
    }
}

impl Deref for Held<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::super::medium::aside_bytes;
    use super::*;

    #[test]
    fn a_key_is_raised_to_the_next_one() {
        let (mut bytes, mut rest) = ([9; 5], &mut [][..]);
        assert!(!Held::part(&mut rest, 0).is_there());
        let mut rest = &mut bytes[..];
        let mut key = Held::part(&mut rest, 3);
        assert_eq!((key.is_there(), key.len(), rest.len()), (true, 0, 2));
        for (from, to) in [([1, 2, 3], &[1, 2, 4][..]), ([1, 255, 255], &[2, 0, 0]), ([255; 3], &[])] {
            key.set(&from);
            key.raise();
            assert_eq!(&key[..], to);
        }
        assert_eq!(key.whole().len(), 3);
    }

    #[test]
    fn what_a_walk_has_suffices_for_a_step() {
        for record in [(1, 0), (1, 255), (255, 0), (255, 255)].map(|(k, v)| RecordFormat::new(k, v)) {
            let (mut bytes, mut passed) = (alloc::vec![0; aside_bytes(record)], Vec::new());
            let bounds = Bounds { slice: 1, kept: 0, end: None };
            assert_eq!(step((2, bounds), (&mut bytes, &mut passed), record).level, 2);
        }
    }
}
