//! Traits that make a tree on raw NAND of the common ground: the layout of nodes in pages, and the way in
//! which a changed path reaches the chip.
//!
//! A tree implements [`Shapes`] and [`RawScheme`]. The two others are for features of some trees: [`Layouts`]
//! if the pages of one tree may have several layouts (the mu*-Tree), [`MovedNodes`] if a node may move
//! without its parent (the VMTree). A tree without these has an empty `impl`.

use super::Nodes;
use super::moves::Moves;
use super::path::Sibling;
use crate::fault::IndexFault;
use crate::log::Runs;
use crate::log::tag::Tag;
use crate::nand::{Cause, Geometry, Nand};
use crate::ordered::node::NodeShape;
use crate::ordered::{Metric, RecordFormat};
use alloc::vec::Vec;
use core::ops::Range;

/// Layout of nodes in pages, and the costs of an update that follow from it. Pure arithmetic.
pub trait Shapes: Copy + crate::shared::MaybeSend {
    /// Part of a [`RawConfig`](super::RawConfig) that only this kind of tree takes.
    type Config: Copy + Default + crate::shared::MaybeSend;

    /// Number of layouts that the pages of one tree may have. Each page names its own, a number below this;
    /// layout 0 has the largest inner nodes.
    fn layouts(&self) -> u8 {
        1
    }

    /// First layout whose leaves hold `count` entries.
    fn width_of_leaf(&self, _count: usize) -> u8 {
        0
    }

    /// Shape of the node at `level` of a tree of this height, in a page of this layout.
    fn shape(&self, layout: u8, level: u8, height: u8) -> NodeShape;

    /// Bytes of that node within its page.
    fn page_area(&self, layout: u8, level: u8, height: u8) -> Range<usize>;

    /// Bytes of that node within the buffer of the path, if the path has this layout.
    fn path_area(&self, layout: u8, level: u8, height: u8) -> Range<usize>;

    /// Bytes within the buffer of the path for a node of any layout that is too large for the path's layout.
    fn aside_area(&self, level: u8, height: u8) -> Range<usize> {
        self.path_area(0, level, height)
    }

    /// Bytes of the buffer of the path in a tree of this height.
    fn path_bytes(&self, height: u8) -> usize;

    /// This scheme with a path buffer for one node at a time: the other nodes are read again when they are
    /// needed. `None` if the nodes of a path take no more than a page anyway.
    fn holding_one(self) -> Option<Self> {
        None
    }

    /// True if the buffer of the path holds one node at a time.
    fn holds_one(&self) -> bool {
        false
    }

    /// Greatest height of a tree whose root has this layout.
    fn height_max(&self, layout: u8) -> u8;

    /// Largest number of entries with which the root stays as it is; with one more the tree grows by a level.
    fn root_entries_max(&self, layout: u8, height: u8) -> usize;

    /// True if a node of `count` entries can lie at `level` of a page of this layout, in a tree of this
    /// height.
    fn fits(&self, layout: u8, (level, height): (u8, u8), count: usize) -> bool {
        let most = match level == height {
            true => self.root_entries_max(layout, height),
            false => self.shape(layout, level, height).capacity,
        };
        height <= self.height_max(layout) && count <= most
    }

    /// Largest number of pages that one update programs.
    fn pages_per_update(&self, height: u8) -> u32;

    /// Largest number of programs that moving one page takes.
    fn programs_per_move(&self, height: u8) -> u32;
}

/// Layouts of a tree whose pages may have several. By default there is one, and nothing to choose.
pub trait Layouts: Shapes {
    /// True if a child's address tells in its upper two bits how wide the leaves below are.
    const NAMES_WIDTHS: bool = false;

    /// Layout that a changed path is to take in a tree of this height.
    fn layout_wanted(&self, _height: u8) -> u8 {
        0
    }

    /// Layout for a root of `count` entries that is alone in its page.
    fn layout_for_root(&self, _count: usize, _height: u8) -> u8 {
        0
    }

    /// Hook that is called after a mount.
    fn mounted<N: Nand>(_tree: &mut Nodes<N, Self>) -> Result<(), IndexFault> {
        Ok(())
    }

    /// Hook called before an update begins.
    fn before_update<N: Nand>(_tree: &mut Nodes<N, Self>) {}

    /// Hook that is called when an operation used a leaf.
    fn note_leaf(&mut self, _kind: LeafUse, _leaf: Leaf) {}

    /// Brings the nodes of a copied path that are too large for the path's layout into a form that
    /// [`RawScheme::write_path`] can write.
    fn settle<N: Nand>(_tree: &mut Nodes<N, Self>, _change: Change<'_>) -> Result<(), IndexFault> {
        Ok(())
    }

    /// Adds the figures of the choice of layouts.
    fn add_metrics(&self, _metrics: &mut Vec<Metric>) {}
}

/// Handling of nodes that may move while their parents still name their old places ([`moves`](super::moves)).
/// By default no node does.
pub trait MovedNodes: Shapes {
    /// True if the tree keeps a table of moved nodes.
    const MAPS_MOVES: bool = false;
    /// Amounts of RAM for which a smaller table is tried if the table is too large for all the RAM; the
    /// largest amount first.
    const LESS_RAM: &'static [usize] = &[];

    /// Table of moved nodes on this chip, if the tree may take this much RAM.
    fn moves(
        &self,
        _geometry: Geometry,
        _config: &Self::Config,
        _ram_bytes: Option<usize>,
    ) -> Result<Moves, IndexFault> {
        Ok(Moves::default())
    }

    /// Completes the page of a split-off half.
    fn dress_half(_tag: &mut Tag, _page: &mut [u8]) {}

    /// Restores the moves: the table has those of the newest checkpoint already, and `pages` were written
    /// since.
    fn restore_moves<N: Nand>(_tree: &mut Nodes<N, Self>, _pages: &Runs) -> Result<(), IndexFault> {
        Ok(())
    }
}

/// A tree on raw NAND: its name, its page, and how a changed path is written.
pub trait RawScheme: Layouts + MovedNodes {
    /// Name of the owner on a formatted chip, before the record sizes.
    const KIND: &'static [u8];

    /// True if the last page of an operation may overwrite a page that the operation replaces
    /// ([`Placement::InPlace`](crate::log::Placement::InPlace)).
    const KEEPS_PLACES: bool = false;

    /// True if leaves may be written alone and noted in a [journal](super::journal): for trees with one node
    /// in a page.
    const TAKES_JOURNAL: bool = false;

    /// Makes the scheme for pages and records of these sizes. `Unsupported` if a page is too small.
    fn new(page_bytes: usize, record: RecordFormat) -> Result<Self, IndexFault>;

    /// Applies a configuration to the scheme.
    fn configured(self, _config: &Self::Config) -> Result<Self, IndexFault> {
        Ok(self)
    }

    /// Writes the copied path from level `lowest` up, the root last, with the half that a split at `lowest`
    /// left over. The pages that the new ones replace are invalidated on the way.
    fn write_path<N: Nand>(
        tree: &mut Nodes<N, Self>,
        lowest: u8,
        sibling: Option<Sibling>,
        cause: Cause,
    ) -> Result<(), IndexFault>;
}

/// Change for which a path is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// Insertion of this key: nodes may be split.
    Put(&'a [u8]),
    /// Removal, or a move of the nodes at this level and above: nothing may be split, since that might need
    /// room.
    Keep(u8),
}

/// How an operation used a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafUse {
    /// The operation searched the leaf.
    Read,
    /// The operation changed the leaf, or was about to.
    Update,
}

/// Leaf that an operation used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Number of entries in the leaf.
    pub count: usize,
    /// Number of entries that fit into the leaf.
    pub capacity: usize,
    /// Number of pages that hold the path to the leaf.
    pub pages: u8,
}
