//! The node buffer: for each changed node the modifications that its page lacks, and the flushing units.
//!
//! A node joins the newest unit when it is first changed. A unit that has as many nodes as allowed is closed,
//! and the next node begins another. So a unit consists of nodes changed one after the other. It ends when
//! all its nodes are flushed or freed.

use super::record::{apply, coalesce, entries_after, entry_put, is_reset, mod_bytes, show_whole};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use nandex::check::{Breach, message};
use nandex::spatial::coordinate::Coordinate;
use nandex::spatial::measure::Measure;
use nandex::spatial::node::{Node, NodeFormat, NodeId};

/// The extent of a node's buffered entries: the area of the box around them, and the sum of the areas that
/// two of them share.
pub(super) type Spread<M> = (Option<M>, Option<M>);

/// The modifications that wait for a node.
pub(super) struct Waiting<M> {
    /// Modifications, one after the other. An update of an entry may replace an older one, so they may be
    /// fewer than arrived.
    mods: Vec<u8>,
    /// Number of modifications that have arrived.
    pub(super) modifications: u64,
    pub(super) level: u8,
    /// Number of entries of the node. Only a mount keeps it up to date.
    entries: u32,
    /// Number of the operation that changed the node first. `touched` is the last one.
    pub(super) first: u64,
    pub(super) touched: u64,
    unit: u64,
    spread: Option<Spread<M>>,
}

impl<M> Waiting<M> {
    /// Whether the modifications make the whole node, so that its page need not be read.
    pub(super) fn is_whole(&self) -> bool {
        !self.mods.is_empty() && is_reset(&self.mods)
    }
}

impl<M: Copy> Waiting<M> {
    /// The extent of the node's buffered entries, if it was measured.
    pub(super) fn spread(&self) -> Spread<M> {
        self.spread.unwrap_or((None, None))
    }
}

/// A flushing unit: nodes that are flushed together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) nodes: Vec<NodeId>,
    /// Modifications of its nodes so far.
    pub(super) modifications: u64,
    /// Number of the last operation that changed one of its nodes.
    pub(super) touched: u64,
}

/// A modification on its way into the buffer.
#[derive(Clone, Copy)]
pub(super) struct Touch<'a> {
    pub(super) node: NodeId,
    pub(super) level: u8,
    pub(super) operation: u64,
    pub(super) modification: &'a [u8],
}

/// The node buffer: modifications by node, and the flushing units.
pub(super) struct NodeBuffer<C: Coordinate, const D: usize> {
    format: NodeFormat,
    unit_nodes: usize,
    nodes: BTreeMap<NodeId, Waiting<C::Measure>>,
    units: BTreeMap<u64, Unit>,
    next_unit: u64,
    bytes: usize,
}

impl<C: Coordinate, const D: usize> NodeBuffer<C, D> {
    /// Bytes that a node takes besides its modifications: its row, its share of the tree of rows, and its
    /// place in a unit.
    pub(super) const NODE_BYTES: usize = size_of::<Waiting<C::Measure>>() + 64;

    pub(super) fn new(format: NodeFormat, unit_nodes: usize) -> NodeBuffer<C, D> {
        let (nodes, units) = (BTreeMap::new(), BTreeMap::new());
        NodeBuffer { format, unit_nodes, nodes, units, next_unit: 0, bytes: 0 }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(super) fn nodes(&self) -> &BTreeMap<NodeId, Waiting<C::Measure>> {
        &self.nodes
    }

    pub(super) fn units(&self) -> &BTreeMap<u64, Unit> {
        &self.units
    }

    /// Number of modifications kept. A compacted log has as many records of them.
    pub(super) fn records(&self) -> u64 {
        let bytes: usize = self.nodes.values().map(|waiting| waiting.mods.len()).sum();
        (bytes / mod_bytes(&self.format)) as u64
    }

    /// All modifications kept, each with its node and the node's last operation.
    pub(super) fn each(&self) -> impl Iterator<Item = (NodeId, u64, &[u8])> {
        let mod_bytes = mod_bytes(&self.format);
        self.nodes.iter().flat_map(move |(id, waiting)| {
            waiting.mods.chunks_exact(mod_bytes).map(|modification| (*id, waiting.touched, modification))
        })
    }

    /// Adds a modification to its node.
    pub(super) fn touch(&mut self, touch: Touch<'_>) {
        let unit = match self.nodes.get(&touch.node) {
            Some(waiting) => waiting.unit,
            None => self.join(touch),
        };
        let Some(waiting) = self.nodes.get_mut(&touch.node) else { return };
        let before = waiting.mods.capacity();
        if is_reset(touch.modification) {
            waiting.mods.clear();
        }
        if !coalesce(&mut waiting.mods, touch.modification) {
            // Not doubled: memory is what the buffer is measured by.
            if waiting.mods.capacity() < waiting.mods.len() + touch.modification.len() {
                waiting.mods.reserve_exact(4 * touch.modification.len());
            }
            waiting.mods.extend_from_slice(touch.modification);
        }
        self.bytes = self.bytes + waiting.mods.capacity() - before;
        waiting.modifications += 1;
        (waiting.level, waiting.touched) = (touch.level, touch.operation);
        waiting.spread = None;
        if let Some(unit) = self.units.get_mut(&unit) {
            unit.modifications += 1;
            unit.touched = touch.operation;
        }
    }

    /// Adds a modification read from the log to its node, whose page has `in_page` entries. Returns whether
    /// the node itself would now be shorter than its modifications.
    pub(super) fn touch_again(&mut self, touch: Touch<'_>, in_page: u32) -> bool {
        self.touch(touch);
        let Some(waiting) = self.nodes.get_mut(&touch.node) else { return false };
        let before = if waiting.modifications == 1 { in_page } else { waiting.entries };
        waiting.entries = entries_after(before, touch.modification);
        waiting.mods.len() > (waiting.entries as usize + 1) * mod_bytes(&self.format)
    }

    /// Makes a row for a node that has none. Returns the flushing unit that the node joined.
    fn join(&mut self, touch: Touch<'_>) -> u64 {
        let is_open = self.units.get(&self.next_unit).is_some_and(|unit| unit.nodes.len() < self.unit_nodes);
        if !is_open {
            self.next_unit += 1;
        }
        let unit = self.next_unit;
        self.units.entry(unit).or_default().nodes.push(touch.node);
        let waiting = Waiting {
            mods: Vec::new(),
            modifications: 0,
            level: touch.level,
            entries: 0,
            first: touch.operation,
            touched: touch.operation,
            unit,
            spread: None,
        };
        self.nodes.insert(touch.node, waiting);
        self.bytes += Self::NODE_BYTES;
        unit
    }

    /// Replaces the modifications of a node by the whole node, if that is shorter.
    pub(super) fn shorten(&mut self, id: NodeId, node: &Node<C, D>) {
        let Some(waiting) = self.nodes.get_mut(&id) else { return };
        let whole = (node.entries.len() + 1) * mod_bytes(&self.format);
        if waiting.mods.len() <= whole {
            return;
        }
        let before = waiting.mods.capacity();
        let mut mods = Vec::with_capacity(whole);
        show_whole(&self.format, node, &mut |modification| mods.extend_from_slice(modification));
        waiting.mods = mods;
        self.bytes = self.bytes + waiting.mods.capacity() - before;
    }

    /// Applies the modifications of a node. The caller gives the node of its page, unless the modifications
    /// are the whole node.
    pub(super) fn apply_to(&self, id: NodeId, node: &mut Node<C, D>) -> Result<(), Breach> {
        let Some(waiting) = self.nodes.get(&id) else { return Ok(()) };
        let mut mods = waiting.mods.chunks_exact(mod_bytes(&self.format));
        mods.try_for_each(|modification| apply(&self.format, modification, node))
    }

    pub(super) fn remove(&mut self, id: NodeId) {
        let Some(waiting) = self.nodes.remove(&id) else { return };
        self.bytes -= Self::NODE_BYTES + waiting.mods.capacity();
        let Some(unit) = self.units.get_mut(&waiting.unit) else { return };
        unit.nodes.retain(|other| *other != id);
        unit.modifications -= waiting.modifications;
        if unit.nodes.is_empty() {
            self.units.remove(&waiting.unit);
        }
    }

    /// Measures the extents that are not known yet.
    pub(super) fn measure_spreads(&mut self) {
        for waiting in self.nodes.values_mut() {
            if waiting.spread.is_none() {
                waiting.spread = Some(spread::<C, D>(&self.format, &waiting.mods));
            }
        }
    }

    /// A message about counts that do not agree, if any.
    pub(super) fn fault(&self) -> Option<String> {
        let rows = self.nodes.values().map(|waiting| Self::NODE_BYTES + waiting.mods.capacity());
        let bytes: usize = rows.sum();
        if bytes != self.bytes {
            return Some(message!("{bytes} bytes are buffered, {} are counted", self.bytes));
        }
        let in_units: usize = self.units.values().map(|unit| unit.nodes.len()).sum();
        let fits = |unit: &Unit| {
            let rows = unit.nodes.iter().filter_map(|id| self.nodes.get(id));
            rows.map(|waiting| waiting.modifications).sum::<u64>() == unit.modifications
                && (1..=self.unit_nodes).contains(&unit.nodes.len())
        };
        let is_right = in_units == self.nodes.len() && self.units.values().all(fits);
        (!is_right).then(|| String::from("the units do not fit the nodes buffered"))
    }
}

/// Measures the extent of the entries that these modifications put.
fn spread<C: Coordinate, const D: usize>(format: &NodeFormat, mods: &[u8]) -> Spread<C::Measure> {
    let puts = || mods.chunks_exact(mod_bytes(format)).filter_map(entry_put);
    let rects =
        || puts().filter_map(|(_, is_data, entry)| Some(format.entry_at::<C, D>(is_data, entry)?.0.rect));
    let area = rects().reduce(|a, b| a.union(&b)).map(|around| around.area());
    let mut shared = C::Measure::ZERO;
    for (i, a) in rects().enumerate() {
        shared = rects().skip(i + 1).fold(shared, |sum, b| sum.plus(a.overlap(&b)));
    }
    (area, (rects().nth(1).is_some()).then_some(shared))
}
