//! The end of the log that is written to: the open block, the numbers given last, and the newest root.
//!
//! The blocks with pages since the newest root are those that the next mount cannot do without. A power cut
//! in the erase of a block leaves any part of its pages unreadable. Where a mount expects them, because they
//! were programmed after the newest root, it cannot know that all were dead. So before such a block is erased
//! a root is programmed. With a write part it takes two: a page that cannot be read before a flush may be of
//! that flush.

use super::Root;
use super::tag::{BLOCK_BITS, Gaps, Place, SEQUENCE_BITS};
use crate::blocks::BlockTable;
use crate::codec::numbers;
use crate::nand::Geometry;
use crate::units::{Pbn, Ppn};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frontier {
    pub(super) block: Option<Pbn>,
    pub(super) next_page: u32,
    pub(super) block_sequence: u32,
}

/// Numbers of blocks that the next mount needs.
#[derive(Clone, Copy, Debug)]
struct Needed {
    /// A mount needs this one and those opened after it.
    from: u32,
    /// The need once another flush with a root is programmed.
    next: u32,
}

/// The end of the log.
pub(super) struct Head {
    pub(super) frontier: Frontier,
    needed: Needed,
    /// The newest number of a page.
    pub(super) sequence: u64,
    pub(super) root: Option<Root>,
    /// The operation under way goes on after the next root: what is programmed of it is no root yet.
    pub(super) goes_on: bool,
}

impl Head {
    /// The end of a log as a checkpoint has it.
    pub(super) fn new(frontier: Frontier, sequence: u64, root: Option<Root>) -> Head {
        let mut head = Head { frontier, needed: Needed { from: 0, next: 0 }, sequence, root, goes_on: false };
        head.note_checkpoint();
        head
    }

    /// After a checkpoint a mount reads on in the block that is open then, or with the next one.
    pub(super) fn note_checkpoint(&mut self) {
        self.need_from(self.frontier.block_sequence + u32::from(self.frontier.block.is_none()));
    }

    /// A root was programmed in the open block, while no page waits in RAM.
    pub(super) fn note_root(&mut self) {
        self.need_from(self.frontier.block_sequence);
    }

    fn need_from(&mut self, block: u32) {
        self.needed = Needed { from: block, next: block };
    }

    /// A flush that began in this block has programmed a root.
    pub(super) fn note_flush(&mut self, block: u32) {
        self.needed = Needed { from: self.needed.next, next: block };
    }

    /// Whether a mount would miss pages of a block that was opened under this number, though all of them are
    /// dead.
    pub(super) fn needs(&self, opening: u16) -> bool {
        let newest = self.frontier.block_sequence;
        // A block is known by the low bits of its number: an old one may be taken for needed, never the other
        // way.
        let age = (newest as u16).wrapping_sub(opening);
        newest.saturating_sub(u32::from(age)) >= self.needed.from
    }

    /// Pages of the open block that are left.
    pub(super) fn open_pages(&self, pages_per_block: u32) -> u32 {
        debug_assert!(self.frontier.next_page <= pages_per_block, "the open block is more than full");
        self.frontier.block.map_or(0, |_| pages_per_block - self.frontier.next_page)
    }

    /// Whether an address may be given to a page before anything is collected.
    pub(super) fn is_ahead(&self, blocks: &BlockTable, ppn: Ppn) -> bool {
        let geometry = blocks.geometry();
        let block = geometry.block_of(ppn);
        match self.frontier.block {
            Some(open) if open == block => geometry.page_in_block(ppn) >= self.frontier.next_page,
            _ => blocks.state(block).is_free(),
        }
    }

    /// The place of a page that is programmed next, by itself.
    pub(super) fn place(&self, geometry: Geometry, ppn: Ppn, gaps: Gaps) -> Place {
        Place {
            remaining: 0,
            block_sequence: self.frontier.block_sequence,
            sequence: self.sequence,
            home: geometry.block_of(ppn).0,
            gaps,
            passed_over: 0,
        }
    }

    /// Numbers of pages left for changes.
    pub(super) fn numbers_left(&self) -> u64 {
        let blocks = numbers(BLOCK_BITS).saturating_sub(self.frontier.block_sequence.into());
        numbers(SEQUENCE_BITS).saturating_sub(self.sequence).min(blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(block_sequence: u32) -> Head {
        Head::new(Frontier { block: Some(Pbn(3)), next_page: 5, block_sequence }, 0, None)
    }

    #[test]
    fn blocks_since_the_flush_before_the_last_root_are_needed() {
        let mut head = head(10);
        assert!(head.needs(10) && !head.needs(9));
        head.frontier.block_sequence = 12;
        head.note_flush(11);
        assert!(head.needs(10) && !head.needs(9), "a torn page may be of the flush");
        head.note_flush(12);
        assert!(head.needs(11) && !head.needs(10));
        head.note_root();
        assert!(head.needs(12) && !head.needs(11));
        head.frontier.block = None;
        head.note_checkpoint();
        assert!(!head.needs(12), "a mount goes on with the next block");
    }

    #[test]
    fn an_old_block_may_count_as_needed_and_no_needed_one_as_old() {
        let mut head = head(0x2_0004);
        head.need_from(0x1_fffe);
        for number in 0x1_fffe..=0x2_0004_u32 {
            assert!(head.needs(number as u16), "{number:#x}");
        }
        assert!(!head.needs(0xfffd), "the number before those");
        assert!(head.needs(0x0004), "block 4 has the low half of the newest one");
    }
}
