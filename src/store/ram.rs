//! Pages in memory: the ideal device, which never fails, forgets or wears out, and the double for tests.
//!
//! A page takes memory once it is written. Every write is durable when it returns, and a group of any size is
//! atomic unless [`RamStore::with_atomic_pages`] sets a limit. Accesses are counted by cause, as on a chip.

use crate::check::message;
use crate::nand::{ByCause, Cause};
use crate::store::{PageStore, StoreError};
use crate::units::Lpn;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Number of accesses by cause, in the order of [`Cause::COUNTED`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive, doc(hidden))]
pub struct RamCounters {
    /// Pages read, by cause.
    pub page_reads: ByCause,
    /// Pages written, by cause.
    pub page_writes: ByCause,
    /// Pages trimmed.
    pub trims: u64,
    /// Calls of sync.
    pub syncs: u64,
    /// Batches submitted.
    pub batches: u64,
}

/// A store in memory.
///
/// ```
/// use nandex::store::{PageStore, ram::RamStore};
/// use nandex::{Cause, Lpn};
///
/// let mut store = RamStore::new(512, 10).with_atomic_pages(2);
/// store.write_atomic(&[(Lpn(0), &[1; 512]), (Lpn(1), &[2; 512])], Cause::Host)?;
/// assert_eq!(store.atomic_pages_max(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RamStore {
    page_bytes: usize,
    pages: Vec<Option<Box<[u8]>>>,
    atomic_pages: usize,
    counters: RamCounters,
}

impl RamStore {
    /// Returns a store of `page_count` pages of zeros.
    pub fn new(page_bytes: usize, page_count: u32) -> RamStore {
        RamStore {
            page_bytes,
            pages: vec![None; page_count as usize],
            atomic_pages: page_count.max(1) as usize,
            counters: RamCounters::default(),
        }
    }

    /// Returns this store with atomic groups of at most `pages` pages. 1: no groups.
    pub fn with_atomic_pages(mut self, pages: usize) -> RamStore {
        assert!(pages > 0, "a single page is always written whole");
        self.atomic_pages = pages;
        self
    }

    /// Accesses so far.
    pub fn counters(&self) -> RamCounters {
        self.counters
    }

    fn place(&mut self, lpn: Lpn) -> Result<&mut Option<Box<[u8]>>, StoreError> {
        self.pages.get_mut(lpn.index()).ok_or(StoreError::OutOfRange(lpn))
    }

    fn require_page(&self, got: usize) -> Result<(), StoreError> {
        let expected = self.page_bytes;
        if got == expected { Ok(()) } else { Err(StoreError::WrongLength { expected, got }) }
    }
}

fn count(row: &mut ByCause, cause: Cause) {
    if let Some(n) = row.get_mut(cause as usize) {
        *n += 1;
    }
}

impl PageStore for RamStore {
    fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    fn page_count(&self) -> u32 {
        self.pages.len() as u32
    }

    fn read(&mut self, lpn: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        self.require_page(data.len())?;
        match self.place(lpn)? {
            Some(page) => data.copy_from_slice(page),
            None => data.fill(0),
        }
        count(&mut self.counters.page_reads, cause);
        Ok(())
    }

    fn write(&mut self, lpn: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreError> {
        self.require_page(data.len())?;
        match self.place(lpn)? {
            Some(page) => page.copy_from_slice(data),
            empty => *empty = Some(data.into()),
        }
        count(&mut self.counters.page_writes, cause);
        Ok(())
    }

    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        *self.place(lpn)? = None;
        self.counters.trims += 1;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.counters.syncs += 1;
        Ok(())
    }

    fn atomic_pages_max(&self) -> usize {
        self.atomic_pages
    }

    fn write_atomic(&mut self, pages: &[(Lpn, &[u8])], cause: Cause) -> Result<(), StoreError> {
        if pages.len() > self.atomic_pages {
            let what = message!("{} pages at once, this store takes {}", pages.len(), self.atomic_pages);
            return Err(StoreError::Unsupported(what.into()));
        }
        for (lpn, data) in pages {
            self.require_page(data.len())?;
            self.place(*lpn)?;
        }
        pages.iter().try_for_each(|(lpn, data)| self.write(*lpn, cause, data))
    }

    fn begin_batch(&mut self) {
        self.counters.batches += 1;
    }

    fn durable_writes(&self) -> bool {
        true
    }

    fn prefix_consistent(&self) -> bool {
        true
    }

    fn ram_bytes(&self) -> usize {
        let written = self.pages.iter().flatten().count();
        size_of::<Self>() + self.pages.len() * size_of::<Option<Box<[u8]>>>() + written * self.page_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_what_was_written_and_refuses_the_rest() {
        let mut store = RamStore::new(4, 3);
        let mut data = [1; 4];
        store.read(Lpn(2), Cause::Host, &mut data).unwrap();
        assert_eq!(data, [0; 4]);
        store.write_atomic(&[(Lpn(0), &[5; 4]), (Lpn(2), &[6; 4])], Cause::Host).unwrap();
        store.read(Lpn(2), Cause::Check, &mut data).unwrap();
        assert_eq!((data, store.counters().page_reads[0]), ([6; 4], 1));
        store.trim(Lpn(2)).unwrap();
        store.read(Lpn(2), Cause::Host, &mut data).unwrap();
        assert_eq!(data, [0; 4]);
        let beyond = store.write_atomic(&[(Lpn(0), &[7; 4]), (Lpn(3), &[7; 4])], Cause::Host);
        assert_eq!(beyond, Err(StoreError::OutOfRange(Lpn(3))));
        store.read(Lpn(0), Cause::Host, &mut data).unwrap();
        assert_eq!(data, [5; 4], "all or none");
        assert!(store.write(Lpn(0), Cause::Host, &[0; 3]).is_err());
    }
}
