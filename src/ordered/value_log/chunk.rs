//! Chunks: pieces of values as a page of the log holds them, one behind the other, and the places that the
//! index keeps of them.
//!
//! ```text
//! chunk                                     place, in the index
//! bytes 0..4  CRC-32 of the page's number   bytes 0..4  page of the log
//!             and of the bytes from 4 on          4..6  where in the page the chunk begins
//!       4..6  bytes of the value in it            6..8  bytes of the value in it
//!       6..8  its number in the value
//!       8     bytes of the key
//!       9..   the key, then the bytes
//! ```

use crate::check::{IndexError, words};
use crate::codec::{crc32, get_u16, get_u32, put_u16, put_u32};
use crate::units::Ppn;
use alloc::vec::Vec;

/// Bytes of a chunk before its key.
pub(super) const HEAD_BYTES: usize = 9;
/// Where in a chunk the bytes of its value are counted.
pub(super) const LENGTH_AT: usize = 4;
/// Bytes of a place.
pub(super) const PLACE_BYTES: usize = 8;
/// The first byte of what the index holds: the value itself follows.
const SHORT: u8 = 0;
/// The first byte of what the index holds: the places of its chunks follow.
const LONG: u8 = 1;

/// Bytes of a chunk.
pub(super) const fn chunk_bytes(key: usize, value: usize) -> usize {
    HEAD_BYTES + key + value
}

/// Where a chunk lies.
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

    pub(super) fn encode_to(self, list: &mut Vec<u8>) {
        list.extend_from_slice(&self.page.0.to_le_bytes());
        list.extend_from_slice(&self.at.to_le_bytes());
        list.extend_from_slice(&self.bytes.to_le_bytes());
    }
}

/// The value of the index for a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Held<'a> {
    Short(&'a [u8]),
    Long(&'a [u8]),
}

impl<'a> Held<'a> {
    pub(super) fn decode(held: &'a [u8]) -> Result<Held<'a>, IndexError> {
        match held {
            [SHORT, value @ ..] => Ok(Held::Short(value)),
            [LONG, places @ ..] if !places.is_empty() && places.len().is_multiple_of(PLACE_BYTES) => {
                Ok(Held::Long(places))
            }
            _ => {
                let what = words("V1: the index holds neither a value nor places of one");
                Err(IndexError::Corrupted { what, at: held.len() as u64 })
            }
        }
    }

    /// The places of a long value; none of a short one.
    pub(super) fn places(self) -> impl Iterator<Item = Place> + 'a {
        let places = match self {
            Held::Short(_) => &[],
            Held::Long(places) => places,
        };
        places.chunks_exact(PLACE_BYTES).map(Place::decode)
    }

    pub(super) fn begin_short(list: &mut Vec<u8>) {
        list.clear();
        list.push(SHORT);
    }

    pub(super) fn begin_long(list: &mut Vec<u8>) {
        list.clear();
        list.push(LONG);
    }
}

/// A chunk in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk<'a> {
    pub(super) number: u16,
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
}

impl<'a> Chunk<'a> {
    /// The chunk at the beginning of these bytes, by its lengths alone.
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

    /// Writes it without its checksum.
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

/// Whether these bytes are one chunk of that page, and whole.
pub(super) fn is_whole(chunk: &[u8], page: Ppn) -> bool {
    Chunk::parse(chunk)
        .is_some_and(|parsed| parsed.bytes() == chunk.len() && get_u32(chunk, 0) == checksum(chunk, page))
}

/// Gives the chunks of a page their checksums.
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
        assert!(matches!(Held::decode(&list).unwrap(), Held::Short(b"xy")));
        Held::begin_long(&mut list);
        let place = Place { page: Ppn(0x01020304), at: 0x506, bytes: 0x708 };
        place.encode_to(&mut list);
        assert_eq!(Held::decode(&list).unwrap().places().collect::<Vec<_>>(), [place]);
        for wrong in [&[][..], &[2, 1], &[1], &[1, 0, 0, 0, 0, 0, 0, 0], &list[..8]] {
            assert!(matches!(Held::decode(wrong), Err(IndexError::Corrupted { .. })), "{wrong:?}");
        }
    }
}
