//! Pages of the chip in RAM. The least recently used one is replaced. One more frame is the *page at hand*,
//! for reads without a cache frame.

use super::layout::TAG_BYTES;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use nandex::cache::lru::LruList;
use nandex::units::Ppn;

/// Bookkeeping of a frame besides its page: entry of the map, links, the frame itself.
const FRAME_BYTES: usize = 68 + TAG_BYTES;

/// Frame number of the page at hand.
pub(super) const AT_HAND: usize = 0;

/// Frames for pages that were read.
pub(super) struct ReadCache {
    /// Frames, the page at hand first. Each has the bytes of a page, then those of its tag.
    frames: Vec<Vec<u8>>,
    pages: Vec<Option<Ppn>>,
    places: BTreeMap<Ppn, u32>,
    order: LruList,
    unused: Vec<u32>,
    page_bytes: usize,
}

impl ReadCache {
    /// A cache of this many frames.
    pub(super) fn new(frames: usize, page_bytes: usize) -> ReadCache {
        ReadCache {
            frames: vec![vec![0xff; page_bytes + TAG_BYTES]; frames + 1],
            pages: vec![None; frames],
            places: BTreeMap::new(),
            order: LruList::new(frames),
            unused: (0..frames as u32).rev().collect(),
            page_bytes,
        }
    }

    /// Bytes that a cache of this many frames takes.
    pub(super) const fn bytes_for(frames: usize, page_bytes: usize) -> usize {
        (frames + 1) * (page_bytes + FRAME_BYTES)
    }

    /// Frames that fit into `bytes` bytes, without the page at hand.
    pub(super) const fn frames_for(bytes: usize, page_bytes: usize) -> usize {
        bytes / (page_bytes + FRAME_BYTES)
    }

    pub(super) fn frames(&self) -> usize {
        self.pages.len()
    }

    /// The frame of a page, which becomes the most recently used.
    pub(super) fn find(&mut self, ppn: Ppn) -> Option<usize> {
        let frame = *self.places.get(&ppn)?;
        self.order.touch(frame);
        Some(frame as usize + 1)
    }

    /// A frame to read a page into.
    pub(super) fn admit(&mut self, ppn: Ppn) -> usize {
        debug_assert!(!self.places.contains_key(&ppn), "{ppn} has a frame already");
        if self.unused.is_empty()
            && let Some(least) = self.order.least()
        {
            self.forget_frame(least);
        }
        let Some(frame) = self.unused.pop() else { return AT_HAND };
        self.pages[frame as usize] = Some(ppn);
        self.places.insert(ppn, frame);
        self.order.push(frame);
        debug_assert_eq!(self.places.len() + self.unused.len(), self.pages.len(), "a frame is lost");
        frame as usize + 1
    }

    fn forget_frame(&mut self, frame: u32) {
        if let Some(ppn) = self.pages[frame as usize].take() {
            self.places.remove(&ppn);
            self.order.remove(frame);
            self.unused.push(frame);
            debug_assert_eq!(self.places.len() + self.unused.len(), self.pages.len(), "a frame is lost");
        }
    }

    /// Drops a page whose contents have changed.
    pub(super) fn forget(&mut self, ppn: Ppn) {
        if let Some(&frame) = self.places.get(&ppn) {
            self.forget_frame(frame);
        }
    }

    /// Drops the pages of a block.
    pub(super) fn forget_range(&mut self, first: Ppn, pages: u32) {
        while let Some((_, &frame)) = self.places.range(first..Ppn(first.0 + pages)).next() {
            self.forget_frame(frame);
        }
    }

    /// Gives frames back when the tables need their room.
    pub(super) fn shrink(&mut self, frames: usize) {
        while self.pages.len() > frames {
            let last = self.pages.len() as u32 - 1;
            self.forget_frame(last);
            self.unused.retain(|&frame| frame != last);
            self.pages.pop();
            self.frames.pop();
        }
        debug_assert!(
            self.frames.len() == self.pages.len() + 1
                && self.places.len() + self.unused.len() == self.pages.len(),
            "{} frames for {} pages",
            self.frames.len(),
            self.pages.len()
        );
    }

    /// The page in a frame, and its tag's bytes.
    pub(super) fn page(&self, frame: usize) -> (&[u8], &[u8]) {
        self.frames[frame].split_at(self.page_bytes)
    }

    /// The buffers of a frame, to be read into.
    pub(super) fn page_mut(&mut self, frame: usize) -> (&mut [u8], &mut [u8]) {
        self.frames[frame].split_at_mut(self.page_bytes)
    }

    pub(super) fn ram_bytes(&self) -> usize {
        ReadCache::bytes_for(self.pages.len(), self.page_bytes)
    }
}
