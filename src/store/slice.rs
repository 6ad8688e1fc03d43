//! Slices of a store: runs of its pages, each a [`PageStore`] of its own, for owners that share an FTL and a
//! cache.
//!
//! [`divide`] cuts a store into slices. The slices share the store; the last remaining one can return it
//! ([`Slice::into_whole`]). Work that concerns the whole store is done once. A sync is not repeated if
//! another slice synced and nothing was written since. The first slice writes the checkpoint, and reports RAM
//! and statistics of the whole; the other slices report none.

use crate::check::message;
use crate::nand::Cause;
use crate::shared::Shared;
use crate::store::{PageStore, StoreError, StoreStats};
use crate::units::Lpn;
use alloc::vec::Vec;

struct Whole<S> {
    store: S,
    /// True if something was written or trimmed since the last sync.
    changed: bool,
}

/// A run of pages of a shared store, numbered from 0.
pub struct Slice<S> {
    shared: Shared<Whole<S>>,
    first: u32,
    pages: u32,
    /// Number of the slice, from 0.
    place: usize,
}

/// Cuts a store into slices from its beginning on; slice i has `pages[i]` pages. Pages at the end of the
/// store may be left over.
pub fn divide<S: PageStore>(store: S, pages: &[u32]) -> Result<Vec<Slice<S>>, StoreError> {
    let wanted: u64 = pages.iter().map(|&pages| u64::from(pages)).sum();
    if wanted > u64::from(store.page_count()) {
        let what = message!("slices of {wanted} pages in all, the store has {}", store.page_count());
        return Err(StoreError::Unsupported(what.into()));
    }
    let shared = Shared::new(Whole { store, changed: false });
    let mut first = 0;
    let slices = pages.iter().enumerate().map(|(place, &pages)| {
        let slice = Slice { shared: shared.clone(), first, pages, place };
        first += pages;
        debug_assert!(u64::from(first) <= wanted, "slices follow each other");
        slice
    });
    Ok(slices.collect())
}

impl<S: PageStore> Slice<S> {
    /// Returns the whole store if this is the last slice of it that exists.
    pub fn into_whole(self) -> Option<S> {
        Some(self.shared.into_inner()?.store)
    }

    /// Returns the pages before this slice, as the first slice of the store: for an owner that replaces the
    /// earlier owners.
    pub fn before(&self) -> Slice<S> {
        Slice { shared: self.shared.clone(), first: 0, pages: self.first, place: 0 }
    }

    /// Calls `ask` with the whole store.
    pub fn look<T>(&self, ask: impl FnOnce(&S) -> T) -> T {
        ask(&self.shared.lock().store)
    }

    fn outer(&self, lpn: Lpn) -> Result<Lpn, StoreError> {
        if lpn.0 < self.pages { Ok(Lpn(self.first + lpn.0)) } else { Err(StoreError::OutOfRange(lpn)) }
    }
}

impl<S: PageStore> PageStore for Slice<S> {
    crate::forward_store!(self => self.shared.lock().store;
        page_bytes atomic_pages_max begin_batch end_batch durable_writes prefix_consistent keeps_updates
        live_page);

    fn page_count(&self) -> u32 {
        self.pages
    }

    fn read(&mut self, lpn: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        let outer = self.outer(lpn)?;
        self.shared.lock().store.read(outer, cause, data)
    }

    fn write(&mut self, lpn: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreError> {
        let outer = self.outer(lpn)?;
        let mut shared = self.shared.lock();
        shared.changed = true;
        shared.store.write(outer, cause, data)
    }

    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        let outer = self.outer(lpn)?;
        let mut shared = self.shared.lock();
        shared.changed = true;
        shared.store.trim(outer)
    }

    /// Syncs the whole store, unless another slice did so and nothing was written since.
    fn sync(&mut self) -> Result<(), StoreError> {
        let mut shared = self.shared.lock();
        if shared.changed {
            shared.store.sync()?;
            shared.changed = false;
        }
        Ok(())
    }

    fn write_atomic(&mut self, pages: &[(Lpn, &[u8])], cause: Cause) -> Result<(), StoreError> {
        let outer: Result<Vec<_>, _> =
            pages.iter().map(|&(lpn, data)| self.outer(lpn).map(|outer| (outer, data))).collect();
        let mut shared = self.shared.lock();
        shared.changed = true;
        shared.store.write_atomic(&outer?, cause)
    }

    /// The first slice does it for all.
    fn maintain(&mut self, budget: u32) -> Result<u32, StoreError> {
        if self.place == 0 { self.shared.lock().store.maintain(budget) } else { Ok(0) }
    }

    fn scrub(&mut self, budget: u32) -> Result<u32, StoreError> {
        if self.place == 0 { self.shared.lock().store.scrub(budget) } else { Ok(0) }
    }

    fn checkpoint(&mut self) -> Result<(), StoreError> {
        self.sync()?;
        if self.place == 0 { self.shared.lock().store.checkpoint() } else { Ok(()) }
    }

    /// The first slice answers for the whole store.
    fn ram_bytes(&self) -> usize {
        if self.place == 0 { self.shared.lock().store.ram_bytes() } else { 0 }
    }

    fn stats(&self) -> StoreStats {
        if self.place == 0 { self.shared.lock().store.stats() } else { StoreStats::default() }
    }
}
