//! Replacement policies of the literature for [`PageCache`](nandex::cache::PageCache).
//!
//! [`catalogue`] has every policy by name, LRU among them.

mod acr;
mod ad_lru;
mod blocks;
mod bplru;
pub mod catalogue;
mod ccf_lru;
mod cfdc;
mod cflru;
mod clock;
mod dabc_nv;
mod fab;
mod fd_buffer;
mod fifo;
mod ghosts;
mod lists;
mod lru_wsr;
mod lsf;
mod recently_evicted;
mod s3_fifo;
#[cfg(test)]
mod tests;
mod two_q;
mod use_queues;

pub use acr::Acr;
pub use ad_lru::AdLru;
pub use bplru::Bplru;
pub use ccf_lru::CcfLru;
pub use cfdc::Cfdc;
pub use cflru::Cflru;
pub use clock::Clock;
pub use dabc_nv::DabcNv;
pub use fab::Fab;
pub use fd_buffer::FdBuffer;
pub use fifo::Fifo;
pub use lru_wsr::LruWsr;
pub use lsf::Lsf;
pub use recently_evicted::RecentlyEvicted;
pub use s3_fifo::S3Fifo;
pub use two_q::TwoQ;

use nandex::cache::policy::{Access, Exit, Replacement};

/// Facts about the cache, the chip and the user's wishes that a policy may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyConfig {
    /// Frames of the cache.
    pub frames: usize,
    /// Pages of an erase block, for the policies that evict whole blocks.
    pub block_pages: u32,
    /// Pages of a cluster, for CFDC.
    pub cluster_pages: u32,
    /// Cost of reading a page, in any unit; more than 0.
    pub read_cost: u64,
    /// Cost of writing a page, in the unit of `read_cost`.
    pub write_cost: u64,
    /// Percentage of the frames in the region from which clean pages leave first. `None` means the policy's
    /// default.
    pub window_percent: Option<u32>,
    /// The faster of two media, if the device has two (DABC-NV).
    pub fast_medium: Option<FastMedium>,
}

/// The fast medium, such as the SLC part, of a hybrid device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastMedium {
    /// Size of the medium: it holds the logical pages below this number.
    pub pages: u32,
    /// Cost of reading a page of the medium, in the unit of [`PolicyConfig::read_cost`].
    pub read_cost: u64,
    /// Cost of writing a page of the medium, in the same unit.
    pub write_cost: u64,
}

impl PolicyConfig {
    /// Settings for `frames` frames: blocks of 64 pages, clusters of 16 pages, a write that costs ten
    /// reads, one medium.
    pub fn new(frames: usize) -> PolicyConfig {
        PolicyConfig {
            frames,
            block_pages: 64,
            cluster_pages: 16,
            read_cost: 1,
            write_cost: 10,
            window_percent: None,
            fast_medium: None,
        }
    }

    /// Frames of the clean-first region: the percentage in the settings, or else the default, of all
    /// frames.
    fn window_frames(&self, default_percent: u32) -> usize {
        let percent = self.window_percent.unwrap_or(default_percent).min(100);
        self.frames * percent as usize / 100
    }
}
