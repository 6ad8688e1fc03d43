//! The path of the last operation, and the top of the tree.

use super::page::{self, Shape};
use super::pages::Pages;
use super::shapes::NodeShapes;
use super::{Keep, NONE, Node};
use crate::check::{IndexError, Invariant};
use crate::codec::is_blank;
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand};
use crate::ordered::key::Key;
use alloc::vec::Vec;

/// The root, and the nodes that the last operation went down through.
pub(super) struct NodePath {
    /// Nodes of the path, the leaf first.
    pub(super) nodes: Vec<Node>,
    pub(super) root: u32,
    pub(super) height: u8,
    pub(super) keep: Keep,
    /// Cause of its reads.
    cause: Cause,
}

impl NodePath {
    pub(super) fn new(keep: Keep) -> NodePath {
        NodePath { nodes: Vec::new(), root: NONE, height: 1, keep, cause: Cause::Host }
    }

    /// Another path of the same tree, for a checker.
    pub(super) fn aside(&self) -> NodePath {
        NodePath { root: self.root, height: self.height, cause: Cause::Check, ..NodePath::new(self.keep) }
    }

    /// The node of the path at this level.
    pub(super) fn node(&self, level: u8) -> &Node {
        &self.nodes[usize::from(level) - 1]
    }

    pub(super) fn node_mut(&mut self, level: u8) -> &mut Node {
        &mut self.nodes[usize::from(level) - 1]
    }

    /// The bound of the child on the path, in the node at this level.
    pub(super) fn bound(&self, inner: &Shape, level: u8) -> &[u8] {
        let node = self.node(level);
        debug_assert!(node.slot < node.used, "O3: child {} of {}", node.slot, node.used);
        inner.key(&node.bytes, node.slot)
    }

    /// Puts the node at a page on the path.
    pub(super) fn load<N: Nand>(
        &mut self,
        pages: &mut Pages<N>,
        level: u8,
        ppn: u32,
    ) -> Result<(), IndexFault> {
        debug_assert!((1..=self.height).contains(&level), "O2: level {level} of {}", self.height);
        let place = usize::from(level) - 1;
        debug_assert_ne!(ppn, NONE, "O2: a node is read from nowhere");
        while self.nodes.len() <= place {
            self.nodes.push(Node::blank(pages.birth.len()));
        }
        let is_kept = self.keep == Keep::Path || level == self.height || (level == 2 && self.height == 3);
        if self.nodes[place].ppn == ppn && is_kept {
            return Ok(());
        }
        let node = &mut self.nodes[place];
        node.ppn = NONE;
        node.used = pages.read_node(ppn, level, self.cause, &mut node.bytes)?;
        node.ppn = ppn;
        Ok(())
    }

    /// Forgets the path: pages were changed behind it.
    pub(super) fn forget(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.ppn = NONE);
    }

    /// Goes down to the node at `lowest` for a key, or with `beyond` to the next one after that bound.
    pub(super) fn descend<N: Nand>(
        &mut self,
        pages: &mut Pages<N>,
        key: &[u8],
        beyond: bool,
        lowest: u8,
    ) -> Result<(), IndexFault> {
        debug_assert!((1..=self.height).contains(&lowest), "O2: level {lowest} of {}", self.height);
        let mut ppn = self.root;
        for level in (lowest..=self.height).rev() {
            self.load(pages, level, ppn)?;
            if level > lowest {
                let node = self.node(level);
                let slot = pages.shapes.child_slot(node, key, beyond);
                let slot = slot.ok_or(IndexError::broken(
                    Invariant::O3,
                    "no child has a bound that high",
                    u64::from(ppn),
                ))?;
                ppn = pages.shapes.address(&node.bytes, slot);
                self.node_mut(level).slot = slot;
            }
            if level < self.height {
                let above = self.node(level + 1);
                page::require_child(&above.bytes, above.slot, &self.node(level).bytes, self.node(level).ppn)?;
            }
        }
        Ok(())
    }

    /// The slot of a key in the leaf of the path.
    pub(super) fn leaf_slot(&self, shapes: &NodeShapes, key: &[u8]) -> Option<usize> {
        shapes.slot_in(self.node(1), key)
    }

    /// Bound of the leaf on the path; `None` if it is the last leaf.
    pub(super) fn leaf_bound(&self, inner: &Shape) -> Option<Key> {
        let bound = if self.height > 1 { self.bound(inner, 2) } else { return None };
        (!is_blank(bound)).then(|| Key::of(bound))
    }

    /// Bound of the leaf before the one on the path; `None` if the latter is the first leaf.
    pub(super) fn bound_before(&self, inner: &Shape) -> Option<Key> {
        (2..=self.height).find_map(|level| {
            let node = self.node(level);
            let own = inner.key(&node.bytes, node.slot);
            let live = (0..node.used).filter(|&slot| inner.is_live(&node.bytes, slot));
            let bounds = live.map(|slot| inner.key(&node.bytes, slot));
            bounds.filter(|&bound| bound < own).max().map(Key::of)
        })
    }

    /// Most pages that an operation may write, including those of one move.
    pub(super) fn pages_per_operation(&self) -> u32 {
        4 * u32::from(self.height) + 4
    }
}
