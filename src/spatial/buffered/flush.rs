//! The ways out of the buffer: flushes, compactions of the log, and what comes back from the log at mount.

use super::buffer::{NodeBuffer, Touch};
use super::record::{FREE, RecordHead, is_reset, mod_bytes};
use super::{BufferedNodes, log};
use crate::check::IndexError;
use crate::nand::Cause;
use crate::spatial::coordinate::Coordinate;
use crate::spatial::node::{Node, NodeId};
use crate::store::{PageStore, StoreError};
use crate::units::Lpn;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Pages that a flush writes at once.
pub(super) fn group_pages(store: &impl PageStore, unit_nodes: usize) -> usize {
    store.atomic_pages_max().min(unit_nodes).max(1)
}

impl<S: PageStore, C: Coordinate, const D: usize> BufferedNodes<S, C, D> {
    /// Flushes what the policy chooses.
    fn flush(&mut self) -> Result<(), IndexError> {
        let nodes = self.chooser.choose(&mut self.buffer, self.config.unit_nodes, &self.control);
        assert!(!nodes.is_empty(), "a flush of nothing");
        self.flush_nodes(&nodes)
    }

    /// Flushes everything.
    pub(super) fn flush_all(&mut self) -> Result<(), IndexError> {
        let nodes: Vec<NodeId> = self.buffer.nodes().keys().copied().collect();
        if nodes.is_empty() { Ok(()) } else { self.flush_nodes(&nodes) }
    }

    /// Writes the pages of some nodes, in ascending order; what was written is forgotten by the buffer even
    /// if it was not all.
    fn flush_nodes(&mut self, nodes: &[NodeId]) -> Result<(), IndexError> {
        self.force_log()?;
        self.counts.flushes += 1;
        let mut node = Node::new(1);
        for group in nodes.chunks(group_pages(&self.store, self.config.unit_nodes)) {
            for (slot, &id) in group.iter().enumerate() {
                // Page 0 in hand is where nodes are read to, so what is sealed there goes last.
                let slot = group.len() - 1 - slot;
                self.retrieve(id, Cause::Host, &mut node)?;
                let operation = self.buffer.nodes().get(&id).map_or(0, |waiting| waiting.touched);
                self.seal(id, &node, operation, slot);
            }
            self.write_group(group)?;
            self.forget_flushed(group)?;
        }
        Ok(())
    }

    fn write_group(&mut self, group: &[NodeId]) -> Result<(), IndexError> {
        let pages = self.pages.chunks(self.page_bytes()).take(group.len());
        let pages: Vec<(Lpn, &[u8])> = group.iter().map(|id| Lpn(id.0)).zip(pages.rev()).collect();
        let written = match pages[..] {
            [(lpn, page)] => self.store.write(lpn, Cause::Host, page),
            _ => self.store.write_atomic(&pages, Cause::Host),
        };
        self.is_interrupted |= written.as_ref().is_err_and(|error| !error.is_refusal());
        Ok(written?)
    }

    /// Forgets the modifications of a group whose pages are on the medium.
    fn forget_flushed(&mut self, group: &[NodeId]) -> Result<(), IndexError> {
        self.counts.flushed_nodes += group.len() as u64;
        let page_bytes = self.page_bytes();
        for (slot, &id) in group.iter().enumerate() {
            let page = &self.pages[(group.len() - 1 - slot) * page_bytes..][..page_bytes];
            let Some(waiting) = self.buffer.nodes().get(&id) else { continue };
            if self.control.was_read(id) {
                self.read_buffer.put(id, waiting.level, page);
            } else {
                self.read_buffer.refresh(id, waiting.level, page);
            }
            let touched = waiting.touched;
            self.buffer.remove(id);
            let noted = self.log.append_flushed(&[id], touched);
            self.is_interrupted |= noted.is_err();
            noted?;
        }
        self.control.note_written(group);
        Ok(())
    }

    pub(super) fn force_log(&mut self) -> Result<(), IndexError> {
        let forced = self.log.force();
        self.is_interrupted |= forced.as_ref().is_err_and(|error| !error.is_refusal());
        Ok(forced?)
    }

    /// Makes sure that the log takes so many records.
    fn make_room(&mut self, records: u64) -> Result<(), IndexError> {
        if self.log.room() >= records {
            return Ok(());
        }
        let half = self.log.layout().records_max() / 2;
        if self.buffer.records() + 1 > half {
            self.counts.emergency_flushes += 1;
            self.flush_all()?;
        }
        self.compact()?;
        if self.log.room() >= records { Ok(()) } else { Err(IndexError::Full) }
    }

    /// Begins the log anew with what the buffer holds.
    pub(super) fn compact(&mut self) -> Result<(), IndexError> {
        let compacted = self.log.compact(self.operation, self.buffer.each());
        self.is_interrupted |= compacted.as_ref().is_err_and(|error| !error.is_refusal());
        Ok(compacted?)
    }

    /// Logs the operation in hand and puts it into the buffer; after [`IndexError::Full`] nothing of it is in
    /// either.
    pub(super) fn log_and_buffer(&mut self) -> Result<(), IndexError> {
        let rows = self.changed.len() * NodeBuffer::<C, D>::NODE_BYTES;
        // At most: many changes meet an older one of the same entry or node.
        let more = (self.changes.len() + rows).min(self.config.buffer_bytes);
        while self.buffer.bytes() + more > self.config.buffer_bytes && !self.buffer.is_empty() {
            self.flush()?;
        }
        self.make_room(self.changed.len() as u64)?;
        self.operation += 1;
        assert!(self.operation < 2 * log::OPERATIONS_MAX, "an operation for every microsecond of four years");
        let mark = self.log.mark();
        let logged = self.append_changes();
        if logged.is_err() {
            self.log.drop_since(mark);
        }
        self.is_interrupted |= logged.as_ref().is_err_and(|error| !error.is_refusal());
        logged?;
        self.buffer_changes();
        Ok(())
    }

    fn append_changes(&mut self) -> Result<(), StoreError> {
        let last = self.changed.len() - 1;
        let mods = self.changes.chunks_exact(mod_bytes(&self.format));
        for (at, (&node, modification)) in self.changed.iter().zip(mods).enumerate() {
            let head = RecordHead { is_last: at == last, operation: self.operation, node };
            self.log.append(head, modification)?;
        }
        if self.config.durability == crate::index::Durability::EveryOperation {
            self.log.force()?;
        }
        Ok(())
    }

    fn buffer_changes(&mut self) {
        let mods = self.changes.chunks_exact(mod_bytes(&self.format));
        for (&node, modification) in self.changed.iter().zip(mods) {
            let level = self.held.get(&node).map_or(1, |held| held.level);
            if modification[0] == FREE {
                self.buffer.remove(node);
                self.read_buffer.remove(node);
            } else {
                self.buffer.touch(Touch { node, level, operation: self.operation, modification });
            }
        }
        for (id, node) in &self.held {
            self.buffer.shorten(*id, node);
        }
    }

    /// Puts into the buffer what the log has and the pages have not.
    pub(super) fn replay(&mut self) -> Result<(), IndexError> {
        let log::Replay { records, last_operation } = self.log.replay(self.format.page_count)?;
        self.operation = last_operation;
        // The level of each node that the log tells of, and the last operation in its page.
        let mut pages: BTreeMap<NodeId, (u8, u64)> = BTreeMap::new();
        let mut node = Node::new(1);
        for (operation, id, modification) in &records {
            let (level, done) = match pages.get(id) {
                Some(known) => *known,
                None => match self.fetch(*id, Cause::Recovery, &mut node) {
                    Ok(done) => (node.level, done),
                    // A node whose first flush was to come has no page.
                    Err(IndexError::Corrupted { .. }) if is_reset(modification) => (1, 0),
                    Err(error) => return Err(error),
                },
            };
            let level = if is_reset(modification) { modification[3] } else { level };
            pages.insert(*id, (level, done));
            if *operation > done {
                self.buffer.touch(Touch { node: *id, level, operation: *operation, modification });
            }
        }
        self.require_sense()
    }

    /// Refuses a log whose modifications make no sense on the pages.
    fn require_sense(&mut self) -> Result<(), IndexError> {
        let waiting: Vec<NodeId> = self.buffer.nodes().keys().copied().collect();
        let mut node = Node::new(1);
        waiting.iter().try_for_each(|&id| self.retrieve(id, Cause::Recovery, &mut node))
    }
}
