//! The units of a store: which are in use, and the search for a free one.

use super::corrupted;
use crate::ordered::messages::ground::bits::Bits;
use alloc::vec::Vec;
use nandex::check::{IndexError, Invariant};
use nandex::units::Lpn;

/// The use of each unit: by the tree, by the committed tree, and by the present attempt. It works without
/// the store.
pub(in crate::ordered) struct Units {
    count: u32,
    live: Bits,
    kept: Bits,
    /// The units that were live when the present attempt began, since it may need them again. Outside an
    /// attempt the same as `live`.
    before: Bits,
    live_units: u32,
    free_units: u32,
    /// The unit at which the next search for a free one begins.
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

    pub(in crate::ordered) const fn live(&self) -> u32 {
        self.live_units
    }

    pub(in crate::ordered) fn of_state(&self) -> u32 {
        self.of_state.len() as u32
    }

    /// Number of units that may be written now: the free ones without those reserved for a commit.
    pub(in crate::ordered) fn free_now(&self) -> u32 {
        self.free_units.saturating_sub(self.reserve)
    }

    /// Units free right after a commit whose state takes all units reserved for it.
    pub(in crate::ordered) fn free_after_commit(&self) -> u32 {
        let of_tree = self.live_units - self.of_state();
        (self.count - of_tree).saturating_sub(2 * self.reserve)
    }

    pub(in crate::ordered) const fn reserve(&self) -> u32 {
        self.reserve
    }

    /// Units of the store, without those of two states.
    pub(in crate::ordered) const fn for_tree(&self) -> u32 {
        self.count.saturating_sub(2 * self.reserve)
    }

    /// Takes a free unit, near the last one taken.
    pub(in crate::ordered) fn take(&mut self) -> Result<u32, IndexError> {
        if self.free_units <= self.reserve { Err(IndexError::NO_BLOCK) } else { self.take_any() }
    }

    /// A word of bits of the units that may not be written.
    fn used_word(&self, word: usize) -> u64 {
        self.live.0[word] | self.kept.0[word] | self.before.0[word]
    }

    /// Takes a free unit for a commit, which may take reserved ones.
    pub(super) fn take_any(&mut self) -> Result<u32, IndexError> {
        if self.free_units == 0 {
            return Err(IndexError::NO_BLOCK);
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

    pub(in crate::ordered) fn release(&mut self, unit: u32) {
        assert!(self.live.get(unit), "unit {unit} is given up twice");
        self.live.set(unit, false);
        self.live_units -= 1;
        self.free_units += u32::from(!self.kept.get(unit) && !self.before.get(unit));
    }

    /// Marks a unit as used by the tree, at a mount.
    pub(in crate::ordered) fn claim(&mut self, unit: u32) -> Result<(), IndexError> {
        if unit >= self.count || self.live.get(unit) {
            return Err(corrupted(Invariant::S3, "a unit is used twice, or beyond the store", Lpn(unit)));
        }
        self.use_free(unit);
        Ok(())
    }

    /// Marks a unit as used by the committed state, at a mount.
    pub(super) fn claim_of_state(&mut self, unit: u32) -> Result<(), IndexError> {
        self.claim(unit)?;
        self.of_state.push(unit);
        Ok(())
    }

    /// Replaces the units of the old state by those of a new one.
    pub(super) fn replace_state(&mut self, units: Vec<u32>) {
        let old = core::mem::replace(&mut self.of_state, units);
        old.into_iter().for_each(|unit| self.release(unit));
        self.hold();
    }

    /// Begins an attempt: remembers the live units, since it may need them again.
    pub(super) fn hold(&mut self) {
        self.before.0.copy_from_slice(&self.live.0);
    }

    /// Ends an attempt. If it failed, the live units are again those from before the attempt.
    pub(super) fn end(&mut self, is_done: bool) {
        if is_done {
            self.hold();
        } else {
            self.live.0.copy_from_slice(&self.before.0);
        }
        self.recount();
    }

    /// Marks the live units as kept, because they are committed.
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

    /// A word of bits of the units that the present attempt gave up and no commit needs.
    pub(super) fn given_up(&self, word: usize) -> u64 {
        self.before.0[word] & !self.live.0[word] & !self.kept.0[word]
    }

    /// A word of bits of the units that only the previous commit needed.
    pub(super) fn outlived(&self, word: usize) -> u64 {
        self.kept.0[word] & !self.live.0[word]
    }
}
