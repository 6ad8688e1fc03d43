//! The wandering B+-tree of JFFS3 (Bityutskiy 2005), in the form with which the mu-Tree paper compares: one
//! node per page.
//!
//! A changed leaf moves. So its parent must name the new place and moves too, and so on up to the root: an
//! update programs as many pages as the tree has levels. `path_log::ground` holds the parts shared with the
//! mu-Tree, invariants included.
//!
//! * **Insertion**: a full node is split; its first ceil((d+1)/2) entries go left. A root that overflows gets
//!   a new root above.
//! * **Removal**: an empty node disappears. JFFS3 does not rebalance either, since its programs are
//!   expensive.
//! * **Journal** (option, `path_log::ground::journal`): updates program the leaf alone, and the nodes above
//!   are written later together.
//!
//! Node: [`crate::ordered::node::NodeShape`] over the whole data area. The level and the number of entries
//! are in the spare area.
//!
//! Deviations from JFFS3: the leaves hold records of fixed size, as in the mu-Tree paper; JFFS3's leaves are
//! file system objects of any size. The superblock chain is replaced by the checkpoint area of
//! [`crate::blocks::checkpoint`].

use crate::check::{IndexError, message};
use crate::fault::IndexFault;
use crate::log::tag::LEVELS_MAX;
use crate::nand::{Cause, Nand};
use crate::ordered::node::NodeShape;
use crate::ordered::path_log::ground::{
    ADDRESS_BYTES, Key, Layouts, MovedNodes, Nodes, RawScheme, RawTree, Shapes, Sibling,
};
use crate::ordered::{RawConfig, RecordFormat};
use crate::units::Ppn;
use core::ops::Range;

crate::ordered::forward::named_tree! {
    /// A wandering B+-tree on a chip.
    ///
    /// ```
    /// # use nandex::nand::{catalogue::mlc_64m, sim::SimChip};
    /// # let chip = SimChip::new(&mlc_64m().with_blocks(64))?;
    /// use nandex::{OrderedIndex, RecordFormat, RawConfig, WanderingTree};
    ///
    /// let config = RawConfig::new(RecordFormat::new(2, 4));
    /// let mut tree = WanderingTree::format(chip, &config)?;
    /// tree.insert(&[0, 7], &[1; 4])?;
    /// tree.close()?;
    /// let mut tree = WanderingTree::mount(tree.into_nand(), &config)?;
    /// assert!(tree.get(&[0, 7], &mut [0; 4])?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    WanderingTree<N> = RawTree<N, OneNodePages>, set up by RawConfig
}

/// Scheme in which a node fills a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), doc(hidden))]
pub struct OneNodePages {
    page_bytes: usize,
    record: RecordFormat,
    holds_one: bool,
}

impl OneNodePages {
    /// Scheme of a tree with pages of `page_bytes` bytes. Refuses pages that hold fewer than 4 records or
    /// separators.
    pub fn of(page_bytes: usize, record: RecordFormat) -> Result<OneNodePages, IndexError> {
        let scheme = OneNodePages { page_bytes, record, holds_one: false };
        if scheme.shape(0, 1, 2).capacity < 4 || scheme.shape(0, 2, 2).capacity < 4 {
            return Err(IndexError::unsupported(message!(
                "a wandering B+-tree needs pages that hold 4 records of this size; these have {page_bytes} bytes"
            )));
        }
        Ok(scheme)
    }

    /// Number of records in a full tree of this height (mu-Tree paper, eq. 2).
    pub fn records_max(&self, height: u8) -> u64 {
        (1..=height).map(|level| self.shape(0, level, height).capacity as u64).fold(1, u64::saturating_mul)
    }

    /// Least height that holds this many records if every node is full: eq. 3, rounded up.
    pub fn height_for(&self, records: u64) -> Option<u8> {
        (1..=LEVELS_MAX as u8).find(|&height| self.records_max(height) >= records)
    }

    /// Number of valid pages if every node is full: eq. 8.
    pub fn pages_for(&self, records: u64) -> u64 {
        let height = self.height_for(records).unwrap_or(LEVELS_MAX as u8);
        let mut nodes = records;
        (1..=height)
            .map(|level| {
                nodes = nodes.div_ceil(self.shape(0, level, height).capacity as u64);
                nodes
            })
            .sum()
    }
}

impl Shapes for OneNodePages {
    type Config = ();

    fn shape(&self, _layout: u8, level: u8, _height: u8) -> NodeShape {
        let value_bytes = if level == 1 { usize::from(self.record.value_bytes) } else { ADDRESS_BYTES };
        NodeShape::fitting(self.page_bytes, usize::from(self.record.key_bytes), value_bytes)
    }

    fn page_area(&self, _layout: u8, _level: u8, _height: u8) -> Range<usize> {
        0..self.page_bytes
    }

    fn path_area(&self, _layout: u8, level: u8, _height: u8) -> Range<usize> {
        let start = if self.holds_one() { 0 } else { (usize::from(level) - 1) * self.page_bytes };
        start..start + self.page_bytes
    }

    fn path_bytes(&self, height: u8) -> usize {
        if self.holds_one() { self.page_bytes } else { usize::from(height) * self.page_bytes }
    }

    fn holding_one(self) -> Option<OneNodePages> {
        cfg!(feature = "in-parts").then_some(OneNodePages { holds_one: true, ..self })
    }

    fn holds_one(&self) -> bool {
        cfg!(feature = "in-parts") && self.holds_one
    }

    fn height_max(&self, _layout: u8) -> u8 {
        LEVELS_MAX as u8
    }

    fn root_entries_max(&self, layout: u8, height: u8) -> usize {
        self.shape(layout, height, height).capacity
    }

    fn pages_per_update(&self, height: u8) -> u32 {
        2 * u32::from(height) + 1
    }

    fn programs_per_move(&self, height: u8) -> u32 {
        u32::from(height)
    }
}

impl Layouts for OneNodePages {}

impl MovedNodes for OneNodePages {}

impl RawScheme for OneNodePages {
    const KIND: &'static [u8] = b"wandering 1";

    const TAKES_JOURNAL: bool = cfg!(feature = "full");

    fn new(page_bytes: usize, record: RecordFormat) -> Result<OneNodePages, IndexFault> {
        Ok(OneNodePages::of(page_bytes, record)?)
    }

    /// Writes a page for each node of the path from the leaf up, a page for each half that left it, and the
    /// root last.
    fn write_path<N: Nand>(
        tree: &mut Nodes<N, OneNodePages>,
        lowest: u8,
        mut sibling: Option<Sibling>,
        cause: Cause,
    ) -> Result<(), IndexFault> {
        debug_assert!((1..=tree.path.height).contains(&lowest), "R2: level {lowest} of {}", tree.path.height);
        for level in lowest..=tree.path.height {
            let is_root = level == tree.path.height && sibling.is_none();
            let page = tree.write_alone(level, is_root, cause)?;
            if level == tree.path.height {
                return match sibling {
                    Some(half) => grow(tree, page, &half, cause),
                    None => Ok(()),
                };
            }
            tree.fetch(level + 1, cause)?;
            if let Some(half) = sibling.take() {
                sibling = tree.enter_sibling(level + 1, &half)?;
            }
            tree.path.set_child(level + 1, page);
        }
        Ok(())
    }
}

/// Puts a new root above the two halves of the old one.
fn grow<N: Nand>(
    tree: &mut Nodes<N, OneNodePages>,
    page: Ppn,
    half: &Sibling,
    cause: Cause,
) -> Result<(), IndexFault> {
    let level = tree.path.height;
    debug_assert!(usize::from(level) < LEVELS_MAX, "R2: no level above {level}");
    debug_assert_ne!(page, half.page, "R3: both halves of the root in one page");
    let shape = tree.path.shape(level);
    let (left, right) = if half.is_left { (half.page, page) } else { (page, half.page) };
    let left_node = if half.is_left { &tree.path.detached[..] } else { tree.path.node(level) };
    let low = Key::of(shape.key(left_node, 0));
    tree.path.height += 1;
    let top = tree.path.shape(tree.path.height);
    let root = tree.path.make_room_for_node(level + 1);
    top.insert(root, 0, 0, (&low, &left.0.to_le_bytes()));
    top.insert(root, 1, 1, (&half.separator, &right.0.to_le_bytes()));
    *tree.path.step_mut(level + 1) =
        crate::ordered::path_log::ground::Step { count: 2, ..Default::default() };
    tree.write_alone(level + 1, true, cause)?;
    debug_assert_eq!(tree.path.count(tree.path.height), 2, "R1: a new root names its two halves");
    Ok(())
}
