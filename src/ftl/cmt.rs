//! The cached mapping table: entries of logical pages in a segmented order of least recent use.
//!
//! An entry speaks for a *run*: logical pages in sequence that lie in physical pages in sequence, mostly one.
//! A run does not reach beyond its page of the table on flash.
//!
//! A new entry joins the probationary segment; one used again moves to the protected segment, which holds
//! four fifths of the entries at most and gives its least recently used one back. The next to go is the least
//! recently used of the probationary segment. A row of slots in the order of logical pages finds one by
//! halving; the slots of a segment are chained.

use alloc::vec::Vec;
use core::ops::Range;

const NONE: u32 = u32::MAX;

/// Bytes of the RAM for cached entries that one is counted as. It takes fewer: its slot and its place.
pub const ENTRY_BYTES: usize = 36;

/// Bytes that an entry takes.
const HELD_BYTES: usize = size_of::<Slot>() + size_of::<u32>();

#[derive(Clone, Copy, Debug)]
struct Slot {
    lpn: u32,
    ppn: u32,
    before: u32,
    after: u32,
    /// Pages of the run.
    count: u16,
    dirty: bool,
    protected: bool,
}

impl Slot {
    /// Where a logical page of the run is.
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

/// Logical pages in sequence, in physical pages in sequence; or nowhere, one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first logical page.
    pub lpn: u32,
    /// The first physical page.
    pub ppn: u32,
    /// Pages in sequence.
    pub count: u16,
}

impl Run {
    /// Logical and physical pages.
    pub(crate) fn pages(self) -> impl Iterator<Item = (u32, u32)> {
        let place = move |i: u32| if self.ppn == NONE { NONE } else { self.ppn + i };
        (0..u32::from(self.count)).map(move |i| (self.lpn + i, place(i)))
    }
}

/// Most recently used first.
#[derive(Clone, Copy, Debug)]
struct Segment {
    first: u32,
    last: u32,
    len: usize,
}

/// Cached entries.
#[derive(Debug)]
pub struct Cmt {
    /// Slots in use, by logical page.
    index: Vec<u32>,
    slots: Vec<Slot>,
    vacant: u32,
    /// Probationary, protected.
    segments: [Segment; 2],
    capacity: usize,
}

impl Cmt {
    /// Room for this many entries, at least 2.
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

    /// Entries in the cache.
    #[allow(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether one must go before another comes.
    pub(crate) fn is_full(&self) -> bool {
        self.len() == self.capacity
    }

    /// Whether so many more fit.
    pub fn has_room(&self, entries: usize) -> bool {
        self.len() + entries <= self.capacity
    }

    /// The place in the index from which on entries begin with this logical page or a later one.
    fn place(&self, lpn: u32) -> usize {
        self.index.partition_point(|&at| self.slots[at as usize].lpn < lpn)
    }

    /// The slot of the run that a logical page is in.
    fn find(&self, lpn: u32) -> Option<u32> {
        let after = self.index.partition_point(|&at| self.slots[at as usize].lpn <= lpn);
        let &at = self.index.get(after.checked_sub(1)?)?;
        (lpn < self.slots[at as usize].end()).then_some(at)
    }

    /// The entry of a logical page, without a trace.
    pub(crate) fn get(&self, lpn: u32) -> Option<u32> {
        self.find(lpn).map(|at| self.slots[at as usize].at(lpn))
    }

    /// The entry of a logical page that is used now.
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

    /// Adds an entry for pages that are not there; there is room for it.
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

    /// Changes an entry of one page, which the flash does not know then. False: there is none of this page
    /// alone.
    pub(crate) fn set(&mut self, lpn: u32, ppn: u32) -> bool {
        let Some(at) = self.find(lpn) else { return false };
        let slot = &mut self.slots[at as usize];
        if slot.count > 1 {
            return false;
        }
        (slot.ppn, slot.dirty) = (ppn, true);
        true
    }

    /// Adds a page to the run before it, of which the flash knows nothing either. False: it does not go on
    /// there.
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

    /// Takes a page out of the run it is in. What follows it there becomes a run of its own; if there is no
    /// room for that, it is given back, unless the flash knows it.
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

    /// The logical page whose entry goes next, and whether the flash does not know it.
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

    /// The entries of these logical pages, and whether the flash does not know them.
    pub(crate) fn runs(&self, lpns: Range<u32>) -> impl Iterator<Item = (Run, bool)> + '_ {
        let places = self.place(lpns.start)..self.place(lpns.end);
        let slots = self.index[places].iter().map(|&at| &self.slots[at as usize]);
        slots.map(|slot| (slot.run(), slot.dirty))
    }

    /// The pages among these whose entries the flash does not know, and where they are.
    pub(crate) fn dirty(&self, lpns: Range<u32>) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.runs(lpns).filter(|(_, dirty)| *dirty).flat_map(|(run, _)| run.pages())
    }

    /// The flash knows the entries of these logical pages now.
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
