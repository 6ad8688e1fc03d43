//! Options of the indexes for small embedded systems on raw flash: VMTree, VMTree-OW, SBITS and plow.

use super::BENEATH;
use crate::ftls;
use crate::names::{OptionInfo, option};

const LOG_PAGES: OptionInfo = option(
    "log_pages",
    "0",
    "pages of the log buffer: updates wait in it and are entered together, durable at every sync",
);

const ANSWERS: OptionInfo =
    option("answers", "exact", "with a log buffer: exact, or pool: what an update answers is what it knows");

/// Options of the VMTree.
pub(crate) const VM_OPTIONS: [OptionInfo; 10] = [
    option("mapping_bytes", "1024, or an eighth of the RAM", "bytes of the table of moved nodes"),
    LOG_PAGES,
    ANSWERS,
    option(
        "kept_nodes",
        "path",
        "nodes kept from one operation to the next: path, or three-buffers, as the authors' program",
    ),
    option(
        "mapping_duplicates",
        "never",
        "never, or as-published: entries of the table may be left behind, as in the authors' program",
    ),
    option("read_pages", "what the RAM leaves", "pages of the read cache"),
    ftls::VICTIM,
    option("collect_at_blocks", "2, or what an update may take", "collect garbage at so many free blocks"),
    option("checkpoint_blocks", "16", "blocks filled between two checkpoints"),
    BENEATH,
];

/// Options of the VMTree-OW.
pub(crate) const OVERWRITE_OPTIONS: [OptionInfo; 4] = [
    option("slots", "checked", "checked, or bare: the published page, in which flipped bits are not noticed"),
    LOG_PAGES,
    ANSWERS,
    option(
        "kept_nodes",
        "path",
        "nodes kept from one operation to the next: path, or three-buffers, as the authors' program",
    ),
];

/// Options of SBITS.
pub(crate) const SBITS_OPTIONS: [OptionInfo; 4] = [
    option("spline_points", "300, or what the RAM leaves", "points of the spline from keys to pages"),
    option("max_error", "1", "pages by which the spline may be wrong while its points suffice"),
    option("when_full", "refuse", "refuse an insertion, or drop-oldest: the oldest block of records goes"),
    BENEATH,
];

/// Options of plow.
pub(crate) const PLOW_OPTIONS: [OptionInfo; 4] = [
    option(
        "answers",
        "exact",
        "exact, or pool: what an update answers is what the memtable knows, nothing is read for it",
    ),
    option(
        "pool_requests",
        "what its share of the RAM holds, 5/8 of a page without a limit",
        "records of the memtable",
    ),
    option("levels", "as many as cost least, up to 3", "levels on flash, 1 to 3"),
    BENEATH,
];
