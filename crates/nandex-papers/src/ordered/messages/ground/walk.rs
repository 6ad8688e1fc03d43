//! Walks over nodes and what waits for them, claims at mount, checks, and the building of a tree from sorted
//! records.

use super::children::Children;
use super::node::{Layout, Node, Tally};
use super::record::{PUT, Records, Run};
use super::shadow::{NONE, Shadow};
use super::{Ascending, Bounds};
use alloc::string::ToString;
use core::ops::{Bound, ControlFlow, RangeBounds};
use nandex::check::{CheckReport, IndexError, Invariant};
use nandex::nand::Cause;
use nandex::ordered::{Direction, Visit};
use nandex::store::PageStore;

/// The part of a tree that is to be visited, and how.
pub(in crate::ordered) struct Tour<'a, 'v> {
    pub(in crate::ordered) bounds: Bounds<'a>,
    pub(in crate::ordered) direction: Direction,
    pub(in crate::ordered) visit: Visit<'v>,
}

impl Tour<'_, '_> {
    /// Visits the values among records, newer ones first where two are of a key.
    fn show(&mut self, newer: Records<'_>, older: Records<'_>) -> ControlFlow<()> {
        let (newer, older) = (newer.slice(newer.within(self.bounds)), older.slice(older.within(self.bounds)));
        let (mut flow, key) = (ControlFlow::Continue(()), newer.shape.key);
        newer.merge(older, self.direction, &mut |record| {
            if record[0] == PUT {
                flow = (self.visit)(&record[1..=key], &record[1 + key..]);
            }
            flow.is_continue()
        });
        flow
    }

    /// Visits a node and what is below it, under newer records.
    pub(in crate::ordered) fn walk<S: PageStore>(
        &mut self,
        layout: &Layout,
        shadow: &mut Shadow<S>,
        node: &Node,
        newer: Records<'_>,
    ) -> Result<ControlFlow<()>, IndexError> {
        if node.level == 1 {
            return Ok(self.show(newer, node.records.all()));
        }
        let all = node.records.under(newer, true);
        let slot = |bound: Bound<&[u8]>, otherwise| match bound {
            Bound::Included(key) | Bound::Excluded(key) => node.children.slot(key),
            Bound::Unbounded => otherwise,
        };
        let (first, last) = (slot(self.bounds.0, 0), slot(self.bounds.1, node.children.len() - 1));
        for i in first..=last {
            let at = if self.direction == Direction::Ascending { i } else { last - (i - first) };
            let waiting = all.all().slice(node.children.records_of(at, all.all()));
            let child = layout.read(shadow, node.children.unit(at), node.level - 1, Cause::Host)?;
            if self.walk(layout, shadow, &child, waiting)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl Layout {
    /// Claims the nodes below one that is in RAM, and counts them.
    pub(in crate::ordered) fn claim_below<S: PageStore>(
        &self,
        shadow: &mut Shadow<S>,
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

    /// Checks the nodes below one: every key within its bounds, and what they come to.
    pub(in crate::ordered) fn check_below<S: PageStore>(
        &self,
        shadow: &mut Shadow<S>,
        report: &mut CheckReport,
        node: &Node,
        bounds: Bounds<'_>,
    ) -> Result<Tally, IndexError> {
        report.nodes += 1;
        let puts = if node.level == 1 { 0 } else { node.records.all().puts() as i64 };
        let mut tally = Tally { puts, ..Tally::default() };
        for slot in 0..node.children.len() {
            let unit = node.children.unit(slot);
            let low = if slot == 0 { bounds.0 } else { Bound::Included(node.children.key(slot)) };
            let is_last = slot + 1 == node.children.len();
            let high = if is_last { bounds.1 } else { Bound::Excluded(node.children.key(slot + 1)) };
            let child = self.read(shadow, unit, node.level - 1, Cause::Check)?;
            let (all, own) = (child.records.all(), &child.children);
            let mut keys = (0..all.len()).map(|i| all.key(i)).chain((1..own.len()).map(|i| own.key(i)));
            if !keys.all(|key| (low, high).contains(key)) {
                let found = "a key beyond the bounds of its node".to_string();
                report.violation(Invariant::T2, unit.into(), found);
            }
            let below = self.check_below(shadow, report, &child, (low, high))?;
            tally.leaves += below.leaves + i64::from(child.level == 1);
            tally.inner += below.inner + i64::from(child.level > 1);
            tally.puts += below.puts;
        }
        Ok(tally)
    }

    /// Builds a tree of full leaves from sorted records; returns its root, which is not written.
    pub(in crate::ordered) fn build<S: PageStore>(
        &self,
        shadow: &mut Shadow<S>,
        tally: &mut Tally,
        records: &mut Ascending<'_, '_, '_>,
    ) -> Result<Node, IndexError> {
        let mut levels: alloc::vec::Vec<Children> = alloc::vec::Vec::new();
        let mut run = Run::new(self.shape);
        while records.next_into(&mut run)? {
            if run.len() > self.leaf_records {
                let full = run.take(0..self.leaf_records);
                let written = self.write_leaves(shadow, tally, full.all())?.children;
                self.announce(shadow, tally, &mut levels, &written)?;
            }
        }
        if levels.is_empty() {
            return Ok(Node { records: run, ..Node::leaf(self.shape) });
        }
        let written = self.write_leaves(shadow, tally, run.all())?.children;
        self.announce(shadow, tally, &mut levels, &written)?;
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

    /// Tells the level above the leaves of a node; a full node there is written first, and told of in turn.
    fn announce<S: PageStore>(
        &self,
        shadow: &mut Shadow<S>,
        tally: &mut Tally,
        levels: &mut alloc::vec::Vec<Children>,
        written: &Children,
    ) -> Result<(), IndexError> {
        let (mut key, mut unit, mut level) = (alloc::vec::Vec::from(written.key(0)), written.unit(0), 0);
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
