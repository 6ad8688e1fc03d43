//! The TBM as a store of pages.

use super::page::Content;
use super::{Condition, LOST_BYTES, NO_RULE_BYTES, RULE_BYTES, Tbm, TbmCounters};
use alloc::vec::Vec;
use nandex::check::message;
use nandex::nand::{Cause, Nand};
use nandex::sort;
use nandex::store::{PageStore, StoreError, StoreStats};
use nandex::units::{Lpn, Ppn};

impl<S: PageStore, N: Nand> PageStore for Tbm<S, N> {
    nandex::forward_store!(self => self.store; maintain scrub);

    fn page_bytes(&self) -> usize {
        self.page.len()
    }

    fn page_count(&self) -> u32 {
        self.page_count
    }

    fn read(&mut self, lpn: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        self.ready()?;
        self.require(lpn, data.len())?;
        let (lbn, place) = self.split(lpn);
        let newest = self.summary.get(lbn).and_then(|buffer| Some((buffer.pbn, buffer.find(place)?)));
        let Some((pbn, newest)) = newest.filter(|(_, newest)| newest.content != Content::Below) else {
            if self.lost.contains(&lpn.0) {
                let what = "the newest version of a logical page was lost";
                return Err(StoreError::Corrupted { what, at: u64::from(lpn.0) });
            }
            self.counters.store_reads += u64::from(cause != Cause::Check);
            return self.store.read(lpn, cause, data);
        };
        if newest.content == Content::Trimmed {
            data.fill(0);
            return Ok(());
        }
        self.counters.buffer_reads += u64::from(cause != Cause::Check);
        Ok(self.read_buffer(self.geometry.page_at(pbn, newest.page), lpn, cause, data)?)
    }

    fn write(&mut self, lpn: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreError> {
        self.write_atomic(&[(lpn, data)], cause)
    }

    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        self.writable()?;
        self.require(lpn, self.page_bytes())?;
        let (lbn, place) = self.split(lpn);
        debug_assert!(self.condition == Condition::Ready, "trims are for those who may write");
        self.store.trim(lpn)?;
        self.note_found(lpn);
        if let Some(buffer) = self.summary.get_mut(lbn) {
            buffer.trim(place);
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.ready()?;
        while let Some((lbn, place)) = self.summary.first_untold() {
            self.writable()?;
            self.append_group(&[(self.lpn_at(lbn, place), None)], Cause::Host)?;
            self.counters.trim_pages += 1;
        }
        self.tell_lost()?;
        self.store.sync()
    }

    /// Merges all buffer blocks, as a mount would.
    fn checkpoint(&mut self) -> Result<(), StoreError> {
        self.ready()?;
        self.store.sync()?;
        self.convert_all()?;
        self.store.checkpoint()
    }

    fn atomic_pages_max(&self) -> usize {
        self.settings.blocks as usize
    }

    fn write_atomic(&mut self, pages: &[(Lpn, &[u8])], cause: Cause) -> Result<(), StoreError> {
        self.writable()?;
        if self.versions.are_used_up() {
            return Err(StoreError::WornOut);
        }
        let max = self.atomic_pages_max();
        if pages.len() > max {
            let what = message!("{} pages at once, this store takes {max}", pages.len());
            return Err(StoreError::Unsupported(what.into()));
        }
        for (lpn, data) in pages {
            self.require(*lpn, data.len())?;
        }
        if let [(lpn, data)] = *pages
            && self.buffers_max() > 0
            && self.direct.as_ref().is_some_and(|direct| direct.takes(data))
        {
            return Ok(self.write_direct(lpn, cause, data)?);
        }
        let mut owners: Vec<u32> = pages.iter().map(|&(lpn, _)| self.split(lpn).0).collect();
        sort::total(&mut owners);
        owners.dedup();
        if owners.len() > self.buffers_max() as usize {
            return Err(StoreError::WornOut);
        }
        let group: Vec<(Lpn, Option<&[u8]>)> = pages.iter().map(|&(lpn, data)| (lpn, Some(data))).collect();
        self.append_group(&group, cause)?;
        self.counters.page_writes += pages.len() as u64;
        Ok(())
    }

    fn durable_writes(&self) -> bool {
        true
    }

    fn prefix_consistent(&self) -> bool {
        true
    }

    fn ram_bytes(&self) -> usize {
        let rule = if self.direct.is_some() { RULE_BYTES + NO_RULE_BYTES } else { 0 };
        size_of::<Self>() - NO_RULE_BYTES
            + rule
            + self.store.ram_bytes()
            + self.nand.ram_bytes()
            + self.blocks.ram_bytes()
            + self.summary.ram_bytes()
            + self.page.len()
            + self.lost.len() * LOST_BYTES
    }

    fn stats(&self) -> StoreStats {
        let below = self.store.stats();
        let TbmCounters { conversions, converted_pages, dropped_pages, .. } = self.counters;
        let tables = (self.blocks.ram_bytes() + self.summary.ram_bytes()) as u64;
        let mapping_bytes = below.mapping_bytes + tables;
        StoreStats { conversions, converted_pages, dropped_pages, mapping_bytes, ..below }
    }

    /// Tells whether a page of the chip is live. The pages are those of the whole chip, of which the store
    /// below has the first blocks ([`BlockRange::divide`](nandex::nand::BlockRange::divide)).
    fn live_page(&self, ppn: Ppn) -> Option<bool> {
        let Some(ppn) = self.nand.page_of_chip(ppn) else { return self.store.live_page(ppn) };
        let (pbn, page) = (self.geometry.block_of(ppn), self.geometry.page_in_block(ppn));
        let buffer = self.summary.iter().map(|(_, buffer)| buffer).find(|buffer| buffer.pbn == pbn);
        let newest = buffer.map(|buffer| buffer.newest(self.geometry.pages_per_block));
        Some(newest.is_some_and(|newest| newest.iter().any(|n| n.page == page && n.content == Content::Data)))
    }
}
