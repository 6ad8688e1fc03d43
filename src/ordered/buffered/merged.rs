//! A walk in key order over the records of a tree, merged with the changes that wait for it.
//!
//! The tree walks. Before each of its records the waiting changes with earlier keys are shown. A change with
//! the key of the record replaces the record. Changes beyond the last record are shown at the end. A removal
//! shows nothing.

use crate::ordered::change::Change;
use crate::ordered::{Direction, Visit};
use core::cmp::Ordering;
use core::ops::ControlFlow;

/// Waiting changes, in the direction of a walk.
pub trait Pending {
    /// Returns the next change.
    fn peek(&self) -> Option<Change<'_>>;

    /// Skips the next change.
    fn advance(&mut self);
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

impl<P: Pending> Merge<'_, P> {
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
