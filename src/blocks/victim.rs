//! Choice of the full block to collect next.
//!
//! | policy | victim | costs |
//! |---|---|---|
//! | Greedy | fewest valid pages | O(1) |
//! | CostBenefit | largest `age * (1 - u) / (2 * u)` (Kawaguchi, Nishioka and Motoda, USENIX 1995) | a look at every block |
//! | Cat | smallest `u / (1 - u) * erases / age` (Chiang and Chang, JSS 1999: cost, age, times) | a look at every block |
//! | Fifo | the one closed first (analysed by Desnoyers, SYSTOR 2012) | O(1), 8 bytes of RAM a block |
//! | Windowed | fewest valid pages among the w closed first (Hu and others, SYSTOR 2009) | O(w), the same RAM |
//! | Choices | fewest valid pages among d drawn at random (Van Houdt, SIGMETRICS 2013) | O(d), the same RAM |
//!
//! `u` is the share of valid pages. A block with all pages valid is never a victim: moving it gains nothing.
//! If such a block is first in the order of closing, it goes to the end of it, as if it had been moved. So
//! under every policy each victim gains at least a page, and collection ends. All arithmetic is in integers.

use crate::check::words;
use crate::fault::StoreFault;
use crate::store::StoreError;

/// Text of a refusal.
pub(crate) const LEFT_OUT: &str = "a policy that was left out when the engine was built: feature 'full'";

/// Rule that chooses the block to collect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub enum VictimPolicy {
    /// Fewest valid pages; among equals the block erased least, then the one unchanged for longest.
    #[default]
    Greedy,
    /// Kawaguchi's benefit over cost: old blocks go first, even with more valid pages. Looks at every full
    /// block.
    CostBenefit,
    /// Chiang and Chang's cost, age and times: like cost-benefit, but worn blocks are spared. Looks at every
    /// full block.
    Cat,
    /// The block closed first, whatever is valid in it.
    Fifo,
    /// Fewest valid pages among the blocks closed first.
    Windowed {
        /// Number of blocks looked at; 1 is FIFO.
        blocks: u32,
    },
    /// Fewest valid pages among blocks drawn evenly at random. A block may be drawn twice.
    Choices {
        /// Number of blocks drawn. 1 means a random victim. The logarithm (base 2) of the number of blocks is
        /// known as random greedy.
        count: u32,
    },
}

impl VictimPolicy {
    /// Every policy. A policy with a number has its default here.
    pub const ALL: [VictimPolicy; 6] = [
        VictimPolicy::Greedy,
        VictimPolicy::CostBenefit,
        VictimPolicy::Cat,
        VictimPolicy::Fifo,
        VictimPolicy::Windowed { blocks: 32 },
        VictimPolicy::Choices { count: 3 },
    ];

    /// Refuses a policy that was left out when the engine was built (feature `full`).
    pub fn require_built(self) -> Result<(), StoreFault> {
        let is_built = cfg!(feature = "full") || self == VictimPolicy::Greedy;
        if is_built { Ok(()) } else { Err(StoreError::Unsupported(words(LEFT_OUT).into()).into()) }
    }

    /// Name in configurations and results, without its number.
    pub const fn name(self) -> &'static str {
        match self {
            VictimPolicy::Greedy => "greedy",
            VictimPolicy::CostBenefit => "cost-benefit",
            VictimPolicy::Cat => "cat",
            VictimPolicy::Fifo => "fifo",
            VictimPolicy::Windowed { .. } => "windowed",
            VictimPolicy::Choices { .. } => "choices",
        }
    }
}

/// Full block with an invalid page, for the policies that weigh several things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Number of valid pages.
    pub valid: u32,
    /// Number of pages of a block.
    pub pages: u32,
    /// Time since the block last changed.
    pub age: u64,
    /// Number of erases so far.
    pub erases: u32,
}

impl Candidate {
    /// True if this block is a better victim than `other`. Among equals the one erased less is.
    pub(super) fn beats(&self, other: &Candidate, policy: VictimPolicy) -> bool {
        // The erases that count as a cost; a block never erased must not be free of cost.
        let times = |c: &Candidate| if policy == VictimPolicy::Cat { u128::from(c.erases) + 1 } else { 1 };
        // age * (N - v) / (v * times), compared crosswise. A block without valid pages beats any other.
        let worth = |a: &Candidate, b: &Candidate| {
            u128::from(a.age) * u128::from((a.pages - a.valid) * b.valid) * times(b)
        };
        match (self.valid, other.valid) {
            (0, 0) => self.erases < other.erases,
            (0, _) => true,
            (_, 0) => false,
            _ => {
                let (mine, its) = (worth(self, other), worth(other, self));
                mine > its || (mine == its && self.erases < other.erases)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(valid: u32, age: u64) -> Candidate {
        Candidate { valid, pages: 64, age, erases: 0 }
    }

    #[test]
    fn an_old_block_beats_a_young_emptier_one() {
        for policy in [VictimPolicy::CostBenefit, VictimPolicy::Cat] {
            // 100 * 32/32 = 100 against 10 * 48/16 = 30.
            assert!(block(32, 100).beats(&block(16, 10), policy));
            assert!(!block(16, 10).beats(&block(32, 100), policy));
        }
    }

    #[test]
    fn a_worn_block_is_spared_by_cat() {
        let worn = Candidate { erases: 4, ..block(32, 100) };
        assert!(worn.beats(&block(16, 10), VictimPolicy::CostBenefit));
        // 100 / 5 = 20 against 30.
        assert!(block(16, 10).beats(&worn, VictimPolicy::Cat));
    }

    #[test]
    fn an_empty_block_beats_all() {
        assert!(block(0, 0).beats(&block(1, u64::MAX), VictimPolicy::CostBenefit));
        assert!(!block(1, u64::MAX).beats(&block(0, 0), VictimPolicy::CostBenefit));
    }
}
