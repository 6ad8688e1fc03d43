//! The cache itself: frames, hits and misses, and the time of each write. Its guarantees are described in
//! [`super`].

mod evict;

use super::policy::{Access, Exit, Replacement};
use super::table::SlotTable;
use crate::nand::Cause;
use crate::store::{PageStore, StoreError, StoreStats};
use crate::units::Lpn;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

/// When written pages reach the store below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub enum WriteMode {
    /// A written page is written to the store at once.
    #[default]
    Through,
    /// When they are evicted or flushed: all together, as one atomic group, if the store takes groups.
    Back,
    /// When they are evicted or flushed, each alone even if the store takes groups, as some policies were
    /// published. After a cut old and new pages are mixed.
    BackAlone,
}

/// How a cache is set up.
///
/// An example stands at [`PageCache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct CacheConfig {
    /// Number of pages in the cache; 0 for no cache.
    pub frames: usize,
    /// When written pages reach the store.
    pub mode: WriteMode,
    /// For write-back over a store with atomic groups: most dirty pages. `None` means as many as the frames
    /// and a group allow.
    pub dirty_frames_max: Option<usize>,
}

impl CacheConfig {
    /// A write-through cache of `frames` pages.
    pub const fn new(frames: usize) -> CacheConfig {
        CacheConfig { frames, mode: WriteMode::Through, dirty_frames_max: None }
    }
}

/// The counters of a page cache.
///
/// An example stands at [`PageCache`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct CacheCounters {
    /// Reads of a page in the cache.
    pub read_hits: u64,
    /// Reads that went to the store.
    pub read_misses: u64,
    /// Writes of a page in the cache.
    pub write_hits: u64,
    /// Writes of a page that was not in the cache.
    pub write_misses: u64,
    /// Clean pages evicted.
    pub clean_evictions: u64,
    /// Dirty pages written alone when they were evicted.
    pub dirty_evictions: u64,
    /// Flushes of all dirty pages.
    pub flushes: u64,
    /// Pages written by flushes.
    pub flushed_pages: u64,
    /// Pages read only to write a block whole.
    pub padding_reads: u64,
    /// Pages written only to write a block whole.
    pub padding_writes: u64,
}

/// Value of `dirty_at` for a clean frame; [`UNUSED`] is that of an unused one.
const CLEAN: u32 = u32::MAX;
const UNUSED: u32 = u32::MAX - 1;

#[derive(Clone, Copy, Debug)]
struct Frame {
    lpn: Lpn,
    /// Place of the frame in the list of dirty frames, or [`CLEAN`] or [`UNUSED`].
    dirty_at: u32,
}

impl Frame {
    fn is_dirty(&self) -> bool {
        self.dirty_at < UNUSED
    }
}

/// Number of trims that may wait for a flush.
const fn trims_max(frames: usize) -> usize {
    frames + 16
}

/// Bytes of RAM for a waiting trim.
const TRIM_BYTES: usize = 8;

/// Page cache: frames over a store.
///
/// ```
/// use nandex::cache::{CacheConfig, Lru, PageCache, WriteMode};
/// use nandex::store::{PageStore, ram::RamStore};
/// use nandex::{Cause, Lpn};
///
/// let config = CacheConfig::new(8).with_mode(WriteMode::Back);
/// let mut cache = PageCache::new(RamStore::new(512, 100), Lru::new(8), config);
/// cache.write(Lpn(3), Cause::Host, &[7; 512])?;
/// cache.read(Lpn(3), Cause::Host, &mut [0; 512])?;
/// assert_eq!((cache.counters().read_hits, cache.dirty_frames()), (1, 1));
/// cache.sync()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PageCache<S, P> {
    store: S,
    policy: P,
    mode: WriteMode,
    page_bytes: usize,
    bytes: Vec<u8>,
    frames: Vec<Frame>,
    table: SlotTable,
    unused: Vec<u32>,
    /// Dirty frames, in no order.
    dirty: Vec<u32>,
    /// The victim and the frames that leave with it.
    leaving: Vec<u32>,
    /// Largest number of dirty frames (K3); 0 if dirty pages leave one by one.
    group_frames: usize,
    /// Trims that wait for the flush of pages written before them.
    trimmed: BTreeSet<u32>,
    counters: CacheCounters,
}

impl<S: PageStore, P: Replacement> PageCache<S, P> {
    /// Makes an empty cache over `store`. The policy must be made for the same number of frames.
    pub fn new(store: S, policy: P, config: CacheConfig) -> PageCache<S, P> {
        let CacheConfig { frames, mode, dirty_frames_max } = config;
        let page_bytes = store.page_bytes();
        let group = store.atomic_pages_max();
        let group_frames = match mode {
            WriteMode::Back if group > 1 => group.min(frames).min(dirty_frames_max.unwrap_or(frames)),
            _ => 0,
        };
        PageCache {
            store,
            policy,
            mode,
            page_bytes,
            bytes: vec![0; frames * page_bytes],
            frames: vec![Frame { lpn: Lpn(0), dirty_at: UNUSED }; frames],
            table: SlotTable::new(frames),
            unused: (0..frames as u32).rev().collect(),
            dirty: Vec::new(),
            leaving: Vec::new(),
            group_frames,
            trimmed: BTreeSet::new(),
            counters: CacheCounters::default(),
        }
    }

    /// Upper bound of the bytes of RAM of a cache, with its policy and without the store. `block_pages`
    /// bounds the pages that leave together as a block.
    pub fn ram_bytes_max(store: &S, policy: &P, (config, block_pages): (CacheConfig, u32)) -> usize {
        let frames = config.frames;
        let list = |most: usize| most.next_power_of_two().max(4) * size_of::<u32>();
        let (dirty, trims) = match config.mode {
            WriteMode::Through => (0, 0),
            WriteMode::Back if store.atomic_pages_max() > 1 => {
                (list(store.atomic_pages_max().min(frames)), trims_max(frames) * TRIM_BYTES)
            }
            _ => (list(frames), 0),
        };
        size_of::<Self>() - size_of::<S>()
            + frames * (store.page_bytes() + size_of::<Frame>() + size_of::<u32>())
            + dirty
            + list(frames.min(block_pages as usize))
            + SlotTable::bytes_for(frames)
            + policy.ram_bytes()
            + trims
    }

    /// Returns the store below.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Returns the store below, for measurements. Writing to it past the cache breaks K2.
    pub fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// Syncs and gives the store back.
    pub fn close(mut self) -> Result<S, StoreError> {
        self.sync()?;
        Ok(self.store)
    }

    /// Gives the store back, and forgets dirty pages as a power cut does.
    pub fn into_store(self) -> S {
        self.store
    }

    /// Counters of the cache since it was made.
    pub fn counters(&self) -> CacheCounters {
        self.counters
    }

    /// Number of pages in the cache that the store does not have yet.
    pub fn dirty_frames(&self) -> usize {
        self.dirty.len()
    }

    /// Name of the policy.
    pub fn policy_name(&self) -> &'static str {
        self.policy.name()
    }

    /// True if dirty pages leave only all together.
    fn is_grouped(&self) -> bool {
        self.mode == WriteMode::Back && self.store.atomic_pages_max() > 1
    }

    fn trims_max(&self) -> usize {
        trims_max(self.frames.len())
    }

    fn check_args(&self, lpn: Lpn, got: usize) -> Result<(), StoreError> {
        let expected = self.page_bytes;
        if lpn.0 >= self.store.page_count() {
            return Err(StoreError::OutOfRange(lpn));
        }
        if got == expected { Ok(()) } else { Err(StoreError::WrongLength { expected, got }) }
    }

    fn page_mut(&mut self, frame: u32) -> &mut [u8] {
        debug_assert!((frame as usize) < self.frames.len(), "frame {frame} of {}", self.frames.len());
        &mut self.bytes[frame as usize * self.page_bytes..][..self.page_bytes]
    }

    fn set_dirty(&mut self, frame: u32, dirty: bool) {
        let at = self.frames[frame as usize].dirty_at;
        if dirty && at == CLEAN {
            self.frames[frame as usize].dirty_at = self.dirty.len() as u32;
            self.dirty.push(frame);
        } else if !dirty && at != CLEAN {
            self.dirty.swap_remove(at as usize);
            if let Some(&moved) = self.dirty.get(at as usize) {
                self.frames[moved as usize].dirty_at = at;
            }
            self.frames[frame as usize].dirty_at = CLEAN;
        }
        self.assert_dirty(frame);
    }

    /// Asserts that the list of dirty frames and this frame agree, and K3.
    fn assert_dirty(&self, frame: u32) {
        let Frame { dirty_at, .. } = self.frames[frame as usize];
        let is_listed = self.dirty.get(dirty_at as usize) == Some(&frame);
        debug_assert!(is_listed == (dirty_at < UNUSED), "frame {frame} and the list of dirty frames");
        debug_assert!(
            self.group_frames == 0 || self.dirty.len() <= self.group_frames,
            "K3: too many are dirty"
        );
    }

    /// Puts a page into an unused frame.
    fn admit(&mut self, data: &[u8], access: Access) {
        let Some(frame) = self.unused.pop() else { return };
        debug_assert_eq!(self.frames[frame as usize].dirty_at, UNUSED, "K1: frame {frame} is in use");
        self.page_mut(frame).copy_from_slice(data);
        self.frames[frame as usize] = Frame { lpn: access.lpn, dirty_at: CLEAN };
        self.set_dirty(frame, access.dirty);
        self.table.insert(access.lpn.0, frame);
        self.policy.admit(frame, access);
        debug_assert!(
            !self.trimmed.contains(&access.lpn.0) || !access.dirty,
            "K1: a trim waits for a dirty page"
        );
    }

    /// Copies `data` into the page's frame, or into an unused one. Does nothing if there is neither.
    fn put(&mut self, lpn: Lpn, data: &[u8], dirty: bool) {
        debug_assert!(!dirty || !self.trimmed.contains(&lpn.0), "K1: a trim waits for a dirty page");
        let access = Access { lpn, write: true, dirty };
        let Some(frame) = self.table.get(lpn.0) else {
            self.counters.write_misses += 1;
            return self.admit(data, access);
        };
        self.counters.write_hits += 1;
        self.page_mut(frame).copy_from_slice(data);
        self.set_dirty(frame, dirty);
        self.policy.touch(frame, access);
    }

    /// Empties a frame that is in use.
    fn release(&mut self, frame: u32, exit: Exit) {
        let Frame { lpn, dirty_at } = self.frames[frame as usize];
        assert!(dirty_at != UNUSED, "K1: frame {frame} is not in use");
        self.table.remove(lpn.0);
        self.set_dirty(frame, false);
        self.policy.remove(frame, exit);
        self.frames[frame as usize] = Frame { lpn, dirty_at: UNUSED };
        self.unused.push(frame);
        debug_assert!(self.table.get(lpn.0).is_none(), "K1: {lpn} has a frame still");
        debug_assert!(
            self.dirty.len() + self.unused.len() <= self.frames.len(),
            "K1: a frame is counted twice"
        );
    }

    /// Makes sure that a frame is unused, if the cache has any.
    fn make_room(&mut self) -> Result<(), StoreError> {
        if self.unused.is_empty() { self.evict() } else { Ok(()) }
    }

    /// Writes to the store first, then to the frames.
    fn write_through(&mut self, pages: &[(Lpn, &[u8])], cause: Cause) -> Result<(), StoreError> {
        match pages {
            [(lpn, data)] => self.store.write(*lpn, cause, data)?,
            _ => self.store.write_atomic(pages, cause)?,
        }
        for (lpn, data) in pages {
            self.trimmed.remove(&lpn.0);
            if self.table.get(lpn.0).is_none() {
                self.make_room()?;
            }
            self.put(*lpn, data, false);
        }
        Ok(())
    }

    /// Makes the pages of a group dirty together. If dirty pages must leave for that, they are flushed
    /// before.
    fn write_back_group(&mut self, pages: &[(Lpn, &[u8])], cause: Cause) -> Result<(), StoreError> {
        if pages.len() > self.group_frames {
            self.flush()?;
            return self.write_through(pages, cause);
        }
        loop {
            let frame_of = |lpn: Lpn| self.table.get(lpn.0).map(|frame| self.frames[frame as usize]);
            let missing = pages.iter().filter(|(lpn, _)| frame_of(*lpn).is_none()).count();
            let clean = pages.iter().filter(|(lpn, _)| frame_of(*lpn).is_none_or(|f| !f.is_dirty())).count();
            if self.dirty.len() + clean > self.group_frames {
                self.flush()?;
            } else if self.unused.len() < missing {
                self.evict()?;
            } else {
                break;
            }
        }
        for (lpn, data) in pages {
            self.trimmed.remove(&lpn.0);
            self.put(*lpn, data, true);
        }
        Ok(())
    }

    /// Makes a page dirty. Another page may be written to make room for it.
    fn write_back_single(&mut self, lpn: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreError> {
        if self.frames.is_empty() {
            return self.store.write(lpn, cause, data);
        }
        if self.table.get(lpn.0).is_none() {
            self.make_room()?;
        }
        self.put(lpn, data, true);
        Ok(())
    }

    fn read_missing(&mut self, lpn: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        self.counters.read_misses += 1;
        if !self.policy.admits_reads() {
            return self.store.read(lpn, cause, data);
        }
        let room = self.make_room();
        // On a store that is full or worn out dirty pages cannot leave, but reading still works.
        if !room.as_ref().is_err_and(StoreError::is_refusal) {
            room?;
        }
        self.store.read(lpn, cause, data)?;
        self.admit(data, Access { lpn, write: false, dirty: false });
        Ok(())
    }
}

fn page_of(bytes: &[u8], page_bytes: usize, frame: u32) -> &[u8] {
    &bytes[frame as usize * page_bytes..][..page_bytes]
}

impl<S: PageStore, P: Replacement> PageStore for PageCache<S, P> {
    crate::forward_store!(self => self.store; page_count begin_batch end_batch maintain scrub live_page);

    fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    fn read(&mut self, lpn: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        self.check_args(lpn, data.len())?;
        let frame = self.table.get(lpn.0);
        let looks_on = cause == Cause::Check;
        if let Some(frame) = frame {
            data.copy_from_slice(page_of(&self.bytes, self.page_bytes, frame));
            if !looks_on {
                let dirty = self.frames[frame as usize].is_dirty();
                self.policy.touch(frame, Access { lpn, write: false, dirty });
            }
        } else if self.trimmed.contains(&lpn.0) {
            data.fill(0);
        } else if looks_on {
            return self.store.read(lpn, cause, data);
        } else {
            return self.read_missing(lpn, cause, data);
        }
        self.counters.read_hits += u64::from(!looks_on);
        Ok(())
    }

    fn write(&mut self, lpn: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreError> {
        self.check_args(lpn, data.len())?;
        match self.mode {
            WriteMode::Through => self.write_through(&[(lpn, data)], cause),
            WriteMode::Back if self.is_grouped() => self.write_back_group(&[(lpn, data)], cause),
            WriteMode::Back | WriteMode::BackAlone => self.write_back_single(lpn, cause, data),
        }
    }

    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        self.check_args(lpn, self.page_bytes)?;
        if let Some(frame) = self.table.get(lpn.0) {
            self.release(frame, Exit::Trimmed);
        }
        if self.dirty.is_empty() || !self.is_grouped() {
            return self.store.trim(lpn);
        }
        self.trimmed.insert(lpn.0);
        if self.trimmed.len() > self.trims_max() { self.flush() } else { Ok(()) }
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.flush()?;
        self.store.sync()
    }

    fn atomic_pages_max(&self) -> usize {
        if self.mode == WriteMode::BackAlone { 1 } else { self.store.atomic_pages_max() }
    }

    fn write_atomic(&mut self, pages: &[(Lpn, &[u8])], cause: Cause) -> Result<(), StoreError> {
        for (lpn, data) in pages {
            self.check_args(*lpn, data.len())?;
        }
        match pages {
            [] => Ok(()),
            [(lpn, data)] => self.write(*lpn, cause, data),
            _ if self.is_grouped() && pages.len() <= self.atomic_pages_max() => {
                self.write_back_group(pages, cause)
            }
            _ if self.mode == WriteMode::Through => self.write_through(pages, cause),
            _ if self.mode == WriteMode::BackAlone => {
                Err(StoreError::Unsupported("a cache that writes pages alone takes no group".into()))
            }
            // The store tells why not.
            _ => self.store.write_atomic(pages, cause),
        }
    }

    fn durable_writes(&self) -> bool {
        let delays = self.mode != WriteMode::Through && !self.frames.is_empty();
        !delays && self.store.durable_writes()
    }

    fn prefix_consistent(&self) -> bool {
        let mixes = self.mode != WriteMode::Through && !self.is_grouped() && !self.frames.is_empty();
        !mixes && self.store.prefix_consistent()
    }

    fn checkpoint(&mut self) -> Result<(), StoreError> {
        self.sync()?;
        self.store.checkpoint()
    }

    fn stats(&self) -> StoreStats {
        let below = self.store.stats();
        if self.frames.is_empty() {
            return below;
        }
        StoreStats { cache_hits: self.counters.read_hits, cache_misses: self.counters.read_misses, ..below }
    }

    fn ram_bytes(&self) -> usize {
        let trims = if self.is_grouped() { self.trims_max() * TRIM_BYTES } else { 0 };
        size_of::<Self>() - size_of::<S>()
            + self.bytes.len()
            + self.frames.len() * (size_of::<Frame>() + size_of::<u32>())
            + (self.dirty.capacity() + self.leaving.capacity()) * size_of::<u32>()
            + self.table.ram_bytes()
            + self.policy.ram_bytes()
            + trims
            + self.store.ram_bytes()
    }
}
