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
use nandex::units::{Lpn, Ppn};

/// A copy of a node.
#[derive(Debug)]
struct Frame {
    bytes: Box<[u8]>,
    unit: u32,
}

/// The counters of the buffer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BufferCounts {
    /// References that a unit answered.
    pub(super) hits: u64,
    /// References that read the page.
    pub(super) misses: u64,
    /// Clean units that left.
    pub(super) clean_evictions: u64,
    /// Semi-clean units that lost their clean part.
    pub(super) clean_part_commits: u64,
    /// Pages that commits read.
    pub(super) commit_reads: u64,
}

/// A store with a buffer of units.
#[derive(Debug)]
pub(super) struct Buffer<S> {
    store: S,
    pub(super) units: Units,
    frames: Vec<Frame>,
    free: Vec<Box<[u8]>>,
    page_bytes: usize,
    /// Slabs that were made, and most of them: the same, but where the budget counts records.
    slabs: usize,
    slabs_max: usize,
    /// Copies of nodes that the budget has room for, if that is not said by the slabs.
    counts_records: bool,
    frames_max: usize,
    /// Slabs that dirty parts and unit slots leave alone as a rule: so many can be had for the cells and
    /// units that moving entries between leaves may take.
    kept: usize,
    /// Slabs given up for unit slots.
    chunks: usize,
    /// Slabs lent for cells.
    lent: usize,
    /// Whether what is read is no reference.
    pub(super) is_committing: bool,
    pub(super) counts: BufferCounts,
}

/// Buckets of the directory of units for each slab.
const fn slab_buckets(page_bytes: usize) -> usize {
    let buckets = page_bytes / 256;
    if buckets == 0 { 1 } else { buckets }
}

/// Bytes of RAM that each slab takes, with its share of the tables.
pub(super) const fn slab_bytes(page_bytes: usize) -> usize {
    // In the tables of frames, of free slabs, and of slabs of cells.
    page_bytes
        + size_of::<Frame>()
        + 2 * size_of::<Box<[u8]>>()
        + Units::tables_bytes(1, slab_buckets(page_bytes))
}

impl<S: PageStore> Buffer<S> {
    /// An empty buffer, whose slabs may become so many where its budget counts records.
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

    /// Slabs to be had without a commit.
    pub(super) fn slabs_at_hand(&self) -> usize {
        let clean = self.units.clean_len();
        if self.counts_records {
            let free = self.units.free_bytes(self.frames.len()).saturating_sub(self.units.change_bytes());
            (free / self.page_bytes).min(self.slabs_free()) + clean
        } else {
            self.free.len() + clean
        }
    }

    /// The most slabs that it ever holds.
    pub(super) fn slabs_max(&self) -> usize {
        self.slabs_max
    }

    /// Slabs that are free or can be made.
    fn slabs_free(&self) -> usize {
        self.free.len() + (self.slabs_max - self.slabs)
    }

    /// Takes a free slab, one just made if need be.
    fn pop(&mut self) -> Option<Box<[u8]>> {
        let slab = self.free.pop();
        if slab.is_some() || self.slabs == self.slabs_max {
            return slab;
        }
        self.slabs += 1;
        Some(vec![0; self.page_bytes].into_boxed_slice())
    }

    /// Whether a change more finds room in a budget of records, if copies of the clean list go for it.
    pub(super) fn can_count_change(&self) -> bool {
        !self.counts_records
            || self.units.clean_len() > 0
            || self.units.free_bytes(self.frames.len()) >= self.units.change_bytes()
    }

    /// Sees to it that a change more finds room in a budget of records; false if it takes a commit.
    pub(super) fn count_change(&mut self) -> bool {
        while self.counts_records && self.units.free_bytes(self.frames.len()) < self.units.change_bytes() {
            let Some(unit) = self.units.last_clean() else { return false };
            self.drop_frame(unit);
        }
        true
    }

    /// Slabs in all, and those that are frames, unit slots, cells and free.
    pub(super) fn slab_use(&self) -> (usize, [usize; 4]) {
        (self.slabs, [self.frames.len(), self.chunks, self.lent, self.free.len()])
    }

    /// The copy of a page.
    pub(super) fn frame(&self, unit: u32) -> Option<&[u8]> {
        self.frames.get(self.units.get(unit).frame as usize).map(|frame| &frame.bytes[..])
    }

    /// Counts a reference that a unit's dirty part answered, and makes the unit used.
    pub(super) fn hit(&mut self, unit: u32) {
        self.counts.hits += 1;
        self.units.touch(unit, false);
    }

    /// Takes the clean part from a unit, which leaves the buffer if it has nothing else.
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

    /// Whether a slab is free, and in a budget of records, room for a copy.
    fn has_slab(&self, is_copy: bool) -> bool {
        let has_room = !self.counts_records
            || !is_copy
            || self.units.free_bytes(self.frames.len()) >= self.page_bytes + self.units.change_bytes();
        has_room && self.slabs_free() > 0
    }

    /// A free slab, or the one of the clean list's tail.
    fn take_slab(&mut self, is_copy: bool) -> Option<Box<[u8]>> {
        while !self.has_slab(is_copy) {
            let unit = self.units.last_clean().or_else(|| self.last_hot_clean())?;
            self.drop_frame(unit);
        }
        self.pop()
    }

    /// The least recently used unit where nothing is cold, if it can leave without a commit. Inner nodes that
    /// age as leaves do are missed in the middle of an operation, and come in as under plain LRU.
    fn last_hot_clean(&self) -> Option<u32> {
        if !self.units.inner_are_units() || self.units.dirty_len() > 0 {
            return None;
        }
        self.units.last_hot().filter(|&unit| self.units.get(unit).state() == Some(State::Clean))
    }

    /// Whether dirty parts and unit slots may have so many slabs more.
    pub(super) fn may_lend(&self, more: usize) -> bool {
        more == 0 || self.chunks + self.lent + self.kept + more <= self.slabs_max
    }

    /// A slab for cells, if enough are left for the rest.
    pub(super) fn lend_slab(&mut self) -> Option<Box<[u8]>> {
        if !self.may_lend(1) {
            return None;
        }
        let slab = self.take_slab(false)?;
        self.lent += 1;
        Some(slab)
    }

    /// A slab for cells come what may: any copy of a node may go for it.
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

    /// Takes a lent slab back.
    pub(super) fn take_back(&mut self, slab: Box<[u8]>) {
        self.lent -= 1;
        self.free.push(slab);
    }

    /// The unit of a page, a new one if there is none and the slots allow it.
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

    /// The unit of a page come what may. One without changes gives its slot up before a slab does.
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

    /// Whether so many slabs more can be had if every copy of a node goes for them.
    pub(super) fn can_give(&self, more: usize) -> bool {
        self.chunks + self.lent + more <= self.slabs_max
    }

    /// Keeps a copy of a page that was read, if a frame is to be had.
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

    /// Keeps what the buffer knows of a page up to date.
    fn update(&mut self, lpn: Lpn, data: &[u8]) {
        let Some(unit) = self.units.find(lpn) else { return };
        if let Some(frame) = self.frames.get_mut(self.units.get(unit).frame as usize) {
            frame.bytes.copy_from_slice(data);
        }
        if let Some((_, entries)) = level_and_entries(data) {
            self.units.set_base(unit, entries);
        }
    }

    /// Whether the copy of a page equals what the store below has; true where there is none. For the checker.
    pub(super) fn read_below(&mut self, unit: u32, page: &mut [u8]) -> Result<bool, StoreError> {
        if self.frame(unit).is_none() {
            return Ok(true);
        }
        self.store.read(self.units.get(unit).lpn, Cause::Check, page)?;
        Ok(self.frame(unit) == Some(page))
    }

    /// Bytes of RAM of the slabs and tables, without the slabs lent for cells.
    fn buffer_bytes(&self) -> usize {
        let beyond = (self.slabs_max - self.slabs) * self.page_bytes;
        size_of::<Buffer<()>>() + self.slabs_max * slab_bytes(self.page_bytes)
            - beyond
            - self.lent * self.page_bytes
    }
}

impl<S: PageStore> PageStore for Buffer<S> {
    fn page_bytes(&self) -> usize {
        self.store.page_bytes()
    }

    fn page_count(&self) -> u32 {
        self.store.page_count()
    }

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

    fn sync(&mut self) -> Result<(), StoreError> {
        self.store.sync()
    }

    fn maintain(&mut self, budget: u32) -> Result<u32, StoreError> {
        self.store.maintain(budget)
    }

    fn scrub(&mut self, budget: u32) -> Result<u32, StoreError> {
        self.store.scrub(budget)
    }

    fn checkpoint(&mut self) -> Result<(), StoreError> {
        self.store.checkpoint()
    }

    fn atomic_pages_max(&self) -> usize {
        self.store.atomic_pages_max()
    }

    fn write_atomic(&mut self, pages: &[(Lpn, &[u8])], cause: Cause) -> Result<(), StoreError> {
        self.store.write_atomic(pages, cause)?;
        pages.iter().for_each(|(lpn, data)| self.update(*lpn, data));
        Ok(())
    }

    fn begin_batch(&mut self) {
        self.store.begin_batch();
    }

    fn end_batch(&mut self) {
        self.store.end_batch();
    }

    fn durable_writes(&self) -> bool {
        self.store.durable_writes()
    }

    fn prefix_consistent(&self) -> bool {
        self.store.prefix_consistent()
    }

    fn keeps_updates(&self) -> bool {
        self.store.keeps_updates()
    }

    fn ram_bytes(&self) -> usize {
        self.store.ram_bytes() + self.buffer_bytes()
    }

    fn stats(&self) -> StoreStats {
        let below = self.store.stats();
        StoreStats { cache_hits: self.counts.hits, cache_misses: self.counts.misses, ..below }
    }

    fn live_page(&self, ppn: Ppn) -> Option<bool> {
        self.store.live_page(ppn)
    }
}

impl<S> Buffer<S> {
    /// Units of leaves in each of the three states, and of inner nodes.
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
