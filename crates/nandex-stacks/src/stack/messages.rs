//! The trees whose updates wait on flash: B-epsilon-tree, FD-tree and LA-tree. Every sync is durable in them
//! on any FTL; with an update journal every operation is, and syncs are cheaper.

use super::{StoreTree, bytes_of_journal, replay_ram};
use crate::entry::Open;
use crate::names::OptionInfo;
use crate::options::{self, Settings};
use nandex::ordered::Durability;
use nandex::{IndexError, OrderedIndex, PageStore};
use nandex_papers::ordered::bepsilon::BEpsilon as BEpsilonScheme;
use nandex_papers::ordered::fd::{Fd as FdScheme, FdConfig};
use nandex_papers::ordered::journal::{JournalConfig, Journaled, refuse_journaled};
use nandex_papers::ordered::la::La as LaScheme;
use nandex_papers::ordered::messages::{MessageScheme, MessageTree, ram_bytes_on};

/// Whether the tree has a journal: if every operation is durable, or if one is asked for.
fn has_journal(settings: &Settings) -> bool {
    settings.durability == Durability::EveryOperation
        || settings.options.text(options::journal::PAGES.info.name).is_some()
            && settings.durability != Durability::None
}

fn journal_bytes(settings: &Settings, store: &dyn PageStore) -> usize {
    if has_journal(settings) { bytes_of_journal(store) } else { 0 }
}

/// The settings of the tree itself, in the class it has below its journal.
fn inner(settings: &Settings) -> Settings {
    Settings { durability: settings.durability.min(Durability::EverySync), ..settings.clone() }
}

fn open_tree<T: MessageScheme + 'static>(
    mut store: Box<dyn PageStore>,
    settings: &Settings,
    (config, replay_ram): (T::Config, Option<usize>),
    open: Open,
) -> Result<Box<dyn OrderedIndex>, IndexError>
where
    T::Config: Clone + 'static,
{
    if has_journal(settings) {
        let journal = JournalConfig { replay_ram, ..options::journal::config(settings)? };
        return Ok(match open {
            Open::Format => Box::new(Journaled::<_, MessageTree<_, T>>::format(store, &(config, journal))?),
            _ => Box::new(Journaled::<_, MessageTree<_, T>>::mount(store, &(config, journal))?),
        });
    }
    Ok(match open {
        Open::Format => Box::new(MessageTree::<_, T>::format(store, &config)?),
        Open::Mount => {
            refuse_journaled(&mut store)?;
            Box::new(MessageTree::<_, T>::mount(store, &config)?)
        }
        Open::MountAfterCut => {
            refuse_journaled(&mut store)?;
            Box::new(MessageTree::<_, T>::mount_after_cut(store, &config)?)
        }
    })
}

pub(crate) struct BEpsilon;

impl StoreTree for BEpsilon {
    const OPTIONS: &'static [OptionInfo] =
        options_of_tree!(options::messages::BEPSILON, options::journal::OPTIONS);

    fn table_bytes(settings: &Settings, store: &dyn PageStore) -> Result<usize, IndexError> {
        let config = options::messages::bepsilon(settings)?;
        let tree = ram_bytes_on::<BEpsilonScheme>(&config, store)?;
        Ok(tree + journal_bytes(settings, store))
    }

    fn lets_writes_wait(settings: &Settings) -> bool {
        settings.durability != Durability::EveryOperation
    }

    fn replays(settings: &Settings) -> usize {
        usize::from(has_journal(settings))
    }

    fn open(
        store: Box<dyn PageStore>,
        settings: &Settings,
        shared_bytes: usize,
        open: Open,
    ) -> Result<Box<dyn OrderedIndex>, IndexError> {
        let config = options::messages::bepsilon(&inner(settings))?;
        let replay = replay_ram::<BEpsilon>(settings, &*store, shared_bytes);
        open_tree::<BEpsilonScheme>(store, settings, (config, replay), open)
    }
}

/// The FD-tree. The RAM determines the size of its head.
pub(crate) struct Fd;

impl StoreTree for Fd {
    const OPTIONS: &'static [OptionInfo] = options_of_tree!(options::messages::FD, options::journal::OPTIONS);

    fn table_bytes(settings: &Settings, store: &dyn PageStore) -> Result<usize, IndexError> {
        let least = settings.options.text(options::messages::HEAD_ENTRIES.info.name).is_none().then_some(1);
        let config = options::messages::fd(settings, 0)?;
        let config = FdConfig { head_entries: least.unwrap_or(config.head_entries), ..config };
        Ok(ram_bytes_on::<FdScheme>(&config, store)? + journal_bytes(settings, store))
    }

    fn buffer_bytes(
        settings: &Settings,
        store: &dyn PageStore,
        shared_bytes: usize,
    ) -> Result<usize, IndexError> {
        let config = options::messages::fd(settings, shared_bytes)?;
        let all = ram_bytes_on::<FdScheme>(&config, store)? + journal_bytes(settings, store);
        Ok(all.saturating_sub(Fd::table_bytes(settings, store)?))
    }

    fn lets_writes_wait(settings: &Settings) -> bool {
        settings.durability != Durability::EveryOperation
    }

    fn replays(settings: &Settings) -> usize {
        usize::from(has_journal(settings))
    }

    fn open(
        store: Box<dyn PageStore>,
        settings: &Settings,
        shared_bytes: usize,
        open: Open,
    ) -> Result<Box<dyn OrderedIndex>, IndexError> {
        let config = options::messages::fd(&inner(settings), shared_bytes)?;
        let replay = replay_ram::<Fd>(settings, &*store, shared_bytes);
        open_tree::<FdScheme>(store, settings, (config, replay), open)
    }
}

/// The LA-tree. The RAM determines the size of its buffers.
pub(crate) struct La;

impl StoreTree for La {
    const OPTIONS: &'static [OptionInfo] = options_of_tree!(options::messages::LA, options::journal::OPTIONS);

    fn table_bytes(settings: &Settings, store: &dyn PageStore) -> Result<usize, IndexError> {
        let least = Settings { ram_bytes: Some(0), ..settings.clone() };
        let config = options::messages::la(&least, store.page_bytes(), 0)?;
        Ok(ram_bytes_on::<LaScheme>(&config, store)? + journal_bytes(settings, store))
    }

    fn buffer_bytes(
        settings: &Settings,
        store: &dyn PageStore,
        shared_bytes: usize,
    ) -> Result<usize, IndexError> {
        let config = options::messages::la(settings, store.page_bytes(), shared_bytes)?;
        let all = ram_bytes_on::<LaScheme>(&config, store)? + journal_bytes(settings, store);
        Ok(all.saturating_sub(La::table_bytes(settings, store)?))
    }

    fn lets_writes_wait(settings: &Settings) -> bool {
        settings.durability != Durability::EveryOperation
    }

    fn replays(settings: &Settings) -> usize {
        usize::from(has_journal(settings))
    }

    fn open(
        store: Box<dyn PageStore>,
        settings: &Settings,
        shared_bytes: usize,
        open: Open,
    ) -> Result<Box<dyn OrderedIndex>, IndexError> {
        let config = options::messages::la(&inner(settings), store.page_bytes(), shared_bytes)?;
        let replay = replay_ram::<La>(settings, &*store, shared_bytes);
        open_tree::<LaScheme>(store, settings, (config, replay), open)
    }
}
