//! Room for operations: one step for each while there is enough room, and as many as are needed if blocks are
//! short.

use super::Core;
use super::commit::SEALS;
use super::drain::Drain;
use super::give::{are_lists_short, give};
use super::level::Level;
use super::map;
use super::space::Need;
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand};
use crate::ordered::Durability;

/// Erased blocks that are kept ready, so that an operation with a step need not wait for an erase.
pub(super) const READY: usize = 2;
/// If this many records (or the number of changes, if lower) fit beside any root, the memtable can do without
/// sealed pages. Else room for a sealed page is always kept.
const RECORDS_MIN: usize = 4;

impl<N: Nand> Core<N> {
    /// In the class *none*: commits before the first change that a power cut may lose, so that the newest
    /// commit page says that changes follow.
    pub(super) fn admit_change(&mut self) -> Result<(), IndexFault> {
        if self.stock.commits.durability != Durability::None || self.stock.commits.followed {
            return Ok(());
        }
        self.make_room(false, 1)?;
        self.stock.commits.followed = true;
        let opened = self.commit(false);
        self.stock.commits.followed = opened.is_ok();
        opened
    }

    /// True if `records` records more find room for good.
    pub(super) fn fits(&self, records: usize) -> bool {
        self.stock.has(Need::Insert { records })
    }

    /// Makes room for changes. Insertions are refused if they would take the last blocks; removals are not.
    pub(super) fn make_room(&mut self, inserts: bool, changes: usize) -> Result<(), IndexFault> {
        self.medium.require_numbers()?;
        give(self)?;
        if !self.fits(changes) {
            self.find_room(inserts, changes)?;
        }
        let kept = self.stock.levels.len() + self.stock.blocks_for(Need::Commit);
        if self.stock.space.blocks.free() <= kept && self.stock.space.blocks.left() > 0 {
            self.commit(false)?;
        }
        Ok(())
    }

    /// Makes room by every means, the cheapest first.
    fn find_room(&mut self, inserts: bool, changes: usize) -> Result<(), IndexFault> {
        if !inserts && self.stock.lacks_ram_only() {
            return Ok(());
        }
        if self.stock.commits.clean || self.stock.is_map_due() {
            // A close left its commit page in two blocks, of which one can go; or a map makes a long root
            // short.
            self.commit(false)?;
        }
        if !self.fits(changes) {
            self.dissolve(changes)?;
        }
        // Removals are taken whatever room there is.
        let more = if inserts { changes } else { 1 };
        // If such steps were of no use, they stay so until more is changed.
        let changed = self.stock.space.changes.abs_diff(self.stock.space.relieved_in_vain);
        let is_due = changed >= self.stock.levels.page_records.div_ceil(16);
        if !self.fits(more) && is_due {
            self.relieve(more)?;
            self.stock.space.relieved_in_vain =
                if self.fits(more) { u64::MAX } else { self.stock.space.changes };
        }
        if !self.fits(more) && self.stock.is_crowded(&self.planner.shares) {
            self.give_level_up()?;
        }
        let may_sweep = self.stock.space.changes * 4 >= self.stock.levels.page_records
            || !inserts && self.stock.is_stuck();
        if !self.fits(more) && may_sweep {
            self.sweep_all(more)?;
            // Records of sealed pages have left the memtable.
            if !self.fits(more) {
                self.dissolve(changes)?;
            }
        }
        // Some changes may replace waiting records; whether all had room shows only once they wait.
        if inserts && !self.fits(1) { Err(self.stock.no_room()) } else { Ok(()) }
    }

    /// Makes the first sweep go on until the memtable fits into a commit page with `changes` changes more,
    /// and gives up sealed pages: if blocks are short, a memtable is no larger than that. So the blocks that
    /// an insertion must leave free do not depend on the RAM, nor on the mounts since, each of which begins
    /// another block of sealed pages.
    fn dissolve(&mut self, changes: usize) -> Result<(), IndexFault> {
        let is_small = self.stock.commits.sealed_pages() == 0
            && self.stock.fits_for_good(self.stock.memtable.len() + changes);
        let few = changes.min(if self.stock.space.map().is_some() { map::RECORDS_MIN } else { RECORDS_MIN });
        // If roots may fill a page, there are sealed pages at all times.
        if is_small || self.stock.memtable.len() > 0 && !self.stock.fits_for_good(few) {
            return Ok(());
        }
        let round = self.stock.levels[0].round;
        while self.stock.memtable.len() > 0 && !self.stock.fits_for_good(self.stock.memtable.len() + changes)
        {
            let is_over = self.stock.levels[0].round.wrapping_sub(round) >= 2;
            if is_over || !self.stock.has(Need::Dissolve) || !self.can_step(0)? {
                return Ok(());
            }
            self.step(0)?;
        }
        self.stock.commits.forget_sealed();
        self.stock.memtable.unseal_all();
        // The open block is no longer needed, so the commit gives it back.
        self.stock.commits.open_sealed = None;
        self.commit(false)
    }

    /// Makes steps until there is room, as long as some level takes a block more than its pages need. Each
    /// step is of the level whose next block is free after the fewest steps.
    fn relieve(&mut self, changes: usize) -> Result<(), IndexFault> {
        let steps_max = 2 * self.stock.levels.iter().map(Level::pages).sum::<usize>() + 8;
        for _ in 0..steps_max {
            let Some(level) = self.stock.levels.with_holes() else { return Ok(()) };
            if self.fits(changes) || !self.stock.is_worth_it(level) || !self.can_step(level)? {
                return Ok(());
            }
            self.counters.relieved += 1;
            self.step(level)?;
        }
        Ok(())
    }

    /// Merges the level above the last into it, to gain room.
    fn give_level_up(&mut self) -> Result<(), IndexFault> {
        self.choose_plan();
        let levels = self.stock.levels.len();
        let steps_max = 3 * self.stock.levels.iter().map(Level::pages).sum::<usize>() + 8;
        for _ in 0..steps_max {
            if self.stock.levels.drain == Drain::Off || self.stock.levels.len() < levels {
                return Ok(());
            }
            let next = self.stock.levels.drains_next(false);
            if self.stock.begins_block(next) && !self.stock.has(Need::Remove) || !self.can_step(next)? {
                return Ok(());
            }
            self.drain_step(false)?;
        }
        Ok(())
    }

    /// Sweeps the levels until `changes` changes find room. First, levels above the last are swept whose
    /// pages are spread over many blocks, as they are after some mounts: otherwise the last level's sweep
    /// might take many of these pages before a block is dead. Next comes the last level: it takes the records
    /// of the level above, so that pages become free from the first step on. Then more levels are swept, from
    /// the last one up, until all records are in the last level and dead or double ones are gone.
    fn sweep_all(&mut self, changes: usize) -> Result<(), IndexFault> {
        self.counters.sweeps += 1;
        self.stock.space.changes = 0;
        self.stock.space.sweeping = true;
        let done = self.sweep_up(changes);
        self.stock.space.sweeping = false;
        done
    }

    fn sweep_up(&mut self, changes: usize) -> Result<(), IndexFault> {
        for level in (0..self.stock.levels.len().saturating_sub(1)).rev() {
            if self.stock.is_spread(level) {
                self.sweep(level)?;
                self.close_empty_levels();
            }
        }
        for first in (0..self.stock.levels.len()).rev() {
            for level in first..self.stock.levels.len() {
                self.sweep(level)?;
                self.close_empty_levels();
            }
            if self.fits(changes) {
                break;
            }
        }
        Ok(())
    }

    /// Makes the steps of one round of a level.
    fn sweep(&mut self, level: usize) -> Result<(), IndexFault> {
        let (round, from) = (self.stock.levels[level].round, self.stock.levels[level].cursor.clone());
        let is_behind = |level: &Level| match level.round.wrapping_sub(round) {
            0 => true,
            1 => level.cursor < from,
            _ => false,
        };
        while is_behind(&self.stock.levels[level]) && self.can_step(level)? {
            self.step(level)?;
        }
        Ok(())
    }

    /// Gives back the open blocks of levels that hold no pages.
    fn close_empty_levels(&mut self) {
        for level in 0..self.stock.levels.len() {
            if self.stock.levels[level].pages() == 0
                && let Some((block, _)) = self.stock.levels[level].open.take()
            {
                self.stock.space.leave_if_dead(block, &self.stock.levels);
            }
        }
    }

    /// Does the work of an operation: a step if something is full, else an erase if no erased block is ready.
    pub(super) fn work(&mut self) -> Result<(), IndexFault> {
        let mut stepped = false;
        while self.stock.is_memtable_full()
            || !stepped && self.stock.memtable.is_nearly_full(self.to_be_lent() + self.stock.kept_free())
            || !stepped && self.stock.memtable.len() > 0 && are_lists_short(self)
        {
            if !self.sink()? {
                self.pass_idle_pages()?;
                self.step(0)?;
            }
            stepped = true;
            // The operation is committed: nothing may fail after that.
            if self.stock.commits.carried {
                return Ok(());
            }
        }
        if !stepped {
            stepped = self.work_below()?;
        }
        if self.stock.commits.carried {
            return Ok(());
        }
        stepped |= self.catch_up()?;
        if !stepped && self.stock.space.blocks.ready() < READY {
            self.stock.space.blocks.prepare(&mut self.medium.nand, Cause::GarbageCollection)?;
        }
        Ok(())
    }

    /// Makes a step of each level that let the level above grow to half more pages than it may have, and two.
    /// If pages hold few records, changes need more than a step each. A level that never gets a step would
    /// make the steps of those above it even more expensive.
    fn catch_up(&mut self) -> Result<bool, IndexFault> {
        let mut stepped = false;
        for below in 1..self.stock.levels.len() {
            if self.planner.is_above_far_too_full(&self.stock.levels, below)
                && self.stock.has(Need::Sweep { level: below })
            {
                self.step(below)?;
                stepped = true;
                if self.stock.commits.carried {
                    break;
                }
            }
        }
        Ok(stepped)
    }

    /// True if the next step drains the level being removed instead of adding records to it. `full` is the
    /// level whose step is due, if any. If none is due, draining goes on only while blocks are plentiful.
    fn drains_instead(&self, full: Option<usize>) -> bool {
        if !cfg!(feature = "full") || !matches!(self.stock.levels.drain, Drain::Sweep(_)) {
            return false;
        }
        match full {
            Some(below) => {
                below + 2 == self.stock.levels.len()
                    && !self.planner.is_above_far_too_full(&self.stock.levels, below)
            }
            None => {
                let last = self.stock.levels.len() - 1;
                // Look-ups read no page of an empty level, and changes soon bring another plan.
                let is_of_use = self.stock.levels[last - 1].pages() > 0 || !self.planner.is_for_reads();
                is_of_use && self.stock.levels.drains_next(true) == last && self.stock.has(Need::Ahead)
            }
        }
    }

    /// Makes a step if a level is full, is being removed, or holds weak pages. True if a step was made.
    pub(super) fn work_below(&mut self) -> Result<bool, IndexFault> {
        if give_back_sealed(self)? {
            return Ok(true);
        }
        let full =
            (1..self.stock.levels.len()).find(|&below| self.planner.is_above_full(&self.stock.levels, below));
        if self.drains_instead(full)
            && self.stock.has(Need::Sweep { level: self.stock.levels.drains_next(true) })
        {
            self.drain_step(true)?;
            self.replan();
            return Ok(true);
        }
        if let Some(below) = full.filter(|&below| self.stock.has(Need::Sweep { level: below })) {
            self.step(below)?;
            self.replan();
            return Ok(true);
        }
        self.replan();
        self.rewrite_weak()
    }

    /// Makes a step of the level with weak pages, until its sweep has rewritten their records. Returns true
    /// if a step was made.
    pub(super) fn rewrite_weak(&mut self) -> Result<bool, IndexFault> {
        let is_due = self.medium.credit.is_enough() && self.stock.has(Need::Ahead);
        let Some(due) = self.medium.weak.clone().filter(|_| is_due) else { return Ok(false) };
        let level = self.stock.levels.iter().position(|level| level.uses(due.start, due.end));
        let Some(level) = level else {
            self.medium.weak = None;
            return Ok(false);
        };
        self.counters.scrubbed += 1;
        let before = core::mem::replace(&mut self.medium.cause, Cause::Scrubbing);
        self.medium.credit.spend(true);
        let stepped = self.step(level);
        self.medium.credit.spend(false);
        self.medium.cause = before;
        stepped.map(|()| true)
    }
}

/// Makes a step of the first level if there are many sealed pages. Where changes are appended, also if
/// blocks are about to run short; or a commit page, if that gives back blocks. True if one was made.
fn give_back_sealed<N: Nand>(core: &mut Core<N>) -> Result<bool, IndexFault> {
    let mut is_much = core.stock.is_much_sealed();
    if SEALS && core.stock.commits.tail.is_some() {
        core.stock.forget_passed();
        let is_short = core.stock.is_nearly_short();
        if is_short && core.stock.is_any_left_by_commit() {
            core.commit(false)?;
            return Ok(true);
        }
        is_much = core.stock.is_much_sealed() || is_short;
    }
    if is_much {
        core.step(0)?;
    }
    Ok(is_much)
}
