//! The walk over the whole tree and its tables that checks invariants I1 to I7.

use super::IplTree;
use super::image::Node;
use super::slots::NO_BLOCK;
use super::store::ROOT;
use alloc::vec;
use alloc::vec::Vec;
use nandex::check::{CheckReport, IndexError, Invariant, message};
use nandex::nand::{Cause, Nand};
use nandex::units::Pbn;

/// A node to visit: its number, level, and the bounds above it.
struct Visit {
    id: u32,
    level: u8,
    low: Option<Vec<u8>>,
    high: Option<Vec<u8>>,
}

impl<N: Nand> IplTree<N> {
    pub(super) fn walk_all(&mut self) -> Result<CheckReport, IndexError> {
        let mut report = CheckReport::default();
        let mut reached = vec![false; self.store.places.slots.len()];
        let mut node = Node::default();
        let mut todo = vec![Visit { id: ROOT, level: self.height, low: None, high: None }];
        while let Some(visit) = todo.pop() {
            if core::mem::replace(&mut reached[visit.id as usize], true) {
                report.violation(Invariant::I3, u64::from(visit.id), "reached twice".into());
                continue;
            }
            self.store.load(visit.id, &mut node, Cause::Check)?;
            self.check_node(&visit, &node, &mut report, &mut todo);
        }
        self.check_places(&reached, &mut report);
        self.shrink_to_ram();
        self.check_blocks(&mut report);
        Ok(report)
    }

    fn check_node(&self, visit: &Visit, node: &Node, report: &mut CheckReport, todo: &mut Vec<Visit>) {
        let shapes = self.store.shapes();
        let shape = shapes.at(node.level);
        let at = u64::from(visit.id);
        report.nodes += 1;
        if node.level != visit.level {
            let found = message!("level {} under level {}", node.level, visit.level + 1);
            report.violation(Invariant::I2, at, found);
            return;
        }
        if let Some(i) = shape.first_unsorted(&node.bytes, node.count) {
            report.violation(Invariant::I1, at, message!("key {i} does not rise"));
        }
        if node.count == 0 && (visit.id != ROOT || node.level > 1) {
            report.violation(Invariant::I1, at, message!("empty at level {}", node.level));
        }
        if node.count > 0 {
            // The bound of a first child is not relied upon.
            let first = usize::from(node.level > 1 && node.count > 1);
            let (first, last) = (node.key(&shapes, first), node.key(&shapes, node.count - 1));
            let below =
                visit.low.as_deref().is_some_and(|low| first < low) && (node.level == 1 || node.count > 1);
            if below || visit.high.as_deref().is_some_and(|high| last >= high) {
                let found = message!("keys {first:?} to {last:?} leave {:?} to {:?}", visit.low, visit.high);
                report.violation(Invariant::I2, at, found);
            }
        }
        if node.level == 1 {
            report.records += node.count as u64;
            return;
        }
        for i in 0..node.count {
            let low = if i == 0 { visit.low.clone() } else { Some(node.key(&shapes, i).to_vec()) };
            let high =
                if i + 1 < node.count { Some(node.key(&shapes, i + 1).to_vec()) } else { visit.high.clone() };
            todo.push(Visit { id: node.child(&shapes, i), level: node.level - 1, low, high });
        }
    }

    fn check_places(&self, reached: &[bool], report: &mut CheckReport) {
        let store = &self.store.places;
        let mut live = vec![0u32; store.blocks.len()];
        for (id, (slot, &is_reached)) in store.slots.iter().zip(reached).enumerate() {
            if (slot.block != NO_BLOCK) != is_reached {
                report.violation(Invariant::I3, id as u64, message!("reached: {is_reached}, at {slot:?}"));
            }
            if let Some(count) = live.get_mut(slot.block as usize) {
                *count += 1;
            }
        }
        for (pbn, (block, &live)) in store.blocks.iter().zip(&live).enumerate() {
            if u32::from(block.live) != live {
                let found = message!("{} nodes counted, {live} there", block.live);
                report.violation(Invariant::I3, pbn as u64, found);
            }
        }
        let free = store.slots.iter().filter(|slot| slot.block == NO_BLOCK).count();
        if free != store.slots.free_count() {
            let found = message!("{free} numbers unused, {} known", store.slots.free_count());
            report.violation(Invariant::I3, 0, found);
        }
    }

    fn check_blocks(&self, report: &mut CheckReport) {
        use nandex::blocks::BlockState::Open;
        let (store, form) = (&self.store, &self.store.medium.form);
        for pbn in (0..form.geometry.blocks).map(Pbn) {
            let block = &store.places[pbn];
            let (at, open) = (u64::from(pbn.0), store.space.table.state(pbn) == Open);
            let held = store.places.held.contains(&pbn);
            // Where a mount finds no room to write, what it would erase stays.
            let is_left = store.space.read_only && open;
            if open != (block.live > 0 || held) && !is_left {
                let found = message!("open: {open}, {} nodes, held: {held}", block.live);
                report.violation(Invariant::I4, at, found);
            }
            if u32::from(block.live) > form.nodes_limit() {
                report.violation(Invariant::I6, at, message!("{} nodes", block.live));
            }
            let waits = store.queues.has(pbn);
            let has_room = store.room(pbn) > 0 || store.space.failed.contains(&pbn);
            if waits && (block.live == 0 || !has_room) {
                report.violation(Invariant::I6, at, message!("records wait, {} units left", store.room(pbn)));
            }
        }
        if store.numbers.committed > store.numbers.sequence {
            let found = message!("committed beyond {}", store.numbers.sequence);
            report.violation(Invariant::I7, store.numbers.committed, found);
        }
        if store.config.ram_bytes.is_some_and(|ram| self.ram_held() > ram) {
            report.violation(Invariant::I7, 0, message!("{} bytes of RAM held", self.ram_held()));
        }
    }
}
