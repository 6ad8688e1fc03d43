//! Insertion and removal: the records that an operation makes.
//!
//! An operation first makes room in the blocks of the nodes it will change. That may merge blocks but changes
//! no contents. Then it makes its records. Last, if every operation is to be durable, it programs them.

use super::IplTree;
use super::image::{Node, Shapes};
use super::layout::Change;
use super::merge::{FREE_FOR_INSERT, Wanted};
use super::path::PathStep;
use super::store::ROOT;
use alloc::vec::Vec;
use nandex::check::IndexError;
use nandex::nand::{Cause, Nand};
use nandex::ordered::Durability;

/// An entry on its way into a node.
struct Entry {
    key: Vec<u8>,
    value: Vec<u8>,
    /// Key and child of the first entry, if the new key is not above that key although it belongs behind it.
    /// The bound of a first child does not limit smaller keys. Its key becomes the lowest possible.
    first: Option<(Vec<u8>, u32)>,
    least_key: Vec<u8>,
}

impl Entry {
    /// A new entry for the node of this step; in an inner node it goes behind the step's slot.
    fn new(step: &PathStep, shapes: &Shapes, key: Vec<u8>, value: Vec<u8>) -> Entry {
        let node = &step.node;
        let misplaced = node.level > 1 && step.slot == 0 && key.as_slice() <= node.key(shapes, 0);
        let first = misplaced.then(|| (node.key(shapes, 0).to_vec(), node.child(shapes, 0)));
        let least_key = alloc::vec![0; key.len()];
        Entry { key, value, first, least_key }
    }

    /// Changes that bring the entry into a node at this level.
    fn changes(&self, level: u8) -> Vec<Change<'_>> {
        if level == 1 {
            return Vec::from([Change::Put { key: &self.key, value: &self.value }]);
        }
        debug_assert_eq!(self.value.len(), 4, "I2: an entry at level {level} names no child");
        let mut changes = Vec::new();
        if let Some((key, child)) = &self.first {
            changes.push(Change::Remove { key });
            changes.push(Change::Link { key: &self.least_key, child: *child });
        }
        let v = &self.value;
        changes.push(Change::Link { key: &self.key, child: u32::from_le_bytes([v[0], v[1], v[2], v[3]]) });
        changes
    }
}

/// Where a full node is divided: entries from here on go to the right, the key that divides, and the side of
/// the new entry.
struct Division {
    at: usize,
    key: Vec<u8>,
    goes_left: bool,
}

impl<N: Nand> IplTree<N> {
    pub(super) fn insert_record(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        self.existed = None;
        self.store.require_numbers()?;
        self.down().descend(key)?;
        let shapes = self.store.shapes();
        let found = self.path.leaf().search(&shapes, key).is_ok();
        self.existed = Some(found);
        let full = self.path.steps.iter().take_while(|step| step.is_full(&shapes)).count();
        let splits = if found { 0 } else { full as u32 };
        let touched = (splits as usize + 1).min(self.path.steps.len());
        let births = |level: usize| match level < splits as usize {
            false => 0,
            true if level + 1 == self.path.steps.len() => 2,
            true => 1,
        };
        let parents: Vec<(u32, u32)> =
            (0..touched).map(|level| (self.path.steps[level].node.id, births(level))).collect();
        let last = touched - 1;
        let image = touched == splits as usize || self.rewrites(last);
        self.prepare(Wanted { parents: &parents, image }, FREE_FOR_INSERT)?;
        self.interrupted = true;
        if splits == 0 {
            self.put(0, &[Change::Put { key, value }])?;
        } else {
            self.split_path(Entry::new(&self.path.steps[0], &shapes, key.to_vec(), value.to_vec()))?;
        }
        self.finish()?;
        Ok(found)
    }

    pub(super) fn remove_record(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        self.existed = None;
        self.store.require_numbers()?;
        self.down().descend(key)?;
        let shapes = self.store.shapes();
        let found = self.path.leaf().search(&shapes, key).is_ok();
        self.existed = Some(found);
        if !found {
            return Ok(false);
        }
        // The leaf and the nodes above it that lose their only entry disappear.
        let top = self.path.steps.len() - 1;
        let gone = self.path.steps[..top].iter().take_while(|step| step.node.count == 1).count();
        let mut changed = Vec::from([(self.path.steps[gone].node.id, 0)]);
        if gone > 0 && gone < top {
            changed.push((ROOT, 0));
        }
        let image = gone > 0 || self.rewrites(gone);
        self.prepare(Wanted { parents: &changed, image }, 1)?;
        self.interrupted = true;
        for level in 0..gone {
            let id = self.path.steps[level].node.id;
            self.store.drop_node(id);
            self.store.counts.expelled += 1;
        }
        if gone == 0 {
            self.put(0, &[Change::Remove { key }])?;
        } else {
            let step = &self.path.steps[gone];
            let entry = step.node.key(&shapes, step.slot).to_vec();
            self.put(gone, &[Change::Remove { key: &entry }])?;
        }
        self.shrink()?;
        self.finish()?;
        Ok(true)
    }

    /// Merges the block of a page that was hard to read, if there is one and room for it.
    pub(super) fn tend(&mut self) -> Result<(), IndexError> {
        let space = &self.store.space;
        let is_still = self.store.medium.form.is_placed() || space.read_only || space.has_ended;
        if is_still || !self.store.medium.weak.is_due() || self.store.require_numbers().is_err() {
            return Ok(());
        }
        let prepared = self.prepare(Wanted { parents: &[], image: false }, 1);
        let tended = prepared.and_then(|()| {
            self.interrupted = true;
            self.finish()
        });
        self.shrink_to_ram();
        match tended.map_err(|error| self.refused(error)) {
            Err(error) if error.is_refusal() && !self.interrupted => Ok(()),
            Err(error)
                if error.is_refusal() && self.store.config.durability == Durability::EveryOperation =>
            {
                self.undo()
            }
            done => done,
        }
    }

    /// Reads the pages of nodes in turn, about `budget`, and merges the blocks of those hard to read. Returns
    /// the number of nodes left of the round; 0 at its end.
    pub(super) fn look_on(&mut self, budget: u32) -> Result<u32, IndexError> {
        let misses = self.store.medium.counts.cache_misses;
        while self.store.medium.counts.cache_misses < misses + u64::from(budget) {
            let id = self.store.medium.scrubbed;
            if id as usize >= self.store.places.slots.len() {
                self.store.medium.scrubbed = 0;
                self.tend()?;
                return Ok(0);
            }
            self.store.medium.scrubbed += 1;
            let mut node = core::mem::take(&mut self.store.moving);
            // Whoever asks for a node that is lost is told.
            let loaded = match self.store.places.slot(id) {
                Ok(_) => self.store.load(id, &mut node, Cause::Scrubbing),
                Err(_) => Ok(()),
            };
            self.store.moving = node;
            match loaded {
                Err(IndexError::Corrupted { .. }) => {}
                loaded => loaded?,
            }
            self.tend()?;
        }
        Ok(self.store.places.slots.len() as u32 - self.store.medium.scrubbed)
    }

    /// Makes room for the operation, and tries to have this many blocks free. If there is too little, nothing
    /// was changed.
    ///
    /// Only new nodes must leave the blocks free: a record in a node that stays is a log record, as a removal
    /// is, and a merge of its block for want of log units writes as many nodes as there were.
    fn prepare(&mut self, wanted: Wanted<'_>, blocks: u32) -> Result<(), IndexError> {
        self.store.begin_change()?;
        self.store.renew_weak()?;
        super::merge::level_wear(&mut self.store)?;
        if !self.store.free_at_least(blocks)? && wanted.births() > 0 {
            return Err(IndexError::NO_BLOCK);
        }
        let is_root = wanted.parents.len() == self.path.steps.len();
        let splits_root = is_root && wanted.parents.last().is_some_and(|top| top.1 > 1);
        self.keep_within_ram(wanted.births(), splits_root)?;
        self.store.make_room(wanted)
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

    /// Whether an image that ends an operation makes that durable by itself.
    fn marks(&self) -> bool {
        self.store.config.durability == Durability::EveryOperation && self.store.queues.is_empty()
    }

    /// True if the node's chain is so long that a change writes a new image.
    fn rewrites(&self, level: usize) -> bool {
        let long = self.store.config.rewrite_units;
        long > 0 && self.path.steps[level].node.units >= long
    }

    /// Changes a node of the path: by a log record, or by a new image when its chain has become long.
    fn put(&mut self, level: usize, changes: &[Change<'_>]) -> Result<(), IndexError> {
        let rewrites = self.rewrites(level);
        let node = &mut self.path.steps[level].node;
        let shapes = self.store.shapes();
        for change in changes {
            node.apply(&shapes, change)?;
            if !rewrites {
                self.store.log(node.id, change)?;
            }
        }
        if !rewrites {
            return Ok(());
        }
        self.store.counts.rewrites += 1;
        let marks = self.marks();
        self.store.place(&self.path.steps[level].node, marks)
    }

    /// Splits the full nodes from the leaf up, each giving its parent an entry.
    fn split_path(&mut self, mut entry: Entry) -> Result<(), IndexError> {
        let shapes = self.store.shapes();
        let mut level = 0;
        loop {
            let step = &self.path.steps[level];
            if !step.is_full(&shapes) {
                return self.put(level, &entry.changes(step.node.level));
            }
            if level + 1 == self.path.steps.len() {
                return self.grow(&entry);
            }
            let division = divide(&step.node, &shapes, &entry);
            let right = self.split(level, &division, &entry)?;
            level += 1;
            entry = Entry::new(&self.path.steps[level], &shapes, division.key, right.to_le_bytes().to_vec());
        }
    }

    /// Moves the upper part of a node to a new one; the number of that.
    fn split(&mut self, level: usize, division: &Division, entry: &Entry) -> Result<u32, IndexError> {
        debug_assert_eq!(
            usize::from(self.path.steps[level].node.level),
            level + 1,
            "I2: a node of another level is split"
        );
        let id = self.path.steps[level].node.id;
        let changes = entry.changes(self.path.steps[level].node.level);
        let right = if self.store.medium.form.is_fixed() {
            self.right_image(level, division, entry)?
        } else {
            self.store.log_ghost(id, Some(&division.key))?
        };
        self.store.counts.splits += 1;
        self.store.log(id, &Change::Cut { key: &division.key })?;
        if division.goes_left || !self.store.medium.form.is_fixed() {
            let half = if division.goes_left { id } else { right };
            changes.iter().try_for_each(|change| self.store.log(half, change))?;
        }
        Ok(right)
    }

    /// The upper part of a node as a page of its own, the new entry included if it belongs there.
    fn right_image(&mut self, level: usize, division: &Division, entry: &Entry) -> Result<u32, IndexError> {
        let shapes = self.store.shapes();
        let mut node = self.path.steps[level].node.clone();
        node.keep_from(&shapes, &division.key);
        if !division.goes_left {
            entry.changes(node.level).iter().try_for_each(|change| node.apply(&shapes, change))?;
        }
        node.id = self.store.places.new_id();
        self.store.place(&node, false)?;
        Ok(node.id)
    }

    /// Splits the root: its halves become new nodes, and the root becomes their parent.
    fn grow(&mut self, entry: &Entry) -> Result<(), IndexError> {
        let shapes = self.store.shapes();
        let top = self.path.steps.len() - 1;
        let division = divide(&self.path.steps[top].node, &shapes, entry);
        let level = self.path.steps[top].node.level;
        let changes = entry.changes(level);
        let (left, right);
        if self.store.medium.form.is_fixed() {
            right = self.right_image(top, &division, entry)?;
            let mut node = self.path.steps[top].node.clone();
            node.count = division.at;
            if division.goes_left {
                changes.iter().try_for_each(|change| node.apply(&shapes, change))?;
            }
            node.id = self.store.places.new_id();
            self.store.place(&node, false)?;
            left = node.id;
        } else {
            left = self.store.log_ghost(ROOT, None)?;
            right = self.store.log_ghost(ROOT, Some(&division.key))?;
            self.store.log(left, &Change::Cut { key: &division.key })?;
            let half = if division.goes_left { left } else { right };
            changes.iter().try_for_each(|change| self.store.log(half, change))?;
        }
        let root = &mut self.path.steps[top].node;
        (root.level, root.count) = (level + 1, 0);
        root.put(&shapes, (&entry.least_key, &left.to_le_bytes()))?;
        root.put(&shapes, (&division.key, &right.to_le_bytes()))?;
        let marks = self.marks();
        self.store.place(&self.path.steps[top].node, marks)?;
        self.height += 1;
        debug_assert_eq!(
            self.height, self.path.steps[top].node.level,
            "I2: the height is not the root's level"
        );
        self.store.counts.splits += 1;
        Ok(())
    }

    /// Lets a root with one child take over the child's contents, if there is a page for that. A root without
    /// children becomes a leaf.
    fn shrink(&mut self) -> Result<(), IndexError> {
        let shapes = self.store.shapes();
        let top = self.path.steps.len() - 1;
        let mut node = core::mem::take(&mut self.path.steps[top].node);
        while node.level > 1 && node.count <= 1 {
            let pages = self.store.image_room(self.store.places.block_of(ROOT));
            let has_page = pages > if self.store.medium.form.is_fixed() { 0 } else { 1 };
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
        debug_assert_eq!(self.height, node.level, "I2: the height is not the root's level");
        self.path.steps[top].node = node;
        Ok(())
    }
}

impl PathStep {
    fn is_full(&self, shapes: &Shapes) -> bool {
        self.node.count >= shapes.at(self.node.level).capacity
    }
}

/// The first ceil((d + 1) / 2) of the d entries and the new one stay left.
fn divide(node: &Node, shapes: &Shapes, entry: &Entry) -> Division {
    let place = node.search(shapes, &entry.key).unwrap_or_else(|i| i);
    let left = (node.count + 2) / 2;
    let goes_left = place < left;
    let at = if goes_left { left - 1 } else { left };
    debug_assert!(0 < at && at <= node.count, "I1: {} entries are divided at {at}", node.count);
    let key = if place == at && !goes_left || at == node.count {
        entry.key.clone()
    } else {
        node.key(shapes, at).to_vec()
    };
    Division { at, key, goes_left }
}
