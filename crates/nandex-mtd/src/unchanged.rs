//! A chip that is read but not changed: programs, erases and marks stay in RAM.
//!
//! Mounting an index may write, because it finishes work that a power cut interrupted. A program that only
//! wants to look at a device or a dump mounts it through this chip, so that the device gets reads only.

use nandex::nand::{NandError, ReadOutcome};
use nandex::{Cause, Geometry, Nand, Pbn, Ppn};
use std::collections::{BTreeMap, BTreeSet};

/// A chip whose changes stay in RAM.
pub struct Unchanged<N> {
    nand: N,
    geometry: Geometry,
    /// Data and spare area of each page that was programmed.
    pages: BTreeMap<u32, Vec<u8>>,
    erased: BTreeSet<u32>,
    marked: BTreeSet<u32>,
}

impl<N: Nand> Unchanged<N> {
    /// Around a chip, which only its reads and marks are asked for.
    pub fn new(nand: N) -> Unchanged<N> {
        let geometry = nand.geometry();
        let (pages, erased, marked) = Default::default();
        Unchanged { nand, geometry, pages, erased, marked }
    }

    /// Pages that were programmed into RAM.
    pub fn programmed(&self) -> usize {
        self.pages.len()
    }

    /// Gives the chip back, as it was.
    pub fn into_nand(self) -> N {
        self.nand
    }

    fn usable(&mut self, ppn: Ppn, data: usize, spare: usize) -> Result<Pbn, NandError> {
        if ppn.0 >= self.geometry.pages() {
            return Err(NandError::PageOutOfRange(ppn));
        }
        if data > self.geometry.page_bytes as usize || spare > self.geometry.spare_bytes as usize {
            return Err(NandError::BufferTooLong(ppn));
        }
        let pbn = self.geometry.block_of(ppn);
        if self.is_bad(pbn)? { Err(NandError::BadBlock(pbn)) } else { Ok(pbn) }
    }
}

impl<N: Nand> Nand for Unchanged<N> {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(
        &mut self,
        ppn: Ppn,
        cause: Cause,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadOutcome, NandError> {
        let pbn = self.usable(ppn, data.len(), spare.len())?;
        if let Some(page) = self.pages.get(&ppn.0) {
            let (page, area) = page.split_at(self.geometry.page_bytes as usize);
            data.copy_from_slice(&page[..data.len()]);
            spare.copy_from_slice(&area[..spare.len()]);
            return Ok(ReadOutcome::CLEAN);
        }
        if self.erased.contains(&pbn.0) {
            data.fill(0xff);
            spare.fill(0xff);
            return Ok(ReadOutcome::CLEAN);
        }
        self.nand.read(ppn, cause, data, spare)
    }

    fn program(&mut self, ppn: Ppn, cause: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        let pbn = self.usable(ppn, data.len(), spare.len())?;
        if self.pages.contains_key(&ppn.0) {
            return Err(NandError::NotErased(ppn));
        }
        let mut page = vec![0xff; self.geometry.raw_page_bytes()];
        let (whole, area) = page.split_at_mut(self.geometry.page_bytes as usize);
        if !self.erased.contains(&pbn.0) {
            self.nand.read(ppn, cause, whole, area)?;
            if whole.iter().chain(&*area).any(|byte| *byte != 0xff) {
                return Err(NandError::NotErased(ppn));
            }
        }
        whole[..data.len()].copy_from_slice(data);
        area[..spare.len()].copy_from_slice(spare);
        self.pages.insert(ppn.0, page);
        Ok(())
    }

    fn erase(&mut self, pbn: Pbn, _: Cause) -> Result<(), NandError> {
        if self.is_bad(pbn)? {
            return Err(NandError::BadBlock(pbn));
        }
        for page in 0..self.geometry.pages_per_block {
            self.pages.remove(&self.geometry.page_at(pbn, page).0);
        }
        self.erased.insert(pbn.0);
        Ok(())
    }

    fn is_bad(&mut self, pbn: Pbn) -> Result<bool, NandError> {
        if self.marked.contains(&pbn.0) { Ok(true) } else { self.nand.is_bad(pbn) }
    }

    fn mark_bad(&mut self, pbn: Pbn) -> Result<(), NandError> {
        if !self.is_bad(pbn)? {
            self.marked.insert(pbn.0);
        }
        Ok(())
    }

    fn tears(&self) -> bool {
        self.nand.tears()
    }

    fn replaces(&self) -> bool {
        false
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use nandex::Shared;
    use nandex::nand::catalogue::mlc_64m;
    use nandex::nand::sim::SimChip;
    use nandex::ordered::RecordFormat;
    use nandex_stacks::options::Settings;
    use nandex_stacks::registry;

    /// Each index is changed, cut and mounted again in RAM; the chip below keeps its bytes.
    #[test]
    fn an_index_that_is_changed_leaves_the_chip_as_it_was() {
        for name in ["mu", "plow", "bplus"] {
            let chip = Shared::new(SimChip::new(&mlc_64m()).unwrap());
            let entry = registry::index(name).unwrap();
            let settings = Settings::new(RecordFormat::new(8, 8));
            let mut index = (entry.format)(Box::new(chip.clone()), &settings).unwrap();
            for key in 0..500u64 {
                index.insert(&key.to_be_bytes(), &[1; 8]).unwrap();
            }
            drop(index);
            let pages = |chip: &Shared<SimChip>| {
                let mut all = Vec::new();
                for page in (0..chip.geometry().pages()).map(Ppn) {
                    let mut bytes = [0; 80];
                    let (data, spare) = bytes.split_at_mut(40);
                    chip.clone().read(page, Cause::Check, data, spare).unwrap();
                    all.extend(bytes);
                }
                all
            };
            let before = pages(&chip);
            let copy = Shared::new(Unchanged::new(chip.clone()));
            for round in 2..4u8 {
                let mut index = (entry.mount)(Box::new(copy.clone()), &settings).unwrap();
                for key in 0..2000u64 {
                    index.insert(&key.to_be_bytes(), &[round; 8]).unwrap();
                }
                assert!(index.check().unwrap().is_sound());
            }
            assert!(copy.lock().programmed() > 0);
            assert!(pages(&chip) == before, "{name}");
            let mut index = (entry.mount)(Box::new(chip), &settings).unwrap();
            let mut value = [0; 8];
            assert!(index.get(&499u64.to_be_bytes(), &mut value).unwrap() && value == [1; 8]);
            assert!(!index.get(&500u64.to_be_bytes(), &mut value).unwrap());
        }
    }

    #[test]
    fn programmed_pages_marks_and_erases_are_seen() {
        let mut chip = Unchanged::new(SimChip::new(&mlc_64m()).unwrap());
        let mut data = [0; 2];
        chip.program(Ppn(1), Cause::Host, &[5, 6], &[7]).unwrap();
        let mut spare = [0];
        chip.read(Ppn(1), Cause::Host, &mut data, &mut spare).unwrap();
        assert_eq!((data, spare), ([5, 6], [7]));
        assert_eq!(chip.program(Ppn(1), Cause::Host, &[1], &[]), Err(NandError::NotErased(Ppn(1))));
        chip.erase(Pbn(0), Cause::Host).unwrap();
        chip.read(Ppn(1), Cause::Host, &mut data, &mut []).unwrap();
        assert_eq!(data, [0xff; 2]);
        chip.mark_bad(Pbn(0)).unwrap();
        assert_eq!(chip.erase(Pbn(0), Cause::Host), Err(NandError::BadBlock(Pbn(0))));
        assert!(!chip.into_nand().is_bad(Pbn(0)).unwrap());
        let mut used = SimChip::new(&mlc_64m()).unwrap();
        used.program(Ppn(0), Cause::Host, &[1], &[]).unwrap();
        let mut chip = Unchanged::new(used);
        assert_eq!(chip.program(Ppn(0), Cause::Host, &[1], &[]), Err(NandError::NotErased(Ppn(0))));
    }
}
