//! Pages of plow: header, root, packed records, summaries, maps, changes.

use super::packed::unpack;
use super::sheet::{Area, Sheet, number_text};
use super::{Decoder, Node, Page, Role};
use nandex::codec::crc32;
use nandex::{Geometry, Ppn, RecordFormat};
use serde::Serialize;

pub(super) const HEADER_BYTES: usize = 22;

/// The versions of the root that can be decoded.
const VERSIONS: core::ops::RangeInclusive<u64> = 3..=7;
/// The versions whose extents may lie in map pages.
const VERSIONS_MAPPED: [u64; 2] = [5, 7];
const CHANGES: u64 = 6;

/// A level of plow, from the newest commit page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlowLevel {
    /// Number of rounds that the level's cursor has completed.
    pub rounds: u64,
    /// Number of records in the level.
    pub records: u64,
    /// Position of the sweep as a key; empty at the start of a round.
    pub cursor: Vec<u8>,
    /// The block that is being filled, and its next page.
    pub open: Option<(u32, u32)>,
    /// Extents that the sweep has yet to reach: first page and number of pages.
    pub old: Vec<(u32, u32)>,
    /// Extents behind the cursor, in the same form.
    pub new: Vec<(u32, u32)>,
}

/// The root of plow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlowRoot {
    /// Sizes of keys and values, in bytes.
    pub record: (u64, u64),
    /// The levels, the uppermost first.
    pub levels: Vec<PlowLevel>,
    /// Number of sealed pages that are needed.
    pub sealed: u64,
    /// The newest of the sealed pages.
    pub newest_sealed: Option<u32>,
    /// Number of extents in the map, and the last page of the map.
    pub map: Option<(u64, u32)>,
}

/// A function that finds the data of a page by its number.
pub type DataOf<'p> = &'p dyn Fn(u32) -> Option<&'p [u8]>;

/// Pages in a root: an extent with its first page and number of pages, or a range of entries of the map.
#[derive(Clone, Debug)]
enum Item {
    Pages(u32, u32),
    Listed(u64, u64),
}

/// A reader of numbers with seven bits per byte.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied();
        self.at += 1;
        byte
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn rows(&mut self, geometry: &Geometry, is_mapped: bool) -> Option<Vec<Item>> {
        let mut rows = Vec::new();
        let mut left = if is_mapped { u64::MAX } else { self.number()? };
        while left > 0 {
            left -= 1;
            let mut block = self.number()?;
            if is_mapped {
                if block == 0 {
                    break;
                }
                if block & 1 == 1 {
                    rows.push(Item::Listed(block / 2, self.number()?));
                    continue;
                }
                block = block / 2 - 1;
            }
            let (first, pages) = (self.number()?, self.number()?);
            self.number()?;
            let at = block.checked_mul(geometry.pages_per_block.into())?.checked_add(first)?;
            let end = at.checked_add(pages)?;
            (end <= u64::from(geometry.pages())).then_some(())?;
            rows.push(Item::Pages(at as u32, pages as u32));
        }
        Some(rows)
    }
}

/// The extents in map pages, read from the last page of the map backwards.
fn listed(count: u64, last: u32, geometry: &Geometry, data_of: DataOf<'_>) -> Vec<(u32, u32)> {
    let per_page = ((geometry.page_bytes as usize).saturating_sub(HEADER_BYTES + 9) / 10).max(1);
    let mut pages = Vec::new();
    let mut next = Some(last);
    while let Some(data) = next.and_then(data_of).filter(|data| data.len() > HEADER_BYTES + 9) {
        let word = |at: usize| u32::from_le_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]]);
        let short = |at: usize| u32::from(u16::from_le_bytes([data[at], data[at + 1]]));
        let entries = (0..per_page).map(|i| HEADER_BYTES + 9 + 10 * i);
        // What lies beyond the chip is nothing.
        let row = |at: usize| {
            let first = u64::from(word(at)) * u64::from(geometry.pages_per_block) + u64::from(short(at + 4));
            let is_there = first + u64::from(short(at + 6)) <= u64::from(geometry.pages());
            if is_there { (first as u32, short(at + 6)) } else { (0, 0) }
        };
        pages.push(entries.map(row).collect::<Vec<_>>());
        next = word(HEADER_BYTES).checked_sub(1).filter(|_| pages.len() * per_page < count as usize);
    }
    pages.into_iter().rev().flatten().take(count as usize).collect()
}

/// Decodes the root in a body and returns it with its size in bytes; `None` if the bytes are invalid.
/// Extents in map pages that are not found are left out.
pub(super) fn root(body: &[u8], geometry: &Geometry, data_of: DataOf<'_>) -> Option<(PlowRoot, usize)> {
    let mut reader = Reader { bytes: body, at: 0 };
    let version = reader.number().filter(|version| VERSIONS.contains(version))?;
    let is_mapped = VERSIONS_MAPPED.contains(&version);
    reader.number()?;
    reader.number()?;
    let record = (reader.number()?, reader.number()?);
    let mut levels = Vec::new();
    for _ in 0..reader.number().filter(|&n| n <= 16)? {
        let (rounds, records) = (reader.number()?, reader.number()?);
        let mut cursor = Vec::new();
        if reader.byte()? != 0 {
            for _ in 0..record.0 {
                cursor.push(reader.byte()?);
            }
        }
        let open = match reader.number()? {
            0 => None,
            block => Some(((block - 1) as u32, reader.number()? as u32)),
        };
        let rows = [reader.rows(geometry, is_mapped)?, reader.rows(geometry, is_mapped)?];
        levels.push((PlowLevel { rounds, records, cursor, open, old: Vec::new(), new: Vec::new() }, rows));
    }
    let sealed = reader.number()?;
    let newest_sealed = match sealed {
        0 => None,
        _ => {
            let page = reader.number()? as u32;
            reader.number()?;
            Some(page)
        }
    };
    let map = match if is_mapped { reader.number()? } else { 0 } {
        0 => None,
        extents => {
            let page = reader.number()? as u32;
            reader.number()?;
            Some((extents.min(geometry.blocks.into()), page))
        }
    };
    let listed = map.map_or(Vec::new(), |(count, last)| listed(count, last, geometry, data_of));
    let levels = levels.into_iter().map(|(mut level, rows)| {
        let mut told = rows.into_iter().map(|rows| {
            let row = |item| match item {
                Item::Pages(first, pages) => vec![(first, pages)],
                Item::Listed(from, count) => {
                    listed.iter().skip(from as usize).take(count as usize).copied().collect()
                }
            };
            rows.into_iter().flat_map(row).collect()
        });
        (level.old, level.new) = (told.next().unwrap_or_default(), told.next().unwrap_or_default());
        level
    });
    let levels = levels.collect();
    for _ in 0..3 {
        reader.number()?;
    }
    for _ in 0..reader.number()? {
        reader.number()?;
        reader.number()?;
    }
    Some((PlowRoot { record, levels, sealed, newest_sealed, map }, reader.at))
}

pub(super) fn decode(decoder: &Decoder, ppn: Ppn, mut sheet: Sheet<'_>) -> Page {
    let data = sheet.data;
    if data.len() < HEADER_BYTES || sheet.peek(Area::Data, 4, 1) != 0x9e {
        return Page::torn(sheet, "Byte 4 is not 0x9E, as in every page of plow.");
    }
    let end = match sheet.peek(Area::Data, 5, 1) {
        CHANGES => (sheet.peek(Area::Data, 8, 2) as usize).clamp(HEADER_BYTES, data.len()),
        _ => data.len(),
    };
    let right = crc32(&[&ppn.0.to_le_bytes(), &data[4..end]]) == sheet.peek(Area::Data, 0, 4) as u32;
    sheet.checksum(Area::Data, 0, right);
    sheet.note(Area::Data, (4, 1), "page of plow", "0x9e".into());
    let kind = sheet.data_number(5, 1, "kind: 1 level, 2 commit, 3 sealed, 4 summary, 5 map, 6 changes");
    let flags = sheet.data_number(6, 1, "flags: 1 tombstones, 2 closed, 4 commits, 8 open");
    let high = sheet.data_number(7, 1, "bits 40 to 47 of the number of the program, inverted");
    let counted = match kind {
        4 => "groups",
        5 => "extents",
        CHANGES => "place of the first change",
        _ => "records",
    };
    let count = sheet.data_number(8, 2, counted) as usize;
    sheet.data_number(10, 2, "erases of the block");
    let low = sheet.data_number(12, 5, "number of the program, lowest 40 bits");
    let commit = sheet.data_number(17, 5, "newest commit page's program, lowest 40 bits");
    let program = (0xff - high) << 40 | low;
    if !right {
        return Page::torn(sheet, "Its checksum does not match.");
    }
    let mut at = HEADER_BYTES;
    let (role, mut title) = match kind {
        1 => (Role::Run, format!("a page of a level, {count} records")),
        2 => (Role::Commit, format!("a commit page: the root, and {count} records of the memtable")),
        3 => (Role::Commit, format!("a sealed page of the memtable, {count} records")),
        5 => (Role::Commit, format!("a page of the map, {count} extents")),
        CHANGES => {
            let made = changes(&mut sheet, (ppn, commit), count, decoder.record);
            (Role::Commit, format!("changes behind a commit page, {made} of them"))
        }
        _ => (Role::Summary, format!("a summary of {count} groups")),
    };
    let mut note = String::new();
    if kind == 2 {
        match root(&data[HEADER_BYTES..], &decoder.geometry, &|_| None) {
            Some((root, bytes)) => {
                note_root(&mut sheet, &root, bytes);
                at += bytes;
            }
            None => {
                note = format!("Its root is not one of version {} or {}.", VERSIONS.start(), VERSIONS.end());
            }
        }
    }
    let unpacked = match kind {
        1..=3 if note.is_empty() => unpack(&data[at..], decoder.record, count, flags & 1 != 0),
        _ => None,
    };
    if kind < 4 && unpacked.is_none() && note.is_empty() && count > 0 {
        note = "Its packed records make no sense.".into();
    }
    let node = unpacked.filter(|_| count > 0).map(|records| node(&mut sheet, at, &records, flags & 1 != 0));
    if flags & 2 != 0 {
        title += ", written by a close";
    }
    if flags & 4 != 0 {
        title += ", which commits the change of its step";
    }
    let mut page = Page::new(role, title, sheet);
    page.nodes = node.into_iter().collect();
    (page.note, page.version, page.kind) = (note, program, kind as u8);
    page
}

fn note_root(sheet: &mut Sheet<'_>, root: &PlowRoot, bytes: usize) {
    let mut text = format!("{} levels", root.levels.len());
    for (i, level) in root.levels.iter().enumerate() {
        let pages = |rows: &[(u32, u32)]| rows.iter().map(|row| row.1).sum::<u32>();
        let cursor = if level.cursor.is_empty() { "the start".into() } else { number_text(&level.cursor) };
        let (old, new) = (pages(&level.old), pages(&level.new));
        text += &format!(
            "; level {i}: {} records, {old} pages to be swept and {new} swept, cursor at {cursor}, round {}",
            level.records, level.rounds
        );
    }
    sheet.note(Area::Data, (HEADER_BYTES, bytes), "root", text);
}

fn node(sheet: &mut Sheet<'_>, at: usize, records: &super::packed::Unpacked, tombstones: bool) -> Node {
    sheet.data_number(at, 1, "width of the low bits, 128 more where zeros are left out");
    let prefix = sheet.data_number(at + 1, 1, "bytes of the prefix") as usize;
    sheet.data_number(at + 2, 8, "base");
    sheet.bytes(at + 10, prefix, "prefix");
    let from = at + 10 + prefix;
    let list: Vec<String> = records
        .iter()
        .map(|(key, value)| match value {
            Some(value) => format!("{} = {}", number_text(key), number_text(value)),
            None => format!("{} removed", number_text(key)),
        })
        .collect();
    let rest = sheet.data.len().saturating_sub(from);
    let name = if tombstones { "packed records, some removed" } else { "packed records" };
    sheet.note(Area::Data, (from, rest), name, list.join(", "));
    Node {
        level: 1,
        number: None,
        entries: records.len(),
        capacity: records.len(),
        at: (at, sheet.data.len().saturating_sub(at)),
        keys: records.iter().map(|record| record.0.clone()).collect(),
        links: Vec::new(),
        values: records.iter().map(|record| record.1.clone().unwrap_or_default()).collect(),
    }
}

/// Notes the changes of a page, from the first one on, and returns their number. The commit page's program is
/// part of their checksums.
fn changes(sheet: &mut Sheet<'_>, (ppn, commit): (Ppn, u64), first: usize, record: RecordFormat) -> usize {
    let (key_bytes, value_bytes) = (usize::from(record.key_bytes), usize::from(record.value_bytes));
    let data = sheet.data;
    let mut fields = Reader { bytes: data, at: HEADER_BYTES };
    let mut word = || {
        fields.number()?;
        fields.at += if fields.byte()? == 0 { 0 } else { key_bytes };
        fields.number()?;
        fields.number()?;
        fields.number()
    };
    let word = word().map_or(1, |word| word.max(1) as usize);
    let (mut at, mut made) = (first, 0);
    while let Some(tag) = data.get(at).copied().filter(|tag| tag & 0xfc == 0x58) {
        let mut reader = Reader { bytes: data, at: at + 1 };
        if tag & 2 != 0 {
            let moved = reader.number().and_then(|_| reader.byte());
            reader.at += if moved == Some(0) { 0 } else { key_bytes };
        }
        let (key, value) = (reader.at, reader.at + key_bytes);
        let end = value + if tag & 1 == 0 { value_bytes } else { 0 };
        let Some(check) = data.get(end..end + 3) else { break };
        let (page, program) = (ppn.0.to_le_bytes(), commit.to_le_bytes());
        let crc = crc32(&[&page, &program, &(at as u32).to_le_bytes(), &data[at..end]]);
        if crc.to_le_bytes()[..3] != *check {
            break;
        }
        let text = match tag & 1 {
            0 => format!("{} = {}", number_text(&data[key..value]), number_text(&data[value..end])),
            _ => format!("{} removed", number_text(&data[key..value])),
        };
        sheet.note(Area::Data, (at, end + 3 - at), "change", text);
        (at, made) = ((end + 3).next_multiple_of(word), made + 1);
    }
    made
}
