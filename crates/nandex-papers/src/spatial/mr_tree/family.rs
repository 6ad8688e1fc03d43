//! The entries of an MR-tree's node: data, children one level below it, and children two levels below it.
//!
//! The children one level below (*tall*) precede those two levels below (*short*), and the tag of the node
//! counts the short ones. So a node tells the height of every subtree, and no child must be read for that.

use super::split;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use nandex::check::{Breach, IndexError, Invariant};
use nandex::spatial::coordinate::Coordinate;
use nandex::spatial::geometry::Rect;
use nandex::spatial::node::{Entry, Node, NodeFormat, NodeId};
use nandex::spatial::tree::by_measure;

/// The number of entries of each kind in a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) level: u8,
    pub(super) data: usize,
    pub(super) tall: usize,
    pub(super) short: usize,
}

impl Shape {
    /// The shape of a node. An error if no such node is possible.
    pub(super) fn of<C: Coordinate, const D: usize>(
        id: NodeId,
        node: &Node<C, D>,
    ) -> Result<Shape, IndexError> {
        Shape::judge(node).map_err(|(invariant, what)| IndexError::broken(invariant, what, u64::from(id.0)))
    }

    /// The shape of a node, or the invariant that it breaks.
    pub(super) fn judge<C: Coordinate, const D: usize>(node: &Node<C, D>) -> Result<Shape, Breach> {
        let data = node.data_count();
        let (children, short) = (node.entries.len() - data, usize::from(node.tag));
        if (children == 0) != (node.level <= 1) {
            return Err((Invariant::M1, "a node above the leaves has no child, or a leaf has one"));
        }
        if short > children || (children > 0 && short == children) || (short > 0 && node.level < 3) {
            return Err((Invariant::M2, "no child is one level below the node, or one is below the leaves"));
        }
        if data > 0 && node.level > 2 {
            return Err((Invariant::M3, "a node that holds data has children that are no leaves"));
        }
        Ok(Shape { level: node.level, data, tall: children - short, short })
    }

    pub(super) fn children(self) -> usize {
        self.tall + self.short
    }

    pub(super) fn is_half_leaf(self) -> bool {
        self.data > 0 && self.children() > 0
    }

    pub(super) fn child_level(self, slot: usize) -> u8 {
        let below = if slot < self.data + self.tall { 1 } else { 2 };
        self.level.saturating_sub(below)
    }

    /// Number of entries that the node may have. In a half-leaf all count as data entries, which are the
    /// larger ones.
    pub(super) fn capacity(self, format: &NodeFormat) -> usize {
        if self.is_half_leaf() { format.capacity(1) } else { format.capacity(self.level) }
    }

    pub(super) fn has_room(self, format: &NodeFormat) -> bool {
        self.data + self.children() < self.capacity(format)
    }
}

/// The entries of a node, each child with its level.
#[derive(Clone, Debug)]
pub(super) struct Family<C, const D: usize> {
    pub(super) data: Vec<Entry<C, D>>,
    pub(super) children: Vec<(Entry<C, D>, u8)>,
}

/// The division of a node with one child too many.
pub(super) enum Division<C, const D: usize> {
    /// Two nodes of its level.
    Halves(Node<C, D>, Node<C, D>),
    /// The node remains one node. Some of its short children move into a new node one level below it.
    Gathered { kept: Family<C, D>, below: Node<C, D> },
}

impl<C: Coordinate, const D: usize> Family<C, D> {
    pub(super) fn of(id: NodeId, node: &Node<C, D>) -> Result<Family<C, D>, IndexError> {
        let shape = Shape::of(id, node)?;
        let (data, children) = node.entries.split_at(shape.data);
        let level = |at| shape.child_level(shape.data + at);
        let children = children.iter().enumerate().map(|(at, entry)| (*entry, level(at)));
        Ok(Family { data: data.to_vec(), children: children.collect() })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.data.is_empty() && self.children.is_empty()
    }

    fn tallest(&self) -> u8 {
        self.children.iter().map(|(_, level)| *level).max().unwrap_or(0)
    }

    /// Difference in level between its highest and its lowest child.
    pub(super) fn spread(&self) -> u8 {
        let shortest = self.children.iter().map(|(_, level)| *level).min().unwrap_or(0);
        self.tallest() - shortest
    }

    /// Makes a node of these entries.
    pub(super) fn into_node(self) -> Node<C, D> {
        assert!(self.spread() <= 1, "subtrees that differ by {} levels", self.spread());
        let tallest = self.tallest();
        let mut node = Node::with(tallest + 1, self.data);
        let entries_of = |is_tall: bool| {
            let wanted = self.children.iter().filter(move |(_, level)| (*level == tallest) == is_tall);
            wanted.map(|(entry, _)| *entry)
        };
        node.entries.extend(entries_of(true));
        node.tag = entries_of(false).count() as u16;
        node.entries.extend(entries_of(false));
        node
    }

    /// Divides the family so that subtrees still differ by at most one level. Both halves keep the height,
    /// so each needs a tall child. If there is only one, short children are gathered below a new node
    /// instead.
    pub(super) fn divide(self, least: usize) -> Division<C, D> {
        assert!(self.data.is_empty(), "a half-leaf is not divided");
        let tallest = self.tallest();
        let is_tall = |(_, level): &&(Entry<C, D>, u8)| *level == tallest;
        let tall_ids: BTreeSet<NodeId> =
            self.children.iter().filter(is_tall).filter_map(|(entry, _)| entry.child_id()).collect();
        let is_tall = |entry: &Entry<C, D>| entry.child_id().is_some_and(|id| tall_ids.contains(&id));
        let (mut a, mut b) = split(self.children.iter().map(|(entry, _)| *entry).collect(), least);
        let family = |entries: Vec<Entry<C, D>>| {
            let level = |entry: &Entry<C, D>| if is_tall(entry) { tallest } else { tallest - 1 };
            Family { data: Vec::new(), children: entries.iter().map(|e| (*e, level(e))).collect() }
        };
        if tall_ids.len() == 1 {
            let (kept, gathered) = if a.iter().any(is_tall) { (a, b) } else { (b, a) };
            return Division::Gathered { kept: family(kept), below: family(gathered).into_node() };
        }
        if !a.iter().any(is_tall) {
            exchange(&mut b, &mut a, is_tall);
        } else if !b.iter().any(is_tall) {
            exchange(&mut a, &mut b, is_tall);
        }
        Division::Halves(family(a).into_node(), family(b).into_node())
    }
}

/// Exchanges two entries: the tall entry that enlarges `poor` least, for the entry that enlarges `rich`
/// least.
fn exchange<C: Coordinate, const D: usize>(
    rich: &mut [Entry<C, D>],
    poor: &mut [Entry<C, D>],
    is_tall: impl Fn(&Entry<C, D>) -> bool,
) {
    let Some(given) = cheapest(rich, poor, is_tall) else { return };
    let Some(returned) = cheapest(poor, rich, |_| true) else { return };
    core::mem::swap(&mut rich[given], &mut poor[returned]);
}

/// The wanted entry of `from` that enlarges the box of `to` least.
fn cheapest<C: Coordinate, const D: usize>(
    from: &[Entry<C, D>],
    to: &[Entry<C, D>],
    is_wanted: impl Fn(&Entry<C, D>) -> bool,
) -> Option<usize> {
    let rect = Rect::around(to.iter().map(|entry| &entry.rect))?;
    let wanted = from.iter().enumerate().filter(|(_, entry)| is_wanted(entry));
    let costs = wanted.map(|(at, entry)| (at, rect.enlargement(&entry.rect)));
    costs.min_by(|(_, a), (_, b)| by_measure(a, b)).map(|(at, _)| at)
}
