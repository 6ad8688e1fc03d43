//! The *base*: what a mount starts from, as a checkpoint; and the notes that follow it.
//!
//! ```text
//! at  bytes   field of a base
//!  0    1     'B'
//!  1    4     the scheme
//!  5   12     page_bytes, pages_per_block, blocks of the chip
//! 17    4     logical pages
//! 21   16     four numbers that the scheme was formatted with
//! 37    1     1: nothing was programmed since
//! 38    8     next version
//! 46    8     lost logical pages, bytes of the scheme's own
//! 54    -     block table (`blocks`), spent pages (`slots`), per block: role u8, owner u32
//!  -    -     lost logical pages, u32 each; the scheme's own bytes
//!
//! at  bytes   field of a note
//!  0    1     'N'
//!  1    8     stamp: the next version
//!  9    8     trimmed logical pages, blocks that changed
//! 17    -     trimmed logical pages, u32 each
//!  -    -     per block: number u32, state u8, role u8, owner u32, erases u32, next u16, first u16, a bit per page that is
//!             valid, and one per page that is spent where the chip takes any order; then zeros may follow
//! ```
//!
//! Where valid pages are counted ([`Validity::Counts`]) the block table says how many each block has, a note
//! u16 for the bit per page; and a note ends with the bytes of the scheme's own, which say where everything
//! is ([`Told`](super::Told)), and u32 before them how many there are.
//!
//! A note says that something was programmed after the base, what became of each block that changed since the
//! record before it, and that of the logical pages it lists nothing older is left. Base and notes together
//! are one newer base.

use super::Rules;
use super::marks::Marks;
use super::slots::Slots;
use super::state::State;
use super::tags::{BlockTag, BlockTags, TAG_BYTES};
use super::trims::Trims;
use crate::blocks::checkpoint::{Contents, Source, Window, take_bytes, take_rows};
use crate::blocks::{BlockState, BlockTable, Validity};
use crate::check::words;
use crate::codec::{get_u16, get_u32, get_u64, put_u32, put_u64};
use crate::fault::StoreFault;
use crate::nand::{Differs, Geometry, Unfit};
use crate::store::StoreError;
use crate::units::{Pbn, Ppn};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

const FIXED_BYTES: usize = 54;
const BASE: u8 = b'B';
const NOTE: u8 = b'N';
/// Bytes of a note before its lists.
const NOTE_BYTES: usize = 17;
/// Bytes of a block in a note, before its bits.
const ROW_BYTES: usize = 18;
/// Bytes of the number of valid pages of a block, in a note.
const COUNT_BYTES: usize = 2;
/// Bytes of the length in front of the scheme's own bytes in a note.
const LENGTH_BYTES: usize = 4;
const NO_PAGE: u16 = u16::MAX;
/// A medium with a version beyond this counts as corrupted. As many versions again are left before they run
/// out.
const VERSION_MAX: u64 = 1 << VERSION_BITS;
pub(super) const VERSION_BITS: u32 = 39;

/// Base as it was read.
pub(super) struct Base {
    pub(super) state: State,
    pub(super) is_clean: bool,
    pub(super) extra: Vec<u8>,
}

/// Bytes of a base with `extra_bytes` bytes of the scheme's own, without lost pages.
pub(super) fn encoded_bytes(geometry: Geometry, validity: Validity, extra_bytes: usize) -> usize {
    let tags = geometry.blocks as usize * TAG_BYTES;
    let blocks = BlockTable::encoded_bytes_with(geometry, validity);
    FIXED_BYTES + blocks + Slots::encoded_bytes(geometry) + tags + extra_bytes
}

impl State {
    /// Fixed part at the beginning of a base.
    pub(super) fn fixed_part(&self, is_clean: bool, extra_bytes: usize) -> [u8; FIXED_BYTES] {
        let g = self.geometry;
        let mut fixed = [0; FIXED_BYTES];
        fixed[0] = BASE;
        fixed[1..5].copy_from_slice(&self.rules.magic);
        let numbers = [g.page_bytes, g.pages_per_block, g.blocks, self.page_count];
        let numbers = numbers.into_iter().chain(self.setup);
        numbers.enumerate().for_each(|(i, number)| put_u32(&mut fixed, 5 + 4 * i, number));
        fixed[37] = u8::from(is_clean);
        put_u64(&mut fixed, 38, self.next_version);
        put_u32(&mut fixed, 46, self.lost.len() as u32);
        put_u32(&mut fixed, 50, extra_bytes as u32);
        fixed
    }
}

/// Contents of a note: pages that were trimmed, and blocks that have changed since the last record.
pub(super) struct NoteContents<'a> {
    pub(super) state: &'a State,
    pub(super) trimmed: &'a Trims,
    pub(super) changed: &'a Marks,
    /// The scheme's own bytes, if valid pages are counted.
    pub(super) own: Option<&'a [u8]>,
    /// The note is padded with zeros to this many bytes.
    pub(super) bytes_min: usize,
}

impl Contents for NoteContents<'_> {
    fn byte_count(&self) -> usize {
        let rows = row_bytes(self.state.geometry, self.own.is_some()) * self.changed.count() as usize;
        let own = self.own.map_or(0, |own| LENGTH_BYTES + own.len());
        let bytes = NOTE_BYTES + 4 * self.trimmed.len() + rows + own;
        bytes.max(self.bytes_min)
    }

    fn put(&self, blocks: &BlockTable, page: &mut Window<'_>) {
        let changed = (0..self.state.geometry.blocks).map(Pbn).filter(|&pbn| self.changed.has(pbn));
        page.bytes(&[NOTE]);
        page.bytes(&self.state.next_version.to_le_bytes());
        page.bytes(&(self.trimmed.len() as u32).to_le_bytes());
        page.bytes(&self.changed.count().to_le_bytes());
        self.trimmed.iter().for_each(|n| page.bytes(&n.to_le_bytes()));
        changed.for_each(|pbn| self.put_row(pbn, blocks, page));
        if let Some(own) = self.own {
            page.bytes(&(own.len() as u32).to_le_bytes());
            page.bytes(own);
        }
    }
}

impl NoteContents<'_> {
    fn put_row(&self, pbn: Pbn, blocks: &BlockTable, page: &mut Window<'_>) {
        let (g, tag) = (self.state.geometry, self.state.tags.get(pbn.index()));
        debug_assert!(
            self.state.slots.next(pbn) <= g.pages_per_block,
            "more spent pages in {pbn} than it has"
        );
        page.bytes(&pbn.0.to_le_bytes());
        page.bytes(&[blocks.state(pbn) as u8, tag.role_byte()]);
        page.bytes(&tag.owner.to_le_bytes());
        page.bytes(&blocks.erase_count(pbn).to_le_bytes());
        page.bytes(&(self.state.slots.next(pbn) as u16).to_le_bytes());
        page.bytes(&self.state.slots.first(pbn).map_or(NO_PAGE, |page| page as u16).to_le_bytes());
        match self.own {
            Some(_) => page.bytes(&(blocks.valid_count(pbn) as u16).to_le_bytes()),
            None => put_bits(g, page, |place| blocks.is_valid(g.page_at(pbn, place))),
        }
        if g.random_order {
            put_bits(g, page, |place| !self.state.slots.is_open(pbn, place));
        }
    }
}

/// Bytes of a block in a note.
fn row_bytes(g: Geometry, is_counted: bool) -> usize {
    ROW_BYTES + valid_bytes(g, is_counted) + if g.random_order { bitmap_bytes(g) } else { 0 }
}

/// Bytes of a block in a note that tell its valid pages.
fn valid_bytes(g: Geometry, is_counted: bool) -> usize {
    if is_counted { COUNT_BYTES } else { bitmap_bytes(g) }
}

fn bitmap_bytes(g: Geometry) -> usize {
    g.pages_per_block.div_ceil(8) as usize
}

fn put_bits(g: Geometry, page: &mut Window<'_>, is_set: impl Fn(u32) -> bool) {
    for byte in 0..bitmap_bytes(g) as u32 {
        let places = byte * 8..(byte * 8 + 8).min(g.pages_per_block);
        let set = places.filter(|&place| is_set(place)).fold(0, |bits: u8, place| bits | 1 << (place % 8));
        page.bytes(&[set]);
    }
}

fn bits(g: Geometry, bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    (0..g.pages_per_block).filter(|&page| bytes[page as usize / 8] >> (page % 8) & 1 == 1)
}

/// Contents of a base. The table of blocks follows the fixed part.
pub(super) struct BaseContents<'a> {
    pub(super) geometry: Geometry,
    pub(super) validity: Validity,
    pub(super) fixed: [u8; FIXED_BYTES],
    pub(super) slots: &'a Slots,
    pub(super) tags: &'a BlockTags,
    pub(super) lost: &'a BTreeSet<u32>,
    pub(super) extra: &'a [u8],
}

impl Contents for BaseContents<'_> {
    fn byte_count(&self) -> usize {
        encoded_bytes(self.geometry, self.validity, self.extra.len()) + 4 * self.lost.len()
    }

    fn put(&self, blocks: &BlockTable, page: &mut Window<'_>) {
        page.bytes(&self.fixed);
        blocks.put(page);
        self.slots.put(page);
        page.rows(self.geometry.blocks as usize, |at| self.tags.get(at).to_bytes());
        self.lost.iter().for_each(|number| page.bytes(&number.to_le_bytes()));
        page.bytes(self.extra);
    }
}

/// True if a record with this first byte is no note.
pub(super) fn is_base(first: Option<u8>) -> bool {
    first != Some(NOTE)
}

/// Reads a record: a base if there was none before, else a note that makes the base a newer one.
pub(super) fn decode(
    g: Geometry,
    rules: &Rules,
    (base, source): (Option<Box<Base>>, &mut dyn Source),
) -> Result<Box<Base>, StoreFault> {
    let Some(mut base) = base else {
        let mut kind = [0; 1];
        if source.take(&mut kind).is_err() || kind[0] != BASE {
            return Err(StoreError::other(
                Differs::Kind,
                words("the newest checkpoint is not that of such a store"),
            )
            .into());
        }
        return Ok(Box::new(Base::decode(g, rules, source)?));
    };
    base.update(g, source)?;
    Ok(base)
}

/// Next version at the time when the base with these first bytes was written.
pub(super) fn next_version_of(bytes: &[u8]) -> Option<u64> {
    (bytes.first() == Some(&BASE) && bytes.len() >= FIXED_BYTES).then(|| get_u64(bytes, 38))
}

impl Base {
    /// Reads a base after its first byte.
    fn decode(g: Geometry, rules: &Rules, source: &mut dyn Source) -> Result<Base, StoreFault> {
        let len = 1 + source.left();
        let mut fixed = [BASE; FIXED_BYTES];
        let has_start = source.take(&mut fixed[1..]).is_ok();
        if !has_start || fixed[1..5] != rules.magic {
            let what = words("the newest checkpoint is that of another kind of store");
            return Err(StoreError::NotFormatted(Unfit::named(&fixed[1..5], &rules.magic, what)).into());
        }
        let number = |i: usize| get_u32(&fixed, 5 + 4 * i);
        if [number(0), number(1), number(2)] != [g.page_bytes, g.pages_per_block, g.blocks] {
            return Err(StoreError::other(
                Differs::Geometry,
                words("the chip was formatted with another geometry"),
            )
            .into());
        }
        let page_count = number(3);
        let (lost, extra) = (get_u32(&fixed, 46) as usize, get_u32(&fixed, 50) as usize);
        let next_version = get_u64(&fixed, 38);
        let lost_fit = lost <= page_count as usize && page_count <= g.pages();
        let setup = [number(4), number(5), number(6), number(7)];
        let validity = rules.validity(setup)?;
        let total = encoded_bytes(g, validity, extra) as u64 + 4 * lost as u64;
        if !lost_fit || total != len as u64 || fixed[37] > 1 || next_version >= VERSION_MAX {
            return Err(corrupted(17));
        }
        let blocks = BlockTable::decode_into(g, source, (validity, validity))?;
        let slots = Slots::decode(g, source)?;
        let mut tags = BlockTags::unused(g.blocks);
        for at in 0..g.blocks as usize {
            let mut row = [0; TAG_BYTES];
            source.take(&mut row)?;
            tags.set(at, BlockTag::from_bytes(row[0], get_u32(&row, 1)).ok_or_else(|| corrupted(54))?);
        }
        let lost: BTreeSet<u32> = take_rows(source, lost, u32::from_le_bytes)?.into_iter().collect();
        if lost.iter().any(|&lpn| lpn >= page_count) {
            return Err(corrupted(46));
        }
        let state =
            State { geometry: g, rules: *rules, page_count, setup, blocks, slots, tags, next_version, lost };
        Ok(Base { state, is_clean: fixed[37] == 1, extra: take_bytes(source, extra)? })
    }
}

impl Base {
    fn update(&mut self, g: Geometry, note: &mut dyn Source) -> Result<(), StoreFault> {
        let len = note.left();
        let mut fixed = [0; NOTE_BYTES];
        note.take(&mut fixed).map_err(|_| corrupted(0))?;
        let stamp = get_u64(&fixed, 1);
        let (trims, rows) = (get_u32(&fixed, 9) as usize, get_u32(&fixed, 13) as usize);
        let counts = self.state.is_counted();
        let row_bytes = row_bytes(g, counts);
        let total = NOTE_BYTES as u64 + 4 * trims as u64 + row_bytes as u64 * rows as u64;
        if !(self.state.next_version..VERSION_MAX).contains(&stamp) || total > len as u64 {
            return Err(corrupted(1));
        }
        for _ in 0..trims {
            let mut lpn = [0; 4];
            note.take(&mut lpn)?;
            self.state.lost.remove(&u32::from_le_bytes(lpn));
        }
        let mut row = vec![0; row_bytes];
        for _ in 0..rows {
            note.take(&mut row)?;
            self.state.update_block(g, &row).ok_or_else(|| corrupted(17))?;
        }
        if counts {
            // The old and the new bytes must not be in RAM at the same time.
            self.extra = Vec::new();
            let mut length = [0; LENGTH_BYTES];
            note.take(&mut length)?;
            self.extra = take_bytes(note, u32::from_le_bytes(length) as usize)?;
        }
        self.state.next_version = stamp;
        self.is_clean = false;
        Ok(())
    }
}

impl State {
    fn update_block(&mut self, g: Geometry, row: &[u8]) -> Option<()> {
        let pbn = Some(Pbn(get_u32(row, 0))).filter(|pbn| pbn.0 < g.blocks)?;
        let state = BlockState::from_byte(row[4])?;
        let (next, first) = (get_u16(row, 14), get_u16(row, 16));
        let fits = |page: u16| page == NO_PAGE || u32::from(page) < g.pages_per_block;
        if u32::from(next) > g.pages_per_block || !fits(first) {
            return None;
        }
        let counts = self.is_counted();
        let (valid, spent) = row[ROW_BYTES..].split_at(valid_bytes(g, counts));
        self.tags.set(pbn.index(), BlockTag::from_bytes(row[5], get_u32(row, 6))?);
        let first = Some(u32::from(first)).filter(|_| first != NO_PAGE);
        let spent = g.random_order.then(|| bits(g, spent));
        self.slots.restore(pbn, (u32::from(next), first), spent.into_iter().flatten());
        let now = (state, get_u32(row, 10));
        if counts {
            return self.blocks.restore_count(pbn, now, get_u16(valid, 0).into()).then_some(());
        }
        let valid: Vec<Ppn> = bits(g, valid).map(|page| g.page_at(pbn, page)).collect();
        self.blocks.restore(pbn, now, &valid).then_some(())
    }
}

fn corrupted(at: u64) -> StoreFault {
    StoreError::Corrupted { what: words("the base of a mapping scheme makes no sense"), at }.into()
}
