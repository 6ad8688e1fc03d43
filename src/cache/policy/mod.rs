//! The trait of replacement policies: the questions a cache asks, and the events it tells.
//!
//! The cache keeps pages, frames and dirtiness; the policy keeps an order over the frames that hold a page.
//! It chooses a victim and does not remove it: the cache may have to write it first, and that may fail.
//! [`lru`] is the policy of this crate; those of the literature are in `nandex-papers`.

pub mod lru;

pub use lru::Lru;

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
