//! Several operations of a tree as one atomic group: from the begin to the commit of a batch the written
//! pages are kept in RAM.
//!
//! The tree reads these pages as if they were written. The commit writes all of them to the store below as
//! one group, of which a mount finds all or nothing. So a batch is as large as a group at most.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use nandex::store::StoreStats;
use nandex::{Cause, Lpn, PageStore, Ppn, StoreError};

/// A store with a place for the pages of a batch.
#[derive(Debug)]
pub(crate) struct Gather<S> {
    store: S,
    is_open: bool,
    /// Pages of the open batch; `None` for a trimmed one.
    pages: BTreeMap<Lpn, Option<Box<[u8]>>>,
}

impl<S: PageStore> Gather<S> {
    /// Over a store, without a batch.
    pub(crate) const fn new(store: S) -> Gather<S> {
        Gather { store, is_open: false, pages: BTreeMap::new() }
    }

    /// Lets pages wait from now on.
    pub(crate) fn begin(&mut self) {
        self.is_open = true;
    }

    pub(crate) fn abandon(&mut self) {
        self.is_open = false;
        self.pages.clear();
    }

    /// Writes the batch as one group. The batch is over even if that fails.
    pub(crate) fn commit(&mut self) -> Result<(), StoreError> {
        self.is_open = false;
        let pages = core::mem::take(&mut self.pages);
        let written: Vec<(Lpn, &[u8])> =
            pages.iter().filter_map(|(lpn, data)| Some((*lpn, &**data.as_ref()?))).collect();
        self.store.write_atomic(&written, Cause::Host)?;
        // After a power cut a trimmed page may be back: the store's promise, whenever it is told.
        let trimmed = pages.iter().filter(|(_, data)| data.is_none());
        trimmed.map(|(lpn, _)| *lpn).try_for_each(|lpn| self.store.trim(lpn))
    }

    /// Adds pages to the batch. Refuses all of them if the batch would exceed a group.
    fn take(&mut self, new: &[(Lpn, &[u8])]) -> Result<(), StoreError> {
        let known = |lpn: &Lpn| matches!(self.pages.get(lpn), Some(Some(_)));
        let waiting = self.pages.values().flatten().count();
        let more = new.iter().filter(|(lpn, _)| !known(lpn)).count();
        if waiting + more > self.store.atomic_pages_max() {
            return Err(StoreError::Full);
        }
        for (lpn, data) in new {
            self.pages.insert(*lpn, Some(Box::from(*data)));
        }
        Ok(())
    }
}

impl<S: PageStore> PageStore for Gather<S> {
    fn page_bytes(&self) -> usize {
        self.store.page_bytes()
    }

    fn page_count(&self) -> u32 {
        self.store.page_count()
    }

    fn read(&mut self, lpn: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        match self.pages.get(&lpn) {
            Some(Some(page)) if page.len() == data.len() => data.copy_from_slice(page),
            Some(None) if data.len() == self.store.page_bytes() => data.fill(0),
            _ => self.store.read(lpn, cause, data)?,
        }
        Ok(())
    }

    fn write(&mut self, lpn: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreError> {
        if self.is_open { self.take(&[(lpn, data)]) } else { self.store.write(lpn, cause, data) }
    }

    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        if !self.is_open {
            return self.store.trim(lpn);
        }
        self.pages.insert(lpn, None);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.store.sync()
    }

    fn checkpoint(&mut self) -> Result<(), StoreError> {
        self.store.checkpoint()
    }

    fn atomic_pages_max(&self) -> usize {
        self.store.atomic_pages_max()
    }

    fn write_atomic(&mut self, pages: &[(Lpn, &[u8])], cause: Cause) -> Result<(), StoreError> {
        if self.is_open { self.take(pages) } else { self.store.write_atomic(pages, cause) }
    }

    fn begin_batch(&mut self) {
        self.store.begin_batch();
    }

    fn end_batch(&mut self) {
        self.store.end_batch();
    }

    fn durable_writes(&self) -> bool {
        self.store.durable_writes()
    }

    fn prefix_consistent(&self) -> bool {
        self.store.prefix_consistent()
    }

    /// Without the pages of a batch: there is one now and then.
    fn ram_bytes(&self) -> usize {
        self.store.ram_bytes() + size_of::<Self>() - size_of::<S>()
    }

    fn stats(&self) -> StoreStats {
        self.store.stats()
    }

    fn live_page(&self, ppn: Ppn) -> Option<bool> {
        self.store.live_page(ppn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex::store::ram::RamStore;

    fn read(store: &mut Gather<RamStore>, lpn: u32) -> u8 {
        let mut page = [9; 512];
        store.read(Lpn(lpn), Cause::Host, &mut page).unwrap();
        page[0]
    }

    #[test]
    fn what_waits_is_read_and_can_be_dropped() {
        let mut store = Gather::new(RamStore::new(512, 16));
        store.write(Lpn(1), Cause::Host, &[1; 512]).unwrap();
        store.begin();
        store.write(Lpn(1), Cause::Host, &[2; 512]).unwrap();
        assert_eq!(read(&mut store, 1), 2);
        store.trim(Lpn(1)).unwrap();
        assert_eq!(read(&mut store, 1), 0);
        store.abandon();
        assert_eq!(read(&mut store, 1), 1);
        store.begin();
        store.write(Lpn(1), Cause::Host, &[3; 512]).unwrap();
        store.commit().unwrap();
        assert!(!store.is_open);
        assert_eq!(read(&mut store, 1), 3);
    }

    #[test]
    fn more_pages_than_a_group_are_refused_and_the_others_stay() {
        let mut store = Gather::new(RamStore::new(512, 4096));
        let most = store.atomic_pages_max();
        store.begin();
        for lpn in 0..most.min(4095) {
            store.write(Lpn(lpn as u32), Cause::Host, &[1; 512]).unwrap();
        }
        if most < 4095 {
            assert_eq!(store.write(Lpn(most as u32), Cause::Host, &[1; 512]), Err(StoreError::Full));
            store.write(Lpn(0), Cause::Host, &[2; 512]).unwrap();
        }
        store.commit().unwrap();
    }
}
