//! Summaries: where the pages of a block begin, so that a mount need not read them.
//!
//! The last page of a block of a level is a summary, and a close writes one behind the pages of each block
//! that is being filled. The first level, of whose pages filters are made, has none where there are others,
//! and neither have blocks of few pages, of which a summary would be a large part.
//!
//! ```text
//! for each group of pages: its first page in the block; bytes of its begin; its begin less that of the group before, wrapping
//! ```
//!
//! The header says how many groups there are, and a number before them how many pages of the block they
//! cover. A summary tells what the fences did: of a page, a position not behind its first key. It may tell of
//! pages that no root names; and of those of several levels, where blocks were short and one was shared.
//!
//! Where not all groups fit, the pages from the first one that is left out are not covered: a mount reads
//! them. Former builds left groups out and covered their pages all the same. Such a summary ends less than a
//! longest group before the end of the page. None ends there any more, and one that does is not trusted.

use super::Core;
use super::io::Target;
use super::levels::Levels;
use super::page::{HEADER_BYTES, Header, Kind};
use super::root::{Reader, Writer};
use crate::fault::IndexFault;
use crate::nand::{Geometry, Nand};
use crate::units::{Pbn, Ppn};

/// Pages of a block from which on there are summaries.
const PAGES_MIN: u32 = 32;
/// Pages that a mount reads rather than have a close write a summary of them.
const PAGES_LEFT: u32 = 4;

/// Bytes of the longest group. Behind the last one so many are left over.
const GROUP_BYTES_MAX: usize = 15;

/// A summary in a page's body, read group by group.
#[derive(Clone)]
pub(super) struct Groups<'a> {
    reader: Reader<'a>,
    left: u16,
    before: u64,
    /// Pages of the block that are covered.
    pub(super) covered: u32,
}

impl<'a> Groups<'a> {
    /// The groups in a body; none if it makes no sense, or some may have been left out.
    pub(super) fn new(body: &'a [u8], count: u16) -> Option<Groups<'a>> {
        let mut reader = Reader::new(body);
        let covered = reader.short()?;
        let groups = Groups { reader, left: count, before: 0, covered };
        let mut all = groups.clone();
        let told = all.by_ref().count();
        (told == usize::from(count) && all.reader.at() + GROUP_BYTES_MAX <= body.len()).then_some(groups)
    }

    /// Where the pages of a row begin, one after the other from its first page on, as far as they are
    /// covered; none if that page is not told of.
    ///
    /// All pages that a root names are told of by a summary of before it. A newer one leaves out those that
    /// were dead by then, which a group of another row may seem to reach.
    pub(super) fn of_row(
        mut self,
        start: u32,
        pages: u32,
        is_of_before: bool,
    ) -> Option<impl Iterator<Item = u64> + use<'a>> {
        let covered = self.covered;
        // The group in which the row begins, and those behind it. Old pages are told first, then new ones, of
        // which some may lie before those.
        let mut begun: Option<((u32, u64), Groups<'a>)> = None;
        while let Some(group) = self.next() {
            if group.0 <= start && begun.as_ref().is_none_or(|(before, _)| group.0 >= before.0) {
                begun = Some((group, self.clone()));
            }
        }
        let ((mut at, mut low), mut groups) = begun.filter(|(group, _)| is_of_before || group.0 == start)?;
        let mut next = groups.next();
        Some((start..covered.min(start + pages)).map(move |page| {
            while let Some((group, begin)) = next
                && (at..=page).contains(&group)
            {
                (at, low, next) = (group, begin, groups.next());
            }
            low
        }))
    }
}

impl Iterator for Groups<'_> {
    /// The first page of a group in its block, and where it begins.
    type Item = (u32, u64);

    fn next(&mut self) -> Option<(u32, u64)> {
        self.left = self.left.checked_sub(1)?;
        let page = self.reader.short()?;
        self.before = self.before.wrapping_add(self.reader.wide()?);
        Some((page, self.before))
    }
}

impl Levels {
    /// Whether the blocks of a level have summaries.
    fn has_summaries(&self, level: usize) -> bool {
        are_written(self.pages_per_block) && (level > 0 || self.len() == 1)
    }

    /// Pages of the block being filled that follow each other up to its next page: before them may be a
    /// summary.
    fn unsummarised(&self, level: usize, block: Pbn, next: u32) -> u32 {
        let end = block.0 * self.pages_per_block + next;
        let extents = self[level].new.extents().iter().chain(self[level].old.extents());
        extents
            .filter(|extent| extent.first().0 + extent.pages() as u32 == end)
            .map(|extent| extent.pages() as u32)
            .sum()
    }

    /// Writes the groups of so many pages of a block: how many it took, and the first page that is not
    /// covered by them.
    fn write_groups(&self, body: &mut [u8], block: Pbn, covered: u32) -> (u16, u32) {
        let room = body.len();
        body.fill(0);
        let mut writer = Writer::new(body);
        writer.number(covered.into());
        let first = Ppn(block.0 * self.pages_per_block);
        let (mut count, mut before, mut left_out) = (0, 0u64, covered);
        let mut put = |page: Ppn, low: u64| {
            let page = page.0 - first.0;
            // The group itself, and what stays behind the last one.
            if left_out < covered || writer.at() + 2 * GROUP_BYTES_MAX > room {
                left_out = left_out.min(page);
                return;
            }
            writer.number(page.into());
            writer.wide(low.wrapping_sub(before));
            (before, count) = (low, count + 1);
        };
        // Where blocks were short, pages of several levels lie in it.
        self.runs().for_each(|run| run.for_groups(first, Ppn(first.0 + covered), &mut put));
        (count, left_out)
    }
}

impl<N: Nand> Core<N> {
    /// Writes the summary of the block being filled, if only its last page is left.
    pub(super) fn summarise_full(&mut self, level: usize) -> Result<(), IndexFault> {
        match self.levels[level].open {
            Some((block, next)) if next + 1 == self.levels.pages_per_block => {
                self.summarise(level, block, next)
            }
            _ => Ok(()),
        }
    }

    /// Writes summaries of all blocks being filled of which a mount would read many pages.
    pub(super) fn summarise_open(&mut self) -> Result<(), IndexFault> {
        for level in 0..self.levels.len() {
            if let Some((block, next)) = self.levels[level].open
                && self.levels.unsummarised(level, block, next) > PAGES_LEFT
            {
                self.summarise(level, block, next)?;
            }
        }
        Ok(())
    }

    /// Writes the summary of so many pages of a block, where its level has any.
    fn summarise(&mut self, level: usize, block: Pbn, filled: u32) -> Result<(), IndexFault> {
        if !self.levels.has_summaries(level) {
            return Ok(());
        }
        let (body, mut covered) = (&mut self.medium.output[HEADER_BYTES..], filled);
        let count = loop {
            let (count, left_out) = self.levels.write_groups(body, block, covered);
            if left_out == covered {
                break count;
            }
            // Pages behind those need no group any more, so that others may have room.
            covered = left_out;
        };
        let header = Header { kind: Kind::Summary, count, ..Header::run(0, false) };
        // In another block it would be of no use.
        self.program_once(Target::Level(level), header, false).map(|_| ())
    }
}

/// Whether blocks of so many pages have summaries.
pub(super) fn are_written(pages_per_block: u32) -> bool {
    cfg!(feature = "full") && pages_per_block >= PAGES_MIN
}

/// Where the summary of a block may be of which a root names pages up to this one, the likeliest first.
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
