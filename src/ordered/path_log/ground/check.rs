//! Checker of the invariants R1 to R8: it walks over the whole tree.

use super::{Nodes, RawScheme, address, named_width};
use crate::check::{CheckReport, Invariant, message};
use crate::fault::IndexFault;
use crate::log::Tag;
use crate::nand::{Cause, Nand};
use crate::units::Ppn;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

struct Walk<'a, N, S> {
    nodes: &'a mut Nodes<N, S>,
    report: CheckReport,
    /// Pages reached, each with the lowest level at which it was reached.
    reached: BTreeMap<Ppn, u8>,
    /// Number of named places that map to another place.
    moved: usize,
}

/// Node to visit, and the bounds of its keys.
struct Visit {
    /// Page named by the parent.
    named: Ppn,
    level: u8,
    low: Option<Vec<u8>>,
    high: Option<Vec<u8>>,
    /// Width named by the parent's entry.
    width: Option<u8>,
}

impl<N: Nand, S: RawScheme> Nodes<N, S> {
    /// Checks all invariants. If valid bits are in doubt, more pages than the reached ones may be valid.
    pub(super) fn walk_all(&mut self) -> Result<CheckReport, IndexFault> {
        let top = Visit { named: self.root, level: self.path.height, low: None, high: None, width: None };
        let mut walk =
            Walk { nodes: self, report: CheckReport::default(), reached: BTreeMap::new(), moved: 0 };
        let mut todo = vec![top];
        while let Some(visit) = todo.pop() {
            walk.check_node(&visit, &mut todo)?;
        }
        walk.check_pages()?;
        walk.nodes.check_moves(walk.moved, &mut walk.report);
        Ok(walk.report)
    }
}

impl<N: Nand, S: RawScheme> Walk<'_, N, S> {
    fn check_node(&mut self, visit: &Visit, todo: &mut Vec<Visit>) -> Result<(), IndexFault> {
        let (height, level) = (self.nodes.path.height, visit.level);
        let ppn = if level < height { self.nodes.resolve(level, visit.named) } else { visit.named };
        let Nodes { log, path, moves, .. } = &mut *self.nodes;
        let page = log.read(ppn, Cause::Check)?;
        let (tag, at) = (page.tag, u64::from(ppn.0));
        let report = &mut self.report;
        report.nodes += 1;
        let reached = self.reached.entry(ppn).or_insert(level);
        *reached = level.min(*reached);
        if tag.layout >= path.scheme.layouts() {
            let found = message!("layout {} of {}", tag.layout, path.scheme.layouts());
            report.violation(Invariant::R7, at, found);
            return Ok(());
        }
        let shape = path.scheme.shape(tag.layout, level, height);
        let area = path.scheme.page_area(tag.layout, level, height);
        let overlaps =
            tag.lowest_level < level && path.scheme.page_area(tag.layout, level - 1, height).start < area.end;
        if overlaps || area.end > page.data.len() || shape.bytes() > area.len() {
            let found = message!("area {area:?} of level {level} in layout {}", tag.layout);
            report.violation(Invariant::R7, at, found);
            return Ok(());
        }
        let node = &page.data[area];
        let count = usize::from(tag.counts[usize::from(level) - 1]);
        if tag.lowest_level > level || count > shape.capacity {
            let found = message!("{count} entries at level {level} of page {:?}", tag);
            report.violation(Invariant::R1, at, found);
            return Ok(());
        }
        if let Some(i) = shape.first_unsorted(node, count) {
            report.violation(Invariant::R1, at, message!("key {i} at level {level} does not rise"));
        }
        let root_max = path.scheme.root_entries_max(tag.layout, height);
        if !filling(level, height, root_max).contains(&count) {
            let found = message!("{count} of {root_max} entries at level {level} of {height}");
            report.violation(Invariant::R3, at, found);
        }
        let width = path.width(level, &shape, node, count);
        if visit.width.is_some_and(|named| named != width)
            || (path.scheme.layouts() > 1 && !path.scheme.fits(width, (level, height), count))
        {
            let named = visit.width;
            let found = message!("{count} entries at level {level}, width {width}, {named:?} named");
            report.violation(Invariant::R8, at, found);
        }
        report.records += if level == 1 { count as u64 } else { 0 };
        if count > 0 {
            let (first, last) = (shape.key(node, 0), shape.key(node, count - 1));
            if visit.low.as_deref().is_some_and(|low| first < low)
                || visit.high.as_deref().is_some_and(|high| last >= high)
            {
                let found = message!("keys at level {level} leave the parent's bounds");
                report.violation(Invariant::R2, at, found);
            }
        }
        for i in 0..if level > 1 { count } else { 0 } {
            let high = if i + 1 < count { Some(shape.key(node, i + 1).to_vec()) } else { visit.high.clone() };
            let named = address::<S>(shape.value(node, i));
            self.moved += usize::from(moves.resolve(named) != named);
            let width = Some(named_width::<S>(shape.value(node, i)));
            // In a tree that maps moves, the first bound is the one that the parent has.
            let low =
                if S::MAPS_MOVES && i == 0 { visit.low.clone() } else { Some(shape.key(node, i).to_vec()) };
            todo.push(Visit { named, level: level - 1, low, high, width });
        }
        if level > tag.lowest_level && !(0..count).any(|i| address::<S>(shape.value(node, i)) == ppn) {
            let found = message!("the node at level {level} has no child in its page");
            report.violation(Invariant::R4, at, found);
        }
        Ok(())
    }

    fn check_pages(&mut self) -> Result<(), IndexFault> {
        for (&page, &level) in &self.reached {
            let tag: Tag = *self.nodes.log.read(page, Cause::Check)?.tag;
            if !self.nodes.log.is_valid(page) || tag.lowest_level != level {
                let found = message!("reached from level {level}, begins at {}", tag.lowest_level);
                self.report.violation(Invariant::R5, u64::from(page.0), found);
            }
        }
        self.check_counts();
        let (live, reached) = (self.nodes.log.live_pages(), self.reached.len() as u64);
        let bits_in_doubt = self.nodes.log.tape.has_bits_in_doubt();
        if live != reached && !(bits_in_doubt && live > reached) {
            let found = message!("{live} valid pages, {reached} that can be reached");
            self.report.violation(Invariant::R6, 0, found);
        }
        Ok(())
    }

    /// Checks R6 block by block, if valid pages are counted.
    fn check_counts(&mut self) {
        if !self.nodes.log.config().counts() {
            return;
        }
        let mut reached = BTreeMap::new();
        for &page in self.reached.keys() {
            *reached.entry(self.nodes.log.geometry().block_of(page)).or_insert(0) += 1;
        }
        for (block, reached) in reached {
            let counted = self.nodes.log.tape.valid_in(block);
            if counted < reached {
                let found = message!("{counted} valid pages counted, {reached} that can be reached");
                self.report.violation(Invariant::R6, u64::from(block.0), found);
            }
        }
    }
}

/// Numbers of entries that a node may have.
fn filling(level: u8, height: u8, root_max: usize) -> RangeInclusive<usize> {
    match level == height {
        true if level == 1 => 0..=root_max,
        true => 2..=root_max,
        false => 1..=usize::MAX,
    }
}
