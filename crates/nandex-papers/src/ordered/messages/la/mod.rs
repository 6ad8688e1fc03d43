//! LA-tree: subtrees of K levels share a buffer on flash, which is emptied when it is full or when look-ups
//! have paid for it.
//!
//! D. Agrawal, D. Ganesan, R. Sitaraman, Y. Diao, S. Singh, "Lazy-Adaptive Tree: An Optimized Index Structure
//! for Flash Devices", VLDB 2009. The levels of a B+-tree are cut, from the leaves up, into subtrees of K
//! levels. Each subtree has a *buffer*: a chain of pages on flash of the records that are on their way into
//! it. Emptying a buffer sends all its records to the buffers of the next subtrees, or to the leaves, at
//! once.
//!
//! # State
//!
//! In RAM: the root node; for each buffer its least key, where its chain ends and its size, a *fragment* of
//! records that do not fill a page yet, and what look-ups saw of it. On flash: nodes of a page
//! (`messages/node.rs`), chains (`buffer.rs`).
//!
//! # Operations
//!
//! - *insert, remove*: into the fragment of the root's buffer. A full fragment becomes a page of the chain.
//! - *Empty*: the chain is read and sorted, the newest record of a key stays. Above the last subtrees the
//!   records join the fragments of the next buffers, of which the largest are written as they are when all
//!   take more RAM than they have. Else one pass through the nodes applies them to the leaves: a leaf is
//!   written once for all its records, one that gets too full becomes several, 0.4 to 0.6 full. Nodes are
//!   copied on write. If fresh pages are scarce, it is done in portions with commits between them: the buffer
//!   keeps all records until the end, and applying one again changes nothing.
//! - *get*: the root's buffer, the newest page first, then those below, then the nodes: the first record
//!   found is the newest. Each buffer that was scanned is asked whether it should be emptied.
//! - *ADAPT*: for each size that a buffer had: how many pages later look-ups would have been spared, had it
//!   been emptied then? Once that is what emptying would have cost, it is emptied (ski rental, in page
//!   reads). It is also emptied at `buffer_pages`.
//! - *range*: buffers and nodes, merged from the top down.
//! - *sync*: root and fragments go to fresh pages, then the manifest.
//!
//! # Invariants
//!
//! Those of [`messages`](crate::ordered::messages), T1 and T2 of the
//! [B-epsilon-tree](crate::ordered::bepsilon), and
//!
//! - L1 The buffers of a level divide the keys between them; a buffer's records are keys that it takes.
//! - L2 A chain has as many pages and records as its buffer says. A record of an upper buffer is newer than
//!   one of its key below.
//! - L3 A buffer is divided, when its subtree splits, only while it is empty.
//! - L4 There are free pages for all the splits to which waiting records can lead. An insertion for which
//!   there are not has all buffers emptied first, from the bottom up, and is refused if that is not enough.
//!   A load that leaves none to bring a record to its leaf is refused. So removals always find room.
//!
//! # Deviations and confidence
//!
//! High for the concept, medium for the rest: mechanics and ADAPT's inequality are our reading, K, node size
//! and memory are parameters. Ours: nodes are logical pages, copied on write up to the root, so an operation
//! needs no table of node addresses; the keys that divide buffers are in RAM, so emptying one into the next
//! reads no node; a buffer that is not empty stays whole when its subtree splits and serves both; ADAPT
//! remembers eight sizes; the root node is in RAM and nothing else is but what the page cache below has, so
//! no memory is divided here.

mod buffer;
mod empty;
mod settings;
#[cfg(test)]
mod tests;

pub use settings::LaConfig;

use crate::ordered::messages::ground::{
    Ascending, CommittedState, Common, Identity, Layout, MessageScheme, MessageTree, Node, PUT, Run, Shadow,
    ShadowOn, Slice, StorePages, Tally, Tour, corrupted,
};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use buffer::Buffer;
use nandex::check::{CheckReport, IndexError, Invariant, message};
use nandex::codec::{get_u16, get_u32, put_u32};
use nandex::nand::Cause;
use nandex::ordered::change::Change;
use nandex::units::Lpn;

/// The LA-tree: subtrees share buffers on flash.
pub type LaTree<S> = MessageTree<S, La>;

/// The buffers of the subtrees whose roots have the same level.
#[derive(Clone, Debug)]
struct Floor {
    level: u8,
    buffers: Vec<Buffer>,
}

impl Floor {
    fn slot(&self, key: &[u8]) -> usize {
        self.buffers.partition_point(|buffer| buffer.low[..] <= *key).saturating_sub(1)
    }

    fn records_of(&self, i: usize, records: Slice<'_>) -> core::ops::Range<usize> {
        let from = if i == 0 { 0 } else { records.lower_bound(&self.buffers[i].low) };
        let to = self.buffers.get(i + 1).map_or(records.len(), |next| records.lower_bound(&next.low));
        from..to.max(from)
    }
}

/// The scheme of the LA-tree: its root and fragments in RAM, and the rules for emptying buffers.
pub struct La {
    layout: Layout,
    config: LaConfig,
    page_records: usize,
    fragment_records: usize,
    root: Node,
    /// The floors from the root's down.
    floors: Vec<Floor>,
    tally: Tally,
    /// Whether an insertion was refused and no change came since. Emptying all buffers again would gain
    /// nothing then.
    is_drained: bool,
    /// Whether records that wait may have reached the leaves before, as after a mount. Then the splits they
    /// can cause have happened already.
    may_repeat: bool,
    counts: LaCounts,
}

#[derive(Clone, Copy, Debug, Default)]
struct LaCounts {
    full_empties: u64,
    adapted_empties: u64,
    portions: u64,
    chain_pages: u64,
    partial_pages: u64,
}

fn take<'a>(state: &mut &'a [u8], bytes: usize) -> Result<&'a [u8], IndexError> {
    let (field, rest) =
        state.split_at_checked(bytes).ok_or(corrupted(Invariant::S1, "the state is too short", Lpn(0)))?;
    *state = rest;
    Ok(field)
}

impl La {
    fn empty_on(config: &LaConfig, shadow: &mut Shadow<'_>) -> Result<La, IndexError> {
        let pages = StorePages { bytes: shadow.page_bytes(), count: shadow.units.count() + 1 };
        let layout = config.layout(pages.bytes)?;
        let most = LaConfig { buffers_max: config.buffers_max.min(shadow.units.count() / 16 + 4), ..*config };
        shadow.set_reserve(shadow.units_for_state(La::state_max(&most, &layout, pages)))?;
        Ok(La::over(&most, layout, pages))
    }

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
            if !ascends
                || !is_first
                || !buffer.fragment.all().are_sorted_of(&[PUT, crate::ordered::messages::ground::REMOVE])
            {
                return Err(corrupted(Invariant::L1, "the buffers of a level are out of order", Lpn(0)));
            }
            floor.buffers.push(buffer);
        }
        if floor.buffers.is_empty() {
            return Err(corrupted(Invariant::L1, "a level without buffers", Lpn(0)));
        }
        Ok(floor)
    }

    fn state_max(config: &LaConfig, layout: &Layout, pages: StorePages) -> usize {
        let shape = layout.shape;
        // A fragment may be a page over before the largest is written.
        let records = config.fragments(pages) + 2 * Buffer::page_records(shape, pages.bytes);
        16 + layout.node_bytes()
            + config.buffers_max as usize * (shape.key + 18)
            + 40
            + records * shape.bytes()
    }
}

impl MessageScheme for La {
    type Config = LaConfig;

    fn common(config: &LaConfig) -> Common {
        config.common
    }

    fn identity(config: &LaConfig, pages: StorePages) -> Result<Identity, IndexError> {
        config.layout(pages.bytes)?;
        let mut parameters = [0; 16];
        put_u32(&mut parameters, 0, config.subtree_levels);
        Ok(Identity { name: *b"NXLATR01", record: config.common.record, unit_pages: 1, parameters })
    }

    fn new(config: &LaConfig, shadow: &mut Shadow<'_>) -> Result<La, IndexError> {
        let tree = La::empty_on(config, shadow)?;
        if tree.has_room(shadow, 0) {
            return Ok(tree);
        }
        let what = message!(
            "{} pages have no room for a record besides what an LA-tree keeps free",
            shadow.units.count()
        );
        Err(IndexError::Unsupported(what.into()))
    }

    fn restore(config: &LaConfig, shadow: &mut Shadow<'_>, state: CommittedState) -> Result<La, IndexError> {
        let state = state.rest(shadow)?;
        let mut state = &state[..];
        let mut tree = La::empty_on(config, shadow)?;
        // Less RAM than when it was written: what it holds finds room all the same.
        let held = shadow.units_for_state(state.len() + 2 * shadow.page_bytes());
        shadow.set_reserve(held.max(shadow.units.reserve()))?;
        let head = take(&mut state, 6)?;
        let (level, children, records) =
            (head[0], usize::from(get_u16(head, 1)), usize::from(get_u16(head, 3)));
        let shape = tree.layout.shape;
        let node = take(&mut state, children * (shape.key + 4) + records * shape.bytes())?;
        let root = tree.layout.node_of(level, (children, records), node);
        tree.root = root.ok_or(corrupted(Invariant::S1, "the state has no root", Lpn(0)))?;
        if u32::from(level) > tree.layout.height_max(shadow.units.count()) + 1 {
            return Err(corrupted(Invariant::S1, "a tree higher than its store allows", Lpn(0)));
        }
        tree.floors.clear();
        for _ in 0..head[5] {
            let floor = tree.restore_floor(&mut state)?;
            if tree.floors.last().is_some_and(|above| above.level <= floor.level) {
                return Err(corrupted(Invariant::L1, "levels of buffers out of order", Lpn(0)));
            }
            tree.floors.push(floor);
        }
        if tree.floors.first().is_none_or(|top| top.buffers.len() != 1) {
            return Err(corrupted(Invariant::L1, "the root has no buffer, or several", Lpn(0)));
        }
        tree.layout.claim_below(shadow, &mut tree.tally, &tree.root)?;
        for buffer in tree.floors.iter().flat_map(|floor| &floor.buffers) {
            let mut units = Vec::new();
            if buffer.pages > shadow.units.count() {
                return Err(corrupted(Invariant::L2, "a buffer longer than the store", Lpn(buffer.tail)));
            }
            buffer.scan(shadow, Cause::Recovery, &mut |unit, _| {
                units.push(unit);
                true
            })?;
            units.into_iter().try_for_each(|unit| shadow.units.claim(unit))?;
        }
        tree.count_puts();
        tree.may_repeat = tree.tally.puts > 0;
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

    fn find(&mut self, shadow: &mut Shadow<'_>, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
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
                Err(error) if error.is_refusal() => {}
                done => done?,
            }
        }
        Ok(found)
    }

    fn admit(&mut self, shadow: &mut Shadow<'_>, _key: &[u8]) -> Result<(), IndexError> {
        self.make_room_to_put(shadow)
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
        let top = &self.floors[0].buffers[0];
        if top.fragment.len() >= self.page_records && top.fragment.all().search(change.key).is_err() {
            self.make_way(shadow)?;
        }
        let top = &mut self.floors[0].buffers[0].fragment;
        let was = top.all().find(change.key).is_some_and(|(kind, _)| kind == PUT);
        self.tally.puts += i64::from(change.value.is_some()) - i64::from(was);
        top.put(change);
        self.is_drained = false;
        Ok(())
    }

    fn range(&mut self, shadow: &mut Shadow<'_>, mut tour: Tour<'_, '_>) -> Result<(), IndexError> {
        let nothing = Run::new(self.layout.shape);
        self.walk(shadow, 0, &mut tour, nothing.all()).map(drop)
    }

    fn load(&mut self, shadow: &mut Shadow<'_>, records: &mut Ascending<'_, '_>) -> Result<(), IndexError> {
        let (layout, before) = (self.layout, self.tally);
        let built = shadow.attempt(|shadow| {
            self.root = layout.build(shadow, &mut self.tally, records)?;
            if self.has_room_to_remove(shadow) { Ok(()) } else { Err(IndexError::NO_BLOCK) }
        });
        if let Err(error) = built {
            (self.root, self.tally) = (Node::leaf(layout.shape), before);
            return Err(error);
        }
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

    fn check(&mut self, shadow: &mut Shadow<'_>, report: &mut CheckReport) -> Result<u32, IndexError> {
        let found = self.layout.check_below(shadow, report, (&self.root, 0), (None, None))?;
        let (is, was) = ((found.leaves, found.inner), (self.tally.leaves, self.tally.inner));
        if is != was {
            let found = message!("{is:?} leaves and inner nodes where {was:?} were counted");
            report.violation(Invariant::T3, 0, found);
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
                    let found = "a record of another buffer".to_string();
                    report.violation(Invariant::L1, buffer.tail.into(), found);
                }
                if (records, puts) != (buffer.records, buffer.puts) {
                    let found = message!("{records} records in a chain");
                    report.violation(Invariant::L2, buffer.tail.into(), found);
                }
            }
        }
        let growth = self.layout.growth(&self.tally, self.tally.puts, &self.root);
        if shadow.units.free_after_commit() < growth && !self.may_repeat {
            report.violation(Invariant::L4, 0, message!("{growth} pages are wanted for records that wait"));
        }
        Ok((found.leaves + found.inner) as u32 + pages)
    }

    fn is_empty(&self) -> bool {
        let empty = self.floors.iter().flat_map(|floor| &floor.buffers).all(Buffer::is_empty);
        empty && self.root.level == 1 && self.root.records.is_empty()
    }

    fn records_left(&self, free: u64, used: u64) -> u64 {
        // What brings a record to its leaf, and what a drain leaves free (`make_room_to_put`).
        let kept = self.portion_units(1) + (free + used) / 64 + u64::from(self.root.level) + 4;
        self.layout.records_on(free.saturating_sub(kept), &self.tally)
    }

    fn height(&self) -> u32 {
        self.root.level.into()
    }

    fn metrics(&self) -> Vec<(&'static str, u64)> {
        let buffers = || self.floors.iter().flat_map(|floor| &floor.buffers);
        vec![
            ("buffers", self.buffers() as u64),
            ("buffer_pages", buffers().map(|buffer| u64::from(buffer.pages)).sum()),
            ("buffer_ram_bytes", buffers().map(|buffer| buffer.fragment.bytes.capacity() as u64).sum()),
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
            ("expelled", self.tally.expelled),
        ]
    }

    fn waiting_records_max(config: &LaConfig) -> u64 {
        config.fragment_records.into()
    }

    /// Bytes of RAM: the root and its copy, a node of each level and one more; fragments and buffers with a
    /// copy of each; and a sorted chain.
    fn ram_bytes(config: &LaConfig, pages: StorePages) -> Result<usize, IndexError> {
        let layout = config.layout(pages.bytes)?;
        let height = layout.height_max(pages.count) as usize;
        let records = config.fragments(pages) + 2 * Buffer::page_records(layout.shape, pages.bytes);
        let buffers =
            config.buffers_max.min(pages.count / 16 + 4) as usize * Buffer::ram_bytes(layout.shape.key);
        let state = La::state_max(config, &layout, pages) / pages.bytes + 2;
        Ok((height + 4) * layout.node_bytes()
            + 2 * records * layout.shape.bytes()
            + 2 * buffers
            + (2 * config.buffer_pages as usize + 2) * pages.bytes
            + ShadowOn::<()>::ram_bytes_for(pages.count, 1, state as u32))
    }
}
