//! Walks over nodes and their waiting records, claims of units at a mount, checks, and building a tree from
//! sorted records.

use super::Ascending;
use super::children::Children;
use super::node::{Layout, Node, Tally};
use super::record::{PUT, Records, Run};
use super::shadow::{NONE, Shadow};
use alloc::string::ToString;
use core::ops::{Bound, ControlFlow};
use nandex::check::{CheckReport, IndexError, Invariant};
use nandex::nand::Cause;
use nandex::ordered::{Direction, Tour};

/// Visits the values among records, in order. Newer records replace older ones of the same key.
fn show(tour: &mut Tour<'_, '_>, newer: Records<'_>, older: Records<'_>) -> ControlFlow<()> {
    let (newer, older) = (newer.slice(newer.within(tour.bounds)), older.slice(older.within(tour.bounds)));
    let (mut flow, key) = (ControlFlow::Continue(()), newer.shape.key);
    newer.merge(older, tour.direction, &mut |record| {
        if record[0] == PUT {
            flow = (tour.visit)(&record[1..=key], &record[1 + key..]);
        }
        flow.is_continue()
    });
    flow
}

impl Layout {
    /// Visits a node and everything below it. Newer records replace those found.
    pub(in crate::ordered) fn walk(
        &self,
        shadow: &mut Shadow<'_>,
        node: &Node,
        newer: Records<'_>,
        tour: &mut Tour<'_, '_>,
    ) -> Result<ControlFlow<()>, IndexError> {
        if node.level == 1 {
            return Ok(show(tour, newer, node.records.all()));
        }
        let all = node.records.under(newer, true);
        let slot = |bound: Bound<&[u8]>, otherwise| match bound {
            Bound::Included(key) | Bound::Excluded(key) => node.children.slot(key),
            Bound::Unbounded => otherwise,
        };
        let (first, last) = (slot(tour.bounds.0, 0), slot(tour.bounds.1, node.children.len() - 1));
        for i in first..=last {
            let at = if tour.direction == Direction::Ascending { i } else { last - (i - first) };
            let waiting = all.all().slice(node.children.records_of(at, all.all()));
            let child = self.read(shadow, node.children.unit(at), node.level - 1, Cause::Host)?;
            if self.walk(shadow, &child, waiting, tour)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Claims and counts the nodes below one that is in RAM.
    pub(in crate::ordered) fn claim_below(
        &self,
        shadow: &mut Shadow<'_>,
        tally: &mut Tally,
        node: &Node,
    ) -> Result<(), IndexError> {
        for slot in 0..node.children.len() {
            let unit = node.children.unit(slot);
            shadow.units.claim(unit)?;
            if node.level == 2 {
                tally.leaves += 1;
                continue;
            }
            tally.inner += 1;
            let child = self.read(shadow, unit, node.level - 1, Cause::Recovery)?;
            tally.puts += child.records.all().puts() as i64;
            self.claim_below(shadow, tally, &child)?;
        }
        Ok(())
    }

    /// Checks the nodes below a node: keys within bounds, and the counts.
    pub(in crate::ordered) fn check_below(
        &self,
        shadow: &mut Shadow<'_>,
        report: &mut CheckReport,
        node: (&Node, u32),
        bounds: (Option<&[u8]>, Option<&[u8]>),
    ) -> Result<Tally, IndexError> {
        let ((node, unit), all) = (node, node.0.records.all());
        let inside =
            |key: &[u8]| bounds.0.is_none_or(|low| low <= key) && bounds.1.is_none_or(|high| key < high);
        report.nodes += 1;
        let keys =
            (0..all.len()).map(|i| all.key(i)).chain((1..node.children.len()).map(|i| node.children.key(i)));
        if !keys.into_iter().all(inside) {
            report.violation(Invariant::T2, unit.into(), "a key beyond the bounds of its node".to_string());
        }
        let mut tally =
            Tally { puts: if node.level == 1 { 0 } else { all.puts() as i64 }, ..Tally::default() };
        for slot in 0..node.children.len() {
            let unit = node.children.unit(slot);
            let low = if slot == 0 { bounds.0 } else { Some(node.children.key(slot)) };
            let high =
                if slot + 1 == node.children.len() { bounds.1 } else { Some(node.children.key(slot + 1)) };
            let child = self.read(shadow, unit, node.level - 1, Cause::Check)?;
            let below = self.check_below(shadow, report, (&child, unit), (low, high))?;
            tally.leaves += below.leaves + i64::from(child.level == 1);
            tally.inner += below.inner + i64::from(child.level > 1);
            tally.puts += below.puts;
        }
        Ok(tally)
    }

    /// Builds a tree of full leaves from sorted records. Returns its root, which is not written yet.
    pub(in crate::ordered) fn build(
        &self,
        shadow: &mut Shadow<'_>,
        tally: &mut Tally,
        records: &mut Ascending<'_, '_>,
    ) -> Result<Node, IndexError> {
        let mut levels: alloc::vec::Vec<Children> = alloc::vec::Vec::new();
        let mut run = Run::new(self.shape);
        while records.next_into(&mut run)? {
            if run.len() > self.leaf_records {
                let full = run.take(0..self.leaf_records);
                let written = self.write_leaves(shadow, tally, full.all())?.children;
                self.announce(shadow, tally, &mut levels, (written.key(0), written.unit(0)))?;
            }
        }
        if levels.is_empty() {
            return Ok(Node { records: run, ..Node::leaf(self.shape) });
        }
        let written = self.write_leaves(shadow, tally, run.all())?.children;
        self.announce(shadow, tally, &mut levels, (written.key(0), written.unit(0)))?;
        let mut level = 0;
        loop {
            let children = core::mem::replace(&mut levels[level], Children::new(self.shape.key));
            let node = Node { level: level as u8 + 2, children, records: Run::new(self.shape) };
            level += 1;
            if level == levels.len() {
                return Ok(node);
            }
            let written = self.write_inner(shadow, tally, &node)?.children;
            levels[level].push(written.key(0), written.unit(0));
            // One more than fits splits in halves, at the top or where the level above is written.
        }
    }

    /// Adds a new leaf to the level above the leaves. If the node there is full, it is written first and
    /// added to the level above it.
    fn announce(
        &self,
        shadow: &mut Shadow<'_>,
        tally: &mut Tally,
        levels: &mut alloc::vec::Vec<Children>,
        (key, unit): (&[u8], u32),
    ) -> Result<(), IndexError> {
        let (mut key, mut unit, mut level) = (alloc::vec::Vec::from(key), unit, 0);
        while unit != NONE {
            if level == levels.len() {
                levels.push(Children::new(self.shape.key));
            }
            let mut above = NONE;
            let mut bound = alloc::vec::Vec::new();
            if levels[level].len() == self.fanout - 1 {
                let children = core::mem::replace(&mut levels[level], Children::new(self.shape.key));
                let node = Node { level: level as u8 + 2, children, records: Run::new(self.shape) };
                let written = self.write_inner(shadow, tally, &node)?.children;
                above = written.unit(0);
                bound = written.key(0).into();
            }
            levels[level].push(&key, unit);
            (key, unit, level) = (bound, above, level + 1);
        }
        Ok(())
    }
}
