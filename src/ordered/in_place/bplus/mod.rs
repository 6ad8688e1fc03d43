//! A B+-tree on logical pages: the baseline of every comparison, and a dependable index over any
//! [`PageStore`].
//!
//! D. Comer, "The Ubiquitous B-Tree", ACM Computing Surveys 11(2), 1979. A node is a page (`page.rs` has
//! every byte). Leaves hold the records, internal nodes a lower bound and the page of each child. The store
//! below makes pages overwritable. So a node keeps its page number for life, and only nodes that change are
//! written.
//!
//! - *get* reads one page per level.
//! - *insert* reads the path and writes the leaf. A full leaf is split in halves, and the parent gets an
//!   entry for the upper half; the parent may split in turn. The root never moves: when it splits, both
//!   halves go to new pages.
//! - *remove* writes the leaf. A leaf less than half full borrows from a neighbour below the same parent (the
//!   left one if there is one) until both are even. If the neighbour is only half full itself, the two merge,
//!   and the parent may underflow in turn. A root with one child takes over the contents of the child.
//! - *range* goes from leaf to leaf through the parents, whose pages it holds. Leaves are not chained: a
//!   chain in both directions would cost one more page write per split and merge, and would save few reads,
//!   since a parent leads to all its leaves.
//!
//! An operation changes pages in RAM, takes the new pages it needs, and only then writes: one page by
//! [`PageStore::write`], several by [`PageStore::write_atomic`]. So a plain insert programs one page, a full
//! store changes nothing, and a power cut leaves the tree as before or as after the operation. The superblock
//! (page 0) is written once. A mount finds the free pages by reading the internal nodes.
//!
//! # Durability
//!
//! On a store that takes all pages of the largest operation atomically the class is *every operation* if
//! writes are durable, and *every sync* if the writes that survive are a prefix. On any other store it is
//! *none*: the clean mark of the superblock is cleared before the first change and set by a sync. Without the
//! mark a mount returns [`IndexError::NotCleanlyClosed`].
//!
//! # Invariants
//!
//! - B1 A page that is a node has a right checksum, its own number and the mark of a node.
//! - B2 The keys of a leaf ascend strictly, and so do the bounds of an internal node from entry 1 on.
//! - B3 Keys below child i are at least bound i (for i > 0) and below bound i + 1. Bound 0 of an internal
//!   node repeats the bound that its parent has for it, so that neighbours can merge unchanged. Bound 0 has
//!   no meaning on the left edge of the tree, where nothing bounds the keys from below, and in trees that
//!   expel nodes.
//! - B4 A node is at least half full, or not empty if empty nodes are expelled (leaves alone, or all), and
//!   has at most as many entries as its capacity. A root that is internal has at least two children. If the
//!   capacity is odd, the smaller half is enough for an internal node, since it may have been split before it
//!   was too full (`least.rs`).
//! - B5 A child is one level below its parent; leaves have level 1; no tree is higher than one of half-full
//!   nodes.
//! - B6 Every page has at most one parent. The pages in use are the superblock and the pages reached from the
//!   root.
//! - B7 The superblock describes the layout of the tree, under a right checksum.
//! - B8 In the class *none* the mark on the medium is not clean while changes are not synced.
//!
//! # Parts
//!
//! | part | owns | file |
//! |---|---|---|
//! | `Nodes` | the nodes in RAM, layout and height | `nodes.rs` |
//! | `Pages` | the pages in use, those taken and those given up | `pages.rs` |
//! | `Mark` | the durability class and the clean mark | `mark.rs` |
//!
//! An operation is a `Work`: these parts and the store behind `dyn`, so that one body of code serves every
//! store. [`BPlusTree`] is a thin shell around it.
//!
//! # Other rules
//!
//! A full leaf may stay whole, and a node may shrink until it is empty (`rules.rs`): the WPCB-tree is this
//! tree with other rules.
//!
//! # Deviations
//!
//! An internal node holds as many bounds as children (the first is unused), as in all trees here. Comer's
//! holds one bound less: a node of order d has d children. An insertion does not move entries to neighbours
//! before it splits.

mod apart;
mod batch;
mod change;
mod check;
mod config;
mod directory;
mod least;
mod load;
mod mark;
mod nodes;
mod page;
mod pages;
mod placed;
mod read;
mod rules;
mod staged;
#[cfg(test)]
mod tests;
mod walk;
mod write;

pub use crate::index::Fill;
pub use apart::StructureWrites;
pub use config::{BPlusConfig, TreeRam};
pub use rules::{Overflow, Underflow};

/// Parts on which other trees are built.
#[cfg(feature = "unstable")]
pub mod ground {
    pub use super::batch::{Applied, LeafSpan, Lookup, NewLeaf, Reshaped, merge};
    pub use super::check::Walk;
    pub use super::directory::{Edit, Name};
    pub use super::page::{
        CHILD_BYTES, Frame, HEADER_BYTES, Layout, is_marked_clean, level_and_entries, put_head,
    };
}

use crate::check::{CheckReport, IndexError, words};
use crate::fault::IndexFault;
use crate::forward_store;
use crate::nand::{Cause, Differs};
use crate::ordered::change::{Change, change_one};
use crate::ordered::{
    Direction, Durability, IndexStats, Metric, OrderedIndex, RecordFormat, Records, Room, Visit,
};
use crate::store::space::Space;
use crate::store::{PageStore, StoreStats};
use crate::units::Lpn;
use alloc::vec::Vec;
use apart::Restructured;
use config::Above;
use core::ops::Bound;
use mark::Mark;
use nodes::Nodes;
use page::{Layout, ROOT, SUPERBLOCK};
use pages::Pages;
use staged::Staged;

/// A B+-tree that owns its store.
///
/// ```
/// use nandex::store::ram::RamStore;
/// use nandex::{BPlusConfig, BPlusTree, OrderedIndex, RecordFormat};
///
/// let config = BPlusConfig::new(RecordFormat::new(2, 4)).with_order(20);
/// let mut tree = BPlusTree::format(RamStore::new(512, 100), &config)?;
/// tree.insert(&[0, 7], &[1; 4])?;
/// tree.close()?;
/// let mut tree = BPlusTree::mount(tree.into_store(), &config)?;
/// assert!(tree.get(&[0, 7], &mut [0; 4])?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BPlusTree<S> {
    store: Below<S>,
    core: Core,
}

/// Store as operations call it. Upkeep and numbers are asked of the store inside: here they would be linked
/// into every program, called or not.
struct Below<S>(S);

impl<S: PageStore> PageStore for Below<S> {
    forward_store!(self => self.0;
        page_bytes page_count read write trim sync atomic_pages_max write_atomic begin_batch end_batch
        durable_writes prefix_consistent keeps_updates);

    fn ram_bytes(&self) -> usize {
        0
    }
}

/// The tree without its store: three parts that own their fields, [`Nodes`], [`Pages`] and [`Mark`].
struct Core {
    nodes: Nodes,
    pages: Pages,
    mark: Mark,
    /// Splits, merges and rotations of the current operation, if they are written apart.
    apart: Option<Vec<Restructured>>,
    /// True if the tree takes the least RAM (`least.rs`).
    least: bool,
    /// Pages that the current batch has changed. `None` outside a batch.
    staged: Option<Staged>,
    /// True if the current operation left a full leaf whole.
    is_kept_whole: bool,
    counts: NodeCounts,
}

/// Operation under way: the tree, and its store behind `dyn` so that the code is compiled once.
struct Work<'a> {
    store: &'a mut dyn PageStore,
    core: &'a mut Core,
}

/// Numbers of changes of structure since the tree was opened.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(not(feature = "unstable"), doc(hidden))]
pub struct NodeCounts {
    /// Nodes split in halves.
    pub splits: u64,
    /// Full leaves left whole.
    pub overflows: u64,
    /// Nodes removed: merged or expelled.
    pub merges: u64,
    /// Pairs of neighbours that divided their entries again.
    pub(crate) redistributions: u64,
}

impl Core {
    fn new(store: &dyn PageStore, layout: Layout, is_clean: bool, ram: TreeRam) -> Core {
        let least = ram == TreeRam::Least && least::is_possible(&layout, store);
        let space = match least {
            true => least::space(&layout),
            false => Space::new(layout.page_count, !store.durable_writes()),
        };
        Core {
            nodes: Nodes::new(layout),
            pages: Pages::new(space, &layout),
            mark: Mark::new(Durability::on(store, layout.group_pages_max()), is_clean),
            apart: None,
            least,
            staged: None,
            is_kept_whole: false,
            counts: NodeCounts::default(),
        }
    }

    /// An empty tree; whatever the store held is dropped.
    fn format(store: &mut dyn PageStore, config: BPlusConfig) -> Result<Core, IndexFault> {
        let layout = Layout::new(&config, store.page_bytes(), store.page_count())?;
        config.structure_writes.allow(config.durability)?;
        require(config.durability, Durability::on(store, layout.group_pages_max()), store, &layout)?;
        // The old superblock goes first: no cut may leave it above pages that are gone.
        store.trim(SUPERBLOCK)?;
        store.sync()?;
        for lpn in (ROOT.0..layout.page_count).map(Lpn) {
            store.trim(lpn)?;
        }
        let mut core = Core::new(store, layout, true, config.ram);
        core.mark.durability = config.durability.promised(core.mark.durability);
        core.write_structure(config.structure_writes);
        let mut root = layout.frame();
        root.reset(ROOT, 1);
        root.seal();
        store.write(ROOT, Cause::Checkpoint, &root.bytes)?;
        store.sync()?;
        core.nodes.path.push(root);
        Work { store, core: &mut core }.write_superblock(true)?;
        store.sync()?;
        Ok(core)
    }

    fn open(
        store: &mut dyn PageStore,
        ram: TreeRam,
        is_whole: &dyn Fn(&dyn PageStore, &Layout) -> bool,
    ) -> Result<Core, IndexFault> {
        let mut page = alloc::vec![0; store.page_bytes()];
        store.read(SUPERBLOCK, Cause::Recovery, &mut page)?;
        if page.iter().all(|&byte| byte == 0) {
            let found = crate::store::unfit(store, words("page 0 is no superblock of a B+-tree"))?;
            return Err(IndexError::NotFormatted(found).into());
        }
        let (layout, is_clean) = Layout::of_superblock(&page, store.page_count())?;
        if !is_clean && !is_whole(store, &layout) {
            return Err(IndexError::NotCleanlyClosed.into());
        }
        drop(page);
        let mut core = Core::new(store, layout, is_clean, ram);
        let mut work = Work { store, core: &mut core };
        work.fetch(0, ROOT, None, Cause::Recovery)?;
        work.core.nodes.height = work.core.nodes.path[0].level();
        work.claim_below(0, Cause::Recovery)?;
        Ok(core)
    }

    /// Refuses a tree that was formatted with other records or capacities, or that gives less durability.
    fn require_config(&mut self, store: &dyn PageStore, config: BPlusConfig) -> Result<(), IndexFault> {
        let layout = self.nodes.layout;
        let expected = Layout::new(&config, layout.page_bytes, layout.page_count)?;
        config.structure_writes.allow(config.durability)?;
        self.write_structure(config.structure_writes);
        require(config.durability, self.mark.durability, store, &layout)?;
        self.mark.durability = config.durability.promised(self.mark.durability);
        if expected == layout {
            return Ok(());
        }
        let is_other = expected.record != layout.record;
        let differs = if is_other { Differs::Record } else { Differs::Settings };
        let found = words("the tree has records of other sizes or nodes of other capacities");
        Err(IndexError::other(differs, found).into())
    }

    fn stats(&self, store: &StoreStats) -> IndexStats {
        let metric = |name, value| Metric { name, value };
        let counts = &self.counts;
        let log_blocks = (store.log_blocks > 0).then(|| metric("log_blocks", store.log_blocks));
        let space = &self.pages.space;
        let mut stats = IndexStats {
            height: self.nodes.height as u32,
            live_pages: u64::from(space.used_pages()),
            cache_hits: store.cache_hits,
            cache_misses: store.cache_misses,
            collections: store.collections,
            metrics: alloc::vec![
                metric("free_pages", u64::from(space.free_pages())),
                metric("splits", counts.splits),
                metric("merges", counts.merges),
                metric("redistributions", counts.redistributions),
                metric("relocations", store.moved_pages),
            ],
        };
        stats.metrics.extend(log_blocks);
        stats
    }
}

fn require(
    wanted: Durability,
    given: Durability,
    store: &dyn PageStore,
    layout: &Layout,
) -> Result<(), IndexFault> {
    Ok(wanted.require(given, "a B+-tree", store, layout.group_pages_max())?)
}

impl<S: PageStore> BPlusTree<S> {
    /// Makes an empty tree; whatever the store held is dropped.
    pub fn format(store: S, config: &BPlusConfig) -> Result<BPlusTree<S>, IndexError> {
        let mut store = Below(store);
        let core = Core::format(&mut store, *config)?;
        Ok(BPlusTree { store, core })
    }

    /// Opens the tree that a store holds, however it was formatted ([`BPlusTree::config`] tells).
    pub fn mount_found(store: S) -> Result<BPlusTree<S>, IndexError> {
        Ok(BPlusTree::open(store, false)?)
    }

    /// Opens the tree; without its clean mark too, if that is wanted and the store kept the tree whole all
    /// the same.
    #[doc(hidden)]
    pub fn open(store: S, takes_unclean: bool) -> Result<BPlusTree<S>, IndexFault> {
        BPlusTree::open_with(store, takes_unclean, 0)
    }

    /// Opens the tree. At most `leaf_pages` pages of leaves are written in one operation with nodes.
    #[doc(hidden)]
    pub fn open_with(store: S, takes_unclean: bool, leaf_pages: usize) -> Result<BPlusTree<S>, IndexFault> {
        BPlusTree::open_if(store, TreeRam::Ample, &|store, layout| {
            takes_unclean && Durability::on(store, layout.group_pages_max() + leaf_pages) > Durability::None
        })
    }

    /// Opens the tree even without its clean mark: the store below kept it whole.
    #[doc(hidden)]
    pub fn open_whole(store: S) -> Result<BPlusTree<S>, IndexFault> {
        BPlusTree::open_if(store, TreeRam::Ample, &|_, _| true)
    }

    fn open_if(
        store: S,
        ram: TreeRam,
        is_whole: &dyn Fn(&dyn PageStore, &Layout) -> bool,
    ) -> Result<BPlusTree<S>, IndexFault> {
        let mut store = Below(store);
        let core = Core::open(&mut store, ram, is_whole)?;
        Ok(BPlusTree { store, core })
    }

    /// Opens the tree that a store holds, and refuses one formatted with other records or capacities or
    /// giving less durability.
    pub fn mount(store: S, config: &BPlusConfig) -> Result<BPlusTree<S>, IndexError> {
        Ok(BPlusTree::open_if(store, config.ram, &|_, _| false)?.require_config(*config)?)
    }

    /// Refuses a tree that was formatted with other records or capacities, or that gives less durability.
    #[doc(hidden)]
    pub fn require_config(mut self, config: BPlusConfig) -> Result<BPlusTree<S>, IndexFault> {
        self.core.require_config(&self.store, config)?;
        Ok(self)
    }

    fn work(&mut self) -> Work<'_> {
        Work { store: &mut self.store, core: &mut self.core }
    }

    /// Configuration of the tree, with the capacities in use and the durability class it promises.
    pub fn config(&self) -> BPlusConfig {
        let layout = &self.core.nodes.layout;
        BPlusConfig {
            record: layout.record,
            leaf_capacity: Some(layout.leaf.capacity),
            internal_capacity: Some(layout.internal.capacity),
            durability: self.core.mark.durability,
            overflow: layout.overflow,
            underflow: layout.underflow,
            structure_writes: match self.core.apart {
                Some(_) => StructureWrites::Apart,
                None => StructureWrites::Together,
            },
            ram: if self.core.is_least() { TreeRam::Least } else { TreeRam::Ample },
            above: layout.above,
        }
    }

    /// Promises only the class *none*, whatever the store allows, and with the clean mark. This is for an
    /// index that keeps changes in RAM and hands them on in another order.
    #[doc(hidden)]
    pub fn promise_nothing(&mut self) {
        self.core.mark.durability = Durability::None;
    }

    /// Durability class of the tree on its store if it keeps no changes in RAM.
    #[doc(hidden)]
    pub fn class_on_store(&self) -> Durability {
        self.class_with(0)
    }

    /// Durability class of the tree if `leaf_pages` pages of leaves may be written with its nodes.
    #[doc(hidden)]
    pub fn class_with(&self, leaf_pages: usize) -> Durability {
        Durability::on(&self.store, self.core.nodes.layout.group_pages_max() + leaf_pages)
    }

    /// Returns the store below.
    pub fn store(&self) -> &S {
        &self.store.0
    }

    /// Returns the store below, to check it or to tell it which changes wait above the tree.
    #[doc(hidden)]
    pub fn store_mut(&mut self) -> &mut S {
        &mut self.store.0
    }

    /// Number of pages of the store when the tree was formatted.
    #[doc(hidden)]
    pub fn pages_formatted(&self) -> u32 {
        self.core.nodes.layout.page_count
    }

    /// Returns the counters of splits, merges and redistributions.
    #[doc(hidden)]
    pub fn counts(&self) -> NodeCounts {
        self.core.counts
    }

    /// Gives the store back. Changes not synced are as after a power cut.
    pub fn into_store(self) -> S {
        self.store.0
    }

    /// Returns an error after a write whose effect is unknown.
    #[doc(hidden)]
    pub fn ready(&self) -> Result<(), IndexFault> {
        self.core.mark.ready()
    }
}

impl Work<'_> {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexFault> {
        self.core.mark.ready()?;
        self.core.nodes.layout.record.check(key, value)?;
        if self.core.is_least() {
            return self.insert_least(key, value);
        }
        let found = self.find(key)?;
        let edit = match found {
            Ok(at) => {
                self.core.nodes.overwrite(at, value);
                Ok(())
            }
            Err(at) => self.core.add(at, key, value),
        };
        self.finish(edit)?;
        Ok(found.is_ok())
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexFault> {
        self.core.mark.ready()?;
        self.core.nodes.layout.record.check_key(key)?;
        if self.core.is_least() {
            return self.remove_least(key);
        }
        let Ok(at) = self.find(key)? else { return Ok(false) };
        let edit = self.take(at);
        self.finish(edit)?;
        Ok(true)
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexFault> {
        self.core.mark.ready()?;
        self.core.nodes.layout.record.check(key, value)?;
        let Ok(at) = self.find(key)? else { return Ok(false) };
        let nodes = &self.core.nodes;
        value.copy_from_slice(nodes.layout.leaf.value(nodes.leaf().area(), at));
        Ok(true)
    }
}

impl<S: PageStore> OrderedIndex for BPlusTree<S> {
    fn record(&self) -> RecordFormat {
        self.core.nodes.layout.record
    }

    fn durability(&self) -> Durability {
        self.core.mark.durability
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        Ok(self.work().get(key, value)?)
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        Ok(self.work().insert(key, value)?)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        Ok(self.work().remove(key)?)
    }

    fn batch_max(&self) -> usize {
        self.core.changes_max(&self.store)
    }

    fn apply(&mut self, batch: &[Change<'_>]) -> Result<(), IndexError> {
        match batch {
            [one] => change_one(self, *one),
            _ => Ok(self.work().apply_all(batch)?),
        }
    }

    /// Leaves all maintenance to the store.
    fn maintain(&mut self, budget: u32) -> Result<u32, IndexError> {
        self.ready()?;
        Ok(self.store.0.maintain(budget)?)
    }

    fn scrub(&mut self, budget: u32) -> Result<u32, IndexError> {
        self.ready()?;
        Ok(self.store.0.scrub(budget)?)
    }

    fn free(&self) -> Option<Room> {
        Some(self.core.pages.room(&self.core.nodes, 0))
    }

    fn records_max(&self) -> Option<u64> {
        Some(self.core.nodes.layout.records_max())
    }

    fn load(&mut self, records: Records<'_, '_>) -> Result<u64, IndexError> {
        match self.core.is_least() {
            true => Ok(self.work().load_least(records)?),
            false => self.bulk_load(records, Fill::FULL),
        }
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
        Ok(self.work().sync_and_mark()?)
    }

    fn close(&mut self) -> Result<(), IndexError> {
        self.sync()?;
        Ok(self.store.0.checkpoint()?)
    }

    fn check(&mut self) -> Result<CheckReport, IndexError> {
        self.ready()?;
        Ok(self.work().check_all()?)
    }

    fn stats(&self) -> IndexStats {
        self.core.stats(&self.store.0.stats())
    }

    fn ram_bytes(&self) -> usize {
        let apart =
            self.core.apart.as_ref().map_or(0, |changes| changes.capacity() * size_of::<Restructured>());
        self.store.0.ram_bytes() + self.core.pages.held_bytes() + self.core.nodes.held_bytes() + apart
    }
}
