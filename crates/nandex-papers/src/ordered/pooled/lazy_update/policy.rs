//! Which group leaves a full pool: the four commit policies as a rank of groups, the least first.

use core::cmp::Ordering;

/// The rank of a group: its price, where that counts, then its stamp. No two groups have the same stamp but
/// the two halves of one that was divided.
pub(super) type Rank = (Price, u64);

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
    /// The group with the fewest leaf writes per request; of equals the least recently hit.
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

    /// The price that groups of this size are ranked by, for *cost-based* if it writes so many leaves. The
    /// largest group is the cheapest by *biggest size*, and all cost the same where only the stamp counts.
    pub(super) const fn price(self, size: u32, leaves: u32) -> Price {
        debug_assert!(size > 0, "P4: an empty group has no price");
        match self {
            CommitPolicy::Fifo | CommitPolicy::Lru => Price { leaves: 0, size: 1 },
            CommitPolicy::BiggestSize => Price { leaves: 1, size },
            CommitPolicy::CostBased => Price { leaves, size },
        }
    }
}

/// The leaf pages that committing a group writes for each of its requests, H = gain / size in the paper.
#[derive(Clone, Copy, Debug)]
pub(super) struct Price {
    pub(super) leaves: u32,
    pub(super) size: u32,
}

/// The leaves |D| that are written when one has `entries` entries after a commit.
pub(super) fn leaves_written(entries: i64, (least, most): (usize, usize)) -> u32 {
    debug_assert!(least <= most, "P6: a leaf can never be full enough");
    let entries = entries.max(0) as usize;
    match entries {
        _ if entries > most => entries.div_ceil(most) as u32,
        _ if entries < least => 2,
        _ => 1,
    }
}

/// Exact: a/b against c/d as ad against cb.
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
