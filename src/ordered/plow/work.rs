//! The work of an operation: one step while there is room enough, and an erase where none is due.

use super::Core;
use super::drain::Drain;
use super::space::Need;
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand};

/// Erased blocks that are kept ready, so that an operation with a step need not wait for an erase.
pub(super) const READY: usize = 2;

impl<N: Nand> Core<N> {
    /// The work of an operation: a step where something is full, else an erase where none is ready.
    pub(super) fn work(&mut self) -> Result<(), IndexFault> {
        let mut stepped = false;
        // A step may meet a range in which nothing waits: then the next operation makes another one.
        while self.stock().is_memtable_full() || !stepped && self.memtable.is_nearly_full(self.to_be_lent()) {
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
        if !stepped && self.space.blocks.ready() < READY {
            self.space.blocks.prepare(&mut self.medium.nand, Cause::GarbageCollection)?;
        }
        Ok(())
    }

    /// A step of each level that waited for its turn until the one above it had half more pages than it may,
    /// and two. Where pages hold few records, changes take more than a step each: a level that grew because
    /// it never had one would make the steps of those above it dearer still.
    fn catch_up(&mut self) -> Result<bool, IndexFault> {
        let mut stepped = false;
        for below in 1..self.levels.len() {
            if self.planner.is_above_far_too_full(&self.levels, below)
                && self.stock().has(Need::Sweep { level: below })
            {
                self.step(below)?;
                stepped = true;
                if self.commits.carried {
                    break;
                }
            }
        }
        Ok(stepped)
    }

    /// Whether the next step drains the level that is being removed, rather than adding records to it.
    /// `full` is the level whose step is due, if any. With none due, draining goes on only while blocks are
    /// plentiful.
    fn drains_instead(&self, full: Option<usize>) -> bool {
        if !cfg!(feature = "full") || !matches!(self.levels.drain, Drain::Sweep(_)) {
            return false;
        }
        match full {
            Some(below) => {
                below + 2 == self.levels.len() && !self.planner.is_above_far_too_full(&self.levels, below)
            }
            None => self.levels.drains_next(true) + 1 == self.levels.len() && self.stock().has(Need::Ahead),
        }
    }

    /// A step where a level is full, or of one that goes or holds weak pages; whether there was one.
    pub(super) fn work_below(&mut self) -> Result<bool, IndexFault> {
        if self.stock().is_much_sealed() {
            self.step(0)?;
            return Ok(true);
        }
        let full = (1..self.levels.len()).find(|&below| self.planner.is_above_full(&self.levels, below));
        if self.drains_instead(full) && self.stock().has(Need::Sweep { level: self.levels.drains_next(true) })
        {
            self.drain_step(true)?;
            self.replan();
            return Ok(true);
        }
        if let Some(below) = full.filter(|&below| self.stock().has(Need::Sweep { level: below })) {
            self.step(below)?;
            self.replan();
            return Ok(true);
        }
        self.replan();
        self.rewrite_weak()
    }

    /// A step of the level that holds pages which come due, until its sweep has written their records anew;
    /// whether there was one.
    pub(super) fn rewrite_weak(&mut self) -> Result<bool, IndexFault> {
        let Some(due) = self.medium.weak.clone().filter(|_| self.stock().has(Need::Ahead)) else {
            return Ok(false);
        };
        let level = self.levels.iter().position(|level| level.uses(due.start, due.end));
        let Some(level) = level else {
            self.medium.weak = None;
            return Ok(false);
        };
        self.counters.scrubbed += 1;
        let before = core::mem::replace(&mut self.medium.cause, Cause::Scrubbing);
        let stepped = self.step(level);
        self.medium.cause = before;
        stepped.map(|()| true)
    }
}
