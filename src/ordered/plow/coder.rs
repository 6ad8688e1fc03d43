//! The packed form of sorted records: a part of each key is stored in few bits, and can be searched without
//! unpacking.
//!
//! ```text
//! | low bits' width | prefix's length | base | prefix | record 0 | record 1 | ...      ... | high bits |
//! ```
//!
//! A key is divided into three parts. The prefix that all keys of the page share is stored once. The next
//! eight bytes are a number. The rest is stored unchanged. The numbers, minus that of the first key (base),
//! are coded by the method of Elias and Fano: the low bits of each are in its record; the high parts of all
//! are one string that grows down from the end of the page. For each record the string has as many zeros as
//! its high part exceeds that of the record before, then a one. With the width chosen for the mean gap, this
//! takes some two bits per key more than the logarithm of the gap. A record is: the tombstone flag (on levels
//! that may have tombstones), the low bits, the rest of the key, the value. So a page is filled record by
//! record until the two ends meet.
//!
//! A search counts zeros up to the high part, which leads to the few records that share it.
//!
//! Records of more than 32 bytes are *trimmed* (`trim`): zeros at the end of a value and before the end of a
//! key are left out.

mod trim;

use super::bits::{get_bits, put_bits};
use super::filter::Keys;
use crate::ordered::RecordFormat;
use crate::ordered::key::Key;
use alloc::vec::Vec;
use core::cell::Cell;
use core::cmp::Ordering;
use core::ops::Range;

use trim::TRIMMED;
pub(super) use trim::{Known, TRIMS, is_trimmed, is_trimmed_page};

/// Bytes of the body before the prefix.
pub(super) const FIXED: usize = 10;

/// Coding of the records of a page.
#[derive(Clone, Copy, Debug)]
struct Form {
    key: usize,
    value: usize,
    prefix: usize,
    /// Low bits of a number that each record stores, 0 to 63.
    width: u32,
    tombstones: bool,
    /// True if zeros are left out of the records.
    trimmed: bool,
    base: u64,
}

impl Form {
    /// Form of a page, decoded from its first bytes. `None` if they are impossible.
    fn of(body: &[u8], record: RecordFormat, tombstones: bool) -> Option<Form> {
        let (key, value) = (usize::from(record.key_bytes), usize::from(record.value_bytes));
        let (first, prefix) = (*body.first()?, usize::from(*body.get(1)?));
        let trimmed = TRIMS && first & TRIMMED != 0;
        let width = u32::from(if trimmed { first & !TRIMMED } else { first });
        if width > 63 || (prefix > 0 && prefix >= key) || body.len() < FIXED + prefix {
            return None;
        }
        let base = u64::from_le_bytes(body[2..FIXED].try_into().ok()?);
        Some(Form { key, value, prefix, width, tombstones, trimmed, base })
    }

    /// Number of key bytes that are coded as a number, at most 8.
    fn window(&self) -> usize {
        (self.key - self.prefix).min(8)
    }

    /// Bytes of the key behind the number.
    fn rest(&self) -> usize {
        self.key - self.prefix - self.window()
    }

    fn number(&self, key: &[u8]) -> u64 {
        big_endian(&key[self.prefix..self.prefix + self.window()])
    }

    /// Bits of a record before its bytes: the mark of a tombstone and the low bits.
    fn head_bits(&self) -> usize {
        usize::from(self.tombstones) + self.width as usize
    }

    fn whole_bits(&self) -> usize {
        self.head_bits() + 8 * (self.rest() + self.value)
    }

    /// First bit of the first record.
    fn begin(&self) -> usize {
        8 * (FIXED + self.prefix)
    }
}

fn big_endian(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Builder of a page, record by record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Builder {
    form: Form,
    count: usize,
    /// Bits used at the front.
    front: usize,
    /// Bits used by the string of high parts at the end.
    high_bits: usize,
    high: u64,
    /// Bytes between the records and their high parts that stay free.
    kept: usize,
}

/// Expectation about the records to come, from which the code of a page is chosen. `first` is the first key.
/// There are about `count` records between `low` and `last`. `tombstones` tells whether some may be
/// tombstones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected<'a> {
    pub(super) first: &'a [u8],
    pub(super) low: &'a [u8],
    pub(super) last: &'a [u8],
    pub(super) count: usize,
    pub(super) tombstones: bool,
}

impl Builder {
    pub(super) fn begin(body: &mut [u8], record: RecordFormat, expected: Expected<'_>) -> Builder {
        Builder::begin_around(body, 0..0, record, expected)
    }

    /// Begins a page in `body`, and leaves the bytes of `hole` unchanged.
    pub(super) fn begin_around(
        body: &mut [u8],
        hole: Range<usize>,
        record: RecordFormat,
        expected: Expected<'_>,
    ) -> Builder {
        body[..hole.start].fill(0);
        body[hole.end..].fill(0);
        let (key, value) = (usize::from(record.key_bytes), usize::from(record.value_bytes));
        let shared = expected.first.iter().zip(expected.last).take_while(|(a, b)| a == b).count();
        let prefix = if key <= 8 { 0 } else { shared.min(key - 1).min(body.len().saturating_sub(FIXED) / 2) };
        let (tombstones, trimmed) = (expected.tombstones, is_trimmed(record));
        let mut form = Form { key, value, prefix, width: 0, tombstones, trimmed, base: 0 };
        form.base = form.number(expected.first);
        let shares_prefix = expected.low[..prefix] == expected.first[..prefix];
        let low = if shares_prefix { form.number(expected.low) } else { form.base };
        form.width = log2_of_gap(form.number(expected.last).saturating_sub(low), expected.count);
        body[0] = form.width as u8 | if trimmed { TRIMMED } else { 0 };
        body[1] = prefix as u8;
        body[2..FIXED].copy_from_slice(&form.base.to_le_bytes());
        body[FIXED..FIXED + prefix].copy_from_slice(&expected.first[..prefix]);
        Builder { form, count: 0, front: form.begin(), high_bits: 0, high: 0, kept: 0 }
    }

    /// The builder, made to leave `kept` bytes free.
    pub(super) fn keeping(self, kept: usize) -> Builder {
        Builder { kept, ..self }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// True if less than half of the page is used.
    pub(super) fn is_short(&self, body: &[u8]) -> bool {
        self.front + self.high_bits < 4 * body.len()
    }

    /// Bytes used at the front of the body and at its end.
    pub(super) fn used(&self) -> (usize, usize) {
        (self.front.div_ceil(8), self.high_bits.div_ceil(8))
    }

    /// Appends a record whose key is above all others. False if it does not fit.
    pub(super) fn append(&mut self, body: &mut [u8], key: &[u8], value: Option<&[u8]>) -> bool {
        self.append_around(body, 0..0, (key, value))
    }

    /// Appends a record; the bytes of `hole` must stay as they are.
    pub(super) fn append_around(
        &mut self,
        body: &mut [u8],
        hole: Range<usize>,
        (key, value): (&[u8], Option<&[u8]>),
    ) -> bool {
        let form = self.form;
        if key[..form.prefix] != body[FIXED..FIXED + form.prefix] {
            return false;
        }
        debug_assert!(form.number(key) >= form.base + (self.high << form.width), "keys descend");
        let number = form.number(key) - form.base;
        let high = number >> form.width;
        let rest = &key[form.prefix + form.window()..];
        let kept = form.kept(rest, value.unwrap_or(&[]));
        let bits = form.bits(kept);
        let taken = self.front + self.high_bits + 8 * self.kept;
        let free = (8 * body.len()).saturating_sub(taken);
        let needed = (high - self.high).saturating_add(bits as u64 + 1);
        if needed > free as u64 || self.count >= usize::from(u16::MAX) {
            return false;
        }
        let front = (self.front + bits).div_ceil(8);
        let back = (self.high_bits + (high - self.high) as usize + 1).div_ceil(8);
        if !hole.is_empty() && (front > hole.start || hole.end + back > body.len()) {
            return false;
        }
        self.high_bits += (high - self.high) as usize;
        put_bits(body, 8 * body.len() - 1 - self.high_bits, 1, 1);
        self.high_bits += 1;
        self.high = high;
        let mut at = self.front;
        let low = number & ((1 << form.width) - 1);
        let mark = u64::from(form.tombstones && value.is_none());
        put_bits(body, at, form.head_bits() as u32, low << u32::from(form.tombstones) | mark);
        at += form.head_bits();
        form.put_lengths(body, &mut at, kept);
        let (middle, tail) = rest.split_at(form.middle());
        put_bytes(body, &mut at, &middle[..kept.middle]);
        if TRIMS {
            put_bytes(body, &mut at, tail);
        }
        let value = value.unwrap_or(&[]);
        put_bytes(body, &mut at, &value[..kept.value.min(value.len())]);
        self.front += bits;
        self.count += 1;
        true
    }
}

fn put_bytes(body: &mut [u8], at: &mut usize, bytes: &[u8]) {
    let (words, rest) = bytes.as_chunks();
    for word in words {
        put_bits(body, *at, 32, u32::from_le_bytes(*word).into());
        *at += 32;
    }
    for &byte in rest {
        put_bits(body, *at, 8, byte.into());
        *at += 8;
    }
}

fn get_bytes(body: &[u8], mut at: usize, bytes: &mut [u8]) {
    for chunk in bytes.chunks_mut(8) {
        let word = get_bits(body, at, 8 * chunk.len() as u32).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
        at += 8 * chunk.len();
    }
}

/// Compares a field with bytes.
fn compare_bytes(body: &[u8], at: usize, bytes: &[u8]) -> Ordering {
    let mut at = at;
    for chunk in bytes.chunks(8) {
        let word = get_bits(body, at, 8 * chunk.len() as u32).to_le_bytes();
        match word[..chunk.len()].cmp(chunk) {
            Ordering::Equal => at += 8 * chunk.len(),
            order => return order,
        }
    }
    Ordering::Equal
}

/// Reads a field of which only the first `kept` bytes are stored; the others are zeros.
fn get_kept(body: &[u8], at: usize, kept: usize, bytes: &mut [u8]) {
    let (there, left_out) = bytes.split_at_mut(kept.min(bytes.len()));
    get_bytes(body, at, there);
    left_out.fill(0);
}

/// The records of a page, for reading.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    body: &'a [u8],
    form: Form,
    count: usize,
    /// Number of bits at the front of the body that fields and records take.
    front: usize,
    /// Place of a record found before, from which the next search begins.
    #[cfg(feature = "full")]
    known: Option<&'a Cell<Known>>,
}

impl<'a> View<'a> {
    /// The records of a page. `None` if its fields make no sense.
    pub(super) fn new(
        body: &'a [u8],
        record: RecordFormat,
        count: usize,
        tombstones: bool,
    ) -> Option<View<'a>> {
        let form = Form::of(body, record, tombstones)?;
        let front = form.end(body, count)?;
        let free = (8 * body.len()).checked_sub(front)?;
        // The string of high parts must hold as many ones as there are records, or a search would leave it.
        let ones: u32 = body[body.len() - free / 8..].iter().map(|byte| byte.count_ones()).sum();
        let partial = free % 8;
        let split = body[body.len() - free / 8 - usize::from(partial > 0)..].first().copied().unwrap_or(0);
        let ones = ones + if partial > 0 { (split >> (8 - partial)).count_ones() } else { 0 };
        (ones as usize >= count).then_some(View::with(body, form, (count, front)))
    }

    /// The records of a page that `new` accepted before, when `front` bits were used at its front.
    pub(super) fn again(
        body: &'a [u8],
        record: RecordFormat,
        (count, tombstones, front): (usize, bool, usize),
    ) -> Option<View<'a>> {
        // Without trimmed records the fields are found at once.
        if !TRIMS {
            return View::new(body, record, count, tombstones);
        }
        Form::of(body, record, tombstones).map(|form| View::with(body, form, (count, front)))
    }

    fn with(body: &'a [u8], form: Form, (count, front): (usize, usize)) -> View<'a> {
        #[cfg(feature = "full")]
        return View { body, form, count, front, known: None };
        #[cfg(not(feature = "full"))]
        View { body, form, count, front }
    }

    /// Returns this view, which then notes in `known` the place of the record found last.
    #[cfg(feature = "full")]
    pub(super) fn noting(self, known: &'a Cell<Known>) -> View<'a> {
        View { known: Some(known), ..self }
    }

    /// Returns this view unchanged. Without trimmed records no place need be remembered.
    #[cfg(not(feature = "full"))]
    pub(super) fn noting(self, _: &'a Cell<Known>) -> View<'a> {
        self
    }

    /// Bits at the front of the body that fields and records take.
    pub(super) fn front_bits(&self) -> usize {
        self.front
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Bytes at the front of the body that fields and records take.
    pub(super) fn front(&self) -> usize {
        self.front.div_ceil(8)
    }

    /// First bit of record `i`.
    fn record_at(&self, i: usize) -> usize {
        #[cfg(feature = "full")]
        let known = self.known;
        #[cfg(not(feature = "full"))]
        let known = None;
        self.form.record_at(self.body, i, known)
    }

    /// Byte of the string of high parts that holds its bits `8 i` to `8 i + 7`, the first one highest.
    fn high_byte(&self, i: usize) -> u8 {
        self.body[self.body.len() - 1 - i]
    }

    /// Bit, in the string of high parts, of the one that ends the part of record `i`.
    fn select(&self, i: usize) -> usize {
        let (mut left, mut byte) = (i as u32, 0);
        loop {
            let ones = self.high_byte(byte).count_ones();
            if left < ones {
                break;
            }
            left -= ones;
            byte += 1;
        }
        let mut bits = self.high_byte(byte);
        for _ in 0..left {
            bits &= !(0x80 >> bits.leading_zeros());
        }
        8 * byte + bits.leading_zeros() as usize
    }

    fn write_key(&self, i: usize, high: u64, key: &mut [u8]) {
        let (form, at) = (self.form, self.record_at(i));
        let low = get_bits(self.body, at + usize::from(form.tombstones), form.width);
        let number = form.base.wrapping_add(high.wrapping_shl(form.width) | low);
        let (prefix, window) = (form.prefix, form.window());
        key[..prefix].copy_from_slice(&self.body[FIXED..FIXED + prefix]);
        key[prefix..prefix + window].copy_from_slice(&number.to_be_bytes()[8 - window..]);
        if !TRIMS {
            return get_bytes(self.body, at + form.head_bits(), &mut key[prefix + window..]);
        }
        let (at, kept) = form.bytes_of(self.body, at);
        let (middle, tail) = key[prefix + window..].split_at_mut(form.middle());
        get_kept(self.body, at, kept.middle, middle);
        get_bytes(self.body, at + 8 * kept.middle, tail);
    }

    pub(super) fn key(&self, i: usize, key: &mut [u8]) {
        self.write_key(i, (self.select(i) - i) as u64, key);
    }

    /// Compares the key of record `i` with `key`, without a copy of it.
    pub(super) fn order(&self, i: usize, key: &[u8]) -> Ordering {
        self.compare(i, (self.select(i) - i) as u64, key)
    }

    /// Compares the key of record `i`, whose high part is `high`, with `key`.
    fn compare(&self, i: usize, high: u64, key: &[u8]) -> Ordering {
        let (form, at) = (self.form, self.record_at(i));
        // An empty key stands before all keys.
        if key.is_empty() {
            return Ordering::Greater;
        }
        let low = get_bits(self.body, at + usize::from(form.tombstones), form.width);
        let number = form.base.wrapping_add(high.wrapping_shl(form.width) | low);
        let (key_prefix, rest) = key.split_at(form.prefix);
        let (key_number, rest) = rest.split_at(form.window());
        // On a page that makes no sense the number may have more bytes than the key has for it.
        let number = number & (u64::MAX >> (64 - 8 * form.window()));
        let order = self.body[FIXED..FIXED + form.prefix].cmp(key_prefix);
        order.then(number.cmp(&big_endian(key_number))).then_with(|| match rest {
            [] => Ordering::Equal,
            _ => self.compare_rest(at, rest),
        })
    }

    /// Compares the bytes of a key behind its number.
    fn compare_rest(&self, at: usize, rest: &[u8]) -> Ordering {
        if !TRIMS {
            return compare_bytes(self.body, at + self.form.head_bits(), rest);
        }
        let (at, kept) = self.form.bytes_of(self.body, at);
        let (middle, tail) = rest.split_at(self.form.middle());
        let (there, left_out) = middle.split_at(kept.middle.min(middle.len()));
        let order = compare_bytes(self.body, at, there);
        let order = order.then_with(|| {
            if left_out.iter().any(|&byte| byte != 0) { Ordering::Less } else { Ordering::Equal }
        });
        order.then_with(|| compare_bytes(self.body, at + 8 * kept.middle, tail))
    }

    pub(super) fn key_owned(&self, i: usize) -> Vec<u8> {
        let mut key = alloc::vec![0; self.form.key];
        self.key(i, &mut key);
        key
    }

    /// Copies a key to the stack.
    pub(super) fn key_at(&self, i: usize) -> Key {
        let mut key = Key::zeros(self.form.key);
        self.key(i, &mut key);
        key
    }

    pub(super) fn is_tombstone(&self, i: usize) -> bool {
        self.form.tombstones && get_bits(self.body, self.record_at(i), 1) == 1
    }

    pub(super) fn value(&self, i: usize, value: &mut [u8]) {
        let at = self.record_at(i);
        if !TRIMS {
            return get_bytes(self.body, at + self.form.head_bits() + 8 * self.form.rest(), value);
        }
        let (at, kept) = self.form.bytes_of(self.body, at);
        let tail = self.form.rest() - self.form.middle();
        get_kept(self.body, at + 8 * (kept.middle + tail), kept.value, value);
    }

    /// Index of the first record whose key is not below `key`, and whether that key is `key`.
    pub(super) fn find(&self, key: &[u8]) -> (usize, bool) {
        let form = self.form;
        // An empty key stands before all keys.
        if key.is_empty() {
            return (0, false);
        }
        match key[..form.prefix].cmp(&self.body[FIXED..FIXED + form.prefix]) {
            Ordering::Less => return (0, false),
            Ordering::Greater => return (self.count, false),
            Ordering::Equal => {}
        }
        let Some(number) = form.number(key).checked_sub(form.base) else { return (0, false) };
        let mut walk = self.walk_from_high(number >> form.width);
        while walk.index < self.count {
            match self.compare(walk.index, walk.high, key) {
                Ordering::Less => walk.advance(self),
                order => return (walk.index, order == Ordering::Equal),
            }
        }
        (self.count, false)
    }

    /// The first record whose high part is not below `high`.
    fn walk_from_high(&self, high: u64) -> Walk {
        let (mut zeros, mut byte, mut index) = (0u64, 0, 0);
        // Whole bytes are skipped while the zero that ends the part before is not in them.
        while index < self.count {
            let ones = self.high_byte(byte).count_ones();
            if zeros + u64::from(8 - ones) >= high {
                break;
            }
            zeros += u64::from(8 - ones);
            index += ones as usize;
            byte += 1;
        }
        let mut walk = Walk { index, bit: 8 * byte, high: zeros };
        walk.settle(self);
        while walk.index < self.count && walk.high < high {
            walk.advance(self);
        }
        walk
    }
}

impl Keys for View<'_> {
    fn count(&self) -> usize {
        self.count
    }

    fn tell(&self, see: &mut dyn FnMut(&[u8])) {
        let mut key = Key::zeros(self.form.key);
        for i in 0..self.count {
            self.key(i, &mut key);
            see(&key);
        }
    }
}

/// A position in a page while records are walked: a record and its high part.
#[derive(Clone, Copy, Debug)]
struct Walk {
    index: usize,
    /// Position of the record's 1 bit in the string of high parts, which the Elias-Fano code writes in unary.
    bit: usize,
    high: u64,
}

impl Walk {
    fn advance(&mut self, view: &View<'_>) {
        self.index += 1;
        self.bit += 1;
        self.settle(view);
    }

    /// Moves on to the next one in the string of high parts.
    fn settle(&mut self, view: &View<'_>) {
        if self.index >= view.count {
            return;
        }
        loop {
            let bits = view.high_byte(self.bit / 8) << (self.bit % 8);
            if bits != 0 {
                let zeros = bits.leading_zeros();
                self.high += u64::from(zeros);
                self.bit += zeros as usize;
                return;
            }
            let passed = 8 - self.bit % 8;
            self.high += passed as u64;
            self.bit += passed;
        }
    }
}

/// Logarithm, rounded down, of the mean gap between `records` records over `range`; 0 for a gap below 2. It
/// does without a 64-bit division, which is a long routine on a small controller.
fn log2_of_gap(range: u64, records: usize) -> u32 {
    let records = records.max(1) as u64;
    let log = range.max(1).ilog2().saturating_sub(records.ilog2());
    if records << log > range { log.saturating_sub(1) } else { log }
}

#[cfg(test)]
mod tests;
