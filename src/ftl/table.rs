//! A mapping table kept on flash, page by page, and the frontiers of the schemes that keep one.
//!
//! Page `t` of the table holds the entries of logical pages `t * n ..`, `n` being the bytes of a page over
//! four: a physical page as u32, little-endian, all ones for none. The *directory* in RAM tells the place of
//! each page of the table. A page is never changed in place: it is loaded, changed, and saved as a new
//! version (kind `Map`). Reads, programs and erases for all that are [`Cause::Mapping`].
//!
//! Invariant
//! - M1: the valid pages of kind `Map` are exactly those the directory names.

use crate::blocks::spare::{Header, PageKind};
use crate::blocks::{BlockState, Wear};
use crate::check::{CheckReport, Invariant, message, words};
use crate::codec::{get_u32, put_u32};
use crate::fault::StoreFault;
pub(crate) use crate::ftl::mapping::entries_per_page;
use crate::ftl::mapping::{Flash, HostPage, Live, NOBODY, Way};
use crate::nand::{Cause, Geometry};
use crate::store::StoreError;
use crate::units::{Lpn, Pbn, Ppn};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// Stands for no physical page.
pub const NONE: u32 = u32::MAX;

/// Mark of a place that several logical pages claim.
const SEVERAL: u32 = u32::MAX - 1;

/// Smallest number of places that are compared with the table at a time; the largest is [`CLAIMS_MAX`].
const CLAIMS_MIN: u32 = 512;
const CLAIMS_MAX: u32 = 8192;

/// Converts an entry of the table to a physical page or none.
pub fn from_raw(raw: u32) -> Option<Ppn> {
    (raw != NONE).then_some(Ppn(raw))
}

/// Converts a physical page or none to an entry of the table.
pub fn to_raw(ppn: Option<Ppn>) -> u32 {
    ppn.map_or(NONE, |p| p.0)
}

/// Block that is being filled with pages of one role.
#[derive(Clone, Copy, Debug)]
pub struct Frontier {
    role: PageKind,
    wear: Wear,
    pbn: Option<Pbn>,
}

impl Frontier {
    /// Makes a frontier without a block.
    pub const fn new(role: PageKind, wear: Wear) -> Frontier {
        Frontier { role, wear, pbn: None }
    }

    /// Continues an open block of this role after a mount, if there is one.
    pub fn resume(&mut self, flash: &mut Flash<'_>) {
        let open: Vec<Pbn> = flash.blocks().in_state(BlockState::Open).collect();
        for pbn in open {
            if flash.tag(pbn).role != Some(self.role) {
                continue;
            }
            if self.pbn.is_none() {
                self.pbn = Some(pbn);
            } else {
                flash.seal(pbn);
            }
        }
    }

    /// Block of the frontier, while it can take pages.
    pub fn block(&self, flash: &Flash<'_>) -> Option<Pbn> {
        let is_mine = |pbn: &Pbn| {
            flash.blocks().state(*pbn) == BlockState::Open && flash.tag(*pbn).role == Some(self.role)
        };
        self.pbn.filter(is_mine)
    }

    /// Number of pages left in the block.
    pub fn room(&self, flash: &Flash<'_>) -> u32 {
        self.block(flash).map_or(0, |pbn| flash.geometry().pages_per_block - flash.next_page(pbn))
    }

    /// Takes the page to program next.
    pub(crate) fn slot(&mut self, flash: &mut Flash<'_>) -> Result<Ppn, StoreFault> {
        let pbn = match self.block(flash) {
            Some(pbn) => pbn,
            None => flash.take(self.role, NOBODY, self.wear)?,
        };
        self.pbn = Some(pbn);
        Ok(flash.geometry().page_at(pbn, flash.next_page(pbn)))
    }

    /// Programs a page that was loaded from `from` at the frontier, with this header. Returns its new place.
    pub fn store(
        &mut self,
        flash: &mut Flash<'_>,
        from: Ppn,
        header: Header,
        cause: Cause,
    ) -> Result<Ppn, StoreFault> {
        loop {
            let to = self.slot(flash)?;
            if flash.store(Way { from, to }, header, cause)? {
                return Ok(to);
            }
        }
    }

    /// Writes a logical page of the host. Returns its place.
    pub fn write(
        &mut self,
        flash: &mut Flash<'_>,
        kind: PageKind,
        page: HostPage<'_>,
    ) -> Result<Ppn, StoreFault> {
        loop {
            let ppn = self.slot(flash)?;
            if flash.write(ppn, kind, page)? {
                return Ok(ppn);
            }
        }
    }

    /// Writes logical pages; after a power cut all are there or none. Returns their places.
    pub fn write_group(
        &mut self,
        flash: &mut Flash<'_>,
        pages: &[(Lpn, &[u8])],
        cause: Cause,
    ) -> Result<Vec<Ppn>, StoreFault> {
        let mut written = Vec::with_capacity(pages.len());
        for (i, (lpn, data)) in pages.iter().enumerate() {
            let kind = if i + 1 == pages.len() { PageKind::Host } else { PageKind::More };
            match self.write(flash, kind, HostPage { lpn: lpn.0, cause, data }) {
                Ok(ppn) => written.push(ppn),
                Err(error) => {
                    flash.abandon(&written);
                    return Err(error);
                }
            }
        }
        Ok(written)
    }
}

/// Called with wrong entries of a table: a logical page and its true place. `None` means that the entry is
/// wrong; the page is nowhere unless a later call tells its place.
pub trait Unsaid: FnMut(&Flash<'_>, u32, Option<Ppn>) {}

impl<F: FnMut(&Flash<'_>, u32, Option<Ppn>)> Unsaid for F {}

/// Mapping table on flash.
#[derive(Debug)]
pub struct MapTable {
    directory: Vec<u32>,
    per_page: u32,
    page_count: u32,
    physical_pages: u32,
    frontier: Frontier,
}

/// Largest number of blocks that the whole table of a chip takes.
pub fn blocks_for(geometry: Geometry, good_blocks: u32) -> u32 {
    good_blocks.div_ceil(entries_per_page(geometry))
}

impl MapTable {
    /// Opens the table of a store. `live` are the valid pages; the pages of the table are removed from it.
    pub fn open(flash: &mut Flash<'_>, live: &mut Vec<Live>) -> Result<MapTable, StoreFault> {
        let g = flash.geometry();
        let per_page = entries_per_page(g);
        let mut table = MapTable {
            directory: vec![NONE; flash.page_count().div_ceil(per_page) as usize],
            per_page,
            page_count: flash.page_count(),
            physical_pages: g.pages(),
            frontier: Frontier::new(PageKind::Map, Wear::Least),
        };
        for page in live.iter().filter(|p| p.is_map()) {
            let place = table.directory.get_mut(page.number() as usize).filter(|place| **place == NONE);
            let what = "a page of the mapping table is not one, or there are two of it";
            *place.ok_or(StoreError::Corrupted { what, at: u64::from(page.ppn().0) })? = page.ppn().0;
        }
        live.retain(|page| !page.is_map());
        table.frontier.resume(flash);
        Ok(table)
    }

    /// Number of pages of the table.
    pub fn pages(&self) -> u32 {
        self.directory.len() as u32
    }

    /// Page of the table with the entry of a logical page.
    pub fn page_of(&self, lpn: u32) -> u32 {
        lpn / self.per_page
    }

    /// Logical pages whose entries are in a page of the table.
    pub fn range(&self, page: u32) -> Range<u32> {
        page * self.per_page..((page + 1) * self.per_page).min(self.page_count)
    }

    /// True if a page of the table exists. Otherwise all its entries are empty.
    pub fn exists(&self, page: u32) -> bool {
        self.directory[page as usize] != NONE
    }

    /// True if the newest version of a page of the table is in this place.
    pub fn is_at(&self, page: u32, ppn: Ppn) -> bool {
        self.directory.get(page as usize) == Some(&ppn.0)
    }

    /// Loads a page of the table into the chip's buffer and checks it. It stays there until another page is
    /// read, moved or recorded.
    pub fn load(&mut self, flash: &mut Flash<'_>, page: u32, cause: Cause) -> Result<(), StoreFault> {
        let Some(ppn) = from_raw(self.directory[page as usize]) else {
            flash.page_mut().fill(0xff);
            return Ok(());
        };
        flash.read_here(ppn, page, cause)?;
        let limit = self.physical_pages;
        let is_wrong = |raw: &[u8]| (limit..NONE).contains(&get_u32(raw, 0));
        if flash.page().chunks_exact(4).any(is_wrong) {
            let what = "an entry of the mapping table lies beyond the chip";
            return Err(StoreFault::corrupted(what, ppn.0));
        }
        Ok(())
    }

    /// Entry of a logical page. Its page of the table must be loaded.
    pub fn get(&self, flash: &Flash<'_>, lpn: u32) -> Option<Ppn> {
        from_raw(get_u32(flash.page(), (lpn % self.per_page) as usize * 4))
    }

    /// Changes the entry of a logical page. Its page of the table must be loaded.
    pub fn set(&self, flash: &mut Flash<'_>, lpn: u32, ppn: Option<Ppn>) {
        put_u32(flash.page_mut(), (lpn % self.per_page) as usize * 4, to_raw(ppn));
    }

    /// Writes the loaded and changed page as the new version of a page of the table.
    pub fn save(&mut self, flash: &mut Flash<'_>, page: u32) -> Result<(), StoreFault> {
        loop {
            let ppn = self.frontier.slot(flash)?;
            if flash.write_map(ppn, page)? {
                if let Some(old) = from_raw(self.directory[page as usize]) {
                    flash.invalidate(old);
                }
                self.directory[page as usize] = ppn.0;
                return Ok(());
            }
        }
    }

    /// Reads the entry of a logical page from the chip; one read.
    pub fn entry(
        &mut self,
        flash: &mut Flash<'_>,
        lpn: u32,
        cause: Cause,
    ) -> Result<Option<Ppn>, StoreFault> {
        let page = self.page_of(lpn);
        if !self.exists(page) {
            return Ok(None);
        }
        self.load(flash, page, if cause == Cause::Check { cause } else { Cause::Mapping })?;
        self.live(flash, lpn)
    }

    /// Place of a logical page without a newer entry elsewhere, so that the table must name a valid page. Its
    /// page of the table must be loaded.
    pub fn live(&self, flash: &Flash<'_>, lpn: u32) -> Result<Option<Ppn>, StoreFault> {
        match self.get(flash, lpn) {
            Some(ppn) if !flash.is_valid(ppn) => {
                let what = "the mapping table names a page that is not live";
                Err(StoreFault::corrupted(what, ppn.0))
            }
            entry => Ok(entry),
        }
    }

    /// Reads a page of the table as it is on the chip, for a checker.
    pub fn peek(&self, flash: &mut Flash<'_>, page: u32) -> Result<Vec<u8>, StoreFault> {
        let mut bytes = vec![0xff; self.page_bytes()];
        if let Some(ppn) = from_raw(self.directory[page as usize]) {
            flash.read(ppn, page, Cause::Check, &mut bytes)?;
        }
        Ok(bytes)
    }

    /// Full block of the table with the fewest valid pages. `None` if none has an invalid page.
    pub(crate) fn victim(&self, flash: &Flash<'_>) -> Option<Pbn> {
        let blocks = flash.blocks();
        let of_table =
            blocks.in_state(BlockState::Full).filter(|&p| flash.tag(p).role == Some(PageKind::Map));
        let victim = of_table.min_by_key(|&pbn| blocks.valid_count(pbn))?;
        (blocks.valid_count(victim) < flash.geometry().pages_per_block).then_some(victim)
    }

    /// Moves the pages of the table out of a block, and frees it.
    pub fn collect(
        &mut self,
        flash: &mut Flash<'_>,
        victim: Pbn,
        extra: impl FnOnce() -> Vec<u8>,
    ) -> Result<(), StoreFault> {
        self.move_out(flash, victim)?;
        flash.free(victim, Cause::Mapping, extra)
    }

    /// Moves the pages of the table out of a block.
    pub(crate) fn move_out(&mut self, flash: &mut Flash<'_>, victim: Pbn) -> Result<(), StoreFault> {
        while let Some(from) = self.next_in(flash, victim) {
            let header = flash.load(from, Cause::Mapping)?;
            let known = |h: &Header| self.directory.get(h.number as usize) == Some(&from.0);
            let header = header.filter(known).ok_or(StoreError::Corrupted {
                what: words("a page of the mapping table cannot be read"),
                at: u64::from(from.0),
            })?;
            let to = self.frontier.store(flash, from, header, Cause::Mapping)?;
            self.directory[header.number as usize] = to.0;
        }
        Ok(())
    }

    /// First valid page of the table in a block.
    fn next_in(&self, flash: &Flash<'_>, pbn: Pbn) -> Option<Ppn> {
        if flash.blocks().knows_pages_of(pbn) {
            return flash.blocks().next_valid(pbn, 0);
        }
        let geometry = flash.geometry();
        let here = |&ppn: &Ppn| geometry.block_of(ppn) == pbn;
        self.directory.iter().filter_map(|&raw| from_raw(raw)).filter(here).min()
    }

    /// Place of each page of the table.
    pub(crate) fn places(&self) -> &[u32] {
        &self.directory
    }

    /// Finds wrong entries of the table after an unclean end, and tells them. `live` holds the numbers of
    /// some pages, by place; the others are read. The chip is compared one part after the other, and for each
    /// part the whole table is read, so it takes RAM only for one part.
    pub fn differences(
        &mut self,
        flash: &mut Flash<'_>,
        live: &[Live],
        tell: &mut impl Unsaid,
    ) -> Result<(), StoreFault> {
        let part = self.part();
        let mut claims = vec![NONE; part as usize];
        for start in (0..self.physical_pages).step_by(part as usize) {
            let places = start..self.physical_pages.min(start + part);
            claims.fill(NONE);
            self.claim(flash, places.clone(), &mut claims, tell)?;
            for (ppn, claim) in places.map(Ppn).zip(claims.iter().copied()) {
                if !flash.is_valid(ppn) {
                    continue;
                }
                let is_of_table = flash.tag(flash.geometry().block_of(ppn)).role == Some(PageKind::Map);
                let number = if is_of_table { NONE } else { flash.number_of(ppn, live)? };
                if claim != number && claim < self.page_count {
                    tell(flash, claim, None);
                }
                if claim != number && number != NONE {
                    tell(flash, number, Some(ppn));
                }
            }
        }
        Ok(())
    }

    /// Notes, for each of these places, the logical page that the table has there. Logical pages at an
    /// invalid place, or at a place claimed by several, are reported as nowhere until they are found.
    fn claim(
        &mut self,
        flash: &mut Flash<'_>,
        places: Range<u32>,
        claims: &mut [u32],
        tell: &mut impl Unsaid,
    ) -> Result<(), StoreFault> {
        for page in 0..self.pages() {
            if !self.exists(page) {
                continue;
            }
            self.load(flash, page, Cause::Recovery)?;
            for lpn in self.range(page) {
                let Some(ppn) = self.get(flash, lpn).filter(|ppn| places.contains(&ppn.0)) else { continue };
                let claim = &mut claims[(ppn.0 - places.start) as usize];
                let other = core::mem::replace(claim, lpn);
                if other != NONE {
                    *claim = SEVERAL;
                }
                let is_clear = flash.is_valid(ppn) && other == NONE;
                for lpn in [lpn, other].into_iter().filter(|&lpn| !is_clear && lpn < self.page_count) {
                    tell(flash, lpn, None);
                }
            }
        }
        Ok(())
    }

    /// Checks M1. Returns the number of pages of the table.
    pub fn check(&self, flash: &Flash<'_>, report: &mut CheckReport) -> u32 {
        let pages = self.directory.iter().filter_map(|&raw| from_raw(raw));
        let mut count = 0;
        for ppn in pages {
            count += 1;
            if !flash.is_valid(ppn) {
                let found = message!("the directory names {ppn}, not valid");
                report.violation(Invariant::M1, u64::from(ppn.0), found);
            }
        }
        count
    }

    /// Bytes of RAM for comparing the table with the chip, with those of the directory.
    pub fn compared_bytes(&self) -> usize {
        self.directory_bytes() + self.part() as usize * size_of::<u32>()
    }

    /// Number of places that are compared with the table at a time.
    fn part(&self) -> u32 {
        (self.physical_pages / 128).clamp(CLAIMS_MIN, CLAIMS_MAX).min(self.physical_pages)
    }

    /// Bytes of the directory.
    pub fn directory_bytes(&self) -> usize {
        self.directory.len() * 4
    }

    /// Bytes of a page of the table.
    pub fn page_bytes(&self) -> usize {
        self.per_page as usize * 4
    }
}
