//! Survey of a chip during a mount: the history recorded in its pages.

use super::blocks::{Blocks, State};
use super::medium::{Found, Medium};
use super::page::{Header, Kind};
use crate::fault::IndexFault;
use crate::nand::{Geometry, Nand};
use crate::units::{Pbn, Ppn};
use alloc::vec::Vec;

/// Number of blocks with commit pages that are remembered. Commit pages go to one block at a time, so the
/// newest is in the newest of these blocks, or it was met where all pages of a block were looked at.
const COMMIT_BLOCKS: usize = 8;

/// Findings of the survey.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Number of the newest program.
    pub(super) newest: u64,
    /// Number of the newest commit page that any page names, and the page that names it.
    pub(super) named: (u64, u32),
    /// Program number and place of the newest commit page.
    pub(super) commit: Option<(u64, Ppn)>,
    /// The newest blocks with commit pages, each with the first program number found there. On a chip in use
    /// nearly every block may hold old ones.
    commit_blocks: Vec<(u64, Pbn)>,
    /// Program number and place of the newest run page that commits.
    pub(super) carried: Option<(u64, Ppn)>,
    /// Page of the map that is in the output buffer.
    pub(super) map_page: Option<Ppn>,
    /// Pages that are neither whole nor blank, on a chip whose programs no cut tears: in each block the last
    /// one met.
    pub(super) damaged: Vec<Ppn>,
    /// Program number of the newest whole page that was found at a wrong place, and that place.
    pub(super) displaced: (u64, u32),
}

impl Seen {
    fn note_commit_block(&mut self, first: u64, block: Pbn) {
        let blocks = &mut self.commit_blocks;
        if blocks.len() < COMMIT_BLOCKS {
            blocks.reserve_exact(COMMIT_BLOCKS - blocks.len());
            blocks.push((first, block));
            return;
        }
        if let Some(oldest) = blocks.iter_mut().min().filter(|oldest| oldest.0 < first) {
            *oldest = (first, block);
        }
    }
}

/// Survey of a chip. It changes only the erase counts and states of blocks.
pub(super) struct Survey<'a, N> {
    pub(super) medium: &'a mut Medium<N>,
    pub(super) geometry: Geometry,
    pub(super) blocks: &'a mut Blocks,
    pub(super) seen: Seen,
}

impl<'a, N: Nand> Survey<'a, N> {
    pub(super) fn new(
        medium: &'a mut Medium<N>,
        geometry: Geometry,
        blocks: &'a mut Blocks,
        seen: Seen,
    ) -> Survey<'a, N> {
        Survey { medium, geometry, blocks, seen }
    }

    /// Looks at all blocks. Returns the newest commit page, if there is any.
    pub(super) fn look_at_all(&mut self) -> Result<Option<(u64, Ppn)>, IndexFault> {
        self.medium.keep_none();
        for block in (0..self.geometry.blocks).map(Pbn) {
            if self.blocks.state(block) != State::Bad {
                let (found, _) = self.look_at(block)?;
                self.medium.keep_first(block, found);
            }
        }
        self.find_commit()?;
        Ok(self.seen.commit)
    }

    /// Looks for the newest commit page, from the newest block with commit pages on.
    pub(super) fn find_commit(&mut self) -> Result<(), IndexFault> {
        // They are few, so the largest is searched for each time instead of sorting them.
        let mut blocks = core::mem::take(&mut self.seen.commit_blocks);
        while let Some(newest) = (0..blocks.len()).max_by_key(|&i| blocks[i]) {
            let (first, block) = blocks.swap_remove(newest);
            for page in (0..self.programmed(block)?).rev() {
                let ppn = self.geometry.page_at(block, page);
                // A page older than the first one is from an earlier life of the block.
                if let Found::Whole(header) = self.see(ppn)?
                    && header.sequence >= first
                {
                    self.note(ppn, &header);
                    if header.kind == Kind::Commit {
                        break;
                    }
                }
            }
            if self.seen.commit.is_some_and(|(_, ppn)| self.geometry.block_of(ppn) == block) {
                break;
            }
        }
        Ok(())
    }

    /// Number of pages of a block that were programmed: they are the first ones. A torn page may count or
    /// not.
    pub(super) fn programmed(&mut self, block: Pbn) -> Result<u32, IndexFault> {
        let pages = self.geometry.pages_per_block;
        let (mut low, mut high) = (0, pages);
        while low < high {
            let middle = low.midpoint(high);
            if self.see(self.geometry.page_at(block, middle))? == Found::Blank {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        // A damaged page may read as erased; then others lie behind it.
        let behind = self.geometry.page_at(block, low).0 + 1;
        let is_end = low + 1 >= pages || self.see(Ppn(behind))? == Found::Blank;
        Ok(if is_end { low } else { pages })
    }

    /// Notes the newest whole page of a block.
    pub(super) fn look_at_newest(&mut self, block: Pbn) -> Result<(), IndexFault> {
        let mut page = self.programmed(block)?;
        while page > 0 {
            page -= 1;
            if let Found::Whole(_) = self.look_at_page(self.geometry.page_at(block, page))? {
                break;
            }
        }
        Ok(())
    }

    /// Reads any page into the input buffer, and notes it if it is whole.
    pub(super) fn look_at_page(&mut self, ppn: Ppn) -> Result<Found, IndexFault> {
        let found = self.see(ppn)?;
        if let Found::Whole(header) = &found {
            self.note(ppn, header);
        }
        Ok(found)
    }

    /// Notes the facts in a page's header.
    pub(super) fn note(&mut self, ppn: Ppn, header: &Header) {
        let block = self.geometry.block_of(ppn);
        self.blocks.set_erases(block, self.blocks.erases(block).max(header.erases));
        self.seen.newest = self.seen.newest.max(header.sequence);
        if header.commit > self.seen.named.0 {
            self.seen.named = (header.commit, ppn.0);
        }
        if header.commits && self.seen.carried.is_none_or(|(newest, _)| header.sequence > newest) {
            self.seen.carried = Some((header.sequence, ppn));
        }
        if header.kind == Kind::Commit && self.seen.commit_blocks.iter().all(|noted| noted.1 != block) {
            self.seen.note_commit_block(header.sequence, block);
        }
        if header.kind == Kind::Commit && self.seen.commit.is_none_or(|(newest, _)| header.sequence > newest)
        {
            self.seen.commit = Some((header.sequence, ppn));
        }
    }

    /// Looks at the first page of a block, and at all its pages if the first one tells nothing. Returns what
    /// the first page is, and whether pages follow it for certain.
    pub(super) fn look_at(&mut self, block: Pbn) -> Result<(Found, bool), IndexFault> {
        let found = self.look_at_page(self.geometry.page_at(block, 0))?;
        match found {
            Found::Whole(_) => Ok((found, false)),
            // A page that was being programmed, or is damaged, may read as erased.
            _ if self.see(self.geometry.page_at(block, 1))? == Found::Blank => Ok((found, false)),
            _ => {
                for page in 0..self.geometry.pages_per_block {
                    self.look_at_page(self.geometry.page_at(block, page))?;
                }
                Ok((found, true))
            }
        }
    }

    /// Reads the summary of a block into the input buffer, if it is at one of these places. Returns the
    /// header.
    pub(super) fn find_summary(
        &mut self,
        places: [Option<Ppn>; 2],
        erases: u16,
    ) -> Result<Option<Header>, IndexFault> {
        for ppn in places.into_iter().flatten() {
            if let Found::Whole(header) = self.medium.examine(ppn)?
                && header.kind == Kind::Summary
                && header.erases == erases
            {
                return Ok(Some(header));
            }
        }
        Ok(None)
    }
}
