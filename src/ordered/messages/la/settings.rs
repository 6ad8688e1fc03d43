//! How an LA-tree is set up.

use super::buffer::Buffer;
use crate::check::IndexError;
use crate::ordered::messages::ground::{Common, Layout, Shape, number_option};
use crate::ordered::{RecordFormat, Settings};

/// Options: name and meaning.
pub const OPTIONS: [(&str, &str); 5] = [
    ("subtree_levels", "K: levels of a subtree, 1 to 8 (default 2)"),
    (
        "buffer_pages",
        "pages of a buffer at most, 1 to 1024 (default 64, or what half its share of the RAM can sort)",
    ),
    (
        "buffer_percent",
        "share of the RAM for buffers and page cache that the buffers get, 1 to 99 (default 50)",
    ),
    ("write_cost", "for ADAPT: what a page write costs in page reads (default 3)"),
    ("answers", "exact (default), or pool: an update answers what the newest records in RAM know"),
];

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
    /// What a page write costs in page reads.
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

    /// From settings, with the [`OPTIONS`], on pages of this size; `shared_bytes` is the RAM for buffers and page cache, if it is
    /// limited.
    pub fn from_settings(
        settings: &Settings,
        page_bytes: usize,
        shared_bytes: usize,
    ) -> Result<LaConfig, IndexError> {
        let percent = number_option(settings, "buffer_percent", (1, 99))?.unwrap_or(50) as usize;
        let mut config = LaConfig::new(settings.record);
        if settings.ram_bytes.is_some() {
            // Half to sort a chain, a quarter each for fragments and for what is known of buffers.
            let (share, shape) = (shared_bytes / 100 * percent, Shape::of(settings.record));
            config.buffer_pages = (share / 2 / (2 * page_bytes)).clamp(1, 64) as u32;
            config.fragment_records = (share / 4 / (2 * shape.bytes())).clamp(1, 1 << 20) as u32;
            config.buffers_max = (share / 4 / (2 * Buffer::ram_bytes(shape.key))).clamp(4, 1 << 16) as u32;
        }
        Ok(LaConfig {
            common: Common::from_settings(settings)?,
            subtree_levels: number_option(settings, "subtree_levels", (1, 8))?.unwrap_or(2),
            buffer_pages: number_option(settings, "buffer_pages", (1, 1024))?.unwrap_or(config.buffer_pages),
            write_cost: number_option(settings, "write_cost", (0, 10_000))?.unwrap_or(3),
            ..config
        })
    }

    pub(super) fn layout(&self, page_bytes: usize) -> Result<Layout, IndexError> {
        let mut layout = Layout::new(Shape::of(self.common.record), page_bytes, 1, None)?;
        // Nothing waits in nodes.
        layout.inner_records = 0;
        Ok(layout)
    }

    /// Records of all fragments at most, on a store: no more than a 16th of its pages, and a page.
    pub(super) fn fragments(&self, (page_bytes, pages): (usize, u32)) -> usize {
        let page = Buffer::page_records(Shape::of(self.common.record), page_bytes);
        (self.fragment_records as usize).clamp(page, page.max(page * pages as usize / 16))
    }
}
