//! Summaries: positions of the pages of a block, so that a mount need not read them.
//!
//! The last page of a block of a level is a summary, and a close writes one behind the pages of each block
//! that is being filled. The first level has none if there are others, since its pages are read for their
//! filters. Neither have blocks of few pages, of which a summary would be a large part.
//!
//! ```text
//! for each group of pages: its first page in the block; bytes of its begin; its begin less that of the group before, wrapping
//! ```
//!
//! The header tells the number of groups, and a number before the groups tells how many pages of the block
//! they cover. A summary tells the same as the fences did: for each page, a position not behind its first
//! key. It may tell of pages that no root names, and of pages of several levels if blocks were short and one
//! was shared.
//!
//! If not all groups fit, the pages from the first group left out are not covered: a mount reads them. Former
//! builds left groups out and covered their pages all the same. Such a summary ends less than a longest group
//! before the end of the page. No summary ends there any more, and one that does is not trusted.

use super::Core;
use super::io::Target;
use super::levels::Levels;
use super::page::{HEADER_BYTES, Header, Kind};
use super::root::{Reader, Writer};
use crate::fault::IndexFault;
use crate::nand::{Geometry, Nand};
use crate::units::{Pbn, Ppn};

/// Blocks have summaries if they have at least this many pages.
const PAGES_MIN: u32 = 32;
/// For at most this many pages a close writes no summary; a mount reads the pages instead.
const PAGES_LEFT: u32 = 4;

/// Bytes of the longest group. This many stay free behind the last one.
const GROUP_BYTES_MAX: usize = 15;

/// Reader of a summary, group by group.
#[derive(Clone)]
pub(super) struct Groups<'a> {
    reader: Reader<'a>,
    left: u16,
    before: u64,
    /// Number of pages of the block that are covered.
    pub(super) covered: u32,
}

impl<'a> Groups<'a> {
    /// The groups in the body of a page. `None` if they make no sense, or if some may have been left out.
    pub(super) fn new(body: &'a [u8], count: u16) -> Option<Groups<'a>> {
        let mut reader = Reader::new(body);
        let covered = reader.short()?;
        let groups = Groups { reader, left: count, before: 0, covered };
        let mut all = groups.clone();
        let told = all.by_ref().count();
        (told == usize::from(count) && all.reader.at() + GROUP_BYTES_MAX <= body.len()).then_some(groups)
    }

    /// Positions of the pages of a row, from the first page on with which a group begins, as far as they are
    /// covered. `None` if no group begins in the row.
    ///
    /// A page before that may lie in a group that began in another row. The summary need not tell of it: its
    /// steps may have been lost in a power cut, and pages that were dead for it live on. So it is read.
    pub(super) fn of_row(mut self, start: u32, pages: u32) -> Option<(u32, impl Iterator<Item = u64>)> {
        let end = self.covered.min(start + pages);
        // Old pages are told first, then new ones, of which some may lie before the old.
        let mut begun: Option<((u32, u64), Groups<'a>)> = None;
        while let Some(group) = self.next() {
            let is_first = begun.as_ref().is_none_or(|(first, _)| group.0 < first.0);
            if (start..end).contains(&group.0) && is_first {
                begun = Some((group, self.clone()));
            }
        }
        let ((first, mut low), mut groups) = begun?;
        let (mut at, mut next) = (first, groups.next());
        let positions = (first..end).map(move |page| {
            while let Some((group, begin)) = next
                && (at..=page).contains(&group)
            {
                (at, low, next) = (group, begin, groups.next());
            }
            low
        });
        Some((first - start, positions))
    }
}

impl Iterator for Groups<'_> {
    /// First page of a group in its block, and its position.
    type Item = (u32, u64);

    fn next(&mut self) -> Option<(u32, u64)> {
        self.left = self.left.checked_sub(1)?;
        let page = self.reader.short()?;
        self.before = self.before.wrapping_add(self.reader.wide()?);
        Some((page, self.before))
    }
}

impl Levels {
    fn has_summaries(&self, level: usize) -> bool {
        are_written(self.pages_per_block) && (level > 0 || self.len() == 1)
    }

    /// Number of pages of the level that follow each other up to the next page of the block being filled.
    /// Pages before them may have a summary already.
    fn unsummarised(&self, level: usize, block: Pbn, next: u32) -> u32 {
        let end = block.0 * self.pages_per_block + next;
        let extents = self[level].new.extents().chain(self[level].old.extents());
        extents
            .filter(|extent| extent.first().0 + extent.pages() as u32 == end)
            .map(|extent| extent.pages() as u32)
            .sum()
    }

    /// Writes the groups of the first `covered` pages of a block. Returns the number of groups, and the first
    /// page that they do not cover.
    fn write_groups(&self, body: &mut [u8], block: Pbn, covered: u32) -> (u16, u32) {
        let room = body.len();
        body.fill(0);
        let mut writer = Writer::new(body);
        writer.number(covered.into());
        let first = Ppn(block.0 * self.pages_per_block);
        let (mut count, mut before, mut left_out) = (0, 0u64, covered);
        let mut put = |page: Ppn, low: u64| {
            let page = page.0 - first.0;
            // Room for the group itself, and for what stays free behind the last one.
            if left_out < covered || writer.at() + 2 * GROUP_BYTES_MAX > room {
                left_out = left_out.min(page);
                return;
            }
            writer.number(page.into());
            writer.wide(low.wrapping_sub(before));
            (before, count) = (low, count + 1);
        };
        // If blocks were short, pages of several levels lie in the block.
        self.runs().for_each(|run| run.for_groups(first, Ppn(first.0 + covered), &mut put));
        (count, left_out)
    }
}

impl<N: Nand> Core<N> {
    /// Writes the summary of the block being filled, if only its last page is left.
    pub(super) fn summarise_full(&mut self, level: usize) -> Result<(), IndexFault> {
        match self.stock.levels[level].open {
            Some((block, next)) if next + 1 == self.stock.levels.pages_per_block => {
                self.summarise(level, block, next)
            }
            _ => Ok(()),
        }
    }

    /// Writes summaries of all blocks being filled of which a mount would otherwise read many pages.
    pub(super) fn summarise_open(&mut self) -> Result<(), IndexFault> {
        for level in 0..self.stock.levels.len() {
            if let Some((block, next)) = self.stock.levels[level].open
                && self.stock.levels.unsummarised(level, block, next) > PAGES_LEFT
            {
                self.summarise(level, block, next)?;
            }
        }
        Ok(())
    }

    /// Writes the summary of the first `filled` pages of a block, if its level has summaries.
    fn summarise(&mut self, level: usize, block: Pbn, filled: u32) -> Result<(), IndexFault> {
        if !self.stock.levels.has_summaries(level) {
            return Ok(());
        }
        let (body, mut covered) = (&mut self.medium.output[HEADER_BYTES..], filled);
        let count = loop {
            let (count, left_out) = self.stock.levels.write_groups(body, block, covered);
            if left_out == covered {
                break count;
            }
            // Pages that are not covered need no group, so others may have room.
            covered = left_out;
        };
        let header = Header { kind: Kind::Summary, count, ..Header::run(0, false) };
        // In another block the summary would be of no use.
        self.programs().program_once(Target::Level(level), header, false).map(|_| ())
    }
}

/// True if blocks of this many pages have summaries.
pub(super) fn are_written(pages_per_block: u32) -> bool {
    cfg!(feature = "full") && pages_per_block >= PAGES_MIN
}

/// Pages that may hold the summary of a block, the likeliest first. `last` is the last page there that a root
/// names.
pub(super) fn places(geometry: Geometry, last: Ppn, is_open: bool) -> [Option<Ppn>; 2] {
    let end = Ppn(geometry.page_at(geometry.block_of(last), 0).0 + geometry.pages_per_block - 1);
    let behind = Ppn(last.0 + 1);
    match geometry.pages_per_block >= PAGES_MIN && last < end {
        false => [None, None],
        true if behind == end => [Some(end), None],
        true if is_open => [Some(behind), None],
        true => [Some(end), Some(behind)],
    }
}

#[cfg(test)]
#[cfg(feature = "full")]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_row_is_told_of_from_the_first_group_that_begins_in_it() {
        let mut body = [0; 80];
        let mut writer = Writer::new(&mut body);
        writer.number(31);
        let (mut before, told) = (0u64, [(2, 531), (6, 1542), (11, 2029), (12, 2701), (28, 31), (29, 163)]);
        for (page, low) in told {
            writer.number(page);
            writer.wide(u64::wrapping_sub(low, before));
            before = low;
        }
        let of_row = |start, pages| {
            let groups = Groups::new(&body, told.len() as u16).unwrap();
            groups.of_row(start, pages).map(|(first, lows)| (first, lows.collect::<Vec<_>>()))
        };
        assert_eq!(of_row(2, 3), Some((0, [531; 3].to_vec())));
        assert_eq!(of_row(11, 3), Some((0, [2029, 2701, 2701].to_vec())));
        assert_eq!(of_row(28, 3), Some((0, [31, 163, 163].to_vec())), "the last page is covered no more");
        // Page 10 was dead for the summary. It may live on, and is in no group then.
        assert_eq!(of_row(10, 1), None);
        assert_eq!(of_row(9, 4), Some((2, [2029, 2701].to_vec())));
        assert_eq!((of_row(0, 2), of_row(31, 1)), (None, None));
    }
}
