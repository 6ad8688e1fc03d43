//! The buffered B-tree layers: BFTL, WOBF, IBSF, BOF, RBFTL and FlashDB, each with an update journal in every class but *none*.

use super::{BPLUS_OWN, JOURNAL_OPTIONS, StoreTree, buffered, journal_bytes};
use crate::names::{OptionInfo, option};
use crate::registry::Open;
use nandex::ordered::layered::{LayeredTree, bftl, bof, flashdb, ibsf, rbftl, wobf};
use nandex::ordered::{Durability, Settings};
use nandex::{IndexError, OrderedIndex, PageStore};

const UNITS: OptionInfo = option("reservation_units", "60", "units that wait in RAM at most");

const BFTL_OWN: [OptionInfo; 3] = [
    UNITS,
    option("list_length", "4", "C: sectors of a node at most, 1 to 64"),
    option("packing", "first-fit", "first-fit, or decreasing: the largest set of units first"),
];

const WOBF_OWN: [OptionInfo; 3] = [
    UNITS,
    BFTL_OWN[1],
    option("merge_on_commit", "yes", "yes, or no: a list grows to list_length before it is compacted"),
];

const FLASH_DB_OWN: [OptionInfo; 4] = [
    option("modes", "tuned", "tuned, each node its own; log, or disk: that one alone"),
    BFTL_OWN[1],
    option("read_ns", "80000", "time of a page read that the choice of a mode reckons with"),
    option("program_ns", "200000", "the same of a page program"),
];

macro_rules! layered_tree {
    ($(#[$doc:meta])* $name:ident, $member:ident, $own:expr) => {
        $(#[$doc])*
        pub(crate) struct $name;

        impl StoreTree for $name {
            const IS_WHOLE_AFTER_CUT: bool = !$name::IS_RELIABLE;

            const OPTIONS: &'static [OptionInfo] = options_of_tree!(BPLUS_OWN, $own, JOURNAL_OPTIONS);

            fn table_bytes(settings: &Settings, store: &dyn PageStore) -> Result<usize, IndexError> {
                let tree = $member::from_settings(settings)?.ram_bytes_max(store)?;
                Ok(tree + journal_bytes(&$name::in_class(settings, store)?, store))
            }

            fn lets_writes_wait(settings: &Settings) -> bool {
                !$name::IS_RELIABLE && settings.durability == Durability::None
            }

            fn open(
                store: Box<dyn PageStore>,
                settings: &Settings,
                _: usize,
                open: Open,
            ) -> Result<Box<dyn OrderedIndex>, IndexError> {
                let settings = $name::in_class(settings, &*store)?;
                let config = $member::from_settings(&settings)?;
                buffered::<LayeredTree<_>>(store, &settings, config, open)
            }
        }
    };
}

layered_tree!(
    /// BFTL.
    Bftl, bftl, BFTL_OWN
);
layered_tree!(
    /// WOBF.
    Wobf, wobf, WOBF_OWN
);
layered_tree!(
    /// IBSF.
    Ibsf, ibsf, [UNITS]
);
layered_tree!(
    /// BOF.
    Bof, bof, [UNITS]
);
layered_tree!(
    /// RBFTL, which has its journal in every class where the store lets it.
    Rbftl, rbftl, [UNITS]
);

layered_tree!(
    /// FlashDB.
    FlashDb, flashdb, FLASH_DB_OWN
);

/// Whether an index always has its journal, and the class that it therefore runs in.
trait Reliable {
    const IS_RELIABLE: bool = false;

    fn in_class(settings: &Settings, store: &dyn PageStore) -> Result<Settings, IndexError> {
        let mut settings = settings.clone();
        if Self::IS_RELIABLE && settings.durability == Durability::None {
            let class = rbftl::from_settings(&settings)?.class_on(store)?;
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
