//! The two forms of in-page logging: IPL and dIPL.

use super::raw::{BENEATH, PLACES};
use super::{Choice, Number, Settings};
use crate::names::{OptionInfo, option};
use nandex::blocks::wear::WearLevelling;
use nandex::index::most;
use nandex::log::Placement;
use nandex::{Geometry, IndexError};
use nandex_papers::ordered::ipl::{IplConfig, LogArea, LogUnit};

const ORDER: Number<usize> = Number::new(
    option("order", "what the page holds", "entries of a node at most, 4 or more"),
    (0, most::NODE_ENTRIES as usize),
);
const READ_PAGES: Number<usize> =
    Number::new(option("read_pages", "what the RAM leaves", "pages of the read cache"), (0, usize::MAX));
const LOG_BYTES: Number<usize> = Number::new(
    option("log_bytes", "a quarter of what the RAM leaves", "bytes of the log records that wait in RAM"),
    (0, usize::MAX),
);
const CHECKPOINT_BLOCKS: Number<u32> = Number::new(
    option("checkpoint_blocks", "16, or a 16th of the chip", "blocks opened between two checkpoints"),
    (0, u32::MAX),
);
const PLACEMENT: Choice<Placement> = Choice::new(
    "placement",
    "out_of_place, to fresh blocks; in_place, nodes and log pages written over, through the FTL beneath, without trims",
    PLACES,
);

const UNITS: &[(&str, LogUnit)] =
    &[("auto", LogUnit::Auto), ("sector", LogUnit::Sector), ("page", LogUnit::Page)];
const IPL_UNIT: Choice<LogUnit> = Choice::new(
    "log_unit",
    "auto, sector (512 bytes, by partial programs, where the part takes them; in place always), page",
    UNITS,
);
const DIPL_UNIT: Choice<LogUnit> = Choice::described(
    option("log_unit", "page; in place sector", "page, sector (512 bytes, by partial programs or in place)"),
    UNITS,
);
const LOG_PAGES: Number<u32> =
    Number::new(option("log_pages", "a 16th of the block", "pages of a block's log region"), (0, u32::MAX));
const NODES_MAX: Number<u32> = Number::new(
    option("nodes_max", "five eighths of a block", "nodes of a block that a merge keeps together"),
    (0, u32::MAX),
);
const REWRITE_UNITS: Number<u32> = Number::new(
    option("rewrite_units", "4", "log units after which a node is written anew in its block; 0: never"),
    (0, u32::MAX),
);

const WEAR: Choice<WearLevelling> = Choice::new(
    "wear",
    "level: a block that lags a quarter behind a worn one is merged, and by the price of that; off: it stays",
    &[("off", WearLevelling::None), ("level", WearLevelling::Relative)],
);

pub(crate) const IPL: [OptionInfo; 9] = [
    ORDER.info,
    READ_PAGES.info,
    LOG_BYTES.info,
    CHECKPOINT_BLOCKS.info,
    WEAR.info,
    PLACEMENT.info,
    BENEATH,
    IPL_UNIT.info,
    LOG_PAGES.info,
];

pub(crate) const DIPL: [OptionInfo; 10] = [
    ORDER.info,
    READ_PAGES.info,
    LOG_BYTES.info,
    CHECKPOINT_BLOCKS.info,
    WEAR.info,
    PLACEMENT.info,
    BENEATH,
    DIPL_UNIT.info,
    NODES_MAX.info,
    REWRITE_UNITS.info,
];

fn common(settings: &Settings, area: LogArea, chip: Geometry) -> Result<IplConfig, IndexError> {
    let options = &settings.options;
    let pages = chip.pages();
    Ok(IplConfig {
        durability: settings.durability,
        ram_bytes: settings.ram_bytes,
        placement: PLACEMENT.of(options)?,
        wear_levelling: WEAR.of(options)?,
        // Both forms have the same words.
        log_unit: IPL_UNIT.of(options)?,
        order: ORDER.of(options)?,
        checkpoint_blocks: CHECKPOINT_BLOCKS.up_to(options, pages)?,
        read_pages: READ_PAGES.up_to(options, pages as usize)?,
        log_bytes: LOG_BYTES.up_to(options, pages as usize)?,
        ..IplConfig::new(settings.record, area)
    })
}

/// The configuration of IPL on such a chip.
pub fn ipl(settings: &Settings, chip: Geometry) -> Result<IplConfig, IndexError> {
    let log_pages = LOG_PAGES.up_to(&settings.options, chip.pages_per_block)?;
    Ok(IplConfig { log_pages, ..common(settings, LogArea::Fixed, chip)? })
}

/// The configuration of dIPL on such a chip.
pub fn dipl(settings: &Settings, chip: Geometry) -> Result<IplConfig, IndexError> {
    let (options, pages) = (&settings.options, chip.pages());
    let config = common(settings, LogArea::Dynamic, chip)?;
    let rewrite_units = REWRITE_UNITS.up_to(options, pages)?.unwrap_or(config.rewrite_units.into());
    Ok(IplConfig {
        nodes_max: NODES_MAX.up_to(options, pages)?,
        // More than a block has units of: as good as never.
        rewrite_units: u16::try_from(rewrite_units).unwrap_or(u16::MAX),
        ..config
    })
}
