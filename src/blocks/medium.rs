//! The table of blocks as part of a checkpoint.
//!
//! Clock u64, then state u8, erases u32, modified u40 and rank u24 of each block, then one bit per page. The
//! rank is the place among the full blocks in the order of closing, from 1; 0 where that order is not kept.

use super::order::Order;
use super::{BlockState, BlockTable};
use crate::bits::{self, Word};
use crate::blocks::checkpoint::{Source, Window};
use crate::blocks::victim::VictimPolicy;
use crate::check::words;
use crate::codec::{get_u32, get_u40, put_u32, put_u40};
use crate::fault::StoreFault;
use crate::nand::Geometry;
use crate::sort;
use crate::store::StoreError;
use crate::units::Pbn;
use alloc::vec;
use alloc::vec::Vec;

/// The clock has 40 bits on the medium; beyond it stands still there.
const CLOCK_MAX: u64 = (1 << 40) - 1;
/// Bytes of a block.
const ROW_BYTES: usize = 13;

impl BlockTable {
    /// Bytes that [`BlockTable::put`] says.
    pub fn encoded_bytes(geometry: Geometry) -> usize {
        8 + geometry.blocks as usize * ROW_BYTES + (geometry.pages() as usize).div_ceil(64) * 8
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
        page.rows(self.valid_bits.len(), |at| self.valid_bits[at].to_le_bytes());
    }

    /// The rank of each block; none where the order of closing is not kept.
    fn ranks(&self) -> Vec<u32> {
        let Order::Closing(closing) = &self.order else { return Vec::new() };
        if !cfg!(feature = "policies") {
            return Vec::new();
        }
        let mut ranks = vec![0; self.rows.len()];
        (1..).zip(closing.iter()).for_each(|(rank, pbn)| ranks[pbn as usize] = rank);
        ranks
    }

    /// Reads a table back from the next [`BlockTable::encoded_bytes`] of a checkpoint. Free blocks come back
    /// Unclean: a program may have been cut short in one of them since.
    pub fn decode(geometry: Geometry, source: &mut dyn Source) -> Result<BlockTable, StoreFault> {
        if source.left() < BlockTable::encoded_bytes(geometry) {
            return Err(corrupted(source.left()));
        }
        let mut table = BlockTable::new(geometry);
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
        for word in &mut table.valid_bits {
            let mut bytes = [0; size_of::<Word>()];
            source.take(&mut bytes)?;
            *word = Word::from_le_bytes(bytes);
        }
        if bits::is_any_set_from(&table.valid_bits, geometry.pages() as usize) {
            return Err(corrupted(0));
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
        if modified > 0 {
            self.keep_ages();
            self.ages[at] = modified;
        }
        let rank = get_u32(row, 9) >> 8;
        if cfg!(feature = "policies") && state == BlockState::Full && (rank > 0 || !ranks.is_empty()) {
            if ranks.is_empty() {
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
        if cfg!(feature = "policies") && !ranks.is_empty() {
            sort::total(&mut ranks);
            let full = ranks.into_iter().map(|(_, pbn)| pbn);
            self.order = Order::new(VictimPolicy::Fifo, self.rows.len(), full, 0);
        }
    }
}

fn corrupted(at: usize) -> StoreFault {
    StoreError::Corrupted { what: words("a block table makes no sense"), at: at as u64 }.into()
}
