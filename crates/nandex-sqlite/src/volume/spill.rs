//! Making RAM free while pages wait.
//!
//! A page that nearly equals its home stays in RAM, packed. A page by which a database grows is written to
//! its own home, which has no committed contents, and the commit need not write it again. Any other page is
//! spilled to a free store page.

use super::packed::Of;
use super::{Pages, Purpose, Run};
use nandex::StoreError;
use std::collections::BTreeSet;

impl Pages<'_> {
    /// Packs or spills pages, except `at_hand`, until RAM is within its limit.
    pub(super) fn spill(&mut self, at_hand: u32) -> Result<(), StoreError> {
        while self.room.is_over() {
            // What waited before a batch began is packed at most: the batch may be taken back.
            if let Some(page) = self.file.waiting.next_before_batch() {
                self.pack_for_room(page, Of::Its);
                continue;
            }
            let Some(page) = self.file.waiting.open_slots().victim(at_hand) else { break };
            if self.pack_for_room(page, Of::Its) {
                continue;
            }
            let placed = self.place_ahead(page).or_else(|error| match error {
                StoreError::Full => Ok(None),
                other => Err(other),
            })?;
            let lpn = match placed {
                Some(lpn) => lpn,
                // What is kept back is for the list of the commit first.
                None if self.room.medium.space.room() == 0
                    && self.pack_for_room(page, Of::Several(&BTreeSet::new())) =>
                {
                    continue;
                }
                None => self.take_to_spill()?,
            };
            let slots = self.file.waiting.open_slots();
            let spilled = slots.spill(page, (lpn, placed.is_some()), &mut self.room);
            if spilled.is_err() && placed.is_none() {
                self.room.medium.space.give(Run { first: lpn, pages: 1 });
            }
            spilled?;
        }
        Ok(())
    }

    /// Home of a page by which a database grows, taken if there is none. Returns `None` for any other page.
    fn place_ahead(&mut self, page: u32) -> Result<Option<u32>, StoreError> {
        let is_new = self.file.purpose == Purpose::Main && page >= self.file.placed.capacity();
        // An atomic batch that is taken back finds what was there before it.
        if !is_new || self.is_logged || self.file.waiting.is_before_batch(page) {
            return Ok(None);
        }
        self.file.placed.home_ahead(page, self.growth, &mut self.room.medium.space)
    }
}
