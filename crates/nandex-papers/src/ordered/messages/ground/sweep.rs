//! A sweep through the leaves of a tree: records waiting above a leaf are sent to it, and sparse leaves are
//! joined.

use super::node::{Layout, Node, NodeAt, Tally};
use super::record::Run;
use super::shadow::Shadow;
use alloc::vec::Vec;
use nandex::check::IndexError;
use nandex::nand::Cause;

/// A path down to the parent of a leaf: nodes, their units, and the slot of the next child in each. `low`
/// and `high` are the bounds of the parent's keys.
struct Path {
    steps: Vec<(Node, u32, usize)>,
    low: Option<Vec<u8>>,
    high: Option<Vec<u8>>,
}

impl Path {
    fn to(layout: &Layout, shadow: &mut Shadow<'_>, root: &Node, key: &[u8]) -> Result<Path, IndexError> {
        let (mut path, mut next) =
            (Path { steps: Vec::new(), low: None, high: None }, Some((root.clone(), 0)));
        while let Some((node, unit)) = next.take() {
            let slot = node.children.slot(key);
            if node.level > 2 {
                if slot > 0 {
                    path.low = Some(node.children.key(slot).into());
                }
                if slot + 1 < node.children.len() {
                    path.high = Some(node.children.key(slot + 1).into());
                }
                let (below, level) = (node.children.unit(slot), node.level - 1);
                next = Some((layout.read(shadow, below, level, Cause::Merge)?, below));
            }
            path.steps.push((node, unit, slot));
        }
        Ok(path)
    }

    /// Removes the messages for keys between two bounds from all nodes of the path, and merges them.
    fn take(&mut self, layout: &Layout, (low, high): (Option<&[u8]>, Option<&[u8]>)) -> Run {
        let mut batch = Run::new(layout.shape);
        for (node, _, _) in self.steps.iter_mut().rev() {
            let all = node.records.all();
            let from = low.map_or(0, |key| all.lower_bound(key));
            let to = high.map_or(all.len(), |key| all.lower_bound(key));
            let own = node.records.take(from..to.max(from));
            batch = batch.under(own.all(), true);
        }
        batch
    }
}

impl Layout {
    /// Sends all messages for the leaf of a key to it. Then joins it with the leaves after it in the same
    /// parent, as long as the result is at most seven eighths full. Returns the key where the next leaf
    /// begins.
    pub(in crate::ordered) fn sweep(
        &self,
        shadow: &mut Shadow<'_>,
        tally: &mut Tally,
        root: &mut Node,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, IndexError> {
        let layout = self;
        let mut path = Path::to(layout, shadow, root, key)?;
        let Some((parent, _, slot)) = path.steps.last() else { return Ok(None) };
        let (children, slot) = (parent.children.clone(), *slot);
        let mut leaf = layout.read(shadow, children.unit(slot), 1, Cause::Merge)?.records;
        let mut end = slot + 1;
        while end < children.len() {
            let next = layout.read(shadow, children.unit(end), 1, Cause::Merge)?.records;
            if leaf.len() + next.len() > layout.leaf_records * 7 / 8 {
                break;
            }
            leaf.push(&next.bytes);
            end += 1;
        }
        let low = if slot > 0 { Some(Vec::from(children.key(slot))) } else { path.low.clone() };
        let high = if end < children.len() { Some(Vec::from(children.key(end))) } else { path.high.clone() };
        let puts =
            |path: &Path| path.steps.iter().map(|(node, _, _)| node.records.all().puts() as i64).sum::<i64>();
        let before = puts(&path);
        let batch = path.take(layout, (low.as_deref(), high.as_deref()));
        tally.puts -= before - puts(&path);
        if batch.is_empty() && end == slot + 1 {
            return Ok(high);
        }
        for i in slot..end {
            Layout::release(shadow, tally, NodeAt { unit: children.unit(i), level: 1 });
        }
        let records = leaf.under(batch.all(), false);
        let mut written = layout.write_leaves(shadow, tally, records.all())?;
        for (i, (mut node, unit, slot)) in path.steps.into_iter().enumerate().rev() {
            if node.level == 2 {
                node.children.remove(slot + 1..end);
            }
            if i == 0 {
                *root = node;
                layout.settle((shadow, tally), root, slot, &written)?;
                break;
            }
            node.replace(slot, &written, shadow, tally);
            Layout::release(shadow, tally, NodeAt { unit, level: node.level });
            let vacant = (written.is_vacant && node.children.len() == 1).then_some(written.vacant_units);
            written = layout.write_above(shadow, tally, &node, vacant)?;
        }
        Ok(high)
    }
}
