//! The page cache between a tree and its FTL, and the option that names the FTL.

use super::{Choice, Number, OptionError, Options};
use crate::names::{OptionInfo, option};
use nandex_papers::cache::PolicyConfig;
use nandex_papers::cache::catalogue::{self, PolicyEntry};

pub(crate) const FTL: OptionInfo = option("ftl", "page-map", "the FTL below (nandex list ftls)");

const CACHE: OptionInfo =
    option("cache", "lru", "the replacement policy of the page cache (nandex list policies)");
const PAGES: Number<usize> =
    Number::new(option("cache_pages", "what the RAM leaves", "frames of the page cache"), (0, usize::MAX));
const WINDOW: Number<u32> = Number::new(
    option(
        "cache_window",
        "the policy's own",
        "percent of the frames from which clean or clustered pages go first",
    ),
    (0, 100),
);
const WRITES: Choice<bool> = Choice::new(
    "cache_writes",
    "where writes wait, dirty pages leave together, as one atomic group if the FTL takes it, or alone, as \
     the policies were published",
    &[("together", false), ("alone", true)],
);
const WRITE_COST: Number<u64> = Number::new(
    option("cache_write_cost", "10", "what a page write costs in page reads, for policies that weigh them"),
    (0, 1_000_000),
);

pub(crate) const OPTIONS: [OptionInfo; 6] =
    [FTL, CACHE, PAGES.info, WINDOW.info, WRITES.info, WRITE_COST.info];

pub(crate) fn ftl(options: &Options) -> &str {
    options.text(FTL.name).unwrap_or(FTL.default)
}

pub(crate) fn policy(options: &Options) -> Result<&'static PolicyEntry, OptionError> {
    let name = options.text(CACHE.name).unwrap_or(CACHE.default);
    catalogue::policy(name).ok_or_else(|| {
        let names: Vec<&str> = catalogue::POLICIES.iter().map(|entry| entry.name).collect();
        OptionError::new(CACHE.name, name, format!("is none of {}", names.join(", ")))
    })
}

/// The policy's settings; the number of frames is not determined yet.
pub(crate) fn sizing(options: &Options, block_pages: u32) -> Result<PolicyConfig, OptionError> {
    let none = PolicyConfig::new(0);
    let window_percent = WINDOW.of(options)?;
    let write_cost = WRITE_COST.or(options, none.write_cost)?;
    Ok(PolicyConfig { block_pages, window_percent, write_cost, ..none })
}

/// The number of frames set, if any; more than the store has pages is refused, since a cache has no use for
/// them.
pub(crate) fn frames(options: &Options, pages: u32) -> Result<Option<usize>, OptionError> {
    PAGES.up_to(options, pages as usize)
}

pub(crate) fn writes_alone(options: &Options) -> Result<bool, OptionError> {
    WRITES.of(options)
}
