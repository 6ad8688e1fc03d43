//! The plan: the number of levels and their sizes, from the mix of recent operations, and the credit from
//! look-ups.

use super::Core;
use super::config::Shares;
use super::cost::{Given, Mix, Plan, READ, STEP, plan, plan_with};
use super::drain::Drain;
use super::lend::Lending;
use super::levels::Levels;
use super::memtable::Memtable;
use super::page::HEADER_BYTES;
use crate::nand::Nand;

/// Credit that pays for a step.
pub(super) const PAID: u32 = STEP as u32;

/// Shares of the RAM, the plan, and the state for which the plan was made.
#[derive(Debug)]
pub(super) struct Planner {
    pub(super) shares: Shares,
    pub(super) plan: Plan,
    /// Pages of the last level when the plan was made.
    pub(super) planned_for: usize,
    /// Mix of recent operations. `planned_mix` is the mix for which the plan was made.
    pub(super) mix: Mix,
    planned_mix: Mix,
    pub(super) lending: Lending,
    /// Time of look-ups' reads that found nothing, in 256ths of a program. It pays for steps that make
    /// look-ups cheaper.
    pub(super) credit: u32,
}

impl Planner {
    /// A planner without a plan yet.
    pub(super) fn new(shares: Shares) -> Planner {
        Planner {
            shares,
            plan: Plan::default(),
            planned_for: 0,
            mix: Mix::usual(),
            planned_mix: Mix::usual(),
            lending: Lending::default(),
            credit: 0,
        }
    }

    /// True if the plan was made for look-ups alone.
    pub(super) fn is_for_reads(&self) -> bool {
        self.planned_mix.only_reads()
    }

    /// Books `pages` pages of levels that a look-up read without finding its key.
    pub(super) fn book_in_vain(&mut self, pages: u32) {
        // If nothing changes any more, a step saves reads for good.
        let worth = if self.mix.only_reads() { 2 } else { 1 };
        self.book(worth * pages * READ as u32);
    }

    /// Books credit for steps, up to the price of two.
    pub(super) fn book(&mut self, credit: u32) {
        if cfg!(feature = "full") {
            self.credit = (self.credit + credit).min(2 * PAID);
        }
    }

    fn pages_planned(&self, level: usize) -> usize {
        self.plan.pages_max[level].max(1) as usize
    }

    /// True if the level above `below` holds more than the plan gives it.
    pub(super) fn is_above_full(&self, levels: &Levels, below: usize) -> bool {
        let (above, planned) = (&levels[below - 1], self.pages_planned(below - 1));
        // Pages count too, for filters and fences are by the page.
        above.records > planned * levels.page_records as usize || above.pages() > 2 * planned + 2
    }

    /// True if the level above `below` is full and has half more pages than the plan gives it, and two.
    pub(super) fn is_above_far_too_full(&self, levels: &Levels, below: usize) -> bool {
        let (pages, planned) = (levels[below - 1].pages(), self.pages_planned(below - 1));
        2 * pages > 3 * planned + 4 && self.is_above_full(levels, below)
    }

    /// Numbers from which a plan is made.
    pub(super) fn given(&self, levels: &Levels, memtable: &Memtable, page_bytes: u32) -> Given {
        Given {
            pages: levels.last_pages() as u64,
            page_records: levels.page_records,
            page_bits: 8 * u64::from(page_bytes).saturating_sub(HEADER_BYTES as u64),
            memtable: memtable.likely_capacity() as u64,
            filter_bits: self.shares.filter as u64 * 8,
            levels_max: self.shares.levels,
            mix: self.mix,
        }
    }
}

impl<N: Nand> Core<N> {
    /// Chooses the sizes of the levels again if the last level has grown or shrunk by an eighth.
    pub(super) fn replan(&mut self) {
        let planned_for = self.planner.planned_for;
        if self.stock.levels.last_pages().abs_diff(planned_for) * 8 > planned_for {
            self.choose_plan();
        }
    }

    /// Counts operations. Plans again if the mix has changed since the plan.
    pub(super) fn count(&mut self, gets: u32, puts: u32) {
        let Planner { mix, planned_mix, .. } = &mut self.planner;
        if mix.count(gets, puts) && mix.differs(planned_mix) {
            self.choose_plan();
        }
    }

    /// Chooses the number of levels and their sizes, adds missing levels, and begins to drain a level too
    /// much.
    pub(super) fn choose_plan(&mut self) {
        let given =
            self.planner.given(&self.stock.levels, &self.stock.memtable, self.stock.geometry.page_bytes);
        let shares = self.planner.shares;
        let only_reads = given.mix.only_reads();
        (self.planner.planned_for, self.planner.planned_mix) = (given.pages as usize, given.mix);
        let best = plan(&given);
        let wanted = match shares.fixed {
            true => shares.levels,
            false if only_reads => 1,
            false => best.levels.min(self.stock.levels_by_room(shares.levels)),
        };
        while self.stock.levels.len() < wanted {
            self.stock.levels.add();
        }
        let least = Plan { levels: self.stock.levels.len(), pages_max: [1, 2], cost: u64::MAX };
        let cheapest = plan_with(&given, self.stock.levels.len()).unwrap_or(least);
        let mut chosen = cheapest.near(self.planner.plan, &given);
        let is_crowded = self.stock.is_crowded(&shares);
        // Removing a level and adding it again costs a sweep each time, and the model is right to a
        // twentieth.
        let is_worth_it = best.cost < chosen.cost - chosen.cost / 16 || only_reads || is_crowded;
        let is_too_much = wanted < self.stock.levels.len() && is_worth_it && !shares.fixed;
        if cfg!(feature = "full") && is_too_much && !is_crowded {
            // While a level is being removed, the first level may already grow to its size without it.
            let next = plan_with(&given, self.stock.levels.len() - 1).unwrap_or(least);
            chosen.pages_max[0] = chosen.pages_max[0].max(next.pages_max[0]);
        }
        self.planner.plan = chosen;
        self.stock.levels.drain = match self.stock.levels.drain {
            Drain::Off if is_too_much => Drain::Align,
            before if is_too_much => before,
            _ => Drain::Off,
        };
    }
}

#[cfg(test)]
#[cfg(feature = "full")]
mod tests {
    use super::*;
    use crate::nand::Geometry;
    use crate::ordered::RecordFormat;
    use crate::ordered::plow::PlowConfig;
    use crate::units::Ppn;

    #[test]
    fn a_level_is_full_by_its_records_or_its_pages() {
        let config = PlowConfig::new(RecordFormat::new(4, 4));
        let shares = Shares::new(&config, Geometry::new(512, 16, 8, 64), 0).unwrap();
        let (mut planner, mut levels) = (Planner::new(shares), Levels::none(8, u32::MAX));
        (0..2).for_each(|_| levels.add());
        (planner.plan.pages_max[0], levels.page_records) = (3, 10);
        for (records, pages, is_full, is_far) in [
            (30, 6, false, false),
            (31, 6, true, false),
            (31, 7, true, true),
            (0, 8, false, false),
            (0, 9, true, true),
        ] {
            levels[0] = Default::default();
            (0..pages).for_each(|page| levels[0].new.push(Ppn(page), page.into(), true));
            levels[0].records = records;
            let found = (planner.is_above_full(&levels, 1), planner.is_above_far_too_full(&levels, 1));
            assert_eq!(found, (is_full, is_far), "{records} records, {pages} pages");
        }
        planner.book_in_vain(1);
        assert_eq!(planner.credit, READ as u32);
        planner.book_in_vain(1000);
        assert_eq!(planner.credit, 2 * PAID);
    }
}
