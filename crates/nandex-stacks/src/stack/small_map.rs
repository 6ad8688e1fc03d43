//! Smaller tables for an FTL that keeps its map on the chip, if the usual ones leave too little RAM: a
//! smaller cache of the map and, if that does not suffice, valid pages counted per block only. The FTL itself
//! tells how small they must be, opened on a chip without contents.

use super::{Demand, ftl, least_bytes};
use crate::entry::Open;
use crate::options::{self, Settings};
use crate::stores::store;
use nandex::ftl::dftl;
use nandex::nand::{NandError, ReadOutcome};
use nandex::{Cause, Geometry, IndexError, Nand, PageStore, Pbn, Ppn};

const MAPPING_RAM: &str = "mapping_ram";

/// The option that says how valid pages are known.
const VALID: &str = "valid";
const BY_RAM: &str = "ram";
const COUNTS: &str = "counts";

/// Least size of the cached entries in bytes: 16 entries.
const LEAST: usize = 16 * dftl::ENTRY_BYTES;

/// Opens the FTL that the settings name. If the RAM does not suffice for the trees, a new FTL gets fewer
/// cached entries of its mapping table, and if that is not enough, counts of valid pages per block.
/// Explicit settings are kept.
pub(super) fn fitting_ftl(
    nand: Box<dyn Nand>,
    settings: &Settings,
    open: Open,
    (demand, trees): (Demand, usize),
) -> Result<Box<dyn PageStore>, IndexError> {
    let Some(ram) = settings.ram_bytes.filter(|_| open == Open::Format) else {
        return ftl(nand, settings, open);
    };
    let known = store(options::cache::ftl(&settings.options)).map_or(&[][..], |entry| entry.options);
    let has = |name: &str| known.iter().any(|option| option.name == name);
    let sizes_cache = has(MAPPING_RAM) && settings.options.text(MAPPING_RAM).is_none();
    let may_count = has(VALID) && settings.options.text(VALID).is_none_or(|valid| valid == BY_RAM);
    if !sizes_cache && !may_count {
        return ftl(nand, settings, open);
    }
    let geometry = nand.geometry();
    let ask = |settings: &Settings| {
        let blank = ftl(Box::new(Blank { geometry, ram_bytes: nand.ram_bytes() }), settings, open)?;
        Ok::<_, IndexError>((least_bytes(&*blank, settings, demand, trees)?, blank.ram_bytes()))
    };
    let smallest =
        |settings: Settings| if sizes_cache { settings.with(MAPPING_RAM, LEAST) } else { settings };
    let counted = smallest(settings.clone().with(VALID, COUNTS));
    let fewest = if may_count { ask(&counted).ok() } else { None };
    // One with a bit for each page has no room even to be asked where the RAM is this little; a tree takes
    // more than what counts take besides.
    let bits_bytes = geometry.pages().div_ceil(8) as usize;
    let has_room = |&(least, tables): &(usize, usize)| ram < least || ram >= tables + bits_bytes;
    let mut chosen = smallest(settings.clone());
    let mut least = None;
    if fewest.as_ref().is_none_or(has_room) {
        // Where it cannot be asked, the FTL itself says why.
        let Ok((bytes, _)) = ask(&chosen) else { return ftl(nand, settings, open) };
        if bytes <= ram && ask(settings).map_or(true, |(needed, _)| needed <= ram) {
            return ftl(nand, settings, open);
        }
        least = Some(bytes);
    }
    if let Some((fewer, _)) =
        fewest.filter(|(fewer, _)| least.is_none_or(|bytes| bytes > ram && *fewer < bytes))
    {
        (chosen, least) = (counted, Some(fewer));
    }
    if sizes_cache {
        // An entry takes some bytes besides.
        let left = ram.saturating_sub(least.unwrap_or(ram));
        let more = chosen.clone().with(MAPPING_RAM, LEAST + left / 4 * 3);
        if ask(&more).is_ok_and(|(needed, _)| needed <= ram) {
            chosen = more;
        }
    }
    ftl(nand, &chosen, open)
}

/// A chip with a geometry that accepts everything and stores nothing.
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
