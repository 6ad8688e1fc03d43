//! Emptying the buffer: flushes, compactions of the log, and replaying the log at a mount.

use super::buffer::{NodeBuffer, Touch, Waiting};
use super::record::{FLUSHED, FREE, RecordHead, is_reset, mod_bytes};
use super::{BufferedNodes, FlushPolicy, Medium, ahead_of_log, log};
use alloc::vec::Vec;
use nandex::check::IndexError;
use nandex::nand::{Cause, NandError};
use nandex::spatial::coordinate::Coordinate;
use nandex::spatial::node::{Node, NodeId, ROOT};
use nandex::store::{PageStore, StoreError};
use nandex::units::Lpn;

/// Number of pages that a flush writes in one atomic group.
pub(super) fn group_pages(store: &impl PageStore, unit_nodes: usize) -> usize {
    store.atomic_pages_max().min(unit_nodes).max(1)
}

impl<S: PageStore, C: Coordinate, const D: usize> BufferedNodes<S, C, D> {
    /// Flushes the nodes that the policy chooses.
    fn flush(&mut self) -> Result<(), IndexError> {
        if self.config.policy == FlushPolicy::All {
            return self.flush_all();
        }
        let nodes = self.chooser.choose(&mut self.buffer, self.config.unit_nodes, &self.control);
        assert!(!nodes.is_empty(), "a flush of nothing");
        self.begin_flush()?;
        nodes.chunks(self.group_pages()).try_for_each(|group| self.flush_group(group))
    }

    pub(super) fn flush_all(&mut self) -> Result<(), IndexError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.begin_flush()?;
        while !self.buffer.is_empty() {
            let first = self.buffer.nodes().keys().copied().take(self.group_pages());
            self.flush_group(&first.collect::<Vec<NodeId>>())?;
        }
        Ok(())
    }

    fn group_pages(&self) -> usize {
        group_pages(&self.medium.store, self.config.unit_nodes)
    }

    fn begin_flush(&mut self) -> Result<(), IndexError> {
        self.force_log()?;
        self.counts.flushes += 1;
        Ok(())
    }

    /// Writes the pages of some nodes in ascending order, and forgets their modifications.
    fn flush_group(&mut self, group: &[NodeId]) -> Result<(), IndexError> {
        let mut node = Node::new(1);
        for (slot, &id) in group.iter().enumerate() {
            // Page 0 in hand is where nodes are read to, so what is sealed there goes last.
            let slot = group.len() - 1 - slot;
            self.retrieve(id, Cause::Host, &mut node)?;
            let operation = self.buffer.nodes().get(&id).map_or(0, |waiting| waiting.touched);
            self.medium.seal(id, &node, operation, slot);
        }
        self.write_group(group)?;
        self.forget_flushed(group)
    }

    fn write_group(&mut self, group: &[NodeId]) -> Result<(), IndexError> {
        let pages = self.medium.pages.chunks(self.medium.page_bytes()).take(group.len());
        let pages: Vec<(Lpn, &[u8])> = group.iter().map(|id| Lpn(id.0)).zip(pages.rev()).collect();
        let written = match pages[..] {
            [(lpn, page)] => self.medium.store.write(lpn, Cause::Host, page),
            _ => self.medium.store.write_atomic(&pages, Cause::Host),
        };
        self.medium.is_interrupted |= written.as_ref().is_err_and(|error| !error.is_refusal());
        Ok(written?)
    }

    fn forget_flushed(&mut self, group: &[NodeId]) -> Result<(), IndexError> {
        self.counts.flushed_nodes += group.len() as u64;
        let page_bytes = self.medium.page_bytes();
        for (slot, &id) in group.iter().enumerate() {
            let page = &self.medium.pages[(group.len() - 1 - slot) * page_bytes..][..page_bytes];
            let Some(waiting) = self.buffer.nodes().get(&id) else { continue };
            if self.control.was_read(id) {
                self.medium.read_buffer.put(id, waiting.level, page);
            } else {
                self.medium.read_buffer.refresh(id, waiting.level, page);
            }
            let touched = waiting.touched;
            self.buffer.remove(id);
            let noted = self.log.append_flushed(&[id], touched);
            self.medium.is_interrupted |= noted.is_err();
            noted?;
        }
        self.control.note_written(group);
        Ok(())
    }

    pub(super) fn force_log(&mut self) -> Result<(), IndexError> {
        let forced = self.log.force();
        self.medium.is_interrupted |= forced.as_ref().is_err_and(|error| !error.is_refusal());
        Ok(forced?)
    }

    /// Makes sure that the log has room for `records` records: compacts it, after a flush of all nodes if
    /// the buffer would fill more than half of it.
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
        if self.log.room() >= records { Ok(()) } else { Err(IndexError::NO_BLOCK) }
    }

    /// Begins the log anew with the contents of the buffer.
    pub(super) fn compact(&mut self) -> Result<(), IndexError> {
        let compacted = self.log.compact(self.operation, self.buffer.each());
        self.medium.is_interrupted |= compacted.as_ref().is_err_and(|error| !error.is_refusal());
        Ok(compacted?)
    }

    /// Logs the operation and adds it to the buffer. After [`IndexError::Full`] neither contains any of it.
    pub(super) fn log_and_buffer(&mut self) -> Result<(), IndexError> {
        let rows = self.hand.changed.len() * NodeBuffer::<C, D>::NODE_BYTES;
        // At most: many changes meet an older one of the same entry or node.
        let more = (self.hand.changes.len() + rows).min(self.config.buffer_bytes);
        while self.buffer.bytes() + more > self.config.buffer_bytes && !self.buffer.is_empty() {
            self.flush()?;
        }
        self.make_room(self.hand.changed.len() as u64)?;
        self.operation += 1;
        assert!(self.operation < 2 * log::OPERATIONS_MAX, "an operation for every microsecond of four years");
        let mark = self.log.mark();
        let logged = self.append_changes();
        if logged.is_err() {
            self.log.drop_since(mark);
        }
        self.medium.is_interrupted |= logged.as_ref().is_err_and(|error| !error.is_refusal());
        logged?;
        self.buffer_changes();
        Ok(())
    }

    fn append_changes(&mut self) -> Result<(), StoreError> {
        let last = self.hand.changed.len() - 1;
        let mods = self.hand.changes.chunks_exact(mod_bytes(&self.medium.format));
        for (at, (&node, modification)) in self.hand.changed.iter().zip(mods).enumerate() {
            let head = RecordHead { is_last: at == last, operation: self.operation, node };
            self.log.append(head, modification)?;
        }
        if self.config.durability == nandex::index::Durability::EveryOperation {
            self.log.force()?;
        }
        Ok(())
    }

    fn buffer_changes(&mut self) {
        let mods = self.hand.changes.chunks_exact(mod_bytes(&self.medium.format));
        for (&node, modification) in self.hand.changed.iter().zip(mods) {
            let level = self.hand.held.get(&node).map_or(1, |held| held.level);
            if modification[0] == FREE {
                self.buffer.remove(node);
                self.medium.read_buffer.remove(node);
            } else {
                self.buffer.touch(Touch { node, level, operation: self.operation, modification });
            }
        }
        for (id, node) in &self.hand.held {
            self.buffer.shorten(*id, node);
        }
    }

    /// Rebuilds the buffer from the log. Records are taken in the order of the log, and flushes in it are
    /// followed too, so the buffer is never larger than it was when the log was written.
    pub(super) fn replay(&mut self) -> Result<(), IndexError> {
        let BufferedNodes { log, buffer, medium, .. } = self;
        let (mut node, mut known) = (Node::new(1), Known::default());
        // The last operation in a page, and of which node.
        let mut newest = (0, ROOT);
        let mut replayed = 0;
        let last_operation = log.replay(medium.format.page_count, &mut |head, modification| {
            let RecordHead { operation, node: id, .. } = head;
            if [FLUSHED, FREE].contains(&modification[0]) {
                buffer.remove(id);
                return Ok(());
            }
            let page = match buffer.nodes().get(&id) {
                Some(waiting) => InPage { level: waiting.level, ..InPage::NONE },
                None => match known.of(id) {
                    Some(page) => page,
                    None => known.note(id, medium.in_page(id, &mut node)?),
                },
            };
            newest = newest.max((page.operation, id));
            if operation <= page.operation && !buffer.nodes().contains_key(&id) {
                return Ok(());
            }
            let level = if is_reset(modification) { modification[3] } else { page.level };
            replayed += 1;
            if buffer.touch_again(Touch { node: id, level, operation, modification }, page.entries) {
                medium.shorten(buffer, id, &mut node);
            }
            Ok(())
        })?;
        self.log.counts.replayed_records = replayed;
        self.operation = last_operation;
        if newest.0 > last_operation {
            return Err(ahead_of_log(newest.1));
        }
        self.require_sense()
    }

    /// Refuses a log whose modifications do not fit the pages.
    fn require_sense(&mut self) -> Result<(), IndexError> {
        let (mut node, mut from) = (Node::new(1), ROOT);
        while let Some((&id, _)) = self.buffer.nodes().range(from..).next() {
            self.retrieve(id, Cause::Recovery, &mut node)?;
            from = NodeId(id.0 + 1);
        }
        Ok(())
    }
}

/// The state of a node's page, as a mount found it.
#[derive(Clone, Copy)]
struct InPage {
    level: u8,
    entries: u32,
    /// Number of the last operation in the page.
    operation: u64,
}

impl InPage {
    /// The state of a node without a page.
    const NONE: InPage = InPage { level: 1, entries: 0, operation: 0 };
}

impl<S: PageStore> Medium<S> {
    /// Reads the state of a node's page. It may be missing: the node's first flush may not have happened,
    /// or the log may go on to give the node up. A page missed by other nodes is noticed at the end.
    fn in_page<C: Coordinate, const D: usize>(
        &mut self,
        id: NodeId,
        node: &mut Node<C, D>,
    ) -> Result<InPage, IndexError> {
        match self.fetch(id, Cause::Recovery, node) {
            Ok(operation) => Ok(InPage { level: node.level, entries: node.entries.len() as u32, operation }),
            Err(error) if is_damage(&error) => Ok(InPage::NONE),
            Err(error) => Err(error),
        }
    }

    /// Replaces the modifications of a node by the whole node, if they fit the page.
    fn shorten<C: Coordinate, const D: usize>(
        &mut self,
        buffer: &mut NodeBuffer<C, D>,
        id: NodeId,
        node: &mut Node<C, D>,
    ) {
        let is_whole = buffer.nodes().get(&id).is_some_and(Waiting::is_whole);
        let is_read = is_whole || self.fetch(id, Cause::Recovery, node).is_ok();
        if is_read && buffer.apply_to(id, node).is_ok() {
            buffer.shorten(id, node);
        }
    }
}

fn is_damage(error: &IndexError) -> bool {
    matches!(
        error,
        IndexError::Corrupted { .. }
            | IndexError::Store(StoreError::Corrupted { .. } | StoreError::Nand(NandError::Uncorrectable(_)))
    )
}

/// The states of a few pages read last in a mount.
#[derive(Default)]
struct Known {
    pages: [Option<(NodeId, InPage)>; 16],
}

impl Known {
    fn place(&mut self, id: NodeId) -> &mut Option<(NodeId, InPage)> {
        let place = id.0 as usize % self.pages.len();
        &mut self.pages[place]
    }

    fn of(&mut self, id: NodeId) -> Option<InPage> {
        self.place(id).filter(|(known, _)| *known == id).map(|(_, page)| page)
    }

    fn note(&mut self, id: NodeId, page: InPage) -> InPage {
        *self.place(id) = Some((id, page));
        page
    }
}
