//! The trees that write modified nodes together and out of place: AS B-tree, CB-tree and FB-tree, each with an update journal in
//! every class but *none*. The batch has half of what the RAM leaves at most, and the page cache the rest.

use super::{BPLUS_OWN, JOURNAL_OPTIONS, StoreTree, buffered, journal_bytes};
use crate::names::{OptionInfo, option};
use crate::registry::Open;
use nandex::ordered::clustered::{ClusteredConfig, ClusteredTree, as_btree, cb_tree, fb_tree};
use nandex::ordered::{Durability, Settings};
use nandex::{IndexError, OrderedIndex, PageStore};

const PERCENT: OptionInfo =
    option("batch_percent", "50", "share of the RAM for batch and page cache that the batch gets, 1 to 99");
const SPACE: OptionInfo = option("space_percent", "50", "pages in percent that nodes may take, 10 to 75");
const CHECKPOINTS: OptionInfo =
    option("checkpoint_flushes", "64", "batches from one checkpoint, or superblock, to the next");

const AS_OWN: [OptionInfo; 6] = [
    option(
        "batch_nodes",
        "64, or fewer",
        "W: modified nodes that wait in RAM before all are written; fewer where RAM or store are small",
    ),
    PERCENT,
    option("segment_pages", "1 MiB", "pages of a segment of the ring; a sixteenth of the store at most"),
    option(
        "recycle_percent",
        "50",
        "the oldest segment is recycled if less of its pages in percent are live, even where there is room",
    ),
    SPACE,
    CHECKPOINTS,
];

const CB_OWN: [OptionInfo; 5] = [
    option(
        "batch_nodes",
        "16, or fewer",
        "W: modified nodes of a level that wait before it is written; fewer where RAM or store are small",
    ),
    PERCENT,
    option("segment_pages", "batch_nodes", "free pages in a run that a batch looks for"),
    SPACE,
    CHECKPOINTS,
];

const FB_OWN: [OptionInfo; 5] = [
    option(
        "batch_nodes",
        "64, or fewer",
        "modified nodes that wait in RAM before some are written; fewer where RAM or store are small",
    ),
    PERCENT,
    option(
        "segment_pages",
        "16",
        "nodes that are written together, and free pages in a run that they look for",
    ),
    SPACE,
    CHECKPOINTS,
];

macro_rules! clustered_tree {
    ($(#[$doc:meta])* $name:ident, $member:ident, $own:expr) => {
        $(#[$doc])*
        pub(crate) struct $name;

        impl $name {
            fn config(
                settings: &Settings,
                store: &dyn PageStore,
                shared_bytes: usize,
            ) -> Result<ClusteredConfig, IndexError> {
                let limit = settings.ram_bytes.map(|_| (shared_bytes, store.page_bytes()));
                $member::from_settings(settings, limit)
            }
        }

        impl StoreTree for $name {
            const OPTIONS: &'static [OptionInfo] = options_of_tree!(BPLUS_OWN, $own, JOURNAL_OPTIONS);

            fn table_bytes(settings: &Settings, store: &dyn PageStore) -> Result<usize, IndexError> {
                let config = $name::config(settings, store, 0)?;
                let tables = config.ram_bytes_max(store)? - config.batch_bytes(store)?;
                Ok(tables + journal_bytes(settings, store))
            }

            fn buffer_bytes(
                settings: &Settings,
                store: &dyn PageStore,
                shared_bytes: usize,
            ) -> Result<usize, IndexError> {
                let config = $name::config(settings, store, shared_bytes)?;
                config.batch_bytes(store)
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
                let config = $name::config(settings, &*store, shared_bytes)?;
                buffered::<ClusteredTree<_>>(store, settings, config, open)
            }
        }
    };
}

clustered_tree!(
    /// AS B-tree.
    AsBtree, as_btree, AS_OWN
);
clustered_tree!(
    /// CB-tree.
    CbTree, cb_tree, CB_OWN
);
clustered_tree!(
    /// FB-tree.
    FbTree, fb_tree, FB_OWN
);
