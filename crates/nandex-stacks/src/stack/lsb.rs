//! The LSB-tree, with an update journal in every class but *none*.

use super::{BPLUS_OWN, JOURNAL_OPTIONS, StoreTree, buffered, journal_bytes};
use crate::names::{OptionInfo, option};
use crate::registry::Open;
use nandex::ordered::lsb::{LsbConfig, LsbTree};
use nandex::ordered::{Durability, Settings};
use nandex::{IndexError, OrderedIndex, PageStore};

const LSB_OWN: [OptionInfo; 2] = [
    option("log_nodes", "8", "Lb: log nodes that are filled in RAM at the same time"),
    option("log_pages", "a quarter of the store", "log pages on the store at most, one for a leaf"),
];

/// The LSB-tree.
pub(crate) struct Lsb;

impl StoreTree for Lsb {
    const OPTIONS: &'static [OptionInfo] = options_of_tree!(BPLUS_OWN, LSB_OWN, JOURNAL_OPTIONS);

    fn table_bytes(settings: &Settings, store: &dyn PageStore) -> Result<usize, IndexError> {
        Ok(LsbConfig::from_settings(settings)?.ram_bytes_max(store)? + journal_bytes(settings, store))
    }

    fn lets_writes_wait(settings: &Settings) -> bool {
        settings.durability == Durability::None
    }

    fn open(
        store: Box<dyn PageStore>,
        settings: &Settings,
        _: usize,
        open: Open,
    ) -> Result<Box<dyn OrderedIndex>, IndexError> {
        let config = LsbConfig::from_settings(settings)?;
        buffered::<LsbTree<_>>(store, settings, config, open)
    }
}
