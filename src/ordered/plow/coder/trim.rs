//! Trimmed records: the zeros at the end of a value and those before the last two bytes of a key are left
//! out.
//!
//! ```text
//! | tombstone | low bits | 0 | bytes of the key, of the value | bytes of the key | its end | bytes of the value |
//! | tombstone | low bits | 1 | rest of the key | value |
//! ```
//!
//! For example, a value of 60 bytes in a field of 200 takes 61. Records of any length become such records
//! ([`Variable`](crate::ordered::variable::Variable)): they are filled up with zeros, and the last two bytes
//! of a key are its length. A record with too few zeros is stored whole, which costs a bit.
//!
//! The place of a record is known only after the records before it were passed, so the place of the last one
//! found is kept.

use super::{Form, get_bits, put_bits};
use crate::ordered::RecordFormat;
use core::cell::Cell;

/// True if this build has trimmed records.
pub(in super::super) const TRIMS: bool = cfg!(feature = "full");
/// Bit that marks a page of trimmed records, in the byte with the width of the low bits.
pub(super) const TRIMMED: u8 = 0x80;
/// Records of more bytes than this are trimmed.
const TRIMMED_BEYOND: usize = 32;
/// The last bytes of a key, which are always stored: zeros are left out before them.
const KEY_TAIL: usize = 2;

/// Stored bytes of a trimmed record. `middle` counts those of the key between the number and the last bytes,
/// `value` those of the value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) middle: usize,
    pub(super) value: usize,
}

/// Place of the record found last. A place in a page of trimmed records takes a search, and the next record
/// asked for is often near.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Known {
    #[cfg(feature = "full")]
    record: u32,
    /// First bit of the record; 0 if nothing is noted.
    #[cfg(feature = "full")]
    at: u32,
}

impl Known {
    #[cfg(feature = "full")]
    fn note(known: &Cell<Known>, record: usize, at: usize) {
        known.set(Known { record: record as u32, at: at as u32 });
    }

    #[cfg(not(feature = "full"))]
    fn note(_: &Cell<Known>, _: usize, _: usize) {}

    /// The record noted and its place, if it is not behind record `i`.
    #[cfg(feature = "full")]
    fn before(self, i: usize) -> Option<(usize, usize)> {
        let (record, at) = (self.record as usize, self.at as usize);
        (record <= i && at > 0).then_some((record, at))
    }

    #[cfg(not(feature = "full"))]
    fn before(self, _: usize) -> Option<(usize, usize)> {
        None
    }
}

/// True if pages of these records are trimmed.
pub(in super::super) fn is_trimmed(record: RecordFormat) -> bool {
    TRIMS && record.entry_bytes() > TRIMMED_BEYOND
}

/// True if the body of a page holds trimmed records.
pub(in super::super) fn is_trimmed_page(body: &[u8]) -> bool {
    body.first().is_some_and(|first| first & TRIMMED != 0)
}

/// Number of bytes up to the last one that is not 0.
fn without_zeros(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)
}

/// Bits that a number from 0 to `most` takes.
const fn bits_of(most: usize) -> u32 {
    usize::BITS - most.leading_zeros()
}

impl Form {
    /// True if zeros are left out.
    fn trims(&self) -> bool {
        TRIMS && self.trimmed
    }

    /// Bytes of the key behind the number that may be left out.
    pub(super) fn middle(&self) -> usize {
        if self.trims() { self.rest().saturating_sub(KEY_TAIL) } else { self.rest() }
    }

    fn length_bits(&self) -> [u32; 2] {
        [bits_of(self.middle()), bits_of(self.value)]
    }

    fn whole(&self) -> Kept {
        Kept { middle: self.middle(), value: self.value }
    }

    fn is_whole(&self, kept: Kept) -> bool {
        kept.middle == self.middle() && kept.value == self.value
    }

    /// Bytes stored of a record: all of them, unless trimming makes it shorter.
    pub(super) fn kept(&self, rest: &[u8], value: &[u8]) -> Kept {
        if !self.trims() {
            return self.whole();
        }
        let kept = Kept { middle: without_zeros(&rest[..self.middle()]), value: without_zeros(value) };
        if self.bits(kept) < self.bits(self.whole()) { kept } else { self.whole() }
    }

    /// Bits that a record takes with these bytes stored.
    pub(super) fn bits(&self, kept: Kept) -> usize {
        if !self.trims() || self.is_whole(kept) {
            return self.whole_bits() + usize::from(self.trims());
        }
        let left_out = self.middle() - kept.middle + self.value - kept.value;
        let lengths: u32 = self.length_bits().iter().sum();
        self.whole_bits() + 1 + lengths as usize - 8 * left_out
    }

    /// Writes the lengths of the stored parts of a record.
    pub(super) fn put_lengths(&self, body: &mut [u8], at: &mut usize, kept: Kept) {
        if !self.trims() {
            return;
        }
        let is_whole = self.is_whole(kept);
        put_bits(body, *at, 1, is_whole.into());
        *at += 1;
        if is_whole {
            return;
        }
        for (bits, bytes) in self.length_bits().into_iter().zip([kept.middle, kept.value]) {
            put_bits(body, *at, bits, bytes as u64);
            *at += bits as usize;
        }
    }

    /// Place of the bytes of a record, and the lengths of its stored parts.
    pub(super) fn bytes_of(&self, body: &[u8], record_at: usize) -> (usize, Kept) {
        let mut at = record_at + self.head_bits();
        if !self.trims() {
            return (at, self.whole());
        }
        at += 1;
        if get_bits(body, at - 1, 1) == 1 {
            return (at, self.whole());
        }
        let [of_key, of_value] = self.length_bits();
        let lengths = get_bits(body, at, of_key + of_value);
        let middle = (lengths & ((1 << of_key) - 1)) as usize;
        (at + (of_key + of_value) as usize, Kept { middle, value: (lengths >> of_key) as usize })
    }

    /// First bit of record `i` of a page.
    pub(super) fn record_at(&self, body: &[u8], i: usize, known: Option<&Cell<Known>>) -> usize {
        if !self.trims() {
            return self.begin() + i * self.whole_bits();
        }
        let near = known.and_then(|known| known.get().before(i));
        let (from, at) = near.unwrap_or((0, self.begin()));
        let at = (from..i).fold(at, |at, _| at + self.bits(self.bytes_of(body, at).1));
        if let Some(known) = known {
            Known::note(known, i, at);
        }
        at
    }

    /// Bit behind the last of `count` records. `None` if they do not lie in the page.
    pub(super) fn end(&self, body: &[u8], count: usize) -> Option<usize> {
        if !self.trims() {
            return Some(self.record_at(body, count, None));
        }
        let lengths: u32 = self.length_bits().iter().sum();
        let mut at = self.begin();
        for _ in 0..count {
            // The string of high parts lies behind, so the lengths of the last record are in the page.
            if at + self.head_bits() + 1 + lengths as usize > 8 * body.len() {
                return None;
            }
            let (bytes_at, kept) = self.bytes_of(body, at);
            let is_short = bytes_at > at + self.head_bits() + 1;
            if kept.middle > self.middle() || kept.value > self.value || is_short && self.is_whole(kept) {
                return None;
            }
            at += self.bits(kept);
        }
        (at <= 8 * body.len()).then_some(at)
    }
}
