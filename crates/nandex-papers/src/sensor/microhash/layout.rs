//! Where the pages of MicroHash go: blocks taken in turn, the log in ascending order, partly filled pages to
//! the side.

use super::index::Index;
use super::page::{Header, Kind, NONE, Place};
use super::{BLOCK_BITS, Counters, Filling, Free, NUMBER_BITS, Segment};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use nandex::blocks::mark_bad;
use nandex::check::{IndexError, Invariant};
use nandex::codec::{first_number, is_blank, numbers};
use nandex::nand::{Cause, Geometry, Nand, NandError, Reading as Outcome, is_done, read_again};
use nandex::units::{Pbn, Ppn};

/// Free blocks that are always kept. Freeing a block takes a page in one of them that records it; if no block
/// takes that page, nothing is freed.
const FREE_MIN: usize = 3;

/// The blocks of the chip, used in turn, and the pages of the log in them.
pub(super) struct Ring<N> {
    pub(super) nand: N,
    pub(super) geometry: Geometry,
    /// Blocks of the log, the oldest first. `oldest` is the number of the first.
    pub(super) kept: VecDeque<Segment>,
    pub(super) oldest: u32,
    /// Number of the newest block with readings. That block is never freed.
    pub(super) newest_data: u32,
    /// How many of the oldest blocks the next programmed page gives up.
    giving: u32,
    /// Whether the newest block takes more pages.
    open: bool,
    /// Number of the page of the log programmed last.
    pub(super) last: u64,
    /// The block of partly filled pages, and its next page.
    pub(super) aside: Option<(Pbn, u32)>,
    /// Free blocks, in the order of use.
    pub(super) free: VecDeque<Free>,
    /// Readings ever put into data pages. `stored_time` is the time of the last.
    pub(super) stored: u64,
    pub(super) stored_time: u64,
    /// The page read last. `read_header` is its header.
    pub(super) read: Vec<u8>,
    read_header: Option<Header>,
    /// Whether nothing can be programmed any more.
    pub(super) worn: bool,
    pub(super) counters: Counters,
}

impl<N: Nand> Ring<N> {
    /// A ring that knows no block of the chip yet.
    pub(super) fn new(nand: N) -> Ring<N> {
        let geometry = nand.geometry();
        let blocks = geometry.blocks as usize;
        Ring {
            nand,
            geometry,
            kept: VecDeque::with_capacity(blocks),
            oldest: 0,
            newest_data: 0,
            giving: 0,
            open: false,
            last: 0,
            aside: None,
            free: VecDeque::with_capacity(blocks),
            stored: first_number(NUMBER_BITS, 0),
            stored_time: 0,
            read: vec![0xff; geometry.page_bytes as usize],
            read_header: None,
            worn: false,
            counters: Counters::default(),
        }
    }

    pub(super) fn pages_per_block(&self) -> u64 {
        u64::from(self.geometry.pages_per_block)
    }

    /// Whether readings, pages and blocks can be numbered further without overflow.
    pub(super) fn has_numbers(&self) -> bool {
        let blocks = u64::from(self.oldest) + self.kept.len() as u64;
        self.stored.max(self.last) < numbers(NUMBER_BITS) && blocks < numbers(BLOCK_BITS)
    }

    /// A header of this kind with the fields that all kinds share.
    pub(super) fn header(&self, kind: Kind) -> Header {
        Header {
            kind,
            closed: false,
            previous_failed: false,
            count: 0,
            previous: 0,
            number: self.last,
            readings: self.stored,
            time: self.stored_time,
            oldest: self.oldest + self.giving,
            links: [NONE; 2],
        }
    }

    /// Number of the first page of the log that is kept.
    pub(super) fn first_page(&self) -> u64 {
        u64::from(self.oldest) * self.pages_per_block()
    }

    /// Plans how many of the oldest blocks the next page gives up, so that enough blocks are free. Only
    /// blocks before the newest one with readings are given up: on a dying chip the blocks after it may
    /// hold directories alone.
    fn plan_giving(&mut self) {
        let free = self.free.iter().filter(|free| !free.failed).count();
        let older = self.newest_data.saturating_sub(self.oldest);
        self.giving = older.min(FREE_MIN.saturating_sub(free) as u32);
    }

    /// Frees the blocks that the page programmed last gave up.
    fn said(&mut self, index: &mut Index) {
        if self.giving == 0 {
            return;
        }
        for _ in 0..core::mem::take(&mut self.giving) {
            let Some(gone) = self.kept.pop_front() else { break };
            self.oldest += 1;
            self.counters.blocks_dropped += 1;
            self.free.extend(gone.block.map(|block| Free { block, failed: gone.failed }));
        }
        self.read_header = None;
        index.forget_before(self.first_page());
    }

    /// Frees blocks by a page without readings in the block of partly filled pages, because no other page is
    /// free. Returns false if that block takes no page.
    fn say_aside(&mut self, index: &mut Index) -> Result<bool, IndexError> {
        let end = self.geometry.pages_per_block;
        let Some((block, at)) = self.aside.filter(|aside| self.giving > 0 && aside.1 < end) else {
            return Ok(false);
        };
        let mut page = core::mem::take(&mut self.read);
        self.read_header = None;
        page.fill(0xff);
        let ppn = self.geometry.page_at(block, at);
        self.header(Kind::Partial).encode(&mut page, self.spot(ppn));
        let programmed = self.nand.program(ppn, Cause::Host, &page, &[]);
        self.read = page;
        // Nothing is added behind a page that failed.
        self.aside = Some((block, if programmed.is_ok() { at + 1 } else { end }));
        let is_done = is_done(programmed)?;
        if is_done {
            self.counters.partial_pages += 1;
            self.said(index);
        }
        Ok(is_done)
    }

    /// Takes the next free block and erases it.
    fn take_block(&mut self, index: &mut Index) -> Result<Pbn, IndexError> {
        loop {
            self.plan_giving();
            let Some(Free { block, failed }) = self.free.pop_front() else {
                if self.say_aside(index)? {
                    continue;
                }
                return Err(IndexError::WornOut);
            };
            if failed {
                self.retire(block)?;
                continue;
            }
            match self.nand.erase(block, Cause::Host) {
                Ok(()) => return Ok(block),
                Err(NandError::EraseFailed(_)) => self.retire(block)?,
                Err(NandError::BadBlock(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn retire(&mut self, block: Pbn) -> Result<(), IndexError> {
        self.counters.blocks_retired += 1;
        match mark_bad(&mut self.nand, block).map_err(IndexError::from) {
            // It is not used again in this life; marked or not, everything else goes on.
            Err(error) if error.is_refusal() => Ok(()),
            marked => marked,
        }
    }

    /// Programs the next page of the log. Returns the number that the page was given.
    pub(super) fn program_log(
        &mut self,
        index: &mut Index,
        header: Header,
        page: &mut [u8],
    ) -> Result<u64, IndexError> {
        loop {
            let is_open = self.open
                && self.kept.back().is_some_and(|newest| u64::from(newest.pages) < self.pages_per_block());
            if !is_open {
                self.open_segment(index)?;
            }
            let number = self.last + 1;
            let ppn = self.place_of(number)?;
            Header { number, oldest: self.oldest + self.giving, ..header }.encode(page, self.spot(ppn));
            if is_done(self.nand.program(ppn, Cause::Host, page, &[]))? {
                if let Some(newest) = self.kept.back_mut() {
                    newest.pages += 1;
                }
                self.last = number;
                self.said(index);
                return Ok(number);
            }
            // Nothing is added behind a page that failed, and what precedes it stays where it is.
            self.open = false;
            if let Some(newest) = self.kept.back_mut() {
                newest.failed = true;
            }
        }
    }

    /// Begins the next block of the log; its first page is a directory.
    fn open_segment(&mut self, index: &mut Index) -> Result<(), IndexError> {
        self.open = false;
        loop {
            let block = self.take_block(index)?;
            let number = (u64::from(self.oldest) + self.kept.len() as u64) * self.pages_per_block();
            let mut page = core::mem::take(&mut self.read);
            self.read_header = None;
            let header = index.fill_directory(self, number, &mut page);
            let ppn = self.geometry.page_at(block, 0);
            header.encode(&mut page, self.spot(ppn));
            let programmed = self.nand.program(ppn, Cause::Host, &page, &[]);
            self.read = page;
            if is_done(programmed)? {
                self.kept.push_back(Segment { block: Some(block), pages: 1, failed: false });
                (self.last, self.open) = (number, true);
                self.counters.directory_pages += 1;
                self.said(index);
                return Ok(());
            }
            self.retire(block)?;
        }
    }

    /// Programs the partly filled page to the side. With `elsewhere`, another block than before takes it.
    /// If this fails for want of blocks, the older copy stays valid.
    pub(super) fn write_aside(
        &mut self,
        index: &mut Index,
        filling: &mut Filling,
        closed: bool,
        elsewhere: bool,
    ) -> Result<(), IndexError> {
        let time = filling.newest.map_or(self.stored_time, |newest| newest.time);
        let (old, end) = (self.aside, self.geometry.pages_per_block);
        let mut place = old.filter(|place| place.1 < end && !elsewhere);
        // What a block holds that fails is needed until the page is elsewhere: a bad block is not read by a
        // mount.
        let mut failed = Vec::new();
        let written = loop {
            let (block, page) = match place.take() {
                Some(place) => place,
                None => match self.take_block(index) {
                    Ok(block) => (block, 0),
                    Err(error) => break Err(error),
                },
            };
            let header = Header { closed, count: filling.count as u16, time, ..self.header(Kind::Partial) };
            let ppn = self.geometry.page_at(block, page);
            let spot = self.spot(ppn);
            header.encode(&mut filling.page, spot);
            match self.nand.program(ppn, Cause::Host, &filling.page, &[]) {
                Ok(()) => break Ok((block, page + 1)),
                Err(NandError::ProgramFailed(_)) => {
                    // Nothing is added behind a page that failed.
                    if let Some(aside) = self.aside.as_mut().filter(|aside| aside.0 == block) {
                        aside.1 = end;
                    }
                    failed.push(block);
                }
                Err(error) => break Err(error.into()),
            }
        };
        if let Ok(place) = &written {
            self.aside = Some(*place);
            self.said(index);
        }
        let kept = self.aside.map(|place| place.0);
        failed.retain(|&block| Some(block) != kept);
        for &block in &failed {
            self.retire(block)?;
        }
        written?;
        let old = old.map(|old| old.0).filter(|old| Some(*old) != kept && !failed.contains(old));
        self.free.extend(old.map(|block| Free { block, failed: false }));
        filling.unsynced = 0;
        self.counters.partial_pages += 1;
        Ok(())
    }

    /// The page of the chip that holds page `number` of the log.
    pub(super) fn place_of(&self, number: u64) -> Result<Ppn, IndexError> {
        let missing =
            IndexError::broken(Invariant::M2, "the block of this page of the log is missing", number);
        let segment = (number / self.pages_per_block()).checked_sub(u64::from(self.oldest));
        let segment = segment.and_then(|at| self.kept.get(at as usize));
        let Some(block) = segment.and_then(|segment| segment.block) else { return Err(missing) };
        Ok(self.geometry.page_at(block, (number % self.pages_per_block()) as u32))
    }

    /// Number of pages in the log block that contains page `number`.
    pub(super) fn pages_beside(&self, number: u64) -> u64 {
        let segment = (number / self.pages_per_block()).checked_sub(u64::from(self.oldest));
        let segment = segment.and_then(|at| self.kept.get(at as usize));
        segment.map_or(0, |segment| segment.pages.into())
    }

    /// The first existing page of the log at `number` or after it.
    pub(super) fn at_or_after(&self, number: u64) -> u64 {
        let per_block = self.pages_per_block();
        if number % per_block < self.pages_beside(number) {
            number
        } else {
            (number / per_block + 1) * per_block
        }
    }

    /// The first existing page at `number` or after it that may hold readings. The first page of a block is
    /// a directory and holds none.
    pub(super) fn data_from(&self, number: u64) -> u64 {
        let (mut at, per_block) = (self.at_or_after(number), self.pages_per_block());
        while at <= self.last && at % per_block == 0 {
            at = self.at_or_after(at + 1);
        }
        at
    }

    /// The last existing page of the log at `number` or before it, in the same block.
    pub(super) fn at_or_before(&self, number: u64) -> u64 {
        let start = number - number % self.pages_per_block();
        number.min(start + self.pages_beside(number).saturating_sub(1))
    }

    /// Reads page `number` of the log into the read buffer.
    pub(super) fn read_page(&mut self, number: u64, cause: Cause) -> Result<Header, IndexError> {
        if let Some(header) = self.read_header.filter(|header| header.number == number) {
            return Ok(header);
        }
        self.read_header = None;
        let mut page = core::mem::take(&mut self.read);
        let read = self.read_into(number, cause, &mut page);
        self.read = page;
        let header = read?;
        self.read_header = Some(header);
        Ok(header)
    }

    /// The place that the checksum of this page includes.
    pub(super) const fn spot(&self, ppn: Ppn) -> Place {
        Place { ppn, blocks: self.geometry.blocks }
    }

    /// Reads page `number` of the log into `page`.
    pub(super) fn read_into(
        &mut self,
        number: u64,
        cause: Cause,
        page: &mut [u8],
    ) -> Result<Header, IndexError> {
        let ppn = self.place_of(number)?;
        let spot = self.spot(ppn);
        let mut found = None;
        let is_sound = |page: &[u8], _: &[u8]| {
            found = Header::decode(page, spot)
                .filter(|header| header.kind != Kind::Partial && header.number == number);
            found.is_some()
        };
        match read_again(&mut self.nand, (ppn, cause), page, &mut [], is_sound)? {
            Outcome::Broken => {
                Err(IndexError::broken(Invariant::M2, "this is not the page it should be", ppn.0.into()))
            }
            Outcome::Whole | Outcome::Corrected | Outcome::Weak => {
                found.ok_or(IndexError::broken(Invariant::M2, "no page was read", ppn.0.into()))
            }
        }
    }

    /// Reads any page of the chip. A page that stays unsound is left in the buffer as it was read. Returns
    /// false if the page cannot be read at all.
    pub(super) fn look(&mut self, ppn: Ppn, page: &mut [u8]) -> Result<bool, IndexError> {
        let spot = self.spot(ppn);
        let is_whole = |page: &[u8], _: &[u8]| Header::decode(page, spot).is_some() || is_blank(page);
        match read_again(&mut self.nand, (ppn, Cause::Recovery), page, &mut [], is_whole) {
            Ok(_) => Ok(true),
            Err(NandError::Uncorrectable(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
