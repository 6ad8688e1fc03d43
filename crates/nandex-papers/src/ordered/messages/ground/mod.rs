//! The ground of the trees whose updates wait on flash: operation records, pages that are never overwritten
//! while a commit needs them, nodes, and the index around the tree.
//!
//! The [B-epsilon-tree](crate::ordered::bepsilon), the [FD-tree](crate::ordered::fd) and the
//! [LA-tree](crate::ordered::la) all let updates wait on the medium, on their way to the leaves: in the inner
//! nodes, in sorted runs, in buffers of subtrees. An update is an *operation record* (a value, or a
//! tombstone) and the newest of a key wins, wherever they meet. What tells the trees apart is where records
//! wait and when they move on; that is a [`MessageScheme`].
//!
//! | | records wait | they move on |
//! |---|---|---|
//! | B-epsilon | in inner nodes of several pages | to the child with the most, when the node is full |
//! | FD | in a head in RAM and in sorted runs, each k times the one above | all at once, by a merge with the next run |
//! | LA | in chains of pages, one for each subtree of K levels | all of a buffer at once, when it is full or was read often |
//!
//! # Durability
//!
//! None of the three writes over anything that the last commit needs, and a commit is one page write
//! ([`Shadow`]). A sync commits, with all that RAM holds, so a power cut leaves the state at the last sync,
//! or at a later commit that the tree made by itself to get pages back: *every sync*, on every store. The
//! published designs leave RAM to a log; for *every operation*, or for syncs that cost a page, there is the
//! update [`journal`](crate::ordered::journal).
//!
//! # Invariants of all
//!
//! - S1 The manifest, page 0, names a whole state under a right checksum.
//! - S2 A page of a unit in use carries a right checksum and its own number.
//! - S3 A unit is used once; only the manifest is ever written in place.

mod bits;
mod children;
mod node;
mod record;
mod shadow;
mod state;
mod sweep;
#[cfg(test)]
pub(in crate::ordered) mod tests;
mod walk;

pub(in crate::ordered) use nandex::ordered::Tour;
pub(in crate::ordered) use node::{Layout, Node, NodeAt, Tally, Written};
pub(in crate::ordered) use record::{PUT, REMOVE, Records as Slice, Run, Shape};
pub(crate) use shadow::{Identity, Shadow, ShadowOn};
pub(in crate::ordered) use shadow::{NONE, corrupted};
pub(in crate::ordered) use state::CommittedState;

use crate::ordered::journal::Buffered;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Bound, ControlFlow};
use nandex::check::{CheckReport, IndexError, Invariant, message};
use nandex::ordered::buffered::Answers;
use nandex::ordered::change::{Change, holds_none, load_one_by_one};
use nandex::ordered::{
    Direction, Durability, IndexStats, Metric, OrderedIndex, RecordFormat, Records, Room, Visit,
};
use nandex::store::PageStore;

pub(crate) use nandex::ordered::Bounds;

/// The settings that all trees of this kind have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Common {
    /// The sizes of keys and values.
    pub record: RecordFormat,
    /// Durability class: at most *every sync*, since more needs a journal. In the class *none* a mount
    /// refuses a store that was changed after the last sync. In *every sync* it mounts the state of the last
    /// sync.
    pub durability: Durability,
    /// The exactness of the answers of updates.
    pub answers: Answers,
}

impl Common {
    /// Settings with exact answers and the class *every sync*.
    pub const fn new(record: RecordFormat) -> Common {
        Common { record, durability: Durability::EverySync, answers: Answers::Exact }
    }
}

/// Size and number of a store's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorePages {
    /// Bytes of a page.
    pub bytes: usize,
    /// Number of pages.
    pub count: u32,
}

impl StorePages {
    /// The pages of this store.
    pub fn of(store: &(impl PageStore + ?Sized)) -> StorePages {
        StorePages { bytes: store.page_bytes(), count: store.page_count() }
    }
}

/// The part of a tree that decides where records wait and when they move on.
///
/// A failed operation may move records but must not change the contents. A scheme changes pages in attempts,
/// none of which loses anything, so it may commit between two attempts.
pub trait MessageScheme: Sized + nandex::shared::MaybeSend {
    /// The settings of the tree.
    type Config: Clone + nandex::shared::MaybeSend;

    /// The part of the settings that all trees have.
    fn common(config: &Self::Config) -> Common;

    /// The identity of the tree on a store with these pages.
    fn identity(config: &Self::Config, pages: StorePages) -> Result<Identity, IndexError>;

    /// Makes an empty tree.
    fn new(config: &Self::Config, shadow: &mut Shadow<'_>) -> Result<Self, IndexError>;

    /// Rebuilds the tree from a committed state, which is read to its end, and claims the units of the
    /// tree.
    fn restore(
        config: &Self::Config,
        shadow: &mut Shadow<'_>,
        state: CommittedState,
    ) -> Result<Self, IndexError>;

    /// Bytes of the state that the tree holds in RAM.
    fn state_bytes(&self) -> usize;

    /// Writes the state through `put`.
    fn save(&self, put: &mut dyn FnMut(&[u8]) -> Result<(), IndexError>) -> Result<(), IndexError>;

    /// Whether a key exists. `None` if that cannot be told from RAM alone.
    fn known(&self, key: &[u8]) -> Option<bool>;

    /// Looks a key up.
    fn find(&mut self, shadow: &mut Shadow<'_>, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError>;

    /// Makes sure that a value for a key has room, also if the key is new.
    fn admit(&mut self, shadow: &mut Shadow<'_>, key: &[u8]) -> Result<(), IndexError>;

    /// Makes sure that a value that adds no node to the tree has room: one for a key that is there, or one
    /// that its leaf takes. It takes what a removal takes, which every admission leaves.
    fn admit_in_leaf(&mut self, shadow: &mut Shadow<'_>) -> Result<(), IndexError>;

    /// Whether the leaf of a new key has room for it, even if all values that wait go there.
    fn leaf_takes(&mut self, _shadow: &mut Shadow<'_>, _key: &[u8]) -> Result<bool, IndexError> {
        Ok(false)
    }

    /// Enters an update: a value for a key, which was admitted, or `None` to remove the key.
    fn update(&mut self, shadow: &mut Shadow<'_>, change: Change<'_>) -> Result<(), IndexError>;

    /// Visits the records within bounds, in the order of keys.
    fn range(&mut self, shadow: &mut Shadow<'_>, tour: Tour<'_, '_>) -> Result<(), IndexError>;

    /// Fills the empty tree with sorted records. After an error it is still empty.
    fn load(&mut self, shadow: &mut Shadow<'_>, records: &mut Ascending<'_, '_>) -> Result<(), IndexError>;

    /// Checks the invariants of the scheme. Returns the number of units that it uses.
    fn check(&mut self, shadow: &mut Shadow<'_>, report: &mut CheckReport) -> Result<u32, IndexError>;

    /// Whether the tree has no record at all, tombstones included.
    fn is_empty(&self) -> bool;

    /// Records with random keys that this number of free units takes. So many others are in use.
    fn records_left(&self, free: u64, used: u64) -> u64;

    /// Number of levels.
    fn height(&self) -> u32;

    /// The tree's own counters, with their names in results.
    fn metrics(&self) -> Vec<(&'static str, u64)>;

    /// Largest number of records held in RAM.
    fn waiting_records_max(config: &Self::Config) -> u64;

    /// Bytes of RAM that the tree takes on a store with these pages.
    fn ram_bytes(config: &Self::Config, pages: StorePages) -> Result<usize, IndexError>;
}

/// The sorted records of a load. They are counted and checked as they are read.
pub struct Ascending<'a, 'r> {
    records: Records<'a, 'r>,
    format: RecordFormat,
    last: Vec<u8>,
    count: u64,
}

impl Ascending<'_, '_> {
    /// Appends the next record to a run. Returns false at the end.
    pub(in crate::ordered) fn next_into(&mut self, run: &mut Run) -> Result<bool, IndexError> {
        let Some((key, value)) = self.records.next() else { return Ok(false) };
        self.format.check(key, value)?;
        if self.count > 0 && self.last[..] >= *key {
            return Err(IndexError::NotSorted { position: self.count });
        }
        self.last.clear();
        self.last.extend_from_slice(key);
        self.count += 1;
        run.push_fields(PUT, key, value);
        Ok(true)
    }
}

/// An index whose updates wait on flash.
pub struct MessageTree<S, T: MessageScheme> {
    shadow: ShadowOn<S>,
    scheme: T,
    config: T::Config,
    common: Common,
    scratch: Vec<u8>,
    /// True if the last value that may add nodes had no room. One that adds none is then admitted without
    /// moving all records first, which may free nothing.
    is_full: bool,
}

impl<S: PageStore, T: MessageScheme> MessageTree<S, T> {
    /// Makes an empty index; whatever the store held is dropped.
    pub fn format(store: S, config: &T::Config) -> Result<MessageTree<S, T>, IndexError> {
        let identity = identity::<T>(&store, config)?;
        let mut shadow = ShadowOn::format(store, identity)?;
        let scheme = T::new(config, &mut shadow)?;
        let mut index = MessageTree::over(shadow, scheme, config.clone());
        commit(&mut index.shadow, &index.scheme)?;
        Ok(index)
    }

    /// Opens an index after a sync or a power cut. In the class *none* an index that lost changes by a cut
    /// is refused.
    pub fn mount(store: S, config: &T::Config) -> Result<MessageTree<S, T>, IndexError> {
        let is_none = T::common(config).durability == Durability::None;
        let index = MessageTree::mount_after_cut(store, config)?;
        if is_none && index.shadow.is_open() { Err(IndexError::NotCleanlyClosed) } else { Ok(index) }
    }

    /// Mounts the state of the last sync, in every class, after a power cut or not.
    pub fn mount_after_cut(store: S, config: &T::Config) -> Result<MessageTree<S, T>, IndexError> {
        let identity = identity::<T>(&store, config)?;
        let (mut shadow, state) = ShadowOn::mount(store, identity)?;
        let scheme = T::restore(config, &mut shadow, state)?;
        shadow.mounted();
        Ok(MessageTree::over(shadow, scheme, config.clone()))
    }

    fn over(shadow: ShadowOn<S>, scheme: T, config: T::Config) -> MessageTree<S, T> {
        let common = T::common(&config);
        let scratch = vec![0; usize::from(common.record.value_bytes)];
        MessageTree { shadow, scheme, config, common, scratch, is_full: false }
    }

    /// The scheme, which has the tree.
    pub fn scheme(&self) -> &T {
        &self.scheme
    }

    /// The store below the index.
    pub fn store(&self) -> &S {
        self.shadow.store()
    }

    /// Takes the index apart and returns the store. Changes that were not synced are lost as in a power
    /// cut.
    pub fn into_store(self) -> S {
        self.shadow.into_store()
    }

    fn walk(&mut self) -> Result<CheckReport, IndexError> {
        let mut report = CheckReport::default();
        let used = self.scheme.check(&mut self.shadow, &mut report)? + self.shadow.units.of_state();
        if used != self.shadow.units.live() {
            let found = message!("{used} units are in use, {} are kept from use", self.shadow.units.live());
            report.violation(Invariant::S3, 0, found);
        }
        let mut records = 0;
        let mut visit = |_: &[u8], _: &[u8]| {
            records += 1;
            ControlFlow::Continue(())
        };
        let bounds = (Bound::Unbounded, Bound::Unbounded);
        let all = Tour { bounds, direction: Direction::Ascending, visit: &mut visit };
        self.scheme.range(&mut self.shadow, all)?;
        report.records = records;
        Ok(report)
    }

    fn update(&mut self, change: Change<'_>) -> Result<bool, IndexError> {
        self.shadow.ready()?;
        let known = self.scheme.known(change.key);
        let existed = match known {
            Some(known) => known,
            None if self.common.answers == Answers::Pool => false,
            None => self.scheme.find(&mut self.shadow, change.key, &mut self.scratch)?,
        };
        let is_sure = known.is_some() || self.common.answers == Answers::Exact;
        if !existed && is_sure && change.value.is_none() {
            return Ok(false);
        }
        self.take_in(change.key, change.value)?;
        Ok(existed)
    }

    fn take_in(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), IndexError> {
        if self.common.durability == Durability::None {
            self.shadow.open()?;
        }
        if value.is_some() {
            self.admit(key)?;
        }
        self.scheme.update(&mut self.shadow, Change { key, value })?;
        self.shadow.updated();
        Ok(())
    }

    /// Makes sure that a value has room. A full store takes those that add no node.
    fn admit(&mut self, key: &[u8]) -> Result<(), IndexError> {
        if !self.is_full || !self.adds_no_node(key)? {
            let admitted = self.scheme.admit(&mut self.shadow, key);
            let was_full =
                core::mem::replace(&mut self.is_full, admitted.as_ref().is_err_and(IndexError::is_full));
            if !self.is_full || was_full || !self.adds_no_node(key)? {
                return admitted;
            }
        }
        self.scheme.admit_in_leaf(&mut self.shadow)
    }

    fn adds_no_node(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        let is_there = self.scheme.find(&mut self.shadow, key, &mut self.scratch)?;
        Ok(is_there || self.scheme.leaf_takes(&mut self.shadow, key)?)
    }

    /// Commits everything and notes that no change has followed.
    fn commit_all(&mut self) -> Result<(), IndexError> {
        let was_open = self.shadow.is_open();
        self.shadow.set_open(false);
        let committed = commit(&mut self.shadow, &self.scheme);
        if committed.is_err() {
            self.shadow.set_open(was_open);
        }
        committed
    }
}

/// Bytes of RAM that an index takes at most on this store. The store itself is not counted.
pub fn ram_bytes_on<T: MessageScheme>(
    config: &T::Config,
    store: &(impl PageStore + ?Sized),
) -> Result<usize, IndexError> {
    // And what a journal around it holds of it.
    Ok(T::ram_bytes(config, StorePages::of(store))? + size_of::<T>() + 1088)
}

fn identity<T: MessageScheme>(store: &impl PageStore, config: &T::Config) -> Result<Identity, IndexError> {
    let common = T::common(config);
    if common.durability > Durability::EverySync {
        return Err(IndexError::unsupported(message!(
            "durability '{}' is wanted, but updates wait in RAM until a sync: it takes a journal",
            common.durability.name()
        )));
    }
    T::identity(config, StorePages::of(store))
}

pub(in crate::ordered) fn commit<T: MessageScheme>(
    shadow: &mut Shadow<'_>,
    scheme: &T,
) -> Result<(), IndexError> {
    shadow.commit(scheme.state_bytes(), |put| scheme.save(put))
}

/// Makes sure that `units` units can be written, by a commit if that helps.
pub(in crate::ordered) fn make_room<T: MessageScheme>(
    shadow: &mut Shadow<'_>,
    scheme: &T,
    units: u32,
) -> Result<(), IndexError> {
    if shadow.units.free_now() < units && shadow.units.free_now() < shadow.units.free_after_commit() {
        commit(shadow, scheme)?;
    }
    if shadow.units.free_now() < units { Err(IndexError::NO_BLOCK) } else { Ok(()) }
}

impl<S: PageStore, T: MessageScheme> Buffered<S> for MessageTree<S, T> {
    type Config = T::Config;

    fn format(store: S, config: &T::Config) -> Result<Self, IndexError> {
        MessageTree::format(store, config)
    }

    fn mount(store: S, config: &T::Config) -> Result<Self, IndexError> {
        MessageTree::mount(store, config)
    }

    fn mount_after_cut(store: S, config: &T::Config) -> Result<Self, IndexError> {
        MessageTree::mount_after_cut(store, config)
    }

    fn record_of(config: &T::Config) -> RecordFormat {
        T::common(config).record
    }

    fn waiting_updates_max(config: &T::Config) -> u64 {
        T::waiting_records_max(config)
    }

    fn class_below(&self) -> Durability {
        if self.store().durable_writes() { Durability::EveryOperation } else { Durability::EverySync }
    }
}

impl<S: PageStore, T: MessageScheme> OrderedIndex for MessageTree<S, T> {
    fn record(&self) -> RecordFormat {
        self.common.record
    }

    fn durability(&self) -> Durability {
        self.common.durability.min(Durability::EverySync)
    }

    fn free(&self) -> Option<Room> {
        let (units, pages) = (&self.shadow.units, self.store().page_count());
        let free = units.free_after_commit();
        let records = self.scheme.records_left(free.into(), (units.for_tree() - free).into());
        Some(Room::new(u64::from(free) * u64::from(pages / units.count().max(1)), records, 0))
    }

    fn records_max(&self) -> Option<u64> {
        let StorePages { bytes, count } = StorePages::of(self.store());
        Some(self.common.record.most_in(count.into(), bytes))
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        self.record().check(key, value)?;
        self.shadow.ready()?;
        self.scheme.find(&mut self.shadow, key, value)
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        self.record().check(key, value)?;
        self.update(Change { key, value: Some(value) })
    }

    /// Puts a value. Only a message is made, and nothing is looked up.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), IndexError> {
        self.record().check(key, value)?;
        self.shadow.ready()?;
        self.take_in(key, Some(value))
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        self.record().check_key(key)?;
        self.update(Change { key, value: None })
    }

    /// Loads all records or none, and commits, if the tree was never used. If records were inserted and all
    /// removed, they are loaded one by one.
    fn load(&mut self, records: Records<'_, '_>) -> Result<u64, IndexError> {
        self.shadow.ready()?;
        if !self.scheme.is_empty() {
            if !holds_none(self)? {
                return Err(IndexError::Unsupported("a load needs an empty tree".into()));
            }
            let loaded = load_one_by_one(self, records)?;
            self.commit_all()?;
            return Ok(loaded);
        }
        let mut records = Ascending { records, format: self.common.record, last: Vec::new(), count: 0 };
        self.scheme.load(&mut self.shadow, &mut records)?;
        let count = records.count;
        self.shadow.updated();
        self.commit_all()?;
        Ok(count)
    }

    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        self.shadow.ready()?;
        self.scheme.range(&mut self.shadow, Tour { bounds: (low, high), direction, visit })
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        self.shadow.ready()?;
        if self.shadow.is_changed() { self.commit_all() } else { self.shadow.sync() }
    }

    fn maintain(&mut self, budget: u32) -> Result<u32, IndexError> {
        self.shadow.ready()?;
        Ok(self.shadow.store_mut().maintain(budget)?)
    }

    fn scrub(&mut self, budget: u32) -> Result<u32, IndexError> {
        self.shadow.ready()?;
        Ok(self.shadow.store_mut().scrub(budget)?)
    }

    fn close(&mut self) -> Result<(), IndexError> {
        self.sync()?;
        self.shadow.checkpoint()
    }

    fn check(&mut self) -> Result<CheckReport, IndexError> {
        self.shadow.ready()?;
        self.shadow.is_checking = true;
        let report = self.walk();
        self.shadow.is_checking = false;
        report
    }

    fn stats(&self) -> IndexStats {
        let store = self.store().stats();
        let mut figures = self.scheme.metrics();
        figures.push(("commits", self.shadow.commits));
        IndexStats {
            height: self.scheme.height(),
            live_pages: 1 + u64::from(self.shadow.units.live() * self.shadow.unit_pages()),
            cache_hits: store.cache_hits,
            cache_misses: store.cache_misses,
            collections: store.collections,
            metrics: figures.into_iter().map(|(name, value)| Metric { name, value }).collect(),
        }
    }

    fn ram_bytes(&self) -> usize {
        let pages = StorePages::of(self.store());
        let own = T::ram_bytes(&self.config, pages).unwrap_or(0) + size_of::<T>();
        self.store().ram_bytes() + own
    }
}
