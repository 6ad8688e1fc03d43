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
//! times since the last. A *note* after it says that something was programmed since, or which pages were trimmed.
//!
//! # Mounting
//!
//! When the newest record is a clean base and nothing unreadable follows, the chip is as it says. Otherwise `scan` reads: of a block that the base
//! knows, one page, to see that it was not erased since, and all pages that were not spent; of any other block every
//! page. A page that the base knows is alive if it was valid; a page programmed since, by its version. `elect` then
//! chooses one copy of each number, such that a merge or a collection that was cut short is undone or completed. No
//! block that was open is continued, because its next page may be half programmed and look erased.
//!
//! # Invariants
//!
//! - F1: a page is valid in the block table exactly when the scheme finds its number there.
//! - F2: a block is erased only when the newest version of everything in it can be found elsewhere, or was trimmed.
//! - F3: nothing is programmed between a mount and the next base.
//! - F4: versions in the base's past are below its next version; those above belong to one session.

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
use super::spare::{Found, Header, PageKind, read_page};
use crate::nand::{Cause, Geometry, Nand, NandError};
use crate::units::{Lbn, Pbn, Ppn};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use base::Base;
use slots::Slots;

/// Once a block was erased so often since the last base, another one is due: pages carry the low byte of the count.
const ERASES_PER_BASE_MAX: u8 = 200;

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
        (self.page_count, self.setup) = (page_count, setup);
    }

    fn assemble(nand: N, rules: Rules, area: CheckpointArea, base: Base) -> Flash<N> {
        let geometry = nand.geometry();
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
        lbn.0 * self.geometry.pages_per_block + page
    }

    /// Bytes of RAM held.
    pub(crate) fn ram_bytes(&self) -> usize {
        size_of::<Self>()
            + self.table_bytes()
            + self.area.ram_bytes()
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
        self.mark = if is_clean { Mark::Note } else { Mark::Nothing };
        self.trimmed.clear();
        self.erases_since_base.fill(0);
        self.counters.bases += 1;
        Ok(())
    }

    /// Says that something is programmed after the base, and what was trimmed.
    fn write_note(&mut self, extra: impl FnOnce() -> Vec<u8>) -> Result<(), StoreError> {
        let note = self.encode_note();
        if !self.area.write_note(&mut self.nand, &note)? {
            return self.write_base(false, &extra());
        }
        self.mark = Mark::Nothing;
        self.trimmed.clear();
        Ok(())
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
        match read_page(&mut self.nand, ppn, cause, data)? {
            Found::Page(header, _) if header.number == number => Ok(()),
            Found::Page(..) => {
                Err(StoreError::Corrupted { what: "a page holds another logical page", at: u64::from(ppn.0) })
            }
            Found::Erased | Found::Unreadable(_) => {
                Err(StoreError::Corrupted { what: "a page does not pass its checksum", at: u64::from(ppn.0) })
            }
        }
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
        let header = Header { kind, number: lpn, version: self.next_version, extra: 0 };
        if !self.program(ppn, header, cause, data)? {
            return Ok(false);
        }
        self.next_version += 1;
        self.blocks.mark_valid(ppn);
        self.note_written(lpn);
        Ok(true)
    }

    /// A logical page has a new version.
    fn note_written(&mut self, lpn: u32) {
        if !self.lost.is_empty() {
            self.lost.remove(&lpn);
        }
        if !self.trimmed.is_empty() {
            self.trimmed.remove(&lpn);
        }
        self.counters.host_writes += 1;
    }

    /// Writes a page of the mapping table as a new version; false as for [`Flash::write`].
    pub(crate) fn write_map(&mut self, ppn: Ppn, number: u32, data: &[u8]) -> Result<bool, StoreError> {
        let header = Header { kind: PageKind::Map, number, version: self.next_version, extra: 0 };
        if !self.program(ppn, header, Cause::Mapping, data)? {
            return Ok(false);
        }
        self.next_version += 1;
        self.blocks.mark_valid(ppn);
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
            Found::Page(header, _) => Some(header),
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
        if !self.program(to, header, cause, page)? {
            return Ok(false);
        }
        self.counters.moved_pages += 1;
        self.blocks.invalidate(from);
        self.blocks.mark_valid(to);
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
        self.blocks.invalidate(ppn);
        self.lost.insert(lpn);
        self.counters.lost_pages += 1;
        self.mark = Mark::Base;
    }

    /// Takes back pages of a group that cannot be completed; a base must say so before anything else is programmed.
    pub(crate) fn abandon(&mut self, pages: &[Ppn]) {
        pages.iter().for_each(|&ppn| self.blocks.invalidate(ppn));
        self.mark = Mark::Base;
    }

    /// Marks a page as superseded or trimmed.
    pub(crate) fn invalidate(&mut self, ppn: Ppn) {
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
        assert!(self.mark != Mark::Note, "F3: begin comes first");
        header.extra = self.blocks.erase_count(pbn) as u8;
        let behind = self.slots.spend(pbn, self.geometry.page_in_block(ppn));
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
            self.tags[pbn.index()] = Tag { role: Some(role), owner };
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
        self.tags[pbn.index()] = Tag { role: Some(role), owner };
    }

    /// Nothing more is programmed in a block before its next erase.
    pub(crate) fn seal(&mut self, pbn: Pbn) {
        self.slots.seal(pbn);
        if self.blocks.state(pbn) == BlockState::Open {
            self.blocks.close(pbn);
        }
    }

    /// Erases a block without valid pages and gives it back; a block in which a program failed is retired instead.
    /// `extra` are the scheme's own bytes, should a base be due: a page that was lost, and the trim of a page in this
    /// block, must be known before an older version of it becomes the newest on the chip.
    pub(crate) fn free(
        &mut self,
        pbn: Pbn,
        cause: Cause,
        extra: impl FnOnce() -> Vec<u8>,
    ) -> Result<(), StoreError> {
        let holds = |ppn: &Option<Ppn>| ppn.is_some_and(|ppn| self.geometry.block_of(ppn) == pbn);
        if self.mark == Mark::Base {
            self.write_base(false, &extra())?;
        } else if self.trimmed.values().any(holds) {
            self.write_note(extra)?;
        }
        self.tags[pbn.index()] = UNUSED;
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
