//! The step, the one primitive: it merges the records under a level's cursor and those of the level above in
//! the same range into one page, and the cursor moves.

use super::Core;
use super::carry::bytes_kept;
use super::drain::Drain;
use super::io::Target;
use super::level::Part;
use super::merge::{Bounds, Step};
use super::page::{HEADER_BYTES, Header};
use super::space::Need;
use crate::fault::IndexFault;
use crate::nand::Nand;
use crate::units::Ppn;
use core::mem;

/// Outcome of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome<'a> {
    pub(super) level: usize,
    /// Number of records of its page.
    pub(super) count: usize,
    /// Number of old pages used up.
    pub(super) used: usize,
    /// Number of records taken from the level above, and from the old pages.
    pub(super) taken: [usize; 2],
    /// Pages of the level above that are used up.
    pub(super) passed: &'a [(Part, Ppn)],
    /// The new cursor, which is the first key not merged. `None` at the end of all keys.
    pub(super) stop: Option<&'a [u8]>,
}

impl<N: Nand> Core<N> {
    /// True if a step finds a block for its page, after a commit if need be.
    pub(super) fn can_step(&mut self, level: usize) -> Result<bool, IndexFault> {
        let target = Target::Level(level);
        if !self.stock.has_place(target) && self.stock.space.blocks.left() > 0 {
            self.commit(false)?;
        }
        Ok(self.stock.has_place(target))
    }

    pub(super) fn step(&mut self, level: usize) -> Result<(), IndexFault> {
        if !self.can_step(level)? {
            return Err(self.stock.no_room());
        }
        let cause = self.medium.begin_merging();
        let mut done = self.step_once(level, None);
        // A sweep that always came just up to the next one would write a short page each time: so it passes
        // it at once.
        if done == Ok(true)
            && self.stock.levels.drain == Drain::Off
            && self.stock.has(Need::Sweep { level })
            && self.stock.has_place(Target::Level(level))
        {
            done = self.step_once(level, None);
        }
        self.medium.cause = cause;
        done.map(|_| ())
    }

    /// Makes one step, whose page ends before the key `end`. True if its page ended at the next level's
    /// cursor, or there, less than half full.
    pub(super) fn step_once(&mut self, level: usize, end: Option<&[u8]>) -> Result<bool, IndexFault> {
        let may_carry =
            end.is_none() && self.stock.commits.may_carry(self.medium.sequence, self.stock.levels.len());
        let kept = if may_carry { bytes_kept(self.medium.record, self.medium.output.len()) } else { 0 };
        let bounds = Bounds { slice: self.planner.shares.slice, kept, end };
        let (mut aside, mut passed) = (mem::take(&mut self.medium.aside), mem::take(&mut self.medium.passed));
        let step = self.sight().merged(level, bounds, (&mut aside, &mut passed));
        let done = step.and_then(|step| self.finish(&step));
        (self.medium.aside, self.medium.passed) = (aside, passed);
        done
    }

    /// Programs the page and removes its records from their old places.
    fn finish(&mut self, step: &Step<'_>) -> Result<bool, IndexFault> {
        let (level, count) = (step.level, step.count());
        let is_short = step.is_limited && (count as u64) < self.stock.levels.page_records / 2;
        // Records that were copied but not merged are no part of the page.
        let copies = step.above.hole(self.medium.stride());
        let stop = Some(&step.stop[..]).filter(|stop| !stop.is_empty());
        let (used, passed) = (step.below.used, step.above.passed());
        let outcome = Outcome { level, count, used, taken: step.taken, passed, stop };
        let mut written = None;
        if let Some(builder) = step.builder.filter(|_| count > 0) {
            self.medium.output[HEADER_BYTES..][copies].fill(0);
            // The change that the page carries must find room without another step.
            let from = &self.stock.levels[level].cursor;
            let takes = || match level {
                0 => self.stock.memtable.takes_without(from, stop, step.taken[0]),
                _ => self.stock.memtable.takes(2),
            };
            let ((front, back), key_bytes) = (builder.used(), self.medium.record.key_bytes);
            let gap = HEADER_BYTES + front..self.medium.output.len() - back;
            let may_carry = cfg!(feature = "full") && !is_short && step.bounds.kept > 0 && takes();
            let gap = self.medium.output.get_mut(gap).filter(|_| may_carry);
            let commits = gap.is_some_and(|gap| self.stock.commits.carry(gap, &outcome, key_bytes));
            let header = Header::run(count, level + 1 < self.stock.levels.len());
            written = Some(self.program(Target::Level(level), Header { commits, ..header })?);
        }
        self.take_over(&outcome, written);
        if written.is_some() {
            self.summarise_full(level)?;
        }
        self.stock.commits.dirty = true;
        self.stock.levels.keep_short(&self.planner.shares);
        Ok(is_short)
    }

    /// Enters the page of a step (in the output buffer, if it has one) and removes its records from their old
    /// places.
    pub(super) fn take_over(&mut self, outcome: &Outcome<'_>, written: Option<Ppn>) {
        let &Outcome { level, count, .. } = outcome;
        if let Some(ppn) = written {
            // The filter of the new page may use the bytes of the old pages' filters.
            for used in 0..if level == 0 { outcome.used } else { 0 } {
                let page = self.stock.levels[level].old.page(used);
                page.into_iter().for_each(|page| self.stock.levels.filters.remove(page));
            }
            self.adopt((level, Part::New), ppn, count, level + 1 < self.stock.levels.len());
        }
        self.counters.steps[level] += 1;
        let held = &mut self.stock.levels[level].records;
        *held = (*held + count).saturating_sub(outcome.taken[1]);
        match level.checked_sub(1) {
            None => self.stock.memtable.remove_range(&self.stock.levels[level].cursor, outcome.stop),
            Some(upper) => {
                let held = &mut self.stock.levels[upper].records;
                *held = held.saturating_sub(outcome.taken[0]);
                for &(part, ppn) in outcome.passed {
                    self.drop_page(upper, part, ppn);
                }
            }
        }
        for _ in 0..outcome.used {
            if let Some(ppn) = self.stock.levels[level].old.page(0) {
                self.drop_page(level, Part::Old, ppn);
            }
        }
        match outcome.stop {
            Some(stop) => self.stock.levels[level].move_to(stop),
            None => self.stock.levels[level].wrap(),
        }
    }

    fn drop_page(&mut self, level: usize, part: Part, ppn: Ppn) {
        self.stock.levels.drop_page(level, part, ppn);
        self.stock.space.leave_if_dead(self.stock.geometry.block_of(ppn), &self.stock.levels);
    }
}
