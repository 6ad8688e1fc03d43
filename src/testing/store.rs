//! Pages in memory that promise as much as they are told to, whose power fails when a test wants it to, and
//! that refuse what a script refuses.

use crate::cache::{CacheConfig, Lru, PageCache, WriteMode};
use crate::nand::{Cause, NandError};
use crate::rng::Rng;
use crate::shared::{MaybeSend, Shared};
use crate::store::ram::{RamCounters, RamStore};
use crate::store::{PageStore, StoreError};
use crate::units::Lpn;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::mem;

/// The promises of a store: see the methods of the same names of [`PageStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// [`PageStore::durable_writes`].
    pub durable: bool,
    /// [`PageStore::prefix_consistent`].
    pub prefix: bool,
    /// [`PageStore::atomic_pages_max`].
    pub atomic_pages: usize,
}

/// Every write is durable, and groups are atomic.
pub const WRITE_THROUGH: Promise = Promise { durable: true, prefix: true, atomic_pages: usize::MAX };
/// A cut leaves a prefix of the writes, and groups are atomic.
pub const ORDERED: Promise = Promise { durable: false, prefix: true, atomic_pages: usize::MAX };
/// A cut leaves any of the writes since the last sync, and groups are atomic.
pub const UNORDERED: Promise = Promise { durable: false, prefix: false, atomic_pages: usize::MAX };
/// Every write is durable, and no group is atomic.
pub const SINGLE: Promise = Promise { durable: true, prefix: true, atomic_pages: 1 };

impl Promise {
    /// The promise without atomic groups.
    pub const fn single(self) -> Promise {
        Promise { atomic_pages: 1, ..self }
    }
}

/// A change of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// One page, or several as one.
    Write(Vec<(Lpn, Vec<u8>)>, Cause),
    /// A page that was dropped.
    Trim(Lpn),
    /// A sync.
    Sync,
}

/// A call that a script sees before it is done.
#[derive(Clone, Copy, Debug)]
pub enum Call<'a> {
    /// A page is read.
    Read(Lpn, Cause),
    /// Pages are written, several as one.
    Write(&'a [(Lpn, &'a [u8])], Cause),
    /// A page is dropped.
    Trim(Lpn),
    /// [`PageStore::sync`].
    Sync,
    /// [`PageStore::checkpoint`].
    Checkpoint,
}

/// Sees every call, and refuses it by an error.
#[cfg(feature = "std")]
type Script = Box<dyn FnMut(Call<'_>) -> Result<(), StoreError> + Send>;
#[cfg(not(feature = "std"))]
type Script = Box<dyn FnMut(Call<'_>) -> Result<(), StoreError>>;

/// The pages, with a cache in front or without.
enum Pages {
    Plain(RamStore),
    Cached(Box<PageCache<RamStore, Lru>>),
}

impl Pages {
    fn ram(&mut self) -> &mut RamStore {
        match self {
            Pages::Plain(ram) => ram,
            Pages::Cached(cache) => cache.store_mut(),
        }
    }
}

struct Medium {
    pages: Pages,
    promise: Promise,
    /// Changes that are not durable yet; where writes are durable, the trims.
    since: Vec<Change>,
    /// The change at which the power failed: it may have taken place.
    in_flight: Option<Change>,
    /// The contents at the last sync of pages that were changed since.
    before: BTreeMap<Lpn, Vec<u8>>,
    /// Writes and trims before the power fails, and syncs where these count.
    steps: u64,
    is_sync_counted: bool,
    history: Option<Vec<Change>>,
    largest_group: usize,
    script: Option<Script>,
}

/// A store in memory, by one of its handles: [`Store::handle`] is another one, [`Store::copy`] another store.
pub struct Store(Shared<Medium>);

impl Store {
    /// A store of pages of zeros that never fails: every write is durable, groups of any size are atomic.
    pub fn new(page_bytes: usize, page_count: u32) -> Store {
        Store::of(RamStore::new(page_bytes, page_count), WRITE_THROUGH)
    }

    /// A store with these pages.
    pub fn holding(pages: &[Vec<u8>]) -> Store {
        let store = Store::new(pages.first().map_or(1, Vec::len), pages.len() as u32);
        for (lpn, page) in (0..).map(Lpn).zip(pages).filter(|(_, page)| page.iter().any(|&byte| byte != 0)) {
            store.put(lpn, page);
        }
        store
    }

    fn of(ram: RamStore, promise: Promise) -> Store {
        Store(Shared::new(Medium {
            pages: Pages::Plain(ram),
            promise,
            since: Vec::new(),
            in_flight: None,
            before: BTreeMap::new(),
            steps: u64::MAX,
            is_sync_counted: false,
            history: None,
            largest_group: 0,
            script: None,
        }))
    }

    /// The store with other promises.
    pub fn with_promise(self, promise: Promise) -> Store {
        self.0.lock().promise = promise;
        self
    }

    /// The store with groups of so many pages.
    pub fn with_atomic_pages(self, atomic_pages: usize) -> Store {
        self.0.lock().promise.atomic_pages = atomic_pages;
        self
    }

    /// The store, whose power fails after so many writes and trims.
    pub fn failing_after(self, changes: u64) -> Store {
        self.fail_after(changes);
        self
    }

    /// The store behind a cache of so many frames that writes through.
    pub fn with_cache(self, frames: usize) -> Store {
        let mut medium = self.0.lock();
        let ram = mem::replace(medium.pages.ram(), RamStore::new(1, 0));
        let config = CacheConfig { frames, mode: WriteMode::Through, dirty_frames_max: None };
        medium.pages = Pages::Cached(Box::new(PageCache::new(ram, Lru::new(frames), config)));
        drop(medium);
        self
    }

    /// Another handle of the same store.
    pub fn handle(&self) -> Store {
        Store(self.0.clone())
    }

    /// Another store with the same pages and promises: no cache, no script, and its power does not fail.
    pub fn copy(&self) -> Store {
        let mut medium = self.0.lock();
        let (ram, promise) = (medium.pages.ram().clone(), medium.promise);
        drop(medium);
        Store::of(ram, promise)
    }

    /// Whether a cut changes nothing.
    pub fn is_synced(&self) -> bool {
        self.0.lock().since.is_empty()
    }

    /// Switches the power on, and lets it fail after so many writes and trims; `u64::MAX` for never. What it
    /// failed at before did not take place.
    pub fn fail_after(&self, changes: u64) {
        self.0.lock().power_on(changes, false);
    }

    /// [`Store::fail_after`], where syncs count, too.
    pub fn fail_after_calls(&self, calls: u64) {
        self.0.lock().power_on(calls, true);
    }

    /// Whether the power has failed: changes are refused, and reads go on, so that a test may look.
    pub fn has_failed(&self) -> bool {
        self.0.lock().in_flight.is_some()
    }

    /// Switches the power off and on: what was not durable is there or not, as the promises have it, and so
    /// is what was going on. Returns how many pages read otherwise than before.
    pub fn cut(&self, rng: &mut Rng) -> usize {
        self.0.lock().cut(rng)
    }

    /// Asks a script before every call from now on: its error refuses the call.
    pub fn on_call(&self, script: impl FnMut(Call<'_>) -> Result<(), StoreError> + MaybeSend + 'static) {
        self.0.lock().script = Some(Box::new(script));
    }

    /// Refuses writes once so many pages were written. A smaller group may still find room.
    pub fn refuse_after(&self, pages: usize, error: StoreError) {
        let mut room = pages;
        self.on_call(move |call| {
            if let Call::Write(group, _) = call {
                room = room.checked_sub(group.len()).ok_or_else(|| error.clone())?;
            }
            Ok(())
        });
    }

    /// Refuses syncs and checkpoints after so many.
    pub fn refuse_syncs_after(&self, syncs: usize, error: StoreError) {
        let mut left = syncs;
        self.on_call(move |call| {
            if matches!(call, Call::Sync | Call::Checkpoint) {
                left = left.checked_sub(1).ok_or_else(|| error.clone())?;
            }
            Ok(())
        });
    }

    /// Asks no script any more.
    pub fn refuse_nothing(&self) {
        self.0.lock().script = None;
    }

    /// Notes all changes from now on; those noted so far are forgotten.
    pub fn note_changes(&self) {
        self.0.lock().history = Some(Vec::new());
    }

    /// The changes noted, in order.
    pub fn changes(&self) -> Vec<Change> {
        self.0.lock().history.clone().unwrap_or_default()
    }

    /// The pages written for these causes among the changes noted, in order.
    pub fn written(&self, causes: &[Cause]) -> Vec<u32> {
        let medium = self.0.lock();
        let mut written = Vec::new();
        for change in medium.history.iter().flatten() {
            match change {
                Change::Write(pages, cause) if causes.contains(cause) => {
                    written.extend(pages.iter().map(|(lpn, _)| lpn.0));
                }
                _ => {}
            }
        }
        written
    }

    /// How many changes were noted.
    pub fn change_count(&self) -> usize {
        self.0.lock().history.as_ref().map_or(0, Vec::len)
    }

    /// Pages of the largest group written so far.
    pub fn largest_group(&self) -> usize {
        self.0.lock().largest_group
    }

    /// Accesses so far, those that a cache answered not among them.
    pub fn counters(&self) -> RamCounters {
        self.0.lock().pages.ram().counters()
    }

    /// Pages read so far, those read by a check not among them.
    pub fn page_reads(&self) -> u64 {
        self.counters().page_reads.iter().sum()
    }

    /// Pages written so far.
    pub fn page_writes(&self) -> u64 {
        self.counters().page_writes.iter().sum()
    }

    /// The contents of a page.
    pub fn page_of(&self, lpn: Lpn) -> Vec<u8> {
        self.0.lock().page_of(lpn)
    }

    /// The contents of all pages.
    pub fn pages(&self) -> Vec<Vec<u8>> {
        (0..self.page_count()).map(|lpn| self.page_of(Lpn(lpn))).collect()
    }

    /// Exchanges the contents of a page: no call that a script, a count or a promise knows of.
    pub fn put(&self, lpn: Lpn, page: &[u8]) {
        let mut medium = self.0.lock();
        let done = medium.pages.ram().write(lpn, Cause::Check, page);
        done.unwrap_or_else(|error| panic!("page {lpn}: {error}"));
    }
}

impl Medium {
    fn atomic_pages(&mut self) -> usize {
        self.promise.atomic_pages.min(self.pages.ram().page_count().max(1) as usize)
    }

    fn page_of(&mut self, lpn: Lpn) -> Vec<u8> {
        let ram = self.pages.ram();
        let mut page = vec![0; ram.page_bytes()];
        let read = ram.read(lpn, Cause::Check, &mut page);
        read.unwrap_or_else(|error| panic!("page {lpn}: {error}"));
        page
    }

    fn power_on(&mut self, steps: u64, is_sync_counted: bool) {
        (self.steps, self.is_sync_counted, self.in_flight) = (steps, is_sync_counted, None);
    }

    fn ask(&mut self, call: Call<'_>) -> Result<(), StoreError> {
        self.script.as_mut().map_or(Ok(()), |script| script(call))
    }

    /// A change of which the power knows: at the one where it fails the change is in flight.
    fn step(&mut self, change: impl FnOnce() -> Change) -> Result<(), StoreError> {
        match self.steps {
            u64::MAX => {}
            0 => {
                self.in_flight.get_or_insert_with(change);
                return Err(StoreError::Nand(NandError::PowerLost));
            }
            left => self.steps = left - 1,
        }
        Ok(())
    }

    /// A sync: where it does not count, it fails once the power has failed.
    fn step_of_sync(&mut self) -> Result<(), StoreError> {
        if self.is_sync_counted || self.in_flight.is_some() { self.step(|| Change::Sync) } else { Ok(()) }
    }

    fn note(&mut self, change: impl FnOnce() -> Change) {
        if let Some(history) = &mut self.history {
            history.push(change());
        }
    }

    /// A change that is done: what it replaces is kept as long as a cut may bring it back.
    fn pending(&mut self, change: Change) {
        let lpns: Vec<Lpn> = match &change {
            Change::Write(pages, _) => pages.iter().map(|(lpn, _)| *lpn).collect(),
            Change::Trim(lpn) => vec![*lpn],
            Change::Sync => Vec::new(),
        };
        for lpn in lpns {
            if !self.before.contains_key(&lpn) {
                let page = self.page_of(lpn);
                self.before.insert(lpn, page);
            }
        }
        self.since.push(change);
    }

    fn write(&mut self, pages: &[(Lpn, &[u8])], cause: Cause) -> Result<(), StoreError> {
        let change = || Change::Write(pages.iter().map(|(lpn, data)| (*lpn, data.to_vec())).collect(), cause);
        if let Some((beyond, _)) = pages.iter().find(|(lpn, _)| lpn.0 >= self.pages.ram().page_count()) {
            return Err(StoreError::OutOfRange(*beyond));
        }
        self.step(change)?;
        self.ask(Call::Write(pages, cause))?;
        self.note(change);
        self.largest_group = self.largest_group.max(pages.len());
        if self.promise.durable {
            pages.iter().for_each(|(lpn, _)| self.settle(*lpn));
        } else {
            self.pending(change());
        }
        match (&mut self.pages, pages) {
            (Pages::Plain(ram), [(lpn, data)]) => ram.write(*lpn, cause, data),
            (Pages::Plain(ram), _) => ram.write_atomic(pages, cause),
            (Pages::Cached(cache), [(lpn, data)]) => cache.write(*lpn, cause, data),
            (Pages::Cached(cache), _) => cache.write_atomic(pages, cause),
        }
    }

    /// A page whose contents no cut undoes.
    fn settle(&mut self, lpn: Lpn) {
        if self.before.remove(&lpn).is_some() {
            self.since.retain(|change| *change != Change::Trim(lpn));
        }
    }

    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        if lpn.0 >= self.pages.ram().page_count() {
            return Err(StoreError::OutOfRange(lpn));
        }
        self.step(|| Change::Trim(lpn))?;
        self.ask(Call::Trim(lpn))?;
        self.note(|| Change::Trim(lpn));
        self.pending(Change::Trim(lpn));
        match &mut self.pages {
            Pages::Plain(ram) => ram.trim(lpn),
            Pages::Cached(cache) => cache.trim(lpn),
        }
    }

    fn sync(&mut self, call: Call<'_>) -> Result<(), StoreError> {
        self.step_of_sync()?;
        self.ask(call)?;
        self.note(|| Change::Sync);
        self.since.clear();
        self.before.clear();
        match &mut self.pages {
            Pages::Plain(ram) => ram.sync(),
            Pages::Cached(cache) => cache.sync(),
        }
    }

    fn cut(&mut self, rng: &mut Rng) -> usize {
        self.steps = u64::MAX;
        let touched: Vec<(Lpn, Vec<u8>)> = {
            let lpns: Vec<Lpn> = self.before.keys().copied().collect();
            lpns.into_iter().map(|lpn| (lpn, self.page_of(lpn))).collect()
        };
        let in_flight = self.in_flight.take().filter(|_| rng.chance(1, 2));
        let (since, before) = (mem::take(&mut self.since), mem::take(&mut self.before));
        // Each page up to a point of its own, or all up to the same one.
        let end = since.len();
        let point = rng.below(end as u64 + 1) as usize;
        let is_prefix = self.promise.prefix && !self.promise.durable;
        let mut points = BTreeMap::new();
        for (lpn, old) in &before {
            points.insert(*lpn, if is_prefix { point } else { rng.below(end as u64 + 1) as usize });
            self.place(*lpn, old);
        }
        for (at, change) in since.iter().enumerate() {
            match change {
                Change::Write(pages, _) => {
                    // A group is there whole or not at all.
                    let until = pages.first().and_then(|(lpn, _)| points.get(lpn)).copied();
                    let is_there = until.is_none_or(|until| at < until);
                    pages.iter().filter(|_| is_there).for_each(|(lpn, data)| self.place(*lpn, data));
                }
                Change::Trim(lpn) if points.get(lpn).is_none_or(|until| at < *until) => self.clear(*lpn),
                Change::Trim(_) | Change::Sync => {}
            }
        }
        match in_flight {
            Some(Change::Write(pages, _)) if !is_prefix || point == end => {
                pages.iter().for_each(|(lpn, data)| self.place(*lpn, data));
            }
            Some(Change::Trim(lpn)) => self.clear(lpn),
            _ => {}
        }
        touched.into_iter().filter(|(lpn, page)| self.page_of(*lpn) != *page).count()
    }

    fn place(&mut self, lpn: Lpn, page: &[u8]) {
        if page.iter().any(|&byte| byte != 0) {
            let done = self.pages.ram().write(lpn, Cause::Check, page);
            done.unwrap_or_else(|error| panic!("page {lpn}: {error}"));
        } else {
            self.clear(lpn);
        }
    }

    fn clear(&mut self, lpn: Lpn) {
        self.pages.ram().trim(lpn).unwrap_or_else(|error| panic!("page {lpn}: {error}"));
    }
}

impl PageStore for Store {
    fn page_bytes(&self) -> usize {
        self.0.lock().pages.ram().page_bytes()
    }

    fn page_count(&self) -> u32 {
        self.0.lock().pages.ram().page_count()
    }

    fn read(&mut self, lpn: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        let mut medium = self.0.lock();
        medium.ask(Call::Read(lpn, cause))?;
        match &mut medium.pages {
            Pages::Plain(ram) => ram.read(lpn, cause, data),
            Pages::Cached(cache) => cache.read(lpn, cause, data),
        }
    }

    fn write(&mut self, lpn: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreError> {
        self.0.lock().write(&[(lpn, data)], cause)
    }

    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        self.0.lock().trim(lpn)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.0.lock().sync(Call::Sync)
    }

    fn checkpoint(&mut self) -> Result<(), StoreError> {
        self.0.lock().sync(Call::Checkpoint)
    }

    fn atomic_pages_max(&self) -> usize {
        self.0.lock().atomic_pages()
    }

    fn write_atomic(&mut self, pages: &[(Lpn, &[u8])], cause: Cause) -> Result<(), StoreError> {
        let mut medium = self.0.lock();
        let most = medium.atomic_pages();
        if pages.len() > most {
            let what = alloc::format!("{} pages at once, this store takes {most}", pages.len());
            return Err(StoreError::Unsupported(what.into()));
        }
        if pages.is_empty() { Ok(()) } else { medium.write(pages, cause) }
    }

    fn begin_batch(&mut self) {
        self.0.lock().pages.ram().begin_batch();
    }

    fn durable_writes(&self) -> bool {
        self.0.lock().promise.durable
    }

    fn prefix_consistent(&self) -> bool {
        self.0.lock().promise.prefix
    }

    fn ram_bytes(&self) -> usize {
        // The pages are the medium.
        match &self.0.lock().pages {
            Pages::Plain(_) => 0,
            Pages::Cached(cache) => cache.ram_bytes() - cache.store().ram_bytes(),
        }
    }
}
