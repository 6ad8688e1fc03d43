//! What a tree on logical pages stands on: an FTL on the chip, and a page cache where RAM is left for one.

use crate::forest::{TreeShare, share_store};
use crate::ftls;
use crate::names::{OptionInfo, option};
use crate::registry::{NumberedTrees, Open, STORES, StoreEntry, store};
use nandex::cache::policy::catalogue::{self, PolicyEntry};
use nandex::cache::{CacheConfig, PageCache, PolicySettings, WriteMode};
use nandex::ordered::bplus::{BPlusConfig, BPlusTree};
use nandex::ordered::{Durability, Options, Settings};
use nandex::{IndexError, Nand, OrderedIndex, PageStore};

/// Options of a B+-tree on a store, its own, its FTL's and its cache's.
pub(crate) const BPLUS_OPTIONS: [OptionInfo; 30] = [
    option("ftl", "page-map", "the FTL below (nandex list ftls)"),
    option("cache", "lru", "the replacement policy of the page cache (nandex list policies)"),
    option("cache_pages", "what the RAM leaves", "frames of the page cache"),
    option(
        "cache_window",
        "the policy's own",
        "percent of the frames from which clean or clustered pages go first",
    ),
    option("cache_write_cost", "10", "what a page write costs in page reads, for policies that weigh them"),
    ftls::OVER_PROVISIONING,
    ftls::BAD_BLOCKS,
    ftls::WEAR_GAP,
    ftls::LEVELLING,
    ftls::VICTIM,
    ftls::ATOMIC_PAGES,
    ftls::CHECKPOINT_BLOCKS,
    ftls::SEPARATION,
    ftls::HOT_COUNTERS,
    ftls::LOG_BLOCKS,
    ftls::EAGER_SWITCH,
    ftls::HOT_BLOCKS,
    ftls::LOG_VICTIM,
    ftls::GROUP_BLOCKS,
    ftls::LOGS_PER_GROUP,
    ftls::CLEANING,
    ftls::CHAIN_BLOCKS,
    ftls::SUPERBLOCK_BLOCKS,
    ftls::EXTRA_BLOCKS,
    ftls::MAPPING_RAM,
    ftls::AREA_BLOCKS,
    ftls::CONVERT_PERCENT,
    option("order", "what the page holds", "entries of a node at most, leaf and internal"),
    option("leaf_capacity", "order", "entries of a leaf at most, 2 or more"),
    option("internal_capacity", "order", "children of an internal node at most, 3 or more"),
];

/// What the page cache holds per frame besides the page and the order of its policy.
const FRAME_BYTES: usize = 40;

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
    require_known_by(entry, &settings.options)?;
    let policy = policy(&settings.options)?;
    let block_pages = nand.geometry().pages_per_block;
    let ftl = match open {
        Open::Format => (entry.format)(nand, settings)?,
        Open::Mount => (entry.mount)(nand, settings)?,
    };
    let sizing = policy_settings(&settings.options, block_pages)?;
    let frame_bytes = ftl.page_bytes() + FRAME_BYTES + policy_frame_bytes(policy, sizing);
    let tables = ftl.ram_bytes() + config.ram_bytes_max(&ftl)? * trees;
    let frames = cache_frames(settings, tables, frame_bytes)?;
    if frames == 0 {
        return Ok(ftl);
    }
    let mode =
        if settings.durability == Durability::EveryOperation { WriteMode::Through } else { WriteMode::Back };
    let cache = CacheConfig { frames, mode, dirty_frames_max: None };
    let policy = (policy.make)(&PolicySettings { frames, ..sizing });
    Ok(Box::new(PageCache::new(ftl, policy, cache)))
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

/// What the options tell a policy; the frames are still to be counted.
fn policy_settings(options: &Options, block_pages: u32) -> Result<PolicySettings, IndexError> {
    let window_percent = options.number("cache_window")?.map(|percent| percent as u32);
    if window_percent.is_some_and(|percent| percent > 100) {
        return Err(IndexError::Unsupported("option cache_window: more than 100 percent".to_string()));
    }
    let none = PolicySettings::new(0);
    let write_cost = options.number("cache_write_cost")?.unwrap_or(none.write_cost);
    Ok(PolicySettings { block_pages, window_percent, write_cost, ..none })
}

/// What a policy holds per frame: the most it takes at two sizes, since tables grow in powers of two.
fn policy_frame_bytes(policy: &PolicyEntry, settings: PolicySettings) -> usize {
    let bytes = |frames: usize| (policy.make)(&PolicySettings { frames, ..settings }).ram_bytes();
    let fixed = bytes(0);
    [1000, 1040]
        .map(|frames| bytes(frames).saturating_sub(fixed).div_ceil(frames))
        .into_iter()
        .fold(0, usize::max)
}

/// Frames of the page cache: as set, or what the tables of FTL and tree leave of the RAM.
fn cache_frames(settings: &Settings, tables: usize, frame_bytes: usize) -> Result<usize, IndexError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_on_a_store_takes_the_options_of_every_store() {
        for entry in STORES {
            for option in entry.options {
                let known = BPLUS_OPTIONS.iter().any(|o| o.name == option.name);
                assert!(known, "{}: {}", entry.name, option.name);
            }
        }
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
