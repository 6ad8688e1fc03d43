//! A walk over records of a tree and the changes that wait for them, in key order.
//!
//! The tree walks; before each of its records the changes that come first are shown, and a change of the
//! record's own key speaks for it. Changes beyond the last record follow at the end. A removal shows nothing.

use crate::ordered::change::Change;
use crate::ordered::{Direction, Visit};
use core::cmp::Ordering;
use core::ops::ControlFlow;

/// Changes that wait, one after the other in the direction of a walk.
pub trait Pending {
    /// The change that comes next.
    fn peek(&self) -> Option<Change<'_>>;

    /// Goes past it.
    fn advance(&mut self);
}

/// Shows records of the tree among the changes that wait.
pub struct Merge<'a, P> {
    /// The changes that wait.
    pub pending: P,
    /// The way of the walk.
    pub direction: Direction,
    /// Called for each record.
    pub visit: Visit<'a>,
}

impl<P: Pending> Merge<'_, P> {
    /// The tree has come to a record.
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

    /// The tree has no more records.
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
