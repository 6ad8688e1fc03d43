//! The MR-tree: an R-tree whose leaves may lie on two neighbouring levels, and whose full leaves may become
//! parents.
//!
//! K.-C. Kim and S.-W. Yun, "MR-Tree: a cache-conscious main memory spatial index structure for mobile GIS",
//! W2GIS 2004, of which the abstract was at hand, and the study of access times that puts the tree into
//! 512-byte nodes on flash. Both tell the three kinds of node, the two fields (height, number of data
//! entries), that subtrees differ by one level at most, that a split is handed upwards only into a free
//! entry, and that a height-balance algorithm and a selective re-insertion exist; how those two go is our
//! reading, as is everything marked so below.
//!
//! # State
//!
//! A *leaf* (level 1) holds data, an *internal node* children, a *half-leaf* (level 2) data and children that
//! are leaves. The level of a node is its height: one more than that of its highest child. The children of a
//! node are *tall* (one level below it) or *short* (two levels below); short ones stand last and the tag
//! counts them (our layout: the papers would have to read the children to know). Underfull nodes are
//! tolerated. Pages, root and superblock are as in every tree here.
//!
//! # Insertion
//!
//! 1. Descend to the child that grows least, then the smallest. At a half-leaf with room its data group
//!    competes, and wins if its box grows less than every child's (our reading). So the walk ends in a leaf,
//!    or in a half-leaf with room.
//! 2. With room: add the entry, adjust boxes upwards.
//! 3. A full leaf is split in two by the quadratic split. The new leaf goes
//!    1. below a half-leaf above, if there is one. A full one becomes an internal node first: its data leave
//!       as a leaf of their
//!       own or, too few for that, go to the two leaves just made (*conversion*);
//!    2. else, if a node on the path has a free entry, into the parent; full nodes up to the one with room
//!       are split
//!       (*propagation*);
//!    3. else below the leaf that was split, which becomes a half-leaf (*half-leaf move*), if then no
//!       subtrees differ by more
//!       than a level;
//!    4. else up to the root, and the tree gets higher.
//! 4. An internal node is divided so that each half keeps a tall child, and is as high as before. If it has
//!    but one, there is no such division: one group of its short children moves below a new node, one level
//!    under it, and the other stays (*gathering*, our own). So no insertion ever breaks the bound.
//!
//! # Removal
//!
//! Take the entry out. An empty node leaves its parent; a half-leaf without children is a leaf; heights are
//! told upwards. If a subtree gets two levels lower than another one beside it, *balance*: it leaves, and its
//! data are inserted again ([`Balance::Reinsertion`]), or it moves below a neighbour with room, or changes
//! places with a child of the highest neighbour ([`Balance::Adoption`], our own: two or three nodes change,
//! no page is needed). A root with one child takes it over. With [`MrRules::is_selective`] a leaf that gets
//! too empty is dissolved and its data inserted again, if a node on its path has a free entry.
//!
//! # Invariants, besides those of the pages (S1 to S8)
//!
//! - M1 Leaves have level 1 and no child; every other node has one.
//! - M2 The level of a node is one more than its highest child's; all children are tall or short, and the tag
//!   counts the short.
//! - M3 A node with data and children has level 2: its children are leaves. It holds no more entries than a
//!   leaf may.
//!
//! # Durability
//!
//! As [`PagedNodes`] gives it. The narrow form of an operation balances by adoption and inserts nothing
//! again.

mod ascend;
mod family;
mod insert;
mod remove;

use alloc::string::ToString;
use alloc::vec::Vec;
use family::Shape;
use nandex::check::{CheckReport, IndexError, Invariant, words};
use nandex::nand::Cause;
use nandex::spatial::coordinate::Coordinate;
use nandex::spatial::curve::{CurveKey, Grid};
use nandex::spatial::geometry::Rect;
use nandex::spatial::node::{Entry, Node, NodeFormat, NodeId, OPTION_BYTES};
use nandex::spatial::nodes::Nodes;
use nandex::spatial::paged::PagedNodes;
use nandex::spatial::r_tree::{Guttman, Split};
use nandex::spatial::tree::update::{Grouping, Groups};
use nandex::spatial::tree::{Operation, Path, Rules, SpatialConfig, Tree};

/// The treatment of a subtree that is two levels lower than a sibling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// The subtree's data are inserted again.
    Reinsertion,
    /// The subtree moves below a neighbour, or changes places with a neighbour's child.
    Adoption,
}

/// The rules of the MR-tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MrRules {
    /// The treatment of a subtree that is two levels lower than a sibling.
    pub balance: Balance,
    /// Whether a leaf that gets too empty is dissolved if a node above it has a free entry.
    pub is_selective: bool,
}

/// An MR-tree whose nodes are pages.
pub type MrTree<S, C, const D: usize> = Tree<C, D, PagedNodes<S, C, D>, MrRules>;

/// The default settings: nodes fill a page, leaves are split at most 40 to 60, underfull leaves are
/// tolerated, and every operation is durable.
pub const fn config() -> SpatialConfig<MrRules> {
    SpatialConfig::new(MrRules { balance: Balance::Reinsertion, is_selective: false })
}

/// The MR-tree's own counters, by their place in [`nandex::spatial::tree::TreeCounts::own`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    HalfLeafMoves,
    Conversions,
    Propagations,
    Gatherings,
    Balances,
    SelectiveRemovals,
}

fn count<N>(op: &mut Operation<'_, N>, figure: Figure) {
    op.counts.own[figure as usize] += 1;
}

impl<C: Coordinate, const D: usize> Rules<C, D> for MrRules {
    const KIND: [u8; 8] = *b"MR-tree ";

    const METRICS: &'static [&'static str] = &[
        "half_leaf_moves",
        "conversions",
        "propagations",
        "gatherings",
        "balances",
        "selective_reinsertions",
    ];

    fn adapt(&self, format: &mut NodeFormat) {
        format.is_balanced = false;
        // A leaf that becomes a half-leaf keeps its data.
        format.leaf_capacity = format.leaf_capacity.min(format.internal_capacity);
    }

    fn put_options(&self, options: &mut [u8; OPTION_BYTES]) {
        options[..2].copy_from_slice(&[self.balance as u8, u8::from(self.is_selective)]);
    }

    fn of_options(options: &[u8; OPTION_BYTES]) -> Option<MrRules> {
        let (balance, is_selective) = match options[..2] {
            [0, selective @ 0..=1] => (Balance::Reinsertion, selective == 1),
            [1, selective @ 0..=1] => (Balance::Adoption, selective == 1),
            _ => return None,
        };
        Some(MrRules { balance, is_selective })
    }

    fn insert<N: Nodes<C, D>>(
        &self,
        op: &mut Operation<'_, N>,
        entry: Entry<C, D>,
    ) -> Result<(), IndexError> {
        insert::insert(op, entry)
    }

    fn remove<N: Nodes<C, D>>(&self, op: &mut Operation<'_, N>, path: Path) -> Result<(), IndexError> {
        remove::remove(self, op, &path)
    }

    fn curve_key(&self, rect: &Rect<C, D>) -> CurveKey {
        Grid { domain: None }.key(rect)
    }

    fn child_level(&self, node: &Node<C, D>, slot: usize) -> u8 {
        Shape::judge(node).map_or(0, |shape| shape.child_level(slot))
    }

    fn check_node(&self, id: NodeId, node: &Node<C, D>, report: &mut CheckReport) {
        if let Err((invariant, what)) = Shape::judge(node) {
            report.violation(invariant, u64::from(id.0), words(what).to_string());
        }
    }
}

/// Least number of entries in each group of a split. Also the least data of a half-leaf that become a leaf.
fn least(format: &NodeFormat, level: u8) -> usize {
    format.fill_min(level).max(2)
}

fn split<C: Coordinate, const D: usize>(entries: Vec<Entry<C, D>>, least: usize) -> Groups<C, D> {
    Grouping::split(&Guttman { split: Split::Quadratic }, entries, least)
}

/// Reads a child. A level that does not agree with the child's place is an error.
fn read_kin<'a, C: Coordinate, const D: usize, N: Nodes<C, D>>(
    op: &'a mut Operation<'_, N>,
    id: NodeId,
    level: u8,
) -> Result<&'a Node<C, D>, IndexError> {
    let node = op.nodes.read(id, Cause::Host)?;
    if node.level == level {
        return Ok(node);
    }
    Err(IndexError::broken(
        Invariant::M2,
        "the child has another level than its place tells",
        u64::from(id.0),
    ))
}
