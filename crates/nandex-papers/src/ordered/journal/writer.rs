//! When the journal's last page goes out, and the store that lets nothing past it.

use super::Below;
use super::page::{Updates, put_record, record_of};
use alloc::boxed::Box;
use nandex::check::{CheckReport, IndexError};
use nandex::nand::Cause;
use nandex::ordered::RecordFormat;
use nandex::ordered::change::Change;
use nandex::record_log::{Header, Layout, RecordLog};
use nandex::shared::Shared;
use nandex::store::slice::Slice;
use nandex::store::{PageStore, StoreError};
use nandex::units::Lpn;

/// The counters of the journal.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct JournalCounts {
    pub(super) records: u64,
    pub(super) forced_writes: u64,
    pub(super) cut_offs: u64,
    pub(super) replayed_records: u64,
}

/// The journal's own slice, and its last page in RAM.
pub(super) struct Writer<S> {
    log: RecordLog<Slice<S>, Updates>,
    record: RecordFormat,
    /// Updates that the index heard of, counted by it, and the newest that its writes may show; none when it
    /// is not known.
    heard: u64,
    shows: Option<u64>,
    /// The number of updates that the index had heard of when the page was written last.
    written: u64,
    /// Whether the store refused the index below a write, and if so, whether because it takes none any more.
    refused: Option<bool>,
    /// Whether the medium says that the index was closed.
    is_closed: bool,
    pub(super) counts: JournalCounts,
}

impl<S: PageStore> Writer<S> {
    /// A journal without records, on a slice that holds none of this epoch; it may say that the index was
    /// closed.
    pub(super) fn empty(store: Slice<S>, layout: Layout, epoch: u64, is_closed: bool) -> Writer<S> {
        Writer {
            log: RecordLog::empty(store, layout, epoch),
            record: record_of(&layout),
            heard: 0,
            shows: None,
            written: 0,
            refused: None,
            is_closed,
            counts: JournalCounts::default(),
        }
    }

    /// Goes on after the run that begins with this page; shows the records of its pages.
    pub(super) fn resume(&mut self, first: Header, show: &mut dyn FnMut(&[u8])) -> Result<(), IndexError> {
        self.log.resume(first.epoch, show)
    }

    /// Refuses to go on after a write whose effect is unknown.
    pub(super) fn ready(&self) -> Result<(), IndexError> {
        self.log.ready()
    }

    pub(super) fn layout(&self) -> Layout {
        self.log.layout()
    }

    pub(super) fn page_writes(&self) -> u64 {
        self.log.page_writes()
    }

    /// Whether no record fits any more.
    pub(super) fn is_full(&self) -> bool {
        self.log.room() == 0
    }

    /// Records that the medium does not have yet.
    pub(super) fn pending(&self) -> usize {
        self.log.pending()
    }

    /// Pages of the journal that hold records of the epoch, the one in RAM included.
    pub(super) fn used_pages(&self) -> u32 {
        self.log.used_pages()
    }

    /// Notes what the index had heard of once the page is written, and that it is open.
    fn written(&mut self, before: u64) {
        debug_assert!(self.log.page_writes() >= before, "writes of the journal were uncounted");
        if self.log.page_writes() > before {
            self.written = self.heard;
            self.is_closed = false;
        }
    }

    /// Adds a record; writes the page before if that is full.
    pub(super) fn append(&mut self, change: Change<'_>) -> Result<(), StoreError> {
        assert!(!self.is_full(), "the journal was to be cut off");
        let (record, before) = (self.record, self.log.page_writes());
        let appended = self.log.append(|bytes| put_record(record, bytes, change));
        self.counts.records += u64::from(appended.is_ok());
        self.written(before);
        appended
    }

    /// Takes the last record back: its update was refused. Where the store refuses that too, the record stays
    /// and its update is one that is owed.
    pub(super) fn retract(&mut self) -> Result<(), StoreError> {
        let before = self.log.page_writes();
        let retracted = self.log.retract();
        self.counts.records -= u64::from(retracted.is_ok());
        self.written(before);
        retracted
    }

    /// The records of the epoch.
    pub(super) fn records_now(&self) -> usize {
        (self.layout().records_max() - self.log.room()) as usize
    }

    /// Where the newest record stands in the epoch, counted from 0.
    pub(super) fn newest(&self) -> u64 {
        debug_assert!(self.records_now() > 0, "there is a record");
        self.records_now() as u64 - 1
    }

    /// Replaces all records of a full journal by these, oldest first, in a new epoch.
    pub(super) fn condense<'a>(
        &mut self,
        records: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> Result<(), StoreError> {
        let before = self.log.page_writes();
        let condensed = self.log.condense(self.log.epoch() + 1, records);
        self.written(before);
        condensed
    }

    /// Reads all records of the epoch, those included that the medium has not.
    pub(super) fn records(&mut self, show: &mut dyn FnMut(&[u8])) -> Result<(), IndexError> {
        self.log.all_records(show)
    }

    /// The error that the store answered to the index below if it refused a write since this was asked last.
    pub(super) fn take_refusal(&mut self) -> Option<StoreError> {
        let is_worn_out = self.refused.take()?;
        Some(if is_worn_out { StoreError::WornOut } else { StoreError::Full })
    }

    /// The pages of the index below.
    pub(super) fn pages_below(&self) -> Slice<S> {
        self.log.store().before()
    }

    /// Another index is below, which counts what it hears from the beginning.
    pub(super) fn forget_heard(&mut self) {
        (self.heard, self.shows, self.written) = (0, None, 0);
    }

    /// Writes the page in RAM if it has the record of an update that the index below is about to show, and in
    /// any case where the medium says that the index was closed (J5).
    fn let_pass(&mut self) -> Result<(), StoreError> {
        if self.is_closed && self.pending() == 0 {
            return self.write_empty(false);
        }
        if self.is_closed {
            return self.force();
        }
        if self.pending() == 0 || self.shows.is_some_and(|newest| newest <= self.written) {
            return Ok(());
        }
        self.counts.forced_writes += 1;
        self.force()
    }

    /// Writes the page in RAM if it has records that the medium has not.
    pub(super) fn force(&mut self) -> Result<(), StoreError> {
        let before = self.log.page_writes();
        let forced = self.log.force();
        self.written(before);
        forced
    }

    /// Begins a new epoch, without any record. The medium learns of it with the next page written; until then
    /// the records of the old epoch say once more what the index holds already.
    pub(super) fn cut_off(&mut self) {
        debug_assert_eq!(self.pending(), 0, "J2: records are cut off that wait to be written");
        self.counts.cut_offs += 1;
        self.log.start(self.log.epoch() + 1);
    }

    /// Notes on the medium that the epoch has no records; closed, that the index below was synced and nothing
    /// followed.
    pub(super) fn write_empty(&mut self, is_closed: bool) -> Result<(), StoreError> {
        let before = self.log.page_writes();
        let noted = self.log.write_empty(is_closed);
        self.written(before);
        self.is_closed |= is_closed && noted.is_ok();
        noted
    }

    pub(super) fn sync(&mut self) -> Result<(), StoreError> {
        self.force()?;
        self.log.sync()
    }

    /// Drops all pages of the slice.
    pub(super) fn trim_all(&mut self) -> Result<(), StoreError> {
        self.log.trim_all()
    }

    /// Checks that the medium has of J1 and J3 what it should.
    pub(super) fn check(&mut self, report: &mut CheckReport) -> Result<(), StoreError> {
        self.log.check(report)
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.log.ram_bytes() + size_of::<Self>() - size_of::<RecordLog<Slice<S>, Updates>>()
    }

    /// Gives the whole store back, if no other slice of it is left.
    pub(super) fn into_whole(self) -> Option<S> {
        self.log.into_store().into_whole()
    }
}

/// The store of a journaled index: no write passes before the journal has the updates that led to it (J2).
pub(super) struct Guarded<S> {
    store: Slice<S>,
    journal: Shared<Writer<S>>,
}

impl<S: PageStore> Guarded<S> {
    /// The pages before the journal.
    fn new(journal: &Shared<Writer<S>>) -> Guarded<S> {
        Guarded { store: journal.lock().pages_below(), journal: journal.clone() }
    }

    /// The pages before the journal, as the index below takes them: boxed, so that each index is compiled
    /// once, with a journal or without.
    pub(super) fn boxed(journal: &Shared<Writer<S>>) -> Below
    where
        S: 'static,
    {
        Box::new(Guarded::new(journal))
    }

    fn journal_first(&self) -> Result<(), StoreError> {
        let passed = self.journal.lock().let_pass();
        self.note(passed)
    }

    /// Notes a refusal: whatever the index below makes of it, it may not be what it was.
    fn note(&self, done: Result<(), StoreError>) -> Result<(), StoreError> {
        if done.as_ref().is_err_and(StoreError::is_refusal) {
            self.journal.lock().refused = Some(done == Err(StoreError::WornOut));
        }
        done
    }
}

impl<S: PageStore> PageStore for Guarded<S> {
    nandex::forward_store!(self => self.store;
        page_bytes page_count read atomic_pages_max begin_batch end_batch durable_writes prefix_consistent
        ram_bytes stats live_page);

    fn write(&mut self, lpn: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreError> {
        self.journal_first()?;
        let written = self.store.write(lpn, cause, data);
        self.note(written)
    }

    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        self.journal_first()?;
        let trimmed = self.store.trim(lpn);
        self.note(trimmed)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        let synced = self.store.sync();
        self.note(synced)
    }

    fn write_atomic(&mut self, pages: &[(Lpn, &[u8])], cause: Cause) -> Result<(), StoreError> {
        self.journal_first()?;
        let written = self.store.write_atomic(pages, cause);
        self.note(written)
    }

    fn keeps_updates(&self) -> bool {
        true
    }

    fn updates_heard(&mut self, updates: u64) {
        self.journal.lock().heard = updates;
    }

    fn updates_shown(&mut self, newest: Option<u64>) {
        self.journal.lock().shows = newest;
    }

    fn maintain(&mut self, budget: u32) -> Result<u32, StoreError> {
        let done = self.store.maintain(budget);
        self.note(done.clone().map(drop))?;
        done
    }

    fn scrub(&mut self, budget: u32) -> Result<u32, StoreError> {
        let done = self.store.scrub(budget);
        self.note(done.clone().map(drop))?;
        done
    }

    fn checkpoint(&mut self) -> Result<(), StoreError> {
        let done = self.store.checkpoint();
        self.note(done)
    }
}
