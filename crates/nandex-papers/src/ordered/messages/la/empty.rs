//! Emptying buffers into lower buffers or leaves, creating and dividing buffers, and walks down through
//! buffers and nodes.

use super::buffer::{Buffer, touched};
use super::{Floor, La, LaConfig, LaCounts};
use crate::ordered::messages::ground::{
    Layout, Node, NodeAt, Run, Shadow, Slice, StorePages, Tally, Tour, Written, commit, make_room,
};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Bound, ControlFlow};
use nandex::check::IndexError;
use nandex::nand::Cause;
use nandex::ordered::Direction;

/// Nodes that were split: the level, and the key at which the new node begins.
pub(super) type Splits = Vec<(u8, Vec<u8>)>;

fn apply(
    layout: &Layout,
    (shadow, tally): (&mut Shadow<'_>, &mut Tally),
    NodeAt { unit, level }: NodeAt,
    records: Slice<'_>,
    splits: &mut Splits,
) -> Result<Written, IndexError> {
    let mut node = layout.read(shadow, unit, level, Cause::Merge)?;
    Layout::release(shadow, tally, NodeAt { unit, level });
    if level == 1 {
        return layout.write_leaves(shadow, tally, node.records.under(records, false).all());
    }
    let vacant = apply_below(layout, (shadow, tally), &mut node, records, splits)?;
    layout.write_above(shadow, tally, &node, vacant)
}

/// Applies records to the leaves below a node in RAM. If its only child is vacant, returns the units of
/// that child.
fn apply_below(
    layout: &Layout,
    (shadow, tally): (&mut Shadow<'_>, &mut Tally),
    node: &mut Node,
    records: Slice<'_>,
    splits: &mut Splits,
) -> Result<Option<Vec<u32>>, IndexError> {
    debug_assert!(node.level > 1, "L1: nothing lies below a leaf");
    let mut vacant = None;
    for slot in (0..node.children.len()).rev() {
        let own = records.slice(node.children.records_of(slot, records));
        if own.is_empty() {
            continue;
        }
        let child = NodeAt { unit: node.children.unit(slot), level: node.level - 1 };
        let written = apply(layout, (&mut *shadow, &mut *tally), child, own, splits)?;
        for i in 1..written.children.len() {
            splits.push((node.level - 1, written.children.key(i).into()));
        }
        node.replace(slot, &written, shadow, tally);
        vacant = (written.is_vacant && node.children.len() == 1).then_some(written.vacant_units);
    }
    Ok(vacant)
}

impl La {
    pub(super) fn over(config: &LaConfig, layout: Layout, pages: StorePages) -> La {
        let top = Buffer::new(layout.shape, vec![0; layout.shape.key]);
        La {
            layout,
            config: *config,
            page_records: Buffer::page_records(layout.shape, pages.bytes),
            fragment_records: config.fragments(pages),
            root: Node::leaf(layout.shape),
            floors: vec![Floor { level: u8::MAX, buffers: vec![top] }],
            tally: Tally::default(),
            is_drained: false,
            may_repeat: false,
            counts: LaCounts::default(),
        }
    }

    pub(super) fn count_puts(&mut self) {
        self.tally.puts = self.floors.iter().flat_map(|floor| &floor.buffers).map(Buffer::all_puts).sum();
        self.may_repeat &= self.tally.puts > 0;
    }

    pub(super) fn fragments(&self) -> usize {
        self.floors.iter().flat_map(|floor| &floor.buffers).map(|buffer| buffer.fragment.len()).sum()
    }

    /// Largest number of pages needed to apply `records` records.
    pub(super) fn portion_units(&self, records: usize) -> u64 {
        let puts = records as i64;
        let (rises, is_flat) =
            (self.layout.may_rise(puts, &self.root), self.layout.is_flat(puts, &self.root));
        let (records, leaf) = (records as u64, self.layout.leaf_records as u64);
        let height = u64::from(self.root.level) + u64::from(rises);
        let (leaves, inner) = (self.tally.leaves.max(1) as u64, self.tally.inner as u64);
        let parts = 5 * records / leaf + 2;
        let touched = records.min(leaves) + parts;
        // The root is in RAM: where it has room for all that comes of its leaves, no other node is written.
        let above = if is_flat { 0 } else { (touched * height).min(inner + touched + height) };
        touched * 2 + above + 2 * height
    }

    /// Whether there are pages to bring a removal to its leaf.
    pub(super) fn has_room_to_remove(&self, shadow: &Shadow<'_>) -> bool {
        self.root.level == 1 || u64::from(shadow.units.free_after_commit()) >= self.portion_units(1) + 2
    }

    /// Whether there are pages for everything that one more record can lead to (L4).
    pub(super) fn has_room(&self, shadow: &Shadow<'_>, spare: u32) -> bool {
        let growth = self.layout.growth(&self.tally, self.tally.puts + 1, &self.root);
        let wanted = self.portion_units(1) + u64::from(growth) + u64::from(spare) + 2;
        u64::from(shadow.units.free_after_commit()) >= wanted
    }

    /// Whether there are pages to bring a record to its leaf, and L4 holds with one more value that adds no
    /// node. It splits nothing, but is counted among the records that may.
    pub(super) fn has_room_in_leaf(&self, shadow: &Shadow<'_>) -> bool {
        let growth = self.layout.growth(&self.tally, self.tally.puts + 1, &self.root);
        self.has_room_to_remove(shadow) && shadow.units.free_after_commit() >= growth
    }

    /// Makes sure that one more value has room, by draining if needed.
    pub(super) fn make_room_to_put(&mut self, shadow: &mut Shadow<'_>) -> Result<(), IndexError> {
        if self.has_room(shadow, 0) {
            return Ok(());
        }
        if self.is_drained {
            return Err(IndexError::NO_BLOCK);
        }
        self.drain(shadow)?;
        if self.has_room(shadow, shadow.units.count() / 64) {
            return Ok(());
        }
        self.is_drained = true;
        Err(IndexError::NO_BLOCK)
    }

    /// Empties all buffers into the leaves, from the bottom up, and joins leaves that are far from full.
    pub(super) fn drain(&mut self, shadow: &mut Shadow<'_>) -> Result<(), IndexError> {
        let lowest = |tree: &La| {
            let floors = tree.floors.iter().enumerate().rev();
            floors
                .filter_map(|(i, floor)| Some((i, floor.buffers.iter().position(|b| !b.is_empty())?)))
                .next()
        };
        while let Some(at) = lowest(self) {
            self.apply_buffer(shadow, at)?;
        }
        let mut from = Some(vec![0; self.layout.shape.key]);
        while let Some(key) = from.filter(|_| self.root.level > 1) {
            make_room(shadow, self, self.portion_units(1) as u32)?;
            let (layout, mut root, mut tally) = (self.layout, self.root.clone(), self.tally);
            from = shadow.attempt(|shadow| layout.sweep(shadow, &mut tally, &mut root, &key))?;
            (self.root, self.tally) = (root, tally);
        }
        Ok(())
    }

    /// Empties a buffer, and lower buffers that become full.
    pub(super) fn empty(&mut self, shadow: &mut Shadow<'_>, at: (usize, usize)) -> Result<(), IndexError> {
        let mut due = vec![at];
        while let Some((floor, slot)) = due.pop() {
            if floor + 1 == self.floors.len() {
                self.apply_buffer(shadow, (floor, slot))?;
            } else {
                due.extend(self.distribute(shadow, (floor, slot))?);
            }
            // Floors may have been added or divided.
            if due
                .iter()
                .any(|(floor, slot)| self.floors.get(*floor).is_none_or(|floor| floor.buffers.len() <= *slot))
            {
                break;
            }
        }
        Ok(())
    }

    /// Sends the records of a buffer to the buffers below. Returns the lower buffers that are full then.
    pub(super) fn distribute(
        &mut self,
        shadow: &mut Shadow<'_>,
        (floor, slot): (usize, usize),
    ) -> Result<Vec<(usize, usize)>, IndexError> {
        let (records, units) = self.floors[floor].buffers[slot].collect(shadow, Cause::Merge)?;
        let mut below = self.floors[floor + 1].clone();
        let others = self.fragments() - self.floors[floor].buffers[slot].fragment.len();
        let others = others - below.buffers.iter().map(|buffer| buffer.fragment.len()).sum::<usize>();
        let pages = records.len() / self.page_records + below.buffers.len() + 2;
        let growth = self.layout.growth(&self.tally, self.tally.puts, &self.root);
        let spare = (pages as u64) + self.portion_units(1) + u64::from(growth);
        if u64::from(shadow.units.free_after_commit()) < spare {
            self.drain(shadow)?;
            return Ok(Vec::new());
        }
        make_room(shadow, self, pages as u32)?;
        let (page_records, most, mut written, mut partial) = (self.page_records, self.fragment_records, 0, 0);
        shadow.attempt(|shadow| {
            for i in 0..below.buffers.len() {
                let own = records.all().slice(below.records_of(i, records.all()));
                let buffer = &mut below.buffers[i];
                buffer.fragment = buffer.fragment.under(own, true);
                while buffer.fragment.len() >= page_records {
                    buffer.append(shadow, page_records)?;
                    written += 1;
                }
            }
            // Fragments that are too many for the RAM go as they are, the largest first.
            let held = |below: &Floor| others + below.buffers.iter().map(|b| b.fragment.len()).sum::<usize>();
            while held(&below) > most {
                let Some(largest) = below.buffers.iter_mut().max_by_key(|b| b.fragment.len()) else { break };
                match largest.fragment.len() {
                    0 => break,
                    count => largest.append(shadow, count)?,
                }
                partial += 1;
            }
            units.iter().for_each(|unit| shadow.units.release(*unit));
            Ok(())
        })?;
        self.counts.chain_pages += written + partial;
        self.counts.partial_pages += partial;
        self.floors[floor + 1] = below;
        self.floors[floor].buffers[slot].reset();
        self.count_puts();
        let full = |(_, buffer): &(usize, &Buffer)| buffer.pages >= self.config.buffer_pages;
        let below = self.floors[floor + 1].buffers.iter().enumerate();
        Ok(below.filter(full).map(|(i, _)| (floor + 1, i)).collect())
    }

    /// Applies the records of a buffer to the leaves. No buffer below may have any of its keys.
    pub(super) fn apply_buffer(
        &mut self,
        shadow: &mut Shadow<'_>,
        (floor, slot): (usize, usize),
    ) -> Result<(), IndexError> {
        let (records, units) = self.floors[floor].buffers[slot].collect(shadow, Cause::Merge)?;
        let (mut from, mut splits, was) = (0, Vec::new(), self.root.level);
        while from < records.len() {
            let mut count = records.len() - from;
            if self.portion_units(count) > u64::from(shadow.units.free_now()) {
                commit(shadow, self)?;
            }
            while count > 1 && self.portion_units(count) > u64::from(shadow.units.free_now()) {
                count /= 2;
            }
            self.apply_portion(shadow, records.all().slice(from..from + count), &mut splits)?;
            from += count;
        }
        shadow.attempt(|shadow| {
            units.iter().for_each(|unit| shadow.units.release(*unit));
            Ok(())
        })?;
        self.floors[floor].buffers[slot].reset();
        self.count_puts();
        self.divide(splits);
        for level in was..self.root.level {
            self.add_floor(level);
        }
        Ok(())
    }

    pub(super) fn apply_portion(
        &mut self,
        shadow: &mut Shadow<'_>,
        records: Slice<'_>,
        splits: &mut Splits,
    ) -> Result<(), IndexError> {
        let (layout, mut root, mut tally) = (self.layout, self.root.clone(), self.tally);
        shadow.attempt(|shadow| {
            if root.level > 1 {
                apply_below(&layout, (&mut *shadow, &mut tally), &mut root, records, splits)?;
            } else {
                let all = root.records.under(records, false);
                if all.len() <= layout.leaf_records {
                    root.records = all;
                    return Ok(());
                }
                let children = layout.write_leaves(shadow, &mut tally, all.all())?.children;
                root = Node { level: 2, children, records: Run::new(layout.shape) };
            }
            layout.settle_root(shadow, &mut tally, &mut root)
        })?;
        (self.root, self.tally) = (root, tally);
        self.counts.portions += 1;
        Ok(())
    }

    pub(super) fn buffers(&self) -> usize {
        self.floors.iter().map(|floor| floor.buffers.len()).sum()
    }

    /// Adds a floor for subtrees whose roots have this level. Nothing happens if no subtree has a root
    /// there or the floor exists.
    pub(super) fn add_floor(&mut self, level: u8) {
        let is_there = self.floors.iter().any(|floor| floor.level == level);
        if u32::from(level) % self.config.subtree_levels != 0 || is_there || level >= self.root.level {
            return;
        }
        let lowest = Buffer::new(self.layout.shape, vec![0; self.layout.shape.key]);
        let at = self.floors.partition_point(|floor| floor.level > level);
        self.floors.insert(at, Floor { level, buffers: vec![lowest] });
        if self.root.level == level + 1 {
            let keys = (1..self.root.children.len()).map(|i| (level, self.root.children.key(i).into()));
            self.divide(keys.collect());
        }
    }

    /// Divides buffers whose subtrees were split, if they are empty (L3).
    pub(super) fn divide(&mut self, splits: Splits) {
        for (level, key) in splits {
            if self.buffers() >= self.config.buffers_max as usize {
                return;
            }
            let Some(floor) = self.floors.iter_mut().find(|floor| floor.level == level) else { continue };
            let slot = floor.slot(&key);
            if floor.buffers[slot].low != key && floor.buffers[slot].is_empty() {
                floor.buffers.insert(slot + 1, Buffer::new(self.layout.shape, key));
            }
        }
    }

    /// The estimated cost of emptying a buffer, in page reads.
    pub(super) fn empty_cost(&self, floor: usize, slot: usize) -> u64 {
        let (buffer, write) = (&self.floors[floor].buffers[slot], u64::from(self.config.write_cost));
        let pages = u64::from(buffer.pages);
        if floor + 1 < self.floors.len() {
            return pages + pages * write;
        }
        let subtrees = self.floors[floor].buffers.len() as u64;
        let leaves = (self.tally.leaves.max(1) as u64).div_ceil(subtrees);
        let records = u64::from(buffer.records) + buffer.fragment.len() as u64;
        pages + touched(leaves, records) * (1 + write)
    }

    /// Visits the buffers from a floor down and the nodes below. Newer records replace those found.
    pub(super) fn walk(
        &self,
        shadow: &mut Shadow<'_>,
        floor: usize,
        tour: &mut Tour<'_, '_>,
        newer: Slice<'_>,
    ) -> Result<ControlFlow<()>, IndexError> {
        let Some(below) = self.floors.get(floor) else {
            return self.layout.walk(shadow, &self.root, newer, tour);
        };
        let slot = |bound: Bound<&[u8]>, otherwise| match bound {
            Bound::Included(key) | Bound::Excluded(key) => below.slot(key),
            Bound::Unbounded => otherwise,
        };
        let (low, high) = tour.bounds;
        let (first, last) = (slot(low, 0), slot(high, below.buffers.len() - 1));
        for i in first..=last {
            let at = if tour.direction == Direction::Ascending { i } else { last - (i - first) };
            let own = below.buffers[at].collect(shadow, Cause::Host)?.0;
            let newer = newer.slice(below.records_of(at, newer));
            let from = if at == first { low } else { Bound::Included(&below.buffers[at].low[..]) };
            let to = if at == last { high } else { Bound::Excluded(&below.buffers[at + 1].low[..]) };
            let mut part = Tour { bounds: (from, to), direction: tour.direction, visit: &mut *tour.visit };
            if self.walk(shadow, floor + 1, &mut part, own.under(newer, true).all())?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    pub(super) fn find_below(
        &self,
        shadow: &mut Shadow<'_>,
        key: &[u8],
        value: &mut [u8],
    ) -> Result<bool, IndexError> {
        if self.root.level == 1 {
            let found = self.root.records.all().find(key);
            return Ok(found.map(|(_, found)| value.copy_from_slice(found)).is_some());
        }
        let mut unit = self.root.children.unit(self.root.children.slot(key));
        for level in (2..self.root.level).rev() {
            unit = self.layout.find(shadow, NodeAt { unit, level }, key, value)?.1;
        }
        Ok(self.layout.find(shadow, NodeAt { unit, level: 1 }, key, value)?.0.is_some())
    }

    /// Collects the first keys of the nodes of a level below a node.
    pub(super) fn keys_of(
        &self,
        shadow: &mut Shadow<'_>,
        node: &Node,
        level: u8,
        keys: &mut Splits,
    ) -> Result<(), IndexError> {
        for slot in 0..node.children.len() {
            if slot > 0 && node.level > level {
                keys.push((level, node.children.key(slot).into()));
            }
            if node.level > level + 1 {
                let unit = node.children.unit(slot);
                let child = self.layout.read(shadow, unit, node.level - 1, Cause::Merge)?;
                self.keys_of(shadow, &child, level, keys)?;
            }
        }
        Ok(())
    }
}

impl La {
    /// Makes room in the root's buffer: writes a full fragment to its chain, and empties a chain of the
    /// greatest length.
    pub(super) fn make_way(&mut self, shadow: &mut Shadow<'_>) -> Result<(), IndexError> {
        if self.floors[0].buffers[0].pages >= self.config.buffer_pages {
            self.counts.full_empties += 1;
            self.empty(shadow, (0, 0))?;
        }
        if self.floors[0].buffers[0].fragment.len() < self.page_records {
            return Ok(());
        }
        let growth = self.layout.growth(&self.tally, self.tally.puts, &self.root);
        if u64::from(shadow.units.free_after_commit()) < self.portion_units(1) + u64::from(growth) + 2 {
            return self.drain(shadow);
        }
        make_room(shadow, self, 1)?;
        let mut top = self.floors[0].buffers[0].clone();
        shadow.attempt(|shadow| top.append(shadow, self.page_records))?;
        self.floors[0].buffers[0] = top;
        self.counts.chain_pages += 1;
        Ok(())
    }
}
