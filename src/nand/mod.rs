//! Raw NAND flash: the trait of a chip, its geometry and its errors.
//!
//! A page is the unit of read and program, a block the unit of erase. A page is programmed only if it is
//! erased, and the pages of a block in ascending order, unless the part allows otherwise. Each page has a
//! spare area (out-of-band bytes), which is programmed together with the page. Manufacturers mark a bad block
//! at byte 0 of the spare area; the layers above leave this byte 0xFF.

mod again;
pub mod catalogue;
mod geometry;
mod lent;
mod pairing;
mod part;
mod range;
#[cfg(any(feature = "sim", test))]
pub mod sim;
mod unfit;
mod until_lost;
mod words;

pub(crate) use again::read_again_at;
#[cfg(feature = "unstable")]
pub use again::{READ_TRIES, Reading, read_again};
#[cfg(not(feature = "unstable"))]
pub(crate) use again::{READ_TRIES, Reading, read_again};
pub use geometry::{Geometry, PartError};
pub use lent::LentSpare;
pub use pairing::{LowerPages, Pairing};
pub use part::{Basis, Note, Part, Supply, Timing};
pub use range::BlockRange;
#[doc(hidden)]
pub use unfit::unfit;
pub use unfit::{Differs, Unfit, is_blank};
pub(crate) use until_lost::UntilLost;
pub use words::WordTiming;

use crate::shared::{MaybeSend, Shared};
use crate::units::{Pbn, Ppn};
use core::fmt;

/// Purpose of a physical operation. The counters are kept by cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub enum Cause {
    /// Operation of the user.
    Host,
    /// Page cache or write cache that makes room or is flushed.
    CacheEviction,
    /// Garbage collection: live pages are moved out of a victim block, and the block is erased.
    GarbageCollection,
    /// Merge of a log block with data blocks (hybrid FTLs), or of a log with a node.
    Merge,
    /// Mapping tables on flash.
    Mapping,
    /// Wear levelling: data is moved to even out the wear.
    WearLevelling,
    /// Checkpoints, superblocks and journals of updates.
    Checkpoint,
    /// Mount after a clean or unclean end.
    Recovery,
    /// Scrubbing: search for data that became hard to read, and its move.
    Scrubbing,
    /// Checker. The simulated chip neither counts nor times these operations.
    Check,
}

impl Cause {
    /// All causes that are counted, in the order of the counters.
    pub const COUNTED: [Cause; 9] = [
        Cause::Host,
        Cause::CacheEviction,
        Cause::GarbageCollection,
        Cause::Merge,
        Cause::Mapping,
        Cause::WearLevelling,
        Cause::Checkpoint,
        Cause::Recovery,
        Cause::Scrubbing,
    ];

    /// Name in results, in snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Host => "host",
            Cause::CacheEviction => "cache_eviction",
            Cause::GarbageCollection => "garbage_collection",
            Cause::Merge => "merge",
            Cause::Mapping => "mapping",
            Cause::WearLevelling => "wear_levelling",
            Cause::Checkpoint => "checkpoint",
            Cause::Recovery => "recovery",
            Cause::Scrubbing => "scrubbing",
            Cause::Check => "check",
        }
    }
}

/// One number for each cause, in the order of [`Cause::COUNTED`].
pub type ByCause = [u64; Cause::COUNTED.len()];

/// Report of a chip on a read that succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct ReadOutcome {
    /// Bits that the ECC corrected, in the worst code word if the driver knows it. Also 0 if the driver
    /// cannot tell.
    pub corrected: u32,
    /// True if the number of corrected bits is close to what the ECC can correct. The index then moves the
    /// contents of the page.
    pub is_weak: bool,
}

impl ReadOutcome {
    /// Outcome of a read without corrected bits, or of a driver that does not report them.
    pub const CLEAN: ReadOutcome = ReadOutcome { corrected: 0, is_weak: false };

    /// Outcome of a read in which an ECC that corrects `strength` bits corrected `corrected` bits. The page
    /// is weak from three quarters of `strength` on, as in Linux, but never for a single bit: an ECC of one
    /// bit is made for that.
    pub const fn corrected(corrected: u32, strength: u32) -> ReadOutcome {
        let most = strength - strength / 4;
        ReadOutcome { corrected, is_weak: corrected >= if most < 2 { 2 } else { most } }
    }
}

/// Raw NAND flash.
///
/// The slices `data` and `spare` may be shorter than the areas of the page. A read then returns the first
/// bytes only; a program leaves the rest erased (0xFF). Longer slices are an error.
pub trait Nand: MaybeSend {
    /// Shape of the chip and the rules that it enforces.
    fn geometry(&self) -> Geometry;

    /// Reads a page. An erased page reads as 0xFF. A driver that does not know what the ECC corrected returns
    /// [`ReadOutcome::CLEAN`]. On a chip that appends ([`Geometry::appends`]) a torn word fails the reads
    /// that cover it, and no other.
    fn read(
        &mut self,
        ppn: Ppn,
        cause: Cause,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadOutcome, NandError>;

    /// Reads bytes of a page's data area from byte `from` on. A part that can send any column of its page
    /// register does not transfer the bytes before. This default does: it reads them into a buffer of its
    /// own.
    fn read_at(
        &mut self,
        ppn: Ppn,
        cause: Cause,
        from: u32,
        data: &mut [u8],
    ) -> Result<ReadOutcome, NandError> {
        let from = from as usize;
        if from + data.len() > self.geometry().page_bytes as usize {
            return Err(NandError::BufferTooLong(ppn));
        }
        let mut page = alloc::vec![0; from + data.len()];
        let outcome = self.read(ppn, cause, &mut page, &mut [])?;
        data.copy_from_slice(&page[from..]);
        Ok(outcome)
    }

    /// Programs an erased page. A chip that overwrites ([`Geometry::overwrites`]) takes any page, and clears
    /// bits. A chip that appends ([`Geometry::appends`]) takes further words of a programmed page, in any
    /// page of the block: the program has 0xFF in all places but erased words. After
    /// [`NandError::ProgramFailed`] the page counts as programmed with unknown contents.
    fn program(&mut self, ppn: Ppn, cause: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError>;

    /// Erases a block. All its pages then read as 0xFF and may be programmed again.
    fn erase(&mut self, pbn: Pbn, cause: Cause) -> Result<(), NandError>;

    /// Returns true if the block has a bad-block mark, of the factory or of [`Nand::mark_bad`]. A mark that
    /// cannot be read does not count: a block is good if the power failed while its first page was programmed
    /// or erased.
    fn is_bad(&mut self, pbn: Pbn) -> Result<bool, NandError>;

    /// Marks a block bad for good. Returns [`NandError::BadBlock`] if the block takes no mark.
    fn mark_bad(&mut self, pbn: Pbn) -> Result<(), NandError>;

    /// Returns true if a power cut may leave a page that cannot be read. If false, such a page is damaged: a
    /// mount must not take it for a page whose program, or a part of a block whose erase, was cut.
    fn tears(&self) -> bool {
        true
    }

    /// Returns true if a program of a programmed page replaces its whole contents, as for an FTL shown as a
    /// chip.
    fn replaces(&self) -> bool {
        false
    }

    /// Bytes of RAM that the layers between the index and the chip hold, for example a page buffer. An index
    /// counts them as its own.
    fn ram_bytes(&self) -> usize {
        0
    }

    /// Begins a batch: the operations up to [`Nand::end_batch`] are submitted together, so that channels can
    /// work at the same time. The operations still take effect in the order of the calls. Batches nest; only
    /// the outermost one has an effect.
    fn begin_batch(&mut self) {}

    /// Waits for all operations that were submitted since [`Nand::begin_batch`].
    fn end_batch(&mut self) {}

    /// Waits until a power cut can undo no earlier program or erase. A chip has nothing to wait for. A chip
    /// kept in a file or on a disk may lose, in any order and in part, programs that no barrier followed
    /// ([`StoreNand::waiting`](crate::store::store_nand::StoreNand::waiting)).
    fn barrier(&mut self) -> Result<(), NandError> {
        Ok(())
    }

    /// Returns true if programs need a barrier to be durable. Every erase is then a barrier, and erases made
    /// together wait once.
    fn waits(&self) -> bool {
        false
    }
}

/// Returns the chip behind `dyn`, so that a program holds code once for all kinds of chips. Firmware has one
/// chip: there it is returned as it is, since code for it alone is smaller.
pub(crate) fn once<N: Nand>(nand: &mut N) -> &mut (impl Nand + ?Sized) {
    #[cfg(feature = "full")]
    let nand: &mut dyn Nand = nand;
    nand
}

/// Error of a chip: an operation was refused or failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NandError {
    /// Page number beyond the end of the chip.
    PageOutOfRange(Ppn),
    /// Block number beyond the end of the chip.
    BlockOutOfRange(Pbn),
    /// Buffer longer than the data or spare area of the page.
    BufferTooLong(Ppn),
    /// Page programmed since the erase of its block, on a part that allows no further partial program.
    NotErased(Ppn),
    /// Program that would set bits that are clear, on a part whose pages may be overwritten, or that meets a
    /// programmed word, on a part that programs each once ([`Geometry::append_bytes`]). Only an erase sets
    /// bits.
    SetsBits {
        /// Page of the program.
        page: Ppn,
        /// First byte of the page that is refused. The bytes of the spare area follow those of the data.
        byte: u32,
    },
    /// A later page of the block is programmed, and the part requires ascending order.
    OutOfOrder(Ppn),
    /// Block marked bad.
    BadBlock(Pbn),
    /// The program failed: retire the block.
    ProgramFailed(Ppn),
    /// The erase failed: retire the block.
    EraseFailed(Pbn),
    /// The page holds more bit errors than the ECC corrects, for example because its program was torn.
    Uncorrectable(Ppn),
    /// The power is off. Every operation fails until it is on again.
    PowerLost,
    /// Fault of bus, controller or driver, with a number of the driver's own. This tells nothing about the
    /// chip: no page counts as torn and no block as bad. The index works again after a mount.
    Device(i32),
    /// An earlier program or erase ended so that its effect is unknown. The owner does not change the chip
    /// before the next mount.
    Interrupted,
}

/// Returns the outcome of a program or an erase: false if it failed, and its block is to be retired. Any
/// other error says nothing about the block.
#[doc(hidden)]
pub fn is_done(outcome: Result<(), NandError>) -> Result<bool, NandError> {
    match outcome {
        Ok(()) => Ok(true),
        Err(NandError::ProgramFailed(_) | NandError::EraseFailed(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

impl NandError {
    /// For layers that show other numbers of pages and blocks than the chip has.
    pub(crate) fn renumbered(self, page: impl Fn(Ppn) -> Ppn, block: impl Fn(Pbn) -> Pbn) -> NandError {
        match self {
            NandError::PageOutOfRange(p) => NandError::PageOutOfRange(page(p)),
            NandError::BlockOutOfRange(b) => NandError::BlockOutOfRange(block(b)),
            NandError::BufferTooLong(p) => NandError::BufferTooLong(page(p)),
            NandError::NotErased(p) => NandError::NotErased(page(p)),
            NandError::SetsBits { page: p, byte } => NandError::SetsBits { page: page(p), byte },
            NandError::OutOfOrder(p) => NandError::OutOfOrder(page(p)),
            NandError::BadBlock(b) => NandError::BadBlock(block(b)),
            NandError::ProgramFailed(p) => NandError::ProgramFailed(page(p)),
            NandError::EraseFailed(b) => NandError::EraseFailed(block(b)),
            NandError::Uncorrectable(p) => NandError::Uncorrectable(page(p)),
            NandError::PowerLost => NandError::PowerLost,
            NandError::Device(code) => NandError::Device(code),
            NandError::Interrupted => NandError::Interrupted,
        }
    }
}

impl fmt::Display for NandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NandError::PageOutOfRange(p) => write!(f, "{p} is beyond the end of the chip"),
            NandError::BlockOutOfRange(b) => write!(f, "{b} is beyond the end of the chip"),
            NandError::BufferTooLong(p) => write!(f, "the buffer for {p} is longer than the page"),
            NandError::NotErased(p) => write!(f, "{p} is programmed already and must be erased first"),
            NandError::SetsBits { page, byte } => {
                write!(f, "programming {page} needs an erase first: bits at its byte {byte} are clear")
            }
            NandError::OutOfOrder(p) => {
                write!(f, "{p} precedes a page of its block that is programmed already")
            }
            NandError::BadBlock(b) => write!(f, "{b} is marked bad"),
            NandError::ProgramFailed(p) => write!(f, "programming {p} failed"),
            NandError::EraseFailed(b) => write!(f, "erasing {b} failed"),
            NandError::Uncorrectable(p) => write!(f, "{p} has more bit errors than can be corrected"),
            NandError::PowerLost => write!(f, "the power is off"),
            NandError::Device(code) => write!(f, "the driver of the chip reports fault {code}"),
            NandError::Interrupted => write!(f, "an earlier program or erase was not answered; mount again"),
        }
    }
}

impl core::error::Error for NandError {}

/// Implements methods of [`Nand`] by those of the chip inside, for a layer that changes only some of them.
macro_rules! forward_nand {
    ($self:ident => $chip:expr; $($methods:ident)+) => { $( forward_nand!(@ $methods $self, $chip); )+ };
    (@ pages $self:ident, $chip:expr) => {
        fn geometry(&$self) -> Geometry {
            $chip.geometry()
        }

        fn read(
            &mut $self,
            ppn: Ppn,
            cause: Cause,
            data: &mut [u8],
            spare: &mut [u8],
        ) -> Result<ReadOutcome, NandError> {
            $chip.read(ppn, cause, data, spare)
        }

        fn read_at(
            &mut $self,
            ppn: Ppn,
            cause: Cause,
            from: u32,
            data: &mut [u8],
        ) -> Result<ReadOutcome, NandError> {
            $chip.read_at(ppn, cause, from, data)
        }

        fn ram_bytes(&$self) -> usize {
            $chip.ram_bytes()
        }
    };
    (@ programs $self:ident, $chip:expr) => {
        fn program(&mut $self, ppn: Ppn, cause: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
            $chip.program(ppn, cause, data, spare)
        }
    };
    (@ blocks $self:ident, $chip:expr) => {
        fn erase(&mut $self, pbn: Pbn, cause: Cause) -> Result<(), NandError> {
            $chip.erase(pbn, cause)
        }

        fn is_bad(&mut $self, pbn: Pbn) -> Result<bool, NandError> {
            $chip.is_bad(pbn)
        }

        fn mark_bad(&mut $self, pbn: Pbn) -> Result<(), NandError> {
            $chip.mark_bad(pbn)
        }

        fn barrier(&mut $self) -> Result<(), NandError> {
            $chip.barrier()
        }
    };
    (@ rules $self:ident, $chip:expr) => {
        fn tears(&$self) -> bool {
            $chip.tears()
        }

        fn replaces(&$self) -> bool {
            $chip.replaces()
        }

        fn begin_batch(&mut $self) {
            $chip.begin_batch();
        }

        fn end_batch(&mut $self) {
            $chip.end_batch();
        }

        fn waits(&$self) -> bool {
            $chip.waits()
        }
    };
}
pub(crate) use forward_nand;

impl<N: Nand + ?Sized> Nand for &mut N {
    forward_nand!(self => (**self); pages programs blocks rules);
}

impl<N: Nand + ?Sized> Nand for alloc::boxed::Box<N> {
    forward_nand!(self => (**self); pages programs blocks rules);
}

impl<N: Nand> Nand for Shared<N> {
    forward_nand!(self => self.lock(); pages programs blocks rules);
}
