//! A log of records of one size, in a run of pages of a store. Journals and logs of layers are written in
//! this form.
//!
//! Records are gathered in the last page of the log, which is in RAM, and written with it. A page that is not
//! full is rewritten in place when records are added. This is atomic on every store: the page is old or new.
//! An *epoch* is the time between two beginnings. Its pages are the *run*: pages 0, 1, ... with the number of
//! the epoch, all full but the last. A new epoch is on the medium once its page 0 is written. If a run must
//! be complete first, its page 0 is *withheld*.
//!
//! Page i is the store's i-th page from its end, so a log is found at the last page of a store. Integers are
//! little-endian:
//!
//! ```text
//! bytes  0..4   CRC-32 of the rest of the page
//!        4..8   the page's number in the log, from 0
//!        8..16  the characters of the kind of log
//!       16..24  epoch, from 1
//!       24..28  pages of the log
//!       28..30  records in the page
//!       30..32  label: what the records are
//!       32      1 = the owner was closed: there is no record in the epoch; else 0
//!       33      1 = the run goes on with the next page whatever its epoch is, unless it is a newer one; else 0
//!       34..36  0
//!       36..    records, oldest first; what lies beyond them is 0
//! ```
//!
//! If a log is full and some of its records are still needed, it is *condensed*: these records are written
//! from page 0 on, in a new epoch. Each page but the last has the mark that the run goes on behind it. So no
//! record that is needed ever leaves the run.
//!
//! # Invariants
//!
//! - J1 The medium holds pages 0 to n - 1 of the epoch full, and page n with those records of the page in RAM
//!   that were written. It holds nothing of the epoch if nothing was written in it.
//! - J3 The page in RAM begins with the records that page n on the medium has.

use crate::check::{CheckReport, IndexError, Invariant, message};
use crate::codec::{crc32, get_u16, get_u32, get_u64, put_u16, put_u32, put_u64};
use crate::nand::{Cause, NandError};
use crate::store::{PageStore, StoreError};
use crate::units::Lpn;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::marker::PhantomData;
pub use locate::{is_there, locate};

/// Bytes of a page before its records.
pub const HEADER_BYTES: usize = 36;

/// Kind of records that a log holds.
pub trait RecordKind {
    /// Characters at the start of its pages.
    const MAGIC: &'static [u8; 8];

    /// Bytes of a record under this label. `None` if there is no such label.
    fn record_bytes(label: [u8; 2]) -> Option<usize>;

    /// Tells whether the bytes can be a record.
    fn is_record(record: &[u8]) -> bool;
}

/// Layout of a log on its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Label of the kind of records.
    pub label: [u8; 2],
    /// Bytes of a record.
    pub record_bytes: usize,
    /// Number of pages of the log.
    pub pages: u32,
    /// Number of records that a page takes.
    pub page_records: usize,
}

impl Layout {
    /// Layout of this many pages of this size. `None` if there is no such label.
    pub fn new<K: RecordKind>(label: [u8; 2], pages: u32, page_bytes: usize) -> Option<Layout> {
        let record_bytes = K::record_bytes(label)?;
        let fit = page_bytes.saturating_sub(HEADER_BYTES) / record_bytes;
        Some(Layout { label, record_bytes, pages, page_records: fit.min(usize::from(u16::MAX)) })
    }

    /// Number of records that the whole log takes.
    pub fn records_max(&self) -> u64 {
        u64::from(self.pages) * self.page_records as u64
    }

    /// Record in place `at`.
    fn record_mut<'a>(&self, page: &'a mut [u8], at: usize) -> &'a mut [u8] {
        debug_assert!(at < self.page_records, "J1: record {at} of {}", self.page_records);
        &mut page[HEADER_BYTES + at * self.record_bytes..][..self.record_bytes]
    }

    /// Bytes of the first `count` records.
    pub fn records<'a>(&self, page: &'a [u8], count: usize) -> &'a [u8] {
        debug_assert!(count <= self.page_records, "J1: {count} records of {}", self.page_records);
        &page[HEADER_BYTES..][..count * self.record_bytes]
    }

    /// Writes the header and the checksum of a page whose records are in place.
    pub fn seal<K: RecordKind>(&self, page: &mut [u8], header: Header) {
        debug_assert!(header.records <= self.page_records, "J1: {} records in a page", header.records);
        debug_assert!(header.number < self.pages, "J1: page {} of {}", header.number, self.pages);
        debug_assert!(!header.is_closed || header.records == 0, "J1: a closed log with records");
        debug_assert!(
            !header.goes_on || header.records == self.page_records,
            "J1: a page goes on that is not full"
        );
        put_u32(page, 4, header.number);
        page[8..16].copy_from_slice(K::MAGIC);
        put_u64(page, 16, header.epoch);
        put_u32(page, 24, self.pages);
        put_u16(page, 28, header.records as u16);
        page[30..32].copy_from_slice(&self.label);
        page[32] = u8::from(header.is_closed);
        page[33] = u8::from(header.goes_on);
        page[34..HEADER_BYTES].fill(0);
        let crc = crc32(&[&page[4..]]);
        put_u32(page, 0, crc);
    }
}

/// Header of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of the page in the log.
    pub number: u32,
    /// Epoch of the page.
    pub epoch: u64,
    /// Number of records in the page.
    pub records: usize,
    /// True if the owner was closed: the epoch has no records.
    pub is_closed: bool,
    /// True if the run goes on with the next page, even if that is of an older epoch.
    pub goes_on: bool,
}

/// Page as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The page was never written.
    Blank,
    /// A page of a log of this kind, with the log's layout.
    Page(Header, Layout),
    /// The page is not one of this log.
    Foreign,
    /// A page of such a log that is damaged.
    Damaged,
}

/// Reads the bytes of a page that should be of a log of this kind.
pub fn read_page<K: RecordKind>(page: &[u8]) -> Found {
    if page.len() < HEADER_BYTES {
        return Found::Foreign;
    }
    let is_ours = page[8..16] == *K::MAGIC;
    if get_u32(page, 0) != crc32(&[&page[4..]]) {
        let is_blank = page.iter().all(|&byte| byte == 0);
        return if is_blank { Found::Blank } else { Found::Damaged };
    }
    let layout = Layout::new::<K>([page[30], page[31]], get_u32(page, 24), page.len());
    let (true, Some(layout)) = (is_ours, layout) else { return Found::Foreign };
    let header = Header {
        number: get_u32(page, 4),
        epoch: get_u64(page, 16),
        records: usize::from(get_u16(page, 28)),
        is_closed: page[32] == 1,
        goes_on: page[33] == 1,
    };
    let records = || {
        layout.records(page, header.records).chunks(layout.record_bytes).all(|record| K::is_record(record))
    };
    let is_sensible = header.records <= layout.page_records
        && header.number < layout.pages
        && (1..u64::MAX).contains(&header.epoch)
        && !(header.is_closed && header.records > 0)
        && !(header.goes_on && header.records < layout.page_records)
        && records();
    if is_sensible { Found::Page(header, layout) } else { Found::Damaged }
}

/// Log of records, with its last page in RAM.
pub struct RecordLog<S, K> {
    store: S,
    layout: Layout,
    epoch: u64,
    /// Number of the page in RAM.
    number: u32,
    page: Vec<u8>,
    /// Number of records in that page.
    records: usize,
    /// Number of these records that are on the medium (J3).
    written: usize,
    /// Page 0, sealed, while the run is withheld. Empty until that page is full.
    withheld: Option<Vec<u8>>,
    /// True if a mount found pages of older epochs in the run: a condensation was cut.
    is_mixed: bool,
    /// True if a write failed with unknown effect.
    is_interrupted: bool,
    page_writes: u64,
    kind: PhantomData<K>,
}

/// End of a log at some time, to go back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    number: u32,
    records: usize,
}

impl<S: PageStore, K: RecordKind> RecordLog<S, K> {
    /// Makes a log without records, on a store that holds none of this epoch. A page must have room for a
    /// record.
    pub fn empty(store: S, layout: Layout, epoch: u64) -> RecordLog<S, K> {
        assert!(layout.page_records > 0 && layout.pages <= store.page_count(), "a log without room");
        RecordLog {
            page: vec![0; store.page_bytes()],
            store,
            layout,
            epoch,
            number: 0,
            records: 0,
            written: 0,
            withheld: None,
            is_mixed: false,
            is_interrupted: false,
            page_writes: 0,
            kind: PhantomData,
        }
    }

    /// Layout of the log.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Current epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Number of pages written so far.
    pub fn page_writes(&self) -> u64 {
        self.page_writes
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> usize {
        self.page.len()
    }

    /// Returns an error after a write whose effect is unknown.
    pub fn ready(&self) -> Result<(), IndexError> {
        if self.is_interrupted { Err(IndexError::Interrupted) } else { Ok(()) }
    }

    /// Number of records that still fit.
    pub fn room(&self) -> u64 {
        debug_assert!(self.number < self.layout.pages, "J1: page {} of {}", self.number, self.layout.pages);
        debug_assert!(self.records <= self.layout.page_records, "J1: {} records in a page", self.records);
        let pages_after = u64::from(self.layout.pages - 1 - self.number);
        (pages_after + 1) * self.layout.page_records as u64 - self.records as u64
    }

    /// Number of records that the medium does not have yet.
    pub fn pending(&self) -> usize {
        debug_assert!(
            self.written <= self.records,
            "J3: {} records written of {}",
            self.written,
            self.records
        );
        self.records - self.written
    }

    /// Number of pages that hold records of the epoch, with the page in RAM.
    pub fn used_pages(&self) -> u32 {
        self.number + u32::from(self.records > 0)
    }

    /// Appends a record. If the page in RAM is full, it is written first.
    pub fn append(&mut self, put: impl FnOnce(&mut [u8])) -> Result<(), StoreError> {
        assert!(self.room() > 0, "the log is full");
        debug_assert!(!self.is_mixed, "a log whose condensation was cut is full");
        if self.records == self.layout.page_records {
            self.force()?;
            self.turn_to(self.number + 1);
        }
        put(self.layout.record_mut(&mut self.page, self.records));
        self.records += 1;
        debug_assert!(self.pending() > 0, "J3: a new record is on the medium");
        Ok(())
    }

    /// Present end of the log.
    pub fn mark(&self) -> Mark {
        Mark { number: self.number, records: self.records }
    }

    /// Drops the records since a mark that the medium does not have. Records that filled a page are written
    /// already, and must tell by themselves that they are void.
    pub fn drop_since(&mut self, mark: Mark) {
        let kept = if self.number == mark.number { mark.records } else { 0 }.max(self.written);
        (kept..self.records).for_each(|at| self.layout.record_mut(&mut self.page, at).fill(0));
        self.records = kept;
        debug_assert!(self.written <= self.records, "J3: records that were written are dropped");
    }

    /// Takes the last record back, on the medium too. If the store refuses that, the record stays.
    pub fn retract(&mut self) -> Result<(), StoreError> {
        assert!(self.records > 0, "J3: the last record is in the page in RAM");
        self.records -= 1;
        let record = self.layout.record_mut(&mut self.page, self.records);
        if self.written <= self.records {
            record.fill(0);
            return Ok(());
        }
        let before = record.to_vec();
        record.fill(0);
        let mut rewritten = self.write(false);
        if !self.store.durable_writes() {
            // The record may have been synced, and must not come back after a cut.
            rewritten = rewritten.and_then(|()| self.store.sync());
        }
        if rewritten.is_err() {
            self.layout.record_mut(&mut self.page, self.records).copy_from_slice(&before);
            self.records += 1;
        }
        rewritten
    }

    /// Writes the page in RAM, if it has records that the medium does not have.
    pub fn force(&mut self) -> Result<(), StoreError> {
        if self.pending() == 0 { Ok(()) } else { self.write(false) }
    }

    /// Begins a new epoch without records. Until its page 0 is written, the medium shows the old epoch.
    pub fn start(&mut self, epoch: u64) {
        assert!(epoch > self.epoch && epoch < u64::MAX, "an epoch for every nanosecond of five centuries");
        self.epoch = epoch;
        (self.withheld, self.is_mixed) = (None, false);
        self.turn_to(0);
    }

    /// Begins a new epoch with these records in the place of all others, oldest first. No record may come
    /// later than in the old run. If the power is cut or the store refuses a page, after any number of
    /// written pages, the run still has the newest version of each record.
    pub fn condense<'a>(
        &mut self,
        epoch: u64,
        records: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> Result<(), StoreError> {
        let count = records.len();
        assert!(self.room() == 0 && self.withheld.is_none(), "only a full log is condensed");
        assert!(count > 0 && count as u64 <= self.layout.records_max(), "records that a log takes");
        self.force()?;
        let last = (self.number, self.records, self.page.clone());
        let before = self.epoch;
        self.start(epoch);
        let written = self.write_condensed(records);
        if written.is_err() {
            // The written pages go on with the pages that were there before.
            (self.number, self.records, self.page) = last;
            self.written = self.records;
            self.is_mixed = true;
            self.epoch = self.epoch.max(before);
        }
        debug_assert!(written.is_err() || self.pending() == 0, "J1: a condensed log waits to be written");
        written
    }

    fn write_condensed<'a>(
        &mut self,
        records: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> Result<(), StoreError> {
        let last = (records.len() - 1) / self.layout.page_records;
        for record in records {
            if self.records == self.layout.page_records {
                self.turn_to(self.number + 1);
            }
            self.layout.record_mut(&mut self.page, self.records).copy_from_slice(record);
            self.records += 1;
            if self.records == self.layout.page_records && (self.number as usize) < last {
                self.write_page(false, true)?;
            }
        }
        self.write(false)
    }

    /// Begins an epoch that the medium shows only after [`RecordLog::complete`].
    pub fn start_withheld(&mut self, epoch: u64) {
        self.start(epoch);
        self.withheld = Some(Vec::new());
    }

    /// Writes the rest of a withheld run, its page 0 last.
    pub fn complete(&mut self) -> Result<(), StoreError> {
        self.force()?;
        match self.withheld.take() {
            None => Ok(()),
            Some(first) if first.is_empty() => self.write(false),
            Some(first) => self.put(0, &first),
        }
    }

    /// Writes to the medium that the epoch has no records. `is_closed` adds that the owner holds everything
    /// and nothing followed.
    pub fn write_empty(&mut self, is_closed: bool) -> Result<(), StoreError> {
        assert!(self.records == 0 && self.number == 0, "the epoch has records");
        self.write(is_closed)
    }

    /// Writes the pending records and syncs the store.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.force()?;
        self.store.sync()
    }

    fn turn_to(&mut self, number: u32) {
        debug_assert!(
            number == 0 || number < self.layout.pages,
            "J1: page {number} of {}",
            self.layout.pages
        );
        self.page.fill(0);
        (self.number, self.records, self.written) = (number, 0, 0);
    }

    fn lpn(&self, number: u32) -> Lpn {
        debug_assert!(number < self.store.page_count(), "J1: page {number} beyond the store");
        Lpn(self.store.page_count() - 1 - number)
    }

    fn write(&mut self, is_closed: bool) -> Result<(), StoreError> {
        self.write_page(is_closed, false)
    }

    fn write_page(&mut self, is_closed: bool, goes_on: bool) -> Result<(), StoreError> {
        let (number, epoch, records) = (self.number, self.epoch, self.records);
        let header = Header { number, epoch, records, is_closed, goes_on };
        let mut page = core::mem::take(&mut self.page);
        self.layout.seal::<K>(&mut page, header);
        let written = match &mut self.withheld {
            Some(first) if self.number == 0 => {
                first.clone_from(&page);
                Ok(())
            }
            _ => self.put(self.number, &page),
        };
        self.page = page;
        if written.is_ok() {
            self.written = self.records;
        }
        written
    }

    fn put(&mut self, number: u32, page: &[u8]) -> Result<(), StoreError> {
        if self.is_interrupted {
            return Err(StoreError::Device(String::from("an earlier write of the log failed")));
        }
        let written = self.store.write(self.lpn(number), Cause::Checkpoint, page);
        self.page_writes += u64::from(written.is_ok());
        self.is_interrupted |= written.as_ref().is_err_and(|error| !error.is_refusal());
        written
    }

    /// Reads a page of the log. A page that cannot be read counts as damaged.
    pub fn read(&mut self, number: u32, cause: Cause, page: &mut [u8]) -> Result<Found, StoreError> {
        match self.store.read(self.lpn(number), cause, page) {
            Ok(()) => Ok(read_page::<K>(page)),
            Err(StoreError::Corrupted { .. } | StoreError::Nand(NandError::Uncorrectable(_))) => {
                Ok(Found::Damaged)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the run of an epoch, shows the records of each page, and continues the log after it.
    pub fn resume(&mut self, epoch: u64, show: &mut dyn FnMut(&[u8])) -> Result<(), IndexError> {
        let layout = self.layout;
        let mut page = vec![0; self.page_bytes()];
        (self.epoch, self.withheld, self.is_mixed) = (epoch, None, false);
        self.turn_to(0);
        // Epoch of the page before, and whether the next page may be older. `None` once the run has ended.
        let mut next = Some((epoch, false));
        for number in 0..layout.pages {
            match self.read(number, Cause::Recovery, &mut page)? {
                Found::Page(header, found) if (header.number, found) == (number, layout) => {
                    if header.epoch > next.map_or(epoch - 1, |(newest, _)| newest) {
                        return Err(corrupted(
                            Invariant::J1,
                            "a page of the log is missing before this one",
                            number,
                        ));
                    }
                    let goes_on = next.is_some_and(|(last, is_any)| is_any || header.epoch == last);
                    next = None;
                    if goes_on {
                        show(layout.records(&page, header.records));
                        self.page.copy_from_slice(&page);
                        (self.number, self.records, self.written) = (number, header.records, header.records);
                        self.is_mixed |= header.epoch < epoch;
                        let is_full = header.records == layout.page_records;
                        next = is_full.then_some((header.epoch, header.goes_on));
                    }
                }
                Found::Blank if next.is_none_or(|(_, is_any)| !is_any) => next = None,
                _ if next.is_some() => {
                    return Err(corrupted(Invariant::J1, "the page of the log is damaged", number));
                }
                _ => {}
            }
        }
        if self.is_mixed && self.room() > 0 {
            return Err(corrupted(Invariant::J1, "a log that was condensed was not full", self.number));
        }
        Ok(())
    }

    /// Shows all records of the epoch page by page, oldest first, with those that the medium does not have.
    pub fn all_records(&mut self, show: &mut dyn FnMut(&[u8])) -> Result<(), IndexError> {
        let mut page = vec![0; self.page_bytes()];
        for number in 0..self.number {
            match self.read(number, Cause::Recovery, &mut page)? {
                Found::Page(header, found)
                    if (header.number, found) == (number, self.layout)
                        && header.records == self.layout.page_records =>
                {
                    show(self.layout.records(&page, header.records));
                }
                _ => return Err(corrupted(Invariant::J1, "the page of the log is damaged", number)),
            }
        }
        show(self.layout.records(&self.page, self.records));
        Ok(())
    }

    /// Trims all pages of the log.
    pub fn trim_all(&mut self) -> Result<(), StoreError> {
        (0..self.layout.pages).try_for_each(|number| self.store.trim(self.lpn(number)))?;
        self.store.sync()
    }

    /// Checks J1 and J3 against the medium.
    pub fn check(&mut self, report: &mut CheckReport) -> Result<(), StoreError> {
        let mut page = vec![0; self.page.len()];
        for number in 0..self.number + u32::from(self.written > 0) {
            let is_last = number == self.number;
            let records = if is_last { self.written } else { self.layout.page_records };
            let expected = Header { number, epoch: self.epoch, records, is_closed: false, goes_on: false };
            let mut found = self.read(number, Cause::Check, &mut page)?;
            if let Found::Page(header, _) = &mut found {
                // Both can be so in a log that was condensed.
                header.goes_on = false;
                header.epoch += if self.is_mixed { self.epoch.saturating_sub(header.epoch) } else { 0 };
            }
            if found != Found::Page(expected, self.layout) {
                let found = message!("{found:?} instead of {expected:?}");
                report.violation(Invariant::J1, u64::from(number), found);
            } else if is_last
                && self.layout.records(&page, records) != self.layout.records(&self.page, records)
            {
                let found = "the page in RAM tells other records".into();
                report.violation(Invariant::J3, u64::from(number), found);
            }
        }
        Ok(())
    }

    /// Returns the store below.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Gives the store back.
    pub fn into_store(self) -> S {
        self.store
    }

    /// Bytes of RAM held, without those of the store.
    pub fn ram_bytes(&self) -> usize {
        size_of::<Self>() + self.page.len() + self.withheld.as_ref().map_or(0, Vec::capacity)
    }
}

fn corrupted(invariant: Invariant, what: &'static str, number: u32) -> IndexError {
    IndexError::broken(invariant, what, u64::from(number))
}

mod locate;
#[cfg(test)]
mod tests;
