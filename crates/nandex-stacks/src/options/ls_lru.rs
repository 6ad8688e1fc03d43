//! Options of the LS-LRU tree.

use super::{Choice, Number, Settings, bplus, pool};
use crate::names::{OptionInfo, option};
use nandex::IndexError;
use nandex::index::most;
use nandex::ordered::bplus::Underflow;
use nandex_papers::ordered::ls_lru::{CommitPolicy, Inner, LeafSplit, LsLruConfig, UnitRam};

const BUFFER_BYTES: Number<usize> = Number::new(
    option("buffer_bytes", "what the RAM leaves, 64 pages without a limit", "RAM of the B+-buffer"),
    (0, most::BUFFER_BYTES as usize),
);
const WINDOW_PERCENT: Number<u8> = Number::new(
    option("window_percent", "50", "w: the cold region's share of the buffer, 0 to 100"),
    (0, 100),
);
const SPLIT_FACTOR: Number<u32> = Number::new(
    option(
        "split_factor",
        "3",
        "k: a dirty part of k leaves of entries is committed by a multi-split, 2 to 15",
    ),
    (0, 15),
);
const COMMIT_ENTRIES: Number<u32> = Number::new(
    option("commit_entries", "what a page holds", "L: entries that a write-minimized commit frees at least"),
    (0, u32::MAX),
);
const FULL_MERGE_EVERY: Number<u64> = Number::new(
    option("full_merge_every", "0", "updates between two full merge commits; 0: only a sync makes one"),
    (0, u32::MAX as u64),
);
const INNER: Choice<Inner> = Choice::new(
    "inner",
    "kept: inner nodes leave the buffer last; units: they age and leave as the units of leaves do",
    &[("kept", Inner::Kept), ("units", Inner::Units)],
);
const COMMIT: Choice<CommitPolicy> = Choice::new(
    "commit",
    "dirty units that leave a full buffer: write-minimized, first-associated, exact-fit",
    &[
        ("write-minimized", CommitPolicy::WriteMinimized),
        ("first-associated", CommitPolicy::FirstAssociated),
        ("exact-fit", CommitPolicy::ExactFit),
    ],
);
const SPLIT: Choice<LeafSplit> = Choice::new(
    "split",
    "a leaf and more changes than it holds become: multi, as many leaves as it takes at once; two-nodes, two at a time",
    &[("multi", LeafSplit::Multi), ("two-nodes", LeafSplit::TwoNodes)],
);
const COALESCE: Choice<Underflow> = Choice::new(
    "coalesce",
    "leaves less than half full: eager, mended; lazy, left until they are empty or the store is nearly full",
    &[("eager", Underflow::Merge), ("lazy", Underflow::ExpelLeaves)],
);
const RAM: Choice<UnitRam> = Choice::new(
    "ram",
    "what a unit counts in the budget: held, all its bytes; record, the paper's records",
    &[("held", UnitRam::Held), ("record", UnitRam::Record)],
);

pub(crate) const OPTIONS: [OptionInfo; 11] = [
    BUFFER_BYTES.info,
    WINDOW_PERCENT.info,
    SPLIT_FACTOR.info,
    COMMIT_ENTRIES.info,
    FULL_MERGE_EVERY.info,
    pool::ANSWERS.info,
    INNER.info,
    COMMIT.info,
    SPLIT.info,
    COALESCE.info,
    RAM.info,
];

/// Pages of the B+-buffer if RAM is not limited.
const BUFFER_PAGES: usize = 64;

/// The configuration of the tree on pages of `page_bytes`. `shared_bytes` is the RAM for buffers and
/// caches. This buffer gets all of it, because a page cache below would hold the same nodes.
pub fn config(
    settings: &Settings,
    page_bytes: usize,
    shared_bytes: usize,
) -> Result<LsLruConfig, IndexError> {
    let options = &settings.options;
    let usual = match settings.ram_bytes {
        None => BUFFER_PAGES * page_bytes,
        Some(_) => shared_bytes,
    };
    let underflow = COALESCE.of(options)?;
    let mut tree = bplus::config(settings)?;
    tree.underflow = underflow;
    // A tree of a forest whose share is next to nothing.
    let least = LsLruConfig::buffer_bytes_min(settings.record, page_bytes);
    let default = LsLruConfig::new(settings.record, usual);
    Ok(LsLruConfig {
        tree,
        buffer_bytes: BUFFER_BYTES.or(options, usual)?.max(least),
        window_percent: WINDOW_PERCENT.or(options, default.window_percent)?,
        split_factor: SPLIT_FACTOR.or(options, default.split_factor)?,
        commit_entries: COMMIT_ENTRIES.or(options, default.commit_entries)?,
        full_merge_every: FULL_MERGE_EVERY.or(options, default.full_merge_every)?,
        answers: pool::ANSWERS.of(options)?,
        inner: INNER.of(options)?,
        commit: COMMIT.of(options)?,
        split: SPLIT.of(options)?,
        ram: RAM.of(options)?,
    })
}
