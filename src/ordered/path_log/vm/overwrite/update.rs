//! Changes of the tree: slots are appended and marked dead in place, and full pages are replaced by new ones.

use super::{ADDRESS_BYTES, InPlace, Keep, LEVELS_MAX};
use crate::check::{IndexError, Limit};
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand};
use crate::units::Ppn;
use alloc::vec;
use alloc::vec::Vec;

/// How many pages take the place of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anew {
    /// One page if the entries fill at most half of it, otherwise two.
    AsFull,
    /// One page if it holds the entries: the page is moved, or a program of it failed.
    AsIs,
}

impl<N: Nand> InPlace<N> {
    /// Enters a record into the leaf on the path; `old` is the slot of the key.
    pub(super) fn put(&mut self, entry: &[u8], old: Option<usize>) -> Result<(), IndexFault> {
        if self.path.node(1).used < self.pages.shapes.leaf.capacity {
            return self.change_leaf(entry, old.as_slice());
        }
        let entries = self.entries_with(1, old.as_slice(), entry);
        self.replace(1, &entries, Anew::AsFull, Cause::Host)
    }

    /// Appends entries to the leaf on the path, then marks these slots dead. A leaf that becomes empty leaves
    /// the tree.
    pub(super) fn change_leaf(&mut self, entries: &[u8], dead: &[usize]) -> Result<(), IndexFault> {
        if !entries.is_empty() && !self.append(1, entries, Cause::Host)? {
            let all = self.entries_with(1, dead, entries);
            return self.replace(1, &all, Anew::AsIs, Cause::Host);
        }
        if dead.is_empty() {
            return Ok(());
        }
        self.counters.overwrites += u64::from(entries.is_empty());
        self.mark_dead(1, dead, Cause::Host)?;
        let leaf = self.path.node(1);
        let is_empty = (0..leaf.used).all(|slot| !self.pages.shapes.leaf.is_live(&leaf.bytes, slot));
        if is_empty && leaf.ppn != super::NONE { self.prune() } else { Ok(()) }
    }

    /// The live entries of the path's node without these slots, and new ones, in key order.
    pub(super) fn entries_with(&self, level: u8, but: &[usize], new: &[u8]) -> Vec<u8> {
        let (shape, node) = (self.pages.shapes.at(level), self.path.node(level));
        let mut entries = shape.sorted(&node.bytes, node.used, but);
        new.chunks_exact(shape.entry_bytes).for_each(|entry| shape.enter(&mut entries, entry));
        entries
    }

    /// Programs entries into the next slots of the path's node, and then the mark that commits them. Returns
    /// false if a program failed.
    pub(super) fn append(&mut self, level: u8, entries: &[u8], cause: Cause) -> Result<bool, IndexFault> {
        let shape = self.pages.shapes.at(level);
        let node = self.path.node_mut(level);
        let end = node.used + entries.len() / shape.entry_bytes;
        debug_assert!(end <= shape.capacity, "O1: {end} slots of {}", shape.capacity);
        debug_assert!(entries.len().is_multiple_of(shape.entry_bytes), "O1: an entry is cut short");
        debug_assert_ne!(node.ppn, super::NONE, "O2: the node is not in RAM");
        for (slot, entry) in (node.used..).zip(entries.chunks_exact(shape.entry_bytes)) {
            shape.fill(&mut node.bytes, slot, entry);
        }
        self.counters.overwrites += 1;
        if !self.overwrite_node(level, cause)? {
            return Ok(false);
        }
        let node = self.path.node_mut(level);
        shape.mark_used(&mut node.bytes, end);
        let ppn = node.ppn;
        if !self.overwrite_node(level, cause)? {
            // What the chip holds decides, not what it said: a mark that is there counts at the next mount.
            let (page, used) = self.pages.reread_page(ppn, shape, cause)?;
            self.path.node_mut(level).bytes = page;
            if used != end {
                return Ok(false);
            }
        }
        self.path.node_mut(level).used = end;
        Ok(true)
    }

    /// Overwrites the path's node with its copy in RAM.
    fn overwrite_node(&mut self, level: u8, cause: Cause) -> Result<bool, IndexFault> {
        let shape = self.pages.shapes.at(level);
        let node = self.path.node_mut(level);
        self.pages.overwrite((node.ppn, shape), cause, &mut node.bytes)
    }

    /// Writes new pages with these entries instead of the path's node, and updates the parent.
    pub(super) fn replace(
        &mut self,
        mut level: u8,
        entries: &[u8],
        anew: Anew,
        cause: Cause,
    ) -> Result<(), IndexFault> {
        let mut entries = entries.to_vec();
        loop {
            let (inner, height) = (self.pages.shapes.inner, self.path.height);
            debug_assert!((1..=height).contains(&level), "O2: level {level} of {height}");
            let told = self.write_anew(level, &entries, anew, cause)?;
            self.replaced.push(self.path.node(level).ppn);
            self.inner_nodes -= u32::from(level > 1);
            if level == height {
                return self.replace_root(&told, cause);
            }
            self.path.node_mut(level).ppn = super::NONE;
            level += 1;
            self.reread(level, cause)?;
            let slot = self.path.node(level).slot;
            let has_room = self.path.node(level).used + told.len() / inner.entry_bytes <= inner.capacity;
            if has_room && self.append(level, &told, cause)? {
                return self.mark_dead(level, &[slot], cause);
            }
            entries = self.entries_with(level, &[slot], &told);
        }
    }

    /// Marks slots of the path's node dead.
    pub(super) fn mark_dead(&mut self, level: u8, slots: &[usize], cause: Cause) -> Result<(), IndexFault> {
        let shape = self.pages.shapes.at(level);
        let node = self.path.node_mut(level);
        debug_assert!(slots.iter().all(|&slot| slot < node.used), "O1: a slot beyond {}", node.used);
        slots.iter().for_each(|&slot| shape.mark_dead(&mut node.bytes, slot));
        let ppn = node.ppn;
        if self.overwrite_node(level, cause)? {
            return Ok(());
        }
        // What the chip holds decides, not what it said.
        let (found, _) = self.pages.reread_page(ppn, shape, cause)?;
        if slots.iter().all(|&slot| !shape.is_live(&found, slot)) {
            return Ok(());
        }
        let entries = self.entries_with(level, &[], &[]);
        self.replace(level, &entries, Anew::AsIs, cause)
    }

    /// Frees the pages that were replaced, now that those in their place are in use: an erase must not
    /// overtake that.
    pub(super) fn free_replaced(&mut self) {
        self.replaced.drain(..).for_each(|ppn| self.pages.space.set_dead(ppn));
    }

    /// Writes the entries to one or two new pages. Returns the entries for their parent.
    fn write_anew(
        &mut self,
        level: u8,
        entries: &[u8],
        anew: Anew,
        cause: Cause,
    ) -> Result<Vec<u8>, IndexFault> {
        let shape = self.pages.shapes.at(level);
        let count = entries.len() / shape.entry_bytes;
        debug_assert!(entries.len().is_multiple_of(shape.entry_bytes), "O1: an entry is cut short");
        let most = if anew == Anew::AsIs { shape.capacity } else { shape.capacity / 2 };
        let is_root = level == self.path.height;
        let bound = if is_root {
            vec![0xff; usize::from(self.pages.shapes.record().key_bytes)]
        } else {
            self.path.bound(&self.pages.shapes.inner, level + 1).to_vec()
        };
        let mut told = Vec::with_capacity(2 * self.pages.shapes.inner.entry_bytes);
        let mut right = entries;
        if count > most {
            let (left, rest) = entries.split_at(count.div_ceil(2) * shape.entry_bytes);
            right = rest;
            self.counters.splits += 1;
            let ppn = self.write_node(level, false, left, cause)?;
            let last = left.len() - shape.entry_bytes;
            told.extend_from_slice(&left[last..last + shape.key_bytes]);
            told.extend_from_slice(&ppn.to_le_bytes());
        }
        debug_assert!(right.len() / shape.entry_bytes <= shape.capacity, "O1: a half does not fit its page");
        let ppn = self.write_node(level, is_root && count <= most, right, cause)?;
        told.extend_from_slice(&bound);
        told.extend_from_slice(&ppn.to_le_bytes());
        debug_assert!(
            told.len() == self.pages.shapes.inner.entry_bytes * if count > most { 2 } else { 1 },
            "O3: the parent is told of other nodes"
        );
        Ok(told)
    }

    pub(super) fn write_node(
        &mut self,
        level: u8,
        is_root: bool,
        entries: &[u8],
        cause: Cause,
    ) -> Result<u32, IndexFault> {
        let (shape, sequence) = (self.pages.shapes.at(level), self.pages.next_sequence());
        debug_assert!(
            (1..=self.path.height + 1).contains(&level),
            "O2: level {level} above {}",
            self.path.height
        );
        shape.birth(&mut self.pages.birth, (sequence, level), is_root, entries);
        self.counters.new_pages += 1;
        self.inner_nodes += u32::from(level > 1);
        self.pages.write_birth(shape, cause)
    }

    /// Makes a new root: the new page, or a page above the two new ones. `told` are the entries that a parent
    /// would get.
    fn replace_root(&mut self, told: &[u8], cause: Cause) -> Result<(), IndexFault> {
        let old = (self.path.root, self.path.height);
        let at = self.pages.shapes.inner.entry_bytes - ADDRESS_BYTES;
        if told.len() == self.pages.shapes.inner.entry_bytes {
            self.path.root = crate::codec::get_u32(told, at);
        } else {
            if self.path.height == LEVELS_MAX {
                return Err(IndexError::Full(Limit::Height).into());
            }
            self.path.root = self.write_node(self.path.height + 1, true, told, cause)?;
            self.path.height += 1;
        }
        let mut node = self.path.nodes[usize::from(old.1) - 1].clone();
        self.pages.retire_root(&mut node.bytes, old.0, cause)?;
        self.path.forget();
        Ok(())
    }

    /// Reads a parent again before it is changed, as the published program with three buffers must. The copy
    /// in RAM stays the same.
    fn reread(&mut self, level: u8, cause: Cause) -> Result<(), IndexFault> {
        if self.path.keep == Keep::ThreeBuffers && level < self.path.height {
            let ppn = self.path.node(level).ppn;
            self.pages.nand.read(Ppn(ppn), cause, &mut self.pages.birth, &mut [])?;
        }
        Ok(())
    }

    /// Marks dead the entry of the highest node of the path that has nothing below it but the empty leaf and
    /// is not the last child of its parent: the neighbour to the right takes over its keys.
    fn prune(&mut self) -> Result<(), IndexFault> {
        for level in 2..=self.path.height {
            let node = self.path.node(level);
            let live = (0..node.used).filter(|&slot| self.pages.shapes.inner.is_live(&node.bytes, slot));
            let greatest = live.clone().max_by_key(|&slot| self.pages.shapes.inner.key(&node.bytes, slot));
            if greatest != Some(node.slot) {
                let slot = node.slot;
                self.replaced.extend((1..level).map(|below| self.path.node(below).ppn));
                self.counters.overwrites += 1;
                self.mark_dead(level, &[slot], Cause::Host)?;
                self.inner_nodes -= u32::from(level) - 2;
                self.path.forget();
                return Ok(());
            }
            if live.count() > 1 {
                return Ok(());
            }
        }
        Ok(())
    }
}
