//! Where the nodes are and how they are read: the tables in RAM, the records that wait there, and the chain
//! of a node.

use super::cache::{AT_HAND, ReadCache};
use super::config::{Config, Format, LogArea};
use super::given_back::GivenBack;
use super::image::{Node, Shapes};
use super::layout::{GENERATION_BITS, IplTag, Link, PageKind, SEQUENCE_BITS};
use super::slots::Slots;
pub(super) use super::slots::{NO_BLOCK, Slot};
use super::views::has_whole_units;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use nandex::blocks::BlockTable;
use nandex::blocks::checkpoint::CheckpointArea;
use nandex::check::{IndexError, Invariant};
use nandex::codec::{crc32, get_u40, numbers, put_u40};
use nandex::nand::{Cause, Geometry, Nand, NandError, Reading, read_again};
use nandex::units::{Pbn, Ppn};

/// The root's number, for ever.
pub(super) const ROOT: u32 = 0;

/// A sequence number of five bytes, as on the chip: there are two for each block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Number([u8; 5]);

impl From<u64> for Number {
    fn from(number: u64) -> Number {
        let mut bytes = [0; 5];
        put_u40(&mut bytes, 0, number);
        Number(bytes)
    }
}

impl Number {
    pub(super) fn get(self) -> u64 {
        get_u40(&self.0, 0)
    }
}

/// The state of a block of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    /// Number in the order of opening.
    pub(super) generation: u32,
    /// The next log unit; in a dynamic block the next image goes there as well.
    pub(super) cursor: u16,
    /// The next page for an image, in a fixed block.
    pub(super) data_next: u16,
    /// Nodes that are here.
    pub(super) live: u16,
    /// Log units programmed.
    pub(super) units: u16,
    /// Nothing here is older than this number.
    pub(super) born: Number,
    /// Nothing here is newer.
    pub(super) newest: Number,
}

/// Records of a block that are not programmed yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    pub(super) bytes: Vec<u8>,
    /// Bytes that they take in a unit.
    pub(super) encoded: usize,
    pub(super) first: u64,
}

/// The counters of the tree, besides the chip's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct IplCounts {
    /// Nodes that came out of another one.
    pub(super) splits: u64,
    /// Nodes that became empty and left the tree.
    pub(super) expelled: u64,
    pub(super) merges: u64,
    pub(super) block_splits: u64,
    pub(super) co_merges: u64,
    pub(super) ghosts: u64,
    pub(super) rewrites: u64,
    pub(super) log_units_programmed: u64,
    pub(super) log_units_read: u64,
    pub(super) log_records: u64,
    pub(super) commits_forced: u64,
    pub(super) blocks_failed: u64,
    pub(super) checkpoints: u64,
    pub(super) cache_hits: u64,
    pub(super) cache_misses: u64,
}

/// Nodes in blocks of a chip.
pub(super) struct Store<N> {
    pub(super) nand: N,
    pub(super) geometry: Geometry,
    pub(super) format: Format,
    pub(super) config: Config,
    pub(super) shapes: Shapes,
    pub(super) table: BlockTable,
    pub(super) area: CheckpointArea,
    pub(super) blocks: Vec<Block>,
    /// By node number.
    pub(super) slots: Slots,
    pub(super) waiting: BTreeMap<u32, Waiting>,
    pub(super) waiting_bytes: usize,
    /// Blocks whose nodes are elsewhere, kept until the next commit.
    pub(super) held: Vec<Pbn>,
    /// In place: pages that nodes left, kept until the next commit.
    pub(super) pending: Vec<Ppn>,
    /// Blocks that failed a program and are to be marked bad.
    pub(super) failed: Vec<Pbn>,
    pub(super) sequence: u64,
    pub(super) committed: u64,
    pub(super) generation: u32,
    /// Blocks up to this generation are opened whole.
    pub(super) opened: u32,
    pub(super) given_back: GivenBack,
    pub(super) session: u32,
    /// The link to the page that this session programmed last.
    pub(super) before: Link,
    /// The newest checkpoint is a closing one.
    pub(super) closed: bool,
    /// Whether the chip says that changes of the class *none* are under way.
    pub(super) is_open: bool,
    /// The mount found no block to write to: nothing is changed any more.
    pub(super) read_only: bool,
    /// A block could not be marked bad: nothing is changed any more, and what was not committed before cannot
    /// be.
    pub(super) has_ended: bool,
    /// Blocks with a page that had to be read more than once, to be merged by the next operation that writes.
    pub(super) weak: Vec<Pbn>,
    pub(super) opened_since_checkpoint: u32,
    pub(super) cache: ReadCache,
    /// The page at hand, while one node is read.
    pub(super) at_hand: Option<Ppn>,
    pub(super) page: Vec<u8>,
    pub(super) spare: Vec<u8>,
    pub(super) moving: Node,
    pub(super) counts: IplCounts,
}

/// Damage at a page.
pub(super) fn corrupted(invariant: Invariant, what: &'static str, at: Ppn) -> IndexError {
    IndexError::broken(invariant, what, u64::from(at.0))
}

impl<N: Nand> Store<N> {
    /// Log units of a block, those of pages that hold images included.
    pub(super) fn units_per_block(&self) -> u32 {
        self.geometry.pages_per_block * self.units_per_page()
    }

    pub(super) fn units_per_page(&self) -> u32 {
        self.format.units_per_page(self.geometry)
    }

    pub(super) fn is_fixed(&self) -> bool {
        self.format.area == LogArea::Fixed
    }

    pub(super) fn block(&mut self, pbn: Pbn) -> &mut Block {
        &mut self.blocks[pbn.index()]
    }

    /// Log units that the block still takes.
    pub(super) fn room(&self, pbn: Pbn) -> u32 {
        if self.is_placed() {
            return self.room_placed(pbn);
        }
        self.units_per_block() - u32::from(self.blocks[pbn.index()].cursor)
    }

    /// Where a node is.
    pub(super) fn slot(&self, id: u32) -> Result<Slot, IndexError> {
        match self.slots.get(id) {
            Some(slot) if slot.block != NO_BLOCK => Ok(*slot),
            _ => Err(IndexError::broken(Invariant::I3, "a child that does not exist", u64::from(id))),
        }
    }

    /// The block of a node that exists.
    pub(super) fn block_of(&self, id: u32) -> Pbn {
        let block = self.slots[id as usize].block;
        assert!(block != NO_BLOCK, "I3: node {id} does not exist");
        Pbn(block)
    }

    /// A number for a new node, which is nowhere yet.
    pub(super) fn new_id(&mut self) -> u32 {
        if let Some(id) = self.slots.take_free() {
            return id;
        }
        self.slots.push(Slot::NONE);
        self.slots.len() as u32 - 1
    }

    /// Puts a node somewhere.
    pub(super) fn set_slot(&mut self, id: u32, slot: Slot) {
        let old = core::mem::replace(&mut self.slots[id as usize], slot);
        if old.block == slot.block {
            return;
        }
        self.blocks[slot.block as usize].live += 1;
        self.leave(old);
    }

    /// Refuses what changes a tree that has given nearly all its numbers: it can be read, closed and mounted.
    pub(super) fn require_numbers(&self) -> Result<(), IndexError> {
        let counted = u64::from(self.generation.max(self.session));
        let has_numbers = self.sequence < numbers(SEQUENCE_BITS) && counted < numbers(GENERATION_BITS);
        if has_numbers && self.area.has_numbers() { Ok(()) } else { Err(IndexError::WornOut) }
    }

    /// Takes a node out of the tree.
    pub(super) fn drop_node(&mut self, id: u32) {
        let old = core::mem::replace(&mut self.slots[id as usize], Slot::NONE);
        assert!(old.block != NO_BLOCK, "I3: node {id} is dropped twice");
        self.sequence += 1;
        self.note_pending(old);
        self.leave(old);
        self.slots.give_back(id);
    }

    /// A node left its place; a block that is left by the last one waits for the commit.
    fn leave(&mut self, old: Slot) {
        if old.block == NO_BLOCK {
            return;
        }
        let pbn = Pbn(old.block);
        // No record here says so; but the block is wanted if a cut comes before the commit.
        let sequence = self.sequence;
        let block = self.block(pbn);
        block.newest = sequence.into();
        debug_assert!(block.live > 0, "I3: a node leaves {pbn}, which has none");
        block.live -= 1;
        if self.blocks[pbn.index()].live == 0 {
            self.forget_waiting(pbn);
            debug_assert!(!self.held.contains(&pbn), "I4: {pbn} is kept twice");
            self.held.push(pbn);
        }
    }

    /// Frees what is only at hand for the next use.
    pub(super) fn drop_scratch(&mut self) {
        self.moving = Node::default();
        self.held.shrink_to_fit();
    }

    /// Bytes of RAM of the records that wait.
    pub(super) fn waiting_ram(&self) -> usize {
        // An entry of the map, with its share of a tree node.
        const ENTRY_BYTES: usize = 64;
        self.waiting_bytes + self.waiting.len() * ENTRY_BYTES
    }

    pub(super) fn forget_waiting(&mut self, pbn: Pbn) {
        if let Some(waiting) = self.waiting.remove(&pbn.0) {
            self.waiting_bytes -= waiting.bytes.capacity();
        }
        debug_assert!(
            !self.waiting.is_empty() || self.waiting_bytes == 0,
            "{} bytes of no record wait",
            self.waiting_bytes
        );
    }
}

/// Reading.
impl<N: Nand> Store<N> {
    pub(super) fn unit_page(&self, pbn: Pbn, unit: u16) -> Ppn {
        debug_assert!(u32::from(unit) < self.units_per_block(), "I5: unit {unit} of {pbn}");
        let page = u32::from(unit) / self.units_per_page();
        let page = if self.is_placed() { self.geometry.pages_per_block - 1 - page } else { page };
        self.geometry.page_at(pbn, page)
    }

    /// Notes how a page was read: the block of a weak one is merged by the next operation that writes.
    pub(super) fn note_reading(&mut self, ppn: Ppn, reading: Reading) {
        const WEAK_MAX: usize = 4;
        let pbn = self.geometry.block_of(ppn);
        if reading == Reading::Weak && self.weak.len() < WEAK_MAX && !self.weak.contains(&pbn) {
            self.weak.push(pbn);
        }
    }

    /// Reads a page into a frame and verifies it.
    pub(super) fn read(&mut self, ppn: Ppn, cause: Cause) -> Result<usize, IndexError> {
        if self.at_hand == Some(ppn) {
            return Ok(AT_HAND);
        }
        if cause != Cause::Check {
            if let Some(frame) = self.cache.find(ppn) {
                self.counts.cache_hits += 1;
                return Ok(frame);
            }
            self.counts.cache_misses += 1;
        }
        let frame = if cause == Cause::Check { AT_HAND } else { self.cache.admit(ppn) };
        let (page, unit_bytes) = (self.geometry.page_in_block(ppn), self.format.unit_bytes);
        let is_whole = |data: &[u8], spare: &[u8]| match IplTag::decode(spare) {
            Some(tag) if u32::from(tag.page) != page => false,
            Some(tag) if tag.kind == PageKind::Data => crc32(&[data]) == tag.data_crc,
            Some(_) => has_whole_units(data, unit_bytes),
            None => false,
        };
        let (data, spare) = self.cache.page_mut(frame);
        let reading = read_again(&mut self.nand, (ppn, cause), data, spare, is_whole);
        let result = match reading {
            Err(NandError::Uncorrectable(_)) => {
                Err(IndexError::corrupted("the page cannot be read", ppn.0.into()))
            }
            Err(error) => Err(error.into()),
            Ok(Reading::Whole | Reading::Weak) => Ok(frame),
            Ok(Reading::Broken) => match IplTag::decode(spare) {
                Some(tag) if u32::from(tag.page) != page => {
                    Err(corrupted(Invariant::I4, "a page of another place", ppn))
                }
                Some(tag) if tag.kind == PageKind::Data => {
                    Err(corrupted(Invariant::I4, "an image's checksum does not match", ppn))
                }
                // One of its sectors may be torn, and another one wanted.
                Some(_) => Ok(frame),
                None => Err(corrupted(Invariant::I4, "a page's tag does not match", ppn)),
            },
        };
        if let Ok(reading) = reading {
            self.note_reading(ppn, reading);
        }
        self.at_hand = (frame == AT_HAND && result.is_ok()).then_some(ppn);
        if result.is_err() {
            self.cache.forget(ppn);
        }
        result
    }
}
