//! A page of SBITS: a header of 24 bytes, then records in the order of their keys.
//!
//! ```text
//! at  bytes  field
//!  0    1    0xB6
//!  1    1    flags: 1 = partly filled, written to the side; 2 = written by a close; 4 = the CRC knows the chip;
//!            8 and more: of a version that came later
//!  2    1    key bytes
//!  3    1    value bytes
//!  4    2    records in use; of a full page, programs since the newest partly filled page, 65535 for more
//!  6    5    number of the page among the full ones, from 0; of a partly filled page, the number it will have
//! 11    4    number of the oldest block of full pages that is kept
//! 15    5    number of the program
//! 20    4    CRC-32 of every other byte of the data area, exclusive or the number of blocks of the chip; the
//!            CRC alone in pages of before, which have no flag 4
//! 24    -    records, each key then value
//! ```

use crate::codec::{crc32, get_u16, get_u32, get_u40, put_u16, put_u32, put_u40};
use crate::ordered::RecordFormat;
use crate::sort;

pub(super) const HEADER_BYTES: usize = 24;
const MAGIC: u8 = 0xb6;
const PARTIAL: u8 = 1;
const CLOSED: u8 = 2;
const OF_CHIP: u8 = 4;
/// Shift of the flags that belong to later versions.
const LATER_SHIFT: u32 = 3;
const CRC_AT: usize = 20;
/// Largest count of programs; it stands for this many or more.
pub(super) const SINCE_MAX: u16 = u16::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) partial: bool,
    pub(super) closed: bool,
    pub(super) record: RecordFormat,
    /// Number of records; in a full page, the number of programs since the newest partly filled page.
    pub(super) count: u16,
    pub(super) number: u64,
    pub(super) oldest_block: u32,
    pub(super) sequence: u64,
}

impl Header {
    /// Lower bound of the program number of the newest partly filled page, as a full page tells it.
    pub(super) fn newest_partial(&self) -> Option<u64> {
        let since = Some(self.count).filter(|&since| !self.partial && since < SINCE_MAX);
        since.map(|since| self.sequence.saturating_sub(u64::from(since)))
    }

    /// Number of the block for which a full page was written, and the page in it. Page numbers may exceed 32
    /// bits, but not their distance from the oldest block; a microcontroller divides larger numbers only by a
    /// library routine.
    pub(super) fn block_and_page(&self, pages_per_block: u32) -> Option<(u32, u32)> {
        let first = u64::from(self.oldest_block) * u64::from(pages_per_block);
        let from_first = u32::try_from(self.number.checked_sub(first)?).ok()?;
        let block = self.oldest_block.checked_add(from_first / pages_per_block)?;
        Some((block, from_first % pages_per_block))
    }

    /// Writes the header of a page whose records are in place, on a chip of `blocks` blocks.
    pub(super) fn encode(&self, page: &mut [u8], blocks: u32) {
        debug_assert!(
            !self.partial || usize::from(self.count) * self.record.entry_bytes() <= page.len() - HEADER_BYTES,
            "S2: {} records in a page",
            self.count
        );
        page[0] = MAGIC;
        page[1] = OF_CHIP | if self.partial { PARTIAL } else { 0 } | if self.closed { CLOSED } else { 0 };
        (page[2], page[3]) = (self.record.key_bytes, self.record.value_bytes);
        put_u16(page, 4, self.count);
        put_u40(page, 6, self.number);
        put_u32(page, 11, self.oldest_block);
        put_u40(page, 15, self.sequence);
        let crc = checksum(page, blocks);
        put_u32(page, CRC_AT, crc);
    }

    /// Header of a sound page of a chip of `blocks` blocks; else `None`.
    pub(super) fn decode(page: &[u8], blocks: u32) -> Option<Header> {
        if page[0] != MAGIC
            || page[1] >> LATER_SHIFT > 0
            || page[2] == 0
            || checksum(page, blocks) != get_u32(page, CRC_AT)
        {
            return None;
        }
        let header = Header {
            partial: page[1] & PARTIAL != 0,
            closed: page[1] & CLOSED != 0,
            record: RecordFormat::new(page[2], page[3]),
            count: get_u16(page, 4),
            number: get_u40(page, 6),
            oldest_block: get_u32(page, 11),
            sequence: get_u40(page, 15),
        };
        let room = (page.len() - HEADER_BYTES) / header.record.entry_bytes();
        (!header.partial || usize::from(header.count) <= room).then_some(header)
    }
}

fn checksum(page: &[u8], blocks: u32) -> u32 {
    let chip = if page[1] & OF_CHIP == 0 { 0 } else { blocks };
    crc32(&[&page[..CRC_AT], &page[CRC_AT + 4..]]) ^ chip
}

/// Version of a whole page from a later build. Pages of this build have version 1.
pub(super) fn newer_version(page: &[u8], blocks: u32) -> Option<u32> {
    let version = 1 + u32::from(page[1] >> LATER_SHIFT);
    let is_whole = page[0] == MAGIC && checksum(page, blocks) == get_u32(page, CRC_AT);
    (is_whole && version > 1).then_some(version)
}

/// True if a page that is not sound may belong to a chip with another number of blocks.
pub(super) fn is_of_other_chip(page: &[u8]) -> bool {
    let blocks = checksum(page, 0) ^ get_u32(page, CRC_AT);
    page[0] == MAGIC && page[1] & OF_CHIP != 0 && (1..1 << 24).contains(&blocks)
}

pub(super) fn entry(page: &[u8], record: RecordFormat, i: usize) -> (&[u8], &[u8]) {
    let at = HEADER_BYTES + i * record.entry_bytes();
    page[at..at + record.entry_bytes()].split_at(usize::from(record.key_bytes))
}

/// Place of a key among the first `count` records. `Err` has the place where it would be inserted.
pub(super) fn search(page: &[u8], record: RecordFormat, count: usize, key: &[u8]) -> Result<usize, usize> {
    sort::search(0..count, |i| entry(page, record, i).0.cmp(key))
}
