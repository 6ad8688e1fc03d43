//! The trees with a pool of requests: the lazy-update B+-tree, the MB-tree and the PIO B-tree.

use super::{Choice, Number, Settings, bplus};
use crate::names::{OptionInfo, option};
use nandex::IndexError;
use nandex::index::most;
use nandex::ordered::buffered::Answers;
use nandex_papers::ordered::lazy_update::{CommitPolicy, LazyUpdateConfig, Pairs, PoolCount};
use nandex_papers::ordered::mb::MbConfig;
use nandex_papers::ordered::pio::PioConfig;

const COMMIT_POLICY: Choice<CommitPolicy> = Choice::new(
    "commit_policy",
    "which group leaves a full pool: biggest, cost, lru, fifo",
    &[
        (CommitPolicy::BiggestSize.name(), CommitPolicy::BiggestSize),
        (CommitPolicy::CostBased.name(), CommitPolicy::CostBased),
        (CommitPolicy::Lru.name(), CommitPolicy::Lru),
        (CommitPolicy::Fifo.name(), CommitPolicy::Fifo),
    ],
);

/// The words of every option `answers`.
pub(crate) const ANSWER_WORDS: &[(&str, Answers)] = &[("exact", Answers::Exact), ("pool", Answers::Pool)];

pub(crate) const ANSWERS: Choice<Answers> = Choice::new(
    "answers",
    "exact, or pool: what an update answers is what the pool knows, no leaf is read for it",
    ANSWER_WORDS,
);
const PERCENT: Number<usize> = Number::new(
    option("pool_percent", "50", "share of the RAM for pool and page cache that the pool gets, 1 to 99"),
    (1, 99),
);
pub(crate) const COUNT: Choice<PoolCount> = Choice::new(
    "pool_count",
    "what a request counts: held, all its bytes of RAM; record, key and value only",
    &[("held", PoolCount::Held), ("record", PoolCount::Record)],
);
const PAIRS: Choice<Pairs> = Choice::new(
    "pairs",
    "known, or published: opposite requests for one key cancel, for callers whose keys come back with the value they had",
    &[("known", Pairs::Known), ("published", Pairs::Published)],
);
const REQUESTS: Number<u32> = Number::new(
    option("pool_requests", "what its share holds, 64 without a limit", "requests of the pool"),
    (0, most::POOL_REQUESTS as u32),
);

/// Requests of a pool if RAM is not limited.
const UNLIMITED_REQUESTS: u32 = 64;

pub(crate) const LAZY_UPDATE: [OptionInfo; 6] =
    [COMMIT_POLICY.info, ANSWERS.info, PERCENT.info, COUNT.info, PAIRS.info, REQUESTS.info];

pub(crate) const POOL: [OptionInfo; 4] = [ANSWERS.info, PERCENT.info, COUNT.info, REQUESTS.info];

const LEAF_PAGES_MB: Number<usize> = Number::new(
    option("leaf_pages", "8", "pages of a leaf at most, 1 to 16, as the header has room for"),
    (1, 16),
);
const LEAF_SIZE: Choice<bool> = Choice::new(
    "leaf_size",
    "auto, each leaf has the pages that cost least; fixed, all may have leaf_pages",
    &[("auto", true), ("fixed", false)],
);
const WRITE_COST: Number<u32> = Number::new(
    option("write_cost", "3", "what a page write costs in page reads, for leaf_size = auto"),
    (1, 1000),
);

pub(crate) const MB: [OptionInfo; 4] =
    [bplus::ORDER.info, LEAF_PAGES_MB.info, LEAF_SIZE.info, WRITE_COST.info];

const LEAF_PAGES_PIO: Number<usize> =
    Number::new(option("leaf_pages", "4", "L: pages of a leaf, 2 to 16"), (2, 16));
const TOGETHER: Number<usize> = Number::new(
    option(
        "requests",
        "64, or an eighth of the RAM",
        "page requests that are submitted together at most, which channels overlap",
    ),
    (1, 256),
);

pub(crate) const PIO: [OptionInfo; 3] = [bplus::ORDER.info, LEAF_PAGES_PIO.info, TOGETHER.info];

/// The number of requests in a pool: the one set, or as many as its share of the RAM holds. It is at least
/// one, because a tree of a forest may have a share close to nothing.
fn requests(
    settings: &Settings,
    shared_bytes: usize,
    of_bytes: impl Fn(usize, PoolCount) -> u32,
) -> Result<u32, IndexError> {
    let options = &settings.options;
    let percent = PERCENT.or(options, 50)?;
    let count = COUNT.of(options)?;
    let share = (shared_bytes as u128 * percent as u128 / 100) as usize;
    let requests = match REQUESTS.of(options)? {
        Some(requests) => requests,
        None if settings.ram_bytes.is_none() => UNLIMITED_REQUESTS,
        None => of_bytes(share, count),
    };
    Ok(requests.max(1))
}

/// The configuration of the lazy-update tree. `shared_bytes` is the RAM for pool and page cache together;
/// the cache gets the rest after [`LazyUpdateConfig::pool_bytes`].
pub fn lazy_update(settings: &Settings, shared_bytes: usize) -> Result<LazyUpdateConfig, IndexError> {
    let options = &settings.options;
    let policy = COMMIT_POLICY.of(options)?;
    let of_bytes = |bytes, count| LazyUpdateConfig::requests_in(settings.record, policy, bytes, count);
    Ok(LazyUpdateConfig {
        tree: bplus::config(settings)?,
        pool_requests: requests(settings, shared_bytes, of_bytes)?,
        policy,
        answers: ANSWERS.of(options)?,
        pairs: PAIRS.of(options)?,
    })
}

/// The configuration of the MB-tree; `shared_bytes` as for [`lazy_update`].
pub fn mb(settings: &Settings, shared_bytes: usize) -> Result<MbConfig, IndexError> {
    let options = &settings.options;
    let of_bytes = |bytes, count| MbConfig::requests_in(settings.record, bytes, count);
    let default = MbConfig::new(settings.record, requests(settings, shared_bytes, of_bytes)?);
    let write_cost = WRITE_COST.or(options, 3)?;
    Ok(MbConfig {
        durability: settings.durability,
        order: bplus::ORDER.of(options)?,
        leaf_pages: LEAF_PAGES_MB.or(options, default.leaf_pages)?,
        write_cost: LEAF_SIZE.of(options)?.then_some(write_cost),
        answers: ANSWERS.of(options)?,
        ..default
    })
}

/// The configuration of the PIO B-tree on pages of `page_bytes`; `shared_bytes` as for [`lazy_update`].
pub fn pio(settings: &Settings, page_bytes: usize, shared_bytes: usize) -> Result<PioConfig, IndexError> {
    let options = &settings.options;
    let of_bytes = |bytes, count| PioConfig::requests_in(settings.record, bytes, count);
    let default = PioConfig::new(settings.record, requests(settings, shared_bytes, of_bytes)?);
    let of_ram = settings.ram_bytes.map(|ram| (ram / 8 / page_bytes.max(1)).clamp(4, default.requests));
    Ok(PioConfig {
        durability: settings.durability,
        order: bplus::ORDER.of(options)?,
        leaf_pages: LEAF_PAGES_PIO.or(options, default.leaf_pages)?,
        requests: TOGETHER.or(options, of_ram.unwrap_or(default.requests))?,
        answers: ANSWERS.of(options)?,
        ..default
    })
}
