//! The layers below a tree of the R-tree family: RFTL, the FAST framework and eFIND. The option `tree` names the tree above.

use super::registry::Number;
use super::trees::{self, HILBERT_OWN, Hilbert, Kind, MR_TREE_OWN, MrTree, OWN, R_STAR_OWN, R_TREE_OWN};
use super::trees::{RStar, RTree, SpatialTree};
use crate::names::{OptionInfo, option};
use crate::registry::Open;
use crate::stack::options_of_tree;
use nandex::index::most;
use nandex::ordered::{Durability, Options, Settings};
use nandex::spatial::buffered::{BufferedConfig, BufferedNodes, Efind, FlushPolicy, ReadOrder, Worth};
use nandex::spatial::rftl::{RftlConfig, RftlNodes};
use nandex::spatial::{Nodes, SpatialIndex};
use nandex::{IndexError, PageStore};

type Store = Box<dyn PageStore>;

/// Trees that the layers go below, each with the options that are its alone.
const KINDS: [(&str, &[OptionInfo]); 4] = [
    (RTree::NAME, &R_TREE_OWN),
    (RStar::NAME, &R_STAR_OWN),
    (Hilbert::NAME, &HILBERT_OWN),
    (MrTree::NAME, &MR_TREE_OWN),
];

/// Does something with the kind of tree that an option names.
macro_rules! with_kind {
    ($name:expr, $kind:ident => $act:expr) => {
        match $name {
            RStar::NAME => {
                type $kind = RStar;
                $act
            }
            Hilbert::NAME => {
                type $kind = Hilbert;
                $act
            }
            MrTree::NAME => {
                type $kind = MrTree;
                $act
            }
            _ => {
                type $kind = RTree;
                $act
            }
        }
    };
}

/// The tree wanted; options of others are refused.
fn kind(options: &Options, names: &[&'static str]) -> Result<&'static str, IndexError> {
    let name = options.choice("tree", names)?;
    let others = KINDS.iter().filter(|(kind, _)| *kind != name).flat_map(|(_, own)| own.iter());
    for other in others {
        // A curve is laid through the extent of the data without being asked for.
        if other.name != trees::DOMAIN && options.text(other.name).is_some() {
            let what = format!("option {}: not one of tree={name}", other.name);
            return Err(IndexError::Unsupported(what));
        }
    }
    Ok(name)
}

fn number(options: &Options, name: &str, default: u64, (least, most): (u64, u64)) -> Result<u64, IndexError> {
    Ok(options.number(name, least..=most)?.unwrap_or(default))
}

/// RFTL.
pub(super) struct Rftl;

const RFTL_KINDS: [&str; 2] = [RTree::NAME, RStar::NAME];

const RFTL_OWN: [OptionInfo; 3] = [
    option("tree", "r-tree", "the tree above: r-tree, r-star"),
    option("reservation_units", "60", "changes that wait in RAM at most"),
    option("list_length", "4", "C: pages with changes of a node at most, 1 to 64"),
];

impl Rftl {
    fn config(options: &Options) -> Result<RftlConfig, IndexError> {
        let published = RftlConfig::PUBLISHED;
        let units =
            number(options, "reservation_units", published.reservation_units.into(), (1, most::UNITS))?;
        let list_length = number(options, "list_length", published.list_length.into(), (1, 64))?;
        Ok(RftlConfig { reservation_units: units as u32, list_length: list_length as u8 })
    }
}

impl SpatialTree for Rftl {
    const NODES_ARE_PAGES: bool = false;

    const OPTIONS: &'static [OptionInfo] = options_of_tree!(OWN, RFTL_OWN, R_TREE_OWN, R_STAR_OWN);

    fn table_bytes<C: Number, const D: usize>(
        settings: &Settings,
        store: &dyn PageStore,
    ) -> Result<usize, IndexError> {
        let layer = Rftl::config(&settings.options)?;
        let size = (store.page_bytes(), store.page_count());
        with_kind!(kind(&settings.options, &RFTL_KINDS)?, K => {
            RftlNodes::<Store, C, D>::ram_bytes_min(size, &trees::config::<K, C, D>(settings)?, layer)
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
        let layer = Rftl::config(&settings.options)?;
        with_kind!(kind(&settings.options, &RFTL_KINDS)?, K => {
            let tree = trees::config::<K, C, D>(settings)?;
            let mut nodes: RftlNodes<Store, C, D> = match open {
                Open::Format => RftlNodes::format(store, &tree, layer)?,
                _ => RftlNodes::mount(store, &tree, layer)?,
            };
            if settings.ram_bytes.is_some() {
                nodes = nodes.narrowed();
            }
            trees::tree_over::<K, C, D>(Box::new(nodes))
        })
    }
}

/// RAM of a node buffer where RAM is not limited.
const BUFFER_BYTES: usize = 64 * 1024;

const BUFFERED_KINDS: [&str; 4] = [RTree::NAME, RStar::NAME, Hilbert::NAME, MrTree::NAME];

const BUFFERED_OWN: [OptionInfo; 4] = [
    option("tree", "r-tree", "the tree above: r-tree, r-star, hilbert, mr-tree"),
    option(
        "buffer_bytes",
        "all RAM that is left, or 65536 where RAM is not limited",
        "RAM of the node buffer; what it leaves is the page cache's",
    ),
    option("unit_nodes", "5", "nodes of a flushing unit"),
    option("log_pages", "for 8 times the buffer", "pages of each of the log's two areas"),
];

/// The trait of a framework: its options and its configuration.
pub(super) trait Framework {
    /// The options of the framework, those of store and cache among them.
    const OPTIONS: &'static [OptionInfo];

    /// The configuration with so much RAM for its buffers.
    fn config(
        options: &Options,
        durability: Durability,
        ram_bytes: usize,
        page_bytes: usize,
    ) -> Result<BufferedConfig, IndexError>;
}

/// The generic framework FAST.
pub(super) struct FastFramework;

const FAST_OWN: [OptionInfo; 2] = [
    option(
        "flush",
        "fast",
        "what is flushed: fast, the unit with the most changes; fast-star, less its age; random; all",
    ),
    option("tick", "1000", "operations in a tick of the clock of fast-star"),
];

impl Framework for FastFramework {
    const OPTIONS: &'static [OptionInfo] =
        options_of_tree!(OWN, BUFFERED_OWN, FAST_OWN, R_TREE_OWN, R_STAR_OWN, HILBERT_OWN, MR_TREE_OWN);

    fn config(
        options: &Options,
        durability: Durability,
        ram_bytes: usize,
        _: usize,
    ) -> Result<BufferedConfig, IndexError> {
        let tick_operations = number(options, "tick", 1000, (1, 1 << 40))?;
        let policy = match options.choice("flush", &["fast", "fast-star", "random", "all"])? {
            "fast-star" => FlushPolicy::MostModifiedOldest { tick_operations },
            "random" => FlushPolicy::Random { seed: 1 },
            "all" => FlushPolicy::All,
            _ => FlushPolicy::MostModified,
        };
        Ok(BufferedConfig::fast(durability, ram_bytes, policy))
    }
}

/// eFIND.
pub(super) struct EfindFramework;

const EFIND_OWN: [OptionInfo; 5] = [
    option("worth", "mthao", "what a node to be flushed is worth: m, mt, mth, mtha, mthao"),
    option("read_order", "2q", "which page leaves the read buffer: lru, 2q, s2q, hlru"),
    option("oldest", "60", "percent of the nodes that count as old"),
    option("sequence", "1", "pages that two nodes in sequence are apart at most"),
    option("stride", "8", "pages that two nodes a stride apart are apart at least"),
];

impl Framework for EfindFramework {
    const OPTIONS: &'static [OptionInfo] =
        options_of_tree!(OWN, BUFFERED_OWN, EFIND_OWN, R_TREE_OWN, R_STAR_OWN, HILBERT_OWN, MR_TREE_OWN);

    fn config(
        options: &Options,
        durability: Durability,
        ram_bytes: usize,
        page_bytes: usize,
    ) -> Result<BufferedConfig, IndexError> {
        let worths = [Worth::Mthao, Worth::M, Worth::Mt, Worth::Mth, Worth::Mtha];
        let worth = options.choice("worth", &worths.map(Worth::name))?;
        let worth = worths.into_iter().find(|w| w.name() == worth).unwrap_or(worths[0]);
        let orders = [ReadOrder::TwoQ, ReadOrder::Lru, ReadOrder::SimplifiedTwoQ, ReadOrder::HeightLru];
        let order = options.choice("read_order", &orders.map(ReadOrder::name))?;
        let distance = |name, default| number(options, name, default, (0, u32::MAX.into()));
        let policy = Efind {
            worth,
            oldest_percent: number(options, "oldest", 60, (1, 100))? as u8,
            sequence_distance: distance("sequence", 1)? as u32,
            stride_distance: distance("stride", 8)? as u32,
        };
        let read_order = orders.into_iter().find(|o| o.name() == order).unwrap_or(orders[0]);
        Ok(BufferedConfig { read_order, ..BufferedConfig::efind(durability, ram_bytes, page_bytes, policy) })
    }
}

/// The configuration of a framework with what all frameworks take.
fn buffered<F: Framework>(
    settings: &Settings,
    ram_bytes: usize,
    page_bytes: usize,
) -> Result<BufferedConfig, IndexError> {
    let options = &settings.options;
    // It has its log in every class.
    let durability = settings.durability.max(Durability::EverySync);
    let config = F::config(options, durability, ram_bytes, page_bytes)?;
    let log_pages = number(options, "log_pages", 0, (0, u32::MAX.into()))? as u32;
    Ok(BufferedConfig {
        unit_nodes: number(options, "unit_nodes", config.unit_nodes as u64, (1, 4096))? as usize,
        log_pages: (log_pages > 0).then_some(log_pages),
        ..config
    })
}

/// RAM of the buffers: what is asked for, or all that is left.
fn wanted_bytes(settings: &Settings, shared_bytes: usize) -> Result<usize, IndexError> {
    let wanted = number(&settings.options, "buffer_bytes", 0, (0, most::BUFFER_BYTES))? as usize;
    Ok(match (wanted, settings.ram_bytes) {
        (0, None) => BUFFER_BYTES,
        (0, Some(_)) => shared_bytes,
        _ => wanted,
    })
}

/// The least RAM of buffers.
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
            BufferedConfig { buffer_bytes: 0, read_pages: 0, ..buffered::<F>(settings, 0, page_bytes)? };
        let layer = Layer::<C, D>::ram_bytes_max(&least, page_bytes, page_count);
        with_kind!(kind(&settings.options, &BUFFERED_KINDS)?, K => {
            let tree = trees::config::<K, C, D>(settings)?;
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
        let wanted = wanted_bytes(settings, least_bytes(store) + shared_bytes)?;
        Ok(wanted.saturating_sub(least_bytes(store)))
    }

    fn open<C: Number, const D: usize>(
        store: Store,
        settings: &Settings,
        shared_bytes: usize,
        open: Open,
    ) -> Result<Box<dyn SpatialIndex<C, D>>, IndexError> {
        let page_bytes = store.page_bytes();
        let ram_bytes = wanted_bytes(settings, least_bytes(&*store) + shared_bytes)?;
        let layer = buffered::<F>(settings, ram_bytes, page_bytes)?;
        with_kind!(kind(&settings.options, &BUFFERED_KINDS)?, K => {
            let tree = trees::config::<K, C, D>(settings)?;
            let mut nodes: BufferedNodes<Store, C, D> = match open {
                Open::Format => BufferedNodes::format(store, &tree, layer)?,
                _ => BufferedNodes::mount_as(store, &tree, layer)?,
            };
            if settings.ram_bytes.is_some() {
                nodes = nodes.narrowed();
            }
            let nodes: Box<dyn Nodes<C, D>> = Box::new(nodes);
            trees::tree_over::<K, C, D>(nodes)
        })
    }
}

/// A tree below which a framework lies.
pub(super) struct Below<F>(F);
