//! Choice of the victim: each policy of [`VictimPolicy`] over the table of blocks.

use super::order::Order;
use super::{BlockState, BlockTable, TIE_SCAN};
use crate::blocks::victim::{Candidate, VictimPolicy};
use crate::sort;
use crate::units::Pbn;
use alloc::vec::Vec;

impl BlockTable {
    /// Keeps from now on the order that this policy needs: that in which blocks are closed. Without this call
    /// the table learns of the policy at the first [`BlockTable::victim`], and uses the order of the last
    /// changes until then.
    pub fn follow(&mut self, policy: VictimPolicy) {
        if !cfg!(feature = "full") {
            return;
        }
        if policy != VictimPolicy::Greedy {
            self.keep_ages();
        }
        if self.order.suits(policy) {
            return;
        }
        let mut full: Vec<u32> = self.in_state(BlockState::Full).map(|pbn| pbn.0).collect();
        sort::by_key(&mut full, |&pbn| self.modified(Pbn(pbn)));
        self.order = Order::new(policy, self.uses.rows.len(), full.into_iter(), self.clock);
    }

    /// Full block to collect next, which has at least one invalid page. `None` if no full block has one.
    pub fn victim(&mut self, policy: VictimPolicy) -> Option<Pbn> {
        self.follow(policy);
        // The block with the fewest valid pages also tells whether there is a victim at all.
        let greedy = self.fewest_valid()?;
        if !cfg!(feature = "full") {
            return Some(greedy);
        }
        Some(match policy {
            VictimPolicy::Greedy => greedy,
            VictimPolicy::CostBenefit | VictimPolicy::Cat => self.best(policy).unwrap_or(greedy),
            _ => {
                let valid = |pbn| self.valid.count(self.geometry, Pbn(pbn));
                self.order.choose(policy, self.geometry.pages_per_block, valid).map_or(greedy, Pbn)
            }
        })
    }

    /// Full block with the fewest valid pages. `None` if no full block has an invalid page.
    pub fn fewest_valid(&mut self) -> Option<Pbn> {
        let valid = self.valid_count(self.uses.places.emptiest()?);
        if valid == self.geometry.pages_per_block {
            return None;
        }
        let oldest = self.uses.places.with_valid(valid).take(TIE_SCAN);
        // `min_by_key` keeps the first of equals: the one unchanged for longest.
        oldest.min_by_key(|pbn| self.uses.rows.erases(pbn.index()))
    }

    /// Iterates over all full blocks, those with the fewest valid pages first.
    pub fn full_by_fewest_valid(&self) -> impl Iterator<Item = Pbn> + '_ {
        self.uses.places.by_fewest_valid()
    }

    /// Returns the best of all full blocks, for policies that weigh age against valid pages.
    fn best(&self, policy: VictimPolicy) -> Option<Pbn> {
        let pages = self.geometry.pages_per_block;
        let mut best: Option<(Pbn, Candidate)> = None;
        for pbn in self.in_state(BlockState::Full) {
            let (valid, modified) = (self.valid_count(pbn), self.modified(pbn));
            if valid == pages {
                continue;
            }
            debug_assert!(modified <= self.clock, "{pbn} was modified in the future");
            let candidate =
                Candidate { valid, pages, age: self.clock - modified, erases: self.erase_count(pbn) };
            if best.as_ref().is_none_or(|(_, b)| candidate.beats(b, policy)) {
                best = Some((pbn, candidate));
            }
        }
        best.map(|(pbn, _)| pbn)
    }
}
