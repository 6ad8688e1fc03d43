//! Pages that a mount reads since the checkpoint: the newest root, the journal leaves after it, and missing
//! pages.

use crate::fault::IndexFault;
use crate::log::Root;
use crate::log::parts::HAS_WRITE_PART;
use crate::log::recovery::corrupted;
use crate::log::runs::Runs;
use crate::log::state::HAS_NOTES;
use crate::log::tag::{Gaps, Place, Tag};
use crate::units::Ppn;
use alloc::vec::Vec;

/// Summary of the pages read since the checkpoint, in the order of their programming: the newest root, and
/// the leaves after it.
pub(super) struct Seen {
    pub(super) root: Option<Root>,
    /// Number of the root's page; 0 if the root is the checkpoint's.
    pub(super) root_sequence: u64,
    /// Leaves since the newest root, by their numbers after the checkpoint's.
    journal: Runs,
    /// Number of the newest page at the checkpoint.
    since: u64,
    /// True if a page was a journal leaf.
    pub(super) has_journal: bool,
    /// True if a page came from a write part, and this engine has none.
    pub(super) has_flush: bool,
    flush: Flush,
    pub(super) numbers: Numbers,
    pub(super) losses: Losses,
}

/// Pages of a flush of a write part that is not complete yet.
#[derive(Default)]
struct Flush {
    pages: Vec<(Ppn, Tag, u64)>,
    /// Number of pages still to come that the next page of the flush must name.
    still_to_come: Option<u8>,
}

/// Newest numbers of pages and blocks, and the gaps in them.
pub(super) struct Numbers {
    /// Highest number of a page read so far.
    pub(super) sequence: u64,
    /// Number of the block that is read.
    block_sequence: u32,
    /// Pages that may have been in blocks reclaimed before the one that is read.
    reclaimed: u64,
    /// True if block numbers are missing before the block being read, and no page of it was read yet.
    is_after_gap: bool,
}

/// Places without a whole page where one is expected.
#[derive(Default)]
pub(super) struct Losses {
    /// Pages since the last whole one that are not whole: the first, and their number.
    unreadable: Option<(Ppn, u32)>,
    /// Pages since the last programmed one that look erased: the first, and their number.
    erased: Option<(Ppn, u32)>,
    /// Page that is missing since the newest root, though pages were programmed after it.
    lost: Option<Ppn>,
    /// True if a page is missing since the last whole flush of a write part.
    is_flush_torn: bool,
    /// True if anything is missing among the pages read: pages to which the tree leads may count as dead, or
    /// their blocks as free.
    pub(super) is_any: bool,
}

impl Flush {
    /// True if a page with `remaining` pages still to come belongs to another flush.
    fn is_ended_by(&self, remaining: u8) -> bool {
        self.still_to_come.is_some_and(|next| next != remaining)
    }

    fn push(&mut self, page: (Ppn, Tag, u64), remaining: u8) {
        self.still_to_come = remaining.checked_sub(1);
        self.pages.push(page);
    }
}

impl Numbers {
    /// Goes on with another block. True if numbers are missing before it.
    fn block(&mut self, number: u32, pages_per_block: u32) -> bool {
        let between = number.saturating_sub(self.block_sequence.saturating_add(1));
        self.reclaimed += u64::from(between) * u64::from(pages_per_block);
        self.block_sequence = number;
        self.is_after_gap |= between > 0;
        between > 0
    }

    /// True if numbers of blocks are missing before this one.
    pub(super) fn is_gap(&self, number: u32) -> bool {
        number > self.block_sequence.saturating_add(1)
    }

    /// Goes on with another page. True if one is missing before it.
    fn page(&mut self, place: &Place) -> bool {
        let is_missing = place.sequence > self.sequence + 1 + core::mem::take(&mut self.reclaimed);
        // A block is reclaimed only once there is a newer root: see `needed`.
        let is_after_gap = core::mem::take(&mut self.is_after_gap);
        self.sequence = self.sequence.max(place.sequence);
        place.gaps == Gaps::None && (is_missing || is_after_gap)
    }
}

impl Losses {
    /// Notes a page that looks as if it were never programmed.
    pub(super) fn erased(&mut self, ppn: Ppn) {
        let (first, count) = self.erased.unwrap_or((ppn, 0));
        self.erased = Some((first, count + 1));
    }

    /// Notes a page that is neither whole nor erased.
    pub(super) fn unreadable(&mut self, ppn: Ppn) {
        self.erased = None;
        let (first, count) = self.unreadable.unwrap_or((ppn, 0));
        self.unreadable = Some((first, count + 1));
    }

    /// Notes a whole page. `is_missing` tells that by its number a page before it is missing.
    fn page(&mut self, ppn: Ppn, place: &Place, is_missing: bool) {
        // The page looks erased, but no writer passed over it.
        let hole = self.erased.take().filter(|pages| pages.1 > u32::from(place.passed_over));
        let torn = self.unreadable.take().or(hole).map(|pages| pages.0);
        let lost = torn.or(is_missing.then_some(ppn));
        self.is_any |= lost.is_some();
        if place.gaps != Gaps::Any {
            // The pages of a write part are not in the order of their numbers: a missing page may be newer
            // than the root.
            self.is_flush_torn |= lost.is_some() && place.gaps == Gaps::Narrow;
            self.lost = self.lost.or(lost);
        }
    }

    /// Ends a flush. True if a page is missing in it.
    fn end_flush(&mut self) -> bool {
        core::mem::take(&mut self.is_flush_torn)
    }

    /// Notes a newer root. `is_flush_torn` tells if a page of its flush is missing.
    fn root(&mut self, is_flush_torn: bool) {
        self.lost = self.lost.filter(|_| is_flush_torn);
    }

    /// Refuses losses that a cut cannot have caused: a cut tears the page programmed last, and no other. A
    /// page lost before the newest root is missed only if the tree leads to it.
    pub(super) fn require_whole(&self, tears: bool) -> Result<(), IndexFault> {
        let torn = self.unreadable.filter(|pages| pages.1 > u32::from(tears)).map(|pages| pages.0);
        match self.lost.or(torn) {
            Some(page) => Err(corrupted("a page written before others is lost", page.0)),
            None => Ok(()),
        }
    }
}

impl Seen {
    /// Begins a summary. `block_sequence` is the number of the last block that is not read.
    pub(super) fn new(sequence: u64, block_sequence: u32, root: Option<Root>) -> Seen {
        Seen {
            root,
            root_sequence: 0,
            journal: Runs::default(),
            since: sequence,
            has_journal: false,
            has_flush: false,
            flush: Flush::default(),
            numbers: Numbers { sequence, block_sequence, reclaimed: 0, is_after_gap: false },
            losses: Losses::default(),
        }
    }

    /// Continues with another block. Blocks numbered between it and the last one were filled and reclaimed:
    /// their valid pages were written again in later pages.
    pub(super) fn block(&mut self, number: u32, pages_per_block: u32) {
        if self.numbers.block(number, pages_per_block) {
            // Blocks are reclaimed only between flushes: the flush that went on in this one was whole.
            if HAS_WRITE_PART {
                self.break_flush();
            }
            self.losses.is_any = true;
        }
    }

    pub(super) fn page(&mut self, ppn: Ppn, tag: Tag, place: Place) {
        let is_missing = self.numbers.page(&place);
        self.losses.page(ppn, &place, is_missing);
        if !HAS_WRITE_PART {
            // Each page is whole by itself.
            self.has_flush |= place.gaps == Gaps::Narrow;
            return self.count((ppn, tag, place.sequence), false);
        }
        // After a flush that was cut only a checkpoint is programmed: so the flush was whole, and pages of it
        // are lost.
        if self.flush.is_ended_by(place.remaining) {
            self.break_flush();
        }
        self.flush.push((ppn, tag, place.sequence), place.remaining);
        if place.remaining == 0 {
            let is_torn = self.losses.end_flush();
            self.end_flush(is_torn);
        }
    }

    /// Ends a flush whose end was not read. The pages read count, and the next pages may belong to it too.
    fn break_flush(&mut self) {
        self.end_flush(self.losses.is_flush_torn);
    }

    /// Ends a flush: its pages that were read count.
    fn end_flush(&mut self, is_torn: bool) {
        for page in core::mem::take(&mut self.flush).pages {
            self.count(page, is_torn);
        }
    }

    /// Counts a page, since neither it nor its flush was cut.
    fn count(&mut self, (ppn, tag, sequence): (Ppn, Tag, u64), is_flush_torn: bool) {
        if tag.root && sequence > self.root_sequence {
            self.root = Some(Root { ppn, height: tag.height });
            self.root_sequence = sequence;
            self.losses.root(is_flush_torn);
            if HAS_NOTES {
                // The list need not hold leaves that the newest root knows.
                let number = self.number(sequence);
                self.journal.drop_to(number);
            }
        }
        self.has_journal |= tag.journal;
        if HAS_NOTES && tag.journal && sequence > self.root_sequence {
            self.journal.push(self.number(sequence), ppn);
        }
    }

    fn number(&self, sequence: u64) -> u32 {
        sequence.saturating_sub(self.since).min(u32::MAX.into()) as u32
    }

    pub(super) fn journal(mut self) -> Runs {
        self.journal.sort();
        self.journal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(seen: &mut Seen, ppn: u32, sequence: u64) {
        let tag = Tag { journal: true, lowest_level: 1, ..Tag::default() };
        let place =
            Place { remaining: 0, block_sequence: 0, sequence, home: 0, gaps: Gaps::None, passed_over: 0 };
        seen.page(Ppn(ppn), tag, place);
    }

    #[test]
    fn a_block_reclaimed_before_the_newest_root_is_no_loss_and_another_one_is() {
        for first in [103, 111, 112] {
            let mut seen = Seen::new(100, 6, None);
            seen.block(7, 8);
            read(&mut seen, 56, 101);
            read(&mut seen, 57, 102);
            assert!(!seen.losses.is_any);
            // Block 8 was filled and reclaimed, or is damaged.
            seen.block(9, 8);
            read(&mut seen, 24, first);
            assert!(
                seen.losses.require_whole(true).is_err(),
                "{first}: what was in it may be newer than the root"
            );
            let tag = Tag { root: true, lowest_level: 1, ..Tag::default() };
            let (home, sequence) = (3, first + 1);
            let gaps = Gaps::None;
            let place = Place { remaining: 0, block_sequence: 9, sequence, home, gaps, passed_over: 0 };
            seen.page(Ppn(25), tag, place);
            assert!(seen.losses.require_whole(true).is_ok(), "{first}");
            assert!(seen.losses.is_any, "only the tree knows what was in it");
        }
        let mut seen = Seen::new(100, 6, None);
        seen.block(7, 8);
        read(&mut seen, 57, 102);
        assert!(seen.losses.require_whole(true).is_err());
    }

    #[test]
    fn a_page_that_reads_as_erased_is_a_loss_unless_it_was_passed_over() {
        for passed_over in 0..=3 {
            let mut seen = Seen::new(100, 6, None);
            seen.block(7, 8);
            let tag = Tag { journal: true, lowest_level: 1, ..Tag::default() };
            let place = Place {
                remaining: 0,
                block_sequence: 7,
                sequence: 101,
                home: 0,
                gaps: Gaps::Narrow,
                passed_over: 0,
            };
            seen.page(Ppn(56), tag, place);
            seen.losses.erased(Ppn(57));
            seen.losses.erased(Ppn(58));
            assert!(seen.losses.require_whole(true).is_ok());
            seen.page(Ppn(59), tag, Place { sequence: 102, passed_over, ..place });
            assert_eq!(seen.losses.require_whole(true).is_err(), passed_over < 2);
        }
    }

    // Pages of a flush are of a write part, and leaves of a journal are noted where nodes move.
    #[cfg(feature = "full")]
    #[test]
    fn a_flush_whose_end_was_reclaimed_counts() {
        let mut seen = Seen::new(100, 6, None);
        let tag = Tag { journal: true, lowest_level: 1, ..Tag::default() };
        let place = |block_sequence, sequence, remaining| Place {
            remaining,
            block_sequence,
            sequence,
            home: 0,
            gaps: Gaps::Narrow,
            passed_over: 0,
        };
        seen.block(7, 8);
        seen.page(Ppn(63), tag, place(7, 101, 3));
        seen.block(9, 8);
        seen.page(Ppn(8), tag, place(9, 120, 2));
        assert!(seen.losses.require_whole(true).is_ok());
        assert_eq!(seen.journal().iter().collect::<Vec<_>>(), [Ppn(63)]);
    }

    // Pages of a flush are of a write part.
    #[cfg(feature = "embedded")]
    #[test]
    fn a_page_missing_in_the_flush_of_the_newest_root_is_a_loss() {
        let mut seen = Seen::new(100, 6, None);
        seen.block(7, 8);
        let place = |sequence, remaining| Place {
            remaining,
            block_sequence: 7,
            sequence,
            home: 0,
            gaps: Gaps::Narrow,
            passed_over: 0,
        };
        let root = Tag { root: true, lowest_level: 1, ..Tag::default() };
        seen.page(Ppn(56), root, place(101, 0));
        seen.losses.unreadable(Ppn(57));
        seen.page(Ppn(58), root, place(102, 0));
        assert!(
            seen.losses.require_whole(true).is_err(),
            "a leaf of a journal may be newer than the root behind it"
        );
        seen.page(Ppn(59), root, place(104, 0));
        assert!(seen.losses.require_whole(true).is_ok());
    }
}
