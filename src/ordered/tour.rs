//! A range on its way through the parts of an index that walk over it.

use super::{Bounds, Direction, RecordFormat, Visit, within};
use crate::check::IndexError;
use core::cmp::Ordering;
use core::ops::{Bound, ControlFlow, Range};

/// Bounds of a range, the direction of the walk over it, and what is shown the records.
pub struct Tour<'a, 'v> {
    /// Bounds of the range.
    pub bounds: Bounds<'a>,
    /// Direction of the walk.
    pub direction: Direction,
    /// Callback for each record.
    pub visit: Visit<'v>,
}

impl<'a> Tour<'a, '_> {
    /// Returns the bound at which the walk starts.
    pub const fn start(&self) -> Bound<&'a [u8]> {
        match self.direction {
            Direction::Ascending => self.bounds.0,
            Direction::Descending => self.bounds.1,
        }
    }

    /// Refuses bounds that are no keys of such records.
    pub fn check(&self, record: RecordFormat) -> Result<(), IndexError> {
        for bound in [self.bounds.0, self.bounds.1] {
            if let Bound::Included(key) | Bound::Excluded(key) = bound {
                record.check_key(key)?;
            }
        }
        Ok(())
    }

    /// Shows those of a node's `count` records that lie within the bounds. Breaks if the walk is over.
    pub fn show<'r>(
        &mut self,
        count: usize,
        record: impl Fn(usize) -> (&'r [u8], &'r [u8]),
    ) -> ControlFlow<()> {
        for i in 0..count {
            let is_ascending = self.direction == Direction::Ascending;
            let (key, value) = record(if is_ascending { i } else { count - 1 - i });
            match (within(key, self.bounds), self.direction) {
                (Ordering::Equal, _) => (self.visit)(key, value)?,
                (Ordering::Less, Direction::Descending) | (Ordering::Greater, Direction::Ascending) => {
                    return ControlFlow::Break(());
                }
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }
}

/// Returns which of `count` sorted entries lie within bounds. `search` gives the place of a key.
pub fn entries_within(
    (low, high): Bounds<'_>,
    count: usize,
    search: impl Fn(&[u8]) -> Result<usize, usize>,
) -> Range<usize> {
    let before = |key| search(key).unwrap_or_else(|at| at);
    let after = |key| search(key).map_or_else(|at| at, |at| at + 1);
    let from = match low {
        Bound::Unbounded => 0,
        Bound::Included(key) => before(key),
        Bound::Excluded(key) => after(key),
    };
    let to = match high {
        Bound::Unbounded => count,
        Bound::Included(key) => after(key),
        Bound::Excluded(key) => before(key),
    };
    from..to.max(from)
}
