//! The mu-Tree (Kang, Jung, Kang and Kim, EMSOFT 2007): a balanced tree on raw NAND whose every update programs one page.
//!
//! All nodes on the path from the root to a leaf share one page, each level in its own area (`layout`). An update copies the
//! path into a new page, the *spine*, changes it there and programs it; what the old pages held besides stays valid
//! where it is. What the mu-Tree shares with the wandering B+-tree, invariants included, is in [`super::raw`].
//!
//! * **Retrieval** (Algorithm 2): from the root down; a child in the page at hand costs no read.
//! * **Insertion** (Algorithms 3 and 4): into the copy of the leaf. A full node is split: the half on the path stays in the
//!   spine, the other half goes alone into a page of its own, programmed before. A root that becomes full is split
//!   likewise, and the new root shares the page of the half that is not on the path (`grow`).
//! * **Removal** (Algorithm 5): a node that becomes empty disappears, and the spine starts at the level above.
//! * **Collection** (section 5.1): a page is valid exactly if its lowest node can be reached.
//! * **Recovery** (section 5.2): the page with the root is programmed last, see [`crate::log`].
//!
//! Deviations: an entry count per node and a checksum stand in the spare area; the key of an entry is kept as a lower bound when a
//! smaller key is inserted (the paper's pseudocode leaves the leftmost key open); a root that has one child gives way
//! as often as that holds, not once per removal; the paper's `N <- P'` and swap rule come out as "the half on the path stays
//! in the spine".

pub mod layout;

use super::RecordFormat;
use super::node::NodeShape;
use super::raw::{RawTree, Scheme, Sibling};
use crate::check::IndexError;
use crate::log::Flush;
use crate::log::tag::Tag;
use crate::nand::{Cause, Nand};
use crate::units::Ppn;
use alloc::format;
use core::ops::Range;
use layout::Layout;

/// A mu-Tree on a chip.
pub type MuTree<N> = RawTree<N, Layout>;

impl Scheme for Layout {
    const KIND: &'static [u8] = b"mu-tree 1";

    const FLUSH: Flush = Flush::BetweenOperations;

    fn new(page_bytes: usize, record: RecordFormat) -> Result<Layout, IndexError> {
        let layout = Layout::of(page_bytes, record);
        if Layout::height_max(&layout) < 2 {
            return Err(IndexError::Unsupported(format!(
                "a mu-Tree needs pages that hold 8 records of this size; these have {page_bytes} bytes"
            )));
        }
        Ok(layout)
    }

    fn shape(&self, level: u8, height: u8) -> NodeShape {
        Layout::shape(self, level, height)
    }

    fn page_area(&self, level: u8, height: u8) -> Range<usize> {
        self.area(level, height)
    }

    fn path_area(&self, level: u8, height: u8) -> Range<usize> {
        self.area(level, height)
    }

    fn path_bytes(&self, _height: u8) -> usize {
        self.page_bytes()
    }

    fn height_max(&self) -> u8 {
        Layout::height_max(self)
    }

    fn root_entries_max(&self, height: u8) -> usize {
        Layout::shape(self, height, height).capacity - 1
    }

    fn pages_per_update(&self, height: u8) -> u32 {
        u32::from(height) + 2
    }

    fn programs_per_move(&self, _height: u8) -> u32 {
        1
    }

    fn write_inner<N: Nand>(_tree: &mut MuTree<N>, _level: u8) -> Result<Ppn, IndexError> {
        Err(IndexError::Unsupported("a mu-Tree needs no journal: an update programs one page".into()))
    }

    /// One page for the path, after one for each half that left it.
    fn write_path<N: Nand>(
        tree: &mut MuTree<N>,
        lowest: u8,
        mut sibling: Option<Sibling>,
        cause: Cause,
    ) -> Result<(), IndexError> {
        let mut level = lowest;
        while let Some(half) = sibling {
            level += 1;
            assert!(level <= tree.height, "the root is split before it overflows");
            sibling = tree.enter_sibling(level, &half)?;
        }
        for level in lowest..=tree.height {
            tree.retire(level);
        }
        let page = tree.log.allocate(cause)?;
        for level in lowest + 1..=tree.height {
            tree.set_child(level, page);
        }
        let unused = tree.scheme.area(lowest, tree.height).end;
        tree.path.buffer[unused..].fill(0xff);
        let height = tree.height;
        if tree.count(height) > tree.scheme.root_entries_max(height) {
            return grow(tree, lowest, page, cause);
        }
        let tag = Tag { root: true, height, ..tree.path.tag(lowest, height) };
        tree.log.write(page, tag, &tree.path.buffer, cause)?;
        tree.root = page;
        Ok(())
    }
}

/// Splits the full root into two inner nodes: the half on the path joins the spine, the other one shares a page with the new
/// root (Algorithm 3, lines 4 to 12).
fn grow<N: Nand>(tree: &mut MuTree<N>, lowest: u8, page: Ppn, cause: Cause) -> Result<(), IndexError> {
    let level = tree.height;
    let (wide, half) = (tree.shape(level), tree.scheme.shape(level, level + 1));
    let (count, root_node) = (tree.count(level), tree.node(level).to_vec());
    let middle = count / 2;
    let path_is_left = tree.slot(level) < middle;
    let (kept, moved) = if path_is_left { (0, middle) } else { (middle, 0) };
    let kept_count = if path_is_left { middle } else { count - middle };
    tree.height += 1;
    let area = tree.scheme.area(level, tree.height);
    wide.copy_entries((&root_node, kept), kept_count, (&half, &mut tree.path.buffer[area.clone()], 0));
    tree.path.buffer[..area.start].fill(0xff);
    tree.detached.fill(0xff);
    wide.copy_entries((&root_node, moved), count - kept_count, (&half, &mut tree.detached[area], 0));
    tree.path.step_mut(level).count = kept_count as u16;
    let tag = tree.path.tag(lowest, level);
    tree.log.write(page, tag, &tree.path.buffer, cause)?;

    let root_page = tree.log.allocate(cause)?;
    let (left, right) = if path_is_left { (page, root_page) } else { (root_page, page) };
    let top = tree.shape(tree.height);
    let root = &mut tree.detached[tree.scheme.area(tree.height, tree.height)];
    top.insert(root, 0, 0, (wide.key(&root_node, 0), &left.0.to_le_bytes()));
    top.insert(root, 1, 1, (wide.key(&root_node, middle), &right.0.to_le_bytes()));
    let mut tag = Tag { root: true, height: tree.height, lowest_level: level, ..Tag::default() };
    tag.counts[usize::from(level) - 1] = (count - kept_count) as u16;
    tag.counts[usize::from(level)] = 2;
    tree.log.write(root_page, tag, &tree.detached, cause)?;
    tree.root = root_page;
    Ok(())
}
