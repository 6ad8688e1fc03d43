//! Insertion, removal and relocation: copy the path into the spine, change it there, write it.

use super::{MuTree, Path, Step, address, entry_count};
use crate::check::IndexError;
use crate::log::Log;
use crate::log::collect::{Need, Relocate, make_room};
use crate::log::tag::{LEVELS_MAX, Tag};
use crate::nand::{Cause, Nand};
use crate::ordered::node::NodeShape;
use crate::units::Ppn;
use alloc::vec::Vec;

/// Blocks that inserts leave free beyond what removals and collection need.
const INSERT_RESERVE_BLOCKS: u32 = 1;

/// A half that left the path and waits for its entry in the parent.
struct Sibling {
    /// The first key of the right half.
    separator: Vec<u8>,
    /// Where the half that is not on the path lies.
    page: Ppn,
    /// Whether that half is the left one.
    is_left: bool,
}

impl Path {
    pub(super) fn step(&self, level: u8) -> Step {
        self.steps[usize::from(level) - 1]
    }

    pub(super) fn step_mut(&mut self, level: u8) -> &mut Step {
        &mut self.steps[usize::from(level) - 1]
    }

    /// The tag of the spine when its lowest node is at `lowest` and its highest at `top`.
    fn tag(&self, lowest: u8, top: u8) -> Tag {
        let mut counts = [0; LEVELS_MAX];
        for level in lowest..=top {
            counts[usize::from(level) - 1] = self.step(level).count;
        }
        Tag { lowest_level: lowest, counts, ..Tag::default() }
    }
}

impl<N: Nand> MuTree<N> {
    pub(super) fn shape(&self, level: u8) -> NodeShape {
        self.layout.shape(level, self.height)
    }

    /// The node at `level` of the spine.
    pub(super) fn node(&self, level: u8) -> &[u8] {
        &self.path.spine[self.layout.area(level, self.height)]
    }

    pub(super) fn node_mut(&mut self, level: u8) -> &mut [u8] {
        &mut self.path.spine[self.layout.area(level, self.height)]
    }

    pub(super) fn count(&self, level: u8) -> usize {
        usize::from(self.path.step(level).count)
    }

    /// Copies the path to the node at level `lowest` where `key` belongs into the spine.
    fn copy_path(&mut self, key: &[u8], lowest: u8, cause: Cause) -> Result<(), IndexError> {
        let (mut ppn, mut level) = (self.root, self.height);
        loop {
            self.copy_node(ppn, level, cause)?;
            if level == lowest {
                return Ok(());
            }
            let (shape, count) = (self.shape(level), self.count(level));
            let slot = shape.child_slot(self.node(level), count, key);
            self.path.step_mut(level).slot = slot as u16;
            ppn = address(shape.value(self.node(level), slot));
            level -= 1;
        }
    }

    /// Copies one node into its place in the spine.
    pub(super) fn copy_node(&mut self, ppn: Ppn, level: u8, cause: Cause) -> Result<(), IndexError> {
        let at_hand = level < self.height && self.path.step(level + 1).page == ppn.0;
        let page = if at_hand { self.log.again(ppn, cause)? } else { self.log.read(ppn, cause)? };
        let capacity = self.layout.shape(level, self.height).capacity;
        let count = entry_count(&page.tag, level, capacity, ppn)?;
        let area = self.layout.area(level, self.height);
        self.path.spine[area.clone()].copy_from_slice(&page.data[area]);
        *self.path.step_mut(level) =
            Step { page: ppn.0, lowest_level: page.tag.lowest_level, count: count as u16, slot: 0 };
        Ok(())
    }

    pub(super) fn insert_entry(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        let pages = u32::from(self.height) + 2;
        make_room(self, Need { pages, free_blocks: INSERT_RESERVE_BLOCKS })?;
        self.copy_path(key, 1, Cause::Host)?;
        let (shape, count) = (self.shape(1), self.count(1));
        let found = shape.search(self.node(1), count, key);
        if found.is_err() && self.root_would_overflow() {
            return Err(IndexError::Full);
        }
        self.interrupted = true;
        self.retire_path(1);
        match found {
            Ok(i) => {
                shape.set_value(self.node_mut(1), i, value);
                self.write_spine(1, Cause::Host)?;
            }
            Err(i) => {
                self.lower_bounds(key);
                let sibling = self.add_entry(1, i, (key, value))?;
                self.add_siblings(sibling)?;
                self.write_spine(1, Cause::Host)?;
            }
        }
        self.end_update()?;
        Ok(found.is_ok())
    }

    /// Whether splits up to the root would fill a root that cannot grow.
    fn root_would_overflow(&self) -> bool {
        self.height == self.layout.height_max()
            && self.count(self.height) + 1 >= self.shape(self.height).capacity
    }

    /// Every node of the path from `lowest` up is about to be replaced: pages that begin with one of them die.
    fn retire_path(&mut self, lowest: u8) {
        for level in lowest..=self.height {
            let step = self.path.step(level);
            if step.lowest_level == level {
                self.log.invalidate(Ppn(step.page));
            }
        }
    }

    /// Keeps the entries of the path lower bounds of what lies below them, for a new key.
    fn lower_bounds(&mut self, key: &[u8]) {
        for level in 2..=self.height {
            let (shape, slot) = (self.shape(level), usize::from(self.path.step(level).slot));
            if slot == 0 && key < shape.key(self.node(level), 0) {
                shape.set_key(self.node_mut(level), 0, key);
            }
        }
    }

    /// Adds an entry to a node of the path. When the node is full it is split, and the half off the path written.
    fn add_entry(
        &mut self,
        level: u8,
        i: usize,
        entry: (&[u8], &[u8]),
    ) -> Result<Option<Sibling>, IndexError> {
        let (shape, count) = (self.shape(level), self.count(level));
        if count < shape.capacity {
            shape.insert(self.node_mut(level), count, i, entry);
            self.path.step_mut(level).count += 1;
            return Ok(None);
        }
        self.split_node(level, i, entry).map(Some)
    }

    /// Splits a full node that takes one more entry at place `i`: the first ceil((d+1)/2) entries go left. A leaf's right
    /// half stays on the path, and of an inner node the half with the path's child.
    fn split_node(&mut self, level: u8, i: usize, entry: (&[u8], &[u8])) -> Result<Sibling, IndexError> {
        let (shape, count) = (self.shape(level), self.count(level));
        let left_count = (count + 1).div_ceil(2);
        let entry_is_left = i < left_count;
        // Entries of the full node that go left, so that the left half has `left_count` once the new entry is in.
        let kept_left = if entry_is_left { left_count - 1 } else { left_count };
        let path_is_left = level > 1 && entry_is_left;
        self.detach_half(level, kept_left, !path_is_left);
        let (node_count, detached_count) =
            if path_is_left { (kept_left, count - kept_left) } else { (count - kept_left, kept_left) };
        self.path.step_mut(level).count = node_count as u16;
        let mut detached_count = detached_count;
        let at = if entry_is_left { i } else { i - kept_left };
        if entry_is_left == path_is_left {
            shape.insert(self.node_mut(level), node_count, at, entry);
            self.path.step_mut(level).count += 1;
        } else {
            let area = self.layout.area(level, self.height);
            shape.insert(&mut self.detached[area], detached_count, at, entry);
            detached_count += 1;
        }
        if level > 1 {
            let slot = if path_is_left { i } else { i - kept_left };
            self.path.step_mut(level).slot = slot as u16;
        }
        let right = if path_is_left { &self.detached[self.layout.area(level, self.height)] } else { self.node(level) };
        let separator = shape.key(right, 0).to_vec();
        let page = self.write_detached(level, detached_count)?;
        Ok(Sibling { separator, page, is_left: !path_is_left })
    }

    /// Moves one half of a node of the spine to the same place in the detached page.
    fn detach_half(&mut self, level: u8, left_count: usize, left: bool) {
        let (shape, count) = (self.shape(level), self.count(level));
        let area = self.layout.area(level, self.height);
        self.detached.fill(0xff);
        let node = &mut self.path.spine[area.clone()];
        let detached = &mut self.detached[area];
        if left {
            shape.copy_entries((node, 0), left_count, (&shape, detached, 0));
            move_to_front(&shape, node, left_count, count - left_count);
        } else {
            shape.copy_entries((node, left_count), count - left_count, (&shape, detached, 0));
        }
    }

    fn write_detached(&mut self, level: u8, count: usize) -> Result<Ppn, IndexError> {
        let mut tag = Tag { lowest_level: level, ..Tag::default() };
        tag.counts[usize::from(level) - 1] = count as u16;
        let page = self.log.allocate(Cause::Host)?;
        self.log.write(page, tag, &self.detached, Cause::Host)?;
        Ok(page)
    }

    /// Enters the half that left the path into the parent, and so on upwards while nodes are split.
    fn add_siblings(&mut self, mut sibling: Option<Sibling>) -> Result<(), IndexError> {
        let mut level = 2;
        while let Some(half) = sibling {
            assert!(level <= self.height, "the root is split before it overflows");
            let shape = self.shape(level);
            let slot = usize::from(self.path.step(level).slot);
            let address = half.page.0.to_le_bytes();
            if half.is_left {
                // The entry so far names the left half now; the new one is the path's.
                shape.set_value(self.node_mut(level), slot, &address);
                self.path.step_mut(level).slot += 1;
                sibling = self.add_entry(level, slot + 1, (&half.separator, &address))?;
            } else {
                sibling = self.add_off_path(level, slot + 1, (&half.separator, &address))?;
            }
            level += 1;
        }
        Ok(())
    }

    /// Adds an entry that is not the path's, keeping track of the path's slot when the node is split.
    fn add_off_path(
        &mut self,
        level: u8,
        i: usize,
        entry: (&[u8], &[u8]),
    ) -> Result<Option<Sibling>, IndexError> {
        let (shape, count) = (self.shape(level), self.count(level));
        if count < shape.capacity {
            return self.add_entry(level, i, entry);
        }
        let slot = usize::from(self.path.step(level).slot);
        let left_count = (count + 1).div_ceil(2);
        let kept_left = if i < left_count { left_count - 1 } else { left_count };
        if (slot < kept_left) == (i < left_count) {
            let sibling = self.split_node(level, i, entry)?;
            self.path.step_mut(level).slot -= 1;
            return Ok(Some(sibling));
        }
        self.split_apart(level, i, entry)
    }

    /// The seam falls between the path's entry (last of the left half) and the new one (first of the right half).
    fn split_apart(
        &mut self,
        level: u8,
        i: usize,
        entry: (&[u8], &[u8]),
    ) -> Result<Option<Sibling>, IndexError> {
        let (shape, count) = (self.shape(level), self.count(level));
        self.detach_half(level, i, false);
        let area = self.layout.area(level, self.height);
        shape.insert(&mut self.detached[area], count - i, 0, entry);
        self.path.step_mut(level).count = i as u16;
        let page = self.write_detached(level, count - i + 1)?;
        Ok(Some(Sibling { separator: entry.0.to_vec(), page, is_left: false }))
    }

    /// Writes the spine from `lowest` up; when the root has become full, grows the tree by a level.
    fn write_spine(&mut self, lowest: u8, cause: Cause) -> Result<(), IndexError> {
        let height = self.height;
        let full = self.count(height) == self.shape(height).capacity;
        let page = self.log.allocate(cause)?;
        for level in lowest + 1..=height {
            let (shape, slot) = (self.shape(level), usize::from(self.path.step(level).slot));
            shape.set_value(self.node_mut(level), slot, &page.0.to_le_bytes());
        }
        if full && height < self.layout.height_max() {
            return self.grow(lowest, page, cause);
        }
        let tag = Tag { root: true, height, ..self.path.tag(lowest, height) };
        self.log.write(page, tag, &self.path.spine, cause)?;
        self.root = page;
        Ok(())
    }

    /// Splits the full root into two inner nodes: the half on the path joins the spine, the other one shares a page with the
    /// new root (Algorithm 3, lines 4 to 12).
    fn grow(&mut self, lowest: u8, page: Ppn, cause: Cause) -> Result<(), IndexError> {
        let level = self.height;
        let (wide, half) = (self.shape(level), self.layout.shape(level, level + 1));
        let (count, slot) = (self.count(level), usize::from(self.path.step(level).slot));
        let middle = count / 2;
        let path_is_left = slot < middle;
        let root_node = self.node(level).to_vec();
        self.height += 1;
        let area = self.layout.area(level, self.height);
        let (kept, moved) = if path_is_left { (0, middle) } else { (middle, 0) };
        let kept_count = if path_is_left { middle } else { count - middle };
        wide.copy_entries((&root_node, kept), kept_count, (&half, &mut self.path.spine[area.clone()], 0));
        self.path.spine[..area.start].fill(0xff);
        self.detached.fill(0xff);
        wide.copy_entries((&root_node, moved), count - kept_count, (&half, &mut self.detached[area], 0));
        self.path.step_mut(level).count = kept_count as u16;
        let tag = self.path.tag(lowest, level);
        self.log.write(page, tag, &self.path.spine, cause)?;

        let root_page = self.log.allocate(cause)?;
        let (left, right) = if path_is_left { (page, root_page) } else { (root_page, page) };
        let top = self.shape(self.height);
        let root = &mut self.detached[self.layout.area(self.height, self.height)];
        top.insert(root, 0, 0, (wide.key(&root_node, 0), &left.0.to_le_bytes()));
        top.insert(root, 1, 1, (wide.key(&root_node, middle), &right.0.to_le_bytes()));
        let mut tag = Tag { root: true, height: self.height, lowest_level: level, ..Tag::default() };
        tag.counts[usize::from(level) - 1] = (count - kept_count) as u16;
        tag.counts[usize::from(level)] = 2;
        self.log.write(root_page, tag, &self.detached, cause)?;
        self.root = root_page;
        Ok(())
    }

    pub(super) fn remove_entry(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        let pages = u32::from(self.height) + 2;
        make_room(self, Need { pages, free_blocks: 0 })?;
        self.copy_path(key, 1, Cause::Host)?;
        let Ok(mut slot) = self.shape(1).search(self.node(1), self.count(1), key) else { return Ok(false) };
        self.interrupted = true;
        self.retire_path(1);
        let mut lowest = 1;
        loop {
            let (shape, count) = (self.shape(lowest), self.count(lowest));
            shape.remove(self.node_mut(lowest), count, slot);
            self.path.step_mut(lowest).count -= 1;
            if count > 1 || lowest == self.height {
                break;
            }
            lowest += 1;
            slot = usize::from(self.path.step(lowest).slot);
        }
        lowest = self.shrink(lowest)?;
        self.write_from(lowest)?;
        self.end_update()?;
        Ok(true)
    }

    /// While the root has one child only, the child becomes the root (Algorithm 5). Returns the lowest level in the spine.
    fn shrink(&mut self, mut lowest: u8) -> Result<u8, IndexError> {
        while self.height > 1 && self.count(self.height) == 1 {
            let child = address(self.shape(self.height).value(self.node(self.height), 0));
            let level = self.height - 1;
            if lowest == self.height {
                // The path ends at the root: its one child lies elsewhere and comes up from there.
                self.copy_node(child, level, Cause::Host)?;
                if self.path.step(level).lowest_level == level {
                    self.log.invalidate(child);
                }
                lowest = level;
            }
            let shape = self.shape(level);
            let node = self.node(level).to_vec();
            self.height = level;
            let root = self.shape(level);
            let count = self.count(level);
            let area = self.layout.area(level, level);
            shape.copy_entries((&node, 0), count, (&root, &mut self.path.spine[area], 0));
        }
        Ok(lowest)
    }

    /// Writes the spine after a removal: nodes below `lowest` are gone from it.
    fn write_from(&mut self, lowest: u8) -> Result<(), IndexError> {
        if lowest > 1 {
            // What lies below in the buffer was emptied or stands in other pages.
            let start = self.layout.area(lowest, self.height).end;
            self.path.spine[start..].fill(0xff);
        }
        self.write_spine(lowest, Cause::Host)
    }

    fn end_update(&mut self) -> Result<(), IndexError> {
        self.log.finish()?;
        if self.log.wants_checkpoint() {
            self.log.checkpoint()?;
        }
        self.interrupted = false;
        Ok(())
    }
}

/// Moves `count` entries from place `from` to the front of their node.
fn move_to_front(shape: &NodeShape, node: &mut [u8], from: usize, count: usize) {
    let (k, v) = (shape.key_bytes, shape.value_bytes);
    node.copy_within(from * k..(from + count) * k, 0);
    let values = shape.capacity * k;
    node.copy_within(values + from * v..values + (from + count) * v, values);
}

impl<N: Nand> Relocate<N> for MuTree<N> {
    fn log(&mut self) -> &mut Log<N> {
        &mut self.log
    }

    /// Rewrites the path to the page's lowest node, found by that node's first key.
    fn relocate(&mut self, ppn: Ppn) -> Result<(), IndexError> {
        let page = self.log.read(ppn, Cause::GarbageCollection)?;
        let level = page.tag.lowest_level;
        let mut reachable = false;
        if level == self.height && ppn == self.root {
            self.copy_node(ppn, level, Cause::GarbageCollection)?;
            reachable = true;
        } else if (1..self.height).contains(&level) {
            let shape = self.layout.shape(level, self.height);
            // An old root's page keeps its lowest node elsewhere; whatever is read there is no key that leads back here.
            let key = shape.key(&page.data[self.layout.area(level, self.height)], 0).to_vec();
            self.copy_path(&key, level, Cause::GarbageCollection)?;
            reachable = self.path.step(level).page == ppn.0;
        }
        self.interrupted = true;
        if reachable {
            self.retire_path(level);
            self.write_spine(level, Cause::GarbageCollection)?;
        } else {
            self.log.invalidate(ppn);
        }
        self.log.finish()?;
        self.interrupted = false;
        Ok(())
    }

    fn programs_per_move(&self) -> u32 {
        1
    }
}
