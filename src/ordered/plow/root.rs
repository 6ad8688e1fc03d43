//! The root of plow as bytes: what a commit page says of the levels.
//!
//! ```text
//! version, pages per block, blocks, key bytes, value bytes, levels
//! for each level: rounds; records; cursor; block being filled + 1 and its next page, or 0;
//!     old pages, then new ones: extents, and of each its block, its first page and its pages
//! sealed pages that are needed: how many, and the newest one's page and program
//! version 5: extents that the map lists, and if any the page and the program of its last page
//! records of a full page; blocks used since the format, the most erases of one; erased blocks: how many, and each with its erases
//! versions 8 to 11: blocks of anchors, bit i for block i
//! ```
//!
//! In version 5, where there are maps (`map`), the extents of a part are not counted but end with 0: twice
//! the block + 1, first page, pages, erases; or twice the place in the map + 1, and how many the map lists
//! from there on.
//!
//! Numbers have seven bits a byte, the lowest first. A cursor is a byte that says whether there is one, and a
//! key.

use super::anchor::ANCHORS;
use super::blocks::Blocks;
use super::commit::{SEALS, Stand};
use super::cost::LEVELS_MAX;
use super::fences::Run;
use super::level::Level;
use super::map::{MAPS, Map};
use crate::check::words;
use crate::nand::{Differs, Geometry};
use crate::ordered::RecordFormat;
use crate::units::{Pbn, Ppn};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

const VERSION: u32 = 4;
/// Version of a root on a chip with maps.
const VERSION_MAPPED: u32 = 5;
/// Added to these versions where pages of changes may follow the commit page.
const APPENDED: u32 = 2;
/// Added where the chip has anchors (`anchor`).
const ANCHORED: u32 = 4;
const VERSION_LAST: u32 = VERSION_MAPPED + APPENDED + ANCHORED;
/// Version before: no page of a step commits.
const VERSION_BEFORE: u32 = 3;

/// Writer of bytes one after the other. Beyond the end it only counts.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    pub(super) fn new(bytes: &'a mut [u8]) -> Writer<'a> {
        Writer { bytes, at: 0 }
    }

    /// Number of bytes written, or that would have been written.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    fn byte(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.at) {
            *place = byte;
        }
        self.at += 1;
    }

    pub(super) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.byte(number as u8 | 0x80);
            number >>= 7;
        }
        self.byte(number as u8);
    }

    /// Writes a number of up to eight bytes as its length and its bytes. That is shorter than seven bits a
    /// byte for numbers whose low bytes are arbitrary.
    pub(super) fn wide(&mut self, number: u64) {
        let bytes = (64 - number.leading_zeros()).div_ceil(8) as usize;
        self.byte(bytes as u8);
        number.to_le_bytes()[..bytes].iter().for_each(|&byte| self.byte(byte));
    }

    /// Writes the fields with which a sealed page begins: where the first sweep stands, and page and program
    /// of the sealed page before.
    pub(super) fn sealed_fields(&mut self, stand: &Stand, before: Option<(Ppn, u64)>) {
        self.number(stand.round.into());
        self.key(&stand.cursor);
        self.number(before.map_or(0, |(ppn, _)| u64::from(ppn.0) + 1));
        self.number(before.map_or(0, |(_, program)| program));
    }

    pub(super) fn key(&mut self, key: &[u8]) {
        self.byte(u8::from(!key.is_empty()));
        self.bytes(key);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.byte(byte));
    }
}

/// Reader of bytes that a [`Writer`] wrote. It returns `None` if the bytes end or make no sense.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied();
        self.at += 1;
        byte
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(super) fn wide(&mut self) -> Option<u64> {
        let bytes = usize::from(self.byte()?);
        let mut number = [0; 8];
        for place in number.get_mut(..bytes)? {
            *place = self.byte()?;
        }
        Some(u64::from_le_bytes(number))
    }

    /// Reads a number of at most 32 bits.
    pub(super) fn short(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    /// Reads a number that must be below `end`.
    pub(super) fn below(&mut self, end: u32) -> Option<u32> {
        self.short().filter(|&number| number < end)
    }

    /// Reads the erase count of a block.
    fn erases(&mut self) -> Option<u16> {
        u16::try_from(self.short()?).ok()
    }

    pub(super) fn key(&mut self, bytes: u8) -> Option<Box<[u8]>> {
        if self.byte()? == 0 {
            return Some(Box::default());
        }
        Some(self.bytes(bytes.into())?.into())
    }

    pub(super) fn bytes(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let found = self.bytes.get(self.at..self.at + bytes)?;
        self.at += bytes;
        Some(found)
    }
}

/// Pages that follow each other on the chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) first: Ppn,
    pub(super) pages: u32,
    /// Erase count of their block: pages from an earlier life of the block are no pages of the level.
    pub(super) erases: u16,
}

impl Row {
    fn last(&self) -> Ppn {
        Ppn(self.first.0 + self.pages - 1)
    }
}

/// A level as the root tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LevelRoot {
    pub(super) round: u32,
    pub(super) records: usize,
    pub(super) cursor: Box<[u8]>,
    pub(super) open: Option<(Pbn, u32)>,
    /// Rows of the old pages, and of the new pages.
    pub(super) rows: [Vec<Item>; 2],
}

/// A row of pages, or rows of the map, as a root tells them. A mount holds all of them, so each is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// First page of the row, or the first place in the map.
    first: u32,
    /// Pages of the row; 0 if the map has the rows.
    pages: u16,
    /// Erase count of the row's block, or the number of the map's rows.
    number: u16,
}

/// Bytes that a mount holds for each item of a root.
pub(super) const ITEM_BYTES: usize = size_of::<Item>();

impl Item {
    fn of_row(first: Ppn, pages: u32, erases: u16) -> Option<Item> {
        Some(Item { first: first.0, pages: u16::try_from(pages).ok()?, number: erases })
    }

    fn of_map(from: u32, count: u32) -> Option<Item> {
        Some(Item { first: from, pages: 0, number: u16::try_from(count).ok()? })
    }

    /// The row that the root names itself.
    pub(super) fn row(&self) -> Option<Row> {
        let row = Row { first: Ppn(self.first), pages: self.pages.into(), erases: self.number };
        (self.pages > 0).then_some(row)
    }

    /// First place and number of the rows of the map, if the item is such.
    pub(super) fn listed(&self) -> Option<(u32, u32)> {
        (MAPS && self.pages == 0).then_some((self.first, self.number.into()))
    }

    /// Places of the item's rows in the map. A row that the root tells itself counts as one place.
    pub(super) fn places(&self) -> Range<usize> {
        let (from, count) = self.listed().unwrap_or((0, 1));
        from as usize..(from + count) as usize
    }
}

impl LevelRoot {
    /// Number of extents.
    pub(super) fn extents(&self) -> usize {
        self.rows.iter().flatten().map(|item| item.places().len()).sum()
    }

    /// The last page that the level has in the block of a row, as far as the root itself tells.
    pub(super) fn last_beside(&self, row: Row, geometry: Geometry) -> Ppn {
        let (block, mut last) = (geometry.block_of(row.first), row.last());
        for item in self.rows.iter().flatten() {
            if let Some(row) = item.row()
                && geometry.block_of(row.first) == block
            {
                last = last.max(row.last());
            }
        }
        last
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Root {
    pub(super) levels: Vec<LevelRoot>,
    /// Number of sealed pages that are needed.
    pub(super) sealed: u32,
    /// Page and program number of the newest sealed page.
    pub(super) newest_sealed: Option<(Ppn, u64)>,
    /// Number of extents that the map lists, and page and program number of its last page.
    pub(super) map: Option<(u32, (Ppn, u64))>,
    /// True if pages of changes may follow the commit page.
    pub(super) appended: bool,
    /// Records of a full page of the last level.
    pub(super) page_records: u64,
    pub(super) worn: Worn,
    /// The blocks of anchors, on a chip that has anchors.
    pub(super) places: Option<u16>,
}

/// Erase counts of blocks that hold nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Worn {
    /// Blocks from this number on were not used since the format.
    pub(super) touched: u32,
    /// Highest erase count of any block.
    pub(super) most: u16,
    /// Erased blocks, with their erase counts.
    pub(super) erased: Vec<(Pbn, u16)>,
}

fn write_run(
    writer: &mut Writer<'_>,
    run: &Run,
    (pages_per_block, blocks): (u32, &Blocks),
    map: Option<&Map>,
) {
    let (map, mut listed) = (map.filter(|_| MAPS), 0..0);
    let finish = |writer: &mut Writer<'_>, listed: &mut Range<usize>| {
        if listed.start < listed.end {
            writer.number(listed.start as u64 * 2 + 1);
            writer.number(listed.len() as u64);
        }
        *listed = 0..0;
    };
    if map.is_none() {
        writer.number(run.count() as u64);
    }
    for extent in run.extents() {
        let first = extent.first().0;
        let block = Pbn(first / pages_per_block);
        if let Some(place) = map.and_then(|map| map.place_of(extent, block)) {
            if place != listed.end || listed.start == listed.end {
                finish(writer, &mut listed);
                listed = place..place;
            }
            listed.end += 1;
            continue;
        }
        finish(writer, &mut listed);
        writer.number(if map.is_some() { 2 * (u64::from(block.0) + 1) } else { block.0.into() });
        writer.number(u64::from(first % pages_per_block));
        writer.number(extent.pages() as u64);
        writer.number(blocks.erases(block).into());
    }
    finish(writer, &mut listed);
    if map.is_some() {
        writer.number(0);
    }
}

/// First numbers of every root of this version, for these records on this chip.
fn shape(version: u32, geometry: Geometry, record: RecordFormat) -> [u32; 5] {
    let (key, value) = (record.key_bytes.into(), record.value_bytes.into());
    [version, geometry.pages_per_block, geometry.blocks, key, value]
}

/// The state that a root keeps.
pub(super) struct Kept<'a> {
    pub(super) geometry: Geometry,
    pub(super) record: RecordFormat,
    pub(super) levels: &'a [Level],
    pub(super) blocks: &'a Blocks,
    pub(super) map: Option<&'a Map>,
    /// Sealed commit pages that hold records of the memtable.
    pub(super) sealed: usize,
    /// The newest of these pages, and its program number.
    pub(super) newest: Option<(Ppn, u64)>,
    /// True if pages of changes may follow the commit page.
    pub(super) appended: bool,
    /// Records of a full page.
    pub(super) page_records: u64,
}

pub(super) fn write(writer: &mut Writer<'_>, kept: &Kept<'_>) {
    let Kept { geometry, record, levels, blocks, sealed, newest, page_records, .. } = *kept;
    let map = kept.map.filter(|_| MAPS);
    let version = if map.is_some() { VERSION_MAPPED } else { VERSION };
    let version = version + if kept.appended { APPENDED } else { 0 };
    let anchor = blocks.anchor.as_ref().filter(|_| ANCHORS);
    let version = version + if anchor.is_some() { ANCHORED } else { 0 };
    for number in shape(version, geometry, record) {
        writer.number(number.into());
    }
    writer.number(levels.len() as u64);
    for level in levels {
        writer.number(level.round.into());
        writer.number(level.records as u64);
        writer.key(&level.cursor);
        match level.open {
            None => writer.number(0),
            Some((block, next)) => {
                writer.number(u64::from(block.0) + 1);
                writer.number(next.into());
            }
        }
        write_run(writer, &level.old, (geometry.pages_per_block, blocks), map);
        write_run(writer, &level.new, (geometry.pages_per_block, blocks), map);
    }
    writer.number(sealed as u64);
    if let Some((page, program)) = newest {
        writer.number(page.0.into());
        writer.number(program);
    }
    if let Some(map) = map {
        let newest = map.newest();
        writer.number(newest.map_or(0, |_| map.extents as u64));
        if let Some((page, program)) = newest {
            writer.number(page.0.into());
            writer.number(program);
        }
    }
    writer.number(page_records);
    writer.number(blocks.touched().into());
    writer.number(blocks.erases_max().into());
    writer.number(blocks.erased_blocks().count() as u64);
    for block in blocks.erased_blocks() {
        writer.number(block.0.into());
        writer.number(blocks.erases(block).into());
    }
    if let Some(anchor) = anchor {
        writer.number(anchor.places.into());
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// The root is of another chip or of other records.
    Other(Differs),
    /// The root has a later version than this build reads.
    Newer(u32),
    /// The root needs something that this build leaves out.
    Lacks(&'static str),
    /// The root contradicts itself.
    Broken,
}

/// Number of items up to the 0 that ends them.
fn count_mapped(mut reader: Reader<'_>) -> Option<usize> {
    for count in 0.. {
        let numbers = match reader.short()? {
            0 => return Some(count),
            block if block & 1 == 1 => 1,
            _ => 3,
        };
        for _ in 0..numbers {
            reader.short()?;
        }
    }
    None
}

fn read_run(reader: &mut Reader<'_>, geometry: Geometry, is_mapped: bool) -> Option<Vec<Item>> {
    let (is_mapped, mut rows) = (is_mapped && MAPS, Vec::new());
    let mut left = if is_mapped { u32::MAX } else { reader.below(geometry.pages() + 1)? };
    // Rows take at least four bytes each: a root that claims more rows than its page can hold gets no RAM for
    // them. A list that grows would be in RAM twice for a moment.
    rows.reserve_exact(match is_mapped {
        true => count_mapped(reader.clone())?,
        false => (left as usize).min(reader.left() / 4 + 1),
    });
    while left > 0 {
        left -= 1;
        let mut block = reader.short()?;
        if is_mapped {
            if block == 0 {
                break;
            }
            if block & 1 == 1 {
                rows.push(Item::of_map(block / 2, reader.short()?)?);
                continue;
            }
            block = block / 2 - 1;
        }
        if block >= geometry.blocks {
            return None;
        }
        let first = reader.below(geometry.pages_per_block)?;
        let pages = reader.below(geometry.pages_per_block - first + 1).filter(|&pages| pages > 0)?;
        let first = geometry.page_at(Pbn(block), first);
        rows.push(Item::of_row(first, pages, reader.erases()?)?);
    }
    Some(rows)
}

/// Geometry, records, and whether there are maps.
type Form = (Geometry, RecordFormat, bool);

fn read_level(reader: &mut Reader<'_>, (geometry, record, is_mapped): Form) -> Option<LevelRoot> {
    let round = reader.short()?;
    let records = usize::try_from(reader.number()?).ok()?;
    let cursor = reader.key(record.key_bytes)?;
    let open = match reader.below(geometry.blocks + 1)? {
        0 => None,
        block => Some((Pbn(block - 1), reader.below(geometry.pages_per_block + 1)?)),
    };
    let rows = [read_run(reader, geometry, is_mapped)?, read_run(reader, geometry, is_mapped)?];
    Some(LevelRoot { round, records, cursor, open, rows })
}

fn read_rest(reader: &mut Reader<'_>, form: Form) -> Option<Root> {
    let (geometry, _, is_mapped) = form;
    let count = reader.below(17).filter(|&count| count > 0)?;
    let mut levels = Vec::with_capacity((count as usize).min(LEVELS_MAX));
    for _ in 0..count {
        levels.push(read_level(reader, form)?);
    }
    let sealed = reader.below(geometry.pages())?;
    let newest_sealed = match sealed {
        0 => None,
        _ => Some((Ppn(reader.below(geometry.pages())?), reader.number()?)),
    };
    let map = match if is_mapped && MAPS { reader.short()? } else { 0 } {
        0 => None,
        extents => Some((extents, (Ppn(reader.below(geometry.pages())?), reader.number()?))),
    };
    let listed = map.map_or(0, |map| map.0);
    for item in levels.iter().flat_map(|level| level.rows.iter().flatten()) {
        if let Some((from, count)) = item.listed() {
            from.checked_add(count).filter(|&end| count > 0 && end <= listed)?;
        }
    }
    let page_records = reader.number()?.max(1);
    let worn = read_worn(reader, geometry)?;
    Some(Root { levels, sealed, newest_sealed, map, appended: false, page_records, worn, places: None })
}

fn read_worn(reader: &mut Reader<'_>, geometry: Geometry) -> Option<Worn> {
    let (touched, most) = (reader.below(geometry.blocks + 1)?, reader.erases()?);
    let mut erased = Vec::new();
    for _ in 0..reader.below(geometry.blocks + 1)? {
        erased.push((Pbn(reader.below(geometry.blocks)?), reader.erases()?));
    }
    Some(Worn { touched, most, erased })
}

pub(super) fn read(reader: &mut Reader<'_>, geometry: Geometry, record: RecordFormat) -> Result<Root, Wrong> {
    let version = reader.short().ok_or(Wrong::Broken)?;
    if !(VERSION_BEFORE..=VERSION_LAST).contains(&version) {
        return Err(if version > VERSION_LAST { Wrong::Newer(version) } else { Wrong::Broken });
    }
    let flags = version.saturating_sub(VERSION);
    let (is_mapped, appended, anchored) = (flags & 1 > 0, flags & APPENDED > 0, flags & ANCHORED > 0);
    if anchored && !ANCHORS {
        return Err(Wrong::Lacks(words("the chip has anchors: this build lacks \"full\"")));
    }
    if appended && !SEALS {
        return Err(Wrong::Lacks(words(
            "the newest changes lie behind a commit page: this build lacks \"full\"",
        )));
    }
    let differs = [Differs::Geometry, Differs::Geometry, Differs::Record, Differs::Record];
    for (&expected, differs) in shape(version, geometry, record)[1..].iter().zip(differs) {
        let number = reader.number().ok_or(Wrong::Broken)?;
        if number != u64::from(expected) {
            return Err(Wrong::Other(differs));
        }
    }
    if is_mapped && !super::map::is_kept(geometry, record) {
        return Err(Wrong::Lacks(words("the root's extents lie in map pages: this build lacks \"full\"")));
    }
    let root = read_rest(reader, (geometry, record, is_mapped)).ok_or(Wrong::Broken)?;
    let places = match anchored && ANCHORS {
        true => Some(reader.below(1 << 16).ok_or(Wrong::Broken)? as u16),
        false => None,
    };
    Ok(Root { appended, places, ..root })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordered::plow::blocks::State;
    use alloc::vec;

    const RECORD: RecordFormat = RecordFormat::new(4, 4);

    fn blocks() -> Blocks {
        let mut blocks = Blocks::new(Geometry::new(512, 16, 16, 32));
        blocks.touch(Pbn(9));
        blocks.set(Pbn(3), State::Erased);
        blocks.set_erases(Pbn(3), 12);
        blocks.set_erases(Pbn(2), 40_000);
        blocks
    }

    fn levels() -> Vec<Level> {
        let mut level = Level { cursor: [1, 2, 3, 4].into(), round: 300, ..Level::default() };
        level.open = Some((Pbn(7), 3));
        (40..44).for_each(|page| level.old.push(Ppn(page), u64::from(page), true));
        (112..115).for_each(|page| level.new.push(Ppn(page), u64::from(page), true));
        vec![Level::default(), level]
    }

    #[test]
    fn a_root_comes_back_and_a_cut_one_does_not() {
        let geometry = Geometry::new(512, 16, 16, 32);
        let mut bytes = [0; 120];
        let mut writer = Writer::new(&mut bytes);
        let (levels, blocks) = (levels(), blocks());
        let mut kept = Kept {
            geometry,
            record: RECORD,
            levels: &levels,
            blocks: &blocks,
            map: None,
            sealed: 2,
            newest: Some((Ppn(9), 1 << 35)),
            appended: false,
            page_records: 700,
        };
        write(&mut writer, &kept);
        let end = writer.at();
        let mut reader = Reader::new(&bytes[..end]);
        let root = read(&mut reader, geometry, RECORD).unwrap();
        assert_eq!(reader.at(), end);
        assert_eq!(root.newest_sealed, Some((Ppn(9), 1 << 35)));
        assert_eq!(root.page_records, 700);
        assert_eq!(root.worn, Worn { touched: 10, most: 40_000, erased: vec![(Pbn(3), 12)] });
        let level = &root.levels[1];
        assert_eq!((level.round, &level.cursor[..], level.open), (300, &[1, 2, 3, 4][..], Some((Pbn(7), 3))));
        let rows =
            [vec![Item::of_row(Ppn(40), 4, 40_000).unwrap()], vec![Item::of_row(Ppn(112), 3, 0).unwrap()]];
        assert_eq!(level.rows, rows);
        for cut in 0..end {
            assert!(read(&mut Reader::new(&bytes[..cut]), geometry, RECORD).is_err(), "{cut} of {end} bytes");
        }
        let other = Geometry::new(512, 16, 16, 33);
        assert_eq!(read(&mut Reader::new(&bytes), other, RECORD), Err(Wrong::Other(Differs::Geometry)));
        let mut short = [0; 10];
        let mut writer = Writer::new(&mut short);
        (kept.sealed, kept.newest) = (0, None);
        write(&mut writer, &kept);
        assert!(writer.at() > 10);
    }
}
