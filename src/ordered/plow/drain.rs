//! Removal of a level. If look-ups prevail, each level that is not empty costs them a read.
//!
//! The level above the last is drained into the last, step by step. The budget is the time of look-ups' reads
//! that found nothing there. The level is removed only when it is empty *and* its cursor equals that of the
//! last level. The reason: the part of the level's page behind the next level's cursor is dead, and this
//! stays true only with equal cursors. So first the level's own sweep advances to the last level's cursor,
//! and then the last level's sweep goes round once.
//!
//! Meanwhile changed records bring the level new pages. So it takes no step if the level above it can wait,
//! and the last level's sweep does not pass the level's cursor but follows it. New pages then always lie
//! before the sweep.

use super::Core;
use super::cost::READ;
use super::level::Level;
use super::levels::Levels;
use super::planner::PAID;
use super::room::READY;
use super::space::Need;
use crate::fault::IndexFault;
use crate::nand::Nand;

/// Progress of the removal of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drain {
    /// No level is being removed.
    Off,
    /// The sweep of the level advances to the cursor of the last level.
    Align,
    /// The last level's sweep takes the level's records.
    Sweep(Since),
}

/// Rounds of the two sweeps when they met, modulo 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Since {
    /// Rounds by which the level being removed was ahead of the last level.
    ahead: u8,
    /// Round of the last level.
    round: u8,
}

/// After this many rounds the level stays: more changes reach it than look-ups pay for.
const ROUNDS_MAX: u8 = 3;

impl Since {
    fn new(upper: &Level, last: &Level) -> Since {
        Since { ahead: upper.round.wrapping_sub(last.round) as u8, round: last.round as u8 }
    }

    /// True if the sweep of the level being removed is before that of the last level.
    fn is_ahead(self, upper: &Level, last: &Level) -> bool {
        match (upper.round.wrapping_sub(last.round) as u8).wrapping_sub(self.ahead) as i8 {
            0 => upper.cursor > last.cursor,
            rounds => rounds > 0,
        }
    }

    fn is_long_ago(self, last: &Level) -> bool {
        (last.round as u8).wrapping_sub(self.round) >= ROUNDS_MAX
    }
}

impl<N: Nand> Core<N> {
    /// Makes a step towards the removal of a level, if look-ups paid for it. The look-up before stays right
    /// even if the step is refused, or meets a damaged page.
    pub(super) fn drain_when_paid(&mut self) -> Result<(), IndexFault> {
        if !cfg!(feature = "full") {
            return Ok(());
        }
        match self.pay_for_drain() {
            Err(error) if error.is_refusal() || error.is_loss() => Ok(()),
            done => done,
        }
    }

    fn pay_for_drain(&mut self) -> Result<(), IndexFault> {
        self.medium.require_numbers()?;
        self.count(1, 0);
        let is_to_be_lent = self.to_be_lent() > 0;
        if is_to_be_lent {
            self.planner.book(READ as u32 / 4);
        }
        let is_wanted = self.stock.levels.drain != Drain::Off || is_to_be_lent;
        if is_wanted && self.planner.credit >= PAID && self.stock.has(Need::Ahead) {
            self.planner.credit -= PAID;
            if self.stock.space.blocks.ready() < READY.min(self.stock.space.blocks.erasable()) {
                return self
                    .stock
                    .space
                    .blocks
                    .prepare(&mut self.medium.nand, crate::nand::Cause::GarbageCollection);
            }
            if self.stock.levels.drain == Drain::Off {
                return self.step(0);
            }
            self.drain_step(true)?;
        }
        Ok(())
    }

    pub(super) fn drain_step(&mut self, follows: bool) -> Result<(), IndexFault> {
        let Some(upper) = self.stock.levels.len().checked_sub(2) else {
            self.stock.levels.drain = Drain::Off;
            return Ok(());
        };
        let is_aligned = |levels: &Levels| levels[upper].cursor == levels[upper + 1].cursor;
        if self.stock.levels.drain == Drain::Align && is_aligned(&self.stock.levels) {
            self.stock.levels.drain =
                Drain::Sweep(Since::new(&self.stock.levels[upper], &self.stock.levels[upper + 1]));
            if self.stock.levels[upper].pages() == 0 {
                self.leave_level_out(upper);
                return Ok(());
            }
        }
        self.step(self.stock.levels.drains_next(follows))?;
        let Drain::Sweep(since) = self.stock.levels.drain else { return Ok(()) };
        if self.stock.levels[upper].pages() == 0 && is_aligned(&self.stock.levels) {
            self.leave_level_out(upper);
        } else if follows && since.is_long_ago(&self.stock.levels[upper + 1]) {
            self.stock.levels.drain = Drain::Off;
        }
        Ok(())
    }

    /// Removes an empty level whose cursor equals that of the next one.
    fn leave_level_out(&mut self, upper: usize) {
        if let Some(block) = self.stock.levels.leave_out(upper) {
            self.stock.space.leave_if_dead(block, &self.stock.levels);
        }
        self.stock.commits.dirty = true;
        self.counters.drained += 1;
        self.stock.levels.drain = Drain::Off;
        self.choose_plan();
    }
}

impl Levels {
    /// The level whose step is next. If records may change meanwhile (`follows`), the sweep of the last level
    /// stays behind that of the other level; otherwise it passes it.
    pub(super) fn drains_next(&self, follows: bool) -> usize {
        let last = self.len() - 1;
        let is_upper = match self.drain {
            Drain::Sweep(since) => {
                cfg!(feature = "full") && follows && !since.is_ahead(&self[last - 1], &self[last])
            }
            _ => true,
        };
        last - usize::from(is_upper)
    }
}
