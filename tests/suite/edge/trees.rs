//! How each of the trees is opened on any store of pages.

use nandex::ordered::Durability;
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
use nandex::{IndexError, OrderedIndex, PageStore};

use super::RECORD;

type Store = Below;

/// Makes a tree with a journal on a store, or finds it again.
pub(super) type OpenTree = fn(Store, Durability, bool) -> Result<Box<dyn OrderedIndex>, IndexError>;

/// Every tree that gathers updates in RAM.
pub(super) const TREES: [(&str, OpenTree); 17] = [
    ("lazy-update", |store, class, is_there| {
        let config = LazyUpdateConfig::new(RECORD, POOL_REQUESTS);
        open::<LazyUpdateTree<_>>(store, class, config, is_there)
    }),
    ("ls-lru", |store, class, is_there| {
        let config = LsLruConfig::new(RECORD, 16 * store.page_bytes());
        open::<LsLruTree<_>>(store, class, config, is_there)
    }),
    ("bftl", |store, class, is_there| open::<LayeredTree<_>>(store, class, bftl::config(RECORD), is_there)),
    ("wobf", |store, class, is_there| open::<LayeredTree<_>>(store, class, wobf::config(RECORD), is_there)),
    ("ibsf", |store, class, is_there| open::<LayeredTree<_>>(store, class, ibsf::config(RECORD), is_there)),
    ("bof", |store, class, is_there| open::<LayeredTree<_>>(store, class, bof::config(RECORD), is_there)),
    ("rbftl", |store, class, is_there| open::<LayeredTree<_>>(store, class, rbftl::config(RECORD), is_there)),
    ("flashdb", |store, class, is_there| {
        open::<LayeredTree<_>>(store, class, flashdb::config(RECORD), is_there)
    }),
    ("lsb", |store, class, is_there| open::<LsbTree<_>>(store, class, LsbConfig::new(RECORD), is_there)),
    ("mb", |store, class, is_there| {
        let config = MbConfig::new(RECORD, POOL_REQUESTS);
        open::<MbTree<_>>(store, class, config, is_there)
    }),
    ("pio", |store, class, is_there| {
        let config = PioConfig::new(RECORD, POOL_REQUESTS);
        open::<PioTree<_>>(store, class, config, is_there)
    }),
    ("bepsilon", |store, class, is_there| {
        let mut config = BEpsilonConfig::new(RECORD);
        config.common.durability = below(class);
        open::<BEpsilonTree<_>>(store, class, config, is_there)
    }),
    ("fd", |store, class, is_there| {
        let mut config = FdConfig { head_entries: 100, ..FdConfig::new(RECORD) };
        config.common.durability = below(class);
        open::<FdTree<_>>(store, class, config, is_there)
    }),
    ("la", |store, class, is_there| {
        let mut config = LaConfig::new(RECORD);
        config.common.durability = below(class);
        open::<LaTree<_>>(store, class, config, is_there)
    }),
    ("as-btree", |store, class, is_there| {
        let config = as_btree::config(RECORD);
        open::<ClusteredTree<_>>(store, class, config, is_there)
    }),
    ("cb-tree", |store, class, is_there| {
        let config = cb_tree::config(RECORD);
        open::<ClusteredTree<_>>(store, class, config, is_there)
    }),
    ("fb-tree", |store, class, is_there| {
        let config = fb_tree::config(RECORD);
        open::<ClusteredTree<_>>(store, class, config, is_there)
    }),
];

/// Requests of a pool.
const POOL_REQUESTS: u32 = 40;

/// The class of a tree below its journal.
fn below(class: Durability) -> Durability {
    class.min(Durability::EverySync)
}

fn open<T: Buffered<Below> + 'static>(
    store: Store,
    class: Durability,
    config: T::Config,
    is_there: bool,
) -> Result<Box<dyn OrderedIndex>, IndexError>
where
    T::Config: 'static,
{
    let journal = JournalConfig::new(class);
    Ok(if is_there {
        Box::new(Journaled::<Store, T>::mount(store, config, journal)?)
    } else {
        Box::new(Journaled::<Store, T>::format(store, config, journal)?)
    })
}
