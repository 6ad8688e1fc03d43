//! Eviction: the victim and the frames that leave with it, blocks written whole, and the flush of all dirty
//! frames.

use super::{PageCache, page_of};
use crate::cache::policy::{Exit, Replacement};
use crate::nand::Cause;
use crate::sort;
use crate::store::{PageStore, StoreError};
use crate::units::Lpn;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

impl<S: PageStore, P: Replacement> PageCache<S, P> {
    /// Empties the victim's frame, and the frames that leave with it.
    pub(super) fn evict(&mut self) -> Result<(), StoreError> {
        let Some(victim) = self.policy.victim() else { return Ok(()) };
        let mut leaving = core::mem::take(&mut self.leaving);
        leaving.clear();
        leaving.push(victim);
        self.policy.companions(victim, &mut leaving);
        debug_assert!(leaving.iter().all(|&frame| self.is_used(frame)), "K1: an empty frame is to leave");
        let done = self.evict_all(&mut leaving);
        self.leaving = leaving;
        done
    }

    /// True if the table leads from the frame's page to this frame.
    fn is_used(&self, frame: u32) -> bool {
        self.table.get(self.frames[frame as usize].lpn.0) == Some(frame)
    }

    fn evict_all(&mut self, leaving: &mut [u32]) -> Result<(), StoreError> {
        let is_dirty = |frame: &u32| self.frames[*frame as usize].is_dirty();
        if leaving.iter().any(is_dirty) {
            if self.is_grouped() {
                self.flush()?;
            } else if let Some(block_pages) = self.policy.padded_pages() {
                return self.evict_blocks(leaving, block_pages);
            }
        }
        sort::unstable_by_key(leaving, |&frame| self.frames[frame as usize].lpn);
        for &frame in leaving.iter() {
            self.write_victim(frame)?;
            self.release(frame, Exit::Evicted);
        }
        Ok(())
    }

    /// Writes the page of an evicted frame if it is dirty.
    fn write_victim(&mut self, frame: u32) -> Result<(), StoreError> {
        debug_assert!(self.is_used(frame), "K1: frame {frame} leaves and is empty");
        let page = self.frames[frame as usize];
        if page.is_dirty() {
            let data = page_of(&self.bytes, self.page_bytes, frame);
            self.store.write(page.lpn, Cause::CacheEviction, data)?;
            self.counters.dirty_evictions += 1;
        } else {
            self.counters.clean_evictions += 1;
        }
        Ok(())
    }

    /// Writes each block with a dirty page among these frames whole, in order, and empties the frames.
    fn evict_blocks(&mut self, leaving: &mut [u32], block_pages: u32) -> Result<(), StoreError> {
        debug_assert!(block_pages > 0, "blocks without pages");
        let block_of = |frame: &u32| self.frames[*frame as usize].lpn.0 / block_pages;
        let is_dirty = |frame: &&u32| self.frames[**frame as usize].is_dirty();
        let blocks: BTreeSet<u32> = leaving.iter().filter(is_dirty).map(block_of).collect();
        for block in blocks {
            let first = block * block_pages;
            let end = first.saturating_add(block_pages).min(self.store.page_count());
            (first..end).try_for_each(|lpn| self.pad(Lpn(lpn)))?;
        }
        for &frame in leaving.iter() {
            if self.frames[frame as usize].is_dirty() {
                self.set_dirty(frame, false);
                self.counters.dirty_evictions += 1;
            } else {
                self.counters.clean_evictions += 1;
            }
            self.release(frame, Exit::Evicted);
        }
        Ok(())
    }

    /// Writes a page with its present contents, dirty or not, in the cache or not.
    fn pad(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        debug_assert!(lpn.0 < self.store.page_count(), "{lpn} is beyond the store");
        if let Some(frame) = self.table.get(lpn.0) {
            let data = page_of(&self.bytes, self.page_bytes, frame);
            self.store.write(lpn, Cause::CacheEviction, data)?;
            self.counters.padding_writes += u64::from(!self.frames[frame as usize].is_dirty());
            return Ok(());
        }
        let mut data = vec![0; self.page_bytes];
        self.store.read(lpn, Cause::CacheEviction, &mut data)?;
        self.store.write(lpn, Cause::CacheEviction, &data)?;
        self.counters.padding_reads += 1;
        self.counters.padding_writes += 1;
        Ok(())
    }

    /// Writes all dirty pages, and then does the trims that waited for them.
    pub(super) fn flush(&mut self) -> Result<(), StoreError> {
        if !self.dirty.is_empty() {
            let mut dirty: Vec<(Lpn, u32)> =
                self.dirty.iter().map(|&frame| (self.frames[frame as usize].lpn, frame)).collect();
            sort::total(&mut dirty);
            if self.is_grouped() {
                let page = |frame: u32| page_of(&self.bytes, self.page_bytes, frame);
                let group: Vec<(Lpn, &[u8])> = dirty.iter().map(|&(lpn, f)| (lpn, page(f))).collect();
                self.store.write_atomic(&group, Cause::CacheEviction)?;
                dirty.iter().for_each(|&(_, frame)| self.clean(frame));
            } else {
                for (lpn, frame) in dirty {
                    let data = page_of(&self.bytes, self.page_bytes, frame);
                    self.store.write(lpn, Cause::CacheEviction, data)?;
                    self.clean(frame);
                }
            }
            self.counters.flushes += 1;
        }
        debug_assert!(self.dirty.is_empty(), "a flush left {} dirty frames", self.dirty.len());
        while let Some(&lpn) = self.trimmed.first() {
            self.store.trim(Lpn(lpn))?;
            self.trimmed.remove(&lpn);
        }
        Ok(())
    }

    fn clean(&mut self, frame: u32) {
        debug_assert!(self.frames[frame as usize].is_dirty(), "frame {frame} is cleaned twice");
        self.set_dirty(frame, false);
        self.counters.flushed_pages += 1;
        self.policy.cleaned(frame);
    }
}
