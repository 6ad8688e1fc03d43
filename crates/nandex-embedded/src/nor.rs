//! A NOR part of `embedded-storage` as a chip.
//!
//! NOR has no spare areas, so a page and its spare area lie one behind the other, and as many of them as fit
//! make a block of one erase unit or more. A page is programmed once between two erases, in ascending order,
//! as on NAND, which parts with an ECC of their own demand too (words that may be written once). The mark of
//! a bad block is byte 0 of the first page's spare area.

use alloc::vec;
use alloc::vec::Vec;
use embedded_storage::nor_flash::{NorFlash, NorFlashError, NorFlashErrorKind};
use nandex::nand::{NandError, PartError, ReadOutcome};
use nandex::shared::MaybeSend;
use nandex::{Cause, Geometry, Nand, Pbn, Ppn};

/// How pages lie in the erase units of a NOR part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a page's data area.
    pub page_bytes: u32,
    /// Bytes of its spare area, 16 for an FTL; an index says what it needs when it is refused.
    pub spare_bytes: u32,
}

/// A NOR part as a chip.
pub struct NorChip<F> {
    flash: F,
    geometry: Geometry,
    /// Bytes of a block: a multiple of the erase unit.
    block_bytes: u32,
    /// A page with its spare area.
    page: Vec<u8>,
}

impl<F: NorFlash> NorChip<F> {
    /// A chip of all whole erase units of the part. What the pages leave of a unit stays unused.
    ///
    /// # Errors
    ///
    /// Pages that do not fit the part: too long for an erase unit, or no multiple of what it writes.
    pub fn new(flash: F, shape: Shape) -> Result<NorChip<F>, PartError> {
        let wrong = |field, reason, value: u32| PartError { field, reason, value: value.into() };
        let (unit, write) = (F::ERASE_SIZE as u32, F::WRITE_SIZE as u32);
        let whole = shape.page_bytes.saturating_add(shape.spare_bytes);
        if write == 0 || !whole.is_multiple_of(write) || !whole.is_multiple_of(F::READ_SIZE as u32) {
            return Err(wrong("page_bytes", "page and spare area are no multiple of what is written", whole));
        }
        if shape.spare_bytes == 0 {
            return Err(wrong("spare_bytes", "a page has a spare byte at least, for the mark", 0));
        }
        // A block has two pages at least.
        let units = (2 * whole).div_ceil(unit.max(1)).max(1);
        let block_bytes = units * unit;
        let pages = block_bytes / whole;
        let blocks = flash.capacity() as u64 / u64::from(block_bytes.max(1));
        let geometry = Geometry::new(shape.page_bytes, shape.spare_bytes, pages.min(4096), blocks as u32);
        geometry.validate()?;
        Ok(NorChip { flash, geometry, block_bytes, page: vec![0xff; whole as usize] })
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

    fn load(&mut self, ppn: Ppn) -> Result<(), NandError> {
        let at = self.page_at(ppn)?;
        self.flash.read(at, &mut self.page).map_err(|error| fault(&error))
    }
}

/// The driver's fault by its kind: 1 not aligned, 2 out of bounds, 3 any other.
fn fault(error: &impl NorFlashError) -> NandError {
    NandError::Device(match error.kind() {
        NorFlashErrorKind::NotAligned => 1,
        NorFlashErrorKind::OutOfBounds => 2,
        _ => 3,
    })
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
        self.load(ppn)?;
        if self.page.iter().any(|byte| *byte != 0xff) {
            return Err(NandError::NotErased(ppn));
        }
        let (stored, area) = self.page.split_at_mut(self.geometry.page_bytes as usize);
        stored[..data.len()].copy_from_slice(data);
        area[..spare.len()].copy_from_slice(spare);
        let at = self.page_at(ppn)?;
        self.flash.write(at, &self.page).map_err(|error| fault(&error))
    }

    fn erase(&mut self, pbn: Pbn, _: Cause) -> Result<(), NandError> {
        let at = self.block_at(pbn)?;
        if self.is_bad(pbn)? {
            return Err(NandError::BadBlock(pbn));
        }
        self.flash.erase(at, at + self.block_bytes).map_err(|error| fault(&error))
    }

    fn is_bad(&mut self, pbn: Pbn) -> Result<bool, NandError> {
        self.block_at(pbn)?;
        self.load(self.geometry.page_at(pbn, 0))?;
        Ok(self.page[self.geometry.page_bytes as usize] == 0)
    }

    /// The block is erased for it: a word that is written may not take a mark.
    fn mark_bad(&mut self, pbn: Pbn) -> Result<(), NandError> {
        let at = self.block_at(pbn)?;
        let erased = self.flash.erase(at, at + self.block_bytes);
        erased.map_err(|_| NandError::BadBlock(pbn))?;
        self.page.fill(0xff);
        self.page[self.geometry.page_bytes as usize] = 0;
        self.flash.write(at, &self.page).map_err(|_| NandError::BadBlock(pbn))
    }

    fn ram_bytes(&self) -> usize {
        self.page.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ram::RamFlash;
    use nandex::IndexError;
    use nandex::ftl::page_map::{FtlSettings, PageMapFtl};
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
        let store = PageMapFtl::format(chip(), FtlSettings::default()).unwrap();
        let mut tree = BPlusTree::format(store, BPlusConfig::new(RecordFormat::new(4, 4))).unwrap();
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
        let index = MuTree::format(chip, &RawConfig::new(RecordFormat::new(4, 4)));
        assert_eq!(index.err(), Some(IndexError::from(nandex::StoreError::from(NandError::Device(3)))));
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
        let long =
            NorChip::new(RamFlash::<4, 4096>::new(1 << 16), Shape { page_bytes: 4096, spare_bytes: 64 });
        let geometry = long.unwrap().geometry();
        assert_eq!((geometry.pages_per_block, geometry.blocks), (2, 5), "blocks of three erase units");
    }
}
