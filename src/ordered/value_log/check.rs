//! Live chunks of the log: their count at a mount, and the checker.

use super::ValueLog;
use super::chunk::{Place, chunk_bytes};
use super::walk::{Read, read_held};
use crate::check::{CheckReport, IndexError, Invariant, message};
use crate::nand::Nand;
use crate::ordered::look_ups::{Asked, look_all_up};
use crate::ordered::variable::Variable;
use crate::ordered::{Direction, OrderedIndex, Visit};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Bound, ControlFlow};

impl<I: OrderedIndex, N: Nand> ValueLog<I, N> {
    /// Checks the index below, that each value is whole in its places, that the log knows the live bytes, and
    /// that a look-up finds each record.
    pub fn check(&mut self) -> Result<CheckReport, IndexError> {
        self.flush()?;
        let mut report = self.index.check_below()?;
        let mut live = vec![0; self.log.geometry.blocks as usize];
        let (mut records, mut value) = (0, Vec::new());
        let log = &mut self.log;
        each_held(&mut self.index, &mut |key, held| {
            records += 1;
            value.clear();
            read_held(log, key, held, Read::Check, &mut value)?;
            for place in log.decode(key, held)?.places() {
                live[log.geometry.block_of(place.page).index()] +=
                    chunk_bytes(key.len(), place.bytes.into()) as u32;
            }
            Ok(())
        })?;
        for (block, (counted, known)) in live.iter().zip(self.log.blocks.all_live()).enumerate() {
            if *counted != known {
                let what = message!("{known} bytes of the block are known to live, and {counted} do");
                report.violation(Invariant::V3, block as u64, what);
            }
        }
        report.records = records;
        look_all_up(self, &mut report)?;
        Ok(report)
    }

    /// Counts the live bytes of each block.
    pub(super) fn find_live(&mut self) -> Result<(), IndexError> {
        let log = &mut self.log;
        each_held(&mut self.index, &mut |key, held| {
            for place in log.decode(key, held)?.places() {
                let block = log.geometry.block_of(place.page);
                if !log.has(place, key.len()) || log.blocks.is_bad(block) {
                    return Err(wrong(Invariant::V1, "a value lies outside its log", place));
                }
                log.blocks.add(place, key.len());
                if log.blocks.live_of(block) > log.block_bytes() {
                    return Err(wrong(Invariant::V1, "values lie over one another", place));
                }
            }
            Ok(())
        })
    }
}

impl<I: OrderedIndex, N: Nand> Asked for ValueLog<I, N> {
    fn walk(&mut self, from: Bound<&[u8]>, visit: Visit<'_>) -> Result<(), IndexError> {
        self.range(from, Bound::Unbounded, Direction::Ascending, visit)
    }

    fn ask(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, IndexError> {
        self.get_into(key, value)
    }
}

/// Function that is called with a key and the index's value for it.
type Look<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<(), IndexError>;

/// Calls `look` for each key and the index's value, until an error.
fn each_held<I: OrderedIndex>(index: &mut Variable<I>, look: Look<'_>) -> Result<(), IndexError> {
    let mut looked = Ok(());
    index.range(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, &mut |key, held| {
        looked = look(key, held);
        if looked.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    looked
}

#[cold]
fn wrong(invariant: Invariant, what: &'static str, place: Place) -> IndexError {
    IndexError::broken(invariant, what, place.page.0.into())
}
