//! The trees whose updates wait on flash: B-epsilon-tree, FD-tree and LA-tree. Every sync is durable in them on any FTL; with an update
//! journal every operation is, and syncs are cheaper.

use super::{JOURNAL_OPTIONS, StoreTree};
use crate::names::{OptionInfo, option};
use crate::registry::Open;
use nandex::ordered::bepsilon::{BEpsilon as BEpsilonScheme, BEpsilonConfig};
use nandex::ordered::fd::{Fd as FdScheme, FdConfig};
use nandex::ordered::journal::{JournalConfig, Journaled, refuse_journaled};
use nandex::ordered::la::{La as LaScheme, LaConfig};
use nandex::ordered::messages::{MessageTree, Scheme, ram_bytes_on};
use nandex::ordered::{Durability, Settings};
use nandex::{IndexError, OrderedIndex, PageStore};

const ANSWERS: OptionInfo = option(
    "answers",
    "exact",
    "exact, or pool: what an update answers is what RAM knows, nothing is read for it",
);

const BEPSILON_OWN: [OptionInfo; 3] = [
    option("node_pages", "for 4 KiB, 8 at most", "pages of a node, 1 to 64"),
    option("fanout", "16", "children of an inner node at most"),
    ANSWERS,
];

const FD_OWN: [OptionInfo; 6] = [
    option("head_entries", "what its share holds, 2000 without a limit", "records of the head in RAM"),
    option("head_percent", "50", "share of the RAM for head and page cache that the head gets, 1 to 99"),
    option("k", "0", "how many times larger each level is; 0: by the cost model"),
    option("insert_percent", "50", "for the cost model: updates among all operations"),
    option("write_cost", "3", "for the cost model: what a page write costs in page reads"),
    ANSWERS,
];

const LA_OWN: [OptionInfo; 5] = [
    option("subtree_levels", "2", "K: levels of a subtree, 1 to 8"),
    option("buffer_pages", "64, or what its share can sort", "pages of a buffer at most, 1 to 1024"),
    option(
        "buffer_percent",
        "50",
        "share of the RAM for buffers and page cache that the buffers get, 1 to 99",
    ),
    option("write_cost", "3", "for ADAPT: what a page write costs in page reads"),
    ANSWERS,
];

/// Whether there is a journal: for every operation, or where one is asked for.
fn has_journal(settings: &Settings) -> bool {
    settings.durability == Durability::EveryOperation
        || settings.options.text("journal_pages").is_some() && settings.durability != Durability::None
}

fn journal_bytes(settings: &Settings, store: &dyn PageStore) -> usize {
    if has_journal(settings) { JournalConfig::ram_bytes(store.page_bytes()) } else { 0 }
}

/// The class of the tree itself, below its journal if it has one.
fn inner(settings: &Settings) -> Settings {
    Settings { durability: settings.durability.min(Durability::EverySync), ..settings.clone() }
}

fn open_tree<T: Scheme + 'static>(
    mut store: Box<dyn PageStore>,
    settings: &Settings,
    config: T::Config,
    open: Open,
) -> Result<Box<dyn OrderedIndex>, IndexError>
where
    T::Config: Clone + 'static,
{
    if has_journal(settings) {
        let journal = JournalConfig::from_settings(settings)?;
        return Ok(match open {
            Open::Format => Box::new(Journaled::<_, MessageTree<_, T>>::format(store, config, journal)?),
            _ => Box::new(Journaled::<_, MessageTree<_, T>>::mount(store, config, journal)?),
        });
    }
    Ok(match open {
        Open::Format => Box::new(MessageTree::<_, T>::format(store, config)?),
        _ => {
            refuse_journaled(&mut store)?;
            Box::new(MessageTree::<_, T>::mount(store, config)?)
        }
    })
}

/// The B-epsilon-tree.
pub(crate) struct BEpsilon;

impl StoreTree for BEpsilon {
    const IS_WHOLE_AFTER_CUT: bool = false;

    const OPTIONS: &'static [OptionInfo] = options_of_tree!(BEPSILON_OWN, JOURNAL_OPTIONS);

    fn table_bytes(settings: &Settings, store: &dyn PageStore) -> Result<usize, IndexError> {
        let config = BEpsilonConfig::from_settings(settings)?;
        let tree = ram_bytes_on::<BEpsilonScheme>(&config, store)?;
        Ok(tree + journal_bytes(settings, store))
    }

    fn lets_writes_wait(settings: &Settings) -> bool {
        settings.durability != Durability::EveryOperation
    }

    fn open(
        store: Box<dyn PageStore>,
        settings: &Settings,
        _: usize,
        open: Open,
    ) -> Result<Box<dyn OrderedIndex>, IndexError> {
        let config = BEpsilonConfig::from_settings(&inner(settings))?;
        open_tree::<BEpsilonScheme>(store, settings, config, open)
    }
}

/// The FD-tree. Its head is what the RAM gives it.
pub(crate) struct Fd;

impl StoreTree for Fd {
    const IS_WHOLE_AFTER_CUT: bool = false;

    const OPTIONS: &'static [OptionInfo] = options_of_tree!(FD_OWN, JOURNAL_OPTIONS);

    fn table_bytes(settings: &Settings, store: &dyn PageStore) -> Result<usize, IndexError> {
        let least = settings.options.text("head_entries").is_none().then_some(1);
        let config = FdConfig::from_settings(settings, 0)?;
        let config = FdConfig { head_entries: least.unwrap_or(config.head_entries), ..config };
        Ok(ram_bytes_on::<FdScheme>(&config, store)? + journal_bytes(settings, store))
    }

    fn buffer_bytes(
        settings: &Settings,
        store: &dyn PageStore,
        shared_bytes: usize,
    ) -> Result<usize, IndexError> {
        let config = FdConfig::from_settings(settings, shared_bytes)?;
        let all = ram_bytes_on::<FdScheme>(&config, store)? + journal_bytes(settings, store);
        Ok(all.saturating_sub(Fd::table_bytes(settings, store)?))
    }

    fn lets_writes_wait(settings: &Settings) -> bool {
        settings.durability != Durability::EveryOperation
    }

    fn open(
        store: Box<dyn PageStore>,
        settings: &Settings,
        shared_bytes: usize,
        open: Open,
    ) -> Result<Box<dyn OrderedIndex>, IndexError> {
        let config = FdConfig::from_settings(&inner(settings), shared_bytes)?;
        open_tree::<FdScheme>(store, settings, config, open)
    }
}

/// The LA-tree. Its buffers are what the RAM gives it.
pub(crate) struct La;

impl StoreTree for La {
    const IS_WHOLE_AFTER_CUT: bool = false;

    const OPTIONS: &'static [OptionInfo] = options_of_tree!(LA_OWN, JOURNAL_OPTIONS);

    fn table_bytes(settings: &Settings, store: &dyn PageStore) -> Result<usize, IndexError> {
        let least = Settings { ram_bytes: Some(0), ..settings.clone() };
        let config = LaConfig::from_settings(&least, store.page_bytes(), 0)?;
        Ok(ram_bytes_on::<LaScheme>(&config, store)? + journal_bytes(settings, store))
    }

    fn buffer_bytes(
        settings: &Settings,
        store: &dyn PageStore,
        shared_bytes: usize,
    ) -> Result<usize, IndexError> {
        let config = LaConfig::from_settings(settings, store.page_bytes(), shared_bytes)?;
        let all = ram_bytes_on::<LaScheme>(&config, store)? + journal_bytes(settings, store);
        Ok(all.saturating_sub(La::table_bytes(settings, store)?))
    }

    fn lets_writes_wait(settings: &Settings) -> bool {
        settings.durability != Durability::EveryOperation
    }

    fn open(
        store: Box<dyn PageStore>,
        settings: &Settings,
        shared_bytes: usize,
        open: Open,
    ) -> Result<Box<dyn OrderedIndex>, IndexError> {
        let config = LaConfig::from_settings(&inner(settings), store.page_bytes(), shared_bytes)?;
        open_tree::<LaScheme>(store, settings, config, open)
    }
}
