//! The lazy-update B+-tree: updates wait in a pool in RAM and reach the tree in groups, one leaf at a time.
//!
//! S. T. On, H. Hu, Y. Li, J. Xu, "Lazy-Update B+-Tree for Flash Devices", MDM 2009. The tree below is the
//! [`BPlusTree`] of this crate over any [`PageStore`]; pool and page cache share the RAM.
//!
//! # State
//!
//! On the medium: the B+-tree and nothing else. In RAM: *requests*, at most one per key, each putting a value or
//! removing the key; *groups*, the requests for one leaf, known by the bounds of the keys that belong to it; and an order
//! of the groups under the commit policy. All in tables of fixed size (`pool.rs`), so the pool's RAM never changes.
//!
//! # Operations
//!
//! - *insert, remove*: (1) A key with a request: the newer request takes the older one's place; a removal meeting the
//!   insertion of a key that the tree does not hold cancels with it and both leave. (2) Else a full pool commits one
//!   group, and the request joins the group of its leaf. If the leaf has none, its bounds are read from the tree (the path
//!   above the leaf) and a group is opened.
//! - *commit*: the requests of a group are merged into their leaf; each page that changes is written once, all of them
//!   atomically (`bplus/batch.rs`). A split, a merge or a redistribution moves keys between two neighbouring leaves, and
//!   the requests for these keys are grouped anew. A group that would overflow two leaves goes in portions.
//! - *get*: the pool, then the tree. *range*: both at once, in order, the pool's word before the tree's.
//! - *sync*: commits all groups in key order, then syncs the tree.
//!
//! # Commit policies
//!
//! *FIFO*, *LRU*, *biggest size* (the paper's first) and *cost-based* (its second: least H = |D| / size, where D are the
//! leaves a commit writes; inner nodes do not count). Ties go to the group hit least recently. The victim is the first
//! group in an order kept all the time, O(log n) per update. *Cost-based* visits groups by falling size and reads their
//! leaves to know how full they are; it stops at the first group that cannot be cheaper than the best, for a group costs
//! one leaf at least (`commit.rs`).
//!
//! # What an answer costs
//!
//! The paper buffers an update without looking whether the key exists. An [`OrderedIndex`] must say so: with
//! [`Answers::Exact`] an update whose key has no request reads the path to its leaf (through the cache), as in the plain
//! tree. It gains something from it: it learns the bounds of the leaf, a removal of an absent key is no request, and
//! insertion and removal of a new key cancel for certain. With [`Answers::Pool`] nothing below the leaf's parent is read,
//! and nothing at all if the leaf has a group; the answer is what the pool knows and `false` otherwise, which breaks the
//! trait's word on answers, not on contents. It is there to repeat the paper's counts.
//!
//! # Durability
//!
//! The published index, and this one, loses the pool at a power cut. Nor is what remains a prefix of the history: a group
//! committed after the last sync stays while older requests of other groups are gone. That is less than *every sync*
//! promises, so the class is *none*, with the clean mark of the tree: mounting after a cut answers
//! [`IndexError::NotCleanlyClosed`] if any group was committed after the last sync, and finds the state of that sync
//! if none was. The tree itself is never torn where the store writes its groups atomically, and
//! [`LazyUpdateTree::mount_after_cut`] opens it as it is: every key then has the value of the last sync or a later one.
//! The lab's classes stay what they are; a sync costs two writes of the superblock for the mark.
//!
//! A journal would raise the class: each request is also appended to a log of pages beside the tree (a second store, or
//! the end of this one), a page at a time (group commit, by size or by age); mount replays it over the tree before the
//! first operation, and a sync that commits all cuts it off. Requests are idempotent puts and removals, so replaying some
//! that were committed is harmless, and with the whole history since the last cut-off in it the state is again a prefix.
//! Its place is `update`, between the answer and the pool. It is not built.
//!
//! # Invariants
//!
//! - P1 Every request is in exactly one group, between its bounds; a group has as many requests as it counts, one at least.
//! - P2 The bounds of a group are those of a leaf of the tree: its requests belong there and nowhere else.
//! - P3 What a request says the tree holds of its key is so.
//! - P4 The order of the groups has each of them once, and there are never more requests than the pool was made for.
//!
//! # Deviations
//!
//! A removal followed by an insertion of the same key does not cancel, since the value may differ: it becomes one request
//! that puts the new value (a commit that changes nothing in a leaf does not write it). A group too large for two leaves is
//! committed in portions, the paper's figure of leaves for it, n over the order, being the price it is chosen by. When the
//! store below is full and no group can be committed, an update of another key goes to the tree at once; `sync` then
//! answers `Full`, nothing is lost, and removals make room. Confidence: high for pool, groups and the first three policies;
//! the pruning rule of *cost-based* is ours (the paper defers to a report), with the paper's choice proved equal.

mod commit;
mod order;
mod policy;
mod pool;
mod range;
mod settings;
#[cfg(test)]
mod tests;

pub use policy::CommitPolicy;
pub use settings::{Answers, LazyUpdateConfig, OPTIONS, PoolCount};

use super::bplus::{BPlusTree, Change, Fill};
use super::{Direction, Durability, IndexStats, Metric, OrderedIndex, RecordFormat, Records, Visit};
use crate::check::{CheckReport, IndexError};
use crate::ftl::PageStore;
use crate::nand::Cause;
use alloc::string::ToString;
use core::ops::Bound;
use pool::{Below, Pool};

/// A B+-tree with a pool of updates above it.
pub struct LazyUpdateTree<S> {
    tree: BPlusTree<S>,
    pool: Pool,
    policy: CommitPolicy,
    answers: Answers,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    commits: u64,
    committed_requests: u64,
    reshapings: u64,
    leaves_priced: u64,
    bypasses: u64,
}

impl<S: PageStore> LazyUpdateTree<S> {
    /// Makes an empty index; whatever the store held is dropped.
    pub fn format(store: S, config: LazyUpdateConfig) -> Result<LazyUpdateTree<S>, IndexError> {
        config.validate()?;
        Ok(LazyUpdateTree::above(BPlusTree::format(store, config.tree)?, config))
    }

    /// Opens the index that a store holds, if it was synced after the last change.
    pub fn mount(store: S, config: LazyUpdateConfig) -> Result<LazyUpdateTree<S>, IndexError> {
        config.validate()?;
        Ok(LazyUpdateTree::above(BPlusTree::mount_as(store, config.tree)?, config))
    }

    /// Opens the index that a power cut left: each key has its value at the last sync or a later one. Where the store
    /// cannot keep the tree whole over a cut, the same as [`LazyUpdateTree::mount`].
    pub fn mount_after_cut(store: S, config: LazyUpdateConfig) -> Result<LazyUpdateTree<S>, IndexError> {
        config.validate()?;
        let tree = BPlusTree::open(store, true)?.require_config(config.tree)?;
        Ok(LazyUpdateTree::above(tree, config))
    }

    fn above(mut tree: BPlusTree<S>, config: LazyUpdateConfig) -> LazyUpdateTree<S> {
        tree.promise_nothing();
        let record = config.tree.record;
        LazyUpdateTree {
            tree,
            pool: Pool::new(record, config.pool_requests, config.policy),
            policy: config.policy,
            answers: config.answers,
            counts: Counts::default(),
        }
    }

    /// Fills an empty index with records whose keys ascend strictly; see [`BPlusTree::bulk_load`].
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        records: impl IntoIterator<Item = (K, V)>,
        fill: Fill,
    ) -> Result<u64, IndexError> {
        self.commit_all()?;
        self.tree.bulk_load(records, fill)
    }

    /// Requests that wait in the pool.
    pub fn pooled_requests(&self) -> usize {
        self.pool.len()
    }

    /// The tree below, without what waits in the pool.
    pub fn tree(&self) -> &BPlusTree<S> {
        &self.tree
    }

    /// Gives the store back; what was not synced is as after a power cut.
    pub fn into_store(self) -> S {
        self.tree.into_store()
    }

    /// A value for a key, or none to remove it; returns whether the key existed.
    fn update(&mut self, change: Change<'_>) -> Result<bool, IndexError> {
        self.tree.ready()?;
        if let Some(slot) = self.pool.find(change.key) {
            let existed = self.pool.value(slot).is_some();
            if existed || change.value.is_some() {
                self.pool.amend(slot, change.value);
            }
            return Ok(existed);
        }
        if self.pool.is_full() {
            match self.commit_victim() {
                // The store has no room. It may have for this change, or a part of the group has made it.
                Err(IndexError::Full) => {}
                committed => committed?,
            }
        }
        let (below, span) = match self.answers {
            Answers::Exact => {
                let (is_present, span) = self.tree.lookup(change.key, Cause::Host)?;
                (if is_present { Below::Present } else { Below::Absent }, Some(span))
            }
            Answers::Pool if self.pool.group_of_key(change.key).is_some() => (Below::Unknown, None),
            Answers::Pool => (Below::Unknown, Some(self.tree.leaf_span(change.key)?)),
        };
        let existed = below == Below::Present;
        if below == Below::Absent && change.value.is_none() {
            return Ok(false);
        }
        if self.pool.is_full() {
            self.bypass(change)?;
        } else {
            self.pool.add(change, below, span.as_ref());
        }
        Ok(existed)
    }

    /// P2 and P3: what the pool says of the tree, against the tree; and the records that the pool adds and takes away.
    fn check_against_tree(&mut self, report: &mut CheckReport) -> Result<(), IndexError> {
        let mut next = self.pool.first();
        while let Some(slot) = next {
            let (is_present, span) = self.tree.lookup(self.pool.key(slot), Cause::Check)?;
            if span != self.pool.span(self.pool.group_of(slot)) {
                report.violation("P2", u64::from(slot), "the group is for no leaf of the tree".to_string());
            }
            let expected = if is_present { Below::Present } else { Below::Absent };
            if ![expected, Below::Unknown].contains(&self.pool.below(slot)) {
                report.violation("P3", u64::from(slot), "the tree holds the key, or does not".to_string());
            }
            let is_put = self.pool.value(slot).is_some();
            report.records += u64::from(is_put && !is_present);
            report.records -= u64::from(!is_put && is_present);
            next = self.pool.after(slot);
        }
        Ok(())
    }
}

impl<S: PageStore> OrderedIndex for LazyUpdateTree<S> {
    fn record(&self) -> RecordFormat {
        self.tree.record()
    }

    fn durability(&self) -> Durability {
        Durability::None
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        self.record().check_key(key)?;
        self.record().check_value(value)?;
        self.tree.ready()?;
        let Some(slot) = self.pool.find(key) else { return self.tree.get(key, value) };
        let found = self.pool.value(slot);
        if let Some(found) = found {
            value.copy_from_slice(found);
        }
        Ok(found.is_some())
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        self.record().check_key(key)?;
        self.record().check_value(value)?;
        self.update(Change { key, value: Some(value) })
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        self.record().check_key(key)?;
        self.update(Change { key, value: None })
    }

    fn load(&mut self, records: Records<'_, '_>) -> Result<u64, IndexError> {
        self.bulk_load(records, Fill::FULL)
    }

    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        range::merged(self, (low, high), direction, visit)
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        self.commit_all()?;
        self.tree.sync()
    }

    fn close(&mut self) -> Result<(), IndexError> {
        self.commit_all()?;
        self.tree.close()
    }

    fn check(&mut self) -> Result<CheckReport, IndexError> {
        let mut report = self.tree.check()?;
        self.pool.check(&mut report);
        if report.is_sound() {
            self.check_against_tree(&mut report)?;
        }
        Ok(report)
    }

    fn stats(&self) -> IndexStats {
        let mut stats = self.tree.stats();
        let counts = self.pool.counts;
        let figures = [
            ("pool_requests", self.pool.len() as u64),
            ("pool_groups", self.pool.group_count() as u64),
            ("pool_requests_max", self.pool.capacity() as u64),
            ("group_hits", counts.hits),
            ("group_misses", counts.misses),
            ("cancellations", counts.cancellations),
        ];
        let named = figures.into_iter().chain(self.counts.named());
        stats.metrics.extend(named.map(|(name, value)| Metric { name, value }));
        stats
    }

    fn ram_bytes(&self) -> usize {
        self.tree.ram_bytes() + Pool::ram_bytes(self.tree.record(), self.pool.capacity() as u32)
    }
}
