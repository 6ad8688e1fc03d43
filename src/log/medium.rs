//! The chip as the log sees it: pages are read into one buffer, and verified there.

use super::PageBuffer;
use super::ahead::Scrubbing;
use super::tag::{self, Place, Seal};
use crate::blocks::checkpoint::is_of_checkpoint;
use crate::fault::IndexFault;
use crate::nand::{Cause, Geometry, Nand, NandError, Reading, is_done, read_again};
use crate::units::{Pbn, Ppn};
use alloc::vec::Vec;

/// The chip, a buffer for one of its pages, and the name of the owner.
pub(super) struct Medium<N> {
    pub(super) nand: N,
    pub(super) geometry: Geometry,
    /// Name that seals each page.
    pub(super) owner: Vec<u8>,
    pub(super) page: PageBuffer,
    /// Page whose contents are in the buffer.
    pub(super) loaded: Option<Ppn>,
    pub(super) scrubbing: Scrubbing,
}

/// Account of a block, as its pages give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Account {
    /// Block that the pages' addresses name.
    pub(super) home: Pbn,
    /// Number of the block in the order of opening.
    pub(super) number: u32,
}

/// Kind of a page that was read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Erased,
    Garbage,
    /// The page is whole, and belongs to a checkpoint.
    Foreign,
    /// The page is whole, and its tag and place are in the buffer.
    Page,
}

impl<N: Nand> Medium<N> {
    pub(super) fn new(nand: N, owner: Vec<u8>) -> Medium<N> {
        let geometry = nand.geometry();
        let page = PageBuffer::new(&geometry);
        Medium { geometry, owner, page, loaded: None, scrubbing: Scrubbing::default(), nand }
    }

    /// Reads the page of an address from its place on the chip into the buffer. Verifies that it is from the
    /// last opening of its block.
    pub(super) fn load(
        &mut self,
        ppn: Ppn,
        physical: Ppn,
        opening: u16,
        cause: Cause,
    ) -> Result<(), IndexFault> {
        let cause = self.scrubbing.charged(cause);
        self.loaded = None;
        let seal = Seal { owner: &self.owner, page: self.geometry.page_in_block(ppn) };
        let reading = read_again(
            &mut self.nand,
            (physical, cause),
            &mut self.page.data,
            &mut self.page.spare,
            |data, spare| tag::is_whole(spare, data, seal),
        )?;
        if reading == Reading::Broken {
            return Err(IndexFault::corrupted("the page's checksum does not match", ppn.0));
        }
        let account = self.account();
        if account.home != self.geometry.block_of(ppn) {
            return Err(IndexFault::corrupted("the page belongs to another address", ppn.0));
        }
        if account.number as u16 != opening {
            return Err(IndexFault::corrupted("an old version of the page", ppn.0));
        }
        self.page.tag = tag::tag_of(&self.page.spare);
        self.loaded = Some(ppn);
        if cause != Cause::Check {
            self.scrubbing.note_reading(ppn, reading, self.geometry);
        }
        Ok(())
    }

    /// Reads a page of a block into the buffer, and tells its kind.
    pub(super) fn read_in(&mut self, block: Pbn, page: u32) -> Result<Found, IndexFault> {
        self.read_raw(self.geometry.page_at(block, page))
    }

    /// Reads a page of the chip into the buffer, and tells its kind.
    pub(super) fn read_raw(&mut self, physical: Ppn) -> Result<Found, IndexFault> {
        self.loaded = None;
        let seal = Seal { owner: &self.owner, page: self.geometry.page_in_block(physical) };
        let mut found = Found::Garbage;
        let (data, spare) = (&mut self.page.data, &mut self.page.spare);
        let read = read_again(&mut self.nand, (physical, Cause::Recovery), data, spare, |data, spare| {
            found = if tag::is_whole(spare, data, seal) {
                Found::Page
            } else if tag::looks_erased(spare, data) {
                Found::Erased
            } else if is_of_checkpoint(physical, data, spare) {
                Found::Foreign
            } else {
                Found::Garbage
            };
            matches!(found, Found::Erased | Found::Page)
        });
        match read {
            Ok(_) => Ok(found),
            // A block that failed tells no more than a page that cannot be read.
            Err(NandError::Uncorrectable(_) | NandError::BadBlock(_)) => Ok(Found::Garbage),
            Err(error) => Err(error.into()),
        }
    }

    /// Account in the page in the buffer.
    pub(super) fn account(&self) -> Account {
        let (home, number) = tag::account_of(&self.page.spare);
        Account { home: Pbn(home), number }
    }

    /// Position in the log of the page in the buffer, which must be whole.
    pub(super) fn place(&self) -> Place {
        tag::place_of(&self.page.spare)
    }

    /// Copies the first `pages` pages of a block to another one. False if a program failed.
    pub(super) fn copy_pages(&mut self, from: Pbn, to: Pbn, pages: u32) -> Result<bool, IndexFault> {
        let g = self.geometry;
        debug_assert!(from != to && pages < g.pages_per_block, "{pages} pages of {from} are copied to {to}");
        let mut copy = PageBuffer::new(&g);
        for i in 0..pages {
            let source = g.page_at(from, i);
            let seal = Seal { owner: &self.owner, page: i };
            let is_whole = |data: &[u8], spare: &[u8]| {
                tag::looks_erased(spare, data) || tag::is_whole(spare, data, seal)
            };
            let (data, spare) = (&mut copy.data, &mut copy.spare);
            match read_again(&mut self.nand, (source, Cause::Recovery), data, spare, is_whole) {
                Ok(_) if tag::looks_erased(&copy.spare, &copy.data) => continue,
                Ok(_) => {}
                Err(NandError::Uncorrectable(_)) => continue,
                Err(error) => return Err(error.into()),
            }
            if !self.program_at(g.page_at(to, i), &copy.data, &copy.spare)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Programs a page of a block that replaces another one. Returns false if the program failed.
    pub(super) fn program_at(&mut self, ppn: Ppn, data: &[u8], spare: &[u8]) -> Result<bool, IndexFault> {
        Ok(is_done(self.nand.program(ppn, Cause::Recovery, data, spare))?)
    }
}
