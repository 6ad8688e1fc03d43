//! The B+-tree on an FTL, with a page cache of the RAM that is left.

use crate::config::Config;
use crate::error::Failure;
use crate::gather::Gather;
use crate::open::{Batches, Open, Opened};
use alloc::boxed::Box;
use nandex::cache::{CacheConfig, Lru, PageCache, WriteMode};
use nandex::ordered::Durability;
use nandex::ordered::bplus::{BPlusConfig, BPlusTree};
use nandex::{IndexError, Nand, OrderedIndex, PageStore, Shared, StoreError};

/// Bytes of RAM of a cache frame in addition to its page.
const FRAME_BYTES: usize = 40;

type Cached<S> = Shared<Gather<PageCache<S, Lru>>>;

/// The B+-tree on the page-mapping FTL.
#[cfg(feature = "bplus")]
pub(crate) fn page_map(nand: impl Nand + 'static, config: &Config, open: Open) -> Result<Opened, Failure> {
    use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
    let default = FtlConfig::default();
    let settings = default
        .with_over_provisioning_ppm(config.over_provisioning_ppm.unwrap_or(default.over_provisioning_ppm))
        .with_bad_blocks_ppm(config.bad_blocks_ppm.unwrap_or(default.bad_blocks_ppm))
        .with_atomic_pages(config.atomic_pages.unwrap_or(default.atomic_pages));
    let ftl = match open {
        Open::Format => PageMapFtl::format(nand, &settings)?,
        Open::Mount => PageMapFtl::mount(nand, &settings)?,
    };
    opened(ftl, config, open)
}

/// The B+-tree on DFTL, whose map is on the chip.
#[cfg(feature = "bplus-dftl")]
pub(crate) fn dftl(nand: impl Nand + 'static, config: &Config, open: Open) -> Result<Opened, Failure> {
    use nandex::ftl::FlashConfig;
    use nandex::ftl::dftl::{DftlConfig, DftlFtl};
    let default = FlashConfig::default();
    let common = default
        .with_over_provisioning_ppm(config.over_provisioning_ppm.unwrap_or(default.over_provisioning_ppm))
        .with_bad_blocks_ppm(config.bad_blocks_ppm.unwrap_or(default.bad_blocks_ppm));
    let settings = DftlConfig::default().with_common(common).with_cache_bytes(config.mapping_ram_bytes);
    let ftl = match open {
        Open::Format => DftlFtl::format(nand, &settings)?,
        Open::Mount => DftlFtl::mount(nand, &settings)?,
    };
    opened(ftl, config, open)
}

fn opened<S: PageStore + 'static>(ftl: S, config: &Config, open: Open) -> Result<Opened, Failure> {
    let (pages, tree) = cached(ftl, config)?;
    let index = tree_on(pages.clone(), tree, open)?;
    Ok(Opened { index: Some(index), batches: Some(Box::new(Grouped { pages, tree })) })
}

/// The FTL behind a cache of as many pages as the RAM leaves, and how the tree is to be.
fn cached<S: PageStore + 'static>(ftl: S, config: &Config) -> Result<(Cached<S>, BPlusConfig), Failure> {
    let tree = BPlusConfig::new(config.record).with_durability(config.durability);
    let tables = ftl.ram_bytes() + tree.ram_bytes_max(&ftl)?;
    let frames = match config.ram_bytes {
        None => 0,
        Some(ram) => {
            let left = ram.checked_sub(tables).ok_or(IndexError::TooLittleRam {
                given: ram,
                needed: tables,
                what: "the FTL's tables and the tree",
            })?;
            (left / (ftl.page_bytes() + FRAME_BYTES)).min(ftl.page_count() as usize)
        }
    };
    let waits = config.durability != Durability::EveryOperation;
    let mode = if waits && frames > 0 { WriteMode::Back } else { WriteMode::Through };
    let cache = CacheConfig::new(frames).with_mode(mode);
    Ok((Shared::new(Gather::new(PageCache::new(ftl, Lru::new(frames), cache))), tree))
}

fn tree_on<S: PageStore + 'static>(
    pages: Cached<S>,
    tree: BPlusConfig,
    open: Open,
) -> Result<Box<dyn OrderedIndex>, IndexError> {
    Ok(Box::new(match open {
        Open::Format => BPlusTree::format(pages, &tree)?,
        Open::Mount => BPlusTree::mount(pages, &tree)?,
    }))
}

/// Batches of a tree: the pages, and the configuration with which the tree is opened on them.
struct Grouped<S> {
    pages: Cached<S>,
    tree: BPlusConfig,
}

impl<S: PageStore + 'static> Batches for Grouped<S> {
    fn begin(&mut self) {
        self.pages.lock().begin();
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        self.pages.lock().commit()
    }

    fn abandon(&mut self) {
        self.pages.lock().abandon();
    }

    fn reopen(&self) -> Result<Box<dyn OrderedIndex>, IndexError> {
        tree_on(self.pages.clone(), self.tree, Open::Mount)
    }
}
