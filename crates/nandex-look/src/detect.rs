//! Finds the family of formats on a chip and the size of its records, from its bytes.

use crate::decode::{Decoder, Family, LogKind, Record, Role, StoreShape};
use crate::scan::read;
use nandex::ordered::RecordFormat;
use nandex::{Cause, Geometry, Nand, NandError, Ppn};

/// The kind of contents that a chip has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detected {
    /// The family of formats.
    pub family: Family,
    /// The sizes of the records; a guess if the bytes do not tell them.
    pub record: RecordFormat,
    /// Whether the bytes told the sizes of the records.
    pub is_sure: bool,
    /// Whether the logical pages are a volume of SQLite databases.
    pub is_volume: bool,
}

impl Detected {
    /// Makes a result that is not a volume.
    pub const fn new(family: Family, record: RecordFormat, is_sure: bool) -> Detected {
        Detected { family, record, is_sure, is_volume: false }
    }
}

/// The first bytes of the directory of a volume.
const VOLUME: &[u8] = b"NDXSQL1\n";

/// Looks for the marks of the formats of `docs/format.md`; `None` if there are none.
///
/// `guess` is used for the sizes of records if the bytes do not tell them.
pub fn detect(chip: &mut dyn Nand, guess: RecordFormat) -> Result<Option<Detected>, NandError> {
    let geometry = chip.geometry();
    if let Some(found) = by_records(chip, guess)? {
        return Ok(Some(found));
    }
    for ppn in (0..geometry.pages()).map(Ppn) {
        if chip.is_bad(geometry.block_of(ppn))? {
            continue;
        }
        if let Some((data, _)) = read(chip, ppn)?
            && let Some(found) = by_page(&geometry, (ppn, &data), guess)
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Detects the families whose pages identify themselves: plow, SBITS, furrow, VMTree-OW.
fn by_page(geometry: &Geometry, (ppn, data): (Ppn, &[u8]), guess: RecordFormat) -> Option<Detected> {
    let known = |family, record| Some(Detected::new(family, record, true));
    match data {
        [b'V', b'M', b'O', b'W', ..] => Some(Detected::new(Family::Overwrite, guess, false)),
        [b'F', b'R', b'W', b'1', ..] => {
            let page = Decoder::new(Family::Furrow, guess, *geometry).glance(ppn, data, &[]);
            page.whole.then(|| known(Family::Furrow, RecordFormat::new(data[5], data[6]))).flatten()
        }
        [0xb6, ..] => {
            let page = Decoder::new(Family::Sbits, guess, *geometry).glance(ppn, data, &[]);
            (page.whole && data[2] > 0)
                .then(|| known(Family::Sbits, RecordFormat::new(data[2], data[3])))
                .flatten()
        }
        [_, _, _, _, 0x9e, ..] => {
            let decoder = Decoder::new(Family::Plow, guess, *geometry);
            let page = decoder.glance(ppn, data, &[]);
            let root =
                decoder.plow_root(data, &|_| None).filter(|_| page.whole && page.role == Role::Commit)?;
            let (key, value) = (u8::try_from(root.record.0).ok()?, u8::try_from(root.record.1).ok()?);
            (key > 0).then(|| known(Family::Plow, RecordFormat::new(key, value))).flatten()
        }
        _ => None,
    }
}

/// Detects logs, IPL and FTLs by their checkpoints, and the tree on an FTL by its superblock.
fn by_records(chip: &mut dyn Nand, guess: RecordFormat) -> Result<Option<Detected>, NandError> {
    for family in [Family::Log(LogKind::Mu), Family::Ipl, Family::Tbm, Family::Ftl] {
        let mut shown = family.shown(&mut *chip);
        let geometry = shown.geometry();
        let decoder = Decoder::new(family, guess, geometry);
        let (mut found, mut shape, mut buffered, mut is_volume) = (None, None, false, false);
        for ppn in (0..geometry.pages()).map(Ppn) {
            if shown.is_bad(geometry.block_of(ppn))? {
                continue;
            }
            let Some((data, spare)) = read(&mut shown, ppn)? else { continue };
            let page = decoder.glance(ppn, &data, &spare);
            if page.role == Role::Checkpoint && page.logical == Some(0) {
                found = data.get(4..).map(|payload| decoder.record_of(payload)).or(found);
            }
            if matches!(found, Some(Record::Log { .. } | Record::Ipl { .. })) {
                break;
            }
            shape = StoreShape::of_page(&data).or(shape);
            is_volume |= data.starts_with(VOLUME);
            buffered |= crate::decode::buffer_start(ppn, &geometry, &data, &spare).is_some();
        }
        if let Some(detected) = found.and_then(|record| of_record(&record, (shape, buffered), guess)) {
            return Ok(Some(Detected { is_volume, ..detected }));
        }
    }
    Ok(None)
}

fn of_record(
    record: &Record,
    (shape, buffered): (Option<StoreShape>, bool),
    guess: RecordFormat,
) -> Option<Detected> {
    let sized = |(key, value): (u8, u8)| (key > 0).then(|| RecordFormat::new(key, value));
    match record {
        Record::Log { owner, record, .. } => {
            let kind = LogKind::ALL.into_iter().find(|kind| kind.owner() == owner)?;
            Some(Detected::new(Family::Log(kind), sized(*record)?, true))
        }
        Record::Ipl { record, .. } => Some(Detected::new(Family::Ipl, sized(*record)?, true)),
        Record::PageMap { .. } | Record::Base { .. } | Record::Note { .. } => {
            let record =
                shape.and_then(|shape| sized((shape.record.0, shape.above.unwrap_or(shape.record.1))));
            let family = if buffered { Family::Tbm } else { Family::Ftl };
            Some(Detected::new(family, record.unwrap_or(guess), record.is_some()))
        }
        Record::Unknown => None,
    }
}

/// Reads a page as a family shows it, and decodes it with all fields.
pub fn page_in_detail(
    chip: impl Nand,
    decoder: &Decoder,
    ppn: Ppn,
) -> Result<(crate::decode::Page, Vec<u8>, Vec<u8>), NandError> {
    let mut shown = decoder.family.shown(chip);
    let geometry = shown.geometry();
    let mut data = vec![0; geometry.page_bytes as usize];
    let mut spare = vec![0; geometry.spare_bytes as usize];
    match shown.read(ppn, Cause::Check, &mut data, &mut spare) {
        Ok(_) => Ok((decoder.page(ppn, &data, &spare), data, spare)),
        Err(NandError::Uncorrectable(_)) => Ok((crate::decode::Page::unreadable(), Vec::new(), Vec::new())),
        Err(error) => Err(error),
    }
}
