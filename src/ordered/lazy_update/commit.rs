//! Commits: the choice of a group, its way into the tree, and the regrouping after it.

use super::policy::{CommitPolicy, Price};
use super::{Counts, LazyUpdateTree};
use crate::check::IndexError;
use crate::ftl::PageStore;
use crate::ordered::bplus::Change;
use crate::ordered::buffered::Below;

/// Leaves that a commit writes at most at once: a group that fills more goes in portions.
const LEAVES_MAX: usize = 2;

impl<S: PageStore> LazyUpdateTree<S> {
    /// Makes room in the pool: commits one group, the one that the policy chooses.
    pub(super) fn commit_victim(&mut self) -> Result<(), IndexError> {
        match self.victim()? {
            Some(group) => self.commit(group),
            None => Ok(()),
        }
    }

    /// The group that leaves next.
    pub(super) fn victim(&mut self) -> Result<Option<u32>, IndexError> {
        let first = self.pool.first_group();
        match (self.policy, first) {
            (CommitPolicy::CostBased, Some(first)) => self.cheapest(first).map(Some),
            _ => Ok(first),
        }
    }

    /// The group of the least price, of equals the least recently hit. Groups are visited largest first, of equals the
    /// least recently hit first; a visit reads a leaf. A group costs one leaf write at least, so once 1 / size is above
    /// the best price, or equal to it and hit later, neither this group nor any after it can be the victim.
    fn cheapest(&mut self, first: u32) -> Result<u32, IndexError> {
        let mut best = (self.price(first)?, first);
        let mut next = self.pool.next_group(first);
        while let Some(group) = next {
            let stamp = |group| self.pool.rank(group).1;
            let (now, held) = (stamp(group), stamp(best.1));
            let bound = Price::least(self.pool.size(group));
            if bound.order(best.0).then(now.cmp(&held)).is_gt() {
                break;
            }
            let price = self.price(group)?;
            if price.order(best.0).then(now.cmp(&held)).is_lt() {
                best = (price, group);
            }
            next = self.pool.next_group(group);
        }
        Ok(best.1)
    }

    /// What committing a group costs. Where nobody looked whether the tree holds a key, a value put is taken for a new
    /// record and a removal for one less, as the paper does.
    pub(super) fn price(&mut self, group: u32) -> Result<Price, IndexError> {
        self.counts.leaves_priced += 1;
        let Some(first) = self.pool.first_of(group) else { return Err(overlapping(group)) };
        let mut entries = self.tree.leaf_entries(self.pool.key(first))?;
        for slot in self.pool.members(group) {
            match (self.pool.value(slot).is_some(), self.pool.below(slot)) {
                (true, Below::Absent | Below::Unknown) => entries += 1,
                (false, Below::Present | Below::Unknown) => entries = entries.saturating_sub(1),
                _ => {}
            }
        }
        Ok(Price::of(self.pool.size(group), entries, self.tree.leaf_fill()))
    }

    /// Commits a group, in several portions if the tree does not take it in one. Requests that were not committed when
    /// an error ends it stay in the pool.
    pub(super) fn commit(&mut self, mut group: u32) -> Result<(), IndexError> {
        let mut left = self.pool.size(group) as usize;
        self.counts.commits += 1;
        loop {
            let applied = self.tree.apply(self.pool.changes(group), LEAVES_MAX)?;
            if !(1..=left).contains(&applied.changes) {
                return Err(overlapping(group));
            }
            left -= applied.changes;
            let next = if left > 0 { self.pool.members(group).nth(applied.changes) } else { None };
            self.pool.remove_first(group, applied.changes);
            if let Some(reshaped) = &applied.reshaped {
                self.counts.reshapings += 1;
                self.pool.regroup(reshaped);
            }
            self.counts.committed_requests += applied.changes as u64;
            let Some(slot) = next else { return Ok(()) };
            group = self.pool.group_of(slot);
        }
    }

    /// Commits every group, in key order, so that neighbours find their parents in the cache.
    pub(super) fn commit_all(&mut self) -> Result<(), IndexError> {
        while let Some(slot) = self.pool.first() {
            self.commit(self.pool.group_of(slot))?;
        }
        Ok(())
    }

    /// Takes in an update for which the store may have no room: it waits in the pool only if that is certain, once
    /// everything else is in the tree; else it goes there at once, or is refused.
    pub(super) fn add_to_full(&mut self, change: Change<'_>, below: Below) -> Result<(), IndexError> {
        self.commit_all()?;
        if self.has_room() {
            let span = self.tree.leaf_span(change.key)?;
            self.pool.add(change, below, Some(&span));
            return Ok(());
        }
        self.counts.bypasses += 1;
        self.tree.apply(core::iter::once(change), LEAVES_MAX).map(drop)
    }
}

/// A group that lost requests to another, or took some over: the tree gave two leaves the same keys, which only bad bytes can make it do.
fn overlapping(group: u32) -> IndexError {
    IndexError::Corrupted { what: "P2: two leaves have the same keys", at: u64::from(group) }
}

impl Counts {
    /// The figures under the names they have in results.
    pub(super) fn named(self) -> [(&'static str, u64); 5] {
        [
            ("commits", self.commits),
            ("committed_requests", self.committed_requests),
            ("regroupings", self.reshapings),
            ("leaves_priced", self.leaves_priced),
            ("bypasses", self.bypasses),
        ]
    }
}
