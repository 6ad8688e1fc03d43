//! Updates: how log nodes are opened, filled and closed, and how they leave.

use super::area::{Found, FoundLog};
use super::{LogNode, LsbTree};
use crate::ordered::journal::{Newest, Owed};
use alloc::vec;
use alloc::vec::Vec;
use core::mem::take;
use core::ops::Bound;
use nandex::check::{IndexError, Invariant};
use nandex::nand::Cause;
use nandex::ordered::bplus::BPlusTree;
use nandex::ordered::bplus::ground::{LeafSpan, Lookup};
use nandex::ordered::change::Change;
use nandex::ordered::{Direction, OrderedIndex};
use nandex::store::{PageStore, StoreError};
use nandex::units::Lpn;

/// Leaves that a leaf and its log can make at most, since neither has more entries than a leaf holds.
const LEAVES_MAX: usize = 2;

/// The action of a sweep over log pages on the newest changes found in them.
type Act<'a, S> = &'a mut dyn FnMut(&mut LsbTree<S>, &mut Newest) -> Result<(), IndexError>;

impl<S: PageStore> LsbTree<S> {
    /// Carries out a change. Returns whether the key existed.
    pub(super) fn update(&mut self, change: Change<'_>) -> Result<bool, IndexError> {
        self.ready()?;
        match self.merge_stranded() {
            Err(IndexError::Full(_)) if change.value.is_none() => return self.remove_from_full(change),
            merged => merged?,
        }
        let shape = self.area.shape;
        loop {
            let known = self.open.iter().position(|node| node.span.contains(change.key));
            let known = known.and_then(|at| Some((at, shape.search(&self.open[at].page, change.key).ok()?)));
            if let Some((at, i)) = known {
                return self.amend(at, i, change.value);
            }
            let (leaf, Lookup { is_present, span, .. }) = self.tree.lookup_leaf(change.key, Cause::Host)?;
            let open = self.open.iter().position(|node| node.leaf == leaf);
            if open.is_none() && !is_present && change.value.is_none() && self.area.page_of(leaf).is_none() {
                return Ok(false);
            }
            let at = match open {
                Some(at) => {
                    // The leaf has taken over the keys of an expelled one.
                    self.open[at].span = span;
                    at
                }
                None if !self.has_room_for_log_of(leaf) => {
                    if self.area.gone() == 0 {
                        return self.update_full(change);
                    }
                    self.sync_what_is_gone()?;
                    continue;
                }
                // What was found is of the past if another log was merged.
                None if !self.make_place()? => continue,
                None => self.open_log(leaf, span)?,
            };
            match shape.search(&self.open[at].page, change.key) {
                Ok(i) => return self.amend(at, i, change.value),
                Err(_) if !is_present && change.value.is_none() => return Ok(false),
                Err(_) if shape.count(&self.open[at].page) == shape.capacity() => self.leave(at)?,
                Err(i) => {
                    self.tree.admit_change()?;
                    self.clock += 1;
                    let node = &mut self.open[at];
                    shape.add(&mut node.page, i, change);
                    (node.is_dirty, node.used) = (true, self.clock);
                    return Ok(is_present);
                }
            }
        }
    }

    /// Changes entry `i` of an open log. Returns whether the key existed.
    fn amend(&mut self, at: usize, i: usize, value: Option<&[u8]>) -> Result<bool, IndexError> {
        self.tree.admit_change()?;
        let shape = self.area.shape;
        self.clock += 1;
        let node = &mut self.open[at];
        node.used = self.clock;
        let existed = shape.change(&node.page, i).value.is_some();
        if existed || value.is_some() {
            shape.amend(&mut node.page, i, value);
            node.is_dirty = true;
        }
        Ok(existed)
    }

    /// True if the tree certainly has room for the splits of all logs, including one of this leaf.
    fn has_room_for_log_of(&self, leaf: Lpn) -> bool {
        self.area.page_of(leaf).is_some() || self.tree.has_room_for(self.splits_max() + 1)
    }

    /// Most splits that all logs can cause, including freed logs that a mount after a cut may find again.
    /// Such a log goes to the leaves that its leaf has become: it may fill one more leaf and split another.
    pub(super) fn splits_max(&self) -> u64 {
        let new = |node: &&LogNode| self.area.page_of(node.leaf).is_none();
        let logs = self.area.len() + self.open.iter().filter(new).count();
        logs as u64 + 2 * self.area.gone() as u64
    }

    /// Syncs if log pages were freed, so that they stay free after a cut.
    fn sync_what_is_gone(&mut self) -> Result<(), IndexError> {
        self.area.sync()?;
        self.area.sync_store()
    }

    /// Does an update for which the tree may lack room. First merges all logs. If need be, the update goes to
    /// the tree directly.
    fn update_full(&mut self, change: Change<'_>) -> Result<bool, IndexError> {
        self.merge_all()?;
        let Lookup { is_present, .. } = self.tree.lookup(change.key, Cause::Host)?;
        self.counts.bypasses += 1;
        self.tree.apply_to_leaf(core::iter::once(change), LEAVES_MAX)?;
        Ok(is_present)
    }

    /// Makes room for one more open log by closing the one used least recently. Returns false if that one
    /// was merged.
    fn make_place(&mut self) -> Result<bool, IndexError> {
        if self.open.len() < self.log_nodes {
            return Ok(true);
        }
        let oldest = (0..self.open.len()).min_by_key(|at| self.open[*at].used).unwrap_or(0);
        self.counts.closes += u64::from(self.open[oldest].is_dirty);
        let is_written = self.write_log(oldest)?;
        if is_written {
            self.open.swap_remove(oldest);
        }
        Ok(is_written)
    }

    fn open_log(&mut self, leaf: Lpn, span: LeafSpan) -> Result<usize, IndexError> {
        let mut page = vec![0; self.page.len()];
        if !self.area.read(leaf, Cause::Host, &mut page)? {
            self.area.shape.reset(&mut page, leaf);
        }
        self.clock += 1;
        self.open.push(LogNode { leaf, span, page, used: self.clock, is_dirty: false });
        Ok(self.open.len() - 1)
    }

    /// Writes an open log to its page, if it has changed. Returns false if the area had no page for it and
    /// it was merged.
    fn write_log(&mut self, at: usize) -> Result<bool, IndexError> {
        if !self.open[at].is_dirty {
            return Ok(true);
        }
        self.tree.change_follows()?;
        let node = &mut self.open[at];
        match self.area.write(node.leaf, &mut node.page) {
            Ok(()) => {
                node.is_dirty = false;
                Ok(true)
            }
            Err(StoreError::Full) => self.leave(at).map(|()| false),
            Err(error) => {
                self.is_interrupted = !error.is_refusal();
                Err(error.into())
            }
        }
    }

    pub(super) fn close_all(&mut self) -> Result<(), IndexError> {
        let mut at = 0;
        while at < self.open.len() {
            at += usize::from(self.write_log(at)?);
        }
        Ok(())
    }

    /// Closes an open log. A full log of ascending keys becomes the next leaf if the tree can append it.
    /// Any other is merged into the leaf it belongs to.
    fn leave(&mut self, at: usize) -> Result<(), IndexError> {
        let shape = self.area.shape;
        let leaf = self.open[at].leaf;
        self.page_goes(leaf)?;
        let page = take(&mut self.open[at].page);
        let is_full = shape.count(&page) == shape.capacity();
        let switched = if is_full && shape.is_ascending(&page) {
            let records = shape.changes(&page).filter_map(|change| Some((change.key, change.value?)));
            self.tree.append_leaf(records)
        } else {
            Ok(false)
        };
        let done = switched.and_then(|switched| {
            self.counts.switches += u64::from(switched);
            if switched { Ok(()) } else { Ok(self.merge(&page)?) }
        });
        self.open[at].page = page;
        done?;
        self.open.swap_remove(at);
        self.given_up(leaf)
    }

    /// Removes the clean mark before the log page of a leaf goes. The mark covers log pages too, even if
    /// the tree has all their entries.
    fn page_goes(&mut self, leaf: Lpn) -> Result<(), IndexError> {
        if self.area.page_of(leaf).is_some() { Ok(self.tree.change_follows()?) } else { Ok(()) }
    }

    /// Merges a log into the leaf that its keys belong to.
    fn merge(&mut self, page: &[u8]) -> Result<(), IndexError> {
        let shape = self.area.shape;
        let applied = self.tree.apply_to_leaf(shape.changes(page), LEAVES_MAX)?;
        if applied.changes != shape.count(page) {
            let what = "a leaf and its log have too many entries";
            return Err(IndexError::broken(Invariant::L1, what, applied.lpn.0.into()));
        }
        self.counts.merges += 1;
        Ok(())
    }

    /// Frees the page of a leaf whose log is gone. If the tree now consists of one leaf, the remaining log
    /// becomes that leaf's.
    fn given_up(&mut self, leaf: Lpn) -> Result<(), IndexError> {
        let mut freed = self.area.give_up(leaf);
        if freed.is_ok() && !self.tree.has_room_for(self.splits_max()) {
            // Nothing has changed since: what is back after a cut now is in the tree.
            freed = self.sync_what_is_gone();
            freed = freed.or_else(|error| if error.is_refusal() { Ok(()) } else { Err(error) });
        }
        self.is_interrupted |= freed.is_err();
        if self.tree.is_one_leaf() {
            let root = BPlusTree::<S>::root();
            self.open.iter_mut().for_each(|node| node.leaf = root);
            self.area.rename_only(root);
        }
        freed
    }

    pub(super) fn merge_all(&mut self) -> Result<(), IndexError> {
        while !self.open.is_empty() {
            self.leave(self.open.len() - 1)?;
        }
        loop {
            let Some(leaf) = self.area.leaves().next() else { return Ok(()) };
            self.page_goes(leaf)?;
            let mut page = take(&mut self.page);
            let read = self.area.read(leaf, Cause::Host, &mut page);
            let merged = read.and_then(|_| self.merge(&page));
            self.page = page;
            merged?;
            self.given_up(leaf)?;
        }
    }

    /// Merges the log pages that a mount could not merge. Called before a change.
    pub(super) fn merge_stranded(&mut self) -> Result<(), IndexError> {
        if self.stranded.is_empty() { Ok(()) } else { self.merge_what_was_found() }
    }

    /// Merges all log pages found after a cut into the present leaves. All their entries were true at the
    /// last sync or later, but only the newest of each key is used, since all together might be more
    /// records than ever existed at once. The pages must be gone durably before a change, because an older
    /// one alone would undo a newer one. If the store refuses any of this, the entries are kept in RAM for
    /// reading until a change comes.
    pub(super) fn merge_what_was_found(&mut self) -> Result<(), IndexError> {
        let mut page = take(&mut self.page);
        let merged = self.merge_found(&mut page);
        self.page = page;
        merged
    }

    fn merge_found(&mut self, page: &mut [u8]) -> Result<(), IndexError> {
        let found = self.area.scan(page, Cause::Recovery)?;
        let merged = self.merge_and_bury(&found, page);
        if merged.as_ref().is_err_and(IndexError::is_refusal) && self.stranded.is_empty() {
            let mut newest = self.newest_of(&found.logs);
            self.sweep(&found.logs, &mut newest, page, &mut |tree, newest| {
                (0..newest.len()).for_each(|i| tree.stranded.owe(0, newest.get(i).1));
                Ok(())
            })?;
        }
        merged?;
        self.stranded = Owed::default();
        drop(found);
        self.area.open();
        Ok(())
    }

    fn merge_and_bury(&mut self, found: &Found, page: &mut [u8]) -> Result<(), IndexError> {
        if self.stranded.is_empty() {
            self.merge_logs(&found.logs, page)?;
        } else {
            let stranded = take(&mut self.stranded);
            let merged = self.merge_stranded_of(&stranded);
            self.stranded = stranded;
            merged?;
        }
        if self.stranded.is_empty() && found.logs.is_empty() {
            return Ok(());
        }
        // What was found before may be gone by now, but not for good.
        self.area.bury(found);
        self.area.sync()?;
        self.area.sync_store()
    }

    fn newest_of(&self, found: &[FoundLog]) -> Newest {
        Newest::new(self.tree.record(), self.merge_ram, found.len() * self.area.shape.capacity())
    }

    /// Merges the logs that a scan found.
    fn merge_logs(&mut self, found: &[FoundLog], page: &mut [u8]) -> Result<(), IndexError> {
        let mut newest = self.newest_of(found);
        let merged = self.sweep(found, &mut newest, page, &mut LsbTree::apply_newest);
        if !matches!(merged, Err(IndexError::Full(_))) {
            return merged;
        }
        // What makes room goes first.
        self.sweep(found, &mut newest, page, &mut |tree, newest| {
            newest.keep_removals();
            tree.apply_newest(newest)
        })?;
        self.sweep(found, &mut newest, page, &mut LsbTree::apply_newest)
    }

    /// Runs an action on the newest changes in some logs, with as many changes at a time as fit into the
    /// RAM.
    fn sweep(
        &mut self,
        found: &[FoundLog],
        newest: &mut Newest,
        page: &mut [u8],
        act: Act<'_, S>,
    ) -> Result<(), IndexError> {
        newest.restart();
        loop {
            let mut place = 0;
            for (_, _, at) in found {
                self.area.read_at(*at, Cause::Recovery, page)?;
                for change in self.area.shape.changes(page) {
                    newest.offer(place, change);
                    place += 1;
                }
            }
            newest.finish();
            act(self, newest)?;
            if newest.is_last() {
                return Ok(());
            }
            newest.next_pass();
        }
    }

    fn apply_newest(&mut self, newest: &mut Newest) -> Result<(), IndexError> {
        self.apply_by_leaf(newest.len(), |i| newest.get(i).1)
    }

    /// Merges stranded updates. If there is no room, removals go first.
    fn merge_stranded_of(&mut self, changes: &Owed) -> Result<(), IndexError> {
        let all: Vec<Change<'_>> =
            changes.within((Bound::Unbounded, Bound::Unbounded), Direction::Ascending).rest().collect();
        let merged = self.apply_by_leaf(all.len(), |i| all[i]);
        if !matches!(merged, Err(IndexError::Full(_))) {
            return merged;
        }
        let removals: Vec<Change<'_>> = all.iter().copied().filter(|change| change.value.is_none()).collect();
        self.apply_by_leaf(removals.len(), |i| removals[i])?;
        self.apply_by_leaf(all.len(), |i| all[i])
    }

    /// Applies changes to their leaves, leaf by leaf. There are `count` changes, in the order of keys.
    fn apply_by_leaf<'c>(
        &mut self,
        count: usize,
        change: impl Fn(usize) -> Change<'c>,
    ) -> Result<(), IndexError> {
        let mut first = 0;
        while first < count {
            let span = self.tree.leaf_span(change(first).key)?;
            let here = (first..count).take_while(|i| span.contains(change(*i).key)).count();
            let applied = self.tree.apply_to_leaf((first..first + here).map(&change), LEAVES_MAX)?;
            if !(1..=here).contains(&applied.changes) {
                let what = "a key lies outside the bounds of its leaf";
                return Err(IndexError::broken(Invariant::B3, what, applied.lpn.0.into()));
            }
            first += applied.changes;
        }
        Ok(())
    }

    /// Does a removal that must first make room for merging the logs found by a mount.
    fn remove_from_full(&mut self, change: Change<'_>) -> Result<bool, IndexError> {
        let Lookup { is_present, .. } = self.tree.lookup(change.key, Cause::Host)?;
        if is_present {
            self.tree.apply_to_leaf(core::iter::once(change), LEAVES_MAX)?;
        }
        let found = self.stranded.value(change.key).map(|value| value.is_some());
        self.stranded.remove(change.key);
        Ok(found.unwrap_or(is_present))
    }
}
