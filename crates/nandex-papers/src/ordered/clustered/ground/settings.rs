//! Settings of a tree over a cluster layer, and the sizes that follow from them on a store.

use super::superblock::SUPERBLOCK_BYTES;
use super::{batch, extent, links, table};
use crate::ordered::bplus_nodes::BPlusNodes;
use crate::ordered::pooled::require_none;
use nandex::check::{IndexError, message};
use nandex::ordered::bplus::BPlusConfig;
use nandex::ordered::{Durability, RecordFormat};
use nandex::store::PageStore;

/// The policy that decides which modified nodes leave the batch, and where to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FlushPolicy {
    /// All nodes, to the end of a ring of segments. A table tells where a node is.
    Append = 1,
    /// The nodes used least recently, to runs of free pages. Parents name the pages of their children.
    LeastRecent = 2,
    /// All nodes of a level that has a full batch, from the leaves up. Otherwise as `LeastRecent`.
    Cascade = 3,
}

/// The settings of a tree over a cluster layer. The modules of the three trees make one each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusteredConfig {
    /// The settings of the tree.
    pub tree: BPlusConfig,
    /// The policy that decides which nodes are written together.
    pub policy: FlushPolicy,
    /// W: the number of modified nodes that wait in RAM before some are written. `None` chooses it by the
    /// store.
    pub batch_nodes: Option<u32>,
    /// Upper bound of W if the store chooses it.
    pub batch_nodes_max: u32,
    /// Pages of a segment of the ring, or of a run that a batch is written to. `None` chooses it by the
    /// store.
    pub segment_pages: Option<u32>,
    /// Percentage of live pages below which the oldest segment is recycled even if there is room.
    pub recycle_percent: u8,
    /// Percentage of the store's pages that nodes may take, 10 to 75.
    pub space_percent: u8,
    /// Number of batches between two checkpoints.
    pub checkpoint_flushes: u32,
}

/// Bytes of a segment of the ring.
const SEGMENT_BYTES: usize = 1 << 20;

/// Node numbers of the smallest useful tree. Number 0 is among them and has no node.
const NODES_MIN: u32 = 6;

/// Least segments of a ring.
const SEGMENTS_MIN: u32 = 6;

/// Batches of W nodes that all levels of a cascade may hold together.
const CASCADE_BATCHES: usize = 3;

impl ClusteredConfig {
    /// Settings with a batch of at most `batch_nodes_max` nodes, in the class *none*.
    pub(in crate::ordered::clustered) const fn new(
        record: RecordFormat,
        policy: FlushPolicy,
        batch_nodes_max: u32,
        segment_pages: Option<u32>,
    ) -> ClusteredConfig {
        ClusteredConfig {
            tree: BPlusConfig::new(record).with_durability(Durability::None),
            policy,
            batch_nodes: None,
            batch_nodes_max,
            segment_pages,
            recycle_percent: 50,
            space_percent: 50,
            checkpoint_flushes: 64,
        }
    }

    /// These settings with a batch of at most `bytes` bytes of RAM, on pages of this size. It holds at
    /// least one node.
    #[must_use]
    pub fn with_batch_in(mut self, bytes: usize, page_bytes: usize) -> ClusteredConfig {
        let nodes = bytes / self.batches() / batch::entry_bytes(page_bytes);
        self.batch_nodes_max = (nodes as u64).clamp(1, self.batch_nodes_max.into()) as u32;
        self
    }

    /// The largest number of batches of W nodes that wait.
    pub(super) const fn batches(&self) -> usize {
        match self.policy {
            FlushPolicy::Cascade => CASCADE_BATCHES,
            _ => 1,
        }
    }

    /// These settings in the class *none*, as published. A journal above can give a higher class.
    #[must_use]
    pub(super) const fn published(self) -> ClusteredConfig {
        ClusteredConfig { tree: self.tree.with_durability(Durability::None), ..self }
    }

    /// W if it is set, else its upper bound.
    pub(super) const fn batch_nodes_most(&self) -> u32 {
        match self.batch_nodes {
            Some(nodes) => nodes,
            None => self.batch_nodes_max,
        }
    }

    /// The sizes on a store of `pages` pages. A W that is not set is the largest that leaves nodes half of
    /// their share of the pages, but at least 1.
    pub(super) fn on(&self, page_bytes: usize, pages: u32) -> Result<ClusteredSizes, IndexError> {
        require_none(self.tree.durability, "nodes")?;
        if page_bytes < SUPERBLOCK_BYTES.max(extent::HEADER_BYTES + extent::ENTRY_BYTES) {
            let what = message!("pages of {page_bytes} bytes: a superblock takes {SUPERBLOCK_BYTES}");
            return Err(IndexError::Unsupported(what.into()));
        }
        let group = self.tree.group_pages_max(page_bytes, pages)?;
        let mut plan = ClusteredSizes {
            config: *self,
            nodes: BPlusNodes::new(&self.tree, page_bytes)?,
            page_bytes,
            pages,
            // Every node of a path, and as many new ones.
            grow: group + 1,
            levels: group.div_ceil(2),
            batch_nodes: self.batch_nodes_most(),
            segment_pages: 0,
            segments: 0,
            table_pages: 0,
            nodes_max: 0,
        };
        plan.divide();
        while self.batch_nodes.is_none() && plan.batch_nodes > 1 && plan.is_cramped() {
            plan.batch_nodes -= 1;
            plan.divide();
        }
        plan.require_room()?;
        Ok(plan)
    }

    /// Bytes of RAM that the index takes at most on this store. The store itself is not counted.
    pub fn ram_bytes_max(&self, store: &(impl PageStore + ?Sized)) -> Result<usize, IndexError> {
        let plan = self.published().on(store.page_bytes(), store.page_count())?;
        Ok(self.tree.ram_bytes_max(store)? + plan.ram_bytes_max())
    }

    /// Bytes of RAM of the batch, a part of [`ClusteredConfig::ram_bytes_max`].
    pub fn batch_bytes(&self, store: &(impl PageStore + ?Sized)) -> Result<usize, IndexError> {
        let plan = self.published().on(store.page_bytes(), store.page_count())?;
        Ok(self.batches() * plan.batch_nodes() * batch::entry_bytes(plan.page_bytes))
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ClusteredSizes {
    pub(super) config: ClusteredConfig,
    pub(super) nodes: BPlusNodes,
    pub(super) page_bytes: usize,
    pub(super) pages: u32,
    /// Largest number of nodes that one operation adds to the batch.
    pub(super) grow: usize,
    /// Levels of the highest possible tree.
    pub(super) levels: usize,
    /// Nodes of a batch (W).
    pub(super) batch_nodes: u32,
    pub(super) segment_pages: u32,
    pub(super) segments: u32,
    /// Pages of each of the two areas for the table.
    pub(super) table_pages: u32,
    /// Number of node numbers, from 0, if there is a table. Otherwise the largest number of nodes.
    pub(super) nodes_max: u32,
}

impl ClusteredSizes {
    pub(super) fn batch_nodes(&self) -> usize {
        self.batch_nodes as usize
    }

    /// Largest number of nodes in RAM.
    pub(super) fn frames(&self) -> usize {
        self.config.batches() * self.batch_nodes() + self.grow
    }

    pub(super) fn is_append(&self) -> bool {
        self.config.policy == FlushPolicy::Append
    }

    /// Pages at the beginning of the store that hold no node.
    pub(super) fn first(&self) -> u32 {
        super::superblock::SLOTS + 2 * self.table_pages
    }

    /// Largest number of nodes in an extent.
    pub(super) fn extent_nodes(&self) -> usize {
        let entries = (self.page_bytes - extent::HEADER_BYTES) / extent::ENTRY_BYTES;
        entries.min(self.segment_pages as usize - 1)
    }

    /// Largest number of pages without a node in a segment filled by one batch: headers, and a page left
    /// over at the end.
    fn overhead(&self) -> usize {
        (self.segment_pages as usize).div_ceil(self.extent_nodes() + 1)
    }

    /// Most pages at the end of the ring taken by a batch of `nodes` nodes that begins within a segment.
    pub(super) fn appended(&self, nodes: usize) -> u64 {
        let segments = 1 + nodes.div_ceil(self.segment_pages as usize - self.overhead());
        (nodes + segments * self.overhead()) as u64
    }

    /// Free pages needed to recycle a segment, and the pages needed for a batch besides.
    pub(super) fn room_needed(&self) -> (u64, u64) {
        let copies = self.segment_pages as usize - self.overhead() + self.frames();
        // Where one batch ends and another begins there is a header more.
        let flushes = copies.div_ceil(self.frames());
        (self.appended(copies + flushes - 1), self.appended(self.frames()))
    }

    fn most(&self) -> u64 {
        u64::from(self.pages) * u64::from(self.config.space_percent) / 100
    }

    /// Whether the room kept for batches is more than half of the nodes' share of the store.
    fn is_cramped(&self) -> bool {
        u64::from(self.nodes_max) * 2 < self.most()
    }

    fn require_room(&self) -> Result<(), IndexError> {
        let (segments, nodes) = (self.segments, self.nodes_max);
        let is_ring = !self.is_append() || segments >= SEGMENTS_MIN;
        if is_ring && nodes >= NODES_MIN {
            return Ok(());
        }
        Err(IndexError::unsupported(message!(
            "{} pages are too few for batches of {} nodes and segments of {} pages: they leave \
             room for {nodes} nodes, {NODES_MIN} are the least",
            self.pages,
            self.batch_nodes,
            self.segment_pages
        )))
    }

    fn divide(&mut self) {
        match self.config.policy {
            FlushPolicy::Append => self.divide_ring(),
            _ => self.divide_runs(),
        }
    }

    fn divide_ring(&mut self) {
        let suits = ((SEGMENT_BYTES / self.page_bytes) as u32).min(self.pages / 16);
        self.segment_pages = self.config.segment_pages.unwrap_or(suits).max(4);
        let most = self.most();
        self.table_pages =
            table::entries_max(most as u32).div_ceil(table::page_entries(self.page_bytes)) as u32;
        let left = u64::from(self.pages).saturating_sub(self.first().into());
        self.segments = (left / u64::from(self.segment_pages)) as u32;
        debug_assert!(
            self.segments == 0 || self.first() + self.segments * self.segment_pages <= self.pages,
            "C5: {} segments are beyond the store",
            self.segments
        );
        let ring = u64::from(self.segments) * u64::from(self.segment_pages);
        let (recycling, batch) = self.room_needed();
        let spare = ring.saturating_sub(recycling + batch + 2 * u64::from(self.segment_pages));
        // Headers, and pages left over at the end of a segment.
        let extent = self.extent_nodes().min(self.frames()) as u64;
        self.nodes_max = most.min(spare * extent / (extent + 3)) as u32;
    }

    fn divide_runs(&mut self) {
        let spare = u64::from(self.pages).saturating_sub(self.room_for_links() + 2);
        self.segment_pages = self.config.segment_pages.unwrap_or(self.batch_nodes);
        self.nodes_max = self.most().min(spare) as u32;
    }

    /// Free pages needed to place all nodes that may wait. New nodes have free pages as numbers, and these
    /// stay free until then.
    pub(super) fn room_for_links(&self) -> u64 {
        2 * (self.frames() + self.grow) as u64
    }

    fn ram_bytes_max(&self) -> usize {
        let frames = (self.frames() + 1) * batch::entry_bytes(self.page_bytes);
        let pages = super::pages::PageMap::ram_bytes_for(self.pages);
        let places = match self.config.policy {
            FlushPolicy::Append => table::ram_bytes_for(self.nodes_max) + pages,
            _ => links::ram_bytes_for(self.levels, self.page_bytes) + 2 * pages,
        };
        frames + places + 2 * self.page_bytes + 1024
    }
}
