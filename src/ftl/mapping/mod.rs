//! The ground of every mapping scheme but page mapping: pages that say whose they are, blocks, and mounting.
//!
//! A scheme ([`Scheme`]) decides where a logical page goes; [`SchemeFtl`] makes a
//! [`PageStore`](crate::store::PageStore) of it. This module programs, copies and erases for it, remembers
//! which pages are valid and which can still be programmed, and finds all valid pages again after the power
//! was cut at any instant. `docs/ftl/ground.md` shows a merge that a cut strikes at three points, and what a
//! mount makes of each.
//!
//! # On the chip
//!
//! The spare area ([`crate::blocks::spare`]) of every page holds the kind (which says what the scheme used
//! the block for), the number (logical page, or page of the mapping table), the version, and as `extra` the
//! low byte of the erase count of its block. Every host write has a version, one larger than the last; **a
//! copy keeps the version of what it copies**. So of two pages with the same number the higher version is
//! newer, whatever blocks they lie in and in whatever order these were filled, and equal versions hold equal
//! bytes.
//!
//! # Bases
//!
//! A *base* (`base`) is a checkpoint of the block table, the spent pages, and what each block is used for.
//! One is written at format, at a clean end, before the first program after a mount, and before any block was
//! erased 200 times since the last. A *note* after it says that something was programmed since, which pages
//! were trimmed, and what became of the blocks that changed since the record before. One is written before a
//! block is erased that has changed since, and after so many programs (`record_interval`) or trims (`trims`).
//!
//! # Mounting
//!
//! When the newest record is a clean base and nothing unreadable follows, the chip is as it says. Otherwise
//! base and notes make one newer base, and `scan` reads: of a block that it knows, one page, to see that it
//! was not erased since, and all pages that were not spent; of any other block every page. A page that the
//! base knows is alive if it was valid; a page programmed since, by its version. `elect` then chooses one
//! copy of each number, such that a merge or a collection that was cut short is undone or completed. The scan
//! holds only what was programmed since the record, and what that may replace. No block that was open is
//! continued, because its next page may be half programmed and look erased.
//!
//! # What is lost is noticed
//!
//! Versions follow each other, and by F5 nothing programmed since the last record was erased. So after an
//! unclean end every version from the record's to the highest is on the chip, unless a page has gone bad; and
//! so is every page that the record calls valid. The page in flight at the cut has no version that could be
//! missed.
//!
//! # Invariants
//!
//! - F1: a page is valid in the block table exactly when the scheme finds its number there.
//! - F2: a block is erased only when the newest version of everything in it can be found elsewhere, or was
//!   trimmed.
//! - F3: nothing is programmed between a mount and the next base.
//! - F4: versions in a record's past are below its next version, those of writes that failed half-way
//!   included; those above belong to one session.
//! - F5: a block is erased only if the newest record on the chip (base or note) says that nothing in it is
//!   valid, and nothing was programmed in it since that record.

mod base;
mod block_use;
mod contest;
mod counted;
mod elect;
mod gather;
mod marks;
mod pages;
mod plan;
mod records;
mod scan;
mod scheme;
mod slots;
mod tags;
mod told;
mod trims;

pub use elect::Live;
pub use gather::Source;
pub use plan::ChipPlan;
pub use plan::FlashSettings;
pub use scheme::{Scheme, SchemeFtl};
pub use tags::BlockTag;
pub(crate) use told::{Told, entries_per_page};

use crate::blocks::checkpoint::CheckpointArea;
use crate::blocks::spare::PageKind;
use crate::blocks::{BlockState, BlockTable, Validity};
use crate::codec::first_number;
use crate::fault::StoreFault;
use crate::nand::{Cause, Geometry, Nand, UntilLost};
use crate::units::{Lbn, Pbn, Ppn};
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use base::Base;
use marks::Marks;
use slots::Slots;
use tags::{BlockTags, UNUSED};
use trims::Trims;

/// Once a block was erased so often since the last base, another one is due: pages carry the low byte of the
/// count.
const ERASES_PER_BASE_MAX: u8 = 200;

/// Logical pages that wait to be written anew, at most.
const WEAK_MAX: usize = 16;

/// The rules of a scheme that the code mounting it must know.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Names the scheme on the medium.
    pub magic: [u8; 4],
    /// Whether a logical block has at most one block of [`PageKind::Data`].
    pub one_data_block: bool,
    /// Whether an older version of a logical page may stay valid for a while. The scheme has no Data blocks
    /// then.
    pub old_may_stay_valid: bool,
    /// Whether blocks belong to logical blocks, or to groups of them.
    pub has_owners: bool,
    /// Whether each block is filled page by page, without a gap.
    pub fills_in_order: bool,
    /// Whether the scheme keeps in RAM where each logical page is. The mount makes that map, as it reads
    /// every page anyway.
    pub has_map: bool,
    /// Pages programmed between two records, in percent of `record_interval`: more where notes are long and
    /// there is RAM for it at a mount.
    pub record_percent: u32,
    /// Whether valid pages may be counted by block ([`Validity::Counts`]): then the third of the numbers that
    /// are fixed at format says whether they are, and the scheme's own bytes in every record say where
    /// everything is (`Told`).
    pub counts: bool,
}

impl Rules {
    /// How it is known which pages are valid on a chip that was formatted with these numbers.
    pub(crate) fn validity(&self, setup: [u32; 4]) -> Result<Validity, StoreFault> {
        let is_counted = self.counts && setup[2] == COUNTED;
        counted::built(if is_counted { Validity::Counts } else { Validity::Bits })
    }
}

/// The third of the numbers fixed at format where valid pages are counted.
pub(crate) const COUNTED: u32 = 1;

/// No owner.
pub const NOBODY: u32 = u32::MAX;

/// The state that a mount found.
#[derive(Clone, Debug, Default)]
pub struct Mounted {
    /// Valid pages, by place: those of the mapping table, and after an unclean end what was programmed since
    /// the last record, or may have lost against that. `Flash::live_in` tells of any block.
    pub live: Vec<Live>,
    /// Where each logical page is, all ones for nowhere, if [`Rules::has_map`].
    pub map: Vec<u32>,
    /// The scheme's own bytes in the base.
    pub extra: Vec<u8>,
    /// Nothing was programmed since the base.
    pub is_clean: bool,
}

/// The counters of work that a scheme did besides reading and writing, since it was formatted or mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashCounters {
    /// Pages written by the host.
    pub host_writes: u64,
    /// Log blocks that became data blocks without a copy.
    pub switch_merges: u64,
    /// Log blocks that became data blocks after the rest was copied.
    pub partial_merges: u64,
    /// Logical blocks gathered into a new block.
    pub full_merges: u64,
    /// Victims whose valid pages were moved one by one.
    pub collections: u64,
    /// Valid pages copied, for whatever reason.
    pub moved_pages: u64,
    /// Blocks moved to even out wear.
    pub levelled_blocks: u64,
    /// Bases written.
    pub bases: u64,
    /// Blocks that failed and were retired.
    pub retired_blocks: u64,
    /// Logical pages found unreadable when they were to be moved.
    pub lost_pages: u64,
    /// Programs of a page below one that was programmed before in its block: where the chip allows any order.
    pub out_of_order_programs: u64,
}

/// The record that must be written before the next program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Nothing: the chip says already that it is in use.
    Nothing,
    /// A note: the newest record is a clean base of this session.
    Note,
    /// A base (F3, or a page was lost).
    Base,
}

/// A chip under a mapping scheme.
pub struct Flash<N> {
    nand: UntilLost<N>,
    geometry: Geometry,
    rules: Rules,
    page_count: u32,
    setup: [u32; 4],
    blocks: BlockTable,
    area: CheckpointArea,
    slots: Slots,
    tags: BlockTags,
    next_version: u64,
    /// A page of the next version was programmed, and its write is not done.
    is_next_begun: bool,
    /// Trimmed since the last record that says so.
    trimmed: Trims,
    /// Logical pages whose newest version cannot be read.
    lost: BTreeSet<u32>,
    /// Blocks in which a program failed, to be retired once they are empty.
    doomed: BTreeSet<Pbn>,
    /// By block; made by the first base, so that a mount need not hold it.
    erases_since_base: Vec<u8>,
    /// Pages programmed since the last record.
    pub(crate) since_record: u32,
    opened_blocks: bool,
    is_levelling: bool,
    /// The block to take for cold data, if it is still free.
    worn: Option<Pbn>,
    pub(crate) mark: Mark,
    /// Blocks that changed since the last record.
    changed: Marks,
    /// Blocks without valid pages that could not be erased, for want of a record that says so.
    unfreed: Vec<Pbn>,
    /// After an unclean end: blocks that no base may be written to before there is a new one (F5).
    held: Vec<Pbn>,
    /// Logical pages that needed more than one read, to be written anew.
    weak: Vec<u32>,
    /// The logical page written last, since this was cleared.
    last_written: Option<u32>,
    /// Where the page was that is being written: not valid any more when it is.
    replaced: Option<Ppn>,
    /// One page of RAM, for what is copied, for pages of the mapping table and for records in turn.
    page: Vec<u8>,
    /// The page of the chip that was loaded into it to be copied, while it is there.
    loaded: Option<Ppn>,
    /// The counters of the scheme.
    pub counters: FlashCounters,
}

impl<N: Nand> Flash<N> {
    /// Erases the chip. The scheme must write a base before anything else.
    pub(crate) fn format(mut nand: N, rules: Rules, validity: Validity) -> Result<Flash<N>, StoreFault> {
        let validity = counted::built(validity)?;
        let geometry = nand.geometry();
        let mut blocks = BlockTable::keeping(geometry, validity);
        blocks.retire_marked(&mut nand)?;
        let area = CheckpointArea::format(&mut nand, &mut blocks)?;
        for pbn in (0..geometry.blocks).map(Pbn) {
            if blocks.state(pbn) == BlockState::Unclean && blocks.erase(&mut nand, pbn, Cause::Checkpoint)? {
                blocks.release(pbn);
            }
        }
        let base = Base {
            page_count: 0,
            setup: [0; 4],
            is_clean: true,
            next_version: first_number(base::VERSION_BITS, 1),
            blocks,
            slots: Slots::new(geometry),
            tags: BlockTags::unused(geometry.blocks),
            lost: BTreeSet::new(),
            extra: Vec::new(),
        };
        Ok(Flash::assemble(nand, rules, area, base))
    }

    /// Sets what the scheme was formatted with; once, before the first base.
    pub(crate) fn set_up(&mut self, page_count: u32, setup: [u32; 4]) {
        debug_assert!(page_count <= self.geometry.pages(), "more logical pages than the chip has");
        debug_assert!(self.rules.validity(setup).is_ok_and(|kept| kept == self.blocks.validity()));
        (self.page_count, self.setup) = (page_count, setup);
    }

    fn assemble(nand: N, rules: Rules, mut area: CheckpointArea, base: Base) -> Flash<N> {
        let geometry = nand.geometry();
        area.be_careful(note_pages(geometry));
        Flash {
            nand: UntilLost::new(nand),
            geometry,
            rules,
            page_count: base.page_count,
            setup: base.setup,
            blocks: base.blocks,
            area,
            slots: base.slots,
            tags: base.tags,
            next_version: base.next_version,
            is_next_begun: false,
            trimmed: Trims::for_pages_of(geometry),
            lost: base.lost,
            doomed: BTreeSet::new(),
            erases_since_base: Vec::new(),
            since_record: 0,
            opened_blocks: false,
            is_levelling: false,
            worn: None,
            mark: Mark::Base,
            changed: Marks::none(geometry.blocks),
            unfreed: Vec::new(),
            held: Vec::new(),
            weak: Vec::new(),
            last_written: None,
            replaced: None,
            page: vec![0; geometry.page_bytes as usize],
            loaded: None,
            counters: FlashCounters::default(),
        }
    }

    /// The shape of the chip.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The table of the blocks.
    pub fn blocks(&self) -> &BlockTable {
        &self.blocks
    }

    /// The block table, to choose victims by.
    pub fn blocks_mut(&mut self) -> &mut BlockTable {
        &mut self.blocks
    }

    /// Logical pages.
    pub fn page_count(&self) -> u32 {
        self.page_count
    }

    /// The numbers the scheme was formatted with.
    pub fn setup(&self) -> [u32; 4] {
        self.setup
    }

    /// The use of the block.
    pub fn tag(&self, pbn: Pbn) -> BlockTag {
        self.tags.get(pbn.index())
    }

    /// The use of a block in which pages are valid.
    pub fn live_role(&self, pbn: Pbn) -> Option<PageKind> {
        self.tag(pbn).role.filter(|_| self.blocks.valid_count(pbn) > 0)
    }

    /// Whether a page can be programmed: erased, and not below a programmed one where the chip minds.
    pub fn is_open(&self, pbn: Pbn, page: u32) -> bool {
        self.slots.is_open(pbn, page)
    }

    /// One above the highest page spent in a block.
    pub fn next_page(&self, pbn: Pbn) -> u32 {
        self.slots.next(pbn)
    }

    /// The page to program next in a block; none if all are spent.
    pub fn next_ppn(&self, pbn: Pbn) -> Option<Ppn> {
        let page = self.next_page(pbn);
        (page < self.geometry.pages_per_block).then(|| self.geometry.page_at(pbn, page))
    }

    /// Whether valid pages are counted by block.
    pub(crate) fn is_counted(&self) -> bool {
        counted::is_counted(&self.blocks)
    }

    /// Whether a page holds live data; where valid pages are counted, whether it may.
    pub fn is_valid(&self, ppn: Ppn) -> bool {
        self.blocks.is_valid(ppn)
    }

    /// The logical block of a logical page, and its place there.
    pub fn split(&self, lpn: u32) -> (Lbn, u32) {
        let pages = self.geometry.pages_per_block;
        (Lbn(lpn / pages), lpn % pages)
    }

    /// The logical page at a place of a logical block.
    pub fn lpn_at(&self, lbn: Lbn, page: u32) -> u32 {
        debug_assert!(page < self.geometry.pages_per_block, "page {page} of a logical block");
        lbn.0 * self.geometry.pages_per_block + page
    }

    /// Pages that are programmed between two records at most, but for those of one write.
    pub(crate) fn record_interval(&self) -> u32 {
        // With few blocks no note is long.
        let percent = if note_pages(self.geometry) == 0 { 100 } else { self.rules.record_percent };
        u32::try_from(u64::from(record_interval(self.geometry)) * u64::from(percent) / 100)
            .unwrap_or(u32::MAX)
    }

    /// Bytes of RAM held.
    pub(crate) fn ram_bytes(&self, extra_bytes_max: usize) -> usize {
        // Where blocks have few pages, many wait between two records.
        let blocks = self.geometry.blocks as usize;
        let erases = if self.geometry.pages_per_block < FEW_PAGES { blocks * 3 / 2 } else { blocks };
        // Short lists, which a page of usual size has room for.
        let short = 1024usize.saturating_sub(self.geometry.page_bytes as usize);
        self.ram_bytes_of_mount(extra_bytes_max)
            + erases
            + short
            + self.merge_bytes()
            + self.trimmed.ram_bytes()
    }

    /// Bytes of RAM held while the chip is mounted, but for what the mount finds.
    pub(crate) fn ram_bytes_of_mount(&self, extra_bytes_max: usize) -> usize {
        size_of::<Self>()
            + self.nand.ram_bytes()
            + self.table_bytes()
            + self.changed.ram_bytes()
            + self.area.ram_bytes(self.base_bytes(extra_bytes_max))
            + self.geometry.page_bytes as usize
    }

    fn base_bytes(&self, extra_bytes_max: usize) -> usize {
        base::encoded_bytes(self.geometry, self.blocks.validity(), extra_bytes_max)
    }

    /// The page of RAM; what it holds is forgotten.
    pub fn page_mut(&mut self) -> &mut [u8] {
        self.loaded = None;
        &mut self.page
    }

    /// The page of RAM.
    pub fn page(&self) -> &[u8] {
        &self.page
    }

    /// Takes the page of RAM for a while, in which nothing else may need it; [`Flash::return_page`] ends it.
    fn lend_page(&mut self) -> Vec<u8> {
        self.loaded = None;
        debug_assert!(!self.page.is_empty(), "the page of RAM is lent twice");
        core::mem::take(&mut self.page)
    }

    fn return_page(&mut self, page: Vec<u8>) {
        self.page = page;
    }

    /// Bytes of RAM that the tables of the blocks take.
    pub(crate) fn table_bytes(&self) -> usize {
        self.blocks.ram_bytes()
            + self.slots.ram_bytes()
            + BlockTags::ram_bytes(self.geometry.blocks, self.rules.has_owners)
    }
}

/// Pages of a block that are few.
const FEW_PAGES: u32 = 8;

/// Pages that are programmed between two records of most schemes: a mount has RAM for these alone.
pub(crate) fn record_interval(geometry: Geometry) -> u32 {
    (geometry.pages() / 256).max(256)
}

/// Pages that a run of checkpoint blocks keeps for notes. Large bases need it, or each would be followed by
/// few notes; on a small chip a base is small, and every block counts.
pub(super) fn note_pages(geometry: Geometry) -> u32 {
    if geometry.blocks < 256 { 0 } else { geometry.pages_per_block / 2 }
}
