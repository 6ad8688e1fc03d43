//! The units of a store: which are in use, and where a free one is sought.

use super::corrupted;
use crate::ordered::messages::ground::bits::Bits;
use alloc::vec::Vec;
use nandex::check::{IndexError, Invariant};
use nandex::units::Lpn;

/// The use of each unit: by the tree, by the committed tree, and by the attempt in hand. No store is needed
/// for it.
pub(in crate::ordered) struct Units {
    count: u32,
    live: Bits,
    kept: Bits,
    /// The live units when the attempt in hand began, which it may need again; else the live ones.
    before: Bits,
    live_units: u32,
    free_units: u32,
    /// Where the search for a free unit goes on.
    cursor: u32,
    /// Units that only a commit may take.
    pub(super) reserve: u32,
    /// Units of the committed state.
    of_state: Vec<u32>,
}

impl Units {
    pub(super) fn new(count: u32) -> Units {
        Units {
            count,
            live: Bits::new(count),
            kept: Bits::new(count),
            before: Bits::new(count),
            live_units: 0,
            free_units: count,
            cursor: 0,
            reserve: 0,
            of_state: Vec::new(),
        }
    }

    pub(in crate::ordered) const fn count(&self) -> u32 {
        self.count
    }

    /// Units in use.
    pub(in crate::ordered) const fn live(&self) -> u32 {
        self.live_units
    }

    /// Units of the committed state.
    pub(in crate::ordered) fn of_state(&self) -> u32 {
        self.of_state.len() as u32
    }

    /// Units that may be written now, but for those that a commit needs.
    pub(in crate::ordered) fn free_now(&self) -> u32 {
        self.free_units.saturating_sub(self.reserve)
    }

    /// The units free right after a commit, whose state may take all the units that are kept for it.
    pub(in crate::ordered) fn free_after_commit(&self) -> u32 {
        let of_tree = self.live_units - self.of_state();
        (self.count - of_tree).saturating_sub(2 * self.reserve)
    }

    pub(in crate::ordered) const fn reserve(&self) -> u32 {
        self.reserve
    }

    /// Units besides those of two states.
    pub(in crate::ordered) const fn for_tree(&self) -> u32 {
        self.count.saturating_sub(2 * self.reserve)
    }

    /// Takes a free unit, near the one taken before.
    pub(in crate::ordered) fn take(&mut self) -> Result<u32, IndexError> {
        if self.free_units <= self.reserve { Err(IndexError::Full) } else { self.take_any() }
    }

    /// Units that may not be written.
    fn used_word(&self, word: usize) -> u64 {
        self.live.0[word] | self.kept.0[word] | self.before.0[word]
    }

    /// Takes a free unit, for a commit.
    pub(super) fn take_any(&mut self) -> Result<u32, IndexError> {
        if self.free_units == 0 {
            return Err(IndexError::Full);
        }
        while self.used_word(self.cursor as usize / 64) >> (self.cursor % 64) & 1 == 1 {
            // Whole words in use are passed at once.
            let is_full = self.used_word(self.cursor as usize / 64) == u64::MAX;
            let step = if is_full { 64 - self.cursor % 64 } else { 1 };
            self.cursor += step;
            if self.cursor >= self.count {
                self.cursor = 0;
            }
        }
        let unit = self.cursor;
        debug_assert!(unit < self.count && !self.live.get(unit), "S3: unit {unit} is given out twice");
        self.use_free(unit);
        Ok(unit)
    }

    fn use_free(&mut self, unit: u32) {
        self.live.set(unit, true);
        self.live_units += 1;
        self.free_units -= 1;
    }

    /// Gives a unit up.
    pub(in crate::ordered) fn release(&mut self, unit: u32) {
        assert!(self.live.get(unit), "unit {unit} is given up twice");
        self.live.set(unit, false);
        self.live_units -= 1;
        self.free_units += u32::from(!self.kept.get(unit) && !self.before.get(unit));
    }

    /// At mount: a unit that the tree uses.
    pub(in crate::ordered) fn claim(&mut self, unit: u32) -> Result<(), IndexError> {
        if unit >= self.count || self.live.get(unit) {
            return Err(corrupted(Invariant::S3, "a unit is used twice, or beyond the store", Lpn(unit)));
        }
        self.use_free(unit);
        Ok(())
    }

    /// At mount: a unit of the committed state.
    pub(super) fn claim_of_state(&mut self, unit: u32) -> Result<(), IndexError> {
        self.claim(unit)?;
        self.of_state.push(unit);
        Ok(())
    }

    /// Puts the units of a new state in the place of the old ones, which are given up.
    pub(super) fn replace_state(&mut self, units: Vec<u32>) {
        let old = core::mem::replace(&mut self.of_state, units);
        old.into_iter().for_each(|unit| self.release(unit));
        self.hold();
    }

    /// Holds on to what is live: an attempt begins, which may need it again.
    pub(super) fn hold(&mut self) {
        self.before.0.copy_from_slice(&self.live.0);
    }

    /// Ends an attempt: what it left live is live, or what was before.
    pub(super) fn end(&mut self, is_done: bool) {
        if is_done {
            self.hold();
        } else {
            self.live.0.copy_from_slice(&self.before.0);
        }
        self.recount();
    }

    /// Keeps what is live: it is committed.
    pub(super) fn keep(&mut self) {
        self.kept.0.copy_from_slice(&self.live.0);
        self.recount();
    }

    fn recount(&mut self) {
        self.live_units = self.live.0.iter().map(|word| word.count_ones()).sum();
        let used: u32 = (0..self.words()).map(|word| self.used_word(word).count_ones()).sum();
        debug_assert!(self.live_units <= used && used <= self.count, "S3: {used} units are used");
        self.free_units = self.count - used;
    }

    pub(super) fn words(&self) -> usize {
        self.live.0.len()
    }

    /// Units that the attempt in hand gave up and no commit needs, as bits of a word.
    pub(super) fn given_up(&self, word: usize) -> u64 {
        self.before.0[word] & !self.live.0[word] & !self.kept.0[word]
    }

    /// Units that only the commit before needed, as bits of a word.
    pub(super) fn outlived(&self, word: usize) -> u64 {
        self.kept.0[word] & !self.live.0[word]
    }
}
