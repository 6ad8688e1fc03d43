//! Above a store with an update journal: the dirty parts wait, the tree is never torn where the store writes
//! groups atomically.

use super::{LsLruConfig, LsLruTree};
use crate::ordered::journal::Buffered;
use nandex::check::IndexError;
use nandex::ordered::{Durability, RecordFormat};
use nandex::store::PageStore;

impl<S: PageStore> Buffered<S> for LsLruTree<S> {
    crate::ordered::journal::opens_published!(LsLruTree, LsLruConfig);

    fn record_of(config: &LsLruConfig) -> RecordFormat {
        config.tree.record
    }

    fn waiting_updates_max(config: &LsLruConfig) -> u64 {
        (config.buffer_bytes / config.tree.record.entry_bytes()) as u64
    }

    fn class_below(&self) -> Durability {
        self.tree.class_on_store()
    }
}
