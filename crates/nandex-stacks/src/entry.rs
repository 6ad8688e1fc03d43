//! Entries of the lists: the facts of an index or an FTL, and the functions that open it.

use crate::forest::TreeShare;
use crate::names::OptionInfo;
use crate::options::Settings;
use nandex::{IndexError, Nand, OrderedIndex, PageStore, StoreError};

/// The medium below a store or tree.
pub enum Ground {
    /// A chip; an FTL turns it into pages.
    Chip(Box<dyn Nand>),
    /// A hard disk, which has pages of its own.
    Disk(Box<dyn PageStore>),
}

/// The medium that an index is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hosting {
    /// Raw NAND; the index places its pages itself.
    Raw,
    /// Logical pages of an FTL, with a page cache if RAM is left for one.
    Store,
}

impl Hosting {
    /// The name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Hosting::Raw => "raw",
            Hosting::Store => "store",
        }
    }
}

/// Whether an index or store is made anew or mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// Makes it anew; the contents of the chip are ignored.
    Format,
    /// Mounts the index or FTL that is on the chip.
    Mount,
    /// Mounts it after a power cut although its class promises nothing after one.
    MountAfterCut,
}

/// Makes an index on a chip, or mounts it.
pub type OpenIndex = fn(Box<dyn Nand>, &Settings) -> Result<Box<dyn OrderedIndex>, IndexError>;

/// Makes several numbered trees on one chip: cuts the store with [`crate::forest::share_store`] and formats
/// a tree on each slice.
pub type OpenForest = fn(Box<dyn Nand>, &Settings, &[TreeShare]) -> Result<NumberedTrees, IndexError>;

/// The trees of a forest with their numbers.
pub type NumberedTrees = Vec<(u8, Box<dyn OrderedIndex>)>;

/// Makes a store on a chip, or mounts it.
pub type OpenStore = fn(Box<dyn Nand>, &Settings) -> Result<Box<dyn PageStore>, StoreError>;

/// A demand of an index that not every chip or workload meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Keys must come in ascending order, and none is removed. Such an index is the upper bound for
    /// ascending keys.
    AscendingKeys,
    /// Pages must be overwritten in place, as on NOR flash.
    Overwriting,
}

/// The kind of data that an index holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Records of one size, as in an ordered index.
    Records,
    /// Keys and values of any length, in pieces that are records of the index below.
    Pieces,
    /// Keys and values of any length, with long values in a separate log. The log keeps each key by itself:
    /// after a power cut one may be newer than another, see [`nandex::ordered::value_log`].
    LongValues,
    /// Readings in order of time. New ones are appended, and the oldest are dropped automatically.
    Readings,
}

impl Holds {
    /// The words for lists.
    pub const fn name(self) -> &'static str {
        match self {
            Holds::Records => "records",
            Holds::Pieces => "values in pieces",
            Holds::LongValues => "values in a log",
            Holds::Readings => "readings",
        }
    }

    /// Whether values may have any length.
    pub const fn any_length(self) -> bool {
        matches!(self, Holds::Pieces | Holds::LongValues)
    }
}

/// An index that the lab can run.
#[derive(Clone, Copy, Debug)]
pub struct IndexEntry {
    /// The index's name on the command line and in results.
    pub name: &'static str,
    /// The index in one line, for lists.
    pub summary: &'static str,
    /// How well the sources of the index describe it.
    pub confidence: Confidence,
    /// The sources, and the parts that are ours.
    pub basis: &'static str,
    /// Demands on chip and workload.
    pub needs: &'static [Need],
    /// The parts of the index besides its nodes. Each must be understood, configured and tested, so fewer
    /// parts make a simpler index.
    pub parts: &'static [&'static str],
    /// The medium that the index is made for.
    pub hosting: Hosting,
    /// The kind of data that the index holds.
    pub holds: Holds,
    /// Makes an empty index on a chip whose contents are ignored.
    pub format: OpenIndex,
    /// Mounts the index from a chip that holds one.
    pub mount: OpenIndex,
    /// Mounts an index whose class promises nothing after a power cut, with each key at its value of the
    /// last sync or a later one. If the FTL cannot keep the index whole, it acts like `mount`. `None` if
    /// the index cannot do that.
    pub mount_after_cut: Option<OpenIndex>,
    /// Makes several such trees on one store; `None` for an index that owns the whole chip.
    pub forest: Option<OpenForest>,
    /// Whether operations are atomic on any FTL, because the index divides the chip with the FTL and writes
    /// to blocks of its own first. Otherwise operations on a store are atomic if the FTL writes several
    /// pages at once.
    pub divides_chip: bool,
    /// The options of the index; for an index on a store with the options of stores and caches.
    pub options: &'static [OptionInfo],
    /// For a tree on raw NAND: its options and those of every FTL, for use with an FTL beneath it. See
    /// [`IndexEntry::known`].
    pub options_on_ftl: &'static [OptionInfo],
}

/// How well the sources describe a system, and thus how faithful our version is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confidence {
    /// The sources describe it completely, or several implementations were read.
    High,
    /// The path of the data is known; other parts are ours.
    Medium,
    /// Only abstracts and short descriptions were read; the system is our reading of them.
    Low,
}

impl Confidence {
    /// The word for lists.
    pub const fn name(self) -> &'static str {
        match self {
            Confidence::High => "high",
            Confidence::Medium => "medium",
            Confidence::Low => "low",
        }
    }
}

/// An FTL that the lab can run.
#[derive(Clone, Copy, Debug)]
pub struct StoreEntry {
    /// The store's name on the command line and in results.
    pub name: &'static str,
    /// The store in one line, for lists.
    pub summary: &'static str,
    /// How well the sources of the store describe it.
    pub confidence: Confidence,
    /// The sources, and the parts that are ours.
    pub basis: &'static str,
    /// The parts of the store, as in [`IndexEntry::parts`].
    pub parts: &'static [&'static str],
    /// Whether the store can write several pages at once, all or none.
    pub is_atomic: bool,
    /// Makes an empty store on a chip whose contents are ignored.
    pub format: OpenStore,
    /// Mounts the store from a chip that holds one.
    pub mount: OpenStore,
    /// The options of the store.
    pub options: &'static [OptionInfo],
}
