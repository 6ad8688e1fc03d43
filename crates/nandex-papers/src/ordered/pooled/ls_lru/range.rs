//! A range over the tree and the dirty parts of its leaves at once, leaf by leaf.

use super::LsLruTree;
use super::cells::{Cells, Spot};
use super::units::Part;
use core::cmp::Ordering;
use core::ops::{Bound, ControlFlow};
use nandex::check::IndexError;
use nandex::ordered::buffered::{Merge, Pending};
use nandex::ordered::change::Change;
use nandex::ordered::{Direction, Tour, within};
use nandex::store::PageStore;

/// Visits the records between two bounds: those of the leaves, as the dirty parts change them.
pub(super) fn merged<S: PageStore>(
    index: &mut LsLruTree<S>,
    Tour { bounds, direction, visit }: Tour<'_, '_>,
) -> Result<(), IndexError> {
    let LsLruTree { tree, cells, .. } = index;
    Ok(tree.walk_leaves(bounds, direction, &mut |buffer, leaf| {
        let unit = buffer.units.find(leaf.lpn());
        let Some(part) = unit.map(|unit| buffer.units.part(unit)).filter(|part| part.len > 0) else {
            return leaf.visit_records(direction, visit);
        };
        let pending = Changes::new(cells, part, bounds, direction);
        let mut merge = Merge { pending, direction, visit };
        let flow = leaf.visit_records(direction, &mut |key, value| merge.record(key, value));
        if flow.is_continue() { merge.rest() } else { ControlFlow::Break(()) }
    })?)
}

/// The entries of a dirty part between two bounds that have not been shown yet.
struct Changes<'a> {
    cells: &'a Cells,
    next: Spot,
    left: usize,
    direction: Direction,
}

impl<'a> Changes<'a> {
    fn new(
        cells: &'a Cells,
        part: Part,
        (low, high): (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
    ) -> Changes<'a> {
        let from = match low {
            Bound::Unbounded => 0,
            Bound::Included(key) | Bound::Excluded(key) => {
                let (below, _, order) = cells.search(part, key);
                below + usize::from(order == Ordering::Equal && low == Bound::Excluded(key))
            }
        };
        let to = match high {
            Bound::Unbounded => part.len as usize,
            Bound::Included(key) | Bound::Excluded(key) => {
                let (below, _, order) = cells.search(part, key);
                below + usize::from(order == Ordering::Equal && high == Bound::Included(key))
            }
        };
        let left = to.saturating_sub(from);
        let start = if direction == Direction::Ascending { from } else { to.saturating_sub(1) };
        let changes = Changes { cells, next: cells.nth(part, start), left, direction };
        let is_within = |change: Change<'_>| within(change.key, (low, high)) == Ordering::Equal;
        assert!(changes.peek().is_none_or(is_within), "the first entry shown lies within the bounds");
        changes
    }
}

impl Pending for Changes<'_> {
    fn peek(&self) -> Option<Change<'_>> {
        (self.left > 0).then(|| self.cells.entry(self.next).change)
    }

    fn advance(&mut self) {
        self.left -= 1;
        if self.left > 0 {
            self.next = match self.direction {
                Direction::Ascending => self.cells.after(self.next),
                Direction::Descending => self.cells.previous(self.next),
            };
        }
    }
}
