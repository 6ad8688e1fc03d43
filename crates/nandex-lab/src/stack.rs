//! What a tree on logical pages stands on: an FTL on the chip, and a page cache where RAM is left for one.

use crate::forest::{TreeShare, share_store};
use crate::names::{OptionInfo, option};
use crate::registry::{NumberedTrees, Open, store};
use nandex::cache::{CacheConfig, Lru, PageCache, WriteMode};
use nandex::ftl::page_map::FtlSettings;
use nandex::ftl::victim::VictimPolicy;
use nandex::ordered::bplus::{BPlusConfig, BPlusTree};
use nandex::ordered::{Durability, Options, Settings};
use nandex::{IndexError, Nand, OrderedIndex, PageStore, StoreError};

/// Options of the page-mapping FTL.
pub(crate) const PAGE_MAP_OPTIONS: [OptionInfo; 5] = [
    option("over_provisioning", "12.5", "physical pages beyond the logical ones, in % of the logical ones"),
    option("victim", "greedy", "which block is collected: greedy, cost-benefit"),
    option("atomic_pages", "64", "most pages of an atomic group, up to 256"),
    option("checkpoint_blocks", "by its cost", "blocks opened between two checkpoints"),
    option("wear_gap", "off", "erases by which a cold block may lag before it is moved"),
];

/// Options of a B+-tree on a store, its own, its FTL's and its cache's.
pub(crate) const BPLUS_OPTIONS: [OptionInfo; 11] = [
    option("ftl", "page-map", "the FTL below (nandex list ftls)"),
    option("cache", "lru", "the replacement policy of the page cache (nandex list policies)"),
    option("cache_pages", "what the RAM leaves", "frames of the page cache"),
    PAGE_MAP_OPTIONS[0],
    PAGE_MAP_OPTIONS[1],
    PAGE_MAP_OPTIONS[2],
    PAGE_MAP_OPTIONS[3],
    PAGE_MAP_OPTIONS[4],
    option("order", "what the page holds", "entries of a node at most, leaf and internal"),
    option("leaf_capacity", "order", "entries of a leaf at most, 2 or more"),
    option("internal_capacity", "order", "children of an internal node at most, 3 or more"),
];

/// What the page cache holds per frame besides the page.
const FRAME_BYTES: usize = 48;

/// The settings of the page-mapping FTL that the options ask for.
pub(crate) fn page_map_settings(options: &Options) -> Result<FtlSettings, StoreError> {
    let number = |name| options.number(name).map_err(|e| StoreError::Unsupported(e.to_string()));
    let default = FtlSettings::default();
    let victim = options.choice("victim", &["greedy", "cost-benefit"]);
    Ok(FtlSettings {
        over_provisioning_ppm: match options.text("over_provisioning") {
            Some(text) => percent_to_ppm(text)?,
            None => default.over_provisioning_ppm,
        },
        victim: match victim.map_err(|e| StoreError::Unsupported(e.to_string()))? {
            "greedy" => VictimPolicy::Greedy,
            _ => VictimPolicy::CostBenefit,
        },
        atomic_pages: number("atomic_pages")?.map_or(default.atomic_pages, |n| n.clamp(1, 256) as u32),
        checkpoint_blocks: number("checkpoint_blocks")?.map(|n| n.clamp(1, 1 << 24) as u32),
        wear_gap_erases: number("wear_gap")?.map(|n| n.clamp(1, 1 << 30) as u32),
        ..default
    })
}

fn percent_to_ppm(text: &str) -> Result<u32, StoreError> {
    let percent: f64 = text.parse().unwrap_or(-1.0);
    if (0.0..=900.0).contains(&percent) {
        Ok((percent * 10_000.0).round() as u32)
    } else {
        let what = format!("option over_provisioning: '{text}' is no percentage from 0 to 900");
        Err(StoreError::Unsupported(what))
    }
}

/// Formats or mounts a B+-tree over the FTL and cache that its settings name.
pub(crate) fn bplus(
    nand: Box<dyn Nand>,
    settings: &Settings,
    open: Open,
) -> Result<Box<dyn OrderedIndex>, IndexError> {
    let config = BPlusConfig::from_settings(settings)?;
    let store = cached_store(nand, settings, open, (&config, 1))?;
    Ok(match open {
        Open::Format => Box::new(BPlusTree::format(store, config)?),
        Open::Mount => Box::new(BPlusTree::mount_as(store, config)?),
    })
}

/// Formats a B+-tree for each share on a slice of one store.
pub(crate) fn bplus_forest(
    nand: Box<dyn Nand>,
    settings: &Settings,
    shares: &[TreeShare],
) -> Result<NumberedTrees, IndexError> {
    let config = BPlusConfig::from_settings(settings)?;
    let store = cached_store(nand, settings, Open::Format, (&config, shares.len()))?;
    let mut trees: NumberedTrees = Vec::new();
    for (tree, slice) in share_store(store, shares)? {
        trees.push((tree, Box::new(BPlusTree::format(slice, config)?)));
    }
    Ok(trees)
}

/// The FTL that the settings name, with a page cache where RAM is left for one beside FTL and so many trees.
fn cached_store(
    nand: Box<dyn Nand>,
    settings: &Settings,
    open: Open,
    (config, trees): (&BPlusConfig, usize),
) -> Result<Box<dyn PageStore>, IndexError> {
    let name = settings.options.text("ftl").unwrap_or("page-map");
    let entry = store(name).map_err(|e| IndexError::Unsupported(e.to_string()))?;
    settings.options.choice("cache", &["lru"])?;
    let ftl = match open {
        Open::Format => (entry.format)(nand, settings)?,
        Open::Mount => (entry.mount)(nand, settings)?,
    };
    let frames = cache_frames(settings, &ftl, config.ram_bytes_max(&ftl)? * trees)?;
    if frames == 0 {
        return Ok(ftl);
    }
    let mode =
        if settings.durability == Durability::EveryOperation { WriteMode::Through } else { WriteMode::Back };
    let cache = CacheConfig { frames, mode, dirty_frames_max: None };
    Ok(Box::new(PageCache::new(ftl, Lru::new(frames), cache)))
}

/// Frames of the page cache: as set, or what the tables of FTL and tree leave of the RAM.
fn cache_frames(settings: &Settings, ftl: &impl PageStore, tree_bytes: usize) -> Result<usize, IndexError> {
    let tables = ftl.ram_bytes() + tree_bytes;
    let frame_bytes = ftl.page_bytes() + FRAME_BYTES;
    let left = match settings.ram_bytes {
        None => 0,
        Some(ram) => ram.checked_sub(tables).ok_or_else(|| too_little(ram, tables))?,
    };
    let frames = settings.options.number("cache_pages")?.map_or(left / frame_bytes, |n| n as usize);
    match settings.ram_bytes {
        Some(ram) if tables + frames * frame_bytes > ram => {
            Err(too_little(ram, tables + frames * frame_bytes))
        }
        _ => Ok(frames),
    }
}

fn too_little(ram: usize, needed: usize) -> IndexError {
    IndexError::Unsupported(format!(
        "{ram} bytes of RAM are too few: the FTL's map, the tree and the cache take {needed}"
    ))
}
