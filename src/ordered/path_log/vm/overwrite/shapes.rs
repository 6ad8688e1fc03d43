//! How the nodes of a tree are laid out, and the search in one.

use super::page::{Marks, Shape};
use super::{ADDRESS_BYTES, Node};
use crate::check::{IndexError, message};
use crate::codec::get_u32;
use crate::fault::IndexFault;
use crate::ordered::{RecordFormat, Tour};
use core::ops::ControlFlow;

/// The shapes of leaves and of the nodes above them.
pub(super) struct NodeShapes {
    pub(super) leaf: Shape,
    pub(super) inner: Shape,
}

impl NodeShapes {
    pub(super) fn new(
        page_bytes: usize,
        record: RecordFormat,
        marks: Marks,
    ) -> Result<NodeShapes, IndexFault> {
        let (key_bytes, value_bytes) = (usize::from(record.key_bytes), usize::from(record.value_bytes));
        let leaf = Shape::new(page_bytes, key_bytes, value_bytes, marks);
        let inner = Shape::new(page_bytes, key_bytes, ADDRESS_BYTES, marks);
        if leaf.capacity < 4 || inner.capacity < 8 {
            return Err(IndexError::unsupported(message!(
                "a VMTree-OW needs pages of 4 records and 8 children; these of {page_bytes} bytes hold {} and {}",
                leaf.capacity, inner.capacity
            )).into());
        }
        Ok(NodeShapes { leaf, inner })
    }

    pub(super) fn record(&self) -> RecordFormat {
        let value_bytes = self.leaf.entry_bytes - self.leaf.key_bytes;
        RecordFormat::new(self.leaf.key_bytes as u8, value_bytes as u8)
    }

    pub(super) fn marks(&self) -> Marks {
        self.leaf.marks
    }

    pub(super) fn at(&self, level: u8) -> Shape {
        if level == 1 { self.leaf } else { self.inner }
    }

    /// The slot of the smallest bound that is not below the key, or is above it; of equal ones the latest.
    pub(super) fn child_slot(&self, node: &Node, key: &[u8], beyond: bool) -> Option<usize> {
        debug_assert!(node.used <= self.inner.capacity, "O1: {} slots of {}", node.used, self.inner.capacity);
        let mut best: Option<usize> = None;
        for slot in 0..node.used {
            let bound = self.inner.key(&node.bytes, slot);
            let reaches = if beyond { bound > key } else { bound >= key };
            let is_better = |best: usize| bound <= self.inner.key(&node.bytes, best);
            if reaches && self.inner.is_live(&node.bytes, slot) && best.is_none_or(is_better) {
                best = Some(slot);
            }
        }
        debug_assert!(
            best.is_none_or(|slot| self.inner.is_live(&node.bytes, slot)),
            "O3: a dead child is chosen"
        );
        best
    }

    /// The page that a slot of an inner node leads to.
    pub(super) fn address(&self, bytes: &[u8], slot: usize) -> u32 {
        get_u32(self.inner.value(bytes, slot), 0)
    }

    /// The slot of a key in a leaf.
    pub(super) fn slot_in(&self, leaf: &Node, key: &[u8]) -> Option<usize> {
        let is_it =
            |&slot: &usize| self.leaf.key(&leaf.bytes, slot) == key && self.leaf.is_live(&leaf.bytes, slot);
        (0..leaf.used).rev().find(is_it)
    }

    /// Shows the records of a leaf that lie within the bounds; breaks when the walk is over.
    pub(super) fn show(&self, leaf: &Node, tour: &mut Tour<'_, '_>) -> ControlFlow<()> {
        let entries = self.leaf.sorted(&leaf.bytes, leaf.used, &[]);
        let size = self.leaf.entry_bytes;
        let record = |i| entries[i * size..(i + 1) * size].split_at(self.leaf.key_bytes);
        tour.show(entries.len() / size, record)
    }

    /// Most pages that a batch writes in a tree with `inner_nodes` inner nodes, without its own pages.
    ///
    /// Each change writes at most two pages instead of a leaf. A full inner node is rewritten as at most two.
    /// Half of it is free then, which is not filled soon by two entries for each replaced child. So it is
    /// rewritten no more often than its children are replaced.
    pub(super) fn batch_pages(&self, changes: usize, inner_nodes: u32, height: u8) -> u32 {
        let (changes, height) = (changes as u32 + 1, u32::from(height) + 1);
        let again = 4 * changes / (self.inner.capacity as u32 - 4);
        2 * (changes * height).min(changes + inner_nodes + again + height) + height + 4
    }
}

/// Number of nodes above so many leaves if each has `fanout` children, and the height of that tree.
pub(super) fn above(leaves: u32, fanout: u32) -> (u32, u8) {
    let (mut above, mut height, mut nodes) = (0, 1, leaves);
    while nodes > 1 {
        nodes = nodes.div_ceil(fanout);
        above += nodes;
        height += 1;
    }
    (above, height)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn of_equal_bounds_the_latest_child_is_chosen_and_no_dead_one() {
        let record = RecordFormat::new(4, 2);
        let shapes = NodeShapes::new(256, record, Marks::Checked).unwrap();
        assert_eq!((shapes.record(), shapes.marks()), (record, Marks::Checked));
        let mut node = Node { ppn: 0, used: 3, slot: 0, bytes: vec![0xff; 256] };
        for (slot, (bound, page)) in [(5u32, 1u32), (9, 2), (5, 3)].into_iter().enumerate() {
            let entry = [bound.to_be_bytes(), page.to_le_bytes()].concat();
            shapes.inner.fill(&mut node.bytes, slot, &entry);
        }
        let child = |node: &Node, key: u32, beyond| {
            let slot = shapes.child_slot(node, &key.to_be_bytes(), beyond);
            slot.map(|slot| shapes.address(&node.bytes, slot))
        };
        assert_eq!((child(&node, 5, false), child(&node, 5, true)), (Some(3), Some(2)));
        assert_eq!((child(&node, 9, false), child(&node, 9, true)), (Some(2), None));
        shapes.inner.mark_dead(&mut node.bytes, 2);
        assert_eq!(child(&node, 5, false), Some(1));
    }
}
