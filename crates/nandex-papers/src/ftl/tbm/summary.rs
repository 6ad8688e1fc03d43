//! The Summary table: which buffer block each logical block has, and which logical pages are in it. All in
//! RAM.
//!
//! A buffer block has one entry of two bytes for each page programmed, in that order: the place of the
//! logical page in its logical block. The newest page of a place is the last with it. A page that is trimmed
//! keeps its entries until the block is converted; the place is then listed as *untold* (the chip does not
//! say so yet) until a page without contents is programmed for it.

use super::page::Content;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use nandex::sort;
use nandex::units::Pbn;

/// Flags of an entry whose page has no contents: the logical page is trimmed, or its newest copy is in the
/// store below.
const IS_TRIM: u16 = 1 << 15;
const IS_BELOW: u16 = 1 << 14;
const PLACE: u16 = IS_BELOW - 1;

/// Pages of a block at most: an entry has bits for this many places.
pub(super) const PLACES_MAX: u32 = IS_BELOW as u32;

/// The newest copy of a logical page in a buffer block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Newest {
    /// Place of the logical page in its logical block.
    pub(super) place: u32,
    /// Page of the buffer block that holds the copy.
    pub(super) page: u32,
    pub(super) content: Content,
}

#[derive(Clone, Debug)]
pub(super) struct Buffer {
    pub(super) pbn: Pbn,
    pub(super) last_version: u64,
    /// Whether a page of it needed a second read. The block is converted at the next occasion.
    pub(super) is_weak: bool,
    entries: Vec<u16>,
    untold: Vec<u16>,
}

impl Buffer {
    pub(super) fn new(pbn: Pbn, pages_per_block: u32) -> Buffer {
        let entries = Vec::with_capacity(pages_per_block as usize);
        Buffer { pbn, last_version: 0, is_weak: false, entries, untold: Vec::new() }
    }

    /// Pages programmed in the block, superseded ones included.
    pub(super) fn pages(&self) -> u32 {
        self.entries.len() as u32
    }

    pub(super) fn push(&mut self, place: u32, content: Content, version: u64) {
        assert!(version >= self.last_version, "the pages of a buffer block ascend by version");
        debug_assert!(place < PLACES_MAX, "place {place} does not fit an entry");
        let mark = match content {
            Content::Data => 0,
            Content::Trimmed => IS_TRIM,
            Content::Below => IS_BELOW,
        };
        self.untold.retain(|&other| u32::from(other) != place);
        self.entries.push(place as u16 | mark);
        self.last_version = version;
    }

    pub(super) fn pop(&mut self) {
        assert!(self.entries.pop().is_some(), "a buffer block has a last page");
    }

    pub(super) fn find(&self, place: u32) -> Option<Newest> {
        let page = self.entries.iter().rposition(|&entry| u32::from(entry & PLACE) == place)?;
        debug_assert!(page < self.entries.len(), "K2: page {page} of a buffer block");
        Some(Newest { place, page: page as u32, content: self.content(page) })
    }

    /// Meaning of a page, which must be the newest of its logical page.
    fn content(&self, page: usize) -> Content {
        let entry = self.entries[page];
        if entry & IS_TRIM != 0 || self.is_untold((entry & PLACE).into()) {
            return Content::Trimmed;
        }
        if entry & IS_BELOW != 0 { Content::Below } else { Content::Data }
    }

    /// Whether the page was trimmed and the chip does not say so yet.
    pub(super) fn is_untold(&self, place: u32) -> bool {
        self.untold.iter().any(|&other| u32::from(other) == place)
    }

    pub(super) fn trim(&mut self, place: u32) {
        if self.find(place).is_some_and(|newest| newest.content != Content::Trimmed) {
            self.untold.push(place as u16);
            debug_assert!(self.untold.len() <= self.entries.len(), "K2: more trims than pages");
        }
    }

    /// The newest copy of each logical page, in the order of the logical pages.
    pub(super) fn newest(&self, pages_per_block: u32) -> Vec<Newest> {
        let mut seen = vec![false; pages_per_block as usize];
        let mut newest = Vec::new();
        for (page, &entry) in self.entries.iter().enumerate().rev() {
            let place = u32::from(entry & PLACE);
            if !core::mem::replace(&mut seen[place as usize], true) {
                newest.push(Newest { place, page: page as u32, content: self.content(page) });
            }
        }
        sort::total(&mut newest);
        debug_assert!(newest.is_sorted_by(|a, b| a.place < b.place), "K2: a place has two newest pages");
        newest
    }

    fn ram_bytes(&self) -> usize {
        size_of::<(u32, Buffer)>() + (self.entries.capacity() + self.untold.capacity()) * size_of::<u16>()
    }
}

/// Bytes of RAM of a buffer block at most: all its pages noted, and each of them in the list of untold
/// trims, which grows by doubling.
pub(super) fn buffer_bytes_max(pages_per_block: u32) -> usize {
    let pages = pages_per_block as usize;
    size_of::<(u32, Buffer)>() + (pages + pages.next_power_of_two().max(4)) * size_of::<u16>()
}

#[derive(Clone, Debug, Default)]
pub(super) struct Summary {
    buffers: BTreeMap<u32, Buffer>,
}

impl Summary {
    pub(super) fn len(&self) -> u32 {
        self.buffers.len() as u32
    }

    pub(super) fn get(&self, lbn: u32) -> Option<&Buffer> {
        self.buffers.get(&lbn)
    }

    pub(super) fn get_mut(&mut self, lbn: u32) -> Option<&mut Buffer> {
        self.buffers.get_mut(&lbn)
    }

    pub(super) fn insert(&mut self, lbn: u32, buffer: Buffer) {
        let old = self.buffers.insert(lbn, buffer);
        assert!(old.is_none(), "K2: a logical block has two buffer blocks");
    }

    pub(super) fn remove(&mut self, lbn: u32) -> Option<Buffer> {
        self.buffers.remove(&lbn)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Buffer)> {
        self.buffers.iter().map(|(&lbn, buffer)| (lbn, buffer))
    }

    /// A logical block, and a place in it that was trimmed without a note on the chip so far.
    pub(super) fn first_untold(&self) -> Option<(u32, u32)> {
        self.iter().find_map(|(lbn, buffer)| Some((lbn, u32::from(*buffer.untold.first()?))))
    }

    /// A buffer block with a page that needed a second read. It should be written anew elsewhere.
    pub(super) fn weak(&self, is_spared: impl Fn(u32) -> bool) -> Option<u32> {
        self.iter().find(|&(lbn, buffer)| buffer.is_weak && !is_spared(lbn)).map(|(lbn, _)| lbn)
    }

    /// The buffer block with the fewest pages. Among equals, the one unchanged for longest.
    pub(super) fn victim(&self, is_spared: impl Fn(u32) -> bool) -> Option<u32> {
        let others = self.iter().filter(|&(lbn, _)| !is_spared(lbn));
        others.min_by_key(|(_, buffer)| (buffer.pages(), buffer.last_version)).map(|(lbn, _)| lbn)
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.buffers.values().map(Buffer::ram_bytes).sum()
    }
}
