//! The order of programs: the version that the next page takes, and those that are void.

use super::page::{BufferTag, Content};
use nandex::codec::{first_number, numbers};
use nandex::units::{Lpn, Ppn};

/// Bits of the number of a page in the order of programs.
const VERSION_BITS: u32 = 40;

/// The newest place in the order of programs, and the bound of what counts in it.
pub(super) struct Versions {
    pub(super) next: u64,
    /// The bound of the record: pages with a lower version are void.
    pub(super) void_below: u64,
    /// The page programmed last.
    last_page: Option<Ppn>,
}

impl Versions {
    pub(super) fn new() -> Versions {
        Versions::since(first_number(VERSION_BITS, 1), 1)
    }

    /// The order as a mount finds it.
    pub(super) const fn since(next: u64, void_below: u64) -> Versions {
        Versions { next, void_below, last_page: None }
    }

    pub(super) fn are_used_up(&self) -> bool {
        self.next >= numbers(VERSION_BITS)
    }

    /// Whether a page was written that is not void.
    pub(super) const fn has_valid(&self) -> bool {
        self.next > self.void_below
    }

    /// The tag of the next page, the first or the last of its group or neither.
    pub(super) const fn tag(
        &self,
        lpn: Lpn,
        content: Content,
        (is_first, is_last): (bool, bool),
    ) -> BufferTag {
        let (version, previous) = (self.next, self.last_page);
        BufferTag { is_first, is_last, content, lpn: lpn.0, version, erases: 0, converted: None, previous }
    }

    /// Notes that the next page was programmed, and where.
    pub(super) const fn programmed(&mut self, ppn: Ppn) {
        self.last_page = Some(ppn);
        self.next += 1;
    }

    /// Makes all pages void, as the record says.
    pub(super) const fn void_all(&mut self) {
        *self = Versions::since(self.next, self.next);
    }
}
