//! The indexes for small embedded systems on raw flash: VMTree, VMTree-OW, SBITS, plow and furrow.

use super::ftl::VICTIM;
use super::raw::{self, BENEATH, PAIRING};
use super::{Choice, Number, Settings, pool};
use crate::names::{OptionInfo, option};
use nandex::index::most;
use nandex::ordered::RawConfig;
use nandex::ordered::buffered::Answers;
use nandex::ordered::furrow::FurrowConfig;
use nandex::ordered::plow::PlowConfig;
use nandex::ordered::sbits::{SbitsConfig, WhenFull};
use nandex::ordered::vm::overwrite::{Marks, OverwriteConfig};
use nandex::ordered::vm::{Duplicates, Keep, LOG_PAGES_MAX, TableConfig, VmConfig};
use nandex::{Geometry, IndexError};

const LOG_PAGES: Number<u32> = Number::new(
    option(
        "log_pages",
        "0",
        "pages of the log buffer: updates wait in it and are entered together, durable at every sync",
    ),
    (0, LOG_PAGES_MAX),
);
const ANSWERS: Choice<Answers> = Choice::new(
    "answers",
    "with a log buffer: exact, or pool: what an update answers is what it knows",
    pool::ANSWER_WORDS,
);
const KEPT_NODES: Choice<Keep> = Choice::new(
    "kept_nodes",
    "nodes kept from one operation to the next: path, or three-buffers, as the authors' program",
    &[("path", Keep::Path), ("three-buffers", Keep::ThreeBuffers)],
);
const MAPPING_BYTES: Number<usize> = Number::new(
    option(
        "mapping_bytes",
        "1024, an eighth of the RAM, or 512 where it is short",
        "bytes of the table of moved nodes",
    ),
    (TableConfig::BYTES_MIN, usize::MAX),
);
const DUPLICATES: Choice<Duplicates> = Choice::new(
    "mapping_duplicates",
    "never, or as-published: entries of the table may be left behind, as in the authors' program",
    &[("never", Duplicates::Never), ("as-published", Duplicates::AsPublished)],
);

pub(crate) const VM: [OptionInfo; 11] = [
    MAPPING_BYTES.info,
    LOG_PAGES.info,
    ANSWERS.info,
    KEPT_NODES.info,
    DUPLICATES.info,
    // The write part is the log buffer's affair, and so is when it is full.
    option("read_pages", "what the RAM leaves", "pages of the read cache"),
    VICTIM,
    option("collect_at_blocks", "2, or what an update may take", "collect garbage at so many free blocks"),
    raw::CHECKPOINT_BLOCKS.info,
    raw::WEAR.info,
    BENEATH,
];

/// The configuration of the VMTree on such a chip.
pub fn vm(settings: &Settings, chip: Geometry) -> Result<VmConfig, IndexError> {
    let options = &settings.options;
    let scheme = TableConfig {
        bytes: MAPPING_BYTES.up_to(options, chip.pages() as usize * 4)?,
        keep: KEPT_NODES.of(options)?,
        duplicates: DUPLICATES.of(options)?,
    };
    Ok(VmConfig {
        tree: RawConfig { scheme, ..raw::common(settings, chip)? },
        log_pages: LOG_PAGES.or(options, 0)?,
        answers: ANSWERS.of(options)?,
    })
}

const SLOTS: Choice<Marks> = Choice::new(
    "slots",
    "checked, or bare: the published page, in which flipped bits are not noticed",
    &[("checked", Marks::Checked), ("bare", Marks::Bare)],
);

pub(crate) const OVERWRITE: [OptionInfo; 4] = [SLOTS.info, LOG_PAGES.info, ANSWERS.info, KEPT_NODES.info];

/// The configuration of the VMTree-OW.
pub fn overwrite(settings: &Settings, _: Geometry) -> Result<OverwriteConfig, IndexError> {
    let options = &settings.options;
    Ok(OverwriteConfig {
        durability: settings.durability,
        ram_bytes: settings.ram_bytes,
        log_pages: LOG_PAGES.or(options, 0)?,
        marks: SLOTS.of(options)?,
        keep: KEPT_NODES.of(options)?,
        answers: ANSWERS.of(options)?,
        ..OverwriteConfig::new(settings.record)
    })
}

const SPLINE_POINTS: Number<usize> = Number::new(
    option("spline_points", "300, or what the RAM leaves", "points of the spline from keys to pages"),
    (4, 1 << 20),
);
const MAX_ERROR: Number<u32> = Number::new(
    option("max_error", "1", "pages by which the spline may be wrong while its points suffice"),
    (1, 1 << 20),
);
const WHEN_FULL: Choice<WhenFull> = Choice::new(
    "when_full",
    "refuse an insertion, or drop-oldest: the oldest block of records goes",
    &[("refuse", WhenFull::Refuse), ("drop-oldest", WhenFull::DropOldest)],
);

pub(crate) const SBITS: [OptionInfo; 4] = [SPLINE_POINTS.info, MAX_ERROR.info, WHEN_FULL.info, BENEATH];

/// The configuration of SBITS.
pub fn sbits(settings: &Settings, _: Geometry) -> Result<SbitsConfig, IndexError> {
    let options = &settings.options;
    let default = SbitsConfig::new(settings.record);
    Ok(SbitsConfig {
        durability: settings.durability,
        ram_bytes: settings.ram_bytes,
        when_full: WHEN_FULL.of(options)?,
        max_error: MAX_ERROR.or(options, default.max_error)?,
        spline_points: SPLINE_POINTS.of(options)?,
        ..default
    })
}

const PLOW_ANSWERS: Choice<Answers> = Choice::new(
    "answers",
    "exact, or pool: what an update answers is what the memtable knows, nothing is read for it",
    pool::ANSWER_WORDS,
);
const MEMTABLE: Number<usize> = Number::new(
    option(
        "pool_requests",
        "what its share of the RAM holds, 5/8 of a page without a limit",
        "records of the memtable",
    ),
    (4, most::POOL_REQUESTS as usize),
);
const LEVELS: Number<usize> =
    Number::new(option("levels", "as many as cost least, up to 3", "levels on flash, 1 to 3"), (1, 3));

pub(crate) const PLOW: [OptionInfo; 5] =
    [PLOW_ANSWERS.info, MEMTABLE.info, LEVELS.info, PAIRING.info, BENEATH];

/// The configuration of plow.
pub fn plow(settings: &Settings, _: Geometry) -> Result<PlowConfig, IndexError> {
    let options = &settings.options;
    Ok(PlowConfig {
        durability: settings.durability,
        ram_bytes: settings.ram_bytes,
        memtable: MEMTABLE.of(options)?,
        levels: LEVELS.of(options)?,
        answers: PLOW_ANSWERS.of(options)?,
        ..PlowConfig::new(settings.record)
    })
}

const FURROW_RECORDS: Number<usize> = Number::new(
    option(
        "most_records",
        "what the RAM holds, 16384 without a limit",
        "most records, each with a place in RAM",
    ),
    (4, 1 << 24),
);
const PREFIX: Number<usize> = Number::new(
    option("prefix_bytes", "8, or 0 on a chip that appends", "first bytes of each key that are kept in RAM"),
    (0, 255),
);

pub(crate) const FURROW: [OptionInfo; 3] = [FURROW_RECORDS.info, PREFIX.info, BENEATH];

/// The configuration of furrow.
pub fn furrow(settings: &Settings, _: Geometry) -> Result<FurrowConfig, IndexError> {
    let options = &settings.options;
    Ok(FurrowConfig {
        durability: settings.durability,
        ram_bytes: settings.ram_bytes,
        records: FURROW_RECORDS.of(options)?,
        prefix_bytes: PREFIX.of(options)?,
        ..FurrowConfig::new(settings.record)
    })
}
