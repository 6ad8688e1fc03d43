//! Opens each spatial index over a store, and computes its share of the RAM.

use super::registry::Number;
use crate::indexes::{Ground, Open};
use crate::names::OptionInfo;
pub use crate::options::spatial::{DOMAIN, rect_of, text_of};
use crate::options::{Options, Settings, spatial as options};
use crate::stack::{self, Demand, options_of_tree};
use nandex::ordered::Durability;
use nandex::spatial::hilbert::HilbertRules;
use nandex::spatial::node::Entry;
use nandex::spatial::paged::PagedNodes;
use nandex::spatial::r_tree::Guttman;
use nandex::spatial::tree::update::Grouped;
use nandex::spatial::tree::{Rules, SpatialConfig, Tree};
use nandex::spatial::{Nodes, SpatialIndex};
use nandex::{IndexError, PageStore};
use nandex_papers::spatial::for_tree;
use nandex_papers::spatial::mr_tree::MrRules;
use nandex_papers::spatial::r_star::RStarRules;

/// A spatial index on logical pages. A new index implements this trait, or [`Kind`] if its nodes are pages,
/// and gets a line in the registry.
pub(super) trait SpatialTree {
    /// Whether reading a node always reads one page.
    const NODES_ARE_PAGES: bool = true;

    /// The options of the tree, with those of store and cache.
    const OPTIONS: &'static [OptionInfo];

    /// The least RAM that the tree needs on a store in bytes, without its buffers and its cache.
    fn table_bytes<C: Number, const D: usize>(
        settings: &Settings,
        store: &dyn PageStore,
    ) -> Result<usize, IndexError>;

    /// RAM of the tree's buffers in bytes, out of the RAM left for them and the page cache.
    fn buffer_bytes(
        _settings: &Settings,
        _store: &dyn PageStore,
        _shared_bytes: usize,
    ) -> Result<usize, IndexError> {
        Ok(0)
    }

    /// Whether written pages may wait in the cache.
    fn lets_writes_wait(settings: &Settings) -> bool {
        settings.durability != Durability::EveryOperation
    }

    /// Opens the tree on its store; `shared_bytes` as for [`SpatialTree::buffer_bytes`].
    fn open<C: Number, const D: usize>(
        store: Box<dyn PageStore>,
        settings: &Settings,
        shared_bytes: usize,
        open: Open,
    ) -> Result<Box<dyn SpatialIndex<C, D>>, IndexError>;
}

/// Opens the index on its FTL or disk, with the cache that its settings name.
pub(super) fn open<T: SpatialTree, C: Number, const D: usize>(
    ground: Ground,
    settings: &Settings,
    open: Open,
) -> Result<Box<dyn SpatialIndex<C, D>>, IndexError> {
    let demand = Demand {
        table_bytes: T::table_bytes::<C, D>,
        buffer_bytes: T::buffer_bytes,
        lets_writes_wait: T::lets_writes_wait,
        replays: |_| 0,
        // A removal puts any number of nodes back in.
        exceeds_groups: true,
    };
    let (store, shared) = stack::cached_store(ground, settings, open, demand, &[1])?;
    T::open(store, settings, shared[0], open)
}

/// The tree of this kind on the given nodes.
pub(super) fn tree_over<K: Kind, C: Number, const D: usize>(
    nodes: Box<dyn Nodes<C, D>>,
) -> Result<Box<dyn SpatialIndex<C, D>>, IndexError> {
    // The seam is crossed at run time here: each kind of tree is compiled once for all that may lie below.
    Ok(Box::new(Tree::<C, D, Box<dyn Nodes<C, D>>, K::Rules<C, D>>::over(nodes)?))
}

/// A kind of [`Tree`] whose nodes are pages or are stored through a layer (`layers.rs`).
pub(super) trait Kind {
    type Rules<C: Number, const D: usize>: Rules<C, D> + 'static;

    /// The options of the tree, with those of store and cache.
    const OPTIONS: &'static [OptionInfo];

    fn config<C: Number, const D: usize>(
        set: &Options,
    ) -> Result<SpatialConfig<Self::Rules<C, D>>, IndexError>;
}

pub(super) fn config<K: Kind, C: Number, const D: usize>(
    settings: &Settings,
) -> Result<SpatialConfig<K::Rules<C, D>>, IndexError> {
    Ok(K::config::<C, D>(&settings.options)?.with_durability(settings.durability))
}

impl<K: Kind> SpatialTree for K {
    const OPTIONS: &'static [OptionInfo] = K::OPTIONS;

    fn table_bytes<C: Number, const D: usize>(
        settings: &Settings,
        store: &dyn PageStore,
    ) -> Result<usize, IndexError> {
        let format =
            config::<K, C, D>(settings)?.node_format::<C, D>(store.page_bytes(), store.page_count())?;
        Ok(Pages::<C, D>::ram_bytes_min(store.durable_writes(), &format))
    }

    fn open<C: Number, const D: usize>(
        store: Box<dyn PageStore>,
        settings: &Settings,
        _: usize,
        open: Open,
    ) -> Result<Box<dyn SpatialIndex<C, D>>, IndexError> {
        let config = config::<K, C, D>(settings)?;
        let format = config.node_format::<C, D>(store.page_bytes(), store.page_count())?;
        let mut nodes = match open {
            Open::Format => PagedNodes::format(store, format, config.durability)?,
            _ => PagedNodes::mount(store, &config)?,
        };
        // Without a limit an operation may hold as many nodes as the literature has it insert again.
        if settings.ram_bytes.is_some() {
            nodes = nodes.narrowed();
        }
        tree_over::<K, C, D>(Box::new(nodes))
    }
}

type Pages<C, const D: usize> = PagedNodes<Box<dyn PageStore>, C, D>;

pub(super) struct RTree;

impl Kind for RTree {
    type Rules<C: Number, const D: usize> = Grouped<Guttman>;

    const OPTIONS: &'static [OptionInfo] = options_of_tree!(options::OPTIONS, options::R_TREE);

    fn config<C: Number, const D: usize>(
        set: &Options,
    ) -> Result<SpatialConfig<Grouped<Guttman>>, IndexError> {
        options::r_tree(set)
    }
}

pub(super) struct RStar;

impl Kind for RStar {
    type Rules<C: Number, const D: usize> = Grouped<RStarRules>;

    const OPTIONS: &'static [OptionInfo] = options_of_tree!(options::OPTIONS, options::R_STAR);

    fn config<C: Number, const D: usize>(
        set: &Options,
    ) -> Result<SpatialConfig<Grouped<RStarRules>>, IndexError> {
        options::r_star(set)
    }
}

pub(super) struct MrTree;

impl Kind for MrTree {
    type Rules<C: Number, const D: usize> = MrRules;

    const OPTIONS: &'static [OptionInfo] = options_of_tree!(options::OPTIONS, options::MR_TREE);

    fn config<C: Number, const D: usize>(set: &Options) -> Result<SpatialConfig<MrRules>, IndexError> {
        options::mr_tree(set)
    }
}

pub(super) struct ForTree;

/// Largest size of a row in the overflow node table, in bytes of RAM.
const ROW_BYTES: usize = 64;

impl SpatialTree for ForTree {
    const OPTIONS: &'static [OptionInfo] = options_of_tree!(options::OPTIONS, options::FOR_TREE);

    fn table_bytes<C: Number, const D: usize>(
        settings: &Settings,
        store: &dyn PageStore,
    ) -> Result<usize, IndexError> {
        let config = options::for_tree(settings)?;
        let format = config.node_format::<C, D>(store.page_bytes(), store.page_count())?;
        // A node with all its overflow nodes is one list of entries.
        let pages = usize::from(config.rules.overflow_max) + 1;
        let joined = 2 * pages * (format.capacity(1).max(format.capacity(2)) + 1) * size_of::<Entry<C, D>>();
        let nodes = Pages::<C, D>::ram_bytes_min(store.durable_writes(), &format);
        Ok(nodes + joined + config.rules.table_max as usize * ROW_BYTES)
    }

    fn open<C: Number, const D: usize>(
        store: Box<dyn PageStore>,
        settings: &Settings,
        _: usize,
        open: Open,
    ) -> Result<Box<dyn SpatialIndex<C, D>>, IndexError> {
        let config = options::for_tree(settings)?;
        if open == Open::Format {
            return Ok(Box::new(for_tree::format::<_, C, D>(store, &config)?));
        }
        Ok(Box::new(for_tree::mount::<_, C, D>(store, &config)?))
    }
}

pub(super) struct Hilbert;

impl Kind for Hilbert {
    type Rules<C: Number, const D: usize> = HilbertRules<C, D>;

    const OPTIONS: &'static [OptionInfo] = options_of_tree!(options::OPTIONS, options::HILBERT);

    fn config<C: Number, const D: usize>(
        set: &Options,
    ) -> Result<SpatialConfig<HilbertRules<C, D>>, IndexError> {
        options::hilbert(set)
    }
}
