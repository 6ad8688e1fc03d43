//! The chip: a trait for raw NAND flash, its geometry, and what can go wrong.
//!
//! A page is the unit of read and program, a block the unit of erase. A page is programmed only when erased,
//! and the pages of a block in ascending order unless the part allows otherwise. Each page has a spare area
//! (out-of-band bytes) that is programmed together with it. Byte 0 of the spare area is where manufacturers
//! mark a bad block; the layers above leave it 0xFF.

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

pub(crate) use again::read_again_at;
pub use again::{READ_TRIES, Reading, read_again};
pub use geometry::{Geometry, PartError};
pub use lent::LentSpare;
pub use pairing::{LowerPages, Pairing};
pub use part::{Basis, Note, Part, Supply, Timing};
pub use range::BlockRange;
#[doc(hidden)]
pub use unfit::unfit;
pub use unfit::{Differs, Unfit, is_blank};
pub(crate) use until_lost::UntilLost;

use crate::shared::{MaybeSend, Shared};
use crate::units::{Pbn, Ppn};
use core::fmt;

/// Why a physical operation happened: who pays for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Cause {
    /// An operation of the user.
    Host,
    /// A page cache or write cache made room or was flushed.
    CacheEviction,
    /// Moving live pages out of a victim block, and erasing it.
    GarbageCollection,
    /// A log block merged with data blocks (hybrid FTLs), or a log merged with a node.
    Merge,
    /// Mapping tables kept on flash.
    Mapping,
    /// Moving data to even out wear.
    WearLevelling,
    /// Checkpoints, superblocks and update journals.
    Checkpoint,
    /// Mounting after a clean or unclean end.
    Recovery,
    /// Moving data that became hard to read, and looking for it.
    Scrubbing,
    /// A checker looks on: the simulated chip neither counts nor times it.
    Check,
}

impl Cause {
    /// Every cause that is counted, in the order of the counters.
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

    /// The name used in results, in snake case.
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

/// A number for each cause, in the order of [`Cause::COUNTED`].
pub type ByCause = [u64; Cause::COUNTED.len()];

/// The word of a chip of a read that succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadOutcome {
    /// Bits that the ECC corrected, in the worst of its code words if the driver knows; 0 too where it cannot
    /// tell.
    pub corrected: u32,
    /// Whether so many come near to what the ECC corrects: the index moves what is in the page.
    pub is_weak: bool,
}

impl ReadOutcome {
    /// Nothing was corrected, or nobody knows.
    pub const CLEAN: ReadOutcome = ReadOutcome { corrected: 0, is_weak: false };

    /// A read in which so many bits were corrected by an ECC that corrects `strength`. A page is weak from
    /// three quarters of them on, as Linux has it, but never for a single bit: that is what an ECC of one
    /// bit is for.
    pub const fn corrected(corrected: u32, strength: u32) -> ReadOutcome {
        let most = strength - strength / 4;
        ReadOutcome { corrected, is_weak: corrected >= if most < 2 { 2 } else { most } }
    }
}

/// Raw NAND flash.
///
/// `data` and `spare` may be shorter than the page's areas: a read then returns the first bytes only, a
/// program leaves the rest erased (0xFF). Longer slices are refused.
pub trait Nand: MaybeSend {
    /// The shape of the chip and the rules it enforces.
    fn geometry(&self) -> Geometry;

    /// Reads a page. An erased page reads as 0xFF. A driver that cannot tell what the ECC did answers
    /// [`ReadOutcome::CLEAN`].
    fn read(
        &mut self,
        ppn: Ppn,
        cause: Cause,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadOutcome, NandError>;

    /// Reads bytes of a page's data area from one on. A part that sends any column of its page register saves
    /// the transfer of those before; this reads them too, into a buffer of its own.
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

    /// Programs an erased page, or any page of a chip that overwrites ([`Geometry::overwrites`]), to clear
    /// bits. When this returns [`NandError::ProgramFailed`], the page must be treated as programmed with
    /// unknown contents.
    fn program(&mut self, ppn: Ppn, cause: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError>;

    /// Erases a block: every page reads 0xFF and may be programmed again.
    fn erase(&mut self, pbn: Pbn, cause: Cause) -> Result<(), NandError>;

    /// Whether the block carries a bad-block mark, factory or grown. A mark that cannot be read is none: a
    /// block whose first page was being programmed or erased when the power failed is good.
    fn is_bad(&mut self, pbn: Pbn) -> Result<bool, NandError>;

    /// Marks a block bad for good. [`NandError::BadBlock`] where it takes no mark.
    fn mark_bad(&mut self, pbn: Pbn) -> Result<(), NandError>;

    /// Whether a power cut may leave a page that cannot be read. Where it may not, such a page is damaged,
    /// and no mount may take it for one that was being programmed, or for part of a block that was being
    /// erased.
    fn tears(&self) -> bool {
        true
    }

    /// Whether a program of a page that was programmed before replaces what it holds, whole: an FTL shown as
    /// a chip.
    fn replaces(&self) -> bool {
        false
    }

    /// Bytes of RAM that a layer before the chip holds for its user, a page buffer for one. An index counts
    /// them as its own.
    fn ram_bytes(&self) -> usize {
        0
    }

    /// Begins a batch: the operations up to [`Nand::end_batch`] are submitted together, so that channels may
    /// work at the same time. Every operation still takes effect in the order of the calls. Batches nest;
    /// the outermost counts.
    fn begin_batch(&mut self) {}

    /// Waits for all that was submitted since [`Nand::begin_batch`].
    fn end_batch(&mut self) {}

    /// Waits until a power cut undoes nothing of what was programmed and erased before. A chip has nothing to
    /// wait for; one in an image may leave what no barrier followed in any order, in parts
    /// ([`StoreNand::waiting`](crate::store::store_nand::StoreNand::waiting)).
    fn barrier(&mut self) -> Result<(), NandError> {
        Ok(())
    }

    /// Whether programs wait for a barrier: then each erase is one, and those made together wait once.
    fn waits(&self) -> bool {
        false
    }
}

/// The errors of a chip: an operation refused or failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NandError {
    /// The page number lies beyond the chip.
    PageOutOfRange(Ppn),
    /// The block number lies beyond the chip.
    BlockOutOfRange(Pbn),
    /// A buffer is longer than the page's data or spare area.
    BufferTooLong(Ppn),
    /// The page was programmed since its block was erased, and the part allows no further partial program.
    NotErased(Ppn),
    /// The program would set bits that are clear, on a part whose pages may be overwritten: only an erase
    /// does.
    SetsBits {
        /// The page.
        page: Ppn,
        /// The first such byte of it; the spare area follows the data.
        byte: u32,
    },
    /// A later page of the block was programmed already, and the part requires ascending order.
    OutOfOrder(Ppn),
    /// The block is marked bad.
    BadBlock(Pbn),
    /// The program operation failed: the block should be retired.
    ProgramFailed(Ppn),
    /// The erase operation failed: the block should be retired.
    EraseFailed(Pbn),
    /// The page holds more bit errors than the ECC corrects (a torn page, for one).
    Uncorrectable(Ppn),
    /// The power is off: nothing happens until it is switched on again.
    PowerLost,
    /// A fault of bus, controller or driver, by a number of the driver's own. Nothing is known of the chip
    /// then: no page counts as torn, no block as bad, and the index goes on after a mount.
    Device(i32),
    /// An earlier program or erase ended so that nobody knows whether it took place. Its owner changes the
    /// chip no more until the next mount.
    Interrupted,
}

impl NandError {
    /// The error with the numbers that page and block have for whoever asked.
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
                write!(f, "programming {page} would have to set bits of its byte {byte} that are clear")
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

/// Implements methods of [`Nand`] by those of the chip inside: for a layer that changes some and none of the
/// others.
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

/// A chip shared by an index and its observer.
impl<N: Nand> Nand for Shared<N> {
    forward_nand!(self => self.lock(); pages programs blocks rules);
}
