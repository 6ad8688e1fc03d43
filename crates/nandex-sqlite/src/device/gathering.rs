//! Single writes gathered into groups, where each group waits for the medium.

use nandex::ftl::page_map::PageMapFtl;
use nandex::store::StoreStats;
use nandex::{Cause, Lpn, Nand, PageStore, Ppn, StoreError};
use std::collections::BTreeMap;

/// A store that keeps single writes and trims in RAM until they make a group, or something must not come
/// before them.
///
/// A cut finds a prefix of the writes: a group is whole or absent, and groups and syncs wait for those that
/// came before. A group that is gathered waits for the medium once; whatever comes next waits for what it
/// leaves. Trims follow the group of the writes around them: a cut may undo each until a sync. Where a group
/// is refused, its pages and trims stay in RAM, and so is the next one.
pub(super) struct Gathering<N> {
    store: PageMapFtl<N>,
    /// The contents of a page, or that it is trimmed.
    waiting: BTreeMap<u32, Option<Vec<u8>>>,
}

/// Bytes of a page that waits beside its contents.
const ENTRY_BYTES: usize = 64;

impl<N: Nand> Gathering<N> {
    pub(super) fn new(store: PageMapFtl<N>) -> Gathering<N> {
        Gathering { store, waiting: BTreeMap::new() }
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let pages: Vec<(Lpn, &[u8])> = self
            .waiting
            .iter()
            .filter_map(|(&lpn, data)| data.as_ref().map(|data| (Lpn(lpn), data.as_slice())))
            .collect();
        self.store.write_ahead(&pages, Cause::Host)?;
        self.waiting.retain(|_, data| data.is_none());
        while let Some(entry) = self.waiting.first_entry() {
            self.store.trim(Lpn(*entry.key()))?;
            entry.remove();
        }
        Ok(())
    }

    /// Adds a page to those that wait, after a flush where they are a group.
    fn wait(&mut self, lpn: Lpn, data: Option<Vec<u8>>) -> Result<(), StoreError> {
        if self.waiting.len() >= self.store.pages_ahead() {
            self.flush()?;
        }
        self.waiting.insert(lpn.0, data);
        Ok(())
    }
}

impl<N: Nand> PageStore for Gathering<N> {
    fn page_bytes(&self) -> usize {
        self.store.page_bytes()
    }

    fn page_count(&self) -> u32 {
        self.store.page_count()
    }

    fn read(&mut self, lpn: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        match self.waiting.get(&lpn.0) {
            Some(Some(page)) if page.len() == data.len() => {
                data.copy_from_slice(page);
                Ok(())
            }
            Some(None) if data.len() == self.page_bytes() => {
                data.fill(0);
                Ok(())
            }
            _ => self.store.read(lpn, cause, data),
        }
    }

    fn write(&mut self, lpn: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreError> {
        if lpn.0 >= self.page_count() || data.len() != self.page_bytes() {
            // It has words for that.
            return self.store.write(lpn, cause, data);
        }
        self.wait(lpn, Some(data.to_vec()))
    }

    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        if lpn.0 >= self.page_count() { self.store.trim(lpn) } else { self.wait(lpn, None) }
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.flush()?;
        self.store.sync()
    }

    fn checkpoint(&mut self) -> Result<(), StoreError> {
        self.flush()?;
        self.store.checkpoint()
    }

    fn atomic_pages_max(&self) -> usize {
        self.store.atomic_pages_max()
    }

    fn write_atomic(&mut self, pages: &[(Lpn, &[u8])], cause: Cause) -> Result<(), StoreError> {
        self.flush()?;
        self.store.write_atomic(pages, cause)
    }

    fn durable_writes(&self) -> bool {
        false
    }

    fn prefix_consistent(&self) -> bool {
        self.store.prefix_consistent()
    }

    fn maintain(&mut self, budget: u32) -> Result<u32, StoreError> {
        self.store.maintain(budget)
    }

    fn scrub(&mut self, budget: u32) -> Result<u32, StoreError> {
        self.store.scrub(budget)
    }

    fn ram_bytes(&self) -> usize {
        let page_bytes = self.store.page_bytes() + ENTRY_BYTES;
        self.store.ram_bytes() + self.store.atomic_pages_max() * page_bytes
    }

    fn mount_ram_bytes(&self) -> usize {
        self.store.mount_ram_bytes()
    }

    fn stats(&self) -> StoreStats {
        self.store.stats()
    }

    fn live_page(&self, ppn: Ppn) -> Option<bool> {
        self.store.live_page(ppn)
    }
}
