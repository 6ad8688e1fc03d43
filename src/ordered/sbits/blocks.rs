//! Blocks of SBITS: full pages go one after the other into blocks taken in turn, partly filled ones into a
//! block at the side.

use super::page::Header;
use super::{Loaded, NO_PAGE, WhenFull};
use crate::blocks::mark_bad;
use crate::blocks::weak::WeakBlock;
use crate::check::{IndexError, Invariant};
use crate::codec::is_blank;
use crate::fault::IndexFault;
use crate::nand::{Cause, Geometry, Nand, NandError, is_done, read_again};
use crate::queue::Queue;
use crate::units::{Pbn, Ppn};
use alloc::vec::Vec;

/// Number of blocks that must be free before an insertion: the next one for full pages, one to replace a
/// failed or cut one, and the next one for partly filled pages.
const FREE_MIN: usize = 3;

/// A block of full pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeptBlock {
    /// Number of the block among all blocks of full pages ever written.
    pub(super) number: u32,
    pub(super) place: Pbn,
}

impl KeptBlock {
    /// Entry for a block that a mount did not find.
    pub(super) const fn lost(number: u32) -> KeptBlock {
        KeptBlock { number, place: Pbn(u32::MAX) }
    }

    /// Place of the block, if a mount found it.
    fn found(self) -> Option<Pbn> {
        (self != KeptBlock::lost(self.number)).then_some(self.place)
    }
}

/// Use of each block, which gives the place of each page.
pub(super) struct Blocks {
    pub(super) geometry: Geometry,
    /// Blocks of full pages, the oldest first. During a mount, all blocks that claim to be such.
    pub(super) kept: Queue<KeptBlock>,
    /// Number of the oldest block in `kept`.
    pub(super) oldest: u32,
    /// Number of full pages ever written, which is the number of the next one.
    pub(super) full_pages: u64,
    /// True if no page may be added to the newest block.
    pub(super) newest_is_closed: bool,
    /// Block of partly filled pages, and its next page.
    pub(super) aside: Option<(Pbn, u32)>,
    /// Blocks in which a partly filled page failed. The page before it may be in them, and a mount does not
    /// read bad blocks: so they are marked bad only after another page is programmed.
    failed: Vec<Pbn>,
    /// Blocks to use next, in order.
    pub(super) free: Queue<Pbn>,
    when_full: WhenFull,
    /// Page that was hard to read; its block is moved.
    pub(super) weak: WeakBlock,
    pub(super) dropped: u64,
    pub(super) retired: u32,
}

impl Blocks {
    pub(super) fn new(geometry: Geometry, when_full: WhenFull) -> Blocks {
        Blocks {
            geometry,
            kept: Queue::with_capacity(geometry.blocks as usize),
            oldest: 0,
            full_pages: 0,
            newest_is_closed: false,
            aside: None,
            failed: Vec::new(),
            free: Queue::with_capacity(geometry.blocks as usize),
            when_full,
            weak: WeakBlock::default(),
            dropped: 0,
            retired: 0,
        }
    }

    /// Bytes of RAM for the blocks of a chip.
    pub(super) fn ram_needed(geometry: Geometry) -> usize {
        geometry.blocks as usize * (size_of::<KeptBlock>() + size_of::<Pbn>())
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.kept.capacity() * size_of::<KeptBlock>() + self.free.capacity() * size_of::<Pbn>()
    }

    /// Most full pages that are kept at a time.
    pub(super) fn full_pages_max(&self) -> u64 {
        let blocks = (self.geometry.blocks - self.retired) as usize - FREE_MIN;
        (blocks * self.geometry.pages_per_block as usize) as u64
    }

    /// Full pages that go in before a block is refused or the oldest one is dropped. That happens at the
    /// page after the first one of the last block taken.
    pub(super) fn pages_left(&self) -> u64 {
        let per_block = u64::from(self.geometry.pages_per_block);
        let of_newest = self.pages().next_multiple_of(per_block) - self.pages();
        let blocks = (self.free.len() + 1).saturating_sub(FREE_MIN + usize::from(self.aside.is_none()));
        match blocks as u64 {
            0 if self.free.len() < FREE_MIN => 0,
            0 => of_newest,
            blocks => of_newest + (blocks - 1) * per_block + 1,
        }
    }

    /// Number of the first page that is kept.
    pub(super) fn first_page(&self) -> u64 {
        u64::from(self.oldest) * u64::from(self.geometry.pages_per_block)
    }

    /// Number of kept pages, all full.
    pub(super) fn pages(&self) -> u64 {
        self.full_pages - self.first_page()
    }

    /// Number of blocks of full pages ever written.
    pub(super) fn ever(&self) -> u64 {
        u64::from(self.oldest) + self.kept.len() as u64
    }

    /// Place of a full page.
    pub(super) fn place_of(&self, number: u64) -> Result<Ppn, IndexFault> {
        let pages_per_block = self.geometry.pages_per_block;
        let from_first = number.checked_sub(self.first_page()).and_then(|pages| u32::try_from(pages).ok());
        let place = from_first.and_then(|pages| {
            let block = self.kept.get((pages / pages_per_block) as usize)?.found()?;
            Some(self.geometry.page_at(block, pages % pages_per_block))
        });
        place.ok_or_else(|| IndexFault::broken_at(Invariant::S2, "a block is missing", number))
    }

    /// Every block that is in use or free.
    pub(super) fn all(&self) -> impl Iterator<Item = Pbn> + '_ {
        let aside = self.aside.map(|place| place.0);
        self.kept.iter().filter_map(|kept| kept.found()).chain(aside).chain(self.free.iter().copied())
    }

    /// True if a page can be programmed. If not, the oldest block is dropped; `Full` if none may be.
    pub(super) fn make_room(&mut self) -> Result<bool, IndexFault> {
        if self.free.len() >= FREE_MIN {
            return Ok(true);
        }
        if self.when_full == WhenFull::Refuse || self.kept.len() < 2 {
            return Err(IndexError::NO_BLOCK.into());
        }
        self.drop_oldest();
        Ok(false)
    }

    /// Frees the oldest block of full pages.
    fn drop_oldest(&mut self) {
        if let Some(gone) = self.kept.pop_front() {
            if let Some(block) = gone.found() {
                self.free.push_back(block);
            }
            self.oldest += 1;
            debug_assert!(
                self.first_page() <= self.full_pages,
                "S2: page {} is kept of {}",
                self.first_page(),
                self.full_pages
            );
            self.dropped += 1;
        }
    }

    /// Takes the next block in turn, and erases it.
    fn take<N: Nand>(&mut self, nand: &mut N) -> Result<Pbn, IndexFault> {
        while let Some(block) = self.free.pop_front() {
            match nand.erase(block, Cause::Host) {
                Ok(()) => return Ok(block),
                Err(NandError::EraseFailed(_)) => self.retire(nand, block)?,
                Err(NandError::BadBlock(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // An insertion begins with blocks to spare, so these have failed.
        Err(IndexError::WornOut.into())
    }

    fn retire<N: Nand>(&mut self, nand: &mut N, block: Pbn) -> Result<(), IndexFault> {
        self.retired += 1;
        Ok(mark_bad(nand, block)?)
    }

    /// Marks the blocks bad that failed before this program. Those that failed during it (`newly`) are marked
    /// at the next one.
    fn retire_failed<N: Nand>(&mut self, nand: &mut N, newly: Vec<Pbn>) -> Result<(), IndexFault> {
        for block in core::mem::replace(&mut self.failed, newly) {
            match self.retire(nand, block) {
                // The block is not used again; the page is written all the same.
                Err(error) if error.is_refusal() => {}
                retired => retired?,
            }
        }
        Ok(())
    }

    /// Counts a full page that was programmed.
    pub(super) fn count_page<N: Nand>(&mut self, nand: &mut N) -> Result<(), IndexFault> {
        self.full_pages += 1;
        self.retire_failed(nand, Vec::new())
    }

    /// Programs the next full page into the newest block. If nothing may be added to that block, it is copied
    /// first, which uses the read buffer.
    pub(super) fn program_next<N: Nand>(
        &mut self,
        nand: &mut N,
        page: &[u8],
        read: &mut Loaded,
    ) -> Result<(), IndexFault> {
        let place = self.pages() as u32 % self.geometry.pages_per_block;
        if place == 0 {
            let block = self.take(nand)?;
            let number = self.ever() as u32;
            self.kept.push_back(KeptBlock { number, place: block });
            self.newest_is_closed = false;
        }
        while self.newest_is_closed || !self.program_at(nand, place, page)? {
            let moved = self.move_newest(nand, place, read);
            if moved.is_err() {
                // Nothing is added behind a page that failed. A block without pages is no block of full pages
                // yet.
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
            self.ever(),
            (self.full_pages + 1).div_ceil(u64::from(self.geometry.pages_per_block)),
            "S2: page {} is not in the last block",
            self.full_pages
        );
        Ok(())
    }

    /// Programs a page of the newest block. False if that fails.
    fn program_at<N: Nand>(&mut self, nand: &mut N, place: u32, page: &[u8]) -> Result<bool, IndexFault> {
        let block = self.newest()?;
        self.weak.credit.note_program();
        Ok(is_done(nand.program(self.geometry.page_at(block, place), Cause::Host, page, &[]))?)
    }

    fn newest(&self) -> Result<Pbn, IndexFault> {
        let newest = self.kept.last().and_then(|newest| newest.found());
        newest.ok_or_else(|| {
            IndexFault::broken_at(Invariant::S2, "the newest block is missing", self.full_pages)
        })
    }

    /// Copies the first `pages` pages of the newest block to another block, which takes its place.
    fn move_newest<N: Nand>(
        &mut self,
        nand: &mut N,
        pages: u32,
        read: &mut Loaded,
    ) -> Result<(), IndexFault> {
        let from = self.newest()?;
        let failed = !self.newest_is_closed;
        self.copy_block(nand, (self.kept.len() - 1, pages), read)?;
        self.newest_is_closed = false;
        if failed {
            return self.retire(nand, from);
        }
        self.free.push_back(from);
        Ok(())
    }

    /// Copies a block of full pages, one of whose pages was hard to read, to another block. Nothing happens
    /// where blocks are short, or the block is no such block.
    pub(super) fn move_weak<N: Nand>(
        &mut self,
        nand: &mut N,
        block: Pbn,
        read: &mut Loaded,
    ) -> Result<(), IndexFault> {
        let Some(at) = self.kept.iter().position(|kept| kept.place == block) else { return Ok(()) };
        if self.free.len() <= FREE_MIN {
            return Ok(());
        }
        let before = at as u64 * u64::from(self.geometry.pages_per_block);
        let pages = (self.pages() - before).min(self.geometry.pages_per_block.into()) as u32;
        self.copy_block(nand, (at, pages), read)?;
        self.free.push_back(block);
        if at + 1 == self.kept.len() {
            self.newest_is_closed = false;
        }
        Ok(())
    }

    /// Copies the first `pages` pages of a block of full pages to another block, which takes its place.
    fn copy_block<N: Nand>(
        &mut self,
        nand: &mut N,
        (at, pages): (usize, u32),
        read: &mut Loaded,
    ) -> Result<(), IndexFault> {
        let cause = if self.weak.is_at_work() { Cause::Scrubbing } else { Cause::Recovery };
        read.number = NO_PAGE;
        let copy = &mut read.page;
        let missing = || IndexFault::broken_at(Invariant::S2, "a block is missing", at as u64);
        let from = self.kept.get(at).and_then(|kept| kept.found()).ok_or_else(missing)?;
        let to = 'another: loop {
            let to = self.take(nand)?;
            for page in 0..pages {
                let ppn = self.geometry.page_at(from, page);
                if let Err(error) = read_sound(nand, self.geometry.blocks, ppn, copy) {
                    self.free.push_back(to);
                    return Err(error);
                }
                self.weak.credit.note_program();
                if !is_done(nand.program(self.geometry.page_at(to, page), cause, copy, &[]))? {
                    self.retire(nand, to)?;
                    continue 'another;
                }
            }
            break to;
        };
        debug_assert_ne!(to, from, "S3: a block is copied to itself");
        self.kept.row()[at].place = to;
        Ok(())
    }

    /// Programs a partly filled page at the side; if `elsewhere`, to another block than the one before. If
    /// this fails for want of blocks, the page before is unchanged.
    pub(super) fn program_aside<N: Nand>(
        &mut self,
        nand: &mut N,
        filling: &[u8],
        elsewhere: bool,
    ) -> Result<(), IndexFault> {
        let (old, end) = (self.aside, self.geometry.pages_per_block);
        let mut place = old.filter(|place| place.1 < end && !elsewhere);
        let mut failed = Vec::new();
        let written = loop {
            let (block, page) = match place.take() {
                Some(place) => place,
                None => match self.take(nand) {
                    Ok(block) => (block, 0),
                    Err(error) => break Err(error),
                },
            };
            self.weak.credit.note_program();
            match nand.program(self.geometry.page_at(block, page), Cause::Host, filling, &[]) {
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
        self.retire_failed(nand, failed)?;
        debug_assert!(self.aside.is_some_and(|place| place.1 <= end), "S4: {:?} is no place", self.aside);
        Ok(())
    }
}

/// Reads a page of a chip of `blocks` blocks, again if it is not sound. The bytes of a page that stays
/// unsound are returned as they are.
pub(super) fn read_sound<N: Nand>(
    nand: &mut N,
    blocks: u32,
    ppn: Ppn,
    page: &mut [u8],
) -> Result<(), IndexFault> {
    let is_whole = |page: &[u8], _: &[u8]| Header::decode(page, blocks).is_some() || is_blank(page);
    read_again(nand, (ppn, Cause::Recovery), page, &mut [], is_whole)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_block_makes_room_and_its_pages_have_no_place() {
        let geometry = Geometry::new(64, 0, 4, 8);
        let mut blocks = Blocks::new(geometry, WhenFull::DropOldest);
        (0..3).for_each(|number| blocks.kept.push_back(KeptBlock { number, place: Pbn(7 - number) }));
        (0..2).for_each(|block| blocks.free.push_back(Pbn(block)));
        blocks.full_pages = 11;
        assert_eq!((blocks.first_page(), blocks.pages(), blocks.ever()), (0, 11, 3));
        assert_eq!(blocks.place_of(5), Ok(geometry.page_at(Pbn(6), 1)));
        assert_eq!((blocks.make_room(), blocks.make_room()), (Ok(false), Ok(true)));
        assert_eq!((blocks.first_page(), blocks.pages(), blocks.ever(), blocks.dropped), (4, 7, 3, 1));
        assert_eq!(blocks.place_of(5), Ok(geometry.page_at(Pbn(6), 1)));
        assert!(blocks.place_of(3).is_err() && blocks.all().count() == 5);
        blocks.when_full = WhenFull::Refuse;
        blocks.free.pop_front();
        assert!(blocks.make_room().is_err_and(|error| error.is_full()));
    }
}
