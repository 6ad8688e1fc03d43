//! Records in key order, with the waiting values among them.

use super::ValueLog;
use super::chunk::Held;
use super::log::Log;
use super::waiting::Waiting;
use crate::check::{IndexError, Invariant};
use crate::nand::{Cause, Nand};
use crate::ordered::{Direction, OrderedIndex, Visit, within};
use alloc::vec::Vec;
use core::ops::{Bound, ControlFlow};

impl<I: OrderedIndex, N: Nand> ValueLog<I, N> {
    /// Visits the records between two bounds in key order, in either direction, until `visit` breaks. Pages
    /// of the log are read whole: values that were put in key order cost a read for each of their pages.
    pub fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        let (log, waiting, mut value) = (&mut self.log, &self.waiting, Vec::new());
        // New values within the bounds, the next one last.
        let mut new: Vec<&Waiting> = waiting
            .iter()
            .filter(|value| value.is_value())
            .filter(|value| within(&value.key, (low, high)).is_eq())
            .collect();
        new.sort_by(|a, b| match direction {
            Direction::Ascending => b.key.cmp(&a.key),
            Direction::Descending => a.key.cmp(&b.key),
        });
        let mut done: Result<ControlFlow<()>, IndexError> = Ok(ControlFlow::Continue(()));
        self.index.range(low, high, direction, &mut |key, held| {
            let is_before = |other: &[u8]| match direction {
                Direction::Ascending => other <= key,
                Direction::Descending => other >= key,
            };
            let mut is_replaced = false;
            while let Some(next) = new.pop_if(|next| is_before(&next.key)) {
                is_replaced |= *next.key == *key;
                value.clear();
                done = next.read(log, Cause::Host, &mut value).map(|()| visit(&next.key, &value));
                if !matches!(done, Ok(ControlFlow::Continue(()))) {
                    return ControlFlow::Break(());
                }
            }
            if !is_replaced {
                value.clear();
                done = read_held(log, key, held, Read::Pages, &mut value).map(|()| visit(key, &value));
            }
            if matches!(done, Ok(ControlFlow::Continue(()))) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        if done?.is_break() {
            return Ok(());
        }
        while let Some(next) = new.pop() {
            value.clear();
            next.read(log, Cause::Host, &mut value)?;
            if visit(&next.key, &value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// How chunks are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// Each chunk alone.
    Chunks,
    /// Each chunk alone, for a check.
    Check,
    /// Whole pages, which may contain the next values too.
    Pages,
}

/// Reads a value of the index: its bytes, or the chunks at its places.
pub(super) fn read_held<N: Nand>(
    log: &mut Log<N>,
    key: &[u8],
    held: &[u8],
    how: Read,
    value: &mut Vec<u8>,
) -> Result<(), IndexError> {
    let held = log.decode(key, held)?;
    let cause = if how == Read::Check { Cause::Check } else { Cause::Host };
    let mut mark = 0;
    if let Held::Short(short) = held {
        value.extend_from_slice(short);
    }
    for (number, place) in held.places().enumerate() {
        if how == Read::Pages && log.has(place, key.len()) {
            log.load(place.page, cause)?;
        }
        value.extend_from_slice(log.read((key, number as u16), place, cause)?);
        mark = log.mark_found(mark, place);
    }
    if held.is_of(mark) { Ok(()) } else { Err(of_two(held)) }
}

/// Error for a value whose chunks are not the ones that the index names.
#[cold]
fn of_two(held: Held<'_>) -> IndexError {
    let at = held.places().next().map_or(0, |place| place.page.0.into());
    IndexError::broken(Invariant::V2, "the chunks of a value are not those that the index names", at)
}
