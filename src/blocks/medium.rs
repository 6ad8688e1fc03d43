//! The table of blocks as part of a checkpoint.
//!
//! First the clock (u64), then for each block its state (u8), erases (u32), time of modification (u40) and
//! rank (u24). Then one bit for each page or, if valid pages are counted, a u16 for each block. The rank is
//! the place among the full blocks in the order of closing, from 1; 0 if that order is not kept.

use super::order::Order;
use super::rows::Rows;
use super::valid::Valid;
use super::{BlockState, BlockTable, KEEPS_AGES, Validity};
use crate::bits::{self, Word};
use crate::blocks::checkpoint::{Source, Window};
use crate::blocks::victim::VictimPolicy;
use crate::check::words;
use crate::codec::{get_u32, get_u40, put_u32, put_u40};
use crate::fault::StoreFault;
use crate::nand::Geometry;
use crate::sort;
use crate::store::StoreError;
use crate::units::{Pbn, Ppn};
use alloc::vec::Vec;

/// Largest clock in a checkpoint, of 40 bits; a higher one is written as this.
const CLOCK_MAX: u64 = (1 << 40) - 1;
/// Bytes that one block takes in an encoded table, without its valid pages.
const ROW_BYTES: usize = 13;
/// Bytes of the number of a block's valid pages.
const COUNT_BYTES: usize = 2;

impl BlockTable {
    /// Bytes of an encoded table with a bit for each page.
    pub fn encoded_bytes(geometry: Geometry) -> usize {
        BlockTable::encoded_bytes_with(geometry, Validity::Bits)
    }

    /// Bytes of a table with this form of validity.
    pub fn encoded_bytes_with(geometry: Geometry, validity: Validity) -> usize {
        let blocks = geometry.blocks as usize;
        let valid_bytes = match validity {
            Validity::Bits => (geometry.pages() as usize).div_ceil(64) * 8,
            Validity::Counts => blocks * COUNT_BYTES,
        };
        8 + blocks * ROW_BYTES + valid_bytes
    }

    /// Form in which the table remembers valid pages.
    pub fn validity(&self) -> Validity {
        if self.is_counted() { Validity::Counts } else { Validity::Bits }
    }

    /// Appends the table to a checkpoint that is made in one piece.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let at = out.len();
        out.resize(at + BlockTable::encoded_bytes(self.geometry), 0);
        self.put(&mut Window::of(&mut out[at..]));
    }

    /// Writes the table's part of a page of a checkpoint.
    pub fn put(&self, page: &mut Window<'_>) {
        let ranks = self.order.ranks(self.uses.rows.len());
        page.bytes(&self.clock.min(CLOCK_MAX).to_le_bytes());
        page.rows(self.uses.rows.len(), |at| {
            let mut row = [0; ROW_BYTES];
            let (state, erases) = self.uses.rows.then(at);
            row[0] = state as u8;
            put_u32(&mut row, 1, erases);
            put_u40(&mut row, 5, self.modified(Pbn(at as u32)).min(CLOCK_MAX));
            let rank = ranks.get(at).copied().unwrap_or(0);
            row[10..].copy_from_slice(&rank.to_le_bytes()[..3]);
            row
        });
        if self.is_counted() {
            page.rows(self.uses.rows.len(), |at| (self.valid_count(Pbn(at as u32)) as u16).to_le_bytes());
        } else {
            page.rows(self.valid.bits().len(), |at| self.valid.bits()[at].to_le_bytes());
        }
    }

    /// Reads a table from the next [`BlockTable::encoded_bytes`] of a checkpoint. Free blocks become Unclean,
    /// because a program may have been cut short in one of them since.
    pub fn decode(geometry: Geometry, source: &mut dyn Source) -> Result<BlockTable, StoreFault> {
        BlockTable::decode_into(geometry, source, (Validity::Bits, Validity::Bits))
    }

    /// Reads a table with the validity `from` into one with the validity `into`. From counts, each page of a
    /// block with valid pages may be valid.
    pub fn decode_into(
        geometry: Geometry,
        source: &mut dyn Source,
        (from, into): (Validity, Validity),
    ) -> Result<BlockTable, StoreFault> {
        if source.left() < BlockTable::encoded_bytes_with(geometry, from) {
            return Err(corrupted(source.left()));
        }
        let mut table = BlockTable::keeping(geometry, into);
        table.uses.places.clear();
        let mut clock = [0; 8];
        source.take(&mut clock)?;
        table.clock = u64::from_le_bytes(clock);
        if table.clock > CLOCK_MAX {
            return Err(corrupted(0));
        }
        let mut ranks = Ranks::default();
        for at in 0..table.uses.rows.len() {
            let mut row = [0; ROW_BYTES];
            source.take(&mut row)?;
            let modified = get_u40(&row, 5);
            let state = BlockState::from_byte(row[0]).filter(|_| modified <= table.clock);
            let state = match state.ok_or_else(|| corrupted(at))? {
                BlockState::Free => BlockState::Unclean,
                state => state,
            };
            table.uses.rows.set_state(at, state);
            table.uses.rows.set_erases(at, get_u32(&row, 1));
            if KEEPS_AGES && modified > 0 {
                table.keep_ages();
                table.ages[at] = modified;
            }
            if cfg!(feature = "full") && state == BlockState::Full {
                ranks.note(&table.uses.rows, at, get_u32(&row, 9) >> 8);
            }
        }
        let valid = &mut table.valid;
        match (from, into) {
            _ if !cfg!(feature = "in-parts") => valid.decode_bits(geometry, source)?,
            (Validity::Bits, Validity::Bits) => valid.decode_bits(geometry, source)?,
            (Validity::Bits, Validity::Counts) => valid.count_bits(geometry, source)?,
            (Validity::Counts, _) => valid.decode_counts(geometry, source)?,
        }
        for pbn in (0..geometry.blocks).map(Pbn) {
            let (state, valid) = (table.state(pbn), table.valid_count(pbn));
            if valid > 0 && !matches!(state, BlockState::Open | BlockState::Full) {
                return Err(corrupted(pbn.index()));
            }
            table.live_pages += valid;
            table.uses.link(pbn, state, valid);
        }
        if cfg!(feature = "full") {
            table.order = ranks.into_order(table.uses.rows.len());
        }
        Ok(table)
    }
}

impl Valid {
    fn decode_bits(&mut self, geometry: Geometry, source: &mut dyn Source) -> Result<(), StoreFault> {
        for word in self.bits_mut() {
            let mut bytes = [0; size_of::<Word>()];
            source.take(&mut bytes)?;
            *word = Word::from_le_bytes(bytes);
        }
        let pages = geometry.pages() as usize;
        if bits::is_any_set_from(self.bits(), pages) { Err(corrupted(0)) } else { Ok(()) }
    }

    fn count_bits(&mut self, geometry: Geometry, source: &mut dyn Source) -> Result<(), StoreFault> {
        let pages = geometry.pages();
        for first in (0..pages).step_by(64) {
            let mut bytes = [0; 8];
            source.take(&mut bytes)?;
            let mut word = u64::from_le_bytes(bytes);
            while word != 0 {
                let at = first + word.trailing_zeros();
                word &= word - 1;
                if at >= pages {
                    return Err(corrupted(0));
                }
                // Each block has its row already, linked or not.
                self.insert(Ppn(at));
            }
        }
        Ok(())
    }

    fn decode_counts(&mut self, geometry: Geometry, source: &mut dyn Source) -> Result<(), StoreFault> {
        let pages = geometry.pages_per_block;
        for pbn in (0..geometry.blocks).map(Pbn) {
            let mut bytes = [0; COUNT_BYTES];
            source.take(&mut bytes)?;
            let count = u32::from(u16::from_le_bytes(bytes));
            if count > pages {
                return Err(corrupted(pbn.index()));
            }
            match self.counts_mut() {
                Some(counts) => counts.set_count(pbn, count),
                None if count == 0 => {}
                None => {
                    (0..pages).for_each(|page| _ = self.insert(geometry.page_at(pbn, page)));
                }
            }
        }
        Ok(())
    }
}

/// Ranks of the full blocks and their numbers, while a table is read. Empty if no rank was kept so far.
#[derive(Default)]
struct Ranks(Vec<(u32, u32)>);

impl Ranks {
    /// Notes the rank of a full block, behind the full blocks among the rows read before.
    fn note(&mut self, rows: &Rows, at: usize, rank: u32) {
        if rank == 0 && self.0.is_empty() {
            return;
        }
        if self.0.is_empty() {
            self.0.reserve_exact(rows.len());
            let before = (0..at).filter(|&at| rows.state(at) == BlockState::Full);
            self.0.extend(before.map(|at| (0, at as u32)));
        }
        self.0.push((rank, at as u32));
    }

    /// Order of closing, if it was kept: sorted by rank, whatever the ranks are.
    fn into_order(mut self, blocks: usize) -> Order {
        if self.0.is_empty() {
            return Order::None;
        }
        sort::total(&mut self.0);
        Order::new(VictimPolicy::Fifo, blocks, self.0.into_iter().map(|(_, pbn)| pbn), 0)
    }
}

fn corrupted(at: usize) -> StoreFault {
    StoreError::Corrupted { what: words("a block table makes no sense"), at: at as u64 }.into()
}
