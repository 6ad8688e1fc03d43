//! Common parts of ordered and spatial indexes: durability classes, statistics, and bounds of settings.

use crate::check::{IndexError, message};
use crate::store::PageStore;
use alloc::format;
use alloc::vec::Vec;

/// Promise of an index about a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub enum Durability {
    /// Nothing is promised. A mount after a cut reports the cut, unless nothing was changed since the last
    /// sync.
    None,
    /// After a cut the state is that of the last sync or a later one, and a prefix of the history.
    EverySync,
    /// Every acknowledged operation survives a cut.
    EveryOperation,
}

impl Durability {
    /// Name of the class in results.
    pub const fn name(self) -> &'static str {
        match self {
            Durability::None => "none",
            Durability::EverySync => "every sync",
            Durability::EveryOperation => "every operation",
        }
    }

    /// Returns the class of an index on a store, if an operation writes up to `group_pages` pages together.
    /// If the store cannot write them atomically, a cut may tear an operation, and the class is *none*.
    pub fn on(store: &(impl PageStore + ?Sized), group_pages: usize) -> Durability {
        match (store.durable_writes(), store.prefix_consistent()) {
            _ if store.atomic_pages_max() < group_pages => Durability::None,
            (true, _) => Durability::EveryOperation,
            (false, true) => Durability::EverySync,
            (false, false) => Durability::None,
        }
    }

    /// Returns the class that an index promises if this class is wanted and `given` is possible. If *none* is
    /// wanted and not every operation is durable, a mount reports a cut and does not return to an earlier
    /// state.
    pub(crate) fn promised(self, given: Durability) -> Durability {
        match (self, given) {
            (Durability::None, Durability::EverySync) => Durability::None,
            _ => given,
        }
    }

    /// Returns an error if `given`, the class of `index`, is below this one. `index` writes up to
    /// `group_pages` pages together.
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

/// Room that is left in an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct Room {
    /// Pages of the medium, or of the store below, that new records may take.
    pub pages: u64,
    /// Number of records that still go in if their keys are random: new leaves take a sixth to a half of
    /// what they can hold, on these pages and below the height that the tree can have. Hardly ever fewer go
    /// in. Ascending keys, and room in existing nodes, allow more.
    pub records: u64,
    /// Number of records that certainly find room, whatever their keys. It is lower than `records` if the
    /// tree has its greatest height and new keys could split its root, and 0 if no such bound is known.
    pub surely: u64,
}

impl Metric {
    /// A figure of this name.
    pub const fn new(name: &'static str, value: u64) -> Metric {
        Metric { name, value }
    }
}

impl Room {
    /// Room of `pages` pages for `records` records, of which `surely` certainly find a place.
    pub const fn new(pages: u64, records: u64, surely: u64) -> Room {
        Room { pages, records, surely }
    }

    /// Records that so many new leaves take beside `used` nodes, if a half-full leaf holds `half`. Under
    /// random keys leaves fill, and are divided, at about the same time. So many leaves together take half of
    /// their capacity each, but the last ones may be gone three times as fast; of large leaves, which differ
    /// less in what they hold, as fast as a root tells.
    #[doc(hidden)]
    pub fn records_of(leaves: u64, used: u64, half: u64) -> u64 {
        let used = used.max(1);
        if leaves >= used {
            return leaves * half;
        }
        let (third, together) = (half / 3, (6 * half).isqrt());
        if together >= third {
            return leaves * half / 3 + leaves * half * leaves / used * 2 / 3;
        }
        leaves * together + 2 * leaves * together * leaves / used * leaves / used
    }

    /// Room that is left after `waiting` records that are not entered yet.
    #[doc(hidden)]
    pub const fn without(self, waiting: u64) -> Room {
        let records = self.records.saturating_sub(waiting);
        Room { records, surely: self.surely.saturating_sub(waiting), ..self }
    }
}

/// A figure of the statistics of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct Metric {
    /// Name in snake case, with the unit last.
    pub name: &'static str,
    /// Value of the figure.
    pub value: u64,
}

/// Statistics of an index, which cost no access to the medium.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct IndexStats {
    /// Number of levels; 1 for a tree that is one leaf.
    pub height: u32,
    /// Number of pages of the medium that hold live data.
    pub live_pages: u64,
    /// Cache hits, in pages; 0 if there is no cache.
    pub cache_hits: u64,
    /// Cache misses, in pages.
    pub cache_misses: u64,
    /// Garbage collections: victim blocks that were reclaimed.
    pub collections: u64,
    /// Figures of this kind of index.
    pub metrics: Vec<Metric>,
}

impl IndexStats {
    /// Adds `more` to the figure `name`, if there is one.
    #[doc(hidden)]
    pub fn count_more(&mut self, name: &str, more: u64) {
        for metric in self.metrics.iter_mut().filter(|metric| metric.name == name) {
            metric.value += more;
        }
    }
}

/// Upper limits of settings that neither chip nor store limits: generous for any use, and small enough that
/// the memory for them fits a machine.
#[cfg_attr(not(feature = "unstable"), doc(hidden))]
pub mod most {
    /// Most entries of a node: one for each byte of the largest page.
    pub const NODE_ENTRIES: u64 = 1 << 16;
    /// Most pages of anything. The bound of the store is checked later.
    pub const PAGES: u64 = 1 << 28;
    /// Most bytes of a buffer.
    pub const BUFFER_BYTES: u64 = 1 << 30;
    /// Most changes of records that wait in RAM.
    pub const POOL_REQUESTS: u64 = 1 << 22;
    /// Most changes of nodes that wait in RAM.
    pub const UNITS: u64 = 1 << 20;
    /// Most bytes of RAM of an index: more than any machine has, and small enough that sums do not overflow.
    pub const RAM_BYTES: usize = if usize::BITS < 64 { 1 << 28 } else { 1 << 40 };
}

/// Checks an amount of RAM.
///
/// # Errors
///
/// [`IndexError::Unsupported`].
#[cfg_attr(not(feature = "unstable"), doc(hidden))]
pub fn require_ram(given: Option<usize>) -> Result<(), IndexError> {
    match given {
        Some(bytes) if bytes > most::RAM_BYTES => {
            let most = most::RAM_BYTES;
            Err(IndexError::unsupported(message!("ram_bytes = {bytes}: {most} at most are possible")))
        }
        _ => Ok(()),
    }
}

/// Fill of the nodes after a bulk load.
///
/// ```
/// use nandex::index::Fill;
///
/// assert_eq!(Fill::percent(70)?.of(100), 70);
/// assert!(Fill::percent(10).is_err());
/// # Ok::<(), nandex::IndexError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    percent: u8,
}

impl Fill {
    /// Full nodes. They take the fewest pages, and suit records that rarely change.
    pub const FULL: Fill = Fill { percent: 100 };

    /// Returns the fill of `percent` percent, 50 to 100. The rest of each node is left for later insertions.
    pub fn percent(percent: u8) -> Result<Fill, IndexError> {
        match percent {
            50..=100 => Ok(Fill { percent }),
            _ => {
                Err(IndexError::Unsupported(format!("nodes {percent} % full: 50 to 100 are possible").into()))
            }
        }
    }

    /// Number of entries of a node of this fill.
    pub fn of(self, capacity: usize) -> usize {
        (capacity * usize::from(self.percent) / 100).max(capacity.div_ceil(2))
    }
}
