//! The mount: builds the map from the newest checkpoint and the pages programmed after it.
//!
//! 1. *Which blocks changed.* The mount reads the spare area of the first page of each block. The record has
//!    the checksum of this page; a whole page with another checksum means that the block was rewritten.
//!    Rewritten blocks are read page by page, and so is the rest of the blocks that were open.
//! 2. *Which pages count.* The horizon is the highest version that is certainly committed: that of the last
//!    page of a group, or of a moved page. Host pages beyond the horizon belong to a group that was cut, and
//!    are dropped. **Every version from the record to the horizon must be found** (P6), on a whole page or on
//!    one that can be recognised in spite of a wrong bit. Else the mount is refused, since it is unknown
//!    which logical page is older than it should be. The version of a lost record is missing in the same way.
//! 3. *Which page belongs to which logical page.* For each logical page the highest version wins. Several
//!    pages of the same version hold the same bytes; they come from a move. The copy is taken. The original
//!    is taken if the copy would leave two blocks partly valid and the original would leave one of them free.
//! 4. *The block table* follows from the map. No frontier is continued, since its next page may be half
//!    programmed and look erased. Blocks without valid pages are free, and are erased before use. Blocks with
//!    pages programmed since the record are free only after a new record.
//!
//! A page that cannot be read may be one that was being programmed when the power was cut, one whose program
//! failed and was repeated, or one in a block that was being erased. Then nothing depends on it: its version
//! is beyond the horizon or found elsewhere, or it was a copy. A lost copy has its original, or the map names
//! its place, and reading the logical page fails. If a page has one wrong bit, its logical page is known, and
//! only reading that page fails. One loss looks like a cut: that of all pages of the highest versions, which
//! are at most those of one block.
//!
//! After a checkpoint of a former release versions may be missing, and pages of its trim log follow. Then
//! only an unreadable page among live ones is noticed.

use super::event::{Event, Since};
use super::look::{First, is_data};
use super::map::PageMap;
use super::note::changes_max;
use super::record::Records;
use super::settings::Limits;
use super::state::{LOST, NONE, NOT_ERASED, State};
use super::{Core, holds_data};
use crate::bits::{self, Word};
use crate::blocks::BlockState;
use crate::blocks::checkpoint;
use crate::blocks::spare::{Found, Header, PageKind, read_page};
use crate::codec::get_u32;
use crate::fault::StoreFault;
use crate::nand::{Cause, Geometry, Nand};
use crate::sort;
use crate::sorted::{Map, Set};
use crate::units::{Lpn, Pbn, Ppn};
use alloc::vec;
use alloc::vec::Vec;

/// Unreadable page of the trim log.
#[derive(Clone, Copy)]
struct LostTrims {
    ppn: Ppn,
    version: u64,
    number: u32,
    /// True if no page follows in its block: then it may have been cut.
    is_last: bool,
}

/// Pages read since the record.
struct Scan {
    since: Since,
    /// True if the record is a checkpoint of a former release.
    is_before: bool,
    events: Vec<Event>,
    /// Highest version logged as trimmed, for each logical page.
    trims: Map<u32, u64>,
    trim_page: Option<Ppn>,
    /// Numbers of the pages of the trim log.
    trim_numbers: Set<u32>,
    lost_trims: Vec<LostTrims>,
    horizon: u64,
    highest: u64,
    /// Blocks rewritten or marked bad, a bit for each: the record's pages in them are void.
    gone: Vec<Word>,
    /// Blocks with pages of this FTL programmed since the record.
    fresh: Vec<Word>,
    bad: Vec<Pbn>,
    /// Blocks in which an unreadable page precedes a readable one.
    torn: Vec<Word>,
    found_any: bool,
}

/// A mount in progress, with the parts that it uses. It only reads the chip. It brings the state of the
/// newest record up to date, and tells the records where the next one goes.
pub(super) struct Recovery<'a, N: ?Sized> {
    pub(super) nand: &'a mut N,
    pub(super) geometry: Geometry,
    pub(super) limits: Limits,
    pub(super) state: &'a mut State,
    pub(super) records: &'a mut Records,
    pub(super) page: &'a mut [u8],
    scan: Scan,
}

impl<'a, N: Nand + ?Sized> Recovery<'a, N> {
    /// Begins a mount from the newest record. `is_before` tells whether that is a checkpoint of a former
    /// release.
    pub(super) fn new(nand: &'a mut N, core: &'a mut Core, is_before: bool) -> Recovery<'a, N> {
        let Core { geometry, limits, state, records, page, .. } = core;
        let since = Since { first: state.next_version, committed: state.committed };
        let scan = Scan::new(since, is_before, geometry.blocks);
        Recovery { nand, geometry: *geometry, limits: *limits, state, records, page, scan }
    }

    /// Finds the pages programmed since the record.
    pub(super) fn recover(&mut self) -> Result<(), StoreFault> {
        let is_before = self.scan.is_before;
        // The list gets its largest size at once: a mount after a cut needs most RAM for it, so it must not
        // be there twice.
        self.scan.events.reserve_exact(events_max(self.geometry, &self.limits));
        for pbn in (0..self.geometry.blocks).map(Pbn) {
            let open = self.state.frontier_in(pbn);
            match self.state.blocks.state(pbn) {
                BlockState::Bad | BlockState::Reserved => {}
                // A block that was open then was not given back since (P6), whatever its first page says.
                BlockState::Open if !is_before && let Some(frontier) = open => {
                    self.follow_pages(pbn, frontier.next)?;
                }
                _ => {
                    let first = self.look_at_first(pbn)?;
                    self.follow_block(pbn, first)?;
                }
            }
        }
        self.look_again()?;
        if is_before {
            self.scan.require_trim_log()?;
        } else {
            self.scan.require_all()?;
        }
        self.scan.settle();
        // The page that was cut may still show its version, the one after the highest: no other page gets
        // that.
        let cut_version = u64::from(self.scan.found_any);
        self.state.next_version = self.state.next_version.max(self.scan.highest + 1) + cut_version;
        let mut alternatives = Vec::new();
        self.take_newest(&mut alternatives)?;
        self.take_fewest_blocks(alternatives)?;
        self.state.committed = self.scan.horizon;
        // The map holds the pages that were read.
        self.scan.events = Vec::new();
        self.adopt()
    }

    /// Looks at the second page of blocks that seem unchanged. The first one may have gone bad so that it
    /// passes for the old one, and hide the newest pages. While nothing was found yet, only a block without
    /// valid pages can be the first that was opened.
    fn look_again(&mut self) -> Result<(), StoreFault> {
        for pbn in (0..self.geometry.blocks).map(Pbn) {
            let state = self.state.blocks.state(pbn);
            let is_followed =
                self.state.frontier_in(pbn).is_some() || bits::is_set(&self.scan.gone, pbn.index());
            let may_hide = self.scan.found_any || self.state.blocks.valid_count(pbn) == 0;
            if matches!(state, BlockState::Bad | BlockState::Reserved) || is_followed || !may_hide {
                continue;
            }
            if self.may_have_second(pbn)?
                && let Some(page) = self.second_page(pbn)?
            {
                self.follow_rewritten(pbn, 0, page)?;
            }
        }
        Ok(())
    }

    fn follow_block(&mut self, pbn: Pbn, first: First) -> Result<(), StoreFault> {
        match first {
            First::Kept => match self.state.frontier_in(pbn) {
                Some(frontier) => self.follow_pages(pbn, frontier.next),
                None => Ok(()),
            },
            First::Rewritten(crc, page) => self.follow_rewritten(pbn, crc, page),
            First::Foreign(crc) => {
                bits::set(&mut self.scan.gone, pbn.index());
                self.state.first_crc[pbn.index()] = crc.max(NOT_ERASED);
                Ok(())
            }
            First::Bad => {
                bits::set(&mut self.scan.gone, pbn.index());
                self.scan.bad.push(pbn);
                Ok(())
            }
        }
    }

    fn follow_rewritten(&mut self, pbn: Pbn, first_crc: u32, page: Header) -> Result<(), StoreFault> {
        bits::set(&mut self.scan.gone, pbn.index());
        let known = self.state.stamp_of(pbn);
        let erases = page.extra.wrapping_sub(known);
        let erases_of_second = self.second_page(pbn)?.map_or(0, |second| second.extra.wrapping_sub(known));
        // The first page may be an old one, from before another erase, that came back.
        self.state.first_crc[pbn.index()] =
            if erases_of_second > erases { NOT_ERASED } else { first_crc.max(NOT_ERASED) };
        for _ in 0..erases.max(erases_of_second) {
            self.state.blocks.note_erase(pbn);
        }
        self.follow_pages(pbn, 0)
    }

    /// Reads the pages of a block up to the first erased one.
    fn follow_pages(&mut self, pbn: Pbn, from: u32) -> Result<(), StoreFault> {
        let (stamp, mut has_hole) = (self.state.stamp_of(pbn), false);
        for page in from..self.geometry.pages_per_block {
            let ppn = self.geometry.page_at(pbn, page);
            let found = read_page(self.nand, ppn, Cause::Recovery, self.page)?;
            let claim = match found {
                Found::Page(header, _) if is_data(header.kind) && header.extra == stamp => {
                    self.note_page(header, ppn)?;
                    bits::set(&mut self.scan.fresh, pbn.index());
                    if has_hole {
                        bits::set(&mut self.scan.torn, pbn.index());
                    }
                    self.scan
                        .lost_trims
                        .iter_mut()
                        .filter(|lost| self.geometry.block_of(lost.ppn) == pbn)
                        .for_each(|lost| lost.is_last = false);
                    self.scan.found_any = true;
                    continue;
                }
                Found::Erased if self.is_end(pbn, page + 1)? => break,
                Found::Unreadable(claim) => claim.filter(|header| header.extra == stamp),
                Found::Erased | Found::Page(..) => None,
            };
            self.scan.found_any = true;
            has_hole |= !self.note_claim(claim, ppn);
        }
        Ok(())
    }

    /// True if nothing was programmed in a block from this page on.
    fn is_end(&mut self, pbn: Pbn, page: u32) -> Result<bool, StoreFault> {
        if page >= self.geometry.pages_per_block {
            return Ok(true);
        }
        let ppn = self.geometry.page_at(pbn, page);
        Ok(read_page(self.nand, ppn, Cause::Recovery, self.page)? == Found::Erased)
    }

    /// Notes the identity of an unreadable page, with one bit put right. False if it can be no page of the
    /// FTL.
    fn note_claim(&mut self, claim: Option<Header>, ppn: Ppn) -> bool {
        match claim {
            Some(Header { kind: PageKind::Trim, version, number, .. }) => {
                self.scan.lost_trims.push(LostTrims { ppn, version, number, is_last: true });
                true
            }
            Some(Header { kind, version, number, .. })
                if holds_data(kind) && number < self.limits.page_count =>
            {
                bits::set(&mut self.scan.fresh, self.geometry.block_of(ppn).index());
                self.scan.push(number, version, false, ppn);
                true
            }
            _ => false,
        }
    }

    fn note_page(&mut self, header: Header, ppn: Ppn) -> Result<(), StoreFault> {
        let Header { kind, number, version, .. } = header;
        if kind != PageKind::More {
            self.scan.horizon = self.scan.horizon.max(version);
        }
        self.scan.highest = self.scan.highest.max(version);
        if kind == PageKind::Trim {
            self.scan.trim_page = Some(ppn);
            self.scan.trim_numbers.insert(number);
            return self.note_trims(version, ppn);
        }
        if number >= self.limits.page_count {
            return Err(out_of_range(ppn));
        }
        self.scan.push(number, version, true, ppn);
        Ok(())
    }

    fn note_trims(&mut self, version: u64, ppn: Ppn) -> Result<(), StoreFault> {
        let count = get_u32(self.page, 0) as usize;
        if count >= self.page.len() / 4 {
            return Err(out_of_range(ppn));
        }
        for lpn in (0..count).map(|i| get_u32(self.page, 4 + 4 * i)) {
            if lpn >= self.limits.page_count {
                return Err(out_of_range(ppn));
            }
            let highest = self.scan.trims.entry(lpn).or_insert(version);
            *highest = version.max(*highest);
        }
        Ok(())
    }

    /// Does step 3: changes the map in place, and collects in `alternatives` the logical pages with another
    /// copy.
    fn take_newest(&mut self, alternatives: &mut Vec<(u32, Ppn)>) -> Result<(), StoreFault> {
        let g = self.geometry;
        let gone = |ppn: u32| ppn < LOST && bits::is_set(&self.scan.gone, g.block_of(Ppn(ppn)).index());
        let map = &mut self.state.map;
        for lpn in 0..map.len() {
            if gone(map.get(lpn)) {
                map.set(lpn, LOST);
            }
        }
        self.scan.trims.keys().for_each(|&lpn| map.set(lpn as usize, NONE));
        // The last event of each logical page counts: highest version, readable, in a sound block.
        let torn = |ppn: Ppn| self.scan.is_before && bits::is_set(&self.scan.torn, g.block_of(ppn).index());
        let (trims, committed, since) = (&self.scan.trims, self.state.committed, self.scan.since);
        sort::unstable_by_key(&mut self.scan.events, |e| (e.lpn, e.version_and, !torn(e.ppn), e.ppn));
        for history in self.scan.events.chunk_by(|a, b| a.lpn == b.lpn) {
            let newest = history[history.len() - 1];
            let (lpn, version) = (newest.lpn as usize, since.version(&newest));
            if trims.get(&newest.lpn).is_some_and(|&trimmed| trimmed >= version) {
                continue;
            }
            let place = map.get(lpn);
            let original = (version <= committed && place < LOST).then_some(Ppn(place));
            if !newest.readable() {
                map.set(lpn, original.map_or(LOST, |ppn| ppn.0));
                continue;
            }
            if torn(newest.ppn) {
                if original.is_some() {
                    continue;
                }
                let what = "a committed page in a block written last cannot be read";
                return Err(StoreFault::corrupted(what, newest.ppn.0));
            }
            let is_twin = |e: &&Event| e.version_and == newest.version_and && e.ppn != newest.ppn;
            let twin = history.iter().find(is_twin).map(|e| e.ppn);
            let other = original.or(twin).filter(|&ppn| !torn(ppn));
            if let Some(ppn) = other {
                alternatives.push((newest.lpn, ppn));
            }
            map.set(lpn, newest.ppn.0);
        }
        Ok(())
    }

    /// Undoes moves out of blocks that are still partly valid, if that leaves the target block empty and no
    /// interrupted erase took the originals.
    fn take_fewest_blocks(&mut self, mut alternatives: Vec<(u32, Ppn)>) -> Result<(), StoreFault> {
        let g = self.geometry;
        let mut valid = vec![0u16; g.blocks as usize];
        let mut count = |ppn: Ppn| valid[g.block_of(ppn).index()] += 1;
        self.state.mapped().for_each(&mut count);
        let block_now = |map: &PageMap, lpn: u32| g.block_of(Ppn(map.get(lpn as usize)));
        sort::by_key(&mut alternatives, |&(lpn, _)| block_now(&self.state.map, lpn));
        let mut rest = &alternatives[..];
        while let Some(&(first, _)) = rest.first() {
            let pbn = block_now(&self.state.map, first);
            let same = rest.iter().take_while(|&&(lpn, _)| block_now(&self.state.map, lpn) == pbn).count();
            let (moves, others) = rest.split_at(same);
            rest = others;
            let stays =
                |&(_, other): &(u32, Ppn)| g.block_of(other) != pbn && valid[g.block_of(other).index()] > 0;
            let empties = moves.len() == usize::from(valid[pbn.index()]) && moves.iter().all(stays);
            if !empties || !self.are_there(moves)? {
                continue;
            }
            for &(lpn, original) in moves {
                self.state.map.set(lpn as usize, original.0);
                valid[g.block_of(original).index()] += 1;
            }
            valid[pbn.index()] = 0;
        }
        Ok(())
    }

    /// True if these logical pages are still at these places: one page of a block tells nothing about the
    /// others.
    fn are_there(&mut self, pages: &[(u32, Ppn)]) -> Result<bool, StoreFault> {
        for &(lpn, ppn) in pages {
            let found = read_page(self.nand, ppn, Cause::Recovery, self.page)?;
            if !matches!(found, Found::Page(header, _) if self.state.is_of(header, Lpn(lpn), ppn)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Does step 4.
    fn adopt(&mut self) -> Result<(), StoreFault> {
        // The record says that these are open: they are not given back before a newer record says that they
        // are not.
        for frontier in core::mem::take(&mut self.state.frontiers).into_iter().flatten() {
            self.records.changes.touch(frontier.pbn);
            bits::set(&mut self.scan.fresh, frontier.pbn.index());
        }
        let blocks = &mut self.state.blocks;
        for pbn in (0..self.geometry.blocks).map(Pbn) {
            if bits::is_set(&self.scan.gone, pbn.index()) && blocks.state(pbn).is_free() {
                blocks.claim(pbn);
            }
            if blocks.state(pbn) == BlockState::Open {
                blocks.close(pbn);
            }
        }
        self.state.follow_map()?;
        let blocks = &mut self.state.blocks;
        for pbn in (0..self.geometry.blocks).map(Pbn) {
            let is_empty = blocks.state(pbn) == BlockState::Full && blocks.valid_count(pbn) == 0;
            match is_empty {
                true if bits::is_set(&self.scan.fresh, pbn.index()) => self.records.holds_blocks = true,
                true => blocks.discard(pbn),
                false => {}
            }
        }
        self.scan.bad.iter().for_each(|&pbn| blocks.retire(pbn));
        self.records.stale = self.scan.found_any;
        Ok(())
    }
}

/// Most pages programmed since the last record: those for which it has room, and those of a cut group.
fn events_max(geometry: Geometry, limits: &Limits) -> usize {
    changes_max(geometry, limits.atomic_pages) + limits.atomic_pages as usize
}

/// Bytes of RAM that a mount takes besides the store.
pub(super) fn mount_bytes(g: Geometry, limits: &Limits) -> usize {
    let blocks = g.blocks as usize;
    // Events, the list of those that also lie elsewhere, and the set of versions found.
    let each = size_of::<Event>() + 2 * size_of::<(u32, Ppn)>() + 1;
    // Valid pages of each block, three bits, and a part of the chip's pages.
    let tables = 3 * blocks + (g.pages() / 64) as usize;
    // Records in the checkpoint blocks, and two pages to read them.
    let records = checkpoint::mount_bytes(g, limits.blocks_of_checkpoint());
    events_max(g, limits) * each + tables + records + size_of::<Scan>()
}

impl Scan {
    fn new(since: Since, is_before: bool, blocks: u32) -> Scan {
        Scan {
            since,
            is_before,
            events: Vec::new(),
            trims: Map::new(),
            trim_page: None,
            trim_numbers: Set::new(),
            lost_trims: Vec::new(),
            horizon: since.committed,
            highest: 0,
            gone: bits::clear(blocks as usize),
            fresh: bits::clear(blocks as usize),
            bad: Vec::new(),
            torn: bits::clear(blocks as usize),
            found_any: false,
        }
    }

    fn push(&mut self, lpn: u32, version: u64, readable: bool, ppn: Ppn) {
        self.events.push(self.since.event(lpn, version, readable, ppn));
    }

    /// Requires all versions from the record to the horizon on the chip: none of them was erased (P6), and
    /// the identity of each unreadable one must be known.
    fn require_all(&self) -> Result<(), StoreFault> {
        let first = self.since.first;
        let written = (self.horizon + 1).saturating_sub(first);
        let lost = |at: u64| {
            let what = "a page or a record programmed since the last record cannot be found";
            Err(StoreFault::corrupted_at(what, first + at))
        };
        if written > self.events.len() as u64 {
            return lost(0);
        }
        let mut found = bits::clear(written as usize);
        for event in &self.events {
            let at = self.since.version(event).checked_sub(first).filter(|&at| at < written);
            at.into_iter().for_each(|at| bits::set(&mut found, at as usize));
        }
        match (0..written).find(|&at| !bits::is_set(&found, at as usize)) {
            Some(at) => lost(at),
            None => Ok(()),
        }
    }

    /// Requires all pages of the trim log since the checkpoint: they stay until the next one, and are
    /// numbered from 0.
    fn require_trim_log(&self) -> Result<(), StoreFault> {
        let found = &self.trim_numbers;
        // Nothing is written after a page that was cut.
        let is_lost = |lost: &&LostTrims| {
            !found.contains(&lost.number) && (!lost.is_last || self.highest > lost.version)
        };
        let corrupted = |what, at: Ppn| Err(StoreFault::corrupted(what, at.0));
        if let Some(lost) = self.lost_trims.iter().find(is_lost) {
            return corrupted("a page of the trim log cannot be read", lost.ppn);
        }
        match self.trim_page {
            Some(ppn) if found.last() >= Some(&(found.len() as u32)) => {
                corrupted("a page of the trim log is missing; this is another page of it", ppn)
            }
            _ => Ok(()),
        }
    }

    /// Drops events beyond the horizon.
    fn settle(&mut self) {
        let (horizon, since) = (self.horizon, self.since);
        self.events.retain(|event| since.version(event) <= horizon);
    }
}

fn out_of_range(ppn: Ppn) -> StoreFault {
    StoreFault::corrupted("a page names a logical page beyond the store", ppn.0)
}
