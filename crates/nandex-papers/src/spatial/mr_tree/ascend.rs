//! The way up after a node of the MR-tree changed: boxes, heights, nodes that got empty, and the balance of
//! heights.

use super::family::{Family, Shape};
use super::{Balance, Figure, count, read_kin};
use alloc::vec::Vec;
use nandex::check::{IndexError, Invariant, Limit};
use nandex::nand::Cause;
use nandex::sort;
use nandex::spatial::coordinate::Coordinate;
use nandex::spatial::node::{Change, Entry, Node, NodeId, ROOT};
use nandex::spatial::nodes::Nodes;
use nandex::spatial::tree::{Operation, Path, by_measure};

/// How a removal balances, and the data that it must insert again.
pub(super) struct Homeless<C, const D: usize> {
    pub(super) balance: Balance,
    pub(super) data: Vec<Entry<C, D>>,
}

impl<C: Coordinate, const D: usize> Homeless<C, D> {
    /// For an insertion, which never leaves subtrees out of balance.
    pub(super) fn none() -> Homeless<C, D> {
        Homeless { balance: Balance::Adoption, data: Vec::new() }
    }
}

/// Updates box and height of the node at `depth` in the nodes above it, until nothing changes. A node
/// without entries is removed.
pub(super) fn ascend<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    op: &mut Operation<'_, N>,
    path: &Path,
    depth: usize,
    homeless: &mut Homeless<C, D>,
) -> Result<(), IndexError> {
    for above in (0..depth).rev() {
        let (id, slot) = path[above];
        let child = path[above + 1].0;
        let below = op.nodes.read(child, Cause::Host)?;
        let now = below.rect().map(|rect| (rect, below.level));
        if now.is_none() {
            op.counts.merges += 1;
            op.nodes.free(child);
        }
        let node = op.nodes.read(id, Cause::Host)?;
        let shape = Shape::of(id, node)?;
        let (entry, level) = (node.entries[slot], shape.child_level(slot));
        match now {
            Some((rect, level_now)) if level_now == level => {
                if rect == entry.rect {
                    return Ok(());
                }
                op.nodes.change(id, Change::Update { at: slot, entry: Entry { rect, ..entry } })?;
            }
            _ => {
                let mut family = Family::of(id, node)?;
                let at = slot - shape.data;
                family.children.remove(at);
                if let Some((rect, level)) = now {
                    family.children.insert(at, (Entry { rect, ..entry }, level));
                }
                if family.spread() > 1 {
                    balance(op, &mut family, at, homeless)?;
                }
                let rebuilt = if family.is_empty() { Node::new(1) } else { family.into_node() };
                op.nodes.change(id, Change::Whole(rebuilt))?;
            }
        }
    }
    op.height = op.nodes.read(ROOT, Cause::Host)?.level;
    if usize::from(op.height) > op.nodes.format().height_max() {
        Err(IndexError::Full(Limit::Height))
    } else {
        Ok(())
    }
}

/// Balances a node whose child at `at` is two levels lower than its highest child.
fn balance<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    op: &mut Operation<'_, N>,
    family: &mut Family<C, D>,
    at: usize,
    homeless: &mut Homeless<C, D>,
) -> Result<(), IndexError> {
    count(op, Figure::Balances);
    let low = family.children.remove(at);
    if family.spread() > 1 || family.children.iter().any(|(_, level)| *level <= low.1) {
        let at = low.0.child_id().map_or(0, |id| u64::from(id.0));
        return Err(IndexError::broken(Invariant::M2, "a subtree has another height than was told", at));
    }
    match homeless.balance {
        Balance::Reinsertion => dissolve(op, low, &mut homeless.data),
        Balance::Adoption => adopt(op, family, low),
    }
}

/// Frees the nodes of a subtree and collects its data.
fn dissolve<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    op: &mut Operation<'_, N>,
    (entry, level): (Entry<C, D>, u8),
    data: &mut Vec<Entry<C, D>>,
) -> Result<(), IndexError> {
    let mut open: Vec<(NodeId, u8)> = entry.child_id().map(|id| (id, level)).into_iter().collect();
    while let Some((id, level)) = open.pop() {
        let family = Family::of(id, read_kin(op, id, level)?)?;
        data.extend(family.data);
        open.extend(family.children.iter().filter_map(|(entry, level)| Some((entry.child_id()?, *level))));
        op.counts.merges += 1;
        op.nodes.free(id);
    }
    Ok(())
}

/// Moves a low subtree below a neighbour: the one with room whose box grows least. If none has room, the
/// subtree is exchanged for a tall child of the highest neighbour that grows least.
fn adopt<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    op: &mut Operation<'_, N>,
    family: &mut Family<C, D>,
    low: (Entry<C, D>, u8),
) -> Result<(), IndexError> {
    let format = *op.nodes.format();
    let growth = |entry: &Entry<C, D>| entry.rect.enlargement(&low.0.rect);
    let mut order: Vec<usize> = (0..family.children.len()).collect();
    sort::by(&mut order, |&a, &b| by_measure(&growth(&family.children[a].0), &growth(&family.children[b].0)));
    for &at in &order {
        let (entry, level) = family.children[at];
        let Some(id) = entry.child_id() else { continue };
        let node = read_kin(op, id, level)?;
        if Shape::of(id, node)?.has_room(&format) {
            let mut adopting = Family::of(id, node)?;
            adopting.children.push(low);
            return rewrite(op, family, at, adopting);
        }
        op.nodes.forget(id);
    }
    let highest = family.children.iter().map(|(_, level)| *level).max();
    let Some(at) = order.into_iter().find(|at| Some(family.children[*at].1) == highest) else {
        return Ok(());
    };
    let (entry, level) = family.children[at];
    let Some(id) = entry.child_id() else { return Ok(()) };
    let mut giving = Family::of(id, read_kin(op, id, level)?)?;
    // Tall children stand first.
    let given = core::mem::replace(&mut giving.children[0], low);
    rewrite(op, family, at, giving)?;
    family.children.push(given);
    Ok(())
}

fn rewrite<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    op: &mut Operation<'_, N>,
    family: &mut Family<C, D>,
    at: usize,
    child: Family<C, D>,
) -> Result<(), IndexError> {
    let node = child.into_node();
    let (entry, level) = &mut family.children[at];
    *level = node.level;
    if let (Some(rect), Some(id)) = (node.rect(), entry.child_id()) {
        entry.rect = rect;
        op.nodes.change(id, Change::Whole(node))?;
    }
    Ok(())
}
