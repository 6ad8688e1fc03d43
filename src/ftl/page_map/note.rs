//! The *note*: what has changed since the record before it, a checkpoint or another note.
//!
//! ```text
//! at  bytes   field
//!  0    4     "DXF4"
//!  4    8     next version; the one before it is the note's own
//! 12   24     frontiers, as in a checkpoint
//! 36    8     blocks that changed, logical pages that changed
//! 44    -     per block: number u32, state u8, erases u32, checksum of its first page u32
//!  -    -     per logical page: number, and physical page or none or lost, as u16 each where the map is narrow
//! ```
//!
//! Checkpoint and notes together are one newer checkpoint.

use super::map::PageMap;
use super::state::{Frontier, LOST, State, corrupted, get_frontiers, raw_frontier};
use crate::bits::{self, Word};
use crate::blocks::checkpoint::{Contents, Source, Window};
use crate::blocks::{BlockState, BlockTable};
use crate::codec::{get_u16, get_u32, get_u64};
use crate::fault::StoreFault;
use crate::nand::Geometry;
use crate::sort;
use crate::units::Pbn;
use alloc::boxed::Box;
use alloc::vec::Vec;

const MAGIC: [u8; 4] = *b"DXF4";
/// Bytes of a note before its lists.
const NOTE_BYTES: usize = 44;
const ROW_BYTES: usize = 13;
/// Number of blocks for which a note has room in addition to its logical pages.
const ROWS: usize = 4;
/// Largest number of logical pages in one note, unless a group has more.
const PAIRS_MAX: usize = 256;
/// Bytes of a full note if pages are smaller than this: so the fixed part of each note serves at least some
/// fifty logical pages.
const FULL_BYTES: usize = 512;

/// True if a record with this first byte is no note.
pub(super) fn is_base(first: Option<u8>) -> bool {
    first != Some(MAGIC[0])
}

/// Bytes of a logical page in a note.
const fn pair_bytes(geometry: Geometry) -> usize {
    2 * PageMap::bytes_each(geometry.pages())
}

/// Bytes of a full note, with its length.
fn full_bytes(geometry: Geometry) -> usize {
    (geometry.page_bytes as usize).max(FULL_BYTES)
}

/// Number of pages of a full note.
pub(super) fn full_pages(geometry: Geometry) -> u32 {
    full_bytes(geometry).div_ceil(geometry.page_bytes as usize) as u32
}

/// Most logical pages that change between two records: those of a full note, or those of a group.
pub(super) fn changes_max(geometry: Geometry, atomic_pages: u32) -> usize {
    let room = full_bytes(geometry) - (4 + NOTE_BYTES + ROWS * ROW_BYTES);
    (room / pair_bytes(geometry)).min(PAIRS_MAX).max(atomic_pages as usize)
}

/// Largest number of logical pages of a group that fit into one note together with the blocks that they fill.
pub(super) fn told_at_once(geometry: Geometry, atomic_pages: u32) -> usize {
    let blocks = ROWS + 2 + (atomic_pages / geometry.pages_per_block) as usize;
    let room = full_bytes(geometry).saturating_sub(4 + NOTE_BYTES + blocks * ROW_BYTES);
    (room / pair_bytes(geometry)).clamp(1, atomic_pages as usize)
}

/// Changes since the last record.
pub(super) struct Changes {
    /// Logical pages that changed, each as often as it changed.
    lpns: Vec<u32>,
    room: usize,
    pair_bytes: usize,
    full_bytes: usize,
    blocks: Vec<Word>,
    block_count: usize,
    /// True if a page was trimmed, which only a record can tell a mount.
    pub(super) has_trims: bool,
}

impl Changes {
    pub(super) fn none(geometry: Geometry, atomic_pages: u32) -> Changes {
        Changes {
            lpns: Vec::new(),
            room: changes_max(geometry, atomic_pages),
            pair_bytes: pair_bytes(geometry),
            full_bytes: full_bytes(geometry),
            blocks: bits::clear(geometry.blocks as usize),
            block_count: 0,
            has_trims: false,
        }
    }

    /// Notes a logical page. Returns false if it needs a checkpoint instead of a note.
    #[must_use]
    pub(super) fn note(&mut self, lpn: u32) -> bool {
        if !self.has_room_for(1) {
            return false;
        }
        if self.lpns.capacity() == 0 {
            // The RAM is taken late, since a mount needs none.
            self.lpns.reserve_exact(self.room);
        }
        self.lpns.push(lpn);
        true
    }

    /// Notes that a block differs from the record: it was programmed, opened, closed or freed, or a page of
    /// it was trimmed.
    pub(super) fn touch(&mut self, pbn: Pbn) {
        if !self.has_touched(pbn) {
            bits::set(&mut self.blocks, pbn.index());
            self.block_count += 1;
        }
    }

    pub(super) fn has_touched(&self, pbn: Pbn) -> bool {
        bits::is_set(&self.blocks, pbn.index())
    }

    pub(super) fn has_room_for(&self, more: usize) -> bool {
        self.lpns.len() + more <= self.room
    }

    /// True if the changes fill a note, or would with `more` more logical pages.
    pub(super) fn fill_a_note(&self, more: usize) -> bool {
        let pairs = self.pair_bytes * (self.lpns.len() + more);
        let bytes = 4 + NOTE_BYTES + ROW_BYTES * (self.block_count + usize::from(more > 0)) + pairs;
        !self.lpns.is_empty() && (bytes > self.full_bytes || !self.has_room_for(more))
    }

    pub(super) fn clear(&mut self) {
        self.lpns.clear();
        self.blocks.fill(0);
        self.block_count = 0;
        self.has_trims = false;
    }

    /// Sorts the logical pages, and keeps each once.
    pub(super) fn settle(&mut self) {
        sort::total(&mut self.lpns);
        self.lpns.dedup();
    }

    /// Upper bound of the bytes of RAM.
    pub(super) fn ram_bytes(&self) -> usize {
        self.room * size_of::<u32>() + size_of_val(&self.blocks[..])
    }
}

pub(super) struct NoteContents<'a> {
    pub(super) geometry: Geometry,
    pub(super) next_version: u64,
    pub(super) frontiers: [Option<Frontier>; 3],
    pub(super) first_crc: &'a [u32],
    pub(super) map: &'a PageMap,
    pub(super) changes: &'a Changes,
}

impl Contents for NoteContents<'_> {
    fn byte_count(&self) -> usize {
        NOTE_BYTES + ROW_BYTES * self.changes.block_count + self.changes.pair_bytes * self.changes.lpns.len()
    }

    fn put(&self, blocks: &BlockTable, page: &mut Window<'_>) {
        page.bytes(&MAGIC);
        page.bytes(&self.next_version.to_le_bytes());
        let frontiers = self.frontiers.into_iter().flat_map(raw_frontier);
        let counts = [self.changes.block_count as u32, self.changes.lpns.len() as u32];
        frontiers.chain(counts).for_each(|number| page.bytes(&number.to_le_bytes()));
        for pbn in (0..self.geometry.blocks).map(Pbn).filter(|&pbn| self.changes.has_touched(pbn)) {
            page.bytes(&pbn.0.to_le_bytes());
            page.bytes(&[blocks.state(pbn) as u8]);
            page.bytes(&blocks.erase_count(pbn).to_le_bytes());
            page.bytes(&self.first_crc[pbn.index()].to_le_bytes());
        }
        for &lpn in &self.changes.lpns {
            let ppn = self.map.get(lpn as usize);
            match self.map {
                PageMap::Narrow(_) => {
                    page.bytes(&(lpn as u16).to_le_bytes());
                    page.bytes(&PageMap::narrowed(ppn).to_le_bytes());
                }
                PageMap::Wide(_) => {
                    page.bytes(&lpn.to_le_bytes());
                    page.bytes(&ppn.to_le_bytes());
                }
            }
        }
    }
}

/// Reads a record: a checkpoint if there was none before, otherwise a note that updates it. Valid pages are
/// left out ([`State::follow_map`]).
pub(super) fn decode(
    geometry: Geometry,
    before: Option<Box<State>>,
    source: &mut dyn Source,
) -> Result<Box<State>, StoreFault> {
    let Some(mut state) = before else { return Ok(Box::new(State::decode(geometry, source)?)) };
    update(&mut state, geometry, source)?;
    Ok(state)
}

fn update(state: &mut State, g: Geometry, note: &mut dyn Source) -> Result<(), StoreFault> {
    let len = note.left() as u64;
    let mut fixed = [0; NOTE_BYTES];
    note.take(&mut fixed)?;
    let (rows, pairs) = (get_u32(&fixed, 36), get_u32(&fixed, 40));
    let pair_bytes = pair_bytes(g);
    let total = NOTE_BYTES as u64 + ROW_BYTES as u64 * u64::from(rows) + pair_bytes as u64 * u64::from(pairs);
    let next_version = get_u64(&fixed, 4);
    let is_new = state.note_pages.is_some() && next_version > state.next_version;
    if fixed[..4] != MAGIC || total != len || !is_new {
        return Err(corrupted(0));
    }
    (state.next_version, state.committed) = (next_version, next_version - 1);
    state.frontiers = get_frontiers(g, &fixed, 12)?;
    for _ in 0..rows {
        let mut row = [0; ROW_BYTES];
        note.take(&mut row)?;
        update_block(state, g, &row).ok_or_else(|| corrupted(36))?;
    }
    for _ in 0..pairs {
        let mut pair = [0; 8];
        note.take(&mut pair[..pair_bytes])?;
        let (lpn, ppn) = match state.map {
            PageMap::Narrow(_) => (get_u16(&pair, 0).into(), PageMap::widened(get_u16(&pair, 2))),
            PageMap::Wide(_) => (get_u32(&pair, 0) as usize, get_u32(&pair, 4)),
        };
        if lpn >= state.map.len() || ppn < LOST && !(2..g.pages()).contains(&ppn) {
            return Err(corrupted(40));
        }
        state.map.set(lpn, ppn);
    }
    Ok(())
}

fn update_block(state: &mut State, g: Geometry, row: &[u8; ROW_BYTES]) -> Option<()> {
    let pbn = Some(Pbn(get_u32(row, 0))).filter(|pbn| pbn.0 < g.blocks)?;
    state.first_crc[pbn.index()] = get_u32(row, 9);
    state.blocks.restore(pbn, (BlockState::from_byte(row[4])?, get_u32(row, 5)), &[]).then_some(())
}
