//! The pages that the record calls valid and that may lose, once those programmed since are known.
//!
//! A page that the record calls valid stays valid, unless
//! - its number was written or moved since, or a page that cannot be read claims it;
//! - its logical block has two data blocks, of which one must go;
//! - its logical block has a page in its data block that says nothing of itself.
//!
//! Only such pages are held, and the pages of the mapping table. Where an older version may stay valid
//! ([`Rules::old_may_stay_valid`](super::Rules)) the newer one is in a block of the host's pages or of
//! copies: all of these count as programmed since.

use super::elect::{Key, Live, Rotten};
use super::marks::Marks;
use super::scan::{Recovery, Scan, Seen, reserve};
use super::state::State;
use super::tags::Kinds;
use crate::blocks::spare::PageKind;
use crate::fault::StoreFault;
use crate::sort;
use crate::units::Pbn;
use alloc::vec::Vec;

impl State {
    /// Most pages that a scan holds: those of a record interval and of one write; those of a victim that
    /// these may replace; those of the mapping table; and those that may be valid beside an older version.
    pub(super) fn held_max(&self) -> usize {
        let is_held = |&pbn: &Pbn| self.tag(pbn).role == Some(PageKind::Map) || self.may_supersede(pbn);
        let held = (0..self.geometry.blocks).map(Pbn).filter(is_held);
        let held: u32 = held.map(|pbn| self.blocks.valid_count(pbn)).sum();
        self.held_beside(held as usize)
    }

    fn held_beside(&self, known: usize) -> usize {
        (self.record_interval() + 3 * self.geometry.pages_per_block) as usize + known
    }

    /// Bytes of RAM of a scan: for its pages, if the record knows `known` of them, and for the rest.
    pub(super) fn scan_bytes(&self, known: usize) -> (usize, usize) {
        let blocks = self.geometry.blocks;
        let marks = 2 * Marks::none(blocks).ram_bytes();
        (self.held_beside(known) * size_of::<Live>(), Kinds::bytes(blocks) + marks)
    }

    /// Returns true if a page of this block may be valid beside an older version.
    fn may_supersede(&self, pbn: Pbn) -> bool {
        let is_young = matches!(self.tag(pbn).role, Some(PageKind::Host | PageKind::More | PageKind::Copy));
        self.rules.old_may_stay_valid && is_young
    }
}

impl Recovery<'_> {
    /// Holds the pages that the record calls valid and that may lose.
    pub(super) fn scan_valid(&mut self) -> Result<(), StoreFault> {
        for pbn in (0..self.state.geometry.blocks).map(Pbn) {
            if self.state.may_supersede(pbn) {
                self.scan_valid_in(pbn)?;
            }
        }
        sort::unstable_by_key(&mut self.scan.pages, |page| (page.key, page.version, page.ppn));
        self.scan.since = Some(self.scan.pages.len());
        self.scan.in_dispute = self.scan.find_disputes(self.state)?;
        for pbn in (0..self.state.geometry.blocks).map(Pbn) {
            if !self.state.may_supersede(pbn) {
                self.scan_valid_in(pbn)?;
            }
        }
        Ok(())
    }

    fn scan_valid_in(&mut self, pbn: Pbn) -> Result<(), StoreFault> {
        let stamp = self.state.blocks.erase_count(pbn) as u8;
        let mut at = 0;
        while let Some(ppn) = self.state.blocks.next_valid(pbn, at) {
            at = self.state.geometry.page_in_block(ppn) + 1;
            match self.state.number_in_place(ppn) {
                Some(number) => {
                    let key = Key::of(PageKind::Data, number);
                    self.hold_page(Live { key, ppn, version: 0 })?;
                }
                None => {
                    self.scan_page(ppn, (stamp, true), &mut Seen::default())?;
                }
            }
        }
        Ok(())
    }

    /// Holds a page that may be valid, or drops it if it lost against a newer one.
    pub(super) fn hold_page(&mut self, page: Live) -> Result<(), StoreFault> {
        let (scan, state) = (&mut self.scan, &mut *self.state);
        if scan.since.is_some() {
            if scan.has_lost(state, &page) {
                state.blocks.invalidate(page.ppn);
                return Ok(());
            }
            if !scan.is_contested(state, page.key) {
                if let Some(place) = scan.map.get_mut(page.number() as usize) {
                    *place = page.ppn.0;
                }
                return Ok(());
            }
        }
        scan.hold(state, page)
    }
}

impl Scan {
    /// Returns the logical blocks of which every page must be held.
    fn find_disputes(&self, state: &State) -> Result<Vec<u32>, StoreFault> {
        let pages_per_block = state.geometry.pages_per_block;
        let block_of = |page: &Live| page.number() / pages_per_block;
        let mut blocks = Vec::new();
        let chunks = self.pages.chunk_by(|a, b| block_of(a) == block_of(b));
        for pages in chunks.filter(|_| state.rules.one_data_block) {
            if self.has_rivals(state, block_of(&pages[0]), pages) {
                reserve(&mut blocks, 1)?;
                blocks.push(block_of(&pages[0]));
            }
        }
        for rotten in self.rotten.iter().filter(|rotten| !rotten.is_old && rotten.claim.is_none()) {
            if let Some(number) = self.named_by_place(state, rotten.ppn) {
                reserve(&mut blocks, 1)?;
                blocks.push(number / pages_per_block);
            }
        }
        sort::total(&mut blocks);
        Ok(blocks)
    }

    /// Returns true if a logical block has several data blocks, given its pages programmed since the record.
    fn has_rivals(&self, state: &State, lbn: u32, pages: &[Live]) -> bool {
        let block = |page: &Live| state.geometry.block_of(page.ppn);
        let mut data =
            pages.iter().map(block).filter(|&pbn| self.kinds.get(pbn.index()) == Some(PageKind::Data));
        let Some(one) = data.next() else { return false };
        let is_other = |pbn: Pbn| {
            let tag = state.tag(pbn);
            tag.role == Some(PageKind::Data) && tag.owner == lbn && state.blocks.valid_count(pbn) > 0
        };
        // If the record has valid pages in a block, this block is the only data block there.
        let mut others = (0..state.geometry.blocks).map(Pbn).filter(|&pbn| pbn != one);
        data.any(|pbn| pbn != one) || state.blocks.valid_count(one) == 0 && others.any(is_other)
    }

    /// Returns true if a page that the record calls valid may lose, or if the scheme must be told of it.
    pub(super) fn is_contested(&self, state: &State, key: Key) -> bool {
        let claims = |rotten: &Rotten| rotten.claim.is_some_and(|h| key.is_of(&h));
        key.is_map()
            || self.since().binary_search_by_key(&key, |page| page.key).is_ok()
            || self.in_dispute.binary_search(&(key.number() / state.geometry.pages_per_block)).is_ok()
            || self.rotten.iter().any(claims)
    }

    /// Returns true if a page that the record calls valid has certainly lost: there is an acknowledged
    /// version after the record. The highest version may be unacknowledged, and pages of a data block tell to
    /// which logical block the others belong.
    pub(super) fn has_lost(&self, state: &State, page: &Live) -> bool {
        let since = self.since();
        let end = since.partition_point(|other| other.key <= page.key);
        let newest = |other: &&Live| other.key == page.key && other.version <= self.committed;
        let newest = since[..end].iter().rev().find(newest).map_or(0, |other| other.version);
        let older = if state.rules.old_may_stay_valid { page.version } else { state.next_version - 1 };
        let is_data = state.tag(state.geometry.block_of(page.ppn)).role == Some(PageKind::Data);
        newest > older && newest < self.highest && !is_data
    }

    /// Holds a page that may lose.
    pub(super) fn hold(&mut self, state: &State, page: Live) -> Result<(), StoreFault> {
        if self.pages.len() == self.pages.capacity() {
            reserve(&mut self.pages, state.geometry.pages_per_block as usize)?;
        }
        self.pages.push(page);
        Ok(())
    }
}
