//! The ring of segments: batches are appended at its head, segments are recycled at its tail, and the table
//! is checkpointed.
//!
//! A batch has all waiting nodes, ordered by number, in extents (`extent.rs`) one after the other. The oldest
//! segment is recycled if less than a given share of its pages is live, or if there is no room for another
//! batch: its live nodes go through the batch, which is empty then, to the head. A recycled segment is free
//! only once a checkpoint without it is durable, because a mount reads every batch since the last checkpoint.
//! After every batch there is room to recycle a segment. A power cut may take part of that room; but the
//! nodes copied there are no longer live in the segment, so the remaining room suffices for the remaining
//! nodes.

use super::extent::{Header, require_sound};
use super::layer::Layer;
use super::settings::ClusteredSizes;
use super::superblock::Superblock;
use crate::ordered::bplus_nodes::BPlusNodes;
use alloc::vec::Vec;
use core::ops::Range;
use nandex::nand::Cause;
use nandex::store::{PageStore, StoreError};
use nandex::units::Lpn;

/// Between two checkpoints at least this many times the pages of the table are written.
const TABLE_SHARE: u64 = 8;

/// The state of the ring of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ring {
    segments: u32,
    segment_pages: u32,
    first: u32,
    /// The segment being written. `used` is the number of its pages written.
    head: u32,
    used: u32,
    /// The oldest segment that is still of use.
    pub(super) tail: u32,
    /// The tail at the last checkpoint. Segments between it and `tail` are not free yet.
    pub(super) durable_tail: u32,
    /// Batches written since the last checkpoint.
    pub(super) batch: u32,
    /// Pages written since the last checkpoint.
    pub(super) pages: u64,
}

impl Ring {
    /// The ring as a checkpoint describes it.
    pub(super) fn new(plan: &ClusteredSizes, anchor: u32, tail: u32) -> Ring {
        let segment_pages = plan.segment_pages.max(1);
        let at = anchor.saturating_sub(plan.first());
        // A full last segment ends where a segment more would begin.
        let head = (at / segment_pages).min(plan.segments.saturating_sub(1));
        debug_assert!(
            plan.segments == 0 || at - head * segment_pages <= segment_pages,
            "C5: page {anchor} is beyond the ring"
        );
        Ring {
            segments: plan.segments,
            segment_pages,
            first: plan.first(),
            head,
            used: at - head * segment_pages,
            tail,
            durable_tail: tail,
            batch: 0,
            pages: 0,
        }
    }

    /// The page of the next extent, unless the segment ends before.
    pub(super) fn anchor(&self) -> u32 {
        self.first + self.head * self.segment_pages + self.used
    }

    /// The range of pages that may hold nodes.
    pub(super) fn pages_possible(&self) -> Range<u32> {
        self.first..self.first + self.segments * self.segment_pages
    }

    pub(super) fn segment(&self, segment: u32) -> Range<u32> {
        let start = self.first + segment * self.segment_pages;
        start..start + self.segment_pages
    }

    fn after(&self, segment: u32) -> u32 {
        (segment + 1) % self.segments
    }

    /// Number of free segments after the head.
    fn free_segments(&self) -> u32 {
        (self.durable_tail + self.segments - self.head - 1) % self.segments
    }

    pub(super) fn free_pages(&self) -> u64 {
        let segments = u64::from(self.free_segments()) * u64::from(self.segment_pages);
        segments + u64::from(self.segment_pages - self.used)
    }

    /// Number of pages that a checkpoint with this tail would free.
    fn recycled_pages(&self, tail: u32) -> u64 {
        let segments = (tail + self.segments - self.durable_tail) % self.segments;
        u64::from(segments) * u64::from(self.segment_pages)
    }

    /// Whether a page of the ring is still to be written.
    pub(super) fn is_free(&self, page: u32) -> bool {
        let at = page - self.first;
        let segment = at / self.segment_pages;
        let from_head = (segment + self.segments - self.head) % self.segments;
        if from_head == 0 { at % self.segment_pages >= self.used } else { from_head <= self.free_segments() }
    }

    /// The page of the next extent's header, and the number of nodes that fit after it. `None` if no
    /// segment is free.
    pub(super) fn next_extent(&mut self) -> Option<(u32, usize)> {
        if self.segment_pages - self.used < 2 {
            if self.free_segments() == 0 {
                return None;
            }
            (self.head, self.used) = (self.after(self.head), 0);
        }
        Some((self.anchor(), (self.segment_pages - self.used - 1) as usize))
    }

    /// Moves the head past an extent of `nodes` nodes.
    pub(super) fn pass(&mut self, nodes: usize) {
        self.used += nodes as u32 + 1;
        self.pages += nodes as u64 + 1;
        debug_assert!(self.used <= self.segment_pages, "C5: {} pages of a segment are used", self.used);
    }
}

impl<S: PageStore> Layer<S> {
    /// Writes all waiting nodes, and makes room for as many. If making room is refused, the nodes are
    /// written all the same, and the room is owed.
    pub(super) fn append_all(&mut self) -> Result<(), StoreError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.begin()?;
        self.append_batch(Cause::Host)?;
        self.is_room_owed = true;
        match self.settle_room() {
            Err(error) if error.is_refusal() => Ok(()),
            done => done,
        }
    }

    /// Makes the room that is owed, before nodes may wait.
    pub(super) fn settle_room(&mut self) -> Result<(), StoreError> {
        debug_assert!(
            !self.is_room_owed || self.batch.is_empty(),
            "C5: room is owed and {} nodes wait",
            self.batch.len()
        );
        if self.is_room_owed {
            self.unless_refused(|layer| layer.tidy_ring())?;
            self.is_room_owed = false;
        }
        Ok(())
    }

    /// Writes a checkpoint before the first batch after a mount, so that a batch cut off earlier can never
    /// count.
    pub(super) fn begin(&mut self) -> Result<(), StoreError> {
        if self.is_begun {
            return Ok(());
        }
        self.unless_refused(|layer| layer.checkpoint_table())?;
        self.is_begun = true;
        self.is_room_owed = self.batch.is_empty();
        self.settle_room()
    }

    /// Writes the batch. If the store refuses a page, nothing has happened: no mount takes the part written
    /// for a whole batch, and the next batch overwrites it.
    fn append_batch(&mut self, cause: Cause) -> Result<(), StoreError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let mut ring = self.ring;
        let written = self.write_extents(&mut ring, cause);
        if let Err(error) = written {
            self.is_interrupted |= !error.is_refusal();
            return Err(error);
        }
        for entry in self.batch.entries() {
            if !self.table.set(entry.id, Some(entry.page)) {
                self.is_interrupted = true;
                return Err(StoreError::Corrupted {
                    what: "C5: a free page had a node",
                    at: entry.page.into(),
                });
            }
        }
        self.counts.flushes += 1;
        self.counts.flushed_nodes += self.batch.len() as u64;
        self.batch.clear();
        self.ring = Ring { batch: ring.batch + 1, ..ring };
        Ok(())
    }

    fn write_extents(&mut self, ring: &mut Ring, cause: Cause) -> Result<(), StoreError> {
        let Layer { store, batch, plan, page, superblock, counts, .. } = self;
        let (mut done, mut part) = (0, 0);
        while done < batch.len() {
            let mut next = *ring;
            let none = StoreError::Corrupted { what: "C5: no segment is free", at: 0 };
            let (at, room) = next.next_extent().ok_or(none)?;
            let nodes = (batch.len() - done).min(room).min(plan.extent_nodes());
            let is_last = done + nodes == batch.len();
            let header = Header { epoch: superblock.epoch, batch: ring.batch + 1, part, is_last, nodes };
            let entries = &mut batch.entries_mut()[done..done + nodes];
            header.encode(Lpn(at), entries.iter().map(|entry| (entry.id, &entry.image[..])), page);
            store.write(Lpn(at), cause, page)?;
            next.pass(nodes);
            *ring = next;
            for (entry, at) in entries.iter_mut().zip(at + 1..) {
                store.write(Lpn(at), cause, &entry.image)?;
                entry.page = at;
            }
            counts.runs += u64::from(at != counts.next_page);
            counts.next_page = at + 1 + nodes as u32;
            counts.header_pages += 1;
            (done, part) = (done + nodes, part + 1);
        }
        Ok(())
    }

    /// Tidies the ring after a batch: recycles the oldest segment if few of its pages are live, and more
    /// until there is room for the next batch. Makes a checkpoint if that is due.
    fn tidy_ring(&mut self) -> Result<(), StoreError> {
        let few = u64::from(self.plan.segment_pages) * u64::from(self.plan.config.recycle_percent);
        let is_sparse = self.ring.tail != self.ring.head && 100 * (self.live_in(self.ring.tail) as u64) < few;
        let (recycling, batch) = self.plan.room_needed();
        // There is less room if this was refused half-way before: then a checkpoint comes first.
        if is_sparse && self.ring.free_pages() >= recycling {
            self.recycle(0)?;
        }
        let table_pages = u64::from(self.table.pages(self.plan.page_bytes));
        let most = self.counts.recycled_segments + 3 * u64::from(self.ring.segments);
        while self.ring.free_pages() < recycling + batch {
            if self.counts.recycled_segments > most {
                return Err(StoreError::Full);
            }
            // A checkpoint is worth its pages when many others become free by it.
            let is_vain = self.ring.tail == self.ring.durable_tail;
            let is_poor = self.ring.recycled_pages(self.ring.tail) <= table_pages;
            if is_vain || is_poor && self.ring.free_pages() >= recycling {
                self.recycle(table_pages.max(1))?;
            }
            self.checkpoint_table()?;
        }
        let is_due = self.ring.batch >= self.plan.config.checkpoint_flushes
            && self.ring.pages >= TABLE_SHARE * table_pages;
        if is_due { self.checkpoint_table() } else { Ok(()) }
    }

    fn live_in(&self, segment: u32) -> usize {
        self.table.live.of(self.ring.segment(segment)).count()
    }

    fn recycle(&mut self, pages_wanted: u64) -> Result<(), StoreError> {
        assert!(self.batch.is_empty(), "segments are recycled when no node waits");
        let recycled = self.recycle_through_batch(pages_wanted);
        if recycled.is_err() {
            // They are copies.
            self.batch.clear();
        }
        debug_assert!(self.batch.is_empty(), "C5: {} copies wait", self.batch.len());
        recycled
    }

    /// Copies the live nodes of the oldest segments to the head, through the batch. If `pages_wanted` is
    /// not 0, more segments follow: those that fit into the same batch, and those needed to recycle that
    /// many pages.
    fn recycle_through_batch(&mut self, pages_wanted: u64) -> Result<(), StoreError> {
        let (recycling, _) = self.plan.room_needed();
        let mut tail = self.ring.tail;
        loop {
            if tail == self.ring.head {
                return Err(StoreError::Full);
            }
            self.gather(tail)?;
            tail = self.ring.after(tail);
            self.counts.recycled_segments += 1;
            // After a cut there may be less room than it takes, but then what was copied before it is not
            // live.
            let nodes = self.batch.len() + self.live_in(tail);
            let fits = nodes <= self.plan.frames()
                && (nodes == 0 || self.plan.appended(nodes) <= self.ring.free_pages());
            let is_short =
                self.ring.recycled_pages(tail) < pages_wanted && self.ring.free_pages() >= recycling;
            if pages_wanted == 0 || tail == self.ring.head || !(fits || is_short) {
                break;
            }
        }
        self.append_batch(Cause::GarbageCollection)?;
        debug_assert_eq!(
            self.live_in(self.ring.tail),
            0,
            "C4: nodes stay in segment {}, which was recycled",
            self.ring.tail
        );
        self.ring.tail = tail;
        Ok(())
    }

    /// Adds the live nodes of a segment to the batch, and writes the batch whenever it is full.
    fn gather(&mut self, segment: u32) -> Result<(), StoreError> {
        let pages: Vec<u32> = self.table.live.of(self.ring.segment(segment)).collect();
        for page in &pages {
            if self.batch.len() >= self.plan.frames() {
                self.append_batch(Cause::GarbageCollection)?;
            }
            let at = Lpn(*page);
            self.store.read(at, Cause::GarbageCollection, &mut self.page)?;
            require_sound(&self.page, at)?;
            let id = BPlusNodes::number(&self.page).0;
            if self.table.get(id) != Some(*page) {
                return Err(StoreError::Corrupted {
                    what: "C4: a page has another node",
                    at: u64::from(at.0),
                });
            }
            self.batch.put(id, self.page[8], *page, &self.page);
            debug_assert!(self.batch.len() <= self.plan.frames(), "C5: {} nodes wait", self.batch.len());
        }
        self.counts.copied_nodes += pages.len() as u64;
        Ok(())
    }

    /// Writes the table and a superblock that names it. Then the segments recycled before are free.
    pub(super) fn checkpoint_table(&mut self) -> Result<(), StoreError> {
        if self.is_sync_owed {
            // The table of the checkpoint before the last one is overwritten now.
            self.store.sync()?;
            self.is_sync_owed = false;
        }
        let epoch = self.superblock.epoch + 1;
        let area = super::superblock::SLOTS + (epoch % 2) as u32 * self.plan.table_pages;
        let pages = self.table.pages(self.plan.page_bytes);
        debug_assert!(pages <= self.plan.table_pages, "C3: a table of {pages} pages");
        for part in 0..pages {
            let at = Lpn(area + part);
            self.table.encode(epoch, part, at, &mut self.page);
            self.store.write(at, Cause::Checkpoint, &self.page)?;
        }
        let (anchor, tail, entries) = (self.ring.anchor(), self.ring.tail, self.table.len());
        let written = self.write_checkpoint(Superblock { epoch, anchor, tail, entries, ..self.superblock });
        if self.superblock.epoch == epoch {
            // Batches follow this checkpoint, even if it is not known to last yet.
            self.is_sync_owed = written.is_err();
            (self.ring.batch, self.ring.pages) = (0, 0);
        }
        written?;
        self.counts.checkpoint_pages += u64::from(pages);
        let ring = self.ring;
        self.ring.durable_tail = ring.tail;
        let mut segment = ring.durable_tail;
        while segment != ring.tail {
            for page in ring.segment(segment) {
                self.trim_page(Lpn(page))?;
            }
            segment = ring.after(segment);
        }
        Ok(())
    }
}
