//! Formatting and mounting.

use super::blocks::{KeptBlock, read_sound};
use super::page::{Header, entry, is_of_other_chip, newer_version};
use super::{Sbits, SbitsConfig, project};
use crate::blocks::behind::Behind;
use crate::blocks::erase_all;
use crate::check::{IndexError, Invariant, words};
use crate::codec::is_blank;
use crate::fault::IndexFault;
use crate::nand::{Cause, Differs, Nand, Unfit};
use crate::sort;
use crate::sorted::Map;
use crate::units::{Pbn, Ppn};
use alloc::vec::Vec;
use core::ops::Range;

/// Kind of a block by its pages.
enum Kind {
    /// A block of full pages: its number, the number of pages up to the last sound one, and the newest
    /// program.
    Full(u32, u32, u64),
    /// A block of partly filled pages.
    Aside,
    /// A block in which nothing can be read.
    Nothing,
}

/// Findings of a mount.
#[derive(Default)]
struct Seen {
    /// Number of sound pages of the newest block of full ones.
    newest_pages: u32,
    newest: Option<Header>,
    /// Header of the newest full page.
    full_page: Option<Header>,
    /// Newest partly filled page.
    partial: Option<(Header, Ppn)>,
    /// Pages in a state that no power cut leaves, each with whether nothing else is in its block.
    damage: Vec<(&'static str, Ppn, bool)>,
    /// True if a page may belong to a chip with another number of blocks.
    is_of_other_chip: bool,
}

impl<N: Nand> Sbits<N> {
    /// Erases the chip and makes an empty store on it.
    pub fn format(nand: N, config: &SbitsConfig) -> Result<Sbits<N>, IndexError> {
        let mut store = Sbits::assemble(nand, config)?;
        erase_all(&mut store.nand, |block| store.blocks.free.push_back(block))?;
        crate::ordered::OrderedIndex::close(&mut store)?;
        Ok(store)
    }

    /// Finds the store on the chip again.
    pub fn mount(nand: N, config: &SbitsConfig) -> Result<Sbits<N>, IndexError> {
        let mut store = Sbits::assemble(nand, config)?;
        store.recover()?;
        Ok(store)
    }

    #[inline(never)]
    fn recover(&mut self) -> Result<(), IndexFault> {
        let seen = self.look_around()?;
        let Some(newest) = seen.newest else {
            if seen.is_of_other_chip {
                let what = words("the pages on the chip are of another number of blocks");
                return Err(IndexError::other(Differs::Geometry, what).into());
            }
            let found = crate::nand::unfit(&mut self.nand, words("the chip holds no page of SBITS"))?;
            return Err(IndexError::NotFormatted(found).into());
        };
        if newest.record != self.record {
            return Err(IndexError::other(
                Differs::Record,
                words("the records on the chip have other sizes"),
            )
            .into());
        }
        self.require_undamaged(&seen)?;
        self.sequence = newest.sequence;
        self.blocks.oldest = newest.oldest_block;
        self.adopt(seen.newest_pages)?;
        self.take_partial(seen.partial)?;
        if newest.number + u64::from(!newest.partial) > self.blocks.full_pages {
            return Err(IndexFault::broken_at(Invariant::S2, "full pages are missing", newest.number));
        }
        let expected = seen.full_page.and_then(|header| header.newest_partial());
        if expected.is_some_and(|sequence| self.partial_sequence < sequence) {
            let what = "the newest partly filled page is missing";
            return Err(IndexFault::broken_at(Invariant::S4, what, self.blocks.full_pages));
        }
        self.learn()
    }

    /// Refuses damage that may hide the newest page. Damage in blocks of older pages is reported to whoever
    /// reads them.
    fn require_undamaged(&self, seen: &Seen) -> Result<(), IndexFault> {
        let newest = self.blocks.kept.last().map(|newest| newest.place);
        let aside = seen.partial.map(|(_, ppn)| self.blocks.geometry.block_of(ppn));
        let hides = |&&(_, ppn, is_alone): &&(&str, Ppn, bool)| {
            let block = Some(self.blocks.geometry.block_of(ppn));
            is_alone || block == newest || block == aside
        };
        match seen.damage.iter().find(hides) {
            Some(&(what, ppn, _)) => Err(IndexFault::broken(Invariant::S2, what, ppn.0)),
            None => Ok(()),
        }
    }

    /// Reads all blocks. If a block of full pages has copies, the best one is kept.
    fn look_around(&mut self) -> Result<Seen, IndexFault> {
        let mut seen = Seen::default();
        let mut empty = 0;
        for block in (0..self.blocks.geometry.blocks).map(Pbn) {
            if self.nand.is_bad(block)? {
                continue;
            }
            match self.look_at(block, 2, &mut seen)? {
                Kind::Full(number, ..) => self.blocks.kept.push_back(KeptBlock { number, place: block }),
                // These blocks are used last: the page before the newest may be the only other copy of the
                // records of the last sync.
                Kind::Aside => self.blocks.free.push_back(block),
                Kind::Nothing => {
                    self.blocks.free.row().insert(empty, block);
                    empty += 1;
                }
            }
        }
        let claims = self.blocks.kept.len();
        sort::total(&mut self.blocks.kept);
        let newest = self.blocks.kept.last().map(|newest| newest.number);
        let (mut at, mut best) = (0, 0);
        while at < claims {
            let number = self.blocks.kept[at].number;
            let copies = self.blocks.kept.iter().skip(at).take_while(|kept| kept.number == number).count();
            let pages = self.choose_among(at..at + copies, Some(number) != newest, &mut seen)?;
            if Some(number) == newest {
                seen.newest_pages = pages;
            }
            self.blocks.kept.swap(best, at);
            (best, at) = (best + 1, at + copies);
        }
        self.blocks.kept.row().truncate(best);
        Ok(seen)
    }

    /// Puts the best of several copies of a block first, and frees the others. Returns the number of sound
    /// pages in the best one.
    fn choose_among(
        &mut self,
        copies: Range<usize>,
        is_older: bool,
        seen: &mut Seen,
    ) -> Result<u32, IndexFault> {
        let enough = if copies.len() == 1 && is_older { 1 } else { u32::MAX };
        let mut best = (0, 0);
        for at in copies.clone() {
            let place = self.blocks.kept[at].place;
            let this = match self.look_at(place, enough, seen)? {
                Kind::Full(_, pages, newest) => (pages, newest),
                _ => (0, 0),
            };
            // Of two copies the one with more pages counts, else the newer one: see `move_newest`.
            if at == copies.start {
                best = this;
            } else if this <= best {
                self.blocks.free.push_back(place);
            } else {
                self.blocks.free.push_back(self.blocks.kept[copies.start].place);
                self.blocks.kept[copies.start].place = place;
                best = this;
            }
        }
        Ok(best.0)
    }

    /// Looks at a block, using the read buffer.
    fn look_at(&mut self, block: Pbn, enough: u32, seen: &mut Seen) -> Result<Kind, IndexFault> {
        let mut page = core::mem::take(&mut self.read.page);
        let kind = self.look_through(block, enough, (seen, &mut page));
        self.read.page = page;
        kind
    }

    /// Kind of a block, decided by its first `enough` pages, or by all of them if these differ.
    fn look_through(
        &mut self,
        block: Pbn,
        enough: u32,
        (seen, page): (&mut Seen, &mut [u8]),
    ) -> Result<Kind, IndexFault> {
        let pages_per_block = self.blocks.geometry.pages_per_block;
        let mut votes: Map<u32, (u32, u32, u64)> = Map::new();
        let (mut is_aside, mut is_erased, mut before, mut damage) = (false, true, 0, None);
        let mut behind = Behind::default();
        for at in 0..pages_per_block {
            let agreed = votes.len() == 1 && votes.values().all(|vote| vote.0 >= enough);
            if at >= enough && !is_aside && (agreed || (is_erased && enough == 2)) {
                break;
            }
            let ppn = self.blocks.geometry.page_at(block, at);
            match read_sound(&mut self.nand, self.blocks.geometry.blocks, ppn, page) {
                Ok(()) => is_erased &= is_blank(page),
                Err(error) if error.is_uncorrectable() => {
                    is_erased = false;
                    behind.unsound(("a page cannot be read", ppn), false);
                    continue;
                }
                Err(error) => return Err(error),
            }
            if page.iter().all(|&byte| byte == 0) {
                damage.get_or_insert(("a page reads as zeros", ppn));
            }
            let Some(header) = Header::decode(page, self.blocks.geometry.blocks) else {
                if let Some(version) = newer_version(page, self.blocks.geometry.blocks) {
                    return Err(IndexError::NotFormatted(Unfit::Newer { version }).into());
                }
                seen.is_of_other_chip |= is_of_other_chip(page);
                if !is_blank(page) {
                    behind.unsound(("a page's checksum does not match", ppn), false);
                }
                continue;
            };
            behind.sound();
            if seen.newest.is_none_or(|newest| header.sequence > newest.sequence) {
                seen.newest = Some(header);
            }
            if header.partial {
                if header.sequence < before {
                    damage.get_or_insert(("a partly filled page is older than the one before it", ppn));
                }
                before = header.sequence;
                is_aside = true;
                if seen.partial.is_none_or(|(other, _)| header.sequence > other.sequence) {
                    seen.partial = Some((header, ppn));
                }
                continue;
            }
            if seen.full_page.is_none_or(|other| header.sequence > other.sequence) {
                seen.full_page = Some(header);
            }
            if let Some((number, page)) = header.block_and_page(pages_per_block)
                && page == at
            {
                let vote = votes.entry(number).or_insert((0, 0, 0));
                *vote = (vote.0 + 1, at + 1, vote.2.max(header.sequence));
            }
        }
        let damage = damage.or(behind.damage(self.nand.tears()));
        seen.damage.extend(damage.map(|(what, ppn)| (what, ppn, !is_aside && votes.is_empty())));
        Ok(match votes.iter().max_by_key(|(_, vote)| vote.0) {
            Some((&number, &(_, pages, newest))) => Kind::Full(number, pages, newest),
            _ if is_aside => Kind::Aside,
            _ => Kind::Nothing,
        })
    }

    /// Takes the blocks of full pages from the oldest that is kept to the newest, which has `newest_pages`
    /// pages.
    fn adopt(&mut self, newest_pages: u32) -> Result<(), IndexFault> {
        while let Some(old) = self.blocks.kept.first().filter(|kept| kept.number < self.blocks.oldest) {
            self.blocks.free.push_back(old.place);
            self.blocks.kept.pop_front();
        }
        self.blocks.full_pages = self.blocks.first_page();
        let Some(last) = self.blocks.kept.last().map(|newest| newest.number) else { return Ok(()) };
        if last - self.blocks.oldest >= self.blocks.geometry.blocks {
            return Err(IndexFault::broken(Invariant::S2, "more blocks than the chip has", last));
        }
        for (at, number) in (self.blocks.oldest..=last).enumerate() {
            if self.blocks.kept[at].number != number {
                self.blocks.kept.row().insert(at, KeptBlock::lost(number));
            }
        }
        let pages_per_block = self.blocks.geometry.pages_per_block;
        self.blocks.full_pages = u64::from(last) * u64::from(pages_per_block) + u64::from(newest_pages);
        self.blocks.newest_is_closed = !newest_pages.is_multiple_of(pages_per_block);
        Ok(())
    }

    /// Fills the page being filled from the newest partly filled one, unless a full page followed that.
    fn take_partial(&mut self, partial: Option<(Header, Ppn)>) -> Result<(), IndexFault> {
        let Some((header, ppn)) = partial else { return Ok(()) };
        // Its block stays out of use until another partly filled page is programmed.
        let block = self.blocks.geometry.block_of(ppn);
        self.blocks.free.row().retain(|&free| free != block);
        self.blocks.aside = Some((block, self.blocks.geometry.pages_per_block));
        self.partial_sequence = header.sequence;
        if header.number < self.blocks.full_pages {
            return Ok(());
        }
        read_sound(&mut self.nand, self.blocks.geometry.blocks, ppn, &mut self.filling.page)?;
        if Header::decode(&self.filling.page, self.blocks.geometry.blocks) != Some(header)
            || usize::from(header.count) >= self.capacity
        {
            return Err(IndexFault::broken(Invariant::S2, "a page reads otherwise now", ppn.0));
        }
        self.filling.count = header.count.into();
        self.filling.closed = header.closed;
        Ok(())
    }

    /// Builds the spline from the first key of each block, and finds the largest key.
    fn learn(&mut self) -> Result<(), IndexFault> {
        let pages_per_block = u64::from(self.blocks.geometry.pages_per_block);
        let first_page = self.blocks.first_page();
        for at in 0..self.blocks.kept.len() as u64 {
            let number = first_page + at * pages_per_block;
            // A page that cannot be read is reported to whoever asks for it.
            if number < self.blocks.full_pages && self.read_page(number, Cause::Recovery).is_ok() {
                let key = project(self.read_key(0));
                self.spline.push(key, number);
            }
        }
        let last: Option<Vec<u8>> = if self.filling.count > 0 {
            Some(entry(&self.filling.page, self.record, self.filling.count - 1).0.to_vec())
        } else if self.blocks.full_pages > first_page {
            self.read_page(self.blocks.full_pages - 1, Cause::Recovery)?;
            Some(self.read_key(self.capacity - 1).to_vec())
        } else {
            None
        };
        self.filling.largest = last;
        Ok(())
    }
}
