//! A level: pages in key order, rewritten round and round by its sweep.
//!
//! The cursor parts it: pages with keys below it were written in this round (`new`), the others in the round
//! before (`old`). Of the first old page the records below the cursor are dead. So are those below the cursor
//! of the next level in the page around that cursor, because a step of the next level took them; no other
//! page has dead records, since a step ends its page at the cursors below.

use super::fences::Run;
use crate::bits;
use crate::units::{Pbn, Ppn};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Which pages of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// Pages of this round, with keys below the cursor.
    New,
    /// Pages of the round before.
    Old,
}

/// The run of pages that a level and its part name.
pub(super) type RunAt = (usize, Part);

/// A page of a level: its part and its number there.
pub(super) type Place = (Part, usize);

/// A level.
#[derive(Debug, Default)]
pub(super) struct Level {
    pub(super) old: Run,
    pub(super) new: Run,
    /// Where the next step begins: the first key not yet written in this round. Empty: before all keys.
    pub(super) cursor: Box<[u8]>,
    /// Records, dead ones that a page still holds not counted.
    pub(super) records: usize,
    /// Rounds so far.
    pub(super) round: u32,
    /// The block being filled and its next page.
    pub(super) open: Option<(Pbn, u32)>,
}

impl Level {
    /// Pages.
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

    /// The part in which a key would be.
    pub(super) fn part_of(&self, key: &[u8]) -> Part {
        if key < &self.cursor[..] { Part::New } else { Part::Old }
    }

    /// The page at a place.
    pub(super) fn page(&self, (part, index): Place) -> Option<Ppn> {
        self.run(part).page(index)
    }

    /// The first page.
    pub(super) fn first(&self) -> Option<Place> {
        let part = if self.new.is_empty() { Part::Old } else { Part::New };
        (!self.run(part).is_empty()).then_some((part, 0))
    }

    /// The last page.
    pub(super) fn last(&self) -> Option<Place> {
        let part = if self.old.is_empty() { Part::New } else { Part::Old };
        self.run(part).pages().checked_sub(1).map(|index| (part, index))
    }

    /// The page after this one.
    pub(super) fn next(&self, (part, index): Place) -> Option<Place> {
        let (next, pages) = (index + 1, self.run(part).pages());
        match part {
            _ if next < pages => Some((part, next)),
            Part::New if !self.old.is_empty() => Some((Part::Old, 0)),
            _ => None,
        }
    }

    /// The page before this one.
    pub(super) fn previous(&self, (part, index): Place) -> Option<Place> {
        match part {
            _ if index > 0 => Some((part, index - 1)),
            Part::Old => self.new.pages().checked_sub(1).map(|index| (Part::New, index)),
            Part::New => None,
        }
    }

    /// Whether a page between these two is one of it, the second excluded.
    pub(super) fn uses(&self, from: Ppn, to: Ppn) -> bool {
        self.old.uses(from, to) || self.new.uses(from, to)
    }

    /// Begins the next round.
    pub(super) fn wrap(&mut self) {
        debug_assert!(self.old.is_empty(), "I3: a round ends with pages that it did not write anew");
        self.old = core::mem::take(&mut self.new);
        self.cursor = Box::default();
        self.round = self.round.wrapping_add(1);
    }

    /// The blocks that its pages lie in.
    pub(super) fn blocks(&self, pages_per_block: u32) -> Vec<Pbn> {
        let (mut blocks, mut noted) = (Vec::new(), Vec::new());
        let mut note = |block: Pbn| {
            let (word, bit) = bits::place(block.index());
            if word >= noted.len() {
                noted.resize(word + 1, 0);
            }
            if noted[word] & bit == 0 {
                noted[word] |= bit;
                blocks.push(block);
            }
        };
        for run in &[&self.old, &self.new] {
            for extent in run.extents() {
                note(Pbn(extent.first().0 / pages_per_block));
            }
        }
        if let Some((block, _)) = self.open {
            note(block);
        }
        blocks
    }

    /// Bytes held besides the level itself.
    pub(super) fn ram_bytes(&self) -> usize {
        self.old.ram_bytes() + self.new.ram_bytes() + self.cursor.len()
    }
}
