//! Walks over a range, and over the nodes above the leaves at a mount.

use super::nodes::Nodes;
use super::page::{Frame, ROOT, corrupted};
use super::{BPlusTree, Work};
use crate::check::Invariant;
use crate::fault::IndexFault;
use crate::nand::Cause;
use crate::ordered::node::NodeShape;
use crate::ordered::{Direction, Visit, entries_within};
use crate::store::PageStore;
use crate::units::Lpn;
use core::ops::{Bound, ControlFlow};

/// Keys between two bounds.
pub(super) struct Span<'a> {
    low: Bound<&'a [u8]>,
    high: Bound<&'a [u8]>,
}

/// Leaf that a walk has come to.
pub struct WalkedLeaf<'a> {
    shape: &'a NodeShape,
    frame: &'a Frame,
    entries: core::ops::Range<usize>,
}

impl WalkedLeaf<'_> {
    /// Page of the leaf.
    pub fn lpn(&self) -> Lpn {
        self.frame.lpn()
    }

    /// Visits the records of the leaf between the bounds of the walk.
    pub fn visit_records(&self, direction: Direction, visit: Visit<'_>) -> ControlFlow<()> {
        debug_assert!(self.entries.end <= self.frame.count(), "B4: entries beyond those in use");
        let (shape, area) = (self.shape, self.frame.area());
        let mut show = |i| visit(shape.key(area, i), shape.value(area, i));
        match direction {
            Direction::Ascending => self.entries.clone().try_for_each(&mut show),
            Direction::Descending => self.entries.clone().rev().try_for_each(&mut show),
        }
    }
}

impl Span<'_> {
    /// True if no key can lie between the bounds.
    fn is_empty(&self) -> bool {
        use Bound::{Excluded, Included, Unbounded};
        match (self.low, self.high) {
            (Unbounded, _) | (_, Unbounded) => false,
            (Included(low), Included(high)) => low > high,
            (Included(low) | Excluded(low), Included(high) | Excluded(high)) => low >= high,
        }
    }

    /// Child to enter first.
    fn first_child(&self, direction: Direction, shape: &NodeShape, node: &Frame) -> usize {
        debug_assert!(node.level() > 1 && node.count() > 0, "B4: a child of no internal node");
        let (area, count) = (node.area(), node.count());
        match (direction, self.low, self.high) {
            (Direction::Ascending, Bound::Unbounded, _) => 0,
            (Direction::Ascending, Bound::Included(key) | Bound::Excluded(key), _)
            | (Direction::Descending, _, Bound::Included(key)) => shape.child_slot(area, count, key),
            (Direction::Descending, _, Bound::Unbounded) => count - 1,
            (Direction::Descending, _, Bound::Excluded(key)) => {
                let (Ok(i) | Err(i)) = shape.search(area, count, key);
                i.saturating_sub(1)
            }
        }
    }

    /// True if a child beyond this bound, in the direction of the walk, can hold keys of the span.
    fn reaches(&self, direction: Direction, bound: &[u8]) -> bool {
        match (direction, self.low, self.high) {
            (Direction::Ascending, _, Bound::Included(high)) => bound <= high,
            (Direction::Ascending, _, Bound::Excluded(high)) => bound < high,
            (Direction::Descending, Bound::Included(low) | Bound::Excluded(low), _) => bound > low,
            _ => true,
        }
    }
}

impl Nodes {
    /// Leaf at the end of the path, with its entries in a span.
    fn walked(&self, span: &Span<'_>) -> WalkedLeaf<'_> {
        let (shape, frame) = (&self.layout.leaf, self.leaf());
        debug_assert_eq!(frame.level(), 1, "B5: the walk is not at a leaf");
        let search = |key: &[u8]| shape.search(frame.area(), frame.count(), key);
        let entries = entries_within((span.low, span.high), frame.count(), search);
        WalkedLeaf { shape, frame, entries }
    }
}

#[doc(hidden)]
impl<S: PageStore> BPlusTree<S> {
    /// Visits every leaf with keys between two bounds, in the order of the walk. The visitor gets the store
    /// too.
    pub fn walk_leaves(
        &mut self,
        (low, high): (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
        visit: &mut dyn FnMut(&S, &WalkedLeaf<'_>) -> ControlFlow<()>,
    ) -> Result<(), IndexFault> {
        let span = Span { low, high };
        let mut is_at_leaf = self.work().first_leaf(&span, direction)?;
        while is_at_leaf && visit(&self.store.0, &self.core.nodes.walked(&span)).is_continue() {
            is_at_leaf = self.work().next_leaf(&span, direction)?;
        }
        Ok(())
    }
}

impl Work<'_> {
    /// Reads the path to the first leaf of a walk. False if no key can lie in the span.
    fn first_leaf(&mut self, span: &Span<'_>, direction: Direction) -> Result<bool, IndexFault> {
        self.core.mark.ready()?;
        for bound in [span.low, span.high] {
            if let Bound::Included(key) | Bound::Excluded(key) = bound {
                self.core.nodes.layout.record.check_key(key)?;
            }
        }
        if span.is_empty() {
            return Ok(false);
        }
        self.descend((0, ROOT), &|shape, node| span.first_child(direction, shape, node))?;
        Ok(true)
    }

    /// Goes up to the first parent with another child on the way, and down to its nearest leaf. False at the
    /// end of the span; the parent's bounds tell that without a read of the leaf.
    fn next_leaf(&mut self, span: &Span<'_>, direction: Direction) -> Result<bool, IndexFault> {
        let nodes = &mut self.core.nodes;
        let internal = nodes.layout.internal;
        let has_more = |node: &Frame| match direction {
            Direction::Ascending => node.slot + 1 < node.count(),
            Direction::Descending => node.slot > 0,
        };
        let parents = &nodes.path[..nodes.height - 1];
        debug_assert!(parents.iter().all(|node| node.slot < node.count()), "B5: the walk lost its way down");
        let Some(depth) = parents.iter().rposition(has_more) else { return Ok(false) };
        let node = &mut nodes.path[depth];
        let bound = node.slot + usize::from(direction == Direction::Ascending);
        if !span.reaches(direction, internal.key(node.area(), bound)) {
            return Ok(false);
        }
        node.slot = if direction == Direction::Ascending { node.slot + 1 } else { node.slot - 1 };
        let child = nodes.layout.child(node, node.slot)?;
        self.descend((depth + 1, child), &|_, node| match direction {
            Direction::Ascending => 0,
            Direction::Descending => node.count() - 1,
        })?;
        Ok(true)
    }

    /// Marks every page below a node of the path as used: at a mount, or again in a tree with the least RAM.
    /// Leaves are not read.
    pub(super) fn claim_below(&mut self, depth: usize, cause: Cause) -> Result<(), IndexFault> {
        let level = self.core.nodes.level(depth);
        debug_assert_eq!(self.core.nodes.path[depth].level(), level, "B5: another level in the path");
        if level == 1 {
            return Ok(());
        }
        for slot in 0..self.core.nodes.path[depth].count() {
            let (nodes, space) = (&self.core.nodes, &mut self.core.pages.space);
            let child = nodes.layout.child(&nodes.path[depth], slot)?;
            let is_new = if cause == Cause::Recovery { space.claim(child) } else { space.mark(child) };
            if !is_new {
                return Err(corrupted(Invariant::B6, "the page has two parents", child));
            }
            if level > 2 {
                self.fetch(depth + 1, child, Some(level - 1), cause)?;
                self.claim_below(depth + 1, cause)?;
            }
        }
        Ok(())
    }
}
