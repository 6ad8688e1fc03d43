//! The buffered B-tree layers: BFTL, WOBF, IBSF, BOF, RBFTL and FlashDB, each with an update journal in every
//! class but *none*.

use super::{StoreTree, buffered, journal_bytes, replay_ram};
use crate::entry::Open;
use crate::names::OptionInfo;
use crate::options::{self, Settings};
use nandex::ordered::Durability;
use nandex::{IndexError, OrderedIndex, PageStore};
use nandex_papers::ordered::layered::LayeredTree;

macro_rules! layered_tree {
    ($(#[$doc:meta])* $name:ident, $member:ident, $own:expr) => {
        $(#[$doc])*
        pub(crate) struct $name;

        impl StoreTree for $name {
            const IS_WHOLE_AFTER_CUT: bool = !$name::IS_RELIABLE;

            const OPTIONS: &'static [OptionInfo] = options_of_tree!(options::bplus::OPTIONS, $own, options::journal::OPTIONS);

            fn table_bytes(settings: &Settings, store: &dyn PageStore) -> Result<usize, IndexError> {
                let tree = options::layered::$member(settings)?.ram_bytes_max(store)?;
                Ok(tree + journal_bytes(&$name::in_class(settings, store)?, store))
            }

            fn lets_writes_wait(settings: &Settings) -> bool {
                !$name::IS_RELIABLE && settings.durability == Durability::None
            }

            fn replays(settings: &Settings) -> usize {
                usize::from($name::IS_RELIABLE || settings.durability != Durability::None)
            }

            fn open(
                store: Box<dyn PageStore>,
                settings: &Settings,
                shared_bytes: usize,
                open: Open,
            ) -> Result<Box<dyn OrderedIndex>, IndexError> {
                let settings = $name::in_class(settings, &*store)?;
                let config = options::layered::$member(&settings)?;
                let replay = replay_ram::<$name>(&settings, &*store, shared_bytes);
                buffered::<LayeredTree<_>>(store, &settings, (config, replay), open)
            }
        }
    };
}

layered_tree!(
    /// BFTL.
    Bftl, bftl, options::layered::BFTL
);
layered_tree!(
    /// WOBF.
    Wobf, wobf, options::layered::WOBF
);
layered_tree!(
    /// IBSF.
    Ibsf, ibsf, options::layered::BUFFERED
);
layered_tree!(
    /// BOF.
    Bof, bof, options::layered::BUFFERED
);
layered_tree!(
    /// RBFTL, which has its journal in every class if the store allows it.
    Rbftl, rbftl, options::layered::BUFFERED
);

layered_tree!(
    /// FlashDB.
    FlashDb, flashdb, options::layered::FLASH_DB
);

/// Whether an index always has its journal, and the durability class that follows from it.
trait Reliable {
    const IS_RELIABLE: bool = false;

    fn in_class(settings: &Settings, store: &dyn PageStore) -> Result<Settings, IndexError> {
        let mut settings = settings.clone();
        if Self::IS_RELIABLE && settings.durability == Durability::None {
            let class = options::layered::rbftl(&settings)?.class_on(store)?;
            settings.durability = class.min(Durability::EverySync);
        }
        Ok(settings)
    }
}

impl Reliable for Bftl {}
impl Reliable for Wobf {}
impl Reliable for Ibsf {}
impl Reliable for Bof {}
impl Reliable for FlashDb {}
impl Reliable for Rbftl {
    const IS_RELIABLE: bool = true;
}
