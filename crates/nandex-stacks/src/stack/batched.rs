//! The MB-tree and the PIO B-tree: pools above trees with leaves of several pages, each with an update journal in every class but
//! *none*.

use super::{JOURNAL_OPTIONS, LAZY_UPDATE_OWN, POOL_REQUESTS, StoreTree, buffered, journal_bytes};
use crate::names::{OptionInfo, option};
use crate::registry::Open;
use nandex::ordered::lazy_update::PoolCount;
use nandex::ordered::mb::{MbConfig, MbTree};
use nandex::ordered::pio::{PioConfig, PioTree};
use nandex::ordered::{Durability, Settings};
use nandex::{IndexError, OrderedIndex, PageStore};

const ORDER: OptionInfo =
    option("order", "what the page holds", "entries of a node at most, leaf and internal");

/// The options of the pool, but for its policy.
const POOL_OWN: [OptionInfo; 4] =
    [LAZY_UPDATE_OWN[1], LAZY_UPDATE_OWN[2], LAZY_UPDATE_OWN[3], LAZY_UPDATE_OWN[5]];

const MB_OWN: [OptionInfo; 4] = [
    ORDER,
    option("leaf_pages", "8", "pages of a leaf at most, 1 to 16, as the header has room for"),
    option(
        "leaf_size",
        "auto",
        "auto, each leaf has the pages that cost least; fixed, all may have leaf_pages",
    ),
    option("write_cost", "3", "what a page write costs in page reads, for leaf_size = auto"),
];

const PIO_OWN: [OptionInfo; 3] = [
    ORDER,
    option("leaf_pages", "4", "L: pages of a leaf, 2 to 16"),
    option(
        "requests",
        "64, or an eighth of the RAM",
        "page requests that are submitted together at most, which channels overlap",
    ),
];

/// Settings in which a pool without a limit of RAM has its default size.
fn with_pool(settings: &Settings) -> Settings {
    let unlimited = settings.ram_bytes.is_none() && settings.options.text("pool_requests").is_none();
    if unlimited { settings.clone().with("pool_requests", POOL_REQUESTS) } else { settings.clone() }
}

macro_rules! batched_tree {
    ($(#[$doc:meta])* $name:ident, $tree:ident, $own:expr, $config:expr) => {
        $(#[$doc])*
        pub(crate) struct $name;

        impl StoreTree for $name {
            // What its pool submits together is for many leaves.
            const EXCEEDS_GROUPS: bool = true;

            const OPTIONS: &'static [OptionInfo] = options_of_tree!($own, POOL_OWN, JOURNAL_OPTIONS);

            fn table_bytes(settings: &Settings, store: &dyn PageStore) -> Result<usize, IndexError> {
                let config = $config(settings, store.page_bytes(), 0)?;
                Ok(config.ram_bytes_max(store)? + journal_bytes(settings, store))
            }

            fn buffer_bytes(
                settings: &Settings,
                store: &dyn PageStore,
                shared_bytes: usize,
            ) -> Result<usize, IndexError> {
                let count = PoolCount::from_options(&settings.options)?;
                Ok($config(settings, store.page_bytes(), shared_bytes)?.pool_bytes(count))
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
                let config = $config(settings, store.page_bytes(), shared_bytes)?;
                buffered::<$tree<_>>(store, settings, config, open)
            }
        }
    };
}

// A tree of a forest whose share is next to nothing has a pool all the same.
batched_tree!(
    /// The MB-tree.
    Mb, MbTree, MB_OWN,
    |settings: &Settings, _: usize, shared_bytes: usize| {
        let config = MbConfig::from_settings(&with_pool(settings), shared_bytes)?;
        Ok::<_, IndexError>(MbConfig { pool_requests: config.pool_requests.max(1), ..config })
    }
);
batched_tree!(
    /// The PIO B-tree.
    Pio, PioTree, PIO_OWN,
    |settings: &Settings, page_bytes: usize, shared_bytes: usize| {
        let config = PioConfig::from_settings(&with_pool(settings), page_bytes, shared_bytes)?;
        Ok::<_, IndexError>(PioConfig { pool_requests: config.pool_requests.max(1), ..config })
    }
);
