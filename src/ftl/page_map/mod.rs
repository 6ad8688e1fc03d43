//! A page-mapping flash translation layer: any logical page may lie in any physical page.
//!
//! The map from logical to physical pages is in RAM. Every write goes to the next page of an open block; the
//! page that held the old contents becomes invalid, and when free blocks run short, a victim's valid pages
//! move and the block is free again. Pages the host writes and pages that move have a frontier each, so that
//! what proved cold is not mixed with what is hot; or they share one; or a filter says which of the host's
//! pages are hot ([`Separation`]). (Ban 1995 for the idea; Kawaguchi, Nishioka and Motoda 1995 for cleaning;
//! Hsieh, Kuo and Chang 2006 for the filter.)
//!
//! # On the chip
//!
//! The spare area ([`crate::blocks::spare`]) of a page says whose it is. Every host write has a *version*, a
//! number one larger than the last; each record of the checkpoint area takes one, too. `number` is the
//! logical page.
//!
//! | kind | version |
//! |---|---|
//! | Host: a single page, or the last of an atomic group | its own |
//! | More: a page of a group of which more follow | its own |
//! | Copy (moved) | that of the page it copies |
//! | Trim: a list of trimmed pages, by former releases | the last committed version |
//!
//! `extra` is the *stamp*: the low byte of the erase count of the block. A page from before the block's last
//! erase that came back does not pass for one of today; its place is in the checksum, so neither does a page
//! of another place.
//!
//! # Operations
//!
//! - *Write* (a group; a single write is a group of one): make room for all of it, program its pages, then
//!   change the map. A program that fails is repeated in a new block under the same version; the failed block
//!   is emptied and retired once the group is whole.
//! - *Collect* (`relocate`): copy the victim's valid pages under their versions to the frontier for moved
//!   pages, give the block back unerased. It is erased when it is needed.
//! - *Batch*: the pages of a group are submitted together, and the calls of a [`PageStore`] batch, but for
//!   collections and checkpoints, which wait. A frontier takes the channels of an array in turn, so what is
//!   written together is spread evenly.
//! - *Barrier* (`write`): where the chip waits for one, wherever a mount relies on an order.
//! - *Trim*: changes the map.
//! - *Checkpoint*: map, block table and frontiers, by [`CheckpointArea`]; after so many opened blocks, and at
//!   `close`.
//! - *Note* (`note`): what has changed since the last record, a checkpoint or another note. Once a page is
//!   full of that, or several of less than 512 bytes are; at a `sync` after trims; and before a block is
//!   given back that has changed since (P6).
//! - *Mount* (`recovery`): the newest checkpoint, its notes, then what was programmed since.
//!
//! # Invariants
//!
//! - P1: a page is valid in the block table exactly when the map points to it.
//! - P2: a mapped page reads back as that logical page, with a good checksum; else reading it is an error,
//!   never other data.
//! - P3: between operations the chip, read by `recovery`, yields the map in RAM, but for trims that are not
//!   synced.
//! - P4: the host takes a free block only while more than `floor_blocks` are free; so relocation and the next
//!   checkpoint always find one, after power cuts too.
//! - P5: versions above the last record's belong to one session: the first program after a mount that
//!   found any is preceded by a checkpoint. So a group that was cut never gets company of higher versions.
//!   The version of the page that was cut is not given to another.
//! - P6: what was programmed since the last record is on the chip: no block with such pages is erased, or
//!   marked bad, before a newer record is complete. So a version that is missing went bad.

mod ahead;
mod event;
mod look;
mod map;
mod note;
mod recovery;
mod relocate;
mod settings;
mod state;
#[cfg(test)]
mod tests;
mod write;

pub use settings::{FtlSettings, Separation};

use crate::blocks::checkpoint::{CheckpointArea, NO_CHECKPOINT, Source};
use crate::blocks::hot::HotFilter;
use crate::blocks::spare::{Found, Header, PageKind, read_weak_page};
use crate::blocks::wear::WearLeveller;
use crate::blocks::{BlockState, BlockTable};
use crate::check::{CheckReport, Invariant, message};
use crate::codec::first_number;
use crate::fault::StoreFault;
use crate::nand::{Cause, Geometry, Nand, UntilLost};
use crate::store::patrol::Patrol;
use crate::store::{PageStore, StoreError, StoreStats, unless_full};
use crate::units::{Lpn, Pbn, Ppn};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use map::PageMap;
use note::{Changes, NoteContents};
use settings::Limits;
use state::{LOST, NONE, State, StateContents, VERSION_BITS, lost};

/// The counters of work that the FTL did besides reading and writing, since it was formatted or mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FtlCounters {
    /// Pages written by the host.
    pub host_writes: u64,
    /// Victims collected.
    pub collections: u64,
    /// Valid pages moved out of victims, cold blocks and failing blocks.
    pub moved_pages: u64,
    /// Blocks moved to even out wear.
    pub levelled_blocks: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Notes written.
    pub notes: u64,
    /// Blocks that failed and were retired.
    pub retired_blocks: u64,
    /// Logical pages found unreadable when they were to be moved.
    pub lost_pages: u64,
}

/// The page-mapping FTL.
pub struct PageMapFtl<N> {
    nand: UntilLost<N>,
    geometry: Geometry,
    settings: FtlSettings,
    limits: Limits,
    state: State,
    area: CheckpointArea,
    /// Since the last record.
    changes: Changes,
    /// Full blocks in which a program failed, to be emptied and retired.
    doomed: Vec<Pbn>,
    blocks_since_checkpoint: u32,
    /// Full blocks without valid pages are kept until a checkpoint is complete: after an unclean end (P6).
    holds_blocks: bool,
    leveller: WearLeveller,
    /// Tells hot pages where the separation asks for it.
    hot: Option<HotFilter>,
    /// A checkpoint must come before the next program (P5).
    stale: bool,
    /// A checkpoint should come before the next write.
    due: bool,
    /// The last group was written ahead, and nothing waited for it.
    owes_barrier: bool,
    /// A logical page that was hard to read and is to be written anew, or [`NONE`].
    weak: u32,
    /// Logical pages that the round of scrubbing has passed.
    scrubbed: u32,
    page: Vec<u8>,
    group: Vec<Ppn>,
    /// Open batches of the host.
    batches: u32,
    counters: FtlCounters,
}

impl<N: Nand> PageMapFtl<N> {
    /// Erases the chip and starts an empty store on it.
    pub fn format(mut nand: N, settings: FtlSettings) -> Result<PageMapFtl<N>, StoreError> {
        settings.require_built()?;
        let geometry = nand.geometry();
        let mut blocks = BlockTable::new(geometry);
        blocks.retire_marked(&mut nand)?;
        let area = CheckpointArea::format(&mut nand, &mut blocks)?;
        for pbn in (0..geometry.blocks).map(Pbn) {
            if blocks.state(pbn) == BlockState::Unclean && blocks.erase(&mut nand, pbn, Cause::Checkpoint)? {
                blocks.release(pbn);
            }
        }
        let limits = Limits::for_chip(geometry, &settings, blocks.good_count())?;
        let state = State {
            map: PageMap::empty(limits.page_count, geometry.pages()),
            blocks,
            first_crc: vec![0; geometry.blocks as usize],
            frontiers: [None; 3],
            atomic_pages: limits.atomic_pages,
            note_pages: Some(limits.note_pages),
            next_version: first_number(VERSION_BITS, 1),
            committed: first_number(VERSION_BITS, 1) - 1,
        };
        let mut ftl = PageMapFtl::assemble(nand, settings, area, state);
        ftl.checkpoint()?;
        ftl.counters = FtlCounters::default();
        Ok(ftl)
    }

    /// Finds the store on a chip again. Nothing is programmed or erased by this.
    #[inline(never)]
    pub fn mount(mut nand: N, settings: FtlSettings) -> Result<PageMapFtl<N>, StoreError> {
        settings.require_built()?;
        let geometry = nand.geometry();
        let mut decode =
            |before: Option<Box<State>>, source: &mut dyn Source| note::decode(geometry, before, source);
        let Some((area, newest)) = CheckpointArea::mount_since(&mut nand, &mut decode, note::is_base)? else {
            return Err(StoreError::NotFormatted(crate::nand::unfit(&mut nand, NO_CHECKPOINT)?));
        };
        if let Some(ppn) = newest.unreadable.filter(|_| !nand.tears()) {
            return Err(StoreFault::corrupted(
                "a page that may hold the newest record cannot be read",
                ppn.0,
            )
            .into());
        }
        let mut state = *newest.made;
        // Notes say nothing of valid pages.
        state.follow_map()?;
        state.validate()?;
        let is_before = state.note_pages.is_none();
        state.note_pages = state.note_pages.or(Some(Limits::note_pages_of(&state, &settings)));
        state.blocks.reserve_exactly(&area.occupied())?;
        let mut ftl = PageMapFtl::assemble(nand, settings, area, state);
        ftl.recover(is_before)?;
        ftl.stale |= newest.is_ragged || ftl.area.is_ragged() || is_before;
        ftl.state.blocks.follow(ftl.settings.victim);
        ftl.leveller = WearLeveller::new(ftl.settings.wear_levelling, &ftl.state.blocks);
        Ok(ftl)
    }

    fn assemble(nand: N, settings: FtlSettings, mut area: CheckpointArea, mut state: State) -> PageMapFtl<N> {
        let geometry = nand.geometry();
        state.blocks.follow(settings.victim);
        if settings.wear_levelling.asks_for_ages() {
            state.blocks.keep_ages();
        }
        let hot = match settings.separation {
            Separation::HotFilter(numbers) if cfg!(feature = "full") => Some(HotFilter::new(numbers)),
            _ => None,
        };
        let note_pages = state.note_pages.unwrap_or(0);
        let limits = Limits::new(geometry, &settings, state.map.len() as u32, state.atomic_pages);
        let limits = limits.keeping(geometry, note_pages);
        area.be_careful(note_pages);
        PageMapFtl {
            leveller: WearLeveller::new(settings.wear_levelling, &state.blocks),
            hot,
            nand: UntilLost::new(nand),
            geometry,
            settings,
            limits,
            state,
            area,
            changes: Changes::none(geometry, limits.atomic_pages),
            doomed: Vec::new(),
            blocks_since_checkpoint: 0,
            holds_blocks: false,
            stale: false,
            due: false,
            owes_barrier: false,
            weak: NONE,
            scrubbed: 0,
            page: vec![0; geometry.page_bytes as usize],
            group: Vec::new(),
            batches: 0,
            counters: FtlCounters::default(),
        }
    }

    /// Writes a checkpoint, so that the next mount need not follow what came before, and gives the chip back.
    pub fn close(mut self) -> Result<N, StoreError> {
        PageStore::checkpoint(&mut self)?;
        Ok(self.nand.into_inner())
    }

    /// Gives the chip back as if the power were cut.
    pub fn into_nand(self) -> N {
        self.nand.into_inner()
    }

    /// The chip.
    pub fn nand(&self) -> &N {
        self.nand.inner()
    }

    /// The chip, for measuring and for faults. Programming or erasing it breaks the store.
    pub fn nand_mut(&mut self) -> &mut N {
        self.nand.inner_mut()
    }

    /// The table of the blocks.
    pub fn blocks(&self) -> &BlockTable {
        &self.state.blocks
    }

    /// The counters since the FTL was formatted or mounted.
    pub fn counters(&self) -> FtlCounters {
        self.counters
    }

    /// Writes a checkpoint. When it fails, the previous one still holds.
    pub fn checkpoint(&mut self) -> Result<(), StoreError> {
        self.wait_for_group()?;
        self.write_checkpoint().map_err(worn_out)?;
        Ok(self.wait()?)
    }

    /// Writes a checkpoint; `Full` where the chip has no block for it.
    pub(super) fn write_checkpoint(&mut self) -> Result<(), StoreFault> {
        let versions = self.take_version();
        let state = &mut self.state;
        let contents = StateContents {
            geometry: self.geometry,
            fixed: state.fixed_part(),
            first_crc: &state.first_crc,
            map: &state.map,
        };
        // A page of its own: the buffer may hold one that is to be moved.
        let mut page = vec![0; self.geometry.page_bytes as usize];
        if let Err(error) = self.area.write(&mut self.nand, &mut state.blocks, &contents, &mut page) {
            (self.state.next_version, self.state.committed) = versions;
            // It may be complete nevertheless: nothing gets its version.
            self.due |= self.area.is_torn() || !error.is_full();
            return Err(error);
        }
        self.release_held();
        self.changes.clear();
        self.blocks_since_checkpoint = 0;
        (self.stale, self.due) = (false, false);
        self.counters.checkpoints += 1;
        Ok(())
    }

    /// Writes what makes everything so far survive a power cut: a note, or where none will do a checkpoint.
    pub(super) fn write_record(&mut self) -> Result<(), StoreFault> {
        if self.stale || self.due {
            return self.write_checkpoint();
        }
        self.take_version();
        self.changes.settle();
        let note = NoteContents {
            geometry: self.geometry,
            next_version: self.state.next_version,
            frontiers: self.state.frontiers,
            first_crc: &self.state.first_crc,
            map: &self.state.map,
            changes: &self.changes,
        };
        let mut page = vec![0; self.geometry.page_bytes as usize];
        let written = self.area.write_note(&mut self.nand, &self.state.blocks, &note, &mut page);
        drop(page);
        if written == Ok(true) {
            self.changes.clear();
            self.counters.notes += 1;
            return Ok(());
        }
        // A note that failed may be complete nevertheless: nothing gets its version.
        self.due = true;
        written?;
        self.write_checkpoint()
    }

    /// A record has a version of its own: where it is lost, that is missing among those that follow. The
    /// versions before, should it fail.
    fn take_version(&mut self) -> (u64, u64) {
        let before = (self.state.next_version, self.state.committed);
        (self.state.next_version, self.state.committed) = (before.0 + 1, before.0);
        before
    }

    /// The newest record does not need the blocks any more that were kept for the one before.
    fn release_held(&mut self) {
        if !core::mem::take(&mut self.holds_blocks) {
            return;
        }
        for pbn in (0..self.geometry.blocks).map(Pbn) {
            let blocks = &mut self.state.blocks;
            let is_empty = blocks.state(pbn) == BlockState::Full && blocks.valid_count(pbn) == 0;
            if is_empty && !self.doomed.contains(&pbn) {
                blocks.discard(pbn);
            }
        }
    }

    /// Notes that a logical page is elsewhere, or nowhere, since the last record.
    pub(super) fn note_change(&mut self, lpn: Lpn) {
        self.due |= !self.changes.note(lpn.0);
    }

    fn map_bytes(&self) -> usize {
        self.state.map.len() * PageMap::bytes_each(self.geometry.pages())
    }

    fn page_of(&self, lpn: Lpn) -> Result<u32, StoreFault> {
        if lpn.index() < self.state.map.len() {
            return Ok(self.state.map.get(lpn.index()));
        }
        Err(StoreError::OutOfRange(lpn).into())
    }

    /// The stamp that the pages of a block carry since its last erase.
    fn stamp_of(&self, pbn: Pbn) -> u8 {
        self.state.blocks.erase_count(pbn) as u8
    }

    /// Whether a page found in a place is this logical page, written there since the last erase.
    fn is_of(&self, header: Header, lpn: Lpn, ppn: Ppn) -> bool {
        holds_data(header.kind)
            && header.number == lpn.0
            && header.extra == self.stamp_of(self.geometry.block_of(ppn))
    }

    fn require_page(&self, bytes: usize) -> Result<(), StoreFault> {
        let expected = self.geometry.page_bytes as usize;
        if bytes == expected { Ok(()) } else { Err(StoreError::WrongLength { expected, got: bytes }.into()) }
    }

    fn check_read(&mut self, lpn: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreFault> {
        let ppn = match self.page_of(lpn)? {
            NONE => {
                data.fill(0);
                return Ok(());
            }
            LOST => return Err(lost(lpn)),
            ppn => Ppn(ppn),
        };
        let (found, is_weak) = read_weak_page(&mut self.nand, ppn, cause, data)?;
        match found {
            Found::Page(header, _) if self.is_of(header, lpn, ppn) => {
                if is_weak && self.weak == NONE {
                    self.weak = lpn.0;
                }
                Ok(())
            }
            Found::Page(..) => {
                let what = "a page holds another logical page, or one that is long superseded";
                Err(StoreFault::corrupted(what, ppn.0))
            }
            Found::Erased | Found::Unreadable(_) => {
                Err(StoreFault::corrupted("a page does not pass its checksum", ppn.0))
            }
        }
    }
}

impl<N: Nand> PageStore for PageMapFtl<N> {
    fn page_bytes(&self) -> usize {
        self.geometry.page_bytes as usize
    }

    fn page_count(&self) -> u32 {
        self.limits.page_count
    }

    fn read(&mut self, lpn: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        self.require_page(data.len())?;
        Ok(self.check_read(lpn, cause, data)?)
    }

    fn write(&mut self, lpn: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreError> {
        Ok(self.write_group(&[(lpn, data)], cause, true)?)
    }

    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        let old = self.page_of(lpn)?;
        if old == NONE {
            return Ok(());
        }
        self.state.map.set(lpn.index(), NONE);
        if old != LOST {
            self.state.blocks.invalidate(Ppn(old));
            // The block may not be erased before a record says that nothing is missing there.
            self.changes.touch(self.geometry.block_of(Ppn(old)));
        }
        self.note_change(lpn);
        self.changes.has_trims = true;
        if self.due || self.changes.has_room_for(1) {
            return Ok(());
        }
        match self.persist_trims().map_err(worn_out) {
            // The trim is done; what is missing is the room to say so.
            Err(error) if matches!(*error, StoreError::WornOut) => Ok(()),
            other => Ok(other?),
        }
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(self.persist_trims().map_err(worn_out)?)
    }

    fn checkpoint(&mut self) -> Result<(), StoreError> {
        // Trims are noted as well: where the end of the checkpoint goes bad, nothing else tells of them.
        match self.persist_trims().map_err(worn_out) {
            Err(error) if !error.is_refusal() => return Err(error.into()),
            _ => {}
        }
        PageMapFtl::checkpoint(self)
    }

    fn stats(&self) -> StoreStats {
        StoreStats {
            collections: self.counters.collections,
            moved_pages: self.counters.moved_pages,
            live_pages: u64::from(self.state.blocks.live_pages()),
            mapping_bytes: (self.map_bytes() + self.state.blocks.ram_bytes()) as u64,
            ..StoreStats::default()
        }
    }

    fn live_page(&self, ppn: Ppn) -> Option<bool> {
        (ppn.0 < self.geometry.pages()).then(|| self.state.blocks.is_valid(ppn))
    }

    fn atomic_pages_max(&self) -> usize {
        self.limits.atomic_pages as usize
    }

    fn write_atomic(&mut self, pages: &[(Lpn, &[u8])], cause: Cause) -> Result<(), StoreError> {
        self.write_pages(pages, cause, true)
    }

    fn begin_batch(&mut self) {
        self.batches += 1;
        self.nand.begin_batch();
    }

    fn end_batch(&mut self) {
        self.batches -= 1;
        self.nand.end_batch();
    }

    fn durable_writes(&self) -> bool {
        true
    }

    fn prefix_consistent(&self) -> bool {
        true
    }

    fn maintain(&mut self, budget: u32) -> Result<u32, StoreError> {
        unless_full(self.collect_ahead(budget).map_err(StoreError::from))
    }

    fn scrub(&mut self, budget: u32) -> Result<u32, StoreError> {
        unless_full(self.look_on(budget))
    }

    fn ram_bytes(&self) -> usize {
        size_of::<Self>()
            + self.nand.ram_bytes()
            + self.map_bytes()
            + self.state.blocks.ram_bytes()
            + self.geometry.blocks as usize * 4
            + self.leveller.ram_bytes()
            + self.hot.as_ref().map_or(0, HotFilter::ram_bytes)
            + self.area.ram_bytes(state::encoded_bytes(self.geometry, self.state.map.len() as u32))
            + self.changes.ram_bytes()
            + self.limits.atomic_pages as usize * 4
            // The other one is that of a record.
            + 2 * self.page.len()
    }

    fn mount_ram_bytes(&self) -> usize {
        self.ram_bytes() + self.mount_bytes()
    }
}

/// Looking on.
impl<N: Nand> PageMapFtl<N> {
    /// Checks the invariants that can be seen between two operations. Costs no counted I/O.
    pub fn check(&mut self) -> Result<CheckReport, StoreError> {
        let mut report = CheckReport::default();
        let mut unclaimed = self.state.blocks.clone();
        let mut data = vec![0; self.geometry.page_bytes as usize];
        for lpn in (0..self.limits.page_count).map(Lpn) {
            let ppn = self.state.map.get(lpn.index());
            if ppn >= LOST {
                continue;
            }
            report.records += 1;
            if unclaimed.is_valid(Ppn(ppn)) {
                unclaimed.invalidate(Ppn(ppn));
            } else {
                let found = message!("{lpn} is mapped to a page that is not valid");
                report.violation(Invariant::P1, u64::from(ppn), found);
            }
            match self.check_read(lpn, Cause::Check, &mut data) {
                Err(error) if error.is_corrupted() => {
                    report.violation(Invariant::P2, u64::from(lpn.0), message!("{error}"));
                }
                other => other?,
            }
        }
        if unclaimed.live_pages() > 0 {
            let found = message!("{} valid pages beside the map", unclaimed.live_pages());
            report.violation(Invariant::P1, 0, found);
        }
        report.nodes = u64::from(self.state.blocks.good_count());
        Ok(report)
    }
}

/// No room is left only where blocks have failed: otherwise every logical page can be written over and over.
fn worn_out(error: StoreFault) -> StoreFault {
    if error.is_full() { StoreError::WornOut.into() } else { error }
}

/// Whether a page of this kind holds a logical page.
fn holds_data(kind: PageKind) -> bool {
    matches!(kind, PageKind::Host | PageKind::More | PageKind::Copy)
}
