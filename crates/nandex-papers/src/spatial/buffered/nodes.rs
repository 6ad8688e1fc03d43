//! The buffered layer as the tree sees it: operations, bulk load, check and figures.

use super::buffer::Waiting;
use super::hand::SPARE_NODES;
use super::log::NodeLog;
use super::read_buffer::ReadBuffer;
use super::record::mod_bytes;
use super::{BufferedConfig, BufferedNodes, SUPERBLOCK};
use alloc::collections::BTreeSet;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use nandex::check::{CheckReport, IndexError, Invariant, Limit};
use nandex::index::{Durability, IndexStats, Metric};
use nandex::nand::Cause;
use nandex::spatial::coordinate::Coordinate;
use nandex::spatial::node::{Change, Entry, Node, NodeFormat, NodeId, ROOT};
use nandex::spatial::nodes::{Nodes, check_pages};
use nandex::store::PageStore;
use nandex::store::space::Space;
use nandex::units::Lpn;

impl<S: PageStore, C: Coordinate, const D: usize> BufferedNodes<S, C, D> {
    /// The settings of the layer.
    pub fn config(&self) -> &BufferedConfig {
        &self.config
    }

    /// Shows the store below to a closure.
    pub fn look<T>(&self, ask: impl FnOnce(&S) -> T) -> T {
        self.medium.store.look(ask)
    }

    /// Bounds the nodes that an operation holds, so that [`BufferedNodes::operation_bytes`] are enough RAM.
    /// An operation that would hold more fails with [`IndexError::Full`], and the tree repeats it in its
    /// narrow form.
    #[must_use]
    pub fn narrowed(mut self) -> Self {
        self.hand.held_max = self.medium.format.held_nodes_max() as u32;
        self
    }

    /// Bytes of RAM of the nodes that a narrow operation holds, and of its modifications.
    pub fn operation_bytes(format: &NodeFormat) -> usize {
        let node = size_of::<Node<C, D>>() + format.entries_max() * size_of::<Entry<C, D>>();
        let changes = format.group_nodes_max() * format.entries_max() * mod_bytes(format);
        (format.held_nodes_max().max(SPARE_NODES) + 2) * node + 2 * changes
    }

    /// Bytes of RAM that the layer takes at most. The store and the nodes of one operation are not counted.
    pub fn ram_bytes_max(config: &BufferedConfig, page_bytes: usize, page_count: u32) -> usize {
        let lists = 2 * (config.read_list + config.write_list) * size_of::<NodeId>();
        config.buffer_bytes
            + ReadBuffer::ram_bytes_max(config.read_pages, page_bytes)
            + NodeLog::<S>::ram_bytes_max(page_bytes)
            + Space::ram_bytes(page_count, true)
            + config.unit_nodes * page_bytes
            + lists
            + size_of::<Self>()
    }

    fn release(&mut self, id: NodeId) -> Result<(), IndexError> {
        self.medium.read_buffer.remove(id);
        if self.space.release_written(Lpn(id.0)) { self.trim(Lpn(id.0)) } else { Ok(()) }
    }

    /// Trims a page that no node uses. If the store has no room to note the trim, it only keeps the page
    /// longer.
    fn trim(&mut self, lpn: Lpn) -> Result<(), IndexError> {
        match self.medium.store.trim(lpn) {
            Err(error) if error.is_refusal() => Ok(()),
            done => Ok(done?),
        }
    }

    fn note_read(&mut self, id: NodeId, cause: Cause) {
        if cause != Cause::Host {
            return;
        }
        self.control.note_read(id);
        if let Some(waiting) = self.buffer.nodes().get(&id) {
            self.counts.buffer_hits += 1;
            self.counts.whole_hits += u64::from(waiting.is_whole());
        }
    }

    fn check_buffers(&mut self, report: &mut CheckReport) -> Result<(), IndexError> {
        if let Some(fault) = self.buffer.fault() {
            report.violation(Invariant::B3, 0, fault);
        }
        let waiting: Vec<(NodeId, u64, bool)> =
            self.buffer.nodes().iter().map(|(id, w)| (*id, w.first, Waiting::is_whole(w))).collect();
        let mut node = Node::new(1);
        for (id, first, is_whole) in waiting {
            match self.fetch(id, Cause::Check, &mut node) {
                Ok(done) if done >= first && !is_whole => {
                    let found = "an operation waits that the page has".to_string();
                    report.violation(Invariant::B2, u64::from(id.0), found);
                }
                Ok(_) => {}
                Err(IndexError::Corrupted { .. }) if is_whole => {}
                Err(error) => report.violation(Invariant::S1, u64::from(id.0), error.to_string()),
            }
        }
        let mut page = vec![0; self.medium.store.page_bytes()];
        for (id, kept) in self.medium.read_buffer.pages() {
            self.medium.store.read(Lpn(id.0), Cause::Check, &mut page)?;
            if page != kept {
                let found = "the read buffer has another page".to_string();
                report.violation(Invariant::B4, u64::from(id.0), found);
            }
        }
        Ok(())
    }

    fn check_superblock(&mut self, report: &mut CheckReport) -> Result<(), IndexError> {
        let page_bytes = self.medium.page_bytes();
        let page = &mut self.medium.pages[..page_bytes];
        self.medium.store.read(SUPERBLOCK, Cause::Check, page)?;
        match super::layered::<C, D>(page, self.medium.format.page_count) {
            Ok(format) if format == self.medium.format => {}
            Ok(_) => report.violation(Invariant::S7, 0, "the superblock tells another layout".to_string()),
            Err(error) => report.violation(Invariant::S7, 0, error.to_string()),
        }
        Ok(())
    }
}

impl<S: PageStore, C: Coordinate, const D: usize> Nodes<C, D> for BufferedNodes<S, C, D> {
    fn format(&self) -> &NodeFormat {
        &self.medium.format
    }

    fn durability(&self) -> Durability {
        self.config.durability
    }

    fn begin(&mut self) -> Result<(), IndexError> {
        self.ready()?;
        assert!(!self.hand.is_open, "an operation within another");
        self.hand.is_open = true;
        Ok(())
    }

    fn read(&mut self, id: NodeId, cause: Cause) -> Result<&Node<C, D>, IndexError> {
        self.ready()?;
        if self.hand.is_open && self.hand.held.contains_key(&id) {
            return Ok(&self.hand.held[&id]);
        }
        self.note_read(id, cause);
        if !self.hand.is_open {
            let mut node = core::mem::replace(&mut self.scratch, Node::new(1));
            let retrieved = self.retrieve(id, cause, &mut node);
            self.scratch = node;
            return retrieved.map(|()| &self.scratch);
        }
        if self.hand.held.len() >= self.hand.held_max as usize {
            return Err(IndexError::Full(Limit::Ram));
        }
        let room = self.medium.format.entries_max();
        let mut node = self.hand.spare.pop().unwrap_or_else(|| Node::with_room(room));
        self.retrieve(id, cause, &mut node)?;
        Ok(self.hand.held.entry(id).or_insert(node))
    }

    fn forget(&mut self, id: NodeId) {
        self.hand.forget(id);
    }

    fn allocate(&mut self) -> Result<NodeId, IndexError> {
        assert!(self.hand.is_open, "a node allocated outside an operation");
        let id = NodeId(self.space.allocate().ok_or(IndexError::NO_BLOCK)?.0);
        self.hand.taken.push(id);
        Ok(id)
    }

    fn change(&mut self, id: NodeId, change: Change<C, D>) -> Result<(), IndexError> {
        assert!(self.hand.is_open, "{id} changed outside an operation");
        self.hand.change(&self.medium.format, id, change);
        Ok(())
    }

    fn free(&mut self, id: NodeId) {
        assert!(self.hand.is_open && id != ROOT, "{id} freed outside an operation");
        self.hand.free(&self.medium.format, id);
    }

    /// Always true: the log takes an operation of any size that it has room for.
    fn fits_group(&self) -> bool {
        true
    }

    fn commit(&mut self) -> Result<(), IndexError> {
        assert!(self.hand.is_open, "nothing to commit");
        let done = if self.hand.changed.is_empty() { Ok(()) } else { self.log_and_buffer() };
        if done.is_err() {
            self.rollback();
            return done;
        }
        let freed = core::mem::take(&mut self.hand.freed);
        let released = freed.iter().try_for_each(|&id| self.release(id));
        self.hand.freed = freed;
        self.hand.end();
        released
    }

    fn rollback(&mut self) {
        self.hand.taken.iter().for_each(|id| self.space.release(Lpn(id.0)));
        self.hand.end();
    }

    fn load(&mut self, node: &Node<C, D>) -> Result<NodeId, IndexError> {
        self.ready()?;
        if !self.hand.is_loading {
            // What waits is of an older tree, and must not meet the new nodes.
            self.flush_all()?;
            self.compact()?;
            self.hand.is_loading = true;
        }
        let lpn = self.space.allocate().ok_or(IndexError::NO_BLOCK)?;
        let id = NodeId(lpn.0);
        self.medium.seal(id, node, self.operation, 0);
        let page_bytes = self.medium.page_bytes();
        let written = self.medium.store.write(lpn, Cause::Host, &self.medium.pages[..page_bytes]);
        if written.is_err() {
            self.space.release(lpn);
        }
        self.medium.is_interrupted |= written.as_ref().is_err_and(|error| !error.is_refusal());
        Ok(written.map(|()| id)?)
    }

    fn end_load(&mut self, root: Option<&Node<C, D>>) -> Result<(), IndexError> {
        self.ready()?;
        self.hand.is_loading = false;
        if let Some(root) = root {
            self.begin()?;
            self.change(ROOT, Change::Whole(root.clone()))?;
            return self.commit();
        }
        for id in (ROOT.0 + 1..self.medium.format.page_count).map(NodeId) {
            if self.space.is_used(Lpn(id.0)) {
                self.release(id)?;
            }
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        self.ready()?;
        self.force_log()?;
        self.medium.store.sync()?;
        let mut start = SUPERBLOCK;
        while let Some(lpn) = self.space.next_untrimmed(start) {
            self.trim(lpn)?;
            start = lpn;
        }
        Ok(())
    }

    /// Flushes all nodes and begins the log anew, so that the next mount has nothing to replay.
    fn close(&mut self) -> Result<(), IndexError> {
        self.ready()?;
        self.flush_all()?;
        self.compact()?;
        self.sync()?;
        Ok(self.medium.store.checkpoint()?)
    }

    fn check(&mut self, reached: &BTreeSet<NodeId>, report: &mut CheckReport) -> Result<(), IndexError> {
        self.check_superblock(report)?;
        self.check_buffers(report)?;
        self.log.check(report)?;
        check_pages(&self.space, reached, report);
        Ok(())
    }

    fn stats(&self) -> IndexStats {
        let store = self.medium.store.stats();
        let metric = |name, value| Metric { name, value };
        IndexStats {
            height: 0,
            live_pages: u64::from(self.space.used_pages()) + u64::from(self.log.used_pages()),
            cache_hits: self.medium.read_buffer.hits + store.cache_hits,
            cache_misses: if self.config.read_pages > 0 {
                self.medium.read_buffer.misses
            } else {
                store.cache_misses
            },
            collections: store.collections,
            metrics: vec![
                metric("free_pages", u64::from(self.space.free_pages())),
                metric("relocations", store.moved_pages),
                metric("buffered_nodes", self.buffer.nodes().len() as u64),
                metric("buffered_bytes", self.buffer.bytes() as u64),
                metric("buffer_hits", self.counts.buffer_hits),
                metric("whole_hits", self.counts.whole_hits),
                metric("flushes", self.counts.flushes),
                metric("flushed_nodes", self.counts.flushed_nodes),
                metric("emergency_flushes", self.counts.emergency_flushes),
                metric("log_pages", 2 * u64::from(self.log.layout().pages)),
                metric("log_records", self.log.counts.records),
                metric("log_page_writes", self.log.page_writes()),
                metric("log_compactions", self.log.counts.compactions),
                metric("log_replayed_records", self.log.counts.replayed_records),
            ],
        }
    }

    fn ram_bytes(&self) -> usize {
        let entries = |node: &Node<C, D>| node.entries.capacity() * size_of::<Entry<C, D>>();
        let nodes = self.hand.held.values().chain(&self.hand.spare).chain([&self.scratch]);
        self.medium.store.ram_bytes()
            + size_of::<Self>()
            + self.buffer.bytes()
            + self.medium.read_buffer.ram_bytes()
            + self.control.ram_bytes()
            + self.log.ram_bytes()
            + Space::ram_bytes(
                self.medium.format.page_count,
                super::trims_wait(&self.medium.store, &self.config),
            )
            + self.medium.pages.capacity()
            + self.hand.changes.capacity()
            + nodes.map(|node| size_of::<Node<C, D>>() + entries(node)).sum::<usize>()
    }
}
