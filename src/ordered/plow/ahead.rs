//! Batches of changes, and work ahead of time.

use super::Plow;
use super::memtable::Before;
use super::page::HEADER_BYTES;
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand};
use crate::ordered::Room;
use crate::ordered::change::{Change, check_batch};
use crate::units::Ppn;
use alloc::vec::Vec;

/// Erased blocks that work ahead of time keeps ready.
const READY_AHEAD: usize = 4;

impl<N: Nand> Plow<N> {
    /// Changes that a batch may have: the memtable takes them together, beside others.
    pub(super) fn changes_max(&self) -> usize {
        (self.memtable.capacity() / 2).max(1)
    }

    /// Room for all changes is made first, so that nothing is written between them: the work of each, and
    /// then steps until the memtable takes them together.
    pub(super) fn apply_all(&mut self, batch: &[Change<'_>]) -> Result<(), IndexFault> {
        check_batch(self.record, batch, self.changes_max())?;
        let inserts = match batch {
            [] => return Ok(()),
            [one] => return self.change_inner(one.key, one.value),
            _ => batch.iter().any(|change| change.value.is_some()),
        };
        self.admit_change()?;
        self.make_room(inserts, batch.len())?;
        if self.mix.count(0, batch.len() as u32) {
            self.replan_for_mix();
        }
        for change in batch {
            self.note_changed(change.key);
            self.work()?;
        }
        self.make_room(inserts, batch.len())?;
        if !self.memtable.takes(batch.len() + 1) {
            self.memtable.lend(0);
        }
        while !self.memtable.takes(batch.len() + 1) {
            if !self.sink()? {
                self.step(0)?;
            }
            self.make_room(inserts, batch.len())?;
        }
        let was_dirty = core::mem::replace(&mut self.dirty, true);
        let put = |change: &Change<'_>| self.memtable.put(change.key, change.value, false);
        let before: Vec<Before> = batch.iter().map(put).collect();
        self.changes += batch.len() as u64;
        let done = match self.has_room_for(0) {
            false if inserts => Err(self.no_room()),
            _ if self.is_durable() => self.commit(false),
            _ => Ok(()),
        };
        if done.is_err() {
            let changes = batch.iter().zip(&before).rev();
            changes.for_each(|(change, before)| self.memtable.restore(change.key, before));
            self.dirty = was_dirty;
        }
        done
    }

    /// Erases blocks that were given back, writes weak pages anew, and steps where a level is full.
    pub(super) fn work_ahead(&mut self, budget: u32) -> Result<u32, IndexFault> {
        if !self.has_numbers() {
            return Ok(0);
        }
        let mut done = 0;
        while done < budget {
            if self.blocks.ready() < READY_AHEAD.min(self.blocks.free()) {
                self.blocks.prepare(&mut self.nand, Cause::GarbageCollection)?;
            } else if !self.work_below()? {
                break;
            }
            done += 1;
        }
        let unready = READY_AHEAD.min(self.blocks.free()).saturating_sub(self.blocks.ready());
        Ok(unready as u32 + u32::from(self.weak.is_some()))
    }

    /// Reads pages of levels, in the order of their places, and writes those anew that are weak.
    pub(super) fn look_on(&mut self, budget: u32) -> Result<u32, IndexFault> {
        if !self.has_numbers() {
            return Ok(0);
        }
        let (pages, mut looked) = (self.geometry.pages(), 0);
        while looked < budget {
            if self.scrubbed >= pages {
                self.scrubbed = 0;
                return Ok(0);
            }
            let ppn = Ppn(self.scrubbed);
            self.scrubbed += 1;
            if !self.levels.iter().any(|level| level.uses(ppn, Ppn(ppn.0 + 1))) {
                continue;
            }
            looked += 1;
            let before = core::mem::replace(&mut self.cause, Cause::Scrubbing);
            let read = self.load_page(ppn);
            self.cause = before;
            match read {
                Err(error) if !error.is_loss() => return Err(error),
                // What is lost already is told to whoever asks for it.
                _ => {}
            }
            while self.weak.is_some() && self.scrub()? {
                looked += 1;
            }
        }
        Ok(pages - self.scrubbed)
    }

    /// The room for what still fits, by records that share nothing: pages of the last level, but for those
    /// in which steps must begin.
    pub(super) fn room(&self) -> Room {
        let blocks = self.blocks.free() + self.blocks.left();
        let kept = self.reserve() + self.dissolved_blocks() + 2 * self.levels.len();
        let pages = (blocks.saturating_sub(kept) * self.geometry.pages_per_block as usize) as u64;
        let pages = pages.min(self.changes_numbered());
        let body = self.geometry.page_bytes as usize - HEADER_BYTES;
        let records = pages * (body / (self.record.entry_bytes() + 1)) as u64 / 2;
        Room { pages, records, surely: records }
    }
}
