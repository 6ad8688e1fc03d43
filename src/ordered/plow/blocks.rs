//! The use of each block, how often it was erased, and which one is next.
//!
//! A block is free when no commit page that a mount may find refers to it: what a step leaves is free once
//! the next commit page is written. The block that was erased least is used first. A block in which a program
//! failed takes no more pages and is marked bad once its last page is dead.

use crate::blocks::mark_bad;
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand, NandError};
use crate::units::Pbn;
use alloc::vec;
use alloc::vec::Vec;

/// Erased blocks of which a root tells how often they were erased.
const ERASED_LISTED: usize = 8;

/// The use of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing: to be erased before use.
    Free,
    /// Nothing: erased.
    Erased,
    /// Pages of a level, or commit pages.
    Used,
    /// Pages of a level, and a program failed there.
    Failing,
    /// Pages that are dead once the next commit page is written.
    Left,
    /// Pages that are dead then, of a block in which a program failed.
    LeftFailing,
    /// Marked bad.
    Bad,
}

/// The blocks of the chip.
#[derive(Debug)]
pub(super) struct Blocks {
    states: Vec<State>,
    erases: Vec<u16>,
    /// Blocks that may be taken, now and after the next commit page.
    free: usize,
    left: usize,
    /// Blocks from this one on were not used since the format.
    touched: u32,
    pub(super) retired: u64,
    pub(super) erased: u64,
}

impl Blocks {
    pub(super) fn new(blocks: u32) -> Blocks {
        let count = blocks as usize;
        Blocks {
            states: vec![State::Free; count],
            erases: vec![0; count],
            free: count,
            left: 0,
            touched: 0,
            retired: 0,
            erased: 0,
        }
    }

    pub(super) fn state(&self, block: Pbn) -> State {
        self.states[block.index()]
    }

    pub(super) fn set(&mut self, block: Pbn, state: State) {
        let is_free = |state| matches!(state, State::Free | State::Erased);
        let before = core::mem::replace(&mut self.states[block.index()], state);
        self.free = self.free + usize::from(is_free(state)) - usize::from(is_free(before));
        self.left = self.left + usize::from(state == State::Left) - usize::from(before == State::Left);
    }

    pub(super) fn erases(&self, block: Pbn) -> u16 {
        self.erases[block.index()]
    }

    pub(super) fn set_erases(&mut self, block: Pbn, erases: u16) {
        self.erases[block.index()] = erases;
    }

    /// Notes that pages of the block were programmed.
    pub(super) fn touch(&mut self, block: Pbn) {
        self.touched = self.touched.max(block.0 + 1);
    }

    /// Blocks from this one on were not used since the format.
    pub(super) fn touched(&self) -> u32 {
        self.touched
    }

    /// The most erases of a block.
    pub(super) fn erases_max(&self) -> u16 {
        self.erases.iter().copied().max().unwrap_or(0)
    }

    /// Some of the blocks that were used and are erased: nothing on the chip tells how often.
    pub(super) fn erased_blocks(&self) -> impl Iterator<Item = Pbn> + Clone + '_ {
        let used = (0..self.touched.min(self.states.len() as u32)).map(Pbn);
        used.filter(|block| self.state(*block) == State::Erased).take(ERASED_LISTED)
    }

    /// Blocks that may be taken now.
    pub(super) fn free(&self) -> usize {
        self.free
    }

    /// Blocks that may be taken after the next commit page.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Blocks that are not bad.
    pub(super) fn good(&self) -> usize {
        self.states.iter().filter(|&&state| state != State::Bad).count()
    }

    pub(super) fn is_any_bad(&self) -> bool {
        self.states.contains(&State::Bad)
    }

    /// Erased blocks.
    pub(super) fn ready(&self) -> usize {
        self.states.iter().filter(|&&state| state == State::Erased).count()
    }

    fn least_worn(&self, state: State) -> Option<Pbn> {
        let blocks = (0..self.states.len()).filter(|&i| self.states[i] == state);
        blocks.min_by_key(|&i| self.erases[i]).map(|i| Pbn(i as u32))
    }

    /// Notes the bad blocks.
    pub(super) fn note_bad(&mut self, nand: &mut dyn Nand) -> Result<(), IndexFault> {
        for block in (0..self.states.len() as u32).map(Pbn) {
            if nand.is_bad(block)? {
                self.set(block, State::Bad);
            }
        }
        Ok(())
    }

    /// Erases a free block, if there is one, so that it is ready.
    pub(super) fn prepare(&mut self, nand: &mut dyn Nand, cause: Cause) -> Result<(), IndexFault> {
        while let Some(block) = self.least_worn(State::Free) {
            match nand.erase(block, cause) {
                Ok(()) => {
                    self.erases[block.index()] = self.erases[block.index()].saturating_add(1);
                    self.erased += 1;
                    self.set(block, State::Erased);
                    return Ok(());
                }
                Err(NandError::EraseFailed(_)) => self.retire(nand, block)?,
                Err(NandError::BadBlock(_)) => self.set(block, State::Bad),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The next block, erased; none if there is none.
    pub(super) fn take(&mut self, nand: &mut dyn Nand) -> Result<Option<Pbn>, IndexFault> {
        if self.ready() == 0 {
            self.prepare(nand, Cause::GarbageCollection)?;
        }
        let block = self.least_worn(State::Erased);
        if let Some(block) = block {
            self.touch(block);
            self.set(block, State::Used);
        }
        Ok(block)
    }

    /// Marks a block bad.
    pub(super) fn retire(&mut self, nand: &mut dyn Nand, block: Pbn) -> Result<(), IndexFault> {
        self.retired += 1;
        self.set(block, State::Bad);
        match mark_bad(nand, block) {
            // It is not used again, marked or not.
            Err(error) if error.is_refusal() => Ok(()),
            other => Ok(other?),
        }
    }

    /// Notes that no page of the block is needed after the next commit page.
    pub(super) fn leave(&mut self, block: Pbn) {
        match self.state(block) {
            State::Used => self.set(block, State::Left),
            State::Failing => self.set(block, State::LeftFailing),
            _ => {}
        }
    }

    /// Notes that a program failed in the block.
    pub(super) fn fail(&mut self, block: Pbn) {
        self.set(block, State::Failing);
    }

    /// Frees what was left: a commit page that does without it is written.
    pub(super) fn settle(&mut self, nand: &mut dyn Nand) -> Result<(), IndexFault> {
        for block in (0..self.states.len() as u32).map(Pbn) {
            match self.state(block) {
                State::Left => self.set(block, State::Free),
                State::LeftFailing => self.retire(nand, block)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Bytes held besides the table itself.
    pub(super) fn ram_bytes(&self) -> usize {
        self.states.capacity() * size_of::<State>() + self.erases.capacity() * size_of::<u16>()
    }
}
