//! The cached mapping table: entries of logical pages in a segmented order of least recent use.
//!
//! An entry stands for a *run*: consecutive logical pages that lie in consecutive physical pages, mostly one.
//! A run does not reach beyond its page of the table on flash.
//!
//! A new entry joins the probationary segment. One used again moves to the protected segment, which holds at
//! most four fifths of the entries and gives its least recently used one back. The next victim is the least
//! recently used of the probationary segment. Slots are found by binary search in a row ordered by logical
//! page; the slots of a segment are chained.

use alloc::vec::Vec;
use core::ops::Range;

const NONE: u32 = u32::MAX;

/// Bytes of RAM that the budget counts for each cached entry. An entry takes fewer: its slot and its place.
pub const ENTRY_BYTES: usize = 36;

/// Bytes that an entry takes.
const HELD_BYTES: usize = size_of::<Slot>() + size_of::<u32>();

#[derive(Clone, Copy, Debug)]
struct Slot {
    lpn: u32,
    ppn: u32,
    before: u32,
    after: u32,
    /// Number of pages of the run.
    count: u16,
    dirty: bool,
    protected: bool,
}

impl Slot {
    /// Place of a logical page of the run.
    fn at(&self, lpn: u32) -> u32 {
        if self.ppn == NONE { NONE } else { self.ppn + (lpn - self.lpn) }
    }

    fn end(&self) -> u32 {
        self.lpn + u32::from(self.count)
    }

    fn run(&self) -> Run {
        Run { lpn: self.lpn, ppn: self.ppn, count: self.count }
    }
}

/// Run: consecutive logical pages in consecutive physical pages. A logical page that is nowhere is a run of
/// its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First logical page.
    pub lpn: u32,
    /// First physical page.
    pub ppn: u32,
    /// Number of pages.
    pub count: u16,
}

impl Run {
    /// Pairs of logical and physical pages.
    pub(crate) fn pages(self) -> impl Iterator<Item = (u32, u32)> {
        let place = move |i: u32| if self.ppn == NONE { NONE } else { self.ppn + i };
        (0..u32::from(self.count)).map(move |i| (self.lpn + i, place(i)))
    }
}

/// Segment of the cache, the most recently used slot first.
#[derive(Clone, Copy, Debug)]
struct Segment {
    first: u32,
    last: u32,
    len: usize,
}

/// Cached entries.
#[derive(Debug)]
pub struct Cmt {
    /// Slots in use, in the order of logical pages.
    index: Vec<u32>,
    slots: Vec<Slot>,
    vacant: u32,
    /// Probationary and protected segment.
    segments: [Segment; 2],
    capacity: usize,
}

impl Cmt {
    /// Makes a cache with room for `capacity` entries, at least 2.
    pub(crate) fn new(capacity: usize) -> Cmt {
        assert!(capacity >= 2, "a segmented list has an entry in each segment");
        Cmt {
            index: Vec::with_capacity(capacity),
            slots: Vec::with_capacity(capacity),
            vacant: NONE,
            segments: [Segment { first: NONE, last: NONE, len: 0 }; 2],
            capacity,
        }
    }

    fn protected_max(&self) -> usize {
        (self.capacity * 4 / 5).max(1)
    }

    /// Number of entries in the cache.
    #[allow(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// True if an entry must go before another comes.
    pub(crate) fn is_full(&self) -> bool {
        self.len() == self.capacity
    }

    /// True if `entries` more entries fit.
    pub fn has_room(&self, entries: usize) -> bool {
        self.len() + entries <= self.capacity
    }

    /// First index position whose entry begins with this logical page or a later one.
    fn place(&self, lpn: u32) -> usize {
        self.index.partition_point(|&at| self.slots[at as usize].lpn < lpn)
    }

    /// Slot of the run that holds a logical page.
    fn find(&self, lpn: u32) -> Option<u32> {
        let after = self.index.partition_point(|&at| self.slots[at as usize].lpn <= lpn);
        let &at = self.index.get(after.checked_sub(1)?)?;
        (lpn < self.slots[at as usize].end()).then_some(at)
    }

    /// Entry of a logical page, without an effect on the order.
    pub(crate) fn get(&self, lpn: u32) -> Option<u32> {
        self.find(lpn).map(|at| self.slots[at as usize].at(lpn))
    }

    /// Entry of a logical page that is used now.
    pub(crate) fn touch(&mut self, lpn: u32) -> Option<u32> {
        let at = self.find(lpn)?;
        self.unlink(at);
        self.slots[at as usize].protected = true;
        self.link(at);
        if self.segments[1].len > self.protected_max() {
            let back = self.segments[1].last;
            self.unlink(back);
            self.slots[back as usize].protected = false;
            self.link(back);
        }
        Some(self.slots[at as usize].at(lpn))
    }

    /// Adds an entry for pages without one. There must be room.
    pub fn insert(&mut self, run: Run, dirty: bool) {
        let Run { lpn, ppn, count } = run;
        assert!(!self.is_full(), "an entry is evicted before another comes");
        assert!(count == 1 || ppn != NONE, "what is nowhere is no run");
        let place = self.place(lpn);
        let is_new = self.index.get(place).is_none_or(|&at| self.slots[at as usize].lpn != lpn);
        assert!(is_new, "lpn {lpn} is cached already");
        let slot = Slot { lpn, ppn, before: NONE, after: NONE, count, dirty, protected: false };
        let at = match self.vacant {
            NONE => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
            at => {
                self.vacant = self.slots[at as usize].after;
                self.slots[at as usize] = slot;
                at
            }
        };
        self.index.insert(place, at);
        self.link(at);
    }

    /// Changes an entry of a single page, and makes it dirty. False if there is no entry of this page alone.
    pub(crate) fn set(&mut self, lpn: u32, ppn: u32) -> bool {
        let Some(at) = self.find(lpn) else { return false };
        let slot = &mut self.slots[at as usize];
        if slot.count > 1 {
            return false;
        }
        (slot.ppn, slot.dirty) = (ppn, true);
        true
    }

    /// Adds a page to the dirty run before it. False if it does not continue that run.
    pub(crate) fn extend(&mut self, lpn: u32, ppn: u32) -> bool {
        let Some(at) = lpn.checked_sub(1).and_then(|before| self.find(before)) else { return false };
        let slot = &mut self.slots[at as usize];
        let follows = slot.end() == lpn && slot.ppn != NONE && slot.at(lpn) == ppn;
        if !follows || !slot.dirty || slot.count == u16::MAX {
            return false;
        }
        slot.count += 1;
        true
    }

    /// Removes a page from its run. The pages behind it become a run of their own. If there is no room for
    /// that, a dirty run is returned to the caller.
    pub(crate) fn carve(&mut self, lpn: u32) -> Option<Run> {
        let at = self.find(lpn)?;
        let slot = self.slots[at as usize];
        let left = (lpn - slot.lpn) as u16;
        let right = slot.count - left - 1;
        if left == 0 {
            self.remove(slot.lpn);
        } else {
            self.slots[at as usize].count = left;
        }
        let rest = Run { lpn: lpn + 1, ppn: slot.at(lpn + 1), count: right };
        if right == 0 {
            return None;
        }
        if self.is_full() {
            return Some(rest).filter(|_| slot.dirty);
        }
        self.insert(rest, slot.dirty);
        None
    }

    /// First logical page of the next entry to be evicted, and whether the entry is dirty.
    pub fn victim(&self) -> Option<(u32, bool)> {
        let last = |segment: &Segment| Some(segment.last).filter(|&at| at != NONE);
        let at = self.segments.iter().find_map(last)?;
        let slot = &self.slots[at as usize];
        Some((slot.lpn, slot.dirty))
    }

    /// Drops the entry that begins with this page.
    pub(crate) fn remove(&mut self, lpn: u32) {
        let place = self.place(lpn);
        if self.index.get(place).is_some_and(|&at| self.slots[at as usize].lpn == lpn) {
            let at = self.index.remove(place);
            self.unlink(at);
            self.slots[at as usize].after = self.vacant;
            self.vacant = at;
        }
    }

    /// Returns the entries that begin within these logical pages, and for each if it is dirty.
    pub(crate) fn runs(&self, lpns: Range<u32>) -> impl Iterator<Item = (Run, bool)> + '_ {
        let places = self.place(lpns.start)..self.place(lpns.end);
        let slots = self.index[places].iter().map(|&at| &self.slots[at as usize]);
        slots.map(|slot| (slot.run(), slot.dirty))
    }

    /// Returns the pages of dirty entries that begin within these logical pages, with their places.
    pub(crate) fn dirty(&self, lpns: Range<u32>) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.runs(lpns).filter(|(_, dirty)| *dirty).flat_map(|(run, _)| run.pages())
    }

    /// Marks the entries of these logical pages as clean.
    pub(crate) fn cleaned(&mut self, lpns: Range<u32>) {
        for place in self.place(lpns.start)..self.place(lpns.end) {
            let at = self.index[place];
            self.slots[at as usize].dirty = false;
        }
    }

    fn link(&mut self, at: u32) {
        let segment = &mut self.segments[usize::from(self.slots[at as usize].protected)];
        let first = core::mem::replace(&mut segment.first, at);
        segment.len += 1;
        if first == NONE {
            segment.last = at;
        } else {
            self.slots[first as usize].before = at;
        }
        let slot = &mut self.slots[at as usize];
        (slot.before, slot.after) = (NONE, first);
    }

    fn unlink(&mut self, at: u32) {
        let Slot { before, after, protected, .. } = self.slots[at as usize];
        let segment = &mut self.segments[usize::from(protected)];
        segment.len -= 1;
        if before == NONE {
            segment.first = after;
        }
        if after == NONE {
            segment.last = before;
        }
        if before != NONE {
            self.slots[before as usize].after = after;
        }
        if after != NONE {
            self.slots[after as usize].before = before;
        }
    }

    /// Bytes of RAM held when full.
    pub(crate) fn ram_bytes_max(&self) -> usize {
        self.capacity * HELD_BYTES
    }

    /// Bytes of RAM held.
    pub fn ram_bytes(&self) -> usize {
        self.capacity * HELD_BYTES
    }
}
