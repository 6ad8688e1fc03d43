//! The buffered B-tree layers: BFTL, WOBF, IBSF, BOF, RBFTL and FlashDB as one tree over one node layer, each
//! a page of settings.
//!
//! All six say the same: leave the B-tree as it is, and put a layer between it and the flash that keeps the
//! changes of nodes as small *index units* in RAM and writes them together. The tree is the [`BPlusTree`] of
//! this crate, the layer is [`NodeLayer`](crate::unit_layer); what tells the six apart is which units a full
//! buffer commits, and where to:
//!
//! | | commits | units of a node lie | list | meets |
//! |---|---|---|---|---|
//! | [`bftl`](super::bftl) | all, first fit | in up to C sectors among others | C | |
//! | [`wobf`](super::wobf) | all, sorted, with all that older sectors have | in one sector or across two | 2 | yes |
//! | [`ibsf`](super::ibsf) | the node of the oldest unit | in the node's own page | | yes |
//! | [`bof`](super::bof) | the same | the same | | |
//! | [`rbftl`](super::rbftl) | the same, with a journal | the same | | yes |
//! | [`flashdb`](super::flashdb) | all, first fit; a node in disk mode is written at once | in up to C sectors among others, or in the node's own | C | |
//!
//! *Meets*: a unit that finds another for the same entry waiting leaves one or none of them.
//!
//! # Operations
//!
//! The tree's own, for each node that it reads: the sectors of the node's list, or its page, and the units
//! that wait. *sync* commits everything; *range* walks the tree as any does, so it sees what waits.
//!
//! # Durability
//!
//! As published the units that wait are lost at a power cut: the class is *none*, with the clean mark of the
//! tree. In all of them the tree on the medium is whole at any time nonetheless: a commit to shared sectors
//! is atomic on every store, and in place the nodes of a structural change are written as one atomic group.
//! So [`Buffered::mount_after_cut`] opens what a cut left, and an update [`journal`](crate::ordered::journal)
//! makes every operation or every sync durable.
//!
//! # Invariants
//!
//! Those of the tree (B1 to B8) and of the layer ([`unit_layer`](crate::unit_layer), N1 to N8).
//!
//! # What all share that no paper says
//!
//! - A node's bytes are the tree's; the layer compares the image that the tree writes with the one it read. A
//!   split thus becomes units that insert the moved entries into the new node and delete them from the old
//!   one, as in BFTL.
//! - An operation with more units than the buffer holds, such as most splits, is committed at once, all or
//!   nothing.
//! - What the tree's answer needs is read: an insertion looks into the leaf.

#[cfg(test)]
mod tests;

use crate::ordered::bplus_nodes::BPlusNodes;
use crate::ordered::journal::Buffered;
use crate::ordered::pooled::require_none;
use crate::unit_layer::{CommitPolicy, LayerConfig, NodeCodec, NodeLayer, Tuning};
use alloc::vec;
use nandex::check::{CheckReport, IndexError};
use nandex::fault::IndexFault;
use nandex::nand::Cause;
use nandex::ordered::bplus::ground::is_marked_clean;
use nandex::ordered::bplus::{BPlusConfig, BPlusTree};
use nandex::ordered::{Durability, IndexStats, Metric, OrderedIndex, RecordFormat};
use nandex::store::PageStore;
use nandex::units::Lpn;

/// The settings of a tree over a node layer. The modules of the six layers make one each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayeredConfig {
    /// Settings of the tree. Capacities not set are the largest that the page and the layer allow.
    pub tree: BPlusConfig,
    /// The policy that decides which units a full buffer commits.
    pub commit: CommitPolicy,
    /// Whether a unit is merged with one that waits for the same entry.
    pub eliminates: bool,
    /// Largest number of units that wait.
    pub reservation_units: u32,
    /// Largest number of sectors in a node's list, if nodes share sectors.
    pub list_length: u8,
    /// The latencies by which a node's mode is chosen, if nodes have modes.
    pub tuning: Tuning,
}

/// BFTL's buffer size in units, used for the other layers too.
const RESERVATION_UNITS: u32 = 60;

impl LayeredConfig {
    pub(super) const fn new(record: RecordFormat, commit: CommitPolicy) -> LayeredConfig {
        LayeredConfig {
            tree: BPlusConfig::new(record).with_durability(Durability::None),
            commit,
            eliminates: true,
            reservation_units: RESERVATION_UNITS,
            list_length: 1,
            tuning: Tuning::SLC,
        }
    }

    /// These settings in the class *none*, as published. A journal above can give a higher class.
    #[must_use]
    pub(super) const fn published(self) -> LayeredConfig {
        LayeredConfig { tree: self.tree.with_durability(Durability::None), ..self }
    }

    fn on(&self, store: &(impl PageStore + ?Sized)) -> Result<LayeredSizes, IndexError> {
        require_none(self.tree.durability, "units")?;
        self.tree.require_for_groups()?;
        let (page_bytes, pages) = (store.page_bytes(), store.page_count());
        let mut layer = LayerConfig {
            commit: self.commit,
            eliminates: self.eliminates,
            reservation_units: self.reservation_units,
            list_length: self.list_length,
            group_pages: 1,
            tuning: self.tuning,
        };
        let body_bytes = BPlusNodes::new(&self.tree, page_bytes)?.body_bytes();
        if self.commit.placement().has_modes() {
            // The log buffer is one page.
            let page = layer.page_units(page_bytes, body_bytes) as u32;
            layer.reservation_units = layer.reservation_units.min(page.max(1));
        }
        let possible = layer.entries_max(page_bytes, body_bytes);
        let tree = self.tree.with_capacities_up_to(possible, page_bytes)?;
        layer.group_pages = tree.group_pages_max(page_bytes, pages)?;
        debug_assert!(layer.group_pages > 0, "the tree changes no node at once");
        Ok(LayeredSizes { nodes: BPlusNodes::new(&tree, page_bytes)?, tree, layer })
    }

    /// Bytes of RAM that the index takes at most on this store. The store itself is not counted.
    pub fn ram_bytes_max(&self, store: &(impl PageStore + ?Sized)) -> Result<usize, IndexError> {
        let plan = self.published().on(store)?;
        let layer = plan.layer.ram_bytes_max(&plan.nodes, store.page_bytes(), store.page_count())?;
        Ok(plan.tree.ram_bytes_max(store)? + layer)
    }

    /// Durability class that the index would have on this store if no unit waited: the highest class that a
    /// journal can give.
    pub fn class_on(&self, store: &(impl PageStore + ?Sized)) -> Result<Durability, IndexError> {
        Ok(self.published().on(store)?.class_on(store))
    }
}

struct LayeredSizes {
    tree: BPlusConfig,
    nodes: BPlusNodes,
    layer: LayerConfig,
}

impl LayeredSizes {
    /// The class that the index would promise on this store if no unit waited.
    fn class_on(&self, store: &(impl PageStore + ?Sized)) -> Durability {
        Durability::on(
            store,
            if !self.layer.commit.placement().has_sectors() { self.layer.group_pages } else { 1 },
        )
    }
}

/// A B+-tree over a node layer.
pub struct LayeredTree<S> {
    tree: BPlusTree<NodeLayer<S, BPlusNodes>>,
    class_below: Durability,
}

impl<S: PageStore> LayeredTree<S> {
    /// Makes an empty index, and drops everything that the store held.
    pub fn format(store: S, config: &LayeredConfig) -> Result<LayeredTree<S>, IndexError> {
        let plan = config.on(&store)?;
        let class_below = plan.class_on(&store);
        let layer = NodeLayer::format(store, plan.nodes, plan.layer)?;
        debug_assert!(
            class_below == Durability::None || layer.atomic_pages_max() >= plan.layer.group_pages,
            "the layer takes {} nodes at once, the tree changes {}",
            layer.atomic_pages_max(),
            plan.layer.group_pages
        );
        LayeredTree::above(BPlusTree::format(layer, &plan.tree)?, class_below)
    }

    /// Opens the index that a store holds. It must have been synced after its last change.
    pub fn mount(store: S, config: &LayeredConfig) -> Result<LayeredTree<S>, IndexError> {
        LayeredTree::open(store, *config, false)
    }

    /// Opens the index that a power cut left: each key has its value at the last sync or a later one. Where
    /// the store cannot keep the tree whole over a cut, the same as [`LayeredTree::mount`].
    #[doc(hidden)]
    pub fn mount_after_cut(store: S, config: &LayeredConfig) -> Result<LayeredTree<S>, IndexError> {
        LayeredTree::open(store, *config, true)
    }

    fn open(mut store: S, config: LayeredConfig, takes_unclean: bool) -> Result<LayeredTree<S>, IndexError> {
        let plan = config.on(&store)?;
        let class_below = plan.class_on(&store);
        let takes_unclean = takes_unclean && class_below > Durability::None;
        // Without the mark nothing is looked at: it may be any mixture of old and new.
        let mut page = vec![0; store.page_bytes()];
        store.read(NodeLayer::<S, BPlusNodes>::home(Lpn(0)), Cause::Recovery, &mut page)?;
        if !takes_unclean && is_marked_clean(&page) == Some(false) {
            return Err(IndexError::NotCleanlyClosed);
        }
        let layer = NodeLayer::mount(store, plan.nodes, plan.layer)?;
        let opened = if takes_unclean {
            BPlusTree::open_whole(layer)
        } else {
            BPlusTree::mount_found(layer).map_err(IndexFault::from)
        };
        let tree = opened.map_err(|fault| fault.into_inner().in_layer())?;
        let mut index = LayeredTree::above(tree.require_config(plan.tree)?, class_below)?;
        index.tree.with_store(|layer, is_used| layer.retain(is_used))?;
        Ok(index)
    }

    fn above(
        mut tree: BPlusTree<NodeLayer<S, BPlusNodes>>,
        class_below: Durability,
    ) -> Result<LayeredTree<S>, IndexError> {
        tree.promise_nothing();
        debug_assert_eq!(tree.durability(), Durability::None, "units wait in RAM");
        Ok(LayeredTree { tree, class_below })
    }

    /// The layer below the tree.
    pub fn layer(&self) -> &NodeLayer<S, impl NodeCodec> {
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
}

impl<S: PageStore> Buffered<S> for LayeredTree<S> {
    crate::ordered::journal::opens_published!(LayeredTree, LayeredConfig);

    fn record_of(config: &LayeredConfig) -> RecordFormat {
        config.tree.record
    }

    fn waiting_updates_max(config: &LayeredConfig) -> u64 {
        config.reservation_units.into()
    }

    fn class_below(&self) -> Durability {
        self.class_below
    }
}

impl<S: PageStore> OrderedIndex for LayeredTree<S> {
    nandex::forward_index!(tree: record, get, insert, remove, load, range, sync, close, maintain, scrub, free, records_max, ram_bytes);

    fn durability(&self) -> Durability {
        Durability::None
    }

    fn check(&mut self) -> Result<CheckReport, IndexError> {
        let mut report = self.tree.check()?;
        self.tree.with_store(|layer, _| layer.check(&mut report))?;
        Ok(report)
    }

    fn stats(&self) -> IndexStats {
        let (mut stats, layer) = (self.tree.stats(), self.tree.store());
        let ((sectors, mixed), counts) = (layer.sectors_in_use(), layer.counts());
        debug_assert!(mixed <= sectors, "N3: {mixed} mixed sectors of {sectors} in use");
        if sectors > 0 {
            stats.live_pages = sectors as u64 + 2;
        }
        let figures = [
            ("buffer_ram_bytes", layer.buffer_ram_bytes() as u64),
            ("waiting_units", layer.waiting_units() as u64),
            ("eliminated_units", layer.eliminated_units()),
            ("mixed_sectors", mixed as u64),
            ("node_parts", layer.node_parts()),
            ("commits", counts.commits),
            ("committed_units", counts.committed_units),
            ("commit_pages", counts.commit_pages),
            ("compactions", counts.compactions),
            ("compaction_pages", counts.compaction_pages),
            ("reclaims", counts.reclaims),
            ("direct_nodes", counts.direct_nodes),
        ];
        stats.metrics.extend(figures.map(|(name, value)| Metric { name, value }));
        if layer.placement().has_modes() {
            let modes = layer.mode_counts();
            let figures = [
                ("log_nodes", modes.log_nodes),
                ("disk_nodes", modes.disk_nodes),
                ("switches_to_log", modes.switches_to_log),
                ("switches_to_disk", modes.switches_to_disk),
                ("overpaid_ns", modes.overpaid_ns),
                ("disk_pages", counts.disk_pages),
            ];
            stats.metrics.extend(figures.map(|(name, value)| Metric { name, value }));
        }
        stats
    }
}
