//! The write pattern converter: the newest pages of a buffer block go to the store below, in the order of their numbers.

use super::page::{Found, read_page};
use super::{Tbm, unreadable};
use crate::ftl::{PageStore, StoreError};
use crate::nand::{Cause, Nand};
use crate::units::{Lpn, Ppn};
use alloc::vec::Vec;

/// A page to merge with the store below.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) lpn: Lpn,
    /// Where its contents are; none for a page that is trimmed.
    pub(super) ppn: Option<Ppn>,
}

impl<S: PageStore, N: Nand> Tbm<S, N> {
    /// Merges the buffer block of a logical block with the store below. The buffer block stays as it is.
    pub(super) fn convert(&mut self, lbn: u32) -> Result<(), StoreError> {
        let Some(buffer) = self.summary.get(lbn) else { return Ok(()) };
        let kept = |newest: super::Newest| Kept {
            lpn: self.lpn_at(lbn, newest.place),
            ppn: (!newest.is_trim).then(|| self.geometry.page_at(buffer.pbn, newest.page)),
        };
        let (pages, kept): (u32, Vec<Kept>) =
            (buffer.pages(), buffer.newest(self.geometry.pages_per_block).into_iter().map(kept).collect());
        let written = self.merge(&kept, Cause::Merge)?;
        self.counters.conversions += 1;
        self.counters.converted_pages += written;
        self.counters.dropped_pages += u64::from(pages) - written;
        Ok(())
    }

    /// Writes pages to the store below, and makes them durable there. How many have contents.
    pub(super) fn merge(&mut self, kept: &[Kept], cause: Cause) -> Result<u64, StoreError> {
        let mut data = core::mem::take(&mut self.page);
        let merged = kept.iter().try_for_each(|page| match page.ppn {
            Some(ppn) => {
                self.read_buffer(ppn, page.lpn, cause, &mut data)?;
                self.store.write(page.lpn, cause, &data)
            }
            None => self.store.trim(page.lpn),
        });
        self.page = data;
        merged?;
        let written = kept.iter().filter(|page| page.ppn.is_some()).count();
        if written < kept.len() || !self.store.durable_writes() {
            self.store.sync()?;
        }
        Ok(written as u64)
    }

    /// Reads a page of a buffer block and checks that it is the one asked for.
    pub(super) fn read_buffer(
        &mut self,
        ppn: Ppn,
        lpn: Lpn,
        cause: Cause,
        data: &mut [u8],
    ) -> Result<(), StoreError> {
        match read_page(&mut self.nand, ppn, cause, data)? {
            Found::Page(tag) if tag.lpn == lpn.0 => Ok(()),
            Found::Page(_) => {
                let what = "K1: a page of a buffer block holds another logical page";
                Err(StoreError::Corrupted { what, at: u64::from(ppn.0) })
            }
            Found::Erased | Found::Unreadable => Err(unreadable(ppn)),
        }
    }
}
