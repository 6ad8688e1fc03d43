//! The table of all blocks: the state of each, its valid pages, its wear. All of it is in RAM, and saved with
//! a checkpoint.
//!
//! It is shared by the page-mapping FTL and the log of the trees on raw NAND. The table does no I/O of its
//! own except in [`BlockTable::take_erased`] and [`BlockTable::retire_marked`], which keep states and chip in
//! step.
//!
//! ```text
//!            take_free, claim            close              victim ... discard / release
//! Unclean, Free ----------------> Open -------------> Full ---------------------------> Unclean, Free
//!       |                                                          any state --retire--> Bad
//!       +--reserve--> Reserved --discard / release--> Unclean, Free
//! ```
//!
//! Costs (`places`): the next victim of the greedy policy and the next free block are found in O(1). A page
//! that becomes invalid, or a block that changes its use, takes a search through the blocks with equally many
//! valid pages, or a move of the pool: bytes in sequence, a fraction of a microsecond for thousands of
//! blocks. Among equals greedy chooses the block erased least of the [`TIE_SCAN`] blocks unchanged for
//! longest. The order of closing and the index of full blocks (`order`) are kept once a policy that needs
//! them is asked for.
//!
//! A block takes 5 bytes of RAM on a chip with fewer than 65,536 blocks (`rows`, `places`), and a bit for
//! each page, or instead of the bits a byte (`valid`).
//!
//! # Parts
//!
//! | part | owns | file |
//! |---|---|---|
//! | `Uses` | use and erases of each block (`rows`), and its place by them (`places`) | `uses.rs` |
//! | `Valid` | valid pages, or their numbers | `valid.rs` |
//! | `Order` | the order of the full blocks that a policy needs | `order.rs` |
//!
//! The table keeps them in step, and knows when blocks were last modified.
//!
//! Invariants
//! - T1: a block is in the pool exactly if it is Free or Unclean, and among those of its valid count exactly
//!   if Full.
//! - T2: Free, Unclean, Reserved and Bad blocks have no valid pages.

pub mod behind;
pub mod checkpoint;
mod choose;
pub mod hot;
mod known;
mod medium;
mod numbers;
mod order;
mod places;
mod room;
mod rows;
pub mod spare;
#[cfg(test)]
mod tests;
mod uses;
mod valid;
pub mod victim;
pub mod weak;
pub mod wear;

use crate::fault::StoreFault;
use crate::nand::{Cause, Geometry, Nand, NandError, is_done};
use crate::store::StoreError;
use crate::units::{Pbn, Ppn};
use alloc::vec;
use alloc::vec::Vec;
use order::Order;
use uses::Uses;
use valid::Valid;
pub use valid::Validity;

/// Number of blocks with equally few valid pages that the greedy policy compares by wear.
pub const TIE_SCAN: usize = 16;

/// True if the engine was built so that times of modification may be kept.
const KEEPS_AGES: bool = cfg!(feature = "full");

/// Use of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BlockState {
    /// Erased and ready.
    Free,
    /// Contents unknown or stale: must be erased before use.
    Unclean,
    /// Being filled.
    Open,
    /// Not programmed again before the next erase.
    Full,
    /// Kept out of allocation and collection, for checkpoints and anchors.
    Reserved,
    /// Marked bad.
    Bad,
}

impl BlockState {
    /// State with this number on the medium.
    pub(super) const fn from_byte(byte: u8) -> Option<BlockState> {
        Some(match byte {
            0 => BlockState::Free,
            1 => BlockState::Unclean,
            2 => BlockState::Open,
            3 => BlockState::Full,
            4 => BlockState::Reserved,
            5 => BlockState::Bad,
            _ => return None,
        })
    }

    /// True if the block is in the pool.
    pub const fn is_free(self) -> bool {
        matches!(self, BlockState::Free | BlockState::Unclean)
    }
}

/// Rule by which a free block is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wear {
    /// The block erased least: for data that will soon be rewritten.
    Least,
    /// The block erased most: for data that has proved cold.
    Most,
}

/// States, wear and valid pages of all blocks.
#[derive(Clone, Debug)]
pub struct BlockTable {
    geometry: Geometry,
    uses: Uses,
    /// Time at which a page of each block last became valid or invalid; empty if that is not kept.
    ages: Vec<u64>,
    valid: Valid,
    live_pages: u32,
    /// Logical time: number of pages marked valid so far.
    clock: u64,
    order: Order,
}

impl BlockTable {
    /// Makes a table for a chip of which nothing is known: every block is Unclean.
    pub fn new(geometry: Geometry) -> BlockTable {
        BlockTable::keeping(geometry, Validity::Bits)
    }

    /// Makes a table for such a chip, with this form of validity.
    pub fn keeping(geometry: Geometry, validity: Validity) -> BlockTable {
        BlockTable {
            geometry,
            uses: Uses::unclean(geometry),
            ages: Vec::new(),
            valid: Valid::none(geometry, validity),
            live_pages: 0,
            clock: 0,
            order: Order::None,
        }
    }

    /// Geometry of the chip.
    #[inline]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// State of a block.
    #[inline]
    pub fn state(&self, pbn: Pbn) -> BlockState {
        self.uses.state(pbn)
    }

    /// Number of blocks in the pool, erased or not.
    #[inline]
    pub fn free_count(&self) -> u32 {
        self.uses.places.free() as u32
    }

    /// Number of blocks not marked bad.
    pub fn good_count(&self) -> u32 {
        (0..self.geometry.blocks).filter(|&pbn| self.state(Pbn(pbn)) != BlockState::Bad).count() as u32
    }

    /// Number of valid pages of the chip.
    #[inline]
    pub fn live_pages(&self) -> u32 {
        self.live_pages
    }

    /// Number of valid pages of a block.
    #[inline]
    pub fn valid_count(&self, pbn: Pbn) -> u32 {
        self.valid.count(self.geometry, pbn)
    }

    /// Erase count of a block, as far as checkpoints and this session know.
    #[inline]
    pub fn erase_count(&self, pbn: Pbn) -> u32 {
        self.uses.erases(pbn)
    }

    /// Time at which a page of a block last became valid or invalid, in pages marked valid so far; 0 if that
    /// is not kept.
    #[inline]
    pub fn modified(&self, pbn: Pbn) -> u64 {
        if KEEPS_AGES { self.ages.get(pbn.index()).copied().unwrap_or(0) } else { 0 }
    }

    /// Keeps from now on the time at which each block was last modified, 8 bytes a block. Policies that need
    /// the time call this by themselves.
    pub fn keep_ages(&mut self) {
        if KEEPS_AGES && self.ages.is_empty() {
            self.ages = vec![0; self.uses.rows.len()];
        }
    }

    /// Iterates over the blocks in a state, in ascending order.
    pub fn in_state(&self, state: BlockState) -> impl Iterator<Item = Pbn> + '_ {
        (0..self.geometry.blocks).map(Pbn).filter(move |pbn| self.state(*pbn) == state)
    }

    /// Iterates over the blocks of the pool, the most worn one first.
    pub fn free_by_wear(&self) -> impl Iterator<Item = Pbn> + '_ {
        self.uses.places.by_most_wear()
    }

    /// Iterates over the blocks of the pool in the order of use, the least worn one first.
    pub fn free_by_least_wear(&self) -> impl Iterator<Item = Pbn> + '_ {
        self.uses.places.by_least_wear()
    }

    /// Takes a block out of the pool; it becomes Open. True if it must be erased first.
    pub fn take_free(&mut self, wear: Wear) -> Option<(Pbn, bool)> {
        let pbn = self.first_free(wear)?;
        let needs_erase = self.claim(pbn);
        Some((pbn, needs_erase))
    }

    /// The next block that the pool gives.
    pub fn first_free(&self, wear: Wear) -> Option<Pbn> {
        self.uses.first_free(wear)
    }

    /// Takes this block out of the pool; it becomes Open. True if it must be erased before it is programmed.
    pub fn claim(&mut self, pbn: Pbn) -> bool {
        let state = self.state(pbn);
        assert!(state.is_free(), "T1: {pbn} is {state:?}, not free");
        debug_assert_eq!(self.valid_count(pbn), 0, "T2: {pbn} is free and has valid pages");
        if self.uses.rows.take_ahead(pbn.index()) {
            self.note_erase(pbn);
        }
        self.set_state(pbn, BlockState::Open);
        state == BlockState::Unclean
    }

    /// Closes an open block; it becomes Full.
    pub fn close(&mut self, pbn: Pbn) {
        assert!(self.state(pbn) == BlockState::Open, "{pbn} is not open");
        self.set_state(pbn, BlockState::Full);
    }

    /// Opens a closed block again, to fill the rest of it.
    pub fn reopen(&mut self, pbn: Pbn) {
        assert!(self.state(pbn) == BlockState::Full, "{pbn} is not full");
        self.set_state(pbn, BlockState::Open);
    }

    /// Gives back a block that was erased just now; it becomes Free.
    pub fn release(&mut self, pbn: Pbn) {
        self.give_back(pbn, BlockState::Free);
    }

    /// Frees a block with stale bytes. It becomes Unclean, and is erased when it is needed.
    pub fn discard(&mut self, pbn: Pbn) {
        self.give_back(pbn, BlockState::Unclean);
    }

    fn give_back(&mut self, pbn: Pbn, state: BlockState) {
        assert!(self.state(pbn) != BlockState::Bad, "{pbn} is bad and stays so");
        assert!(self.valid_count(pbn) == 0, "T2: {pbn} still has valid pages");
        self.set_state(pbn, state);
    }

    /// Keeps a free or open block out of allocation and collection.
    pub fn reserve(&mut self, pbn: Pbn) {
        let state = self.state(pbn);
        assert!(state.is_free() || state == BlockState::Open, "{pbn} is {state:?} and cannot be reserved");
        assert!(self.valid_count(pbn) == 0, "T2: {pbn} still has valid pages");
        self.set_state(pbn, BlockState::Reserved);
    }

    /// Makes exactly these blocks Reserved, after a mount, whatever the table that was loaded says.
    pub fn reserve_exactly(&mut self, reserved: &[Pbn]) -> Result<(), StoreFault> {
        for pbn in (0..self.geometry.blocks).map(Pbn) {
            if self.state(pbn) == BlockState::Reserved && !reserved.contains(&pbn) {
                self.discard(pbn);
            }
        }
        for &pbn in reserved {
            match (pbn.0 < self.geometry.blocks).then(|| self.state(pbn)) {
                Some(BlockState::Reserved) => {}
                Some(BlockState::Free | BlockState::Unclean) => self.reserve(pbn),
                _ => {
                    let what = "a checkpoint lies in a block that holds other data";
                    return Err(StoreFault::corrupted(what, pbn.0));
                }
            }
        }
        Ok(())
    }

    /// Sets state, erases and valid pages of a block from a record later than the table. False if that makes
    /// no sense.
    pub fn restore(&mut self, pbn: Pbn, (state, erases): (BlockState, u32), valid: &[Ppn]) -> bool {
        let takes_pages = matches!(state, BlockState::Open | BlockState::Full);
        if !takes_pages && !valid.is_empty() {
            return false;
        }
        self.clear_valid(pbn);
        self.set_state(pbn, if state == BlockState::Free { BlockState::Unclean } else { state });
        self.set_erase_count(pbn, erases);
        valid.iter().for_each(|&ppn| self.mark_valid(ppn));
        true
    }

    /// Takes a block out of use for good. Its valid pages must have been moved.
    pub fn retire(&mut self, pbn: Pbn) {
        assert!(self.valid_count(pbn) == 0, "T2: {pbn} still has valid pages");
        self.set_state(pbn, BlockState::Bad);
    }

    /// Counts an erase of a block.
    pub fn note_erase(&mut self, pbn: Pbn) {
        self.set_erase_count(pbn, self.erase_count(pbn).saturating_add(1));
    }

    /// Sets the erase count of a block, as an earlier session counted it.
    pub fn set_erase_count(&mut self, pbn: Pbn, erases: u32) {
        self.uses.set_erases(pbn, erases, self.valid_count(pbn));
    }

    /// Makes a page valid.
    #[inline]
    pub fn mark_valid(&mut self, ppn: Ppn) {
        let pbn = self.geometry.block_of(ppn);
        self.clock += 1;
        if self.valid.insert(ppn) {
            self.change_valid(pbn, true);
        }
    }

    /// Makes a page invalid.
    #[inline]
    pub fn invalidate(&mut self, ppn: Ppn) {
        let pbn = self.geometry.block_of(ppn);
        self.valid.remove(ppn);
        self.change_valid(pbn, false);
    }

    fn change_valid(&mut self, pbn: Pbn, more: bool) {
        let state = self.state(pbn);
        assert!(matches!(state, BlockState::Open | BlockState::Full), "T2: {pbn} is {state:?}");
        if KEEPS_AGES && let Some(age) = self.ages.get_mut(pbn.index()) {
            *age = self.clock;
        }
        if more {
            self.live_pages += 1;
        } else {
            self.live_pages -= 1;
        }
        debug_assert!(
            self.valid_count(pbn) <= self.live_pages,
            "T2: {pbn} has more valid pages than the chip"
        );
        if state == BlockState::Full {
            let valid = self.valid_count(pbn);
            self.uses.places.regroup(pbn, if more { valid - 1 } else { valid + 1 }, more);
        }
    }

    /// Tells whether a page is valid; in a table of counts, whether it may be.
    #[inline]
    pub fn is_valid(&self, ppn: Ppn) -> bool {
        self.valid.contains(ppn)
    }

    /// First valid page of a block from page `from` on.
    pub fn next_valid(&self, pbn: Pbn, from: u32) -> Option<Ppn> {
        self.valid.next(self.geometry, pbn, from)
    }

    /// Iterates over the valid pages of a block, in ascending order.
    pub fn valid_pages(&self, pbn: Pbn) -> impl Iterator<Item = Ppn> + '_ {
        let mut from = 0;
        core::iter::from_fn(move || {
            let ppn = self.next_valid(pbn, from)?;
            from = self.geometry.page_in_block(ppn) + 1;
            Some(ppn)
        })
    }

    /// Largest erase count of a good block.
    pub fn most_erases(&self) -> u32 {
        let good = (0..self.geometry.blocks).map(Pbn).filter(|&pbn| self.state(pbn) != BlockState::Bad);
        good.map(|pbn| self.erase_count(pbn)).max().unwrap_or(0)
    }

    fn set_state(&mut self, pbn: Pbn, state: BlockState) {
        if let Some(counts) = self.valid.counts_mut()
            && !matches!(state, BlockState::Open | BlockState::Full)
        {
            counts.forget(pbn);
        }
        if self.state(pbn) == BlockState::Full {
            self.order.remove(pbn.0);
        }
        self.uses.set_state(pbn, state, self.valid_count(pbn));
        if state == BlockState::Full {
            self.order.add(pbn.0);
        }
    }
}

/// Marks a block bad on the chip. A chip that cannot mark it takes no more writes: `WornOut`.
pub fn mark_bad<N: Nand + ?Sized>(nand: &mut N, pbn: Pbn) -> Result<(), StoreFault> {
    Ok(nand.mark_bad(pbn).map_err(|error| match error {
        NandError::BadBlock(_) | NandError::ProgramFailed(_) | NandError::EraseFailed(_) => {
            StoreError::WornOut
        }
        error => error.into(),
    })?)
}

/// Erases the blocks that are not marked bad, and shows each. One that fails is marked bad.
pub fn erase_all<N: Nand + ?Sized>(nand: &mut N, mut erased: impl FnMut(Pbn)) -> Result<(), StoreFault> {
    for block in (0..nand.geometry().blocks).map(Pbn) {
        if nand.is_bad(block)? {
            continue;
        }
        if is_done(nand.erase(block, Cause::Checkpoint))? {
            erased(block);
        } else {
            mark_bad(nand, block)?;
        }
    }
    Ok(())
}

/// Operations on table and chip together.
impl BlockTable {
    /// Retires every block that carries a bad-block mark.
    pub fn retire_marked<N: Nand + ?Sized>(&mut self, nand: &mut N) -> Result<(), StoreFault> {
        for pbn in (0..self.geometry.blocks).map(Pbn) {
            if self.state(pbn) != BlockState::Bad && nand.is_bad(pbn)? {
                self.retire(pbn);
            }
        }
        Ok(())
    }

    /// Erases a block and counts it. False: the erase failed, and the block is marked bad and retired.
    pub fn erase<N: Nand + ?Sized>(
        &mut self,
        nand: &mut N,
        pbn: Pbn,
        cause: Cause,
    ) -> Result<bool, StoreFault> {
        debug_assert_eq!(self.valid_count(pbn), 0, "T2: {pbn} is erased and has valid pages");
        match nand.erase(pbn, cause) {
            Ok(()) => {
                self.note_erase(pbn);
                Ok(true)
            }
            Err(NandError::EraseFailed(_) | NandError::BadBlock(_)) => {
                self.give_up(nand, pbn)?;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Erases the next `wanted` blocks of the pool, unless they are erased already. Taking them then cannot
    /// fail. Their order stays the same. `Full` if there are fewer.
    pub fn erase_ahead<N: Nand + ?Sized>(
        &mut self,
        nand: &mut N,
        wanted: u32,
        cause: Cause,
    ) -> Result<(), StoreFault> {
        loop {
            let next = self.uses.places.by_least_wear().take(wanted as usize);
            let (mut count, mut unclean) = (0, None);
            for pbn in next {
                count += 1;
                unclean = unclean.or((self.state(pbn) == BlockState::Unclean).then_some(pbn));
            }
            let Some(pbn) = unclean else {
                return if count < wanted { Err(StoreError::Full.into()) } else { Ok(()) };
            };
            match nand.erase(pbn, cause) {
                Ok(()) => self.uses.rows.set_ahead(pbn.index()),
                Err(NandError::EraseFailed(_) | NandError::BadBlock(_)) => self.give_up(nand, pbn)?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Marks a block bad on the chip and retires it. Its valid pages must have been moved.
    pub fn give_up<N: Nand + ?Sized>(&mut self, nand: &mut N, pbn: Pbn) -> Result<(), StoreFault> {
        mark_bad(nand, pbn)?;
        self.retire(pbn);
        Ok(())
    }

    /// Takes a block out of the pool, erased and Open. Blocks that fail meanwhile are retired. `Full` if the
    /// pool is empty.
    pub fn take_erased<N: Nand + ?Sized>(
        &mut self,
        nand: &mut N,
        wear: Wear,
        cause: Cause,
    ) -> Result<Pbn, StoreFault> {
        loop {
            let pbn = self.first_free(wear).ok_or(StoreError::Full)?;
            if self.claim_erased(nand, pbn, cause)? {
                debug_assert_eq!(self.state(pbn), BlockState::Open, "T1: {pbn} was taken and is not open");
                return Ok(pbn);
            }
        }
    }

    /// Takes this block out of the pool, erased and Open. False if it failed and was retired.
    pub fn claim_erased<N: Nand + ?Sized>(
        &mut self,
        nand: &mut N,
        pbn: Pbn,
        cause: Cause,
    ) -> Result<bool, StoreFault> {
        if !self.claim(pbn) {
            return Ok(true);
        }
        let erased = self.erase(nand, pbn, cause);
        if erased.is_err() {
            self.discard(pbn);
        }
        erased
    }
}
