//! Chunks that live in the log: counted by a mount, and checked.

use super::ValueLog;
use super::chunk::{Held, chunk_bytes};
use super::walk::read_held;
use crate::check::{CheckReport, IndexError, message, words};
use crate::nand::{Cause, Nand};
use crate::ordered::{Direction, OrderedIndex};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Bound, ControlFlow};

impl<I: OrderedIndex, N: Nand> ValueLog<I, N> {
    /// Checks the index below, that each value is whole in its places, and that the log knows what lives.
    pub fn check(&mut self) -> Result<CheckReport, IndexError> {
        self.flush()?;
        let mut report = self.index.check()?;
        let mut live = vec![0; self.log.geometry.blocks as usize];
        let mut records = 0;
        let (geometry, mut wrong) = (self.log.geometry, Ok(()));
        let log = &mut self.log;
        let mut value = Vec::new();
        self.index.range(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, &mut |key, held| {
            records += 1;
            value.clear();
            wrong = read_held(log, key, held, Cause::Check, &mut value).and_then(|()| {
                for place in Held::decode(held)?.places() {
                    live[geometry.block_of(place.page).index()] +=
                        chunk_bytes(key.len(), place.bytes.into()) as u32;
                }
                Ok(())
            });
            if wrong.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        wrong?;
        for (block, (counted, known)) in live.iter().zip(self.log.blocks.all_live()).enumerate() {
            if *counted != known {
                let what = message!("{known} bytes of the block are known to live, and {counted} do");
                report.violation("V3", block as u64, what);
            }
        }
        report.records = records;
        Ok(report)
    }

    /// Counts what lives in each block.
    pub(super) fn find_live(&mut self) -> Result<(), IndexError> {
        let (log, mut wrong) = (&mut self.log, None);
        self.index.range(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, &mut |key, held| {
            let held = match Held::decode(held) {
                Ok(held) => held,
                Err(error) => {
                    wrong = Some(error);
                    return ControlFlow::Break(());
                }
            };
            for place in held.places() {
                if !log.has(place, key.len()) || log.blocks.is_bad(log.geometry.block_of(place.page)) {
                    let what = words("V1: a value lies outside its log");
                    wrong = Some(IndexError::Corrupted { what, at: place.page.0.into() });
                    return ControlFlow::Break(());
                }
                log.blocks.add(place, key.len());
                if log.blocks.live_of(log.geometry.block_of(place.page)) > log.block_bytes() {
                    let what = words("V1: values lie over one another");
                    wrong = Some(IndexError::Corrupted { what, at: place.page.0.into() });
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        wrong.map_or(Ok(()), Err)
    }
}
