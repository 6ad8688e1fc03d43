//! Where the pages of SBITS go: blocks taken in turn, full pages one after the other, partly filled ones to
//! the side.

use super::page::{Header, SINCE_MAX, entry, is_blank};
use super::{KeptBlock, Sbits, WhenFull, project};
use crate::blocks::mark_bad;
use crate::check::{CheckReport, IndexError, Invariant, message};
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand, NandError, Reading, read_again};
use crate::sort;
use crate::units::{Pbn, Ppn};
use alloc::vec::Vec;

/// Blocks that must be free before an insertion: the next one of full pages, one that replaces a failed or
/// cut one, and the next one of partly filled pages.
const FREE_MIN: usize = 3;

impl<N: Nand> Sbits<N> {
    /// Makes sure that a page can be programmed.
    pub(super) fn make_room(&mut self) -> Result<(), IndexFault> {
        while self.free.len() < FREE_MIN {
            if self.when_full == WhenFull::Refuse || self.kept.len() < 2 {
                return Err(IndexError::Full.into());
            }
            self.drop_oldest();
        }
        Ok(())
    }

    fn drop_oldest(&mut self) {
        if let Some(gone) = self.kept.pop_front() {
            if let Some(block) = gone.found() {
                self.free.push_back(block);
            }
            self.oldest += 1;
            self.read_number = None;
            self.spline.drop_before(self.first_page());
            debug_assert!(
                self.first_page() <= self.full_pages,
                "S2: page {} is kept of {}",
                self.first_page(),
                self.full_pages
            );
            self.counters.blocks_dropped += 1;
        }
    }

    /// The next block in turn, erased.
    fn take_block(&mut self) -> Result<Pbn, IndexFault> {
        while let Some(block) = self.free.pop_front() {
            match self.nand.erase(block, Cause::Host) {
                Ok(()) => return Ok(block),
                Err(NandError::EraseFailed(_)) => self.retire(block)?,
                Err(NandError::BadBlock(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // An insertion begins with blocks to spare: those have failed.
        Err(IndexError::WornOut.into())
    }

    fn retire(&mut self, block: Pbn) -> Result<(), IndexFault> {
        self.counters.blocks_retired += 1;
        Ok(mark_bad(&mut self.nand, block)?)
    }

    /// Programs the page being filled, which is full.
    pub(super) fn write_full(&mut self) -> Result<(), IndexFault> {
        debug_assert_eq!(self.count, self.capacity, "S2: a page is full that is not");
        let number = self.full_pages;
        let since = (self.sequence + 1).saturating_sub(self.partial_sequence).min(u64::from(SINCE_MAX));
        self.stamp(Header { partial: false, count: since as u16, ..self.header() });
        let key = project(entry(&self.filling, self.record, 0).0);
        let page = core::mem::take(&mut self.filling);
        let written = self.program_next(&page);
        self.filling = page;
        written?;
        self.spline.push(key, number);
        self.full_pages += 1;
        self.filling.fill(0xff);
        (self.count, self.unsynced) = (0, 0);
        self.retire_failed(Vec::new())
    }

    /// After a program: marks the blocks bad that failed before it; those that failed on the way to it wait
    /// for the next.
    fn retire_failed(&mut self, newly: Vec<Pbn>) -> Result<(), IndexFault> {
        for block in core::mem::replace(&mut self.failed, newly) {
            match self.retire(block) {
                // It is not used again; the page is written all the same.
                Err(error) if error.is_refusal() => {}
                retired => retired?,
            }
        }
        Ok(())
    }

    fn header(&self) -> Header {
        Header {
            partial: true,
            closed: false,
            record: self.record,
            count: self.count as u16,
            number: self.full_pages,
            oldest_block: self.oldest,
            sequence: self.sequence,
        }
    }

    fn stamp(&mut self, header: Header) {
        self.sequence += 1;
        Header { sequence: self.sequence, ..header }.encode(&mut self.filling, self.geometry.blocks);
    }

    /// Programs the next full page into the newest block, or a copy of that block where it may not be added
    /// to.
    fn program_next(&mut self, page: &[u8]) -> Result<(), IndexFault> {
        let place = (self.full_pages - self.first_page()) as u32 % self.geometry.pages_per_block;
        if place == 0 {
            let block = self.take_block()?;
            let number = self.oldest + self.kept.len() as u32;
            self.kept.push_back(KeptBlock { number, place: block });
            self.newest_is_closed = false;
        }
        while self.newest_is_closed || !self.program_at(place, page)? {
            let moved = self.move_newest(place);
            if moved.is_err() {
                // Nothing is added behind a page that failed. A block without pages is none yet.
                self.newest_is_closed = true;
                if place == 0
                    && let Some(block) = self.kept.row().pop().and_then(KeptBlock::found)
                {
                    self.free.push_back(block);
                }
                return moved;
            }
        }
        debug_assert_eq!(
            self.kept.len() as u64 + u64::from(self.oldest),
            self.blocks_of(self.full_pages + 1),
            "S2: page {} is not in the last block",
            self.full_pages
        );
        Ok(())
    }

    /// Blocks that so many full pages take, those that were dropped included.
    fn blocks_of(&self, pages: u64) -> u64 {
        pages.div_ceil(u64::from(self.geometry.pages_per_block))
    }

    /// Programs a page of the newest block; false when that fails.
    fn program_at(&mut self, place: u32, page: &[u8]) -> Result<bool, IndexFault> {
        let block = self.newest()?;
        match self.nand.program(self.geometry.page_at(block, place), Cause::Host, page, &[]) {
            Ok(()) => Ok(true),
            Err(NandError::ProgramFailed(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn newest(&self) -> Result<Pbn, IndexFault> {
        let newest = self.kept.last().and_then(|newest| newest.found());
        newest.ok_or_else(|| {
            IndexFault::broken_at(Invariant::S2, "the newest block is missing", self.full_pages)
        })
    }

    /// Copies the first pages of the newest block to another one, which takes its place, through the read
    /// buffer.
    fn move_newest(&mut self, pages: u32) -> Result<(), IndexFault> {
        self.read_number = None;
        let mut page = core::mem::take(&mut self.read);
        let moved = self.move_newest_by(pages, &mut page);
        self.read = page;
        moved
    }

    fn move_newest_by(&mut self, pages: u32, copy: &mut [u8]) -> Result<(), IndexFault> {
        let from = self.newest()?;
        let failed = !self.newest_is_closed;
        let to = 'another: loop {
            let to = self.take_block()?;
            for page in 0..pages {
                if let Err(error) = self.read_sound(self.geometry.page_at(from, page), copy) {
                    self.free.push_back(to);
                    return Err(error);
                }
                match self.nand.program(self.geometry.page_at(to, page), Cause::Recovery, copy, &[]) {
                    Ok(()) => {}
                    Err(NandError::ProgramFailed(_)) => {
                        self.retire(to)?;
                        continue 'another;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            break to;
        };
        debug_assert_ne!(to, from, "S3: the newest block is copied to itself");
        self.newest_is_closed = false;
        if let Some(newest) = self.kept.last_mut() {
            newest.place = to;
        }
        if failed {
            return self.retire(from);
        }
        self.free.push_back(from);
        Ok(())
    }

    /// Programs the page being filled as it is to the side; with `elsewhere`, to another block than the one
    /// before. What was there is as it was when this fails for want of blocks.
    pub(super) fn write_partial(&mut self, closed: bool, elsewhere: bool) -> Result<(), IndexFault> {
        self.stamp(Header { closed, ..self.header() });
        let (old, end) = (self.aside, self.geometry.pages_per_block);
        let mut place = old.filter(|place| place.1 < end && !elsewhere);
        let mut failed = Vec::new();
        let written = loop {
            let (block, page) = match place.take() {
                Some(place) => place,
                None => match self.take_block() {
                    Ok(block) => (block, 0),
                    Err(error) => break Err(error),
                },
            };
            match self.nand.program(self.geometry.page_at(block, page), Cause::Host, &self.filling, &[]) {
                Ok(()) => break Ok((block, page + 1)),
                Err(NandError::ProgramFailed(_)) => failed.push(block),
                Err(error) => break Err(error.into()),
            }
        };
        // Nothing is added behind a page that failed.
        self.aside = match &written {
            Ok(place) => Some(*place),
            Err(_) => old.map(|old| (old.0, end)),
        };
        let kept = self.aside.map(|place| place.0);
        failed.retain(|&block| Some(block) != kept);
        if let Err(error) = written {
            self.failed.extend(failed);
            return Err(error);
        }
        if let Some((old, _)) = old.filter(|(old, _)| Some(*old) != kept && !failed.contains(old)) {
            self.free.push_back(old);
        }
        self.retire_failed(failed)?;
        debug_assert!(self.aside.is_some_and(|place| place.1 <= end), "S4: {:?} is no place", self.aside);
        self.partial_sequence = self.sequence;
        self.counters.partial_programs += 1;
        self.unsynced = 0;
        Ok(())
    }

    /// Reads a page, again where it is not sound; what a page holds that stays so is returned as it is.
    pub(super) fn read_sound(&mut self, ppn: Ppn, page: &mut [u8]) -> Result<(), IndexFault> {
        let blocks = self.geometry.blocks;
        let is_whole = |page: &[u8], _: &[u8]| Header::decode(page, blocks).is_some() || is_blank(page);
        read_again(&mut self.nand, (ppn, Cause::Recovery), page, &mut [], is_whole)?;
        Ok(())
    }

    /// Reads full page `number` into the read buffer.
    pub(super) fn read_page(&mut self, number: u64, cause: Cause) -> Result<(), IndexFault> {
        if self.read_number == Some(number) {
            return Ok(());
        }
        self.read_number = None;
        let ppn = self.place_of(number)?;
        let (record, blocks) = (self.record, self.geometry.blocks);
        let is_sound = |page: &[u8], _: &[u8]| {
            Header::decode(page, blocks)
                .is_some_and(|header| !header.partial && header.number == number && header.record == record)
        };
        let reading = read_again(&mut self.nand, (ppn, cause), &mut self.read, &mut [], is_sound)?;
        if reading == Reading::Broken {
            return Err(IndexFault::broken_at(Invariant::S2, "this is not the page it should be", number));
        }
        self.read_number = Some(number);
        Ok(())
    }

    fn place_of(&self, number: u64) -> Result<Ppn, IndexFault> {
        let pages_per_block = self.geometry.pages_per_block;
        let from_first = number.checked_sub(self.first_page()).and_then(|pages| u32::try_from(pages).ok());
        let place = from_first.and_then(|pages| {
            let block = self.kept.get((pages / pages_per_block) as usize)?.found()?;
            Some(self.geometry.page_at(block, pages % pages_per_block))
        });
        place.ok_or_else(|| IndexFault::broken_at(Invariant::S2, "a block is missing", number))
    }

    /// Walks over every page.
    pub(super) fn check_all(&mut self) -> Result<CheckReport, IndexFault> {
        let mut report = CheckReport::default();
        let mut before: Option<Vec<u8>> = None;
        let keep = (core::mem::take(&mut self.read_number), self.read.clone());
        for number in self.first_page()..=self.full_pages {
            let is_full = number < self.full_pages;
            if is_full {
                self.read_page(number, Cause::Check)?;
            }
            let (page, count) =
                if is_full { (&self.read, self.capacity) } else { (&self.filling, self.count) };
            for i in 0..count {
                let key = entry(page, self.record, i).0;
                if before.as_deref().is_some_and(|before| key <= before) {
                    report.violation(Invariant::S1, number, message!("key {i} does not rise"));
                }
                before = Some(key.to_vec());
            }
            report.nodes += 1;
            report.records += count as u64;
        }
        if before.is_some() && before != self.largest {
            let found = message!("the largest key is not {:?}", self.largest);
            report.violation(Invariant::S1, self.full_pages, found);
        }
        let aside = self.aside.map(|place| place.0);
        let mut blocks: Vec<Pbn> = self
            .kept
            .iter()
            .filter_map(|kept| kept.found())
            .chain(aside)
            .chain(self.free.iter().copied())
            .collect();
        sort::total(&mut blocks);
        if let Some(twice) = blocks.windows(2).find(|pair| pair[0] == pair[1]) {
            report.violation(Invariant::S3, u64::from(twice[0].0), message!("{} serves twice", twice[0]));
        }
        (self.read_number, self.read) = keep;
        Ok(report)
    }
}
