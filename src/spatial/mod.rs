//! Spatial indexes: rectangles and points in two or three dimensions, each with an identifier.
//!
//! # For users
//!
//! ```
//! use nandex::store::ram::RamStore;
//! use nandex::spatial::r_tree::{self, RTree, Split};
//! use nandex::spatial::{Rect, Relation, SpatialIndex};
//! use core::ops::ControlFlow;
//!
//! let mut places = RTree::<_, i32, 2>::format(RamStore::new(4096, 1000), &r_tree::config(Split::Quadratic))?;
//! places.insert(&Rect::point([13, 52]).unwrap(), 1)?;
//! places.insert(&Rect::point([2, 48]).unwrap(), 2)?;
//! let mut found = Vec::new();
//! places.window(&Rect::new([0, 40], [10, 50]).unwrap(), Relation::Within, &mut |_, id| {
//!     found.push(id);
//!     ControlFlow::Continue(())
//! })?;
//! assert_eq!(found, [2]);
//! # Ok::<(), nandex::IndexError>(())
//! ```
//!
//! # For builders of trees and layers
//!
//! | file | what |
//! |---|---|
//! | `coordinate.rs`, `measure.rs`, `geometry.rs`, `curve.rs` | coordinates, exact areas and distances, rectangles, Hilbert curve |
//! | `node.rs` | [`node::Node`], [`node::Entry`], [`node::Change`] in RAM; [`node::NodeFormat`] encodes and decodes pages |
//! | `nodes.rs` | [`nodes::Nodes`], the interface: read a node, change it entry by entry, commit an operation |
//! | `paged.rs`, `superblock.rs` | the plain implementation: a node is a page |
//! | `tree/` | [`tree::Tree`] over any `Nodes` with any [`tree::Rules`]: operations, search, bulk load, check |
//! | `tree/update.rs` | Guttman's insertion and removal over [`tree::update::Grouping`] (choose child, split, reinsert) |
//! | `r_tree.rs`, `hilbert.rs` | the kinds of tree |
//!
//! Other kinds (R*-tree, MR-tree, FOR-tree) and layers below any tree (node buffers of FAST and eFIND, RFTL)
//! are in `nandex-papers`.
//!
//! **A tree** that differs from the R-tree in choice and split alone implements `Grouping` and runs as
//! `Grouped<G>` (see `r_tree.rs`). A tree that inserts and removes in its own way implements `Rules` (see
//! `hilbert.rs`). Search, load, check, mount and the durability classes come with `Tree`. A tree whose nodes
//! mix data and child entries, or whose leaves lie on different levels, sets `is_balanced = false` in its
//! `NodeFormat`. The functions in `tree/search.rs` handle such trees, and `Node::tag` is free for their use.
//! Such a tree may also implement [`SpatialIndex`] itself, with these functions.
//!
//! **A layer** between tree and pages implements [`nodes::Nodes`] and is put below any tree with
//! [`tree::Tree::over`]. It gets every modification as a [`node::Change`]: `Add`, `Remove` or `Update` of one
//! entry by its place, or `Whole`. [`node::Node::apply`] replays a modification. A layer may hold the nodes
//! of an operation as `PagedNodes` does (`held`), or wrap a `PagedNodes`: `begin`, `change(id,
//! Change::Whole(..))` and `commit` write a group of nodes. A layer that needs pages of its own, for example
//! for a log, divides the store with [`crate::store::slice::divide`]. The root always is node 1, so no layer
//! keeps a pointer to it. If an operation does not fit (`fits_group` is false, or the error is `Full`), the
//! tree rolls it back and repeats it with fewer changes. A layer whose commit appends to a log always answers
//! true. A layer that delays writes stores [`node::Node::link`] with the node, and its
//! [`nodes::Nodes::take_links`] includes the delayed changes.
//!
//! # Entries
//!
//! An index is a multiset of pairs of a rectangle and an identifier. A pair that was inserted twice is in the
//! index twice, and a removal removes one of the two. (In a set, each insertion would first have to search,
//! which the costs in the literature do not include.) Coordinates are finite: [`Rect::new`] refuses NaN,
//! infinities and reversed sides.
//!
//! # Floating point
//!
//! This is the only room of the engine that computes with floats, since coordinates may be floats. It adds,
//! subtracts, multiplies, divides and compares: IEEE 754 defines the results to the bit. It calls no function
//! of a mathematical library.

#[cfg(not(feature = "unstable"))]
pub(crate) mod coordinate;
#[cfg(feature = "unstable")]
pub mod coordinate;
#[cfg(not(feature = "unstable"))]
pub(crate) mod curve;
#[cfg(feature = "unstable")]
pub mod curve;
#[cfg(not(feature = "unstable"))]
pub(crate) mod geometry;
#[cfg(feature = "unstable")]
pub mod geometry;
pub mod hilbert;
#[cfg(not(feature = "unstable"))]
pub(crate) mod measure;
#[cfg(feature = "unstable")]
pub mod measure;
mod named;
#[cfg(not(feature = "unstable"))]
pub(crate) mod node;
#[cfg(feature = "unstable")]
pub mod node;
#[cfg(not(feature = "unstable"))]
pub(crate) mod nodes;
#[cfg(feature = "unstable")]
pub mod nodes;
#[cfg(not(feature = "unstable"))]
pub(crate) mod paged;
#[cfg(feature = "unstable")]
pub mod paged;
pub mod r_tree;
#[cfg(not(feature = "unstable"))]
pub(crate) mod superblock;
#[cfg(feature = "unstable")]
pub mod superblock;
#[cfg(not(feature = "unstable"))]
pub(crate) mod tree;
#[cfg(feature = "unstable")]
pub mod tree;

pub use coordinate::Coordinate;
pub use geometry::{Rect, RectError};
pub use measure::Measure;
pub use node::NodeId;
#[cfg(feature = "unstable")]
pub use nodes::Nodes;
#[cfg(not(feature = "unstable"))]
pub(crate) use nodes::Nodes;
pub use tree::{Packing, SpatialConfig};

use crate::check::{CheckReport, IndexError};
use crate::index::{Durability, Fill, IndexStats};
use core::ops::ControlFlow;

/// Position of an entry in relation to a window.
///
/// ```
/// use nandex::spatial::{Rect, Relation};
///
/// let (small, large) = (Rect::new([1], [2])?, Rect::new([0], [9])?);
/// assert!(Relation::Within.holds(&small, &large) && Relation::Covers.holds(&large, &small));
/// # Ok::<(), nandex::spatial::RectError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Entry and window share a point.
    Intersects,
    /// The entry lies within the window.
    Within,
    /// The entry covers the window. If the window is a point, the entry contains the point.
    Covers,
}

impl Relation {
    /// Name in settings and results.
    pub const fn name(self) -> &'static str {
        match self {
            Relation::Intersects => "intersects",
            Relation::Within => "within",
            Relation::Covers => "covers",
        }
    }

    /// Returns true if an entry stands in this relation to a window.
    #[inline]
    pub fn holds<C: Coordinate, const D: usize>(self, entry: &Rect<C, D>, window: &Rect<C, D>) -> bool {
        match self {
            Relation::Intersects => entry.intersects(window),
            Relation::Within => window.contains(entry),
            Relation::Covers => entry.contains(window),
        }
    }

    /// Returns true if an entry within `bounds` may stand in this relation to a window.
    #[inline]
    pub fn may_hold_below<C: Coordinate, const D: usize>(
        self,
        bounds: &Rect<C, D>,
        window: &Rect<C, D>,
    ) -> bool {
        match self {
            Relation::Intersects | Relation::Within => bounds.intersects(window),
            Relation::Covers => bounds.contains(window),
        }
    }
}

/// A node, as a map of the tree shows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Region<C, const D: usize> {
    /// Number of the node. If nodes are pages, this is the number of the page.
    pub id: NodeId,
    /// Level of the node; 1 for a leaf.
    pub level: u8,
    /// Number of entries.
    pub entries: usize,
    /// Smallest box around the entries.
    pub rect: Rect<C, D>,
}

/// Callback for each entry found. `Break` ends the search.
pub type VisitRect<'a, C, const D: usize> = &'a mut dyn FnMut(&Rect<C, D>, u64) -> ControlFlow<()>;

/// Callback for each entry, with the square of its distance. `Break` ends the search.
pub type VisitNearest<'a, C, const D: usize> =
    &'a mut dyn FnMut(&Rect<C, D>, u64, <C as Coordinate>::Measure) -> ControlFlow<()>;

/// Callback for each node. `Break` ends the walk.
pub type VisitRegion<'a, C, const D: usize> = &'a mut dyn FnMut(&Region<C, D>) -> ControlFlow<()>;

/// Entries of a bulk load, in any order.
pub type Entries<'a, C, const D: usize> = &'a mut dyn Iterator<Item = (Rect<C, D>, u64)>;

/// A spatial index: a multiset of rectangles with identifiers.
///
/// An index owns its storage. Formatting and mounting are functions of each index type.
pub trait SpatialIndex<C: Coordinate, const D: usize>: crate::shared::MaybeSend {
    /// Durability class that the index promises.
    fn durability(&self) -> Durability;

    /// Inserts an entry. The same entry may be in the index several times.
    fn insert(&mut self, rect: &Rect<C, D>, id: u64) -> Result<(), IndexError>;

    /// Removes one copy of an entry. Returns false if the entry is not in the index.
    fn remove(&mut self, rect: &Rect<C, D>, id: u64) -> Result<bool, IndexError>;

    /// Fills an empty index and returns the number of entries. Holds all entries in RAM while it sorts them.
    /// After an error the index is still empty.
    fn load(&mut self, entries: Entries<'_, C, D>, packing: Packing, fill: Fill) -> Result<u64, IndexError>;

    /// Visits every entry that stands in `relation` to the window `query`, in no particular order.
    fn window(
        &mut self,
        query: &Rect<C, D>,
        relation: Relation,
        visit: VisitRect<'_, C, D>,
    ) -> Result<(), IndexError>;

    /// Visits the `count` entries nearest to a point, nearest first. Entries at the same distance are ordered
    /// by identifier, then by corners ([`Rect::order`]). The same order decides which of them belong to the
    /// `count` entries.
    fn nearest(
        &mut self,
        point: &[C; D],
        count: usize,
        visit: VisitNearest<'_, C, D>,
    ) -> Result<(), IndexError>;

    /// Visits every node that has entries, the root first. The walk is neither counted nor timed.
    fn regions(&mut self, visit: VisitRegion<'_, C, D>) -> Result<(), IndexError>;

    /// Makes every acknowledged operation survive a power cut.
    fn sync(&mut self) -> Result<(), IndexError>;

    /// Syncs, and leaves the medium so that the next mount is cheapest.
    fn close(&mut self) -> Result<(), IndexError>;

    /// Walks the whole index and checks its numbered invariants. The walk is neither counted nor timed.
    fn check(&mut self) -> Result<CheckReport, IndexError>;

    /// Statistics of the index.
    fn stats(&self) -> IndexStats;

    /// Bytes of RAM of tables, buffers and caches.
    fn ram_bytes(&self) -> usize;
}
