//! The tree below the queue: a directory of leaves of L pages, searches that read a leaf at once, ranges, the
//! checker.

use super::corrupted;
use super::page::LeafLayout;
use crate::ordered::pooled::leaves::{LeafTree, leaf_index, pages_for_leaves};
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Bound, ControlFlow};
use nandex::check::{CheckReport, IndexError, Invariant};
use nandex::nand::Cause;
use nandex::ordered::bplus::BPlusTree;
use nandex::ordered::bplus::ground::{LeafSpan, Name, Walk};
use nandex::ordered::change::Change;
use nandex::ordered::node::NodeShape;
use nandex::ordered::{
    Direction, Durability, IndexStats, Metric, OrderedIndex, RecordFormat, Records, Room, Tour, Visit,
};
use nandex::sort;
use nandex::store::space::Space;
use nandex::store::{PageStore, StoreError, batch};
use nandex::units::Lpn;

/// In [`SegmentTree::segments`]: the used segments of the leaf are not known.
const UNKNOWN: u8 = u8::MAX;

/// A tree that appends updates to its leaves.
pub struct SegmentTree<S> {
    pub(super) directory: BPlusTree<S>,
    pub(super) layout: LeafLayout,
    /// Largest number of requests that are submitted together.
    pub(super) requests_max: usize,
    /// For each slot: the used segments of its leaf.
    pub(super) segments: Vec<u8>,
    pub(super) leaves: u32,
    /// Whether the last search found no neighbours to join, and no record was removed since.
    pub(super) is_tight: bool,
    /// The slot at which the search for a free one begins.
    pub(super) first_free: usize,
    /// Buffers for pages of leaves.
    pub(super) frames: Vec<Box<[u8]>>,
    /// Buffer for the sorted records of a leaf, as one node.
    pub(super) flat: Box<[u8]>,
    pub(super) flat_shape: NodeShape,
    pub(super) class: Durability,
    pub(super) counts: SegmentCounts,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SegmentCounts {
    pub(super) rounds: u64,
    pub(super) appended_records: u64,
    pub(super) appended_pages: u64,
    pub(super) consolidations: u64,
    pub(super) leaf_splits: u64,
    pub(super) emptied_leaves: u64,
    pub(super) leaf_joins: u64,
    pub(super) leaf_shares: u64,
}

/// Most records gathered at once: those of two consolidated leaves.
fn flat_records(layout: &LeafLayout) -> usize {
    layout.capacity().max(2 * layout.keeps())
}

/// Number of page buffers: for the pages read together, and for two leaves.
fn frames_for(layout: &LeafLayout, requests_max: usize) -> usize {
    requests_max + 2 * layout.segments
}

fn slots_of(layout: &LeafLayout, pages: u32) -> usize {
    pages as usize / layout.segments
}

/// Bytes of RAM besides the directory's own. The directory's reads of `requests_max` nodes at a time are
/// not included.
pub(super) fn buffer_bytes(layout: &LeafLayout, requests_max: usize, pages: u32) -> usize {
    frames_for(layout, requests_max) * (layout.page_bytes + size_of::<Box<[u8]>>())
        + flat_records(layout) * layout.record.entry_bytes()
        + slots_of(layout, pages)
}

impl<S: PageStore> SegmentTree<S> {
    pub(super) fn over(
        mut directory: BPlusTree<S>,
        layout: LeafLayout,
        requests_max: usize,
    ) -> SegmentTree<S> {
        let class = directory.class_with(group_pages_max(&layout));
        directory.promise_nothing();
        let capacity = flat_records(&layout);
        let (key_bytes, value_bytes) = (layout.record.key_bytes.into(), layout.record.value_bytes.into());
        let page = vec![0; layout.page_bytes].into_boxed_slice();
        SegmentTree {
            segments: vec![UNKNOWN; slots_of(&layout, directory.space().page_count())],
            leaves: 0,
            is_tight: false,
            first_free: 0,
            frames: vec![page; frames_for(&layout, requests_max)],
            flat: vec![0; capacity * layout.record.entry_bytes()].into_boxed_slice(),
            flat_shape: NodeShape { capacity, key_bytes, value_bytes },
            directory,
            layout,
            requests_max,
            class,
            counts: SegmentCounts::default(),
        }
    }

    /// Marks the pages of all leaves as used. No leaf is read.
    pub(super) fn claim_leaves(mut self) -> Result<SegmentTree<S>, IndexError> {
        let (segments, leaves) = (self.layout.segments as u32, &mut self.leaves);
        self.directory.walk_names(Cause::Recovery, &mut |_, space, first| {
            let end = first.0.checked_add(segments).filter(|&end| end <= space.page_count());
            let is_free = |space: &Space| !(first.0..first.0 + segments).any(|page| space.is_used(Lpn(page)));
            if end.is_none() || (space.page_count() - first.0) % segments != 0 || !is_free(space) {
                return Err(corrupted(
                    Invariant::O3,
                    "the pages of a leaf are used twice, or are none",
                    first,
                )
                .into());
            }
            (first.0..first.0 + segments).for_each(|page| assert!(space.claim(Lpn(page)), "O3: just seen"));
            *leaves += 1;
            Ok(())
        })?;
        Ok(self)
    }

    /// The slot of the leaf that begins on page `first`. Slots are counted from the end of the store down.
    pub(super) fn slot_of(&self, first: Lpn) -> Result<usize, IndexError> {
        let (pages, segments) = (self.directory.space().page_count(), self.layout.segments as u32);
        let slot = ((pages - first.0) / segments).checked_sub(1).map(|slot| slot as usize);
        let is_one = (pages - first.0).is_multiple_of(segments);
        slot.filter(|&slot| is_one && slot < self.segments.len())
            .ok_or_else(|| corrupted(Invariant::O3, "no leaf begins on this page", first))
    }

    pub(super) fn pages_of(&self, slot: usize) -> core::ops::Range<u32> {
        let (pages, segments) = (self.directory.space().page_count(), self.layout.segments as u32);
        let end = pages - slot as u32 * segments;
        end - segments..end
    }

    /// Number of used segments of a leaf, if known.
    pub(super) fn known_segments(&self, slot: usize) -> Option<usize> {
        Some(self.segments[slot]).filter(|&n| n != UNKNOWN).map(usize::from)
    }

    pub(super) fn forget_segments(&mut self, slot: usize) {
        self.segments[slot] = UNKNOWN;
    }

    /// Reads some leaves together. Each goes to frames of its own, `segments` apart. Returns the used
    /// segments of each.
    pub(super) fn read_leaves(&mut self, leaves: &[Lpn], cause: Cause) -> Result<Vec<usize>, IndexError> {
        let apart = self.layout.segments;
        assert!(leaves.len() * apart <= self.frames.len(), "more leaves than frames");
        let mut used = Vec::with_capacity(leaves.len());
        for &first in leaves {
            let slot = self.slot_of(first)?;
            used.push(self.known_segments(slot).unwrap_or(apart));
        }
        let SegmentTree { directory, frames, .. } = self;
        batch(directory.store_mut(), |store| {
            for ((leaf, first), &used) in leaves.iter().enumerate().zip(&used) {
                for place in 0..used {
                    store.read(Lpn(first.0 + place as u32), cause, &mut frames[leaf * apart + place])?;
                }
            }
            Ok::<(), StoreError>(())
        })?;
        for (leaf, &first) in leaves.iter().enumerate() {
            used[leaf] = self.verify_leaf(leaf * apart, first, used[leaf])?;
        }
        Ok(used)
    }

    /// Checks the segments of a leaf that was read. Returns how many belong to it.
    fn verify_leaf(&mut self, base: usize, first: Lpn, read: usize) -> Result<usize, IndexError> {
        let slot = self.slot_of(first)?;
        let known = self.known_segments(slot);
        self.layout.verify(&self.frames[base], first, 0)?;
        let mut used = 1;
        while used < read {
            let (before, page) = (&self.frames[base + used - 1], &self.frames[base + used]);
            let is_full = LeafLayout::head(before).records == self.layout.records;
            let lpn = Lpn(first.0 + used as u32);
            if known.is_some() {
                self.layout.verify(page, lpn, used)?;
                if !self.layout.follows(before, page, used) {
                    return Err(corrupted(Invariant::O2, "a segment does not follow the one before it", lpn));
                }
            } else if !is_full || page.iter().all(|&byte| byte == 0) {
                break;
            } else {
                // Damaged, it might have been the leaf's.
                self.layout.verify(page, lpn, used)?;
                if !self.layout.follows(before, page, used) {
                    break;
                }
            }
            used += 1;
        }
        self.segments[slot] = used as u8;
        Ok(used)
    }

    /// The value of a key in the segments in frames, searched from the newest. `None` if the key is absent.
    fn find_in(&self, base: usize, used: usize, key: &[u8]) -> Option<&[u8]> {
        let layout = &self.layout;
        for page in self.frames[base..base + used].iter().rev() {
            let head = LeafLayout::head(page);
            let mut appended = (head.sorted..head.records).rev().map(|at| layout.record(page, at));
            if let Some(change) = appended.find(|change| change.key == key) {
                return change.value;
            }
            if let Ok(at) = sort::search(0..head.sorted, |at| layout.record(page, at).key.cmp(key)) {
                return layout.record(page, at).value;
            }
        }
        None
    }

    /// Gathers the records of a leaf in frames, sorted. Returns how many there are.
    pub(super) fn gather(&mut self, base: usize, used: usize) -> usize {
        self.gather_more(base, used, 0)
    }

    /// Gathers the records of another leaf, whose pages are in the frames, after the `held` records gathered
    /// before. Returns the total number.
    pub(super) fn gather_more(&mut self, base: usize, used: usize, mut held: usize) -> usize {
        let SegmentTree { frames, layout, flat, flat_shape, .. } = self;
        let pages = &frames[base..base + used];
        // Beside the records of another leaf there is room for what this one comes to, not for what it held
        // meanwhile.
        let is_beside = held > 0;
        for (place, page) in pages.iter().enumerate() {
            for at in 0..LeafLayout::head(page).records {
                let change = layout.record(page, at);
                if !is_beside || !is_changed_later(layout, &pages[place..], at, change.key) {
                    held = upsert(flat_shape, flat, held, change);
                }
            }
        }
        held
    }

    /// Finds the leaf of a key and reads it into the first frames. Returns its name and its number of used
    /// segments.
    pub(super) fn seek(&mut self, key: &[u8], cause: Cause) -> Result<Option<(Name, usize)>, IndexError> {
        let Some(name) = self.directory.name_of(key, cause)? else { return Ok(None) };
        let used = self.read_leaves(&[name.page], cause)?[0];
        Ok(Some((name, used)))
    }

    pub(super) fn holds(&mut self, key: &[u8], cause: Cause) -> Result<bool, IndexError> {
        let Some((_, used)) = self.seek(key, cause)? else { return Ok(false) };
        Ok(self.find_in(0, used, key).is_some())
    }

    pub(super) fn everything(&self) -> LeafSpan {
        LeafSpan { low: None, high: None }
    }

    /// prange: the leaves of the range are read several at a time, ever more as the walk goes on.
    fn walk_range(&mut self, mut tour: Tour<'_, '_>) -> Result<(), IndexError> {
        let mut next = self.first_leaf(&tour)?;
        let most = (self.requests_max / self.layout.segments).max(1);
        let mut together = 1;
        while next.is_some() {
            let mut leaves = Vec::new();
            while let Some(name) = next.take() {
                leaves.push(name.page);
                next = self.next_leaf(&name, &tour)?;
                if leaves.len() == together {
                    break;
                }
            }
            let used = self.read_leaves(&leaves, Cause::Host)?;
            for (leaf, used) in used.into_iter().enumerate() {
                if self.show_leaf(leaf * self.layout.segments, used, &mut tour).is_break() {
                    return Ok(());
                }
            }
            together = (2 * together).min(most);
        }
        Ok(())
    }

    fn show_leaf(&mut self, base: usize, used: usize, tour: &mut Tour<'_, '_>) -> ControlFlow<()> {
        let (held, shape) = (self.gather(base, used), &self.flat_shape);
        tour.show(held, |at| (shape.key(&self.flat, at), shape.value(&self.flat, at)))
    }

    fn check_all(&mut self) -> Result<CheckReport, IndexError> {
        let (mut walk, leaves) = self.check_leaves()?;
        if leaves != self.leaves as usize {
            let found = "leaves in the directory and leaves counted differ".to_string();
            walk.report.violation(Invariant::O3, 0, found);
        }
        self.directory.check_names_end(&mut walk);
        Ok(walk.report)
    }
}

impl<S: PageStore> LeafTree<S> for SegmentTree<S> {
    const LEAF: Invariant = Invariant::O1;

    fn directory(&mut self) -> &mut BPlusTree<S> {
        &mut self.directory
    }

    fn check_leaf(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        first: Lpn,
        walk: &mut Walk,
    ) -> Result<(), IndexError> {
        let slot = self.slot_of(self.directory.leaf_page(first.0)?)?;
        for page in self.pages_of(slot).map(Lpn) {
            if !self.directory.space().is_used(page) || !walk.reach(page) {
                let found = "a page used twice, or free".to_string();
                walk.report.violation(Invariant::O3, u64::from(page.0), found);
            }
        }
        let used = self.read_leaves(&[first], Cause::Check)?[0];
        let mut last: Option<Vec<u8>> = None;
        let (mut is_sorted, mut is_base) = (true, true);
        for page in &self.frames[..used] {
            let head = LeafLayout::head(page);
            is_sorted &= is_base || head.sorted == 0;
            is_base &= head.sorted == head.records;
            for at in 0..head.records {
                let change = self.layout.record(page, at);
                if at < head.sorted {
                    is_sorted &= last.as_deref() < Some(change.key) && change.value.is_some();
                    last = Some(change.key.into());
                }
                if change.key < low || high.is_some_and(|high| change.key >= high) {
                    let found = "a record lies outside the bounds of the leaf".to_string();
                    walk.report.violation(Invariant::O4, u64::from(first.0), found);
                }
            }
        }
        if !is_sorted {
            walk.report.violation(Invariant::O4, u64::from(first.0), "the sorted part is not".to_string());
        }
        walk.report.records += self.gather(0, used) as u64;
        walk.report.nodes += used as u64;
        Ok(())
    }
}

/// Pages that a change of leaves writes, besides nodes of the directory.
pub(super) const fn group_pages_max(layout: &LeafLayout) -> usize {
    2 * layout.segments
}

/// True if a key is changed again by a record after record `at` of the first of these pages.
fn is_changed_later(layout: &LeafLayout, pages: &[Box<[u8]>], at: usize, key: &[u8]) -> bool {
    let starts = core::iter::once(at + 1).chain(core::iter::repeat(0));
    pages.iter().zip(starts).any(|(page, start)| {
        (start..LeafLayout::head(page).records).any(|later| layout.record(page, later).key == key)
    })
}

/// Applies a change to the gathered records. Returns how many there are then.
pub(super) fn upsert(shape: &NodeShape, flat: &mut [u8], held: usize, change: Change<'_>) -> usize {
    // Sorted records come in order, so the end is tried first.
    let found = if held > 0 && shape.key(flat, held - 1) < change.key {
        Err(held)
    } else {
        shape.search(flat, held, change.key)
    };
    match (found, change.value) {
        (Ok(at), Some(value)) => {
            shape.set_value(flat, at, value);
            held
        }
        (Err(at), Some(value)) => {
            shape.insert(flat, held, at, (change.key, value));
            held + 1
        }
        (Ok(at), None) => {
            shape.remove(flat, held, at);
            held - 1
        }
        (Err(_), None) => held,
    }
}

impl<S: PageStore> OrderedIndex for SegmentTree<S> {
    fn record(&self) -> RecordFormat {
        self.layout.record
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        self.directory.ready()?;
        self.layout.record.check(key, value)?;
        let Some((_, used)) = self.seek(key, Cause::Host)? else { return Ok(false) };
        let found = self.find_in(0, used, key);
        if let Some(found) = found {
            value.copy_from_slice(found);
        }
        Ok(found.is_some())
    }

    fn stats(&self) -> IndexStats {
        let mut stats = self.directory.stats();
        stats.height += 1;
        let counts = self.counts;
        let figures = [
            ("leaves", u64::from(self.leaves)),
            ("leaf_pages_max", self.layout.segments as u64),
            ("rounds", counts.rounds),
            ("appended_records", counts.appended_records),
            ("appended_pages", counts.appended_pages),
            ("consolidations", counts.consolidations),
            ("leaf_splits", counts.leaf_splits),
            ("emptied_leaves", counts.emptied_leaves),
            ("leaf_joins", counts.leaf_joins),
            ("leaf_shares", counts.leaf_shares),
        ];
        stats.metrics.extend(figures.map(|(name, value)| Metric { name, value }));
        // What the directory counted are its own nodes.
        stats.count_more("splits", counts.leaf_splits);
        stats.count_more("merges", counts.leaf_joins);
        stats
    }

    fn records_max(&self) -> Option<u64> {
        Some((self.segments.len() * self.layout.capacity()) as u64)
    }

    /// A new leaf has half of the records of a full one at first.
    fn free(&self) -> Option<Room> {
        let leaves = pages_for_leaves(&self.directory) / self.layout.segments as u64;
        let records = Room::records_of(leaves, self.leaves.into(), self.layout.capacity() as u64 / 2);
        Some(Room::new(self.directory.space().free_pages().into(), records, 0))
    }

    leaf_index!();

    fn ram_bytes(&self) -> usize {
        let pages = self.directory.space().page_count();
        self.directory.ram_bytes() + buffer_bytes(&self.layout, self.requests_max, pages) + size_of::<Self>()
            - size_of::<BPlusTree<S>>()
    }
}
