//! What a tree on logical pages stands on: an FTL on the chip, and a page cache where RAM is left for one.

use crate::forest::{TreeShare, share_store};
use crate::ftls;
use crate::names::{OptionInfo, option};
use crate::registry::{NumberedTrees, Open, STORES, StoreEntry, store};
use nandex::cache::{CacheConfig, Lru, PageCache, WriteMode};
use nandex::ordered::bplus::{BPlusConfig, BPlusTree};
use nandex::ordered::{Durability, Options, Settings};
use nandex::{IndexError, Nand, OrderedIndex, PageStore};

/// Options of a B+-tree on a store, its own, its FTL's and its cache's.
pub(crate) const BPLUS_OPTIONS: [OptionInfo; 28] = [
    option("ftl", "page-map", "the FTL below (nandex list ftls)"),
    option("cache", "lru", "the replacement policy of the page cache (nandex list policies)"),
    option("cache_pages", "what the RAM leaves", "frames of the page cache"),
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

/// What the page cache holds per frame besides the page.
const FRAME_BYTES: usize = 48;

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
    fn options_of_another_ftl_are_refused() {
        let mut options = Options::default();
        options.set("log_blocks", "4");
        assert!(require_known_by(store("fast").unwrap(), &options).is_ok());
        let error = require_known_by(store("page-map").unwrap(), &options).unwrap_err().to_string();
        assert!(error.contains("not for page-map"), "{error}");
    }
}
