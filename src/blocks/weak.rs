//! The block of a page that was hard to read. Reads disturb all pages of their block, so the others are
//! looked at too, and each that needed any correction is moved.
//!
//! Moves are paid for: on a chip that reports every read as hard, an owner would else wear the chip out. A
//! program earns half a move and a read an eighth, and a look costs what a read earns. So over its life a
//! chip is programmed at most one and a half times as often, and an eighth of its reads: a block that is
//! disturbed by a thousand reads has paid for more pages than it holds.

use crate::nand::Reading;
use crate::units::Ppn;
use core::ops::Range;

/// Pages of a weak block that an operation looks at.
pub const LOOKS: u32 = 2;

/// Credit that a read earns, and that a look costs.
const READ: i32 = 1;
/// Credit that a program earns.
const PROGRAM: i32 = 4;
/// Credit that a program for a move costs.
const MOVE: i32 = 8;
/// Credit at the start.
const START: i32 = 8 * MOVE;
/// Most credit.
const MOST: i32 = 256 * MOVE;

/// Programs and reads of an owner, as far as they pay for moves.
#[derive(Clone, Copy, Debug)]
pub struct Credit {
    left: i32,
    /// True while a page is looked at or moved.
    is_spent: bool,
}

impl Default for Credit {
    fn default() -> Credit {
        Credit { left: START, is_spent: false }
    }
}

impl Credit {
    /// Counts a read.
    pub fn note_read(&mut self) {
        if !self.is_spent {
            self.left = (self.left + READ).min(MOST);
        }
    }

    /// Counts a program: it earns, or is paid for if it is the work of a move.
    pub fn note_program(&mut self) {
        let earned = if self.is_spent { -MOVE } else { PROGRAM };
        self.left = (self.left + earned).min(MOST);
    }

    /// True if a move can be paid for.
    pub fn is_enough(self) -> bool {
        self.left >= MOVE
    }

    /// Begins or ends the work of a move.
    pub fn spend(&mut self, is_spent: bool) {
        self.is_spent = is_spent;
    }
}

/// Pages of one block to look at, and the credit to move them.
#[derive(Clone, Debug)]
pub struct WeakBlock {
    /// Reads and programs of the owner.
    pub credit: Credit,
    /// Programmed pages of the block.
    pages: Range<u32>,
    next: u32,
    left: u32,
}

impl Default for WeakBlock {
    fn default() -> WeakBlock {
        WeakBlock { credit: Credit::default(), pages: 0..0, next: 0, left: 0 }
    }
}

impl WeakBlock {
    /// Notes how a page was read, one of these programmed pages of its block. If the page is weak, they are
    /// looked at. A weak page that is found while another block is under way is not kept: it will be found
    /// again.
    pub fn note(&mut self, ppn: Ppn, reading: Reading, pages: Range<u32>) {
        self.credit.note_read();
        if reading == Reading::Weak && self.left == 0 && !self.credit.is_spent {
            debug_assert!(pages.contains(&ppn.0), "{ppn} was read and not programmed");
            *self = WeakBlock { left: pages.end - pages.start, next: ppn.0, pages, ..*self };
        }
    }

    /// Number of pages to look at; 0 while they cannot be paid for.
    pub fn due(&self) -> u32 {
        if self.credit.is_enough() { self.left } else { 0 }
    }

    /// True if pages have to be looked at, and can be paid for.
    pub fn is_due(&self) -> bool {
        self.due() > 0
    }

    /// True while a page is looked at or moved.
    pub fn is_at_work(&self) -> bool {
        self.credit.is_spent
    }

    /// Next page to look at. Reads and programs from now on are the work of a move, until
    /// [`WeakBlock::rest`].
    pub fn take(&mut self) -> Option<Ppn> {
        if !self.is_due() {
            return None;
        }
        let ppn = self.next;
        self.next = if ppn + 1 < self.pages.end { ppn + 1 } else { self.pages.start };
        self.left -= 1;
        self.credit.left -= READ;
        self.credit.spend(true);
        Some(Ppn(ppn))
    }

    /// Ends the work on a page.
    pub fn rest(&mut self) {
        self.credit.spend(false);
    }

    /// Drops the block, for which there is no room: a later read finds it again.
    pub fn give_up(&mut self) {
        self.left = 0;
        self.rest();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn all_pages_of_a_block_are_looked_at_once_from_the_weak_one_on() {
        let mut weak = WeakBlock::default();
        weak.note(Ppn(10), Reading::Weak, 8..12);
        weak.note(Ppn(3), Reading::Weak, 0..4);
        let mut looked_at = Vec::new();
        while let Some(ppn) = weak.take() {
            weak.note(Ppn(9), Reading::Weak, 8..12);
            weak.rest();
            looked_at.push(ppn.0);
        }
        assert_eq!(looked_at, [10, 11, 8, 9]);
        assert_eq!(weak.due(), 0);
    }

    #[test]
    fn where_all_is_weak_at_most_every_second_program_is_a_move() {
        let (mut weak, mut moves) = (WeakBlock::default(), 0);
        for _ in 0..10_000 {
            weak.credit.note_program();
            if weak.left == 0 {
                weak.note(Ppn(0), Reading::Weak, 0..64);
            }
            if weak.take().is_some() {
                weak.credit.note_program();
                moves += 1;
            }
            weak.rest();
        }
        assert!((4_000..=5_100).contains(&moves), "{moves}");
    }

    #[test]
    fn a_chip_that_is_only_read_earns_the_moves_of_a_block() {
        let (mut weak, mut moved) = (WeakBlock::default(), 0);
        for _ in 0..1_000 {
            weak.credit.note_read();
        }
        weak.note(Ppn(0), Reading::Weak, 0..56);
        while weak.take().is_some() {
            weak.credit.note_program();
            weak.rest();
            moved += 1;
        }
        assert_eq!(moved, 56);
    }
}
