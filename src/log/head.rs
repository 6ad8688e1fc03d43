//! End of the log, where it is written: the open block, the numbers given last, and the newest root.
//!
//! The next mount needs the blocks with pages since the newest root. A power cut in the erase of a block
//! leaves any part of its pages unreadable. If a mount expects these pages, because they were programmed
//! after the newest root, it cannot know that all were dead. So a root is programmed before such a block is
//! erased. With a write part two roots are needed: a page that cannot be read before a flush may belong to
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

/// Numbers of the blocks that the next mount needs.
#[derive(Clone, Copy, Debug)]
struct Needed {
    /// Number of the first block that a mount needs; it needs all blocks opened later too.
    from: u32,
    /// Value for `from` after the next flush with a root.
    next: u32,
}

/// End of the log.
pub(super) struct Head {
    pub(super) frontier: Frontier,
    needed: Needed,
    /// Sequence number of the newest page.
    pub(super) sequence: u64,
    pub(super) root: Option<Root>,
    /// True while the current operation continues after the next root. A page programmed until then is not
    /// marked as a root.
    pub(super) goes_on: bool,
}

impl Head {
    /// End of a log as a checkpoint has it.
    pub(super) fn new(frontier: Frontier, sequence: u64, root: Option<Root>) -> Head {
        let mut head = Head { frontier, needed: Needed { from: 0, next: 0 }, sequence, root, goes_on: false };
        head.note_checkpoint();
        head
    }

    /// Notes a checkpoint: after it a mount reads on in the block open then, or with the next one.
    pub(super) fn note_checkpoint(&mut self) {
        self.need_from(self.frontier.block_sequence + u32::from(self.frontier.block.is_none()));
    }

    /// Notes that a root was programmed in the open block, while no page waits in RAM.
    pub(super) fn note_root(&mut self) {
        self.need_from(self.frontier.block_sequence);
    }

    fn need_from(&mut self, block: u32) {
        self.needed = Needed { from: block, next: block };
    }

    /// Notes that a flush that began in this block has programmed a root.
    pub(super) fn note_flush(&mut self, block: u32) {
        self.needed = Needed { from: self.needed.next, next: block };
    }

    /// True if a mount would miss pages of the block that was opened under this number, even though all of
    /// them are dead.
    pub(super) fn needs(&self, opening: u16) -> bool {
        let newest = self.frontier.block_sequence;
        // Only the low bits of a block's number are known: an old block may be taken for needed, never the
        // other way.
        let age = (newest as u16).wrapping_sub(opening);
        newest.saturating_sub(u32::from(age)) >= self.needed.from
    }

    /// Pages left in the open block.
    pub(super) fn open_pages(&self, pages_per_block: u32) -> u32 {
        debug_assert!(self.frontier.next_page <= pages_per_block, "the open block is more than full");
        self.frontier.block.map_or(0, |_| pages_per_block - self.frontier.next_page)
    }

    /// True if a page may get this address before anything is collected.
    pub(super) fn is_ahead(&self, blocks: &BlockTable, ppn: Ppn) -> bool {
        let geometry = blocks.geometry();
        let block = geometry.block_of(ppn);
        match self.frontier.block {
            Some(open) if open == block => geometry.page_in_block(ppn) >= self.frontier.next_page,
            _ => blocks.state(block).is_free(),
        }
    }

    /// Position for the single page that is programmed next.
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

    /// Number of page numbers left for changes.
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
