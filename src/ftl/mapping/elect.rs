//! Choosing one copy of each number among the pages that a scan found.
//!
//! 1. Pages of groups that were cut are gone.
//! 2. The highest version of each number wins. Versions of the record's past count as equal (as 0), because
//!    there is only one of each number that the record calls valid, and copies made since have its bytes;
//!    unless the scheme says that an older version may stay valid.
//! 3. Where a logical block may have one data block only, the one stays that holds all winners of it; else
//!    one that holds all winners which no log block holds. If there is none, a merge was cut that carried a
//!    write not yet acknowledged: that version is given up.
//! 4. Among copies of equal version, those stay that leave the fewest blocks in use: so a collection or merge
//!    that was cut short is undone, and cut after cut never uses up the free blocks.
//! 5. A page that could not be read is lost if it was acknowledged and no copy is as new. It was if the
//!    record calls it valid, or if its version is missing among those since the record. If it cannot even be
//!    named the mount is refused: no older version is passed off for it.

use super::scan::Scan;
use super::tags::BlockTags;
use super::{BlockTag, Flash, Live, NOBODY};
use crate::blocks::BlockState;
use crate::blocks::spare::{Found, Header, PageKind, read_page};
use crate::nand::{Cause, Nand};
use crate::sort;
use crate::store::StoreError;
use crate::units::{Pbn, Ppn};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// A page that may be alive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) is_map: bool,
    pub(super) number: u32,
    /// 0 for a page that the base calls valid.
    pub(super) version: u64,
    pub(super) ppn: Ppn,
}

/// A page that cannot be read and may have been alive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rotten {
    pub(super) ppn: Ppn,
    pub(super) claim: Option<Header>,
    pub(super) is_old: bool,
    /// Whether a later page of its block was programmed after it: it is not one that was being programmed at
    /// the cut.
    pub(super) is_followed: bool,
    pub(super) version: u64,
}

type Key = (bool, u32);

/// All pages of the highest version of a number.
struct Winner {
    key: Key,
    version: u64,
    copies: Vec<Ppn>,
}

impl<N: Nand> Flash<N> {
    /// Chooses, and makes table, tags and spent pages say so. The valid pages, by place.
    pub(super) fn elect(&mut self, scan: &mut Scan) -> Result<Vec<Live>, StoreError> {
        let past = self.next_version;
        let all_differ = self.rules.old_may_stay_valid;
        let version_of = |raw: u64| if raw < past && !all_differ { 0 } else { raw };
        let mut missing = self.missing(scan)?;
        scan.pages.retain(|c| c.version <= scan.committed);
        for page in &mut scan.pages {
            page.version = version_of(page.version);
        }
        self.drop_half_erased(scan)?;
        if self.rules.one_data_block {
            self.keep_one_data_block(scan)?;
        }
        let mut winners = winners(&mut scan.pages);
        let mut lost = BTreeSet::new();
        for rotten in &scan.rotten {
            let Some(h) = rotten.claim.filter(|h| h.number < self.page_count) else { continue };
            let key = (h.kind == PageKind::Map, h.number);
            if !rotten.is_old && !missing.remove(&h.version) {
                continue;
            }
            self.lose_found(&mut winners, &mut lost, (key, version_of(rotten.version), rotten.ppn))?;
        }
        self.lose_missing(scan, &missing, &mut winners, &mut lost)?;
        self.shun_half_erased(scan, &mut winners);
        let chosen = self.with_fewest_blocks(winners);
        self.refuse_unnamed(scan)?;
        for ((is_map, number), _) in &chosen {
            if !is_map {
                self.lost.remove(number);
            }
        }
        self.lost.extend(lost);
        self.next_version = scan.highest + 1;
        Ok(self.adopt(chosen, scan))
    }

    /// Versions since the record of which no page was found, but for those of a group that was cut: they were
    /// acknowledged, and nothing programmed since the record was erased (F5).
    fn missing(&self, scan: &Scan) -> Result<BTreeSet<u64>, StoreError> {
        let since = self.next_version..scan.committed + 1;
        if since.end.saturating_sub(since.start) > u64::from(self.geometry.pages()) {
            let what = "there are more versions since the last record than the chip has pages";
            return Err(StoreError::Corrupted { what, at: scan.committed });
        }
        Ok(since.filter(|version| !scan.versions.contains(version)).collect())
    }

    /// The number of a page in a data block, by the place and the other pages there.
    fn named_by_place(&self, scan: &Scan, ppn: Ppn) -> Option<u32> {
        let (g, pbn) = (self.geometry, self.geometry.block_of(ppn));
        scan.kinds[pbn.index()].filter(|&kind| kind == PageKind::Data)?;
        let other = scan.pages.iter().find(|p| g.block_of(p.ppn) == pbn);
        let first = other?.number / g.pages_per_block * g.pages_per_block;
        Some(first + g.page_in_block(ppn)).filter(|&number| number < self.page_count)
    }

    /// A page that cannot be read is the newest of its number, unless another copy is as new.
    fn lose_found(
        &self,
        winners: &mut Vec<Winner>,
        lost: &mut BTreeSet<u32>,
        (key, version, ppn): (Key, u64, Ppn),
    ) -> Result<(), StoreError> {
        let found = winners.binary_search_by_key(&key, |w| w.key);
        if found.is_ok_and(|i| winners[i].version >= version) {
            return Ok(());
        }
        if key.0 {
            let what = "a page of the mapping table cannot be read";
            return Err(StoreError::Corrupted { what, at: u64::from(ppn.0) });
        }
        if let Ok(i) = found {
            winners.remove(i);
        }
        lost.insert(key.1);
        Ok(())
    }

    /// Pages that were acknowledged and say nothing of themselves any more. In a data block the place tells
    /// whose they are.
    fn lose_missing(
        &self,
        scan: &Scan,
        missing: &BTreeSet<u64>,
        winners: &mut Vec<Winner>,
        lost: &mut BTreeSet<u32>,
    ) -> Result<(), StoreError> {
        let (Some(&first), Some(&last)) = (missing.first(), missing.last()) else { return Ok(()) };
        // The last page of a block may be torn, and then no version of it is missing; or it is the missing
        // one, and another is a copy.
        let since = scan.rotten.iter().filter(|r| !r.is_old && r.claim.is_none());
        let may_be_torn = since.clone().any(|r| !r.is_followed);
        let named: Vec<(Ppn, Option<u32>)> =
            since.map(|r| (r.ppn, self.named_by_place(scan, r.ppn))).collect();
        let all_named = named.iter().all(|(_, number)| number.is_some());
        if may_be_torn || named.len() != missing.len() || !all_named {
            let what = "a page written since the last record cannot be found";
            let at = named.first().map_or(first, |(ppn, _)| u64::from(ppn.0));
            return Err(StoreError::Corrupted { what, at });
        }
        for (ppn, number) in named {
            let Some(number) = number else { continue };
            self.lose_found(winners, lost, ((false, number), last, ppn))?;
        }
        Ok(())
    }

    /// The base's word for a page is not enough where the page was copied since: its block may be half
    /// erased.
    fn drop_half_erased(&mut self, scan: &mut Scan) -> Result<(), StoreError> {
        let key = |c: &Candidate| (c.is_map, c.number);
        sort::unstable_by_key(&mut scan.pages, |c| (key(c), c.version, c.ppn));
        let mut doubtful: Vec<(Ppn, u32)> = Vec::new();
        for copies in scan.pages.chunk_by(|a, b| key(a) == key(b)) {
            let same = copies.iter().take_while(|c| c.version == 0);
            if same.clone().count() > 1 {
                doubtful.extend(same.map(|c| (c.ppn, c.number)));
            }
        }
        let mut gone: BTreeSet<Ppn> = BTreeSet::new();
        for (ppn, number) in doubtful {
            let found = read_page(&mut self.nand, ppn, Cause::Recovery, &mut self.page)?;
            if !matches!(found, Found::Page(h, _) if h.number == number) {
                gone.insert(ppn);
            }
        }
        scan.pages.retain(|c| !gone.contains(&c.ppn));
        Ok(())
    }

    /// Step 3: drops the pages of data blocks that are superseded or incomplete.
    fn keep_one_data_block(&self, scan: &mut Scan) -> Result<(), StoreError> {
        let g = self.geometry;
        let is_data = |ppn: Ppn| scan.kinds[g.block_of(ppn).index()] == Some(PageKind::Data);
        let mut blocks: BTreeMap<u32, BTreeSet<Pbn>> = BTreeMap::new();
        for page in scan.pages.iter().filter(|p| is_data(p.ppn)) {
            blocks.entry(page.number / g.pages_per_block).or_default().insert(g.block_of(page.ppn));
        }
        let mut dropped: BTreeSet<Ppn> = BTreeSet::new();
        for (lbn, rivals) in blocks.into_iter().filter(|(_, rivals)| rivals.len() > 1) {
            let mut pages: Vec<Candidate> =
                scan.pages.iter().filter(|p| p.number / g.pages_per_block == lbn).copied().collect();
            let holder = match self.best_holder(&mut pages, &rivals, &is_data) {
                Some(pbn) => pbn,
                None => {
                    let unacknowledged = scan.highest;
                    let (cut, rest): (Vec<Candidate>, Vec<Candidate>) =
                        pages.iter().copied().partition(|p| p.version == unacknowledged && is_data(p.ppn));
                    dropped.extend(cut.iter().map(|p| p.ppn));
                    pages = rest;
                    self.best_holder(&mut pages, &rivals, &is_data).ok_or(StoreError::Corrupted {
                        what: "no data block of a logical block is complete",
                        at: u64::from(lbn),
                    })?
                }
            };
            let others = pages.iter().filter(|p| is_data(p.ppn) && g.block_of(p.ppn) != holder);
            dropped.extend(others.map(|p| p.ppn));
        }
        scan.pages.retain(|p| !dropped.contains(&p.ppn));
        Ok(())
    }

    /// The data block to keep: it holds all winners, or all that no log block holds.
    fn best_holder(
        &self,
        pages: &mut [Candidate],
        rivals: &BTreeSet<Pbn>,
        is_data: &impl Fn(Ppn) -> bool,
    ) -> Option<Pbn> {
        let winners = winners(pages);
        let in_block = |w: &Winner, pbn: Pbn| w.copies.iter().any(|&p| self.geometry.block_of(p) == pbn);
        let in_log = |w: &Winner| w.copies.iter().any(|&p| !is_data(p));
        let alone = rivals.iter().find(|&&pbn| winners.iter().all(|w| in_block(w, pbn)));
        let held = |pbn: Pbn| winners.iter().filter(|w| in_block(w, pbn)).count();
        let with_logs = rivals.iter().filter(|&&pbn| winners.iter().all(|w| in_block(w, pbn) || in_log(w)));
        alone.or(with_logs.max_by_key(|&&pbn| held(pbn))).copied()
    }

    /// A block in which a page that the base knows cannot be read may be half erased: other copies are
    /// better.
    fn shun_half_erased(&self, scan: &Scan, winners: &mut [Winner]) {
        let block = |ppn: Ppn| self.geometry.block_of(ppn);
        let suspects: BTreeSet<Pbn> = scan.rotten.iter().filter(|r| r.is_old).map(|r| block(r.ppn)).collect();
        for winner in winners.iter_mut().filter(|w| w.copies.len() > 1) {
            if winner.copies.iter().any(|&ppn| !suspects.contains(&block(ppn))) {
                winner.copies.retain(|&ppn| !suspects.contains(&block(ppn)));
            }
        }
    }

    /// Step 4.
    fn with_fewest_blocks(&self, winners: Vec<Winner>) -> Vec<(Key, Ppn)> {
        let g = self.geometry;
        let mut kept: BTreeSet<Pbn> = BTreeSet::new();
        let mut chosen = Vec::with_capacity(winners.len());
        let mut open: Vec<Winner> = Vec::new();
        for winner in winners {
            if let [only] = winner.copies[..] {
                kept.insert(g.block_of(only));
                chosen.push((winner.key, only));
            } else {
                open.push(winner);
            }
        }
        while !open.is_empty() {
            open.retain(|winner| {
                let place = winner.copies.iter().find(|&&ppn| kept.contains(&g.block_of(ppn)));
                chosen.extend(place.map(|&ppn| (winner.key, ppn)));
                place.is_none()
            });
            let mut votes: BTreeMap<Pbn, u32> = BTreeMap::new();
            for ppn in open.iter().flat_map(|w| &w.copies) {
                *votes.entry(g.block_of(*ppn)).or_default() += 1;
            }
            kept.extend(votes.into_iter().max_by_key(|&(_, count)| count).map(|(pbn, _)| pbn));
        }
        chosen
    }

    /// Step 5.
    fn refuse_unnamed(&self, scan: &Scan) -> Result<(), StoreError> {
        match scan.rotten.iter().find(|r| r.is_old && r.claim.is_none()) {
            None => Ok(()),
            Some(rotten) => {
                let what = "a page that may be the newest of its kind cannot be read";
                Err(StoreError::Corrupted { what, at: u64::from(rotten.ppn.0) })
            }
        }
    }

    fn adopt(&mut self, mut chosen: Vec<(Key, Ppn)>, scan: &Scan) -> Vec<Live> {
        let g = self.geometry;
        for pbn in (0..g.blocks).map(Pbn) {
            while let Some(ppn) = self.blocks.next_valid(pbn, 0) {
                self.blocks.invalidate(ppn);
            }
        }
        sort::unstable_by_key(&mut chosen, |&(_, ppn)| ppn);
        let mut live = Vec::with_capacity(chosen.len());
        let mut tags = BlockTags::unused(g.blocks);
        for &((_, number), ppn) in &chosen {
            let pbn = g.block_of(ppn);
            let kind = scan.kinds[pbn.index()].unwrap_or(PageKind::Data);
            let owner = if kind == PageKind::Data { number / g.pages_per_block } else { NOBODY };
            tags.set(pbn.index(), BlockTag { role: Some(kind), owner });
            if self.blocks.state(pbn).is_free() {
                self.blocks.claim(pbn);
            }
            self.blocks.mark_valid(ppn);
            live.push(Live { kind, number, ppn });
        }
        self.tags = tags;
        for pbn in self.blocks.in_state(BlockState::Open).collect::<Vec<Pbn>>() {
            self.blocks.close(pbn);
        }
        for pbn in self.blocks.in_state(BlockState::Full).collect::<Vec<Pbn>>() {
            if self.blocks.valid_count(pbn) == 0 && scan.spare[pbn.index()] {
                self.blocks.discard(pbn);
            }
        }
        self.hold(scan);
        live
    }
}

impl<N: Nand> Flash<N> {
    /// F5 until the next base: what this record knows, or was programmed since, stays on the chip.
    fn hold(&mut self, scan: &Scan) {
        for pbn in (0..self.geometry.blocks).map(Pbn).filter(|pbn| !scan.spare[pbn.index()]) {
            match self.blocks.state(pbn) {
                BlockState::Free | BlockState::Unclean => {
                    self.blocks.claim(pbn);
                    self.blocks.close(pbn);
                }
                BlockState::Full if self.blocks.valid_count(pbn) == 0 => {}
                _ => continue,
            }
            self.held.push(pbn);
        }
    }
}

/// Step 2. Ascending by key.
fn winners(pages: &mut [Candidate]) -> Vec<Winner> {
    let key = |c: &Candidate| (c.is_map, c.number);
    sort::unstable_by_key(pages, |c| (key(c), c.version, c.ppn));
    let mut winners = Vec::new();
    for history in pages.chunk_by(|a, b| key(a) == key(b)) {
        let newest = &history[history.len() - 1];
        debug_assert!(
            history.iter().all(|c| c.version <= newest.version),
            "a version is newer than the newest"
        );
        let copies = history.iter().filter(|c| c.version == newest.version).map(|c| c.ppn).collect();
        winners.push(Winner { key: key(newest), version: newest.version, copies });
    }
    winners
}
