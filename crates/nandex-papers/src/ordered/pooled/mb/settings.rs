//! How an MB-tree is set up.

use super::page::LeafLayout;
use super::tree::{WideTree, buffer_bytes, group_pages_max};
use crate::ordered::lazy_update::{CommitPolicy, Pairs, Pool, PoolCount, PoolSetup, requests_in};
use crate::ordered::pooled::require_none;
use nandex::check::{IndexError, message};
use nandex::ordered::bplus::{BPlusConfig, BPlusTree};
use nandex::ordered::buffered::Answers;
use nandex::ordered::{Durability, RecordFormat};
use nandex::store::PageStore;

/// The settings of an MB-tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MbConfig {
    /// The sizes of keys and values.
    pub record: RecordFormat,
    /// The durability class. Without a journal it must be *none*.
    pub durability: Durability,
    /// Largest number of children of an inner node. `None` means as many as fit into the page.
    pub order: Option<usize>,
    /// Largest number of pages of a leaf; fewer if the header has no room for them.
    pub leaf_pages: usize,
    /// Cost of a page write in page reads, to give each leaf the number of pages that costs least. `None`
    /// allows every leaf `leaf_pages` pages.
    pub write_cost: Option<u32>,
    /// Number of requests that the batch process buffer holds, at least 1.
    pub pool_requests: u32,
    /// The exactness of the answers of insertions and removals.
    pub answers: Answers,
}

/// Pages of the smallest tree: superblock, root, and a leaf of one page.
const PAGES_MIN: u32 = 3;

impl MbConfig {
    /// Settings with leaves of up to 8 pages by cost, a buffer of `pool_requests` requests, and exact
    /// answers.
    pub const fn new(record: RecordFormat, pool_requests: u32) -> MbConfig {
        MbConfig {
            record,
            durability: Durability::None,
            order: None,
            leaf_pages: 8,
            write_cost: Some(3),
            pool_requests,
            answers: Answers::Exact,
        }
    }

    /// Number of requests of a buffer that takes at most `bytes` bytes of RAM.
    pub fn requests_in(record: RecordFormat, bytes: usize, count: PoolCount) -> u32 {
        requests_in(record, CommitPolicy::BiggestSize, bytes, (count, true))
    }

    /// These settings in the class *none*, as published. A journal above can give a higher class.
    #[must_use]
    pub const fn published(self) -> MbConfig {
        MbConfig { durability: Durability::None, ..self }
    }

    pub(super) const fn pool(&self) -> PoolSetup {
        let policy = CommitPolicy::BiggestSize;
        PoolSetup { requests: self.pool_requests, policy, answers: self.answers, pairs: Pairs::Known }
    }

    /// Bytes of RAM that the buffer takes, by this way of counting.
    pub const fn pool_bytes(&self, count: PoolCount) -> usize {
        match count {
            PoolCount::Held => Pool::ram_bytes(self.record, &self.pool(), true),
            PoolCount::Record => self.pool_requests as usize * self.record.entry_bytes(),
        }
    }

    /// Most bytes of RAM that a tree takes on this store, without its buffer and without the store itself.
    pub fn ram_bytes_max(&self, store: &(impl PageStore + ?Sized)) -> Result<usize, IndexError> {
        let MbSizes { directory, layout, .. } = self.published().on(store)?;
        Ok(directory.ram_bytes_max(store)? + buffer_bytes(self.record, &layout) + size_of::<WideTree<()>>())
    }

    pub(super) fn on(&self, store: &(impl PageStore + ?Sized)) -> Result<MbSizes, IndexError> {
        require_none(self.durability, "requests")?;
        self.pool().validate()?;
        // Leaves so large that a store which takes atomic groups takes those of a split.
        let nodes = BPlusConfig::directory(self.record.key_bytes, self.order, [0; 4])
            .group_pages_max(store.page_bytes(), store.page_count())?;
        let atomic = match store.atomic_pages_max().saturating_sub(nodes + 1) / 2 {
            0 => self.leaf_pages,
            pages => self.leaf_pages.min(pages),
        };
        let layout = LeafLayout::new(self.record, store.page_bytes(), atomic)?;
        let pages = store.page_count();
        if pages < PAGES_MIN {
            return Err(IndexError::unsupported(message!(
                "{pages} pages are too few for a leaf and its directory: it takes {PAGES_MIN}"
            )));
        }
        let above = [b'M', b'B', self.record.value_bytes, layout.pages_max as u8];
        let directory = BPlusConfig::directory(self.record.key_bytes, self.order, above);
        Ok(MbSizes { record: self.record, directory, layout, write_cost: self.write_cost })
    }
}

pub(super) struct MbSizes {
    record: RecordFormat,
    pub(super) directory: BPlusConfig,
    layout: LeafLayout,
    write_cost: Option<u32>,
}

impl MbSizes {
    /// Largest number of leaf pages written at once.
    pub(super) const fn group_pages(&self) -> usize {
        group_pages_max(&self.layout)
    }

    pub(super) fn tree<S: PageStore>(self, directory: BPlusTree<S>) -> WideTree<S> {
        WideTree::over(directory, self.record, self.layout, self.write_cost)
    }
}
