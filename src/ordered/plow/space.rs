//! The blocks of the chip, and the one question about them: is there room?
//!
//! There is room for a need if at least this many blocks are free, or will be after the next commit page:
//!
//! ```text
//! need         sweeps   dissolved   begun   spare
//! Remove         S        D(1)        0       0
//! Sweep          S        D(1)        1       0          nothing if the level has a block to write to
//! Dissolve       S        0           1       0          the same of the first level
//! Insert(n)      S        D(n)        b       0          and if root and RAM leave room for what is dissolved
//! Ahead          S        D(1)        b    C + 1 - D(1)  the same, of one record
//! Commit                C = 1 + blocks of the sealed pages and of the map that come before it
//!
//! S = 4, one more for each level but the first and the last where these have blocks of their own, and those
//!     of the next map: with so many blocks sweeps go on, whatever is open
//! D(n) = 0 while the memtable and n records more fit into a commit page for good, else the blocks of their
//!     pages and one more
//! b = 1 if the step of an operation may begin a block, else 0
//! ```
//!
//! Removals go on until only S blocks are left: a chip must never have fewer. One of the S blocks is for
//! commit pages. Two are for pages of the sweeps: when both are written, one of the two blocks whose pages
//! they took is dead, wherever in these blocks the sweeps stood. The last is for pages that do not take as
//! many records as those before them did. A search over all layouts of a level that shares no block finds
//! that three blocks are enough for it (see the tests below).

use super::blocks::{Blocks, State};
use super::commit::Commits;
use super::config::Shares;
use super::io::Target;
use super::level::Level;
use super::levels::Levels;
use super::map::{MAPS, Map};
use super::memtable::Memtable;
use super::page::HEADER_BYTES;
use crate::check::{IndexError, Limit, words};
use crate::fault::IndexFault;
use crate::nand::Geometry;
use crate::ordered::Room;
use crate::units::Pbn;
use alloc::boxed::Box;

/// Number of blocks with which sweeps can always advance.
pub(super) const SWEEP_BLOCKS: usize = 4;
/// Most pages of a level that one operation writes, including a summary.
const OPERATION_PAGES: u32 = 4;

/// Purpose that takes blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// New records.
    Insert { records: usize },
    /// Work that may as well be done later.
    Ahead,
    /// A change that adds nothing.
    Remove,
    /// A step of a level.
    Sweep { level: usize },
    /// A step of the first level that takes records out of a memtable that is too large.
    Dissolve,
    /// A commit page, from blocks that are free now.
    Commit,
}

#[derive(Debug)]
pub(super) struct Space {
    pub(super) blocks: Blocks,
    pub(super) map: Option<Box<Map>>,
    /// Number of changes since all levels were last swept for room.
    pub(super) changes: u64,
    /// Value of `changes` when steps for room were last of no use; `u64::MAX` if they never were.
    pub(super) relieved_in_vain: u64,
    /// True while all levels are being swept for room.
    pub(super) sweeping: bool,
}

impl Space {
    pub(super) fn new(geometry: Geometry, has_maps: bool) -> Space {
        Space {
            blocks: Blocks::new(geometry),
            map: Map::none(has_maps),
            changes: 0,
            relieved_in_vain: u64::MAX,
            sweeping: false,
        }
    }

    /// The map, if roots may be too long without one.
    pub(super) fn map(&self) -> Option<&Map> {
        self.map.as_deref().filter(|_| MAPS)
    }

    /// Blocks that are free, or will be after the next commit page.
    pub(super) fn available(&self) -> usize {
        self.blocks.free() + self.blocks.left()
    }

    /// Frees a block of levels if none of its pages is in use.
    pub(super) fn leave_if_dead(&mut self, block: Pbn, levels: &Levels) {
        if levels.next_of(block).is_none()
            && !levels.use_block(block)
            && matches!(self.blocks.state(block), State::Used | State::Failing)
        {
            self.blocks.leave(block);
        }
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.blocks.ram_bytes() + self.map().map_or(0, Map::ram_bytes)
    }
}

/// The parts from which answers about room follow, for reading only.
pub(super) struct Stock {
    pub(super) geometry: Geometry,
    pub(super) space: Space,
    pub(super) levels: Levels,
    pub(super) commits: Commits,
    pub(super) memtable: Memtable,
}

impl Stock {
    /// Terms of the inequality above: sweeps, dissolved, begun, spare.
    fn terms(&self, need: Need) -> [usize; 4] {
        match need {
            Need::Commit => [0, 0, 0, 1 + self.sealed_blocks_next()],
            Need::Sweep { level } if !self.begins_block(level) => [0; 4],
            Need::Dissolve if !self.begins_block(0) => [0; 4],
            Need::Dissolve => [self.sweeps(), 0, 1, 0],
            Need::Remove => [self.sweeps(), self.dissolved(1), 0, 0],
            Need::Sweep { .. } => [self.sweeps(), self.dissolved(1), 1, 0],
            Need::Insert { records } => [self.sweeps(), self.dissolved(records), self.begun(), 0],
            Need::Ahead => {
                let dissolved = self.dissolved(1);
                let spare = (self.blocks_for(Need::Commit) + 1).saturating_sub(dissolved);
                [self.sweeps(), dissolved, self.begun(), spare]
            }
        }
    }

    /// Number of blocks that a need must find.
    pub(super) fn blocks_for(&self, need: Need) -> usize {
        self.terms(need).into_iter().sum()
    }

    pub(super) fn has(&self, need: Need) -> bool {
        let terms = self.terms(need);
        let are_lists_short = || match need {
            Need::Insert { .. } | Need::Ahead => {
                !self.is_root_long(terms[1]) && terms[1] < self.levels.extents_left()
            }
            _ => true,
        };
        let found = if need == Need::Commit { self.space.blocks.free() } else { self.space.available() };
        found >= terms.into_iter().sum() && are_lists_short()
    }

    /// True if a record more finds no room, but only since there is no RAM for its extents. Then whatever
    /// adds no record is taken.
    pub(super) fn lacks_ram_only(&self) -> bool {
        let terms = self.terms(Need::Insert { records: 1 });
        terms[1] >= self.levels.extents_left()
            && self.space.available() >= terms.into_iter().sum()
            && !self.is_root_long(terms[1])
    }

    /// Refuses a chip on which an empty index has no room for a record.
    pub(super) fn require_room_for_a_record(&self) -> Result<(), IndexFault> {
        let (need, has) = (Need::Insert { records: 1 }, self.space.blocks.good() as u32);
        if self.has(need) {
            return Ok(());
        }
        let missing = self.blocks_for(need).saturating_sub(self.space.available());
        Err(IndexError::ChipTooSmall { who: words("plow"), needs: has + missing as u32, has }.into())
    }

    /// Number of blocks with which sweeps can always advance, including those of a new map.
    pub(super) fn sweeps(&self) -> usize {
        let apart = if self.levels.uppers_share() { 0 } else { self.levels.len().saturating_sub(2) };
        SWEEP_BLOCKS + apart + self.map_pages_next().div_ceil(self.geometry.pages_per_block as usize)
    }

    /// Number of blocks that the steps of an operation may begin: 1 if open blocks are too full, else 0.
    fn begun(&self) -> usize {
        let last = self.levels.len().saturating_sub(1);
        let lasts = |level: &Level| {
            level.open.is_some_and(|(_, next)| next + OPERATION_PAGES <= self.geometry.pages_per_block)
        };
        let (upper, lowest) = self.levels.split_at(last);
        usize::from(!lowest.iter().all(lasts) || !upper.is_empty() && !upper.iter().any(lasts))
    }

    /// The level to whose open block this level's pages go, if it has no open block. If blocks are short,
    /// that is another level above the last; without free blocks, any other.
    pub(super) fn lender(&self, level: usize) -> Option<usize> {
        let last = self.levels.len() - 1;
        if self.levels[level].open.is_some() {
            return None;
        }
        let (free, kept) = (self.space.blocks.free(), self.blocks_for(Need::Commit));
        if free >= kept + SWEEP_BLOCKS {
            return None;
        }
        let (is_out, shares) = (free <= kept, self.levels.uppers_share());
        let mut lender: Option<(u32, usize)> = None;
        for (other, of_other) in self.levels.iter().enumerate() {
            let lends = other != level && (is_out || shares && level != last && other != last);
            if let Some((_, used)) = of_other.open.filter(|_| lends)
                && lender.is_none_or(|(least, _)| used < least)
            {
                lender = Some((used, other));
            }
        }
        lender.map(|(_, other)| other)
    }

    /// True if a step of a level begins a block.
    pub(super) fn begins_block(&self, level: usize) -> bool {
        self.levels[level].open.is_none() && self.lender(level).is_none()
    }

    /// True if a page can be programmed for this stream. Some blocks are kept back for commit pages.
    pub(super) fn has_place(&self, target: Target) -> bool {
        let free = self.space.blocks.free();
        match target {
            Target::Level(level) => {
                self.levels[level].open.is_some()
                    || free > self.blocks_for(Need::Commit)
                    || self.lender(level).is_some()
            }
            Target::Commits => self.commits.open.is_some() || free >= 1,
            Target::Sealed => self.commits.open_sealed.is_some() || free >= 2,
        }
    }

    /// Error of an operation that finds no block: worn out if bad blocks are the reason, else full.
    pub(super) fn no_room(&self) -> IndexFault {
        let blocks = &self.space.blocks;
        let is_worn = blocks.is_any_bad() && blocks.good() <= SWEEP_BLOCKS + 3 * self.levels.len() + 1;
        let has_blocks = self.space.available() >= self.blocks_for(Need::Insert { records: 1 });
        let limit = match has_blocks {
            false => Limit::Blocks,
            true if self.lacks_ram_only() => Limit::Ram,
            // Blocks and RAM are there, so the root is what lacks room.
            true => Limit::Root,
        };
        if is_worn { IndexError::WornOut.into() } else { IndexError::Full(limit).into() }
    }

    /// True if a removal would need a step, for which there is no room.
    pub(super) fn is_stuck(&self) -> bool {
        let is_full = self.memtable.is_nearly_full(0) || !self.fits_for_good(self.memtable.len() + 1);
        is_full && !self.has(Need::Sweep { level: 0 })
    }

    /// True if steps of a level free as many blocks as they begin.
    pub(super) fn is_worth_it(&self, level: usize) -> bool {
        let pages = self.levels.pages_of_next_block(level) as u32 + OPERATION_PAGES;
        self.has(Need::Sweep { level }) || self.has(Need::Remove) && pages <= self.geometry.pages_per_block
    }

    /// True if `levels` levels are too many for the blocks, counting the blocks half used by their sweeps.
    fn is_crowded_with(&self, levels: usize) -> bool {
        let pages_per_block = self.geometry.pages_per_block as usize;
        let last = self.levels.last_pages().div_ceil(pages_per_block.saturating_sub(1).max(1)) + 1;
        // The first level takes a few pages, the others up to two blocks.
        let uppers = (2 * levels).saturating_sub(3).max(usize::from(levels > 1));
        last + uppers + SWEEP_BLOCKS + self.dissolved(1) > self.space.blocks.good()
    }

    /// True if there are too many levels for the blocks.
    pub(super) fn is_crowded(&self, shares: &Shares) -> bool {
        let levels = self.levels.len();
        levels > 1 && !shares.fixed && self.is_crowded_with(levels)
    }

    /// Largest number of levels, up to `most`, that the blocks can bear.
    pub(super) fn levels_by_room(&self, most: usize) -> usize {
        let held = self.levels.len();
        // A level that comes and goes costs a sweep each time.
        let spared = |levels: usize| levels > held && self.is_crowded_with(levels + 1);
        (2..=most).rev().find(|&n| !self.is_crowded_with(n) && !spared(n)).unwrap_or(1)
    }

    /// True if a level of few pages uses two blocks more than they need, and its next block dies before the
    /// free blocks are full. Levels of many blocks are always spread so; they are swept with one block more.
    pub(super) fn is_spread(&self, level: usize) -> bool {
        let pages_per_block = self.geometry.pages_per_block as usize;
        let of_level = &self.levels[level];
        let free = self.space.available().saturating_sub(self.blocks_for(Need::Commit));
        self.levels.uppers_share()
            && of_level.blocks(self.geometry.pages_per_block) > of_level.pages().div_ceil(pages_per_block) + 1
            && self.levels.pages_of_next_block(level) < free * pages_per_block
    }

    /// Room for records that share nothing with others, if `numbered` changes still have program numbers. The
    /// room is in pages of the last level, without those needed to begin steps.
    pub(super) fn room(&self, numbered: u64) -> Room {
        let kept = self.blocks_for(Need::Insert { records: 1 }) + 2 * self.levels.len();
        let blocks = self.space.available().saturating_sub(kept).min(self.blocks_nameable());
        let pages = ((blocks * self.geometry.pages_per_block as usize) as u64).min(numbered);
        let body = self.geometry.page_bytes as usize - HEADER_BYTES;
        let records = pages * (body / (self.memtable.record.entry_bytes() + 1)) as u64 / 2;
        Room { pages, records, surely: records.min(self.taken_surely()) }
    }

    /// Number of records for which the lists of extents surely have RAM: each may make two steps, and a step
    /// divides one extent and begins another.
    fn taken_surely(&self) -> u64 {
        match self.levels.extents_left() {
            usize::MAX => u64::MAX,
            left => (left.saturating_sub(self.dissolved(1) + 1) / 4) as u64,
        }
    }
}

#[cfg(test)]
#[cfg(feature = "full")]
mod tests {
    use super::*;
    use crate::ordered::{Durability, RecordFormat};
    use alloc::vec;
    use alloc::vec::Vec;

    const RECORD: RecordFormat = RecordFormat::new(4, 4);

    /// Returns for each need if it has room, on an empty chip with these numbers of levels and free blocks.
    fn found(blocks: u32, levels: usize, is_open: bool, free: u32) -> Vec<bool> {
        let geometry = Geometry::new(2048, 64, 8, blocks);
        let mut space = Space::new(geometry, false);
        (free..blocks).for_each(|block| space.blocks.set(Pbn(block), State::Used));
        let mut row = Levels::none(geometry.pages_per_block, u32::MAX);
        for level in 0..levels {
            row.add();
            row[0].open = is_open.then_some((Pbn(blocks - 1 - level as u32), 1));
        }
        let commits = Commits::none(Durability::EverySync, RECORD, geometry);
        let memtable = Memtable::new(RECORD, 40);
        let stock = Stock { geometry, space, levels: row, commits, memtable };
        let needs = [
            Need::Commit,
            Need::Remove,
            Need::Dissolve,
            Need::Sweep { level: levels - 1 },
            Need::Insert { records: 1 },
            Need::Ahead,
        ];
        needs.map(|need| stock.has(need)).to_vec()
    }

    #[test]
    fn each_need_finds_room_from_its_blocks_on() {
        for (blocks, levels, free) in (8..=24).flat_map(|b| (1..=3).map(move |l| (b, l, b - 3))) {
            for free in 0..=free {
                let from = |least: [u32; 6]| least.map(|least| free >= least).to_vec();
                assert_eq!(
                    found(blocks, levels, false, free),
                    from([1, 4, 5, 5, 5, 7]),
                    "{free} of {blocks}"
                );
                assert_eq!(found(blocks, levels, true, free), from([1, 4, 0, 0, 4, 6]), "{free} of {blocks}");
            }
        }
    }

    /// Simulates a sweep over a level; `level` has the number of its pages in each block. After every
    /// `more_each` pages one more page is written than taken. `commits` pages of the commit block are already
    /// written. Returns true if the sweep ends.
    fn ends(level: &[u32], pages_per_block: u32, mut free: u32, more_each: u32, commits: u32) -> bool {
        let (mut open, mut open_commits, mut left, mut written) = (0, pages_per_block - commits, 0, 0);
        for &pages in level {
            for page in 0..pages {
                let more = u32::from((written + 1) % more_each == 0);
                for _ in 0..1 + more {
                    if open == 0 && free <= 1 && left > 0 {
                        // A commit gives back dead blocks; its own block before dies with the next commit.
                        if open_commits == 0 {
                            (free, open_commits, left) = (free - 1, pages_per_block, left + 1);
                        }
                        (free, left, open_commits) = (free + left, 0, open_commits - 1);
                    }
                    if open == 0 && free <= 1 {
                        return false;
                    }
                    (free, open) = if open == 0 { (free - 1, pages_per_block) } else { (free, open) };
                    open -= 1;
                }
                written += 1;
                left += u32::from(page + 1 == pages);
            }
        }
        true
    }

    /// The fewest free blocks with which the sweeps of all layouts of `blocks` blocks end.
    fn fewest(pages_per_block: u32, blocks: u32, more_each: u32) -> u32 {
        let mut layouts = vec![vec![]];
        for _ in 0..blocks {
            let longer = |layout: &Vec<u32>| {
                let layout = layout.clone();
                (1..=pages_per_block).map(move |pages| [&layout[..], &[pages]].concat())
            };
            layouts = layouts.iter().flat_map(longer).collect();
        }
        let all_end = |free: &u32| {
            let mut commits = 0..pages_per_block;
            commits.all(|used| layouts.iter().all(|l| ends(l, pages_per_block, *free, more_each, used)))
        };
        (1..24).find(all_end).unwrap()
    }

    #[test]
    fn no_sweep_needs_more_blocks_than_are_kept() {
        for (pages_per_block, blocks) in [(2, 8), (3, 6), (4, 5)] {
            let plain = fewest(pages_per_block, blocks, u32::MAX);
            let long = fewest(pages_per_block, blocks, pages_per_block * blocks / 2);
            assert_eq!((plain, long), (2, 3), "{pages_per_block} pages a block");
        }
        let swept = found(24, 1, false, SWEEP_BLOCKS as u32);
        assert!(swept[1] && !swept[4]);
    }
}
