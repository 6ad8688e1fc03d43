//! The common ground of ordered and spatial indexes: durability classes, what they tell of themselves, and
//! bounds of what is set.

use crate::check::{IndexError, message};
use crate::store::PageStore;
use alloc::format;
use alloc::vec::Vec;

/// Promise of an index about a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Nothing: a mount after a cut reports it, unless nothing was changed since the last sync.
    None,
    /// The state at the last sync, or a later one that is a prefix of the history.
    EverySync,
    /// Acknowledged means durable.
    EveryOperation,
}

impl Durability {
    /// The name used in results.
    pub const fn name(self) -> &'static str {
        match self {
            Durability::None => "none",
            Durability::EverySync => "every sync",
            Durability::EveryOperation => "every operation",
        }
    }

    /// The class of an index on a store where an operation writes up to `group_pages` together. Where the
    /// store cannot take them atomically a cut tears an operation, and nothing is promised.
    pub fn on(store: &(impl PageStore + ?Sized), group_pages: usize) -> Durability {
        match (store.durable_writes(), store.prefix_consistent()) {
            _ if store.atomic_pages_max() < group_pages => Durability::None,
            (true, _) => Durability::EveryOperation,
            (false, true) => Durability::EverySync,
            (false, false) => Durability::None,
        }
    }

    /// The class that an index promises of which this one is wanted and which could give the other. Where
    /// *none* is wanted and not every operation lasts, a cut is told rather than an earlier state given back.
    pub(crate) fn promised(self, given: Durability) -> Durability {
        match (self, given) {
            (Durability::None, Durability::EverySync) => Durability::None,
            _ => given,
        }
    }

    /// Refuses to give less than this class: `given` is what `index`, which writes up to `group_pages`
    /// together, comes to.
    pub(crate) fn require(
        self,
        given: Durability,
        index: &str,
        store: &(impl PageStore + ?Sized),
        group_pages: usize,
    ) -> Result<(), IndexError> {
        if given >= self {
            return Ok(());
        }
        Err(IndexError::unsupported(message!(
            "durability '{}' is wanted, but {index} on this store gives '{}': an operation writes up to {group_pages} pages \
             and the store takes {} atomically; its writes are {}durable at once and {} in order",
            self.name(),
            given.name(),
            store.atomic_pages_max(),
            if store.durable_writes() { "" } else { "not " },
            if store.prefix_consistent() { "survive" } else { "do not survive" },
        )))
    }
}

/// The room that is left in an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Pages of the medium, or of the store below, that new records may take.
    pub pages: u64,
    /// Records for which they do if the nodes to come are half full, as random keys leave them at worst.
    /// Records with ascending keys, and those that existing nodes still take, come on top.
    pub records: u64,
    /// Records that surely find a place in the shape of the index, whatever their keys: fewer where a tree is
    /// as high as its pages let it be and their keys may all divide its root.
    pub surely: u64,
}

impl Room {
    /// The room that is left beside so many records that wait to be entered.
    #[doc(hidden)]
    pub const fn without(self, waiting: u64) -> Room {
        let records = self.records.saturating_sub(waiting);
        Room { records, surely: self.surely.saturating_sub(waiting), ..self }
    }
}

/// One figure that an index tells about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name of the figure, in snake case, unit last.
    pub name: &'static str,
    /// The figure.
    pub value: u64,
}

/// Figures of an index, told without touching the medium.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexStats {
    /// Levels from leaf to root; a tree of one leaf has height 1.
    pub height: u32,
    /// Pages of the medium that hold live data.
    pub live_pages: u64,
    /// Cache hits, page granular; 0 where there is no cache.
    pub cache_hits: u64,
    /// Cache misses.
    pub cache_misses: u64,
    /// Garbage collections: victim blocks reclaimed.
    pub collections: u64,
    /// Figures of this index alone.
    pub metrics: Vec<Metric>,
}

impl IndexStats {
    /// Counts more under a name that is there already.
    #[doc(hidden)]
    pub fn count_more(&mut self, name: &str, more: u64) {
        for metric in self.metrics.iter_mut().filter(|metric| metric.name == name) {
            metric.value += more;
        }
    }
}

/// The largest numbers that may be set where neither chip nor store sets a bound: generous for any use, and
/// small enough that what is allocated for them fits a machine.
pub mod most {
    /// Entries of a node: one for each byte of the largest page.
    pub const NODE_ENTRIES: u64 = 1 << 16;
    /// Pages of anything; what the store has is seen later.
    pub const PAGES: u64 = 1 << 28;
    /// Bytes of a buffer.
    pub const BUFFER_BYTES: u64 = 1 << 30;
    /// Changes of records that wait in RAM.
    pub const POOL_REQUESTS: u64 = 1 << 22;
    /// Changes of nodes that wait in RAM.
    pub const UNITS: u64 = 1 << 20;
    /// Bytes of RAM that an index is given: more than any machine has, and sums of shares do not overflow.
    pub const RAM_BYTES: usize = if usize::BITS < 64 { 1 << 28 } else { 1 << 40 };
}

/// Refuses more RAM than [`most::RAM_BYTES`], wherever an amount of it enters.
///
/// # Errors
///
/// [`IndexError::Unsupported`].
pub fn require_ram(given: Option<usize>) -> Result<(), IndexError> {
    match given {
        Some(bytes) if bytes > most::RAM_BYTES => {
            let most = most::RAM_BYTES;
            Err(IndexError::unsupported(message!("ram_bytes = {bytes}: {most} at most are possible")))
        }
        _ => Ok(()),
    }
}

/// How full a bulk load leaves the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    percent: u8,
}

impl Fill {
    /// Full nodes: the fewest pages, for records that rarely change.
    pub const FULL: Fill = Fill { percent: 100 };

    /// Nodes full to 50 to 100 percent, which leaves the rest for insertions to come.
    pub fn percent(percent: u8) -> Result<Fill, IndexError> {
        match percent {
            50..=100 => Ok(Fill { percent }),
            _ => {
                Err(IndexError::Unsupported(format!("nodes {percent} % full: 50 to 100 are possible").into()))
            }
        }
    }

    /// Entries of a node filled like this.
    pub fn of(self, capacity: usize) -> usize {
        (capacity * usize::from(self.percent) / 100).max(capacity.div_ceil(2))
    }
}
