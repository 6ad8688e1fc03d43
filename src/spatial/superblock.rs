//! The superblock of a spatial index: how its nodes are laid out, and whether it was cleanly closed.
//!
//! Page 0, written when the tree is formatted (and, in the durability class *none*, when its clean mark
//! changes). Integers are little-endian:
//!
//! ```text
//! bytes  0..4   CRC-32 of the rest of the page
//!        4..8   the page's own number, 0
//!        8..16  the characters "NXSPACE1"
//!       16..24  the kind of tree, in ASCII
//!       24..28  bytes of a page
//!       28..32  pages of the store when it was formatted
//!       32..34  entries of a leaf at most
//!       34..36  entries of any other node at most
//!       36      type of the coordinates: 1 i32, 2 i64, 3 f32, 4 f64
//!       37      dimensions, 2 or 3
//!       38      bytes of the place on the Hilbert curve in a child entry
//!       39      entries of a node at least, in percent of its capacity
//!       40      nodes of one level that the largest narrow operation changes
//!       41      1 = every child is one level below its parent
//!       42      1 = clean: every change before the last sync is here; 0 = changes are under way
//!       43      the layer between the tree and its pages: 0 none, 1 a node buffer with a log
//!       44      bytes of the link in a node
//!       45..109 options of the kind of tree
//!      109..    0
//! ```

use super::coordinate::Coordinate;
use super::node::{NodeFormat, OPTION_BYTES};
use crate::check::{IndexError, Invariant, words};
use crate::codec::{crc32, get_u16, get_u32, put_u16, put_u32};
use crate::nand::{Differs, Unfit};

const MAGIC: &[u8; 8] = b"NXSPACE1";
const OPTIONS_AT: usize = 45;

/// Bytes of a superblock. A page that holds a node of four entries is larger.
pub const SUPERBLOCK_BYTES: usize = OPTIONS_AT + OPTION_BYTES;

/// Writes a superblock, with its checksum.
pub fn put_superblock(format: &NodeFormat, is_clean: bool, page: &mut [u8]) {
    page.fill(0);
    page[8..16].copy_from_slice(MAGIC);
    page[16..24].copy_from_slice(&format.kind);
    put_u32(page, 24, format.page_bytes);
    put_u32(page, 28, format.page_count);
    put_u16(page, 32, format.leaf_capacity);
    put_u16(page, 34, format.internal_capacity);
    page[36] = format.coordinate;
    page[37] = format.dimensions;
    page[38] = format.key_bytes;
    page[39] = format.fill_min_percent;
    page[40] = format.group_per_level;
    page[41] = u8::from(format.is_balanced);
    page[42] = u8::from(is_clean);
    page[43] = format.layer;
    page[44] = format.link_bytes;
    page[OPTIONS_AT..SUPERBLOCK_BYTES].copy_from_slice(&format.options);
    let crc = crc32(&[&page[4..]]);
    put_u32(page, 0, crc);
}

/// Reads a superblock. Returns the format, and true if it is marked clean.
pub fn superblock_of<C: Coordinate, const D: usize>(
    page: &[u8],
    page_count: u32,
) -> Result<(NodeFormat, bool), IndexError> {
    let corrupted = |what| IndexError::broken(Invariant::S7, what, 0);
    let what = words("page 0 is no superblock of a spatial index");
    if page.len() < SUPERBLOCK_BYTES {
        return Err(IndexError::other(Differs::Kind, what));
    }
    if page[8..16] != *MAGIC {
        return Err(IndexError::NotFormatted(Unfit::named(&page[8..16], MAGIC, what)));
    }
    if get_u32(page, 0) != crc32(&[&page[4..]]) || get_u32(page, 4) != 0 {
        return Err(corrupted("the superblock's checksum is wrong"));
    }
    if get_u32(page, 24) as usize != page.len() || get_u32(page, 28) > page_count {
        return Err(IndexError::other(
            Differs::Geometry,
            words("the tree was formatted on other or more pages"),
        ));
    }
    let (mut kind, mut options) = ([0; 8], [0; OPTION_BYTES]);
    kind.copy_from_slice(&page[16..24]);
    options.copy_from_slice(&page[OPTIONS_AT..SUPERBLOCK_BYTES]);
    let format = NodeFormat {
        kind,
        coordinate: page[36],
        dimensions: page[37],
        page_bytes: get_u32(page, 24),
        page_count: get_u32(page, 28),
        key_bytes: page[38],
        link_bytes: page[44],
        leaf_capacity: get_u16(page, 32),
        internal_capacity: get_u16(page, 34),
        fill_min_percent: page[39],
        is_balanced: page[41] == 1,
        group_per_level: page[40],
        layer: page[43],
        options,
    };
    match format.require_sane::<C, D>() {
        Err(IndexError::Unsupported(_)) => Err(corrupted("the superblock's capacities are impossible")),
        Err(other) => Err(other),
        Ok(()) if format.key_bytes > 16 => Err(corrupted("the superblock's key is impossible")),
        Ok(()) => Ok((format, page[42] == 1)),
    }
}
