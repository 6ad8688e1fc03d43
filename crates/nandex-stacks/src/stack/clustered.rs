//! The trees that write modified nodes together and out of place: AS B-tree, CB-tree and FB-tree. Each has an
//! update journal in every class but *none*. The batch of nodes gets at most half of the remaining RAM, and
//! the page cache the rest.

use super::{StoreTree, buffered, journal_bytes, replay_ram};
use crate::entry::Open;
use crate::names::OptionInfo;
use crate::options::{self, Settings};
use nandex::ordered::Durability;
use nandex::{IndexError, OrderedIndex, PageStore};
use nandex_papers::ordered::clustered::{ClusteredConfig, ClusteredTree};

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
                options::clustered::$member(settings, limit)
            }
        }

        impl StoreTree for $name {
            const OPTIONS: &'static [OptionInfo] = options_of_tree!(options::bplus::OPTIONS, $own, options::journal::OPTIONS);

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
                let replay = replay_ram::<$name>(settings, &*store, shared_bytes);
                buffered::<ClusteredTree<_>>(store, settings, (config, replay), open)
            }
        }
    };
}

clustered_tree!(
    /// AS B-tree.
    AsBtree, as_btree, options::clustered::AS_BTREE
);
clustered_tree!(
    /// CB-tree.
    CbTree, cb_tree, options::clustered::CB_TREE
);
clustered_tree!(
    /// FB-tree.
    FbTree, fb_tree, options::clustered::FB_TREE
);
