//! The one list of indexes and of stores (FTLs): whatever runs in the lab has a line here and nowhere else.
//!
//! An entry says how an index is made on a fresh chip and found again on a used one. An index that lives on a
//! [`PageStore`] builds its store itself, from the same settings, with [`STORES`]; to the lab every index is a function
//! from a chip to a [`OrderedIndex`].

use crate::error::LabError;
use crate::names::{self, OptionInfo};
use nandex::ordered::mu::layout::Layout;
use nandex::ordered::wandering::OneNodePages;
use nandex::ordered::{Options, Settings};
use nandex::{IndexError, Nand, OrderedIndex, PageStore, StoreError};

/// What an index stands on.
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

/// Makes an index on a chip, or finds it again.
pub type OpenIndex = fn(Box<dyn Nand>, &Settings) -> Result<Box<dyn OrderedIndex>, IndexError>;

/// Makes a store on a chip, or finds it again.
pub type OpenStore = fn(Box<dyn Nand>, &Settings) -> Result<Box<dyn PageStore>, StoreError>;

/// An index the lab can run.
#[derive(Clone, Copy, Debug)]
pub struct IndexEntry {
    /// Its name on the command line and in results.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    /// What it stands on.
    pub hosting: Hosting,
    /// Makes an empty index on a chip whose contents do not matter.
    pub format: OpenIndex,
    /// Finds the index on a chip that holds one.
    pub mount: OpenIndex,
    /// The options it understands; for one on a store, those of its stores and caches too.
    pub options: &'static [OptionInfo],
}

/// An FTL the lab can run.
#[derive(Clone, Copy, Debug)]
pub struct StoreEntry {
    /// Its name on the command line and in results.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    /// Makes an empty store on a chip whose contents do not matter.
    pub format: OpenStore,
    /// Finds the store on a chip that holds one.
    pub mount: OpenStore,
    /// The options it understands.
    pub options: &'static [OptionInfo],
}

/// Every index.
pub const INDEXES: &[IndexEntry] = &[
    IndexEntry {
        name: "mu",
        summary: "mu-Tree: the nodes from root to leaf share one page, one program an update (raw NAND)",
        hosting: Hosting::Raw,
        format: raw::format::<Layout>,
        mount: raw::mount::<Layout>,
        options: raw::OPTIONS,
    },
    IndexEntry {
        name: "wandering",
        summary: "wandering B+-tree as in JFFS3: a changed leaf rewrites its path to the root (raw NAND)",
        hosting: Hosting::Raw,
        format: raw::format::<OneNodePages>,
        mount: raw::mount::<OneNodePages>,
        options: raw::OPTIONS,
    },
];

/// Every store.
pub const STORES: &[StoreEntry] = &[];

/// The index of this name.
pub fn index(name: &str) -> Result<&'static IndexEntry, LabError> {
    names::find("index", name, INDEXES, |e| e.name)
}

/// The store of this name.
pub fn store(name: &str) -> Result<&'static StoreEntry, LabError> {
    names::find("store", name, STORES, |e| e.name)
}

/// The trees on raw NAND, all made in the same way.
mod raw {
    use crate::names::{OptionInfo, option};
    use nandex::log::{Flush, LogConfig};
    use nandex::ordered::raw::{RawTree, Scheme, raw_config};
    use nandex::ordered::{OrderedIndex, Settings};
    use nandex::{Geometry, IndexError, Nand};

    pub(super) const OPTIONS: &[OptionInfo] = &[
        option("read_pages", "what the RAM leaves", "pages of the read part of the cache"),
        option("write_pages", "half of that", "pages of the write part; above 0: durable at every sync only"),
        option("victim", "greedy", "which block is collected: greedy, cost-benefit"),
        option("collect_at_blocks", "2", "collect garbage while at most this many blocks are free"),
        option("checkpoint_blocks", "16", "blocks filled between two checkpoints"),
    ];

    pub(super) fn format<S: Scheme + 'static>(
        nand: Box<dyn Nand>,
        settings: &Settings,
    ) -> Result<Box<dyn OrderedIndex>, IndexError> {
        let config = config::<S>(nand.geometry(), settings)?;
        Ok(Box::new(RawTree::<_, S>::format(nand, settings.record, config)?))
    }

    /// The log's share of the RAM: without the path beyond its first page, which every tree has.
    fn config<S: Scheme>(geometry: Geometry, settings: &Settings) -> Result<LogConfig, IndexError> {
        let page_bytes = geometry.page_bytes as usize;
        let path_bytes = S::new(page_bytes, settings.record)?.path_bytes();
        raw_config(settings, geometry, path_bytes.saturating_sub(page_bytes), Flush::BetweenPages)
    }

    pub(super) fn mount<S: Scheme + 'static>(
        nand: Box<dyn Nand>,
        settings: &Settings,
    ) -> Result<Box<dyn OrderedIndex>, IndexError> {
        let config = config::<S>(nand.geometry(), settings)?;
        Ok(Box::new(RawTree::<_, S>::mount(nand, settings.record, config)?))
    }
}

impl IndexEntry {
    /// What it stands on with these options: "raw", or the values of its options `ftl` and `cache`, joined by "+".
    pub fn storage(&self, options: &Options) -> String {
        if self.hosting == Hosting::Raw {
            return String::from("raw");
        }
        let parts = self.options.iter().filter(|o| matches!(o.name, "ftl" | "cache"));
        let names: Vec<&str> = parts.map(|o| options.text(o.name).unwrap_or(o.default)).collect();
        names.join("+")
    }

    /// Refuses options that this index does not understand.
    pub fn check_options(&self, options: &Options) -> Result<(), LabError> {
        names::resolve(self.options, options).map(drop)
    }
}
