//! Insertion and removal: the edits of an operation in RAM.
//!
//! A small enum decides each step up the path. Nothing reaches the store before [`Work::finish`], so an
//! operation that runs out of pages is given up by forgetting its edits.

use super::nodes::Place;
use super::page::{self, Frame, Layout, ROOT};
use super::rules::Underflow;
use super::{Core, Work};
use crate::check::{IndexError, Limit};
use crate::fault::IndexFault;
use crate::nand::Cause;
use crate::ordered::node::NodeShape;
use alloc::vec::Vec;

/// Outcome for a node that was to take one more entry.
enum Added {
    Fits,
    /// The node was split: the upper half is in this extra frame, and the parent must be told.
    Split(usize),
}

/// Outcome for a node that had too few entries.
pub(super) enum Mended {
    /// A neighbour gave the node some entries: the parent has as many entries as before.
    Lent,
    /// The node and its neighbour are merged: the parent lost an entry.
    Merged(Place),
}

impl Core {
    /// Drops the state of the last operation, so that its frames and lists are free.
    pub(super) fn begin(&mut self) {
        self.nodes.begin();
        self.pages.begin();
        self.is_kept_whole = false;
        self.apart.iter_mut().for_each(Vec::clear);
    }

    /// Inserts a record at place `at` of the leaf, and splits nodes that get too full, from the leaf up.
    pub(super) fn add(&mut self, at: usize, key: &[u8], value: &[u8]) -> Result<(), IndexFault> {
        let depth = self.nodes.height - 1;
        debug_assert!(at <= self.nodes.leaf().count(), "B2: place {at} beyond the leaf's end");
        match self.add_entry(depth, at, (key, value))? {
            Added::Fits => Ok(()),
            Added::Split(right) => self.announce(depth, right),
        }
    }

    /// Tells the parent of the node at `depth` of the node's new right neighbour, and splits nodes that get
    /// too full.
    pub(super) fn announce(&mut self, mut depth: usize, right: usize) -> Result<(), IndexFault> {
        let key_bytes = self.nodes.layout.internal.key_bytes;
        let mut step = Added::Split(right);
        while let Added::Split(right) = step {
            debug_assert!(depth > 0, "B5: the root has no parent to be told");
            debug_assert!(right < self.nodes.extra_used, "extra frame {right} is not of this operation");
            depth -= 1;
            let (bound, child) = self.nodes.announcement(right);
            let after = self.nodes.path[depth].slot + 1;
            step = self.add_entry(depth, after, (&bound[..key_bytes], &child))?;
        }
        Ok(())
    }

    fn add_entry(&mut self, depth: usize, at: usize, entry: (&[u8], &[u8])) -> Result<Added, IndexFault> {
        let level = self.nodes.level(depth);
        debug_assert_eq!(self.nodes.path[depth].level(), level, "B5: another level in the path");
        let shape = self.nodes.layout.shape(level);
        if self.nodes.path[depth].count() < shape.capacity {
            self.nodes.path[depth].insert(&shape, at, entry);
            return Ok(Added::Fits);
        }
        if depth == 0 {
            self.raise_root(at, entry)?;
            return Ok(Added::Fits);
        }
        let right = self.new_node(level)?;
        let nodes = &mut self.nodes;
        let (node, new) = (&mut nodes.path[depth], &mut nodes.extra[right]);
        debug_assert!(new.level() == level && new.lpn() != node.lpn(), "B6: a node is split into itself");
        let is_kept_whole = divide((&nodes.layout, &shape), node, new, at, entry);
        self.is_kept_whole |= is_kept_whole;
        if !is_kept_whole {
            let pages = [nodes.path[depth].lpn(), nodes.extra[right].lpn(), nodes.path[depth - 1].lpn()];
            self.restructured(pages);
        }
        Ok(Added::Split(right))
    }

    /// Splits the full root: both halves go to new pages, below a root one level higher.
    fn raise_root(&mut self, at: usize, entry: (&[u8], &[u8])) -> Result<(), IndexFault> {
        let level = self.nodes.height;
        if level == self.nodes.layout.height_max() {
            return Err(IndexError::Full(Limit::Height).into());
        }
        let shape = self.nodes.layout.shape(level);
        let (left, right) = (self.new_node(level)?, self.new_node(level)?);
        let nodes = &mut self.nodes;
        debug_assert_eq!(nodes.path[0].count(), shape.capacity, "B4: a root with room is raised");
        nodes.extra[left].copy_node(&nodes.path[0]);
        debug_assert!(left + 1 == right && right + 1 == nodes.extra_used, "the halves are not side by side");
        let (below, above) = nodes.extra.split_at_mut(right);
        self.is_kept_whole |= divide((&nodes.layout, &shape), &mut below[left], &mut above[0], at, entry);
        nodes.put_root_above(left..right + 1);
        let pages = [nodes.extra[left].lpn(), nodes.extra[right].lpn(), ROOT];
        self.restructured(pages);
        Ok(())
    }

    pub(super) fn new_node(&mut self, level: usize) -> Result<usize, IndexFault> {
        let lpn = self.pages.take()?;
        Ok(self.nodes.add_node(lpn, level))
    }

    /// Updates height and counters after the operation.
    pub(super) fn count_settled(&mut self) {
        let (before, height) = (self.nodes.height, self.nodes.height_now());
        let (taken, freed) = self.pages.nodes();
        debug_assert!(taken + before >= height, "B6: the root rose without a new page");
        let divisions = (taken - height.saturating_sub(before)) as u64;
        self.counts.splits += divisions - u64::from(self.is_kept_whole);
        self.counts.overflows += u64::from(self.is_kept_whole);
        self.counts.merges += (freed - before.saturating_sub(height)) as u64;
        self.nodes.height = height;
    }
}

impl Work<'_> {
    /// Removes entry `at` of the leaf, and mends nodes that get too empty, from the leaf up.
    pub(super) fn take(&mut self, at: usize) -> Result<(), IndexFault> {
        let nodes = &mut self.core.nodes;
        let leaf = nodes.layout.leaf;
        debug_assert_eq!(nodes.leaf().level(), 1, "B5: a record of no leaf");
        nodes.leaf_mut().remove(&leaf, at);
        let (is_root, left, underflow) = (nodes.height == 1, nodes.leaf().count(), nodes.layout.underflow);
        match underflow {
            _ if is_root || left >= self.core.leaf_mended_below() => Ok(()),
            Underflow::Expel => self.expel(),
            Underflow::ExpelLeaves if left == 0 => self.expel_leaf().map(drop),
            Underflow::Merge | Underflow::ExpelLeaves => self.mend_path(),
        }
    }

    /// Mends nodes that are less than half full, from the leaf up.
    pub(super) fn mend_path(&mut self) -> Result<(), IndexFault> {
        self.mend_path_from(self.core.nodes.height - 1)
    }

    /// Mends the nodes of the path from depth `deepest` up.
    pub(super) fn mend_path_from(&mut self, deepest: usize) -> Result<(), IndexFault> {
        for depth in (1..=deepest).rev() {
            let nodes = &self.core.nodes;
            let half = nodes.layout.half(nodes.level(depth));
            if nodes.path[depth].count() >= half {
                break;
            }
            let mended = self.mend(depth, (2 * half - 1, false))?;
            if matches!(mended, Mended::Lent) {
                break;
            }
            self.lower_root_above(depth, mended);
        }
        Ok(())
    }

    /// Lets the root take over the merged node below it, if that is its last child.
    pub(super) fn lower_root_above(&mut self, depth: usize, mended: Mended) {
        if let Mended::Merged(child) = mended
            && depth == 1
            && self.core.nodes.path[0].count() == 1
        {
            let freed = self.core.nodes.lower_root(child);
            self.core.pages.freed.push(freed);
        }
    }

    /// Fills a node from the neighbour below the same parent, or merges the two if together they have at most
    /// `merged_max` entries. If the number of entries is odd, the left node gets one more, or this node if
    /// it `is_next`.
    pub(super) fn mend(
        &mut self,
        depth: usize,
        (merged_max, is_next): (usize, bool),
    ) -> Result<Mended, IndexFault> {
        let nodes = &self.core.nodes;
        debug_assert!(depth > 0, "B5: the root has no neighbour");
        debug_assert_ne!(nodes.layout.underflow, Underflow::Expel, "nodes are expelled, not mended");
        let level = nodes.level(depth);
        debug_assert!(nodes.path[depth - 1].count() >= 2, "B4: a parent of one child");
        let slot = nodes.path[depth - 1].slot;
        let is_right = slot > 0;
        let lpn = nodes.layout.child(&nodes.path[depth - 1], if is_right { slot - 1 } else { slot + 1 })?;
        let neighbour = self.fetch_extra(lpn, level, Cause::Host)?;
        let right_slot = if is_right { slot } else { slot + 1 };
        let nodes = &mut self.core.nodes;
        let (parents, below) = nodes.path.split_at_mut(depth);
        let (parent, node, other) = (&mut parents[depth - 1], &mut below[0], &mut nodes.extra[neighbour]);
        let together = node.count() + other.count();
        debug_assert_eq!(node.level(), other.level(), "B5: neighbours of different levels");
        debug_assert!(node.count() <= nodes.layout.half(level), "B4: a node is mended that needs it not");
        let (left, right) = if is_right { (other, node) } else { (node, other) };
        let (shape, internal) = (nodes.layout.shape(level), nodes.layout.internal);
        let pages = [left.lpn(), right.lpn(), parent.lpn()];
        if together > merged_max {
            let share = if is_right && is_next { together / 2 } else { together.div_ceil(2) };
            page::share_out(&shape, left, right, share);
            debug_assert!(
                left.count().min(right.count()) >= nodes.layout.half(level),
                "B4: less than half full once evened out"
            );
            internal.set_key(parent.area_mut(), right_slot, shape.key(right.area(), 0));
            parent.is_dirty = true;
            self.core.counts.redistributions += 1;
            self.core.restructured(pages);
            return Ok(Mended::Lent);
        }
        let moved = right.count();
        page::move_left(&shape, left, right, moved);
        debug_assert!(left.count() == together && right.count() == 0, "B4: entries lost in a merge");
        right.is_dirty = false;
        parent.remove(&internal, right_slot);
        self.core.pages.freed.push(pages[1]);
        self.core.restructured(pages);
        Ok(Mended::Merged(if is_right { Place::Extra(neighbour) } else { Place::Path(depth) }))
    }
}

/// Splits a full node that must take one more entry. If the node may stay whole, only the new entry goes to
/// the new node. Returns true if it stays whole.
fn divide(
    (layout, shape): (&Layout, &NodeShape),
    node: &mut Frame,
    new: &mut Frame,
    at: usize,
    entry: (&[u8], &[u8]),
) -> bool {
    debug_assert_eq!(node.count(), shape.capacity, "B4: a node with room is divided");
    debug_assert_eq!(new.count(), 0, "B4: divided into a node with entries");
    let stays_whole = node.level() == 1 && layout.overflow.keeps_whole(shape, node, at);
    if stays_whole {
        new.insert(shape, 0, entry);
    } else {
        page::split(shape, node, new, at, entry);
    }
    debug_assert_eq!(node.count() + new.count(), shape.capacity + 1, "B4: entries lost in a split");
    debug_assert!(node.count() > 0 && new.count() > 0, "B4: a split leaves a node empty");
    stays_whole
}
