//! Insertion and removal: the edits of an operation in RAM, and the one group of page writes that makes them
//! so.
//!
//! Each step up the path is decided by a small enum; nothing reaches the store before [`BPlusTree::finish`],
//! so an operation that runs out of pages is given up by forgetting what it did.

use super::BPlusTree;
use super::page::{self, Frame, HEIGHT_MAX, Layout, ROOT, SUPERBLOCK};
use super::rules::Underflow;
use super::staged::Staged;
use crate::check::IndexError;
use crate::fault::IndexFault;
use crate::nand::Cause;
use crate::ordered::Durability;
use crate::ordered::node::NodeShape;
use crate::store::{PageStore, write_batch};
use crate::units::Lpn;
use alloc::vec::Vec;

/// The outcome for a node that was to take one entry more.
enum Added {
    Fits,
    /// The node was split: the upper half is this extra frame, and its parent must be told.
    Split(usize),
}

/// The outcome for a node that had too few entries.
pub(super) enum Mended {
    /// A neighbour of the node lent some: the parent has as many entries as before.
    Lent,
    /// The node is one with its neighbour: the parent lost an entry.
    Merged(Place),
}

/// Where a node stands in RAM.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Path(usize),
    Extra(usize),
}

impl<S: PageStore> BPlusTree<S> {
    pub(super) fn level(&self, depth: usize) -> usize {
        debug_assert!(depth < self.height, "B5: depth {depth} of a tree of height {}", self.height);
        self.height - depth
    }

    /// Gives entry `at` of the leaf a new value.
    pub(super) fn overwrite(&mut self, at: usize, value: &[u8]) {
        let leaf = &mut self.path[self.height - 1];
        debug_assert!(leaf.level() == 1 && at < leaf.count(), "B5: record {at} of {}", leaf.count());
        self.layout.leaf.set_value(leaf.area_mut(), at, value);
        leaf.is_dirty = true;
    }

    /// Puts a record at place `at` of the leaf and splits what gets too full, from the leaf up.
    pub(super) fn add(&mut self, at: usize, key: &[u8], value: &[u8]) -> Result<(), IndexFault> {
        let depth = self.height - 1;
        debug_assert!(at <= self.path[depth].count(), "B2: place {at} beyond the leaf's end");
        match self.add_entry(depth, at, (key, value))? {
            Added::Fits => Ok(()),
            Added::Split(right) => self.announce(depth, right),
        }
    }

    /// Tells the parent of the node at `depth` of its new right neighbour, and splits what gets too full.
    pub(super) fn announce(&mut self, mut depth: usize, right: usize) -> Result<(), IndexFault> {
        let key_bytes = self.layout.internal.key_bytes;
        let mut step = Added::Split(right);
        while let Added::Split(right) = step {
            debug_assert!(depth > 0, "B5: the root has no parent to be told");
            debug_assert!(right < self.extra_used, "extra frame {right} is not of this operation");
            depth -= 1;
            let (bound, child) = self.announcement(right);
            let after = self.path[depth].slot + 1;
            step = self.add_entry(depth, after, (&bound[..key_bytes], &child))?;
        }
        Ok(())
    }

    /// The entry that the parent gets for a new node: its first key and its page.
    pub(super) fn announcement(&self, extra: usize) -> ([u8; 255], [u8; 4]) {
        let node = &self.extra[extra];
        debug_assert!(node.count() > 0, "B4: a node without a first key is announced");
        debug_assert!(node.lpn().0 > ROOT.0, "B6: the root is announced as a child");
        let mut bound = [0; 255];
        let key = self.layout.shape(node.level()).key(node.area(), 0);
        bound[..key.len()].copy_from_slice(key);
        (bound, node.lpn().0.to_le_bytes())
    }

    fn add_entry(&mut self, depth: usize, at: usize, entry: (&[u8], &[u8])) -> Result<Added, IndexFault> {
        let level = self.level(depth);
        debug_assert_eq!(self.path[depth].level(), level, "B5: another level in the path");
        let shape = self.layout.shape(level);
        if self.path[depth].count() < shape.capacity {
            self.path[depth].insert(&shape, at, entry);
            return Ok(Added::Fits);
        }
        if depth == 0 {
            self.raise_root(at, entry)?;
            return Ok(Added::Fits);
        }
        let right = self.new_node(level)?;
        let (node, new) = (&mut self.path[depth], &mut self.extra[right]);
        debug_assert!(new.level() == level && new.lpn() != node.lpn(), "B6: a node is split into itself");
        let is_kept_whole = divide((&self.layout, &shape), node, new, at, entry);
        self.is_kept_whole |= is_kept_whole;
        if !is_kept_whole {
            let pages = [self.path[depth].lpn(), self.extra[right].lpn(), self.path[depth - 1].lpn()];
            self.restructured(pages);
        }
        Ok(Added::Split(right))
    }

    /// Splits the full root: both halves go to new pages, below a root one level higher.
    fn raise_root(&mut self, at: usize, entry: (&[u8], &[u8])) -> Result<(), IndexFault> {
        let level = self.height;
        if level == self.layout.height_max() {
            return Err(IndexError::Full.into());
        }
        let shape = self.layout.shape(level);
        let (left, right) = (self.new_node(level)?, self.new_node(level)?);
        debug_assert_eq!(self.path[0].count(), shape.capacity, "B4: a root with room is raised");
        self.extra[left].copy_node(&self.path[0]);
        debug_assert!(left + 1 == right && right + 1 == self.extra_used, "the halves are not side by side");
        let (below, above) = self.extra.split_at_mut(right);
        self.is_kept_whole |= divide((&self.layout, &shape), &mut below[left], &mut above[0], at, entry);
        self.put_root_above(left..right + 1);
        self.restructured([self.extra[left].lpn(), self.extra[right].lpn(), ROOT]);
        Ok(())
    }

    /// Makes the root the parent of new nodes, which are these extra frames.
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

    /// Takes a free page for a new node.
    pub(super) fn new_node(&mut self, level: usize) -> Result<usize, IndexFault> {
        let lpn = self.space.allocate().ok_or(IndexError::Full)?;
        debug_assert!(lpn.0 > ROOT.0 && lpn.0 < self.layout.page_count, "B6: {lpn} cannot be a node");
        self.taken.push(lpn);
        let i = self.extra_used;
        debug_assert!((1..=self.height).contains(&level), "B5: a new node at level {level}");
        frame_at(&mut self.extra, i, &self.layout).reset(lpn, level);
        self.extra_used += 1;
        Ok(i)
    }

    /// Takes entry `at` out of the leaf and mends what gets too empty, from the leaf up.
    pub(super) fn take(&mut self, at: usize) -> Result<(), IndexFault> {
        let leaf = self.layout.leaf;
        debug_assert_eq!(self.path[self.height - 1].level(), 1, "B5: a record of no leaf");
        self.path[self.height - 1].remove(&leaf, at);
        match self.layout.underflow {
            _ if self.height == 1 || self.leaf().count() >= self.leaf_mended_below() => Ok(()),
            Underflow::Expel => self.expel(),
            Underflow::ExpelLeaves if self.leaf().count() == 0 => self.expel_leaf().map(drop),
            Underflow::Merge | Underflow::ExpelLeaves => self.mend_path(),
        }
    }

    /// Mends what is less than half full, from the leaf up.
    pub(super) fn mend_path(&mut self) -> Result<(), IndexFault> {
        self.mend_path_from(self.height - 1)
    }

    /// Mends the path from the node at `deepest` up.
    pub(super) fn mend_path_from(&mut self, deepest: usize) -> Result<(), IndexFault> {
        for depth in (1..=deepest).rev() {
            if self.path[depth].count() >= self.layout.half(self.level(depth)) {
                break;
            }
            match self.mend(depth, (2 * self.layout.half(self.level(depth)) - 1, false))? {
                Mended::Lent => break,
                Mended::Merged(child) if depth == 1 && self.path[0].count() == 1 => self.lower_root(child),
                Mended::Merged(_) => {}
            }
        }
        Ok(())
    }

    /// Fills a node up from the neighbour below the same parent, or merges the two where they have no more
    /// entries together. Of an odd number the left one gets one more, or this one where it `is_next`.
    pub(super) fn mend(
        &mut self,
        depth: usize,
        (merged_max, is_next): (usize, bool),
    ) -> Result<Mended, IndexFault> {
        debug_assert!(depth > 0, "B5: the root has no neighbour");
        debug_assert_ne!(self.layout.underflow, Underflow::Expel, "nodes are expelled, not mended");
        let level = self.level(depth);
        debug_assert!(self.path[depth - 1].count() >= 2, "B4: a parent of one child");
        let slot = self.path[depth - 1].slot;
        let is_right = slot > 0;
        let neighbour = self.fetch_neighbour(depth, if is_right { slot - 1 } else { slot + 1 })?;
        let right_slot = if is_right { slot } else { slot + 1 };
        let (parents, nodes) = self.path.split_at_mut(depth);
        let (parent, node, other) = (&mut parents[depth - 1], &mut nodes[0], &mut self.extra[neighbour]);
        let together = node.count() + other.count();
        debug_assert_eq!(node.level(), other.level(), "B5: neighbours of different levels");
        debug_assert!(node.count() <= self.layout.half(level), "B4: a node is mended that needs it not");
        let (left, right) = if is_right { (other, node) } else { (node, other) };
        let (shape, internal) = (self.layout.shape(level), self.layout.internal);
        let pages = [left.lpn(), right.lpn(), parent.lpn()];
        if together > merged_max {
            let share = if is_right && is_next { together / 2 } else { together.div_ceil(2) };
            page::share_out(&shape, left, right, share);
            debug_assert!(
                left.count().min(right.count()) >= self.layout.half(level),
                "B4: less than half full once evened out"
            );
            internal.set_key(parent.area_mut(), right_slot, shape.key(right.area(), 0));
            parent.is_dirty = true;
            self.counts.redistributions += 1;
            self.restructured(pages);
            return Ok(Mended::Lent);
        }
        let moved = right.count();
        page::move_left(&shape, left, right, moved);
        debug_assert!(left.count() == together && right.count() == 0, "B4: entries lost in a merge");
        right.is_dirty = false;
        self.freed.push(right.lpn());
        parent.remove(&internal, right_slot);
        self.restructured(pages);
        Ok(Mended::Merged(if is_right { Place::Extra(neighbour) } else { Place::Path(depth) }))
    }

    fn fetch_neighbour(&mut self, depth: usize, slot: usize) -> Result<usize, IndexFault> {
        let lpn = self.layout.child(&self.path[depth - 1], slot)?;
        self.fetch_extra(lpn, self.level(depth), Cause::Host)
    }

    /// Reads a node that is not on the path.
    pub(super) fn fetch_extra(&mut self, lpn: Lpn, level: usize, cause: Cause) -> Result<usize, IndexFault> {
        let i = self.extra_used;
        let frame = frame_at(&mut self.extra, i, &self.layout);
        load((&mut self.store, self.staged.as_ref()), &self.layout, (lpn, Some(level)), cause, frame)?;
        self.extra_used += 1;
        Ok(i)
    }

    /// Lets the root take over its only child.
    pub(super) fn lower_root(&mut self, child: Place) {
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
        self.freed.push(child.lpn());
    }

    /// Forgets the operation before: the frames are free again.
    pub(super) fn begin(&mut self) {
        self.path.iter_mut().for_each(|frame| frame.is_dirty = false);
        self.extra.iter_mut().for_each(|frame| frame.is_dirty = false);
        self.extra_used = 0;
        self.is_kept_whole = false;
        self.taken.clear();
        self.freed.clear();
        self.leaf_pages = (0, 0);
        self.apart.iter_mut().for_each(Vec::clear);
    }

    /// Makes a finished edit so, or gives it up with nothing changed.
    pub(super) fn finish(&mut self, edit: Result<(), IndexFault>) -> Result<(), IndexFault> {
        self.finish_with(edit, &[])
    }

    /// Finishes a change with pages that are no nodes of this tree, in one group.
    pub(super) fn finish_with(
        &mut self,
        edit: Result<(), IndexFault>,
        pages: &[(Lpn, &[u8])],
    ) -> Result<(), IndexFault> {
        let done = edit.and_then(|()| self.unmark_clean()).and_then(|()| self.write_group(pages));
        if done.is_err() {
            self.taken.drain(..).for_each(|lpn| self.space.release(lpn));
            return done;
        }
        self.settle()
    }

    /// In the class *none* the mark on the medium goes before the first change after a sync.
    pub(super) fn unmark_clean(&mut self) -> Result<(), IndexFault> {
        if self.durability != Durability::None || !self.is_clean {
            return Ok(());
        }
        self.write_superblock(false)?;
        self.is_marked = false;
        self.store.sync()?;
        self.is_clean = false;
        Ok(())
    }

    /// Writes every changed node after the pages given: atomically where the store can, else new pages first
    /// and the root last.
    fn write_group(&mut self, pages: &[(Lpn, &[u8])]) -> Result<(), IndexFault> {
        if let Some(changes) = self.apart.take_if(|_| cfg!(feature = "full") && pages.is_empty()) {
            let written = self.write_apart(&changes);
            self.apart = Some(changes);
            return written;
        }
        let mut group: [(Lpn, &[u8]); 2 * HEIGHT_MAX] = [(Lpn(0), &[]); 2 * HEIGHT_MAX];
        let mut count = 0;
        let extra = &mut self.extra[..self.extra_used];
        for frame in extra.iter_mut().chain(self.path.iter_mut().rev()).filter(|frame| frame.is_dirty) {
            debug_assert!(frame.lpn() == ROOT || frame.count() > 0, "B4: an empty node is written");
            debug_assert!(
                frame.count() <= self.layout.shape(frame.level()).capacity,
                "B4: an overfull node is written"
            );
            debug_assert_ne!(frame.lpn(), SUPERBLOCK, "B6: a node is written over the superblock");
            frame.seal();
            group[count] = (frame.lpn(), &frame.bytes);
            count += 1;
        }
        let all: Vec<(Lpn, &[u8])>;
        let group = if pages.is_empty() {
            &group[..count]
        } else {
            all = [pages, &group[..count]].concat();
            &all
        };
        let written = write_batch(&mut self.store, group);
        self.is_interrupted |= written.as_ref().is_err_and(|error| !error.is_refusal());
        Ok(written?)
    }

    /// After the writes: the tree is as high as its root says, and pages given up are free.
    fn settle(&mut self) -> Result<(), IndexFault> {
        self.count_settled();
        for &lpn in &self.freed {
            debug_assert!(lpn.0 > ROOT.0, "B6: {lpn} is never free");
            if self.space.release_written(lpn) {
                trim(&mut self.store, lpn)?;
            }
        }
        Ok(())
    }

    /// The height and the counters after the operation.
    pub(super) fn count_settled(&mut self) {
        // A root whose page of RAM was lent did not change.
        let height = if self.path[0].is_lent() { self.height } else { self.path[0].level() };
        debug_assert!(
            (1..=self.height + 1).contains(&height),
            "B5: the tree rose from {} to {height}",
            self.height
        );
        let (taken, freed) = (self.taken.len() - self.leaf_pages.0, self.freed.len() - self.leaf_pages.1);
        debug_assert!(taken + self.height >= height, "B6: the root rose without a new page");
        let divisions = (taken - height.saturating_sub(self.height)) as u64;
        self.counts.splits += divisions - u64::from(self.is_kept_whole);
        self.counts.overflows += u64::from(self.is_kept_whole);
        self.counts.merges += (freed - self.height.saturating_sub(height)) as u64;
        self.height = height;
    }
}

/// Splits a full node that is to take one entry more, unless it stays whole and the entry goes to the new one
/// alone: whether it does.
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

/// Reads and verifies a node.
pub(super) fn load(
    (store, staged): (&mut impl PageStore, Option<&Staged>),
    layout: &Layout,
    node: (Lpn, Option<usize>),
    cause: Cause,
    frame: &mut Frame,
) -> Result<(), IndexFault> {
    match staged.and_then(|staged| staged.find(node.0)) {
        Some(page) => frame.bytes.copy_from_slice(page),
        None => store.read(node.0, cause, &mut frame.bytes)?,
    }
    frame.is_dirty = false;
    layout.verify(frame, node.0, node.1)
}

/// Trims a page that no node uses. A store with no room for the note of it only keeps the page longer.
pub(super) fn trim(store: &mut impl PageStore, lpn: Lpn) -> Result<(), IndexFault> {
    match store.trim(lpn) {
        Err(error) if error.is_refusal() => Ok(()),
        done => Ok(done?),
    }
}

/// Frame `i` of a pool that grows by need and never shrinks.
pub(super) fn frame_at<'a>(pool: &'a mut Vec<Frame>, i: usize, layout: &Layout) -> &'a mut Frame {
    while pool.len() <= i {
        pool.push(layout.frame());
    }
    &mut pool[i]
}
