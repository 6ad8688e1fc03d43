//! How an LSB-tree is set up.

use super::area;
use super::page::LogShape;
use super::{LogNode, LsbTree};
use crate::ordered::pooled::require_none;
use nandex::check::{IndexError, message};
use nandex::ordered::bplus::{BPlusConfig, Underflow};
use nandex::ordered::{Durability, RecordFormat};
use nandex::store::PageStore;

/// Default number of open log nodes (Lb).
const LOG_NODES: u32 = 8;

/// Most open log nodes (Lb).
const LOG_NODES_MAX: u32 = 1 << 16;

/// Entries of a log node, as an estimate before the page size is known.
const ENTRIES_TYPICAL: u64 = 256;

/// The settings of an LSB-tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LsbConfig {
    /// The settings of the tree. A leaf has at most the entries of a log page, and empty nodes are
    /// expelled.
    pub tree: BPlusConfig,
    /// Lb: number of log nodes in RAM.
    pub log_nodes: u32,
    /// Number of log pages of the store. `None` means a quarter of its pages.
    pub log_pages: Option<u32>,
    /// Bytes of RAM in which a mount after a cut sorts the changes of the log pages. With fewer bytes it
    /// reads the pages several times. `None` means enough for all changes.
    pub merge_ram: Option<usize>,
}

impl LsbConfig {
    /// Settings with eight log nodes.
    pub const fn new(record: RecordFormat) -> LsbConfig {
        let tree = BPlusConfig::new(record).with_durability(Durability::None);
        LsbConfig { tree, log_nodes: LOG_NODES, log_pages: None, merge_ram: None }
    }

    /// These settings in the class *none*, as published. A journal above can give a higher class.
    #[must_use]
    pub const fn published(self) -> LsbConfig {
        LsbConfig { tree: self.tree.with_durability(Durability::None), ..self }
    }

    /// Approximate largest number of updates that wait in RAM.
    pub(super) fn waiting_updates(&self) -> u64 {
        u64::from(self.log_nodes) * ENTRIES_TYPICAL
    }

    /// The sizes of tree and log on this store.
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

    /// Bytes of RAM that the index takes at most on this store. The store itself is not counted.
    pub fn ram_bytes_max(&self, store: &(impl PageStore + ?Sized)) -> Result<usize, IndexError> {
        let plan = self.published().on(store)?;
        let node = store.page_bytes() + size_of::<LogNode>() + 2 * usize::from(self.tree.record.key_bytes);
        let area = area::ram_bytes_max(plan.slices[1] as usize);
        // A vector that grows by doubling holds up to twice what is in it.
        let nodes = self.log_nodes as usize * (node + size_of::<LogNode>()) + store.page_bytes();
        Ok(plan.tree.ram_bytes_max(store)? + area + nodes + size_of::<LsbTree<()>>() + 256)
    }
}

pub(super) struct LsbSizes {
    pub(super) tree: BPlusConfig,
    pub(super) shape: LogShape,
    pub(super) slices: [u32; 2],
}
