//! Maps: pages that list extents, for chips on which a root that names each extent would fill a commit page.
//!
//! A root grows by some six bytes with each block. On a chip with many blocks of small pages (1,024 blocks of
//! pages of 2 KiB) it would fill its page when a third of them are used. On such a chip the extents of full
//! blocks are listed in *map pages*. A root names runs of that list in two numbers each, and one by one only
//! the extents that are not listed. Once the root takes three eighths of a page and a new map would make it
//! much shorter, a commit writes one: a page or a few for each hundred blocks that steps have filled since.
//!
//! ```text
//! page of the map before this one + 1, or 0 (4); the lowest 40 bits of its program (5)
//! for each extent: its block (4), its first page there (2), its pages (2), erases of the block (2)
//! ```
//!
//! Map pages lie among the sealed pages. Each names the one before it, and the root names the last.

use super::Core;
use super::blocks::State;
use super::commit::ROOT_FIXED_BYTES;
use super::cost::LEVELS_MAX;
use super::fences::Extent;
use super::io::Target;
use super::level::RunAt;
use super::levels::Levels;
use super::medium::Found;
use super::mount::{Taking, broken_root};
use super::page::{HEADER_BYTES, Header, Kind, low, widened};
use super::root::{Root, Row};
use super::space::{Need, Stock};
use crate::bits::{self, Word};
use crate::check::Invariant;
use crate::codec::{get_u16, get_u32, get_u40, put_u16, put_u32, put_u40};
use crate::fault::IndexFault;
use crate::nand::{Geometry, Nand};
use crate::ordered::RecordFormat;
use crate::units::{Pbn, Ppn};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// True if this build knows maps.
pub(super) const MAPS: bool = cfg!(feature = "full");
const CHAIN_BYTES: usize = 9;
const ENTRY_BYTES: usize = 10;
/// Bytes of a root for each block, on the average.
const BLOCK_BYTES: usize = 6;

#[derive(Debug, Default)]
pub(super) struct Map {
    /// For each block: the place of its extent in the map + 1, or 0. Empty until it gets RAM.
    places: Vec<u16>,
    /// Pages of the map, in order.
    pub(super) pages: Vec<Ppn>,
    /// Number of extents that the map lists.
    pub(super) extents: usize,
    /// Program number of the map's last page.
    pub(super) sequence: u64,
    pub(super) written: u64,
}

/// Bytes of a root with a map, without cursors: three levels, erased blocks, two runs of each part.
const SHORT_ROOT_BYTES: usize = 160;

/// True if this chip uses maps: without a map a root might outgrow a page, and with one the root is so short
/// that two records always fit beside it.
pub(super) fn is_kept(geometry: Geometry, record: RecordFormat) -> bool {
    let room = (geometry.page_bytes as usize).saturating_sub(HEADER_BYTES);
    let root = ROOT_FIXED_BYTES + BLOCK_BYTES * geometry.blocks as usize;
    let short = SHORT_ROOT_BYTES + LEVELS_MAX * usize::from(record.key_bytes);
    let is_possible = short * 4 <= room && RECORDS_MIN * (record.entry_bytes() + 1) + 104 <= room / 2;
    let is_wanted = root * 4 > room * 3 && geometry.blocks < u32::from(u16::MAX);
    MAPS && is_wanted && is_possible
}

/// Records that always fit beside a root with a map.
pub(super) const RECORDS_MIN: usize = 2;

/// Bytes of RAM for maps: places, pages, and the room to make a new map.
pub(super) fn ram_bytes(geometry: Geometry, record: RecordFormat) -> usize {
    if !is_kept(geometry, record) {
        return 0;
    }
    let blocks = geometry.blocks as usize;
    let pages = blocks.div_ceil(per_page(geometry)) + 1;
    size_of::<Map>() + 2 * blocks + blocks / 4 + 16 + 3 * pages * size_of::<Ppn>()
}

/// Number of extents that a map page lists.
pub(super) fn per_page(geometry: Geometry) -> usize {
    let body = (geometry.page_bytes as usize).saturating_sub(HEADER_BYTES + CHAIN_BYTES);
    (body / ENTRY_BYTES).max(1)
}

/// Page and program number of the previous map page. `sequence` is the program number of this one.
pub(super) fn before(body: &[u8], sequence: u64) -> Option<(Ppn, u64)> {
    let page = get_u32(body, 0).checked_sub(1)?;
    Some((Ppn(page), widened(get_u40(body, 4), sequence)))
}

/// Extent `i` of a map page. `None` if it makes no sense.
pub(super) fn entry(body: &[u8], i: usize, geometry: Geometry) -> Option<Row> {
    let at = CHAIN_BYTES + i * ENTRY_BYTES;
    let entry = body.get(at..at + ENTRY_BYTES)?;
    let (block, first) = (get_u32(entry, 0), u32::from(get_u16(entry, 4)));
    let pages = u32::from(get_u16(entry, 6));
    let makes_sense = block < geometry.blocks && pages > 0 && first + pages <= geometry.pages_per_block;
    makes_sense.then(|| Row { first: geometry.page_at(Pbn(block), first), pages, erases: get_u16(entry, 8) })
}

fn missing(ppn: Ppn) -> IndexFault {
    IndexFault::broken(Invariant::I1, "a page of the map is missing", ppn.0)
}

/// Choice of the extents that a new map lists: the first extent of each block, except in blocks being filled.
struct Listing {
    passed: Vec<Word>,
    pages_per_block: u32,
}

impl Listing {
    fn takes(&mut self, extent: &Extent) -> Option<Pbn> {
        let block = Pbn(extent.first().0 / self.pages_per_block);
        let is_new = !bits::is_set(&self.passed, block.index());
        bits::set(&mut self.passed, block.index());
        is_new.then_some(block)
    }
}

impl Map {
    /// An empty map, without RAM yet, if the chip may need one (`is_kept`).
    pub(super) fn none(is_kept: bool) -> Option<Box<Map>> {
        is_kept.then(Box::default)
    }

    /// Makes the list of places of all blocks.
    pub(super) fn make_places(&mut self, blocks: u32) {
        if self.places.is_empty() {
            self.places = vec![0; blocks as usize];
        }
    }

    /// Last page of the map, and its program number.
    pub(super) fn newest(&self) -> Option<(Ppn, u64)> {
        self.pages.last().map(|&ppn| (ppn, self.sequence))
    }

    /// Place of an extent in the map, if the map lists it.
    pub(super) fn place_of(&self, extent: &Extent, block: Pbn) -> Option<usize> {
        let place = self.places.get(block.index()).filter(|_| extent.is_listed())?;
        usize::from(*place).checked_sub(1)
    }

    pub(super) fn set_place(&mut self, block: Pbn, place: usize) {
        if let Some(of_block) = self.places.get_mut(block.index()) {
            *of_block = place as u16 + 1;
        }
    }

    pub(super) fn ram_bytes(&self) -> usize {
        size_of::<Map>()
            + self.places.capacity() * size_of::<u16>()
            + self.pages.capacity() * size_of::<Ppn>()
    }
}

impl Levels {
    fn listing(&self, blocks: u32) -> Listing {
        let mut passed = bits::clear(blocks as usize);
        for (block, _) in self.iter().filter_map(|level| level.open) {
            bits::set(&mut passed, block.index());
        }
        Listing { passed, pages_per_block: self.pages_per_block }
    }
}

impl Stock {
    /// Pages that the next map may take; 0 on a chip without maps.
    pub(super) fn map_pages_next(&self) -> usize {
        match self.space.map() {
            Some(_) => self.levels.extents() / per_page(self.geometry) + 1,
            None => 0,
        }
    }

    /// True if the root is long, a new map would make it much shorter, and the map has RAM.
    pub(super) fn is_map_due(&self) -> bool {
        let room = self.geometry.page_bytes as usize - HEADER_BYTES;
        if self.space.map().is_none_or(|map| map.places.is_empty()) || self.root_bytes() * 8 <= room * 3 {
            return false;
        }
        let mut listing = self.levels.listing(self.geometry.blocks);
        let extents = self.levels.runs().flat_map(|run| run.extents());
        let more = extents.filter(|extent| listing.takes(extent).is_some() && !extent.is_listed()).count();
        more * (BLOCK_BYTES - 1) * 8 > room
    }

    /// Fills a map page with the extents from number `from` on. Returns how many. The page names the page
    /// before it and that one's program.
    fn fill_map(&self, body: &mut [u8], before: Option<(Ppn, u64)>, from: usize) -> usize {
        body.fill(0);
        put_u32(body, 0, before.map_or(0, |(ppn, _)| ppn.0 + 1));
        put_u40(body, 4, before.map_or(0, |(_, sequence)| low(sequence)));
        let (geometry, mut listing) = (self.geometry, self.levels.listing(self.geometry.blocks));
        let extents = self.levels.runs().flat_map(|run| run.extents());
        let listed = extents.filter_map(|extent| listing.takes(extent).map(|block| (extent, block)));
        let mut count = 0;
        for (extent, block) in listed.skip(from).take(per_page(geometry)) {
            let entry = &mut body[CHAIN_BYTES + count * ENTRY_BYTES..][..ENTRY_BYTES];
            put_u32(entry, 0, block.0);
            put_u16(entry, 4, (extent.first().0 % geometry.pages_per_block) as u16);
            put_u16(entry, 6, extent.pages() as u16);
            put_u16(entry, 8, self.space.blocks.erases(block));
            count += 1;
        }
        count
    }
}

impl<N: Nand> Core<N> {
    /// Writes a map if one is due and there are blocks for it.
    pub(super) fn map_if_due(&mut self) -> Result<(), IndexFault> {
        if !self.stock.is_map_due()
            || self.stock.space.blocks.free().max(1) < self.stock.blocks_for(Need::Commit)
        {
            return Ok(());
        }
        match self.write_map() {
            Err(error) if error.is_refusal() => Ok(()),
            other => other,
        }
    }

    fn write_map(&mut self) -> Result<(), IndexFault> {
        let (per_page, mut pages, mut extents) = (per_page(self.stock.geometry), Vec::new(), 0);
        pages.reserve_exact(self.stock.map_pages_next());
        loop {
            let mut output = core::mem::take(&mut self.medium.output);
            let before = pages.last().map(|&ppn| (ppn, self.medium.sequence));
            let count = self.stock.fill_map(&mut output[HEADER_BYTES..], before, extents);
            self.medium.output = output;
            if count > 0 {
                let header = Header { kind: Kind::Map, ..Header::run(count, false) };
                pages.push(self.program(Target::Sealed, header)?);
                extents += count;
            }
            if count < per_page {
                break;
            }
        }
        let mut listing = self.stock.levels.listing(self.stock.geometry.blocks);
        let Some(map) = &mut self.stock.space.map else { return Ok(()) };
        let mut place = 0;
        for level in self.stock.levels.iter_mut() {
            for run in [&mut level.old, &mut level.new] {
                run.list(&mut |extent| {
                    let block = listing.takes(extent);
                    if let Some(block) = block {
                        map.set_place(block, place);
                        place += 1;
                    }
                    block.is_some()
                });
            }
        }
        (map.pages, map.extents, map.sequence) = (pages, extents, self.medium.sequence);
        map.written += 1;
        Ok(())
    }
}

impl<N: Nand> Taking<'_, N> {
    /// Finds the pages of the map, and marks the blocks of the extents that the root names as used.
    pub(super) fn map(&mut self, root: &Root) -> Result<(), IndexFault> {
        let Some((extents, newest)) = root.map.filter(|_| MAPS) else { return Ok(()) };
        let geometry = self.chip.geometry;
        let of_page = per_page(geometry);
        let count = (extents as usize).div_ceil(of_page);
        let mut pages = Vec::with_capacity(count.min(geometry.pages() as usize));
        let mut next = Some(newest);
        for number in (0..count).rev() {
            let Some((ppn, sequence)) = next else { return Err(missing(Ppn(0))) };
            match self.chip.medium.examine(ppn)? {
                Found::Whole(header) if header.kind == Kind::Map && header.sequence == sequence => {}
                _ => return Err(missing(ppn)),
            }
            let body = &self.chip.medium.input[HEADER_BYTES..];
            next = before(body, sequence).filter(|before| before.0.0 < geometry.pages());
            let here = number * of_page..(number + 1) * of_page;
            for item in root.levels.iter().flat_map(|level| level.rows.iter().flatten()) {
                let Some((from, count)) = item.listed() else { continue };
                let (from, end) = (from as usize, (from + count) as usize);
                for place in from.max(here.start)..end.min(here.end) {
                    let row = entry(body, place - here.start, geometry);
                    let row = row.ok_or_else(|| missing(ppn))?;
                    self.chip.blocks.set(geometry.block_of(row.first), State::Used);
                }
            }
            self.block(geometry.block_of(ppn));
            pages.push(ppn);
        }
        pages.reverse();
        if let Some(map) = &mut self.map {
            (map.pages, map.extents, map.sequence) = (pages, extents as usize, newest.1);
        }
        Ok(())
    }

    /// Row of the extent at a place in the map. It leaves that map page in the output buffer, which a mount
    /// no longer needs for anything else.
    pub(super) fn listed_row(&mut self, place: usize) -> Result<Row, IndexFault> {
        let of_page = per_page(self.chip.geometry);
        let page = self.map.as_ref().and_then(|map| map.pages.get(place / of_page)).copied();
        let ppn = page.ok_or_else(|| broken_root(0))?;
        let medium = &mut *self.chip.medium;
        if self.chip.seen.map_page != Some(ppn) {
            core::mem::swap(&mut medium.input, &mut medium.output);
            let found = medium.examine(ppn);
            core::mem::swap(&mut medium.input, &mut medium.output);
            if !matches!(found?, Found::Whole(header) if header.kind == Kind::Map) {
                return Err(missing(ppn));
            }
            self.chip.seen.map_page = Some(ppn);
        }
        let row = entry(&medium.output[HEADER_BYTES..], place % of_page, self.chip.geometry);
        row.ok_or_else(|| missing(ppn))
    }

    /// Notes that the map lists the extent taken last, if the two are equal.
    pub(super) fn note_listed(&mut self, (level, part): RunAt, row: Row, place: usize) {
        if self.levels[level].run_mut(part).list_last(row.first, row.pages)
            && let Some(map) = &mut self.map
        {
            map.set_place(self.chip.geometry.block_of(row.first), place);
        }
    }
}
