//! Insertion, removal and relocation, as far as they are the same for every scheme: edits of the copied path.

use super::room::make_room_to_put;
use super::{Change, Leaf, LeafUse, Nodes, Path, RawScheme, RawTree};
use crate::check::{IndexError, Limit};
use crate::fault::IndexFault;
use crate::log::SamePage;
use crate::log::collect::{Lent, MoveCost, Relocate, Visit, checkpoint};
use crate::log::tag::Tag;
use crate::nand::{Cause, Nand};
use crate::ordered::key::Key;
use crate::units::Ppn;

impl<S: RawScheme> Path<S> {
    /// Makes the node at `level` the root. The tree then has that height.
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

    /// True if a key is below the first keys of the inner nodes on its path.
    fn lowers_bounds(&self, key: &[u8]) -> bool {
        self.height > 1 && key < self.shape(2).key(self.node(2), self.slot(2))
    }

    /// True if an entry at this place of the copied leaf adds no node to the tree.
    fn takes_in_leaf(&self, found: Result<usize, usize>) -> bool {
        let most = if self.height == 1 { self.root_limit() } else { self.limit(1) };
        found.is_ok() || self.count(1) < most
    }

    /// Lowers the bounds on the path for a new key, so that they stay lower bounds of the keys below.
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
}

impl<N: Nand, S: RawScheme> Nodes<N, S> {
    /// Copies the path to a key, and prepares it for the key's entry. Returns the place of that entry in the
    /// leaf.
    fn find_place(&mut self, key: &[u8]) -> Result<Result<usize, usize>, IndexFault> {
        self.copy_path(key, 1, Cause::Host)?;
        self.note_update();
        S::settle(self, Change::Put(key))?;
        Ok(self.path.search(key))
    }

    /// Refuses an entry that needs a split of the root, if the root cannot or must not be split.
    fn require_place(&mut self, found: Result<usize, usize>) -> Result<(), IndexFault> {
        match found {
            Ok(_) => Ok(()),
            Err(_) if self.path.root_would_overflow() => Err(IndexError::Full(Limit::Height).into()),
            Err(_) => self.require_room_to_grow(),
        }
    }

    /// Puts a record as part of a batch, whose room was made.
    pub(super) fn put_in_room(&mut self, key: &[u8], value: &[u8]) -> Result<(), IndexFault> {
        let found = self.find_place(key)?;
        self.require_place(found)?;
        self.write_leaf_of(key, value, found)
    }

    /// Removes a record as part of a batch, if it is there.
    pub(super) fn remove_in_room(&mut self, key: &[u8]) -> Result<(), IndexFault> {
        self.copy_path(key, 1, Cause::Host)?;
        self.note_update();
        let Ok(slot) = self.path.search(key) else { return Ok(()) };
        S::settle(self, Change::Keep(1))?;
        self.log.tape.half_done = true;
        self.take_entry(slot)
    }

    fn write_leaf_of(
        &mut self,
        key: &[u8],
        value: &[u8],
        found: Result<usize, usize>,
    ) -> Result<(), IndexFault> {
        debug_assert!(found.unwrap_or_else(|at| at) <= self.path.count(1), "R1: no such place in the leaf");
        self.log.tape.half_done = true;
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

    /// Tells the scheme about the path just copied.
    fn note_update(&mut self) {
        let page = |level| self.path.step(level).page;
        let rereads = self.log.config().same_page == SamePage::Read;
        let costs = |level: &u8| rereads || page(*level) != page(*level + 1);
        let pages = 1 + (1..self.path.height).filter(costs).count() as u8;
        let leaf = Leaf { count: self.path.count(1), capacity: self.path.shape(1).capacity, pages };
        self.path.scheme.note_leaf(LeafUse::Update, leaf);
    }

    /// Retires the path's node at `level`, which is about to be replaced or dropped. Its page dies if that
    /// node is the page's lowest.
    pub(crate) fn retire(&mut self, level: u8) {
        debug_assert!((1..=self.path.height).contains(&level), "R2: level {level} of {}", self.path.height);
        let step = self.path.step(level);
        if step.lowest_level == level {
            self.log.invalidate(Ppn(step.page));
        }
    }

    /// Removes an entry of the copied leaf, and then nodes that become empty from the nodes above, and writes
    /// the path.
    pub(super) fn take_entry(&mut self, mut slot: usize) -> Result<(), IndexFault> {
        let mut lowest = 1;
        loop {
            let (shape, count) = (self.path.shape(lowest), self.path.count(lowest));
            debug_assert!(slot < count, "R1: entry {slot} of {count} at level {lowest}");
            // The bound of a node is never changed by that: it must stay what its parent names.
            let bound = (S::MAPS_MOVES && lowest > 1 && count > 1)
                .then(|| Key::of(shape.key(self.path.node(lowest), 0)));
            self.path.remove(lowest, slot);
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
            self.take_move(self.path.named(lowest, slot));
        }
        let lowest = self.shrink(lowest)?;
        debug_assert!((1..=self.path.height).contains(&lowest), "R2: nothing is left of the path");
        S::write_path(self, lowest, None, Cause::Host)
    }

    /// Makes the child the root while the root has only one child (mu-Tree paper, Algorithm 5). Returns the
    /// lowest level of the path that is left.
    fn shrink(&mut self, mut lowest: u8) -> Result<u8, IndexFault> {
        while self.path.height > 1 && self.path.count(self.path.height) == 1 {
            assert_eq!(lowest, self.path.height, "R3: a root with one child was left to stand");
            let level = self.path.height - 1;
            let child = self.path.named(level + 1, 0);
            self.retire(level + 1);
            self.copy_node(child, level, Cause::Host)?;
            self.take_move(child);
            self.path.become_root(level);
            lowest = level;
        }
        Ok(lowest)
    }

    /// Begins to move a page: copies the path to its lowest node and returns the level of that node. `None`
    /// if nothing leads to the page, which then dies.
    fn begin_move(&mut self, ppn: Ppn) -> Result<Option<u8>, IndexFault> {
        let (scheme, height) = (&self.path.scheme, self.path.height);
        if S::MAPS_MOVES && self.log.free_pages() < scheme.pages_per_update(height) {
            return Err(IndexError::NO_BLOCK.into());
        }
        self.log.begin(scheme.programs_per_move(height) + self.journal_pages(height))?;
        let found = self.find_page(ppn)?;
        match found {
            Some(level) => debug_assert!((1..=height).contains(&level), "R2: level {level} of {height}"),
            None => self.log.drop_unreached(ppn),
        }
        Ok(found)
    }

    /// Ends a complete operation.
    pub(super) fn finish(&mut self) {
        self.log.finish();
        debug_assert!(self.log.is_valid(self.root), "R5: the root's page {} is not valid", self.root);
    }

    /// Writes the path's node at `level` to a page of its own; the old page dies. For trees with one node in
    /// a page.
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
        let refused = make_room_to_put(self)?;
        let nodes = &mut self.nodes;
        nodes.path.make_room_to_grow();
        nodes.log.begin(nodes.pages_at_once())?;
        let found = nodes.find_place(key)?;
        if let Some(refused) = refused
            && !nodes.path.takes_in_leaf(found)
        {
            return Err(refused);
        }
        self.existed = Some(found.is_ok());
        nodes.require_place(found)?;
        if nodes.is_journaled() {
            let splits = found.is_err() && nodes.path.count(1) == nodes.path.shape(1).capacity;
            let changes_parent = splits || nodes.path.lowers_bounds(key);
            return self.insert_journaled((key, value), found, changes_parent);
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
        let nodes = &mut self.nodes;
        nodes.log.begin(nodes.pages_at_once())?;
        nodes.copy_path(key, 1, Cause::Host)?;
        nodes.note_update();
        let Ok(slot) = nodes.path.search(key) else { return Ok(false) };
        self.existed = Some(true);
        if nodes.is_journaled() {
            let empties = nodes.path.count(1) == 1 && nodes.path.height > 1;
            return self.remove_journaled(key, slot, empties);
        }
        S::settle(nodes, Change::Keep(1))?;
        self.take_from_leaf(slot)?;
        Ok(true)
    }

    /// Removes an entry of the copied leaf and ends the update.
    pub(super) fn take_from_leaf(&mut self, slot: usize) -> Result<(), IndexFault> {
        self.nodes.log.tape.half_done = true;
        self.nodes.take_entry(slot)?;
        self.end_update()
    }

    /// Ends an update that is done. It stays done even if no checkpoint can be written now.
    pub(super) fn end_update(&mut self) -> Result<(), IndexFault> {
        self.nodes.finish();
        if !self.nodes.log.tape.wants_checkpoint() {
            return Ok(());
        }
        match checkpoint(self) {
            Err(error) if error.is_refusal() && !self.nodes.is_half_done() => Ok(()),
            other => other,
        }
    }
}

impl<N: Nand, S: RawScheme> Relocate<N> for RawTree<N, S> {
    fn lend(&mut self) -> Lent<'_, N> {
        let Nodes { log, moves, path, .. } = &mut self.nodes;
        Lent { log, note: super::note_of::<S>(moves), page: &mut path.detached }
    }

    /// Rewrites the path to the page's lowest node, which is found by that node's first key.
    fn relocate(&mut self, ppn: Ppn) -> Result<(), IndexFault> {
        let Some(level) = self.nodes.begin_move(ppn)? else { return Ok(()) };
        if self.nodes.is_journaled() {
            return self.relocate_journaled(ppn, level);
        }
        S::settle(&mut self.nodes, Change::Keep(level))?;
        self.nodes.log.tape.half_done = true;
        S::write_path(&mut self.nodes, level, None, Cause::GarbageCollection)?;
        self.nodes.finish();
        Ok(())
    }

    fn visit_pages(&mut self, cause: Cause, visit: Visit<'_, N>) -> Result<Option<IndexFault>, IndexFault> {
        self.nodes.visit_reached(cause, visit)
    }

    fn write_owed(&mut self) -> Result<bool, IndexFault> {
        if S::MAPS_MOVES { self.nodes.empty_table() } else { self.nodes.commit_journal().map(|()| true) }
    }

    fn move_cost(&self) -> MoveCost {
        let Nodes { path, journal, moves, .. } = &self.nodes;
        let (scheme, height) = (&path.scheme, path.height);
        let owed = if S::TAKES_JOURNAL { journal.pages_to_commit(height) } else { 0 };
        let programs = scheme.programs_per_move(height);
        if !S::MAPS_MOVES {
            return MoveCost { programs, owed, slack: 0, moves: 1, parents: 0 };
        }
        // A table with room takes the move; else a parent is written as well, and seldom more.
        let has_room = moves.has_room();
        MoveCost {
            programs: if has_room { 1 } else { programs },
            owed,
            slack: scheme.pages_per_update(height),
            moves: if has_room { moves.entries_max() as u64 } else { 0 },
            parents: self.nodes.parents(),
        }
    }
}
