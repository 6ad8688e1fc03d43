//! How an LA-tree is set up.

use super::buffer::Buffer;
use crate::ordered::messages::ground::{Common, Layout, Shape, StorePages};
use nandex::check::IndexError;
use nandex::ordered::RecordFormat;

/// The settings of an LA-tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaConfig {
    /// The sizes of records, the durability class, and the exactness of answers.
    pub common: Common,
    /// K: number of levels of a subtree.
    pub subtree_levels: u32,
    /// Largest number of pages of a buffer.
    pub buffer_pages: u32,
    /// Largest number of records in all fragments together. At least a page of records.
    pub fragment_records: u32,
    /// Largest number of buffers. Beyond it buffers are not divided.
    pub buffers_max: u32,
    /// Cost of a page write, in page reads.
    pub write_cost: u32,
}

impl LaConfig {
    /// Settings with K = 2, buffers of up to 64 pages, and 1,024 records in all fragments.
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

    /// These settings with buffers that take at most `bytes` bytes of RAM, on pages of this size: half to
    /// sort a chain, a quarter for fragments, and a quarter for the facts about buffers.
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

    /// Largest number of records in all fragments on a store: at most a 16th of its pages, at least one
    /// page.
    pub(super) fn fragments(&self, pages: StorePages) -> usize {
        let page = Buffer::page_records(Shape::of(self.common.record), pages.bytes);
        (self.fragment_records as usize).clamp(page, page.max(page * pages.count as usize / 16))
    }
}
