//! Static wear levelling: which block should be moved so that blocks with cold data wear as well.
//!
//! Allocation by wear ([`crate::blocks::Wear`]) evens out the blocks that are free now and then. A block full
//! of data that nobody changes never is; it stays young while the others wear out. The leveller finds such
//! blocks. It does no I/O: an FTL asks [`WearLeveller::next_move`] about once per block it opens, and empties
//! the block it is told.
//!
//! - *Relative*: the block that lags furthest moves once it lags by a quarter of the erases of a worn one and
//!   by what makes up for the move ([`WearLevelling::laggard`]). Logs and IPL ask this rule themselves.
//! - *Threshold*: the least worn full block moves once it lags behind the most worn block by more than a gap.
//! - *Dual pool* (Chang, SAC 2007): every block belongs to the hot or to the cold pool. `EC` are its erases,
//!   `EEC` those since it joined the pool; `T` is the threshold.
//!   1. Cold pool resize: while max EEC of the cold pool - min EEC of the hot pool > T, that block of the
//!      cold pool is
//!      not cold: it goes to the hot pool.
//!   2. Dirty swap: while max EC of the hot pool - min EC of the cold pool > T, the data of the latter block
//!      move into the
//!      former, and the two change pools.
//!   3. Hot pool resize: while max EC - min EC of the hot pool > 2 T, the block erased least goes to the cold
//!      pool.
//!
//! Looking for the extremes takes a scan of the table. So one scan plans as many moves as blocks are opened
//! until the next one, in a 32nd of the blocks. That costs a look at some 32 to 200 blocks per opened one,
//! and the pools 8 bytes of RAM a block.
//!
//! Invariants
//! - W1: every block told is full, and lagged by more than the threshold behind the most worn one at the last
//!   scan.
//! - W2: a worn block told is free. At a swap it was in the hot pool, and the cold block in the cold pool.
//!
//! Deviations: the paper looks after each erase, at the block erased; here the worn block is the most worn
//! free one of the hot pool, and many cold blocks are found at once. Which pool a block is in is not on the
//! chip: after a mount the half that is unchanged for longest is the cold pool. A cold block that holds
//! nothing joins the hot pool by itself.
//!
//! Confidence: the dual pool from the published simulator of its author; threshold levelling is folklore.

use crate::blocks::victim::LEFT_OUT;
use crate::blocks::{BlockState, BlockTable, Wear};
use crate::check::words;
use crate::fault::StoreFault;
use crate::sort;
use crate::store::StoreError;
use crate::units::Pbn;
use alloc::vec::Vec;

/// Rule by which cold blocks are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub enum WearLevelling {
    /// Blocks with cold data stay where they are.
    None,
    /// The block that lags furthest moves once it lags too far for the price of the move
    /// ([`WearLevelling::laggard`]).
    #[default]
    Relative,
    /// The least worn full block moves once it lags too far behind the most worn block.
    Threshold {
        /// Erases by which a block may lag behind.
        gap_erases: u32,
    },
    /// Chang's dual pool.
    DualPool {
        /// Threshold T of the rules.
        threshold_erases: u32,
    },
}

/// Erases by which a block may lag in any case.
const LAG_MIN: u32 = 16;

/// Erases by which a block may lag for each block that the move of its pages fills. If eight blocks in ten
/// are cold, their moves take about one erase in a hundred.
const LAG_PER_BLOCK: u32 = 160;

impl WearLevelling {
    /// Block that lags furthest behind the worn block `target`, so that its data are to move there. Each
    /// candidate comes with the number of pages that its move programs. `None` for dual pools, which swap.
    ///
    /// By the rule `Relative` a block may lag by a quarter of the erases of the target, so that the most worn
    /// block is hardly a third above the mean, and by what makes up for the move.
    pub fn laggard(
        self,
        blocks: &BlockTable,
        target: Pbn,
        candidates: impl Iterator<Item = (Pbn, u32)>,
    ) -> Option<Pbn> {
        let (worn, pages_per_block) = (blocks.erase_count(target), blocks.geometry().pages_per_block);
        let lag = |pbn| worn.saturating_sub(blocks.erase_count(pbn));
        let may_move = |&(pbn, pages): &(Pbn, u32)| match self {
            WearLevelling::Relative => {
                let price = u64::from(LAG_PER_BLOCK) * u64::from(pages) / u64::from(pages_per_block);
                u64::from(lag(pbn)) > price.max(u64::from(LAG_MIN.max(worn / 4)))
            }
            WearLevelling::Threshold { gap_erases } => lag(pbn) > gap_erases,
            WearLevelling::None | WearLevelling::DualPool { .. } => false,
        };
        candidates.filter(may_move).map(|(pbn, _)| pbn).max_by_key(|&pbn| lag(pbn))
    }

    /// Refuses a rule that was left out when the engine was built (feature `full`).
    pub fn require_built(self) -> Result<(), StoreFault> {
        let is_built =
            cfg!(feature = "full") || matches!(self, WearLevelling::None | WearLevelling::Relative);
        if is_built { Ok(()) } else { Err(StoreError::Unsupported(words(LEFT_OUT).into()).into()) }
    }

    /// True if the rule needs the times at which blocks were last modified ([`BlockTable::keep_ages`]).
    pub const fn asks_for_ages(self) -> bool {
        matches!(self, WearLevelling::DualPool { .. })
    }

    /// Name in configurations and results, without its number.
    pub const fn name(self) -> &'static str {
        match self {
            WearLevelling::None => "off",
            WearLevelling::Relative => "relative",
            WearLevelling::Threshold { .. } => "threshold",
            WearLevelling::DualPool { .. } => "dual-pool",
        }
    }
}

/// Move of data that wear levelling asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Full block whose data should move, so that the block wears.
    pub cold: Pbn,
    /// Worn free block that should take the data. `None` if any worn block will do.
    pub worn: Option<Pbn>,
}

/// Finder of the blocks to move.
#[derive(Clone, Debug)]
pub struct WearLeveller {
    rule: WearLevelling,
    /// Dual pool: the membership of each block; else empty.
    pool: Vec<Member>,
    /// Cold blocks that should move, the next one last.
    planned: Vec<Pbn>,
    calls_since_scan: u32,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    is_cold: bool,
    /// Erase count of the block when it joined the pool.
    erases_before: u32,
}

impl WearLeveller {
    /// Makes a leveller for the blocks of this table.
    pub fn new(rule: WearLevelling, blocks: &BlockTable) -> WearLeveller {
        if !cfg!(feature = "full") {
            return WearLeveller { rule, pool: Vec::new(), planned: Vec::new(), calls_since_scan: 0 };
        }
        let mut pool = Vec::new();
        if matches!(rule, WearLevelling::DualPool { .. }) {
            let mut by_age: Vec<Pbn> = (0..blocks.geometry().blocks).map(Pbn).collect();
            let member = |&pbn: &Pbn| Member { is_cold: false, erases_before: blocks.erase_count(pbn) };
            pool = by_age.iter().map(member).collect();
            sort::by_key(&mut by_age, |&pbn| blocks.modified(pbn));
            by_age[..pool.len() / 2].iter().for_each(|pbn| pool[pbn.index()].is_cold = true);
        }
        let plans = !matches!(rule, WearLevelling::None | WearLevelling::Relative);
        let moves_max = if plans { moves_per_scan(blocks) as usize } else { 0 };
        let planned = Vec::with_capacity(moves_max);
        WearLeveller { rule, pool, planned, calls_since_scan: 0 }
    }

    /// Returns the move that is due, if any. To be called about once for each block opened; the move should
    /// be done.
    pub fn next_move(&mut self, blocks: &BlockTable) -> Option<Move> {
        self.calls_since_scan += 1;
        let scans = self.calls_since_scan > moves_per_scan(blocks);
        if scans {
            self.calls_since_scan = 0;
        }
        if self.rule == WearLevelling::Relative {
            let target = blocks.first_free(Wear::Most).filter(|_| scans)?;
            let full = blocks.in_state(BlockState::Full).map(|pbn| (pbn, blocks.valid_count(pbn)));
            return Some(Move { cold: self.rule.laggard(blocks, target, full)?, worn: None });
        }
        if !cfg!(feature = "full") {
            return None;
        }
        if scans {
            self.planned.clear();
            match self.rule {
                WearLevelling::None | WearLevelling::Relative => {}
                WearLevelling::Threshold { gap_erases } => self.plan_laggards(blocks, gap_erases),
                WearLevelling::DualPool { threshold_erases } => self.plan_swaps(blocks, threshold_erases),
            }
        }
        while self.planned.last().is_some_and(|&cold| blocks.state(cold) != BlockState::Full) {
            self.planned.pop();
        }
        let cold = *self.planned.last()?;
        let erases = blocks.erase_count(cold);
        let worn = match self.rule {
            WearLevelling::DualPool { threshold_erases } => {
                let worn = self.worn_free_block(blocks, erases, threshold_erases)?;
                self.join(worn, true, blocks);
                self.join(cold, false, blocks);
                Some(worn)
            }
            _ => None,
        };
        self.planned.pop();
        Some(Move { cold, worn })
    }

    /// Bytes of RAM held.
    pub fn ram_bytes(&self) -> usize {
        size_of::<WearLeveller>()
            + self.pool.len() * size_of::<Member>()
            + self.planned.capacity() * size_of::<Pbn>()
    }

    /// Most worn free block of the hot pool, if a block of `erases` erases lags behind it.
    fn worn_free_block(&self, blocks: &BlockTable, erases: u32, threshold: u32) -> Option<Pbn> {
        let worn = blocks.free_by_wear().take_while(|&pbn| lags(erases, blocks.erase_count(pbn), threshold));
        worn.into_iter().find(|&pbn| !self.pool[pbn.index()].is_cold)
    }

    fn plan_laggards(&mut self, blocks: &BlockTable, gap: u32) {
        let most = blocks.most_erases();
        self.planned.extend(
            blocks.in_state(BlockState::Full).filter(|&pbn| lags(blocks.erase_count(pbn), most, gap)),
        );
        self.keep_the_least_worn(blocks);
    }

    fn keep_the_least_worn(&mut self, blocks: &BlockTable) {
        sort::unstable_by_key(&mut self.planned, |&pbn| (blocks.erase_count(pbn), pbn));
        self.planned.truncate(moves_per_scan(blocks) as usize);
        self.planned.reverse();
    }

    /// Blocks of a pool that take part.
    fn members(&self, blocks: &BlockTable, is_cold: bool) -> Vec<Pbn> {
        let all = (0..blocks.geometry().blocks).map(Pbn);
        all.filter(|&pbn| self.pool[pbn.index()].is_cold == is_cold && is_movable(blocks, pbn)).collect()
    }

    /// Erases of a block since it joined its pool.
    fn effective(&self, pbn: Pbn, blocks: &BlockTable) -> u32 {
        blocks.erase_count(pbn).saturating_sub(self.pool[pbn.index()].erases_before)
    }

    fn plan_swaps(&mut self, blocks: &BlockTable, threshold: u32) {
        self.shrink_cold_pool(blocks, threshold);
        let hot = self.members(blocks, false);
        let Some(most) = hot.iter().map(|&pbn| blocks.erase_count(pbn)).max() else { return };
        for cold in self.members(blocks, true) {
            if lags(blocks.erase_count(cold), most, threshold) {
                match blocks.state(cold) {
                    BlockState::Full => self.planned.push(cold),
                    _ => self.join(cold, false, blocks),
                }
            }
        }
        self.keep_the_least_worn(blocks);
        self.shrink_hot_pool(blocks, threshold);
    }

    /// Applies rule 1, cold pool resize.
    fn shrink_cold_pool(&mut self, blocks: &BlockTable, threshold: u32) {
        let hot = self.members(blocks, false);
        let Some(fewest) = hot.iter().map(|&pbn| self.effective(pbn, blocks)).min() else { return };
        for pbn in self.members(blocks, true) {
            if lags(fewest, self.effective(pbn, blocks), threshold) {
                self.join(pbn, false, blocks);
            }
        }
    }

    /// Applies rule 3, hot pool resize.
    fn shrink_hot_pool(&mut self, blocks: &BlockTable, threshold: u32) {
        let hot = self.members(blocks, false);
        let Some(most) = hot.iter().map(|&pbn| blocks.erase_count(pbn)).max() else { return };
        for pbn in hot {
            if lags(blocks.erase_count(pbn), most, threshold.saturating_mul(2)) {
                self.join(pbn, true, blocks);
            }
        }
    }

    fn join(&mut self, pbn: Pbn, is_cold: bool, blocks: &BlockTable) {
        self.pool[pbn.index()] = Member { is_cold, erases_before: blocks.erase_count(pbn) };
    }
}

/// Number of moves that one scan plans, and also the number of calls between two scans.
fn moves_per_scan(blocks: &BlockTable) -> u32 {
    1 + blocks.geometry().blocks / 32
}

fn lags(erases: u32, most: u32, gap: u32) -> bool {
    most.saturating_sub(erases) > gap
}

/// True if a block takes part: checkpoints are moved by their own rule, and bad blocks not at all.
fn is_movable(blocks: &BlockTable, pbn: Pbn) -> bool {
    !matches!(blocks.state(pbn), BlockState::Reserved | BlockState::Bad)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nand::Geometry;

    const BLOCKS: u32 = 100;

    /// Eighty blocks of cold data, and ten of hot data, each rewritten in turn into the least worn free
    /// block; no FTL.
    fn spread_after(rule: WearLevelling, rewrites: u32) -> (u32, u32) {
        let mut blocks = BlockTable::new(Geometry::new(512, 16, 4, BLOCKS));
        blocks.keep_ages();
        let fill = |blocks: &mut BlockTable, wear| {
            let (pbn, needs_erase) = blocks.take_free(wear).unwrap();
            if needs_erase {
                blocks.note_erase(pbn);
            }
            let first = blocks.geometry().page_at(pbn, 0);
            blocks.mark_valid(first);
            blocks.close(pbn);
            pbn
        };
        let empty = |blocks: &mut BlockTable, pbn| {
            let page = blocks.next_valid(pbn, 0).unwrap();
            blocks.invalidate(page);
            blocks.discard(pbn);
        };
        for _ in 0..80 {
            fill(&mut blocks, Wear::Least);
        }
        let mut hot: Vec<Pbn> = (0..10).map(|_| fill(&mut blocks, Wear::Least)).collect();
        let mut leveller = WearLeveller::new(rule, &blocks);
        let mut moves = 0;
        for i in 0..rewrites as usize {
            let new = fill(&mut blocks, Wear::Least);
            empty(&mut blocks, core::mem::replace(&mut hot[i % 10], new));
            let Some(due) = leveller.next_move(&blocks) else { continue };
            assert_eq!(blocks.state(due.cold), BlockState::Full, "W1");
            moves += 1;
            if let Some(worn) = due.worn {
                assert!(blocks.state(worn).is_free(), "W2");
            }
            let copy = fill(&mut blocks, Wear::Most);
            empty(&mut blocks, due.cold);
            // A hot block may be moved as well.
            hot.iter_mut().filter(|pbn| **pbn == due.cold).for_each(|pbn| *pbn = copy);
        }
        let erases = (0..BLOCKS).map(|pbn| blocks.erase_count(Pbn(pbn)));
        (erases.clone().max().unwrap() - erases.min().unwrap(), moves)
    }

    #[cfg(feature = "full")]
    #[test]
    fn the_spread_of_wear_stays_within_the_bound() {
        let (spread, moves) = spread_after(WearLevelling::None, 20_000);
        assert!(spread > 900 && moves == 0, "{spread} without levelling");
        for gap_erases in [4, 16, 64] {
            let (spread, moves) = spread_after(WearLevelling::Threshold { gap_erases }, 20_000);
            assert!(spread <= gap_erases + 4, "threshold {gap_erases}: {spread}");
            assert!(moves < 32_000 / gap_erases, "threshold {gap_erases}: {moves} moves");
        }
        for threshold_erases in [4, 16, 64] {
            let (spread, moves) = spread_after(WearLevelling::DualPool { threshold_erases }, 20_000);
            assert!(spread <= 2 * threshold_erases + 4, "dual pool {threshold_erases}: {spread}");
            assert!(moves < 32_000 / threshold_erases, "dual pool {threshold_erases}: {moves} moves");
        }
    }

    #[cfg(feature = "full")]
    #[test]
    fn pools_change_by_the_rules() {
        let mut blocks = BlockTable::new(Geometry::new(512, 16, 4, 8));
        for pbn in [Pbn(0), Pbn(1)] {
            blocks.claim(pbn);
            blocks.close(pbn);
        }
        let mut leveller = WearLeveller::new(WearLevelling::DualPool { threshold_erases: 3 }, &blocks);
        let cold = |leveller: &WearLeveller| {
            let is_cold = |pbn: &u32| leveller.pool[*pbn as usize].is_cold;
            (0..8).filter(is_cold).collect::<Vec<u32>>()
        };
        assert_eq!(cold(&leveller), [0, 1, 2, 3]);
        (0..4).for_each(|_| blocks.note_erase(Pbn(2)));
        leveller.plan_swaps(&blocks, 3);
        assert_eq!(leveller.planned, [Pbn(0)], "one move a scan on a chip this small");
        assert_eq!(cold(&leveller), [0, 1], "block 2 proved hot, block 3 holds nothing");
        let due = Move { cold: Pbn(0), worn: Some(Pbn(2)) };
        assert_eq!(leveller.next_move(&blocks), Some(due));
        assert_eq!(cold(&leveller), [1, 2], "swapped");
        assert_eq!(leveller.next_move(&blocks), None, "no worn block is free in the hot pool");
        (0..8).for_each(|_| blocks.note_erase(Pbn(6)));
        leveller.plan_swaps(&blocks, 3);
        assert_eq!(cold(&leveller), [0, 1, 3, 4, 5, 7], "what lags twice as far in the hot pool is cold");
    }
}
