//! The table of blocks as part of a checkpoint.
//!
//! Clock u64, then state u8, erases u32, modified u40 and rank u24 of each block, then one bit per page, or
//! where valid pages are counted u16 for each block. The rank is the place among the full blocks in the order
//! of closing, from 1; 0 where that order is not kept.

use super::order::Order;
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
use alloc::vec;
use alloc::vec::Vec;

/// The clock has 40 bits on the medium; beyond it stands still there.
const CLOCK_MAX: u64 = (1 << 40) - 1;
/// Bytes that one block takes in an encoded table, its valid pages not counted.
const ROW_BYTES: usize = 13;
/// Bytes of the count of a block's valid pages.
const COUNT_BYTES: usize = 2;

impl BlockTable {
    /// Bytes of a table with a bit for each page.
    pub fn encoded_bytes(geometry: Geometry) -> usize {
        BlockTable::encoded_bytes_with(geometry, Validity::Bits)
    }

    /// Bytes of a table that knows so which pages are valid.
    pub fn encoded_bytes_with(geometry: Geometry, validity: Validity) -> usize {
        let blocks = geometry.blocks as usize;
        let valid_bytes = match validity {
            Validity::Bits => (geometry.pages() as usize).div_ceil(64) * 8,
            Validity::Counts => blocks * COUNT_BYTES,
        };
        8 + blocks * ROW_BYTES + valid_bytes
    }

    /// How it is known which pages are valid.
    pub fn validity(&self) -> Validity {
        if self.is_counted() { Validity::Counts } else { Validity::Bits }
    }

    /// Appends the table to a checkpoint that is made in one piece.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let at = out.len();
        out.resize(at + BlockTable::encoded_bytes(self.geometry), 0);
        self.put(&mut Window::of(&mut out[at..]));
    }

    /// Says the table for a page of a checkpoint.
    pub fn put(&self, page: &mut Window<'_>) {
        let ranks = self.ranks();
        page.bytes(&self.clock.min(CLOCK_MAX).to_le_bytes());
        page.rows(self.rows.len(), |at| {
            let mut row = [0; ROW_BYTES];
            let (state, erases) = self.rows.then(at);
            row[0] = state as u8;
            put_u32(&mut row, 1, erases);
            put_u40(&mut row, 5, self.modified(Pbn(at as u32)).min(CLOCK_MAX));
            let rank = ranks.get(at).copied().unwrap_or(0);
            row[10..].copy_from_slice(&rank.to_le_bytes()[..3]);
            row
        });
        if self.is_counted() {
            page.rows(self.rows.len(), |at| (self.valid_count(Pbn(at as u32)) as u16).to_le_bytes());
        } else {
            page.rows(self.valid.bits().len(), |at| self.valid.bits()[at].to_le_bytes());
        }
    }

    /// The rank of each block; none where the order of closing is not kept.
    fn ranks(&self) -> Vec<u32> {
        let Order::Closing(closing) = &self.order else { return Vec::new() };
        if !cfg!(feature = "full") {
            return Vec::new();
        }
        let mut ranks = vec![0; self.rows.len()];
        (1..).zip(closing.iter()).for_each(|(rank, pbn)| ranks[pbn as usize] = rank);
        ranks
    }

    /// Reads a table back from the next [`BlockTable::encoded_bytes`] of a checkpoint. Free blocks come back
    /// Unclean: a program may have been cut short in one of them since.
    pub fn decode(geometry: Geometry, source: &mut dyn Source) -> Result<BlockTable, StoreFault> {
        BlockTable::decode_into(geometry, source, (Validity::Bits, Validity::Bits))
    }

    /// Reads a table back, from one that knows the first way which pages are valid, into one that does the
    /// other way. What was counted says of no page that it is invalid, but where none is valid.
    pub fn decode_into(
        geometry: Geometry,
        source: &mut dyn Source,
        (from, into): (Validity, Validity),
    ) -> Result<BlockTable, StoreFault> {
        if source.left() < BlockTable::encoded_bytes_with(geometry, from) {
            return Err(corrupted(source.left()));
        }
        let mut table = BlockTable::keeping(geometry, into);
        table.places.clear();
        let mut clock = [0; 8];
        source.take(&mut clock)?;
        table.clock = u64::from_le_bytes(clock);
        if table.clock > CLOCK_MAX {
            return Err(corrupted(0));
        }
        let mut ranks = Vec::new();
        for at in 0..table.rows.len() {
            let mut row = [0; ROW_BYTES];
            source.take(&mut row)?;
            table.decode_row(at, &row, &mut ranks).ok_or_else(|| corrupted(at))?;
        }
        match (from, into) {
            _ if !cfg!(feature = "in-parts") => table.decode_bits(source)?,
            (Validity::Bits, Validity::Bits) => table.decode_bits(source)?,
            (Validity::Bits, Validity::Counts) => table.count_bits(source)?,
            (Validity::Counts, _) => table.decode_counts(source)?,
        }
        for pbn in (0..geometry.blocks).map(Pbn) {
            let (state, valid) = (table.state(pbn), table.valid_count(pbn));
            if valid > 0 && !matches!(state, BlockState::Open | BlockState::Full) {
                return Err(corrupted(pbn.index()));
            }
            table.live_pages += valid;
            table.link(pbn, state);
        }
        table.decode_order(ranks);
        Ok(table)
    }

    fn decode_bits(&mut self, source: &mut dyn Source) -> Result<(), StoreFault> {
        for word in self.valid.bits_mut() {
            let mut bytes = [0; size_of::<Word>()];
            source.take(&mut bytes)?;
            *word = Word::from_le_bytes(bytes);
        }
        let pages = self.geometry.pages() as usize;
        if bits::is_any_set_from(self.valid.bits(), pages) { Err(corrupted(0)) } else { Ok(()) }
    }

    fn count_bits(&mut self, source: &mut dyn Source) -> Result<(), StoreFault> {
        let pages = self.geometry.pages();
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
                // Each has a row, whether it is linked or not.
                self.valid.insert(Ppn(at));
            }
        }
        Ok(())
    }

    fn decode_counts(&mut self, source: &mut dyn Source) -> Result<(), StoreFault> {
        let pages = self.geometry.pages_per_block;
        for pbn in (0..self.geometry.blocks).map(Pbn) {
            let mut bytes = [0; COUNT_BYTES];
            source.take(&mut bytes)?;
            let count = u32::from(u16::from_le_bytes(bytes));
            if count > pages {
                return Err(corrupted(pbn.index()));
            }
            match self.valid.counts_mut() {
                Some(counts) => counts.set_count(pbn, count),
                None if count == 0 => {}
                None => {
                    (0..pages).for_each(|page| _ = self.valid.insert(self.geometry.page_at(pbn, page)));
                }
            }
        }
        Ok(())
    }

    /// Takes over the row of a block, which is not linked yet; nothing if it makes no sense.
    fn decode_row(&mut self, at: usize, row: &[u8; ROW_BYTES], ranks: &mut Vec<(u32, u32)>) -> Option<()> {
        let state = BlockState::from_byte(row[0])?;
        let state = if state == BlockState::Free { BlockState::Unclean } else { state };
        self.rows.set_state(at, state);
        self.rows.set_erases(at, get_u32(row, 1));
        let modified = get_u40(row, 5);
        if modified > self.clock {
            return None;
        }
        if KEEPS_AGES && modified > 0 {
            self.keep_ages();
            self.ages[at] = modified;
        }
        let rank = get_u32(row, 9) >> 8;
        if cfg!(feature = "full") && state == BlockState::Full && (rank > 0 || !ranks.is_empty()) {
            if ranks.is_empty() {
                ranks.reserve_exact(self.rows.len());
                ranks.extend(
                    (0..at as u32)
                        .filter(|&pbn| self.state(Pbn(pbn)) == BlockState::Full)
                        .map(|pbn| (0, pbn)),
                );
            }
            ranks.push((rank, at as u32));
        }
        Some(())
    }

    /// Takes the order of closing over, if it was kept: that of the ranks, whatever they are.
    fn decode_order(&mut self, mut ranks: Vec<(u32, u32)>) {
        if cfg!(feature = "full") && !ranks.is_empty() {
            sort::total(&mut ranks);
            let full = ranks.into_iter().map(|(_, pbn)| pbn);
            self.order = Order::new(VictimPolicy::Fifo, self.rows.len(), full, 0);
        }
    }
}

fn corrupted(at: usize) -> StoreFault {
    StoreError::Corrupted { what: words("a block table makes no sense"), at: at as u64 }.into()
}
