//! A range search over pool and tree together: where the walk over the pool starts, and how it continues.

use super::pool::Pool;
use super::{GroupTree, Pooled};
use core::cmp::Ordering;
use core::ops::Bound;
use nandex::check::IndexError;
use nandex::ordered::buffered::{Merge, Pending};
use nandex::ordered::change::Change;
use nandex::ordered::{Direction, Tour, within};

/// Visits the records between two bounds: those of the pool, and those of the tree that no request replaces
/// or removes.
pub(super) fn merged<T: GroupTree>(index: &mut Pooled<T>, tour: Tour<'_, '_>) -> Result<(), IndexError> {
    let Pooled { tree, pool, .. } = index;
    tour.check(tree.record())?;
    let Tour { bounds, direction, .. } = tour;
    let pending = Requests { pool, bounds, direction, next: first(pool, bounds, direction) };
    Merge::new(pending, tour).walk(|visit| tree.range(bounds.0, bounds.1, direction, visit))
}

/// The request at which a walk begins.
fn first(pool: &Pool, (low, high): (Bound<&[u8]>, Bound<&[u8]>), direction: Direction) -> Option<u32> {
    let slot = match (direction, low, high) {
        (Direction::Ascending, Bound::Unbounded, _) => pool.requests.first(),
        (Direction::Ascending, Bound::Included(key) | Bound::Excluded(key), _) => pool.requests.next(key),
        (Direction::Descending, _, Bound::Unbounded) => pool.requests.last(),
        (Direction::Descending, _, Bound::Included(key) | Bound::Excluded(key)) => {
            pool.requests.previous(key)
        }
    };
    // The request at an excluded bound is passed over.
    let is_at_bound = |slot: &u32| match direction {
        Direction::Ascending => low == Bound::Excluded(pool.requests.key(*slot)),
        Direction::Descending => high == Bound::Excluded(pool.requests.key(*slot)),
    };
    match slot {
        Some(slot) if is_at_bound(&slot) => step(pool, slot, direction),
        slot => slot,
    }
}

fn step(pool: &Pool, slot: u32, direction: Direction) -> Option<u32> {
    match direction {
        Direction::Ascending => pool.requests.after(slot),
        Direction::Descending => pool.requests.before(slot),
    }
}

/// The requests between the bounds that have not been shown yet.
struct Requests<'a> {
    pool: &'a Pool,
    bounds: (Bound<&'a [u8]>, Bound<&'a [u8]>),
    direction: Direction,
    next: Option<u32>,
}

impl Pending for Requests<'_> {
    fn peek(&self) -> Option<Change<'_>> {
        let key = self.pool.requests.key(self.next?);
        let is_within = within(key, self.bounds) == Ordering::Equal;
        is_within.then_some(Change { key, value: self.pool.requests.value(self.next?) })
    }

    fn advance(&mut self) {
        self.next = self.next.and_then(|slot| step(self.pool, slot, self.direction));
    }
}
