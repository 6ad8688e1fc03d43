//! The tree below the pool: a directory of leaves with a header, searches and walks in it, bulk load, the
//! checker.

use super::corrupted;
use super::page::{LeafLayout, PAGES_MAX, Rates};
use crate::ordered::pooled::leaves::{LeafTree, Leaves, leaf_index, least_key, pages_for_leaves};
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::ops::{Bound, ControlFlow};
use nandex::check::{CheckReport, IndexError, Invariant};
use nandex::nand::Cause;
use nandex::ordered::bplus::BPlusTree;
use nandex::ordered::bplus::ground::{LeafSpan, Name, Walk};
use nandex::ordered::node::NodeShape;
use nandex::ordered::{
    Bounds, Direction, Durability, IndexStats, Metric, OrderedIndex, RecordFormat, Records, Room, Tour,
    Visit, within,
};
use nandex::store::PageStore;
use nandex::units::Lpn;

/// A tree with leaves of several pages.
pub struct WideTree<S> {
    pub(super) directory: BPlusTree<S>,
    pub(super) record: RecordFormat,
    pub(super) layout: LeafLayout,
    /// Cost of a page write in page reads. `None` if every leaf may have the most pages.
    pub(super) write_cost: Option<u32>,
    /// Buffers for pages of leaves.
    pub(super) frames: Vec<PageFrame>,
    /// Buffer for the entries of the leaves at work, as one node.
    pub(super) flat: Box<[u8]>,
    pub(super) flat_shape: NodeShape,
    pub(super) class: Durability,
    pub(super) counts: LeafCounts,
}

#[derive(Clone, Debug)]
pub(super) struct PageFrame {
    pub(super) lpn: Lpn,
    pub(super) bytes: Box<[u8]>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LeafCounts {
    pub(super) leaves: u64,
    pub(super) leaf_pages: u64,
    pub(super) batches: u64,
    pub(super) repacks: u64,
    pub(super) leaf_splits: u64,
    pub(super) leaf_merges: u64,
}

/// Entries in two leaves of the most pages.
fn flat_entries(layout: &LeafLayout) -> usize {
    2 * layout.capacity(layout.pages_max)
}

/// Buffers for pages: two leaves before a change, or after it.
pub(super) const fn frames_max(layout: &LeafLayout) -> usize {
    2 * layout.pages_max + 1
}

/// Bytes of RAM besides those of the directory.
pub(super) fn buffer_bytes(record: RecordFormat, layout: &LeafLayout) -> usize {
    frames_max(layout) * (layout.page_bytes + size_of::<PageFrame>())
        + flat_entries(layout) * record.entry_bytes()
}

impl<S: PageStore> WideTree<S> {
    pub(super) fn over(
        mut directory: BPlusTree<S>,
        record: RecordFormat,
        layout: LeafLayout,
        write_cost: Option<u32>,
    ) -> WideTree<S> {
        let class = directory.class_with(group_pages_max(&layout));
        directory.promise_nothing();
        let bytes = vec![0; layout.page_bytes].into_boxed_slice();
        let capacity = flat_entries(&layout);
        let flat_shape = NodeShape { capacity, ..*layout.shape(1) };
        WideTree {
            directory,
            record,
            layout,
            write_cost,
            frames: vec![PageFrame { lpn: Lpn(0), bytes }; frames_max(&layout)],
            flat: vec![0; capacity * record.entry_bytes()].into_boxed_slice(),
            flat_shape,
            class,
            counts: LeafCounts::default(),
        }
    }

    /// Marks the pages of all leaves as used, by their headers.
    pub(super) fn claim_leaves(mut self) -> Result<WideTree<S>, IndexError> {
        let WideTree { directory, layout, frames, counts, .. } = &mut self;
        let header = &mut frames[0].bytes;
        directory.walk_names(Cause::Recovery, &mut |store, space, first| {
            store.read(first, Cause::Recovery, header)?;
            layout.verify_header(header, first)?;
            let pages = layout.pages(header);
            for place in 0..pages {
                let lpn = layout.listed(header, place).0;
                if lpn.0 >= space.page_count() || !space.claim(lpn) {
                    return Err(
                        corrupted(Invariant::M4, "a page of a leaf is used twice, or is none", lpn).into()
                    );
                }
            }
            (counts.leaves, counts.leaf_pages) = (counts.leaves + 1, counts.leaf_pages + pages as u64);
            Ok(())
        })?;
        Ok(self)
    }

    pub(super) fn load_header(&mut self, base: usize, lpn: Lpn, cause: Cause) -> Result<(), IndexError> {
        let frame = &mut self.frames[base];
        self.directory.store_mut().read(lpn, cause, &mut frame.bytes)?;
        frame.lpn = lpn;
        self.layout.verify_header(&frame.bytes, lpn)
    }

    /// Reads the page at `place` of the leaf whose header is in frame `base`, into frame `to`. The first
    /// page is in frame `base` already.
    pub(super) fn load_page(
        &mut self,
        base: usize,
        place: usize,
        to: usize,
        cause: Cause,
    ) -> Result<(), IndexError> {
        if place == 0 {
            return Ok(());
        }
        let lpn = self.directory.leaf_page(self.layout.listed(&self.frames[base].bytes, place).0.0)?;
        let (headers, pages) = self.frames.split_at_mut(to);
        let frame = &mut pages[0];
        self.directory.store_mut().read(lpn, cause, &mut frame.bytes)?;
        frame.lpn = lpn;
        self.layout.verify_page(&frame.bytes, place, &headers[base].bytes)
    }

    /// Reads the other pages of the leaf whose header is in frame `base`, into the frames after it. Returns
    /// the number of its pages.
    pub(super) fn load_rest(&mut self, base: usize, cause: Cause) -> Result<usize, IndexError> {
        let pages = self.layout.pages(&self.frames[base].bytes);
        (1..pages).try_for_each(|place| self.load_page(base, place, base + place, cause))?;
        Ok(pages)
    }

    /// Finds the page of a key. Returns its leaf, its frame and its place. `None` if the tree has no leaf.
    fn seek(&mut self, key: &[u8], cause: Cause) -> Result<Option<(Name, usize, usize)>, IndexError> {
        let Some(name) = self.directory.name_of(key, cause)? else { return Ok(None) };
        self.load_header(0, name.page, cause)?;
        let place = self.layout.place_of(&self.frames[0].bytes, key);
        self.load_page(0, place, 1, cause)?;
        Ok(Some((name, usize::from(place > 0), place)))
    }

    fn search(&self, frame: usize, place: usize, key: &[u8]) -> Result<usize, usize> {
        let entries = self.layout.listed(&self.frames[0].bytes, place).1;
        let area = self.layout.area(place, &self.frames[frame].bytes);
        self.layout.shape(place).search(area, entries, key)
    }

    /// Finds whether a key is in the tree, the entries of its leaf, and the span of its leaf.
    pub(super) fn find(&mut self, key: &[u8], cause: Cause) -> Result<(bool, usize, LeafSpan), IndexError> {
        let Some((name, frame, place)) = self.seek(key, cause)? else {
            return Ok((false, 0, self.everything()));
        };
        let is_present = self.search(frame, place, key).is_ok();
        Ok((is_present, self.layout.entries(&self.frames[0].bytes), name.span))
    }

    /// The span of all keys, which the first leaf will have.
    pub(super) fn everything(&self) -> LeafSpan {
        LeafSpan { low: Some(least_key(self.record)), high: None }
    }

    /// Shows the records of a leaf between two bounds. Returns false if no further leaf can have any.
    fn show_leaf(&mut self, name: &Name, tour: &mut Tour<'_, '_>) -> Result<ControlFlow<()>, IndexError> {
        self.load_header(0, name.page, Cause::Host)?;
        let pages = self.layout.pages(&self.frames[0].bytes);
        for i in 0..pages {
            let place = if tour.direction == Direction::Ascending { i } else { pages - 1 - i };
            if self.lies_beside(place, pages, tour.bounds) {
                continue;
            }
            self.load_page(0, place, 1, Cause::Host)?;
            if self.show_page(place, tour).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Whether the header tells that a page has no key between two bounds.
    fn lies_beside(&self, place: usize, pages: usize, bounds: Bounds<'_>) -> bool {
        let first = |place| self.layout.listed(&self.frames[0].bytes, place).2;
        let is_above = place > 0 && within(first(place), bounds) == Ordering::Greater;
        // The next page's first key is above all keys of this one.
        let is_below = place + 1 < pages
            && match bounds.0 {
                Bound::Included(low) | Bound::Excluded(low) => first(place + 1) <= low,
                Bound::Unbounded => false,
            };
        is_above || is_below
    }

    fn show_page(&self, place: usize, tour: &mut Tour<'_, '_>) -> ControlFlow<()> {
        let (shape, page) = (self.layout.shape(place), &self.frames[usize::from(place > 0)].bytes);
        let (area, entries) =
            (self.layout.area(place, page), self.layout.listed(&self.frames[0].bytes, place).1);
        tour.show(entries, |at| (shape.key(area, at), shape.value(area, at)))
    }

    fn walk_range(&mut self, mut tour: Tour<'_, '_>) -> Result<(), IndexError> {
        let mut next = self.first_leaf(&tour)?;
        while let Some(name) = next {
            if self.show_leaf(&name, &mut tour)?.is_break() {
                return Ok(());
            }
            next = self.next_leaf(&name, &tour)?;
        }
        Ok(())
    }

    fn check_all(&mut self) -> Result<CheckReport, IndexError> {
        let (mut walk, _) = self.check_leaves()?;
        self.directory.check_names_end(&mut walk);
        Ok(walk.report)
    }
}

impl<S: PageStore> LeafTree<S> for WideTree<S> {
    const LEAF: Invariant = Invariant::M1;

    fn directory(&mut self) -> &mut BPlusTree<S> {
        &mut self.directory
    }

    /// M1 to M4 for one leaf.
    fn check_leaf(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        page: Lpn,
        walk: &mut Walk,
    ) -> Result<(), IndexError> {
        let page = self.directory.leaf_page(page.0)?;
        self.load_header(0, page, Cause::Check)?;
        let pages = self.load_rest(0, Cause::Check)?;
        let mut last: Option<Box<[u8]>> = None;
        walk.report.nodes += 1;
        for place in 0..pages {
            let (lpn, entries, _) = self.layout.listed(&self.frames[0].bytes, place);
            if !self.directory.space().is_used(lpn) || !walk.reach(lpn) {
                let found = "a page used twice, or free".to_string();
                walk.report.violation(Invariant::M4, u64::from(lpn.0), found);
            }
            let (shape, area) =
                (self.layout.shape(place), self.layout.area(place, &self.frames[place].bytes));
            for key in (0..entries).map(|at| shape.key(area, at)) {
                if key < low || high.is_some_and(|high| key >= high) || last.as_deref() >= Some(key) {
                    let found = "a key out of order, or outside the leaf".to_string();
                    walk.report.violation(Invariant::M3, u64::from(lpn.0), found);
                }
                last = Some(key.into());
            }
            walk.report.records += entries as u64;
        }
        Ok(())
    }
}

/// Pages that a change of leaves writes, besides nodes of the directory.
pub(super) const fn group_pages_max(layout: &LeafLayout) -> usize {
    frames_max(layout)
}

/// Bulk load.
impl<S: PageStore> WideTree<S> {
    fn load_all(&mut self, records: Records<'_, '_>) -> Result<u64, IndexError> {
        self.make_empty()?;
        self.directory.begin_names()?;
        let mut names = Leaves::new();
        let loaded = self.load_leaves(records, &mut names);
        let named = self.name_loaded(loaded, &names);
        if named.is_err() {
            self.counts = LeafCounts { leaves: 0, leaf_pages: 0, ..self.counts };
        }
        named
    }

    /// Gives up the only leaf of an empty tree.
    fn make_empty(&mut self) -> Result<(), IndexError> {
        let Some(name) = self.directory.name_of(&least_key(self.record), Cause::Host)? else { return Ok(()) };
        self.load_header(0, name.page, Cause::Host)?;
        let is_only = name.slot == 0 && name.span.high.is_none();
        if !is_only || self.layout.entries(&self.frames[0].bytes) > 0 {
            return Err(IndexError::Unsupported("a bulk load needs an empty tree".into()));
        }
        self.directory.pages_mut().give_up_leaf(name.page);
        (self.counts.leaves, self.counts.leaf_pages) = (0, 0);
        Ok(self.directory.change_names(nandex::ordered::bplus::ground::Edit::Remove(0), &[])?)
    }

    /// Writes full leaves, the last two evened out; notes their names.
    fn load_leaves(&mut self, records: Records<'_, '_>, names: &mut Leaves) -> Result<u64, IndexError> {
        let full = self.layout.capacity(self.layout.pages_max);
        let (mut held, mut loaded) = (0, 0);
        for (key, value) in records {
            self.record.check(key, value)?;
            if held > 0 && self.flat_shape.key(&self.flat, held - 1) >= key {
                return Err(IndexError::NotSorted { position: loaded });
            }
            if held == 2 * full {
                self.load_leaf(full, names)?;
                self.flat_shape.remove_first(&mut self.flat, held, full);
                held -= full;
            }
            self.put_flat(held, (key, value));
            (held, loaded) = (held + 1, loaded + 1);
        }
        if held > full {
            let half = held.div_ceil(2);
            self.load_leaf(half, names)?;
            self.flat_shape.remove_first(&mut self.flat, held, half);
            held -= half;
        }
        if held > 0 {
            self.load_leaf(held, names)?;
        }
        Ok(loaded)
    }

    /// Writes a leaf with the first entries of the buffer.
    fn load_leaf(&mut self, entries: usize, names: &mut Leaves) -> Result<(), IndexError> {
        debug_assert!(entries > 0, "M2: an empty leaf is loaded");
        let pages = self.layout.pages_least(entries);
        for place in 0..pages {
            self.frames[place].lpn = self.directory.pages_mut().take_to_load()?;
        }
        self.lay_leaf((0, pages), (0, entries), Rates::default());
        for frame in &self.frames[..pages] {
            self.directory.store_mut().write(frame.lpn, Cause::Host, &frame.bytes)?;
        }
        let key =
            if names.is_empty() { least_key(self.record) } else { self.flat_shape.key(&self.flat, 0).into() };
        debug_assert_eq!(self.counts.leaves, names.len() as u64, "other leaves are counted than were loaded");
        names.push((key, self.frames[0].lpn));
        self.counts.leaves += 1;
        self.counts.leaf_pages += pages as u64;
        Ok(())
    }

    pub(super) fn put_flat(&mut self, at: usize, (key, value): (&[u8], &[u8])) {
        self.flat_shape.set_key(&mut self.flat, at, key);
        self.flat_shape.set_value(&mut self.flat, at, value);
    }

    /// Makes the pages of a leaf, evenly filled, from entries of the buffer. The frames have the page
    /// numbers already.
    pub(super) fn lay_leaf(
        &mut self,
        (base, pages): (usize, usize),
        (from, entries): (usize, usize),
        rates: Rates,
    ) {
        assert!(pages <= PAGES_MAX && entries <= self.layout.capacity(pages), "M2: {entries} entries");
        let layout = self.layout;
        let end = |place: usize| match place {
            0 => 0,
            _ => entries * layout.capacity(place) / layout.capacity(pages),
        };
        let (headers, others) = self.frames[base..].split_at_mut(1);
        layout.reset_header(&mut headers[0].bytes, rates, pages);
        for place in 0..pages {
            let (start, count) = (end(place), end(place + 1) - end(place));
            let lpn = if place == 0 { headers[0].lpn } else { others[place - 1].lpn };
            if count > 0 {
                let key = self.flat_shape.key(&self.flat, from + start);
                layout.list(&mut headers[0].bytes, place, (lpn, count), key);
            } else {
                layout.list(&mut headers[0].bytes, place, (lpn, 0), &[]);
            }
            let page = if place == 0 { &mut headers[0].bytes } else { &mut others[place - 1].bytes };
            if place > 0 {
                page.fill(0);
            }
            let into = (layout.shape(place), layout.area_mut(place, page), 0);
            self.flat_shape.copy_entries((&self.flat, from + start), count, into);
            if place > 0 {
                LeafLayout::seal(page, lpn, place, count);
            }
        }
        debug_assert_eq!(layout.entries(&headers[0].bytes), entries, "M2: the header lists other entries");
        LeafLayout::seal(&mut headers[0].bytes, headers[0].lpn, 0, end(1));
    }
}

impl<S: PageStore> OrderedIndex for WideTree<S> {
    fn record(&self) -> RecordFormat {
        self.record
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        self.directory.ready()?;
        self.record.check(key, value)?;
        let Some((_, frame, place)) = self.seek(key, Cause::Host)? else { return Ok(false) };
        let found = self.search(frame, place, key);
        if let Ok(at) = found {
            let area = self.layout.area(place, &self.frames[frame].bytes);
            value.copy_from_slice(self.layout.shape(place).value(area, at));
        }
        Ok(found.is_ok())
    }

    fn stats(&self) -> IndexStats {
        let mut stats = self.directory.stats();
        stats.height += 1;
        let LeafCounts { leaves, leaf_pages, batches, repacks, leaf_splits, leaf_merges } = self.counts;
        let figures = [
            ("leaves", leaves),
            ("leaf_pages", leaf_pages),
            ("leaf_pages_max", self.layout.pages_max as u64),
            ("batches", batches),
            ("repacks", repacks),
            ("leaf_splits", leaf_splits),
            ("leaf_merges", leaf_merges),
        ];
        stats.metrics.extend(figures.map(|(name, value)| Metric { name, value }));
        // What the directory counted are its own nodes.
        stats.count_more("splits", leaf_splits);
        stats.count_more("merges", leaf_merges);
        stats
    }

    fn records_max(&self) -> Option<u64> {
        let pages = u64::from(self.directory.store().page_count());
        Some(self.record.most_in(pages, self.layout.page_bytes))
    }

    /// Each free page may hold the half of a leaf page's entries, except for the nodes that name the leaves.
    fn free(&self) -> Option<Room> {
        let (leaves, used) = (pages_for_leaves(&self.directory), self.directory.space().used_pages());
        let half = self.layout.shape(0).capacity as u64 / 2;
        let records = Room::records_of(leaves, used.into(), half);
        Some(Room::new(self.directory.space().free_pages().into(), records, 0))
    }

    leaf_index!();

    fn ram_bytes(&self) -> usize {
        self.directory.ram_bytes() + buffer_bytes(self.record, &self.layout) + size_of::<Self>()
            - size_of::<BPlusTree<S>>()
    }
}
