//! How each spatial index is opened over a store, and what it takes of the RAM.

use super::registry::Number;
use crate::names::{OptionInfo, option};
use crate::registry::{Ground, Open};
use crate::stack::{self, Demand, options_of_tree};
use nandex::ordered::{Durability, Options, Settings};
use nandex::spatial::for_tree::{self, ForRules, Sharing};
use nandex::spatial::hilbert::{self, HilbertRules};
use nandex::spatial::mr_tree::{Balance, MrRules};
use nandex::spatial::node::Entry;
use nandex::spatial::paged::PagedNodes;
use nandex::spatial::r_star::{self, RStarRules};
use nandex::spatial::r_tree::{self, Guttman};
use nandex::spatial::tree::update::Grouped;
use nandex::spatial::tree::{Rules, SpatialConfig, Tree};
use nandex::spatial::{Nodes, Rect, SpatialIndex};
use nandex::{IndexError, PageStore};

/// A spatial index on logical pages. A new one implements this, or [`Kind`] if its nodes are pages, and has its line in the
/// registry.
pub(super) trait SpatialTree {
    /// Whether a node is read by reading a page, whatever happened before.
    const NODES_ARE_PAGES: bool = true;

    /// The options of the tree, those of store and cache among them.
    const OPTIONS: &'static [OptionInfo];

    /// The least RAM that it needs on a store, its cache and what it takes of the rest not counted.
    fn table_bytes<C: Number, const D: usize>(
        settings: &Settings,
        store: &dyn PageStore,
    ) -> Result<usize, IndexError>;

    /// The bytes that the tree's buffers take of the RAM that is left for them and the page cache.
    fn buffer_bytes(
        _settings: &Settings,
        _store: &dyn PageStore,
        _shared_bytes: usize,
    ) -> Result<usize, IndexError> {
        Ok(0)
    }

    /// Whether pages that it writes may wait in the cache.
    fn lets_writes_wait(settings: &Settings) -> bool {
        settings.durability != Durability::EveryOperation
    }

    /// Opens it on its store; `shared_bytes` as for [`SpatialTree::buffer_bytes`].
    fn open<C: Number, const D: usize>(
        store: Box<dyn PageStore>,
        settings: &Settings,
        shared_bytes: usize,
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
        buffer_bytes: T::buffer_bytes,
        lets_writes_wait: T::lets_writes_wait,
        // A removal puts any number of nodes back in.
        exceeds_groups: true,
    };
    let (store, shared) = stack::cached_store(ground, settings, open, demand, &[1])?;
    T::open(store, settings, shared[0], open)
}

/// The tree of this kind above its nodes.
pub(super) fn tree_over<K: Kind, C: Number, const D: usize>(
    nodes: Box<dyn Nodes<C, D>>,
) -> Result<Box<dyn SpatialIndex<C, D>>, IndexError> {
    // The seam is crossed at run time here: each kind of tree is compiled once for all that may lie below.
    Ok(Box::new(Tree::<C, D, Box<dyn Nodes<C, D>>, K::Rules<C, D>>::over(nodes)?))
}

/// A kind of [`Tree`]; its nodes are pages, or below a layer (`layers.rs`).
pub(super) trait Kind {
    /// The rules of the kind.
    type Rules<C: Number, const D: usize>: Rules<C, D> + 'static;

    /// The name of the kind.
    const NAME: &'static str;

    /// The options of the kind, those of store and cache among them.
    const OPTIONS: &'static [OptionInfo];

    /// The rules that the options ask for.
    fn config<C: Number, const D: usize>(
        options: &Options,
    ) -> Result<SpatialConfig<Self::Rules<C, D>>, IndexError>;
}

/// Options of every tree.
pub(super) const OWN: [OptionInfo; 4] = [
    option("capacity", "what the page holds", "entries of a node at most, leaf and internal, 4 or more"),
    option("leaf_capacity", "capacity", "entries of a leaf at most"),
    option("internal_capacity", "capacity", "children of any other node at most"),
    option("fill_min", "40", "entries of a node at least, in percent of its capacity, up to 50"),
];

/// The configuration of a tree.
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
            _ => PagedNodes::mount_as(store, &config)?,
        };
        // Without a limit an operation may hold as many nodes as the literature has it insert again.
        if settings.ram_bytes.is_some() {
            nodes = nodes.narrowed();
        }
        tree_over::<K, C, D>(Box::new(nodes))
    }
}

/// Nodes that are pages.
type Pages<C, const D: usize> = PagedNodes<Box<dyn PageStore>, C, D>;

/// The R-tree.
pub(super) struct RTree;

pub(super) const R_TREE_OWN: [OptionInfo; 1] =
    [option("split", "quadratic", "how a full node is divided: quadratic, linear")];

impl Kind for RTree {
    type Rules<C: Number, const D: usize> = Grouped<Guttman>;

    const NAME: &'static str = "r-tree";

    const OPTIONS: &'static [OptionInfo] = options_of_tree!(OWN, R_TREE_OWN);

    fn config<C: Number, const D: usize>(
        options: &Options,
    ) -> Result<SpatialConfig<Grouped<Guttman>>, IndexError> {
        r_tree::config_of(options)
    }
}

/// The R*-tree.
pub(super) struct RStar;

pub(super) const R_STAR_OWN: [OptionInfo; 3] = [
    option("overlap_candidates", "32", "children compared by overlap above the leaves; 0: none"),
    option("reinserted", "30", "percent of a full node's entries that are inserted again, 0 to 45"),
    option("reinsertion", "close", "which of them first: close, the nearest to the centre, or far"),
];

impl Kind for RStar {
    type Rules<C: Number, const D: usize> = Grouped<RStarRules>;

    const NAME: &'static str = "r-star";

    const OPTIONS: &'static [OptionInfo] = options_of_tree!(OWN, R_STAR_OWN);

    fn config<C: Number, const D: usize>(
        options: &Options,
    ) -> Result<SpatialConfig<Grouped<RStarRules>>, IndexError> {
        r_star::config_of(options)
    }
}

/// The MR-tree.
pub(super) struct MrTree;

pub(super) const MR_TREE_OWN: [OptionInfo; 2] = [
    option("balance", "reinsertion", "what becomes of a subtree that got too low: reinsertion, adoption"),
    option(
        "selective",
        "no",
        "whether a leaf that gets too empty is dissolved where a node above has room: no, yes",
    ),
];

impl Kind for MrTree {
    type Rules<C: Number, const D: usize> = MrRules;

    const NAME: &'static str = "mr-tree";

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

/// The FOR-tree.
pub(super) struct ForTree;

const FOR_TREE_OWN: [OptionInfo; 5] = [
    option(
        "read_cost",
        "1",
        "what a page read costs, 1 or more: full nodes are split once reads have cost more than writes",
    ),
    option("write_cost", "8", "what a page write costs"),
    option("overflow_max", "4", "overflow nodes of a node at most, 0 to 255"),
    option("table_max", "4096, or 512 where RAM is limited", "overflow nodes of the tree at most"),
    option(
        "sharing",
        "sorted",
        "how the entries of a node with overflow nodes are shared out: sorted, stored",
    ),
];

/// RAM of a row of the overflow node table, at most.
const ROW_BYTES: usize = 64;

impl ForTree {
    fn config(settings: &Settings) -> Result<SpatialConfig<ForRules>, IndexError> {
        let options = &settings.options;
        let number = |name: &str, default: u32, least: u64, most: u32| -> Result<u32, IndexError> {
            Ok(options.number(name, least..=most.into())?.map_or(default, |n| n as u32))
        };
        let mut rules = for_tree::config().rules;
        rules.read_cost = number("read_cost", rules.read_cost, 1, u32::MAX)?;
        rules.write_cost = number("write_cost", rules.write_cost, 0, u32::MAX)?;
        rules.overflow_max = number("overflow_max", rules.overflow_max.into(), 0, u8::MAX.into())? as u8;
        let table_max = if settings.ram_bytes.is_some() { 512 } else { rules.table_max };
        rules.table_max = number("table_max", table_max, 0, u32::MAX)?;
        if options.choice("sharing", &["sorted", "stored"])? == "stored" {
            rules.sharing = Sharing::Stored;
        }
        let config = SpatialConfig::new(rules).with_options(options)?;
        Ok(config.with_durability(settings.durability))
    }
}

impl SpatialTree for ForTree {
    const OPTIONS: &'static [OptionInfo] = options_of_tree!(OWN, FOR_TREE_OWN);

    fn table_bytes<C: Number, const D: usize>(
        settings: &Settings,
        store: &dyn PageStore,
    ) -> Result<usize, IndexError> {
        let config = ForTree::config(settings)?;
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
        let config = ForTree::config(settings)?;
        if open == Open::Format {
            return Ok(Box::new(for_tree::format::<_, C, D>(store, &config)?));
        }
        let tree = for_tree::mount::<_, C, D>(store)?;
        if *tree.rules() != config.rules {
            return Err(IndexError::NotFormatted("the tree has other rules"));
        }
        if SpatialIndex::<C, D>::durability(&tree) < config.durability {
            let what = "the tree gives less durability on this store than is wanted";
            return Err(IndexError::Unsupported(String::from(what)));
        }
        Ok(Box::new(tree))
    }
}

/// The Hilbert R-tree.
pub(super) struct Hilbert;

/// The name of the option that tells the Hilbert R-tree its domain.
pub const DOMAIN: &str = "domain";

pub(super) const HILBERT_OWN: [OptionInfo; 1] = [option(
    DOMAIN,
    "the extent of the data, or all numbers",
    "the box that the curve runs through: its lower and its upper corner, such as -180,-90,180,90",
)];

impl Kind for Hilbert {
    type Rules<C: Number, const D: usize> = HilbertRules<C, D>;

    const NAME: &'static str = "hilbert";

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
pub fn text_of<C: Number, const D: usize>(rect: &Rect<C, D>) -> String {
    let numbers = rect.low().into_iter().chain(rect.high()).map(|number| number.to_string());
    numbers.collect::<Vec<_>>().join(",")
}
