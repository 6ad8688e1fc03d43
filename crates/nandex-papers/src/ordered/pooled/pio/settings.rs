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

/// How a PIO B-tree is formatted and mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PioConfig {
    /// Sizes of the records.
    pub record: RecordFormat,
    /// The class wanted; without a journal it must be *none*.
    pub durability: Durability,
    /// Children of an inner node at most; none for what the page holds.
    pub order: Option<usize>,
    /// L: pages of a leaf.
    pub leaf_pages: usize,
    /// PioMax: requests that are submitted together at most.
    pub requests: usize,
    /// Operations that the queue holds, 1 or more.
    pub pool_requests: u32,
    /// The answer of an insertion or a removal.
    pub answers: Answers,
}

impl PioConfig {
    /// Leaves of 4 pages, 64 requests together, a queue of so many operations, exact answers.
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

    /// Requests of a queue that takes at most `bytes`, each counted so.
    pub fn requests_in(record: RecordFormat, bytes: usize, count: PoolCount) -> u32 {
        requests_in(record, CommitPolicy::BiggestSize, bytes, (count, false))
    }

    /// This configuration in the class *none*, as published without its log; a journal gives more above it.
    #[must_use]
    pub const fn published(self) -> PioConfig {
        PioConfig { durability: Durability::None, ..self }
    }

    pub(super) const fn pool(&self) -> PoolSetup {
        let policy = CommitPolicy::BiggestSize;
        PoolSetup { requests: self.pool_requests, policy, answers: self.answers, pairs: Pairs::Known }
    }

    /// Bytes of RAM that the queue takes.
    pub const fn pool_bytes(&self, count: PoolCount) -> usize {
        match count {
            PoolCount::Held => Pool::ram_bytes(self.record, &self.pool(), false),
            PoolCount::Record => self.pool_requests as usize * self.record.entry_bytes(),
        }
    }

    /// The most RAM that a tree on `store` needs besides its queue and what the store itself holds.
    pub fn ram_bytes_max(&self, store: &(impl PageStore + ?Sized)) -> Result<usize, IndexError> {
        let PioSizes { directory, layout, requests } = self.published().on(store)?;
        // The directory reads so many nodes of a level together, and notes the pages of two leaves.
        let nodes = BPlusConfig::frames_bytes(requests, store.page_bytes()) + 1024;
        Ok(directory.ram_bytes_max(store)?
            + nodes
            + buffer_bytes(&layout, requests, store.page_count())
            + size_of::<SegmentTree<()>>())
    }

    /// The tree on a store.
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

/// Sizes that follow from a configuration on a store.
pub(super) struct PioSizes {
    pub(super) directory: BPlusConfig,
    layout: LeafLayout,
    requests: usize,
}

impl PioSizes {
    /// The most pages of leaves that must be written at once.
    pub(super) const fn group_pages(&self) -> usize {
        group_pages_max(&self.layout)
    }

    pub(super) fn tree<S: PageStore>(self, directory: BPlusTree<S>) -> SegmentTree<S> {
        SegmentTree::over(directory, self.layout, self.requests)
    }
}
