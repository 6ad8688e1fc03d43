//! The cache of the mapping table of an FTL that keeps it on the chip, where the usual one leaves too little
//! RAM: how small it must be is asked of the FTL itself, on a chip that is none.

use super::{Demand, ftl, least_bytes};
use crate::entry::Open;
use crate::options::{self, Settings};
use crate::stores::store;
use nandex::ftl::dftl;
use nandex::nand::{NandError, ReadOutcome};
use nandex::{Cause, Geometry, IndexError, Nand, PageStore, Pbn, Ppn};

const MAPPING_RAM: &str = "mapping_ram";

/// The least bytes of cached entries: sixteen.
const LEAST: usize = 16 * dftl::ENTRY_BYTES;

/// The FTL that the settings name; a new one with fewer cached entries of its mapping table where the RAM
/// would not suffice for so many trees otherwise, and the settings do not say how many.
pub(super) fn fitting_ftl(
    nand: Box<dyn Nand>,
    settings: &Settings,
    open: Open,
    (demand, trees): (Demand, usize),
) -> Result<Box<dyn PageStore>, IndexError> {
    let is_cached = store(options::cache::ftl(&settings.options))
        .is_ok_and(|entry| entry.options.iter().any(|option| option.name == MAPPING_RAM));
    let may_choose = is_cached && open == Open::Format && settings.options.text(MAPPING_RAM).is_none();
    let Some(ram) = settings.ram_bytes.filter(|_| may_choose) else { return ftl(nand, settings, open) };
    let needed = |settings: &Settings| {
        let blank = Blank { geometry: nand.geometry(), ram_bytes: nand.ram_bytes() };
        least_bytes(&*ftl(Box::new(blank), settings, open)?, settings, demand, trees)
    };
    // Where it cannot be asked, the FTL itself says why.
    if needed(settings).map_or(true, |needed| needed <= ram) {
        return ftl(nand, settings, open);
    }
    let with = |bytes: usize| settings.clone().with(MAPPING_RAM, bytes);
    let least = needed(&with(LEAST))?;
    // An entry takes some bytes besides.
    let more = with(LEAST + ram.saturating_sub(least) / 4 * 3);
    let fits = needed(&more).is_ok_and(|needed| needed <= ram);
    ftl(nand, &if fits { more } else { with(LEAST) }, open)
}

/// A chip of a shape that takes everything and keeps nothing.
struct Blank {
    geometry: Geometry,
    ram_bytes: usize,
}

impl Nand for Blank {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(
        &mut self,
        _: Ppn,
        _: Cause,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadOutcome, NandError> {
        data.fill(0xff);
        spare.fill(0xff);
        Ok(ReadOutcome::CLEAN)
    }

    fn program(&mut self, _: Ppn, _: Cause, _: &[u8], _: &[u8]) -> Result<(), NandError> {
        Ok(())
    }

    fn erase(&mut self, _: Pbn, _: Cause) -> Result<(), NandError> {
        Ok(())
    }

    fn is_bad(&mut self, _: Pbn) -> Result<bool, NandError> {
        Ok(false)
    }

    fn mark_bad(&mut self, _: Pbn) -> Result<(), NandError> {
        Ok(())
    }

    fn ram_bytes(&self) -> usize {
        self.ram_bytes
    }
}
