//! Scan of a chip that was not closed cleanly: it finds every page that may be alive.
//!
//! Base and notes together tell the state of the chip at the last record. For each block that is neither bad
//! nor reserved, the steps are:
//! 1. If the record calls a page of the block valid, the block was not erased since (F5). Otherwise the page
//!    by which the record knows the block is read, and the block is known if it still holds that page.
//! 2. In a known block, the pages that the record calls valid are alive, and the spent pages need not be
//!    read, unless their numbers are not known. In another block every page is read. A page with the erase
//!    count of the record, at a place that the record calls spent, is the record's; any other was programmed
//!    since.
//! 3. The erase count follows from the pages found.
//!
//! Then the pages that the record calls valid are visited in all blocks. Only those are held that may lose
//! against something programmed since (`contest`). So the scan takes RAM only for the pages programmed since
//! the record, whose number is bounded ([`record_interval`](super::record_interval)).

use super::base::{self, Base};
use super::elect::{Key, Live, Rotten};
use super::marks::Marks;
use super::records::Records;
use super::state::State;
use super::tags::Kinds;
use super::{Chip, Mounted, Rules, UNUSED};
use crate::blocks::BlockState;
use crate::blocks::checkpoint::{CheckpointArea, NO_CHECKPOINT, Source};
use crate::blocks::spare::{Found, Header, PageKind, read_page};
use crate::fault::StoreFault;
use crate::nand::{Cause, Nand, UntilLost};
use crate::store::StoreError;
use crate::units::{Pbn, Ppn};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Largest number of erases of a block since the record after which pages of data were programmed: one by F5,
/// and one for the base itself, which that base could not know.
const ERASES_MAX: u8 = 2;

/// In a block filled page by page, nothing is programmed behind this many consecutive pages that read as
/// erased. More than one, since a page may be damaged.
const ERASED_IN_A_ROW: u32 = 2;

/// Pages that a scan found.
pub(super) struct Scan {
    /// Pages found, those programmed since the record first. Once the scan is done, all of them by key.
    pub(super) pages: Vec<Live>,
    /// Number of pages that were programmed since, or count as if they were. `None` while that is being found
    /// out.
    pub(super) since: Option<usize>,
    /// Logical blocks of which every page is held.
    pub(super) in_dispute: Vec<u32>,
    /// Places of the logical pages that no other page disputes, if [`Rules::has_map`].
    pub(super) map: Vec<u32>,
    pub(super) rotten: Vec<Rotten>,
    /// Logical pages that the map has at unreadable pages.
    pub(super) named: Vec<u32>,
    /// Blocks that may be written to before there is a new record: none of their pages is valid, or
    /// programmed since and readable.
    pub(super) spare: Marks,
    /// Versions up to this one belong to acknowledged writes, except those of incomplete groups.
    pub(super) committed: u64,
    /// Highest version of a readable page.
    pub(super) highest: u64,
    /// Kind of the pages found in each block.
    pub(super) kinds: Kinds,
    /// A base that no reference names, and the next version at the time it was written.
    unreferred: Option<(Ppn, u64)>,
}

impl Scan {
    /// Empty scan: nothing was looked at yet.
    fn new(state: &State) -> Result<Scan, StoreFault> {
        let (past, mut map) = (state.next_version - 1, Vec::new());
        if state.rules.has_map {
            reserve(&mut map, state.page_count as usize)?;
            map.resize(state.page_count as usize, u32::MAX);
        }
        Ok(Scan {
            pages: Vec::new(),
            since: None,
            in_dispute: Vec::new(),
            map,
            rotten: Vec::new(),
            named: Vec::new(),
            spare: Marks::none(state.geometry.blocks),
            committed: past,
            highest: past,
            kinds: Kinds::none(state.geometry.blocks),
            unreferred: None,
        })
    }

    /// Pages programmed since the record, by key; empty while they are being found.
    pub(super) fn since(&self) -> &[Live] {
        &self.pages[..self.since.unwrap_or(0)]
    }

    fn add_rotten(&mut self, rotten: Rotten) -> Result<(), StoreFault> {
        if self.rotten.len() == self.rotten.capacity() {
            let more = self.rotten.len() / 4 + 1;
            reserve(&mut self.rotten, more)?;
        }
        self.rotten.push(rotten);
        Ok(())
    }
}

/// A mount that reads the chip, with the pages found.
pub(super) struct Recovery<'a> {
    pub(super) nand: &'a mut UntilLost<dyn Nand + 'a>,
    pub(super) state: &'a mut State,
    pub(super) records: &'a mut Records,
    pub(super) page: &'a mut [u8],
    pub(super) scan: Scan,
}

const NEWER_CHECKPOINT: &str = "there are newer checkpoints than the newest reference says";

impl<N: Nand> Chip<N> {
    /// Finds the store on a chip again. Nothing is programmed or erased.
    pub(crate) fn mount(nand: N, rules: Rules) -> Result<(Chip<N>, Mounted), StoreFault> {
        let mut nand = UntilLost::new(nand);
        let chip: &mut UntilLost<dyn Nand + '_> = &mut nand;
        let geometry = chip.geometry();
        let mut decode =
            |base: Option<Box<Base>>, source: &mut dyn Source| base::decode(geometry, &rules, (base, source));
        let Some((area, newest)) = CheckpointArea::mount_since(chip, &mut decode, base::is_base)? else {
            let found = crate::nand::unfit(chip, NO_CHECKPOINT)?;
            return Err(StoreError::NotFormatted(found).into());
        };
        let mut base = newest.made;
        base.state.blocks.reserve_exactly(&area.occupied())?;
        // An unreadable page may be the note that voids the clean base.
        let is_clean = base.is_clean && !newest.is_ragged;
        let extra = core::mem::take(&mut base.extra);
        let mut flash = Chip::assemble(nand, area, base.state);
        let mut mounted = Mounted { extra, is_clean, ..Mounted::default() };
        let Chip { nand, state, records, page, .. } = &mut flash;
        let scan = Scan::new(state)?;
        let mut recovery = Recovery { nand, state, records, page, scan };
        mounted.is_clean = is_clean && recovery.is_newest()?;
        if mounted.is_clean {
            mounted.live = recovery.list_known()?;
            if recovery.state.is_counted() {
                mounted.live = recovery.list_told(&mounted.extra)?;
            }
        } else {
            recovery.scan(&mounted.extra)?;
            mounted.live = recovery.elect()?;
            recovery.lose_named(&mounted.live);
        }
        mounted.map = core::mem::take(&mut recovery.scan.map);
        Ok((flash, mounted))
    }
}

impl<N: Nand + ?Sized> Chip<N> {
    /// Valid pages of a block after a mount, and their owners: known from the pages held by the mount, from
    /// the place in a data block, or from the page itself.
    pub fn live_in(&mut self, pbn: Pbn, held: &[Live]) -> Result<Vec<(u32, Ppn)>, StoreFault> {
        let mut live = Vec::new();
        reserve(&mut live, self.state.blocks.valid_count(pbn) as usize)?;
        let mut at = 0;
        while let Some(ppn) = self.state.blocks.next_valid(pbn, at) {
            at = self.state.geometry.page_in_block(ppn) + 1;
            live.push((self.number_of(ppn, held)?, ppn));
        }
        Ok(live)
    }

    /// Number of a valid page, after a mount that holds some pages.
    pub(crate) fn number_of(&mut self, ppn: Ppn, held: &[Live]) -> Result<u32, StoreFault> {
        match held.binary_search_by_key(&ppn, |page| page.ppn) {
            Ok(at) => Ok(held[at].number()),
            Err(_) => match self.state.number_in_place(ppn) {
                Some(number) => Ok(number),
                None => self.state.number_on_chip(&mut self.nand, ppn, &mut self.page),
            },
        }
    }
}

impl Recovery<'_> {
    /// True if no base was begun after this clean one, judging by the block that it would have taken.
    fn is_newest(&mut self) -> Result<bool, StoreFault> {
        for pbn in self.state.blocks.free_by_least_wear() {
            if self.nand.is_bad(pbn)? {
                continue;
            }
            let ppn = self.state.geometry.page_at(pbn, 0);
            let found = read_page(self.nand, ppn, Cause::Recovery, self.page)?;
            let is_newer = |h: Header| match h.kind {
                PageKind::Checkpoint => h.version > self.records.area.version(),
                PageKind::Anchor => false,
                _ => h.version >= self.state.next_version,
            };
            return Ok(!matches!(found, Found::Page(header, _) if is_newer(header)));
        }
        Ok(true)
    }

    /// Lists the valid pages of the mapping table after a clean end, and makes the map if the scheme has one.
    fn list_known(&mut self) -> Result<Vec<Live>, StoreFault> {
        let mut live = Vec::new();
        for pbn in (0..self.state.geometry.blocks).map(Pbn) {
            let in_use = matches!(self.state.blocks.state(pbn), BlockState::Open | BlockState::Full);
            if in_use && self.state.blocks.valid_count(pbn) == 0 {
                // The block is not free before the next base: that one must go where `is_newest` will look
                // for it.
                if self.state.blocks.state(pbn) == BlockState::Open {
                    self.state.blocks.close(pbn);
                }
                self.records.held.push(pbn);
                self.state.tags.set(pbn.index(), UNUSED);
            }
            let is_map = self.state.tag(pbn).role == Some(PageKind::Map);
            if self.state.is_counted() {
                continue;
            }
            if is_map {
                reserve(&mut live, self.state.blocks.valid_count(pbn) as usize)?;
            } else if !self.state.rules.has_map {
                continue;
            }
            let mut at = 0;
            while let Some(ppn) = self.state.blocks.next_valid(pbn, at) {
                at = self.state.geometry.page_in_block(ppn) + 1;
                let number = self.state.number_on_chip(self.nand, ppn, self.page)?;
                if is_map {
                    live.push(Live { key: Key::of(PageKind::Map, number), ppn, version: 0 });
                } else if let Some(place) = self.scan.map.get_mut(number as usize) {
                    *place = ppn.0;
                }
            }
        }
        Ok(live)
    }

    fn scan(&mut self, own: &[u8]) -> Result<(), StoreFault> {
        reserve(&mut self.scan.pages, self.state.held_max())?;
        for pbn in (0..self.state.geometry.blocks).map(Pbn) {
            match self.state.blocks.state(pbn) {
                BlockState::Bad | BlockState::Reserved => continue,
                _ if self.nand.is_bad(pbn)? => self.scan_bad(pbn)?,
                _ => self.scan_block(pbn)?,
            }
        }
        if self.state.is_counted() {
            self.scan_told(own)?;
        } else {
            self.scan_valid()?;
        }
        if let Some((ppn, version)) =
            self.scan.unreferred.filter(|&(_, version)| self.scan.highest >= version)
        {
            debug_assert!(version >= self.state.next_version, "the base at {ppn} is older than the newest");
            return Err(StoreError::Corrupted { what: NEWER_CHECKPOINT, at: u64::from(ppn.0) }.into());
        }
        Ok(())
    }

    /// Handles a block marked bad since the record. Blocks are marked bad only when they are empty, so pages
    /// that the record calls valid there are lost.
    fn scan_bad(&mut self, pbn: Pbn) -> Result<(), StoreFault> {
        if self.state.is_counted() && self.state.blocks.valid_count(pbn) > 0 {
            let what = "a block that holds live pages is marked bad";
            return Err(StoreFault::corrupted(what, self.state.geometry.page_at(pbn, 0).0));
        }
        while let Some(ppn) = self.state.blocks.next_valid(pbn, 0) {
            self.scan.add_rotten(Rotten {
                ppn,
                claim: None,
                is_old: true,
                is_followed: false,
                version: 0,
            })?;
            self.state.blocks.invalidate(ppn);
        }
        self.state.blocks.retire(pbn);
        Ok(())
    }

    fn scan_block(&mut self, pbn: Pbn) -> Result<(), StoreFault> {
        let stamp = self.state.blocks.erase_count(pbn) as u8;
        let is_held = self.state.blocks.valid_count(pbn) > 0;
        let is_known = self.is_as_recorded(pbn, stamp)?.unwrap_or(is_held);
        if is_held && !is_known {
            let what = "a block was erased after the newest record that can be found";
            return Err(StoreFault::corrupted(what, self.state.geometry.page_at(pbn, 0).0));
        }
        self.scan.kinds.set(pbn.index(), self.state.tag(pbn).role.filter(|_| is_known));
        let mut seen = Seen {
            first: self.state.slots.first(pbn).filter(|_| is_known),
            last: None,
            erases: None,
            any: is_known,
        };
        let rotten_before = self.scan.rotten.len();
        let found_before = self.scan.pages.len();
        let has_holes = self.has_holes();
        let mut erased = 0;
        for page in 0..self.state.geometry.pages_per_block {
            let is_old = is_known && !self.state.slots.is_open(pbn, page);
            if is_old {
                // The record knows this page; valid pages have their turn later.
                continue;
            }
            let is_erased =
                self.scan_page(self.state.geometry.page_at(pbn, page), (stamp, is_known), &mut seen)?;
            erased = if is_erased { erased + 1 } else { 0 };
            if erased == ERASED_IN_A_ROW && !has_holes {
                // Nothing is programmed behind this page before the next erase.
                seen.any = true;
                break;
            }
        }
        if !is_held && self.scan.pages.len() == found_before {
            self.scan.spare.set(pbn);
        }
        let last = seen.last.filter(|_| !self.state.geometry.random_order);
        for rotten in &mut self.scan.rotten[rotten_before..] {
            rotten.is_followed =
                last.is_some_and(|last| self.state.geometry.page_in_block(rotten.ppn) < last);
        }
        let gained = seen.erases.map_or(0, |found: u8| found.wrapping_sub(stamp));
        (0..gained).for_each(|_| self.state.blocks.note_erase(pbn));
        self.state.slots.clear(pbn);
        if seen.any {
            self.state.slots.seal(pbn);
        }
        self.state.slots.set_first(pbn, seen.first);
        Ok(())
    }

    /// True if pages of a block may be left out.
    fn has_holes(&self) -> bool {
        self.state.geometry.random_order || !self.state.rules.fills_in_order
    }

    /// True if a block still holds the page by which the record knows it. `None` if that page cannot be read.
    fn is_as_recorded(&mut self, pbn: Pbn, stamp: u8) -> Result<Option<bool>, StoreFault> {
        let Some(first) = self.state.slots.first(pbn) else { return Ok(Some(false)) };
        let known = self.is_page_as_recorded(self.state.geometry.page_at(pbn, first), stamp)?;
        let end = self.state.slots.next(pbn);
        if known != Some(true) || self.state.blocks.valid_count(pbn) > 0 {
            return Ok(known);
        }
        // The block may have been erased since (F5): then this one page might be an old one that came back,
        // and hide all that followed. The last page tells, or the one before it if a program was cut in the
        // last.
        for page in (first + 1..end).rev().take(2) {
            if let Some(same) = self.is_page_as_recorded(self.state.geometry.page_at(pbn, page), stamp)? {
                return Ok(Some(same));
            }
        }
        // In a block in which the record knows only this page, other pages around it tell of a later life.
        let most = if self.has_holes() { usize::MAX } else { ERASED_IN_A_ROW as usize };
        let behind = (end.max(first + 1)..self.state.geometry.pages_per_block).take(most);
        for page in behind.chain(0..first) {
            if self.is_of_later_life(self.state.geometry.page_at(pbn, page), stamp)? {
                return Ok(Some(false));
            }
        }
        Ok(known)
    }

    /// True if a page was programmed after its block had been erased since the record.
    fn is_of_later_life(&mut self, ppn: Ppn, stamp: u8) -> Result<bool, StoreFault> {
        Ok(match read_page(self.nand, ppn, Cause::Recovery, self.page)? {
            Found::Page(h, _) => is_ours(h) && (1..=ERASES_MAX).contains(&h.extra.wrapping_sub(stamp)),
            Found::Erased | Found::Unreadable(_) => false,
        })
    }

    fn is_page_as_recorded(&mut self, ppn: Ppn, stamp: u8) -> Result<Option<bool>, StoreFault> {
        Ok(match read_page(self.nand, ppn, Cause::Recovery, self.page)? {
            Found::Page(h, _) => Some(is_ours(h) && h.extra == stamp),
            Found::Erased => Some(false),
            Found::Unreadable(_) => None,
        })
    }

    /// Looks at a page. True if it reads as erased, and should.
    pub(super) fn scan_page(
        &mut self,
        ppn: Ppn,
        (stamp, is_known): (u8, bool),
        seen: &mut Seen,
    ) -> Result<bool, StoreFault> {
        let (pbn, place) = (self.state.geometry.block_of(ppn), self.state.geometry.page_in_block(ppn));
        let was_spent = !self.state.slots.is_open(pbn, place);
        // If valid pages are counted, the map tells of them, and not the pages.
        let was_valid = !self.state.is_counted() && self.state.blocks.is_valid(ppn);
        let found = read_page(self.nand, ppn, Cause::Recovery, self.page)?;
        seen.any |= found != Found::Erased;
        let (header, readable) = match found {
            Found::Erased if was_valid => (None, false),
            Found::Erased => return Ok(true),
            Found::Page(header, _) => (Some(header), true),
            Found::Unreadable(claim) => (claim, false),
        };
        if readable && let Some(h) = header.filter(|h| h.kind == PageKind::Checkpoint) {
            self.note_checkpoint(ppn, h)?;
        }
        let header = header.filter(|h| is_ours(*h));
        // A whole page of an earlier life of the block has come back.
        let gained_max = if is_known { 0 } else { ERASES_MAX };
        let is_stale = readable && header.map_or(is_known, |h| h.extra.wrapping_sub(stamp) > gained_max);
        let (header, readable) = if is_stale { (None, false) } else { (header, readable) };
        let is_old = was_valid || was_spent && header.map_or(is_known, |h| h.extra == stamp);
        if is_old && !was_valid {
            if readable && let Some(h) = header {
                seen.note(place, h);
            }
            return Ok(false);
        }
        let Some(header) = header else {
            if !readable {
                self.scan.add_rotten(Rotten { ppn, claim: None, is_old, is_followed: false, version: 0 })?;
            }
            return Ok(false);
        };
        let version = if is_old && !self.state.rules.old_may_stay_valid { 0 } else { header.version };
        if !readable {
            self.scan.add_rotten(Rotten { ppn, claim: Some(header), is_old, is_followed: false, version })?;
            return Ok(false);
        }
        seen.note(place, header);
        self.note_page(ppn, header, version)?;
        Ok(false)
    }

    /// Notes a page of a checkpoint. A base that was cut short has the next version, and nothing was
    /// programmed after it; a higher version exists only if there was a reference to that base.
    fn note_checkpoint(&mut self, ppn: Ppn, h: Header) -> Result<(), StoreFault> {
        let newest = self.records.area.version();
        if h.version > newest + 1 {
            return Err(StoreError::Corrupted { what: NEWER_CHECKPOINT, at: u64::from(ppn.0) }.into());
        }
        if h.version == newest + 1 && h.number == 0 {
            // The length of the record stands in front of it.
            let next_version = self.page.get(4..).and_then(base::next_version_of);
            self.scan.unreferred = next_version.map(|version| (ppn, version)).or(self.scan.unreferred);
        }
        Ok(())
    }

    fn note_page(&mut self, ppn: Ppn, h: Header, version: u64) -> Result<(), StoreFault> {
        if h.number >= self.state.page_count {
            let what = "a page names a logical page beyond the store";
            return Err(StoreFault::corrupted(what, ppn.0));
        }
        self.scan.highest = self.scan.highest.max(h.version);
        if h.kind != PageKind::More {
            self.scan.committed = self.scan.committed.max(h.version);
        }
        let block = self.state.geometry.block_of(ppn).index();
        self.scan.kinds.set(block, self.scan.kinds.get(block).or(Some(h.kind)));
        self.hold_page(Live { key: Key::of(h.kind, h.number), ppn, version })
    }
}

/// Reserves room for exactly `more` more elements.
pub(super) fn reserve<T>(items: &mut Vec<T>, more: usize) -> Result<(), StoreFault> {
    let what = "there is too little RAM for the pages that a mount must hold";
    items.try_reserve_exact(more).map_err(|_| StoreError::Unsupported(what.into()).into())
}

/// Summary of the pages of a block.
#[derive(Default)]
pub(super) struct Seen {
    first: Option<u32>,
    last: Option<u32>,
    erases: Option<u8>,
    any: bool,
}

impl Seen {
    fn note(&mut self, place: u32, header: Header) {
        self.first = self.first.or(Some(place));
        self.last = Some(place);
        self.erases = Some(header.extra);
    }
}

pub(super) fn is_ours(header: Header) -> bool {
    !matches!(header.kind, PageKind::Checkpoint | PageKind::Anchor | PageKind::Trim)
}
