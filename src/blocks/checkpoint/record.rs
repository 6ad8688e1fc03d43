//! Records, which are byte strings over consecutive pages: writing a page of one, and finding complete ones
//! again.

use super::payload::{Contents, SHORT, Source, Window};
use super::{CheckpointArea, Draft, Run};
use crate::blocks::BlockTable;
use crate::blocks::spare::{Found, Header, PageKind, read_whole_page};
use crate::codec::get_u32;
use crate::fault::StoreFault;
use crate::nand::{Cause, Geometry, Nand, NandError};
use crate::store::StoreError;
use crate::units::{Pbn, Ppn};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) kind: PageKind,
    /// Place of the page in the record.
    pub(super) number: u32,
    pub(super) version: u64,
}

/// A record to be written, after its length.
#[derive(Clone, Copy)]
pub(super) struct Record<'a>(pub(super) &'a dyn Contents);

impl Record<'_> {
    /// Number of pages that the record takes.
    pub(super) fn pages(&self, geometry: Geometry) -> u32 {
        CheckpointArea::pages_needed(geometry, self.0.byte_count()) as u32
    }

    /// Fills the data area of one of the record's pages.
    fn fill(&self, number: u32, blocks: &BlockTable, page: &mut [u8]) {
        let mut window = Window::on(page, number);
        window.bytes(&(self.0.byte_count() as u32).to_le_bytes());
        self.0.put(blocks, &mut window);
    }
}

/// Programs a page of a record. False if the program failed.
pub(super) fn program<N: Nand + ?Sized>(
    nand: &mut N,
    ppn: Ppn,
    place: Place,
    blocks: &BlockTable,
    (record, page): &mut Draft<'_>,
) -> Result<bool, StoreFault> {
    let Place { kind, number, version } = place;
    record.fill(number, blocks, page);
    let spare = Header { kind, number, version, extra: 0 }.seal(ppn, page);
    match nand.program(ppn, Cause::Checkpoint, page, &spare) {
        Ok(()) => Ok(true),
        Err(NandError::ProgramFailed(_) | NandError::BadBlock(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// First page of a record.
pub(super) struct Start {
    at: u32,
    version: u64,
    payload_bytes: u32,
}

impl Start {
    fn pages(&self, geometry: Geometry) -> u32 {
        // A length beyond what a chip holds ends behind every run.
        self.payload_bytes.saturating_add(4).div_ceil(geometry.page_bytes)
    }
}

/// Function that decodes a record.
pub(super) type Decode<'a> = &'a mut dyn FnMut(&mut dyn Source);

/// An incomplete record behind the last complete one, and the page at which it ends.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    pub(super) ppn: Ppn,
    /// True if the page cannot be read; a record may also just not have been completed.
    pub(super) is_unreadable: bool,
}

/// Function that decodes a record, given the result of the records before it.
pub(super) type Fold<'a, T> = &'a mut dyn FnMut(Option<T>, &mut dyn Source) -> Result<T, StoreFault>;

/// True if a lost page is corruption when a later page of its record can be read. Among checkpoints it is: a
/// cut only takes the end of a record. An anchor may have been half erased.
fn is_strict(kind: PageKind) -> bool {
    kind == PageKind::Checkpoint
}

/// Finds the first pages of the records in a run, in ascending order, and the first page behind the last
/// record that cannot be read.
fn starts<N: Nand + ?Sized>(
    nand: &mut N,
    geometry: Geometry,
    run: &Run,
    kind: PageKind,
) -> Result<(Vec<Start>, Option<Cut>), StoreFault> {
    let mut data = vec![0; geometry.page_bytes as usize];
    let mut found: Vec<Start> = Vec::new();
    let (mut at, mut cut) = (0, None);
    while at < run.pages(geometry) {
        let ppn = run.page_at(geometry, at);
        match read_whole_page(nand, ppn, Cause::Recovery, &mut data)? {
            Found::Page(h, _) if h.kind == kind && h.number == 0 => {
                if is_strict(kind) && found.last().is_some_and(|s| s.version >= h.version) {
                    let what = "a page of the checkpoints is older than those before it";
                    return Err(StoreFault::corrupted(what, ppn.0));
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
                return Err(StoreFault::corrupted(what, ppn.0));
            }
            Found::Erased if is_strict(kind) => {
                require_end(nand, run, at)?;
                break;
            }
            // A page that reads as erased before the end may hide the second copy of a reference.
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

/// Error for several unreadable pages in a run. A torn or failed page ends its run, so there is at most one.
fn two_lost(ppn: Ppn) -> StoreFault {
    StoreFault::corrupted("several pages of the checkpoints cannot be read", ppn.0)
}

/// True if a page lies behind the run, or reads as erased.
fn is_end<N: Nand + ?Sized>(
    nand: &mut N,
    geometry: Geometry,
    run: &Run,
    at: u32,
) -> Result<bool, StoreFault> {
    if at >= run.pages(geometry) {
        return Ok(true);
    }
    let mut data = vec![0; geometry.page_bytes as usize];
    Ok(read_whole_page(nand, run.page_at(geometry, at), Cause::Recovery, &mut data)? == Found::Erased)
}

/// Returns an error if a page is programmed behind one that reads as erased. Pages are programmed in order.
fn require_end<N: Nand + ?Sized>(nand: &mut N, run: &Run, end: u32) -> Result<(), StoreFault> {
    let geometry = nand.geometry();
    let mut data = vec![0; geometry.page_bytes as usize];
    for at in end + 1..run.pages(geometry) {
        if read_whole_page(nand, run.page_at(geometry, at), Cause::Recovery, &mut data)? != Found::Erased {
            let what = "a page of the checkpoints reads as erased, and later ones do not";
            return Err(StoreFault::corrupted(what, run.page_at(geometry, end).0));
        }
    }
    Ok(())
}

/// Record that is being read.
struct Reader<'a, N: ?Sized> {
    nand: &'a mut N,
    run: &'a Run,
    start: &'a Start,
    kind: PageKind,
    page: Vec<u8>,
    /// Page of the record that is read next.
    number: u32,
    /// Part of the page in the buffer that is not read yet.
    rest: Range<usize>,
    left: usize,
    /// Page at which the record ends before it is complete.
    lost: Option<Cut>,
    failed: Option<StoreFault>,
}

impl<N: Nand + ?Sized> Reader<'_, N> {
    /// Reads another page. False if that page or an earlier one does not belong to the record.
    fn next_page(&mut self) -> Result<bool, StoreFault> {
        let geometry = self.nand.geometry();
        let number = self.number;
        let ppn = self.run.page_at(geometry, self.start.at + number);
        let found = read_whole_page(self.nand, ppn, Cause::Recovery, &mut self.page)?;
        self.number += 1;
        let (kind, version) = (self.kind, self.start.version);
        let belongs = |h: Header| h.kind == kind && h.number == number && h.version == version;
        if matches!(found, Found::Page(h, _) if belongs(h)) {
            if let Some(lost) = self.lost.filter(|_| is_strict(kind)) {
                let what = "a page of a complete checkpoint is lost";
                return Err(StoreFault::corrupted(what, lost.ppn.0));
            }
            let at = number as usize * self.page.len();
            let end = (4 + self.start.payload_bytes as usize - at).min(self.page.len());
            self.rest = if number == 0 { 4 } else { 0 }..end;
            return Ok(self.lost.is_none());
        }
        if is_strict(kind) && matches!(found, Found::Page(..)) {
            let what = "a page of the checkpoints does not belong to those around it";
            return Err(StoreFault::corrupted(what, ppn.0));
        }
        let is_unreadable = matches!(found, Found::Unreadable(_));
        if is_strict(kind) && is_unreadable && self.lost.is_some() {
            return Err(two_lost(ppn));
        }
        self.lost = self.lost.or(Some(Cut { ppn, is_unreadable }));
        Ok(false)
    }

    /// Reads the rest of the record too. Returns where the record ends, if it is not complete.
    fn finish(mut self) -> Result<Option<Cut>, StoreFault> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        while self.number < self.start.pages(self.nand.geometry()) {
            self.next_page()?;
        }
        Ok(self.lost)
    }
}

impl<N: Nand + ?Sized> Source for Reader<'_, N> {
    fn left(&self) -> usize {
        self.left
    }

    fn take(&mut self, mut out: &mut [u8]) -> Result<(), StoreFault> {
        if out.len() > self.left {
            return Err(SHORT.into());
        }
        while !out.is_empty() {
            if self.rest.is_empty() {
                match self.next_page() {
                    Ok(true) => {}
                    Ok(false) => return Err(SHORT.into()),
                    // The reader stops at this, and `finish` tells why.
                    Err(error) => {
                        self.failed = Some(error);
                        return Err(SHORT.into());
                    }
                }
            }
            let taken = self.rest.len().min(out.len());
            let (part, rest) = core::mem::take(&mut out).split_at_mut(taken);
            part.copy_from_slice(&self.page[self.rest.start..self.rest.start + taken]);
            self.rest.start += taken;
            self.left -= taken;
            out = rest;
        }
        Ok(())
    }
}

/// Decodes a record. Returns where the record ends, if it is not complete; then the decoded result must be
/// dropped.
fn read_record<N: Nand + ?Sized>(
    nand: &mut N,
    run: &Run,
    start: &Start,
    (kind, decode): (PageKind, Decode<'_>),
) -> Result<Option<Cut>, StoreFault> {
    let geometry = nand.geometry();
    if start.at.checked_add(start.pages(geometry)).is_none_or(|end| end > run.pages(geometry)) {
        return Ok(Some(Cut { ppn: run.page_at(geometry, start.at), is_unreadable: false }));
    }
    let mut reader = Reader {
        nand,
        run,
        start,
        kind,
        page: vec![0; geometry.page_bytes as usize],
        number: 0,
        rest: 0..0,
        left: start.payload_bytes as usize,
        lost: None,
        failed: None,
    };
    decode(&mut reader);
    reader.finish()
}

/// Decodes the complete records of a run, from the newest *base* record on, which `is_base` tells by the
/// first byte. They are decoded oldest first, each with the result of those before it. Returns the version of
/// the newest record, the result, and the incomplete record behind. Each record is read twice, and none is
/// held in RAM.
pub(super) fn records_since<N: Nand + ?Sized, T>(
    nand: &mut N,
    (geometry, run): (Geometry, &Run),
    decode: Fold<'_, T>,
    is_base: impl Fn(Option<u8>) -> bool,
) -> Result<Option<(u64, T, Option<Cut>)>, StoreFault> {
    let kind = PageKind::Checkpoint;
    let (starts, _) = starts(nand, geometry, run, kind)?;
    let mut since: Vec<&Start> = Vec::new();
    let mut is_complete = false;
    for start in starts.iter().rev() {
        let mut first = None;
        let mut first_byte = |source: &mut dyn Source| {
            let mut byte = [0; 1];
            first = source.take(&mut byte).is_ok().then_some(byte[0]);
        };
        if read_record(nand, run, start, (kind, &mut first_byte))?.is_some() {
            continue;
        }
        if let Some(after) = since.last().filter(|after| start.version + 1 != after.version) {
            let what = "a note between checkpoints is lost";
            return Err(StoreError::Corrupted { what, at: after.version }.into());
        }
        since.push(start);
        is_complete = is_base(first);
        if is_complete {
            break;
        }
    }
    let Some(&newest) = since.first().filter(|_| is_complete) else { return Ok(None) };
    let mut made = Ok(None);
    for start in since.iter().rev() {
        let mut before = core::mem::replace(&mut made, Ok(None))?;
        let mut next = |source: &mut dyn Source| made = decode(before.take(), source).map(Some);
        if let Some(end) = read_record(nand, run, start, (kind, &mut next))? {
            let what = "a page of a complete checkpoint is lost";
            return Err(StoreFault::corrupted(what, end.ppn.0));
        }
    }
    let made = made?;
    let end = newest.at + newest.pages(geometry);
    let mut behind = None;
    if end < run.pages(geometry) {
        let mut data = vec![0; geometry.page_bytes as usize];
        let ppn = run.page_at(geometry, end);
        let found = read_whole_page(nand, ppn, Cause::Recovery, &mut data)?;
        let is_unreadable = matches!(found, Found::Unreadable(_));
        behind = (found != Found::Erased).then_some(Cut { ppn, is_unreadable });
    }
    Ok(made.map(|made| (newest.version, made, behind)))
}

/// Newest records of a run.
pub(super) struct Newest {
    /// Version of the newest complete record.
    pub(super) complete: Option<u64>,
    /// Page behind the complete record that cannot be read.
    pub(super) cut: Option<Cut>,
}

/// Finds the newest complete record of a run (the last one passed to `decode`), and the pages behind it.
pub(super) fn newest_record<N: Nand + ?Sized>(
    nand: &mut N,
    geometry: Geometry,
    run: &Run,
    (kind, decode): (PageKind, Decode<'_>),
) -> Result<Newest, StoreFault> {
    let (starts, cut) = starts(nand, geometry, run, kind)?;
    let mut newest = Newest { complete: None, cut };
    for start in starts.iter().rev() {
        match read_record(nand, run, start, (kind, decode))? {
            None => {
                newest.complete = Some(start.version);
                break;
            }
            end => newest.cut = newest.cut.or(end),
        }
    }
    Ok(newest)
}

/// Anchors and targets of a reference, if it makes sense.
pub(super) fn decode_lists(bytes: &[u8], blocks: u32) -> Option<[Vec<Pbn>; 2]> {
    let (counts, list) = bytes.split_at_checked(8)?;
    let (anchors, targets) = (get_u32(counts, 0) as usize, get_u32(counts, 4) as usize);
    let is_whole = anchors.checked_add(targets) == Some(list.len() / 4);
    if !is_whole || anchors == 0 || targets == 0 {
        return None;
    }
    let mut lists = [Vec::with_capacity(anchors), Vec::with_capacity(targets)];
    for at in 0..anchors + targets {
        let pbn = Pbn(get_u32(list, 4 * at));
        if pbn.0 >= blocks {
            return None;
        }
        lists[usize::from(at >= anchors)].push(pbn);
    }
    Some(lists)
}
