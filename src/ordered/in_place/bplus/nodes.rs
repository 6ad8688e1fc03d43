//! The nodes of a tree in RAM: those of a path, and others that an operation changes.
//!
//! [`Nodes`] knows no store: it only changes bytes in RAM.

use super::batch::{LeafSpan, NewLeaf};
use super::directory::Name;
use super::page::{Frame, HEIGHT_MAX, Layout, ROOT, corrupted};
use crate::check::Invariant;
use crate::codec::get_u32;
use crate::fault::IndexFault;
use crate::units::Lpn;
use alloc::vec::Vec;

pub(super) struct Nodes {
    pub(super) layout: Layout,
    /// Number of levels of the tree.
    pub(super) height: usize,
    /// Nodes of the last descent, root first. The list is longer than the tree is high after the tree shrank.
    pub(super) path: Vec<Frame>,
    /// New nodes and neighbours of the current operation. The first `extra_used` are in use.
    pub(super) extra: Vec<Frame>,
    pub(super) extra_used: usize,
}

/// Place of a node in RAM.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Path(usize),
    Extra(usize),
}

impl Nodes {
    pub(super) fn new(layout: Layout) -> Nodes {
        Nodes { layout, height: 1, path: Vec::new(), extra: Vec::new(), extra_used: 0 }
    }

    /// Forgets the operation before: its frames are free again.
    pub(super) fn begin(&mut self) {
        self.path.iter_mut().for_each(|frame| frame.is_dirty = false);
        self.extra.iter_mut().for_each(|frame| frame.is_dirty = false);
        self.extra_used = 0;
    }

    /// Bytes of RAM that the frames take.
    pub(super) fn held_bytes(&self) -> usize {
        let frames = self.path.iter().filter(|frame| !frame.is_lent()).count() + self.extra.len();
        frames * (self.layout.page_bytes + size_of::<Frame>())
    }

    /// Level of the nodes at this depth of the path.
    pub(super) fn level(&self, depth: usize) -> usize {
        debug_assert!(depth < self.height, "B5: depth {depth} of a tree of height {}", self.height);
        self.height - depth
    }

    pub(super) fn leaf(&self) -> &Frame {
        &self.path[self.height - 1]
    }

    pub(super) fn leaf_mut(&mut self) -> &mut Frame {
        &mut self.path[self.height - 1]
    }

    pub(super) fn at(&self, place: Place) -> &Frame {
        match place {
            Place::Path(depth) => &self.path[depth],
            Place::Extra(i) => &self.extra[i],
        }
    }

    /// Returns an extra frame that is not in use.
    pub(super) fn spare(&mut self) -> &mut Frame {
        frame_at(&mut self.extra, self.extra_used, &self.layout)
    }

    /// Marks the spare frame as used. Returns its index.
    pub(super) fn use_spare(&mut self) -> usize {
        self.extra_used += 1;
        self.extra_used - 1
    }

    /// Makes the spare frame a new node.
    pub(super) fn add_node(&mut self, lpn: Lpn, level: usize) -> usize {
        debug_assert!(lpn.0 > ROOT.0 && lpn.0 < self.layout.page_count, "B6: {lpn} cannot be a node");
        debug_assert!((1..=self.height).contains(&level), "B5: a new node at level {level}");
        self.spare().reset(lpn, level);
        self.use_spare()
    }

    /// Copies the leaf to an extra frame that will not be written. Returns its index.
    pub(super) fn copy_leaf(&mut self) -> usize {
        let leaf = self.height - 1;
        let copy = frame_at(&mut self.extra, self.extra_used, &self.layout);
        copy.copy_node(&self.path[leaf]);
        copy.is_dirty = false;
        self.use_spare()
    }

    /// Frames that the current operation changed: extra ones first, the root last.
    pub(super) fn dirty(&mut self) -> impl Iterator<Item = &mut Frame> {
        let extra = self.extra[..self.extra_used].iter_mut();
        extra.chain(self.path.iter_mut().rev()).filter(|frame| frame.is_dirty)
    }

    /// Gives entry `at` of the leaf a new value.
    pub(super) fn overwrite(&mut self, at: usize, value: &[u8]) {
        let shape = self.layout.leaf;
        let leaf = self.leaf_mut();
        debug_assert!(leaf.level() == 1 && at < leaf.count(), "B5: record {at} of {}", leaf.count());
        shape.set_value(leaf.area_mut(), at, value);
        leaf.is_dirty = true;
    }

    /// Entry for a new node in its parent: the node's first key and its page.
    pub(super) fn announcement(&self, extra: usize) -> ([u8; 255], [u8; 4]) {
        let node = &self.extra[extra];
        debug_assert!(node.count() > 0, "B4: a node without a first key is announced");
        debug_assert!(node.lpn().0 > ROOT.0, "B6: the root is announced as a child");
        let mut bound = [0; 255];
        let key = self.layout.shape(node.level()).key(node.area(), 0);
        bound[..key.len()].copy_from_slice(key);
        (bound, node.lpn().0.to_le_bytes())
    }

    /// Makes the root the parent of the new nodes in these extra frames.
    pub(super) fn put_root_above(&mut self, children: core::ops::Range<usize>) {
        debug_assert!(children.len() >= 2, "B4: a root of {} children", children.len());
        debug_assert!(self.height < HEIGHT_MAX, "B5: the tree is as high as can be");
        self.path[0].reset(ROOT, self.height + 1);
        for (i, child) in children.enumerate() {
            let (bound, child) = self.announcement(child);
            let internal = self.layout.internal;
            self.path[0].insert(&internal, i, (&bound[..internal.key_bytes], &child));
        }
        debug_assert_eq!(self.path[0].level(), self.height + 1, "B5: the root did not rise by one level");
        debug_assert!(self.path[0].count() >= 2, "B4: an internal root has two children at least");
    }

    /// Lets the root take over its only child. Returns the child's page, which is then free.
    #[must_use]
    pub(super) fn lower_root(&mut self, child: Place) -> Lpn {
        debug_assert_eq!(self.path[0].count(), 1, "B4: a root of several children is lowered");
        let (root, below) = self.path.split_at_mut(1);
        let child = match child {
            Place::Path(depth) => &mut below[depth - 1],
            Place::Extra(i) => &mut self.extra[i],
        };
        debug_assert_eq!(child.level() + 1, root[0].level(), "B5: the child is not one level below");
        root[0].copy_node(child);
        debug_assert_eq!(root[0].lpn(), ROOT, "the root never moves");
        child.is_dirty = false;
        child.lpn()
    }

    /// Height after the current operation.
    pub(super) fn height_now(&self) -> usize {
        // A root that lent its page of RAM did not change.
        let height = if self.path[0].is_lent() { self.height } else { self.path[0].level() };
        debug_assert!(
            (1..=self.height + 1).contains(&height),
            "B5: the tree rose from {} to {height}",
            self.height
        );
        height
    }

    /// Keys of the leaf at the end of the path and of its neighbours below the same parent: `before` leaves
    /// in front of it, and `after` leaves behind.
    pub(super) fn span_around_leaf(&self, before: usize, after: usize) -> LeafSpan {
        let internal = &self.layout.internal;
        let parents = &self.path[..self.height - 1];
        debug_assert!(parents.iter().all(|node| node.slot < node.count()), "B5: the path is not in RAM");
        let low = parents.iter().enumerate().rev().find_map(|(depth, node)| {
            let slot = node.slot - if depth + 1 == parents.len() { before } else { 0 };
            (slot > 0).then(|| internal.key(node.area(), slot).into())
        });
        let high = parents.iter().enumerate().rev().find_map(|(depth, node)| {
            let slot = node.slot + 1 + if depth + 1 == parents.len() { after } else { 0 };
            (slot < node.count()).then(|| internal.key(node.area(), slot).into())
        });
        LeafSpan { low, high }
    }

    /// Keys of the leaf at the end of the path to a key. An error if the key is not among them.
    pub(super) fn span_of_path(&self, key: &[u8]) -> Result<LeafSpan, IndexFault> {
        let span = self.span_around_leaf(0, 0);
        if span.contains(key) {
            Ok(span)
        } else {
            let found = "a key lies outside the bounds of the path to it";
            Err(corrupted(Invariant::B3, found, self.path[0].lpn()))
        }
    }

    /// Report of the leaf in an extra frame, for the index above the tree.
    pub(super) fn new_leaf(&self, extra: usize) -> NewLeaf {
        let node = &self.extra[extra];
        let low = Some(self.layout.leaf.key(node.area(), 0).into());
        NewLeaf { lpn: node.lpn(), low, entries: node.count() }
    }

    /// Smallest and largest number of entries that a leaf may have.
    pub(super) fn leaf_fill(&self) -> (usize, usize) {
        let least = if self.height == 1 { 0 } else { self.layout.fill_min(1) };
        debug_assert!(least <= self.layout.leaf.capacity, "B4: a leaf can never be full enough");
        (least, self.layout.leaf.capacity)
    }

    /// Upper bound of the pages that `leaf_splits` splits of leaves take in a tree of `used_pages` pages,
    /// whatever the nodes above them hold now.
    pub(super) fn pages_for_splits(&self, leaf_splits: u64, used_pages: u64) -> u64 {
        // Each node of a level splits at most once before it takes half a node of new children.
        let half = self.layout.half(2) as u64;
        debug_assert!(half >= 2, "B4: internal nodes of one child");
        let (mut splits, mut nodes) = (leaf_splits, used_pages);
        let mut needed = splits;
        for _ in 0..self.height {
            nodes = nodes / half + 1;
            splits = splits.min(nodes + splits / half);
            needed += splits;
        }
        // A root that splits takes a page more.
        needed + 2
    }

    /// The leaf named by the record at place `slot` of the directory's node, if there is one.
    pub(super) fn name_at(&self, slot: usize) -> Result<Option<Name>, IndexFault> {
        let (leaf, shape) = (self.leaf(), &self.layout.leaf);
        if slot >= leaf.count() {
            return Ok(None);
        }
        let low = Some(shape.key(leaf.area(), slot).into());
        let high = if slot + 1 < leaf.count() {
            Some(shape.key(leaf.area(), slot + 1).into())
        } else {
            self.span_around_leaf(0, 0).high
        };
        Ok(Some(Name { span: LeafSpan { low, high }, page: self.named_page(leaf, slot)?, slot }))
    }

    /// Page that a record of a directory names.
    pub(super) fn named_page(&self, leaf: &Frame, slot: usize) -> Result<Lpn, IndexFault> {
        self.leaf_page(get_u32(self.layout.leaf.value(leaf.area(), slot), 0))
    }

    /// Returns an error if a number cannot be the page of a leaf.
    pub(super) fn leaf_page(&self, number: u32) -> Result<Lpn, IndexFault> {
        if number > ROOT.0 && number < self.layout.page_count {
            Ok(Lpn(number))
        } else {
            Err(corrupted(Invariant::B6, "the page of a leaf cannot be one", Lpn(number)))
        }
    }

    /// Children of a node that these keys belong to, each with the number of its keys.
    pub(super) fn children_of(&self, place: Place, keys: &[&[u8]]) -> Result<Vec<(Lpn, usize)>, IndexFault> {
        let node = self.at(place);
        debug_assert!(node.count() > 0, "B4: an empty node has no child for a key");
        let (is_leaf, shape) = (node.level() == 1, self.layout.shape(node.level()));
        let mut children: Vec<(Lpn, usize)> = Vec::new();
        let mut last = None;
        for key in keys {
            let slot = shape.child_slot(node.area(), node.count(), key);
            match children.last_mut() {
                Some((_, count)) if last == Some(slot) => *count += 1,
                _ if is_leaf => children.push((self.named_page(node, slot)?, 1)),
                _ => children.push((self.layout.child(node, slot)?, 1)),
            }
            last = Some(slot);
        }
        debug_assert_eq!(
            children.iter().map(|child| child.1).sum::<usize>(),
            keys.len(),
            "a key without a child"
        );
        Ok(children)
    }

    /// Depth of the highest node in the row of full nodes right above the leaf; the leaf's depth if there are
    /// none.
    pub(super) fn highest_full(&self) -> usize {
        let full = |node: &&Frame| node.count() == self.layout.internal.capacity;
        let parents = &self.path[..self.height - 1];
        parents.len() - parents.iter().rev().take_while(full).count()
    }

    /// Depth of the highest node, in the row right above the leaf, that cannot do without an entry; the
    /// leaf's depth if its parent can. The root always can.
    pub(super) fn highest_meagre(&self) -> usize {
        let least = self.layout.internal.capacity / 2;
        let parents = self.path.get(1..self.height - 1).unwrap_or(&[]);
        let count = parents.iter().rev().take_while(|node| node.count() <= least).count();
        self.height - 1 - count
    }

    /// Makes sure that there are frames for a new neighbour of the node at `depth`, or for both halves of the
    /// root. They are taken from other nodes of the path, except the node and its parent.
    pub(super) fn borrow_frames(&mut self, depth: usize) {
        let wanted = self.extra_used + if depth == 0 { 2 } else { 1 };
        for at in (0..self.path.len()).rev().filter(|&at| at != depth && at + 1 != depth) {
            if self.extra.len() >= wanted {
                return;
            }
            let lender = &mut self.path[at];
            if !lender.is_lent() {
                let bytes = core::mem::take(&mut lender.bytes);
                self.extra.push(Frame { bytes, slot: 0, is_dirty: false });
                lender.is_dirty = false;
            }
        }
        while self.extra.len() < wanted {
            self.extra.push(self.layout.frame());
        }
    }

    /// Gives a frame of the path back the page of RAM that it lent, or another one that is not used.
    pub(super) fn give_back(&mut self, depth: usize) {
        let is_there = self.path.get(depth).is_some_and(|frame| !frame.is_lent());
        if is_there || self.extra.len() <= self.extra_used {
            if !is_there && depth < self.path.len() {
                self.path[depth] = self.layout.frame();
            }
            return;
        }
        let Some(frame) = self.extra.pop() else { return };
        match self.path.get_mut(depth) {
            Some(place) => *place = frame,
            None => self.path.push(frame),
        }
    }
}

/// Frame `i` of a pool that grows by need and never shrinks.
pub(super) fn frame_at<'a>(pool: &'a mut Vec<Frame>, i: usize, layout: &Layout) -> &'a mut Frame {
    while pool.len() <= i {
        pool.push(layout.frame());
    }
    &mut pool[i]
}
