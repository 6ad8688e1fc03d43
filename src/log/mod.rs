//! The log under the trees that live on raw NAND: where the next page goes, which pages live, what to
//! collect, and how all of it is found again.
//!
//! A tree writes whole pages out of place. It begins an operation ([`Log::begin`]), asks for an address
//! ([`Log::allocate`]), writes the page there ([`Log::write`]), says which pages died ([`Log::invalidate`])
//! and when its operation is over ([`Log::finish`]). The page that holds the new root is written last: what
//! precedes it without such a page is as if never written.
//!
//! * **Frontier**: one open block, programmed in ascending order; the next one is the least worn free block.
//! * **Cache**: the two-part cache of the mu-Tree paper (`parts`). Without a write part every operation is
//!   durable when it returns; with one, every flush is: its pages carry how many are still to come, and a
//!   flush that was cut is dropped whole.
//! * **Collection**: `collect`. The log keeps one valid bit per page, or in less RAM the number of valid
//!   pages of each block (`counted`); the last page of each block also carries the bits of its block as they
//!   were when it was filled (section 5.1), from which a mount after a power cut starts.
//! * **Checkpoint**: root, block table and frontier, written every so many blocks and at close, found from a
//!   fixed place (`blocks::checkpoint`); mounting reads it and follows what was written since (`recovery`).
//! * **Program failure**: the block's pages are copied to another block, which answers to the failed block's
//!   addresses from then on (its home), so that no pointer in the tree changes.

pub mod ahead;
mod cached;
pub mod collect;
mod config;
mod counted;
mod dying;
mod flush;
mod held;
mod needed;
mod opened;
mod parts;
mod placed;
mod program;
mod recovery;
mod replace;
mod room;
mod runs;
mod seen;
mod state;
pub mod tag;

use crate::fault::IndexFault;
pub(crate) use cached::HAS_READ_PART;
pub(crate) use config::left_out;
pub use config::{LogConfig, SamePage, WritePartLimit};
pub(crate) use parts::HAS_WRITE_PART;

pub use parts::Page;
pub use placed::Placement;
pub use tag::{Gaps, Tag};
use tag::{Place, Seal};

use crate::blocks::checkpoint::{CheckpointArea, Contents};
use crate::blocks::{BlockState, BlockTable, Wear};
use crate::nand::{Cause, Geometry, Nand, Reading, read_again};
use crate::units::{Pbn, Ppn};
use ahead::WEAK_MAX;
use alloc::vec;
use alloc::vec::Vec;
use cached::ReadPart;
use held::Held;
use needed::Needed;
use parts::WritePart;
use recovery::check_config;
use room::Capacity;
pub use runs::Runs;
use state::State;

/// Whether checkpoints may be closing ones, by what the engine was built with. Without them a mount follows
/// what was written since, whatever a checkpoint says of itself.
const CLOSES: bool = cfg!(feature = "closing");

/// Bytes that the owner has a checkpoint keep, as it says them; none where it had the log keep them.
pub type Note<'a> = Option<&'a dyn Contents>;

/// Where the tree hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// The page that holds the root.
    pub ppn: Ppn,
    /// Levels of the tree.
    pub height: u8,
}

/// The counters of the log, besides the chip's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounters {
    /// Reads answered by either part of the cache.
    pub cache_hits: u64,
    /// Reads that went to the chip.
    pub cache_misses: u64,
    /// Victim blocks reclaimed.
    pub collections: u64,
    /// Pages of victims that were asked to move.
    pub relocations: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Checkpoints that found no block.
    pub checkpoints_skipped: u64,
    /// Blocks replaced after a program failure.
    pub blocks_replaced: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frontier {
    block: Option<Pbn>,
    next_page: u32,
    block_sequence: u32,
}

/// The log allocator.
pub struct Log<N> {
    nand: N,
    geometry: Geometry,
    config: LogConfig,
    owner: Vec<u8>,
    blocks: BlockTable,
    area: CheckpointArea,
    /// (home, block that answers to its addresses), sorted.
    replaced: Vec<(Pbn, Pbn)>,
    frontier: Frontier,
    needed: Needed,
    sequence: u64,
    root: Option<Root>,
    /// Pages that die when the operation under way is finished.
    dying: Vec<Ppn>,
    /// Journal leaves that a mount found after the newest root, oldest first.
    journal: Runs,
    /// Addresses that no page is given.
    held: Held,
    /// The bytes that the owner has each checkpoint keep, while one is written or just mounted.
    note: Vec<u8>,
    /// Bytes that a note may have, or had last, where the owner says it itself.
    note_bound: usize,
    /// Blocks marked bad when the chip was formatted.
    bad_at_format: u32,
    capacity: Capacity,
    /// Addresses passed over since the last page that was programmed.
    passed_over: u32,
    /// Where pages keep their places: no place below is free.
    next_free: u32,
    /// The write part could not be programmed whole: what it holds can be read, and that is all.
    flush_failed: bool,
    /// The operation under way has replaced a page of the write part: without its end what the part holds is
    /// no tree.
    is_part_divided: bool,
    /// The low half of each block's number in the order of opening, by home: older pages are no pages of it.
    openings: Vec<u16>,
    /// Pages that were hard to read, to be written elsewhere.
    weak: Vec<Ppn>,
    /// One of them is being moved.
    moves_weak: bool,
    /// Pages that the round of scrubbing has passed.
    scrubbed: u32,
    /// The operation under way goes on after the next root: what is programmed of it is no root yet.
    goes_on: bool,
    reads: ReadPart,
    writes: WritePart,
    page: PageBuffer,
    /// The page whose contents the buffer holds.
    loaded: Option<Ppn>,
    blocks_since_checkpoint: u32,
    /// The newest checkpoint is a closing one: a mount looks for what followed it in one place only.
    closed: bool,
    /// The gaps that whoever wrote the checkpoint that was mounted passed over.
    gaps_before: Gaps,
    /// The state that a mount found is not behind a checkpoint yet.
    needs_checkpoint: bool,
    /// A block that a mount took for reclaimed may be a damaged one: the tree may lead to it.
    in_doubt: bool,
    /// Valid bits were guessed from the counts of a checkpoint.
    is_guessed: bool,
    counters: LogCounters,
}

struct PageBuffer {
    tag: Tag,
    data: Vec<u8>,
    spare: Vec<u8>,
}

impl PageBuffer {
    fn new(geometry: &Geometry) -> PageBuffer {
        PageBuffer {
            tag: Tag::default(),
            data: vec![0; geometry.page_bytes as usize],
            spare: vec![0; tag::spare_bytes_needed(geometry.pages_per_block)],
        }
    }

    /// The place in the log of the page in the buffer, which is whole.
    fn place(&self) -> Place {
        tag::place_of(&self.spare)
    }
}

impl<N: Nand> Log<N> {
    /// Erases the chip and starts an empty log. `owner` says whose log it is; [`Log::mount`] gives it back.
    #[inline(never)]
    pub fn format(mut nand: N, config: LogConfig, owner: &[u8]) -> Result<Log<N>, IndexFault> {
        if config.is_placed() {
            return Log::format_placed(nand, config, owner);
        }
        let geometry = nand.geometry();
        check_config(&geometry, &config)?;
        let mut blocks = BlockTable::keeping(geometry, config.validity);
        blocks.follow(config.victim);
        blocks.retire_marked(&mut nand)?;
        let area = CheckpointArea::format(&mut nand, &mut blocks)?;
        for pbn in (0..geometry.blocks).map(Pbn) {
            if blocks.state(pbn) == BlockState::Unclean && blocks.erase(&mut nand, pbn, Cause::Checkpoint)? {
                blocks.release(pbn);
            }
        }
        let mut state = State::new(blocks, owner);
        state.sequence = crate::codec::first_number(tag::SEQUENCE_BITS, state.sequence);
        state.frontier.block_sequence = crate::codec::first_number(tag::BLOCK_BITS, 0) as u32;
        let mut log = Log::assemble(nand, config, area, state);
        log.recount();
        log.bad_at_format = log.geometry.blocks - log.blocks.good_count();
        Ok(log)
    }

    fn assemble(nand: N, config: LogConfig, area: CheckpointArea, state: State) -> Log<N> {
        let geometry = nand.geometry();
        Log {
            geometry,
            config,
            owner: state.owner,
            blocks: state.blocks,
            area,
            replaced: state.replaced,
            needed: Needed::since_checkpoint(&state.frontier),
            frontier: state.frontier,
            sequence: state.sequence,
            root: state.root,
            dying: Vec::new(),
            journal: Runs::default(),
            held: Held::default(),
            note: state.note,
            note_bound: 0,
            bad_at_format: state.bad_at_format,
            capacity: Capacity::default(),
            passed_over: 0,
            next_free: 0,
            flush_failed: false,
            is_part_divided: false,
            openings: state.openings,
            weak: Vec::new(),
            moves_weak: false,
            scrubbed: 0,
            goes_on: false,
            reads: ReadPart::new(config.read_pages, geometry.page_bytes as usize),
            writes: WritePart::new(config.write_pages, geometry.page_bytes as usize),
            page: PageBuffer::new(&geometry),
            loaded: None,
            blocks_since_checkpoint: 0,
            closed: state.closed,
            gaps_before: state.gaps,
            needs_checkpoint: false,
            in_doubt: false,
            is_guessed: state.is_guessed,
            counters: LogCounters::default(),
            nand,
        }
    }

    /// The shape of the chip.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// How the log was set up.
    pub fn config(&self) -> LogConfig {
        self.config
    }

    /// The name of the owner, as [`Log::format`] was told.
    pub fn owner(&self) -> &[u8] {
        &self.owner
    }

    /// The page written last that holds a root.
    pub fn root(&self) -> Option<Root> {
        self.root
    }

    /// The counters of the log so far.
    pub fn counters(&self) -> LogCounters {
        self.counters
    }

    /// Valid pages on the whole chip.
    pub fn live_pages(&self) -> u64 {
        u64::from(self.blocks.live_pages())
    }

    /// Whether a page holds something that lives.
    pub fn is_valid(&self, ppn: Ppn) -> bool {
        ppn.0 < self.geometry.pages() && self.blocks.is_valid(ppn)
    }

    /// Pages that can still be written before a block must be reclaimed.
    pub fn free_pages(&self) -> u32 {
        if self.is_placed() {
            return self.geometry.pages() - self.blocks.live_pages();
        }
        debug_assert!(
            self.frontier.next_page <= self.geometry.pages_per_block,
            "the open block is more than full"
        );
        let open = match self.frontier.block {
            Some(_) => self.geometry.pages_per_block - self.frontier.next_page,
            None => 0,
        };
        (self.blocks.free_count() * self.geometry.pages_per_block + open).saturating_sub(self.held.ahead())
    }

    /// Bytes of RAM held: block table, cache parts and buffers.
    pub fn ram_bytes(&self) -> usize {
        let page = self.page.data.len() + self.page.spare.len();
        let reads = self.reads.pages() * (self.geometry.page_bytes as usize + 64);
        let lists = self.openings.len() * size_of::<u16>() + WEAK_MAX * size_of::<Ppn>();
        let tables = self.nand.ram_bytes()
            + self.blocks.ram_bytes()
            + self.area.ram_bytes(0)
            + self.held.ram_bytes()
            + lists;
        tables + page + reads + self.writes.ram_bytes()
    }

    /// Reads a page through the cache.
    pub fn read(&mut self, ppn: Ppn, cause: Cause) -> Result<Page<'_>, IndexFault> {
        if cause == Cause::Check {
            return self.peek(ppn);
        }
        if let Some(frame) = self.reads.find(ppn) {
            self.counters.cache_hits += 1;
            return Ok(self.reads.page(frame));
        }
        if self.writes.find(ppn).is_some() {
            self.counters.cache_hits += 1;
            return Ok(self.written(ppn));
        }
        self.counters.cache_misses += 1;
        self.load(ppn, cause)?;
        if self.reads.pages() == 0 {
            return Ok(Page { tag: &self.page.tag, data: &self.page.data });
        }
        self.loaded = None;
        Ok(self.reads.admit(ppn, self.page.tag, &mut self.page.data))
    }

    /// Reads a page that the operation read just before, for another of its nodes: it is still at hand, at no
    /// cost.
    pub fn again(&mut self, ppn: Ppn, cause: Cause) -> Result<Page<'_>, IndexFault> {
        if let Some(frame) = self.reads.find(ppn) {
            return Ok(self.reads.page(frame));
        }
        if self.writes.find(ppn).is_some() {
            return Ok(self.written(ppn));
        }
        if self.loaded == Some(ppn) {
            return Ok(Page { tag: &self.page.tag, data: &self.page.data });
        }
        self.read(ppn, cause)
    }

    /// Reads a page for a checker: neither counted nor kept.
    fn peek(&mut self, ppn: Ppn) -> Result<Page<'_>, IndexFault> {
        if self.writes.find(ppn).is_some() {
            return Ok(self.written(ppn));
        }
        self.load(ppn, Cause::Check)?;
        Ok(Page { tag: &self.page.tag, data: &self.page.data })
    }

    fn written(&self, ppn: Ppn) -> Page<'_> {
        debug_assert!(self.writes.find(ppn).is_some(), "{ppn} is not in the write part");
        match self.writes.find(ppn) {
            Some(slot) => Page { tag: &slot.tag, data: &slot.data },
            None => unreachable!("the caller found {ppn} in the write part"),
        }
    }

    /// Reads a page from the chip into the buffer and verifies it.
    fn load(&mut self, ppn: Ppn, cause: Cause) -> Result<(), IndexFault> {
        if ppn.0 >= self.geometry.pages() {
            return Err(IndexFault::corrupted("a page address beyond the chip", ppn.0));
        }
        let (physical, cause) = (self.physical(ppn), self.charged(cause));
        self.loaded = None;
        let seal = Seal { owner: &self.owner, page: self.geometry.page_in_block(ppn) };
        let reading = read_again(
            &mut self.nand,
            (physical, cause),
            &mut self.page.data,
            &mut self.page.spare,
            |data, spare| tag::is_whole(spare, data, seal),
        )?;
        if reading == Reading::Broken {
            return Err(IndexFault::corrupted("the page's checksum does not match", ppn.0));
        }
        let (home, account) = (self.geometry.block_of(ppn), self.account());
        if account.home != home {
            return Err(IndexFault::corrupted("the page belongs to another address", ppn.0));
        }
        if account.number as u16 != self.openings[home.index()] {
            return Err(IndexFault::corrupted("an old version of the page", ppn.0));
        }
        self.page.tag = tag::tag_of(&self.page.spare);
        self.loaded = Some(ppn);
        if reading == Reading::Weak {
            self.note_weak(ppn);
        }
        Ok(())
    }

    fn physical(&self, ppn: Ppn) -> Ppn {
        if self.replaced.is_empty() {
            return ppn;
        }
        let home = self.geometry.block_of(ppn);
        self.geometry.page_at(self.physical_block(home), self.geometry.page_in_block(ppn))
    }

    fn physical_block(&self, home: Pbn) -> Pbn {
        match self.replaced.binary_search_by_key(&home, |pair| pair.0) {
            Ok(i) => self.replaced[i].1,
            Err(_) => home,
        }
    }

    /// The address the next page will have. The caller made room before ([`collect::make_room`]).
    pub fn allocate(&mut self, cause: Cause) -> Result<Ppn, IndexFault> {
        if self.is_placed() {
            return self.free_place();
        }
        if self.writes.pages() == 0 {
            return self.next_address(cause);
        }
        if let Some(ppn) = self.writes.revive() {
            return Ok(ppn);
        }
        self.flush_within(cause)?;
        let ppn = self.next_address(cause)?;
        self.writes.push(ppn, self.frontier.block_sequence);
        Ok(ppn)
    }

    fn next_address(&mut self, cause: Cause) -> Result<Ppn, IndexFault> {
        loop {
            let ppn = self.next_page(cause)?;
            if !self.held.contains(ppn) {
                return Ok(ppn);
            }
            self.pass_over(ppn, cause)?;
        }
    }

    fn next_page(&mut self, cause: Cause) -> Result<Ppn, IndexFault> {
        let block = match self.frontier.block {
            Some(block) if self.frontier.next_page < self.geometry.pages_per_block => block,
            _ => self.open_block(cause)?,
        };
        let ppn = self.geometry.page_at(block, self.frontier.next_page);
        debug_assert_eq!(self.geometry.block_of(ppn), block, "an address beyond the open block");
        self.frontier.next_page += 1;
        Ok(ppn)
    }

    fn open_block(&mut self, cause: Cause) -> Result<Pbn, IndexFault> {
        let block = self.take_erased_block(cause)?;
        debug_assert_ne!(self.frontier.block, Some(block), "{block} is open already");
        if let Some(full) = self.frontier.block {
            self.blocks.close(full);
        }
        let block_sequence = self.frontier.block_sequence + 1;
        self.frontier = Frontier { block: Some(block), next_page: 0, block_sequence };
        self.openings[block.index()] = block_sequence as u16;
        self.blocks.follow_pages_of(block);
        self.blocks_since_checkpoint += 1;
        self.recount();
        Ok(block)
    }

    fn take_erased_block(&mut self, cause: Cause) -> Result<Pbn, IndexFault> {
        let cause = self.charged(cause);
        match self.blocks.take_erased(&mut self.nand, Wear::Least, cause) {
            Ok(block) => Ok(block),
            Err(error) => {
                self.recount();
                Err(self.worn_or(error.into()))
            }
        }
    }

    /// Writes a page at an address that [`Log::allocate`] gave.
    pub fn write(&mut self, ppn: Ppn, mut tag: Tag, data: &[u8], cause: Cause) -> Result<(), IndexFault> {
        debug_assert!(!tag.root || tag.height > 0, "R2: a root of no height");
        debug_assert!(usize::from(tag.lowest_level) <= tag::LEVELS_MAX, "R2: level {}", tag.lowest_level);
        self.sequence += 1;
        self.blocks.mark_valid(ppn);
        if tag.root {
            self.root = Some(Root { ppn, height: tag.height });
        }
        tag.root &= !self.goes_on;
        let sequence = self.sequence;
        if let Some(slot) = self.writes.find_mut(ppn) {
            slot.sequence = sequence;
            slot.tag = tag;
            slot.data.copy_from_slice(data);
            return Ok(());
        }
        assert_eq!(self.writes.pages(), 0, "{ppn} was not allocated");
        if tag.root {
            self.needed = Needed::since(self.frontier.block_sequence);
        }
        let place = tag::Place {
            remaining: 0,
            block_sequence: self.frontier.block_sequence,
            sequence,
            home: self.geometry.block_of(ppn).0,
            gaps: self.gaps(),
            passed_over: 0,
        };
        self.program(ppn, (&tag, &place), data, cause)
    }

    /// Begins an operation that will write so many pages at most: programs an overfull write part.
    pub fn begin(&mut self, pages: u32) -> Result<(), IndexFault> {
        self.require_sound_part()?;
        // What an operation that met a damaged page was about to replace is still there.
        self.dying.clear();
        self.is_part_divided = false;
        if self.writes.pages() == 0 {
            return Ok(());
        }
        if self.writes.len() > self.part_limit() {
            self.flush(Cause::CacheEviction)?;
        }
        self.secure(pages)
    }

    /// Whether enough blocks were filled for another checkpoint.
    pub fn wants_checkpoint(&self) -> bool {
        self.blocks_since_checkpoint >= self.config.checkpoint_blocks && !self.is_placed()
    }

    /// Whether so few blocks are free that garbage should be collected.
    pub fn wants_collection(&self) -> bool {
        self.is_short_of_blocks(0)
    }

    /// Whether garbage should be collected if so many blocks more were to be free.
    fn is_short_of_blocks(&self, more: u32) -> bool {
        let held_blocks = self.held.ahead().div_ceil(self.geometry.pages_per_block);
        self.blocks.free_count() <= self.config.collect_at_blocks + held_blocks + more
    }

    /// Says that the operation goes on after the next root, or does so no longer: until then a mount finds
    /// nothing of it.
    pub fn set_goes_on(&mut self, goes_on: bool) {
        self.goes_on = goes_on;
    }

    /// Gives the chip back.
    pub fn into_nand(self) -> N {
        self.nand
    }
}
