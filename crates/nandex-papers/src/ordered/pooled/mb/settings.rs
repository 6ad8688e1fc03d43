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

/// How an MB-tree is formatted and mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MbConfig {
    /// Sizes of the records.
    pub record: RecordFormat,
    /// The class wanted; without a journal it must be *none*.
    pub durability: Durability,
    /// Children of an inner node at most; none for what the page holds.
    pub order: Option<usize>,
    /// Pages of a leaf at most, if the header has room for so many.
    pub leaf_pages: usize,
    /// A write in reads, where each leaf has the pages that cost least; none where all may have `leaf_pages`.
    pub write_cost: Option<u32>,
    /// Requests that the batch process buffer holds, 1 or more.
    pub pool_requests: u32,
    /// The answer of an insertion or a removal.
    pub answers: Answers,
}

/// Superblock, root, and a leaf of one page.
const PAGES_MIN: u32 = 3;

impl MbConfig {
    /// Leaves of up to 8 pages by cost, a buffer of so many requests, exact answers.
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

    /// Requests of a buffer that takes at most `bytes`, each counted so.
    pub fn requests_in(record: RecordFormat, bytes: usize, count: PoolCount) -> u32 {
        requests_in(record, CommitPolicy::BiggestSize, bytes, (count, true))
    }

    /// This configuration in the class *none*, as published; a journal gives more above it.
    #[must_use]
    pub const fn published(self) -> MbConfig {
        MbConfig { durability: Durability::None, ..self }
    }

    pub(super) const fn pool(&self) -> PoolSetup {
        let policy = CommitPolicy::BiggestSize;
        PoolSetup { requests: self.pool_requests, policy, answers: self.answers, pairs: Pairs::Known }
    }

    /// Bytes of RAM that the buffer takes.
    pub const fn pool_bytes(&self, count: PoolCount) -> usize {
        match count {
            PoolCount::Held => Pool::ram_bytes(self.record, &self.pool(), true),
            PoolCount::Record => self.pool_requests as usize * self.record.entry_bytes(),
        }
    }

    /// The most RAM that a tree on `store` needs besides its buffer and what the store itself holds.
    pub fn ram_bytes_max(&self, store: &(impl PageStore + ?Sized)) -> Result<usize, IndexError> {
        let MbSizes { directory, layout, .. } = self.published().on(store)?;
        Ok(directory.ram_bytes_max(store)? + buffer_bytes(self.record, &layout) + size_of::<WideTree<()>>())
    }

    /// The tree on a store.
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

/// Sizes that follow from a configuration on a store.
pub(super) struct MbSizes {
    record: RecordFormat,
    pub(super) directory: BPlusConfig,
    layout: LeafLayout,
    write_cost: Option<u32>,
}

impl MbSizes {
    /// The most pages of leaves that are written at once.
    pub(super) const fn group_pages(&self) -> usize {
        group_pages_max(&self.layout)
    }

    pub(super) fn tree<S: PageStore>(self, directory: BPlusTree<S>) -> WideTree<S> {
        WideTree::over(directory, self.record, self.layout, self.write_cost)
    }
}
