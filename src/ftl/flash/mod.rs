//! What every mapping scheme but page mapping stands on: pages that say whose they are, blocks, and mounting.
//!
//! A scheme ([`Scheme`]) decides where a logical page goes; [`SchemeFtl`] makes a [`PageStore`](super::PageStore) of it. This
//! module programs, copies and erases for it, remembers which pages are valid and which can still be programmed, and
//! finds all valid pages again after the power was cut at any instant.
//!
//! # On the chip
//!
//! The spare area ([`super::spare`]) of every page holds the kind (which says what the scheme used the block for), the
//! number (logical page, or page of the mapping table), the version, and as `extra` the low byte of the erase count of
//! its block. Every host write has a version, one larger than the last; **a copy keeps the version of what it copies**.
//! So of two pages with the same number the higher version is newer, whatever blocks they lie in and in whatever order
//! these were filled, and equal versions hold equal bytes.
//!
//! # Bases
//!
//! A *base* (`base`) is a checkpoint of the block table, the spent pages, and what each block is used for. One is
//! written at format, at a clean end, before the first program after a mount, and before any block was erased 200
//! times since the last. A *note* after it says that something was programmed since, which pages were trimmed, and what became
//! of the blocks that changed since the record before. One is written before a block is erased that has changed since.
//!
//! # Mounting
//!
//! When the newest record is a clean base and nothing unreadable follows, the chip is as it says. Otherwise base and notes make one
//! newer base, and `scan` reads: of a block that it knows, one page, to see that it was not erased since, and all pages that
//! were not spent; of any other block every page. A page that the base knows is alive if it was valid; a page programmed since,
//! by its version. `elect` then chooses one copy of each number, such that a merge or a collection that was cut short is undone
//! or completed. No block that was open is continued, because its next page may be half programmed and look erased.
//!
//! # What is lost is noticed
//!
//! Versions follow each other, and by F5 nothing programmed since the last record was erased. So after an unclean end every
//! version from the record's to the highest is on the chip, unless a page has gone bad; and so is every page that the record
//! calls valid. The page in flight at the cut has no version that could be missed.
//!
//! # Invariants
//!
//! - F1: a page is valid in the block table exactly when the scheme finds its number there.
//! - F2: a block is erased only when the newest version of everything in it can be found elsewhere, or was trimmed.
//! - F3: nothing is programmed between a mount and the next base.
//! - F4: versions in the base's past are below its next version; those above belong to one session.
//! - F5: a block is erased only if the newest record on the chip (base or note) says that nothing in it is valid, and
//!   nothing was programmed in it since that record.

mod base;
mod elect;
mod gather;
mod plan;
mod scan;
mod scheme;
mod slots;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use gather::Source;
pub use plan::FlashSettings;
pub(crate) use plan::Plan;
pub use scheme::{Scheme, SchemeFtl};

use super::StoreError;
use super::blocks::{BlockState, BlockTable, Wear};
use super::checkpoint::CheckpointArea;
use super::spare::{Found, Header, PageKind, read_page, read_weak_page};
use crate::nand::{Cause, Geometry, Nand, NandError};
use crate::units::{Lbn, Pbn, Ppn};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use base::Base;
use slots::Slots;

/// Once a block was erased so often since the last base, another one is due: pages carry the low byte of the count.
const ERASES_PER_BASE_MAX: u8 = 200;

/// Logical pages that wait to be written anew, at most.
const WEAK_MAX: usize = 16;

/// What a scheme is, to the code that mounts it.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Names the scheme on the medium.
    pub magic: [u8; 4],
    /// Whether a logical block has at most one block of [`PageKind::Data`].
    pub one_data_block: bool,
    /// Whether an older version of a logical page may stay valid for a while. The scheme has no Data blocks then.
    pub old_may_stay_valid: bool,
    /// Kinds of blocks whose pages the scheme is told of at a clean mount; those of Data blocks always are.
    pub listed: &'static [PageKind],
}

/// What a block is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The kind of its pages; none for a block that is not in use.
    pub role: Option<PageKind>,
    /// Whose it is: the logical block of a Data block.
    pub owner: u32,
}

/// No owner.
pub const NOBODY: u32 = u32::MAX;

const UNUSED: Tag = Tag { role: None, owner: NOBODY };

impl Tag {
    fn role_byte(&self) -> u8 {
        self.role.map_or(0, |kind| kind as u8)
    }

    fn from_bytes(role: u8, owner: u32) -> Option<Tag> {
        if role == 0 {
            return Some(Tag { role: None, owner });
        }
        PageKind::from_byte(role).map(|kind| Tag { role: Some(kind), owner })
    }
}

/// A valid page found by a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// Its kind; Data for any page of a block that is a Data block by now.
    pub kind: PageKind,
    /// Logical page, or page of the mapping table.
    pub number: u32,
    /// Where it is.
    pub ppn: Ppn,
}

/// What a mount found.
#[derive(Clone, Debug, Default)]
pub struct Mounted {
    /// Valid pages, by place: all of them after an unclean end, else those of the kinds listed in [`Rules`].
    pub live: Vec<Live>,
    /// Logical pages trimmed since the base.
    pub trimmed: Vec<u32>,
    /// The scheme's own bytes in the base.
    pub extra: Vec<u8>,
    /// Nothing was programmed since the base.
    pub is_clean: bool,
}

/// What a scheme did besides reading and writing, since it was formatted or mounted.
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

/// What must happen before the next program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// Nothing: the chip says already that it is in use.
    Nothing,
    /// A note: the newest record is a clean base of this session.
    Note,
    /// A base (F3, or a page was lost).
    Base,
}

/// A chip under a mapping scheme.
pub struct Flash<N> {
    nand: N,
    geometry: Geometry,
    rules: Rules,
    page_count: u32,
    setup: [u32; 4],
    blocks: BlockTable,
    area: CheckpointArea,
    slots: Slots,
    tags: Vec<Tag>,
    next_version: u64,
    /// Trimmed since the last record that says so, and where the last contents are.
    trimmed: BTreeMap<u32, Option<Ppn>>,
    /// Logical pages whose newest version cannot be read.
    lost: BTreeSet<u32>,
    /// Blocks in which a program failed, to be retired once they are empty.
    doomed: BTreeSet<Pbn>,
    erases_since_base: Vec<u8>,
    opened_blocks: u32,
    is_levelling: bool,
    /// The block to take for cold data, if it is still free.
    worn: Option<Pbn>,
    mark: Mark,
    /// Blocks that changed since the last record, a bit each.
    changed: Vec<u64>,
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
    page: Vec<u8>,
    /// What the scheme did.
    pub counters: FlashCounters,
}

impl<N: Nand> Flash<N> {
    /// Erases the chip. The scheme must write a base before anything else.
    pub(crate) fn format(mut nand: N, rules: Rules) -> Result<Flash<N>, StoreError> {
        let geometry = nand.geometry();
        let mut blocks = BlockTable::new(geometry);
        blocks.retire_marked(&mut nand)?;
        let area = CheckpointArea::format(&mut nand, &mut blocks)?;
        for pbn in blocks.in_state(BlockState::Unclean).collect::<Vec<Pbn>>() {
            if blocks.erase(&mut nand, pbn, Cause::Checkpoint)? {
                blocks.release(pbn);
            }
        }
        let base = Base {
            page_count: 0,
            setup: [0; 4],
            is_clean: true,
            next_version: 1,
            blocks,
            slots: Slots::new(geometry),
            tags: vec![UNUSED; geometry.blocks as usize],
            lost: BTreeSet::new(),
            extra: Vec::new(),
        };
        Ok(Flash::assemble(nand, rules, area, base))
    }

    /// Sets what the scheme was formatted with; once, before the first base.
    pub(crate) fn set_up(&mut self, page_count: u32, setup: [u32; 4]) {
        debug_assert!(page_count <= self.geometry.pages(), "more logical pages than the chip has");
        (self.page_count, self.setup) = (page_count, setup);
    }

    fn assemble(nand: N, rules: Rules, mut area: CheckpointArea, base: Base) -> Flash<N> {
        let geometry = nand.geometry();
        area.be_careful(note_pages(geometry));
        Flash {
            nand,
            geometry,
            rules,
            page_count: base.page_count,
            setup: base.setup,
            blocks: base.blocks,
            area,
            slots: base.slots,
            tags: base.tags,
            next_version: base.next_version,
            trimmed: BTreeMap::new(),
            lost: base.lost,
            doomed: BTreeSet::new(),
            erases_since_base: vec![0; geometry.blocks as usize],
            opened_blocks: 0,
            is_levelling: false,
            worn: None,
            mark: Mark::Base,
            changed: vec![0; (geometry.blocks as usize).div_ceil(64)],
            unfreed: Vec::new(),
            held: Vec::new(),
            weak: Vec::new(),
            last_written: None,
            replaced: None,
            page: vec![0; geometry.page_bytes as usize],
            counters: FlashCounters::default(),
        }
    }

    /// The shape of the chip.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// What is known of the blocks.
    pub fn blocks(&self) -> &BlockTable {
        &self.blocks
    }

    /// The block table, to choose victims by.
    pub(crate) fn blocks_mut(&mut self) -> &mut BlockTable {
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

    /// What a block is used for.
    pub fn tag(&self, pbn: Pbn) -> Tag {
        self.tags[pbn.index()]
    }

    /// Whether a page can be programmed: erased, and not below a programmed one where the chip minds.
    pub fn is_open(&self, pbn: Pbn, page: u32) -> bool {
        self.slots.is_open(pbn, page)
    }

    /// One above the highest page spent in a block.
    pub fn next_page(&self, pbn: Pbn) -> u32 {
        self.slots.next(pbn)
    }

    /// Whether a page holds live data.
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

    /// Bytes of RAM held.
    pub(crate) fn ram_bytes(&self, extra_bytes_max: usize) -> usize {
        size_of::<Self>()
            + self.table_bytes()
            + self.changed.len() * 8
            + self.area.ram_bytes(base::encoded_bytes(self.geometry, extra_bytes_max))
            + self.page.len()
            + self.geometry.page_bytes as usize * 2
    }

    /// Bytes of RAM that the tables of the blocks take.
    pub(crate) fn table_bytes(&self) -> usize {
        self.blocks.ram_bytes() + self.slots.ram_bytes() + self.tags.len() * 6
    }
}

/// Records: bases and notes.
impl<N: Nand> Flash<N> {
    /// Must be called before the first program of an operation. `extra` are the scheme's own bytes, should a base be
    /// written.
    pub(crate) fn begin(&mut self, extra: impl FnOnce() -> Vec<u8>) -> Result<(), StoreError> {
        match self.mark {
            Mark::Nothing => Ok(()),
            Mark::Base => self.write_base(false, &extra()),
            Mark::Note => self.write_note(extra),
        }
    }

    /// Writes a base. When it fails, the previous one still holds.
    pub(crate) fn write_base(&mut self, is_clean: bool, extra: &[u8]) -> Result<(), StoreError> {
        let payload = self.encode_base(is_clean, extra);
        self.mark = Mark::Base;
        self.area.write(&mut self.nand, &mut self.blocks, &payload)?;
        for pbn in core::mem::take(&mut self.held) {
            self.blocks.discard(pbn);
        }
        self.mark = if is_clean { Mark::Note } else { Mark::Nothing };
        self.trimmed.clear();
        self.changed.fill(0);
        self.erases_since_base.fill(0);
        self.counters.bases += 1;
        Ok(())
    }

    /// Says what has changed since the last record, and so that something is programmed after the base.
    fn write_note(&mut self, extra: impl FnOnce() -> Vec<u8>) -> Result<(), StoreError> {
        let mut note = self.encode_note();
        if self.mark == Mark::Note {
            // On two pages: if one that says that a clean base is one no more goes bad, the other tells.
            note.resize(note.len().max(self.geometry.page_bytes as usize), 0);
        }
        if !self.area.write_note(&mut self.nand, &note)? {
            return self.write_base(false, &extra());
        }
        self.mark = Mark::Nothing;
        self.trimmed.clear();
        self.changed.fill(0);
        Ok(())
    }

    /// Before a block is erased: the record that F5 asks for.
    fn record_before_erase(&mut self, pbn: Pbn, extra: impl FnOnce() -> Vec<u8>) -> Result<(), StoreError> {
        if self.mark == Mark::Base {
            self.write_base(false, &extra())
        } else if self.has_changed(pbn) {
            self.write_note(extra)
        } else {
            Ok(())
        }
    }

    /// A block is not any more what the last record says.
    fn touch(&mut self, pbn: Pbn) {
        self.changed[pbn.index() / 64] |= 1 << (pbn.0 % 64);
    }

    fn has_changed(&self, pbn: Pbn) -> bool {
        self.changed[pbn.index() / 64] >> (pbn.0 % 64) & 1 == 1
    }

    /// Those that changed since the last record, ascending.
    fn changed_blocks(&self) -> impl Iterator<Item = Pbn> + '_ {
        (0..self.geometry.blocks).map(Pbn).filter(|&pbn| self.has_changed(pbn))
    }

    /// Makes the trims so far survive a power cut.
    pub(crate) fn sync(&mut self, extra: impl FnOnce() -> Vec<u8>) -> Result<(), StoreError> {
        match (self.trimmed.is_empty(), self.mark) {
            (true, _) => Ok(()),
            (false, Mark::Base) => self.write_base(false, &extra()),
            (false, _) => self.write_note(extra),
        }
    }

    /// Notes that a logical page was dropped; the scheme has invalidated it.
    pub(crate) fn note_trim(&mut self, lpn: u32, ppn: Option<Ppn>) {
        debug_assert!(lpn < self.page_count, "a page beyond the store is trimmed");
        debug_assert!(ppn.is_none_or(|ppn| !self.is_valid(ppn)), "F1: a trimmed page is valid");
        self.trimmed.insert(lpn, ppn);
        self.lost.remove(&lpn);
    }

    /// Whether the newest version of a logical page cannot be read.
    pub(crate) fn is_lost(&self, lpn: u32) -> bool {
        self.lost.contains(&lpn)
    }
}

/// Pages.
impl<N: Nand> Flash<N> {
    /// Reads a live logical page and checks that it is the one asked for.
    pub(crate) fn read(
        &mut self,
        ppn: Ppn,
        number: u32,
        cause: Cause,
        data: &mut [u8],
    ) -> Result<(), StoreError> {
        let (found, is_weak) = read_weak_page(&mut self.nand, ppn, cause, data)?;
        match found {
            Found::Page(header, _) if !self.is_of_now(ppn, header) => {
                Err(StoreError::Corrupted { what: "a page is older than its block", at: u64::from(ppn.0) })
            }
            Found::Page(header, _) if header.number == number => {
                let is_logical = header.kind != PageKind::Map && cause != Cause::Check;
                if is_weak && is_logical && self.weak.len() < WEAK_MAX && !self.weak.contains(&number) {
                    self.weak.push(number);
                }
                Ok(())
            }
            Found::Page(..) => {
                Err(StoreError::Corrupted { what: "a page holds another logical page", at: u64::from(ppn.0) })
            }
            Found::Erased | Found::Unreadable(_) => {
                Err(StoreError::Corrupted { what: "a page does not pass its checksum", at: u64::from(ppn.0) })
            }
        }
    }

    /// Whether a page was programmed since the last erase of its block, as far as the low byte of their count tells.
    fn is_of_now(&self, ppn: Ppn, header: Header) -> bool {
        header.extra == self.blocks.erase_count(self.geometry.block_of(ppn)) as u8
    }

    /// The next logical page to be written anew because it was hard to read.
    pub(crate) fn next_weak(&mut self) -> Option<u32> {
        self.weak.pop()
    }

    /// Of the logical page that is written next, this copy is not valid any more as soon as it is.
    pub(crate) fn replaces(&mut self, old: Option<Ppn>) {
        self.replaced = old;
    }

    fn mark_valid(&mut self, ppn: Ppn) {
        self.touch(self.geometry.block_of(ppn));
        self.blocks.mark_valid(ppn);
    }

    /// Writes a logical page, as a new version, to a page that can be programmed. False: the program failed; the block
    /// takes no more pages and is retired once it is empty, and the write must go elsewhere.
    pub(crate) fn write(
        &mut self,
        ppn: Ppn,
        (kind, lpn): (PageKind, u32),
        cause: Cause,
        data: &[u8],
    ) -> Result<bool, StoreError> {
        debug_assert!(lpn < self.page_count && kind != PageKind::Map, "logical page {lpn} as {kind:?}");
        let header = Header { kind, number: lpn, version: self.next_version, extra: 0 };
        if !self.program(ppn, header, cause, data)? {
            return Ok(false);
        }
        self.next_version += 1;
        self.mark_valid(ppn);
        self.note_written(lpn);
        Ok(true)
    }

    /// A logical page has a new version.
    fn note_written(&mut self, lpn: u32) {
        if let Some(old) = self.replaced.take() {
            self.invalidate(old);
        }
        if !self.lost.is_empty() {
            self.lost.remove(&lpn);
        }
        if !self.trimmed.is_empty() {
            self.trimmed.remove(&lpn);
        }
        self.counters.host_writes += 1;
        self.last_written = Some(lpn);
    }

    /// Which logical page was written last: that of a write that is refused, if all that failed came after it.
    pub(crate) fn last_written(&self) -> Option<u32> {
        self.last_written
    }

    /// Sets what [`Flash::last_written`] says.
    pub(crate) fn note_last_written(&mut self, lpn: Option<u32>) {
        self.last_written = lpn;
    }

    /// Whether blocks have failed, here or in the factory.
    pub(crate) fn has_failed_blocks(&self) -> bool {
        !self.doomed.is_empty() || self.blocks.good_count() < self.geometry.blocks
    }

    /// Writes a page of the mapping table as a new version; false as for [`Flash::write`].
    pub(crate) fn write_map(&mut self, ppn: Ppn, number: u32, data: &[u8]) -> Result<bool, StoreError> {
        let header = Header { kind: PageKind::Map, number, version: self.next_version, extra: 0 };
        if !self.program(ppn, header, Cause::Mapping, data)? {
            return Ok(false);
        }
        self.next_version += 1;
        self.mark_valid(ppn);
        Ok(true)
    }

    /// Reads a valid page whole; none when it cannot be read.
    pub(crate) fn load_into(
        &mut self,
        ppn: Ppn,
        cause: Cause,
        page: &mut [u8],
    ) -> Result<Option<Header>, StoreError> {
        let cause = self.charged(cause);
        Ok(match read_page(&mut self.nand, ppn, cause, page)? {
            Found::Page(header, _) => Some(header).filter(|&header| self.is_of_now(ppn, header)),
            Found::Erased | Found::Unreadable(_) => None,
        })
    }

    /// Programs a page that was loaded, under the version it had; the copy is valid and the original is not. False: the
    /// program failed.
    pub(crate) fn store_from(
        &mut self,
        (from, to): (Ppn, Ppn),
        header: Header,
        cause: Cause,
        page: &[u8],
    ) -> Result<bool, StoreError> {
        debug_assert!(from != to && self.is_valid(from), "F1: {from} is moved to {to}");
        if !self.program(to, header, cause, page)? {
            return Ok(false);
        }
        self.counters.moved_pages += 1;
        self.invalidate(from);
        self.mark_valid(to);
        Ok(true)
    }

    /// [`Flash::load_into`] a buffer of its own.
    pub(crate) fn load(&mut self, ppn: Ppn, cause: Cause) -> Result<Option<Header>, StoreError> {
        let mut page = core::mem::take(&mut self.page);
        let header = self.load_into(ppn, cause, &mut page);
        self.page = page;
        header
    }

    /// [`Flash::store_from`] the buffer of [`Flash::load`].
    pub(crate) fn store(
        &mut self,
        places: (Ppn, Ppn),
        header: Header,
        cause: Cause,
    ) -> Result<bool, StoreError> {
        let page = core::mem::take(&mut self.page);
        let programmed = self.store_from(places, header, cause, &page);
        self.page = page;
        programmed
    }

    /// A valid page cannot be read: the logical page is lost until it is written.
    pub(crate) fn lose(&mut self, ppn: Ppn, lpn: u32) {
        debug_assert!(lpn < self.page_count, "a page beyond the store is lost");
        self.invalidate(ppn);
        self.lost.insert(lpn);
        self.counters.lost_pages += 1;
        self.mark = Mark::Base;
    }

    /// Takes back pages of a group that cannot be completed; a base must say so before anything else is programmed.
    pub(crate) fn abandon(&mut self, pages: &[Ppn]) {
        pages.iter().for_each(|&ppn| self.invalidate(ppn));
        self.mark = Mark::Base;
    }

    /// Marks a page as superseded or trimmed.
    pub(crate) fn invalidate(&mut self, ppn: Ppn) {
        self.touch(self.geometry.block_of(ppn));
        self.blocks.invalidate(ppn);
    }

    fn program(
        &mut self,
        ppn: Ppn,
        mut header: Header,
        cause: Cause,
        data: &[u8],
    ) -> Result<bool, StoreError> {
        let pbn = self.geometry.block_of(ppn);
        debug_assert_eq!(
            data.len(),
            self.geometry.page_bytes as usize,
            "a page of another size is programmed"
        );
        debug_assert!(!self.blocks.is_valid(ppn), "F1: {ppn} is valid and programmed again");
        assert!(self.mark != Mark::Note, "F3: begin comes first");
        header.extra = self.blocks.erase_count(pbn) as u8;
        self.touch(pbn);
        let behind = self.slots.spend(pbn, self.geometry.page_in_block(ppn));
        debug_assert!(
            !self.slots.is_open(pbn, self.geometry.page_in_block(ppn)),
            "{ppn} can be programmed again"
        );
        self.counters.out_of_order_programs += u64::from(behind);
        if self.slots.next(pbn) == self.geometry.pages_per_block && self.blocks.state(pbn) == BlockState::Open
        {
            self.blocks.close(pbn);
        }
        let cause = self.charged(cause);
        match self.nand.program(ppn, cause, data, &header.seal(ppn, data)) {
            Ok(()) => Ok(true),
            Err(NandError::ProgramFailed(_) | NandError::BadBlock(_)) => {
                self.seal(pbn);
                self.doomed.insert(pbn);
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Blocks.
impl<N: Nand> Flash<N> {
    /// Takes an erased block for a purpose. What must still be erased held a checkpoint, or was left by a power cut.
    pub(crate) fn take(&mut self, role: PageKind, owner: u32, wear: Wear) -> Result<Pbn, StoreError> {
        loop {
            let worn = self.worn.take_if(|pbn| wear == Wear::Most && self.blocks.state(*pbn).is_free());
            let (pbn, needs_erase) = match worn {
                Some(pbn) => (pbn, self.blocks.claim(pbn)),
                None => self.blocks.take_free(wear).ok_or(StoreError::Full)?,
            };
            self.opened_blocks += 1;
            if needs_erase && !self.erase(pbn, Cause::Checkpoint)? {
                continue;
            }
            debug_assert_eq!(self.blocks.valid_count(pbn), 0, "F2: {pbn} was free and has valid pages");
            debug_assert_eq!(self.slots.next(pbn), 0, "{pbn} was free and has spent pages");
            debug_assert!(!self.doomed.contains(&pbn), "{pbn} failed and is taken");
            self.retag(pbn, role, owner);
            if role == PageKind::Data {
                // It may never become full; wear levelling is to see it nevertheless.
                self.blocks.close(pbn);
            }
            return Ok(pbn);
        }
    }

    /// Erases a block that is Open; false when it failed and was retired.
    fn erase(&mut self, pbn: Pbn, cause: Cause) -> Result<bool, StoreError> {
        let cause = self.charged(cause);
        match self.blocks.erase(&mut self.nand, pbn, cause) {
            Ok(true) => {}
            Ok(false) => {
                self.counters.retired_blocks += 1;
                return Ok(false);
            }
            Err(error) => {
                self.blocks.discard(pbn);
                return Err(error);
            }
        }
        self.slots.clear(pbn);
        self.touch(pbn);
        let erases = &mut self.erases_since_base[pbn.index()];
        *erases = erases.saturating_add(1);
        if *erases >= ERASES_PER_BASE_MAX {
            self.mark = Mark::Base;
        }
        Ok(true)
    }

    /// Whether blocks were taken since this was asked last.
    fn opened_blocks(&mut self) -> bool {
        core::mem::take(&mut self.opened_blocks) > 0
    }

    /// What is done until [`Flash::end_levelling`] is done to level wear; `worn` is the block to take for cold data.
    fn begin_levelling(&mut self, worn: Option<Pbn>) {
        (self.is_levelling, self.worn) = (true, worn);
    }

    fn end_levelling(&mut self) {
        (self.is_levelling, self.worn) = (false, None);
    }

    /// Who pays for an operation.
    fn charged(&self, cause: Cause) -> Cause {
        match cause {
            Cause::Merge | Cause::GarbageCollection if self.is_levelling => Cause::WearLevelling,
            cause => cause,
        }
    }

    /// Changes what a block is used for.
    pub(crate) fn retag(&mut self, pbn: Pbn, role: PageKind, owner: u32) {
        debug_assert!(!self.blocks.state(pbn).is_free(), "T1: {pbn} is free and given a role");
        self.touch(pbn);
        self.tags[pbn.index()] = Tag { role: Some(role), owner };
    }

    /// Nothing more is programmed in a block before its next erase.
    pub(crate) fn seal(&mut self, pbn: Pbn) {
        self.touch(pbn);
        self.slots.seal(pbn);
        if self.blocks.state(pbn) == BlockState::Open {
            self.blocks.close(pbn);
        }
    }

    /// Erases a block without valid pages and gives it back; a block in which a program failed is retired instead.
    /// `extra` are the scheme's own bytes, should a base be due. Where no record can be written that says that the block is
    /// empty (F5), because too many blocks have failed: `Full`, and it is left as it is until there is one.
    pub(crate) fn free(
        &mut self,
        pbn: Pbn,
        cause: Cause,
        extra: impl FnOnce() -> Vec<u8>,
    ) -> Result<(), StoreError> {
        assert!(self.blocks.valid_count(pbn) == 0, "F2: {pbn} still has valid pages");
        let recorded = self.record_before_erase(pbn, extra);
        self.tags[pbn.index()] = UNUSED;
        if recorded == Err(StoreError::Full) && !self.unfreed.contains(&pbn) {
            self.unfreed.push(pbn);
        }
        recorded?;
        self.unfreed.retain(|&other| other != pbn);
        self.free_recorded(pbn, cause)?;
        while let Some(i) = self.unfreed.iter().position(|&pbn| !self.has_changed(pbn)) {
            let pbn = self.unfreed.swap_remove(i);
            self.free_recorded(pbn, cause)?;
        }
        Ok(())
    }

    fn free_recorded(&mut self, pbn: Pbn, cause: Cause) -> Result<(), StoreError> {
        debug_assert_eq!(self.blocks.valid_count(pbn), 0, "F2: {pbn} still has valid pages");
        if self.doomed.remove(&pbn) {
            self.counters.retired_blocks += 1;
            return self.blocks.give_up(&mut self.nand, pbn);
        }
        if self.erase(pbn, cause)? {
            self.blocks.release(pbn);
        }
        Ok(())
    }
}

/// Pages that a run of checkpoint blocks keeps for notes. Large bases need it, or each would be followed by few notes; on a small chip
/// a base is small, and every block counts.
pub(super) fn note_pages(geometry: Geometry) -> u32 {
    if geometry.blocks < 256 { 0 } else { geometry.pages_per_block / 2 }
}
