//! Buffers: chains of pages on the medium, each page sorted, and a fragment of a page in RAM; and when to
//! empty one (ADAPT).
//!
//! A page of a chain is a unit:
//!
//! ```text
//! bytes  0..4   CRC-32 of the rest of the page
//!        4..8   the page's own number
//!        8      0xA7, the mark of a buffer      9      0
//!       10..12  records
//!       12..16  unit written before it, 0xFFFFFFFF for none
//!       16..    records, sorted by key
//! ```

use crate::ordered::messages::ground::{NONE, Run, Shadow, Shape, Slice, corrupted};
use alloc::vec;
use alloc::vec::Vec;
use nandex::check::{IndexError, Invariant};
use nandex::codec::{get_u16, get_u32, put_u16, put_u32};
use nandex::nand::Cause;
use nandex::units::Lpn;

const HEAD_BYTES: usize = 16;
const MARK: u8 = 0xA7;

/// Number of a buffer's past sizes that look-ups remember.
pub(super) const HISTORY: usize = 8;

/// A past size of a buffer: the look-ups before it was reached, the pages of a scan, and the cost of
/// emptying the buffer then.
type Sight = (u32, u32, u64);

/// The records that wait for a subtree.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    /// The least key that the buffer takes.
    pub(super) low: Vec<u8>,
    /// The unit of the page written last.
    pub(super) tail: u32,
    pub(super) pages: u32,
    /// Records in pages of the chain. `puts` counts those with a value.
    pub(super) records: u32,
    pub(super) puts: u32,
    pub(super) fragment: Run,
    lookups: u32,
    history: Vec<Sight>,
}

impl Buffer {
    pub(super) const fn new(shape: Shape, low: Vec<u8>) -> Buffer {
        Buffer {
            low,
            tail: NONE,
            pages: 0,
            records: 0,
            puts: 0,
            fragment: Run::new(shape),
            lookups: 0,
            history: Vec::new(),
        }
    }

    pub(super) const fn ram_bytes(key_bytes: usize) -> usize {
        size_of::<Buffer>() + key_bytes + HISTORY * size_of::<Sight>()
    }

    pub(super) const fn page_records(shape: Shape, page_bytes: usize) -> usize {
        page_bytes.saturating_sub(HEAD_BYTES) / shape.bytes()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pages == 0 && self.fragment.is_empty()
    }

    /// Number of records with a value, in chain and fragment.
    pub(super) fn all_puts(&self) -> i64 {
        i64::from(self.puts) + self.fragment.all().puts() as i64
    }

    /// Makes the buffer empty. Only its least key stays.
    pub(super) fn reset(&mut self) {
        *self = Buffer::new(self.fragment.shape, core::mem::take(&mut self.low));
    }

    /// Writes some records of the fragment as a page of the chain.
    pub(super) fn append(&mut self, shadow: &mut Shadow<'_>, records: usize) -> Result<(), IndexError> {
        debug_assert!(0 < records && records <= self.fragment.len(), "L2: {records} records of the fragment");
        debug_assert!(
            records <= Buffer::page_records(self.fragment.shape, shadow.page_bytes()),
            "L2: {records} records in a page"
        );
        let unit = shadow.units.take()?;
        let mut page = vec![0; shadow.page_bytes()];
        let part = self.fragment.all().slice(0..records);
        page[8] = MARK;
        put_u16(&mut page, 10, records as u16);
        put_u32(&mut page, 12, self.tail);
        page[HEAD_BYTES..HEAD_BYTES + part.bytes.len()].copy_from_slice(part.bytes);
        let lpn = shadow.lpn(unit, 0);
        shadow.write(lpn, Cause::Merge, &mut page)?;
        let written = self.fragment.take(0..records);
        self.tail = unit;
        self.pages += 1;
        self.records += records as u32;
        self.puts += written.all().puts() as u32;
        Ok(())
    }

    /// Shows the pages of the chain with their units, the newest first. Ends when `show` says so.
    pub(super) fn scan(
        &self,
        shadow: &mut Shadow<'_>,
        cause: Cause,
        show: &mut dyn FnMut(u32, Slice<'_>) -> bool,
    ) -> Result<(), IndexError> {
        let shape = self.fragment.shape;
        let mut page = vec![0; shadow.page_bytes()];
        let mut unit = self.tail;
        for _ in 0..self.pages {
            if unit >= shadow.units.count() {
                return Err(corrupted(Invariant::S3, "a page of a buffer lies beyond the store", Lpn(unit)));
            }
            let lpn = shadow.lpn(unit, 0);
            shadow.read(lpn, cause, &mut page)?;
            let count = usize::from(get_u16(&page, 10));
            if page[8] != MARK || count > Buffer::page_records(shape, page.len()) {
                return Err(corrupted(Invariant::S2, "the page is no page of a buffer", lpn));
            }
            let records = Slice { shape, bytes: &page[HEAD_BYTES..HEAD_BYTES + count * shape.bytes()] };
            if !show(unit, records) {
                return Ok(());
            }
            unit = get_u32(&page, 12);
        }
        if unit == NONE {
            Ok(())
        } else {
            Err(corrupted(Invariant::L2, "a buffer is longer than it should be", Lpn(unit)))
        }
    }

    /// All records of the buffer, the newest of each key, and the units of its chain.
    pub(super) fn collect(
        &self,
        shadow: &mut Shadow<'_>,
        cause: Cause,
    ) -> Result<(Run, Vec<u32>), IndexError> {
        let (mut all, mut units) = (self.fragment.clone(), Vec::with_capacity(self.pages as usize));
        self.scan(shadow, cause, &mut |unit, records| {
            let older = Run { shape: records.shape, bytes: records.bytes.to_vec() };
            all = older.under(all.all(), true);
            units.push(unit);
            true
        })?;
        Ok((all, units))
    }

    /// Notes a look-up that scanned the chain; `empty_cost` is the cost of emptying the buffer now. Returns
    /// whether emptying it at an earlier look-up would have paid by now (ski rental).
    pub(super) fn adapt(&mut self, empty_cost: u64) -> bool {
        self.lookups = self.lookups.saturating_add(1);
        if self.history.last().is_none_or(|(_, pages, _)| *pages != self.pages) {
            if self.history.len() == HISTORY {
                self.history.remove(HISTORY / 2);
            }
            self.history.push((self.lookups, self.pages, empty_cost));
        }
        debug_assert!(self.history.len() <= HISTORY, "{} sights are remembered", self.history.len());
        let payoff = |(since, pages, _): &Sight| u64::from(self.lookups - since) * u64::from(*pages);
        self.history.iter().any(|sight| payoff(sight) >= sight.2)
    }
}

/// Expected number of m places hit by n random blows: m (1 - (1 - 1/m)^n), in integers.
pub(super) fn touched(m: u64, n: u64) -> u64 {
    if m <= 1 {
        return m.min(n);
    }
    // The power by squaring, in 32-bit fixed point.
    let (mut power, mut factor, mut left) = (1u64 << 32, (1u64 << 32) - (1u64 << 32) / m, n);
    let times = |a: u64, b: u64| ((u128::from(a) * u128::from(b)) >> 32) as u64;
    while left > 0 {
        if left & 1 == 1 {
            power = times(power, factor);
        }
        factor = times(factor, factor);
        left >>= 1;
    }
    (m - ((u128::from(m) * u128::from(power)) >> 32) as u64).min(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_pays_off_once_scans_have_cost_as_much_as_emptying() {
        let mut buffer = Buffer::new(Shape { key: 2, value: 2 }, vec![0; 2]);
        buffer.pages = 3;
        let due = (1..100).find(|_| buffer.adapt(30));
        assert_eq!(due, Some(11), "ten look-ups after the first saw it");
        buffer.reset();
        buffer.pages = 1;
        assert!((1..=5).all(|_| !buffer.adapt(10)));
        buffer.pages = 6;
        assert_eq!((1..100).find(|_| buffer.adapt(30)), Some(6), "the larger size pays off first");
    }

    #[test]
    fn touched_is_the_expectation() {
        assert_eq!((touched(1, 9), touched(100, 1), touched(100, 10_000)), (1, 1, 100));
        assert!((62..=64).contains(&touched(100, 100)) && touched(1_000_000, 50) <= 50);
    }
}
