//! The layers below a tree of the R-tree family: RFTL, the FAST framework and eFIND. The option `tree` names
//! the tree above.

use super::registry::Number;
use super::trees::{Hilbert, MrTree, RStar, RTree, SpatialTree};
use crate::entry::Open;
use crate::names::OptionInfo;
use crate::options::spatial_layers::Above;
use crate::options::{Settings, spatial as trees, spatial_layers as layers};
use crate::stack::options_of_tree;
use nandex::ordered::Durability;
use nandex::spatial::{Nodes, SpatialIndex};
use nandex::{IndexError, PageStore};
use nandex_papers::spatial::buffered::{BufferedConfig, BufferedNodes};
use nandex_papers::spatial::rftl::RftlNodes;

type Store = Box<dyn PageStore>;

/// Evaluates an expression with the kind of tree that an option names.
macro_rules! with_kind {
    ($above:expr, $kind:ident => $act:expr) => {
        match $above {
            Above::RStar => {
                type $kind = RStar;
                $act
            }
            Above::Hilbert => {
                type $kind = Hilbert;
                $act
            }
            Above::MrTree => {
                type $kind = MrTree;
                $act
            }
            Above::RTree => {
                type $kind = RTree;
                $act
            }
        }
    };
}

pub(super) struct Rftl;

impl SpatialTree for Rftl {
    const NODES_ARE_PAGES: bool = false;

    const OPTIONS: &'static [OptionInfo] =
        options_of_tree!(trees::OPTIONS, layers::RFTL, trees::R_TREE, trees::R_STAR);

    fn table_bytes<C: Number, const D: usize>(
        settings: &Settings,
        store: &dyn PageStore,
    ) -> Result<usize, IndexError> {
        let layer = layers::rftl(&settings.options)?;
        let size = (store.page_bytes(), store.page_count());
        with_kind!(layers::above_rftl(&settings.options)?, K => {
            RftlNodes::<Store, C, D>::ram_bytes_min(size, &super::trees::config::<K, C, D>(settings)?, layer)
        })
    }

    fn lets_writes_wait(settings: &Settings) -> bool {
        settings.durability == Durability::None
    }

    fn open<C: Number, const D: usize>(
        store: Store,
        settings: &Settings,
        _: usize,
        open: Open,
    ) -> Result<Box<dyn SpatialIndex<C, D>>, IndexError> {
        let layer = layers::rftl(&settings.options)?;
        with_kind!(layers::above_rftl(&settings.options)?, K => {
            let tree = super::trees::config::<K, C, D>(settings)?;
            let mut nodes: RftlNodes<Store, C, D> = match open {
                Open::Format => RftlNodes::format(store, &tree, layer)?,
                _ => RftlNodes::mount(store, &tree, layer)?,
            };
            if settings.ram_bytes.is_some() {
                nodes = nodes.narrowed();
            }
            super::trees::tree_over::<K, C, D>(Box::new(nodes))
        })
    }
}

pub(super) trait Framework {
    /// The options of the framework, with those of store and cache.
    const OPTIONS: &'static [OptionInfo];

    /// Makes the configuration from the settings, the RAM of the buffers and the page size, both in bytes.
    const CONFIG: fn(&Settings, usize, usize) -> Result<BufferedConfig, IndexError>;
}

pub(super) struct FastFramework;

impl Framework for FastFramework {
    const OPTIONS: &'static [OptionInfo] = options_of_tree!(
        trees::OPTIONS,
        layers::BUFFERED,
        layers::FAST,
        trees::R_TREE,
        trees::R_STAR,
        trees::HILBERT,
        trees::MR_TREE
    );

    const CONFIG: fn(&Settings, usize, usize) -> Result<BufferedConfig, IndexError> = layers::fast;
}

pub(super) struct EfindFramework;

impl Framework for EfindFramework {
    const OPTIONS: &'static [OptionInfo] = options_of_tree!(
        trees::OPTIONS,
        layers::BUFFERED,
        layers::EFIND,
        trees::R_TREE,
        trees::R_STAR,
        trees::HILBERT,
        trees::MR_TREE
    );

    const CONFIG: fn(&Settings, usize, usize) -> Result<BufferedConfig, IndexError> = layers::efind;
}

/// The least RAM of the buffers, in bytes.
fn least_bytes(store: &dyn PageStore) -> usize {
    4 * store.page_bytes()
}

impl<F: Framework> SpatialTree for Below<F> {
    const NODES_ARE_PAGES: bool = false;

    const OPTIONS: &'static [OptionInfo] = F::OPTIONS;

    fn table_bytes<C: Number, const D: usize>(
        settings: &Settings,
        store: &dyn PageStore,
    ) -> Result<usize, IndexError> {
        type Layer<C, const D: usize> = BufferedNodes<Store, C, D>;
        let (page_bytes, page_count) = (store.page_bytes(), store.page_count());
        let least =
            BufferedConfig { buffer_bytes: 0, read_pages: 0, ..(F::CONFIG)(settings, 0, page_bytes)? };
        let layer = Layer::<C, D>::ram_bytes_max(&least, page_bytes, page_count);
        with_kind!(layers::above_framework(&settings.options)?, K => {
            let tree = super::trees::config::<K, C, D>(settings)?;
            let format = tree.node_format::<C, D>(page_bytes, page_count)?;
            Ok(layer + least_bytes(store) + Layer::<C, D>::operation_bytes(&format))
        })
    }

    fn buffer_bytes(
        settings: &Settings,
        store: &dyn PageStore,
        shared_bytes: usize,
    ) -> Result<usize, IndexError> {
        if settings.ram_bytes.is_none() {
            return Ok(0);
        }
        // The least is in the table's.
        let wanted = layers::buffer_bytes(settings, least_bytes(store) + shared_bytes)?;
        Ok(wanted.saturating_sub(least_bytes(store)))
    }

    fn open<C: Number, const D: usize>(
        store: Store,
        settings: &Settings,
        shared_bytes: usize,
        open: Open,
    ) -> Result<Box<dyn SpatialIndex<C, D>>, IndexError> {
        let page_bytes = store.page_bytes();
        let ram_bytes = layers::buffer_bytes(settings, least_bytes(&*store) + shared_bytes)?;
        let layer = (F::CONFIG)(settings, ram_bytes, page_bytes)?;
        with_kind!(layers::above_framework(&settings.options)?, K => {
            let tree = super::trees::config::<K, C, D>(settings)?;
            let mut nodes: BufferedNodes<Store, C, D> = match open {
                Open::Format => BufferedNodes::format(store, &tree, layer)?,
                _ => BufferedNodes::mount(store, &tree, layer)?,
            };
            if settings.ram_bytes.is_some() {
                nodes = nodes.narrowed();
            }
            let nodes: Box<dyn Nodes<C, D>> = Box::new(nodes);
            super::trees::tree_over::<K, C, D>(nodes)
        })
    }
}

/// A tree with a framework below it.
pub(super) struct Below<F>(F);
