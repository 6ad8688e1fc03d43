//! An update journal around an index that buffers updates in RAM. Promised updates then survive a power cut.
//!
//! An index such as the lazy-update B+-tree gathers updates in RAM and writes them in another order than they
//! came. A power cut loses the buffered ones, and the remaining ones are no prefix of the history.
//! [`Journaled`] records every update in a few pages at the end of the store before the index below gets it,
//! and repeats after a cut the updates that the index lost.
//!
//! # State
//!
//! The store is divided in two slices: the index below has the first, the journal the pages at the end. The
//! last page is the journal's first. `record_log` describes every byte of a page, `page.rs` of a record. In
//! RAM is the journal's last page. An *epoch* is the time between two cut-offs. Its pages are the *run*:
//! pages 0, 1, ... with the epoch's number, all full but the last. A page is rewritten in place as it fills,
//! which is atomic on every store: old or new.
//!
//! # Operations
//!
//! - *insert, remove*: (1) A full journal is *cut off*: its last page is written and the index below synced,
//!   so that the index has everything, and a new epoch begins with an empty page in RAM. (2) The record is
//!   added to the page in RAM. (3) If a group is full, the page is written. (4) The index below takes the
//!   update. If it refuses, the record is taken back, on the medium too. If the store refuses that, the
//!   record stays, and the update counts as done and is *owed*.
//! - *a write of the index below*: the page in RAM is written first if it has records that the medium lacks,
//!   or if the medium says that the index was closed (`Guarded`). No index needs to know this. An index that
//!   tells which updates a write shows ([`PageStore::updates_shown`]) need not wait for later ones.
//! - *sync*: writes the page in RAM and syncs the store. Updates buffered below stay buffered.
//! - *load*: cuts off, writes page 0 of the new epoch without records, and passes the sorted records to the
//!   index below, which builds itself from all of them or none.
//! - *close*: syncs the index below, then writes page 0 of a new epoch with the mark that it has no records.
//! - *mount*: if page 0 has that mark, the index below is mounted as it is. Otherwise it is opened as after a
//!   cut, the run is read, and updates that are missing are repeated (`replay.rs`). Nothing is written for
//!   that, the journal continues where it ended, and a cut during the replay leads to another replay. Updates
//!   that find no room are owed.
//! - *a write refused by the store*: the index below is opened again, as after a cut, and all updates that it
//!   lacks are owed. After `WornOut` nothing is changed any more.
//!
//! # Owed updates
//!
//! An update whose record is in the journal but which the index below lacks is owed (`owed.rs`). It waits in
//! RAM and is read from there, and no epoch ends before the index below has it. Meanwhile puts are refused
//! and removals are taken; each first tries to give the index below the owed updates. A journal that becomes
//! full then is *condensed* (`record_log`): the index below is synced, and a new epoch begins with only the
//! records of owed updates, in pages that follow the old ones until all are written.
//!
//! A cut-off itself writes nothing else. The medium gets the new epoch with its first page. A cut before that
//! finds the old records and an index that has them already.
//!
//! # Durability
//!
//! Required of the index below: its writes stay whole over a cut, and each key has its value of the last sync
//! or of a later update ([`Buffered`]). All updates since the last cut-off that are visible on the medium are
//! in the run (J2). So replaying the run yields the state after its last record: a prefix of the history.
//! With groups of one update the class is *every operation* if writes are durable at once. Otherwise it is
//! *every sync*, and at most a group less one, or a page, of acknowledged updates is lost. There is no clock,
//! so the age of a group is counted in updates.
//!
//! # Damaged pages
//!
//! No store tears a page, so a page with a wrong checksum was damaged later. It is an error within the run,
//! and right after a full page if the run may continue there. A page of the epoch after one that is not full
//! or is missing is an error too. A damaged page behind the end of the run was not in use and is ignored. One
//! case cannot be detected: if the store returns an older version of the last page, the records after it are
//! lost.
//!
//! # Invariants
//!
//! - J1 The medium holds pages 0 to n - 1 of the epoch full, and page n with those records of the page in RAM
//!   that were written; nothing of the epoch if nothing was written in it.
//! - J2 The medium has the record of every update that is visible in writes of the index below, and of all
//!   updates before it.
//! - J3 The page in RAM begins with the records that the medium has of it.
//! - J4 The newest record of each key is in the run, or the index below shows it on the medium: an update is
//!   accepted only once its record is in the journal, and no mount needs room for it.
//! - J5 If the medium says that the index was closed, the index below is as it was synced then.

mod newest;
mod owed;
mod page;
mod replay;
#[cfg(test)]
mod tests;
mod update;
mod writer;

pub(super) use newest::Newest;
pub(super) use owed::Owed;
use writer::Guarded;

use alloc::boxed::Box;
use alloc::vec;
use core::ops::Bound;
use nandex::check::{CheckReport, IndexError, message};
use nandex::nand::Differs;
use nandex::ordered::buffered::Merge;
use nandex::ordered::change::Change;
use nandex::ordered::{
    Direction, Durability, IndexStats, Metric, OrderedIndex, RecordFormat, Records, Tour, Visit,
};
use nandex::record_log::{Layout, is_there, locate};
use nandex::shared::{MaybeSend, Shared};
use nandex::store::PageStore;
use nandex::store::slice::divide;
use nandex::units::Lpn;
use page::Updates;
use writer::Writer;

/// A journal is made large enough that all waiting updates are written this many times before it is full.
const ROUNDS: u64 = 8;

/// Least pages of a journal, unless fewer are asked for.
const PAGES_MIN: u32 = 2;

/// Least pages that are left to the index below.
const INNER_PAGES_MIN: u32 = 2;

/// An index that keeps updates in RAM for some time, on a store.
///
/// A journal can make it durable if an update once accepted always finds room: its `sync` may answer `Full`
/// only if the store does.
pub trait Buffered<S: PageStore>: OrderedIndex + Sized {
    /// The settings with which the index is formatted and mounted.
    type Config: Clone + MaybeSend;

    /// Makes an empty index, and drops everything that the store held.
    fn format(store: S, config: &Self::Config) -> Result<Self, IndexError>;

    /// Opens an index that was synced after its last change.
    fn mount(store: S, config: &Self::Config) -> Result<Self, IndexError>;

    /// Opens an index after a power cut. Each key has its value at the last sync or a later one.
    fn mount_after_cut(store: S, config: &Self::Config) -> Result<Self, IndexError>;

    /// Refuses settings that cannot work below a journal, which repeats updates after a cut.
    fn validate_below_journal(config: &Self::Config) -> Result<(), IndexError> {
        let _ = config;
        Ok(())
    }

    /// The record format of the index.
    fn record_of(config: &Self::Config) -> RecordFormat;

    /// Largest number of updates that wait in RAM.
    fn waiting_updates_max(config: &Self::Config) -> u64;

    /// Durability class that the index would have on its store if it buffered no update. *none* means that a
    /// cut may tear the index.
    fn class_below(&self) -> Durability;
}

/// The ways to make and to open an index below a journal: those of the index, configured as published.
macro_rules! opens_published {
    ($tree:ident, $config:ty) => {
        type Config = $config;

        fn format(store: S, config: &$config) -> Result<Self, IndexError> {
            $tree::format(store, &config.published())
        }

        fn mount(store: S, config: &$config) -> Result<Self, IndexError> {
            $tree::mount(store, &config.published())
        }

        fn mount_after_cut(store: S, config: &$config) -> Result<Self, IndexError> {
            $tree::mount_after_cut(store, &config.published())
        }
    };
}
pub(in crate::ordered) use opens_published;

/// The store of a journaled index: it lets no write pass before the journal has the updates that led to it.
pub type Below = Box<dyn PageStore>;

/// The settings of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalConfig {
    /// The durability class wanted.
    pub durability: Durability,
    /// Pages of the journal. `None` chooses them by the index below at format, and takes those found at
    /// mount.
    pub pages: Option<u32>,
    /// Number of updates written together. 1 is for *every operation*; 0 means a full page, or a sync.
    pub group: u32,
    /// Bytes of RAM, besides a page, in which a mount after a cut sorts the records. With fewer bytes it
    /// reads the journal several times. `None` means enough for all records.
    pub replay_ram: Option<usize>,
}

impl JournalConfig {
    /// Settings for a durability class, with groups as large as it allows.
    pub const fn new(durability: Durability) -> JournalConfig {
        let group = matches!(durability, Durability::EveryOperation) as u32;
        JournalConfig { durability, pages: None, group, replay_ram: None }
    }

    /// Bytes of RAM that a journal takes at most on pages of this size, without the index below. A mount
    /// takes [`JournalConfig::replay_ram`] and a page more.
    pub const fn ram_bytes(page_bytes: usize) -> usize {
        page_bytes + WRITER_BYTES_MAX
    }

    fn validate(&self) -> Result<(), IndexError> {
        if self.durability == Durability::EveryOperation && self.group != 1 {
            let what =
                "every operation is durable only where the journal writes each at once: journal_group = 1";
            return Err(IndexError::Unsupported(what.into()));
        }
        Ok(())
    }
}

/// Upper bound of the bytes that a journal takes besides its page, whatever the store.
const WRITER_BYTES_MAX: usize = 512;

/// A lazy-update B+-tree with a journal.
pub type JournaledLazyUpdateTree<S> = Journaled<S, crate::ordered::lazy_update::LazyUpdateTree<Below>>;

/// An LS-LRU B+-tree with a journal.
pub type JournaledLsLruTree<S> = Journaled<S, crate::ordered::ls_lru::LsLruTree<Below>>;

/// An index with a journal. No promised update is lost.
///
/// A lazy-update tree gathers updates in RAM. With a journal each of them is on the flash when it returns:
///
/// ```
/// use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
/// use nandex::nand::{catalogue::mlc_64m, sim::SimChip};
/// use nandex_papers::ordered::journal::JournaledLazyUpdateTree;
/// use nandex::{Durability, OrderedIndex, RecordFormat};
/// use nandex_papers::{JournalConfig, LazyUpdateConfig};
///
/// let chip = nandex::Shared::new(SimChip::new(&mlc_64m())?);
/// let tree = LazyUpdateConfig::new(RecordFormat::new(4, 4), 1000).published();
/// let config = (tree, JournalConfig::new(Durability::EveryOperation));
///
/// let store = PageMapFtl::format(chip.clone(), &FtlConfig::default())?;
/// let mut index = JournaledLazyUpdateTree::format(store, &config)?;
/// index.insert(&7u32.to_be_bytes(), b"kept")?;
/// drop(index);                                            // the power goes; the update waited in RAM
///
/// let store = PageMapFtl::mount(chip, &FtlConfig::default())?;
/// let mut index = JournaledLazyUpdateTree::mount(store, &config)?;
/// let mut value = [0; 4];
/// assert!(index.get(&7u32.to_be_bytes(), &mut value)? && &value == b"kept");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Journaled<S: PageStore + 'static, T: Buffered<Below>> {
    inner: T,
    journal: Shared<Writer<S>>,
    group: u32,
    replay_ram: Option<usize>,
    /// Updates of the epoch that the index below does not have.
    owed: Owed,
    /// Whether the store takes no more writes.
    is_worn_out: bool,
    /// The settings of the index below, in case it must be opened again.
    config: T::Config,
}

impl<S: PageStore + 'static, T: Buffered<Below>> Journaled<S, T> {
    /// Makes an empty index and its journal, and drops everything that the store held.
    pub fn format(
        mut store: S,
        (inner, config): &(T::Config, JournalConfig),
    ) -> Result<Journaled<S, T>, IndexError> {
        config.validate()?;
        T::validate_below_journal(inner)?;
        let layout = layout(&store, T::record_of(inner), config.pages, T::waiting_updates_max(inner))?;
        // Without the journal's first page there is nothing to be mounted.
        store.trim(Lpn(store.page_count() - 1))?;
        store.sync()?;
        let journal = journal_on(store, layout, 1, false)?;
        journal.lock().trim_all()?;
        let tree = T::format(Guarded::boxed(&journal), inner)?;
        let index = Journaled::over(tree, journal, inner.clone(), *config)?;
        index.journal.lock().write_empty(true)?;
        index.journal.lock().sync()?;
        Ok(index)
    }

    /// Opens an index after a close or a power cut, and repeats the updates that the index below lost.
    pub fn mount(
        mut store: S,
        (inner, config): &(T::Config, JournalConfig),
    ) -> Result<Journaled<S, T>, IndexError> {
        config.validate()?;
        T::validate_below_journal(inner)?;
        let (first, layout) = locate::<Updates>(&mut store)?;
        if T::record_of(inner) != page::record_of(&layout) {
            return Err(IndexError::other(Differs::Record, "the journal has records of other sizes"));
        }
        if config.pages.is_some_and(|pages| pages != layout.pages) {
            return Err(IndexError::other(Differs::Settings, "the journal has another number of pages"));
        }
        let journal = journal_on(store, layout, first.epoch, first.is_closed)?;
        if first.is_closed {
            let tree = T::mount(Guarded::boxed(&journal), inner).map_err(IndexError::in_layer)?;
            return Journaled::over(tree, journal, inner.clone(), *config);
        }
        let mut newest = Newest::of(&layout, config.replay_ram);
        newest.read(&mut *journal.lock(), first)?;
        let tree = T::mount_after_cut(Guarded::boxed(&journal), inner).map_err(IndexError::in_layer)?;
        let mut index = Journaled::over(tree, journal, inner.clone(), *config)?;
        index.replay(newest)?;
        Ok(index)
    }

    fn over(
        inner: T,
        journal: Shared<Writer<S>>,
        config: T::Config,
        setup: JournalConfig,
    ) -> Result<Self, IndexError> {
        let JournalConfig { group, replay_ram, .. } = setup;
        let owed = Owed::default();
        Journaled { inner, journal, group, replay_ram, owed, is_worn_out: false, config }.require(setup)
    }

    fn require(self, config: JournalConfig) -> Result<Journaled<S, T>, IndexError> {
        let given = self.durability();
        if given >= config.durability && given > Durability::None {
            return Ok(self);
        }
        Err(IndexError::unsupported(message!(
            "durability '{}' is wanted, but with a journal on this store the index gives '{}': below the journal it is '{}'",
            config.durability.name(),
            given.name(),
            self.inner.class_below().name(),
        )))
    }

    /// The index below. It has all updates, some of them in RAM only.
    pub fn inner(&self) -> &T {
        &self.inner
    }

    /// Takes the index apart and returns the store. Changes that were not synced are lost as in a power
    /// cut.
    pub fn into_store(self) -> S {
        let Journaled { inner, journal, .. } = self;
        drop(inner);
        let writer = journal.into_inner();
        let Some(store) = writer.and_then(Writer::into_whole) else {
            unreachable!("only the index below and the journal hold the store");
        };
        store
    }
}

/// The layout of a new journal.
fn layout(
    store: &impl PageStore,
    record: RecordFormat,
    pages: Option<u32>,
    waiting: u64,
) -> Result<Layout, IndexError> {
    let layout = page::layout(record, 0, store.page_bytes());
    let page_records = layout.map_or(0, |layout| layout.page_records) as u64;
    let most = store.page_count().saturating_sub(INNER_PAGES_MIN);
    if page_records == 0 || most < PAGES_MIN {
        return Err(IndexError::unsupported(message!(
            "{} pages of {} bytes are too few or too small for a journal",
            store.page_count(),
            store.page_bytes()
        )));
    }
    let suits = waiting.saturating_mul(ROUNDS).div_ceil(page_records);
    let suits = suits.min(u64::from(store.page_count() / 4)).max(u64::from(PAGES_MIN)) as u32;
    let pages = pages.unwrap_or(suits);
    if !(1..=most).contains(&pages) {
        let what = message!("journal_pages = {pages}: 1 to {most} are possible on this store");
        return Err(IndexError::Unsupported(what.into()));
    }
    page::layout(record, pages, store.page_bytes())
        .ok_or_else(|| IndexError::Unsupported("keys without bytes".into()))
}

fn journal_on<S: PageStore>(
    store: S,
    layout: Layout,
    epoch: u64,
    is_closed: bool,
) -> Result<Shared<Writer<S>>, IndexError> {
    let below = store.page_count() - layout.pages;
    let Some(end) = divide(store, &[below, layout.pages])?.pop() else {
        unreachable!("a store divided in two");
    };
    Ok(Shared::new(Writer::empty(end, layout, epoch, is_closed)))
}

/// Refuses a store whose index has a journal. Mounted without the journal, it would lose promised updates.
pub fn refuse_journaled(store: &mut impl PageStore) -> Result<(), IndexError> {
    if is_there::<Updates>(store)? {
        let what = "the index has a journal: it is mounted in the class it was formatted for";
        return Err(IndexError::other(Differs::Settings, what));
    }
    Ok(())
}

impl<S: PageStore + 'static, T: Buffered<Below>> OrderedIndex for Journaled<S, T> {
    fn durability(&self) -> Durability {
        let grouped = if self.group == 1 { Durability::EveryOperation } else { Durability::EverySync };
        self.inner.class_below().min(grouped)
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        self.journal.lock().ready()?;
        if !self.owed.is_empty() {
            self.record().check(key, value)?;
        }
        self.look_up(key, value)
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        self.record().check(key, value)?;
        self.update(Change { key, value: Some(value) }, replay::apply)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), IndexError> {
        self.record().check(key, value)?;
        self.update(Change { key, value: Some(value) }, replay::apply_blind).map(drop)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        self.record().check_key(key)?;
        self.update(Change { key, value: None }, replay::apply)
    }

    /// Loads past the journal, all or nothing. No older record may be replayed over the loaded ones.
    fn load(&mut self, records: Records<'_, '_>) -> Result<u64, IndexError> {
        self.journal.lock().ready()?;
        if !self.is_settled()? {
            return Err(self.refusal());
        }
        self.cut_off()?;
        self.journal.lock().write_empty(false)?;
        self.below_or_revive(|inner| {
            let loaded = inner.load(records)?;
            // No record of the journal tells of it, and those to come are replayed over it.
            inner.sync()?;
            Ok(loaded)
        })
    }

    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        self.journal.lock().ready()?;
        if self.owed.is_empty() {
            return self.inner.range(low, high, direction, visit);
        }
        let tour = Tour { bounds: (low, high), direction, visit };
        tour.check(self.record())?;
        let pending = self.owed.within(tour.bounds, direction);
        Merge::new(pending, tour).walk(|visit| self.inner.range(low, high, direction, visit))
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        self.journal.lock().ready()?;
        Ok(self.journal.lock().sync()?)
    }

    /// Closes the index. If an update is owed or the store takes no more writes, the journal is kept.
    fn close(&mut self) -> Result<(), IndexError> {
        self.journal.lock().ready()?;
        if !self.is_settled()? {
            self.journal.lock().sync()?;
            return if self.is_worn_out { Ok(()) } else { self.below_or_revive(OrderedIndex::close) };
        }
        self.cut_off()?;
        self.journal.lock().write_empty(true)?;
        self.journal.lock().sync()?;
        self.below_or_revive(OrderedIndex::close)
    }

    fn check(&mut self) -> Result<CheckReport, IndexError> {
        self.journal.lock().ready()?;
        let mut report = self.inner.check()?;
        let mut value = vec![0; usize::from(self.record().value_bytes)];
        for change in self.owed.within((Bound::Unbounded, Bound::Unbounded), Direction::Ascending).rest() {
            let is_below = self.inner.get(change.key, &mut value)?;
            report.records += u64::from(change.value.is_some() && !is_below);
            report.records -= u64::from(change.value.is_none() && is_below);
        }
        self.journal.lock().check(&mut report)?;
        Ok(report)
    }

    fn stats(&self) -> IndexStats {
        let mut stats = self.inner.stats();
        let journal = self.journal.lock();
        let counts = journal.counts;
        stats.live_pages += u64::from(journal.used_pages());
        let figures = [
            ("journal_pages", u64::from(journal.layout().pages)),
            ("journal_records", counts.records),
            ("journal_page_writes", journal.page_writes()),
            ("journal_forced_writes", counts.forced_writes),
            ("journal_cut_offs", counts.cut_offs),
            ("journal_replayed_records", counts.replayed_records),
        ];
        stats.metrics.extend(figures.map(|(name, value)| Metric { name, value }));
        stats
    }

    fn ram_bytes(&self) -> usize {
        self.inner.ram_bytes() + self.journal.lock().ram_bytes() + size_of::<Self>() - size_of::<T>()
            + self.owed.ram_bytes()
    }

    fn maintain(&mut self, budget: u32) -> Result<u32, IndexError> {
        self.journal.lock().ready()?;
        self.below_or_revive(|inner| inner.maintain(budget))
    }

    fn scrub(&mut self, budget: u32) -> Result<u32, IndexError> {
        self.journal.lock().ready()?;
        self.below_or_revive(|inner| inner.scrub(budget))
    }

    nandex::forward_index!(inner: free, records_max, record);
}
