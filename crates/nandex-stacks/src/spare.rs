//! Spare bytes for whoever needs more than the chip has: the data area lends them.

use crate::options::Settings;
use nandex::blocks::spare::SPARE_BYTES;
use nandex::nand::{Geometry, LentSpare};
use nandex::{IndexError, Nand};

/// Spare bytes that an index or FTL needs on a chip.
pub(crate) type Needed = fn(Geometry) -> u32;

/// The bytes of a tree with a log of its own.
pub(crate) fn of_log(chip: Geometry) -> u32 {
    nandex::ordered::spare_bytes_needed(&chip)
}

/// The bytes of a tree with in-page logging.
pub(crate) fn of_ipl(_: Geometry) -> u32 {
    nandex::ordered::ipl::SPARE_BYTES as u32
}

/// The bytes of a TBM beside an FTL.
pub(crate) fn of_tbm(_: Geometry) -> u32 {
    nandex::ftl::tbm::SPARE_BYTES as u32
}

/// No bytes are needed.
pub(crate) fn none(_: Geometry) -> u32 {
    0
}

/// A chip with as many spare bytes as are needed, and the settings with the RAM that is left then.
pub(crate) fn lend(
    nand: Box<dyn Nand>,
    settings: &Settings,
    needed: Needed,
) -> Result<(Box<dyn Nand>, Settings), IndexError> {
    let geometry = nand.geometry();
    let needed = needed(geometry);
    if geometry.spare_bytes >= needed {
        return Ok((nand, settings.clone()));
    }
    let held = nand.ram_bytes();
    let nand = shown(nand, needed);
    let taken = nand.ram_bytes() - held;
    let left = |ram: usize| {
        ram.checked_sub(taken).ok_or(IndexError::TooLittleRam {
            what: "a page to lend spare bytes from",
            given: ram,
            needed: taken,
        })
    };
    let ram_bytes = settings.ram_bytes.map(left).transpose()?;
    Ok((nand, Settings { ram_bytes, ..settings.clone() }))
}

/// A chip with as many spare bytes as an FTL needs; the FTL counts the RAM for it.
pub(crate) fn for_ftl(nand: Box<dyn Nand>) -> Box<dyn Nand> {
    shown(nand, SPARE_BYTES as u32)
}

/// A chip that shows so many spare bytes at least.
pub(crate) fn shown(nand: Box<dyn Nand>, needed: u32) -> Box<dyn Nand> {
    if nand.geometry().spare_bytes >= needed { nand } else { Box::new(LentSpare::new(nand, needed)) }
}
