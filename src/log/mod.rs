//! The log of the trees on raw NAND: it decides where the next page goes, which pages are live and which
//! block is collected, and finds all of this again after a mount.
//!
//! A tree writes whole pages out of place. It begins an operation ([`Log::begin`]), gets an address
//! ([`Log::allocate`]), writes the page there ([`Log::write`]), tells which pages died ([`Log::invalidate`])
//! and ends its operation ([`Log::finish`]). The page with the new root is written last: without it, a mount
//! ignores the earlier pages of the operation.
//!
//! * **Frontier**: one open block, programmed in ascending order. The next open block is the least worn free
//!   one.
//! * **Cache**: the two-part cache of the mu-Tree paper (`parts`). Without a write part every operation is
//!   durable when it returns. With one, every flush is durable: its pages tell how many are still to come,
//!   and a flush that was cut is dropped whole.
//! * **Collection**: `collect`. The log keeps one valid bit per page or, in less RAM, the number of valid
//!   pages of each block (`counted`). The last page of each block also holds the valid bits of the block at
//!   the time when it was filled (section 5.1). A mount after a power cut starts from these bits.
//! * **Checkpoint**: root, block table and frontier. It is written after a number of blocks and at close, and
//!   found from a fixed place (`blocks::checkpoint`). A mount reads it, and then the pages written since
//!   (`recovery`).
//! * **Program failure**: the pages of the block are copied to another block. That block answers to the
//!   addresses of the failed block (its home) from then on, so no pointer in the tree changes.
//!
//! # Parts
//!
//! | part | owns | file |
//! |---|---|---|
//! | [`Log`] | the parts of the cache, and the tape | `mod.rs`, `collect.rs`, `settle.rs`, `level.rs` |
//! | `ReadPart`, `WritePart` | pages in RAM, and those waiting to be programmed | `cached.rs`, `parts.rs`, `flush.rs` |
//! | `Tape` | the parts below: the log without a cache | `tape.rs` |
//! | `Medium` | chip, page buffer, weak pages, the block that is levelled | `medium.rs`, `ahead.rs` |
//! | `Addresses` | which block answers to an address, and which addresses are held or given up | `addresses.rs`, `held.rs` |
//! | `Head` | open block, numbers, root | `head.rs` |
//! | `Capacity` | numbers of blocks, to know how much must stay free | `room.rs` |
//! | `Checkpoints` | checkpoints, their note, and the doubts after a mount | `checkpoints.rs` |
//! | `Mount` | a mount that works on a tape | `recovery.rs`, `opened.rs`, `placed.rs` |

mod addresses;
pub mod ahead;
mod cached;
mod checkpoints;
pub mod collect;
mod config;
mod counted;
mod flush;
mod head;
mod held;
mod level;
mod medium;
mod opened;
mod parts;
mod placed;
mod recovery;
mod room;
mod runs;
mod seen;
pub(crate) mod settle;
mod state;
pub mod tag;
mod tape;

use crate::fault::IndexFault;
pub(crate) use cached::HAS_READ_PART;
pub(crate) use config::left_out;
pub use config::{LogConfig, SamePage, WritePartLimit};
pub(crate) use parts::HAS_WRITE_PART;

pub use parts::Page;
pub use placed::Placement;
pub use tag::{Gaps, Tag};

use crate::blocks::checkpoint::{CheckpointArea, Contents};
use crate::blocks::{BlockState, BlockTable};
use crate::check::IndexError;
use crate::codec::first_number;
use crate::nand::{Cause, Geometry, Nand};
use crate::units::{Pbn, Ppn};
use alloc::vec;
use alloc::vec::Vec;
use cached::ReadPart;
use head::Head;
use parts::WritePart;
use recovery::{check_config, corrupted, newest_state};
pub use runs::Runs;
use state::State;
use tape::Tape;

/// True if the engine was built so that a closing checkpoint spares the next mount a search. Without it a
/// mount always looks for pages written since.
const CLOSES: bool = cfg!(feature = "closing");

/// Bytes that the owner wants in a checkpoint. `None` keeps the bytes given before.
pub type Note<'a> = Option<&'a dyn Contents>;

/// Root of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// Page that holds the root.
    pub ppn: Ppn,
    /// Number of levels of the tree.
    pub height: u8,
}

/// Counters of the log, in addition to the chip's own.
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

/// Log allocator of a tree on raw NAND.
pub struct Log<N> {
    pub(crate) tape: Tape<N>,
    reads: ReadPart,
    writes: WritePart,
    /// Journal leaves that a mount found after the newest root, oldest first.
    journal: Runs,
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

    fn contents(&self) -> Page<'_> {
        Page { tag: &self.tag, data: &self.data }
    }
}

impl<N: Nand> Log<N> {
    /// Erases the chip and starts an empty log. `owner` tells whose log it is; [`Log::mount`] returns it.
    #[inline(never)]
    pub fn format(mut nand: N, config: LogConfig, owner: &[u8]) -> Result<Log<N>, IndexFault> {
        if config.is_placed() {
            return Ok(Log::on(Tape::format_placed(nand, config, owner)?));
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
        let frontier = &mut state.head.frontier;
        frontier.block_sequence = first_number(tag::BLOCK_BITS, 0) as u32;
        state.head = Head::new(*frontier, first_number(tag::SEQUENCE_BITS, 0), None);
        let mut tape = Tape::new(nand, config, area, state);
        tape.recount();
        tape.capacity.bad_at_format = geometry.blocks - tape.blocks.good_count();
        Ok(Log::on(tape))
    }

    /// Finds the newest state again.
    #[inline(never)]
    pub fn mount(mut nand: N, config: LogConfig) -> Result<Log<N>, IndexFault> {
        let (area, state) = newest_state(&mut nand, &config)?;
        let gaps = state.gaps;
        let mut log = Log::on(Tape::new(nand, config, area, state));
        log.journal = log.tape.find_rest(gaps)?;
        Ok(log)
    }

    /// Finds the newest root again on a chip whose pages keep their places. The pages below the root are in
    /// doubt until the tree has confirmed them.
    pub fn mount_placed(nand: N, config: LogConfig, owner: &[u8]) -> Result<Log<N>, IndexFault> {
        let mut log = Log::on(Tape::place(nand, config, owner)?);
        log.journal = log.tape.find_rest(Gaps::Any)?;
        Ok(log)
    }

    fn on(tape: Tape<N>) -> Log<N> {
        let page_bytes = tape.medium.geometry.page_bytes;
        let reads = ReadPart::new(tape.config.read_pages, page_bytes as usize);
        let writes = WritePart::new(tape.config.write_pages as u32, page_bytes);
        Log { reads, writes, journal: Runs::default(), tape }
    }

    /// Geometry of the chip.
    pub fn geometry(&self) -> Geometry {
        self.tape.medium.geometry
    }

    /// Configuration of the log.
    pub fn config(&self) -> LogConfig {
        self.tape.config
    }

    /// Name of the owner, as given to [`Log::format`].
    pub fn owner(&self) -> &[u8] {
        &self.tape.medium.owner
    }

    /// Root in the page that was written last with one.
    pub fn root(&self) -> Option<Root> {
        self.tape.head.root
    }

    /// Counters of the log so far.
    pub fn counters(&self) -> LogCounters {
        self.tape.counters
    }

    /// True if pages keep their places.
    pub fn is_placed(&self) -> bool {
        self.tape.config.is_placed()
    }

    /// Number of valid pages on the whole chip.
    pub fn live_pages(&self) -> u64 {
        u64::from(self.tape.blocks.live_pages())
    }

    /// True if a page is valid.
    pub fn is_valid(&self, ppn: Ppn) -> bool {
        ppn.0 < self.tape.medium.geometry.pages() && self.tape.blocks.is_valid(ppn)
    }

    /// Number of pages that can still be written before a block must be reclaimed.
    pub fn free_pages(&self) -> u32 {
        self.tape.free_pages()
    }

    /// Bytes of RAM held: block table, cache parts and buffers.
    pub fn ram_bytes(&self) -> usize {
        let Tape { medium, addresses, .. } = &self.tape;
        let page = medium.page.data.len() + medium.page.spare.len();
        let reads = self.reads.pages() * (medium.geometry.page_bytes as usize + 64);
        let lists = addresses.openings.len() * size_of::<u16>();
        let tables = medium.nand.ram_bytes()
            + self.tape.blocks.ram_bytes()
            + self.tape.checkpoints.area.ram_bytes(0)
            + addresses.held.ram_bytes()
            + lists;
        tables + page + reads + self.writes.ram_bytes()
    }

    /// Reads a page through the cache.
    pub fn read(&mut self, ppn: Ppn, cause: Cause) -> Result<Page<'_>, IndexFault> {
        if cause == Cause::Check {
            return self.peek(ppn);
        }
        if let Some(frame) = self.reads.find(ppn) {
            self.tape.counters.cache_hits += 1;
            return Ok(self.reads.page(frame));
        }
        if self.writes.find(ppn).is_some() {
            self.tape.counters.cache_hits += 1;
            return Ok(self.writes.page(ppn));
        }
        self.tape.counters.cache_misses += 1;
        self.tape.load(ppn, cause)?;
        let medium = &mut self.tape.medium;
        if self.reads.pages() == 0 {
            return Ok(medium.page.contents());
        }
        medium.loaded = None;
        Ok(self.reads.admit(ppn, medium.page.tag, &mut medium.page.data))
    }

    /// Reads, for another of its nodes, a page that the operation read just before. It is still in RAM, so
    /// the read costs nothing.
    pub fn again(&mut self, ppn: Ppn, cause: Cause) -> Result<Page<'_>, IndexFault> {
        if let Some(frame) = self.reads.find(ppn) {
            return Ok(self.reads.page(frame));
        }
        if self.writes.find(ppn).is_some() {
            return Ok(self.writes.page(ppn));
        }
        if self.tape.medium.loaded == Some(ppn) {
            return Ok(self.tape.medium.page.contents());
        }
        self.read(ppn, cause)
    }

    /// Reads a page for a checker: the read is not counted, and the page not kept.
    fn peek(&mut self, ppn: Ppn) -> Result<Page<'_>, IndexFault> {
        if self.writes.find(ppn).is_some() {
            return Ok(self.writes.page(ppn));
        }
        self.tape.load(ppn, Cause::Check)?;
        Ok(self.tape.medium.page.contents())
    }

    /// Chooses the address for the next page. The caller must have made room before ([`collect::make_room`]).
    pub fn allocate(&mut self, cause: Cause) -> Result<Ppn, IndexFault> {
        if self.is_placed() {
            let free = self.tape.addresses.free_place(&self.tape.blocks);
            return Ok(free.ok_or(IndexError::NO_BLOCK)?);
        }
        if self.writes.pages() == 0 {
            return self.tape.next_address(cause);
        }
        if let Some(ppn) = self.writes.revive() {
            return Ok(ppn);
        }
        self.writes.flush_within(&mut self.tape, cause)?;
        let ppn = self.tape.next_address(cause)?;
        self.writes.push(ppn, self.tape.head.frontier.block_sequence);
        Ok(ppn)
    }

    /// Chooses the address for the page that ends an operation. If pages keep their places, that is the place
    /// of the first page that died in the operation.
    pub fn allocate_last(&mut self, cause: Cause) -> Result<Ppn, IndexFault> {
        let tape = &mut self.tape;
        let replaced =
            if tape.config.is_placed() { tape.addresses.first_given_up(&mut tape.blocks) } else { None };
        match replaced {
            Some(ppn) => Ok(ppn),
            None => self.allocate(cause),
        }
    }

    /// Writes a page at an address that [`Log::allocate`] gave.
    pub fn write(&mut self, ppn: Ppn, mut tag: Tag, data: &[u8], cause: Cause) -> Result<(), IndexFault> {
        debug_assert!(!tag.root || tag.height > 0, "R2: a root of no height");
        debug_assert!(usize::from(tag.lowest_level) <= tag::LEVELS_MAX, "R2: level {}", tag.lowest_level);
        let sequence = self.tape.number(ppn, &mut tag);
        if let Some(slot) = self.writes.find_mut(ppn) {
            slot.sequence = sequence;
            slot.tag = tag;
            slot.data.copy_from_slice(data);
            return Ok(());
        }
        assert_eq!(self.writes.pages(), 0, "{ppn} was not allocated");
        self.tape.write(ppn, tag, data, cause)
    }

    /// Begins an operation that will write at most `pages` pages. Programs an overfull write part first.
    pub fn begin(&mut self, pages: u32) -> Result<(), IndexFault> {
        self.writes.require_sound()?;
        // Pages that a failed operation was about to replace are still in use.
        self.tape.addresses.dying.clear();
        self.writes.is_divided = false;
        if self.writes.pages() == 0 {
            return Ok(());
        }
        self.writes.flush_if_over(&mut self.tape)?;
        self.tape.secure(pages)
    }

    /// Declares that nothing in a page can be reached once the operation is finished. A page in the write
    /// part gives up its place at once. A page on the chip stays valid until then, because a cut may bring it
    /// back.
    pub fn invalidate(&mut self, ppn: Ppn) {
        self.reads.remove(ppn);
        self.tape.medium.loaded = None;
        match self.writes.find_mut(ppn) {
            // A damaged tree may lead to one page twice.
            Some(slot) if !slot.live => {}
            Some(slot) => {
                slot.live = false;
                self.writes.is_divided = true;
                self.tape.blocks.invalidate(ppn);
            }
            None => self.tape.addresses.give_up(ppn),
        }
    }

    /// Ends an operation: the pages it replaced die.
    pub fn finish(&mut self) {
        self.writes.is_divided = false;
        self.tape.half_done = false;
        let counts = self.tape.config.counts();
        self.tape.addresses.finish(&mut self.tape.blocks, counts);
    }

    /// Declares whether the operation continues after the next root. While it does, a mount ignores the
    /// operation.
    pub fn set_goes_on(&mut self, goes_on: bool) {
        self.tape.head.goes_on = goes_on;
    }

    /// Sets the root, for an owner that finds its roots itself.
    pub fn set_root(&mut self, root: Root) {
        let pages = self.tape.medium.geometry.pages();
        debug_assert!(root.height > 0 && root.ppn.0 < pages, "R2: {root:?} is no root");
        self.tape.head.root = Some(root);
    }

    /// Programs the whole write part. Afterwards everything written is durable. If that fails, the part keeps
    /// its pages and takes no more.
    pub fn flush(&mut self, cause: Cause) -> Result<(), IndexFault> {
        self.writes.flush(&mut self.tape, cause)
    }

    /// Drops the write part: its pages belong to an abandoned batch.
    pub fn drop_written(&mut self) {
        self.writes.clear();
    }

    /// Programs an overfull write part between the changes of a batch. The dead
    /// pages that it drops are pages of the batch, to which no root leads yet: pages that waited before were
    /// programmed when the batch began.
    pub fn relieve(&mut self) -> Result<(), IndexFault> {
        debug_assert!(self.tape.head.goes_on, "what is dropped may be needed");
        self.writes.flush_if_over(&mut self.tape)
    }

    /// Sets the size of the read part to `pages`, and empties it.
    pub fn read_with(&mut self, pages: usize) {
        self.tape.config.read_pages = pages;
        self.reads = ReadPart::new(pages, self.tape.medium.geometry.page_bytes as usize);
    }

    /// Programs the write part and writes a checkpoint, with the owner's note.
    pub fn checkpoint(&mut self, note: Note<'_>) -> Result<(), IndexFault> {
        self.flush(Cause::CacheEviction)?;
        self.tape.write_checkpoint(false, note)
    }

    /// Closes the log with a closing checkpoint.
    pub fn close(&mut self, note: Note<'_>) -> Result<(), IndexFault> {
        if self.is_placed() {
            return Ok(());
        }
        self.flush(Cause::CacheEviction)?;
        self.tape.close(note)
    }

    /// Finds the state on the chip again, after an operation failed half-way. Nothing may wait in RAM. The
    /// read part is empty afterwards ([`Log::read_with`]). If this fails, the log cannot be used any more.
    pub fn remount(&mut self) -> Result<(), IndexFault> {
        assert!(self.writes.len() == 0, "what waits to be written would be lost");
        // The cache takes no RAM until its owner has the state again.
        self.read_with(0);
        self.journal.clear();
        self.journal = self.tape.remount()?;
        Ok(())
    }

    /// Takes the journal leaves written after the newest root, oldest first, as the mount found them. Their
    /// owner enters them and then closes the log.
    pub fn take_journal(&mut self) -> Runs {
        core::mem::take(&mut self.journal)
    }

    /// True if blocks that count as free, or pages that count as dead, may be damaged ones to which the tree
    /// refers.
    pub fn is_in_doubt(&self) -> bool {
        self.tape.checkpoints.in_doubt
    }

    /// Ends the doubt after a mount ([`Log::is_in_doubt`]): all pages that can be reached were kept.
    pub fn end_doubt(&mut self) {
        self.tape.checkpoints.in_doubt = false;
        self.tape.recount();
    }

    /// Keeps a page to which the tree refers: it is valid, whatever can be read of its block, and nothing is
    /// written in its place.
    pub fn keep(&mut self, ppn: Ppn) -> Result<(), IndexFault> {
        let geometry = self.geometry();
        let blocks = &mut self.tape.blocks;
        if ppn.0 >= geometry.pages() {
            return Err(corrupted("a page address beyond the chip", ppn.0));
        }
        blocks.note_valid(ppn);
        if blocks.is_valid(ppn) {
            return Ok(());
        }
        let block = geometry.block_of(ppn);
        match blocks.state(block) {
            BlockState::Free | BlockState::Unclean => {
                blocks.claim(block);
                blocks.close(block);
            }
            BlockState::Open | BlockState::Full => {}
            // Nothing is ever programmed there again.
            BlockState::Bad => return Ok(()),
            BlockState::Reserved => {
                return Err(corrupted("the tree leads to a block kept for something else", ppn.0));
            }
        }
        blocks.keep(ppn);
        Ok(())
    }

    /// Gives the chip back.
    pub fn into_nand(self) -> N {
        self.tape.medium.nand
    }
}
