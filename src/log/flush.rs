//! Programming the write part of the cache.

use crate::check::IndexError;
use crate::fault::IndexFault;
use crate::log::parts::{HAS_WRITE_PART, WritePart};
use crate::log::tag::{self, Gaps, Tag};
use crate::log::{Log, WritePartLimit, parts};
use crate::nand::{Cause, Nand};
use alloc::vec::Vec;

impl<N: Nand> Log<N> {
    /// Programs the write part whole. Afterwards everything written is durable. Where that fails, the part
    /// keeps its pages and takes no more.
    pub fn flush(&mut self, cause: Cause) -> Result<(), IndexFault> {
        self.require_sound_part()?;
        if !HAS_WRITE_PART {
            return Ok(());
        }
        let slots = self.writes.take();
        let flushed = self.program_slots(&slots, cause);
        match &flushed {
            Ok(()) => {
                if let Some(first) = slots.first()
                    && slots.iter().any(|slot| slot.live && slot.tag.root)
                {
                    self.needed = self.needed.flushed(first.block_sequence);
                }
                self.writes.recycle(slots);
            }
            Err(_) => {
                self.writes.slots = slots;
                self.flush_failed = true;
            }
        }
        flushed
    }

    /// Pages that the write part holds between operations at most.
    pub(super) fn part_limit(&self) -> usize {
        self.writes.pages() + usize::from(self.config.write_part == WritePartLimit::Lenient)
    }

    /// Forgets the write part: what waits is of a batch that is given up.
    pub fn drop_written(&mut self) {
        self.writes = WritePart::new(self.config.write_pages, self.geometry.page_bytes as usize);
        (self.is_part_divided, self.passed_over) = (false, 0);
    }

    /// Programs an overfull write part between the changes of a batch. What it drops are pages of the batch,
    /// which no root leads to yet: whatever waited before was programmed when the batch began.
    pub fn relieve(&mut self) -> Result<(), IndexFault> {
        debug_assert!(self.goes_on, "what is dropped may be needed");
        if self.writes.len() > self.part_limit() { self.flush(Cause::CacheEviction) } else { Ok(()) }
    }

    /// Programs a full write part before it takes another page, in the middle of an operation, where asked
    /// for. Not after a page of the part died: the root before may lead to it, or to the one that stands in
    /// its place. Then it waits for the operation's end, as the mu-Tree paper has it (section 5.3). Nor where
    /// blocks failed: such a flush might find none.
    pub(super) fn flush_within(&mut self, cause: Cause) -> Result<(), IndexFault> {
        let divides = self.config.write_part != WritePartLimit::Operation && !self.has_failed_blocks();
        if !divides || self.is_part_divided || self.writes.len() < self.part_limit() {
            return Ok(());
        }
        debug_assert!(
            self.writes.slots.iter().all(|slot| slot.sequence > 0),
            "a page without contents is programmed"
        );
        self.flush(cause)
    }

    pub(super) fn require_sound_part(&self) -> Result<(), IndexFault> {
        if HAS_WRITE_PART && self.flush_failed { Err(IndexError::WornOut.into()) } else { Ok(()) }
    }

    fn program_slots(&mut self, slots: &[parts::Slot], cause: Cause) -> Result<(), IndexFault> {
        let g = self.geometry;
        let needed = self.needed_slots(slots);
        let mut remaining = needed.iter().filter(|needed| needed.is_some()).count();
        debug_assert!(remaining <= usize::from(u8::MAX), "{remaining} pages of one flush");
        for (slot, needed) in slots.iter().zip(&needed) {
            let Some(passed_over) = *needed else { continue };
            remaining -= 1;
            let place = tag::Place {
                remaining: remaining as u8,
                block_sequence: slot.block_sequence,
                sequence: slot.sequence,
                home: g.block_of(slot.ppn).0,
                gaps: self.gaps(),
                passed_over,
            };
            let tag = if slot.live { slot.tag } else { Tag { root: false, journal: false, ..slot.tag } };
            self.program(slot.ppn, (&tag, &place), &slot.data, cause)?;
        }
        debug_assert_eq!(remaining, 0, "a page of the flush was not programmed");
        Ok(())
    }

    /// Which slots must be programmed, and how many are passed over before each: the live ones, and dead ones
    /// where a hole would hide something. As first page of a block it would hide the block from a mount, as
    /// last page its valid bits, and in a longer row of holes where a cut struck.
    fn needed_slots(&mut self, slots: &[parts::Slot]) -> Vec<Option<u8>> {
        let last = self.geometry.pages_per_block - 1;
        let needed = |slot: &parts::Slot| {
            let is_edge = [0, last].contains(&self.geometry.page_in_block(slot.ppn));
            let is_needed = slot.live || is_edge || self.passed_over == Gaps::NARROW;
            let passed_over = self.passed_over;
            debug_assert!(self.passed_over <= Gaps::NARROW, "{} pages are passed over", self.passed_over);
            self.passed_over = if is_needed { 0 } else { passed_over + 1 };
            is_needed.then_some(passed_over as u8)
        };
        slots.iter().map(needed).collect()
    }
}
