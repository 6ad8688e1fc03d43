//! Range scans: the path to the leaf at hand is kept, so each node is read once; leaves are not chained.

use super::IplTree;
use super::store::ROOT;
use core::cmp::Ordering;
use core::ops::{Bound, ControlFlow};
use nandex::check::IndexError;
use nandex::nand::{Cause, Nand};
use nandex::ordered::{Direction, OrderedIndex, Visit, within};

type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

impl<N: Nand> IplTree<N> {
    pub(super) fn walk_range(
        &mut self,
        (low, high): Bounds<'_>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        let start = if direction == Direction::Ascending { low } else { high };
        if let Bound::Included(key) | Bound::Excluded(key) = start {
            self.record().check_key(key)?;
        }
        self.set_path_levels(ROOT, Cause::Host)?;
        let top = self.path.len() - 1;
        self.go_down(top, start, direction)?;
        while self.visit_leaf((low, high), direction, visit).is_continue() && self.step_aside(direction)? {}
        Ok(())
    }

    /// From the node at this level of the path, which is loaded, down to the leaf nearest to the start.
    fn go_down(
        &mut self,
        mut level: usize,
        start: Bound<&[u8]>,
        direction: Direction,
    ) -> Result<(), IndexError> {
        let shapes = self.store.shapes();
        while level > 0 {
            let step = &mut self.path[level];
            debug_assert!(step.node.count > 0, "I1: node {} is empty at level {}", step.node.id, level + 1);
            step.slot = match start {
                Bound::Included(key) | Bound::Excluded(key) => step.node.child_slot(&shapes, key),
                Bound::Unbounded if direction == Direction::Ascending => 0,
                Bound::Unbounded => step.node.count.saturating_sub(1),
            };
            level -= 1;
            self.load_child(level, Cause::Host)?;
        }
        Ok(())
    }

    fn visit_leaf(&self, bounds: Bounds<'_>, direction: Direction, visit: Visit<'_>) -> ControlFlow<()> {
        let (shapes, leaf) = (self.store.shapes(), &self.path[0].node);
        for i in 0..leaf.count {
            let i = if direction == Direction::Ascending { i } else { leaf.count - 1 - i };
            let key = leaf.key(&shapes, i);
            match (within(key, bounds), direction) {
                (Ordering::Equal, _) => visit(key, leaf.value(&shapes, i))?,
                (Ordering::Less, Direction::Descending) | (Ordering::Greater, Direction::Ascending) => {
                    return ControlFlow::Break(());
                }
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }

    /// Goes on to the next leaf; false at the end.
    fn step_aside(&mut self, direction: Direction) -> Result<bool, IndexError> {
        for level in 1..self.path.len() {
            let step = &mut self.path[level];
            let next = match direction {
                Direction::Ascending if step.slot + 1 < step.node.count => step.slot + 1,
                Direction::Descending if step.slot > 0 => step.slot - 1,
                _ => continue,
            };
            step.slot = next;
            self.load_child(level - 1, Cause::Host)?;
            self.go_down(level - 1, Bound::Unbounded, direction)?;
            return Ok(true);
        }
        Ok(false)
    }
}
