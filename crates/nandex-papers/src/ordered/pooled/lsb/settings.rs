//! How an LSB-tree is set up.

use super::area;
use super::page::LogShape;
use super::{LogNode, LsbTree};
use crate::ordered::pooled::require_none;
use nandex::check::{IndexError, message};
use nandex::ordered::bplus::{BPlusConfig, Underflow};
use nandex::ordered::{Durability, RecordFormat};
use nandex::store::PageStore;

/// Log nodes in RAM.
const LOG_NODES: u32 = 8;

/// Log nodes in RAM at most.
const LOG_NODES_MAX: u32 = 1 << 16;

/// Entries of a log node, for an estimate before the page is known.
const ENTRIES_TYPICAL: u64 = 256;

/// How an LSB-tree is formatted and mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LsbConfig {
    /// The tree. A leaf has no more entries than a log page, and nodes are expelled once they are empty.
    pub tree: BPlusConfig,
    /// Lb: log nodes in RAM.
    pub log_nodes: u32,
    /// Log pages of the store; `None` means a quarter of its pages.
    pub log_pages: Option<u32>,
    /// Bytes of RAM in which a mount after a cut sorts out what the log pages say: with fewer it reads them
    /// more often. `None` means as many as all take.
    pub merge_ram: Option<usize>,
}

impl LsbConfig {
    /// Eight log nodes.
    pub const fn new(record: RecordFormat) -> LsbConfig {
        let tree = BPlusConfig::new(record).with_durability(Durability::None);
        LsbConfig { tree, log_nodes: LOG_NODES, log_pages: None, merge_ram: None }
    }

    /// This configuration in the class *none*, as published; a journal gives more above it.
    #[must_use]
    pub const fn published(self) -> LsbConfig {
        LsbConfig { tree: self.tree.with_durability(Durability::None), ..self }
    }

    /// Updates that wait in RAM at most, about.
    pub(super) fn waiting_updates(&self) -> u64 {
        u64::from(self.log_nodes) * ENTRIES_TYPICAL
    }

    /// Sizes that follow on a store: the tree, its pages and those of the log.
    pub(super) fn on(&self, store: &(impl PageStore + ?Sized)) -> Result<LsbSizes, IndexError> {
        require_none(self.tree.durability, "log nodes")?;
        if !(1..=LOG_NODES_MAX).contains(&self.log_nodes) {
            let what = message!("log_nodes = {}: 1 to {LOG_NODES_MAX} are possible", self.log_nodes);
            return Err(IndexError::Unsupported(what.into()));
        }
        let (page_bytes, pages) = (store.page_bytes(), store.page_count());
        let log_pages = self.log_pages.unwrap_or(pages / 4).max(1);
        if log_pages > pages.saturating_sub(2) {
            let what = message!("log_pages = {log_pages}: the store has {pages} pages");
            return Err(IndexError::Unsupported(what.into()));
        }
        let possible = LogShape::entries_max(self.tree.record, page_bytes);
        let fitting = self.tree.leaf_capacity_on(store)?;
        if self.tree.leaf_capacity.is_some_and(|entries| entries > possible) || possible < 2 {
            let what =
                message!("leaves of {fitting} entries: 2 to {possible} are possible, as a log page has");
            return Err(IndexError::Unsupported(what.into()));
        }
        let entries = fitting.min(possible);
        let tree = BPlusConfig { leaf_capacity: Some(entries), underflow: Underflow::Expel, ..self.tree };
        Ok(LsbSizes {
            tree,
            shape: LogShape::new(self.tree.record, entries),
            slices: [pages - log_pages, log_pages],
        })
    }

    /// The most RAM that the index needs on a store besides what the store itself holds.
    pub fn ram_bytes_max(&self, store: &(impl PageStore + ?Sized)) -> Result<usize, IndexError> {
        let plan = self.published().on(store)?;
        let node = store.page_bytes() + size_of::<LogNode>() + 2 * usize::from(self.tree.record.key_bytes);
        let area = area::ram_bytes_max(plan.slices[1] as usize);
        // A vector that grows by doubling holds up to twice what is in it.
        let nodes = self.log_nodes as usize * (node + size_of::<LogNode>()) + store.page_bytes();
        Ok(plan.tree.ram_bytes_max(store)? + area + nodes + size_of::<LsbTree<()>>() + 256)
    }
}

/// Sizes that follow from a configuration on a store.
pub(super) struct LsbSizes {
    pub(super) tree: BPlusConfig,
    pub(super) shape: LogShape,
    pub(super) slices: [u32; 2],
}
