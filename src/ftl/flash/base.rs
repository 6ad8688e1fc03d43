//! The *base*: what a mount starts from, as a checkpoint; and the notes that follow it.
//!
//! ```text
//! at  bytes   field of a base
//!  0    1     'B'
//!  1    4     the scheme
//!  5   12     page_bytes, pages_per_block, blocks of the chip
//! 17    4     logical pages
//! 21   16     four numbers that the scheme was formatted with
//! 37    1     1: nothing was programmed since
//! 38    8     next version
//! 46    8     lost logical pages, bytes of the scheme's own
//! 54    -     block table (`ftl::blocks`), spent pages (`slots`), per block: role u8, owner u32
//!  -    -     lost logical pages, u32 each; the scheme's own bytes
//!
//! a note:  'N', stamp u64, then the trimmed logical pages, u32 each
//! ```
//!
//! A note says that something was programmed after the base (it may list no page), and that of the pages it lists all
//! versions below the stamp are gone.

use super::slots::Slots;
use super::{Flash, Rules, Tag};
use crate::codec::{get_u32, get_u64};
use crate::ftl::StoreError;
use crate::ftl::blocks::BlockTable;
use crate::nand::{Geometry, Nand};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

const FIXED_BYTES: usize = 54;
const BASE: u8 = b'B';
const NOTE: u8 = b'N';
/// A medium with versions beyond is taken for corrupted; there are as many again before they run out.
const VERSION_MAX: u64 = 1 << 39;

/// A base as read back.
pub(super) struct Base {
    pub(super) page_count: u32,
    pub(super) setup: [u32; 4],
    pub(super) is_clean: bool,
    pub(super) next_version: u64,
    pub(super) blocks: BlockTable,
    pub(super) slots: Slots,
    pub(super) tags: Vec<Tag>,
    pub(super) lost: BTreeSet<u32>,
    pub(super) extra: Vec<u8>,
}

/// Bytes of a base in which so many bytes are the scheme's own, without lost pages.
pub(super) fn encoded_bytes(geometry: Geometry, extra_bytes: usize) -> usize {
    let tags = geometry.blocks as usize * 5;
    FIXED_BYTES + BlockTable::encoded_bytes(geometry) + Slots::encoded_bytes(geometry) + tags + extra_bytes
}

impl<N: Nand> Flash<N> {
    pub(super) fn encode_base(&self, is_clean: bool, extra: &[u8]) -> Vec<u8> {
        let g = self.geometry;
        let mut bytes = Vec::with_capacity(encoded_bytes(g, extra.len()) + 4 * self.lost.len());
        bytes.push(BASE);
        bytes.extend(self.rules.magic);
        for number in [g.page_bytes, g.pages_per_block, g.blocks, self.page_count] {
            bytes.extend(number.to_le_bytes());
        }
        self.setup.iter().for_each(|n| bytes.extend(n.to_le_bytes()));
        bytes.push(u8::from(is_clean));
        bytes.extend(self.next_version.to_le_bytes());
        bytes.extend((self.lost.len() as u32).to_le_bytes());
        bytes.extend((extra.len() as u32).to_le_bytes());
        self.blocks.encode(&mut bytes);
        self.slots.encode(&mut bytes);
        for tag in &self.tags {
            bytes.push(tag.role_byte());
            bytes.extend(tag.owner.to_le_bytes());
        }
        self.lost.iter().for_each(|n| bytes.extend(n.to_le_bytes()));
        bytes.extend(extra);
        bytes
    }

    pub(super) fn encode_note(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(9 + 4 * self.trimmed.len());
        bytes.push(NOTE);
        bytes.extend(self.next_version.to_le_bytes());
        self.trimmed.keys().for_each(|n| bytes.extend(n.to_le_bytes()));
        bytes
    }
}

/// Whether a record is a base.
pub(super) fn is_base(record: &[u8]) -> bool {
    record.first() == Some(&BASE)
}

/// Stamp and logical pages of a note.
pub(super) fn decode_note(record: &[u8], page_count: u32) -> Result<(u64, Vec<u32>), StoreError> {
    if record.len() < 9 || record[0] != NOTE || !(record.len() - 9).is_multiple_of(4) {
        return Err(corrupted(0));
    }
    let pages: Vec<u32> = record[9..].chunks_exact(4).map(|b| get_u32(b, 0)).collect();
    let stamp = get_u64(record, 1);
    if stamp >= VERSION_MAX || pages.iter().any(|&lpn| lpn >= page_count) {
        return Err(corrupted(9));
    }
    Ok((stamp, pages))
}

impl Base {
    pub(super) fn decode(g: Geometry, rules: &Rules, bytes: &[u8]) -> Result<Base, StoreError> {
        if bytes.len() < FIXED_BYTES || bytes[0] != BASE || bytes[1..5] != rules.magic {
            return Err(StoreError::NotFormatted("the newest checkpoint is that of another kind of store"));
        }
        let number = |i: usize| get_u32(bytes, 5 + 4 * i);
        if [number(0), number(1), number(2)] != [g.page_bytes, g.pages_per_block, g.blocks] {
            return Err(StoreError::NotFormatted("the chip was formatted with another geometry"));
        }
        let page_count = number(3);
        let (lost, extra) = (get_u32(bytes, 46) as usize, get_u32(bytes, 50) as usize);
        let next_version = get_u64(bytes, 38);
        let lost_fit = lost <= page_count as usize && page_count <= g.pages();
        let total = encoded_bytes(g, extra) as u64 + 4 * lost as u64;
        if !lost_fit || total != bytes.len() as u64 || bytes[37] > 1 || next_version >= VERSION_MAX {
            return Err(corrupted(17));
        }
        let (table, rest) = bytes[FIXED_BYTES..].split_at(BlockTable::encoded_bytes(g));
        let (slots, rest) = rest.split_at(Slots::encoded_bytes(g));
        let (tags, rest) = rest.split_at(g.blocks as usize * 5);
        let (lost, extra) = rest.split_at(4 * lost);
        let tags: Option<Vec<Tag>> =
            tags.chunks_exact(5).map(|b| Tag::from_bytes(b[0], get_u32(b, 1))).collect();
        let lost: BTreeSet<u32> = lost.chunks_exact(4).map(|b| get_u32(b, 0)).collect();
        if lost.iter().any(|&lpn| lpn >= page_count) {
            return Err(corrupted(46));
        }
        Ok(Base {
            page_count,
            setup: [number(4), number(5), number(6), number(7)],
            is_clean: bytes[37] == 1,
            next_version,
            blocks: BlockTable::decode(g, table)?,
            slots: Slots::decode(g, slots)?,
            tags: tags.ok_or_else(|| corrupted(54))?,
            lost,
            extra: extra.to_vec(),
        })
    }
}

fn corrupted(at: u64) -> StoreError {
    StoreError::Corrupted { what: "the base of a mapping scheme makes no sense", at }
}
