//! The LSB-tree, with an update journal in every class but *none*.

use super::{StoreTree, buffered, journal_bytes};
use crate::entry::Open;
use crate::names::OptionInfo;
use crate::options::{self, Settings};
use nandex::ordered::Durability;
use nandex::ordered::lsb::LsbTree;
use nandex::{IndexError, OrderedIndex, PageStore};

/// The LSB-tree.
pub(crate) struct Lsb;

impl StoreTree for Lsb {
    const OPTIONS: &'static [OptionInfo] =
        options_of_tree!(options::bplus::OPTIONS, options::lsb::OPTIONS, options::journal::OPTIONS);

    fn table_bytes(settings: &Settings, store: &dyn PageStore) -> Result<usize, IndexError> {
        Ok(options::lsb::config(settings)?.ram_bytes_max(store)? + journal_bytes(settings, store))
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
        let config = options::lsb::config(settings)?;
        buffered::<LsbTree<_>>(store, settings, config, open)
    }
}
