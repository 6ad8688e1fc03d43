//! The stack below a tree on logical pages, ordered or spatial: an FTL on the chip or a hard disk, and a
//! page cache where RAM is left for one.

use crate::entry::{Ground, NumberedTrees, Open, StoreEntry};
use crate::forest::{TreeShare, share_store};
use crate::names::{OptionInfo, count_names, union, union_of};
use crate::options::{self, Options, Settings};
use crate::stores::{STORES, store};
use nandex::cache::{CacheConfig, PageCache, Replacement, WriteMode};
use nandex::index::{most, require_ram};
use nandex::ordered::Durability;
use nandex::ordered::bplus::{BPlusTree, TreeRam};
use nandex::store::finishing::Finishing;
use nandex::{IndexError, Nand, OrderedIndex, PageStore};
use nandex_papers::cache::PolicyConfig;
use nandex_papers::cache::catalogue::PolicyEntry;
use nandex_papers::ordered::journal::{Buffered, JournalConfig, Journaled, refuse_journaled};
use nandex_papers::ordered::lazy_update::LazyUpdateTree;
use nandex_papers::ordered::ls_lru::{LsLruConfig, LsLruTree, UnitRam};

/// Largest size of a buffer, in bytes.
const BUFFER_BYTES: usize = most::BUFFER_BYTES as usize;

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

/// Joins the options of a tree to those of all stores and caches.
macro_rules! options_of_tree {
    ($($own:expr),*) => {
        $crate::names::union_of!($crate::options::cache::OPTIONS, $crate::stack::FTL_OPTIONS, $($own),*)
    };
}

pub(crate) use options_of_tree;

// Below the macro that they use.
mod batched;
mod beneath;
mod clustered;
mod layered;
mod lsb;
mod messages;
mod small_map;
mod wpcb;

pub(crate) use batched::{Mb, Pio};
pub(crate) use beneath::{beneath, raw_tree};
pub(crate) use clustered::{AsBtree, CbTree, FbTree};
pub(crate) use layered::{Bftl, Bof, FlashDb, Ibsf, Rbftl, Wobf};
pub(crate) use lsb::Lsb;
pub(crate) use messages::{BEpsilon, Fd, La};
pub(crate) use wpcb::Wpcb;

/// A mount after a cut sorts updates in one part in this many of the RAM left for buffers and page cache.
const REPLAY_SHARE: usize = 16;

/// Bytes of a frame of the page cache, besides the page and the data of the policy.
const FRAME_BYTES: usize = 40;

/// A tree on logical pages: how it is opened and how much RAM it uses. A new tree implements this trait and
/// gets a line in the registry.
pub(crate) trait StoreTree {
    /// Whether a separate journal makes the tree durable, and the tree can be opened after a cut even in
    /// the class *none*.
    const IS_WHOLE_AFTER_CUT: bool = true;

    /// Whether a single change may write more pages than fit a group of the store. In the class *none* the
    /// tree then writes without groups, and the next mount tells if it was not closed.
    const EXCEEDS_GROUPS: bool = false;

    /// The options of the tree, with those of store and cache.
    const OPTIONS: &'static [OptionInfo];

    /// The most RAM that the tree needs on a store without its buffers, in bytes.
    fn table_bytes(settings: &Settings, store: &dyn PageStore) -> Result<usize, IndexError>;

    /// RAM of the tree's buffers in bytes, out of the RAM left for them and the tree's part of the page
    /// cache.
    fn buffer_bytes(
        _settings: &Settings,
        _store: &dyn PageStore,
        _shared_bytes: usize,
    ) -> Result<usize, IndexError> {
        Ok(0)
    }

    /// Whether written pages may wait in the cache.
    fn lets_writes_wait(settings: &Settings) -> bool;

    /// How many sorts of updates a mount after a cut does at the same time: in an update journal and in
    /// logs of the tree. Each takes a [`REPLAY_SHARE`]th of the RAM left for buffers and cache.
    fn replays(settings: &Settings) -> usize {
        usize::from(settings.durability != Durability::None)
    }

    /// Opens the tree on its store; `shared_bytes` as for [`StoreTree::buffer_bytes`].
    fn open(
        store: Box<dyn PageStore>,
        settings: &Settings,
        shared_bytes: usize,
        open: Open,
    ) -> Result<Box<dyn OrderedIndex>, IndexError>;
}

/// Pages per block that a policy assumes on a disk, if the policy works with blocks.
const DISK_BLOCK_PAGES: u32 = 32;

/// The demands of a tree on store and RAM.
#[derive(Clone, Copy)]
pub(crate) struct Demand {
    /// See [`StoreTree::table_bytes`].
    pub(crate) table_bytes: fn(&Settings, &dyn PageStore) -> Result<usize, IndexError>,
    /// See [`StoreTree::buffer_bytes`].
    pub(crate) buffer_bytes: fn(&Settings, &dyn PageStore, usize) -> Result<usize, IndexError>,
    /// See [`StoreTree::lets_writes_wait`].
    pub(crate) lets_writes_wait: fn(&Settings) -> bool,
    /// See [`StoreTree::replays`].
    pub(crate) replays: fn(&Settings) -> usize,
    /// See [`StoreTree::EXCEEDS_GROUPS`].
    pub(crate) exceeds_groups: bool,
}

impl Demand {
    fn of<T: StoreTree>() -> Demand {
        Demand {
            table_bytes: T::table_bytes,
            buffer_bytes: T::buffer_bytes,
            lets_writes_wait: T::lets_writes_wait,
            replays: T::replays,
            exceeds_groups: T::EXCEEDS_GROUPS,
        }
    }
}

/// Opens the tree with the FTL and the cache that its settings name.
pub(crate) fn tree<T: StoreTree>(
    nand: Box<dyn Nand>,
    settings: &Settings,
    open: Open,
) -> Result<Box<dyn OrderedIndex>, IndexError> {
    tree_on::<T>(Ground::Chip(nand), settings, open)
}

/// Opens the tree on a chip or a disk.
pub(crate) fn tree_on<T: StoreTree>(
    ground: Ground,
    settings: &Settings,
    open: Open,
) -> Result<Box<dyn OrderedIndex>, IndexError> {
    let (store, shared) = cached_store(ground, settings, open, Demand::of::<T>(), &[1])?;
    T::open(store, settings, shared[0], open)
}

/// Opens a tree for each share, on a slice of one store each.
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

pub(crate) struct BPlus;

impl StoreTree for BPlus {
    const IS_WHOLE_AFTER_CUT: bool = false;

    const OPTIONS: &'static [OptionInfo] = options_of_tree!(options::bplus::OPTIONS, options::bplus::ALONE);

    fn table_bytes(settings: &Settings, store: &dyn PageStore) -> Result<usize, IndexError> {
        Ok(BPlus::least_and_ample(settings, store)?.0)
    }

    /// RAM for all pages that an operation changes at once, if there is enough.
    fn buffer_bytes(
        settings: &Settings,
        store: &dyn PageStore,
        shared_bytes: usize,
    ) -> Result<usize, IndexError> {
        let (least, ample) = BPlus::least_and_ample(settings, store)?;
        Ok(if shared_bytes < ample - least { 0 } else { ample - least })
    }

    fn lets_writes_wait(settings: &Settings) -> bool {
        settings.durability != Durability::EveryOperation
    }

    fn replays(_: &Settings) -> usize {
        0
    }

    fn open(
        store: Box<dyn PageStore>,
        settings: &Settings,
        shared_bytes: usize,
        open: Open,
    ) -> Result<Box<dyn OrderedIndex>, IndexError> {
        let (least, ample) = BPlus::least_and_ample(settings, &*store)?;
        let ram = if shared_bytes < ample - least { TreeRam::Least } else { TreeRam::Ample };
        let config = options::bplus::config(settings)?.with_ram(ram);
        Ok(match open {
            Open::Format => Box::new(BPlusTree::format(store, &config)?),
            _ => Box::new(BPlusTree::mount(store, &config)?),
        })
    }
}

impl BPlus {
    /// The RAM that the tree needs, and the RAM with which no operation is done in parts. Both are equal if
    /// the RAM is not limited, if there is no other way, or if no FTL is named: an FTL with smaller tables
    /// leaves a cache.
    fn least_and_ample(settings: &Settings, store: &dyn PageStore) -> Result<(usize, usize), IndexError> {
        let config = options::bplus::config(settings)?;
        let ample = config.ram_bytes_max(store)?;
        let least = config
            .ram_bytes_least(store)?
            .filter(|_| settings.ram_bytes.is_some() && settings.options.text("ftl").is_some());
        Ok((least.map_or(ample, |least| least.min(ample)), ample))
    }
}

/// The lazy-update B+-tree, with an update journal in every class but *none*.
pub(crate) struct LazyUpdate;

impl StoreTree for LazyUpdate {
    const OPTIONS: &'static [OptionInfo] =
        options_of_tree!(options::bplus::OPTIONS, options::pool::LAZY_UPDATE, options::journal::OPTIONS);

    fn table_bytes(settings: &Settings, store: &dyn PageStore) -> Result<usize, IndexError> {
        Ok(options::bplus::config(settings)?.ram_bytes_max(store)? + journal_bytes(settings, store))
    }

    fn buffer_bytes(
        settings: &Settings,
        _: &dyn PageStore,
        shared_bytes: usize,
    ) -> Result<usize, IndexError> {
        let count = options::pool::COUNT.of(&settings.options)?;
        Ok(options::pool::lazy_update(settings, shared_bytes)?.pool_bytes(count))
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
        let config = options::pool::lazy_update(settings, shared_bytes)?;
        let replay = replay_ram::<LazyUpdate>(settings, &*store, shared_bytes);
        buffered::<LazyUpdateTree<_>>(store, settings, (config, replay), open)
    }
}

/// The LS-LRU tree, with an update journal in every class but *none*. Its buffer is its page cache.
pub(crate) struct LsLru;

impl StoreTree for LsLru {
    // Of the page cache's options only the FTL below: the buffer is the cache.
    const OPTIONS: &'static [OptionInfo] = union_of!(
        [options::cache::FTL],
        FTL_OPTIONS,
        options::bplus::OPTIONS,
        options::ls_lru::OPTIONS,
        options::journal::OPTIONS,
    );

    fn table_bytes(settings: &Settings, store: &dyn PageStore) -> Result<usize, IndexError> {
        let config = options::ls_lru::config(settings, store.page_bytes(), 0)?;
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
        Ok(options::ls_lru::config(settings, store.page_bytes(), shared_bytes)?.buffer_bytes)
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
        let config = options::ls_lru::config(settings, store.page_bytes(), shared_bytes)?;
        let replay = replay_ram::<LsLru>(settings, &*store, shared_bytes);
        buffered::<LsLruTree<_>>(store, settings, (config, replay), open)
    }
}

/// RAM of the update journal in bytes, in the classes that have one. Mounts need [`replay_ram`] in
/// addition.
fn journal_bytes(settings: &Settings, store: &dyn PageStore) -> usize {
    if settings.durability == Durability::None { 0 } else { bytes_of_journal(store) }
}

/// RAM of an update journal in bytes, with a page for the reads of a mount and a page for the records that
/// it sorts.
fn bytes_of_journal(store: &dyn PageStore) -> usize {
    JournalConfig::ram_bytes(store.page_bytes()) + 2 * store.page_bytes()
}

/// RAM in bytes for the replay of one tree's journal, which sorts updates: a page, and the tree's share of
/// the remaining RAM.
fn replay_ram<T: StoreTree>(
    settings: &Settings,
    store: &dyn PageStore,
    shared_bytes: usize,
) -> Option<usize> {
    let others = REPLAY_SHARE - T::replays(settings);
    settings.ram_bytes.map(|_| store.page_bytes() + shared_bytes / others)
}

/// Opens a tree that buffers updates in RAM. In the class *none* it is as published. In other classes it has
/// a journal, which a mount replays with `replay_ram` bytes.
fn buffered<T>(
    mut store: Box<dyn PageStore>,
    settings: &Settings,
    (config, replay_ram): (T::Config, Option<usize>),
    open: Open,
) -> Result<Box<dyn OrderedIndex>, IndexError>
where
    T: Buffered<Box<dyn PageStore>> + 'static,
    T::Config: 'static,
{
    if settings.durability != Durability::None {
        let journal = JournalConfig { replay_ram, ..options::journal::config(settings)? };
        return Ok(match open {
            Open::Format => Box::new(Journaled::<_, T>::format(store, &(config, journal))?),
            _ => Box::new(Journaled::<_, T>::mount(store, &(config, journal))?),
        });
    }
    if open != Open::Format {
        refuse_journaled(&mut store)?;
    }
    Ok(match open {
        Open::Format => Box::new(T::format(store, &config)?),
        Open::Mount => Box::new(T::mount(store, &config)?),
        Open::MountAfterCut => Box::new(T::mount_after_cut(store, &config)?),
    })
}

/// Opens the FTL that the settings name, with a page cache if RAM is left beside FTL and trees. Also
/// returns the RAM that each tree shares with the cache; the trees have shares by their weights.
pub(crate) fn cached_store(
    ground: Ground,
    settings: &Settings,
    open: Open,
    demand: Demand,
    weights: &[u64],
) -> Result<(Box<dyn PageStore>, Vec<usize>), IndexError> {
    require_ram(settings.ram_bytes)?;
    let (ftl, plan) = match ground {
        Ground::Chip(nand) => {
            let geometry = nand.geometry();
            let plan = CachePlan::new(settings, geometry.page_bytes as usize, geometry.pages_per_block)?;
            (small_map::fitting_ftl(nand, settings, open, (demand, weights.len()))?, plan)
        }
        Ground::Disk(disk) => {
            let plan = CachePlan::new(settings, disk.page_bytes(), DISK_BLOCK_PAGES)?;
            (disk, plan)
        }
    };
    let tables = ftl.ram_bytes() + (demand.table_bytes)(settings, &*ftl)? * weights.len();
    let least = least_bytes(&*ftl, settings, demand, weights.len())?;
    let left = match settings.ram_bytes {
        None => 0,
        Some(ram) if ram < least => return Err(too_little(ram, least)),
        Some(ram) => ram - tables,
    };
    let replay = left / REPLAY_SHARE * (demand.replays)(settings);
    let left = left - replay;
    let all: u64 = weights.iter().sum();
    let share = |weight: &u64| (left as u128 * u128::from(*weight) / u128::from(all.max(1))) as usize;
    // No buffer is larger, whatever is left.
    let shared: Vec<usize> = weights.iter().map(|weight| share(weight).min(BUFFER_BYTES)).collect();
    let mut fixed = tables + replay;
    for bytes in &shared {
        fixed += (demand.buffer_bytes)(settings, &*ftl, *bytes)?;
    }
    let alone = options::cache::writes_alone(&settings.options)?;
    let mode = match ((demand.lets_writes_wait)(settings), alone) {
        (false, _) => WriteMode::Through,
        (true, false) => WriteMode::Back,
        (true, true) => WriteMode::BackAlone,
    };
    let frames = plan.frames(settings, fixed, (&ftl, mode))?;
    // Where nothing is promised after a power cut, a change may leave in parts: because pages are taken one
    // at a time, or because it exceeds a group. What a worn-out chip leaves half done is finished in RAM.
    let finishing = |store: Box<dyn PageStore>| match settings.durability {
        Durability::None if demand.exceeds_groups || store.atomic_pages_max() == 1 => {
            Box::new(Finishing::new(store))
        }
        _ => store,
    };
    if frames == 0 {
        return Ok((finishing(ftl), shared));
    }
    let cache = CacheConfig { frames, mode, dirty_frames_max: None };
    Ok((finishing(Box::new(PageCache::new(ftl, plan.policy(frames), cache))), shared))
}

/// The least RAM for an FTL and its trees.
fn least_bytes(
    ftl: &dyn PageStore,
    settings: &Settings,
    demand: Demand,
    trees: usize,
) -> Result<usize, IndexError> {
    // With nothing to share a buffer still takes its least: named whatever was given.
    let tree = (demand.table_bytes)(settings, ftl)? + (demand.buffer_bytes)(settings, ftl, 0)?;
    Ok((ftl.ram_bytes() + tree * trees).max(ftl.mount_ram_bytes()))
}

fn ftl(nand: Box<dyn Nand>, settings: &Settings, open: Open) -> Result<Box<dyn PageStore>, IndexError> {
    ftl_named(options::cache::ftl(&settings.options), nand, settings, open)
}

fn ftl_named(
    name: &str,
    nand: Box<dyn Nand>,
    settings: &Settings,
    open: Open,
) -> Result<Box<dyn PageStore>, IndexError> {
    let entry = store(name).map_err(|e| IndexError::Unsupported(e.to_string().into()))?;
    require_known_by(entry, &settings.options)?;
    Ok(match open {
        Open::Format => (entry.format)(nand, settings)?,
        _ => (entry.mount)(nand, settings)?,
    })
}

/// The settings of a page cache without its size.
struct CachePlan {
    policy: &'static PolicyEntry,
    sizing: PolicyConfig,
    block_pages: u32,
    frame_bytes: usize,
}

impl CachePlan {
    fn new(settings: &Settings, page_bytes: usize, block_pages: u32) -> Result<CachePlan, IndexError> {
        let policy = options::cache::policy(&settings.options)?;
        let sizing = options::cache::sizing(&settings.options, block_pages)?;
        let ram = settings.ram_bytes.unwrap_or(usize::MAX);
        let frame_bytes = page_bytes + FRAME_BYTES + policy_frame_bytes(policy, sizing, ram);
        Ok(CachePlan { policy, sizing, block_pages, frame_bytes })
    }

    fn policy(&self, frames: usize) -> Box<dyn Replacement> {
        (self.policy.make)(&PolicyConfig { frames, ..self.sizing })
    }

    /// Number of frames of the page cache on a store: the number set, or as many as fit the remaining RAM.
    fn frames<S: PageStore>(
        &self,
        settings: &Settings,
        fixed: usize,
        (store, mode): (&S, WriteMode),
    ) -> Result<usize, IndexError> {
        let left = settings.ram_bytes.map_or(0, |ram| ram.saturating_sub(fixed));
        // A cache has no use for more frames than the store has pages.
        let set = options::cache::frames(&settings.options, store.page_count())?;
        let mut frames = set.unwrap_or((left / self.frame_bytes).min(store.page_count() as usize));
        let Some(ram) = settings.ram_bytes else { return Ok(frames) };
        let exact = |frames: usize| {
            if frames == 0 {
                return 0;
            }
            let config = CacheConfig { frames, mode, dirty_frames_max: None };
            PageCache::ram_bytes_max(store, &self.policy(frames), (config, self.block_pages))
        };
        // Tables grow in powers of two: just above one of them a frame takes more than it does mostly.
        let mut bytes = exact(frames);
        while set.is_none() && bytes > left {
            frames -= (bytes - left).div_ceil(self.frame_bytes).min(frames);
            bytes = exact(frames);
        }
        let needed = fixed + bytes;
        if needed > ram { Err(too_little(ram, needed)) } else { Ok(frames) }
    }
}

/// Refuses options that only other FTLs know.
fn require_known_by(ftl: &StoreEntry, options: &Options) -> Result<(), IndexError> {
    let knows = |entry: &StoreEntry, name: &str| entry.options.iter().any(|o| o.name == name);
    for (name, _) in options.iter() {
        if let Some(other) = STORES.iter().find(|e| knows(e, name)).filter(|_| !knows(ftl, name)) {
            let what = format!("option {name} is for FTLs such as {}, not for {}", other.name, ftl.name);
            return Err(IndexError::Unsupported(what.into()));
        }
    }
    Ok(())
}

/// RAM that a policy uses per frame: the largest value at two sizes, because tables grow in powers of two.
/// The policy is built to find out, so little RAM asks for few frames. The number of frames does not depend
/// further on the RAM, since a need that grew with the RAM could be met by less RAM and not by more.
fn policy_frame_bytes(policy: &PolicyEntry, settings: PolicyConfig, ram: usize) -> usize {
    const FRAMES: usize = 1000;
    const FEW: usize = 62;
    const RAM_FOR_FRAME: usize = 256;
    let bytes = |frames: usize| (policy.make)(&PolicyConfig { frames, ..settings }).ram_bytes();
    let fixed = bytes(0);
    let frames = if ram < FRAMES * RAM_FOR_FRAME { FEW } else { FRAMES };
    [frames, frames + frames.div_ceil(25)]
        .map(|frames| bytes(frames).saturating_sub(fixed).div_ceil(frames))
        .into_iter()
        .fold(0, usize::max)
}

fn too_little(given: usize, needed: usize) -> IndexError {
    IndexError::TooLittleRam { what: "the FTL's map, the trees and their buffers", given, needed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex_papers::cache::catalogue;

    #[test]
    fn a_tree_on_a_store_takes_the_options_of_every_store_and_its_own() {
        let ftls = FTL_LISTS.iter().copied().flatten().map(|option| option.name);
        let own =
            [&options::bplus::OPTIONS[..], &options::pool::LAZY_UPDATE, &options::journal::OPTIONS].concat();
        let shared = own.iter().map(|option| option.name);
        for name in ftls.chain(shared) {
            let known = LazyUpdate::OPTIONS.iter().filter(|o| o.name == name).count();
            assert_eq!(known, 1, "{name}");
        }
        assert_eq!(LazyUpdate::OPTIONS.len() - BPlus::OPTIONS.len(), 7);
    }

    #[test]
    fn a_frame_costs_what_the_policy_holds() {
        let bytes = |name: &str| {
            policy_frame_bytes(catalogue::policy(name).unwrap(), PolicyConfig::new(0), usize::MAX)
        };
        assert_eq!(bytes("lru"), 8);
        assert!(bytes("fifo") > 8 && bytes("bplru") < 200, "{} {}", bytes("fifo"), bytes("bplru"));
        let mut set = Options::default();
        set.set("cache", "cfl");
        let error = options::cache::policy(&set).unwrap_err().to_string();
        assert!(error.contains("'cfl' is none of lru, fifo"), "{error}");
    }
}
