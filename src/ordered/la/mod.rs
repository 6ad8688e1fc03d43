//! LA-tree: subtrees of K levels share a buffer on flash, which is emptied when it is full or when look-ups have paid for it.
//!
//! D. Agrawal, D. Ganesan, R. Sitaraman, Y. Diao, S. Singh, "Lazy-Adaptive Tree: An Optimized Index Structure for Flash Devices",
//! VLDB 2009. The levels of a B+-tree are cut, from the leaves up, into subtrees of K levels. Each subtree has a *buffer*: a
//! chain of pages on flash of the records that are on their way into it. Emptying a buffer sends all its records to the buffers of the next
//! subtrees, or to the leaves, at once.
//!
//! # State
//!
//! In RAM: the root node; for each buffer its least key, where its chain ends and its size, a *fragment* of records that do not fill a
//! page yet, and what look-ups saw of it. On flash: nodes of a page (`messages/node.rs`), chains (`buffer.rs`).
//!
//! # Operations
//!
//! - *insert, remove*: into the fragment of the root's buffer. A full fragment becomes a page of the chain.
//! - *Empty*: the chain is read and sorted, the newest record of a key stays. Above the last subtrees the records join the fragments of
//!   the next buffers, of which the largest are written as they are when all take more RAM than they have. Else one pass through the nodes applies them to the leaves: a leaf is written once for all its records, one
//!   that gets too full becomes several, 0.4 to 0.6 full. Nodes are copied on write. If fresh pages are scarce, it is done in
//!   portions with commits between them: the buffer keeps all records until the end, and applying one again changes nothing.
//! - *get*: the root's buffer, the newest page first, then those below, then the nodes: the first record found is the newest.
//!   Each buffer that was scanned is asked whether it should be emptied.
//! - *ADAPT*: for each size that a buffer had: how many pages later look-ups would have been spared, had it been emptied then? Once that
//!   is what emptying would have cost, it is emptied (ski rental, in page reads). It is also emptied at `buffer_pages`.
//! - *range*: buffers and nodes, merged from the top down.
//! - *sync*: root and fragments go to fresh pages, then the manifest.
//!
//! # Invariants
//!
//! Those of [`messages`](super::messages), T1 and T2 of the [B-epsilon-tree](super::bepsilon), and
//!
//! - L1 The buffers of a level divide the keys between them; a buffer's records are keys that it takes.
//! - L2 A chain has as many pages and records as its buffer says. A record of an upper buffer is newer than one of its key below.
//! - L3 A buffer is divided, when its subtree splits, only while it is empty.
//! - L4 There are free pages for all the splits to which waiting records can lead. An insertion for which there are not has all buffers
//!   emptied first, from the bottom up, and is refused if that is not enough. So removals always find room.
//!
//! # Deviations and confidence
//!
//! High for the concept, medium for the rest: mechanics and ADAPT's inequality are our reading, K, node size and memory are parameters. Ours: nodes are
//! logical pages, copied on write up to the root, so an operation needs no table of node addresses; the keys that divide buffers are in
//! RAM, so emptying one into the next reads no node; a buffer that is not empty stays whole when its subtree splits and serves both; ADAPT
//! remembers eight sizes; the root node is in RAM and nothing else is but what the page cache below has, so no memory is divided here.

mod buffer;
#[cfg(test)]
mod tests;

use super::bplus::Change;
use super::messages::{
    Ascending, Bounds, Common, Identity, Layout, MessageTree, Node, PUT, Run, Scheme, Shadow, Shape, Slice,
    Tally, Tour, Written, commit, corrupted, make_room, number_option,
};
use super::{Direction, RecordFormat, Settings, Visit};
use crate::check::{CheckReport, IndexError};
use crate::codec::{get_u16, get_u32, put_u32};
use crate::ftl::PageStore;
use crate::nand::Cause;
use crate::units::Lpn;
use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use buffer::{Buffer, touched};
use core::ops::{Bound, ControlFlow};

/// Options: name and meaning.
pub const OPTIONS: [(&str, &str); 5] = [
    ("subtree_levels", "K: levels of a subtree, 1 to 8 (default 2)"),
    (
        "buffer_pages",
        "pages of a buffer at most, 1 to 1024 (default 64, or what half its share of the RAM can sort)",
    ),
    (
        "buffer_percent",
        "share of the RAM for buffers and page cache that the buffers get, 1 to 99 (default 50)",
    ),
    ("write_cost", "for ADAPT: what a page write costs in page reads (default 3)"),
    ("answers", "exact (default), or pool: an update answers what the newest records in RAM know"),
];

/// An LA-tree on a store.
pub type LaTree<S> = MessageTree<S, La>;

/// How an LA-tree is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaConfig {
    /// Records, class, answers.
    pub common: Common,
    /// K: levels of a subtree.
    pub subtree_levels: u32,
    /// Pages of a buffer at most.
    pub buffer_pages: u32,
    /// Records of all fragments at most; at least a page of them.
    pub fragment_records: u32,
    /// Buffers at most; others are not divided.
    pub buffers_max: u32,
    /// What a page write costs in page reads.
    pub write_cost: u32,
}

impl LaConfig {
    /// K = 2, buffers of up to 64 pages, fragments of 1,024 records in all.
    pub const fn new(record: RecordFormat) -> LaConfig {
        LaConfig {
            common: Common::new(record),
            subtree_levels: 2,
            buffer_pages: 64,
            fragment_records: 1_024,
            buffers_max: 1_024,
            write_cost: 3,
        }
    }

    /// From settings, with the [`OPTIONS`], on pages of this size; `shared_bytes` is the RAM for buffers and page cache, if it is
    /// limited.
    pub fn from_settings(
        settings: &Settings,
        page_bytes: usize,
        shared_bytes: usize,
    ) -> Result<LaConfig, IndexError> {
        let percent = number_option(settings, "buffer_percent", (1, 99))?.unwrap_or(50) as usize;
        let mut config = LaConfig::new(settings.record);
        if settings.ram_bytes.is_some() {
            // Half to sort a chain, a quarter each for fragments and for what is known of buffers.
            let (share, shape) = (shared_bytes / 100 * percent, Shape::of(settings.record));
            config.buffer_pages = (share / 2 / (2 * page_bytes)).clamp(1, 64) as u32;
            config.fragment_records = (share / 4 / (2 * shape.bytes())).clamp(1, 1 << 20) as u32;
            config.buffers_max = (share / 4 / (2 * Buffer::ram_bytes(shape.key))).clamp(4, 1 << 16) as u32;
        }
        Ok(LaConfig {
            common: Common::from_settings(settings)?,
            subtree_levels: number_option(settings, "subtree_levels", (1, 8))?.unwrap_or(2),
            buffer_pages: number_option(settings, "buffer_pages", (1, 1024))?.unwrap_or(config.buffer_pages),
            write_cost: number_option(settings, "write_cost", (0, 10_000))?.unwrap_or(3),
            ..config
        })
    }

    fn layout(&self, page_bytes: usize) -> Result<Layout, IndexError> {
        let mut layout = Layout::new(Shape::of(self.common.record), page_bytes, 1, None)?;
        // Nothing waits in nodes.
        layout.inner_records = 0;
        Ok(layout)
    }

    /// Records of all fragments at most, on a store: no more than a 16th of its pages, and a page.
    fn fragments(&self, (page_bytes, pages): (usize, u32)) -> usize {
        let page = Buffer::page_records(Shape::of(self.common.record), page_bytes);
        (self.fragment_records as usize).clamp(page, page.max(page * pages as usize / 16))
    }
}

/// The buffers of the subtrees whose roots have a level.
#[derive(Clone, Debug)]
struct Floor {
    level: u8,
    buffers: Vec<Buffer>,
}

impl Floor {
    fn slot(&self, key: &[u8]) -> usize {
        self.buffers.partition_point(|buffer| buffer.low[..] <= *key).saturating_sub(1)
    }

    /// The records that belong in a buffer.
    fn records_of(&self, i: usize, records: Slice<'_>) -> core::ops::Range<usize> {
        let from = if i == 0 { 0 } else { records.lower_bound(&self.buffers[i].low) };
        let to = self.buffers.get(i + 1).map_or(records.len(), |next| records.lower_bound(&next.low));
        from..to.max(from)
    }
}

/// The tree.
pub struct La {
    layout: Layout,
    config: LaConfig,
    page_records: usize,
    fragment_records: usize,
    root: Node,
    /// From the root's on down.
    floors: Vec<Floor>,
    tally: Tally,
    refused_at: Option<Tally>,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    full_empties: u64,
    adapted_empties: u64,
    portions: u64,
    chain_pages: u64,
    partial_pages: u64,
}

/// Nodes that split, by level and the key where the new one begins.
type Splits = Vec<(u8, Vec<u8>)>;

/// Applies records to the leaves below a node.
fn apply<S: PageStore>(
    layout: &Layout,
    (shadow, tally): (&mut Shadow<S>, &mut Tally),
    (unit, level): (u32, u8),
    records: Slice<'_>,
    splits: &mut Splits,
) -> Result<Written, IndexError> {
    let mut node = layout.read(shadow, unit, level, Cause::Merge)?;
    Layout::release(shadow, tally, (unit, level));
    if level == 1 {
        return layout.write_leaves(shadow, tally, node.records.under(records, false).all());
    }
    let vacant = apply_below(layout, (shadow, tally), &mut node, records, splits)?;
    layout.write_above((shadow, tally), &node, vacant)
}

/// Applies records to the leaves below a node that is in RAM; returns the units of its only child if that is vacant.
fn apply_below<S: PageStore>(
    layout: &Layout,
    (shadow, tally): (&mut Shadow<S>, &mut Tally),
    node: &mut Node,
    records: Slice<'_>,
    splits: &mut Splits,
) -> Result<Option<Vec<u32>>, IndexError> {
    let mut vacant = None;
    for slot in (0..node.children.len()).rev() {
        let own = records.slice(node.children.records_of(slot, records));
        if own.is_empty() {
            continue;
        }
        let child = (node.children.unit(slot), node.level - 1);
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
    fn over(config: &LaConfig, layout: Layout, pages: (usize, u32)) -> La {
        let top = Buffer::new(layout.shape, vec![0; layout.shape.key]);
        La {
            layout,
            config: *config,
            page_records: Buffer::page_records(layout.shape, pages.0),
            fragment_records: config.fragments(pages),
            root: Node::leaf(layout.shape),
            floors: vec![Floor { level: u8::MAX, buffers: vec![top] }],
            tally: Tally::default(),
            refused_at: None,
            counts: Counts::default(),
        }
    }

    fn count_puts(&mut self) {
        self.tally.puts = self.floors.iter().flat_map(|floor| &floor.buffers).map(Buffer::all_puts).sum();
    }

    fn fragments(&self) -> usize {
        self.floors.iter().flat_map(|floor| &floor.buffers).map(|buffer| buffer.fragment.len()).sum()
    }

    /// The most pages that applying so many records takes.
    fn portion_units(&self, records: usize) -> u64 {
        let (records, leaf) = (records as u64, self.layout.leaf_records as u64);
        let height = u64::from(self.root.level) + 1;
        let (leaves, inner) = (self.tally.leaves.max(1) as u64, self.tally.inner as u64);
        let parts = 5 * records / leaf + 2;
        let touched = records.min(leaves) + parts;
        touched * 2 + (touched * height).min(inner + touched + height) + 2 * height
    }

    /// Whether there are pages for all that one record more can lead to (L4).
    fn has_room<S: PageStore>(&self, shadow: &Shadow<S>, spare: u32) -> bool {
        let growth = self.layout.growth(&self.tally, self.tally.puts + 1, u32::from(self.root.level));
        let wanted = self.portion_units(1) + u64::from(growth) + u64::from(spare) + 2;
        u64::from(shadow.free_after_commit()) >= wanted
    }

    /// Sees to it that a value may be taken in.
    fn admit<S: PageStore>(&mut self, shadow: &mut Shadow<S>) -> Result<(), IndexError> {
        if self.has_room(shadow, 0) {
            return Ok(());
        }
        if self.refused_at == Some(self.tally) {
            return Err(IndexError::Full);
        }
        self.drain(shadow)?;
        if self.has_room(shadow, shadow.units() / 64) {
            return Ok(());
        }
        self.refused_at = Some(self.tally);
        Err(IndexError::Full)
    }

    /// Empties all buffers into the leaves, from the bottom up, and joins leaves that are far from full.
    fn drain<S: PageStore>(&mut self, shadow: &mut Shadow<S>) -> Result<(), IndexError> {
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
            from = shadow.attempt(|shadow| layout.sweep((shadow, &mut tally), &mut root, &key))?;
            (self.root, self.tally) = (root, tally);
        }
        Ok(())
    }

    /// Empties a buffer.
    fn empty<S: PageStore>(&mut self, shadow: &mut Shadow<S>, at: (usize, usize)) -> Result<(), IndexError> {
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

    /// Sends the records of a buffer to those below; returns which of them are full.
    fn distribute<S: PageStore>(
        &mut self,
        shadow: &mut Shadow<S>,
        (floor, slot): (usize, usize),
    ) -> Result<Vec<(usize, usize)>, IndexError> {
        let (records, units) = self.floors[floor].buffers[slot].collect(shadow, Cause::Merge)?;
        let mut below = self.floors[floor + 1].clone();
        let others = self.fragments() - self.floors[floor].buffers[slot].fragment.len();
        let others = others - below.buffers.iter().map(|buffer| buffer.fragment.len()).sum::<usize>();
        let pages = records.len() / self.page_records + below.buffers.len() + 2;
        let growth = self.layout.growth(&self.tally, self.tally.puts, u32::from(self.root.level));
        let spare = (pages as u64) + self.portion_units(1) + u64::from(growth);
        if u64::from(shadow.free_after_commit()) < spare {
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
            units.iter().for_each(|unit| shadow.release(*unit));
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

    /// Applies the records of a buffer to the leaves; there are none of its keys in buffers below.
    fn apply_buffer<S: PageStore>(
        &mut self,
        shadow: &mut Shadow<S>,
        (floor, slot): (usize, usize),
    ) -> Result<(), IndexError> {
        let (records, units) = self.floors[floor].buffers[slot].collect(shadow, Cause::Merge)?;
        let (mut from, mut splits, was) = (0, Vec::new(), self.root.level);
        while from < records.len() {
            let mut count = records.len() - from;
            if self.portion_units(count) > u64::from(shadow.free_now()) {
                commit(shadow, self)?;
            }
            while count > 1 && self.portion_units(count) > u64::from(shadow.free_now()) {
                count /= 2;
            }
            self.apply_portion(shadow, records.all().slice(from..from + count), &mut splits)?;
            from += count;
        }
        shadow.attempt(|shadow| {
            units.iter().for_each(|unit| shadow.release(*unit));
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

    fn apply_portion<S: PageStore>(
        &mut self,
        shadow: &mut Shadow<S>,
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
            layout.settle_root((shadow, &mut tally), &mut root)
        })?;
        (self.root, self.tally) = (root, tally);
        self.counts.portions += 1;
        Ok(())
    }

    fn buffers(&self) -> usize {
        self.floors.iter().map(|floor| floor.buffers.len()).sum()
    }

    /// A floor for the subtrees whose roots have this level, if it has such and there is none yet.
    fn add_floor(&mut self, level: u8) {
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

    /// Divides buffers, if they are empty, where subtrees split (L3).
    fn divide(&mut self, splits: Splits) {
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

    /// What emptying a buffer costs, in page reads, as far as one can tell.
    fn empty_cost(&self, floor: usize, slot: usize) -> u64 {
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

    /// Visits buffers from a floor on down, and nodes, under newer records.
    fn walk<S: PageStore>(
        &self,
        shadow: &mut Shadow<S>,
        floor: usize,
        tour: &mut Tour<'_, '_>,
        newer: Slice<'_>,
    ) -> Result<ControlFlow<()>, IndexError> {
        let Some(below) = self.floors.get(floor) else {
            return tour.walk((&self.layout, shadow), &self.root, newer);
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

    fn find_below<S: PageStore>(
        &self,
        shadow: &mut Shadow<S>,
        key: &[u8],
        value: &mut [u8],
    ) -> Result<bool, IndexError> {
        if self.root.level == 1 {
            let found = self.root.records.all().find(key);
            return Ok(found.map(|(_, found)| value.copy_from_slice(found)).is_some());
        }
        let mut unit = self.root.children.unit(self.root.children.slot(key));
        for level in (2..self.root.level).rev() {
            unit = self.layout.find(shadow, (unit, level), key, value)?.1;
        }
        Ok(self.layout.find(shadow, (unit, 1), key, value)?.0.is_some())
    }

    /// The keys where the nodes of a level begin, below a node.
    fn keys_of<S: PageStore>(
        &self,
        shadow: &mut Shadow<S>,
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

/// Reads a field of the state.
fn take<'a>(state: &mut &'a [u8], bytes: usize) -> Result<&'a [u8], IndexError> {
    let (field, rest) =
        state.split_at_checked(bytes).ok_or(corrupted("S1: the state is too short", Lpn(0)))?;
    *state = rest;
    Ok(field)
}

impl La {
    fn restore_floor(&mut self, state: &mut &[u8]) -> Result<Floor, IndexError> {
        let head = take(state, 5)?;
        let (level, count, shape) = (head[0], get_u32(head, 1), self.layout.shape);
        let mut floor = Floor { level, buffers: Vec::new() };
        for i in 0..count {
            let mut buffer = Buffer::new(shape, take(state, shape.key)?.to_vec());
            let fields = take(state, 18)?;
            (buffer.tail, buffer.pages) = (get_u32(fields, 0), get_u32(fields, 4));
            (buffer.records, buffer.puts) = (get_u32(fields, 8), get_u32(fields, 12));
            buffer.fragment.push(take(state, usize::from(get_u16(fields, 16)) * shape.bytes())?);
            let ascends = floor.buffers.last().is_none_or(|last| last.low < buffer.low);
            let is_first = i > 0 || buffer.low.iter().all(|byte| *byte == 0);
            if !ascends || !is_first || !buffer.fragment.all().are_sorted_of(&[PUT, super::messages::REMOVE])
            {
                return Err(corrupted("L1: the buffers of a level are out of order", Lpn(0)));
            }
            floor.buffers.push(buffer);
        }
        if floor.buffers.is_empty() {
            return Err(corrupted("L1: a level without buffers", Lpn(0)));
        }
        Ok(floor)
    }

    fn state_max(config: &LaConfig, layout: &Layout, pages: (usize, u32)) -> usize {
        let shape = layout.shape;
        // A fragment may be a page over before the largest is written.
        let records = config.fragments(pages) + 2 * Buffer::page_records(shape, pages.0);
        16 + layout.node_bytes()
            + config.buffers_max as usize * (shape.key + 18)
            + 40
            + records * shape.bytes()
    }
}

impl Scheme for La {
    type Config = LaConfig;

    fn common(config: &LaConfig) -> Common {
        config.common
    }

    fn identity(config: &LaConfig, (page_bytes, _): (usize, u32)) -> Result<Identity, IndexError> {
        config.layout(page_bytes)?;
        let mut parameters = [0; 16];
        put_u32(&mut parameters, 0, config.subtree_levels);
        Ok(Identity { name: *b"NXLATR01", record: config.common.record, unit_pages: 1, parameters })
    }

    fn new<S: PageStore>(config: &LaConfig, shadow: &mut Shadow<S>) -> Result<La, IndexError> {
        let (layout, pages) =
            (config.layout(shadow.page_bytes())?, (shadow.page_bytes(), shadow.units() + 1));
        let most = LaConfig { buffers_max: config.buffers_max.min(shadow.units() / 16 + 4), ..*config };
        shadow.set_reserve(shadow.units_for_state(La::state_max(&most, &layout, pages)))?;
        Ok(La::over(&most, layout, pages))
    }

    fn restore<S: PageStore>(
        config: &LaConfig,
        shadow: &mut Shadow<S>,
        mut state: &[u8],
    ) -> Result<La, IndexError> {
        let mut tree = La::new(config, shadow)?;
        let head = take(&mut state, 6)?;
        let (level, children, records) =
            (head[0], usize::from(get_u16(head, 1)), usize::from(get_u16(head, 3)));
        let shape = tree.layout.shape;
        let node = take(&mut state, children * (shape.key + 4) + records * shape.bytes())?;
        let root = tree.layout.node_of(level, (children, records), node);
        tree.root = root.ok_or(corrupted("S1: the state has no root", Lpn(0)))?;
        if u32::from(level) > tree.layout.height_max(shadow.units()) + 1 {
            return Err(corrupted("S1: a tree higher than its store allows", Lpn(0)));
        }
        tree.floors.clear();
        for _ in 0..head[5] {
            let floor = tree.restore_floor(&mut state)?;
            if tree.floors.last().is_some_and(|above| above.level <= floor.level) {
                return Err(corrupted("L1: levels of buffers out of order", Lpn(0)));
            }
            tree.floors.push(floor);
        }
        if !tree.floors.first().is_some_and(|top| top.buffers.len() == 1) {
            return Err(corrupted("L1: the root has no buffer, or several", Lpn(0)));
        }
        tree.layout.claim_below(shadow, &mut tree.tally, &tree.root)?;
        for buffer in tree.floors.iter().flat_map(|floor| &floor.buffers) {
            let mut units = Vec::new();
            if buffer.pages > shadow.units() {
                return Err(corrupted("L2: a buffer longer than the store", Lpn(buffer.tail)));
            }
            buffer.scan(shadow, Cause::Recovery, &mut |unit, _| {
                units.push(unit);
                true
            })?;
            units.into_iter().try_for_each(|unit| shadow.claim(unit))?;
        }
        tree.count_puts();
        Ok(tree)
    }

    fn state_bytes(&self) -> usize {
        let node = 6 + self.root.children.bytes().len() + self.root.records.bytes.len();
        let buffer = |buffer: &Buffer| buffer.low.len() + 18 + buffer.fragment.bytes.len();
        let floor = |floor: &Floor| 5 + floor.buffers.iter().map(buffer).sum::<usize>();
        node + self.floors.iter().map(floor).sum::<usize>()
    }

    fn save(&self, put: &mut dyn FnMut(&[u8]) -> Result<(), IndexError>) -> Result<(), IndexError> {
        let (children, records) = (self.root.children.len() as u16, self.root.records.len() as u16);
        put(&[self.root.level])?;
        put(&children.to_le_bytes())?;
        put(&records.to_le_bytes())?;
        put(&[self.floors.len() as u8])?;
        put(self.root.children.bytes())?;
        put(&self.root.records.bytes)?;
        for floor in &self.floors {
            put(&[floor.level])?;
            put(&(floor.buffers.len() as u32).to_le_bytes())?;
            for buffer in &floor.buffers {
                put(&buffer.low)?;
                for field in [buffer.tail, buffer.pages, buffer.records, buffer.puts] {
                    put(&field.to_le_bytes())?;
                }
                put(&(buffer.fragment.len() as u16).to_le_bytes())?;
                put(&buffer.fragment.bytes)?;
            }
        }
        Ok(())
    }

    fn known(&self, key: &[u8]) -> Option<bool> {
        let found = self.floors[0].buffers[0].fragment.all().find(key).map(|(kind, _)| kind == PUT);
        found.or(self.is_empty().then_some(false))
    }

    fn find<S: PageStore>(
        &mut self,
        shadow: &mut Shadow<S>,
        key: &[u8],
        value: &mut [u8],
    ) -> Result<bool, IndexError> {
        let mut due = Vec::new();
        let mut found = None;
        for floor in 0..self.floors.len() {
            let slot = self.floors[floor].slot(key);
            let buffer = &self.floors[floor].buffers[slot];
            let mut copy = |found: Option<(u8, &[u8])>| {
                found.map(|(kind, found)| {
                    value.copy_from_slice(found);
                    kind == PUT
                })
            };
            found = copy(buffer.fragment.all().find(key));
            if found.is_some() {
                break;
            }
            buffer.scan(shadow, Cause::Host, &mut |_, records| {
                found = copy(records.find(key));
                found.is_none()
            })?;
            let cost = self.empty_cost(floor, slot);
            let buffer = &mut self.floors[floor].buffers[slot];
            if buffer.pages > 0 && buffer.adapt(cost) {
                due.push((floor, slot));
            }
            if found.is_some() {
                break;
            }
        }
        let found = match found {
            Some(found) => found,
            None => self.find_below(shadow, key, value)?,
        };
        if let Some(at) = due.first().copied().filter(|_| !shadow.is_checking()) {
            self.counts.adapted_empties += 1;
            match self.empty(shadow, at) {
                // It can wait.
                Err(IndexError::Full) => {}
                done => done?,
            }
        }
        Ok(found)
    }

    fn update<S: PageStore>(
        &mut self,
        shadow: &mut Shadow<S>,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), IndexError> {
        if value.is_some() {
            self.admit(shadow)?;
        }
        let top = &self.floors[0].buffers[0];
        if top.fragment.len() >= self.page_records && top.fragment.all().search(key).is_err() {
            self.make_way(shadow)?;
        }
        let top = &mut self.floors[0].buffers[0].fragment;
        let was = top.all().find(key).is_some_and(|(kind, _)| kind == PUT);
        self.tally.puts += i64::from(value.is_some()) - i64::from(was);
        top.put(Change { key, value });
        Ok(())
    }

    fn range<S: PageStore>(
        &mut self,
        shadow: &mut Shadow<S>,
        bounds: Bounds<'_>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        let nothing = Run::new(self.layout.shape);
        let mut tour = Tour { bounds, direction, visit };
        self.walk(shadow, 0, &mut tour, nothing.all()).map(drop)
    }

    fn load<S: PageStore>(
        &mut self,
        shadow: &mut Shadow<S>,
        records: &mut Ascending<'_, '_, '_>,
    ) -> Result<(), IndexError> {
        let (layout, mut tally) = (self.layout, self.tally);
        let root = shadow.attempt(|shadow| layout.build(shadow, &mut tally, records))?;
        (self.root, self.tally) = (root, tally);
        for level in 2..self.root.level {
            let mut keys = Vec::new();
            self.add_floor(level);
            let root = core::mem::replace(&mut self.root, Node::leaf(layout.shape));
            let found = self.keys_of(shadow, &root, level, &mut keys);
            self.root = root;
            found?;
            self.divide(keys);
        }
        Ok(())
    }

    fn check<S: PageStore>(
        &mut self,
        shadow: &mut Shadow<S>,
        report: &mut CheckReport,
    ) -> Result<u32, IndexError> {
        let found = self.layout.check_below(shadow, report, (&self.root, 0), (None, None))?;
        let (is, was) = ((found.leaves, found.inner), (self.tally.leaves, self.tally.inner));
        if is != was {
            report.violation("T3", 0, format!("{is:?} leaves and inner nodes where {was:?} were counted"));
        }
        let mut pages = 0;
        for floor in &self.floors {
            for (i, buffer) in floor.buffers.iter().enumerate() {
                let (mut records, mut puts, mut inside) = (0, 0, true);
                let mut see = |all: Slice<'_>| inside &= floor.records_of(i, all).len() == all.len();
                see(buffer.fragment.all());
                buffer.scan(shadow, Cause::Check, &mut |_, all| {
                    see(all);
                    records += all.len() as u32;
                    puts += all.puts() as u32;
                    pages += 1;
                    true
                })?;
                if !inside {
                    report.violation("L1", buffer.tail.into(), "a record of another buffer".to_string());
                }
                if (records, puts) != (buffer.records, buffer.puts) {
                    report.violation("L2", buffer.tail.into(), format!("{records} records in a chain"));
                }
            }
        }
        let growth = self.layout.growth(&self.tally, self.tally.puts, u32::from(self.root.level));
        if shadow.free_after_commit() < growth {
            report.violation("L4", 0, format!("{growth} pages are wanted for records that wait"));
        }
        Ok((found.leaves + found.inner) as u32 + pages)
    }

    fn is_empty(&self) -> bool {
        let empty = self.floors.iter().flat_map(|floor| &floor.buffers).all(Buffer::is_empty);
        empty && self.root.level == 1 && self.root.records.is_empty()
    }

    fn height(&self) -> u32 {
        self.root.level.into()
    }

    fn metrics(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("buffers", self.buffers() as u64),
            ("waiting_insertions", self.tally.puts as u64),
            ("full_empties", self.counts.full_empties),
            ("adapted_empties", self.counts.adapted_empties),
            ("portions", self.counts.portions),
            ("chain_page_writes", self.counts.chain_pages),
            ("partial_page_writes", self.counts.partial_pages),
            ("leaves", self.tally.leaves as u64),
            ("inner_nodes", self.tally.inner as u64),
            ("leaf_writes", self.tally.leaf_writes),
            ("inner_writes", self.tally.inner_writes),
            ("splits", self.tally.splits),
        ]
    }

    fn waiting_records_max(config: &LaConfig) -> u64 {
        config.fragment_records.into()
    }

    /// Root and its copy, a node of each level and one; fragments and their copy, buffers and theirs, a chain sorted.
    fn ram_bytes(config: &LaConfig, pages: (usize, u32)) -> Result<usize, IndexError> {
        let layout = config.layout(pages.0)?;
        let height = layout.height_max(pages.1) as usize;
        let records = config.fragments(pages) + 2 * Buffer::page_records(layout.shape, pages.0);
        let buffers = config.buffers_max.min(pages.1 / 16 + 4) as usize * Buffer::ram_bytes(layout.shape.key);
        let state = La::state_max(config, &layout, pages) / pages.0 + 2;
        Ok((height + 4) * layout.node_bytes()
            + 2 * records * layout.shape.bytes()
            + 2 * buffers
            + (2 * config.buffer_pages as usize + 2) * pages.0
            + Shadow::<()>::ram_bytes_for(pages.1, 1, state as u32))
    }
}

impl La {
    /// Makes a full fragment of the root's buffer a page of its chain, and empties a chain that is long enough.
    fn make_way<S: PageStore>(&mut self, shadow: &mut Shadow<S>) -> Result<(), IndexError> {
        if self.floors[0].buffers[0].pages >= self.config.buffer_pages {
            self.counts.full_empties += 1;
            self.empty(shadow, (0, 0))?;
        }
        if self.floors[0].buffers[0].fragment.len() < self.page_records {
            return Ok(());
        }
        let growth = self.layout.growth(&self.tally, self.tally.puts, u32::from(self.root.level));
        if u64::from(shadow.free_after_commit()) < self.portion_units(1) + u64::from(growth) + 2 {
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
