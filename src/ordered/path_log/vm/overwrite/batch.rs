//! Several changes as one operation. They are written to pages of their own and then applied leaf by leaf.
//! Then the last of these pages is marked retired. A mount that finds the pages whole and not retired applies
//! the changes; those already applied have no further effect.
//!
//! A page of changes has the header of a node. Its level is 0x40 plus the number of pages of the batch that
//! follow. The first has the mark of a root. The sequence rises by one from page to page, so the last page
//! leads to all. The slots are without checks and all filled when the page is written: key, 1 for an
//! insertion or 0, value. A single change needs no such page: it is one operation of itself.
//!
//! No garbage is collected while a batch is applied, because the room is made beforehand. A mount may have to
//! collect, and does not touch the blocks of these pages.

use super::page;
use super::pages::Pages;
use super::shapes::above;
use super::{InPlace, NONE};
use crate::check::{IndexError, Invariant, message};
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand};
use crate::ordered::change::Change;
use crate::ordered::holds_change;
use crate::ordered::vm::buffer::{decoded, encoded};
use crate::ordered::vm::{Entered, TakesBatches};
use crate::units::Ppn;
use alloc::vec;
use alloc::vec::Vec;

/// The level of the last page of changes.
pub(super) const CHANGES: u8 = 0x40;
/// Pages of changes that a batch may have.
const PAGES_MAX: usize = 64;

impl<N: Nand> InPlace<N> {
    /// Pages taken by a batch of `changes` changes.
    fn pages_of_batch(&self, changes: usize) -> u32 {
        self.pages.shapes.batch_pages(changes, self.inner_nodes, self.path.height)
            + self.pages.pages_of(changes) as u32
    }

    /// Whether they are free, before anything is collected.
    pub(super) fn has_free_for_batch(&self, changes: usize) -> bool {
        self.pages.space.has_free(self.wanted_for(self.pages_of_batch(changes)))
    }

    /// Refuses batches that are too large for this chip.
    pub(super) fn check_batches(&self, changes: usize) -> Result<(), IndexFault> {
        if changes == 0 {
            return Ok(());
        }
        // As if the chip were full of half-full nodes.
        let (shapes, chip_pages) = (&self.pages.shapes, self.pages.space.geometry.pages());
        let (inner_nodes, height) = above(chip_pages, shapes.inner.capacity as u32 / 2);
        let (log, pages) = (self.pages.pages_of(changes), shapes.batch_pages(changes, inner_nodes, height));
        if log > PAGES_MAX || pages + log as u32 > chip_pages / 2 {
            return Err(IndexError::unsupported(message!(
                "a log buffer of {changes} records is written to {log} pages and may take {pages} more at once: at most \
                 {PAGES_MAX}, and half of this chip's {chip_pages}, are possible",
            )).into());
        }
        Ok(())
    }

    /// Writes the changes to pages of their own.
    fn write_changes(&mut self, changes: &[Change<'_>]) -> Result<Vec<u32>, IndexFault> {
        let shape = self.pages.changes_shape();
        let pages = self.pages.pages_of(changes.len());
        debug_assert!(!changes.is_empty(), "a batch of no changes");
        assert!(pages <= PAGES_MAX, "{} changes in a batch", changes.len());
        let mut places = Vec::with_capacity(pages);
        let mut entries = Vec::with_capacity(shape.capacity * shape.entry_bytes);
        for (number, of_page) in changes.chunks(shape.capacity).enumerate() {
            entries.clear();
            of_page.iter().for_each(|change| entries.extend(encoded(*change, shape.entry_bytes)));
            let (sequence, following) = (self.pages.next_sequence(), (pages - 1 - number) as u8);
            shape.birth(&mut self.pages.birth, (sequence, CHANGES + following), number == 0, &entries);
            self.counters.log_programs += 1;
            places.push(self.pages.write_birth(shape, Cause::Checkpoint)?);
        }
        debug_assert_eq!(places.len(), pages, "O7: a batch of other pages than reckoned");
        Ok(places)
    }

    /// Enters changes in the order of their keys.
    fn enter_all(&mut self, changes: &[Change<'_>]) -> Result<(), IndexFault> {
        let mut done = 0;
        while done < changes.len() {
            self.path.descend(&mut self.pages, changes[done].key, false, 1)?;
            done += self.enter_into_leaf(&changes[done..])?;
            self.free_replaced();
        }
        Ok(())
    }

    /// Applies those changes that belong to the leaf on the path and find a slot in it. Returns their number.
    fn enter_into_leaf(&mut self, changes: &[Change<'_>]) -> Result<usize, IndexFault> {
        debug_assert!(!changes.is_empty(), "a leaf is read for no change");
        let bound = self.path.leaf_bound(&self.pages.shapes.inner);
        let belong = |change: &&Change<'_>| bound.as_deref().is_none_or(|bound| change.key <= bound);
        let leaf = self.path.node(1);
        let shape = &self.pages.shapes.leaf;
        debug_assert!(leaf.used <= shape.capacity, "O1: {} slots of {}", leaf.used, shape.capacity);
        let mut free = shape.capacity - leaf.used;
        let (mut entries, mut dead, mut done) = (Vec::new(), Vec::new(), 0);
        for change in changes.iter().take_while(belong) {
            let old = self.path.leaf_slot(&self.pages.shapes, change.key);
            let is_there = old.is_some_and(|slot| change.value == Some(shape.value(&leaf.bytes, slot)));
            if let Some(value) = change.value.filter(|_| !is_there) {
                if free == 0 {
                    break;
                }
                free -= 1;
                entries.extend_from_slice(change.key);
                entries.extend_from_slice(value);
            }
            if !is_there {
                dead.extend(old);
            }
            done += 1;
        }
        debug_assert!(
            done <= changes.len() && entries.len().is_multiple_of(shape.entry_bytes),
            "an entry is cut short"
        );
        match changes[0] {
            // The first one finds no slot.
            Change { key, value: Some(value) } if done == 0 => {
                self.put(&[key, value].concat(), self.path.leaf_slot(&self.pages.shapes, key))?;
                Ok(1)
            }
            _ => self.change_leaf(&entries, &dead).map(|()| done),
        }
    }

    /// Retires the pages of a batch that is entered.
    fn end_batch(&mut self, places: &[u32]) -> Result<(), IndexFault> {
        if let Some(&last) = places.last() {
            let mut bytes = core::mem::take(&mut self.pages.birth);
            let retired = self.pages.retire_changes(last, &mut bytes);
            self.pages.birth = bytes;
            retired?;
        }
        places.iter().for_each(|&ppn| self.pages.space.set_dead(ppn));
        self.pages.space.pinned.clear();
        Ok(())
    }

    /// Applies the batch whose last page has this sequence, where it is not yet applied.
    /// Returns its changes, as bytes, if no block takes them.
    pub(super) fn enter_found(&mut self, sequence: u32) -> Result<Vec<u8>, IndexFault> {
        let places = self.pages.find_changes(sequence)?;
        let shape = self.pages.changes_shape();
        let mut bytes = vec![0xff; self.pages.birth.len()];
        let mut entries = Vec::new();
        for &ppn in &places {
            self.pages.read_changes(ppn, Cause::Recovery, &mut bytes)?;
            (0..page::born(&bytes)).for_each(|slot| entries.extend_from_slice(shape.entry(&bytes, slot)));
            self.pages.space.set_live(ppn);
            self.pages.space.pinned.push(self.pages.space.geometry.block_of(Ppn(ppn)).0);
        }
        let changes = entries.chunks_exact(shape.entry_bytes).map(|entry| decoded(entry, shape.key_bytes));
        let changes: Vec<Change<'_>> = changes.collect();
        // There was room when the batch was begun; what was lost of it by the cut is won back if it can be.
        let pages = self.pages.shapes.batch_pages(changes.len(), self.inner_nodes, self.path.height);
        match self.make_room_for(pages) {
            Err(error) if error.is_full() && !self.pages.interrupted => {}
            other => other?,
        }
        self.pages.interrupted = true;
        let entered = match self.pages.read_only {
            true => Err(IndexError::WornOut.into()),
            false => self.enter_all(&changes).and_then(|()| self.end_batch(&places)),
        };
        self.pages.interrupted = false;
        match entered {
            // No block takes them: they wait in RAM, and are entered again by every mount.
            Err(error) if error.is_refusal() => {
                self.pages.read_only = true;
                self.pages.space.pinned.clear();
                self.readopt()?;
                Ok(entries)
            }
            other => other.map(|()| Vec::new()),
        }
    }
}

impl<N: Nand> Pages<N> {
    /// Pages of the batch whose last page has this sequence, in order.
    fn find_changes(&mut self, sequence: u32) -> Result<Vec<u32>, IndexFault> {
        let shape = self.changes_shape();
        let mut bytes = vec![0xff; self.birth.len()];
        // By the pages that follow.
        let mut found = vec![(NONE, false); PAGES_MAX];
        for ppn in 0..self.space.geometry.pages() {
            let level = self.read_born(ppn, &mut bytes)?;
            let following = level.and_then(|level| level.checked_sub(CHANGES)).map(usize::from);
            if let Some(following) = following
                && following < PAGES_MAX
                && page::sequence(&bytes).checked_add(following as u32) == Some(sequence)
                && shape.is_born(&bytes, ppn)
            {
                found[following] = (ppn, page::is_root(&bytes));
            }
        }
        let pages = found.iter().take_while(|(ppn, _)| *ppn != NONE).position(|(_, is_first)| *is_first);
        let Some(first) = pages else {
            return Err(IndexFault::broken(Invariant::O7, "a batch of changes is not whole", found[0].0));
        };
        Ok(found[..=first].iter().rev().map(|(ppn, _)| *ppn).collect())
    }
}

/// Applying a batch, and refusing one on a dying chip.
impl<N: Nand> InPlace<N> {
    fn write_and_enter(&mut self, changes: &[Change<'_>]) -> Result<(), IndexFault> {
        let places = if changes.len() > 1 { self.write_changes(changes)? } else { Vec::new() };
        self.enter_all(changes)?;
        self.end_batch(&places)
    }

    /// Ends a batch that failed half-way. `before` is the sequence before its first page. The pages on the
    /// chip decide, as in a mount.
    fn end_refused(
        &mut self,
        changes: &[Change<'_>],
        before: u32,
        error: IndexFault,
    ) -> Result<Entered, IndexFault> {
        let last = before.saturating_add(self.pages.pages_of(changes.len()) as u32);
        let found = self.readopt()?;
        self.pages.interrupted = false;
        self.pages.space.pinned.clear();
        if let [only] = changes {
            let is_done = holds_change(self, (only.key, only.value))?;
            return if is_done { Ok(Entered::All) } else { Err(error) };
        }
        if found != Some((last, false)) {
            return Err(error);
        }
        // Every mount enters it again, and no block takes it.
        self.pages.read_only = true;
        Ok(Entered::Waits)
    }
}

impl<N: Nand> TakesBatches for InPlace<N> {
    const REPLACES_IN_ROOM: bool = false;

    fn usable(&self) -> Result<(), IndexFault> {
        self.pages.usable()
    }

    fn make_room_for_batch(&mut self, changes: usize, have_inserts: bool) -> Result<(), IndexFault> {
        self.pages.writable()?;
        self.make_room_for_change(self.pages_of_batch(changes), changes == 1 && !have_inserts)
            .map_err(|error| self.given_up(error))
    }

    fn apply_batch(&mut self, changes: &[Change<'_>]) -> Result<Entered, IndexFault> {
        self.pages.usable()?;
        self.pages.writable()?;
        let before = self.pages.sequence;
        self.pages.interrupted = true;
        match self.write_and_enter(changes).map_err(|error| self.refused(error)) {
            Err(error) if error.is_refusal() => self.end_refused(changes, before, error),
            Err(error) => Err(error),
            Ok(()) => {
                self.pages.interrupted = false;
                Ok(Entered::All)
            }
        }
    }

    fn holds(&mut self, key: &[u8]) -> Result<bool, IndexFault> {
        self.path.descend(&mut self.pages, key, false, 1)?;
        Ok(self.path.leaf_slot(&self.pages.shapes, key).is_some())
    }

    fn peek_key(&mut self, key: &[u8]) -> Result<bool, IndexFault> {
        let mut path = self.path.aside();
        path.descend(&mut self.pages, key, false, 1)?;
        Ok(path.leaf_slot(&self.pages.shapes, key).is_some())
    }
}
