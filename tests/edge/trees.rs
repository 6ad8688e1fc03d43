//! How each of the trees is opened on any store of pages.

use nandex::ordered::bepsilon::{BEpsilonConfig, BEpsilonTree};
use nandex::ordered::clustered::{ClusteredTree, as_btree, cb_tree, fb_tree};
use nandex::ordered::fd::{FdConfig, FdTree};
use nandex::ordered::journal::{Below, Buffered, JournalConfig, Journaled};
use nandex::ordered::la::{LaConfig, LaTree};
use nandex::ordered::layered::{LayeredTree, bftl, bof, flashdb, ibsf, rbftl, wobf};
use nandex::ordered::lazy_update::{LazyUpdateConfig, LazyUpdateTree};
use nandex::ordered::ls_lru::{LsLruConfig, LsLruTree};
use nandex::ordered::lsb::{LsbConfig, LsbTree};
use nandex::ordered::mb::{MbConfig, MbTree};
use nandex::ordered::pio::{PioConfig, PioTree};
use nandex::ordered::{Durability, Settings};
use nandex::{IndexError, OrderedIndex, PageStore};

type Store = Below;

/// Makes a tree with a journal on a store, or finds it again.
pub(super) type OpenTree = fn(Store, &Settings, bool) -> Result<Box<dyn OrderedIndex>, IndexError>;

/// Every tree that gathers updates in RAM.
pub(super) const TREES: [(&str, OpenTree); 17] = [
    ("lazy-update", |store, settings, is_there| {
        let config = LazyUpdateConfig::from_settings(&with_pool(settings), 0)?;
        open::<LazyUpdateTree<_>>(store, settings, config, is_there)
    }),
    ("ls-lru", |store, settings, is_there| {
        let config = LsLruConfig::from_settings(settings, 16 * store.page_bytes())?;
        open::<LsLruTree<_>>(store, settings, config, is_there)
    }),
    ("bftl", |store, settings, is_there| {
        open::<LayeredTree<_>>(store, settings, bftl::from_settings(settings)?, is_there)
    }),
    ("wobf", |store, settings, is_there| {
        open::<LayeredTree<_>>(store, settings, wobf::from_settings(settings)?, is_there)
    }),
    ("ibsf", |store, settings, is_there| {
        open::<LayeredTree<_>>(store, settings, ibsf::from_settings(settings)?, is_there)
    }),
    ("bof", |store, settings, is_there| {
        open::<LayeredTree<_>>(store, settings, bof::from_settings(settings)?, is_there)
    }),
    ("rbftl", |store, settings, is_there| {
        open::<LayeredTree<_>>(store, settings, rbftl::from_settings(settings)?, is_there)
    }),
    ("flashdb", |store, settings, is_there| {
        open::<LayeredTree<_>>(store, settings, flashdb::from_settings(settings)?, is_there)
    }),
    ("lsb", |store, settings, is_there| {
        open::<LsbTree<_>>(store, settings, LsbConfig::from_settings(settings)?, is_there)
    }),
    ("mb", |store, settings, is_there| {
        let config = MbConfig::from_settings(&with_pool(settings), 0)?;
        open::<MbTree<_>>(store, settings, config, is_there)
    }),
    ("pio", |store, settings, is_there| {
        let config = PioConfig::from_settings(&with_pool(settings), store.page_bytes(), 0)?;
        open::<PioTree<_>>(store, settings, config, is_there)
    }),
    ("bepsilon", |store, settings, is_there| {
        let config = BEpsilonConfig::from_settings(&of_tree(settings))?;
        open::<BEpsilonTree<_>>(store, settings, config, is_there)
    }),
    ("fd", |store, settings, is_there| {
        let config = FdConfig::from_settings(&of_tree(settings).with("head_entries", 100), 0)?;
        open::<FdTree<_>>(store, settings, config, is_there)
    }),
    ("la", |store, settings, is_there| {
        let config = LaConfig::from_settings(&of_tree(settings), store.page_bytes(), 0)?;
        open::<LaTree<_>>(store, settings, config, is_there)
    }),
    ("as-btree", |store, settings, is_there| {
        let config = as_btree::from_settings(settings, None)?;
        open::<ClusteredTree<_>>(store, settings, config, is_there)
    }),
    ("cb-tree", |store, settings, is_there| {
        let config = cb_tree::from_settings(settings, None)?;
        open::<ClusteredTree<_>>(store, settings, config, is_there)
    }),
    ("fb-tree", |store, settings, is_there| {
        let config = fb_tree::from_settings(settings, None)?;
        open::<ClusteredTree<_>>(store, settings, config, is_there)
    }),
];

fn with_pool(settings: &Settings) -> Settings {
    settings.clone().with("pool_requests", 40)
}

/// The class of a tree below its journal.
fn of_tree(settings: &Settings) -> Settings {
    Settings { durability: settings.durability.min(Durability::EverySync), ..settings.clone() }
}

fn open<T: Buffered<Below> + 'static>(
    store: Store,
    settings: &Settings,
    config: T::Config,
    is_there: bool,
) -> Result<Box<dyn OrderedIndex>, IndexError>
where
    T::Config: 'static,
{
    let journal = JournalConfig::from_settings(settings)?;
    Ok(if is_there {
        Box::new(Journaled::<Store, T>::mount(store, config, journal)?)
    } else {
        Box::new(Journaled::<Store, T>::format(store, config, journal)?)
    })
}
