//! Keeping room: one step an operation while there is enough of it, and as many as it takes where blocks are
//! short.

use super::Plow;
use super::cost::{Given, LEVELS_MAX, Plan, plan, plan_with};
use super::drain::Drain;
use super::level::Level;
use super::page::HEADER_BYTES;
use crate::check::IndexError;
use crate::nand::{Cause, Nand};
use crate::units::Ppn;

/// Erased blocks that are kept ready, so that an operation with a step need not wait for an erase.
pub(super) const READY: usize = 2;

impl<N: Nand> Plow<N> {
    /// Blocks that steps leave to the next commit: one for its page, and those of the pages that it seals.
    pub(super) fn kept_back(&self) -> usize {
        1 + self.sealed_blocks_next()
    }

    /// Blocks that an insertion leaves free: one for each sweep, and for commit pages, those of a mount and
    /// of the commit that follows it among them.
    pub(super) fn reserve(&self) -> usize {
        self.levels.len().max(1) + 3
    }

    /// Whether there is more room than an insertion needs.
    pub(super) fn is_roomy(&self) -> bool {
        self.has_room() && self.blocks.free() > self.reserve() + self.kept_back()
    }

    /// Whether a change finds room for good.
    pub(super) fn has_room_now(&self) -> bool {
        self.has_room()
    }

    fn has_room(&self) -> bool {
        let needed = self.reserve() + self.dissolved_blocks();
        self.blocks.free() + self.blocks.left() >= needed && !self.is_root_long()
    }

    /// Whether the root leaves too little of a commit page.
    fn is_root_long(&self) -> bool {
        let extents: usize =
            self.levels.iter().map(|level| level.old.extents().len() + level.new.extents().len()).sum();
        let room = (self.geometry.page_bytes as usize - HEADER_BYTES) * 3 / 4;
        // No extent takes more than thirteen bytes.
        let fixed = 32 + LEVELS_MAX * (24 + usize::from(self.record.key_bytes));
        extents * 13 + fixed > room && self.root_bytes() > room
    }

    /// Makes sure that a change can be written. An insertion is refused where that takes the last blocks; a
    /// removal is not.
    pub(super) fn make_room(&mut self, inserts: bool) -> Result<(), IndexError> {
        if !self.has_room() {
            self.dissolve()?;
        }
        // Two blocks of a level are half used at any time.
        if !self.has_room() {
            self.sweep_holes(2)?;
        }
        if !self.has_room() && self.changes * 4 >= self.page_records {
            self.sweep_all()?;
        }
        // Each mount closes a block of each level as it is: where several follow each other, no level alone
        // has many holes.
        if !self.has_room() && self.is_tight() {
            self.sweep_holes(1)?;
        }
        if !self.has_room() && inserts {
            return Err(self.no_room());
        }
        if self.blocks.free() <= self.levels.len() + self.kept_back() && self.blocks.left() > 0 {
            self.commit(false)?;
        }
        Ok(())
    }

    /// Has the first sweep go on until the memtable fits into a commit page, and does without sealed pages:
    /// where blocks are short, a memtable is no larger than that. So what an insertion must leave free does
    /// not depend on the RAM, nor on the mounts since, each of which begins another block of sealed pages.
    fn dissolve(&mut self) -> Result<(), IndexError> {
        if self.commits.sealed.is_empty() && self.fits_beside_root(self.memtable.len() + 1) {
            return Ok(());
        }
        let round = self.levels[0].round;
        while !self.fits_beside_root(self.memtable.len() + 1) {
            if self.levels[0].round.wrapping_sub(round) >= 2 || !self.can_step(0)? {
                return Ok(());
            }
            self.step(0)?;
        }
        self.commits.sealed.clear();
        self.memtable.unseal_all();
        // What is open is needed no longer, so the commit gives it back.
        self.commits.open_sealed = None;
        self.commit(false)
    }

    /// Whether the blocks may not last for a step of each level and the commit pages between.
    fn is_tight(&self) -> bool {
        self.blocks.free() + self.blocks.left() <= self.levels.len() + self.kept_back() + 1
    }

    /// Steps of the level whose blocks hold the fewest pages, until there is room or no level has more than
    /// so many blocks to spare.
    fn sweep_holes(&mut self, spared: usize) -> Result<(), IndexError> {
        let steps_max = 2 * self.levels.iter().map(Level::pages).sum::<usize>() + 8;
        for _ in 0..steps_max {
            let Some(level) = self.level_with_holes(spared) else { return Ok(()) };
            if self.has_room() || !self.can_step(level)? {
                return Ok(());
            }
            self.step(level)?;
        }
        Ok(())
    }

    fn level_with_holes(&self, spared: usize) -> Option<usize> {
        let pages_per_block = self.geometry.pages_per_block;
        let holes = |level: usize| {
            let of_level = &self.levels[level];
            let pages = of_level.blocks(pages_per_block).len() * pages_per_block as usize;
            pages.saturating_sub(of_level.pages())
        };
        (0..self.levels.len())
            .filter(|&level| holes(level) > spared * pages_per_block as usize)
            .max_by_key(|&level| holes(level))
    }

    /// Sweeps every level once, so that all that is dead or double is gone.
    fn sweep_all(&mut self) -> Result<(), IndexError> {
        self.counters.sweeps += 1;
        for level in 0..self.levels.len() {
            // The second round finds what the first left behind its start.
            let round = self.levels[level].round;
            while self.levels[level].round.wrapping_sub(round) < 2 {
                if !self.can_step(level)? {
                    return Ok(());
                }
                self.step(level)?;
            }
        }
        self.changes = 0;
        self.close_empty_levels();
        Ok(())
    }

    /// Gives the open blocks of levels that hold nothing back.
    fn close_empty_levels(&mut self) {
        for level in 0..self.levels.len() {
            if self.levels[level].pages() == 0
                && let Some((block, _)) = self.levels[level].open.take()
            {
                self.leave_if_dead(level, block);
            }
        }
    }

    /// Whether a step finds a block for its page, after a commit if need be.
    fn can_step(&mut self, level: usize) -> Result<bool, IndexError> {
        let target = super::io::Target::Level(level);
        if !self.has_place(target) && self.blocks.left() > 0 {
            self.commit(false)?;
        }
        Ok(self.has_place(target))
    }

    /// The work of an operation: a step where something is full, else an erase where none is ready.
    pub(super) fn work(&mut self) -> Result<(), IndexError> {
        let mut stepped = false;
        // A step may meet a range in which nothing waits.
        while self.memtable.is_full() {
            if !self.sink()? {
                self.step(0)?;
            }
            stepped = true;
        }
        if !stepped {
            stepped = self.work_below()?;
        }
        if !stepped && self.blocks.ready() < READY {
            self.blocks.prepare(&mut self.nand, Cause::GarbageCollection)?;
        }
        Ok(())
    }

    pub(super) fn work_below(&mut self) -> Result<bool, IndexError> {
        if self.commits.sealed.len() > self.sealed_max() {
            self.step(0)?;
            return Ok(true);
        }
        let full = (1..self.levels.len()).find(|&below| {
            let pages_max = self.plan.pages_max[below - 1].max(1) as usize;
            let above = &self.levels[below - 1];
            // Pages count too, for filters and fences are theirs.
            above.records > pages_max * self.page_records as usize || above.pages() > 2 * pages_max + 2
        });
        if let Some(below) = full {
            self.step(below)?;
            self.replan();
            return Ok(true);
        }
        self.replan();
        self.scrub()
    }

    /// Reads and programs are a merge's from now on, or a scrub's: who paid before.
    pub(super) fn begin_merging(&mut self) -> Cause {
        let merging = if self.cause == Cause::Scrubbing { Cause::Scrubbing } else { Cause::Merge };
        core::mem::replace(&mut self.cause, merging)
    }

    /// A step of the level that holds a weak page, until its sweep has written that page's records anew;
    /// whether there was one.
    pub(super) fn scrub(&mut self) -> Result<bool, IndexError> {
        let Some(ppn) = self.weak.filter(|_| self.is_roomy()) else { return Ok(false) };
        let level = (0..self.levels.len()).find(|&level| self.levels[level].uses(ppn, Ppn(ppn.0 + 1)));
        let Some(level) = level else {
            self.weak = None;
            return Ok(false);
        };
        self.counters.scrubbed += 1;
        let before = core::mem::replace(&mut self.cause, Cause::Scrubbing);
        let stepped = self.step(level);
        self.cause = before;
        stepped.map(|()| true)
    }

    /// Chooses the sizes of the levels anew when the last level has grown or shrunk by an eighth.
    pub(super) fn replan(&mut self) {
        let pages = self.levels.last().map_or(0, Level::pages);
        if pages.abs_diff(self.planned_for) * 8 > self.planned_for {
            self.choose_plan();
        }
    }

    /// Plans anew when there are more look-ups, or fewer, than the plan was made for.
    pub(super) fn replan_for_mix(&mut self) {
        if self.mix.differs(&self.planned_mix) {
            self.choose_plan();
        }
    }

    /// Numbers that a plan is made from.
    pub(super) fn given(&self) -> Given {
        Given {
            pages: self.levels.last().map_or(0, Level::pages) as u64,
            page_records: self.page_records,
            page_bits: 8 * u64::from(self.geometry.page_bytes).saturating_sub(HEADER_BYTES as u64),
            memtable: self.memtable.capacity() as u64,
            filter_bits: self.shares.filter as u64 * 8,
            levels_max: self.shares.levels,
            mix: self.mix,
        }
    }

    /// Chooses how many levels there are and how large, adds those that are missing, and has one that is too
    /// much drained.
    pub(super) fn choose_plan(&mut self) {
        let given = self.given();
        (self.planned_for, self.planned_mix) = (given.pages as usize, self.mix);
        let best = plan(&given);
        let wanted = match self.shares.fixed {
            true => self.shares.levels,
            false if self.mix.only_reads() => 1,
            false => best.levels,
        };
        while self.levels.len() < wanted {
            self.add_level();
        }
        let least = Plan { levels: self.levels.len(), pages_max: [1, 2], cost: u64::MAX };
        self.plan = plan_with(&given, self.levels.len()).unwrap_or(least);
        // Going to and fro costs a sweep each time.
        let is_worth_it = best.cost < self.plan.cost - self.plan.cost / 32 || self.mix.only_reads();
        let is_too_much = wanted < self.levels.len() && is_worth_it && !self.shares.fixed;
        self.drain = match self.drain {
            Drain::Off if is_too_much => Drain::Align,
            before if is_too_much => before,
            _ => Drain::Off,
        };
    }

    /// Puts an empty level above the last one. It takes over where the last one's sweep stands, so that what
    /// was taken from the level above it stays so.
    pub(super) fn add_level(&mut self) {
        let level = match self.levels.last() {
            Some(last) => Level { cursor: last.cursor.clone(), round: last.round, ..Level::default() },
            None => Level::default(),
        };
        let at = self.levels.len().saturating_sub(1);
        if at == 0 {
            // A mount that found one level made filters of its pages, which are another level's now and go
            // without being named here.
            self.filters.clear();
        }
        self.levels.insert(at, level);
    }
}
