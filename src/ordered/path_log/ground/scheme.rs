//! The traits that make one tree on raw NAND of the ground: how nodes lie in pages, and how a changed path
//! reaches the chip.
//!
//! A tree implements [`Shapes`] and [`RawScheme`]. The two others say what only some trees do: [`Layouts`]
//! where the pages of one tree may have several layouts (the mu*-Tree), [`MovedNodes`] where a node may move
//! without its parent (the VMTree). A tree that does neither says so with an empty `impl`.

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

/// How nodes lie in the pages of a tree, and what that makes an update take. All of it is arithmetic.
pub trait Shapes: Copy + crate::shared::MaybeSend {
    /// The part that the tree takes of a [`RawConfig`](super::RawConfig) besides what all take.
    type Config: Copy + Default + crate::shared::MaybeSend;

    /// The number of layouts that the pages of one tree may have. Each page names its own, a number below
    /// this; layout 0 has the largest inner nodes.
    fn layouts(&self) -> u8 {
        1
    }

    /// The first layout, if any, whose leaves hold so many entries.
    fn width_of_leaf(&self, _count: usize) -> u8 {
        0
    }

    /// The shape of the node at `level` of a tree of this height in a page of this layout.
    fn shape(&self, layout: u8, level: u8, height: u8) -> NodeShape;

    /// The bytes of that node within its page.
    fn page_area(&self, layout: u8, level: u8, height: u8) -> Range<usize>;

    /// The bytes of that node within the buffer of the path, when the path has this layout.
    fn path_area(&self, layout: u8, level: u8, height: u8) -> Range<usize>;

    /// The bytes within the buffer of the path for a node of any layout that is too large for the path's.
    fn aside_area(&self, level: u8, height: u8) -> Range<usize> {
        self.path_area(0, level, height)
    }

    /// Bytes of the buffer of the path in a tree of this height.
    fn path_bytes(&self, height: u8) -> usize;

    /// This scheme with a buffer of the path for one node at a time: the others are read again when they are
    /// needed. None where the nodes of a path take no more than a page.
    fn holding_one(self) -> Option<Self> {
        None
    }

    /// Whether the buffer of the path holds one node at a time.
    fn holds_one(&self) -> bool {
        false
    }

    /// The greatest height of a tree whose root has this layout.
    fn height_max(&self, layout: u8) -> u8;

    /// Entries with which the root stays as it is; one more, and the tree grows by a level.
    fn root_entries_max(&self, layout: u8, height: u8) -> usize;

    /// Whether a node of so many entries can lie at `level` of a page of this layout in a tree of this
    /// height.
    fn fits(&self, layout: u8, (level, height): (u8, u8), count: usize) -> bool {
        let most = match level == height {
            true => self.root_entries_max(layout, height),
            false => self.shape(layout, level, height).capacity,
        };
        height <= self.height_max(layout) && count <= most
    }

    /// Pages that one update programs at most.
    fn pages_per_update(&self, height: u8) -> u32;

    /// Programs that moving one page takes at most.
    fn programs_per_move(&self, height: u8) -> u32;
}

/// The layouts of a tree whose pages may have several. By default there is one, and nothing to choose.
pub trait Layouts: Shapes {
    /// Whether a child's address says in its upper two bits how wide the leaves below are.
    const NAMES_WIDTHS: bool = false;

    /// The layout that a changed path is to take in a tree of this height.
    fn layout_wanted(&self, _height: u8) -> u8 {
        0
    }

    /// The layout for a root alone in its page with so many entries.
    fn layout_for_root(&self, _count: usize, _height: u8) -> u8 {
        0
    }

    /// Called after a mount.
    fn mounted<N: Nand>(_tree: &mut Nodes<N, Self>) -> Result<(), IndexFault> {
        Ok(())
    }

    /// Called before an update, when nothing of it has begun.
    fn before_update<N: Nand>(_tree: &mut Nodes<N, Self>) {}

    /// An operation used a leaf.
    fn note_leaf(&mut self, _kind: LeafUse, _leaf: Leaf) {}

    /// Brings the nodes of a copied path that are too large for the path's layout into a form that
    /// [`RawScheme::write_path`] can write.
    fn settle<N: Nand>(_tree: &mut Nodes<N, Self>, _change: Change<'_>) -> Result<(), IndexFault> {
        Ok(())
    }

    /// The figures of the choice.
    fn add_metrics(&self, _metrics: &mut Vec<Metric>) {}
}

/// The handling of nodes that may move while their parents go on naming the places they left
/// ([`moves`](super::moves)). By default none does.
pub trait MovedNodes: Shapes {
    /// Whether the tree keeps such a table.
    const MAPS_MOVES: bool = false;
    /// Amounts of RAM for which the table is chosen where it would be too large for all there is, the largest
    /// first.
    const LESS_RAM: &'static [usize] = &[];

    /// The table of moved nodes on such a chip, where the tree may take so much RAM.
    fn moves(
        &self,
        _geometry: Geometry,
        _config: &Self::Config,
        _ram_bytes: Option<usize>,
    ) -> Result<Moves, IndexFault> {
        Ok(Moves::default())
    }

    /// Completes the page of a half that left the path.
    fn dress_half(_tag: &mut Tag, _page: &mut [u8]) {}

    /// Finds again which nodes had moved: from what the newest checkpoint kept, which is in the table, and
    /// the pages written since.
    fn restore_moves<N: Nand>(_tree: &mut Nodes<N, Self>, _pages: &Runs) -> Result<(), IndexFault> {
        Ok(())
    }
}

/// A tree on raw NAND: its name, its page, and how a changed path is written.
pub trait RawScheme: Layouts + MovedNodes {
    /// The name of the owner on a formatted chip, before the record sizes.
    const KIND: &'static [u8];

    /// Whether the page that ends an operation may be written over one that died in it
    /// ([`Placement::InPlace`](crate::log::Placement::InPlace)).
    const KEEPS_PLACES: bool = false;

    /// Whether leaves may be written alone and noted in a [journal](super::journal): for trees with one node
    /// in a page.
    const TAKES_JOURNAL: bool = false;

    /// The scheme for pages and records of these sizes; `Unsupported` when a page holds too little.
    fn new(page_bytes: usize, record: RecordFormat) -> Result<Self, IndexFault>;

    /// The scheme run as its configuration asks.
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

/// The change that a copied path is to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// The insertion of this key: nodes may be split.
    Put(&'a [u8]),
    /// A removal or a move of what lies at this level and above: nothing may be split, lest it need room.
    Keep(u8),
}

/// The use that an operation made of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafUse {
    /// The operation searched the leaf.
    Read,
    /// The operation changed the leaf, or was about to.
    Update,
}

/// A leaf that an operation used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Entries of the leaf.
    pub count: usize,
    /// Entries that the leaf has room for.
    pub capacity: usize,
    /// Pages that hold the path to the leaf.
    pub pages: u8,
}
