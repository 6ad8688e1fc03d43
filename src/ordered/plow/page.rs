//! Header of a page of plow: its kind, when it was programmed, and a checksum over the page and its place.
//!
//! ```text
//! at  bytes  field
//!  0    4    CRC-32 of the page's number and of every other byte of the data area
//!  4    1    0x9E
//!  5    1    kind: 1 run page, 2 commit page, 3 sealed page, 4 summary, 5 map page, 6 page of changes,
//!                  7 anchor
//!  6    1    flags: 1 = with tombstones, or an anchor's last page; 2 = written by a close; 4 = a run page that commits;
//!                  8 = a commit page that changes of the class *none* follow
//!  7    1    bits 40 to 47 of the number of the program, inverted
//!  8    2    records, of a summary groups, of a map page extents, of a page of changes where they begin
//! 10    2    erases of the block
//! 12    5    number of the program, without those bits
//! 17    5    number of the newest commit page's program, this one's for a commit page: its lowest 40 bits
//! ```
//!
//! The checksum of a page of changes (`append`) ends before the first change.
//!
//! The number of the page is part of the checksum, so that a page in a wrong place is no page. The erase
//! count tells the page from an older one in an earlier life of its block. The spare area is not used.

use super::anchor::ANCHORS;
use crate::codec::{crc32, crc32_before, get_u16, get_u32, get_u40, put_u16, put_u32, put_u40};
use crate::units::Ppn;

pub(super) const HEADER_BYTES: usize = 22;
const MAGIC: u8 = 0x9e;
const CHANGES: u8 = 6;
/// Mask of the low 40 bits of a program number. They identify a page that is less than 2^40 programs older.
const LOW: u64 = (1 << 40) - 1;

/// Whether changes follow a commit page, unless a later page says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    Unsaid,
    /// No change follows: a close wrote the page.
    Nothing,
    /// Changes of the class *none* follow: a power cut loses them, and a mount notices that.
    Changes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Records of a level.
    Run,
    /// The root, and records of the memtable.
    Commit,
    /// Records of the memtable that following commit pages do not repeat.
    Sealed,
    /// Positions of the pages of a block.
    Summary,
    /// A map page: extents for roots.
    Map,
    /// A page of changes.
    Changes,
    /// A page of an anchor.
    Anchor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) tombstones: bool,
    /// True for a run page that carries an operation's change: no commit page follows it.
    pub(super) commits: bool,
    pub(super) after: After,
    pub(super) count: u16,
    pub(super) erases: u16,
    pub(super) sequence: u64,
    pub(super) commit: u64,
}

impl Header {
    /// Header of a page of a level with `count` records. Its numbers are filled in when it is programmed.
    pub(super) const fn run(count: usize, tombstones: bool) -> Header {
        let (kind, count) = (Kind::Run, count as u16);
        Header {
            kind,
            tombstones,
            commits: false,
            after: After::Unsaid,
            count,
            erases: 0,
            sequence: 0,
            commit: 0,
        }
    }

    /// Writes the header and the checksum of a page whose contents are in place.
    pub(super) fn encode(&self, page: &mut [u8], ppn: Ppn) {
        page[4] = MAGIC;
        page[5] = match self.kind {
            Kind::Run => 1,
            Kind::Commit => 2,
            Kind::Sealed => 3,
            Kind::Summary => 4,
            Kind::Map => 5,
            Kind::Changes => CHANGES,
            Kind::Anchor => 7,
        };
        page[6] = u8::from(self.tombstones)
            | u8::from(self.after == After::Nothing) << 1
            | u8::from(self.commits) << 2
            | u8::from(self.after == After::Changes) << 3;
        page[7] = !((self.sequence >> 40) as u8);
        put_u16(page, 8, self.count);
        put_u16(page, 10, self.erases);
        put_u40(page, 12, low(self.sequence));
        put_u40(page, 17, low(self.commit));
        let crc = crc32(&[&ppn.0.to_le_bytes(), covered(page)]);
        put_u32(page, 0, crc);
    }

    /// The header of page `ppn`, if the page is whole and belongs there.
    pub(super) fn decode(page: &[u8], ppn: Ppn) -> Option<Header> {
        if page.len() < HEADER_BYTES || page[4] != MAGIC {
            return None;
        }
        let kind = match page[5] {
            1 => Kind::Run,
            2 => Kind::Commit,
            3 => Kind::Sealed,
            4 => Kind::Summary,
            5 => Kind::Map,
            CHANGES => Kind::Changes,
            7 if ANCHORS => Kind::Anchor,
            _ => return None,
        };
        if get_u32(page, 0) != crc32(&[&ppn.0.to_le_bytes(), covered(page)]) {
            return None;
        }
        let sequence = get_u40(page, 12) | u64::from(!page[7]) << 40;
        Some(Header {
            kind,
            tombstones: page[6] & 1 != 0,
            commits: page[6] & 4 != 0,
            after: match page[6] & 10 {
                0 => After::Unsaid,
                2 => After::Nothing,
                _ => After::Changes,
            },
            count: get_u16(page, 8),
            erases: get_u16(page, 10),
            sequence,
            commit: widened(get_u40(page, 17), sequence),
        })
    }
}

/// The bytes of a page that its checksum covers.
fn covered(page: &[u8]) -> &[u8] {
    let end = usize::from(get_u16(page, 8));
    if page[5] == CHANGES && (HEADER_BYTES..page.len()).contains(&end) { &page[4..end] } else { &page[4..] }
}

/// The header of a whole page that belongs in another place of a chip of `pages` pages. No power cut leaves
/// such a page.
pub(super) fn displaced(page: &[u8], pages: u32) -> Option<Header> {
    if page[4] != MAGIC {
        return None;
    }
    let home = crc32_before(get_u32(page, 0), &[covered(page)]);
    if home < pages { Header::decode(page, Ppn(home)) } else { None }
}

/// Low bits of a program number, as stored in references from other pages.
pub(super) fn low(sequence: u64) -> u64 {
    sequence & LOW
}

/// Whole program number from its low bits; `newer` is a number that is not older.
pub(super) fn widened(low: u64, newer: u64) -> u64 {
    let at = newer & !LOW | low;
    at.checked_sub(if at > newer { LOW + 1 } else { 0 }).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_from_its_place_only() {
        let header = Header {
            kind: Kind::Sealed,
            tombstones: true,
            commits: true,
            after: After::Changes,
            count: 700,
            erases: 9,
            sequence: 1 << 33,
            commit: 77,
        };
        let mut page = [5; 256];
        header.encode(&mut page, Ppn(3));
        assert_eq!(Header::decode(&page, Ppn(3)), Some(header));
        assert_eq!(Header::decode(&page, Ppn(4)), None);
        assert_eq!((displaced(&page, 4), displaced(&page, 3)), (Some(header), None));
        page[200] ^= 1;
        assert_eq!((Header::decode(&page, Ppn(3)), displaced(&page, 1 << 20)), (None, None));
        assert_eq!(Header::decode(&[0; 256], Ppn(0)), None);
        for (sequence, commit) in [((7 << 40) + 5, (6 << 40) + 9), ((1 << 48) - 1, (1 << 48) - 4)] {
            let header = Header { sequence, commit, ..header };
            header.encode(&mut page, Ppn(3));
            assert_eq!(Header::decode(&page, Ppn(3)), Some(header));
        }
    }
}
