//! How a lazy-update B+-tree is set up, and how one RAM budget is divided between its pool and the page cache below.

use super::policy::CommitPolicy;
use super::pool::Pool;
use crate::check::IndexError;
use crate::check::message;
use crate::index::most;
use crate::ordered::bplus::BPlusConfig;
use crate::ordered::buffered::Answers;
use crate::ordered::{Durability, Options, RecordFormat, Settings};
use alloc::string::String;

/// Options that the tree takes besides those of the B+-tree: name and meaning.
pub const OPTIONS: [(&str, &str); 6] = [
    ("commit_policy", "which group leaves a full pool: biggest (default), cost, lru, fifo"),
    (
        "answers",
        "exact (default), or pool: what an update answers is what the pool knows, no leaf is read for it",
    ),
    ("pool_percent", "share of the RAM for pool and page cache that the pool gets, 1 to 99 (default 50)"),
    (
        "pool_count",
        "held (default): a request counts with all its bytes of RAM; record: with key and value only",
    ),
    (
        "pairs",
        "an insertion and a removal of one key that meet in the pool; known (default): they leave it if the tree is known to be \
         without the key; published: always, for callers who insert only what is absent, remove only what is there and put back the \
         value removed",
    ),
    ("pool_requests", "requests of the pool (default: what its share of the RAM holds)"),
];

/// How much RAM a request of the pool is counted with when the RAM is divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PoolCount {
    /// All it takes: record, state, order, and a group of its own.
    #[default]
    Held,
    /// Key and value, as the paper counts.
    Record,
}

impl PoolCount {
    /// What the option `pool_count` says.
    pub fn from_options(options: &Options) -> Result<PoolCount, IndexError> {
        Ok(match options.choice("pool_count", &["held", "record"])? {
            "record" => PoolCount::Record,
            _ => PoolCount::Held,
        })
    }
}

/// Which requests for one key cancel when they meet in the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pairs {
    /// An insertion and the removal that follows, if the tree is known to be without the key: right whatever the caller does.
    #[default]
    Known,
    /// An insertion and a removal, either first (Section III). Right for callers who insert only keys that are absent, remove only
    /// keys that are there, and put back the value that was removed.
    Published,
}

impl Pairs {
    /// What the option `pairs` says.
    pub fn from_options(options: &Options) -> Result<Pairs, IndexError> {
        Ok(match options.choice("pairs", &["known", "published"])? {
            "published" => Pairs::Published,
            _ => Pairs::Known,
        })
    }
}

/// How a lazy-update B+-tree is formatted and mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LazyUpdateConfig {
    /// The tree below. Its durability must be *none*.
    pub tree: BPlusConfig,
    /// Requests that the pool holds, 1 or more.
    pub pool_requests: u32,
    /// Which group leaves a full pool.
    pub policy: CommitPolicy,
    /// What an insertion or a removal answers.
    pub answers: Answers,
    /// Which requests for one key cancel. A journal above the tree takes *known* alone: replayed after a cut, an insertion may
    /// meet its own key in the tree.
    pub pairs: Pairs,
}

impl LazyUpdateConfig {
    /// A pool of so many requests, *biggest size*, exact answers.
    pub const fn new(record: RecordFormat, pool_requests: u32) -> LazyUpdateConfig {
        LazyUpdateConfig {
            tree: BPlusConfig::new(record).with_durability(Durability::None),
            pool_requests,
            policy: CommitPolicy::BiggestSize,
            answers: Answers::Exact,
            pairs: Pairs::Known,
        }
    }

    /// From settings, with the [`OPTIONS`]. `shared_bytes` is the RAM for the pool and the page cache together; the cache
    /// gets what [`LazyUpdateConfig::pool_bytes`] leaves of it.
    pub fn from_settings(settings: &Settings, shared_bytes: usize) -> Result<LazyUpdateConfig, IndexError> {
        let options = &settings.options;
        let policy = CommitPolicy::from_options(options, "commit_policy")?;
        let pool_requests = pool_requests(settings, policy, shared_bytes, true)?;
        Ok(LazyUpdateConfig {
            tree: BPlusConfig::from_settings(settings)?,
            pool_requests,
            policy,
            answers: Answers::from_options(options)?,
            pairs: Pairs::from_options(options)?,
        })
    }

    /// The pool alone.
    pub(super) const fn pool(&self) -> PoolSetup {
        let LazyUpdateConfig { pool_requests: requests, policy, answers, pairs, .. } = *self;
        PoolSetup { requests, policy, answers, pairs }
    }

    /// Bytes of RAM that the pool takes, counted so.
    pub const fn pool_bytes(&self, count: PoolCount) -> usize {
        match count {
            PoolCount::Held => Pool::ram_bytes(self.tree.record, &self.pool(), true),
            PoolCount::Record => self.pool_requests as usize * self.tree.record.entry_bytes(),
        }
    }

    /// The same in the class *none*, as published; a journal gives more above it.
    #[must_use]
    pub const fn published(self) -> LazyUpdateConfig {
        LazyUpdateConfig { tree: self.tree.with_durability(Durability::None), ..self }
    }

    /// Refuses what cannot work below a journal.
    pub(super) fn validate_below_journal(&self) -> Result<(), IndexError> {
        if self.pairs == Pairs::Known {
            return Ok(());
        }
        Err(IndexError::Unsupported(String::from(
            "pairs 'published' below a journal, which after a cut hands updates to the pool that the tree may know: 'known' is possible",
        )))
    }

    /// Refuses what cannot work.
    pub(super) fn validate(&self) -> Result<(), IndexError> {
        self.pool().validate()?;
        self.tree.require_for_groups()?;
        if self.tree.durability == Durability::None {
            return Ok(());
        }
        Err(IndexError::Unsupported(message!(
            "durability '{}' is wanted, but a lazy-update B+-tree gives 'none' without a journal: a power cut loses the \
             requests in its pool, and groups committed after the last sync stay without others that came before them",
            self.tree.durability.name()
        )))
    }
}

/// A pool above any tree.
#[derive(Clone, Copy, Debug)]
pub(in crate::ordered) struct PoolSetup {
    pub(in crate::ordered) requests: u32,
    pub(in crate::ordered) policy: CommitPolicy,
    pub(in crate::ordered) answers: Answers,
    pub(in crate::ordered) pairs: Pairs,
}

impl PoolSetup {
    pub(in crate::ordered) fn validate(&self) -> Result<(), IndexError> {
        // The tables of slots number them in 32 bits, one number meaning none.
        let most = u32::MAX - 8;
        if (1..=most).contains(&self.requests) {
            return Ok(());
        }
        Err(IndexError::Unsupported(message!(
            "a pool of {} requests: 1 to {most} are possible",
            self.requests
        )))
    }
}

/// Requests of the pool that settings ask for, given the RAM of pool and page cache together.
pub(in crate::ordered) fn pool_requests(
    settings: &Settings,
    policy: CommitPolicy,
    shared_bytes: usize,
    by_leaf: bool,
) -> Result<u32, IndexError> {
    let options = &settings.options;
    let percent = options.number("pool_percent", 1..=99)?.unwrap_or(50);
    let count = PoolCount::from_options(options)?;
    let share = (shared_bytes as u128 * u128::from(percent) / 100) as usize;
    Ok(match options.number("pool_requests", 0..=most::POOL_REQUESTS)? {
        Some(requests) => requests as u32,
        None => requests_in(settings.record, policy, share, (count, by_leaf)),
    })
}

/// Requests of a pool that takes at most `bytes`, each with all its bytes of RAM or with its record only.
fn requests_in(
    record: RecordFormat,
    policy: CommitPolicy,
    bytes: usize,
    (count, by_leaf): (PoolCount, bool),
) -> u32 {
    let setup = |requests| PoolSetup { requests, policy, answers: Answers::Exact, pairs: Pairs::Known };
    let requests = match count {
        PoolCount::Record => bytes / record.entry_bytes(),
        PoolCount::Held => {
            let none = Pool::ram_bytes(record, &setup(0), by_leaf);
            bytes.saturating_sub(none) / (Pool::ram_bytes(record, &setup(1), by_leaf) - none)
        }
    };
    requests.min(u32::MAX as usize - 8) as u32
}
