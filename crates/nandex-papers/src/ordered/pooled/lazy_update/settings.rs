//! How a lazy-update B+-tree is set up, and how one RAM budget is divided between its pool and the page cache
//! below.

use super::policy::CommitPolicy;
use super::pool::Pool;
use alloc::format;
use nandex::check::{IndexError, message};
use nandex::ordered::bplus::BPlusConfig;
use nandex::ordered::buffered::Answers;
use nandex::ordered::{Durability, RecordFormat};

/// The bytes that a request counts for when the RAM is divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PoolCount {
    /// All bytes that a request takes: record, state, order, and a group of its own.
    #[default]
    Held,
    /// Key and value only, as the paper counts.
    Record,
}

/// Which requests of a key cancel each other in the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pairs {
    /// An insertion and a later removal, if the tree is known not to have the key. Always correct.
    #[default]
    Known,
    /// An insertion and a removal in any order (Section III). Correct only for callers who insert only
    /// absent keys, remove only present keys, and put back the value that was removed.
    Published,
}

/// The settings of a lazy-update B+-tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LazyUpdateConfig {
    /// The settings of the tree below. Its durability must be *none*.
    pub tree: BPlusConfig,
    /// Number of requests that the pool holds, at least 1.
    pub pool_requests: u32,
    /// The rule that picks the group to leave a full pool.
    pub policy: CommitPolicy,
    /// The exactness of the answers of insertions and removals.
    pub answers: Answers,
    /// The requests of a key that cancel. Below a journal only [`Pairs::Known`] is allowed: a replay after
    /// a cut may insert a key that the tree already has.
    pub pairs: Pairs,
}

impl LazyUpdateConfig {
    /// Settings with a pool of `pool_requests` requests, policy *biggest size*, exact answers.
    pub const fn new(record: RecordFormat, pool_requests: u32) -> LazyUpdateConfig {
        LazyUpdateConfig {
            tree: BPlusConfig::new(record).with_durability(Durability::None),
            pool_requests,
            policy: CommitPolicy::BiggestSize,
            answers: Answers::Exact,
            pairs: Pairs::Known,
        }
    }

    /// Number of requests of a pool that takes at most `bytes` bytes of RAM.
    pub fn requests_in(record: RecordFormat, policy: CommitPolicy, bytes: usize, count: PoolCount) -> u32 {
        requests_in(record, policy, bytes, (count, true))
    }

    /// The settings of the pool alone.
    pub(super) const fn pool(&self) -> PoolSetup {
        let LazyUpdateConfig { pool_requests: requests, policy, answers, pairs, .. } = *self;
        PoolSetup { requests, policy, answers, pairs }
    }

    /// Bytes of RAM that the pool takes, by this way of counting.
    pub const fn pool_bytes(&self, count: PoolCount) -> usize {
        match count {
            PoolCount::Held => Pool::ram_bytes(self.tree.record, &self.pool(), true),
            PoolCount::Record => self.pool_requests as usize * self.tree.record.entry_bytes(),
        }
    }

    /// These settings in the class *none*, as published. A journal above can give a higher class.
    #[must_use]
    pub const fn published(self) -> LazyUpdateConfig {
        LazyUpdateConfig { tree: self.tree.with_durability(Durability::None), ..self }
    }

    /// Refuses settings that cannot work below a journal.
    pub(super) fn validate_below_journal(&self) -> Result<(), IndexError> {
        if self.pairs == Pairs::Known {
            return Ok(());
        }
        Err(IndexError::Unsupported(
            "pairs 'published' below a journal, which after a cut hands updates to the pool that the tree may know: 'known' is possible".into()))
    }

    /// Refuses settings that cannot work.
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

/// The settings of a pool above any tree.
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

/// Number of requests of a pool that takes at most `bytes` bytes of RAM. A request counts with all its
/// bytes or with its record only.
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
