//! The trees over a cluster layer: AS B-tree, CB-tree and FB-tree.

use super::{Number, Settings, bplus};
use crate::names::{OptionInfo, option};
use nandex::IndexError;
use nandex_papers::ordered::clustered::{self, ClusteredConfig};

const fn batch_nodes(default: &'static str, help: &'static str) -> Number<u32> {
    Number::new(option("batch_nodes", default, help), (1, 65_536))
}

const fn segment_pages(default: &'static str, help: &'static str) -> Number<u32> {
    Number::new(option("segment_pages", default, help), (1, 1 << 24))
}

const AS_NODES: Number<u32> = batch_nodes(
    "64, or fewer",
    "W: modified nodes that wait in RAM before all are written; fewer where RAM or store are small",
);
const CB_NODES: Number<u32> = batch_nodes(
    "16, or fewer",
    "W: modified nodes of a level that wait before it is written; fewer where RAM or store are small",
);
const FB_NODES: Number<u32> = batch_nodes(
    "64, or fewer",
    "modified nodes that wait in RAM before some are written; fewer where RAM or store are small",
);
const AS_PAGES: Number<u32> =
    segment_pages("1 MiB", "pages of a segment of the ring; a sixteenth of the store at most");
const CB_PAGES: Number<u32> = segment_pages("batch_nodes", "free pages in a run that a batch looks for");
const FB_PAGES: Number<u32> =
    segment_pages("16", "nodes that are written together, and free pages in a run that they look for");
const PERCENT: Number<usize> = Number::new(
    option("batch_percent", "50", "share of the RAM for batch and page cache that the batch gets, 1 to 99"),
    (1, 99),
);
const RECYCLE_PERCENT: Number<u8> = Number::new(
    option(
        "recycle_percent",
        "50",
        "the oldest segment is recycled if less of its pages in percent are live, even where there is room",
    ),
    (0, 100),
);
const SPACE_PERCENT: Number<u8> =
    Number::new(option("space_percent", "50", "pages in percent that nodes may take, 10 to 75"), (10, 75));
const CHECKPOINTS: Number<u32> = Number::new(
    option("checkpoint_flushes", "64", "batches from one checkpoint, or superblock, to the next"),
    (1, u32::MAX),
);

pub(crate) const AS_BTREE: [OptionInfo; 6] =
    [AS_NODES.info, PERCENT.info, AS_PAGES.info, RECYCLE_PERCENT.info, SPACE_PERCENT.info, CHECKPOINTS.info];
pub(crate) const CB_TREE: [OptionInfo; 5] =
    [CB_NODES.info, PERCENT.info, CB_PAGES.info, SPACE_PERCENT.info, CHECKPOINTS.info];
pub(crate) const FB_TREE: [OptionInfo; 5] =
    [FB_NODES.info, PERCENT.info, FB_PAGES.info, SPACE_PERCENT.info, CHECKPOINTS.info];

/// Percentage of the shared RAM that the batch gets; the page cache gets the rest. A written node is soon
/// read again, so a batch without a cache costs more reads than it saves writes.
const BATCH_PERCENT: usize = 50;

/// Applies the common settings. If RAM is limited, the batch takes its share of the shared bytes.
fn common(
    default: ClusteredConfig,
    settings: &Settings,
    shared_bytes: Option<(usize, usize)>,
) -> Result<ClusteredConfig, IndexError> {
    let options = &settings.options;
    let mut config = default;
    config.tree = bplus::config(settings)?;
    config.tree.overflow = default.tree.overflow;
    config.tree.underflow = default.tree.underflow;
    let percent = PERCENT.or(options, BATCH_PERCENT)?;
    if let Some((bytes, page_bytes)) = shared_bytes {
        config = config.with_batch_in(bytes / 100 * percent, page_bytes);
    }
    // Names and bounds are the same for all three.
    config.batch_nodes = AS_NODES.of(options)?;
    config.segment_pages = AS_PAGES.of(options)?.or(default.segment_pages);
    config.recycle_percent = RECYCLE_PERCENT.or(options, default.recycle_percent)?;
    config.space_percent = SPACE_PERCENT.or(options, default.space_percent)?;
    config.checkpoint_flushes = CHECKPOINTS.or(options, default.checkpoint_flushes)?;
    Ok(config)
}

/// The configuration of the AS B-tree. If RAM is limited, `shared_bytes` has the RAM that batch and page
/// cache share and the page size, both in bytes.
pub fn as_btree(
    settings: &Settings,
    shared_bytes: Option<(usize, usize)>,
) -> Result<ClusteredConfig, IndexError> {
    common(clustered::as_btree::config(settings.record), settings, shared_bytes)
}

/// The configuration of the CB-tree; `shared_bytes` as for [`as_btree`].
pub fn cb_tree(
    settings: &Settings,
    shared_bytes: Option<(usize, usize)>,
) -> Result<ClusteredConfig, IndexError> {
    common(clustered::cb_tree::config(settings.record), settings, shared_bytes)
}

/// The configuration of the FB-tree; `shared_bytes` as for [`as_btree`].
pub fn fb_tree(
    settings: &Settings,
    shared_bytes: Option<(usize, usize)>,
) -> Result<ClusteredConfig, IndexError> {
    common(clustered::fb_tree::config(settings.record), settings, shared_bytes)
}
