//! A store that finishes each batch that it began, for trees that promise nothing after a power cut.
//!
//! A B+-tree that splits a node writes three pages. A store may take them one at a time or two at a time. If
//! its last spare block fails after the first page, the split would stay half done. Here, if pages of a
//! [batch](crate::store::batch) are refused after others of the batch were taken, the refused pages wait in
//! RAM. Reads find them there, and the operation is done. Before anything else is written, the pages that
//! wait are written again. If this is refused, the new write was not begun.
//!
//! A power cut loses the pages that wait. So this is for the durability class *none* alone. The other classes
//! need atomic groups of pages ([`PageStore::write_atomic`]) or a journal.
//!
//! ```
//! use nandex::store::finishing::Finishing;
//! use nandex::store::ram::RamStore;
//! use nandex::store::{PageStore, batch};
//! use nandex::{Cause, Lpn};
//!
//! let mut store = Finishing::new(RamStore::new(512, 64));
//! batch(&mut store, |store| {
//!     store.write(Lpn(1), Cause::Host, &[1; 512])?; // taken: the other one is written or waits
//!     store.write(Lpn(2), Cause::Host, &[2; 512])
//! })?;
//! # Ok::<(), nandex::store::StoreError>(())
//! ```

use crate::nand::Cause;
use crate::store::batches::Batch;
use crate::store::{PageStore, StoreError};
use crate::units::Lpn;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A store that finishes each batch begun.
#[derive(Debug)]
pub struct Finishing<S> {
    store: S,
    batch: Batch,
    /// Pages that the store below refused.
    waiting: BTreeMap<Lpn, Vec<u8>>,
}

impl<S: PageStore> Finishing<S> {
    /// Puts this layer over `store`.
    pub const fn new(store: S) -> Finishing<S> {
        Finishing { store, batch: Batch::new(), waiting: BTreeMap::new() }
    }

    /// Number of pages that the store below refused and that wait in RAM.
    pub fn waiting_pages(&self) -> usize {
        self.waiting.len()
    }

    /// Writes the pages that wait to the store below, until one is refused.
    fn offer(&mut self) -> Result<(), StoreError> {
        while let Some((lpn, data)) = self.waiting.first_key_value() {
            self.store.write(*lpn, Cause::Host, data)?;
            self.waiting.pop_first();
        }
        Ok(())
    }

    fn write_all(
        &mut self,
        pages: &[(Lpn, &[u8])],
        write: impl FnOnce(&mut S) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let written = match self.waiting.is_empty() {
            true => write(&mut self.store),
            false => self.offer().and_then(|()| write(&mut self.store)),
        };
        match written {
            Err(error) if self.batch.must_finish() && error.is_refusal() => {
                self.waiting.extend(pages.iter().map(|(lpn, data)| (*lpn, data.to_vec())));
            }
            written => written?,
        }
        self.batch.took();
        Ok(())
    }
}

impl<S: PageStore> PageStore for Finishing<S> {
    crate::forward_store!(self => self.store;
        page_bytes page_count atomic_pages_max durable_writes prefix_consistent maintain scrub stats
        live_page);

    fn read(&mut self, lpn: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        match self.waiting.get(&lpn) {
            Some(waiting) if waiting.len() == data.len() => data.copy_from_slice(waiting),
            _ => self.store.read(lpn, cause, data)?,
        }
        Ok(())
    }

    fn write(&mut self, lpn: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreError> {
        self.write_all(&[(lpn, data)], |store| store.write(lpn, cause, data))
    }

    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        self.waiting.remove(&lpn);
        self.store.trim(lpn)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.offer()?;
        self.store.sync()
    }

    fn checkpoint(&mut self) -> Result<(), StoreError> {
        self.offer()?;
        self.store.checkpoint()
    }

    fn write_atomic(&mut self, pages: &[(Lpn, &[u8])], cause: Cause) -> Result<(), StoreError> {
        self.write_all(pages, |store| store.write_atomic(pages, cause))
    }

    fn begin_batch(&mut self) {
        self.batch.begin();
        self.store.begin_batch();
    }

    fn end_batch(&mut self) {
        self.batch.end();
        self.store.end_batch();
    }

    /// RAM without waiting pages: there are none until the chip refuses to go on.
    fn ram_bytes(&self) -> usize {
        self.store.ram_bytes() + size_of::<Self>() - size_of::<S>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::batch;
    use crate::store::ram::RamStore;
    use alloc::vec;

    /// A store that takes a limited number of further pages.
    struct Tired {
        below: RamStore,
        left: u32,
    }

    impl PageStore for Tired {
        fn page_bytes(&self) -> usize {
            self.below.page_bytes()
        }

        fn page_count(&self) -> u32 {
            self.below.page_count()
        }

        fn read(&mut self, lpn: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreError> {
            self.below.read(lpn, cause, data)
        }

        fn write(&mut self, lpn: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreError> {
            self.left = self.left.checked_sub(1).ok_or(StoreError::WornOut)?;
            self.below.write(lpn, cause, data)
        }

        fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError> {
            self.below.trim(lpn)
        }

        fn sync(&mut self) -> Result<(), StoreError> {
            self.below.sync()
        }

        fn durable_writes(&self) -> bool {
            true
        }

        fn prefix_consistent(&self) -> bool {
            true
        }

        fn ram_bytes(&self) -> usize {
            0
        }
    }

    fn write(store: &mut Finishing<Tired>, pages: &[u32], byte: u8) -> Result<(), StoreError> {
        batch(store, |store| {
            pages.iter().try_for_each(|lpn| store.write(Lpn(*lpn), Cause::Host, &[byte; 512]))
        })
    }

    fn read(store: &mut Finishing<Tired>, lpn: u32) -> u8 {
        let mut page = vec![0; 512];
        store.read(Lpn(lpn), Cause::Host, &mut page).unwrap();
        assert!(page.iter().all(|byte| *byte == page[0]));
        page[0]
    }

    #[test]
    fn a_batch_is_done_whole_or_not_begun() {
        let below = Tired { below: RamStore::new(512, 8), left: 4 };
        let mut store = Finishing::new(below);
        write(&mut store, &[1, 2, 3], 1).unwrap();
        // One page is taken, the others wait and are read.
        write(&mut store, &[1, 2, 3], 2).unwrap();
        assert_eq!((store.waiting_pages(), [1, 2, 3].map(|lpn| read(&mut store, lpn))), (2, [2; 3]));
        // Nothing else is begun, and nothing is said to last.
        assert_eq!(write(&mut store, &[4, 1], 3), Err(StoreError::WornOut));
        assert_eq!(store.sync(), Err(StoreError::WornOut));
        assert_eq!(([1, 2, 3, 4].map(|lpn| read(&mut store, lpn))), [2, 2, 2, 0]);
        // Pages that were trimmed need not be written any more.
        store.trim(Lpn(3)).unwrap();
        store.store.left = 9;
        write(&mut store, &[4, 1], 3).unwrap();
        assert_eq!((store.waiting_pages(), store.sync()), (0, Ok(())));
        assert_eq!([1, 2, 3, 4].map(|lpn| read(&mut store, lpn)), [3, 2, 0, 3]);
    }
}
