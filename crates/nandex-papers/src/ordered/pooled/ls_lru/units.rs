//! The buffer units: which page each is for, its state, and where it stands in the regions of the buffer.
//!
//! Four places. *Hot*: units of leaves in order of use, most recent first, as many as the hot region takes in
//! bytes; the last of them moves on to the cold region, there to the *clean list* if it has a clean part,
//! else to the *dirty list*. The clean list keeps the order of use. The dirty list is the paper's statistical
//! table, kept in the order in which the write-minimized commit asks for it: by writes, then most entries
//! first, then least recently used. *Inner*: units of inner nodes in order of use. A unit that is used goes
//! to the front of hot or inner.

use super::settings::{CommitPolicy, Counted, Inner, LeafSplit};
use super::unit::FREE;
use crate::ordered::buffered::{Chunked, Order};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use nandex::units::Lpn;

pub(super) use super::unit::{NONE, Part, Place, State, UNCOUNTED, Unit, Waiting};

/// The order of the dirty list. For the write-minimized commit: fewest writes, then most entries, then
/// least recent use. For the other policies: oldest, or smallest.
type Rank = (u32, Reverse<u32>, u32, u32);

/// A list of units in the order of their use.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
    len: usize,
}

const EMPTY: List = List { first: NONE, last: NONE, len: 0 };

/// The sizes of the buffer's regions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) page_bytes: usize,
    pub(super) counted: Counted,
    /// Bytes of the whole budget.
    pub(super) buffer_bytes: usize,
    pub(super) leaf_capacity: u32,
    /// w: share of the cold region in percent.
    pub(super) window_percent: u8,
    pub(super) inner: Inner,
    pub(super) commit: CommitPolicy,
    pub(super) split: LeafSplit,
}

/// All units: by page, and by the list they are in.
#[derive(Debug)]
pub(super) struct Units {
    sizes: Sizes,
    table: Chunked<Unit>,
    /// The first free slot. Free slots are linked by `after`.
    free: u32,
    buckets: Vec<u32>,
    lists: [List; 3],
    hot_bytes: usize,
    by_rank: Order,
    dirty_len: usize,
    waiting: Waiting,
    /// Number of units in use.
    count: usize,
    clock: u32,
}

/// Bytes of a slot in all tables together.
pub(super) const SLOT_BYTES: usize = size_of::<Unit>() + Order::slot_bytes();

impl Units {
    /// Makes a table without slots, which grows by chunks of a page. `buckets` is the size of the
    /// directory.
    pub(super) fn new(sizes: Sizes, chunks_max: usize, buckets: usize) -> Units {
        let slots = Units::chunk_slots(sizes.page_bytes);
        Units {
            sizes,
            table: Chunked::new(slots, chunks_max),
            free: NONE,
            buckets: vec![NONE; buckets],
            lists: [EMPTY; 3],
            hot_bytes: 0,
            by_rank: Order::in_chunks(slots, chunks_max),
            dirty_len: 0,
            waiting: Waiting::default(),
            count: 0,
            clock: 0,
        }
    }

    pub(super) const fn chunk_slots(page_bytes: usize) -> usize {
        page_bytes / SLOT_BYTES
    }

    /// Bytes of RAM besides the chunks.
    pub(super) const fn tables_bytes(chunks_max: usize, buckets: usize) -> usize {
        buckets * size_of::<u32>()
            + Chunked::<Unit>::directory_bytes(chunks_max)
            + Order::directory_bytes(chunks_max)
    }

    pub(super) fn has_room(&self) -> bool {
        self.free != NONE
    }

    /// Chunks needed for `more` more units with changes, if all units without changes leave.
    pub(super) fn chunks_for(&self, more: usize) -> usize {
        let free = self.table.len() - self.waiting.units as usize;
        more.saturating_sub(free).div_ceil(Units::chunk_slots(self.sizes.page_bytes))
    }

    pub(super) fn grow(&mut self) {
        let first = self.table.len() as u32;
        self.table.grow(FREE);
        self.by_rank.grow();
        for slot in (first..self.table.len() as u32).rev() {
            self.table[slot].after = self.free;
            self.free = slot;
        }
    }

    pub(super) fn get(&self, unit: u32) -> &Unit {
        &self.table[unit]
    }

    pub(super) fn part(&self, unit: u32) -> Part {
        self.table[unit].part
    }

    fn bucket(&self, lpn: Lpn) -> usize {
        let hash = u64::from(lpn.0.wrapping_mul(0x9e37_79b9));
        ((hash * self.buckets.len() as u64) >> 32) as usize
    }

    pub(super) fn find(&self, lpn: Lpn) -> Option<u32> {
        let mut unit = self.buckets[self.bucket(lpn)];
        while unit != NONE && self.table[unit].lpn != lpn {
            unit = self.table[unit].chain;
        }
        (unit != NONE).then_some(unit)
    }

    /// Makes a unit for a page that has none, at the front of the hot list. It must get a part at once.
    pub(super) fn make(&mut self, lpn: Lpn) -> u32 {
        let unit = self.free;
        assert!(unit != NONE, "U5: a slot is free");
        self.free = self.table[unit].after;
        let bucket = self.bucket(lpn);
        self.table[unit] = Unit { lpn, chain: self.buckets[bucket], place: Place::Hot, ..FREE };
        self.buckets[bucket] = unit;
        self.link_first(unit);
        self.count += 1;
        unit
    }

    /// Frees the slot of a unit that has no part left.
    pub(super) fn drop_if_empty(&mut self, unit: u32) {
        let Unit { lpn, chain, .. } = self.table[unit];
        if self.table[unit].state().is_some() {
            return;
        }
        self.unlink(unit);
        let bucket = self.bucket(lpn);
        if self.buckets[bucket] == unit {
            self.buckets[bucket] = chain;
        } else {
            let mut before = self.buckets[bucket];
            while self.table[before].chain != unit {
                before = self.table[before].chain;
            }
            self.table[before].chain = chain;
        }
        self.count -= 1;
        self.table[unit] = Unit { after: self.free, ..FREE };
        self.free = unit;
    }

    /// Bytes that a unit counts for in the budget.
    fn bytes(&self, unit: u32) -> usize {
        let unit = &self.table[unit];
        let frame = if unit.frame == NONE { 0 } else { self.sizes.page_bytes };
        let Counted { unit: bytes, group, entries } = self.sizes.counted;
        bytes + frame + (unit.part.len as usize).div_ceil(entries) * group
    }

    /// Number of nodes written by a commit of a unit in the dirty list, as the statistical table has it.
    pub(super) fn writes(&self, unit: u32) -> u32 {
        self.table[unit].writes.into()
    }

    /// Number of nodes written by a commit of any unit now, by formula 3.11 or by splits of two nodes at a
    /// time.
    pub(super) fn writes_now(&self, unit: u32) -> u32 {
        let capacity = self.sizes.leaf_capacity;
        let base = match self.table[unit].base {
            // As full as leaves are in the mean, nearly.
            UNCOUNTED => capacity * 3 / 4,
            base => u32::from(base),
        };
        let adds = self.table[unit].adds;
        match self.sizes.split {
            LeafSplit::Multi => super::victims::writes(adds, base, capacity),
            LeafSplit::TwoNodes => super::victims::writes_by_two(adds, base, capacity),
        }
    }

    fn rank(&self, unit: u32) -> Rank {
        let Unit { part, stamp, writes, .. } = self.table[unit];
        match self.sizes.commit {
            CommitPolicy::WriteMinimized => (writes.into(), Reverse(part.len), stamp, unit),
            CommitPolicy::FirstAssociated => (0, Reverse(0), stamp, unit),
            CommitPolicy::ExactFit => (part.len, Reverse(0), stamp, unit),
        }
    }

    fn list(&mut self, place: Place) -> &mut List {
        &mut self.lists[match place {
            Place::Hot => 0,
            Place::Clean => 1,
            _ => 2,
        }]
    }

    fn link_first(&mut self, unit: u32) {
        let place = self.table[unit].place;
        let first = self.list(place).first;
        (self.table[unit].before, self.table[unit].after) = (NONE, first);
        if first == NONE {
            self.list(place).last = unit;
        } else {
            self.table[first].before = unit;
        }
        let list = self.list(place);
        (list.first, list.len) = (unit, list.len + 1);
        if place == Place::Hot {
            self.hot_bytes += self.bytes(unit);
        }
    }

    fn link_dirty(&mut self, unit: u32) {
        self.table[unit].place = Place::Dirty;
        self.table[unit].writes = self.writes_now(unit).min(u32::from(u8::MAX)) as u8;
        let rank = self.rank(unit);
        let mut order = core::mem::take(&mut self.by_rank);
        order.insert(unit, |at| self.rank(at).cmp(&rank));
        self.by_rank = order;
        self.dirty_len += 1;
    }

    fn unlink_dirty(&mut self, unit: u32) {
        let rank = self.rank(unit);
        let mut order = core::mem::take(&mut self.by_rank);
        order.remove(unit, |at| self.rank(at).cmp(&rank));
        self.by_rank = order;
        self.dirty_len -= 1;
    }

    fn unlink(&mut self, unit: u32) {
        let Unit { place, before, after, .. } = self.table[unit];
        if place == Place::Dirty {
            return self.unlink_dirty(unit);
        }
        if place == Place::Hot {
            self.hot_bytes -= self.bytes(unit);
        }
        if before == NONE {
            self.list(place).first = after;
        } else {
            self.table[before].after = after;
        }
        if after == NONE {
            self.list(place).last = before;
        } else {
            self.table[after].before = before;
        }
        self.list(place).len -= 1;
    }

    /// Changes the size or the rank of a unit, and its place accordingly: a cold unit without a clean part
    /// belongs in the dirty list.
    fn change(&mut self, unit: u32, change: impl FnOnce(&mut Unit)) {
        match self.table[unit].place {
            Place::Hot => {
                self.hot_bytes -= self.bytes(unit);
                change(&mut self.table[unit]);
                self.hot_bytes += self.bytes(unit);
            }
            Place::Dirty => {
                self.unlink_dirty(unit);
                change(&mut self.table[unit]);
                if self.table[unit].frame == NONE {
                    self.link_dirty(unit);
                } else {
                    self.table[unit].place = Place::Clean;
                    self.link_first(unit);
                }
            }
            Place::Clean => {
                change(&mut self.table[unit]);
                if self.table[unit].state() == Some(State::Dirty) {
                    self.unlink(unit);
                    self.link_dirty(unit);
                }
            }
            Place::Inner | Place::Free => change(&mut self.table[unit]),
        }
    }

    pub(super) fn set_frame(&mut self, unit: u32, frame: u32) {
        if (self.table[unit].frame == NONE) == (frame == NONE) {
            self.table[unit].frame = frame;
        } else {
            self.change(unit, |unit| unit.frame = frame);
        }
    }

    pub(super) fn set_base(&mut self, unit: u32, base: u16) {
        if self.table[unit].base != base {
            self.change(unit, |unit| unit.base = base);
        }
    }

    /// Changes the length of a dirty part. `entries` and `adds` are the increases of its entries and of
    /// those that add one to the leaf.
    pub(super) fn resize(&mut self, unit: u32, entries: i32, adds: i32) {
        let was_dirty = self.table[unit].part.len > 0;
        let begins = !was_dirty && self.sizes.commit == CommitPolicy::FirstAssociated;
        let clock = self.clock;
        self.change(unit, |unit| {
            if begins {
                unit.stamp = clock;
            }
            unit.part.len = unit.part.len.wrapping_add_signed(entries);
            unit.adds = unit.adds.wrapping_add_signed(adds);
        });
        let is_dirty = self.table[unit].part.len > 0;
        let waiting = &mut self.waiting;
        waiting.units = waiting.units + u64::from(is_dirty) - u64::from(was_dirty);
        waiting.entries = waiting.entries.wrapping_add_signed(entries.into());
        waiting.adds = waiting.adds.wrapping_add_signed(adds.into());
    }

    /// Free bytes of a budget that counts records, if `copies` units have copies. One more unit with a
    /// change needs [`Units::change_bytes`].
    pub(super) fn free_bytes(&self, copies: usize) -> usize {
        let Sizes { page_bytes, buffer_bytes, counted, .. } = self.sizes;
        let changes = self.waiting.entries as usize * counted.group;
        buffer_bytes.saturating_sub(copies * page_bytes + self.count * counted.unit + changes)
    }

    /// Bytes of a unit with one change, if records are counted.
    pub(super) fn change_bytes(&self) -> usize {
        self.sizes.counted.unit + self.sizes.counted.group
    }

    pub(super) fn waiting(&self) -> Waiting {
        self.waiting
    }

    pub(super) fn set_head(&mut self, unit: u32, head: u32) {
        self.table[unit].part.head = head;
    }

    /// Marks a unit as used: it moves to the front, and the least recently used hot units become cold.
    pub(super) fn touch(&mut self, unit: u32, is_inner: bool) {
        let is_kept = is_inner && self.sizes.inner == Inner::Kept;
        let place = if is_kept { Place::Inner } else { Place::Hot };
        self.clock = self.clock.saturating_add(1);
        if self.table[unit].place != place || self.table[unit].before != NONE {
            self.unlink(unit);
            self.table[unit].place = place;
            self.link_first(unit);
        }
        let keeps_age = self.sizes.commit == CommitPolicy::FirstAssociated && self.table[unit].part.len > 0;
        if !keeps_age {
            self.table[unit].stamp = self.clock;
        }
        self.cool();
    }

    /// Turns the unit of an inner node into that of a leaf, because its page has become a leaf with changes.
    pub(super) fn make_leaf(&mut self, unit: u32) {
        if self.table[unit].place == Place::Inner {
            self.touch(unit, false);
        }
    }

    /// Largest number of bytes in the hot region: its share of the bytes that inner nodes leave.
    fn hot_max(&self) -> usize {
        let Sizes { page_bytes, buffer_bytes, window_percent, .. } = self.sizes;
        let leaves = buffer_bytes.saturating_sub(self.lists[2].len * page_bytes);
        (leaves as u128 * u128::from(100 - window_percent) / 100) as usize
    }

    fn cool(&mut self) {
        while self.hot_bytes > self.hot_max() {
            let unit = self.lists[0].last;
            if unit == NONE {
                return;
            }
            self.unlink(unit);
            if self.table[unit].frame == NONE {
                self.link_dirty(unit);
            } else {
                self.table[unit].place = Place::Clean;
                self.link_first(unit);
            }
        }
    }

    pub(super) fn clean_len(&self) -> usize {
        self.lists[1].len
    }

    pub(super) fn inner_len(&self) -> usize {
        self.lists[2].len
    }

    fn last(&self, list: usize) -> Option<u32> {
        Some(self.lists[list].last).filter(|&unit| unit != NONE)
    }

    pub(super) fn last_clean(&self) -> Option<u32> {
        self.last(1)
    }

    pub(super) fn last_hot(&self) -> Option<u32> {
        self.last(0)
    }

    /// Whether inner nodes are units like leaves.
    pub(super) fn inner_are_units(&self) -> bool {
        self.sizes.inner == Inner::Units
    }

    /// The `count` least recently used hot units, the last first.
    pub(super) fn hot_tail(&self, count: usize) -> impl Iterator<Item = u32> + '_ {
        core::iter::successors(self.last_hot(), |&unit| {
            Some(self.table[unit].before).filter(|&unit| unit != NONE)
        })
        .take(count)
    }

    pub(super) fn last_inner(&self) -> Option<u32> {
        self.last(2)
    }

    /// The least recently used hot unit with a clean part. If there is none, the least recently used inner
    /// unit.
    pub(super) fn last_with_frame(&self) -> Option<u32> {
        let mut unit = self.lists[0].last;
        while unit != NONE && self.table[unit].frame == NONE {
            unit = self.table[unit].before;
        }
        if unit == NONE { self.last_inner() } else { Some(unit) }
    }

    /// The least recently used clean unit.
    pub(super) fn last_without_changes(&self) -> Option<u32> {
        let clean = self.all().filter(|&unit| self.table[unit].state() == Some(State::Clean));
        clean.min_by_key(|&unit| self.table[unit].stamp)
    }

    pub(super) fn dirty_len(&self) -> usize {
        self.dirty_len
    }

    /// The first unit of the dirty list that costs `writes` writes or more.
    pub(super) fn first_dirty(&self, writes: u32) -> Option<u32> {
        let least = (writes, Reverse(u32::MAX), 0, 0);
        self.by_rank.next(|at| self.rank(at).cmp(&least))
    }

    /// Units for the exact-fit commit, whose dirty list is sorted by size: the smallest one that frees
    /// `least` entries. If there is none, the largest is taken, and the search is repeated for the remaining
    /// entries.
    pub(super) fn fitting_dirty(&self, mut least: u64) -> Vec<u32> {
        let mut chosen: Vec<u32> = Vec::new();
        loop {
            let before = chosen.last().map(|&unit| self.rank(unit));
            let is_left = |unit: &u32| before.is_none_or(|before| self.rank(*unit) < before);
            let largest = || {
                self.by_rank.previous(|at| {
                    if is_left(&at) { core::cmp::Ordering::Less } else { core::cmp::Ordering::Greater }
                })
            };
            let wanted = least.min(u64::from(u32::MAX)) as u32;
            let Some(unit) = self.first_dirty(wanted).filter(is_left).or_else(largest) else { return chosen };
            chosen.push(unit);
            least = least.saturating_sub(self.table[unit].part.len.into());
            if least == 0 {
                return chosen;
            }
        }
    }

    pub(super) fn next_dirty(&self, unit: u32) -> Option<u32> {
        let rank = self.rank(unit);
        self.by_rank.next(|at| self.rank(at).cmp(&rank).then(core::cmp::Ordering::Less))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.table.len() as u32).filter(|&unit| self.table[unit].place != Place::Free)
    }

    /// Whether places, sizes and lists agree, for the checker.
    pub(super) fn is_sound(&self) -> bool {
        let are_priced = self.all().all(|unit| {
            self.table[unit].place != Place::Dirty || self.writes(unit) == self.writes_now(unit).min(255)
        });
        let count = |place| self.all().filter(|&unit| self.table[unit].place == place).count();
        let places = [Place::Hot, Place::Clean, Place::Inner];
        let are_listed = places.into_iter().zip(self.lists).all(|(place, list)| {
            let mut units = core::iter::successors(Some(list.first).filter(|&unit| unit != NONE), |&unit| {
                Some(self.table[unit].after).filter(|&unit| unit != NONE)
            });
            count(place) == list.len && units.by_ref().take(list.len + 1).count() == list.len
        });
        let hot: usize =
            self.all().filter(|&u| self.table[u].place == Place::Hot).map(|u| self.bytes(u)).sum();
        let mut ranked = 0;
        let mut next = self.first_dirty(0);
        while let Some(unit) = next.filter(|_| ranked <= self.dirty_len) {
            ranked += 1;
            next = self.next_dirty(unit);
        }
        are_priced
            && are_listed
            && hot == self.hot_bytes
            && count(Place::Dirty) == self.dirty_len
            && ranked == self.dirty_len
            && self.all().count() == self.count
    }
}
