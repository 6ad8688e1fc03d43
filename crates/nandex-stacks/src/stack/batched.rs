//! The MB-tree and the PIO B-tree: pools above trees with leaves of several pages, each with an update
//! journal in every class but *none*.

use super::{StoreTree, buffered, journal_bytes, replay_ram};
use crate::entry::Open;
use crate::names::OptionInfo;
use crate::options::{self, Settings};
use nandex::ordered::Durability;
use nandex::{IndexError, OrderedIndex, PageStore};
use nandex_papers::ordered::mb::MbTree;
use nandex_papers::ordered::pio::PioTree;

macro_rules! batched_tree {
    ($(#[$doc:meta])* $name:ident, $tree:ident, $own:expr, $config:expr) => {
        $(#[$doc])*
        pub(crate) struct $name;

        impl StoreTree for $name {
            // What its pool submits together is for many leaves.
            const EXCEEDS_GROUPS: bool = true;

            const OPTIONS: &'static [OptionInfo] = options_of_tree!($own, options::pool::POOL, options::journal::OPTIONS);

            fn table_bytes(settings: &Settings, store: &dyn PageStore) -> Result<usize, IndexError> {
                let config = $config(settings, store.page_bytes(), 0)?;
                Ok(config.ram_bytes_max(store)? + journal_bytes(settings, store))
            }

            fn buffer_bytes(
                settings: &Settings,
                store: &dyn PageStore,
                shared_bytes: usize,
            ) -> Result<usize, IndexError> {
                let count = options::pool::COUNT.of(&settings.options)?;
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
                let replay = replay_ram::<$name>(settings, &*store, shared_bytes);
                buffered::<$tree<_>>(store, settings, (config, replay), open)
            }
        }
    };
}

batched_tree!(
    /// The MB-tree.
    Mb, MbTree, options::pool::MB,
    |settings, _, shared_bytes| options::pool::mb(settings, shared_bytes)
);
batched_tree!(
    /// The PIO B-tree.
    Pio, PioTree, options::pool::PIO, options::pool::pio
);
