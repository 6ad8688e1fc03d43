//! For tests: a NOR part in memory that keeps to the rules, each word written once between two erases.

use alloc::vec;
use alloc::vec::Vec;
use embedded_storage::nor_flash::{
    ErrorType, NorFlash, NorFlashErrorKind, ReadNorFlash, check_erase, check_read, check_write,
};
use nandex::Shared;

/// A NOR part that writes words of `WRITE` bytes and erases units of `ERASE`; a clone is the same part.
#[derive(Clone)]
pub struct RamFlash<const WRITE: usize, const ERASE: usize> {
    cells: Shared<Vec<u8>>,
    is_broken: Shared<bool>,
}

impl<const WRITE: usize, const ERASE: usize> RamFlash<WRITE, ERASE> {
    /// An erased part of so many bytes.
    pub fn new(bytes: usize) -> RamFlash<WRITE, ERASE> {
        RamFlash { cells: Shared::new(vec![0xff; bytes]), is_broken: Shared::new(false) }
    }

    /// The bus answers no more.
    pub fn break_bus(&self) {
        *self.is_broken.lock() = true;
    }

    fn answer(&self) -> Result<(), NorFlashErrorKind> {
        if *self.is_broken.lock() { Err(NorFlashErrorKind::Other) } else { Ok(()) }
    }
}

impl<const WRITE: usize, const ERASE: usize> ErrorType for RamFlash<WRITE, ERASE> {
    type Error = NorFlashErrorKind;
}

impl<const WRITE: usize, const ERASE: usize> ReadNorFlash for RamFlash<WRITE, ERASE> {
    const READ_SIZE: usize = 1;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), NorFlashErrorKind> {
        self.answer()?;
        check_read(self, offset, bytes.len())?;
        bytes.copy_from_slice(&self.cells.lock()[offset as usize..offset as usize + bytes.len()]);
        Ok(())
    }

    fn capacity(&self) -> usize {
        self.cells.lock().len()
    }
}

impl<const WRITE: usize, const ERASE: usize> NorFlash for RamFlash<WRITE, ERASE> {
    const WRITE_SIZE: usize = WRITE;
    const ERASE_SIZE: usize = ERASE;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), NorFlashErrorKind> {
        self.answer()?;
        check_erase(self, from, to)?;
        self.cells.lock()[from as usize..to as usize].fill(0xff);
        Ok(())
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), NorFlashErrorKind> {
        self.answer()?;
        check_write(self, offset, bytes.len())?;
        let mut all = self.cells.lock();
        let cells = &mut all[offset as usize..offset as usize + bytes.len()];
        if cells.iter().any(|cell| *cell != 0xff) {
            return Err(NorFlashErrorKind::Other);
        }
        cells.copy_from_slice(bytes);
        Ok(())
    }
}
