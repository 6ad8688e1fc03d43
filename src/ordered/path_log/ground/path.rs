//! A path from the root in RAM: copies of its nodes, and their pages.

use super::journal::Journal;
use super::moves::Moves;
use super::{Leaf, LeafUse, Nodes, RawScheme, address, child_value, named_width};
use crate::check::Invariant;
use crate::fault::IndexFault;
use crate::log::tag::{LEVELS_MAX, Tag};
use crate::log::{Page, SamePage};
use crate::nand::{Cause, Nand};
use crate::ordered::key::Key;
use crate::ordered::node::NodeShape;
use crate::units::Ppn;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::ops::Range;

/// Path from the root with its nodes copied, and the layout of nodes in a tree of this height.
pub(crate) struct Path<S> {
    pub(crate) scheme: S,
    pub(crate) height: u8,
    /// Number of the root's entries; the largest possible number until one root is written.
    pub(crate) root_entries: u16,
    /// Layout of the path in the buffer.
    pub(crate) layout: u8,
    pub(crate) buffer: Vec<u8>,
    steps: [Step; LEVELS_MAX],
    /// Level of the node in the buffer, in a tree that holds one node at a time.
    at_hand: u8,
    /// Key that lowers the bounds of nodes which are yet to be read again, if it is below them.
    lowered: Vec<u8>,
    /// Page of a half that is not on the path.
    pub(crate) detached: Vec<u8>,
}

/// One node of a path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Step {
    /// Page from which the node was read.
    pub page: u32,
    /// Lowest level of a node in that page.
    pub lowest_level: u8,
    /// Number of entries in use.
    pub count: u16,
    /// Entry whose child is the next step.
    pub slot: u16,
    /// Layout whose shape the copy has.
    pub layout: u8,
    /// True if the copy is kept aside because it is too large for the path's layout.
    pub aside: bool,
    /// Greatest width below the nodes of the path up to this one, not counting the path's own leaf. Computed
    /// for insertions only.
    pub width_beside: u8,
}

/// Half that left the path and waits for its entry in the parent.
#[derive(Clone, Debug)]
pub struct Sibling {
    /// First key of the right half.
    pub separator: Key,
    /// Page of the half that is not on the path.
    pub page: Ppn,
    /// True if the split-off half is the left one.
    pub is_left: bool,
    /// Width of the half.
    pub width: u8,
}

impl<S: RawScheme> Path<S> {
    /// Makes a path in a tree of one level. Its buffer may grow to `most` bytes without being moved.
    pub(crate) fn new(scheme: S, most: usize, page_bytes: usize) -> Path<S> {
        let mut buffer = Vec::with_capacity(most);
        buffer.resize(most.min(scheme.path_bytes(2)), 0xff);
        Path {
            scheme,
            height: 1,
            root_entries: u16::MAX,
            layout: 0,
            buffer,
            steps: Default::default(),
            at_hand: 0,
            lowered: Vec::new(),
            detached: vec![0xff; page_bytes],
        }
    }

    /// Starts again with a tree of this height and an empty buffer.
    pub(super) fn restart(&mut self, height: u8) {
        (self.height, self.root_entries) = (height, u16::MAX);
        self.buffer.clear();
        self.forget();
    }

    pub(crate) fn forget(&mut self) {
        self.steps = [Step { page: u32::MAX, ..Step::default() }; LEVELS_MAX];
        self.at_hand = 0;
    }

    /// Lowers the bounds of the nodes above the one in the buffer to this key, once they are read again.
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

    /// Tag of a page with the nodes of the path from level `lowest` to `top`.
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

impl<S: RawScheme> Path<S> {
    pub(crate) fn shape(&self, level: u8) -> NodeShape {
        self.scheme.shape(self.layout_at(level), level, self.height)
    }

    /// Layout of the path's node at `level`: that of the path, unless the node is aside.
    pub(crate) fn layout_at(&self, level: u8) -> u8 {
        if self.scheme.layouts() > 1 { self.step(level).layout } else { 0 }
    }

    /// True if the path's node at `level` is kept aside.
    pub(crate) fn is_aside(&self, level: u8) -> bool {
        self.scheme.layouts() > 1 && self.step(level).aside
    }

    /// Place of the path's node at `level` in the buffer.
    pub(crate) fn node_area(&self, level: u8) -> Range<usize> {
        if self.is_aside(level) {
            return self.scheme.aside_area(level, self.height);
        }
        assert!(!self.scheme.holds_one() || self.at_hand == level, "level {level} is not at hand");
        self.scheme.path_area(self.layout, level, self.height)
    }

    /// Makes an empty node at `level` of the path. In a buffer for one node it takes the place of a node that
    /// is already written.
    pub(crate) fn make_room_for_node(&mut self, level: u8) -> &mut [u8] {
        self.at_hand = level;
        let node = self.node_mut(level);
        node.fill(0xff);
        node
    }

    /// Copy of the path's node at `level`.
    pub(crate) fn node(&self, level: u8) -> &[u8] {
        &self.buffer[self.node_area(level)]
    }

    pub(crate) fn node_mut(&mut self, level: u8) -> &mut [u8] {
        let area = self.node_area(level);
        &mut self.buffer[area]
    }

    pub(crate) fn count(&self, level: u8) -> usize {
        usize::from(self.step(level).count)
    }

    pub(crate) fn slot(&self, level: u8) -> usize {
        usize::from(self.step(level).slot)
    }

    /// Makes `page` the path's child at `level`.
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

    /// Width of a node. For a leaf, the first layout whose leaves hold as many entries; for an inner node,
    /// the greatest width of the nodes below.
    ///
    /// An inner node never holds more entries than an inner node of the layout of its width. So every path
    /// fits into one page, at the latest in the layout of its leaf's width, and moving a page or removing a
    /// record never splits a node.
    pub(crate) fn width(&self, level: u8, shape: &NodeShape, node: &[u8], count: usize) -> u8 {
        match (self.scheme.layouts(), level) {
            (1, _) => 0,
            (_, 1) => self.scheme.width_of_leaf(count),
            _ => (0..count).map(|i| self.width_of_child(shape, node, i)).max().unwrap_or(0),
        }
    }

    /// Width that an inner node names for one of its children.
    pub(crate) fn width_of_child(&self, shape: &NodeShape, node: &[u8], i: usize) -> u8 {
        named_width::<S>(shape.value(node, i))
    }

    /// Finds the node at `level` in a page: its shape, its number of entries and its bytes. An error if it
    /// makes no sense.
    pub(super) fn node_in<'p>(
        &self,
        page: Page<'p>,
        level: u8,
        ppn: Ppn,
    ) -> Result<(NodeShape, usize, &'p [u8]), IndexFault> {
        let (tag, height) = (page.tag, self.height);
        debug_assert!((1..=height).contains(&level), "R2: level {level} of a tree of height {height}");
        if tag.layout >= self.scheme.layouts() {
            return Err(IndexFault::corrupted("a page of a layout that this tree does not use", ppn.0));
        }
        let shape = self.scheme.shape(tag.layout, level, height);
        let count = usize::from(tag.counts[usize::from(level) - 1]);
        if tag.lowest_level > level || count > shape.capacity || (count == 0 && level > 1) {
            return Err(IndexFault::broken(Invariant::R1, "an impossible entry count", ppn.0));
        }
        Ok((shape, count, &page.data[self.scheme.page_area(tag.layout, level, height)]))
    }

    /// Layout whose capacity the path's node at `level` may not exceed.
    pub(crate) fn limit_at(&self, level: u8) -> u8 {
        if self.scheme.layouts() > 1 { self.layout.max(self.step(level).width_beside) } else { 0 }
    }

    /// Largest number of entries of the path's node at `level`, which is not the root.
    pub(crate) fn limit(&self, level: u8) -> usize {
        self.scheme.shape(self.limit_at(level), level, self.height).capacity
    }

    /// Largest number of entries with which the path's root stays as it is.
    pub(crate) fn root_limit(&self) -> usize {
        self.scheme.root_entries_max(self.limit_at(self.height), self.height)
    }

    /// Gives the copied child of the path's node at `level` the first bound that its parent names. That may
    /// have become lower since the child was written, after another child was removed.
    fn take_over_bound(&mut self, level: u8) {
        let bound = self.shape(level).key(self.node(level), self.slot(level));
        let child = self.shape(level - 1);
        if child.key(self.node(level - 1), 0) != bound {
            let bound = Key::of(bound);
            child.set_key(self.node_mut(level - 1), 0, &bound);
        }
    }

    /// Child that the path's node at `level` names at its slot.
    pub(super) fn named_child(&self, level: u8) -> Ppn {
        self.named(level, self.slot(level))
    }

    /// Child that entry `i` of the path's node at `level` names.
    pub(super) fn named(&self, level: u8, i: usize) -> Ppn {
        address::<S>(self.shape(level).value(self.node(level), i))
    }

    /// Adds an entry to the node at `level`, which must have room for it.
    pub(super) fn insert(&mut self, level: u8, i: usize, entry: (&[u8], &[u8])) {
        let (shape, count) = (self.shape(level), self.count(level));
        shape.insert(self.node_mut(level), count, i, entry);
        self.step_mut(level).count += 1;
    }

    /// Removes an entry of the node at `level`.
    pub(super) fn remove(&mut self, level: u8, i: usize) {
        let (shape, count) = (self.shape(level), self.count(level));
        shape.remove(self.node_mut(level), count, i);
        self.step_mut(level).count -= 1;
    }

    /// Place of a key in the copied leaf; `Err` with the place that it would have.
    pub(super) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        self.shape(1).search(self.node(1), self.count(1), key)
    }

    /// Makes room for a new root above one that is split.
    pub(super) fn make_room_to_grow(&mut self) {
        self.buffer.resize(self.scheme.path_bytes(self.height + 1), 0xff);
    }

    /// True if a new entry in the leaf would split every node, up to a root that can neither take an entry
    /// nor grow.
    pub(crate) fn root_would_overflow(&self) -> bool {
        self.height >= self.scheme.height_max(self.limit_at(self.height))
            && self.count(self.height) >= self.root_limit()
            && (1..self.height).all(|level| self.count(level) == self.limit(level))
    }

    /// Number of insertions before the root may be full in a tree that cannot grow, whatever their keys. Each
    /// adds at most one node to each level, and new nodes hold half of their capacity.
    pub(super) fn room_below_root(&self) -> u64 {
        let layouts = 0..self.scheme.layouts();
        let height_max = layouts.clone().map(|layout| self.scheme.height_max(layout)).min().unwrap_or(1);
        let root_max = |height| {
            let entries = layouts.clone().map(|layout| self.scheme.root_entries_max(layout, height));
            entries.min().unwrap_or(0) as u64
        };
        let height = self.height;
        let nodes = match height.cmp(&height_max) {
            Ordering::Greater => 0,
            // Free entries of the root.
            Ordering::Equal => root_max(height).saturating_sub(self.root_entries.into()),
            // The root is one node of its level, among as many as a tree of the greatest height has.
            Ordering::Less => {
                let half = |level| (self.scheme.shape(0, level, height_max).capacity / 2).max(1) as u64;
                let nodes =
                    (height + 1..height_max).map(half).fold(root_max(height_max), u64::saturating_mul);
                nodes.saturating_sub(1)
            }
        };
        // If pages have several layouts, a path that changes its layout may divide further nodes.
        nodes / u64::from(layouts.end)
    }
}

impl<N: Nand, S: RawScheme> Nodes<N, S> {
    /// Brings the path's node at `level` into a buffer for one node. The node that is there must not have to
    /// be written any more.
    pub(crate) fn fetch(&mut self, level: u8, cause: Cause) -> Result<(), IndexFault> {
        if !self.path.scheme.holds_one() || self.path.at_hand == level {
            return Ok(());
        }
        let (ppn, height) = (Ppn(self.path.step(level).page), self.path.height);
        let page = self.log.read(ppn, cause)?;
        let (shape, count, _) = self.path.node_in(page, level, ppn)?;
        debug_assert_eq!(count, usize::from(self.path.step(level).count), "R1: another node at {ppn}");
        let area = self.path.scheme.path_area(0, level, height);
        self.path.buffer[area.clone()].copy_from_slice(page.data);
        self.path.at_hand = level;
        if !self.path.lowered.is_empty() && self.path.slot(level) == 0 {
            let node = &mut self.path.buffer[area];
            if self.path.lowered[..] < *shape.key(node, 0) {
                shape.set_key(node, 0, &self.path.lowered);
            }
        }
        Ok(())
    }

    /// Copies the path down to the node at level `lowest` where `key` belongs.
    pub(super) fn copy_path(&mut self, key: &[u8], lowest: u8, cause: Cause) -> Result<(), IndexFault> {
        debug_assert!((1..=self.path.height).contains(&lowest), "R2: level {lowest} of {}", self.path.height);
        self.path.layout = self.path.scheme.layout_wanted(self.path.height);
        self.copy_node(self.root, self.path.height, cause)?;
        self.copy_path_from(self.path.height, key, lowest, cause)
    }

    /// Copies the rest of a path whose nodes down to level `from` are copied already.
    pub(super) fn copy_path_from(
        &mut self,
        from: u8,
        key: &[u8],
        lowest: u8,
        cause: Cause,
    ) -> Result<(), IndexFault> {
        debug_assert!(from <= self.path.height, "R2: level {from} of {}", self.path.height);
        for level in (lowest + 1..=from).rev() {
            let (shape, count) = (self.path.shape(level), self.path.count(level));
            let slot = shape.child_slot(self.path.node(level), count, key);
            debug_assert!(slot < count, "R3: child {slot} of {count}");
            self.path.step_mut(level).slot = slot as u16;
            let child = self.path.named(level, slot);
            self.copy_node(child, level - 1, cause)?;
            if S::MAPS_MOVES && level > 2 {
                self.path.take_over_bound(level);
            }
        }
        Ok(())
    }

    /// Copies one node into its place in the path. A leaf that the journal lists is read from its new page.
    pub(super) fn copy_node(&mut self, ppn: Ppn, level: u8, cause: Cause) -> Result<(), IndexFault> {
        debug_assert!((1..=self.path.height).contains(&level), "R2: level {level} of {}", self.path.height);
        let ppn = if level < self.path.height { self.resolve(level, ppn) } else { ppn };
        if !self.log.is_valid(ppn) {
            return Err(IndexFault::broken(Invariant::R5, "a page that can be reached is not valid", ppn.0));
        }
        self.copy_node_at(ppn, level, cause)
    }

    /// Copies the node in this page into its place in the path, whether the page is valid or not.
    pub(super) fn copy_node_at(&mut self, ppn: Ppn, level: u8, cause: Cause) -> Result<(), IndexFault> {
        if S::MAPS_MOVES && self.moves.keeps(level, self.path.height) && self.path.step(level).page == ppn.0 {
            return Ok(());
        }
        let is_same_page = level < self.path.height && self.path.step(level + 1).page == ppn.0;
        let at_hand = is_same_page && self.log.config().same_page == SamePage::Free;
        let page = if at_hand { self.log.again(ppn, cause)? } else { self.log.read(ppn, cause)? };
        let tag = page.tag;
        let (shape, count, node) = self.path.node_in(page, level, ppn)?;
        let mut step = Step {
            page: ppn.0,
            lowest_level: tag.lowest_level,
            count: count as u16,
            layout: tag.layout,
            ..Step::default()
        };
        self.path.at_hand = level;
        if level == self.path.height {
            self.path.lowered.clear();
        }
        let area = self.path.scheme.path_area(self.path.layout, level, self.path.height);
        if self.path.scheme.layouts() == 1 || tag.layout == self.path.layout {
            self.path.buffer[area].copy_from_slice(node);
        } else if self.path.scheme.fits(self.path.layout, (level, self.path.height), count) {
            let place = &mut self.path.buffer[area];
            place.fill(0xff);
            step.layout = self.path.layout;
            let into = self.path.scheme.shape(self.path.layout, level, self.path.height);
            shape.copy_entries((node, 0), count, (&into, place, 0));
        } else {
            step.aside = true;
            let area = self.path.scheme.aside_area(level, self.path.height);
            self.path.buffer[area][..node.len()].copy_from_slice(node);
        }
        debug_assert!(
            step.aside || usize::from(step.layout) == usize::from(self.path.layout),
            "R8: a copy of another layout"
        );
        *self.path.step_mut(level) = step;
        Ok(())
    }

    /// Finds a record without copying its path.
    pub(crate) fn look_up(
        &mut self,
        key: &[u8],
        value: Option<&mut [u8]>,
        cause: Cause,
    ) -> Result<bool, IndexFault> {
        let Nodes { log, path, journal, moves, .. } = self;
        let rereads = log.config().same_page == SamePage::Read;
        let (mut ppn, mut level, mut pages) = (self.root, path.height, 0);
        loop {
            let page = log.read(ppn, cause)?;
            pages += 1;
            loop {
                let (shape, count, node) = path.node_in(page, level, ppn)?;
                if level == 1 {
                    path.scheme.note_leaf(LeafUse::Read, Leaf { count, capacity: shape.capacity, pages });
                    let found = shape.search(node, count, key);
                    if let (Ok(i), Some(value)) = (found, value) {
                        value.copy_from_slice(shape.value(node, i));
                    }
                    return Ok(found.is_ok());
                }
                level -= 1;
                let named = address::<S>(shape.value(node, shape.child_slot(node, count, key)));
                let child = resolve::<S>(journal, moves, level, named);
                if child != ppn || rereads {
                    ppn = child;
                    break;
                }
            }
        }
    }

    /// Page of a node at `level` that its parent names as `named`.
    #[inline]
    pub(super) fn resolve(&self, level: u8, named: Ppn) -> Ppn {
        debug_assert!((1..=self.path.height).contains(&level), "R2: level {level} of {}", self.path.height);
        resolve::<S>(&self.journal, &self.moves, level, named)
    }
}

#[inline]
fn resolve<S: RawScheme>(journal: &Journal, moves: &Moves, level: u8, named: Ppn) -> Ppn {
    let named = if S::TAKES_JOURNAL && level == 1 { journal.resolve(named) } else { named };
    if S::MAPS_MOVES { moves.resolve(named) } else { named }
}
