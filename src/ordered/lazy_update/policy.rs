//! Which group leaves a full pool: the four commit policies as a rank of groups, the least first.

use crate::check::IndexError;
use crate::ordered::Options;
use core::cmp::Reverse;

/// The rank of a group: first how large it is, where that counts, then its stamp. No two groups have the same stamp but
/// the two halves of one that was divided.
pub(super) type Rank = (Reverse<u32>, u64);

/// How a full pool chooses the group that is committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitPolicy {
    /// The group that came first.
    Fifo,
    /// The group that was hit least recently.
    Lru,
    /// The group with the most requests; of equals the least recently hit.
    #[default]
    BiggestSize,
    /// The group with the fewest leaf writes per request; of equals the least recently hit. Reads leaves to know.
    CostBased,
}

impl CommitPolicy {
    /// All of them.
    pub const ALL: [CommitPolicy; 4] =
        [CommitPolicy::BiggestSize, CommitPolicy::CostBased, CommitPolicy::Lru, CommitPolicy::Fifo];

    /// The name used in settings and results.
    pub const fn name(self) -> &'static str {
        match self {
            CommitPolicy::Fifo => "fifo",
            CommitPolicy::Lru => "lru",
            CommitPolicy::BiggestSize => "biggest",
            CommitPolicy::CostBased => "cost",
        }
    }

    /// The policy that an option names; *biggest size* if it is not set.
    pub fn from_options(options: &Options, name: &str) -> Result<CommitPolicy, IndexError> {
        let word = options.choice(name, &CommitPolicy::ALL.map(CommitPolicy::name))?;
        Ok(CommitPolicy::ALL.into_iter().find(|policy| policy.name() == word).unwrap_or_default())
    }

    /// The rank of a group of this size and stamp. For *cost-based* it is the order of the visits.
    pub(super) fn rank(self, size: u32, stamp: u64) -> Rank {
        match self {
            CommitPolicy::Fifo | CommitPolicy::Lru => (Reverse(0), stamp),
            CommitPolicy::BiggestSize | CommitPolicy::CostBased => (Reverse(size), stamp),
        }
    }
}

/// The price of a group: leaf pages written for each request, H = gain / size in the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Price {
    pub(super) leaves: u32,
    pub(super) size: u32,
}

impl Price {
    /// The price of committing `size` requests to a leaf that has `entries` entries after them: its |D| leaves.
    pub(super) fn of(size: u32, entries: usize, (least, most): (usize, usize)) -> Price {
        let leaves = match entries {
            _ if entries > most => entries.div_ceil(most) as u32,
            _ if entries < least => 2,
            _ => 1,
        };
        Price { leaves, size }
    }

    /// The least that a group of this size can cost.
    pub(super) fn least(size: u32) -> Price {
        Price { leaves: 1, size }
    }

    /// Its order against another, exact: a/b against c/d as ad against cb.
    pub(super) fn order(self, other: Price) -> core::cmp::Ordering {
        let (a, b) =
            (u64::from(self.leaves) * u64::from(other.size), u64::from(other.leaves) * u64::from(self.size));
        a.cmp(&b)
    }
}
