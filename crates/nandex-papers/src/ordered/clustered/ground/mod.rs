//! Trees that gather modified nodes in RAM and write many of them together, out of place: AS B-tree, CB-tree
//! and FB-tree.
//!
//! All three share an idea. Random writes of single nodes are the most expensive work for a flash device. So
//! they keep the B-tree as it is, gather modified nodes in a *batch*, and write the batch to consecutive
//! pages. The tree is the [`BPlusTree`] of this crate over a *cluster layer* (`layer.rs`): a [`PageStore`]
//! whose pages are nodes, and which knows the page of each. The three trees differ in which nodes leave the
//! batch, where they go, and how a node is found again:
//!
//! | | leaves the batch | goes | found by |
//! |---|---|---|---|
//! | [`as_btree`](super::as_btree) | all, when W wait | to the end of a ring of segments | a table, 4 bytes a
//! node |
//! | [`cb_tree`](super::cb_tree) | a level, when W of it wait | to a run of W free pages | its parent |
//! | [`fb_tree`](super::fb_tree) | the s used least recently, when W wait | to runs of free pages, s_min or
//! more | its parent |
//!
//! # Operations
//!
//! Before an operation that may change nodes, the layer makes room (`relieve`): it writes the nodes that its
//! policy chooses. Then the tree works as usual. Its writes go to the batch; its reads come from the batch or
//! the store. *sync* writes everything. If nodes are found by their parents (`links.rs`), the number of a
//! node is its page; after `relieve` and *sync* the tree is told the changed numbers. *load* bypasses the
//! batch then, page by page from the first.
//!
//! # Durability
//!
//! As published, the waiting nodes are lost in a power cut: the class is *none*, with the clean mark of the
//! tree. Still, the tree on the medium is whole at any time, on every store, even without atomic groups. With
//! a table (`ring.rs`, `replay.rs`) a batch is a complete state of the tree and counts once all its pages are
//! there. Without a table (`links.rs`) a state counts once a superblock names its root. Pages of the last
//! durable state are neither trimmed nor overwritten before the next one is durable. So
//! [`Buffered::mount_after_cut`] opens the tree after a cut, and an update
//! [`journal`](crate::ordered::journal) makes every operation or every sync durable.
//!
//! # Invariants
//!
//! Those of the tree (B1 to B8), and:
//!
//! - C1 Both superblocks are sound, and the newer one was written last.
//! - C2 Every page written by a batch is sound, and the pages of an extent follow its header.
//! - C3 A mount would find the state that the table and the ring have in RAM.
//! - C4 The pages in use are those named by the table or by parents, each by one node. With a table each page
//!   has the node's number.
//! - C5 No node is on a page that the head of the ring will pass next, and a batch always finds room there.
//! - C6 If parents name pages, a node waits together with its parent, and no page in use is given to another
//!   node. There are always free pages for all waiting nodes.
//! - C7 Pages of the last durable state are not free.

mod batch;
mod extent;
mod layer;
mod links;
mod pages;
mod replay;
mod ring;
mod settings;
mod superblock;
mod table;
#[cfg(test)]
mod tests;

pub use layer::{ClusterCounts, Layer};
pub use settings::{ClusteredConfig, FlushPolicy};

use crate::ordered::journal::Buffered;
use alloc::vec;
use core::ops::Bound;
use nandex::check::{CheckReport, IndexError};
use nandex::fault::IndexFault;
use nandex::nand::Cause;
use nandex::ordered::bplus::ground::is_marked_clean;
use nandex::ordered::bplus::{BPlusConfig, BPlusTree};
use nandex::ordered::{
    Direction, Durability, IndexStats, Metric, OrderedIndex, RecordFormat, Records, Room, Visit,
};
use nandex::store::PageStore;
use nandex::units::Lpn;

/// Waiting updates of one node, as an estimate for the size of a journal.
const UPDATES_OF_A_NODE: u64 = 8;

/// A B+-tree over a cluster layer.
pub struct ClusteredTree<S> {
    tree: BPlusTree<Layer<S>>,
    class_below: Durability,
}

impl<S: PageStore> ClusteredTree<S> {
    /// Makes an empty index, and drops everything that the store held.
    pub fn format(store: S, config: &ClusteredConfig) -> Result<ClusteredTree<S>, IndexError> {
        let class_below = Durability::on(&store, 1);
        let layer = Layer::format(store, config)?;
        Ok(ClusteredTree::above(BPlusTree::format(layer, &config.tree)?, class_below))
    }

    /// Opens the index that a store holds. It must have been synced after its last change.
    pub fn mount(store: S, config: &ClusteredConfig) -> Result<ClusteredTree<S>, IndexError> {
        ClusteredTree::open(store, *config, false)
    }

    /// Opens the index that a power cut left, on any store: the state at the last sync, or a later one.
    #[doc(hidden)]
    pub fn mount_after_cut(store: S, config: &ClusteredConfig) -> Result<ClusteredTree<S>, IndexError> {
        ClusteredTree::open(store, *config, true)
    }

    fn open(store: S, config: ClusteredConfig, takes_unclean: bool) -> Result<ClusteredTree<S>, IndexError> {
        let class_below = Durability::on(&store, 1);
        let mut layer = Layer::mount(store, &config)?;
        let mut page = vec![0; layer.page_bytes()];
        layer.read(Lpn(0), Cause::Recovery, &mut page)?;
        if !takes_unclean && is_marked_clean(&page) == Some(false) {
            return Err(IndexError::NotCleanlyClosed);
        }
        let tree = if takes_unclean {
            BPlusTree::open_whole(layer)
        } else {
            BPlusTree::mount_found(layer).map_err(IndexFault::from)
        };
        let tree = tree.map_err(|fault| fault.into_inner().in_layer())?;
        let mut index = ClusteredTree::above(tree.require_config(config.tree)?, class_below);
        index.tree.with_store(|layer, is_used| layer.adopt(is_used))?;
        Ok(index)
    }

    fn above(mut tree: BPlusTree<Layer<S>>, class_below: Durability) -> ClusteredTree<S> {
        tree.promise_nothing();
        tree.pages_mut().trim_at_once();
        debug_assert_eq!(tree.durability(), Durability::None, "nodes wait in RAM");
        ClusteredTree { tree, class_below }
    }

    /// The layer below the tree.
    pub fn layer(&self) -> &Layer<S> {
        self.tree.store()
    }

    /// The settings of the tree.
    pub fn tree_config(&self) -> BPlusConfig {
        self.tree.config()
    }

    /// Takes the index apart and returns the store. Changes that were not synced are lost as in a power
    /// cut.
    pub fn into_store(self) -> S {
        self.tree.into_store().into_store()
    }

    fn ready(&self) -> Result<(), IndexError> {
        self.layer().ready().map_err(|_| IndexError::Interrupted)
    }

    /// Runs an action on the layer between two operations. Then tells the tree which nodes have new
    /// numbers.
    fn between<T>(&mut self, act: impl FnOnce(&mut Self) -> Result<T, IndexError>) -> Result<T, IndexError> {
        self.ready()?;
        let done = act(self);
        let moved = self.tree.with_store(|layer, _| core::mem::take(&mut layer.links.moved));
        self.tree.pages_mut().renumber(&moved);
        done
    }

    fn relieve(&mut self) -> Result<(), IndexError> {
        self.between(|index| Ok(index.tree.with_store(|layer, _| layer.relieve())?))
    }
}

impl<S: PageStore> Buffered<S> for ClusteredTree<S> {
    crate::ordered::journal::opens_published!(ClusteredTree, ClusteredConfig);

    fn record_of(config: &ClusteredConfig) -> RecordFormat {
        config.tree.record
    }

    fn waiting_updates_max(config: &ClusteredConfig) -> u64 {
        u64::from(config.batch_nodes_most()) * UPDATES_OF_A_NODE
    }

    fn class_below(&self) -> Durability {
        self.class_below
    }
}

impl<S: PageStore> OrderedIndex for ClusteredTree<S> {
    fn durability(&self) -> Durability {
        Durability::None
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        self.ready()?;
        self.tree.get(key, value)
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        self.relieve()?;
        self.tree.insert(key, value)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        self.relieve()?;
        self.tree.remove(key)
    }

    fn load(&mut self, records: Records<'_, '_>) -> Result<u64, IndexError> {
        self.relieve()?;
        let root = self.between(|index| Ok(index.tree.with_store(|layer, _| layer.begin_load())?))?;
        // Where the root has a page that the tree does not know of, no node may be loaded there.
        let withheld = root.filter(|root| self.tree.pages_mut().withhold(*root));
        let loaded = self.tree.load(records);
        if let Some(root) = withheld {
            self.tree.pages_mut().let_go(root);
        }
        self.tree.with_store(|layer, _| layer.is_loading = false);
        loaded
    }

    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        self.ready()?;
        self.tree.range(low, high, direction, visit)
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        self.between(|index| index.tree.sync())
    }

    fn close(&mut self) -> Result<(), IndexError> {
        self.between(|index| index.tree.close())
    }

    fn check(&mut self) -> Result<CheckReport, IndexError> {
        self.ready()?;
        let mut report = self.tree.check()?;
        self.tree.with_store(|layer, is_used| layer.check(&mut report, is_used))?;
        Ok(report)
    }

    fn stats(&self) -> IndexStats {
        let (mut stats, layer) = (self.tree.stats(), self.tree.store());
        let counts = layer.counts();
        stats.live_pages = u64::from(layer.live_pages()) + u64::from(superblock::SLOTS);
        let figures = [
            ("waiting_nodes", layer.waiting_nodes() as u64),
            ("flushes", counts.flushes),
            ("flushed_nodes", counts.flushed_nodes),
            ("header_pages", counts.header_pages),
            ("runs", counts.runs),
            ("checkpoints", counts.checkpoints),
            ("checkpoint_pages", counts.checkpoint_pages),
            ("recycled_segments", counts.recycled_segments),
            ("copied_nodes", counts.copied_nodes),
        ];
        stats.metrics.extend(figures.map(|(name, value)| Metric { name, value }));
        stats
    }

    nandex::forward_index!(tree: maintain, scrub, records_max, record, ram_bytes);

    fn free(&self) -> Option<Room> {
        Some(self.tree.room_without(self.layer().withheld_pages()))
    }
}
