//! The table of blocks as part of a checkpoint.
//!
//! Clock u64, then state u8, erases u32, modified u40 and rank u24 of each block, then one bit per page. The
//! rank is the place among the full blocks in the order of closing, from 1; 0 where that order is not kept.

use super::order::Order;
use super::{BlockState, BlockTable};
use crate::blocks::victim::VictimPolicy;
use crate::codec::{get_u32, get_u40, get_u64, put_u32, put_u40};
use crate::nand::Geometry;
use crate::sort;
use crate::store::StoreError;
use crate::units::Pbn;
use alloc::vec::Vec;

/// The clock has 40 bits on the medium; beyond it stands still there.
const CLOCK_MAX: u64 = (1 << 40) - 1;

impl BlockTable {
    /// Bytes that [`BlockTable::encode`] appends.
    pub fn encoded_bytes(geometry: Geometry) -> usize {
        8 + geometry.blocks as usize * 13 + (geometry.pages() as usize).div_ceil(64) * 8
    }

    /// Appends the table to a checkpoint.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.clock.min(CLOCK_MAX).to_le_bytes());
        let rows = out.len();
        for pbn in (0..self.geometry.blocks).map(Pbn) {
            let mut row = [0; 13];
            row[0] = self.state(pbn) as u8;
            put_u32(&mut row, 1, self.erase_count(pbn));
            put_u40(&mut row, 5, self.modified(pbn).min(CLOCK_MAX));
            out.extend_from_slice(&row);
        }
        if let Order::Closing(closing) = &self.order {
            for (rank, pbn) in (1u32..).zip(closing.iter()) {
                let at = rows + 13 * pbn as usize + 10;
                out[at..at + 3].copy_from_slice(&rank.to_le_bytes()[..3]);
            }
        }
        for word in &self.valid_bits {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// Reads a table back from the first [`BlockTable::encoded_bytes`] of `bytes`. Free blocks come back
    /// Unclean: a program may have been cut short in one of them since.
    pub fn decode(geometry: Geometry, bytes: &[u8]) -> Result<BlockTable, StoreError> {
        let corrupted =
            |at: usize| StoreError::Corrupted { what: "a block table makes no sense", at: at as u64 };
        if bytes.len() < BlockTable::encoded_bytes(geometry) {
            return Err(corrupted(bytes.len()));
        }
        let mut table = BlockTable::new(geometry);
        table.clock = get_u64(bytes, 0);
        if table.clock > CLOCK_MAX {
            return Err(corrupted(0));
        }
        table.decode_bits(&bytes[8 + table.rows.len() * 13..]).ok_or_else(|| corrupted(0))?;
        table.pool.clear();
        let mut ranks = Vec::new();
        for pbn in (0..geometry.blocks).map(Pbn) {
            let row = &bytes[8 + pbn.index() * 13..];
            let state = BlockState::from_byte(row[0]).ok_or_else(|| corrupted(pbn.index()))?;
            let state = if state == BlockState::Free { BlockState::Unclean } else { state };
            let valid = table.valid_pages(pbn).count();
            table.rows.set_erases(pbn.index(), get_u32(row, 1));
            (0..valid).for_each(|_| table.rows.change_valid(pbn.index(), true));
            let modified = get_u40(row, 5);
            let may_have_valid = matches!(state, BlockState::Open | BlockState::Full);
            if modified > table.clock || (valid > 0 && !may_have_valid) {
                return Err(corrupted(pbn.index()));
            }
            if modified > 0 {
                table.keep_ages();
                table.ages[pbn.index()] = modified;
            }
            table.live_pages += valid as u32;
            table.link(pbn, state);
            if state == BlockState::Full {
                ranks.push((get_u32(row, 9) >> 8, pbn.0));
            }
        }
        table.decode_order(ranks);
        Ok(table)
    }

    /// Takes the order of closing over, if it was kept: that of the ranks, whatever they are.
    fn decode_order(&mut self, mut ranks: Vec<(u32, u32)>) {
        if ranks.iter().any(|&(rank, _)| rank > 0) {
            sort::total(&mut ranks);
            let full = ranks.into_iter().map(|(_, pbn)| pbn);
            self.order = Order::new(VictimPolicy::Fifo, self.rows.len(), full, 0);
        }
    }

    fn decode_bits(&mut self, bytes: &[u8]) -> Option<()> {
        for (i, word) in self.valid_bits.iter_mut().enumerate() {
            *word = get_u64(bytes, i * 8);
        }
        let used = self.geometry.pages() % 64;
        let unused = if used == 0 { 0 } else { u64::MAX << used };
        (self.valid_bits.last()? & unused == 0).then_some(())
    }
}
