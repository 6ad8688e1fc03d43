//! Several changes to one leaf as one operation, and their effect on which keys belong to the leaf.
//!
//! This is for an index that gathers updates in RAM. [`BPlusTree::apply_to_leaf`] reads the path to a leaf
//! once, merges the changes into it, and writes each changed page once, all of them as one atomic group. A
//! leaf that gets too full is split evenly into as many leaves as the caller allows, two or more. One that
//! gets too empty is evened out or merged with a neighbour, as after a removal. A leaf becomes more than two
//! only if the parent has room for them all and the store takes them as one group. So with two, no batch
//! writes more pages than the tree's largest operation. If leaf and changes make more, the first changes that
//! fit are applied, and the caller comes back with the rest.
//!
//! The bounds above a leaf say which keys belong to it ([`LeafSpan`]), without a read of the leaf. Only
//! `apply_to_leaf` changes that, and tells how ([`Reshaped`]): one leaf is split, or two neighbours are
//! affected.

use super::page::{Frame, HEIGHT_MAX, ROOT, corrupted};
use super::rules::Underflow;
use super::{BPlusTree, Core, Work};
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

/// Keys that belong to a leaf: from `low` on, below `high`. `None` if nothing bounds them on that side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafSpan {
    /// Smallest key that belongs to the leaf.
    pub low: Option<Box<[u8]>>,
    /// Smallest key that belongs to the leaves behind.
    pub high: Option<Box<[u8]>>,
}

impl LeafSpan {
    /// Tells whether a key belongs to the leaf.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.low.as_deref().is_none_or(|low| low <= key) && self.high.as_deref().is_none_or(|high| key < high)
    }
}

/// Leaf that now has some of the keys that changed leaves.
#[derive(Clone, Debug)]
pub struct NewLeaf {
    /// Page of the leaf.
    pub lpn: Lpn,
    /// Lower bound of the leaf. `None` if nothing bounds it.
    pub low: Option<Box<[u8]>>,
    /// Number of entries; 0 for a leaf that was not read.
    pub entries: usize,
}

/// Keys that changed leaves: those of `span` were in the leaves `before`, and are now in the leaves `after`.
#[derive(Clone, Debug)]
pub struct Reshaped {
    /// Range of the keys.
    pub span: LeafSpan,
    /// Leaves that had the keys.
    pub before: Vec<Lpn>,
    /// Leaves that have the keys now, in key order.
    pub after: Vec<NewLeaf>,
}

impl Reshaped {
    /// Boundary between the first two leaves of `after`.
    pub fn boundary(&self) -> Option<&[u8]> {
        self.after.get(1)?.low.as_deref()
    }

    /// Leaf to which a key of the span belongs now.
    pub fn leaf_of(&self, key: &[u8]) -> Lpn {
        debug_assert!(self.span.contains(key), "B3: the key is not of the leaves that changed");
        let is_below = |leaf: &NewLeaf| leaf.low.as_deref().is_none_or(|low| low <= key);
        let last = self.after.iter().skip(1).take_while(|leaf| is_below(leaf)).count();
        self.after[last].lpn
    }
}

/// Result of [`BPlusTree::lookup`].
#[derive(Clone, Debug)]
pub struct Lookup {
    /// True if the key is in the tree.
    pub is_present: bool,
    /// Number of entries in the leaf.
    pub entries: usize,
    /// Keys that belong to the leaf.
    pub span: LeafSpan,
}

/// Result of [`BPlusTree::apply_to_leaf`].
#[derive(Clone, Debug)]
pub struct Applied {
    /// Page of the leaf.
    pub lpn: Lpn,
    /// Number of entries in the leaf before.
    pub entries: usize,
    /// Number of changes that were applied, from the first on.
    pub changes: usize,
    /// Set if other keys belong to the leaf than before.
    pub reshaped: Option<Reshaped>,
}

/// Size of a merge of changes into a leaf.
struct LeafMerge {
    /// Number of changes that fit.
    changes: usize,
    /// Number of entries in the leaf after these changes.
    entries: usize,
    /// True if the changes alter the leaf.
    is_changed: bool,
}

#[doc(hidden)]
impl<S: PageStore> BPlusTree<S> {
    /// Looks a key up: whether it is in the tree, and which keys belong to its leaf. Reads the path.
    pub fn lookup(&mut self, key: &[u8], cause: Cause) -> Result<Lookup, IndexFault> {
        self.work().lookup(key, cause)
    }

    /// Looks a key up as [`BPlusTree::lookup`] does, and also returns the page of the leaf.
    pub fn lookup_leaf(&mut self, key: &[u8], cause: Cause) -> Result<(Lpn, Lookup), IndexFault> {
        let lookup = self.lookup(key, cause)?;
        Ok((self.core.nodes.leaf().lpn(), lookup))
    }

    /// Returns the keys that belong to the leaf of a key. Reads the path without the leaf.
    pub fn leaf_span(&mut self, key: &[u8]) -> Result<LeafSpan, IndexFault> {
        self.leaf_of(key, Cause::Host)?;
        self.core.nodes.span_of_path(key)
    }

    /// Returns the page of the leaf of a key. Reads the path without the leaf.
    pub fn leaf_of(&mut self, key: &[u8], cause: Cause) -> Result<Lpn, IndexFault> {
        let parents = self.height() - 1;
        self.work().follow(key, parents, cause)
    }

    /// Returns the value of a key in its leaf, and the number of entries there. [`BPlusTree::leaf_of`] must
    /// have found the leaf just before.
    pub fn leaf_value(
        &mut self,
        key: &[u8],
        lpn: Lpn,
        cause: Cause,
    ) -> Result<(Option<&[u8]>, usize), IndexFault> {
        let depth = self.height() - 1;
        self.work().fetch(depth, lpn, Some(1), cause)?;
        let (shape, leaf) = (&self.core.nodes.layout.leaf, self.core.nodes.leaf());
        let found = shape.search(leaf.area(), leaf.count(), key).ok();
        Ok((found.map(|at| shape.value(leaf.area(), at)), leaf.count()))
    }

    /// Returns the number of entries in the leaf of a key. Reads the path.
    pub fn leaf_entries(&mut self, key: &[u8]) -> Result<usize, IndexFault> {
        let height = self.height();
        self.work().follow(key, height, Cause::Host)?;
        Ok(self.core.nodes.leaf().count())
    }

    /// Returns the smallest and the largest number of entries that a leaf may have.
    pub fn leaf_fill(&self) -> (usize, usize) {
        self.core.nodes.leaf_fill()
    }

    /// Number of nodes on a path from root to leaf.
    pub fn height(&self) -> usize {
        self.core.nodes.height
    }

    /// True if the root is the only leaf.
    pub fn is_one_leaf(&self) -> bool {
        self.height() == 1
    }

    /// Page of the root.
    pub const fn root() -> Lpn {
        ROOT
    }

    /// True if `leaf_splits` splits of leaves find free pages, whatever the nodes above them hold now.
    pub fn has_room_for(&self, leaf_splits: u64) -> bool {
        self.pages_for_splits(leaf_splits) <= u64::from(self.core.pages.space.free_pages())
    }

    /// Upper bound of the pages that `leaf_splits` splits of leaves take, whatever the nodes above them hold
    /// now.
    pub fn pages_for_splits(&self, leaf_splits: u64) -> u64 {
        self.core.nodes.pages_for_splits(leaf_splits, self.core.pages.space.used_pages().into())
    }

    /// Clears the clean mark before a change of other data on the store that the mark covers too.
    pub fn change_follows(&mut self) -> Result<(), IndexFault> {
        self.ready()?;
        self.core.begin();
        self.work().unmark_clean()
    }

    /// Prepares a change that waits in RAM above the tree, before it is acknowledged. The clean mark is
    /// cleared, so that after a power cut the next mount tells that changes are lost. Nothing is done if a
    /// journal keeps them.
    pub fn admit_change(&mut self) -> Result<(), IndexFault> {
        if self.store.keeps_updates() || !self.core.mark.is_clean { Ok(()) } else { self.change_follows() }
    }

    /// Applies changes to one leaf. Their keys must ascend strictly. As many are applied as fit into
    /// `leaves_max` leaves, or into two if the parent or the store lacks room for more. At least one change
    /// is applied; on an error none is. Removing an absent key changes nothing.
    pub fn apply_to_leaf<'a>(
        &mut self,
        changes: impl Iterator<Item = Change<'a>> + Clone,
        leaves_max: usize,
    ) -> Result<Applied, IndexFault> {
        self.work().apply_to_leaf(changes, leaves_max)
    }

    /// Makes the records a new leaf behind the leaf to which their keys belong, if that leaf has only smaller
    /// keys. The records must fit one leaf. Returns false, and changes nothing, if that leaf is empty or has
    /// another key.
    pub fn append_leaf<'a>(
        &mut self,
        records: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
    ) -> Result<bool, IndexFault> {
        self.work().append_leaf(records)
    }
}

impl Work<'_> {
    /// Does the work of [`BPlusTree::lookup`].
    pub(super) fn lookup(&mut self, key: &[u8], cause: Cause) -> Result<Lookup, IndexFault> {
        self.follow(key, self.core.nodes.height, cause)?;
        let (nodes, leaf) = (&self.core.nodes, self.core.nodes.leaf());
        debug_assert_eq!(leaf.level(), 1, "B5: the path ends above the leaves");
        let is_present = nodes.layout.leaf.search(leaf.area(), leaf.count(), key).is_ok();
        Ok(Lookup { is_present, entries: leaf.count(), span: nodes.span_of_path(key)? })
    }

    /// Does the work of [`BPlusTree::apply_to_leaf`].
    pub(super) fn apply_to_leaf<'a>(
        &mut self,
        changes: impl Iterator<Item = Change<'a>> + Clone,
        leaves_max: usize,
    ) -> Result<Applied, IndexFault> {
        let Some(first) = changes.clone().next() else {
            return Ok(Applied { lpn: ROOT, entries: 0, changes: 0, reshaped: None });
        };
        self.follow(first.key, self.core.nodes.height, Cause::Host)?;
        let (nodes, leaf) = (&self.core.nodes, self.core.nodes.leaf());
        let (span, lpn, entries) = (nodes.span_around_leaf(0, 0), leaf.lpn(), leaf.count());
        let shape = nodes.layout.leaf;
        if shape.first_unsorted(leaf.area(), entries).is_some() {
            return Err(corrupted(Invariant::B2, "the keys of the leaf do not ascend", lpn));
        }
        let entries_max = self.leaves_possible(leaves_max) * shape.capacity;
        let plan = plan(&shape, leaf, changes.clone(), entries_max);
        debug_assert!(plan.changes > 0, "a leaf takes one change at least");
        // Nothing is asked of later changes: a group may be far larger than a leaf.
        let changes = changes.take(plan.changes);
        if !changes.clone().all(|change| span.contains(change.key)) {
            return Err(corrupted(Invariant::B3, "the bounds changed since the leaf was found", lpn));
        }
        if !plan.is_changed {
            return Ok(Applied { lpn, entries, changes: plan.changes, reshaped: None });
        }
        let edit = match self.core.rewrite_leaf(changes, plan.entries) {
            Ok(Some(reshaped)) => Ok(Some(reshaped)),
            Ok(None) => self.mend_leaf(),
            Err(error) => Err(error),
        };
        let (edit, reshaped) = match edit {
            Ok(reshaped) => (Ok(()), reshaped),
            Err(error) => (Err(error), None),
        };
        self.finish(edit)?;
        Ok(Applied { lpn, entries, changes: plan.changes, reshaped })
    }

    /// Does the work of [`BPlusTree::append_leaf`].
    pub(super) fn append_leaf<'a>(
        &mut self,
        records: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
    ) -> Result<bool, IndexFault> {
        let Some((first, _)) = records.clone().next() else { return Ok(false) };
        self.follow(first, self.core.nodes.height, Cause::Host)?;
        let (nodes, leaf) = (&self.core.nodes, self.core.nodes.leaf());
        let (shape, span) = (nodes.layout.leaf, nodes.span_around_leaf(0, 0));
        if !records.clone().all(|(key, _)| span.contains(key)) || records.clone().count() > shape.capacity {
            let found = "the bounds changed since the leaf was found";
            return Err(corrupted(Invariant::B3, found, leaf.lpn()));
        }
        if leaf.count() == 0 || shape.key(leaf.area(), leaf.count() - 1) >= first {
            return Ok(false);
        }
        let edit = self.core.add_leaf(records);
        self.finish(edit)?;
        Ok(true)
    }

    /// Number of leaves that the leaf at the end of the path may become at once: two, or `wanted` if the
    /// parent has room for all and they are written as one group with it.
    fn leaves_possible(&self, wanted: usize) -> usize {
        let nodes = &self.core.nodes;
        let internal = &nodes.layout.internal;
        let room = match nodes.height.checked_sub(2) {
            Some(parent) => internal.capacity + 1 - nodes.path[parent].count(),
            None => internal.capacity,
        };
        let atomic = self.store.atomic_pages_max();
        let group = if atomic < nodes.layout.group_pages_max() { usize::MAX } else { atomic };
        wanted.min(room).min(group.min(2 * HEIGHT_MAX) - 1).max(2)
    }

    /// Evens out a leaf with too few entries with a neighbour, or merges the two, and then mends the nodes
    /// above.
    fn mend_leaf(&mut self) -> Result<Option<Reshaped>, IndexFault> {
        let nodes = &self.core.nodes;
        let (depth, count) = (nodes.height - 1, nodes.leaf().count());
        if depth == 0 || count >= self.core.leaf_mended_below() {
            return Ok(None);
        }
        match nodes.layout.underflow {
            // The bounds of a neighbour grow, but no key changes its leaf.
            Underflow::Expel => return self.expel().map(|()| None),
            Underflow::ExpelLeaves if count == 0 => return self.expel_leaf().map(Some),
            Underflow::Merge | Underflow::ExpelLeaves => {}
        }
        // Mending uses the left neighbour, if there is one.
        let slot = nodes.path[depth - 1].slot;
        let span = if slot > 0 { nodes.span_around_leaf(1, 0) } else { nodes.span_around_leaf(0, 1) };
        let first = slot.saturating_sub(1);
        let parent = &nodes.path[depth - 1];
        let before = vec![nodes.layout.child(parent, first)?, nodes.layout.child(parent, first + 1)?];
        let neighbour = nodes.extra_used;
        self.mend_path()?;
        let nodes = &self.core.nodes;
        // A root with one child took over the child's contents.
        let left = if nodes.path[0].level() == 1 { ROOT } else { before[0] };
        // If two leaves merged, the left one has all entries.
        let (leaf, neighbour) = (nodes.leaf().count(), nodes.extra[neighbour].count());
        let entries = if slot > 0 { [neighbour, leaf] } else { [leaf, neighbour] };
        debug_assert!(entries.iter().all(|&n| n <= nodes.layout.leaf.capacity), "B4: an overfull leaf");
        let mut after = vec![NewLeaf { lpn: left, low: span.low.clone(), entries: entries[0] }];
        debug_assert!(nodes.path[0].level() <= nodes.height, "B5: the tree rose by a removal");
        if self.core.pages.freed.is_empty() {
            let boundary = nodes.layout.internal.key(nodes.path[depth - 1].area(), first + 1);
            after.push(NewLeaf { lpn: before[1], low: Some(boundary.into()), entries: entries[1] });
        }
        Ok(Some(Reshaped { span, before, after }))
    }
}

impl Core {
    fn add_leaf<'a>(
        &mut self,
        records: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<(), IndexFault> {
        let (shape, depth) = (self.nodes.layout.leaf, self.nodes.height - 1);
        let first = self.nodes.extra_used;
        if depth == 0 {
            // The root keeps its page and becomes the parent of both.
            let left = self.new_node(1)?;
            self.nodes.extra[left].copy_node(&self.nodes.path[0]);
        }
        let right = self.new_node(1)?;
        let mut count = 0;
        for (at, entry) in records.enumerate() {
            put(&shape, &mut self.nodes.extra[right], at, entry);
            count = at + 1;
        }
        debug_assert!((1..=shape.capacity).contains(&count), "B4: a new leaf of {count} records");
        self.nodes.extra[right].set_count(count);
        if depth == 0 {
            self.nodes.put_root_above(first..right + 1);
            Ok(())
        } else {
            self.announce(depth, right)
        }
    }

    /// Merges the changes into the leaf, which then has `entries` entries, and splits it if it is too full.
    /// `None` if it stays one leaf.
    fn rewrite_leaf<'a>(
        &mut self,
        changes: impl Iterator<Item = Change<'a>>,
        entries: usize,
    ) -> Result<Option<Reshaped>, IndexFault> {
        let (shape, depth) = (self.nodes.layout.leaf, self.nodes.height - 1);
        let old = self.nodes.copy_leaf();
        let leaves = entries.div_ceil(shape.capacity).max(1);
        debug_assert!(leaves < 2 * HEIGHT_MAX, "{leaves} leaves are no group of pages");
        // A root keeps its page and becomes the parent, so all parts are new leaves.
        let stays = usize::from(depth > 0 || leaves == 1);
        for _ in stays..leaves {
            self.new_node(1)?;
        }
        let nodes = &mut self.nodes;
        debug_assert_eq!(nodes.extra_used, old + 1 + leaves - stays, "other frames than those of the parts");
        let end = |leaf: usize| (entries * (leaf + 1)).div_ceil(leaves);
        let (frames, new) = nodes.extra.split_at_mut(old + 1);
        let (mut leaf, mut start) = (0, 0);
        merge(&shape, frames[old].area(), frames[old].count(), changes, |at, entry| {
            if at == end(leaf) {
                (leaf, start) = (leaf + 1, at);
            }
            let node = if leaf < stays { &mut nodes.path[depth] } else { &mut new[leaf - stays] };
            put(&shape, node, at - start, entry);
        });
        debug_assert_eq!(leaf + 1, leaves, "B4: a part of the leaf got no record");
        if stays > 0 {
            nodes.path[depth].set_count(end(0));
        }
        for leaf in stays..leaves {
            new[leaf - stays].set_count(end(leaf) - if leaf > 0 { end(leaf - 1) } else { 0 });
        }
        debug_assert!(
            new[..leaves - stays].iter().all(|node| (1..=shape.capacity).contains(&node.count())),
            "B4: a part of the leaf is empty or overfull"
        );
        if leaves == 1 {
            return Ok(None);
        }
        self.announce_parts(old + 1..old + 1 + leaves - stays).map(Some)
    }

    /// Tells the parent of the new parts of the leaf, which are in these extra frames.
    fn announce_parts(&mut self, parts: core::ops::Range<usize>) -> Result<Reshaped, IndexFault> {
        let nodes = &mut self.nodes;
        debug_assert!(
            !parts.is_empty() && parts.end <= nodes.extra_used,
            "parts {parts:?} are no new leaves"
        );
        let depth = nodes.height - 1;
        let span = nodes.span_around_leaf(0, 0);
        let before = vec![nodes.leaf().lpn()];
        let mut after: Vec<NewLeaf> = parts.clone().map(|part| nodes.new_leaf(part)).collect();
        if depth == 0 {
            after[0].low = None;
            nodes.put_root_above(parts);
        } else {
            let entries = nodes.leaf().count();
            after.insert(0, NewLeaf { lpn: before[0], low: span.low.clone(), entries });
            // The last part goes first: each goes to the place right behind the leaf, and only a single part
            // may split the parent.
            for part in parts.rev() {
                self.announce(depth, part)?;
            }
        }
        debug_assert!(after.len() >= 2, "a leaf that was split is one leaf");
        Ok(Reshaped { span, before, after })
    }
}

/// Writes entry `at` of a node whose count is set afterwards.
fn put(shape: &NodeShape, node: &mut Frame, at: usize, (key, value): (&[u8], &[u8])) {
    shape.set_key(node.area_mut(), at, key);
    shape.set_value(node.area_mut(), at, value);
}

/// Counts the entries of a merge. It stops before the change that would make more than `entries_max`.
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

/// Calls `show` for each entry of a leaf after the changes, in order, with its place.
pub fn merge<'a>(
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
