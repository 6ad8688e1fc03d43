//! B-epsilon-tree: inner nodes of several pages keep messages for the levels below.
//!
//! G. S. Brodal, R. Fagerberg, "Lower Bounds for External Memory Dictionaries", SODA 2003; M. A. Bender et
//! al., "An Introduction to B-epsilon-trees and Write-Optimization", ;login: 40(5), 2015, and its reference
//! implementation. An inner node spends little of its room on children and the rest on *messages*: operation
//! records that are on their way down. An update is a message in the root. A node that is full sends the
//! messages of one child, the one with the most, all at once; so a node is written for many updates, not for
//! each.
//!
//! # State
//!
//! The root is in RAM whole, with its messages; below it a node is a unit of pages (`messages/node.rs` has
//! every byte). A leaf has records only.
//!
//! # Operations
//!
//! - *insert, remove*: a message in the root, in the place of an older one of its key. If the root has no
//!   room for it, one *flush* first.
//! - *flush*: (1) The child with the most messages is read. (2) If it is an inner node without room for them,
//!   it flushes in turn, once. (3) It takes as many as it has room for; the rest stay above. (4) A leaf
//!   applies all: tombstones vanish, and one that gets too full becomes several, 0.4 to 0.6 full. (5) Nodes
//!   on the way, one of each level, are written once, to fresh units, and split if they have too many
//!   children. As many messages go down as a sixteenth of a full buffer at least: no child of at most 16 has
//!   less than the mean.
//! - *get*: down from the root, in each node the first page and the page that can have a message of the key;
//!   the first message found is the newest.
//! - *range*: the messages of all levels are carried down and merged with the leaves.
//! - *sync*: the root goes to fresh units, then the manifest.
//!
//! A leaf, or an inner node, of which nothing is left is taken out of its parent; under-full nodes are left
//! alone, until E3 has all messages go to the leaves: then neighbours in one parent are joined.
//!
//! # Invariants
//!
//! Those of [`messages`](crate::ordered::messages), and
//!
//! - T1 Keys in a node ascend strictly; a leaf has values only, no tombstones.
//! - T2 Keys, messages among them, lie within the bounds that the parents have for their node.
//! - E1 No node has more children or messages than the layout allows: flushes end with room.
//! - E2 Nodes and messages are as many as were counted.
//! - E3 There are free units for a flush, and for all the splits to which the messages that wait can lead. An
//!   insertion for which there are not has all messages go to the leaves first, and is refused if that is not
//!   enough; a load after which there are not is refused. So removals always find room.
//!
//! # Deviations and confidence
//!
//! High: concept and algorithm, from the reference implementation. Ours: room for children and for messages
//! is fixed apart, so that the threshold of a sixteenth is always met; updates of a value are insertions (no
//! deltas); nodes are copied on write; E3.

use crate::ordered::messages::ground::{
    Ascending, CommittedState, Common, Identity, Layout, MessageScheme, MessageTree, Node, NodeAt, PUT, Run,
    Shadow, ShadowOn, Shape, StorePages, Tally, Tour, Written, corrupted, make_room,
};
use alloc::vec;
use alloc::vec::Vec;
use nandex::check::{CheckReport, IndexError, Invariant, message};
use nandex::codec::{get_u16, put_u32};
use nandex::nand::Cause;
use nandex::ordered::RecordFormat;
use nandex::ordered::change::Change;
use nandex::units::Lpn;

#[cfg(test)]
mod tests;

/// The B-epsilon-tree: inner nodes keep messages for the levels below.
pub type BEpsilonTree<S> = MessageTree<S, BEpsilon>;

/// The settings of a B-epsilon-tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BEpsilonConfig {
    /// The sizes of records, the durability class, and the exactness of answers.
    pub common: Common,
    /// Number of pages of a node. `None` means as many as make 4 KiB, but at most 8.
    pub node_pages: Option<u32>,
    /// Largest number of children of an inner node.
    pub fanout: u32,
}

const NODE_BYTES: usize = 4096;
const NODE_PAGES: usize = 8;
const FANOUT: u32 = 16;

impl BEpsilonConfig {
    /// Settings with nodes of 4 KiB and 16 children.
    pub const fn new(record: RecordFormat) -> BEpsilonConfig {
        BEpsilonConfig { common: Common::new(record), node_pages: None, fanout: FANOUT }
    }

    fn unit_pages(&self, page_bytes: usize) -> usize {
        let suits = (NODE_BYTES / page_bytes.max(1)).clamp(1, NODE_PAGES);
        self.node_pages.map_or(suits, |pages| pages as usize)
    }

    fn layout(&self, page_bytes: usize) -> Result<Layout, IndexError> {
        let (shape, pages) = (Shape::of(self.common.record), self.unit_pages(page_bytes));
        let layout = Layout::new(shape, page_bytes, pages, Some(self.fanout as usize))?;
        if layout.inner_records < layout.fanout {
            return Err(IndexError::unsupported(message!(
                "a node of {pages} pages of {page_bytes} bytes has room for {} messages beside {} children",
                layout.inner_records,
                layout.fanout
            )));
        }
        Ok(layout)
    }
}

/// The scheme of the B-epsilon-tree: its root in RAM, and the rules by which messages move.
pub struct BEpsilon {
    layout: Layout,
    root: Node,
    /// Counts of the nodes below the root and of the messages in the whole tree.
    tally: Tally,
    /// The tally and the number of messages in the root when a draining last gained nothing. While both are
    /// the same, another draining would gain nothing either.
    drained_at: Option<(Tally, usize)>,
    counts: BEpsilonCounts,
}

#[derive(Clone, Copy, Debug, Default)]
struct BEpsilonCounts {
    flushes: u64,
    flushed_messages: u64,
    drains: u64,
}

impl BEpsilon {
    fn over(layout: Layout, root: Node) -> BEpsilon {
        BEpsilon {
            layout,
            root,
            tally: Tally::default(),
            drained_at: None,
            counts: BEpsilonCounts::default(),
        }
    }

    /// Largest number of records in the root.
    fn root_records_max(&self) -> usize {
        if self.root.level == 1 { self.layout.leaf_records } else { self.layout.inner_records }
    }

    /// Largest number of units that one flush takes: the parts of a leaf, two nodes of each level between,
    /// and two for the root.
    fn flush_units(&self) -> u32 {
        self.flush_units_at(self.root.level)
    }

    /// The units of a flush if the root had this level.
    fn flush_units_at(&self, level: u8) -> u32 {
        let full = self.layout.leaf_records + self.layout.inner_records;
        (full * 24 / (10 * self.layout.leaf_records)) as u32 + 2 * u32::from(level).max(2) - 2
    }

    /// The units that must be free for a flush below a root of this level. None if the root is a leaf.
    fn flush_units_of(&self, level: u8) -> u32 {
        if level > 1 { self.flush_units_at(level) } else { 0 }
    }

    /// Whether there are units for everything that one more message can lead to (E3). A new level is
    /// included, because later removals flush through it.
    fn has_room(&self, shadow: &Shadow<'_>, spare: u32) -> bool {
        let puts = self.tally.puts + 1;
        let rises = self.layout.may_rise(puts, &self.root);
        let flush = self.flush_units_at(self.root.level + u8::from(rises));
        let growth = self.layout.growth(&self.tally, puts, &self.root);
        shadow.units.free_after_commit() >= flush.saturating_add(growth).saturating_add(spare)
    }

    /// Whether there are units for a flush, and E3 holds with one more value that adds no node. It splits
    /// nothing, but is counted among the messages that may.
    fn has_room_in_leaf(&self, shadow: &Shadow<'_>) -> bool {
        let growth = self.layout.growth(&self.tally, self.tally.puts + 1, &self.root);
        shadow.units.free_after_commit() >= growth.max(self.flush_units_of(self.root.level))
    }

    /// Makes sure that one more value has room, by draining if needed.
    fn make_room_to_put(&mut self, shadow: &mut Shadow<'_>) -> Result<(), IndexError> {
        // A root that is a leaf with room takes a record without any unit.
        let is_small = self.root.level == 1 && self.root.records.len() < self.layout.leaf_records;
        if is_small || self.has_room(shadow, 0) {
            return Ok(());
        }
        // So that what a draining gains lasts for more than one message.
        let spare = shadow.units.count() / 64;
        if self.drained_at == Some((self.tally, self.root.records.len())) {
            return Err(IndexError::NO_BLOCK);
        }
        self.drain(shadow)?;
        if self.has_room(shadow, spare) {
            return Ok(());
        }
        self.drained_at = Some((self.tally, self.root.records.len()));
        Err(IndexError::NO_BLOCK)
    }

    /// Flushes the child of the root with the most messages.
    fn flush(&mut self, shadow: &mut Shadow<'_>) -> Result<(), IndexError> {
        make_room(shadow, self, self.flush_units())?;
        let (slot, range) = self.root.heaviest();
        let (mut root, mut tally, layout) = (self.root.clone(), self.tally, self.layout);
        let moved = range.len();
        shadow.attempt(|shadow| {
            let mut batch = root.records.take(range);
            let node = NodeAt { unit: root.children.unit(slot), level: root.level - 1 };
            let written = flush_into(&layout, shadow, &mut tally, node, &mut batch)?;
            root.records = root.records.under(batch.all(), true);
            layout.settle((shadow, &mut tally), &mut root, slot, &written)
        })?;
        (self.root, self.tally) = (root, tally);
        self.counts.flushes += 1;
        self.counts.flushed_messages += moved as u64;
        Ok(())
    }

    /// Sends every message to its leaf, leaf by leaf, and joins leaves that are far from full.
    fn drain(&mut self, shadow: &mut Shadow<'_>) -> Result<(), IndexError> {
        self.counts.drains += 1;
        let mut from = Some(vec![0; self.layout.shape.key]);
        while let Some(key) = from.filter(|_| self.root.level > 1) {
            make_room(shadow, self, self.flush_units())?;
            let (mut root, mut tally, layout) = (self.root.clone(), self.tally, self.layout);
            from = shadow.attempt(|shadow| layout.sweep(shadow, &mut tally, &mut root, &key))?;
            (self.root, self.tally) = (root, tally);
        }
        Ok(())
    }

    /// Splits a root that is a full leaf into leaves below a new root.
    fn grow(&mut self, shadow: &mut Shadow<'_>) -> Result<(), IndexError> {
        make_room(shadow, self, 2)?;
        let (layout, mut tally) = (self.layout, self.tally);
        let records = &self.root.records;
        let halves = shadow.attempt(|shadow| {
            let (low, high) = (0..records.len() / 2, records.len() / 2..records.len());
            let mut children = layout.write_leaves(shadow, &mut tally, records.all().slice(low))?.children;
            let high = layout.write_leaves(shadow, &mut tally, records.all().slice(high))?.children;
            children.push(high.key(0), high.unit(0));
            Ok(children)
        })?;
        self.root = Node { level: 2, children: halves, records: Run::new(layout.shape) };
        self.tally = tally;
        Ok(())
    }
}

/// Sends messages to a node, which takes as many as it has room for. Returns the other messages.
fn flush_into(
    layout: &Layout,
    shadow: &mut Shadow<'_>,
    tally: &mut Tally,
    NodeAt { unit, level }: NodeAt,
    batch: &mut Run,
) -> Result<Written, IndexError> {
    let mut node = layout.read(shadow, unit, level, Cause::Merge)?;
    Layout::release(shadow, tally, NodeAt { unit, level });
    if level == 1 {
        let all = batch.take(0..batch.len());
        tally.puts -= all.all().puts() as i64;
        let records = node.records.under(all.all(), false);
        return layout.write_leaves(shadow, tally, records.all());
    }
    let mut vacant_below = None;
    if node.records.len() + batch.len() > layout.inner_records {
        let (slot, range) = node.heaviest();
        let mut down = node.records.take(range);
        let child = NodeAt { unit: node.children.unit(slot), level: level - 1 };
        let written = flush_into(layout, shadow, tally, child, &mut down)?;
        node.records = node.records.under(down.all(), true);
        node.replace(slot, &written, shadow, tally);
        vacant_below = (written.is_vacant && node.children.len() == 1).then_some(written.vacant_units);
    }
    let room = layout.inner_records - node.records.len();
    let taken = batch.take(0..batch.len().min(room));
    let before = (node.records.all().puts() + taken.all().puts()) as i64;
    node.records = node.records.under(taken.all(), true);
    tally.puts -= before - node.records.all().puts() as i64;
    layout.write_above(shadow, tally, &node, vacant_below)
}

impl MessageScheme for BEpsilon {
    type Config = BEpsilonConfig;

    fn common(config: &BEpsilonConfig) -> Common {
        config.common
    }

    fn identity(config: &BEpsilonConfig, pages: StorePages) -> Result<Identity, IndexError> {
        let page_bytes = pages.bytes;
        let layout = config.layout(page_bytes)?;
        let mut parameters = [0; 16];
        put_u32(&mut parameters, 0, layout.fanout as u32);
        Ok(Identity {
            name: *b"NXBEPS01",
            record: config.common.record,
            unit_pages: config.unit_pages(page_bytes) as u32,
            parameters,
        })
    }

    fn new(config: &BEpsilonConfig, shadow: &mut Shadow<'_>) -> Result<BEpsilon, IndexError> {
        let layout = config.layout(shadow.page_bytes())?;
        let root_bytes = 5 + layout.node_bytes();
        let reserve = shadow.units_for_state(root_bytes).max(1);
        shadow.set_reserve(reserve)?;
        Ok(BEpsilon::over(layout, Node::leaf(layout.shape)))
    }

    fn restore(
        config: &BEpsilonConfig,
        shadow: &mut Shadow<'_>,
        state: CommittedState,
    ) -> Result<BEpsilon, IndexError> {
        let state = &state.rest(shadow)?[..];
        let mut tree = BEpsilon::new(config, shadow)?;
        let wrong = corrupted(Invariant::S1, "the state is no root", Lpn(0));
        if state.len() < 5 {
            return Err(wrong);
        }
        let (level, children, records) =
            (state[0], usize::from(get_u16(state, 1)), usize::from(get_u16(state, 3)));
        let root = tree.layout.node_of(level, (children, records), &state[5..]).ok_or(wrong)?;
        if u32::from(level) > tree.layout.height_max(shadow.units.count()) + 1 {
            return Err(corrupted(Invariant::S1, "a tree higher than its store allows", Lpn(0)));
        }
        tree.tally.puts = if level == 1 { 0 } else { root.records.all().puts() as i64 };
        tree.layout.claim_below(shadow, &mut tree.tally, &root)?;
        tree.root = root;
        Ok(tree)
    }

    fn state_bytes(&self) -> usize {
        5 + self.root.children.bytes().len() + self.root.records.bytes.len()
    }

    fn save(&self, put: &mut dyn FnMut(&[u8]) -> Result<(), IndexError>) -> Result<(), IndexError> {
        let (children, records) = (self.root.children.len() as u16, self.root.records.len() as u16);
        put(&[self.root.level])?;
        put(&children.to_le_bytes())?;
        put(&records.to_le_bytes())?;
        put(self.root.children.bytes())?;
        put(&self.root.records.bytes)
    }

    fn known(&self, key: &[u8]) -> Option<bool> {
        let found = self.root.records.all().find(key).map(|(kind, _)| kind == PUT);
        found.or((self.root.level == 1).then_some(false))
    }

    fn find(&mut self, shadow: &mut Shadow<'_>, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        if let Some((kind, found)) = self.root.records.all().find(key) {
            value.copy_from_slice(found);
            return Ok(kind == PUT);
        }
        let mut level = self.root.level;
        if level == 1 {
            return Ok(false);
        }
        let mut unit = self.root.children.unit(self.root.children.slot(key));
        loop {
            level -= 1;
            match self.layout.find(shadow, NodeAt { unit, level }, key, value)? {
                (Some(kind), _) => return Ok(kind == PUT),
                (None, _) if level == 1 => return Ok(false),
                (None, child) => unit = child,
            }
        }
    }

    fn admit(&mut self, shadow: &mut Shadow<'_>, key: &[u8]) -> Result<(), IndexError> {
        let found = self.root.records.all().find(key).map(|(kind, _)| kind);
        if found == Some(PUT) { Ok(()) } else { self.make_room_to_put(shadow) }
    }

    fn admit_in_leaf(&mut self, shadow: &mut Shadow<'_>) -> Result<(), IndexError> {
        if !self.has_room_in_leaf(shadow) {
            self.drain(shadow)?;
        }
        if self.has_room_in_leaf(shadow) { Ok(()) } else { Err(IndexError::NO_BLOCK) }
    }

    fn leaf_takes(&mut self, shadow: &mut Shadow<'_>, key: &[u8]) -> Result<bool, IndexError> {
        let room = self.layout.room_in_leaf(shadow, &self.root, key)?;
        if room == 0 || room > self.tally.puts {
            return Ok(room > 0);
        }
        self.drain(shadow)?;
        Ok(self.layout.room_in_leaf(shadow, &self.root, key)? > self.tally.puts)
    }

    fn update(&mut self, shadow: &mut Shadow<'_>, change: Change<'_>) -> Result<(), IndexError> {
        // Draining, flushing and growing leave other messages, or none; a flush may leave a root that is a
        // leaf.
        loop {
            let is_known = self.root.records.all().search(change.key).is_ok();
            if self.root.level == 1 && change.value.is_none() {
                self.root.records.remove(change.key);
                return Ok(());
            } else if is_known || self.root.records.len() < self.root_records_max() {
                break;
            } else if self.root.level == 1 {
                self.grow(shadow)?;
            } else {
                self.flush(shadow)?;
            }
        }
        if self.root.level > 1 {
            let was = self.root.records.all().find(change.key).is_some_and(|(kind, _)| kind == PUT);
            self.tally.puts += i64::from(change.value.is_some()) - i64::from(was);
        }
        self.root.records.put(change);
        Ok(())
    }

    fn range(&mut self, shadow: &mut Shadow<'_>, mut tour: Tour<'_, '_>) -> Result<(), IndexError> {
        let nothing = Run::new(self.layout.shape);
        self.layout.walk(shadow, &self.root, nothing.all(), &mut tour).map(drop)
    }

    fn load(&mut self, shadow: &mut Shadow<'_>, records: &mut Ascending<'_, '_>) -> Result<(), IndexError> {
        let (layout, mut tally) = (self.layout, self.tally);
        let root = shadow.attempt(|shadow| {
            let root = layout.build(shadow, &mut tally, records)?;
            let has_room = shadow.units.free_after_commit() >= self.flush_units_of(root.level);
            if has_room { Ok(root) } else { Err(IndexError::NO_BLOCK) }
        })?;
        (self.root, self.tally) = (root, tally);
        Ok(())
    }

    fn check(&mut self, shadow: &mut Shadow<'_>, report: &mut CheckReport) -> Result<u32, IndexError> {
        let (root, layout) = (&self.root, &self.layout);
        if root.records.len() > self.root_records_max() || root.children.len() > layout.fanout {
            report.violation(Invariant::E1, 0, message!("{} records in the root", root.records.len()));
        }
        let found = layout.check_below(shadow, report, (root, 0), (None, None))?;
        let was = (self.tally.leaves, self.tally.inner, self.tally.puts);
        if (found.leaves, found.inner, found.puts) != was {
            report.violation(Invariant::E2, 0, message!("{found:?} where {was:?} was counted"));
        }
        // Not the sum: the record that turns a full leaf into two waits above halves, and splits none.
        let wanted = self.flush_units_of(root.level).max(layout.growth(&self.tally, self.tally.puts, root));
        if shadow.units.free_after_commit() < wanted {
            report.violation(Invariant::E3, 0, message!("{wanted} units are wanted for messages that wait"));
        }
        Ok((found.leaves + found.inner) as u32)
    }

    fn is_empty(&self) -> bool {
        self.root.level == 1 && self.root.records.is_empty()
    }

    fn records_left(&self, free: u64, used: u64) -> u64 {
        // What a flush below a root one level higher takes, and a drain leaves free (`make_room_to_put`).
        let kept = u64::from(self.flush_units_at(self.root.level + 1)) + (free + used) / 64 + 2;
        self.layout.records_on(free.saturating_sub(kept + u64::from(self.root.level)), &self.tally)
    }

    fn height(&self) -> u32 {
        self.root.level.into()
    }

    fn metrics(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("node_pages", (self.layout.node_bytes() / self.layout.page_bytes()) as u64),
            ("flushes", self.counts.flushes),
            ("flushed_messages", self.counts.flushed_messages),
            ("drains", self.counts.drains),
            ("leaves", self.tally.leaves as u64),
            ("inner_nodes", self.tally.inner as u64),
            ("waiting_insertions", self.tally.puts as u64),
            ("leaf_writes", self.tally.leaf_writes),
            ("inner_writes", self.tally.inner_writes),
            ("splits", self.tally.splits),
            ("expelled", self.tally.expelled),
        ]
    }

    fn waiting_records_max(config: &BEpsilonConfig) -> u64 {
        (NODE_BYTES / Shape::of(config.common.record).bytes()) as u64
    }

    /// Bytes of RAM: the root and its copy; and of a flush a node of each level, a merged leaf, and the
    /// nodes being written.
    fn ram_bytes(config: &BEpsilonConfig, store: StorePages) -> Result<usize, IndexError> {
        let StorePages { bytes: page_bytes, count: pages } = store;
        let layout = config.layout(page_bytes)?;
        let unit_pages = config.unit_pages(page_bytes) as u32;
        let height = layout.height_max(pages / unit_pages) as usize;
        let nodes = (height + 4) * layout.node_bytes() + 2 * page_bytes;
        Ok(nodes + ShadowOn::<()>::ram_bytes_for(pages, unit_pages, 2))
    }
}
