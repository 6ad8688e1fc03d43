//! Deliberate damage to a chip. It ignores all rules of the chip, and is neither counted nor timed nor
//! recorded.

use super::SimChip;
use super::block::{Block, Health, NO_SLOT};
use crate::units::{Pbn, Ppn};
use alloc::sync::Arc;
use alloc::vec::Vec;

impl SimChip {
    /// Data and spare area of a page as they are stored. `None` if the page was not programmed since the last
    /// erase, or cannot be read. A page that only looks erased is all 0xFF.
    pub fn stored_page(&self, ppn: Ppn) -> Option<Vec<u8>> {
        let geometry = &self.part.geometry;
        assert!(ppn.0 < geometry.pages(), "{ppn} is beyond the end of the chip");
        let block = self.blocks[geometry.block_of(ppn).index()].as_deref()?;
        let state = block.pages[geometry.page_in_block(ppn) as usize];
        let page = geometry.page_in_block(ppn) as usize;
        let is_torn = block.torn_words(page).next().is_some();
        if state.programs == 0 || state.health == Health::Unreadable || is_torn {
            return None;
        }
        let stored = block.stored(geometry, state).map(<[u8]>::to_vec);
        Some(stored.unwrap_or_else(|| alloc::vec![0xff; geometry.raw_page_bytes()]))
    }

    /// Replaces the stored bytes of a programmed page: data, then spare area. The page stays programmed.
    pub fn damage_page(&mut self, ppn: Ppn, bytes: &[u8]) {
        let geometry = self.part.geometry;
        assert_eq!(bytes.len(), geometry.raw_page_bytes(), "a page is replaced whole");
        self.change_stored(ppn, |block, page| block.replace(&geometry, page, bytes));
    }

    /// Lets every read of a programmed page fail as uncorrectable until its block is erased.
    pub fn make_unreadable(&mut self, ppn: Ppn) {
        self.change_stored(ppn, |block, page| block.pages[page].health = Health::Unreadable);
    }

    /// Exchanges the contents of two blocks, as a part with faulty address lines may.
    pub fn exchange_blocks(&mut self, one: Pbn, other: Pbn) {
        self.blocks.swap(one.index(), other.index());
    }

    fn change_stored(&mut self, ppn: Ppn, change: impl FnOnce(&mut Block, usize)) {
        assert!(!self.is_erased(ppn), "{ppn} holds nothing that could be damaged");
        let geometry = self.part.geometry;
        if let Some(block) = &mut self.blocks[geometry.block_of(ppn).index()] {
            change(Arc::make_mut(block), geometry.page_in_block(ppn) as usize);
        }
    }
}

impl Block {
    fn replace(&mut self, geometry: &crate::nand::Geometry, page: usize, bytes: &[u8]) {
        let size = geometry.raw_page_bytes();
        if self.pages[page].slot == NO_SLOT {
            self.pages[page].slot = (self.bytes.len() / size) as u16;
            self.bytes.extend_from_slice(bytes);
        }
        let start = usize::from(self.pages[page].slot) * size;
        self.bytes[start..start + size].copy_from_slice(bytes);
        self.pages[page].health = Health::Good;
        self.forget_torn_words(page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nand::catalogue::mlc_64m;
    use crate::nand::{Cause, Nand, NandError};

    #[test]
    fn a_damaged_page_reads_as_it_was_left_until_it_is_erased() {
        let mut chip = SimChip::new(&mlc_64m()).unwrap();
        let size = chip.part().geometry.raw_page_bytes();
        chip.program(Ppn(0), Cause::Host, &[1, 2], &[]).unwrap();
        chip.program(Ppn(1), Cause::Host, &[3], &[4]).unwrap();
        assert_eq!(chip.stored_page(Ppn(2)), None);
        let mut bytes = chip.stored_page(Ppn(0)).unwrap();
        assert!(bytes.len() == size && bytes[..3] == [1, 2, 0xff]);
        let before = (chip.counters(), chip.operations());
        bytes[0] = 9;
        chip.damage_page(Ppn(0), &bytes);
        chip.make_unreadable(Ppn(1));
        assert_eq!((chip.counters(), chip.operations()), before);
        let mut read = [0; 2];
        chip.read(Ppn(0), Cause::Host, &mut read, &mut []).unwrap();
        assert_eq!(read, [9, 2]);
        let refused = chip.read(Ppn(1), Cause::Host, &mut read, &mut []);
        assert!(refused == Err(NandError::Uncorrectable(Ppn(1))) && chip.stored_page(Ppn(1)).is_none());
        assert!(chip.program(Ppn(1), Cause::Host, &[0], &[]).is_err(), "it is still programmed");
        chip.exchange_blocks(Pbn(0), Pbn(3));
        assert!(chip.is_erased(Ppn(0)));
        chip.exchange_blocks(Pbn(0), Pbn(3));
        chip.erase(Pbn(0), Cause::Host).unwrap();
        chip.read(Ppn(1), Cause::Host, &mut read, &mut []).unwrap();
        assert_eq!(read, [0xff; 2]);
    }
}
