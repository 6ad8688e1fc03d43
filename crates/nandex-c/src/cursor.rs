//! A place in an index: records are fetched a few at a time, by walks that begin where the last one ended.

use crate::error::Failure;
use crate::ffi::codes::{NANDEX_NOT_FOUND, NANDEX_OK};
use crate::state::{Answer, State};
use alloc::vec::Vec;
use core::ops::{Bound, ControlFlow};
use nandex::Nand;
use nandex::ordered::Direction;

/// Records fetched at a time.
const RECORDS: usize = 16;

const NOWHERE: Failure = Failure::Code(NANDEX_NOT_FOUND, c"the cursor stands on no record");

/// Where a walk begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum From<'a> {
    /// At the end of the index that the direction begins with.
    End,
    /// At this key, or the next one in the direction.
    Key(&'a [u8]),
    /// Behind this key in the direction.
    Behind(&'a [u8]),
}

/// A place in an index. It stands on a record or nowhere, and keeps its place while records change.
#[derive(Debug)]
pub(crate) struct Cursor {
    /// The record it stands on and those behind it in the direction, one after the other.
    records: Vec<u8>,
    at: usize,
    direction: Direction,
    /// The changes that the index had seen when the records were fetched.
    changes: u64,
}

impl Cursor {
    /// A cursor that stands nowhere.
    pub(crate) const fn new() -> Cursor {
        Cursor { records: Vec::new(), at: 0, direction: Direction::Ascending, changes: 0 }
    }

    /// Goes to a record. Where there is none it stays where it is.
    pub(crate) fn seek<N: Nand + Clone + 'static>(
        &mut self,
        state: &mut State<N>,
        from: From<'_>,
        direction: Direction,
    ) -> Answer {
        if let From::Key(key) | From::Behind(key) = from {
            state.record().check_key(key)?;
        }
        let edge = match from {
            From::End => Bound::Unbounded,
            From::Key(key) => Bound::Included(key),
            From::Behind(key) => Bound::Excluded(key),
        };
        let (low, high) = match direction {
            Direction::Ascending => (edge, Bound::Unbounded),
            Direction::Descending => (Bound::Unbounded, edge),
        };
        let mut records = Vec::with_capacity(RECORDS * state.record().entry_bytes());
        let mut count = 0;
        state.index()?.range(low, high, direction, &mut |key, value| {
            records.extend_from_slice(key);
            records.extend_from_slice(value);
            count += 1;
            if count == RECORDS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if count == 0 {
            return Ok(NANDEX_NOT_FOUND);
        }
        *self = Cursor { records, at: 0, direction, changes: state.changes() };
        Ok(NANDEX_OK)
    }

    /// Goes to the record behind this one in a direction; to the first in it from nowhere.
    pub(crate) fn step<N: Nand + Clone + 'static>(
        &mut self,
        state: &mut State<N>,
        direction: Direction,
    ) -> Answer {
        let entry = state.record().entry_bytes();
        if self.records.is_empty() {
            return self.seek(state, From::End, direction);
        }
        let has_more = (self.at + 2) * entry <= self.records.len();
        if self.direction == direction && self.changes == state.changes() && has_more {
            self.at += 1;
            return Ok(NANDEX_OK);
        }
        let start = self.at * entry;
        let key = self.records[start..start + usize::from(state.record().key_bytes)].to_vec();
        self.seek(state, From::Behind(&key), direction)
    }

    /// The record that it stands on, as it was when it was fetched.
    pub(crate) fn record<N: Nand + Clone + 'static>(
        &self,
        state: &State<N>,
    ) -> Result<(&[u8], &[u8]), Failure> {
        let (entry, key_bytes) = (state.record().entry_bytes(), usize::from(state.record().key_bytes));
        let record = self.records.get(self.at * entry..(self.at + 1) * entry).ok_or(NOWHERE)?;
        Ok(record.split_at(key_bytes))
    }
}
