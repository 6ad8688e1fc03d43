//! Several changes as one group of pages.
//!
//! Each change edits its path as usual, but its pages wait in RAM, where later changes read them. At the end
//! all pages go to the store as one group, of which a mount finds all or nothing. So a batch changes at most
//! as many pages as the store takes atomically, and needs RAM for them while it runs. Until the group is
//! written no page is freed, and nothing else has changed: a refused batch is simply forgotten.

use super::page::Frame;
use super::pages::trim;
use super::{Core, NodeCounts, Work};
use crate::check::IndexError;
use crate::fault::IndexFault;
use crate::ordered::change::{Change, check_batch};
use crate::store::{PageStore, write_batch};
use crate::units::Lpn;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Pages that a batch has changed so far.
pub(super) struct Staged {
    /// Pages in the order of their first change.
    pages: Vec<(Lpn, Box<[u8]>)>,
    taken: Vec<Lpn>,
    freed: Vec<Lpn>,
    /// Height of the tree before the batch, put back if the batch fails.
    height: usize,
    /// Node counts before the batch, put back if the batch fails.
    counts: NodeCounts,
}

impl Staged {
    /// The page as the batch changed it; `None` if it did not.
    pub(super) fn find(&self, lpn: Lpn) -> Option<&[u8]> {
        self.pages.iter().find(|page| page.0 == lpn).map(|page| &*page.1)
    }

    fn put(&mut self, frame: &Frame) {
        match self.pages.iter_mut().find(|page| page.0 == frame.lpn()) {
            Some(page) => page.1.copy_from_slice(&frame.bytes),
            None => self.pages.push((frame.lpn(), frame.bytes.clone())),
        }
    }
}

impl Core {
    /// Largest number of changes in a batch. The store bounds the pages, not the changes, since those of one
    /// leaf share its page. 1 if a single operation is not always one group.
    pub(super) fn changes_max(&self, store: &dyn PageStore) -> usize {
        let is_group = store.atomic_pages_max() >= self.nodes.layout.group_pages_max();
        if self.apart.is_some() || self.is_least() || !is_group { 1 } else { usize::MAX }
    }
}

impl Work<'_> {
    pub(super) fn apply_all(&mut self, batch: &[Change<'_>]) -> Result<(), IndexFault> {
        self.core.mark.ready()?;
        check_batch(self.core.nodes.layout.record, batch, self.core.changes_max(self.store))?;
        if self.core.is_least() {
            return batch.iter().try_for_each(|change| match change.value {
                Some(value) => self.insert_least(change.key, value).map(drop),
                None => self.remove_least(change.key).map(drop),
            });
        }
        self.core.begin();
        self.unmark_clean()?;
        let (height, counts) = (self.core.nodes.height, self.core.counts);
        let (pages, taken, freed) = (Vec::new(), Vec::new(), Vec::new());
        self.core.staged = Some(Staged { pages, taken, freed, height, counts });
        let done = batch.iter().try_for_each(|change| self.stage(change)).and_then(|()| self.write_staged());
        let Some(staged) = self.core.staged.take() else { return done };
        if done.is_err() {
            (self.core.nodes.height, self.core.counts) = (staged.height, staged.counts);
            staged.taken.iter().for_each(|lpn| self.core.pages.space.release(*lpn));
            return done;
        }
        for lpn in &staged.freed {
            if staged.taken.contains(lpn) {
                self.core.pages.space.release(*lpn);
            } else if self.core.pages.space.release_written(*lpn) {
                trim(self.store, *lpn)?;
            }
        }
        Ok(())
    }

    /// Makes one change, and keeps its pages in RAM.
    fn stage(&mut self, change: &Change<'_>) -> Result<(), IndexFault> {
        let found = self.find(change.key)?;
        let edit = match (found, change.value) {
            (Ok(at), Some(value)) => {
                self.core.nodes.overwrite(at, value);
                Ok(())
            }
            (Err(at), Some(value)) => self.core.add(at, change.key, value),
            (Ok(at), None) => self.take(at),
            (Err(_), None) => return Ok(()),
        };
        let Some(staged) = &mut self.core.staged else { return edit };
        staged.taken.append(&mut self.core.pages.taken.clone());
        staged.freed.append(&mut self.core.pages.freed.clone());
        edit?;
        let nodes = &mut self.core.nodes;
        for frame in nodes.extra[..nodes.extra_used].iter_mut().chain(&mut nodes.path) {
            if frame.is_dirty {
                frame.seal();
                staged.put(frame);
            }
        }
        let freed = &staged.freed;
        staged.pages.retain(|page| !freed.contains(&page.0));
        let most = self.store.atomic_pages_max();
        if staged.pages.len() > most {
            return Err(IndexError::BatchTooLarge { unit: "pages", most }.into());
        }
        self.core.count_settled();
        Ok(())
    }

    fn write_staged(&mut self) -> Result<(), IndexFault> {
        let Some(staged) = &self.core.staged else { return Ok(()) };
        let group: Vec<(Lpn, &[u8])> = staged.pages.iter().map(|(lpn, page)| (*lpn, &**page)).collect();
        if group.is_empty() {
            return Ok(());
        }
        let written = write_batch(self.store, &group);
        self.core.mark.hear(&written);
        Ok(written?)
    }
}
