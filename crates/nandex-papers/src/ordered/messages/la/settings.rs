//! How an LA-tree is set up.

use super::buffer::Buffer;
use crate::ordered::messages::ground::{Common, Layout, Shape, StorePages};
use nandex::check::IndexError;
use nandex::ordered::RecordFormat;

/// How an LA-tree is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaConfig {
    /// Records, class, answers.
    pub common: Common,
    /// K: levels of a subtree.
    pub subtree_levels: u32,
    /// Pages of a buffer at most.
    pub buffer_pages: u32,
    /// Records of all fragments at most; at least a page of them.
    pub fragment_records: u32,
    /// Buffers at most; others are not divided.
    pub buffers_max: u32,
    /// Cost of a page write, in page reads.
    pub write_cost: u32,
}

impl LaConfig {
    /// K = 2, buffers of up to 64 pages, fragments of 1,024 records in all.
    pub const fn new(record: RecordFormat) -> LaConfig {
        LaConfig {
            common: Common::new(record),
            subtree_levels: 2,
            buffer_pages: 64,
            fragment_records: 1_024,
            buffers_max: 1_024,
            write_cost: 3,
        }
    }

    /// This configuration with buffers that take at most so many bytes of RAM, on pages of this size: half to
    /// sort a chain, a quarter each for fragments and for what is known of buffers.
    #[must_use]
    pub fn with_buffers_in(mut self, bytes: usize, page_bytes: usize) -> LaConfig {
        let shape = Shape::of(self.common.record);
        self.buffer_pages = (bytes / 2 / (2 * page_bytes)).clamp(1, 64) as u32;
        self.fragment_records = (bytes / 4 / (2 * shape.bytes())).clamp(1, 1 << 20) as u32;
        self.buffers_max = (bytes / 4 / (2 * Buffer::ram_bytes(shape.key))).clamp(4, 1 << 16) as u32;
        self
    }

    pub(super) fn layout(&self, page_bytes: usize) -> Result<Layout, IndexError> {
        let mut layout = Layout::new(Shape::of(self.common.record), page_bytes, 1, None)?;
        // Nothing waits in nodes.
        layout.inner_records = 0;
        Ok(layout)
    }

    /// Records of all fragments at most, on a store: no more than a 16th of its pages, and a page.
    pub(super) fn fragments(&self, pages: StorePages) -> usize {
        let page = Buffer::page_records(Shape::of(self.common.record), pages.bytes);
        (self.fragment_records as usize).clamp(page, page.max(page * pages.count as usize / 16))
    }
}
