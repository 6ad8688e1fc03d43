//! The store of the tests: pages in memory. A test chooses its promises, when its power fails, and a script
//! that refuses calls.

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

/// Promises of a store, as in the methods of [`PageStore`] with the same meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Value of [`PageStore::durable_writes`].
    pub durable: bool,
    /// Value of [`PageStore::prefix_consistent`].
    pub prefix: bool,
    /// Value of [`PageStore::atomic_pages_max`].
    pub atomic_pages: usize,
}

/// Promise that every write is durable, and groups of any size are atomic.
pub const WRITE_THROUGH: Promise = Promise { durable: true, prefix: true, atomic_pages: usize::MAX };
/// Promise that a cut leaves a prefix of the writes, and groups of any size are atomic.
pub const ORDERED: Promise = Promise { durable: false, prefix: true, atomic_pages: usize::MAX };
/// Promise that a cut leaves any of the writes since the last sync, and groups of any size are atomic.
pub const UNORDERED: Promise = Promise { durable: false, prefix: false, atomic_pages: usize::MAX };
/// Promise that every write is durable, but no group is atomic.
pub const SINGLE: Promise = Promise { durable: true, prefix: true, atomic_pages: 1 };

impl Promise {
    /// Returns this promise without atomic groups.
    pub const fn single(self) -> Promise {
        Promise { atomic_pages: 1, ..self }
    }
}

/// A change of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Write of a page, or atomic write of several.
    Write(Vec<(Lpn, Vec<u8>)>, Cause),
    /// Trim of a page.
    Trim(Lpn),
    /// Sync.
    Sync,
}

/// A call that a script sees before it is done.
#[derive(Clone, Copy, Debug)]
pub enum Call<'a> {
    /// Read of a page.
    Read(Lpn, Cause),
    /// Write of a page, or atomic write of several.
    Write(&'a [(Lpn, &'a [u8])], Cause),
    /// Trim of a page.
    Trim(Lpn),
    /// Call of [`PageStore::sync`].
    Sync,
    /// Call of [`PageStore::checkpoint`].
    Checkpoint,
}

/// Called before every call of the store. An error refuses the call.
#[cfg(feature = "std")]
type Script = Box<dyn FnMut(Call<'_>) -> Result<(), StoreError> + Send>;
#[cfg(not(feature = "std"))]
type Script = Box<dyn FnMut(Call<'_>) -> Result<(), StoreError>>;

/// The pages, with or without a cache above them.
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
    /// Changes that are not durable yet. If writes are durable, only trims.
    since: Vec<Change>,
    /// Change at which the power failed. It may have taken place.
    in_flight: Option<Change>,
    /// Contents at the last sync of pages that were changed since.
    before: BTreeMap<Lpn, Vec<u8>>,
    /// Number of writes and trims until the power fails; syncs count too if `is_sync_counted`.
    steps: u64,
    is_sync_counted: bool,
    history: Option<Vec<Change>>,
    largest_group: usize,
    script: Option<Script>,
}

/// A handle of a store in memory. [`Store::handle`] returns another handle, [`Store::copy`] another store.
pub struct Store(Shared<Medium>);

impl Store {
    /// Returns a store of pages of zeros that never fails. Every write is durable, and groups of any size are
    /// atomic.
    pub fn new(page_bytes: usize, page_count: u32) -> Store {
        Store::of(RamStore::new(page_bytes, page_count), WRITE_THROUGH)
    }

    /// Returns a store with these pages.
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

    /// Returns this store with other promises.
    pub fn with_promise(self, promise: Promise) -> Store {
        self.0.lock().promise = promise;
        self
    }

    /// Returns this store with atomic groups of at most `atomic_pages` pages.
    pub fn with_atomic_pages(self, atomic_pages: usize) -> Store {
        self.0.lock().promise.atomic_pages = atomic_pages;
        self
    }

    /// Returns this store; its power fails after `changes` writes and trims.
    pub fn failing_after(self, changes: u64) -> Store {
        self.fail_after(changes);
        self
    }

    /// Returns this store below a write-through cache of `frames` frames.
    pub fn with_cache(self, frames: usize) -> Store {
        let mut medium = self.0.lock();
        let ram = mem::replace(medium.pages.ram(), RamStore::new(1, 0));
        let config = CacheConfig { frames, mode: WriteMode::Through, dirty_frames_max: None };
        medium.pages = Pages::Cached(Box::new(PageCache::new(ram, Lru::new(frames), config)));
        drop(medium);
        self
    }

    /// Returns another handle of the same store.
    pub fn handle(&self) -> Store {
        Store(self.0.clone())
    }

    /// Returns another store with the same pages and promises, but without cache, script and planned power
    /// failure.
    pub fn copy(&self) -> Store {
        let mut medium = self.0.lock();
        let (ram, promise) = (medium.pages.ram().clone(), medium.promise);
        drop(medium);
        Store::of(ram, promise)
    }

    /// Returns true if a power cut would change nothing.
    pub fn is_synced(&self) -> bool {
        self.0.lock().since.is_empty()
    }

    /// Switches the power on, and lets it fail after `changes` writes and trims; `u64::MAX` for never. The
    /// change in flight at the last failure did not take place.
    pub fn fail_after(&self, changes: u64) {
        self.0.lock().power_on(changes, false);
    }

    /// Does the same as [`Store::fail_after`], but counts syncs too.
    pub fn fail_after_calls(&self, calls: u64) {
        self.0.lock().power_on(calls, true);
    }

    /// Returns true if the power has failed. Changes are then refused, but reads work, so that a test can
    /// look.
    pub fn has_failed(&self) -> bool {
        self.0.lock().in_flight.is_some()
    }

    /// Switches the power off and on. Changes that were not durable, and the one in flight, may be lost as
    /// the promises allow. Returns the number of pages that read differently from before.
    pub fn cut(&self, rng: &mut Rng) -> usize {
        self.0.lock().cut(rng)
    }

    /// Calls a script before every call of the store from now on. Its error refuses the call.
    pub fn on_call(&self, script: impl FnMut(Call<'_>) -> Result<(), StoreError> + MaybeSend + 'static) {
        self.0.lock().script = Some(Box::new(script));
    }

    /// Refuses writes with `error` after `pages` pages were written. A smaller group may still fit.
    pub fn refuse_after(&self, pages: usize, error: StoreError) {
        let mut room = pages;
        self.on_call(move |call| {
            if let Call::Write(group, _) = call {
                room = room.checked_sub(group.len()).ok_or_else(|| error.clone())?;
            }
            Ok(())
        });
    }

    /// Refuses syncs and checkpoints with `error` after `syncs` of them.
    pub fn refuse_syncs_after(&self, syncs: usize, error: StoreError) {
        let mut left = syncs;
        self.on_call(move |call| {
            if matches!(call, Call::Sync | Call::Checkpoint) {
                left = left.checked_sub(1).ok_or_else(|| error.clone())?;
            }
            Ok(())
        });
    }

    /// Removes the script.
    pub fn refuse_nothing(&self) {
        self.0.lock().script = None;
    }

    /// Notes all changes from now on, and drops the ones noted before.
    pub fn note_changes(&self) {
        self.0.lock().history = Some(Vec::new());
    }

    /// Noted changes, in order.
    pub fn changes(&self) -> Vec<Change> {
        self.0.lock().history.clone().unwrap_or_default()
    }

    /// Pages that the noted changes wrote for these causes, in order.
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

    /// Number of noted changes.
    pub fn change_count(&self) -> usize {
        self.0.lock().history.as_ref().map_or(0, Vec::len)
    }

    /// Number of pages of the largest group written so far.
    pub fn largest_group(&self) -> usize {
        self.0.lock().largest_group
    }

    /// Accesses so far, without those answered by a cache.
    pub fn counters(&self) -> RamCounters {
        self.0.lock().pages.ram().counters()
    }

    /// Pages read so far, without those of checks.
    pub fn page_reads(&self) -> u64 {
        self.counters().page_reads.iter().sum()
    }

    /// Pages written so far.
    pub fn page_writes(&self) -> u64 {
        self.counters().page_writes.iter().sum()
    }

    /// Contents of a page.
    pub fn page_of(&self, lpn: Lpn) -> Vec<u8> {
        self.0.lock().page_of(lpn)
    }

    /// Contents of all pages.
    pub fn pages(&self) -> Vec<Vec<u8>> {
        (0..self.page_count()).map(|lpn| self.page_of(Lpn(lpn))).collect()
    }

    /// Replaces the contents of a page. No script, counter or promise is involved.
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

    /// Counts down to the power failure. The change at which the power fails is in flight.
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

    /// A sync that does not count fails only after the power has failed.
    fn step_of_sync(&mut self) -> Result<(), StoreError> {
        if self.is_sync_counted || self.in_flight.is_some() { self.step(|| Change::Sync) } else { Ok(()) }
    }

    fn note(&mut self, change: impl FnOnce() -> Change) {
        if let Some(history) = &mut self.history {
            history.push(change());
        }
    }

    /// Keeps the contents that a change replaces as long as a cut may bring them back.
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

    /// Notes that no cut undoes the contents of a page.
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
        // Each page keeps its changes up to a point of its own, or all pages up to the same one.
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
                    // A group is kept whole or not at all.
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
        // The pages are the medium, not RAM.
        match &self.0.lock().pages {
            Pages::Plain(_) => 0,
            Pages::Cached(cache) => cache.ram_bytes() - cache.store().ram_bytes(),
        }
    }
}
