//! Choosing the victim: each policy of [`VictimPolicy`] over the table of blocks.

use super::order::Order;
use super::{BlockState, BlockTable, TIE_SCAN};
use crate::blocks::victim::{Candidate, VictimPolicy};
use crate::sort;
use crate::units::Pbn;
use alloc::vec::Vec;

/// Draws for each choice wanted, before a greedy one is made.
const DRAWS_PER_CHOICE: usize = 64;

impl BlockTable {
    /// Keeps from now on what this policy needs, so that it knows the order in which blocks are closed.
    /// Without this it learns of the policy when [`BlockTable::victim`] is first called, and takes the order
    /// of the last changes for it.
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
        self.order = Order::new(policy, self.rows.len(), full.into_iter(), self.clock);
    }

    /// The full block to collect next; none when no full block has an invalid page. Each one has.
    pub fn victim(&mut self, policy: VictimPolicy) -> Option<Pbn> {
        self.follow(policy);
        // Who has the fewest valid pages also says whether there is a victim at all.
        let greedy = self.fewest_valid()?;
        if !cfg!(feature = "full") {
            return Some(greedy);
        }
        Some(match policy {
            VictimPolicy::Greedy => greedy,
            VictimPolicy::CostBenefit | VictimPolicy::Cat => self.best(policy).unwrap_or(greedy),
            VictimPolicy::Fifo => self.fewest_of_oldest(1).unwrap_or(greedy),
            VictimPolicy::Windowed { blocks } => self.fewest_of_oldest(blocks).unwrap_or(greedy),
            VictimPolicy::Choices { count } => self.fewest_of_drawn(count).unwrap_or(greedy),
        })
    }

    /// The full block with the fewest valid pages; none when no full block has an invalid page.
    pub fn fewest_valid(&mut self) -> Option<Pbn> {
        let valid = self.valid_count(self.places.emptiest()?);
        if valid == self.geometry.pages_per_block {
            return None;
        }
        let oldest = self.places.with_valid(valid).take(TIE_SCAN);
        // `min_by_key` keeps the first of equals: the one unchanged for longest.
        oldest.min_by_key(|pbn| self.rows.erases(pbn.index()))
    }

    /// All full blocks, those with the fewest valid pages first.
    pub fn full_by_fewest_valid(&self) -> impl Iterator<Item = Pbn> + '_ {
        self.places.by_fewest_valid()
    }

    /// The best of all full blocks, for policies that weigh age against valid pages.
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

    /// The block with the fewest valid pages among so many closed first. Blocks with valid pages only that
    /// come first go to the end; there must be another.
    fn fewest_of_oldest(&mut self, window: u32) -> Option<Pbn> {
        let Order::Closing(closing) = &mut self.order else { return None };
        let (table, geometry) = (&self.valid, self.geometry);
        let all = geometry.pages_per_block;
        let valid = |pbn: u32| table.count(geometry, Pbn(pbn));
        while valid(closing.iter().next()?) == all {
            closing.rotate();
        }
        // `min_by_key` keeps the first of equals: the one closed first.
        closing.iter().take(window.max(1) as usize).min_by_key(|&pbn| valid(pbn)).map(Pbn)
    }

    /// The block with the fewest valid pages among so many drawn. Those with valid pages only do not count;
    /// none when the draw finds hardly any others.
    fn fewest_of_drawn(&mut self, count: u32) -> Option<Pbn> {
        let Order::Drawing(drawing) = &mut self.order else { return None };
        let (table, geometry, count) = (&self.valid, self.geometry, count.max(1) as usize);
        let all = geometry.pages_per_block;
        let valid = |pbn: u32| table.count(geometry, Pbn(pbn));
        let drawn = (0..DRAWS_PER_CHOICE * count).filter_map(|_| drawing.draw());
        drawn.filter(|&pbn| valid(pbn) < all).take(count).min_by_key(|&pbn| valid(pbn)).map(Pbn)
    }
}
