//! Stores: logical pages that may be overwritten. Here are the contract of every FTL, cache and device below
//! the trees, and the stores that need no chip.

#[cfg(not(feature = "unstable"))]
pub(crate) mod batches;
#[cfg(feature = "unstable")]
pub mod batches;
#[cfg(not(feature = "unstable"))]
pub(crate) mod disk;
#[cfg(feature = "unstable")]
pub mod disk;
#[cfg(not(feature = "unstable"))]
pub(crate) mod finishing;
#[cfg(feature = "unstable")]
pub mod finishing;
mod forward;
pub(crate) mod patrol;
pub mod ram;
#[cfg(not(feature = "unstable"))]
pub(crate) mod slice;
#[cfg(feature = "unstable")]
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

/// Returns the reason why a store holds nothing to mount: blank if all its pages read as zeros, else
/// something else.
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

/// A store: logical pages that may be overwritten.
pub trait PageStore: MaybeSend {
    /// Bytes of a page.
    fn page_bytes(&self) -> usize;

    /// Number of logical pages. They are numbered from 0.
    fn page_count(&self) -> u32;

    /// Reads a page. A page that was never written, or was trimmed, reads as zeros.
    fn read(&mut self, lpn: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreError>;

    /// Writes a whole page. If [`PageStore::durable_writes`], the page survives a power cut once this
    /// returns. In any case the page is old or new after a cut, never torn.
    fn write(&mut self, lpn: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreError>;

    /// Drops a page. It reads as zeros from now on. A power cut before the next sync may bring its old
    /// contents back.
    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError>;

    /// Makes all earlier writes and trims survive a power cut.
    fn sync(&mut self) -> Result<(), StoreError>;

    /// Syncs, and leaves the medium so that the next mount is cheapest: writes a checkpoint, if the store has
    /// checkpoints.
    fn checkpoint(&mut self) -> Result<(), StoreError> {
        self.sync()
    }

    /// Most pages that one [`PageStore::write_atomic`] takes. 1 if the store cannot write several pages
    /// atomically.
    fn atomic_pages_max(&self) -> usize {
        1
    }

    /// Writes several different pages. After a power cut all of them are new or none is.
    fn write_atomic(&mut self, pages: &[(Lpn, &[u8])], cause: Cause) -> Result<(), StoreError> {
        match pages {
            [] => Ok(()),
            [(lpn, data)] => self.write(*lpn, cause, data),
            _ => Err(StoreError::Unsupported("this store cannot write several pages atomically".into())),
        }
    }

    /// Begins a batch: the calls up to [`PageStore::end_batch`] are submitted together. A store on several
    /// channels may let them overlap; other stores do one after the other. Every call still takes effect in
    /// its turn. See [`batch`].
    fn begin_batch(&mut self) {}

    /// Waits for all calls that were submitted since [`PageStore::begin_batch`].
    fn end_batch(&mut self) {}

    /// Returns true if a write survives a power cut as soon as it returns, without [`PageStore::sync`].
    fn durable_writes(&self) -> bool;

    /// Returns true if the state after a power cut is always the state after a prefix of the writes, not
    /// shorter than the prefix at the last sync. An atomic group counts as one write.
    fn prefix_consistent(&self) -> bool;

    /// Tells the store how many updates an index that keeps updates in RAM has taken since it was opened.
    /// Only a store that keeps a journal of updates needs the number.
    fn updates_heard(&mut self, updates: u64) {
        let _ = updates;
    }

    /// Tells the store which updates the following writes of such an index may show: none after `newest`.
    /// `None` means that they may show any update.
    fn updates_shown(&mut self, newest: Option<u64>) {
        let _ = newest;
    }

    /// Returns true if the store keeps a journal of the index's updates, so that no acknowledged update is
    /// lost.
    fn keeps_updates(&self) -> bool {
        false
    }

    /// Does work that later writes would do: collects garbage, and moves pages that became hard to read.
    /// Reads or programs about `budget` pages, but at least one block. Returns about how many pages of such
    /// work are left; 0 if nothing is worth doing.
    fn maintain(&mut self, budget: u32) -> Result<u32, StoreError> {
        let _ = budget;
        Ok(0)
    }

    /// Looks for pages that became hard to read, and moves them. Reads up to `budget` logical pages, from the
    /// end of the last call on. Returns the number of pages left of the round. 0 means that the round is
    /// complete, or that pages of this store do not become hard to read.
    fn scrub(&mut self, budget: u32) -> Result<u32, StoreError> {
        let _ = budget;
        Ok(0)
    }

    /// Most bytes of RAM of tables, frames and buffers. The number is the same after every mount of the chip,
    /// so that the remaining RAM can be divided by it.
    fn ram_bytes(&self) -> usize;

    /// Most bytes of RAM that a mount of the store takes, before a layer above it exists. Not less than
    /// [`PageStore::ram_bytes`].
    fn mount_ram_bytes(&self) -> usize {
        self.ram_bytes()
    }

    /// Statistics of the store, those of the stores below included.
    fn stats(&self) -> StoreStats {
        StoreStats::default()
    }

    /// Returns true if a page of the chip below holds something that is still needed; `None` if the store has
    /// no chip or does not know. Costs no I/O.
    fn live_page(&self, ppn: Ppn) -> Option<bool> {
        let _ = ppn;
        None
    }
}

/// Turns a refusal for want of room into 0 pages left, for maintenance that nobody waits for.
pub(crate) fn unless_full(done: Result<u32, StoreError>) -> Result<u32, StoreError> {
    match done {
        Err(error) if error.is_refusal() => Ok(0),
        done => done,
    }
}

/// Submits all reads or all writes of `work` together. Reads that depend on each other are no batch.
///
/// ```
/// use nandex::store::{batch, ram::RamStore};
/// use nandex::{Cause, Lpn, PageStore};
///
/// let mut store = RamStore::new(512, 10);
/// batch(&mut store, |store| (0..5).try_for_each(|at| store.write(Lpn(at), Cause::Host, &[7; 512])))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn batch<S: PageStore + ?Sized, T>(store: &mut S, work: impl FnOnce(&mut S) -> T) -> T {
    store.begin_batch();
    let done = work(store);
    store.end_batch();
    done
}

/// Writes pages in one batch: in one atomic group if the store takes so many pages, else one by one. A
/// refusal means that no page was written. If some pages were written, the error is
/// [`IndexError::Interrupted`].
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

/// Statistics that a store gives without touching the medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct StoreStats {
    /// Reads that a cache answered.
    pub cache_hits: u64,
    /// Reads that a cache passed on to the store below.
    pub cache_misses: u64,
    /// Garbage collections: victim blocks that were reclaimed.
    pub collections: u64,
    /// Valid pages that were moved out of victims.
    pub moved_pages: u64,
    /// Physical pages that hold live data; 0 if the store does not know.
    pub live_pages: u64,
    /// Switch merges: log blocks that became data blocks without a copy.
    pub switch_merges: u64,
    /// Partial merges: log blocks that became data blocks after the remaining pages were copied to them.
    pub partial_merges: u64,
    /// Full merges: logical blocks gathered from log and data blocks into a new block.
    pub full_merges: u64,
    /// Most log blocks that the store may have; 0 if it has none.
    pub log_blocks: u64,
    /// Bytes of RAM of the mapping tables, those of the blocks included.
    pub mapping_bytes: u64,
    /// Programs of a page below a page that was programmed before in its block. Not every chip allows them.
    pub out_of_order_programs: u64,
    /// Buffer blocks that a write pattern converter merged with the store below.
    pub conversions: u64,
    /// Newest pages of buffer blocks that the converter wrote to the store below.
    pub converted_pages: u64,
    /// Pages of buffer blocks that the converter did not write, because of a newer version or a trim.
    pub dropped_pages: u64,
}

/// Error of a store: a call was refused or failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// The chip failed or refused the operation.
    Nand(NandError),
    /// Page number beyond the end of the store.
    OutOfRange(Lpn),
    /// The buffer is not one page long.
    WrongLength {
        /// Bytes of a page.
        expected: usize,
        /// Bytes given.
        got: usize,
    },
    /// No room is left. The write was not done, and nothing was lost.
    Full,
    /// The medium is worn out: too many blocks of the chip have failed for further writes. The write was not
    /// done, and nothing was lost. Every page can still be read, now and after the next mount.
    WornOut,
    /// The bytes on the medium contradict themselves.
    Corrupted {
        /// Fault that was found.
        what: &'static str,
        /// Number of the page with the fault.
        at: u64,
    },
    /// The chip has too few good blocks.
    ChipTooSmall {
        /// Name of the layer that needs the blocks.
        who: &'static str,
        /// Number of good blocks needed.
        needs: u32,
        /// Number of good blocks of the chip.
        has: u32,
    },
    /// The spare area of a page is too small.
    SpareTooSmall {
        /// Name of the layer that needs the spare area.
        who: &'static str,
        /// Number of spare bytes needed in a page.
        needs: u32,
        /// Spare bytes of a page of the chip.
        has: u32,
    },
    /// The store cannot do this, or not on this chip. The text says what is needed and what there is.
    Unsupported(Cow<'static, str>),
    /// The medium holds no store of this kind, but this.
    NotFormatted(Unfit),
    /// An earlier write failed half-way: a page was damaged, or the chip lost power. Mount again to continue.
    Interrupted,
    /// The device below failed. The text is that of the system. It is unknown whether a write took effect.
    Device(String),
    /// The named device is open elsewhere, or was opened before this process was forked. Nothing was done.
    InUse(String),
}

impl StoreError {
    /// A refusal with a message: the number needed and the number given.
    #[doc(hidden)]
    #[cold]
    pub fn unsupported(what: String) -> StoreError {
        StoreError::Unsupported(what.into())
    }

    /// Error for a medium that contains something else than expected.
    pub const fn other(differs: Differs, what: &'static str) -> StoreError {
        StoreError::NotFormatted(Unfit::other(differs, what))
    }

    /// Returns true if the medium is blank. Of all errors of a mount, only after this one does formatting
    /// lose nothing.
    pub const fn is_blank(&self) -> bool {
        matches!(self, StoreError::NotFormatted(Unfit::Blank))
    }

    /// Returns true if the store refused a write: the write was not done, and nothing else changed.
    pub const fn is_refusal(&self) -> bool {
        matches!(self, StoreError::Full | StoreError::WornOut)
    }

    /// Returns true if the store cannot do this at all, or not on this chip. Other settings or another chip
    /// are needed.
    pub const fn is_unsupported(&self) -> bool {
        matches!(
            self,
            StoreError::Unsupported(_) | StoreError::ChipTooSmall { .. } | StoreError::SpareTooSmall { .. }
        )
    }
}

impl From<NandError> for StoreError {
    /// A chip that refuses a page as not erased contradicts an earlier read of the page.
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
    crate::forward_store!(self => (**self));
}

impl<S: PageStore + ?Sized> PageStore for alloc::boxed::Box<S> {
    crate::forward_store!(self => (**self));
}

/// A store shared with its observer.
impl<S: PageStore> PageStore for Shared<S> {
    crate::forward_store!(self => self.lock();
        page_bytes page_count read write trim sync atomic_pages_max write_atomic begin_batch end_batch
        durable_writes prefix_consistent checkpoint maintain scrub ram_bytes stats live_page);
}
