//! The LSB-tree, with an update journal in every class but *none*.

use super::{StoreTree, buffered, journal_bytes, replay_ram};
use crate::entry::Open;
use crate::names::OptionInfo;
use crate::options::{self, Settings};
use nandex::ordered::Durability;
use nandex::{IndexError, OrderedIndex, PageStore};
use nandex_papers::ordered::lsb::{LsbConfig, LsbTree};

pub(crate) struct Lsb;

impl StoreTree for Lsb {
    const OPTIONS: &'static [OptionInfo] =
        options_of_tree!(options::bplus::OPTIONS, options::lsb::OPTIONS, options::journal::OPTIONS);

    fn table_bytes(settings: &Settings, store: &dyn PageStore) -> Result<usize, IndexError> {
        // A page for what its own logs say.
        let merge = store.page_bytes();
        Ok(options::lsb::config(settings)?.ram_bytes_max(store)? + merge + journal_bytes(settings, store))
    }

    fn lets_writes_wait(settings: &Settings) -> bool {
        settings.durability == Durability::None
    }

    /// Every mount after a cut merges the logs of leaves, while the replay of the journal waits for that.
    fn replays(settings: &Settings) -> usize {
        1 + usize::from(settings.durability != Durability::None)
    }

    fn open(
        store: Box<dyn PageStore>,
        settings: &Settings,
        shared_bytes: usize,
        open: Open,
    ) -> Result<Box<dyn OrderedIndex>, IndexError> {
        let replay = replay_ram::<Lsb>(settings, &*store, shared_bytes);
        let config = LsbConfig { merge_ram: replay, ..options::lsb::config(settings)? };
        buffered::<LsbTree<_>>(store, settings, (config, replay), open)
    }
}
