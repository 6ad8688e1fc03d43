//! The stack below a tree on logical pages, ordered or spatial: an FTL on the chip or a hard disk, and a
//! page cache where RAM is left for one.

use crate::forest::{TreeShare, share_store};
use crate::names::{OptionInfo, count_names, option, union, union_of};
use crate::registry::{NumberedTrees, Open, STORES, StoreEntry, store};
use nandex::cache::policy::catalogue::{self, PolicyEntry};
use nandex::cache::{CacheConfig, PageCache, PolicySettings, Replacement, WriteMode};
use nandex::ordered::bplus::{BPlusConfig, BPlusTree};
use nandex::ordered::journal::{Buffered, JournalConfig, Journaled, refuse_journaled};
use nandex::ordered::lazy_update::{LazyUpdateConfig, LazyUpdateTree, PoolCount};
use nandex::ordered::ls_lru::{LsLruConfig, LsLruTree, UnitRam};
use nandex::ordered::{Durability, Options, Settings};
use nandex::store::finishing::Finishing;
use nandex::{IndexError, Nand, OrderedIndex, PageStore};

/// Options of every tree on a store: those of the page cache, and of every FTL.
pub(crate) const CACHE_OPTIONS: [OptionInfo; 6] = [
    option("ftl", "page-map", "the FTL below (nandex list ftls)"),
    option("cache", "lru", "the replacement policy of the page cache (nandex list policies)"),
    option("cache_pages", "what the RAM leaves", "frames of the page cache"),
    option(
        "cache_window",
        "the policy's own",
        "percent of the frames from which clean or clustered pages go first",
    ),
    option(
        "cache_writes",
        "together",
        "where writes wait, dirty pages leave together, as one atomic group if the FTL takes it, or alone, as \
         the policies were published",
    ),
    option("cache_write_cost", "10", "what a page write costs in page reads, for policies that weigh them"),
];

const FTL_LISTS: [&[OptionInfo]; STORES.len()] = {
    let mut lists: [&[OptionInfo]; STORES.len()] = [&[]; STORES.len()];
    let mut i = 0;
    while i < lists.len() {
        lists[i] = STORES[i].options;
        i += 1;
    }
    lists
};

pub(crate) const FTL_OPTIONS: [OptionInfo; count_names(&FTL_LISTS)] = union(&FTL_LISTS);

/// Options of the B+-tree, and of every tree built on it.
const BPLUS_OWN: [OptionInfo; 3] = [
    option("order", "what the page holds", "entries of a node at most, leaf and internal"),
    option("leaf_capacity", "order", "entries of a leaf at most, 2 or more"),
    option("internal_capacity", "order", "children of an internal node at most, 3 or more"),
];

/// Options of the B+-tree alone.
const BPLUS_ALONE: [OptionInfo; 1] = [option(
    "structure_writes",
    "together",
    "together: each changed page of an operation once; apart: its leaf, then three pages for each split, merge or rotation, \
     as the WPCB-tree's paper counts",
)];

const LAZY_UPDATE_OWN: [OptionInfo; 6] = [
    option("commit_policy", "biggest", "which group leaves a full pool: biggest, cost, lru, fifo"),
    option(
        "answers",
        "exact",
        "exact, or pool: what an update answers is what the pool knows, no leaf is read for it",
    ),
    option("pool_percent", "50", "share of the RAM for pool and page cache that the pool gets, 1 to 99"),
    option(
        "pool_count",
        "held",
        "what a request counts: held, all its bytes of RAM; record, key and value only",
    ),
    option(
        "pairs",
        "known",
        "known, or published: opposite requests for one key cancel, for callers whose keys come back with the value they had",
    ),
    option("pool_requests", "what its share holds, 64 without a limit", "requests of the pool"),
];

const LS_LRU_OWN: [OptionInfo; 11] = [
    option("buffer_bytes", "what the RAM leaves, 64 pages without a limit", "RAM of the B+-buffer"),
    option("window_percent", "50", "w: the cold region's share of the buffer, 0 to 100"),
    option(
        "split_factor",
        "3",
        "k: a dirty part of k leaves of entries is committed by a multi-split, 2 to 15",
    ),
    option("commit_entries", "what a page holds", "L: entries that a write-minimized commit frees at least"),
    option("full_merge_every", "0", "updates between two full merge commits; 0: only a sync makes one"),
    LAZY_UPDATE_OWN[1],
    option(
        "inner",
        "kept",
        "kept: inner nodes leave the buffer last; units: they age and leave as the units of leaves do",
    ),
    option(
        "commit",
        "write-minimized",
        "dirty units that leave a full buffer: write-minimized, first-associated, exact-fit",
    ),
    option(
        "split",
        "multi",
        "a leaf and more changes than it holds become: multi, as many leaves as it takes at once; two-nodes, two at a time",
    ),
    option(
        "coalesce",
        "eager",
        "leaves less than half full: eager, mended; lazy, left until they are empty or the store is nearly full",
    ),
    option(
        "ram",
        "held",
        "what a unit counts in the budget: held, all its bytes; record, the paper's records",
    ),
];

/// Options of every tree that an update journal makes durable.
const JOURNAL_OPTIONS: [OptionInfo; 2] = [
    option("journal_pages", "for 8 times the updates in RAM", "pages of the update journal"),
    option(
        "journal_group",
        "1, or 0 when syncs suffice",
        "updates written together: at most so many; 0, as many as fill a page or until a sync",
    ),
];

/// The options of a tree on a store: those of all stores and caches, and its own.
macro_rules! options_of_tree {
    ($($own:expr),*) => {
        $crate::names::union_of!($crate::stack::CACHE_OPTIONS, $crate::stack::FTL_OPTIONS, $($own),*)
    };
}

pub(crate) use options_of_tree;

// Below the macro that they use.
mod batched;
mod beneath;
mod clustered;
mod embedded;
mod layered;
mod lsb;
mod messages;
mod wpcb;

pub(crate) use batched::{Mb, Pio};
pub(crate) use beneath::{BENEATH, beneath, raw_tree};
pub(crate) use clustered::{AsBtree, CbTree, FbTree};
pub(crate) use embedded::{OVERWRITE_OPTIONS, PLOW_OPTIONS, SBITS_OPTIONS, VM_OPTIONS};
pub(crate) use layered::{Bftl, Bof, FlashDb, Ibsf, Rbftl, Wobf};
pub(crate) use lsb::Lsb;
pub(crate) use messages::{BEpsilon, Fd, La};
pub(crate) use wpcb::Wpcb;

/// The bytes that the page cache holds per frame besides the page and the order of its policy.
const FRAME_BYTES: usize = 40;

/// A tree on logical pages: how it is opened, and what it takes of the RAM. A new one implements this and has its line in
/// the registry.
pub(crate) trait StoreTree {
    /// Whether a journal beside it makes it durable, and in the class *none* what a cut leaves can be opened nonetheless.
    const IS_WHOLE_AFTER_CUT: bool = true;

    /// Whether one change may write more pages than the store takes as a group. Then it does without groups in the class *none*, and
    /// tells at the next mount that it was not closed.
    const EXCEEDS_GROUPS: bool = false;

    /// The options of the tree, those of store and cache among them.
    const OPTIONS: &'static [OptionInfo];

    /// The most RAM that it needs on a store whatever its buffers.
    fn table_bytes(settings: &Settings, store: &dyn PageStore) -> Result<usize, IndexError>;

    /// The bytes that the tree's buffers take of the RAM that is left for them and its part of the page
    /// cache.
    fn buffer_bytes(
        _settings: &Settings,
        _store: &dyn PageStore,
        _shared_bytes: usize,
    ) -> Result<usize, IndexError> {
        Ok(0)
    }

    /// Whether pages that it writes may wait in the cache.
    fn lets_writes_wait(settings: &Settings) -> bool;

    /// Opens it on its store; `shared_bytes` as for [`StoreTree::buffer_bytes`].
    fn open(
        store: Box<dyn PageStore>,
        settings: &Settings,
        shared_bytes: usize,
        open: Open,
    ) -> Result<Box<dyn OrderedIndex>, IndexError>;
}

/// The ground of stores and trees: a chip or a disk.
pub enum Ground {
    /// A chip, which an FTL makes pages of.
    Chip(Box<dyn Nand>),
    /// A hard disk, which has pages of its own.
    Disk(Box<dyn PageStore>),
}

/// Pages that a policy which looks at blocks takes for one on a disk.
const DISK_BLOCK_PAGES: u32 = 32;

/// The demand of a tree on store and RAM.
#[derive(Clone, Copy)]
pub(crate) struct Demand {
    /// See [`StoreTree::table_bytes`].
    pub(crate) table_bytes: fn(&Settings, &dyn PageStore) -> Result<usize, IndexError>,
    /// See [`StoreTree::buffer_bytes`].
    pub(crate) buffer_bytes: fn(&Settings, &dyn PageStore, usize) -> Result<usize, IndexError>,
    /// See [`StoreTree::lets_writes_wait`].
    pub(crate) lets_writes_wait: fn(&Settings) -> bool,
    /// See [`StoreTree::EXCEEDS_GROUPS`].
    pub(crate) exceeds_groups: bool,
}

impl Demand {
    fn of<T: StoreTree>() -> Demand {
        Demand {
            table_bytes: T::table_bytes,
            buffer_bytes: T::buffer_bytes,
            lets_writes_wait: T::lets_writes_wait,
            exceeds_groups: T::EXCEEDS_GROUPS,
        }
    }
}

/// The tree over the FTL and the cache that its settings name.
pub(crate) fn tree<T: StoreTree>(
    nand: Box<dyn Nand>,
    settings: &Settings,
    open: Open,
) -> Result<Box<dyn OrderedIndex>, IndexError> {
    tree_on::<T>(Ground::Chip(nand), settings, open)
}

/// The tree on a chip or a disk.
pub(crate) fn tree_on<T: StoreTree>(
    ground: Ground,
    settings: &Settings,
    open: Open,
) -> Result<Box<dyn OrderedIndex>, IndexError> {
    let (store, shared) = cached_store(ground, settings, open, Demand::of::<T>(), &[1])?;
    T::open(store, settings, shared[0], open)
}

/// A tree for each share on a slice of one store.
pub(crate) fn forest<T: StoreTree>(
    nand: Box<dyn Nand>,
    settings: &Settings,
    shares: &[TreeShare],
) -> Result<NumberedTrees, IndexError> {
    let weights: Vec<u64> = shares.iter().map(|share| share.records).collect();
    let demand = Demand::of::<T>();
    let (store, shared) = cached_store(Ground::Chip(nand), settings, Open::Format, demand, &weights)?;
    let slices = share_store(store, shares)?.into_iter().zip(shared);
    slices
        .map(|((tree, slice), bytes)| Ok((tree, T::open(Box::new(slice), settings, bytes, Open::Format)?)))
        .collect()
}

/// The B+-tree.
pub(crate) struct BPlus;

impl StoreTree for BPlus {
    const IS_WHOLE_AFTER_CUT: bool = false;

    const OPTIONS: &'static [OptionInfo] = options_of_tree!(BPLUS_OWN, BPLUS_ALONE);

    fn table_bytes(settings: &Settings, store: &dyn PageStore) -> Result<usize, IndexError> {
        BPlusConfig::from_settings(settings)?.ram_bytes_max(store)
    }

    fn lets_writes_wait(settings: &Settings) -> bool {
        settings.durability != Durability::EveryOperation
    }

    fn open(
        store: Box<dyn PageStore>,
        settings: &Settings,
        _: usize,
        open: Open,
    ) -> Result<Box<dyn OrderedIndex>, IndexError> {
        let config = BPlusConfig::from_settings(settings)?;
        Ok(match open {
            Open::Format => Box::new(BPlusTree::format(store, config)?),
            _ => Box::new(BPlusTree::mount_as(store, config)?),
        })
    }
}

/// The lazy-update B+-tree, with an update journal in every class but *none*.
pub(crate) struct LazyUpdate;

/// Requests of a pool where RAM is not limited.
const POOL_REQUESTS: u64 = 64;

impl LazyUpdate {
    fn config(settings: &Settings, shared_bytes: usize) -> Result<LazyUpdateConfig, IndexError> {
        let unlimited = settings.ram_bytes.is_none() && settings.options.text("pool_requests").is_none();
        let settings =
            if unlimited { settings.clone().with("pool_requests", POOL_REQUESTS) } else { settings.clone() };
        let config = LazyUpdateConfig::from_settings(&settings, shared_bytes)?;
        // A tree of a forest whose share is next to nothing.
        Ok(LazyUpdateConfig { pool_requests: config.pool_requests.max(1), ..config })
    }
}

impl StoreTree for LazyUpdate {
    const OPTIONS: &'static [OptionInfo] = options_of_tree!(BPLUS_OWN, LAZY_UPDATE_OWN, JOURNAL_OPTIONS);

    fn table_bytes(settings: &Settings, store: &dyn PageStore) -> Result<usize, IndexError> {
        Ok(BPlusConfig::from_settings(settings)?.ram_bytes_max(store)? + journal_bytes(settings, store))
    }

    fn buffer_bytes(
        settings: &Settings,
        _: &dyn PageStore,
        shared_bytes: usize,
    ) -> Result<usize, IndexError> {
        let count = PoolCount::from_options(&settings.options)?;
        Ok(LazyUpdate::config(settings, shared_bytes)?.pool_bytes(count))
    }

    fn lets_writes_wait(settings: &Settings) -> bool {
        settings.durability == Durability::None
    }

    fn open(
        store: Box<dyn PageStore>,
        settings: &Settings,
        shared_bytes: usize,
        open: Open,
    ) -> Result<Box<dyn OrderedIndex>, IndexError> {
        let config = LazyUpdate::config(settings, shared_bytes)?;
        buffered::<LazyUpdateTree<_>>(store, settings, config, open)
    }
}

/// The LS-LRU tree, with an update journal in every class but *none*. Its buffer is its page cache.
pub(crate) struct LsLru;

/// Pages of the B+-buffer where RAM is not limited.
const BUFFER_PAGES: usize = 64;

impl LsLru {
    fn config(
        settings: &Settings,
        store: &dyn PageStore,
        shared_bytes: usize,
    ) -> Result<LsLruConfig, IndexError> {
        let page_bytes = store.page_bytes();
        let shared_bytes = match settings.ram_bytes {
            None => BUFFER_PAGES * page_bytes,
            Some(_) => shared_bytes,
        };
        let config = LsLruConfig::from_settings(settings, shared_bytes)?;
        // A tree of a forest whose share is next to nothing.
        let least = LsLruConfig::buffer_bytes_min(settings.record, page_bytes);
        Ok(LsLruConfig { buffer_bytes: config.buffer_bytes.max(least), ..config })
    }
}

impl StoreTree for LsLru {
    // Of the page cache's options only the FTL below: the buffer is the cache.
    const OPTIONS: &'static [OptionInfo] =
        union_of!([CACHE_OPTIONS[0]], FTL_OPTIONS, BPLUS_OWN, LS_LRU_OWN, JOURNAL_OPTIONS);

    fn table_bytes(settings: &Settings, store: &dyn PageStore) -> Result<usize, IndexError> {
        let config = LsLru::config(settings, store, 0)?;
        // What records do not count is no part of the budget.
        let held = LsLruConfig { ram: UnitRam::Held, ..config };
        let tables = held.ram_bytes_max(store)? - config.buffer_bytes;
        Ok(tables + journal_bytes(settings, store))
    }

    fn buffer_bytes(
        settings: &Settings,
        store: &dyn PageStore,
        shared_bytes: usize,
    ) -> Result<usize, IndexError> {
        Ok(LsLru::config(settings, store, shared_bytes)?.buffer_bytes)
    }

    fn lets_writes_wait(settings: &Settings) -> bool {
        settings.durability == Durability::None
    }

    fn open(
        store: Box<dyn PageStore>,
        settings: &Settings,
        shared_bytes: usize,
        open: Open,
    ) -> Result<Box<dyn OrderedIndex>, IndexError> {
        let config = LsLru::config(settings, &*store, shared_bytes)?;
        buffered::<LsLruTree<_>>(store, settings, config, open)
    }
}

/// The RAM of an update journal, in the classes that have one.
fn journal_bytes(settings: &Settings, store: &dyn PageStore) -> usize {
    if settings.durability == Durability::None { 0 } else { JournalConfig::ram_bytes(store.page_bytes()) }
}

/// Opens a tree that keeps updates back in RAM: as it was published in the class *none*, with a journal in others.
fn buffered<T>(
    mut store: Box<dyn PageStore>,
    settings: &Settings,
    config: T::Config,
    open: Open,
) -> Result<Box<dyn OrderedIndex>, IndexError>
where
    T: Buffered<Box<dyn PageStore>> + 'static,
    T::Config: 'static,
{
    if settings.durability != Durability::None {
        let journal = JournalConfig::from_settings(settings)?;
        return Ok(match open {
            Open::Format => Box::new(Journaled::<_, T>::format(store, config, journal)?),
            _ => Box::new(Journaled::<_, T>::mount(store, config, journal)?),
        });
    }
    if open != Open::Format {
        refuse_journaled(&mut store)?;
    }
    Ok(match open {
        Open::Format => Box::new(T::format(store, config)?),
        Open::Mount => Box::new(T::mount(store, config)?),
        Open::MountAfterCut => Box::new(T::mount_after_cut(store, config)?),
    })
}

/// The FTL that the settings name, with a page cache where RAM is left for one beside FTL and trees; and the RAM that each of
/// the trees shares with it. The trees have shares by their weights.
pub(crate) fn cached_store(
    ground: Ground,
    settings: &Settings,
    open: Open,
    demand: Demand,
    weights: &[u64],
) -> Result<(Box<dyn PageStore>, Vec<usize>), IndexError> {
    let (ftl, plan) = match ground {
        Ground::Chip(nand) => {
            let geometry = nand.geometry();
            let plan = CachePlan::new(settings, geometry.page_bytes as usize, geometry.pages_per_block)?;
            (ftl(nand, settings, open)?, plan)
        }
        Ground::Disk(disk) => {
            let plan = CachePlan::new(settings, disk.page_bytes(), DISK_BLOCK_PAGES)?;
            (disk, plan)
        }
    };
    let tables = ftl.ram_bytes() + (demand.table_bytes)(settings, &*ftl)? * weights.len();
    let left = match settings.ram_bytes {
        None => 0,
        Some(ram) => ram.checked_sub(tables).ok_or_else(|| too_little(ram, tables))?,
    };
    let all: u64 = weights.iter().sum();
    let share = |weight: &u64| (left as u128 * u128::from(*weight) / u128::from(all.max(1))) as usize;
    let shared: Vec<usize> = weights.iter().map(share).collect();
    let mut fixed = tables;
    for bytes in &shared {
        fixed += (demand.buffer_bytes)(settings, &*ftl, *bytes)?;
    }
    let frames = cache_frames(settings, fixed, (plan.frame_bytes, ftl.page_count()))?;
    let alone = settings.options.choice("cache_writes", &["together", "alone"])? == "alone";
    // Where nothing is promised after a power cut, a change may leave in parts: because pages are taken one at a time, or because it
    // exceeds a group. What a worn-out chip leaves half done is finished in RAM.
    let finishing = |store: Box<dyn PageStore>| match settings.durability {
        Durability::None if demand.exceeds_groups || store.atomic_pages_max() == 1 => {
            Box::new(Finishing::new(store))
        }
        _ => store,
    };
    if frames == 0 {
        return Ok((finishing(ftl), shared));
    }
    let mode = match ((demand.lets_writes_wait)(settings), alone) {
        (false, _) => WriteMode::Through,
        (true, false) => WriteMode::Back,
        (true, true) => WriteMode::BackAlone,
    };
    let cache = CacheConfig { frames, mode, dirty_frames_max: None };
    Ok((finishing(Box::new(PageCache::new(ftl, plan.policy(frames), cache))), shared))
}

/// The FTL that the settings name.
fn ftl(nand: Box<dyn Nand>, settings: &Settings, open: Open) -> Result<Box<dyn PageStore>, IndexError> {
    ftl_named(settings.options.text("ftl").unwrap_or("page-map"), nand, settings, open)
}

/// The FTL of this name.
fn ftl_named(
    name: &str,
    nand: Box<dyn Nand>,
    settings: &Settings,
    open: Open,
) -> Result<Box<dyn PageStore>, IndexError> {
    let entry = store(name).map_err(|e| IndexError::Unsupported(e.to_string()))?;
    require_known_by(entry, &settings.options)?;
    Ok(match open {
        Open::Format => (entry.format)(nand, settings)?,
        _ => (entry.mount)(nand, settings)?,
    })
}

/// A page cache as the settings have it, but for its size.
struct CachePlan {
    policy: &'static PolicyEntry,
    sizing: PolicySettings,
    frame_bytes: usize,
}

impl CachePlan {
    fn new(settings: &Settings, page_bytes: usize, block_pages: u32) -> Result<CachePlan, IndexError> {
        let policy = policy(&settings.options)?;
        let sizing = policy_settings(&settings.options, block_pages)?;
        let frame_bytes = page_bytes + FRAME_BYTES + policy_frame_bytes(policy, sizing);
        Ok(CachePlan { policy, sizing, frame_bytes })
    }

    fn policy(&self, frames: usize) -> Box<dyn Replacement> {
        (self.policy.make)(&PolicySettings { frames, ..self.sizing })
    }
}

/// Refuses options that are another FTL's.
fn require_known_by(ftl: &StoreEntry, options: &Options) -> Result<(), IndexError> {
    let knows = |entry: &StoreEntry, name: &str| entry.options.iter().any(|o| o.name == name);
    for (name, _) in options.iter() {
        if let Some(other) = STORES.iter().find(|e| knows(e, name)).filter(|_| !knows(ftl, name)) {
            let what = format!("option {name} is for FTLs such as {}, not for {}", other.name, ftl.name);
            return Err(IndexError::Unsupported(what));
        }
    }
    Ok(())
}

/// The replacement policy that the options name.
fn policy(options: &Options) -> Result<&'static PolicyEntry, IndexError> {
    let name = options.text("cache").unwrap_or("lru");
    catalogue::policy(name).ok_or_else(|| {
        let names: Vec<&str> = catalogue::POLICIES.iter().map(|entry| entry.name).collect();
        IndexError::Unsupported(format!("option cache: '{name}' is none of {}", names.join(", ")))
    })
}

/// The settings that a cache policy takes from the options; the frames are still to be counted.
fn policy_settings(options: &Options, block_pages: u32) -> Result<PolicySettings, IndexError> {
    let window_percent = options.number("cache_window", 0..=100)?.map(|percent| percent as u32);
    let none = PolicySettings::new(0);
    let write_cost = options.number("cache_write_cost", 0..=1_000_000)?.unwrap_or(none.write_cost);
    Ok(PolicySettings { block_pages, window_percent, write_cost, ..none })
}

/// The bytes that a policy holds per frame: the most it takes at two sizes, since tables grow in powers of
/// two.
fn policy_frame_bytes(policy: &PolicyEntry, settings: PolicySettings) -> usize {
    let bytes = |frames: usize| (policy.make)(&PolicySettings { frames, ..settings }).ram_bytes();
    let fixed = bytes(0);
    [1000, 1040]
        .map(|frames| bytes(frames).saturating_sub(fixed).div_ceil(frames))
        .into_iter()
        .fold(0, usize::max)
}

/// Frames of the page cache: as set, or what all else leaves of the RAM.
fn cache_frames(
    settings: &Settings,
    fixed: usize,
    (frame_bytes, pages): (usize, u32),
) -> Result<usize, IndexError> {
    let left = settings.ram_bytes.map_or(0, |ram| ram.saturating_sub(fixed));
    // A cache has no use for more frames than the store has pages.
    let frames =
        settings.options.number("cache_pages", 0..=pages.into())?.map_or(left / frame_bytes, |n| n as usize);
    match settings.ram_bytes {
        Some(ram) if fixed + frames * frame_bytes > ram => Err(too_little(ram, fixed + frames * frame_bytes)),
        _ => Ok(frames),
    }
}

fn too_little(ram: usize, needed: usize) -> IndexError {
    IndexError::Unsupported(format!(
        "{ram} bytes of RAM are too few: the FTL's map, the trees and their buffers take {needed}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex::nand::sim::SimChip;
    use nandex::ordered::{RecordFormat, bplus, journal, lazy_update};

    #[test]
    fn a_tree_on_a_store_takes_the_options_of_every_store_and_its_own() {
        let ftls = STORES.iter().flat_map(|entry| entry.options).map(|option| option.name);
        let own = [&bplus::OPTIONS[..], &lazy_update::OPTIONS, &journal::OPTIONS].concat();
        let shared = own.iter().map(|(name, _)| *name).filter(|name| *name != BPLUS_ALONE[0].name);
        for name in ftls.chain(shared) {
            let known = LazyUpdate::OPTIONS.iter().filter(|o| o.name == name).count();
            assert_eq!(known, 1, "{name}");
        }
        assert_eq!(LazyUpdate::OPTIONS.len() - BPlus::OPTIONS.len(), 7);
    }

    #[test]
    fn trees_of_a_forest_share_the_ram_by_their_records() {
        let chip = || Box::new(SimChip::new(&crate::testing::part(2048, 64, 64)).unwrap());
        let settings = Settings { ram_bytes: Some(150_000), ..Settings::new(RecordFormat::new(8, 8)) };
        let shares = [(3, 1000), (4, 3000), (9, 1)].map(|(tree, records)| TreeShare { tree, records });
        let trees = forest::<LazyUpdate>(chip(), &settings, &shares).unwrap();
        let pools: Vec<u64> = trees
            .iter()
            .map(|(_, tree)| {
                tree.stats().metrics.iter().find(|m| m.name == "pool_requests_max").unwrap().value
            })
            .collect();
        assert!(pools[1] > 2 * pools[0] && pools[0] > 20 && pools[2] == 1, "{pools:?}");
        let ram: usize = trees.iter().map(|(_, tree)| tree.ram_bytes()).sum();
        assert!(ram <= 150_000 && ram > 100_000, "{ram}");
    }

    #[test]
    fn a_frame_costs_what_the_policy_holds() {
        let bytes = |name: &str| policy_frame_bytes(catalogue::policy(name).unwrap(), PolicySettings::new(0));
        assert_eq!(bytes("lru"), 8);
        assert!(bytes("fifo") > 8 && bytes("bplru") < 200, "{} {}", bytes("fifo"), bytes("bplru"));
        let mut options = Options::default();
        options.set("cache", "cfl");
        let error = policy(&options).unwrap_err().to_string();
        assert!(error.contains("'cfl' is none of lru, fifo"), "{error}");
    }

    #[test]
    fn options_of_another_ftl_are_refused() {
        let mut options = Options::default();
        options.set("log_blocks", "4");
        assert!(require_known_by(store("fast").unwrap(), &options).is_ok());
        let error = require_known_by(store("page-map").unwrap(), &options).unwrap_err().to_string();
        assert!(error.contains("not for page-map"), "{error}");
    }
}
