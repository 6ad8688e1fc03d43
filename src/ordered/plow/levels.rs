//! The levels, their filters, and what is known of all of them.

use super::coder::View;
use super::commit::Stand;
use super::config::Shares;
use super::drain::Drain;
use super::fences::{Run, position};
use super::filter::{Answer, FILTERS, Filters};
use super::level::{Level, Part, Place, RunAt};
use crate::units::{Pbn, Ppn};
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut, Range};

/// Blocks of a level at most that shares the blocks it writes to.
const SHARED_BLOCKS: usize = 4;

/// The levels, the first one in front.
#[derive(Debug)]
pub(super) struct Levels {
    row: Vec<Level>,
    pub(super) pages_per_block: u32,
    pub(super) filters: Filters,
    /// Records of a full page of the last level.
    pub(super) page_records: u64,
    /// The highest key of any level or sealed page; none if it is not known.
    pub(super) top: Option<Vec<u8>>,
    /// A page of the first level with keys above all others, to which more are added.
    pub(super) tail: Option<Ppn>,
    /// Whether the level above the last is to go, and how far that is.
    pub(super) drain: Drain,
}

impl Deref for Levels {
    type Target = [Level];

    fn deref(&self) -> &[Level] {
        &self.row
    }
}

impl DerefMut for Levels {
    fn deref_mut(&mut self) -> &mut [Level] {
        &mut self.row
    }
}

impl Levels {
    /// No level yet, with so many bytes for filters.
    pub(super) fn none(pages_per_block: u32, filter_bytes: usize) -> Levels {
        Levels {
            row: Vec::with_capacity(super::cost::LEVELS_MAX),
            pages_per_block,
            filters: Filters::new(filter_bytes),
            page_records: 1,
            top: None,
            tail: None,
            drain: Drain::Off,
        }
    }

    /// Puts an empty level above the last one. It takes over where the last one's sweep stands, so that what
    /// was taken from the level above it stays so.
    pub(super) fn add(&mut self) {
        let level = match self.row.last() {
            Some(last) => Level { cursor: last.cursor.clone(), round: last.round, ..Level::default() },
            None => Level::default(),
        };
        let at = self.row.len().saturating_sub(1);
        if at == 0 {
            // A mount that found one level made filters of its pages, which are another level's now and go
            // without being named here.
            self.filters.clear();
        }
        self.row.insert(at, level);
    }

    /// Puts a level below the others.
    pub(super) fn push(&mut self, level: Level) {
        self.row.push(level);
    }

    /// Takes out a level that is empty and whose cursor is that of the next one; its open block.
    pub(super) fn leave_out(&mut self, level: usize) -> Option<Pbn> {
        let gone = self.row.remove(level);
        if level == 0 {
            // Sealed pages say where the first sweep stood: the one that is first now goes on from there.
            self.row[0].round = gone.round;
            self.filters.clear();
        }
        gone.open.map(|(block, _)| block)
    }

    /// Pages of the last level.
    pub(super) fn last_pages(&self) -> usize {
        self.row.last().map_or(0, Level::pages)
    }

    /// The old and the new pages of each level.
    pub(super) fn runs(&self) -> impl Iterator<Item = &Run> {
        self.row.iter().flat_map(|level| [&level.old, &level.new])
    }

    /// Extents of all levels.
    pub(super) fn extents(&self) -> usize {
        self.runs().map(|run| run.extents().len()).sum()
    }

    /// Where the first sweep stands.
    pub(super) fn stand(&self) -> Stand {
        Stand { round: self.row[0].round, cursor: self.row[0].cursor.clone() }
    }

    fn block_of(&self, ppn: Ppn) -> Pbn {
        Pbn(ppn.0 / self.pages_per_block)
    }

    /// The next page of a block that is being filled.
    pub(super) fn next_of(&self, block: Pbn) -> Option<u32> {
        self.row.iter().filter_map(|level| level.open).find(|open| open.0 == block).map(|open| open.1)
    }

    /// Whether a page of a block is one of any level.
    pub(super) fn use_block(&self, block: Pbn) -> bool {
        let pages = self.pages_per_block;
        let (from, to) = (Ppn(block.0 * pages), Ppn(block.0 * pages + pages));
        self.row.iter().any(|level| level.uses(from, to))
    }

    /// The pages that come due with a weak one: those of its block, whose reads disturb them all alike. Pages
    /// that are programmed later are fresh.
    pub(super) fn disturbed_with(&self, ppn: Ppn) -> Range<Ppn> {
        let block = self.block_of(ppn);
        let first = block.0 * self.pages_per_block;
        Ppn(first)..Ppn(first + self.next_of(block).unwrap_or(self.pages_per_block))
    }

    /// Whether the filters know that a level does not hold a key.
    pub(super) fn is_filtered(&self, level: usize, key: &[u8]) -> bool {
        if !FILTERS {
            return false;
        }
        let part = self.row[level].part_of(key);
        let run = self.row[level].run(part);
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

    /// Whether the levels above the last are so small that they write to one block where blocks are short. A
    /// block of pages of several levels is dead when the sweeps of all of them have passed it: of a level of
    /// many blocks many would be half dead.
    pub(super) fn uppers_share(&self) -> bool {
        let most = SHARED_BLOCKS * self.pages_per_block as usize;
        let last = self.row.len().saturating_sub(1);
        self.row[..last].iter().all(|level| level.pages() <= most)
    }

    /// The level with a block more than its pages take whose next block is free after the fewest steps.
    pub(super) fn with_holes(&self) -> Option<usize> {
        let pages_per_block = self.pages_per_block as usize;
        let has_holes = |level: &Level| {
            let blocks = level.blocks(self.pages_per_block).len();
            let spare = (blocks * pages_per_block).saturating_sub(level.pages());
            level.pages() > 0 && blocks > 1 && spare >= pages_per_block
        };
        (0..self.row.len())
            .filter(|&level| has_holes(&self.row[level]))
            .min_by_key(|&level| self.pages_of_next_block(level))
    }

    /// Pages in the block that holds the page under the cursor of a level.
    pub(super) fn pages_of_next_block(&self, level: usize) -> usize {
        let of_level = &self.row[level];
        let Some(page) = of_level.old.page(0).or_else(|| of_level.new.page(0)) else { return 0 };
        let extents = [&of_level.old, &of_level.new].into_iter().flat_map(|run| run.extents());
        let of_block = extents.filter(|extent| self.block_of(extent.first()) == self.block_of(page));
        of_block.map(|extent| extent.pages()).sum()
    }

    /// Halves the fences of the longest run until all fit their share of the RAM.
    pub(super) fn keep_short(&mut self, shares: &Shares) {
        let held = |levels: &Levels| -> usize {
            let copied = levels.runs().map(Run::copied_bytes).max().filter(|_| shares.lists_twice);
            levels.runs().map(Run::ram_bytes).sum::<usize>() + copied.unwrap_or(0)
        };
        while held(self) > shares.fences {
            let runs = self.row.iter_mut().flat_map(|level| [&mut level.old, &mut level.new]);
            // Of several the last one.
            if !runs.max_by_key(|run| run.ram_bytes()).is_some_and(Run::thin) {
                return;
            }
        }
    }

    /// Notes a key that went to a level, or to a sealed page.
    pub(super) fn note_top(&mut self, key: &[u8]) {
        if let Some(top) = self.top.as_mut().filter(|top| cfg!(feature = "full") && &top[..] < key) {
            top.clear();
            top.extend_from_slice(key);
        }
    }

    /// The page of the first level that records above all others are added to.
    pub(super) fn tail_place(&self) -> Option<Place> {
        let place = self.row[0].last().filter(|place| place.0 == Part::Old)?;
        (self.row[0].page(place) == self.tail && self.tail.is_some()).then_some(place)
    }

    /// Enters a page at the end of a level's new pages, or of the old ones. The first level is to hold so
    /// many pages.
    pub(super) fn adopt(&mut self, (level, part): RunAt, ppn: Ppn, view: &View<'_>, planned: u64) {
        let count = view.count();
        let first = view.key_owned(0);
        let end = cfg!(feature = "full").then(|| view.key_owned(count - 1));
        if level == 0 {
            // One level alone grows; where all filters are too small for it, they are of use no longer.
            let pages = match self.row.len() {
                1 => self.row[0].pages() * 5 / 4,
                _ => planned as usize,
            };
            // Around two cursors pages are half dead.
            let bytes = self.filters.share(count, (pages + 1) * self.page_records as usize, pages + 3);
            self.filters.insert(ppn, bytes, (count, &|i| view.key_owned(i)));
        }
        if level + 1 == self.row.len() {
            // While a level is left out, pages end at its cursor.
            let is_cut_short = cfg!(feature = "full") && matches!(self.drain, Drain::Sweep(_));
            let learnt = if is_cut_short { self.page_records } else { count as u64 };
            self.page_records = (count as u64).max((self.page_records + learnt) / 2);
        }
        // Steps of the next level take pages from its cursor on: an extent that begins there need not be
        // parted.
        let joins = self.row.get(level + 1).is_none_or(|below| below.cursor[..] != first[..])
            && !ppn.0.is_multiple_of(self.pages_per_block);
        let low = position(&first);
        // The list of extents may be copied where it grows: no key is held then.
        drop(first);
        if let Some(end) = end {
            self.note_top(&end);
        }
        self.row[level].run_mut(part).push(ppn, low, joins);
    }

    /// Removes a page of a level.
    pub(super) fn drop_page(&mut self, level: usize, part: Part, ppn: Ppn) {
        self.row[level].run_mut(part).remove(ppn);
        if level == 0 {
            self.filters.remove(ppn);
        }
        // Another page may be written there, with keys that are not above all others.
        if cfg!(feature = "full") {
            self.tail = self.tail.filter(|&tail| tail != ppn);
        }
    }

    /// Bytes held besides the levels' own fields.
    pub(super) fn ram_bytes(&self) -> usize {
        self.row.capacity() * size_of::<Level>()
            + self.row.iter().map(Level::ram_bytes).sum::<usize>()
            + self.filters.ram_bytes()
            + self.top.as_ref().map_or(0, Vec::capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// An empty level above one of ten pages from the middle of a block on.
    fn levels() -> Levels {
        let mut levels = Levels::none(8, 0);
        (0..2).for_each(|_| levels.add());
        (4..14).for_each(|page: u32| levels[1].new.push(Ppn(page), page.into(), !page.is_multiple_of(8)));
        levels[1].open = Some((Pbn(1), 6));
        levels
    }

    #[test]
    fn pages_come_due_with_those_of_their_block() {
        let levels = levels();
        assert_eq!(levels.disturbed_with(Ppn(5)), Ppn(0)..Ppn(8));
        assert_eq!(levels.disturbed_with(Ppn(9)), Ppn(8)..Ppn(14));
        assert_eq!((levels.next_of(Pbn(0)), levels.next_of(Pbn(1))), (None, Some(6)));
    }

    #[test]
    fn a_level_has_holes_once_its_pages_take_a_block_less() {
        let mut levels = levels();
        assert_eq!((levels.extents(), levels.last_pages(), levels.pages_of_next_block(1)), (2, 10, 4));
        for page in 4..6 {
            assert_eq!(levels.with_holes(), None);
            levels.drop_page(1, Part::New, Ppn(page));
        }
        assert_eq!((levels.with_holes(), levels.pages_of_next_block(1)), (Some(1), 2));
        (6..8).for_each(|page| levels.drop_page(1, Part::New, Ppn(page)));
        assert!(!levels.use_block(Pbn(0)) && levels.use_block(Pbn(1)) && levels.uppers_share());
    }

    #[test]
    fn what_is_known_of_all_levels_follows_their_pages() {
        let mut levels = levels();
        (levels.top, levels.tail) = (Some(vec![3]), Some(Ppn(4)));
        levels.note_top(&[2]);
        levels.drop_page(1, Part::New, Ppn(5));
        assert_eq!((levels.top.as_deref(), levels.tail), (Some(&[3][..]), Some(Ppn(4))));
        levels.note_top(&[5]);
        levels.drop_page(1, Part::New, Ppn(4));
        let full = cfg!(feature = "full");
        let expected = if full { (Some(&[5][..]), None) } else { (Some(&[3][..]), Some(Ppn(4))) };
        assert_eq!((levels.top.as_deref(), levels.tail), expected);
        levels[0].round = 9;
        assert_eq!((levels.leave_out(0), levels[0].round, levels.len()), (None, 9, 1));
    }
}
