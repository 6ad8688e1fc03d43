//! The state that survives a clean end, and its bytes in a checkpoint.
//!
//! ```text
//! at  bytes   field
//!  0    4     "NXF3"
//!  4   12     page_bytes, pages_per_block, blocks of the chip
//! 16    8     logical pages, most pages of an atomic group
//! 24   16     next version, last committed version
//! 40   16     host frontier: block (2^32 - 1 = none) and next page; the same of the relocation frontier
//! 56    4     how host and moved pages share blocks: 0 not at all, 1 one frontier, 2 by a hot filter
//! 60    -     block table (`blocks`)
//!  -    -     per block: checksum of its first page, 0 when it was erased
//!  -    -     per logical page: physical page, 2^32 - 1 = none, 2^32 - 2 = lost
//! ```

use super::settings::Layout;
use crate::blocks::checkpoint::Loaded;
use crate::blocks::{BlockState, BlockTable};
use crate::codec::{get_u32, get_u64};
use crate::nand::Geometry;
use crate::store::StoreError;
use crate::units::{Lpn, Pbn, Ppn};
use alloc::vec;
use alloc::vec::Vec;

/// A logical page that is not mapped.
pub(super) const NONE: u32 = u32::MAX;
/// A logical page whose contents the chip lost.
pub(super) const LOST: u32 = u32::MAX - 1;

/// For the checksum of the first page of a block that is not erased, where that page cannot be read.
pub(super) const NOT_ERASED: u32 = 1;

const MAGIC: [u8; 4] = *b"NXF3";
const FIXED_BYTES: usize = 60;
/// A medium with versions beyond is taken for corrupted; there are as many again before they run out.
const VERSION_MAX: u64 = 1 << 39;

/// An open block and the next page to program in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frontier {
    pub(super) pbn: Pbn,
    pub(super) next: u32,
}

/// Which frontier a page goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// For what the host writes, or only the hot of it; or for all.
    Host,
    /// For what moves, and cold pages of the host.
    Relocation,
    /// For the data of a cold block that moves to level wear; open only meanwhile, so that no checkpoint
    /// knows of it.
    Levelling,
}

/// All that survives a clean end.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) map: Vec<u32>,
    pub(super) blocks: BlockTable,
    /// Checksum of the first page of each block; tells at a mount which blocks were rewritten. 0 for a block
    /// that lies erased.
    pub(super) first_crc: Vec<u32>,
    pub(super) frontiers: [Option<Frontier>; 3],
    /// How the pages programmed since the checkpoint lie in their blocks.
    pub(super) layout: Layout,
    pub(super) atomic_pages: u32,
    pub(super) next_version: u64,
    pub(super) committed: u64,
}

/// Bytes of a checkpoint.
pub(super) fn encoded_bytes(geometry: Geometry, page_count: u32) -> usize {
    FIXED_BYTES + BlockTable::encoded_bytes(geometry) + 4 * geometry.blocks as usize + 4 * page_count as usize
}

impl State {
    /// All but the map, which follows as it is.
    pub(super) fn encode(&self) -> Vec<u8> {
        let g = self.blocks.geometry();
        debug_assert!(self.committed < self.next_version, "a version is committed that was not given");
        debug_assert_eq!(self.first_crc.len(), g.blocks as usize, "a checksum for each block");
        let total = encoded_bytes(g, 0);
        let mut bytes = Vec::with_capacity(total);
        bytes.extend(MAGIC);
        let page_count = self.map.len() as u32;
        put_all(&mut bytes, &[g.page_bytes, g.pages_per_block, g.blocks, page_count, self.atomic_pages]);
        bytes.extend(self.next_version.to_le_bytes());
        bytes.extend(self.committed.to_le_bytes());
        assert!(self.frontiers[Stream::Levelling as usize].is_none(), "a block is being moved");
        debug_assert!(
            self.frontiers.iter().flatten().all(|f| f.next <= g.pages_per_block),
            "a frontier too full"
        );
        for frontier in &self.frontiers[..2] {
            put_all(&mut bytes, &frontier.map_or([NONE, 0], |f| [f.pbn.0, f.next]));
        }
        put_all(&mut bytes, &[self.layout as u32]);
        self.blocks.encode(&mut bytes);
        put_all(&mut bytes, &self.first_crc);
        assert_eq!(bytes.len(), total, "the layout above");
        bytes
    }

    /// The first version that was given after a checkpoint, of which this is the beginning.
    pub(super) fn first_version_after(bytes: &[u8]) -> u64 {
        if bytes.len() < FIXED_BYTES { u64::MAX } else { get_u64(bytes, 24) }
    }

    /// Bytes of a checkpoint in front of the map.
    pub(super) fn bytes_before_map(geometry: Geometry) -> usize {
        encoded_bytes(geometry, 0)
    }

    pub(super) fn decode(geometry: Geometry, payload: Loaded) -> Result<State, StoreError> {
        let (g, bytes) = (geometry, &payload.bytes[..]);
        if bytes.len() < FIXED_BYTES || bytes[..4] != MAGIC {
            return Err(StoreError::NotFormatted("the newest checkpoint is not that of a page-mapping FTL"));
        }
        let numbers = get_all(&bytes[4..24]);
        if numbers[..3] != [g.page_bytes, g.pages_per_block, g.blocks] {
            return Err(StoreError::NotFormatted("the chip was formatted with another geometry"));
        }
        let (page_count, atomic_pages) = (numbers[3], numbers[4]);
        if page_count > g.pages() || payload.len != encoded_bytes(g, page_count) {
            return Err(corrupted(16));
        }
        let table_end = FIXED_BYTES + BlockTable::encoded_bytes(g);
        let state = State {
            map: payload.numbers,
            blocks: BlockTable::decode(g, &bytes[FIXED_BYTES..table_end])?,
            first_crc: get_all(&bytes[table_end..]),
            frontiers: [get_frontier(g, bytes, 40)?, get_frontier(g, bytes, 48)?, None],
            layout: Layout::from_number(get_u32(bytes, 56)).ok_or_else(|| corrupted(56))?,
            atomic_pages,
            next_version: get_u64(bytes, 24),
            committed: get_u64(bytes, 32),
        };
        state.validate()?;
        Ok(state)
    }

    /// Map and table must tell the same story.
    fn validate(&self) -> Result<(), StoreError> {
        let versions_fit = self.committed < self.next_version && self.next_version < VERSION_MAX;
        if !(1..=256).contains(&self.atomic_pages) || !versions_fit {
            return Err(corrupted(24));
        }
        if self.frontiers.iter().flatten().any(|f| self.blocks.state(f.pbn) != BlockState::Open) {
            return Err(corrupted(40));
        }
        let mut mapped = PageSet::new(self.blocks.geometry());
        for ppn in self.mapped() {
            if ppn.0 >= self.blocks.geometry().pages() || !self.blocks.is_valid(ppn) || !mapped.insert(ppn) {
                return Err(corrupted(ppn.0));
            }
        }
        if self.blocks.live_pages() == mapped.len() { Ok(()) } else { Err(corrupted(FIXED_BYTES as u32)) }
    }

    /// The physical pages that the map names.
    pub(super) fn mapped(&self) -> impl Iterator<Item = Ppn> + '_ {
        self.map.iter().copied().filter(|&ppn| ppn < LOST).map(Ppn)
    }
}

/// A set of physical pages, a bit for each.
pub(super) struct PageSet {
    bits: Vec<u64>,
    len: u32,
}

impl PageSet {
    pub(super) fn new(geometry: Geometry) -> PageSet {
        PageSet { bits: vec![0; (geometry.pages() as usize).div_ceil(64)], len: 0 }
    }

    /// False: the page was there already.
    pub(super) fn insert(&mut self, ppn: Ppn) -> bool {
        let (word, bit) = (&mut self.bits[ppn.index() / 64], 1u64 << (ppn.0 % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        self.len += u32::from(is_new);
        is_new
    }

    pub(super) fn contains(&self, ppn: Ppn) -> bool {
        self.bits[ppn.index() / 64] >> (ppn.0 % 64) & 1 == 1
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }
}

/// The error of reading a page whose contents the chip lost.
pub(super) fn lost(lpn: Lpn) -> StoreError {
    StoreError::Corrupted { what: "the chip lost this logical page", at: u64::from(lpn.0) }
}

fn corrupted(at: u32) -> StoreError {
    StoreError::Corrupted { what: "a checkpoint of the FTL makes no sense", at: u64::from(at) }
}

fn get_frontier(geometry: Geometry, bytes: &[u8], at: usize) -> Result<Option<Frontier>, StoreError> {
    match (get_u32(bytes, at), get_u32(bytes, at + 4)) {
        (NONE, _) => Ok(None),
        (pbn, next) if pbn < geometry.blocks && next <= geometry.pages_per_block => {
            Ok(Some(Frontier { pbn: Pbn(pbn), next }))
        }
        _ => Err(corrupted(at as u32)),
    }
}

fn put_all(bytes: &mut Vec<u8>, numbers: &[u32]) {
    numbers.iter().for_each(|n| bytes.extend(n.to_le_bytes()));
}

fn get_all(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|b| get_u32(b, 0)).collect()
}
