//! A path from the root in RAM: copies of its nodes, and where they came from.

use super::{RawTree, Scheme, address, entry_count};
use crate::check::IndexError;
use crate::log::tag::{LEVELS_MAX, Tag};
use crate::nand::{Cause, Nand};
use crate::ordered::node::NodeShape;
use crate::units::Ppn;
use alloc::vec;
use alloc::vec::Vec;

/// A path from the root, its nodes copied.
pub(crate) struct Path {
    pub(crate) buffer: Vec<u8>,
    steps: [Step; LEVELS_MAX],
}

/// One node of a path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Step {
    /// Where the node was read.
    pub page: u32,
    /// The lowest level of a node in that page.
    pub lowest_level: u8,
    /// Entries in use.
    pub count: u16,
    /// The entry whose child is the next step.
    pub slot: u16,
}

/// A half that left the path and waits for its entry in the parent.
#[derive(Clone, Debug)]
pub struct Sibling {
    /// The first key of the right half.
    pub separator: Vec<u8>,
    /// Where the half that is not on the path lies.
    pub page: Ppn,
    /// Whether that half is the left one.
    pub is_left: bool,
}

impl Path {
    pub(crate) fn new(bytes: usize) -> Path {
        Path { buffer: vec![0xff; bytes], steps: Default::default() }
    }

    pub(crate) fn step(&self, level: u8) -> Step {
        self.steps[usize::from(level) - 1]
    }

    pub(crate) fn step_mut(&mut self, level: u8) -> &mut Step {
        &mut self.steps[usize::from(level) - 1]
    }

    /// The tag of a page with the nodes of the path from `lowest` to `top`.
    pub(crate) fn tag(&self, lowest: u8, top: u8) -> Tag {
        let mut counts = [0; LEVELS_MAX];
        for level in lowest..=top {
            counts[usize::from(level) - 1] = self.step(level).count;
        }
        Tag { lowest_level: lowest, counts, ..Tag::default() }
    }
}

impl<N: Nand, S: Scheme> RawTree<N, S> {
    pub(crate) fn shape(&self, level: u8) -> NodeShape {
        self.scheme.shape(level, self.height)
    }

    /// The copy of the path's node at `level`.
    pub(crate) fn node(&self, level: u8) -> &[u8] {
        &self.path.buffer[self.scheme.path_area(level, self.height)]
    }

    pub(crate) fn node_mut(&mut self, level: u8) -> &mut [u8] {
        &mut self.path.buffer[self.scheme.path_area(level, self.height)]
    }

    pub(crate) fn count(&self, level: u8) -> usize {
        usize::from(self.path.step(level).count)
    }

    pub(crate) fn slot(&self, level: u8) -> usize {
        usize::from(self.path.step(level).slot)
    }

    /// Makes the path's child at `level` the one at `page`.
    pub(crate) fn set_child(&mut self, level: u8, page: Ppn) {
        let (shape, slot) = (self.shape(level), self.slot(level));
        shape.set_value(self.node_mut(level), slot, &page.0.to_le_bytes());
    }

    /// Copies the path to the node at level `lowest` where `key` belongs.
    pub(super) fn copy_path(&mut self, key: &[u8], lowest: u8, cause: Cause) -> Result<(), IndexError> {
        self.copy_node(self.root, self.height, cause)?;
        self.copy_path_from(self.height, key, lowest, cause)
    }

    /// The same, where the nodes down to `from` are copied already.
    pub(super) fn copy_path_from(
        &mut self,
        from: u8,
        key: &[u8],
        lowest: u8,
        cause: Cause,
    ) -> Result<(), IndexError> {
        for level in (lowest + 1..=from).rev() {
            let (shape, count) = (self.shape(level), self.count(level));
            let slot = shape.child_slot(self.node(level), count, key);
            self.path.step_mut(level).slot = slot as u16;
            let child = address(shape.value(self.node(level), slot));
            self.copy_node(child, level - 1, cause)?;
        }
        Ok(())
    }

    /// Copies one node into its place in the path. A leaf is read where the journal says it is.
    pub(super) fn copy_node(&mut self, ppn: Ppn, level: u8, cause: Cause) -> Result<(), IndexError> {
        let ppn = if level == 1 && self.height > 1 { self.journal.resolve(ppn) } else { ppn };
        if !self.log.is_valid(ppn) {
            return Err(IndexError::Corrupted {
                what: "R5: a page that can be reached is not valid",
                at: u64::from(ppn.0),
            });
        }
        let at_hand = level < self.height && self.path.step(level + 1).page == ppn.0;
        let page = if at_hand { self.log.again(ppn, cause)? } else { self.log.read(ppn, cause)? };
        let capacity = self.scheme.shape(level, self.height).capacity;
        let count = entry_count(&page.tag, level, capacity, ppn)?;
        let area = self.scheme.page_area(level, self.height);
        self.path.buffer[self.scheme.path_area(level, self.height)].copy_from_slice(&page.data[area]);
        *self.path.step_mut(level) =
            Step { page: ppn.0, lowest_level: page.tag.lowest_level, count: count as u16, slot: 0 };
        Ok(())
    }
}
