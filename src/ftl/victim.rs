//! Which full block is collected next.
//!
//! Greedy takes the block with the fewest valid pages. Cost-benefit (Kawaguchi, Nishioka and Motoda, USENIX 1995)
//! weighs the room gained against the copies it costs and the age of the block: it maximises
//! `age * (1 - u) / (2 * u)`, `u` being the share of valid pages. All arithmetic is in integers.

/// The rule that chooses the block to collect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VictimPolicy {
    /// Fewest valid pages; among equals the one erased least, then the one unchanged for longest.
    #[default]
    Greedy,
    /// Kawaguchi's benefit over cost: old blocks go first even with more valid pages. Looks at every full block.
    CostBenefit,
}

impl VictimPolicy {
    /// Every policy.
    pub const ALL: [VictimPolicy; 2] = [VictimPolicy::Greedy, VictimPolicy::CostBenefit];

    /// The name used in settings and results.
    pub const fn name(self) -> &'static str {
        match self {
            VictimPolicy::Greedy => "greedy",
            VictimPolicy::CostBenefit => "cost_benefit",
        }
    }
}

/// A full block as cost-benefit sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Valid pages.
    pub valid: u32,
    /// Pages of a block.
    pub pages: u32,
    /// Time since the block last changed.
    pub age: u64,
    /// Erases so far.
    pub erases: u32,
}

impl Candidate {
    /// Whether this block is worth more than `other`; the one erased less wins a tie.
    pub(super) fn beats(&self, other: &Candidate) -> bool {
        // age * (N - v) / (2 v), compared crosswise; a block without valid pages is worth more than any other.
        let worth = |a: &Candidate, b: &Candidate| {
            u128::from(a.age) * u128::from(a.pages - a.valid) * u128::from(b.valid)
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
        // 100 * 32/64 = 50 against 10 * 48/32 = 15.
        assert!(block(32, 100).beats(&block(16, 10)));
        assert!(!block(16, 10).beats(&block(32, 100)));
    }

    #[test]
    fn an_empty_block_beats_all() {
        assert!(block(0, 0).beats(&block(1, u64::MAX)));
        assert!(!block(1, u64::MAX).beats(&block(0, 0)));
    }
}
