//! Blocks of the chip that are free, failed or for checkpoints, and the state of the tree as recorded on the
//! chip.

use super::given_back::GivenBack;
use super::places::Block;
use alloc::vec::Vec;
use nandex::blocks::checkpoint::CheckpointArea;
use nandex::blocks::{BlockState, BlockTable};
use nandex::check::{IndexError, Invariant};
use nandex::nand::{Cause, Nand};
use nandex::units::Pbn;

/// The uses of the blocks.
pub(super) struct Space {
    pub(super) table: BlockTable,
    pub(super) area: CheckpointArea,
    /// Blocks in which a program failed; they are to be marked bad.
    pub(super) failed: Vec<Pbn>,
    pub(super) given_back: GivenBack,
    /// The newest checkpoint is a closing one.
    pub(super) closed: bool,
    /// Whether the chip says that changes of the class *none* are under way.
    pub(super) is_open: bool,
    /// The mount found no block to write to: nothing is changed any more.
    pub(super) read_only: bool,
    /// True if a block could not be marked bad. Then no more changes are allowed, and uncommitted ones cannot
    /// be committed.
    pub(super) has_ended: bool,
}

impl Space {
    pub(super) fn new(area: CheckpointArea, table: BlockTable) -> Space {
        Space {
            table,
            area,
            failed: Vec::new(),
            given_back: GivenBack::default(),
            closed: false,
            is_open: false,
            read_only: false,
            has_ended: false,
        }
    }

    /// Marks a block bad. If that fails, no further change is allowed: the rest of a merge in the block would
    /// be taken for complete once later blocks are opened.
    pub(super) fn give_up<N: Nand>(&mut self, nand: &mut N, pbn: Pbn) -> Result<(), IndexError> {
        let given_up = self.table.give_up(nand, pbn);
        self.has_ended |= given_up.is_err();
        Ok(given_up?)
    }

    /// Takes a block back that holds no node any more, and marks it bad if it failed.
    pub(super) fn release<N: Nand>(&mut self, nand: &mut N, pbn: Pbn) -> Result<(), IndexError> {
        match self.failed.iter().position(|&failed| failed == pbn) {
            Some(i) => {
                self.failed.swap_remove(i);
                self.give_up(nand, pbn)
            }
            None => {
                self.table.discard(pbn);
                Ok(())
            }
        }
    }

    /// Sets in the table which blocks hold nodes: exactly the open ones.
    pub(super) fn settle(&mut self, blocks: &mut [Block]) -> Result<(), IndexError> {
        use nandex::blocks::BlockState::{Bad, Full, Open, Reserved};
        for (pbn, block) in (0u32..).map(Pbn).zip(blocks) {
            let state = self.table.state(pbn);
            if block.live == 0 {
                // The generation stays: units name the blocks that were given back.
                *block = Block { generation: block.generation, ..Block::default() };
                if matches!(state, Open | Full) {
                    self.table.discard(pbn);
                }
                continue;
            }
            match state {
                Open => {}
                Bad | Reserved | Full => {
                    let what = "nodes in a block that is bad or kept for checkpoints";
                    return Err(IndexError::broken(Invariant::I4, what, u64::from(pbn.0)));
                }
                _ => drop(self.table.claim(pbn)),
            }
        }
        Ok(())
    }

    /// Erases a block without nodes, unless it was taken for a checkpoint or a merge meanwhile.
    pub(super) fn erase_unused<N: Nand>(&mut self, nand: &mut N, pbn: Pbn) -> Result<(), IndexError> {
        if self.table.state(pbn) == BlockState::Unclean {
            self.table.claim(pbn);
            if self.table.erase(nand, pbn, Cause::Recovery)? {
                self.table.release(pbn);
            }
        }
        Ok(())
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.table.ram_bytes() + self.area.ram_bytes(0) + self.failed.capacity() * 4
    }
}
