//! Insertion, removal and relocation, as far as they are the same for every scheme: pure edits of the copied
//! path.

use super::path::Key;
use super::{Change, Leaf, LeafUse, Nodes, Path, RawScheme, RawTree, Sibling, address, child_value};
use crate::check::IndexError;
use crate::fault::IndexFault;
use crate::log::collect::{MoveCost, Relocate};
use crate::log::tag::Tag;
use crate::log::{Log, SamePage};
use crate::nand::{Cause, Nand};
use crate::ordered::node::NodeShape;
use crate::units::{Pbn, Ppn};

impl<S: RawScheme> Path<S> {
    /// Makes the node at `level` the root, of a tree that is no higher.
    fn become_root(&mut self, level: u8) {
        let (shape, count, area) = (self.shape(level), self.count(level), self.node_area(level));
        let bytes = area.len();
        self.detached[..bytes].copy_from_slice(&self.buffer[area]);
        let layout = self.scheme.layout_for_root(count, level);
        (self.height, self.layout) = (level, layout);
        let step = self.step_mut(level);
        (step.layout, step.aside) = (layout, false);
        let (root, area) = (self.shape(level), self.node_area(level));
        let node = &mut self.buffer[area];
        shape.copy_entries((&self.detached[..bytes], 0), count, (&root, node, 0));
        if S::MAPS_MOVES && level > 1 {
            self.zero_bound(level);
        }
    }

    /// Whether a key lies below the lower bounds on its path.
    fn lowers_bounds(&self, key: &[u8]) -> bool {
        self.height > 1 && key < self.shape(2).key(self.node(2), self.slot(2))
    }

    /// Keeps the entries of the path lower bounds of what lies below them, for a new key.
    pub(super) fn lower_bounds(&mut self, key: &[u8]) {
        if self.scheme.holds_one() {
            return self.lower_later(key);
        }
        for level in 2..=self.height {
            let (shape, slot) = (self.shape(level), self.slot(level));
            if slot == 0 && key < shape.key(self.node(level), 0) {
                shape.set_key(self.node_mut(level), 0, key);
            }
        }
    }

    /// Entries that a node of the path may take; a root may become full, for it is split when it is written.
    fn room(&self, level: u8) -> usize {
        if level == self.height { self.shape(level).capacity } else { self.limit(level) }
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
}

impl<N: Nand, S: RawScheme> Nodes<N, S> {
    /// Puts a record as part of a batch, whose room was made.
    pub(super) fn put_in_room(&mut self, key: &[u8], value: &[u8]) -> Result<(), IndexFault> {
        self.copy_path(key, 1, Cause::Host)?;
        self.note_update();
        S::settle(self, Change::Put(key))?;
        let found = self.path.shape(1).search(self.path.node(1), self.path.count(1), key);
        if found.is_err() {
            if self.path.root_would_overflow() {
                return Err(IndexError::Full.into());
            }
            self.require_room_to_grow()?;
        }
        self.write_leaf_of(key, value, found)
    }

    /// Removes a record as part of a batch, if it is there.
    pub(super) fn remove_in_room(&mut self, key: &[u8]) -> Result<(), IndexFault> {
        self.copy_path(key, 1, Cause::Host)?;
        self.note_update();
        let Ok(slot) = self.path.shape(1).search(self.path.node(1), self.path.count(1), key) else {
            return Ok(());
        };
        S::settle(self, Change::Keep(1))?;
        self.interrupted = true;
        self.take_entry(slot)
    }

    fn write_leaf_of(
        &mut self,
        key: &[u8],
        value: &[u8],
        found: Result<usize, usize>,
    ) -> Result<(), IndexFault> {
        debug_assert!(found.unwrap_or_else(|at| at) <= self.path.count(1), "R1: no such place in the leaf");
        self.interrupted = true;
        let sibling = match found {
            Ok(i) => {
                let shape = self.path.shape(1);
                shape.set_value(self.path.node_mut(1), i, value);
                None
            }
            Err(i) => {
                self.path.lower_bounds(key);
                self.add_entry(1, i, (key, value))?
            }
        };
        S::write_path(self, 1, sibling, Cause::Host)
    }

    /// Tells the scheme of the path just copied.
    fn note_update(&mut self) {
        let page = |level| self.path.step(level).page;
        let rereads = self.log.config().same_page == SamePage::Read;
        let costs = |level: &u8| rereads || page(*level) != page(*level + 1);
        let pages = 1 + (1..self.path.height).filter(costs).count() as u8;
        let leaf = Leaf { count: self.path.count(1), capacity: self.path.shape(1).capacity, pages };
        self.path.scheme.note_leaf(LeafUse::Update, leaf);
    }

    /// The path's node at `level` is about to be replaced or dropped: its page dies if it begins with that
    /// node.
    pub(crate) fn retire(&mut self, level: u8) {
        debug_assert!((1..=self.path.height).contains(&level), "R2: level {level} of {}", self.path.height);
        let step = self.path.step(level);
        if step.lowest_level == level {
            self.log.invalidate(Ppn(step.page));
        }
    }

    /// Adds an entry to a node of the path. When the node is full it is split, and the half off the path
    /// written.
    pub(super) fn add_entry(
        &mut self,
        level: u8,
        i: usize,
        entry: (&[u8], &[u8]),
    ) -> Result<Option<Sibling>, IndexFault> {
        let (shape, count) = (self.path.shape(level), self.path.count(level));
        if count < self.path.room(level) {
            shape.insert(self.path.node_mut(level), count, i, entry);
            self.path.step_mut(level).count += 1;
            return Ok(None);
        }
        self.split_node(level, i, entry).map(Some)
    }

    /// Splits a full node that takes one more entry at place `i`: the first ceil((d+1)/2) entries go left. A
    /// leaf's right half stays on the path, and of an inner node the half with the path's child.
    fn split_node(&mut self, level: u8, i: usize, entry: (&[u8], &[u8])) -> Result<Sibling, IndexFault> {
        let (shape, count) = (self.path.shape(level), self.path.count(level));
        debug_assert!(i <= count && count >= 2, "R1: a node of {count} is split at {i}");
        let left_count = (count + 1).div_ceil(2);
        let entry_is_left = i < left_count;
        // Entries of the full node that go left, so that the left half has `left_count` once the new entry is
        // in.
        let kept_left = if entry_is_left { left_count - 1 } else { left_count };
        let path_is_left = level > 1 && entry_is_left;
        self.path.detach_half(level, kept_left, !path_is_left);
        let (node_count, detached_count) =
            if path_is_left { (kept_left, count - kept_left) } else { (count - kept_left, kept_left) };
        self.path.step_mut(level).count = node_count as u16;
        let mut detached_count = detached_count;
        let at = if entry_is_left { i } else { i - kept_left };
        if entry_is_left == path_is_left {
            shape.insert(self.path.node_mut(level), node_count, at, entry);
            self.path.step_mut(level).count += 1;
        } else {
            let area = self.path.scheme.page_area(self.path.layout_at(level), level, self.path.height);
            shape.insert(&mut self.path.detached[area], detached_count, at, entry);
            detached_count += 1;
        }
        debug_assert_eq!(self.path.count(level) + detached_count, count + 1, "R1: entries lost in a split");
        debug_assert!(self.path.count(level) > 0 && detached_count > 0, "R1: a split leaves a node empty");
        if level > 1 {
            let slot = if path_is_left { i } else { i - kept_left };
            self.path.step_mut(level).slot = slot as u16;
        }
        debug_assert!(
            level == 1 || self.path.slot(level) < self.path.count(level),
            "R3: the path lost its child"
        );
        let right = if path_is_left {
            &self.path.detached
                [self.path.scheme.page_area(self.path.layout_at(level), level, self.path.height)]
        } else {
            self.path.node(level)
        };
        let separator = Key::of(shape.key(right, 0));
        self.sibling(level, detached_count, separator, !path_is_left)
    }

    /// Writes the half in the detached page.
    fn sibling(
        &mut self,
        level: u8,
        count: usize,
        separator: Key,
        is_left: bool,
    ) -> Result<Sibling, IndexFault> {
        debug_assert!(count > 0 && count <= self.path.shape(level).capacity, "R1: a half of {count} entries");
        debug_assert_eq!(separator.len(), usize::from(self.record.key_bytes), "a separator of another width");
        let (layout, shape) = (self.path.layout_at(level), self.path.shape(level));
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

    /// Enters the half that a split below left over into the path's node at `level`, which may be split in
    /// turn. The path's own entry is left to name its child by [`RawTree::set_child`].
    pub(crate) fn enter_sibling(&mut self, level: u8, half: &Sibling) -> Result<Option<Sibling>, IndexFault> {
        let (shape, slot) = (self.path.shape(level), self.path.slot(level));
        debug_assert!(level > 1, "R2: a leaf has no child to enter");
        debug_assert!(
            slot < self.path.count(level),
            "R3: the path's entry {slot} of {}",
            self.path.count(level)
        );
        let address = child_value::<S>(half.page, half.width);
        if half.is_left {
            // The entry so far names the left half now; the new one is the path's.
            shape.set_value(self.path.node_mut(level), slot, &address);
            self.path.step_mut(level).slot += 1;
            self.add_entry(level, slot + 1, (&half.separator, &address))
        } else {
            self.add_off_path(level, slot + 1, (&half.separator, &address))
        }
    }

    /// Adds an entry that is not the path's, keeping track of the path's slot when the node is split.
    fn add_off_path(
        &mut self,
        level: u8,
        i: usize,
        entry: (&[u8], &[u8]),
    ) -> Result<Option<Sibling>, IndexFault> {
        debug_assert_eq!(i, self.path.slot(level) + 1, "the new entry is not the path's right neighbour");
        let count = self.path.count(level);
        if count < self.path.room(level) {
            return self.add_entry(level, i, entry);
        }
        let slot = self.path.slot(level);
        let left_count = (count + 1).div_ceil(2);
        let kept_left = if i < left_count { left_count - 1 } else { left_count };
        if (slot < kept_left) == (i < left_count) {
            let sibling = self.split_node(level, i, entry)?;
            self.path.step_mut(level).slot -= 1;
            return Ok(Some(sibling));
        }
        self.split_apart(level, i, entry)
    }

    /// The seam falls between the path's entry (last of the left half) and the new one (first of the right
    /// half).
    fn split_apart(
        &mut self,
        level: u8,
        i: usize,
        entry: (&[u8], &[u8]),
    ) -> Result<Option<Sibling>, IndexFault> {
        let (shape, count) = (self.path.shape(level), self.path.count(level));
        debug_assert!(self.path.slot(level) + 1 == i && i < count, "the seam is not behind the path's entry");
        self.path.detach_half(level, i, false);
        let layout = self.path.layout_at(level);
        let area = self.path.scheme.page_area(layout, level, self.path.height);
        shape.insert(&mut self.path.detached[area], count - i, 0, entry);
        self.path.step_mut(level).count = i as u16;
        debug_assert!(
            self.path.slot(level) < self.path.count(level),
            "R3: the path lost its child in a split"
        );
        self.sibling(level, count - i + 1, Key::of(entry.0), false).map(Some)
    }

    /// Takes an entry out of the copied leaf, and what becomes empty out of the nodes above, and writes the
    /// path.
    pub(super) fn take_entry(&mut self, mut slot: usize) -> Result<(), IndexFault> {
        let mut lowest = 1;
        loop {
            let (shape, count) = (self.path.shape(lowest), self.path.count(lowest));
            debug_assert!(slot < count, "R1: entry {slot} of {count} at level {lowest}");
            // The bound of a node is never lowered: what its parent names may not change.
            let bound = (S::MAPS_MOVES && lowest > 1 && count > 1)
                .then(|| Key::of(shape.key(self.path.node(lowest), 0)));
            shape.remove(self.path.node_mut(lowest), count, slot);
            self.path.step_mut(lowest).count -= 1;
            if let Some(bound) = bound {
                shape.set_key(self.path.node_mut(lowest), 0, &bound);
            }
            if count > 1 || lowest == self.path.height {
                break;
            }
            self.retire(lowest);
            self.counts.expelled += 1;
            lowest += 1;
            slot = self.path.slot(lowest);
            self.fetch(lowest, Cause::Host)?;
            self.forget_move(address::<S>(self.path.shape(lowest).value(self.path.node(lowest), slot)));
        }
        let lowest = self.shrink(lowest)?;
        debug_assert!((1..=self.path.height).contains(&lowest), "R2: nothing is left of the path");
        S::write_path(self, lowest, None, Cause::Host)
    }

    /// While the root has one child only, the child becomes the root (mu-Tree paper, Algorithm 5). Returns
    /// the lowest level of the path that is left.
    fn shrink(&mut self, mut lowest: u8) -> Result<u8, IndexFault> {
        while self.path.height > 1 && self.path.count(self.path.height) == 1 {
            assert_eq!(lowest, self.path.height, "R3: a root with one child was left to stand");
            let level = self.path.height - 1;
            let child =
                address::<S>(self.path.shape(self.path.height).value(self.path.node(self.path.height), 0));
            self.retire(self.path.height);
            self.copy_node(child, level, Cause::Host)?;
            self.forget_move(child);
            self.path.become_root(level);
            lowest = level;
        }
        Ok(lowest)
    }

    /// Writes the path's node at `level` to a page of its own; the old one dies. For trees with one node in a
    /// page.
    pub(in crate::ordered) fn write_alone(
        &mut self,
        level: u8,
        is_root: bool,
        cause: Cause,
    ) -> Result<Ppn, IndexFault> {
        debug_assert!((1..=self.path.height).contains(&level), "R2: level {level} of {}", self.path.height);
        debug_assert!(
            !is_root || level == self.path.height,
            "R2: a root at level {level} of {}",
            self.path.height
        );
        self.retire(level);
        let page = self.log.allocate(cause)?;
        let tag = Tag { root: is_root, height: self.path.height, ..self.path.tag(level, level) };
        let area = self.path.scheme.path_area(0, level, self.path.height);
        self.log.write(page, tag, &self.path.buffer[area], cause)?;
        if is_root {
            (self.root, self.path.root_entries) = (page, self.path.step(level).count);
        }
        Ok(page)
    }
}

impl<N: Nand, S: RawScheme> RawTree<N, S> {
    pub(super) fn insert_entry(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexFault> {
        S::before_update(&mut self.nodes);
        self.make_room_for_update(true)?;
        // A split root needs room for the one above it.
        let path_bytes = self.nodes.path.scheme.path_bytes(self.nodes.path.height + 1);
        self.nodes.path.buffer.resize(path_bytes, 0xff);
        self.nodes.log.begin(self.nodes.pages_at_once())?;
        self.nodes.copy_path(key, 1, Cause::Host)?;
        self.nodes.note_update();
        S::settle(&mut self.nodes, Change::Put(key))?;
        let (shape, count) = (self.nodes.path.shape(1), self.nodes.path.count(1));
        let found = shape.search(self.nodes.path.node(1), count, key);
        (self.update_began, self.existed) = (true, found.is_ok());
        if found.is_err() && self.nodes.path.root_would_overflow() {
            return Err(IndexError::Full.into());
        }
        if found.is_err() {
            self.nodes.require_room_to_grow()?;
        }
        if self.nodes.is_journaled() {
            let splits = found.is_err() && count == shape.capacity;
            return self.insert_journaled((key, value), found, splits || self.nodes.path.lowers_bounds(key));
        }
        self.change_leaf(key, value, found)?;
        Ok(found.is_ok())
    }

    /// Changes the copied leaf, writes the path and ends the update.
    pub(super) fn change_leaf(
        &mut self,
        key: &[u8],
        value: &[u8],
        found: Result<usize, usize>,
    ) -> Result<(), IndexFault> {
        self.nodes.write_leaf_of(key, value, found)?;
        self.end_update()
    }

    pub(super) fn remove_entry(&mut self, key: &[u8]) -> Result<bool, IndexFault> {
        S::before_update(&mut self.nodes);
        self.make_room_for_update(false)?;
        self.nodes.log.begin(self.nodes.pages_at_once())?;
        self.nodes.copy_path(key, 1, Cause::Host)?;
        self.nodes.note_update();
        let Ok(slot) =
            self.nodes.path.shape(1).search(self.nodes.path.node(1), self.nodes.path.count(1), key)
        else {
            return Ok(false);
        };
        (self.update_began, self.existed) = (true, true);
        if self.nodes.is_journaled() {
            let empties = self.nodes.path.count(1) == 1 && self.nodes.path.height > 1;
            return self.remove_journaled(key, slot, empties);
        }
        S::settle(&mut self.nodes, Change::Keep(1))?;
        self.take_from_leaf(slot)?;
        Ok(true)
    }

    /// Takes an entry out of the copied leaf and ends the update.
    pub(super) fn take_from_leaf(&mut self, slot: usize) -> Result<(), IndexFault> {
        self.nodes.interrupted = true;
        self.nodes.take_entry(slot)?;
        self.end_update()
    }

    /// Ends an update, which is done: that no checkpoint can be written now changes nothing about it.
    pub(super) fn end_update(&mut self) -> Result<(), IndexFault> {
        self.nodes.log.finish();
        self.nodes.interrupted = false;
        debug_assert!(
            self.nodes.log.is_valid(self.nodes.root),
            "R5: the root's page {} is not valid",
            self.nodes.root
        );
        if !self.nodes.log.tape.wants_checkpoint() {
            return Ok(());
        }
        match self.checkpoint() {
            Err(error) if error.is_refusal() && !self.nodes.interrupted => Ok(()),
            other => other,
        }
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

impl<N: Nand, S: RawScheme> Relocate<N> for RawTree<N, S> {
    fn log(&mut self) -> &mut Log<N> {
        &mut self.nodes.log
    }

    /// Rewrites the path to the page's lowest node, found by that node's first key.
    fn relocate(&mut self, ppn: Ppn) -> Result<(), IndexFault> {
        if S::MAPS_MOVES
            && self.nodes.log.free_pages() < self.nodes.path.scheme.pages_per_update(self.nodes.path.height)
        {
            return Err(IndexError::Full.into());
        }
        self.nodes.log.begin(
            self.nodes.path.scheme.programs_per_move(self.nodes.path.height)
                + self.nodes.journal_pages(self.nodes.path.height),
        )?;
        let Some(level) = self.nodes.find_page(ppn)? else {
            self.nodes.log.drop_unreached(ppn);
            return Ok(());
        };
        debug_assert!(
            (1..=self.nodes.path.height).contains(&level),
            "R2: level {level} of {}",
            self.nodes.path.height
        );
        if self.nodes.is_journaled() {
            return self.relocate_journaled(ppn, level);
        }
        S::settle(&mut self.nodes, Change::Keep(level))?;
        self.nodes.interrupted = true;
        S::write_path(&mut self.nodes, level, None, Cause::GarbageCollection)?;
        self.nodes.log.finish();
        self.nodes.interrupted = false;
        debug_assert!(
            self.nodes.log.is_valid(self.nodes.root),
            "R5: the root's page {} is not valid",
            self.nodes.root
        );
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), IndexFault> {
        if !self.nodes.is_mount_behind()? {
            return Ok(());
        }
        self.nodes.commit_journal()?;
        self.nodes.log.checkpoint(super::note_of::<S>(&self.nodes.moves))
    }

    fn let_go(&mut self, victim: Pbn) -> Result<bool, IndexFault> {
        // A scheme that maps moves has no order of pages in which a mount could miss one.
        if S::MAPS_MOVES || !self.nodes.log.tape.is_needed(victim) {
            return Ok(true);
        }
        if self.nodes.log.config().write_pages == 0 {
            self.nodes.commit_journal()?;
        } else {
            self.checkpoint()?;
        }
        Ok(!self.nodes.log.tape.is_needed(victim))
    }

    fn settle_valid_bits(&mut self) -> Result<bool, IndexFault> {
        if !core::mem::take(&mut self.bits_in_doubt) {
            return Ok(false);
        }
        if self.nodes.log.config().counts() {
            let counted = self.nodes.count_reached();
            self.bits_in_doubt = counted.is_err();
            return counted.map(|()| true);
        }
        for ppn in (0..self.nodes.log.geometry().pages()).map(Ppn) {
            if self.nodes.log.is_valid(ppn) && self.nodes.find_page(ppn)?.is_none() {
                // One at a time: there may be as many as pages.
                self.nodes.log.drop_unreached(ppn);
            }
        }
        Ok(true)
    }

    fn note_valid_pages(&mut self) -> Result<(), IndexFault> {
        self.nodes.note_reached()
    }

    fn help_collection(&mut self) -> Result<bool, IndexFault> {
        if S::MAPS_MOVES { self.nodes.empty_table() } else { Ok(false) }
    }

    fn move_cost(&self) -> MoveCost {
        let Nodes { path, journal, moves, .. } = &self.nodes;
        let (scheme, height) = (&path.scheme, path.height);
        // A table with room takes the move; else a parent is written as well, and seldom more.
        let is_mapped = S::MAPS_MOVES && moves.has_room();
        MoveCost {
            programs: if is_mapped { 1 } else { scheme.programs_per_move(height) },
            owed: if S::TAKES_JOURNAL { journal.pages_to_commit(height) } else { 0 },
            slack: if S::MAPS_MOVES { scheme.pages_per_update(height) } else { 0 },
        }
    }

    /// A move costs a program, and its share of the parents that are written to empty the table for it.
    fn is_worth(&mut self, valid: u32) -> bool {
        if !S::MAPS_MOVES {
            return true;
        }
        let (valid, pages) = (u64::from(valid), u64::from(self.nodes.log.geometry().pages_per_block));
        let parents =
            self.nodes.log.live_pages() / (self.nodes.path.scheme.shape(0, 2, 3).capacity as u64 / 2) + 1;
        let entries = self.nodes.moves.entries_max() as u64;
        2 * valid < pages || (self.nodes.moves.has_room() && valid * (entries + parents) < pages * entries)
    }
}
