//! The checker: walks the whole tree and compares every box with the union of the entries below it.

use super::Rules;
use crate::check::{CheckReport, IndexError, Invariant, message};
use crate::nand::Cause;
use crate::spatial::coordinate::Coordinate;
use crate::spatial::node::{Entry, NodeId, ROOT};
use crate::spatial::nodes::{Nodes, read_child, read_root};
use crate::store::StoreError;
use alloc::collections::BTreeSet;
use alloc::string::ToString;
use alloc::vec::Vec;

/// Node to visit. The second part is absent for the root; else it is the parent's entry for the node, the
/// parent's level, and the level that the node should have.
type Open<C, const D: usize> = (NodeId, Option<(Entry<C, D>, u8, u8)>);

/// Checks every node, and then the data of the node store besides the nodes.
pub(super) fn check<C: Coordinate, const D: usize, N: Nodes<C, D>, R: Rules<C, D>>(
    nodes: &mut N,
    rules: &R,
) -> Result<CheckReport, IndexError> {
    let mut report = CheckReport::default();
    let mut reached = BTreeSet::new();
    let mut open: Vec<Open<C, D>> = alloc::vec![(ROOT, None)];
    while let Some((id, parent)) = open.pop() {
        let at = u64::from(id.0);
        if !reached.insert(id) {
            report.violation(Invariant::S6, at, "the node has two parents".to_string());
            continue;
        }
        let read = match &parent {
            None => read_root(nodes, Cause::Check),
            Some((_, above, _)) => read_child(nodes, id, *above, Cause::Check),
        };
        let node = match read {
            Ok(node) => node,
            Err(IndexError::Corrupted { invariant, what, .. }) => {
                report.violation(invariant.unwrap_or(Invariant::S1), at, what.to_string());
                continue;
            }
            Err(IndexError::Store(error @ StoreError::Corrupted { .. })) => {
                report.violation(Invariant::S1, at, error.to_string());
                continue;
            }
            Err(error) => return Err(error),
        };
        report.nodes += 1;
        report.records += node.data_count() as u64;
        if let Some((entry, _, level)) = parent {
            if node.level != level {
                let found = message!("a node of level {} in the place of {level}", node.level);
                report.violation(Invariant::S5, at, found);
            }
            if node.rect() != Some(entry.rect) {
                let found = message!("{:?} is said to surround {:?}", entry.rect, node.rect());
                report.violation(Invariant::S3, at, found);
            }
            if rules.node_key(node) != entry.key {
                report.violation(Invariant::H1, at, "the parent tells another greatest place".to_string());
            }
        }
        rules.check_node(id, node, &mut report);
        for (slot, entry) in node.entries.iter().enumerate() {
            let Some(child) = entry.child_id() else { continue };
            open.push((child, Some((*entry, node.level, rules.child_level(node, slot)))));
        }
    }
    nodes.check(&reached, &mut report)?;
    Ok(report)
}
