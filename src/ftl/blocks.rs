//! What is known of every block: its state, its valid pages, its wear. All in RAM; saved with a checkpoint.
//!
//! Shared by the page-mapping FTL and the log of the trees on raw NAND. The table does no I/O of its own except in
//! [`BlockTable::take_erased`] and [`BlockTable::retire_marked`], which keep states and chip in step.
//!
//! ```text
//!            take_free, claim            close              victim ... discard / release
//! Unclean, Free ----------------> Open -------------> Full ---------------------------> Unclean, Free
//!       |                                                          any state --retire--> Bad
//!       +--reserve--> Reserved --discard / release--> Unclean, Free
//! ```
//!
//! Costs: the pool of free blocks is ordered by wear, O(log n). Full blocks hang in lists by their count of valid
//! pages, the one changed last at the tail, so that [`VictimPolicy::Greedy`] finds its victim in O(1) however large
//! the chip is. Ties go to the block erased least among the [`TIE_SCAN`] blocks unchanged for longest. The order of closing
//! and the index of full blocks (`order`) are kept once a policy that needs them is asked for.
//!
//! Invariants
//! - T1: a block is in the pool exactly when it is Free or Unclean, and in the list of its valid count exactly when Full.
//! - T2: the valid count of a block equals its valid bits; Free, Unclean, Reserved and Bad blocks have none.

use super::StoreError;
use super::order::Order;
use super::victim::{Candidate, VictimPolicy};
use crate::codec::{get_u32, get_u40, get_u64, put_u32, put_u40};
use crate::nand::{Cause, Geometry, Nand, NandError};
use crate::units::{Pbn, Ppn};
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

/// Blocks with equally few valid pages that greedy compares by wear.
pub const TIE_SCAN: usize = 16;

const NONE: u32 = u32::MAX;

/// The clock has 40 bits on the medium; beyond it stands still there.
const CLOCK_MAX: u64 = (1 << 40) - 1;

/// What a block is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BlockState {
    /// Erased and ready.
    Free,
    /// Contents unknown or stale: must be erased before use.
    Unclean,
    /// Being filled.
    Open,
    /// Nothing more is programmed before the next erase.
    Full,
    /// Kept out of allocation and collection: checkpoints and anchors.
    Reserved,
    /// Marked bad.
    Bad,
}

impl BlockState {
    const fn from_byte(byte: u8) -> Option<BlockState> {
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

    /// Whether the block is in the pool.
    pub const fn is_free(self) -> bool {
        matches!(self, BlockState::Free | BlockState::Unclean)
    }
}

/// Which free block is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wear {
    /// The one erased least: for data that will soon be rewritten.
    Least,
    /// The one erased most: for data that has proved cold.
    Most,
}

#[derive(Clone, Debug)]
struct Block {
    modified: u64,
    erases: u32,
    previous: u32,
    next: u32,
    valid: u16,
    state: BlockState,
}

#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
}

/// States, wear and valid pages of all blocks.
#[derive(Clone, Debug)]
pub struct BlockTable {
    geometry: Geometry,
    blocks: Vec<Block>,
    valid_bits: Vec<u64>,
    pool: BTreeSet<(u32, u32)>,
    by_valid: Vec<List>,
    /// No list below this valid count has a block.
    lowest: usize,
    live_pages: u32,
    /// Logical time: pages marked valid so far.
    clock: u64,
    order: Order,
}

impl BlockTable {
    /// A table for a chip of which nothing is known: every block is Unclean.
    pub fn new(geometry: Geometry) -> BlockTable {
        let block = Block {
            modified: 0,
            erases: 0,
            previous: NONE,
            next: NONE,
            valid: 0,
            state: BlockState::Unclean,
        };
        BlockTable {
            geometry,
            blocks: vec![block; geometry.blocks as usize],
            valid_bits: vec![0; (geometry.pages() as usize).div_ceil(64)],
            pool: (0..geometry.blocks).map(|pbn| (0, pbn)).collect(),
            by_valid: vec![List { head: NONE, tail: NONE }; geometry.pages_per_block as usize + 1],
            lowest: geometry.pages_per_block as usize,
            live_pages: 0,
            clock: 0,
            order: Order::None,
        }
    }

    /// The shape of the chip.
    #[inline]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// What a block is used for.
    #[inline]
    pub fn state(&self, pbn: Pbn) -> BlockState {
        self.blocks[pbn.index()].state
    }

    /// Blocks in the pool, erased or not.
    #[inline]
    pub fn free_count(&self) -> u32 {
        self.pool.len() as u32
    }

    /// Blocks not marked bad.
    pub fn good_count(&self) -> u32 {
        self.blocks.iter().filter(|b| b.state != BlockState::Bad).count() as u32
    }

    /// Valid pages of the chip.
    #[inline]
    pub fn live_pages(&self) -> u32 {
        self.live_pages
    }

    /// Valid pages of a block.
    #[inline]
    pub fn valid_count(&self, pbn: Pbn) -> u32 {
        u32::from(self.blocks[pbn.index()].valid)
    }

    /// Erases of a block, as far as checkpoints and this session know.
    #[inline]
    pub fn erase_count(&self, pbn: Pbn) -> u32 {
        self.blocks[pbn.index()].erases
    }

    /// The blocks in a state, ascending.
    pub fn in_state(&self, state: BlockState) -> impl Iterator<Item = Pbn> + '_ {
        let numbered = self.blocks.iter().enumerate();
        numbered.filter(move |(_, b)| b.state == state).map(|(i, _)| Pbn(i as u32))
    }

    /// Takes a block out of the pool; it becomes Open. True says that it must be erased first.
    pub fn take_free(&mut self, wear: Wear) -> Option<(Pbn, bool)> {
        let &(_, pbn) = match wear {
            Wear::Least => self.pool.first()?,
            Wear::Most => self.pool.last()?,
        };
        let needs_erase = self.claim(Pbn(pbn));
        Some((Pbn(pbn), needs_erase))
    }

    /// Takes this block out of the pool; it becomes Open. True says that it must be erased before it is programmed.
    pub fn claim(&mut self, pbn: Pbn) -> bool {
        let state = self.state(pbn);
        assert!(state.is_free(), "T1: {pbn} is {state:?}, not free");
        self.set_state(pbn, BlockState::Open);
        state == BlockState::Unclean
    }

    /// Ends the filling of an open block.
    pub fn close(&mut self, pbn: Pbn) {
        assert!(self.state(pbn) == BlockState::Open, "{pbn} is not open");
        self.set_state(pbn, BlockState::Full);
    }

    /// Gives a block back that was erased just now: it becomes Free.
    pub fn release(&mut self, pbn: Pbn) {
        self.give_back(pbn, BlockState::Free);
    }

    /// Gives a block back that still holds stale bytes: it becomes Unclean and is erased when it is needed.
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

    /// After a mount: these blocks are the reserved ones, whatever the table that was loaded says.
    pub fn reserve_exactly(&mut self, reserved: &[Pbn]) -> Result<(), StoreError> {
        let stale: Vec<Pbn> = self.in_state(BlockState::Reserved).filter(|p| !reserved.contains(p)).collect();
        for pbn in stale {
            self.discard(pbn);
        }
        for &pbn in reserved {
            match self.blocks.get(pbn.index()).map(|b| (b.state, b.valid)) {
                Some((BlockState::Reserved, _)) => {}
                Some((BlockState::Free | BlockState::Unclean, _)) => self.reserve(pbn),
                _ => {
                    let what = "a checkpoint lies in a block that holds other data";
                    return Err(StoreError::Corrupted { what, at: u64::from(pbn.0) });
                }
            }
        }
        Ok(())
    }

    /// Takes a block out of use for good. Its valid pages must have been moved.
    pub fn retire(&mut self, pbn: Pbn) {
        assert!(self.valid_count(pbn) == 0, "T2: {pbn} still has valid pages");
        self.set_state(pbn, BlockState::Bad);
    }

    /// Counts an erase.
    pub fn note_erase(&mut self, pbn: Pbn) {
        let state = self.state(pbn);
        self.unlink(pbn);
        let erases = &mut self.blocks[pbn.index()].erases;
        *erases = erases.saturating_add(1);
        self.link(pbn, state);
    }

    /// Marks a page as holding live data.
    #[inline]
    pub fn mark_valid(&mut self, ppn: Ppn) {
        let pbn = self.geometry.block_of(ppn);
        let (word, bit) = (ppn.index() / 64, 1u64 << (ppn.0 % 64));
        assert!(self.valid_bits[word] & bit == 0, "T2: {ppn} is valid already");
        self.valid_bits[word] |= bit;
        self.clock += 1;
        self.change_valid(pbn, true);
    }

    /// Marks a page as dead.
    #[inline]
    pub fn invalidate(&mut self, ppn: Ppn) {
        let pbn = self.geometry.block_of(ppn);
        let (word, bit) = (ppn.index() / 64, 1u64 << (ppn.0 % 64));
        assert!(self.valid_bits[word] & bit != 0, "T2: {ppn} is not valid");
        self.valid_bits[word] &= !bit;
        self.change_valid(pbn, false);
    }

    fn change_valid(&mut self, pbn: Pbn, more: bool) {
        let state = self.state(pbn);
        assert!(matches!(state, BlockState::Open | BlockState::Full), "T2: {pbn} is {state:?}");
        if state == BlockState::Full {
            self.unlink(pbn);
        }
        let block = &mut self.blocks[pbn.index()];
        block.modified = self.clock;
        if more {
            block.valid += 1;
            self.live_pages += 1;
        } else {
            block.valid -= 1;
            self.live_pages -= 1;
        }
        if state == BlockState::Full {
            self.link(pbn, state);
        }
    }

    /// Whether a page holds live data.
    #[inline]
    pub fn is_valid(&self, ppn: Ppn) -> bool {
        self.valid_bits[ppn.index() / 64] >> (ppn.0 % 64) & 1 == 1
    }

    /// The first valid page of a block at or after a place in it.
    pub fn next_valid(&self, pbn: Pbn, from: u32) -> Option<Ppn> {
        let end = self.geometry.page_at(pbn, 0).0 + self.geometry.pages_per_block;
        let mut at = self.geometry.page_at(pbn, from).0;
        while at < end {
            let rest = self.valid_bits[at as usize / 64] >> (at % 64);
            if rest != 0 {
                let found = at + rest.trailing_zeros();
                return (found < end).then_some(Ppn(found));
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// The valid pages of a block, ascending.
    pub fn valid_pages(&self, pbn: Pbn) -> impl Iterator<Item = Ppn> + '_ {
        let mut from = 0;
        core::iter::from_fn(move || {
            let ppn = self.next_valid(pbn, from)?;
            from = self.geometry.page_in_block(ppn) + 1;
            Some(ppn)
        })
    }

    /// Keeps from now on what this policy needs, so that it knows the order in which blocks are closed. Without this it
    /// learns of the policy when [`BlockTable::victim`] is first called, and takes the order of the last changes for it.
    pub fn follow(&mut self, policy: VictimPolicy) {
        if self.order.suits(policy) {
            return;
        }
        let mut full: Vec<u32> = self.in_state(BlockState::Full).map(|pbn| pbn.0).collect();
        full.sort_by_key(|&pbn| self.blocks[pbn as usize].modified);
        self.order = Order::new(policy, self.blocks.len(), full.into_iter(), self.clock);
    }

    /// The full block to collect next; none when no full block has an invalid page. Each one has.
    pub fn victim(&mut self, policy: VictimPolicy) -> Option<Pbn> {
        self.follow(policy);
        // Who has the fewest valid pages also says whether there is a victim at all.
        let greedy = self.greedy()?;
        Some(match policy {
            VictimPolicy::Greedy => greedy,
            VictimPolicy::CostBenefit | VictimPolicy::Cat => self.best(policy).unwrap_or(greedy),
            VictimPolicy::Fifo => self.fewest_of_oldest(1).unwrap_or(greedy),
            VictimPolicy::Windowed { blocks } => self.fewest_of_oldest(blocks).unwrap_or(greedy),
            VictimPolicy::Choices { count } => self.fewest_of_drawn(count).unwrap_or(greedy),
        })
    }

    fn greedy(&mut self) -> Option<Pbn> {
        let full = self.geometry.pages_per_block as usize;
        while self.lowest < full && self.by_valid[self.lowest].head == NONE {
            self.lowest += 1;
        }
        if self.lowest == full {
            return None;
        }
        let head = self.by_valid[self.lowest].head;
        let successor = |&at: &u32| Some(self.blocks[at as usize].next).filter(|&n| n != NONE);
        let oldest = core::iter::successors(Some(head), successor).take(TIE_SCAN);
        // `min_by_key` keeps the first of equals: the one unchanged for longest.
        oldest.min_by_key(|&at| self.blocks[at as usize].erases).map(Pbn)
    }

    /// The best of all full blocks, for policies that weigh age against valid pages.
    fn best(&self, policy: VictimPolicy) -> Option<Pbn> {
        let pages = self.geometry.pages_per_block;
        let mut best: Option<(Pbn, Candidate)> = None;
        for (i, block) in self.blocks.iter().enumerate() {
            if block.state != BlockState::Full || u32::from(block.valid) == pages {
                continue;
            }
            let age = self.clock - block.modified;
            let candidate = Candidate { valid: u32::from(block.valid), pages, age, erases: block.erases };
            if best.as_ref().is_none_or(|(_, b)| candidate.beats(b, policy)) {
                best = Some((Pbn(i as u32), candidate));
            }
        }
        best.map(|(pbn, _)| pbn)
    }

    /// The block with the fewest valid pages among so many closed first. Blocks with valid pages only that come first go
    /// to the end; there must be another.
    fn fewest_of_oldest(&mut self, window: u32) -> Option<Pbn> {
        let Order::Closing(closing) = &mut self.order else { return None };
        let (blocks, all) = (&self.blocks, self.geometry.pages_per_block);
        let valid = |pbn: u32| u32::from(blocks[pbn as usize].valid);
        while valid(closing.iter().next()?) == all {
            closing.rotate();
        }
        // `min_by_key` keeps the first of equals: the one closed first.
        closing.iter().take(window.max(1) as usize).min_by_key(|&pbn| valid(pbn)).map(Pbn)
    }

    /// The block with the fewest valid pages among so many drawn; none when all those have valid pages only.
    fn fewest_of_drawn(&mut self, count: u32) -> Option<Pbn> {
        let Order::Drawing(drawing) = &mut self.order else { return None };
        let (blocks, all) = (&self.blocks, self.geometry.pages_per_block);
        let valid = |pbn: u32| u32::from(blocks[pbn as usize].valid);
        let drawn = (0..count.max(1)).filter_map(|_| drawing.draw());
        drawn.min_by_key(|&pbn| valid(pbn)).filter(|&pbn| valid(pbn) < all).map(Pbn)
    }

    /// The full block erased least, and its erase count.
    pub fn least_worn_full(&self) -> Option<(Pbn, u32)> {
        let full = self.in_state(BlockState::Full);
        full.map(|pbn| (pbn, self.erase_count(pbn))).min_by_key(|&(_, erases)| erases)
    }

    /// The largest erase count of a good block.
    pub fn most_erases(&self) -> u32 {
        let good = self.blocks.iter().filter(|b| b.state != BlockState::Bad);
        good.map(|b| b.erases).max().unwrap_or(0)
    }

    fn set_state(&mut self, pbn: Pbn, state: BlockState) {
        if self.state(pbn) == BlockState::Full {
            self.order.remove(pbn.0);
        }
        self.unlink(pbn);
        self.link(pbn, state);
        if state == BlockState::Full {
            self.order.add(pbn.0);
        }
    }

    fn unlink(&mut self, pbn: Pbn) {
        let Block { erases, previous, next, valid, state, .. } = self.blocks[pbn.index()];
        if state.is_free() {
            assert!(self.pool.remove(&(erases, pbn.0)), "T1: {pbn} is missing from the pool");
        } else if state == BlockState::Full {
            let list = &mut self.by_valid[usize::from(valid)];
            if previous == NONE {
                list.head = next;
            } else {
                self.blocks[previous as usize].next = next;
            }
            if next == NONE {
                list.tail = previous;
            } else {
                self.blocks[next as usize].previous = previous;
            }
        }
    }

    fn link(&mut self, pbn: Pbn, state: BlockState) {
        let block = &mut self.blocks[pbn.index()];
        block.state = state;
        if state.is_free() {
            self.pool.insert((block.erases, pbn.0));
        } else if state == BlockState::Full {
            let valid = usize::from(block.valid);
            let tail = self.by_valid[valid].tail;
            block.previous = tail;
            block.next = NONE;
            if tail == NONE {
                self.by_valid[valid].head = pbn.0;
            } else {
                self.blocks[tail as usize].next = pbn.0;
            }
            self.by_valid[valid].tail = pbn.0;
            self.lowest = self.lowest.min(valid);
        }
    }

    /// Bytes of RAM held.
    pub fn ram_bytes(&self) -> usize {
        size_of::<BlockTable>()
            + self.blocks.len() * size_of::<Block>()
            + self.valid_bits.len() * 8
            + self.by_valid.len() * size_of::<List>()
            + self.pool.len() * size_of::<(u32, u32)>()
            + self.order.ram_bytes()
    }
}

/// With the chip.
impl BlockTable {
    /// Retires every block that carries a bad-block mark.
    pub fn retire_marked<N: Nand>(&mut self, nand: &mut N) -> Result<(), StoreError> {
        for pbn in (0..self.geometry.blocks).map(Pbn) {
            if self.state(pbn) != BlockState::Bad && nand.is_bad(pbn)? {
                self.retire(pbn);
            }
        }
        Ok(())
    }

    /// Erases a block and counts it. False: the erase failed, and the block is marked bad and retired.
    pub fn erase<N: Nand>(&mut self, nand: &mut N, pbn: Pbn, cause: Cause) -> Result<bool, StoreError> {
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

    /// Marks a block bad on the chip and retires it. Its valid pages must have been moved.
    pub fn give_up<N: Nand>(&mut self, nand: &mut N, pbn: Pbn) -> Result<(), StoreError> {
        nand.mark_bad(pbn)?;
        self.retire(pbn);
        Ok(())
    }

    /// Takes a block out of the pool, erased and Open; blocks that fail on the way are retired. `Full` when the pool
    /// is empty.
    pub fn take_erased<N: Nand>(
        &mut self,
        nand: &mut N,
        wear: Wear,
        cause: Cause,
    ) -> Result<Pbn, StoreError> {
        loop {
            let (pbn, needs_erase) = self.take_free(wear).ok_or(StoreError::Full)?;
            if !needs_erase {
                return Ok(pbn);
            }
            match self.erase(nand, pbn, cause) {
                Ok(true) => return Ok(pbn),
                Ok(false) => {}
                Err(error) => {
                    self.discard(pbn);
                    return Err(error);
                }
            }
        }
    }
}

/// On the medium: clock u64, then state u8, erases u32, modified u40 and rank u24 of each block, then one bit per page.
/// The rank is the place among the full blocks in the order of closing, from 1; 0 where that order is not kept.
impl BlockTable {
    /// Bytes that [`BlockTable::encode`] appends.
    pub fn encoded_bytes(geometry: Geometry) -> usize {
        8 + geometry.blocks as usize * 13 + (geometry.pages() as usize).div_ceil(64) * 8
    }

    /// Appends the table to a checkpoint.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.clock.min(CLOCK_MAX).to_le_bytes());
        let rows = out.len();
        for block in &self.blocks {
            let mut row = [0; 13];
            row[0] = block.state as u8;
            put_u32(&mut row, 1, block.erases);
            put_u40(&mut row, 5, block.modified.min(CLOCK_MAX));
            out.extend_from_slice(&row);
        }
        if let Order::Closing(closing) = &self.order {
            for (rank, pbn) in (1u32..).zip(closing.iter()) {
                let at = rows + 13 * pbn as usize + 10;
                out[at..at + 3].copy_from_slice(&rank.to_le_bytes()[..3]);
            }
        }
        for word in &self.valid_bits {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// Reads a table back from the first [`BlockTable::encoded_bytes`] of `bytes`. Free blocks come back Unclean: a
    /// program may have been cut short in one of them since.
    pub fn decode(geometry: Geometry, bytes: &[u8]) -> Result<BlockTable, StoreError> {
        let corrupted =
            |at: usize| StoreError::Corrupted { what: "a block table makes no sense", at: at as u64 };
        if bytes.len() < BlockTable::encoded_bytes(geometry) {
            return Err(corrupted(bytes.len()));
        }
        let mut table = BlockTable::new(geometry);
        table.clock = get_u64(bytes, 0);
        if table.clock > CLOCK_MAX {
            return Err(corrupted(0));
        }
        table.decode_bits(&bytes[8 + table.blocks.len() * 13..]).ok_or_else(|| corrupted(0))?;
        table.pool.clear();
        let mut ranks = Vec::new();
        for pbn in (0..geometry.blocks).map(Pbn) {
            let row = &bytes[8 + pbn.index() * 13..];
            let state = BlockState::from_byte(row[0]).ok_or_else(|| corrupted(pbn.index()))?;
            let state = if state == BlockState::Free { BlockState::Unclean } else { state };
            let valid = table.valid_pages(pbn).count() as u16;
            let block = &mut table.blocks[pbn.index()];
            (block.erases, block.modified, block.valid) = (get_u32(row, 1), get_u40(row, 5), valid);
            let may_have_valid = matches!(state, BlockState::Open | BlockState::Full);
            if block.modified > table.clock || (valid > 0 && !may_have_valid) {
                return Err(corrupted(pbn.index()));
            }
            table.live_pages += u32::from(valid);
            table.link(pbn, state);
            if state == BlockState::Full {
                ranks.push((get_u32(row, 9) >> 8, pbn.0));
            }
        }
        table.decode_order(ranks);
        Ok(table)
    }

    /// Takes the order of closing over, if it was kept: that of the ranks, whatever they are.
    fn decode_order(&mut self, mut ranks: Vec<(u32, u32)>) {
        if ranks.iter().any(|&(rank, _)| rank > 0) {
            ranks.sort_unstable();
            let full = ranks.into_iter().map(|(_, pbn)| pbn);
            self.order = Order::new(VictimPolicy::Fifo, self.blocks.len(), full, 0);
        }
    }

    fn decode_bits(&mut self, bytes: &[u8]) -> Option<()> {
        for (i, word) in self.valid_bits.iter_mut().enumerate() {
            *word = get_u64(bytes, i * 8);
        }
        let used = self.geometry.pages() % 64;
        let unused = if used == 0 { 0 } else { u64::MAX << used };
        (self.valid_bits.last()? & unused == 0).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn table() -> BlockTable {
        BlockTable::new(Geometry::new(512, 16, 8, 40))
    }

    fn fill(table: &mut BlockTable, valid: u32) -> Pbn {
        let (pbn, _) = table.take_free(Wear::Least).unwrap();
        for page in 0..valid {
            let ppn = table.geometry().page_at(pbn, page);
            table.mark_valid(ppn);
        }
        table.close(pbn);
        pbn
    }

    #[test]
    fn greedy_takes_fewest_valid_then_least_worn_then_oldest() {
        let mut t = table();
        let worn = fill(&mut t, 3);
        let old = fill(&mut t, 3);
        let young = fill(&mut t, 3);
        let full = fill(&mut t, 8);
        t.note_erase(worn);
        assert_eq!(t.victim(VictimPolicy::Greedy), Some(old));
        let first = t.geometry().page_at(young, 0);
        t.invalidate(first);
        assert_eq!(t.victim(VictimPolicy::Greedy), Some(young));
        for pbn in [worn, old, young] {
            let pages: Vec<Ppn> = t.valid_pages(pbn).collect();
            pages.into_iter().for_each(|p| t.invalidate(p));
            t.discard(pbn);
        }
        assert_eq!(t.victim(VictimPolicy::Greedy), None, "{full} has nothing to gain");
        assert_eq!(t.victim(VictimPolicy::CostBenefit), None);
    }

    #[test]
    fn free_blocks_are_taken_by_wear() {
        let mut t = table();
        t.note_erase(Pbn(0));
        t.note_erase(Pbn(5));
        t.note_erase(Pbn(5));
        assert_eq!(t.take_free(Wear::Most), Some((Pbn(5), true)));
        assert_eq!(t.take_free(Wear::Least), Some((Pbn(1), true)));
        t.release(Pbn(1));
        assert_eq!(t.take_free(Wear::Least), Some((Pbn(1), false)));
        assert_eq!(t.free_count(), 38);
    }

    /// The victim by definition, over all blocks.
    fn slow_fewest(t: &BlockTable) -> Option<u32> {
        let full = t.in_state(BlockState::Full).map(|p| t.valid_count(p));
        full.filter(|&v| v < t.geometry().pages_per_block).min()
    }

    #[test]
    fn random_use_keeps_counts_lists_and_encoding() {
        let mut rng = Rng::new(5);
        let mut t = table();
        for step in 0..20_000 {
            let live: Vec<Ppn> = (0..t.geometry().pages()).map(Ppn).filter(|&p| t.is_valid(p)).collect();
            if t.free_count() > 4 && rng.chance(1, 5) {
                fill(&mut t, rng.below(9) as u32);
            } else if !live.is_empty() {
                t.invalidate(live[rng.below(live.len() as u64) as usize]);
            }
            let policy =
                if step % 100 < 70 { VictimPolicy::Fifo } else { VictimPolicy::ALL[rng.below(6) as usize] };
            let victim = t.victim(policy);
            let fewest = slow_fewest(&t);
            assert_eq!(victim.is_some(), fewest.is_some(), "{policy:?}");
            assert!(
                victim.is_none_or(|v| t.state(v) == BlockState::Full && t.valid_count(v) < 8),
                "{policy:?}"
            );
            if policy == VictimPolicy::Greedy {
                assert_eq!(victim.map(|v| t.valid_count(v)), fewest);
            }
            if let Some(v) = victim.filter(|&v| t.valid_count(v) == 0) {
                t.note_erase(v);
                t.release(v);
            }
            if step % 1000 == 0 {
                let mut bytes = Vec::new();
                t.encode(&mut bytes);
                assert_eq!(bytes.len(), BlockTable::encoded_bytes(t.geometry()));
                let back = BlockTable::decode(t.geometry(), &bytes).unwrap();
                assert_eq!((back.live_pages(), back.free_count()), (t.live_pages(), t.free_count()));
                assert_eq!(slow_fewest(&back), slow_fewest(&t));
            }
        }
    }

    #[test]
    fn fifo_goes_by_the_order_of_closing_also_after_a_mount() {
        let mut t = table();
        t.follow(VictimPolicy::Fifo);
        let blocks: Vec<Pbn> = [8, 5, 2, 3, 6, 8].into_iter().map(|valid| fill(&mut t, valid)).collect();
        // A change of a block does not make it younger; one with valid pages only goes to the end.
        let page = t.next_valid(blocks[1], 0).unwrap();
        t.invalidate(page);
        assert_eq!(t.victim(VictimPolicy::Fifo), Some(blocks[1]));
        for window in [(1, 1), (2, 2), (3, 2), (6, 2)] {
            assert_eq!(t.victim(VictimPolicy::Windowed { blocks: window.0 }), Some(blocks[window.1]));
        }
        let mut bytes = Vec::new();
        t.encode(&mut bytes);
        let mut back = BlockTable::decode(t.geometry(), &bytes).unwrap();
        for table in [&mut t, &mut back] {
            let mut order = Vec::new();
            while let Some(victim) = table.victim(VictimPolicy::Fifo) {
                order.push(victim);
                let pages: Vec<Ppn> = table.valid_pages(victim).collect();
                pages.into_iter().for_each(|p| table.invalidate(p));
                table.discard(victim);
            }
            assert_eq!(order, [blocks[1], blocks[2], blocks[3], blocks[4]]);
            assert_eq!(table.victim(VictimPolicy::Choices { count: 4 }), None);
            let first = table.geometry().page_at(blocks[5], 0);
            table.invalidate(first);
            assert_eq!(table.victim(VictimPolicy::Fifo), Some(blocks[5]));
        }
    }

    #[test]
    fn more_choices_find_blocks_with_fewer_valid_pages() {
        let mut t = table();
        (0..32).for_each(|i| drop(fill(&mut t, i % 9)));
        let mean = |t: &mut BlockTable, count| {
            let valid =
                |t: &mut BlockTable| t.victim(VictimPolicy::Choices { count }).map(|v| t.valid_count(v));
            (0..500).filter_map(|_| valid(t)).sum::<u32>()
        };
        let means = [1, 2, 4, 400].map(|count| mean(&mut t.clone(), count));
        assert!(means.is_sorted_by(|a, b| a > b), "{means:?}");
        assert_eq!(means[3], 0, "the emptiest of all");
    }

    #[test]
    fn nonsense_is_refused_not_trusted() {
        let t = table();
        let mut bytes = Vec::new();
        t.encode(&mut bytes);
        assert!(BlockTable::decode(t.geometry(), &bytes[1..]).is_err());
        bytes[8] = 9;
        assert!(BlockTable::decode(t.geometry(), &bytes).is_err());
        bytes[8] = 1;
        let bits = 8 + 40 * 13;
        bytes[bits] = 1;
        assert!(BlockTable::decode(t.geometry(), &bytes).is_err(), "a valid page in a free block");
    }
}
