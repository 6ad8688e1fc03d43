//! Rules for nodes that get too full or too empty: Comer's, and those of the WPCB-tree.
//!
//! A leaf may stay whole if a split would leave two half-full leaves that ascending keys never fill again:
//! the new record then starts a leaf of its own. A node may be left to shrink. Once it is empty it is
//! expelled: its parent forgets it, and a root left with one child takes over the child's contents.
//!
//! If nodes may shrink, half-full nodes no longer bound the height of the tree. It may then be one level
//! higher than half-full nodes would make it; an insertion that needs more is refused as if the store were
//! full. If only leaves may shrink, the nodes above them bound the height as always, and whatever fits a tree
//! of half-full nodes fits.

use super::batch::{LeafSpan, NewLeaf, Reshaped};
use super::page::{Frame, HEADER_BYTES, ROOT, level_and_entries};
use super::{BPlusConfig, BPlusTree, Core, StructureWrites, Work};
use crate::check::{IndexError, words};
use crate::fault::IndexFault;
use crate::nand::Cause;
use crate::ordered::node::NodeShape;
use crate::store::PageStore;
use crate::units::Lpn;
use alloc::vec;
use alloc::vec::Vec;

/// Rule for a full leaf that is to take one more record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub enum Overflow {
    /// The leaf is split in halves.
    #[default]
    Split = 0,
    /// The leaf stays whole if its keys, as unsigned integers, follow each other without a gap and the new
    /// key lies beyond the last.
    KeepContiguous = 1,
    /// The leaf stays whole if the new key lies beyond its last key.
    KeepAscending = 2,
}

impl Overflow {
    pub(super) const fn from_byte(byte: u8) -> Option<Overflow> {
        Some(match byte {
            0 => Overflow::Split,
            1 => Overflow::KeepContiguous,
            2 => Overflow::KeepAscending,
            _ => return None,
        })
    }

    /// True if this full leaf stays whole when a record is inserted at its place `at`.
    pub(super) fn keeps_whole(self, shape: &NodeShape, leaf: &Frame, at: usize) -> bool {
        debug_assert!(at <= leaf.count(), "B4: place {at} of a leaf of {}", leaf.count());
        at == leaf.count() && self.keeps(shape, leaf.area(), leaf.count())
    }

    /// True if a full leaf with these entries stays whole when a record with a higher key is inserted.
    fn keeps(self, shape: &NodeShape, area: &[u8], count: usize) -> bool {
        debug_assert!(count > 0, "B4: an empty leaf is full");
        let key = |i| shape.key(area, i);
        match self {
            Overflow::Split => false,
            Overflow::KeepContiguous => distance(key(0), key(count - 1)) == Some(count as u64 - 1),
            Overflow::KeepAscending => true,
        }
    }
}

/// Distance of two keys as unsigned integers. `None` if it is 2^64 or more.
fn distance(low: &[u8], high: &[u8]) -> Option<u64> {
    debug_assert_eq!(low.len(), high.len(), "keys of different widths");
    let (mut distance, mut borrow) = (0u64, false);
    for (i, (&low, &high)) in low.iter().rev().zip(high.iter().rev()).enumerate() {
        let wanted = u16::from(low) + u16::from(borrow);
        borrow = u16::from(high) < wanted;
        let digit = u16::from(high).wrapping_sub(wanted) as u8;
        match i {
            0..=7 => distance |= u64::from(digit) << (8 * i),
            _ if digit != 0 => return None,
            _ => {}
        }
    }
    (!borrow).then_some(distance)
}

/// Rule for a node that gets too empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub enum Underflow {
    /// A node less than half full takes entries from a neighbour or merges with it.
    #[default]
    Merge = 0,
    /// Keep a node until it is empty, and then remove it.
    Expel = 1,
    /// A leaf stays as it is until it is empty; then it is expelled. In a store that is nearly full, and for
    /// nodes above the leaves always, the rule is `Merge`.
    ExpelLeaves = 2,
}

impl Underflow {
    pub(super) const fn from_byte(byte: u8) -> Option<Underflow> {
        Some(match byte {
            0 => Underflow::Merge,
            1 => Underflow::Expel,
            2 => Underflow::ExpelLeaves,
            _ => return None,
        })
    }
}

impl BPlusConfig {
    /// Refuses rules with which groups of changes cannot be committed ([`BPlusTree::apply_to_leaf`]).
    #[doc(hidden)]
    pub fn require_for_groups(&self) -> Result<(), IndexFault> {
        let is_usual = (self.overflow, self.underflow) == (Overflow::Split, Underflow::Merge);
        if is_usual && self.structure_writes == StructureWrites::Together {
            return Ok(());
        }
        Err(IndexError::Unsupported(
            words("groups are committed to leaves that split in halves and merge, and written together")
                .into(),
        )
        .into())
    }
}

/// A store is nearly full if less than one in this many of its pages is free.
const NEARLY_FULL: u32 = 8;

impl<S: PageStore> BPlusTree<S> {
    /// Returns a test for pages that are full leaves which stay whole while ascending keys go on.
    #[doc(hidden)]
    pub fn full_leaves(&self) -> impl Fn(&[u8]) -> bool + 'static {
        let (leaf, overflow) = (self.core.nodes.layout.leaf, self.core.nodes.layout.overflow);
        move |page| {
            let is_full = level_and_entries(page) == Some((1, leaf.capacity as u16));
            is_full && overflow.keeps(&leaf, &page[HEADER_BYTES..], leaf.capacity)
        }
    }
}

impl Core {
    /// A leaf with fewer entries than this is mended or expelled.
    pub(super) fn leaf_mended_below(&self) -> usize {
        let layout = &self.nodes.layout;
        let is_nearly_full = self.pages.space.free_pages() < layout.page_count / NEARLY_FULL;
        if layout.underflow == Underflow::ExpelLeaves && is_nearly_full {
            return layout.half(1);
        }
        layout.fill_min(1)
    }
}

impl Work<'_> {
    /// Expels the empty leaf of the path, and mends the nodes above it. A neighbour gets its range of keys. A
    /// root left with one leaf takes over that leaf.
    pub(super) fn expel_leaf(&mut self) -> Result<Reshaped, IndexFault> {
        let nodes = &mut self.core.nodes;
        let (internal, height) = (nodes.layout.internal, nodes.height);
        let (span, lpn, depth) = (nodes.span_around_leaf(0, 0), nodes.leaf().lpn(), height - 1);
        debug_assert!(depth > 0 && nodes.leaf().count() == 0, "B4: a leaf with entries is expelled");
        let (parents, leaves) = nodes.path.split_at_mut(depth);
        let (parent, leaf) = (&mut parents[depth - 1], &mut leaves[0]);
        let slot = parent.slot;
        let heir = nodes.layout.child(parent, if slot > 0 { slot - 1 } else { 1 })?;
        if slot == 0 {
            // Bound 0 repeats the bound above, whichever child is the first.
            let bound: Vec<u8> = internal.key(parent.area(), 0).into();
            internal.set_key(parent.area_mut(), 1, &bound);
        }
        leaf.is_dirty = false;
        parent.remove(&internal, slot);
        self.core.pages.freed.push(lpn);
        if height == 2 && nodes.path[0].count() == 1 {
            self.take_over(heir, 1)?;
            let root = NewLeaf { lpn: ROOT, low: None, entries: self.core.nodes.path[0].count() };
            return Ok(Reshaped {
                span: LeafSpan { low: None, high: None },
                before: vec![lpn, heir],
                after: vec![root],
            });
        }
        self.mend_path_from(depth - 1)?;
        let heir = NewLeaf { lpn: heir, low: span.low.clone(), entries: 0 };
        Ok(Reshaped { span, before: vec![lpn], after: vec![heir] })
    }

    /// Lets the root take over its only child, which is not on the path.
    fn take_over(&mut self, lpn: Lpn, level: usize) -> Result<(), IndexFault> {
        let child = self.fetch_extra(lpn, level, Cause::Host)?;
        let nodes = &mut self.core.nodes;
        debug_assert!(nodes.extra[child].level() == level, "B5: the child is not one level below");
        nodes.path[0].copy_node(&nodes.extra[child]);
        self.core.pages.freed.push(lpn);
        Ok(())
    }

    /// Expels the nodes of the path that are empty, from the leaf up.
    pub(super) fn expel(&mut self) -> Result<(), IndexFault> {
        let nodes = &mut self.core.nodes;
        let internal = nodes.layout.internal;
        for depth in (1..nodes.height).rev() {
            let (parents, below) = nodes.path.split_at_mut(depth);
            let (parent, node) = (&mut parents[depth - 1], &mut below[0]);
            if node.count() > 0 {
                debug_assert!(parent.slot < parent.count(), "B5: the path is not in RAM");
                break;
            }
            node.is_dirty = false;
            self.core.pages.freed.push(node.lpn());
            let slot = parent.slot;
            parent.remove(&internal, slot);
        }
        loop {
            let (layout, root) = (&self.core.nodes.layout, &self.core.nodes.path[0]);
            if root.level() == 1 || root.count() != 1 {
                return Ok(());
            }
            let (lpn, level) = (layout.child(root, 0)?, root.level() - 1);
            self.take_over(lpn, level)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn keys_are_apart_as_numbers_are() {
        let apart = |low: u128, high: u128| distance(&low.to_be_bytes(), &high.to_be_bytes());
        for (low, high) in
            [(0, 0), (5, 9), (255, 256), (0xffff_ffff, 0x1_0000_0003), (1 << 100, (1 << 100) + 7)]
        {
            assert_eq!(apart(low, high), Some((high - low) as u64));
        }
        assert_eq!(apart((1 << 64) - 1, 1 << 64), Some(1));
        assert_eq!(apart(0, 1 << 64), None);
        assert_eq!(distance(&[3], &[250]), Some(247));
        assert_eq!(distance(&[9, 0], &[8, 255]), None, "not ascending");
    }
}
