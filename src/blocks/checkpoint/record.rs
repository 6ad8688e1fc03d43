//! A byte string over consecutive pages: writing a page of it, and finding the whole ones again.

use super::{Begun, CheckpointArea, Run};
use crate::blocks::spare::{Found, Header, PageKind, read_page};
use crate::codec::get_u32;
use crate::nand::{Cause, Geometry, Nand, NandError};
use crate::store::StoreError;
use crate::units::Ppn;
use alloc::vec;
use alloc::vec::Vec;

/// Which page of which record.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) kind: PageKind,
    /// Place in the record.
    pub(super) number: u32,
    /// Version of the record.
    pub(super) version: u64,
}

/// The contents of a checkpoint: bytes, and numbers of four bytes behind them, little-endian. The numbers
/// are read where they are, so that a map of the whole chip is not gathered a second time.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// The numbers.
    pub numbers: &'a [u32],
}

impl<'a> From<&'a [u8]> for Payload<'a> {
    fn from(bytes: &'a [u8]) -> Payload<'a> {
        Payload { bytes, numbers: &[] }
    }
}

impl<'a> From<&'a Vec<u8>> for Payload<'a> {
    fn from(bytes: &'a Vec<u8>) -> Payload<'a> {
        Payload::from(&bytes[..])
    }
}

/// A payload behind its length.
#[derive(Clone, Copy)]
pub(super) struct Record<'a>(pub(super) Payload<'a>);

impl Record<'_> {
    fn payload_bytes(&self) -> usize {
        self.0.bytes.len() + 4 * self.0.numbers.len()
    }

    /// Pages that it takes.
    pub(super) fn pages(&self, geometry: Geometry) -> u32 {
        CheckpointArea::pages_needed(geometry, self.payload_bytes()) as u32
    }

    /// The data area of one of its pages, zero behind the end.
    fn page(&self, number: u32, page_bytes: usize) -> Vec<u8> {
        let (mut page, at) = (vec![0; page_bytes], number as usize * page_bytes);
        let mut put = |place: usize, bytes: &[u8]| {
            let (from, to) = (place.max(at), (place + bytes.len()).min(at + page_bytes));
            if from < to {
                page[from - at..to - at].copy_from_slice(&bytes[from - place..to - place]);
            }
        };
        put(0, &(self.payload_bytes() as u32).to_le_bytes());
        put(4, self.0.bytes);
        let start = 4 + self.0.bytes.len();
        let first = at.saturating_sub(start) / 4;
        let end = (at + page_bytes).saturating_sub(start).div_ceil(4);
        for (i, number) in self.0.numbers.iter().enumerate().take(end).skip(first) {
            put(start + 4 * i, &number.to_le_bytes());
        }
        page
    }
}

/// Programs a page of a record. False: the program failed.
pub(super) fn program<N: Nand>(
    nand: &mut N,
    ppn: Ppn,
    place: Place,
    record: &Record<'_>,
) -> Result<bool, StoreError> {
    let Place { kind, number, version } = place;
    let data = record.page(number, nand.geometry().page_bytes as usize);
    let spare = Header { kind, number, version, extra: 0 }.seal(ppn, &data);
    match nand.program(ppn, Cause::Checkpoint, &data, &spare) {
        Ok(()) => Ok(true),
        Err(NandError::ProgramFailed(_) | NandError::BadBlock(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The first page of a record.
struct Start {
    at: u32,
    version: u64,
    payload_bytes: u32,
}

impl Start {
    fn pages(&self, geometry: Geometry) -> u32 {
        let bytes = 4 + u64::from(self.payload_bytes);
        bytes.div_ceil(u64::from(geometry.page_bytes)) as u32
    }
}

/// A payload as it was read: what [`Payload`] was when it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The numbers behind them. Where the payload does not end with a whole one, the rest is left out.
    pub numbers: Vec<u32>,
    /// Bytes of the whole payload.
    pub len: usize,
}

/// A payload that is being read, in pieces: nothing of it is held twice.
struct Loading {
    bytes_max: usize,
    loaded: Loaded,
    rest: [u8; 4],
    rest_bytes: usize,
}

impl Loading {
    /// The first `bytes_max` bytes of `len` are bytes, the rest are numbers.
    fn new(bytes_max: usize, len: usize) -> Loading {
        let bytes = bytes_max.min(len);
        let loaded =
            Loaded { bytes: Vec::with_capacity(bytes), numbers: Vec::with_capacity((len - bytes) / 4), len };
        Loading { bytes_max, loaded, rest: [0; 4], rest_bytes: 0 }
    }

    fn push(&mut self, data: &[u8]) {
        let taken = (self.bytes_max - self.loaded.bytes.len()).min(data.len());
        self.loaded.bytes.extend_from_slice(&data[..taken]);
        for &byte in &data[taken..] {
            self.rest[self.rest_bytes] = byte;
            self.rest_bytes += 1;
            if self.rest_bytes == self.rest.len() {
                self.loaded.numbers.push(u32::from_le_bytes(self.rest));
                self.rest_bytes = 0;
            }
        }
    }
}

/// A whole record: its version and its payload.
pub(super) type Whole = (u64, Loaded);

/// The incomplete record behind the last whole one, by the page at which it ends.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    pub(super) ppn: Ppn,
    /// The page cannot be read, which is more than that its record was not completed.
    pub(super) is_unreadable: bool,
}

/// Whether a page that is lost while a later page of its record can be read is corruption. Among checkpoints
/// it is: a cut only takes the end of a record. An anchor may have been half erased.
fn is_strict(kind: PageKind) -> bool {
    kind == PageKind::Checkpoint
}

/// Finds where the records of a run start, in ascending order, and the first page behind the last of them
/// that cannot be read.
fn starts<N: Nand>(
    nand: &mut N,
    geometry: Geometry,
    run: &Run,
    kind: PageKind,
) -> Result<(Vec<Start>, Option<Cut>), StoreError> {
    let mut data = vec![0; geometry.page_bytes as usize];
    let mut found: Vec<Start> = Vec::new();
    let (mut at, mut cut) = (0, None);
    while at < run.pages(geometry) {
        let ppn = run.page_at(geometry, at);
        match read_page(nand, ppn, Cause::Recovery, &mut data)? {
            Found::Page(h, _) if h.kind == kind && h.number == 0 => {
                if is_strict(kind) && found.last().is_some_and(|s| s.version >= h.version) {
                    let what = "a page of the checkpoints is older than those before it";
                    return Err(StoreError::Corrupted { what, at: u64::from(ppn.0) });
                }
                let start = Start { at, version: h.version, payload_bytes: get_u32(&data, 0) };
                at = at.saturating_add(start.pages(geometry));
                found.push(start);
                cut = None;
                continue;
            }
            Found::Page(h, _)
                if is_strict(kind)
                    && h.kind == kind
                    && found.last().is_none_or(|s| s.version < h.version) =>
            {
                let what = "the first page of a checkpoint is lost";
                return Err(StoreError::Corrupted { what, at: u64::from(ppn.0) });
            }
            Found::Erased if is_strict(kind) => {
                require_end(nand, run, at)?;
                break;
            }
            // One that reads as erased, and is not the end, may hide the second copy of a reference.
            Found::Erased if is_end(nand, geometry, run, at + 1)? => break,
            Found::Erased => cut = cut.or(Some(Cut { ppn, is_unreadable: true })),
            Found::Unreadable(_) if is_strict(kind) && cut.is_some() => return Err(two_lost(ppn)),
            Found::Unreadable(_) => cut = cut.or(Some(Cut { ppn, is_unreadable: true })),
            Found::Page(..) => {}
        }
        at += 1;
    }
    Ok((found, cut))
}

/// Nothing is appended to a run behind a page that was torn, or that failed.
fn two_lost(ppn: Ppn) -> StoreError {
    StoreError::Corrupted { what: "several pages of the checkpoints cannot be read", at: u64::from(ppn.0) }
}

/// Whether a page lies behind a run, or reads as erased.
fn is_end<N: Nand>(nand: &mut N, geometry: Geometry, run: &Run, at: u32) -> Result<bool, StoreError> {
    if at >= run.pages(geometry) {
        return Ok(true);
    }
    let mut data = vec![0; geometry.page_bytes as usize];
    Ok(read_page(nand, run.page_at(geometry, at), Cause::Recovery, &mut data)? == Found::Erased)
}

/// Refuses a run in which something was programmed behind a page that reads as erased: pages are programmed
/// in order.
fn require_end<N: Nand>(nand: &mut N, run: &Run, end: u32) -> Result<(), StoreError> {
    let geometry = nand.geometry();
    let mut data = vec![0; geometry.page_bytes as usize];
    for at in end + 1..run.pages(geometry) {
        if read_page(nand, run.page_at(geometry, at), Cause::Recovery, &mut data)? != Found::Erased {
            let what = "a page of the checkpoints reads as erased, and later ones do not";
            return Err(StoreError::Corrupted { what, at: u64::from(run.page_at(geometry, end).0) });
        }
    }
    Ok(())
}

/// The payload of a record, up to so many of its bytes as bytes and the rest as numbers; or where it ends
/// before it is complete.
fn load<N: Nand>(
    nand: &mut N,
    run: &Run,
    start: &Start,
    (kind, bytes_max): (PageKind, usize),
) -> Result<Result<Loaded, Cut>, StoreError> {
    let geometry = nand.geometry();
    let pages = start.pages(geometry);
    if start.at.checked_add(pages).is_none_or(|end| end > run.pages(geometry)) {
        return Ok(Err(Cut { ppn: run.page_at(geometry, start.at), is_unreadable: false }));
    }
    let mut data = vec![0; geometry.page_bytes as usize];
    let mut loading = Loading::new(bytes_max, start.payload_bytes as usize);
    let mut lost: Option<Cut> = None;
    for i in 0..pages {
        let ppn = run.page_at(geometry, start.at + i);
        let found = read_page(nand, ppn, Cause::Recovery, &mut data)?;
        let belongs = |h: Header| h.kind == kind && h.number == i && h.version == start.version;
        if matches!(found, Found::Page(h, _) if belongs(h)) {
            if let Some(lost) = lost.filter(|_| is_strict(kind)) {
                let what = "a page of a complete checkpoint is lost";
                return Err(StoreError::Corrupted { what, at: u64::from(lost.ppn.0) });
            }
            let at = i as usize * data.len();
            let end = (4 + start.payload_bytes as usize - at).min(data.len());
            loading.push(&data[if i == 0 { 4 } else { 0 }..end]);
        } else {
            if is_strict(kind) && matches!(found, Found::Page(..)) {
                let what = "a page of the checkpoints does not belong to those around it";
                return Err(StoreError::Corrupted { what, at: u64::from(ppn.0) });
            }
            let is_unreadable = matches!(found, Found::Unreadable(_));
            if is_strict(kind) && is_unreadable && lost.is_some() {
                return Err(two_lost(ppn));
            }
            lost = lost.or(Some(Cut { ppn, is_unreadable }));
        }
    }
    Ok(match lost {
        None => Ok(loading.loaded),
        Some(end) => Err(end),
    })
}

/// Every complete record of a run, oldest first; and a page that cannot be read behind the last of them.
pub(super) fn records<N: Nand>(
    nand: &mut N,
    geometry: Geometry,
    run: &Run,
    kind: PageKind,
) -> Result<(Vec<Whole>, Option<Cut>), StoreError> {
    let mut complete = Vec::new();
    let (starts, mut cut) = starts(nand, geometry, run, kind)?;
    for start in starts {
        match load(nand, run, &start, (kind, usize::MAX))? {
            Ok(payload) => complete.push((start.version, payload)),
            Err(end) => cut = cut.or(Some(end)),
        }
    }
    Ok((complete, cut))
}

/// Whether a run, of which these are all complete records, holds more than they take.
pub(super) fn is_ragged<N: Nand>(
    nand: &mut N,
    geometry: Geometry,
    run: &Run,
    complete: &[Whole],
) -> Result<bool, StoreError> {
    let pages = |(_, payload): &Whole| CheckpointArea::pages_needed(geometry, payload.len) as u32;
    let end = complete.iter().map(pages).sum::<u32>();
    if end >= run.pages(geometry) {
        return Ok(false);
    }
    let mut data = vec![0; geometry.page_bytes as usize];
    Ok(read_page(nand, run.page_at(geometry, end), Cause::Recovery, &mut data)? != Found::Erased)
}

/// The newest checkpoints of a run.
#[derive(Default)]
pub(super) struct Newest {
    pub(super) complete: Option<Whole>,
    /// A page that cannot be read behind the complete one.
    pub(super) cut: Option<Cut>,
    /// A newer one that is not complete.
    pub(super) begun: Option<Begun>,
}

/// The newest complete checkpoint of a run, and what is behind it.
pub(super) fn newest_record<N: Nand>(
    nand: &mut N,
    geometry: Geometry,
    run: &Run,
    bytes_max: usize,
) -> Result<Newest, StoreError> {
    let (starts, cut) = starts(nand, geometry, run, PageKind::Checkpoint)?;
    let mut newest = Newest { cut, ..Newest::default() };
    for start in starts.iter().rev() {
        match load(nand, run, start, (PageKind::Checkpoint, bytes_max))? {
            Ok(payload) => {
                newest.complete = Some((start.version, payload));
                break;
            }
            Err(end) => newest.cut = newest.cut.or(Some(end)),
        }
        if newest.begun.is_none() {
            let (ppn, mut data) = (run.page_at(geometry, start.at), vec![0; geometry.page_bytes as usize]);
            read_page(nand, ppn, Cause::Recovery, &mut data)?;
            newest.begun = Some((ppn, data.split_off(4)));
        }
    }
    Ok(newest)
}
