//! Merges: gathering the pages of a logical block at their places in one block.
//!
//! Copies are programmed first, and become valid together when the last one is on the chip. So a target that
//! fails half-way is dropped, and nothing is lost.

use super::Chip;
use super::state::State;
use crate::blocks::Wear;
use crate::blocks::spare::{Found, Header, PageKind, read_page};
use crate::fault::StoreFault;
use crate::nand::{Cause, Nand};
use crate::units::{Lbn, Pbn, Ppn};
use alloc::vec::Vec;

/// Source of a page's contents.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// A valid page.
    Page(Ppn),
    /// The host, with the cause of its write.
    Host(&'a [u8], Cause),
}

/// Page programmed by a merge: its old place (`None` for a page of the host) and its new one.
type Move = (Option<Ppn>, Ppn);

/// Bytes of RAM that a merge takes.
pub(super) fn merge_bytes(state: &State) -> usize {
    let page = size_of::<Option<Source<'_>>>() + size_of::<Move>();
    let merges = state.rules.has_owners && !state.rules.has_map;
    if merges { state.geometry.pages_per_block as usize * page } else { 0 }
}

impl<N: Nand + ?Sized> Chip<N> {
    /// Does a full merge: gathers a logical block in a new block, page `n` from `sources[n]`. Sources that
    /// cannot be read are lost. Pages that moved are invalid in the old blocks.
    pub fn gather(&mut self, lbn: Lbn, sources: &[Option<Source<'_>>]) -> Result<Pbn, StoreFault> {
        debug_assert!(
            sources.len() <= self.state.geometry.pages_per_block as usize,
            "more sources than a block has pages"
        );
        loop {
            let pbn = self.take(PageKind::Data, lbn.0, Wear::Most)?;
            match self.bring(pbn, lbn, 0, sources) {
                Ok(true) => {
                    self.counters.full_merges += 1;
                    return Ok(pbn);
                }
                Ok(false) => self.free(pbn, Cause::Merge, Vec::new)?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Does a partial merge: completes a block from page `first` on, which comes from `sources[0]`. False if
    /// a program failed; then nothing has changed, but the block takes no more pages.
    pub fn fill(
        &mut self,
        pbn: Pbn,
        lbn: Lbn,
        first: u32,
        sources: &[Option<Source<'_>>],
    ) -> Result<bool, StoreFault> {
        let done = self.bring(pbn, lbn, first, sources)?;
        self.counters.partial_merges += u64::from(done);
        Ok(done)
    }

    fn bring(
        &mut self,
        pbn: Pbn,
        lbn: Lbn,
        first: u32,
        sources: &[Option<Source<'_>>],
    ) -> Result<bool, StoreFault> {
        debug_assert!(
            first as usize + sources.len() <= self.state.geometry.pages_per_block as usize,
            "sources beyond the block"
        );
        let kind = self.state.tag(pbn).role.unwrap_or(PageKind::Data);
        let version = self.state.next_version;
        let mut moves: Vec<Move> = Vec::with_capacity(sources.len());
        let mut lost: Vec<(Ppn, u32)> = Vec::new();
        for (page, source) in (first..).zip(sources) {
            let (to, lpn) = (self.state.geometry.page_at(pbn, page), self.lpn_at(lbn, page));
            let (from, programmed) = match source {
                None => continue,
                Some(Source::Host(data, cause)) => {
                    let header = Header { kind, number: lpn, version, extra: 0 };
                    (None, self.program(to, header, *cause, data)?)
                }
                Some(Source::Page(from)) => match self.copy(*from, kind, lpn, to)? {
                    Some(programmed) => (Some(*from), programmed),
                    None => {
                        lost.push((*from, lpn));
                        continue;
                    }
                },
            };
            if !programmed {
                return Ok(false);
            }
            moves.push((from, to));
        }
        self.settle(lbn, &moves);
        lost.into_iter().for_each(|(ppn, lpn)| self.lose(ppn, lpn));
        Ok(true)
    }

    /// Copies a page under its version. `None` if it cannot be read, `Some(false)` if the program failed.
    fn copy(&mut self, from: Ppn, kind: PageKind, lpn: u32, to: Ppn) -> Result<Option<bool>, StoreFault> {
        let mut page = self.lend_page();
        let cause = self.upkeep.charged(Cause::Merge);
        let found = read_page(&mut self.nand, from, cause, &mut page);
        let programmed = match found {
            Ok(Found::Page(header, _)) if header.number == lpn && self.state.is_of_now(from, header) => {
                self.program(to, Header { kind, ..header }, Cause::Merge, &page).map(Some)
            }
            Ok(_) => Ok(None),
            Err(error) => Err(error),
        };
        self.return_page(page);
        programmed
    }

    fn settle(&mut self, lbn: Lbn, moves: &[Move]) {
        for &(from, to) in moves {
            debug_assert_ne!(from, Some(to), "a page was moved to itself");
            match from {
                Some(from) => {
                    self.invalidate(from);
                    self.counters.moved_pages += 1;
                }
                None => {
                    self.pass_version();
                    let page = self.state.geometry.page_in_block(to);
                    self.note_written(self.lpn_at(lbn, page));
                }
            }
            self.mark_valid(to);
        }
    }
}
