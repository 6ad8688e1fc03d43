//! A NOR part of `embedded-storage` as a chip.
//!
//! NOR has no spare areas, so a page and its spare area lie one behind the other, and as many of them as fit
//! make a block of one erase unit or more. The mark of a bad block is byte 0 of the first page's spare area.
//!
//! Pages of a block are programmed in ascending order, as on NAND. A programmed page takes further words
//! where it is still erased ([`Geometry::appends`]); each word is written once between two erases, which
//! parts with an ECC of their own demand. A part that clears bits of a written word any number of times says
//! so ([`Shape::overwrites`]).
//!
//! **Words with an ECC.** In the flash of many microcontrollers a word that the power cut in the middle of a
//! program or an erase reads as an error. What a driver answers is told apart so:
//!
//! | the driver answers | the chip |
//! |---|---|
//! | a read fails, once more too | `Uncorrectable` |
//! | the mark of a block cannot be read | the block is not bad: its first page was torn |
//! | a program or an erase fails | `ProgramFailed`, `EraseFailed` |
//! | any of these, and the driver says that the part is [gone](NorChip::gone_when), or no place that is asked answers | `Device` 3 |
//! | what is asked is not aligned, or out of bounds | `Device` 1, 2: a fault of the driver |
//!
//! Words of 0xFF are not written: a word that looks erased was not written. Reads and programs touch no other
//! words than those that are asked for, so a torn word is met only where it lies.

mod program;
mod shape;

pub use shape::Shape;

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use embedded_storage::nor_flash::{ErrorType, NorFlash, NorFlashError, NorFlashErrorKind};
use nandex::nand::{NandError, PartError, ReadOutcome};
use nandex::shared::MaybeSend;
use nandex::{Cause, Geometry, Nand, Pbn, Ppn};

/// How often a place is read before it counts as unreadable.
const READS: u32 = 2;

/// Blocks that are asked whether the part answers at all, at most.
const ASKED: u32 = 16;

/// A NOR part as a chip.
pub struct NorChip<F: ErrorType> {
    flash: F,
    geometry: Geometry,
    /// Bytes of a block: a multiple of the erase unit.
    block_bytes: u32,
    /// A page with its spare area.
    page: Vec<u8>,
    is_gone: fn(&F::Error) -> bool,
    skips_blank: bool,
    /// The place that could be read last.
    readable: Option<u32>,
}

impl<F: NorFlash> NorChip<F> {
    /// A chip of all whole blocks of the part. Bytes of a block beyond its last page stay unused.
    pub fn new(flash: F, shape: Shape) -> Result<NorChip<F>, PartError> {
        let wrong = |field, reason, value: u32| PartError::new(field, reason, value.into());
        let (unit, write) = (F::ERASE_SIZE as u32, F::WRITE_SIZE as u32);
        let whole = shape.page_bytes.saturating_add(shape.spare_bytes);
        if write == 0 || !whole.is_multiple_of(write) || !whole.is_multiple_of(F::READ_SIZE as u32) {
            return Err(wrong("page_bytes", "page and spare area are no multiple of what is written", whole));
        }
        if shape.spare_bytes == 0 {
            return Err(wrong("spare_bytes", "a page has a spare byte at least, for the mark", 0));
        }
        // What lies beyond 32 bits cannot be addressed.
        let capacity = u32::try_from(flash.capacity()).unwrap_or(u32::MAX);
        let units = shape.units(unit.max(1), capacity)?;
        let block_bytes = u32::try_from(units * u64::from(unit)).unwrap_or(u32::MAX);
        let pages = block_bytes / whole;
        let blocks = capacity / block_bytes.max(1);
        let mut geometry = Geometry::new(shape.page_bytes, shape.spare_bytes, pages.min(4096), blocks)
            .with_append_bytes(u16::try_from(write).unwrap_or(0));
        if shape.overwrites {
            geometry = geometry.with_programs_per_page_max(Geometry::ANY_PROGRAMS).with_random_order(true);
        }
        geometry.validate()?;
        let page = vec![0xff; whole as usize];
        Ok(NorChip {
            flash,
            geometry,
            block_bytes,
            page,
            is_gone: |_| false,
            skips_blank: false,
            readable: None,
        })
    }

    /// Says which errors of the driver mean that the part itself is gone, such as those of a bus. All others
    /// are a word's or a block's as long as some other place can be read.
    ///
    /// ```
    /// # use nandex_embedded::ram::{RamFault, RamFlash};
    /// # use nandex_embedded::{NorChip, Shape};
    /// # let (flash, shape) = (RamFlash::<8, 4096>::new(1 << 16), Shape::new(448, 64));
    /// let chip = NorChip::new(flash, shape)?.gone_when(|error| matches!(error, RamFault::Bus));
    /// # Ok::<(), nandex::nand::PartError>(())
    /// ```
    #[must_use]
    pub fn gone_when(self, is_gone: fn(&F::Error) -> bool) -> NorChip<F> {
        NorChip { is_gone, ..self }
    }

    /// Leaves out the erase of a block whose bytes are all 0xFF, for which a look suffices: a W25Q128 from
    /// the factory is formatted in 0.7 s, not in 38.
    ///
    /// For the first format of a fresh part alone. A block whose erase the power cut may read as erased too,
    /// and hold its bits badly. So say it before a format, and not before a mount.
    ///
    /// ```
    /// # use nandex_embedded::ram::RamFlash;
    /// # use nandex_embedded::{NorChip, Shape};
    /// use nandex::{IndexError, Plow, PlowConfig, RecordFormat, nand::Unfit};
    ///
    /// # let (flash, shape) = (RamFlash::<4, 4096>::new(1 << 16), Shape::new(448, 64));
    /// # let mut flash = flash;
    /// let config = PlowConfig::new(RecordFormat::new(8, 8));
    /// let tree = match Plow::mount(NorChip::new(&mut flash, shape)?, &config) {
    ///     Err(IndexError::NotFormatted(Unfit::Blank)) => {
    ///         Plow::format(NorChip::new(&mut flash, shape)?.skipping_blank(), &config)?
    ///     }
    ///     other => other?,
    /// };
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn skipping_blank(self) -> NorChip<F> {
        NorChip { skips_blank: true, ..self }
    }

    /// True if all bytes of a block read as erased.
    fn is_blank(&mut self, block: u32, torn: NandError) -> Result<bool, NandError> {
        let (mut at, whole) = (block, self.page.len() as u32);
        while at < block + self.block_bytes {
            let bytes = 0..whole.min(block + self.block_bytes - at) as usize;
            match self.fetch(at, bytes.clone(), torn) {
                Ok(()) if self.page[bytes].iter().all(|&byte| byte == 0xff) => at += whole,
                Ok(()) => return Ok(false),
                Err(error) if error == torn => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Gives the part back.
    pub fn into_flash(self) -> F {
        self.flash
    }

    fn page_at(&self, ppn: Ppn) -> Result<u32, NandError> {
        if ppn.0 >= self.geometry.pages() {
            return Err(NandError::PageOutOfRange(ppn));
        }
        let (block, page) = (self.geometry.block_of(ppn), self.geometry.page_in_block(ppn));
        Ok(block.0 * self.block_bytes + page * self.page.len() as u32)
    }

    fn block_at(&self, pbn: Pbn) -> Result<u32, NandError> {
        if pbn.0 < self.geometry.blocks {
            Ok(pbn.0 * self.block_bytes)
        } else {
            Err(NandError::BlockOutOfRange(pbn))
        }
    }

    fn check(&self, ppn: Ppn, data: usize, spare: usize) -> Result<(), NandError> {
        let is_long = data > self.geometry.page_bytes as usize || spare > self.geometry.spare_bytes as usize;
        if is_long { Err(NandError::BufferTooLong(ppn)) } else { Ok(()) }
    }

    /// Reads bytes of a page to their place in the buffer, and those around them that a read needs.
    fn load(&mut self, ppn: Ppn, bytes: Range<usize>) -> Result<(), NandError> {
        let unit = F::READ_SIZE;
        let bytes = bytes.start / unit * unit..bytes.end.div_ceil(unit) * unit;
        let at = self.page_at(ppn)? + bytes.start as u32;
        if bytes.is_empty() { Ok(()) } else { self.fetch(at, bytes, NandError::Uncorrectable(ppn)) }
    }

    /// Reads bytes to a place of the buffer. Fails with `otherwise` if the part answers but the bytes cannot
    /// be read.
    fn fetch(&mut self, at: u32, to: Range<usize>, otherwise: NandError) -> Result<(), NandError> {
        for last in 1..=READS {
            match self.flash.read(at, &mut self.page[to.clone()]) {
                Ok(()) => break,
                Err(error) if last == READS => return Err(self.fault(&error, at, otherwise)),
                Err(_) => {}
            }
        }
        self.readable = Some(at);
        Ok(())
    }

    /// Error for a failed call of the driver: `otherwise`, unless the part is gone or the call was invalid.
    fn fault(&mut self, error: &F::Error, at: u32, otherwise: NandError) -> NandError {
        match error.kind() {
            NorFlashErrorKind::NotAligned => NandError::Device(1),
            NorFlashErrorKind::OutOfBounds => NandError::Device(2),
            _ if (self.is_gone)(error) || !self.answers(at) => NandError::Device(3),
            _ => otherwise,
        }
    }

    /// True if any place except this one can be read.
    fn answers(&mut self, but: u32) -> bool {
        let Geometry { blocks, .. } = self.geometry;
        let asked = blocks.min(ASKED);
        let first_of =
            |n: u32| (u64::from(n) * u64::from(blocks) / u64::from(asked)) as u32 * self.block_bytes;
        let mut places = self.readable.into_iter().chain((0..asked).map(first_of));
        let answers = &mut self.page[..F::READ_SIZE];
        places.any(|place| place != but && self.flash.read(place, answers).is_ok())
    }

    /// The place of a block's mark, from the first byte that can be read or written alone, and the bytes from
    /// there on that are read or written with the mark.
    fn mark_at(&self, pbn: Pbn, unit: usize) -> Result<(u32, usize), NandError> {
        let mark = self.geometry.page_bytes as usize;
        Ok((self.block_at(pbn)? + (mark / unit * unit) as u32, mark % unit))
    }
}

impl<F: NorFlash + MaybeSend> Nand for NorChip<F> {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(
        &mut self,
        ppn: Ppn,
        _: Cause,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadOutcome, NandError> {
        self.check(ppn, data.len(), spare.len())?;
        let area = self.geometry.page_bytes as usize;
        if data.len() == area {
            self.load(ppn, 0..area + spare.len())?;
        } else {
            self.load(ppn, 0..data.len())?;
            self.load(ppn, area..area + spare.len())?;
        }
        data.copy_from_slice(&self.page[..data.len()]);
        spare.copy_from_slice(&self.page[area..area + spare.len()]);
        Ok(ReadOutcome::CLEAN)
    }

    /// Reads the bytes asked for, and those around them that a read of the part needs.
    fn read_at(&mut self, ppn: Ppn, _: Cause, from: u32, data: &mut [u8]) -> Result<ReadOutcome, NandError> {
        let bytes = from as usize..from as usize + data.len();
        self.check(ppn, bytes.end, 0)?;
        self.load(ppn, bytes.clone())?;
        data.copy_from_slice(&self.page[bytes]);
        Ok(ReadOutcome::CLEAN)
    }

    fn program(&mut self, ppn: Ppn, _: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        self.check(ppn, data.len(), spare.len())?;
        self.program_words(ppn, &program::Payload::new(&self.geometry, data, spare))
    }

    fn erase(&mut self, pbn: Pbn, _: Cause) -> Result<(), NandError> {
        let at = self.block_at(pbn)?;
        if self.is_bad(pbn)? {
            return Err(NandError::BadBlock(pbn));
        }
        let torn = NandError::Uncorrectable(self.geometry.page_at(pbn, 0));
        if self.skips_blank && self.is_blank(at, torn)? {
            return Ok(());
        }
        let erased = self.flash.erase(at, at + self.block_bytes);
        erased.map_err(|error| self.fault(&error, at, NandError::EraseFailed(pbn)))
    }

    fn is_bad(&mut self, pbn: Pbn) -> Result<bool, NandError> {
        let unit = F::READ_SIZE;
        let (at, place) = self.mark_at(pbn, unit)?;
        let torn = NandError::Uncorrectable(self.geometry.page_at(pbn, 0));
        match self.fetch(at, 0..unit, torn) {
            Ok(()) => Ok(self.page[place] == 0),
            Err(error) if error == torn => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Marks a block as bad. The block is erased first, since a written word may not take a mark. Fails with
    /// `BadBlock` if the mark cannot be written.
    fn mark_bad(&mut self, pbn: Pbn) -> Result<(), NandError> {
        let start = self.block_at(pbn)?;
        let (at, place) = self.mark_at(pbn, F::WRITE_SIZE)?;
        // A block that is no longer erased may take a mark.
        let erased = self.flash.erase(start, start + self.block_bytes);
        self.page[..F::WRITE_SIZE].fill(0xff);
        self.page[place] = 0;
        let marked = self.flash.write(at, &self.page[..F::WRITE_SIZE]);
        if self.is_bad(pbn)? {
            return Ok(());
        }
        match erased.and(marked) {
            Ok(()) => Err(NandError::BadBlock(pbn)),
            Err(error) => Err(self.fault(&error, start, NandError::BadBlock(pbn))),
        }
    }

    /// A word that was being programmed or erased when the power failed may read as an error for good.
    fn tears(&self) -> bool {
        true
    }

    fn ram_bytes(&self) -> usize {
        self.page.len()
    }
}

#[cfg(test)]
mod tests;
