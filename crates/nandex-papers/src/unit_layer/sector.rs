//! Sectors: pages full of index units, of one node or of many, and the writer that fills one after the other.
//!
//! ```text
//! bytes 0..4   CRC-32 of "NXUN", the page's number and the bytes from 4 to the end of the last unit
//!       4..8   commit, from 1
//!       8..10  units; + 0x8000 in the sector of a node in disk mode
//!      10..12  which page of its commit, from 0; + 0x8000 on the last one; + 0x4000 if a compaction wrote it
//!      12..    the units
//! ```
//!
//! A commit is a run of sectors with its number. It counts if it is whole, so a commit of any size is atomic
//! over every store that keeps pages whole.

use super::unit::{Unit, unit_bytes};
use alloc::vec;
use alloc::vec::Vec;
use nandex::codec::{crc32, get_u16, get_u32, put_u16, put_u32};
use nandex::store::StoreError;
use nandex::units::Lpn;

const HEAD_BYTES: usize = 12;
const SALT: &[u8; 4] = b"NXUN";
const LAST: u16 = 0x8000;
const OWN: u16 = 0x4000;
const DISK: u16 = 0x8000;

/// Units that a sector of this size holds.
#[inline]
pub(super) const fn sector_units(page_bytes: usize, body_bytes: usize) -> usize {
    let units = page_bytes.saturating_sub(HEAD_BYTES) / unit_bytes(body_bytes);
    let most = (DISK - 1) as usize;
    if units > most { most } else { units }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) commit: u32,
    pub(super) part: u16,
    pub(super) is_last: bool,
    /// Whether a compaction wrote the sector. All its units are then of one node.
    pub(super) is_own: bool,
    /// Whether the sector is that of a node in disk mode.
    pub(super) is_disk: bool,
    pub(super) units: usize,
}

impl Head {
    /// Decodes the head of a sector and checks the checksum. `None` if the page is blank.
    pub(super) fn read(page: &[u8], lpn: Lpn, body_bytes: usize) -> Result<Option<Head>, StoreError> {
        if page[..HEAD_BYTES].iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let (count, part) = (get_u16(page, 8), get_u16(page, 10));
        let units = usize::from(count & !DISK);
        let damaged = StoreError::Corrupted { what: "N1: the sector is damaged", at: u64::from(lpn.0) };
        if units > sector_units(page.len(), body_bytes) {
            return Err(damaged);
        }
        let head = Head {
            commit: get_u32(page, 4),
            part: part & !(LAST | OWN),
            is_last: part & LAST != 0,
            is_own: part & OWN != 0,
            is_disk: count & DISK != 0,
            units,
        };
        let is_right = get_u32(page, 0) == checksum(page, lpn, units, body_bytes);
        let is_whole = encoded(page, units, body_bytes).all(Unit::is_whole);
        if is_right && is_whole && head.commit > 0 { Ok(Some(head)) } else { Err(damaged) }
    }
}

#[inline]
pub(super) fn unit_at(page: &[u8], i: usize, body_bytes: usize) -> &[u8] {
    let bytes = unit_bytes(body_bytes);
    &page[HEAD_BYTES + i * bytes..][..bytes]
}

#[inline]
fn encoded(page: &[u8], count: usize, body_bytes: usize) -> impl Iterator<Item = &[u8]> {
    page[HEAD_BYTES..].chunks_exact(unit_bytes(body_bytes)).take(count)
}

#[inline]
pub(super) fn units(page: &[u8], count: usize, body_bytes: usize) -> impl Iterator<Item = Unit<'_>> {
    encoded(page, count, body_bytes).filter_map(move |bytes| Unit::decode(bytes, body_bytes))
}

#[inline]
pub(super) fn units_of(
    page: &[u8],
    node: u32,
    (count, body_bytes): (usize, usize),
) -> impl Iterator<Item = Unit<'_>> {
    let of_node = encoded(page, count, body_bytes).filter(move |bytes| Unit::node_of(bytes) == node);
    of_node.filter_map(move |bytes| Unit::decode(bytes, body_bytes))
}

fn checksum(page: &[u8], lpn: Lpn, units: usize, body_bytes: usize) -> u32 {
    let end = HEAD_BYTES + units * unit_bytes(body_bytes);
    crc32(&[SALT, &lpn.0.to_le_bytes(), &page[4..end]])
}

/// The kind of a commit's sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Sectors with units of several nodes.
    Mixed,
    /// Sectors of one node that was gathered.
    Own,
    /// The sector of a node in disk mode.
    Disk,
}

/// The receiver of a writer's sectors.
pub(super) trait Sink {
    fn allocate(&mut self) -> Result<Lpn, StoreError>;

    fn write(&mut self, lpn: Lpn, page: &[u8]) -> Result<(), StoreError>;
}

pub(super) struct SectorWriter {
    page: Vec<u8>,
    body_bytes: usize,
    units: usize,
    sector: Option<Lpn>,
    commit: u32,
    part: u16,
    is_own: bool,
    is_disk: bool,
    number: u32,
    /// Pairs of a node and a sector with units of it, in the order of writing.
    pub(super) placed: Vec<(u32, Lpn)>,
    pub(super) sectors: Vec<Lpn>,
}

impl SectorWriter {
    pub(super) fn new(page_bytes: usize, body_bytes: usize) -> SectorWriter {
        SectorWriter {
            page: vec![0; page_bytes],
            body_bytes,
            units: 0,
            sector: None,
            commit: 0,
            part: 0,
            is_own: false,
            is_disk: false,
            number: 0,
            placed: Vec::new(),
            sectors: Vec::new(),
        }
    }

    /// Begins a commit. Its first unit gets the number `number`.
    pub(super) fn begin(&mut self, commit: u32, number: u32, kind: Kind) {
        debug_assert!(commit > 0, "commits count from 1");
        (self.commit, self.number) = (commit, number);
        self.set_kind(kind);
        (self.units, self.part, self.sector) = (0, 0, None);
        self.placed.clear();
        self.sectors.clear();
    }

    /// Adds a unit. If the sector is full, it is written first.
    pub(super) fn push(&mut self, unit: Unit<'_>, sink: &mut impl Sink) -> Result<(), StoreError> {
        if self.units == sector_units(self.page.len(), self.body_bytes) {
            self.turn(sink)?;
        }
        let lpn = match self.sector {
            Some(lpn) => lpn,
            None => {
                let lpn = sink.allocate()?;
                self.sectors.push(lpn);
                *self.sector.insert(lpn)
            }
        };
        debug_assert!(
            self.units < sector_units(self.page.len(), self.body_bytes),
            "N1: unit {} of {lpn}",
            self.units
        );
        let bytes = unit_bytes(self.body_bytes);
        unit.encode(self.number, &mut self.page[HEAD_BYTES + self.units * bytes..][..bytes]);
        self.units += 1;
        self.number = self.number.wrapping_add(1);
        if self.placed.last() != Some(&(unit.node, lpn)) {
            self.placed.push((unit.node, lpn));
        }
        Ok(())
    }

    /// Sets the kind of the sectors from here on.
    fn set_kind(&mut self, kind: Kind) {
        (self.is_own, self.is_disk) = (kind != Kind::Mixed, kind == Kind::Disk);
    }

    /// Ends the sector begun, if any. The next sector is for a node in disk mode.
    pub(super) fn turn_to_disk(&mut self, sink: &mut impl Sink) -> Result<(), StoreError> {
        if self.sector.is_some() {
            self.turn(sink)?;
        }
        self.set_kind(Kind::Disk);
        Ok(())
    }

    /// Ends the sector begun. Another of the same commit follows.
    pub(super) fn turn(&mut self, sink: &mut impl Sink) -> Result<(), StoreError> {
        self.write(0, sink)?;
        self.part += 1;
        Ok(())
    }

    /// Ends the commit. Returns the number of the next unit.
    pub(super) fn end(&mut self, sink: &mut impl Sink) -> Result<u32, StoreError> {
        self.write(LAST, sink)?;
        Ok(self.number)
    }

    fn write(&mut self, flag: u16, sink: &mut impl Sink) -> Result<(), StoreError> {
        let Some(lpn) = self.sector.take() else { unreachable!("a sector has a unit") };
        assert!(self.part < OWN, "a commit of 16384 sectors");
        debug_assert!(self.units > 0, "N1: {lpn} would hold nothing");
        let page = &mut self.page;
        page[HEAD_BYTES + self.units * unit_bytes(self.body_bytes)..].fill(0);
        put_u32(page, 4, self.commit);
        put_u16(page, 8, self.units as u16 | if self.is_disk { DISK } else { 0 });
        put_u16(page, 10, self.part | flag | if self.is_own { OWN } else { 0 });
        let crc = checksum(page, lpn, self.units, self.body_bytes);
        put_u32(page, 0, crc);
        self.units = 0;
        sink.write(lpn, page)
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.page.len()
            + self.placed.capacity() * size_of::<(u32, Lpn)>()
            + self.sectors.capacity() * size_of::<Lpn>()
    }
}
