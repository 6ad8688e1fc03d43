//! For tests: a chip that gives back something else than it holds.

use super::{Cause, Geometry, Nand, NandError, ReadOutcome};
use crate::units::{Pbn, Ppn};
use alloc::boxed::Box;

/// A chip of which each read passes through a function that may change data and spare area.
pub(crate) struct Misread<N, F> {
    pub(crate) chip: N,
    pub(crate) spoil: F,
}

impl<N: Nand, F: FnMut(Ppn, Cause, &mut [u8], &mut [u8]) + Send> Nand for Misread<N, F> {
    fn geometry(&self) -> Geometry {
        self.chip.geometry()
    }

    fn read(
        &mut self,
        ppn: Ppn,
        cause: Cause,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadOutcome, NandError> {
        let outcome = self.chip.read(ppn, cause, data, spare)?;
        (self.spoil)(ppn, cause, data, spare);
        Ok(outcome)
    }

    fn program(&mut self, ppn: Ppn, cause: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        self.chip.program(ppn, cause, data, spare)
    }

    fn erase(&mut self, pbn: Pbn, cause: Cause) -> Result<(), NandError> {
        self.chip.erase(pbn, cause)
    }

    fn is_bad(&mut self, pbn: Pbn) -> Result<bool, NandError> {
        self.chip.is_bad(pbn)
    }

    fn mark_bad(&mut self, pbn: Pbn) -> Result<(), NandError> {
        self.chip.mark_bad(pbn)
    }
}

/// The fault that spoils a read of a page.
pub(crate) type Spoil = Box<dyn FnMut(Ppn, Cause, &mut [u8], &mut [u8]) + Send>;

/// A chip on which bits of one page, counted from the first of the data area, read wrongly for ever.
pub(crate) fn with_wrong_bits<N: Nand>(chip: N, page: Ppn, bits: &[usize]) -> Misread<N, Spoil> {
    let (page_bytes, bits) = (chip.geometry().page_bytes as usize, bits.to_vec());
    let spoil = move |ppn: Ppn, _: Cause, data: &mut [u8], spare: &mut [u8]| {
        for &bit in bits.iter().filter(|_| ppn == page) {
            let place = match (bit / 8).checked_sub(page_bytes) {
                None => data.get_mut(bit / 8),
                Some(byte) => spare.get_mut(byte),
            };
            if let Some(byte) = place {
                *byte ^= 1 << (bit % 8);
            }
        }
    };
    Misread { chip, spoil: Box::new(spoil) }
}
