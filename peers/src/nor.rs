//! A NOR part by arithmetic: the bytes of a W25Q128JV, with the typical times of its data sheet.

use embedded_storage::nor_flash::{
    ErrorType, MultiwriteNorFlash, NorFlash, NorFlashError, NorFlashErrorKind, ReadNorFlash,
};
use embedded_storage_async::nor_flash as later;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a sector, the least that is erased.
pub const SECTOR: usize = 4096;
/// Bytes of a block, which is erased faster than its sectors.
pub const BLOCK: usize = 65_536;
/// Bytes that one program takes at most.
const PAGE: usize = 256;

const READ_NS: u64 = 1000;
const READ_BYTE_NS: u64 = 40;
const FIRST_BYTE_NS: u64 = 30_000;
const BYTE_NS: u64 = 2500;
const PAGE_NS: u64 = 400_000;
const SECTOR_NS: u64 = 45_000_000;
const BLOCK_NS: u64 = 150_000_000;

/// What was done to a part so far.
#[derive(Debug)]
struct Flash {
    bytes: Vec<u8>,
    /// Erases of each sector.
    wear: Vec<u32>,
    time_ns: u64,
    programmed: u64,
    erases: u64,
}

/// A part, shared by the store on it and by who watches it.
#[derive(Clone, Debug)]
pub struct Nor(Arc<Mutex<Flash>>);

impl Nor {
    /// An erased part of so many bytes, a multiple of the block's.
    pub fn new(bytes: usize) -> Nor {
        let (wear, bytes) = (vec![0; bytes / SECTOR], vec![0xff; bytes]);
        Nor(Arc::new(Mutex::new(Flash { bytes, wear, time_ns: 0, programmed: 0, erases: 0 })))
    }

    fn flash(&self) -> MutexGuard<'_, Flash> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nanoseconds that the part was busy.
    pub fn time_ns(&self) -> u64 {
        self.flash().time_ns
    }

    /// Bytes programmed.
    pub fn programmed(&self) -> u64 {
        self.flash().programmed
    }

    /// Erases, a block's and a sector's alike.
    pub fn erases(&self) -> u64 {
        self.flash().erases
    }

    /// Erases of each sector.
    pub fn wear(&self) -> Vec<u32> {
        self.flash().wear.clone()
    }

    /// Bytes of the part.
    pub fn bytes(&self) -> usize {
        self.flash().bytes.len()
    }

    /// Reads.
    pub fn read(&self, at: usize, into: &mut [u8]) -> Result<(), NorFault> {
        let mut flash = self.flash();
        let range = flash.range(at, into.len())?;
        into.copy_from_slice(&flash.bytes[range]);
        flash.time_ns += READ_NS + READ_BYTE_NS * into.len() as u64;
        Ok(())
    }

    /// Programs, page by page of the part. A bit that would have to be erased is a fault.
    pub fn program(&self, at: usize, bytes: &[u8]) -> Result<(), NorFault> {
        let mut flash = self.flash();
        let range = flash.range(at, bytes.len())?;
        if flash.bytes[range.clone()].iter().zip(bytes).any(|(old, new)| old & new != *new) {
            return Err(NorFault(NorFlashErrorKind::Other));
        }
        flash.bytes[range.clone()].copy_from_slice(bytes);
        let mut from = range.start;
        while from < range.end {
            let end = range.end.min((from / PAGE + 1) * PAGE);
            flash.time_ns += (FIRST_BYTE_NS + BYTE_NS * (end - from - 1) as u64).min(PAGE_NS);
            from = end;
        }
        flash.programmed += bytes.len() as u64;
        Ok(())
    }

    /// Erases whole sectors; whole blocks among them by the faster command.
    pub fn erase(&self, from: usize, to: usize) -> Result<(), NorFault> {
        let mut flash = self.flash();
        let range = flash.range(from, to.saturating_sub(from))?;
        if !from.is_multiple_of(SECTOR) || !to.is_multiple_of(SECTOR) {
            return Err(NorFault(NorFlashErrorKind::NotAligned));
        }
        flash.bytes[range].fill(0xff);
        flash.wear[from / SECTOR..to / SECTOR].iter_mut().for_each(|count| *count += 1);
        let mut at = from;
        while at < to {
            let is_block = at.is_multiple_of(BLOCK) && at + BLOCK <= to;
            let (bytes, time) = if is_block { (BLOCK, BLOCK_NS) } else { (SECTOR, SECTOR_NS) };
            flash.time_ns += time;
            flash.erases += 1;
            at += bytes;
        }
        Ok(())
    }
}

impl Flash {
    fn range(&self, at: usize, count: usize) -> Result<std::ops::Range<usize>, NorFault> {
        let end = at.checked_add(count).filter(|end| *end <= self.bytes.len());
        end.map(|end| at..end).ok_or(NorFault(NorFlashErrorKind::OutOfBounds))
    }
}

/// Why a part refused.
#[derive(Clone, Copy, Debug)]
pub struct NorFault(NorFlashErrorKind);

impl NorFlashError for NorFault {
    fn kind(&self) -> NorFlashErrorKind {
        self.0
    }
}

/// The part behind the traits of embedded Rust, with erase units of so many bytes.
#[derive(Clone, Debug)]
pub struct Units<const ERASE: usize>(pub Nor);

impl<const ERASE: usize> ErrorType for Units<ERASE> {
    type Error = NorFault;
}

impl<const ERASE: usize> ReadNorFlash for Units<ERASE> {
    const READ_SIZE: usize = 1;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), NorFault> {
        self.0.read(offset as usize, bytes)
    }

    fn capacity(&self) -> usize {
        self.0.bytes()
    }
}

impl<const ERASE: usize> NorFlash for Units<ERASE> {
    const WRITE_SIZE: usize = 1;
    const ERASE_SIZE: usize = ERASE;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), NorFault> {
        self.0.erase(from as usize, to as usize)
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), NorFault> {
        self.0.program(offset as usize, bytes)
    }
}

impl<const ERASE: usize> MultiwriteNorFlash for Units<ERASE> {}

impl<const ERASE: usize> later::ReadNorFlash for Units<ERASE> {
    const READ_SIZE: usize = 1;

    async fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), NorFault> {
        self.0.read(offset as usize, bytes)
    }

    fn capacity(&self) -> usize {
        self.0.bytes()
    }
}

impl<const ERASE: usize> later::NorFlash for Units<ERASE> {
    const WRITE_SIZE: usize = 1;
    const ERASE_SIZE: usize = ERASE;

    async fn erase(&mut self, from: u32, to: u32) -> Result<(), NorFault> {
        self.0.erase(from as usize, to as usize)
    }

    async fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), NorFault> {
        self.0.program(offset as usize, bytes)
    }
}

impl<const ERASE: usize> later::MultiwriteNorFlash for Units<ERASE> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_are_those_of_the_data_sheet() {
        let part = Nor::new(2 * BLOCK);
        part.program(0, &[0]).unwrap();
        assert_eq!(part.time_ns(), 30_000);
        part.program(255, &[0, 0, 0]).unwrap();
        assert_eq!(part.time_ns(), 30_000 + 30_000 + 32_500, "a program ends where its page ends");
        let before = part.time_ns();
        part.program(512, &[0; 256]).unwrap();
        assert_eq!(part.time_ns() - before, PAGE_NS);
        let before = part.time_ns();
        part.erase(BLOCK - SECTOR, 2 * BLOCK).unwrap();
        assert_eq!((part.time_ns() - before, part.erases()), (SECTOR_NS + BLOCK_NS, 2));
        assert_eq!((part.wear()[14], part.wear()[15], part.wear()[31]), (0, 1, 1));
        let before = part.time_ns();
        part.read(0, &mut [0; 100]).unwrap();
        assert_eq!(part.time_ns() - before, 5000);
    }

    #[test]
    fn a_bit_is_erased_before_it_is_set() {
        let part = Nor::new(BLOCK);
        part.program(7, &[0b1010]).unwrap();
        part.program(7, &[0b0010]).unwrap();
        assert!(part.program(7, &[0b1010]).is_err());
        part.erase(0, SECTOR).unwrap();
        part.program(7, &[0b1010]).unwrap();
        assert!(part.erase(1, SECTOR).is_err() && part.program(BLOCK, &[0]).is_err());
    }
}
