//! Bytes of a checkpoint, written and read page by page, never held as a whole.
//!
//! The writer of a checkpoint repeats its whole contents for each page ([`Contents`]), and a [`Window`] keeps
//! the part that falls into the page. Of a list of rows only those of the page are made. The reader takes the
//! contents from a [`Source`] as the pages come.

use crate::blocks::BlockTable;
use crate::check::words;
use crate::fault::StoreFault;
use crate::store::StoreError;
use alloc::vec;
use alloc::vec::Vec;

/// Error text for a chip without checkpoints that is not blank.
pub const NO_CHECKPOINT: &str =
    words("no checkpoint: something else is there, other spare bytes (ECC layout), or a format that was cut");

/// Contents of a record, which its owner tells again for each of the record's pages.
pub trait Contents {
    /// Number of bytes.
    fn byte_count(&self) -> usize;

    /// Tells all bytes in order. `blocks` is the table with which the record is written; it tells the state
    /// when the record was begun.
    fn put(&self, blocks: &BlockTable, page: &mut Window<'_>);
}

impl Contents for Vec<u8> {
    fn byte_count(&self) -> usize {
        self.len()
    }

    fn put(&self, _: &BlockTable, page: &mut Window<'_>) {
        page.bytes(self);
    }
}

/// Page of a record that is being filled.
#[derive(Debug)]
pub struct Window<'a> {
    page: &'a mut [u8],
    /// Place of the page's first byte in the record.
    from: usize,
    /// Place of the byte that is told next.
    at: usize,
}

impl Window<'_> {
    /// Window on all bytes.
    pub fn of(bytes: &mut [u8]) -> Window<'_> {
        Window { page: bytes, from: 0, at: 0 }
    }

    /// Window on one page of a record. Bytes that are not told are 0.
    pub(super) fn on(page: &mut [u8], number: u32) -> Window<'_> {
        page.fill(0);
        Window { from: number as usize * page.len(), page, at: 0 }
    }

    /// Tells bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let end = self.at + bytes.len();
        let (first, last) = (self.at.max(self.from), end.min(self.from + self.page.len()));
        if first < last {
            let part = &bytes[first - self.at..last - self.at];
            self.page[first - self.from..last - self.from].copy_from_slice(part);
        }
        self.at = end;
    }

    /// Tells `count` rows of equal length. Only rows that fall into the page are made.
    pub fn rows<const N: usize>(&mut self, count: usize, row: impl Fn(usize) -> [u8; N]) {
        self.rows_of(count, N, &mut |page, number| page.bytes(&row(number)));
    }

    /// Loop of [`Window::rows`]: compiled once, for rows of any length.
    fn rows_of(&mut self, count: usize, bytes_each: usize, say: &mut dyn FnMut(&mut Self, usize)) {
        let start = self.at;
        let first = self.from.saturating_sub(start) / bytes_each;
        let end = (self.from + self.page.len()).saturating_sub(start).div_ceil(bytes_each).min(count);
        for number in first..end {
            self.at = start + number * bytes_each;
            say(self, number);
        }
        self.at = start + count * bytes_each;
    }
}

/// Bytes of a record, as they are read.
pub trait Source {
    /// Number of bytes left.
    fn left(&self) -> usize;

    /// Reads the next bytes. An error if there are fewer, or if the record ends before it is complete: then
    /// the results so far must be dropped.
    fn take(&mut self, out: &mut [u8]) -> Result<(), StoreFault>;
}

impl Source for &[u8] {
    fn left(&self) -> usize {
        self.len()
    }

    fn take(&mut self, out: &mut [u8]) -> Result<(), StoreFault> {
        let (taken, rest) = self.split_at_checked(out.len()).ok_or(SHORT)?;
        out.copy_from_slice(taken);
        *self = rest;
        Ok(())
    }
}

pub(super) const SHORT: StoreError =
    StoreError::Corrupted { what: words("a checkpoint is shorter than it says"), at: 0 };

/// Reads the next `count` bytes.
pub fn take_bytes(source: &mut dyn Source, count: usize) -> Result<Vec<u8>, StoreFault> {
    if count > source.left() {
        return Err(SHORT.into());
    }
    let mut bytes = vec![0; count];
    source.take(&mut bytes)?;
    Ok(bytes)
}

/// Reads all bytes that are left.
pub fn take_all(source: &mut dyn Source) -> Result<Vec<u8>, StoreFault> {
    let left = source.left();
    take_bytes(source, left)
}

/// Refuses a source with less than `count` rows left.
fn require_rows(source: &dyn Source, count: usize, bytes_each: usize) -> Result<(), StoreFault> {
    match count.checked_mul(bytes_each) {
        Some(bytes) if bytes <= source.left() => Ok(()),
        _ => Err(SHORT.into()),
    }
}

/// Reads the next rows of equal length, and maps each. Room is reserved once, for exactly these rows.
pub fn take_rows<const N: usize, T>(
    source: &mut dyn Source,
    count: usize,
    mut row: impl FnMut([u8; N]) -> T,
) -> Result<Vec<T>, StoreFault> {
    require_rows(source, count, N)?;
    let mut rows = Vec::with_capacity(count);
    for _ in 0..count {
        let mut bytes = [0; N];
        source.take(&mut bytes)?;
        rows.push(row(bytes));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_together_hold_what_is_said_and_rows_come_back() {
        let (head, rows) = ([9u8; 5], 40usize);
        let say = |page: &mut Window<'_>| {
            page.bytes(&head);
            page.rows(rows, |at| [at as u8, 0x11, at as u8 ^ 0xff]);
            page.rows(0, |_| [0u8; 7]);
            page.bytes(&[3, 4]);
        };
        let total = 5 + 3 * rows + 2;
        let mut whole = vec![0; total];
        say(&mut Window::of(&mut whole));
        for page_bytes in [1, 2, 3, 7, 16, 64, 200] {
            let mut pages = Vec::new();
            for number in 0..total.div_ceil(page_bytes) as u32 {
                let mut page = vec![0xee; page_bytes];
                say(&mut Window::on(&mut page, number));
                pages.extend(page);
            }
            assert_eq!(pages[..total], whole[..]);
            assert!(pages[total..].iter().all(|&byte| byte == 0), "zero behind the end");
        }
        let source: &mut dyn Source = &mut &whole[..];
        assert_eq!(take_bytes(source, 5), Ok(head.to_vec()));
        let numbers = take_rows(source, rows, |row: [u8; 3]| row[0]).unwrap();
        assert!(numbers.iter().enumerate().all(|(at, &number)| at == usize::from(number)));
        assert_eq!(
            (take_rows(source, 1, |row: [u8; 3]| row), take_all(source)),
            (Err(SHORT.into()), Ok(vec![3, 4]))
        );
    }
}
