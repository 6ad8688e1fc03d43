//! Records on their way to the chip: they wait by block, are programmed as units, and a commit makes them
//! durable.

use super::layout::{Change, HEAD_BYTES, Head, IplTag, NO_GENERATION, NO_UNIT, PageKind, SPAN_MAX};
use super::slots::NO_BLOCK;
use super::store::Store;
use super::waiting::Waiting;
use alloc::vec::Vec;
use nandex::check::IndexError;
use nandex::nand::{Cause, Nand};
use nandex::ordered::Durability;
use nandex::units::Pbn;

impl<N: Nand> Store<N> {
    /// Logs a change of a node.
    pub(super) fn log(&mut self, id: u32, change: &Change<'_>) -> Result<(), IndexError> {
        self.make_unit_room(id, id, change)?;
        self.push(self.places.block_of(id), id, change);
        Ok(())
    }

    /// Makes a ghost of `source` in the same block. It has the entries of `source` from `low` on, or all of
    /// them.
    pub(super) fn log_ghost(&mut self, source: u32, low: Option<&[u8]>) -> Result<u32, IndexError> {
        let id = self.places.new_id();
        let change = |base| match low {
            Some(low) => Change::Ghost { low, source, base },
            None => Change::GhostOfAll { source, base },
        };
        if let Err(error) = self.make_unit_room(source, id, &change(0)) {
            self.places.slots.give_back(id);
            return Err(error);
        }
        // Only now: programming the unit may have changed where the source is.
        let slots = &self.places.slots;
        debug_assert!(slots[id as usize].block == NO_BLOCK, "I3: node {id} is new and has a place");
        let slot = slots[source as usize];
        self.set_slot(id, slot);
        self.push(Pbn(slot.block), id, &change(slot.base));
        let block_of = |id| self.places.block_of(id);
        debug_assert_eq!(block_of(id), block_of(source), "I4: ghost {id} is not where {source} is");
        self.counts.ghosts += 1;
        Ok(id)
    }

    fn push(&mut self, pbn: Pbn, id: u32, change: &Change<'_>) {
        debug_assert!(self.places.live(pbn) > 0, "I6: {pbn} has no nodes and a record of node {id}");
        let sequence = self.numbers.next();
        self.places[pbn].newest = sequence.into();
        let form = &self.medium.form;
        let bytes = self.queues.push(pbn, (id, sequence, change), form.shapes.widths());
        debug_assert!(bytes <= form.payload(), "I6: {bytes} bytes wait for a unit of {pbn}");
        self.counts.log_records += 1;
    }

    /// Programs the waiting records of the block of `place` if the change would not fit into the same unit.
    fn make_unit_room(&mut self, place: u32, id: u32, change: &Change<'_>) -> Result<(), IndexError> {
        loop {
            let pbn = self.places.block_of(place);
            let Some(queue) = self.queues.get(pbn) else { return Ok(()) };
            let form = &self.medium.form;
            let bytes = queue.encoded + queue.bytes_for(id, change, form.shapes.widths());
            if bytes <= form.payload() && self.numbers.sequence + 1 - queue.first <= SPAN_MAX {
                return Ok(());
            }
            self.flush(pbn, false)?;
        }
    }

    /// Programs the waiting records of a block as one unit. With `mark`, this commits all changes so far.
    /// Returns false if the program failed and the nodes moved to another block.
    fn flush(&mut self, pbn: Pbn, mark: bool) -> Result<bool, IndexError> {
        if self.space.failed.contains(&pbn) {
            self.evacuate(pbn)?;
            return Ok(false);
        }
        debug_assert!(mark || self.queues.has(pbn), "a unit of {pbn} would say nothing");
        assert!(self.room(pbn) > 0, "I6: {pbn} has records and no room for them");
        let unit = self.places[pbn].cursor;
        let (form, ppn) = (self.medium.form, self.medium.form.unit_page(pbn, unit));
        let bytes = form.bytes_of(unit);
        let cause = if mark || self.config.durability == Durability::EveryOperation {
            Cause::Host
        } else {
            Cause::CacheEviction
        };
        self.medium.lay_out(ppn, unit, cause)?;
        let nodes = self.encode_unit(pbn, mark);
        self.medium.cache.forget(ppn);
        if form.is_placed() {
            // A store that refuses a page leaves what was there.
            self.medium.program_over(ppn, cause)?;
        }
        self.places[pbn].cursor = unit + 1;
        let spare_bytes = if bytes.start == 0 { self.medium.spare.len() } else { 0 };
        if !form.is_placed() && !self.medium.program(ppn, cause, [bytes.end, spare_bytes])? {
            self.evacuate(pbn)?;
            return Ok(false);
        }
        for id in nodes {
            let slot = &mut self.places.slots[id as usize];
            if slot.block == pbn.0 {
                slot.last = unit;
            }
        }
        self.queues.forget(pbn);
        let block = &mut self.places[pbn];
        block.units += 1;
        self.numbers.before = (block.generation, unit);
        self.counts.log_units_programmed += 1;
        if mark {
            debug_assert!(self.queues.is_empty(), "I7: records wait that a unit of {pbn} calls durable");
            self.numbers.committed = self.numbers.sequence;
            block.newest = self.numbers.committed.into();
        }
        Ok(true)
    }

    /// Writes a unit into the page buffer; the nodes that have a group in it.
    fn encode_unit(&mut self, pbn: Pbn, mark: bool) -> Vec<u32> {
        let (form, slots, block) = (self.medium.form, &self.places.slots, self.places[pbn]);
        let nothing = Waiting::default();
        let queue = self.queues.get(pbn).unwrap_or(&nothing);
        let first = if queue.bytes.is_empty() { self.numbers.sequence } else { queue.first };
        let (nodes, bytes) = queue.encode(form.shapes.widths(), first, |id| {
            let slot = slots[id as usize];
            if slot.block == pbn.0 { slot.last } else { NO_UNIT }
        });
        let unit = &mut self.medium.page[form.bytes_of(block.cursor)];
        unit[HEAD_BYTES..HEAD_BYTES + bytes.len()].copy_from_slice(&bytes);
        let dead = if form.is_placed() {
            NO_GENERATION
        } else {
            self.space.given_back.name(pbn, &self.places.blocks, &self.space.table)
        };
        let head = Head {
            generation: block.generation,
            dead,
            ordinal: block.units,
            length: (HEAD_BYTES + bytes.len()) as u16,
            first,
            committed: if mark { self.numbers.sequence } else { self.numbers.committed },
            before: self.numbers.link(),
        };
        head.encode(unit);
        let page = form.geometry.page_in_block(form.unit_page(pbn, block.cursor)) as u16;
        self.medium.set_tag(&IplTag { kind: PageKind::Log, page, ..self.numbers.tag(block.generation) });
        nodes
    }

    /// Makes everything durable that was done so far, and gives the blocks back that were kept for the case
    /// of a cut.
    pub(super) fn commit(&mut self) -> Result<(), IndexError> {
        while let Some(pbn) = self.queues.first() {
            self.flush(pbn, self.queues.count() == 1)?;
        }
        if !self.numbers.is_committed() {
            self.mark()?;
        }
        let released = self.release_held();
        self.places.pending.clear();
        debug_assert!(
            released.is_err() || (self.queues.is_empty() && self.places.held.is_empty()),
            "I7: {} blocks have records and {} are kept after a commit",
            self.queues.count(),
            self.places.held.len()
        );
        debug_assert!(self.numbers.is_committed(), "I7: after a commit {:?}", self.numbers);
        released
    }

    /// Programs a unit without records, which commits all changes so far.
    fn mark(&mut self) -> Result<(), IndexError> {
        loop {
            let Some(pbn) = self.places.in_use().max_by_key(|&pbn| self.room(pbn)) else {
                unreachable!("the root is somewhere")
            };
            if self.room(pbn) == 0 && self.medium.form.is_placed() {
                return self.mark_by_image();
            } else if self.room(pbn) == 0 {
                // A commit would free blocks, and this is one.
                if self.space.table.free_count() == 0 {
                    return Err(IndexError::NO_BLOCK);
                }
                self.merge_for_room(pbn, 0)?;
            } else if self.flush(pbn, true)? {
                return Ok(());
            }
        }
    }

    /// Programs the fullest of the waiting records while they take more RAM than they may.
    pub(super) fn limit_waiting(&mut self) -> Result<(), IndexError> {
        while self.queues.ram_bytes() > self.config.log_bytes {
            let Some(pbn) = self.queues.fullest() else { return Ok(()) };
            self.flush(pbn, false)?;
        }
        Ok(())
    }
}
