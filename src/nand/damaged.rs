//! For tests: a chip some of whose pages read otherwise than they were programmed, until their block is erased.

use super::sim::SimChip;
use super::{Cause, Geometry, Nand, NandError};
use crate::rng::Rng;
use crate::units::{Pbn, Ppn};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

/// What happened to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    /// It is uncorrectable.
    Unreadable,
    /// Eight bits are wrong.
    Flips,
    /// All bits are 0.
    Zeros,
    /// All bits are 1.
    Ones,
    /// Bytes of chance.
    Random,
    /// It holds what another page holds, and that one its bytes.
    Exchanged(Ppn),
    /// It holds the bytes of another page.
    CopyOf(Ppn),
}

impl Damage {
    /// Those that need no other page.
    pub(crate) const OF_BYTES: [Damage; 5] =
        [Damage::Unreadable, Damage::Flips, Damage::Zeros, Damage::Ones, Damage::Random];
}

/// A chip with damaged pages. None: uncorrectable.
#[derive(Clone, Debug)]
pub(crate) struct Damaged {
    pub(crate) chip: SimChip,
    pages: BTreeMap<u32, Option<Vec<u8>>>,
}

impl Damaged {
    pub(crate) fn new(chip: SimChip) -> Damaged {
        Damaged { chip, pages: BTreeMap::new() }
    }

    /// Data and spare area of a page as they are stored.
    pub(crate) fn raw(&mut self, ppn: Ppn) -> Option<Vec<u8>> {
        let g = self.chip.geometry();
        let mut bytes = vec![0; g.raw_page_bytes()];
        let (data, spare) = bytes.split_at_mut(g.page_bytes as usize);
        self.chip.read(ppn, Cause::Check, data, spare).ok().map(|()| bytes)
    }

    /// Lets a page read as these bytes.
    pub(crate) fn put(&mut self, ppn: Ppn, bytes: Option<Vec<u8>>) {
        self.pages.insert(ppn.0, bytes);
    }

    /// Damages a page that was programmed; pages that are erased stay so.
    pub(crate) fn damage(&mut self, ppn: Ppn, damage: Damage, seed: u64) {
        let Some(mut bytes) = self.raw(ppn).filter(|b| b.iter().any(|&byte| byte != 0xff)) else { return };
        let mut rng = Rng::new(seed ^ u64::from(ppn.0));
        let bits = bytes.len() as u64 * 8;
        match damage {
            Damage::Unreadable => return self.put(ppn, None),
            Damage::Flips => (0..8).for_each(|_| {
                let bit = rng.below(bits);
                bytes[bit as usize / 8] ^= 1 << (bit % 8);
            }),
            Damage::Zeros => bytes.fill(0),
            Damage::Ones => bytes.fill(0xff),
            Damage::Random => rng.fill(&mut bytes),
            Damage::Exchanged(other) => {
                let Some(others) = self.raw(other) else { return };
                self.put(other, Some(bytes));
                bytes = others;
            }
            Damage::CopyOf(other) => {
                let Some(others) = self.raw(other) else { return };
                bytes = others;
            }
        }
        self.put(ppn, Some(bytes));
    }

    /// Damages all pages of a block alike.
    pub(crate) fn damage_block(&mut self, pbn: Pbn, damage: Damage, seed: u64) {
        let g = self.chip.geometry();
        (0..g.pages_per_block).for_each(|page| self.damage(g.page_at(pbn, page), damage, seed));
    }
}

impl Nand for Damaged {
    fn geometry(&self) -> Geometry {
        self.chip.geometry()
    }

    fn read(&mut self, ppn: Ppn, cause: Cause, data: &mut [u8], spare: &mut [u8]) -> Result<(), NandError> {
        self.chip.read(ppn, cause, data, spare)?;
        match self.pages.get(&ppn.0) {
            None => {}
            Some(None) => return Err(NandError::Uncorrectable(ppn)),
            Some(Some(bytes)) => {
                let (stored, rest) = bytes.split_at(self.chip.geometry().page_bytes as usize);
                data.copy_from_slice(&stored[..data.len()]);
                spare.copy_from_slice(&rest[..spare.len()]);
            }
        }
        Ok(())
    }

    fn program(&mut self, ppn: Ppn, cause: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        self.chip.program(ppn, cause, data, spare)
    }

    fn erase(&mut self, pbn: Pbn, cause: Cause) -> Result<(), NandError> {
        self.chip.erase(pbn, cause)?;
        let g = self.chip.geometry();
        (0..g.pages_per_block).for_each(|page| {
            self.pages.remove(&g.page_at(pbn, page).0);
        });
        Ok(())
    }

    fn is_bad(&mut self, pbn: Pbn) -> Result<bool, NandError> {
        self.chip.is_bad(pbn)
    }

    fn mark_bad(&mut self, pbn: Pbn) -> Result<(), NandError> {
        self.chip.mark_bad(pbn)
    }
}
