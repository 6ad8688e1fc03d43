//! How each spatial index is opened over a store, and what it takes of the RAM.

use super::registry::Number;
use crate::names::{OptionInfo, option};
use crate::registry::{Ground, Open};
use crate::stack::{self, Demand, options_of_tree};
use nandex::ordered::{Durability, Options, Settings};
use nandex::spatial::hilbert::{self, HilbertRules};
use nandex::spatial::mr_tree::{Balance, MrRules};
use nandex::spatial::node::{Entry, Node, NodeFormat};
use nandex::spatial::paged::PagedNodes;
use nandex::spatial::r_star::{self, RStarRules};
use nandex::spatial::r_tree::{self, Guttman};
use nandex::spatial::tree::update::Grouped;
use nandex::spatial::tree::{Rules, SpatialConfig, Tree};
use nandex::spatial::{Coordinate, Rect, SpatialIndex};
use nandex::{IndexError, PageStore};

/// A spatial index on logical pages. A new one implements this, or [`Kind`] if its nodes are pages, and has its line in the
/// registry.
pub(super) trait SpatialTree {
    /// Its options, those of store and cache among them.
    const OPTIONS: &'static [OptionInfo];

    /// The most RAM that it needs on a store, its cache not counted.
    fn table_bytes<C: Number, const D: usize>(
        settings: &Settings,
        store: &dyn PageStore,
    ) -> Result<usize, IndexError>;

    /// Opens it on its store.
    fn open<C: Number, const D: usize>(
        store: Box<dyn PageStore>,
        settings: &Settings,
        open: Open,
    ) -> Result<Box<dyn SpatialIndex<C, D>>, IndexError>;
}

/// The index over the FTL, or disk, and the cache that its settings name.
pub(super) fn open<T: SpatialTree, C: Number, const D: usize>(
    ground: Ground,
    settings: &Settings,
    open: Open,
) -> Result<Box<dyn SpatialIndex<C, D>>, IndexError> {
    let demand = Demand {
        table_bytes: T::table_bytes::<C, D>,
        buffer_bytes: |_, _, _| Ok(0),
        lets_writes_wait: |settings| settings.durability != Durability::EveryOperation,
    };
    let (store, _) = stack::cached_store(ground, settings, open, demand, &[1])?;
    T::open(store, settings, open)
}

/// A kind of [`Tree`] whose nodes are pages.
pub(super) trait Kind {
    /// Its rules.
    type Rules<C: Number, const D: usize>: Rules<C, D> + 'static;

    /// Its options, those of store and cache among them.
    const OPTIONS: &'static [OptionInfo];

    /// The rules that the options ask for.
    fn config<C: Number, const D: usize>(
        options: &Options,
    ) -> Result<SpatialConfig<Self::Rules<C, D>>, IndexError>;
}

/// Options of every tree.
const OWN: [OptionInfo; 4] = [
    option("capacity", "what the page holds", "entries of a node at most, leaf and internal, 4 or more"),
    option("leaf_capacity", "capacity", "entries of a leaf at most"),
    option("internal_capacity", "capacity", "children of any other node at most"),
    option("fill_min", "40", "entries of a node at least, in percent of its capacity, up to 50"),
];

/// The configuration of a tree.
fn config<K: Kind, C: Number, const D: usize>(
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
        let format = config::<K, C, D>(settings)?.node_format::<C, D>(store.page_bytes(), store.page_count())?;
        Ok(nodes_bytes::<C, D>(&format))
    }

    fn open<C: Number, const D: usize>(
        store: Box<dyn PageStore>,
        settings: &Settings,
        open: Open,
    ) -> Result<Box<dyn SpatialIndex<C, D>>, IndexError> {
        let config = config::<K, C, D>(settings)?;
        type Opened<C, const D: usize, R> = Tree<C, D, PagedNodes<Box<dyn PageStore>, C, D>, R>;
        Ok(match open {
            Open::Format => Box::new(Opened::<C, D, K::Rules<C, D>>::format(store, &config)?),
            _ => Box::new(Opened::<C, D, K::Rules<C, D>>::mount_as(store, &config)?),
        })
    }
}

/// Nodes whose memory is kept between operations, and the one read last.
const NODES_KEPT: usize = 17;

/// What nodes that are pages hold of RAM between operations: the map of free pages, nodes kept for their memory, and the pages of
/// the largest group.
fn nodes_bytes<C: Coordinate, const D: usize>(format: &NodeFormat) -> usize {
    let map = (format.page_count as usize).div_ceil(64) * size_of::<u64>() * 2;
    // One entry more than a node may have while it is split; a vector grows to the next power of two.
    let entries = (format.capacity(1).max(format.capacity(2)) + 1).next_power_of_two();
    let node = entries * size_of::<Entry<C, D>>() + size_of::<Node<C, D>>();
    map + NODES_KEPT * node + 2 * format.group_nodes_max() * format.page_bytes as usize
}

/// The R-tree.
pub(super) struct RTree;

const R_TREE_OWN: [OptionInfo; 1] =
    [option("split", "quadratic", "how a full node is divided: quadratic, linear")];

impl Kind for RTree {
    type Rules<C: Number, const D: usize> = Grouped<Guttman>;

    const OPTIONS: &'static [OptionInfo] = options_of_tree!(OWN, R_TREE_OWN);

    fn config<C: Number, const D: usize>(
        options: &Options,
    ) -> Result<SpatialConfig<Grouped<Guttman>>, IndexError> {
        r_tree::config_of(options)
    }
}

/// The R*-tree.
pub(super) struct RStar;

const R_STAR_OWN: [OptionInfo; 3] = [
    option("overlap_candidates", "32", "children compared by overlap above the leaves; 0: none"),
    option("reinserted", "30", "percent of a full node's entries that are inserted again, 0 to 45"),
    option("reinsertion", "close", "which of them first: close, the nearest to the centre, or far"),
];

impl Kind for RStar {
    type Rules<C: Number, const D: usize> = Grouped<RStarRules>;

    const OPTIONS: &'static [OptionInfo] = options_of_tree!(OWN, R_STAR_OWN);

    fn config<C: Number, const D: usize>(
        options: &Options,
    ) -> Result<SpatialConfig<Grouped<RStarRules>>, IndexError> {
        r_star::config_of(options)
    }
}

/// The MR-tree.
pub(super) struct MrTree;

const MR_TREE_OWN: [OptionInfo; 2] = [
    option("balance", "reinsertion", "what becomes of a subtree that got too low: reinsertion, adoption"),
    option("selective", "no", "whether a leaf that gets too empty is dissolved where a node above has room: no, yes"),
];

impl Kind for MrTree {
    type Rules<C: Number, const D: usize> = MrRules;

    const OPTIONS: &'static [OptionInfo] = options_of_tree!(OWN, MR_TREE_OWN);

    fn config<C: Number, const D: usize>(options: &Options) -> Result<SpatialConfig<MrRules>, IndexError> {
        let balance = match options.choice("balance", &["reinsertion", "adoption"])? {
            "adoption" => Balance::Adoption,
            _ => Balance::Reinsertion,
        };
        let is_selective = options.choice("selective", &["no", "yes"])? == "yes";
        SpatialConfig::new(MrRules { balance, is_selective }).with_options(options)
    }
}

/// The Hilbert R-tree.
pub(super) struct Hilbert;

/// The name of the option that tells the Hilbert R-tree its domain.
pub(super) const DOMAIN: &str = "domain";

const HILBERT_OWN: [OptionInfo; 1] = [option(
    DOMAIN,
    "the extent of the data, or all numbers",
    "the box that the curve runs through: its lower and its upper corner, such as -180,-90,180,90",
)];

impl Kind for Hilbert {
    type Rules<C: Number, const D: usize> = HilbertRules<C, D>;

    const OPTIONS: &'static [OptionInfo] = options_of_tree!(OWN, HILBERT_OWN);

    fn config<C: Number, const D: usize>(
        options: &Options,
    ) -> Result<SpatialConfig<HilbertRules<C, D>>, IndexError> {
        let domain = options.text(DOMAIN).map(|text| {
            rect_of::<C, D>(text).map_err(|why| IndexError::Unsupported(format!("option {DOMAIN}: {why}")))
        });
        hilbert::config(domain.transpose()?).with_options(options)
    }
}

/// A box as text: its corners, the numbers separated by commas.
pub fn rect_of<C: Number, const D: usize>(text: &str) -> Result<Rect<C, D>, String> {
    let number = |part: &str| part.trim().parse().ok().and_then(C::of_f64);
    let numbers: Option<Vec<C>> = text.split(',').map(number).collect();
    match numbers {
        Some(numbers) if numbers.len() == 2 * D => {
            let corner = |from: usize| core::array::from_fn(|axis| numbers[from + axis]);
            Rect::new(corner(0), corner(D)).map_err(|why| format!("'{text}': {why}"))
        }
        _ => Err(format!("'{text}' is not {} numbers, the lower corner and the upper one", 2 * D)),
    }
}

/// The text that [`rect_of`] reads.
pub(super) fn text_of<C: Number, const D: usize>(rect: &Rect<C, D>) -> String {
    let numbers = rect.low().into_iter().chain(rect.high()).map(|number| number.to_string());
    numbers.collect::<Vec<_>>().join(",")
}
