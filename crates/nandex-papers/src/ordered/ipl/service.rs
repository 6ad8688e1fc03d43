//! Work ahead of need: the blocks of pages that were hard to read are merged.

use super::IplTree;
use super::merge::Wanted;
use nandex::check::IndexError;
use nandex::nand::{Cause, Nand};
use nandex::ordered::Durability;

impl<N: Nand> IplTree<N> {
    /// Merges the block of a page that was hard to read, if there is one and room for it.
    pub(super) fn tend(&mut self) -> Result<(), IndexError> {
        let space = &self.store.space;
        let is_still = self.store.medium.form.is_placed() || space.read_only || space.has_ended;
        if is_still || !self.store.medium.weak.is_due() || self.store.require_numbers().is_err() {
            return Ok(());
        }
        let prepared = self.prepare(Wanted { parents: &[], image: false }, 1);
        let tended = prepared.and_then(|()| {
            self.interrupted = true;
            self.finish()
        });
        self.shrink_to_ram();
        match tended.map_err(|error| self.refused(error)) {
            Err(error) if error.is_refusal() && !self.interrupted => Ok(()),
            Err(error)
                if error.is_refusal() && self.store.config.durability == Durability::EveryOperation =>
            {
                self.undo()
            }
            done => done,
        }
    }

    /// Reads the pages of nodes in turn, about `budget`, and merges the blocks of those that are hard to read.
    /// Returns the number of nodes left of the round; 0 at its end.
    pub(super) fn look_on(&mut self, budget: u32) -> Result<u32, IndexError> {
        let misses = self.store.medium.counts.cache_misses;
        while self.store.medium.counts.cache_misses < misses + u64::from(budget) {
            let id = self.store.medium.scrubbed;
            if id as usize >= self.store.places.slots.len() {
                self.store.medium.scrubbed = 0;
                self.tend()?;
                return Ok(0);
            }
            self.store.medium.scrubbed += 1;
            let mut node = core::mem::take(&mut self.store.moving);
            // Whoever asks for a node that is lost is told.
            let loaded = match self.store.places.slot(id) {
                Ok(_) => self.store.load(id, &mut node, Cause::Scrubbing),
                Err(_) => Ok(()),
            };
            self.store.moving = node;
            match loaded {
                Err(IndexError::Corrupted { .. }) => {}
                loaded => loaded?,
            }
            self.tend()?;
        }
        Ok(self.store.places.slots.len() as u32 - self.store.medium.scrubbed)
    }
}
