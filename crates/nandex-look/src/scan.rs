//! A look at a whole chip: every page decoded, which of them count, the tree that the bytes make, the state
//! of each block.

use crate::decode::{Decoder, Family, Page, PlowRoot, Record, Role, StoreShape};
use crate::life;
use crate::tree::{self, Tree};
use nandex::ordered::RecordFormat;
use nandex::{Cause, Nand, NandError, Pbn, Ppn};
use serde::Serialize;
use std::collections::BTreeMap;

/// Whether what a page holds still counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Life {
    /// Erased.
    Free,
    /// Something counts on it.
    Live,
    /// The log's or the FTL's own.
    Own,
    /// Another has taken its place, or nothing leads to it.
    Dead,
}

/// A block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Block {
    /// The kind of its pages, in a word or two.
    pub label: &'static str,
    /// Whether it is marked bad.
    pub bad: bool,
    /// How often it was erased, where somebody says so.
    pub wear: Option<u32>,
    /// Pages that count, are the FTL's own, do not count, are erased.
    pub pages: [u32; 4],
}

/// A record of the checkpoint area that is there whole.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// The kind and its fields.
    pub record: Record,
    /// The record's place in time.
    pub version: u64,
    /// The pages that it takes.
    pub pages: Vec<u32>,
    /// The bytes of it.
    #[serde(skip)]
    pub payload: Vec<u8>,
    /// The bytes of the notes that follow it, the oldest first.
    #[serde(skip)]
    pub notes: Vec<Vec<u8>>,
}

/// A chip that was looked at.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The decoder with what it learnt.
    pub decoder: Decoder,
    /// Every page, without single fields.
    pub pages: Vec<Page>,
    /// Whether each counts.
    pub lives: Vec<Life>,
    /// Every block.
    pub blocks: Vec<Block>,
    /// The tree.
    pub tree: Tree,
    /// The newest checkpoint.
    pub checkpoint: Option<Found>,
    /// The root of plow.
    pub plow: Option<PlowRoot>,
}

/// The bytes of one page, or none where the chip cannot read it.
type Bytes = Option<(Vec<u8>, Vec<u8>)>;

/// Reads a page without counting it; none where it cannot be read.
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
    /// Looks at every page of a chip that holds this family of formats. Nothing is written.
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

    /// The erases of blocks as the chip's own bytes tell them: the block table of the newest checkpoint.
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

    /// Records in the leaves that the tree leads to, where leaves hold records as they are.
    pub fn records(&self) -> u64 {
        self.tree
            .nodes
            .iter()
            .filter(|node| node.level == 1 || node.mixed)
            .map(|node| node.own_records as u64)
            .sum()
    }
}

/// Where the block table begins in a checkpoint.
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

/// Finds on the chip what pages alone do not tell: the shape of a tree on logical pages, where buffer blocks
/// begin, the sizes in a checkpoint of IPL.
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

/// The newest checkpoint whose pages are all there.
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

/// The label of a block: what most of its pages are.
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
