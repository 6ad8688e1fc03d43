//! The path from the root to the current leaf. A range scan keeps the path, so that each node is read once;
//! leaves are not chained.

use super::image::Node;
use super::store::{ROOT, Store};
use alloc::vec::Vec;
use core::ops::{Bound, ControlFlow};
use nandex::check::{IndexError, Invariant};
use nandex::nand::{Cause, Nand};
use nandex::ordered::{Direction, Tour};

/// A node of the path, and the place of the child below it.
#[derive(Clone, Debug, Default)]
pub(super) struct PathStep {
    pub(super) node: Node,
    pub(super) slot: usize,
}

/// The nodes from the leaf up to the root.
#[derive(Default)]
pub(super) struct Path {
    pub(super) steps: Vec<PathStep>,
}

impl Path {
    pub(super) fn leaf(&self) -> &Node {
        &self.steps[0].node
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.steps.iter().map(|step| step.node.bytes.capacity() + size_of::<PathStep>()).sum()
    }
}

/// A walk down a tree of this height.
pub(super) struct Descent<'a, N> {
    pub(super) store: &'a mut Store<N>,
    pub(super) path: &'a mut Path,
    pub(super) height: u8,
}

impl<N: Nand> Descent<'_, N> {
    /// Reads the root into the top of the path.
    fn start(&mut self) -> Result<(), IndexError> {
        debug_assert!(self.height > 0, "I2: a tree without a root");
        self.path.steps.resize_with(self.height.into(), PathStep::default);
        self.load_at(self.path.steps.len() - 1, ROOT)
    }

    fn load_at(&mut self, level: usize, id: u32) -> Result<(), IndexError> {
        let node = &mut self.path.steps[level].node;
        self.store.load(id, node, Cause::Host)?;
        if usize::from(node.level) == level + 1 && (node.count > 0 || level == 0) {
            Ok(())
        } else {
            Err(IndexError::broken(Invariant::I2, "a node of another level", u64::from(id)))
        }
    }

    /// Reads the child that the node above points to.
    fn load_child(&mut self, level: usize) -> Result<(), IndexError> {
        let above = &self.path.steps[level + 1];
        let child = above.node.child(&self.store.shapes(), above.slot);
        self.load_at(level, child)
    }

    /// Reads the nodes down to the leaf of a key.
    pub(super) fn descend(mut self, key: &[u8]) -> Result<(), IndexError> {
        let shapes = self.store.shapes();
        self.start()?;
        for level in (0..self.path.steps.len() - 1).rev() {
            let above = &mut self.path.steps[level + 1];
            above.slot = above.node.child_slot(&shapes, key);
            self.load_child(level)?;
        }
        Ok(())
    }

    /// Shows the records of a range, in order.
    pub(super) fn walk(mut self, mut tour: Tour<'_, '_>) -> Result<(), IndexError> {
        let (start, direction) = (tour.start(), tour.direction);
        self.start()?;
        self.go_down(self.path.steps.len() - 1, start, direction)?;
        while self.visit_leaf(&mut tour).is_continue() && self.step_aside(direction)? {}
        Ok(())
    }

    /// From the node at this level of the path, which is read, down to the leaf nearest to the start.
    fn go_down(
        &mut self,
        mut level: usize,
        start: Bound<&[u8]>,
        direction: Direction,
    ) -> Result<(), IndexError> {
        let shapes = self.store.shapes();
        while level > 0 {
            let step = &mut self.path.steps[level];
            debug_assert!(step.node.count > 0, "I1: node {} is empty at level {}", step.node.id, level + 1);
            step.slot = match start {
                Bound::Included(key) | Bound::Excluded(key) => step.node.child_slot(&shapes, key),
                Bound::Unbounded if direction == Direction::Ascending => 0,
                Bound::Unbounded => step.node.count.saturating_sub(1),
            };
            level -= 1;
            self.load_child(level)?;
        }
        Ok(())
    }

    fn visit_leaf(&self, tour: &mut Tour<'_, '_>) -> ControlFlow<()> {
        let (shapes, leaf) = (self.store.shapes(), self.path.leaf());
        let record = |i| (leaf.key(&shapes, i), leaf.value(&shapes, i));
        tour.show(leaf.count, record)
    }

    /// Goes on to the next leaf; false at the end.
    fn step_aside(&mut self, direction: Direction) -> Result<bool, IndexError> {
        for level in 1..self.path.steps.len() {
            let step = &mut self.path.steps[level];
            let next = match direction {
                Direction::Ascending if step.slot + 1 < step.node.count => step.slot + 1,
                Direction::Descending if step.slot > 0 => step.slot - 1,
                _ => continue,
            };
            step.slot = next;
            self.load_child(level - 1)?;
            self.go_down(level - 1, Bound::Unbounded, direction)?;
            return Ok(true);
        }
        Ok(false)
    }
}
