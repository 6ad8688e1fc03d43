//! Which blocks the next mount reads and cannot do without: those with pages since the newest root.
//!
//! A power cut in the erase of a block leaves any part of its pages unreadable. Where a mount expects them,
//! because they were programmed after the newest root, it cannot know that all were dead. So before such a
//! block is erased a root is programmed. With a write part it takes two: a page that cannot be read before a
//! flush may be of that flush.

use crate::log::{Frontier, Log};
use crate::nand::Nand;
use crate::units::Pbn;

/// Numbers of blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needed {
    /// A mount needs this one and those opened after it.
    from: u32,
    /// The need once another flush with a root is programmed.
    next: u32,
}

impl Needed {
    /// After a root in this block, unless pages wait in RAM.
    pub(super) const fn since(block: u32) -> Needed {
        Needed { from: block, next: block }
    }

    /// After a checkpoint: a mount reads on in the block that is open then, or with the next one.
    pub(super) fn since_checkpoint(frontier: &Frontier) -> Needed {
        Needed::since(frontier.block_sequence + u32::from(frontier.block.is_none()))
    }

    /// A flush that began in this block has programmed a root.
    pub(super) const fn flushed(self, block: u32) -> Needed {
        Needed { from: self.next, next: block }
    }
}

impl<N: Nand> Log<N> {
    /// Whether a mount would miss pages of a block, though all of them are dead.
    pub fn is_needed(&self, block: Pbn) -> bool {
        let newest = self.frontier.block_sequence;
        // A block is known by the low bits of its number: an old one may be taken for needed, never the other
        // way.
        let age = (newest as u16).wrapping_sub(self.openings[block.index()]);
        newest.saturating_sub(u32::from(age)) >= self.needed.from
    }
}
