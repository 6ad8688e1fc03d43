//! The common ground of all mapping schemes except page mapping: pages that name their owner, blocks, and
//! mounting.
//!
//! A scheme ([`Scheme`]) decides where a logical page goes; [`SchemeFtl`] makes a
//! [`PageStore`](crate::store::PageStore) of it. This module programs, copies and erases for the scheme. It
//! keeps which pages are valid and which can still be programmed, and finds all valid pages again after a
//! power cut at any instant. `docs/ftl/ground.md` shows a merge that is cut at three points, and the result
//! of the mount after each.
//!
//! # On the chip
//!
//! The spare area ([`crate::blocks::spare`]) of every page holds the kind (the use that the scheme made of
//! the block), the number (logical page, or page of the mapping table), the version, and as `extra` the low
//! byte of the erase count of its block. Every host write has a version, one larger than the last; **a copy
//! keeps the version of the page it copies**. So of two pages with the same number the higher version is
//! newer, whatever blocks they lie in and in whatever order these were filled. Equal versions hold equal
//! bytes.
//!
//! # Bases
//!
//! A *base* (`base`) is a checkpoint of the block table, the spent pages, and the use of each block. A base
//! is written at format, at a clean end, before the first program after a mount, and before any block was
//! erased 200 times since the last base. A *note* after it tells that pages were programmed since, which
//! pages were trimmed, and the state of the blocks that changed since the last record. A note is written
//! before a block is erased that has changed since the last record, and after a number of programs
//! (`record_interval`) or trims (`trims`).
//!
//! # Mounting
//!
//! If the newest record is a clean base and nothing unreadable follows, the base is the state of the chip.
//! Otherwise base and notes are combined into one newer base, and `scan` reads the chip. Of a block that the
//! base knows it reads one page, to see that the block was not erased since, and all pages that were not
//! spent. Of any other block it reads every page. A page that the base knows is alive if it was valid; a page
//! programmed since, by its version. Then `elect` chooses one copy of each number, so that a merge or a
//! collection that was cut is undone or completed. The scan holds only the pages programmed since the record,
//! and those that they may replace. No block that was open is continued, because its next page may be half
//! programmed and look erased.
//!
//! # Losses are noticed
//!
//! Versions follow each other, and by F5 no page programmed since the last record was erased. So after an
//! unclean end every version from the record's to the highest is on the chip, unless a page was damaged. So
//! is every page that the record calls valid. The page in flight at the cut has no version that could be
//! missed.
//!
//! # Invariants
//!
//! - F1: a page is valid in the block table exactly if the scheme finds its number there.
//! - F2: a block is erased only if the newest version of each number in it can be found elsewhere, or was
//!   trimmed.
//! - F3: nothing is programmed between a mount and the next base.
//! - F4: the versions before a record, including those of writes that failed half-way, are below its next
//!   version. The versions above belong to one session.
//! - F5: a block is erased only if the newest record on the chip (base or note) says that no page in it is
//!   valid, and no page was programmed in it since that record.
//!
//! # Parts
//!
//! | part | owns | file |
//! |---|---|---|
//! | `State` | all that a record keeps: blocks, spent pages, uses, versions | `state.rs` |
//! | `Records` | the checkpoint area, and what the next record must say | `records.rs` |
//! | `Upkeep` | blocks to be retired or erased later, and the levelling of wear | `block_use.rs` |
//! | `Scan` | the pages that a mount found, and which of them stay | `scan.rs`, `contest.rs`, `elect.rs` |
//! | `Recovery` | `Scan`; it reads the chip, and makes `State` what was found | the same |

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
mod state;
mod tags;
mod told;
mod trims;

pub use elect::Live;
pub use gather::Source;
pub use pages::{HostPage, Way};
pub use plan::ChipPlan;
pub use plan::FlashConfig;
pub use scheme::{Scheme, SchemeFtl};
pub use tags::BlockTag;
pub(crate) use told::{Told, entries_per_page};

use crate::blocks::checkpoint::CheckpointArea;
use crate::blocks::spare::PageKind;
use crate::blocks::{BlockState, BlockTable, Validity};
use crate::fault::StoreFault;
use crate::nand::{Cause, Geometry, Nand, UntilLost};
use crate::units::{Lbn, Pbn, Ppn};
use alloc::vec;
use alloc::vec::Vec;
use block_use::Upkeep;
use records::Records;
use state::State;
use tags::UNUSED;

/// A base is due once a block was erased this many times since the last: pages carry only the low byte of the
/// count.
const ERASES_PER_BASE_MAX: u8 = 200;

/// Most logical pages that wait to be rewritten.
const WEAK_MAX: usize = 16;

/// Rules of a scheme that the mount must know.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Name of the scheme on the medium.
    pub magic: [u8; 4],
    /// True if a logical block has at most one block of [`PageKind::Data`].
    pub one_data_block: bool,
    /// True if an older version of a logical page may stay valid for a while. Such a scheme has no Data
    /// blocks.
    pub old_may_stay_valid: bool,
    /// True if blocks belong to logical blocks, or to groups of them.
    pub has_owners: bool,
    /// True if each block is filled page by page, without a gap.
    pub fills_in_order: bool,
    /// True if the scheme keeps the place of each logical page in RAM. The mount makes that map, as it reads
    /// every page anyway.
    pub has_map: bool,
    /// Pages programmed between two records, in percent of `record_interval`. It is higher in schemes with
    /// long notes that have RAM for it at a mount.
    pub record_percent: u32,
    /// True if valid pages may be counted by block ([`Validity::Counts`]). Then the third of the numbers
    /// fixed at format tells whether they are, and the scheme's own bytes in every record tell the map
    /// (`Told`).
    pub counts: bool,
}

impl Rules {
    /// Rules of most schemes whose pages are found by a table.
    pub const fn of(magic: [u8; 4]) -> Rules {
        Rules {
            magic,
            one_data_block: false,
            old_may_stay_valid: false,
            has_owners: false,
            fills_in_order: false,
            has_map: false,
            record_percent: 100,
            counts: false,
        }
    }

    /// How it is known which pages are valid on a chip that was formatted with these numbers.
    pub(crate) fn validity(&self, setup: [u32; 4]) -> Result<Validity, StoreFault> {
        let is_counted = self.counts && setup[2] == COUNTED;
        counted::built(if is_counted { Validity::Counts } else { Validity::Bits })
    }
}

/// Value of the third number fixed at format if valid pages are counted.
pub(crate) const COUNTED: u32 = 1;

/// Owner of a block that has none.
pub const NOBODY: u32 = u32::MAX;

/// State that a mount found.
#[derive(Clone, Debug, Default)]
pub struct Mounted {
    /// Valid pages by place: those of the mapping table and, after an unclean end, those programmed since the
    /// last record and those that might have lost against them. `Flash::live_in` tells the valid pages of any
    /// block.
    pub live: Vec<Live>,
    /// Place of each logical page, all ones for nowhere, if [`Rules::has_map`].
    pub map: Vec<u32>,
    /// The scheme's own bytes in the base.
    pub extra: Vec<u8>,
    /// True if nothing was programmed since the base.
    pub is_clean: bool,
}

/// Counters of a scheme's work besides reading and writing, since it was formatted or mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
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
    /// Logical pages that could not be read when they were to be moved.
    pub lost_pages: u64,
    /// Programs of a page below an already programmed one of its block, on a chip that allows any order.
    pub out_of_order_programs: u64,
}

/// Record that must be written before the next program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// None: the chip tells already that it is in use.
    Nothing,
    /// A note, because the newest record is a clean base of this session.
    Note,
    /// A base, because of F3 or of a lost page.
    Base,
}

/// A chip under a mapping scheme.
pub struct Chip<N: ?Sized> {
    pub(crate) state: State,
    pub(crate) records: Records,
    upkeep: Upkeep,
    /// Logical pages that needed more than one read; they are to be rewritten.
    weak: Vec<u32>,
    /// Logical page written last, or `None` since this was cleared.
    last_written: Option<u32>,
    /// Old place of the page that is being written: it becomes invalid once the write is done.
    replaced: Option<Ppn>,
    /// Buffer of one page, used in turn for copies, for pages of the mapping table and for records.
    page: Vec<u8>,
    /// Page of the chip that is in the buffer, to be copied.
    loaded: Option<Ppn>,
    /// Counters of the scheme.
    pub counters: FlashCounters,
    nand: UntilLost<N>,
}

/// A chip of any type, as schemes use it.
pub type Flash<'n> = Chip<dyn Nand + 'n>;

impl<N: Nand> Chip<N> {
    /// Erases the chip. The scheme must write a base before anything else.
    pub(crate) fn format(nand: N, rules: Rules, validity: Validity) -> Result<Chip<N>, StoreFault> {
        let validity = counted::built(validity)?;
        let mut nand = UntilLost::new(nand);
        let chip: &mut UntilLost<dyn Nand + '_> = &mut nand;
        let geometry = chip.geometry();
        let mut blocks = BlockTable::keeping(geometry, validity);
        blocks.retire_marked(chip)?;
        let area = CheckpointArea::format(chip, &mut blocks)?;
        for pbn in (0..geometry.blocks).map(Pbn) {
            if blocks.state(pbn) == BlockState::Unclean && blocks.erase(chip, pbn, Cause::Checkpoint)? {
                blocks.release(pbn);
            }
        }
        Ok(Chip::assemble(nand, area, State::new(rules, blocks)))
    }

    fn assemble(nand: UntilLost<N>, area: CheckpointArea, state: State) -> Chip<N> {
        Chip {
            nand,
            records: Records::new(area, state.geometry),
            upkeep: Upkeep::none(),
            weak: Vec::new(),
            last_written: None,
            replaced: None,
            page: vec![0; state.geometry.page_bytes as usize],
            state,
            loaded: None,
            counters: FlashCounters::default(),
        }
    }
}

impl<N: Nand + ?Sized> Chip<N> {
    /// Sets the numbers fixed at format. Called once, before the first base.
    pub(crate) fn set_up(&mut self, page_count: u32, setup: [u32; 4]) {
        let state = &mut self.state;
        debug_assert!(page_count <= state.geometry.pages(), "more logical pages than the chip has");
        debug_assert!(state.rules.validity(setup).is_ok_and(|kept| kept == state.blocks.validity()));
        (state.page_count, state.setup) = (page_count, setup);
    }

    /// Geometry of the chip.
    pub fn geometry(&self) -> Geometry {
        self.state.geometry
    }

    /// Table of the blocks.
    pub fn blocks(&self) -> &BlockTable {
        &self.state.blocks
    }

    /// Table of the blocks, for the choice of victims.
    pub fn blocks_mut(&mut self) -> &mut BlockTable {
        &mut self.state.blocks
    }

    /// Number of logical pages.
    pub fn page_count(&self) -> u32 {
        self.state.page_count
    }

    /// Numbers with which the scheme was formatted.
    pub fn setup(&self) -> [u32; 4] {
        self.state.setup
    }

    /// Use of a block.
    pub fn tag(&self, pbn: Pbn) -> BlockTag {
        self.state.tags.get(pbn.index())
    }

    /// Kind of the pages in a block that has valid pages; else `None`.
    pub fn live_role(&self, pbn: Pbn) -> Option<PageKind> {
        self.state.tag(pbn).role.filter(|_| self.state.blocks.valid_count(pbn) > 0)
    }

    /// True if a page can be programmed: it is erased, and not below a programmed one on a chip that requires
    /// order.
    pub fn is_open(&self, pbn: Pbn, page: u32) -> bool {
        self.state.slots.is_open(pbn, page)
    }

    /// Page behind the highest spent page of a block.
    pub fn next_page(&self, pbn: Pbn) -> u32 {
        self.state.slots.next(pbn)
    }

    /// Page to program next in a block. `None` if all are spent.
    pub fn next_ppn(&self, pbn: Pbn) -> Option<Ppn> {
        let page = self.next_page(pbn);
        (page < self.state.geometry.pages_per_block).then(|| self.state.geometry.page_at(pbn, page))
    }

    /// Tells whether a page is valid; if valid pages are counted, whether it may be.
    pub fn is_valid(&self, ppn: Ppn) -> bool {
        self.state.blocks.is_valid(ppn)
    }

    /// Logical block of a logical page, and its place there.
    pub fn split(&self, lpn: u32) -> (Lbn, u32) {
        let pages = self.state.geometry.pages_per_block;
        (Lbn(lpn / pages), lpn % pages)
    }

    /// Logical page at a place of a logical block.
    pub fn lpn_at(&self, lbn: Lbn, page: u32) -> u32 {
        debug_assert!(page < self.state.geometry.pages_per_block, "page {page} of a logical block");
        lbn.0 * self.state.geometry.pages_per_block + page
    }

    pub(crate) fn ram_bytes(&self, extra_bytes_max: usize) -> usize {
        // With few pages to a block, many blocks wait between two records.
        let blocks = self.state.geometry.blocks as usize;
        let erases = if self.state.geometry.pages_per_block < FEW_PAGES { blocks * 3 / 2 } else { blocks };
        // Room for short lists, if a page is smaller than usual.
        let short = 1024usize.saturating_sub(self.state.geometry.page_bytes as usize);
        self.ram_bytes_of_mount(extra_bytes_max)
            + erases
            + short
            + gather::merge_bytes(&self.state)
            + self.records.trimmed.ram_bytes()
    }

    /// Bytes of RAM held while the chip is mounted, without the results of the mount.
    pub(crate) fn ram_bytes_of_mount(&self, extra_bytes_max: usize) -> usize {
        let State { geometry, blocks, .. } = &self.state;
        let base = base::encoded_bytes(*geometry, blocks.validity(), extra_bytes_max);
        size_of_val(self)
            + self.nand.ram_bytes()
            + self.state.table_bytes()
            + self.records.changed.ram_bytes()
            + self.records.area.ram_bytes(base)
            + self.page.len()
    }

    /// Buffer of one page, for changes; its contents are forgotten.
    pub fn page_mut(&mut self) -> &mut [u8] {
        self.loaded = None;
        &mut self.page
    }

    /// Buffer of one page.
    pub fn page(&self) -> &[u8] {
        &self.page
    }

    /// Lends the page buffer. Nothing else may use it until [`Flash::return_page`].
    fn lend_page(&mut self) -> Vec<u8> {
        self.loaded = None;
        debug_assert!(!self.page.is_empty(), "the page of RAM is lent twice");
        core::mem::take(&mut self.page)
    }

    fn return_page(&mut self, page: Vec<u8>) {
        self.page = page;
    }
}

/// Blocks with fewer pages than this have few pages.
const FEW_PAGES: u32 = 8;

/// Number of pages that are programmed between two records of most schemes: a mount has RAM only for these.
pub(crate) fn record_interval(geometry: Geometry) -> u32 {
    (geometry.pages() / 256).max(256)
}

/// Number of pages that a run of checkpoint blocks keeps for notes. Large bases need it, or few notes would
/// follow each. On a small chip a base is small, and every block counts.
pub(super) fn note_pages(geometry: Geometry) -> u32 {
    if geometry.blocks < 256 { 0 } else { geometry.pages_per_block / 2 }
}
