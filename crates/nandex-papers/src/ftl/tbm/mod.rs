//! Transit Buffer Manager: overwrites gather in buffer blocks on flash and reach the store below in ascending
//! runs.
//!
//! Source: V. P. Ho and D.-J. Park, "WPCB-Tree: A Novel Flash-Aware B-Tree Index Using a Write Pattern
//! Converter", 2018, sections 3.1 to 3.3. The paper puts TBM and converter between a B-tree and an FTL; here
//! they are a [`PageStore`] on another one, so they stand below any tree and are judged alone by replaying
//! page traces. The module lies with the FTLs: it manages blocks of the chip, their wear, spare areas and bad
//! blocks, and holds no page in RAM, which a cache does.
//!
//! # State
//!
//! - *Buffer blocks*, at most C: real blocks of a range of the chip that is the TBM's own ([`BlockRange`]),
//!   taken by wear, the least worn first. A buffer block belongs to one logical block (LBN = LPN / pages of a
//!   block) and takes its pages in the order they are written.
//! - *Summary table* (`summary.rs`), in RAM: the buffer block of each logical block and the logical page of
//!   each of its pages.
//!
//! # Write
//!
//! 1. The logical block has a buffer block with room: the page is appended. It is durable when it is
//!    programmed.
//! 2. Its buffer block is full: that one is converted, and the page goes first into another block.
//! 3. It has none and there are fewer than C: the page goes first into a free block.
//! 4. Else the victim, the buffer block with the fewest pages, is converted, and the page goes first into a
//!    free block.
//!
//! # Convert (write pattern converter, `convert.rs`)
//!
//! From the last page of the victim back to the first, the newest page of each logical page is kept; these
//! are written to the store below in ascending order. Only then the page that waited is programmed, and says
//! in its spare area which block was converted; only then that block is erased. A cut before leaves the block
//! to be converted again, which comes to the same; a cut inside the erase leaves a block that is known to be
//! void.
//!
//! Pages of which a rule says so go to the store below at once ([`Tbm::write_directly`], `direct.rs`).
//!
//! # Groups
//!
//! The pages of an atomic group carry marks, first and last. A group begins only after the one before has
//! ended, so the page programmed last proves what came before, and the block that holds it is never erased
//! before another page is programmed. No block with pages of the group in hand is converted.
//!
//! # Mount (`recovery.rs`)
//!
//! All buffer blocks are read; pages of a group that was cut are dropped, all others merged into the store
//! below; a record there (`record.rs`) then says that whatever the blocks hold is void. Until it is written
//! nothing in the blocks changes.
//!
//! # Lost pages
//!
//! Where the newest version of a page cannot be read when its block is converted or replaced, the record says
//! so and reading the page is an error until it is written or trimmed. All other pages go on as before.
//!
//! # Invariants
//!
//! - K1: each page in a buffer block can be read, belongs to its logical block as the Summary table says, and
//!   the versions ascend.
//! - K2: a logical block has at most one buffer block, and there are at most C.
//! - K3: the blocks taken from the pool are the buffer blocks.
//! - K4: the page with the highest version is the last of its group and is in a buffer block, unless nothing
//!   was written since the mount or the last checkpoint.
//!
//! # Deviations
//!
//! The paper erases the victim and appends to it; here the page goes to the least worn free block before the
//! victim is erased. Of the victim only the pages kept are read: the Summary table knows which these are
//! ([`VictimReads::Every`] reads the others too). A buffer block without room for all pages of a group is
//! converted although it is not full. Trims, groups and recovery are ours: the paper says only that a reboot
//! merges all buffer blocks. Confidence: high for writing and converting, ours for the rest.

mod append;
mod check;
mod convert;
mod direct;
mod page;
mod record;
mod recovery;
mod store;
mod summary;
#[cfg(test)]
mod tests;
mod versions;

pub use direct::DirectRule;
pub(crate) use direct::RULE_BYTES;

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use direct::Direct;
use nandex::blocks::victim::VictimPolicy;
use nandex::blocks::{BlockState, BlockTable, Validity};
use nandex::check::{message, words};
use nandex::fault::StoreFault;
use nandex::nand::{BlockRange, Cause, Geometry, Nand};
use nandex::store::{PageStore, StoreError};
use nandex::units::{Lpn, Pbn, Ppn};
use page::BLOCKS_MAX;
pub use page::SPARE_BYTES;
use record::Record;
use summary::{Buffer, Summary};
use versions::Versions;

/// Blocks of the range that are never buffer blocks: one to write to before the victim is erased, and one
/// to replace a block that fails.
pub const SPARE_BLOCKS_MIN: u32 = 2;

/// RAM of the field for a direct rule, which counts only if a rule is set.
const NO_RULE_BYTES: usize = size_of::<Option<alloc::boxed::Box<Direct>>>();

/// Bytes of RAM of a page noted as lost, with its share of a tree node.
const LOST_BYTES: usize = 2 * size_of::<u32>();

/// The settings of a TBM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TbmConfig {
    /// C of the paper: the most buffer blocks.
    pub blocks: u32,
    /// Newest pages in a buffer block from which on the whole logical block is written, not only these
    /// pages. `None`, the default and the paper's way, means never.
    pub whole_from: Option<u32>,
    /// Which pages of a buffer block a conversion reads.
    pub victim_reads: VictimReads,
}

/// Which pages of a buffer block a conversion reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VictimReads {
    /// Only the pages that are written to the store below. The Summary table knows them.
    #[default]
    Kept,
    /// Each page once, from the last one back to the first, as in section 3.3 of the paper.
    Every,
}

impl TbmConfig {
    /// The settings with up to `blocks` buffer blocks. The converter then writes the newest pages only.
    pub const fn new(blocks: u32) -> TbmConfig {
        TbmConfig { blocks, whole_from: None, victim_reads: VictimReads::Kept }
    }

    /// Bytes of RAM that a TBM takes at most, with its blocks on `range`. The store below is not counted.
    pub fn ram_bytes_max(&self, range: Geometry) -> usize {
        let buffer_max = summary::buffer_bytes_max(range.pages_per_block);
        let pool_max = range.blocks as usize * size_of::<(u32, u32)>();
        size_of::<Tbm<&mut dyn PageStore, &mut dyn Nand>>() - NO_RULE_BYTES
            + BlockTable::ram_needed(range, Validity::Bits, VictimPolicy::Greedy)
            + pool_max
            + self.blocks.min(range.blocks) as usize * buffer_max
            + range.page_bytes as usize
            + record::LOST_MAX * LOST_BYTES
    }
}

impl Default for TbmConfig {
    /// The paper's recommendation, 128 buffer blocks.
    fn default() -> TbmConfig {
        TbmConfig::new(128)
    }
}

/// The counters since the TBM was formatted or mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TbmCounters {
    /// Pages that the host wrote to buffer blocks.
    pub page_writes: u64,
    /// Pages that the host read from buffer blocks.
    pub buffer_reads: u64,
    /// Pages that the host read from the store below.
    pub store_reads: u64,
    /// M of the paper: buffer blocks merged with the store below.
    pub conversions: u64,
    /// Conversions that made room for another logical block.
    pub victims: u64,
    /// Conversions in which all pages of the logical block were written.
    pub whole_conversions: u64,
    /// Newest pages of buffer blocks written to the store below. Each conversion writes one ascending run.
    pub converted_pages: u64,
    /// Pages that never reached the store below because a newer version or a trim came first.
    pub dropped_pages: u64,
    /// Pages programmed only to say that a logical page is trimmed.
    pub trim_pages: u64,
    /// Pages of buffer blocks merged with the store below by the mount.
    pub recovered_pages: u64,
    /// Buffer blocks replaced because a program failed.
    pub replaced_blocks: u64,
}

/// The operations that are allowed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    /// All operations are possible.
    Ready,
    /// Reading, and trying to merge all buffer blocks. Too few blocks are left to write to, here or in the
    /// store below.
    Worn,
    /// No operation. One failed half-way, and only the next mount can tell the state of the chip.
    Interrupted,
}

/// The numeric settings, kept apart from [`VictimReads`] so that a [`Tbm`] needs no padding for them.
#[derive(Clone, Copy)]
struct Bounds {
    blocks: u32,
    whole_from: Option<u32>,
}

/// A TBM over a store, with buffer blocks on a range of a chip.
pub struct Tbm<S, N> {
    store: S,
    nand: BlockRange<N>,
    geometry: Geometry,
    settings: Bounds,
    victim_reads: VictimReads,
    page_count: u32,
    blocks: BlockTable,
    summary: Summary,
    versions: Versions,
    page: Vec<u8>,
    /// Logical pages whose newest version cannot be read and which have not been written since.
    lost: BTreeSet<u32>,
    /// Whether `lost` has changed since the record was written.
    is_lost_new: bool,
    condition: Condition,
    counters: TbmCounters,
    /// The rule for pages that go to the store below at once, if one is set.
    direct: Option<alloc::boxed::Box<Direct>>,
}

impl<S: PageStore, N: Nand> Tbm<S, N> {
    /// Makes an empty TBM over a store and erases its blocks. The store keeps its contents, except for its
    /// last pages, which the record uses.
    pub fn format(store: S, nand: BlockRange<N>, settings: &TbmConfig) -> Result<Tbm<S, N>, StoreError> {
        let mut tbm = Tbm::new(store, nand, *settings)?;
        tbm.blocks.retire_marked(&mut tbm.nand)?;
        // No cut may leave an older record above blocks that are gone.
        tbm.write_record(0)?;
        for pbn in (0..tbm.nand.geometry().blocks).map(Pbn) {
            if tbm.blocks.state(pbn) == BlockState::Unclean
                && tbm.blocks.erase(&mut tbm.nand, pbn, Cause::Checkpoint)?
            {
                tbm.blocks.release(pbn);
            }
        }
        tbm.require_blocks()?;
        tbm.write_record(tbm.versions.void_below)?;
        Ok(tbm)
    }

    fn new(store: S, nand: BlockRange<N>, settings: TbmConfig) -> Result<Tbm<S, N>, StoreFault> {
        let geometry = nand.geometry();
        let refuse = |what: String| Err(StoreError::Unsupported(what.into()));
        if let Err(error) = geometry.validate() {
            return Ok(refuse(message!("the blocks of a TBM: {error}"))?);
        }
        if (geometry.spare_bytes as usize) < SPARE_BYTES {
            let has = geometry.spare_bytes;
            let needs = SPARE_BYTES as u32;
            return Err(StoreError::SpareTooSmall { who: words("a TBM"), needs, has }.into());
        }
        if geometry.blocks > BLOCKS_MAX {
            let has = geometry.blocks;
            return Ok(refuse(message!("a TBM takes at most {BLOCKS_MAX} blocks, its range has {has}"))?);
        }
        if geometry.pages_per_block > summary::PLACES_MAX {
            let (has, most) = (geometry.pages_per_block, summary::PLACES_MAX);
            return Ok(refuse(message!("a TBM takes blocks of at most {most} pages, these have {has}"))?);
        }
        if store.page_bytes() != geometry.page_bytes as usize {
            let (has, below) = (geometry.page_bytes, store.page_bytes());
            return Ok(refuse(message!("a TBM on pages of {has} bytes over a store with pages of {below}"))?);
        }
        let record_pages = record::pages_needed(geometry.blocks, store.page_bytes());
        if settings.blocks == 0 || store.page_count() <= record_pages {
            let (pages, blocks) = (store.page_count(), settings.blocks);
            return Ok(refuse(message!("a TBM of {blocks} blocks over a store of {pages} pages"))?);
        }
        Ok(Tbm {
            page_count: store.page_count() - record_pages,
            store,
            nand,
            geometry,
            settings: Bounds { blocks: settings.blocks, whole_from: settings.whole_from },
            victim_reads: settings.victim_reads,
            blocks: BlockTable::new(geometry),
            summary: Summary::default(),
            versions: Versions::new(),
            page: vec![0; geometry.page_bytes as usize],
            lost: BTreeSet::new(),
            is_lost_new: false,
            condition: Condition::Ready,
            counters: TbmCounters::default(),
            direct: None,
        })
    }

    fn require_blocks(&self) -> Result<(), StoreFault> {
        let (good, blocks) = (self.blocks.good_count(), self.settings.blocks);
        if blocks <= good.saturating_sub(SPARE_BLOCKS_MIN) {
            return Ok(());
        }
        Err(StoreError::unsupported(message!(
            "a TBM of {blocks} buffer blocks needs {SPARE_BLOCKS_MIN} more; its range has {good} good ones"
        ))
        .into())
    }

    fn write_record(&mut self, void_below: u64) -> Result<(), StoreFault> {
        let erases = (0..self.geometry.blocks).map(|pbn| self.blocks.erase_count(Pbn(pbn))).collect();
        Record { void_below, erases, lost: self.lost.clone() }.write(&mut self.store, self.geometry)?;
        self.is_lost_new = false;
        Ok(())
    }

    /// Notes that the newest version of a logical page cannot be read, so that no older version passes for
    /// it. Returns the error if the record has no room for one more.
    fn note_lost(&mut self, lpn: Lpn, error: StoreFault) -> Result<(), StoreFault> {
        if self.lost.len() == record::LOST_MAX && !self.lost.contains(&lpn.0) {
            return Err(error);
        }
        self.is_lost_new |= self.lost.insert(lpn.0);
        debug_assert!(lpn.0 < self.page_count, "{lpn} is lost and beyond the store");
        debug_assert!(self.lost.len() <= record::LOST_MAX, "more pages are lost than the record takes");
        Ok(())
    }

    /// Notes that a logical page was written or trimmed in the store below, and so is no longer lost.
    fn note_found(&mut self, lpn: Lpn) {
        self.is_lost_new |= self.lost.remove(&lpn.0);
    }

    fn tell_lost(&mut self) -> Result<(), StoreFault> {
        if self.is_lost_new { self.write_record(self.versions.void_below) } else { Ok(()) }
    }

    /// The store below the TBM.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The range of blocks that holds the buffer blocks.
    pub fn range(&self) -> &BlockRange<N> {
        &self.nand
    }

    /// Takes the TBM apart into the store below and the range of blocks. Nothing is written first, as in a
    /// power cut.
    pub fn into_parts(self) -> (S, BlockRange<N>) {
        (self.store, self.nand)
    }

    /// Counters since the TBM was formatted or mounted.
    pub fn counters(&self) -> TbmCounters {
        self.counters
    }

    /// The buffer blocks in use: logical block, physical block, and number of pages programmed.
    pub fn buffer_blocks(&self) -> impl Iterator<Item = (u32, Pbn, u32)> + '_ {
        self.summary.iter().map(|(lbn, buffer)| (lbn, buffer.pbn, buffer.pages()))
    }

    /// The states and the wear of the TBM's blocks.
    pub fn blocks(&self) -> &BlockTable {
        &self.blocks
    }

    fn split(&self, lpn: Lpn) -> (u32, u32) {
        (lpn.0 / self.geometry.pages_per_block, lpn.0 % self.geometry.pages_per_block)
    }

    fn lpn_at(&self, lbn: u32, place: u32) -> Lpn {
        debug_assert!(place < self.geometry.pages_per_block, "place {place} of a logical block");
        Lpn(lbn * self.geometry.pages_per_block + place)
    }

    fn require(&self, lpn: Lpn, bytes: usize) -> Result<(), StoreFault> {
        let expected = self.page.len();
        if lpn.0 >= self.page_count {
            return Err(StoreError::OutOfRange(lpn).into());
        }
        if bytes == expected { Ok(()) } else { Err(StoreError::WrongLength { expected, got: bytes }.into()) }
    }

    fn ready(&self) -> Result<(), StoreFault> {
        if self.condition == Condition::Interrupted {
            return Err(StoreError::Interrupted.into());
        }
        Ok(())
    }

    fn writable(&self) -> Result<(), StoreFault> {
        self.ready()?;
        if self.condition == Condition::Worn { Err(StoreError::WornOut.into()) } else { Ok(()) }
    }

    /// Stops all writing. Either too many blocks failed, or an operation failed half-way.
    fn stopped(&mut self, error: StoreError) -> StoreFault {
        if error.is_refusal() {
            self.condition = Condition::Worn;
            return StoreError::WornOut.into();
        }
        self.condition = Condition::Interrupted;
        error.into()
    }

    /// Number of buffer blocks that the remaining good blocks allow.
    fn buffers_max(&self) -> u32 {
        let used = self.summary.len() + self.blocks.free_count();
        self.settings.blocks.min(used.saturating_sub(SPARE_BLOCKS_MIN))
    }
}

fn unreadable(ppn: Ppn) -> StoreFault {
    StoreFault::corrupted("a page of a buffer block cannot be read", ppn.0)
}
