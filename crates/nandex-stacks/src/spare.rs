//! Spare bytes for whoever needs more than the chip has: the data area lends them.

use crate::options::Settings;
use nandex::blocks::spare::SPARE_BYTES;
use nandex::index::require_ram;
use nandex::nand::{Geometry, LentSpare};
use nandex::{IndexError, Nand};

/// The number of spare bytes that an index or FTL needs on a chip.
pub(crate) type Needed = fn(Geometry) -> u32;

/// The spare bytes of a tree with a log of its own.
pub(crate) fn of_log(chip: Geometry) -> u32 {
    nandex::ordered::spare_bytes_needed(&chip)
}

/// The spare bytes of a tree with in-page logging.
pub(crate) fn of_ipl(_: Geometry) -> u32 {
    nandex_papers::ordered::ipl::SPARE_BYTES as u32
}

/// The spare bytes of a TBM beside an FTL.
pub(crate) fn of_tbm(_: Geometry) -> u32 {
    nandex_papers::ftl::tbm::SPARE_BYTES as u32
}

pub(crate) fn none(_: Geometry) -> u32 {
    0
}

/// Opens an index or store on a chip that lends spare bytes, with the RAM left after the lending. A refusal
/// for too little RAM names all RAM needed.
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

/// The chip with as many spare bytes as an FTL needs. The FTL itself counts the RAM for lending them.
pub(crate) fn for_ftl(nand: Box<dyn Nand>) -> Box<dyn Nand> {
    shown(nand, SPARE_BYTES as u32)
}

/// The chip with at least this many spare bytes.
pub(crate) fn shown(nand: Box<dyn Nand>, needed: u32) -> Box<dyn Nand> {
    if nand.geometry().spare_bytes >= needed { nand } else { Box::new(LentSpare::new(nand, needed)) }
}
