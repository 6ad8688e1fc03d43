//! A walk in key order over the records of a tree, merged with the changes that wait for it.
//!
//! The tree walks. Before each of its records the waiting changes with earlier keys are shown. A change with
//! the key of the record replaces the record. Changes beyond the last record are shown at the end. A removal
//! shows nothing.

use crate::check::IndexError;
use crate::ordered::change::Change;
use crate::ordered::{Direction, Tour, Visit};
use core::cmp::Ordering;
use core::ops::{ControlFlow, Range};

/// Waiting changes, in the direction of a walk.
pub trait Pending {
    /// Returns the next change.
    fn peek(&self) -> Option<Change<'_>>;

    /// Skips the next change.
    fn advance(&mut self);
}

/// Sorted changes of a row that a walk has not shown yet.
pub struct Between<'a> {
    /// Places of these changes in the row.
    pub left: Range<usize>,
    /// Direction of the walk.
    pub direction: Direction,
    /// Returns the change at a place.
    pub change: &'a dyn Fn(usize) -> Change<'a>,
}

impl Pending for Between<'_> {
    fn peek(&self) -> Option<Change<'_>> {
        let Range { start, end } = self.left;
        let next = if self.direction == Direction::Ascending { start } else { end.wrapping_sub(1) };
        (start < end).then(|| (self.change)(next))
    }

    fn advance(&mut self) {
        debug_assert!(!self.left.is_empty(), "nothing waits beyond");
        match self.direction {
            Direction::Ascending => self.left.start += 1,
            Direction::Descending => self.left.end -= 1,
        }
    }
}

/// Merges the records of a tree with the waiting changes.
pub struct Merge<'a, P> {
    /// Waiting changes.
    pub pending: P,
    /// Direction of the walk.
    pub direction: Direction,
    /// Callback for each record.
    pub visit: Visit<'a>,
}

impl<'v, P: Pending> Merge<'v, P> {
    /// Begins the merge of waiting changes for a walk.
    pub fn new(pending: P, tour: Tour<'_, 'v>) -> Merge<'v, P> {
        Merge { pending, direction: tour.direction, visit: tour.visit }
    }

    /// Shows the records of a walk over the tree with the waiting changes among them and beyond them.
    pub fn walk(mut self, walk: impl FnOnce(Visit<'_>) -> Result<(), IndexError>) -> Result<(), IndexError> {
        let mut flow = ControlFlow::Continue(());
        walk(&mut |key, value| {
            flow = self.record(key, value);
            flow
        })?;
        if flow.is_continue() {
            let _ended = self.rest();
        }
        Ok(())
    }

    /// Shows the waiting changes before a record of the tree, and then the record.
    pub fn record(&mut self, key: &[u8], value: &[u8]) -> ControlFlow<()> {
        while let Some(change) = self.pending.peek() {
            let order = change.key.cmp(key);
            let order = if self.direction == Direction::Ascending { order } else { order.reverse() };
            if order == Ordering::Greater {
                break;
            }
            self.show_next()?;
            if order == Ordering::Equal {
                return ControlFlow::Continue(());
            }
        }
        (self.visit)(key, value)
    }

    /// Shows the waiting changes beyond the last record of the tree.
    pub fn rest(&mut self) -> ControlFlow<()> {
        while self.pending.peek().is_some() {
            self.show_next()?;
        }
        ControlFlow::Continue(())
    }

    fn show_next(&mut self) -> ControlFlow<()> {
        let flow = match self.pending.peek() {
            Some(Change { key, value: Some(value) }) => (self.visit)(key, value),
            _ => ControlFlow::Continue(()),
        };
        self.pending.advance();
        flow
    }
}
