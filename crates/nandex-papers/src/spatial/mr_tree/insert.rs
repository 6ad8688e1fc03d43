//! Insertion into the MR-tree: steps 1 to 4 of the module.

use super::ascend::{Homeless, ascend};
use super::family::{Division, Family, Shape};
use super::{Figure, count, least, read_kin, split};
use alloc::vec::Vec;
use nandex::check::IndexError;
use nandex::nand::Cause;
use nandex::spatial::coordinate::Coordinate;
use nandex::spatial::curve::CurveKey;
use nandex::spatial::geometry::Rect;
use nandex::spatial::measure::Measure;
use nandex::spatial::node::{Change, Entry, Node, NodeId, ROOT};
use nandex::spatial::nodes::Nodes;
use nandex::spatial::tree::update::update_box;
use nandex::spatial::tree::{Operation, Path, by_measure};

pub(super) fn insert<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    op: &mut Operation<'_, N>,
    entry: Entry<C, D>,
) -> Result<(), IndexError> {
    let path = descend(op, &entry.rect)?;
    let depth = path.len() - 1;
    let id = path[depth].0;
    let format = *op.nodes.format();
    let node = op.nodes.read(id, Cause::Host)?;
    let shape = Shape::of(id, node)?;
    if shape.has_room(&format) {
        op.nodes.change(id, Change::Add { at: shape.data, entry })?;
        return ascend(op, &path, depth, &mut Homeless::none());
    }
    let mut entries = node.entries.clone();
    entries.push(entry);
    let (stay, moved) = split(entries, least(&format, 1));
    op.counts.splits += 1;
    place_leaf(op, &path, Node::with(1, stay), Node::with(1, moved))
}

/// The path to the leaf, or half-leaf with room, for a new rectangle. The slot at its end has no meaning.
fn descend<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    op: &mut Operation<'_, N>,
    rect: &Rect<C, D>,
) -> Result<Path, IndexError> {
    let format = *op.nodes.format();
    let mut path = Vec::with_capacity(usize::from(op.height));
    let (mut id, mut node) = (ROOT, op.nodes.read(ROOT, Cause::Host)?);
    loop {
        let shape = Shape::of(id, node)?;
        let (data, children) = node.entries.split_at(shape.data);
        let growth = |entry: &Entry<C, D>| entry.rect.enlargement(rect);
        let chosen = children.iter().enumerate().min_by(|(_, a), (_, b)| {
            by_measure(&growth(a), &growth(b)).then_with(|| by_measure(&a.rect.area(), &b.rect.area()))
        });
        let Some((at, entry)) = chosen else {
            path.push((id, 0));
            return Ok(path);
        };
        if shape.is_half_leaf() && shape.has_room(&format) {
            let group = Rect::around(data.iter().map(|entry| &entry.rect));
            if group.is_some_and(|group| group.enlargement(rect).is_below(&growth(entry))) {
                path.push((id, 0));
                return Ok(path);
            }
        }
        let slot = shape.data + at;
        path.push((id, slot));
        let Some(child) = entry.child_id() else { return Ok(path) };
        id = child;
        node = read_kin(op, child, shape.child_level(slot))?;
    }
}

/// Writes the halves of the leaf at the end of a path, and finds a place for the second half.
fn place_leaf<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    op: &mut Operation<'_, N>,
    path: &Path,
    stay: Node<C, D>,
    moved: Node<C, D>,
) -> Result<(), IndexError> {
    let depth = path.len() - 1;
    let leaf = path[depth].0;
    if depth > 0 {
        let format = *op.nodes.format();
        let (parent, _) = path[depth - 1];
        let shape = shape_of(op, parent)?;
        if shape.is_half_leaf() && !shape.has_room(&format) {
            return convert(op, path, stay, moved);
        }
        if has_room_above(op, path)? || !may_grow(op, path)? {
            count(op, Figure::Propagations);
            op.nodes.change(leaf, Change::Whole(stay))?;
            let new = write_new(op, moved)?;
            return place(op, path, new, 1);
        }
    }
    count(op, Figure::HalfLeafMoves);
    let new = write_new(op, moved)?;
    let family = Family { data: stay.entries, children: Vec::from([(new, 1)]) };
    op.nodes.change(leaf, Change::Whole(family.into_node()))?;
    ascend(op, path, depth, &mut Homeless::none())
}

fn shape_of<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    op: &mut Operation<'_, N>,
    id: NodeId,
) -> Result<Shape, IndexError> {
    Shape::of(id, op.nodes.read(id, Cause::Host)?)
}

pub(super) fn has_room_above<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    op: &mut Operation<'_, N>,
    path: &Path,
) -> Result<bool, IndexError> {
    let format = *op.nodes.format();
    for (id, _) in &path[..path.len() - 1] {
        if shape_of(op, *id)?.has_room(&format) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the leaf at the end of a path may become a level higher. If the path leaves a node by a tall
/// child and the node has a short one too, it may not.
fn may_grow<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    op: &mut Operation<'_, N>,
    path: &Path,
) -> Result<bool, IndexError> {
    for (id, slot) in path[..path.len() - 1].iter().rev() {
        let shape = shape_of(op, *id)?;
        let is_short = shape.child_level(*slot) + 1 < shape.level;
        if is_short || shape.short > 0 {
            return Ok(is_short);
        }
    }
    Ok(usize::from(op.height) < op.nodes.format().height_max())
}

/// Writes a new node. Returns the entry for its parent.
fn write_new<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    op: &mut Operation<'_, N>,
    node: Node<C, D>,
) -> Result<Entry<C, D>, IndexError> {
    let rect = node.rect();
    assert!(rect.is_some(), "a new node without entries");
    let id = op.nodes.allocate()?;
    op.nodes.change(id, Change::Whole(node))?;
    rect.map(|rect| Entry::child(rect, id)).ok_or(IndexError::NO_BLOCK)
}

/// Makes the full half-leaf above a split leaf an internal node (*conversion*).
fn convert<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    op: &mut Operation<'_, N>,
    path: &Path,
    stay: Node<C, D>,
    moved: Node<C, D>,
) -> Result<(), IndexError> {
    count(op, Figure::Conversions);
    let format = *op.nodes.format();
    let depth = path.len() - 1;
    let ((id, slot), leaf) = (path[depth - 1], path[depth].0);
    let mut family = Family::of(id, op.nodes.read(id, Cause::Host)?)?;
    let at = slot - family.data.len();
    let data = core::mem::take(&mut family.data);
    let mut halves = [stay, moved];
    if data.len() >= least(&format, 1) {
        let new = write_new(op, Node::with(1, data))?;
        family.children.push((new, 1));
    } else {
        data.into_iter().for_each(|entry| hand_over(&mut halves, entry, format.capacity(1)));
    }
    let [stay, moved] = halves;
    if let Some(rect) = stay.rect() {
        family.children[at].0.rect = rect;
    }
    op.nodes.change(leaf, Change::Whole(stay))?;
    let new = write_new(op, moved)?;
    family.children.push((new, 1));
    op.nodes.change(id, Change::Whole(family.into_node()))?;
    ascend(op, path, depth - 1, &mut Homeless::none())
}

/// Adds an entry to a half with room; to the half whose box grows less if both have room.
fn hand_over<C: Coordinate, const D: usize>(
    halves: &mut [Node<C, D>; 2],
    entry: Entry<C, D>,
    capacity: usize,
) {
    let open = halves.iter_mut().filter(|half| half.entries.len() < capacity);
    let growth =
        |half: &Node<C, D>| half.rect().map_or(entry.rect.area(), |rect| rect.enlargement(&entry.rect));
    let chosen = open.min_by(|a, b| by_measure(&growth(a), &growth(b)));
    assert!(chosen.is_some(), "two halves of a leaf without room");
    if let Some(half) = chosen {
        half.entries.push(entry);
    }
}

/// Adds a new node as a sibling of the last node of a path, and divides full nodes above it.
fn place<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    op: &mut Operation<'_, N>,
    path: &Path,
    mut new: Entry<C, D>,
    mut level: u8,
) -> Result<(), IndexError> {
    let format = *op.nodes.format();
    for depth in (0..path.len() - 1).rev() {
        update_box(op, path[depth], path[depth + 1].0)?;
        let id = path[depth].0;
        let node = op.nodes.read(id, Cause::Host)?;
        let shape = Shape::of(id, node)?;
        let mut family = Family::of(id, node)?;
        if shape.has_room(&format) {
            if level + 1 == shape.level {
                op.nodes.change(id, Change::Add { at: shape.data + shape.tall, entry: new })?;
            } else {
                family.children.push((new, level));
                op.nodes.change(id, Change::Whole(family.into_node()))?;
            }
            return ascend(op, path, depth, &mut Homeless::none());
        }
        family.children.push((new, level));
        match family.divide(least(&format, shape.level)) {
            Division::Gathered { mut kept, below } => {
                count(op, Figure::Gatherings);
                let level = below.level;
                kept.children.push((write_new(op, below)?, level));
                op.nodes.change(id, Change::Whole(kept.into_node()))?;
                return ascend(op, path, depth, &mut Homeless::none());
            }
            Division::Halves(stay, moved) => {
                op.counts.splits += 1;
                if depth == 0 {
                    return op.raise_root([stay, moved].map(|node| (node, CurveKey::default())));
                }
                level = stay.level;
                op.nodes.change(id, Change::Whole(stay))?;
                new = write_new(op, moved)?;
            }
        }
    }
    Ok(())
}
