//! The layouts of a page of a mu-Tree or mu*-Tree, and their analysis.
//!
//! The leaf takes a share of the page, the *leaf share* lambda. Each level above takes half of the remaining
//! bytes, and the root takes all that are left. The mu-Tree (paper, section 3.1 and Algorithm 1) has lambda =
//! 1/2. Q is the page size in bytes:
//!
//! ```text
//! height 1 | leaf                                            |
//! height 2 | root                   | leaf                   |
//! height 3 | root       | level 2   | leaf                   |
//! height 4 | root | l 3 | level 2   | leaf                   |
//! ```
//!
//! With U = (1 - lambda) Q, the leaf is in U..Q. The node at level L > 1 takes U/2^(L-1) bytes from offset
//! U/2^(L-1) on. The root at level H > 1 takes U/2^(H-2) bytes from 0 on. A leaf that is the root has the
//! whole page in every layout. So only the area of the root depends on the height.

use crate::log::tag::LEVELS_MAX;
use crate::ordered::RecordFormat;
use crate::ordered::node::NodeShape;
use crate::ordered::path_log::ground::ADDRESS_BYTES;
use core::ops::Range;

/// Share of a page given to its leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeafShare(u8);

impl LeafShare {
    /// Half of the page, as in the mu-Tree.
    pub const HALF: LeafShare = LeafShare(0);

    /// All shares, in the order of the numbers in the pages: 1/2, 5/8, 3/4 and 7/8.
    pub const ALL: [LeafShare; 4] = [LeafShare(0), LeafShare(1), LeafShare(2), LeafShare(3)];

    /// Number of the share in a page's tag.
    pub const fn id(self) -> u8 {
        self.0
    }

    /// Share in eighths of the page: 4 to 7.
    pub const fn eighths(self) -> usize {
        4 + self.0 as usize
    }

    /// Name of the share in options.
    pub const fn name(self) -> &'static str {
        ["1/2", "5/8", "3/4", "7/8"][self.0 as usize]
    }
}

/// Places of the nodes in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    page_bytes: usize,
    record: RecordFormat,
    share: LeafShare,
}

impl Layout {
    /// Layout of a mu-Tree's pages of this size.
    pub const fn of(page_bytes: usize, record: RecordFormat) -> Layout {
        Layout { page_bytes, record, share: LeafShare::HALF }
    }

    /// Returns this layout with another leaf share.
    #[must_use]
    pub const fn with_share(self, share: LeafShare) -> Layout {
        Layout { share, ..self }
    }

    /// Bytes of a page's data area.
    pub const fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Share of the leaf.
    pub const fn share(&self) -> LeafShare {
        self.share
    }

    const fn value_bytes(&self, level: u8) -> usize {
        if level == 1 { self.record.value_bytes as usize } else { ADDRESS_BYTES }
    }

    /// Bytes above the leaf, U.
    const fn upper_bytes(&self) -> usize {
        self.page_bytes * (8 - self.share.eighths()) / 8
    }

    /// Bytes of the area of a node that is not the root.
    const fn area_bytes(&self, level: u8) -> usize {
        debug_assert!(level >= 1, "R2: leaves have level 1");
        if level == 1 {
            self.page_bytes * self.share.eighths() / 8
        } else {
            self.upper_bytes() >> (level - 1)
        }
    }

    const fn fitting(&self, area_bytes: usize, level: u8) -> NodeShape {
        NodeShape::fitting(area_bytes, self.record.key_bytes as usize, self.value_bytes(level))
    }

    /// Shape of the node at `level` of a tree of this height. The root holds twice as many entries as it
    /// would as an inner node, so that it splits into two nodes that fit. A root that is a leaf holds twice
    /// as many as half a page.
    pub const fn shape(&self, level: u8, height: u8) -> NodeShape {
        debug_assert!(1 <= level && level <= height, "R2: no such level");
        if level != height {
            return self.fitting(self.area_bytes(level), level);
        }
        let half = if level == 1 { self.page_bytes >> 1 } else { self.area_bytes(level) };
        let half = self.fitting(half, level);
        NodeShape { capacity: half.capacity * 2, ..half }
    }

    /// Bytes of that node within the page.
    pub const fn area(&self, level: u8, height: u8) -> Range<usize> {
        debug_assert!(1 <= level && level <= height, "R2: no such level");
        let bytes = self.area_bytes(level);
        match (level == height, level) {
            (true, 1) => 0..(self.page_bytes >> 1) * 2,
            (true, _) => 0..bytes * 2,
            (false, 1) => self.upper_bytes()..self.upper_bytes() + bytes,
            (false, _) => bytes..bytes * 2,
        }
    }

    /// Most entries of a root that is not split: one less than its capacity, so that it is never full.
    pub const fn root_entries_max(&self, height: u8) -> usize {
        self.shape(height, height).capacity.saturating_sub(1)
    }

    /// Greatest height: each level must hold two entries, and a page can name 8 nodes.
    pub fn height_max(&self) -> u8 {
        let half = |level| self.fitting(self.area_bytes(level), level).capacity;
        (1..=LEVELS_MAX as u8).take_while(|&level| half(level) >= 2).count() as u8
    }

    /// Greatest height at which paths are brought into this layout. It leaves one level for growth, except in
    /// the first layout.
    pub fn height_wanted_max(&self) -> u8 {
        self.height_max() - u8::from(self.share != LeafShare::HALF && self.height_max() > 0)
    }

    /// Number of records in a full tree of this height: the product of the capacities (eq. 4 and 5).
    pub fn records_max(&self, height: u8) -> u64 {
        (1..=height).map(|level| self.shape(level, height).capacity as u64).fold(1, u64::saturating_mul)
    }

    /// Least height that holds this many records if every node is full: eq. 6, rounded up.
    pub fn height_for(&self, records: u64) -> Option<u8> {
        (1..=self.height_max()).find(|&height| self.records_max(height) >= records)
    }

    /// Number of valid pages of a tree of full leaves: eq. 10. Inner nodes lie in the leaves' pages.
    pub fn pages_for(&self, records: u64) -> u64 {
        records.div_ceil(self.shape(1, 2).capacity as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAPER: Layout = Layout::of(4096, RecordFormat::new(4, 4));

    #[test]
    fn algorithm_1() {
        assert_eq!(PAPER.area(1, 1), 0..4096);
        assert_eq!((PAPER.area(1, 2), PAPER.area(2, 2)), (2048..4096, 0..2048));
        assert_eq!((PAPER.area(1, 3), PAPER.area(2, 3), PAPER.area(3, 3)), (2048..4096, 1024..2048, 0..1024));
        assert_eq!((PAPER.area(3, 4), PAPER.area(4, 4)), (512..1024, 0..512));
    }

    #[test]
    fn areas_of_a_path_fill_the_page_without_overlap() {
        for height in 1..=PAPER.height_max() {
            let mut end = 4096;
            for level in 1..=height {
                let area = PAPER.area(level, height);
                assert_eq!(area.end, end);
                assert!(PAPER.shape(level, height).bytes() <= area.len());
                end = area.start;
            }
            assert_eq!(end, 0);
        }
    }

    #[test]
    fn equation_4_for_the_papers_fanout() {
        let capacity = |level, height| PAPER.shape(level, height).capacity;
        assert_eq!((capacity(1, 3), capacity(2, 3), capacity(3, 3)), (256, 128, 128));
        assert_eq!((capacity(1, 1), capacity(2, 2)), (512, 256));
    }

    #[test]
    fn a_full_root_splits_into_nodes_that_fit() {
        for (key, value) in [(4, 4), (8, 4), (8, 8), (16, 8), (3, 5), (20, 4)] {
            let layout = Layout::of(2048, RecordFormat::new(key, value));
            for height in 1..layout.height_max() {
                let root = layout.shape(height, height).capacity;
                assert_eq!(root, 2 * layout.shape(height, height + 1).capacity);
            }
        }
    }

    #[test]
    fn equations_5_and_10() {
        assert_eq!(PAPER.records_max(3), 256 * 128 * 128);
        assert_eq!(PAPER.height_for(1_000_000), Some(3));
        assert_eq!(PAPER.height_for(1 << 22), Some(3));
        assert_eq!(PAPER.height_for((1 << 22) + 1), Some(4));
        assert_eq!(PAPER.pages_for(1_000_000), 3907);
    }

    #[test]
    fn areas_of_every_layout_fill_the_page_without_overlap() {
        for share in LeafShare::ALL {
            for (page_bytes, key, value) in [(512, 4, 4), (2048, 16, 8), (4096, 8, 8), (16_384, 3, 50)] {
                let layout = Layout::of(page_bytes, RecordFormat::new(key, value)).with_share(share);
                for height in 1..=layout.height_max() {
                    let mut end = page_bytes;
                    for level in 1..=height {
                        let area = layout.area(level, height);
                        assert_eq!(area.end, end);
                        assert!(layout.shape(level, height).bytes() <= area.len());
                        end = area.start;
                    }
                    assert_eq!(end, 0);
                }
            }
        }
    }

    #[test]
    fn areas_do_not_overlap_in_pages_of_other_sizes() {
        for share in LeafShare::ALL {
            for (page_bytes, key, value) in
                [(448, 4, 4), (960, 8, 8), (1984, 16, 8), (4001, 5, 3), (8128, 3, 50)]
            {
                let layout = Layout::of(page_bytes, RecordFormat::new(key, value)).with_share(share);
                assert!(layout.height_max() > 1);
                for height in 1..=layout.height_max() {
                    let mut end = page_bytes;
                    for level in 1..=height {
                        let area = layout.area(level, height);
                        assert!(area.end <= end && layout.shape(level, height).bytes() <= area.len());
                        end = area.start;
                    }
                }
            }
        }
    }

    #[test]
    fn the_leaf_gains_what_inner_nodes_lose() {
        let leaves = LeafShare::ALL.map(|share| PAPER.with_share(share).shape(1, 3).capacity);
        let inner = LeafShare::ALL.map(|share| PAPER.with_share(share).shape(2, 4).capacity);
        let roots = LeafShare::ALL.map(|share| PAPER.with_share(share).shape(3, 3).capacity);
        assert_eq!(leaves, [256, 320, 384, 448]);
        assert_eq!((inner, roots), ([128, 96, 64, 32], [128, 96, 64, 32]));
        assert_eq!(PAPER.with_share(LeafShare::HALF), PAPER);
        let heights = LeafShare::ALL.map(|share| PAPER.with_share(share).height_max());
        assert!(heights.windows(2).all(|pair| pair[0] >= pair[1]) && heights[3] == 6);
    }
}
