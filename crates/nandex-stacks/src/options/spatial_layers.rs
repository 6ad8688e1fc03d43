//! The layers below a tree of the R-tree family: RFTL, the FAST framework and eFIND.

use super::spatial::{DOMAIN, HILBERT, MR_TREE, R_STAR, R_TREE};
use super::{Choice, Number, OptionError, Options, Settings};
use crate::names::{OptionInfo, option};
use nandex::IndexError;
use nandex::index::most;
use nandex::ordered::Durability;
use nandex_papers::spatial::buffered::{BufferedConfig, Efind, FlushPolicy, ReadOrder, Worth};
use nandex_papers::spatial::rftl::RftlConfig;

/// A tree above a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Above {
    /// The R-tree.
    RTree,
    /// The R*-tree.
    RStar,
    /// The Hilbert R-tree.
    Hilbert,
    /// The MR-tree.
    MrTree,
}

impl Above {
    /// All trees, each with its name and its own options.
    const ALL: [(Above, &'static str, &'static [OptionInfo]); 4] = [
        (Above::RTree, "r-tree", &R_TREE),
        (Above::RStar, "r-star", &R_STAR),
        (Above::Hilbert, "hilbert", &HILBERT),
        (Above::MrTree, "mr-tree", &MR_TREE),
    ];
}

const RFTL_TREE: Choice<Above> = Choice::new(
    "tree",
    "the tree above: r-tree, r-star",
    &[("r-tree", Above::RTree), ("r-star", Above::RStar)],
);
const TREE: Choice<Above> = Choice::new(
    "tree",
    "the tree above: r-tree, r-star, hilbert, mr-tree",
    &[
        ("r-tree", Above::RTree),
        ("r-star", Above::RStar),
        ("hilbert", Above::Hilbert),
        ("mr-tree", Above::MrTree),
    ],
);

/// The tree named by the option. Options of other trees are refused.
fn above(options: &Options, tree: Choice<Above>) -> Result<Above, OptionError> {
    let wanted = tree.of(options)?;
    let name = Above::ALL.iter().find(|(above, ..)| *above == wanted).map_or("", |(_, name, _)| name);
    let others = Above::ALL.iter().filter(|(above, ..)| *above != wanted).flat_map(|(.., own)| own.iter());
    for other in others {
        // A curve is laid through the extent of the data without being asked for.
        if other.name != DOMAIN && options.text(other.name).is_some() {
            return Err(OptionError::because(other.name, format!("not one of tree={name}")));
        }
    }
    Ok(wanted)
}

const UNITS: Number<u32> = Number::new(
    option("reservation_units", "60", "changes that wait in RAM at most"),
    (1, most::UNITS as u32),
);
const LIST_LENGTH: Number<u8> =
    Number::new(option("list_length", "4", "C: pages with changes of a node at most, 1 to 64"), (1, 64));

pub(crate) const RFTL: [OptionInfo; 3] = [RFTL_TREE.info, UNITS.info, LIST_LENGTH.info];

/// The tree above RFTL.
pub fn above_rftl(options: &Options) -> Result<Above, OptionError> {
    above(options, RFTL_TREE)
}

/// The configuration of RFTL.
pub fn rftl(options: &Options) -> Result<RftlConfig, OptionError> {
    let published = RftlConfig::PUBLISHED;
    Ok(RftlConfig {
        reservation_units: UNITS.or(options, published.reservation_units)?,
        list_length: LIST_LENGTH.or(options, published.list_length)?,
    })
}

const BUFFER_BYTES: Number<usize> = Number::new(
    option(
        "buffer_bytes",
        "all RAM that is left, or 65536 where RAM is not limited",
        "RAM of the node buffer; what it leaves is the page cache's",
    ),
    (0, most::BUFFER_BYTES as usize),
);
const UNIT_NODES: Number<usize> =
    Number::new(option("unit_nodes", "5", "nodes of a flushing unit"), (1, 4096));
const LOG_PAGES: Number<u32> = Number::new(
    option("log_pages", "for 8 times the buffer", "pages of each of the log's two areas"),
    (0, u32::MAX),
);

pub(crate) const BUFFERED: [OptionInfo; 4] = [TREE.info, BUFFER_BYTES.info, UNIT_NODES.info, LOG_PAGES.info];

/// RAM of a node buffer if RAM is not limited, in bytes.
const UNLIMITED_BYTES: usize = 64 * 1024;

/// The tree that the options choose to run above a framework.
pub fn above_framework(options: &Options) -> Result<Above, OptionError> {
    above(options, TREE)
}

/// RAM of a framework's buffers in bytes: the value set, or all RAM that is left.
pub fn buffer_bytes(settings: &Settings, shared_bytes: usize) -> Result<usize, OptionError> {
    Ok(match (BUFFER_BYTES.or(&settings.options, 0)?, settings.ram_bytes) {
        (0, None) => UNLIMITED_BYTES,
        (0, Some(_)) => shared_bytes,
        (wanted, _) => wanted,
    })
}

/// The part of the configuration that all frameworks have. Their logs exist in every class.
fn framework(
    config: impl FnOnce(Durability) -> Result<BufferedConfig, OptionError>,
    settings: &Settings,
) -> Result<BufferedConfig, IndexError> {
    let options = &settings.options;
    let config = config(settings.durability.max(Durability::EverySync))?;
    let log_pages = LOG_PAGES.or(options, 0)?;
    Ok(BufferedConfig {
        unit_nodes: UNIT_NODES.or(options, config.unit_nodes)?,
        log_pages: (log_pages > 0).then_some(log_pages),
        ..config
    })
}

/// Makes the rule that chooses the nodes to flush from the ticks of the clock.
const FLUSH: Choice<fn(u64) -> FlushPolicy> = Choice::new(
    "flush",
    "what is flushed: fast, the unit with the most changes; fast-star, less its age; random; all",
    &[
        ("fast", |_| FlushPolicy::MostModified),
        ("fast-star", |tick_operations| FlushPolicy::MostModifiedOldest { tick_operations }),
        ("random", |_| FlushPolicy::Random { seed: 1 }),
        ("all", |_| FlushPolicy::All),
    ],
);
const TICK: Number<u64> =
    Number::new(option("tick", "1000", "operations in a tick of the clock of fast-star"), (1, 1 << 40));

pub(crate) const FAST: [OptionInfo; 2] = [FLUSH.info, TICK.info];

/// The configuration of the FAST framework with `ram_bytes` for its buffers.
pub fn fast(settings: &Settings, ram_bytes: usize, _: usize) -> Result<BufferedConfig, IndexError> {
    let options = &settings.options;
    framework(
        |durability| {
            let tick = TICK.or(options, 1000)?;
            Ok(BufferedConfig::fast(durability, ram_bytes, FLUSH.of(options)?(tick)))
        },
        settings,
    )
}

const WORTH: Choice<Worth> = Choice::new(
    "worth",
    "what a node to be flushed is worth: m, mt, mth, mtha, mthao",
    &[
        (Worth::Mthao.name(), Worth::Mthao),
        (Worth::M.name(), Worth::M),
        (Worth::Mt.name(), Worth::Mt),
        (Worth::Mth.name(), Worth::Mth),
        (Worth::Mtha.name(), Worth::Mtha),
    ],
);
const READ_ORDER: Choice<ReadOrder> = Choice::new(
    "read_order",
    "which page leaves the read buffer: lru, 2q, s2q, hlru",
    &[
        (ReadOrder::TwoQ.name(), ReadOrder::TwoQ),
        (ReadOrder::Lru.name(), ReadOrder::Lru),
        (ReadOrder::SimplifiedTwoQ.name(), ReadOrder::SimplifiedTwoQ),
        (ReadOrder::HeightLru.name(), ReadOrder::HeightLru),
    ],
);
const OLDEST: Number<u8> =
    Number::new(option("oldest", "60", "percent of the nodes that count as old"), (1, 100));
const SEQUENCE: Number<u32> =
    Number::new(option("sequence", "1", "pages that two nodes in sequence are apart at most"), (0, u32::MAX));
const STRIDE: Number<u32> = Number::new(
    option("stride", "8", "pages that two nodes a stride apart are apart at least"),
    (0, u32::MAX),
);

pub(crate) const EFIND: [OptionInfo; 5] =
    [WORTH.info, READ_ORDER.info, OLDEST.info, SEQUENCE.info, STRIDE.info];

/// The configuration of eFIND with `ram_bytes` for its buffers, on pages of `page_bytes`.
pub fn efind(settings: &Settings, ram_bytes: usize, page_bytes: usize) -> Result<BufferedConfig, IndexError> {
    let options = &settings.options;
    framework(
        |durability| {
            let policy = Efind {
                worth: WORTH.of(options)?,
                oldest_percent: OLDEST.or(options, 60)?,
                sequence_distance: SEQUENCE.or(options, 1)?,
                stride_distance: STRIDE.or(options, 8)?,
            };
            let read_order = READ_ORDER.of(options)?;
            Ok(BufferedConfig {
                read_order,
                ..BufferedConfig::efind(durability, ram_bytes, page_bytes, policy)
            })
        },
        settings,
    )
}
