//! The B+-buffer as the tree below sees it: a page store that keeps copies of nodes in frames.
//!
//! Writes go through, and a copy is kept up to date. Reads on behalf of an operation are references to buffer
//! units: they make a unit used, and a miss brings the page in. Reads of a commit, of a mount or of a check
//! leave the buffer as it is.
//!
//! The RAM is a fixed number of slabs of a page each. A slab is a frame, holds cells of dirty parts, or was
//! given up for a chunk of unit slots. A frame can be had back at any time, for it equals the page in the
//! store; so nothing here ever needs the tree. Room for dirty parts is made by commits, which the owner does
//! between operations.

use super::settings::UnitRam;
use super::units::{self, Place, Sizes, State, Units};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use nandex::nand::Cause;
use nandex::ordered::bplus::ground::level_and_entries;
use nandex::store::{PageStore, StoreError, StoreStats};
use nandex::units::Lpn;

#[derive(Debug)]
struct Frame {
    bytes: Box<[u8]>,
    unit: u32,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BufferCounts {
    /// References answered by a unit.
    pub(super) hits: u64,
    /// References that had to read the page.
    pub(super) misses: u64,
    /// Clean units that left the buffer.
    pub(super) clean_evictions: u64,
    /// Number of semi-clean units that lost their clean part.
    pub(super) clean_part_commits: u64,
    pub(super) commit_reads: u64,
}

/// A store with a buffer of units above it.
#[derive(Debug)]
pub(super) struct Buffer<S> {
    store: S,
    pub(super) units: Units,
    frames: Vec<Frame>,
    free: Vec<Box<[u8]>>,
    page_bytes: usize,
    /// Slabs made so far. `slabs_max` is the most. They differ only if the budget counts records.
    slabs: usize,
    slabs_max: usize,
    /// Whether the budget counts records. Then it, and not the slabs, bounds the copies of nodes.
    counts_records: bool,
    frames_max: usize,
    /// Slabs that dirty parts and unit slots normally leave free, for the cells and units needed when
    /// entries move between leaves.
    kept: usize,
    /// Number of slabs used for unit slots.
    chunks: usize,
    /// Slabs lent for cells.
    lent: usize,
    /// Whether reads are for a commit, and so are no references.
    pub(super) is_committing: bool,
    pub(super) counts: BufferCounts,
}

/// Buckets of the directory of units for each slab.
const fn slab_buckets(page_bytes: usize) -> usize {
    let buckets = page_bytes / 256;
    if buckets == 0 { 1 } else { buckets }
}

/// Bytes of RAM of a slab with its share of the tables.
pub(super) const fn slab_bytes(page_bytes: usize) -> usize {
    // In the tables of frames, of free slabs, and of slabs of cells.
    page_bytes
        + size_of::<Frame>()
        + 2 * size_of::<Box<[u8]>>()
        + Units::tables_bytes(1, slab_buckets(page_bytes))
}

impl<S: PageStore> Buffer<S> {
    /// An empty buffer. If its budget counts records, it may grow to `slabs_max` slabs.
    pub(super) fn new(store: S, slabs_max: usize, kept: usize, ram: UnitRam, sizes: Sizes) -> Buffer<S> {
        let page_bytes = store.page_bytes();
        let slabs = sizes.buffer_bytes / page_bytes;
        Buffer {
            store,
            units: Units::new(sizes, slabs_max, slabs_max * slab_buckets(page_bytes)),
            frames: Vec::with_capacity(slabs),
            free: (0..slabs).map(|_| vec![0; page_bytes].into_boxed_slice()).collect(),
            page_bytes,
            slabs,
            slabs_max,
            counts_records: ram == UnitRam::Record,
            frames_max: slabs,
            kept,
            chunks: 0,
            lent: 0,
            is_committing: false,
            counts: BufferCounts::default(),
        }
    }

    pub(super) fn store(&self) -> &S {
        &self.store
    }

    pub(super) fn into_store(self) -> S {
        self.store
    }

    /// Number of slabs that can be had without a commit.
    pub(super) fn slabs_at_hand(&self) -> usize {
        let clean = self.units.clean_len();
        if self.counts_records {
            let free = self.units.free_bytes(self.frames.len()).saturating_sub(self.units.change_bytes());
            (free / self.page_bytes).min(self.slabs_free()) + clean
        } else {
            self.free.len() + clean
        }
    }

    pub(super) fn slabs_max(&self) -> usize {
        self.slabs_max
    }

    /// Slabs that are free or can be made.
    fn slabs_free(&self) -> usize {
        self.free.len() + (self.slabs_max - self.slabs)
    }

    /// Takes a free slab, or makes one if that is allowed.
    fn pop(&mut self) -> Option<Box<[u8]>> {
        let slab = self.free.pop();
        if slab.is_some() || self.slabs == self.slabs_max {
            return slab;
        }
        self.slabs += 1;
        Some(vec![0; self.page_bytes].into_boxed_slice())
    }

    /// Whether one more change has room in a budget of records, if copies in the clean list may be dropped.
    pub(super) fn can_count_change(&self) -> bool {
        !self.counts_records
            || self.units.clean_len() > 0
            || self.units.free_bytes(self.frames.len()) >= self.units.change_bytes()
    }

    /// Makes room for one more change in a budget of records by dropping copies. Returns false if only a
    /// commit could make room.
    pub(super) fn count_change(&mut self) -> bool {
        while self.counts_records && self.units.free_bytes(self.frames.len()) < self.units.change_bytes() {
            let Some(unit) = self.units.last_clean() else { return false };
            self.drop_frame(unit);
        }
        true
    }

    /// Number of slabs in all, then of frames, unit slots, cells and free slabs.
    pub(super) fn slab_use(&self) -> (usize, [usize; 4]) {
        (self.slabs, [self.frames.len(), self.chunks, self.lent, self.free.len()])
    }

    pub(super) fn frame(&self, unit: u32) -> Option<&[u8]> {
        self.frames.get(self.units.get(unit).frame as usize).map(|frame| &frame.bytes[..])
    }

    /// Counts a reference answered by the dirty part of a unit, and marks the unit as used.
    pub(super) fn hit(&mut self, unit: u32) {
        self.counts.hits += 1;
        self.units.touch(unit, false);
    }

    /// Drops the clean part of a unit. A unit without a dirty part leaves the buffer.
    pub(super) fn drop_frame(&mut self, unit: u32) {
        match self.units.get(unit).state() {
            Some(State::Clean) => self.counts.clean_evictions += 1,
            Some(State::SemiClean) => self.counts.clean_part_commits += 1,
            _ => return,
        }
        self.release_frame(unit);
    }

    fn release_frame(&mut self, unit: u32) {
        let frame = self.units.get(unit).frame;
        let bytes = self.frames.swap_remove(frame as usize).bytes;
        if let Some(moved) = self.frames.get(frame as usize) {
            self.units.set_frame(moved.unit, frame);
        }
        self.free.push(bytes);
        self.units.set_frame(unit, units::NONE);
        self.units.drop_if_empty(unit);
    }

    /// Whether a slab is free. In a budget of records also whether there is room for a copy.
    fn has_slab(&self, is_copy: bool) -> bool {
        let has_room = !self.counts_records
            || !is_copy
            || self.units.free_bytes(self.frames.len()) >= self.page_bytes + self.units.change_bytes();
        has_room && self.slabs_free() > 0
    }

    /// Takes a free slab, or the slab of the last copy in the clean list.
    fn take_slab(&mut self, is_copy: bool) -> Option<Box<[u8]>> {
        while !self.has_slab(is_copy) {
            let unit = self.units.last_clean().or_else(|| self.last_hot_clean())?;
            self.drop_frame(unit);
        }
        self.pop()
    }

    /// The least recently used hot unit, if no unit is cold and this one can leave without a commit. For
    /// inner nodes as units, which are needed in the middle of an operation, as under plain LRU.
    fn last_hot_clean(&self) -> Option<u32> {
        if !self.units.inner_are_units() || self.units.dirty_len() > 0 {
            return None;
        }
        self.units.last_hot().filter(|&unit| self.units.get(unit).state() == Some(State::Clean))
    }

    /// Whether dirty parts and unit slots may take `more` more slabs.
    pub(super) fn may_lend(&self, more: usize) -> bool {
        more == 0 || self.chunks + self.lent + self.kept + more <= self.slabs_max
    }

    /// Lends a slab for cells, if enough are left for the rest.
    pub(super) fn lend_slab(&mut self) -> Option<Box<[u8]>> {
        if !self.may_lend(1) {
            return None;
        }
        let slab = self.take_slab(false)?;
        self.lent += 1;
        Some(slab)
    }

    /// Lends a slab for cells in any case. Any copy of a node may be dropped for it.
    pub(super) fn lend_any_slab(&mut self) -> Box<[u8]> {
        let slab = self.take_any_slab();
        self.lent += 1;
        slab
    }

    fn take_any_slab(&mut self) -> Box<[u8]> {
        if let Some(slab) = self.take_slab(false) {
            return slab;
        }
        if let Some(unit) = self.units.last_with_frame() {
            self.drop_frame(unit);
        }
        let slab = self.pop();
        assert!(slab.is_some(), "U5: some slabs are never lent");
        slab.unwrap_or_default()
    }

    pub(super) fn take_back(&mut self, slab: Box<[u8]>) {
        self.lent -= 1;
        self.free.push(slab);
    }

    /// The unit of a page. A new one is made if there is none and a slot can be had.
    pub(super) fn unit_for(&mut self, lpn: Lpn) -> Option<u32> {
        if let Some(unit) = self.units.find(lpn) {
            return Some(unit);
        }
        if !self.units.has_room() {
            if !self.may_lend(1) {
                return None;
            }
            drop(self.take_slab(false)?);
            self.chunks += 1;
            self.units.grow();
        }
        Some(self.units.make(lpn))
    }

    /// The unit of a page in any case. If no slot is free, a unit without changes gives up its slot before
    /// a slab is taken.
    pub(super) fn unit_by_force(&mut self, lpn: Lpn) -> u32 {
        if let Some(unit) = self.unit_for(lpn) {
            return unit;
        }
        if let Some(unit) = self.units.last_without_changes() {
            self.drop_frame(unit);
        } else {
            drop(self.take_any_slab());
            self.chunks += 1;
            self.units.grow();
        }
        self.units.make(lpn)
    }

    /// Whether `more` more slabs can be had if all copies of nodes are dropped.
    pub(super) fn can_give(&self, more: usize) -> bool {
        self.chunks + self.lent + more <= self.slabs_max
    }

    /// Keeps a copy of a page that was read, if a frame can be had.
    fn admit(&mut self, lpn: Lpn, data: &[u8]) {
        let Some((level, entries)) = level_and_entries(data) else { return };
        let is_inner = level > 1;
        // Inner nodes are used by every operation, so leaves make room for them, up to half of the buffer.
        if is_inner
            && !self.units.inner_are_units()
            && (self.units.inner_len() >= self.frames_max / 2 || self.slabs_at_hand() == 0)
            && let Some(unit) = self.units.last_inner()
        {
            self.drop_frame(unit);
        }
        let Some(mut slab) = self.take_slab(true) else { return };
        slab.copy_from_slice(data);
        let Some(unit) = self.unit_for(lpn) else {
            self.free.push(slab);
            return;
        };
        let frame = self.frames.len() as u32;
        self.frames.push(Frame { bytes: slab, unit });
        self.units.set_frame(unit, frame);
        self.units.set_base(unit, entries);
        self.units.touch(unit, is_inner);
    }

    /// Updates the copy and the facts that the buffer has of a page.
    fn update(&mut self, lpn: Lpn, data: &[u8]) {
        let Some(unit) = self.units.find(lpn) else { return };
        if let Some(frame) = self.frames.get_mut(self.units.get(unit).frame as usize) {
            frame.bytes.copy_from_slice(data);
        }
        if let Some((_, entries)) = level_and_entries(data) {
            self.units.set_base(unit, entries);
        }
    }

    /// Reads a page below the buffer for the checker. Returns whether the copy equals it, or true if there
    /// is no copy.
    pub(super) fn read_below(&mut self, unit: u32, page: &mut [u8]) -> Result<bool, StoreError> {
        if self.frame(unit).is_none() {
            return Ok(true);
        }
        self.store.read(self.units.get(unit).lpn, Cause::Check, page)?;
        Ok(self.frame(unit) == Some(page))
    }

    /// Bytes of RAM of slabs and tables, without the slabs lent for cells.
    fn buffer_bytes(&self) -> usize {
        let beyond = (self.slabs_max - self.slabs) * self.page_bytes;
        size_of::<Buffer<()>>() + self.slabs_max * slab_bytes(self.page_bytes)
            - beyond
            - self.lent * self.page_bytes
    }
}

impl<S: PageStore> PageStore for Buffer<S> {
    nandex::forward_store!(self => self.store;
        page_bytes page_count sync atomic_pages_max begin_batch end_batch durable_writes prefix_consistent
        keeps_updates checkpoint maintain scrub live_page);

    fn read(&mut self, lpn: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        let unit = self.units.find(lpn);
        let copy = unit.and_then(|unit| self.frame(unit));
        let is_reference = cause == Cause::Host && !self.is_committing;
        if let Some(copy) = copy {
            data.copy_from_slice(copy);
            if let Some(unit) = unit.filter(|_| is_reference) {
                self.counts.hits += 1;
                let is_inner = level_and_entries(data).is_some_and(|(level, _)| level > 1);
                self.units.touch(unit, is_inner);
            }
            return Ok(());
        }
        self.store.read(lpn, cause, data)?;
        if is_reference {
            self.counts.misses += 1;
            self.admit(lpn, data);
        } else {
            self.counts.commit_reads += u64::from(self.is_committing);
        }
        Ok(())
    }

    fn write(&mut self, lpn: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreError> {
        self.store.write(lpn, cause, data)?;
        self.update(lpn, data);
        Ok(())
    }

    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        if let Some(unit) = self.units.find(lpn)
            && self.frame(unit).is_some()
        {
            self.release_frame(unit);
        }
        self.store.trim(lpn)
    }

    fn write_atomic(&mut self, pages: &[(Lpn, &[u8])], cause: Cause) -> Result<(), StoreError> {
        self.store.write_atomic(pages, cause)?;
        pages.iter().for_each(|(lpn, data)| self.update(*lpn, data));
        Ok(())
    }

    fn ram_bytes(&self) -> usize {
        self.store.ram_bytes() + self.buffer_bytes()
    }

    fn stats(&self) -> StoreStats {
        let below = self.store.stats();
        StoreStats { cache_hits: self.counts.hits, cache_misses: self.counts.misses, ..below }
    }
}

impl<S> Buffer<S> {
    /// Number of leaf units in each of the three states, and of units of inner nodes.
    pub(super) fn states(&self) -> [u64; 4] {
        let mut states = [0; 4];
        for unit in self.units.all() {
            let copy = self.frames.get(self.units.get(unit).frame as usize);
            let level = copy.and_then(|frame| level_and_entries(&frame.bytes));
            let is_inner = level.is_some_and(|(level, _)| level > 1);
            let unit = self.units.get(unit);
            states[match unit.state() {
                _ if unit.place == Place::Inner || is_inner => 3,
                Some(State::Clean) => 0,
                Some(State::SemiClean) => 1,
                _ => 2,
            }] += 1;
        }
        states
    }
}
