//! Versions of programs: that of the next page, and those that are void.

use super::page::{BufferTag, Content};
use nandex::codec::{first_number, numbers};
use nandex::units::{Lpn, Ppn};

/// Bits of a version, the number of a page in the order of programs.
const VERSION_BITS: u32 = 40;

/// The order of programs: the next version, and the bound below which pages are void.
pub(super) struct Versions {
    pub(super) next: u64,
    /// Version below which pages are void, as in the record.
    pub(super) void_below: u64,
    last_page: Option<Ppn>,
}

impl Versions {
    pub(super) fn new() -> Versions {
        Versions::since(first_number(VERSION_BITS, 1), 1)
    }

    pub(super) const fn since(next: u64, void_below: u64) -> Versions {
        Versions { next, void_below, last_page: None }
    }

    pub(super) fn are_used_up(&self) -> bool {
        self.next >= numbers(VERSION_BITS)
    }

    pub(super) const fn has_valid(&self) -> bool {
        self.next > self.void_below
    }

    /// The tag of the next page. `is_first` and `is_last` give its place in its group.
    pub(super) const fn tag(
        &self,
        lpn: Lpn,
        content: Content,
        (is_first, is_last): (bool, bool),
    ) -> BufferTag {
        let (version, previous) = (self.next, self.last_page);
        BufferTag { is_first, is_last, content, lpn: lpn.0, version, erases: 0, converted: None, previous }
    }

    pub(super) const fn programmed(&mut self, ppn: Ppn) {
        self.last_page = Some(ppn);
        self.next += 1;
    }

    /// Makes all pages void. The record must say so already.
    pub(super) const fn void_all(&mut self) {
        *self = Versions::since(self.next, self.next);
    }
}
