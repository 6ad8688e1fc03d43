//! Mounting: from the newest checkpoint and what was programmed after it to the map.
//!
//! 1. *Which blocks changed.* One look at the spare area of the first page of each block: the checkpoint
//!    knows its checksum. A whole page with another checksum means that the block was rewritten. Rewritten
//!    blocks are read page by page, and so is the rest of the two blocks that were open.
//! 2. *What counts.* The horizon is the highest version that is committed for sure: of the last page of a
//!    group, of a moved page, or of a page of the trim log. Host pages beyond it belong to a group that was
//!    cut: they are dropped.
//! 3. *Which page is whose.* For each logical page the highest version wins, unless a trim of this or a
//!    higher version is logged. Several pages of one version hold the same bytes; they come from a move. The
//!    copy is taken, but where that leaves two blocks partly valid although one of them could be free, the
//!    original is.
//! 4. *The block table* follows from the map. No frontier is continued: its next page may be half programmed
//!    although it looks erased. Blocks without valid pages are free, to be erased before use.
//!
//! A page that cannot be read may be one that was being programmed when the power was cut, one whose program
//! failed and was repeated, or one in a block that was being erased. Then nothing hangs on it: its version is
//! beyond the horizon, or found elsewhere, or superseded. Else the chip lost it. If only one bit of it is
//! wrong, and its fields make sense in its place, it is known which logical page that is, and only reading
//! that one fails. If not, and its block still holds live pages, mounting fails with `Corrupted`. A logical
//! page whose block was rewritten, and which is found nowhere else, is lost as well. What cannot be told from
//! a cut: the loss of the very last group, and of several bits of the only live page in a block written since
//! the checkpoint, or, where a filter divides the host's pages, of the last page in one.
//!
//! What an unreadable page may have been, the others of its block say; how far, depends on who shares a block
//! (`Layout`).

use super::PageMapFtl;
use super::event::{Event, Since};
use super::look::{First, is_data};
use super::map::PageMap;
use super::settings::Layout;
use super::state::{LOST, NONE, NOT_ERASED, PageSet, Stream};
use crate::bits::{self, Word};
use crate::blocks::BlockState;
use crate::blocks::spare::{Found, Header, PageKind, read_page};
use crate::codec::get_u32;
use crate::fault::StoreFault;
use crate::nand::{Cause, Geometry, Nand};
use crate::sort;
use crate::sorted::{Map, Set};
use crate::units::{Lpn, Pbn, Ppn};
use alloc::vec;
use alloc::vec::Vec;

/// An unreadable page of the trim log.
#[derive(Clone, Copy)]
struct LostTrims {
    ppn: Ppn,
    version: u64,
    number: u32,
    /// Nothing follows it in its block: it may have been cut.
    is_last: bool,
}

/// The pages that were read since the checkpoint.
struct Scan {
    since: Since,
    events: Vec<Event>,
    /// Highest version logged as trimmed, by logical page.
    trims: Map<u32, u64>,
    trim_pages: Vec<Ppn>,
    /// Numbers of the pages of the trim log.
    trim_numbers: Set<u32>,
    lost_trims: Vec<LostTrims>,
    horizon: u64,
    highest: u64,
    /// Blocks rewritten or marked bad, a bit for each: what the checkpoint says of their pages is void.
    gone: Vec<Word>,
    bad: Vec<Pbn>,
    /// Host pages that cannot be recognised, and the version they should have.
    unreadable: Vec<(Ppn, u64)>,
    /// Blocks in which an unreadable page precedes a readable one, or a committed version is missing.
    torn: Vec<Word>,
    found_any: bool,
}

impl<N: Nand> PageMapFtl<N> {
    /// Finds out what was programmed since the checkpoint. A newer one may have been `begun`: its place, and
    /// the first version after it.
    pub(super) fn recover(&mut self, begun: Option<(Ppn, u64)>) -> Result<(), StoreFault> {
        let (committed, first_version) = (self.state.committed, self.state.next_version);
        let mut scan = Scan::new(Since { first: first_version, committed }, self.geometry.blocks);
        let changed = self.changed_blocks()?;
        // No more than there may be, and never twice: this is what a mount after a cut takes most for.
        scan.events.reserve_exact(changed.len() * self.geometry.pages_per_block as usize);
        for (pbn, first) in changed {
            self.follow_block(pbn, first, &mut scan)?;
        }
        if scan.is_short(self.state.next_version) {
            self.look_again(&mut scan)?;
        }
        if let Some((ppn, _)) = begun.filter(|(_, version)| scan.highest >= *version) {
            return Err(StoreFault::corrupted("the newest checkpoint cannot be read", ppn.0));
        }
        scan.settle();
        // The page that was cut may still tell its version, the one after the highest: no other page gets it.
        let cut_version = u64::from(scan.found_any);
        self.state.next_version = self.state.next_version.max(scan.highest + 1) + cut_version;
        let mut alternatives = Vec::new();
        self.take_newest(&mut scan, &mut alternatives)?;
        self.take_fewest_blocks(&scan, alternatives)?;
        self.state.committed = scan.horizon;
        // What was read is in the map now.
        scan.events = Vec::new();
        self.adopt(scan);
        Ok(())
    }

    /// Step 1: the blocks that are not as they were at the checkpoint, with what their first page says.
    fn changed_blocks(&mut self) -> Result<Vec<(Pbn, First)>, StoreFault> {
        let mut changed = Vec::new();
        for pbn in (0..self.geometry.blocks).map(Pbn) {
            if matches!(self.state.blocks.state(pbn), BlockState::Bad | BlockState::Reserved) {
                continue;
            }
            let first = self.look_at_first(pbn)?;
            if self.state.frontier_in(pbn).is_some() || !matches!(first, First::Kept) {
                changed.push((pbn, first));
            }
        }
        Ok(changed)
    }

    fn follow_block(&mut self, pbn: Pbn, first: First, scan: &mut Scan) -> Result<(), StoreFault> {
        let frontiers = self.state.frontiers;
        let at_checkpoint = |stream: Stream| frontiers[stream as usize].filter(|f| f.pbn == pbn);
        match first {
            First::Kept => {
                let host = at_checkpoint(Stream::Host);
                match host.or(at_checkpoint(Stream::Relocation)) {
                    Some(frontier) => {
                        let seen = self.seen(host.map(|_| frontier.next), pbn);
                        self.follow_pages(pbn, frontier.next, seen, scan)
                    }
                    None => Ok(()),
                }
            }
            First::Rewritten(crc, page) => self.follow_rewritten(pbn, crc, page, scan),
            First::Foreign(crc) => {
                bits::set(&mut scan.gone, pbn.index());
                self.state.first_crc[pbn.index()] = crc.max(NOT_ERASED);
                Ok(())
            }
            First::Bad => {
                bits::set(&mut scan.gone, pbn.index());
                scan.bad.push(pbn);
                Ok(())
            }
        }
    }

    fn follow_rewritten(
        &mut self,
        pbn: Pbn,
        first_crc: u32,
        page: Header,
        scan: &mut Scan,
    ) -> Result<(), StoreFault> {
        bits::set(&mut scan.gone, pbn.index());
        let known = self.stamp_of(pbn);
        let erases = page.extra.wrapping_sub(known);
        let erases_of_second = self.second_page(pbn)?.map_or(0, |second| second.extra.wrapping_sub(known));
        // The first page may be one from before another erase that came back.
        self.state.first_crc[pbn.index()] =
            if erases_of_second > erases { NOT_ERASED } else { first_crc.max(NOT_ERASED) };
        for _ in 0..erases.max(erases_of_second) {
            self.state.blocks.note_erase(pbn);
        }
        self.follow_pages(pbn, 0, self.seen(None, pbn), scan)
    }

    /// Looks at the second page of blocks that seem to be as they were: where versions are missing, the first
    /// page of one may have gone bad in such a way that it passes for the old one.
    fn look_again(&mut self, scan: &mut Scan) -> Result<(), StoreFault> {
        for pbn in (0..self.geometry.blocks).map(Pbn) {
            let is_used = matches!(self.state.blocks.state(pbn), BlockState::Bad | BlockState::Reserved);
            let is_followed = self.state.frontier_in(pbn).is_some();
            if is_used || is_followed || bits::is_set(&scan.gone, pbn.index()) {
                continue;
            }
            if let Some(page) = self.second_page(pbn)? {
                self.follow_rewritten(pbn, 0, page, scan)?;
            }
        }
        Ok(())
    }

    /// The knowledge of a block whose pages have not been read yet: where the host's pages went on after the
    /// checkpoint, and the stamp.
    fn seen(&self, continues_at: Option<u32>, pbn: Pbn) -> Seen {
        let stamp = self.stamp_of(pbn);
        let first_version = self.state.next_version;
        let mut host = Vec::new();
        if let Some(page) = continues_at {
            host.push((i64::from(page) - 1, first_version - 1));
        }
        Seen { layout: self.state.layout, first_version, host, stamp, last: None }
    }

    /// Reads the pages of a block up to the first erased one.
    fn follow_pages(
        &mut self,
        pbn: Pbn,
        from: u32,
        mut seen: Seen,
        scan: &mut Scan,
    ) -> Result<(), StoreFault> {
        let mut unreadable = Vec::new();
        for page in from..self.geometry.pages_per_block {
            let ppn = self.geometry.page_at(pbn, page);
            match read_page(&mut self.nand, ppn, Cause::Recovery, &mut self.page)? {
                Found::Page(header, _) if is_data(header.kind) && header.extra == seen.stamp => {
                    self.note_page(header, ppn, scan)?;
                    seen.note(page, header);
                }
                Found::Erased if self.is_end(pbn, page + 1)? => {
                    // The page that came last in its block may look so too; its version tells.
                    scan.should_have(ppn, seen.version_at(page));
                    break;
                }
                Found::Erased => unreadable.push((page, None)),
                Found::Page(..) => unreadable.push((page, None)),
                Found::Unreadable(claim) => unreadable.push((page, claim)),
            }
            scan.found_any = true;
        }
        for (page, claim) in unreadable {
            self.note_unreadable(self.geometry.page_at(pbn, page), claim, &seen, scan);
        }
        Ok(())
    }

    /// Whether nothing was programmed from this page of a block on.
    fn is_end(&mut self, pbn: Pbn, page: u32) -> Result<bool, StoreFault> {
        if page >= self.geometry.pages_per_block {
            return Ok(true);
        }
        let ppn = self.geometry.page_at(pbn, page);
        Ok(read_page(&mut self.nand, ppn, Cause::Recovery, &mut self.page)? == Found::Erased)
    }

    fn note_unreadable(&self, ppn: Ppn, claim: Option<Header>, seen: &Seen, scan: &mut Scan) {
        let page = self.geometry.page_in_block(ppn);
        let claim = claim.filter(|h| match h.kind {
            _ if h.extra != seen.stamp => false,
            PageKind::Host | PageKind::More => {
                seen.could_be(page, h.version) && h.number < self.limits.page_count
            }
            PageKind::Copy => h.number < self.limits.page_count,
            kind => kind == PageKind::Trim,
        });
        match claim {
            Some(Header { kind: PageKind::Trim, version, number, .. }) => {
                scan.lost_trims.push(LostTrims { ppn, version, number, is_last: Some(page) >= seen.last });
            }
            Some(Header { number, version, .. }) => {
                scan.push(number, version, false, ppn);
            }
            None => {
                scan.should_have(ppn, seen.version_at(page));
                if Some(page) < seen.last {
                    bits::set(&mut scan.torn, self.geometry.block_of(ppn).index());
                }
            }
        }
    }

    fn note_page(&self, header: Header, ppn: Ppn, scan: &mut Scan) -> Result<(), StoreFault> {
        let Header { kind, number, version, .. } = header;
        if kind != PageKind::More {
            scan.horizon = scan.horizon.max(version);
        }
        scan.highest = scan.highest.max(version);
        if kind == PageKind::Trim {
            scan.trim_pages.push(ppn);
            scan.trim_numbers.insert(number);
            return self.note_trims(version, ppn, scan);
        }
        if number >= self.limits.page_count {
            return Err(out_of_range(ppn));
        }
        scan.push(number, version, true, ppn);
        Ok(())
    }

    fn note_trims(&self, version: u64, ppn: Ppn, scan: &mut Scan) -> Result<(), StoreFault> {
        let count = get_u32(&self.page, 0) as usize;
        if count > self.trims_per_page() {
            return Err(out_of_range(ppn));
        }
        for lpn in (0..count).map(|i| get_u32(&self.page, 4 + 4 * i)) {
            if lpn >= self.limits.page_count {
                return Err(out_of_range(ppn));
            }
            let highest = scan.trims.entry(lpn).or_insert(version);
            *highest = version.max(*highest);
        }
        Ok(())
    }

    /// Step 3. Changes the map in its place, and fills `alternatives` with logical pages that lie elsewhere
    /// as well.
    fn take_newest(&mut self, scan: &mut Scan, alternatives: &mut Vec<(u32, Ppn)>) -> Result<(), StoreFault> {
        let g = self.geometry;
        scan.note_never_found(g);
        scan.require_trim_log()?;
        let gone = |ppn: u32| ppn < LOST && bits::is_set(&scan.gone, g.block_of(Ppn(ppn)).index());
        let map = &mut self.state.map;
        for lpn in 0..map.len() {
            if gone(map.get(lpn)) {
                map.set(lpn, LOST);
            }
        }
        scan.trims.keys().for_each(|&lpn| map.set(lpn as usize, NONE));
        // The last of each logical page is the one that counts: highest version, readable, in a sound block.
        let torn = |ppn: Ppn| bits::is_set(&scan.torn, g.block_of(ppn).index());
        let (trims, committed, since) = (&scan.trims, self.state.committed, scan.since);
        sort::unstable_by_key(&mut scan.events, |e| (e.lpn, e.version_and, !torn(e.ppn), e.ppn));
        for history in scan.events.chunk_by(|a, b| a.lpn == b.lpn) {
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

    /// Undoes moves out of blocks that are still partly valid where that leaves the block they went to empty,
    /// and no erase that was cut took the originals.
    fn take_fewest_blocks(
        &mut self,
        scan: &Scan,
        mut alternatives: Vec<(u32, Ppn)>,
    ) -> Result<(), StoreFault> {
        let g = self.geometry;
        let mut valid = vec![0u16; g.blocks as usize];
        let mut count = |ppn: Ppn| valid[g.block_of(ppn).index()] += 1;
        self.state.mapped().for_each(&mut count);
        scan.trim_pages.iter().for_each(|&ppn| count(ppn));
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

    /// Whether these logical pages are still where they were: one page of a block that is there says nothing
    /// of the others.
    fn are_there(&mut self, pages: &[(u32, Ppn)]) -> Result<bool, StoreFault> {
        for &(lpn, ppn) in pages {
            let found = read_page(&mut self.nand, ppn, Cause::Recovery, &mut self.page)?;
            if !matches!(found, Found::Page(header, _) if self.is_of(header, Lpn(lpn), ppn)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Step 4.
    fn adopt(&mut self, scan: Scan) {
        let blocks = &mut self.state.blocks;
        for pbn in (0..self.geometry.blocks).map(Pbn) {
            if !bits::is_set(&scan.gone, pbn.index()) {
                continue;
            }
            while let Some(ppn) = blocks.next_valid(pbn, 0) {
                blocks.invalidate(ppn);
            }
            if blocks.state(pbn).is_free() {
                blocks.claim(pbn);
            }
        }
        for pbn in (0..self.geometry.blocks).map(Pbn) {
            if blocks.state(pbn) == BlockState::Open {
                blocks.close(pbn);
            }
        }
        let named = || self.state.map.iter().filter(|&ppn| ppn < LOST).map(Ppn);
        for mut mapped in PageSet::parts(self.geometry) {
            for ppn in named() {
                if mapped.covers(ppn) {
                    mapped.insert(ppn);
                }
            }
            for ppn in mapped.pages() {
                if blocks.is_valid(ppn) && !mapped.contains(ppn) {
                    blocks.invalidate(ppn);
                }
            }
        }
        for ppn in named() {
            if !blocks.is_valid(ppn) {
                blocks.mark_valid(ppn);
            }
        }
        scan.trim_pages.iter().for_each(|&ppn| blocks.mark_valid(ppn));
        for pbn in (0..self.geometry.blocks).map(Pbn) {
            if blocks.state(pbn) == BlockState::Full && blocks.valid_count(pbn) == 0 {
                blocks.discard(pbn);
            }
        }
        scan.bad.iter().for_each(|&pbn| blocks.retire(pbn));
        self.state.frontiers = [None; 3];
        self.trim_pages = scan.trim_pages;
        self.stale = scan.found_any;
    }
}

impl Scan {
    fn new(since: Since, blocks: u32) -> Scan {
        Scan {
            since,
            events: Vec::new(),
            trims: Map::new(),
            trim_pages: Vec::new(),
            trim_numbers: Set::new(),
            lost_trims: Vec::new(),
            horizon: since.committed,
            highest: 0,
            gone: bits::clear(blocks as usize),
            bad: Vec::new(),
            unreadable: Vec::new(),
            torn: bits::clear(blocks as usize),
            found_any: false,
        }
    }

    fn push(&mut self, lpn: u32, version: u64, readable: bool, ppn: Ppn) {
        self.events.push(self.since.event(lpn, version, readable, ppn));
    }

    /// Notes an unreadable page that should have this version, if that is known.
    fn should_have(&mut self, ppn: Ppn, version: Option<u64>) {
        if let Some(version) = version {
            self.unreadable.push((ppn, version));
        }
    }

    /// Whether fewer versions were found than were written since the checkpoint, up to the horizon.
    fn is_short(&self, first: u64) -> bool {
        let written = (self.horizon + 1).saturating_sub(first);
        let (events, unreadable) = (self.events.iter(), self.unreadable.iter());
        if written > (events.len() + unreadable.len()) as u64 {
            return true;
        }
        let mut found = bits::clear(written as usize);
        let mut note = |version: u64| match version.checked_sub(first) {
            Some(place) if place < written => bits::set(&mut found, place as usize),
            _ => {}
        };
        events.for_each(|event| note(self.since.version(event)));
        unreadable.for_each(|&(_, version)| note(version));
        u64::from(found.iter().map(|word| word.count_ones()).sum::<u32>()) < written
    }

    /// All pages of the trim log since the checkpoint stand until the next one; they are numbered from 0.
    fn require_trim_log(&self) -> Result<(), StoreFault> {
        let found = &self.trim_numbers;
        // After a page that was cut nothing is written.
        let is_lost = |lost: &&LostTrims| {
            !found.contains(&lost.number) && (!lost.is_last || self.highest > lost.version)
        };
        let corrupted = |what, at: Ppn| Err(StoreFault::corrupted(what, at.0));
        if let Some(lost) = self.lost_trims.iter().find(is_lost) {
            return corrupted("a page of the trim log cannot be read", lost.ppn);
        }
        match self.trim_pages.first() {
            Some(&ppn) if found.last() >= Some(&(found.len() as u32)) => {
                corrupted("a page of the trim log is missing; this is another page of it", ppn)
            }
            _ => Ok(()),
        }
    }

    /// Drops what lies beyond the horizon.
    fn settle(&mut self) {
        let (horizon, since) = (self.horizon, self.since);
        self.events.retain(|event| since.version(event) <= horizon);
    }

    /// Counts the blocks as torn that have unreadable pages whose version was committed and is on no readable
    /// page.
    fn note_never_found(&mut self, geometry: Geometry) {
        let horizon = self.horizon;
        self.unreadable.retain(|&(_, version)| version <= horizon);
        sort::unstable_by_key(&mut self.unreadable, |&(_, version)| version);
        let mut is_found = vec![false; self.unreadable.len()];
        for event in self.events.iter().filter(|event| event.readable()) {
            let wanted = self.since.version(event);
            let mut at = self.unreadable.partition_point(|&(_, version)| version < wanted);
            while self.unreadable.get(at).is_some_and(|&(_, version)| version == wanted) {
                is_found[at] = true;
                at += 1;
            }
        }
        for (at, &(ppn, _)) in self.unreadable.iter().enumerate() {
            if !is_found[at] {
                bits::set(&mut self.torn, geometry.block_of(ppn).index());
            }
        }
    }
}

/// The account that the readable pages of a block give of the others.
struct Seen {
    layout: Layout,
    /// The lowest version of a host page that was written after the checkpoint.
    first_version: u64,
    /// Pages the host wrote, and their versions, ascending. In front, where the host's pages went on after
    /// the checkpoint, the page before them.
    host: Vec<(i64, u64)>,
    /// The stamp that all pages carry since the last erase of the block.
    stamp: u8,
    last: Option<u32>,
}

impl Seen {
    fn note(&mut self, page: u32, header: Header) {
        self.last = Some(page);
        if matches!(header.kind, PageKind::Host | PageKind::More) {
            self.host.push((i64::from(page), header.version));
        }
    }

    /// The version that a page must have if the host wrote it and a cut is not to blame; none where that is
    /// not known.
    fn version_at(&self, page: u32) -> Option<u64> {
        let &(known, version) = self.host.last()?;
        let distance = i64::from(page) - known;
        match self.layout {
            Layout::Apart => version.checked_add_signed(distance),
            // Whatever else is unreadable here may have been moved, and so may everything before the page.
            Layout::Mixed => (distance == 1 || self.follows_all(page)).then_some(version + 1),
            Layout::Spread => None,
        }
    }

    /// Whether a page is the first one after the readable ones.
    fn follows_all(&self, page: u32) -> bool {
        self.last.is_some_and(|last| last + 1 == page)
    }

    /// Whether a page may be one that the host wrote as this version.
    fn could_be(&self, page: u32, version: u64) -> bool {
        if self.layout == Layout::Apart {
            return self.version_at(page) == Some(version);
        }
        let place = self.host.partition_point(|&(other, _)| other < i64::from(page));
        let after = self.host[..place].last().map_or(self.first_version, |&(_, before)| before + 1);
        let before = self.host.get(place).map_or(u64::MAX, |&(_, after)| after);
        (after..before).contains(&version)
    }
}

fn out_of_range(ppn: Ppn) -> StoreFault {
    StoreFault::corrupted("a page names a logical page beyond the store", ppn.0)
}
