//! Programming of the write part of the cache.

use super::WritePartLimit;
use super::parts::{HAS_WRITE_PART, Slot, WritePart};
use super::tag::{Gaps, Place, Tag};
use super::tape::Tape;
use crate::check::IndexError;
use crate::fault::IndexFault;
use crate::nand::{Cause, Geometry, Nand};
use alloc::vec::Vec;

impl WritePart {
    /// Programs the whole write part. Afterwards everything written is durable. If that fails, the part keeps
    /// its pages and takes no more.
    pub(super) fn flush<N: Nand>(&mut self, tape: &mut Tape<N>, cause: Cause) -> Result<(), IndexFault> {
        self.require_sound()?;
        if !HAS_WRITE_PART {
            return Ok(());
        }
        let slots = self.take();
        let flushed = self.program(tape, &slots, cause);
        match &flushed {
            Ok(()) => {
                if let Some(first) = slots.first()
                    && slots.iter().any(|slot| slot.live && slot.tag.root)
                {
                    tape.head.note_flush(first.block_sequence);
                }
                self.recycle(slots);
            }
            Err(_) => {
                self.slots = slots;
                self.has_failed = true;
            }
        }
        flushed
    }

    /// Programs the part if it has more pages than it may hold between operations.
    pub(super) fn flush_if_over<N: Nand>(&mut self, tape: &mut Tape<N>) -> Result<(), IndexFault> {
        if self.len() > self.most(tape.config.write_part) {
            self.flush(tape, Cause::CacheEviction)
        } else {
            Ok(())
        }
    }

    /// Largest number of pages that the part holds between operations.
    fn most(&self, limit: WritePartLimit) -> usize {
        self.pages() + usize::from(limit == WritePartLimit::Lenient)
    }

    /// Programs a full write part before it takes another page, in the middle of an operation, if the
    /// configuration asks for that. After a page of the part died it waits for the end of the operation, as
    /// in the mu-Tree paper (section 5.3): the root before may lead to that page, or to the one in its place.
    /// It also waits after blocks failed, since such a flush might find no block.
    pub(super) fn flush_within<N: Nand>(
        &mut self,
        tape: &mut Tape<N>,
        cause: Cause,
    ) -> Result<(), IndexFault> {
        let limit = tape.config.write_part;
        let divides = limit != WritePartLimit::Operation && !tape.capacity.has_failed_blocks();
        if !divides || self.is_divided || self.len() < self.most(limit) {
            return Ok(());
        }
        debug_assert!(
            self.slots.iter().all(|slot| slot.sequence > 0),
            "a page without contents is programmed"
        );
        self.flush(tape, cause)
    }

    pub(super) fn require_sound(&self) -> Result<(), IndexFault> {
        if HAS_WRITE_PART && self.has_failed { Err(IndexError::WornOut.into()) } else { Ok(()) }
    }

    fn program<N: Nand>(
        &mut self,
        tape: &mut Tape<N>,
        slots: &[Slot],
        cause: Cause,
    ) -> Result<(), IndexFault> {
        let g = tape.medium.geometry;
        let needed = self.needed_slots(g, slots);
        let mut remaining = needed.iter().filter(|needed| needed.is_some()).count();
        debug_assert!(remaining <= usize::from(u8::MAX), "{remaining} pages of one flush");
        for (slot, needed) in slots.iter().zip(&needed) {
            let Some(passed_over) = *needed else { continue };
            remaining -= 1;
            let place = Place {
                remaining: remaining as u8,
                block_sequence: slot.block_sequence,
                sequence: slot.sequence,
                home: g.block_of(slot.ppn).0,
                gaps: tape.config.gaps(),
                passed_over,
            };
            let tag = if slot.live { slot.tag } else { Tag { root: false, journal: false, ..slot.tag } };
            tape.put_tag(slot.ppn, &tag, &place);
            tape.program(slot.ppn, &slot.data, cause)?;
        }
        debug_assert_eq!(remaining, 0, "a page of the flush was not programmed");
        Ok(())
    }

    /// Decides which slots must be programmed, and how many are passed over before each. Live pages must be,
    /// and dead ones if a hole would hide something: as first page of a block the hole would hide the block
    /// from a mount, as last page the block's valid bits, and in a longer row of holes the place that a cut
    /// hit.
    fn needed_slots(&mut self, geometry: Geometry, slots: &[Slot]) -> Vec<Option<u8>> {
        let last = geometry.pages_per_block - 1;
        let needed = |slot: &Slot| {
            let is_edge = [0, last].contains(&geometry.page_in_block(slot.ppn));
            let is_needed = slot.live || is_edge || self.passed_over == Gaps::NARROW;
            let passed_over = self.passed_over;
            debug_assert!(self.passed_over <= Gaps::NARROW, "{} pages are passed over", self.passed_over);
            self.passed_over = if is_needed { 0 } else { passed_over + 1 };
            is_needed.then_some(passed_over as u8)
        };
        slots.iter().map(needed).collect()
    }
}
