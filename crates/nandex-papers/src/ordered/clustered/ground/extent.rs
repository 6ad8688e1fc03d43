//! Extents: the form in which a batch is written, a header followed by the nodes listed in it, on consecutive
//! pages.
//!
//! ```text
//! bytes  0..4   CRC-32 of the rest of the page
//!        4..8   the page's own number
//!        8..12  the characters "NXEX"
//!       12..20  checkpoint that the batch follows
//!       20..24  which batch after it, from 1
//!       24..26  which extent of its batch, from 0; + 0x8000 on the last one
//!       26..28  nodes
//!       28..32  0
//!       32..    for each node its number (4) and the checksum that its page begins with (4); then 0
//! ```
//!
//! A batch takes several extents if the header has no room for more nodes, or if the segment ends. It counts
//! only if it is whole: all its extents are there, and every page is the one listed in its header. The
//! numbers of checkpoint and batch tell it from older contents of these pages.

use nandex::codec::{crc32, get_u16, get_u32, get_u64, put_u16, put_u32, put_u64};
use nandex::store::StoreError;
use nandex::units::Lpn;

pub(super) const HEADER_BYTES: usize = 32;
pub(super) const ENTRY_BYTES: usize = 8;
const MAGIC: &[u8; 4] = b"NXEX";
const LAST: u16 = 0x8000;

/// The header of an extent, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) epoch: u64,
    pub(super) batch: u32,
    pub(super) part: u16,
    pub(super) is_last: bool,
    pub(super) nodes: usize,
}

/// An entry of a header: a node with its page and the checksum at the start of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) id: u32,
    pub(super) page: u32,
    pub(super) stamp: u32,
}

/// Refuses a page that is neither blank nor sound.
pub(super) fn require_sound(page: &[u8], at: Lpn) -> Result<(), StoreError> {
    let is_sound = get_u32(page, 0) == crc32(&[&page[4..]]) || page.iter().all(|byte| *byte == 0);
    let what = "C2: the checksum of a page is wrong";
    if is_sound { Ok(()) } else { Err(StoreError::Corrupted { what, at: u64::from(at.0) }) }
}

impl Header {
    /// Encodes the header of an extent with these nodes.
    pub(super) fn encode<'a>(&self, at: Lpn, nodes: impl Iterator<Item = (u32, &'a [u8])>, page: &mut [u8]) {
        debug_assert!(
            self.nodes > 0 && HEADER_BYTES + self.nodes * ENTRY_BYTES <= page.len(),
            "C2: an extent of {} nodes",
            self.nodes
        );
        debug_assert!(self.part < LAST, "C2: part {} of a batch", self.part);
        page.fill(0);
        put_u32(page, 4, at.0);
        page[8..12].copy_from_slice(MAGIC);
        put_u64(page, 12, self.epoch);
        put_u32(page, 20, self.batch);
        put_u16(page, 24, self.part | if self.is_last { LAST } else { 0 });
        put_u16(page, 26, self.nodes as u16);
        for (i, (id, image)) in nodes.enumerate() {
            put_u32(page, HEADER_BYTES + i * ENTRY_BYTES, id);
            put_u32(page, HEADER_BYTES + i * ENTRY_BYTES + 4, get_u32(image, 0));
        }
        let crc = crc32(&[&page[4..]]);
        put_u32(page, 0, crc);
    }

    /// Decodes a header. `None` if the page is no header; an error if it is damaged.
    pub(super) fn read(page: &[u8], at: Lpn) -> Result<Option<Header>, StoreError> {
        require_sound(page, at)?;
        let nodes = usize::from(get_u16(page, 26));
        if page[8..12] != *MAGIC || get_u32(page, 4) != at.0 {
            return Ok(None);
        }
        if HEADER_BYTES + nodes * ENTRY_BYTES > page.len() {
            return Err(StoreError::Corrupted {
                what: "C2: a header lists too many nodes",
                at: u64::from(at.0),
            });
        }
        let part = get_u16(page, 24);
        Ok(Some(Header {
            epoch: get_u64(page, 12),
            batch: get_u32(page, 20),
            part: part & !LAST,
            is_last: part & LAST != 0,
            nodes,
        }))
    }

    /// The nodes listed in the header.
    pub(super) fn listed<'a>(&self, page: &'a [u8], at: Lpn) -> impl Iterator<Item = Listed> + 'a {
        (0..self.nodes).map(move |i| {
            let entry = HEADER_BYTES + i * ENTRY_BYTES;
            Listed { id: get_u32(page, entry), page: at.0 + 1 + i as u32, stamp: get_u32(page, entry + 4) }
        })
    }
}
