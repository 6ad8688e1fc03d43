//! The write pattern converter: the newest pages of a buffer block go to the store below, in the order of
//! their numbers.
//!
//! Only these are written, as in Figure 6 of the paper; or, where they are many
//! ([`TbmConfig::whole_from`]), all pages of the logical block, the others as the store below has them.
//! That is what its own merge would copy, and lets a log-block FTL switch the block it writes for the old
//! one.
//!
//! [`TbmConfig::whole_from`]: super::TbmConfig::whole_from

use super::page::{BufferTag, Content, PageRead, read_weak_page};
use super::summary::{Buffer, Newest};
use super::{Condition, Tbm, VictimReads, unreadable};
use alloc::vec::Vec;
use nandex::fault::StoreFault;
use nandex::nand::{Cause, Nand};
use nandex::store::{PageStore, StoreError};
use nandex::units::{Lpn, Ppn};

/// The place of the contents of a page that a conversion merges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// In a buffer block.
    Buffer(Ppn),
    /// Nowhere: the page is trimmed.
    Trimmed,
    /// In the store below. The page is written there again.
    Below,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) lpn: Lpn,
    pub(super) source: Source,
}

impl<S: PageStore, N: Nand> Tbm<S, N> {
    /// Merges the buffer block of a logical block with the store below. The buffer block itself does not
    /// change.
    pub(super) fn convert(&mut self, lbn: u32) -> Result<(), StoreFault> {
        let Some(buffer) = self.summary.get(lbn) else { return Ok(()) };
        let pages = u64::from(buffer.pages());
        let mut kept = self.kept(lbn, buffer);
        let is_whole = self.settings.whole_from.is_some_and(|least| kept.len() >= least as usize);
        let written = kept.iter().filter(|page| page.source != Source::Trimmed).count() as u64;
        if is_whole {
            kept = self.all_pages(lbn, &kept);
        }
        debug_assert!(written <= pages, "K2: {written} pages are kept of {pages}");
        if self.victim_reads == VictimReads::Every {
            self.read_others(lbn, &kept)?;
        }
        self.merge(&kept, Cause::Merge)?;
        self.counters.conversions += 1;
        self.counters.whole_conversions += u64::from(is_whole);
        self.counters.converted_pages += written;
        self.counters.dropped_pages += pages - written;
        Ok(())
    }

    /// Reads the superseded pages of a buffer block, from the last page back, as
    /// [`VictimReads::Every`](super::VictimReads::Every) asks. Their contents are not used.
    fn read_others(&mut self, lbn: u32, kept: &[Kept]) -> Result<(), StoreFault> {
        let Some(buffer) = self.summary.get(lbn) else { return Ok(()) };
        let (pbn, pages) = (buffer.pbn, buffer.pages());
        debug_assert!(pages <= self.geometry.pages_per_block, "K2: {pages} pages of a buffer block");
        for ppn in (0..pages).rev().map(|page| self.geometry.page_at(pbn, page)) {
            if kept.iter().all(|page| page.source != Source::Buffer(ppn)) {
                read_weak_page(&mut self.nand, ppn, Cause::Merge, &mut self.page)?;
            }
        }
        Ok(())
    }

    /// Merges all buffer blocks, and writes a record that makes their pages void. They are erased when they
    /// are next used.
    pub(super) fn convert_all(&mut self) -> Result<(), StoreFault> {
        let owners: Vec<u32> = self.summary.iter().map(|(lbn, _)| lbn).collect();
        for &lbn in &owners {
            self.convert(lbn)?;
        }
        // With a record that may say so, nothing must be written behind what is void.
        self.write_record(self.versions.next).map_err(|error| self.stopped(error.into()))?;
        self.condition = Condition::Ready;
        self.versions.void_all();
        for buffer in owners.iter().filter_map(|&lbn| self.summary.remove(lbn)) {
            self.blocks.discard(buffer.pbn);
        }
        debug_assert_eq!(self.summary.len(), 0, "K2: a buffer block is left");
        Ok(())
    }

    /// The newest copy of each logical page in a buffer block. Left out are pages whose newest copy is in
    /// the store below.
    pub(super) fn kept(&self, lbn: u32, buffer: &Buffer) -> Vec<Kept> {
        let kept = |newest: Newest| {
            let source = match newest.content {
                Content::Data => Source::Buffer(self.geometry.page_at(buffer.pbn, newest.page)),
                Content::Trimmed => Source::Trimmed,
                // It is where it belongs.
                Content::Below => return None,
            };
            Some(Kept { lpn: self.lpn_at(lbn, newest.place), source })
        };
        buffer.newest(self.geometry.pages_per_block).into_iter().filter_map(kept).collect()
    }

    /// All pages of a logical block. Those not in `kept` come from the store below.
    fn all_pages(&self, lbn: u32, kept: &[Kept]) -> Vec<Kept> {
        let lpns = (0..self.geometry.pages_per_block).map(|place| self.lpn_at(lbn, place));
        let source = |lpn| kept.iter().find(|page| page.lpn == lpn).map_or(Source::Below, |page| page.source);
        let whole = lpns.take_while(|lpn| lpn.0 < self.page_count);
        whole.map(|lpn| Kept { lpn, source: source(lpn) }).collect()
    }

    pub(super) fn merge(&mut self, kept: &[Kept], cause: Cause) -> Result<(), StoreFault> {
        let mut data = core::mem::take(&mut self.page);
        let merged = kept.iter().try_for_each(|&page| self.merge_page(page, cause, &mut data));
        self.page = data;
        merged?;
        let has_trims = kept.iter().any(|page| page.source == Source::Trimmed);
        if has_trims || !self.store.durable_writes() {
            self.store.sync()?;
        }
        self.tell_lost()
    }

    fn merge_page(&mut self, page: Kept, cause: Cause, data: &mut [u8]) -> Result<(), StoreFault> {
        match page.source {
            Source::Trimmed => {
                self.note_found(page.lpn);
                return Ok(self.store.trim(page.lpn)?);
            }
            Source::Buffer(ppn) => match self.read_buffer(ppn, page.lpn, cause, data) {
                Err(error) if error.is_corrupted() => return self.note_lost(page.lpn, error),
                read => {
                    read?;
                    self.note_found(page.lpn);
                }
            },
            Source::Below => match self.store.read(page.lpn, cause, data) {
                // It is not for the converter to lose what it need not touch.
                Err(StoreError::Corrupted { .. }) => return Ok(()),
                read => read?,
            },
        }
        Ok(self.store.write(page.lpn, cause, data)?)
    }

    /// Reads a page of a buffer block. Checks that it holds `lpn` and was written since the block's last
    /// erase.
    pub(super) fn read_buffer(
        &mut self,
        ppn: Ppn,
        lpn: Lpn,
        cause: Cause,
        data: &mut [u8],
    ) -> Result<(), StoreFault> {
        self.read_tag(ppn, lpn, cause, data).map(|_| ())
    }

    /// Does the same as [`Tbm::read_buffer`] and returns the page's tag.
    pub(super) fn read_tag(
        &mut self,
        ppn: Ppn,
        lpn: Lpn,
        cause: Cause,
        data: &mut [u8],
    ) -> Result<BufferTag, StoreFault> {
        let (found, is_weak) = read_weak_page(&mut self.nand, ppn, cause, data)?;
        let erases = self.blocks.erase_count(self.geometry.block_of(ppn));
        match found {
            PageRead::Page(tag) if tag.lpn == lpn.0 && tag.erases == erases => {
                let (lbn, _) = self.split(lpn);
                if let Some(buffer) = self.summary.get_mut(lbn).filter(|_| is_weak && cause != Cause::Check) {
                    buffer.is_weak = true;
                }
                Ok(tag)
            }
            PageRead::Page(_) => {
                let what = "K1: a page of a buffer block holds another logical page, or one long superseded";
                Err(StoreFault::corrupted(what, ppn.0))
            }
            PageRead::Erased | PageRead::Unreadable => Err(unreadable(ppn)),
        }
    }
}
