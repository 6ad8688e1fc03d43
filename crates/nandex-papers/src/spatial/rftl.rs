//! RFTL: modifications of many nodes share pages, and a table tells which pages have modifications of a node.
//!
//! C.-H. Wu, L.-P. Chang, T.-W. Kuo, "An Efficient R-Tree Implementation over Flash-Memory Storage Systems",
//! GIS 2003: the R-tree's counterpart of BFTL, by the same authors. The layer is
//! [`NodeLayer`](crate::unit_layer), which has the reservation buffer, the node translation table and the
//! commits; here is what it must know of the nodes ([`RectNodes`]), and the nodes of a tree above it
//! ([`RftlNodes`]).
//!
//! # State
//!
//! ```text
//! RAM    reservation buffer: index units, by node          node translation table: node -> up to C pages
//! store  layer's header | superblock | pages full of index units, of one node or of several
//! ```
//!
//! An *index unit* is an operation on one entry: the node, its level, what happens, and the entry as it
//! stands in a node. A leaf is a multiset of entries: units insert and delete one of a kind. In any other
//! node an entry is known by its child, so the box of a child is updated.
//!
//! # Operations
//!
//! - *read*: the units in the pages of the node's list, in order, then those that wait: C page reads at most.
//! - *an operation of the tree*: what it changes becomes units in the reservation buffer. If they do not fit,
//!   the buffer is committed: the units of a node are a set, the sets are packed into pages first fit, the
//!   largest first, and the pages join the nodes' lists. A node whose list would be longer than C is gathered
//!   and written anew.
//! - *mount*: all pages are read; each names the nodes of its units and its commit, and the table is built of
//!   that. The newest commit counts only if it is whole.
//!
//! # Durability
//!
//! As published the units that wait are lost and nothing is promised. Here a commit is atomic on any store
//! whose writes survive in order, and a sync commits: *every sync*, at the price of a commit for each; *every
//! operation* if that is wanted, where each commits its own units, or is refused, and is followed by a sync.
//! Elsewhere *none*, with a clean mark as in `paged.rs`.
//!
//! # Invariants
//!
//! N1 to N6 of the layer, S1 to S7 of the nodes.
//!
//! # Deviations and confidence
//!
//! Medium to low: from the abstract, and from BFTL, whose description is complete. First fit decreasing is
//! one of the ways to pack that such a layer has; C = 4 and 60 units are BFTL's. Units have no place in a
//! node, so a tree that keeps its entries in an order, as the Hilbert R-tree does, is refused: the published
//! layer is one for the R-tree, too.

use crate::unit_layer::{
    BODY_BYTES_MAX, CommitPolicy, Identity, LayerConfig, NodeCodec, NodeLayer, Op, Tuning,
};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::marker::PhantomData;
use nandex::check::{CheckReport, IndexError};
use nandex::codec::{crc32, get_u16, get_u32, put_u16, put_u32};
use nandex::index::{Durability, IndexStats, Metric};
use nandex::nand::Cause;
use nandex::sort;
use nandex::spatial::coordinate::Coordinate;
use nandex::spatial::node::{Change, HEADER_BYTES, NODE_MARK, Node, NodeFormat, NodeId};
use nandex::spatial::nodes::Nodes;
use nandex::spatial::paged::PagedNodes;
use nandex::spatial::tree::{Rules, SpatialConfig, Tree};
use nandex::store::PageStore;
use nandex::units::Lpn;

#[cfg(test)]
mod tests;

/// The settings of the RFTL layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RftlConfig {
    /// Number of units that the reservation buffer holds.
    pub reservation_units: u32,
    /// C: largest number of pages in a node's list.
    pub list_length: u8,
}

impl RftlConfig {
    /// 60 units and lists of up to 4 pages, as in BFTL.
    pub const PUBLISHED: RftlConfig = RftlConfig { reservation_units: 60, list_length: 4 };

    fn layer(&self, group_pages: usize) -> LayerConfig {
        LayerConfig {
            commit: CommitPolicy::FirstFitDecreasing,
            eliminates: false,
            reservation_units: self.reservation_units,
            list_length: self.list_length,
            group_pages,
            tuning: Tuning::SLC,
        }
    }
}

/// The codec of an R-tree's nodes, for the layer.
#[derive(Clone, Debug)]
pub struct RectNodes<C, const D: usize> {
    format: NodeFormat,
    coordinates: PhantomData<C>,
}

impl<C: Coordinate, const D: usize> RectNodes<C, D> {
    fn entry_bytes(&self, level: u8) -> usize {
        if level == 1 { self.format.data_entry_bytes() } else { self.format.child_entry_bytes() }
    }

    fn entries_of<'a>(&self, page: &'a [u8]) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone {
        let bytes = self.entry_bytes(page[8]);
        page[HEADER_BYTES..][..self.entries(page) * bytes].chunks_exact(bytes)
    }

    /// The order of the entries of two images: in a leaf by all their bytes, else by child.
    fn order(&self, level: u8, a: &[u8], b: &[u8]) -> Ordering {
        if level == 1 { a.cmp(b) } else { self.child(a).cmp(&self.child(b)) }
    }

    fn child(&self, entry: &[u8]) -> u32 {
        get_u32(entry, self.format.data_entry_bytes() - size_of::<u64>())
    }

    fn sorted<'a>(&self, page: &'a [u8]) -> Vec<&'a [u8]> {
        let mut entries: Vec<&[u8]> = self.entries_of(page).collect();
        sort::unstable_by(&mut entries, |a, b| self.order(page[8], a, b));
        entries
    }

    fn set_count(&self, page: &mut [u8], count: usize) {
        put_u16(page, 10, count as u16);
        put_u16(page, 12, if page[8] == 1 { count as u16 } else { 0 });
    }
}

impl<C: Coordinate, const D: usize> NodeCodec for RectNodes<C, D> {
    fn body_bytes(&self) -> usize {
        self.format.data_entry_bytes().max(self.format.child_entry_bytes())
    }

    /// The whole body identifies the entry, because nothing is eliminated.
    fn identity(&self) -> Identity {
        Identity::first(self.body_bytes())
    }

    fn entries_max(&self) -> usize {
        self.format.capacity(1).max(self.format.capacity(2))
    }

    fn mark(&self, page: &[u8]) -> Option<u8> {
        let (level, count) = (page[8], usize::from(get_u16(page, 10)));
        let data = if level == 1 { count } else { 0 };
        let is_node = page[9] == NODE_MARK
            && (1..=self.format.height_max()).contains(&usize::from(level))
            && count <= self.format.capacity(level)
            && (usize::from(get_u16(page, 12)), get_u16(page, 14)) == (data, 0);
        is_node.then_some(level)
    }

    fn entries(&self, page: &[u8]) -> usize {
        usize::from(get_u16(page, 10)).min(self.format.capacity(page[8]))
    }

    fn reset(&self, page: &mut [u8], node: Lpn, mark: u8) {
        self.format.encode(NodeId(node.0), &Node::<C, D>::new(mark), page);
    }

    fn differences(&self, old: Option<&[u8]>, new: &[u8], show: &mut dyn FnMut(Op, &[u8])) {
        let level = new[8];
        let (olds, news) = (old.map_or_else(Vec::new, |old| self.sorted(old)), self.sorted(new));
        let mut body = [0; BODY_BYTES_MAX];
        let mut unit = |op, entry: &[u8]| {
            body[..entry.len()].copy_from_slice(entry);
            show(op, &body[..self.body_bytes()]);
        };
        // Those that leave go first: a full node has no room for others before.
        for leaves in [true, false] {
            let (mut i, mut j) = (0, 0);
            while i < olds.len() || j < news.len() {
                let order = match (olds.get(i), news.get(j)) {
                    (Some(old), Some(new)) => self.order(level, old, new),
                    (Some(_), None) => Ordering::Less,
                    _ => Ordering::Greater,
                };
                match order {
                    Ordering::Less if leaves => unit(Op::Delete, olds[i]),
                    Ordering::Greater if !leaves => unit(Op::Insert, news[j]),
                    Ordering::Equal if !leaves && olds[i] != news[j] => unit(Op::Update, news[j]),
                    _ => {}
                }
                i += usize::from(order != Ordering::Greater);
                j += usize::from(order != Ordering::Less);
            }
        }
    }

    fn apply(&self, page: &mut [u8], op: Op, body: &[u8]) -> Result<(), &'static str> {
        let (level, count) = (page[8], self.entries(page));
        let bytes = self.entry_bytes(level);
        let entry = &body[..bytes];
        let found = match op {
            // One more of the same kind is nothing special in a leaf.
            Op::Insert if level == 1 => None,
            _ => self.entries_of(page).position(|other| self.order(level, other, entry).is_eq()),
        };
        let area = &mut page[HEADER_BYTES..];
        let count = match (op, found) {
            (Op::Insert, None) if count < self.format.capacity(level) => {
                area[count * bytes..][..bytes].copy_from_slice(entry);
                count + 1
            }
            (Op::Delete, Some(at)) => {
                area.copy_within((at + 1) * bytes..count * bytes, at * bytes);
                area[(count - 1) * bytes..][..bytes].fill(0);
                count - 1
            }
            (Op::Update, Some(at)) if level > 1 => {
                area[at * bytes..][..bytes].copy_from_slice(entry);
                count
            }
            (Op::Insert, None) => return Err("N2: a unit for which the node has no room"),
            _ => return Err("N2: a unit that contradicts its node"),
        };
        self.set_count(page, count);
        Ok(())
    }

    fn seal(&self, page: &mut [u8]) {
        let crc = crc32(&[&page[4..]]);
        put_u32(page, 0, crc);
    }
}

type Layer<S, C, const D: usize> = NodeLayer<S, RectNodes<C, D>>;

/// The nodes of a tree over shared pages of units.
pub struct RftlNodes<S, C, const D: usize> {
    nodes: PagedNodes<Layer<S, C, D>, C, D>,
    /// Whether each operation is followed by a sync.
    syncs_each: bool,
}

/// A tree of any kind over RFTL.
pub type RftlTree<S, C, const D: usize, R> = Tree<C, D, RftlNodes<S, C, D>, R>;

impl<S: PageStore, C: Coordinate, const D: usize> RftlNodes<S, C, D> {
    /// The codec and the layer's settings for a tree on such a store.
    fn parts<R: Rules<C, D>>(
        (page_bytes, page_count): (usize, u32),
        tree: &SpatialConfig<R>,
        config: RftlConfig,
    ) -> Result<(RectNodes<C, D>, LayerConfig), IndexError> {
        let format = tree.node_format::<C, D>(page_bytes, page_count)?;
        if !format.is_balanced || R::KEY_BYTES > 0 {
            let what = "RFTL keeps no order of entries: it takes the R-tree and the R*-tree";
            return Err(IndexError::Unsupported(what.into()));
        }
        let group_pages = format.group_nodes_max();
        let codec = RectNodes { format, coordinates: PhantomData };
        Ok((codec, config.layer(group_pages)))
    }

    /// Makes an empty tree, and drops everything that the store held.
    pub fn format<R: Rules<C, D>>(
        store: S,
        tree: &SpatialConfig<R>,
        config: RftlConfig,
    ) -> Result<Self, IndexError> {
        let (codec, layer) =
            RftlNodes::<S, C, D>::parts((store.page_bytes(), store.page_count()), tree, config)?;
        let whole = codec.format;
        let layer = NodeLayer::format(store, codec, layer)?;
        let format = NodeFormat { page_count: layer.page_count(), ..whole };
        let durability = tree.durability.min(Durability::EverySync);
        let nodes = PagedNodes::format(layer, format, durability)?;
        Ok(RftlNodes { nodes, syncs_each: tree.durability == Durability::EveryOperation })
    }

    /// Opens the tree that a store holds. Units that waited in RAM are lost.
    pub fn mount<R: Rules<C, D>>(
        store: S,
        tree: &SpatialConfig<R>,
        config: RftlConfig,
    ) -> Result<Self, IndexError> {
        let (codec, layer) =
            RftlNodes::<S, C, D>::parts((store.page_bytes(), store.page_count()), tree, config)?;
        let below = tree.clone().with_durability(tree.durability.min(Durability::EverySync));
        let layer = NodeLayer::mount(store, codec, layer)?;
        let mut nodes = PagedNodes::mount(layer, &below).map_err(IndexError::in_layer)?;
        nodes.with_store(|layer, is_used| layer.retain(is_used))?;
        Ok(RftlNodes { nodes, syncs_each: tree.durability == Durability::EveryOperation })
    }

    /// Bytes of RAM that a [narrowed](RftlNodes::narrowed) tree needs besides its store. `size` is bytes
    /// per page and number of pages.
    pub fn ram_bytes_min<R: Rules<C, D>>(
        size: (usize, u32),
        tree: &SpatialConfig<R>,
        config: RftlConfig,
    ) -> Result<usize, IndexError> {
        let (codec, layer) = RftlNodes::<S, C, D>::parts(size, tree, config)?;
        let least = PagedNodes::<S, C, D>::ram_bytes_min(false, &codec.format);
        Ok(least + layer.ram_bytes_max(&codec, size.0, size.1)?)
    }

    /// Bounds the nodes that an operation holds, as [`PagedNodes::narrowed`] does.
    #[must_use]
    pub fn narrowed(self) -> Self {
        RftlNodes { nodes: self.nodes.narrowed(), ..self }
    }

    /// The layer below the nodes.
    pub fn layer(&self) -> &NodeLayer<S, RectNodes<C, D>> {
        self.nodes.store()
    }

    /// Takes the layer apart and returns the store. Changes that were not synced are lost as in a power
    /// cut.
    pub fn into_store(self) -> S {
        self.nodes.into_store().into_store()
    }

    /// Sets whether writes are committed at once, so that a refused operation has not happened. Only if
    /// each operation is followed by a sync.
    fn set_commits_each(&mut self, commits_each: bool) {
        let commits_each = self.syncs_each && commits_each;
        self.nodes.with_store(|layer, _| layer.set_commits_each(commits_each));
    }

    /// Syncs the trims of an operation, if each operation is followed by a sync. The operation is durable
    /// already, so a refusal is ignored: the store only keeps the pages longer.
    fn sync_trims(&mut self) -> Result<(), IndexError> {
        match if self.syncs_each { self.nodes.sync() } else { Ok(()) } {
            Err(error) if error.is_refusal() => Ok(()),
            done => done,
        }
    }
}

impl<S: PageStore, C: Coordinate, const D: usize> Nodes<C, D> for RftlNodes<S, C, D> {
    fn format(&self) -> &NodeFormat {
        self.nodes.format()
    }

    fn durability(&self) -> Durability {
        if self.syncs_each { Durability::EveryOperation } else { self.nodes.durability() }
    }

    fn begin(&mut self) -> Result<(), IndexError> {
        self.nodes.begin()
    }

    fn read(&mut self, id: NodeId, cause: Cause) -> Result<&Node<C, D>, IndexError> {
        self.nodes.read(id, cause)
    }

    fn forget(&mut self, id: NodeId) {
        self.nodes.forget(id);
    }

    fn allocate(&mut self) -> Result<NodeId, IndexError> {
        self.nodes.allocate()
    }

    fn change(&mut self, id: NodeId, change: Change<C, D>) -> Result<(), IndexError> {
        self.nodes.change(id, change)
    }

    fn free(&mut self, id: NodeId) {
        self.nodes.free(id);
    }

    fn fits_group(&self) -> bool {
        self.nodes.fits_group()
    }

    fn commit(&mut self) -> Result<(), IndexError> {
        self.set_commits_each(true);
        self.nodes.commit()?;
        self.sync_trims()
    }

    fn rollback(&mut self) {
        self.nodes.rollback();
    }

    fn load(&mut self, node: &Node<C, D>) -> Result<NodeId, IndexError> {
        // Nodes that nothing names yet may wait.
        self.set_commits_each(false);
        self.nodes.load(node)
    }

    fn end_load(&mut self, root: Option<&Node<C, D>>) -> Result<(), IndexError> {
        self.set_commits_each(true);
        self.nodes.end_load(root)?;
        self.sync_trims()
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        self.nodes.sync()
    }

    fn close(&mut self) -> Result<(), IndexError> {
        self.nodes.close()
    }

    fn check(&mut self, reached: &BTreeSet<NodeId>, report: &mut CheckReport) -> Result<(), IndexError> {
        self.nodes.check(reached, report)?;
        self.nodes.with_store(|layer, _| layer.check(report))
    }

    fn stats(&self) -> IndexStats {
        let mut stats = self.nodes.stats();
        let (layer, counts) = (self.layer(), self.layer().counts());
        let (sectors, mixed) = layer.sectors_in_use();
        stats.live_pages = 2 + sectors as u64;
        let figures = [
            ("waiting_units", layer.waiting_units() as u64),
            ("commits", counts.commits),
            ("committed_units", counts.committed_units),
            ("commit_pages", counts.commit_pages),
            ("compactions", counts.compactions),
            ("compaction_pages", counts.compaction_pages),
            ("reclaims", counts.reclaims),
            ("mixed_pages", mixed as u64),
        ];
        stats.metrics.extend(figures.map(|(name, value)| Metric { name, value }));
        stats
    }

    fn ram_bytes(&self) -> usize {
        self.nodes.ram_bytes()
    }
}
