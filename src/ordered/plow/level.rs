//! A level: pages in key order, rewritten round by round by its sweep.
//!
//! The cursor parts it: pages with keys below the cursor were written in this round (`new`), the others in
//! the round before (`old`). In the first old page the records below the cursor are dead. In the page around
//! the cursor of the next level the records below that cursor are dead too, because a step of the next level
//! took them. No other page has dead records, since a step ends its page at the cursors below.

use super::cost::LEVELS_MAX;
use super::fences::{HEAD_BYTES, Run};
use crate::bits;
use crate::units::{Pbn, Ppn};
use alloc::boxed::Box;
use alloc::vec::Vec;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// Pages of this round, with keys below the cursor.
    New,
    /// Pages of the round before.
    Old,
}

/// The run of pages that a level and its part name.
pub(super) type RunAt = (usize, Part);

/// A page of a level: its part (run), and its number in the part.
pub(super) type Place = (Part, usize);

/// A level: its two runs and its sweep.
#[derive(Debug, Default)]
pub(super) struct Level {
    pub(super) old: Run,
    pub(super) new: Run,
    /// Cursor: the first key not yet written in this round, at which the next step begins. Empty: before all
    /// keys.
    pub(super) cursor: Box<[u8]>,
    /// Number of records, without dead ones that a page still holds.
    pub(super) records: usize,
    /// Number of rounds so far, wrapping.
    pub(super) round: u32,
    /// Block being filled, and its next page.
    pub(super) open: Option<(Pbn, u32)>,
}

/// Bytes of all levels, without those that count to their lists.
pub(super) const BYTES: usize = LEVELS_MAX * (size_of::<Level>() - 2 * HEAD_BYTES);

impl Level {
    pub(super) fn pages(&self) -> usize {
        self.old.pages() + self.new.pages()
    }

    pub(super) fn run(&self, part: Part) -> &Run {
        match part {
            Part::New => &self.new,
            Part::Old => &self.old,
        }
    }

    pub(super) fn run_mut(&mut self, part: Part) -> &mut Run {
        match part {
            Part::New => &mut self.new,
            Part::Old => &mut self.old,
        }
    }

    pub(super) fn part_of(&self, key: &[u8]) -> Part {
        if key < &self.cursor[..] { Part::New } else { Part::Old }
    }

    pub(super) fn page(&self, (part, index): Place) -> Option<Ppn> {
        self.run(part).page(index)
    }

    pub(super) fn first(&self) -> Option<Place> {
        let part = if self.new.is_empty() { Part::Old } else { Part::New };
        (!self.run(part).is_empty()).then_some((part, 0))
    }

    pub(super) fn last(&self) -> Option<Place> {
        let part = if self.old.is_empty() { Part::New } else { Part::Old };
        self.run(part).pages().checked_sub(1).map(|index| (part, index))
    }

    pub(super) fn next(&self, (part, index): Place) -> Option<Place> {
        let (next, pages) = (index + 1, self.run(part).pages());
        match part {
            _ if next < pages => Some((part, next)),
            Part::New if !self.old.is_empty() => Some((Part::Old, 0)),
            _ => None,
        }
    }

    pub(super) fn previous(&self, (part, index): Place) -> Option<Place> {
        match part {
            _ if index > 0 => Some((part, index - 1)),
            Part::Old => self.new.pages().checked_sub(1).map(|index| (Part::New, index)),
            Part::New => None,
        }
    }

    /// True if a page of the level lies from `from` on and before `to`.
    pub(super) fn uses(&self, from: Ppn, to: Ppn) -> bool {
        self.old.uses(from, to) || self.new.uses(from, to)
    }

    /// Moves the cursor to a key.
    pub(super) fn move_to(&mut self, key: &[u8]) {
        if self.cursor.len() == key.len() {
            self.cursor.copy_from_slice(key);
        } else {
            self.cursor = key.into();
        }
    }

    /// Begins the next round: the new pages become the old ones.
    pub(super) fn wrap(&mut self) {
        debug_assert!(self.old.is_empty(), "I3: a round ends with pages that it did not write anew");
        self.old = core::mem::take(&mut self.new);
        self.cursor = Box::default();
        self.round = self.round.wrapping_add(1);
    }

    /// Number of blocks with pages of the level, or of which it fills one.
    pub(super) fn blocks(&self, pages_per_block: u32) -> usize {
        let (mut count, mut noted) = (0, Vec::new());
        let mut note = |block: Pbn| {
            let (word, bit) = bits::place(block.index());
            if word >= noted.len() {
                noted.resize(word + 1, 0);
            }
            count += usize::from(noted[word] & bit == 0);
            noted[word] |= bit;
        };
        let extents = self.old.extents().chain(self.new.extents());
        extents.for_each(|extent| note(Pbn(extent.first().0 / pages_per_block)));
        if let Some((block, _)) = self.open {
            note(block);
        }
        count
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.old.ram_bytes() + self.new.ram_bytes() + self.cursor.len()
    }
}
