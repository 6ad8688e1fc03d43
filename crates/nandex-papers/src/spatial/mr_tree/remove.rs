//! Removal from the MR-tree.

use super::ascend::{Homeless, ascend};
use super::family::Family;
use super::insert::{has_room_above, insert};
use super::{Balance, Figure, MrRules, count, least};
use alloc::vec::Vec;
use nandex::check::IndexError;
use nandex::nand::Cause;
use nandex::spatial::coordinate::Coordinate;
use nandex::spatial::node::{Change, Node};
use nandex::spatial::nodes::Nodes;
use nandex::spatial::tree::{Operation, Path};

pub(super) fn remove<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    rules: &MrRules,
    op: &mut Operation<'_, N>,
    path: &Path,
) -> Result<(), IndexError> {
    let depth = path.len() - 1;
    let (id, at) = path[depth];
    let mut family = Family::of(id, op.nodes.read(id, Cause::Host)?)?;
    let mut homeless = Homeless { balance: rules.balance, data: Vec::new() };
    if op.is_narrow {
        homeless.balance = Balance::Adoption;
    }
    op.nodes.change(id, Change::Remove { at })?;
    family.data.remove(at);
    let few = 1..least(op.nodes.format(), 1);
    let is_poor = family.children.is_empty() && few.contains(&family.data.len());
    if rules.is_selective && !op.is_narrow && depth > 0 && is_poor && has_room_above(op, path)? {
        count(op, Figure::SelectiveRemovals);
        homeless.data = family.data;
        op.nodes.change(id, Change::Whole(Node::new(1)))?;
    }
    ascend(op, path, depth, &mut homeless)?;
    op.lower_root()?;
    op.counts.reinsertions += homeless.data.len() as u64;
    homeless.data.into_iter().try_for_each(|entry| insert(op, entry))
}
