//! The trees whose updates wait on flash: B-epsilon-tree, FD-tree and LA-tree.

use super::{Choice, Number, Settings, pool};
use crate::names::{OptionInfo, option};
use nandex::IndexError;
use nandex::ordered::buffered::Answers;
use nandex_papers::ordered::bepsilon::BEpsilonConfig;
use nandex_papers::ordered::fd::FdConfig;
use nandex_papers::ordered::la::LaConfig;
use nandex_papers::ordered::messages::Common;

const ANSWERS: Choice<Answers> = Choice::new(
    "answers",
    "exact, or pool: what an update answers is what RAM knows, nothing is read for it",
    pool::ANSWER_WORDS,
);

const NODE_PAGES: Number<u32> =
    Number::new(option("node_pages", "for 4 KiB, 8 at most", "pages of a node, 1 to 64"), (1, 64));
const FANOUT: Number<u32> =
    Number::new(option("fanout", "16", "children of an inner node at most"), (4, 60_000));

pub(crate) const BEPSILON: [OptionInfo; 3] = [NODE_PAGES.info, FANOUT.info, ANSWERS.info];

pub(crate) const HEAD_ENTRIES: Number<u32> = Number::new(
    option("head_entries", "what its share holds, 2000 without a limit", "records of the head in RAM"),
    (1, 1 << 28),
);
const HEAD_PERCENT: Number<usize> = Number::new(
    option("head_percent", "50", "share of the RAM for head and page cache that the head gets, 1 to 99"),
    (1, 99),
);
const K: Number<u32> =
    Number::new(option("k", "0", "how many times larger each level is; 0: by the cost model"), (0, 10_000));
const INSERT_PERCENT: Number<u32> =
    Number::new(option("insert_percent", "50", "for the cost model: updates among all operations"), (0, 100));
const WRITE_COST_FD: Number<u32> = Number::new(
    option("write_cost", "3", "for the cost model: what a page write costs in page reads"),
    (0, 10_000),
);

pub(crate) const FD: [OptionInfo; 6] =
    [HEAD_ENTRIES.info, HEAD_PERCENT.info, K.info, INSERT_PERCENT.info, WRITE_COST_FD.info, ANSWERS.info];

const SUBTREE_LEVELS: Number<u32> =
    Number::new(option("subtree_levels", "2", "K: levels of a subtree, 1 to 8"), (1, 8));
const BUFFER_PAGES: Number<u32> = Number::new(
    option("buffer_pages", "64, or what its share can sort", "pages of a buffer at most, 1 to 1024"),
    (1, 1024),
);
const BUFFER_PERCENT: Number<usize> = Number::new(
    option(
        "buffer_percent",
        "50",
        "share of the RAM for buffers and page cache that the buffers get, 1 to 99",
    ),
    (1, 99),
);
const WRITE_COST_LA: Number<u32> =
    Number::new(option("write_cost", "3", "for ADAPT: what a page write costs in page reads"), (0, 10_000));

pub(crate) const LA: [OptionInfo; 5] =
    [SUBTREE_LEVELS.info, BUFFER_PAGES.info, BUFFER_PERCENT.info, WRITE_COST_LA.info, ANSWERS.info];

fn common(settings: &Settings) -> Result<Common, IndexError> {
    let answers = ANSWERS.of(&settings.options)?;
    Ok(Common { durability: settings.durability, answers, ..Common::new(settings.record) })
}

/// The configuration of the B-epsilon-tree.
pub fn bepsilon(settings: &Settings) -> Result<BEpsilonConfig, IndexError> {
    let default = BEpsilonConfig::new(settings.record);
    Ok(BEpsilonConfig {
        common: common(settings)?,
        node_pages: NODE_PAGES.of(&settings.options)?,
        fanout: FANOUT.or(&settings.options, default.fanout)?,
    })
}

/// The configuration of the FD-tree; `shared_bytes` is the RAM for head and page cache, if it is limited.
pub fn fd(settings: &Settings, shared_bytes: usize) -> Result<FdConfig, IndexError> {
    let options = &settings.options;
    let percent = HEAD_PERCENT.or(options, 50)?;
    let default = FdConfig::new(settings.record);
    let share =
        settings.ram_bytes.map(|_| FdConfig::head_entries_in(settings.record, shared_bytes / 100 * percent));
    Ok(FdConfig {
        head_entries: HEAD_ENTRIES.of(options)?.or(share).unwrap_or(default.head_entries),
        common: common(settings)?,
        k: K.or(options, default.k)?,
        insert_percent: INSERT_PERCENT.or(options, default.insert_percent)?,
        write_cost: WRITE_COST_FD.or(options, default.write_cost)?,
    })
}

/// The configuration of the LA-tree on pages of `page_bytes`; `shared_bytes` is the RAM for buffers and
/// page cache, if it is limited.
pub fn la(settings: &Settings, page_bytes: usize, shared_bytes: usize) -> Result<LaConfig, IndexError> {
    let options = &settings.options;
    let percent = BUFFER_PERCENT.or(options, 50)?;
    let mut config = LaConfig::new(settings.record);
    if settings.ram_bytes.is_some() {
        config = config.with_buffers_in(shared_bytes / 100 * percent, page_bytes);
    }
    Ok(LaConfig {
        common: common(settings)?,
        subtree_levels: SUBTREE_LEVELS.or(options, config.subtree_levels)?,
        buffer_pages: BUFFER_PAGES.or(options, config.buffer_pages)?,
        write_cost: WRITE_COST_LA.or(options, config.write_cost)?,
        ..config
    })
}
