//! Keeping room: one step an operation while there is enough of it, and as many as it takes where blocks are
//! short.

use super::Plow;
use super::commit::{ROOT_BLOCK_BYTES, SEALS};
use super::cost::{Given, LEVELS_MAX, Plan, plan, plan_with};
use super::drain::Drain;
use super::level::Level;
use super::map;
use super::page::HEADER_BYTES;
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand};

/// Erased blocks that are kept ready, so that an operation with a step need not wait for an erase.
pub(super) const READY: usize = 2;
/// Blocks with which sweeps go on, whatever is open: one for commit pages, and three for pages. When two are
/// written, one of two blocks is dead whose pages they took, wherever in these the sweeps stood; the third is
/// for pages that do not take as many records as those before them did.
pub(super) const SWEEP_BLOCKS: usize = 4;
/// Blocks of a level at most that shares the blocks it writes to.
const SHARED_BLOCKS: usize = 4;
/// Records, or as many as there are changes, that fit beside any root where the memtable is empty; else a
/// sealed page is always reckoned with.
const RECORDS_MIN: usize = 4;
/// Pages of a level that one operation may write, its summary among them.
const OPERATION_PAGES: u32 = 4;

impl<N: Nand> Plow<N> {
    /// Blocks that steps leave to the next commit: one for its page, and those of the pages that it seals.
    pub(super) fn kept_back(&self) -> usize {
        1 + self.sealed_blocks_next()
    }

    /// Blocks with which sweeps go on, those of a new map among them.
    pub(super) fn sweep_blocks(&self) -> usize {
        let apart = if self.uppers_share() { 0 } else { self.levels.len().saturating_sub(2) };
        SWEEP_BLOCKS + apart + self.map_pages_next().div_ceil(self.geometry.pages_per_block as usize)
    }

    /// Whether the levels above the last are so small that they write to one block where blocks are short. A
    /// block of pages of several levels is dead when the sweeps of all of them have passed it: of a level of
    /// many blocks many would be half dead.
    fn uppers_share(&self) -> bool {
        let most = SHARED_BLOCKS * self.geometry.pages_per_block as usize;
        let last = self.levels.len().saturating_sub(1);
        self.levels[..last].iter().all(|level| level.pages() <= most)
    }

    /// Blocks that an insertion leaves free: those that the sweeps of removals need, and one for a step,
    /// where it begins a block.
    pub(super) fn reserve(&self) -> usize {
        let last = self.levels.len().saturating_sub(1);
        let lasts = |level: &Level| {
            level.open.is_some_and(|(_, next)| next + OPERATION_PAGES <= self.geometry.pages_per_block)
        };
        let (upper, lowest) = self.levels.split_at(last);
        let begins = !lowest.iter().all(lasts) || !upper.is_empty() && !upper.iter().any(lasts);
        self.sweep_blocks() + usize::from(begins)
    }

    /// Whether blocks are so few that the levels above the last one write to one block.
    fn is_short(&self) -> bool {
        self.blocks.free() < self.kept_back() + SWEEP_BLOCKS
    }

    /// The level whose open block the pages of this one go to, if it has none of its own: where blocks are
    /// short, that of another one above the last, and where there are no more, any other.
    pub(super) fn lender(&self, level: usize) -> Option<usize> {
        let last = self.levels.len() - 1;
        let is_out = self.blocks.free() <= self.kept_back();
        if self.levels[level].open.is_some() || !self.is_short() {
            return None;
        }
        let shares = self.uppers_share();
        let mut lender: Option<(u32, usize)> = None;
        for (other, of_other) in self.levels.iter().enumerate() {
            let lends = other != level && (is_out || shares && level != last && other != last);
            if let Some((_, used)) = of_other.open.filter(|_| lends)
                && lender.is_none_or(|(least, _)| used < least)
            {
                lender = Some((used, other));
            }
        }
        lender.map(|(_, other)| other)
    }

    /// Whether a step of a level begins a block.
    fn begins_block(&self, level: usize) -> bool {
        self.levels[level].open.is_none() && self.lender(level).is_none()
    }

    /// Whether there is what sweeps need.
    fn has_sweep_blocks(&self) -> bool {
        self.blocks.free() + self.blocks.left() >= self.sweep_blocks() + self.dissolved_blocks()
    }

    /// Whether a step of a level leaves what sweeps need.
    pub(super) fn leaves_enough(&self, level: usize) -> bool {
        let free = self.blocks.free() + self.blocks.left();
        !self.begins_block(level) || free > self.sweep_blocks() + self.dissolved_blocks()
    }

    /// Whether there is more room than an insertion needs; blocks that a commit gives back are room.
    pub(super) fn is_roomy(&self) -> bool {
        self.has_room() && self.blocks.free() + self.blocks.left() > self.reserve() + self.kept_back()
    }

    fn has_room(&self) -> bool {
        self.has_room_for(1)
    }

    /// Whether so many records more find room for good.
    pub(super) fn has_room_for(&self, more: usize) -> bool {
        let dissolved = self.dissolved_blocks_with(more);
        self.blocks.free() + self.blocks.left() >= self.reserve() + dissolved && !self.is_root_long(dissolved)
    }

    /// Bytes that a root may take of a commit page.
    pub(super) fn root_max(&self) -> usize {
        let room = self.geometry.page_bytes as usize - HEADER_BYTES;
        // With a map it can be made shorter.
        if self.map().is_some() { room / 2 } else { room * 3 / 4 }
    }

    /// Whether the root leaves too little of a commit page once the memtable is in so many blocks more.
    fn is_root_long(&self, dissolved: usize) -> bool {
        let room = self.root_max().saturating_sub(dissolved * ROOT_BLOCK_BYTES);
        self.root_bytes_max() > room && self.root_bytes() > room
    }

    /// Bytes that the root takes at most.
    fn root_bytes_max(&self) -> usize {
        let extents: usize =
            self.levels.iter().map(|level| level.old.extents().len() + level.new.extents().len()).sum();
        // No extent takes more than thirteen bytes.
        extents * 13 + 32 + LEVELS_MAX * (24 + usize::from(self.record.key_bytes))
    }

    /// Makes sure that so many changes can be written. Insertions are refused where they take the last
    /// blocks; removals are not.
    pub(super) fn make_room(&mut self, inserts: bool, changes: usize) -> Result<(), IndexFault> {
        self.require_numbers()?;
        if !self.has_room_for(changes) {
            self.find_room(inserts, changes)?;
        }
        if self.blocks.free() <= self.levels.len() + self.kept_back() && self.blocks.left() > 0 {
            self.commit(false)?;
        }
        Ok(())
    }

    /// Makes room by all means there are, the cheapest first.
    fn find_room(&mut self, inserts: bool, changes: usize) -> Result<(), IndexFault> {
        if self.clean || self.is_map_due() {
            // A close left its commit page in two blocks; a long root becomes short.
            self.commit(false)?;
        }
        if !self.has_room_for(changes) {
            self.dissolve(changes)?;
        }
        // Removals are taken whatever room there is.
        let more = if inserts { changes } else { 1 };
        // Where that was of no use, it is not until something more was changed.
        let is_due = self.changes.abs_diff(self.relieved_in_vain) >= self.page_records.div_ceil(16);
        if !self.has_room_for(more) && is_due {
            self.relieve(more)?;
            self.relieved_in_vain = if self.has_room_for(more) { u64::MAX } else { self.changes };
        }
        if !self.has_room_for(more) && self.is_crowded() {
            self.give_level_up()?;
        }
        let may_sweep = self.changes * 4 >= self.page_records || self.is_stuck(inserts);
        if !self.has_room_for(more) && may_sweep {
            self.sweep_all(more)?;
            // What was in sealed pages has left the memtable.
            if !self.has_room_for(more) {
                self.dissolve(changes)?;
            }
        }
        // Of several changes some may replace what waits: whether all had room shows when they wait.
        if inserts && !self.has_room() { Err(self.no_room()) } else { Ok(()) }
    }

    /// Whether a removal would need a step that takes the blocks of the sweeps.
    fn is_stuck(&self, inserts: bool) -> bool {
        let is_full = self.memtable.is_nearly_full(0) || !self.fits_for_good(self.memtable.len() + 1);
        !inserts && is_full && !self.leaves_enough(0)
    }

    /// Has the first sweep go on until the memtable fits into a commit page with so many changes more, and
    /// does without sealed pages: where blocks are short, a memtable is no larger than that. So what an
    /// insertion must leave free does not depend on the RAM, nor on the mounts since, each of which begins
    /// another block of sealed pages.
    fn dissolve(&mut self, changes: usize) -> Result<(), IndexFault> {
        let is_small = self.commits.sealed_pages() == 0 && self.fits_for_good(self.memtable.len() + changes);
        let few = changes.min(if self.map().is_some() { map::RECORDS_MIN } else { RECORDS_MIN });
        // Where roots may fill a page, there are sealed pages at all times.
        if is_small || self.memtable.len() > 0 && !self.fits_for_good(few) {
            return Ok(());
        }
        let round = self.levels[0].round;
        while self.memtable.len() > 0 && !self.fits_for_good(self.memtable.len() + changes) {
            let leaves_enough =
                !self.begins_block(0) || self.blocks.free() + self.blocks.left() > self.sweep_blocks();
            if self.levels[0].round.wrapping_sub(round) >= 2 || !leaves_enough || !self.can_step(0)? {
                return Ok(());
            }
            self.step(0)?;
        }
        self.commits.forget_sealed();
        self.memtable.unseal_all();
        // What is open is needed no longer, so the commit gives it back.
        self.commits.open_sealed = None;
        self.commit(false)
    }

    /// Steps until there is room, always of the level whose next block is free after the fewest, as long as
    /// one has a block more than its pages take.
    fn relieve(&mut self, changes: usize) -> Result<(), IndexFault> {
        let steps_max = 2 * self.levels.iter().map(Level::pages).sum::<usize>() + 8;
        for _ in 0..steps_max {
            let Some(level) = self.level_with_holes() else { return Ok(()) };
            if self.has_room_for(changes) || !self.is_worth_it(level) || !self.can_step(level)? {
                return Ok(());
            }
            self.counters.relieved += 1;
            self.step(level)?;
        }
        Ok(())
    }

    /// Whether steps of a level give as many blocks back as they begin.
    fn is_worth_it(&self, level: usize) -> bool {
        let pages = self.pages_of_next_block(level) as u32 + OPERATION_PAGES;
        self.leaves_enough(level) || self.has_sweep_blocks() && pages <= self.geometry.pages_per_block
    }

    fn level_with_holes(&self) -> Option<usize> {
        let pages_per_block = self.geometry.pages_per_block;
        let has_holes = |level: &Level| {
            let blocks = level.blocks(pages_per_block).len();
            let spare = (blocks * pages_per_block as usize).saturating_sub(level.pages());
            level.pages() > 0 && blocks > 1 && spare >= pages_per_block as usize
        };
        (0..self.levels.len())
            .filter(|&level| has_holes(&self.levels[level]))
            .min_by_key(|&level| self.pages_of_next_block(level))
    }

    /// Pages in the block that holds the page under the cursor of a level.
    fn pages_of_next_block(&self, level: usize) -> usize {
        let of_level = &self.levels[level];
        let Some(page) = of_level.old.page(0).or_else(|| of_level.new.page(0)) else { return 0 };
        let (block, mut pages) = (self.geometry.block_of(page), 0);
        for run in [&of_level.old, &of_level.new] {
            for extent in run.extents() {
                if self.geometry.block_of(extent.first()) == block {
                    pages += extent.pages();
                }
            }
        }
        pages
    }

    /// Whether so many levels are more than the blocks are good for, with what their sweeps leave half used.
    fn is_crowded_with(&self, levels: usize) -> bool {
        let pages_per_block = self.geometry.pages_per_block as usize;
        let pages = self.levels.last().map_or(0, Level::pages);
        let last = pages.div_ceil(pages_per_block.saturating_sub(1).max(1)) + 1;
        // The first level takes a few pages, the others come up to two blocks.
        let uppers = (2 * levels).saturating_sub(3).max(usize::from(levels > 1));
        last + uppers + 1 + 3 + self.dissolved_blocks() > self.blocks.good()
    }

    fn is_crowded(&self) -> bool {
        let levels = self.levels.len();
        levels > 1 && !self.shares.fixed && self.is_crowded_with(levels)
    }

    /// Levels at most that the blocks are good for.
    fn levels_by_room(&self) -> usize {
        let held = self.levels.len();
        // A level that comes and goes costs a sweep each time.
        let spared = |levels: usize| levels > held && self.is_crowded_with(levels + 1);
        (2..=self.shares.levels).rev().find(|&n| !self.is_crowded_with(n) && !spared(n)).unwrap_or(1)
    }

    /// Merges the level above the last into it, for want of room.
    fn give_level_up(&mut self) -> Result<(), IndexFault> {
        self.choose_plan();
        let levels = self.levels.len();
        let steps_max = 3 * self.levels.iter().map(Level::pages).sum::<usize>() + 8;
        for _ in 0..steps_max {
            if self.drain == Drain::Off || self.levels.len() < levels {
                return Ok(());
            }
            let next = self.drains_next(false);
            if self.begins_block(next) && !self.has_sweep_blocks() || !self.can_step(next)? {
                return Ok(());
            }
            self.drain_step(false)?;
        }
        Ok(())
    }

    /// Sweeps the levels until so many changes find room: the last one first, which takes what the level
    /// above it holds, so that pages are given back from the first on. Then as many more, from the last one
    /// up, until all is in the last level, and what is dead or double is gone. Before all of them a level
    /// above the last whose pages lie in many blocks, as they do after some mounts: else the sweep of the
    /// last level may take many of these pages until a block is dead.
    fn sweep_all(&mut self, changes: usize) -> Result<(), IndexFault> {
        self.counters.sweeps += 1;
        self.changes = 0;
        self.sweeping = true;
        let done = self.sweep_up(changes);
        self.sweeping = false;
        done
    }

    fn sweep_up(&mut self, changes: usize) -> Result<(), IndexFault> {
        for level in (0..self.levels.len().saturating_sub(1)).rev() {
            if self.is_spread(level) {
                self.sweep(level)?;
                self.close_empty_levels();
            }
        }
        for first in (0..self.levels.len()).rev() {
            for level in first..self.levels.len() {
                self.sweep(level)?;
                self.close_empty_levels();
            }
            if self.has_room_for(changes) {
                break;
            }
        }
        Ok(())
    }

    /// Whether a level of few pages lies in two blocks more than they take, of which one is dead before those
    /// that are free are full. Levels of many blocks always do, and are swept with a block more.
    fn is_spread(&self, level: usize) -> bool {
        let pages_per_block = self.geometry.pages_per_block;
        let of_level = &self.levels[level];
        let free = (self.blocks.free() + self.blocks.left()).saturating_sub(self.kept_back());
        self.uppers_share()
            && of_level.blocks(pages_per_block).len()
                > of_level.pages().div_ceil(pages_per_block as usize) + 1
            && self.pages_of_next_block(level) < free * pages_per_block as usize
    }

    /// One round of a level.
    fn sweep(&mut self, level: usize) -> Result<(), IndexFault> {
        let (round, from) = (self.levels[level].round, self.levels[level].cursor.clone());
        let is_behind = |level: &Level| match level.round.wrapping_sub(round) {
            0 => true,
            1 => level.cursor < from,
            _ => false,
        };
        while is_behind(&self.levels[level]) && self.can_step(level)? {
            self.step(level)?;
        }
        Ok(())
    }

    /// Gives the open blocks of levels that hold nothing back.
    fn close_empty_levels(&mut self) {
        for level in 0..self.levels.len() {
            if self.levels[level].pages() == 0
                && let Some((block, _)) = self.levels[level].open.take()
            {
                self.leave_if_dead(block);
            }
        }
    }

    /// Whether a step finds a block for its page, after a commit if need be.
    fn can_step(&mut self, level: usize) -> Result<bool, IndexFault> {
        let target = super::io::Target::Level(level);
        if !self.has_place(target) && self.blocks.left() > 0 {
            self.commit(false)?;
        }
        Ok(self.has_place(target))
    }

    /// Whether the memtable takes no record more: it is full, or another would not fit beside the root and
    /// none can be sealed.
    fn is_memtable_full(&self) -> bool {
        let more = self.memtable.len() + 1;
        self.memtable.is_full()
            || !SEALS && !self.fits_beside(more, self.root_bytes_max()) && !self.fits_beside_root(more)
    }

    /// The work of an operation: a step where something is full, else an erase where none is ready.
    pub(super) fn work(&mut self) -> Result<(), IndexFault> {
        let mut stepped = false;
        // A step may meet a range in which nothing waits: then the next operation makes another one.
        while self.is_memtable_full() || !stepped && self.memtable.is_nearly_full(self.to_be_lent()) {
            if !self.sink()? {
                self.step(0)?;
            }
            stepped = true;
            // The operation is done: nothing may fail behind that.
            if self.commits.carried {
                return Ok(());
            }
        }
        if !stepped {
            stepped = self.work_below()?;
        }
        if self.commits.carried {
            return Ok(());
        }
        stepped |= self.catch_up()?;
        if !stepped && self.blocks.ready() < READY {
            self.blocks.prepare(&mut self.nand, Cause::GarbageCollection)?;
        }
        Ok(())
    }

    /// A step of each level that waited for its turn until the one above it had half more pages than it may,
    /// and two. Where pages hold few records, changes take more than a step each: a level that grew because
    /// it never had one would make the steps of those above it dearer still.
    fn catch_up(&mut self) -> Result<bool, IndexFault> {
        let mut stepped = false;
        for below in 1..self.levels.len() {
            if self.is_above_far_too_full(below) && self.leaves_enough(below) {
                self.step(below)?;
                stepped = true;
                if self.commits.carried {
                    break;
                }
            }
        }
        Ok(stepped)
    }

    /// Whether the level above one holds more than the plan gives it.
    fn is_above_full(&self, below: usize) -> bool {
        let (above, planned) = (&self.levels[below - 1], self.pages_planned(below - 1));
        // Pages count too, for filters and fences are theirs.
        above.records > planned * self.page_records as usize || above.pages() > 2 * planned + 2
    }

    /// Whether it holds half more pages than that, and two.
    fn is_above_far_too_full(&self, below: usize) -> bool {
        let (pages, planned) = (self.levels[below - 1].pages(), self.pages_planned(below - 1));
        2 * pages > 3 * planned + 4 && self.is_above_full(below)
    }

    fn pages_planned(&self, level: usize) -> usize {
        self.plan.pages_max[level].max(1) as usize
    }

    /// Whether the next step drains the level that is being removed, rather than adding records to it.
    /// `full` is the level whose step is due, if any. With none due, draining goes on only while blocks are
    /// plentiful.
    fn drains_instead(&self, full: Option<usize>) -> bool {
        if !cfg!(feature = "full") || !matches!(self.drain, Drain::Sweep(_)) {
            return false;
        }
        match full {
            Some(below) => below + 2 == self.levels.len() && !self.is_above_far_too_full(below),
            None => self.drains_next(true) + 1 == self.levels.len() && self.is_roomy(),
        }
    }

    pub(super) fn work_below(&mut self) -> Result<bool, IndexFault> {
        if self.commits.sealed_pages() > self.sealed_max() {
            self.step(0)?;
            return Ok(true);
        }
        let full = (1..self.levels.len()).find(|&below| self.is_above_full(below));
        if self.drains_instead(full) && self.leaves_enough(self.drains_next(true)) {
            self.drain_step(true)?;
            self.replan();
            return Ok(true);
        }
        if let Some(below) = full.filter(|&below| self.leaves_enough(below)) {
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

    /// A step of the level that holds pages which come due, until its sweep has written their records anew;
    /// whether there was one.
    pub(super) fn scrub(&mut self) -> Result<bool, IndexFault> {
        let Some(due) = self.weak.clone().filter(|_| self.is_roomy()) else { return Ok(false) };
        let level = self.levels.iter().position(|level| level.uses(due.start, due.end));
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
            memtable: self.memtable.likely_capacity() as u64,
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
            false => best.levels.min(self.levels_by_room()),
        };
        while self.levels.len() < wanted {
            self.add_level();
        }
        let least = Plan { levels: self.levels.len(), pages_max: [1, 2], cost: u64::MAX };
        let cheapest = plan_with(&given, self.levels.len()).unwrap_or(least);
        self.plan = cheapest.near(self.plan, &given);
        // Going to and fro costs a sweep each time, and the model is right to a twentieth.
        let is_worth_it =
            best.cost < self.plan.cost - self.plan.cost / 16 || self.mix.only_reads() || self.is_crowded();
        let is_too_much = wanted < self.levels.len() && is_worth_it && !self.shares.fixed;
        if cfg!(feature = "full") && is_too_much && !self.is_crowded() {
            // While it goes, the first level may come to its size without it.
            let next = plan_with(&given, self.levels.len() - 1).unwrap_or(least);
            self.plan.pages_max[0] = self.plan.pages_max[0].max(next.pages_max[0]);
        }
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
