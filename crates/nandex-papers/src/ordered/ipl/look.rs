//! Findings of a mount after a power cut: a few bytes for each block, and tables of nodes and pages. If RAM
//! is short, the tables are made for a part of the nodes or pages at a time.

use super::layout::{Link, NO_UNIT};
use super::places::{Block, Number};
use super::slots::{NO_BLOCK, Slot, Slots};
use alloc::vec;
use alloc::vec::Vec;
use nandex::nand::Geometry;
use nandex::sort;
use nandex::units::{Pbn, Ppn};

/// Bits for each block.
pub(super) mod flag {
    /// One of its first pages has a tag.
    pub(in super::super) const USED: u16 = 1;
    /// The merge that opened the block is complete.
    pub(in super::super) const COMPLETE: u16 = 1 << 1;
    /// The merge is newer than the last commit.
    pub(in super::super) const VOID: u16 = 1 << 2;
    /// Some pages are void.
    pub(in super::super) const TAINTED: u16 = 1 << 3;
    /// The blocks that its merge took the nodes from were not kept for a cut.
    pub(in super::super) const UNPROTECTED: u16 = 1 << 4;
    /// A page or unit is missing between two others.
    pub(in super::super) const GAP: u16 = 1 << 5;
    /// A page that may have held sectors cannot be read.
    pub(in super::super) const UNREADABLE: u16 = 1 << 6;
    /// The checkpoint knows it.
    pub(in super::super) const KNOWN: u16 = 1 << 7;
    /// The checkpoint knows of more log units.
    pub(in super::super) const FEWER: u16 = 1 << 8;
    /// A log unit says that the block was given back.
    pub(in super::super) const DEAD: u16 = 1 << 9;
    /// A pass examined the block: the row no longer is that of the checkpoint.
    pub(in super::super) const SEEN: u16 = 1 << 10;
    /// The last image cannot be read whole, and is damaged if it is not torn.
    pub(in super::super) const JUDGED: u16 = 1 << 11;
    /// A cut tore its last image, which counts for nothing.
    pub(in super::super) const TORN: u16 = 1 << 12;
    /// The checkpoint, which is newer, says that it holds nothing.
    pub(in super::super) const LEFT: u16 = 1 << 13;
    /// The checkpoint knows it, and it has lost a page or seems to.
    pub(in super::super) const SHORT: u16 = 1 << 14;
    /// Findings of one pass.
    pub(in super::super) const OF_A_PASS: u16 = COMPLETE | VOID | TAINTED | UNPROTECTED | GAP | UNREADABLE;
}

/// Bytes of RAM for the examination of a page.
pub(super) const SCAN_BYTES: usize = 1024;

/// A node: the newest version, and the newest of its log records anywhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    slot: Slot,
    sequence: Number,
    logged: Number,
    logged_in: u32,
}

impl Row {
    const NONE: Row =
        Row { slot: Slot::NONE, sequence: Number::ZERO, logged: Number::ZERO, logged_in: NO_BLOCK };

    /// Takes a version if it is the newest of its node so far. At equal numbers in one block a later image is
    /// newer, and a ghost needs a higher number.
    fn offer(&mut self, (sequence, slot, is_ghost): (u64, Slot, bool), blocks: &[Block]) {
        let generation = |slot: &Slot| blocks.get(slot.block as usize).map_or(0, |block| block.generation);
        let is_newer = if self.slot.block == NO_BLOCK {
            true
        } else if self.slot.block == slot.block {
            sequence > self.sequence.get() || sequence == self.sequence.get() && !is_ghost
        } else {
            (self.sequence.get(), generation(&self.slot)) < (sequence, generation(&slot))
        };
        if is_newer {
            self.slot = slot;
            self.sequence = sequence.into();
        }
    }

    /// Notes a log record of the node.
    fn note_record(&mut self, sequence: u64, pbn: Pbn) {
        let is_first = self.logged_in == NO_BLOCK;
        if is_first || (self.logged.get(), self.logged_in) < (sequence, pbn.0) {
            (self.logged, self.logged_in) = (sequence.into(), pbn.0);
        }
    }
}

/// Rows of the nodes from one number on.
#[derive(Debug, Default)]
pub(super) struct Rows {
    from: u32,
    /// Most rows of one share.
    most: u32,
    chunks: Vec<Vec<Row>>,
}

const CHUNK: u32 = 64;

impl Rows {
    /// Bytes for each row, with its share of the list.
    const BYTES: usize = size_of::<Row>() + size_of::<Vec<Row>>() / CHUNK as usize + 1;

    fn at(&mut self, id: u32) -> Option<&mut Row> {
        let i = id.checked_sub(self.from).filter(|&i| i < self.most)?;
        let chunk = (i / CHUNK) as usize;
        if self.chunks.len() <= chunk {
            self.chunks.reserve_exact(self.chunks.len().max(chunk + 1 - self.chunks.len()));
            self.chunks.resize_with(chunk + 1, Vec::new);
        }
        if self.chunks[chunk].is_empty() {
            self.chunks[chunk] = vec![Row::NONE; CHUNK as usize];
        }
        Some(&mut self.chunks[chunk][(i % CHUNK) as usize])
    }

    fn get(&self, id: u32) -> Row {
        let i = id.wrapping_sub(self.from);
        let row = self.chunks.get((i / CHUNK) as usize).and_then(|chunk| chunk.get((i % CHUNK) as usize));
        row.copied().unwrap_or(Row::NONE)
    }
}

/// The pages of some blocks in use, in the order of their generations: whether another page names them as the
/// one programmed before, and whether they are whole.
#[derive(Debug, Default)]
pub(super) struct Marks {
    from: usize,
    to: usize,
    pages: usize,
    /// Two bits a page.
    bits: Vec<u8>,
    /// One above the highest unit that was named, and one above the last whole unit.
    ends: Vec<(u16, u16)>,
}

const NAMED: u8 = 1;
const WHOLE: u8 = 2;

impl Marks {
    fn new(from: usize, count: usize, pages: u32) -> Marks {
        let pages = pages as usize;
        Marks {
            from,
            to: from + count,
            pages,
            bits: vec![0; (count * pages).div_ceil(4)],
            ends: vec![(0, 0); count],
        }
    }

    const fn bytes_for_block(pages: u32) -> usize {
        pages as usize / 4 + 1 + size_of::<(u16, u16)>()
    }

    fn row(&self, place: usize) -> Option<usize> {
        (self.from..self.to).contains(&place).then(|| place - self.from)
    }

    fn set(&mut self, row: usize, page: u32, mark: u8) {
        let at = row * self.pages + page as usize;
        self.bits[at / 4] |= mark << (at % 4 * 2);
    }

    /// The first page of a row that was named, or in which a unit was, and is not whole.
    fn lost_page(&self, row: usize, per_page: u32) -> Option<u32> {
        let is_lost = |&page: &usize| {
            let at = row * self.pages + page;
            self.bits[at / 4] >> (at % 4 * 2) & (NAMED | WHOLE) == NAMED
        };
        let (named, whole) = self.ends[row];
        let beyond = || (named > whole && per_page > 1).then(|| (u32::from(named) - 1) / per_page);
        (0..self.pages).find(is_lost).map(|page| page as u32).or_else(beyond)
    }
}

/// The last image of a block, if it cannot be read whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Broken {
    pub(super) pbn: Pbn,
    pub(super) page: u32,
    /// Pages of the merge that opened the block.
    pub(super) merged: u32,
}

/// The findings of a mount.
#[derive(Debug)]
pub(super) struct Look {
    geometry: Geometry,
    per_page: u32,
    pub(super) flags: Vec<u16>,
    /// Blocks in use, by their generations.
    order: Vec<u32>,
    /// Everything up to this number counts as committed, and everything newer is void.
    pub(super) committed: u64,
    /// The highest number that a pass found called committed, and the highest of all.
    pub(super) found_committed: u64,
    pub(super) newest: u64,
    rows: Rows,
    marks: Marks,
    /// Bytes for rows and marks.
    ram: Option<usize>,
    /// Rows and blocks of marks that a pass has RAM for.
    share: (u32, usize),
    /// One above the highest number of a node.
    pub(super) nodes: u32,
    /// Nodes of the merge that opened the block being examined, by page.
    pub(super) merging: Vec<(u32, u16)>,
    pub(super) broken: Vec<Broken>,
    /// Nodes with log records that are newer than their version, in other blocks.
    pub(super) suspects: Vec<(u32, Pbn)>,
    /// Pages that other pages name but that are not whole, one per block.
    pub(super) lost: Vec<Ppn>,
}

impl Look {
    /// Tables for a look, as large as `ram` bytes allow.
    pub(super) fn new(geometry: Geometry, per_page: u32, ram: Option<usize>) -> Look {
        let blocks = geometry.blocks as usize;
        let merging = geometry.pages_per_block as usize * size_of::<(u32, u16)>();
        let others = blocks * (size_of::<u16>() + size_of::<u32>()) + merging;
        Look {
            geometry,
            per_page,
            flags: vec![0; blocks],
            order: Vec::new(),
            committed: 0,
            found_committed: 0,
            newest: 0,
            rows: Rows::default(),
            marks: Marks::default(),
            ram: ram.map(|ram| ram.saturating_sub(others)),
            share: (2 * geometry.pages(), blocks),
            nodes: 0,
            merging: Vec::new(),
            broken: Vec::new(),
            suspects: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// Shares the RAM out between marks and rows.
    fn share_out(&mut self) {
        let Some(left) = self.ram else { return };
        let of_block = Marks::bytes_for_block(self.geometry.pages_per_block);
        let marked = (left / 3 / of_block).clamp(1, self.order.len().max(1));
        // The places of the nodes take a row's third besides.
        let left = left.saturating_sub(marked * of_block);
        let rows = (left / (Rows::BYTES + size_of::<Slot>())) as u32 / CHUNK * CHUNK;
        self.share = (rows.clamp(CHUNK, 2 * self.geometry.pages()), marked);
    }

    /// Bytes that the passes hold at least.
    pub(super) fn bytes_min(geometry: Geometry) -> usize {
        let of_block = size_of::<u16>() + size_of::<u32>();
        let merging = geometry.pages_per_block as usize * size_of::<(u32, u16)>();
        let rows = CHUNK as usize * (Rows::BYTES + size_of::<Slot>());
        geometry.blocks as usize * of_block
            + merging
            + Marks::bytes_for_block(geometry.pages_per_block)
            + rows
            + SCAN_BYTES
    }

    /// Bytes that are held until the mount is over.
    pub(super) fn bytes_kept(geometry: Geometry) -> usize {
        geometry.blocks as usize * size_of::<u16>()
    }

    pub(super) fn has(&self, pbn: Pbn, flags: u16) -> bool {
        self.flags[pbn.index()] & flags == flags
    }

    pub(super) fn set(&mut self, pbn: Pbn, flags: u16) {
        self.flags[pbn.index()] |= flags;
    }

    pub(super) fn with(&self, flags: u16) -> impl Iterator<Item = Pbn> + '_ {
        (0..self.geometry.blocks).map(Pbn).filter(move |&pbn| self.has(pbn, flags))
    }

    /// Learns the generations of the blocks in use.
    pub(super) fn sort_generations(&mut self, blocks: &[Block]) {
        self.order = Vec::with_capacity(self.with(flag::USED).count());
        let flags = &self.flags;
        self.order.extend((0..self.geometry.blocks).filter(|&pbn| flags[pbn as usize] & flag::USED != 0));
        sort::unstable_by_key(&mut self.order, |&pbn| (blocks[pbn as usize].generation, pbn));
        self.share_out();
    }

    /// Takes the blocks left before the checkpoint for blocks in use if a known one has lost a page: any of
    /// them may name it. Returns true if there are some.
    pub(super) fn takes_left(&mut self, blocks: &[Block]) -> bool {
        let is_wanted = [flag::SHORT, flag::LEFT].iter().all(|&flag| self.with(flag).next().is_some());
        if is_wanted {
            for flags in self.flags.iter_mut().filter(|flags| **flags & flag::LEFT != 0) {
                *flags ^= flag::LEFT | flag::USED;
            }
            self.broken.clear();
            self.sort_generations(blocks);
        }
        is_wanted
    }

    /// Place of the block of a generation among the blocks in use.
    fn place_of(&self, generation: u32, blocks: &[Block]) -> Option<usize> {
        self.order.binary_search_by_key(&generation, |&pbn| blocks[pbn as usize].generation).ok()
    }

    /// Begins a pass: the first, or one for the next share.
    pub(super) fn begin(&mut self, is_first: bool) {
        let (rows, marked) = self.share;
        let (from, mark_from) =
            if is_first { (0, 0) } else { (self.rows.from.saturating_add(rows), self.marks.to) };
        if is_first {
            self.nodes = 0;
            self.suspects.clear();
            self.lost.clear();
            (self.found_committed, self.newest) = (0, 0);
        }
        (self.rows, self.marks) = (Rows::default(), Marks::default());
        self.rows = Rows { from, most: rows, chunks: Vec::new() };
        let marked = marked.min(self.order.len() - mark_from);
        self.marks = Marks::new(mark_from, marked, self.geometry.pages_per_block);
    }

    /// Notes the page that another one names.
    pub(super) fn note_link(&mut self, link: &Link, blocks: &[Block]) {
        if link.unit == NO_UNIT {
            return;
        }
        let page = u32::from(link.unit) / self.per_page;
        let row = self.place_of(link.generation, blocks).and_then(|place| self.marks.row(place));
        if let Some(row) = row.filter(|_| page < self.geometry.pages_per_block) {
            self.marks.set(row, page, NAMED);
            let end = &mut self.marks.ends[row].0;
            *end = (link.unit + 1).max(*end);
        }
    }

    /// Notes a block that was given back.
    pub(super) fn note_dead(&mut self, generation: u32, blocks: &[Block]) {
        if let Some(place) = self.place_of(generation, blocks) {
            self.set(Pbn(self.order[place]), flag::DEAD);
        }
    }

    /// Notes a page that is whole up to this unit.
    pub(super) fn note_whole(&mut self, pbn: Pbn, (page, unit): (u32, u16), blocks: &[Block]) {
        let key = |pbn: u32| (blocks[pbn as usize].generation, pbn);
        let place = self.order.binary_search_by_key(&key(pbn.0), |&pbn| key(pbn)).ok();
        if let Some(row) = place.and_then(|place| self.marks.row(place)) {
            self.marks.set(row, page, WHOLE);
            let end = &mut self.marks.ends[row].1;
            *end = (unit + 1).max(*end);
        }
    }

    /// Offers a version of a node.
    pub(super) fn offer(&mut self, id: u32, version: (u64, Slot, bool), blocks: &[Block]) {
        if let Some(row) = self.row(id) {
            row.offer(version, blocks);
        }
        if id < 2 * self.geometry.pages() {
            self.nodes = self.nodes.max(id + 1);
        }
    }

    /// Notes a log record of a node.
    pub(super) fn note_record(&mut self, id: u32, sequence: u64, pbn: Pbn) {
        if let Some(row) = self.row(id) {
            row.note_record(sequence, pbn);
        }
    }

    /// Notes the newest unit of a node in the block that its version is in.
    pub(super) fn note_last(&mut self, id: u32, pbn: Pbn, unit: u16) {
        if let Some(row) = self.row(id).filter(|row| row.slot.block == pbn.0) {
            row.slot.last = unit;
        }
    }

    fn row(&mut self, id: u32) -> Option<&mut Row> {
        // A number beyond all pages is that of no node.
        if id < 2 * self.geometry.pages() { self.rows.at(id) } else { None }
    }

    /// Ends a pass and adds the places of its nodes to those found before. Returns false if further passes
    /// are needed.
    pub(super) fn end(&mut self, slots: &mut Slots) -> bool {
        let after = self.rows.from.saturating_add(self.rows.most);
        for id in self.rows.from..self.nodes.min(after) {
            let row = self.rows.get(id);
            slots.push(row.slot);
            let elsewhere = row.logged_in != NO_BLOCK && row.logged_in != row.slot.block;
            if row.slot.block != NO_BLOCK && elsewhere && row.sequence.get() < row.logged.get() {
                self.suspects.push((id, Pbn(row.logged_in)));
            }
        }
        for row in 0..self.marks.ends.len() {
            if let Some(page) = self.marks.lost_page(row, self.per_page) {
                self.lost.push(self.geometry.page_at(Pbn(self.order[self.marks.from + row]), page));
            }
        }
        self.nodes <= after && self.marks.to >= self.order.len()
    }

    /// Bytes of RAM held when the passes are over.
    pub(super) fn ram_bytes(&self) -> usize {
        self.flags.capacity() * size_of::<u16>()
            + self.suspects.capacity() * size_of::<(u32, Pbn)>()
            + (self.lost.capacity() + self.broken.capacity() * 3) * 4
    }

    /// Frees tables that only passes need.
    pub(super) fn drop_tables(&mut self) {
        (self.rows, self.marks) = (Rows::default(), Marks::default());
        (self.order, self.merging) = (Vec::new(), Vec::new());
    }
}
