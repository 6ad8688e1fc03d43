//! Read part of the cache: whole pages of the chip. The least recently used one is evicted. A build without
//! it has an empty stand-in.

#[cfg(feature = "embedded")]
pub(super) use kept::ReadPart;
#[cfg(not(feature = "embedded"))]
pub(super) use none::ReadPart;

/// True if the engine was built so that pages may be kept in RAM for reads.
pub(crate) const HAS_READ_PART: bool = cfg!(feature = "embedded");

#[cfg(feature = "embedded")]
mod kept {
    use crate::cache::policy::lru::LruList;
    use crate::log::parts::Page;
    use crate::log::tag::Tag;
    use crate::sorted::Map;
    use crate::units::Ppn;
    use alloc::vec;
    use alloc::vec::Vec;

    struct Frame {
        ppn: Ppn,
        tag: Tag,
        data: Vec<u8>,
    }

    impl Frame {
        fn page(&self) -> Page<'_> {
            Page { tag: &self.tag, data: &self.data }
        }
    }

    pub(in crate::log) struct ReadPart {
        frames: Vec<Frame>,
        places: Map<Ppn, u32>,
        order: LruList,
        unused: Vec<u32>,
    }

    impl ReadPart {
        pub(in crate::log) fn new(pages: usize, page_bytes: usize) -> ReadPart {
            let frame = || Frame { ppn: Ppn(0), tag: Tag::default(), data: vec![0; page_bytes] };
            ReadPart {
                frames: (0..pages).map(|_| frame()).collect(),
                places: Map::new(),
                order: LruList::new(pages),
                unused: (0..pages as u32).rev().collect(),
            }
        }

        pub(in crate::log) fn pages(&self) -> usize {
            self.frames.len()
        }

        /// Frame of a page, which becomes the most recently used one.
        pub(in crate::log) fn find(&mut self, ppn: Ppn) -> Option<u32> {
            let frame = *self.places.get(&ppn)?;
            self.order.touch(frame);
            debug_assert_eq!(self.frames[frame as usize].ppn, ppn, "frame {frame} has another page");
            Some(frame)
        }

        pub(in crate::log) fn page(&self, frame: u32) -> Page<'_> {
            self.frames[frame as usize].page()
        }

        /// Gives a page a frame, the least recently used one if none is unused. The page's bytes and the old
        /// ones of the frame are swapped.
        pub(in crate::log) fn admit(&mut self, ppn: Ppn, tag: Tag, data: &mut Vec<u8>) -> Page<'_> {
            debug_assert!(!self.places.contains_key(&ppn), "{ppn} has a frame already");
            let frame = match (self.unused.pop(), self.order.least()) {
                (Some(frame), _) => frame,
                (None, Some(frame)) => {
                    self.order.remove(frame);
                    self.places.remove(&self.frames[frame as usize].ppn);
                    frame
                }
                (None, None) => unreachable!("a read part without frames admits nothing"),
            };
            self.places.insert(ppn, frame);
            self.order.push(frame);
            debug_assert_eq!(self.places.len() + self.unused.len(), self.frames.len(), "a frame is lost");
            let entry = &mut self.frames[frame as usize];
            (entry.ppn, entry.tag) = (ppn, tag);
            core::mem::swap(&mut entry.data, data);
            entry.page()
        }

        pub(in crate::log) fn remove(&mut self, ppn: Ppn) {
            if let Some(frame) = self.places.remove(&ppn) {
                self.order.remove(frame);
                self.unused.push(frame);
                debug_assert!(self.places.len() + self.unused.len() == self.frames.len(), "a frame is lost");
            }
        }
    }
}

#[cfg(not(feature = "embedded"))]
mod none {
    use crate::log::parts::Page;
    use crate::log::tag::Tag;
    use crate::units::Ppn;
    use alloc::vec::Vec;

    /// Stand-in for a read part that keeps no page.
    pub(in crate::log) struct ReadPart;

    impl ReadPart {
        pub(in crate::log) fn new(_pages: usize, _page_bytes: usize) -> ReadPart {
            ReadPart
        }

        pub(in crate::log) fn pages(&self) -> usize {
            0
        }

        pub(in crate::log) fn find(&mut self, _ppn: Ppn) -> Option<u32> {
            None
        }

        pub(in crate::log) fn page(&self, _frame: u32) -> Page<'_> {
            unreachable!("no page has a frame")
        }

        pub(in crate::log) fn admit(&mut self, _ppn: Ppn, _tag: Tag, _data: &mut Vec<u8>) -> Page<'_> {
            unreachable!("no page has a frame")
        }

        pub(in crate::log) fn remove(&mut self, _ppn: Ppn) {}
    }
}
