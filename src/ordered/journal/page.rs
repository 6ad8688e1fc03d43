//! The bytes of a journal page. Integers are little-endian, keys are byte strings.
//!
//! ```text
//! bytes  0..4   CRC-32 of the rest of the page
//!        4..8   the page's number in the journal, from 0; page i is the store's i-th page from its end
//!        8..16  the characters "NXJOURN1"
//!       16..24  epoch, from 1: one more after each cut-off
//!       24..28  pages of the journal
//!       28..30  records in the page
//!       30      bytes of a key          31   bytes of a value
//!       32      1 = the index was closed: there is no record in the epoch; else 0
//!       33..36  0
//!       36..    records, in order of the updates: 1 (put) or 2 (removal), the key, the value (0 in a removal)
//!               what lies beyond them is 0
//! ```

use crate::codec::{crc32, get_u16, get_u32, get_u64, put_u16, put_u32, put_u64};
use crate::ordered::RecordFormat;
use crate::ordered::bplus::Change;

pub(super) const MAGIC: &[u8; 8] = b"NXJOURN1";
pub(super) const HEADER_BYTES: usize = 36;
const PUT: u8 = 1;
const REMOVAL: u8 = 2;

/// How a journal lies on its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) record: RecordFormat,
    pub(super) pages: u32,
    /// Records that a page takes.
    pub(super) page_records: usize,
}

/// What the header of a page tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) number: u32,
    pub(super) epoch: u64,
    pub(super) records: usize,
    pub(super) is_closed: bool,
}

/// A page as it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Never written.
    Blank,
    /// A page of a journal, and how this lies.
    Page(Header, Layout),
    /// No page of a journal.
    Foreign,
    /// One that lost its sense.
    Damaged,
}

impl Layout {
    pub(super) fn new(record: RecordFormat, pages: u32, page_bytes: usize) -> Layout {
        let fit = page_bytes.saturating_sub(HEADER_BYTES) / Layout::record_bytes_of(record);
        Layout { record, pages, page_records: fit.min(usize::from(u16::MAX)) }
    }

    const fn record_bytes_of(record: RecordFormat) -> usize {
        1 + record.entry_bytes()
    }

    pub(super) const fn record_bytes(&self) -> usize {
        Layout::record_bytes_of(self.record)
    }

    /// Puts a record into place `at`.
    pub(super) fn put_record(&self, page: &mut [u8], at: usize, change: Change<'_>) {
        let bytes = &mut page[HEADER_BYTES + at * self.record_bytes()..][..self.record_bytes()];
        bytes.fill(0);
        bytes[0] = if change.value.is_some() { PUT } else { REMOVAL };
        let (key, value) = bytes[1..].split_at_mut(usize::from(self.record.key_bytes));
        key.copy_from_slice(change.key);
        if let Some(new) = change.value {
            value.copy_from_slice(new);
        }
    }

    /// Wipes the record in place `at`.
    pub(super) fn wipe_record(&self, page: &mut [u8], at: usize) {
        page[HEADER_BYTES + at * self.record_bytes()..][..self.record_bytes()].fill(0);
    }

    /// The bytes of the first so many records.
    pub(super) fn records<'a>(&self, page: &'a [u8], count: usize) -> &'a [u8] {
        &page[HEADER_BYTES..][..count * self.record_bytes()]
    }

    /// The change that the bytes of a record say.
    pub(super) fn change<'a>(&self, bytes: &'a [u8]) -> Change<'a> {
        let (key, value) = bytes[1..].split_at(usize::from(self.record.key_bytes));
        Change { key, value: (bytes[0] == PUT).then_some(value) }
    }

    /// Completes a page with records in it.
    pub(super) fn seal(&self, page: &mut [u8], header: Header) {
        put_u32(page, 4, header.number);
        page[8..16].copy_from_slice(MAGIC);
        put_u64(page, 16, header.epoch);
        put_u32(page, 24, self.pages);
        put_u16(page, 28, header.records as u16);
        page[30] = self.record.key_bytes;
        page[31] = self.record.value_bytes;
        page[32] = u8::from(header.is_closed);
        page[33..HEADER_BYTES].fill(0);
        let crc = crc32(&[&page[4..]]);
        put_u32(page, 0, crc);
    }
}

/// Reads a page that should be of a journal.
pub(super) fn read(page: &[u8]) -> Found {
    if page.len() < HEADER_BYTES {
        return Found::Foreign;
    }
    let is_ours = page[8..16] == *MAGIC;
    if get_u32(page, 0) != crc32(&[&page[4..]]) {
        let is_blank = page.iter().all(|&byte| byte == 0);
        return if is_blank { Found::Blank } else { Found::Damaged };
    }
    if !is_ours || page[30] == 0 {
        return Found::Foreign;
    }
    let layout = Layout::new(RecordFormat::new(page[30], page[31]), get_u32(page, 24), page.len());
    let header = Header {
        number: get_u32(page, 4),
        epoch: get_u64(page, 16),
        records: usize::from(get_u16(page, 28)),
        is_closed: page[32] == 1,
    };
    let kinds = || layout.records(page, header.records).chunks(layout.record_bytes()).map(|bytes| bytes[0]);
    let is_sensible = header.records <= layout.page_records
        && header.number < layout.pages
        && (1..u64::MAX).contains(&header.epoch)
        && !(header.is_closed && header.records > 0)
        && kinds().all(|kind| kind == PUT || kind == REMOVAL);
    if is_sensible { Found::Page(header, layout) } else { Found::Damaged }
}
