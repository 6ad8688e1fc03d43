//! Writing: makes room for a group, programs its pages, then changes the map.
//!
//! # Barriers
//!
//! A chip with barriers ([`Nand::waits`]) may keep any of the programs since the last [`Nand::barrier`], each
//! whole or torn, and an erase in part. There are barriers wherever a mount relies on an order:
//!
//! - *Before the last page of a group*: this page commits the others, and every version up to it is required.
//! - *After the last page*: the write is acknowledged. So that page is alone between two barriers. After a
//!   group that is written ahead (`write_ahead`) this barrier is delayed: the pages of the next group may
//!   precede it, but not the last of them, and nothing else.
//! - *Before each page of a note, or of a checkpoint appended to others*: the record tells where copies are,
//!   and a page that is lost among whole pages of its record is damage.
//! - *Before each copy of a reference, and behind the last*: before the reference, no page of a checkpoint in
//!   new blocks is read; after it, the blocks of the old checkpoint are freed.
//! - *Before an erase and behind it*, by the chip itself: the erase may remove the originals of copies, and
//!   pages that a record no longer needs (P6), and no old page may lie among new ones. So the blocks of a
//!   group are erased together, ahead of it.
//! - *At the end of `sync` and of a checkpoint*, which promise that their writes are durable.
//!
//! So a cut may damage only copies, pages of a group without its last page, a checkpoint without a reference,
//! and a last note with such pages behind it. A missing copy has its original. Pages of the group are beyond
//! the horizon, which only copies and last pages raise. If two missing pages hide others behind them, these
//! are of the same kinds: none is needed, no frontier goes on behind them, and the block is erased before it
//! is used. If a note is missing, the one before remains, and every page since.

use super::settings::Separation;
use super::state::{Frontier, Stream, VERSION_BITS};
use super::{Core, Work, worn_out};
use crate::blocks::spare::{Header, PageKind, checksum};
use crate::blocks::weak::LOOKS;
use crate::blocks::{BlockState, Wear};
use crate::codec::numbers;
use crate::fault::StoreFault;
use crate::nand::{Cause, Nand, NandError};
use crate::store::StoreError;
use crate::units::{Lpn, Pbn, Ppn};

impl<N: Nand + ?Sized> Work<'_, N> {
    /// Programs a group and then changes the map. After an error nothing of the group has happened, and a
    /// mount will find nothing of it.
    pub(super) fn write_group(
        &mut self,
        pages: &[(Lpn, &[u8])],
        cause: Cause,
        waits: bool,
    ) -> Result<(), StoreFault> {
        for (lpn, data) in pages {
            self.core.state.page_of(*lpn)?;
            self.core.require_page(data.len())?;
        }
        if self.core.state.next_version >= numbers(VERSION_BITS) || !self.core.records.has_numbers() {
            return Err(StoreError::WornOut.into());
        }
        self.prepare(pages).map_err(worn_out)?;
        self.nand.begin_batch();
        let programmed = self.program_group(pages, cause, waits);
        self.nand.end_batch();
        programmed.map_err(worn_out)?;
        debug_assert!(self.core.group.len() == pages.len(), "a page of the group has no place");
        self.core.state.committed = self.core.state.next_version - 1;
        for (i, (lpn, _)) in pages.iter().enumerate() {
            self.core.state.remap(*lpn, self.core.group[i]);
            self.core.records.note(*lpn);
        }
        self.core.counters.host_writes += pages.len() as u64;
        // If the repetition of the failed page were erased first, a mount could not tell that page from a
        // committed one that is gone.
        let retired = self.retire_doomed_apart();
        self.core.records.stale |= !self.core.doomed.is_empty();
        match retired {
            // The group is on the chip: if a failed block still needs room, the next group is refused.
            Err(error) if error.is_refusal() => Ok(()),
            done => done,
        }
    }

    /// Programs the pages of a group and notes their places.
    pub(super) fn program_group(
        &mut self,
        pages: &[(Lpn, &[u8])],
        cause: Cause,
        waits: bool,
    ) -> Result<(), StoreFault> {
        self.core.group.clear();
        for (i, (lpn, data)) in pages.iter().enumerate() {
            let kind = if i + 1 < pages.len() { PageKind::More } else { PageKind::Host };
            if kind == PageKind::Host {
                self.wait()?;
            }
            let version = self.core.state.next_version;
            let header = Header { kind, number: lpn.0, version, extra: 0 };
            match self.program(self.core.stream_of(*lpn), header, data, cause) {
                Ok(ppn) => self.core.group.push(ppn),
                Err(error) => {
                    self.core.records.stale |= !self.core.group.is_empty();
                    return Err(error);
                }
            }
            self.core.state.next_version += 1;
        }
        self.core.owes_barrier = true;
        if waits { self.wait() } else { Ok(()) }
    }

    pub(super) fn wait(&mut self) -> Result<(), StoreFault> {
        self.nand.barrier()?;
        self.core.owes_barrier = false;
        Ok(())
    }

    /// Waits for a group that was written ahead.
    pub(super) fn wait_for_group(&mut self) -> Result<(), StoreFault> {
        if self.core.owes_barrier { self.wait() } else { Ok(()) }
    }

    /// Does the work that must be done before a group is programmed without interruption.
    pub(super) fn prepare(&mut self, pages: &[(Lpn, &[u8])]) -> Result<(), StoreFault> {
        if self.core.records.wants_checkpoint(self.core.limits.checkpoint_interval) {
            self.outside_batch(Work::checkpoint)?;
        } else if self.core.records.changes.fill_a_note(pages.len()) {
            self.outside_batch(Work::write_record)?;
        }
        self.retire_doomed_apart()?;
        if self.core.weak.is_due() {
            self.outside_batch(|work| work.empty_weak(LOOKS))?;
        }
        let mut wanted = [0; 2];
        if let Some(filter) = self.core.hot.as_mut().filter(|_| cfg!(feature = "full")) {
            pages.iter().for_each(|(lpn, _)| filter.note_write(*lpn));
        }
        pages.iter().for_each(|(lpn, _)| wanted[self.core.stream_of(*lpn) as usize] += 1);
        if self.core.state.blocks_wanted(wanted) > 0 {
            self.outside_batch(|work| work.make_room(wanted))?;
        }
        // Moves may have taken the rest of the note's page.
        if !self.core.records.takes(pages.len()) {
            self.outside_batch(Work::write_record)?;
        }
        if self.nand.waits() {
            // All blocks at once: then copies, records and erases wait once.
            let blocks = self.core.state.blocks_wanted([wanted[Stream::Host as usize], 0]);
            self.core.state.blocks.erase_ahead(self.nand, blocks, Cause::GarbageCollection)?;
        }
        Ok(())
    }

    /// Programs the next page of a frontier. If a program fails, the block is doomed, and the page is
    /// programmed in another.
    pub(super) fn program(
        &mut self,
        stream: Stream,
        mut header: Header,
        data: &[u8],
        cause: Cause,
    ) -> Result<Ppn, StoreFault> {
        loop {
            let frontier = self.frontier_with_room(stream)?;
            let Core { state, geometry, .. } = &mut *self.core;
            let ppn = geometry.page_at(frontier.pbn, frontier.next);
            debug_assert!(state.blocks.state(frontier.pbn) == BlockState::Open, "a frontier is open");
            debug_assert!(frontier.next < geometry.pages_per_block, "the frontier's block is full");
            debug_assert!(!state.blocks.is_valid(ppn), "P1: {ppn} is valid and programmed again");
            header.extra = state.stamp_of(frontier.pbn);
            let spare = header.seal(ppn, data);
            state.frontiers[stream as usize] = Some(Frontier { next: frontier.next + 1, ..frontier });
            self.core.records.changes.touch(frontier.pbn);
            self.core.weak.credit.note_program();
            match self.nand.program(ppn, cause, data, &spare) {
                Ok(()) => {
                    if frontier.next == 0 {
                        self.core.state.first_crc[frontier.pbn.index()] = checksum(&spare);
                    }
                    return Ok(ppn);
                }
                Err(NandError::ProgramFailed(_) | NandError::BadBlock(_)) => {
                    self.core.leave(stream);
                    self.core.doomed.push(frontier.pbn);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    pub(super) fn frontier_with_room(&mut self, stream: Stream) -> Result<Frontier, StoreFault> {
        if let Some(frontier) = self.core.state.frontiers[stream as usize]
            && frontier.next < self.core.geometry.pages_per_block
        {
            return Ok(frontier);
        }
        self.core.leave(stream);
        let wear = if stream == Stream::Host { Wear::Least } else { Wear::Most };
        let blocks = &mut self.core.state.blocks;
        let cause = if stream == Stream::Levelling { Cause::WearLevelling } else { Cause::GarbageCollection };
        let pbn = blocks.take_erased(self.nand, wear, cause)?;
        Ok(self.core.start(stream, pbn))
    }
}

impl Core {
    /// Makes an open, erased block the frontier of a stream.
    pub(super) fn start(&mut self, stream: Stream, pbn: Pbn) -> Frontier {
        debug_assert_eq!(self.state.blocks.state(pbn), BlockState::Open, "{pbn} is no frontier");
        debug_assert_eq!(self.state.blocks.valid_count(pbn), 0, "P1: {pbn} is erased and has valid pages");
        self.state.first_crc[pbn.index()] = 0;
        self.records.open(pbn);
        let frontier = Frontier { pbn, next: 0 };
        self.state.frontiers[stream as usize] = Some(frontier);
        frontier
    }

    /// Closes the frontier of a stream.
    pub(super) fn leave(&mut self, stream: Stream) {
        if let Some(frontier) = self.state.frontiers[stream as usize].take() {
            self.state.blocks.close(frontier.pbn);
            self.records.changes.touch(frontier.pbn);
        }
    }

    /// Frontier for a page that the host writes.
    pub(super) fn stream_of(&self, lpn: Lpn) -> Stream {
        match &self.hot {
            Some(filter) if cfg!(feature = "full") && !filter.is_hot(lpn) => Stream::Relocation,
            _ => Stream::Host,
        }
    }

    /// Frontier for pages that move.
    pub(super) fn stream_of_moves(&self) -> Stream {
        if self.settings.separation == Separation::None { Stream::Host } else { Stream::Relocation }
    }
}
