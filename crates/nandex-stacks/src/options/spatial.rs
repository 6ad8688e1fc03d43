//! The spatial indexes whose nodes are pages, or below a layer: R-tree, R*-tree, MR-tree, FOR-tree and
//! Hilbert R-tree.

use super::number::Number as Coordinate;
use super::{Choice, Number, OptionError, Options, Settings};
use crate::names::{OptionInfo, option};
use nandex::IndexError;
use nandex::index::most;
use nandex::spatial::Rect;
use nandex::spatial::hilbert::{self, HilbertRules};
use nandex::spatial::r_tree::{self, Guttman, Split};
use nandex::spatial::tree::SpatialConfig;
use nandex::spatial::tree::update::Grouped;
use nandex_papers::spatial::for_tree::{self, ForRules, Sharing};
use nandex_papers::spatial::mr_tree::{self, Balance, MrRules};
use nandex_papers::spatial::r_star::{self, REINSERTED_PERCENT_MAX, RStarRules, Reinsertion};

const CAPACITY: Number<usize> = Number::new(
    option("capacity", "what the page holds", "entries of a node at most, leaf and internal, 4 or more"),
    (0, most::NODE_ENTRIES as usize),
);
const LEAF_CAPACITY: Number<usize> = Number::new(
    option("leaf_capacity", "capacity", "entries of a leaf at most"),
    (0, most::NODE_ENTRIES as usize),
);
const INTERNAL_CAPACITY: Number<usize> = Number::new(
    option("internal_capacity", "capacity", "children of any other node at most"),
    (0, most::NODE_ENTRIES as usize),
);
const FILL_MIN: Number<u8> = Number::new(
    option("fill_min", "40", "entries of a node at least, in percent of its capacity, up to 50"),
    (0, 100),
);

pub(crate) const OPTIONS: [OptionInfo; 4] =
    [CAPACITY.info, LEAF_CAPACITY.info, INTERNAL_CAPACITY.info, FILL_MIN.info];

/// Applies the options of the nodes.
fn nodes<R>(mut config: SpatialConfig<R>, options: &Options) -> Result<SpatialConfig<R>, IndexError> {
    let capacity = CAPACITY.of(options)?;
    config.leaf_capacity = LEAF_CAPACITY.of(options)?.or(capacity).or(config.leaf_capacity);
    config.internal_capacity = INTERNAL_CAPACITY.of(options)?.or(capacity).or(config.internal_capacity);
    config.fill_min_percent = FILL_MIN.or(options, config.fill_min_percent)?;
    Ok(config)
}

const SPLIT: Choice<Split> = Choice::new(
    "split",
    "how a full node is divided: quadratic, linear",
    &[("quadratic", Split::Quadratic), ("linear", Split::Linear)],
);

pub(crate) const R_TREE: [OptionInfo; 1] = [SPLIT.info];

/// The configuration of the R-tree.
pub fn r_tree(options: &Options) -> Result<SpatialConfig<Grouped<Guttman>>, IndexError> {
    nodes(r_tree::config(SPLIT.of(options)?), options)
}

const OVERLAP_CANDIDATES: Number<u16> = Number::new(
    option("overlap_candidates", "32", "children compared by overlap above the leaves; 0: none"),
    (0, u16::MAX),
);
const REINSERTED: Number<u8> = Number::new(
    option("reinserted", "30", "percent of a full node's entries that are inserted again, 0 to 45"),
    (0, REINSERTED_PERCENT_MAX),
);
const REINSERTION: Choice<Reinsertion> = Choice::new(
    "reinsertion",
    "which of them first: close, the nearest to the centre, or far",
    &[("close", Reinsertion::Close), ("far", Reinsertion::Far)],
);

pub(crate) const R_STAR: [OptionInfo; 3] = [OVERLAP_CANDIDATES.info, REINSERTED.info, REINSERTION.info];

/// The configuration of the R*-tree.
pub fn r_star(options: &Options) -> Result<SpatialConfig<Grouped<RStarRules>>, IndexError> {
    let published = RStarRules::PUBLISHED;
    let mut config = r_star::config();
    config.rules = Grouped(RStarRules {
        overlap_candidates: OVERLAP_CANDIDATES.or(options, published.overlap_candidates)?,
        reinserted_percent: REINSERTED.or(options, published.reinserted_percent)?,
        order: REINSERTION.of(options)?,
    });
    nodes(config, options)
}

const BALANCE: Choice<Balance> = Choice::new(
    "balance",
    "what becomes of a subtree that got too low: reinsertion, adoption",
    &[("reinsertion", Balance::Reinsertion), ("adoption", Balance::Adoption)],
);
const SELECTIVE: Choice<bool> = Choice::new(
    "selective",
    "whether a leaf that gets too empty is dissolved where a node above has room: no, yes",
    &[("no", false), ("yes", true)],
);

pub(crate) const MR_TREE: [OptionInfo; 2] = [BALANCE.info, SELECTIVE.info];

/// The configuration of the MR-tree.
pub fn mr_tree(options: &Options) -> Result<SpatialConfig<MrRules>, IndexError> {
    let mut config = mr_tree::config();
    config.rules = MrRules { balance: BALANCE.of(options)?, is_selective: SELECTIVE.of(options)? };
    nodes(config, options)
}

const READ_COST: Number<u32> = Number::new(
    option(
        "read_cost",
        "1",
        "what a page read costs, 1 or more: full nodes are split once reads have cost more than writes",
    ),
    (1, u32::MAX),
);
const WRITE_COST: Number<u32> =
    Number::new(option("write_cost", "8", "what a page write costs"), (0, u32::MAX));
const OVERFLOW_MAX: Number<u8> =
    Number::new(option("overflow_max", "4", "overflow nodes of a node at most, 0 to 255"), (0, u8::MAX));
const TABLE_MAX: Number<u32> = Number::new(
    option("table_max", "4096, or 512 where RAM is limited", "overflow nodes of the tree at most"),
    (0, u32::MAX),
);
const SHARING: Choice<Sharing> = Choice::new(
    "sharing",
    "how the entries of a node with overflow nodes are shared out: sorted, stored",
    &[("sorted", Sharing::Sorted), ("stored", Sharing::Stored)],
);

pub(crate) const FOR_TREE: [OptionInfo; 5] =
    [READ_COST.info, WRITE_COST.info, OVERFLOW_MAX.info, TABLE_MAX.info, SHARING.info];

/// The configuration of the FOR-tree.
pub fn for_tree(settings: &Settings) -> Result<SpatialConfig<ForRules>, IndexError> {
    let options = &settings.options;
    let mut config = for_tree::config();
    let rules = config.rules;
    let table_max = if settings.ram_bytes.is_some() { 512 } else { rules.table_max };
    config.rules = ForRules {
        read_cost: READ_COST.or(options, rules.read_cost)?,
        write_cost: WRITE_COST.or(options, rules.write_cost)?,
        overflow_max: OVERFLOW_MAX.or(options, rules.overflow_max)?,
        table_max: TABLE_MAX.or(options, table_max)?,
        sharing: SHARING.of(options)?,
    };
    Ok(nodes(config, options)?.with_durability(settings.durability))
}

/// The name of the option for the domain of the Hilbert R-tree.
pub const DOMAIN: &str = "domain";

const DOMAIN_BOX: OptionInfo = option(
    DOMAIN,
    "the extent of the data, or all numbers",
    "the box that the curve runs through: its lower and its upper corner, such as -180,-90,180,90",
);

pub(crate) const HILBERT: [OptionInfo; 1] = [DOMAIN_BOX];

/// The configuration of the Hilbert R-tree.
pub fn hilbert<C: Coordinate, const D: usize>(
    options: &Options,
) -> Result<SpatialConfig<HilbertRules<C, D>>, IndexError> {
    let domain = options
        .text(DOMAIN)
        .map(|text| rect_of::<C, D>(text).map_err(|why| OptionError::because(DOMAIN, why)));
    nodes(hilbert::config(domain.transpose()?), options)
}

/// Parses a rectangle from the numbers of its corners, separated by commas.
pub fn rect_of<C: Coordinate, const D: usize>(text: &str) -> Result<Rect<C, D>, String> {
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

/// The text of a rectangle, which [`rect_of`] parses.
pub fn text_of<C: Coordinate, const D: usize>(rect: &Rect<C, D>) -> String {
    let numbers = rect.low().into_iter().chain(rect.high()).map(|number| number.to_string());
    numbers.collect::<Vec<_>>().join(",")
}
