//! The lazy-update B+-tree: updates wait in a pool in RAM and reach the tree in groups, one leaf at a time.
//!
//! S. T. On, H. Hu, Y. Li, J. Xu, "Lazy-Update B+-Tree for Flash Devices", MDM 2009. The tree below is the
//! [`BPlusTree`] of this crate over any [`PageStore`]; pool and page cache share the RAM.
//!
//! # An example
//!
//! Three leaves hold the keys below 100, from 100 to 199, and from 200 on; the pool has room for four
//! requests. Four updates come, and then a fifth:
//!
//! ```text
//!  put 120, put 30, remove 150, put 130     100..200: put 120, put 130, remove 150     ..100: put 30
//!  put 250                                  full: the largest group goes to its leaf, one page write
//!                                           ..100: put 30     200..: put 250
//! ```
//!
//! Each update by itself would have written its leaf: three writes of the middle leaf, where the pool made
//! one. So much is saved as updates of one leaf meet in the pool; *commit policies* differ in which group
//! leaves, and so in how many meet.
//!
//! # State
//!
//! On the medium: the B+-tree and nothing else. In RAM: *requests*, at most one per key, each putting a value
//! or removing the key; *groups*, the requests for one leaf, known by the bounds of the keys that belong to
//! it; and an order of the groups under the commit policy. All in tables of fixed size (`pool.rs`), so the
//! pool's RAM never changes.
//!
//! # Operations
//!
//! - *insert, remove*: (1) A key with a request: the newer request takes the older one's place; a removal
//!   meeting the insertion of a key that the tree does not hold cancels with it and both leave. (2) Else a
//!   full pool commits one group, and the request joins the group of its leaf. If the leaf has none, its
//!   bounds are read from the tree (the path above the leaf) and a group is opened.
//! - *commit*: the requests of a group are merged into their leaf; each page that changes is written once,
//!   all of them atomically (`bplus/batch.rs`). A split, a merge or a redistribution moves keys between two
//!   neighbouring leaves, and the requests for these keys are grouped anew. A group that would overflow two
//!   leaves goes in portions.
//! - *get*: the pool, then the tree. *range*: both at once, in order, the pool's word before the tree's.
//! - *sync*: commits all groups in key order, then syncs the tree.
//!
//! # Commit policies
//!
//! *FIFO*, *LRU*, *biggest size* (the paper's first) and *cost-based* (its second: least H = |D| / size,
//! where D are the leaves a commit writes; inner nodes do not count). Ties go to the group hit least
//! recently. The victim is the first group in an order kept all the time, O(log n) per update. For
//! *cost-based* a group knows how many entries its leaf will have, so its price is known as well: an update
//! with an exact answer has read the leaf, and a commit tells the entries of leaves whose keys changed. Where
//! nobody counted, the price is taken to be one leaf, the least it can be; such a leaf is read when its group
//! comes first in the order (`commit.rs`).
//!
//! # What an answer costs
//!
//! The paper buffers an update without looking whether the key exists. An [`OrderedIndex`] must say so: with
//! [`Answers::Exact`] an update whose key has no request reads the path to its leaf (through the cache), as
//! in the plain tree. It gains something from it: it learns the bounds of the leaf, a removal of an absent
//! key is no request, and insertion and removal of a new key cancel for certain. With [`Answers::Pool`]
//! nothing below the leaf's parent is read, and nothing at all if the leaf has a group; the answer is what
//! the pool knows and `false` otherwise, which breaks the trait's word on answers, not on contents. It is
//! there to repeat the paper's counts.
//!
//! # Durability
//!
//! The pool is RAM, so the published index, and this one, loses it at a power cut. Nor is what remains a
//! prefix of the history: if the cut strikes after the commit of the example, 130 is there and 30, which was
//! put earlier, is not. That is less than *every sync* promises, so the class is *none*, with the clean mark
//! of the tree, which goes before the first request after a sync: mounting after a cut answers
//! [`IndexError::NotCleanlyClosed`], or finds everything. The tree itself is never torn where the
//! store writes its groups atomically, and [`LazyUpdateTree::mount_after_cut`] opens it as it is: every key
//! then has the value of the last sync or a later one. A sync costs two writes of the superblock for the
//! mark.
//!
//! A journal above it raises the class: [`Journaled`](crate::ordered::journal::Journaled) notes each request
//! at the end of the store before it comes here, and does again after a cut what the pool lost. Before a
//! commit the tree says which update is the newest that the group shows ([`PageStore::updates_shown`]), so
//! that the journal need not be written for later ones; *FIFO* keeps no account of that.
//!
//! # Invariants
//!
//! - P1 Every request is in exactly one group, between its bounds; a group has as many requests as it counts,
//!   one at least.
//! - P2 The bounds of a group are those of a leaf of the tree: its requests belong there and nowhere else.
//! - P3 What a request says the tree holds of its key is so.
//! - P4 The order of the groups has each of them once, and there are never more requests than the pool was
//!   made for.
//! - P5 The tree has free pages for all the splits that committing the requests can lead to.
//! - P6 (*Cost-based*) Where the leaf of a group was counted, its entries after the commit are known.
//!
//! # Deviations
//!
//! - *Opposite requests.* As published, opposite requests for a key cancel, whichever came first
//!   ([`Pairs::Published`]): right where keys are inserted once and come back with their old value. By
//!   default they cancel only where that is known to be right: a removal that meets the insertion of a key
//!   absent from the tree. A removal followed by an insertion then becomes one request that puts the new
//!   value (a commit that changes nothing in a leaf does not write it).
//! - *Large groups.* A group too large for two leaves is committed in portions, the paper's figure of leaves
//!   for it, n over the order, being the price it is chosen by.
//! - *Little room.* An update for which the tree may find no room (P5) first makes all others go there, and
//!   then goes itself, at once if it must: it is refused where the tree has no room, and what is in the pool
//!   always finds some.
//!
//! Confidence: high for pool, groups and the first three policies; the pruning rule of *cost-based* is ours
//! (the paper defers to a report), with the paper's choice proved equal.

mod below;
mod commit;
mod directory;
mod policy;
mod pool;
mod range;
mod settings;
#[cfg(test)]
mod tests;

pub(in crate::ordered) use below::{GroupTree, Hints};
pub(in crate::ordered) use directory::pooled_over_directory;
pub use nandex::ordered::buffered::Answers;
pub use policy::CommitPolicy;
pub(in crate::ordered) use pool::{Demand, Pool};
pub use settings::{LazyUpdateConfig, Pairs, PoolCount};
pub(in crate::ordered) use settings::{PoolSetup, requests_in};

use crate::ordered::buffered::Below;
use crate::ordered::journal::Buffered;
use alloc::string::ToString;
use core::ops::Bound;
use nandex::check::{CheckReport, IndexError, Invariant, message};
use nandex::nand::Cause;
use nandex::ordered::bplus::ground::Lookup;
use nandex::ordered::bplus::{BPlusTree, Fill};
use nandex::ordered::change::Change;
use nandex::ordered::{
    Direction, Durability, IndexStats, Metric, OrderedIndex, RecordFormat, Records, Room, Tour, Visit,
};
use nandex::store::PageStore;

/// A B+-tree with a pool of updates above it.
pub type LazyUpdateTree<S> = Pooled<BPlusTree<S>>;

/// A tree with a pool of waiting updates above it.
pub struct Pooled<T> {
    pub(in crate::ordered) tree: T,
    pool: Pool,
    answers: Answers,
    counts: CommitCounts,
}

#[derive(Clone, Copy, Debug, Default)]
struct CommitCounts {
    commits: u64,
    committed_requests: u64,
    reshapings: u64,
    leaves_read: u64,
    bypasses: u64,
}

impl<S: PageStore> LazyUpdateTree<S> {
    /// Makes an empty index, and drops everything that the store held.
    pub fn format(store: S, config: &LazyUpdateConfig) -> Result<LazyUpdateTree<S>, IndexError> {
        config.validate()?;
        Ok(LazyUpdateTree::above(BPlusTree::format(store, &config.tree)?, *config))
    }

    /// Opens the index that a store holds. It must have been synced after its last change.
    pub fn mount(store: S, config: &LazyUpdateConfig) -> Result<LazyUpdateTree<S>, IndexError> {
        config.validate()?;
        Ok(LazyUpdateTree::above(BPlusTree::mount(store, &config.tree)?, *config))
    }

    /// Opens the index that a power cut left: each key has its value at the last sync or a later one. Where
    /// the store cannot keep the tree whole over a cut, the same as [`LazyUpdateTree::mount`].
    #[doc(hidden)]
    pub fn mount_after_cut(store: S, config: &LazyUpdateConfig) -> Result<LazyUpdateTree<S>, IndexError> {
        config.validate()?;
        let tree = BPlusTree::open(store, true)?.require_config(config.tree)?;
        Ok(LazyUpdateTree::above(tree, *config))
    }

    fn above(mut tree: BPlusTree<S>, config: LazyUpdateConfig) -> LazyUpdateTree<S> {
        tree.promise_nothing();
        Pooled::over(tree, config.pool())
    }

    /// Fills an empty index with records whose keys ascend strictly. See [`BPlusTree::bulk_load`].
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        records: impl IntoIterator<Item = (K, V)>,
        fill: Fill,
    ) -> Result<u64, IndexError> {
        self.commit_all()?;
        let loaded = self.tree.bulk_load(records, fill)?;
        self.pool.groups.set_leaf_bounds(self.tree.leaf_fill());
        Ok(loaded)
    }

    /// Takes the index apart and returns the store. Changes that were not synced are lost as in a power
    /// cut.
    pub fn into_store(self) -> S {
        self.tree.into_store()
    }
}

impl<T: GroupTree> Pooled<T> {
    pub(in crate::ordered) fn over(tree: T, setup: PoolSetup) -> Pooled<T> {
        let mut pool = Pool::new(tree.record(), setup, T::GROUPS_BY_LEAF);
        pool.groups.set_leaf_bounds(tree.leaf_fill());
        Pooled { tree, pool, answers: setup.answers, counts: CommitCounts::default() }
    }

    /// The tree below, without the updates waiting in the pool.
    pub fn tree(&self) -> &T {
        &self.tree
    }

    /// Number of requests that wait in the pool.
    pub fn pooled_requests(&self) -> usize {
        self.pool.requests.len()
    }

    /// Carries out a change. `answers` says how exact the answer must be.
    fn update(&mut self, change: Change<'_>, answers: Answers) -> Result<bool, IndexError> {
        self.tree.ready()?;
        let existed = self.take_in(change, answers);
        let updates = self.pool.updates();
        self.tree.store_below().updates_heard(updates);
        existed
    }

    /// Adds a change to the pool, and returns whether the key existed.
    fn take_in(&mut self, change: Change<'_>, answers: Answers) -> Result<bool, IndexError> {
        if let Some(slot) = self.pool.requests.find(change.key) {
            let existed = self.pool.requests.value(slot).is_some();
            if existed || change.value.is_some() {
                self.tree.admit_change()?;
                self.pool.amend(slot, change.value);
            }
            return Ok(existed);
        }
        if self.pool.requests.is_full() {
            self.commit_victim()?;
        }
        let (below, leaf) = match answers {
            Answers::Exact => {
                let Lookup { is_present, entries, span } = self.tree.lookup(change.key, Cause::Host)?;
                (if is_present { Below::Present } else { Below::Absent }, Some((span, Some(entries))))
            }
            Answers::Pool if self.pool.group_of_key(change.key).is_some() => (Below::Unknown, None),
            Answers::Pool => (Below::Unknown, Some((self.tree.group_span(change.key)?, None))),
        };
        let existed = below == Below::Present;
        if below == Below::Absent && change.value.is_none() {
            return Ok(false);
        }
        self.tree.admit_change()?;
        if self.has_room() {
            let leaf = leaf.as_ref().map(|(span, entries)| (span, *entries));
            self.pool.add(change, below, leaf);
        } else {
            self.add_to_full(change, below)?;
        }
        Ok(existed)
    }

    /// The keys of the waiting requests, in order.
    #[cfg(test)]
    pub(in crate::ordered) fn pool_keys(&self) -> impl Iterator<Item = &[u8]> {
        let requests = &self.pool.requests;
        core::iter::successors(requests.first(), |&slot| requests.after(slot)).map(|slot| requests.key(slot))
    }

    /// Whether the tree certainly has room for all waiting requests and one more (P5).
    fn has_room(&self) -> bool {
        self.tree.has_room(self.pool.demand())
    }

    /// Checks P2, P3 and P6: the pool's facts about the tree against the tree. Also adds up the records
    /// that the pool adds and removes.
    fn check_against_tree(&mut self, report: &mut CheckReport) -> Result<(), IndexError> {
        let mut next = self.pool.requests.first();
        while let Some(slot) = next {
            let (key, group) = (self.pool.requests.key(slot), self.pool.requests.group_of(slot));
            let Lookup { is_present, entries, span } = self.tree.lookup(key, Cause::Check)?;
            if span != self.pool.groups.span(group) {
                let found = "the group is for no leaf of the tree".to_string();
                report.violation(Invariant::P2, u64::from(slot), found);
            }
            let expected = if is_present { Below::Present } else { Below::Absent };
            if ![expected, Below::Unknown].contains(&self.pool.requests.below(slot)) {
                let found = "the tree holds the key, or does not".to_string();
                report.violation(Invariant::P3, u64::from(slot), found);
            }
            if self.pool.first_of(group) == Some(slot) {
                let growth: i32 = self.pool.members(group).map(|slot| self.pool.requests.growth(slot)).sum();
                let after = entries as i32 + growth;
                if self.pool.groups.entries_after(group).is_some_and(|counted| counted != after) {
                    let found = message!("the leaf will have {after} entries");
                    report.violation(Invariant::P6, u64::from(group), found);
                }
            }
            let is_put = self.pool.requests.value(slot).is_some();
            report.records += u64::from(is_put && !is_present);
            report.records -= u64::from(!is_put && is_present);
            next = self.pool.requests.after(slot);
        }
        Ok(())
    }
}

/// Above a store with a journal: the updates of the pool wait in RAM, and the tree is never torn if the
/// store writes groups atomically.
impl<S: PageStore> Buffered<S> for LazyUpdateTree<S> {
    crate::ordered::journal::opens_published!(LazyUpdateTree, LazyUpdateConfig);

    fn validate_below_journal(config: &LazyUpdateConfig) -> Result<(), IndexError> {
        config.validate_below_journal()
    }

    fn record_of(config: &LazyUpdateConfig) -> RecordFormat {
        config.tree.record
    }

    fn waiting_updates_max(config: &LazyUpdateConfig) -> u64 {
        config.pool_requests.into()
    }

    fn class_below(&self) -> Durability {
        self.tree.class_on_store()
    }
}

impl<T: GroupTree> OrderedIndex for Pooled<T> {
    fn durability(&self) -> Durability {
        Durability::None
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        self.record().check(key, value)?;
        self.tree.ready()?;
        let Some(slot) = self.pool.requests.find(key) else {
            if T::COUNTS_READS {
                self.pool.note_read(key);
            }
            return self.tree.get(key, value);
        };
        let found = self.pool.requests.value(slot);
        if let Some(found) = found {
            value.copy_from_slice(found);
        }
        Ok(found.is_some())
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        self.record().check(key, value)?;
        self.update(Change { key, value: Some(value) }, self.answers)
    }

    /// Puts a value without reading the leaf of the key.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), IndexError> {
        self.record().check(key, value)?;
        self.update(Change { key, value: Some(value) }, Answers::Pool).map(drop)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        self.record().check_key(key)?;
        self.update(Change { key, value: None }, self.answers)
    }

    fn load(&mut self, records: Records<'_, '_>) -> Result<u64, IndexError> {
        self.commit_all()?;
        let loaded = self.tree.load(records)?;
        self.pool.groups.set_leaf_bounds(self.tree.leaf_fill());
        Ok(loaded)
    }

    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        range::merged(self, Tour { bounds: (low, high), direction, visit })
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
            ("buffer_ram_bytes", self.pool.held_bytes() as u64),
            ("pool_requests", self.pool.requests.len() as u64),
            ("pool_groups", self.pool.groups.len() as u64),
            ("pool_requests_max", self.pool.requests.capacity() as u64),
            ("group_hits", counts.hits),
            ("group_misses", counts.misses),
            ("cancellations", counts.cancellations),
        ];
        let named = figures.into_iter().chain(self.counts.named());
        stats.metrics.extend(named.map(|(name, value)| Metric { name, value }));
        stats
    }

    fn ram_bytes(&self) -> usize {
        self.tree.ram_bytes() + self.pool.held_bytes()
    }

    nandex::forward_index!(tree: maintain, scrub, records_max, record);

    /// Free room, with every waiting request counted as new records.
    fn free(&self) -> Option<Room> {
        let (room, waiting) = (self.tree.free()?, self.pool.requests.len() as u64);
        Some(room.without(waiting))
    }
}
