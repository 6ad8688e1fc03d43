//! Insertion, merging back and removal in the FOR-tree.

use super::{Figure, ForRules, Sharing, Tag};
use alloc::vec;
use alloc::vec::Vec;
use nandex::check::{IndexError, Invariant};
use nandex::nand::Cause;
use nandex::sort;
use nandex::spatial::coordinate::Coordinate;
use nandex::spatial::curve::CurveKey;
use nandex::spatial::geometry::Rect;
use nandex::spatial::node::{Change, Entry, Node, NodeFormat, NodeId, ROOT};
use nandex::spatial::nodes::{Nodes, read_child};
use nandex::spatial::r_tree::{Guttman, Split, least_enlargement};
use nandex::spatial::tree::update::{Grouping, adjust, neighbour, update_box};
use nandex::spatial::tree::{Operation, Path, by_measure};

pub(super) fn insert<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    rules: &ForRules,
    op: &mut Operation<'_, N>,
    entry: Entry<C, D>,
    level: u8,
) -> Result<(), IndexError> {
    let mut path: Path = Vec::with_capacity(usize::from(op.height));
    let (mut id, mut node) = (ROOT, op.nodes.read(ROOT, Cause::Host)?);
    while node.level > level {
        let slot = least_enlargement(node, &entry.rect);
        path.push((id, slot));
        let above = node.level;
        let Some(child) = node.entries[slot].child_id() else {
            let what = "a node above the leaves holds data";
            return Err(IndexError::broken(Invariant::S4, what, u64::from(id.0)));
        };
        id = child;
        node = read_child(op.nodes, child, above, Cause::Host)?;
    }
    path.push((id, 0));
    let depth = path.len() - 1;
    add(rules, op, &path, depth, vec![entry])
}

/// Adds entries to the node at `depth` of a path, and the entries of nodes made by that to its ancestors.
fn add<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    rules: &ForRules,
    op: &mut Operation<'_, N>,
    path: &Path,
    mut depth: usize,
    mut new: Vec<Entry<C, D>>,
) -> Result<(), IndexError> {
    loop {
        let id = path[depth].0;
        let Some(overfull) = add_where_room_is(op, id, &mut new)? else { return adjust(op, path, depth) };
        let divided = if op.is_narrow && depth > 0 {
            split_last_page(op, id, overfull)?
        } else {
            merge_back(rules, op, id, overfull)?
        };
        let Some(above) = divided else { return Ok(()) };
        depth -= 1;
        update_box(op, path[depth], id)?;
        new = above;
    }
}

/// Adds entries to a node until it must be divided. Then returns the entry to be added with the division.
fn add_where_room_is<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    op: &mut Operation<'_, N>,
    id: NodeId,
    new: &mut Vec<Entry<C, D>>,
) -> Result<Option<Vec<Entry<C, D>>>, IndexError> {
    while let Some(entry) = new.pop() {
        let node = op.nodes.read(id, Cause::Host)?;
        let (tag, at) = (Tag::of(node.tag), node.entries.len());
        if tag.is_sealed || (tag.is_due && !op.is_narrow) {
            new.push(entry);
            return Ok(Some(core::mem::take(new)));
        }
        op.nodes.change(id, Change::Add { at, entry })?;
    }
    Ok(None)
}

/// Divides the entries of a node, its overflow nodes and new ones among ordinary nodes. Returns the entries
/// for the parent. `None` if the node was the root; it then has a new root above it.
fn merge_back<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    rules: &ForRules,
    op: &mut Operation<'_, N>,
    id: NodeId,
    new: Vec<Entry<C, D>>,
) -> Result<Option<Vec<Entry<C, D>>>, IndexError> {
    let format = *op.nodes.format();
    let node = op.nodes.read(id, Cause::Host)?;
    let (level, overflow) = (node.level, usize::from(Tag::of(node.tag).overflow));
    let mut entries = node.entries.clone();
    entries.extend(new);
    let total = entries.len();
    let wanted = nodes_for(&format, level, overflow + 1, total);
    if overflow > 0 {
        op.counts.own[Figure::MergeBacks as usize] += 1;
        op.counts.own[Figure::MergedPages as usize] += overflow as u64 + 1;
    } else {
        op.counts.splits += 1;
    }
    let groups = if overflow == 0 && wanted == 2 {
        let (a, b) = Grouping::split(&Guttman { split: Split::Quadratic }, entries, format.fill_min(level));
        vec![a, b]
    } else {
        shared_out(rules.sharing, entries, wanted)
    };
    let mut nodes = groups.into_iter().map(|entries| Node::with(level, entries));
    let Some(first) = nodes.next() else { return Ok(Some(Vec::new())) };
    // Gives up the overflow nodes, whose pages the new nodes take.
    op.nodes.change(id, Change::Whole(first.clone()))?;
    if id == ROOT && wanted > 1 {
        let mut all = core::iter::once(first).chain(nodes);
        let first = all.by_ref().take(format.capacity(level + 1));
        op.raise_root(first.map(|node| (node, CurveKey::default())))?;
        let mut rest = Vec::new();
        for node in all {
            rest.extend(write_new(op, node)?);
        }
        return add(rules, op, &vec![(ROOT, 0)], 0, rest).map(|()| None);
    }
    let mut above = Vec::new();
    for node in nodes {
        above.extend(write_new(op, node)?);
    }
    Ok(Some(above))
}

/// Number of nodes for `entries` entries: as many as there are pages. Fewer if these would be too empty, one
/// if one node holds all, and more if the pages cannot hold all.
fn nodes_for(format: &NodeFormat, level: u8, pages: usize, entries: usize) -> usize {
    let needed = entries.div_ceil(format.capacity(level));
    if needed <= 1 { needed } else { pages.min(entries / format.fill_min(level)).max(needed) }
}

fn write_new<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    op: &mut Operation<'_, N>,
    node: Node<C, D>,
) -> Result<Option<Entry<C, D>>, IndexError> {
    let id = op.nodes.allocate()?;
    let entry = node.rect().map(|rect| Entry::child(rect, id));
    op.nodes.change(id, Change::Whole(node))?;
    Ok(entry)
}

fn shared_out<C: Coordinate, const D: usize>(
    sharing: Sharing,
    mut entries: Vec<Entry<C, D>>,
    groups: usize,
) -> Vec<Vec<Entry<C, D>>> {
    let around = Rect::around(entries.iter().map(|entry| &entry.rect));
    if let (Sharing::Sorted, Some(around)) = (sharing, around) {
        let longest = (0..D).max_by(|&a, &b| by_measure(&around.extent(a), &around.extent(b))).unwrap_or(0);
        let centre = |entry: &Entry<C, D>| entry.rect.centre()[longest];
        sort::by(&mut entries, |a, b| centre(a).order(&centre(b)));
    }
    let mut rest = &entries[..];
    let mut shares = Vec::with_capacity(groups);
    for left in (1..=groups).rev() {
        let (share, others) = rest.split_at(rest.len().div_ceil(left));
        shares.push(share.to_vec());
        rest = others;
    }
    shares
}

/// Splits the last page of a node with a new entry. Half of it becomes a node of its own. Returns the entry
/// for the parent.
fn split_last_page<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    op: &mut Operation<'_, N>,
    id: NodeId,
    new: Vec<Entry<C, D>>,
) -> Result<Option<Vec<Entry<C, D>>>, IndexError> {
    let format = *op.nodes.format();
    let node = op.nodes.read(id, Cause::Host)?;
    let (level, count, tag) = (node.level, node.entries.len(), Tag::of(node.tag));
    let from = count - format.capacity(level).min(count);
    let mut entries = node.entries[from..].to_vec();
    entries.extend(new);
    op.counts.splits += 1;
    let (stay, moved) =
        Grouping::split(&Guttman { split: Split::Quadratic }, entries, format.fill_min(level));
    if tag.overflow == 0 {
        op.nodes.change(id, Change::Whole(Node::with(level, stay)))?;
    } else {
        (from..count).rev().try_for_each(|at| op.nodes.change(id, Change::Remove { at }))?;
        for (at, entry) in (from..).zip(stay) {
            op.nodes.change(id, Change::Add { at, entry })?;
        }
    }
    Ok(Some(write_new(op, Node::with(level, moved))?.into_iter().collect()))
}

pub(super) fn remove<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    rules: &ForRules,
    op: &mut Operation<'_, N>,
    path: &Path,
) -> Result<(), IndexError> {
    let mut homeless = Vec::new();
    let (leaf, at) = path[path.len() - 1];
    let mut before = take_out(op, leaf, at)?;
    for depth in (0..path.len()).rev() {
        let id = path[depth].0;
        let node = op.nodes.read(id, Cause::Host)?;
        let (tag, level, count) = (Tag::of(node.tag), node.level, node.entries.len());
        let format = *op.nodes.format();
        let is_foldable = tag.overflow > 0 && count <= format.capacity(level);
        let lost_one = tag.overflow > 0 && tag.overflow < before.overflow;
        if is_foldable || ((tag.is_thin || lost_one) && depth > 0 && !op.is_narrow) {
            let Some(above) = merge_back(rules, op, id, Vec::new())? else { break };
            if depth > 0 {
                update_box(op, path[depth - 1], id)?;
                add(rules, op, path, depth - 1, above)?;
            }
            break;
        }
        if depth == 0 || count >= format.fill_min(level) {
            adjust(op, path, depth)?;
            break;
        }
        let gone = if op.is_narrow {
            mend(op, path, depth)?
        } else {
            let entries = &op.nodes.read(id, Cause::Host)?.entries;
            homeless.extend(entries.iter().map(|entry| (*entry, level)));
            true
        };
        if !gone {
            adjust(op, path, depth - 1)?;
            break;
        }
        op.counts.merges += 1;
        op.nodes.free(id);
        before = take_out(op, path[depth - 1].0, path[depth - 1].1)?;
    }
    op.counts.reinsertions += homeless.len() as u64;
    while let Some((entry, level)) = homeless.pop() {
        insert(rules, op, entry, level)?;
    }
    lower_root(rules, op)
}

/// Removes an entry from a node. Returns the node's tag before that.
fn take_out<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    op: &mut Operation<'_, N>,
    id: NodeId,
    at: usize,
) -> Result<Tag, IndexError> {
    let before = Tag::of(op.nodes.read(id, Cause::Host)?.tag);
    op.nodes.change(id, Change::Remove { at })?;
    Ok(before)
}

/// Merges a node that is too empty with a neighbour, or moves entries from there. For nodes without
/// overflow nodes. Returns whether the neighbour took all entries.
fn mend<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    op: &mut Operation<'_, N>,
    path: &Path,
    depth: usize,
) -> Result<bool, IndexError> {
    let (id, format) = (path[depth].0, *op.nodes.format());
    let node = op.nodes.read(id, Cause::Host)?;
    let (level, mut own) = (node.level, node.entries.clone());
    let (parent, at) = path[depth - 1];
    let Some((beside_at, beside)) = neighbour(op, parent, at, &own)? else { return Ok(false) };
    let lending = read_child(op.nodes, beside, level + 1, Cause::Host)?;
    let (count, overflow) = (lending.entries.len(), Tag::of(lending.tag).overflow);
    let is_taken_over = own.len() + count <= format.capacity(level);
    if is_taken_over {
        own.extend_from_slice(&lending.entries);
        op.nodes.change(beside, Change::Whole(Node::with(level, own)))?;
    } else if overflow == 0 {
        own.extend_from_slice(&lending.entries);
        op.counts.redistributions += 1;
        let (a, b) = Grouping::split(&Guttman { split: Split::Quadratic }, own, format.fill_min(level));
        op.nodes.change(id, Change::Whole(Node::with(level, a)))?;
        op.nodes.change(beside, Change::Whole(Node::with(level, b)))?;
    } else {
        op.counts.redistributions += 1;
        let lent = lending.entries[count - (format.fill_min(level) - own.len())..].to_vec();
        for at in (count - lent.len()..count).rev() {
            op.nodes.change(beside, Change::Remove { at })?;
        }
        own.extend(lent);
        op.nodes.change(id, Change::Whole(Node::with(level, own)))?;
    }
    update_box(op, (parent, beside_at), beside)?;
    if !is_taken_over {
        update_box(op, path[depth - 1], id)?;
    }
    Ok(is_taken_over)
}

/// Replaces the root by its only child, as long as it has only one. A child with overflow nodes is merged
/// back below the root.
fn lower_root<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    rules: &ForRules,
    op: &mut Operation<'_, N>,
) -> Result<(), IndexError> {
    loop {
        let root = op.nodes.read(ROOT, Cause::Host)?;
        let only = match &root.entries[..] {
            [entry] => entry.child_id(),
            _ => None,
        };
        let Some(child) = only else { return Ok(()) };
        let (above, format) = (root.level, *op.nodes.format());
        let only = read_child(op.nodes, child, above, Cause::Host)?;
        if only.entries.len() > format.capacity(only.level) {
            let path = vec![(ROOT, 0), (child, 0)];
            if let Some(new) = merge_back(rules, op, child, Vec::new())? {
                update_box(op, path[0], child)?;
                add(rules, op, &path, 0, new)?;
            }
            return Ok(());
        }
        let taken_over = only.clone();
        op.height = taken_over.level;
        op.nodes.free(child);
        op.nodes.change(ROOT, Change::Whole(taken_over))?;
    }
}
