//! Mapping scheme, and the page store that a scheme and a chip make.

use super::plan::Needs;
use super::{Chip, ChipPlan, Flash, FlashConfig, FlashCounters, HostPage, Mounted, Rules};
use crate::blocks::Validity;
use crate::blocks::spare::PageKind;
use crate::blocks::weak::LOOKS;
use crate::blocks::wear::{Move, WearLeveller};
use crate::check::{CheckReport, Invariant, message, words};
use crate::fault::StoreFault;
use crate::nand::{Cause, Geometry, Nand};
use crate::store::patrol::Patrol;
use crate::store::{PageStore, StoreError, StoreStats, unless_full};
use crate::units::{Lpn, Pbn, Ppn};
use alloc::vec;
use alloc::vec::Vec;

/// Rules by which a mapping scheme places logical pages.
///
/// Before [`SchemeFtl`] calls an operation that may program, it has checked page numbers and lengths, and has
/// called `Flash::begin`.
pub trait Scheme: Sized + crate::shared::MaybeSend {
    /// Settings of the scheme.
    type Config: Clone;

    /// Rules that a mount must know.
    const RULES: Rules;

    /// Returns the settings that every scheme has.
    fn common(settings: &Self::Config) -> FlashConfig;

    /// Refuses settings that were left out when the engine was built.
    fn require_built(settings: &Self::Config) -> Result<(), StoreFault> {
        Self::common(settings).wear_levelling.require_built()
    }

    /// Form of validity for a chip about to be formatted.
    fn validity(_settings: &Self::Config) -> Validity {
        Validity::Bits
    }

    /// Numbers fixed when a chip is formatted, computed from its number of good blocks. [`Scheme::open`] gets
    /// them again.
    fn setup(settings: &Self::Config, geometry: Geometry, good_blocks: u32) -> [u32; 4];

    /// Number of blocks needed besides those of the data: logs, frontiers, and the blocks of a merge or a
    /// collection.
    fn blocks_needed(setup: [u32; 4]) -> u32;

    /// Most free blocks that one write takes before it frees any, including a block that fails.
    fn blocks_per_write(setup: [u32; 4]) -> u32;

    /// Largest number of bytes of [`Scheme::encode`].
    fn extra_bytes_max(_setup: [u32; 4]) -> usize {
        0
    }

    /// The tables of a store, empty if nothing is live. Must not program.
    fn open(flash: &mut Flash<'_>, settings: &Self::Config, mounted: Mounted) -> Result<Self, StoreFault>;

    /// Place of a logical page; `None` if it was never written, or was trimmed. With `Cause::Check` nothing
    /// changes.
    fn locate(&mut self, flash: &mut Flash<'_>, lpn: u32, cause: Cause) -> Result<Option<Ppn>, StoreFault>;

    /// Writes a logical page.
    fn write(&mut self, flash: &mut Flash<'_>, host: HostPage<'_>) -> Result<(), StoreFault>;

    /// True if [`Scheme::renew`] moves a page through the buffer of the chip.
    const RENEWS: bool = false;

    /// Moves a logical page that was hard to read. A scheme without this has the page written again.
    fn renew(&mut self, _flash: &mut Flash<'_>, _lpn: u32) -> Result<(), StoreFault> {
        Ok(())
    }

    /// Moves a page of the mapping table that was hard to read, if it is the newest version.
    fn renew_map(&mut self, _flash: &mut Flash<'_>, _at: Ppn, _page: u32) -> Result<(), StoreFault> {
        Ok(())
    }

    /// Trims a logical page, and makes its page invalid. Returns the old place; `None` if there was none.
    fn trim(&mut self, flash: &mut Flash<'_>, lpn: u32) -> Result<Option<Ppn>, StoreFault>;

    /// Moves the valid pages of a full block to a worn block, and frees the full one. False if the block
    /// stays where it is.
    fn evacuate(&mut self, flash: &mut Flash<'_>, pbn: Pbn) -> Result<bool, StoreFault>;

    /// Encodes the state of the scheme that a base keeps.
    fn encode(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Writes the state that [`Scheme::encode`] cannot hold to the chip. It is called before a base on which
    /// a mount may rely alone.
    fn settle(&mut self, _flash: &mut Flash<'_>) -> Result<(), StoreFault> {
        Ok(())
    }

    /// Largest number of pages in a group.
    fn atomic_pages_max(&self) -> usize {
        1
    }

    /// Writes several different logical pages. All of them survive a power cut, or none.
    fn write_group(
        &mut self,
        flash: &mut Flash<'_>,
        pages: &[(Lpn, &[u8])],
        cause: Cause,
    ) -> Result<(), StoreFault> {
        for (lpn, data) in pages {
            self.write(flash, HostPage { lpn: lpn.0, cause, data })?;
        }
        Ok(())
    }

    /// Bytes of RAM of the tables that tell where logical pages are.
    fn mapping_bytes(&self) -> usize;

    /// Upper bound of [`mapping_bytes`](Scheme::mapping_bytes) over the whole life of the chip, the same at
    /// every mount. After a mount that follows a power cut, before the first write, the tables may take more.
    fn mapping_bytes_max(&self, _geometry: Geometry) -> usize {
        self.mapping_bytes()
    }

    /// Most pages that a mount holds besides those programmed since the last record.
    fn known_pages_max(&self) -> usize {
        0
    }

    /// Upper bound of the RAM of a mount, in bytes, without the tables of the blocks. `pages` are the bytes
    /// for the pages that a scan holds and hands over, `scan` its other bytes.
    fn mount_bytes(&self, geometry: Geometry, pages: usize, scan: usize) -> usize {
        pages + scan.max(self.mapping_bytes_max(geometry) + self.other_bytes())
    }

    /// Bytes of RAM held otherwise.
    fn other_bytes(&self) -> usize {
        0
    }

    /// Largest number of log blocks, if the scheme has any.
    fn log_blocks(&self) -> u32 {
        0
    }

    /// Numbers of reads that a cache of the mapping table answered, and did not answer.
    fn cache_counts(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Checks the scheme's own invariants, with `Cause::Check` for reads. Returns the number of valid pages
    /// that are not logical pages, but pages of a mapping table.
    fn check(&self, _flash: &mut Flash<'_>, _report: &mut CheckReport) -> Result<u32, StoreFault> {
        Ok(0)
    }
}

/// Page store made of a chip and a scheme.
pub struct SchemeFtl<N, S> {
    flash: Chip<N>,
    scheme: S,
    leveller: WearLeveller,
    /// With fewer free blocks than this nothing is written any more.
    floor_blocks: u32,
    /// Number of logical pages that the round of scrubbing has passed.
    scrubbed: u32,
}

impl<N: Nand, S: Scheme> SchemeFtl<N, S> {
    /// Erases the chip and starts an empty store on it.
    pub fn format(nand: N, settings: &S::Config) -> Result<SchemeFtl<N, S>, StoreError> {
        S::require_built(settings)?;
        let validity = S::validity(settings);
        let mut flash = Chip::format(nand, S::RULES, validity)?;
        let (geometry, good) = (flash.geometry(), flash.blocks().good_count());
        let setup = S::setup(settings, geometry, good);
        let needs = Needs {
            blocks: S::blocks_needed(setup),
            validity,
            extra_bytes: S::extra_bytes_max(setup),
            whole_blocks: S::RULES.one_data_block,
        };
        let plan = ChipPlan::new(geometry, &S::common(settings), good, needs)?;
        flash.set_up(plan.page_count, setup);
        let scheme = S::open(&mut flash, settings, Mounted { is_clean: true, ..Mounted::default() })?;
        let mut ftl = SchemeFtl::assemble(flash, scheme, settings);
        ftl.checkpoint()?;
        ftl.flash.counters = FlashCounters::default();
        Ok(ftl)
    }

    /// Mounts the store. Nothing is programmed or erased. Settings fixed at format come from the chip,
    /// whatever `settings` says.
    pub fn mount(nand: N, settings: &S::Config) -> Result<SchemeFtl<N, S>, StoreError> {
        S::require_built(settings)?;
        let (mut flash, mounted) = Chip::mount(nand, S::RULES)?;
        let scheme = S::open(&mut flash, settings, mounted)?;
        Ok(SchemeFtl::assemble(flash, scheme, settings))
    }

    fn assemble(mut flash: Chip<N>, scheme: S, settings: &S::Config) -> SchemeFtl<N, S> {
        if S::common(settings).wear_levelling.asks_for_ages() {
            flash.blocks_mut().keep_ages();
        }
        let setup = flash.setup();
        let (geometry, validity) = (flash.geometry(), flash.blocks().validity());
        let base_blocks = ChipPlan::base_blocks_with(geometry, validity, S::extra_bytes_max(setup));
        SchemeFtl {
            leveller: WearLeveller::new(S::common(settings).wear_levelling, flash.blocks()),
            floor_blocks: base_blocks + S::blocks_per_write(setup),
            flash,
            scheme,
            scrubbed: 0,
        }
    }

    /// Writes a base, so that the next mount need not look for earlier pages, and gives the chip back.
    pub fn close(mut self) -> Result<N, StoreError> {
        self.checkpoint()?;
        Ok(self.flash.nand.into_inner())
    }

    /// Gives the chip back, as after a power cut.
    pub fn into_nand(self) -> N {
        self.flash.nand.into_inner()
    }

    /// Returns the chip.
    pub fn nand(&self) -> &N {
        self.flash.nand.inner()
    }

    /// Returns the chip, for measurements and faults. Programming or erasing it breaks the store.
    pub fn nand_mut(&mut self) -> &mut N {
        self.flash.nand.inner_mut()
    }

    /// Returns the chip with its blocks and tables.
    pub fn flash(&self) -> &Chip<N> {
        &self.flash
    }

    /// Returns the scheme and its tables.
    pub fn scheme(&self) -> &S {
        &self.scheme
    }

    /// Chip and scheme, for tests of functions used by a write.
    #[cfg(any(test, feature = "testing"))]
    pub fn parts_mut(&mut self) -> (&mut Chip<N>, &mut S) {
        (&mut self.flash, &mut self.scheme)
    }

    /// Counters of the scheme since the store was formatted or mounted.
    pub fn counters(&self) -> FlashCounters {
        self.flash.counters
    }

    /// Bytes of the map in a record, if valid pages are counted.
    fn told_bytes(&self) -> usize {
        if self.flash.state.is_counted() { S::extra_bytes_max(self.flash.setup()) } else { 0 }
    }

    fn require(&self, lpn: Lpn, bytes: usize) -> Result<(), StoreFault> {
        let expected = self.flash.geometry().page_bytes as usize;
        if lpn.0 >= self.flash.page_count() {
            return Err(StoreError::OutOfRange(lpn).into());
        }
        if bytes == expected { Ok(()) } else { Err(StoreError::WrongLength { expected, got: bytes }.into()) }
    }

    fn begin(&mut self) -> Result<(), StoreFault> {
        let scheme = &self.scheme;
        Flash::begin(&mut self.flash, || scheme.encode())?;
        if self.flash.blocks().free_count() < self.floor_blocks {
            return Err(StoreError::Full.into());
        }
        self.empty_weak(LOOKS)?;
        if core::mem::take(&mut self.flash.upkeep.has_opened) {
            self.level_wear()?;
        }
        Ok(())
    }

    /// Looks at up to `budget` pages of the block of a weak page, and moves those that needed a correction.
    fn empty_weak(&mut self, budget: u32) -> Result<(), StoreFault> {
        for _ in 0..budget {
            if !self.flash.weak.is_due() {
                break;
            }
            let looked = self.look_at_weak();
            self.flash.weak.rest();
            match looked {
                Err(error) if error.is_full() => self.flash.weak.give_up(),
                done => done?,
            }
        }
        Ok(())
    }

    fn look_at_weak(&mut self) -> Result<(), StoreFault> {
        let Some((ppn, header)) = self.flash.look()? else { return Ok(()) };
        let lpn = header.number;
        if header.kind == PageKind::Map {
            self.scheme.renew_map(&mut self.flash, ppn, lpn)?;
            return Flash::begin(&mut self.flash, || self.scheme.encode());
        }
        let is_known = lpn < self.flash.page_count() && !self.flash.is_lost(lpn);
        if !is_known || self.scheme.locate(&mut self.flash, lpn, Cause::Scrubbing)? != Some(ppn) {
            return Ok(());
        }
        if S::RENEWS {
            self.scheme.renew(&mut self.flash, lpn)?;
        } else {
            let mut page = vec![0; self.page_bytes()];
            match Flash::read(&mut self.flash, ppn, lpn, Cause::Scrubbing, &mut page) {
                Ok(()) => {
                    let page = HostPage { lpn, cause: Cause::Scrubbing, data: &page };
                    self.scheme.write(&mut self.flash, page)?;
                }
                // The reader of the page is told.
                Err(error) if error.is_corrupted() => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Flash::begin(&mut self.flash, || self.scheme.encode())
    }

    /// Error after blocks have failed: a refusal for want of blocks is then final, `WornOut`.
    fn worn_out(&self, error: StoreFault) -> StoreFault {
        let is_final = error.is_full() && self.flash.has_failed_blocks();
        if is_final { StoreError::WornOut.into() } else { error }
    }

    fn write_one(&mut self, lpn: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreFault> {
        self.flash.require_versions()?;
        self.begin()?;
        self.flash.note_last_written(None);
        match self.scheme.write(&mut self.flash, HostPage { lpn: lpn.0, cause, data }) {
            // The page is on the chip; only freeing a block after it was not possible.
            Err(error) if error.is_refusal() && self.flash.last_written == Some(lpn.0) => Ok(()),
            done => done,
        }
    }

    fn level_wear(&mut self) -> Result<(), StoreFault> {
        let Some(Move { cold, worn }) = self.leveller.next_move(self.flash.blocks()) else { return Ok(()) };
        debug_assert!(worn.is_none_or(|pbn| self.flash.blocks().state(pbn).is_free()), "{worn:?} is in use");
        self.flash.upkeep.set_levelling(true, worn);
        let moved = self.scheme.evacuate(&mut self.flash, cold);
        self.flash.upkeep.set_levelling(false, None);
        match moved {
            Ok(moved) => self.flash.counters.levelled_blocks += u64::from(moved),
            // Levelling can wait; the write may still find room.
            Err(error) if error.is_full() => {}
            Err(error) => return Err(error),
        }
        // The move may have made a base due.
        Flash::begin(&mut self.flash, || self.scheme.encode())
    }
}

impl<N: Nand, S: Scheme> Patrol for SchemeFtl<N, S> {
    fn at(&mut self) -> &mut u32 {
        &mut self.scrubbed
    }

    fn look_at(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        let place = self.scheme.locate(&mut self.flash, lpn.0, Cause::Scrubbing)?;
        match place.filter(|_| !self.flash.is_lost(lpn.0)) {
            Some(ppn) => Ok(Flash::read_here(&mut self.flash, ppn, lpn.0, Cause::Scrubbing)?),
            None => Ok(()),
        }
    }

    fn move_weak(&mut self, budget: u32) -> Result<u32, StoreError> {
        if self.flash.weak.is_due() {
            self.begin()?;
            self.empty_weak(budget)?;
        }
        Ok(self.flash.weak.due())
    }
}

impl<N: Nand, S: Scheme> PageStore for SchemeFtl<N, S> {
    fn page_bytes(&self) -> usize {
        self.flash.geometry().page_bytes as usize
    }

    fn page_count(&self) -> u32 {
        self.flash.page_count()
    }

    fn read(&mut self, lpn: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        self.require(lpn, data.len())?;
        let place = self.scheme.locate(&mut self.flash, lpn.0, cause)?;
        // Finding the page may have moved pages, and lost this one.
        if self.flash.is_lost(lpn.0) {
            return Err(StoreError::Corrupted {
                what: words("the chip lost this logical page"),
                at: u64::from(lpn.0),
            });
        }
        match place {
            Some(ppn) => Ok(Flash::read(&mut self.flash, ppn, lpn.0, cause, data)?),
            None => {
                data.fill(0);
                Ok(())
            }
        }
    }

    fn write(&mut self, lpn: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreError> {
        self.require(lpn, data.len())?;
        Ok(self.write_one(lpn, cause, data).map_err(|error| self.worn_out(error))?)
    }

    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        self.require(lpn, self.page_bytes())?;
        let old = self.scheme.trim(&mut self.flash, lpn.0).map_err(|error| self.worn_out(error))?;
        if old.is_some() || self.flash.is_lost(lpn.0) {
            self.flash.note_trim(lpn.0, old);
        }
        if !self.flash.records.trimmed.is_full() {
            return Ok(());
        }
        match self.sync() {
            // The trim is done; only the room to record it is missing.
            Err(error) if error.is_refusal() => Ok(()),
            done => done,
        }
    }

    fn maintain(&mut self, budget: u32) -> Result<u32, StoreError> {
        unless_full(self.move_weak(budget))
    }

    fn scrub(&mut self, budget: u32) -> Result<u32, StoreError> {
        unless_full(self.look_on(budget))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        let scheme = &self.scheme;
        Ok(Flash::sync(&mut self.flash, || scheme.encode()).map_err(|error| self.worn_out(error))?)
    }

    fn checkpoint(&mut self) -> Result<(), StoreError> {
        let settled = self.scheme.settle(&mut self.flash);
        // A note tells the trims as well: if the page of the base goes bad, nothing else tells them.
        let noted = settled.and_then(|()| match Flash::sync(&mut self.flash, || self.scheme.encode()) {
            Err(error) if error.is_refusal() => Ok(()),
            other => other,
        });
        let written = noted.and_then(|()| Flash::write_base(&mut self.flash, true, &self.scheme.encode()));
        Ok(written.map_err(|error| self.worn_out(error))?)
    }

    fn atomic_pages_max(&self) -> usize {
        self.scheme.atomic_pages_max()
    }

    fn write_atomic(&mut self, pages: &[(Lpn, &[u8])], cause: Cause) -> Result<(), StoreError> {
        let max = self.atomic_pages_max();
        if pages.len() > max {
            let what = message!("{} pages at once, this store takes {max}", pages.len());
            return Err(StoreError::Unsupported(what.into()));
        }
        for (lpn, data) in pages {
            self.require(*lpn, data.len())?;
        }
        if pages.is_empty() {
            return Ok(());
        }
        let begun = self.flash.require_versions().and_then(|()| self.begin());
        let written = begun.and_then(|()| self.scheme.write_group(&mut self.flash, pages, cause));
        Ok(written.map_err(|error| self.worn_out(error))?)
    }

    fn durable_writes(&self) -> bool {
        true
    }

    fn prefix_consistent(&self) -> bool {
        true
    }

    fn ram_bytes(&self) -> usize {
        // A buffer for a page that is written again because it was hard to read.
        let weak = if S::RENEWS { 0 } else { self.page_bytes() };
        size_of::<S>()
            + self.leveller.ram_bytes()
            + self.flash.ram_bytes(S::extra_bytes_max(self.flash.setup()))
            + self.scheme.mapping_bytes_max(self.flash.geometry())
            + self.scheme.other_bytes()
            + self.told_bytes()
            + weak
    }

    fn mount_ram_bytes(&self) -> usize {
        let (pages, scan) = self.flash.state.scan_bytes(self.scheme.known_pages_max());
        let mount = size_of::<S>()
            + self.flash.ram_bytes_of_mount(S::extra_bytes_max(self.flash.setup()))
            + self.told_bytes()
            // Two pages are read before anything is scanned.
            + self.scheme.mount_bytes(self.flash.geometry(), pages, scan).max(2 * self.page_bytes());
        mount.max(self.ram_bytes())
    }

    fn stats(&self) -> StoreStats {
        let counters = self.flash.counters;
        let (cache_hits, cache_misses) = self.scheme.cache_counts();
        StoreStats {
            cache_hits,
            cache_misses,
            collections: counters.collections,
            moved_pages: counters.moved_pages,
            live_pages: u64::from(self.flash.blocks().live_pages()),
            switch_merges: counters.switch_merges,
            partial_merges: counters.partial_merges,
            full_merges: counters.full_merges,
            log_blocks: self.scheme.log_blocks().into(),
            out_of_order_programs: counters.out_of_order_programs,
            mapping_bytes: (self.scheme.mapping_bytes() + self.flash.state.table_bytes()) as u64,
            ..StoreStats::default()
        }
    }

    fn live_page(&self, ppn: Ppn) -> Option<bool> {
        let geometry = self.flash.geometry();
        let is_known = ppn.0 < geometry.pages() && self.flash.blocks().knows_pages_of(geometry.block_of(ppn));
        is_known.then(|| self.flash.is_valid(ppn))
    }
}

/// Checks, without counted I/O.
impl<N: Nand, S: Scheme> SchemeFtl<N, S> {
    /// Checks F1, that every page can be read, and the scheme's own invariants. It costs no counted I/O.
    pub fn check(&mut self) -> Result<CheckReport, StoreError> {
        let mut report = CheckReport::default();
        let mut data = vec![0; self.page_bytes()];
        for lpn in 0..self.page_count() {
            let Some(ppn) = self.scheme.locate(&mut self.flash, lpn, Cause::Check)? else { continue };
            report.records += 1;
            if !self.flash.is_valid(ppn) {
                let found = message!("lpn {lpn} is found in a page not valid");
                report.violation(Invariant::F1, u64::from(ppn.0), found);
            }
            match Flash::read(&mut self.flash, ppn, lpn, Cause::Check, &mut data) {
                Err(error) if error.is_corrupted() => {
                    report.violation(Invariant::F1, u64::from(lpn), message!("{error}"));
                }
                other => other?,
            }
        }
        let others = self.scheme.check(&mut self.flash, &mut report)?;
        let (found, expected) = (self.flash.blocks().live_pages(), report.records as u32 + others);
        if found != expected {
            let found = message!("{found} valid pages, {expected} are found by the scheme");
            report.violation(Invariant::F1, 0, found);
        }
        report.nodes = u64::from(self.flash.blocks().good_count());
        Ok(report)
    }
}
