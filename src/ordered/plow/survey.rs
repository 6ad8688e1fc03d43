//! A look at a chip that is mounted: what its pages say of the history.

use super::blocks::{Blocks, State};
use super::medium::{Found, Medium};
use super::page::{Header, Kind};
use crate::fault::IndexFault;
use crate::nand::{Geometry, Nand};
use crate::units::{Pbn, Ppn};
use alloc::vec::Vec;

/// Findings of a look at the chip.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The newest program.
    pub(super) newest: u64,
    /// The newest commit page that a page names, and where.
    pub(super) named: (u64, u32),
    /// The newest commit page.
    pub(super) commit: Option<(u64, Ppn)>,
    /// Blocks with commit pages, each with the first program found there.
    commit_blocks: Vec<(u64, Pbn)>,
    /// The newest page of a level that commits.
    pub(super) carried: Option<(u64, Ppn)>,
    /// The page of the map that is in the output buffer.
    pub(super) map_page: Option<Ppn>,
    /// Pages that are neither whole nor blank, though no cut leaves such: of each block the last one met.
    pub(super) damaged: Vec<Ppn>,
    /// The newest page that belongs in another place, and where it was met.
    pub(super) displaced: (u64, u32),
}

/// A look at a chip. It changes nothing but what is known of the erases and the state of blocks.
pub(super) struct Survey<'a, N> {
    pub(super) medium: &'a mut Medium<N>,
    pub(super) geometry: Geometry,
    pub(super) blocks: &'a mut Blocks,
    pub(super) seen: Seen,
}

impl<'a, N: Nand> Survey<'a, N> {
    pub(super) fn new(medium: &'a mut Medium<N>, blocks: &'a mut Blocks, seen: Seen) -> Survey<'a, N> {
        Survey { geometry: medium.geometry, medium, blocks, seen }
    }

    /// Looks at all blocks; the newest commit page, if there is any.
    pub(super) fn look_at_all(&mut self) -> Result<Option<(u64, Ppn)>, IndexFault> {
        self.medium.keep_none();
        for block in (0..self.geometry.blocks).map(Pbn) {
            if self.blocks.state(block) != State::Bad {
                self.look_at(block)?;
            }
        }
        self.find_commit()?;
        Ok(self.seen.commit)
    }

    /// Looks for the newest commit page in the newest block that has any.
    fn find_commit(&mut self) -> Result<(), IndexFault> {
        // From the newest on. They are few, so that none but the largest is looked for each time.
        let mut blocks = core::mem::take(&mut self.seen.commit_blocks);
        while let Some(newest) = (0..blocks.len()).max_by_key(|&i| blocks[i]) {
            let (first, block) = blocks.swap_remove(newest);
            for page in (0..self.programmed(block)?).rev() {
                let ppn = self.geometry.page_at(block, page);
                // What is older than the first page was there in an earlier life of the block.
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

    /// Pages of a block that were programmed: they are the first ones. A torn page may count or not.
    fn programmed(&mut self, block: Pbn) -> Result<u32, IndexFault> {
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
        // A page that only reads as erased, since it is damaged, has others behind it.
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

    /// Notes what a page says of the history.
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
        if header.kind == Kind::Commit && self.seen.commit_blocks.last().is_none_or(|last| last.1 != block) {
            self.seen.commit_blocks.push((header.sequence, block));
        }
        if header.kind == Kind::Commit && self.seen.commit.is_none_or(|(newest, _)| header.sequence > newest)
        {
            self.seen.commit = Some((header.sequence, ppn));
        }
    }

    /// Looks at the first page of a block, and at all where that one says nothing.
    fn look_at(&mut self, block: Pbn) -> Result<(), IndexFault> {
        let found = self.look_at_page(self.geometry.page_at(block, 0))?;
        self.medium.keep_first(block, found);
        match found {
            Found::Whole(_) => Ok(()),
            // A page may read as erased that was being programmed, or is damaged.
            _ if self.see(self.geometry.page_at(block, 1))? == Found::Blank => Ok(()),
            _ => {
                for page in 0..self.geometry.pages_per_block {
                    self.look_at_page(self.geometry.page_at(block, page))?;
                }
                Ok(())
            }
        }
    }

    /// Reads the summary of a block into the input buffer if there is one at these places; its header.
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
