//! Which group leaves a full pool: the four commit policies as a rank of groups, the least first.

use core::cmp::Ordering;

/// The rank of a group: its price if the policy has prices, then its stamp. Two groups have the same stamp
/// only if they are halves of a divided one.
pub(super) type Rank = (Price, u64);

/// The rule that picks the group to commit when the pool is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitPolicy {
    /// FIFO: the group that came first.
    Fifo,
    /// LRU: the group that was hit least recently.
    Lru,
    /// The group with the most requests. Among equals, the one hit least recently.
    #[default]
    BiggestSize,
    /// The group with the fewest leaf writes per request. Among equals, the one hit least recently.
    CostBased,
}

impl CommitPolicy {
    /// All policies.
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

    /// The price by which a group of `size` requests is ranked. `leaves` is the number of leaves written,
    /// for *cost-based*. With *biggest size* the largest group is the cheapest; with *FIFO* and *LRU* all
    /// prices are equal.
    pub(super) const fn price(self, size: u32, leaves: u32) -> Price {
        debug_assert!(size > 0, "P4: an empty group has no price");
        match self {
            CommitPolicy::Fifo | CommitPolicy::Lru => Price { leaves: 0, size: 1 },
            CommitPolicy::BiggestSize => Price { leaves: 1, size },
            CommitPolicy::CostBased => Price { leaves, size },
        }
    }
}

/// The number of leaf pages written for each request of a group: H = gain / size in the paper.
#[derive(Clone, Copy, Debug)]
pub(super) struct Price {
    pub(super) leaves: u32,
    pub(super) size: u32,
}

/// Number of leaves,
/// D
/// , written by a commit after which a leaf would have `entries` entries.
pub(super) fn leaves_written(entries: i64, (least, most): (usize, usize)) -> u32 {
    debug_assert!(least <= most, "P6: a leaf can never be full enough");
    let entries = entries.max(0) as usize;
    match entries {
        _ if entries > most => entries.div_ceil(most) as u32,
        _ if entries < least => 2,
        _ => 1,
    }
}

/// Compares without rounding: a/b and c/d as ad and cb.
impl Ord for Price {
    fn cmp(&self, other: &Price) -> Ordering {
        let product = |a: u32, b: u32| u64::from(a) * u64::from(b);
        product(self.leaves, other.size).cmp(&product(other.leaves, self.size))
    }
}

impl PartialOrd for Price {
    fn partial_cmp(&self, other: &Price) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Price {
    fn eq(&self, other: &Price) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Price {}
