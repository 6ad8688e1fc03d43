//! Spare bytes for whoever needs more than the chip has: the data area lends them.

use crate::options::Settings;
use nandex::blocks::spare::SPARE_BYTES;
use nandex::index::require_ram;
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
    nandex_papers::ordered::ipl::SPARE_BYTES as u32
}

/// The bytes of a TBM beside an FTL.
pub(crate) fn of_tbm(_: Geometry) -> u32 {
    nandex_papers::ftl::tbm::SPARE_BYTES as u32
}

/// No bytes are needed.
pub(crate) fn none(_: Geometry) -> u32 {
    0
}

/// Opens something on a chip with as many spare bytes as it needs and the RAM that is left then. A refusal
/// for want of RAM names all that is needed.
pub(crate) fn lent<T>(
    nand: Box<dyn Nand>,
    settings: &Settings,
    needed: Needed,
    open: impl FnOnce(Box<dyn Nand>, &Settings) -> Result<T, IndexError>,
) -> Result<T, IndexError> {
    require_ram(settings.ram_bytes)?;
    let needed = needed(nand.geometry());
    let held = nand.ram_bytes();
    let nand = shown(nand, needed);
    let taken = nand.ram_bytes() - held;
    let left = settings.ram_bytes.map(|ram| ram.saturating_sub(taken));
    let opened = open(nand, &Settings { ram_bytes: left, ..settings.clone() });
    opened.map_err(|error| match (error, settings.ram_bytes) {
        (IndexError::TooLittleRam { what, needed, .. }, Some(given)) => {
            IndexError::TooLittleRam { what, given, needed: needed + taken }
        }
        (error, _) => error,
    })
}

/// A chip with as many spare bytes as an FTL needs; the FTL counts the RAM for it.
pub(crate) fn for_ftl(nand: Box<dyn Nand>) -> Box<dyn Nand> {
    shown(nand, SPARE_BYTES as u32)
}

/// A chip that shows so many spare bytes at least.
pub(crate) fn shown(nand: Box<dyn Nand>, needed: u32) -> Box<dyn Nand> {
    if nand.geometry().spare_bytes >= needed { nand } else { Box::new(LentSpare::new(nand, needed)) }
}
