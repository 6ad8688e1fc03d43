//! The choice of the leaf share: a cost model, evaluated from time to time.
//!
//! Every [`PERIOD`] operations, their cost is estimated for each layout from counts of the period: the
//! updates u, the pages p that the paths of all operations lay in, the fill and the records of the leaves
//! used, and the live pages. H is the tree's height, and d the leaf's capacity in a layout. h is the least
//! height that holds the records if every node is as full as the leaves are. v is the share of the chip's
//! pages that would be live:
//!
//! ```text
//! J  = p h/H Cr + u (1 + 1/(d/2)) Cw + u GC
//! GC = (1 + 1/(d/2)) v/(1-v) (Cr + Cw) + Ce/B / (1-v)
//! ```
//!
//! Cr, Cw and Ce are the times of a page read, a page program and a block erase; B is the pages of a block.
//! The layout moves by one step of the menu towards the cheapest one, if that gains more than one part in
//! [`GAIN_PARTS`]. The arithmetic uses whole numbers only.
//!
//! The number of records is estimated, because no tree on raw NAND counts them: live pages times the mean
//! entries of the leaves used. Ascending keys use one leaf only, so their estimate is too high by up to a
//! half. The error affects all layouts alike.

use super::layout::Layout;
use crate::ordered::path_log::ground::{Leaf, LeafUse};

/// Number of operations from one decision to the next.
pub const PERIOD: u64 = 1024;

/// A step is made only if it gains more than one part in this many.
pub const GAIN_PARTS: u128 = 20;

/// Facts about the tree that a decision uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Number of levels of the tree.
    pub height: u8,
    /// Number of valid pages.
    pub live_pages: u64,
    /// Number of pages of the chip.
    pub pages: u64,
    /// Number of pages of a block.
    pub pages_per_block: u64,
}

/// Times of the chip's operations. Only their ratios matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive, doc(hidden))]
pub struct Costs {
    /// Time to read a page, in nanoseconds.
    pub read_ns: u32,
    /// Time to program a page, in nanoseconds.
    pub program_ns: u32,
    /// Time to erase a block, in nanoseconds.
    pub erase_ns: u32,
}

impl Default for Costs {
    /// Costs of the mu-Tree paper's MLC part.
    fn default() -> Costs {
        Costs { read_ns: 165_600, program_ns: 905_800, erase_ns: 1_500_000 }
    }
}

/// Figures of the operations of one period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    reads: u64,
    updates: u64,
    /// Sum of the entries of the leaves used.
    entries: u64,
    /// Sum of the capacities of the leaves used.
    room: u64,
    /// Sum of the pages of the paths.
    pages: u64,
}

impl Period {
    /// Counts an operation and the leaf it used.
    pub fn note(&mut self, kind: LeafUse, leaf: Leaf) {
        match kind {
            LeafUse::Read => self.reads += 1,
            LeafUse::Update => self.updates += 1,
        }
        debug_assert!(
            leaf.count <= leaf.capacity,
            "R1: a leaf of {} entries of {}",
            leaf.count,
            leaf.capacity
        );
        self.entries += leaf.count as u64;
        self.room += leaf.capacity as u64;
        self.pages += u64::from(leaf.pages);
    }

    /// True if the period is over.
    pub fn is_over(&self) -> bool {
        self.operations() >= PERIOD
    }

    fn operations(&self) -> u64 {
        self.reads + self.updates
    }

    /// Fill of the leaves, in thousandths.
    fn fill_per_mille(&self) -> u64 {
        (self.entries * 1000 / self.room.max(1)).clamp(1, 1000)
    }

    fn records(&self, facts: &Facts) -> u64 {
        facts.live_pages * self.entries / self.operations().max(1)
    }

    /// Cost J of the period's operations in a layout, in nanoseconds. `None` if the tree would not fit the
    /// chip or the layout.
    pub fn cost_ns(&self, layout: &Layout, facts: &Facts, costs: &Costs) -> Option<u128> {
        let capacity = layout.shape(1, 2).capacity as u64;
        let (records, fill) = (self.records(facts), self.fill_per_mille());
        let live = u128::from((records * 1000).div_ceil(capacity * fill));
        let dead = u128::from(facts.pages).checked_sub(live).filter(|&dead| dead > 0)?;
        let height = u128::from(height_for(layout, records, fill)?);
        let (read, program) = (u128::from(costs.read_ns), u128::from(costs.program_ns));
        let (capacity, updates) = (u128::from(capacity), u128::from(self.updates));
        let lookups = u128::from(self.pages) * height * read / u128::from(facts.height);
        let programs = updates * program * (capacity + 2) / capacity;
        let moves = updates * (capacity + 2) * live * (read + program) / (capacity * dead);
        let pages = u128::from(facts.pages);
        let erases =
            updates * u128::from(costs.erase_ns) * pages / (u128::from(facts.pages_per_block) * dead);
        Some(lookups + programs + moves + erases)
    }
}

/// Least height of a tree with `records` records, if `fill` thousandths of every node's entries are used.
fn height_for(layout: &Layout, records: u64, fill: u64) -> Option<u8> {
    let used = |level, height| (layout.shape(level, height).capacity as u64 * fill / 1000).max(1);
    (1..=layout.height_wanted_max())
        .find(|&height| (1..=height).map(|level| used(level, height)).fold(1, u64::saturating_mul) >= records)
}

/// Index of the layout to take next: the current one or a neighbour. `costs` are those of the menu's layouts,
/// in order.
pub fn step_towards_the_cheapest(costs: &[Option<u128>], current: usize) -> usize {
    let cheapest = (0..costs.len()).filter_map(|i| costs[i].map(|cost| (cost, i))).min();
    let Some((least, best)) = cheapest else { return current };
    let pays = costs[current].is_none_or(|cost| cost - least > cost / GAIN_PARTS);
    match best.cmp(&current) {
        core::cmp::Ordering::Less if pays => current - 1,
        core::cmp::Ordering::Greater if pays => current + 1,
        _ => current,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordered::RecordFormat;
    use crate::ordered::mu::layout::LeafShare;

    const LAYOUT: Layout = Layout::of(4096, RecordFormat::new(4, 4));

    fn costs(reads: u64, updates: u64, facts: &Facts) -> [Option<u128>; 4] {
        let mut period = Period::default();
        let leaf = Leaf { count: 180, capacity: 256, pages: facts.height };
        (0..reads).for_each(|_| period.note(LeafUse::Read, leaf));
        (0..updates).for_each(|_| period.note(LeafUse::Update, leaf));
        assert!(period.is_over());
        LeafShare::ALL.map(|share| period.cost_ns(&LAYOUT.with_share(share), facts, &Costs::default()))
    }

    const fn facts(height: u8, live_pages: u64) -> Facts {
        Facts { height, live_pages, pages: 16_384, pages_per_block: 128 }
    }

    #[test]
    fn updates_of_a_full_chip_ask_for_large_leaves() {
        let costs = costs(0, 1024, &facts(3, 12_000));
        assert_eq!(step_towards_the_cheapest(&costs, 0), 1);
    }

    #[test]
    fn reads_ask_for_large_inner_nodes_where_they_save_a_level() {
        let costs = costs(1024, 0, &facts(3, 4_000));
        assert_eq!(LAYOUT.height_for(4_000 * 180), Some(3));
        assert!(costs[0] < costs[3]);
        assert_eq!(step_towards_the_cheapest(&costs, 3), 2);
        assert_eq!(step_towards_the_cheapest(&costs, 0), 0);
    }

    #[test]
    fn a_layout_that_outgrows_the_chip_costs_too_much_to_name() {
        let costs = costs(10, 1014, &facts(3, 18_000));
        assert!(costs[0].is_none() && costs[1].is_some());
        assert_eq!(step_towards_the_cheapest(&costs, 0), 1);
    }

    #[test]
    fn a_small_gain_moves_nothing() {
        assert_eq!(step_towards_the_cheapest(&[Some(1000), Some(951)], 0), 0);
        assert_eq!(step_towards_the_cheapest(&[Some(1000), Some(949)], 0), 1);
        assert_eq!(step_towards_the_cheapest(&[Some(1), None, None, Some(1000)], 3), 2);
        assert_eq!(step_towards_the_cheapest(&[None, None], 1), 1);
    }
}
