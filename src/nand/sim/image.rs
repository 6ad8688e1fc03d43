//! A chip as bytes, to be kept in a file and loaded again. Faults, planned power cuts and recordings are not
//! included.
//!
//! Numbers are little-endian. An erased page takes no room.
//!
//! ```text
//! header  magic "NANDEXCH", version u32: 3; 1 and 2 are read too
//!         page_bytes, spare_bytes, pages_per_block, blocks, programs_per_page_max                    5 x u32
//!         random_order 0 or 1, plus 65,536 for each channel beyond the first                          u32
//!         append_bytes; not in versions 1 and 2, where it is 1 for a part that overwrites, else 0     u32
//!         read_ns, program_ns, erase_ns, transfer_ps_per_byte                                        4 x u64
//!         first_ns, next_ns, page_bytes and page_ns of words, or 0; not in versions 1 and 2            4 x u64
//!         voltage_mv, read_ma, program_ma, erase_ma, transfer_ma, endurance_erases                   6 x u32
//!         page reads, page programs, block erases by cause, then time_ns, energy_pj, operations     30 x u64;
//!         in version 1 each row of counters lacks its last
//!         length of the name u32, the name in UTF-8, CRC-32 of the header so far
//! block   wear u32, flags u32 (1 bad, 2 half-erased), pages listed u32
//!         per page that is not erased, ascending: number u16, programs u8, kind u8 (0 the page's bytes follow,
//!         1 it reads as erased, 2 it is uncorrectable, 3 the number of its torn words u16, the first byte of
//!         each u32, and the page's bytes); programs 255 means that it takes no more, or of NOR 255 and more
//!         CRC-32 of the block's record
//! ```
//!
//! A loaded chip is powered and never fails until faults are set. [`SimChip::from_image`] takes any bytes: an
//! error names its place, and memory is taken only for pages that the image holds.

use super::append::{TornWord, has_words};
use super::block::{Block, Health, NO_SLOT, PageState, SEALED};
use super::{Counters, SimChip};
use crate::codec::{crc32, get_u16, get_u32, get_u64};
use crate::nand::{ByCause, Cause, Geometry, Part, PartError, Supply, Timing, WordTiming};
use crate::units::{Nanos, Pbn};
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

const MAGIC: &[u8; 8] = b"NANDEXCH";
const VERSION: u32 = 3;
/// Number of causes that an image of version 1 counts; scrubbing came with version 2.
const CAUSES_BEFORE: usize = 8;
/// Bytes of the shortest record of a block: wear, flags, number of pages, checksum.
const BLOCK_RECORD_MIN: u64 = 16;
/// Bound of a counter. A larger one is absurd, and adding to it could overflow.
const COUNT_MAX: u64 = 1 << 62;

const BAD: u32 = 1;
const HALF_ERASED: u32 = 2;

const KIND_BYTES: u8 = 0;
const KIND_LOOKS_ERASED: u8 = 1;
const KIND_UNREADABLE: u8 = 2;
const KIND_TORN_WORDS: u8 = 3;

/// Error: the bytes are no image of a chip.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageError {
    /// The bytes do not begin with the magic of an image.
    NotAnImage,
    /// The version of the image is not one that this program reads.
    UnknownVersion(u32),
    /// The bytes end too early.
    Truncated(ImagePlace),
    /// The bytes contradict themselves.
    Corrupted {
        /// Contradiction found.
        what: &'static str,
        /// Place of the contradiction.
        place: ImagePlace,
    },
    /// The image describes an impossible chip.
    Part(PartError),
}

/// Place in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImagePlace {
    /// Block whose record holds the place; `None` in the header or after the last block.
    pub block: Option<Pbn>,
    /// Byte offset in the image.
    pub offset: u64,
}

impl fmt::Display for ImagePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.block {
            Some(pbn) => write!(f, "byte {} ({pbn})", self.offset),
            None => write!(f, "byte {}", self.offset),
        }
    }
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImageError::NotAnImage => write!(f, "no image of a chip: it does not begin with NANDEXCH"),
            ImageError::UnknownVersion(version) => {
                write!(f, "an image of version {version}; this program reads version {VERSION}")
            }
            ImageError::Truncated(place) => write!(f, "the image is cut short at {place}"),
            ImageError::Corrupted { what, place } => write!(f, "the image is corrupted at {place}: {what}"),
            ImageError::Part(error) => write!(f, "the image describes an impossible chip: {error}"),
        }
    }
}

impl core::error::Error for ImageError {}

impl SimChip {
    /// Returns the chip as bytes.
    pub fn to_image(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_header(&mut out);
        for pbn in 0..self.blocks.len() {
            self.write_block(&mut out, pbn);
        }
        out
    }

    /// Returns the chip that `bytes` describe.
    pub fn from_image(bytes: &[u8]) -> Result<SimChip, ImageError> {
        let mut reader = Reader { bytes, at: 0, block: None };
        let mut chip = read_header(&mut reader)?;
        let blocks = chip.part.geometry.blocks;
        if (bytes.len() - reader.at) as u64 / BLOCK_RECORD_MIN < u64::from(blocks) {
            reader.at = bytes.len();
            return Err(reader.truncated());
        }
        for pbn in 0..blocks {
            reader.block = Some(Pbn(pbn));
            read_block(&mut reader, &mut chip, pbn as usize)?;
        }
        reader.block = None;
        if reader.at < bytes.len() {
            Err(reader.corrupted("more bytes after the last block"))
        } else {
            Ok(chip)
        }
    }

    fn write_header(&self, out: &mut Vec<u8>) {
        let (geometry, timing, supply) = (&self.part.geometry, &self.part.timing, &self.part.supply);
        out.extend_from_slice(MAGIC);
        put_u32s(
            out,
            &[
                VERSION,
                geometry.page_bytes,
                geometry.spare_bytes,
                geometry.pages_per_block,
                geometry.blocks,
                geometry.programs_per_page_max,
                u32::from(geometry.random_order) + ((geometry.channels - 1) << 16),
                geometry.append_bytes.into(),
            ],
        );
        put_u64s(out, &[timing.read_ns, timing.program_ns, timing.erase_ns, timing.transfer_ps_per_byte]);
        let words = self.part.words.unwrap_or(WordTiming::new(0, 0, 0, 0));
        put_u64s(out, &[words.first_ns, words.next_ns, words.page_bytes.into(), words.page_ns]);
        put_u32s(
            out,
            &[supply.voltage_mv, supply.read_ma, supply.program_ma, supply.erase_ma, supply.transfer_ma],
        );
        put_u32s(out, &[self.part.endurance_erases]);
        let counters = &self.counters;
        for row in [&counters.page_reads, &counters.page_programs, &counters.block_erases] {
            put_u64s(out, row);
        }
        put_u64s(out, &[self.time.0, self.energy_pj, self.operations]);
        put_u32s(out, &[self.part.name.len() as u32]);
        out.extend_from_slice(self.part.name.as_bytes());
        let checksum = crc32(&[out]);
        put_u32s(out, &[checksum]);
    }

    fn write_block(&self, out: &mut Vec<u8>, pbn: usize) {
        let start = out.len();
        let block = self.blocks[pbn].as_deref();
        let half_erased = block.is_some_and(|block| block.half_erased);
        let flags = if self.bad[pbn] { BAD } else { 0 } | if half_erased { HALF_ERASED } else { 0 };
        let listed = || {
            let pages = block.iter().flat_map(|block| block.pages.iter().enumerate());
            pages.filter(|(_, state)| state.programs > 0)
        };
        put_u32s(out, &[self.wear[pbn], flags, listed().count() as u32]);
        for (page, state) in listed() {
            let stored = block.and_then(|block| block.stored(&self.part.geometry, *state));
            let torn: Vec<TornWord> = block.iter().flat_map(|block| block.torn_words(page)).collect();
            let (kind, bytes) = match (state.health, stored) {
                (Health::Unreadable, _) => (KIND_UNREADABLE, &[][..]),
                (Health::Good, None) => (KIND_LOOKS_ERASED, &[][..]),
                (Health::Good, Some(bytes)) if !torn.is_empty() => (KIND_TORN_WORDS, bytes),
                (Health::Good, Some(bytes)) => (KIND_BYTES, bytes),
            };
            out.extend_from_slice(&(page as u16).to_le_bytes());
            out.extend_from_slice(&[state.programs, kind]);
            if kind == KIND_TORN_WORDS {
                out.extend_from_slice(&(torn.len() as u16).to_le_bytes());
                torn.iter().for_each(|word| put_u32s(out, &[word.byte]));
            }
            out.extend_from_slice(bytes);
        }
        let checksum = crc32(&[&out[start..]]);
        put_u32s(out, &[checksum]);
    }
}

fn put_u32s(out: &mut Vec<u8>, values: &[u32]) {
    values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
}

fn put_u64s(out: &mut Vec<u8>, values: &[u64]) {
    values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
}

/// Reader of an encoded image. Errors report its position.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    block: Option<Pbn>,
}

impl<'a> Reader<'a> {
    fn place(&self) -> ImagePlace {
        ImagePlace { block: self.block, offset: self.at as u64 }
    }

    fn truncated(&self) -> ImageError {
        ImageError::Truncated(self.place())
    }

    fn corrupted(&self, what: &'static str) -> ImageError {
        ImageError::Corrupted { what, place: self.place() }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], ImageError> {
        let taken = self.bytes[self.at..].get(..count).ok_or_else(|| self.truncated())?;
        self.at += count;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32, ImageError> {
        Ok(get_u32(self.take(4)?, 0))
    }

    fn u64(&mut self) -> Result<u64, ImageError> {
        Ok(get_u64(self.take(8)?, 0))
    }

    fn count(&mut self) -> Result<u64, ImageError> {
        let count = self.u64()?;
        if count < COUNT_MAX { Ok(count) } else { Err(self.corrupted("a counter is absurdly large")) }
    }

    fn counts(&mut self, causes: usize) -> Result<ByCause, ImageError> {
        let mut row = ByCause::default();
        for count in row.iter_mut().take(causes) {
            *count = self.count()?;
        }
        Ok(row)
    }

    /// Reads the checksum, and compares it with that of the bytes since `start`.
    fn checksum(&mut self, start: usize) -> Result<(), ImageError> {
        let computed = crc32(&[&self.bytes[start..self.at]]);
        if self.u32()? == computed { Ok(()) } else { Err(self.corrupted("the checksum does not match")) }
    }
}

fn read_header(reader: &mut Reader<'_>) -> Result<SimChip, ImageError> {
    if reader.take(MAGIC.len()).ok() != Some(MAGIC) {
        return Err(ImageError::NotAnImage);
    }
    let version = reader.u32()?;
    let causes = match version {
        1 => CAUSES_BEFORE,
        2 | VERSION => Cause::COUNTED.len(),
        _ => return Err(ImageError::UnknownVersion(version)),
    };
    let mut part = read_part(reader, version)?;
    let counters = Counters {
        page_reads: reader.counts(causes)?,
        page_programs: reader.counts(causes)?,
        block_erases: reader.counts(causes)?,
    };
    let [time, energy_pj, operations] = [reader.count()?, reader.count()?, reader.count()?];
    let name_bytes = reader.u32()?;
    if name_bytes as usize > Part::NAME_BYTES_MAX {
        return Err(reader.corrupted("the part's name is too long"));
    }
    let Ok(name) = core::str::from_utf8(reader.take(name_bytes as usize)?) else {
        return Err(reader.corrupted("the part's name is not UTF-8"));
    };
    part.name = Cow::Owned(String::from(name));
    reader.checksum(0)?;
    let mut chip = SimChip::new(&part).map_err(ImageError::Part)?;
    chip.counters = counters;
    chip.time = Nanos(time);
    chip.energy_pj = energy_pj;
    chip.operations = operations;
    Ok(chip)
}

fn read_part(reader: &mut Reader<'_>, version: u32) -> Result<Part, ImageError> {
    let geometry = Geometry::new(reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?);
    let mut geometry = geometry.with_programs_per_page_max(reader.u32()?);
    let order_and_channels = reader.u32()?;
    geometry.channels = (order_and_channels >> 16) + 1;
    geometry.random_order = match order_and_channels & 0xffff {
        0 => false,
        1 => true,
        _ => return Err(reader.corrupted("random_order is neither 0 nor 1")),
    };
    if version >= 3 {
        let word = reader.u32()?;
        geometry.append_bytes =
            u16::try_from(word).map_err(|_| reader.corrupted("append_bytes is above 65,535"))?;
    }
    let timing = Timing {
        read_ns: reader.u64()?,
        program_ns: reader.u64()?,
        erase_ns: reader.u64()?,
        transfer_ps_per_byte: reader.u64()?,
    };
    let words = if version >= 3 { read_words(reader)? } else { None };
    let supply = Supply {
        voltage_mv: reader.u32()?,
        read_ma: reader.u32()?,
        program_ma: reader.u32()?,
        erase_ma: reader.u32()?,
        transfer_ma: reader.u32()?,
    };
    let endurance_erases = reader.u32()?;
    Ok(Part { words, supply, endurance_erases, ..Part::new("", geometry, timing) })
}

fn read_words(reader: &mut Reader<'_>) -> Result<Option<WordTiming>, ImageError> {
    let [first_ns, next_ns, page_bytes, page_ns] =
        [reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?];
    let Ok(page_bytes) = u32::try_from(page_bytes) else {
        return Err(reader.corrupted("a program page is too long"));
    };
    Ok((page_bytes > 0).then_some(WordTiming::new(first_ns, next_ns, page_bytes, page_ns)))
}

fn read_block(reader: &mut Reader<'_>, chip: &mut SimChip, pbn: usize) -> Result<(), ImageError> {
    let geometry = chip.part.geometry;
    let start = reader.at;
    let [wear, flags, listed] = [reader.u32()?, reader.u32()?, reader.u32()?];
    if flags > BAD | HALF_ERASED {
        return Err(reader.corrupted("unknown flags"));
    }
    if listed > geometry.pages_per_block {
        return Err(reader.corrupted("more pages than a block has"));
    }
    let half_erased = flags & HALF_ERASED != 0;
    if listed > 0 || half_erased {
        let mut block = Block::with_capacity(&geometry, 0);
        block.half_erased = half_erased;
        for _ in 0..listed {
            read_page(reader, &geometry, &mut block)?;
        }
        chip.blocks[pbn] = Some(Arc::new(block));
    }
    chip.bad[pbn] = flags & BAD != 0;
    chip.wear[pbn] = wear;
    reader.checksum(start)
}

fn read_page(reader: &mut Reader<'_>, geometry: &Geometry, block: &mut Block) -> Result<(), ImageError> {
    let head = reader.take(4)?;
    let (page, programs, kind) = (u32::from(get_u16(head, 0)), head[2], head[3]);
    if page < block.next || page >= geometry.pages_per_block {
        return Err(reader.corrupted("a page out of place"));
    }
    let is_counted = !has_words(geometry) && programs != SEALED;
    if programs == 0 || (u32::from(programs) > geometry.programs_per_page_max && is_counted) {
        return Err(reader.corrupted("an impossible number of programs"));
    }
    let raw_bytes = geometry.raw_page_bytes();
    let (health, slot) = match kind {
        KIND_BYTES | KIND_TORN_WORDS => {
            if kind == KIND_TORN_WORDS {
                read_torn_words(reader, geometry, (block, page))?;
            }
            let slot = block.bytes.len() / raw_bytes;
            block.bytes.extend_from_slice(reader.take(raw_bytes)?);
            (Health::Good, slot as u16)
        }
        KIND_LOOKS_ERASED => (Health::Good, NO_SLOT),
        KIND_UNREADABLE => (Health::Unreadable, NO_SLOT),
        _ => return Err(reader.corrupted("an unknown kind of page")),
    };
    block.pages[page as usize] = PageState { programs, health, slot };
    block.next = page + 1;
    Ok(())
}

fn read_torn_words(
    reader: &mut Reader<'_>,
    geometry: &Geometry,
    (block, page): (&mut Block, u32),
) -> Result<(), ImageError> {
    let words = get_u16(reader.take(2)?, 0);
    let mut from = 0;
    for _ in 0..words {
        let byte = reader.u32()?;
        let is_word = has_words(geometry) && byte.is_multiple_of(geometry.append_bytes.into());
        if !is_word || byte < from || byte as usize >= geometry.raw_page_bytes() {
            return Err(reader.corrupted("a torn word out of place"));
        }
        block.torn.push(TornWord { page: page as u16, byte });
        from = byte + u32::from(geometry.append_bytes);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nand::Nand;
    use crate::nand::sim::{CutWhen, PhysicalOp, PowerCut, TornModel};
    use crate::units::Ppn;

    /// A chip with a page of each kind, a worn, a bad and a half-erased block.
    fn eventful() -> SimChip {
        let timing = Timing { read_ns: 20, program_ns: 200, erase_ns: 1500, transfer_ps_per_byte: 25_000 };
        let mut geometry = Geometry::new(64, 8, 4, 6);
        geometry.programs_per_page_max = 2;
        let mut chip = SimChip::new(&Part::new("small", geometry, timing)).unwrap();
        for ppn in 0..8 {
            chip.program(Ppn(ppn), Cause::COUNTED[ppn as usize], &[ppn as u8; 64], &[1; 8]).unwrap();
        }
        chip.program(Ppn(7), Cause::Host, &[0; 64], &[]).unwrap();
        chip.read(Ppn(7), Cause::Merge, &mut [0; 64], &mut [0; 8]).unwrap();
        chip.erase(Pbn(3), Cause::Recovery).unwrap();
        chip.mark_bad(Pbn(4)).unwrap();
        let op = |ppn| PhysicalOp::Program { ppn: Ppn(ppn), data: [2; 9].into(), spare: [].into() };
        chip.apply_torn(&op(8), TornModel::Unreadable, 1).unwrap();
        chip.apply_torn(&op(9), TornModel::LooksErased, 1).unwrap();
        chip.apply_torn(&PhysicalOp::Erase { pbn: Pbn(0) }, TornModel::Unreadable, 3).unwrap();
        chip.apply_torn(&PhysicalOp::Erase { pbn: Pbn(5) }, TornModel::Prefix, 3).unwrap();
        chip
    }

    /// Bytes of a header before the rows of counters.
    const ROWS: usize = WORDS + 4 + 8 * 8 + 6 * 4;
    /// Place of the bytes of a word to append.
    const WORDS: usize = 8 + 7 * 4;

    /// The image as an earlier version wrote it.
    fn as_version(version: u8, new: &[u8]) -> Vec<u8> {
        let row_bytes = if version == 1 { 64 } else { 72 };
        let timing = WORDS + 4..WORDS + 4 + 4 * 8;
        let mut old = [&new[..WORDS], &new[timing.clone()], &new[timing.end + 4 * 8..ROWS]].concat();
        old[8] = version;
        (0..3).for_each(|row| old.extend_from_slice(&new[ROWS + row * 72..ROWS + row * 72 + row_bytes]));
        let name = ROWS + 27 * 8 + 24;
        let name_end = name + 4 + get_u32(new, name) as usize;
        old.extend_from_slice(&new[ROWS + 27 * 8..name_end]);
        let checksum = crc32(&[&old]);
        put_u32s(&mut old, &[checksum]);
        [&old, &new[name_end + 4..]].concat()
    }

    #[test]
    fn images_of_earlier_versions_are_read() {
        let mut chip = eventful();
        let new = chip.to_image();
        for version in [1, 2] {
            let old = as_version(version, &new);
            assert_eq!(SimChip::from_image(&old).unwrap().to_image(), new, "{version}");
        }
        let before = chip.counters();
        let _ = chip.read(Ppn(0), Cause::Scrubbing, &mut [0], &mut []);
        assert_ne!(chip.counters(), before);
        assert_eq!(SimChip::from_image(&chip.to_image()).unwrap().counters(), chip.counters());
    }

    /// A chip of words that are programmed once, one of them torn in each of two pages.
    fn with_torn_words() -> SimChip {
        let geometry = Geometry::new(64, 8, 4, 6).with_append_bytes(8);
        let timing = eventful().part().timing;
        let part = Part::new("small", geometry, timing).with_words(WordTiming::each(5));
        let mut chip = SimChip::new(&part).unwrap();
        let op = |ppn, from: usize| {
            let data: Vec<u8> = (0..64).map(|byte| if byte < from { 0xff } else { 2 }).collect();
            PhysicalOp::Program { ppn: Ppn(ppn), data: data.into(), spare: [].into() }
        };
        for ppn in [0, 4] {
            chip.program(Ppn(ppn), Cause::Host, &[1; 16], &[]).unwrap();
            chip.apply_torn(&op(ppn, 16), TornModel::Unreadable, 6).unwrap();
        }
        chip.apply_torn(&op(1, 0), TornModel::Unreadable, 2).unwrap();
        chip.program(Ppn(5), Cause::Host, &[1; 16], &[]).unwrap();
        chip
    }

    #[test]
    fn an_image_of_a_part_that_overwrites_takes_appends_in_every_version() {
        let geometry = Geometry::new(64, 8, 4, 6).with_programs_per_page_max(Geometry::ANY_PROGRAMS);
        let chip = SimChip::new(&Part::new("nor", geometry, eventful().part().timing)).unwrap();
        let old = SimChip::from_image(&as_version(2, &chip.to_image())).unwrap();
        assert_eq!(old.geometry(), geometry);
    }

    #[test]
    fn an_image_brings_everything_back() {
        for chip in [eventful(), with_torn_words()] {
            is_brought_back(chip);
        }
    }

    fn is_brought_back(chip: SimChip) {
        let image = chip.to_image();
        let mut back = SimChip::from_image(&image).unwrap();
        assert_eq!(back.to_image(), image);
        assert_eq!((back.part(), back.counters(), back.time()), (chip.part(), chip.counters(), chip.time()));
        assert_eq!((back.energy_pj(), back.operations()), (chip.energy_pj(), chip.operations()));
        assert_eq!((back.wear(), &back.bad), (chip.wear(), &chip.bad));
        let mut chip = chip;
        for ppn in (0..24).map(Ppn) {
            let (mut old, mut new) = ([0; 72], [0; 72]);
            let [from_old, from_new] = [(&mut chip, &mut old), (&mut back, &mut new)].map(|(chip, page)| {
                let (data, spare) = page.split_at_mut(64);
                chip.read(ppn, Cause::Check, data, spare)
            });
            assert_eq!((from_old, old), (from_new, new), "{ppn}");
            let [in_old, in_new] =
                [&mut chip, &mut back].map(|chip| chip.clone().program(ppn, Cause::Check, &[0; 3], &[]));
            assert_eq!(in_old, in_new, "{ppn}");
        }
    }

    #[test]
    fn a_loaded_chip_goes_on() {
        let mut chip = SimChip::from_image(&eventful().to_image()).unwrap();
        for pbn in (0..6).filter(|&pbn| pbn != 4) {
            chip.erase(Pbn(pbn), Cause::Host).unwrap();
            for page in 0..4 {
                chip.program(Ppn(pbn * 4 + page), Cause::Host, &[page as u8; 64], &[0; 8]).unwrap();
            }
        }
        let mut data = [0; 64];
        chip.read(Ppn(23), Cause::Host, &mut data, &mut []).unwrap();
        assert_eq!(data, [3; 64]);
    }

    #[test]
    fn a_partly_programmed_block_is_programmed_further() {
        let mut chip = SimChip::from_image(&eventful().to_image()).unwrap();
        let shared = chip.clone();
        chip.program(Ppn(10), Cause::Host, &[5; 64], &[]).unwrap();
        assert_ne!(shared.to_image(), chip.to_image());
        assert_eq!(shared.to_image(), eventful().to_image());
    }

    #[test]
    fn an_image_of_a_chip_without_power_has_power_again() {
        let mut chip = eventful();
        let at_operation = chip.operations();
        chip.plan_power_cut(PowerCut {
            at_operation,
            when: CutWhen::Before,
            torn: TornModel::Prefix,
            seed: 0,
        });
        chip.erase(Pbn(1), Cause::Host).unwrap_err();
        assert!(SimChip::from_image(&chip.to_image()).unwrap().is_powered());
    }

    #[test]
    fn erased_pages_take_no_room() {
        let part = crate::nand::catalogue::mlc_64m();
        assert!(SimChip::new(&part).unwrap().to_image().len() < 128 * 16 + 1000);
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        [eventful(), with_torn_words()].iter().for_each(|chip| assert_noticed(&chip.to_image()));
    }

    fn assert_noticed(image: &[u8]) {
        for at in 0..image.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut wrong = image.to_vec();
                wrong[at] ^= change;
                let error = SimChip::from_image(&wrong).unwrap_err();
                assert!(!alloc::format!("{error}").is_empty());
            }
        }
    }

    #[test]
    fn every_cut_image_is_noticed_and_so_is_a_longer_one() {
        let image = eventful().to_image();
        for length in 0..image.len() {
            assert!(SimChip::from_image(&image[..length]).is_err(), "{length} bytes");
        }
        let longer = [&image[..], &[0]].concat();
        let place = ImagePlace { block: None, offset: image.len() as u64 };
        let what = "more bytes after the last block";
        assert_eq!(SimChip::from_image(&longer).unwrap_err(), ImageError::Corrupted { what, place });
    }

    /// Damaged images with recomputed checksums must neither make the loader panic nor take much memory.
    #[test]
    fn every_changed_byte_under_a_right_checksum_is_refused_or_loads() {
        [eventful(), with_torn_words()].iter().for_each(|chip| assert_refused_or_loads(&chip.to_image()));
    }

    fn assert_refused_or_loads(image: &[u8]) {
        let name = "small".len();
        let header = ROWS + 27 * 8 + 4 + name;
        for at in 0..header {
            for change in [0x01, 0x10, 0x80, 0xff] {
                let mut wrong = image.to_vec();
                wrong[at] ^= change;
                let checksum = crc32(&[&wrong[..header]]);
                wrong[header..header + 4].copy_from_slice(&checksum.to_le_bytes());
                exercise(&wrong);
            }
        }
        let first = header + 4;
        let record = SimChip::from_image(image).unwrap().record_bytes(0);
        for at in first..first + record - 4 {
            for change in [0x01, 0x02, 0x04, 0x80, 0xff] {
                let mut wrong = image.to_vec();
                wrong[at] ^= change;
                let checksum = crc32(&[&wrong[first..first + record - 4]]);
                wrong[first + record - 4..first + record].copy_from_slice(&checksum.to_le_bytes());
                exercise(&wrong);
            }
        }
    }

    /// Loads the image and, if it loads, does everything to block 0.
    fn exercise(image: &[u8]) {
        let Ok(mut chip) = SimChip::from_image(image) else { return };
        let geometry = chip.geometry();
        for ppn in 0..geometry.pages_per_block {
            let _ = chip.read(Ppn(ppn), Cause::Host, &mut [0; 64], &mut []);
            let _ = chip.program(Ppn(ppn), Cause::Host, &[0; 64], &[]);
        }
        chip.erase(Pbn(0), Cause::Host).map_or_else(|_| (), |()| assert!(chip.wear()[0] > 0));
        assert_eq!(SimChip::from_image(&chip.to_image()).unwrap().wear(), chip.wear());
    }

    impl SimChip {
        fn record_bytes(&self, pbn: usize) -> usize {
            let mut out = Vec::new();
            self.write_block(&mut out, pbn);
            out.len()
        }
    }

    #[test]
    fn errors_say_what_and_where() {
        let image = eventful().to_image();
        let text = |bytes: &[u8]| alloc::format!("{}", SimChip::from_image(bytes).unwrap_err());
        assert_eq!(text(b"PK"), "no image of a chip: it does not begin with NANDEXCH");
        let mut wrong = image.clone();
        wrong[8] = 9;
        assert_eq!(text(&wrong), "an image of version 9; this program reads version 3");
        let mut wrong = image.clone();
        let last = wrong.len() - 1;
        wrong[last] ^= 1;
        let expected = alloc::format!(
            "the image is corrupted at byte {} (pbn 5): the checksum does not match",
            image.len()
        );
        assert_eq!(text(&wrong), expected);
    }
}
