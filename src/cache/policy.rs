//! What a replacement policy is asked and told.
//!
//! The cache keeps pages, frames and dirtiness; the policy keeps an order over the frames that hold a page. It chooses a
//! victim and does not remove it: the cache may have to write it first, and that may fail.

use crate::units::Lpn;
use alloc::boxed::Box;

/// Chooses the frame whose page leaves next.
pub trait Replacement {
    /// The name used in settings and results, in snake case.
    fn name(&self) -> &'static str;

    /// A page in this frame was read or written. When it was written, the frame is dirty by now unless the cache
    /// writes through.
    fn touch(&mut self, frame: u32, write: bool);

    /// A page came into this frame, to be read or because it was written.
    fn admit(&mut self, frame: u32, lpn: Lpn, write: bool);

    /// The page in this frame was written to the store and is clean now.
    fn cleaned(&mut self, frame: u32);

    /// The page in this frame is gone: evicted or trimmed.
    fn remove(&mut self, frame: u32);

    /// The frame whose page should leave; none when no frame holds a page.
    fn victim(&mut self) -> Option<u32>;

    /// Bytes of RAM held.
    fn ram_bytes(&self) -> usize;
}

impl<P: Replacement + ?Sized> Replacement for Box<P> {
    fn name(&self) -> &'static str {
        (**self).name()
    }
    fn touch(&mut self, frame: u32, write: bool) {
        (**self).touch(frame, write);
    }
    fn admit(&mut self, frame: u32, lpn: Lpn, write: bool) {
        (**self).admit(frame, lpn, write);
    }
    fn cleaned(&mut self, frame: u32) {
        (**self).cleaned(frame);
    }
    fn remove(&mut self, frame: u32) {
        (**self).remove(frame);
    }
    fn victim(&mut self) -> Option<u32> {
        (**self).victim()
    }
    fn ram_bytes(&self) -> usize {
        (**self).ram_bytes()
    }
}
