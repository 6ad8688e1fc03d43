//! The tree over [`Nodes`]: the parts that the R-tree and its relatives share. A kind of tree is a set of
//! [`Rules`].
//!
//! An insertion or a removal is one operation of the node store. The first attempt follows the literature.
//! But the reinsertion of entries may change more nodes than the store takes atomically, or need a page when
//! none is free. Then the operation is rolled back and done *narrow*: a full node is split, and an underfull
//! one is mended with a neighbour, without reinsertion. This changes few nodes, and a removal takes no page.
//! So the durability class holds for all rules.

mod check;
mod config;
mod load;
pub mod search;
pub mod update;

pub use config::SpatialConfig;
pub use load::{Packing, packed_nodes};

use super::coordinate::Coordinate;
use super::curve::CurveKey;
use super::geometry::Rect;
use super::measure::Measure;
use super::node::{Change, Entry, Node, NodeFormat, NodeId, OPTION_BYTES, Pointer, ROOT};
use super::nodes::{Nodes, read_child, read_root};
use super::paged::PagedNodes;
use super::{Entries, Region, Relation, SpatialIndex, VisitNearest, VisitRect, VisitRegion};
use crate::check::{CheckReport, IndexError, Invariant, Limit, words};
use crate::index::{Durability, Fill, IndexStats, Metric};
use crate::nand::{Cause, Differs};
use crate::store::PageStore;
use alloc::vec::Vec;
use core::marker::PhantomData;

/// Path from the root to a node: each node with the place of the entry that leads on.
pub type Path = Vec<(NodeId, usize)>;

/// Rules of a kind of tree.
pub trait Rules<C: Coordinate, const D: usize>: Clone + PartialEq + crate::shared::MaybeSend {
    /// Name of the kind in the superblock.
    const KIND: [u8; 8];

    /// Most nodes of one level that a narrow operation changes.
    const GROUP_PER_LEVEL: u8 = 2;

    /// Bytes of the place on the Hilbert curve in a child entry; 0 if child entries hold none.
    const KEY_BYTES: usize = 0;

    /// Names of the counters of this kind, in the order of [`TreeCounts::own`].
    const METRICS: &'static [&'static str] = &[];

    /// Adapts the layout of the nodes if this kind has another one.
    fn adapt(&self, format: &mut NodeFormat) {
        let _ = format;
    }

    /// Writes the options that the next mount needs.
    fn put_options(&self, options: &mut [u8; OPTION_BYTES]);

    /// Reads the options; `None` if the bytes are no options.
    fn of_options(options: &[u8; OPTION_BYTES]) -> Option<Self>;

    /// Inserts a data entry.
    fn insert<N: Nodes<C, D>>(&self, op: &mut Operation<'_, N>, entry: Entry<C, D>)
    -> Result<(), IndexError>;

    /// Removes the data entry at the end of a path.
    fn remove<N: Nodes<C, D>>(&self, op: &mut Operation<'_, N>, path: Path) -> Result<(), IndexError>;

    /// Returns true if child `slot` may hold an entry with the rectangle `rect`, which lies in the box of the
    /// child.
    fn may_hold(&self, node: &Node<C, D>, slot: usize, rect: &Rect<C, D>) -> bool {
        let _ = (node, slot, rect);
        true
    }

    /// Returns the key by which a bulk load sorts: the place of a rectangle on the curve.
    fn curve_key(&self, rect: &Rect<C, D>) -> CurveKey;

    /// Returns true if a bulk load may pack in this order.
    fn allows(&self, packing: Packing) -> bool {
        let _ = packing;
        true
    }

    /// Adds violated invariants of this kind to the report.
    fn check_node(&self, id: NodeId, node: &Node<C, D>, report: &mut CheckReport) {
        let _ = (id, node, report);
    }

    /// Returns the level of the child in place `slot`.
    fn child_level(&self, node: &Node<C, D>, slot: usize) -> u8 {
        let _ = slot;
        node.level.saturating_sub(1)
    }

    /// Returns the greatest key of a node's entries, which the entry of its parent must hold; 0 if nodes have
    /// no keys.
    fn node_key(&self, node: &Node<C, D>) -> CurveKey {
        let _ = node;
        CurveKey::default()
    }
}

/// Most counters that a kind of tree may have of its own.
pub const METRICS_MAX: usize = 6;

/// Counters of the changes to nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeCounts {
    /// Nodes that were split, or pairs of nodes that became three.
    pub splits: u64,
    /// Nodes that were dissolved or merged.
    pub merges: u64,
    /// Nodes whose entries were shared with neighbours.
    pub redistributions: u64,
    /// Entries that were inserted again.
    pub reinsertions: u64,
    /// Operations that were done narrow.
    pub narrow_operations: u64,
    /// Counters of the kind of tree, with the names [`Rules::METRICS`].
    pub own: [u64; METRICS_MAX],
}

impl TreeCounts {
    fn add(&mut self, other: TreeCounts) {
        self.splits += other.splits;
        self.merges += other.merges;
        self.redistributions += other.redistributions;
        self.reinsertions += other.reinsertions;
        self.narrow_operations += other.narrow_operations;
        self.own.iter_mut().zip(other.own).for_each(|(own, more)| *own += more);
    }
}

/// An insertion or removal in progress.
pub struct Operation<'a, N> {
    /// Storage of the nodes.
    pub nodes: &'a mut N,
    /// Height of the tree at present.
    pub height: u8,
    /// True if the operation must change as few nodes as possible.
    pub is_narrow: bool,
    /// Counters of the operation so far.
    pub counts: TreeCounts,
}

/// A tree that owns its node store.
pub struct Tree<C, const D: usize, N, R> {
    nodes: N,
    rules: R,
    height: u8,
    counts: TreeCounts,
    coordinates: PhantomData<C>,
}

impl<C: Coordinate, const D: usize, S: PageStore, R: Rules<C, D>> Tree<C, D, PagedNodes<S, C, D>, R> {
    /// Makes an empty tree whose nodes are pages; whatever the store held is dropped.
    pub fn format(store: S, config: &SpatialConfig<R>) -> Result<Self, IndexError> {
        let format = config.node_format(store.page_bytes(), store.page_count())?;
        Tree::over(PagedNodes::format(store, format, config.durability)?)
    }

    /// Opens the tree that a store holds, however it was formatted.
    pub fn mount_found(store: S) -> Result<Self, IndexError> {
        Tree::over(PagedNodes::mount_found(store)?)
    }

    /// Opens the tree that a store holds, and refuses one formatted otherwise or giving less durability.
    pub fn mount(store: S, config: &SpatialConfig<R>) -> Result<Self, IndexError> {
        Tree::over(PagedNodes::mount(store, config)?)
    }

    /// Limits the RAM to `ram_bytes`, besides that of the store. Returns an error if this is less than
    /// [`PagedNodes::ram_bytes_min`].
    pub fn with_ram(mut self, ram_bytes: usize) -> Result<Self, IndexError> {
        self.nodes = self.nodes.with_ram(ram_bytes)?;
        Ok(self)
    }

    /// The store below.
    pub fn store(&self) -> &S {
        self.nodes.store()
    }

    /// Returns the store. Changes that were not synced are as after a power cut.
    pub fn into_store(self) -> S {
        self.nodes.into_store()
    }
}

impl<C: Coordinate, const D: usize, N: Nodes<C, D>, R: Rules<C, D>> Tree<C, D, N, R> {
    /// Opens the tree in a node store, which may just have been formatted.
    pub fn over(mut nodes: N) -> Result<Self, IndexError> {
        let format = nodes.format();
        if format.kind != R::KIND {
            return Err(IndexError::other(
                Differs::Kind,
                words("the store holds a spatial index of another kind"),
            ));
        }
        let Some(rules) = R::of_options(&format.options) else {
            return Err(IndexError::broken(Invariant::S7, "the superblock's options are impossible", 0));
        };
        let height = read_root(&mut nodes, Cause::Recovery)?.level;
        Ok(Tree { nodes, rules, height, counts: TreeCounts::default(), coordinates: PhantomData })
    }

    /// The node store below.
    pub fn nodes(&self) -> &N {
        &self.nodes
    }

    /// The node store below, for functions of a layer beyond [`Nodes`].
    pub fn nodes_mut(&mut self) -> &mut N {
        &mut self.nodes
    }

    /// Returns the node store.
    pub fn into_nodes(self) -> N {
        self.nodes
    }

    /// Rules of the tree.
    pub fn rules(&self) -> &R {
        &self.rules
    }

    /// Counters of the changes to nodes since the tree was opened.
    pub fn counts(&self) -> TreeCounts {
        self.counts
    }

    /// Runs an operation, and repeats it in the narrow way if it does not fit.
    fn run<T>(
        &mut self,
        work: impl Fn(&R, &mut Operation<'_, N>) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        let mut is_narrow = false;
        loop {
            self.nodes.begin()?;
            let counts = TreeCounts { narrow_operations: u64::from(is_narrow), ..TreeCounts::default() };
            let mut op = Operation { nodes: &mut self.nodes, height: self.height, is_narrow, counts };
            let done = work(&self.rules, &mut op);
            let (height, counts) = (op.height, op.counts);
            match done {
                Ok(answer) if self.nodes.fits_group() => {
                    self.nodes.commit()?;
                    self.height = height;
                    self.counts.add(counts);
                    return Ok(answer);
                }
                Ok(_) => {
                    self.nodes.rollback();
                    assert!(!is_narrow, "a narrow operation changed more nodes than it may");
                }
                Err(error) => {
                    self.nodes.rollback();
                    if is_narrow || !error.is_full() {
                        return Err(error);
                    }
                }
            }
            is_narrow = true;
        }
    }
}

/// Looks for an entry below the root. The nodes on the path to it stay in RAM.
fn find<C: Coordinate, const D: usize, N: Nodes<C, D>, R: Rules<C, D>>(
    rules: &R,
    op: &mut Operation<'_, N>,
    rect: &Rect<C, D>,
    id: u64,
) -> Result<Option<Path>, IndexError> {
    let mut path: Path = alloc::vec![(ROOT, 0)];
    // Level of the parent while the walk goes down; `None` after it comes back to a node that it has checked.
    let mut above = None;
    while let Some((node_id, from)) = path.pop() {
        let node = match above {
            None => op.nodes.read(node_id, Cause::Host)?,
            Some(above) => read_child(op.nodes, node_id, above, Cause::Host)?,
        };
        let level = node.level;
        let mut slots = from..node.entries.len();
        let found = slots.find(|&slot| match node.entries[slot].pointer {
            Pointer::Data(found) => found == id && node.entries[slot].rect == *rect,
            Pointer::Child(_) => node.entries[slot].rect.contains(rect) && rules.may_hold(node, slot, rect),
        });
        let Some(slot) = found else {
            op.nodes.forget(node_id);
            if let Some((_, from)) = path.last_mut() {
                *from += 1;
            }
            above = None;
            continue;
        };
        let child = node.entries[slot].child_id();
        path.push((node_id, slot));
        match child {
            None => return Ok(Some(path)),
            Some(child) => path.push((child, 0)),
        }
        above = Some(level);
    }
    Ok(None)
}

impl<C: Coordinate, const D: usize, N: Nodes<C, D>, R: Rules<C, D>> SpatialIndex<C, D> for Tree<C, D, N, R> {
    fn durability(&self) -> Durability {
        self.nodes.durability()
    }

    fn insert(&mut self, rect: &Rect<C, D>, id: u64) -> Result<(), IndexError> {
        self.run(|rules, op| rules.insert(op, Entry::data(*rect, id)))
    }

    fn remove(&mut self, rect: &Rect<C, D>, id: u64) -> Result<bool, IndexError> {
        self.run(|rules, op| match find(rules, op, rect, id)? {
            Some(path) => rules.remove(op, path).map(|()| true),
            None => Ok(false),
        })
    }

    fn load(&mut self, entries: Entries<'_, C, D>, packing: Packing, fill: Fill) -> Result<u64, IndexError> {
        self.bulk_load(entries, packing, fill)
    }

    fn window(
        &mut self,
        query: &Rect<C, D>,
        relation: Relation,
        visit: VisitRect<'_, C, D>,
    ) -> Result<(), IndexError> {
        search::window(&mut self.nodes, query, relation, visit)
    }

    fn nearest(
        &mut self,
        point: &[C; D],
        count: usize,
        visit: VisitNearest<'_, C, D>,
    ) -> Result<(), IndexError> {
        search::nearest(&mut self.nodes, point, count, visit)
    }

    fn regions(&mut self, visit: VisitRegion<'_, C, D>) -> Result<(), IndexError> {
        search::regions(&mut self.nodes, visit)
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        self.nodes.sync()
    }

    fn close(&mut self) -> Result<(), IndexError> {
        self.nodes.close()
    }

    fn check(&mut self) -> Result<CheckReport, IndexError> {
        check::check(&mut self.nodes, &self.rules)
    }

    fn stats(&self) -> IndexStats {
        let mut stats = self.nodes.stats();
        stats.height = u32::from(self.height);
        let metric = |name, value| Metric { name, value };
        stats.metrics.extend([
            metric("splits", self.counts.splits),
            metric("merges", self.counts.merges),
            metric("redistributions", self.counts.redistributions),
            metric("reinsertions", self.counts.reinsertions),
            metric("narrow_operations", self.counts.narrow_operations),
        ]);
        let own = R::METRICS.iter().zip(self.counts.own);
        stats.metrics.extend(own.map(|(name, value)| metric(name, value)));
        stats
    }

    fn ram_bytes(&self) -> usize {
        self.nodes.ram_bytes()
    }
}

impl<N> Operation<'_, N> {
    /// Moves the contents of the root to two or more new nodes, and puts the root above them. Returns
    /// [`IndexError::Full`] if the tree has its greatest height.
    pub fn raise_root<C: Coordinate, const D: usize>(
        &mut self,
        nodes: impl IntoIterator<Item = (Node<C, D>, CurveKey)>,
    ) -> Result<(), IndexError>
    where
        N: Nodes<C, D>,
    {
        if usize::from(self.height) >= self.nodes.format().height_max() {
            return Err(IndexError::Full(Limit::Height));
        }
        let mut root = Node::new(self.height + 1);
        for (node, key) in nodes {
            let id = self.nodes.allocate()?;
            root.entries.extend(node.rect().map(|rect| Entry { key, ..Entry::child(rect, id) }));
            self.nodes.change(id, Change::Whole(node))?;
        }
        self.nodes.change(ROOT, Change::Whole(root))?;
        self.height += 1;
        Ok(())
    }

    /// Replaces the root by its only child, as long as it has only one.
    pub fn lower_root<C: Coordinate, const D: usize>(&mut self) -> Result<(), IndexError>
    where
        N: Nodes<C, D>,
    {
        loop {
            let root = self.nodes.read(ROOT, Cause::Host)?;
            let only = match &root.entries[..] {
                [entry] => entry.child_id(),
                _ => None,
            };
            let Some(child) = only else { return Ok(()) };
            let above = root.level;
            let taken_over = read_child(self.nodes, child, above, Cause::Host)?.clone();
            self.height = taken_over.level;
            self.nodes.free(child);
            self.nodes.change(ROOT, Change::Whole(taken_over))?;
        }
    }
}

pub(super) fn region<C: Coordinate, const D: usize>(id: NodeId, node: &Node<C, D>) -> Option<Region<C, D>> {
    Some(Region { id, level: node.level, entries: node.entries.len(), rect: node.rect()? })
}

#[doc(hidden)]
pub fn by_measure<M: Measure>(a: &M, b: &M) -> core::cmp::Ordering {
    a.order(b)
}
