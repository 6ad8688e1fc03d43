//! Election of one copy for each number, among the pages that a scan found.
//!
//! 1. Pages of groups that were cut are dropped.
//! 2. The highest version of each number wins. Versions before the record count as equal (as 0), because
//!    there is only one of each number that the record calls valid, and copies made since have its bytes. The
//!    exception is a scheme in which an older version may stay valid.
//! 3. If a logical block may have only one data block, the one stays that holds all winners of it, or else
//!    one that holds all winners which no log block holds. If there is none, a merge was cut that carried a
//!    write not yet acknowledged: that version is given up.
//! 4. Among copies of equal version, those stay that leave the fewest blocks in use. So a collection or merge
//!    that was cut short is undone, and cut after cut never uses up the free blocks.
//! 5. A page that could not be read is lost if it was acknowledged and no copy is as new. It was acknowledged
//!    if the record calls it valid, or if its version is missing among those since the record. If its number
//!    is not known, the mount is refused: no older version is passed off for it.

use super::marks::Marks;
use super::scan::{Recovery, Scan};
use super::state::State;
use super::{BlockTag, NOBODY, UNUSED};
use crate::blocks::BlockState;
use crate::blocks::spare::{Found, Header, PageKind, read_page};
use crate::fault::StoreFault;
use crate::nand::{Cause, Geometry};
use crate::sort;
use crate::store::StoreError;
use crate::units::{Pbn, Ppn};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Identity of a page: a logical page or, in the upper half, a page of the mapping table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(u32);

impl Key {
    const MAP: u32 = 1 << 31;

    pub(super) fn of(kind: PageKind, number: u32) -> Key {
        assert!(number < Key::MAP, "a chip of 2^31 pages");
        Key(number | if kind == PageKind::Map { Key::MAP } else { 0 })
    }

    pub(super) fn is_map(self) -> bool {
        self.0 & Key::MAP != 0
    }

    pub(super) fn number(self) -> u32 {
        self.0 & !Key::MAP
    }

    /// True if the header of a page, which may be damaged, names this page.
    pub(super) fn is_of(self, header: &Header) -> bool {
        (header.kind == PageKind::Map, header.number) == (self.is_map(), self.number())
    }
}

/// Page that may be alive, or is alive once a mount has chosen it. There are many at a time, so it takes 16
/// bytes.
#[derive(Clone, Copy, Debug)]
pub struct Live {
    pub(super) key: Key,
    pub(super) ppn: Ppn,
    /// Version; 0 for a page that the base calls valid.
    pub(super) version: u64,
}

impl Live {
    /// Number of the logical page, or of the page of the mapping table.
    pub fn number(&self) -> u32 {
        self.key.number()
    }

    /// True if the page was written since the last record, and not only moved.
    pub(crate) fn is_new(&self) -> bool {
        self.version > 0
    }

    /// True for a page of the mapping table.
    pub fn is_map(&self) -> bool {
        self.key.is_map()
    }

    /// Place of the page.
    pub fn ppn(&self) -> Ppn {
        self.ppn
    }
}

const NOT_FOUND: &str = "a page written since the last record cannot be found";

/// Unreadable page that may have been alive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rotten {
    pub(super) ppn: Ppn,
    pub(super) claim: Option<Header>,
    pub(super) is_old: bool,
    /// True if a later page of its block was programmed: then it is not a page that was being programmed at
    /// the cut.
    pub(super) is_followed: bool,
    pub(super) version: u64,
}

impl Recovery<'_> {
    /// Elects the winners, and updates table, tags and spent pages. Returns the valid pages among those that
    /// the scan holds, by place. Other pages are valid as the record says.
    pub(super) fn elect(&mut self) -> Result<Vec<Live>, StoreFault> {
        let past = self.state.next_version;
        let all_differ = self.state.rules.old_may_stay_valid;
        let version_of = |raw: u64| if raw < past && !all_differ { 0 } else { raw };
        let mut missing = self.scan.missing(self.state)?;
        self.scan.pages.retain(|c| c.version <= self.scan.committed);
        for page in &mut self.scan.pages {
            page.version = version_of(page.version);
        }
        if !self.state.is_counted() {
            self.take_out();
        }
        self.drop_half_erased()?;
        if self.state.rules.one_data_block {
            self.scan.keep_one_data_block(self.state.geometry)?;
        }
        keep_newest(&mut self.scan.pages);
        let mut lost = BTreeSet::new();
        for rotten in &self.scan.rotten {
            let Some(h) = rotten.claim.filter(|h| h.number < self.state.page_count) else { continue };
            if !rotten.is_old && !missing.remove(&h.version) {
                continue;
            }
            let loss = (Key::of(h.kind, h.number), version_of(rotten.version), rotten.ppn);
            lose_found(&mut self.scan.pages, &mut lost, loss)?;
        }
        self.scan.lose_missing(self.state, &missing, &mut lost)?;
        self.scan.shun_half_erased(self.state.geometry);
        self.scan.keep_fewest_blocks(self.state);
        self.scan.refuse_unnamed()?;
        for page in self.scan.pages.iter().filter(|page| !page.key.is_map()) {
            self.state.lost.remove(&page.key.number());
        }
        self.state.lost.extend(lost);
        self.state.next_version = self.scan.highest + 1;
        self.adopt()
    }

    /// Makes the pages invalid that may lose. The elected ones become valid again.
    fn take_out(&mut self) {
        for ppn in self.scan.pages.iter().map(|page| page.ppn).chain(self.scan.rotten.iter().map(|r| r.ppn)) {
            if self.state.blocks.is_valid(ppn) {
                self.state.blocks.invalidate(ppn);
            }
        }
    }

    /// Drops pages that the base calls valid if they were copied since and cannot be read: their block may be
    /// half erased.
    fn drop_half_erased(&mut self) -> Result<(), StoreFault> {
        sort::unstable_by_key(&mut self.scan.pages, |c| (c.key, c.version, c.ppn));
        let mut done = Ok(());
        thin(&mut self.scan.pages, same_key, |copies| {
            let same = copies.partition_point(|c| c.version == 0);
            if same < 2 {
                return copies.len();
            }
            keep(copies, |at, copy| {
                at >= same
                    || match read_page(self.nand, copy.ppn, Cause::Recovery, self.page) {
                        Ok(found) => matches!(found, Found::Page(h, _) if h.number == copy.number()),
                        Err(error) => {
                            done = Err(error);
                            true
                        }
                    }
            })
        });
        done
    }

    fn adopt(&mut self) -> Result<Vec<Live>, StoreFault> {
        let g = self.state.geometry;
        for pbn in (0..g.blocks).map(Pbn).filter(|&pbn| self.state.blocks.valid_count(pbn) == 0) {
            self.state.tags.set(pbn.index(), UNUSED);
        }
        let mut live = core::mem::take(&mut self.scan.pages);
        sort::unstable_by_key(&mut live, |page| page.ppn);
        for page in &live {
            let (number, pbn) = (page.number(), g.block_of(page.ppn));
            let kind = self.scan.kinds.get(pbn.index()).unwrap_or(PageKind::Data);
            let owner = if kind == PageKind::Data { number / g.pages_per_block } else { NOBODY };
            let tag = BlockTag { role: Some(kind), owner };
            // Pages that are not held are known by the use of their block.
            if kind == PageKind::Data && self.state.blocks.valid_count(pbn) > 0 && self.state.tag(pbn) != tag
            {
                let what = "a data block holds pages of two logical blocks";
                return Err(StoreFault::corrupted(what, page.ppn.0));
            }
            self.state.tags.set(pbn.index(), tag);
            if self.state.blocks.state(pbn).is_free() {
                self.state.blocks.claim(pbn);
            }
            self.state.blocks.mark_valid(page.ppn);
            if let Some(place) = self.scan.map.get_mut(number as usize).filter(|_| !page.is_map()) {
                *place = page.ppn.0;
            }
        }
        for pbn in (0..g.blocks).map(Pbn) {
            if self.state.blocks.state(pbn) == BlockState::Open {
                self.state.blocks.close(pbn);
            }
            let is_full = self.state.blocks.state(pbn) == BlockState::Full;
            if is_full && self.state.blocks.valid_count(pbn) == 0 && self.scan.spare.has(pbn) {
                self.state.blocks.discard(pbn);
            }
        }
        self.keep_until_base();
        Ok(live)
    }

    /// Keeps F5 until the next base: the pages that this record knows, or that were programmed since, stay on
    /// the chip.
    fn keep_until_base(&mut self) {
        for pbn in (0..self.state.geometry.blocks).map(Pbn).filter(|&pbn| !self.scan.spare.has(pbn)) {
            match self.state.blocks.state(pbn) {
                BlockState::Free | BlockState::Unclean => {
                    self.state.blocks.claim(pbn);
                    self.state.blocks.close(pbn);
                }
                BlockState::Full if self.state.blocks.valid_count(pbn) == 0 => {}
                _ => continue,
            }
            self.records.held.push(pbn);
        }
    }
}

impl Scan {
    /// Versions since the record without a page, except those of a cut group. They were acknowledged, and no
    /// page programmed since the record was erased (F5).
    fn missing(&mut self, state: &State) -> Result<BTreeSet<u64>, StoreFault> {
        let since = state.next_version..self.committed + 1;
        if since.end.saturating_sub(since.start) > u64::from(state.geometry.pages()) {
            let what = "there are more versions since the last record than the chip has pages";
            return Err(StoreError::Corrupted { what, at: self.committed }.into());
        }
        sort::unstable_by_key(&mut self.pages, |c| (c.version, c.ppn));
        let mut missing = BTreeSet::new();
        let mut found =
            self.pages.iter().map(|c| c.version).skip_while(|&v| v < state.next_version).peekable();
        for version in since {
            let mut is_found = false;
            while found.next_if_eq(&version).is_some() {
                is_found = true;
            }
            if !is_found {
                missing.insert(version);
            }
            // Each missing version must have its page among the unreadable ones, or the mount is refused.
            if missing.len() > self.rotten.len() {
                return Err(StoreError::Corrupted { what: NOT_FOUND, at: version }.into());
            }
        }
        Ok(missing)
    }

    /// Number of a page in a data block, by its place and the other pages of the block.
    pub(super) fn named_by_place(&self, state: &State, ppn: Ppn) -> Option<u32> {
        let (g, pbn) = (state.geometry, state.geometry.block_of(ppn));
        self.kinds.get(pbn.index()).filter(|&kind| kind == PageKind::Data)?;
        let other = self.pages.iter().find(|p| g.block_of(p.ppn) == pbn);
        // Pages that are not held are valid as the record says, and the owner of the block is as it says.
        let recorded = || state.number_in_place(ppn).filter(|_| state.blocks.valid_count(pbn) > 0);
        let number = other.map(|p| p.number() / g.pages_per_block * g.pages_per_block + g.page_in_block(ppn));
        number.or_else(recorded).filter(|&number| number < state.page_count)
    }

    /// Finds the numbers of acknowledged pages whose own header cannot be read. In a data block the place
    /// tells the number.
    fn lose_missing(
        &mut self,
        state: &State,
        missing: &BTreeSet<u64>,
        lost: &mut BTreeSet<u32>,
    ) -> Result<(), StoreFault> {
        let (Some(&first), Some(&last)) = (missing.first(), missing.last()) else { return Ok(()) };
        // The last page of a block may be torn, and then no version of it is missing; or it is the missing
        // one, and another is a copy.
        let since = self.rotten.iter().filter(|r| !r.is_old && r.claim.is_none());
        let may_be_torn = since.clone().any(|r| !r.is_followed);
        let named: Vec<(Ppn, Option<u32>)> =
            since.map(|r| (r.ppn, self.named_by_place(state, r.ppn))).collect();
        let all_named = named.iter().all(|(_, number)| number.is_some());
        if may_be_torn || named.len() != missing.len() || !all_named {
            let at = named.first().map_or(first, |(ppn, _)| u64::from(ppn.0));
            return Err(StoreError::Corrupted { what: NOT_FOUND, at }.into());
        }
        for (ppn, number) in named {
            let Some(number) = number else { continue };
            lose_found(&mut self.pages, lost, (Key::of(PageKind::Data, number), last, ppn))?;
        }
        Ok(())
    }

    /// Does step 3: drops the pages of data blocks that are superseded or incomplete.
    fn keep_one_data_block(&mut self, g: Geometry) -> Result<(), StoreFault> {
        let (kinds, unacknowledged) = (&self.kinds, self.highest);
        let lbn = |page: &Live| page.number() / g.pages_per_block;
        let is_data = |page: &Live| kinds.get(g.block_of(page.ppn).index()) == Some(PageKind::Data);
        let mut done = Ok(());
        thin(
            &mut self.pages,
            |a, b| lbn(a) == lbn(b),
            |pages| {
                let mut rivals: Vec<Pbn> = Vec::new();
                for pbn in pages.iter().filter(|p| is_data(p)).map(|p| g.block_of(p.ppn)) {
                    if !rivals.contains(&pbn) {
                        rivals.push(pbn);
                    }
                }
                if rivals.len() < 2 {
                    return pages.len();
                }
                sort::total(&mut rivals);
                let mut count = pages.len();
                let mut holder = best_holder(g, pages, &rivals, &is_data);
                if holder.is_none() {
                    count = keep(pages, |_, p| !(p.version == unacknowledged && is_data(p)));
                    holder = best_holder(g, &pages[..count], &rivals, &is_data);
                }
                let Some(holder) = holder else {
                    let what = "no data block of a logical block is complete";
                    done = Err(StoreFault::corrupted(what, lbn(&pages[0])));
                    return count;
                };
                keep(&mut pages[..count], |_, p| !is_data(p) || g.block_of(p.ppn) == holder)
            },
        );
        done
    }

    /// Prefers copies in other blocks to copies in a block with an unreadable page known to the base: that
    /// block may be half erased.
    fn shun_half_erased(&mut self, g: Geometry) {
        let block = |ppn: Ppn| g.block_of(ppn);
        let suspects: BTreeSet<Pbn> = self.rotten.iter().filter(|r| r.is_old).map(|r| block(r.ppn)).collect();
        if suspects.is_empty() {
            return;
        }
        thin(&mut self.pages, same_key, |copies| {
            let kept = keep(copies, |_, copy| !suspects.contains(&block(copy.ppn)));
            if kept == 0 { copies.len() } else { kept }
        });
    }

    /// Does step 4: one copy of each page stays.
    fn keep_fewest_blocks(&mut self, state: &State) {
        let pages = &mut self.pages;
        let g = state.geometry;
        let mut kept = Marks::none(g.blocks);
        let in_use = (0..g.blocks).map(Pbn).filter(|&pbn| state.blocks.valid_count(pbn) > 0);
        in_use.for_each(|pbn| kept.set(pbn));
        for only in pages.chunk_by(same_key).filter(|copies| copies.len() == 1) {
            kept.set(g.block_of(only[0].ppn));
        }
        loop {
            thin(pages, same_key, |copies| match copies.iter().position(|c| kept.has(g.block_of(c.ppn))) {
                Some(place) => {
                    copies.swap(0, place);
                    1
                }
                None => copies.len(),
            });
            let mut votes: BTreeMap<Pbn, u32> = BTreeMap::new();
            let open = pages.chunk_by(same_key).filter(|copies| copies.len() > 1);
            for copy in open.flatten() {
                *votes.entry(g.block_of(copy.ppn)).or_default() += 1;
            }
            let Some((most, _)) = votes.into_iter().max_by_key(|&(_, count)| count) else { return };
            kept.set(most);
        }
    }

    /// Does the last part of step 5: refuses unreadable pages without a number.
    fn refuse_unnamed(&self) -> Result<(), StoreFault> {
        match self.rotten.iter().find(|r| r.is_old && r.claim.is_none()) {
            None => Ok(()),
            Some(rotten) => {
                let what = "a page that may be the newest of its kind cannot be read";
                Err(StoreFault::corrupted(what, rotten.ppn.0))
            }
        }
    }
}

/// Data block to keep, among the pages of a logical block by key and version: it holds all winners, or all
/// that no log block holds.
fn best_holder(g: Geometry, pages: &[Live], rivals: &[Pbn], is_data: &impl Fn(&Live) -> bool) -> Option<Pbn> {
    let newest = |copies: &&[Live]| copies.last().map_or(0, |c| c.version);
    let winners = || {
        let copies = pages.chunk_by(same_key);
        copies.map(move |w| &w[w.partition_point(|c| c.version < newest(&w))..])
    };
    let in_block = |w: &[Live], pbn: Pbn| w.iter().any(|c| g.block_of(c.ppn) == pbn);
    let in_log = |w: &[Live]| w.iter().any(|c| !is_data(c));
    let alone = rivals.iter().find(|&&pbn| winners().all(|w| in_block(w, pbn)));
    let held = |pbn: Pbn| winners().filter(|w| in_block(w, pbn)).count();
    let with_logs = rivals.iter().filter(|&&pbn| winners().all(|w| in_block(w, pbn) || in_log(w)));
    alone.or(with_logs.max_by_key(|&&pbn| held(pbn))).copied()
}

/// Marks an unreadable page as lost, unless another copy is as new.
fn lose_found(
    winners: &mut Vec<Live>,
    lost: &mut BTreeSet<u32>,
    (key, version, ppn): (Key, u64, Ppn),
) -> Result<(), StoreFault> {
    let found = winners.binary_search_by_key(&key, |w| w.key);
    if found.is_ok_and(|i| winners[i].version >= version) {
        return Ok(());
    }
    if key.is_map() {
        let what = "a page of the mapping table cannot be read";
        return Err(StoreFault::corrupted(what, ppn.0));
    }
    if found.is_ok() {
        winners.retain(|w| w.key != key);
    }
    lost.insert(key.number());
    Ok(())
}

/// Does step 2: the pages with the highest version of each number stay, in ascending order of keys.
fn keep_newest(pages: &mut Vec<Live>) {
    sort::unstable_by_key(pages, |c| (c.key, c.version, c.ppn));
    thin(pages, same_key, |history| {
        let newest = history.last().map_or(0, |c| c.version);
        let older = history.partition_point(|c| c.version < newest);
        history.rotate_left(older);
        history.len() - older
    });
}

/// True if two pages have the same number: they are copies or versions of one page.
fn same_key(a: &Live, b: &Live) -> bool {
    a.key == b.key
}

/// Thins each group of equal neighbours. `choose` moves the pages that stay to the front of a group and
/// returns their number. The order of groups stays.
fn thin(
    pages: &mut Vec<Live>,
    is_same: impl Fn(&Live, &Live) -> bool,
    mut choose: impl FnMut(&mut [Live]) -> usize,
) {
    let (mut start, mut kept) = (0, 0);
    while start < pages.len() {
        let first = pages[start];
        let end = start + pages[start..].iter().take_while(|page| is_same(&first, page)).count();
        let stays = choose(&mut pages[start..end]);
        debug_assert!(stays <= end - start, "{stays} of {} pages stay", end - start);
        pages.copy_within(start..start + stays, kept);
        (start, kept) = (end, kept + stays);
    }
    pages.truncate(kept);
}

/// Moves the pages that stay to the front, in their order, and returns their number.
fn keep(pages: &mut [Live], mut stays: impl FnMut(usize, &Live) -> bool) -> usize {
    let mut kept = 0;
    for at in 0..pages.len() {
        if stays(at, &pages[at]) {
            pages.swap(kept, at);
            kept += 1;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_page_may_claim_any_number() {
        let claims = |kind, number| {
            let header = Header { kind, number, version: 1, extra: 0 };
            [Key::of(PageKind::Data, 5), Key::of(PageKind::Map, 5)].map(|key| key.is_of(&header))
        };
        assert_eq!(claims(PageKind::Data, 5), [true, false]);
        assert_eq!(claims(PageKind::Map, 5), [false, true]);
        assert_eq!(claims(PageKind::Data, Key::MAP | 5), [false, false]);
        assert_eq!(claims(PageKind::Map, u32::MAX), [false, false]);
    }
}
