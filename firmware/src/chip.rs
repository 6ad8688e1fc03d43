//! A chip whose cells are RAM: what a driver for a real part looks like to the engine.
//!
//! The cells lie in a section of their own that no start-up code touches, so they stay through a reset as
//! flash does.

use core::cell::UnsafeCell;
use nandex::nand::ReadOutcome;
use nandex::{Cause, Geometry, Nand, NandError, Pbn, Ppn};

const PAGE_BYTES: usize = 2048;
const SPARE_BYTES: usize = 64;
const PAGES_PER_BLOCK: usize = 64;
const BLOCKS: usize = 40;
const WHOLE_PAGE: usize = PAGE_BYTES + SPARE_BYTES;

const GEOMETRY: Geometry =
    Geometry::new(PAGE_BYTES as u32, SPARE_BYTES as u32, PAGES_PER_BLOCK as u32, BLOCKS as u32);

#[repr(align(4))]
struct Cells(UnsafeCell<[u8; BLOCKS * PAGES_PER_BLOCK * WHOLE_PAGE]>);

// SAFETY: one thread, and `Chip::attach` is called by `main` alone, which has one chip at a time.
unsafe impl Sync for Cells {}

#[unsafe(link_section = ".chip")]
static CELLS: Cells = Cells(UnsafeCell::new([0; BLOCKS * PAGES_PER_BLOCK * WHOLE_PAGE]));

/// The one chip of the board.
pub struct Chip(&'static mut [u8]);

impl Chip {
    /// Takes hold of the chip, as a driver does after a reset.
    ///
    /// # Safety
    ///
    /// No other `Chip` is there.
    pub unsafe fn attach() -> Chip {
        // SAFETY: the caller vouches that there is no other reference.
        Chip(unsafe { &mut *CELLS.0.get() })
    }

    /// As it comes from the factory.
    pub fn erase_all(&mut self) {
        self.0.fill(0xff);
    }

    fn page(&mut self, ppn: Ppn) -> Result<(&mut [u8], &mut [u8]), NandError> {
        let page = self.0.chunks_exact_mut(WHOLE_PAGE).nth(ppn.0 as usize);
        Ok(page.ok_or(NandError::PageOutOfRange(ppn))?.split_at_mut(PAGE_BYTES))
    }

    fn block(&mut self, pbn: Pbn) -> Result<&mut [u8], NandError> {
        let block = self.0.chunks_exact_mut(WHOLE_PAGE * PAGES_PER_BLOCK).nth(pbn.0 as usize);
        block.ok_or(NandError::BlockOutOfRange(pbn))
    }
}

fn read(cells: &[u8], to: &mut [u8]) -> Option<()> {
    to.copy_from_slice(cells.get(..to.len())?);
    Some(())
}

/// Programming only clears bits.
fn program(cells: &mut [u8], from: &[u8]) -> Option<()> {
    let cells = cells.get_mut(..from.len())?;
    cells.iter_mut().zip(from).for_each(|(cell, byte)| *cell &= byte);
    Some(())
}

impl Nand for Chip {
    fn geometry(&self) -> Geometry {
        GEOMETRY
    }

    fn read(
        &mut self,
        ppn: Ppn,
        _: Cause,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadOutcome, NandError> {
        let (page, out_of_band) = self.page(ppn)?;
        read(page, data).and_then(|()| read(out_of_band, spare)).ok_or(NandError::BufferTooLong(ppn))?;
        Ok(ReadOutcome::CLEAN)
    }

    fn program(&mut self, ppn: Ppn, _: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        let (page, out_of_band) = self.page(ppn)?;
        program(page, data).and_then(|()| program(out_of_band, spare)).ok_or(NandError::BufferTooLong(ppn))
    }

    fn erase(&mut self, pbn: Pbn, _: Cause) -> Result<(), NandError> {
        self.block(pbn)?.fill(0xff);
        Ok(())
    }

    fn is_bad(&mut self, pbn: Pbn) -> Result<bool, NandError> {
        Ok(self.block(pbn)?.get(PAGE_BYTES) != Some(&0xff))
    }

    fn mark_bad(&mut self, pbn: Pbn) -> Result<(), NandError> {
        self.block(pbn)?.iter_mut().skip(PAGE_BYTES).take(1).for_each(|mark| *mark = 0);
        Ok(())
    }
}
