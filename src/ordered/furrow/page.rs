//! Pages and changes.
//!
//! ```text
//! at  bytes  field of a page
//!  0    4    "FRW1"
//!  4    1    flags: 1 = the copies of its block are whole; 2 = mark without changes; 4 = mark of a close
//!  5    1    key bytes
//!  6    1    value bytes
//!  7    1    salt of the block, + 16 of the block before that counts: how often a cut kept this number from counting
//!  8    4    blocks of the chip
//! 12    2    pages of a block
//! 14    2    pages of the block before that count
//! 16    2    changes that count in the page before, which may be in the block before
//! 18    4    number of the block
//! 22    4    number of the oldest block that counts
//! 26    2    blocks between, of which no page counts: the two fields above are of the block before those
//! 28    4    CRC-32 of the page's number and the fields
//! 32    -    0xFF up to the next word, then changes
//!
//! at  bytes  field of a change
//!  0    1    0xA0 + 1 = removal + 2 = the next change belongs to it + 4 = it belongs to the one before
//!            + 8 = it was programmed with the one before
//!  1    3    CRC-32 of page, number of the block, place and fields, its low three bytes
//!  4    -    key, value (0xFF of a removal); 0xFF up to the next word
//! ```

use crate::codec::{crc32, get_u16, get_u32, put_u16, put_u32};
use crate::nand::Geometry;
use crate::ordered::RecordFormat;
use crate::units::Ppn;

pub(super) const HEADER_BYTES: usize = 32;
const CRC_AT: usize = 28;
const MAGIC: [u8; 4] = *b"FRW1";
/// Bytes of a change before its key.
pub(super) const CHANGE_BYTES: usize = 4;

pub(super) const WHOLE: u8 = 1;
pub(super) const MARK: u8 = 2;
pub(super) const CLOSED: u8 = 4;

/// Salts of a block.
pub(super) const SALTS: u8 = 16;

const TAG: u8 = 0xa0;
pub(super) const REMOVED: u8 = 1;
pub(super) const MORE: u8 = 2;
pub(super) const CONTINUED: u8 = 4;
pub(super) const JOINED: u8 = 8;

/// Where changes lie in the pages of a chip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) geometry: Geometry,
    pub(super) record: RecordFormat,
    /// Byte of the first change.
    first: usize,
    /// Bytes from a change to the next.
    pub(super) slot_bytes: usize,
    /// Changes of a page.
    pub(super) slots: u32,
}

impl Shape {
    pub(super) fn new(geometry: Geometry, record: RecordFormat) -> Shape {
        let word = usize::from(geometry.append_bytes).max(1);
        let first = HEADER_BYTES.next_multiple_of(word);
        let slot_bytes = (CHANGE_BYTES + record.entry_bytes()).next_multiple_of(word);
        let slots = ((geometry.page_bytes as usize).saturating_sub(first) / slot_bytes).min(0x7fff) as u32;
        Shape { geometry, record, first, slot_bytes, slots }
    }

    /// Number of the page that stands for changes without a page on the chip.
    pub(super) const fn nowhere(&self) -> Ppn {
        Ppn(self.geometry.pages())
    }

    /// Byte at which a change begins.
    pub(super) const fn at(&self, slot: u32) -> usize {
        self.first + slot as usize * self.slot_bytes
    }

    pub(super) const fn place(&self, ppn: Ppn, slot: u32) -> u32 {
        ppn.0 * self.slots + slot
    }

    pub(super) const fn split(&self, place: u32) -> (Ppn, u32) {
        (Ppn(place / self.slots), place % self.slots)
    }

    /// Places of a block.
    pub(super) const fn slots_of_block(&self) -> u32 {
        self.slots * self.geometry.pages_per_block
    }

    /// Most records in so many blocks: a page of each stays for changes.
    pub(super) fn most(&self, blocks: usize) -> u64 {
        let pages = u64::from(self.geometry.pages_per_block - 1);
        blocks as u64 * pages * u64::from(self.slots)
    }

    fn crc(&self, (ppn, slot): (Ppn, u32), number: u32, change: &[u8]) -> [u8; 3] {
        let end = CHANGE_BYTES + self.record.entry_bytes();
        let place = [ppn.0.to_le_bytes(), number.to_le_bytes(), slot.to_le_bytes()];
        let [a, b, c, _] =
            crc32(&[place.as_flattened(), &change[..1], &change[CHANGE_BYTES..end]]).to_le_bytes();
        [a, b, c]
    }

    /// Completes a change for its place.
    pub(super) fn seal(&self, place: (Ppn, u32), number: u32, change: &mut [u8]) {
        let crc = self.crc(place, number, change);
        change[1..CHANGE_BYTES].copy_from_slice(&crc);
    }

    /// Makes a change part of another group.
    pub(super) fn regroup(&self, change: &mut [u8], continued: bool, more: bool) {
        let flags = if continued { CONTINUED } else { 0 } | if more { MORE } else { 0 };
        change[0] = change[0] & !(CONTINUED | MORE) | flags;
    }

    pub(super) fn is_whole(&self, place: (Ppn, u32), number: u32, change: &[u8]) -> bool {
        change[0] & !(REMOVED | MORE | CONTINUED | JOINED) == TAG
            && change[1..CHANGE_BYTES] == self.crc(place, number, change)
    }

    /// Writes a change without its checksum.
    pub(super) fn write(&self, change: &mut [u8], flags: u8, key: &[u8], value: Option<&[u8]>) {
        change.fill(0xff);
        change[0] = TAG | flags | if value.is_none() { REMOVED } else { 0 };
        let (keys, values) = change[CHANGE_BYTES..].split_at_mut(key.len());
        keys.copy_from_slice(key);
        if let Some(value) = value {
            values[..value.len()].copy_from_slice(value);
        }
    }

    pub(super) fn key<'a>(&self, change: &'a [u8]) -> &'a [u8] {
        &change[CHANGE_BYTES..][..usize::from(self.record.key_bytes)]
    }

    pub(super) fn value<'a>(&self, change: &'a [u8]) -> &'a [u8] {
        &change[CHANGE_BYTES..][usize::from(self.record.key_bytes)..self.record.entry_bytes()]
    }
}

/// The block before one in the log, of which pages count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Before {
    /// Pages that count.
    pub(super) pages: u16,
    /// Blocks between of which none counts.
    pub(super) skipped: u16,
    pub(super) salt: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) flags: u8,
    pub(super) before: Before,
    /// Tells fillings of a block under the same number apart: a cut kept the former ones from counting.
    pub(super) salt: u8,
    /// Changes that count in the page before.
    pub(super) before_slots: u16,
    pub(super) number: u32,
    pub(super) oldest: u32,
}

/// Header with its verdict on the chip and its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decoded {
    Ours(Header),
    OtherRecord,
    OtherChip,
    Newer(u32),
}

impl Header {
    pub(super) fn encode(&self, shape: &Shape, ppn: Ppn, page: &mut [u8]) {
        page[..4].copy_from_slice(&MAGIC);
        let record = shape.record;
        page[4..8].copy_from_slice(&[
            self.flags,
            record.key_bytes,
            record.value_bytes,
            self.salt | self.before.salt << 4,
        ]);
        put_u32(page, 8, shape.geometry.blocks);
        put_u16(page, 12, shape.geometry.pages_per_block as u16);
        put_u16(page, 14, self.before.pages);
        put_u16(page, 16, self.before_slots);
        put_u32(page, 18, self.number);
        put_u32(page, 22, self.oldest);
        put_u16(page, 26, self.before.skipped);
        let crc = crc32(&[&ppn.0.to_le_bytes(), &page[..CRC_AT]]);
        put_u32(page, CRC_AT, crc);
    }

    pub(super) fn decode(shape: &Shape, ppn: Ppn, page: &[u8]) -> Option<Decoded> {
        if page[..3] != MAGIC[..3] || crc32(&[&ppn.0.to_le_bytes(), &page[..CRC_AT]]) != get_u32(page, CRC_AT)
        {
            return None;
        }
        if page[3] != MAGIC[3] {
            return Some(Decoded::Newer(u32::from(page[3].wrapping_sub(b'0'))));
        }
        let geometry = shape.geometry;
        if (get_u32(page, 8), u32::from(get_u16(page, 12))) != (geometry.blocks, geometry.pages_per_block) {
            return Some(Decoded::OtherChip);
        }
        if [page[5], page[6]] != [shape.record.key_bytes, shape.record.value_bytes] {
            return Some(Decoded::OtherRecord);
        }
        Some(Decoded::Ours(Header {
            flags: page[4],
            before: Before { pages: get_u16(page, 14), skipped: get_u16(page, 26), salt: page[7] / SALTS },
            before_slots: get_u16(page, 16),
            number: get_u32(page, 18),
            oldest: get_u32(page, 22),
            salt: page[7] % SALTS,
        }))
    }
}
