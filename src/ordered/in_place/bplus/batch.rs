//! Several changes to one leaf as one operation, and what they do to the keys that belong to a leaf.
//!
//! For an index that gathers updates in RAM. [`BPlusTree::apply_to_leaf`] reads the path to a leaf once,
//! merges the changes into it, and writes each page that changes once, all of them as one atomic group. A
//! leaf that gets too full is split evenly into as many leaves as the caller allows, two or more; one that
//! gets too empty is evened out or merged with a neighbour, as a removal would do. More than two leaves come
//! of one only where the parent has room for them all and the store takes them as one group, so with two no
//! batch writes more pages than the tree's largest operation. When leaf and changes make more, the first
//! changes that do fit are applied and the caller comes back with the rest.
//!
//! Which keys belong to a leaf is said by the bounds above it ([`LeafSpan`]), without reading the leaf. Only
//! `apply_to_leaf` changes that, and says how ([`Reshaped`]): one leaf is split, or two neighbours are
//! affected.

use super::change::load;
use super::page::{Frame, HEIGHT_MAX, ROOT, corrupted};
use super::rules::Underflow;
use super::{BPlusTree, frame_at};
use crate::check::Invariant;
use crate::fault::IndexFault;
use crate::nand::Cause;
use crate::ordered::change::Change;
use crate::ordered::node::NodeShape;
use crate::store::PageStore;
use crate::units::Lpn;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;

/// The keys that belong to a leaf: from `low` on, below `high`; `None` where nothing bounds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafSpan {
    pub(in crate::ordered) low: Option<Box<[u8]>>,
    pub(in crate::ordered) high: Option<Box<[u8]>>,
}

impl LeafSpan {
    pub(in crate::ordered) fn contains(&self, key: &[u8]) -> bool {
        self.low.as_deref().is_none_or(|low| low <= key) && self.high.as_deref().is_none_or(|high| key < high)
    }
}

/// A leaf that has some of the keys that changed leaves.
#[derive(Clone, Debug)]
pub(in crate::ordered) struct NewLeaf {
    pub(in crate::ordered) lpn: Lpn,
    /// The leaf's lower bound; none where nothing bounds it.
    pub(in crate::ordered) low: Option<Box<[u8]>>,
    /// The number of entries; none of a leaf that was not read.
    pub(in crate::ordered) entries: usize,
}

/// Keys that changed leaves: those of `span` were in the leaves `before` and are now in the leaves `after`,
/// in key order.
#[derive(Clone, Debug)]
pub(in crate::ordered) struct Reshaped {
    pub(in crate::ordered) span: LeafSpan,
    pub(in crate::ordered) before: Vec<Lpn>,
    pub(in crate::ordered) after: Vec<NewLeaf>,
}

impl Reshaped {
    /// The boundary between the first two leaves.
    pub(in crate::ordered) fn boundary(&self) -> Option<&[u8]> {
        self.after.get(1)?.low.as_deref()
    }

    /// The leaf that a key of the span belongs to now.
    pub(in crate::ordered) fn leaf_of(&self, key: &[u8]) -> Lpn {
        debug_assert!(self.span.contains(key), "B3: the key is not of the leaves that changed");
        let is_below = |leaf: &NewLeaf| leaf.low.as_deref().is_none_or(|low| low <= key);
        let last = self.after.iter().skip(1).take_while(|leaf| is_below(leaf)).count();
        self.after[last].lpn
    }
}

/// The outcome of [`BPlusTree::lookup`].
#[derive(Clone, Debug)]
pub struct Lookup {
    pub(in crate::ordered) is_present: bool,
    /// Entries of the leaf.
    pub(in crate::ordered) entries: usize,
    pub(in crate::ordered) span: LeafSpan,
}

/// The outcome of [`BPlusTree::apply_to_leaf`].
#[derive(Clone, Debug)]
pub struct Applied {
    /// The leaf.
    pub(in crate::ordered) lpn: Lpn,
    /// Entries that it had before.
    pub(in crate::ordered) entries: usize,
    /// How many of the changes, from the first on.
    pub(in crate::ordered) changes: usize,
    /// Set when other keys belong to the leaf than before.
    pub(in crate::ordered) reshaped: Option<Reshaped>,
}

/// The outcome of merging changes into a leaf.
struct LeafMerge {
    /// Changes that fit.
    changes: usize,
    /// Entries of the leaf after them.
    entries: usize,
    /// Whether the leaf differs after them.
    is_changed: bool,
}

impl<S: PageStore> BPlusTree<S> {
    /// Whether a key is in the tree, and which keys belong to its leaf. Reads the path.
    pub(in crate::ordered) fn lookup(&mut self, key: &[u8], cause: Cause) -> Result<Lookup, IndexFault> {
        self.follow(key, self.height, cause)?;
        debug_assert_eq!(self.leaf().level(), 1, "B5: the path ends above the leaves");
        let leaf = self.leaf();
        let found = self.layout.leaf.search(leaf.area(), leaf.count(), key);
        Ok(Lookup { is_present: found.is_ok(), entries: leaf.count(), span: self.span_of_path(key)? })
    }

    /// Looks a key up as [`BPlusTree::lookup`] does, and tells the page of the leaf.
    pub(in crate::ordered) fn lookup_leaf(
        &mut self,
        key: &[u8],
        cause: Cause,
    ) -> Result<(Lpn, Lookup), IndexFault> {
        let lookup = self.lookup(key, cause)?;
        Ok((self.leaf().lpn(), lookup))
    }

    /// Nodes of a path.
    pub(in crate::ordered) fn height(&self) -> usize {
        self.height
    }

    /// Whether the root is the only leaf.
    pub(in crate::ordered) fn is_one_leaf(&self) -> bool {
        self.height == 1
    }

    /// The page of the root.
    pub(in crate::ordered) const fn root() -> Lpn {
        ROOT
    }

    /// Says that something else on the store is about to change, which the clean mark speaks for as well.
    pub(in crate::ordered) fn change_follows(&mut self) -> Result<(), IndexFault> {
        self.ready()?;
        self.begin();
        self.unmark_clean()
    }

    /// Before a change is acknowledged that waits above the tree: that a power cut takes it is told by the
    /// next mount, unless a journal has it.
    pub(in crate::ordered) fn admit_change(&mut self) -> Result<(), IndexFault> {
        if self.store.keeps_updates() || !self.is_clean { Ok(()) } else { self.change_follows() }
    }

    /// Which keys belong to the leaf of a key. Reads the path but for the leaf.
    pub(in crate::ordered) fn leaf_span(&mut self, key: &[u8]) -> Result<LeafSpan, IndexFault> {
        self.follow(key, self.height - 1, Cause::Host)?;
        self.span_of_path(key)
    }

    /// The keys of the leaf at the end of the path to a key.
    fn span_of_path(&self, key: &[u8]) -> Result<LeafSpan, IndexFault> {
        let span = self.span_around_leaf(0, 0);
        if span.contains(key) {
            Ok(span)
        } else {
            Err(corrupted(
                Invariant::B3,
                "a key lies outside the bounds of the path to it",
                self.path[0].lpn(),
            ))
        }
    }

    /// The page of the leaf of a key. Reads the path but for the leaf.
    pub(in crate::ordered) fn leaf_of(&mut self, key: &[u8], cause: Cause) -> Result<Lpn, IndexFault> {
        self.follow(key, self.height - 1, cause)
    }

    /// The value of a key in its leaf, which [`BPlusTree::leaf_of`] has just found, and the entries of that
    /// leaf.
    pub(in crate::ordered) fn leaf_value(
        &mut self,
        key: &[u8],
        lpn: Lpn,
        cause: Cause,
    ) -> Result<(Option<&[u8]>, usize), IndexFault> {
        self.fetch(self.height - 1, lpn, Some(1), cause)?;
        let (shape, leaf) = (&self.layout.leaf, &self.path[self.height - 1]);
        let found = shape.search(leaf.area(), leaf.count(), key).ok();
        Ok((found.map(|at| shape.value(leaf.area(), at)), leaf.count()))
    }

    /// Entries in the leaf of a key. Reads the path.
    pub(in crate::ordered) fn leaf_entries(&mut self, key: &[u8]) -> Result<usize, IndexFault> {
        self.follow(key, self.height, Cause::Host)?;
        Ok(self.path[self.height - 1].count())
    }

    /// The fewest and the most entries of a leaf.
    pub(in crate::ordered) fn leaf_fill(&self) -> (usize, usize) {
        let least = if self.height == 1 { 0 } else { self.layout.fill_min(1) };
        debug_assert!(least <= self.layout.leaf.capacity, "B4: a leaf can never be full enough");
        (least, self.layout.leaf.capacity)
    }

    /// Whether so many splits of leaves find free pages, whatever the nodes above them hold now.
    pub(in crate::ordered) fn has_room_for(&self, leaf_splits: u64) -> bool {
        self.pages_for_splits(leaf_splits) <= u64::from(self.space.free_pages())
    }

    /// Pages that so many splits of leaves take at most, whatever the nodes above them hold now.
    pub(in crate::ordered) fn pages_for_splits(&self, leaf_splits: u64) -> u64 {
        // Of the nodes of a level each splits once at most before it takes half a node of new children.
        let half = self.layout.half(2) as u64;
        debug_assert!(half >= 2, "B4: internal nodes of one child");
        let (mut splits, mut nodes) = (leaf_splits, u64::from(self.space.used_pages()));
        let mut needed = splits;
        for _ in 0..self.height {
            nodes = nodes / half + 1;
            splits = splits.min(nodes + splits / half);
            needed += splits;
        }
        // A root that splits takes a page more.
        needed + 2
    }

    /// Reads the first `nodes` nodes of the path to a key; returns the page of the one after them.
    pub(super) fn follow(&mut self, key: &[u8], nodes: usize, cause: Cause) -> Result<Lpn, IndexFault> {
        debug_assert!(nodes <= self.height, "B5: {nodes} nodes of a path of {}", self.height);
        self.ready()?;
        self.begin();
        debug_assert_eq!(key.len(), usize::from(self.layout.record.key_bytes), "a key of another width");
        let mut lpn: Lpn = ROOT;
        for depth in 0..nodes {
            let level = self.height - depth;
            let frame = frame_at(&mut self.path, depth, &self.layout);
            load((&mut self.store, self.staged.as_ref()), &self.layout, (lpn, Some(level)), cause, frame)?;
            if level > 1 {
                frame.slot = self.layout.internal.child_slot(frame.area(), frame.count(), key);
                lpn = self.layout.child(frame, frame.slot)?;
            }
        }
        Ok(lpn)
    }

    /// The keys of the leaf at the end of the path, and of so many neighbours before and after it below the
    /// same parent.
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

    /// Applies changes to one leaf, their keys ascending strictly: as many as fit into `leaves_max` leaves
    /// or, where the parent or the store lack room for these, two; at least one change, or on error none.
    /// Removing an absent key changes nothing.
    pub(in crate::ordered) fn apply_to_leaf<'a>(
        &mut self,
        changes: impl Iterator<Item = Change<'a>> + Clone,
        leaves_max: usize,
    ) -> Result<Applied, IndexFault> {
        let Some(first) = changes.clone().next() else {
            return Ok(Applied { lpn: ROOT, entries: 0, changes: 0, reshaped: None });
        };
        self.follow(first.key, self.height, Cause::Host)?;
        let (span, lpn, entries) = (self.span_around_leaf(0, 0), self.leaf().lpn(), self.leaf().count());
        let shape = self.layout.leaf;
        if shape.first_unsorted(self.leaf().area(), self.leaf().count()).is_some() {
            return Err(corrupted(Invariant::B2, "the keys of the leaf do not ascend", lpn));
        }
        let entries_max = self.leaves_possible(leaves_max) * shape.capacity;
        let plan = plan(&shape, self.leaf(), changes.clone(), entries_max);
        debug_assert!(plan.changes > 0, "a leaf takes one change at least");
        // Of those that come later nothing is asked: a group may be far larger than a leaf.
        let changes = changes.take(plan.changes);
        if !changes.clone().all(|change| span.contains(change.key)) {
            return Err(corrupted(Invariant::B3, "the bounds changed since the leaf was found", lpn));
        }
        if !plan.is_changed {
            return Ok(Applied { lpn, entries, changes: plan.changes, reshaped: None });
        }
        let edit = self.rewrite_leaf(changes, plan.entries);
        let (edit, reshaped) = match edit {
            Ok(reshaped) => (Ok(()), reshaped),
            Err(error) => (Err(error), None),
        };
        self.finish(edit)?;
        Ok(Applied { lpn, entries, changes: plan.changes, reshaped })
    }

    /// Makes records, as many as a leaf holds at most, the leaf after theirs, which has keys below them
    /// alone. False, and nothing is changed, if that leaf is empty or has another key.
    pub(in crate::ordered) fn append_leaf<'a>(
        &mut self,
        records: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
    ) -> Result<bool, IndexFault> {
        let Some((first, _)) = records.clone().next() else { return Ok(false) };
        self.follow(first, self.height, Cause::Host)?;
        let (shape, span) = (self.layout.leaf, self.span_around_leaf(0, 0));
        let (leaf, lpn) = (self.leaf(), self.leaf().lpn());
        if !records.clone().all(|(key, _)| span.contains(key)) || records.clone().count() > shape.capacity {
            return Err(corrupted(Invariant::B3, "the bounds changed since the leaf was found", lpn));
        }
        if leaf.count() == 0 || shape.key(leaf.area(), leaf.count() - 1) >= first {
            return Ok(false);
        }
        let edit = self.add_leaf(records);
        self.finish(edit)?;
        Ok(true)
    }

    fn add_leaf<'a>(
        &mut self,
        records: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<(), IndexFault> {
        let (shape, depth) = (self.layout.leaf, self.height - 1);
        let first = self.extra_used;
        if depth == 0 {
            // The root keeps its page and becomes the parent of both.
            let left = self.new_node(1)?;
            self.extra[left].copy_node(&self.path[0]);
        }
        let right = self.new_node(1)?;
        let mut count = 0;
        for (at, entry) in records.enumerate() {
            put(&shape, &mut self.extra[right], at, entry);
            count = at + 1;
        }
        debug_assert!((1..=shape.capacity).contains(&count), "B4: a new leaf of {count} records");
        self.extra[right].set_count(count);
        if depth == 0 {
            self.put_root_above(first..right + 1);
            Ok(())
        } else {
            self.announce(depth, right)
        }
    }

    /// Leaves that the one at the end of the path may become at once: two, or as many as wanted where the
    /// parent has room for all and they are written as one group with it.
    fn leaves_possible(&self, wanted: usize) -> usize {
        let internal = &self.layout.internal;
        let room = match self.height.checked_sub(2) {
            Some(parent) => internal.capacity + 1 - self.path[parent].count(),
            None => internal.capacity,
        };
        let atomic = self.store.atomic_pages_max();
        let group = if atomic < self.layout.group_pages_max() { usize::MAX } else { atomic };
        wanted.min(room).min(group.min(2 * HEIGHT_MAX) - 1).max(2)
    }

    pub(super) fn leaf(&self) -> &Frame {
        &self.path[self.height - 1]
    }

    /// Merges the changes into the leaf, which has so many entries then, and splits or mends it.
    fn rewrite_leaf<'a>(
        &mut self,
        changes: impl Iterator<Item = Change<'a>>,
        entries: usize,
    ) -> Result<Option<Reshaped>, IndexFault> {
        let (shape, depth) = (self.layout.leaf, self.height - 1);
        let old = self.copy_leaf();
        let leaves = entries.div_ceil(shape.capacity).max(1);
        debug_assert!(leaves < 2 * HEIGHT_MAX, "{leaves} leaves are no group of pages");
        // A root keeps its page and becomes the parent, so all its parts are new.
        let stays = usize::from(depth > 0 || leaves == 1);
        for _ in stays..leaves {
            self.new_node(1)?;
        }
        debug_assert_eq!(self.extra_used, old + 1 + leaves - stays, "other frames than those of the parts");
        let end = |leaf: usize| (entries * (leaf + 1)).div_ceil(leaves);
        let (frames, new) = self.extra.split_at_mut(old + 1);
        let (mut leaf, mut start) = (0, 0);
        merge(&shape, frames[old].area(), frames[old].count(), changes, |at, entry| {
            if at == end(leaf) {
                (leaf, start) = (leaf + 1, at);
            }
            let node = if leaf < stays { &mut self.path[depth] } else { &mut new[leaf - stays] };
            put(&shape, node, at - start, entry);
        });
        debug_assert_eq!(leaf + 1, leaves, "B4: a part of the leaf got no record");
        if stays > 0 {
            self.path[depth].set_count(end(0));
        }
        for leaf in stays..leaves {
            new[leaf - stays].set_count(end(leaf) - if leaf > 0 { end(leaf - 1) } else { 0 });
        }
        debug_assert!(
            new[..leaves - stays].iter().all(|node| (1..=shape.capacity).contains(&node.count())),
            "B4: a part of the leaf is empty or overfull"
        );
        if leaves == 1 {
            self.mend_leaf()
        } else {
            self.announce_parts(old + 1..old + 1 + leaves - stays).map(Some)
        }
    }

    /// Tells the parent of the new parts of the leaf, which are these extra frames.
    fn announce_parts(&mut self, parts: core::ops::Range<usize>) -> Result<Reshaped, IndexFault> {
        debug_assert!(!parts.is_empty() && parts.end <= self.extra_used, "parts {parts:?} are no new leaves");
        let (shape, depth) = (self.layout.leaf, self.height - 1);
        let span = self.span_around_leaf(0, 0);
        let before = vec![self.leaf().lpn()];
        let new_leaf = |part: usize| {
            let node = &self.extra[part];
            NewLeaf { lpn: node.lpn(), low: Some(shape.key(node.area(), 0).into()), entries: node.count() }
        };
        let mut after: Vec<NewLeaf> = parts.clone().map(new_leaf).collect();
        if depth == 0 {
            after[0].low = None;
            self.put_root_above(parts);
        } else {
            after.insert(0, NewLeaf { lpn: before[0], low: span.low.clone(), entries: self.leaf().count() });
            // The last first: each goes to the place after the leaf, and only a lone one may split the
            // parent.
            for part in parts.rev() {
                self.announce(depth, part)?;
            }
        }
        debug_assert!(after.len() >= 2, "a leaf that was split is one leaf");
        Ok(Reshaped { span, before, after })
    }

    /// Copies the leaf to an extra frame that is not written.
    fn copy_leaf(&mut self) -> usize {
        let (depth, i) = (self.height - 1, self.extra_used);
        frame_at(&mut self.extra, i, &self.layout).copy_node(&self.path[depth]);
        self.extra[i].is_dirty = false;
        self.extra_used += 1;
        i
    }

    /// Evens a leaf with too few entries out with a neighbour, or merges the two, and mends what follows from
    /// it.
    fn mend_leaf(&mut self) -> Result<Option<Reshaped>, IndexFault> {
        let depth = self.height - 1;
        if depth == 0 || self.path[depth].count() >= self.leaf_mended_below() {
            return Ok(None);
        }
        match self.layout.underflow {
            // A neighbour's bounds grow, but no key changes its leaf.
            Underflow::Expel => return self.expel().map(|()| None),
            Underflow::ExpelLeaves if self.path[depth].count() == 0 => return self.expel_leaf().map(Some),
            Underflow::Merge | Underflow::ExpelLeaves => {}
        }
        // The neighbour that mending asks: the left one, if there is one.
        let slot = self.path[depth - 1].slot;
        let span = if slot > 0 { self.span_around_leaf(1, 0) } else { self.span_around_leaf(0, 1) };
        let first = slot.saturating_sub(1);
        let parent = &self.path[depth - 1];
        let before = vec![self.layout.child(parent, first)?, self.layout.child(parent, first + 1)?];
        let neighbour = self.extra_used;
        self.mend_path()?;
        let parent = &self.path[depth - 1];
        // A root with one child took over its contents.
        let left = if self.path[0].level() == 1 { ROOT } else { before[0] };
        // Of two that merged the left one took all.
        let (leaf, neighbour) = (self.leaf().count(), self.extra[neighbour].count());
        let entries = if slot > 0 { [neighbour, leaf] } else { [leaf, neighbour] };
        debug_assert!(entries.iter().all(|&n| n <= self.layout.leaf.capacity), "B4: an overfull leaf");
        let mut after = vec![NewLeaf { lpn: left, low: span.low.clone(), entries: entries[0] }];
        debug_assert!(self.path[0].level() <= self.height, "B5: the tree rose by a removal");
        if self.freed.is_empty() {
            let boundary = self.layout.internal.key(parent.area(), first + 1);
            after.push(NewLeaf { lpn: before[1], low: Some(boundary.into()), entries: entries[1] });
        }
        Ok(Some(Reshaped { span, before, after }))
    }
}

/// Puts an entry in place `at` of a node whose count is set afterwards.
fn put(shape: &NodeShape, node: &mut Frame, at: usize, (key, value): (&[u8], &[u8])) {
    shape.set_key(node.area_mut(), at, key);
    shape.set_value(node.area_mut(), at, value);
}

/// Counts what a merge comes to, and stops before the change that would make more than so many entries.
fn plan<'a>(
    shape: &NodeShape,
    leaf: &Frame,
    changes: impl Iterator<Item = Change<'a>>,
    entries_max: usize,
) -> LeafMerge {
    let mut plan = LeafMerge { changes: 0, entries: leaf.count(), is_changed: false };
    for change in changes {
        let found = shape.search(leaf.area(), leaf.count(), change.key);
        match (found, change.value) {
            (Err(_), Some(_)) if plan.entries == entries_max => break,
            (Err(_), Some(_)) => plan.entries += 1,
            (Ok(_), None) => plan.entries -= 1,
            (Ok(at), Some(value)) if shape.value(leaf.area(), at) != value => {}
            _ => {
                plan.changes += 1;
                continue;
            }
        }
        plan.changes += 1;
        plan.is_changed = true;
    }
    debug_assert!(plan.entries <= entries_max.max(leaf.count()), "B4: more entries than leaves hold");
    plan
}

/// Shows the entries of a leaf after the changes, in order, each with its place.
pub(in crate::ordered) fn merge<'a>(
    shape: &NodeShape,
    area: &[u8],
    count: usize,
    changes: impl Iterator<Item = Change<'a>>,
    mut show: impl FnMut(usize, (&[u8], &[u8])),
) {
    let (mut old, mut at) = (0, 0);
    let mut changes = changes.peekable();
    loop {
        let order = match changes.peek() {
            None if old == count => return,
            None => Ordering::Less,
            Some(_) if old == count => Ordering::Greater,
            Some(change) => shape.compare(area, old, change.key),
        };
        let entry = if order == Ordering::Less {
            Some((shape.key(area, old), shape.value(area, old)))
        } else {
            changes.next().and_then(|change| Some((change.key, change.value?)))
        };
        old += usize::from(order != Ordering::Greater);
        if let Some(entry) = entry {
            show(at, entry);
            at += 1;
        }
    }
}
