//! A NOR part of `embedded-storage` as a chip.
//!
//! NOR has no spare areas, so a page and its spare area lie one behind the other, and as many of them as fit
//! make a block of one erase unit or more. A page is programmed once between two erases, in ascending order,
//! as on NAND, which parts with an ECC of their own demand too (words that may be written once). The mark of
//! a bad block is byte 0 of the first page's spare area.
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
//! Words of 0xFF at the ends of a page are not written: a page that looks erased holds no word that was
//! written.

use alloc::vec;
use alloc::vec::Vec;
use embedded_storage::nor_flash::{ErrorType, NorFlash, NorFlashError, NorFlashErrorKind};
use nandex::nand::{NandError, PartError, ReadOutcome};
use nandex::shared::MaybeSend;
use nandex::{Cause, Geometry, Nand, Pbn, Ppn};

/// How often a place is read before it counts as unreadable.
const READS: u32 = 2;

/// Blocks that are asked whether the part answers at all, at most.
const ASKED: u32 = 16;

/// How pages lie in the erase units of a NOR part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a page's data area.
    pub page_bytes: u32,
    /// Bytes of the spare area: 16 for an FTL. An index whose chip has too few names the number that it
    /// needs.
    pub spare_bytes: u32,
}

/// A NOR part as a chip.
pub struct NorChip<F: ErrorType> {
    flash: F,
    geometry: Geometry,
    /// Bytes of a block: a multiple of the erase unit.
    block_bytes: u32,
    /// A page with its spare area.
    page: Vec<u8>,
    is_gone: fn(&F::Error) -> bool,
    /// The place that could be read last.
    readable: Option<u32>,
}

impl<F: NorFlash> NorChip<F> {
    /// A chip of all whole erase units of the part. Bytes of a unit beyond its last page stay unused.
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
        // A block has two pages at least. What lies beyond 32 bits cannot be addressed.
        let capacity = u32::try_from(flash.capacity()).unwrap_or(u32::MAX);
        let units = (2 * u64::from(whole)).div_ceil(u64::from(unit.max(1))).max(1);
        let block_bytes = u32::try_from(units * u64::from(unit)).unwrap_or(u32::MAX);
        let pages = block_bytes / whole;
        let blocks = capacity / block_bytes.max(1);
        let geometry = Geometry::new(shape.page_bytes, shape.spare_bytes, pages.min(4096), blocks);
        geometry.validate()?;
        let page = vec![0xff; whole as usize];
        Ok(NorChip { flash, geometry, block_bytes, page, is_gone: |_| false, readable: None })
    }

    /// Says which errors of the driver mean that the part itself is gone, such as those of a bus. All others
    /// are a word's or a block's as long as some other place can be read.
    ///
    /// ```
    /// # use nandex_embedded::ram::{RamFault, RamFlash};
    /// # use nandex_embedded::{NorChip, Shape};
    /// # let (flash, shape) = (RamFlash::<8, 4096>::new(1 << 16), Shape { page_bytes: 448, spare_bytes: 64 });
    /// let chip = NorChip::new(flash, shape)?.gone_when(|error| matches!(error, RamFault::Bus));
    /// # Ok::<(), nandex::nand::PartError>(())
    /// ```
    #[must_use]
    pub fn gone_when(self, is_gone: fn(&F::Error) -> bool) -> NorChip<F> {
        NorChip { is_gone, ..self }
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

    /// Reads a page into the buffer.
    fn load(&mut self, ppn: Ppn) -> Result<(), NandError> {
        let at = self.page_at(ppn)?;
        self.fetch(at, self.page.len(), NandError::Uncorrectable(ppn))
    }

    /// Reads bytes to the front of the buffer. Fails with `otherwise` if the part answers but the bytes
    /// cannot be read.
    fn fetch(&mut self, at: u32, bytes: usize, otherwise: NandError) -> Result<(), NandError> {
        for last in 1..=READS {
            match self.flash.read(at, &mut self.page[..bytes]) {
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
        self.load(ppn)?;
        let (stored, area) = self.page.split_at(self.geometry.page_bytes as usize);
        data.copy_from_slice(&stored[..data.len()]);
        spare.copy_from_slice(&area[..spare.len()]);
        Ok(ReadOutcome::CLEAN)
    }

    fn program(&mut self, ppn: Ppn, _: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        self.check(ppn, data.len(), spare.len())?;
        let is_erased = match self.load(ppn) {
            Ok(()) => self.page.iter().all(|byte| *byte == 0xff),
            Err(NandError::Uncorrectable(_)) => false,
            Err(error) => return Err(error),
        };
        if !is_erased {
            return Err(NandError::NotErased(ppn));
        }
        let (stored, area) = self.page.split_at_mut(self.geometry.page_bytes as usize);
        stored[..data.len()].copy_from_slice(data);
        area[..spare.len()].copy_from_slice(spare);
        let is_set = |byte: &u8| *byte != 0xff;
        let Some(first) = self.page.iter().position(is_set) else { return Ok(()) };
        let first = first / F::WRITE_SIZE * F::WRITE_SIZE;
        let last = self.page.iter().rposition(is_set).unwrap_or(first);
        let end = (last / F::WRITE_SIZE + 1) * F::WRITE_SIZE;
        let at = self.page_at(ppn)?;
        let written = self.flash.write(at + first as u32, &self.page[first..end]);
        written.map_err(|error| self.fault(&error, at, NandError::ProgramFailed(ppn)))
    }

    fn erase(&mut self, pbn: Pbn, _: Cause) -> Result<(), NandError> {
        let at = self.block_at(pbn)?;
        if self.is_bad(pbn)? {
            return Err(NandError::BadBlock(pbn));
        }
        let erased = self.flash.erase(at, at + self.block_bytes);
        erased.map_err(|error| self.fault(&error, at, NandError::EraseFailed(pbn)))
    }

    fn is_bad(&mut self, pbn: Pbn) -> Result<bool, NandError> {
        let unit = F::READ_SIZE;
        let (at, place) = self.mark_at(pbn, unit)?;
        let torn = NandError::Uncorrectable(self.geometry.page_at(pbn, 0));
        match self.fetch(at, unit, torn) {
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
mod tests {
    use super::*;
    use crate::ram::{RamCut, RamFault, RamFlash, TornWord};
    use nandex::IndexError;
    use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
    use nandex::ordered::bplus::{BPlusConfig, BPlusTree};
    use nandex::ordered::{OrderedIndex, RawConfig, RecordFormat, mu::MuTree};

    const SHAPE: Shape = Shape { page_bytes: 448, spare_bytes: 64 };

    fn chip() -> NorChip<RamFlash<4, 4096>> {
        NorChip::new(RamFlash::new(80 * 4096 + 100), SHAPE).unwrap()
    }

    #[test]
    fn an_index_lives_on_it_and_is_found_again() {
        let chip = chip();
        assert_eq!((chip.geometry().pages_per_block, chip.geometry().blocks), (8, 80));
        let flash = chip.flash.clone();
        let config = RawConfig::new(RecordFormat::new(4, 4));
        let mut tree = MuTree::format(chip, &config).unwrap();
        for i in 0..900u32 {
            tree.put(&(i % 300).to_be_bytes(), &i.to_be_bytes()).unwrap();
        }
        drop(tree);
        let mut tree = MuTree::mount(NorChip::new(flash, SHAPE).unwrap(), &config).unwrap();
        let mut value = [0; 4];
        for i in 0..300u32 {
            assert!(tree.get(&i.to_be_bytes(), &mut value).unwrap() && value == (600 + i).to_be_bytes());
        }
        assert!(tree.check().unwrap().is_sound());
    }

    #[test]
    fn an_ftl_lives_on_it() {
        let store = PageMapFtl::format(chip(), &FtlConfig::default()).unwrap();
        let mut tree = BPlusTree::format(store, &BPlusConfig::new(RecordFormat::new(4, 4))).unwrap();
        for i in 0..2000u32 {
            tree.put(&(i % 500).to_be_bytes(), &i.to_be_bytes()).unwrap();
        }
        assert_eq!(tree.check().unwrap().records, 500);
    }

    #[test]
    fn marks_stay_and_what_is_wrong_is_named() {
        let mut chip = chip();
        let page = chip.geometry().page_at(Pbn(3), 1);
        chip.program(page, Cause::Host, &[1, 2], &[0xff, 3]).unwrap();
        assert_eq!(chip.program(page, Cause::Host, &[1], &[]), Err(NandError::NotErased(page)));
        let (mut data, mut spare) = ([0; 3], [0; 3]);
        chip.read(page, Cause::Host, &mut data, &mut spare).unwrap();
        assert_eq!((data, spare), ([1, 2, 0xff], [0xff, 3, 0xff]));
        chip.read_at(page, Cause::Host, 1, &mut data).unwrap();
        assert_eq!(data, [2, 0xff, 0xff]);
        assert!(!chip.is_bad(Pbn(3)).unwrap());
        chip.mark_bad(Pbn(3)).unwrap();
        assert!(chip.is_bad(Pbn(3)).unwrap());
        assert_eq!(chip.erase(Pbn(3), Cause::Host), Err(NandError::BadBlock(Pbn(3))));
        assert_eq!(chip.erase(Pbn(80), Cause::Host), Err(NandError::BlockOutOfRange(Pbn(80))));
        assert_eq!(
            chip.read(Ppn(640), Cause::Host, &mut [], &mut []),
            Err(NandError::PageOutOfRange(Ppn(640)))
        );
        chip.flash.break_bus();
        assert_eq!(chip.program(Ppn(0), Cause::Host, &[1], &[]), Err(NandError::Device(3)));
        assert_eq!(chip.erase(Pbn(1), Cause::Host), Err(NandError::Device(3)));
        assert_eq!(chip.mark_bad(Pbn(1)), Err(NandError::Device(3)), "gone, and not worn");
        let index = MuTree::format(chip, &RawConfig::new(RecordFormat::new(4, 4)));
        assert_eq!(index.err(), Some(IndexError::from(nandex::StoreError::from(NandError::Device(3)))));
    }

    /// A chip of words of 8 bytes on which a cut tears this step.
    fn torn(at_step: u64, torn: TornWord) -> NorChip<RamFlash<8, 4096>> {
        let chip = NorChip::new(RamFlash::new(8 * 4096), SHAPE).unwrap();
        chip.flash.plan(RamCut { at_step, torn, seed: 5 });
        chip
    }

    #[test]
    fn a_torn_word_is_a_page_that_cannot_be_read() {
        for (how, is_readable) in
            [(TornWord::Error, false), (TornWord::Wrong, true), (TornWord::ErrorAtTimes, true)]
        {
            let mut chip = torn(3, how);
            let page = [7; 448];
            assert_eq!(chip.program(Ppn(8), Cause::Host, &page, &[]), Err(NandError::Device(3)));
            chip.flash.power_on();
            let (mut data, mut spare) = ([0; 448], [0; 1]);
            let read = chip.read(Ppn(8), Cause::Host, &mut data, &mut spare).map(drop);
            let expected = if is_readable { Ok(()) } else { Err(NandError::Uncorrectable(Ppn(8))) };
            assert_eq!(read, expected, "{how:?}");
            assert!(!is_readable || (data[..24] == page[..24] && data[32..] == [0xff; 416]));
            assert_eq!(chip.program(Ppn(8), Cause::Host, &page, &[]), Err(NandError::NotErased(Ppn(8))));
            assert_eq!(chip.is_bad(Pbn(1)), Ok(false), "{how:?}");
            chip.erase(Pbn(1), Cause::Host).unwrap();
            chip.program(Ppn(8), Cause::Host, &page, &[]).unwrap();
            chip.read(Ppn(8), Cause::Host, &mut data, &mut spare).unwrap();
            assert_eq!(data, page);
        }
    }

    #[test]
    fn a_block_whose_erase_was_cut_is_erased_again() {
        for how in [TornWord::Error, TornWord::Wrong, TornWord::ErrorAtTimes] {
            // A page of 448 bytes is 56 words.
            let mut chip = torn(56, how);
            chip.program(Ppn(8), Cause::Host, &[7; 448], &[]).unwrap();
            assert_eq!(chip.erase(Pbn(1), Cause::Host), Err(NandError::Device(3)));
            chip.flash.power_on();
            let unreadable = (8..16).map(|page| chip.read(Ppn(page), Cause::Host, &mut [0], &mut []));
            let unreadable =
                unreadable.filter(|read| matches!(read, Err(NandError::Uncorrectable(_)))).count();
            assert_eq!(unreadable, if how == TornWord::Error { 8 } else { 0 }, "{how:?}");
            assert_eq!(chip.is_bad(Pbn(1)), Ok(false), "{how:?}");
            chip.erase(Pbn(1), Cause::Host).unwrap();
            chip.program(Ppn(8), Cause::Host, &[7; 448], &[]).unwrap();
        }
    }

    #[test]
    fn a_page_that_looks_erased_takes_a_program() {
        // The first 40 bytes are 0xFF: a cut in the first word that is written leaves nothing before it.
        let mut page = [0xff; 448];
        page[41] = 1;
        let mut chip = torn(0, TornWord::Wrong);
        assert_eq!(chip.program(Ppn(0), Cause::Host, &page, &[]), Err(NandError::Device(3)));
        chip.flash.power_on();
        assert_eq!(chip.flash.steps(), 1, "one word is written");
        let mut blank = NorChip::new(RamFlash::<8, 4096>::new(8 * 4096), SHAPE).unwrap();
        blank.program(Ppn(0), Cause::Host, &[0xff; 448], &[0xff; 64]).unwrap();
        blank.program(Ppn(0), Cause::Host, &page, &[]).unwrap();
        assert_eq!(blank.flash.steps(), 1);
    }

    #[test]
    fn a_worn_word_is_a_failed_program_and_a_driver_says_when_the_part_is_gone() {
        let mut chip = NorChip::new(RamFlash::<8, 4096>::new(8 * 4096), SHAPE).unwrap();
        chip.flash.wear_out(512 + 8);
        assert_eq!(chip.program(Ppn(1), Cause::Host, &[1; 20], &[]), Err(NandError::ProgramFailed(Ppn(1))));
        chip.mark_bad(Pbn(0)).unwrap();
        assert_eq!(chip.is_bad(Pbn(0)), Ok(true));
        let mut chip = torn(3, TornWord::Error).gone_when(|error| matches!(error, RamFault::Ecc));
        chip.program(Ppn(8), Cause::Host, &[7; 448], &[]).unwrap_err();
        chip.flash.power_on();
        let read = chip.read(Ppn(8), Cause::Host, &mut [0], &mut []).map(drop);
        assert_eq!(read, Err(NandError::Device(3)), "this driver means the part");
    }

    #[test]
    fn pages_that_do_not_fit_are_refused() {
        let refused = |page_bytes, spare_bytes| {
            NorChip::new(RamFlash::<4, 4096>::new(1 << 16), Shape { page_bytes, spare_bytes })
                .map(|chip| chip.geometry())
                .unwrap_err()
                .field
        };
        assert_eq!(refused(447, 64), "page_bytes");
        assert_eq!(refused(448, 0), "spare_bytes");
        assert_eq!(refused(32, 16), "page_bytes");
        assert_eq!(refused(u32::MAX - 63, 64), "page_bytes");
        let long =
            NorChip::new(RamFlash::<4, 4096>::new(1 << 16), Shape { page_bytes: 4096, spare_bytes: 64 });
        let geometry = long.unwrap().geometry();
        assert_eq!((geometry.pages_per_block, geometry.blocks), (2, 5), "blocks of three erase units");
    }
}
