//! Commits: the choice of a group, its way into the tree, and the regrouping after it.

use super::{CommitCounts, GroupTree, Hints, Pooled};
use crate::ordered::buffered::Below;
use nandex::check::{IndexError, Invariant};
use nandex::ordered::change::Change;

impl<T: GroupTree> Pooled<T> {
    /// Makes room in the pool: commits one group, the one that the policy chooses.
    pub(super) fn commit_victim(&mut self) -> Result<(), IndexError> {
        match self.victim()? {
            Some(group) => self.commit(group),
            None => Ok(()),
        }
    }

    /// The group that leaves next: the first in rank. For *cost-based* a leaf that nobody counted makes the
    /// price of its group the least possible; it is read when the group comes first, once.
    pub(super) fn victim(&mut self) -> Result<Option<u32>, IndexError> {
        while let Some(first) = self.pool.groups.first() {
            if self.pool.groups.is_priced(first) {
                return Ok(Some(first));
            }
            let Some(slot) = self.pool.first_of(first) else { return Err(overlapping(first)) };
            let entries = self.tree.entries_near(self.pool.requests.key(slot))?;
            self.counts.leaves_read += 1;
            self.pool.groups.count_leaf(first, entries);
        }
        Ok(None)
    }

    /// Commits a group, in several portions if the tree does not take it in one. Requests that were not
    /// committed when an error ends it stay in the pool.
    pub(super) fn commit(&mut self, group: u32) -> Result<(), IndexError> {
        let committed = self.commit_portions(group);
        self.tree.store_below().updates_shown(None);
        committed
    }

    fn commit_portions(&mut self, mut group: u32) -> Result<(), IndexError> {
        let mut left = self.pool.groups.size(group) as usize;
        self.counts.commits += 1;
        loop {
            let newest = self.pool.groups.newest(group);
            self.tree.store_below().updates_shown(newest);
            let hints = Hints {
                reads: self.pool.groups.reads(group),
                is_roomy: self.tree.has_room(self.pool.demand().with_spare()),
            };
            let applied = self.tree.apply_group(self.pool.changes(group), hints)?;
            if !(1..=left).contains(&applied.changes) {
                return Err(overlapping(group));
            }
            left -= applied.changes;
            let next = if left > 0 { self.pool.members(group).nth(applied.changes) } else { None };
            self.pool.remove_first(group, applied.changes);
            self.pool.groups.set_leaf_bounds(self.tree.leaf_fill());
            if let Some(reshaped) = &applied.reshaped {
                self.counts.reshapings += 1;
                self.pool.regroup(reshaped, (group, applied.entries));
            }
            self.counts.committed_requests += applied.changes as u64;
            let Some(slot) = next else { return Ok(()) };
            group = self.pool.requests.group_of(slot);
        }
    }

    /// Commits every group, in key order, so that neighbours find their parents in the cache.
    pub(super) fn commit_all(&mut self) -> Result<(), IndexError> {
        while let Some(slot) = self.pool.requests.first() {
            self.commit(self.pool.requests.group_of(slot))?;
        }
        Ok(())
    }

    /// Takes in an update for which the store may have no room: it waits in the pool only if that is certain,
    /// once everything else is in the tree; else it goes there at once, or is refused.
    pub(super) fn add_to_full(&mut self, change: Change<'_>, below: Below) -> Result<(), IndexError> {
        self.commit_all()?;
        if self.has_room() {
            let span = self.tree.group_span(change.key)?;
            self.pool.add(change, below, Some((&span, None)));
            return Ok(());
        }
        self.counts.bypasses += 1;
        self.tree.apply_group(core::iter::once(change), Hints::default())?;
        self.pool.groups.set_leaf_bounds(self.tree.leaf_fill());
        Ok(())
    }
}

/// A group that lost requests to another, or took some over: the tree gave two leaves the same keys, which
/// only bad bytes can make it do.
fn overlapping(group: u32) -> IndexError {
    IndexError::broken(Invariant::P2, "two leaves have the same keys", u64::from(group))
}

impl CommitCounts {
    /// The figures under the names they have in results.
    pub(super) fn named(self) -> [(&'static str, u64); 5] {
        [
            ("commits", self.commits),
            ("committed_requests", self.committed_requests),
            ("regroupings", self.reshapings),
            ("leaves_priced", self.leaves_read),
            ("bypasses", self.bypasses),
        ]
    }
}
