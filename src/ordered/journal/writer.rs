//! The end of the journal: the page in RAM, when it goes out, and the store that lets nothing past it.

use super::page::{Header, Layout};
use crate::check::{CheckReport, IndexError};
use crate::ftl::slice::Slice;
use crate::ftl::{PageStore, StoreError, StoreStats};
use crate::nand::Cause;
use crate::ordered::bplus::Change;
use crate::ordered::journal::page::{self, Found};
use crate::units::{Lpn, Ppn};
use alloc::format;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

/// What the journal did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) page_writes: u64,
    pub(super) records: u64,
    pub(super) forced_writes: u64,
    pub(super) cut_offs: u64,
    pub(super) replayed_records: u64,
}

/// The journal's own slice, and its last page in RAM.
pub(super) struct Writer<S> {
    store: Slice<S>,
    pub(super) layout: Layout,
    epoch: u64,
    /// Which page is in RAM.
    number: u32,
    page: Vec<u8>,
    /// Records in it.
    records: usize,
    /// Those of them that the medium has: J3.
    written: usize,
    horizon: Rc<Horizon>,
    /// What the index had heard of when the page was written last.
    heard: u64,
    /// Whether a write failed with unknown effect.
    is_interrupted: bool,
    pub(super) counts: Counts,
}

/// What an index tells its journal of the updates it has heard of, which it counts itself.
#[derive(Debug, Default)]
pub struct Horizon {
    heard: Cell<u64>,
    /// The newest update that its writes may show; none when it does not know.
    shows: Cell<Option<u64>>,
}

impl Horizon {
    /// The index has heard of so many updates.
    pub fn hear(&self, updates: u64) {
        self.heard.set(updates);
    }

    /// What the index writes from now on shows no update after this one, or any if it does not say.
    pub fn show(&self, newest: Option<u64>) {
        self.shows.set(newest);
    }
}

impl<S: PageStore> Writer<S> {
    /// A journal without records, on a slice that holds none of this epoch.
    pub(super) fn empty(store: Slice<S>, layout: Layout, epoch: u64) -> Writer<S> {
        Writer {
            page: vec![0; store.page_bytes()],
            store,
            layout,
            epoch,
            number: 0,
            records: 0,
            written: 0,
            horizon: Rc::default(),
            heard: 0,
            is_interrupted: false,
            counts: Counts::default(),
        }
    }

    /// Goes on after the last page of a run, which `page` is.
    pub(super) fn resume(&mut self, header: Header, page: &[u8]) {
        self.page.copy_from_slice(page);
        (self.epoch, self.number) = (header.epoch, header.number);
        (self.records, self.written) = (header.records, header.records);
    }

    /// Refuses to go on after a write whose effect is unknown.
    pub(super) fn ready(&self) -> Result<(), IndexError> {
        if self.is_interrupted { Err(IndexError::Interrupted) } else { Ok(()) }
    }

    pub(super) fn page_bytes(&self) -> usize {
        self.page.len()
    }

    /// Whether no record fits any more.
    pub(super) fn is_full(&self) -> bool {
        self.records == self.layout.page_records && self.number + 1 == self.layout.pages
    }

    /// Records that the medium does not have yet.
    pub(super) fn pending(&self) -> usize {
        self.records - self.written
    }

    /// Pages of the journal that hold records of the epoch, the one in RAM included.
    pub(super) fn used_pages(&self) -> u32 {
        self.number + u32::from(self.records > 0)
    }

    /// Adds a record; writes the page before if that is full.
    pub(super) fn append(&mut self, change: Change<'_>) -> Result<(), StoreError> {
        assert!(!self.is_full(), "the journal was to be cut off");
        if self.records == self.layout.page_records {
            self.force()?;
            self.turn_to(self.number + 1);
        }
        self.layout.put_record(&mut self.page, self.records, change);
        self.records += 1;
        self.counts.records += 1;
        Ok(())
    }

    /// Takes the last record back: its update was refused.
    pub(super) fn retract(&mut self) -> Result<(), StoreError> {
        assert!(self.records > 0, "J3: the last record is in the page in RAM");
        self.records -= 1;
        self.counts.records -= 1;
        self.layout.wipe_record(&mut self.page, self.records);
        if self.written <= self.records {
            return Ok(());
        }
        self.written = 0;
        let rewritten = self.write(false);
        // The medium still has a record of what was refused: better not to know of any.
        self.is_interrupted |= rewritten.is_err();
        rewritten
    }

    /// Where the index below may say what it heard of and what it shows.
    pub(super) fn horizon(&self) -> Rc<Horizon> {
        Rc::clone(&self.horizon)
    }

    /// Writes the page in RAM if it has the record of an update that the index below is about to show.
    fn let_pass(&mut self) -> Result<(), StoreError> {
        if self.pending() == 0 || self.horizon.shows.get().is_some_and(|newest| newest <= self.heard) {
            return Ok(());
        }
        self.counts.forced_writes += 1;
        self.force()
    }

    /// Writes the page in RAM if it has records that the medium has not.
    pub(super) fn force(&mut self) -> Result<(), StoreError> {
        if self.pending() == 0 { Ok(()) } else { self.write(false) }
    }

    /// Begins a new epoch, without any record. The medium learns of it with the next page written; until then the
    /// records of the old epoch say once more what the index holds already.
    pub(super) fn cut_off(&mut self) {
        assert!(self.epoch < u64::MAX - 1, "an epoch for every nanosecond of five centuries");
        self.epoch += 1;
        self.counts.cut_offs += 1;
        self.turn_to(0);
    }

    /// Notes on the medium that the epoch has no records; closed, that the index below was synced and nothing followed.
    pub(super) fn write_empty(&mut self, is_closed: bool) -> Result<(), StoreError> {
        assert!(self.records == 0 && self.number == 0, "the epoch has records");
        self.write(is_closed)
    }

    pub(super) fn sync(&mut self) -> Result<(), StoreError> {
        self.force()?;
        self.store.sync()
    }

    fn turn_to(&mut self, number: u32) {
        self.page.fill(0);
        (self.number, self.records, self.written) = (number, 0, 0);
    }

    fn lpn(&self, number: u32) -> Lpn {
        Lpn(self.layout.pages - 1 - number)
    }

    fn write(&mut self, is_closed: bool) -> Result<(), StoreError> {
        if self.is_interrupted {
            return Err(StoreError::Device(alloc::string::String::from(
                "an earlier write of the journal failed",
            )));
        }
        let header = Header { number: self.number, epoch: self.epoch, records: self.records, is_closed };
        self.layout.seal(&mut self.page, header);
        let written = self.store.write(self.lpn(self.number), Cause::Checkpoint, &self.page);
        if written.is_ok() {
            self.written = self.records;
            self.heard = self.horizon.heard.get();
            self.counts.page_writes += 1;
        }
        self.is_interrupted |= !matches!(written, Ok(()) | Err(StoreError::Full));
        written
    }

    /// Reads a page of the journal; a page that cannot be read is a damaged one.
    pub(super) fn read(&mut self, number: u32, cause: Cause, page: &mut [u8]) -> Result<Found, StoreError> {
        match self.store.read(self.lpn(number), cause, page) {
            Ok(()) => Ok(page::read(page)),
            Err(
                StoreError::Corrupted { .. } | StoreError::Nand(crate::nand::NandError::Uncorrectable(_)),
            ) => Ok(Found::Damaged),
            Err(error) => Err(error),
        }
    }

    /// Drops all pages of the slice.
    pub(super) fn trim_all(&mut self) -> Result<(), StoreError> {
        (0..self.layout.pages).try_for_each(|lpn| self.store.trim(Lpn(lpn)))?;
        self.store.sync()
    }

    /// Checks that the medium has of J1 and J3 what it should.
    pub(super) fn check(&mut self, report: &mut CheckReport) -> Result<(), StoreError> {
        let mut page = vec![0; self.page.len()];
        for number in 0..self.number + u32::from(self.written > 0) {
            let is_last = number == self.number;
            let records = if is_last { self.written } else { self.layout.page_records };
            let expected = Header { number, epoch: self.epoch, records, is_closed: false };
            let found = self.read(number, Cause::Check, &mut page)?;
            if found != Found::Page(expected, self.layout) {
                report.violation("J1", u64::from(number), format!("{found:?} instead of {expected:?}"));
            } else if is_last
                && self.layout.records(&page, records) != self.layout.records(&self.page, records)
            {
                report.violation("J3", u64::from(number), "the page in RAM tells other records".into());
            }
        }
        Ok(())
    }

    pub(super) fn ram_bytes(&self) -> usize {
        size_of::<Self>() + self.page.len()
    }

    /// Gives the whole store back, if no other slice of it is left.
    pub(super) fn into_whole(self) -> Option<S> {
        self.store.into_whole()
    }
}

/// The store of a journaled index: no write passes before the journal has the updates that led to it (J2).
pub struct Guarded<S> {
    store: Slice<S>,
    journal: Rc<RefCell<Writer<S>>>,
}

impl<S: PageStore> Guarded<S> {
    pub(super) fn new(store: Slice<S>, journal: Rc<RefCell<Writer<S>>>) -> Guarded<S> {
        Guarded { store, journal }
    }

    fn journal_first(&self) -> Result<(), StoreError> {
        self.journal.borrow_mut().let_pass()
    }
}

impl<S: PageStore> PageStore for Guarded<S> {
    fn page_bytes(&self) -> usize {
        self.store.page_bytes()
    }

    fn page_count(&self) -> u32 {
        self.store.page_count()
    }

    fn read(&mut self, lpn: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        self.store.read(lpn, cause, data)
    }

    fn write(&mut self, lpn: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreError> {
        self.journal_first()?;
        self.store.write(lpn, cause, data)
    }

    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        self.journal_first()?;
        self.store.trim(lpn)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.store.sync()
    }

    fn atomic_pages_max(&self) -> usize {
        self.store.atomic_pages_max()
    }

    fn write_atomic(&mut self, pages: &[(Lpn, &[u8])], cause: Cause) -> Result<(), StoreError> {
        self.journal_first()?;
        self.store.write_atomic(pages, cause)
    }

    fn durable_writes(&self) -> bool {
        self.store.durable_writes()
    }

    fn prefix_consistent(&self) -> bool {
        self.store.prefix_consistent()
    }

    fn checkpoint(&mut self) -> Result<(), StoreError> {
        self.store.checkpoint()
    }

    fn ram_bytes(&self) -> usize {
        self.store.ram_bytes()
    }

    fn stats(&self) -> StoreStats {
        self.store.stats()
    }

    fn live_page(&self, ppn: Ppn) -> Option<bool> {
        self.store.live_page(ppn)
    }
}
