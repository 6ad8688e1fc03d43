//! The pages of MicroHash: a header of 44 bytes, then readings, index entries or buckets.
//!
//! ```text
//! at  bytes  field
//!  0    1    0xC8
//!  1    1    1 = directory, 2 = index page, 3 = data page, 4 = partly filled data page, written to the side
//!  2    1    flags: 1 = written by a close; 2 = of a directory, a program failed in the block before
//!  3    1    version: 2; in logs of before 1, whose checksum is without the blocks, or 0, without the page, too
//!  4    2    readings, entries or buckets in use
//!  6    2    of a directory, pages of the block before
//!  8    5    number of the page in the log; of a partly filled one, of the page that precedes it
//! 13    5    readings in data pages before this one
//! 18    8    time of the newest reading up to here
//! 26    4    number of the oldest block that is kept
//! 30   2x5   of an index page, the older ones of its bucket (2^40 - 1 for none); of a directory, the first page that may
//!            hold readings without an entry on flash, and the first page that is indexed
//! 40    4    CRC-32 of every other byte of the data area, exclusive or the page's number on the chip, exclusive
//!            or 256 times the chip's blocks
//! 44    -    data: readings, time (8) then value (4); index: least and largest value of the bucket (4 + 4), then entries,
//!            data page (5) then place in it (2); directory: buckets, least value (4), newest index pages (2x5), the last
//!            reading with an entry on flash (5 + 2), readings of late (4)
//! ```

use crate::sensor::Reading;
use nandex::codec::{crc32, get_u16, get_u32, get_u40, get_u64, put_u16, put_u32, put_u40, put_u64};
use nandex::units::Ppn;

pub(super) const HEADER_BYTES: usize = 44;
pub(super) const ENTRIES_AT: usize = HEADER_BYTES + 8;
pub(super) const READING_BYTES: usize = 12;
pub(super) const ENTRY_BYTES: usize = 7;
pub(super) const BUCKET_BYTES: usize = 25;
const MAGIC: u8 = 0xc8;
const CLOSED: u8 = 1;
const FAILED: u8 = 2;
const VERSION_AT: usize = 3;
const CRC_AT: usize = 40;
/// Bits by which the number of blocks is shifted in a checksum, so that it is above the page number.
const BLOCKS_SHIFT: u32 = 8;
/// Version of pages whose checksum includes their place and the number of blocks of their chip.
const VERSION: u8 = 2;
/// Version of pages whose checksum includes their place only.
const VERSION_OF_PLACE: u8 = 1;
/// Version of pages whose checksum includes neither their place nor the number of blocks.
const VERSION_BEFORE: u8 = 0;

/// The place of a page, as its checksum includes it: the page's number, and the blocks of its chip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) ppn: Ppn,
    pub(super) blocks: u32,
}

/// In links: no page.
pub(super) const NONE: u64 = (1 << 40) - 1;

/// The position of a reading: its data page and its index in the page.
pub(super) type Position = (u64, u16);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    Index,
    Data,
    Partial,
}

/// The header of a page, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) closed: bool,
    pub(super) previous_failed: bool,
    pub(super) count: u16,
    pub(super) previous: u16,
    pub(super) number: u64,
    pub(super) readings: u64,
    pub(super) time: u64,
    pub(super) oldest: u32,
    pub(super) links: [u64; 2],
}

impl Header {
    /// Number of readings in data pages up to this page and in it.
    pub(super) fn readings_up_to(&self) -> u64 {
        self.readings + if self.kind == Kind::Data { u64::from(self.count) } else { 0 }
    }

    /// Writes the header and the checksum into a page with contents, to be programmed at `place`.
    pub(super) fn encode(&self, page: &mut [u8], place: Place) {
        page[0] = MAGIC;
        page[1] = match self.kind {
            Kind::Directory => 1,
            Kind::Index => 2,
            Kind::Data => 3,
            Kind::Partial => 4,
        };
        page[2] = if self.closed { CLOSED } else { 0 } | if self.previous_failed { FAILED } else { 0 };
        page[VERSION_AT] = VERSION;
        put_u16(page, 4, self.count);
        put_u16(page, 6, self.previous);
        put_u40(page, 8, self.number);
        put_u40(page, 13, self.readings);
        put_u64(page, 18, self.time);
        put_u32(page, 26, self.oldest);
        put_u40(page, 30, self.links[0]);
        put_u40(page, 35, self.links[1]);
        let crc = checksum(page, place);
        put_u32(page, CRC_AT, crc);
    }

    /// Decodes the header of a page read from `place`. `None` if the page is not sound.
    pub(super) fn decode(page: &[u8], place: Place) -> Option<Header> {
        if page[0] != MAGIC || page[VERSION_AT] > VERSION || checksum(page, place) != get_u32(page, CRC_AT) {
            return None;
        }
        let kind = match page[1] {
            1 => Kind::Directory,
            2 => Kind::Index,
            3 => Kind::Data,
            4 => Kind::Partial,
            _ => return None,
        };
        let header = Header {
            kind,
            closed: page[2] & CLOSED != 0,
            previous_failed: page[2] & FAILED != 0,
            count: get_u16(page, 4),
            previous: get_u16(page, 6),
            number: get_u40(page, 8),
            readings: get_u40(page, 13),
            time: get_u64(page, 18),
            oldest: get_u32(page, 26),
            links: [get_u40(page, 30), get_u40(page, 35)],
        };
        let room = match kind {
            Kind::Directory => buckets_of(page.len()),
            Kind::Index => entries_of(page.len()),
            Kind::Data => readings_of(page.len()),
            // A full one is a data page.
            Kind::Partial => readings_of(page.len()).saturating_sub(1),
        };
        (usize::from(header.count) <= room).then_some(header)
    }
}

fn checksum(page: &[u8], place: Place) -> u32 {
    let of_place = match page[VERSION_AT] {
        VERSION_BEFORE => 0,
        VERSION_OF_PLACE => place.ppn.0,
        _ => place.ppn.0 ^ (place.blocks << BLOCKS_SHIFT),
    };
    crc32(&[&page[..CRC_AT], &page[CRC_AT + 4..]]) ^ of_place
}

/// The version of a whole page, if it is newer than this build knows.
pub(super) fn newer_version(page: &[u8], place: Place) -> Option<u32> {
    let is_newer = page[0] == MAGIC && page[VERSION_AT] > VERSION;
    (is_newer && checksum(page, place) == get_u32(page, CRC_AT)).then_some(page[VERSION_AT].into())
}

/// Whether an unsound page is a sound page of another place, of `pages` on the chip. No power cut makes one
/// from a page of this place.
pub(super) fn is_of_elsewhere(page: &[u8], place: Place, pages: u32) -> bool {
    let other = checksum(page, Place { ppn: Ppn(0), ..place }) ^ get_u32(page, CRC_AT);
    let is_placed = (VERSION_OF_PLACE..=VERSION).contains(&page[VERSION_AT]);
    page[0] == MAGIC && is_placed && other < pages && other != place.ppn.0
}

/// Whether an unsound page may be the page of this place on a chip with another number of blocks.
pub(super) fn is_of_other_chip(page: &[u8], place: Place) -> bool {
    let other = checksum(page, Place { blocks: 0, ..place }) ^ get_u32(page, CRC_AT);
    let is_shifted = other.trailing_zeros() >= BLOCKS_SHIFT;
    page[0] == MAGIC && page[VERSION_AT] == VERSION && other > 0 && is_shifted
}

/// Readings that fit into a data page.
pub(super) const fn readings_of(page_bytes: usize) -> usize {
    page_bytes.saturating_sub(HEADER_BYTES) / READING_BYTES
}

/// Entries that fit into an index page.
pub(super) const fn entries_of(page_bytes: usize) -> usize {
    page_bytes.saturating_sub(ENTRIES_AT) / ENTRY_BYTES
}

/// Buckets that fit into a directory page.
pub(super) const fn buckets_of(page_bytes: usize) -> usize {
    page_bytes.saturating_sub(HEADER_BYTES) / BUCKET_BYTES
}

pub(super) fn get_i32(page: &[u8], at: usize) -> i32 {
    get_u32(page, at).cast_signed()
}

pub(super) fn put_i32(page: &mut [u8], at: usize, value: i32) {
    put_u32(page, at, value.cast_unsigned());
}

pub(super) fn reading(page: &[u8], i: usize) -> Reading {
    let at = HEADER_BYTES + i * READING_BYTES;
    Reading { time: get_u64(page, at), value: get_i32(page, at + 8) }
}

pub(super) fn put_reading(page: &mut [u8], i: usize, reading: Reading) {
    let at = HEADER_BYTES + i * READING_BYTES;
    put_u64(page, at, reading.time);
    put_i32(page, at + 8, reading.value);
}

pub(super) fn entry(page: &[u8], i: usize) -> Position {
    let at = ENTRIES_AT + i * ENTRY_BYTES;
    (get_u40(page, at), get_u16(page, at + 5))
}

pub(super) fn put_entry(page: &mut [u8], i: usize, position: Position) {
    let at = ENTRIES_AT + i * ENTRY_BYTES;
    put_u40(page, at, position.0);
    put_u16(page, at + 5, position.1);
}

pub(super) fn bounds(page: &[u8]) -> (i32, i32) {
    (get_i32(page, HEADER_BYTES), get_i32(page, HEADER_BYTES + 4))
}

pub(super) fn put_bounds(page: &mut [u8], bounds: (i32, i32)) {
    put_i32(page, HEADER_BYTES, bounds.0);
    put_i32(page, HEADER_BYTES + 4, bounds.1);
}
