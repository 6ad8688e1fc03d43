//! The two-part cache of the mu-Tree paper (section 5.3): a read part and a write part of whole pages. No
//! page is in both.
//!
//! The read part is an LRU list of pages as they are on the chip. The write part holds pages that have an
//! address but are not programmed yet, in the order of their addresses, so that it can be programmed whole,
//! in ascending page order. If one of its pages dies, the next page takes over its place and its address.

use crate::log::tag::Tag;
use crate::units::Ppn;
use alloc::vec;
use alloc::vec::Vec;

/// A page as the tree sees it.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// Tag that the owner gave the page.
    pub tag: &'a Tag,
    /// Data area of the page.
    pub data: &'a [u8],
}

/// True if the engine was built so that pages may wait in RAM.
pub(crate) const HAS_WRITE_PART: bool = cfg!(feature = "embedded");

pub(super) struct Slot {
    pub(super) ppn: Ppn,
    pub(super) block_sequence: u32,
    pub(super) sequence: u64,
    pub(super) live: bool,
    pub(super) tag: Tag,
    pub(super) data: Vec<u8>,
}

/// Write part: pages that have an address and wait to be programmed, in the order of their addresses.
pub(super) struct WritePart {
    pages: u32,
    page_bytes: u32,
    pub(super) slots: Vec<Slot>,
    unused: Vec<Vec<u8>>,
    /// Number of addresses passed over since the last page that was programmed.
    pub(super) passed_over: u32,
    /// True after a flush failed half-way: the part's pages can be read, but it takes no more.
    pub(super) has_failed: bool,
    /// True if the current operation has replaced a page of the part: unless it ends, the part holds no
    /// complete tree.
    pub(super) is_divided: bool,
}

impl WritePart {
    pub(super) fn new(pages: u32, page_bytes: u32) -> WritePart {
        let (slots, unused) = (Vec::new(), Vec::new());
        WritePart { pages, page_bytes, slots, unused, passed_over: 0, has_failed: false, is_divided: false }
    }

    /// Pages that the part is meant to hold. An operation may exceed them until it ends.
    pub(super) fn pages(&self) -> usize {
        if HAS_WRITE_PART { self.pages as usize } else { 0 }
    }

    /// Number of pages that wait.
    pub(super) fn len(&self) -> usize {
        if HAS_WRITE_PART { self.slots.len() } else { 0 }
    }

    pub(super) fn find(&self, ppn: Ppn) -> Option<&Slot> {
        if !HAS_WRITE_PART {
            return None;
        }
        self.slots.iter().find(|slot| slot.ppn == ppn && slot.live)
    }

    /// The waiting page with this address. It must exist.
    pub(super) fn page(&self, ppn: Ppn) -> Page<'_> {
        match self.find(ppn) {
            Some(slot) => Page { tag: &slot.tag, data: &slot.data },
            None => unreachable!("the caller found {ppn} in the write part"),
        }
    }

    pub(super) fn find_mut(&mut self, ppn: Ppn) -> Option<&mut Slot> {
        if !HAS_WRITE_PART {
            return None;
        }
        self.slots.iter_mut().find(|slot| slot.ppn == ppn)
    }

    pub(super) fn clear(&mut self) {
        *self = WritePart { has_failed: self.has_failed, ..WritePart::new(self.pages, self.page_bytes) };
    }

    /// Address of a dead page, if there is one. It becomes live again, for another page.
    pub(super) fn revive(&mut self) -> Option<Ppn> {
        let slot = self.slots.iter_mut().find(|slot| !slot.live)?;
        slot.live = true;
        Some(slot.ppn)
    }

    pub(super) fn push(&mut self, ppn: Ppn, block_sequence: u32) {
        debug_assert!(self.slots.iter().all(|slot| slot.ppn != ppn), "{ppn} waits to be written already");
        let data = self.unused.pop().unwrap_or_else(|| vec![0; self.page_bytes as usize]);
        let tag = Tag::default();
        debug_assert_eq!(data.len(), self.page_bytes as usize, "a buffer of another size");
        self.slots.push(Slot { ppn, block_sequence, sequence: 0, live: true, tag, data });
    }

    /// Takes out all slots, in the order of their addresses.
    pub(super) fn take(&mut self) -> Vec<Slot> {
        core::mem::take(&mut self.slots)
    }

    /// Takes back the buffers of programmed slots.
    pub(super) fn recycle(&mut self, mut slots: Vec<Slot>) {
        self.unused.extend(slots.drain(..).map(|slot| slot.data));
        self.slots = slots;
    }

    pub(super) fn ram_bytes(&self) -> usize {
        let buffers = self.unused.len() + self.slots.len();
        buffers.max(self.pages as usize) * (self.page_bytes as usize + size_of::<Slot>())
    }
}
