//! How a PIO B-tree is set up.

use super::page::LeafLayout;
use super::tree::{SegmentTree, buffer_bytes, group_pages_max};
use crate::ordered::lazy_update::{CommitPolicy, Pairs, Pool, PoolCount, PoolSetup, requests_in};
use crate::ordered::pooled::require_none;
use nandex::check::{IndexError, message};
use nandex::ordered::bplus::{BPlusConfig, BPlusTree};
use nandex::ordered::buffered::Answers;
use nandex::ordered::{Durability, RecordFormat};
use nandex::store::PageStore;

/// The settings of a PIO B-tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PioConfig {
    /// The sizes of keys and values.
    pub record: RecordFormat,
    /// The durability class. Without a journal it must be *none*.
    pub durability: Durability,
    /// Largest number of children of an inner node. `None` means as many as fit into the page.
    pub order: Option<usize>,
    /// L: number of pages of a leaf.
    pub leaf_pages: usize,
    /// PioMax: largest number of requests that are submitted together.
    pub requests: usize,
    /// Number of operations that the queue holds, at least 1.
    pub pool_requests: u32,
    /// The exactness of the answers of insertions and removals.
    pub answers: Answers,
}

impl PioConfig {
    /// Settings with leaves of 4 pages, 64 requests together, a queue of `pool_requests` operations, and
    /// exact answers.
    pub const fn new(record: RecordFormat, pool_requests: u32) -> PioConfig {
        PioConfig {
            record,
            durability: Durability::None,
            order: None,
            leaf_pages: 4,
            requests: 64,
            pool_requests,
            answers: Answers::Exact,
        }
    }

    /// Number of operations of a queue that takes at most `bytes` bytes of RAM.
    pub fn requests_in(record: RecordFormat, bytes: usize, count: PoolCount) -> u32 {
        requests_in(record, CommitPolicy::BiggestSize, bytes, (count, false))
    }

    /// These settings in the class *none*, as published without its log. A journal above can give a higher
    /// class.
    #[must_use]
    pub const fn published(self) -> PioConfig {
        PioConfig { durability: Durability::None, ..self }
    }

    pub(super) const fn pool(&self) -> PoolSetup {
        let policy = CommitPolicy::BiggestSize;
        PoolSetup { requests: self.pool_requests, policy, answers: self.answers, pairs: Pairs::Known }
    }

    /// Bytes of RAM that the queue takes, by this way of counting.
    pub const fn pool_bytes(&self, count: PoolCount) -> usize {
        match count {
            PoolCount::Held => Pool::ram_bytes(self.record, &self.pool(), false),
            PoolCount::Record => self.pool_requests as usize * self.record.entry_bytes(),
        }
    }

    /// Most bytes of RAM that a tree takes on this store, without its queue and without the store itself.
    pub fn ram_bytes_max(&self, store: &(impl PageStore + ?Sized)) -> Result<usize, IndexError> {
        let PioSizes { directory, layout, requests } = self.published().on(store)?;
        // The directory reads so many nodes of a level together, and notes the pages of two leaves.
        let nodes = BPlusConfig::frames_bytes(requests, store.page_bytes()) + 1024;
        Ok(directory.ram_bytes_max(store)?
            + nodes
            + buffer_bytes(&layout, requests, store.page_count())
            + size_of::<SegmentTree<()>>())
    }

    pub(super) fn on(&self, store: &(impl PageStore + ?Sized)) -> Result<PioSizes, IndexError> {
        require_none(self.durability, "operations")?;
        self.pool().validate()?;
        // Leaves so large that a store which takes atomic groups takes those of a split.
        let nodes = BPlusConfig::directory(self.record.key_bytes, self.order, [0; 4])
            .group_pages_max(store.page_bytes(), store.page_count())?;
        let leaf_pages = match store.atomic_pages_max().saturating_sub(nodes) / 2 {
            0 | 1 => self.leaf_pages,
            pages => self.leaf_pages.min(pages),
        };
        let layout = LeafLayout::new(self.record, store.page_bytes(), leaf_pages)?;
        // Superblock, root and one leaf.
        let (pages, needed) = (store.page_count() as usize, 2 + layout.segments);
        if pages < needed {
            let segments = layout.segments;
            return Err(IndexError::unsupported(message!(
                "{pages} pages are too few for a leaf of {segments} pages and its directory: it takes {needed}"
            )));
        }
        if self.requests == 0 {
            return Err(IndexError::Unsupported("no request may be submitted: requests = 0".into()));
        }
        let above = [b'P', b'I', self.record.value_bytes, layout.segments as u8];
        let directory = BPlusConfig::directory(self.record.key_bytes, self.order, above);
        Ok(PioSizes { directory, layout, requests: self.requests })
    }
}

pub(super) struct PioSizes {
    pub(super) directory: BPlusConfig,
    layout: LeafLayout,
    requests: usize,
}

impl PioSizes {
    /// Largest number of leaf pages that must be written at once.
    pub(super) const fn group_pages(&self) -> usize {
        group_pages_max(&self.layout)
    }

    pub(super) fn tree<S: PageStore>(self, directory: BPlusTree<S>) -> SegmentTree<S> {
        SegmentTree::over(directory, self.layout, self.requests)
    }
}
