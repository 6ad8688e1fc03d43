//! The chip as the engine sees it.

use crate::bus::SerialBus;
use crate::driver::SpiNand;
use crate::ecc::Verdict;
use crate::fault::Fault;
use crate::parts::SPARE_MAX;
use embedded_hal::delay::DelayNs;
use nandex::nand::{NandError, ReadOutcome};
use nandex::shared::MaybeSend;
use nandex::{Cause, Geometry, Nand, Pbn, Ppn};

/// Bits of a mark that a good block has at least.
const MARK_BITS: u32 = 7;

impl<S: SerialBus, D: DelayNs> SpiNand<S, D> {
    /// A fault of bus or part: nothing more is known of the chip.
    fn gone<T>(&mut self, outcome: Result<T, Fault>) -> Result<T, NandError> {
        outcome.map_err(|fault| {
            self.note_fault(fault);
            NandError::Device(fault.code())
        })
    }

    /// Loads a page into the buffer of the part. Returns the result of the ECC. A page counts as lost only if
    /// the part is still as prepared.
    fn fetched(&mut self, ppn: Ppn) -> Result<ReadOutcome, NandError> {
        let verdict = self.fetch(ppn);
        let verdict = self.gone(verdict)?;
        self.note_verdict(ppn, verdict);
        let Verdict::Corrected(bits) = verdict else {
            return Err(self.unless_reset(NandError::Uncorrectable(ppn)));
        };
        Ok(ReadOutcome::corrected(bits.into(), self.part.ecc.strength().into()))
    }

    /// This error of a page or block, unless the part was reset.
    fn unless_reset(&mut self, error: NandError) -> NandError {
        let prepared = self.require_prepared();
        self.gone(prepared).err().unwrap_or(error)
    }

    fn check_page(&self, ppn: Ppn, data: usize, spare: usize) -> Result<(), NandError> {
        let geometry = self.part.geometry();
        if ppn.0 >= geometry.pages() {
            return Err(NandError::PageOutOfRange(ppn));
        }
        if data > geometry.page_bytes as usize || spare > geometry.spare_bytes as usize {
            return Err(NandError::BufferTooLong(ppn));
        }
        Ok(())
    }

    fn first_page(&self, pbn: Pbn) -> Result<Ppn, NandError> {
        let geometry = self.part.geometry();
        if pbn.0 >= geometry.blocks {
            return Err(NandError::BlockOutOfRange(pbn));
        }
        Ok(geometry.page_at(pbn, 0))
    }

    /// Length of the spare area's prefix that contains `user` free bytes.
    fn raw_end(&self, user: usize) -> usize {
        let (mut left, mut end) = (user, 0);
        for &(offset, length) in self.part.free {
            if left == 0 {
                break;
            }
            let taken = left.min(usize::from(length));
            end = usize::from(offset) + taken;
            left -= taken;
        }
        end
    }

    /// The places of the user's bytes in the spare area.
    fn places(&self) -> impl Iterator<Item = usize> + use<S, D> {
        self.part.free.iter().flat_map(|&(offset, length)| usize::from(offset)..usize::from(offset + length))
    }

    /// Reads the first spare byte of a block's first page without ECC, which does not cover the mark.
    fn mark(&mut self, first: Ppn) -> Result<u8, Fault> {
        let mut mark = [0];
        self.fetch(first)?;
        self.take(first, self.part.page_bytes, &mut mark)?;
        Ok(mark[0])
    }
}

impl<S: SerialBus + MaybeSend, D: DelayNs + MaybeSend> Nand for SpiNand<S, D> {
    fn geometry(&self) -> Geometry {
        self.part.geometry()
    }

    fn read(
        &mut self,
        ppn: Ppn,
        _: Cause,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadOutcome, NandError> {
        self.check_page(ppn, data.len(), spare.len())?;
        let outcome = self.fetched(ppn)?;
        if !data.is_empty() {
            let taken = self.take(ppn, 0, data);
            self.gone(taken)?;
        }
        let Some((mark, user)) = spare.split_first_mut() else { return Ok(outcome) };
        *mark = 0xff;
        let mut raw = [0xff; SPARE_MAX];
        let raw = &mut raw[..self.raw_end(user.len())];
        if !raw.is_empty() {
            let taken = self.take(ppn, self.part.page_bytes, raw);
            self.gone(taken)?;
            user.iter_mut().zip(self.places()).for_each(|(byte, at)| *byte = raw[at]);
        }
        Ok(outcome)
    }

    /// The part sends its register from any column on.
    fn read_at(&mut self, ppn: Ppn, _: Cause, from: u32, data: &mut [u8]) -> Result<ReadOutcome, NandError> {
        self.check_page(ppn, from as usize + data.len(), 0)?;
        let outcome = self.fetched(ppn)?;
        if !data.is_empty() {
            let taken = self.take(ppn, from, data);
            self.gone(taken)?;
        }
        Ok(outcome)
    }

    fn program(&mut self, ppn: Ppn, _: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        self.check_page(ppn, data.len(), spare.len())?;
        let user = spare.get(1..).unwrap_or_default();
        let mut raw = [0xff; SPARE_MAX];
        user.iter().zip(self.places()).for_each(|(byte, at)| raw[at] = *byte);
        let written = self.write(ppn, data, &raw[..self.raw_end(user.len())]);
        if self.gone(written)? {
            return Ok(());
        }
        self.counts.failed_programs = self.counts.failed_programs.saturating_add(1);
        Err(self.unless_reset(NandError::ProgramFailed(ppn)))
    }

    fn erase(&mut self, pbn: Pbn, _: Cause) -> Result<(), NandError> {
        // An erase takes a mark of the factory away, and nobody can tell any more.
        if self.is_bad(pbn)? {
            return Err(NandError::BadBlock(pbn));
        }
        let first = self.first_page(pbn)?;
        let erased = self.erase_at(first);
        if self.gone(erased)? {
            return Ok(());
        }
        self.counts.failed_erases = self.counts.failed_erases.saturating_add(1);
        Err(self.unless_reset(NandError::EraseFailed(pbn)))
    }

    fn is_bad(&mut self, pbn: Pbn) -> Result<bool, NandError> {
        let first = self.first_page(pbn)?;
        let mark = self.mark(first);
        // No ECC covers the mark: one bit of it may flip.
        let is_bad = self.gone(mark)?.count_ones() < MARK_BITS;
        let prepared = if is_bad { self.require_prepared() } else { Ok(()) };
        self.gone(prepared)?;
        Ok(is_bad)
    }

    /// A block whose first page can no longer be programmed cannot be marked: `BadBlock`.
    fn mark_bad(&mut self, pbn: Pbn) -> Result<(), NandError> {
        let first = self.first_page(pbn)?;
        let written = self.write_raw(first, &[0]);
        // A failing block may report a failure and hold the mark nevertheless.
        self.gone(written)?;
        if self.is_bad(pbn)? { Ok(()) } else { Err(NandError::BadBlock(pbn)) }
    }
}
