//! Insertion and removal after Guttman. The decisions in which the R-tree and the R*-tree differ are left to
//! [`Grouping`].
//!
//! *insert*: descends to the node of the wanted level by [`Grouping::choose`] and adds the entry. A full node
//! either gives up entries that are inserted again (once per level and operation, [`Grouping::reinserted`]),
//! or is split by [`Grouping::split`], and its new neighbour is added to the parent. Boxes are adjusted
//! upwards until one does not change.
//!
//! *remove*: takes the entry out. From the leaf up, a node with too few entries is dissolved, and its entries
//! are inserted again at their level (CondenseTree). A root with one child takes over the entries of the
//! child.
//!
//! *narrow*: nothing is inserted again. A full node is split. A node with too few entries is merged with a
//! neighbour, or shares entries with it. The neighbour is below the same parent, and its box is enlarged
//! least.

use super::{Operation, Path, Rules, by_measure};
use crate::check::{IndexError, Invariant};
use crate::nand::Cause;
use crate::spatial::coordinate::Coordinate;
use crate::spatial::curve::{CurveKey, Grid};
use crate::spatial::geometry::Rect;
use crate::spatial::node::{Change, Entry, Node, NodeId, OPTION_BYTES, ROOT};
use crate::spatial::nodes::{Nodes, read_child};
use alloc::vec;
use alloc::vec::Vec;

/// Two groups of entries.
pub type Groups<C, const D: usize> = (Vec<Entry<C, D>>, Vec<Entry<C, D>>);

/// Decisions of a tree that groups entries by their boxes.
pub trait Grouping<C: Coordinate, const D: usize>: Clone + PartialEq + crate::shared::MaybeSend {
    /// Name of the kind in the superblock.
    const KIND: [u8; 8];

    /// Writes the options that the next mount needs.
    fn put_options(&self, options: &mut [u8; OPTION_BYTES]);

    /// Reads the options; `None` if the bytes are no options.
    fn of_options(options: &[u8; OPTION_BYTES]) -> Option<Self>;

    /// Returns the child of `node` below which a rectangle is inserted.
    fn choose(&self, node: &Node<C, D>, rect: &Rect<C, D>) -> usize;

    /// Divides the entries of an overfull node into two groups of at least `least` entries. There are at
    /// least twice as many.
    fn split(&self, entries: Vec<Entry<C, D>>, least: usize) -> Groups<C, D>;

    /// Number of entries of a full node that are inserted again. 0: the node is split at once.
    fn reinserted(&self, capacity: usize) -> usize {
        let _ = capacity;
        0
    }

    /// Divides entries into those that stay and the `count` ones to be inserted again, in the order of
    /// insertion.
    fn part_with(&self, entries: Vec<Entry<C, D>>, count: usize) -> Groups<C, D> {
        let _ = count;
        (entries, Vec::new())
    }
}

/// Entries to insert, each with its level, the last one first. A bit per level tells if the level has
/// inserted entries again.
struct Pending<C, const D: usize> {
    entries: Vec<(Entry<C, D>, u8)>,
    reinserted_levels: u64,
}

/// Rules of a tree that groups entries by their boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grouped<G>(pub G);

impl<C: Coordinate, const D: usize, G: Grouping<C, D>> Rules<C, D> for Grouped<G> {
    const KIND: [u8; 8] = G::KIND;

    fn put_options(&self, options: &mut [u8; OPTION_BYTES]) {
        self.0.put_options(options);
    }

    fn of_options(options: &[u8; OPTION_BYTES]) -> Option<Self> {
        G::of_options(options).map(Grouped)
    }

    fn insert<N: Nodes<C, D>>(
        &self,
        op: &mut Operation<'_, N>,
        entry: Entry<C, D>,
    ) -> Result<(), IndexError> {
        insert_all(&self.0, op, Pending { entries: vec![(entry, 1)], reinserted_levels: 0 })
    }

    fn remove<N: Nodes<C, D>>(&self, op: &mut Operation<'_, N>, path: Path) -> Result<(), IndexError> {
        let (leaf, at) = path[path.len() - 1];
        op.nodes.change(leaf, Change::Remove { at })?;
        if op.is_narrow {
            mend(&self.0, op, &path)?;
        } else {
            let entries = condense(op, &path)?;
            op.counts.reinsertions += entries.len() as u64;
            insert_all(&self.0, op, Pending { entries, reinserted_levels: 0 })?;
        }
        op.lower_root()
    }

    fn curve_key(&self, rect: &Rect<C, D>) -> CurveKey {
        Grid { domain: None }.key(rect)
    }
}

fn insert_all<C: Coordinate, const D: usize, N: Nodes<C, D>, G: Grouping<C, D>>(
    rules: &G,
    op: &mut Operation<'_, N>,
    mut pending: Pending<C, D>,
) -> Result<(), IndexError> {
    while let Some((entry, level)) = pending.entries.pop() {
        let path = descend(rules, op, level, &entry.rect)?;
        insert_at(rules, op, &path, entry, &mut pending)?;
    }
    Ok(())
}

/// Returns the path to the node of `level` in which a rectangle is inserted. The place in the last node has
/// no meaning.
fn descend<C: Coordinate, const D: usize, N: Nodes<C, D>, G: Grouping<C, D>>(
    rules: &G,
    op: &mut Operation<'_, N>,
    level: u8,
    rect: &Rect<C, D>,
) -> Result<Path, IndexError> {
    let mut path = Vec::with_capacity(usize::from(op.height));
    let (mut id, mut node) = (ROOT, op.nodes.read(ROOT, Cause::Host)?);
    loop {
        if node.level <= level {
            path.push((id, 0));
            return Ok(path);
        }
        let slot = rules.choose(node, rect);
        path.push((id, slot));
        let above = node.level;
        let Some(child) = node.entries[slot].child_id() else {
            return Err(IndexError::broken(
                Invariant::S4,
                "a node above the leaves holds data",
                u64::from(id.0),
            ));
        };
        id = child;
        node = read_child(op.nodes, child, above, Cause::Host)?;
    }
}

/// Adds an entry to the node at the end of a path, and the nodes of splits to its ancestors.
fn insert_at<C: Coordinate, const D: usize, N: Nodes<C, D>, G: Grouping<C, D>>(
    rules: &G,
    op: &mut Operation<'_, N>,
    path: &Path,
    entry: Entry<C, D>,
    pending: &mut Pending<C, D>,
) -> Result<(), IndexError> {
    let (mut depth, mut entry) = (path.len() - 1, entry);
    loop {
        let id = path[depth].0;
        let format = *op.nodes.format();
        let node = op.nodes.read(id, Cause::Host)?;
        let (level, count, capacity) = (node.level, node.entries.len(), format.capacity(node.level));
        if count < capacity {
            op.nodes.change(id, Change::Add { at: count, entry })?;
            return adjust(op, path, depth);
        }
        let mut entries = node.entries.clone();
        entries.push(entry);
        let away = rules.reinserted(capacity);
        if away > 0 && depth > 0 && !op.is_narrow && pending.reinserted_levels >> level & 1 == 0 {
            pending.reinserted_levels |= 1 << level;
            let (stay, away) = rules.part_with(entries, away);
            op.counts.reinsertions += away.len() as u64;
            pending.entries.extend(away.into_iter().rev().map(|entry| (entry, level)));
            op.nodes.change(id, Change::Whole(Node::with(level, stay)))?;
            return adjust(op, path, depth);
        }
        op.counts.splits += 1;
        let (left, right) = rules.split(entries, format.fill_min(level));
        let (left, right) = (Node::with(level, left), Node::with(level, right));
        if depth == 0 {
            return op.raise_root([left, right].map(|node| (node, CurveKey::default())));
        }
        let new = op.nodes.allocate()?;
        let new_entry = right.rect().map(|rect| Entry::child(rect, new));
        op.nodes.change(id, Change::Whole(left))?;
        op.nodes.change(new, Change::Whole(right))?;
        depth -= 1;
        update_box(op, path[depth], id)?;
        let Some(new_entry) = new_entry else { return Ok(()) };
        entry = new_entry;
    }
}

/// Updates the box of a child in its parent. Returns true if the box changed.
pub fn update_box<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    op: &mut Operation<'_, N>,
    (parent, at): (NodeId, usize),
    child: NodeId,
) -> Result<bool, IndexError> {
    let Some(rect) = op.nodes.read(child, Cause::Host)?.rect() else { return Ok(false) };
    let entry = op.nodes.read(parent, Cause::Host)?.entries[at];
    if entry.rect == rect {
        return Ok(false);
    }
    op.nodes.change(parent, Change::Update { at, entry: Entry { rect, ..entry } })?;
    Ok(true)
}

/// Adjusts the boxes above the node at `depth` of a path, until one does not change.
pub fn adjust<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    op: &mut Operation<'_, N>,
    path: &Path,
    depth: usize,
) -> Result<(), IndexError> {
    for above in (0..depth).rev() {
        if !update_box(op, path[above], path[above + 1].0)? {
            break;
        }
    }
    Ok(())
}

/// Dissolves nodes with too few entries from the leaf up. Returns the entries to insert again, the highest
/// level last.
fn condense<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    op: &mut Operation<'_, N>,
    path: &Path,
) -> Result<Vec<(Entry<C, D>, u8)>, IndexError> {
    let mut homeless = Vec::new();
    for depth in (1..path.len()).rev() {
        let id = path[depth].0;
        let fill_min = |level| op.nodes.format().fill_min(level);
        let least = fill_min(op.height - depth as u8);
        let node = op.nodes.read(id, Cause::Host)?;
        if node.entries.len() >= least {
            if !update_box(op, path[depth - 1], id)? {
                break;
            }
            continue;
        }
        let level = node.level;
        homeless.extend(node.entries.iter().map(|entry| (*entry, level)));
        op.counts.merges += 1;
        op.nodes.free(id);
        let (parent, at) = path[depth - 1];
        op.nodes.change(parent, Change::Remove { at })?;
    }
    Ok(homeless)
}

/// Mends nodes with too few entries from the leaf up, each with one neighbour.
fn mend<C: Coordinate, const D: usize, N: Nodes<C, D>, G: Grouping<C, D>>(
    rules: &G,
    op: &mut Operation<'_, N>,
    path: &Path,
) -> Result<(), IndexError> {
    for depth in (1..path.len()).rev() {
        let id = path[depth].0;
        let format = *op.nodes.format();
        let node = op.nodes.read(id, Cause::Host)?;
        let (level, least) = (node.level, format.fill_min(node.level));
        let mut entries = node.entries.clone();
        if entries.len() >= least {
            return adjust(op, path, depth);
        }
        let (parent, at) = path[depth - 1];
        let Some((neighbour_at, neighbour)) = neighbour(op, parent, at, &entries)? else {
            return adjust(op, path, depth);
        };
        entries.extend_from_slice(&read_child(op.nodes, neighbour, level + 1, Cause::Host)?.entries);
        if entries.len() <= format.capacity(level) {
            op.counts.merges += 1;
            op.nodes.change(neighbour, Change::Whole(Node::with(level, entries)))?;
            update_box(op, (parent, neighbour_at), neighbour)?;
            op.nodes.free(id);
            op.nodes.change(parent, Change::Remove { at })?;
            continue;
        }
        op.counts.redistributions += 1;
        let (left, right) = rules.split(entries, least);
        op.nodes.change(id, Change::Whole(Node::with(level, left)))?;
        op.nodes.change(neighbour, Change::Whole(Node::with(level, right)))?;
        update_box(op, (parent, neighbour_at), neighbour)?;
        update_box(op, (parent, at), id)?;
        return adjust(op, path, depth - 1);
    }
    Ok(())
}

/// Returns the other child of `parent` whose box grows least if it takes over `entries`.
pub fn neighbour<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    op: &mut Operation<'_, N>,
    parent: NodeId,
    own: usize,
    entries: &[Entry<C, D>],
) -> Result<Option<(usize, NodeId)>, IndexError> {
    let rect = Rect::around(entries.iter().map(|entry| &entry.rect));
    let parent = op.nodes.read(parent, Cause::Host)?;
    let others = parent.entries.iter().enumerate().filter(|(at, _)| *at != own);
    let grows = |entry: &Entry<C, D>| rect.map_or(entry.rect.area(), |rect| entry.rect.enlargement(&rect));
    let nearest = others.min_by(|(_, a), (_, b)| by_measure(&grows(a), &grows(b)));
    Ok(nearest.and_then(|(at, entry)| Some((at, entry.child_id()?))))
}
