//! The journal tree of JFFS3 for the wandering B+-tree: leaves move at once, the nodes above them later,
//! together.
//!
//! An update programs only the new leaf, marked as a journal leaf, and notes in RAM that the address named by
//! the parent now means the new page. The journal is *committed* if it is full, if a node must be split or
//! dropped, or if a checkpoint is due: the nodes above the moved leaves are written in key order, each once,
//! the root last. A mount finds the journal leaves written after the newest root and enters them again, so
//! every operation is durable.
//!
//! The journal costs RAM in proportion to the moved leaves. The mu-Tree paper (section 2.3) names this as its
//! disadvantage.

use super::{Nodes, RawScheme, RawTree};
use crate::check::{IndexError, words};
use crate::codec::get_u32;
use crate::fault::IndexFault;
use crate::log::tag::Tag;
use crate::nand::{Cause, Differs, Nand};
use crate::sort;
use crate::units::Ppn;
use alloc::vec::Vec;

/// Leaves that have moved since their parents were written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    capacity: usize,
    /// Pairs of the address that the parent names and the leaf's page, sorted.
    moved: Vec<(u32, u32)>,
}

impl Journal {
    /// Bytes of RAM of a journal of `capacity` leaves and of its commit: the leaves' keys, and the keys at
    /// which the nodes of a path end.
    pub(super) fn ram_needed(capacity: usize, height: u8, key_bytes: u8) -> usize {
        if capacity == 0 {
            return 0;
        }
        let (key, held) = (usize::from(key_bytes), size_of::<(Vec<u8>, Ppn)>());
        capacity * (size_of::<(u32, u32)>() + held + key) + (usize::from(height) + 1) * (held + key)
    }

    /// True if the tree keeps a journal, or has one left from before.
    pub(crate) fn is_on(&self) -> bool {
        self.capacity > 0 || !self.moved.is_empty()
    }

    /// Page of the leaf that a parent names as `named`.
    #[inline]
    pub(crate) fn resolve(&self, named: Ppn) -> Ppn {
        if self.moved.is_empty() {
            return named;
        }
        match self.moved.binary_search_by_key(&named.0, |entry| entry.0) {
            Ok(i) => Ppn(self.moved[i].1),
            Err(_) => named,
        }
    }

    fn note(&mut self, named: Ppn, page: Ppn) {
        match self.moved.binary_search_by_key(&named.0, |entry| entry.0) {
            Ok(i) => self.moved[i].1 = page.0,
            Err(i) => self.moved.insert(i, (named.0, page.0)),
        }
    }

    pub(super) fn clear(&mut self) {
        self.moved.clear();
    }

    /// Number of programs that a commit may take: the nodes above each leaf, and the root.
    pub(crate) fn pages_to_commit(&self, height: u8) -> u32 {
        Journal::pages_above(self.moved.len(), height)
    }

    /// Largest number of pages owed for a full journal in a tree of this height.
    pub(crate) fn owed_at_most(&self, height: u8) -> u32 {
        Journal::pages_above(self.capacity.max(self.moved.len()), height)
    }

    /// Number of pages that a commit of `leaves` leaves writes in a tree of this height.
    pub(super) fn pages_above(leaves: usize, height: u8) -> u32 {
        if leaves == 0 { 0 } else { leaves as u32 * u32::from(height.saturating_sub(2)) + 1 }
    }

    pub(crate) fn ram_bytes(&self) -> usize {
        self.capacity * size_of::<(u32, u32)>()
    }
}

impl<N: Nand, S: RawScheme> Nodes<N, S> {
    /// Sets the journal as the note of the next checkpoint: a mount writes that one before the journal is
    /// committed.
    pub(super) fn note_journal(&mut self) {
        let entries = self.journal.moved.iter().flat_map(|&(named, page)| [named, page]);
        let note = entries.flat_map(u32::to_le_bytes).collect();
        self.log.tape.set_note(note);
    }

    /// Programs the path's leaf alone and notes its page. Commits if the journal is full.
    fn write_moved_leaf(&mut self, cause: Cause) -> Result<(), IndexFault> {
        let named = self.path.named_child(2);
        self.log.tape.half_done = true;
        self.retire(1);
        let page = self.log.allocate(cause)?;
        let tag = Tag { journal: true, height: self.path.height, ..self.path.tag(1, 1) };
        let area = self.path.scheme.path_area(0, 1, self.path.height);
        self.log.write(page, tag, &self.path.buffer[area], cause)?;
        self.journal.note(named, page);
        if self.journal.moved.len() >= self.journal.capacity { self.commit_journal() } else { Ok(()) }
    }

    /// Writes the nodes above all moved leaves, in key order, each once, the root last.
    pub(super) fn commit_journal(&mut self) -> Result<(), IndexFault> {
        if !S::TAKES_JOURNAL || self.journal.moved.is_empty() {
            return Ok(());
        }
        let within_update = core::mem::replace(&mut self.log.tape.half_done, true);
        let mut keys = Vec::with_capacity(self.journal.moved.len());
        for &(named, page) in &self.journal.moved {
            let leaf = self.log.read(Ppn(page), Cause::Host)?;
            keys.push((self.path.scheme.shape(0, 1, 2).key(leaf.data, 0).to_vec(), Ppn(named)));
        }
        sort::total(&mut keys);
        let mut bounds: Vec<Option<Vec<u8>>> = Vec::new();
        for (i, (key, named)) in keys.iter().enumerate() {
            if i == 0 {
                self.copy_node(self.root, self.path.height, Cause::Host)?;
                self.descend_bounded(self.path.height, key, &mut bounds)?;
            } else {
                self.turn_to(key, &mut bounds)?;
            }
            let (shape, count) = (self.path.shape(2), self.path.count(2));
            let slot = shape.child_slot(self.path.node(2), count, key);
            self.path.step_mut(2).slot = slot as u16;
            let found = self.path.named(2, slot);
            if found != *named {
                return Err(IndexFault::corrupted(
                    "the journal names a leaf that its parent does not",
                    named.0,
                ));
            }
            let page = self.journal.resolve(*named);
            self.path.set_child(2, page);
        }
        self.journal.moved.clear();
        self.log.tape.set_note(Vec::new());
        S::write_path(self, 2, None, Cause::Host)?;
        self.log.finish();
        self.log.tape.half_done = within_update;
        Ok(())
    }

    /// Copies nodes from level `top` down to level 2 along `key`. `bounds[l - 2]` is the key at which the
    /// node at level l ends.
    fn descend_bounded(
        &mut self,
        top: u8,
        key: &[u8],
        bounds: &mut Vec<Option<Vec<u8>>>,
    ) -> Result<(), IndexFault> {
        bounds.reserve_exact((usize::from(self.path.height) - 1).saturating_sub(bounds.len()));
        bounds.resize(usize::from(self.path.height) - 1, None);
        for level in (3..=top).rev() {
            let (shape, count) = (self.path.shape(level), self.path.count(level));
            let slot = shape.child_slot(self.path.node(level), count, key);
            let end = if slot + 1 < count {
                Some(shape.key(self.path.node(level), slot + 1).to_vec())
            } else {
                bounds[usize::from(level) - 2].clone()
            };
            bounds[usize::from(level) - 3] = end;
            self.copy_path_from(level, key, level - 1, Cause::Host)?;
        }
        Ok(())
    }

    /// Writes the nodes that end before `key`, and copies the nodes that contain it.
    fn turn_to(&mut self, key: &[u8], bounds: &mut Vec<Option<Vec<u8>>>) -> Result<(), IndexFault> {
        let mut level = 2;
        while bounds[usize::from(level) - 2].as_deref().is_some_and(|end| key >= end) {
            let page = self.write_alone(level, false, Cause::Host)?;
            level += 1;
            self.path.set_child(level, page);
        }
        self.descend_bounded(level, key, bounds)
    }

    /// Restores the journal from the note of the newest checkpoint and from the leaves that a mount found
    /// after it, oldest first.
    pub(super) fn restore_journal(&mut self, note: &[u8], leaves: &[Ppn]) -> Result<(), IndexFault> {
        let pages = self.log.geometry().pages();
        for entry in note.chunks(8) {
            let sound = entry.len() == 8 && get_u32(entry, 0) < pages && get_u32(entry, 4) < pages;
            if !sound {
                return Err(IndexError::other(
                    Differs::Settings,
                    words("the newest checkpoint keeps no journal of moved leaves"),
                )
                .into());
            }
            self.journal.note(Ppn(get_u32(entry, 0)), Ppn(get_u32(entry, 4)));
        }
        for &leaf in leaves {
            let page = self.log.read(leaf, Cause::Recovery)?;
            let key = self.path.scheme.shape(0, 1, 2).key(page.data, 0).to_vec();
            if self.path.height < 2 {
                return Err(IndexFault::corrupted("a journal leaf below no parent", leaf.0));
            }
            self.copy_path(&key, 2, Cause::Recovery)?;
            let path = &self.path;
            let slot = path.shape(2).child_slot(path.node(2), path.count(2), &key);
            self.journal.note(path.named(2, slot), leaf);
        }
        Ok(())
    }
}

impl<N: Nand, S: RawScheme> RawTree<N, S> {
    /// Sets the size of the journal to `leaves` moved leaves. If more have moved, or 0 are wanted, the next
    /// update commits them.
    pub fn set_journal(&mut self, leaves: usize) {
        let nodes = &mut self.nodes;
        if S::MAPS_MOVES || S::TAKES_JOURNAL {
            nodes.journal.capacity = leaves;
            let entries = leaves.max(nodes.journal.moved.len()).max(nodes.moves.entries_max());
            nodes.log.tape.expect_note(entries * size_of::<(u32, u32)>());
        }
    }

    pub(super) fn insert_journaled(
        &mut self,
        (key, value): (&[u8], &[u8]),
        found: Result<usize, usize>,
        changes_parent: bool,
    ) -> Result<bool, IndexFault> {
        if changes_parent || self.nodes.path.height == 1 {
            self.nodes.commit_journal()?;
            self.nodes.copy_path(key, 1, Cause::Host)?;
            self.change_leaf(key, value, found)?;
            return Ok(found.is_ok());
        }
        let path = &mut self.nodes.path;
        match found {
            Ok(i) => path.shape(1).set_value(path.node_mut(1), i, value),
            Err(i) => path.insert(1, i, (key, value)),
        }
        self.move_leaf(Cause::Host)?;
        Ok(found.is_ok())
    }

    pub(super) fn remove_journaled(
        &mut self,
        key: &[u8],
        slot: usize,
        empties: bool,
    ) -> Result<bool, IndexFault> {
        if empties || self.nodes.path.height == 1 {
            self.nodes.commit_journal()?;
            self.nodes.copy_path(key, 1, Cause::Host)?;
            self.take_from_leaf(slot)?;
            return Ok(true);
        }
        self.nodes.path.remove(1, slot);
        self.move_leaf(Cause::Host)?;
        Ok(true)
    }

    /// Moves a page of a victim block: a leaf by the journal, an inner node with the path above it.
    pub(super) fn relocate_journaled(&mut self, ppn: Ppn, level: u8) -> Result<(), IndexFault> {
        if level == 1 && self.nodes.path.height > 1 {
            return self.move_leaf(Cause::GarbageCollection);
        }
        let nodes = &mut self.nodes;
        nodes.commit_journal()?;
        // The commit may have moved the page.
        if !nodes.log.is_valid(ppn) {
            return Ok(());
        }
        match nodes.find_page(ppn)? {
            Some(level) => {
                S::write_path(nodes, level, None, Cause::GarbageCollection)?;
                nodes.log.finish();
            }
            None => nodes.log.drop_unreached(ppn),
        }
        Ok(())
    }

    /// Programs the path's leaf alone and ends the update.
    fn move_leaf(&mut self, cause: Cause) -> Result<(), IndexFault> {
        self.nodes.write_moved_leaf(cause)?;
        self.end_update()
    }
}
