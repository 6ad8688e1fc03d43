//! Records on their way to the chip: they wait by block, are programmed as units, and a commit makes them
//! durable.

use super::layout::{
    Change, GROUP_BYTES, HEAD_BYTES, Head, IplTag, Link, NO_UNIT, PageKind, RECORD_BYTES, SPAN_MAX,
    WAITING_BYTES, push_waiting, waiting,
};
use super::store::{NO_BLOCK, Store, Waiting};
use alloc::vec::Vec;
use nandex::check::IndexError;
use nandex::nand::{Cause, Nand, NandError};
use nandex::ordered::Durability;
use nandex::units::{Pbn, Ppn};

impl<N: Nand> Store<N> {
    /// Logs a change of a node.
    pub(super) fn log(&mut self, id: u32, change: &Change<'_>) -> Result<(), IndexError> {
        self.make_unit_room(id, id, change)?;
        self.push(self.block_of(id), id, change);
        Ok(())
    }

    /// Makes a ghost of `source` in the block where that is: it has what `source` has from `low` on, or all
    /// of it.
    pub(super) fn log_ghost(&mut self, source: u32, low: Option<&[u8]>) -> Result<u32, IndexError> {
        let id = self.new_id();
        let change = |base| match low {
            Some(low) => Change::Ghost { low, source, base },
            None => Change::GhostOfAll { source, base },
        };
        if let Err(error) = self.make_unit_room(source, id, &change(0)) {
            self.slots.give_back(id);
            return Err(error);
        }
        // Only now: programming the unit may have changed where the source is.
        debug_assert!(self.slots[id as usize].block == NO_BLOCK, "I3: node {id} is new and has a place");
        let slot = self.slots[source as usize];
        self.set_slot(id, slot);
        self.push(Pbn(slot.block), id, &change(slot.base));
        debug_assert_eq!(self.block_of(id), self.block_of(source), "I4: ghost {id} is not where {source} is");
        self.counts.ghosts += 1;
        Ok(id)
    }

    fn push(&mut self, pbn: Pbn, id: u32, change: &Change<'_>) {
        debug_assert!(self.blocks[pbn.index()].live > 0, "I6: {pbn} has no nodes and a record of node {id}");
        self.sequence += 1;
        let sequence = self.sequence;
        let bytes = self.bytes_in_unit(pbn, id, change);
        self.block(pbn).newest = sequence.into();
        let queue = self.waiting.entry(pbn.0).or_default();
        let before = queue.bytes.capacity();
        if queue.bytes.is_empty() {
            queue.first = sequence;
        }
        let length = queue.bytes.len() + 10 + bytes;
        if length > before {
            queue.bytes.reserve_exact(10 + bytes + length / 4);
        }
        push_waiting(&mut queue.bytes, id, sequence, change);
        queue.encoded += bytes;
        debug_assert!(
            queue.encoded <= self.format.payload(),
            "I6: {} bytes wait for a unit of {pbn}",
            queue.encoded
        );
        self.waiting_bytes += queue.bytes.capacity() - before;
        self.counts.log_records += 1;
    }

    fn bytes_in_unit(&self, pbn: Pbn, id: u32, change: &Change<'_>) -> usize {
        let widths = self.shapes.widths();
        let record = RECORD_BYTES + widths.fields_of(change);
        let queue = self.waiting.get(&pbn.0);
        let has_group =
            queue.is_some_and(|queue| waiting(widths, &queue.bytes).any(|(node, _, _)| node == id));
        if has_group { record } else { GROUP_BYTES + record }
    }

    /// Programs what waits in the block of `place` if the change would not fit into the same unit.
    fn make_unit_room(&mut self, place: u32, id: u32, change: &Change<'_>) -> Result<(), IndexError> {
        loop {
            let pbn = self.block_of(place);
            let Some(queue) = self.waiting.get(&pbn.0) else { return Ok(()) };
            let fits = queue.encoded + self.bytes_in_unit(pbn, id, change) <= self.format.payload();
            if fits && self.sequence + 1 - queue.first <= SPAN_MAX {
                return Ok(());
            }
            self.flush(pbn, false)?;
        }
    }

    /// Programs what waits for a block as one unit. With `mark`, everything up to now is durable thereby.
    /// False: the program failed and the nodes moved to another block.
    pub(super) fn flush(&mut self, pbn: Pbn, mark: bool) -> Result<bool, IndexError> {
        if self.failed.contains(&pbn) {
            self.evacuate(pbn)?;
            return Ok(false);
        }
        debug_assert!(mark || self.waiting.contains_key(&pbn.0), "a unit of {pbn} would say nothing");
        assert!(self.room(pbn) > 0, "I6: {pbn} has records and no room for them");
        let unit = self.blocks[pbn.index()].cursor;
        let per_page = self.units_per_page();
        let (ppn, sector) = (self.unit_page(pbn, unit), u32::from(unit) % per_page);
        let spare_bytes = if sector == 0 { self.spare.len() } else { 0 };
        let end = (sector as usize + 1) * self.format.unit_bytes;
        let cause = if mark || self.config.durability == Durability::EveryOperation {
            Cause::Host
        } else {
            Cause::CacheEviction
        };
        self.lay_out_page(ppn, sector, cause)?;
        let queue = self.waiting.get_mut(&pbn.0).map(core::mem::take).unwrap_or_default();
        let nodes = self.encode_unit(pbn, &queue, mark);
        if let Some(waiting) = self.waiting.get_mut(&pbn.0) {
            *waiting = queue;
        }
        self.cache.forget(ppn);
        if self.is_placed() {
            // A store that refuses a page leaves what was there.
            self.program_over(ppn, cause)?;
        }
        self.block(pbn).cursor = unit + 1;
        if !self.is_placed() && !self.program_unit(ppn, cause, (end, spare_bytes))? {
            self.evacuate(pbn)?;
            return Ok(false);
        }
        for id in nodes {
            let slot = &mut self.slots[id as usize];
            if slot.block == pbn.0 {
                slot.last = unit;
            }
        }
        self.forget_waiting(pbn);
        self.note_program(pbn, unit);
        self.block(pbn).units += 1;
        self.counts.log_units_programmed += 1;
        if mark {
            debug_assert!(self.waiting.is_empty(), "I7: records wait that a unit of {pbn} calls durable");
            self.committed = self.sequence;
            let committed = self.committed;
            self.block(pbn).newest = committed.into();
        }
        Ok(true)
    }

    /// Programs the page buffer up to a unit; false when that failed.
    fn program_unit(
        &mut self,
        ppn: Ppn,
        cause: Cause,
        (end, spare_bytes): (usize, usize),
    ) -> Result<bool, IndexError> {
        match self.nand.program(ppn, cause, &self.page[..end], &self.spare[..spare_bytes]) {
            Ok(()) => Ok(true),
            Err(NandError::ProgramFailed(_) | NandError::BadBlock(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The page buffer before a unit comes into it: blank, or in place with the units that the page holds.
    fn lay_out_page(&mut self, ppn: Ppn, sector: u32, cause: Cause) -> Result<(), IndexError> {
        self.page.fill(0xff);
        if self.is_placed() && sector > 0 {
            let frame = self.read(ppn, cause)?;
            self.page.copy_from_slice(self.cache.page(frame).0);
        }
        Ok(())
    }

    pub(super) fn note_program(&mut self, pbn: Pbn, unit: u16) {
        let generation = self.blocks[pbn.index()].generation;
        self.before = Link { generation, unit, ..Link::NONE };
    }

    /// The link that the next page carries to those before it.
    fn link(&self) -> Link {
        Link { opened: self.opened, ..self.before }
    }

    /// Writes a unit into the page buffer; the nodes that have a group in it.
    fn encode_unit(&mut self, pbn: Pbn, queue: &Waiting, mark: bool) -> Vec<u32> {
        let widths = self.shapes.widths();
        let first = if queue.bytes.is_empty() { self.sequence } else { queue.first };
        let mut nodes: Vec<u32> = Vec::new();
        let mut bytes = Vec::with_capacity(queue.encoded);
        for (id, _, _) in waiting(widths, &queue.bytes) {
            if nodes.contains(&id) {
                continue;
            }
            nodes.push(id);
            let start = bytes.len();
            let slot = self.slots[id as usize];
            let previous = if slot.block == pbn.0 { slot.last } else { NO_UNIT };
            bytes.extend_from_slice(&id.to_le_bytes());
            bytes.extend_from_slice(&previous.to_le_bytes());
            bytes.extend_from_slice(&[0; 2]);
            for (_, sequence, change) in waiting(widths, &queue.bytes).filter(|found| found.0 == id) {
                debug_assert!(sequence - first <= SPAN_MAX, "records {first} and {sequence} in one unit");
                let head = ((sequence - first) as u32) << 8 | u32::from(change.op());
                bytes.extend_from_slice(&head.to_le_bytes());
                change.push_fields(&mut bytes);
            }
            let length = (bytes.len() - start - GROUP_BYTES) as u16;
            bytes[start + 6..start + GROUP_BYTES].copy_from_slice(&length.to_le_bytes());
        }
        debug_assert_eq!(
            bytes.len(),
            queue.encoded,
            "I6: the records of {pbn} take another room than was kept"
        );
        let block = self.blocks[pbn.index()];
        let at = usize::from(block.cursor) % self.units_per_page() as usize * self.format.unit_bytes;
        let body = at + HEAD_BYTES;
        self.page[body..body + bytes.len()].copy_from_slice(&bytes);
        let dead = self.name_given_back(pbn);
        let head = Head {
            generation: block.generation,
            dead,
            ordinal: block.units,
            length: (HEAD_BYTES + bytes.len()) as u16,
            first,
            committed: if mark { self.sequence } else { self.committed },
            before: self.link(),
        };
        head.encode(&mut self.page[at..at + self.format.unit_bytes]);
        let page = self.geometry.page_in_block(self.unit_page(pbn, block.cursor)) as u16;
        let tag = IplTag { kind: PageKind::Log, page, ..self.blank_tag(pbn) };
        self.spare.fill(0xff);
        tag.encode(&mut self.spare);
        nodes
    }

    pub(super) fn blank_tag(&self, pbn: Pbn) -> IplTag {
        IplTag {
            kind: PageKind::Data,
            level: 0,
            count: 0,
            node: NO_BLOCK,
            generation: self.blocks[pbn.index()].generation,
            session: self.session,
            sequence: self.sequence,
            committed: self.committed,
            page: 0,
            merged: 0,
            protected: true,
            before: self.link(),
            data_crc: 0,
        }
    }

    /// Makes everything durable that was done so far, and gives the blocks back that were kept for the case
    /// of a cut.
    pub(super) fn commit(&mut self) -> Result<(), IndexError> {
        while let Some((&pbn, _)) = self.waiting.first_key_value() {
            let last = self.waiting.len() == 1;
            self.flush(Pbn(pbn), last)?;
        }
        if self.committed < self.sequence {
            self.mark()?;
        }
        let released = self.release_held();
        self.pending.clear();
        debug_assert!(
            released.is_err() || (self.waiting.is_empty() && self.held.is_empty()),
            "I7: {} blocks have records and {} are kept after a commit",
            self.waiting.len(),
            self.held.len()
        );
        debug_assert!(
            self.committed >= self.sequence,
            "I7: {} is committed of {}",
            self.committed,
            self.sequence
        );
        released
    }

    /// Programs a unit that only says that everything is durable.
    fn mark(&mut self) -> Result<(), IndexError> {
        loop {
            let all = (0..self.geometry.blocks).map(Pbn);
            let Some(pbn) =
                all.filter(|&pbn| self.blocks[pbn.index()].live > 0).max_by_key(|&pbn| self.room(pbn))
            else {
                unreachable!("the root is somewhere")
            };
            if self.room(pbn) == 0 && self.is_placed() {
                return self.mark_by_image();
            } else if self.room(pbn) == 0 {
                self.merge_for_room(pbn, 0)?;
            } else if self.flush(pbn, true)? {
                return Ok(());
            }
        }
    }

    /// Programs the fullest of the waiting records while they take more RAM than they may.
    pub(super) fn limit_waiting(&mut self) -> Result<(), IndexError> {
        while self.waiting_ram() > self.config.log_bytes {
            let fullest = self.waiting.iter().max_by_key(|(pbn, queue)| (queue.encoded, u32::MAX - **pbn));
            let Some((&pbn, _)) = fullest else { return Ok(()) };
            self.flush(Pbn(pbn), false)?;
        }
        Ok(())
    }

    /// Drops the waiting records of a node whose image is newer, unless a ghost still needs them.
    pub(super) fn drop_waiting_of(&mut self, pbn: Pbn, id: u32) {
        let widths = self.shapes.widths();
        let Some(queue) = self.waiting.get_mut(&pbn.0) else { return };
        let feeds = |change: &Change<'_>| matches!(change, Change::Ghost { source, .. } | Change::GhostOfAll { source, .. } if *source == id);
        if waiting(widths, &queue.bytes).any(|(_, _, change)| feeds(&change)) {
            return;
        }
        let others = || waiting(widths, &queue.bytes).filter(|found| found.0 != id);
        let bytes = others().map(|found| WAITING_BYTES + widths.fields_of(&found.2)).sum();
        let mut kept = Waiting { first: queue.first, bytes: Vec::with_capacity(bytes), encoded: 0 };
        let mut seen: Vec<u32> = Vec::new();
        for (node, sequence, change) in others() {
            push_waiting(&mut kept.bytes, node, sequence, &change);
            kept.encoded += RECORD_BYTES + widths.fields_of(&change);
            if !seen.contains(&node) {
                seen.push(node);
                kept.encoded += GROUP_BYTES;
            }
        }
        self.waiting_bytes -= queue.bytes.capacity();
        self.waiting_bytes += kept.bytes.capacity();
        *queue = kept;
        if queue.bytes.is_empty() {
            self.forget_waiting(pbn);
        }
    }
}
