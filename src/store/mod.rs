//! Logical pages that may be overwritten: the contract of every FTL, cache and device below the trees, and
//! the stores that need no chip.

#[cfg(not(feature = "unstable"))]
pub(crate) mod batches;
#[cfg(feature = "unstable")]
pub mod batches;
pub mod disk;
pub mod finishing;
mod forward;
pub(crate) mod patrol;
pub mod ram;
pub mod slice;
#[cfg(not(feature = "unstable"))]
pub(crate) mod space;
#[cfg(feature = "unstable")]
pub mod space;
pub mod store_nand;

use crate::check::IndexError;
use crate::nand::{Cause, Differs, NandError, Unfit};
use crate::shared::{MaybeSend, Shared};
use crate::units::{Lpn, Ppn};
use alloc::borrow::Cow;
use alloc::string::String;
use core::fmt;

/// The contents of a store that carries nothing of what was looked for: none, if all its pages read as zeros.
#[doc(hidden)]
#[cold]
pub fn unfit<S: PageStore + ?Sized>(store: &mut S, what: &'static str) -> Result<Unfit, StoreError> {
    let mut page = alloc::vec![0; store.page_bytes()];
    for lpn in (0..store.page_count()).map(Lpn) {
        match store.read(lpn, Cause::Recovery, &mut page) {
            Ok(()) => {}
            Err(StoreError::Nand(NandError::Uncorrectable(_)) | StoreError::Corrupted { .. }) => {
                return Ok(Unfit::other(Differs::Kind, what));
            }
            Err(error) => return Err(error),
        }
        if page.iter().any(|&byte| byte != 0) {
            return Ok(Unfit::other(Differs::Kind, what));
        }
    }
    Ok(Unfit::Blank)
}

/// Pages that may be overwritten.
pub trait PageStore: MaybeSend {
    /// Bytes of a page.
    fn page_bytes(&self) -> usize;

    /// Logical pages, numbered from 0.
    fn page_count(&self) -> u32;

    /// Reads a page. A page never written, or trimmed, reads as zeros.
    fn read(&mut self, lpn: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreError>;

    /// Writes a page whole. When this returns, the page survives a power cut if
    /// [`PageStore::durable_writes`]; in any case it is old or new after a cut, never torn.
    fn write(&mut self, lpn: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreError>;

    /// Drops a page: it reads as zeros from now on. After a power cut its old contents may be back, unless
    /// the store was synced since.
    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError>;

    /// Makes everything written or trimmed before survive a power cut.
    fn sync(&mut self) -> Result<(), StoreError>;

    /// Syncs, and leaves the medium so that the next mount is cheapest (a checkpoint, where the store has
    /// them).
    fn checkpoint(&mut self) -> Result<(), StoreError> {
        self.sync()
    }

    /// The most pages that [`PageStore::write_atomic`] takes at once; 1 where several pages cannot be atomic.
    fn atomic_pages_max(&self) -> usize {
        1
    }

    /// Writes several different pages, all or none of which survive a power cut.
    fn write_atomic(&mut self, pages: &[(Lpn, &[u8])], cause: Cause) -> Result<(), StoreError> {
        match pages {
            [] => Ok(()),
            [(lpn, data)] => self.write(*lpn, cause, data),
            _ => Err(StoreError::Unsupported("this store cannot write several pages atomically".into())),
        }
    }

    /// Begins a batch: the calls up to [`PageStore::end_batch`] are submitted together, and a store on
    /// several channels may let them overlap. Every call still takes effect in its turn, so nothing else
    /// changes; a store that cannot serialises. See [`batch`].
    fn begin_batch(&mut self) {}

    /// Waits for all that was submitted since [`PageStore::begin_batch`].
    fn end_batch(&mut self) {}

    /// Whether a write survives a power cut as soon as it returns, without [`PageStore::sync`].
    fn durable_writes(&self) -> bool;

    /// Whether what survives a power cut is always the state after some prefix of the writes (an atomic group
    /// counts as one), at least as long as the one at the last sync.
    fn prefix_consistent(&self) -> bool;

    /// An index that keeps updates back in RAM has taken in so many since it was opened. For a store that
    /// keeps a journal of them; others need not know.
    fn updates_heard(&mut self, updates: u64) {
        let _ = updates;
    }

    /// Says how far such an index shows updates: what it writes from now on shows none after this one, or
    /// any update where it does not know.
    fn updates_shown(&mut self, newest: Option<u64>) {
        let _ = newest;
    }

    /// Whether it keeps a journal of such updates: none that is taken in is forgotten without a word.
    fn keeps_updates(&self) -> bool {
        false
    }

    /// Does work that later writes would do: collects garbage, moves what became hard to read. About `budget`
    /// pages are read or programmed, a block at a time at least. Returns the pages of such work that are
    /// left, about; 0 where nothing is worth doing.
    fn maintain(&mut self, budget: u32) -> Result<u32, StoreError> {
        let _ = budget;
        Ok(0)
    }

    /// Looks for pages that become hard to read and moves them: reads up to `budget` logical pages from where
    /// the last call ended. Returns the pages left of the round; 0 at its end, and where no page can become
    /// hard to read.
    fn scrub(&mut self, budget: u32) -> Result<u32, StoreError> {
        let _ = budget;
        Ok(0)
    }

    /// Bytes of RAM that tables, frames and buffers take at most: the same after every mount of the chip, so
    /// that what is left can be shared out by it.
    fn ram_bytes(&self) -> usize;

    /// Bytes of RAM that a mount of the store takes at most, before there is anything above it; not less than
    /// [`PageStore::ram_bytes`].
    fn mount_ram_bytes(&self) -> usize {
        self.ram_bytes()
    }

    /// The statistics of the store, those of the stores below it included.
    fn stats(&self) -> StoreStats {
        StoreStats::default()
    }

    /// Whether a page of the chip below holds something that is still needed; `None` where the store has no
    /// chip or does not know. Costs no I/O.
    fn live_page(&self, ppn: Ppn) -> Option<bool> {
        let _ = ppn;
        None
    }
}

/// The answer of work that nobody waits for: what was refused for want of room is left.
pub(crate) fn unless_full(done: Result<u32, StoreError>) -> Result<u32, StoreError> {
    match done {
        Err(error) if error.is_refusal() => Ok(0),
        done => done,
    }
}

/// Submits all that `work` reads, or all that it writes, together. Reads that depend on each other are no
/// batch.
pub fn batch<S: PageStore + ?Sized, T>(store: &mut S, work: impl FnOnce(&mut S) -> T) -> T {
    store.begin_batch();
    let done = work(store);
    store.end_batch();
    done
}

/// Writes pages in one batch, as many at once as the store takes atomically. A refusal says that none was
/// written; one that came after others were is [`IndexError::Interrupted`].
pub(crate) fn write_batch<S: PageStore + ?Sized>(
    store: &mut S,
    pages: &[(Lpn, &[u8])],
) -> Result<(), IndexError> {
    let together = if pages.len() <= store.atomic_pages_max() { pages.len().max(1) } else { 1 };
    let mut is_begun = false;
    let written: Result<(), StoreError> = batch(store, |store| {
        pages.chunks(together).try_for_each(|pages| {
            match pages {
                [(lpn, data)] => store.write(*lpn, Cause::Host, data),
                _ => store.write_atomic(pages, Cause::Host),
            }?;
            is_begun = true;
            Ok(())
        })
    });
    written
        .map_err(|error| if error.is_refusal() && is_begun { IndexError::Interrupted } else { error.into() })
}

/// The statistics that a store gives without touching the medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Reads that a cache answered.
    pub cache_hits: u64,
    /// Reads that it passed on.
    pub cache_misses: u64,
    /// Garbage collections: victim blocks reclaimed.
    pub collections: u64,
    /// Valid pages moved out of victims.
    pub moved_pages: u64,
    /// Physical pages that hold live data; 0 where the store does not know.
    pub live_pages: u64,
    /// Log blocks that became data blocks as they were.
    pub switch_merges: u64,
    /// Log blocks that became data blocks after the rest of the pages was copied to them.
    pub partial_merges: u64,
    /// Logical blocks gathered from log and data blocks into a new block.
    pub full_merges: u64,
    /// Log blocks that the store may have at most, where it has such.
    pub log_blocks: u64,
    /// Bytes of RAM that the mapping tables take, those of the blocks included.
    pub mapping_bytes: u64,
    /// Programs of a page below one programmed before in its block, which not every chip allows.
    pub out_of_order_programs: u64,
    /// Buffer blocks that a write pattern converter merged with the store below.
    pub conversions: u64,
    /// Newest pages of buffer blocks that it wrote to the store below.
    pub converted_pages: u64,
    /// Pages that a newer version, or a trim, saved from that.
    pub dropped_pages: u64,
}

/// The errors of a store: a call refused or failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// The chip failed or refused.
    Nand(NandError),
    /// The page number lies beyond the store.
    OutOfRange(Lpn),
    /// The buffer is not one page long.
    WrongLength {
        /// Bytes of a page.
        expected: usize,
        /// Bytes given.
        got: usize,
    },
    /// No room is left: the write was not done and nothing was lost.
    Full,
    /// The medium is worn out: so many blocks of the chip have failed that it takes no more writes: the
    /// write was not done, nothing was lost, and every page can still be read, now and after the next mount.
    WornOut,
    /// Bytes on the medium make no sense.
    Corrupted {
        /// The fault that was found.
        what: &'static str,
        /// The page where it was found.
        at: u64,
    },
    /// The chip has too few good blocks.
    ChipTooSmall {
        /// The name of who needs the bytes.
        who: &'static str,
        /// Blocks that it needs.
        needs: u32,
        /// Good blocks that there are.
        has: u32,
    },
    /// The spare area of a page is too small.
    SpareTooSmall {
        /// The name of who needs the chip.
        who: &'static str,
        /// Bytes that it needs in a page.
        needs: u32,
        /// Bytes that the chip has.
        has: u32,
    },
    /// The store cannot do this, or not on this chip: what it needs and what there is.
    Unsupported(Cow<'static, str>),
    /// The medium holds no store of this kind: what it holds instead.
    NotFormatted(Unfit),
    /// An earlier write failed half-way (a page was damaged, the chip lost power): mount again to continue.
    Interrupted,
    /// The device below failed, in the words of its system. Whether a write took place is unknown.
    Device(String),
    /// Somebody else has the device open, or opened it before this process was forked; it is named. Nothing
    /// was done.
    InUse(String),
}

impl StoreError {
    /// A refusal in words: what is needed and what there is.
    #[doc(hidden)]
    #[cold]
    pub fn unsupported(what: String) -> StoreError {
        StoreError::Unsupported(what.into())
    }

    /// Something else is on the medium than what was to be mounted.
    pub const fn other(differs: Differs, what: &'static str) -> StoreError {
        StoreError::NotFormatted(Unfit::other(differs, what))
    }

    /// Whether the medium is blank: the one answer of a mount after which nothing is lost by formatting.
    pub const fn is_blank(&self) -> bool {
        matches!(self, StoreError::NotFormatted(Unfit::Blank))
    }

    /// Whether the store refused a write: it was not done, and nothing else changed.
    pub const fn is_refusal(&self) -> bool {
        matches!(self, StoreError::Full | StoreError::WornOut)
    }

    /// Whether the store cannot do this at all, or not on this chip: other settings or another chip are
    /// needed.
    pub const fn is_unsupported(&self) -> bool {
        matches!(
            self,
            StoreError::Unsupported(_) | StoreError::ChipTooSmall { .. } | StoreError::SpareTooSmall { .. }
        )
    }
}

impl From<NandError> for StoreError {
    /// A chip that refuses a page which counts as erased contradicts what was read of it.
    fn from(error: NandError) -> StoreError {
        match error {
            NandError::NotErased(ppn) | NandError::OutOfOrder(ppn) => StoreError::Corrupted {
                what: "a page that counts as erased was programmed, or a later one was",
                at: u64::from(ppn.0),
            },
            NandError::Interrupted => StoreError::Interrupted,
            error => StoreError::Nand(error),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Nand(e) => write!(f, "{e}"),
            StoreError::OutOfRange(lpn) => write!(f, "{lpn} is beyond the end of the store"),
            StoreError::WrongLength { expected, got } => {
                write!(f, "a page has {expected} bytes here, not {got}")
            }
            StoreError::Full => write!(f, "no room is left; nothing was changed"),
            StoreError::Interrupted => write!(f, "an earlier write failed half-way; mount again"),
            StoreError::WornOut => {
                write!(f, "too many blocks have failed: the chip is read-only now; nothing was changed")
            }
            StoreError::Corrupted { what, at } => write!(f, "corrupted at page {at}: {what}"),
            StoreError::ChipTooSmall { who, needs, has } => {
                write!(f, "{who} needs {needs} good blocks; this chip has {has}")
            }
            StoreError::SpareTooSmall { who, needs, has } => {
                write!(f, "{who} needs {needs} spare bytes in a page; this chip has {has}")
            }
            StoreError::Unsupported(what) => write!(f, "{what}"),
            StoreError::NotFormatted(what) => write!(f, "no store to mount: {what}"),
            StoreError::Device(what) => write!(f, "the device failed: {what}"),
            StoreError::InUse(what) => write!(f, "{what}"),
        }
    }
}

impl core::error::Error for StoreError {}

impl<S: PageStore + ?Sized> PageStore for &mut S {
    crate::forward_store!(self => (**self);
        page_bytes page_count read write trim sync atomic_pages_max write_atomic begin_batch end_batch
        durable_writes prefix_consistent updates_heard updates_shown keeps_updates checkpoint maintain scrub
        ram_bytes mount_ram_bytes stats live_page);
}

impl<S: PageStore + ?Sized> PageStore for alloc::boxed::Box<S> {
    crate::forward_store!(self => (**self);
        page_bytes page_count read write trim sync atomic_pages_max write_atomic begin_batch end_batch
        durable_writes prefix_consistent updates_heard updates_shown keeps_updates checkpoint maintain scrub
        ram_bytes mount_ram_bytes stats live_page);
}

/// A store shared with its observer.
impl<S: PageStore> PageStore for Shared<S> {
    crate::forward_store!(self => self.lock();
        page_bytes page_count read write trim sync atomic_pages_max write_atomic begin_batch end_batch
        durable_writes prefix_consistent checkpoint maintain scrub ram_bytes stats live_page);
}
