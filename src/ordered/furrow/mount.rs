//! Formatting and mounting.

use super::page::{CLOSED, CONTINUED, Decoded, HEADER_BYTES, Header, JOINED, MARK, MORE, SALTS, WHOLE};
use super::write::{Redo, is_removal};
use super::{BLOCK_BITS, Furrow, FurrowConfig};
use crate::blocks::erase_all;
use crate::check::{IndexError, Invariant, words};
use crate::codec::{first_number, is_blank};
use crate::fault::IndexFault;
use crate::nand::{Cause, Differs, Nand, NandError, Reading, Unfit, read_again, read_again_at};
use crate::sort;
use crate::units::{Pbn, Ppn};
use alloc::vec::Vec;

/// Contents at the beginning of a page.
enum Page {
    Ours(Header),
    Other(Unfit),
    Blank,
    Broken,
}

/// The changes of a page that count.
#[derive(Clone, Copy, Default)]
struct Changes {
    /// Changes of whole groups.
    whole: u32,
    /// First change of the last whole group.
    last: u32,
}

/// Findings of a mount in the newest block.
struct Newest {
    header: Header,
    pages: u32,
}

impl<N: Nand> Furrow<N> {
    /// Erases the chip and makes an empty store on it.
    pub fn format(nand: N, config: &FurrowConfig) -> Result<Furrow<N>, IndexError> {
        let mut store = Furrow::assemble(nand, config)?;
        store.ring.oldest = first_number(BLOCK_BITS, 0) as u32;
        erase_all(&mut store.nand, |block| store.ring.add_free(block))?;
        let has = store.ring.good() as u32;
        if has < 2 {
            return Err(IndexError::ChipTooSmall { who: "furrow", needs: 2, has });
        }
        store.mark_closed()?;
        store.is_closed = true;
        Ok(store)
    }

    /// Finds the store on the chip again.
    pub fn mount(nand: N, config: &FurrowConfig) -> Result<Furrow<N>, IndexError> {
        let mut store = Furrow::assemble(nand, config)?;
        store.recover()?;
        Ok(store)
    }

    #[inline(never)]
    fn recover(&mut self) -> Result<(), IndexFault> {
        let mut seen = self.look_around()?;
        sort::unstable_by(&mut seen, |a, b| a.cmp(b));
        let mut void = None;
        let newest = loop {
            let Some(&(number, block)) = seen.last() else {
                let what = words("the chip holds no page of furrow");
                return Err(IndexError::NotFormatted(crate::nand::unfit(&mut self.nand, what)?).into());
            };
            if let Some(newest) = self.look_at_newest(Pbn(block), number)? {
                break newest;
            }
            if void.replace(Pbn(block)).is_some() {
                return Err(damaged("two blocks whose copies are not whole", block));
            }
            seen.pop();
        };
        self.list(&seen, &newest.header)?;
        if let Some(void) = void {
            self.ring.add_next(void);
        }
        let released = seen.iter().filter(|(number, _)| *number < newest.header.oldest);
        released.for_each(|&(_, block)| self.ring.add_free(Pbn(block)));
        for at in 0..self.ring.used() {
            self.replay(at, &newest)?;
        }
        Ok(())
    }

    /// Blocks with pages of the store, each with its number. The others are free.
    fn look_around(&mut self) -> Result<Vec<(u32, u32)>, IndexFault> {
        let mut seen = Vec::with_capacity(self.shape.geometry.blocks as usize);
        let mut other = None;
        for block in (0..self.shape.geometry.blocks).map(Pbn) {
            if self.nand.is_bad(block)? {
                continue;
            }
            match self.find_number(block, &mut other)? {
                Some(number) => seen.push((number, block.0)),
                None => self.ring.add_free(block),
            }
        }
        match other {
            Some(unfit) if seen.is_empty() => Err(IndexError::NotFormatted(unfit).into()),
            _ => Ok(seen),
        }
    }

    /// Number of a block, if one of its first two pages has it, or any page where one of these is not whole.
    fn find_number(&mut self, block: Pbn, other: &mut Option<Unfit>) -> Result<Option<u32>, IndexFault> {
        let (geometry, mut number, mut is_broken) = (self.shape.geometry, None, false);
        for page in 0..geometry.pages_per_block {
            if page >= 2 && (number.is_some() || !is_broken) {
                break;
            }
            match self.page(geometry.page_at(block, page), Cause::Recovery)? {
                Page::Ours(header) => number = number.max(Some(header.number)),
                Page::Other(unfit) => *other = other.take().or(Some(unfit)),
                Page::Blank => {}
                Page::Broken => is_broken = true,
            }
        }
        Ok(number)
    }

    /// Reads pages of the log, and moves records if one is hard to read. Returns the pages left of the round.
    pub(super) fn look_on(&mut self, budget: u32) -> Result<u32, IndexFault> {
        let geometry = self.shape.geometry;
        for _ in 0..budget {
            let (at, page) =
                (self.care.page / geometry.pages_per_block, self.care.page % geometry.pages_per_block);
            if at as usize >= self.ring.used() {
                self.care.page = 0;
                break;
            }
            self.page(geometry.page_at(self.ring.block(at as usize), page), Cause::Scrubbing)?;
            self.care.page += 1;
        }
        let is_over = self.care.page == 0;
        self.move_weak()?;
        let all = self.ring.used() as u32 * geometry.pages_per_block;
        Ok(if is_over { 0 } else { all.saturating_sub(self.care.page).max(1) })
    }

    /// Reads the beginning of a page.
    fn page(&mut self, ppn: Ppn, cause: Cause) -> Result<Page, IndexFault> {
        let shape = self.shape;
        self.loaded = None;
        let is_whole = |page: &[u8]| Header::decode(&shape, ppn, page).is_some() || is_blank(page);
        let reading = if shape.geometry.appends() {
            read_again_at(&mut self.nand, (ppn, cause, 0), &mut self.input[..HEADER_BYTES], is_whole)
        } else {
            read_again(&mut self.nand, (ppn, cause), &mut self.input, &mut [], |page, _| is_whole(page))
        };
        match reading {
            Ok(Reading::Broken) | Err(NandError::Uncorrectable(_)) => return Ok(Page::Broken),
            Ok(Reading::Weak) if cause == Cause::Scrubbing => {
                self.care.weak = self.care.weak.or(self.ring.number_of(shape.geometry.block_of(ppn)));
            }
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        if !shape.geometry.appends() {
            self.loaded = Some(ppn);
        }
        Ok(match Header::decode(&shape, ppn, &self.input) {
            Some(Decoded::Ours(header)) => Page::Ours(header),
            Some(Decoded::Newer(version)) => Page::Other(Unfit::Newer { version }),
            Some(Decoded::OtherRecord) => {
                Page::Other(Unfit::other(Differs::Record, words("the records on the chip have other sizes")))
            }
            Some(Decoded::OtherChip) => Page::Other(Unfit::other(
                Differs::Geometry,
                words("the pages on the chip are of another number of blocks"),
            )),
            None => Page::Blank,
        })
    }

    fn header_of(&mut self, ppn: Ppn, number: u32) -> Result<Option<Header>, IndexFault> {
        Ok(match self.page(ppn, Cause::Recovery)? {
            Page::Ours(header) if header.number == number => Some(header),
            _ => None,
        })
    }

    /// Looks through the block with the highest number, up to its last page. `None` if it does not count:
    /// its copies are not there.
    fn look_at_newest(&mut self, block: Pbn, number: u32) -> Result<Option<Newest>, IndexFault> {
        let geometry = self.shape.geometry;
        let (mut newest, mut counts) = (None, false);
        let mut pages = 0;
        while pages < geometry.pages_per_block {
            let ppn = geometry.page_at(block, pages);
            let Some(header) = self.header_of(ppn, number)? else { break };
            require_salt(newest.map_or(header.salt, |newest: Header| newest.salt), &header, ppn)?;
            newest = Some(header);
            counts = counts || self.completes(ppn, &header)?;
            pages += 1;
        }
        if let Some(header) = newest.filter(|_| counts) {
            self.require_end(block, number, pages)?;
            return Ok(Some(Newest { header, pages }));
        }
        // A cut erase of copies that are not whole leaves some of them.
        for page in pages..geometry.pages_per_block {
            let ppn = geometry.page_at(block, page);
            let header = self.header_of(ppn, number)?;
            newest = newest.or(header);
            if header.map_or(Ok(false), |header| self.completes(ppn, &header))? {
                return Err(damaged("a page of a block is not whole, and others follow it", block.0));
            }
        }
        self.tail.next_salt = newest.map_or(0, |newest| (newest.salt + 1) % SALTS);
        Ok(None)
    }

    /// True if a page says that the copies of its block are whole.
    fn completes(&mut self, ppn: Ppn, header: &Header) -> Result<bool, IndexFault> {
        let is_last = header.flags & WHOLE > 0;
        Ok(is_last && (header.flags & MARK > 0 || self.changes(ppn, header.number)?.whole > 0))
    }

    /// Refuses a block in which something lies behind a page that is not whole.
    fn require_end(&mut self, block: Pbn, number: u32, pages: u32) -> Result<(), IndexFault> {
        let shape = self.shape;
        let all = shape.geometry.pages_per_block;
        let last = shape.geometry.page_at(block, pages.saturating_sub(1));
        if pages > 0 && self.has_more(last, number)? {
            return Err(damaged("a change is not whole, and others follow it", last.0));
        }
        if pages == all {
            return Ok(());
        }
        let ppn = shape.geometry.page_at(block, pages);
        let is_blank = matches!(self.page(ppn, Cause::Recovery)?, Page::Blank);
        let mut is_damaged = !is_blank && (!self.nand.tears() || self.has_more(ppn, number)?);
        for page in pages + 1..all {
            is_damaged |= self.header_of(shape.geometry.page_at(block, page), number)?.is_some();
        }
        if is_damaged { Err(damaged("a page is not whole, and others follow it", ppn.0)) } else { Ok(()) }
    }

    /// True if a change that was programmed by itself follows one that is not whole.
    fn has_more(&mut self, ppn: Ppn, number: u32) -> Result<bool, IndexFault> {
        if !self.shape.geometry.appends() {
            return Ok(false);
        }
        let whole = self.changes(ppn, number)?.whole;
        for slot in whole + 1..self.shape.slots {
            if self.tag((ppn, slot), number)?.is_some_and(|tag| tag & JOINED == 0) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// First byte of a change, if it is whole.
    fn tag(&mut self, place: (Ppn, u32), number: u32) -> Result<Option<u8>, IndexFault> {
        match self.load_change(place, number, Cause::Recovery) {
            Ok(from) => Ok(Some(self.input[from])),
            Err(error) if error.is_loss() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Counts the changes of a page.
    fn changes(&mut self, ppn: Ppn, number: u32) -> Result<Changes, IndexFault> {
        let (mut changes, mut begun) = (Changes::default(), 0);
        for slot in 0..self.shape.slots {
            let Some(tag) = self.tag((ppn, slot), number)? else { break };
            if tag & CONTINUED == 0 {
                begun = slot;
            }
            if tag & MORE == 0 {
                changes = Changes { whole: slot + 1, last: begun };
            }
        }
        Ok(changes)
    }

    /// Lists the blocks of the log. One of which no page counts need not be there.
    fn list(&mut self, seen: &[(u32, u32)], newest: &Header) -> Result<(), IndexFault> {
        self.ring.oldest = newest.oldest;
        for number in newest.oldest..=newest.number {
            match seen.binary_search_by_key(&number, |(number, _)| *number) {
                Ok(at) => self.ring.add_used(Pbn(seen[at].1)),
                Err(_) if self.ring.add_stand_in() => {}
                Err(_) => return Err(damaged("a block of the log is missing", number)),
            }
        }
        let mut left = self.ring.used();
        while let Some(at) = left.checked_sub(1) {
            let number = self.ring.oldest + at as u32;
            let first = self.shape.geometry.page_at(self.ring.block(at), 0);
            let header = self
                .header_of(first, number)?
                .ok_or_else(|| damaged("a block of the log is missing", number))?;
            left = at.saturating_sub(header.before.skipped.into());
            (left..at).for_each(|at| self.ring.set_empty(at));
        }
        Ok(())
    }

    /// Enters the changes of a block.
    fn replay(&mut self, at: usize, newest: &Newest) -> Result<(), IndexFault> {
        let (geometry, number) = (self.shape.geometry, self.ring.oldest + at as u32);
        if !self.ring.counts(at) {
            return Ok(());
        }
        let block = self.ring.block(at);
        let next = match (at + 1..self.ring.used()).find(|&next| self.ring.counts(next)) {
            Some(next) => {
                let first = geometry.page_at(self.ring.block(next), 0);
                let header = self.header_of(first, self.ring.oldest + next as u32)?;
                Some(header.ok_or_else(|| damaged("a page is not whole", first.0))?)
            }
            None => None,
        };
        let pages = next.map_or(newest.pages, |next| next.before.pages.into());
        for page in 0..pages {
            let ppn = geometry.page_at(block, page);
            let after = match (page + 1 < pages, next) {
                (true, _) => self.header_of(Ppn(ppn.0 + 1), number)?,
                (false, next) => next,
            };
            let header = self.header_of(ppn, number)?.ok_or_else(|| damaged("a page is not whole", ppn.0))?;
            require_salt(next.map_or(newest.header.salt, |next| next.before.salt), &header, ppn)?;
            let found = match after {
                Some(after) => Changes { whole: after.before_slots.into(), last: 0 },
                None => self.changes(ppn, number)?,
            };
            self.enter_changes((ppn, number), 0..found.whole)?;
            if at + 1 == self.ring.used() {
                self.note_last(&header, ppn, (found, after.is_none()))?;
            }
        }
        Ok(())
    }

    fn enter_changes(
        &mut self,
        (ppn, number): (Ppn, u32),
        slots: core::ops::Range<u32>,
    ) -> Result<(), IndexFault> {
        let shape = self.shape;
        for slot in slots {
            let from = self.load_change((ppn, slot), number, Cause::Recovery)?;
            let mut change = core::mem::take(&mut self.scratch);
            change.copy_from_slice(&self.input[from..from + shape.slot_bytes]);
            let place = (!is_removal(&change)).then(|| shape.place(ppn, slot));
            let entered = if place.is_some() && self.rows.len() == self.rows.most() {
                self.find(shape.key(&change)).and_then(|found| match found {
                    Ok(_) => self.enter(shape.key(&change), place),
                    Err(_) => Err(self.too_many()),
                })
            } else {
                self.enter(shape.key(&change), place)
            };
            self.scratch = change;
            entered?;
        }
        Ok(())
    }

    #[cold]
    fn too_many(&self) -> IndexFault {
        let given = self.ram_held();
        let needed = given + super::directory::Directory::row_bytes(self.rows.prefix_bytes());
        IndexError::TooLittleRam { what: "the records on the chip", given, needed }.into()
    }

    /// Notes where the newest block ends. The last changes are written again, unless the store was closed.
    fn note_last(
        &mut self,
        header: &Header,
        ppn: Ppn,
        (found, is_last): (Changes, bool),
    ) -> Result<(), IndexFault> {
        let page = self.shape.geometry.page_in_block(ppn);
        if page == 0 {
            (self.tail.before, self.tail.salt) = (header.before, header.salt);
            (self.tail.pages, self.tail.slots) = (0, header.before_slots);
        }
        if is_last && header.flags & MARK > 0 {
            self.is_closed = header.flags & CLOSED > 0;
            return Ok(());
        }
        let whole = (page as u16 + 1, found.whole as u16);
        if !is_last || found.whole == 0 {
            if found.whole > 0 || header.flags & MARK > 0 {
                (self.tail.pages, self.tail.slots) = whole;
            }
            return Ok(());
        }
        let (shape, number) = (self.shape, header.number);
        let redo = Redo { first: shape.place(ppn, found.last), pages: whole.0, slots: whole.1 };
        for slot in found.last..found.whole {
            let from = self.load_change((ppn, slot), number, Cause::Recovery)?;
            let to = shape.at(slot - found.last);
            let change = &self.input[from..from + shape.slot_bytes];
            self.tail.image[to..to + shape.slot_bytes].copy_from_slice(change);
        }
        self.tail.count = found.whole - found.last;
        let (last, nowhere) = (redo.first..redo.first + self.tail.count, shape.place(shape.nowhere(), 0));
        self.rows.relocate(|place| last.contains(&place).then(|| nowhere + (place - redo.first)));
        if found.last > 0 {
            (self.tail.pages, self.tail.slots) = (whole.0, found.last as u16);
        }
        self.tail.redo = Some(redo);
        Ok(())
    }
}

/// Refuses a page of a former filling of its block under the same number.
fn require_salt(salt: u8, header: &Header, ppn: Ppn) -> Result<(), IndexFault> {
    if header.salt == salt { Ok(()) } else { Err(damaged("a page is older than others of its block", ppn.0)) }
}

#[cold]
fn damaged(what: &'static str, at: u32) -> IndexFault {
    IndexFault::broken(Invariant::L2, what, at)
}
