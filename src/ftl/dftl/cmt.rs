//! The cached mapping table: entries of logical pages in a segmented order of least recent use.
//!
//! A new entry joins the probationary segment; one used again moves to the protected segment, which holds four fifths
//! of the entries at most and gives its least recently used one back. The next to go is the least recently used of the
//! probationary segment. All operations take O(log n): a B-tree finds the slot of a logical page, and the slots of a
//! segment are chained.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

const NONE: u32 = u32::MAX;

/// Bytes of RAM that an entry takes: its slot, and what the B-tree needs for it.
pub const ENTRY_BYTES: usize = size_of::<Slot>() + 2 * size_of::<(u32, u32)>();

#[derive(Clone, Copy, Debug)]
struct Slot {
    lpn: u32,
    ppn: u32,
    before: u32,
    after: u32,
    dirty: bool,
    protected: bool,
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
pub(super) struct Cmt {
    index: BTreeMap<u32, u32>,
    slots: Vec<Slot>,
    vacant: u32,
    /// Probationary, protected.
    segments: [Segment; 2],
    capacity: usize,
}

impl Cmt {
    /// Room for this many entries, at least 2.
    pub(super) fn new(capacity: usize) -> Cmt {
        assert!(capacity >= 2, "a segmented list has an entry in each segment");
        Cmt {
            index: BTreeMap::new(),
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
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether one must go before another comes.
    pub(super) fn is_full(&self) -> bool {
        self.len() == self.capacity
    }

    /// The entry of a logical page, without a trace.
    pub(super) fn get(&self, lpn: u32) -> Option<u32> {
        self.index.get(&lpn).map(|&at| self.slots[at as usize].ppn)
    }

    /// The entry of a logical page that is used now.
    pub(super) fn touch(&mut self, lpn: u32) -> Option<u32> {
        let at = *self.index.get(&lpn)?;
        self.unlink(at);
        self.slots[at as usize].protected = true;
        self.link(at);
        if self.segments[1].len > self.protected_max() {
            let back = self.segments[1].last;
            self.unlink(back);
            self.slots[back as usize].protected = false;
            self.link(back);
        }
        Some(self.slots[at as usize].ppn)
    }

    /// Adds an entry that is not there; there is room for it.
    pub(super) fn insert(&mut self, lpn: u32, ppn: u32, dirty: bool) {
        assert!(!self.is_full(), "an entry is evicted before another comes");
        let slot = Slot { lpn, ppn, before: NONE, after: NONE, dirty, protected: false };
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
        assert!(self.index.insert(lpn, at).is_none(), "lpn {lpn} is cached already");
        self.link(at);
    }

    /// Changes the entry of a logical page, which the flash does not know then. False: it is not cached.
    pub(super) fn set(&mut self, lpn: u32, ppn: u32) -> bool {
        let Some(&at) = self.index.get(&lpn) else { return false };
        let slot = &mut self.slots[at as usize];
        (slot.ppn, slot.dirty) = (ppn, true);
        true
    }

    /// The logical page whose entry goes next, and whether the flash does not know it.
    pub(super) fn victim(&self) -> Option<(u32, bool)> {
        let last = |segment: &Segment| Some(segment.last).filter(|&at| at != NONE);
        let at = self.segments.iter().find_map(last)?;
        let slot = &self.slots[at as usize];
        Some((slot.lpn, slot.dirty))
    }

    /// Drops an entry.
    pub(super) fn remove(&mut self, lpn: u32) {
        if let Some(at) = self.index.remove(&lpn) {
            self.unlink(at);
            self.slots[at as usize].after = self.vacant;
            self.vacant = at;
        }
    }

    /// The entries of these logical pages that the flash does not know.
    pub(super) fn dirty(&self, lpns: Range<u32>) -> impl Iterator<Item = (u32, u32)> + '_ {
        let slots = self.index.range(lpns).map(|(_, &at)| &self.slots[at as usize]);
        slots.filter(|slot| slot.dirty).map(|slot| (slot.lpn, slot.ppn))
    }

    /// The entries of these logical pages that the flash knows.
    pub(super) fn clean(&self, lpns: Range<u32>) -> impl Iterator<Item = (u32, u32)> + '_ {
        let slots = self.index.range(lpns).map(|(_, &at)| &self.slots[at as usize]);
        slots.filter(|slot| !slot.dirty).map(|slot| (slot.lpn, slot.ppn))
    }

    /// The flash knows the entries of these logical pages now.
    pub(super) fn cleaned(&mut self, lpns: Range<u32>) {
        for (_, &at) in self.index.range(lpns) {
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

    /// Bytes of RAM held.
    pub(super) fn ram_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>() + self.index.len() * 2 * size_of::<(u32, u32)>()
    }
}
