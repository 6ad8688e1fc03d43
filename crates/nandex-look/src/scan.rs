//! A scan of a whole chip: every page decoded, which pages are valid, the tree, and the state of each block.

use crate::decode::{Decoder, Family, Page, PlowRoot, Record, Role, StoreShape};
use crate::life;
use crate::tree::{self, Tree};
use nandex::ordered::RecordFormat;
use nandex::{Cause, Nand, NandError, Pbn, Ppn};
use serde::Serialize;
use std::collections::BTreeMap;

/// Whether the contents of a page still count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Life {
    /// The page is erased.
    Free,
    /// The contents of the page count.
    Live,
    /// The page belongs to the log or the FTL itself.
    Own,
    /// The page was replaced, or nothing refers to it.
    Dead,
}

/// The state of a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Block {
    /// The kind of most of its pages, in a word or two.
    pub label: &'static str,
    /// Whether the block is marked bad.
    pub bad: bool,
    /// Number of erases, if it is known.
    pub wear: Option<u32>,
    /// Numbers of pages that are live, the FTL's own, dead, and free.
    pub pages: [u32; 4],
}

/// A complete record of the checkpoint area.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// The kind of the record with its fields.
    pub record: Record,
    /// The version of the record.
    pub version: u64,
    /// The pages of the record.
    pub pages: Vec<u32>,
    /// The bytes of the record.
    #[serde(skip)]
    pub payload: Vec<u8>,
    /// The bytes of the notes after it, the oldest first.
    #[serde(skip)]
    pub notes: Vec<Vec<u8>>,
}

/// The scan of a chip.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The decoder, with what it learned from the chip.
    pub decoder: Decoder,
    /// All pages, without their fields.
    pub pages: Vec<Page>,
    /// For each page, whether its contents still count.
    pub lives: Vec<Life>,
    /// All blocks.
    pub blocks: Vec<Block>,
    /// The tree on the chip.
    pub tree: Tree,
    /// The newest checkpoint.
    pub checkpoint: Option<Found>,
    /// The root of plow, if the chip holds one.
    pub plow: Option<PlowRoot>,
}

/// The data and the spare area of a page; `None` if the chip cannot read it.
type Bytes = Option<(Vec<u8>, Vec<u8>)>;

/// Reads a page without counting the read; `None` if the chip cannot read it.
pub fn read(chip: &mut dyn Nand, ppn: Ppn) -> Result<Bytes, NandError> {
    let geometry = chip.geometry();
    let mut data = vec![0; geometry.page_bytes as usize];
    let mut spare = vec![0; geometry.spare_bytes as usize];
    match chip.read(ppn, Cause::Check, &mut data, &mut spare) {
        Ok(_) => Ok(Some((data, spare))),
        Err(NandError::Uncorrectable(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Scan {
    /// Scans a chip of this family of formats, without writing to it.
    pub fn of(chip: impl Nand, family: Family, record: RecordFormat) -> Result<Scan, NandError> {
        let mut chip = family.shown(chip);
        let mut decoder = Decoder::new(family, record, chip.geometry());
        learn(&mut chip, &mut decoder)?;
        let geometry = decoder.geometry;
        let mut bad = vec![false; geometry.blocks as usize];
        for (block, bad) in bad.iter_mut().enumerate() {
            *bad = chip.is_bad(Pbn(block as u32))?;
        }
        let mut pages = Vec::with_capacity(geometry.pages() as usize);
        let mut keep = BTreeMap::new();
        for ppn in (0..geometry.pages()).map(Ppn) {
            if bad[geometry.block_of(ppn).index()] {
                pages.push(Page::unreadable());
                continue;
            }
            let Some((data, spare)) = read(&mut chip, ppn)? else {
                pages.push(Page::unreadable());
                continue;
            };
            let page = decoder.glance(ppn, &data, &spare);
            if page.role == Role::Checkpoint || (page.role == Role::Commit && matches!(page.kind, 2 | 5)) {
                keep.insert(ppn.0, data);
            }
            pages.push(page);
        }
        Ok(Scan::put_together(decoder, pages, &bad, &keep))
    }

    fn put_together(decoder: Decoder, pages: Vec<Page>, bad: &[bool], keep: &BTreeMap<u32, Vec<u8>>) -> Scan {
        let checkpoint = newest_checkpoint(&decoder, &pages, keep);
        let newest = (0..pages.len())
            .filter(|&i| pages[i].role == Role::Commit && pages[i].kind == 2 && pages[i].whole)
            .max_by_key(|&i| pages[i].version);
        let data_of = |ppn: u32| keep.get(&ppn).map(Vec::as_slice);
        let plow = newest.and_then(|i| decoder.plow_root(data_of(i as u32)?, &data_of));
        let current = life::current(&decoder, &pages, checkpoint.as_ref());
        let tree = tree::build(&decoder, &pages, &current, plow.as_ref());
        let lives = life::lives(&decoder, &pages, &current, &tree);
        let mut scan = Scan { decoder, pages, lives, blocks: Vec::new(), tree, checkpoint, plow };
        scan.blocks = scan.count_blocks(bad);
        scan
    }

    fn count_blocks(&self, bad: &[bool]) -> Vec<Block> {
        let per_block = self.decoder.geometry.pages_per_block as usize;
        let wear = self.wear_told();
        let each = self.pages.chunks(per_block).zip(self.lives.chunks(per_block)).enumerate();
        each.map(|(number, (pages, lives))| {
            let count = |life: Life| lives.iter().filter(|&&l| l == life).count() as u32;
            let counted = [Life::Live, Life::Own, Life::Dead, Life::Free].map(count);
            Block {
                label: if bad[number] { "bad" } else { label(pages) },
                bad: bad[number],
                wear: wear.as_ref().and_then(|wear| wear.get(number).copied().flatten()),
                pages: counted,
            }
        })
        .collect()
    }

    /// The erases of the blocks from the block table of the newest checkpoint.
    fn wear_told(&self) -> Option<Vec<Option<u32>>> {
        let found = self.checkpoint.as_ref()?;
        let blocks = self.decoder.geometry.blocks as usize;
        let at = table_at(found, blocks)? + 8;
        let row = |i: usize| {
            let bytes = found.payload.get(at + 13 * i + 1..at + 13 * i + 5)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        Some((0..blocks).map(row).collect())
    }

    /// Number of records in the leaves of the tree, if leaves hold the records themselves.
    pub fn records(&self) -> u64 {
        self.tree
            .nodes
            .iter()
            .filter(|node| node.level == 1 || node.mixed)
            .map(|node| node.own_records as u64)
            .sum()
    }
}

/// Offset of the block table in a checkpoint.
fn table_at(found: &Found, blocks: usize) -> Option<usize> {
    let payload = &found.payload;
    let number = |at: usize, bytes: usize| -> Option<usize> {
        let slice = payload.get(at..at + bytes)?;
        Some(slice.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte)))
    };
    match found.record {
        Record::Log { .. } => Some(40 + number(30, 2)? + 8 * number(32, 4)? + number(27, 3)? + 2 * blocks),
        Record::PageMap { .. } if payload.starts_with(b"NXF3") => Some(60),
        Record::PageMap { .. } => Some(68),
        Record::Base { .. } => Some(54),
        Record::Ipl { .. } => Some(56),
        _ => None,
    }
}

/// Learns what single pages do not tell: the shape of a tree on logical pages, the start of the buffer
/// blocks, and the sizes of IPL.
fn learn(chip: &mut dyn Nand, decoder: &mut Decoder) -> Result<(), NandError> {
    let geometry = decoder.geometry;
    let is_store = matches!(decoder.family, Family::Ftl | Family::Tbm);
    if !is_store && decoder.family != Family::Ipl {
        return Ok(());
    }
    let mut newest: Option<(u64, StoreShape)> = None;
    for ppn in (0..geometry.pages()).map(Ppn) {
        if chip.is_bad(geometry.block_of(ppn))? {
            continue;
        }
        let Some((data, spare)) = read(chip, ppn)? else { continue };
        if decoder.family == Family::Tbm && decoder.buffer_from.is_none() {
            decoder.buffer_from = crate::decode::buffer_start(ppn, &geometry, &data, &spare);
        }
        if let Some(shape) = StoreShape::of_page(&data) {
            let version = decoder.glance(ppn, &data, &spare).version;
            newest = newest.filter(|found| found.0 > version).or(Some((version, shape)));
        }
        if decoder.family == Family::Ipl && decoder.glance(ppn, &data, &spare).role == Role::Checkpoint {
            decoder.learn_ipl(&data);
        }
    }
    decoder.store = newest.map(|found| found.1);
    Ok(())
}

/// The newest checkpoint of which all pages exist.
fn newest_checkpoint(decoder: &Decoder, pages: &[Page], keep: &BTreeMap<u32, Vec<u8>>) -> Option<Found> {
    let mut records: BTreeMap<u64, BTreeMap<u32, u32>> = BTreeMap::new();
    for (ppn, page) in pages.iter().enumerate().filter(|(_, page)| page.role == Role::Checkpoint) {
        records.entry(page.version).or_default().insert(page.logical.unwrap_or(0), ppn as u32);
    }
    let (mut best, mut notes) = (None, Vec::new());
    for (version, places) in records.into_iter().rev() {
        let mut bytes = Vec::new();
        for (place, (number, ppn)) in places.iter().enumerate() {
            if place as u32 != *number {
                break;
            }
            bytes.extend_from_slice(keep.get(ppn)?);
        }
        let Some(length) = bytes.get(..4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes) else {
            continue;
        };
        let Some(payload) = bytes.get(4..4 + length as usize) else { continue };
        let record = decoder.record_of(payload);
        let payload = payload.to_vec();
        let mut found =
            Found { record, version, pages: places.into_values().collect(), payload, notes: Vec::new() };
        // A note tells what changed since a base, which says more.
        if !matches!(found.record, Record::Note { .. }) {
            notes.reverse();
            found.notes = notes;
            return Some(found);
        }
        notes.push(found.payload.clone());
        best = best.or(Some(found));
    }
    best
}

/// The label of a block: the kind of most of its pages.
fn label(pages: &[Page]) -> &'static str {
    let mut counts: BTreeMap<&'static str, u32> = BTreeMap::new();
    for page in pages.iter().filter(|page| page.role != Role::Erased) {
        *counts.entry(page_label(page)).or_default() += 1;
    }
    counts.into_iter().max_by_key(|entry| entry.1).map_or("free", |entry| entry.0)
}

fn page_label(page: &Page) -> &'static str {
    match (page.role, page.kind) {
        (Role::Checkpoint, _) => "checkpoint",
        (Role::Anchor, _) => "anchor",
        (Role::Torn, _) => "torn",
        (Role::Map, _) => "mapping table",
        (_, b'B') => "buffer",
        (_, b'D') => "data",
        (_, b'L') => "log",
        (_, b'S') => "log in place",
        (_, b'C') => "moved",
        (_, b'H' | b'h') => "host",
        (Role::Commit, _) => "commit",
        (Role::Run | Role::Summary, _) => "level",
        (Role::Root | Role::Inner | Role::Leaf | Role::Journal, _) => "nodes",
        (Role::Log, _) => "log",
        (Role::Trim, _) => "trims",
        _ => "pages",
    }
}
