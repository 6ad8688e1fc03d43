//! The mu-Tree (Kang, Jung, Kang and Kim, EMSOFT 2007) and the mu*-Tree: balanced trees on raw NAND. Every
//! update programs one page.
//!
//! All nodes on the path from the root to a leaf share one page, each level in its own area (`layout`). An
//! update copies the path into a new page, the *spine*, changes it there and programs it. Other nodes in the
//! old pages stay valid in their place. `path_log::ground` holds the parts shared with the wandering B+-tree,
//! invariants included. The mu*-Tree ([`star`]) is the same tree with a menu of several layouts; the menu of
//! the mu-Tree has one.
//!
//! * **Retrieval** (Algorithm 2): from the root down. A child in the page just read costs no read.
//! * **Insertion** (Algorithms 3 and 4): into the copy of the leaf. A full node is split. The half on the
//!   path stays in the spine; the other half is programmed first, alone in a page of its own. A full root is
//!   split in the same way, and the new root shares the page of the half that is not on the path (`grow`).
//! * **Removal** (Algorithm 5): a node that becomes empty disappears, and the spine starts at the level
//!   above.
//! * **Collection** (section 5.1): a page is valid exactly if its lowest node can be reached.
//! * **Recovery** (section 5.2): the page with the root is programmed last, see [`crate::log`].
//!
//! Deviations: the spare area holds the number of entries of each node and a checksum. The key of an entry
//! stays a lower bound when a smaller key is inserted; the paper's pseudocode has no bound for the leftmost
//! entry. A root with one child is replaced by the child, repeatedly, not once per removal. The paper's `N <-
//! P'` and its swap rule become "the half on the path stays in the spine".

#[cfg(not(feature = "unstable"))]
pub(crate) mod controller;
#[cfg(feature = "unstable")]
pub mod controller;
#[cfg(not(feature = "unstable"))]
pub(crate) mod layout;
#[cfg(feature = "unstable")]
pub mod layout;
mod settle;
#[cfg(not(feature = "unstable"))]
pub(crate) mod star;
#[cfg(feature = "unstable")]
pub mod star;

use crate::check::{IndexError, message};
use crate::fault::IndexFault;
use crate::log::tag::Tag;
use crate::nand::{Cause, Nand};
use crate::ordered::node::{Move, NodeShape};
use crate::ordered::path_log::ground::{
    Change, Key, Layouts, Leaf, LeafUse, MovedNodes, Nodes, RawScheme, RawTree, Shapes, Sibling, child_value,
};
use crate::ordered::{Metric, RawConfig, RecordFormat};
use crate::units::Ppn;
use alloc::vec::Vec;
pub use controller::Costs;
use controller::Facts;
use core::ops::Range;
use layout::Layout;
pub use layout::LeafShare;
pub use star::{LayoutPolicy, MenuConfig, MuStarTree};

crate::ordered::forward::named_tree! {
    /// A mu-Tree on a chip.
    ///
    /// ```
    /// # use nandex::nand::{catalogue::mlc_64m, sim::SimChip};
    /// # let chip = SimChip::new(&mlc_64m().with_blocks(64))?;
    /// use nandex::{OrderedIndex, RecordFormat, MuTree, RawConfig};
    ///
    /// let config = RawConfig::new(RecordFormat::new(2, 4)).with_read_pages(Some(8));
    /// let mut tree = MuTree::format(chip, &config)?;
    /// tree.insert(&[0, 7], &[1; 4])?;
    /// tree.close()?;
    /// let mut tree = MuTree::mount(tree.into_nand(), &config)?;
    /// assert!(tree.get(&[0, 7], &mut [0; 4])?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    MuTree<N> = RawTree<N, PathPages<OneLayout>>, set up by RawConfig
}

/// Which layouts the pages of a tree may have, and which of them a changed path takes.
#[cfg_attr(not(feature = "unstable"), doc(hidden))]
pub trait LayoutChoice: Copy + crate::shared::MaybeSend {
    /// Part of a [`RawConfig`](crate::ordered::RawConfig) that the choice takes.
    type Config: Copy + Default + crate::shared::MaybeSend;

    /// Name of the owner on a formatted chip.
    const KIND: &'static [u8];

    /// True if there is more than one layout.
    const IS_MENU: bool = true;

    /// Makes the choice for pages of this layout.
    fn new(layout: &Layout) -> Self;

    /// Applies a configuration to the choice.
    fn configured(self, _config: &Self::Config) -> Result<Self, IndexFault> {
        Ok(self)
    }

    /// Number of layouts of the menu that may occur, from the first on.
    fn layouts(&self) -> u8 {
        1
    }

    /// Leaf share that a changed path takes now.
    fn wanted(&self) -> LeafShare {
        LeafShare::HALF
    }

    /// Resumes the choice after a mount, from the share of the newest page.
    fn resume(&mut self, _share: LeafShare) {}

    /// True if enough operations have passed to reconsider the choice.
    fn is_due(&self) -> bool {
        false
    }

    /// Reconsiders the choice of the layout.
    fn reconsider(&mut self, _layout: &Layout, _facts: &Facts) {}

    /// Notes that an operation used a leaf.
    fn note_leaf(&mut self, _kind: LeafUse, _leaf: Leaf) {}

    /// Notes that a path was brought into another layout by splits that took `pages` pages.
    fn note_conversion(&mut self, _pages: u32) {}

    /// Adds the figures of the choice.
    fn add_metrics(&self, _metrics: &mut Vec<Metric>) {}
}

/// The layout of the mu-Tree: half of every page for the leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), doc(hidden))]
pub struct OneLayout;

impl LayoutChoice for OneLayout {
    type Config = ();

    const KIND: &'static [u8] = b"mu-tree 1";

    const IS_MENU: bool = false;

    fn new(_layout: &Layout) -> OneLayout {
        OneLayout
    }
}

/// Scheme that writes the nodes of a path into one page, in one of the layouts of a menu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), doc(hidden))]
pub struct PathPages<C> {
    layout: Layout,
    choice: C,
}

impl<C: LayoutChoice> PathPages<C> {
    /// Layout with this number.
    fn numbered(&self, layout: u8) -> Layout {
        if C::IS_MENU { self.layout.with_share(LeafShare::ALL[usize::from(layout)]) } else { self.layout }
    }

    /// Layouts of the menu, those nearest to the wanted one first.
    fn nearest(&self) -> impl Iterator<Item = u8> + use<C> {
        let (wanted, end) = (self.choice.wanted().id(), self.choice.layouts());
        (0..end).flat_map(move |step| {
            let above = (step > 0 && wanted + step < end).then_some(wanted + step);
            [wanted.checked_sub(step), above].into_iter().flatten()
        })
    }
}

impl<C: LayoutChoice> Shapes for PathPages<C> {
    type Config = C::Config;

    fn layouts(&self) -> u8 {
        self.choice.layouts()
    }

    fn width_of_leaf(&self, count: usize) -> u8 {
        let holds = |layout: &u8| count <= self.numbered(*layout).shape(1, 2).capacity;
        (0..self.layouts()).find(holds).unwrap_or(self.layouts() - 1)
    }

    fn shape(&self, layout: u8, level: u8, height: u8) -> NodeShape {
        self.numbered(layout).shape(level, height)
    }

    fn page_area(&self, layout: u8, level: u8, height: u8) -> Range<usize> {
        self.numbered(layout).area(level, height)
    }

    fn path_area(&self, layout: u8, level: u8, height: u8) -> Range<usize> {
        self.numbered(layout).area(level, height)
    }

    /// Behind the page of the path: first the inner nodes of the layout in which they are largest, then the
    /// largest leaf.
    fn aside_area(&self, level: u8, height: u8) -> Range<usize> {
        let page_bytes = self.layout.page_bytes();
        let inner_end = page_bytes + page_bytes / 2;
        if level == 1 {
            return inner_end..inner_end + page_bytes / 8 * 7;
        }
        let area = self.layout.area(level, height);
        page_bytes + area.start..page_bytes + area.end
    }

    fn path_bytes(&self, _height: u8) -> usize {
        if self.layouts() > 1 { self.aside_area(1, 2).end } else { self.layout.page_bytes() }
    }

    fn height_max(&self, layout: u8) -> u8 {
        self.numbered(layout).height_max()
    }

    fn root_entries_max(&self, layout: u8, height: u8) -> usize {
        self.numbered(layout).root_entries_max(height)
    }

    /// A page for each half and one for the path; with several layouts also the pages that `settle` may add.
    fn pages_per_update(&self, height: u8) -> u32 {
        let height = u32::from(height);
        if self.layouts() > 1 { 2 * height + 2 } else { height + 2 }
    }

    fn programs_per_move(&self, _height: u8) -> u32 {
        1
    }
}

impl<C: LayoutChoice> Layouts for PathPages<C> {
    const NAMES_WIDTHS: bool = C::IS_MENU;

    /// The chosen layout, or the next below it that lets the tree grow by a level: see `settle`.
    fn layout_wanted(&self, height: u8) -> u8 {
        let chosen = self.choice.wanted().id();
        (1..=chosen).rev().find(|&layout| height <= self.numbered(layout).height_wanted_max()).unwrap_or(0)
    }

    fn layout_for_root(&self, count: usize, height: u8) -> u8 {
        self.nearest().find(|&layout| self.fits(layout, (height, height), count)).unwrap_or(0)
    }

    fn mounted<N: Nand>(tree: &mut Nodes<N, Self>) -> Result<(), IndexFault> {
        if tree.path.scheme.layouts() > 1 {
            let layout = tree.log.read(tree.root, Cause::Recovery)?.tag.layout;
            if layout < tree.path.scheme.layouts() {
                tree.path.scheme.choice.resume(LeafShare::ALL[usize::from(layout)]);
            }
        }
        Ok(())
    }

    fn before_update<N: Nand>(tree: &mut Nodes<N, Self>) {
        if tree.path.scheme.choice.is_due() {
            let geometry = tree.log.geometry();
            let facts = Facts {
                height: tree.path.height,
                live_pages: tree.log.live_pages(),
                pages: u64::from(geometry.pages()),
                pages_per_block: u64::from(geometry.pages_per_block),
            };
            let layout = tree.path.scheme.layout;
            tree.path.scheme.choice.reconsider(&layout, &facts);
        }
    }

    fn note_leaf(&mut self, kind: LeafUse, leaf: Leaf) {
        self.choice.note_leaf(kind, leaf);
    }

    fn add_metrics(&self, metrics: &mut Vec<Metric>) {
        self.choice.add_metrics(metrics);
    }

    fn settle<N: Nand>(tree: &mut Nodes<N, Self>, change: Change<'_>) -> Result<(), IndexFault> {
        if tree.path.scheme.layouts() == 1 {
            return Ok(());
        }
        match change {
            Change::Put(key) => settle::for_put(tree, key),
            Change::Keep(lowest) => settle::keep(tree, lowest),
        }
    }
}

impl<C: LayoutChoice> MovedNodes for PathPages<C> {}

impl<C: LayoutChoice> RawScheme for PathPages<C> {
    const KIND: &'static [u8] = C::KIND;

    const KEEPS_PLACES: bool = true;

    fn new(page_bytes: usize, record: RecordFormat) -> Result<PathPages<C>, IndexFault> {
        let layout = Layout::of(page_bytes, record);
        if layout.height_max() < 2 {
            return Err(IndexError::unsupported(message!(
                "a mu-Tree needs pages that hold 8 records of this size; these have {page_bytes} bytes"
            ))
            .into());
        }
        Ok(PathPages { layout, choice: C::new(&layout) })
    }

    fn configured(self, config: &C::Config) -> Result<PathPages<C>, IndexFault> {
        Ok(PathPages { choice: self.choice.configured(config)?, ..self })
    }

    /// Writes one page for the path, after one page for each split-off half.
    fn write_path<N: Nand>(
        tree: &mut Nodes<N, Self>,
        lowest: u8,
        mut sibling: Option<Sibling>,
        cause: Cause,
    ) -> Result<(), IndexFault> {
        debug_assert!((1..=tree.path.height).contains(&lowest), "R2: level {lowest} of {}", tree.path.height);
        let mut level = lowest;
        while let Some(half) = sibling {
            level += 1;
            assert!(level <= tree.path.height, "the root is split before it overflows");
            sibling = tree.enter_sibling(level, &half)?;
        }
        for level in lowest..=tree.path.height {
            tree.retire(level);
        }
        let (height, layout) = (tree.path.height, tree.path.layout);
        let grows = tree.path.count(height) > tree.path.root_limit();
        // The root comes last.
        let page = if grows { tree.log.allocate(cause)? } else { tree.log.allocate_last(cause)? };
        for level in lowest + 1..=height {
            tree.path.set_child(level, page);
        }
        debug_assert!(
            (lowest..=height).all(|level| tree.path.count(level) <= tree.path.shape(level).capacity),
            "R1: an overfull node is written"
        );
        let (unused, page_bytes) =
            (tree.path.scheme.page_area(layout, lowest, height).end, tree.path.scheme.layout.page_bytes());
        tree.path.buffer[unused..page_bytes].fill(0xff);
        if grows {
            return grow(tree, lowest, page, cause);
        }
        let tag = Tag { root: true, layout, height, ..tree.path.tag(lowest, height) };
        tree.log.write(page, tag, &tree.path.buffer[..page_bytes], cause)?;
        (tree.root, tree.path.root_entries) = (page, tree.path.step(height).count);
        Ok(())
    }
}

/// Splits the full root into two inner nodes: the half on the path joins the spine, the other one shares a
/// page with the new root (Algorithm 3, lines 4 to 12).
fn grow<N: Nand, C: LayoutChoice>(
    tree: &mut Nodes<N, PathPages<C>>,
    lowest: u8,
    page: Ppn,
    cause: Cause,
) -> Result<(), IndexFault> {
    let (level, layout, page_bytes) =
        (tree.path.height, tree.path.layout, tree.path.scheme.layout.page_bytes());
    let (wide, half) = (tree.path.shape(level), tree.path.scheme.shape(layout, level, level + 1));
    let count = tree.path.count(level);
    let middle = count / 2;
    let path_is_left = tree.path.slot(level) < middle;
    let (kept, moved) = if path_is_left { (0, middle) } else { (middle, 0) };
    let kept_count = if path_is_left { middle } else { count - middle };
    debug_assert!(0 < kept_count && kept_count < count, "R1: a half of {kept_count} of {count}");
    debug_assert!(kept_count.max(count - kept_count) <= half.capacity, "R1: a half of the root does not fit");
    let bound = |tree: &Nodes<N, PathPages<C>>, entry| Key::of(wide.key(tree.path.node(level), entry));
    let (first_bound, middle_bound) = (bound(tree, 0), bound(tree, middle));
    let root_area = tree.path.node_area(level);
    tree.path.height += 1;
    debug_assert!(
        tree.path.height <= tree.path.scheme.height_max(layout),
        "R2: a height of {}",
        tree.path.height
    );
    tree.counts.splits += 1;
    let area = tree.path.scheme.page_area(layout, level, tree.path.height);
    tree.path.detached.fill(0xff);
    // The root lies at or near the place that the half on the path will have.
    let root = &tree.path.buffer[root_area.clone()];
    wide.copy_entries((root, moved), count - kept_count, (&half, &mut tree.path.detached[area.clone()], 0));
    let way = Move { from: root_area.start, to: area.start };
    wide.move_entries(&mut tree.path.buffer, way, kept..kept + kept_count, &half);
    tree.path.buffer[..area.start].fill(0xff);
    tree.path.step_mut(level).count = kept_count as u16;
    let tag = Tag { layout, ..tree.path.tag(lowest, level) };
    tree.log.write(page, tag, &tree.path.buffer[..page_bytes], cause)?;

    let root_page = tree.log.allocate_last(cause)?;
    let area = tree.path.scheme.page_area(layout, level, tree.path.height);
    let path_width = tree.path.width(level, &half, tree.path.node(level), kept_count);
    let moved_width = tree.path.width(level, &half, &tree.path.detached[area], count - kept_count);
    let on_path = child_value::<PathPages<C>>(page, path_width);
    let off_path = child_value::<PathPages<C>>(root_page, moved_width);
    let (left, right) = if path_is_left { (on_path, off_path) } else { (off_path, on_path) };
    let top = tree.path.scheme.shape(layout, tree.path.height, tree.path.height);
    let root =
        &mut tree.path.detached[tree.path.scheme.page_area(layout, tree.path.height, tree.path.height)];
    top.insert(root, 0, 0, (&*first_bound, &left));
    top.insert(root, 1, 1, (&*middle_bound, &right));
    let mut tag = Tag { root: true, layout, height: tree.path.height, lowest_level: level, ..Tag::default() };
    tag.counts[usize::from(level) - 1] = (count - kept_count) as u16;
    tag.counts[usize::from(level)] = 2;
    debug_assert_ne!(page, root_page, "R3: both halves of the root in one page");
    tree.log.write(root_page, tag, &tree.path.detached, cause)?;
    (tree.root, tree.path.root_entries) = (root_page, 2);
    Ok(())
}
