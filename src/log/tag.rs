//! The spare area of a log page: who it is, when it was written, how many entries its nodes hold, and its
//! checksum.
//!
//! ```text
//! at  bytes  field
//!  0    1    0xFF, the place of the bad-block mark
//!  1    1    addresses that its writer passes over in a row: 0xA0 any number, 0xB0 none, 0xC0 at most three, and then 0x10 for
//!            each that was passed over just before this page; plus 1 = holds the root, 2 = journal leaf, plus 4 times the layout of the page (mu*-Tree)
//!  2    1    lowest level of a node in the page (a leaf is 1)
//!  3    1    height of the tree, when the page holds the root
//!  4    1    pages of the same flush still to come (0 = the flush is whole)
//!  5    4    number of the block in the order of opening
//!  9    5    number of the page in the order of writing
//! 14    3    home block: the block this page's address names (differs after a program failure)
//! 17    4    CRC-32 of the data area, of every other byte of the spare area, of the page's place in its block (4 bytes) and of
//!            what the owner of the log is called
//! 21   16    entries in use in the node at level 1, 2, ... 8, two bytes each
//! 37    -    last page of a block only: one bit a page, 1 = valid when the block was filled (mu-Tree, section 5.1)
//! ```

use crate::codec::{crc32, get_u16, get_u32, get_u40, is_blank, put_u16, put_u32, put_u40};

/// Bits of a page's number in the order of writing. A block's number in the order of opening has
/// [`BLOCK_BITS`].
pub(super) const SEQUENCE_BITS: u32 = 40;
pub(super) const BLOCK_BITS: u32 = 32;

/// Largest number of nodes in a page: levels 1 to 8.
pub const LEVELS_MAX: usize = 8;

const MAGIC: u8 = 0xa0;
const MAGIC_GAPLESS: u8 = 0xb0;
const MAGIC_NARROW: u8 = 0xc0;
const FLAG_ROOT: u8 = 1;
const FLAG_JOURNAL: u8 = 2;
const LAYOUT_SHIFT: u32 = 2;

/// Number of layouts that a page can name.
pub const LAYOUTS_MAX: u8 = 4;

const CRC_AT: usize = 17;
const COUNTS_AT: usize = 21;
const VALID_AT: usize = COUNTS_AT + 2 * LEVELS_MAX;

/// Spare bytes that the log needs on a chip with this many pages to a block.
pub const fn spare_bytes_needed(pages_per_block: u32) -> usize {
    VALID_AT + (pages_per_block as usize).div_ceil(8)
}

/// Description of a page by its owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// True if the page holds the root: the operation that wrote it is complete.
    pub root: bool,
    /// True if the page is a leaf whose parent is not updated yet (journal of the wandering tree).
    pub journal: bool,
    /// Layout of the nodes in the page, below 4, for trees that know several layouts.
    pub layout: u8,
    /// Lowest level of a node in the page; a leaf is 1.
    pub lowest_level: u8,
    /// Height of the tree, if `root`.
    pub height: u8,
    /// Entries in use in the node at level `i + 1`.
    pub counts: [u16; LEVELS_MAX],
}

/// Position of a page in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Pages of the same flush still to come.
    pub remaining: u8,
    /// Number of the block in the order of opening.
    pub block_sequence: u32,
    /// Number of the page in the order of writing.
    pub sequence: u64,
    /// Block that the page's address names.
    pub home: u32,
    /// Bound for the addresses that the writer may have passed over before the next page.
    pub gaps: Gaps,
    /// Addresses passed over just before this page, if these are counted ([`Gaps::Narrow`]).
    pub passed_over: u8,
}

/// Bound for the addresses passed over between a page and the next one that is programmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gaps {
    /// Any number.
    Any,
    /// No address is passed over.
    None,
    /// At most [`Gaps::NARROW`].
    Narrow,
    /// Any number, but none of the first two addresses of a block. Only checkpoints tell it from `Any`.
    Inner,
}

impl Gaps {
    /// Most addresses in a narrow gap.
    pub const NARROW: u32 = 3;

    /// Most addresses in a gap. `None` if there is no bound.
    pub const fn most(self) -> Option<u32> {
        match self {
            Gaps::Any | Gaps::Inner => None,
            Gaps::None => Some(0),
            Gaps::Narrow => Some(Gaps::NARROW),
        }
    }

    /// Most addresses passed over between the first page of a block and the next one. `None` if there is no
    /// bound.
    pub const fn most_to_second(self) -> Option<u32> {
        match self {
            Gaps::Inner => Some(0),
            other => other.most(),
        }
    }

    /// Code of the gaps in a checkpoint.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns the gaps with this code; `None` for an unknown code.
    pub const fn from_code(code: u8) -> Option<Gaps> {
        match code {
            0 => Some(Gaps::Any),
            1 => Some(Gaps::None),
            2 => Some(Gaps::Narrow),
            3 => Some(Gaps::Inner),
            _ => None,
        }
    }

    const fn magic(self, passed_over: u8) -> u8 {
        match self {
            Gaps::Any | Gaps::Inner => MAGIC,
            Gaps::None => MAGIC_GAPLESS,
            Gaps::Narrow => MAGIC_NARROW + (passed_over << 4),
        }
    }

    /// Gaps by the second spare byte of a page, and the number of addresses passed over. `None` if the page
    /// is no page of a log.
    const fn of(byte: u8) -> Option<(Gaps, u8)> {
        match byte & 0xf0 {
            MAGIC => Some((Gaps::Any, 0)),
            MAGIC_GAPLESS => Some((Gaps::None, 0)),
            MAGIC_NARROW.. => Some((Gaps::Narrow, (byte - MAGIC_NARROW) >> 4)),
            _ => None,
        }
    }
}

/// Inputs of a page's checksum besides its bytes: the owner of the log, and the page's place in its block.
/// With the home in the tag the place makes the address, so a page of another log or another address is not
/// taken for one here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal<'a> {
    /// Name of the log's owner.
    pub owner: &'a [u8],
    /// Place of the page in its block.
    pub page: u32,
}

/// Writes `spare` for a page. `valid` is the bit map for the last page of a block, else empty.
pub fn encode(spare: &mut [u8], tag: &Tag, place: &Place, valid: &[u8]) {
    spare.fill(0xff);
    assert!(tag.layout < LAYOUTS_MAX, "layout {} has no place in the tag", tag.layout);
    assert!(u32::from(place.passed_over) <= Gaps::NARROW, "{} pages passed over", place.passed_over);
    debug_assert!(VALID_AT + valid.len() <= spare.len(), "valid bits beyond the spare area");
    debug_assert!(usize::from(tag.lowest_level) <= LEVELS_MAX, "R2: level {}", tag.lowest_level);
    debug_assert!(place.sequence >> 40 == 0 && place.home >> 24 == 0, "a number too wide for the tag");
    spare[1] = place.gaps.magic(place.passed_over) | tag.layout << LAYOUT_SHIFT;
    if tag.root {
        spare[1] |= FLAG_ROOT;
    }
    if tag.journal {
        spare[1] |= FLAG_JOURNAL;
    }
    spare[2] = tag.lowest_level;
    spare[3] = tag.height;
    spare[4] = place.remaining;
    put_u32(spare, 5, place.block_sequence);
    put_u40(spare, 9, place.sequence);
    spare[14..17].copy_from_slice(&place.home.to_le_bytes()[..3]);
    for (i, count) in tag.counts.iter().enumerate() {
        put_u16(spare, COUNTS_AT + 2 * i, *count);
    }
    spare[VALID_AT..VALID_AT + valid.len()].copy_from_slice(valid);
}

/// Puts the checksum of a page into its encoded spare area.
pub fn seal(spare: &mut [u8], data: &[u8], seal: Seal<'_>) {
    let crc = checksum(spare, data, seal);
    put_u32(spare, CRC_AT, crc);
}

/// Reads the spare area of a whole page. `None` if the bytes are not those of a sound log page.
pub fn decode(spare: &[u8], data: &[u8], seal: Seal<'_>) -> Option<(Tag, Place)> {
    is_whole(spare, data, seal).then(|| (tag_of(spare), place_of(spare)))
}

/// True if a page is a sound one of this log in this place.
pub fn is_whole(spare: &[u8], data: &[u8], seal: Seal<'_>) -> bool {
    Gaps::of(spare[1]).is_some() && checksum(spare, data, seal) == get_u32(spare, CRC_AT)
}

pub(super) fn tag_of(spare: &[u8]) -> Tag {
    Tag {
        root: spare[1] & FLAG_ROOT != 0,
        journal: spare[1] & FLAG_JOURNAL != 0,
        layout: spare[1] >> LAYOUT_SHIFT & (LAYOUTS_MAX - 1),
        lowest_level: spare[2],
        height: spare[3],
        counts: core::array::from_fn(|i| get_u16(spare, COUNTS_AT + 2 * i)),
    }
}

/// Home block of a whole page, and the home's number in the order of opening.
pub(super) fn account_of(spare: &[u8]) -> (u32, u32) {
    (u32::from_le_bytes([spare[14], spare[15], spare[16], 0]), get_u32(spare, 5))
}

pub(super) fn place_of(spare: &[u8]) -> Place {
    let (gaps, passed_over) = Gaps::of(spare[1]).unwrap_or((Gaps::Any, 0));
    let (home, block_sequence) = account_of(spare);
    Place { remaining: spare[4], block_sequence, sequence: get_u40(spare, 9), home, gaps, passed_over }
}

/// Bit map of valid pages, in the last page of a block.
pub fn valid_bits(spare: &[u8], pages_per_block: u32) -> &[u8] {
    &spare[VALID_AT..spare_bytes_needed(pages_per_block)]
}

/// True if a page reads as if it were never programmed.
pub fn looks_erased(spare: &[u8], data: &[u8]) -> bool {
    is_blank(spare) && is_blank(data)
}

fn checksum(spare: &[u8], data: &[u8], seal: Seal<'_>) -> u32 {
    crc32(&[data, &spare[..CRC_AT], &spare[CRC_AT + 4..], &seal.page.to_le_bytes(), seal.owner])
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const SEAL: Seal<'_> = Seal { owner: b"tree", page: 3 };

    #[test]
    fn a_tag_survives_the_round_trip_and_no_bit_flip() {
        let tag = Tag {
            root: true,
            journal: false,
            layout: 2,
            lowest_level: 1,
            height: 3,
            counts: [7, 130, 2, 0, 0, 0, 0, 9],
        };
        let place = Place {
            remaining: 2,
            block_sequence: 77,
            sequence: 1 << 35,
            home: 70_000,
            gaps: Gaps::Narrow,
            passed_over: 3,
        };
        let mut data = vec![0x5a; 256];
        let mut spare = vec![0; 64];
        encode(&mut spare, &tag, &place, &[0b1010_0000; 8]);
        seal(&mut spare, &data, SEAL);
        assert_eq!(decode(&spare, &data, SEAL), Some((tag, place)));
        assert_eq!(valid_bits(&spare, 64), [0b1010_0000; 8]);
        for bit in 0..(64 * 8) {
            spare[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&spare, &data, SEAL), None, "flip of spare bit {bit}");
            spare[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(decode(&spare, &data, Seal { page: 4, ..SEAL }), None);
        assert_eq!(decode(&spare, &data, Seal { owner: b"bush", ..SEAL }), None);
        data[9] ^= 4;
        assert_eq!(decode(&spare, &data, SEAL), None);
    }

    #[test]
    fn an_erased_page_is_no_log_page() {
        assert_eq!(decode(&[0xff; 64], &[0xff; 512], SEAL), None);
        assert!(looks_erased(&[0xff; 64], &[0xff; 512]));
        assert_eq!(spare_bytes_needed(128), 53);
    }
}
