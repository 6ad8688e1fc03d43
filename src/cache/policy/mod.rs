//! Trait of replacement policies: the questions that a cache asks, and the events that it reports.
//!
//! The cache keeps pages, frames and dirty marks. The policy keeps the frames in use in an order. It chooses
//! a victim but does not remove it: the cache may have to write the victim first, and that may fail. [`lru`]
//! is the policy of this crate; those of the literature are in `nandex-papers`.

pub mod lru;

pub use lru::Lru;

use crate::units::Lpn;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Read or write of a page through the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Page read or written.
    pub lpn: Lpn,
    /// True for a write.
    pub write: bool,
    /// True if the frame is dirty now. A page written through is clean.
    pub dirty: bool,
}

/// Why a page left its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The page made room for another, and may be asked for again.
    Evicted,
    /// The page was trimmed.
    Trimmed,
}

/// Policy that chooses the next frame to be emptied.
pub trait Replacement: crate::shared::MaybeSend {
    /// Name in configurations and results, in kebab case.
    fn name(&self) -> &'static str;

    /// Notes that the page in this frame was read or written.
    fn touch(&mut self, frame: u32, access: Access);

    /// Notes that a page came into this frame, because it was read or written. Room was made before.
    fn admit(&mut self, frame: u32, access: Access);

    /// Notes that the page in this frame was written to the store and is clean now.
    fn cleaned(&mut self, frame: u32);

    /// Notes that the page in this frame is gone.
    fn remove(&mut self, frame: u32, exit: Exit);

    /// Chooses the frame whose page should leave. `None` if no frame holds a page. The page stays until it is
    /// removed, and asking again may give another frame.
    fn victim(&mut self) -> Option<u32>;

    /// Appends the frames whose pages leave together with the victim, in any order.
    fn companions(&self, victim: u32, frames: &mut Vec<u32>) {
        let _ = (victim, frames);
    }

    /// True if pages that are read from the store come into the cache. A write buffer has no use for them.
    fn admits_reads(&self) -> bool {
        true
    }

    /// Number of pages of a block that is written whole when one of its pages must be written to make room.
    /// `None` writes only dirty pages. If dirty pages leave as one atomic group, nothing is padded.
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
