//! A B+-tree on logical pages: the baseline of every comparison, and a dependable index over any
//! [`PageStore`].
//!
//! D. Comer, "The Ubiquitous B-Tree", ACM Computing Surveys 11(2), 1979. A node is a page (`page.rs` has
//! every byte). Leaves hold the records, internal nodes a lower bound and the page of each child. The store
//! below makes pages overwritable, so a node keeps its page number for life and only nodes that change are
//! written.
//!
//! - *get* reads one page per level.
//! - *insert* reads the path and writes the leaf. A full leaf is split in halves and the upper one announced
//!   to the parent, which may split in turn. The root never moves: when it splits, both halves go to new
//!   pages.
//! - *remove* writes the leaf. A leaf less than half full borrows from the neighbour below the same parent
//!   (the left one if there is one) until both are even, or merges with it when the neighbour is half full
//!   itself; the parent may underflow in turn. A root left with one child takes over the child's contents.
//! - *range* goes from leaf to leaf through the parents, whose pages it holds. Leaves are not chained: a
//!   chain in both directions would cost one more page write per split and merge, and save few reads (a
//!   parent serves all its leaves).
//!
//! An operation changes pages in RAM, takes the new pages it needs, and only then writes: one page by
//! [`PageStore::write`], several by [`PageStore::write_atomic`]. So a plain insert programs one page, a full
//! store changes nothing, and a power cut leaves the tree before or after the operation. The superblock (page
//! 0) is written once. Free pages are found at mount by reading the internal nodes.
//!
//! # Durability
//!
//! On a store that takes all pages of the largest operation atomically: *every operation* where writes are
//! durable, *every sync* where the writes that survive are a prefix. On any other store *none*: the
//! superblock's clean mark is cleared before the first change and set by sync, and without it mount answers
//! [`IndexError::NotCleanlyClosed`].
//!
//! # Invariants
//!
//! - B1 A page that is a node carries a right checksum, its own number and the mark of a node.
//! - B2 The keys of a leaf ascend strictly, and so do the bounds of an internal node from entry 1 on.
//! - B3 Keys below child i are at least bound i (for i > 0) and below bound i + 1. Bound 0 of an internal
//!   node repeats the bound that its parent has for it, so neighbours merge as they are; on the left edge of
//!   the tree, where nothing bounds the keys from below, and where nodes are expelled, it means nothing.
//! - B4 A node is at least half full, or not empty where empty nodes are expelled (leaves alone, or all), and
//!   fits its capacity; a root that is internal has two children at least. Of an odd capacity the smaller
//!   half is enough for an internal node, as it may have been split before it was too full (`least.rs`).
//! - B5 A child is one level below its parent; leaves have level 1; no tree is higher than half-full nodes
//!   make it.
//! - B6 Every page has at most one parent, and the pages in use are the superblock and those reached from the
//!   root.
//! - B7 The superblock says how the tree is laid out, under a right checksum.
//! - B8 In the class *none* the mark on the medium is not clean while changes are not synced.
//!
//! # Other rules
//!
//! A full leaf may stay whole and a node may shrink until it is empty (`rules.rs`): the WPCB-tree is this
//! tree by other rules.
//!
//! # Deviations
//!
//! An internal node holds as many bounds as children (the first unused), as all trees here do; Comer's holds
//! one less: a node of order d has d children. Insertion does not hand entries to neighbours before it
//! splits.

mod apart;
mod batch;
mod change;
mod config;
mod directory;
mod least;
mod load;
mod page;
mod placed;
mod rules;
mod staged;
#[cfg(test)]
mod tests;
mod units;
mod walk;

pub use crate::index::Fill;
pub use apart::StructureWrites;
pub(in crate::ordered) use batch::{Applied, LeafSpan, Lookup, NewLeaf, Reshaped, merge};
pub use config::{BPlusConfig, TreeRam};
pub(in crate::ordered) use directory::{Edit, Name};
pub(in crate::ordered) use page::{is_marked_clean, level_and_entries};
pub use rules::{Overflow, Underflow};
pub(in crate::ordered) use units::BPlusNodes;
pub(in crate::ordered) use walk::Walk;

use crate::check::{CheckReport, IndexError, words};
use crate::fault::IndexFault;
use crate::nand::{Cause, Differs};
use crate::ordered::change::{Change, change_one};
use crate::ordered::{
    Direction, Durability, IndexStats, Metric, OrderedIndex, RecordFormat, Records, Room, Visit,
};
use crate::store::PageStore;
use crate::store::space::Space;
use crate::units::Lpn;
use alloc::vec::Vec;
use apart::Restructured;
use change::{frame_at, trim};
use config::Above;
use core::ops::Bound;
use page::{Frame, Layout, ROOT, SUPERBLOCK};
use staged::Staged;

/// A B+-tree that owns its store.
pub struct BPlusTree<S> {
    store: S,
    layout: Layout,
    durability: Durability,
    space: Space,
    height: usize,
    /// The nodes of the last descent, root first. Longer than the tree is high after it shrank.
    path: Vec<Frame>,
    /// New nodes and neighbours of the operation in hand; the first `extra_used` are in use.
    extra: Vec<Frame>,
    extra_used: usize,
    /// Pages taken by the operation in hand.
    taken: Vec<Lpn>,
    /// Pages given up by the operation in hand.
    freed: Vec<Lpn>,
    /// How many of these are no nodes, but pages of leaves that the records name.
    leaf_pages: (usize, usize),
    /// Splits, merges and rotations of the operation in hand, where they are written apart.
    apart: Option<Vec<Restructured>>,
    /// Whether the least RAM is taken (`least.rs`).
    least: bool,
    /// The pages that the batch in hand has changed; none outside of a batch.
    staged: Option<Staged>,
    /// Whether the operation in hand left a full leaf whole.
    is_kept_whole: bool,
    /// Whether the superblock may say clean: that goes before a change.
    is_clean: bool,
    /// Whether the superblock that was written last says so: else a sync writes another.
    is_marked: bool,
    /// Whether a write failed with unknown effect: nothing is believed before the next mount.
    is_interrupted: bool,
    counts: NodeCounts,
}

#[derive(Clone, Copy, Debug, Default)]
pub(in crate::ordered) struct NodeCounts {
    /// Nodes split in halves.
    pub(in crate::ordered) splits: u64,
    /// Full leaves left whole.
    pub(in crate::ordered) overflows: u64,
    /// Nodes given up: merged, or expelled.
    pub(in crate::ordered) merges: u64,
    pub(in crate::ordered) redistributions: u64,
}

fn require(
    wanted: Durability,
    given: Durability,
    store: &impl PageStore,
    layout: &Layout,
) -> Result<(), IndexFault> {
    Ok(wanted.require(given, "a B+-tree", store, layout.group_pages_max())?)
}

impl<S: PageStore> BPlusTree<S> {
    /// Makes an empty tree; whatever the store held is dropped.
    pub fn format(mut store: S, config: BPlusConfig) -> Result<BPlusTree<S>, IndexError> {
        let layout = Layout::new(&config, store.page_bytes(), store.page_count())?;
        config.structure_writes.allow(config.durability)?;
        require(config.durability, Durability::on(&store, layout.group_pages_max()), &store, &layout)?;
        // The old superblock goes first: no cut may leave it above pages that are gone.
        store.trim(SUPERBLOCK)?;
        store.sync()?;
        for lpn in (ROOT.0..layout.page_count).map(Lpn) {
            store.trim(lpn)?;
        }
        let mut tree = BPlusTree::empty(store, layout, true, config.ram);
        tree.durability = config.durability.promised(tree.durability);
        tree.write_structure(config.structure_writes);
        let mut root = layout.frame();
        root.reset(ROOT, 1);
        root.seal();
        tree.store.write(ROOT, Cause::Checkpoint, &root.bytes)?;
        tree.store.sync()?;
        tree.path.push(root);
        tree.write_superblock(true)?;
        tree.store.sync()?;
        Ok(tree)
    }

    /// Opens the tree that a store holds.
    pub fn mount(store: S) -> Result<BPlusTree<S>, IndexError> {
        Ok(BPlusTree::open(store, false)?)
    }

    /// Opens the tree; without its clean mark too, if that is wanted and the store kept the tree whole all
    /// the same.
    pub(in crate::ordered) fn open(store: S, takes_unclean: bool) -> Result<BPlusTree<S>, IndexFault> {
        BPlusTree::open_with(store, takes_unclean, 0)
    }

    /// Opens the tree where so many pages of leaves may be written with nodes.
    pub(in crate::ordered) fn open_with(
        store: S,
        takes_unclean: bool,
        leaf_pages: usize,
    ) -> Result<BPlusTree<S>, IndexFault> {
        BPlusTree::open_if(store, TreeRam::Ample, |store, layout| {
            takes_unclean && Durability::on(store, layout.group_pages_max() + leaf_pages) > Durability::None
        })
    }

    /// Opens the tree, without its clean mark too: the store below kept it whole all the same.
    pub(in crate::ordered) fn open_whole(store: S) -> Result<BPlusTree<S>, IndexFault> {
        BPlusTree::open_if(store, TreeRam::Ample, |_, _| true)
    }

    fn open_if(
        mut store: S,
        ram: TreeRam,
        is_whole: impl FnOnce(&S, &Layout) -> bool,
    ) -> Result<BPlusTree<S>, IndexFault> {
        let mut page = alloc::vec![0; store.page_bytes()];
        store.read(SUPERBLOCK, Cause::Recovery, &mut page)?;
        if page.iter().all(|&byte| byte == 0) {
            let found = crate::store::unfit(&mut store, words("page 0 is no superblock of a B+-tree"))?;
            return Err(IndexError::NotFormatted(found).into());
        }
        let (layout, is_clean) = Layout::of_superblock(&page, store.page_count())?;
        if !is_clean && !is_whole(&store, &layout) {
            return Err(IndexError::NotCleanlyClosed.into());
        }
        drop(page);
        let mut tree = BPlusTree::empty(store, layout, is_clean, ram);
        tree.fetch(0, ROOT, None, Cause::Recovery)?;
        tree.height = tree.path[0].level();
        tree.claim_below(0, Cause::Recovery)?;
        Ok(tree)
    }

    /// Opens the tree that a store holds, and refuses one formatted with other records or capacities or
    /// giving less durability.
    pub fn mount_as(store: S, config: BPlusConfig) -> Result<BPlusTree<S>, IndexError> {
        Ok(BPlusTree::open_if(store, config.ram, |_, _| false)?.require_config(config)?)
    }

    pub(in crate::ordered) fn require_config(
        mut self,
        config: BPlusConfig,
    ) -> Result<BPlusTree<S>, IndexFault> {
        let expected = Layout::new(&config, self.layout.page_bytes, self.layout.page_count)?;
        config.structure_writes.allow(config.durability)?;
        self.write_structure(config.structure_writes);
        require(config.durability, self.durability, &self.store, &self.layout)?;
        self.durability = config.durability.promised(self.durability);
        if expected == self.layout {
            Ok(self)
        } else {
            let is_other = expected.record != self.layout.record;
            let differs = if is_other { Differs::Record } else { Differs::Settings };
            let what = words("the tree has records of other sizes or nodes of other capacities");
            Err(IndexError::other(differs, what).into())
        }
    }

    fn empty(store: S, layout: Layout, is_clean: bool, ram: TreeRam) -> BPlusTree<S> {
        let durability = Durability::on(&store, layout.group_pages_max());
        let least = ram == TreeRam::Least && least::is_possible(&layout, &store);
        let mut space = match least {
            true => least::space(&layout),
            false => Space::new(layout.page_count, !store.durable_writes()),
        };
        space.claim(SUPERBLOCK);
        space.claim(ROOT);
        BPlusTree {
            store,
            layout,
            durability,
            space,
            height: 1,
            path: Vec::new(),
            extra: Vec::new(),
            extra_used: 0,
            taken: Vec::with_capacity(layout.height_max() + 1),
            freed: Vec::with_capacity(layout.height_max() + 1),
            leaf_pages: (0, 0),
            apart: None,
            least,
            staged: None,
            is_kept_whole: false,
            is_clean,
            is_marked: is_clean,
            is_interrupted: false,
            counts: NodeCounts::default(),
        }
    }

    /// How the tree was formatted, with the capacities in use and the class it promises.
    pub fn config(&self) -> BPlusConfig {
        BPlusConfig {
            record: self.layout.record,
            leaf_capacity: Some(self.layout.leaf.capacity),
            internal_capacity: Some(self.layout.internal.capacity),
            durability: self.durability,
            overflow: self.layout.overflow,
            underflow: self.layout.underflow,
            structure_writes: match self.apart {
                Some(_) => StructureWrites::Apart,
                None => StructureWrites::Together,
            },
            ram: if self.is_least() { TreeRam::Least } else { TreeRam::Ample },
            above: self.layout.above,
        }
    }

    /// Promises the class *none* whatever the store allows, clean mark and all: for an index that keeps
    /// changes back in RAM and hands them on in another order.
    pub(in crate::ordered) fn promise_nothing(&mut self) {
        self.durability = Durability::None;
    }

    /// The durability class of the tree on its store if it keeps no changes back.
    pub(in crate::ordered) fn class_on_store(&self) -> Durability {
        self.class_with(0)
    }

    /// The class of the tree where so many pages of leaves may be written with its nodes.
    pub(in crate::ordered) fn class_with(&self, leaf_pages: usize) -> Durability {
        Durability::on(&self.store, self.layout.group_pages_max() + leaf_pages)
    }

    /// The store below.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The store below, to check it or to tell it what waits above the tree.
    pub(in crate::ordered) fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// Pages of the store when the tree was formatted.
    pub(in crate::ordered) fn pages_formatted(&self) -> u32 {
        self.layout.page_count
    }

    /// The counters of splits, merges and loans of nodes.
    pub(in crate::ordered) fn counts(&self) -> NodeCounts {
        self.counts
    }

    /// Gives the store back; what was not synced is as after a power cut.
    pub fn into_store(self) -> S {
        self.store
    }

    fn write_superblock(&mut self, is_clean: bool) -> Result<(), IndexFault> {
        let page = &mut frame_at(&mut self.extra, self.extra_used, &self.layout).bytes;
        self.layout.put_superblock(is_clean, page);
        Ok(self.store.write(SUPERBLOCK, Cause::Checkpoint, page)?)
    }

    /// Refuses to go on after a write whose effect is unknown.
    pub(in crate::ordered) fn ready(&self) -> Result<(), IndexFault> {
        if self.is_interrupted { Err(IndexError::Interrupted.into()) } else { Ok(()) }
    }

    fn sync_and_mark(&mut self) -> Result<(), IndexFault> {
        self.store.sync()?;
        let mut start = SUPERBLOCK;
        while let Some(lpn) = self.space.next_untrimmed(start) {
            trim(&mut self.store, lpn)?;
            start = lpn;
        }
        if self.is_clean && self.is_marked {
            return Ok(());
        }
        // Should the mark fail to be written, nobody knows what the medium says: no change may follow. A
        // refusal is no such thing: a mark that is refused is not there, and one that was written must go
        // before the next change, whatever the sync says.
        let written = self.write_superblock(true);
        (self.is_clean, self.is_marked) = (self.is_clean | written.is_ok(), written.is_ok());
        let marked = written.and_then(|()| Ok(self.store.sync()?));
        self.is_interrupted = marked.as_ref().is_err_and(|error| !error.is_refusal());
        marked
    }
}

impl<S: PageStore> OrderedIndex for BPlusTree<S> {
    fn record(&self) -> RecordFormat {
        self.layout.record
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        self.ready()?;
        self.layout.record.check_key(key)?;
        self.layout.record.check_value(value)?;
        let found = self.find(key)?;
        if let Ok(at) = found {
            let leaf = &self.path[self.height - 1];
            value.copy_from_slice(self.layout.leaf.value(leaf.area(), at));
        }
        Ok(found.is_ok())
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        self.ready()?;
        self.layout.record.check_key(key)?;
        self.layout.record.check_value(value)?;
        if self.is_least() {
            return Ok(self.insert_least(key, value)?);
        }
        let found = self.find(key)?;
        let edit = match found {
            Ok(at) => {
                self.overwrite(at, value);
                Ok(())
            }
            Err(at) => self.add(at, key, value),
        };
        self.finish(edit)?;
        Ok(found.is_ok())
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        self.ready()?;
        self.layout.record.check_key(key)?;
        if self.is_least() {
            return Ok(self.remove_least(key)?);
        }
        let Ok(at) = self.find(key)? else { return Ok(false) };
        let edit = self.take(at);
        self.finish(edit)?;
        Ok(true)
    }

    fn batch_max(&self) -> usize {
        self.changes_max()
    }

    fn apply(&mut self, batch: &[Change<'_>]) -> Result<(), IndexError> {
        match batch {
            [one] => change_one(self, *one),
            _ => Ok(self.apply_all(batch)?),
        }
    }

    /// All of it is the store's.
    fn maintain(&mut self, budget: u32) -> Result<u32, IndexError> {
        self.ready()?;
        Ok(self.store.maintain(budget)?)
    }

    fn scrub(&mut self, budget: u32) -> Result<u32, IndexError> {
        self.ready()?;
        Ok(self.store.scrub(budget)?)
    }

    fn free(&self) -> Option<Room> {
        Some(self.room())
    }

    fn load(&mut self, records: Records<'_, '_>) -> Result<u64, IndexError> {
        if self.is_least() { Ok(self.load_least(records)?) } else { self.bulk_load(records, Fill::FULL) }
    }

    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        Ok(self.walk_leaves((low, high), direction, &mut |_, leaf| leaf.visit_records(direction, visit))?)
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        self.ready()?;
        Ok(self.sync_and_mark()?)
    }

    fn close(&mut self) -> Result<(), IndexError> {
        self.sync()?;
        Ok(self.store.checkpoint()?)
    }

    fn check(&mut self) -> Result<CheckReport, IndexError> {
        self.ready()?;
        Ok(self.check_all()?)
    }

    fn stats(&self) -> IndexStats {
        let metric = |name, value| Metric { name, value };
        let store = self.store.stats();
        let log_blocks = (store.log_blocks > 0).then(|| metric("log_blocks", store.log_blocks));
        let mut stats = IndexStats {
            height: self.height as u32,
            live_pages: u64::from(self.space.used_pages()),
            cache_hits: store.cache_hits,
            cache_misses: store.cache_misses,
            collections: store.collections,
            metrics: alloc::vec![
                metric("free_pages", u64::from(self.space.free_pages())),
                metric("splits", self.counts.splits),
                metric("merges", self.counts.merges),
                metric("redistributions", self.counts.redistributions),
                metric("relocations", store.moved_pages),
            ],
        };
        stats.metrics.extend(log_blocks);
        stats
    }

    fn ram_bytes(&self) -> usize {
        let frames = self.path.iter().filter(|frame| !frame.is_lent()).count() + self.extra.len();
        let lists = self.taken.capacity() + self.freed.capacity();
        self.store.ram_bytes()
            + self.space.held_bytes()
            + frames * (self.layout.page_bytes + size_of::<Frame>())
            + lists * size_of::<Lpn>()
            + self.apart.as_ref().map_or(0, |changes| changes.capacity() * size_of::<Restructured>())
    }
}
