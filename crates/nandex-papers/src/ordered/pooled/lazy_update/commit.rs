//! Commits: the choice of a group, writing it to the tree, and the regrouping afterwards.

use super::{CommitCounts, GroupTree, Hints, Pooled};
use crate::ordered::buffered::Below;
use nandex::check::{IndexError, Invariant};
use nandex::ordered::change::Change;

impl<T: GroupTree> Pooled<T> {
    /// Commits the group that the policy chooses.
    pub(super) fn commit_victim(&mut self) -> Result<(), IndexError> {
        match self.victim()? {
            Some(group) => self.commit(group),
            None => Ok(()),
        }
    }

    /// The next group to leave: the first in rank. For *cost-based* the price of a group whose leaf was not
    /// counted is a lower bound. When such a group is first, its leaf is read and counted.
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

    /// Commits a group, in portions if the tree does not take it at once. Requests not committed before an
    /// error stay in the pool.
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

    /// Commits every group in the order of keys, so that neighbouring leaves find their parents in the
    /// cache.
    pub(super) fn commit_all(&mut self) -> Result<(), IndexError> {
        while let Some(slot) = self.pool.requests.first() {
            self.commit(self.pool.requests.group_of(slot))?;
        }
        Ok(())
    }

    /// Adds an update for which the store may have no room. All others are committed first. If then there
    /// is certainly room, the update waits in the pool. If not, it goes to the tree at once, or is refused.
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

/// The error for a group whose requests belong to another group as well. It means that two leaves have the
/// same keys, which only damaged pages can cause.
fn overlapping(group: u32) -> IndexError {
    IndexError::broken(Invariant::P2, "two leaves have the same keys", u64::from(group))
}

impl CommitCounts {
    /// The counters under their names in results.
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
