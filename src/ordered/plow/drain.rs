//! Leaving a level out: where look-ups prevail, each level that holds anything costs them a read.
//!
//! The level above the last is drained into it, step by step, paid by what look-ups read in vain. It can go
//! only when it is empty *and* its cursor is that of the last level, because the page of the level above that
//! lies around the cursor of the next one is dead below it: with equal cursors that stays true. So first its
//! own sweep goes on to where the last level's stands, and then the last level's goes round once.

use super::Plow;
use super::cost::{READ, STEP};
use super::room::READY;
use crate::fault::IndexFault;
use crate::nand::Nand;

/// The credit that pays for a step.
const PAID: u32 = STEP as u32;

/// How far a level is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drain {
    /// The level stays.
    Off,
    /// The sweep of the level goes on to the cursor of the last level.
    Align,
    /// The last level's sweep takes what it holds.
    Sweep,
}

impl<N: Nand> Plow<N> {
    /// Books a page of a level that a look-up read in vain.
    pub(super) fn book_in_vain(&mut self, pages: u32) {
        if !cfg!(feature = "planning") {
            return;
        }
        // Where nothing changes any more, what a step saves is saved for good. Two steps are enough of a
        // reserve.
        let worth = if self.mix.only_reads() { 2 } else { 1 };
        self.credit = (self.credit + worth * pages * READ as u32).min(2 * PAID);
    }

    /// A step towards leaving a level out, if look-ups paid for it.
    pub(super) fn drain_when_paid(&mut self) -> Result<(), IndexFault> {
        if !cfg!(feature = "planning") {
            return Ok(());
        }
        if self.mix.count(1, 0) {
            self.replan_for_mix();
        }
        let is_to_be_lent = self.to_be_lent() > 0;
        if is_to_be_lent {
            self.credit = (self.credit + READ as u32 / 4).min(2 * PAID);
        }
        if (self.drain != Drain::Off || is_to_be_lent) && self.credit >= PAID && self.is_roomy() {
            self.credit -= PAID;
            if self.blocks.ready() < READY.min(self.blocks.free()) {
                return self.blocks.prepare(&mut self.nand, crate::nand::Cause::GarbageCollection);
            }
            if self.drain == Drain::Off {
                return self.step(0);
            }
            self.drain_step()?;
        }
        Ok(())
    }

    pub(super) fn drain_step(&mut self) -> Result<(), IndexFault> {
        let Some(upper) = self.levels.len().checked_sub(2) else {
            self.drain = Drain::Off;
            return Ok(());
        };
        let is_aligned = |plow: &Plow<N>| plow.levels[upper].cursor == plow.levels[upper + 1].cursor;
        if self.drain == Drain::Align && is_aligned(self) {
            self.drain = Drain::Sweep;
            if self.levels[upper].pages() == 0 {
                self.leave_level_out(upper);
                return Ok(());
            }
        }
        self.step(if self.drain == Drain::Align { upper } else { upper + 1 })?;
        if self.drain == Drain::Sweep && self.levels[upper].pages() == 0 && is_aligned(self) {
            self.leave_level_out(upper);
        }
        Ok(())
    }

    /// Takes out a level that is empty and whose cursor is that of the next one.
    fn leave_level_out(&mut self, upper: usize) {
        let gone = self.levels.remove(upper);
        if let Some((block, _)) = gone.open {
            self.leave_if_dead(block);
        }
        if upper == 0 {
            // Sealed pages say where the first sweep stood: the one that is first now goes on from there.
            self.levels[0].round = gone.round;
            self.filters.clear();
        }
        self.dirty = true;
        self.counters.drained += 1;
        self.drain = Drain::Off;
        self.choose_plan();
    }
}
