//! bupdate: the queued changes are written to many leaves at a time.
//!
//! 1. *MPSearch*: the leaves of the sorted changes are found level by level; the nodes of a level are read
//!    together.
//! 2. The last segments of all these leaves are read together.
//! 3. The changes of a leaf are appended there, and continue in the next segment when one is full. All
//!    changed segments are written together.
//!
//! A leaf without room for its changes ends the round before it and gets a round of its own. It is read, and
//! its records are sorted together with the changes (*shrink*). Then it is written in place, or in two leaves
//! if more than three quarters of it stay full. An empty leaf is removed from the directory. If a change
//! finds no room, sparse leaves are joined or the full one shares its records with a neighbour (`join.rs`),
//! and the change is tried once more.

use super::corrupted;
use super::page::{Head, LeafLayout};
use super::tree::{SegmentTree, upsert};
use crate::ordered::lazy_update::{Demand, GroupTree, Hints};
use crate::ordered::pooled::leaves::{LeafTree, Leaves, least_key};
use alloc::boxed::Box;
use alloc::vec::Vec;
use nandex::check::{IndexError, Invariant};
use nandex::codec::get_u32;
use nandex::nand::Cause;
use nandex::ordered::bplus::ground::{Applied, Edit, LeafSpan, Lookup, Name};
use nandex::ordered::change::{Change, holds_none, load_one_by_one};
use nandex::ordered::{Durability, Records};
use nandex::store::{PageStore, StoreError, batch};
use nandex::units::Lpn;

/// Largest number of changes in a round for each request that is submitted with others.
const CHANGES_PER_REQUEST: usize = 4;

/// A leaf of a round. Its last segment is in the frame of the same index.
#[derive(Clone, Copy, Debug)]
struct Target {
    slot: usize,
    first: Lpn,
    /// Segments in use. `changes` is the number of changes for the leaf.
    used: usize,
    changes: usize,
}

impl<S: PageStore> SegmentTree<S> {
    /// Carries out an update that did not wait in the queue.
    pub(super) fn apply_one(&mut self, change: Change<'_>) -> Result<bool, IndexError> {
        self.directory.ready()?;
        let existed = self.holds(change.key, Cause::Host)?;
        self.apply_group(core::iter::once(change), Hints::default())?;
        Ok(existed)
    }

    /// Runs one round. If it finds no room, it is repeated after each way of making some.
    fn round_with_room(&mut self, changes: &[Change<'_>], is_all: bool) -> Result<usize, IndexError> {
        let mut applied = self.round(changes, is_all);
        if applied.as_ref().is_err_and(IndexError::is_full) && self.join_sparse_leaves()? {
            applied = self.round(changes, is_all);
        }
        let Some(first) = changes.first() else { return applied };
        if applied.as_ref().is_err_and(IndexError::is_full) && self.share_with_neighbour(first.key)? {
            applied = self.round(changes, is_all);
        }
        applied
    }

    /// Runs one round for ascending changes. Returns how many it applied.
    fn round(&mut self, changes: &[Change<'_>], is_all: bool) -> Result<usize, IndexError> {
        self.counts.rounds += 1;
        let keys: Vec<&[u8]> = changes.iter().map(|change| change.key).collect();
        let mut leaves = self.directory.names_of(&keys, self.requests_max)?;
        // More changes for the last leaf may follow.
        if !is_all && leaves.len() > 1 {
            leaves.pop();
        }
        leaves.truncate(self.requests_max);
        let Some(&(_, of_first)) = leaves.first() else { return self.consolidate(changes) };
        let mut targets = Vec::with_capacity(leaves.len());
        for &(first, changes) in &leaves {
            let slot = self.slot_of(first)?;
            let used = match self.known_segments(slot) {
                Some(used) => used,
                None => self.read_leaves(&[first], Cause::Host)?[0],
            };
            targets.push(Target { slot, first, used, changes });
        }
        self.read_last_segments(&targets)?;
        let applied = self.append(&targets, changes)?;
        if applied == 0 { self.consolidate(&changes[..of_first]) } else { Ok(applied) }
    }

    /// Step 2: reads the last segment of each leaf.
    fn read_last_segments(&mut self, targets: &[Target]) -> Result<(), IndexError> {
        let last = |target: &Target| Lpn(target.first.0 + target.used as u32 - 1);
        let SegmentTree { directory, frames, layout, .. } = self;
        batch(directory.store_mut(), |store| {
            let mut reads = targets.iter().zip(frames.iter_mut());
            reads.try_for_each(|(target, frame)| store.read(last(target), Cause::Host, frame))
        })?;
        let mut read = targets.iter().zip(frames.iter());
        read.try_for_each(|(target, frame)| layout.verify(frame, last(target), target.used - 1).map(drop))
    }

    /// Step 3: appends the changes. Returns how many; 0 if the first leaf has no room for its own.
    fn append(&mut self, targets: &[Target], changes: &[Change<'_>]) -> Result<usize, IndexError> {
        let SegmentTree { frames, layout, .. } = self;
        let (mut applied, mut spare) = (0, targets.len());
        let mut written: Vec<(Lpn, usize)> = Vec::new();
        let mut grown: Vec<(usize, usize)> = Vec::new();
        for (frame, target) in targets.iter().enumerate() {
            let of_leaf = &changes[applied..applied + target.changes];
            let held = LeafLayout::head(&frames[frame]).records;
            let segments = (held + of_leaf.len()).div_ceil(layout.records);
            let has_frames = spare + segments - 1 <= frames.len();
            if target.used - 1 + segments > layout.segments || !has_frames {
                break;
            }
            let (mut at, mut place) = (frame, target.used - 1);
            let mut rest = of_leaf;
            loop {
                let lpn = Lpn(target.first.0 + place as u32);
                if LeafLayout::head(&frames[at]).records < layout.records {
                    rest = fill_segment(layout, &mut frames[at], lpn, rest);
                    written.push((lpn, at));
                }
                if rest.is_empty() {
                    break;
                }
                let head = LeafLayout::head(&frames[at]);
                let before = LeafLayout::checksum(&frames[at]);
                (at, place, spare) = (spare, place + 1, spare + 1);
                frames[at].fill(0);
                let empty = Head { place, records: 0, sorted: 0, before, ..head };
                LeafLayout::seal(&mut frames[at], Lpn(lpn.0 + 1), empty);
            }
            grown.push((target.slot, place + 1));
            applied += of_leaf.len();
        }
        if applied == 0 {
            return Ok(0);
        }
        let pages: Vec<(Lpn, &[u8])> = written.iter().map(|&(lpn, at)| (lpn, &*self.frames[at])).collect();
        self.directory.change_names(Edit::Keep, &pages)?;
        grown.iter().for_each(|&(slot, used)| self.segments[slot] = used as u8);
        self.is_tight &= changes[..applied].iter().all(|change| change.value.is_some());
        self.counts.appended_records += applied as u64;
        self.counts.appended_pages += written.len() as u64;
        Ok(applied)
    }

    /// Consolidates one leaf with its changes: shrink or split. Returns how many changes it took.
    fn consolidate(&mut self, changes: &[Change<'_>]) -> Result<usize, IndexError> {
        let Some(first) = changes.first() else { return Ok(0) };
        let found = self.seek(first.key, Cause::Host)?;
        let (mut held, epoch) = match &found {
            Some((_, used)) => (self.gather(0, *used), LeafLayout::head(&self.frames[0]).epoch),
            None => (0, 0),
        };
        // A tree without a leaf gets one.
        let most = self.layout.keeps() * if found.is_some() { 2 } else { 1 };
        let mut taken = 0;
        for &change in changes {
            if held >= most.max(1) && change.value.is_some() {
                break;
            }
            held = upsert(&self.flat_shape, &mut self.flat, held, change);
            taken += 1;
        }
        if found.is_none() && held == 0 {
            return Ok(taken);
        }
        self.counts.consolidations += 1;
        match found {
            Some((name, _)) if held == 0 && self.can_leave(&name)? => self.drop_leaf(&name)?,
            found => {
                let name = found.map(|(name, _)| name);
                self.rewrite_or_split(first.key, name, held, epoch.wrapping_add(1))?;
            }
        }
        self.is_tight = false;
        Ok(taken)
    }

    /// Writes the gathered records to the leaf of a key, or to two leaves. If there is no room for a second
    /// leaf, the one stays as full as it can be, so removals always find room.
    fn rewrite_or_split(
        &mut self,
        key: &[u8],
        name: Option<Name>,
        held: usize,
        epoch: u32,
    ) -> Result<(), IndexError> {
        let is_split = held > self.layout.keeps();
        match self.rewrite(name, held, is_split, epoch) {
            Err(IndexError::Full(_)) if is_split && held <= self.layout.capacity() => {
                // The edit that was given up left its traces on the path.
                let name = self.directory.name_of(key, Cause::Host)?;
                self.rewrite(name, held, false, epoch)
            }
            done => done,
        }
    }

    /// Whether an empty leaf has a neighbour in the same node to take over its keys.
    fn can_leave(&self, name: &Name) -> Result<bool, IndexError> {
        Ok(name.slot > 0 || self.directory.name_at(1)?.is_some())
    }

    pub(super) fn drop_leaf(&mut self, name: &Name) -> Result<(), IndexError> {
        let slot = self.slot_of(name.page)?;
        self.pages_of(slot).for_each(|page| self.directory.pages_mut().give_up_leaf(Lpn(page)));
        let edit = if name.slot > 0 { Edit::Remove(name.slot) } else { Edit::Absorb(0) };
        self.directory.change_names(edit, &[])?;
        self.leaf_is_gone(slot);
        self.counts.emptied_leaves += 1;
        Ok(())
    }

    pub(super) fn leaf_is_gone(&mut self, slot: usize) {
        self.forget_segments(slot);
        self.first_free = self.first_free.min(slot);
        self.leaves -= 1;
    }

    /// Writes the gathered records to a leaf, or to the leaf and a new one beside it.
    fn rewrite(
        &mut self,
        name: Option<Name>,
        held: usize,
        is_split: bool,
        epoch: u32,
    ) -> Result<(), IndexError> {
        let first = match &name {
            Some(name) => self.slot_of(name.page)?,
            None => self.take_slot()?,
        };
        let second = if is_split { Some(self.take_slot()?) } else { None };
        let first_share = if second.is_some() { held.div_ceil(2) } else { held };
        let mut frames = self.lay_leaf((first, 0), (0, first_share), epoch);
        let used = frames;
        if let Some(second) = second {
            frames += self.lay_leaf((second, frames), (first_share, held - first_share), epoch);
        }
        let start = |slot: usize| self.pages_of(slot).start;
        let pages = laid(&self.frames[..frames]);
        let (least, boundary): (Box<[u8]>, Box<[u8]>) = (
            least_key(self.layout.record),
            self.flat_shape.key(&self.flat, if second.is_some() { first_share } else { 0 }).into(),
        );
        let edit = match (&name, second) {
            (None, _) => Edit::Insert(0, &least, Lpn(start(first))),
            (Some(name), Some(second)) => Edit::Insert(name.slot + 1, &boundary, Lpn(start(second))),
            (Some(_), None) => Edit::Keep,
        };
        self.directory.change_names(edit, &pages)?;
        self.segments[first] = used as u8;
        // Those before were all found in use.
        if let Some(taken) = second.or(name.is_none().then_some(first)) {
            self.first_free = taken + 1;
        }
        self.leaves += u32::from(name.is_none()) + u32::from(second.is_some());
        if let Some(second) = second {
            self.segments[second] = (frames - used) as u8;
            self.counts.leaf_splits += 1;
        }
        Ok(())
    }

    fn take_slot(&mut self) -> Result<usize, IndexError> {
        let slot = self.free_slot().inspect_err(|_| self.directory.pages_mut().give_back())?;
        let pages = self.pages_of(slot);
        self.directory.pages_mut().take_run(pages);
        Ok(slot)
    }

    fn free_slot(&self) -> Result<usize, IndexError> {
        let space = self.directory.space();
        let is_free = |slot: &usize| self.pages_of(*slot).all(|page| !space.is_used(Lpn(page)));
        let slots = self.segments.len();
        let found = (self.first_free..slots).find(is_free).or_else(|| (0..slots).find(is_free));
        found.ok_or(IndexError::NO_BLOCK)
    }

    /// Makes segments of gathered, sorted records, in frames. Returns how many.
    pub(super) fn lay_leaf(
        &mut self,
        (slot, base): (usize, usize),
        (from, count): (usize, usize),
        epoch: u32,
    ) -> usize {
        let first = self.pages_of(slot).start;
        let SegmentTree { frames, layout, flat, flat_shape, .. } = self;
        let segments = layout.segments_for(count);
        let mut before = 0;
        for place in 0..segments {
            let page = &mut frames[base + place];
            page.fill(0);
            let start = place * layout.records;
            let records = (count - start).min(layout.records);
            for at in 0..records {
                let key = flat_shape.key(flat, from + start + at);
                let value = Some(flat_shape.value(flat, from + start + at));
                layout.put_record(page, at, Change { key, value });
            }
            let head = Head { place, records, sorted: records, epoch, before };
            before = LeafLayout::seal(page, Lpn(first + place as u32), head);
        }
        segments
    }

    /// Loads a tree: first the leaves, as full as a consolidation leaves them, then the directory.
    pub(super) fn load_all(&mut self, records: Records<'_, '_>) -> Result<u64, IndexError> {
        if let Some((name, used)) = self.seek(&least_key(self.layout.record), Cause::Host)? {
            if name.slot > 0 || name.span.high.is_some() || self.gather(0, used) > 0 {
                if !holds_none(self)? {
                    return Err(IndexError::Unsupported("a bulk load needs an empty tree".into()));
                }
                return load_one_by_one(self, records);
            }
            let slot = self.slot_of(name.page)?;
            self.pages_of(slot).for_each(|page| self.directory.pages_mut().give_up_leaf(Lpn(page)));
            self.directory.change_names(Edit::Remove(0), &[])?;
            self.forget_segments(slot);
            (self.leaves, self.first_free) = (0, 0);
        }
        self.directory.begin_names()?;
        let mut names = Leaves::new();
        let loaded = self.load_leaves(records, &mut names);
        let named = self.name_loaded(loaded, &names);
        if named.is_err() {
            self.leaves = 0;
            (0..self.segments.len()).for_each(|slot| self.forget_segments(slot));
        }
        named
    }

    fn load_leaves(&mut self, records: Records<'_, '_>, names: &mut Leaves) -> Result<u64, IndexError> {
        let full = self.layout.keeps();
        let (mut held, mut loaded) = (0, 0);
        for (key, value) in records {
            self.layout.record.check(key, value)?;
            if held > 0 && self.flat_shape.key(&self.flat, held - 1) >= key {
                return Err(IndexError::NotSorted { position: loaded });
            }
            if held > full {
                self.load_leaf(full, names)?;
                self.flat_shape.remove_first(&mut self.flat, held, full);
                held -= full;
            }
            self.flat_shape.set_key(&mut self.flat, held, key);
            self.flat_shape.set_value(&mut self.flat, held, value);
            (held, loaded) = (held + 1, loaded + 1);
        }
        while held > 0 {
            let share = held.min(full);
            self.load_leaf(share, names)?;
            self.flat_shape.remove_first(&mut self.flat, held, share);
            held -= share;
        }
        Ok(loaded)
    }

    fn load_leaf(&mut self, records: usize, names: &mut Leaves) -> Result<(), IndexError> {
        // Leaves are loaded one after the other into an empty store.
        let slot = self.leaves as usize;
        if slot >= self.segments.len() {
            return Err(IndexError::NO_BLOCK);
        }
        let pages = self.pages_of(slot);
        if pages.clone().any(|page| self.directory.space().is_used(Lpn(page))) {
            return Err(IndexError::NO_BLOCK);
        }
        self.directory.pages_mut().claim_to_load(pages.clone());
        let used = self.lay_leaf((slot, 0), (0, records), 0);
        let SegmentTree { directory, frames, .. } = self;
        batch(directory.store_mut(), |store| {
            let mut writes = frames[..used].iter().enumerate();
            writes
                .try_for_each(|(place, page)| store.write(Lpn(pages.start + place as u32), Cause::Host, page))
        })
        .map_err(|error: StoreError| IndexError::from(error))?;
        let key = if names.is_empty() {
            least_key(self.layout.record)
        } else {
            self.flat_shape.key(&self.flat, 0).into()
        };
        names.push((key, Lpn(pages.start)));
        self.segments[slot] = used as u8;
        self.leaves += 1;
        Ok(())
    }
}

/// The segments made by [`SegmentTree::lay_leaf`], with their page numbers.
pub(super) fn laid(frames: &[Box<[u8]>]) -> Vec<(Lpn, &[u8])> {
    frames.iter().map(|page| (Lpn(get_u32(page, 4)), &**page)).collect()
}

/// Appends changes to a segment while it has room, and seals it. Returns the rest.
fn fill_segment<'c, 'a>(
    layout: &LeafLayout,
    page: &mut [u8],
    lpn: Lpn,
    changes: &'c [Change<'a>],
) -> &'c [Change<'a>] {
    let mut head = LeafLayout::head(page);
    let (now, rest) = changes.split_at(changes.len().min(layout.records - head.records));
    for change in now {
        layout.put_record(page, head.records, *change);
        head.records += 1;
    }
    LeafLayout::seal(page, lpn, head);
    rest
}

impl<S: PageStore> GroupTree for SegmentTree<S> {
    const GROUPS_BY_LEAF: bool = false;

    fn ready(&self) -> Result<(), IndexError> {
        Ok(self.directory.ready()?)
    }

    fn lookup(&mut self, key: &[u8], cause: Cause) -> Result<Lookup, IndexError> {
        let is_present = self.holds(key, cause)?;
        Ok(Lookup { is_present, entries: 0, span: self.everything() })
    }

    fn group_span(&mut self, _: &[u8]) -> Result<LeafSpan, IndexError> {
        Ok(self.everything())
    }

    fn entries_near(&mut self, _: &[u8]) -> Result<usize, IndexError> {
        Ok(0)
    }

    fn leaf_fill(&self) -> (usize, usize) {
        (0, self.layout.capacity())
    }

    /// True if there is room for the demand. A leaf is split at most once before additions have taken three
    /// quarters of its room.
    fn has_room(&self, demand: Demand) -> bool {
        let Demand { additions, others, .. } = demand;
        let splits =
            (additions + others).min(u64::from(self.leaves)) + additions / self.layout.keeps() as u64 + 1;
        // Each node may lie in a slot that is then of no use to a leaf.
        let leaf_pages = self.leaves * self.layout.segments as u32;
        let nodes = u64::from(self.directory.space().used_pages() - leaf_pages);
        let slots = u64::from(self.leaves) + splits + nodes + self.directory.pages_for_splits(splits);
        slots <= self.segments.len() as u64
    }

    fn apply_group<'a>(
        &mut self,
        changes: impl Iterator<Item = Change<'a>> + Clone,
        _: Hints,
    ) -> Result<Applied, IndexError> {
        let most = CHANGES_PER_REQUEST * self.requests_max;
        let mut some: Vec<Change<'a>> = Vec::with_capacity(most);
        let mut changes = changes;
        some.extend(changes.by_ref().take(most));
        if some.windows(2).any(|pair| pair[0].key >= pair[1].key) {
            return Err(corrupted(Invariant::P1, "the changes of the queue do not ascend", Lpn(0)));
        }
        let is_all = changes.next().is_none();
        let applied = self.round_with_room(&some, is_all)?;
        Ok(Applied { lpn: Lpn(0), entries: 0, changes: applied, reshaped: None })
    }

    fn admit_change(&mut self) -> Result<(), IndexError> {
        Ok(self.directory.admit_change()?)
    }

    fn class_on_store(&self) -> Durability {
        self.class
    }

    fn store_below(&mut self) -> &mut dyn PageStore {
        self.directory.store_mut()
    }
}
