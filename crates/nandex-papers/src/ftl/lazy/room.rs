//! Room for writes: converting update and cold blocks, and collecting data blocks and blocks of the table.

use super::{DATA_BLOCK, Entry, FREE_BLOCKS, Lazy, TOMBSTONE};
use alloc::vec::Vec;
use nandex::blocks::spare::{Header, PageKind};
use nandex::blocks::{BlockState, Wear};
use nandex::fault::StoreFault;
use nandex::ftl::mapping::{Flash, NOBODY};
use nandex::ftl::table::{Frontier, from_raw};
use nandex::nand::Cause;
use nandex::store::StoreError;
use nandex::units::{Pbn, Ppn};

/// Free blocks needed before a block may be converted: converting takes one, and collecting needs the
/// others.
const FREE_TO_CONVERT: u32 = 3;

impl Lazy {
    /// Free blocks without those kept for the next base.
    fn free_blocks(&self, flash: &Flash<'_>) -> u32 {
        flash.blocks().free_count().saturating_sub(self.kept_blocks)
    }

    /// Collects and converts until enough blocks are free and the quota of UBA allows `pages` more pages.
    pub(super) fn make_room(&mut self, flash: &mut Flash<'_>, pages: u32) -> Result<(), StoreFault> {
        loop {
            while self.free_blocks(flash) < FREE_BLOCKS {
                self.collect(flash)?;
            }
            let more = u32::from(pages > self.update.room(flash));
            let has_room = self.area.len() as u32 + more <= self.area_blocks;
            if has_room && self.umt.len() + pages as usize <= self.entries_max {
                return Ok(());
            }
            let is_shorter = self.convert(flash)? || self.tell_of_first_trim(flash)?;
            if !is_shorter {
                return Ok(());
            }
        }
    }

    /// Converts the full block of UBA or CBA that costs the fewest table pages. Returns false if there is
    /// none.
    pub(super) fn convert(&mut self, flash: &mut Flash<'_>) -> Result<bool, StoreFault> {
        let Some((pbn, pages)) = self.cheapest(flash) else { return Ok(false) };
        for page in pages {
            self.tell(flash, page)?;
        }
        let g = flash.geometry();
        self.umt.forget_block(pbn, |ppn| g.block_of(ppn));
        self.area.remove(&pbn);
        flash.retag(pbn, DATA_BLOCK, NOBODY);
        self.counters.conversions += 1;
        Ok(true)
    }

    /// The block to convert next, and the pages of the table to rewrite for it.
    fn cheapest(&self, flash: &Flash<'_>) -> Option<(Pbn, Vec<u32>)> {
        let is_full = |pbn: &Pbn| flash.blocks().state(*pbn) == BlockState::Full;
        let full = self.area.iter().copied().filter(is_full);
        // Each with how many pages it costs, and the last of them.
        let mut costs = Vec::with_capacity(self.area.len());
        costs.extend(full.map(|pbn| (pbn, 0u32, None)));
        let told = || {
            let newest = self.umt.iter().filter(|(_, entry)| entry.update);
            newest.filter_map(|(lpn, entry)| {
                let pbn = flash.geometry().block_of(from_raw(entry.ppn)?);
                Some((pbn, self.gmt.table.page_of(lpn)))
            })
        };
        for (pbn, page) in told() {
            if let Ok(at) = costs.binary_search_by_key(&pbn, |cost| cost.0)
                && costs[at].2 != Some(page)
            {
                costs[at] = (pbn, costs[at].1 + 1, Some(page));
            }
        }
        let (cheapest, count, _) = costs.into_iter().min_by_key(|cost| cost.1)?;
        let mut pages = Vec::with_capacity(count as usize);
        for (_, page) in told().filter(|(pbn, _)| *pbn == cheapest) {
            if pages.last() != Some(&page) {
                pages.push(page);
            }
        }
        Some((cheapest, pages))
    }

    fn tell(&mut self, flash: &mut Flash<'_>, page: u32) -> Result<(), StoreFault> {
        let updates = self.umt.updates(self.gmt.table.range(page));
        if updates.is_empty() {
            return Ok(());
        }
        self.gmt.bring(flash, page)?;
        let mut older: Vec<Ppn> = Vec::new();
        for (lpn, entry) in &updates {
            if entry.invalidate {
                older.extend(self.gmt.table.live(flash, *lpn)?);
            }
            self.gmt.table.set(flash, *lpn, from_raw(entry.ppn));
        }
        self.gmt.save(flash, page)?;
        older.into_iter().for_each(|ppn| flash.invalidate(ppn));
        self.umt.told(&updates);
        self.counters.updates += 1;
        Ok(())
    }

    /// Rewrites the page of the table of the first tombstone. Returns false if there is no tombstone.
    pub(super) fn tell_of_first_trim(&mut self, flash: &mut Flash<'_>) -> Result<bool, StoreFault> {
        let first = self.umt.iter().find(|(_, entry)| *entry == TOMBSTONE);
        let Some((lpn, _)) = first else { return Ok(false) };
        self.tell(flash, self.gmt.table.page_of(lpn))?;
        Ok(true)
    }

    fn collect(&mut self, flash: &mut Flash<'_>) -> Result<(), StoreFault> {
        let is_over = self.area.len() as u32 >= self.area_blocks;
        if is_over && self.free_blocks(flash) >= FREE_TO_CONVERT && self.convert(flash)? {
            return Ok(());
        }
        let Some(victim) = self.victim(flash) else {
            // Converting shows which pages are superseded.
            return if self.convert(flash)? { Ok(()) } else { Err(StoreError::Full.into()) };
        };
        flash.counters.collections += 1;
        if flash.tag(victim).role == Some(PageKind::Map) {
            self.counters.table_victims += 1;
            let umt = &self.umt;
            return self.gmt.table.collect(flash, victim, || umt.encode());
        }
        let mut cold = self.cold;
        let moved = self.move_out(flash, victim, &mut cold, Cause::GarbageCollection);
        self.cold = cold;
        moved
    }

    /// The block of DBA or MBA with the fewest pages that count as valid. Of equals, the least erased.
    fn victim(&self, flash: &Flash<'_>) -> Option<Pbn> {
        let blocks = flash.blocks();
        let mut full = blocks.full_by_fewest_valid().filter(|pbn| !self.area.contains(pbn)).peekable();
        let fewest = blocks.valid_count(*full.peek()?);
        // Whatever comes first has the fewest: no other block is looked at.
        let equals = full.take_while(|&pbn| blocks.valid_count(pbn) == fewest);
        let victim = equals.min_by_key(|&pbn| (blocks.erase_count(pbn), pbn))?;
        (fewest < self.block_pages).then_some(victim)
    }

    fn move_out(
        &mut self,
        flash: &mut Flash<'_>,
        victim: Pbn,
        to: &mut Frontier,
        cause: Cause,
    ) -> Result<(), StoreFault> {
        while let Some(from) = flash.blocks().next_valid(victim, 0) {
            let header = flash.load(from, cause)?.filter(|h| h.number < flash.page_count());
            let Some(header) = header else {
                self.lose(flash, from)?;
                continue;
            };
            let lpn = header.number;
            if self.drop_superseded(flash, lpn, from)? {
                continue;
            }
            let ppn = to.store(flash, from, Header { kind: PageKind::Copy, ..header }, cause)?;
            self.area.insert(flash.geometry().block_of(ppn));
            self.umt.insert(lpn, Entry { ppn: ppn.0, update: true, invalidate: false });
        }
        let umt = &self.umt;
        flash.free(victim, cause, || umt.encode())
    }

    /// Whether a page of a data block has been superseded; it does not count as valid then any more.
    fn drop_superseded(&mut self, flash: &mut Flash<'_>, lpn: u32, ppn: Ppn) -> Result<bool, StoreFault> {
        let Some(entry) = self.umt.get(lpn) else { return Ok(false) };
        if !entry.invalidate {
            let what = "a page counts as live that has been superseded";
            return Err(StoreFault::corrupted(what, ppn.0));
        }
        flash.invalidate(ppn);
        self.umt.insert(lpn, Entry { invalidate: false, ..entry });
        self.counters.dropped_pages += 1;
        Ok(true)
    }

    /// Handles a page that counts as valid and cannot be read. Its logical page is found by reading the
    /// whole table.
    fn lose(&mut self, flash: &mut Flash<'_>, ppn: Ppn) -> Result<(), StoreFault> {
        for page in 0..self.gmt.table.pages() {
            self.gmt.bring(flash, page)?;
            let names_it = |&lpn: &u32| self.gmt.table.get(flash, lpn) == Some(ppn);
            let Some(lpn) = self.gmt.table.range(page).find(names_it) else { continue };
            // An older entry may name a place that another page has by now.
            let entry = self.umt.get(lpn);
            if entry.is_some_and(|entry| !entry.invalidate) {
                continue;
            }
            if !self.drop_superseded(flash, lpn, ppn)? {
                flash.lose(ppn, lpn);
                self.umt.insert(lpn, TOMBSTONE);
            }
            return Ok(());
        }
        Err(StoreFault::corrupted("a valid page belongs to no logical page", ppn.0))
    }

    pub(super) fn level(&mut self, flash: &mut Flash<'_>, pbn: Pbn) -> Result<bool, StoreFault> {
        self.make_room(flash, 1)?;
        let is_data = flash.blocks().state(pbn) == BlockState::Full && !self.area.contains(&pbn);
        if !is_data || flash.blocks().valid_count(pbn) == 0 {
            return Ok(false);
        }
        let umt = &self.umt;
        if flash.tag(pbn).role == Some(PageKind::Map) {
            self.gmt.table.collect(flash, pbn, || umt.encode())?;
            return Ok(true);
        }
        let mut target = Frontier::new(PageKind::Copy, Wear::Most);
        let moved = self.move_out(flash, pbn, &mut target, Cause::WearLevelling);
        if let Some(target) = target.block(flash) {
            flash.seal(target);
        }
        moved.map(|()| true)
    }
}
