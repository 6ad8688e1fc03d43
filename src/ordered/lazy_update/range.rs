//! A range over pool and tree at once, in key order.
//!
//! The tree walks; before each of its records the requests that come first are shown, and a request for the record's own
//! key speaks for it. Requests beyond the tree's last record follow at the end.

use super::LazyUpdateTree;
use super::pool::Pool;
use crate::check::IndexError;
use crate::ftl::PageStore;
use crate::ordered::{Direction, OrderedIndex, Visit, within};
use core::cmp::Ordering;
use core::ops::{Bound, ControlFlow};

/// Visits the records between two bounds, those of the pool and those of the tree that the pool does not deny.
pub(super) fn merged<S: PageStore>(
    index: &mut LazyUpdateTree<S>,
    bounds: (Bound<&[u8]>, Bound<&[u8]>),
    direction: Direction,
    visit: Visit<'_>,
) -> Result<(), IndexError> {
    let LazyUpdateTree { tree, pool, .. } = index;
    for bound in [bounds.0, bounds.1] {
        if let Bound::Included(key) | Bound::Excluded(key) = bound {
            tree.record().check_key(key)?;
        }
    }
    let mut requests = Requests { pool, bounds, direction, next: first(pool, bounds, direction) };
    let mut flow = ControlFlow::Continue(());
    tree.range(bounds.0, bounds.1, direction, &mut |key, value| {
        flow = requests.show_before(key, visit);
        if flow.is_continue() {
            flow = match requests.take(key) {
                None => visit(key, value),
                Some(slot) => requests.show(slot, visit),
            };
        }
        flow
    })?;
    while flow.is_continue()
        && let Some(slot) = requests.advance()
    {
        flow = requests.show(slot, visit);
    }
    Ok(())
}

/// The request where a walk begins.
fn first(pool: &Pool, (low, high): (Bound<&[u8]>, Bound<&[u8]>), direction: Direction) -> Option<u32> {
    let slot = match (direction, low, high) {
        (Direction::Ascending, Bound::Unbounded, _) => pool.first(),
        (Direction::Ascending, Bound::Included(key) | Bound::Excluded(key), _) => pool.next(key),
        (Direction::Descending, _, Bound::Unbounded) => pool.last(),
        (Direction::Descending, _, Bound::Included(key) | Bound::Excluded(key)) => pool.previous(key),
    };
    // The request at an excluded bound is passed over.
    let is_at_bound = |slot: &u32| match direction {
        Direction::Ascending => low == Bound::Excluded(pool.key(*slot)),
        Direction::Descending => high == Bound::Excluded(pool.key(*slot)),
    };
    match slot {
        Some(slot) if is_at_bound(&slot) => step(pool, slot, direction),
        slot => slot,
    }
}

fn step(pool: &Pool, slot: u32, direction: Direction) -> Option<u32> {
    match direction {
        Direction::Ascending => pool.after(slot),
        Direction::Descending => pool.before(slot),
    }
}

/// The requests between the bounds that were not shown yet.
struct Requests<'a> {
    pool: &'a Pool,
    bounds: (Bound<&'a [u8]>, Bound<&'a [u8]>),
    direction: Direction,
    next: Option<u32>,
}

impl Requests<'_> {
    /// The next request between the bounds.
    fn peek(&self) -> Option<u32> {
        self.next.filter(|&slot| within(self.pool.key(slot), self.bounds) == Ordering::Equal)
    }

    fn advance(&mut self) -> Option<u32> {
        let slot = self.peek()?;
        self.next = step(self.pool, slot, self.direction);
        Some(slot)
    }

    /// Where the next request stands to a key, in the direction of the walk.
    fn order(&self, key: &[u8]) -> Option<Ordering> {
        let order = self.pool.key(self.peek()?).cmp(key);
        Some(if self.direction == Direction::Ascending { order } else { order.reverse() })
    }

    /// Shows a value that is put; a removal shows nothing.
    fn show(&self, slot: u32, visit: Visit<'_>) -> ControlFlow<()> {
        match self.pool.value(slot) {
            Some(value) => visit(self.pool.key(slot), value),
            None => ControlFlow::Continue(()),
        }
    }

    /// Shows the requests before a key.
    fn show_before(&mut self, key: &[u8], visit: Visit<'_>) -> ControlFlow<()> {
        while self.order(key) == Some(Ordering::Less) {
            let Some(slot) = self.advance() else { break };
            self.show(slot, visit)?;
        }
        ControlFlow::Continue(())
    }

    /// The request for a key, if the walk has come to it.
    fn take(&mut self, key: &[u8]) -> Option<u32> {
        if self.order(key) == Some(Ordering::Equal) { self.advance() } else { None }
    }
}
