//! Look-ups, changes, batches, and work ahead of time.

use super::Core;
use super::carry::bytes_kept;
use super::commit::SEALS;
use super::memtable::before_bytes;
use super::space::Need;
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand};
use crate::ordered::buffered::Answers;
use crate::ordered::change::{Change, check_batch};
use crate::units::Ppn;
use alloc::vec;
use alloc::vec::Vec;

/// Work ahead of time keeps this many erased blocks ready.
const READY_AHEAD: usize = 4;

impl<N: Nand> Core<N> {
    /// Looks a key up on the levels; true if it has a value.
    fn look_up(&mut self, key: &[u8], value: Option<&mut [u8]>) -> Result<bool, IndexFault> {
        let looked = self.sight().look_up(key, value)?;
        self.counters.level_lookups += u64::from(looked.read);
        self.counters.filtered += u64::from(looked.filtered);
        self.planner.book_in_vain(looked.read.saturating_sub(1));
        Ok(looked.found)
    }

    /// Reads the value of a key that is not in the memtable.
    pub(super) fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexFault> {
        if self.clean_value(key, Some(value)) {
            return Ok(true);
        }
        let found = self.look_up(key, Some(value))?;
        self.drain_when_paid()?;
        if found {
            self.stock.memtable.keep_clean(key, value);
            self.note(key, true);
        }
        Ok(found)
    }

    /// True if a key exists, as far as [`Answers`] asks: with `Pool` only the memtable is looked at.
    pub(super) fn exists(&mut self, key: &[u8]) -> Result<bool, IndexFault> {
        match (self.stock.memtable.pooled(key), self.planner.shares.answers) {
            (Some(known), _) => Ok(known),
            (None, Answers::Pool) => Ok(false),
            (None, Answers::Exact) => {
                if self.clean_value(key, None) {
                    return Ok(true);
                }
                self.planner.mix.count(1, 0);
                let found = self.look_up(key, None)?;
                if found {
                    self.note(key, true);
                }
                Ok(found)
            }
        }
    }

    /// Puts a value, or a tombstone if there is none.
    pub(super) fn change(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), IndexFault> {
        self.admit_change()?;
        let adds = value.is_some() && !(self.stock.lacks_ram_only() && is_there(self, key)?);
        self.make_room(adds, 1)?;
        self.count(0, 1);
        self.note(key, false);
        let kept = bytes_kept(self.medium.record, self.medium.output.len());
        let carries = kept > 0 && self.stock.commits.tail.is_none();
        self.stock.commits.begin_change(key, value, carries);
        let worked = self.work();
        // What was under way has room for the entry that the change replaces: it has a key's bytes more.
        let mut before = core::mem::take(&mut self.stock.commits.under_way);
        let changed = worked.and_then(|()| self.enter(key, value, &mut before));
        before.clear();
        self.stock.commits.under_way = before;
        changed
    }

    /// Enters a change in the memtable and makes it durable, if it is to be. `before` takes the entry that it
    /// replaces.
    fn enter(&mut self, key: &[u8], value: Option<&[u8]>, before: &mut Vec<u8>) -> Result<(), IndexFault> {
        before.clear();
        before.resize(before_bytes(self.medium.record), 0);
        let is_new = !self.stock.memtable.change(key, value, before);
        self.stock.space.changes += 1;
        if cfg!(feature = "full") && self.stock.commits.carried {
            (self.stock.commits.dirty, self.stock.commits.clean) = (false, false);
            self.counters.carried += 1;
            return Ok(());
        }
        let was_dirty = core::mem::replace(&mut self.stock.commits.dirty, true);
        if !self.stock.commits.is_durable() {
            return Ok(());
        }
        // It is the only one in the memtable that is not durable.
        let appended = if SEALS { self.programs().append(key, value, is_new) } else { Ok(false) };
        let done = appended.and_then(|appended| if appended { Ok(()) } else { self.commit(false) });
        if done.is_err() {
            self.stock.memtable.restore(key, before);
            self.stock.commits.dirty = was_dirty;
        }
        done
    }

    /// Applies a batch. Room for all its changes is made first, so that nothing is written between them: the
    /// work of each change, then steps until the memtable takes all of them.
    pub(super) fn apply_all(&mut self, batch: &[Change<'_>]) -> Result<(), IndexFault> {
        let most = self.planner.shares.changes_max(self.stock.memtable.capacity());
        check_batch(self.medium.record, batch, most)?;
        let inserts = match batch {
            [] => return Ok(()),
            [one] => return self.change(one.key, one.value),
            _ => batch.iter().any(|change| change.value.is_some()),
        };
        self.admit_change()?;
        self.make_room(inserts, batch.len())?;
        self.count(0, batch.len() as u32);
        for change in batch {
            self.note(change.key, false);
            self.work()?;
        }
        self.make_room(inserts, batch.len())?;
        if !self.stock.memtable.takes(batch.len() + 1) {
            self.stock.memtable.lend(0);
        }
        while !self.stock.memtable.takes(batch.len() + 1) {
            if !self.sink()? {
                self.step(0)?;
            }
            self.make_room(inserts, batch.len())?;
        }
        let was_dirty = core::mem::replace(&mut self.stock.commits.dirty, true);
        let each = before_bytes(self.medium.record);
        let mut before = vec![0; batch.len() * each];
        for (change, before) in batch.iter().zip(before.chunks_mut(each)) {
            self.stock.memtable.change(change.key, change.value, before);
        }
        self.stock.space.changes += batch.len() as u64;
        let done = match self.stock.has(Need::Insert { records: 0 }) {
            false if inserts => Err(self.stock.no_room()),
            _ if self.stock.commits.is_durable() => self.commit(false),
            _ => Ok(()),
        };
        if done.is_err() {
            let changes = batch.iter().zip(before.chunks(each)).rev();
            changes.for_each(|(change, before)| self.stock.memtable.restore(change.key, before));
            self.stock.commits.dirty = was_dirty;
        }
        done
    }

    /// Erases free blocks, rewrites weak pages, and makes the steps of full levels. `budget` bounds the units
    /// of work. Returns the units done.
    pub(super) fn work_ahead(&mut self, budget: u32) -> Result<u32, IndexFault> {
        if !self.medium.has_numbers() {
            return Ok(0);
        }
        let mut done = 0;
        while done < budget {
            if self.stock.space.blocks.ready() < READY_AHEAD.min(self.stock.space.blocks.erasable()) {
                self.stock.space.blocks.prepare(&mut self.medium.nand, Cause::GarbageCollection)?;
            } else if !self.work_below()? {
                break;
            }
            done += 1;
        }
        let unready = READY_AHEAD
            .min(self.stock.space.blocks.erasable())
            .saturating_sub(self.stock.space.blocks.ready());
        Ok(unready as u32 + u32::from(self.medium.weak.is_some()))
    }

    /// Scrubs: reads pages of levels in the order of their places, and rewrites weak ones. Returns the pages
    /// read, 0 at the end of the chip.
    pub(super) fn look_on(&mut self, budget: u32) -> Result<u32, IndexFault> {
        if !self.medium.has_numbers() {
            return Ok(0);
        }
        let (pages, mut looked) = (self.stock.geometry.pages(), 0);
        while looked < budget {
            if self.medium.scrubbed >= pages {
                self.medium.scrubbed = 0;
                return Ok(0);
            }
            let ppn = Ppn(self.medium.scrubbed);
            self.medium.scrubbed += 1;
            if !self.stock.levels.iter().any(|level| level.uses(ppn, Ppn(ppn.0 + 1))) {
                continue;
            }
            looked += 1;
            let before = core::mem::replace(&mut self.medium.cause, Cause::Scrubbing);
            let read = self.sight().load_page(ppn);
            self.medium.cause = before;
            match read {
                Err(error) if !error.is_loss() => return Err(error),
                // A page that is lost is reported to whoever asks for it.
                _ => {}
            }
            while self.medium.weak.is_some() && self.rewrite_weak()? {
                looked += 1;
            }
        }
        Ok(pages - self.medium.scrubbed)
    }
}

/// True if a key exists, whatever answers are asked for.
fn is_there<N: Nand>(core: &mut Core<N>, key: &[u8]) -> Result<bool, IndexFault> {
    match core.stock.memtable.pooled(key) {
        Some(known) => Ok(known),
        None => core.look_up(key, None),
    }
}
