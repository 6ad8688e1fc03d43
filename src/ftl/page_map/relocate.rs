//! Moves of valid pages: out of victims to gain room, out of cold blocks to even out wear, and out of failing
//! blocks.
//!
//! All three are one operation, *evacuate*: (1) copy the valid pages under their versions to the frontier for
//! moved pages, (2) write a record if the block differs from the last one, (3) give the block back, or retire
//! it. A page that cannot be read is lost, and (2) records that: otherwise an older version of it might be
//! taken for the newest after a power cut.

use super::state::{LOST, State, Stream};
use super::{Core, Work};
use crate::blocks::spare::{Found, Header, PageKind, read_page, read_told_page};
use crate::blocks::wear::Move;
use crate::fault::StoreFault;
use crate::nand::{Cause, Nand, Reading};
use crate::store::StoreError;
use crate::units::{Lpn, Pbn, Ppn};

impl<N: Nand + ?Sized> Work<'_, N> {
    /// Collects garbage until the host may take the blocks for `pages` pages in each frontier (P4), and
    /// levels wear.
    pub(super) fn make_room(&mut self, pages: [u32; 2]) -> Result<(), StoreFault> {
        for stream in [Stream::Host, Stream::Relocation] {
            if pages[stream as usize] > 0 && self.core.state.room(stream) == 0 {
                self.core.leave(stream);
            }
        }
        self.collect_for(pages)?;
        match self.level_wear() {
            // Levelling can wait; the write may still find room.
            Err(error) if !error.is_full() => Err(error),
            _ => self.collect_for(pages),
        }
    }

    fn collect_for(&mut self, pages: [u32; 2]) -> Result<(), StoreFault> {
        // A collection may take room from a frontier that is shared.
        let floor = self.core.limits.floor_blocks;
        while self.core.state.blocks.free_count() < floor + self.core.state.blocks_wanted(pages) {
            self.collect()?;
        }
        Ok(())
    }

    pub(super) fn collect(&mut self) -> Result<(), StoreFault> {
        let Core { state, settings, .. } = &mut *self.core;
        let victim = state.blocks.victim(settings.victim).ok_or(StoreError::Full)?;
        debug_assert!(state.frontier_in(victim).is_none(), "the frontier {victim} is a victim");
        self.core.counters.collections += 1;
        self.evacuate(victim, Cause::GarbageCollection)
    }

    /// Moves the block that the leveller names. Cold data get a block of their own, the worn one if one is
    /// named: among short-lived pages they would soon be moved again.
    fn level_wear(&mut self) -> Result<(), StoreFault> {
        let Core { leveller, state: State { blocks, .. }, geometry, counters, .. } = &mut *self.core;
        let Some(Move { cold, worn }) = leveller.next_move(blocks) else { return Ok(()) };
        debug_assert!(worn.is_none_or(|pbn| blocks.state(pbn).is_free()), "{worn:?} is in use");
        counters.levelled_blocks += 1;
        if 4 * blocks.valid_count(cold) < 3 * geometry.pages_per_block {
            return self.evacuate(cold, Cause::WearLevelling);
        }
        let copied = self
            .open_for_levelling(worn)
            .and_then(|()| self.copy_out(cold, Stream::Levelling, Cause::WearLevelling));
        self.core.leave(Stream::Levelling);
        copied?;
        self.give_back(cold)
    }

    /// Opens the worn block, if one is named, for the data of a cold block.
    fn open_for_levelling(&mut self, worn: Option<Pbn>) -> Result<(), StoreFault> {
        let Some(pbn) = worn else { return Ok(()) };
        if self.core.state.blocks.claim_erased(self.nand, pbn, Cause::WearLevelling)? {
            self.core.start(Stream::Levelling, pbn);
        }
        Ok(())
    }

    /// Retires blocks that failed, apart from the pages that the host has submitted.
    pub(super) fn retire_doomed_apart(&mut self) -> Result<(), StoreFault> {
        if self.core.doomed.is_empty() { Ok(()) } else { self.outside_batch(Work::retire_doomed) }
    }

    /// Does work of the FTL itself outside of the host's batch: it waits for the pages that the host has
    /// submitted.
    pub(super) fn outside_batch(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<(), StoreFault>,
    ) -> Result<(), StoreFault> {
        self.wait_for_group()?;
        let open = self.core.batches;
        (0..open).for_each(|_| self.nand.end_batch());
        let done = work(self);
        (0..open).for_each(|_| self.nand.begin_batch());
        done
    }

    /// Empties and retires the blocks in which a program failed, as far as there is room.
    pub(super) fn retire_doomed(&mut self) -> Result<(), StoreFault> {
        while let Some(&pbn) = self.core.doomed.last() {
            match self.evacuate(pbn, Cause::GarbageCollection) {
                Ok(()) => {}
                Err(error) if error.is_full() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn evacuate(&mut self, pbn: Pbn, cause: Cause) -> Result<(), StoreFault> {
        self.copy_out(pbn, self.core.stream_of_moves(), cause)?;
        self.give_back(pbn)
    }

    /// Does step 1.
    fn copy_out(&mut self, pbn: Pbn, stream: Stream, cause: Cause) -> Result<(), StoreFault> {
        let mut page = 0;
        while let Some(ppn) = self.core.state.blocks.next_valid(pbn, page) {
            self.relocate(ppn, stream, cause)?;
            page = self.core.geometry.page_in_block(ppn) + 1;
        }
        debug_assert_eq!(self.core.state.blocks.valid_count(pbn), 0, "P1: {pbn} was not emptied");
        Ok(())
    }

    /// Does steps 2 and 3.
    fn give_back(&mut self, pbn: Pbn) -> Result<(), StoreFault> {
        debug_assert!(self.core.state.blocks.valid_count(pbn) == 0, "{pbn} was not emptied");
        if self.core.records.precedes_return_of(pbn) {
            self.write_record()?;
        }
        self.core.records.changes.touch(pbn);
        if let Some(i) = self.core.doomed.iter().position(|&d| d == pbn) {
            self.core.state.blocks.give_up(self.nand, pbn)?;
            self.core.doomed.swap_remove(i);
            self.core.counters.retired_blocks += 1;
        } else {
            self.core.state.blocks.discard(pbn);
        }
        Ok(())
    }

    /// Moves a valid page, or gives up one that cannot be read.
    fn relocate(&mut self, ppn: Ppn, stream: Stream, cause: Cause) -> Result<(), StoreFault> {
        if !self.core.records.changes.has_room_for(1) {
            self.write_record()?;
        }
        let mut data = core::mem::take(&mut self.core.page);
        let moved = self.relocate_through(ppn, stream, cause, &mut data);
        self.core.page = data;
        moved
    }

    fn relocate_through(
        &mut self,
        ppn: Ppn,
        stream: Stream,
        cause: Cause,
        data: &mut [u8],
    ) -> Result<(), StoreFault> {
        match read_page(self.nand, ppn, cause, data)? {
            Found::Page(header, _) if self.core.state.is_current(header, ppn) => {
                self.move_page((header, ppn), stream, cause, data)
            }
            _ => {
                self.core.lose(ppn);
                Ok(())
            }
        }
    }

    /// Programs a valid page elsewhere, under its version.
    fn move_page(
        &mut self,
        (header, ppn): (Header, Ppn),
        stream: Stream,
        cause: Cause,
        data: &[u8],
    ) -> Result<(), StoreFault> {
        let (state, lpn) = (&self.core.state, Lpn(header.number));
        debug_assert!(state.blocks.is_valid(ppn), "P1: {ppn} moves and is not valid");
        debug_assert!(state.map.get(lpn.index()) == ppn.0, "P1: {ppn} moves and is not mapped");
        let copy = self.program(stream, Header { kind: PageKind::Copy, ..header }, data, cause)?;
        debug_assert_ne!(copy, ppn, "P1: {ppn} was moved to itself");
        self.core.counters.moved_pages += 1;
        self.core.state.remap(lpn, copy);
        self.core.records.note(lpn);
        Ok(())
    }

    /// Looks at up to `budget` pages of the block of a weak page, and moves those that needed a correction,
    /// if there is room. A page that is lost by now stays.
    pub(super) fn empty_weak(&mut self, budget: u32) -> Result<(), StoreFault> {
        for _ in 0..budget {
            let Some(ppn) = self.core.weak.take() else { break };
            let looked = self.look_at_weak(ppn);
            self.core.weak.rest();
            match looked {
                Err(error) if error.is_full() => self.core.weak.give_up(),
                done => done?,
            }
        }
        Ok(())
    }

    fn look_at_weak(&mut self, ppn: Ppn) -> Result<(), StoreFault> {
        if !self.core.state.blocks.is_valid(ppn) {
            return Ok(());
        }
        let stream = self.core.stream_of_moves();
        let Core { state, limits, .. } = &*self.core;
        if state.room(stream) == 0 && state.blocks.free_count() <= limits.floor_blocks {
            // On a chip that has been in use for long, room comes only by collection.
            let mut pages = [0; 2];
            pages[stream as usize] = 1;
            self.collect_for(pages)?;
        }
        if !self.core.records.changes.has_room_for(1) {
            self.write_record()?;
        }
        let (mut data, cause) = (core::mem::take(&mut self.core.page), Cause::Scrubbing);
        let moved = match read_told_page(self.nand, ppn, cause, &mut data) {
            Ok((_, Reading::Whole)) => Ok(()),
            Ok((Found::Page(header, _), _)) if self.core.state.is_current(header, ppn) => {
                self.move_page((header, ppn), stream, cause, &data)
            }
            found => found.map(drop),
        };
        self.core.page = data;
        moved
    }
}

impl Core {
    /// Notes how a page was read: the pages of the block of a weak one are looked at by the next writes.
    pub(super) fn note_reading(&mut self, ppn: Ppn, reading: Reading) {
        let pbn = self.geometry.block_of(ppn);
        let programmed = self.state.frontier_in(pbn).map(|frontier| frontier.next);
        let first = self.geometry.page_at(pbn, 0).0;
        let pages = programmed.unwrap_or(self.geometry.pages_per_block);
        self.weak.note(ppn, reading, first..first + pages);
    }

    /// Gives up a valid page that cannot be read. The map is searched for its logical page.
    fn lose(&mut self, ppn: Ppn) {
        debug_assert!(self.state.blocks.is_valid(ppn), "P1: {ppn} is lost and was not valid");
        let lpn = self.state.map.iter().position(|place| place == ppn.0);
        if let Some(lpn) = lpn {
            self.state.map.set(lpn, LOST);
            self.counters.lost_pages += 1;
            self.records.note(Lpn(lpn as u32));
        }
        self.state.blocks.invalidate(ppn);
        self.records.changes.touch(self.geometry.block_of(ppn));
    }
}
