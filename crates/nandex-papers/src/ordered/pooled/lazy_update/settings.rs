//! How a lazy-update B+-tree is set up, and how one RAM budget is divided between its pool and the page cache
//! below.

use super::policy::CommitPolicy;
use super::pool::Pool;
use alloc::format;
use nandex::check::{IndexError, message};
use nandex::ordered::bplus::BPlusConfig;
use nandex::ordered::buffered::Answers;
use nandex::ordered::{Durability, RecordFormat};

/// How much RAM a request of the pool is counted with when the RAM is divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PoolCount {
    /// All it takes: record, state, order, and a group of its own.
    #[default]
    Held,
    /// Key and value, as the paper counts.
    Record,
}

/// Which requests for one key cancel when they meet in the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pairs {
    /// An insertion and the removal that follows, if the tree is known to be without the key: right whatever
    /// the caller does.
    #[default]
    Known,
    /// An insertion and a removal, either first (Section III). Right for callers who insert only keys that
    /// are absent, remove only keys that are there, and put back the value that was removed.
    Published,
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
    /// The answer of an insertion or a removal.
    pub answers: Answers,
    /// Which requests for one key cancel. A journal above the tree takes *known* alone: replayed after a cut,
    /// an insertion may meet its own key in the tree.
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

    /// Requests of a pool that takes at most `bytes`, each counted so.
    pub fn requests_in(record: RecordFormat, policy: CommitPolicy, bytes: usize, count: PoolCount) -> u32 {
        requests_in(record, policy, bytes, (count, true))
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

    /// This configuration in the class *none*, as published; a journal gives more above it.
    #[must_use]
    pub const fn published(self) -> LazyUpdateConfig {
        LazyUpdateConfig { tree: self.tree.with_durability(Durability::None), ..self }
    }

    /// Refuses what cannot work below a journal.
    pub(super) fn validate_below_journal(&self) -> Result<(), IndexError> {
        if self.pairs == Pairs::Known {
            return Ok(());
        }
        Err(IndexError::Unsupported(
            "pairs 'published' below a journal, which after a cut hands updates to the pool that the tree may know: 'known' is possible".into()))
    }

    /// Refuses what cannot work.
    pub(super) fn validate(&self) -> Result<(), IndexError> {
        self.pool().validate()?;
        self.tree.require_for_groups()?;
        if self.tree.durability == Durability::None {
            return Ok(());
        }
        Err(IndexError::unsupported(message!(
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
        Err(IndexError::Unsupported(
            format!("a pool of {} requests: 1 to {most} are possible", self.requests).into(),
        ))
    }
}

/// Requests of a pool that takes at most `bytes`, each with all its bytes of RAM or with its record only.
pub(in crate::ordered) fn requests_in(
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
