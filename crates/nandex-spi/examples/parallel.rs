//! A driver for a parallel part behind a memory controller, as docs/porting.md explains it.

use nandex::nand::{NandError, ReadOutcome};
use nandex::{Cause, Geometry, Nand, Pbn, Ppn};

/// The functions of your board; the registers are behind them.
pub trait Controller {
    /// The bits that the ECC corrected.
    fn read_page(&mut self, row: u32, data: &mut [u8], spare: &mut [u8]) -> Result<u32, Fault>;
    fn program_page(&mut self, row: u32, data: &[u8], spare: &[u8]) -> Result<(), Fault>;
    fn erase_block(&mut self, row: u32) -> Result<(), Fault>;
    /// Reads the spare bytes without ECC.
    fn read_raw_spare(&mut self, row: u32, spare: &mut [u8]) -> Result<(), Fault>;
    fn program_raw_spare(&mut self, row: u32, spare: &[u8]) -> Result<(), Fault>;
}

pub enum Fault {
    /// More wrong bits than the ECC corrects.
    Uncorrectable,
    /// The status register says that program or erase failed.
    Failed,
    /// No answer; the number says more to whoever reads the log.
    Gone(i32),
}

impl Fault {
    /// The error of a fault that is no property of a page or a block.
    fn of_bus(&self) -> NandError {
        NandError::Device(if let Fault::Gone(number) = self { *number } else { 0 })
    }
}

pub struct Parallel<C>(pub C);

impl<C: Controller + Send> Nand for Parallel<C> {
    fn geometry(&self) -> Geometry {
        // Data bytes, spare bytes that the ECC covers and leaves to you (byte 0 among them, the place of the
        // mark), pages, blocks.
        Geometry::new(2048, 32, 64, 1024)
    }

    fn read(
        &mut self,
        ppn: Ppn,
        _: Cause,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadOutcome, NandError> {
        // Buffers may be shorter than the areas: the first bytes are wanted then. An erased page reads as
        // 0xFF.
        let corrected = self.0.read_page(ppn.0, data, spare).map_err(|fault| match fault {
            // A page that cannot be read is no reason to stop: after a cut it is the page that was being
            // programmed.
            Fault::Uncorrectable => NandError::Uncorrectable(ppn),
            // A bus that is gone must not look like torn pages, or a mount would drop what is there.
            Fault::Failed | Fault::Gone(_) => fault.of_bus(),
        })?;
        // This ECC corrects 8 bits; from 6 on the index moves the page. Who cannot tell says CLEAN.
        Ok(ReadOutcome::corrected(corrected, 8))
    }

    fn program(&mut self, ppn: Ppn, _: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        // Data and spare bytes in one program. What is not given stays erased. Return when it is on the
        // flash: the engine's promises rest on that, so no write cache may answer earlier.
        self.0.program_page(ppn.0, data, spare).map_err(|fault| match fault {
            // The block is retired after this; its other pages are moved first.
            Fault::Failed => NandError::ProgramFailed(ppn),
            _ => fault.of_bus(),
        })
    }

    fn erase(&mut self, pbn: Pbn, _: Cause) -> Result<(), NandError> {
        if self.is_bad(pbn)? {
            return Err(NandError::BadBlock(pbn));
        }
        self.0.erase_block(pbn.0 * 64).map_err(|fault| match fault {
            Fault::Failed => NandError::EraseFailed(pbn),
            _ => fault.of_bus(),
        })
    }

    fn is_bad(&mut self, pbn: Pbn) -> Result<bool, NandError> {
        // The maker's mark: the first spare byte of the first page here; some mark the second or the last
        // page too. Without ECC, since the maker wrote none.
        let mut mark = [0xff];
        self.0.read_raw_spare(pbn.0 * 64, &mut mark).map_err(|fault| fault.of_bus())?;
        Ok(mark[0] != 0xff)
    }

    fn mark_bad(&mut self, pbn: Pbn) -> Result<(), NandError> {
        self.0.program_raw_spare(pbn.0 * 64, &[0]).map_err(|_| NandError::BadBlock(pbn))
    }
}

fn main() {}
