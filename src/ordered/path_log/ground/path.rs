//! A path from the root in RAM: copies of its nodes, and where they came from.

use super::{RawScheme, RawTree, address, child_value, named_width, node_in};
use crate::check::Invariant;
use crate::fault::IndexFault;
use crate::log::SamePage;
use crate::log::tag::{LEVELS_MAX, Tag};
use crate::nand::{Cause, Nand};
use crate::ordered::node::NodeShape;
use crate::units::Ppn;
use alloc::vec::Vec;
use core::ops::{Deref, Range};

/// A path from the root, its nodes copied.
pub(crate) struct Path {
    pub(crate) buffer: Vec<u8>,
    steps: [Step; LEVELS_MAX],
    /// The level of the node in the buffer, where that holds one at a time.
    at_hand: u8,
    /// The key that nodes which are yet to be read again take for their lower bound, where that is less.
    lowered: Vec<u8>,
}

/// One node of a path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Step {
    /// Where the node was read.
    pub page: u32,
    /// The lowest level of a node in that page.
    pub lowest_level: u8,
    /// Entries in use.
    pub count: u16,
    /// The entry whose child is the next step.
    pub slot: u16,
    /// The layout whose shape the copy has.
    pub layout: u8,
    /// Whether the copy is kept aside, being too large for the path's layout.
    pub aside: bool,
    /// The greatest width below the nodes of the path up to this one, the path's own leaf aside; reckoned for
    /// insertions.
    pub width_beside: u8,
}

/// A key held in place: what is kept of one for the length of an update asks for no memory.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    bytes: [u8; u8::MAX as usize],
    len: u8,
}

impl Key {
    /// A copy of a key, which has at most 255 bytes.
    pub(crate) fn of(key: &[u8]) -> Key {
        let mut bytes = [0; u8::MAX as usize];
        bytes[..key.len()].copy_from_slice(key);
        Key { bytes, len: key.len() as u8 }
    }
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// A half that left the path and waits for its entry in the parent.
#[derive(Clone, Debug)]
pub struct Sibling {
    /// The first key of the right half.
    pub separator: Key,
    /// Where the half that is not on the path lies.
    pub page: Ppn,
    /// Whether that half is the left one.
    pub is_left: bool,
    /// The sibling's width.
    pub width: u8,
}

impl Path {
    /// A buffer of so many bytes, which may become so many without being moved.
    pub(crate) fn new(bytes: usize, most: usize) -> Path {
        let mut buffer = Vec::with_capacity(most.max(bytes));
        buffer.resize(bytes, 0xff);
        Path { buffer, steps: Default::default(), at_hand: 0, lowered: Vec::new() }
    }

    /// No copy counts any more.
    pub(crate) fn forget(&mut self) {
        self.steps = [Step { page: u32::MAX, ..Step::default() }; LEVELS_MAX];
        self.at_hand = 0;
    }

    /// Nodes above the one in the buffer take this key for their lower bound once they are read again.
    pub(super) fn lower_later(&mut self, key: &[u8]) {
        self.lowered.clear();
        self.lowered.extend_from_slice(key);
    }

    pub(crate) fn step(&self, level: u8) -> Step {
        debug_assert!((1..=LEVELS_MAX).contains(&usize::from(level)), "R2: level {level}");
        self.steps[usize::from(level) - 1]
    }

    pub(crate) fn step_mut(&mut self, level: u8) -> &mut Step {
        debug_assert!((1..=LEVELS_MAX).contains(&usize::from(level)), "R2: level {level}");
        &mut self.steps[usize::from(level) - 1]
    }

    /// The tag of a page with the nodes of the path from `lowest` to `top`.
    pub(crate) fn tag(&self, lowest: u8, top: u8) -> Tag {
        debug_assert!(1 <= lowest && lowest <= top, "R2: levels {lowest} to {top}");
        let mut counts = [0; LEVELS_MAX];
        for level in lowest..=top {
            counts[usize::from(level) - 1] = self.step(level).count;
        }
        debug_assert!(
            (lowest.max(2)..top).all(|level| self.step(level).count > 0),
            "R1: an empty inner node"
        );
        Tag { lowest_level: lowest, counts, ..Tag::default() }
    }
}

impl<N: Nand, S: RawScheme> RawTree<N, S> {
    /// Writes the path's node at `level` to a page of its own; the old one dies. For trees with one node in a
    /// page.
    pub(in crate::ordered) fn write_alone(
        &mut self,
        level: u8,
        is_root: bool,
        cause: Cause,
    ) -> Result<Ppn, IndexFault> {
        debug_assert!((1..=self.height).contains(&level), "R2: level {level} of {}", self.height);
        debug_assert!(!is_root || level == self.height, "R2: a root at level {level} of {}", self.height);
        self.retire(level);
        let page = self.log.allocate(cause)?;
        let tag = Tag { root: is_root, height: self.height, ..self.path.tag(level, level) };
        let area = self.scheme.path_area(0, level, self.height);
        self.log.write(page, tag, &self.path.buffer[area], cause)?;
        if is_root {
            (self.root, self.root_entries) = (page, self.path.step(level).count);
        }
        Ok(page)
    }

    pub(crate) fn shape(&self, level: u8) -> NodeShape {
        self.scheme.shape(self.layout_at(level), level, self.height)
    }

    /// The layout of the path's node at `level`: the path's, unless the node is aside.
    pub(crate) fn layout_at(&self, level: u8) -> u8 {
        if self.scheme.layouts() > 1 { self.path.step(level).layout } else { 0 }
    }

    /// Whether the path's node at `level` is kept aside.
    pub(crate) fn is_aside(&self, level: u8) -> bool {
        self.scheme.layouts() > 1 && self.path.step(level).aside
    }

    /// Where in the buffer the path's node at `level` is.
    pub(crate) fn node_area(&self, level: u8) -> Range<usize> {
        if self.is_aside(level) {
            return self.scheme.aside_area(level, self.height);
        }
        assert!(!self.scheme.holds_one() || self.path.at_hand == level, "level {level} is not at hand");
        self.scheme.path_area(self.path_layout, level, self.height)
    }

    /// Brings the path's node at `level` into the buffer, where that holds one at a time: nothing is to be
    /// written any more of the one that is there.
    pub(crate) fn fetch(&mut self, level: u8, cause: Cause) -> Result<(), IndexFault> {
        if !self.scheme.holds_one() || self.path.at_hand == level {
            return Ok(());
        }
        let (ppn, height) = (Ppn(self.path.step(level).page), self.height);
        let page = self.log.read(ppn, cause)?;
        let (shape, count) = node_in(&self.scheme, page.tag, (level, height), ppn)?;
        debug_assert_eq!(count, usize::from(self.path.step(level).count), "R1: another node at {ppn}");
        let area = self.scheme.path_area(0, level, height);
        self.path.buffer[area.clone()].copy_from_slice(page.data);
        self.path.at_hand = level;
        if !self.path.lowered.is_empty() && self.slot(level) == 0 {
            let node = &mut self.path.buffer[area];
            if self.path.lowered[..] < *shape.key(node, 0) {
                shape.set_key(node, 0, &self.path.lowered);
            }
        }
        Ok(())
    }

    /// A node comes into being at `level` of the path, in the place of one that is written, if that holds one
    /// at a time.
    pub(crate) fn make_room_for_node(&mut self, level: u8) -> &mut [u8] {
        self.path.at_hand = level;
        let node = self.node_mut(level);
        node.fill(0xff);
        node
    }

    /// The copy of the path's node at `level`.
    pub(crate) fn node(&self, level: u8) -> &[u8] {
        &self.path.buffer[self.node_area(level)]
    }

    pub(crate) fn node_mut(&mut self, level: u8) -> &mut [u8] {
        let area = self.node_area(level);
        &mut self.path.buffer[area]
    }

    pub(crate) fn count(&self, level: u8) -> usize {
        usize::from(self.path.step(level).count)
    }

    pub(crate) fn slot(&self, level: u8) -> usize {
        usize::from(self.path.step(level).slot)
    }

    /// Makes the path's child at `level` the one at `page`.
    pub(crate) fn set_child(&mut self, level: u8, page: Ppn) {
        debug_assert!(level > 1, "R2: a leaf has no children");
        let (shape, slot) = (self.shape(level), self.slot(level));
        debug_assert!(slot < self.count(level), "R3: the path's entry {slot} of {}", self.count(level));
        let below = level - 1;
        let width = match self.scheme.layouts() {
            1 => 0,
            _ => self.width(below, &self.shape(below), self.node(below), self.count(below)),
        };
        shape.set_value(self.node_mut(level), slot, &child_value::<S>(page, width));
    }

    /// The width of a node: of a leaf, the first layout whose leaves hold as many entries; of an inner node,
    /// the greatest of the nodes below.
    ///
    /// An inner node never holds more entries than an inner node of the layout of its width. So every path
    /// fits into one page, that of the layout of its leaf's width if of no other, and moving a page or
    /// removing a record never splits a node.
    pub(crate) fn width(&self, level: u8, shape: &NodeShape, node: &[u8], count: usize) -> u8 {
        width_of(&self.scheme, level, shape, node, count)
    }

    /// The width that an inner node names for one of its children.
    pub(crate) fn width_of_child(&self, shape: &NodeShape, node: &[u8], i: usize) -> u8 {
        named_width::<S>(shape.value(node, i))
    }

    /// The layout whose capacity the path's node at `level` may not exceed.
    pub(crate) fn limit_at(&self, level: u8) -> u8 {
        if self.scheme.layouts() > 1 { self.path_layout.max(self.path.step(level).width_beside) } else { 0 }
    }

    /// Entries that the path's node at `level`, not being the root, may hold.
    pub(crate) fn limit(&self, level: u8) -> usize {
        self.scheme.shape(self.limit_at(level), level, self.height).capacity
    }

    /// Entries with which the path's root stays as it is.
    pub(crate) fn root_limit(&self) -> usize {
        self.scheme.root_entries_max(self.limit_at(self.height), self.height)
    }

    /// Copies the path to the node at level `lowest` where `key` belongs.
    pub(super) fn copy_path(&mut self, key: &[u8], lowest: u8, cause: Cause) -> Result<(), IndexFault> {
        debug_assert!((1..=self.height).contains(&lowest), "R2: level {lowest} of {}", self.height);
        self.path_layout = self.scheme.layout_wanted(self.height);
        self.copy_node(self.root, self.height, cause)?;
        self.copy_path_from(self.height, key, lowest, cause)
    }

    /// Copies a path whose nodes down to `from` are copied already.
    pub(super) fn copy_path_from(
        &mut self,
        from: u8,
        key: &[u8],
        lowest: u8,
        cause: Cause,
    ) -> Result<(), IndexFault> {
        debug_assert!(from <= self.height, "R2: level {from} of {}", self.height);
        for level in (lowest + 1..=from).rev() {
            let (shape, count) = (self.shape(level), self.count(level));
            let slot = shape.child_slot(self.node(level), count, key);
            debug_assert!(slot < count, "R3: child {slot} of {count}");
            self.path.step_mut(level).slot = slot as u16;
            let child = address::<S>(shape.value(self.node(level), slot));
            self.copy_node(child, level - 1, cause)?;
            if S::MAPS_MOVES && level > 2 {
                self.take_over_bound(level);
            }
        }
        Ok(())
    }

    /// Gives the copied child of the path's node at `level` the first bound that its parent names, which may
    /// have become lower since the child was written, when another child went.
    fn take_over_bound(&mut self, level: u8) {
        let bound = self.shape(level).key(self.node(level), self.slot(level));
        let child = self.shape(level - 1);
        if child.key(self.node(level - 1), 0) != bound {
            let bound = Key::of(bound);
            child.set_key(self.node_mut(level - 1), 0, &bound);
        }
    }

    /// Copies one node into its place in the path. A leaf is read where the journal says it is.
    pub(super) fn copy_node(&mut self, ppn: Ppn, level: u8, cause: Cause) -> Result<(), IndexFault> {
        debug_assert!((1..=self.height).contains(&level), "R2: level {level} of {}", self.height);
        let ppn = if level < self.height { self.resolve(level, ppn) } else { ppn };
        if !self.log.is_valid(ppn) {
            return Err(IndexFault::broken(Invariant::R5, "a page that can be reached is not valid", ppn.0));
        }
        self.copy_node_at(ppn, level, cause)
    }

    /// Copies the node that is in this page into its place in the path, whether the page is valid or not.
    pub(super) fn copy_node_at(&mut self, ppn: Ppn, level: u8, cause: Cause) -> Result<(), IndexFault> {
        if S::MAPS_MOVES && self.moves.keeps(level, self.height) && self.path.step(level).page == ppn.0 {
            return Ok(());
        }
        let is_same_page = level < self.height && self.path.step(level + 1).page == ppn.0;
        let at_hand = is_same_page && self.log.config().same_page == SamePage::Free;
        let page = if at_hand { self.log.again(ppn, cause)? } else { self.log.read(ppn, cause)? };
        let tag = page.tag;
        let (shape, count) = node_in(&self.scheme, tag, (level, self.height), ppn)?;
        let node = &page.data[self.scheme.page_area(tag.layout, level, self.height)];
        let mut step = Step {
            page: ppn.0,
            lowest_level: tag.lowest_level,
            count: count as u16,
            layout: tag.layout,
            ..Step::default()
        };
        self.path.at_hand = level;
        if level == self.height {
            self.path.lowered.clear();
        }
        let area = self.scheme.path_area(self.path_layout, level, self.height);
        if self.scheme.layouts() == 1 || tag.layout == self.path_layout {
            self.path.buffer[area].copy_from_slice(node);
        } else if self.scheme.fits(self.path_layout, (level, self.height), count) {
            let place = &mut self.path.buffer[area];
            place.fill(0xff);
            step.layout = self.path_layout;
            let into = self.scheme.shape(self.path_layout, level, self.height);
            shape.copy_entries((node, 0), count, (&into, place, 0));
        } else {
            step.aside = true;
            let area = self.scheme.aside_area(level, self.height);
            self.path.buffer[area][..node.len()].copy_from_slice(node);
        }
        debug_assert!(
            step.aside || usize::from(step.layout) == usize::from(self.path_layout),
            "R8: a copy of another layout"
        );
        *self.path.step_mut(level) = step;
        Ok(())
    }
}

/// See [`RawTree::width`].
pub(super) fn width_of<S: RawScheme>(
    scheme: &S,
    level: u8,
    shape: &NodeShape,
    node: &[u8],
    count: usize,
) -> u8 {
    match (scheme.layouts(), level) {
        (1, _) => 0,
        (_, 1) => scheme.width_of_leaf(count),
        _ => (0..count).map(|i| named_width::<S>(shape.value(node, i))).max().unwrap_or(0),
    }
}
