//! Options of the trees on raw NAND, as the registry lists them.

use crate::names::{OptionInfo, option, union_of};
use crate::{ftls, stack};

/// Options that mu-Tree, mu*-Tree and wandering tree take.
const RAW_OPTIONS: &[OptionInfo] = &[
    option("read_pages", "what the RAM leaves", "pages of the read part of the cache"),
    option("write_pages", "0, or half of them when syncs suffice", "pages of the write part of the cache"),
    ftls::VICTIM,
    option("collect_at_blocks", "2", "collect garbage while at most this many blocks are free"),
    option("checkpoint_blocks", "16", "blocks filled between two checkpoints"),
    stack::BENEATH,
];

/// The option of the mu-Tree and the mu*-Tree besides.
const SAME_PAGE: OptionInfo = option(
    "same_page",
    "free",
    "what a child costs that lies in its parent's page: free, nothing; read, a read as any other",
);

const PLACEMENT: OptionInfo = option(
    "placement",
    "out_of_place",
    "out_of_place, block after block; in_place, over the page that held the leaf, through the FTL beneath, without trims",
);

pub(crate) const MU_OPTIONS: &[OptionInfo] = union_of!(*RAW_OPTIONS, [SAME_PAGE, PLACEMENT]);

pub(crate) const MU_STAR_OPTIONS: &[OptionInfo] = union_of!(
    *RAW_OPTIONS,
    [
        SAME_PAGE,
        PLACEMENT,
        option(
            "layout",
            "adaptive",
            "the leaf's share of a page: adaptive, 1/2 (the mu-Tree's), 5/8, 3/4, 7/8"
        ),
        option("read_ns", "165600", "time of a page read that the choice of a layout reckons with"),
        option("program_ns", "905800", "the same of a page program"),
        option("erase_ns", "1500000", "the same of a block erase"),
    ]
);

pub(crate) const IPL_OPTIONS: &[OptionInfo] = union_of!(
    *IPL_COMMON,
    [
        option(
            "log_unit",
            "auto",
            "auto, sector (512 bytes, by partial programs, where the part takes them; in place always), page",
        ),
        option("log_pages", "a 16th of the block", "pages of a block's log region"),
    ]
);

pub(crate) const DIPL_OPTIONS: &[OptionInfo] = union_of!(
    *IPL_COMMON,
    [
        option(
            "log_unit",
            "page; in place sector",
            "page, sector (512 bytes, by partial programs or in place)"
        ),
        option("nodes_max", "five eighths of a block", "nodes of a block that a merge keeps together"),
        option("rewrite_units", "4", "log units after which a node is written anew in its block; 0: never"),
    ]
);

/// Options of both forms of in-page logging.
const IPL_COMMON: &[OptionInfo] = &[
    option("order", "what the page holds", "entries of a node at most, 4 or more"),
    option("read_pages", "what the RAM leaves", "pages of the read cache"),
    option("log_bytes", "a quarter of what the RAM leaves", "bytes of the log records that wait in RAM"),
    option("checkpoint_blocks", "16, or a 16th of the chip", "blocks opened between two checkpoints"),
    option(
        "placement",
        "out_of_place",
        "out_of_place, to fresh blocks; in_place, nodes and log pages written over, through the FTL beneath, without trims",
    ),
    stack::BENEATH,
];

pub(crate) const WANDERING_OPTIONS: &[OptionInfo] = union_of!(
    *RAW_OPTIONS,
    [
        option(
            "journal",
            "0",
            "leaves that may move before the nodes above them are written (JFFS3's journal tree)",
        ),
        option(
            "write_part",
            "operation",
            "when the write part is programmed: operation, between operations; strict, before it would hold more \
             than write_pages; lenient, one page later",
        ),
    ]
);
