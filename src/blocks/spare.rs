//! The 16 bytes in the spare area of every page that this room programs.
//!
//! ```text
//! byte  0      1      2..6     6..11     11      12..16
//!      0xFF   kind   number   version   extra   CRC-32 of the page's place, the data area, bytes 1..12
//! ```
//!
//! All fields are little-endian. Byte 0 is the bad-block mark and stays 0xFF. The meaning of number, version
//! and extra depends on the kind. The data area is always programmed and checked whole, so that one CRC
//! covers every bit of the page but the mark: a page that is torn, half erased or flipped does not pass for a
//! written one. The place (the number of the physical page) is not stored, only included in the sum: a page
//! that comes back in another place does not pass either.

use crate::check::words;
use crate::codec::{crc32, crc32_before, get_u32, get_u40, put_u32, put_u40, wrong_bit};
use crate::fault::StoreFault;
use crate::nand::{Cause, Geometry, Nand, NandError, Reading, read_again};
use crate::store::StoreError;
use crate::units::Ppn;

/// Bytes of the spare area in use.
pub const SPARE_BYTES: usize = 16;

/// Kind of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PageKind {
    /// Logical page as the host wrote it.
    Host = b'H',
    /// Logical page moved by the FTL.
    Copy = b'C',
    /// List of trimmed logical pages.
    Trim = b'T',
    /// Logical page in its place in a data block: page `n` of the block holds the `n`th page of a logical
    /// block.
    Data = b'D',
    /// Logical page in a log block that belongs to one logical block, or to a group of them.
    Log = b'L',
    /// Logical page in its place in a log block that is meant to become a data block.
    Sequential = b'S',
    /// Logical page of an atomic group; more pages of the group follow.
    More = b'h',
    /// Page of the mapping table.
    Map = b'M',
    /// Page of a checkpoint.
    Checkpoint = b'P',
    /// Page of a reference to the blocks of the checkpoints.
    Anchor = b'A',
}

impl PageKind {
    /// Kind with this byte in the spare area.
    pub(crate) const fn from_byte(byte: u8) -> Option<PageKind> {
        Some(match byte {
            b'H' => PageKind::Host,
            b'C' => PageKind::Copy,
            b'T' => PageKind::Trim,
            b'D' => PageKind::Data,
            b'L' => PageKind::Log,
            b'S' => PageKind::Sequential,
            b'h' => PageKind::More,
            b'M' => PageKind::Map,
            b'P' => PageKind::Checkpoint,
            b'A' => PageKind::Anchor,
            _ => return None,
        })
    }
}

/// Fields of a spare area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Kind of the page.
    pub kind: PageKind,
    /// Logical page number, or the place of the page in its record.
    pub number: u32,
    /// Version, below 2^40.
    pub version: u64,
    /// Byte whose meaning depends on the kind.
    pub extra: u8,
}

impl Header {
    /// Spare area of a page with these fields and data, in this place.
    pub fn seal(&self, ppn: Ppn, data: &[u8]) -> [u8; SPARE_BYTES] {
        let mut spare = [0xff; SPARE_BYTES];
        spare[1] = self.kind as u8;
        put_u32(&mut spare, 2, self.number);
        put_u40(&mut spare, 6, self.version);
        spare[11] = self.extra;
        let crc = sum(ppn, data, &spare);
        put_u32(&mut spare, 12, crc);
        spare
    }

    /// Fields of a page. `None` unless the page is whole and was written in this place.
    pub fn open(ppn: Ppn, data: &[u8], spare: &[u8; SPARE_BYTES]) -> Option<Header> {
        let whole = checksum(spare) == sum(ppn, data, spare);
        Header::claimed(spare).filter(|_| whole)
    }

    /// Fields of a page that may not be whole, unchecked.
    pub(crate) fn claimed(spare: &[u8; SPARE_BYTES]) -> Option<Header> {
        let kind = PageKind::from_byte(spare[1])?;
        Some(Header { kind, number: get_u32(spare, 2), version: get_u40(spare, 6), extra: spare[11] })
    }

    /// Fields of a page in which exactly one bit is wrong. CRC-32 tells which one. A page of random bytes
    /// looks like this by chance, in one case of 2^32 for each bit, so the result is not to be trusted
    /// without another sign.
    fn identify(ppn: Ppn, data: &[u8], spare: &[u8; SPARE_BYTES]) -> Option<Header> {
        let syndrome = checksum(spare) ^ sum(ppn, data, spare);
        if syndrome.count_ones() == 1 {
            return Header::claimed(spare);
        }
        let wrong = wrong_bit(syndrome, data.len() + 11)?;
        let mut spare = *spare;
        if wrong >= data.len() * 8 {
            let bit = wrong - data.len() * 8;
            spare[1 + bit / 8] ^= 1 << (bit % 8);
        }
        Header::claimed(&spare)
    }
}

/// Checksum that the page should hold.
fn sum(ppn: Ppn, data: &[u8], spare: &[u8; SPARE_BYTES]) -> u32 {
    crc32(&[&ppn.0.to_le_bytes(), data, &spare[1..12]])
}

/// Checksum in the spare area, which identifies the page almost surely.
pub fn checksum(spare: &[u8; SPARE_BYTES]) -> u32 {
    get_u32(spare, 12)
}

/// Result of reading a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Every bit is 1: never programmed, or a program or an erase was cut short.
    Erased,
    /// The bytes differ from those written: torn, half erased, flipped, or uncorrectable. The fields are
    /// given if exactly one bit is wrong.
    Unreadable(Option<Header>),
    /// Whole page: its fields and its checksum.
    Page(Header, u32),
}

/// Reads a page into `data` (the whole data area) and checks it. It is read again before it is given up.
pub fn read_page<N: Nand + ?Sized>(
    nand: &mut N,
    ppn: Ppn,
    cause: Cause,
    data: &mut [u8],
) -> Result<Found, StoreFault> {
    read_told_page(nand, ppn, cause, data).map(|(found, _)| found)
}

/// Reads a page as [`read_page`] does, for callers that do not need the fields of a page that is not whole.
pub fn read_whole_page<N: Nand + ?Sized>(
    nand: &mut N,
    ppn: Ppn,
    cause: Cause,
    data: &mut [u8],
) -> Result<Found, StoreFault> {
    read_claiming(nand, (ppn, cause), data, |_, _, _| None).map(|(found, _)| found)
}

/// Reads a page as [`read_page`] does. Also returns how it was read: a page that is whole and
/// [`Reading::Weak`] should be written elsewhere soon.
pub fn read_told_page<N: Nand + ?Sized>(
    nand: &mut N,
    ppn: Ppn,
    cause: Cause,
    data: &mut [u8],
) -> Result<(Found, Reading), StoreFault> {
    read_claiming(nand, (ppn, cause), data, Header::identify)
}

/// Function that finds the fields of a page that is not whole.
type Claim = fn(Ppn, &[u8], &[u8; SPARE_BYTES]) -> Option<Header>;

fn read_claiming<N: Nand + ?Sized>(
    nand: &mut N,
    (ppn, cause): (Ppn, Cause),
    data: &mut [u8],
    claim: Claim,
) -> Result<(Found, Reading), StoreFault> {
    let mut spare = [0; SPARE_BYTES];
    let mut found = None;
    let is_whole = |data: &[u8], spare: &[u8]| {
        let Ok(spare) = <&[u8; SPARE_BYTES]>::try_from(spare) else { return false };
        found = match Header::open(ppn, data, spare) {
            Some(header) => Some(Found::Page(header, checksum(spare))),
            None => spare.iter().chain(data).all(|&b| b == 0xff).then_some(Found::Erased),
        };
        found.is_some()
    };
    let reading = match read_again(nand, (ppn, cause), data, &mut spare, is_whole) {
        Ok(reading) => reading,
        Err(NandError::Uncorrectable(_) | NandError::BadBlock(_)) => {
            return Ok((Found::Unreadable(None), Reading::Broken));
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(found) = found {
        return Ok((found, reading));
    }
    let claim = claim(ppn, data, &spare);
    if cause == Cause::Recovery && is_exchanged(nand, ppn, data, &spare)? {
        let what = "a page stands in the place of another one, and that one in its place";
        return Err(StoreFault::corrupted(what, ppn.0));
    }
    Ok((Found::Unreadable(claim), Reading::Broken))
}

/// True if a page that is not whole here is whole in another place, and the page there is whole here. No
/// power cut leaves that.
fn is_exchanged<N: Nand + ?Sized>(
    nand: &mut N,
    ppn: Ppn,
    data: &mut [u8],
    spare: &[u8; SPARE_BYTES],
) -> Result<bool, StoreFault> {
    let place = written_at(data, spare);
    if place.0 >= nand.geometry().pages() || Header::claimed(spare).is_none() {
        return Ok(false);
    }
    let mut other = [0; SPARE_BYTES];
    match nand.read(place, Cause::Recovery, data, &mut other) {
        Ok(_) => Ok(Header::open(ppn, data, &other).is_some()),
        Err(NandError::Uncorrectable(_) | NandError::BadBlock(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Page number at which a page would be whole: every checksum belongs to one page number.
fn written_at(data: &[u8], spare: &[u8; SPARE_BYTES]) -> Ppn {
    Ppn(crc32_before(checksum(spare), &[data, &spare[1..12]]))
}

/// Returns an error if the spare area of the chip is too small.
pub fn require_spare(geometry: Geometry) -> Result<(), StoreFault> {
    let (needs, has) = (SPARE_BYTES as u32, geometry.spare_bytes);
    if has < needs {
        return Err(StoreError::SpareTooSmall { who: words("a log of pages"), needs, has }.into());
    }
    Ok(geometry.validate().map_err(|e| StoreError::Unsupported(e.reason.into()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_in_another_place_tells_its_own() {
        let header = Header { kind: PageKind::Copy, number: 7, version: 90, extra: 3 };
        let data = [0x5a; 64];
        for place in [0, 1, 77, 1 << 20, u32::MAX] {
            let spare = header.seal(Ppn(place), &data);
            assert_eq!(written_at(&data, &spare), Ppn(place));
        }
    }

    #[test]
    fn every_bit_but_the_mark_is_covered() {
        let header = Header { kind: PageKind::Host, number: 7, version: (1 << 40) - 1, extra: 3 };
        let mut data = [0x5a; 64];
        let mut spare = header.seal(Ppn(9), &data);
        assert_eq!(spare[0], 0xff);
        assert_eq!(Header::open(Ppn(9), &data, &spare), Some(header));
        assert_eq!(Header::open(Ppn(8), &data, &spare), None, "a page in another place");
        assert_eq!(Header::identify(Ppn(9), &data, &[0xff; SPARE_BYTES]), None);
        for bit in 8..128 {
            spare[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::open(Ppn(9), &data, &spare), None, "spare bit {bit}");
            assert_eq!(Header::identify(Ppn(9), &data, &spare), Some(header), "spare bit {bit}");
            spare[bit / 8] ^= 1 << (bit % 8);
        }
        for bit in 0..512 {
            data[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::open(Ppn(9), &data, &spare), None, "data bit {bit}");
            assert_eq!(Header::identify(Ppn(9), &data, &spare), Some(header), "data bit {bit}");
            data[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
