//! A chip some of whose pages read otherwise than they were programmed, until their block is erased.

use nandex::NandError;
use nandex::nand::sim::SimChip;
use nandex::nand::{Cause, Geometry, Nand, ReadOutcome};
use nandex::units::{Pbn, Ppn};
use std::collections::BTreeMap;

/// The contents that a page reads as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    Unreadable,
    /// Data area, then spare area.
    Bytes(Vec<u8>),
}

#[derive(Clone)]
pub(crate) struct Harmed {
    pub(crate) chip: SimChip,
    pages: BTreeMap<Ppn, Page>,
    /// The pages programmed last, the newest one last.
    pub(crate) last: Vec<Ppn>,
}

impl Harmed {
    pub(crate) fn new(chip: SimChip) -> Harmed {
        Harmed { chip, pages: BTreeMap::new(), last: Vec::new() }
    }

    /// The bytes of a page, unless it cannot be read.
    pub(crate) fn bytes(&mut self, ppn: Ppn) -> Option<Vec<u8>> {
        let geometry = self.geometry();
        let (page, spare) = (geometry.page_bytes as usize, geometry.spare_bytes as usize);
        let mut bytes = vec![0; page + spare];
        let (data, spare) = bytes.split_at_mut(page);
        self.read(ppn, Cause::Check, data, spare).ok()?;
        Some(bytes)
    }

    /// From now on the page reads like this.
    pub(crate) fn put(&mut self, ppn: Ppn, page: Page) {
        self.pages.insert(ppn, page);
    }
}

impl Nand for Harmed {
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
        match self.pages.get(&ppn) {
            None => Ok(outcome),
            Some(Page::Unreadable) => Err(NandError::Uncorrectable(ppn)),
            Some(Page::Bytes(bytes)) => {
                let (page, rest) = bytes.split_at(self.chip.geometry().page_bytes as usize);
                data.copy_from_slice(&page[..data.len()]);
                spare.copy_from_slice(&rest[..spare.len()]);
                Ok(outcome)
            }
        }
    }

    fn program(&mut self, ppn: Ppn, cause: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        self.last.push(ppn);
        let overwrites = self.geometry().overwrites();
        let page_bytes = self.geometry().page_bytes as usize;
        match self.pages.get_mut(&ppn) {
            // Damage that looks erased does not make the page programmable, or it does: both are seen on
            // chips.
            Some(Page::Bytes(bytes)) if overwrites => {
                let new =
                    data.iter().enumerate().chain(spare.iter().enumerate().map(|(i, b)| (page_bytes + i, b)));
                for (at, byte) in new {
                    if bytes[at] & byte != *byte {
                        return Err(NandError::SetsBits { page: ppn, byte: at as u32 });
                    }
                    bytes[at] = *byte;
                }
                Ok(())
            }
            Some(_) if overwrites => Err(NandError::ProgramFailed(ppn)),
            _ => self.chip.program(ppn, cause, data, spare),
        }
    }

    fn erase(&mut self, pbn: Pbn, cause: Cause) -> Result<(), NandError> {
        let geometry = self.geometry();
        self.chip.erase(pbn, cause)?;
        self.pages.retain(|&ppn, _| geometry.block_of(ppn) != pbn);
        Ok(())
    }

    fn is_bad(&mut self, pbn: Pbn) -> Result<bool, NandError> {
        self.chip.is_bad(pbn)
    }

    fn mark_bad(&mut self, pbn: Pbn) -> Result<(), NandError> {
        self.chip.mark_bad(pbn)
    }
}
