//! Commits: writing dirty parts to the tree, and moving entries whose leaf changed to other units.

use super::buffer::Buffer;
use super::settings::REGROUPED_LEAVES;
use super::units::State;
use super::unless_full;
use super::{CommitPolicy, LeafSplit, LsLruTree, victims};
use alloc::vec::Vec;
use nandex::check::{IndexError, Invariant};
use nandex::ordered::bplus::ground::Reshaped;
use nandex::sort;
use nandex::store::PageStore;
use nandex::units::Lpn;

impl<S: PageStore> LsLruTree<S> {
    pub(super) fn buffer(&self) -> &Buffer<S> {
        self.tree.store()
    }

    pub(super) fn buffer_mut(&mut self) -> &mut Buffer<S> {
        self.tree.store_mut()
    }

    /// Makes sure that a slab can be had without a commit. If a full store does not allow it, the operation
    /// must do without.
    pub(super) fn make_room(&mut self) -> Result<(), IndexError> {
        while self.buffer().slabs_at_hand() == 0 && self.commit_some()? {}
        if self.buffer().units.inner_are_units() { self.clean_hot_tail() } else { Ok(()) }
    }

    /// If nothing is cold, commits the changes of the least recently used units, as many as a path has
    /// nodes. Their copies can then be dropped in the middle of an operation that misses inner nodes.
    fn clean_hot_tail(&mut self) -> Result<(), IndexError> {
        if self.buffer().units.dirty_len() > 0 || self.buffer().slabs_at_hand() > self.tree.height() {
            return Ok(());
        }
        let units = &self.buffer().units;
        let tail = units.hot_tail(self.tree.height());
        let semi_clean = tail.filter(|&unit| units.get(unit).state() == Some(State::SemiClean));
        let pages: Vec<Lpn> = semi_clean.map(|unit| units.get(unit).lpn).collect();
        for lpn in pages {
            unless_full(self.commit(lpn))?;
        }
        Ok(())
    }

    /// Whether `cells` more cells and `units` more units can be had if all copies of nodes are dropped
    /// (U8).
    pub(super) fn can_have(&self, cells: usize, units: usize) -> bool {
        let chunks = self.buffer().units.chunks_for(units);
        self.buffer().can_give(self.cells.slabs_for(cells) + chunks)
    }

    /// Makes sure that there is a cell and a unit for one more entry, unless the store is full.
    pub(super) fn make_room_for_entry(&mut self) -> Result<(), IndexError> {
        loop {
            let wanted = usize::from(!self.cells.has_room()) + usize::from(!self.buffer().units.has_room());
            let has_room = self.buffer().may_lend(wanted)
                && self.buffer().slabs_at_hand() >= wanted
                && self.buffer().can_count_change()
                && self.can_have(1 + REGROUPED_LEAVES, 1 + REGROUPED_LEAVES);
            if has_room || !self.commit_some()? {
                return Ok(());
            }
        }
    }

    /// Commits the units that leave next. Returns false if none could be committed.
    fn commit_some(&mut self) -> Result<bool, IndexError> {
        let some = if self.buffer().units.dirty_len() > 0 {
            self.commit_write_minimized()
        } else {
            self.evict_last_hot()
        };
        match some {
            Err(error) if error.is_refusal() => Ok(false),
            some => some,
        }
    }

    /// Commits by the policy set. The write-minimized commit takes those units of the cold region that free
    /// L entries with the fewest writes. Returns false if nothing was freed.
    pub(super) fn commit_write_minimized(&mut self) -> Result<bool, IndexError> {
        let least = self.commit_entries;
        let victims = match self.commit_policy {
            CommitPolicy::WriteMinimized => victims_of(self.buffer(), least),
            CommitPolicy::FirstAssociated => {
                let units = &self.buffer().units;
                units.first_dirty(0).map(|unit| units.get(unit).lpn).into_iter().collect()
            }
            CommitPolicy::ExactFit => {
                let units = &self.buffer().units;
                units.fitting_dirty(least).into_iter().map(|unit| units.get(unit).lpn).collect()
            }
        };
        self.counts.write_minimized_commits += 1;
        self.counts.victims += victims.len() as u64;
        let (mut is_any, mut refused) = (false, None);
        for lpn in victims {
            match self.commit(lpn) {
                Ok(()) => is_any = true,
                Err(error) if error.is_refusal() => refused = Some(error),
                Err(error) => return Err(error),
            }
        }
        refused.filter(|_| !is_any).map_or(Ok(is_any), Err)
    }

    /// Commits and drops the least recently used hot unit, as plain LRU does, because nothing is cold.
    fn evict_last_hot(&mut self) -> Result<bool, IndexError> {
        let Some(unit) = self.buffer().units.last_hot() else {
            let Some(inner) = self.buffer().units.last_inner() else { return Ok(false) };
            self.buffer_mut().drop_frame(inner);
            return Ok(true);
        };
        self.counts.hot_evictions += 1;
        let lpn = self.buffer().units.get(unit).lpn;
        let has_frame = self.buffer().frame(unit).is_some();
        match self.commit(lpn) {
            Err(error) if error.is_refusal() && has_frame => {}
            committed => committed?,
        }
        let unit = self.buffer().units.find(lpn);
        if let Some(unit) = unit.filter(|&unit| self.buffer().frame(unit).is_some()) {
            self.buffer_mut().drop_frame(unit);
        }
        Ok(true)
    }

    /// Commits the dirty part of a page's unit, if it has one. Changes that the tree does not take at once
    /// wait in the units of their new leaves. After an error all of them wait.
    pub(super) fn commit(&mut self, lpn: Lpn) -> Result<(), IndexError> {
        let mut rest = self.commit_once(lpn)?;
        while let Some(lpn) = rest.pop() {
            match self.commit_once(lpn) {
                Err(error) if error.is_refusal() => return Ok(()),
                more => rest.extend(more?),
            }
        }
        Ok(())
    }

    /// Commits the changes of a leaf in one operation of the tree. Returns the leaves to commit next, if
    /// leaves are split two at a time.
    fn commit_once(&mut self, lpn: Lpn) -> Result<Vec<Lpn>, IndexError> {
        let Some(unit) = self.buffer().units.find(lpn) else { return Ok(Vec::new()) };
        let part = self.buffer().units.part(unit);
        if part.len == 0 {
            return Ok(Vec::new());
        }
        // What does not fit is spread over the leaves; it frees cells by then, but takes units.
        let leaves_max = if self.can_have(0, self.leaves_max) { self.leaves_max } else { 2 };
        self.buffer_mut().is_committing = true;
        let applied = self.tree.apply_to_leaf(self.cells.changes(part), leaves_max);
        self.buffer_mut().is_committing = false;
        let applied = applied?;
        if applied.lpn != lpn || !(1..=part.len as usize).contains(&applied.changes) {
            // The tree gave two leaves the same keys, which only bad bytes make it do.
            return Err(IndexError::broken(Invariant::U2, "two leaves have the same keys", lpn.0.into()));
        }
        self.counts.committed_entries += applied.changes as u64;
        self.cells.remove_first(&mut self.tree.store_mut().units, unit, applied.changes);
        self.buffer_mut().units.drop_if_empty(unit);
        self.give_back_slabs();
        let Some(reshaped) = &applied.reshaped else { return Ok(Vec::new()) };
        self.regroup(reshaped);
        let is_next = self.split == LeafSplit::TwoNodes && applied.changes < part.len as usize;
        Ok(reshaped.after.iter().filter(|_| is_next).map(|leaf| leaf.lpn).collect())
    }

    fn give_back_slabs(&mut self) {
        while let Some(slab) = self.cells.take_spare() {
            self.tree.store_mut().take_back(slab);
        }
    }

    /// Moves entries whose keys changed leaves to the units of their new leaves.
    pub(super) fn regroup(&mut self, reshaped: &Reshaped) {
        self.counts.reshapings += 1;
        for &lpn in &reshaped.before {
            let mut at = 0;
            while let Some(unit) = self.buffer().units.find(lpn) {
                let part = self.buffer().units.part(unit);
                if at >= part.len as usize {
                    break;
                }
                let key = self.cells.key(self.cells.nth(part, at));
                if !reshaped.span.contains(key) || reshaped.leaf_of(key) == lpn {
                    at += 1;
                } else {
                    self.move_entry(unit, at, reshaped.leaf_of(key));
                }
            }
        }
        self.give_back_slabs();
        for leaf in &reshaped.after {
            let unit = self.buffer().units.find(leaf.lpn);
            // A root that was an inner node has become a leaf.
            if let Some(unit) = unit.filter(|&unit| self.buffer().units.part(unit).len > 0) {
                self.buffer_mut().units.make_leaf(unit);
            }
        }
    }

    fn move_entry(&mut self, unit: u32, at: usize, lpn: Lpn) {
        let part = self.buffer().units.part(unit);
        let spot = self.cells.nth(part, at);
        let mut bytes = [0u8; 510];
        let moved = self.cells.copy_out(spot, &mut bytes);
        self.cells.remove(&mut self.tree.store_mut().units, unit, moved.change.key);
        self.buffer_mut().units.drop_if_empty(unit);
        if !self.cells.has_room() {
            let slab = self.buffer_mut().lend_any_slab();
            self.cells.give(slab);
        }
        let target = self.buffer_mut().unit_by_force(lpn);
        self.cells.insert(&mut self.tree.store_mut().units, target, &moved);
    }

    /// The full merge commit: one pass over all dirty parts and their leaves, in the order of keys, after
    /// which every unit is clean. Further passes follow only if the first could not take all.
    pub(super) fn full_merge(&mut self) -> Result<(), IndexError> {
        self.updates_since_merge = 0;
        self.counts.full_merges += u64::from(self.cells.used_cells() > 0);
        while self.cells.used_cells() > 0 {
            let (mut is_any, mut refused) = (false, None);
            for lpn in self.dirty_pages() {
                match self.commit(lpn) {
                    Ok(()) => is_any = true,
                    Err(error) if error.is_refusal() => refused = Some(error),
                    Err(error) => return Err(error),
                }
            }
            if let Some(error) = refused.filter(|_| !is_any) {
                return Err(error);
            }
        }
        Ok(())
    }

    /// The pages with dirty parts, in the order of their keys.
    fn dirty_pages(&self) -> Vec<Lpn> {
        let units = &self.buffer().units;
        let first = |unit: u32| self.cells.key(self.cells.first(units.part(unit)));
        let mut dirty: Vec<u32> = units.all().filter(|&unit| units.part(unit).len > 0).collect();
        sort::unstable_by(&mut dirty, |&a, &b| first(a).cmp(first(b)));
        dirty.into_iter().map(|unit| units.get(unit).lpn).collect()
    }
}

/// The pages of the units that the write-minimized commit takes.
fn victims_of<S: PageStore>(buffer: &Buffer<S>, least: u64) -> Vec<Lpn> {
    let classes = victims::classes(&buffer.units, least);
    let counts = victims::choose(&classes, least);
    let mut chosen = Vec::new();
    for (class, count) in classes.iter().zip(counts) {
        let mut next = buffer.units.first_dirty(class.writes);
        for _ in 0..count {
            let Some(unit) = next else { break };
            chosen.push(buffer.units.get(unit).lpn);
            next = buffer.units.next_dirty(unit);
        }
    }
    chosen
}
