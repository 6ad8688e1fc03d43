//! Reading and programming pages, and looking a key up in a level.

use super::coder::{Known, TRIMS, View, is_trimmed_page};
use super::fences::position;
use super::filter::{Answer, FILTERS};
use super::level::{Level, Place};
use super::page::{HEADER_BYTES, Header, Kind};
use super::room::SWEEP_BLOCKS;
use super::{Plow, State};
use crate::check::{IndexError, Invariant, words};
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand, NandError, Reading, read_again};
use crate::units::{Pbn, Ppn};
use core::ops::Range;

/// Whose block a page goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A level's.
    Level(usize),
    /// The stream of the commit pages.
    Commits,
    /// The stream of the sealed pages.
    Sealed,
}

/// The page in the input buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loaded {
    pub(super) ppn: Ppn,
    pub(super) header: Header,
    /// Bits that its records take at the front.
    front: u32,
}

impl<N: Nand> Plow<N> {
    /// Reads a run page into the input buffer, unless it is there.
    pub(super) fn load_page(&mut self, ppn: Ppn) -> Result<(), IndexFault> {
        if self.loaded.is_some_and(|loaded| loaded.ppn == ppn) {
            return Ok(());
        }
        self.loaded = None;
        let erases = self.blocks.erases(self.geometry.block_of(ppn));
        let record = self.record;
        let mut front = 0;
        let is_whole = |page: &[u8], _: &[u8]| {
            Header::decode(page, ppn).is_some_and(|header| {
                let view = View::new(&page[HEADER_BYTES..], record, header.count.into(), header.tombstones);
                front = view.map_or(0, |view| view.front_bits());
                header.kind == Kind::Run && header.erases == erases && header.count > 0 && view.is_some()
            })
        };
        let reading = read_again(&mut self.nand, (ppn, self.cause), &mut self.input, &mut [], is_whole)?;
        if reading == Reading::Weak && self.weak.is_none() {
            self.weak = Some(self.disturbed_with(ppn));
        }
        self.known.set(Known::default());
        match Header::decode(&self.input, ppn) {
            Some(header) if reading != Reading::Broken => {
                self.loaded = Some(Loaded { ppn, header, front: front as u32 });
            }
            header => {
                if !TRIMS && header.is_some() && is_trimmed_page(&self.input[HEADER_BYTES..]) {
                    let what = words("a page leaves zeros out: this build lacks \"full\"");
                    return Err(IndexError::Unsupported(what.into()).into());
                }
                return Err(IndexError::broken(
                    Invariant::I3,
                    "a page of a level is not whole",
                    ppn.0.into(),
                )
                .into());
            }
        }
        Ok(())
    }

    /// The records of the page in the input buffer.
    pub(super) fn view(&self) -> Result<View<'_>, IndexFault> {
        let view = self.loaded.and_then(|Loaded { header, front, .. }| {
            let fields = (header.count.into(), header.tombstones, front as usize);
            View::again(&self.input[HEADER_BYTES..], self.record, fields)
        });
        view.map(|view| view.noting(&self.known))
            .ok_or_else(|| IndexFault::broken(Invariant::I3, "the input buffer holds no page", 0))
    }

    /// Reads the page at a place of a level.
    pub(super) fn load_place(&mut self, level: usize, place: Place) -> Result<Ppn, IndexFault> {
        let what = "a level has no such page";
        let ppn =
            self.levels[level].page(place).ok_or(IndexError::broken(Invariant::I3, what, place.1 as u64))?;
        self.load_page(ppn)?;
        Ok(ppn)
    }

    /// Whether the first key of the page in the input buffer is not above this one, and the same of the last.
    fn spans(&self, key: &[u8]) -> Result<(bool, bool), IndexFault> {
        let view = self.view()?;
        Ok((&view.key_owned(0)[..] <= key, &view.key_owned(view.count() - 1)[..] < key))
    }

    /// The last page of a part of a level whose first key is not above this one; it is in the input buffer
    /// then.
    pub(super) fn seek(&mut self, level: usize, key: &[u8]) -> Result<Option<Place>, IndexFault> {
        let part = self.levels[level].part_of(key);
        let found = self.levels[level].run(part).find(position(key));
        let Some((mut low, mut high)) = found else { return Ok(None) };
        let mut back = 1;
        loop {
            let middle = (low + high).div_ceil(2);
            self.load_place(level, (part, middle))?;
            let (begins, ends) = self.spans(key)?;
            if begins {
                if middle == high || !ends {
                    return Ok(Some((part, middle)));
                }
                low = middle;
            } else if middle > low {
                high = middle - 1;
            } else if low == 0 {
                return Ok(None);
            } else {
                // The fence was rounded down: the page is before it.
                high = low - 1;
                low = low.saturating_sub(back);
                back *= 2;
            }
        }
    }

    /// Whether the filters know that a level does not hold a key.
    pub(super) fn is_filtered(&self, level: usize, key: &[u8]) -> bool {
        if !FILTERS {
            return false;
        }
        let part = self.levels[level].part_of(key);
        let run = self.levels[level].run(part);
        let Some((_, mut at)) = run.find(position(key)) else { return true };
        loop {
            match run.page(at).and_then(|page| self.filters.ask(page, key)) {
                Some(Answer::No) => return true,
                Some(Answer::Before) if at == 0 => return true,
                Some(Answer::Before) => at -= 1,
                Some(Answer::Maybe) | None => return false,
            }
        }
    }

    /// Whether a record of the page in the input buffer was taken by a step of the next level: the page is
    /// around that level's cursor, and the key below.
    pub(super) fn is_taken(&self, level: usize, key: &[u8]) -> Result<bool, IndexFault> {
        let Some(below) = self.levels.get(level + 1) else { return Ok(false) };
        let cursor = &below.cursor[..];
        if key >= cursor {
            return Ok(false);
        }
        let view = self.view()?;
        Ok(&view.key_owned(view.count() - 1)[..] >= cursor)
    }

    /// The record of a key on the levels: none if there is none, else whether it is a value, which is copied.
    pub(super) fn look_up(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexFault> {
        let mut found = alloc::vec![0; key.len()];
        let mut in_vain = 0;
        for level in 0..self.levels.len() {
            if self.is_filtered(level, key) {
                self.counters.filtered += 1;
                continue;
            }
            self.counters.level_lookups += 1;
            in_vain += 1;
            if self.seek(level, key)?.is_none() {
                continue;
            }
            let view = self.view()?;
            let (at, is_there) = view.search(key, &mut found);
            if !is_there || self.is_taken(level, key)? {
                continue;
            }
            self.book_in_vain(in_vain - 1);
            let view = self.view()?;
            if view.is_tombstone(at) {
                return Ok(false);
            }
            view.value(at, value);
            return Ok(true);
        }
        self.book_in_vain(in_vain.saturating_sub(1));
        Ok(false)
    }

    /// The pages that come due with a weak one: those of its block, whose reads disturb them all alike. Pages
    /// that are programmed later are fresh.
    fn disturbed_with(&self, ppn: Ppn) -> Range<Ppn> {
        let block = self.geometry.block_of(ppn);
        let open = self.levels.iter().filter_map(|level| level.open).find(|open| open.0 == block);
        let pages = open.map_or(self.geometry.pages_per_block, |(_, next)| next);
        let first = self.geometry.page_at(block, 0);
        first..Ppn(first.0 + pages)
    }

    fn open_of(&mut self, target: Target) -> &mut Option<(Pbn, u32)> {
        match target {
            Target::Level(level) => &mut self.levels[level].open,
            Target::Commits => &mut self.commits.open,
            Target::Sealed => &mut self.commits.open_sealed,
        }
    }

    /// The refusal of an operation that finds no block.
    pub(super) fn no_room(&self) -> IndexFault {
        let is_worn =
            self.blocks.is_any_bad() && self.blocks.good() <= SWEEP_BLOCKS + 3 * self.levels.len() + 1;
        if is_worn { IndexError::WornOut.into() } else { IndexError::Full.into() }
    }

    /// Whether a page can be programmed. Some blocks are kept back for commit pages.
    pub(super) fn has_place(&self, target: Target) -> bool {
        match target {
            Target::Level(level) => {
                self.levels[level].open.is_some()
                    || self.blocks.free() > self.kept_back()
                    || self.lender(level).is_some()
            }
            Target::Commits => self.commits.open.is_some() || self.blocks.free() >= 1,
            Target::Sealed => self.commits.open_sealed.is_some() || self.blocks.free() >= 2,
        }
    }

    /// Programs the page in the output buffer, whose contents are in place; in another block where the
    /// program fails.
    pub(super) fn program(&mut self, target: Target, header: Header) -> Result<Ppn, IndexFault> {
        let mut failed = false;
        loop {
            match self.program_once(target, header, failed)? {
                Some(ppn) => return Ok(ppn),
                None => failed = true,
            }
        }
    }

    /// Programs a page that is of no use in another block: none where the program fails.
    pub(super) fn program_in_place(
        &mut self,
        target: Target,
        header: Header,
    ) -> Result<Option<Ppn>, IndexFault> {
        self.program_once(target, header, false)
    }

    /// One try; none where the program fails.
    fn program_once(
        &mut self,
        target: Target,
        header: Header,
        failed: bool,
    ) -> Result<Option<Ppn>, IndexFault> {
        self.require_number()?;
        if let Target::Level(level) = target
            && let Some(other) = self.lender(level)
        {
            self.levels[level].open = self.levels[other].open.take();
        }
        let (block, page) = match *self.open_of(target) {
            Some(place) => place,
            None => {
                if !self.has_place(target) {
                    return Err(if failed { IndexError::WornOut.into() } else { self.no_room() });
                }
                let Some(block) = self.blocks.take(&mut self.nand)? else {
                    return Err(if self.blocks.is_any_bad() {
                        IndexError::WornOut.into()
                    } else {
                        self.no_room()
                    });
                };
                if !matches!(target, Target::Level(_)) {
                    self.commits.blocks.push(block);
                }
                (block, 0)
            }
        };
        let ppn = self.geometry.page_at(block, page);
        self.sequence += 1;
        let erases = self.blocks.erases(block);
        let commit = if header.kind == Kind::Commit { self.sequence } else { self.commits.sequence };
        // In another place it is not the first page behind the newest commit page.
        let commits = header.commits && !failed;
        Header { erases, sequence: self.sequence, commit, commits, ..header }.encode(&mut self.output, ppn);
        if self.loaded.is_some_and(|loaded| loaded.ppn == ppn) {
            self.loaded = None;
        }
        let cause = match target {
            Target::Level(_) if self.cause == Cause::Scrubbing => Cause::Scrubbing,
            Target::Level(_) => Cause::Merge,
            Target::Commits | Target::Sealed => Cause::Host,
        };
        let programmed = self.nand.program(ppn, cause, &self.output, &[]);
        match programmed {
            Ok(()) => {
                let next = Some((block, page + 1)).filter(|place| place.1 < self.geometry.pages_per_block);
                *self.open_of(target) = next;
                self.commits.carried = commits;
                Ok(Some(ppn))
            }
            Err(NandError::ProgramFailed(_)) => {
                self.counters.failed += 1;
                *self.open_of(target) = None;
                self.blocks.fail(block);
                if matches!(target, Target::Level(_)) {
                    self.leave_if_dead(block);
                }
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Gives a block of levels back once none of its pages lives.
    pub(super) fn leave_if_dead(&mut self, block: Pbn) {
        let pages = self.geometry.pages_per_block;
        let (from, to) = (Ppn(block.0 * pages), Ppn(block.0 * pages + pages));
        let is_held = |level: &Level| level.open.is_some_and(|open| open.0 == block) || level.uses(from, to);
        if !self.levels.iter().any(is_held)
            && matches!(self.blocks.state(block), State::Used | State::Failing)
        {
            self.blocks.leave(block);
        }
    }
}
