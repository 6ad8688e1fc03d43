//! Range scans: the path to the current leaf is kept, so each node is read once; leaves are not chained.

use super::{Nodes, RawScheme};
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand};
use crate::ordered::{Direction, Tour};
use crate::units::Ppn;
use core::ops::Bound;

impl<N: Nand, S: RawScheme> Nodes<N, S> {
    pub(super) fn walk_range(&mut self, mut tour: Tour<'_, '_>) -> Result<(), IndexFault> {
        let (start, direction) = (tour.start(), tour.direction);
        if let Bound::Included(key) | Bound::Excluded(key) = start {
            self.record.check_key(key)?;
        }
        self.path.layout = self.path.scheme.layout_wanted(self.path.height);
        self.go_to_leaf(self.root, self.path.height, start, direction)?;
        loop {
            let (shape, leaf, count) = (self.path.shape(1), self.path.node(1), self.path.count(1));
            let record = |i| (shape.key(leaf, i), shape.value(leaf, i));
            if tour.show(count, record).is_break() {
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
