//! The bytes of a leaf segment: operation records, the first of them sorted.
//!
//! A leaf has L consecutive pages, its segments. Their records are one list: first the records from the last
//! consolidation, each putting a value, in key order; then the records appended since, oldest first.
//!
//! ```text
//! bytes  0..4   CRC-32 of the rest of the page
//!        4..8   the page's own number
//!        8      its place in the leaf, 0 for the first
//!        9      0x50, the mark of a segment
//!       10..12  records in it
//!       12..14  how many of them are sorted
//!       14..16  0
//!       16..20  how often the leaf was consolidated, a split counting as once for both halves
//!       20..24  CRC-32 of the segment before, which is full; 0 in the first
//!       24..    records: key, value, 1 = put or 0 = remove
//! ```
//!
//! A segment from an earlier consolidation does not match the one before it and does not belong to the leaf.

use super::corrupted;
use nandex::check::{IndexError, Invariant, message};
use nandex::codec::{crc32, get_u16, get_u32, put_u16, put_u32};
use nandex::ordered::RecordFormat;
use nandex::ordered::change::Change;
use nandex::units::Lpn;

const MARK: u8 = 0x50;
const HEAD: usize = 24;

/// Largest number of segments of any leaf.
pub(super) const SEGMENTS_MAX: usize = 16;

/// The layout of a tree's leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeafLayout {
    pub(super) record: RecordFormat,
    pub(super) page_bytes: usize,
    pub(super) segments: usize,
    /// Largest number of records in a segment.
    pub(super) records: usize,
}

/// The head of a segment, without its page number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) place: usize,
    pub(super) records: usize,
    pub(super) sorted: usize,
    pub(super) epoch: u32,
    pub(super) before: u32,
}

impl LeafLayout {
    pub(super) fn new(
        record: RecordFormat,
        page_bytes: usize,
        segments: usize,
    ) -> Result<LeafLayout, IndexError> {
        let bytes = record.entry_bytes() + 1;
        let records = (page_bytes.saturating_sub(HEAD) / bytes).min(usize::from(u16::MAX));
        if records < 2 || !(2..=SEGMENTS_MAX).contains(&segments) {
            return Err(IndexError::unsupported(message!(
                "leaves of {segments} pages with {records} records of {bytes} bytes each: 2 to {SEGMENTS_MAX} pages, and 2 \
                 records at least, are possible"
            )));
        }
        Ok(LeafLayout { record, page_bytes, segments, records })
    }

    pub(super) fn capacity(&self) -> usize {
        self.segments * self.records
    }

    /// Largest number of records with which a consolidated leaf stays one. With more it is split.
    pub(super) fn keeps(&self) -> usize {
        self.capacity() * 3 / 4
    }

    /// Largest number of records with which two leaves may be joined.
    pub(super) fn joins(&self) -> usize {
        self.capacity() * 7 / 8
    }

    pub(super) fn segments_for(&self, records: usize) -> usize {
        records.div_ceil(self.records).max(1)
    }

    fn record_bytes(&self) -> usize {
        self.record.entry_bytes() + 1
    }

    pub(super) fn record<'a>(&self, page: &'a [u8], at: usize) -> Change<'a> {
        let (bytes, key) = (self.record_bytes(), usize::from(self.record.key_bytes));
        let record = &page[HEAD + at * bytes..][..bytes];
        let is_put = record[bytes - 1] == 1;
        Change { key: &record[..key], value: is_put.then(|| &record[key..bytes - 1]) }
    }

    pub(super) fn put_record(&self, page: &mut [u8], at: usize, change: Change<'_>) {
        let (bytes, key) = (self.record_bytes(), usize::from(self.record.key_bytes));
        let record = &mut page[HEAD + at * bytes..][..bytes];
        record[..key].copy_from_slice(change.key);
        record[key..].fill(0);
        if let Some(value) = change.value {
            record[key..bytes - 1].copy_from_slice(value);
            record[bytes - 1] = 1;
        }
    }

    /// Completes a segment with its head and checksum. Returns the checksum.
    pub(super) fn seal(page: &mut [u8], lpn: Lpn, head: Head) -> u32 {
        put_u32(page, 4, lpn.0);
        (page[8], page[9]) = (head.place as u8, MARK);
        put_u16(page, 10, head.records as u16);
        put_u16(page, 12, head.sorted as u16);
        put_u16(page, 14, 0);
        put_u32(page, 16, head.epoch);
        put_u32(page, 20, head.before);
        let crc = crc32(&[&page[4..]]);
        put_u32(page, 0, crc);
        crc
    }

    /// The checksum in a segment that was verified.
    pub(super) fn checksum(page: &[u8]) -> u32 {
        get_u32(page, 0)
    }

    pub(super) fn head(page: &[u8]) -> Head {
        Head {
            place: usize::from(page[8]),
            records: usize::from(get_u16(page, 10)),
            sorted: usize::from(get_u16(page, 12)),
            epoch: get_u32(page, 16),
            before: get_u32(page, 20),
        }
    }

    /// Checks a page read as the segment at `place`.
    pub(super) fn verify(&self, page: &[u8], lpn: Lpn, place: usize) -> Result<Head, IndexError> {
        if get_u32(page, 0) != crc32(&[&page[4..]]) {
            return Err(corrupted(Invariant::O1, "the checksum of a segment is wrong", lpn));
        }
        let head = LeafLayout::head(page);
        if get_u32(page, 4) != lpn.0 || head.place != place || page[9] != MARK {
            return Err(corrupted(Invariant::O1, "another page stands in a segment's place", lpn));
        }
        if head.records > self.records || head.sorted > head.records || (place > 0 && head.records == 0) {
            return Err(corrupted(Invariant::O2, "the segment has too many records, or none", lpn));
        }
        Ok(head)
    }

    /// Whether `page` is the segment at `place` of the leaf and follows the segment `before`.
    pub(super) fn follows(&self, before: &[u8], page: &[u8], place: usize) -> bool {
        let (first, second) = (LeafLayout::head(before), LeafLayout::head(page));
        first.records == self.records
            && page[9] == MARK
            && second.place == place
            && second.epoch == first.epoch
            && second.before == LeafLayout::checksum(before)
    }
}
