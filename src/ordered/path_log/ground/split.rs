//! Adding entries to the nodes of a path, and splitting full nodes.

use super::path::Path;
use super::{Nodes, RawScheme, Sibling, child_value};
use crate::fault::IndexFault;
use crate::log::tag::Tag;
use crate::nand::{Cause, Nand};
use crate::ordered::key::Key;
use crate::ordered::node::NodeShape;
use crate::units::Ppn;

/// Half that left the path and is in the detached page.
pub(super) struct Half {
    count: usize,
    /// First key of the right half.
    separator: Key,
    is_left: bool,
}

impl<S: RawScheme> Path<S> {
    /// Largest number of entries in a node of the path. A root may become full, since it is split when it is
    /// written.
    fn room(&self, level: u8) -> usize {
        if level == self.height { self.shape(level).capacity } else { self.limit(level) }
    }

    /// Bytes of the split-off half of the node at `level`, within the detached page.
    fn detached_node(&mut self, level: u8) -> &mut [u8] {
        let area = self.scheme.page_area(self.layout_at(level), level, self.height);
        &mut self.detached[area]
    }

    /// Adds an entry to a node of the path, which is split if it is full.
    fn add_entry(&mut self, level: u8, i: usize, entry: (&[u8], &[u8])) -> Option<Half> {
        if self.count(level) < self.room(level) {
            self.insert(level, i, entry);
            return None;
        }
        Some(self.split_node(level, i, entry))
    }

    /// Splits a full node that takes one more entry at place `i`: the first ceil((d+1)/2) entries go left.
    /// For a leaf the right half stays on the path, for an inner node the half with the path's child.
    fn split_node(&mut self, level: u8, i: usize, entry: (&[u8], &[u8])) -> Half {
        let (shape, count) = (self.shape(level), self.count(level));
        debug_assert!(i <= count && count >= 2, "R1: a node of {count} is split at {i}");
        let left_count = (count + 1).div_ceil(2);
        let entry_is_left = i < left_count;
        // Number of old entries that go left, so that the left half has `left_count` with the new entry.
        let kept_left = if entry_is_left { left_count - 1 } else { left_count };
        let path_is_left = level > 1 && entry_is_left;
        self.detach_half(level, kept_left, !path_is_left);
        let (node_count, detached_count) =
            if path_is_left { (kept_left, count - kept_left) } else { (count - kept_left, kept_left) };
        self.step_mut(level).count = node_count as u16;
        let mut detached_count = detached_count;
        let at = if entry_is_left { i } else { i - kept_left };
        if entry_is_left == path_is_left {
            self.insert(level, at, entry);
        } else {
            shape.insert(self.detached_node(level), detached_count, at, entry);
            detached_count += 1;
        }
        debug_assert_eq!(self.count(level) + detached_count, count + 1, "R1: entries lost in a split");
        debug_assert!(self.count(level) > 0 && detached_count > 0, "R1: a split leaves a node empty");
        if level > 1 {
            let slot = if path_is_left { i } else { i - kept_left };
            self.step_mut(level).slot = slot as u16;
        }
        debug_assert!(level == 1 || self.slot(level) < self.count(level), "R3: the path lost its child");
        let right = if path_is_left { self.detached_node(level) } else { self.node_mut(level) };
        Half { count: detached_count, separator: Key::of(shape.key(right, 0)), is_left: !path_is_left }
    }

    /// Moves one half of the path's node to its place in the detached page.
    fn detach_half(&mut self, level: u8, left_count: usize, left: bool) {
        let (shape, count) = (self.shape(level), self.count(level));
        debug_assert!(left_count <= count, "R1: {left_count} of {count} entries go left");
        self.detached.fill(0xff);
        let area = self.node_area(level);
        let detached_area = self.scheme.page_area(self.layout_at(level), level, self.height);
        let node = &mut self.buffer[area];
        let detached = &mut self.detached[detached_area];
        if left {
            shape.copy_entries((node, 0), left_count, (&shape, detached, 0));
            move_to_front(&shape, node, left_count, count - left_count);
        } else {
            shape.copy_entries((node, left_count), count - left_count, (&shape, detached, 0));
        }
    }

    /// Adds the half that was split off below to this level: see [`Nodes::enter_sibling`].
    fn enter(&mut self, level: u8, half: &Sibling) -> Option<Half> {
        let (shape, slot) = (self.shape(level), self.slot(level));
        debug_assert!(level > 1, "R2: a leaf has no child to enter");
        debug_assert!(slot < self.count(level), "R3: the path's entry {slot} of {}", self.count(level));
        let address = child_value::<S>(half.page, half.width);
        if half.is_left {
            // The old entry names the left half now; the new one is the path's.
            shape.set_value(self.node_mut(level), slot, &address);
            self.step_mut(level).slot += 1;
            self.add_entry(level, slot + 1, (&half.separator, &address))
        } else {
            self.add_off_path(level, slot + 1, (&half.separator, &address))
        }
    }

    /// Adds an entry that is not the path's. If the node is split, the path's slot is kept up to date.
    fn add_off_path(&mut self, level: u8, i: usize, entry: (&[u8], &[u8])) -> Option<Half> {
        debug_assert_eq!(i, self.slot(level) + 1, "the new entry is not the path's right neighbour");
        let count = self.count(level);
        if count < self.room(level) {
            return self.add_entry(level, i, entry);
        }
        let slot = self.slot(level);
        let left_count = (count + 1).div_ceil(2);
        let kept_left = if i < left_count { left_count - 1 } else { left_count };
        if (slot < kept_left) == (i < left_count) {
            let half = self.split_node(level, i, entry);
            self.step_mut(level).slot -= 1;
            return Some(half);
        }
        Some(self.split_apart(level, i, entry))
    }

    /// Splits a node between the path's entry (last of the left half) and the new one (first of the right
    /// half).
    fn split_apart(&mut self, level: u8, i: usize, entry: (&[u8], &[u8])) -> Half {
        let (shape, count) = (self.shape(level), self.count(level));
        debug_assert!(self.slot(level) + 1 == i && i < count, "the seam is not behind the path's entry");
        self.detach_half(level, i, false);
        shape.insert(self.detached_node(level), count - i, 0, entry);
        self.step_mut(level).count = i as u16;
        debug_assert!(self.slot(level) < self.count(level), "R3: the path lost its child in a split");
        Half { count: count - i + 1, separator: Key::of(entry.0), is_left: false }
    }
}

impl<N: Nand, S: RawScheme> Nodes<N, S> {
    /// Adds an entry to a node of the path. If the node is full it is split, and the half off the path is
    /// written.
    pub(super) fn add_entry(
        &mut self,
        level: u8,
        i: usize,
        entry: (&[u8], &[u8]),
    ) -> Result<Option<Sibling>, IndexFault> {
        let half = self.path.add_entry(level, i, entry);
        half.map(|half| self.write_half(level, half)).transpose()
    }

    /// Enters the half that a split below left over into the path's node at `level`, which may be split in
    /// turn. The path's own entry gets its child later, by [`Path::set_child`].
    pub(crate) fn enter_sibling(&mut self, level: u8, half: &Sibling) -> Result<Option<Sibling>, IndexFault> {
        let half = self.path.enter(level, half);
        half.map(|half| self.write_half(level, half)).transpose()
    }

    fn write_half(
        &mut self,
        level: u8,
        Half { count, separator, is_left }: Half,
    ) -> Result<Sibling, IndexFault> {
        let (layout, shape) = (self.path.layout_at(level), self.path.shape(level));
        debug_assert!(count > 0 && count <= shape.capacity, "R1: a half of {count} entries");
        debug_assert_eq!(separator.len(), usize::from(self.record.key_bytes), "a separator of another width");
        let half = &self.path.detached[self.path.scheme.page_area(layout, level, self.path.height)];
        let width = self.path.width(level, &shape, half, count);
        let page = self.write_detached(layout, level, count)?;
        self.counts.splits += 1;
        Ok(Sibling { separator, page, is_left, width })
    }

    /// Writes the node in the detached page, alone in a page of this layout.
    pub(crate) fn write_detached(&mut self, layout: u8, level: u8, count: usize) -> Result<Ppn, IndexFault> {
        debug_assert!((1..=self.path.height).contains(&level), "R2: level {level} of {}", self.path.height);
        let mut tag = Tag { layout, lowest_level: level, ..Tag::default() };
        tag.counts[usize::from(level) - 1] = count as u16;
        S::dress_half(&mut tag, &mut self.path.detached);
        let page = self.log.allocate(Cause::Host)?;
        self.log.write(page, tag, &self.path.detached, Cause::Host)?;
        Ok(page)
    }
}

/// Moves `count` entries from place `from` to the front of their node.
fn move_to_front(shape: &NodeShape, node: &mut [u8], from: usize, count: usize) {
    debug_assert!(from + count <= shape.capacity, "R1: {count} entries from {from}");
    let (k, v) = (shape.key_bytes, shape.value_bytes);
    node.copy_within(from * k..(from + count) * k, 0);
    let values = shape.capacity * k;
    node.copy_within(values + from * v..values + (from + count) * v, values);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordered::RecordFormat;
    use crate::ordered::path_log::wandering::OneNodePages;
    use alloc::vec::Vec;

    const RECORD: RecordFormat = RecordFormat { key_bytes: 4, value_bytes: 4 };

    /// A path whose leaf is full of even keys.
    fn full_leaf() -> Path<OneNodePages> {
        let mut path = Path::new(OneNodePages::of(64, RECORD).unwrap(), 128, 64);
        for i in 0..path.shape(1).capacity {
            path.insert(1, i, (&(2 * i as u32).to_be_bytes(), &[7; 4]));
        }
        path
    }

    fn keys(shape: &NodeShape, node: &[u8], count: usize) -> Vec<u32> {
        (0..count).map(|i| u32::from_be_bytes(shape.key(node, i).try_into().unwrap())).collect()
    }

    #[test]
    fn a_split_keeps_every_entry_and_divides_evenly() {
        let capacity = full_leaf().shape(1).capacity;
        for at in 0..=capacity {
            let mut path = full_leaf();
            // One key less than the next even one.
            let key = (2 * at as u32).saturating_sub(1);
            let half = path.add_entry(1, at, (&key.to_be_bytes(), &[8; 4])).unwrap();
            assert!(half.is_left, "a leaf's right half stays on the path");
            let shape = path.shape(1);
            let mut all = keys(&shape, &path.detached, half.count);
            assert_eq!(all.len(), (capacity + 1).div_ceil(2), "an entry at {at}");
            let right = keys(&shape, path.node(1), path.count(1));
            assert_eq!(right[0].to_be_bytes(), *half.separator);
            all.extend(right);
            let mut wanted: Vec<u32> = (0..capacity as u32).map(|i| 2 * i).collect();
            wanted.insert(at, key);
            assert_eq!(all, wanted, "an entry at {at}");
        }
    }
}
