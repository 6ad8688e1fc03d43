//! Chunks: the pieces of values in pages of the log, one behind the other, and the places of chunks as the
//! index stores them.
//!
//! ```text
//! chunk                                     places, in the index
//! bytes 0..4  CRC-32 of the page's number   bytes 0     2
//!             and of the bytes from 4 on          1..5  mark of the value
//!       4..6  bytes of the value in it            5..7  where in its page the first chunk begins
//!       6..8  its number in the value             7..9  bytes of the value in the last chunk
//!       8     bytes of the key                    9..   page of the log of each chunk, 4 bytes
//!       9..   the key, then the bytes
//! ```
//!
//! All chunks but the first begin their pages, and all but the last end theirs. The *mark* is a CRC-32 over
//! the checksums of the chunks. If the index is older than the log, or a page of the log is an older version,
//! the mark tells that the chunks are of two values of a key. Places have no mark in two cases: they were
//! written before marks existed, or the value is one chunk and the records of the index have no room for a
//! mark.

use crate::check::{IndexError, Invariant};
use crate::codec::{crc32, get_u16, get_u32, put_u16, put_u32};
use crate::units::Ppn;
use alloc::vec::Vec;

/// Bytes of a chunk before its key.
pub(super) const HEAD_BYTES: usize = 9;
/// Place in a chunk of the number of value bytes.
pub(super) const LENGTH_AT: usize = 4;
/// Bytes of a place without a mark.
pub(super) const PLACE_BYTES: usize = 8;
/// First byte of an index value that is the short value itself.
const SHORT: u8 = 0;
/// First byte of an index value with the places of the value's chunks.
const LONG: u8 = 1;
/// First byte of an index value with the mark of the value and the places of its chunks.
const MARKED: u8 = 2;
/// Bytes before the pages of a value that has a mark.
const MARKED_HEAD: usize = 9;
/// Bytes of the index value of a marked value of one chunk.
pub(super) const MARKED_ONE: usize = MARKED_HEAD + 4;
/// Bytes of the index value of a value of one chunk without a mark.
pub(super) const UNMARKED_ONE: usize = 1 + PLACE_BYTES;

/// Bytes of a chunk with a key and value bytes of these lengths.
pub(super) const fn chunk_bytes(key: usize, value: usize) -> usize {
    HEAD_BYTES + key + value
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) page: Ppn,
    pub(super) at: u16,
    pub(super) bytes: u16,
}

impl Place {
    fn decode(bytes: &[u8]) -> Place {
        Place { page: Ppn(get_u32(bytes, 0)), at: get_u16(bytes, 4), bytes: get_u16(bytes, 6) }
    }

    fn encode_to(self, list: &mut Vec<u8>) {
        list.extend_from_slice(&self.page.0.to_le_bytes());
        list.extend_from_slice(&self.at.to_le_bytes());
        list.extend_from_slice(&self.bytes.to_le_bytes());
    }
}

/// Mark of a value after the next chunk, from the mark before and the chunk's checksum. It begins with 0.
pub(super) fn mark_with(mark: u32, checksum: u32) -> u32 {
    crc32(&[&mark.to_le_bytes(), &checksum.to_le_bytes()])
}

/// Index value of a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Held<'a> {
    Short(&'a [u8]),
    /// Places without a mark.
    Long(&'a [u8]),
    Marked(Marked<'a>),
}

/// A mark and the places of the chunks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marked<'a> {
    mark: u32,
    /// Place in its page at which the first chunk begins. `last` is the number of value bytes in the last
    /// chunk.
    first: u16,
    last: u16,
    /// Number of value bytes in a chunk that fills a page.
    most: usize,
    pages: &'a [u8],
}

impl Marked<'_> {
    fn place(&self, number: usize) -> Place {
        let at = if number == 0 { self.first } else { 0 };
        let is_last = (number + 1) * 4 == self.pages.len();
        // A chunk that would begin beyond the end of the page is noticed later by its place.
        let bytes = if is_last { self.last } else { self.most.saturating_sub(at.into()) as u16 };
        Place { page: Ppn(get_u32(self.pages, number * 4)), at, bytes }
    }
}

impl<'a> Held<'a> {
    /// Decodes an index value. `most` is the number of value bytes in a chunk with this key that fills a
    /// page.
    pub(super) fn decode(held: &'a [u8], most: usize) -> Result<Held<'a>, IndexError> {
        match held {
            [MARKED, ..] if held.len() >= MARKED_ONE && (held.len() - MARKED_HEAD).is_multiple_of(4) => {
                Ok(Held::Marked(Marked {
                    mark: get_u32(held, 1),
                    first: get_u16(held, 5),
                    last: get_u16(held, 7),
                    most,
                    pages: &held[MARKED_HEAD..],
                }))
            }
            [SHORT, value @ ..] => Ok(Held::Short(value)),
            [LONG, places @ ..] if !places.is_empty() && places.len().is_multiple_of(PLACE_BYTES) => {
                Ok(Held::Long(places))
            }
            _ => {
                let what = "the index holds neither a value nor places of one";
                Err(IndexError::broken(Invariant::V1, what, held.len() as u64))
            }
        }
    }

    /// Places of a long value; empty for a short one.
    pub(super) fn places(self) -> impl Iterator<Item = Place> + 'a {
        let count = match self {
            Held::Short(_) => 0,
            Held::Long(places) => places.len() / PLACE_BYTES,
            Held::Marked(marked) => marked.pages.len() / 4,
        };
        (0..count).map(move |number| match self {
            Held::Marked(marked) => marked.place(number),
            Held::Short(held) | Held::Long(held) => Place::decode(&held[number * PLACE_BYTES..]),
        })
    }

    /// True if the index holds the value whose chunks have this mark.
    pub(super) fn is_of(self, mark: u32) -> bool {
        match self {
            Held::Marked(marked) => marked.mark == mark,
            Held::Short(_) | Held::Long(_) => true,
        }
    }

    pub(super) fn begin_short(list: &mut Vec<u8>) {
        list.clear();
        list.push(SHORT);
    }

    /// Writes the places of a value, and its mark if there is one.
    pub(super) fn encode(list: &mut Vec<u8>, places: &[Place], mark: Option<u32>) {
        list.clear();
        let (Some(mark), [first, .., last] | [first @ last]) = (mark, places) else {
            list.push(LONG);
            places.iter().for_each(|place| place.encode_to(list));
            return;
        };
        list.push(MARKED);
        list.extend_from_slice(&mark.to_le_bytes());
        list.extend_from_slice(&first.at.to_le_bytes());
        list.extend_from_slice(&last.bytes.to_le_bytes());
        places.iter().for_each(|place| list.extend_from_slice(&place.page.0.to_le_bytes()));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk<'a> {
    pub(super) number: u16,
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
}

impl<'a> Chunk<'a> {
    /// Returns the chunk at the beginning of these bytes. Only its lengths are checked.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Chunk<'a>> {
        if bytes.len() < HEAD_BYTES {
            return None;
        }
        let (value, key) = (usize::from(get_u16(bytes, LENGTH_AT)), usize::from(bytes[8]));
        let chunk = bytes.get(HEAD_BYTES..chunk_bytes(key, value))?;
        Some(Chunk { number: get_u16(bytes, 6), key: &chunk[..key], value: &chunk[key..] })
    }

    pub(super) fn bytes(&self) -> usize {
        chunk_bytes(self.key.len(), self.value.len())
    }

    /// Writes the chunk without its checksum.
    pub(super) fn write(&self, out: &mut [u8]) {
        put_u32(out, 0, 0);
        put_u16(out, LENGTH_AT, self.value.len() as u16);
        put_u16(out, 6, self.number);
        out[8] = self.key.len() as u8;
        let (key, value) = out[HEAD_BYTES..self.bytes()].split_at_mut(self.key.len());
        key.copy_from_slice(self.key);
        value.copy_from_slice(self.value);
    }
}

fn checksum(chunk: &[u8], page: Ppn) -> u32 {
    crc32(&[&page.0.to_le_bytes(), &chunk[4..]])
}

/// True if these bytes are exactly one chunk of that page, and whole.
pub(super) fn is_whole(chunk: &[u8], page: Ppn) -> bool {
    Chunk::parse(chunk)
        .is_some_and(|parsed| parsed.bytes() == chunk.len() && get_u32(chunk, 0) == checksum(chunk, page))
}

/// Writes the checksums of the chunks of a page.
pub(super) fn seal(mut chunks: &mut [u8], page: Ppn) {
    while let Some(bytes) = Chunk::parse(chunks).map(|chunk| chunk.bytes()) {
        let (chunk, rest) = chunks.split_at_mut(bytes);
        let sum = checksum(chunk, page);
        put_u32(chunk, 0, sum);
        chunks = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_follow_each_other_and_are_told_from_damage() {
        let chunks = [
            Chunk { number: 0, key: b"ab", value: &[7; 30] },
            Chunk { number: 513, key: b"", value: &[8] },
            Chunk { number: 1, key: &[9; 253], value: &[1; 100] },
        ];
        let mut page = [0xff; 600];
        let mut at = 0;
        for chunk in &chunks {
            chunk.write(&mut page[at..]);
            at += chunk.bytes();
        }
        seal(&mut page[..at], Ppn(5));
        let mut at = 0;
        for chunk in &chunks {
            assert_eq!(Chunk::parse(&page[at..]), Some(*chunk));
            let bytes = &mut page[at..at + chunk.bytes()];
            assert!(is_whole(bytes, Ppn(5)) && !is_whole(bytes, Ppn(6)));
            for i in 0..bytes.len() {
                bytes[i] ^= 0x10;
                assert!(!is_whole(bytes, Ppn(5)), "{i}");
                bytes[i] ^= 0x10;
            }
            at += chunk.bytes();
        }
        assert_eq!(Chunk::parse(&page[at..]), None, "what is erased is no chunk");
    }

    #[test]
    fn what_the_index_holds_is_a_value_or_places() {
        let mut list = Vec::new();
        Held::begin_short(&mut list);
        list.extend_from_slice(b"xy");
        assert!(matches!(Held::decode(&list, 900).unwrap(), Held::Short(b"xy")));
        let place = Place { page: Ppn(0x01020304), at: 0x50, bytes: 0x70 };
        Held::encode(&mut list, &[place], None);
        assert_eq!(list.len(), UNMARKED_ONE);
        assert_eq!(Held::decode(&list, 900).unwrap().places().collect::<Vec<_>>(), [place]);
        for wrong in [&[][..], &[3, 1], &[1], &[1, 0, 0, 0, 0, 0, 0, 0], &list[..8], &[2; 12], &[2; 14]] {
            assert!(matches!(Held::decode(wrong, 900), Err(IndexError::Corrupted { .. })), "{wrong:?}");
        }
    }

    #[test]
    fn marked_places_are_those_that_were_written() {
        let place = |page, at, bytes| Place { page: Ppn(page), at, bytes };
        let lists = [
            &[place(7, 30, 100)][..],
            &[place(7, 30, 870), place(9, 0, 5)],
            &[place(u32::MAX, 0, 900), place(0, 0, 900), place(1, 0, 900)],
        ];
        let mut list = Vec::new();
        for places in lists {
            Held::encode(&mut list, places, Some(0xfedc_ba98));
            assert_eq!(list.len(), MARKED_ONE + 4 * (places.len() - 1));
            let held = Held::decode(&list, 900).unwrap();
            assert_eq!(held.places().collect::<Vec<_>>(), places);
            assert!(held.is_of(0xfedc_ba98) && !held.is_of(0));
        }
        assert_ne!(mark_with(mark_with(0, 1), 2), mark_with(mark_with(0, 2), 1));
    }
}
