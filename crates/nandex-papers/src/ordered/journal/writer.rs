//! Writing the journal's last page, and the store that lets no write of the index overtake it.

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

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct JournalCounts {
    pub(super) records: u64,
    pub(super) forced_writes: u64,
    pub(super) cut_offs: u64,
    pub(super) replayed_records: u64,
}

/// The journal's slice of the store, with its last page in RAM.
pub(super) struct Writer<S> {
    log: RecordLog<Slice<S>, Updates>,
    record: RecordFormat,
    /// Updates that the index below has been given. `shows` is the newest that its writes may show, if
    /// known.
    heard: u64,
    shows: Option<u64>,
    /// The value of `heard` when the page was last written.
    written: u64,
    /// Whether the store refused a write of the index below. `Some(true)` if it takes no more writes at all.
    refused: Option<bool>,
    /// Whether the medium says that the index was closed.
    is_closed: bool,
    pub(super) counts: JournalCounts,
}

impl<S: PageStore> Writer<S> {
    /// A journal without records. The slice must hold no page of this epoch.
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

    /// Continues the run that begins with this page, after passing its records to `show`.
    pub(super) fn resume(&mut self, first: Header, show: &mut dyn FnMut(&[u8])) -> Result<(), IndexError> {
        self.log.resume(first.epoch, show)
    }

    pub(super) fn ready(&self) -> Result<(), IndexError> {
        self.log.ready()
    }

    pub(super) fn layout(&self) -> Layout {
        self.log.layout()
    }

    pub(super) fn page_writes(&self) -> u64 {
        self.log.page_writes()
    }

    pub(super) fn is_full(&self) -> bool {
        self.log.room() == 0
    }

    /// Number of records that the medium does not have yet.
    pub(super) fn pending(&self) -> usize {
        self.log.pending()
    }

    /// Pages with records of the epoch, the one in RAM included.
    pub(super) fn used_pages(&self) -> u32 {
        self.log.used_pages()
    }

    /// Notes, if the page was written since `before`, that the medium has all updates heard and says that
    /// the index is open.
    fn written(&mut self, before: u64) {
        debug_assert!(self.log.page_writes() >= before, "writes of the journal were uncounted");
        if self.log.page_writes() > before {
            self.written = self.heard;
            self.is_closed = false;
        }
    }

    /// Adds a record. If the page in RAM is full, it is written first.
    pub(super) fn append(&mut self, change: Change<'_>) -> Result<(), StoreError> {
        assert!(!self.is_full(), "the journal was to be cut off");
        let (record, before) = (self.record, self.log.page_writes());
        let appended = self.log.append(|bytes| put_record(record, bytes, change));
        self.counts.records += u64::from(appended.is_ok());
        self.written(before);
        appended
    }

    /// Takes back the last record, whose update was refused. If the store refuses that, the record stays
    /// and the update is owed.
    pub(super) fn retract(&mut self) -> Result<(), StoreError> {
        let before = self.log.page_writes();
        let retracted = self.log.retract();
        self.counts.records -= u64::from(retracted.is_ok());
        self.written(before);
        retracted
    }

    /// Number of records in the epoch.
    pub(super) fn records_now(&self) -> usize {
        (self.layout().records_max() - self.log.room()) as usize
    }

    /// Number of the newest record in the epoch, from 0.
    pub(super) fn newest(&self) -> u64 {
        debug_assert!(self.records_now() > 0, "there is a record");
        self.records_now() as u64 - 1
    }

    /// Replaces all records of a full journal by these, the oldest first, in a new epoch.
    pub(super) fn condense<'a>(
        &mut self,
        records: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> Result<(), StoreError> {
        let before = self.log.page_writes();
        let condensed = self.log.condense(self.log.epoch() + 1, records);
        self.written(before);
        condensed
    }

    /// Reads all records of the epoch, those in RAM included.
    pub(super) fn records(&mut self, show: &mut dyn FnMut(&[u8])) -> Result<(), IndexError> {
        self.log.all_records(show)
    }

    /// The store's refusal of a write of the index below, if there was one since the last call.
    pub(super) fn take_refusal(&mut self) -> Option<StoreError> {
        let is_worn_out = self.refused.take()?;
        Some(if is_worn_out { StoreError::WornOut } else { StoreError::Full })
    }

    /// The slice of the store before the journal, for the index below.
    pub(super) fn pages_below(&self) -> Slice<S> {
        self.log.store().before()
    }

    /// Restarts the count of updates heard, for an index that was opened again.
    pub(super) fn forget_heard(&mut self) {
        (self.heard, self.shows, self.written) = (0, None, 0);
    }

    /// Lets a write of the index below pass. Before it the page in RAM is written if its records led to the
    /// write, or if the medium says that the index was closed (J5).
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

    /// Writes the page in RAM if the medium lacks any of its records.
    pub(super) fn force(&mut self) -> Result<(), StoreError> {
        let before = self.log.page_writes();
        let forced = self.log.force();
        self.written(before);
        forced
    }

    /// Begins a new epoch without records. The medium learns of it with the next page written. Until then a
    /// mount would replay old records, whose updates the index has already.
    pub(super) fn cut_off(&mut self) {
        debug_assert_eq!(self.pending(), 0, "J2: records are cut off that wait to be written");
        self.counts.cut_offs += 1;
        self.log.start(self.log.epoch() + 1);
    }

    /// Writes that the epoch has no records. `is_closed` adds that the index below was synced and nothing
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

    pub(super) fn trim_all(&mut self) -> Result<(), StoreError> {
        self.log.trim_all()
    }

    /// Checks J1 and J3 on the medium.
    pub(super) fn check(&mut self, report: &mut CheckReport) -> Result<(), StoreError> {
        self.log.check(report)
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.log.ram_bytes() + size_of::<Self>() - size_of::<RecordLog<Slice<S>, Updates>>()
    }

    /// The whole store, if no other slice of it exists.
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
    fn new(journal: &Shared<Writer<S>>) -> Guarded<S> {
        Guarded { store: journal.lock().pages_below(), journal: journal.clone() }
    }

    /// The pages before the journal as a boxed store, so that each index is compiled once, for use with and
    /// without a journal.
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

    /// Notes a refusal of the store, since the index below may have stopped half-way.
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
