//! State and erase count of each block, and the choice of the next block.
//!
//! A block is free if no commit page that a mount may find refers to it. A block left by a step is free once
//! the next commit page is written. The block erased least often is used first. A block in which a program
//! failed takes no more pages, and is marked bad once its last page is dead.

use super::anchor::{ANCHORS, Anchor};
use crate::blocks::mark_bad;
use crate::fault::IndexFault;
use crate::nand::{Cause, Geometry, Nand, NandError};
use crate::units::Pbn;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// A root lists the erase counts of at most this many erased blocks.
const ERASED_LISTED: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Holds no live page; must be erased before use.
    Free,
    /// Erased, ready for use.
    Erased,
    /// Holds pages of a level, or commit pages.
    Used,
    /// Holds pages of a level; a program failed in it.
    Failing,
    /// Holds pages that are dead once the next commit page is written.
    Left,
    /// Like `Left`, and a program failed in the block.
    LeftFailing,
    Bad,
}

#[derive(Debug)]
pub(super) struct Blocks {
    states: Vec<State>,
    erases: Vec<u16>,
    /// Number of free blocks, and of blocks that are free after the next commit page (`left`).
    free: usize,
    left: usize,
    /// Blocks from this number on were not used since the format.
    touched: u32,
    pub(super) retired: u32,
    pub(super) erased: u64,
    /// The newest anchor, on a chip that has anchors.
    pub(super) anchor: Option<Box<Anchor>>,
}

impl Blocks {
    pub(super) fn new(geometry: Geometry) -> Blocks {
        let count = geometry.blocks as usize;
        Blocks {
            states: vec![State::Free; count],
            erases: vec![0; count],
            free: count,
            left: 0,
            touched: 0,
            retired: 0,
            erased: 0,
            anchor: Anchor::none(geometry),
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Pbn> + use<> {
        (0..self.states.len() as u32).map(Pbn)
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

    pub(super) fn touch(&mut self, block: Pbn) {
        self.touched = self.touched.max(block.0 + 1);
    }

    pub(super) fn touched(&self) -> u32 {
        self.touched
    }

    pub(super) fn erases_max(&self) -> u16 {
        self.erases.iter().copied().max().unwrap_or(0)
    }

    /// Up to [`ERASED_LISTED`] blocks that were used and are erased: nothing on the chip tells how often, so
    /// the root does.
    pub(super) fn erased_blocks(&self) -> impl Iterator<Item = Pbn> + Clone + '_ {
        let used = (0..self.touched.min(self.states.len() as u32)).map(Pbn);
        used.filter(|block| self.state(*block) == State::Erased).take(ERASED_LISTED)
    }

    pub(super) fn free(&self) -> usize {
        self.free
    }

    pub(super) fn left(&self) -> usize {
        self.left
    }

    pub(super) fn good(&self) -> usize {
        let places = self.anchor.as_ref().map_or(0, |anchor| anchor.places.count_ones() as usize);
        self.states.iter().filter(|&&state| state != State::Bad).count() - places
    }

    pub(super) fn is_any_bad(&self) -> bool {
        self.states.contains(&State::Bad)
    }

    pub(super) fn ready(&self) -> usize {
        self.states.iter().filter(|&&state| state == State::Erased).count()
    }

    fn least_worn(&self, state: State) -> Option<Pbn> {
        let blocks = (0..self.states.len()).filter(|&i| self.states[i] == state);
        blocks.min_by_key(|&i| self.erases[i]).map(|i| Pbn(i as u32))
    }

    pub(super) fn note_bad(&mut self, nand: &mut impl Nand) -> Result<(), IndexFault> {
        for block in (0..self.states.len() as u32).map(Pbn) {
            if nand.is_bad(block)? {
                self.set(block, State::Bad);
            }
        }
        Ok(())
    }

    pub(super) fn prepare(&mut self, nand: &mut impl Nand, cause: Cause) -> Result<(), IndexFault> {
        self.make_void(nand)?;
        while let Some(block) = self.next_of(State::Free) {
            match nand.erase(block, cause) {
                Ok(()) => {
                    self.note_erased(block);
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

    /// Takes the next block, erased. `None` if no block is free.
    pub(super) fn take(&mut self, nand: &mut impl Nand) -> Result<Option<Pbn>, IndexFault> {
        let block = match self.take_announced(nand)? {
            Some(block) => Some(block),
            None => {
                self.make_void(nand)?;
                if self.ready() == 0 {
                    self.prepare(nand, Cause::GarbageCollection)?;
                }
                self.least_worn(State::Erased)
            }
        };
        if let Some(block) = block {
            self.touch(block);
            self.set(block, State::Used);
        }
        Ok(block)
    }

    /// The next announced block, erased. If none is left, blocks are no longer chosen from the list.
    fn take_announced(&mut self, nand: &mut impl Nand) -> Result<Option<Pbn>, IndexFault> {
        while ANCHORS && let Some(block) = self.anchor.as_ref().and_then(|anchor| anchor.left().next()) {
            let state = self.state(block);
            if state == State::Free {
                self.prepare(nand, Cause::GarbageCollection)?;
                continue;
            }
            if let Some(anchor) = &mut self.anchor {
                anchor.pass_first();
            }
            if state == State::Erased {
                return Ok(Some(block));
            }
        }
        if let Some(anchor) = &mut self.anchor {
            anchor.end();
        }
        Ok(None)
    }

    /// Makes sure that no anchor misleads a mount, where blocks are not taken from the list.
    fn make_void(&mut self, nand: &mut impl Nand) -> Result<(), IndexFault> {
        let Some(mut anchor) = self.anchor.take_if(|anchor| ANCHORS && !anchor.in_force) else {
            return Ok(());
        };
        let done = anchor.make_void(self, nand);
        self.anchor = Some(anchor);
        done
    }

    /// The block in this state that is next: the first one announced, or the least worn.
    fn next_of(&self, state: State) -> Option<Pbn> {
        match self.anchor.as_ref().filter(|anchor| anchor.in_force) {
            Some(anchor) => anchor.left().find(|&block| self.state(block) == state),
            None => self.least_worn(state),
        }
    }

    /// Number of free blocks that may be erased ahead, with those that are erased.
    pub(super) fn erasable(&self) -> usize {
        match self.anchor.as_ref().filter(|anchor| anchor.in_force) {
            Some(anchor) => {
                let free = anchor.left().filter(|&block| self.state(block) == State::Free).count();
                free + self.ready()
            }
            None => self.free,
        }
    }

    pub(super) fn note_erased(&mut self, block: Pbn) {
        self.erases[block.index()] = self.erases[block.index()].saturating_add(1);
        self.erased += 1;
    }

    pub(super) fn retire(&mut self, nand: &mut impl Nand, block: Pbn) -> Result<(), IndexFault> {
        self.retired += 1;
        self.set(block, State::Bad);
        match mark_bad(nand, block) {
            // The block is not used again, marked or not.
            Err(error) if error.is_refusal() => Ok(()),
            other => Ok(other?),
        }
    }

    /// Marks a block as dead once the next commit page is written.
    pub(super) fn leave(&mut self, block: Pbn) {
        match self.state(block) {
            State::Used => self.set(block, State::Left),
            State::Failing => self.set(block, State::LeftFailing),
            _ => {}
        }
    }

    pub(super) fn fail(&mut self, block: Pbn) {
        self.set(block, State::Failing);
    }

    /// Frees the blocks in the state *left*, after a commit page without them is written.
    pub(super) fn settle(&mut self, nand: &mut impl Nand) -> Result<(), IndexFault> {
        for block in (0..self.states.len() as u32).map(Pbn) {
            match self.state(block) {
                State::Left => self.set(block, State::Free),
                State::LeftFailing => self.retire(nand, block)?,
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn ram_bytes(&self) -> usize {
        let anchor = self.anchor.as_ref().map_or(0, |_| size_of::<Anchor>());
        self.states.capacity() * size_of::<State>() + self.erases.capacity() * size_of::<u16>() + anchor
    }
}
