//! The shapes of the lists: what an entry says of an index or of an FTL, and how it opens one.

use crate::forest::TreeShare;
use crate::names::OptionInfo;
use crate::options::Settings;
use nandex::{IndexError, Nand, OrderedIndex, PageStore, StoreError};

/// The ground of stores and trees: a chip or a disk.
pub enum Ground {
    /// A chip, which an FTL makes pages of.
    Chip(Box<dyn Nand>),
    /// A hard disk, which has pages of its own.
    Disk(Box<dyn PageStore>),
}

/// The hosting of an index: what it stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hosting {
    /// Raw NAND: the index places its pages itself.
    Raw,
    /// Logical pages: an FTL, with a page cache where RAM is left for one.
    Store,
}

impl Hosting {
    /// The name used in results.
    pub const fn name(self) -> &'static str {
        match self {
            Hosting::Raw => "raw",
            Hosting::Store => "store",
        }
    }
}

/// Whether something is made anew or found again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// Made anew on a chip whose contents do not matter.
    Format,
    /// Found again on a chip that holds it.
    Mount,
    /// Found again as a power cut left it, by an index that promises nothing after one.
    MountAfterCut,
}

/// Makes an index on a chip, or finds it again.
pub type OpenIndex = fn(Box<dyn Nand>, &Settings) -> Result<Box<dyn OrderedIndex>, IndexError>;

/// Makes several trees on one chip, each with its number: cuts the store with [`crate::forest::share_store`]
/// and formats a tree on each slice.
pub type OpenForest = fn(Box<dyn Nand>, &Settings, &[TreeShare]) -> Result<NumberedTrees, IndexError>;

/// Trees of a forest, each with its number.
pub type NumberedTrees = Vec<(u8, Box<dyn OrderedIndex>)>;

/// Makes a store on a chip, or finds it again.
pub type OpenStore = fn(Box<dyn Nand>, &Settings) -> Result<Box<dyn PageStore>, StoreError>;

/// A demand of an index that not every chip or workload meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Keys come in ascending order only, and none is removed: the upper bound where keys come that way.
    AscendingKeys,
    /// Pages are overwritten in place: NOR flash.
    Overwriting,
}

/// The contents of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Records of one size: an ordered index.
    Records,
    /// Keys and values of any length, in pieces that are records of the index below.
    Pieces,
    /// Keys and values of any length, long values in a log of their own. The log keeps each key by itself:
    /// after a power cut one may be newer than another, see [`nandex::ordered::value_log`].
    LongValues,
    /// Readings by time, which are appended; the oldest go by themselves.
    Readings,
}

impl Holds {
    /// The words used in lists.
    pub const fn name(self) -> &'static str {
        match self {
            Holds::Records => "records",
            Holds::Pieces => "values in pieces",
            Holds::LongValues => "values in a log",
            Holds::Readings => "readings",
        }
    }

    /// Whether values have any length.
    pub const fn any_length(self) -> bool {
        matches!(self, Holds::Pieces | Holds::LongValues)
    }
}

/// An index the lab can run.
#[derive(Clone, Copy, Debug)]
pub struct IndexEntry {
    /// The index's name on the command line and in results.
    pub name: &'static str,
    /// The index in one line.
    pub summary: &'static str,
    /// How well the sources of the index pin it down.
    pub confidence: Confidence,
    /// The sources, and the parts that are ours.
    pub basis: &'static str,
    /// Demands that chip and workload must meet.
    pub needs: &'static [Need],
    /// The parts that it has besides nodes: each is something to understand, to configure and to test. Fewer
    /// are simpler.
    pub parts: &'static [&'static str],
    /// The hosting of the index.
    pub hosting: Hosting,
    /// The contents of the index.
    pub holds: Holds,
    /// Makes an empty index on a chip whose contents do not matter.
    pub format: OpenIndex,
    /// Finds the index on a chip that holds one.
    pub mount: OpenIndex,
    /// Opens what a power cut left of one that promises nothing, with each key at its value of the last sync
    /// or a later one; None for an index that cannot. Where the FTL cannot keep it whole, as `mount`.
    pub mount_after_cut: Option<OpenIndex>,
    /// Makes several such trees that share one store; None for an index that owns the whole chip.
    pub forest: Option<OpenForest>,
    /// Whether its operations are atomic over any FTL, because it divides the chip with the FTL and writes to
    /// blocks of its own first; else, on a store, they are where the FTL writes several pages at once.
    pub divides_chip: bool,
    /// The options it understands; for one on a store, those of its stores and caches too.
    pub options: &'static [OptionInfo],
    /// For a tree on raw NAND: the same and those of every FTL, for when one is put beneath it. See
    /// [`IndexEntry::known`].
    pub options_on_ftl: &'static [OptionInfo],
}

/// How well the sources pin a system down, and with them our version of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confidence {
    /// Described completely, or read in several realisations.
    High,
    /// The path of the data is known, something else is ours.
    Medium,
    /// Built from abstracts and short descriptions: our reading.
    Low,
}

impl Confidence {
    /// The word used in lists.
    pub const fn name(self) -> &'static str {
        match self {
            Confidence::High => "high",
            Confidence::Medium => "medium",
            Confidence::Low => "low",
        }
    }
}

/// An FTL the lab can run.
#[derive(Clone, Copy, Debug)]
pub struct StoreEntry {
    /// The store's name on the command line and in results.
    pub name: &'static str,
    /// The store in one line.
    pub summary: &'static str,
    /// How well its sources pin it down.
    pub confidence: Confidence,
    /// The sources, and the parts that are ours.
    pub basis: &'static str,
    /// The parts that it has, as [`IndexEntry::parts`].
    pub parts: &'static [&'static str],
    /// Whether it writes several pages at once, all or none.
    pub is_atomic: bool,
    /// Makes an empty store on a chip whose contents do not matter.
    pub format: OpenStore,
    /// Finds the store on a chip that holds one.
    pub mount: OpenStore,
    /// The options it understands.
    pub options: &'static [OptionInfo],
}
