//! Where the nodes are and how they are read: the tables in RAM, the records that wait there, and the chain
//! of a node.

use super::cache::{AT_HAND, ReadCache};
use super::config::{Config, Format, LogArea};
use super::given_back::GivenBack;
use super::image::{Node, Shapes};
use super::layout::{
    Change, Head, IplTag, Link, NO_UNIT, PageKind, WAITING_BYTES, groups, push_waiting, records, waiting,
};
use super::views::has_whole_units;
use crate::blocks::BlockTable;
use crate::blocks::checkpoint::CheckpointArea;
use crate::check::IndexError;
use crate::codec::crc32;
use crate::log::Placement;
use crate::nand::{Cause, Geometry, Nand, NandError, Reading, read_again};
use crate::units::{Pbn, Ppn};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// No block: the number names no node.
pub(super) const NO_BLOCK: u32 = u32::MAX;

/// The root's number, for ever.
pub(super) const ROOT: u32 = 0;

/// Where a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) block: u32,
    /// Page of the image in the block; a ghost's is that of the node it came from.
    pub(super) base: u16,
    /// Newest log unit with records of it.
    pub(super) last: u16,
}

impl Slot {
    pub(super) const NONE: Slot = Slot { block: NO_BLOCK, base: 0, last: NO_UNIT };
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
    pub(super) born: u64,
    /// Nothing here is newer.
    pub(super) newest: u64,
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
    pub(super) slots: Vec<Slot>,
    pub(super) free_ids: Vec<u32>,
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
    /// Records of the node that is read.
    pub(super) chain: Vec<u8>,
    pub(super) moving: Node,
    pub(super) counts: IplCounts,
}

/// The records of a node on the way from its newest to its oldest.
struct Walk {
    want: u32,
    /// The nodes that it came from.
    sources: Vec<u32>,
    /// Only records before this one count.
    limit: u64,
    bytes: Vec<u8>,
    /// Where the records of each unit begin, the newest unit first.
    chunks: Vec<usize>,
}

impl Walk {
    /// Whether the node may have begun with the image of this one.
    fn is_of(&self, node: u32) -> bool {
        self.sources.contains(&node)
    }

    /// Takes the wanted node's records in one unit over; the source, if the node was born there as a ghost.
    fn take<'a>(&mut self, found: impl Iterator<Item = (u64, Change<'a>)>) -> Option<u32> {
        let (start, mut born) = (self.bytes.len(), None);
        for (sequence, change) in found.filter(|(sequence, _)| *sequence < self.limit) {
            if let Change::Ghost { source, .. } | Change::GhostOfAll { source, .. } = change {
                self.bytes.truncate(start);
                born = Some((source, sequence));
            }
            push_waiting(&mut self.bytes, self.want, sequence, &change);
        }
        if self.bytes.len() > start {
            self.chunks.push(start);
        }
        let (source, sequence) = born?;
        (self.want, self.limit) = (source, sequence);
        self.sources.push(source);
        Some(source)
    }
}

/// Damage at a page.
pub(super) fn corrupted(what: &'static str, at: Ppn) -> IndexError {
    IndexError::Corrupted { what, at: u64::from(at.0) }
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
        match self.slots.get(id as usize) {
            Some(slot) if slot.block != NO_BLOCK => Ok(*slot),
            _ => Err(IndexError::Corrupted { what: "I3: a child that does not exist", at: u64::from(id) }),
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
        if let Some(id) = self.free_ids.pop() {
            debug_assert!(self.slots[id as usize].block == NO_BLOCK, "I3: number {id} is given out twice");
            return id;
        }
        if self.slots.len() == self.slots.capacity() {
            self.slots.reserve_exact((self.slots.len() / 8).max(64));
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

    /// Takes a node out of the tree.
    pub(super) fn drop_node(&mut self, id: u32) {
        let old = core::mem::replace(&mut self.slots[id as usize], Slot::NONE);
        assert!(old.block != NO_BLOCK, "I3: node {id} is dropped twice");
        self.sequence += 1;
        self.note_pending(old);
        self.leave(old);
        if self.free_ids.len() == self.free_ids.capacity() {
            self.free_ids.reserve_exact(64);
        }
        self.free_ids.push(id);
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
        block.newest = sequence;
        debug_assert!(block.live > 0, "I3: a node leaves {pbn}, which has none");
        block.live -= 1;
        if self.blocks[pbn.index()].live == 0 {
            self.forget_waiting(pbn);
            debug_assert!(!self.held.contains(&pbn), "I4: {pbn} is kept twice");
            self.held.push(pbn);
        }
    }

    /// Bytes of the buffer for a node's records.
    pub(super) fn scratch_bytes(&self) -> usize {
        self.chain.capacity()
    }

    /// Frees that buffer and what else is only at hand for the next use.
    pub(super) fn drop_scratch(&mut self) {
        self.chain = Vec::new();
        self.moving = Node::default();
        self.held.shrink_to_fit();
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
    /// Reads a node: its image and its chain of records.
    pub(super) fn load(&mut self, id: u32, node: &mut Node, cause: Cause) -> Result<(), IndexError> {
        let slot = self.slot(id)?;
        let pbn = Pbn(slot.block);
        let mut walk = Walk {
            want: id,
            sources: Vec::new(),
            limit: u64::MAX,
            bytes: core::mem::take(&mut self.chain),
            chunks: Vec::new(),
        };
        walk.bytes.clear();
        self.at_hand = None;
        let widths = self.shapes.widths();
        if let Some(found) = self.waiting.get(&pbn.0) {
            loop {
                let want = walk.want;
                let of_node = || waiting(widths, &found.bytes).filter(|found| found.0 == want);
                // At once: what grows is held twice.
                walk.bytes
                    .reserve_exact(of_node().map(|found| WAITING_BYTES + widths.fields_of(&found.2)).sum());
                let of_node = of_node();
                if walk.take(of_node.map(|found| (found.1, found.2))).is_none() {
                    break;
                }
            }
        }
        let mut result = Ok(0);
        let (mut unit, mut units) = (slot.last, 0);
        while unit != NO_UNIT && result.is_ok() {
            units += 1;
            result = self.follow(pbn, unit, &mut walk, cause);
            unit = match result {
                Ok(previous) if previous < unit || previous == NO_UNIT => previous,
                Ok(_) => {
                    result = Err(corrupted(
                        "I5: a chain of log units does not go back",
                        self.unit_page(pbn, unit),
                    ));
                    NO_UNIT
                }
                Err(_) => NO_UNIT,
            };
        }
        let result = result.and_then(|_| self.assemble((id, slot), node, &walk, cause));
        node.units = units;
        self.chain = walk.bytes;
        result
    }

    pub(super) fn unit_page(&self, pbn: Pbn, unit: u16) -> Ppn {
        debug_assert!(u32::from(unit) < self.units_per_block(), "I5: unit {unit} of {pbn}");
        let page = u32::from(unit) / self.units_per_page();
        let page = if self.is_placed() { self.geometry.pages_per_block - 1 - page } else { page };
        self.geometry.page_at(pbn, page)
    }

    /// Takes over what one unit holds for the node; the unit before it in the chain.
    fn follow(&mut self, pbn: Pbn, unit: u16, walk: &mut Walk, cause: Cause) -> Result<u16, IndexError> {
        let ppn = self.unit_page(pbn, unit);
        let frame = self.read(ppn, cause)?;
        if cause != Cause::Check {
            self.counts.log_units_read += 1;
        }
        let (generation, size) = (self.blocks[pbn.index()].generation, self.format.unit_bytes);
        let (data, spare) = self.cache.page(frame);
        let at = (u32::from(unit) % self.units_per_page()) as usize * size;
        let bytes = &data[at..at + size];
        let is_log = IplTag::decode(spare).is_some_and(|tag| tag.kind == PageKind::Log);
        let head = Head::decode(bytes).filter(|head| is_log && head.generation == generation);
        let head = head.ok_or(corrupted("I5: a log unit's checksum does not match", ppn))?;
        let mut previous = None;
        loop {
            let want = walk.want;
            let mut nonsense = false;
            let found = groups(bytes).find_map(|group| match group {
                None => {
                    nonsense = true;
                    None
                }
                Some(group) => (group.node == want).then_some(group),
            });
            if nonsense {
                return Err(corrupted("I5: a log unit makes no sense", ppn));
            }
            let Some(group) = found else { break };
            previous.get_or_insert(group.previous);
            let widths = self.shapes.widths();
            let (mut bytes, all) = (0, records(widths, head.first, group.records));
            for record in all {
                let (_, change) = record.ok_or(corrupted("I5: a log record makes no sense", ppn))?;
                bytes += WAITING_BYTES + widths.fields_of(&change);
            }
            walk.bytes.reserve_exact(bytes);
            if walk.take(records(widths, head.first, group.records).flatten()).is_none() {
                break;
            }
        }
        previous.ok_or(corrupted("I5: a log unit holds nothing of the node it is named for", ppn))
    }

    /// Reads the image and applies the records.
    fn assemble(
        &mut self,
        (id, slot): (u32, Slot),
        node: &mut Node,
        walk: &Walk,
        cause: Cause,
    ) -> Result<(), IndexError> {
        let ppn = self.geometry.page_at(Pbn(slot.block), u32::from(slot.base));
        let frame = self.read(ppn, cause)?;
        let (data, spare) = self.cache.page(frame);
        let generation = self.blocks[slot.block as usize].generation;
        // In place the images of a group are of several merges.
        let is_placed = self.config.placement == Placement::InPlace;
        let is_image = |tag: &IplTag| {
            let is_its = tag.node == id || walk.is_of(tag.node);
            tag.kind == PageKind::Data && (is_placed || tag.generation == generation) && is_its
        };
        let tag = IplTag::decode(spare)
            .filter(is_image)
            .ok_or(corrupted("I4: not the image of a node of this block", ppn))?;
        let shape = self.shapes.at(tag.level);
        if tag.level == 0 || usize::from(tag.count) > shape.capacity {
            return Err(corrupted("I1: an impossible node", ppn));
        }
        (node.id, node.level, node.count) = (id, tag.level, tag.count.into());
        node.reserve(&self.shapes);
        node.bytes[..shape.bytes()].copy_from_slice(&data[..shape.bytes()]);
        let ends = walk.chunks.iter().skip(1).copied().chain([walk.bytes.len()]);
        let mut chunks: Vec<(usize, usize)> = walk.chunks.iter().copied().zip(ends).collect();
        chunks.reverse();
        for (start, end) in chunks {
            for (_, sequence, change) in waiting(self.shapes.widths(), &walk.bytes[start..end]) {
                match change {
                    _ if sequence <= tag.sequence => {}
                    Change::Ghost { low, .. } => node.keep_from(&self.shapes, low),
                    Change::GhostOfAll { .. } => {}
                    change => node.apply(&self.shapes, &change)?,
                }
            }
        }
        Ok(())
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
            Err(NandError::Uncorrectable(_)) => Err(corrupted("the page cannot be read", ppn)),
            Err(error) => Err(error.into()),
            Ok(Reading::Whole | Reading::Weak) => Ok(frame),
            Ok(Reading::Broken) => match IplTag::decode(spare) {
                Some(tag) if u32::from(tag.page) != page => {
                    Err(corrupted("I4: a page of another place", ppn))
                }
                Some(tag) if tag.kind == PageKind::Data => {
                    Err(corrupted("I4: an image's checksum does not match", ppn))
                }
                // One of its sectors may be torn, and another one wanted.
                Some(_) => Ok(frame),
                None => Err(corrupted("I4: a page's tag does not match", ppn)),
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
