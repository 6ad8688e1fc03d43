//! Logical pages that were trimmed since the last record, up to a limit.

use crate::nand::Geometry;
use alloc::vec::Vec;

/// Smallest limit, on the smallest pages.
const ROOM_MIN: usize = 32;

/// Trims that wait for a record, in ascending order.
#[derive(Debug)]
pub(super) struct Trims {
    lpns: Vec<u32>,
    room: usize,
    /// True if some trims found no room here: then only a base records them.
    is_short: bool,
}

impl Trims {
    /// Makes a list with room for trims of an eighth of a page's bytes. The RAM is taken with the first trim,
    /// since a mount needs none.
    pub(super) fn for_pages_of(geometry: Geometry) -> Trims {
        let room = (geometry.page_bytes as usize / 8 / size_of::<u32>()).max(ROOM_MIN);
        Trims { lpns: Vec::new(), room, is_short: false }
    }

    /// Adds a trim. False if there is no room for it: then the next record must be a base.
    #[must_use]
    pub(super) fn insert(&mut self, lpn: u32) -> bool {
        let Err(at) = self.lpns.binary_search(&lpn) else { return true };
        if self.is_full() {
            self.is_short = true;
            return false;
        }
        if self.lpns.is_empty() {
            self.lpns.reserve_exact(self.room);
        }
        self.lpns.insert(at, lpn);
        true
    }

    pub(super) fn remove(&mut self, lpn: u32) {
        if let Ok(at) = self.lpns.binary_search(&lpn) {
            self.lpns.remove(at);
        }
    }

    /// Empties the list, after a record with all trims.
    pub(super) fn clear(&mut self) {
        self.lpns.clear();
        self.is_short = false;
    }

    /// True if no trim waits for a record.
    pub(super) fn is_empty(&self) -> bool {
        self.lpns.is_empty() && !self.is_short
    }

    pub(super) fn is_full(&self) -> bool {
        self.lpns.len() >= self.room
    }

    pub(super) fn len(&self) -> usize {
        self.lpns.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.lpns.iter().copied()
    }

    /// Upper bound of the bytes of RAM.
    pub(super) fn ram_bytes(&self) -> usize {
        self.room * size_of::<u32>()
    }
}
