//! Insertion and removal: which records of which nodes an operation makes.
//!
//! An operation first makes room in the blocks of the nodes it will change; that may merge blocks and changes nothing of the
//! contents. Then it makes its records, and last, where every operation is to be durable, it programs them.

use super::image::Node;
use super::layout::Change;
use super::merge::FREE_FOR_INSERT;
use super::store::ROOT;
use super::{IplTree, Step};
use crate::check::IndexError;
use crate::nand::{Cause, Nand};
use crate::ordered::Durability;
use alloc::vec::Vec;

/// An entry on its way into a node.
struct Entry {
    key: Vec<u8>,
    value: Vec<u8>,
}

/// Where a full node is divided: entries from here on go to the right, the key that divides, and the side of the new entry.
struct Division {
    at: usize,
    key: Vec<u8>,
    goes_left: bool,
}

impl<N: Nand> IplTree<N> {
    pub(super) fn insert_record(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        self.descend(key, Cause::Host)?;
        let shapes = self.store.shapes();
        let found = self.leaf().search(&shapes, key).is_ok();
        let full = self.path.iter().take_while(|step| step.is_full(&shapes)).count();
        let splits = if found { 0 } else { full as u32 };
        let touched = (splits as usize + 1).min(self.path.len());
        let births = |level: usize| match level < splits as usize {
            false => 0,
            true if level + 1 == self.path.len() => 2,
            true => 1,
        };
        let parents: Vec<(u32, u32)> =
            (0..touched).map(|level| (self.path[level].node.id, births(level))).collect();
        self.prepare(&parents, true)?;
        self.interrupted = true;
        if splits == 0 {
            self.put(0, &Change::Put { key, value })?;
        } else {
            self.split_path(Entry { key: key.to_vec(), value: value.to_vec() })?;
        }
        self.finish()?;
        Ok(found)
    }

    pub(super) fn remove_record(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        self.descend(key, Cause::Host)?;
        let shapes = self.store.shapes();
        if self.leaf().search(&shapes, key).is_err() {
            return Ok(false);
        }
        // The leaf and the nodes above it that lose their only entry disappear.
        let top = self.path.len() - 1;
        let gone = self.path[..top].iter().take_while(|step| step.node.count == 1).count();
        let mut changed = Vec::from([(self.path[gone].node.id, 0)]);
        if gone > 0 && gone < top {
            changed.push((ROOT, 0));
        }
        self.prepare(&changed, false)?;
        self.interrupted = true;
        for level in 0..gone {
            let id = self.path[level].node.id;
            self.store.drop_node(id);
        }
        if gone == 0 {
            self.put(0, &Change::Remove { key })?;
        } else {
            let step = &self.path[gone];
            let entry = step.node.key(&shapes, step.slot).to_vec();
            self.put(gone, &Change::Remove { key: &entry })?;
        }
        self.shrink()?;
        self.finish()?;
        Ok(true)
    }

    fn leaf(&self) -> &Node {
        &self.path[0].node
    }

    /// Room for what the operation will do. What this finds too little room for has not happened.
    fn prepare(&mut self, parents: &[(u32, u32)], grows: bool) -> Result<(), IndexError> {
        self.store.begin_change()?;
        if !self.store.free_at_least(if grows { FREE_FOR_INSERT } else { 1 })? && grows {
            return Err(IndexError::Full);
        }
        self.keep_within_ram(parents.iter().map(|parent| parent.1).sum())?;
        self.store.make_room(parents)
    }

    fn finish(&mut self) -> Result<(), IndexError> {
        if self.store.config.durability == Durability::EveryOperation {
            self.store.commit()?;
        } else {
            self.store.limit_waiting()?;
        }
        self.interrupted = false;
        Ok(())
    }

    /// Changes a node of the path: by a log record, or by a new image when its chain has become long.
    fn put(&mut self, level: usize, change: &Change<'_>) -> Result<(), IndexError> {
        let node = &mut self.path[level].node;
        let long = self.store.config.rewrite_units;
        let rewrites = long > 0 && node.units >= long;
        let shapes = self.store.shapes();
        node.apply(&shapes, change)?;
        if !rewrites {
            return self.store.log(node.id, change);
        }
        self.store.counts.rewrites += 1;
        let alone = self.store.config.durability == Durability::EveryOperation && self.store.waiting.is_empty();
        self.store.place(node, alone)
    }

    /// Splits the full nodes from the leaf up, each giving its parent an entry.
    fn split_path(&mut self, mut entry: Entry) -> Result<(), IndexError> {
        let shapes = self.store.shapes();
        let mut level = 0;
        loop {
            let step = &self.path[level];
            if !step.is_full(&shapes) {
                return self.put_entry(level, &entry);
            }
            if level + 1 == self.path.len() {
                return self.grow(&entry);
            }
            let division = divide(&step.node, &shapes, &entry);
            let right = self.split(level, &division, &entry)?;
            entry = Entry { key: division.key, value: right.to_le_bytes().to_vec() };
            level += 1;
        }
    }

    fn put_entry(&mut self, level: usize, entry: &Entry) -> Result<(), IndexError> {
        self.put(level, &change_for(self.path[level].node.level, entry))
    }

    /// Moves the upper part of a node to a new one; the number of that.
    fn split(&mut self, level: usize, division: &Division, entry: &Entry) -> Result<u32, IndexError> {
        let id = self.path[level].node.id;
        let change = change_for(self.path[level].node.level, entry);
        let right = if self.store.is_fixed() {
            self.image_of_right(level, division, entry)?
        } else {
            self.store.log_ghost(id, Some(&division.key))?
        };
        self.store.log(id, &Change::Cut { key: &division.key })?;
        if division.goes_left {
            self.store.log(id, &change)?;
        } else if !self.store.is_fixed() {
            self.store.log(right, &change)?;
        }
        Ok(right)
    }

    /// The upper part of a node as a page of its own, the new entry included if it belongs there.
    fn image_of_right(&mut self, level: usize, division: &Division, entry: &Entry) -> Result<u32, IndexError> {
        let shapes = self.store.shapes();
        let mut node = self.path[level].node.clone();
        node.keep_from(&shapes, &division.key);
        if !division.goes_left {
            node.put(&shapes, (&entry.key, &entry.value))?;
        }
        node.id = self.store.new_id();
        self.store.place(&node, false)?;
        Ok(node.id)
    }

    /// Splits the root: its two halves become new nodes, and it their parent.
    fn grow(&mut self, entry: &Entry) -> Result<(), IndexError> {
        let shapes = self.store.shapes();
        let top = self.path.len() - 1;
        let division = divide(&self.path[top].node, &shapes, entry);
        let level = self.path[top].node.level;
        let change = change_for(level, entry);
        let first_key = self.path[top].node.key(&shapes, 0).to_vec();
        let (left, right);
        if self.store.is_fixed() {
            right = self.image_of_right(top, &division, entry)?;
            let mut node = self.path[top].node.clone();
            node.count = division.at;
            if division.goes_left {
                node.put(&shapes, (&entry.key, &entry.value))?;
            }
            node.id = self.store.new_id();
            self.store.place(&node, false)?;
            left = node.id;
        } else {
            left = self.store.log_ghost(ROOT, None)?;
            right = self.store.log_ghost(ROOT, Some(&division.key))?;
            self.store.log(left, &Change::Cut { key: &division.key })?;
            self.store.log(if division.goes_left { left } else { right }, &change)?;
        }
        let root = &mut self.path[top].node;
        (root.level, root.count) = (level + 1, 0);
        root.put(&shapes, (&first_key, &left.to_le_bytes()))?;
        root.put(&shapes, (&division.key, &right.to_le_bytes()))?;
        self.store.place(root, false)?;
        self.height += 1;
        Ok(())
    }

    /// A root with one child takes over what that has, if there is a page for it. One without becomes a leaf.
    fn shrink(&mut self) -> Result<(), IndexError> {
        let shapes = self.store.shapes();
        let top = self.path.len() - 1;
        let mut node = core::mem::take(&mut self.path[top].node);
        while node.level > 1 && node.count <= 1 {
            let pages = self.store.image_room(self.store.block_of(ROOT));
            let has_page = pages > if self.store.is_fixed() { 0 } else { 1 };
            if node.count == 0 {
                node.level = 1;
                self.store.place(&node, false)?;
            } else if has_page {
                let child = node.child(&shapes, 0);
                self.store.load(child, &mut node, Cause::Host)?;
                node.id = ROOT;
                self.store.place(&node, false)?;
                self.store.drop_node(child);
            } else {
                break;
            }
            self.height = node.level;
        }
        self.path[top].node = node;
        Ok(())
    }
}

impl Step {
    fn is_full(&self, shapes: &super::image::Shapes) -> bool {
        self.node.count >= shapes.at(self.node.level).capacity
    }
}

fn change_for(level: u8, entry: &Entry) -> Change<'_> {
    if level == 1 {
        return Change::Put { key: &entry.key, value: &entry.value };
    }
    let v = &entry.value;
    Change::Link { key: &entry.key, child: u32::from_le_bytes([v[0], v[1], v[2], v[3]]) }
}

/// The first ceil((d + 1) / 2) of the d entries and the new one stay left.
fn divide(node: &Node, shapes: &super::image::Shapes, entry: &Entry) -> Division {
    let place = node.search(shapes, &entry.key).unwrap_or_else(|i| i);
    let left = (node.count + 2) / 2;
    let goes_left = place < left;
    let at = if goes_left { left - 1 } else { left };
    let key = if place == at && !goes_left || at == node.count {
        entry.key.clone()
    } else {
        node.key(shapes, at).to_vec()
    };
    Division { at, key, goes_left }
}
