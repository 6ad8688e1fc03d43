//! The trait of replacement policies: the questions a cache asks, the events it tells; and the policies.
//!
//! The cache keeps pages, frames and dirtiness; the policy keeps an order over the frames that hold a page.
//! It chooses a victim and does not remove it: the cache may have to write it first, and that may fail.
//! [`catalogue`] has every policy by name.

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
pub mod lru;
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
pub use lru::Lru;
pub use lru_wsr::LruWsr;
pub use lsf::Lsf;
pub use recently_evicted::RecentlyEvicted;
pub use s3_fifo::S3Fifo;
pub use two_q::TwoQ;

use crate::units::Lpn;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A page was read or written through the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The page.
    pub lpn: Lpn,
    /// Whether it was written.
    pub write: bool,
    /// Whether its frame is dirty now. A page written through is clean.
    pub dirty: bool,
}

/// Why a page left its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// To make room: it may be asked for again.
    Evicted,
    /// The page was trimmed.
    Trimmed,
}

/// Chooses the frame whose page leaves next.
pub trait Replacement: crate::shared::MaybeSend {
    /// The name used in settings and results, in kebab case.
    fn name(&self) -> &'static str;

    /// The page in this frame was read or written.
    fn touch(&mut self, frame: u32, access: Access);

    /// A page came into this frame, to be read or because it was written. Room was made before.
    fn admit(&mut self, frame: u32, access: Access);

    /// The page in this frame was written to the store and is clean now.
    fn cleaned(&mut self, frame: u32);

    /// The page in this frame is gone.
    fn remove(&mut self, frame: u32, exit: Exit);

    /// The frame whose page should leave; none when no frame holds a page. It stays until it is removed, and
    /// asking again without anything in between may give another.
    fn victim(&mut self) -> Option<u32>;

    /// Appends the frames whose pages leave together with that of the victim, in any order.
    fn companions(&self, victim: u32, frames: &mut Vec<u32>) {
        let _ = (victim, frames);
    }

    /// Whether pages that are read and not in the cache come into it. A write buffer has no use for them.
    fn admits_reads(&self) -> bool {
        true
    }

    /// Pages of a block that is written whole when one of its pages must be written to make room; none to
    /// write what is dirty only. Where dirty pages leave as one atomic group, nothing is padded.
    fn padded_pages(&self) -> Option<u32> {
        None
    }

    /// Bytes of RAM held.
    fn ram_bytes(&self) -> usize;
}

impl<P: Replacement + ?Sized> Replacement for Box<P> {
    fn name(&self) -> &'static str {
        (**self).name()
    }
    fn touch(&mut self, frame: u32, access: Access) {
        (**self).touch(frame, access);
    }
    fn admit(&mut self, frame: u32, access: Access) {
        (**self).admit(frame, access);
    }
    fn cleaned(&mut self, frame: u32) {
        (**self).cleaned(frame);
    }
    fn remove(&mut self, frame: u32, exit: Exit) {
        (**self).remove(frame, exit);
    }
    fn victim(&mut self) -> Option<u32> {
        (**self).victim()
    }
    fn companions(&self, victim: u32, frames: &mut Vec<u32>) {
        (**self).companions(victim, frames);
    }
    fn admits_reads(&self) -> bool {
        (**self).admits_reads()
    }
    fn padded_pages(&self) -> Option<u32> {
        (**self).padded_pages()
    }
    fn ram_bytes(&self) -> usize {
        (**self).ram_bytes()
    }
}

/// The settings that a policy may be told about the cache, the chip and the wishes of its user. Each takes
/// what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicySettings {
    /// Frames of the cache.
    pub frames: usize,
    /// Pages of an erase block, for those that think in blocks.
    pub block_pages: u32,
    /// Pages of a cluster (CFDC).
    pub cluster_pages: u32,
    /// The cost of a page read, in any unit; more than 0.
    pub read_cost: u64,
    /// The cost of a page written, in the same unit.
    pub write_cost: u64,
    /// Percent of the frames in the region from which clean pages go first; the policy's default if none is
    /// named.
    pub window_percent: Option<u32>,
    /// The faster of two media, where there are two (DABC-NV).
    pub fast_medium: Option<FastMedium>,
}

/// The SLC part of a hybrid device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastMedium {
    /// The medium holds the logical pages below this one.
    pub pages: u32,
    /// The cost of reading a page from the medium, in the same unit as [`PolicySettings::read_cost`].
    pub read_cost: u64,
    /// The cost of writing a page to the medium, in the same unit.
    pub write_cost: u64,
}

impl PolicySettings {
    /// Blocks of 64 pages, clusters of 16, a write ten times as dear as a read, one medium.
    pub fn new(frames: usize) -> PolicySettings {
        PolicySettings {
            frames,
            block_pages: 64,
            cluster_pages: 16,
            read_cost: 1,
            write_cost: 10,
            window_percent: None,
            fast_medium: None,
        }
    }

    /// Frames of the clean-first region: so many percent of all, or the share named.
    fn window_frames(&self, default_percent: u32) -> usize {
        let percent = self.window_percent.unwrap_or(default_percent).min(100);
        self.frames * percent as usize / 100
    }
}
