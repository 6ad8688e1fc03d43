//! The state that survives a clean end, and its bytes in a checkpoint.
//!
//! ```text
//! at  bytes   field
//!  0    4     "NXF4"
//!  4   12     page_bytes, pages_per_block, blocks of the chip
//! 16    8     logical pages, most pages of an atomic group
//! 24   16     next version, last committed version
//! 40   16     host frontier: block (2^32 - 1 = none) and next page; the same of the relocation frontier
//! 56    8     frontier of a cold block that was moving: block and next page
//! 64    4     pages that checkpoint blocks keep for notes
//! 68    -     block table (`blocks`)
//!  -    -     per block: checksum of its first page, 0 when it was erased
//!  -    -     per logical page: physical page, 2^32 - 1 = none, 2^32 - 2 = lost; as u16 where the map is
//!             narrow (`map`), 0 = none, 1 = lost
//! ```
//!
//! In "NXF3", of former releases, the block table is at 60, a physical page has 4 bytes always, and pages
//! programmed later may be missing for good reason: their blocks were erased without a word. Notes (`note`)
//! follow a checkpoint of today only.

use super::holds_data;
use super::map::PageMap;
use crate::bits::{self, Word};
use crate::blocks::checkpoint::{Contents, Source, Window, take_rows};
use crate::blocks::spare::Header;
use crate::blocks::{BlockState, BlockTable};
use crate::check::words;
use crate::codec::{get_u16, get_u32, get_u64, put_u32, put_u64};
use crate::fault::StoreFault;
use crate::nand::{Differs, Geometry, Unfit};
use crate::store::StoreError;
use crate::units::{Lpn, Pbn, Ppn};
use alloc::vec::Vec;
use core::ops::Range;

/// Place of a logical page that is not mapped.
pub(super) const NONE: u32 = u32::MAX;
/// Place of a logical page whose contents the chip lost.
pub(super) const LOST: u32 = u32::MAX - 1;

/// Checksum entered for a block that is not erased and whose first page cannot be read.
pub(super) const NOT_ERASED: u32 = 1;

const MAGIC: [u8; 4] = *b"NXF4";
/// Mark of former releases.
const MAGIC_BEFORE: [u8; 4] = *b"NXF3";
pub(super) const FIXED_BYTES: usize = 68;
/// Bytes of the fixed part in former releases.
const FIXED_BYTES_BEFORE: usize = 60;
/// A medium with a version beyond this counts as corrupted. As many versions again are left before they run
/// out.
const VERSION_MAX: u64 = 1 << VERSION_BITS;
pub(super) const VERSION_BITS: u32 = 39;

/// Open block and the next page to program in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frontier {
    pub(super) pbn: Pbn,
    pub(super) next: u32,
}

/// The frontier for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// For pages that the host writes, or only the hot ones; or for all pages.
    Host,
    /// For moved pages, and cold pages of the host.
    Relocation,
    /// For the data of a cold block that moves to level wear; open only meanwhile.
    Levelling,
}

/// State that survives a clean end.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) map: PageMap,
    pub(super) blocks: BlockTable,
    /// Checksum of the first page of each block, 0 for an erased block. At a mount it tells which blocks were
    /// rewritten.
    pub(super) first_crc: Vec<u32>,
    pub(super) frontiers: [Option<Frontier>; 3],
    pub(super) atomic_pages: u32,
    /// Number of pages that checkpoint blocks keep for notes. `None` if a former release wrote the
    /// checkpoint.
    pub(super) note_pages: Option<u32>,
    pub(super) next_version: u64,
    pub(super) committed: u64,
}

pub(super) fn encoded_bytes(geometry: Geometry, page_count: u32) -> usize {
    FIXED_BYTES + encoded_rows(geometry, page_count, PageMap::bytes_each(geometry.pages()))
}

/// Bytes of a checkpoint behind its fixed part, with `bytes_each` bytes for each logical page.
fn encoded_rows(geometry: Geometry, page_count: u32, bytes_each: usize) -> usize {
    BlockTable::encoded_bytes(geometry) + 4 * geometry.blocks as usize + bytes_each * page_count as usize
}

impl State {
    /// Fixed part at the beginning of a checkpoint.
    pub(super) fn fixed_part(&self) -> [u8; FIXED_BYTES] {
        let g = self.blocks.geometry();
        debug_assert!(self.committed < self.next_version, "a version is committed that was not given");
        debug_assert_eq!(self.first_crc.len(), g.blocks as usize, "a checksum for each block");
        debug_assert!(
            self.frontiers.iter().flatten().all(|f| f.next <= g.pages_per_block),
            "a frontier too full"
        );
        let mut fixed = [0; FIXED_BYTES];
        fixed[..4].copy_from_slice(&MAGIC);
        let [host, host_next] = raw_frontier(self.frontiers[0]);
        let [moves, moves_next] = raw_frontier(self.frontiers[1]);
        let [cold, cold_next] = raw_frontier(self.frontiers[2]);
        let note_pages = self.note_pages.unwrap_or(0);
        let numbers = [g.page_bytes, g.pages_per_block, g.blocks, self.map.len() as u32, self.atomic_pages];
        numbers.into_iter().enumerate().for_each(|(i, number)| put_u32(&mut fixed, 4 + 4 * i, number));
        put_u64(&mut fixed, 24, self.next_version);
        put_u64(&mut fixed, 32, self.committed);
        let numbers = [host, host_next, moves, moves_next, cold, cold_next, note_pages];
        numbers.into_iter().enumerate().for_each(|(i, number)| put_u32(&mut fixed, 40 + 4 * i, number));
        fixed
    }

    /// Reads the contents that [`StateContents`] writes.
    pub(super) fn decode(geometry: Geometry, source: &mut dyn Source) -> Result<State, StoreFault> {
        let (g, len) = (geometry, source.left());
        let mut fixed = [0xff; FIXED_BYTES];
        let has_start = source.take(&mut fixed[..FIXED_BYTES_BEFORE]).is_ok();
        let is_before = fixed[..4] == MAGIC_BEFORE;
        if !has_start || (!is_before && fixed[..4] != MAGIC) {
            let what = words("the newest checkpoint is not that of a page-mapping FTL");
            return Err(StoreError::NotFormatted(Unfit::named(&fixed[..4], &MAGIC, what)).into());
        }
        let number = |i: usize| get_u32(&fixed, 4 + 4 * i);
        if [number(0), number(1), number(2)] != [g.page_bytes, g.pages_per_block, g.blocks] {
            return Err(StoreError::other(
                Differs::Geometry,
                words("the chip was formatted with another geometry"),
            )
            .into());
        }
        let (page_count, atomic_pages) = (number(3), number(4));
        let (fixed_bytes, bytes_each) = match is_before {
            true => (FIXED_BYTES_BEFORE, 4),
            false => (FIXED_BYTES, PageMap::bytes_each(g.pages())),
        };
        if page_count > g.pages() || len != fixed_bytes + encoded_rows(g, page_count, bytes_each) {
            return Err(corrupted(16));
        }
        if is_before {
            // The old format had the separation here, and nothing behind.
            fixed[56..].fill(0xff);
        } else {
            source.take(&mut fixed[FIXED_BYTES_BEFORE..])?;
        }
        let blocks = BlockTable::decode(g, source)?;
        let first_crc = take_rows(source, g.blocks as usize, u32::from_le_bytes)?;
        let mut map = PageMap::empty(page_count, g.pages());
        for at in 0..page_count as usize {
            let mut raw = [0; 4];
            source.take(&mut raw[..bytes_each])?;
            let ppn = if bytes_each == 2 { PageMap::widened(get_u16(&raw, 0)) } else { get_u32(&raw, 0) };
            if ppn < LOST && !(2..g.pages()).contains(&ppn) {
                return Err(corrupted(ppn));
            }
            map.set(at, ppn);
        }
        let state = State {
            map,
            blocks,
            first_crc,
            frontiers: get_frontiers(g, &fixed, 40)?,
            atomic_pages,
            note_pages: (!is_before).then(|| get_u32(&fixed, 64)),
            next_version: get_u64(&fixed, 24),
            committed: get_u64(&fixed, 32),
        };
        state.validate()?;
        Ok(state)
    }

    /// Checks that map and table agree.
    pub(super) fn validate(&self) -> Result<(), StoreFault> {
        let versions_fit = self.committed < self.next_version && self.next_version < VERSION_MAX;
        if !(1..=256).contains(&self.atomic_pages) || !versions_fit {
            return Err(corrupted(24));
        }
        if self.note_pages.is_some_and(|pages| pages > self.blocks.geometry().pages()) {
            return Err(corrupted(64));
        }
        if self.frontiers.iter().flatten().any(|f| self.blocks.state(f.pbn) != BlockState::Open) {
            return Err(corrupted(40));
        }
        let mut count = 0;
        for mut mapped in PageSet::parts(self.blocks.geometry()) {
            for ppn in self.mapped() {
                if !mapped.covers(ppn) {
                    continue;
                }
                count += 1;
                if !self.blocks.is_valid(ppn) || !mapped.insert(ppn) {
                    return Err(corrupted(ppn.0));
                }
            }
        }
        if self.blocks.live_pages() == count { Ok(()) } else { Err(corrupted(FIXED_BYTES as u32)) }
    }

    /// Makes exactly the pages named by the map valid.
    pub(super) fn follow_map(&mut self) -> Result<(), StoreFault> {
        let (map, blocks) = (&self.map, &mut self.blocks);
        let g = blocks.geometry();
        let named = || map.iter().filter(|&ppn| ppn < LOST).map(Ppn);
        for mut mapped in PageSet::parts(g) {
            for ppn in named() {
                if mapped.covers(ppn) {
                    mapped.insert(ppn);
                }
            }
            for ppn in mapped.pages() {
                if blocks.is_valid(ppn) && !mapped.contains(ppn) {
                    blocks.invalidate(ppn);
                }
            }
        }
        for ppn in named() {
            if blocks.is_valid(ppn) {
                continue;
            }
            if !matches!(blocks.state(g.block_of(ppn)), BlockState::Open | BlockState::Full) {
                return Err(corrupted(ppn.0));
            }
            blocks.mark_valid(ppn);
        }
        Ok(())
    }

    /// Takes a version for a record, so that a lost record is missed among the versions that follow. Returns
    /// the versions before, for the case that it fails.
    pub(super) fn take_version(&mut self) -> (u64, u64) {
        let before = (self.next_version, self.committed);
        (self.next_version, self.committed) = (before.0 + 1, before.0);
        before
    }

    /// Place of a logical page, [`NONE`] or [`LOST`].
    pub(super) fn page_of(&self, lpn: Lpn) -> Result<u32, StoreFault> {
        if lpn.index() < self.map.len() {
            return Ok(self.map.get(lpn.index()));
        }
        Err(StoreError::OutOfRange(lpn).into())
    }

    /// Stamp of the pages of a block since its last erase.
    pub(super) fn stamp_of(&self, pbn: Pbn) -> u8 {
        self.blocks.erase_count(pbn) as u8
    }

    /// True if a page found at a place is this logical page, written there since the last erase.
    pub(super) fn is_of(&self, header: Header, lpn: Lpn, ppn: Ppn) -> bool {
        holds_data(header.kind)
            && header.number == lpn.0
            && header.extra == self.stamp_of(self.blocks.geometry().block_of(ppn))
    }

    /// True if a page found at a place is the logical page that the map has there.
    pub(super) fn is_current(&self, header: Header, ppn: Ppn) -> bool {
        let lpn = Lpn(header.number);
        self.page_of(lpn) == Ok(ppn.0) && self.is_of(header, lpn, ppn)
    }

    /// Frees the full blocks without valid pages, except failed ones.
    pub(super) fn discard_empty(&mut self, doomed: &[Pbn]) {
        let blocks = &mut self.blocks;
        for pbn in (0..blocks.geometry().blocks).map(Pbn) {
            let is_empty = blocks.state(pbn) == BlockState::Full && blocks.valid_count(pbn) == 0;
            if is_empty && !doomed.contains(&pbn) {
                blocks.discard(pbn);
            }
        }
    }

    pub(super) fn map_bytes(&self) -> usize {
        self.map.len() * PageMap::bytes_each(self.blocks.geometry().pages())
    }

    /// Gives a logical page a new place, and makes that page valid.
    pub(super) fn remap(&mut self, lpn: Lpn, ppn: Ppn) {
        debug_assert!(!self.blocks.is_valid(ppn), "P1: {ppn} is another page already");
        let old = self.map.replace(lpn.index(), ppn.0);
        debug_assert_ne!(old, ppn.0, "P1: {lpn} is written to its own place");
        if old < LOST {
            self.blocks.invalidate(Ppn(old));
        }
        self.blocks.mark_valid(ppn);
    }

    /// Number of blocks to be opened for `pages` pages in each frontier.
    pub(super) fn blocks_wanted(&self, pages: [u32; 2]) -> u32 {
        let blocks = |stream: Stream| {
            pages[stream as usize]
                .saturating_sub(self.room(stream))
                .div_ceil(self.blocks.geometry().pages_per_block)
        };
        blocks(Stream::Host) + blocks(Stream::Relocation)
    }

    /// Number of pages left in a frontier.
    pub(super) fn room(&self, stream: Stream) -> u32 {
        debug_assert!(
            self.frontiers.iter().flatten().all(|f| f.next <= self.blocks.geometry().pages_per_block),
            "a frontier is more than full"
        );
        self.frontiers[stream as usize].map_or(0, |f| self.blocks.geometry().pages_per_block - f.next)
    }

    /// Frontier in a block, if the block is open.
    pub(super) fn frontier_in(&self, pbn: Pbn) -> Option<Frontier> {
        self.frontiers.iter().copied().flatten().find(|frontier| frontier.pbn == pbn)
    }

    /// Physical pages that the map names.
    pub(super) fn mapped(&self) -> impl Iterator<Item = Ppn> + '_ {
        self.map.iter().filter(|&ppn| ppn < LOST).map(Ppn)
    }
}

/// Contents of a checkpoint. The table of blocks follows the fixed part.
pub(super) struct StateContents<'a> {
    pub(super) geometry: Geometry,
    pub(super) fixed: [u8; FIXED_BYTES],
    pub(super) first_crc: &'a [u32],
    pub(super) map: &'a PageMap,
}

impl Contents for StateContents<'_> {
    fn byte_count(&self) -> usize {
        encoded_bytes(self.geometry, self.map.len() as u32)
    }

    fn put(&self, blocks: &BlockTable, page: &mut Window<'_>) {
        page.bytes(&self.fixed);
        blocks.put(page);
        page.rows(self.first_crc.len(), |at| self.first_crc[at].to_le_bytes());
        match self.map {
            PageMap::Narrow(map) => page.rows(map.len(), |at| map[at].to_le_bytes()),
            PageMap::Wide(map) => page.rows(map.len(), |at| map[at].to_le_bytes()),
        }
    }
}

/// Number of parts into which a chip is divided. Pages are examined part after part, so that a set of them
/// takes little RAM.
const PARTS: u32 = 16;

/// Set of physical pages of a part of the chip, a bit for each.
pub(super) struct PageSet {
    part: Range<u32>,
    bits: Vec<Word>,
}

impl PageSet {
    /// Makes an empty set for each part of a chip in turn.
    pub(super) fn parts(geometry: Geometry) -> impl Iterator<Item = PageSet> {
        let (pages, step) = (geometry.pages(), geometry.pages().div_ceil(PARTS).max(64));
        (0..pages.div_ceil(step)).map(move |part| PageSet {
            part: part * step..((part + 1) * step).min(pages),
            bits: bits::clear(step as usize),
        })
    }

    /// Pages of the part.
    pub(super) fn pages(&self) -> impl Iterator<Item = Ppn> + use<> {
        self.part.clone().map(Ppn)
    }

    /// True if a page lies in the part.
    pub(super) fn covers(&self, ppn: Ppn) -> bool {
        self.part.contains(&ppn.0)
    }

    /// Adds a page. False if it was there already.
    pub(super) fn insert(&mut self, ppn: Ppn) -> bool {
        let at = (ppn.0 - self.part.start) as usize;
        let is_new = !bits::is_set(&self.bits, at);
        bits::set(&mut self.bits, at);
        is_new
    }

    pub(super) fn contains(&self, ppn: Ppn) -> bool {
        bits::is_set(&self.bits, (ppn.0 - self.part.start) as usize)
    }
}

/// Error for reading a page whose contents the chip lost.
pub(super) fn lost(lpn: Lpn) -> StoreFault {
    StoreFault::corrupted("the chip lost this logical page", lpn.0)
}

pub(super) fn corrupted(at: u32) -> StoreFault {
    StoreFault::corrupted("a checkpoint of the FTL makes no sense", at)
}

/// Frontiers, read from place `at` of a record on.
pub(super) fn get_frontiers(
    geometry: Geometry,
    bytes: &[u8],
    at: usize,
) -> Result<[Option<Frontier>; 3], StoreFault> {
    let get = |stream: usize| get_frontier(geometry, bytes, at + 8 * stream);
    Ok([get(0)?, get(1)?, get(2)?])
}

fn get_frontier(geometry: Geometry, bytes: &[u8], at: usize) -> Result<Option<Frontier>, StoreFault> {
    match (get_u32(bytes, at), get_u32(bytes, at + 4)) {
        (NONE, _) => Ok(None),
        (pbn, next) if pbn < geometry.blocks && next <= geometry.pages_per_block => {
            Ok(Some(Frontier { pbn: Pbn(pbn), next }))
        }
        _ => Err(corrupted(at as u32)),
    }
}

pub(super) fn raw_frontier(frontier: Option<Frontier>) -> [u32; 2] {
    frontier.map_or([NONE, 0], |frontier| [frontier.pbn.0, frontier.next])
}
