//! A page-mapping flash translation layer: any logical page may lie in any physical page.
//!
//! The map from logical to physical pages is in RAM. Every write goes to the next page of an open block, and
//! the page with the old contents becomes invalid. When free blocks run short, the valid pages of a victim
//! move, and the block is free again. Pages that the host writes and pages that move have a frontier each, so
//! that cold pages are not mixed with hot ones. Or they share one frontier, or a filter tells which of the
//! host's pages are hot ([`Separation`]). (Ban 1995 for the idea; Kawaguchi, Nishioka and Motoda 1995 for
//! cleaning; Hsieh, Kuo and Chang 2006 for the filter.)
//!
//! # On the chip
//!
//! The spare area ([`crate::blocks::spare`]) of a page tells to which logical page it belongs (`number`).
//! Every host write has a *version*, a number one larger than the last; each record of the checkpoint area
//! takes a version, too.
//!
//! | kind | version |
//! |---|---|
//! | Host: a single page, or the last of an atomic group | its own |
//! | More: a page of a group of which more follow | its own |
//! | Copy (moved) | that of the page it copies |
//! | Trim: a list of trimmed pages, by former releases | the last committed version |
//!
//! `extra` is the *stamp*: the low byte of the erase count of the block. If a page from before the last erase
//! of the block comes back, its stamp is wrong. The checksum includes the place, so a page from another place
//! is noticed too.
//!
//! # Operations
//!
//! - *Write* (a group; a single write is a group of one): make room for all of it, program its pages, then
//!   change the map. If a program fails, it is repeated in a new block under the same version. The failed
//!   block is emptied and retired once the group is whole.
//! - *Collect* (`relocate`): copy the victim's valid pages under their versions to the frontier for moved
//!   pages, and free the block without an erase. It is erased when it is needed.
//! - *Batch*: the pages of a group are submitted together, and so are the calls of a [`PageStore`] batch,
//!   except for collections and checkpoints, which wait. A frontier takes the channels of an array in turn,
//!   so pages written together are spread evenly.
//! - *Barrier* (`write`): if the chip has barriers, there is one wherever a mount relies on an order.
//! - *Trim*: changes the map.
//! - *Checkpoint*: map, block table and frontiers, by [`CheckpointArea`]. It is written after a number of
//!   opened blocks, and at `close`.
//! - *Note* (`note`): the changes since the last record, which is a checkpoint or another note. It is written
//!   when they fill a page (several pages, if pages have less than 512 bytes), at a `sync` after trims, and
//!   before a block is freed that has changed since the last record (P6).
//! - *Mount* (`recovery`): the newest checkpoint, its notes, then the pages programmed since.
//!
//! # Invariants
//!
//! - P1: a page is valid in the block table exactly if the map points to it.
//! - P2: a mapped page reads as its logical page, with a good checksum. Otherwise reading it is an error; it
//!   never returns other data.
//! - P3: between operations `recovery` finds the map in RAM on the chip, except for trims that are not
//!   synced.
//! - P4: the host takes a free block only while more than `floor_blocks` are free. So relocation and the next
//!   checkpoint always find one, after power cuts too.
//! - P5: versions above the last record's belong to one session: if a mount finds any, a checkpoint precedes
//!   the first program after it. So no higher versions are ever added to a group that was cut. The version of
//!   the page that was cut is not used again.
//! - P6: every page programmed since the last record is on the chip: no block with such pages is erased, or
//!   marked bad, before a newer record is complete. So a version that is missing was damaged.
//!
//! # Parts
//!
//! | part | owns | file |
//! |---|---|---|
//! | `State` | the map, the blocks, the frontiers and the versions: all that survives a clean end | `state.rs` |
//! | `Records` | the checkpoint area, the changes since the last record, when one is due | `record.rs` |
//! | `Recovery` | the pages found by a mount; it lends the others meanwhile | `recovery.rs` |
//!
//! An operation is a `Work`: these parts and the chip, in full builds behind `dyn`, so that one body of code
//! serves every chip. [`PageMapFtl`] is a thin shell around it.

mod ahead;
mod event;
mod look;
mod map;
mod note;
mod record;
mod recovery;
mod relocate;
mod settings;
mod state;
#[cfg(test)]
mod tests;
mod write;

pub use settings::{FtlConfig, Separation};

use crate::blocks::checkpoint::{CheckpointArea, NO_CHECKPOINT, Source};
use crate::blocks::hot::HotFilter;
use crate::blocks::spare::{Found, PageKind, read_weak_page};
use crate::blocks::wear::WearLeveller;
use crate::blocks::{BlockState, BlockTable};
use crate::check::{CheckReport, Invariant, message};
use crate::codec::first_number;
use crate::fault::StoreFault;
use crate::nand::{Cause, Geometry, Nand, UntilLost, once};
use crate::store::patrol::Patrol;
use crate::store::{PageStore, StoreError, StoreStats, unless_full};
use crate::units::{Lpn, Pbn, Ppn};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use map::PageMap;
use record::Records;
use recovery::Recovery;
use settings::Limits;
use state::{LOST, NONE, State, VERSION_BITS, lost};

/// Counters of the FTL's work apart from reading and writing, since it was formatted or mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
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

/// Page-mapping FTL.
///
/// ```
/// # use nandex::nand::{catalogue::mlc_64m, sim::SimChip};
/// # let chip = SimChip::new(&mlc_64m().with_blocks(64))?;
/// use nandex::{Cause, FtlConfig, Lpn, PageMapFtl, PageStore};
///
/// let config = FtlConfig::default().with_atomic_pages(4);
/// let mut store = PageMapFtl::format(chip, &config)?;
/// let mut page = vec![7; store.page_bytes()];
/// store.write(Lpn(3), Cause::Host, &page)?;
/// let mut store = PageMapFtl::mount(store.close()?, &config)?;
/// store.read(Lpn(3), Cause::Host, &mut page)?;
/// assert_eq!(page[0], 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PageMapFtl<N> {
    nand: UntilLost<N>,
    core: Core,
}

/// The FTL without its chip.
struct Core {
    geometry: Geometry,
    settings: FtlConfig,
    limits: Limits,
    state: State,
    records: Records,
    /// Full blocks in which a program failed, to be emptied and retired.
    doomed: Vec<Pbn>,
    leveller: WearLeveller,
    /// Filter that recognises hot pages, if the separation needs one.
    hot: Option<HotFilter>,
    /// True if the last group was written ahead, without a barrier after it.
    owes_barrier: bool,
    /// Logical page that was hard to read and must be rewritten, or [`NONE`].
    weak: u32,
    /// Number of logical pages that the round of scrubbing has passed.
    scrubbed: u32,
    page: Vec<u8>,
    group: Vec<Ppn>,
    /// Number of open batches of the host.
    batches: u32,
    counters: FtlCounters,
}

/// Operation under way: the FTL and its chip, in full builds behind `dyn` (`once`).
struct Work<'a, N: ?Sized> {
    nand: &'a mut N,
    core: &'a mut Core,
}

impl Core {
    /// Erases the chip and starts an empty store on it.
    fn format(nand: &mut (impl Nand + ?Sized), settings: FtlConfig) -> Result<Core, StoreFault> {
        settings.require_built()?;
        let geometry = nand.geometry();
        let mut blocks = BlockTable::new(geometry);
        blocks.retire_marked(nand)?;
        let area = CheckpointArea::format(nand, &mut blocks)?;
        for pbn in (0..geometry.blocks).map(Pbn) {
            if blocks.state(pbn) == BlockState::Unclean && blocks.erase(nand, pbn, Cause::Checkpoint)? {
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
        let mut core = Core::assemble(settings, area, state);
        Work { nand, core: &mut core }.checkpoint()?;
        core.counters = FtlCounters::default();
        Ok(core)
    }

    /// Finds the store on a chip again.
    fn mount(nand: &mut (impl Nand + ?Sized), settings: FtlConfig) -> Result<Core, StoreFault> {
        settings.require_built()?;
        let geometry = nand.geometry();
        let mut decode =
            |before: Option<Box<State>>, source: &mut dyn Source| note::decode(geometry, before, source);
        let Some((area, newest)) = CheckpointArea::mount_since(nand, &mut decode, note::is_base)? else {
            return Err(StoreError::NotFormatted(crate::nand::unfit(nand, NO_CHECKPOINT)?).into());
        };
        if let Some(ppn) = newest.unreadable.filter(|_| !nand.tears()) {
            let what = "a page that may hold the newest record cannot be read";
            return Err(StoreFault::corrupted(what, ppn.0));
        }
        let mut state = *newest.made;
        // Notes do not tell which pages are valid.
        state.follow_map()?;
        state.validate()?;
        let is_before = state.note_pages.is_none();
        state.note_pages = state.note_pages.or(Some(Limits::note_pages_of(&state, &settings)));
        state.blocks.reserve_exactly(&area.occupied())?;
        let mut core = Core::assemble(settings, area, state);
        Recovery::new(nand, &mut core, is_before).recover()?;
        core.records.stale |= newest.is_ragged || core.records.is_ragged() || is_before;
        core.state.blocks.follow(settings.victim);
        core.leveller = WearLeveller::new(settings.wear_levelling, &core.state.blocks);
        Ok(core)
    }

    fn assemble(settings: FtlConfig, area: CheckpointArea, mut state: State) -> Core {
        let geometry = state.blocks.geometry();
        state.blocks.follow(settings.victim);
        if settings.wear_levelling.asks_for_ages() {
            state.blocks.keep_ages();
        }
        let hot = match settings.separation {
            Separation::HotFilter(numbers) if cfg!(feature = "full") => Some(HotFilter::new(numbers)),
            _ => None,
        };
        let limits = Limits::new(geometry, &settings, state.map.len() as u32, state.atomic_pages);
        let limits = limits.keeping(geometry, state.note_pages.unwrap_or(0));
        Core {
            leveller: WearLeveller::new(settings.wear_levelling, &state.blocks),
            hot,
            geometry,
            settings,
            limits,
            state,
            records: Records::new(area, geometry, &limits),
            doomed: Vec::new(),
            owes_barrier: false,
            weak: NONE,
            scrubbed: 0,
            page: vec![0; geometry.page_bytes as usize],
            group: Vec::new(),
            batches: 0,
            counters: FtlCounters::default(),
        }
    }

    fn require_page(&self, bytes: usize) -> Result<(), StoreFault> {
        let expected = self.geometry.page_bytes as usize;
        if bytes == expected { Ok(()) } else { Err(StoreError::WrongLength { expected, got: bytes }.into()) }
    }

    /// Bytes of RAM held outside of the struct.
    fn held_bytes(&self) -> usize {
        self.state.map_bytes()
            + self.state.blocks.ram_bytes()
            + self.geometry.blocks as usize * 4
            + self.leveller.ram_bytes()
            + self.hot.as_ref().map_or(0, HotFilter::ram_bytes)
            + self.records.ram_bytes(&self.state)
            + self.limits.atomic_pages as usize * 4
            // Two buffers: the second one is for a record.
            + 2 * self.page.len()
    }
}

impl<N: Nand> PageMapFtl<N> {
    /// Erases the chip and starts an empty store on it.
    pub fn format(nand: N, settings: &FtlConfig) -> Result<PageMapFtl<N>, StoreError> {
        let mut nand = UntilLost::new(nand);
        let core = Core::format(once(&mut nand), *settings)?;
        Ok(PageMapFtl { nand, core })
    }

    /// Finds the store on a chip again. Nothing is programmed or erased by this.
    #[inline(never)]
    pub fn mount(nand: N, settings: &FtlConfig) -> Result<PageMapFtl<N>, StoreError> {
        let mut nand = UntilLost::new(nand);
        let core = Core::mount(once(&mut nand), *settings)?;
        Ok(PageMapFtl { nand, core })
    }

    fn work(&mut self) -> Work<'_, impl Nand + ?Sized> {
        Work { nand: once(&mut self.nand), core: &mut self.core }
    }

    /// Writes a checkpoint, so that the next mount need not follow earlier pages, and gives the chip back.
    pub fn close(mut self) -> Result<N, StoreError> {
        PageStore::checkpoint(&mut self)?;
        Ok(self.nand.into_inner())
    }

    /// Gives the chip back, as after a power cut.
    pub fn into_nand(self) -> N {
        self.nand.into_inner()
    }

    /// Returns the chip.
    pub fn nand(&self) -> &N {
        self.nand.inner()
    }

    /// Returns the chip, for measurements and faults. Programming or erasing it breaks the store.
    pub fn nand_mut(&mut self) -> &mut N {
        self.nand.inner_mut()
    }

    /// Returns the table of the blocks.
    pub fn blocks(&self) -> &BlockTable {
        &self.core.state.blocks
    }

    /// Counters since the FTL was formatted or mounted.
    pub fn counters(&self) -> FtlCounters {
        self.core.counters
    }

    /// Writes a checkpoint. If it fails, the previous one still holds.
    pub fn checkpoint(&mut self) -> Result<(), StoreError> {
        Ok(self.work().checkpoint()?)
    }

    /// Checks the invariants that hold between two operations. It costs no counted I/O.
    pub fn check(&mut self) -> Result<CheckReport, StoreError> {
        Ok(self.work().check()?)
    }
}

impl<N: Nand> PageStore for PageMapFtl<N> {
    fn page_bytes(&self) -> usize {
        self.core.geometry.page_bytes as usize
    }

    fn page_count(&self) -> u32 {
        self.core.limits.page_count
    }

    fn read(&mut self, lpn: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        self.core.require_page(data.len())?;
        Ok(self.work().read(lpn, cause, data)?)
    }

    fn write(&mut self, lpn: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreError> {
        Ok(self.work().write_group(&[(lpn, data)], cause, true)?)
    }

    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        Ok(self.work().trim(lpn)?)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(self.work().persist_trims().map_err(worn_out)?)
    }

    fn checkpoint(&mut self) -> Result<(), StoreError> {
        // Trims are noted as well: if the end of the checkpoint goes bad, nothing else tells them.
        match self.sync() {
            Err(error) if !error.is_refusal() => return Err(error),
            _ => {}
        }
        PageMapFtl::checkpoint(self)
    }

    fn stats(&self) -> StoreStats {
        let state = &self.core.state;
        StoreStats {
            collections: self.core.counters.collections,
            moved_pages: self.core.counters.moved_pages,
            live_pages: u64::from(state.blocks.live_pages()),
            mapping_bytes: (state.map_bytes() + state.blocks.ram_bytes()) as u64,
            ..StoreStats::default()
        }
    }

    fn live_page(&self, ppn: Ppn) -> Option<bool> {
        (ppn.0 < self.core.geometry.pages()).then(|| self.core.state.blocks.is_valid(ppn))
    }

    fn atomic_pages_max(&self) -> usize {
        self.core.limits.atomic_pages as usize
    }

    fn write_atomic(&mut self, pages: &[(Lpn, &[u8])], cause: Cause) -> Result<(), StoreError> {
        Ok(self.work().write_pages(pages, cause, true)?)
    }

    fn begin_batch(&mut self) {
        self.core.batches += 1;
        self.nand.begin_batch();
    }

    fn end_batch(&mut self) {
        self.core.batches -= 1;
        self.nand.end_batch();
    }

    fn durable_writes(&self) -> bool {
        true
    }

    fn prefix_consistent(&self) -> bool {
        true
    }

    fn maintain(&mut self, budget: u32) -> Result<u32, StoreError> {
        unless_full(self.work().collect_ahead(budget).map_err(StoreError::from))
    }

    fn scrub(&mut self, budget: u32) -> Result<u32, StoreError> {
        unless_full(self.look_on(budget))
    }

    fn ram_bytes(&self) -> usize {
        size_of::<Self>() + self.nand.ram_bytes() + self.core.held_bytes()
    }

    fn mount_ram_bytes(&self) -> usize {
        self.ram_bytes() + recovery::mount_bytes(self.core.geometry, &self.core.limits)
    }
}

impl<N: Nand + ?Sized> Work<'_, N> {
    fn read(&mut self, lpn: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreFault> {
        let ppn = match self.core.state.page_of(lpn)? {
            NONE => {
                data.fill(0);
                return Ok(());
            }
            LOST => return Err(lost(lpn)),
            ppn => Ppn(ppn),
        };
        let (found, is_weak) = read_weak_page(self.nand, ppn, cause, data)?;
        match found {
            Found::Page(header, _) if self.core.state.is_of(header, lpn, ppn) => {
                if is_weak && self.core.weak == NONE {
                    self.core.weak = lpn.0;
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

    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreFault> {
        let Core { state, records, geometry, .. } = &mut *self.core;
        let old = state.page_of(lpn)?;
        if old == NONE {
            return Ok(());
        }
        state.map.set(lpn.index(), NONE);
        if old != LOST {
            state.blocks.invalidate(Ppn(old));
            // The block may not be erased before a record says that nothing is missing there.
            records.changes.touch(geometry.block_of(Ppn(old)));
        }
        records.note(lpn);
        records.changes.has_trims = true;
        if records.is_due() || records.changes.has_room_for(1) {
            return Ok(());
        }
        match self.persist_trims().map_err(worn_out) {
            // The trim is done; only the room to record it is missing.
            Err(error) if matches!(*error, StoreError::WornOut) => Ok(()),
            done => done,
        }
    }

    fn check(&mut self) -> Result<CheckReport, StoreFault> {
        let mut report = CheckReport::default();
        let mut unclaimed = self.core.state.blocks.clone();
        let mut data = vec![0; self.core.geometry.page_bytes as usize];
        for lpn in (0..self.core.limits.page_count).map(Lpn) {
            let ppn = self.core.state.map.get(lpn.index());
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
            match self.read(lpn, Cause::Check, &mut data) {
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
        report.nodes = u64::from(self.core.state.blocks.good_count());
        Ok(report)
    }
}

/// Turns `Full` into `WornOut`: room is missing only if blocks have failed, since otherwise every logical
/// page can be written over and over.
fn worn_out(error: StoreFault) -> StoreFault {
    if error.is_full() { StoreError::WornOut.into() } else { error }
}

/// True if a page of this kind holds a logical page.
fn holds_data(kind: PageKind) -> bool {
    matches!(kind, PageKind::Host | PageKind::More | PageKind::Copy)
}
