//! The list of indexes and of stores (FTLs): whatever runs in the lab has a line here and nowhere else.
//!
//! An entry says how an index is made on a fresh chip and found again on a used one. An index that lives on a
//! [`PageStore`](nandex::PageStore) builds its store itself, from the same settings, with [`STORES`]; to the
//! lab every index is a function from a chip to a [`OrderedIndex`].

pub use crate::entry::{
    Confidence, Ground, Holds, Hosting, IndexEntry, Need, NumberedTrees, Open, OpenForest, OpenIndex,
    OpenStore, StoreEntry,
};
use crate::names::UnknownName;
use crate::names::{self, OptionInfo, union_of};
use crate::options::{self, Options, Settings, sharing};
use crate::spare;
use crate::stack::{
    self, AsBtree, BEpsilon, BPlus, Bftl, Bof, CbTree, FbTree, Fd, FlashDb, Ibsf, La, LazyUpdate, LsLru, Lsb,
    Mb, Pio, Rbftl, StoreTree, Wobf, Wpcb,
};
pub use crate::stores::{STORES, store};
use nandex::nand::{Geometry, Part};
use nandex::ordered::Durability;
use nandex::ordered::furrow::Furrow;
use nandex::ordered::mu::{MuStarTree, MuTree};
use nandex::ordered::plow::Plow;
use nandex::ordered::sbits::Sbits;
use nandex::ordered::vm::VmTree;
use nandex::ordered::vm::overwrite::OverwriteTree;
use nandex::ordered::wandering::WanderingTree;
use nandex::{IndexError, Nand, OrderedIndex};
use nandex_papers::ordered::ipl::IplTree;

/// Makes the entry of a tree on raw NAND from its type, its configuration on a chip, the spare bytes it
/// needs, and its options.
macro_rules! raw_tree {
    ($tree:ident, $config:path, $spare:path, $own:expr, { $($field:ident: $value:expr),* $(,)? }) => {
        IndexEntry {
            $($field: $value,)*
            hosting: Hosting::Raw,
            holds: Holds::Records,
            format: |nand, settings| {
                stack::raw_tree(nand, settings, &$own, Open::Format, |nand, settings| {
                    spare::lent(nand, settings, $spare, |nand, settings| {
                        let config = $config(settings, nand.geometry())?;
                        Ok(Box::new($tree::format(nand, &config)?) as Box<dyn OrderedIndex>)
                    })
                })
            },
            mount: |nand, settings| {
                stack::raw_tree(nand, settings, &$own, Open::Mount, |nand, settings| {
                    spare::lent(nand, settings, $spare, |nand, settings| {
                        let config = $config(settings, nand.geometry())?;
                        Ok(Box::new($tree::mount(nand, &config)?) as Box<dyn OrderedIndex>)
                    })
                })
            },
            mount_after_cut: None,
            forest: None,
            divides_chip: false,
            options: &$own,
            options_on_ftl: union_of!($own, stack::FTL_OPTIONS),
        }
    };
}

/// Makes the entry of a tree on logical pages.
const fn store_tree<T: StoreTree>(
    name: &'static str,
    summary: &'static str,
    confidence: Confidence,
    basis: &'static str,
    parts: &'static [&'static str],
) -> IndexEntry {
    IndexEntry {
        name,
        summary,
        confidence,
        basis,
        needs: &[],
        parts,
        hosting: Hosting::Store,
        holds: Holds::Records,
        format: |nand, settings| stack::tree::<T>(nand, settings, Open::Format),
        mount: |nand, settings| stack::tree::<T>(nand, settings, Open::Mount),
        mount_after_cut: if T::IS_WHOLE_AFTER_CUT {
            Some(|nand, settings| stack::tree::<T>(nand, settings, Open::MountAfterCut))
        } else {
            None
        },
        forest: Some(stack::forest::<T>),
        divides_chip: false,
        options: T::OPTIONS,
        options_on_ftl: &[],
    }
}

list! {
    /// All indexes.
    INDEXES: IndexEntry = ENTRIES
}

pub(crate) const ENTRIES: &[IndexEntry] = &[
    raw_tree!(MuTree, options::raw::mu, spare::of_log, options::raw::MU, {
        name: "mu",
        summary: "mu-Tree (Kang et al. 2007): the whole path in one page, one program per update",
        confidence: Confidence::High,
        basis: "complete in the paper",
        needs: &[],
        parts: &["log"],
    }),
    raw_tree!(MuStarTree, options::raw::mu_star, spare::of_log, options::raw::MU_STAR, {
        name: "mu-star",
        summary: "mu*-Tree (Ahn et al. 2013): the mu-Tree with four page layouts, chosen by what is done most",
        confidence: Confidence::Low,
        basis: "the abstract only: the layouts, their conversion and the controller are our reading",
        needs: &[],
        parts: &["log", "four layouts", "a controller"],
    }),
    raw_tree!(WanderingTree, options::raw::wandering, spare::of_log, options::raw::WANDERING, {
        name: "wandering",
        summary: "wandering B+-tree (JFFS3, 2005): every update rewrites the path; journal as an option",
        confidence: Confidence::High,
        basis: "the paper and the JFFS3 document; the journal in part our reading",
        needs: &[],
        parts: &["log"],
    }),
    raw_tree!(IplTree, options::ipl::ipl, spare::of_ipl, options::ipl::IPL, {
        name: "ipl",
        summary: "IPL B+-tree (Lee and Moon 2007): log records in the last pages of each block of nodes",
        confidence: Confidence::High,
        basis: "notes on the paper and abstracts; how a split is logged is ours",
        needs: &[],
        parts: &["log sectors", "merges"],
    }),
    raw_tree!(IplTree, options::ipl::dipl, spare::of_ipl, options::ipl::DIPL, {
        name: "dipl",
        summary: "dIPL B+-tree (Na et al. 2009): log records in whatever the nodes leave of a block, ghost nodes",
        confidence: Confidence::Medium,
        basis: "abstracts and remarks of a later paper; ghosts, splits and chains of log units are our reading",
        needs: &[],
        parts: &["log sectors", "merges", "ghosts"],
    }),
    raw_tree!(VmTree, options::embedded::vm, spare::of_log, options::embedded::VM, {
        name: "vmtree",
        summary: "VMTree (Ould-Khessal et al. 2026): a table in RAM says where nodes moved, parents are told late",
        confidence: Confidence::High,
        basis: "the authors' program was read; removal and recovery are ours",
        needs: &[],
        parts: &["log", "mapping table"],
    }),
    raw_tree!(OverwriteTree, options::embedded::overwrite, spare::none, options::embedded::OVERWRITE, {
        name: "vmtree-ow",
        summary: "VMTree-OW (Ould-Khessal et al. 2026): pages are overwritten in place; NOR flash only",
        confidence: Confidence::High,
        basis: "the authors' program was read; removal and recovery are ours",
        needs: &[Need::Overwriting],
        parts: &["overwritten pages"],
    }),
    raw_tree!(Sbits, options::embedded::sbits, spare::none, options::embedded::SBITS, {
        name: "sbits",
        summary: "SBITS, EmbedDB (Lawrence et al.): ascending keys only, appended; a spline finds the page",
        confidence: Confidence::High,
        basis: "the authors' program and paper were read; recovery is ours",
        needs: &[Need::AscendingKeys],
        parts: &["spline"],
    }),
    raw_tree!(Plow, options::embedded::plow, spare::none, options::embedded::PLOW, {
        name: "plow",
        summary: "plow (our own): a memtable above up to three packed levels, swept round and round; no log",
        confidence: Confidence::High,
        basis: "our own: the design is the source",
        needs: &[],
        parts: &["memtable", "levels", "sweep"],
    }),
    raw_tree!(Furrow, options::embedded::furrow, spare::none, options::embedded::FURROW, {
        name: "furrow",
        summary: "furrow (our own): a log of changes and a directory in RAM, for small stores from two blocks on",
        confidence: Confidence::High,
        basis: "our own: the design is the source",
        needs: &[],
        parts: &["directory"],
    }),
    store_tree::<BPlus>(
        "bplus",
        "B+-tree with redistribution and merging, over an FTL and a page cache",
        Confidence::High,
        "textbook",
        &[],
    ),
    IndexEntry {
        name: "wpcb",
        summary: "WPCB-tree (Ho and Park 2018): nodes gather in buffer blocks on flash, then go to the FTL in order",
        confidence: Confidence::High,
        basis: "the paper; victims are erased later than it says, for power cuts",
        needs: &[],
        parts: &["buffer blocks", "converter"],
        hosting: Hosting::Store,
        holds: Holds::Records,
        format: |nand, settings| Wpcb::open(nand, settings, Open::Format),
        mount: |nand, settings| Wpcb::open(nand, settings, Open::Mount),
        mount_after_cut: None,
        forest: None,
        divides_chip: true,
        options: Wpcb::OPTIONS,
        options_on_ftl: &[],
    },
    store_tree::<LazyUpdate>(
        "lazy-update",
        "lazy-update B+-tree (On et al. 2009): updates pooled in RAM, committed leaf by leaf; journal",
        Confidence::High,
        "complete in the paper",
        &["pool", "journal"],
    ),
    store_tree::<LsLru>(
        "ls-lru",
        "LS-LRU B+-tree (Jin et al.): a buffer of clean and dirty parts, splits put off; journal",
        Confidence::High,
        "the paper; sizes and split policies that it leaves open are options",
        &["buffer of two parts", "late splits", "journal"],
    ),
    store_tree::<Bftl>(
        "bftl",
        "BFTL (Wu et al. 2003): changes of many nodes share sectors, a table lists those of each node; journal",
        Confidence::High,
        "the authors' slides and two later papers; a store that is finite is ours",
        &["reservation buffer", "node table", "journal"],
    ),
    store_tree::<Wobf>(
        "wobf",
        "WOBF (Gong et al. 2011): BFTL with sorted commits that gather each node; our reading; journal",
        Confidence::Low,
        "the abstract: sorting and gathering are our reading",
        &["reservation buffer", "node table", "journal"],
    ),
    store_tree::<Ibsf>(
        "ibsf",
        "IBSF (Lee et al. 2007): the buffered changes of one node are committed to its page; journal",
        Confidence::High,
        "abstracts and two later papers; sizes are ours",
        &["commit buffer", "journal"],
    ),
    store_tree::<Bof>(
        "bof",
        "BOF (Nam and Park 2007): IBSF that keeps redundant changes; our reading; journal",
        Confidence::Low,
        "one sentence of a later paper: our reading",
        &["commit buffer", "journal"],
    ),
    store_tree::<Rbftl>(
        "rbftl",
        "RBFTL (Xiang et al. 2008): IBSF below a journal, always; our reading",
        Confidence::Low,
        "the abstract: the journal is our reading",
        &["commit buffer", "journal"],
    ),
    store_tree::<FlashDb>(
        "flashdb",
        "FlashDB (Nath, Kansal 2007): each node in a page of its own or in a log, as its accesses make cheaper; journal",
        Confidence::High,
        "abstracts and an implementation; compaction is ours",
        &["node log", "modes", "journal"],
    ),
    store_tree::<Lsb>(
        "lsb",
        "LSB-tree (Kim, Lee 2014): a log node for each leaf, switched to a leaf where keys ascend; our reading; journal",
        Confidence::Medium,
        "the abstract; sizes, merging and recovery are our reading",
        &["log nodes", "journal"],
    ),
    store_tree::<Mb>(
        "mb",
        "MB-tree (Roh et al. 2009): batches by leaf, leaves of one to eight pages with a header; journal",
        Confidence::Medium,
        "the abstract; the layout of leaves and the formula of their size are our reading",
        &["pool", "leaf headers", "journal"],
    ),
    store_tree::<Pio>(
        "pio",
        "PIO B-tree (Roh et al. 2011): an operation queue, page requests many at a time for chips on channels; journal",
        Confidence::Medium,
        "abstract and digest; segments and splits are our reading",
        &["operation queue", "segments", "journal"],
    ),
    store_tree::<BEpsilon>(
        "bepsilon",
        "B-epsilon-tree (Brodal & Fagerberg 2003): messages wait in inner nodes of several pages; copy on write",
        Confidence::High,
        "the reference implementation was read; copy on write and recovery are ours",
        &["messages", "copy on write"],
    ),
    store_tree::<Fd>(
        "fd",
        "FD-tree (Li et al. 2010): a head in RAM above sorted runs with fences, merged when full; manifest",
        Confidence::High,
        "the authors' code was read; chained runs and near-full merges are ours",
        &["head", "runs", "manifest"],
    ),
    store_tree::<La>(
        "la",
        "LA-tree (Agrawal et al. 2009): a buffer on flash for each subtree, emptied when full or read often; our reading",
        Confidence::Medium,
        "descriptions of others; sizes are our reading",
        &["buffers on flash", "manifest"],
    ),
    store_tree::<AsBtree>(
        "as-btree",
        "AS B-tree (Roh et al. 2014): modified nodes are appended in batches, a table finds them; journal",
        Confidence::Medium,
        "the abstract; recycling and sizes are our reading",
        &["batches", "node table", "journal"],
    ),
    store_tree::<CbTree>(
        "cb-tree",
        "CB-tree (Kim et al. 2020): memory nodes in levels, each written as a batch; our reading; journal",
        Confidence::Low,
        "the abstract: sizes and places of batches are our reading",
        &["batches", "node table", "journal"],
    ),
    store_tree::<FbTree>(
        "fb-tree",
        "FB-tree (Jorgensen et al. 2011): modified nodes go to runs of free pages, out of place; journal",
        Confidence::Medium,
        "the abstract; what leaves the buffer is our reading",
        &["runs of free pages", "node table", "journal"],
    ),
];

/// An index and the FTL below it.
#[derive(Clone, Copy, Debug)]
pub struct Stack {
    /// The index on top.
    pub index: &'static IndexEntry,
    /// The FTL below, either because the index needs logical pages, or because it is put beneath an index
    /// for raw NAND.
    pub ftl: Option<&'static StoreEntry>,
}

/// Trees for raw NAND that are also tested with an FTL beneath, and that FTL.
const BENEATH_STACKS: [(&str, &str); 3] = [("mu", "page-map"), ("mu-star", "fast"), ("dipl", "fast")];

/// Every index on every FTL it is made for, and some indexes for raw NAND with an FTL beneath.
pub fn stacks() -> impl Iterator<Item = Stack> {
    INDEXES.iter().flat_map(|index| {
        let beneath = |ftl: &&StoreEntry| BENEATH_STACKS.contains(&(index.name, ftl.name));
        let ftls: Vec<Option<&'static StoreEntry>> = match index.hosting {
            Hosting::Raw => [None].into_iter().chain(STORES.iter().filter(beneath).map(Some)).collect(),
            Hosting::Store => STORES.iter().map(Some).collect(),
        };
        ftls.into_iter().map(move |ftl| Stack { index, ftl })
    })
}

impl Stack {
    /// The names of index and FTL, as in "bplus on fast".
    pub fn name(&self) -> String {
        self.ftl.map_or(self.index.name.to_string(), |ftl| format!("{} on {}", self.index.name, ftl.name))
    }

    /// The settings for this stack. The class becomes *none* if the index needs atomic groups of pages and
    /// the FTL writes one page at a time.
    pub fn settings(&self, settings: Settings) -> Settings {
        let Some(ftl) = self.ftl else { return settings };
        if self.index.hosting == Hosting::Raw {
            return settings.with("beneath", ftl.name);
        }
        let is_atomic = ftl.is_atomic || self.index.divides_chip;
        let durability = if is_atomic { settings.durability } else { Durability::None };
        Settings { durability, ..settings }.with("ftl", ftl.name)
    }
}

/// Opens a B+-tree on a chip or a disk.
pub fn bplus_on(
    ground: Ground,
    settings: &Settings,
    open: Open,
) -> Result<Box<dyn OrderedIndex>, IndexError> {
    stack::tree_on::<BPlus>(ground, settings, open)
}

/// The most RAM in bytes that a WPCB-tree with its FTL needs on this chip, without a cache.
pub fn wpcb_table_bytes(nand: Box<dyn Nand>, settings: &Settings) -> Result<usize, IndexError> {
    Wpcb::table_bytes(nand, settings)
}

/// The index with this name.
pub fn index(name: &str) -> Result<&'static IndexEntry, UnknownName> {
    names::find("index", name, INDEXES, |e| e.name)
}

/// A promise that an option can withdraw, so that a run does not check it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiver {
    /// Insertions and removals return whether the key existed.
    UpdateAnswers,
    /// The index keeps within its RAM. The option makes it count only records, as papers do.
    RamBound,
}

/// Options and values that withdraw a promise.
const WAIVERS: [(&str, &str, Waiver); 3] = [
    ("answers", "pool", Waiver::UpdateAnswers),
    ("pool_count", "record", Waiver::RamBound),
    ("ram", "record", Waiver::RamBound),
];

impl IndexEntry {
    /// Whether these options take the promise back.
    pub fn waives(&self, waiver: Waiver, options: &Options) -> bool {
        WAIVERS.iter().any(|(name, value, waived)| *waived == waiver && options.text(name) == Some(value))
    }

    /// Whether the index takes keys in any order, and removals. To others the test suites append ascending
    /// keys; a run with another workload reports the refusal.
    pub fn takes_any_key(&self) -> bool {
        !self.needs.contains(&Need::AscendingKeys)
    }

    /// The strongest durability class of the index.
    pub fn strongest_class(&self) -> Durability {
        if self.holds == Holds::Readings { Durability::EverySync } else { Durability::EveryOperation }
    }

    /// The part with the changes that the index needs: for an index that overwrites pages, the rules of NOR
    /// flash. The test suites use it for every index. A run on a chip that a user chose does not, and
    /// reports the refusal.
    pub fn suited(&self, mut part: Part) -> Part {
        if self.needs.contains(&Need::Overwriting) {
            part.geometry = part.geometry.with_programs_per_page_max(Geometry::ANY_PROGRAMS);
            part.geometry.random_order = true;
        }
        part
    }

    /// The storage below the index with these options: "raw", "raw on fast" with an FTL beneath, or the
    /// values of the options `ftl` and `cache` joined by "+".
    pub fn storage(&self, options: &Options) -> String {
        if self.hosting == Hosting::Raw {
            return stack::beneath(options).map_or(String::from("raw"), |ftl| format!("raw on {ftl}"));
        }
        let parts = self.options.iter().filter(|o| matches!(o.name, "ftl" | "cache"));
        let names: Vec<&str> = parts.map(|o| options.text(o.name).unwrap_or(o.default)).collect();
        names.join("+")
    }

    /// The options that the index knows if `options` are set. With an FTL beneath a tree for raw NAND,
    /// those of the FTLs are included.
    pub fn known(&self, options: &Options) -> &'static [OptionInfo] {
        let takes_ftl = self.hosting == Hosting::Raw && self.options.iter().any(|o| o.name == "beneath");
        let on_ftl = takes_ftl && stack::beneath(options).is_some();
        if on_ftl { self.options_on_ftl } else { self.options }
    }

    /// Refuses options that the index does not know.
    pub fn check_options(&self, options: &Options) -> Result<(), UnknownName> {
        sharing::resolve(self.known(options), options).map(drop)
    }
}
