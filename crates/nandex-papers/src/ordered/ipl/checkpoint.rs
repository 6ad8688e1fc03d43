//! Contents of the checkpoint area. After a close: everything, so that a mount reads nothing else. While
//! records are changed: only the facts that a scan cannot find, which are wear, and how far each block was
//! filled, so that missing pages are noticed.

use super::config::{Format, LogArea, saved_bytes};
use super::form::Form;
use super::layout::{BLOCK_BYTES, FIXED_BYTES, IplTag, NO_UNIT, SLOT_BYTES};
use super::numbers::Numbers;
use super::places::Block;
use super::slots::{NO_BLOCK, Slot, Slots};
use super::space::Space;
use super::store::Store;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::Cell;
use nandex::blocks::checkpoint::{CheckpointArea, Contents, Found, NO_CHECKPOINT, Source, Window};
use nandex::blocks::{BlockTable, Wear};
use nandex::check::{IndexError, words};
use nandex::codec::{get_u16, get_u32, get_u40, put_u16, put_u32, put_u40};
use nandex::nand::{Cause, Differs, Geometry, Nand, NandError, Reading, Unfit, read_again};
use nandex::ordered::{Durability, RecordFormat};
use nandex::units::Pbn;

const MAGIC: &[u8; 4] = b"NXI2";

/// A checkpoint read back.
pub(super) struct Saved {
    pub(super) form: Form,
    pub(super) closed: bool,
    /// Whether changes of the class *none* were under way.
    pub(super) open: bool,
    pub(super) numbers: Numbers,
    /// By block; those that held no nodes, and were not kept until the next commit, are as if unused.
    pub(super) blocks: Vec<Block>,
    pub(super) slots: Slots,
}

impl Saved {
    /// Bytes of a checkpoint of a tree of one node.
    pub(super) fn bytes_min(geometry: Geometry) -> usize {
        FIXED_BYTES + BlockTable::encoded_bytes(geometry) + BLOCK_BYTES + SLOT_BYTES
    }

    /// Decodes a checkpoint; it may be that of another tree or chip.
    fn decode(source: &mut dyn Source, geometry: Geometry) -> Result<(Saved, BlockTable), Unfit> {
        let (length, mut fixed) = (source.left(), [0; FIXED_BYTES]);
        let has_start = source.take(&mut fixed).is_ok();
        let what = words("the newest checkpoint is not that of a tree with in-page logging");
        if !has_start || fixed[..4] != MAGIC[..] {
            return Err(Unfit::named(&fixed[..4], MAGIC, what));
        }
        let shape = [geometry.page_bytes, geometry.pages_per_block, geometry.blocks];
        if shape.iter().enumerate().any(|(i, &wanted)| get_u32(&fixed, 8 + 4 * i) != wanted) {
            return Err(Unfit::other(Differs::Geometry, words("the tree was formatted on another chip")));
        }
        let saved = Saved::decode_fields(source, geometry, (length, fixed));
        saved.ok_or(Unfit::other(Differs::Kind, what))
    }

    /// Reads a checkpoint of this kind and chip; `None` when it makes no sense.
    fn decode_fields(
        source: &mut dyn Source,
        geometry: Geometry,
        (length, fixed): (usize, [u8; FIXED_BYTES]),
    ) -> Option<(Saved, BlockTable)> {
        if fixed[6] == 0 {
            return None;
        }
        let format = Format {
            record: RecordFormat { key_bytes: fixed[6], value_bytes: fixed[7] },
            area: if fixed[5] & 2 == 0 { LogArea::Dynamic } else { LogArea::Fixed },
            is_placed: false,
            order: get_u32(&fixed, 20) as usize,
            unit_bytes: get_u32(&fixed, 24) as usize,
            log_pages: get_u16(&fixed, 28).into(),
        };
        let form = Form::new(format, geometry);
        let (rows, slots) = (get_u32(&fixed, 48) as usize, get_u32(&fixed, 52) as usize);
        let slots_at = (FIXED_BYTES + BlockTable::encoded_bytes(geometry))
            .checked_add(rows.checked_mul(BLOCK_BYTES)?)?;
        if length != slots_at.checked_add(slots.checked_mul(SLOT_BYTES)?)? || !form.is_possible() {
            return None;
        }
        let table = BlockTable::decode(geometry, source).ok()?;
        let mut saved = Saved {
            form,
            closed: fixed[5] & 1 == 1,
            open: fixed[5] & 4 != 0,
            numbers: Numbers::saved(
                [get_u40(&fixed, 30), get_u40(&fixed, 35)],
                get_u32(&fixed, 40),
                get_u32(&fixed, 44),
            ),
            blocks: vec![Block::default(); geometry.blocks as usize],
            slots: Slots::default(),
        };
        for _ in 0..rows {
            let mut row = [0; BLOCK_BYTES];
            source.take(&mut row).ok()?;
            let (pbn, block) = decode_block(&row);
            *saved.blocks.get_mut(pbn.index())? = block;
        }
        for _ in 0..slots {
            let mut row = [0; SLOT_BYTES];
            source.take(&mut row).ok()?;
            saved.slots.push(decode_slot(&row));
        }
        saved.is_possible().then_some((saved, table))
    }

    fn is_possible(&self) -> bool {
        let (geometry, units) = (&self.form.geometry, self.form.units_per_block());
        let pages = geometry.pages_per_block;
        let block = |block: &Block| u32::from(block.cursor) <= units && u32::from(block.data_next) <= pages;
        let slot = |slot: &Slot| {
            let last = slot.last == NO_UNIT || u32::from(slot.last) < units;
            slot.block == NO_BLOCK || (slot.block < geometry.blocks && u32::from(slot.base) < pages && last)
        };
        self.blocks.iter().all(block) && self.slots.iter().all(slot)
    }
}

fn decode_block(row: &[u8]) -> (Pbn, Block) {
    let block = Block {
        generation: get_u32(row, 4),
        cursor: get_u16(row, 8),
        data_next: get_u16(row, 10),
        live: 0,
        units: get_u16(row, 12),
        born: get_u40(row, 14).into(),
        newest: get_u40(row, 19).into(),
    };
    (Pbn(get_u32(row, 0)), block)
}

fn encode_block(pbn: u32, block: &Block) -> [u8; BLOCK_BYTES] {
    let mut row = [0; BLOCK_BYTES];
    put_u32(&mut row, 0, pbn);
    put_u32(&mut row, 4, block.generation);
    put_u16(&mut row, 8, block.cursor);
    put_u16(&mut row, 10, block.data_next);
    put_u16(&mut row, 12, block.units);
    put_u40(&mut row, 14, block.born.get());
    put_u40(&mut row, 19, block.newest.get());
    row
}

fn encode_slot(slot: &Slot) -> [u8; SLOT_BYTES] {
    let slot = if slot.block == NO_BLOCK { &Slot::NONE } else { slot };
    let mut row = [0; SLOT_BYTES];
    put_u32(&mut row, 0, slot.block);
    put_u16(&mut row, 4, slot.base);
    put_u16(&mut row, 6, slot.last);
    row
}

/// The blocks with rows in a checkpoint: those that hold nodes or are kept until the next commit.
struct Rows<'a> {
    blocks: &'a [Block],
    held: &'a [Pbn],
    count: usize,
    /// A row number, and a block at or before the row's block, from which the search for the next row
    /// continues.
    at: Cell<(usize, u32)>,
}

impl<'a> Rows<'a> {
    fn new(blocks: &'a [Block], held: &'a [Pbn]) -> Rows<'a> {
        let rows = Rows { blocks, held, count: 0, at: Cell::new((0, 0)) };
        let count = (0u32..).zip(blocks).filter(|row| rows.has(*row)).count();
        Rows { count, ..rows }
    }

    fn has(&self, (pbn, block): (u32, &Block)) -> bool {
        block.live > 0 || self.held.contains(&Pbn(pbn))
    }

    fn row(&self, number: usize) -> [u8; BLOCK_BYTES] {
        let (from, first) = Some(self.at.get()).filter(|at| at.0 <= number).unwrap_or((0, 0));
        let mut rows = (first..).zip(&self.blocks[first as usize..]).filter(|row| self.has(*row));
        let Some((pbn, block)) = rows.nth(number - from) else { return [0; BLOCK_BYTES] };
        self.at.set((number, pbn));
        encode_block(pbn, block)
    }
}

/// A checkpoint as it is written: it is never held whole.
struct SavedContents<'a> {
    fixed: [u8; FIXED_BYTES],
    table_bytes: usize,
    rows: Rows<'a>,
    slots: Option<&'a Slots>,
}

impl Contents for SavedContents<'_> {
    fn byte_count(&self) -> usize {
        let slots = self.slots.map_or(0, Slots::len);
        FIXED_BYTES + self.table_bytes + self.rows.count * BLOCK_BYTES + slots * SLOT_BYTES
    }

    fn put(&self, blocks: &BlockTable, page: &mut Window<'_>) {
        page.bytes(&self.fixed);
        blocks.put(page);
        page.rows(self.rows.count, |number| self.rows.row(number));
        if let Some(slots) = self.slots {
            page.rows(slots.len(), |number| encode_slot(&slots[number]));
        }
    }
}

fn decode_slot(row: &[u8]) -> Slot {
    Slot { block: get_u32(row, 0), base: get_u16(row, 4), last: get_u16(row, 6) }
}

/// Pages of the block that a newer checkpoint would begin in that are looked at: two, as one may be damaged.
const FOLLOWERS: u32 = 2;

/// The contents of a page from before a checkpoint.
#[derive(Clone, Copy, PartialEq)]
enum Old {
    Blank,
    OfCheckpoint,
    /// A page of the tree, in a block of this generation.
    OfTree(u32),
}

/// True if a newer checkpoint than this closing one was begun, although no reference leads to it. The first
/// page programmed after a close is in the least worn free block. Older contents of that block are pages of
/// the tree, of one generation that is no newer, or older checkpoints, or nothing.
fn is_followed<N: Nand>(nand: &mut N, space: &Space, saved: &Saved) -> Result<bool, IndexError> {
    let geometry = nand.geometry();
    let Some(next) = space.table.first_free(Wear::Least) else { return Ok(false) };
    let (mut data, mut spare) =
        (vec![0; geometry.page_bytes as usize], vec![0xff; geometry.spare_bytes as usize]);
    let mut first = None;
    for page in 0..FOLLOWERS.min(geometry.pages_per_block) {
        let ppn = geometry.page_at(next, page);
        let old = |data: &[u8], spare: &[u8]| match IplTag::decode(spare) {
            _ if spare.iter().chain(data).all(|&byte| byte == 0xff) => Some(Old::Blank),
            Some(tag) => {
                let is_before = tag.generation <= saved.numbers.generation && u32::from(tag.page) == page;
                is_before.then_some(Old::OfTree(tag.generation))
            }
            None => space.area.is_older(ppn, data, spare).then_some(Old::OfCheckpoint),
        };
        let is_expected = |old: Old| old == Old::Blank || first.is_none_or(|first| old == first);
        let is_old = |data: &[u8], spare: &[u8]| old(data, spare).is_some_and(is_expected);
        match read_again(nand, (ppn, Cause::Recovery), &mut data, &mut spare, is_old) {
            Ok(Reading::Broken) | Err(NandError::Uncorrectable(_) | NandError::BadBlock(_)) => {
                return Ok(true);
            }
            Ok(_) => first = first.or(old(&data, &spare)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

/// The newest checkpoint of a chip, and its table as the blocks are in use.
pub(super) fn newest_checkpoint<N: Nand>(nand: &mut N) -> Result<(Space, Saved), IndexError> {
    let geometry = nand.geometry();
    let decode = &mut |source: &mut dyn Source| Saved::decode(source, geometry);
    let Some(Found { area, newest, .. }) = CheckpointArea::mount_and_look(nand, decode)? else {
        return Err(IndexError::NotFormatted(nandex::nand::unfit(nand, NO_CHECKPOINT)?));
    };
    let (mut saved, table) = newest.map_err(IndexError::NotFormatted)?;
    let mut space = Space::new(area, table);
    space.table.reserve_exactly(&space.area.occupied())?;
    // Changes may have been under way since: the checkpoint that says so is written first.
    saved.closed &= !space.area.is_ragged() && !is_followed(nand, &space, &saved)?;
    Ok((space, saved))
}

impl<N: Nand> Store<N> {
    /// Records on the chip that changes are under way, unless that is recorded; now and then also how far
    /// blocks are filled.
    pub(super) fn begin_change(&mut self) -> Result<(), IndexError> {
        if self.space.read_only || self.space.has_ended {
            return Err(IndexError::WornOut);
        }
        let opens = self.config.durability == Durability::None && !self.space.is_open;
        if self.medium.form.is_placed() {
            if opens {
                self.medium.write_header(true)?;
                self.space.is_open = true;
            }
            return Ok(());
        }
        let numbers = &self.numbers;
        let is_due = numbers.generation - numbers.checkpointed >= self.config.checkpoint_blocks;
        if self.space.closed || opens {
            self.space.is_open = opens;
            let written = self.write_checkpoint(false);
            self.space.is_open &= written.is_ok();
            written?;
        } else if is_due && self.space.table.free_count() > 2 {
            match self.write_checkpoint(false) {
                Err(IndexError::Full(_)) => self.numbers.checkpointed = self.numbers.generation,
                other => other?,
            }
        }
        Ok(())
    }

    /// After a commit in the class *none*: removes the record on the chip that changes are under way. If
    /// there is no room for that, a mount refuses until a close has removed it.
    pub(super) fn end_changes(&mut self) -> Result<(), IndexError> {
        if !self.space.is_open {
            return Ok(());
        }
        if self.medium.form.is_placed() {
            self.medium.write_header(false)?;
            self.space.is_open = false;
            return Ok(());
        }
        self.space.is_open = false;
        let written = self.write_checkpoint(false);
        self.space.is_open = written.is_err();
        match written {
            Err(error) if error.is_refusal() => Ok(()),
            other => other,
        }
    }

    /// Writes a checkpoint: a closing one with all tables, or one that says that changes are under way.
    pub(super) fn write_checkpoint(&mut self, closed: bool) -> Result<(), IndexError> {
        let places = &self.places;
        debug_assert!(!closed || places.held.is_empty(), "a commit gives back what was kept for it");
        let slots = closed.then_some(&places.slots);
        let rows = Rows::new(&places.blocks, &places.held);
        let fixed = self.fixed_numbers(closed, (rows.count, slots.map_or(0, Slots::len)));
        let table_bytes = BlockTable::encoded_bytes(self.medium.form.geometry);
        let contents = SavedContents { fixed, table_bytes, rows, slots };
        let (medium, space) = (&mut self.medium, &mut self.space);
        space.area.write(&mut medium.nand, &mut space.table, &contents, &mut medium.page)?;
        self.counts.checkpoints += 1;
        self.numbers.checkpointed = self.numbers.generation;
        self.space.closed = closed;
        Ok(())
    }

    /// Writes the checkpoint at close. If no block is free for it, it is left out, and the next mount
    /// examines the chip.
    pub(super) fn write_closing_checkpoint(&mut self) -> Result<(), IndexError> {
        let (form, space) = (&self.medium.form, &self.space);
        if space.closed || space.read_only || space.has_ended || form.is_placed() {
            return Ok(());
        }
        let bytes = saved_bytes(form.geometry, self.places.slots.len());
        let needed = CheckpointArea::blocks_needed(form.geometry, bytes) as u32 / 2;
        if space.table.free_count() <= needed {
            return Ok(());
        }
        match self.write_checkpoint(true) {
            Err(error) if error.is_refusal() => Ok(()),
            other => other,
        }
    }

    /// Encodes the numbers at the front of a checkpoint with this many rows of blocks and slots.
    fn fixed_numbers(&self, closed: bool, (rows, slots): (usize, usize)) -> [u8; FIXED_BYTES] {
        let (form, numbers) = (&self.medium.form, &self.numbers);
        let (format, geometry) = (&form.format, &form.geometry);
        let mut bytes = [0; FIXED_BYTES];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[5] = u8::from(closed) | u8::from(form.is_fixed()) << 1 | u8::from(self.space.is_open) << 2;
        (bytes[6], bytes[7]) = (format.record.key_bytes, format.record.value_bytes);
        put_u32(&mut bytes, 8, geometry.page_bytes);
        put_u32(&mut bytes, 12, geometry.pages_per_block);
        put_u32(&mut bytes, 16, geometry.blocks);
        put_u32(&mut bytes, 20, format.order.min(1 << 16) as u32);
        put_u32(&mut bytes, 24, format.unit_bytes as u32);
        put_u16(&mut bytes, 28, format.log_pages as u16);
        put_u40(&mut bytes, 30, numbers.sequence);
        put_u40(&mut bytes, 35, numbers.committed);
        put_u32(&mut bytes, 40, numbers.generation);
        put_u32(&mut bytes, 44, numbers.session);
        put_u32(&mut bytes, 48, rows as u32);
        put_u32(&mut bytes, 52, slots as u32);
        bytes
    }

    /// Takes the tables of a closing checkpoint over.
    pub(super) fn adopt(&mut self, saved: Saved) -> Result<(), IndexError> {
        let Saved { numbers, mut blocks, mut slots, .. } = saved;
        for id in (0..slots.len() as u32).rev() {
            match slots[id as usize].block {
                NO_BLOCK => slots.give_back(id),
                block => blocks[block as usize].live += 1,
            }
        }
        self.numbers = numbers;
        (self.places.blocks, self.places.slots) = (blocks, slots);
        self.space.closed = true;
        self.space.settle(&mut self.places.blocks)
    }
}
