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

use super::map::PageMap;
use super::settings::Layout;
use crate::bits::{self, Word};
use crate::blocks::checkpoint::{Contents, Source, Window, take_rows};
use crate::blocks::{BlockState, BlockTable};
use crate::check::words;
use crate::codec::{get_u32, get_u64, put_u32, put_u64};
use crate::fault::StoreFault;
use crate::nand::{Differs, Geometry, Unfit};
use crate::store::StoreError;
use crate::units::{Lpn, Pbn, Ppn};
use alloc::vec::Vec;
use core::ops::Range;

/// A logical page that is not mapped.
pub(super) const NONE: u32 = u32::MAX;
/// A logical page whose contents the chip lost.
pub(super) const LOST: u32 = u32::MAX - 1;

/// For the checksum of the first page of a block that is not erased, where that page cannot be read.
pub(super) const NOT_ERASED: u32 = 1;

const MAGIC: [u8; 4] = *b"NXF3";
pub(super) const FIXED_BYTES: usize = 60;
/// A medium with versions beyond is taken for corrupted; there are as many again before they run out.
const VERSION_MAX: u64 = 1 << VERSION_BITS;
pub(super) const VERSION_BITS: u32 = 39;

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
    pub(super) map: PageMap,
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
    /// The beginning of a checkpoint.
    pub(super) fn fixed_part(&self) -> [u8; FIXED_BYTES] {
        let g = self.blocks.geometry();
        debug_assert!(self.committed < self.next_version, "a version is committed that was not given");
        debug_assert_eq!(self.first_crc.len(), g.blocks as usize, "a checksum for each block");
        assert!(self.frontiers[Stream::Levelling as usize].is_none(), "a block is being moved");
        debug_assert!(
            self.frontiers.iter().flatten().all(|f| f.next <= g.pages_per_block),
            "a frontier too full"
        );
        let mut fixed = [0; FIXED_BYTES];
        fixed[..4].copy_from_slice(&MAGIC);
        let [host, host_next] = raw_frontier(self.frontiers[0]);
        let [moves, moves_next] = raw_frontier(self.frontiers[1]);
        let numbers = [g.page_bytes, g.pages_per_block, g.blocks, self.map.len() as u32, self.atomic_pages];
        numbers.into_iter().enumerate().for_each(|(i, number)| put_u32(&mut fixed, 4 + 4 * i, number));
        put_u64(&mut fixed, 24, self.next_version);
        put_u64(&mut fixed, 32, self.committed);
        let numbers = [host, host_next, moves, moves_next, self.layout as u32];
        numbers.into_iter().enumerate().for_each(|(i, number)| put_u32(&mut fixed, 40 + 4 * i, number));
        fixed
    }

    /// The first version that was given after a checkpoint, of which this is the beginning.
    pub(super) fn first_version_after(bytes: &[u8]) -> u64 {
        if bytes.len() < FIXED_BYTES { u64::MAX } else { get_u64(bytes, 24) }
    }

    /// Reads what [`StateContents`] says.
    pub(super) fn decode(geometry: Geometry, source: &mut dyn Source) -> Result<State, StoreFault> {
        let (g, len) = (geometry, source.left());
        let mut fixed = [0; FIXED_BYTES];
        let has_start = source.take(&mut fixed).is_ok();
        if !has_start || fixed[..4] != MAGIC {
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
        if page_count > g.pages() || len != encoded_bytes(g, page_count) {
            return Err(corrupted(16));
        }
        let blocks = BlockTable::decode(g, source)?;
        let first_crc = take_rows(source, g.blocks as usize, u32::from_le_bytes)?;
        let mut map = PageMap::empty(page_count, g.pages());
        for at in 0..page_count as usize {
            let mut raw = [0; 4];
            source.take(&mut raw)?;
            let ppn = u32::from_le_bytes(raw);
            if ppn < LOST && !(2..g.pages()).contains(&ppn) {
                return Err(corrupted(ppn));
            }
            map.set(at, ppn);
        }
        let state = State {
            map,
            blocks,
            first_crc,
            frontiers: [get_frontier(g, &fixed, 40)?, get_frontier(g, &fixed, 48)?, None],
            layout: Layout::from_number(get_u32(&fixed, 56)).ok_or_else(|| corrupted(56))?,
            atomic_pages,
            next_version: get_u64(&fixed, 24),
            committed: get_u64(&fixed, 32),
        };
        state.validate()?;
        Ok(state)
    }

    /// Map and table must tell the same story.
    fn validate(&self) -> Result<(), StoreFault> {
        let versions_fit = self.committed < self.next_version && self.next_version < VERSION_MAX;
        if !(1..=256).contains(&self.atomic_pages) || !versions_fit {
            return Err(corrupted(24));
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

    /// The frontier in a block, if that is open.
    pub(super) fn frontier_in(&self, pbn: Pbn) -> Option<Frontier> {
        self.frontiers.iter().copied().flatten().find(|frontier| frontier.pbn == pbn)
    }

    /// The physical pages that the map names.
    pub(super) fn mapped(&self) -> impl Iterator<Item = Ppn> + '_ {
        self.map.iter().filter(|&ppn| ppn < LOST).map(Ppn)
    }
}

/// The state as the contents of a checkpoint: the table of blocks follows the fixed part.
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
        page.rows(self.map.len(), |at| self.map.get(at).to_le_bytes());
    }
}

/// Parts of a chip whose pages are looked at one part after the other, so that a set of them takes little.
const PARTS: u32 = 16;

/// A set of physical pages of a part of the chip, a bit for each.
pub(super) struct PageSet {
    part: Range<u32>,
    bits: Vec<Word>,
}

impl PageSet {
    /// An empty set for each part of a chip in turn.
    pub(super) fn parts(geometry: Geometry) -> impl Iterator<Item = PageSet> {
        let (pages, step) = (geometry.pages(), geometry.pages().div_ceil(PARTS).max(64));
        (0..pages.div_ceil(step)).map(move |part| PageSet {
            part: part * step..((part + 1) * step).min(pages),
            bits: bits::clear(step as usize),
        })
    }

    /// The pages of the part.
    pub(super) fn pages(&self) -> impl Iterator<Item = Ppn> + use<> {
        self.part.clone().map(Ppn)
    }

    /// Whether a page lies in the part.
    pub(super) fn covers(&self, ppn: Ppn) -> bool {
        self.part.contains(&ppn.0)
    }

    /// False: the page was there already.
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

/// The error of reading a page whose contents the chip lost.
pub(super) fn lost(lpn: Lpn) -> StoreFault {
    StoreFault::corrupted("the chip lost this logical page", lpn.0)
}

fn corrupted(at: u32) -> StoreFault {
    StoreFault::corrupted("a checkpoint of the FTL makes no sense", at)
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

fn raw_frontier(frontier: Option<Frontier>) -> [u32; 2] {
    frontier.map_or([NONE, 0], |frontier| [frontier.pbn.0, frontier.next])
}
