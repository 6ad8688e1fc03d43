//! Pages in place: the block map, converting logical blocks to it, and moving pages out of victims.

use super::Cftl;
use crate::ftl::block_map::BlockMap;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use nandex::blocks::spare::{Header, PageKind};
use nandex::check::{CheckReport, Invariant, message};
use nandex::fault::StoreFault;
use nandex::ftl::cached::CachedTable;
use nandex::ftl::collecting::{Collecting, Room};
use nandex::ftl::mapping::{Flash, Mounted, NOBODY, Source};
use nandex::ftl::table::{Frontier, NONE, from_raw};
use nandex::nand::Cause;
use nandex::units::{Lbn, Lpn, Pbn, Ppn};

/// Rebuilds the block map after a mount (B1). A data block that finds no place in the map loses that role.
pub(super) fn block_map(flash: &mut Flash<'_>, mounted: &Mounted) -> Result<BlockMap, StoreFault> {
    let mut map = BlockMap::new(flash);
    for pbn in (0..flash.geometry().blocks).map(Pbn) {
        if flash.live_role(pbn) != Some(PageKind::Data) {
            continue;
        }
        let owner = flash.tag(pbn).owner;
        let Some(holder) = map.entry(Lbn(owner)) else {
            flash.retag(pbn, PageKind::Copy, NOBODY);
            continue;
        };
        let loser = match *holder {
            None => holder.replace(pbn),
            Some(_) if mounted.is_clean => {
                let what = "a logical block has two data blocks";
                return Err(StoreFault::corrupted(what, owner));
            }
            Some(other) if flash.blocks().valid_count(other) >= flash.blocks().valid_count(pbn) => Some(pbn),
            Some(_) => holder.replace(pbn),
        };
        if let Some(loser) = loser {
            flash.retag(loser, PageKind::Copy, NOBODY);
        }
    }
    Ok(map)
}

impl Collecting for Cftl {
    fn room(&self) -> Room {
        self.room
    }

    fn cached(&mut self) -> &mut CachedTable {
        &mut self.cached
    }

    fn data(&mut self) -> &mut Frontier {
        &mut self.data
    }

    /// Frees a block after moving its logical pages to the frontier; these pages are mapped one by one from
    /// then on.
    fn move_out(
        &mut self,
        flash: &mut Flash<'_>,
        victim: Pbn,
        to: &mut Frontier,
        cause: Cause,
    ) -> Result<(), StoreFault> {
        let mut cold: BTreeMap<Lbn, u32> = BTreeMap::new();
        while let Some(from) = flash.blocks().next_valid(victim, 0) {
            let header = flash.load(from, cause)?.filter(|h| h.number < flash.page_count());
            let Some(header) = header else {
                self.lose(flash, from)?;
                continue;
            };
            let lpn = header.number;
            let ppn = to.store(flash, from, Header { kind: PageKind::Copy, ..header }, cause)?;
            self.cached.update(lpn, ppn.0);
            if !self.hot.is_hot(Lpn(lpn)) {
                *cold.entry(flash.split(lpn).0).or_default() += 1;
            }
        }
        if cause == Cause::GarbageCollection {
            self.candidate = cold.into_iter().max_by_key(|&(_, pages)| pages).map(|(lbn, _)| lbn);
        }
        self.dissolve(flash, victim);
        flash.free(victim, cause, || self.cached.encode())
    }
}

impl Cftl {
    /// Removes a block without valid pages from the block map.
    fn dissolve(&mut self, flash: &Flash<'_>, pbn: Pbn) {
        let owner = flash.tag(pbn).owner;
        if let Some(holder) = self.in_place.entry(Lbn(owner)).filter(|holder| **holder == Some(pbn)) {
            *holder = None;
            self.counters.dissolved_blocks += 1;
        }
    }

    fn lose(&mut self, flash: &mut Flash<'_>, ppn: Ppn) -> Result<(), StoreFault> {
        let tag = flash.tag(flash.geometry().block_of(ppn));
        if tag.role == Some(PageKind::Data) && tag.owner != NOBODY {
            let lpn = flash.lpn_at(Lbn(tag.owner), flash.geometry().page_in_block(ppn));
            flash.lose(ppn, lpn);
            self.cached.update(lpn, NONE);
            return Ok(());
        }
        let in_place = &self.in_place;
        self.cached.lose(flash, ppn, |flash, lpn| in_place.find(flash, lpn).is_some())
    }

    /// Converts the candidate if it is cold and there is room.
    pub(super) fn convert_candidate(&mut self, flash: &mut Flash<'_>) -> Result<(), StoreFault> {
        let Some(lbn) = self.candidate.take() else { return Ok(()) };
        if !self.room.is_enough(flash) || !self.is_cold(flash, lbn)? {
            return Ok(());
        }
        self.gather(flash, lbn)?;
        self.counters.conversions += 1;
        self.make_room(flash)
    }

    /// True if enough pages of a logical block exist and are cold, and few of them are in place already.
    fn is_cold(&mut self, flash: &mut Flash<'_>, lbn: Lbn) -> Result<bool, StoreFault> {
        let (mut cold, mut in_place) = (0, 0);
        for (lpn, ppn) in self.places(flash, lbn)? {
            cold += u32::from(ppn.is_some() && !self.hot.is_hot(Lpn(lpn)));
            in_place += u32::from(self.in_place.find(flash, lpn).is_some());
        }
        Ok(cold * 100 >= self.convert_percent.saturating_mul(self.room.block_pages) && in_place * 2 < cold)
    }

    /// Pages of a logical block and their places. Reads each translation page at most once.
    fn places(&mut self, flash: &mut Flash<'_>, lbn: Lbn) -> Result<Vec<(u32, Option<Ppn>)>, StoreFault> {
        let mut places = Vec::with_capacity(self.room.block_pages as usize);
        let mut loaded = None;
        for page in 0..self.room.block_pages {
            let lpn = flash.lpn_at(lbn, page);
            if lpn >= flash.page_count() {
                break;
            }
            let known = self.cached.known(lpn).map(from_raw);
            let known = known.or_else(|| self.in_place.find(flash, lpn).map(Some));
            let table_page = self.cached.table.page_of(lpn);
            if known.is_none() && loaded != Some(table_page) {
                self.cached.table.load(flash, table_page, Cause::Mapping)?;
                loaded = Some(table_page);
            }
            places.push((lpn, known.unwrap_or_else(|| self.cached.table.get(flash, lpn))));
        }
        Ok(places)
    }

    pub(super) fn gather(&mut self, flash: &mut Flash<'_>, lbn: Lbn) -> Result<(), StoreFault> {
        let places = self.places(flash, lbn)?;
        let sources: Vec<Option<Source<'_>>> = places.iter().map(|(_, ppn)| ppn.map(Source::Page)).collect();
        let pbn = flash.gather(lbn, &sources)?;
        let old = self.in_place.replace(lbn, Some(pbn));
        for (lpn, ppn) in places {
            let Some(_) = ppn else { continue };
            if self.in_place.find(flash, lpn).is_some() {
                self.cached.forget(lpn);
            } else {
                // It could not be read.
                self.cached.update(lpn, NONE);
            }
        }
        match old {
            Some(old) => flash.free(old, Cause::Merge, || self.cached.encode()),
            None => Ok(()),
        }
    }

    pub(super) fn check_places(&self, flash: &Flash<'_>, report: &mut CheckReport) {
        for (lbn, pbn) in self.in_place.iter() {
            let tag = flash.tag(pbn);
            if tag.role != Some(PageKind::Data) || tag.owner != lbn.0 {
                let found = message!("{lbn} has {pbn}, which is {tag:?}");
                report.violation(Invariant::B1, u64::from(lbn.0), found);
            }
            for ppn in flash.blocks().valid_pages(pbn) {
                let lpn = flash.lpn_at(lbn, flash.geometry().page_in_block(ppn));
                if self.cached.known(lpn).is_some() {
                    let found = message!("lpn {lpn} is in place and has an entry");
                    report.violation(Invariant::B2, u64::from(lpn), found);
                }
            }
        }
    }
}
