//! The spare area of a page in a buffer block: whose it is, when it was written, and which group it belongs
//! to.
//!
//! ```text
//! at  bytes  field
//!  0    1    0xFF, the place of the bad-block mark
//!  1    1    0xB0 | flags: 1 = first of its group, 2 = last of its group, 4 = the page was trimmed and has no contents,
//!            8 = the newest contents are in the store below and not here
//!  2    4    logical page
//!  6    5    version: one more than that of the page programmed before it, in whatever buffer block
//! 11    4    erases of this block so far
//! 15    3    the buffer block converted just before, whose pages of that life are void; 0xFFFFFF for none
//! 18    1    the low byte of the erases of that block then: the life of it that is void
//! 19    4    the page programmed just before, in whatever buffer block; 0xFFFFFFFF for none since the mount
//! 23    4    CRC-32 of the page's own number (u32), of the data area, then of bytes 1..23
//! ```
//!
//! The data area is always programmed whole. The checksum also tells which bit is wrong where just one is,
//! and that one is put right when the page is read: a page that a power cut or age left one bit short is a
//! whole page. A page in the place of another is none, since its number is in the checksum, and one from
//! before its block's last erase tells by `erases`.

use nandex::codec::{crc32, get_u32, get_u40, put_u32, put_u40, wrong_bit};
use nandex::fault::StoreFault;
use nandex::nand::{Cause, Nand, NandError, Reading, read_again};
use nandex::units::{Pbn, Ppn};

/// Bytes of the spare area that a page in a buffer block uses.
pub const SPARE_BYTES: usize = 27;

const MARK: u8 = 0xb0;
const IS_FIRST: u8 = 1;
const IS_LAST: u8 = 2;
const IS_TRIM: u8 = 4;
const IS_BELOW: u8 = 8;
const CRC_AT: usize = 23;
const NONE: u32 = u32::MAX;

/// Number of blocks that a tag can tell apart.
pub(super) const BLOCKS_MAX: u32 = 0xff_ffff;

/// A block between two of its erases. Copies of older pages may be written to the same block in a later
/// life, so a version alone does not tell the two apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Life {
    pub(super) pbn: Pbn,
    /// Low byte of the block's erase count.
    erases: u8,
}

impl Life {
    /// The life of a block that has been erased `erases` times.
    pub(super) fn new(pbn: Pbn, erases: u32) -> Life {
        debug_assert!(pbn.0 < BLOCKS_MAX, "{pbn} has no place in a tag");
        Life { pbn, erases: erases as u8 }
    }

    fn to_u32(life: Option<Life>) -> u32 {
        life.map_or(NONE, |life| life.pbn.0 | u32::from(life.erases) << 24)
    }

    fn from_u32(field: u32) -> Option<Life> {
        let pbn = Pbn(field & BLOCKS_MAX);
        (pbn.0 != BLOCKS_MAX).then_some(Life { pbn, erases: (field >> 24) as u8 })
    }
}

/// Meaning of a page in a buffer block for its logical page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Content {
    /// The page holds the contents of its logical page.
    Data,
    /// The page is a note that the logical page is trimmed.
    Trimmed,
    /// The page is a note that the store below has the logical page, newer than any older page of the
    /// buffer block.
    Below,
}

impl Content {
    fn flag(self) -> u8 {
        match self {
            Content::Data => 0,
            Content::Trimmed => IS_TRIM,
            Content::Below => IS_BELOW,
        }
    }

    fn of(flags: u8) -> Option<Content> {
        match flags & (IS_TRIM | IS_BELOW) {
            0 => Some(Content::Data),
            IS_TRIM => Some(Content::Trimmed),
            IS_BELOW => Some(Content::Below),
            _ => None,
        }
    }
}

/// The spare area of a page in a buffer block, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BufferTag {
    pub(super) is_first: bool,
    pub(super) is_last: bool,
    pub(super) content: Content,
    pub(super) lpn: u32,
    pub(super) version: u64,
    pub(super) erases: u32,
    /// The block converted before this page was written. All that it held then is void.
    pub(super) converted: Option<Life>,
    /// The page programmed before this one. It was whole then.
    pub(super) previous: Option<Ppn>,
}

impl BufferTag {
    /// Highest version that this page proves to be whole. A group begins only after the one before has ended.
    pub(super) fn proves(&self) -> u64 {
        match (self.is_first, self.is_last) {
            (_, true) => self.version,
            (true, false) => self.version - 1,
            (false, false) => 0,
        }
    }

    /// Encodes the spare area of this page at `ppn` with contents `data`.
    pub(super) fn seal(&self, ppn: Ppn, data: &[u8]) -> [u8; SPARE_BYTES] {
        debug_assert!(
            self.version > 0 && self.version >> 40 == 0,
            "K3: version {} has no place",
            self.version
        );
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let mut spare = [0xff; SPARE_BYTES];
        spare[1] = MARK | flag(self.is_first, IS_FIRST) | flag(self.is_last, IS_LAST) | self.content.flag();
        put_u32(&mut spare, 2, self.lpn);
        put_u40(&mut spare, 6, self.version);
        put_u32(&mut spare, 11, self.erases);
        put_u32(&mut spare, 15, Life::to_u32(self.converted));
        put_u32(&mut spare, 19, self.previous.map_or(NONE, |ppn| ppn.0));
        let crc = sum(ppn, data, &spare);
        put_u32(&mut spare, CRC_AT, crc);
        spare
    }

    /// Decodes the tag of a page and corrects one wrong bit in it. `None` if more bits are wrong.
    fn open(ppn: Ppn, data: &mut [u8], spare: &mut [u8; SPARE_BYTES]) -> Option<BufferTag> {
        let syndrome = get_u32(spare, CRC_AT) ^ sum(ppn, data, spare);
        // A syndrome of one bit is a wrong bit in the checksum itself.
        if syndrome.count_ones() > 1 {
            let wrong = wrong_bit(syndrome, data.len() + CRC_AT - 1)?;
            let byte = match data.get_mut(wrong / 8) {
                Some(_) => &mut data[wrong / 8],
                None => &mut spare[1 + wrong / 8 - data.len()],
            };
            *byte ^= 1 << (wrong % 8);
        }
        let (flags, version) = (spare[1] ^ MARK, get_u40(spare, 6));
        let content = Content::of(flags)?;
        (flags <= IS_FIRST | IS_LAST | IS_TRIM | IS_BELOW && version > 0).then(|| BufferTag {
            is_first: flags & IS_FIRST != 0,
            is_last: flags & IS_LAST != 0,
            content,
            lpn: get_u32(spare, 2),
            version,
            erases: get_u32(spare, 11),
            converted: Life::from_u32(get_u32(spare, 15)),
            previous: Some(get_u32(spare, 19)).filter(|&ppn| ppn != NONE).map(Ppn),
        })
    }
}

fn sum(ppn: Ppn, data: &[u8], spare: &[u8; SPARE_BYTES]) -> u32 {
    crc32(&[&ppn.0.to_le_bytes(), data, &spare[1..CRC_AT]])
}

/// Whether the page was never programmed, with one wrong bit allowed. A programmed page always has two
/// zeros or more: the mark alone has two.
fn is_erased(data: &[u8], spare: &[u8]) -> bool {
    let mut zeros = 0;
    spare[1..].iter().chain(data).all(|&byte| {
        zeros += byte.count_zeros();
        zeros <= 1
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageRead {
    /// Every bit is 1, or every bit but one. The page was never programmed, or a program or erase was cut
    /// short.
    Erased,
    /// The page is neither erased nor a whole page of a buffer block.
    Unreadable,
    /// The page is whole, with this tag.
    Page(BufferTag),
}

/// Reads a page into `data` (the whole data area) and checks it. A failed read is tried again.
pub(super) fn read_page<N: Nand>(
    nand: &mut N,
    ppn: Ppn,
    cause: Cause,
    data: &mut [u8],
) -> Result<PageRead, StoreFault> {
    read_weak_page(nand, ppn, cause, data).map(|(found, _)| found)
}

/// Does the same as [`read_page`]. Also returns whether the first read failed: such a page should soon be
/// written elsewhere.
pub(super) fn read_weak_page<N: Nand>(
    nand: &mut N,
    ppn: Ppn,
    cause: Cause,
    data: &mut [u8],
) -> Result<(PageRead, bool), StoreFault> {
    let mut spare = [0; SPARE_BYTES];
    let is_whole = |data: &[u8], spare: &[u8]| {
        let Ok(spare) = <&[u8; SPARE_BYTES]>::try_from(spare) else { return false };
        get_u32(spare, CRC_AT) == sum(ppn, data, spare) || is_erased(data, spare)
    };
    let reading = match read_again(nand, (ppn, cause), data, &mut spare, is_whole) {
        Ok(reading) => reading,
        Err(NandError::Uncorrectable(_) | NandError::BadBlock(_)) => {
            return Ok((PageRead::Unreadable, false));
        }
        Err(error) => return Err(error.into()),
    };
    if is_erased(data, &spare) {
        return Ok((PageRead::Erased, false));
    }
    let found = BufferTag::open(ppn, data, &mut spare).map_or(PageRead::Unreadable, PageRead::Page);
    Ok((found, reading == Reading::Weak))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_bit_is_put_right_and_two_are_noticed() {
        let tag = BufferTag {
            is_first: true,
            is_last: false,
            content: Content::Data,
            lpn: 1 << 27,
            version: (1 << 40) - 1,
            erases: 70_000,
            converted: Some(Life::new(Pbn(9), 70_003)),
            previous: Some(Ppn(77)),
        };
        let whole = [0x5a; 64];
        let at = Ppn(9);
        let sealed = tag.seal(at, &whole);
        assert_eq!(sealed[0], 0xff);
        for other in (0..64).filter(|&other| other != at.0).map(Ppn) {
            assert_eq!(
                BufferTag::open(other, &mut whole.clone(), &mut sealed.clone()),
                None,
                "in the place of {other}"
            );
        }
        for bit in 0..(64 + SPARE_BYTES) * 8 {
            let (mut data, mut spare) = (whole, sealed);
            let mut flip = |bit: usize| match bit / 8 {
                byte if byte < 64 => data[byte] ^= 1 << (bit % 8),
                byte => spare[byte - 64] ^= 1 << (bit % 8),
            };
            flip(bit);
            if !(512..520).contains(&bit) && bit + 9 < (64 + SPARE_BYTES) * 8 {
                let (mut data, mut spare) = (data, spare);
                let other = bit + 9;
                match other / 8 {
                    byte if byte < 64 => data[byte] ^= 1 << (other % 8),
                    byte => spare[byte - 64] ^= 1 << (other % 8),
                }
                let is_mark = (512..520).contains(&other);
                assert_eq!(
                    BufferTag::open(at, &mut data, &mut spare).is_some(),
                    is_mark,
                    "bits {bit} and {other}"
                );
            }
            assert_eq!(BufferTag::open(at, &mut data, &mut spare), Some(tag), "bit {bit}");
            assert_eq!(data, whole);
        }
    }
}
