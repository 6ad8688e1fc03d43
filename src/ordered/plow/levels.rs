//! The levels, their filters, and facts that concern all levels.

use super::budget::KEPT;
use super::coder::View;
use super::commit::Stand;
use super::config::Shares;
use super::cost::LEVELS_MAX;
use super::drain::Drain;
use super::fences::{HEAD_BYTES, Run, position};
use super::filter::{Answer, FILTERS, Filters};
use super::level::{Level, Part, Place, RunAt};
use crate::units::{Pbn, Ppn};
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut, Range};

/// The levels above the last share the blocks they write to only if each has at most this many blocks of
/// pages.
const SHARED_BLOCKS: usize = 4;

/// The levels, the first (smallest) one in front.
#[derive(Debug)]
pub(super) struct Levels {
    row: Vec<Level>,
    pub(super) pages_per_block: u32,
    /// Extents for which there can be RAM.
    extents_max: u32,
    pub(super) filters: Filters,
    /// Records of a full page of the last level.
    pub(super) page_records: u64,
    /// Highest key of any level or sealed page. `None` if it is not known.
    pub(super) top: Option<Vec<u8>>,
    /// Page of the first level with keys above all others, to which more are added.
    pub(super) tail: Option<Ppn>,
    /// Progress of the removal of the level above the last.
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
    /// No level yet, and no filters.
    pub(super) fn none(pages_per_block: u32, extents_max: u32) -> Levels {
        Levels {
            row: Vec::with_capacity(LEVELS_MAX),
            pages_per_block,
            extents_max,
            filters: Filters::new(0),
            page_records: 1,
            top: None,
            tail: None,
            drain: Drain::Off,
        }
    }

    /// Adds an empty level above the last one. Its cursor begins at that of the last level, so that records
    /// already taken from the level above are not taken again.
    pub(super) fn add(&mut self) {
        let level = match self.row.last() {
            Some(last) => Level { cursor: last.cursor.clone(), round: last.round, ..Level::default() },
            None => Level::default(),
        };
        let at = self.row.len().saturating_sub(1);
        if at == 0 {
            // A mount that found a single level made filters of its pages. Now these pages belong to another
            // level, whose pages are dropped without a look at the filters.
            self.filters.clear();
        }
        self.row.insert(at, level);
    }

    /// Adds a level below the others.
    pub(super) fn push(&mut self, level: Level) {
        self.row.push(level);
    }

    /// Removes an empty level whose cursor equals that of the next one. Returns its open block.
    pub(super) fn leave_out(&mut self, level: usize) -> Option<Pbn> {
        let gone = self.row.remove(level);
        if level == 0 {
            // Sealed pages tell where the first sweep stood: the level that is first now goes on from there.
            self.row[0].round = gone.round;
            self.filters.clear();
        }
        gone.open.map(|(block, _)| block)
    }

    pub(super) fn last_pages(&self) -> usize {
        self.row.last().map_or(0, Level::pages)
    }

    pub(super) fn runs(&self) -> impl Iterator<Item = &Run> {
        self.row.iter().flat_map(|level| [&level.old, &level.new])
    }

    pub(super) fn extents(&self) -> usize {
        self.runs().map(Run::count).sum()
    }

    /// Number of extents more that records may bring. What sweeps need is kept.
    pub(super) fn extents_left(&self) -> usize {
        match self.extents_max {
            u32::MAX => usize::MAX,
            most => (most as usize).saturating_sub(self.extents() + KEPT),
        }
    }

    /// Most extents of records.
    pub(super) fn extents_of_records(&self) -> usize {
        if self.extents_max == u32::MAX {
            usize::MAX
        } else {
            (self.extents_max as usize).saturating_sub(KEPT)
        }
    }

    /// Position of the first level's sweep.
    pub(super) fn stand(&self) -> Stand {
        Stand { round: self.row[0].round, cursor: self.row[0].cursor.clone() }
    }

    fn block_of(&self, ppn: Ppn) -> Pbn {
        Pbn(ppn.0 / self.pages_per_block)
    }

    /// Next page of a block that a level is filling; `None` if no level fills it.
    pub(super) fn next_of(&self, block: Pbn) -> Option<u32> {
        self.row.iter().filter_map(|level| level.open).find(|open| open.0 == block).map(|open| open.1)
    }

    /// True if any level has a page in the block.
    pub(super) fn use_block(&self, block: Pbn) -> bool {
        let pages = self.pages_per_block;
        let (from, to) = (Ppn(block.0 * pages), Ppn(block.0 * pages + pages));
        self.row.iter().any(|level| level.uses(from, to))
    }

    /// Pages to be rewritten together with a weak one: those of its block, since reads disturb all of them
    /// alike. Pages programmed later are fresh.
    pub(super) fn disturbed_with(&self, ppn: Ppn) -> Range<Ppn> {
        let block = self.block_of(ppn);
        let first = block.0 * self.pages_per_block;
        Ppn(first)..Ppn(first + self.next_of(block).unwrap_or(self.pages_per_block))
    }

    /// True if the filters rule out that a level holds a key.
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

    /// True if the levels above the last are so small that they write to one block when blocks are short.
    /// Such a block is dead only after the sweeps of all its levels have passed it. With levels of many
    /// blocks, many would be half dead.
    pub(super) fn uppers_share(&self) -> bool {
        let most = SHARED_BLOCKS * self.pages_per_block as usize;
        let last = self.row.len().saturating_sub(1);
        self.row[..last].iter().all(|level| level.pages() <= most)
    }

    /// The level that uses at least one block more than its pages need, and whose next block is free after
    /// the fewest steps.
    pub(super) fn with_holes(&self) -> Option<usize> {
        let pages_per_block = self.pages_per_block as usize;
        let has_holes = |level: &Level| {
            let blocks = level.blocks(self.pages_per_block);
            let spare = (blocks * pages_per_block).saturating_sub(level.pages());
            level.pages() > 0 && blocks > 1 && spare >= pages_per_block
        };
        (0..self.row.len())
            .filter(|&level| has_holes(&self.row[level]))
            .min_by_key(|&level| self.pages_of_next_block(level))
    }

    /// Number of the level's pages in the block that holds the page under its cursor.
    pub(super) fn pages_of_next_block(&self, level: usize) -> usize {
        let of_level = &self.row[level];
        let Some(page) = of_level.old.page(0).or_else(|| of_level.new.page(0)) else { return 0 };
        let extents = [&of_level.old, &of_level.new].into_iter().flat_map(|run| run.extents());
        let of_block = extents.filter(|extent| self.block_of(extent.first()) == self.block_of(page));
        of_block.map(|extent| extent.pages()).sum()
    }

    /// Halves the fences of the longest run until all runs fit their share of the RAM.
    pub(super) fn keep_short(&mut self, shares: &Shares) {
        self.keep_spare(shares, 0);
    }

    /// Halves the fences of the longest run that has some until all runs and `besides` bytes fit their share
    /// of the RAM. False if they are as short as may be.
    pub(super) fn keep_spare(&mut self, shares: &Shares, besides: usize) -> bool {
        let held =
            |levels: &Levels| 2 * LEVELS_MAX * HEAD_BYTES + levels.runs().map(Run::ram_bytes).sum::<usize>();
        while held(self) + besides > shares.fences {
            let runs = self.row.iter_mut().flat_map(|level| [&mut level.old, &mut level.new]);
            // If several are as long, the last one.
            let longest = runs.filter(|run| run.can_thin()).max_by_key(|run| run.ram_bytes());
            if !longest.is_some_and(Run::thin) {
                return false;
            }
        }
        true
    }

    /// Notes a key that went to a level or to a sealed page, for the highest key.
    pub(super) fn note_top(&mut self, key: &[u8]) {
        if let Some(top) = self.top.as_mut().filter(|top| cfg!(feature = "full") && &top[..] < key) {
            top.clear();
            top.extend_from_slice(key);
        }
    }

    /// Place of the tail: the page of the first level to which records above all others are added.
    pub(super) fn tail_place(&self) -> Option<Place> {
        let place = self.row[0].last().filter(|place| place.0 == Part::Old)?;
        (self.row[0].page(place) == self.tail && self.tail.is_some()).then_some(place)
    }

    /// Enters a page at the end of a level's new pages, or of its old pages. `planned` is the number of pages
    /// that the first level is to have.
    pub(super) fn adopt(&mut self, (level, part): RunAt, ppn: Ppn, view: &View<'_>, planned: u64) {
        let count = view.count();
        let first = view.key_owned(0);
        let end = cfg!(feature = "full").then(|| view.key_owned(count - 1));
        if level == 0 {
            // A single level grows; if all its filters became too small for that, they would be of no use.
            let pages = match self.row.len() {
                1 => self.row[0].pages() * 5 / 4,
                _ => planned as usize,
            };
            // The pages around two cursors are half dead.
            let bytes = self.filters.share(count, (pages + 1) * self.page_records as usize, pages + 3);
            self.filters.insert(ppn, bytes, (count, &|i| view.key_owned(i)));
        }
        if level + 1 == self.row.len() {
            // While a level is being removed, pages end at its cursor and are short.
            let is_cut_short = cfg!(feature = "full") && matches!(self.drain, Drain::Sweep(_));
            let learnt = if is_cut_short { self.page_records } else { count as u64 };
            self.page_records = (count as u64).max((self.page_records + learnt) / 2);
        }
        // Steps of the next level take pages from its cursor on: an extent that begins there need not be
        // split.
        let joins = self.row.get(level + 1).is_none_or(|below| below.cursor[..] != first[..])
            && !ppn.0.is_multiple_of(self.pages_per_block);
        let low = position(&first);
        // The list of extents may be copied when it grows: no key is held meanwhile.
        drop(first);
        if let Some(end) = end {
            self.note_top(&end);
        }
        self.row[level].run_mut(part).push(ppn, low, joins);
    }

    /// Removes a page of a level, and its filter.
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
        let mut levels = Levels::none(8, u32::MAX);
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
