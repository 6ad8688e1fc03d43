//! The log without its cache: it chooses the next address, and programs a page there. Nothing waits in RAM.
//!
//! A block in which a program fails is replaced: another block takes its pages and answers to its addresses.
//! The moment of the switch is the marking of the failed block as bad: before it, a mount drops the
//! unfinished copy; after it, the copy counts.

use super::addresses::Addresses;
use super::checkpoints::Checkpoints;
use super::head::{Frontier, Head};
use super::held::HAS_HOLDS;
use super::medium::Medium;
use super::room::Capacity;
use super::state::State;
use super::tag::{self, Gaps, Place, Seal, Tag};
use super::{HAS_WRITE_PART, LogConfig, LogCounters, Root};
use crate::blocks::checkpoint::CheckpointArea;
use crate::blocks::{BlockTable, Wear, mark_bad};
use crate::check::IndexError;
use crate::fault::IndexFault;
use crate::nand::{Cause, Geometry, Nand, NandError, Unfit, unfit};
use crate::units::{Pbn, Ppn};
use alloc::vec;

/// Bytes of the valid bits of the largest possible block.
const BITS_BYTES_MAX: usize = (Geometry::PAGES_PER_BLOCK_MAX as usize).div_ceil(8);

pub(crate) struct Tape<N> {
    pub(super) medium: Medium<N>,
    pub(super) config: LogConfig,
    pub(super) blocks: BlockTable,
    pub(super) addresses: Addresses,
    pub(super) head: Head,
    pub(super) capacity: Capacity,
    pub(super) checkpoints: Checkpoints,
    pub(super) counters: LogCounters,
    /// True if an operation has numbered a page, or its owner has begun to change what it knows, and the
    /// operation has not ended.
    pub(crate) half_done: bool,
}

impl<N: Nand> Tape<N> {
    pub(super) fn new(nand: N, config: LogConfig, area: CheckpointArea, state: State) -> Tape<N> {
        Tape {
            medium: Medium::new(nand, state.owner),
            config,
            blocks: state.blocks,
            addresses: state.addresses,
            head: state.head,
            capacity: Capacity::new(state.bad_at_format),
            checkpoints: Checkpoints::new(area, state.note, state.closed, state.is_guessed),
            counters: LogCounters::default(),
            half_done: false,
        }
    }

    /// Number of page numbers left for changes.
    pub(crate) fn numbers_left(&self) -> u64 {
        self.head.numbers_left()
    }

    /// True if a mount would miss pages of a block, even though all of them are dead.
    pub(crate) fn is_needed(&self, block: Pbn) -> bool {
        self.head.needs(self.addresses.openings[block.index()])
    }

    /// Number of pages of a block that count as valid.
    pub(crate) fn valid_in(&self, block: Pbn) -> u32 {
        self.blocks.valid_count(block)
    }

    /// Contents of a chip on which no root was found, for the error.
    #[cold]
    pub(crate) fn unfit(&mut self, what: &'static str) -> Result<Unfit, IndexFault> {
        Ok(unfit(&mut self.medium.nand, what)?)
    }

    /// Holds an address: no page gets it until it is released. Only for an owner without a write part.
    pub(crate) fn hold(&mut self, ppn: Ppn) {
        let pages = self.config.write_pages;
        assert_eq!(pages, 0, "{ppn} is held, and the write part would give it to another page");
        let ahead = self.head.is_ahead(&self.blocks, ppn);
        self.addresses.held.hold(self.medium.geometry, ppn, ahead);
    }

    pub(crate) fn release(&mut self, ppn: Ppn) {
        let ahead = self.head.is_ahead(&self.blocks, ppn);
        self.addresses.held.release(self.medium.geometry, ppn, ahead);
    }

    /// Number of held addresses that [`Tape::free_pages`] leaves out.
    pub(crate) fn held_ahead(&self) -> u32 {
        self.addresses.held.ahead()
    }

    /// Reads a page from the chip into the buffer, and verifies it.
    pub(super) fn load(&mut self, ppn: Ppn, cause: Cause) -> Result<(), IndexFault> {
        let geometry = self.medium.geometry;
        if ppn.0 >= geometry.pages() {
            return Err(IndexFault::corrupted("a page address beyond the chip", ppn.0));
        }
        let opening = self.addresses.openings[geometry.block_of(ppn).index()];
        self.medium.load(ppn, self.addresses.physical(geometry, ppn), opening, cause)
    }

    pub(super) fn next_address(&mut self, cause: Cause) -> Result<Ppn, IndexFault> {
        loop {
            let ppn = self.next_page(cause)?;
            if !self.addresses.held.contains(ppn) {
                return Ok(ppn);
            }
            self.pass_over(ppn, cause)?;
        }
    }

    fn next_page(&mut self, cause: Cause) -> Result<Ppn, IndexFault> {
        let geometry = self.medium.geometry;
        let block = match self.head.frontier.block {
            Some(block) if self.head.frontier.next_page < geometry.pages_per_block => block,
            _ => self.open_block(cause)?,
        };
        let ppn = geometry.page_at(block, self.head.frontier.next_page);
        debug_assert_eq!(geometry.block_of(ppn), block, "an address beyond the open block");
        self.head.frontier.next_page += 1;
        Ok(ppn)
    }

    fn open_block(&mut self, cause: Cause) -> Result<Pbn, IndexFault> {
        let block = self.take_erased_block(cause)?;
        let before = self.head.frontier;
        debug_assert_ne!(before.block, Some(block), "{block} is open already");
        if let Some(full) = before.block {
            self.blocks.close(full);
        }
        let block_sequence = before.block_sequence + 1;
        self.head.frontier = Frontier { block: Some(block), next_page: 0, block_sequence };
        self.addresses.openings[block.index()] = block_sequence as u16;
        self.blocks.follow_pages_of(block);
        self.checkpoints.blocks_since += 1;
        self.recount();
        Ok(block)
    }

    fn take_erased_block(&mut self, cause: Cause) -> Result<Pbn, IndexFault> {
        let cause = self.medium.scrubbing.charged(cause);
        match self.blocks.take_erased(&mut self.medium.nand, Wear::Least, cause) {
            Ok(block) => Ok(block),
            Err(error) => {
                self.recount();
                Err(self.capacity.worn_or(error.into()))
            }
        }
    }

    /// Passes over a held address. The first page of a block shows a mount which block it is, the second one
    /// does where the first is damaged, and the last one has the valid bits: there a page without a node is
    /// written.
    fn pass_over(&mut self, ppn: Ppn, cause: Cause) -> Result<(), IndexFault> {
        debug_assert!(self.addresses.held.contains(ppn), "{ppn} is passed over and not held");
        self.addresses.held.pass();
        let geometry = self.medium.geometry;
        let page = geometry.page_in_block(ppn);
        if page > 1 && page + 1 < geometry.pages_per_block {
            return Ok(());
        }
        self.head.sequence += 1;
        let place = self.head.place(geometry, ppn, self.config.gaps());
        // The buffer holds no page of a caller while an address is sought.
        let mut empty = core::mem::take(&mut self.medium.page.data);
        self.medium.loaded = None;
        empty.fill(0xff);
        self.put_tag(ppn, &Tag::default(), &place);
        let programmed = self.program(ppn, &empty, cause);
        // Where the program failed, another one was needed meanwhile.
        if self.medium.page.data.is_empty() {
            self.medium.page.data = empty;
        }
        programmed
    }

    /// Gives a page that is written its number. If its tag says so, the page becomes the root.
    pub(super) fn number(&mut self, ppn: Ppn, tag: &mut Tag) -> u64 {
        self.half_done = true;
        self.head.sequence += 1;
        self.blocks.mark_valid(ppn);
        if tag.root {
            self.head.root = Some(Root { ppn, height: tag.height });
        }
        tag.root &= !self.head.goes_on;
        self.head.sequence
    }

    /// Programs a single page that was just numbered.
    pub(super) fn write(&mut self, ppn: Ppn, tag: Tag, data: &[u8], cause: Cause) -> Result<(), IndexFault> {
        if tag.root {
            self.head.note_root();
        }
        let place = self.head.place(self.medium.geometry, ppn, self.config.gaps());
        self.put_tag(ppn, &tag, &place);
        self.program(ppn, data, cause)
    }

    /// Fills the spare area of a page, except the checksum, which is added when it is programmed.
    pub(super) fn put_tag(&mut self, ppn: Ppn, tag: &Tag, place: &Place) {
        let g = self.medium.geometry;
        let mut bits = [0; BITS_BYTES_MAX];
        let last = g.page_in_block(ppn) + 1 == g.pages_per_block;
        let valid = if last { self.valid_bits(g.block_of(ppn), &mut bits) } else { &[] };
        tag::encode(&mut self.medium.page.spare, tag, place, valid);
    }

    /// Programs a page, with the tag put before and its checksum in the spare area.
    pub(super) fn program(&mut self, ppn: Ppn, data: &[u8], cause: Cause) -> Result<(), IndexFault> {
        let g = self.medium.geometry;
        debug_assert_eq!(data.len(), g.page_bytes as usize, "a page of another size is programmed");
        let seal = Seal { owner: &self.medium.owner, page: g.page_in_block(ppn) };
        tag::seal(&mut self.medium.page.spare, data, seal);
        let physical = self.addresses.physical(g, ppn);
        let cause = self.medium.scrubbing.charged(cause);
        self.medium.scrubbing.weak.credit.note_program();
        match self.medium.nand.program(physical, cause, data, &self.medium.page.spare) {
            // The store below takes no more pages.
            Err(NandError::ProgramFailed(_)) if self.config.is_placed() => Err(IndexError::WornOut.into()),
            Err(NandError::ProgramFailed(_)) => {
                let spare = self.medium.page.spare.clone();
                self.replace_block(ppn, data, &spare)
            }
            other => Ok(other?),
        }
    }

    /// Valid bits of a block: one for each page, 1 = valid.
    fn valid_bits<'b>(&self, home: Pbn, bits: &'b mut [u8; BITS_BYTES_MAX]) -> &'b [u8] {
        for ppn in self.blocks.valid_pages(home) {
            let page = self.medium.geometry.page_in_block(ppn) as usize;
            bits[page / 8] |= 1 << (page % 8);
        }
        &bits[..(self.medium.geometry.pages_per_block as usize).div_ceil(8)]
    }

    /// Copies the block of a page that could not be programmed to another block, with that page.
    fn replace_block(&mut self, ppn: Ppn, data: &[u8], spare: &[u8]) -> Result<(), IndexFault> {
        let geometry = self.medium.geometry;
        let home = geometry.block_of(ppn);
        let failed = self.addresses.physical_block(home);
        let last = geometry.page_in_block(ppn);
        if self.medium.page.data.is_empty() {
            // The buffer was lent for the page that is to be programmed: see `pass_over`.
            self.medium.page.data = vec![0; data.len()];
        }
        debug_assert_eq!(
            failed == home,
            self.addresses.replaced.iter().all(|pair| pair.0 != home),
            "the block of {home}"
        );
        loop {
            let target = self.take_erased_block(Cause::Recovery)?;
            debug_assert_ne!(target, failed, "a failed block is to replace itself");
            let at = geometry.page_at(target, last);
            if self.medium.copy_pages(failed, target, last)? && self.medium.program_at(at, data, spare)? {
                let marked = mark_bad(&mut self.medium.nand, failed);
                marked.map_err(|error| self.capacity.worn_or(error.into()))?;
                self.blocks.reserve(target);
                self.addresses.stand_in(home, target);
                if failed != home {
                    self.blocks.retire(failed);
                }
                self.counters.blocks_replaced += 1;
                self.recount();
                debug_assert_eq!(
                    self.addresses.physical_block(home),
                    target,
                    "{home} is not where it was copied to"
                );
                return Ok(());
            }
            let given_up = self.blocks.give_up(&mut self.medium.nand, target);
            given_up.map_err(|error| self.capacity.worn_or(error.into()))?;
        }
    }

    /// Erases a block whose pages have moved. None of its pages may wait in RAM.
    pub(super) fn reclaim(&mut self, home: Pbn) -> Result<(), IndexFault> {
        let block = self.addresses.physical_block(home);
        self.addresses.end_stand_in(home);
        match self.blocks.erase(&mut self.medium.nand, block, Cause::GarbageCollection) {
            Ok(true) => self.blocks.release(block),
            Ok(false) => {}
            Err(error) => return Err(self.capacity.worn_or(error.into())),
        }
        if block != home {
            self.blocks.retire(home);
        }
        self.counters.collections += 1;
        self.recount();
        Ok(())
    }
}

impl LogConfig {
    /// Kind of gaps that this configuration may leave between programmed pages.
    pub(super) fn gaps(&self) -> Gaps {
        match (self.holds, self.write_pages) {
            (true, _) if HAS_HOLDS => Gaps::Inner,
            (_, 0) => Gaps::None,
            _ if HAS_WRITE_PART => Gaps::Narrow,
            _ => Gaps::None,
        }
    }
}
