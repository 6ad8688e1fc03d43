//! Range scans: the path to the current leaf is kept, so each node is read once; leaves are not chained.

use super::{Nodes, Path, RawScheme};
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand};
use crate::ordered::{Direction, Visit, within};
use crate::units::Ppn;
use core::ops::{Bound, ControlFlow};

impl<S: RawScheme> Path<S> {
    /// Visits the records of the leaf within the bounds. Breaks if the walk is over.
    fn visit_leaf(
        &self,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
        visit: Visit<'_>,
    ) -> ControlFlow<()> {
        let (shape, node, count) = (self.shape(1), self.node(1), self.count(1));
        for i in 0..count {
            let i = if direction == Direction::Ascending { i } else { count - 1 - i };
            let key = shape.key(node, i);
            match within(key, bounds) {
                core::cmp::Ordering::Equal => visit(key, shape.value(node, i))?,
                core::cmp::Ordering::Less if direction == Direction::Descending => {
                    return ControlFlow::Break(());
                }
                core::cmp::Ordering::Greater if direction == Direction::Ascending => {
                    return ControlFlow::Break(());
                }
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }
}

impl<N: Nand, S: RawScheme> Nodes<N, S> {
    pub(super) fn walk_range(
        &mut self,
        (low, high): (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexFault> {
        let start = match direction {
            Direction::Ascending => low,
            Direction::Descending => high,
        };
        if let Bound::Included(key) | Bound::Excluded(key) = start {
            self.record.check_key(key)?;
        }
        self.path.layout = self.path.scheme.layout_wanted(self.path.height);
        self.go_to_leaf(self.root, self.path.height, start, direction)?;
        loop {
            if self.path.visit_leaf((low, high), direction, visit).is_break() {
                return Ok(());
            }
            let Some((child, level)) = self.next_subtree(direction)? else { return Ok(()) };
            self.go_to_leaf(child, level, Bound::Unbounded, direction)?;
        }
    }

    /// Copies the nodes from `ppn` at `level` down to the leaf nearest to `start`.
    fn go_to_leaf(
        &mut self,
        mut ppn: Ppn,
        mut level: u8,
        start: Bound<&[u8]>,
        direction: Direction,
    ) -> Result<(), IndexFault> {
        loop {
            self.copy_node(ppn, level, Cause::Host)?;
            if level == 1 {
                return Ok(());
            }
            let (shape, count) = (self.path.shape(level), self.path.count(level));
            let slot = match (start, direction) {
                (Bound::Included(key) | Bound::Excluded(key), _) => {
                    shape.child_slot(self.path.node(level), count, key)
                }
                (Bound::Unbounded, Direction::Ascending) => 0,
                (Bound::Unbounded, Direction::Descending) => count - 1,
            };
            self.path.step_mut(level).slot = slot as u16;
            ppn = self.path.named(level, slot);
            level -= 1;
        }
    }

    /// The next subtree beside the path, starting nearest to the leaf: its page and level.
    fn next_subtree(&mut self, direction: Direction) -> Result<Option<(Ppn, u8)>, IndexFault> {
        for level in 2..=self.path.height {
            let (count, slot) = (self.path.count(level), usize::from(self.path.step(level).slot));
            let next = match direction {
                Direction::Ascending if slot + 1 < count => slot + 1,
                Direction::Descending if slot > 0 => slot - 1,
                _ => continue,
            };
            self.path.step_mut(level).slot = next as u16;
            self.fetch(level, Cause::Host)?;
            return Ok(Some((self.path.named_child(level), level - 1)));
        }
        Ok(None)
    }
}
