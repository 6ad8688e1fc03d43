//! The pages of the chip: how they are read, and programmed as surely as the chip allows.

use super::page::{self, Frontier, Marks, Shape};
use super::shapes::NodeShapes;
use super::space::Space;
use crate::blocks::weak::WeakBlock;
use crate::check::{IndexError, Invariant};
use crate::codec::is_blank;
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand, NandError, Reading, is_done, read_again};
use crate::store::StoreError;
use crate::units::Ppn;
use alloc::vec;
use alloc::vec::Vec;

/// Most attempts to program a page.
const ATTEMPTS: u32 = 4;

/// The chip, and the facts known of its pages.
pub(super) struct Pages<N> {
    pub(super) nand: N,
    pub(super) shapes: NodeShapes,
    pub(super) space: Space,
    /// A page that is put together.
    pub(super) birth: Vec<u8>,
    pub(super) sequence: u32,
    pub(super) retired: u32,
    /// Block of a page that was hard to read: its pages are rewritten.
    pub(super) weak: WeakBlock,
    /// Number of pages that the round of scrubbing has passed.
    pub(super) scrubbed: u32,
    pub(super) interrupted: bool,
    /// True if the mount could not finish interrupted work. Then no more changes are allowed.
    pub(super) read_only: bool,
}

impl<N: Nand> Pages<N> {
    pub(super) fn usable(&self) -> Result<(), IndexFault> {
        if self.interrupted { Err(IndexError::Interrupted.into()) } else { Ok(()) }
    }

    pub(super) fn writable(&self) -> Result<(), IndexFault> {
        if self.read_only { Err(IndexError::WornOut.into()) } else { Ok(()) }
    }

    pub(super) fn changes_shape(&self) -> Shape {
        let value_bytes = 1 + usize::from(self.shapes.record().value_bytes);
        let page_bytes = self.space.geometry.page_bytes as usize;
        Shape::new(page_bytes, usize::from(self.shapes.record().key_bytes), value_bytes, Marks::Bare)
    }

    /// Pages that take `changes` changes.
    pub(super) fn pages_of(&self, changes: usize) -> usize {
        changes.div_ceil(self.changes_shape().capacity)
    }

    /// Reads a page into a buffer and checks that it is a sound node of this level; returns its slots in use.
    pub(super) fn read_node(
        &mut self,
        ppn: u32,
        level: u8,
        cause: Cause,
        bytes: &mut [u8],
    ) -> Result<usize, IndexFault> {
        let frontier = self.read_torn(ppn, level, cause, bytes)?;
        if frontier.is_sound() {
            return Ok(frontier.used);
        }
        // Where programs fail, what was torn may have to stay so.
        if self.read_only || self.space.has_failed(self.space.geometry.block_of(Ppn(ppn)).0) {
            return Ok(self.shapes.at(level).complete(bytes, frontier));
        }
        Err(IndexFault::broken(Invariant::O1, "a slot is torn", ppn))
    }

    /// Reads a node of this level, whose last program may have been cut short; returns the end of its slots.
    pub(super) fn read_torn(
        &mut self,
        ppn: u32,
        level: u8,
        cause: Cause,
        bytes: &mut [u8],
    ) -> Result<Frontier, IndexFault> {
        if ppn >= self.space.geometry.pages() {
            return Err(IndexFault::broken(Invariant::O2, "a child beyond the chip", ppn));
        }
        let shape = self.shapes.at(level);
        self.read_page(ppn, shape, cause, bytes)?;
        if page::level(bytes) != level || !shape.is_born(bytes, ppn) {
            return Err(IndexFault::broken(Invariant::O1, "no node of this level, or not born whole", ppn));
        }
        shape.frontier(bytes, ppn.into())
    }

    /// Reads a node, at most of this level; returns its level and one of its keys.
    pub(super) fn read_key(
        &mut self,
        ppn: u32,
        height: u8,
        cause: Cause,
    ) -> Result<(u8, Option<Vec<u8>>), IndexFault> {
        let Pages { nand, shapes, birth: bytes, .. } = self;
        let is_whole = |data: &[u8], _: &[u8]| {
            let shape = shapes.at(page::level(data));
            shape.is_born(data, ppn) && shape.frontier(data, ppn.into()).is_ok()
        };
        read_again(nand, (Ppn(ppn), cause), bytes, &mut [], is_whole)?;
        let level = page::level(bytes);
        if level == 0 || level > height {
            return Err(IndexFault::broken(Invariant::O2, "a live page of no level", ppn));
        }
        let shape = shapes.at(level);
        if !shape.is_born(bytes, ppn) {
            return Err(IndexFault::broken(Invariant::O1, "not born whole", ppn));
        }
        let used = shape.frontier(bytes, ppn.into())?.used;
        let live = (0..used).find(|&slot| shape.is_live(bytes, slot));
        Ok((level, live.map(|slot| shape.key(bytes, slot).to_vec())))
    }

    /// Reads a page. If it is not of this shape and number, it is read again; after the last attempt it is
    /// returned as it is.
    pub(super) fn read_page(
        &mut self,
        ppn: u32,
        shape: Shape,
        cause: Cause,
        bytes: &mut [u8],
    ) -> Result<(), IndexFault> {
        // What looks torn may have been read wrongly.
        let is_whole = |data: &[u8], _: &[u8]| {
            shape.is_born(data, ppn)
                && shape.frontier(data, ppn.into()).is_ok_and(|frontier| frontier.is_sound())
        };
        let reading = read_again(&mut self.nand, (Ppn(ppn), cause), bytes, &mut [], is_whole)?;
        self.note_reading(Ppn(ppn), reading);
        Ok(())
    }

    /// Reads a little of a page, for the outcome. A page that is lost is broken; whoever needs it is told.
    pub(super) fn look_on(&mut self, ppn: Ppn) -> Result<Reading, IndexFault> {
        let place = (ppn, Cause::Scrubbing);
        match read_again(&mut self.nand, place, &mut [0], &mut [], |_, _| true) {
            Ok(reading) => {
                self.note_reading(ppn, reading);
                Ok(reading)
            }
            Err(NandError::Uncorrectable(_)) => Ok(Reading::Broken),
            Err(error) => Err(error.into()),
        }
    }

    fn note_reading(&mut self, ppn: Ppn, reading: Reading) {
        let pages = self.space.geometry.pages_per_block;
        let first = ppn.0 - ppn.0 % pages;
        self.weak.note(ppn, reading, first..first + pages);
    }

    /// Programs a page. Returns false if the chip reports a failure.
    pub(super) fn program(nand: &mut N, ppn: u32, cause: Cause, bytes: &[u8]) -> Result<bool, IndexFault> {
        Ok(is_done(nand.program(Ppn(ppn), cause, bytes, &[]))?)
    }

    /// Programs a page in use, with retries. Returns false if all of them fail.
    pub(super) fn overwrite(
        &mut self,
        place: (u32, Shape),
        cause: Cause,
        bytes: &mut [u8],
    ) -> Result<bool, IndexFault> {
        match self.program_surely(place, cause, bytes) {
            Ok(()) => Ok(true),
            Err(error) if error.is_worn_out() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The contents of a page of which a program failed, and its slots in use: as a mount would find it.
    pub(super) fn reread_page(
        &mut self,
        ppn: u32,
        shape: Shape,
        cause: Cause,
    ) -> Result<(Vec<u8>, usize), IndexFault> {
        let mut bytes = vec![0xff; self.birth.len()];
        self.read_page(ppn, shape, cause, &mut bytes)?;
        let frontier = shape.frontier(&bytes, u64::from(ppn))?;
        let used = if frontier.is_halfway { shape.complete(&mut bytes, frontier) } else { frontier.used };
        Ok((bytes, used))
    }

    /// Marks a root retired, such that no mount takes it for the newest one.
    pub(super) fn retire_root(&mut self, bytes: &mut [u8], ppn: u32, cause: Cause) -> Result<(), IndexFault> {
        let shape = self.shapes.at(page::level(bytes));
        page::retire(bytes);
        // An older root that stays is retired by a mount.
        self.overwrite((ppn, shape), cause, bytes).map(drop)
    }

    /// Marks the last page of a batch retired.
    pub(super) fn retire_changes(&mut self, ppn: u32, bytes: &mut [u8]) -> Result<(), IndexFault> {
        let shape = self.read_changes(ppn, Cause::Checkpoint, bytes)?;
        page::retire(bytes);
        self.program_surely((ppn, shape), Cause::Checkpoint, bytes)
    }

    /// Reads a page of the changes of a batch; returns its shape.
    pub(super) fn read_changes(
        &mut self,
        ppn: u32,
        cause: Cause,
        bytes: &mut [u8],
    ) -> Result<Shape, IndexFault> {
        let shape = self.changes_shape();
        self.read_page(ppn, shape, cause, bytes)?;
        if shape.is_born(bytes, ppn) {
            return Ok(shape);
        }
        Err(IndexFault::broken(Invariant::O7, "changes of a batch", ppn))
    }

    /// Goes on filling the block of the newest page behind all programmed pages; its erase was complete,
    /// since pages followed. Otherwise every mount would use up free pages of a full chip.
    pub(super) fn resume_block(&mut self, newest: u32) -> Result<(), IndexFault> {
        let geometry = self.space.geometry;
        let block = geometry.block_of(Ppn(newest)).0;
        let first = block * geometry.pages_per_block;
        let mut bytes = vec![0xff; self.birth.len()];
        let mut next = geometry.pages_per_block;
        while first + next > newest + 1 && self.is_blank(first + next - 1, Cause::Recovery, &mut bytes)? {
            next -= 1;
        }
        self.space.resume(block, next);
        Ok(())
    }

    /// Whether nothing was programmed to a page. A reading that fails once says nothing: the rest of a block
    /// is at stake.
    fn is_blank(&mut self, ppn: u32, cause: Cause, bytes: &mut [u8]) -> Result<bool, IndexFault> {
        match read_again(&mut self.nand, (Ppn(ppn), cause), bytes, &mut [], |data, _| is_blank(data)) {
            Ok(_) => Ok(is_blank(bytes)),
            Err(NandError::Uncorrectable(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads a page during a search. Returns its level if it has the mark of this tree and can be read.
    pub(super) fn read_born(&mut self, ppn: u32, bytes: &mut [u8]) -> Result<Option<u8>, IndexFault> {
        if self.space.is_bad(self.space.geometry.block_of(Ppn(ppn)).0) {
            return Ok(None);
        }
        let shapes =
            [page::settings_shape(bytes.len()), self.shapes.leaf, self.shapes.inner, self.changes_shape()];
        let is_whole =
            |data: &[u8], _: &[u8]| is_blank(data) || shapes.iter().any(|shape| shape.is_born(data, ppn));
        match read_again(&mut self.nand, (Ppn(ppn), Cause::Recovery), bytes, &mut [], is_whole) {
            Ok(_) => Ok(page::has_magic(bytes).then(|| page::level(bytes))),
            Err(NandError::Uncorrectable(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Programs the completion of a node. If that fails, the node is completed in RAM each time it is read.
    pub(super) fn try_repair(&mut self, place: (u32, Shape), bytes: &mut [u8]) -> Result<(), IndexFault> {
        self.read_only |= !self.overwrite(place, Cause::Recovery, bytes)?;
        Ok(())
    }

    /// Programs a page, with retries if the chip reports a failure. [`IndexError::WornOut`] if all fail. The
    /// copy in RAM is corrected if the page had been read wrongly.
    fn program_surely(
        &mut self,
        (ppn, shape): (u32, Shape),
        cause: Cause,
        bytes: &mut [u8],
    ) -> Result<(), IndexFault> {
        let mut refused = 0;
        for _ in 0..ATTEMPTS {
            self.weak.credit.note_program();
            match Self::program(&mut self.nand, ppn, cause, bytes) {
                Ok(true) => return Ok(()),
                Ok(false) => self.program_failed(ppn),
                Err(error)
                    if matches!(*error, IndexError::Store(StoreError::Nand(NandError::SetsBits { .. }))) =>
                {
                    refused += 1;
                    if refused == ATTEMPTS {
                        return Err(error);
                    }
                    self.clear_what_is_clear(ppn, shape, cause, bytes)?;
                }
                Err(error) => return Err(error),
            }
        }
        Err(IndexError::WornOut.into())
    }

    /// Clears the bits of a copy that are clear in its page. No check covers a dead slot, so it may have been
    /// read wrongly.
    fn clear_what_is_clear(
        &mut self,
        ppn: u32,
        shape: Shape,
        cause: Cause,
        bytes: &mut [u8],
    ) -> Result<(), IndexFault> {
        let mut found = vec![0xff; bytes.len()];
        self.read_page(ppn, shape, cause, &mut found)?;
        bytes.iter_mut().zip(&found).for_each(|(byte, found)| *byte &= found);
        if !shape.is_born(bytes, ppn) {
            return Err(IndexFault::broken(Invariant::O1, "not born whole", ppn));
        }
        shape.frontier(bytes, ppn.into()).map(drop)
    }

    pub(super) fn write_settings(&mut self, cause: Cause) -> Result<u32, IndexFault> {
        let shape = page::settings_shape(self.birth.len());
        let settings = page::settings(self.shapes.record(), self.shapes.marks(), self.space.geometry);
        let sequence = self.next_sequence();
        shape.birth(&mut self.birth, (sequence, 0), false, &settings);
        self.write_birth(shape, cause)
    }

    /// Whether a block holds anything.
    pub(super) fn is_written(&mut self, block: u32, per_block: u32) -> Result<bool, IndexFault> {
        let mut bytes = vec![0xff; self.birth.len()];
        for ppn in block * per_block..(block + 1) * per_block {
            if !self.is_blank(ppn, Cause::Checkpoint, &mut bytes)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
