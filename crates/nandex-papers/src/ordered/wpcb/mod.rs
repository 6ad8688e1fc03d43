//! WPCB-tree: a B+-tree whose nodes gather in buffer blocks on flash before they reach the FTL in ascending
//! runs.
//!
//! V. P. Ho and D.-J. Park, "WPCB-Tree: A Novel Flash-Aware B-Tree Index Using a Write Pattern Converter",
//! Symmetry 10, 2018. The tree is the one of [`nandex::ordered::bplus`] by other rules, on a Transit Buffer
//! Manager ([`crate::ftl::tbm`]), which holds TBM, write pattern converter and Summary table of the paper:
//!
//! ```text
//!  tree    one node per page, written when it changes
//!   | write group                        ^ read: the newest page; a page cache between, if wanted, holds no write back
//!  TBM     buffer block per LBN, Summary table; full -> converter
//!   | ascending runs of newest pages     ^ read
//!  FTL     any
//! ===========================================================
//!  chip    | blocks of the FTL                 | C + spare |
//! ```
//!
//! - *get*, *range* read a page per level, each from its buffer block or from the FTL as the Summary table
//!   says.
//! - *insert* writes the leaf. A full leaf is split in halves; but if its keys are contiguous and the new one
//!   lies beyond them, it stays whole and is not written, and the new record starts a leaf of its own.
//! - *remove* writes the leaf. Nodes are neither merged nor evened out; an empty one is expelled from its
//!   parent, which may become empty in turn, and a root left with one child takes over the child's contents.
//!
//! # Durability
//!
//! *Every operation*, over any FTL: a page in a buffer block is durable, and the pages of one operation are a
//! group of the TBM, of which a cut leaves all or none. In RAM are the Summary table, one page to convert
//! with, and the path. Mounting merges all buffer blocks, as the paper has it.
//!
//! # Invariants
//!
//! Those of the tree (B1 to B7, by the rule that nodes are not empty) and of the TBM (K1 to K4);
//! [`WpcbTree::check`] walks both.
//!
//! # Deviations
//!
//! The paper's Figure 7 calls LPN 3 of blocks with 4 pages "LBN 3, buffer block 0"; its LBN is 0. Overflow
//! without split spares the full leaf's write, as in Figure 8, but not that of the parent, which equation (2)
//! leaves out. What a root does that is left with one child, the paper does not say. A tree is at most one
//! level higher than half-full nodes would make it. Section 6.2 has full leaves "directly written into
//! flash"; here they go to the buffer unless [`FullNodes::Direct`] is asked for. The TBM must have as many
//! buffer blocks as the largest operation writes pages.

mod settings;
#[cfg(test)]
mod tests;

pub use settings::{FullNodes, WpcbConfig};

use crate::ftl::tbm::{Tbm, TbmCounters};
use alloc::boxed::Box;
use nandex::cache::{CacheConfig, Lru, PageCache, Replacement, WriteMode};
use nandex::check::{CheckReport, IndexError};
use nandex::nand::{BlockRange, Nand};
use nandex::ordered::bplus::BPlusTree;
use nandex::ordered::{IndexStats, Metric, OrderedIndex};
use nandex::store::PageStore;

/// A WPCB-tree over a store, with buffer blocks on a range of a chip and a page cache of any size, also 0.
pub struct WpcbTree<S, N, P = Lru> {
    tree: BPlusTree<PageCache<Tbm<S, N>, P>>,
}

impl<S: PageStore, N: Nand> WpcbTree<S, N> {
    /// Makes an empty tree, without a cache; whatever the store held is dropped, and the blocks are erased.
    pub fn format(
        store: S,
        blocks: BlockRange<N>,
        config: &WpcbConfig,
    ) -> Result<WpcbTree<S, N>, IndexError> {
        WpcbTree::format_cached(store, blocks, config, (Lru::new(0), 0))
    }

    /// Opens the tree that a store and its blocks hold, without a cache. The power may have been cut.
    pub fn mount(store: S, blocks: BlockRange<N>, config: &WpcbConfig) -> Result<WpcbTree<S, N>, IndexError> {
        WpcbTree::mount_cached(store, blocks, config, (Lru::new(0), 0))
    }
}

impl<S: PageStore, N: Nand, P: Replacement> WpcbTree<S, N, P> {
    /// Formats as [`WpcbTree::format`], with a write-through cache of `pages` pages under this policy.
    #[doc(hidden)]
    pub fn format_cached(
        store: S,
        blocks: BlockRange<N>,
        config: &WpcbConfig,
        cache: (P, usize),
    ) -> Result<WpcbTree<S, N, P>, IndexError> {
        let tbm = Tbm::format(store, blocks, &config.tbm)?;
        Ok(WpcbTree { tree: BPlusTree::format(cached(tbm, cache), &config.tree)? }.by(config.full_nodes))
    }

    /// Mounts as [`WpcbTree::mount`], with a write-through cache of `pages` pages under this policy.
    #[doc(hidden)]
    pub fn mount_cached(
        store: S,
        blocks: BlockRange<N>,
        config: &WpcbConfig,
        cache: (P, usize),
    ) -> Result<WpcbTree<S, N, P>, IndexError> {
        let tbm = Tbm::mount(store, blocks, &config.tbm)?;
        let tree = BPlusTree::mount(cached(tbm, cache), &config.tree).map_err(IndexError::in_layer)?;
        Ok(WpcbTree { tree }.by(config.full_nodes))
    }

    fn by(mut self, full_nodes: FullNodes) -> WpcbTree<S, N, P> {
        if full_nodes == FullNodes::Direct {
            let rule = self.tree.full_leaves();
            self.tree.store_mut().store_mut().write_directly(Box::new(rule));
        }
        self
    }

    /// The TBM below the tree, which has the store.
    pub fn tbm(&self) -> &Tbm<S, N> {
        self.tree.store().store()
    }

    /// Takes the tree apart into the store and the blocks. Nothing is written first, as in a power cut.
    pub fn into_parts(self) -> (S, BlockRange<N>) {
        self.tree.into_store().into_store().into_parts()
    }
}

fn cached<S: PageStore, P: Replacement>(tbm: S, (policy, frames): (P, usize)) -> PageCache<S, P> {
    let config = CacheConfig { frames, mode: WriteMode::Through, dirty_frames_max: None };
    PageCache::new(tbm, policy, config)
}

impl<S: PageStore, N: Nand, P: Replacement> OrderedIndex for WpcbTree<S, N, P> {
    nandex::forward_index!(tree: record, durability, get, insert, remove, load, range, sync, close, ram_bytes);
    nandex::forward_index!(tree: maintain, scrub, free, records_max);

    fn check(&mut self) -> Result<CheckReport, IndexError> {
        let mut report = self.tree.check()?;
        report.violations.extend(self.tree.store_mut().store_mut().check()?.violations);
        Ok(report)
    }

    fn stats(&self) -> IndexStats {
        let metric = |name, value| Metric { name, value };
        let (mut stats, nodes, below) = (self.tree.stats(), self.tree.counts(), self.tbm().stats());
        let TbmCounters { page_writes, buffer_reads, store_reads, conversions, victims, .. } =
            self.tbm().counters();
        let TbmCounters { converted_pages, dropped_pages, replaced_blocks, .. } = self.tbm().counters();
        let (buffer_blocks, buffer_pages) = (self.tbm().buffer_blocks())
            .fold((0, 0), |(blocks, pages), buffer| (blocks + 1, pages + u64::from(buffer.2)));
        let filled = stats.live_pages.div_ceil(u64::from(self.tbm().range().geometry().pages_per_block));
        stats.metrics = alloc::vec![
            metric("blocks_used", filled + buffer_blocks),
            metric("splits", nodes.splits),
            metric("overflows", nodes.overflows),
            metric("expelled", nodes.merges),
            metric("node_reads", buffer_reads + store_reads),
            metric("buffer_reads", buffer_reads),
            metric("node_writes", page_writes),
            metric("buffer_blocks", buffer_blocks),
            metric("buffer_pages", buffer_pages),
            metric("conversions", conversions),
            metric("victims", victims),
            metric("converted_pages", converted_pages),
            metric("dropped_pages", dropped_pages),
            metric("replaced_blocks", replaced_blocks),
            metric("relocations", below.moved_pages),
        ];
        if self.tbm().direct_pages() > 0 {
            stats.metrics.push(metric("direct_pages", self.tbm().direct_pages()));
        }
        if below.log_blocks > 0 {
            stats.metrics.push(metric("log_blocks", below.log_blocks));
        }
        stats
    }
}
