//! Where pages go that wait for a commit when RAM runs short.
//!
//! A page that is nearly as it was stays in RAM, packed. A page by which a database grows goes to its own
//! place: nothing that was committed is there, and the commit need not write it again. Any other goes to a
//! free page of the store.

use super::packed::Of;
use super::space::Run;
use super::{File, FileId, Purpose, Volume, home};
use nandex::StoreError;
use std::collections::BTreeSet;

impl Volume {
    /// Spills pages of a file, but for the one at hand, until RAM is no longer short.
    ///
    /// # Errors
    ///
    /// [`StoreError::Full`] where the store has no page for one; those of the store.
    pub(super) fn spill(&mut self, id: FileId, at_hand: u32) -> Result<(), StoreError> {
        if self.parts(id).1.is_over()
            && let Some(journal) = self.journal_of(id)
        {
            self.let_go(journal);
        }
        while self.parts(id).1.is_over() {
            // What waited before a batch began is packed at most: the batch may be taken back.
            if let Some(page) = self.files.get_mut(&id).and_then(File::next_before_batch) {
                self.pack_for_room(id, page, Of::Its);
                continue;
            }
            let victim = self.files.get_mut(&id).and_then(|file| file.open_slots().victim(at_hand));
            let Some(page) = victim else { break };
            if self.pack_for_room(id, page, Of::Its) {
                continue;
            }
            let placed = self.place_ahead(id, page).or_else(|error| match error {
                StoreError::Full => Ok(None),
                other => Err(other),
            })?;
            let lpn = match placed {
                Some(lpn) => lpn,
                // What is kept back is for the list of the commit first.
                None if self.space.room() == 0
                    && self.pack_for_room(id, page, Of::Several(&BTreeSet::new())) =>
                {
                    continue;
                }
                None => self.take_to_spill(id)?,
            };
            let (file, room) = self.parts(id);
            let Some(file) = file else { break };
            let spilled = file.open_slots().spill(page, (lpn, placed.is_some()), room);
            if spilled.is_err() && placed.is_none() {
                self.space.give(Run { first: lpn, pages: 1 });
            }
            spilled?;
        }
        Ok(())
    }

    /// The rollback journal of a database, where it is in RAM.
    fn journal_of(&self, id: FileId) -> Option<FileId> {
        let name = self.files.get(&id).filter(|file| file.purpose == Purpose::Main)?.name.as_ref()?;
        self.names.get(&format!("{name}-journal")).copied()
    }

    /// The place of a page by which a database grows, taken if need be; none where something is there.
    fn place_ahead(&mut self, id: FileId, page: u32) -> Result<Option<u32>, StoreError> {
        let is_logged = self.log_of(id).is_some();
        let growth = self.settings.growth_pages.max(1);
        let Some(file) = self.files.get_mut(&id) else { return Ok(None) };
        let is_new = file.purpose == Purpose::Main && page >= file.capacity();
        // An atomic batch that is taken back finds what was there before it.
        let is_there = file.batch.is_some() && file.slots.get(page).is_some();
        if !is_new || is_logged || is_there {
            return Ok(None);
        }
        let place = page - file.capacity();
        let have: u32 = file.ahead.iter().map(|run| run.pages).sum();
        if place >= have {
            let need = place + 1 - have;
            let pages = if need + growth <= self.space.room() { need + growth } else { need };
            let after = file.ahead.last().or(file.runs.last()).map(|run| run.end());
            file.ahead.extend(self.space.take(pages, after)?);
        }
        Ok(home(&file.ahead, place))
    }

    /// Gives back what was taken for a file to grow by.
    pub(super) fn drop_ahead(&mut self, id: FileId) {
        let ahead = self.files.get_mut(&id).map(|file| std::mem::take(&mut file.ahead)).unwrap_or_default();
        self.trim(&ahead);
        ahead.into_iter().for_each(|run| self.space.give(run));
    }
}
